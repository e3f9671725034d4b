//! Damage of a log: what was done to which record, once it is known that something was.
//!
//! The hash that a record must have is known from the tiles and from the cache of the tree; where those do not
//! reach, from the record behind it, which names the digest of the one before.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};

use stockade_text::json::Value;

use super::super::files;
use super::super::hash::{Hash, hex, sha256};
use super::super::line::{self, Head, Lines, Step};
use super::super::tree::{leaf, tile_path};
use super::folder::Contents;
use super::scan::Scan;
use super::{Context, Finding, Report, Source};

/// The leaves that were stored beside the lines.
pub(super) struct Stored<'a> {
    context: &'a Context,
    tile: Option<(u64, Vec<u8>)>,
}

impl<'a> Stored<'a> {
    pub(super) fn new(context: &'a Context) -> Stored<'a> {
        Stored { context, tile: None }
    }

    /// Returns the stored leaf of record `sequence`.
    pub(super) fn leaf(&mut self, sequence: u64) -> Option<Hash> {
        let (index, place) = (sequence / 256, usize::try_from(sequence % 256).ok()?);
        if self.tile.as_ref().is_none_or(|(number, _)| *number != index) {
            let path = self.context.directory.join(tile_path(0, index));
            let content = files::read(&path).ok().flatten().unwrap_or_default();
            self.tile = Some((index, content));
        }
        let (_, content) = self.tile.as_ref()?;
        let in_tile =
            content.get(32 * place..32 * place + 32).and_then(|hash| Hash::try_from(hash).ok());
        in_tile.or_else(|| {
            let edge = self.context.edge.as_ref().filter(|edge| edge.next() / 256 == index)?;
            edge.tree.edge().first()?.get(place).copied()
        })
    }
}

/// A line and where it stands.
struct Item {
    segment: u64,
    line: u64,
    offset: u64,
    hash: Hash,
    head: Result<Head, String>,
}

impl Item {
    fn finding(&self, code: &'static str, sequence: u64, message: String) -> Finding {
        Finding {
            code,
            segment: Some(files::segment_name(self.segment)),
            line: Some(self.line),
            sequence: Some(sequence),
            offset: Some(self.offset),
            message,
        }
    }

    fn sequence(&self) -> Option<u64> {
        self.head.as_ref().ok().map(|head| head.sequence)
    }
}

/// The lines of some segments, one after the other.
struct Walk<'a> {
    context: &'a Context,
    segments: std::iter::Copied<std::slice::Iter<'a, u64>>,
    open: Option<(u64, u64, Lines<BufReader<File>>)>,
}

impl<'a> Walk<'a> {
    fn new(context: &'a Context, segments: &'a [u64]) -> Walk<'a> {
        Walk { context, segments: segments.iter().copied(), open: None }
    }

    fn next(&mut self) -> io::Result<Option<Item>> {
        loop {
            if let Some((segment, line, lines)) = &mut self.open {
                let offset = lines.offset;
                *line += 1;
                let (content, fault) = match lines.next()? {
                    Step::Line(content) => (Some(content), None),
                    Step::Rubbish => (Some(Vec::new()), Some("there are bytes after the padding")),
                    Step::End | Step::Torn(_) => (None, None),
                };
                if let Some(content) = content {
                    let head = match fault {
                        Some(fault) => Err(fault.to_owned()),
                        None => line::read(&content).map(|(head, _)| head),
                    };
                    let hash = sha256(&[&content]);
                    let item = Item { segment: *segment, line: *line, offset, hash, head };
                    if fault.is_some() {
                        self.open = None;
                    }
                    return Ok(Some(item));
                }
            }
            let Some(segment) = self.segments.next() else { return Ok(None) };
            let path = self.context.directory.join(files::segment_name(segment));
            self.open = Some((segment, 0, Lines::new(BufReader::new(File::open(path)?), 0)));
        }
    }
}

/// Adds findings about what the scan saw; at least one.
pub(super) fn run(
    context: &Context,
    scan: &Scan,
    contents: &Contents,
    report: &mut Report,
) -> io::Result<()> {
    let before = report.finding_count;
    let segments = in_place(context, contents, report)?;
    let mut diagnosis = Diagnosis {
        stored: Stored::new(context),
        claims: claims(context, &segments)?,
        due: 0,
        missing: Vec::new(),
        segment: 0,
    };
    let mut walk = Walk::new(context, &segments);
    let mut current = walk.next()?;
    while let Some(item) = current {
        let next = walk.next()?;
        diagnosis.look(&item, next.as_ref(), report);
        current = next;
    }
    let due = diagnosis.due;
    for (finding, _) in diagnosis.missing {
        report.add(finding);
    }
    end(context, contents, due, before, report);
    if let (true, Some(broken)) = (report.finding_count == before, &scan.broken) {
        report.add(broken.clone());
    }
    Ok(())
}

/// Returns the segments that stand where they belong; names the others.
fn in_place(context: &Context, contents: &Contents, report: &mut Report) -> io::Result<Vec<u64>> {
    let mut kept = Vec::new();
    let mut expected = contents.segments.first().copied().unwrap_or(1).min(1);
    for number in &contents.segments {
        let segment = Some(files::segment_name(*number));
        for missing in expected..*number {
            let segment = Some(files::segment_name(missing));
            report.add(Finding {
                segment,
                ..Finding::new("missing_segment", "the segment is missing")
            });
        }
        expected = number + 1;
        let path = context.directory.join(files::segment_name(*number));
        let mut lines = Lines::new(BufReader::new(File::open(path)?), 0);
        let Step::Line(content) = lines.next()? else {
            report.add(Finding {
                segment,
                ..Finding::new("missing_segment", "the segment is empty")
            });
            continue;
        };
        let Ok((head, value)) = line::read(&content) else {
            kept.push(*number);
            continue;
        };
        let named = value.get("number").and_then(Value::whole);
        let second = match lines.next()? {
            Step::Line(content) => line::read(&content).ok().map(|(head, _)| head),
            Step::End | Step::Torn(_) | Step::Rubbish => None,
        };
        if head.chain != context.chain()
            && second.as_ref().is_none_or(|second| second.chain != context.chain())
        {
            let message = "the segment belongs to another log";
            report.add(Finding { segment, ..Finding::new("foreign", message) });
        } else if named.is_some_and(|named| named != *number)
            && second.as_ref().is_none_or(|second| second.previous == sha256(&[&content]))
        {
            // The record behind the header confirms it, so it is whole and in another place.
            let message = format!("the segment is number {}", named.unwrap_or_default());
            report.add(Finding { segment, ..Finding::new("segment_order", message) });
        } else {
            kept.push(*number);
        }
    }
    Ok(kept)
}

/// Returns, for records whose leaf is not stored, what the record behind says of them.
fn claims(context: &Context, segments: &[u64]) -> io::Result<BTreeMap<u64, Hash>> {
    let mut stored = Stored::new(context);
    let mut claims = BTreeMap::new();
    let mut walk = Walk::new(context, segments);
    while let Some(item) = walk.next()? {
        let Ok(head) = item.head else { continue };
        let Some(before) = head.sequence.checked_sub(1) else { continue };
        if stored.leaf(before).is_none() {
            claims.entry(before).or_insert(leaf(&head.previous));
        }
    }
    Ok(claims)
}

struct Diagnosis<'a> {
    stored: Stored<'a>,
    claims: BTreeMap<u64, Hash>,
    /// The record that is due.
    due: u64,
    /// Ranges that were skipped; a record of them that stands elsewhere was moved.
    missing: Vec<(Finding, (u64, u64))>,
    segment: u64,
}

/// How a line compares with what its record must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Same,
    Other,
    /// Another than the record behind says.
    Disputed,
    Unknown,
}

impl Diagnosis<'_> {
    fn compare(&mut self, sequence: u64, hash: &Hash) -> Likeness {
        let found = leaf(hash);
        let (expected, other) = match self.stored.leaf(sequence) {
            Some(stored) => (Some(stored), Likeness::Other),
            None => (self.claims.get(&sequence).copied(), Likeness::Disputed),
        };
        match expected {
            Some(expected) if expected == found => Likeness::Same,
            Some(_) => other,
            None => Likeness::Unknown,
        }
    }

    fn look(&mut self, item: &Item, next: Option<&Item>, report: &mut Report) {
        if item.segment != self.segment {
            if self.segment != 0 && item.segment != self.segment + 1
                || self.segment == 0 && item.segment != 1
            {
                // A segment is missing, which is told already.
                self.due = item.sequence().unwrap_or(self.due);
            }
            self.segment = item.segment;
        }
        let due = self.due;
        let head = match &item.head {
            Ok(head) => head,
            Err(reason) => {
                report.add(item.finding(
                    "not_a_record",
                    due,
                    format!("the line is not a record: {reason}"),
                ));
                let is_extra = next.is_some_and(|next| next.sequence() == Some(due));
                self.due += u64::from(!is_extra);
                return;
            }
        };
        let likeness = self.compare(due, &item.hash);
        if likeness == Likeness::Same || likeness == Likeness::Unknown && head.sequence == due {
            self.due += 1;
        } else if head.sequence != due && self.is_genuine(head.sequence, &item.hash) {
            self.misplaced(item, head.sequence, report);
        } else {
            self.altered(item, head, likeness, next, report);
        }
    }

    fn is_genuine(&mut self, sequence: u64, hash: &Hash) -> bool {
        match self.compare(sequence, hash) {
            Likeness::Same => true,
            Likeness::Unknown => sequence > self.due,
            Likeness::Other | Likeness::Disputed => false,
        }
    }

    /// A record as it was written, in another place than it was.
    fn misplaced(&mut self, item: &Item, sequence: u64, report: &mut Report) {
        let due = self.due;
        if sequence > due {
            let last = sequence - 1;
            let what = if last == due {
                format!("record {due} is")
            } else {
                format!("records {due}\u{2013}{last} are")
            };
            let finding = item.finding(
                "missing_record",
                due,
                format!("{what} missing in front of this line"),
            );
            self.missing.push((finding, (due, last)));
            self.due = sequence + 1;
            return;
        }
        let gap =
            self.missing.iter().position(|(_, (first, last))| (*first..=*last).contains(&sequence));
        match gap {
            Some(gap) => {
                report.add(item.finding(
                    "reordered",
                    sequence,
                    format!("record {sequence} is in another place"),
                ));
                if self.missing.get(gap).is_some_and(|(_, (first, last))| first == last) {
                    self.missing.remove(gap);
                }
            }
            None => report.add(item.finding(
                "duplicate",
                sequence,
                format!("duplicate record {sequence}"),
            )),
        }
    }

    fn altered(
        &mut self,
        item: &Item,
        head: &Head,
        likeness: Likeness,
        next: Option<&Item>,
        report: &mut Report,
    ) {
        let due = self.due;
        let next_head = next.and_then(|next| next.head.as_ref().ok());
        let is_followed = next_head.is_some_and(|next| next.previous == item.hash);
        let next_is_due = match (next, next_head) {
            (Some(next), Some(head)) => {
                head.sequence == due
                    && self.compare(due, &next.hash) != Likeness::Other
                    && !is_followed
            }
            _ => false,
        };
        let next_is_same =
            next.is_some_and(|next| self.compare(due + 1, &next.hash) == Likeness::Same);
        let next_is_disputed = next.is_some_and(|next| {
            matches!(self.compare(due + 1, &next.hash), Likeness::Other | Likeness::Disputed)
        });
        if next_is_due {
            report.add(item.finding(
                "inserted",
                due,
                format!("the line before record {due} does not belong to this log"),
            ));
            return;
        }
        self.due += 1;
        if likeness == Likeness::Disputed && next_is_disputed {
            // The record that disputes it is itself not as it was written.
            return;
        }
        if is_followed && next_is_same {
            report.add(Finding::new(
                "tile_mismatch",
                format!("`{}` lacks the hash of record {due}", tile_path(0, due / 256)),
            ));
        } else if is_followed || self.is_told(head) {
            self.forged(item);
        } else {
            let message = format!(
                "the hash of the line is {}, which differs from the recorded one",
                short(&item.hash)
            );
            report.add(item.finding("edited", due, message));
        }
    }

    /// Says whether the line follows one that was told as forged.
    fn is_told(&self, head: &Head) -> bool {
        self.missing.last().is_some_and(|(finding, (_, last))| {
            finding.code == "forged" && *last + 1 == head.sequence
        })
    }

    /// One finding for a run of lines that were made anew.
    fn forged(&mut self, item: &Item) {
        let sequence = self.due - 1;
        if let Some((finding, (_, last))) = self.missing.last_mut()
            && finding.code == "forged"
            && *last + 1 == sequence
        {
            *last = sequence;
            return;
        }
        let message = "the records from here on were rewritten: their chain is intact, but they differ from the signed ones";
        let finding = item.finding("forged", sequence, message.into());
        self.missing.push((finding, (sequence, sequence)));
    }
}

fn short(hash: &Hash) -> String {
    hex(hash).chars().take(12).collect::<String>() + "\u{2026}"
}

/// Adds what is missing at the end.
fn end(context: &Context, contents: &Contents, due: u64, before: u64, report: &mut Report) {
    let signed = context.signed();
    let last = contents.segments.last().copied().unwrap_or(0);
    let is_sealed = contents.seals.iter().any(|it| it.source == Source::Seal(last));
    if due >= signed
        || report.findings.iter().any(|it| it.code == "segment_order")
            && report.finding_count > before
    {
        return;
    }
    let name = |number: u64| Some(files::segment_name(number));
    if is_sealed {
        report.add(Finding {
            segment: name(last + 1),
            sequence: Some(due),
            ..Finding::new(
                "missing_segment",
                format!("records {due}\u{2013}{} are missing", signed - 1),
            )
        });
    } else {
        report.add(Finding {
            segment: name(last),
            sequence: Some(due),
            ..Finding::new(
                "truncated",
                format!("records {due}\u{2013}{} are missing at the end", signed - 1),
            )
        });
    }
}
