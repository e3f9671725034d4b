//! Questions that an agent puts to its own person, so that nobody is asked twice.
//!
//! Where the hook answers "ask", the agent asks, and goes on only after a yes. The same command then comes to
//! our shell, from the same agent. What connects both is kept in the state directory, which no confined command
//! reads: a number that the hook made for this question alone, where it can write the line that runs; a digest of the
//! command, its directory, the settings and the files that it names; and the process that is the agent, as the kernel
//! names it. Text and environment of a command have no part in it. Each question serves once, for a while, and only
//! until the agent's next call. Only the agent itself spends it, through nothing but a shell that carries out its
//! line: agents that one program started, what the agent's commands start, and who runs in the same terminal do not.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use stockade_base::directories::private_directory;
use stockade_base::hex;
use stockade_log::record::caller::{Process, processes_above};

/// How long a person may think about a question of their agent.
const LASTS: Duration = Duration::from_secs(10 * 60);

/// Proof that the person of an agent said yes to a command; only [`take`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Agreed(());

/// A command that an agent's person is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The text.
    pub command: &'a str,
    /// Where it would run.
    pub cwd: &'a Path,
    /// The number of the question, where the line that runs has one.
    pub number: Option<&'a str>,
    /// Digest of everything that the yes would cover.
    pub about: [u8; 32],
    /// Digest of the changes in files that a builder outside of the sandbox executes; none where they do not count.
    pub changes: Option<[u8; 32]>,
}

impl Asked<'_> {
    /// Returns the file of this question.
    fn file(&self, state: &Path) -> PathBuf {
        let mut digest = Sha256::new();
        digest.update(self.cwd.as_os_str().as_encoded_bytes());
        digest.update([0]);
        digest.update(self.command.as_bytes());
        digest.update([0]);
        digest.update(self.number.unwrap_or_default());
        folder(state).join(hex(&digest.finalize()))
    }
}

fn folder(state: &Path) -> PathBuf {
    state.join("asked")
}

/// Notes that the agent above process `pid` puts a question to its person.
pub fn note(state: &Path, asked: Asked<'_>, pid: u32) -> io::Result<()> {
    private_directory(&folder(state))?;
    let line = |process: Process| format!("{} {}\n", process.pid, process.start);
    let above: String = agent_above(pid).into_iter().map(line).collect();
    let changes = asked.changes.map(|changes| hex(&changes)).unwrap_or_default();
    let text = format!("{above}{changes}\n{}\n", hex(&asked.about));
    let path = asked.file(state);
    let new = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&new, &path)
}

/// Forgets the questions of the agent above process `pid`: it has gone on to another call.
pub fn forget(state: &Path, pid: u32) {
    for entry in fs::read_dir(folder(state)).into_iter().flatten().flatten() {
        if is_from(&entry.path(), &agent_above(pid)) {
            let _ = fs::remove_file(entry.path()); // one that is gone was taken
        }
    }
}

/// Takes the yes of an agent's person to a command that the agent itself gives to our shell, or has the gate run. Without
/// a daemon `pid` is above the shell; with one, it is the shell itself.
pub fn take(state: &Path, asked: Asked<'_>, pid: u32) -> Option<Agreed> {
    let path = asked.file(state);
    let age = path.metadata().ok()?.modified().ok()?;
    let fresh = SystemTime::now().duration_since(age).is_ok_and(|age| age < LASTS);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let agent = agent_above(pid).pop().is_some_and(|agent| is_of(&text, &agent));
    let mut lines = text.lines().rev();
    let same = lines.next() == Some(&hex(&asked.about));
    let shown = lines.next();
    let same = same && asked.changes.is_none_or(|changes| shown == Some(&hex(&changes)));
    // Taken or too old, it serves nobody else; without this it might serve twice.
    fs::remove_file(&path).ok()?;
    (fresh && agent && same).then_some(Agreed(()))
}

/// Returns the processes above our shell, process `pid` or the one below it, of which one is the agent.
pub fn near(pid: u32) -> Vec<Process> {
    of_others(pid).take(2).collect()
}

/// Returns the processes from `pid` up that are none of ours.
fn of_others(pid: u32) -> impl Iterator<Item = Process> {
    let file = |found: fs::Metadata| (found.dev(), found.ino());
    let program = move |pid: &str| fs::metadata(format!("/proc/{pid}/exe")).ok().map(file);
    let own = program("self");
    let is_own = move |it: &Process| program(&it.pid.to_string()).is_some_and(|it| Some(it) == own);
    processes_above(pid).into_iter().skip_while(is_own)
}

/// Returns the agent for which a hook, process `pid` or the one below it, runs, behind the shells that only carry out the
/// hook's line. What is above the agent may have started others.
pub fn agent_above(pid: u32) -> Vec<Process> {
    let mut found = Vec::new();
    for process in of_others(pid) {
        found.push(process);
        if !carries_out_a_line(process.pid) {
            break;
        }
    }
    found
}

/// Says whether a process is a shell that was given a line with `-c`.
fn carries_out_a_line(pid: u32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = words.split(|byte| *byte == 0);
    let (shell, option) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_option = option.starts_with(b"-") && !option.starts_with(b"--");
    shell.ends_with(b"sh") && is_option && option.contains(&b'c')
}

/// Says whether `agent` is the one that noted a question, and not a shell of its hook.
fn is_of(text: &str, agent: &Process) -> bool {
    let mut lines = text.lines().rev().skip(2);
    lines.next() == Some(&format!("{} {}", agent.pid, agent.start))
}

/// Says whether one of `processes` is the agent, or a shell of its hook, that noted the question.
fn is_from(path: &Path, processes: &[Process]) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let noted = |process: &Process| {
        let line = format!("{} {}", process.pid, process.start);
        text.lines().any(|found| found == line)
    };
    processes.iter().any(noted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    #[test]
    fn a_yes_serves_the_same_command_of_the_same_agent_once() {
        let folder = Folder::new();
        let state = folder.path();
        let me = std::process::id();
        let about = [7; 32];
        let asked =
            |command| Asked { command, cwd: Path::new("/p"), number: None, about, changes: None };
        note(state, asked("make"), me).unwrap();
        assert!(take(state, asked("make x"), me).is_none());
        assert!(take(state, Asked { cwd: Path::new("/"), ..asked("make") }, me).is_none());
        assert!(take(state, asked("make"), me).is_some());
        assert!(take(state, asked("make"), me).is_none());
        // Another process that claims it gets nothing, and nobody does after it.
        note(state, asked("make"), me).unwrap();
        assert!(take(state, asked("make"), 1).is_none());
        assert!(take(state, asked("make"), me).is_none());
        // Neither under another number, nor where what it was about has changed.
        for (number, noted, taken) in
            [(None, None, Some("1")), (None, Some("1"), None), (Some("2"), Some("1"), Some("1"))]
        {
            let changed = Asked {
                number: taken,
                about: if number.is_some() { [8; 32] } else { about },
                ..asked("make")
            };
            forget(state, me); // what the round before noted
            note(state, Asked { number: noted, ..asked("make") }, me).unwrap();
            assert!(take(state, changed, me).is_none(), "{noted:?} {taken:?}");
        }
        note(state, Asked { number: Some("1"), ..asked("make") }, me).unwrap();
        assert!(take(state, Asked { number: Some("1"), ..asked("make") }, me).is_some());
        note(state, asked("make"), me).unwrap();
        forget(state, me);
        assert!(take(state, asked("make"), me).is_none());
        // The changes that a builder executes must be the ones that the person was shown, where they count.
        let (one, other) = (Some([1; 32]), Some([2; 32]));
        for (noted, taken, counts) in
            [(one, one, true), (one, None, true), (one, other, false), (None, one, false)]
        {
            note(state, Asked { changes: noted, ..asked("make") }, me).unwrap();
            let found = take(state, Asked { changes: taken, ..asked("make") }, me);
            assert_eq!(found.is_some(), counts, "{noted:?} {taken:?}");
        }
    }
}
