//! The zsh that runs texts: its version, its start file and its environment.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use stockade_parser::Zsh;
use stockade_programs::tables::{Table, view};
use stockade_text::json::view::{Members, View};

use super::{behind, number};

/// How zsh is started, in front of a text: without start files.
pub(super) const WORDS: &[&str] = &["zsh", "-f", "-c"];

/// Largest start file that is read, in bytes.
const LONGEST: u64 = 64 << 10;

/// Facts from the bytes of a zsh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    version: (u32, u32),
    /// The file that it reads even without start files.
    start: PathBuf,
}

impl Found {
    /// Reads what [`Found::text`] wrote.
    pub(super) fn of(text: &str) -> Option<Found> {
        let (version, start) = text.split_once(' ')?;
        Some(Found { version: number(version)?, start: start.into() })
    }

    pub(super) fn text(&self) -> String {
        format!("{}.{} {}", self.version.0, self.version.1, self.start.display())
    }

    /// Returns what the parser is told of it, where `search` is the search path.
    pub(super) fn zsh(&self, search: &str) -> Zsh {
        Zsh { version: self.version, clean_start: is_clean(&self.start, search, 0) }
    }
}

/// Finds version and start file in a zsh: the name of its folder of modules has the one, and both stand as paths.
pub(super) fn inside(bytes: &[u8]) -> Option<Found> {
    let version = behind(bytes, b"/zsh/")
        .find_map(|text| number(&String::from_utf8_lossy(text.get(..16).unwrap_or(text))))?;
    let mut texts = bytes.split(|byte| *byte == 0).filter_map(|text| str::from_utf8(text).ok());
    let start = texts.find(|text| text.starts_with('/') && text.ends_with("/zshenv"))?;
    Some(Found { version, start: start.into() })
}

/// Says whether the file that zsh always reads defines nothing: it is not there, or it is `owner`'s alone and holds
/// nothing but comments and what the table has.
fn is_clean(path: &Path, search: &str, owner: u32) -> bool {
    let Ok(found) = path.metadata() else { return path.symlink_metadata().is_err() };
    if found.uid() != owner || found.mode() & 0o022 != 0 || !found.is_file() {
        return false;
    }
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|it| it.take(LONGEST).read_to_string(&mut text));
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|it| is_code(it)).collect();
    let Some(table) = view(Table::Zsh).members() else { return false };
    let list = |key: &str| list(&table, key);
    let is_usual = lines == list("start_file") && !list("start_file_paths").contains(&search);
    read.is_ok_and(|bytes| bytes as u64 != LONGEST) && (lines.is_empty() || is_usual)
}

fn is_code(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

fn list(table: &Members<'static>, key: &str) -> Vec<&'static str> {
    table.get(key).and_then(View::texts).unwrap_or_default()
}

/// Says whether a variable changes what zsh or what it starts does.
pub fn is_withheld(name: &str) -> bool {
    let Some(table) = view(Table::Zsh).members() else { return true };
    list(&table, "environment").iter().any(|listed| match listed.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *listed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    const PATH: &str = "/usr/bin:/bin";

    #[test]
    fn a_start_file_that_defines_something_is_not_clean() {
        let folder = Folder::new();
        let owner = rustix::process::geteuid().as_raw();
        let is = |text: &str, search: &str| is_clean(&folder.write("zshenv", text), search, owner);
        let usual = list(&view(Table::Zsh).members().unwrap(), "start_file").join("\n  ");
        assert!(is("", PATH) && is("# a\n\n  # b\n", PATH) && is(&usual, PATH));
        assert!(!is(&usual, "") && !is(&usual, "/bin:/usr/bin"));
        assert!(!is("alias -g x=y", PATH) && !is(&format!("{usual}\ncd /"), PATH));
        assert!(!is(&"#".repeat(70_000), PATH));
        assert!(is_clean(Path::new("/nowhere/zshenv"), PATH, owner));
        let path = folder.write("zshenv", "");
        assert!(!is_clean(&path, PATH, owner + 1) && !is_clean(folder.path(), PATH, owner));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(&path, mode).unwrap();
        assert!(!is_clean(&path, PATH, owner));
    }

    #[test]
    fn version_and_start_file_stand_in_the_bytes() {
        let bytes = b"x\0/usr/lib/zsh/5.8.1\0.zshenv\0/etc/zsh/zshenv\0";
        let found = inside(bytes).unwrap();
        assert_eq!(found, Found { version: (5, 8), start: "/etc/zsh/zshenv".into() });
        assert_eq!(Found::of(&found.text()), Some(found));
        assert_eq!(inside(b"/usr/lib/zsh/x\0/etc/zsh/zshenv\0"), None);
        assert_eq!(inside(b"/usr/lib/zsh/5.9\0.zshenv\0"), None);
    }

    #[test]
    fn what_changes_zsh_is_withheld() {
        let withheld = ["ARGV0", "STTY", "ZSH_X", "path"].map(is_withheld);
        assert_eq!((withheld, is_withheld("PATH")), ([true; 4], false));
    }
}
