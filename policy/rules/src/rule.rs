//! The grammar of rule text such as `Bash(git log:*)`.

pub mod braces;
mod nearest;
pub(crate) mod senseless;

use std::path::Path;

use crate::decision::Decision;
use crate::knowledge::knowledge;
use crate::layer::Origin;
use crate::pattern::command::CommandPattern;
use crate::pattern::domain::DomainPattern;
use crate::pattern::path::PathPattern;
use crate::pattern::tool::NameGlob;
use crate::rule::braces::Numbers;

/// One rule of a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Decision that the rule makes.
    pub effect: Decision,
    /// The text as it is written.
    pub text: String,
    /// Where it stands.
    pub origin: Origin,
    /// The tool, which may hold wildcards.
    pub tool: String,
    /// The part in brackets.
    pub specifier: Specifier,
    /// Fault of a rule that cannot mean anything.
    pub fault: Option<Complaint>,
}

/// Calls of its tool that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Specifier {
    /// Every call.
    Every,
    /// Every call of each tool whose name matches.
    EveryOf(NameGlob),
    /// A simple command.
    Command(CommandPattern),
    /// A path that is read.
    Read(PathPattern),
    /// A path that is written.
    Edit(PathPattern),
    /// A host.
    Domain(DomainPattern),
    /// A name, with or without arguments behind it.
    Name(NameGlob),
    /// An input field with a value.
    Parameter(String, NameGlob),
    /// A rule that refuses or asks, and cannot mean anything: so it is about every call that it could have meant.
    Malformed,
}

/// Result of reading a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// A rule.
    Good(Rule),
    /// A rule, with something to tell.
    Odd(Rule, Complaint),
    /// No rule: it says nothing that counts.
    Void(Complaint),
    /// The rule cannot mean anything; a rule about every call that it could have meant replaces it.
    Malformed(Rule, Complaint),
}

/// Fault of a rule, and its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The fault, one sentence for people.
    pub message: String,
    /// One fix to copy.
    pub help: String,
}

impl Rule {
    /// Says whether the rule is about particular shell commands, so that it can only be kept when the
    /// text is understood.
    pub fn is_about_commands(&self) -> bool {
        matches!(self.specifier, Specifier::Command(_))
            || (self.specifier == Specifier::Malformed && self.tool == "Bash")
    }
}

/// Longest rule in bytes. A command that a rule could allow is shorter.
const LONGEST: usize = 16_384;

/// Reads a rule of list `effect` in a file anchored at `source`, and what it stands for beside its very text: each alternative
/// in braces of a rule that refuses or asks.
pub fn read_all(
    text: &str,
    effect: Decision,
    origin: &Origin,
    source: &Path,
) -> (Reading, Vec<Rule>) {
    let literal = read(text, effect, origin.clone(), source);
    let (Reading::Good(rule) | Reading::Odd(rule, _)) = &literal else {
        return (literal, Vec::new());
    };
    let numbers = match &rule.specifier {
        Specifier::Read(_) | Specifier::Edit(_) => Numbers::Alternatives,
        Specifier::Command(pattern) if !pattern.is_exact() => Numbers::Count,
        Specifier::Command(_)
        | Specifier::Every
        | Specifier::EveryOf(_)
        | Specifier::Domain(_)
        | Specifier::Name(_)
        | Specifier::Parameter(..)
        | Specifier::Malformed => return (literal, Vec::new()),
    };
    if effect == Decision::Allow {
        return (literal, Vec::new());
    }
    let Some(texts) = braces::spelled_out(text, numbers) else {
        let complaint = Complaint {
            message: "its alternatives in braces cannot be expanded".to_owned(),
            help: format!("write a rule for each; one can have at most {}", braces::MOST),
        };
        let (fault, specifier) = (Some(complaint.clone()), Specifier::Malformed);
        return (
            Reading::Malformed(Rule { fault, specifier, ..rule.clone() }, complaint),
            Vec::new(),
        );
    };
    let further =
        texts.iter().skip(1).filter_map(|one| match read(one, effect, origin.clone(), source) {
            Reading::Good(rule) | Reading::Odd(rule, _) | Reading::Malformed(rule, _) => {
                Some(Rule { text: text.to_owned(), ..rule })
            }
            Reading::Void(_) => None,
        });
    let further = further.collect();
    (literal, further)
}

/// Reads a rule of list `effect` in a file anchored at `source`, its braces as these very characters.
pub fn read(text: &str, effect: Decision, origin: Origin, source: &Path) -> Reading {
    let kept = text.get(..text.len().min(LONGEST)).unwrap_or_default();
    let make = |tool: &str, specifier: Specifier| Rule {
        effect,
        text: kept.to_owned(),
        origin: origin.clone(),
        tool: tool.to_owned(),
        specifier,
        fault: None,
    };
    let malformed = |tool: &str, message: &str, help: &str| {
        let complaint = Complaint { message: message.to_owned(), help: help.to_owned() };
        let tool = if tool == "Task" { "Agent" } else { tool };
        unreadable(make(tool, Specifier::Malformed), complaint)
    };
    if text.len() > LONGEST {
        return malformed(nearest::meant(kept), "the rule is too long", "write a shorter rule");
    }
    let (tool, inside) = match split(text) {
        Ok(parts) => parts,
        Err((message, help)) => return malformed(nearest::meant(text), message, help),
    };
    let tool = if tool == "Task" { "Agent" } else { tool };
    if tool.contains('*') {
        return match inside {
            Some(_) => malformed(
                tool,
                "a tool name with `*` has no parentheses",
                "name one tool, or remove the parentheses",
            ),
            None => glob(make, tool, effect),
        };
    }
    if effect != Decision::Allow
        && let Some((tool, message, help)) = nearest::unknown(tool, inside, effect)
    {
        return malformed(tool, &message, &help);
    }
    let Some(inside) = inside.filter(|inside| inside.trim() != "*") else {
        return match server_rule(tool) {
            Some(all) => Reading::Good(make(tool, Specifier::EveryOf(all))),
            None => Reading::Good(make(tool, Specifier::Every)),
        };
    };
    match specifier(tool, inside, effect, source) {
        Ok(Found::Good(specifier)) => {
            let rule = make(tool, specifier);
            match senseless::senseless(&rule).filter(|_| effect != Decision::Allow) {
                Some((message, help)) => malformed(tool, &message, help),
                None => Reading::Good(rule),
            }
        }
        Ok(Found::Odd(specifier, complaint)) => Reading::Odd(make(tool, specifier), complaint),
        Ok(Found::Void(complaint)) => malformed(tool, &complaint.message, &complaint.help),
        Err(message) => malformed(tool, message, "see the rule grammar in the manual"),
    }
}

/// A rule that cannot be read: one that would allow is none, and each other keeps its fault.
fn unreadable(rule: Rule, complaint: Complaint) -> Reading {
    if rule.effect == Decision::Allow {
        return Reading::Void(complaint);
    }
    Reading::Malformed(Rule { fault: Some(complaint.clone()), ..rule }, complaint)
}

enum Found {
    Good(Specifier),
    Odd(Specifier, Complaint),
    Void(Complaint),
}

/// Splits a rule into tool and specifier.
fn split(text: &str) -> Result<(&str, Option<&str>), (&'static str, &'static str)> {
    let text = text.trim();
    let (tool, inside) = match text.split_once('(') {
        None => (text, None),
        Some((tool, rest)) => match rest.strip_suffix(')') {
            Some(inside) => (tool, Some(inside)),
            None => return Err(("the parenthesis is not closed", "end the rule with `)`")),
        },
    };
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '.' | ':' | '/');
    if tool.is_empty() {
        return Err(("the rule has no tool name", "begin with the name of a tool"));
    }
    if !tool.chars().all(plain) {
        return Err(("invalid tool name", "write it as in `Bash(git push:*)`"));
    }
    if inside.is_some_and(|inside| inside.trim().is_empty()) {
        return Err(("the parentheses are empty", "remove them to match every call"));
    }
    Ok((tool, inside))
}

fn glob(make: impl Fn(&str, Specifier) -> Rule, tool: &str, effect: Decision) -> Reading {
    if effect == Decision::Allow && !has_literal_server(tool) {
        return Reading::Void(Complaint {
            message: "an allow rule with `*` in the tool name approves nothing".to_owned(),
            help: "name the tool, or begin with `mcp__SERVER__`".to_owned(),
        });
    }
    Reading::Good(make(tool, Specifier::EveryOf(NameGlob::new(tool))))
}

/// Says whether the name begins with `mcp__SERVER__` without a star in it.
fn has_literal_server(tool: &str) -> bool {
    tool.strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .is_some_and(|(server, _)| !server.is_empty() && !server.contains('*'))
}

/// Returns the tools of `mcp__SERVER`.
fn server_rule(tool: &str) -> Option<NameGlob> {
    let server = tool.strip_prefix("mcp__")?;
    (!server.is_empty() && !server.contains("__")).then(|| NameGlob::new(&format!("{tool}__*")))
}

fn specifier(
    tool: &str,
    inside: &str,
    effect: Decision,
    source: &Path,
) -> Result<Found, &'static str> {
    let tables = knowledge();
    if let Some((field, value)) = parameter(tool, inside) {
        let primary = tables.primary_fields.get(tool) == Some(&field);
        if primary || (effect == Decision::Allow && tool != "Bash" && !tool.starts_with("mcp__")) {
            return Ok(Found::Void(Complaint {
                message: format!("a rule cannot match `{field}` of {tool} in this way"),
                help: "parameter rules are for deny and ask, and not for the main field".to_owned(),
            }));
        }
        if effect != Decision::Allow {
            return Ok(Found::Good(Specifier::Parameter(field.to_owned(), NameGlob::new(value))));
        }
    }
    match tool {
        "Bash" | "PowerShell" | "Monitor" => {
            let pattern = CommandPattern::new(inside)?;
            if pattern.is_compound() && effect == Decision::Allow {
                return Ok(Found::Odd(
                    Specifier::Command(pattern),
                    Complaint {
                        message: "this allow rule names more than one command and matches none"
                            .to_owned(),
                        help: "write one rule for each command".to_owned(),
                    },
                ));
            }
            Ok(Found::Good(Specifier::Command(pattern)))
        }
        "WebFetch" => match inside.trim().strip_prefix("domain:") {
            Some(host) => Ok(Found::Good(Specifier::Domain(DomainPattern::new(host)?))),
            None => Err("a rule for WebFetch must be `WebFetch(domain:HOST)`"),
        },
        "WebSearch" => Ok(Found::Void(Complaint {
            message: "WebSearch has no parentheses".to_owned(),
            help: "write `WebSearch`".to_owned(),
        })),
        "Agent" | "Skill" | "SlashCommand" => {
            Ok(Found::Good(Specifier::Name(NameGlob::new(inside.trim()))))
        }
        _ => path_specifier(tool, inside, effect, source),
    }
}

fn path_specifier(
    tool: &str,
    inside: &str,
    effect: Decision,
    source: &Path,
) -> Result<Found, &'static str> {
    let tables = knowledge();
    let pattern = |text: &str| PathPattern::new(text, source, effect);
    match tool {
        "Read" => return Ok(Found::Good(Specifier::Read(pattern(inside)?))),
        "Edit" => return Ok(Found::Good(Specifier::Edit(pattern(inside)?))),
        _ => {}
    }
    let reads = tables.read_tools.iter().any(|row| row.name == tool);
    let edits = tables.edit_tools.iter().any(|row| row.name == tool);
    let better = if edits { "Edit" } else { "Read" };
    if !reads && !edits {
        return Ok(Found::Void(Complaint {
            message: format!("{tool} accepts only `NAME:VALUE` in parentheses"),
            help: match nearest::near(tool).filter(|near| *near != tool) {
                Some(near) => format!("did you mean `{near}({inside})`?"),
                None => format!("write `{tool}`"),
            },
        }));
    }
    let complaint = Complaint {
        message: format!("paths of {tool} are governed by {better} rules"),
        help: format!("write `{better}({inside})`"),
    };
    if effect == Decision::Allow {
        return Ok(Found::Void(complaint));
    }
    // Stricter than the reference, which never consults such a rule.
    let pattern = pattern(inside)?;
    let specifier = if edits { Specifier::Edit(pattern) } else { Specifier::Read(pattern) };
    Ok(Found::Odd(specifier, complaint))
}

/// Returns field and value, if the specifier reads `field:value` and is not a pattern of the tool's own kind.
fn parameter<'a>(tool: &str, inside: &'a str) -> Option<(&'a str, &'a str)> {
    let (field, value) = inside.split_once(':')?;
    let (field, value) = (field.trim(), value.trim());
    let name = !field.is_empty() && field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let own = match tool {
        // `Bash(git:*)` is a pattern; fields of its input are few and known.
        "Bash" | "PowerShell" | "Monitor" => {
            !["command", "timeout", "description", "run_in_background", "dangerouslyDisableSandbox"]
                .contains(&field)
                || value == "*" && ["timeout", "command"].contains(&field)
        }
        "WebFetch" => field == "domain",
        "Skill" | "SlashCommand" => value == "*",
        _ => false,
    };
    (name && !value.is_empty() && !own).then_some((field, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Layer;

    fn reading(text: &str, effect: Decision) -> Reading {
        let origin = Origin {
            layer: Layer::User,
            file: "s".into(),
            line: 1,
            column: 1,
            pointer: String::new(),
        };
        read(text, effect, origin, Path::new("/p"))
    }

    fn outcome(text: &str, effect: Decision) -> &'static str {
        match reading(text, effect) {
            Reading::Good(_) => "good",
            Reading::Odd(..) => "odd",
            Reading::Void(_) => "void",
            Reading::Malformed(..) => "malformed",
        }
    }

    #[test]
    fn rules_are_read_or_refused() {
        for (text, allow, deny) in [
            ("Bash", "good", "good"),
            ("Bash(*)", "good", "good"),
            ("Bash()", "void", "malformed"),
            ("Bash(git push", "void", "malformed"),
            ("(x)", "void", "malformed"),
            ("", "void", "malformed"),
            ("Bash(:*)", "void", "malformed"),
            ("B*", "void", "good"),
            ("*", "void", "good"),
            ("mcp__*", "void", "good"),
            ("mcp__github__get_*", "good", "good"),
            ("mcp__github", "good", "good"),
            ("Read(!a)", "void", "malformed"),
            ("Write(a)", "void", "odd"),
            ("WebSearch(x)", "void", "malformed"),
            ("WebFetch(domain:a.b)", "good", "good"),
            ("WebFetch(a.b)", "void", "malformed"),
            ("Agent(model:opus)", "void", "good"),
            ("Bash(run_in_background:true)", "good", "good"),
            ("Bash(command:rm*)", "void", "malformed"),
            ("Bsh(ls)", "void", "malformed"),
            ("bash", "good", "malformed"),
            ("bash(curl:*)", "void", "malformed"),
            ("Frobnicate", "good", "malformed"),
            ("TaskCreate", "good", "good"),
            ("Bash curl:*", "void", "malformed"),
            ("Bash(git:* push)", "good", "malformed"),
            ("Bash(npm run a:* b)", "good", "good"),
            ("Bash(^rm.*)", "good", "malformed"),
            ("Bash({curl,wget}:*)", "good", "malformed"),
            ("Read([ab)", "good", "malformed"),
            ("Read([ab])", "good", "good"),
            ("Frobnicate(x)", "void", "malformed"),
            ("Read($HOME/x)", "good", "malformed"),
            ("Read(~bob/x)", "good", "malformed"),
            ("Read([z-a])", "good", "malformed"),
            ("WebFetch(domain:a/b)", "void", "malformed"),
            ("Bash(a && b)", "odd", "good"),
        ] {
            assert_eq!(outcome(text, Decision::Allow), allow, "allow {text}");
            assert_eq!(outcome(text, Decision::Deny), deny, "deny {text}");
        }
    }

    #[test]
    fn a_rule_of_a_megabyte_refuses_all_that_it_could_have_meant() {
        let long = format!("Bash({})", "a".repeat(1 << 20));
        let Reading::Malformed(rule, _) = reading(&long, Decision::Deny) else { panic!() };
        assert_eq!((rule.effect, rule.tool.as_str()), (Decision::Deny, "Bash"));
        assert!(rule.text.len() <= LONGEST);
        assert_eq!(outcome(&long, Decision::Allow), "void");
        assert_eq!(outcome(&"a".repeat(1 << 20), Decision::Deny), "malformed");
    }

    #[test]
    fn a_colon_in_a_command_is_no_parameter() {
        let Reading::Good(rule) = reading("Bash(git:*)", Decision::Deny) else { panic!() };
        assert!(rule.is_about_commands());
        let Reading::Good(rule) = reading("Bash(run_in_background:true)", Decision::Deny) else {
            panic!()
        };
        assert!(!rule.is_about_commands());
    }
}
