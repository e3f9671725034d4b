//! `hooks`: handlers with their matchers.

use std::time::Duration;

use regex::Regex;
use stockade_parser::json::Value;

use super::source::{Problems, Source, join};
use super::texts;
use crate::layer::Layer;
use crate::settings::{CommandHook, Hook, HookEvent, Severity};

/// Time limit of a handler that names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Events of the reference at which nothing of ours runs.
const OTHER_EVENTS: [&str; 24] = [
    "PostToolBatch",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "Setup",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "StopFailure",
    "Notification",
    "PreCompact",
    "PostCompact",
    "CwdChanged",
    "DirectoryAdded",
    "FileChanged",
    "InstructionsLoaded",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
    "WorktreeCreate",
    "WorktreeRemove",
    "Elicitation",
    "ElicitationResult",
    "MessageDisplay",
    "PermissionAsked",
];

/// The handlers found so far.
#[derive(Debug, Default)]
pub(super) struct Collected {
    hooks: Vec<Hook>,
    all_off: bool,
    unmanaged_off: bool,
}

impl Collected {
    /// Takes `disableAllHooks`.
    pub fn disable(&mut self, source: &Source<'_>, value: &Value) {
        if source.layer() == Layer::Policy {
            self.all_off = value.boolean() == Some(true);
        } else if !source.is_shared() || value.boolean() == Some(true) || source.widens() {
            self.unmanaged_off = value.boolean() == Some(true);
        }
    }

    /// Takes one `hooks` object.
    pub fn take(
        &mut self,
        source: &Source<'_>,
        value: &Value,
        pointer: &str,
        problems: &mut Problems,
    ) {
        let Some(events) = value.members() else {
            problems.refuse(
                source,
                value.span,
                pointer,
                "an object of events is expected here",
                "mend the file",
            );
            return;
        };
        if !source.widens() {
            let message = "hooks do not run before the folder is trusted";
            problems.warn(
                source,
                value.span,
                pointer,
                message,
                "run `stockade policy trust` after reading the file",
            );
            return;
        }
        for event in events {
            let pointer = join(pointer, &event.key);
            match HookEvent::named(&event.key) {
                Some(known) if runs(known) => {
                    self.groups(source, &event.value, &pointer, known, problems)
                }
                known if known.is_some() || OTHER_EVENTS.contains(&event.key.as_str()) => {
                    let message = format!("hooks of `{}` do not run here", event.key);
                    problems.warn(
                        source,
                        event.key_span,
                        &pointer,
                        &message,
                        "they have no effect",
                    );
                }
                Some(_) | None => {
                    let message = format!("there is no event `{}`", event.key);
                    problems.warn(source, event.key_span, &pointer, &message, "check its spelling");
                }
            }
        }
    }

    fn groups(
        &mut self,
        source: &Source<'_>,
        value: &Value,
        pointer: &str,
        event: HookEvent,
        problems: &mut Problems,
    ) {
        let severity = severity(source);
        let Some(groups) = value.elements() else {
            problems.add(
                severity,
                source,
                value.span,
                pointer,
                "a list is expected here",
                "write `[ ]` around it",
            );
            return;
        };
        for (index, group) in groups.iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            let matcher = group.get("matcher").map_or(Some(""), Value::text);
            let handlers = group.get("hooks").and_then(Value::elements);
            let (Some(matcher), Some(handlers)) = (matcher, handlers) else {
                let message = "an object with `matcher` and a list `hooks` is expected here";
                problems.add(severity, source, group.span, &pointer, message, "mend this entry");
                continue;
            };
            if !is_plain(matcher) && Regex::new(matcher).is_err() {
                let message = "this matcher is no regular expression; it matches every tool";
                problems.add(
                    severity,
                    source,
                    group.span,
                    &pointer,
                    message,
                    "mend the expression",
                );
            }
            for (index, handler) in handlers.iter().enumerate() {
                let pointer = format!("{pointer}/hooks/{index}");
                match command(handler) {
                    Ok(command) => self.push(Hook {
                        event,
                        matcher: matcher.to_owned(),
                        origin: source.origin(handler.span, &pointer),
                        command,
                    }),
                    Err(message) => {
                        problems.add(
                            severity,
                            source,
                            handler.span,
                            &pointer,
                            message,
                            "use a handler of type `command`",
                        );
                    }
                }
            }
        }
    }

    /// The identical handler in several files runs once, as that of the strongest layer.
    fn push(&mut self, hook: Hook) {
        self.hooks.retain(|known| {
            known.event != hook.event
                || known.matcher != hook.matcher
                || known.command != hook.command
        });
        self.hooks.push(hook);
    }

    /// Returns the handlers that run, strongest layer first.
    pub fn finish(self, managed_only: bool) -> Vec<Hook> {
        let mut hooks = self.hooks;
        if self.all_off {
            hooks.clear();
        }
        if managed_only || self.unmanaged_off {
            hooks.retain(|hook| hook.origin.layer == Layer::Policy);
        }
        hooks.sort_by_key(|hook| std::cmp::Reverse(hook.origin.layer));
        hooks
    }
}

/// Says whether something of ours makes this event happen.
fn runs(event: HookEvent) -> bool {
    match event {
        HookEvent::PreToolUse | HookEvent::PostToolUse | HookEvent::PostToolUseFailure => true,
        HookEvent::PermissionRequest
        | HookEvent::PermissionDenied
        | HookEvent::SessionStart
        | HookEvent::SessionEnd
        | HookEvent::ConfigChange => false,
    }
}

/// A managed hook that cannot be understood would have blocked something.
fn severity(source: &Source<'_>) -> Severity {
    if source.layer() == Layer::Policy { Severity::Refusal } else { Severity::Warning }
}

fn is_plain(matcher: &str) -> bool {
    matcher.is_empty()
        || matcher == "*"
        || matcher.chars().all(|c| c.is_ascii_alphanumeric() || "_- ,|".contains(c))
}

fn command(handler: &Value) -> Result<CommandHook, &'static str> {
    if handler.get("type").and_then(Value::text) != Some("command") {
        return Err("handlers of this type do not run here");
    }
    let Some(command) = handler.get("command").and_then(Value::text) else {
        return Err("the handler has no `command`");
    };
    let arguments = match handler.get("args") {
        None => None,
        Some(value) => {
            let mut bad = false;
            let list = texts(value, |_, _| bad = true).ok_or("`args` is a list of texts")?;
            if bad {
                return Err("`args` is a list of texts");
            }
            Some(list.into_iter().map(|(_, _, text)| text.to_owned()).collect())
        }
    };
    let timeout = match handler.get("timeout") {
        None => DEFAULT_TIMEOUT,
        Some(value) => match value.whole() {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds.min(86_400)),
            Some(_) | None => return Err("`timeout` is a whole number of seconds above 0"),
        },
    };
    Ok(CommandHook { command: command.to_owned(), arguments, timeout })
}
