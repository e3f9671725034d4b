//! Says whether a log is what was written, and where it is not.
//!
//! The lines are read once, in order: each must follow the one before, and the tree above them must have
//! the roots that were signed. Only when something does not hold, `diagnose` reads again to find out what
//! was done to which record. Nothing is written; a copy can be checked, and a log that grows is checked up
//! to the checkpoint that was read first.

mod diagnose;
mod folder;
mod scan;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::checkpoint::{Checkpoint, PublicKey};
use super::files;
use super::position::{self, Position};
use scan::Scan;

/// The log to check, and what it is checked against.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the log.
    pub directory: PathBuf,
    /// Where the first public key is believed from.
    pub trust: Trust,
    /// Checkpoints that were kept elsewhere.
    pub checkpoints: Vec<PathBuf>,
    /// Whether notes count as findings.
    pub strictness: Strictness,
    /// Whether losses that a person accepted are findings.
    pub repairs: Repairs,
}

/// Where the first public key is believed from.
#[derive(Debug, Clone)]
pub enum Trust {
    /// A state folder: its `trust.vkey` and its `head`.
    State(PathBuf),
    /// A file with a `vkey` line.
    KeyFile(PathBuf),
}

/// `--strict`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Notes are told.
    Notes,
    /// Notes count as damage.
    Strict,
}

/// `--accept-repairs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repairs {
    /// An accepted loss is a finding.
    Refused,
    /// An accepted loss is a note.
    Accepted,
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable code, such as `edited`.
    pub code: &'static str,
    /// File name of the segment.
    pub segment: Option<String>,
    /// Line in the segment, from 1.
    pub line: Option<u64>,
    /// Sequence number of the record.
    pub sequence: Option<u64>,
    /// Byte in the segment at which the line begins.
    pub offset: Option<u64>,
    /// One sentence.
    pub message: String,
}

impl Finding {
    fn new(code: &'static str, message: impl Into<String>) -> Finding {
        Finding {
            code,
            segment: None,
            line: None,
            sequence: None,
            offset: None,
            message: message.into(),
        }
    }
}

/// Most findings that are listed; all are counted.
const LISTED: usize = 100;

/// Result of a check.
#[derive(Debug, Clone)]
pub struct Report {
    /// Reason why the log could not be checked.
    pub unchecked: Option<String>,
    pub chain: String,
    pub segments: u64,
    pub records: u64,
    checkpoint: Option<Checkpoint>,
    /// Size, and whether the log extends it, for each checkpoint that was given.
    pub anchors: Vec<(u64, bool)>,
    /// All findings, the first hundred in full.
    pub findings: Vec<Finding>,
    pub finding_count: u64,
    pub notes: Vec<String>,
    strictness: Strictness,
}

impl Report {
    fn unchecked(reason: impl Into<String>) -> Report {
        Report {
            unchecked: Some(reason.into()),
            chain: String::new(),
            segments: 0,
            records: 0,
            checkpoint: None,
            anchors: Vec::new(),
            findings: Vec::new(),
            finding_count: 0,
            notes: Vec::new(),
            strictness: Strictness::Notes,
        }
    }

    fn add(&mut self, finding: Finding) {
        self.finding_count += 1;
        if self.findings.len() < LISTED {
            self.findings.push(finding);
        }
    }

    /// Says whether the log is intact.
    pub fn is_intact(&self) -> bool {
        self.exit_code() == 0
    }

    /// Returns the exit status: 0 intact, 1 changed or damaged, 122 could not be checked.
    pub fn exit_code(&self) -> u8 {
        let is_strict = self.strictness == Strictness::Strict;
        if self.finding_count > 0 {
            1
        } else if self.unchecked.is_some() {
            122
        } else {
            u8::from(is_strict && !self.notes.is_empty())
        }
    }

    /// Returns the report as one object.
    pub fn json(&self) -> Value {
        let finding = |it: &Finding| {
            json!({
                "code": it.code, "segment": it.segment, "line": it.line, "seq": it.sequence,
                "offset": it.offset, "message": it.message,
            })
        };
        let checkpoint = self
            .checkpoint
            .as_ref()
            .map(|it| json!({ "size": it.size, "root": it.root_text(), "key": it.origin }));
        let size = self.checkpoint.as_ref().map_or(0, |it| it.size);
        let anchors: Vec<Value> =
            self.anchors.iter().map(|(size, ok)| json!({ "size": size, "ok": ok })).collect();
        json!({
            "ok": self.is_intact(),
            "chain": self.chain,
            "segments": self.segments,
            "records": self.records,
            "checkpoint": checkpoint,
            "above_checkpoint": self.records.saturating_sub(size),
            "anchors": anchors,
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "finding_count": self.finding_count,
            "notes": self.notes,
            "unchecked": self.unchecked,
            "claim": CLAIM,
        })
    }

    /// Returns the report as lines for people.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for it in &self.findings {
            let place = [
                it.segment.clone(),
                it.line.map(|line| format!("line {line}")),
                it.sequence.map(|sequence| format!("seq {sequence}")),
            ];
            let place: Vec<String> = place.into_iter().flatten().collect();
            lines.push(format!(
                "{}: {}{}",
                it.code,
                stockade_text::visible(&it.message),
                match place.as_slice() {
                    [] => String::new(),
                    some => format!(" ({})", some.join(", ")),
                }
            ));
        }
        if self.finding_count > self.findings.len() as u64 {
            lines.push(format!("{} findings in all", self.finding_count));
        }
        lines.extend(
            self.notes.iter().map(|note| format!("note: {}", stockade_text::visible(note))),
        );
        lines.push(match (&self.unchecked, self.exit_code()) {
            (Some(reason), 122) => {
                format!("could not be checked: {}", stockade_text::visible(reason))
            }
            (_, 0) => format!("intact: {} records in {} segments", self.records, self.segments),
            _ => format!("not intact: {} records in {} segments", self.records, self.segments),
        });
        lines.push(CLAIM.into());
        lines.join("\n") + "\n"
    }
}

/// Claim of a check in user mode.
const CLAIM: &str = "user mode: detects accidents, disk faults and edits by those without this account's key; \
                     keep checkpoints elsewhere for more";

/// A signed note that the log must extend.
#[derive(Debug, Clone)]
struct Bound {
    source: Source,
    checkpoint: Checkpoint,
}

/// Where a signed note comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Checkpoint,
    Head,
    Seal(u64),
    Given(PathBuf),
}

impl Source {
    fn name(&self) -> String {
        match self {
            Source::Checkpoint => "the checkpoint".into(),
            Source::Head => "the newest checkpoint that this state knows".into(),
            Source::Seal(number) => format!("the seal of segment {number}"),
            Source::Given(path) => format!("the checkpoint `{}`", path.display()),
        }
    }
}

/// Inputs that the check of one log needs throughout.
struct Context {
    directory: PathBuf,
    key: PublicKey,
    bounds: Vec<Bound>,
    /// The cache of the tree, if the state has one: hashes of the newest records.
    edge: Option<Position>,
}

impl Context {
    fn chain(&self) -> &str {
        position::chain(&self.key)
    }

    /// The number of records that were signed.
    fn signed(&self) -> u64 {
        let newest = self.bounds.iter().filter(|it| it.source == Source::Checkpoint);
        newest.map(|it| it.checkpoint.size).max().unwrap_or(0)
    }
}

/// Checks a log. Reads only.
pub fn verify(options: &Options) -> Report {
    let key_path = match &options.trust {
        Trust::State(state) => state.join("trust.vkey"),
        Trust::KeyFile(path) => path.clone(),
    };
    let key = match files::read(&key_path) {
        Ok(Some(text)) => std::str::from_utf8(&text).ok().and_then(PublicKey::read),
        Ok(None) | Err(_) => None,
    };
    let Some(key) = key else {
        return Report::unchecked(format!("no trusted key at `{}`", key_path.display()));
    };
    let mut report = Report::unchecked("");
    report.unchecked = None;
    report.strictness = options.strictness;
    report.chain = position::chain(&key).to_owned();
    let mut context =
        Context { directory: options.directory.clone(), key, bounds: Vec::new(), edge: None };
    if let Err(error) = collect(options, &mut context, &mut report) {
        report.unchecked = Some(error);
        return report;
    }
    let outcome = folder::check(&context, &mut report).and_then(|contents| {
        let scan = Scan::run(&context, &contents)?;
        report.segments = contents.segments.len() as u64;
        report.records = scan.records();
        if let Some(newer) = scan.broken.as_ref().filter(|broken| broken.code == scan::NEWER) {
            let segment = newer.segment.as_deref().unwrap_or_default();
            let line = newer.line.unwrap_or_default();
            report.unchecked = Some(format!(
                "a newer stockade wrote line {line} of `{segment}`: {}; check the log with that version",
                newer.message
            ));
            return Ok(());
        }
        conclude(options, &context, &scan, &contents, &mut report)
    });
    if let Err(error) = outcome {
        report.unchecked = Some(super::error::words(&error));
    }
    report
}

/// Reads the signed notes. An error means that nothing can be said.
fn collect(options: &Options, context: &mut Context, report: &mut Report) -> Result<(), String> {
    let mut sources = vec![(Source::Checkpoint, options.directory.join("checkpoint"))];
    if let Trust::State(state) = &options.trust {
        sources.push((Source::Head, state.join("head")));
        let edge = files::read(&state.join("edge")).ok().flatten();
        context.edge = edge.and_then(|text| Position::load(&text));
    } else {
        report.notes.push(
            "only a public key was given: a rollback to an older state cannot be seen".into(),
        );
    }
    sources
        .extend(options.checkpoints.iter().map(|path| (Source::Given(path.clone()), path.clone())));
    let keys = std::slice::from_ref(&context.key);
    for (source, path) in sources {
        let note = match believed_or_last(&path, keys) {
            Ok(Some(note)) => note,
            Ok(None) => {
                match source {
                    Source::Checkpoint => {
                        report
                            .add(Finding::new("no_checkpoint", "the newest checkpoint is missing"));
                    }
                    Source::Head => report
                        .notes
                        .push("the state has no `head`: a rollback cannot be seen".into()),
                    Source::Seal(_) | Source::Given(_) => {
                        return Err(format!("`{}` does not exist", path.display()));
                    }
                }
                continue;
            }
            Err(error) => {
                return Err(format!("`{}`: {}", path.display(), super::error::words(&error)));
            }
        };
        match Checkpoint::read(&note, keys) {
            Ok(checkpoint) => context.bounds.push(Bound { source, checkpoint }),
            Err(doubt) => {
                let code = if note.is_empty() && source == Source::Checkpoint {
                    "no_checkpoint"
                } else {
                    "bad_signature"
                };
                report.add(Finding::new(code, format!("{}: {}", source.name(), doubt.words())));
            }
        }
    }
    report.checkpoint = context
        .bounds
        .iter()
        .find(|it| it.source == Source::Checkpoint)
        .map(|it| it.checkpoint.clone());
    Ok(())
}

/// Reads a note; again when it is not believed, because a writer may just have been at it.
fn believed_or_last(
    path: &std::path::Path,
    keys: &[PublicKey],
) -> std::io::Result<Option<Vec<u8>>> {
    let mut note = files::read(path)?;
    for _ in 0..3 {
        if note.as_ref().is_none_or(|note| Checkpoint::read(note, keys).is_ok()) {
            break;
        }
        note = files::read(path)?;
    }
    Ok(note)
}

/// Turns what the scan saw into findings and notes.
fn conclude(
    options: &Options,
    context: &Context,
    scan: &Scan,
    contents: &folder::Contents,
    report: &mut Report,
) -> std::io::Result<()> {
    let before = report.finding_count;
    let is_whole = scan.broken.is_none();
    let wrong_seals = !scan.seals_hold();
    for (bound, holds) in &scan.roots {
        if let Source::Given(_) = bound.source {
            report.anchors.push((bound.checkpoint.size, *holds));
        }
    }
    let wrong: Vec<&Bound> =
        scan.roots.iter().filter(|(_, holds)| !holds).map(|(bound, _)| bound).collect();
    if !is_whole || wrong.iter().any(|it| it.source == Source::Checkpoint) || wrong_seals {
        diagnose::run(context, scan, contents, report)?;
    }
    for bound in &wrong {
        let beyond = bound.checkpoint.size > scan.records();
        let (code, what) = match (&bound.source, beyond) {
            (Source::Head | Source::Given(_), true) => ("rollback", "the log is shorter than"),
            (Source::Head | Source::Given(_), false) => {
                ("forked", "the log has another history than")
            }
            (Source::Checkpoint, true) if report.finding_count == before => {
                ("truncated", "the log is shorter than")
            }
            (Source::Checkpoint | Source::Seal(_), _) if report.finding_count == before => {
                ("forged", "the records are not those of")
            }
            (Source::Checkpoint | Source::Seal(_), _) => continue,
        };
        let is_kept = matches!(bound.source, Source::Head | Source::Given(_));
        let is_explained = is_kept && wrong.iter().any(|it| it.source == Source::Checkpoint);
        if !is_explained {
            let message =
                format!("{what} {} of {} records", bound.source.name(), bound.checkpoint.size);
            report.add(Finding {
                sequence: bound.checkpoint.size.checked_sub(1),
                ..Finding::new(code, message)
            });
        }
    }
    if report.finding_count == before {
        scan.tiles(report);
    }
    scan.notes(context, options, report);
    Ok(())
}

#[cfg(test)]
mod tests;
