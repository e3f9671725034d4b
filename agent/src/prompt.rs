//! Text for the model before the first message: a fixed part, then what differs from session to session.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::agents::Definitions;
use crate::flags::Flags;
use crate::memory::memory;
use crate::regular;

/// The fixed part: the same bytes in every session, so that the provider's cache holds.
const FIXED: &str = include_str!("prompt.txt");

/// The system prompt in parts, and what goes into the first message instead.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) system: Vec<String>,
    pub(crate) first: Option<String>,
    /// Memory files, as they stand in one of both.
    pub(crate) memory: String,
    /// They stand in the first message.
    pub(crate) is_memory_first: bool,
}

/// A system prompt that came with the protocol.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) system: Option<String>,
    pub(crate) append: Option<String>,
    pub(crate) exclude_dynamic: bool,
    /// Definitions of agents.
    pub(crate) agents: Definitions,
}

/// Texts for the model out of files and options, read before the session begins.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Texts {
    system: Option<String>,
    append: Option<String>,
    branch: Option<String>,
    memory: String,
    /// Memory files that were read, with their layers as hooks know them.
    pub(crate) files: Vec<(String, String)>,
}

impl Texts {
    /// Reads them.
    pub(crate) fn read(flags: &Flags, cwd: &Path) -> anyhow::Result<Texts> {
        let read = |text: &Option<String>, file: &Option<PathBuf>| match (text, file) {
            (Some(text), _) => Ok(Some(text.clone())),
            (None, Some(file)) => std::fs::read_to_string(file)
                .map(Some)
                .with_context(|| format!("`{}` cannot be read", file.display())),
            (None, None) => Ok(None),
        };
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let (memory, files) = memory(flags.sources().as_deref(), (cwd, home.as_deref()));
        Ok(Texts {
            system: read(&flags.system_prompt, &flags.system_prompt_file)?,
            append: read(&flags.append_system_prompt, &flags.append_system_prompt_file)?,
            branch: branch(cwd),
            memory,
            files,
        })
    }
}

/// Returns what the model is told.
pub(crate) fn prompt(
    flags: &Flags,
    (given, texts): (&Given, &Texts),
    (cwd, model, mode): (&Path, &str, &str),
) -> Prompt {
    let own = given.system.clone().or_else(|| texts.system.clone());
    let append = given.append.clone().or_else(|| texts.append.clone());
    let dynamic = dynamic(flags, texts, (cwd, model, mode));
    let mut system = vec![own.unwrap_or_else(|| FIXED.trim_end().to_owned())];
    system.extend(append);
    let excluded = flags.exclude_dynamic_system_prompt_sections || given.exclude_dynamic;
    let first = excluded.then(|| dynamic.clone());
    system.extend((!excluded).then_some(dynamic));
    system.retain(|part| !part.is_empty());
    Prompt { system, first, memory: texts.memory.clone(), is_memory_first: excluded }
}

fn dynamic(flags: &Flags, texts: &Texts, (cwd, model, mode): (&Path, &str, &str)) -> String {
    let mut lines = vec![
        "# Environment".to_owned(),
        format!("Working directory: {}", cwd.display()),
        format!(
            "Git branch: {}",
            texts.branch.as_deref().unwrap_or("none, this is not a git repository")
        ),
        format!("Platform: {}", std::env::consts::OS),
        format!("Date: {}", today()),
        format!("Model: {model}"),
        format!("Permission mode: {mode}"),
    ];
    lines.extend(flags.task_budget.map(|it| format!("Tokens for the whole task: {it}")));
    lines.extend(flags.add_dir.iter().map(|it| format!("Further directory: {}", it.display())));
    if !texts.memory.is_empty() {
        lines.push(format!(
            "\n# Memory\nThese files are instructions of the user and the project.\n{}",
            texts.memory
        ));
    }
    lines.join("\n")
}

/// Longest file about a branch that is read, in bytes (`PATH_MAX`, with the words before it).
const LONGEST_HEAD: u64 = 8192;

/// Returns the branch of the repository around a directory.
pub(crate) fn branch(cwd: &Path) -> Option<String> {
    let git = cwd.ancestors().map(|it| it.join(".git")).find(|it| it.exists())?;
    let git = match regular::text(&git, LONGEST_HEAD) {
        // A worktree: the file names the folder.
        Some(text) => PathBuf::from(text.strip_prefix("gitdir: ")?.trim()),
        None => git,
    };
    let head = regular::text(&git.join("HEAD"), LONGEST_HEAD)?;
    let head = head.trim();
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(branch.to_owned()).filter(|it| !it.contains(char::is_control)),
        // The name of a commit (gitrepository-layout(5)); any other file could hold a secret.
        None => head
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then(|| format!("detached at {head}"))
            .filter(|_| [40, 64].contains(&head.len())),
    }
}

/// Returns the day as `2026-01-31` (UTC). Days to a date: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
pub(crate) fn today() -> String {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let days = i64::try_from(since.as_secs() / 86_400).unwrap_or_default() + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) = (
        day_of_year - (153 * shifted + 2) / 5 + 1,
        if shifted < 10 { shifted + 3 } else { shifted - 9 },
    );
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_of_the_user_replaces_the_fixed_part() {
        let flags = Flags {
            system_prompt: Some("be brief".into()),
            append_system_prompt: Some("and kind".into()),
            setting_sources: Some(String::new()),
            exclude_dynamic_system_prompt_sections: true,
            ..Flags::default()
        };
        let texts = Texts::read(&flags, Path::new("/")).unwrap();
        let prompt = prompt(&flags, (&Given::default(), &texts), (Path::new("/"), "m", "default"));
        assert_eq!(prompt.system, ["be brief", "and kind"]);
        assert!(prompt.first.unwrap().contains("Working directory: /\n"));
    }

    #[test]
    fn a_branch_is_read_and_what_else_stands_in_its_place_is_not() {
        let root = std::env::temp_dir().join(format!("stockade-branch-{}", std::process::id()));
        std::fs::create_dir_all(root.join(".git")).unwrap();
        let head = root.join(".git/HEAD");
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for (text, expected) in [
            ("ref: refs/heads/main\n", Some("main".to_owned())),
            (commit, Some(format!("detached at {commit}"))),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\n", None),
            ("ref: refs/heads/a\nsecret", None),
            ("abc", None),
        ] {
            std::fs::write(&head, text).unwrap();
            assert_eq!(branch(&root), expected, "{text}");
        }
        std::fs::write(root.join("elsewhere"), "ref: refs/heads/x").unwrap();
        std::fs::remove_file(&head).unwrap();
        std::os::unix::fs::symlink(root.join("elsewhere"), &head).unwrap();
        assert_eq!(branch(&root), None, "a link");
        std::fs::remove_file(&head).unwrap();
        let (mode, kind) = (rustix::fs::Mode::RUSR, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, &head, kind, mode, 0).unwrap();
        assert_eq!(branch(&root), None, "a pipe");
        std::fs::remove_dir_all(root).unwrap();
    }
}
