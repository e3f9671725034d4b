//! Ctrl-B at the terminal of a command that has no terminal of its own: the command goes on as a background task.
//!
//! The terminal turns the key into a signal, as it usually does with Ctrl-\. No key is read here: all that is typed ahead
//! stays for whoever reads the terminal next.

use rustix::process::getpgrp;
use rustix::termios::{OptionalActions, SpecialCodeIndex, isatty, tcgetattr, tcgetpgrp, tcsetattr};

use crate::protocol::types::CommandRequest;

/// Ctrl-B.
const KEY: u8 = 2;

/// The key at standard input. Dropping it gives the terminal its own key back.
#[derive(Debug)]
pub(in super::super) struct BackgroundKey {
    /// The key that the terminal had for the signal.
    usual: u8,
}

impl BackgroundKey {
    /// Sets the key where a person waits for the command of `request` at a terminal that stays theirs.
    pub(in super::super) fn of(request: &CommandRequest) -> Option<BackgroundKey> {
        if request.pty || request.background || !isatty(rustix::stdio::stdin()) {
            return None;
        }
        let usual = key()?;
        let own = BackgroundKey { usual };
        own.set();
        // In the background of a shell the terminal is another's.
        (key() == Some(KEY)).then_some(own)
    }

    /// Sets the key: at first, and when this process goes on after it was stopped.
    pub(in super::super) fn set(&self) {
        change(KEY);
    }
}

impl Drop for BackgroundKey {
    fn drop(&mut self) {
        // Whatever else changed meanwhile stays.
        if key() == Some(KEY) {
            change(self.usual);
        }
    }
}

fn key() -> Option<u8> {
    let modes = tcgetattr(rustix::stdio::stdin()).ok()?;
    Some(modes.special_codes[SpecialCodeIndex::VQUIT])
}

fn change(key: u8) {
    let stdin = rustix::stdio::stdin();
    // In the background this would stop the process (termios(3)).
    if tcgetpgrp(stdin).is_ok_and(|group| group == getpgrp())
        && let Ok(mut modes) = tcgetattr(stdin)
    {
        modes.special_codes[SpecialCodeIndex::VQUIT] = key;
        let _ = tcsetattr(stdin, OptionalActions::Now, &modes); // a terminal that is gone has no keys
    }
}
