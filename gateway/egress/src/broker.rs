//! Decides about each connection of a run, asks a person where no rule speaks, and writes each down before it
//! is made.

mod asking;
mod writing;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use stockade_policy::{Host, HostRule, NetworkRules, Reach};
use stockade_spec::Listeners;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::messages::{Said, Told, Way};
use super::process::{self, Process};
use super::report::{Cause, Report};
pub use asking::Person;
pub use asking::Saving;
use asking::{Asking, Key, Settled};
use stockade_log::{Log, Receipt};
use stockade_wire::frames;

/// How long the proxy may take to read an answer.
const WRITE: Duration = Duration::from_secs(5);
/// How long the proxy may take to tell the ends of its connections when the run is over.
const FAREWELL: Duration = Duration::from_secs(1);

/// Broker that decides about the connections of one run.
pub struct Broker<'g> {
    /// The log.
    pub log: &'g Log,
    /// The decision that let the command run.
    pub decision: &'g Receipt,
    /// This executable, which is the proxy as well.
    pub executable: PathBuf,
    /// The rules.
    pub rules: NetworkRules,
    /// The person who can be asked.
    pub person: Option<Person>,
}

/// A connection that may be made.
struct Open {
    host: Host,
    port: u16,
    way: Way,
    grant: Permission,
    started: Instant,
    /// True if the connection is on record as made.
    made: bool,
    addresses: Vec<IpAddr>,
}

/// How a connection ended.
struct Ending {
    address: Option<IpAddr>,
    sent: u64,
    received: u64,
    refused: Option<String>,
    failed: Option<String>,
}

/// Reason that allows a connection.
#[derive(Clone)]
enum Permission {
    Rule(Box<HostRule>),
    Person,
}

/// The broker at work.
struct Session<'g> {
    broker: Broker<'g>,
    writer: OwnedWriteHalf,
    open: HashMap<u64, Open>,
    asking: Asking,
    repeated: HashMap<(String, Way, String), u64>,
    report: Report,
}

/// A connection as it is asked about.
struct Wish {
    id: u64,
    way: Way,
    key: Key,
}

impl Broker<'_> {
    /// Serves the listeners of a run until `ended`. The proxy starts with the first connection: a command
    /// without any pays nothing for it.
    pub async fn serve(self, listeners: Listeners, mut ended: oneshot::Receiver<()>) -> Report {
        let listeners = tokio::select! {
            _ = &mut ended => return Report::default(),
            listeners = first_connection(listeners) => listeners,
        };
        let executable = self.executable.clone();
        let start = move || process::start(&executable, listeners?);
        let started = tokio::task::spawn_blocking(start).await;
        let started = started.unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
        let connected = started.and_then(|(process, control)| {
            control.set_nonblocking(true)?;
            Ok((process, UnixStream::from_std(control)?))
        });
        let (process, control) = match connected {
            Ok(connected) => connected,
            // The listeners are gone with the attempt: nothing answers.
            Err(error) => {
                let broken = Some(format!("the proxy cannot be started: {error}"));
                return Report { broken, ..Report::default() };
            }
        };
        let (reader, writer) = control.into_split();
        let (said_in, said) = mpsc::channel(64);
        let mut beside = JoinSet::new();
        beside.spawn(read(reader, said_in));
        let session = Session {
            broker: self,
            writer,
            open: HashMap::new(),
            asking: Asking::default(),
            repeated: HashMap::new(),
            report: Report::default(),
        };
        session.run(said, ended, process).await
    }
}

/// Waits until a connection waits at one of the listeners.
async fn first_connection(listeners: Listeners) -> std::io::Result<Listeners> {
    let Listeners { http, socks } = listeners;
    // This end of a pipe is the one type that tells when any descriptor is readable and can be taken apart
    // again; nothing is read through it.
    let http = pipe::Receiver::from_owned_fd_unchecked(http)?;
    let socks = pipe::Receiver::from_owned_fd_unchecked(socks)?;
    tokio::select! {
        ready = http.readable() => ready?,
        ready = socks.readable() => ready?,
    }
    Ok(Listeners { http: http.into_blocking_fd()?, socks: socks.into_blocking_fd()? })
}

async fn read(reader: OwnedReadHalf, said: mpsc::Sender<Said>) {
    let mut input = BufReader::new(reader);
    // A line that is none ends it, and with it the proxy.
    while let Ok(Some(line)) = frames::next_line(&mut input).await {
        let Ok(message) = serde_json::from_slice(&line) else { return };
        if said.send(message).await.is_err() {
            return;
        }
    }
}

impl Session<'_> {
    async fn run(
        mut self,
        mut said: mpsc::Receiver<Said>,
        mut ended: oneshot::Receiver<()>,
        process: Process,
    ) -> Report {
        let mut ready = false;
        loop {
            tokio::select! {
                _ = &mut ended => break,
                message = said.recv() => match message {
                    Some(Said::Ready) => ready = true,
                    Some(message) if ready => self.said(message).await,
                    Some(_) | None => {
                        self.report.broken = Some("the proxy ended before the command".to_owned());
                        break;
                    }
                },
                answer = self.asking.answer() => self.answered(answer).await,
            }
        }
        // Its end of the socket tells the proxy to close what is open, and to say what was carried.
        let _ = self.writer.shutdown().await;
        let rest = async {
            while let Some(message) = said.recv().await {
                if matches!(message, Said::Ended { .. }) {
                    self.said(message).await;
                }
            }
        };
        let _ = tokio::time::timeout(FAREWELL, rest).await; // what is not told by then is not known
        // Ended here at the latest, on a thread that may wait.
        let _ = tokio::task::spawn_blocking(move || drop(process)).await;
        self.finish().await
    }

    async fn said(&mut self, message: Said) {
        match message {
            Said::Ready => {}
            Said::Ask { id, way, host, port } => match Host::parse(host.as_bytes()) {
                Ok(host) => self.ask(Wish { id, way, key: (host, port) }).await,
                Err(error) => self.tell_refused(id, &error.to_string()).await,
            },
            Said::Found { id, addresses } => self.found(id, addresses).await,
            Said::Ended { id, address, sent, received, refused, failed } => {
                let Some(open) = self.open.remove(&id) else { return };
                if let Some(reason) = &refused {
                    let cause = Cause::Traffic(reason.clone());
                    self.report.refuse(object(&open.host, open.port), cause);
                }
                if open.made {
                    if address.is_some() {
                        self.report.reached.insert(object(&open.host, open.port));
                    }
                    let ending = Ending { address, sent, received, refused, failed };
                    self.record_closed(id, &open, ending).await;
                }
            }
            Said::Malformed { way, reason } => {
                let object = format!("({} request without a usable host)", way.name());
                self.refuse(None, way, object, Cause::Traffic(reason)).await;
            }
        }
    }

    async fn ask(&mut self, wish: Wish) {
        let (host, port) = &wish.key;
        match self.broker.rules.decide(host, *port) {
            Reach::Allowed { rule, names_port } => {
                let grant = Permission::Rule(Box::new(rule.clone()));
                self.allow(wish, grant, names_port).await;
            }
            Reach::Denied(rule) => {
                let cause = Cause::Denied(Box::new(rule.clone()));
                self.refuse_wish(wish, cause).await;
            }
            Reach::Unlisted => match (self.broker.rules.never_asks, &self.broker.person) {
                (None, Some(_)) => self.ask_person(wish).await,
                (by, _) => {
                    let rule = rule_for(&wish.key);
                    self.refuse_wish(wish, Cause::Unlisted { rule, by }).await;
                }
            },
        }
    }

    async fn allow(&mut self, wish: Wish, grant: Permission, anything: bool) {
        let Wish { id, way, key: (host, port) } = wish;
        let started = Instant::now();
        let open = Open { host, port, way, grant, started, made: false, addresses: Vec::new() };
        self.open.insert(id, open);
        self.tell(&Told::Allowed { id, anything }).await;
    }

    async fn refuse_wish(&mut self, wish: Wish, cause: Cause) {
        let Wish { id, way, key } = wish;
        let object = object(&key.0, key.1);
        let text = format!("refused `{object}`: {}; {}", cause.reason(), cause.remedy());
        self.refuse(Some(&key), way, object, cause).await;
        self.tell_refused(id, &text).await;
    }

    /// Decides which addresses may be dialled, and writes the connection down.
    async fn found(&mut self, id: u64, addresses: Vec<IpAddr>) {
        let Some(mut open) = self.open.remove(&id).filter(|open| !open.made) else {
            return self.tell_refused(id, "nobody was asked about this connection").await;
        };
        let rules = &self.broker.rules;
        let mut objection = "the name has no address".to_owned();
        for address in addresses {
            // A person who was shown the address itself has named it, as a rule would have.
            let named =
                matches!(open.grant, Permission::Person) && open.host == Host::Address(address);
            if named {
                open.addresses.push(address);
                continue;
            }
            match rules.objection(&open.host, address, open.port) {
                None => open.addresses.push(address),
                Some(reason) => objection = format!("its address is {address}, and {reason}"),
            }
        }
        if open.addresses.is_empty() {
            let rule = open.host.to_string();
            let wish = Wish { id, way: open.way, key: (open.host, open.port) };
            return self.refuse_wish(wish, Cause::Address { rule, reason: objection }).await;
        }
        if let Err(error) = self.record_opened(id, &open).await {
            let wish = Wish { id, way: open.way, key: (open.host, open.port) };
            return self.refuse_wish(wish, Cause::Unrecorded(error)).await;
        }
        open.made = true;
        let addresses = open.addresses.clone();
        self.open.insert(id, open);
        self.tell(&Told::Dial { id, addresses }).await;
    }

    async fn tell_refused(&mut self, id: u64, text: &str) {
        self.tell(&Told::Refused { id, text: text.to_owned() }).await;
    }

    async fn tell(&mut self, message: &Told) {
        let line = super::messages::line(message);
        // A proxy that does not read is as good as gone, and then nothing waits for an answer.
        let _ = tokio::time::timeout(WRITE, self.writer.write_all(&line)).await;
    }

    /// Puts a wish to the person, or to the answer that was given for its host before.
    async fn ask_person(&mut self, wish: Wish) {
        match self.asking.settled(&wish.key) {
            Some(settled) => self.settle(wish, settled).await,
            None => {
                self.asking.queue(wish);
                self.next_question().await;
            }
        }
    }

    async fn next_question(&mut self) {
        let Some(person) = &self.broker.person else { return };
        self.asking.put_next(person);
        // A person who is gone answers nothing; whoever waits is told so.
        while let Some(wish) = self.asking.abandoned() {
            let rule = rule_for(&wish.key);
            self.refuse_wish(wish, Cause::Unlisted { rule, by: None }).await;
        }
    }

    async fn answered(&mut self, answer: stockade_wire::types::Answer) {
        let Some((key, settled)) = self.asking.take(answer) else { return };
        if settled == Settled::Always
            && let Some(person) = &self.broker.person
        {
            person.keep(self.broker.log, &rule_for(&key)).await;
        }
        for wish in self.asking.waiting_for(&key) {
            self.settle(wish, settled).await;
        }
        self.next_question().await;
    }

    async fn settle(&mut self, wish: Wish, settled: Settled) {
        let rule = rule_for(&wish.key);
        match settled {
            Settled::Once | Settled::Always => {
                // The person saw the port, so what is spoken there is theirs to know.
                let anything = !matches!(wish.key.1, 80 | 443);
                self.allow(wish, Permission::Person, anything).await;
            }
            Settled::Declined => self.refuse_wish(wish, Cause::Declined { rule }).await,
            Settled::Withdrawn => {
                self.refuse_wish(wish, Cause::Unlisted { rule, by: None }).await;
            }
        }
    }
}

/// Returns `host:port`.
fn object(host: &Host, port: u16) -> String {
    format!("{host}:{port}")
}

/// Returns the rule that would allow it.
fn rule_for(key: &Key) -> String {
    match key {
        (host, 80 | 443) => host.to_string(),
        (host, port) => object(host, *port),
    }
}
