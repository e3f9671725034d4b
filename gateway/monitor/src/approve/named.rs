//! The facts that a yes covers besides the text: the settings that counted, and the files that the text names.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use stockade_parser::Directory;
use stockade_policy::Layer;

use super::unnamed;
use crate::judge::{self, Judged, Scene};
use crate::random;

/// Most paths that are looked at. A text that may name more is never the same as before: a yes to it does not count.
const MOST: usize = 1 << 16;
/// Longest file of which the content counts, and all of them together; of others the kernel's times do.
const LONGEST: u64 = 4 << 20;
const LONGEST_SUM: u64 = 32 << 20;
/// Characters that separate words in a text.
const BETWEEN: &[char] =
    &['\'', '"', '`', '=', ':', ',', ';', '&', '|', '<', '>', '(', ')', '{', '}', '$', '\\'];

/// Returns a digest over directory, text, settings and the files that the text names, as they are now; blocks on the
/// file system. Options of one call are left out of the settings: hook and shell of an agent have their own.
pub fn digest(scene: &Scene, judged: &Judged) -> [u8; 32] {
    let mut whole = Sha256::new();
    let command = judge::command_of(&judged.input).unwrap_or_default();
    for part in [scene.place.cwd.as_os_str().as_encoded_bytes(), command.as_bytes()] {
        whole.update(part.len().to_le_bytes());
        whole.update(part);
    }
    for text in scene.snapshot.texts.iter().filter(|text| text.layer != Layer::Flag) {
        whole.update(text.layer.name());
        whole.update(text.file.as_os_str().as_encoded_bytes());
        whole.update([u8::from(text.trusted), u8::from(text.above)]);
        whole.update(Sha256::digest(&text.text));
    }
    whole.update(files(scene, judged));
    whole.finalize().into()
}

/// Returns a digest over the changes of files that builders outside of the sandbox execute; none without a change.
pub fn changes(judged: &Judged) -> Option<[u8; 32]> {
    let mut whole = Sha256::new();
    for (name, changed) in &judged.facts.doubts.changed {
        whole.update(name.len().to_le_bytes());
        whole.update(name);
        whole.update(&changed.mark);
    }
    (!judged.facts.doubts.changed.is_empty()).then(|| whole.finalize().into())
}

/// Returns a digest over the files that the text of a call names, as they are now; blocks on the file system.
pub fn files(scene: &Scene, judged: &Judged) -> [u8; 32] {
    let (mut whole, mut room) = (Sha256::new(), LONGEST_SUM);
    let command = judge::command_of(&judged.input).unwrap_or_default();
    let Some(paths) = paths(scene, judged, &command) else { return new() };
    if unnamed::add(&mut whole, scene, judged, &paths).is_none() {
        return new();
    }
    for path in &paths {
        whole.update(path.as_os_str().as_encoded_bytes());
        whole.update([0]);
        if path.metadata().is_ok_and(|found| found.is_file()) {
            // One that cannot be opened by us is opened by no command.
            let _: Option<()> = add(&mut whole, path, &mut room).ok();
        }
    }
    whole.finalize().into()
}

/// Returns a digest that no other one equals.
fn new() -> [u8; 32] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut unique = [0; 32];
    if random::fill(&mut unique).is_ok() {
        return unique;
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Sha256::digest(format!("{} {count} {:?}", std::process::id(), SystemTime::now())).into()
}

/// Adds a file: which one it is, when it changed, and what it holds. Nothing that comes in its place is waited for.
fn add(whole: &mut Sha256, path: &Path, room: &mut u64) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let found = opened.metadata()?;
    for number in [found.dev(), found.ino(), found.size()] {
        whole.update(number.to_le_bytes());
    }
    for number in [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()] {
        whole.update(number.to_le_bytes());
    }
    if found.is_file() && found.size() <= LONGEST.min(*room) {
        *room = room.saturating_sub(found.size());
        let mut content = Vec::new();
        opened.take(LONGEST).read_to_end(&mut content)?;
        whole.update(Sha256::digest(content));
    }
    Ok(())
}

/// Returns every path that the text may name, from each directory in which a part of it runs; none where there are too
/// many.
fn paths(scene: &Scene, judged: &Judged, command: &str) -> Option<BTreeSet<PathBuf>> {
    let mut names: BTreeSet<&str> =
        command.split(|it: char| it.is_whitespace() || BETWEEN.contains(&it)).collect();
    let cwd = &scene.place.cwd;
    let mut directories = BTreeSet::from([cwd.clone()]);
    let commands = judged.tree.as_ref().map(|tree| tree.commands()).unwrap_or_default();
    for command in commands {
        if let Directory::Known(bytes) = &command.directory
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            directories.insert(cwd.join(text));
        }
        let words = command.words.iter().filter_map(|word| word.exact());
        names.extend(words.filter_map(|bytes| std::str::from_utf8(bytes).ok()));
    }
    let count = names.len().saturating_mul(directories.len());
    (count.saturating_add(judged.facts.real_paths.len()) <= MOST).then_some(())?;
    let names = names.iter().filter(|name| !name.is_empty() && !name.contains('\0'));
    let mut found: BTreeSet<PathBuf> =
        names.flat_map(|name| directories.iter().map(move |from| from.join(name))).collect();
    found.extend(judged.facts.real_paths.keys().map(|path| cwd.join(path)));
    Some(found)
}
