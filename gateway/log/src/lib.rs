//! The audit log: nothing runs unrecorded, and no record changes unnoticed.
//!
//! A gateway opens one [`Log`] and awaits [`Log::record`] before a command may start and after it ended.
//! JSON lines in numbered segments are the truth; each line carries the digest of the line before, all
//! are leaves of one Merkle tree, and a signed checkpoint covers each group that was synced together.
//! [`verify`] reads a log and says what was changed; [`query`] answers questions about it.
//!
//! Order of one append: the mark of the command, the lines, one sync, full tiles, checkpoint, head,
//! answers. Whoever is killed in between leaves a log that opens and verifies.
//!
//! May touch the folder of the log and the folder of its keys; starts no process.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![allow(
    missing_docs,
    reason = "the fields of a record are explained in docs/internals/audit-log.md, under the names that they have here"
)]

pub mod apart;
mod checkpoint;
pub mod clock;
mod cut;
mod error;
pub mod files;
mod hash;
mod journal;
mod keys;
mod line;
mod lock;
pub mod note;
mod position;
pub mod query;
pub mod record;
mod recover;
mod redact;
mod references;
mod refused;
pub mod repair;
mod room;
mod running;
mod schema;
mod tree;
pub mod verify;
mod wire;
mod writer;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use apart::Pen;
pub use error::Error;
use journal::Journal;
use record::Body;
pub use redact::Redactor;
pub use stockade_base::places::LogPlaces as Places;
use writer::Job;

/// How long a record may take to become durable.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Records that may wait for the writer; who comes later waits.
const QUEUE: usize = 256;

/// How the gateway lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayMode {
    /// For one call.
    Embedded,
    /// As long as it serves one user.
    Daemon,
    /// As a service of the machine; it holds the log for its lifetime.
    System,
}

impl GatewayMode {
    /// Says whether it locks the log only to append, so that others append in between.
    pub(crate) fn shares_log(self) -> bool {
        match self {
            GatewayMode::Embedded | GatewayMode::Daemon => true,
            GatewayMode::System => false,
        }
    }

    /// The name in records.
    fn name(self) -> &'static str {
        match self {
            GatewayMode::Embedded => "embedded",
            GatewayMode::Daemon => "daemon",
            GatewayMode::System => "system",
        }
    }
}

/// When a new segment begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// `audit.segmentBytes`.
    pub bytes: u64,
    /// `audit.segmentRecords`.
    pub records: Option<u64>,
}

impl Rotation {
    /// 16 MiB, any number of records.
    pub const DEFAULT: Rotation = Rotation { bytes: 16 << 20, records: None };
}

/// Where a record is in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Its number, from 0 without holes.
    pub sequence: u64,
    /// Its ULID; that of a decision is what front ends get as `decision_id`.
    pub id: String,
}

/// The reach of a command, as far as the log has to know it: bytes whose digest a record names.
pub trait Subject {
    /// Returns all of it.
    fn bytes(&self) -> Vec<u8>;
}

/// A decision that is on disk, with what the command may reach. Only [`Log::decision`] makes one, from the verdict that it wrote
/// and the subject whose digest it wrote; whoever starts a command takes it by value, so that no verdict and no subject but the
/// recorded ones can start anything, and none twice.
///
/// Nobody else can make one:
///
/// ```compile_fail,E0451
/// fn forged(receipt: stockade_log::Receipt) -> stockade_log::Recorded<()> {
///     let verdict = stockade_policy::Decision::Allow;
///     stockade_log::Recorded { receipt, verdict, subject: Some(()) }
/// }
/// ```
///
/// change one:
///
/// ```compile_fail,E0616
/// fn lifted(recorded: &mut stockade_log::Recorded<()>) {
///     recorded.verdict = stockade_policy::Decision::Allow;
/// }
/// ```
///
/// put something else into one:
///
/// ```compile_fail,E0616
/// fn exchanged<S>(recorded: &mut stockade_log::Recorded<S>, other: S) {
///     recorded.subject = Some(other);
/// }
/// ```
///
/// or use one twice:
///
/// ```compile_fail,E0382
/// fn twice(recorded: stockade_log::Recorded<()>) -> [stockade_log::Recorded<()>; 2] {
///     [recorded, recorded]
/// }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Recorded<S> {
    receipt: Receipt,
    verdict: stockade_policy::Decision,
    subject: Option<S>,
}

impl<S> Recorded<S> {
    /// Returns the receipt of the record.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Returns the verdict that the record holds.
    pub fn verdict(&self) -> stockade_policy::Decision {
        self.verdict
    }

    /// Gives the decision up for its receipt: nothing can be started by it any more.
    pub fn into_receipt(self) -> Receipt {
        self.receipt
    }

    /// Gives the decision up for its parts.
    pub fn open(self) -> (Receipt, stockade_policy::Decision, Option<S>) {
        (self.receipt, self.verdict, self.subject)
    }
}

/// The yes of a person that is on disk, with what the command may reach after it. Only [`Log::approval`] makes one.
///
/// ```compile_fail,E0451
/// fn forged(decision: String) -> stockade_log::Approved<()> {
///     stockade_log::Approved { decision, subject: () }
/// }
/// ```
///
/// ```compile_fail,E0382
/// fn twice(approved: stockade_log::Approved<()>) -> [stockade_log::Approved<()>; 2] {
///     [approved, approved]
/// }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Approved<S> {
    decision: String,
    subject: S,
}

impl<S> Approved<S> {
    /// Gives the yes up for the id of the decision that it answers, and what the command may reach.
    pub fn open(self) -> (String, S) {
        (self.decision, self.subject)
    }
}

/// An open log. Cheap to clone; the last one to go waits until the writer has ended in order.
#[derive(Debug, Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    redactor: Redactor,
    head: Map<String, Value>,
    jobs: Option<mpsc::Sender<Job>>,
    /// Records that were handed to the writer and whose answer nobody has taken.
    unanswered: AtomicUsize,
    /// Somebody waited in vain for the writer: it hangs, and is not waited for any more.
    is_stuck: AtomicBool,
    /// Closed by the end of the writer.
    ended: Mutex<std::sync::mpsc::Receiver<()>>,
    /// Where another process keeps the log: the settings that were recorded last, by digest, and the id of their record.
    settings: Option<Mutex<Option<(String, String)>>>,
    /// Where another process keeps the log: the connection to it.
    pen: Option<Arc<Mutex<Pen>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.jobs = None;
        if let (Ok(ended), false) = (self.ended.lock(), self.is_stuck.load(Ordering::Relaxed)) {
            // A writer that panicked has nothing more to say; what it answered was durable before. One that
            // hangs in a sync (fsfreeze(8)) keeps nobody here.
            let _ = ended.recv_timeout(PATIENCE);
        }
    }
}

/// Writer that appends to a log.
#[derive(Debug)]
pub struct Writer {
    means: Means,
    queue: mpsc::Receiver<Job>,
    running: std::sync::mpsc::Sender<()>,
}

/// Where records go.
#[derive(Debug)]
enum Means {
    Journal(Box<Journal>),
    Recorder(Arc<Mutex<Pen>>),
}

impl Writer {
    /// Appends until every [`Log`] is gone, then ends in order.
    pub fn run(self) {
        let Writer { means, queue, running } = self;
        match means {
            Means::Journal(journal) => writer::run(*journal, queue),
            Means::Recorder(pen) => Pen::run(&pen, queue),
        }
        drop(running);
    }
}

impl Log {
    /// Opens the log like [`Log::begin`], with a thread of its own for its writer.
    pub fn open(places: &Places, mode: GatewayMode) -> Result<Log, Error> {
        Log::open_with(places, mode, Rotation::DEFAULT)
    }

    /// The same with another rotation.
    pub fn open_with(places: &Places, mode: GatewayMode, rotation: Rotation) -> Result<Log, Error> {
        let (log, writer) = Log::begin_with(places, mode, rotation)?;
        let thread = std::thread::Builder::new().name("audit".into()).spawn(|| writer.run());
        thread.map_err(|source| Error::Write {
            directory: places.directory.clone(),
            step: "to start the writer".into(),
            cause: error::words(&source),
        })?;
        Ok(log)
    }

    /// Opens the log, makes it when there is none, and puts in order what a crash left behind. No record is written
    /// until its writer runs.
    pub fn begin(places: &Places, mode: GatewayMode) -> Result<(Log, Writer), Error> {
        Log::begin_with(places, mode, Rotation::DEFAULT)
    }

    fn begin_with(
        places: &Places,
        mode: GatewayMode,
        rotation: Rotation,
    ) -> Result<(Log, Writer), Error> {
        let journal = writer::open(places, mode, rotation)?;
        let (redactor, head) = (journal.redactor.clone(), journal.head.clone());
        Ok(Log::of(places, Means::Journal(Box::new(journal)), redactor, head))
    }

    /// Returns the log that the recorder at the other end of `recorder` keeps.
    ///
    /// # Errors
    ///
    /// [`Error::Recorder`] where it does not greet.
    pub fn attach(places: &Places, recorder: UnixStream) -> Result<(Log, Writer), Error> {
        let pen = Pen::open(recorder, &places.directory)?;
        let (redactor, head) = (pen.redactor.clone(), pen.head.clone());
        Ok(Log::of(places, Means::Recorder(Arc::new(Mutex::new(pen))), redactor, head))
    }

    fn of(
        places: &Places,
        means: Means,
        redactor: Redactor,
        head: Map<String, Value>,
    ) -> (Log, Writer) {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (running, ended) = std::sync::mpsc::channel();
        let shared = Shared {
            directory: places.directory.clone(),
            redactor,
            head,
            jobs: Some(jobs),
            unanswered: AtomicUsize::new(0),
            is_stuck: AtomicBool::new(false),
            ended: Mutex::new(ended),
            settings: matches!(means, Means::Recorder(_)).then(Mutex::default),
            pen: match &means {
                Means::Journal(_) => None,
                Means::Recorder(pen) => Some(Arc::clone(pen)),
            },
        };
        let log = Log { shared: Arc::new(shared) };
        (log, Writer { means, queue, running })
    }

    /// Records a decision as [`Log::record`] does, with the digest of `subject`, and returns it with the verdict that was written.
    ///
    /// # Errors
    ///
    /// Those of [`Log::record`].
    pub async fn decision<S: Subject>(
        &self,
        mut decision: record::Decision,
        subject: Option<S>,
    ) -> Result<Recorded<S>, Error> {
        let verdict = decision.verdict.decision;
        decision.sandbox.spec_hmac = subject.as_ref().map(|it| self.redactor().digest(&it.bytes()));
        let receipt = self.record(Body::Decision(Box::new(decision))).await?;
        Ok(Recorded { receipt, verdict, subject })
    }

    /// Records the yes of a person as [`Log::record`] does, and returns it with what the command may reach after it.
    ///
    /// # Errors
    ///
    /// Those of [`Log::record`].
    pub async fn approval<S: Subject>(
        &self,
        approval: record::Approval,
        subject: S,
    ) -> Result<Approved<S>, Error> {
        let decision = approval.reference.clone();
        let spec_hmac = Some(self.redactor().digest(&subject.bytes()));
        let yes = record::Approval { answer: record::ApprovalAnswer::Allow, spec_hmac, ..approval };
        self.record(Body::Approval(yes)).await?;
        Ok(Approved { decision, subject })
    }

    /// Masks and records `body`; returns when it is on disk and covered by a signed checkpoint.
    ///
    /// Dropping the future, or an error, of a decision that lets a command run means that it must not
    /// start: the writer then adds a `result` that says so. Needs a runtime with its timer enabled.
    pub async fn record(&self, body: Body) -> Result<Receipt, Error> {
        let shared = &self.shared;
        let prepared = wire::prepare(&body, &shared.head, &shared.redactor)
            .map_err(|cause| Error::Record { directory: shared.directory.clone(), cause })?;
        let (answer, answered) = oneshot::channel();
        let job = Job { record: prepared, answer };
        let gone = || Error::Write {
            directory: shared.directory.clone(),
            step: "to reach the writer".into(),
            cause: "the writer has ended".into(),
        };
        let jobs = shared.jobs.as_ref().ok_or_else(gone)?;
        shared.unanswered.fetch_add(1, Ordering::Relaxed);
        let whole = async {
            jobs.send(job).await.map_err(|_| gone())?;
            answered.await.map_err(|_| gone())?
        };
        match tokio::time::timeout(PATIENCE, whole).await {
            Ok(answer) => {
                shared.unanswered.fetch_sub(1, Ordering::Relaxed);
                answer
            }
            Err(_) => {
                shared.is_stuck.store(true, Ordering::Relaxed);
                Err(Error::slow(&shared.directory))
            }
        }
    }

    /// Says whether every record that was asked for is answered, so that the writer has nothing left to write but caches.
    pub fn is_idle(&self) -> bool {
        self.shared.unanswered.load(Ordering::Relaxed) == 0
    }

    /// Says whether somebody waited in vain for a record: the disk hangs.
    pub fn is_stuck(&self) -> bool {
        self.shared.is_stuck.load(Ordering::Relaxed)
    }

    /// Says whether another process keeps the log: a note beside it would be the user's, and is not believed.
    pub fn is_apart(&self) -> bool {
        self.shared.settings.is_some()
    }

    /// Returns the id of the record of the settings with `sha256`, if this gateway recorded those last.
    pub fn settings_recorded(&self, sha256: &str) -> Option<String> {
        let known = self.shared.settings.as_ref()?.lock().ok()?;
        let (digest, id) = known.as_ref()?;
        (digest == sha256).then(|| id.clone())
    }

    /// Remembers the record of the settings with `sha256`, where another process keeps the log.
    pub fn note_settings(&self, sha256: &str, id: &str) {
        if let Some(Ok(mut known)) = self.shared.settings.as_ref().map(Mutex::lock) {
            *known = Some((sha256.to_owned(), id.to_owned()));
        }
    }

    /// Returns what masks text and makes digests.
    pub fn redactor(&self) -> &Redactor {
        &self.shared.redactor
    }
}

#[cfg(test)]
mod tests;
