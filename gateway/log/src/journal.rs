//! The log on disk as its one writer sees it: append, checkpoint, rotate.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde_json::{Map, Value};

use super::checkpoint::{Checkpoint, PublicKey};
use super::clock;
use super::error::{Error, Scene};
use super::files::{self, Durability};
use super::hash::{Hash, hex, sha256};
use super::keys::Keys;
use super::line::FORMAT;
use super::lock::WriterLock;
use super::position::{self, Position};
use super::record::{Body, PreviousSegment, Segment};
use super::redact::Redactor;
use super::references;
use super::room::{reserve, reserved_before};
use super::running::Running;
use super::tree::Tile;
use super::wire::{self, Follow, Prepared};
use super::{GatewayMode, Places, Receipt, Rotation};

/// Room that is reserved for each running command: its decision, its result and its executions.
const ROOM: u64 = 192 << 10;

/// Records after which the cache of the tree is written again.
const EDGE_EVERY: u64 = 64;

/// The same for a gateway for one call, which writes it when it has nothing to do.
const EDGE_AT_REST: u64 = 2;

/// How often, and after how many records, the checkpoint itself is synced.
const SYNC_EVERY: (Duration, u64) = (Duration::from_secs(10), 1000);

/// The log on disk.
pub(super) struct Journal {
    pub(super) scene: Scene,
    pub(super) places: Places,
    pub(super) mode: GatewayMode,
    pub(super) rotation: Rotation,
    pub(super) keys: Keys,
    pub(super) redactor: Redactor,
    /// Members with which decisions begin: host and gateway.
    pub(super) head: Map<String, Value>,
    pub(super) boot: String,
    pub(super) position: Position,
    pub(super) running: Running,
    lock: WriterLock,
    active: Option<Active>,
    /// The newest checkpoint that this process wrote or read.
    pub(super) checkpoint: Vec<u8>,
    edge_size: u64,
    /// Full tiles that could not be stored yet.
    unstored: Vec<Tile>,
    /// Closed segments that could not be sealed yet: number, records so far, root.
    unsealed: Vec<(u64, u64, Hash)>,
    /// A sync of the open segment failed.
    is_doubtful: bool,
    synced: (Instant, u64),
}

/// The open segment.
#[derive(Debug)]
struct Active {
    number: u64,
    file: File,
    inode: u64,
    /// Up to where disk blocks are reserved.
    reserved: u64,
}

/// Parts of a journal that are there before the log is read.
pub(super) struct Parts {
    pub(super) scene: Scene,
    pub(super) places: Places,
    pub(super) mode: GatewayMode,
    pub(super) rotation: Rotation,
    pub(super) keys: Keys,
    pub(super) redactor: Redactor,
    pub(super) head: Map<String, Value>,
    pub(super) running: Running,
    pub(super) lock: WriterLock,
}

impl Journal {
    /// Returns the journal of an empty log; `recover` brings it to where the log is.
    pub(super) fn new(parts: Parts) -> Journal {
        let position = Position::beginning(&parts.keys.trust);
        Journal {
            scene: parts.scene,
            places: parts.places,
            mode: parts.mode,
            rotation: parts.rotation,
            keys: parts.keys,
            redactor: parts.redactor,
            head: parts.head,
            boot: clock::boot(),
            position,
            running: parts.running,
            lock: parts.lock,
            active: None,
            checkpoint: Vec::new(),
            edge_size: 0,
            unstored: Vec::new(),
            unsealed: Vec::new(),
            is_doubtful: false,
            synced: (Instant::now(), 0),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.places.directory.join(name)
    }

    pub(super) fn origin(&self) -> &str {
        &self.keys.trust.name
    }

    pub(super) fn trusted(&self) -> Vec<PublicKey> {
        vec![self.keys.trust.clone()]
    }

    /// Takes the lock, brings this process up to what others wrote, runs `step`, and gives the lock
    /// back unless this process holds it for its lifetime.
    pub(super) fn locked<T>(
        &mut self,
        step: impl FnOnce(&mut Journal) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.mode.shares_log() {
            self.lock.take()?;
        } else {
            self.lock.check()?;
        }
        let done = self.refresh().and_then(|gaps| {
            if !gaps.is_empty() {
                self.append(&gaps)?;
            }
            step(self)
        });
        if self.mode.shares_log() {
            self.unlock();
        }
        done
    }

    /// Gives the lock back.
    pub(super) fn unlock(&self) {
        self.lock.give();
    }

    /// Appends `batch` with one write and one sync, and covers it with a checkpoint.
    pub(super) fn append(&mut self, batch: &[Prepared]) -> Result<Vec<Receipt>, Error> {
        if self.is_due_for_rotation() {
            self.rotate()?;
        }
        let mut after = self.position.clone();
        let mut text = Vec::new();
        let mut tiles = Vec::new();
        let mut receipts = Vec::new();
        for record in batch {
            let (line, receipt) = self.line(&after, record)?;
            let start = after.end;
            tiles.extend(after.take(self.position.segment, start, &line));
            text.extend_from_slice(&line);
            text.push(b'\n');
            receipts.push(receipt);
        }
        let opened = self.open_commands(batch, &receipts)?;
        let written = self.write(&text, batch).and_then(|()| self.cover(&after));
        if let Err(error) = written {
            if self.take_back() {
                for id in &opened {
                    self.running.close(id);
                }
            }
            return Err(error);
        }
        self.position = after;
        self.store(tiles);
        self.save_edge_when_due();
        for record in batch {
            if let (Follow::Closes, Some(id)) = (record.follow, &record.reference) {
                self.running.close(id);
            }
        }
        Ok(receipts)
    }

    /// Returns the line of `record` behind `after`.
    fn line(&self, after: &Position, record: &Prepared) -> Result<(Vec<u8>, Receipt), Error> {
        let id = clock::ulid()
            .ok_or_else(|| self.scene.damaged("cannot get random bytes from the system"))?;
        let reference = match &record.reference {
            Some(reference) => format!("\"ref\":\"{reference}\","),
            None => String::new(),
        };
        let mut line = format!(
            "{{\"v\":{FORMAT},\"kind\":\"{}\",\"chain\":\"{}\",\"seq\":{},\"prev\":\"{}\",\"id\":\"{id}\",{reference}\
             \"time\":\"{}\",\"mono_us\":{},\"boot\":\"{}\",",
            record.kind,
            position::chain(&self.keys.trust),
            after.next(),
            hex(&after.last),
            clock::now(),
            clock::monotonic_us(),
            self.boot,
        )
        .into_bytes();
        line.extend_from_slice(&record.members);
        line.push(b'}');
        Ok((line, Receipt { sequence: after.next(), id }))
    }

    /// Marks the commands that `batch` lets run, before their decisions are durable: who dies after
    /// that leaves a mark to be found.
    fn open_commands(
        &mut self,
        batch: &[Prepared],
        receipts: &[Receipt],
    ) -> Result<Vec<String>, Error> {
        let mut opened: Vec<String> = Vec::new();
        for (record, receipt) in batch.iter().zip(receipts) {
            if record.follow != Follow::Opens {
                continue;
            }
            if let Err(error) =
                self.running.open(&receipt.id, self.position.segment, self.position.end)
            {
                for id in &opened {
                    self.running.close(id);
                }
                return Err(self.failed("create", "open")(error));
            }
            opened.push(receipt.id.clone());
        }
        Ok(opened)
    }

    /// Returns what makes an input or output error of `step` on `name` ours.
    fn failed<'a>(&self, step: &'a str, name: &'a str) -> impl Fn(io::Error) -> Error + use<'a> {
        let (scene, path) = (self.scene.clone(), self.path(name));
        move |source| scene.write(step, &path)(source)
    }

    fn write(&mut self, text: &[u8], batch: &[Prepared]) -> Result<(), Error> {
        let name = files::segment_name(self.position.segment);
        let failed = self.failed("append to", &name);
        self.check_active()?;
        let end = self.position.end;
        let needed = end + text.len() as u64 + ROOM * (1 + self.running.count());
        let Some(active) = &mut self.active else {
            return Err(self.scene.damaged("no open segment"));
        };
        if active.reserved == 0 {
            active.reserved = reserved_before(&active.file);
        }
        if needed > active.reserved {
            // How a command ended goes into the room that was reserved when it began.
            let is_end = batch.iter().all(|record| record.follow == Follow::Closes);
            match reserve(&active.file, end, needed) {
                Ok(reserved) => active.reserved = reserved,
                Err(error) if is_end && files::is_full(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        active.file.write_all_at(text, end).map_err(&failed)?;
        if let Err(error) = rustix::fs::fdatasync(&active.file) {
            // The content of the disk after a failed sync is not known: the descriptor is given up after the
            // batch was cut off, and the next request reads the end of the log anew.
            self.is_doubtful = true;
            return Err(failed(error.into()));
        }
        Ok(())
    }

    /// Opens the active segment, or checks that the open one is still the file of that name and ends
    /// where this process left it.
    fn check_active(&mut self) -> Result<(), Error> {
        let name = files::segment_name(self.position.segment);
        let path = self.path(&name);
        let failed = self.failed("use", &name);
        if self.active.as_ref().is_none_or(|active| active.number != self.position.segment) {
            let file = OpenOptions::new().read(true).write(true).open(&path).map_err(&failed)?;
            let inode = file.metadata().map_err(&failed)?.ino();
            self.active = Some(Active { number: self.position.segment, file, inode, reserved: 0 });
        }
        let Some(active) = &self.active else { return Err(self.scene.damaged("no open segment")) };
        let held = active.file.metadata().map_err(&failed)?;
        let named = fs::symlink_metadata(&path).map_err(&failed)?;
        if held.nlink() == 0 || named.ino() != active.inode || named.dev() != held.dev() {
            return Err(failed(Errno::STALE.into()));
        }
        if held.len() != self.position.end {
            let finding = format!(
                "`{name}` has {} bytes where {} were written",
                held.len(),
                self.position.end
            );
            return Err(self.scene.damaged(finding));
        }
        Ok(())
    }

    /// Signs `after` and stores it as `checkpoint` and `head`.
    fn cover(&mut self, after: &Position) -> Result<(), Error> {
        let checkpoint = Checkpoint {
            origin: self.origin().to_owned(),
            size: after.next(),
            root: after.tree.root(),
        };
        let note = checkpoint.sign(&self.keys.sign).into_bytes();
        let (when, size) = self.synced;
        let is_due = self.mode != GatewayMode::Embedded
            && (when.elapsed() >= SYNC_EVERY.0 || after.next() >= size + SYNC_EVERY.1);
        let durability = if is_due { Durability::Synced } else { Durability::Cached };
        let path = self.path("checkpoint");
        files::replace_note(&path, &note, durability)
            .map_err(self.failed("write", "checkpoint"))?;
        let path = self.places.state.join("head");
        files::replace_note(&path, &note, durability).map_err(self.scene.write("write", &path))?;
        if is_due {
            self.synced = (Instant::now(), after.next());
        }
        self.checkpoint = note;
        Ok(())
    }

    /// Cuts what a failed append may have left behind, and says whether nothing of it is left. Nobody was
    /// answered, so nothing is lost.
    fn take_back(&mut self) -> bool {
        let path = self.path("checkpoint");
        // The checkpoint first: one that covers more than there is would say that records were lost.
        let is_signed = match files::read(&path) {
            Ok(Some(note)) => note != self.checkpoint,
            Ok(None) => false,
            Err(_) => true,
        };
        let is_unsigned =
            !is_signed || files::replace_note(&path, &self.checkpoint, Durability::Cached).is_ok();
        let end = self.position.end;
        let is_cut = is_unsigned
            && self.active.as_ref().is_some_and(|active| active.file.set_len(end).is_ok());
        if let Some(active) = &mut self.active {
            active.reserved = 0;
        }
        if !is_cut || self.is_doubtful {
            self.active = None;
            self.is_doubtful = false;
        }
        is_cut
    }

    /// Covers the end once more, for a log whose first checkpoint was never written.
    pub(super) fn cover_again(&mut self) -> Result<(), Error> {
        let after = self.position.clone();
        self.cover(&after)
    }

    /// Stores tiles that became full, and seals. Those for which there is no room are kept: the lines hold all that
    /// they say, and the cache of the tree does not move on before they are stored.
    fn store(&mut self, tiles: Vec<Tile>) {
        self.unstored.extend(tiles);
        if !self.unstored.is_empty()
            && position::store(&self.places.directory, &self.unstored).is_ok()
        {
            self.unstored.clear();
        }
        let unsealed = std::mem::take(&mut self.unsealed);
        self.unsealed = unsealed
            .into_iter()
            .filter(|(number, size, root)| self.seal(*number, *size, *root).is_err())
            .collect();
    }

    /// Writes the cache of the tree when enough was added since; it can be made again, so a failure is
    /// not one of the record.
    fn save_edge_when_due(&mut self) {
        if self.position.next() >= self.edge_size + EDGE_EVERY {
            self.save_edge();
        }
    }

    /// Writes the cache of the tree.
    pub(super) fn save_edge(&mut self) {
        if self.unstored.is_empty()
            && self.unsealed.is_empty()
            && self.position.save(&self.places.state.join("edge")).is_ok()
        {
            self.edge_size = self.position.next();
        }
    }

    /// Says from which size on the cache on disk is known to hold.
    pub(super) fn edge_loaded(&mut self, size: u64) {
        self.edge_size = size;
    }

    fn is_due_for_rotation(&self) -> bool {
        let records = self.position.next().saturating_sub(self.position.first);
        self.position.end >= self.rotation.bytes
            || self.rotation.records.is_some_and(|most| records >= most)
    }

    /// Begins a new segment, then seals the old one.
    pub(super) fn rotate(&mut self) -> Result<(), Error> {
        let old = self.position.segment;
        let previous = match old {
            0 => None,
            _ => {
                self.check_active()?;
                Some(self.close_segment(old)?)
            }
        };
        let body = Body::Segment(Segment {
            number: old + 1,
            format: FORMAT,
            vkey: self.keys.trust.line(),
            origin: self.origin().to_owned(),
            first_seq: self.position.next(),
            previous,
        });
        let prepared = wire::prepare(&body, &self.head, &self.redactor)
            .map_err(|cause| Error::Record { directory: self.scene.directory.clone(), cause })?;
        let (mut line, _) = self.line(&self.position, &prepared)?;
        let mut after = self.position.clone();
        let tiles = after.take(old + 1, 0, &line);
        line.push(b'\n');
        let name = files::segment_name(old + 1);
        files::replace(&self.path(&name), &line, Durability::Synced)
            .map_err(self.failed("create", &name))?;
        if let Some(active) = self.active.take() {
            // Gives reserved blocks back.
            let _ = active.file.set_len(self.position.end);
        }
        let before = std::mem::replace(&mut self.position, after.clone());
        self.unsealed.push((before.segment, before.next(), before.tree.root()));
        self.cover(&after)?;
        self.store(tiles);
        Ok(())
    }

    fn close_segment(&self, number: u64) -> Result<PreviousSegment, Error> {
        let name = files::segment_name(number);
        let content = fs::read(self.path(&name)).map_err(self.failed("read", &name))?;
        Ok(PreviousSegment { sha256: hex(&sha256(&[&content])), bytes: content.len() as u64, name })
    }

    /// Writes the seal of closed segment `number`, behind whose last record the tree has `size` and
    /// `root`, and makes the segment read-only.
    pub(super) fn seal(&self, number: u64, size: u64, root: Hash) -> Result<(), Error> {
        if number == 0 {
            return Ok(());
        }
        let name = files::seal_name(number);
        let checkpoint = Checkpoint { origin: self.origin().to_owned(), size, root };
        let note = checkpoint.sign(&self.keys.sign);
        files::replace(&self.path(&name), note.as_bytes(), Durability::Synced)
            .map_err(self.failed("write", &name))?;
        let closed = self.path(&files::segment_name(number));
        let mode = if self.mode == GatewayMode::System { 0o440 } else { 0o400 };
        // Good practice only: the evidence does not rest on the mode.
        let _ = fs::set_permissions(&closed, fs::Permissions::from_mode(mode));
        // Without this cache a question reads the segment.
        let _ = references::store(&self.places, number);
        Ok(())
    }

    /// Writes the cache while nobody waits, so that the next gateway for one call has little to read and the end of
    /// this one nothing to do.
    pub(super) fn rest(&mut self) {
        if self.mode == GatewayMode::Embedded
            && self.position.next() >= self.edge_size + EDGE_AT_REST
        {
            self.finish();
        }
    }

    /// Ends in order: the cache is written. Reserved blocks stay with the segment, for the next gateway.
    pub(super) fn finish(&mut self) {
        if self.edge_size != self.position.next() {
            // Without the cache the next open reads a few lines more.
            let _ = self.locked(|it| {
                it.save_edge();
                Ok(())
            });
        }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Journal({})", self.scene.directory.display())
    }
}
