//! The command line of the `stockade` executable.

mod agent;
mod approvals;
mod args;
mod ask;
mod attend;
mod audit;
mod check;
mod color;
mod context;
mod doctor;
mod events;
mod exit;
mod failure;
mod generate;
mod grants;
mod hook;
mod install;
mod interrupts;
mod keys;
mod parse;
mod policy;
mod refused;
mod review;
mod run;
mod serve;
mod sessions;
mod setup;
mod shell;
mod snapshot;
mod streams;
mod system;
mod tasks;

use crate::cli::exit::ExitCode;
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io::IsTerminal as _;

use clap::error::ErrorKind;
use stockade_kernel::end_now;

use crate::prefork::{Prefork, Purpose};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use args::{Arguments, Command, Common};

/// The status of a process that broke off: that of a panic in a program with the usual entry.
pub const BROKEN: u8 = 101;

/// Is the `stockade` executable: reads the command line, does what it says, and returns the status to end with.
///
/// The launcher, the scan worker and the keeper of hooks branch off before anything else: they need a
/// process without threads.
pub fn main() -> u8 {
    role().number()
}

fn role() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if shell::is_shell(&arguments) {
        end_now(shell::start(&arguments));
    }
    match arguments.get(1).and_then(|word| word.to_str()) {
        // These have confined themselves: at their end they can open nothing more.
        Some("launch") => std::process::exit(stockade_sandbox::launch()),
        Some(stockade_probe::ROLE) => {
            std::process::exit(stockade_probe::main(stockade_sandbox::start))
        }
        Some("proxy") => std::process::exit(stockade_egress::worker::main()),
        Some("scan") => std::process::exit(stockade_worker::scan::main()),
        Some(crate::hooks::reaper::ROLE) => ExitCode::from(crate::hooks::reaper::main(&arguments)),
        Some("hook") => hook::guarded(&arguments),
        Some(role) if system::is_role(role) => system::main(role, &arguments),
        Some(_) | None => command_line(&arguments),
    }
}

fn command_line(arguments: &[OsString]) -> ExitCode {
    let mut texts = Vec::with_capacity(arguments.len());
    for (index, argument) in arguments.iter().enumerate() {
        match argument.to_str() {
            Some(text) => texts.push(text.to_owned()),
            None if index == 0 => texts.push("stockade".to_owned()),
            None => {
                let fail = failing(asks_for_json(arguments));
                return ExitCode::from(fail(&not_utf8(index, argument)));
            }
        }
    }
    // The fork that the words let expect begins before clap reads them.
    let foreseen = context::foreseen(arguments);
    match Arguments::read(&texts) {
        Ok(arguments) => {
            let fail = failing(arguments.is_json());
            dispatch(arguments, foreseen).unwrap_or_else(|failure| ExitCode::from(fail(&failure)))
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            let colored = color::is_on(std::io::stdout().is_terminal());
            let help = args::help::text(&texts, colored);
            let _ = failure::print(help.trim_end()); // nobody reads it: nothing else is to be done
            ExitCode::SUCCESS
        }
        Err(error) => unparsed(&error, failing(asks_for_json(arguments))),
    }
}

/// How a failure is told, to people alone or to a program as well.
type Fail = fn(&Failure) -> u8;

fn failing(json: bool) -> Fail {
    if json { failure::fail_in_json } else { failure::fail }
}

/// Says whether arguments that cannot be read ask for JSON, in front of `--`.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

// By itself: the stack of all that it may do, 45 KB, is then not below that of reading the options.
#[inline(never)]
fn dispatch(mut arguments: Arguments, foreseen: Option<Prefork>) -> Result<ExitCode, Failure> {
    let before = arguments.before;
    let join = |after: Common| {
        let joined = before.clone().join(after).map_err(twice)?;
        color::choose(joined.color);
        Ok(joined)
    };
    if let Some(common) = common_of(&mut arguments.command) {
        *common = join(std::mem::take(common))?;
    }
    match arguments.command {
        // At once: a writer that nobody reads keeps standard output locked, and all that is told has been written.
        Command::Run(options) => end_now(run::run(options, foreseen)?),
        Command::Check(options) => {
            let prefork = context::prefork(&options.common, Purpose::Judge, foreseen);
            wait(check::check(options, prefork))?
        }
        Command::Serve(options) if options.detach => serve::detach(&options),
        Command::Serve(options) => {
            let prefork = Prefork::fork(Purpose::Serve);
            wait(serve::serve(options, prefork))?
        }
        Command::Tasks(options) => tasks::tasks(&options.common, options.command),
        Command::Approvals(options) => approvals::approvals(&options.common, options.command),
        Command::Grants(options) => grants::grants(&options.common, options.command),
        Command::Sessions(options) => sessions::sessions(&options.common, options.command),
        Command::Events(options) => events::events(*options),
        Command::Parse(options) => wait(parse::parse(options))?,
        Command::Doctor(options) => doctor::doctor(&options),
        // A repair writes, and has to meet a limit as an error as well.
        Command::Audit(options) => wait(async { audit::audit(options.common, options.command) })?,
        Command::Allow(options) => {
            wait(policy::amend::amend(options, policy::amend::Effect::Allow))?
        }
        Command::Block(options) => {
            wait(policy::amend::amend(options, policy::amend::Effect::Block))?
        }
        Command::Learn(options) => policy::learn::learn(options),
        Command::Policy(options) => policy::policy(*options, join),
        Command::Review(options) => wait(review::review(options))?,
        Command::Hook(options) => Ok(hook::run(&options)),
        Command::Refuse(options) => Ok(hook::refuse(&options)),
        Command::Install(options) => install::install(&options),
        Command::Setup(options) => setup::setup(&options),
        Command::Snapshot(options) => wait(snapshot::snapshot(options))?,
        Command::Shell(options) => end_now(shell::shell(before, "bash", options.arguments)?),
        Command::Agent(options) => agent::start(&options),
        Command::Acp(options) => agent::start_as("acp", options),
        Command::Rpc(options) => agent::start_as("rpc", options),
        Command::Usage(options) => agent::start_as("usage", options),
        Command::Telemetry(options) => agent::telemetry(options),
        Command::Settings(options) => keys::keys(options.command),
        Command::Completions(options) => generate::completions(&options),
        Command::Man(options) => generate::manual(&options),
    }
}

/// Returns the common options that are given after a subcommand, where it takes them by itself.
fn common_of(command: &mut Command) -> Option<&mut Common> {
    match command {
        Command::Run(options) => Some(&mut options.common),
        Command::Check(options) => Some(&mut options.common),
        Command::Serve(options) => Some(&mut options.common),
        Command::Tasks(options) => Some(&mut options.common),
        Command::Approvals(options) => Some(&mut options.common),
        Command::Grants(options) => Some(&mut options.common),
        Command::Sessions(options) => Some(&mut options.common),
        Command::Events(options) => Some(&mut options.common),
        Command::Parse(options) => Some(&mut options.common),
        Command::Doctor(options) => Some(&mut options.common),
        Command::Audit(options) => Some(&mut options.common),
        Command::Allow(options) | Command::Block(options) => Some(&mut options.common),
        Command::Learn(options) => Some(&mut options.common),
        Command::Review(options) => Some(&mut options.common),
        Command::Snapshot(options) => Some(&mut options.common),
        Command::Hook(options) => Some(&mut options.common),
        Command::Install(options) => Some(&mut options.common),
        Command::Setup(options) => Some(&mut options.common),
        // Its own subcommands join them.
        Command::Policy(_)
        | Command::Refuse(_)
        | Command::Shell(_)
        | Command::Agent(_)
        | Command::Acp(_)
        | Command::Rpc(_)
        | Command::Usage(_)
        | Command::Telemetry(_)
        | Command::Settings(_)
        | Command::Completions(_)
        | Command::Man(_) => None,
    }
}

/// The failure of an option that is given before and after a subcommand.
fn twice(option: &str) -> Failure {
    let message = format!("duplicate `{option}`: before and after the subcommand");
    Failure::new(Code::InvalidRequest, message, "give it once")
}

/// Runs `work` on this thread. One thread is all a call needs, and it starts fastest.
fn wait<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::new(Code::Internal, format!("cannot start the runtime: {error}"), "")
    })?;
    let limits = runtime.block_on(async { meet_limits() });
    limits.map_err(|error| {
        Failure::new(Code::Internal, format!("cannot receive signals: {error}"), "")
    })?;
    let result = runtime.block_on(work);
    // A thread that still reads standard input would hold the end up for as long as nothing is typed.
    runtime.shutdown_background();
    Ok(result)
}

/// Makes a write beyond the limit of a file's size the error EFBIG, of which the log speaks, instead of the
/// end of this process (setrlimit(2)). A signal that is received, unlike one that is ignored, has its
/// default again in the programs that are started (execve(2)).
fn meet_limits() -> std::io::Result<()> {
    let number = rustix::process::Signal::XFSZ.as_raw();
    // The runtime goes on receiving it when nobody listens.
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(number)).map(drop)
}

fn not_utf8(index: usize, argument: &OsStr) -> Failure {
    let shown = argument.to_string_lossy();
    Failure::new(
        Code::NotUtf8,
        format!("argument {index} is not UTF-8: {}", words::quoted(&shown)),
        "write bytes above 127 as escapes in shell text, such as $'\\xff'",
    )
}

/// Tells what is wrong with the arguments; the version is not an error.
fn unparsed(error: &clap::Error, fail: Fail) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayVersion => {
            let _ = error.print(); // nobody reads it: nothing else is to be done
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => ExitCode::from(fail(&Failure::new(
            Code::InvalidRequest,
            "missing subcommand",
            "`stockade --help` lists them",
        ))),
        _ => ExitCode::from(fail(&unusable(&error.to_string()))),
    }
}

/// Returns the failure that the paragraphs of a message about arguments tell: the first says what is wrong,
/// a tip says what to do.
fn unusable(text: &str) -> Failure {
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = text.split("\n\n").map(line);
    let first = paragraphs.next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(&first);
    let tip = paragraphs.find_map(|text| text.strip_prefix("tip: ").map(str::to_owned));
    // One fix: clap may add how the word is passed as a value.
    let tip = tip.map(|tip| tip.split(" tip: ").next().unwrap_or_default().to_owned());
    let help = tip.unwrap_or_else(|| "`stockade SUBCOMMAND --help` lists all options".into());
    Failure::new(Code::InvalidRequest, message, help)
}
