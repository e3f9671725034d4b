//! Suggestions: the rule that "always allow" would write, and a sentence for people.

use stockade_parser::{SimpleCommand, Word};

use crate::Decision;
use crate::pattern::command::CommandPattern;
use crate::verdict::{By, Verdict};

use super::allow_cover;
use super::context::Context;
use super::shell::Shell;

/// Adds suggestion and help to the verdict on a shell call.
pub(super) fn add(mut verdict: Verdict, context: &Context<'_>, shell: &Shell<'_>) -> Verdict {
    verdict.suggestion = suggestion(&verdict, context, shell);
    if verdict.help.is_empty() {
        verdict.help = help(&verdict);
    }
    if (verdict.by, verdict.code) == (By::Builtin, "opaque")
        && let Some(opaque) = shell.opaque.first()
    {
        opaque.instead().clone_into(&mut verdict.help);
    }
    verdict
}

/// Adds suggestion and help to the verdict on a call of another tool.
pub(super) fn add_tool(mut verdict: Verdict, context: &Context<'_>) -> Verdict {
    let open = verdict.decision != Decision::Allow && is_open(&verdict) && !locked(context);
    if open {
        verdict.suggestion = match context.tool {
            "Read" | "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => {
                let path = super::path_of_tool(context.tool, context.input, context.facts);
                let verb = if context.tool == "Read" { "Read" } else { "Edit" };
                let plain = |text: &String| !text.contains(['*', '?', '[', '\\', '!']);
                path.map(|path| stockade_rules::normal(&path).display().to_string())
                    .filter(plain)
                    .map(|path| format!("{verb}(/{path})"))
            }
            _ => rule_of_tool(context),
        };
    }
    verdict.help = help(&verdict);
    verdict
}

/// Returns the narrowest rule for the call of a tool that works on no path, if one can be written.
pub(super) fn rule_of_tool(context: &Context<'_>) -> Option<String> {
    match context.tool {
        "WebFetch" => context
            .input
            .get("url")
            .and_then(|url| crate::pattern::domain::host_of(url.text()?))
            .filter(|host| host.plain)
            .map(|host| format!("WebFetch(domain:{})", host.name)),
        tool if tool.starts_with("mcp__") && is_plain_name(tool) => Some(tool.to_owned()),
        _ => None,
    }
}

/// Says whether a rule that is spelled like the name of a tool is about that tool alone: one with `*` would be a pattern.
fn is_plain_name(tool: &str) -> bool {
    tool.chars().all(|it| it.is_ascii_alphanumeric() || "_-.:/@+".contains(it))
}

/// Only a question that nothing but a missing rule caused is answered by a rule.
fn is_open(verdict: &Verdict) -> bool {
    verdict.parts.iter().all(|part| part.decision == Decision::Allow || part.by == By::Default)
}

fn locked(context: &Context<'_>) -> bool {
    context.rules.settings().managed_rules_only
}

fn suggestion(verdict: &Verdict, context: &Context<'_>, shell: &Shell<'_>) -> Option<String> {
    // An exact rule answers for a text that is not read as well.
    let is_unread = (verdict.by, verdict.code) == (By::Builtin, "unread");
    if verdict.decision == Decision::Allow
        || !(is_open(verdict) || is_unread)
        || locked(context)
        || !shell.opaque.is_empty()
    {
        return None;
    }
    let mut open = verdict.parts.iter().filter(|part| part.decision != Decision::Allow);
    let (part, further) = (open.next()?, open.next());
    if further.is_some() {
        return None;
    }
    let command = shell
        .commands
        .iter()
        .find(|command| command.span == part.span && shell.text(command) == part.text)?;
    exact_rule(command)
}

/// Returns the rule for exactly this command, if one can be written.
pub(super) fn exact_rule(command: &SimpleCommand) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    let safe = allow_cover::are_safe(&command.assignments);
    for assignment in command.assignments.iter().filter(|_| !safe) {
        let name = std::str::from_utf8(&assignment.name).ok()?;
        words.push(format!("{name}={}", quoted(&assignment.value)?));
    }
    for word in &command.words {
        words.push(quoted(word)?);
    }
    let text = words.join(" ");
    let pattern = CommandPattern::new(&text).ok()?;
    let covers = if safe {
        pattern.covers(&command.words)
    } else {
        pattern.covers_with_assignments(&command.assignments, &command.words)
    };
    (pattern.is_exact() && covers).then(|| format!("Bash({text})"))
}

/// Returns the word as a rule spells it; none when a rule cannot spell it.
fn quoted(word: &Word) -> Option<String> {
    let text = std::str::from_utf8(word.exact()?).ok()?;
    if text.contains('*') || text.chars().any(char::is_control) {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,{}~".contains(c) || !c.is_ascii();
    if !text.is_empty() && text.chars().all(plain) {
        return Some(text.to_owned());
    }
    (!text.contains('\'')).then(|| format!("'{text}'"))
}

fn help(verdict: &Verdict) -> String {
    if verdict.decision == Decision::Allow {
        return String::new();
    }
    match (verdict.by, verdict.code, &verdict.suggestion) {
        (_, _, Some(rule)) => format!("the allow rule `{rule}` would allow it"),
        (By::Rule, "rule_deny", _) => "ask the owner of that file, or remove this part".to_owned(),
        (By::Rule, _, _) => {
            "a person can allow it once; no allow rule overrides this one".to_owned()
        }
        (By::Hook, _, _) => {
            "read the hook's message, or ask the person who configured it".to_owned()
        }
        (By::Builtin, "critical_path", _) => "specify a path below it".to_owned(),
        (By::Builtin, "lost_history" | "fork_bomb", _) => {
            "a person can allow it once; no allow rule does".to_owned()
        }
        (By::Builtin, "opaque", _) => "write the name of each program".to_owned(),
        (By::Builtin, "protected_path", _) => {
            "a person can allow it once; no allow rule does".to_owned()
        }
        (By::Builtin, "runner_outside", _) => {
            "a person can allow it once; to have it allowed, put the rule into the user settings"
                .to_owned()
        }
        (By::Mode, "plan", _) => "exit plan mode first".to_owned(),
        (By::Mode, "dont_ask", _) => "choose a mode that asks, or allow it by a rule".to_owned(),
        (By::Mode, "no_person", _) => {
            "allow it by a rule, or run it where a person can answer".to_owned()
        }
        (By::Error, _, _) => "this is a fault of stockade; nothing was run".to_owned(),
        (By::Builtin, _, _) => "a person can allow it once".to_owned(),
        (By::Human | By::Mode | By::Sandbox | By::Default, _, _) => {
            "a person can allow it once, or rules for each part can".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_tool_that_is_a_pattern_is_no_rule() {
        let plain = ["mcp__files__read", "mcp__a*", "mcp__a__[b]", "mcp__a?", "mcp__a(b)"];
        assert_eq!(plain.map(is_plain_name), [true, false, false, false, false]);
    }
}
