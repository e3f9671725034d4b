//! Meaning of signals to this process for the command that it waits for, and for the waiting itself.

use std::time::{Duration, Instant};

use super::streams::{BackgroundKey, Keys};
use crate::protocol::types::Control;
use stockade_client::{LONGEST_END, SAME_ORDER};

pub(super) const SIGHUP: i32 = 1;
pub(super) const SIGINT: i32 = 2;
/// The key of a terminal that moves a command to the background is this signal.
const SIGQUIT: i32 = 3;
pub(super) const SIGTERM: i32 = 15;
pub(super) const SIGCONT: i32 = 18;
pub(super) const SIGWINCH: i32 = 28;
pub(super) const SIGXFSZ: i32 = 25;

/// Signals that say that nobody wants to wait any more. Where nothing is waited for they end this process again.
pub(super) const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// How often Ctrl-C is handed on before it ends the command.
const PATIENCE: u32 = 3;
/// Returns the signals that are heard while a command runs that has the `keys` of this terminal, or has not. Where it has
/// them, no signal that can be caught ends this process before the terminal is given back.
pub(super) fn heard(keys: Option<&Keys>, background: Option<&BackgroundKey>) -> Vec<i32> {
    let mut heard = vec![SIGINT, SIGTERM, SIGHUP, SIGWINCH];
    if background.is_some() {
        heard.extend([SIGQUIT, SIGCONT]);
    }
    let others = keys.map(|_| stockade_kernel::ending_signals()).unwrap_or_default();
    let others: Vec<i32> = others.into_iter().filter(|it| !heard.contains(it)).collect();
    heard.extend(others);
    heard
}

/// Action at a signal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// Something to the command.
    Control(Control),
    /// Nothing is waited for any more.
    Leave,
}

/// State of the interrupts so far.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    /// How often Ctrl-C came.
    count: u32,
    /// When the command was told to end.
    told: Option<Instant>,
    /// The key that moves the command to the background.
    background: Option<BackgroundKey>,
}

impl Interrupts {
    /// Begins to count, with the key that the terminal has for the background.
    pub(super) fn new(background: Option<BackgroundKey>) -> Interrupts {
        Interrupts { background, ..Interrupts::default() }
    }

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
            SIGCONT => {
                // Whoever stopped this process may have given the terminal its usual key.
                self.background.iter().for_each(BackgroundKey::set);
                None
            }
            SIGQUIT if self.background.is_some() => Some(Meant::Control(Control::Background)),
            // The others that are heard would end this process.
            _ => Some(self.end()),
        }
    }

    /// Returns how long is still waited; none for ever.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.told.map(|told| LONGEST_END.saturating_sub(told.elapsed()))
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
