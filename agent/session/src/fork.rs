//! Copies of sessions: the events up to a message, and what belongs to them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::Error;
use crate::event::{Event, Kind};
use crate::log::{Log, whole};
use crate::rewind::{CONTENTS, LIST, OF_COMMANDS};
use crate::state::State;
use crate::store::{Found, Store};

impl Store {
    /// Fills the empty log of the session `id` with a copy of another one, up to and with the message or event `until`.
    /// Paths into the folder of the old session lead into that of the new one; contents of changed files come along. The old
    /// session learns of it, unless it is in use.
    ///
    /// # Errors
    ///
    /// The old session cannot be read or has no such message, or the copy cannot be written.
    pub fn fork(
        &self,
        (from, until): (&Found, Option<&str>),
        (id, log): (&str, &mut Log),
    ) -> Result<State, Error> {
        let mut events = whole(&Store::log(&from.folder), "copied")?.events;
        if let Some(until) = until {
            let fits = |event: &Event| {
                event.id == until || event.data.get("uuid").and_then(Value::as_str) == Some(until)
            };
            let Some(place) = events.iter().rposition(fits) else {
                return Err(Error::NoMessage(until.escape_debug().to_string()));
            };
            events.truncate(place + 1);
        }
        let folder = self.folder(id).ok_or_else(|| Error::Unknown(id.to_owned()))?;
        let state = State::of(&events);
        belongings(&from.folder, &folder, &state).map_err(Error::file(&folder, "copied"))?;
        let paths = (from.folder.to_string_lossy(), folder.to_string_lossy());
        let told = |event: &Event| {
            event.kind == Kind::Start || event.kind == Kind::Fork || event.kind == Kind::Name
        };
        let mut copies = vec![(Kind::Fork, json!({ "from": from.id, "at": until }))];
        copies.extend(events.into_iter().filter(|event| !told(event)).map(|mut event| {
            moved(&mut event.data, (&paths.0, &paths.1));
            // The old session counts its own usage.
            if let (Kind::Usage, Some(data)) = (&event.kind, event.data.as_object_mut()) {
                data.insert("copied".to_owned(), true.into());
            }
            (event.kind, event.data)
        }));
        log.append_all(copies)?;
        match self.open(&from.id) {
            Ok((_lock, mut old, _)) => {
                drop(old.append(Kind::Fork, json!({ "to": id, "at": until }))?)
            }
            Err(Error::InUse(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(state)
    }
}

/// Has texts that name the old folder name the new one.
fn moved(value: &mut Value, (old, new): (&str, &str)) {
    match value {
        Value::String(text) if text.contains(old) => *text = text.replace(old, new),
        Value::Array(items) => items.iter_mut().for_each(|item| moved(item, (old, new))),
        Value::Object(fields) => fields.values_mut().for_each(|field| moved(field, (old, new))),
        _ => {}
    }
}

/// Copies what belongs to a session: its files, and what files held before they were changed, up to the state.
fn belongings(old: &Path, new: &Path, state: &State) -> io::Result<()> {
    for name in ["plan.md", "files", "research"] {
        copy(&old.join(name), &new.join(name))?;
    }
    if state.changes.is_empty() {
        return Ok(());
    }
    directory(&new.join(CONTENTS))?;
    copy(&old.join(OF_COMMANDS), &new.join(OF_COMMANDS))?;
    contents((old, new), state)?;
    if state.seen == 0 {
        return Ok(());
    }
    let mut list = fs::read(old.join(LIST))?;
    list.truncate(usize::try_from(state.seen).unwrap_or(usize::MAX));
    fs::write(new.join(LIST), list)
}

/// Copies what files held before they were changed.
fn contents((old, new): (&Path, &Path), state: &State) -> io::Result<()> {
    for name in state.changes.iter().filter_map(|change| change.before.as_ref()) {
        let is_name = name.len() == 64 && name.bytes().all(|it| it.is_ascii_hexdigit());
        if is_name {
            copy(&old.join(CONTENTS).join(name), &new.join(CONTENTS).join(name))?;
        }
    }
    Ok(())
}

fn directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Copies a file or folder, if there is one. Links are left out: they may lead anywhere.
fn copy(old: &Path, new: &Path) -> io::Result<()> {
    let Ok(found) = old.symlink_metadata() else { return Ok(()) };
    if found.is_dir() {
        directory(new)?;
        for entry in fs::read_dir(old)? {
            let entry = entry?;
            copy(&entry.path(), &new.join(entry.file_name()))?;
        }
    } else if found.is_file() && !new.exists() {
        fs::copy(old, new)?;
    }
    Ok(())
}
