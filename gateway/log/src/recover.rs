//! Opening a log: what a crash left behind is adopted or cut and named; what must be there and is not
//! is refused.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::checkpoint::Checkpoint;
use super::error::Error;
use super::files::{self, Durability};
use super::hash::{Hash, hex, sha256};
use super::journal::Journal;
use super::line::{self, Lines, Step};
use super::position::{self, Position, Tail};
use super::record::{Agreement, Approval, ApprovalAnswer, Body, Gap, Outcome, Scope, Text};
use super::running::Orphan;
use super::wire::{self, Prepared};

/// The two signed notes that say what the log must hold.
struct Bounds {
    checkpoint: Option<Checkpoint>,
    head: Option<Checkpoint>,
    /// The bytes of `checkpoint`.
    note: Vec<u8>,
}

impl Bounds {
    fn iter(&self) -> impl Iterator<Item = &Checkpoint> {
        self.checkpoint.iter().chain(&self.head)
    }
}

impl Journal {
    /// Brings a fresh journal to the end of the log, and returns records about what was found.
    pub(super) fn load(&mut self) -> Result<Vec<Prepared>, Error> {
        let bounds = self.bounds()?;
        if bounds.checkpoint.is_none() {
            return self.be_born(&bounds);
        }
        self.load_edge(&bounds)?;
        let mut records = self.catch_up(&bounds)?;
        records.extend(self.orphans()?);
        Ok(records)
    }

    /// Takes in what other processes appended since, and returns records about what was found.
    pub(super) fn refresh(&mut self) -> Result<Vec<Prepared>, Error> {
        if self.position.segment == 0 {
            return self.load();
        }
        let scene = self.scene.clone();
        let path = self.path("checkpoint");
        let note = files::read(&path).map_err(scene.write("read", &path))?;
        let active = self.path(&files::segment_name(self.position.segment));
        let length = fs::symlink_metadata(&active).map_err(scene.write("use", &active))?.len();
        let next = self.path(&files::segment_name(self.position.segment + 1));
        let is_current = note.as_deref() == Some(self.checkpoint.as_slice())
            && length == self.position.end
            && !next.exists();
        if is_current {
            return Ok(Vec::new());
        }
        let bounds = self.bounds()?;
        if bounds.checkpoint.is_none() {
            return Err(self.scene.damaged("its checkpoint is missing"));
        }
        self.catch_up(&bounds)
    }

    fn bounds(&self) -> Result<Bounds, Error> {
        let path = self.path("checkpoint");
        let note = files::read(&path).map_err(self.scene.write("read", &path))?;
        let head_path = self.places.state.join("head");
        let head = files::read(&head_path).map_err(self.scene.write("read", &head_path))?;
        let believed = |path: &Path, note: &[u8]| {
            if let Some(own) = Checkpoint::own(note, self.origin(), &self.keys.sign) {
                return Ok(own);
            }
            Checkpoint::read(note, &self.trusted()).map_err(|doubt| {
                self.scene.damaged(format!("`{}`: {}", path.display(), doubt.words()))
            })
        };
        let checkpoint = note.as_deref().map(|note| believed(&path, note)).transpose()?;
        let head = match &head {
            // The same bytes, read a moment ago: the usual case.
            Some(_) if head == note => checkpoint.clone(),
            Some(bytes) => Some(believed(&head_path, bytes)?),
            None => None,
        };
        Ok(Bounds { checkpoint, head, note: note.unwrap_or_default() })
    }

    /// Begins the log, or finishes a beginning that was interrupted before anything was answered.
    fn be_born(&mut self, bounds: &Bounds) -> Result<Vec<Prepared>, Error> {
        let read = self.scene.write("read", &self.places.directory);
        let segments = files::segments(&self.places.directory).map_err(read)?;
        if bounds.head.is_some() {
            return Err(self
                .scene
                .damaged("its checkpoint is missing, and this state knows that it had one"));
        }
        match segments.as_slice() {
            [] => self.rotate()?,
            [1] => {
                self.catch_up(bounds)?;
                if self.position.next() != 1 {
                    return Err(self.scene.damaged("its checkpoint is missing"));
                }
                self.cover_again()?;
            }
            _ => return Err(self.scene.damaged("its checkpoint is missing")),
        }
        Ok(Vec::new())
    }

    /// Takes the position from the cache if it agrees with the signed notes; else it stays at the
    /// beginning, and the whole log is read.
    fn load_edge(&mut self, bounds: &Bounds) -> Result<(), Error> {
        let directory = self.places.directory.clone();
        let path = self.places.state.join("edge");
        let failed = self.scene.write("read", &path);
        let cached = files::read(&path).map_err(&failed)?.and_then(|text| Position::load(&text));
        if let Some(cached) = cached {
            let is_below = bounds.checkpoint.iter().all(|it| cached.next() <= it.size);
            if is_below && cached.stands(&directory).map_err(&failed)? {
                drop(failed);
                self.edge_loaded(cached.next());
                self.position = cached;
            }
        }
        Ok(())
    }

    /// Reads on to the end, compares the tree with the signed notes where it passes them, and puts the
    /// end in order.
    fn catch_up(&mut self, bounds: &Bounds) -> Result<Vec<Prepared>, Error> {
        let directory = self.places.directory.clone();
        let chain = position::chain(&self.keys.trust).to_owned();
        let mut wrong = Vec::new();
        for note in bounds.iter().filter(|note| note.size <= self.position.next()) {
            match self.position.extends(&directory, note) {
                Some(true) => {}
                Some(false) => wrong.push(note.size),
                None => {
                    return Err(self
                        .scene
                        .damaged("tiles are missing; `stockade audit repair` makes them again"));
                }
            }
        }
        let mut closed = Vec::new();
        let tail = self
            .position
            .advance(&directory, &chain, |position, head, tiles| {
                if head.kind == "segment" && position.segment > 1 {
                    closed.push((position.segment - 1, position.first));
                }
                let passed = bounds.iter().filter(|note| note.size == position.next());
                wrong.extend(
                    passed.filter(|note| position.tree.root() != note.root).map(|note| note.size),
                );
                position::store(&directory, &tiles)
            })
            .map_err(self.scene.write("read", &directory))?;
        if let Tail::Newer(version) = tail {
            return Err(Error::Newer { directory: directory.clone(), version });
        }
        if let Some(size) = wrong.first() {
            return Err(self
                .scene
                .damaged(format!("its first {size} records differ from the signed ones")));
        }
        let due = bounds.iter().map(|note| note.size).max().unwrap_or(0);
        if self.position.next() < due {
            return Err(self.scene.damaged(format!(
                "it ends after {} records, and {due} were signed{}",
                self.position.next(),
                describe(&tail)
            )));
        }
        self.seal_again(&closed)?;
        let mut gaps = self.end_in_order(tail)?;
        let signed = bounds.checkpoint.as_ref().map_or(0, |note| note.size);
        if self.position.next() > signed && signed > 0 {
            gaps.insert(0, self.adopted(signed)?);
        }
        self.checkpoint = bounds.note.clone();
        Ok(gaps)
    }

    fn gap(&self, gap: Gap) -> Result<Prepared, Error> {
        self.prepared(&Body::Gap(gap))
    }

    /// Returns `body` as it goes into the log.
    pub(super) fn prepared(&self, body: &Body) -> Result<Prepared, Error> {
        wire::prepare(body, &self.head, &self.redactor)
            .map_err(|cause| Error::Record { directory: self.scene.directory.clone(), cause })
    }

    fn adopted(&self, signed: u64) -> Result<Prepared, Error> {
        let last = self.position.next().saturating_sub(1);
        self.gap(Gap {
            reason: "above_checkpoint",
            from: Some(signed.to_string()),
            to: Some(last.to_string()),
            count: Some(self.position.next() - signed),
            bytes: None,
            sha256: None,
            detail: "these records were chained but not signed when their writer ended".into(),
        })
    }

    /// Cuts what stands behind the last good line and returns a record that names it.
    fn end_in_order(&mut self, tail: Tail) -> Result<Vec<Prepared>, Error> {
        let name = files::segment_name(self.position.segment);
        let path = self.path(&name);
        let failed = self.scene.write("read", &path);
        if self.path(&files::segment_name(self.position.segment + 1)).exists() {
            let finding =
                format!("`{name}` ends badly, and another segment follows{}", describe(&tail));
            return Err(self.scene.damaged(finding));
        }
        let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(&failed)?;
        file.seek(SeekFrom::Start(self.position.end)).map_err(&failed)?;
        let mut rest = Vec::new();
        file.by_ref().take(1 << 24).read_to_end(&mut rest).map_err(&failed)?;
        if rest.is_empty() {
            return Ok(Vec::new());
        }
        let (reason, detail): (&'static str, Text) = match &tail {
            Tail::Clean => {
                file.set_len(self.position.end).map_err(&failed)?;
                return Ok(Vec::new());
            }
            Tail::Torn(_) => ("torn_tail", "an incomplete record, never answered, was cut".into()),
            Tail::Newer(version) => {
                return Err(Error::Newer {
                    directory: self.places.directory.clone(),
                    version: *version,
                });
            }
            Tail::Bad(why) => {
                self.quarantine(&name, &rest)?;
                (
                    "abandoned_tail",
                    format!("bytes that do not continue the chain were set aside: {why}").into(),
                )
            }
        };
        file.set_len(self.position.end).and_then(|()| file.sync_all()).map_err(&failed)?;
        let gap = self.gap(Gap {
            reason,
            from: Some(self.position.end.to_string()),
            to: None,
            count: None,
            bytes: Some(rest.len() as u64),
            sha256: Some(hex(&sha256(&[&rest]))),
            detail,
        })?;
        Ok(vec![gap])
    }

    fn quarantine(&self, name: &str, rest: &[u8]) -> Result<(), Error> {
        let folder = self.places.state.join("quarantine");
        files::folder(&self.scene, &folder)?;
        let path = folder.join(format!("{name}-{}", self.position.end));
        files::replace(&path, rest, Durability::Synced).map_err(self.scene.write("write", &path))
    }

    fn seal_again(&self, closed: &[(u64, u64)]) -> Result<(), Error> {
        for (number, size) in closed {
            if self.path(&files::seal_name(*number)).exists() {
                continue;
            }
            if let Some(root) = self.root_at(*size) {
                self.seal(*number, *size, root)?;
            }
        }
        Ok(())
    }

    fn root_at(&self, size: u64) -> Option<Hash> {
        super::tree::root_at(size, |level, index| {
            self.position.hash_at(&self.places.directory, level, index)
        })
    }

    /// Returns a result for each command whose gateway is gone and whose end nobody recorded.
    fn orphans(&mut self) -> Result<Vec<Prepared>, Error> {
        let folder = self.places.state.join("open");
        let failed = self.scene.write("read", &folder);
        let mut records = Vec::new();
        for orphan in self.running.orphans().map_err(&failed)? {
            let fate = self.fate(&orphan).map_err(&failed)?;
            let bodies = match fate {
                Fate::Settled => {
                    self.running.close(&orphan.id);
                    continue;
                }
                Fate::Granted => vec![Outcome::bare(&orphan.id, Agreement::Unknown, "nobody")],
                Fate::Asked => {
                    records.push(
                        self.prepared(&Body::Approval(withdrawn(&orphan.id, &self.redactor)))?,
                    );
                    continue;
                }
            };
            for body in bodies {
                records.push(self.prepared(&Body::Result(Box::new(body)))?);
            }
        }
        Ok(records)
    }

    /// Finds out what the log says of a command whose gateway is gone.
    fn fate(&self, orphan: &Orphan) -> io::Result<Fate> {
        let numbers = files::segments(&self.places.directory)?;
        let (first, offset) = orphan.from.unwrap_or((numbers.last().copied().unwrap_or(1), 0));
        let mut fate = Fate::Settled;
        for number in numbers.into_iter().filter(|number| *number >= first) {
            let from = if number == first { offset } else { 0 };
            let mut file = File::open(self.path(&files::segment_name(number)))?;
            file.seek(SeekFrom::Start(from))?;
            let mut lines = Lines::new(BufReader::new(file), from);
            while let Step::Line(content) = lines.next()? {
                let mentions =
                    std::str::from_utf8(&content).is_ok_and(|text| text.contains(&orphan.id));
                if !mentions {
                    continue;
                }
                let Ok((head, value)) = line::read(&content) else { continue };
                let said = |object: &str, key: &str| {
                    value.get(object).and_then(|it| it.get(key)).and_then(|it| it.text())
                };
                let answer = value.get("answer").and_then(|it| it.text());
                if head.id == orphan.id {
                    fate = if said("verdict", "decision") == Some("ask") {
                        Fate::Asked
                    } else {
                        Fate::Granted
                    };
                } else if head.reference.as_deref() == Some(orphan.id.as_str()) {
                    match head.kind.as_str() {
                        "result" => return Ok(Fate::Settled),
                        "approval" if answer == Some("allow") => fate = Fate::Granted,
                        "approval" => return Ok(Fate::Settled),
                        _ => {}
                    }
                }
            }
        }
        Ok(fate)
    }
}

/// Fate of a command after its gateway is gone, as the log shows it.
enum Fate {
    /// Its end is recorded, or it was never decided.
    Settled,
    /// The command may have run.
    Granted,
    /// The command waited for an answer.
    Asked,
}

fn withdrawn(id: &str, redactor: &super::Redactor) -> Approval {
    Approval {
        reference: id.into(),
        answer: ApprovalAnswer::Withdrawn,
        who: None,
        channel: "none".into(),
        waited_ms: 0,
        shown_hmac: redactor.digest(b""),
        scope: Scope::Once,
        expires: None,
        question: None,
        approvers: Vec::new(),
        break_glass: None,
        claimed: None,
        spec_hmac: None,
    }
}

fn describe(tail: &Tail) -> String {
    match tail {
        Tail::Clean => String::new(),
        Tail::Torn(rest) => format!(" (an incomplete line of {} bytes follows)", rest.len()),
        Tail::Bad(why) => format!(" (the next line does not count: {why})"),
        Tail::Newer(version) => format!(" (the next line has format {version})"),
    }
}
