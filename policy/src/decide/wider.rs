//! Rules that a person may choose in place of the exact one: a wider one for the same program, or one of their own.

use std::path::Path;

use stockade_parser::json::Value;
use stockade_parser::{SimpleCommand, Span, Word};

use crate::facts::{Call, Facts};
use crate::knowledge::knowledge;
use crate::rule::{self, Reading, Rule, Specifier};
use crate::verdict::Verdict;
use crate::{Decision, Layer, Origin, Rules};

use super::shell::Shell;
use super::{evaluate, evaluate_shell};

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
    let Call::Bash { tree, input } = call else { return None };
    wider_of(rules, &Shell::of(tree), (input, facts), verdict)
}

fn wider_of(
    rules: &Rules,
    shell: &Shell<'_>,
    (input, facts): (&Value, &Facts),
    verdict: &Verdict,
) -> Option<String> {
    let exact = verdict.suggestion.as_ref()?;
    let part = verdict.parts.iter().find(|part| part.decision != Decision::Allow)?;
    let is_it = |it: &&SimpleCommand| it.span == part.span && shell.text(it) == part.text;
    let command = shell.commands.iter().find(is_it)?;
    let wider = format!("Bash({}:*)", beginning(command)?);
    let more = with(rules, read(&wider, &facts.project).ok()?);
    let verdict = evaluate_shell(&more, shell, input, facts);
    (wider != *exact && verdict.decision == Decision::Allow).then_some(wider)
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
        // Which file or target of the project runs is part of what is allowed.
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

#[cfg(test)]
mod tests {
    use stockade_parser::json::{Dialect, read as json};

    use super::super::tests::{Text, facts, rules};
    use super::*;

    fn wider(command: &str) -> Option<String> {
        let text = Text::new(command);
        let (rules, facts) = (rules(&[]), facts());
        let input = json(br#"{"command": "x"}"#, Dialect::Strict).unwrap();
        let shell = text.shell();
        let verdict = super::super::evaluate_shell(&rules, &shell, &input, &facts);
        wider_of(&rules, &shell, (&input, &facts), &verdict)
    }

    #[test]
    fn a_wider_rule_names_the_program_and_its_work() {
        for (command, expected) in [
            ("tool commit first try", Some("Bash(tool commit:*)")),
            ("tool a.txt", Some("Bash(tool:*)")),
            ("npm run test --watch", Some("Bash(npm run test:*)")),
            // Nothing wider can be said, or it would not be enough.
            ("tool", None),
            ("tool commit", None),
            ("make", None),
            ("tool --run x", None),
            ("X=1 tool a.txt", None),
            ("tool a.txt ; tool b.txt", None),
            ("tool $x", None),
        ] {
            assert_eq!(wider(command).as_deref(), expected, "{command}");
        }
    }

    #[test]
    fn a_rule_matches_words_of_a_record() {
        assert!(rule_matches("Bash(git commit:*)", &["git", "commit", "-m", "a b"]));
        assert!(!rule_matches("Bash(git commit:*)", &["git", "push"]));
        for none in ["Bash", "Bash(git", "Read(x)", "Bash(\u{1b}:*)", ""] {
            assert!(!rule_matches(none, &["git"]), "{none}");
        }
    }
}
