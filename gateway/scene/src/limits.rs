//! Limits of commands that settings set: their time, their output, and how long that is kept.

use std::time::Duration;

use stockade_policy::Settings;
use stockade_text::json::Kind;

use stockade_wire::errors::{Code, Failure};

/// A day, in seconds.
const DAY: u64 = 24 * 3600;
/// The settings; numbers with the values that they may have.
const MAX_TIMEOUT: (&str, u64, u64) = ("limits.maxTimeoutSeconds", 1, 30 * DAY);
const DEFAULT_TIMEOUT: (&str, u64, u64) = ("limits.defaultTimeoutSeconds", 1, 30 * DAY);
const OUTPUT_CHARACTERS: (&str, u64, u64) = ("limits.outputCharacters", 1_000, 1_000_000);
const OUTPUT_BYTES: (&str, u64, u64) = ("limits.outputBytes", 1 << 20, 1 << 40);
const APPROVAL: (&str, u64, u64) = ("approvals.waitSeconds", 0, DAY);
const KEEP_DAYS: (&str, u64, u64) = ("limits.keepOutputDays", 1, 3_650);
const KEEP_BYTES: (&str, u64, u64) = ("limits.keepOutputBytes", 1 << 20, 1 << 50);
/// Limits of what one session may have at once: commands, background tasks, bytes of output on the disk.
pub const SESSION_COMMANDS: (&str, u64, u64) = ("limits.sessionCommands", 1, 10_000);
pub const SESSION_TASKS: (&str, u64, u64) = ("limits.sessionTasks", 1, 10_000);
pub const SESSION_OUTPUT: (&str, u64, u64) = ("limits.sessionOutputBytes", 1 << 20, 1 << 50);
/// `stop` ends a command whose output is larger than `limits.outputBytes`; `discard` lets it run on.
const WHEN_FULL: &str = "limits.whenOutputIsFull";

/// `background` lets a command go on as a task when its time limit passes; `stop` ends it.
const WHEN_TIME_IS_UP: &str = "limits.whenTimeIsUp";

/// Background tasks go on when their session ends.
const TASKS_STAY: &str = "tasks.outliveSession";

/// Most bytes of a character (RFC 3629).
const WIDEST: usize = 4;
/// Longest time limit, unless settings say otherwise.
const LONGEST: Duration = Duration::from_secs(600);
/// Time limit of a command that names none, unless settings say otherwise.
pub const USUAL: Duration = Duration::from_secs(120);

/// How much output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Characters of both streams that are given back; longer output goes to a file.
    pub characters: usize,
    /// Largest file of kept output; what follows is counted and digested, but not kept.
    pub bytes: u64,
    /// A command that writes more is stopped.
    pub stops: bool,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { characters: 30_000, bytes: 1 << 30, stops: false }
    }
}

impl Kept {
    /// Returns the characters that are given back of each end of a longer output.
    pub fn part(self) -> usize {
        self.characters / 2
    }

    /// Returns the bytes that hold everything that is given back, whatever it is.
    pub fn head_bytes(self) -> usize {
        self.characters * WIDEST
    }

    pub fn tail_bytes(self) -> usize {
        self.part() * WIDEST
    }
}

/// Limits of all commands of one session together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Commands at once, background tasks among them.
    pub commands: u64,
    /// Background tasks at once.
    pub tasks: u64,
    /// Bytes of output on the disk.
    pub output: u64,
}

impl Default for Quota {
    fn default() -> Quota {
        Quota { commands: 256, tasks: 128, output: 5 << 30 }
    }
}

/// The limits of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time limit of a command that names none.
    pub usual: Duration,
    /// Longest time limit that a command may name.
    pub longest: Duration,
    /// A command whose time limit passes goes on as a background task, where a gateway stays to run it.
    pub goes_on: bool,
    /// Background tasks go on when their session ends.
    pub tasks_stay: bool,
    /// How much output is shown and kept.
    pub output: Kept,
    /// Limits of its session.
    pub session: Quota,
    /// How long a question waits for an answer from elsewhere where nobody can be asked at the call; none where it does not.
    pub approval: Option<Duration>,
    /// Output of commands that ended longer ago is removed; none where settings say nothing.
    pub keep_age: Option<Duration>,
    /// Most bytes of output of commands that have ended; none where settings say nothing.
    pub keep_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            usual: USUAL,
            longest: LONGEST,
            goes_on: false,
            tasks_stay: false,
            output: Kept::default(),
            session: Quota::default(),
            approval: None,
            keep_age: None,
            keep_bytes: None,
        }
    }
}

impl Limits {
    /// Reads the limits of the settings. A value that is none of those allowed is a failure that names its file and line.
    pub fn of(settings: &Settings) -> Result<Limits, Failure> {
        let mut limits = Limits::default();
        let read = |setting| number(settings, setting);
        if let Some(seconds) = read(MAX_TIMEOUT)? {
            limits.longest = Duration::from_secs(seconds);
        }
        limits.usual = match read(DEFAULT_TIMEOUT)? {
            Some(seconds) => Duration::from_secs(seconds).min(limits.longest),
            None => limits.usual.min(limits.longest),
        };
        if let Some(characters) = read(OUTPUT_CHARACTERS)? {
            limits.output.characters = usize::try_from(characters).unwrap_or(usize::MAX);
        }
        if let Some(bytes) = read(OUTPUT_BYTES)? {
            limits.output.bytes = bytes;
        }
        let usual = limits.session;
        limits.session = Quota {
            commands: read(SESSION_COMMANDS)?.unwrap_or(usual.commands),
            tasks: read(SESSION_TASKS)?.unwrap_or(usual.tasks),
            output: read(SESSION_OUTPUT)?.unwrap_or(usual.output),
        };
        limits.output.stops = is_first(settings, WHEN_FULL, ["stop", "discard"])?;
        limits.goes_on = is_first(settings, WHEN_TIME_IS_UP, ["background", "stop"])?;
        limits.tasks_stay = is_true(settings, TASKS_STAY)?;
        limits.approval = read(APPROVAL)?.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        limits.keep_age = read(KEEP_DAYS)?.map(|days| Duration::from_secs(days * DAY));
        limits.keep_bytes = read(KEEP_BYTES)?;
        Ok(limits)
    }
}

/// Returns where a setting stands, for people.
pub fn place(settings: &Settings, name: &str) -> String {
    match settings.values.get(name) {
        Some((_, origin)) => format!("{}:{}", origin.file.display(), origin.line),
        None => "by default".to_owned(),
    }
}

fn number(
    settings: &Settings,
    (name, least, most): (&str, u64, u64),
) -> Result<Option<u64>, Failure> {
    let Some((value, origin)) = settings.values.get(name) else { return Ok(None) };
    let found = match &value.kind {
        Kind::Number(digits) => digits.parse().ok(),
        _ => None,
    };
    let found = found.filter(|number| (least..=most).contains(number));
    let place = format!("{}:{}", origin.file.display(), origin.line);
    found.map(Some).ok_or_else(|| {
        let message = format!("invalid `{name}` in {place}");
        let help = format!("write a whole number from {least} to {most}");
        Failure::new(Code::SettingsRejected, message, help)
    })
}

/// Says whether a setting is the first of two words; one that is not set is the second.
fn is_first(settings: &Settings, name: &str, [first, second]: [&str; 2]) -> Result<bool, Failure> {
    let Some((value, origin)) = settings.values.get(name) else { return Ok(false) };
    match &value.kind {
        Kind::String(word) if word == first => Ok(true),
        Kind::String(word) if word == second => Ok(false),
        _ => {
            let message = format!("invalid `{name}` in {}:{}", origin.file.display(), origin.line);
            let help = format!("write \"{first}\" or \"{second}\"");
            Err(Failure::new(Code::SettingsRejected, message, help))
        }
    }
}

fn is_true(settings: &Settings, name: &str) -> Result<bool, Failure> {
    let Some((value, origin)) = settings.values.get(name) else { return Ok(false) };
    value.boolean().ok_or_else(|| {
        let message = format!("invalid `{name}` in {}:{}", origin.file.display(), origin.line);
        Failure::new(Code::SettingsRejected, message, "write true or false")
    })
}
