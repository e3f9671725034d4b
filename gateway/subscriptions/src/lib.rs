//! Subscriptions: who may read is told of records that are in the log, and of those that come.
//!
//! The log is the only source, so nothing is told that is not on disk, and no decision waits for a subscriber.
//!
//! Reads the log and writes nothing.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use stockade_log::Log;
use stockade_log::apart::reading::Reading;
use stockade_log::query::along::Start;
use stockade_log::query::filter::when;
use stockade_wire::errors::{Code, Failure, broken};
use stockade_wire::subscriptions::{KINDS, SubscribeAnswer, SubscribeRequest, Told};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most subscriptions of a gateway at once.
const MOST: usize = 16;
/// Records that a subscriber may be behind those that come; of more the oldest are left out.
const BEHIND: usize = 1000;
/// The same in bytes.
const BEHIND_BYTES: usize = 8 << 20;
/// How often it is looked for new records.
const LOOK: Duration = Duration::from_millis(200);

/// The places for subscriptions.
#[derive(Debug)]
pub struct Subscribers(Arc<Semaphore>);

impl Default for Subscribers {
    fn default() -> Subscribers {
        Subscribers(Arc::new(Semaphore::new(MOST)))
    }
}

/// One subscription.
#[derive(Debug)]
pub struct Subscription {
    /// None while a step is under way, or after one that failed.
    reading: Option<Reading>,
    kinds: Vec<String>,
    follow: bool,
    /// All that was written before was told.
    is_live: bool,
    is_over: bool,
    _place: OwnedSemaphorePermit,
}

/// Records that wait for a subscriber, the newest of them.
#[derive(Debug, Default)]
struct Held {
    records: VecDeque<(u64, String)>,
    bytes: usize,
    /// First, last and count of those that are left out.
    left_out: Option<(u64, u64, u64)>,
}

impl Held {
    fn push(&mut self, sequence: u64, line: String, is_bounded: bool) {
        self.bytes += line.len();
        self.records.push_back((sequence, line));
        let is_over = |it: &Held| it.records.len() > BEHIND || it.bytes > BEHIND_BYTES;
        while is_bounded && is_over(self) {
            let Some((sequence, line)) = self.records.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(line.len());
            let (first, _, count) = self.left_out.unwrap_or((sequence, sequence, 0));
            self.left_out = Some((first, sequence, count + 1));
        }
    }

    fn told(self) -> Result<Vec<Told>, Failure> {
        let gap = self.left_out.map(|(first, last, count)| Told::Gap { first, last, count });
        let records = self.records.into_iter().map(|(_, line)| {
            let record = serde_json::from_str(&line);
            record.map(Told::Record).map_err(|_| broken("a record cannot be read"))
        });
        gap.into_iter().map(Ok).chain(records).collect()
    }
}

impl Subscription {
    /// Returns what is to be told next, as soon as there is something; empty at the end. Who takes long to ask again
    /// misses records, and is told which.
    pub async fn next(&mut self) -> Vec<Told> {
        if self.is_over {
            return Vec::new();
        }
        match self.told().await {
            Ok(told) => told,
            Err(failure) => {
                self.is_over = true;
                vec![Told::Ended { error: Some(failure) }]
            }
        }
    }

    async fn told(&mut self) -> Result<Vec<Told>, Failure> {
        loop {
            let (mut held, is_end) = self.read().await?;
            let was_live = self.is_live;
            if is_end && !was_live {
                self.is_live = true;
                self.is_over = !self.follow;
                let end = if self.follow { Told::CaughtUp {} } else { Told::Ended { error: None } };
                let mut told = std::mem::take(&mut held).told()?;
                told.push(end);
                return Ok(told);
            }
            if held.records.is_empty() {
                if is_end {
                    tokio::time::sleep(LOOK).await;
                }
                continue;
            }
            return held.told();
        }
    }

    /// Reads a piece, or all that has come to one who is told of it as it comes.
    async fn read(&mut self) -> Result<(Held, bool), Failure> {
        let (kinds, is_live) = (self.kinds.clone(), self.is_live);
        let mut reading = self.reading.take().ok_or_else(|| broken("the log cannot be read"))?;
        let read = move || {
            let mut held = Held::default();
            loop {
                let piece = reading.next_piece().map_err(|error| unreadable(&error))?;
                for (sequence, kind, line) in piece.records {
                    if kinds.is_empty() || kinds.contains(&kind) {
                        held.push(sequence, line, is_live);
                    }
                }
                if piece.is_end || !is_live {
                    return Ok((reading, held, piece.is_end));
                }
            }
        };
        let (reading, held, is_end) = blocking(read).await?;
        self.reading = Some(reading);
        Ok((held, is_end))
    }
}

impl Subscribers {
    /// Begins a subscription to `log`. Its records are those that the gateway's user may read: all of a log of that user, and of
    /// the machine's log those that are about that user, as the recorder sees to.
    ///
    /// # Errors
    ///
    /// The request is invalid, too many subscriptions are open, or the log cannot be read.
    pub async fn begin(
        &self,
        log: Log,
        request: SubscribeRequest,
    ) -> Result<(SubscribeAnswer, Subscription), Failure> {
        let SubscribeRequest { from, since, kinds, follow } = request;
        let invalid = |message: String, help: &str| {
            Err(Failure::new(Code::InvalidRequest, message, help.to_owned()))
        };
        if let Some(kind) = kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            let message = format!("unknown kind of record `{}`", kind.escape_debug());
            return invalid(message, &format!("use one of {}", KINDS.join(", ")));
        }
        let start = match (from, since) {
            (None, None) => Start::Now,
            (Some(number), None) => Start::Record(number),
            (None, Some(time)) => match when(&time) {
                Some(time) => Start::Time(time),
                None => {
                    let message = format!("invalid time `{}`", time.escape_debug());
                    return invalid(message, "use RFC 3339, such as 2026-01-31T08:00:00Z");
                }
            },
            (Some(_), Some(_)) => {
                let message = "a subscription begins at a number or at a time".to_owned();
                return invalid(message, "remove one of them");
            }
        };
        let Ok(place) = Arc::clone(&self.0).try_acquire_owned() else {
            let message = format!("{MOST} subscriptions are open already");
            return invalid(message, "end one of them");
        };
        let begin = move || Reading::begin(&log, start).map_err(|error| unreadable(&error));
        let (reading, next) = blocking(begin).await?;
        if let Some(from) = from.filter(|from| *from > next) {
            // Another log: what this one calls so is yet to be written.
            let message = format!("there is no record {from}: the next one is {next}");
            return invalid(message, "begin at a time, or without `from`");
        }
        let subscription = Subscription {
            reading: Some(reading),
            kinds,
            follow,
            is_live: false,
            is_over: false,
            _place: place,
        };
        Ok((SubscribeAnswer { next }, subscription))
    }
}

/// Does work that waits for the file system where waiting holds nobody up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(broken("a step of the gateway failed")))
}

fn unreadable(error: &stockade_log::Error) -> Failure {
    let message = error.to_string();
    let message = message.strip_suffix("; nothing was run").unwrap_or(&message).to_owned();
    Failure::new(Code::AuditUnavailable, message, error.help())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_the_oldest_and_is_named() {
        let mut held = Held::default();
        for sequence in 0..BEHIND as u64 + 3 {
            held.push(sequence * 2, format!("{{\"seq\":{}}}", sequence * 2), true);
        }
        let told = held.told().unwrap();
        assert_eq!(told[0], Told::Gap { first: 0, last: 4, count: 3 });
        assert_eq!(told[1], Told::Record(serde_json::json!({ "seq": 6 })));
        assert_eq!(told.len(), BEHIND + 1);
        let mut large = Held::default();
        for sequence in 0..3 {
            large.push(sequence, format!("\"{}\"", "x".repeat(BEHIND_BYTES / 2)), true);
        }
        assert_eq!(large.left_out, Some((0, 1, 2)));
    }
}
