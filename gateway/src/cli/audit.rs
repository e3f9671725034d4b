//! `stockade audit`: reads and checks the log.

use crate::cli::exit::ExitCode;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::args::{
    AuditCommand, Checkpoint, Common, Conditions, Repair, Report, Search, Tail, Verify, Why,
};
use super::{context, failure};
use crate::audit::query::filter::{Filter, when};
use crate::audit::query::{self, Order, QueryResult, Record, Which};
use crate::audit::verify::{self, Repairs, Strictness, Trust};
use crate::audit::{Error, note, repair};
use crate::places::Places;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;

/// Nothing was found.
const NOTHING: u8 = 1;
/// How often a log is looked at that is followed.
const GLANCE: Duration = Duration::from_millis(200);

/// Does what `command` says to the log that `common` names.
pub(crate) fn audit(common: Common, command: AuditCommand) -> Result<ExitCode, Failure> {
    match command {
        AuditCommand::Verify(options) => verify(&join(common, &options.common)?, options),
        AuditCommand::Tail(options) => tail(&join(common, &options.common)?, &options),
        AuditCommand::Search(options) => search(&join(common, &options.common)?, &options),
        AuditCommand::Why(options) => why(&join(common, &options.common)?, &options),
        AuditCommand::Report(options) => report(&join(common, &options.common)?, &options),
        AuditCommand::Checkpoint(options) => checkpoint(&join(common, &options.common)?, &options),
        AuditCommand::Repair(options) => repair(&join(common, &options.common)?, options),
    }
}

fn join(before: Common, after: &Common) -> Result<Common, Failure> {
    before.join(after.clone()).map_err(super::twice)
}

/// Returns the places of the log that the options name, or of the one in use.
fn places(common: &Common, directory: Option<PathBuf>) -> Result<Places, Failure> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let mut options = context::options(common, &here);
    if let Some(directory) = directory {
        options.at.audit_directory = Some(here.join(directory));
    }
    Places::find(&options, |name| std::env::var_os(name))
}

fn verify(common: &Common, options: Verify) -> Result<ExitCode, Failure> {
    let places = places(common, options.directory)?;
    let trust = match options.trust {
        Some(path) if path.is_dir() => Trust::State(path),
        Some(path) => Trust::KeyFile(path),
        None => Trust::State(places.audit_state),
    };
    let strictness = if options.strict { Strictness::Strict } else { Strictness::Notes };
    let repairs = if options.accept_repairs { Repairs::Accepted } else { Repairs::Refused };
    told(
        common,
        &verify::Options {
            directory: places.audit,
            trust,
            checkpoints: options.checkpoint,
            strictness,
            repairs,
        },
    )
}

/// Checks a log and tells the outcome.
fn told(common: &Common, options: &verify::Options) -> Result<ExitCode, Failure> {
    let report = verify::verify(options);
    let failure = report.unchecked.as_ref().map(|reason| {
        Failure::new(
            Code::AuditUnavailable,
            format!("the log could not be checked: {reason}"),
            "name the log with its directory, and its keys with `--trust`",
        )
    });
    let text = if common.json {
        failure::with_error(report.json(), failure.as_ref()).to_string()
    } else {
        report.text()
    };
    failure::print(text.trim_end()).map_err(failure::unwritable)?;
    match (report.exit_code(), &failure) {
        (failure::FAILED, Some(failure)) => Ok(failure::fail(failure).into()),
        (status, _) => Ok(ExitCode::from(status)),
    }
}

/// Makes derived files again, says which, and checks the log.
fn repair(common: &Common, options: Repair) -> Result<ExitCode, Failure> {
    let places = places(common, options.directory)?;
    let made = repair::repair(&places.of_log()).map_err(|error| {
        let message = words::one_line(&error.to_string());
        Failure::new(Code::AuditUnavailable, message, error.help())
    })?;
    for path in &made {
        failure::tell(&format!("rebuilt: {}", words::one_line(&path.to_string_lossy())));
    }
    if made.is_empty() {
        failure::tell("stockade: nothing had to be rebuilt");
    }
    told(
        common,
        &verify::Options {
            directory: places.audit,
            trust: Trust::State(places.audit_state),
            checkpoints: Vec::new(),
            strictness: Strictness::Notes,
            repairs: Repairs::Refused,
        },
    )
}

fn report(common: &Common, options: &Report) -> Result<ExitCode, Failure> {
    let directory = places(common, None)?.audit;
    let filter = filter(common, &options.conditions, None)?;
    let tally =
        query::report(&directory, &filter, options.by).map_err(|error| unreadable(&error))?;
    if let Some(broken) = &tally.broken {
        failure::tell(&broken_chain(broken));
    }
    if tally.is_empty() {
        return Ok(ExitCode::from(NOTHING));
    }
    let text = if common.json { tally.json() } else { tally.table() };
    failure::print(text.trim_end()).map_err(failure::unwritable)?;
    Ok(ExitCode::SUCCESS)
}

fn checkpoint(common: &Common, options: &Checkpoint) -> Result<ExitCode, Failure> {
    let places = places(common, options.directory.clone())?.of_log();
    let Some(note) = note::newest(&places).map_err(|error| unreadable(&error))? else {
        failure::tell("stockade: there is no log yet");
        return Ok(ExitCode::from(NOTHING));
    };
    if options.vkey {
        failure::print(&note.key).map_err(failure::unwritable)?;
    } else {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&note.bytes).and_then(|()| stdout.flush()).map_err(failure::unwritable)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tail(common: &Common, options: &Tail) -> Result<ExitCode, Failure> {
    let places = places(common, None)?.of_log();
    let filter = filter(common, &options.conditions, options.by.as_deref())?;
    let (answer, mut follow) =
        query::tail(&places, &filter, options.count).map_err(|error| unreadable(&error))?;
    let status = show(common, &answer)?;
    if !options.follow {
        return Ok(status);
    }
    let mut told = answer.broken.is_some();
    loop {
        std::thread::sleep(GLANCE);
        let answer = follow.poll().map_err(|error| unreadable(&error))?;
        if !answer.records.is_empty() {
            show(common, &answer)?;
        }
        if let (Some(broken), false) = (follow.broken(), told) {
            failure::tell(&broken_chain(broken));
            told = true;
        }
    }
}

fn search(common: &Common, options: &Search) -> Result<ExitCode, Failure> {
    let places = places(common, None)?.of_log();
    let filter = filter(common, &options.conditions, options.by.as_deref())?;
    let order =
        if options.reverse { Order::Newest(options.limit) } else { Order::Oldest(options.limit) };
    show(common, &query::search(&places, &filter, order).map_err(|error| unreadable(&error))?)
}

fn why(common: &Common, options: &Why) -> Result<ExitCode, Failure> {
    let places = places(common, None)?.of_log();
    let story = query::why(&places, &Which::read(&options.which));
    let Some(story) = story.map_err(|error| unreadable(&error))? else {
        failure::tell("stockade: there is no such decision in the log");
        return Ok(ExitCode::from(NOTHING));
    };
    if let Some(broken) = &story.broken {
        failure::tell(&broken_chain(broken));
    }
    if common.json {
        tell_unsigned(story.unsigned());
        print_stored(std::iter::once(&story.decision).chain(&story.later))?;
    } else {
        failure::print(story.text().trim_end()).map_err(failure::unwritable)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what was found: with `--json` the lines as they are stored, else a table.
fn show(common: &Common, answer: &QueryResult) -> Result<ExitCode, Failure> {
    if let Some(broken) = &answer.broken {
        failure::tell(&broken_chain(broken));
    }
    tell_unsigned(&answer.unsigned);
    if answer.records.is_empty() {
        return Ok(ExitCode::from(NOTHING));
    }
    if common.json {
        print_stored(answer.records.iter())?;
    } else {
        failure::print(query::table(answer).trim_end()).map_err(failure::unwritable)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Says on standard error which of the records that are shown had no signature when they were appended: what was
/// stored is printed byte for byte, and cannot say so itself.
fn tell_unsigned(unsigned: &BTreeSet<u64>) {
    let (Some(first), Some(last)) = (unsigned.first(), unsigned.last()) else { return };
    let records = if unsigned.len() == 1 { "record" } else { "records" };
    let count = unsigned.len();
    failure::tell(&format!(
        "stockade: warning: no signature covered {count} {records} (seq {first} to {last}) when appended; \
         anyone who can write the log could have added them"
    ));
}

fn print_stored<'a>(records: impl Iterator<Item = &'a Record>) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    for record in records {
        stdout
            .write_all(&record.bytes)
            .and_then(|()| stdout.write_all(b"\n"))
            .map_err(failure::unwritable)?;
    }
    stdout.flush().map_err(failure::unwritable)
}

fn filter(common: &Common, conditions: &Conditions, by: Option<&str>) -> Result<Filter, Failure> {
    let time = |text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => when(text).map(Some).ok_or_else(|| {
            let message = format!("invalid time {}", words::quoted(text));
            Failure::new(
                Code::InvalidRequest,
                message,
                "use 2h, 7d, today or RFC 3339, such as 2026-01-31T08:00:00Z",
            )
        }),
    };
    let file = conditions.file.as_ref().map(|place| match place.rsplit_once(':') {
        Some((file, line)) if line.parse::<u64>().is_ok() => (file.to_owned(), line.parse().ok()),
        Some(_) | None => (place.clone(), None),
    });
    Ok(Filter {
        kind: conditions.kind.clone(),
        verdict: conditions.verdict.clone(),
        by: by.map(str::to_owned),
        code: conditions.code.clone(),
        rule: conditions.rule.clone(),
        layer: conditions.layer.clone(),
        file,
        uid: conditions.uid,
        agent: conditions.agent.clone(),
        session: common.session.clone(),
        call: conditions.call.clone(),
        door: conditions.door.clone(),
        program: conditions.program.clone(),
        command: conditions.command.clone(),
        path: conditions.path.clone(),
        host: conditions.host.clone(),
        exit: conditions.exit,
        signal: conditions.signal.clone(),
        reference: conditions.r#ref.clone(),
        tag: conditions.tag.clone(),
        since: time(&conditions.since)?,
        until: time(&conditions.until)?,
    })
}

fn broken_chain(broken: &str) -> String {
    format!(
        "stockade: the chain of the log is broken: {}\n  try: `stockade audit verify`",
        words::one_line(broken)
    )
}

fn unreadable(error: &Error) -> Failure {
    let message = error.to_string();
    // A caller that only reads never meant to run anything.
    let message = message.strip_suffix("; nothing was run").unwrap_or(&message);
    Failure::new(Code::AuditUnavailable, words::one_line(message), error.help())
}
