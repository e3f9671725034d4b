//! One pass over the lines: does each follow the one before, and does the tree have the signed roots?

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader};

use sha2::{Digest, Sha256};
use stockade_text::json::Value;

use super::super::files;
use super::super::hash::{Hash, hex, sha256, unhex};
use super::super::line::{self, FORMAT, Head, Lines, Step};
use super::super::position::Position;
use super::super::schema;
use super::super::tree::{Tile, leaf, tile_path};
use super::diagnose::Stored;
use super::folder::Contents;
use super::{Bound, Context, Finding, Options, Repairs, Report, Source};

/// The code of a record that only a later version of stockade reads.
pub(super) const NEWER: &str = "newer";

/// Result of one pass.
pub(super) struct Scan {
    position: Position,
    /// Each signed note, and whether the log has its root.
    pub(super) roots: Vec<(Bound, bool)>,
    /// The first thing that does not hold; nothing was read behind it.
    pub(super) broken: Option<Finding>,
    wrong_tiles: Vec<String>,
    missing_tiles: u64,
    /// Bytes of an incomplete line at the end.
    torn: u64,
    padding: bool,
    notes: Vec<String>,
    repairs: Vec<(u64, String)>,
    /// Granted commands whose result was not seen yet, and their decisions' numbers.
    running: BTreeMap<String, u64>,
    asked: BTreeSet<String>,
    /// Name and last digest of segments that retention removed, by the records that say so.
    pruned: BTreeMap<String, (u64, Hash)>,
    clock: (String, u64),
    previous: Option<(u64, String)>,
}

impl Scan {
    /// Reads the segments in order, until something does not hold.
    pub(super) fn run(context: &Context, contents: &Contents) -> io::Result<Scan> {
        let mut bounds: Vec<Bound> =
            context.bounds.iter().chain(&contents.seals).cloned().collect();
        bounds.sort_by_key(|bound| bound.checkpoint.size);
        let mut scan = Scan {
            position: Position::beginning(&context.key),
            roots: Vec::new(),
            broken: None,
            wrong_tiles: Vec::new(),
            missing_tiles: 0,
            torn: 0,
            padding: false,
            notes: Vec::new(),
            repairs: Vec::new(),
            running: BTreeMap::new(),
            asked: BTreeSet::new(),
            pruned: BTreeMap::new(),
            clock: (String::new(), 0),
            previous: None,
        };
        let mut due = bounds.iter().peekable();
        let begun = scan.begin(context, contents)?;
        for number in &contents.segments {
            if scan.broken.is_none() {
                scan.segment(context, *number, contents, &mut due)?;
            }
        }
        if let (Some((first, previous)), None) = (begun, &scan.broken) {
            scan.check_pruned(first, previous);
        }
        let rest: Vec<(Bound, bool)> = due.map(|bound| (bound.clone(), false)).collect();
        scan.roots.extend(rest);
        Ok(scan)
    }

    /// The number of records that hold.
    pub(super) fn records(&self) -> u64 {
        self.position.next()
    }

    /// Says whether the roots of the seals hold.
    pub(super) fn seals_hold(&self) -> bool {
        self.roots.iter().all(|(bound, holds)| *holds || !matches!(bound.source, Source::Seal(_)))
    }

    /// Begins where the first segment begins: behind what retention removed, if that is known. Returns
    /// the number of the first segment and the digest of the line before it.
    fn begin(&mut self, context: &Context, contents: &Contents) -> io::Result<Option<(u64, Hash)>> {
        let Some(first) = contents.segments.first().copied().filter(|first| *first > 1) else {
            return Ok(None);
        };
        let path = context.directory.join(files::segment_name(first));
        let mut lines = Lines::new(BufReader::new(File::open(path)?), 0);
        let head = match lines.next()? {
            Step::Line(content) => line::read(&content).ok().map(|(head, _)| head),
            Step::End | Step::Torn(_) | Step::Rubbish => None,
        };
        let mut stored = Stored::new(context);
        let Some(head) = head else { return Ok(None) };
        for sequence in 0..head.sequence {
            let Some(leaf) = stored.leaf(sequence) else { return Ok(None) };
            self.position.tree.push(leaf);
        }
        self.position.segment = first - 1;
        self.position.last = head.previous;
        Ok(Some((first, head.previous)))
    }

    /// Checks that records say that the segments before `first` were removed, and that the log goes on
    /// where they ended.
    fn check_pruned(&mut self, first: u64, previous: Hash) {
        let unnamed =
            (1..first).find(|number| !self.pruned.contains_key(&files::segment_name(*number)));
        let last = self.pruned.get(&files::segment_name(first - 1));
        if unnamed.is_some() || last.is_none_or(|(_, hash)| *hash != previous) {
            let number = unnamed.unwrap_or(first - 1);
            self.broken = Some(Finding {
                segment: Some(files::segment_name(number)),
                ..Finding::new(
                    "missing_segment",
                    "a segment is gone that no record says was removed",
                )
            });
        }
    }

    fn segment<'a>(
        &mut self,
        context: &Context,
        number: u64,
        contents: &Contents,
        due: &mut std::iter::Peekable<impl Iterator<Item = &'a Bound>>,
    ) -> io::Result<()> {
        if number != self.position.segment + 1 {
            self.broken = Some(Finding {
                segment: Some(files::segment_name(self.position.segment + 1)),
                ..Finding::new("missing_segment", "a segment is missing")
            });
            return Ok(());
        }
        let is_last = contents.segments.last() == Some(&number);
        let path = context.directory.join(files::segment_name(number));
        let mut lines = Lines::new(BufReader::with_capacity(1 << 16, File::open(&path)?), 0);
        let mut whole = Sha256::new();
        let mut count = 0;
        loop {
            let start = lines.offset;
            let content = match lines.next()? {
                Step::Line(content) => content,
                Step::End => break,
                Step::Torn(rest) if is_last => {
                    self.torn = rest.len() as u64;
                    break;
                }
                Step::Torn(_) => {
                    return self.stop(
                        number,
                        count + 1,
                        start,
                        "not_a_record",
                        "a line is not complete",
                    );
                }
                Step::Rubbish => {
                    return self.stop(
                        number,
                        count + 1,
                        start,
                        "not_a_record",
                        "there are bytes after the padding",
                    );
                }
            };
            count += 1;
            let reason = self.take(context, number, start, &content, count == 1, due);
            if let Err((code, reason)) = reason {
                return self.stop(number, count, start, code, &reason);
            }
            whole.update(&content);
            whole.update(b"\n");
        }
        let length = fs::metadata(&path)?.len();
        if count == 0 {
            return self.stop(number, 1, 0, "missing_segment", "the segment is empty");
        }
        if length > lines.offset && self.torn == 0 {
            self.padding = true;
        }
        self.previous = Some((lines.offset, hex(&whole.finalize())));
        Ok(())
    }

    fn stop(
        &mut self,
        number: u64,
        count: u64,
        start: u64,
        code: &'static str,
        reason: &str,
    ) -> io::Result<()> {
        self.broken = Some(Finding {
            code,
            segment: Some(files::segment_name(number)),
            line: Some(count),
            sequence: Some(self.position.next()),
            offset: Some(start),
            message: reason.to_owned(),
        });
        Ok(())
    }

    fn take<'a>(
        &mut self,
        context: &Context,
        number: u64,
        start: u64,
        content: &[u8],
        is_first: bool,
        due: &mut std::iter::Peekable<impl Iterator<Item = &'a Bound>>,
    ) -> Result<(), (&'static str, String)> {
        let (head, value) = line::read(content).map_err(|reason| ("not_a_record", reason))?;
        if head.version > FORMAT && self.is_original(context, content) {
            return Err((NEWER, format!("it has format {}", head.version)));
        }
        if let Some(reason) = self.position.refuses(&head, context.chain()) {
            return Err(("edited", reason));
        }
        schema::check(&head.kind, &value).map_err(|reason| ("not_a_record", reason))?;
        if is_first != (head.kind == "segment") {
            return Err((
                "segment_order",
                "a segment begins with its header, and only there".into(),
            ));
        }
        if is_first {
            self.check_header(number, &value).map_err(|reason| ("segment_order", reason))?;
        }
        let tiles = self.position.take(number, start, content);
        self.compare_tiles(context, &tiles);
        self.remember(&head, &value);
        while let Some(bound) = due.next_if(|bound| bound.checkpoint.size == self.position.next()) {
            let holds = bound.checkpoint.root == self.position.tree.root();
            self.roots.push((bound.clone(), holds));
        }
        while let Some(bound) = due.next_if(|bound| bound.checkpoint.size < self.position.next()) {
            // Below what retention removed, or of no record: its root is the one of the tree's beginning.
            let known = self.position.extends(&context.directory, &bound.checkpoint);
            self.roots.push((bound.clone(), known == Some(true)));
        }
        Ok(())
    }

    /// Says whether the next line is `content` by all that is stored beside the lines.
    fn is_original(&self, context: &Context, content: &[u8]) -> bool {
        let stored = Stored::new(context).leaf(self.position.next());
        stored.is_none_or(|stored| stored == leaf(&sha256(&[content])))
    }

    fn check_header(&self, number: u64, value: &Value) -> Result<(), String> {
        if value.get("number").and_then(Value::whole) != Some(number) {
            return Err("the header is that of another segment".into());
        }
        if value.get("first_seq").and_then(Value::whole) != Some(self.position.next()) {
            return Err("the header names another first record".into());
        }
        let Some((bytes, digest)) = &self.previous else { return Ok(()) };
        let previous = value.get("previous");
        let holds = previous.and_then(|it| it.get("bytes")).and_then(Value::whole) == Some(*bytes)
            && previous.and_then(|it| it.get("sha256")).and_then(Value::text)
                == Some(digest.as_str());
        if holds {
            Ok(())
        } else {
            Err("the segment before is not the one that the header names".into())
        }
    }

    fn compare_tiles(&mut self, context: &Context, tiles: &[Tile]) {
        for tile in tiles {
            let name = tile_path(tile.level, tile.index);
            match files::read(&context.directory.join(&name)) {
                Ok(Some(content)) if content == tile.hashes.as_flattened() => {}
                Ok(Some(_)) | Err(_) => self.wrong_tiles.push(name),
                Ok(None) => self.missing_tiles += 1,
            }
        }
    }

    /// Keeps what the notes tell.
    fn remember(&mut self, head: &Head, value: &Value) {
        let sequence = head.sequence;
        let text = |key: &str| value.get(key).and_then(Value::text);
        let reference = head.reference.clone().unwrap_or_default();
        match head.kind.as_str() {
            "decision" if text("runs") == Some("gateway") => {
                match value.get("verdict").and_then(|it| it.get("decision")).and_then(Value::text) {
                    Some("allow") => {
                        self.running.insert(head.id.clone(), sequence);
                    }
                    Some("ask") => {
                        self.asked.insert(head.id.clone());
                    }
                    _ => {}
                }
            }
            "approval" if self.asked.remove(&reference) && text("answer") == Some("allow") => {
                self.running.insert(reference, sequence);
            }
            "result" => {
                self.running.remove(&reference);
            }
            "gap" => {
                let detail = text("detail").unwrap_or_default();
                self.notes.push(format!(
                    "gap at seq {sequence}: {}: {detail}",
                    text("reason").unwrap_or_default()
                ));
            }
            "repair" => self.repairs.push((sequence, text("why").unwrap_or_default().to_owned())),
            "prune" => self.remember_pruned(value),
            _ => {}
        }
        let time = text("time").unwrap_or_default();
        if time < self.clock.0.as_str() {
            self.clock.1 += 1;
        }
        self.clock.0 = time.to_owned();
    }

    fn remember_pruned(&mut self, value: &Value) {
        for segment in value.get("segments").and_then(Value::elements).unwrap_or_default() {
            let text = |key: &str| segment.get(key).and_then(Value::text);
            let last = segment.get("last_seq").and_then(Value::whole);
            if let (Some(name), Some(last), Some(hash)) =
                (text("name"), last, text("last_sha256").and_then(unhex))
            {
                self.pruned.insert(name.to_owned(), (last, hash));
            }
        }
    }

    /// Adds findings about tiles, for lines that hold.
    pub(super) fn tiles(&self, report: &mut Report) {
        for name in &self.wrong_tiles {
            report.add(Finding::new(
                "tile_mismatch",
                format!("`{name}` lacks the hashes of the records"),
            ));
        }
    }

    /// Adds what is never kept silent.
    pub(super) fn notes(&self, context: &Context, options: &Options, report: &mut Report) {
        let signed = context.signed();
        let records = self.records();
        if self.broken.is_none() && records > signed {
            let last = records - 1;
            report.notes.push(format!(
                "{} records, seq {signed}\u{2013}{last}, are chained but not covered by a signature",
                records - signed
            ));
        }
        if self.torn > 0 && records >= signed {
            report.notes.push(format!("the last record is incomplete: {} bytes", self.torn));
        }
        if self.padding {
            report.notes.push("the last segment is padded with zeros".into());
        }
        if self.missing_tiles > 0 {
            report.notes.push(format!(
                "{} full tiles are missing; the lines can make them again",
                self.missing_tiles
            ));
        }
        if !self.running.is_empty() {
            report
                .notes
                .push(format!("{} granted commands have no result (yet)", self.running.len()));
        }
        if self.clock.1 > 0 {
            report.notes.push(format!("the clock went back {} times", self.clock.1));
        }
        report.notes.extend(self.notes.iter().cloned());
        for (sequence, why) in &self.repairs {
            match options.repairs {
                Repairs::Accepted => {
                    report.notes.push(format!("a loss was accepted at seq {sequence}: {why}"))
                }
                Repairs::Refused => report.add(Finding {
                    sequence: Some(*sequence),
                    ..Finding::new("accepted_loss", format!("a person accepted a loss: {why}"))
                }),
            }
        }
    }
}
