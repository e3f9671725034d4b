//! The loop: records in, requests out, and the position behind what a collector has accepted.

use std::path::Path;
use std::time::{Duration, SystemTime};

use stockade_wire::errors::{Code, Failure};
use stockade_wire::subscriptions::{SubscribeRequest, Told};
use tokio::signal::unix::{Signal as Listening, SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until};

use crate::calls::{Calls, Span};
use crate::deliver::Pending;
use crate::logs::Log;
use crate::metrics::Metrics;
use crate::position::{Position, Store};
use crate::read::Feed;
use crate::record::{Include, Record};
use crate::relay::News;
use crate::send::Sender;
use crate::settings::Settings;

/// Most items of one request.
const MOST: usize = 512;
/// How long a gateway that does not run is left alone.
const LOOK: Duration = Duration::from_secs(2);

/// Where it begins.
#[derive(Debug)]
pub(crate) enum Start {
    Position,
    Record(u64),
    Time(String),
}

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

/// A process that sends telemetry.
#[derive(Debug)]
pub(crate) struct Follow {
    pub(crate) settings: Settings,
    include: Vec<Include>,
    pub(crate) sender: Sender,
    pub(crate) store: Store,
    pub(crate) position: Position,
    /// There was a position before.
    is_known: bool,
    pub(crate) calls: Calls,
    pub(crate) metrics: Metrics,
    /// Metrics that were not sent yet.
    pub(crate) has_news: bool,
    /// When metrics are sent next.
    metrics_due: Instant,
    /// When counting began.
    pub(crate) began: u64,
    pub(crate) batch: Batch,
    pub(crate) pending: Option<Pending>,
    pub(crate) ends: [Listening; 2],
    /// Last refusal of the gateway.
    said: String,
}

impl Follow {
    pub(crate) fn new(
        settings: Settings,
        position: &Path,
        include: Vec<Include>,
    ) -> anyhow::Result<Follow> {
        let (store, found) = Store::open(position)?;
        let is_known = found.is_some();
        let position = found.unwrap_or_default();
        Ok(Follow {
            sender: Sender::new(&settings)?,
            calls: Calls { open: position.open.clone(), sessions: position.sessions.clone() },
            metrics_due: Instant::now() + settings.metrics,
            settings,
            include,
            store,
            position,
            is_known,
            metrics: Metrics::default(),
            has_news: false,
            began: now(),
            batch: Batch::default(),
            pending: None,
            ends: [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?],
            said: String::new(),
        })
    }

    /// Runs until a signal, or with `once` until all is sent.
    pub(crate) async fn run(
        mut self,
        mut feed: Feed,
        start: Start,
        once: bool,
    ) -> anyhow::Result<()> {
        let mut request = match start {
            Start::Position if self.is_known || once => from(self.position.next),
            Start::Position => SubscribeRequest::default(),
            Start::Record(seq) => from(seq),
            Start::Time(time) => SubscribeRequest { since: Some(time), ..Default::default() },
        };
        loop {
            request.follow = !once;
            feed.want(Some(request.clone()))?;
            let turn = self.subscription(&mut feed, &request).await?;
            feed.want(None)?;
            let away = turn == Turn::Away;
            let turn = if away { self.wait_for_collector(once).await? } else { turn };
            match turn {
                Turn::Again | Turn::Away => request = from(self.position.next),
                Turn::Done => break,
                Turn::Signal => {
                    // The next start sends again what is pending or was refused for now.
                    if self.pending.is_none() {
                        self.deliver().await?;
                    }
                    break;
                }
            }
        }
        self.send_metrics().await;
        Ok(())
    }

    /// Reads one subscription to its end.
    async fn subscription(
        &mut self,
        feed: &mut Feed,
        request: &SubscribeRequest,
    ) -> anyhow::Result<Turn> {
        // The gateway tells again records that were read before and not sent.
        loop {
            let due = self.batch.since.map(|since| since + self.settings.together);
            let [terminate, interrupt] = &mut self.ends;
            let turn = tokio::select! {
                () = sleep_until(self.metrics_due) => {
                    self.send_metrics().await;
                    self.metrics_due = Instant::now() + self.settings.metrics;
                    None
                }
                () = until(due) => self.deliver().await?,
                _ = terminate.recv() => Some(Turn::Signal),
                _ = interrupt.recv() => Some(Turn::Signal),
                told = feed.next() => match told {
                    Some(News::Told(told)) => self.told(told, request.follow).await?,
                    Some(News::Begins(next)) => {
                        self.begins(request, next)?;
                        None
                    }
                    Some(News::Gone(failure)) => Some(self.gone(Some(failure), request.follow).await?),
                    Some(News::Nobody) => Some(self.gone(None, request.follow).await?),
                    None => anyhow::bail!("the process that reads records is gone"),
                },
            };
            if let Some(turn) = turn {
                return Ok(turn);
            }
        }
    }

    /// Keeps where a subscription begins that named no number, so that a later process goes on there.
    fn begins(&mut self, request: &SubscribeRequest, next: u64) -> anyhow::Result<()> {
        tracing::debug!(next, "subscribed");
        match request.from {
            None => self.position.next = next,
            Some(from) => self.position.next = from,
        }
        self.store.keep(&self.position)
    }

    async fn told(&mut self, told: Told, follows: bool) -> anyhow::Result<Option<Turn>> {
        match told {
            Told::Record(record) => {
                let record = Record(&record);
                let chain = record.text(&["chain"]);
                if let Some(known) = self.position.chain.as_deref().filter(|it| chain != Some(it)) {
                    tracing::warn!(known, "another log");
                    self.other_log();
                    return Ok(Some(Turn::Again));
                }
                self.position.chain = chain.map(str::to_owned);
                self.take(record);
                match self.batch.logs.len() + self.batch.spans.len() >= MOST {
                    true => self.deliver().await,
                    false => Ok(None),
                }
            }
            // The gateway tells again records that were left out, as fast as they are read.
            Told::Gap { first, last, count } => {
                tracing::info!(first, last, count, "read too slowly; reading again");
                Ok(self.deliver().await?.or(Some(Turn::Again)))
            }
            Told::CaughtUp {} => Ok(None),
            Told::Ended { error: None } => Ok(self.deliver().await?.or(Some(Turn::Done))),
            Told::Ended { error: Some(failure) } => {
                self.gone(Some(failure), follows).await.map(Some)
            }
        }
    }

    fn take(&mut self, record: Record<'_>) {
        let seq = record.seq();
        let (spans, step) = self.calls.take(record, &self.include);
        let batch = &mut self.batch;
        if batch.records == 0 {
            batch.first = seq;
        }
        batch.since.get_or_insert_with(Instant::now);
        batch.spans.extend(spans);
        if let Some(source) = step.completed {
            batch.logs.push(Log::completed(record, source, step.belongs.clone()));
            batch.metrics.completed(source);
        }
        batch.logs.extend(Log::of(record, &self.include, step.belongs));
        batch.records += 1;
        batch.last = seq;
        batch.metrics.take(record);
        batch.metrics.turn(step.turn);
    }

    /// Forgets a log that is not there any more, and names what is not sent of it.
    fn other_log(&mut self) {
        let next = self.position.next;
        let reason = "the log is another one";
        say(&format!(
            "{reason}: what was not sent of the one before is missing (from seq {next} on)"
        ));
        self.position = Position::default();
        self.calls = Calls::default();
        self.batch = Batch { since: Some(Instant::now()), ..Batch::default() };
        self.batch.logs.push(Log::missing(now(), reason, next));
        self.batch.metrics.lost(reason, 1);
    }

    /// Sends what is there, and looks for a gateway again after a while.
    async fn gone(&mut self, failure: Option<Failure>, follows: bool) -> anyhow::Result<Turn> {
        if failure.as_ref().is_some_and(is_other_log) {
            self.other_log();
            return Ok(Turn::Again);
        }
        if let Some(turn) = self.deliver().await? {
            return Ok(turn);
        }
        let why = match &failure {
            Some(failure) => failure.message.as_str(),
            None => "none of your gateways is running",
        };
        anyhow::ensure!(follows, "{why}");
        // A gateway that is away is not worth a message; one that refuses is, once.
        let refuses = failure.as_ref().is_some_and(|it| it.code != Code::GatewayUnreachable);
        if refuses && self.said != why {
            say(why);
            why.clone_into(&mut self.said);
        }
        tracing::info!(why, "no gateway");
        let [terminate, interrupt] = &mut self.ends;
        tokio::select! {
            () = sleep(LOOK) => Ok(Turn::Again),
            _ = terminate.recv() => Ok(Turn::Signal),
            _ = interrupt.recv() => Ok(Turn::Signal),
        }
    }
}

fn from(seq: u64) -> SubscribeRequest {
    SubscribeRequest { from: Some(seq), ..Default::default() }
}

/// Says whether the gateway does not have the number, since its log is another one.
fn is_other_log(failure: &Failure) -> bool {
    failure.message.starts_with("there is no record ")
}

/// Waits until a time; without one, for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
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
