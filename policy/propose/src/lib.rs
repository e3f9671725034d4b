//! Rules that a person can choose in place of the exact one: a wider one for the same program, or one of their own.
//!
//! Each rule is tried before it is offered or taken: the call is decided once more with it. Nothing here decides a call.
#![forbid(unsafe_code)]

use std::path::Path;

use stockade_parser::{SimpleCommand, Span, Word};
use stockade_policy::{Call, Decision, Facts, Layer, Origin, Part, Rule, Rules, Verdict, evaluate};
use stockade_rules::knowledge::knowledge;
use stockade_rules::rule::{self, Reading, Specifier};

/// Longest rule that a person can give in an answer, in bytes.
const LONGEST: usize = 4096;

/// Returns a rule for the program of a command, with its sub-command, that lets the command run as well; none where only
/// the exact rule does.
pub fn wider_rule(
    rules: &Rules,
    call: &Call<'_>,
    facts: &Facts,
    verdict: &Verdict,
) -> Option<String> {
    let Call::Bash { tree, .. } = call else { return None };
    let exact = verdict.suggestion.as_ref()?;
    let part = verdict.parts.iter().find(|part| part.decision != Decision::Allow)?;
    let command = tree.commands().iter().find(|command| is_of(command, part))?;
    let wider = format!("Bash({}:*)", beginning(command)?);
    let more = with(rules, read(&wider, &facts.project).ok()?);
    let verdict = evaluate(&more, call, facts);
    (wider != *exact && verdict.decision == Decision::Allow).then_some(wider)
}

/// Says whether a command is the one that a part is about: one that another command starts has the text of its words.
fn is_of(command: &SimpleCommand, part: &Part) -> bool {
    let words = command.words.iter().map(|word| word.exact().unwrap_or_default());
    let text = || words.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ");
    command.span == part.span && (command.via.is_empty() || text() == part.text)
}

/// Returns the words of a command that a wider rule spells out: the program, and what says which of its works is meant.
fn beginning(command: &SimpleCommand) -> Option<String> {
    if !command.assignments.is_empty() {
        return None;
    }
    let words: Vec<&str> = command.words.iter().map_while(plain).collect();
    let (program, rest) = words.split_first()?;
    let works: Vec<&str> = rest.iter().take(2).take_while(|word| is_bare(word)).copied().collect();
    let is_runner = knowledge().runners.contains(program) || program.contains('/');
    let spelled = match (is_runner, works.as_slice()) {
        // The file or target of the project that runs is part of what the rule allows.
        (true, []) => vec![*rest.first()?],
        (true, works) => works.to_vec(),
        (false, [work, ..]) if command.words.len() > 2 => vec![*work],
        (false, [_, ..]) => return None,
        (false, []) if command.words.len() > 1 => Vec::new(),
        (false, []) => return None,
    };
    Some([vec![*program], spelled].concat().join(" "))
}

/// Returns a word that a rule spells as it is.
fn plain(word: &Word) -> Option<&str> {
    let text = std::str::from_utf8(word.exact()?).ok()?;
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./+@".contains(it);
    (!text.is_empty() && text.chars().all(is_plain)).then_some(text)
}

fn is_bare(word: &str) -> bool {
    word.starts_with(|it: char| it.is_ascii_lowercase())
        && word.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-')
}

/// Checks that an allow rule can be written and lets this call run.
///
/// # Errors
///
/// The rule is invalid, or the call is not allowed with it; one sentence says why.
pub fn allowed_with(
    rules: &Rules,
    call: &Call<'_>,
    facts: &Facts,
    text: &str,
) -> Result<(), String> {
    let more = with(rules, read(text, &facts.project)?);
    match evaluate(&more, call, facts).decision {
        Decision::Allow => Ok(()),
        Decision::Ask | Decision::Deny => Err("it does not allow this call".to_owned()),
    }
}

fn with(rules: &Rules, rule: Rule) -> Rules {
    let mut all = rules.rules().to_vec();
    all.push(rule);
    rules.with(all)
}

fn read(text: &str, project: &Path) -> Result<Rule, String> {
    if text.len() > LONGEST || text.chars().any(char::is_control) {
        return Err("it is too long, or has control characters".to_owned());
    }
    let origin = Origin {
        layer: Layer::Local,
        file: "<answer>".into(),
        line: 1,
        column: 1,
        pointer: String::new(),
    };
    match rule::read(text, Decision::Allow, origin, project) {
        Reading::Good(rule) => Ok(rule),
        Reading::Odd(..) | Reading::Void(_) | Reading::Malformed(..) => {
            Err("it is not a valid allow rule".to_owned())
        }
    }
}

/// Says whether an allow rule for commands matches the words of a command.
pub fn rule_matches(text: &str, words: &[&str]) -> bool {
    let Ok(Rule { specifier, .. }) = read(text, Path::new("/")) else { return false };
    let Specifier::Command(pattern) = specifier else { return false };
    let word = |text: &&str| Word::literal(Span::new(0, 0), text.as_bytes().to_vec());
    pattern.covers(&words.iter().map(word).collect::<Vec<Word>>())
}
