//! Users that are not in `/etc/passwd` but in LDAP or elsewhere, as the machine's name service switch (nsswitch.conf(5)) finds them.
//!
//! The modules of that switch are code of others, and a static executable cannot load them at all. So `getent` asks, as the user
//! nobody, with a limit of time. What it answers names a home directory; which user a connection is of, the kernel says.

use std::collections::HashMap;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::accounts::{self, Account};

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
        let found = asked(uid).ok().and_then(|text| accounts::of_text(&text, uid));
        if found.is_none() {
            self.unknown.insert(uid, Instant::now());
        }
        found
    }
}

#[expect(clippy::disallowed_methods, reason = "the program of the machine that finds users")]
fn asked(uid: u32) -> io::Result<String> {
    let mut command = Command::new(LIMITED);
    command.args(["-k", "1", LONGEST, ASKS, "passwd", &uid.to_string()]);
    command.env_clear().current_dir("/").uid(NOBODY).gid(NOBODY);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
