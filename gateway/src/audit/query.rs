//! Questions to a log: which records, and why something was decided.
//!
//! A front end calls [`search`], [`tail`], [`why`] or [`report`] with the folder of the log. Each answer
//! holds stored records: `--json` prints [`Record::bytes`] and a line feed, byte for byte; a terminal gets
//! [`table`] or [`story::Story::text`], in which text from outside is escaped. [`Answer::broken`] is to be told
//! whenever it is there: the chain of what was read does not hold. Exit status: 0 found, 1 nothing found,
//! 122 for an error. Nothing is written and no key is needed.

pub(crate) mod filter;
mod report;
mod story;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stockade_parser::json::{Kind, Value};

use super::error::{Error, Scene};
use super::escape::escape;
use super::files;
use super::hash::{Hash, sha256};
use super::line::{self, Head, Lines, Step};
pub(crate) use filter::Filter;
pub(crate) use report::{By, report};
pub(crate) use story::{Which, why};

/// A stored record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// The line as it is stored, without line feed.
    pub(crate) bytes: Vec<u8>,
    pub(crate) sequence: u64,
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) reference: Option<String>,
    value: Value,
}

impl Record {
    /// Returns the value below these keys.
    fn at(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().try_fold(&self.value, |value, key| value.get(key))
    }

    /// Returns the text below these keys; of bytes that are no UTF-8, their base64.
    fn text(&self, keys: &[&str]) -> Option<&str> {
        let value = self.at(keys)?;
        value.text().or_else(|| value.get("b64")?.text())
    }

    fn whole(&self, keys: &[&str]) -> Option<u64> {
        self.at(keys)?.whole()
    }

    fn list(&self, keys: &[&str]) -> &[Value] {
        self.at(keys).and_then(Value::elements).unwrap_or_default()
    }

    /// Returns `exit 0`, `signal TERM` or the agreement of a result.
    fn ending(&self) -> Option<String> {
        if self.kind != "result" {
            return None;
        }
        let exit = match self.at(&["exit"]).map(|value| &value.kind) {
            Some(Kind::Number(digits)) => Some(digits.clone()),
            Some(_) | None => None,
        };
        exit.or_else(|| self.text(&["signal"]).map(str::to_owned))
            .or_else(|| self.text(&["agreement"]).map(str::to_owned))
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    /// The records, oldest first unless asked otherwise.
    pub(crate) records: Vec<Record>,
    /// How each decision ended, by its id.
    pub(crate) endings: BTreeMap<String, String>,
    /// Where the chain does not hold; what stands behind was still read.
    pub(crate) broken: Option<String>,
}

/// Which end of the log is shown first, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Oldest first, the first so many.
    Oldest(usize),
    /// Newest first, the last so many.
    Newest(usize),
}

/// Returns the records that `filter` lets through.
pub(crate) fn search(directory: &Path, filter: &Filter, order: Order) -> Result<Answer, Error> {
    let mut answer = Answer::default();
    let mut reader = Reader::new(directory);
    while let Some(record) = reader.next()? {
        if let (Some(ending), Some(reference)) = (record.ending(), &record.reference) {
            answer.endings.insert(reference.clone(), ending);
        }
        if !filter.lets(&record) {
            continue;
        }
        match order {
            Order::Oldest(most) if answer.records.len() >= most => {}
            Order::Newest(most) if answer.records.len() >= most => {
                if most > 0 {
                    answer.records.remove(0);
                    answer.records.push(record);
                }
            }
            Order::Oldest(_) | Order::Newest(_) => answer.records.push(record),
        }
    }
    if matches!(order, Order::Newest(_)) {
        answer.records.reverse();
    }
    let shown: std::collections::BTreeSet<&str> =
        answer.records.iter().map(|record| record.id.as_str()).collect();
    answer.endings.retain(|id, _| shown.contains(id.as_str()));
    answer.broken = reader.broken;
    Ok(answer)
}

/// Returns the last `count` records that `filter` lets through, oldest first, and what follows the log
/// from there.
pub(crate) fn tail(
    directory: &Path,
    filter: &Filter,
    count: usize,
) -> Result<(Answer, Follow), Error> {
    let mut answer = search(directory, filter, Order::Newest(count))?;
    answer.records.reverse();
    let mut reader = Reader::new(directory);
    while reader.next()?.is_some() {}
    Ok((answer, Follow { reader, filter: filter.clone() }))
}

/// Follows a log that grows, over rotations.
#[derive(Debug)]
pub(crate) struct Follow {
    reader: Reader,
    filter: Filter,
}

impl Follow {
    /// Returns the records that came since the last call; the caller decides how often it asks. An error
    /// means that the log is down, which ends the stream with a notice.
    pub(crate) fn poll(&mut self) -> Result<Vec<Record>, Error> {
        let mut records = Vec::new();
        while let Some(record) = self.reader.next()? {
            if self.filter.lets(&record) {
                records.push(record);
            }
        }
        Ok(records)
    }

    /// Returns where the chain does not hold.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.reader.broken.as_deref()
    }
}

/// Returns the names of the programs of a decision, or of an execution.
fn programs(record: &Record) -> impl Iterator<Item = &str> {
    let commands = record.list(&["parsed", "commands"]).iter();
    let of_commands =
        commands.filter_map(|command| command.get("argv")?.elements()?.first()?.text());
    let exe = record.text(&["exe"]).filter(|_| record.kind == "exec");
    of_commands.chain(exe).map(|program| program.rsplit('/').next().unwrap_or(program))
}

/// Returns the answer as a table: `SEQ TIME VERDICT BY RULE WHERE USER AGENT EXIT COMMAND`.
pub(crate) fn table(answer: &Answer) -> String {
    let mut rows = vec![
        ["SEQ", "TIME", "VERDICT", "BY", "RULE", "WHERE", "USER", "AGENT", "EXIT", "COMMAND"]
            .map(str::to_owned),
    ];
    rows.extend(answer.records.iter().map(|record| row(record, &answer.endings)));
    let mut widths = [0; 10];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(record: &Record, endings: &BTreeMap<String, String>) -> [String; 10] {
    let shown = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), escape);
    let rules = record.list(&["rules"]);
    let is_decisive = |rule: &&Value| rule.get("decisive").and_then(Value::boolean) == Some(true);
    let rule = rules.iter().find(is_decisive);
    let place = rule.and_then(|rule| {
        let file = rule.get("file")?.text()?;
        Some(format!("{}:{}", escape(file), rule.get("line")?.whole()?))
    });
    let user = record.whole(&["caller", "uid"]).or_else(|| record.whole(&["who", "uid"]));
    let ending = record.ending().or_else(|| endings.get(&record.id).cloned());
    let time = record.text(&["time"]).unwrap_or_default();
    let command =
        record.text(&["request", "command"]).or_else(|| record.text(&["request", "tool"]));
    let detail = command.or_else(|| record.text(&["to", "host"]));
    let detail = detail.or_else(|| record.text(&["detail"])).or(record.reference.as_deref());
    [
        record.sequence.to_string(),
        time.get(..19).map_or_else(|| escape(time), |time| format!("{time}Z")),
        shown(record.text(&["verdict", "decision"]).or(Some(&record.kind))),
        shown(record.text(&["verdict", "by"])),
        shown(rule.and_then(|rule| rule.get("text")?.text())),
        place.unwrap_or_else(|| "-".into()),
        user.map_or_else(|| "-".into(), |uid| uid.to_string()),
        shown(record.text(&["agent", "name"])),
        ending.map_or_else(|| "-".into(), |ending| escape(&ending)),
        shown(detail),
    ]
}

/// Reads records in order, over all segments, and watches the chain.
#[derive(Debug)]
struct Reader {
    directory: PathBuf,
    segment: u64,
    offset: u64,
    open: Option<Lines<std::io::BufReader<std::fs::File>>>,
    /// Number and digest of the last record.
    last: Option<(u64, Hash)>,
    broken: Option<String>,
}

impl Reader {
    fn new(directory: &Path) -> Reader {
        Reader {
            directory: directory.to_owned(),
            segment: 0,
            offset: 0,
            open: None,
            last: None,
            broken: None,
        }
    }

    /// Returns the next record; none at the end, which may be asked again later.
    fn next(&mut self) -> Result<Option<Record>, Error> {
        let scene = Scene { directory: self.directory.clone() };
        let path = self.directory.join(files::segment_name(self.segment.max(1)));
        let failed = scene.read(&path);
        loop {
            if self.open.is_none() && !self.enter().map_err(&failed)? {
                return Ok(None);
            }
            let Some(lines) = &mut self.open else { return Ok(None) };
            match lines.next().map_err(&failed)? {
                Step::Line(content) => {
                    self.offset = lines.offset;
                    if let Some(record) = self.take(content) {
                        return Ok(Some(record));
                    }
                }
                Step::End | Step::Torn(_) | Step::Rubbish => {
                    self.open = None;
                    let next = self.directory.join(files::segment_name(self.segment + 1));
                    if !next.exists() {
                        return Ok(None);
                    }
                    self.segment += 1;
                    self.offset = 0;
                }
            }
        }
    }

    /// Opens the current segment where it was left; says whether there is one.
    fn enter(&mut self) -> std::io::Result<bool> {
        use std::io::Seek as _;
        if self.segment == 0 {
            let Some(first) = files::segments(&self.directory)?.first().copied() else {
                return Ok(false);
            };
            self.segment = first;
        }
        let mut file = std::fs::File::open(self.directory.join(files::segment_name(self.segment)))?;
        file.seek(std::io::SeekFrom::Start(self.offset))?;
        let reader = std::io::BufReader::with_capacity(1 << 16, file);
        self.open = Some(Lines::new(reader, self.offset));
        Ok(true)
    }

    fn take(&mut self, bytes: Vec<u8>) -> Option<Record> {
        let place = format!("{} before byte {}", files::segment_name(self.segment), self.offset);
        let hash = sha256(&[&bytes]);
        let (head, value) = match line::read(&bytes) {
            Ok(read) => read,
            Err(reason) => {
                self.broken.get_or_insert(format!("{place}: not a record: {reason}"));
                self.last = None;
                return None;
            }
        };
        let Head { sequence, previous, id, kind, reference, .. } = head;
        if self.last.is_some_and(|(number, last)| number + 1 != sequence || last != previous) {
            self.broken
                .get_or_insert(format!("{place}: the record does not follow the one before"));
        }
        self.last = Some((sequence, hash));
        Some(Record { bytes, sequence, id, kind, reference, value })
    }
}

#[cfg(test)]
mod tests;
