//! Memory files: instructions of the user and of the project, which the model is told before the first message.
//!
//! The keeper reads them with the rights of the user, and what they hold goes to the model. Whoever writes the project, a
//! sandboxed command included, must not choose what else is read: files of the project import nothing, and a link is
//! followed only to a memory file of the same directory.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::path::{Component, Path, PathBuf};

/// Most characters of memory files.
const MEMORY: usize = 200_000;
/// Deepest `@import`.
const DEPTH: usize = 5;
/// Longest memory file in bytes.
const LONGEST: u64 = 1 << 20;
/// Memory files of the machine, and those of the user in the home directory.
const MANAGED: &str = "/etc/stockade/AGENTS.md";
const OF_USER: [&str; 2] = [".config/stockade/AGENTS.md", ".claude/CLAUDE.md"];
/// Folders of the home directory whose files may import as the user's own memory files do.
const FOLDERS: [&str; 2] = [".config/stockade", ".claude"];
/// Memory files of a directory of the project, and the one that is not checked in.
const OF_PROJECT: [&str; 3] = ["AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md"];
const LOCAL: &str = "CLAUDE.local.md";

/// The text of the memory files, and the files with their layers, as hooks know them.
type Memory = (String, Vec<(String, String)>);

/// Returns the memory files: managed, user, project from the root down, local. The same text counts once.
pub(crate) fn memory(sources: Option<&[String]>, (cwd, home): (&Path, Option<&Path>)) -> Memory {
    let counts = |name: &str| sources.is_none_or(|it| it.iter().any(|it| it == name));
    let mut whole = Whole::default();
    let own = Own::new(cwd, home);
    whole.add(Path::new(MANAGED), "Managed", own.load(Path::new(MANAGED), 0));
    for name in home.iter().filter(|_| counts("user")).flat_map(|_| OF_USER) {
        let file = own.home.join(name);
        whole.add(&file, "User", own.load(&file, 0));
    }
    let mut folders: Vec<&Path> = cwd.ancestors().collect();
    folders.reverse();
    for folder in folders {
        if counts("project") {
            OF_PROJECT.iter().for_each(|name| whole.add_of(folder, name, "Project"));
        }
        if counts("local") {
            whole.add_of(folder, LOCAL, "Local");
        }
    }
    whole.finish()
}

#[derive(Default)]
struct Whole {
    seen: BTreeSet<String>,
    parts: Vec<String>,
    read: Vec<(String, String)>,
}

impl Whole {
    fn add(&mut self, file: &Path, layer: &str, text: Option<String>) {
        let Some(text) = text else { return };
        if self.seen.insert(text.trim().to_owned()) {
            self.parts.push(format!("\n## {}\n{}", file.display(), text.trim_end()));
            self.read.push((file.to_string_lossy().into_owned(), layer.to_owned()));
        }
    }

    /// Adds a file of a directory of the project.
    fn add_of(&mut self, folder: &Path, name: &str, layer: &str) {
        let file = folder.join(name);
        let real = file.canonicalize().ok().filter(|real| {
            let folder = folder.canonicalize().ok();
            let names = OF_PROJECT.iter().chain([&LOCAL]);
            folder.is_some_and(|folder| names.map(|name| folder.join(name)).any(|it| it == *real))
        });
        self.add(&file, layer, real.and_then(|real| text(&real)));
    }

    fn finish(self) -> Memory {
        let mut whole = self.parts.join("\n");
        if let Some((end, _)) = whole.char_indices().nth(MEMORY) {
            whole.truncate(end);
            whole.push_str(
                "\n(The memory files are longer than 200,000 characters; the rest is left out.)",
            );
        }
        (whole, self.read)
    }
}

/// The imports that files of the user and of the machine may make.
struct Own {
    cwd: PathBuf,
    home: PathBuf,
}

impl Own {
    fn new(cwd: &Path, home: Option<&Path>) -> Own {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Own { cwd: real(cwd), home: home.map(real).unwrap_or_default() }
    }

    /// Reads a file with what it imports: a line `@path`.
    fn load(&self, file: &Path, depth: usize) -> Option<String> {
        let text = text(&file.canonicalize().ok()?)?;
        let imports = depth < DEPTH && self.imports(file);
        let load = |line: &str| {
            let import = line.trim().strip_prefix('@').filter(|_| imports)?;
            if import.is_empty() || import.contains(char::is_whitespace) {
                return None;
            }
            let path = match import.strip_prefix("~/") {
                Some(rest) => self.home.join(rest),
                None => file.parent()?.join(import),
            };
            let path = plain(&path);
            self.may_read(&path).then(|| self.load(&path, depth + 1)).flatten()
        };
        let lines = text.lines().map(|line| load(line).unwrap_or_else(|| line.to_owned()));
        Some(lines.collect::<Vec<_>>().join("\n"))
    }

    /// Says whether a file is the user's own or of the machine. One that lies elsewhere may be of a project.
    fn imports(&self, file: &Path) -> bool {
        file == Path::new(MANAGED) || self.is_in_folder(file)
    }

    fn is_in_folder(&self, file: &Path) -> bool {
        let is_known = !self.home.as_os_str().is_empty();
        let inside = |folder: &&str| file.starts_with(self.home.join(folder));
        is_known && FOLDERS.iter().any(inside) && !self.is_of_project(file)
    }

    /// Says whether a file lies where commands of the session write.
    fn is_of_project(&self, file: &Path) -> bool {
        file.starts_with(&self.cwd) && !self.home.starts_with(&self.cwd)
    }

    /// Says whether a path may be imported. Links are followed in the user's own folders alone: elsewhere a command may have
    /// made them.
    fn may_read(&self, path: &Path) -> bool {
        let Ok(real) = path.canonicalize() else { return false };
        let known =
            [&self.cwd, &self.home].map(|it| !it.as_os_str().is_empty() && real.starts_with(it));
        known.contains(&true) && (self.is_in_folder(path) || real == path)
    }
}

/// Returns a path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

/// Reads a file by its real path. What took its place since, a link or a pipe, is not read.
fn text(real: &Path) -> Option<String> {
    let file = crate::regular::open(real, LONGEST)?;
    // A directory above may have been replaced by a link.
    let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let mut text = String::new();
    let read = file.take(LONGEST).read_to_string(&mut text).ok();
    read.filter(|length| *length > 0 && opened == real).map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home directory with a project in it.
    struct Case {
        root: PathBuf,
        home: PathBuf,
        project: PathBuf,
    }

    impl Case {
        fn new(name: &str) -> Case {
            let root =
                std::env::temp_dir().join(format!("stockade-memory-{name}-{}", std::process::id()));
            let home = root.join("home");
            for folder in ["project/.claude", ".claude", ".config/stockade", ".aws"] {
                std::fs::create_dir_all(home.join(folder)).unwrap();
            }
            let root = root.canonicalize().unwrap();
            let home = root.join("home");
            let case = Case { project: home.join("project"), root, home };
            case.write(".aws/credentials", "the key\n");
            case
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.home.join(name), text).unwrap();
        }

        fn link(&self, to: &str, name: &str) {
            std::os::unix::fs::symlink(to, self.home.join(name)).unwrap();
        }

        /// The lines that the model is told, without headings.
        fn told(&self, sources: &[&str]) -> Vec<String> {
            let sources: Vec<String> = sources.iter().map(|it| (*it).to_owned()).collect();
            let (text, _) = memory(Some(&sources), (&self.project, Some(&self.home)));
            let lines = text.lines().filter(|it| !it.is_empty() && !it.starts_with('#'));
            lines.map(str::to_owned).collect()
        }
    }

    impl Drop for Case {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }

    #[test]
    fn memory_files_are_read_from_the_root_down() {
        let case = Case::new("order");
        std::fs::write(case.home.join("AGENTS.md"), "outer rule\n").unwrap();
        case.write("project/AGENTS.md", "outer rule\n");
        case.write("project/CLAUDE.md", "inner rule\n");
        case.write("project/CLAUDE.local.md", "own rule\n");
        assert_eq!(case.told(&["project"]), ["outer rule", "inner rule"]);
        assert_eq!(case.told(&["local"]), ["own rule"]);
        assert!(case.told(&[]).is_empty());
    }

    #[test]
    fn files_of_a_project_import_nothing() {
        let case = Case::new("imports");
        let imports = "@more.md\n@../.aws/credentials\n@~/.aws/credentials\n@/etc/hostname";
        case.write("project/more.md", "imported\n");
        case.write("project/CLAUDE.md", imports);
        case.write("project/CLAUDE.local.md", &format!("{imports}\nlocal"));
        let told = case.told(&["project", "local"]).join("\n");
        assert_eq!(told, format!("{imports}\n{imports}\nlocal"));
    }

    #[test]
    fn a_link_in_a_project_leads_to_a_memory_file_of_the_same_directory_alone() {
        let case = Case::new("links");
        case.write("project/AGENTS.md", "rules\n");
        case.link("../AGENTS.md", "project/.claude/CLAUDE.md");
        case.link("../.aws/credentials", "project/CLAUDE.md");
        case.link("../../.aws/credentials", "project/CLAUDE.local.md");
        assert_eq!(case.told(&["project", "local"]), ["rules"]);
        // The folder itself as a link.
        std::fs::remove_dir_all(case.project.join(".claude")).unwrap();
        std::fs::rename(case.home.join(".aws/credentials"), case.home.join(".aws/CLAUDE.md"))
            .unwrap();
        case.link("../.aws", "project/.claude");
        assert_eq!(case.told(&["project", "local"]), ["rules"]);
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let case = Case::new("pipe");
        let (mode, kind) = (rustix::fs::Mode::from_raw_mode(0o600), rustix::fs::FileType::Fifo);
        let path = case.project.join("AGENTS.md");
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        assert!(case.told(&["project"]).is_empty());
    }

    #[test]
    fn files_of_the_user_import_and_what_a_command_can_write_leads_nowhere() {
        let case = Case::new("own");
        case.write(".claude/CLAUDE.md", "mine\n@style.md\n@~/project/notes.md\n@~/project/bait.md");
        case.write(".claude/style.md", "style\n@style.md");
        case.write("project/notes.md", "notes\n@../.aws/credentials");
        case.link("../.aws/credentials", "project/bait.md");
        let told = case.told(&["user"]).join("\n");
        let style = "style\n".repeat(5);
        assert_eq!(
            told,
            format!("mine\n{style}@style.md\nnotes\n@../.aws/credentials\n@~/project/bait.md")
        );
    }
}
