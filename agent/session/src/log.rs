//! The log of a session: one event a line, appended to and never changed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;
use crate::event::{Event, Kind, VERSION};

/// Longest event that is read, in bytes.
const LONGEST: u64 = 64 << 20;
/// Largest log that is held in memory as a whole, in MiB.
const WHOLE: u64 = 256;

/// The content of a log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Read {
    /// Events in order.
    pub events: Vec<Event>,
    /// Lines that were left out, one sentence each.
    pub notes: Vec<String>,
    /// Bytes up to the end of the last whole line.
    pub whole: u64,
}

/// Reads a log. A last line that was cut is left out, a bad line in the middle is skipped; both are noted.
///
/// # Errors
///
/// The file cannot be read, belongs to another user, does not begin with `session.start`, or was written by a later version.
pub fn read(path: &Path) -> Result<Read, Error> {
    let mut events = Vec::new();
    let found = each(path, |event| events.push(event))?;
    Ok(Read { events, ..found })
}

/// Reads a log event by event, and returns what else there is to say of it.
///
/// # Errors
///
/// As for [`read`].
pub fn each(path: &Path, mut take: impl FnMut(Event)) -> Result<Read, Error> {
    each_behind(path, 0, |event, _| take(event))
}

/// Reads a log that something needs as a whole. One that is too large for that is not read.
pub(crate) fn whole(path: &Path, act: &'static str) -> Result<Read, Error> {
    let length = path.metadata().map_err(Error::file(path, "read"))?.len();
    match length > WHOLE << 20 {
        true => Err(Error::TooLarge { path: path.to_owned(), most: WHOLE, act }),
        false => read(path),
    }
}

/// Reads the events behind so many bytes, of which whoever asks knows what they hold. A log that is shorter is none.
pub(crate) fn each_behind(
    path: &Path,
    known: u64,
    mut take: impl FnMut(Event, u64),
) -> Result<Read, Error> {
    let file = File::open(path).map_err(Error::file(path, "read"))?;
    let owner = file.metadata().map_err(Error::file(path, "read"))?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return Err(Error::Foreign { path: path.to_owned() });
    }
    let mut input = BufReader::new(file);
    input.seek(SeekFrom::Start(known)).map_err(Error::file(path, "read"))?;
    let (mut number, mut is_first) = (0_u64, known == 0);
    let mut found = Read { whole: known, ..Read::default() };
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = (&mut input).take(LONGEST).read_until(b'\n', &mut line);
        let count = count.map_err(Error::file(path, "read"))?;
        if count == 0 {
            break;
        }
        number += 1;
        if line.last() != Some(&b'\n') {
            let at_end = input.fill_buf().map_err(Error::file(path, "read"))?.is_empty();
            if at_end {
                found.notes.push(format!("the last event, line {number}, was cut and is left out"));
                break;
            }
            input.skip_until(b'\n').map_err(Error::file(path, "read"))?;
        }
        found.whole = input.stream_position().map_err(Error::file(path, "read"))?;
        match event(&line) {
            Ok(event) if event.v > VERSION => {
                return Err(Error::Later { path: path.to_owned(), version: event.v });
            }
            Ok(event) if is_first && event.kind != Kind::Start => {
                return Err(Error::NoLog { path: path.to_owned() });
            }
            Ok(event) => {
                is_first = false;
                take(event, line.len() as u64);
            }
            Err(()) if is_first => {
                return Err(Error::NoLog { path: path.to_owned() });
            }
            Err(()) => found.notes.push(format!("line {number} is not an event and is skipped")),
        }
    }
    Ok(found)
}

/// Reads one line. A format that is not known needs to have no more than its number.
fn event(line: &[u8]) -> Result<Event, ()> {
    if let Ok(event) = serde_json::from_slice(line) {
        return Ok(event);
    }
    let value: Value = serde_json::from_slice(line).map_err(drop)?;
    if let Some(version) = value.get("v").and_then(Value::as_u64).filter(|it| *it > VERSION) {
        return Ok(Event {
            v: version,
            ..Event::now(None, Kind::Other(String::new()), Value::Null)
        });
    }
    Err(())
}

/// A log that is appended to.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
    last: Option<String>,
}

impl Log {
    /// Opens the log at `path`, which is made if it is missing; what was cut is taken off. Returns what it holds as well.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or is not a log of this version.
    pub fn open(path: &Path) -> Result<(Log, Read), Error> {
        let mut events = Vec::new();
        let (log, found) = Log::open_behind(path, (0, None), |event, _| events.push(event))?;
        Ok((log, Read { events, ..found }))
    }

    /// The same event by event, for those behind so many bytes; a long log is never in memory as a whole. `last` is the identity of the event in front of them.
    pub(crate) fn open_behind(
        path: &Path,
        (known, mut last): (u64, Option<String>),
        mut take: impl FnMut(Event, u64),
    ) -> Result<(Log, Read), Error> {
        let keep = |event: Event, bytes: u64| {
            last = Some(event.id.clone());
            take(event, bytes);
        };
        let found = match path.exists() {
            true => each_behind(path, known, keep)?,
            false => Read::default(),
        };
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = file.map_err(Error::file(path, "written"))?;
        let length = file.metadata().map_err(Error::file(path, "read"))?.len();
        if length > found.whole {
            file.set_len(found.whole).map_err(Error::file(path, "written"))?;
        }
        Ok((Log { file, path: path.to_owned(), last }, found))
    }

    /// Appends an event, and returns when it is in the file: words of a person on the disk itself.
    ///
    /// # Errors
    ///
    /// The file cannot be written. What was written of the event is taken off again.
    pub fn append(&mut self, kind: Kind, data: Value) -> Result<Event, Error> {
        let event = Event::now(self.last.as_deref(), kind, data);
        let mut line = serde_json::to_vec(&event).unwrap_or_default();
        line.push(b'\n');
        self.write(&line, event.is_precious())?;
        self.last = Some(event.id.clone());
        Ok(event)
    }

    /// Appends events in one step, and returns when they are on the disk.
    ///
    /// # Errors
    ///
    /// The file cannot be written. What was written is taken off again.
    pub fn append_all(&mut self, all: Vec<(Kind, Value)>) -> Result<(), Error> {
        let (mut lines, mut last) = (Vec::new(), self.last.clone());
        for (kind, data) in all {
            let event = Event::now(last.as_deref(), kind, data);
            lines.extend(serde_json::to_vec(&event).unwrap_or_default());
            lines.push(b'\n');
            last = Some(event.id);
        }
        self.write(&lines, true)?;
        self.last = last;
        Ok(())
    }

    /// Makes sure that the events go where they are looked for.
    fn is_there(&self) -> Result<(), Error> {
        let own = self.file.metadata().map_err(Error::file(&self.path, "read"))?;
        let named = self.path.symlink_metadata().ok();
        let same = |it: &std::fs::Metadata| (it.dev(), it.ino()) == (own.dev(), own.ino());
        match named.is_some_and(|it| same(&it)) {
            true => Ok(()),
            false => Err(Error::Replaced { path: self.path.clone() }),
        }
    }

    fn write(&mut self, lines: &[u8], to_disk: bool) -> Result<(), Error> {
        self.is_there()?;
        let before =
            self.file.seek(SeekFrom::End(0)).map_err(Error::file(&self.path, "written"))?;
        let written = self.file.write_all(lines).and_then(|()| match to_disk {
            true => self.file.sync_data(),
            false => Ok(()),
        });
        if let Err(error) = written {
            let _ = self.file.set_len(before); // a line that stays cut is taken off by whoever opens the log
            return Err(Error::file(&self.path, "written")(error));
        }
        Ok(())
    }

    /// Brings everything to the disk: at the end of a turn.
    ///
    /// # Errors
    ///
    /// The disk does not take it.
    pub fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(Error::file(&self.path, "written"))
    }
}
