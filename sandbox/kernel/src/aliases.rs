//! Other ways to the same object: a second mount of its file system.
//!
//! A rule names an object, not a spelling. Where the host shows one directory at two places, a refusal at
//! the one place is put at the other one too. Same file system and same path in it is same object
//! (`mountinfo` of `proc(5)`, fields 3 to 5).

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use stockade_spec::Access;
use stockade_spec::FileRule;

/// One line of `mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    device: String,
    /// Part of the file system that is shown.
    root: PathBuf,
    /// Where.
    at: PathBuf,
    /// True if that place is spelled in the plain way, see [`is_plain`].
    is_plain: bool,
}

impl Shown {
    /// Says whether `path`, which is plain or not, lies there.
    fn is_above(&self, path: &Path, is_plain: bool) -> bool {
        if !is_plain || !self.is_plain {
            return path.starts_with(&self.at);
        }
        // Every rule is held against every mount: comparing parts would take most of the time of both.
        let [path, at] = [path, &self.at].map(|it| it.as_os_str().as_bytes());
        let rest = path.strip_prefix(at);
        at == b"/" || rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    }
}

/// Says whether `path` is absolute and its bytes are its parts with one `/` before each.
fn is_plain(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let plain = |part: &[u8]| !part.is_empty() && part != b".";
    let parts = bytes.strip_prefix(b"/");
    bytes == b"/" || parts.is_some_and(|parts| parts.split(|byte| *byte == b'/').all(plain))
}

/// The mounts that this process sees.
#[derive(Debug, Default)]
pub struct Places(Vec<Shown>);

impl Places {
    /// Reads them from an open `mountinfo`.
    pub fn read(mut mountinfo: &File) -> std::io::Result<Places> {
        // The kernel does not say how long it is; a buffer that grows slowly is read in many pieces.
        let mut table = String::with_capacity(16 << 10);
        mountinfo.read_to_string(&mut table)?;
        Ok(Places(mounts(&table)))
    }

    /// Returns the refusals of `rules` once more for every other place where this process sees their objects.
    pub fn of_rules(&self, rules: &[FileRule]) -> Vec<FileRule> {
        aliases(&self.0, rules)
    }
}

fn mounts(table: &str) -> Vec<Shown> {
    let shown = |line: &str| {
        let mut fields = line.split(' ').skip(2);
        let device = fields.next()?.to_owned();
        let (root, at) = (path(fields.next()?), path(fields.next()?));
        Some(Shown { device, root, is_plain: is_plain(&at), at })
    };
    table.lines().filter_map(shown).collect()
}

/// Undoes the octal escapes of blanks and line ends.
fn path(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|it| std::str::from_utf8(it).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, escaped) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Returns the mount that shows `path`: the last one at the longest place.
fn shows<'a>(mounts: &'a [Shown], path: &Path) -> Option<&'a Shown> {
    let is_plain = is_plain(path);
    let above = mounts.iter().filter(|mount| mount.is_above(path, is_plain));
    above.max_by_key(|mount| mount.at.components().count())
}

fn aliases(mounts: &[Shown], rules: &[FileRule]) -> Vec<FileRule> {
    let mut found: Vec<FileRule> = Vec::new();
    for rule in rules {
        let refuses = match rule.access {
            Access::ReadOnly | Access::Protected | Access::None | Access::Kept => true,
            Access::Write | Access::Read => false,
        };
        if !refuses {
            continue;
        }
        let Some(mount) = shows(mounts, &rule.path) else { continue };
        let inside = rule.path.strip_prefix(&mount.at).unwrap_or(Path::new(""));
        let object = joined(&mount.root, inside);
        for other in mounts.iter().filter(|other| other.device == mount.device) {
            let path = match (object.strip_prefix(&other.root), other.root.strip_prefix(&object)) {
                (Ok(rest), _) => joined(&other.at, rest),
                // The other mount shows a part of the refused directory.
                (Err(_), Ok(_)) => other.at.clone(),
                (Err(_), Err(_)) => continue,
            };
            // Another mount may cover this one there.
            let is_seen = shows(mounts, &path).is_some_and(|seen| seen == other);
            let known = path == rule.path || found.iter().chain(rules).any(|it| it.path == path);
            let is_own = super::layout::OWN.iter().any(|own| path.starts_with(own));
            if is_seen && !known && !is_own {
                found.push(FileRule { path, access: rule.access, origin: rule.origin.clone() });
            }
        }
    }
    found
}

fn joined(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { base.to_path_buf() } else { base.join(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "1 0 8:1 / / rw - ext4 x rw\n\
        2 1 8:1 /home/u/p /mnt/same rw - ext4 x rw\n\
        3 1 8:1 /home/u/p/.git/hooks /mnt/a\\040b rw - ext4 x rw\n\
        4 1 8:2 / /mnt/other rw - ext4 y rw\n\
        5 1 8:1 /home/u/p /mnt/covered rw - ext4 x rw\n\
        6 5 8:2 / /mnt/covered rw - ext4 y rw\n";

    fn check(path: &str, access: Access, expected: &[&str]) {
        let rule = FileRule { path: path.into(), access, origin: "rule".to_owned() };
        let found = aliases(&mounts(TABLE), &[rule]);
        let paths: Vec<_> = found.iter().map(|it| it.path.to_str().unwrap()).collect();
        assert_eq!(paths, expected);
        assert!(found.iter().all(|it| it.access == access && it.origin == "rule"));
    }

    #[test]
    fn a_refusal_holds_wherever_the_object_is_shown() {
        check("/home/u/p/.git/config", Access::Protected, &["/mnt/same/.git/config"]);
        check("/mnt/same/f", Access::None, &["/home/u/p/f"]);
        check("/home/u/p/.git", Access::ReadOnly, &["/mnt/same/.git", "/mnt/a b"]);
        check("/home/u/p", Access::None, &["/mnt/same", "/mnt/a b"]);
    }

    #[test]
    fn what_grants_is_not_repeated_and_other_file_systems_are_others() {
        check("/home/u/p", Access::Write, &[]);
        check("/mnt/other/f", Access::None, &["/mnt/covered/f"]);
        check("/etc/x", Access::None, &[]);
    }

    #[test]
    fn bytes_and_parts_agree_on_what_lies_where() {
        let texts = [
            "/", "/a", "/a/b", "/ab", "/a/b/c", "//a", "/a//b", "/a/./b", "/a/b/", "/a/.", "/./a",
            "",
        ];
        for at in texts {
            let mount = Shown {
                device: String::new(),
                root: "/".into(),
                at: at.into(),
                is_plain: is_plain(Path::new(at)),
            };
            for path in texts.map(Path::new) {
                let found = mount.is_above(path, is_plain(path));
                assert_eq!(found, path.starts_with(at), "{path:?} in {at:?}");
            }
        }
    }
}
