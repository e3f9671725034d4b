//! Text to [`CommandTree`]: the parser, and the scan worker as its witness.
//!
//! May start `stockade scan` or take a process that was forked for it; reads no files.
//!
//! Total: whatever happens to the worker, there is a tree, and what the worker did not confirm is opaque.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]

mod plain;
pub mod scan;
mod worker;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use stockade_parser::{Absence, CommandTree, Draft, Limits, Programs, StartState, Witness};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use plain::is_plain;
use stockade_kernel::ForkedWorker;
use worker::Desk;
pub use worker::Start;

/// Requests that may wait for the worker; the next one waits with its caller.
const WAITING_REQUESTS: usize = 64;

/// Gives the scan worker that was forked when this process began, once.
#[derive(Clone)]
pub struct Prefork(pub Arc<dyn Fn() -> Option<ForkedWorker> + Send + Sync>);

impl std::fmt::Debug for Prefork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Prefork")
    }
}

/// Reads texts as trees, with one warm worker behind it.
pub struct Scanner {
    start: Start,
    desk: OnceLock<(mpsc::Sender<Request>, JoinHandle<()>)>,
}

/// Request to the task that owns the worker.
enum Request {
    /// Start the worker now, so that the first text need not wait for it.
    Warm,
    /// Let the worker end: nothing more is to be read.
    Rest,
    /// Have these texts read, in order.
    Read { texts: Vec<Vec<u8>>, reply: oneshot::Sender<Vec<Witness>> },
}

impl Scanner {
    /// Makes a scanner whose worker was forked before, and after its end or without it `executable`, started as
    /// `stockade scan` at the first need.
    pub fn new(executable: PathBuf, prefork: Prefork) -> Scanner {
        Scanner::with(Start::Executable(executable, prefork))
    }

    fn with(start: Start) -> Scanner {
        Scanner { start, desk: OnceLock::new() }
    }

    /// Starts the worker without waiting for it. Needs a runtime.
    pub fn warm(&self) {
        // A full queue means that the worker is in use, hence started.
        let _ = self.desk().try_send(Request::Warm);
    }

    /// Lets the worker end while other things are done. A text that comes all the same starts another.
    pub fn rest(&self) {
        if let Some((desk, _)) = self.desk.get() {
            // Under a full queue it is still needed.
            let _ = desk.try_send(Request::Rest);
        }
    }

    /// Reads `source` as bash started in state `start` would.
    pub async fn parse(&self, source: &[u8], start: &StartState, limits: &Limits) -> CommandTree {
        let draft = stockade_parser::parse(source, start, Programs::builtin(), limits);
        let texts = draft.requests().map(<[u8]>::to_vec).collect();
        let witnesses = self.see(texts).await;
        draft.confirm(&witnesses)
    }

    /// Confirms each of `drafts`, with one trip to the worker for all of them.
    pub async fn confirm_all(&self, drafts: Vec<Draft>) -> Vec<CommandTree> {
        let counts: Vec<usize> = drafts.iter().map(|draft| draft.requests().count()).collect();
        let texts = drafts.iter().flat_map(Draft::requests).map(<[u8]>::to_vec).collect();
        let mut witnesses = self.see(texts).await.into_iter();
        let mut confirm = |(draft, count): (Draft, usize)| {
            let answers: Vec<Witness> = witnesses.by_ref().take(count).collect();
            draft.confirm(&answers)
        };
        drafts.into_iter().zip(counts).map(&mut confirm).collect()
    }

    /// Returns what a second reader saw in each text: the worker in those that are more than plain words.
    async fn see(&self, texts: Vec<Vec<u8>>) -> Vec<Witness> {
        let seen: Vec<Option<Witness>> = texts.iter().map(|text| plain::witness(text)).collect();
        let others = texts.into_iter().zip(&seen).filter(|(_, seen)| seen.is_none());
        let mut others = self.read(others.map(|(text, _)| text).collect()).await.into_iter();
        let mut next = || others.next().unwrap_or(Witness::Absent(Absence::Dead));
        seen.into_iter().map(|seen| seen.unwrap_or_else(&mut next)).collect()
    }

    /// Returns what the worker saw in each text; [`Witness::Absent`] for each if there is no worker.
    async fn read(&self, texts: Vec<Vec<u8>>) -> Vec<Witness> {
        if texts.is_empty() {
            return Vec::new();
        }
        let absent = vec![Witness::Absent(Absence::Dead); texts.len()];
        let (reply, answer) = oneshot::channel();
        if self.desk().send(Request::Read { texts, reply }).await.is_err() {
            return absent;
        }
        answer.await.unwrap_or(absent)
    }

    fn desk(&self) -> &mpsc::Sender<Request> {
        let (sender, _) = self.desk.get_or_init(|| {
            let (sender, requests) = mpsc::channel(WAITING_REQUESTS);
            (sender, tokio::spawn(serve(Desk::new(self.start.clone()), requests)))
        });
        sender
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        if let Some((_, task)) = self.desk.get() {
            // The task owns the worker; the worker dies with it.
            task.abort();
        }
    }
}

/// Owns the worker: takes one request after the other.
async fn serve(mut desk: Desk, mut requests: mpsc::Receiver<Request>) {
    while let Some(request) = requests.recv().await {
        match request {
            Request::Warm => desk.warm(),
            Request::Rest => desk.rest(),
            Request::Read { texts, reply } => {
                let answers = desk.read(texts).await;
                // The caller may have gone away; the answer is of no use to anyone else.
                let _ = reply.send(answers);
            }
        }
    }
}

#[cfg(test)]
mod tests;
