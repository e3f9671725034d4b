//! Users and groups of the machine, as its files have them.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// Ids from which those of a service are taken, the highest first (Debian policy 9.2.2).
const SYSTEM_IDS: std::ops::RangeInclusive<u32> = 100..=999;

/// A user of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Home directory.
    pub home: PathBuf,
}

impl Account {
    /// Returns the user `name` of the machine at `root`.
    pub fn find(root: &Path, name: &str) -> Option<Account> {
        accounts(root).into_iter().find(|account| account.name == name)
    }

    /// Returns the first user with `uid`.
    pub fn of(root: &Path, uid: u32) -> Option<Account> {
        accounts(root).into_iter().find(|account| account.uid == uid)
    }

    /// Returns the first user that is a person.
    pub fn ordinary(root: &Path) -> Option<Account> {
        let is_person = |account: &Account| (1000..60_000).contains(&account.uid);
        accounts(root).into_iter().find(is_person)
    }

    /// Returns the groups that list this user, and its own.
    pub fn groups(&self, root: &Path) -> Vec<u32> {
        let text = fs::read_to_string(root.join("etc/group")).unwrap_or_default();
        let of_line = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            let is_member = fields.get(3)?.split(',').any(|name| name == self.name);
            is_member.then(|| fields.get(2)?.parse().ok()).flatten()
        };
        let mut groups: Vec<u32> = text.lines().filter_map(of_line).collect();
        groups.push(self.gid);
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

fn accounts(root: &Path) -> Vec<Account> {
    lines(&fs::read_to_string(root.join("etc/passwd")).unwrap_or_default())
}

/// Returns the groups with these ids in a text of group(5) form, the first name of each.
pub(crate) fn groups_of_text(text: &str, ids: &[u32]) -> Vec<(u32, String)> {
    let mut found: Vec<(u32, String)> = Vec::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        let (name, id) = (fields.next().unwrap_or_default(), fields.nth(1));
        let id = id.and_then(|id| id.parse().ok()).filter(|id| ids.contains(id));
        let is_name = !name.is_empty() && !name.contains(',');
        if let Some(id) = id.filter(|id| is_name && found.iter().all(|(known, _)| known != id)) {
            found.push((id, name.to_owned()));
        }
    }
    found
}

/// Returns the names of all groups in a text of group(5) form.
pub(crate) fn group_names(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.split(':').next()).map(str::to_owned).collect()
}

/// Returns the user with `uid` in a text of passwd(5) form.
pub(crate) fn of_text(text: &str, uid: u32) -> Option<Account> {
    lines(text).into_iter().find(|account| account.uid == uid)
}

fn lines(text: &str) -> Vec<Account> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let home = PathBuf::from(*fields.get(5)?);
        let (uid, gid) = (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?);
        let name = (*fields.first()?).to_owned();
        home.is_absolute().then_some(Account { name, uid, gid, home })
    };
    text.lines().filter_map(of_line).collect()
}

/// A line that a file of the machine gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) file: PathBuf,
    pub(crate) line: String,
}

/// Returns the lines that make a user `name` without a password, a shell or a home directory, and its ids, none of them `taken`.
pub(crate) fn service(
    root: &Path,
    name: &str,
    about: &str,
    taken: &[u32],
) -> io::Result<(u32, u32, Vec<Line>)> {
    if let Some(account) = Account::find(root, name) {
        if !SYSTEM_IDS.contains(&account.uid) {
            let uid = account.uid;
            let told = format!(
                "the user `{name}` is there and has uid {uid}, which is not one of a service"
            );
            return Err(io::Error::other(told));
        }
        return Ok((account.uid, account.gid, Vec::new()));
    }
    let groups = fs::read_to_string(root.join("etc/group"))?;
    let fields = |line: &str, place: usize| line.split(':').nth(place).map(str::to_owned);
    let known = groups.lines().find(|line| fields(line, 0).as_deref() == Some(name));
    let known = known.and_then(|line| fields(line, 2)?.parse::<u32>().ok());
    let uids: Vec<u32> = accounts(root).iter().map(|account| account.uid).collect();
    let gids: Vec<u32> = groups.lines().filter_map(|line| fields(line, 2)?.parse().ok()).collect();
    let is_free = |id: &u32| !uids.contains(id) && !gids.contains(id) && !taken.contains(id);
    let id =
        SYSTEM_IDS.rev().find(is_free).ok_or_else(|| io::Error::other("no system ID is free"))?;
    let gid = known.unwrap_or(id);
    let line = |file: &str, line: String| Line { file: root.join(file), line };
    let mut lines = vec![
        line("etc/passwd", format!("{name}:x:{id}:{gid}:{about}:/nonexistent:/usr/sbin/nologin")),
        line("etc/shadow", format!("{name}:!*:::::::")),
    ];
    if known.is_none() {
        lines.push(line("etc/group", format!("{name}:x:{gid}:")));
        lines.push(line("etc/gshadow", format!("{name}:!*::")));
    }
    lines.retain(|line| line.file.exists());
    Ok((id, gid, lines))
}

/// The lock that programs which change these files take (`lckpwdf(3)`).
pub(crate) struct Lock {
    _file: File,
    made: Option<PathBuf>,
}

impl Lock {
    /// Waits for it.
    pub(crate) fn take(root: &Path) -> io::Result<Lock> {
        let path = root.join("etc/.pwd.lock");
        let made = (!path.exists()).then(|| path.clone());
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        rustix::io::retry_on_intr(|| rustix::fs::fcntl_lock(&file, FlockOperation::LockExclusive))?;
        Ok(Lock { _file: file, made })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            let _ = fs::remove_file(path); // an empty file that stays changes nothing
        }
    }
}

impl Line {
    /// Puts the line at the end of its file.
    pub(crate) fn add(&self) -> io::Result<()> {
        let mut text = fs::read_to_string(&self.file)?;
        if text.lines().any(|line| line == self.line) {
            return Ok(());
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&self.line);
        text.push('\n');
        replace(&self.file, &text)
    }

    /// Takes the line out again.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let text = fs::read_to_string(&self.file)?;
        let own = format!("{}\n", self.line);
        let rest: String = text.split_inclusive('\n').filter(|line| *line != own).collect();
        if rest == text { Ok(()) } else { replace(&self.file, &rest) }
    }
}

/// Puts `text` in the place of a file, whole, with the owner and the mode that it has.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let found = path.metadata()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.stockade"));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()))?;
    file.set_permissions(Permissions::from_mode(found.mode() & 0o7777))?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use stockade_scratch::Folder;

    use super::*;

    #[test]
    fn a_user_is_added_with_free_ids_and_taken_out_to_the_byte() {
        let folder = Folder::new();
        let root = folder.path();
        let files = [
            (
                "etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\nx:x:999:999::/x:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n",
            ),
            ("etc/group", "root:x:0:\nx:x:998:\nwheel:x:27:ada,bob\n"),
            ("etc/shadow", "root:*:1::::::"),
        ];
        fs::create_dir_all(root.join("etc")).unwrap();
        for (file, text) in files {
            fs::write(root.join(file), text).unwrap();
        }
        let ada = Account::ordinary(root).unwrap();
        assert_eq!((ada.uid, ada.groups(root)), (1000, vec![27, 1000]));
        let lock = Lock::take(root).unwrap();
        let (uid, gid, lines) = service(root, "log", "the log", &[]).unwrap();
        assert_eq!((uid, gid, lines.len()), (997, 997, 3));
        lines.iter().for_each(|line| line.add().unwrap());
        assert_eq!(Account::find(root, "log").unwrap().uid, 997);
        assert_eq!(service(root, "log", "the log", &[]).unwrap().2, Vec::new());
        assert_eq!(service(root, "more", "others", &[996]).unwrap().0, 995);
        // A person of that name does not become a service.
        assert!(service(root, "ada", "others", &[]).is_err());
        lines.iter().for_each(|line| line.remove().unwrap());
        drop(lock);
        for (file, text) in files {
            let after = fs::read_to_string(root.join(file)).unwrap();
            assert_eq!(after.trim_end(), text.trim_end());
        }
        assert!(!root.join("etc/.pwd.lock").exists());
    }
}
