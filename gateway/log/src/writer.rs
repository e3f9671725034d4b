//! The one thread that appends.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

use super::error::{Error, Scene};
use super::files::{self, Durability};
use super::hash::hex;
use super::journal::{Journal, Parts};
use super::keys::{self, Keys};
use super::lock::WriterLock;
use super::record::{Agreement, Body, Outcome};
use super::redact::Redactor;
use super::refused::Refused;
use super::running::Running;
use super::wire::{Follow, Prepared};
use super::{GatewayMode, Places, Receipt, Rotation};

/// Most records in one write.
const BATCH: usize = 256;

/// A record that waits to be durable, and who waits for it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) record: Prepared,
    pub(super) answer: oneshot::Sender<Result<Receipt, Error>>,
}

/// Opens or makes the log, under its lock.
pub(super) fn open(
    places: &Places,
    mode: GatewayMode,
    rotation: Rotation,
) -> Result<Journal, Error> {
    let opened = begin(places, mode, rotation).and_then(|mut journal| {
        let found = journal.load()?;
        if !found.is_empty() {
            journal.append(&found)?;
        }
        Ok(journal)
    });
    let mut refused = Refused::new(&places.state);
    match &opened {
        Ok(journal) => {
            refused.prepare();
            journal.release(mode);
        }
        Err(_) => refused.count(1),
    }
    opened
}

/// Takes the lock and reads or makes the keys. The lock is held, and the log is not read yet.
pub(super) fn begin(
    places: &Places,
    mode: GatewayMode,
    rotation: Rotation,
) -> Result<Journal, Error> {
    let scene = Scene { directory: places.directory.clone() };
    for folder in [&places.directory, &places.state, &places.state.join("open")] {
        files::folder(&scene, folder)?;
    }
    let mut lock = WriterLock::open(&scene)?;
    lock.take()?;
    for folder in [&places.directory, &places.state] {
        files::sweep(folder).map_err(scene.write("clean", folder))?;
    }
    let keys = if is_unborn(&scene, places)? {
        Keys::create(&scene, &places.state)?
    } else {
        Keys::read(&scene, &places.state)?
    };
    let redactor = Redactor::new(keys.redact.clone()).map_err(|cause| Error::Rules { cause })?;
    let head = head(mode, &places.state);
    let running = Running::new(&places.state.join("open"));
    let parts = Parts {
        scene,
        places: places.clone(),
        mode,
        rotation,
        keys,
        redactor,
        head,
        running,
        lock,
    };
    Ok(Journal::new(parts))
}

/// Says whether this log has not begun: no signed note anywhere, and at most its first segment.
fn is_unborn(scene: &Scene, places: &Places) -> Result<bool, Error> {
    let failed = scene.write("read", &places.directory);
    let segments = files::segments(&places.directory).map_err(&failed)?;
    let is_signed =
        places.directory.join("checkpoint").exists() || places.state.join("head").exists();
    Ok(!is_signed && segments.is_empty())
}

/// Appends until every sender is gone, then ends in order.
pub(super) fn run(mut journal: Journal, mut queue: mpsc::Receiver<Job>) {
    let mut refused = Refused::new(&journal.places.state);
    let mut unwritten = Vec::new();
    while let Some(first) = queue.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH {
            match queue.try_recv() {
                Ok(job) => batch.push(job),
                Err(_) => break,
            }
        }
        let (records, answers): (Vec<Prepared>, Vec<_>) =
            batch.into_iter().map(|job| (job.record, job.answer)).unzip();
        write_again(&mut journal, &mut unwritten);
        let written = journal.locked(|it| {
            if let Some(gap) = refused.gap() {
                let record = it.prepared(&Body::Gap(gap))?;
                it.append(std::slice::from_ref(&record))?;
                refused.clear();
            }
            it.append(&records)
        });
        match written {
            Ok(receipts) => {
                let mut abandoned = Vec::new();
                for ((record, answer), receipt) in records.iter().zip(answers).zip(receipts) {
                    let id = receipt.id.clone();
                    if answer.send(Ok(receipt)).is_err() && record.follow == Follow::Opens {
                        abandoned.push(id);
                    }
                }
                not_run(&mut journal, &abandoned);
                if queue.is_empty() {
                    journal.rest();
                }
            }
            Err(error) => {
                let both = records.into_iter().zip(answers);
                let (ends, others): (Vec<_>, Vec<_>) =
                    both.partition(|(record, _)| record.follow == Follow::Closes);
                if !others.is_empty() {
                    refused.count(others.len());
                }
                // Before anybody is answered: a gateway for one call ends with the answer.
                end_again(&mut journal, &mut unwritten, ends, &error);
                for (_, answer) in others {
                    // A caller that does not wait any more has nothing to start either.
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
    write_again(&mut journal, &mut unwritten);
    journal.finish();
}

/// Most results that are kept to be written again. Of those beyond, the marks of their commands stay, from
/// which the next gateway makes results without an exit status.
const MOST_UNWRITTEN: usize = 1024;

/// Writes the ends of commands once more after `error`, and answers. Those that cannot be written are kept.
fn end_again(
    journal: &mut Journal,
    unwritten: &mut Vec<Prepared>,
    ends: Vec<(Prepared, oneshot::Sender<Result<Receipt, Error>>)>,
    error: &Error,
) {
    let (ends, answers): (Vec<Prepared>, Vec<_>) = ends.into_iter().unzip();
    if ends.is_empty() {
        return;
    }
    let written = match unwritten.is_empty() {
        true => journal.locked(|it| it.append(&ends)).ok(),
        false => None, // those came first, and could not be written a moment ago
    };
    if written.is_none() {
        unwritten.extend(ends);
        unwritten.truncate(MOST_UNWRITTEN);
    }
    let mut receipts = written.into_iter().flatten();
    for answer in answers {
        // The command is over, whether somebody still waits or not.
        let _ = answer.send(receipts.next().ok_or_else(|| error.clone()));
    }
}

/// Writes the ends of commands that could not be written before; those that still cannot be are kept.
fn write_again(journal: &mut Journal, unwritten: &mut Vec<Prepared>) {
    if !unwritten.is_empty() && journal.locked(|it| it.append(unwritten)).is_ok() {
        unwritten.clear();
    }
}

/// Adds results for decisions that nobody waited for: their commands do not start.
fn not_run(journal: &mut Journal, abandoned: &[String]) {
    for id in abandoned {
        let body = Body::Result(Box::new(Outcome::bare(id, Agreement::NotRun, "gateway")));
        // On failure the mark stays, and the next open adds the result.
        let _ = journal
            .prepared(&body)
            .and_then(|record| journal.locked(|it| it.append(std::slice::from_ref(&record))));
    }
}

impl Journal {
    /// Gives the lock back unless it is held for the lifetime of the gateway.
    fn release(&self, mode: GatewayMode) {
        if mode.shares_log() {
            self.unlock();
        }
    }
}

/// Returns what every decision begins with.
fn head(mode: GatewayMode, state: &Path) -> Map<String, Value> {
    let machine = rustix::system::uname();
    let name = machine.nodename().to_string_lossy().into_owned();
    let kernel = machine.release().to_string_lossy().into_owned();
    let mut members = Map::new();
    members.insert(
        "host".into(),
        json!({ "id": keys::host_id(), "name": name, "os": std::env::consts::OS, "kernel": kernel }),
    );
    members.insert(
        "gateway".into(),
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "exe_sha256": executable_digest(state),
            "mode": mode.name(),
            "pid": std::process::id(),
        }),
    );
    members
}

/// Returns the SHA-256 of this executable, kept in the state under what identifies the file, or zeros
/// when it cannot be read.
fn executable_digest(state: &Path) -> String {
    let unknown = "0".repeat(64);
    let Ok(mut file) = std::fs::File::open("/proc/self/exe") else { return unknown };
    let Ok(found) = file.metadata() else { return unknown };
    let identity = format!(
        "{}:{}:{}:{}.{}:{}.{} ",
        found.dev(),
        found.ino(),
        found.size(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec()
    );
    let path = state.join("exe");
    let cached = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some(digest) =
        cached.strip_prefix(&identity).filter(|rest| super::hash::unhex(rest).is_some())
    {
        return digest.to_owned();
    }
    let mut digest = Sha256::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => digest.update(chunk.get(..count).unwrap_or_default()),
            Err(_) => return unknown,
        }
    }
    let digest = hex(&digest.finalize());
    // Only a cache: without it the next call reads the executable again.
    let _ = files::replace(&path, format!("{identity}{digest}").as_bytes(), Durability::Cached);
    digest
}
