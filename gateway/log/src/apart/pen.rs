//! The gateway's end: hands records over, and takes the answers in the same order.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::board::Known;
use super::{Asked, Told, Wanted, framed, receive};
use crate::error::Error;
use crate::hash::unhex;
use crate::keys::RedactKey;
use crate::record::{Agreement, Body, Outcome};
use crate::redact::Redactor;
use crate::wire::{self, Follow, Prepared};
use crate::writer::Job;
use crate::{PATIENCE, Receipt};

/// Most records that are handed over at once: their answers fit into the socket.
const BATCH: usize = 64;

/// A connection to the recorder.
#[derive(Debug)]
pub(crate) struct Pen {
    stream: UnixStream,
    directory: PathBuf,
    pub(crate) redactor: Redactor,
    pub(crate) head: Map<String, Value>,
    /// The name and groups of the user, where no file names that user.
    pub(super) known: Option<Known>,
}

impl Pen {
    /// Waits for the recorder's greeting.
    pub(crate) fn open(stream: UnixStream, directory: &Path) -> Result<Pen, Error> {
        let failed = |cause: String| Error::Recorder { directory: directory.to_owned(), cause };
        let limit = |error: std::io::Error| failed(error.to_string());
        stream.set_read_timeout(Some(PATIENCE)).map_err(limit)?;
        let Told::Hello { redact, mut head, known } = receive(&stream).map_err(limit)? else {
            return Err(failed("the recorder did not greet".into()));
        };
        let key = unhex(&redact).ok_or_else(|| failed("its key is none".into()))?;
        if let Some(gateway) = head.get_mut("gateway").and_then(Value::as_object_mut) {
            gateway.insert("pid".into(), std::process::id().into());
        }
        let redactor =
            Redactor::new(RedactKey::new(key)).map_err(|cause| Error::Rules { cause })?;
        Ok(Pen { stream, directory: directory.to_owned(), redactor, head, known })
    }

    /// Hands over what comes until every sender is gone. Who reads takes turns with it.
    pub(crate) fn run(pen: &Mutex<Pen>, mut queue: mpsc::Receiver<Job>) {
        while let Some(first) = queue.blocking_recv() {
            let mut batch = vec![first];
            while batch.len() < BATCH {
                match queue.try_recv() {
                    Ok(job) => batch.push(job),
                    Err(_) => break,
                }
            }
            // Each turn leaves the connection without an answer on the way.
            let mut pen = pen.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = pen.hand_over(batch.iter().map(|job| &job.record));
            let mut abandoned = Vec::new();
            for Job { record, answer } in batch {
                let told = sent.clone().and_then(|()| pen.told());
                let id = told.as_ref().ok().map(|receipt| receipt.id.clone());
                if answer.send(told).is_err() && record.follow == Follow::Opens {
                    abandoned.extend(id);
                }
            }
            // Nobody waited for these decisions: their commands do not start.
            for id in abandoned {
                let body = Body::Result(Box::new(Outcome::bare(&id, Agreement::NotRun, "gateway")));
                let record = wire::prepare(&body, &pen.head, &pen.redactor);
                if let Ok(record) = record
                    && pen.hand_over(std::iter::once(&record)).is_ok()
                {
                    let _ = pen.told(); // the recorder makes the result itself when this connection ends
                }
            }
        }
    }

    fn hand_over<'a>(&mut self, records: impl Iterator<Item = &'a Prepared>) -> Result<(), Error> {
        let mut frames = Vec::new();
        for record in records {
            let wanted = Wanted::of(record).map_err(|cause| self.failed(cause))?;
            let asked = Asked::Write(wanted);
            frames.extend(framed(&asked).map_err(|error| self.failed(error.to_string()))?);
        }
        self.stream.write_all(&frames).map_err(|error| self.failed(error.to_string()))
    }

    fn told(&mut self) -> Result<Receipt, Error> {
        match self.answer()? {
            Told::Written { sequence, id } => Ok(Receipt { sequence, id }),
            Told::Hello { .. }
            | Told::Refused { .. }
            | Told::Begun(_)
            | Told::Read(_)
            | Told::Done
            | Told::Posted(_)
            | Told::Replies(_) => Err(self.lost("it answers something else".into())),
        }
    }

    /// Asks for what is to be read, and returns the answer.
    pub(super) fn ask(&mut self, asked: &Asked) -> Result<Told, Error> {
        let frame = framed(asked).map_err(|error| self.failed(error.to_string()))?;
        self.stream.write_all(&frame).map_err(|error| self.failed(error.to_string()))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Told, Error> {
        match receive(&self.stream) {
            Ok(Told::Refused { cause }) => Err(self.failed(cause)),
            Ok(told) => Ok(told),
            Err(error) => Err(self.lost(error.to_string())),
        }
    }

    /// A late answer must not be taken for the next one: nothing is heard on this connection any more.
    pub(super) fn lost(&self, cause: String) -> Error {
        // One that is closed already needs nothing.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        self.failed(cause)
    }

    fn failed(&self, cause: String) -> Error {
        Error::Recorder { directory: self.directory.clone(), cause }
    }
}
