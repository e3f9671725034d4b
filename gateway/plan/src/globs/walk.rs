//! Goes through directories for many patterns at once, level by level, so that no part of a tree takes the time of
//! the others.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};
use rustix::io::Errno;

use super::whole;
use super::{Ground, Segment};

/// Longest path of a directory that is looked through: the kernel takes 4,096 bytes, and a name in it has up to 255.
const LONGEST: usize = 3_800;

/// Bytes of entries that are read at once.
const BUFFER: usize = 64 << 10;

/// Entries that are looked at between two looks at the clock.
const SLICE: usize = 1_000;

/// Directories that are looked through beyond the time before it is asked again whether the rest can be refused.
const EXTRA: usize = 50_000;

/// A pattern, and how many of its segments lie behind.
type State = (usize, usize);

/// A directory to look through.
#[derive(Debug, Clone)]
struct Waiting {
    path: PathBuf,
    states: Rc<Vec<State>>,
}

/// Result for one pattern.
#[derive(Debug, Clone, Default)]
pub(super) struct WalkMatches {
    /// Existing paths.
    pub(super) paths: Vec<PathBuf>,
    /// Directories that the caller cannot list and commands can enter.
    pub(super) closed: Vec<PathBuf>,
    /// Directories that were not looked through.
    pub(super) unseen: Vec<PathBuf>,
}

pub(super) struct Walk<'a> {
    sought: &'a [Vec<Segment>],
    ground: Ground<'a>,
    until: Instant,
    /// Directories that no command can do without; they are looked through to their end, and first.
    first: VecDeque<Waiting>,
    /// Each tree in one of these gets its turn after the others, so that a large one takes no time of theirs.
    rest: VecDeque<VecDeque<Waiting>>,
    /// Where what comes next from the tree that is looked through waits.
    tree: VecDeque<Waiting>,
    answers: Vec<WalkMatches>,
    buffer: Vec<MaybeUninit<u8>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(sought: &'a [Vec<Segment>], ground: Ground<'a>, limit: Duration) -> Walk<'a> {
        let mut starts: BTreeMap<PathBuf, Vec<State>> = BTreeMap::new();
        for (pattern, it) in sought.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            let plain = it.iter().map_while(|segment| match segment {
                Segment::Plain(name) => Some(name.as_str()),
                Segment::Across | Segment::Wild(_) => None,
            });
            let names: Vec<&str> = plain.collect();
            // The last name is looked for in its directory.
            let behind = names.len().min(it.len() - 1);
            let start = Path::new("/").join(names.get(..behind).unwrap_or_default().join("/"));
            starts.entry(start).or_default().push((pattern, behind));
        }
        let mut walk = Walk {
            sought,
            ground,
            until: Instant::now() + limit,
            first: VecDeque::new(),
            rest: VecDeque::new(),
            tree: VecDeque::new(),
            answers: vec![WalkMatches::default(); sought.len()],
            buffer: vec![MaybeUninit::uninit(); BUFFER],
        };
        for (path, states) in starts {
            // Each start is a tree of its own.
            walk.wait(Path::new("/"), path, Rc::new(states));
        }
        walk
    }

    /// Looks until all is seen, or the time is over and what is left can be refused as a whole.
    pub(super) fn run(&mut self) {
        let mut looked = 0_usize;
        loop {
            while let Some(next) = self.first.pop_front() {
                self.look(next, None);
            }
            let Some(mut tree) = self.rest.pop_front() else { return };
            let Some(next) = tree.pop_front() else { continue };
            let is_late = Instant::now() >= self.until;
            if is_late {
                let is_due = looked.is_multiple_of(EXTRA);
                looked += 1;
                if is_due && self.can_end(&next, &tree) {
                    tree.push_front(next);
                    self.rest.push_front(tree);
                    return self.give_up();
                }
            }
            self.tree = tree;
            self.look(next, (!is_late).then_some(self.until));
            let tree = std::mem::take(&mut self.tree);
            if !tree.is_empty() {
                self.rest.push_back(tree);
            }
        }
    }

    pub(super) fn answers(self) -> Vec<WalkMatches> {
        self.answers
    }

    /// Has `path`, which lies in `above`, looked through later.
    fn wait(&mut self, above: &Path, path: PathBuf, states: Rc<Vec<State>>) {
        let next = Waiting { path, states };
        if (self.ground.is_needed)(&next.path) {
            self.first.push_back(next);
        } else if above == Path::new("/") || (self.ground.is_needed)(above) {
            self.rest.push_back(VecDeque::from([next]));
        } else {
            self.tree.push_back(next);
        }
    }

    /// Says whether what is left can be refused as it is.
    fn can_end(&self, next: &Waiting, tree: &VecDeque<Waiting>) -> bool {
        let rest = self.rest.iter().flatten().chain(tree).chain([next]);
        let left = rest.map(|it| it.path.clone()).collect();
        whole::gather(left, self.ground.is_needed).len() <= whole::MOST
    }

    fn give_up(&mut self) {
        for Waiting { path, states } in std::mem::take(&mut self.rest).into_iter().flatten() {
            self.leave_unseen(&path, &states);
        }
    }

    fn leave_unseen(&mut self, path: &Path, states: &[State]) {
        for (pattern, _) in states {
            if let Some(answer) = self.answers.get_mut(*pattern)
                && answer.unseen.last().is_none_or(|last| last != path)
            {
                answer.unseen.push(path.to_path_buf());
            }
        }
    }

    fn found(&mut self, pattern: usize, path: PathBuf) {
        if let Some(answer) = self.answers.get_mut(pattern) {
            answer.paths.push(path);
        }
    }

    /// Looks through one directory, to its end or `until` then.
    fn look(&mut self, Waiting { path, states }: Waiting, until: Option<Instant>) {
        if path.as_os_str().len() > LONGEST {
            return self.leave_unseen(&path, &states);
        }
        let states = self.with_skipped(&path, &states);
        let is_listed = |(pattern, index): &State| {
            !matches!(self.segment(*pattern, *index), Some(Segment::Plain(_)) | None)
        };
        let (listed, named): (Vec<State>, Vec<State>) = states.into_iter().partition(is_listed);
        if listed.is_empty() {
            return self.step(CWD, &path, &named, &path);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(CWD, &path, flags, Mode::empty()) {
            Ok(opened) => {
                self.step(&opened, Path::new(""), &named, &path);
                self.list(&opened, &path, &listed, until);
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => {
                self.step(CWD, &path, &named, &path);
                if error != Errno::ACCESS || can_be_entered(&path) {
                    self.close(&path, &listed);
                }
            }
        }
    }

    fn close(&mut self, path: &Path, states: &[State]) {
        for (pattern, _) in states {
            if let Some(answer) = self.answers.get_mut(*pattern) {
                answer.closed.push(path.to_path_buf());
            }
        }
    }

    fn segment(&self, pattern: usize, index: usize) -> Option<&'a Segment> {
        self.sought.get(pattern)?.get(index)
    }

    /// Returns the states with those to which `**` leads when it stands for nothing. One at the end stands for all.
    fn with_skipped(&mut self, path: &Path, states: &[State]) -> Vec<State> {
        let mut all: Vec<State> = Vec::with_capacity(states.len() + 1);
        for (pattern, index) in states.iter().copied() {
            let is_across =
                |at: &usize| matches!(self.segment(pattern, *at), Some(Segment::Across));
            let end = (index..).find(|at| !is_across(at)).unwrap_or(index);
            match self.segment(pattern, end) {
                Some(_) => all.extend((index..=end).map(|at| (pattern, at))),
                None if path.symlink_metadata().is_ok() => {
                    self.found(pattern, path.to_path_buf());
                }
                None => {}
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Goes on with the names that are spelled out, in a directory at `base` below `opened`, which is `path`.
    fn step<F: std::os::fd::AsFd>(&mut self, opened: F, base: &Path, named: &[State], path: &Path) {
        let mut further: BTreeMap<&str, Vec<State>> = BTreeMap::new();
        for (pattern, index) in named {
            let Some(Segment::Plain(name)) = self.segment(*pattern, *index) else { continue };
            if self.segment(*pattern, index + 1).is_some() {
                further.entry(name).or_default().push((*pattern, index + 1));
            } else if statat(&opened, base.join(name), AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                self.found(*pattern, path.join(name));
            }
        }
        for (name, states) in further {
            // Most directories of a tree hold none.
            if statat(&opened, base.join(name), AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                self.wait(path, path.join(name), Rc::new(states));
            }
        }
    }

    /// Goes on with every entry of a directory that its states reach.
    fn list(&mut self, opened: &OwnedFd, path: &Path, states: &[State], until: Option<Instant>) {
        // The states that `**` leads to are the same for each directory in it.
        let is_across = |(pattern, index): &&State| {
            matches!(self.segment(*pattern, *index), Some(Segment::Across))
        };
        let across: Rc<Vec<State>> = Rc::new(states.iter().filter(is_across).copied().collect());
        let wild: Vec<State> = states.iter().filter(|it| !is_across(it)).copied().collect();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut entries = RawDir::new(opened, &mut buffer);
        let mut count = 0_usize;
        while let Some(entry) = entries.next() {
            let Ok(entry) = entry else {
                self.close(path, states);
                break;
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            count += 1;
            // A directory that takes long is no reason to look at no other.
            let is_over = || until.is_some_and(|until| Instant::now() >= until);
            if count.is_multiple_of(SLICE) && is_over() {
                self.leave_unseen(path, states);
                break;
            }
            self.enter(opened, path, name, entry.file_type(), &across, &wild);
        }
        self.buffer = buffer;
    }

    fn enter(
        &mut self,
        opened: &OwnedFd,
        path: &Path,
        name: &[u8],
        kind: FileType,
        across: &Rc<Vec<State>>,
        wild: &[State],
    ) {
        let mut own: Vec<State> = Vec::new();
        if !wild.is_empty() {
            let text = String::from_utf8_lossy(name);
            for (pattern, index) in wild {
                let Some(Segment::Wild(wild)) = self.segment(*pattern, *index) else { continue };
                if !wild.fits(&text) {
                    continue;
                }
                match self.segment(*pattern, index + 1) {
                    None => self.found(*pattern, path.join(OsStr::from_bytes(name))),
                    Some(_) => own.push((*pattern, index + 1)),
                }
            }
        }
        if own.is_empty() && across.is_empty() {
            return;
        }
        let kind = match kind {
            FileType::Unknown => statat(opened, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |found| FileType::from_raw_mode(found.st_mode)),
            known => known,
        };
        // Only a name that fits leads over a link; `**` follows none.
        let states = match (kind, own.is_empty()) {
            (FileType::Directory, true) => Rc::clone(across),
            (FileType::Directory, false) => {
                own.extend(across.iter());
                Rc::new(own)
            }
            (FileType::Symlink, false) => Rc::new(own),
            _ => return,
        };
        let whole = path.join(OsStr::from_bytes(name));
        if kind != FileType::Symlink || (self.ground.follows)(&whole) {
            self.wait(path, whole, states);
        }
    }
}

/// Says whether a command could reach what `directory` holds: by its name, or after it took the rights.
fn can_be_entered(directory: &Path) -> bool {
    let is_own = |uid| uid == rustix::process::geteuid().as_raw();
    directory.metadata().is_ok_and(|found| is_own(found.uid()))
        || rustix::fs::access(directory, rustix::fs::Access::EXEC_OK).is_ok()
}
