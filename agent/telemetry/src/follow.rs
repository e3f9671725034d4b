//! The loop: records in, requests out, and the position behind what a collector has accepted.

use std::path::Path;
use std::time::Duration;

use stockade_wire::errors::{Code, Failure};
use stockade_wire::subscriptions::{SubscribeRequest, Told};
use tokio::time::{Instant, sleep, sleep_until};

use crate::calls::Calls;
use crate::deliver::{Batch, Outbox, Turn, now, say};
use crate::logs::Log;
use crate::position::{Position, Store};
use crate::read::Feed;
use crate::record::{Include, Record};
use crate::relay::News;
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

/// A process that sends telemetry.
#[derive(Debug)]
pub(crate) struct Follow {
    outbox: Outbox,
    include: Vec<Include>,
    /// There was a position before.
    is_known: bool,
    /// When metrics are sent next.
    metrics_due: Instant,
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
        Ok(Follow {
            metrics_due: Instant::now() + settings.metrics,
            outbox: Outbox::new(settings, store, found.unwrap_or_default())?,
            include,
            is_known,
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
            Start::Position if self.is_known || once => from(self.outbox.position.next),
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
            let turn = if away { self.outbox.wait_for_collector(once).await? } else { turn };
            match turn {
                Turn::Again | Turn::Away => request = from(self.outbox.position.next),
                Turn::Done => break,
                Turn::Signal => {
                    // The next start sends again what is pending or was refused for now.
                    if self.outbox.pending.is_none() {
                        self.outbox.deliver().await?;
                    }
                    break;
                }
            }
        }
        self.outbox.send_metrics().await;
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
            let due = self.outbox.batch.since.map(|since| since + self.outbox.settings.together);
            let [terminate, interrupt] = &mut self.outbox.ends;
            let turn = tokio::select! {
                () = sleep_until(self.metrics_due) => {
                    self.outbox.send_metrics().await;
                    self.metrics_due = Instant::now() + self.outbox.settings.metrics;
                    None
                }
                () = until(due) => self.outbox.deliver().await?,
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
            None => self.outbox.position.next = next,
            Some(from) => self.outbox.position.next = from,
        }
        self.outbox.store.keep(&self.outbox.position)
    }

    async fn told(&mut self, told: Told, follows: bool) -> anyhow::Result<Option<Turn>> {
        match told {
            Told::Record(record) => {
                let record = Record(&record);
                let chain = record.text(&["chain"]);
                if let Some(known) =
                    self.outbox.position.chain.as_deref().filter(|it| chain != Some(it))
                {
                    tracing::warn!(known, "another log");
                    self.other_log();
                    return Ok(Some(Turn::Again));
                }
                self.outbox.position.chain = chain.map(str::to_owned);
                self.take(record);
                match self.outbox.batch.logs.len() + self.outbox.batch.spans.len() >= MOST {
                    true => self.outbox.deliver().await,
                    false => Ok(None),
                }
            }
            // The gateway tells again records that were left out, as fast as they are read.
            Told::Gap { first, last, count } => {
                tracing::info!(first, last, count, "read too slowly; reading again");
                Ok(self.outbox.deliver().await?.or(Some(Turn::Again)))
            }
            Told::CaughtUp {} => Ok(None),
            Told::Ended { error: None } => Ok(self.outbox.deliver().await?.or(Some(Turn::Done))),
            Told::Ended { error: Some(failure) } => {
                self.gone(Some(failure), follows).await.map(Some)
            }
        }
    }

    fn take(&mut self, record: Record<'_>) {
        let seq = record.seq();
        let (spans, step) = self.outbox.calls.take(record, &self.include);
        let batch = &mut self.outbox.batch;
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
        let next = self.outbox.position.next;
        let reason = "the log is another one";
        say(&format!(
            "{reason}: what was not sent of the one before is missing (from seq {next} on)"
        ));
        self.outbox.position = Position::default();
        self.outbox.calls = Calls::default();
        self.outbox.batch = Batch { since: Some(Instant::now()), ..Batch::default() };
        self.outbox.batch.logs.push(Log::missing(now(), reason, next));
        self.outbox.batch.metrics.lost(reason, 1);
    }

    /// Sends what is there, and looks for a gateway again after a while.
    async fn gone(&mut self, failure: Option<Failure>, follows: bool) -> anyhow::Result<Turn> {
        if failure.as_ref().is_some_and(is_other_log) {
            self.other_log();
            return Ok(Turn::Again);
        }
        if let Some(turn) = self.outbox.deliver().await? {
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
        let [terminate, interrupt] = &mut self.outbox.ends;
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
