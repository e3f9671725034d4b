//! What signals to this process mean for the command that it waits for, and for the waiting itself.

use std::time::{Duration, Instant};

use super::streams::Keys;
use crate::protocol::types::Control;
use stockade_client::{LONGEST_END, SAME_ORDER};

pub(super) const SIGHUP: i32 = 1;
pub(super) const SIGINT: i32 = 2;
pub(super) const SIGTERM: i32 = 15;
pub(super) const SIGWINCH: i32 = 28;
pub(super) const SIGXFSZ: i32 = 25;

/// Signals that say that nobody wants to wait any more. Where nothing is waited for they end this process again.
pub(super) const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// How often Ctrl-C is handed on before it ends the command.
const PATIENCE: u32 = 3;
/// Returns the signals that are heard while a command runs that has the `keys` of this terminal, or has not. Where it has
/// them, no signal that can be caught ends this process before the terminal is given back.
pub(super) fn heard(keys: Option<&Keys>) -> Vec<i32> {
    let mut heard = vec![SIGINT, SIGTERM, SIGHUP, SIGXFSZ, SIGWINCH];
    let others = keys.map(|_| stockade_sandbox::ending_signals()).unwrap_or_default();
    heard.extend(others.into_iter().filter(|it| !ENDING.contains(it) && *it != SIGXFSZ));
    heard
}

/// What is done at a signal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// Something to the command.
    Control(Control),
    /// Nothing is waited for any more.
    Leave,
}

/// What was meant so far.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    /// How often Ctrl-C came.
    count: u32,
    /// When the command was told to end.
    told: Option<Instant>,
}

impl Interrupts {
    /// Returns what a signal means; none when it means nothing.
    pub(super) fn meant(&mut self, signal: i32) -> Option<Meant> {
        match signal {
            SIGINT => {
                self.count = self.count.saturating_add(1);
                Some(match self.count >= PATIENCE {
                    true => self.end(),
                    false => Meant::Control(Control::Signal(SIGINT)),
                })
            }
            SIGWINCH | SIGXFSZ => None,
            // The others that are heard would end this process.
            _ => Some(self.end()),
        }
    }

    /// Returns how long is still waited; none for ever.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.told.map(|told| LONGEST_END.saturating_sub(told.elapsed()))
    }

    /// Says whether it was waited long enough.
    pub(super) fn is_over(&self) -> bool {
        self.patience() == Some(Duration::ZERO)
    }

    fn end(&mut self) -> Meant {
        match self.told {
            Some(told) if told.elapsed() >= SAME_ORDER => Meant::Leave,
            Some(_) => Meant::Control(Control::Stop),
            None => {
                self.told = Some(Instant::now());
                Meant::Control(Control::Stop)
            }
        }
    }
}

/// Waits for so long, or for ever.
pub(super) async fn waited(patience: Option<Duration>) {
    match patience {
        Some(rest) => tokio::time::sleep(rest).await,
        None => std::future::pending().await,
    }
}
