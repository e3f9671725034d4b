//! The calls that give a name: symbolic and hard links, and moves.

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::super::guard::{Act, Word, violation};
use super::super::history;
use super::super::repository::links::{self, Ways};
use super::super::repository::{self, INFO, PARTS};
use super::super::resolve::{self, Named};
use super::super::{CallResult, Refused, inspection};
use super::{Given, Performer};
use stockade_kernel::syscalls;

/// Names that are tried for what cannot have its old one back.
const MOST_ASIDE: u32 = 1_000;

impl Performer<'_> {
    pub(super) fn symlink(
        &self,
        text: usize,
        base: i32,
        path: usize,
    ) -> Result<CallResult, Refused> {
        let text = self.caller.path(text)?;
        let named = self.named(base, path)?;
        Self::is_free(&named)?;
        if named.wants_directory {
            return Err(Refused::Errno(libc::ENOENT));
        }
        let judged = self.permit_at(Act::Place, "symlink", &named)?;
        let path = named.path()?;
        self.permit_target("symlink", &path, &text)?;
        self.permit_lead("symlink", &path, &text)?;
        if let Some(git) = self.git_above(&named.parent)? {
            let beside = resolve::real_path(named.parent.as_fd())?;
            // The git directory of a submodule, which git makes in that of the repository, holds no objects yet then.
            let is_new = beside.starts_with(git.join("modules"))
                && self.supervisor.made.holds(&named.parent)?;
            if !((beside == git || is_new) && links::is_probe(&text, &named.name)) {
                return Err(Self::leads("symlink", &named.path()?));
            }
        }
        self.note_link("symlink", &named)?;
        syscalls::symlink_at(&text, named.parent.as_fd(), named.name())?;
        self.settle(&judged, &named, || remove(&named))?;
        self.settle_lead("symlink", &path, &named, &text).inspect_err(|_| remove(&named))?;
        Ok(CallResult::Value(0))
    }

    pub(super) fn link(&self, old: Given, new: Given, flags: i32) -> Result<CallResult, Refused> {
        let text = self.caller.path(old.path)?;
        let object = if text.as_os_str().is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            self.caller.directory(old.base)?
        } else {
            let follows = flags & libc::AT_SYMLINK_FOLLOW != 0;
            let lookup = if follows { libc::O_PATH } else { libc::O_PATH | libc::O_NOFOLLOW };
            self.existing(self.named(old.base, old.path)?, lookup)?
        };
        if syscalls::is_in_proc(object.as_fd())? {
            return Err(Refused::Errno(libc::EXDEV));
        }
        // Another name of a guarded file would be a way to write it.
        let source = resolve::real_path(object.as_fd())?;
        if self.supervisor.guard.judge(Act::Make, &source) == Word::Outside {
            return Err(Refused::Errno(libc::EXDEV));
        }
        // Written by its other name, it would be lost all the same. Git copies what it cannot link.
        if self.supervisor.history.holds(&source, &resolve::metadata(&object)?) {
            return Err(Refused::Errno(libc::EXDEV));
        }
        self.permit_object("link", &object)?;
        let named = self.named(new.base, new.path)?;
        Self::is_free(&named)?;
        if named.wants_directory {
            return Err(Refused::Errno(libc::ENOENT));
        }
        let judged = self.permit_at(Act::Place, "link", &named)?;
        self.permit_second_name(&object, &named)?;
        if resolve::metadata(&object)?.is_symlink() {
            let text = fs::read_link(&source)?;
            self.permit_target("link", &named.path()?, &text)?;
            self.permit_lead("link", &named.path()?, &text)?;
        }
        let before = self.names_of(&object)?;
        match resolve::metadata(&object)?.is_symlink() {
            true => self.note_link("link", &named)?,
            false => self.note_name("link", &named)?,
        }
        syscalls::link_object(object.as_fd(), named.parent.as_fd(), named.name())?;
        self.settle(&judged, &named, || remove(&named))?;
        self.supervisor.shared.linked(before, &resolve::metadata(&object)?);
        Ok(CallResult::Value(0))
    }

    /// Refuses to put away a directory that holds what is kept beneath it.
    fn permit_leaving(&self, moved: &Path) -> Result<(), Refused> {
        if let Some(rule) = self.supervisor.guard.keeps_beneath(moved) {
            return Err(Refused::Rule(violation("write", "rename", moved, rule.clone())));
        }
        if self.supervisor.guard.is_above_configuration(moved) {
            let rule = "builtin: git directory".to_owned();
            return Err(Refused::Rule(violation("write", "rename", moved, rule)));
        }
        Ok(())
    }

    pub(super) fn rename(&self, old: Given, new: Given, flags: u32) -> Result<CallResult, Refused> {
        let (from, to) = (self.named(old.base, old.path)?, self.named(new.base, new.path)?);
        if from.name == "." || to.name == "." {
            return Err(Refused::Errno(libc::EBUSY));
        }
        if flags & libc::RENAME_NOREPLACE != 0 {
            Self::is_free(&to)?;
        }
        if flags == 0 && self.rewrite(&from, &to)? {
            return Ok(CallResult::Value(0));
        }
        let judged = self.permit_at(Act::Place, "rename", &to)?;
        // Guarded objects cannot be put out of the way either; from outside nothing can be moved at all.
        let source = from.path()?;
        if let Word::Forbidden(rule) = self.supervisor.guard.judge(Act::Make, &source) {
            return Err(Refused::Rule(violation("write", "rename", &source, rule)));
        }
        let exchanges = flags & libc::RENAME_EXCHANGE != 0;
        let path = to.path()?;
        for moved in [Some(&source), exchanges.then_some(&path)].into_iter().flatten() {
            self.permit_leaving(moved)?;
        }
        let back = exchanges.then(|| self.permit_at(Act::Place, "rename", &from)).transpose()?;
        let ways = 1 + usize::from(exchanges);
        for (from, to) in [(&from, &to), (&to, &from)].into_iter().take(ways) {
            self.permit_part(from, &PARTS)?;
            self.permit_part(to, &INFO)?;
            self.permit_configuration(from, to)?;
            self.permit_move(from, to)?;
            self.permit_contents(from, to)?;
            self.permit_leads(from, to)?;
        }
        if self.keeps_object(&from, &to, exchanges)? {
            return Ok(CallResult::Value(0));
        }
        if from.wants_directory || to.wants_directory {
            let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY;
            syscalls::create_at(from.parent.as_fd(), from.name(), flags, 0)?;
        }
        let replaced = Self::replaced(&from, &to, flags)?;
        self.note_move(&from, &to, exchanges)?;
        syscalls::rename_at(from.parent.as_fd(), from.name(), to.parent.as_fd(), to.name(), flags)?;
        if let Some(replaced) = replaced {
            self.supervisor.lost(&replaced);
        }
        // The tree beneath may have grown meanwhile.
        let region = self.supervisor.guard.region(&path);
        let undo = || take_back(&from, &to, flags, region.map(PathBuf::as_path));
        self.settle(&judged, &to, undo)?;
        self.note_arrived(&to).inspect_err(|_| undo())?;
        back.map(|back| self.settle(&back, &from, undo)).transpose()?;
        for moved in [&to, &from].into_iter().take(ways) {
            let contents = self.permit_contents(moved, moved);
            contents.and_then(|()| self.permit_leads(moved, moved)).inspect_err(|_| undo())?;
        }
        Ok(CallResult::Value(0))
    }

    /// Judges a move of or over what the history of the project holds. Says that it is done where an object would replace an
    /// older one: their names are made of what they hold, so the older one stays, and the newer one goes.
    fn keeps_object(&self, from: &Named, to: &Named, exchanges: bool) -> Result<bool, Refused> {
        let (source, path) = (from.path()?, to.path()?);
        let lookup = libc::O_PATH | libc::O_NOFOLLOW;
        let object = syscalls::create_at(from.parent.as_fd(), from.name(), lookup, 0)?;
        self.permit_lock("rename", &from.parent, &source, &object)?;
        let moved = resolve::metadata(&object)?;
        self.permit_loss("rename", &source, &moved)?;
        let history = &self.supervisor.history;
        let is_kept = |path: &Path| history.is_directory(path) || history.is_part(path);
        // `HEAD` is replaced by another one: that is how git changes it.
        if is_kept(&source) || exchanges && is_kept(&path) {
            let rule = history::RULE.to_owned();
            let lost = if is_kept(&source) { &source } else { &path };
            return Err(Refused::Rule(violation("write", "rename", lost, rule)));
        }
        let there = match syscalls::create_at(to.parent.as_fd(), to.name(), lookup, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(false),
            there => there?,
        };
        self.permit_lock("rename", &to.parent, &path, &there)?;
        let there = resolve::metadata(&there)?;
        if exchanges || !moved.is_file() {
            self.permit_loss("rename", &path, &there)?;
            return Ok(false);
        }
        let keeps = self.supervisor.history.holds(&path, &there);
        if keeps {
            syscalls::unlink_at(from.parent.as_fd(), from.name(), 0)?;
            self.supervisor.lost(&moved);
        }
        Ok(keeps)
    }

    /// Returns what is at `to` and goes when `from` comes there.
    fn replaced(from: &Named, to: &Named, flags: u32) -> io::Result<Option<Metadata>> {
        if flags & (libc::RENAME_EXCHANGE | libc::RENAME_NOREPLACE) != 0 {
            return Ok(None);
        }
        let lookup = libc::O_PATH | libc::O_NOFOLLOW;
        let at = |named: &Named| syscalls::create_at(named.parent.as_fd(), named.name(), lookup, 0);
        let there = match at(to) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            there => resolve::metadata(&there?)?,
        };
        // Two names of one object stay as they are (`rename(2)`).
        let moved = resolve::metadata(&at(from)?)?;
        let is_one = repository::identity(&there) == repository::identity(&moved);
        Ok((!is_one).then_some(there))
    }

    /// Returns the git directory that `directory` is or lies in.
    fn git_above(&self, directory: &OwnedFd) -> io::Result<Option<PathBuf>> {
        let path = resolve::real_path(directory.as_fd())?;
        match self.supervisor.guard.region(&path) {
            Some(region) => links::git_above(directory, &path, region),
            None => Ok(None),
        }
    }

    /// Returns the refusal of what would lead git elsewhere.
    fn leads(call: &str, path: &Path) -> Refused {
        let rule = "builtin: link in a git directory".to_owned();
        Refused::Rule(violation("write", call, path, rule))
    }

    /// Judges another name of `object`: files of git directories have one, but for objects.
    fn permit_second_name(&self, object: &OwnedFd, to: &Named) -> Result<(), Refused> {
        let found = resolve::metadata(object)?;
        // One without a name gets its first.
        if found.nlink() == 0 {
            return Ok(());
        }
        let (source, path) = (resolve::real_path(object.as_fd())?, to.path()?);
        let above = source.parent().unwrap_or(&source);
        let parent = syscalls::open_path(above, libc::O_PATH, syscalls::NO_LINKS)?;
        let may = match (self.git_above(&parent)?, self.git_above(&to.parent)?) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                !found.is_symlink()
                    && links::is_object(&source, &one)
                    && links::is_object(&path, &other)
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        if may { Ok(()) } else { Err(Self::leads("link", &path)) }
    }

    /// Judges what comes into a git directory by another name, with all that lies beneath.
    fn permit_move(&self, from: &Named, to: &Named) -> Result<(), Refused> {
        let Some(git) = self.git_above(&to.parent)? else { return Ok(()) };
        let path = to.path()?;
        let is_new = self.git_above(&from.parent)?.is_none();
        let ways = if is_new && !links::is_object(&path, &git) { Ways::All } else { Ways::Links };
        if links::are_at(&from.parent, from.name(), ways) {
            return Err(Self::leads("rename", &path));
        }
        Ok(())
    }

    /// Judges what lies beneath a directory by the names that it would have after a move.
    fn permit_contents(&self, from: &Named, to: &Named) -> Result<(), Refused> {
        let (guard, path) = (&self.supervisor.guard, to.path()?);
        if !guard.reaches_beneath(&path) {
            return Ok(());
        }
        let base = resolve::own_path(from.parent.as_fd()).join(from.name());
        if let Ok(text) = fs::read_link(&base) {
            self.permit_target("rename", &path, &text)?;
        }
        links::each_beneath(&from.parent, from.name(), |inside, is_link| {
            let named = path.join(inside);
            if is_link && let Ok(text) = fs::read_link(base.join(inside)) {
                self.permit_target("rename", &named, &text)?;
            }
            if let Some(rule) = guard.covering(&named) {
                let refused = violation("write", "rename", &named, rule.clone());
                return Err(Refused::Rule(refused));
            }
            Ok(())
        })
    }

    /// Judges a symbolic link at `path` by what it gives another name to.
    fn permit_target(&self, call: &str, path: &Path, text: &Path) -> Result<(), Refused> {
        let above = path.parent().unwrap_or(path);
        let guard = &self.supervisor.guard;
        // The end of a link that leads on from outside, or to another place for each process, is not known by its text.
        let is_known = |target: &PathBuf| {
            let leads_on = || target.canonicalize().is_ok_and(|it| guard.is_in_region(&it));
            guard.is_in_region(target) || !target.starts_with("/proc") && !leads_on()
        };
        let target = led_to(above, text).filter(is_known);
        match guard.leads_past(path, target.as_deref()) {
            Some(rule) => Err(Refused::Rule(violation("write", call, path, rule.clone()))),
            None => Ok(()),
        }
    }

    /// Judges a move that changes the meaning of a name: those of `parts` stay as they are.
    fn permit_part(&self, named: &Named, parts: &[&str]) -> Result<(), Refused> {
        let path = named.path()?;
        if !self.supervisor.guard.is_in_region(&path) {
            return Ok(());
        }
        match repository::stays(&self.supervisor.made, &named.parent, &path, parts)? {
            None => Ok(()),
            Some(rule) => Err(Refused::Rule(violation("write", "rename", &path, rule.to_owned()))),
        }
    }

    /// Looks into what becomes the configuration of a git directory, before it does.
    fn permit_configuration(&self, from: &Named, to: &Named) -> Result<(), Refused> {
        let path = to.path()?;
        if !self.supervisor.guard.is_in_region(&path) {
            return Ok(());
        }
        let (keys, guard) = (&self.supervisor.keys, &self.supervisor.guard);
        match repository::refused_configuration(keys, guard, from, &to.parent, &path)? {
            None => Ok(()),
            Some(key) => {
                let rule = format!("builtin: git configuration `{key}`");
                Err(Refused::Rule(violation("write", "rename", &path, rule)))
            }
        }
    }
}

/// Takes a move back. Where its old name is in use again, or the old directory gone, it gets one that nobody uses and no command
/// can touch, beside it or at the top of the region.
fn take_back(from: &Named, to: &Named, flags: u32, region: Option<&Path>) {
    let there = to.parent.as_fd();
    let exchanges = flags & libc::RENAME_EXCHANGE != 0;
    let flags = if exchanges { flags } else { libc::RENAME_NOREPLACE };
    if syscalls::rename_at(there, to.name(), from.parent.as_fd(), from.name(), flags).is_ok() {
        return;
    }
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let top = region.and_then(|region| syscalls::open_path(region, flags, syscalls::NO_LINKS).ok());
    for place in [Some(&from.parent), top.as_ref()].into_iter().flatten() {
        for number in 0..MOST_ASIDE {
            // Short, whatever the old name is.
            let aside = format!("moved{}{number}", inspection::OWN);
            let (place, flags) = (place.as_fd(), libc::RENAME_NOREPLACE);
            match syscalls::rename_at(there, to.name(), place, Path::new(&aside), flags) {
                Ok(()) => return,
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(_) => break,
            }
        }
    }
}

/// Takes a name away again. It may be gone already.
fn remove(named: &Named) {
    drop(syscalls::unlink_at(named.parent.as_fd(), named.name(), 0));
}

/// Returns the path that the text of a link in `directory` means, unless a name comes before `..` in it.
fn led_to(directory: &Path, text: &Path) -> Option<PathBuf> {
    let (mut target, mut is_down) = (directory.to_path_buf(), false);
    for part in text.components() {
        match part {
            Component::ParentDir if is_down => return None,
            Component::ParentDir => {
                target.pop();
            }
            Component::RootDir | Component::Prefix(_) => target = PathBuf::from("/"),
            Component::CurDir => {}
            Component::Normal(name) => {
                is_down = true;
                target.push(name);
            }
        }
    }
    Some(target)
}
