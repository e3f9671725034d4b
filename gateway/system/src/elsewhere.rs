//! Users that are not in `/etc/passwd` but in LDAP or elsewhere, as the machine's name service switch (nsswitch.conf(5)) finds them.
//!
//! The modules of that switch are code of others, and a static executable cannot load them at all. So `getent` asks, as the user
//! nobody, with a limit of time. What it answers names a home directory, and the groups by which such a user approves; which user and
//! which groups a connection is of, the kernel says.

use std::collections::HashMap;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::accounts::{self, Account};
use crate::identity::Identity;

/// The programs, of root and at their usual places.
const LIMITED: &str = "/usr/bin/timeout";
const ASKS: &str = "/usr/bin/getent";
/// How long `getent` may take, in seconds; everybody waits for it.
const LONGEST: &str = "3";
/// User and group that own nothing.
const NOBODY: u32 = 65_534;
/// For how long an unknown user is not asked for again.
const AGAIN: Duration = Duration::from_secs(60);
/// Most unknown users that are remembered.
const MOST: usize = 1024;
/// Most groups of one user that are asked for.
const MOST_GROUPS: usize = 256;

/// The users that were not found a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    unknown: HashMap<u32, Instant>,
}

impl Elsewhere {
    /// Returns the user with `uid`, if the name service switch has it.
    pub(crate) fn of(&mut self, uid: u32) -> Option<Account> {
        self.unknown.retain(|_, since| since.elapsed() < AGAIN);
        if self.unknown.contains_key(&uid) || self.unknown.len() >= MOST {
            return None;
        }
        let found = asked("passwd", &[uid]).ok().and_then(|text| accounts::of_text(&text, uid));
        if found.is_none() {
            self.unknown.insert(uid, Instant::now());
        }
        found
    }
}

/// Returns the names of the groups of a process: those of `/etc/group`, and for other numbers those that the name service switch has.
pub(crate) fn groups(root: &Path, identity: &Identity) -> Vec<String> {
    let ids = [&[identity.gid], identity.groups.as_slice()].concat();
    let file = std::fs::read_to_string(root.join("etc/group")).unwrap_or_default();
    let mut found = accounts::groups_of_text(&file, &ids);
    let mut others: Vec<u32> =
        ids.into_iter().filter(|id| found.iter().all(|(known, _)| known != id)).collect();
    others.sort_unstable();
    others.dedup();
    others.truncate(MOST_GROUPS);
    if !others.is_empty() {
        let text = asked("group", &others).unwrap_or_default();
        let of_file = accounts::group_names(&file);
        let more = accounts::groups_of_text(&text, &others).into_iter();
        // A file may use the name for another group.
        found.extend(more.filter(|(_, name)| !of_file.contains(name)));
    }
    found.into_iter().map(|(_, name)| name).collect()
}

#[expect(clippy::disallowed_methods, reason = "the program of the machine that finds users")]
fn asked(database: &str, ids: &[u32]) -> io::Result<String> {
    let mut command = Command::new(LIMITED);
    command.args(["-k", "1", LONGEST, ASKS, database]).args(ids.iter().map(u32::to_string));
    command.env_clear().current_dir("/").uid(NOBODY).gid(NOBODY);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
