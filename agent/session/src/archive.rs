//! One file that holds a session: a tar archive, compressed with Zstandard (RFC 8878). A manifest has the digest of each file.
//! No secret and no old content of a file of the project is in it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::event::{Kind, now};
use crate::log::{Log, whole};
use crate::secrets::Masks;
use crate::store::{Found, LOG, Store};
use crate::workspace::Workspace;

/// The form of archives that this version writes.
const FORM: u64 = 1;
/// Name of the manifest, the first entry.
const MANIFEST: &str = "manifest.json";
/// Most bytes of an archive's content.
const MOST: u64 = 1 << 30;
/// Folders of a session that go along.
const FOLDERS: [&str; 2] = ["files", "research"];
/// Name of the plan of a session.
const PLAN: &str = "plan.md";

/// The content of an archive, by name.
type Files = BTreeMap<String, Vec<u8>>;

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    form: u64,
    session: String,
    made_at: String,
    /// SHA-256 of each file, in hexadecimal.
    files: BTreeMap<String, String>,
}

/// The result of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// Files in the archive.
    pub files: usize,
    /// Secrets that were masked.
    pub masked: usize,
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bad(reason: impl Into<String>) -> Error {
    Error::Archive(reason.into())
}

impl Store {
    /// Writes a session as one file.
    ///
    /// # Errors
    ///
    /// The session cannot be read, or the file cannot be written.
    pub fn export(&self, found: &Found, output: &mut dyn Write) -> Result<Exported, Error> {
        if !Masks::are_usable() {
            return Err(bad("the table of secrets cannot be read, so nothing is exported"));
        }
        let (mut files, masked) = contents(found)?;
        let manifest = Manifest {
            form: FORM,
            session: found.id.clone(),
            made_at: now(),
            files: files.iter().map(|(name, bytes)| (name.clone(), digest(bytes))).collect(),
        };
        let manifest = serde_json::to_vec(&manifest).unwrap_or_default();
        let count = files.len();
        let mut archive = tar::Builder::new(Vec::new());
        let log = files.remove(LOG).unwrap_or_default();
        // The manifest is first, so that a reader knows what has to follow.
        let first = [(MANIFEST.to_owned(), manifest), (LOG.to_owned(), log)];
        for (name, bytes) in first.into_iter().chain(files) {
            let mut header = tar::Header::new_gnu();
            header.set_size(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            header.set_mode(0o600);
            header.set_entry_type(tar::EntryType::Regular);
            let added = archive.append_data(&mut header, &name, bytes.as_slice());
            added.map_err(|error| bad(format!("`{name}`: {error}")))?;
        }
        let plain = archive.into_inner().map_err(|error| bad(error.to_string()))?;
        let packed = compress_to_vec(plain.as_slice(), CompressionLevel::Fastest);
        let written = output.write_all(&packed).and_then(|()| output.flush());
        written.map_err(|error| bad(format!("it cannot be written: {error}")))?;
        Ok(Exported { files: count, masked })
    }

    /// Makes a session of an archive, in the directory `cwd`. Nothing of it is there before all of it has been checked.
    ///
    /// # Errors
    ///
    /// The archive is not whole, holds something else than a session, or the session is here already.
    pub fn import(&self, input: &mut dyn Read, cwd: &str) -> Result<String, Error> {
        let files = unpacked(input)?;
        let manifest = checked(&files)?;
        let id = manifest.session;
        let folder = self.folder(&id).ok_or_else(|| bad("its identity is not one"))?;
        if folder.exists() {
            return Err(bad(format!(
                "the session {id} is here already; remove it first, or go on with it"
            )));
        }
        // A name with a dot is not a session: what breaks off here is never taken for one.
        let new = folder.with_file_name(format!(".import-{}", std::process::id()));
        let made = self
            .make(&new, (&files, &id, cwd))
            .and_then(|()| fs::rename(&new, &folder).map_err(Error::file(&folder, "made")));
        if made.is_err() {
            let _ = fs::remove_dir_all(&new); // the next import of this process number removes it
        }
        made.map(|()| id)
    }

    fn make(&self, new: &Path, (files, id, cwd): (&Files, &str, &str)) -> Result<(), Error> {
        if new.exists() {
            fs::remove_dir_all(new).map_err(Error::file(new, "written"))?;
        }
        let directory = |path: &Path| {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(Error::file(path, "written"))
        };
        directory(new)?;
        for (name, bytes) in files.iter().filter(|(name, _)| *name != MANIFEST) {
            let path = new.join(name);
            directory(path.parent().unwrap_or(new))?;
            let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let written =
                file.and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
            written.map_err(Error::file(&path, "written"))?;
        }
        let path = new.join(LOG);
        forget_changes(&path)?;
        let (mut log, found) = Log::open(&path)?;
        let first = found.events.first().filter(|event| event.kind == Kind::Start);
        let told = first.and_then(|event| event.data.get("session")?.as_str());
        if told != Some(id) {
            return Err(bad("its log is that of another session"));
        }
        let mut workspace = Workspace::read(new).unwrap_or_default();
        log.append(Kind::HandOff, json!({ "from": workspace.cwd, "to": cwd }))?;
        (workspace.id, workspace.cwd) = (id.to_owned(), cwd.to_owned());
        (workspace.git_root, workspace.branch) = (None, None);
        workspace.write(new)
    }
}

/// Takes out of a log what it says about changes of files. Nobody made them here, so nothing can be taken back to what was
/// before them, and the list of the changes that follow begins anew.
fn forget_changes(path: &Path) -> Result<(), Error> {
    let mut log = Vec::new();
    for event in whole(path, "imported")?.events.iter().filter(|event| event.kind != Kind::Changed)
    {
        log.extend(serde_json::to_vec(event).unwrap_or_default());
        log.push(b'\n');
    }
    fs::write(path, log).map_err(Error::file(path, "written"))
}

/// Returns what an archive of a session holds, without secrets, and how many secrets there were.
fn contents(found: &Found) -> Result<(Files, usize), Error> {
    let path = Store::log(&found.folder);
    let mut events = whole(&path, "exported")?.events;
    // Old contents of files stay here, so nothing in the copy may lead to them.
    events.retain(|event| event.kind != Kind::Changed);
    let mut files = Files::new();
    gather(&found.folder, Path::new(PLAN), &mut files)?;
    for folder in FOLDERS {
        gather(&found.folder, Path::new(folder), &mut files)?;
    }
    let workspace = fs::read(found.folder.join(crate::workspace::FILE)).unwrap_or_default();
    files.insert(crate::workspace::FILE.to_owned(), workspace);
    let mut masks = Masks::default();
    events.iter().for_each(|event| masks.learn_all(&event.data));
    let texts = files.values().filter_map(|bytes| std::str::from_utf8(bytes).ok());
    texts.for_each(|text| masks.learn(text));
    let mut masked = 0;
    let mut log = Vec::new();
    for event in &mut events {
        masked += masks.mask_all(&mut event.data);
        log.extend(serde_json::to_vec(event).unwrap_or_default());
        log.push(b'\n');
    }
    for bytes in files.values_mut() {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let (text, count) = masks.mask(text);
            masked += count;
            *bytes = text.into_bytes();
        }
    }
    files.insert(LOG.to_owned(), log);
    Ok((files, masked))
}

/// Reads a file or folder of a session. Links stay: they may lead anywhere.
fn gather(root: &Path, name: &Path, files: &mut Files) -> Result<(), Error> {
    let path = root.join(name);
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if found.is_dir() {
        let entries = fs::read_dir(&path).map_err(Error::file(&path, "read"))?;
        for entry in entries.flatten() {
            gather(root, &name.join(entry.file_name()), files)?;
        }
    } else if let Some(name) = name.to_str().filter(|_| found.is_file()) {
        let bytes = fs::read(&path).map_err(Error::file(&path, "read"))?;
        files.insert(name.to_owned(), bytes);
    }
    Ok(())
}

/// Reads an archive. Names that are paths elsewhere, links and what does not belong to a session are refused.
fn unpacked(input: &mut dyn Read) -> Result<Files, Error> {
    let not_one =
        |error: &dyn std::fmt::Display| bad(format!("it is not an archive of a session: {error}"));
    let plain = StreamingDecoder::new(input)
        .map_err(|_| not_one(&"it does not begin like one, or cannot be read"))?;
    let mut archive = tar::Archive::new(plain.take(MOST));
    let mut files = Files::new();
    for entry in archive.entries().map_err(|error| not_one(&error))? {
        let mut entry = entry.map_err(|error| not_one(&error))?;
        let path = entry.path().map_err(|error| not_one(&error))?.into_owned();
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let name = path.to_str().filter(|_| is_plain && entry.header().entry_type().is_file());
        let belongs = |name: &&str| {
            let top = name.split('/').next().unwrap_or_default();
            [MANIFEST, LOG, PLAN, crate::workspace::FILE].contains(name)
                || (FOLDERS.contains(&top) && name.contains('/'))
        };
        let Some(name) = name.filter(belongs).map(str::to_owned) else {
            return Err(bad(format!(
                "`{}` does not belong to a session",
                path.display().to_string().escape_debug()
            )));
        };
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(|error| not_one(&error))?;
        if files.insert(name.clone(), bytes).is_some() {
            return Err(bad(format!("`{name}` is in it twice")));
        }
    }
    Ok(files)
}

/// Holds the files of an archive against its manifest.
fn checked(files: &Files) -> Result<Manifest, Error> {
    let manifest = files.get(MANIFEST).ok_or_else(|| bad("it has no manifest"))?;
    let form: serde_json::Value =
        serde_json::from_slice(manifest).map_err(|error| bad(format!("its manifest: {error}")))?;
    let form_number = form.get("form").and_then(serde_json::Value::as_u64).unwrap_or_default();
    if form_number > FORM {
        return Err(bad(format!("it was written by a later version (form {form_number})")));
    }
    let manifest: Manifest =
        serde_json::from_value(form).map_err(|error| bad(format!("its manifest: {error}")))?;
    let found: BTreeMap<String, String> = files
        .iter()
        .filter(|(name, _)| *name != MANIFEST)
        .map(|(name, bytes)| (name.clone(), digest(bytes)))
        .collect();
    if found != manifest.files {
        let differs = |name: &&String| found.get(*name) != manifest.files.get(*name);
        let name = manifest.files.keys().chain(found.keys()).find(differs);
        return Err(bad(format!(
            "`{}` is missing or not what was exported",
            name.map_or("", String::as_str)
        )));
    }
    match found.contains_key(LOG) {
        true => Ok(manifest),
        false => Err(bad("it has no log")),
    }
}
