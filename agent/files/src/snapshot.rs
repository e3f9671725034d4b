//! Files of a project before and after a command.
//!
//! Covered are those that version control would take: what is ignored is left out, and so is `.git` itself. No program of
//! version control runs, so neither its hooks nor its settings do. No link is followed below the root.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};

use crate::keep::Keep;
use crate::regular;
use crate::text::digest;
use crate::walk;

/// Most files of a project that is covered.
const MOST_FILES: usize = 20_000;
/// Most bytes of a file that is covered.
const MOST_BYTES: u64 = 16 << 20;
/// Most bytes of all of them: a session keeps no more than four times as much.
const MOST_OF_ALL: u64 = 256 << 20;
/// A file whose times are not older than this when it is read may change again within the same tick of the clock.
const TICK: Duration = Duration::from_millis(100);

/// A change of one file between two looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its path.
    pub path: PathBuf,
    /// Digest of its content before; none if there was no file.
    pub before: Option<String>,
    /// Its mode before.
    pub mode: Option<u32>,
    /// Digest of its content after; none if there is no file.
    pub after: Option<String>,
}

/// Device, inode, size and times: a file with the same stamp is unchanged (stat(2)).
type Stamp = (u64, u64, u64, (i64, u64), (i64, u64));

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    stamp: Stamp,
    /// The file was read so soon that the stamp may be that of a later content as well.
    is_fresh: bool,
    digest: String,
    mode: u32,
    length: u64,
}

/// The files of a project, as they were last looked at. Their contents are kept for a session.
#[derive(Debug)]
pub struct Snapshots {
    root: PathBuf,
    /// Left out: where sessions are kept.
    except: PathBuf,
    keep: Keep,
    files: BTreeMap<PathBuf, Known>,
}

impl Snapshots {
    /// Covers the project below `root`, without the files below `except`, and keeps contents in `folder`.
    #[must_use]
    pub fn new(root: PathBuf, folder: PathBuf, except: PathBuf) -> Snapshots {
        Snapshots { root, except, keep: Keep::at(folder), files: BTreeMap::new() }
    }

    /// Looks at all files, and returns what changed since the last time. After an error nothing is known of the project.
    ///
    /// # Errors
    ///
    /// The project is too large, or a content cannot be kept.
    pub fn look(&mut self) -> io::Result<Vec<Changed>> {
        let old = std::mem::take(&mut self.files);
        let is_folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, &self.root, is_folder, Mode::empty())?;
        let mut new = BTreeMap::new();
        let mut bytes = 0;
        // A file that a command adds to an ignore file stays covered.
        for path in self.paths()?.into_iter().chain(old.keys().cloned()) {
            if new.contains_key(&path) {
                continue;
            }
            let Some(known) = self.known(&root, &path, old.get(&path))? else { continue };
            bytes += known.length;
            if bytes > MOST_OF_ALL {
                return Err(io::Error::other(format!(
                    "its files have more than {MOST_OF_ALL} bytes"
                )));
            }
            new.insert(path, known);
        }
        let changed = differences(&self.root, &old, &new);
        self.files = new;
        Ok(changed)
    }

    /// Returns the paths of the files, below the root.
    fn paths(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut builder = walk::builder(&self.root, Some(self.except.clone()));
        builder.git_global(false);
        for entry in builder.build().flatten() {
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            if found.len() >= MOST_FILES {
                return Err(io::Error::other(format!("it has more than {MOST_FILES} files")));
            }
            found.extend(entry.path().strip_prefix(&self.root).map(Path::to_owned).ok());
        }
        Ok(found)
    }

    /// Returns the state of a covered file and keeps its content; none for any other file.
    fn known(
        &self,
        root: &OwnedFd,
        path: &Path,
        before: Option<&Known>,
    ) -> io::Result<Option<Known>> {
        let Ok(stat) = statat(root, path, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(None) };
        let stamp = (
            stat.st_dev,
            stat.st_ino,
            u64::try_from(stat.st_size).unwrap_or_default(),
            (stat.st_mtime, stat.st_mtime_nsec),
            (stat.st_ctime, stat.st_ctime_nsec),
        );
        if let Some(known) = before.filter(|known| known.stamp == stamp && !known.is_fresh) {
            return Ok(Some(known.clone()));
        }
        let Ok(Some(mut file)) = regular::open(root, path) else { return Ok(None) };
        let read_at = SystemTime::now();
        let found = file.metadata()?;
        if found.len() > MOST_BYTES {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        (&mut file).take(MOST_BYTES).read_to_end(&mut bytes)?;
        let name = digest(&bytes);
        self.keep.content(&name, &bytes)?;
        let seconds = u64::try_from(found.ctime()).unwrap_or_default();
        let nanoseconds = u32::try_from(found.ctime_nsec()).unwrap_or_default();
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        Ok(Some(Known {
            stamp,
            is_fresh: read_at.duration_since(changed).is_ok_and(|age| age < TICK),
            digest: name,
            mode: found.mode() & 0o7777,
            length: found.len(),
        }))
    }
}

/// Returns the files whose contents differ.
fn differences(
    root: &Path,
    old: &BTreeMap<PathBuf, Known>,
    new: &BTreeMap<PathBuf, Known>,
) -> Vec<Changed> {
    let of_old = old.iter().map(|(path, before)| (path, Some(before), new.get(path)));
    let added = new.iter().filter(|(path, _)| !old.contains_key(*path));
    let of_new = added.map(|(path, after)| (path, None, Some(after)));
    let digest = |known: Option<&Known>| known.map(|it| it.digest.clone());
    of_old
        .chain(of_new)
        .filter(|(_, before, after)| digest(*before) != digest(*after))
        .map(|(path, before, after)| Changed {
            path: root.join(path),
            before: digest(before),
            mode: before.map(|it| it.mode),
            after: digest(after),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use std::fs::File;

    use super::*;
    use crate::call::tests::Folder;

    fn snapshots(folder: &Folder) -> Snapshots {
        for name in ["project", "kept"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let (root, kept) = (folder.path().join("project"), folder.path().join("kept"));
        Snapshots::new(root, kept.clone(), kept)
    }

    fn shown(changed: &[Changed]) -> Vec<String> {
        let mark = |it: &Option<String>| if it.is_some() { "file" } else { "none" };
        let name = |it: &Changed| it.path.file_name().unwrap().to_string_lossy().into_owned();
        let line = |it: &Changed| format!("{}: {} {}", name(it), mark(&it.before), mark(&it.after));
        changed.iter().map(line).collect()
    }

    #[test]
    fn what_changed_between_two_looks_is_told_and_contents_are_kept() {
        let folder = Folder::new();
        let mut snapshots = snapshots(&folder);
        folder.write("project/.gitignore", "*.log\n");
        folder.write("project/d/a.txt", "one");
        folder.write("project/gone.txt", "gone");
        folder.write("project/same.txt", "same");
        folder.write("project/x.log", "ignored");
        folder.write("project/.git/config", "[core]\n");
        let mode = std::fs::Permissions::from_mode(0o751);
        std::fs::set_permissions(folder.path().join("project/gone.txt"), mode).unwrap();
        assert_eq!(snapshots.look().unwrap().len(), 4);
        assert_eq!(snapshots.look().unwrap(), []);
        // The same length, at once: the times may be the same as well.
        folder.write("project/d/a.txt", "two");
        folder.write("project/new.txt", "new");
        folder.write("project/x.log", "changed");
        std::fs::remove_file(folder.path().join("project/gone.txt")).unwrap();
        // Files that are ignored from now on stay covered.
        folder.write("project/.gitignore", "*\n");
        let changed = snapshots.look().unwrap();
        let expected = [".gitignore: file file", "a.txt: file file", "gone.txt: file none"];
        assert_eq!(shown(&changed), expected);
        let kept = |name: &str| {
            std::fs::read_to_string(folder.path().join("kept/contents").join(name)).unwrap()
        };
        assert_eq!(kept(changed[1].before.as_deref().unwrap()), "one");
        assert_eq!(kept(changed[2].before.as_deref().unwrap()), "gone");
        assert_eq!(changed[2].mode, Some(0o751));
    }

    #[test]
    fn links_and_pipes_are_not_read_and_large_projects_are_not_covered() {
        let folder = Folder::new();
        let mut snapshots = snapshots(&folder);
        folder.write("secret/key", "key");
        folder.write("project/d/key", "own");
        assert_eq!(snapshots.look().unwrap().len(), 1);
        // The folder of a file that is known becomes a link.
        let project = folder.path().join("project");
        std::fs::remove_dir_all(project.join("d")).unwrap();
        symlink(folder.path().join("secret"), project.join("d")).unwrap();
        symlink(folder.path().join("secret/key"), project.join("link")).unwrap();
        let (mode, kind) = (Mode::RUSR | Mode::WUSR, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(CWD, project.join("pipe"), kind, mode, 0).unwrap();
        assert_eq!(shown(&snapshots.look().unwrap()), ["key: file none"]);
        assert!(!folder.path().join("kept/contents").join(digest(b"key")).exists());
        let large = File::create(project.join("large")).unwrap();
        large.set_len(MOST_BYTES + 1).unwrap();
        assert_eq!(snapshots.look().unwrap(), []);
        for it in 0..=(MOST_OF_ALL / MOST_BYTES) {
            let file = File::create(project.join(format!("{it}"))).unwrap();
            file.set_len(MOST_BYTES).unwrap();
        }
        let error = snapshots.look().unwrap_err().to_string();
        assert!(error.contains("more than 268435456 bytes"), "{error}");
    }

    #[test]
    fn a_pipe_in_the_place_of_an_ignore_file_holds_nothing_up() {
        for name in [".gitignore", ".ignore", "d/.gitignore", ".git/info/exclude", ".git"] {
            let folder = Folder::new();
            let mut snapshots = snapshots(&folder);
            folder.write("project/d/a.txt", "one");
            let pipe = folder.path().join("project").join(name);
            std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
            let (mode, kind) = (Mode::RUSR | Mode::WUSR, rustix::fs::FileType::Fifo);
            rustix::fs::mknodat(CWD, &pipe, kind, mode, 0).unwrap();
            let (told, looked) = std::sync::mpsc::channel();
            std::thread::spawn(move || told.send(snapshots.look().is_ok()));
            let looked = looked.recv_timeout(Duration::from_secs(10));
            assert_eq!(looked, Ok(true), "{name}");
        }
    }
}
