//! `stockade shell`: the shell of an agent, and a plain shell for a person.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::args::Common;
use super::{context, failure, run, streams};
use crate::parse::is_plain;
use crate::prefork::{Prefork, Purpose};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{AtLimit, CommandRequest, CommandText, LONGEST_MS, RunOutcome};
use crate::route::Options;
use crate::serve::hook::marks;
use crate::serve::shell::options::{Asked, read};
use crate::serve::shell::wrapping::{self, Through, Unwrapped};
use crate::serve::shell::{inside, marker};

/// Where the real shell is. What a search path says is the caller's word.
const REAL: [&str; 4] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh"];

/// Says whether this process was started under the name of a shell.
pub(super) fn is_shell(arguments: &[OsString]) -> bool {
    let named = |name: Option<&OsStr>| name.is_some_and(|name| name.as_bytes().ends_with(b"sh"));
    if !named(arguments.first().and_then(|word| Path::new(word).file_name())) {
        return false;
    }
    // An executable that is itself called so starts itself as launcher, scan worker and probe under this name.
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let role = arguments.get(1).and_then(|word| word.to_str());
    !(named(own.file_name()) && matches!(role, Some("launch" | "scan" | stockade_probe::ROLE)))
}

/// Is the shell under that name.
pub(super) fn start(arguments: &[OsString]) -> u8 {
    let texts = arguments.iter().map(|word| word.to_str().map(str::to_owned));
    let result = match texts.collect::<Option<Vec<String>>>() {
        Some(mut texts) => {
            let name = texts.remove(0);
            let name = name.rsplit('/').next().unwrap_or(&name).to_owned();
            shell(Common::default(), &name, texts)
        }
        None => {
            let help = "write bytes above 127 as escapes, such as $'\\xff'";
            Err(Failure::new(Code::NotUtf8, "an argument of the shell is not UTF-8", help))
        }
    };
    result.unwrap_or_else(|failure| failure::fail(&failure))
}

/// Judges and runs what a shell was asked for; `name` is the one it was started under.
pub(super) fn shell(common: Common, name: &str, arguments: Vec<String>) -> Result<u8, Failure> {
    if inside::own_confinement() {
        // Judged already, with the text around it; and nothing here can leave the confinement.
        return Err(become_real(name, &arguments)?);
    }
    let asked = read(&arguments).map_err(|reason| {
        let help = "`stockade shell` accepts the options of bash that affect a command";
        Failure::new(Code::InvalidRequest, reason, help)
    })?;
    let command = match asked {
        Asked::Text(text) => Wanted::of_text(text)?,
        Asked::Words(words) => match words.as_slice() {
            [line] if is_line(line) => {
                // As set-up writes it: with other options it is a command like any.
                match stockade_hooks::own::own_hook(line).as_deref() {
                    Some(words @ ([_, _] | [_, _, _]))
                        if words.iter().skip(2).all(|it| it == "--rewrite") =>
                    {
                        // The agent takes any other status of its hook for consent.
                        failure::fail(&become_own(words));
                        return Ok(2);
                    }
                    Some(_) | None => {}
                }
                Wanted::of_text(line.clone())?
            }
            _ => Wanted::of_words(words)?,
        },
        Asked::Input { .. } if std::io::stdin().is_terminal() => {
            for_a_person()?;
            return Err(become_real(name, &arguments)?);
        }
        Asked::Input { options, parameters } => Wanted::of_input(options, parameters)?,
    };
    match command {
        // An empty text does nothing, in any shell.
        None => Ok(0),
        Some(wanted) => {
            let purpose =
                Purpose::Run { is_read: !is_plain(context::shown(&wanted.command).as_bytes()) };
            let prefork = context::prefork(&common, purpose, None);
            wanted.run(common, prefork)
        }
    }
}

/// Says whether a lone operand is a line to run, as a program in front of each command line is given it, and no script.
fn is_line(operand: &str) -> bool {
    operand.contains(char::is_whitespace) && Path::new(operand).symlink_metadata().is_err()
}

/// Becomes this executable with these words; returns only the failure of that.
#[expect(
    clippy::disallowed_methods,
    reason = "this process becomes the shell that was asked for, which judges nothing itself"
)]
fn become_own(words: &[String]) -> Failure {
    let error = Command::new("/proc/self/exe").args(words).exec();
    Failure::new(Code::Internal, format!("the hook cannot be started: {error}"), "")
}

/// The command to run, with its session and question.
struct Wanted {
    command: CommandText,
    /// Session that an agent's hook is said to have named.
    session: Option<String>,
    /// Number of the question that the hook is said to have put.
    question: Option<String>,
    stdin: bool,
    marker: Option<PathBuf>,
}

impl Wanted {
    fn of_text(text: String) -> Result<Option<Wanted>, Failure> {
        let found = wrapping::unwrap(&text, &temporary_folders()).map_err(|reason| {
            Failure::new(Code::Internal, format!("invalid table of agents: {reason}"), "")
        })?;
        let stdin = found.is_none() && streams::has_stdin();
        let before = String::new();
        let whole = Unwrapped { text, before, marker: None };
        let Unwrapped { text, before, marker } = found.unwrap_or(whole);
        let (text, session, question) = match wrapping::through_gate(&text) {
            Some(Through { text, session, question }) => (text, session, question),
            None => (text, None, None),
        };
        // One text, so that nothing runs in front of the command that was not judged with it.
        let text = if before.is_empty() { text } else { format!("{before}\n{text}") };
        let empty = text.trim().is_empty();
        let command = CommandText::Shell(text);
        Ok((!empty).then_some(Wanted { command, session, question, stdin, marker }))
    }

    fn of_words(words: Vec<String>) -> Result<Option<Wanted>, Failure> {
        let real = real()?.to_string_lossy().into_owned();
        let fixed = [real, "--noprofile".to_owned(), "--norc".to_owned()];
        let command = CommandText::Words(fixed.into_iter().chain(words).collect());
        let stdin = streams::has_stdin();
        Ok(Some(Wanted { command, session: None, question: None, stdin, marker: None }))
    }

    /// A text on standard input is judged whole, so all of it is read first and the command gets none.
    fn of_input(options: Vec<String>, parameters: Vec<String>) -> Result<Option<Wanted>, Failure> {
        let text = context::standard_input("the command text")?;
        let wanted = match (options.is_empty(), parameters.is_empty()) {
            (true, true) => Wanted::of_text(text)?,
            (_, _) => {
                let text = ["-c".to_owned(), text, "bash".to_owned()];
                Wanted::of_words([options, text.to_vec(), parameters].concat())?
            }
        };
        Ok(wanted.map(|wanted| Wanted { stdin: false, ..wanted }))
    }

    fn run(self, common: Common, prefork: Prefork) -> Result<u8, Failure> {
        let mut call = match context::call(&common, "shell") {
            Ok(call) => call,
            Err(failure) => {
                let command = context::shown(&self.command);
                return Err(run::unread(&common, prefork, "shell", &command, failure));
            }
        };
        let Wanted { command, session, question, stdin, marker } = self;
        call.context.hook_session = session;
        call.context.hook_question = question;
        let (shown, cwd) = (context::shown(&command), call.shown_directory());
        let request = CommandRequest {
            command,
            cwd: call.cwd.clone(),
            // The caller of a shell keeps the time.
            timeout_ms: Some(LONGEST_MS),
            background: false,
            at_limit: AtLimit::Stop,
            one_stream: streams::are_one_place(),
            pty: false,
            window: None,
            description: None,
            unsandboxed: false,
            stdin,
            report_cwd: marker.is_some(),
            carry_cwd: false,
            call_id: None,
            context: call.context,
        };
        let options = Options { prefork, ..call.options };
        let (outcome, lost) =
            run::perform(options, request, streams::Show::Output, run::People::Nobody)?;
        if let (Some(marker), RunOutcome::Ran(result)) = (&marker, &outcome) {
            // As the agent's own line does, only after a success.
            let cwd = result.cwd_after.as_ref().filter(|_| result.exit_code == Some(0));
            if let Some(Err(error)) = cwd.map(|cwd| marker::write(marker, cwd)) {
                let path = marker.display();
                failure::tell(&format!("stockade: `{path}` cannot be written: {error}"));
            }
        }
        let ending = run::Ending { json: false, quiet: false, command: shown, cwd };
        Ok(ending.tell(&outcome, lost))
    }
}

/// The folders in which agents leave their marker files.
fn temporary_folders() -> Vec<PathBuf> {
    let named = ["TMPDIR", "CLAUDE_CODE_TMPDIR"].iter().filter_map(|name| context::variable(name));
    named.map(PathBuf::from).chain([PathBuf::from("/tmp")]).collect()
}

/// Refuses what an agent types into a terminal: it would pass unread.
fn for_a_person() -> Result<(), Failure> {
    let marks = marks().map_err(|reason| {
        Failure::new(Code::Internal, format!("invalid table of agents: {reason}"), "")
    })?;
    match marks.into_iter().find(|name| std::env::var_os(name).is_some()) {
        Some(name) => Err(Failure::new(
            Code::InvalidRequest,
            format!("no interactive shell for an agent (`{name}` is set)"),
            format!("give the command with `-c`; a person unsets `{name}` first"),
        )),
        None if !std::io::stderr().is_terminal() => Err(Failure::new(
            Code::InvalidRequest,
            "standard input is a terminal without a person",
            "give the command with `-c`",
        )),
        None => Ok(()),
    }
}

/// Becomes the real shell; returns only the failure of that.
#[expect(
    clippy::disallowed_methods,
    reason = "this process becomes the shell that was asked for, which judges nothing itself"
)]
fn become_real(name: &str, arguments: &[String]) -> Result<Failure, Failure> {
    let real = real()?;
    let error = Command::new(&real).arg0(name).args(arguments).exec();
    let message = format!("`{}` cannot be started: {error}", real.display());
    Ok(Failure::new(Code::ShellMissing, message, "install the package `bash`"))
}

/// Becomes a command of `stockade run` where all is confined by us already: it was judged with the text around it.
#[expect(
    clippy::disallowed_methods,
    reason = "this process becomes the shell that was asked for, which judges nothing itself"
)]
pub(super) fn within(command: &CommandText) -> Result<Failure, Failure> {
    match command {
        CommandText::Shell(text) => {
            let fixed = ["--noprofile", "--norc", "-c"].map(str::to_owned);
            become_real("bash", &fixed.into_iter().chain([text.clone()]).collect::<Vec<_>>())
        }
        CommandText::Words(words) => {
            let (program, rest) = words.split_first().ok_or_else(|| {
                Failure::new(Code::InvalidRequest, "the command is empty", "give a command")
            })?;
            let error = Command::new(program).args(rest).exec();
            let message = format!("`{program}` cannot be started: {error}");
            Ok(Failure::new(Code::LaunchFailed, message, "check its name and permissions"))
        }
        // No line of a shell asks for one.
        CommandText::Tool(call) => {
            let message = format!("`{}` is a tool, not a command", call.name);
            Err(Failure::new(Code::InvalidRequest, message, "give a command"))
        }
    }
}

fn real() -> Result<PathBuf, Failure> {
    let real = REAL.iter().map(PathBuf::from);
    let mut real =
        real.filter(|path| path.is_file() && !stockade_base::executable::is_this_executable(path));
    real.next().ok_or_else(|| {
        Failure::new(Code::ShellMissing, "bash is not installed", "install the package `bash`")
    })
}
