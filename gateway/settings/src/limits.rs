//! Limits of commands that settings set: their time, their output, and how long that is kept.

use std::ops::RangeInclusive;
use std::time::Duration;

use stockade_policy::{Origin, Settings};

use stockade_wire::errors::{Code, Failure};

/// A day, in seconds.
const DAY: u64 = 24 * 3600;
/// A setting that is a whole number.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Its key.
    pub name: &'static str,
    values: RangeInclusive<u64>,
}

impl Setting {
    const fn new(name: &'static str, least: u64, most: u64) -> Setting {
        Setting { name, values: least..=most }
    }
}

/// The settings; numbers with the values that they may have.
const MAX_TIMEOUT: Setting = Setting::new("limits.maxTimeoutSeconds", 1, 30 * DAY);
const DEFAULT_TIMEOUT: Setting = Setting::new("limits.defaultTimeoutSeconds", 1, 30 * DAY);
const OUTPUT_CHARACTERS: Setting = Setting::new("limits.outputCharacters", 1_000, 1_000_000);
const OUTPUT_BYTES: Setting = Setting::new("limits.outputBytes", 1 << 20, 1 << 40);
const APPROVAL: Setting = Setting::new("approvals.waitSeconds", 0, DAY);
const KEEP_DAYS: Setting = Setting::new("limits.keepOutputDays", 1, 3_650);
const KEEP_BYTES: Setting = Setting::new("limits.keepOutputBytes", 1 << 20, 1 << 50);
/// Limits of what one session may have at once: commands, background tasks, bytes of output on the disk.
pub const SESSION_COMMANDS: Setting = Setting::new("limits.sessionCommands", 1, 10_000);
pub const SESSION_TASKS: Setting = Setting::new("limits.sessionTasks", 1, 10_000);
pub const SESSION_OUTPUT: Setting = Setting::new("limits.sessionOutputBytes", 1 << 20, 1 << 50);
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

fn number(settings: &Settings, setting: Setting) -> Result<Option<u64>, Failure> {
    let Setting { name, values } = setting;
    let Some((value, origin)) = settings.values.get(name) else { return Ok(None) };
    let found = value.whole().filter(|number| values.contains(number));
    let help = format!("write a whole number from {} to {}", values.start(), values.end());
    found.map(Some).ok_or_else(|| invalid(name, origin, help))
}

/// Returns the failure of a setting with another value than those that `help` names.
fn invalid(name: &str, origin: &Origin, help: String) -> Failure {
    let message = format!("invalid `{name}` in {}:{}", origin.file.display(), origin.line);
    Failure::new(Code::SettingsRejected, message, help)
}

/// Says whether a setting is the first of two words; one that is not set is the second.
fn is_first(settings: &Settings, name: &str, [first, second]: [&str; 2]) -> Result<bool, Failure> {
    let Some((value, origin)) = settings.values.get(name) else { return Ok(false) };
    let word = value.text().filter(|word| [first, second].contains(word));
    word.map(|word| word == first)
        .ok_or_else(|| invalid(name, origin, format!("write \"{first}\" or \"{second}\"")))
}

fn is_true(settings: &Settings, name: &str) -> Result<bool, Failure> {
    let Some((value, origin)) = settings.values.get(name) else { return Ok(false) };
    value.boolean().ok_or_else(|| invalid(name, origin, "write true or false".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_policy::{Layer, SettingsText};

    /// Returns the limits where a setting has a value, or the message and the help of the failure.
    fn limits(key: &str, value: &str) -> Result<Limits, (String, String)> {
        let text = format!("{{\"limits\":{{\"{key}\":{value}}}}}").into_bytes();
        let (file, anchor) = ("/s.json".into(), "/".into());
        let layer = Layer::User;
        let text = SettingsText { layer, file, text, anchor, trusted: true, above: false };
        let loaded = stockade_policy::load(&[text]);
        let read = Limits::of(loaded.rules.settings());
        read.map_err(|failure| (failure.message, failure.help))
    }

    #[test]
    fn a_number_has_one_of_the_values_that_its_setting_may_have() {
        let days = |value: &str| limits("keepOutputDays", value).map(|it| it.keep_age);
        let age = |days: u64| Ok(Some(Duration::from_secs(days * DAY)));
        assert_eq!((days("1"), days("3650")), (age(1), age(3_650)));
        let message = "invalid `limits.keepOutputDays` in /s.json:1".to_owned();
        let refused = Err((message, "write a whole number from 1 to 3650".to_owned()));
        for value in ["0", "3651", "1.5", "\"1\""] {
            assert_eq!(days(value), refused, "{value}");
        }
    }

    #[test]
    fn a_word_is_one_of_the_two_that_its_setting_knows() {
        let goes_on = |value: &str| limits("whenTimeIsUp", value).map(|it| it.goes_on);
        assert_eq!((goes_on("\"background\""), goes_on("\"stop\"")), (Ok(true), Ok(false)));
        let message = "invalid `limits.whenTimeIsUp` in /s.json:1".to_owned();
        let help = "write \"background\" or \"stop\"".to_owned();
        assert_eq!(goes_on("true"), Err((message, help)));
    }
}
