//! Command lines in the forms that agents and scripts write, read without making the whole tree of options.
//!
//! A form is read here only if every word of it is known here. All else, mistakes included, is clap's.

use std::time::Duration;

use super::args::agents::{Hook, Shell};
use super::args::{self, Common, Run};
use crate::serve::hook::Agent;

/// A command line in one of the forms.
#[derive(Debug)]
pub(super) enum Form {
    /// `run [--quiet] … [--] COMMAND …`
    Run(Run),
    /// `hook AGENT [--rewrite] …`
    Hook(Hook),
    /// `shell -c TEXT …`
    Shell(Vec<String>),
}

/// Reads the words behind the name of the program; none when clap is to read them.
pub(super) fn read(words: &[String]) -> Option<Form> {
    let (subcommand, words) = words.split_first()?;
    match subcommand.as_str() {
        "run" => run(words).map(Form::Run),
        "hook" => hook(words).map(Form::Hook),
        "shell" => shell(words).map(Form::Shell),
        _ => None,
    }
}

fn run(words: &[String]) -> Option<Run> {
    let mut run = Run {
        common: Common::default(),
        timeout: None,
        for_agent: false,
        asked: None,
        pty: false,
        background: false,
        on_timeout: args::OnTimeout::Stop,
        description: None,
        unsandboxed: false,
        command: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => {
                run.command = words.cloned().collect();
                break;
            }
            "--for-agent" => once(&mut run.for_agent)?,
            "--pty" => once(&mut run.pty)?,
            "--background" => once(&mut run.background)?,
            "--unsandboxed" => once(&mut run.unsandboxed)?,
            option if option.starts_with('-') => common(&mut run.common, option, &mut words)?,
            _ => {
                run.command = std::iter::once(word).chain(words).cloned().collect();
                // What clap makes of it there is not said here a second time.
                if run.command.iter().any(|word| word == "--") {
                    return None;
                }
                break;
            }
        }
    }
    (!run.command.is_empty()).then_some(run)
}

fn hook(words: &[String]) -> Option<Hook> {
    let (mut common_options, mut rewrite, mut agent) = (Common::default(), false, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rewrite" => once(&mut rewrite)?,
            option if option.starts_with('-') => {
                common(&mut common_options, option, &mut words)?;
            }
            name if agent.is_none() => {
                agent = Some(Agent::ALL.into_iter().find(|agent| agent.name() == name)?);
            }
            _ => return None,
        }
    }
    let deadline = Duration::from_secs(DEADLINE_SECONDS);
    agent.map(|agent| Hook { common: common_options, agent, rewrite, deadline })
}

/// How long a hook has when nothing is said.
const DEADLINE_SECONDS: u64 = 10;

fn shell(words: &[String]) -> Option<Vec<String>> {
    let first = words.first()?;
    let is_text = matches!(first.as_str(), "-c" | "-lc");
    (is_text && words.iter().all(|word| word != "--")).then(|| words.to_vec())
}

/// Reads one of the options that stand before or after a subcommand.
fn common<'a>(
    common: &mut Common,
    option: &str,
    words: &mut impl Iterator<Item = &'a String>,
) -> Option<()> {
    match option {
        "--quiet" => once(&mut common.quiet),
        "--json" => once(&mut common.json),
        "--no-daemon" => once(&mut common.no_daemon),
        "--socket" => first(&mut common.socket, value(words)?.into()),
        "--state-dir" => first(&mut common.state_dir, value(words)?.into()),
        "--audit-dir" => first(&mut common.audit_dir, value(words)?.into()),
        "--project" => first(&mut common.project, value(words)?.into()),
        "--cwd" => first(&mut common.cwd, value(words)?.into()),
        "--session" => first(&mut common.session, value(words)?.clone()),
        "--settings" => {
            common.settings.push(value(words)?.clone());
            Some(())
        }
        _ => None,
    }
}

/// Sets what is given once; twice is a mistake, which clap tells.
fn once(flag: &mut bool) -> Option<()> {
    (!std::mem::replace(flag, true)).then_some(())
}

fn first<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// Returns the value of an option, if it is one beyond doubt.
fn value<'a>(words: &mut impl Iterator<Item = &'a String>) -> Option<&'a String> {
    words.next().filter(|word| !word.is_empty() && !word.starts_with('-'))
}

impl Form {
    /// Returns the arguments as clap has them.
    pub(super) fn arguments(self) -> super::args::Arguments {
        let command = match self {
            Form::Run(run) => super::args::Command::Run(run),
            Form::Hook(hook) => super::args::Command::Hook(hook),
            Form::Shell(arguments) => super::args::Command::Shell(Shell::of(arguments)),
        };
        super::args::Arguments { before: Common::default(), command }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use proptest::prelude::*;

    use super::super::args::Arguments;
    use super::*;

    fn both(words: &[&str]) -> (Option<String>, Result<String, String>) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let quick = read(&words).map(|form| format!("{:?}", form.arguments()));
        let all = std::iter::once("stockade".to_owned()).chain(words);
        let whole = Arguments::try_parse_from(all).map(|arguments| format!("{arguments:?}"));
        (quick, whole.map_err(|error| error.to_string()))
    }

    #[test]
    fn the_forms_that_agents_write_are_read_here() {
        for words in [
            &["run", "--", "true"][..],
            &["run", "true"],
            &["run", "--for-agent", "--", "git status && ls"],
            &["run", "--for-agent", "--session", "01a2-c", "--", "git status && ls"],
            &["run", "--quiet", "--socket", "/s", "git", "log", "-1"],
            &["run", "--no-daemon", "--state-dir", "/s", "--", "-x", "--", "--json"],
            &["hook", "claude"],
            &["hook", "gemini", "--rewrite"],
            &["hook", "--settings", "/s", "cline", "--settings", "/t"],
            &["shell", "-c", "true"],
            &["shell", "-lc", "true", "name", "--help"],
        ] {
            let (quick, whole) = both(words);
            assert_eq!(quick, whole.ok(), "{words:?}");
            assert!(quick_is_some(words), "{words:?}");
        }
    }

    fn quick_is_some(words: &[&str]) -> bool {
        both(words).0.is_some()
    }

    #[test]
    fn what_is_not_known_here_is_left_to_clap() {
        for words in [
            &["run"][..],
            &["run", "--"],
            &["run", "--quiet"],
            &["run", "--quiet", "--quiet", "x"],
            &["run", "--timeout", "9s", "x"],
            &["run", "--socket=/s", "x"],
            &["run", "--socket", "", "x"],
            &["run", "--help"],
            &["run", "git", "--", "x"],
            &["hook"],
            &["hook", "nobody"],
            &["hook", "claude", "claude"],
            &["hook", "claude", "--deadline", "1s"],
            &["shell"],
            &["shell", "--help"],
            &["--json", "run", "x"],
            &["check", "x"],
        ] {
            assert!(!quick_is_some(words), "{words:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_is_read_here_clap_reads_alike(
            first in prop::sample::select(vec!["run", "hook", "shell"]),
            rest in prop::collection::vec(prop::sample::select(vec![
                "--", "-", "", "-c", "-lc", "-x", "--json", "--quiet", "--no-daemon", "--for-agent",
                "--unsandboxed", "--rewrite", "--socket", "--settings", "--cwd", "--session", "--state-dir",
                "--help", "-h", "--version", "claude", "cline", "true", "a b", "é", "/s", "--socket=/s", "{}",
            ]), 0..6),
        ) {
            let words: Vec<&str> = std::iter::once(first).chain(rest).collect();
            let (quick, whole) = both(&words);
            if let Some(quick) = quick {
                prop_assert_eq!(Ok(quick), whole, "{:?}", words);
            }
        }
    }
}
