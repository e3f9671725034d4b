//! Reads what the process beside this one hands on, in a thread: what is not wanted any more is read all the same and left out.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stockade_wire::subscriptions::SubscribeRequest;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::relay::{News, Wanted};

/// Most messages that wait here.
const WAITING: usize = 256;
/// How long a full queue is left alone.
const PAUSE: Duration = Duration::from_millis(5);

/// The way to records.
#[derive(Debug)]
pub(crate) struct Feed {
    stream: UnixStream,
    /// Number of the request whose messages are wanted.
    current: Arc<AtomicU64>,
    news: Receiver<(u64, News)>,
}

impl Feed {
    pub(crate) fn new(stream: UnixStream) -> anyhow::Result<Feed> {
        let (sender, news) = channel(WAITING);
        let current = Arc::new(AtomicU64::new(0));
        let (reading, number) = (stream.try_clone()?, Arc::clone(&current));
        let thread = std::thread::Builder::new().name("records".to_owned());
        thread.spawn(move || read(reading, &number, &sender))?;
        Ok(Feed { stream, current, news })
    }

    /// Asks for records; without a request for none.
    pub(crate) fn want(&mut self, request: Option<SubscribeRequest>) -> anyhow::Result<()> {
        let number = self.current.fetch_add(1, Ordering::AcqRel) + 1;
        let line = serde_json::to_string(&Wanted { number, request })?;
        Ok(writeln!(self.stream, "{line}")?)
    }

    /// Returns the next message about the last request; none where nobody hands on any more. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<News> {
        loop {
            let (number, news) = self.news.recv().await?;
            if number == self.current.load(Ordering::Acquire) {
                return Some(news);
            }
        }
    }
}

fn read(stream: UnixStream, current: &AtomicU64, sender: &Sender<(u64, News)>) {
    for line in BufReader::new(stream).split(b'\n') {
        let message = line.ok().and_then(|line| serde_json::from_slice(&line).ok());
        let Some(mut message): Option<(u64, News)> = message else { return };
        loop {
            if message.0 != current.load(Ordering::Acquire) {
                break;
            }
            match sender.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Full(again)) => message = again,
                Err(TrySendError::Closed(_)) => return,
            }
            std::thread::sleep(PAUSE);
        }
    }
}
