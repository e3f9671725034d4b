//! `hooks`: which handlers run at which event, and what keeps them from running.

use regex::Regex;
use stockade_text::json::Value;

use super::handler;
use super::source::{Problems, Source, join};
use super::texts;
use crate::layer::{Layer, Origin};
use crate::settings::hook::{Hook, HookEvent};
use crate::settings::{Settings, Severity, until_trusted};
use crate::spelling::close;

/// Events of the reference at which nothing of ours runs.
const OTHER_EVENTS: [&str; 9] = [
    "UserPromptExpansion",
    "SubagentStart",
    "SubagentStop",
    "TeammateIdle",
    "WorktreeCreate",
    "WorktreeRemove",
    "Elicitation",
    "ElicitationResult",
    "PreSkillShellCommand",
];

/// The handlers found so far.
#[derive(Debug, Default)]
pub(super) struct Collected {
    hooks: Vec<Hook>,
    urls: Option<Vec<(String, Origin)>>,
    variables: Option<Vec<(String, Origin)>>,
    all_off: bool,
    unmanaged_off: bool,
    /// The project itself switches them off, which does not reach those of directories above it.
    project_off: bool,
}

impl Collected {
    /// Takes `disableAllHooks`.
    pub fn disable(&mut self, source: &Source<'_>, value: &Value, problems: &mut Problems) {
        let Some(on) = value.boolean() else {
            let message = "expected a Boolean; ignored";
            problems.warn(source, value.span, "/disableAllHooks", message, "write true or false");
            return;
        };
        if !source.widens() {
            // A hook that is off guards nothing.
            let message = &until_trusted("ignored");
            let help = "run `stockade policy trust` after reading the file";
            problems.warn(source, value.span, "/disableAllHooks", message, help);
        } else if source.layer() == Layer::Policy {
            self.all_off = on;
        } else if on && source.is_shared() {
            self.project_off = true;
        } else {
            (self.unmanaged_off, self.project_off) = (on, false);
        }
    }

    /// Takes `allowedHttpHookUrls`. A value that is no list allows nothing.
    pub fn urls(
        &mut self,
        source: &Source<'_>,
        value: &Value,
        pointer: &str,
        problems: &mut Problems,
    ) {
        bound(&mut self.urls, source, value, pointer, problems);
    }

    /// Takes `httpHookAllowedEnvVars`. A value that is no list allows nothing.
    pub fn variables(
        &mut self,
        source: &Source<'_>,
        value: &Value,
        pointer: &str,
        problems: &mut Problems,
    ) {
        bound(&mut self.variables, source, value, pointer, problems);
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
            let message = "expected an object of events";
            problems.refuse(source, value.span, pointer, message, "correct the file");
            return;
        };
        if !source.may_run() {
            let message = &until_trusted("hooks do not run");
            let help = "run `stockade policy trust` after reading the file";
            problems.warn(source, value.span, pointer, message, help);
            return;
        }
        for event in events {
            let pointer = join(pointer, &event.key);
            let (message, help) = match HookEvent::named(&event.key) {
                Some(known) => {
                    self.groups(source, &event.value, &pointer, known, problems);
                    continue;
                }
                None if OTHER_EVENTS.contains(&event.key.as_str()) => {
                    let message = format!("hooks of `{}` are not supported", event.key);
                    (message, "they have no effect".to_owned())
                }
                None => {
                    let help = match close(&event.key, HookEvent::names()) {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => "the documentation of hooks lists all events".to_owned(),
                    };
                    (format!("unknown event `{}`", event.key), help)
                }
            };
            problems.warn(source, event.key_span, &pointer, &message, &help);
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
            let (message, help) = ("expected a list", "write `[ ]` around it");
            problems.add(severity, source, value.span, pointer, message, help);
            return;
        };
        for (index, group) in groups.iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            let matcher = group.get("matcher").map_or(Some(""), Value::text);
            let handlers = group.get("hooks").and_then(Value::elements);
            let (Some(matcher), Some(handlers)) = (matcher, handlers) else {
                let message = "expected an object with `matcher` and a list `hooks`";
                problems.add(severity, source, group.span, &pointer, message, "correct this entry");
                continue;
            };
            if !is_plain(matcher) && Regex::new(matcher).is_err() {
                let message = "invalid regular expression; it matches everything";
                let help = "correct the expression";
                problems.add(severity, source, group.span, &pointer, message, help);
            }
            for (index, value) in handlers.iter().enumerate() {
                let pointer = format!("{pointer}/hooks/{index}");
                let origin = source.origin(value.span, &pointer);
                match handler::read(value, event, source, origin) {
                    Ok((hook, complaints)) => {
                        for handler::Complaint { message, help, harmless } in complaints {
                            let severity = if harmless { Severity::Warning } else { severity };
                            problems.add(severity, source, value.span, &pointer, &message, &help);
                        }
                        let above = source.is_above().then(|| source.anchor().to_owned());
                        self.push(Hook { matcher: matcher.to_owned(), above, ..hook });
                    }
                    Err(handler::Complaint { message, help, .. }) => {
                        problems.add(severity, source, value.span, &pointer, &message, &help);
                    }
                }
            }
        }
    }

    /// The identical handler in several files runs once, as that of the strongest layer; as one from above only if it
    /// stands nowhere else.
    fn push(&mut self, hook: Hook) {
        if hook.above.is_some() && self.hooks.iter().any(|known| known.is_same(&hook)) {
            return;
        }
        self.hooks.retain(|known| !known.is_same(&hook));
        self.hooks.push(hook);
    }

    /// Puts the handlers that run into the settings, strongest layer first, and what binds those of them that
    /// send requests.
    pub fn finish(self, managed_only: bool, settings: &mut Settings) {
        let mut hooks = self.hooks;
        if self.all_off {
            hooks.clear();
        }
        if managed_only || self.unmanaged_off {
            hooks.retain(|hook| hook.origin.layer == Layer::Policy);
        }
        if self.project_off {
            hooks.retain(|hook| hook.origin.layer == Layer::Policy || hook.above.is_some());
        }
        hooks.sort_by_key(|hook| std::cmp::Reverse(hook.origin.layer));
        settings.hooks = hooks;
        settings.hook_urls = self.urls;
        settings.hook_variables = self.variables;
    }
}

/// Adds the texts of a list that bounds something; the list itself is the bound, so an empty one allows nothing.
fn bound(
    list: &mut Option<Vec<(String, Origin)>>,
    source: &Source<'_>,
    value: &Value,
    pointer: &str,
    problems: &mut Problems,
) {
    // One from above is a bound where there is none, and adds nothing to another.
    let may_add =
        if source.is_above() { source.may_run() && list.is_none() } else { source.widens() };
    let list = list.get_or_insert_default();
    let mut bad = Vec::new();
    let Some(found) = texts(value, |element, index| bad.push((element, index))) else {
        let (message, help) = ("expected a list of strings", "until then it allows nothing");
        problems.add(severity(source), source, value.span, pointer, message, help);
        return;
    };
    for (element, index) in bad {
        let pointer = format!("{pointer}/{index}");
        problems.warn(source, element.span, &pointer, "expected a string", "put it in quotes");
    }
    if !may_add && !found.is_empty() {
        let message = &until_trusted("ignored");
        let help = "run `stockade policy trust` after reading the file";
        problems.warn(source, value.span, pointer, message, help);
        return;
    }
    for (index, element, text) in found {
        let origin = source.origin(element.span, &format!("{pointer}/{index}"));
        list.push((text.to_owned(), origin));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_names_each_event_and_says_which_never_run() {
        let guide = include_str!("../../../../docs/guide/hooks.md");
        let (tables, rest) = guide.split_once("No hook of these runs").expect("both lists");
        let list = rest.split_once("\n\nA matcher").expect("an end").0;
        for name in HookEvent::all() {
            assert!(
                tables.contains(&format!("`{name}`")) && !list.contains(&format!("`{name}`")),
                "{name}"
            );
        }
        for name in OTHER_EVENTS {
            assert!(list.contains(&format!("`{name}`")), "{name}");
        }
    }
}
