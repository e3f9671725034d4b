//! Sends what was taken, in the order of the log, and moves the position behind what a collector accepted.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{Signal as Listening, SignalKind, signal};
use tokio::time::{Instant, sleep};

use crate::calls::Calls;
use crate::export;
use crate::logs::Log;
use crate::metrics::Metrics;
use crate::position::{Position, Store};
use crate::send::{Sender, Sent};
use crate::settings::{Settings, Signal};
use crate::span::Span;

/// The first and the longest time before another try.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How often a request is tried when this process is about to end.
const LAST_TRIES: u32 = 3;

/// Records that wait for others of the same request.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) spans: Vec<Span>,
    pub(crate) logs: Vec<Log>,
    pub(crate) records: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) metrics: Metrics,
    /// When the first one came.
    pub(crate) since: Option<Instant>,
}

/// Reason for the end of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Subscribe again.
    Again,
    /// The collector is away.
    Away,
    /// All was told.
    Done,
    /// A signal came.
    Signal,
}

/// Requests about some records, the rest of which no collector has accepted.
#[derive(Debug)]
pub(crate) struct Pending {
    requests: VecDeque<(Signal, Vec<u8>)>,
    records: u64,
    first: u64,
    last: u64,
    metrics: Metrics,
    /// The time that the collector asked for, if it did.
    wait: Option<Duration>,
    tries: u32,
}

/// The way of what was taken to a collector.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) settings: Settings,
    sender: Sender,
    pub(crate) store: Store,
    pub(crate) position: Position,
    pub(crate) calls: Calls,
    metrics: Metrics,
    /// Metrics that were not sent yet.
    has_news: bool,
    /// When counting began.
    began: u64,
    pub(crate) batch: Batch,
    pub(crate) pending: Option<Pending>,
    pub(crate) ends: [Listening; 2],
}

impl Outbox {
    pub(crate) fn new(
        settings: Settings,
        store: Store,
        position: Position,
    ) -> anyhow::Result<Outbox> {
        Ok(Outbox {
            sender: Sender::new(&settings)?,
            calls: Calls { open: position.open.clone(), sessions: position.sessions.clone() },
            settings,
            store,
            position,
            metrics: Metrics::default(),
            has_news: false,
            began: now(),
            batch: Batch::default(),
            pending: None,
            ends: [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?],
        })
    }

    /// Sends what is there. Of a collector that is away the turn says so: it is waited for without a connection to the gateway.
    pub(crate) async fn deliver(&mut self) -> anyhow::Result<Option<Turn>> {
        let batch = std::mem::take(&mut self.batch);
        if batch.since.is_none() {
            return Ok(None);
        }
        let Batch { spans, logs, records, first, last, metrics, .. } = batch;
        let resource = &self.settings.resource;
        let mut requests = VecDeque::new();
        if !spans.is_empty() {
            requests.push_back((Signal::Traces, export::spans(resource, &spans)));
        }
        if !logs.is_empty() {
            requests.push_back((Signal::Logs, export::logs(resource, &logs, now())));
        }
        let pending = Pending { requests, records, first, last, metrics, wait: None, tries: 0 };
        self.pending = Some(pending);
        Ok((!self.advance().await?).then_some(Turn::Away))
    }

    /// Tries what is pending, once. Says whether nothing is left of it.
    async fn advance(&mut self) -> anyhow::Result<bool> {
        let Some(mut pending) = self.pending.take() else { return Ok(true) };
        while let Some((signal, body)) = pending.requests.front() {
            let signal = *signal;
            match self.sender.send(signal, body.clone()).await {
                Sent::Accepted(None) => {}
                Sent::Accepted(Some((count, why))) => {
                    let name = signal.name();
                    say(&format!("the collector rejected {count} items of {name}: {why}"));
                    pending.metrics.lost("rejected by the collector", count);
                }
                Sent::Refused(why) => {
                    let Pending { first, last, records, .. } = pending;
                    say(&format!(
                        "{why}: {} of {records} records are not sent (seq {first} to {last})",
                        signal.name()
                    ));
                    pending.metrics.lost("refused by the collector", records);
                }
                Sent::Later(why, wait) => {
                    if pending.tries == 0 {
                        say(&format!("{why}; trying again"));
                    }
                    (pending.wait, pending.tries) = (wait, pending.tries + 1);
                    tracing::info!(tries = pending.tries, %why, "the collector is away");
                    self.pending = Some(pending);
                    return Ok(false);
                }
            }
            pending.requests.pop_front();
        }
        if pending.tries > 0 {
            say("the collector is there again");
        }
        // Counted only now: a record that is told again is not counted twice.
        self.metrics.add_all(&pending.metrics);
        self.has_news = true;
        if pending.records > 0 {
            self.position.next = pending.last + 1;
            self.position.open.clone_from(&self.calls.open);
            self.position.sessions.clone_from(&self.calls.sessions);
            self.store.keep(&self.position)?;
        }
        tracing::debug!(records = pending.records, next = self.position.next, "accepted");
        Ok(true)
    }

    /// Waits for a collector that is away, and sends what is pending; before an end only for a short time.
    pub(crate) async fn wait_for_collector(&mut self, is_last: bool) -> anyhow::Result<Turn> {
        let mut wait = FIRST_WAIT;
        while let Some(pending) = &self.pending {
            anyhow::ensure!(
                !is_last || pending.tries < LAST_TRIES,
                "the collector is away; records from seq {} on are sent next time",
                self.position.next
            );
            let pause = pending.wait.unwrap_or(wait);
            let [terminate, interrupt] = &mut self.ends;
            tokio::select! {
                () = sleep(pause) => wait = (wait * 2).min(LONGEST_WAIT),
                _ = terminate.recv() => return Ok(Turn::Signal),
                _ = interrupt.recv() => return Ok(Turn::Signal),
            }
            self.advance().await?;
        }
        Ok(Turn::Again)
    }

    /// Sends metrics once; if that fails, the next ones have all that these had.
    pub(crate) async fn send_metrics(&mut self) {
        if !self.has_news || !self.sender.sends(Signal::Metrics) {
            return;
        }
        let body = export::metrics(&self.settings.resource, &self.metrics, self.began, now());
        match self.sender.send(Signal::Metrics, body).await {
            Sent::Accepted(None) => self.has_news = false,
            Sent::Accepted(Some((count, why))) => {
                say(&format!("the collector rejected {count} items of metrics: {why}"));
            }
            Sent::Refused(why) | Sent::Later(why, _) => {
                say(&format!("{why}; metrics are sent later"));
            }
        }
    }
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Tells on standard error.
pub(crate) fn say(text: &str) {
    eprintln!("stockade: {text}");
}
