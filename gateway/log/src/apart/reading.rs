//! Reads a log along, whoever keeps it: files of this user, or what the recorder gives this user.

use std::sync::PoisonError;

use super::board::{Known, Posted, Reply};
use super::{Asked, Told};
use crate::Log;
use crate::error::Error;
use crate::query::along::{self, Begun, LogPosition, Owners, Piece, Start, Whose};

/// Reader that follows a log. Each step waits for the file system or for the recorder.
#[derive(Debug)]
pub struct Reading {
    log: Log,
    place: LogPosition,
    owners: Owners,
}

impl Reading {
    /// Begins at `start`, and returns also the number of the record there.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn begin(log: &Log, start: Start) -> Result<(Reading, u64), Error> {
        let begun = match log.ask(&Asked::Begin(start.clone())) {
            None => along::begin(&log.shared.directory, &start)?,
            Some(told) => match told? {
                Told::Begun(begun) => begun,
                Told::Hello { .. }
                | Told::Written { .. }
                | Told::Refused { .. }
                | Told::Read(_)
                | Told::Done
                | Told::Posted(_)
                | Told::Replies(_) => return Err(log.confused()),
            },
        };
        let Begun { place, next } = begun;
        Ok((Reading { log: log.clone(), place, owners: Owners::default() }, next))
    }

    /// Returns what follows: in a log of this user all, of the recorder what is of this user.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn next_piece(&mut self) -> Result<Piece, Error> {
        let piece = match self.log.ask(&Asked::Read(self.place)) {
            None => {
                let directory = &self.log.shared.directory;
                along::read(directory, self.place, Whose::All, &mut self.owners, |_| None)?
            }
            Some(told) => match told? {
                Told::Read(piece) => piece,
                Told::Hello { .. }
                | Told::Written { .. }
                | Told::Refused { .. }
                | Told::Begun(_)
                | Told::Done
                | Told::Posted(_)
                | Told::Replies(_) => return Err(self.log.confused()),
            },
        };
        self.place = piece.place;
        Ok(piece)
    }
}

impl Log {
    /// Asks the recorder, if it keeps the log.
    fn ask(&self, asked: &Asked) -> Option<Result<Told, Error>> {
        let pen = self.shared.pen.as_ref()?;
        Some(pen.lock().unwrap_or_else(PoisonError::into_inner).ask(asked))
    }

    /// Returns who the user of this gateway is, where the recorder knows it and no file names it.
    pub fn known(&self) -> Option<Known> {
        let pen = self.shared.pen.as_ref()?;
        pen.lock().unwrap_or_else(PoisonError::into_inner).known.clone()
    }

    /// Puts a question up for other users, or its newer words.
    ///
    /// # Errors
    ///
    /// The recorder refuses, or there is none: nobody else can be asked.
    pub fn post(&self, posted: Posted) -> Result<(), Error> {
        self.done(&Asked::Post(posted))
    }

    /// Takes a question down.
    ///
    /// # Errors
    ///
    /// The recorder is gone.
    pub fn close(&self, id: &str) -> Result<(), Error> {
        self.done(&Asked::Close(id.to_owned()))
    }

    /// Answers a question of another user.
    ///
    /// # Errors
    ///
    /// The recorder refuses: this user may not, or it is another question.
    pub fn reply(&self, id: &str, digest: &str, answer: String) -> Result<(), Error> {
        let (id, digest) = (id.to_owned(), digest.to_owned());
        self.done(&Asked::Reply { id, digest, answer })
    }

    /// Returns the questions of other users that this user may answer.
    ///
    /// # Errors
    ///
    /// The recorder is gone.
    pub fn posted(&self) -> Result<Vec<Posted>, Error> {
        match self.ask(&Asked::Posted).transpose()? {
            None => Ok(Vec::new()),
            Some(Told::Posted(posted)) => Ok(posted),
            Some(_) => Err(self.confused()),
        }
    }

    /// Returns the answers of other users to a question.
    ///
    /// # Errors
    ///
    /// The recorder is gone.
    pub fn replies(&self, id: &str) -> Result<Vec<Reply>, Error> {
        match self.ask(&Asked::Replies(id.to_owned())).transpose()? {
            Some(Told::Replies(replies)) => Ok(replies),
            Some(_) | None => Err(self.confused()),
        }
    }

    fn done(&self, asked: &Asked) -> Result<(), Error> {
        match self.ask(asked).transpose()? {
            Some(Told::Done) => Ok(()),
            Some(_) | None => Err(self.confused()),
        }
    }

    fn confused(&self) -> Error {
        let cause = "it answers something else".to_owned();
        Error::Recorder { directory: self.shared.directory.clone(), cause }
    }
}
