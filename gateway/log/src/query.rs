//! Questions to a log: which records, and why something was decided.
//!
//! A front end calls [`search`], [`tail`], [`why`] or [`report`] with the places of the log. Each answer
//! holds stored records: `--json` prints [`Record::bytes`] and a line feed, byte for byte; a terminal gets
//! [`table`] or `Story::text`, in which text from outside is escaped. [`QueryResult::broken`] is to be told
//! whenever it is there: the chain of what was read does not hold. Exit status: 0 found, 1 nothing found,
//! 122 for an error. Nothing is written and no key is needed.

pub mod along;
mod backward;
pub mod filter;
mod reader;
mod report;
mod segments;
mod story;
mod unsigned;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use stockade_text::json::{Kind, Value};

use super::error::Error;
use super::references::References;
use super::{Places, clock, line};
use backward::Backward;
pub use filter::Filter;
use reader::{Reader, Wish};
pub use report::{By, report};
use stockade_text::visible;
pub use story::{Which, why};
use unsigned::Unsigned;

/// A stored record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The line as it is stored, without line feed.
    pub bytes: Vec<u8>,
    pub sequence: u64,
    pub id: String,
    pub kind: String,
    pub reference: Option<String>,
    value: Value,
}

impl Record {
    /// Reads a stored line.
    ///
    /// # Errors
    ///
    /// Says why the line is not a record.
    pub fn of_line(bytes: Vec<u8>) -> Result<Record, String> {
        reader::read(bytes).map(|(record, _)| record)
    }

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

/// Result of a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryResult {
    /// The records, oldest first unless asked otherwise.
    pub records: Vec<Record>,
    /// How each decision ended, by its id.
    pub endings: BTreeMap<String, String>,
    /// Sequence numbers of those records that no signature covered when they were appended.
    pub unsigned: BTreeSet<u64>,
    /// Where the chain of what was read does not hold; what stands behind was still read.
    pub broken: Option<String>,
}

/// Records after a record among which the note is that it was found without a signature: at most as many as are
/// appended at once.
const FOLLOWING: u64 = 1024;

/// The end of the log that is shown first, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Oldest first, the first so many.
    Oldest(usize),
    /// Newest first, the last so many.
    Newest(usize),
}

/// Returns the records that `filter` lets through. Segments that lie wholly outside of its times, or hold nothing that
/// belongs to its decision, are not read.
pub fn search(places: &Places, filter: &Filter, order: Order) -> Result<QueryResult, Error> {
    let mut answer = match order {
        Order::Oldest(most) => oldest(places, filter, most)?,
        Order::Newest(most) => newest(places, filter, most)?.0,
    };
    let shown: BTreeSet<&str> = answer.records.iter().map(|record| record.id.as_str()).collect();
    answer.endings.retain(|id, _| shown.contains(id.as_str()));
    Ok(answer)
}

fn oldest(places: &Places, filter: &Filter, most: usize) -> Result<QueryResult, Error> {
    let Some(id) = filter.reference.as_deref().filter(|_| filter.since.is_none()) else {
        let first = segments::first_since(&places.directory, filter.since.as_deref())?;
        return Ok(Forward::new(places, filter, most).read(first)?.answer);
    };
    // A decision and what belongs to it begin where the time in the id says, unless a clock was put back.
    let made = clock::ulid_time(id, Duration::ZERO);
    let likely = segments::first_since(&places.directory, made.as_deref())?;
    let found = Forward::new(places, filter, most).read(likely)?;
    if found.has_decision || likely == 0 {
        return Ok(found.answer);
    }
    Ok(Forward::new(places, filter, most).read(0)?.answer)
}

/// A search from older records to newer ones.
struct Forward<'a> {
    places: &'a Places,
    filter: &'a Filter,
    most: usize,
    answer: QueryResult,
    /// Decisions that are shown and whose end was not met yet.
    open: BTreeSet<String>,
    /// The decision that the filter is about was met.
    has_decision: bool,
}

impl<'a> Forward<'a> {
    fn new(places: &'a Places, filter: &'a Filter, most: usize) -> Forward<'a> {
        let (answer, open) = (QueryResult::default(), BTreeSet::new());
        Forward { places, filter, most, answer, open, has_decision: false }
    }

    fn read(mut self, first: u64) -> Result<Self, Error> {
        let directory = &self.places.directory;
        let mut unsigned = Unsigned::new(directory);
        let mut reader = Reader::at(directory, first);
        let last = segments::last_until(directory, self.filter.until.as_deref())?;
        while let Some(record) =
            reader.next_of(|line| self.wish(line), |segment| self.wants(segment, last))?
        {
            unsigned.see(&record);
            if let (Some(ending), Some(reference)) = (record.ending(), &record.reference) {
                self.open.remove(reference);
                self.answer.endings.insert(reference.clone(), ending);
            }
            self.has_decision |= self.filter.reference.as_ref() == Some(&record.id);
            if !self.is_full() && self.filter.lets(&record) {
                if record.text(&["runs"]) == Some("gateway") {
                    self.open.insert(record.id.clone());
                }
                self.answer.records.push(record);
            }
        }
        self.answer.unsigned = unsigned.among(&self.answer.records)?;
        self.answer.broken = reader.broken;
        Ok(self)
    }

    fn is_full(&self) -> bool {
        self.answer.records.len() >= self.most
    }

    /// Says whether a line is of use: to be shown, or because it tells of what is shown.
    fn wish(&self, line: &[u8]) -> Wish {
        let Some(glance) = line::glance(line) else { return Wish::Read };
        let last = self.answer.records.last().map_or(0, |last| last.sequence);
        if self.is_full() && self.open.is_empty() && glance.sequence > last + FOLLOWING {
            return Wish::End;
        }
        let tells = glance.kind == "gap"
            || glance.reference.is_some_and(|reference| self.open.contains(reference));
        let is_due = tells || (!self.is_full() && self.filter.may_let(&glance));
        if is_due { Wish::Read } else { Wish::Pass }
    }

    /// Says whether a closed segment may hold a line that is of use; `last` is that of the filter's time.
    fn wants(&self, segment: u64, last: Option<u64>) -> bool {
        let is_late = last.is_some_and(|last| segment > last);
        let reference = self.filter.reference.as_ref();
        if !self.is_full() && !is_late && (reference.is_none() || !self.has_decision) {
            return true;
        }
        let ids = self.open.iter().chain(reference).map(String::as_str);
        References::read(&self.places.state, segment).is_none_or(|it| it.name_any(ids))
    }
}

/// Returns the last records, newest first, and a reader that stands at the end of the log.
fn newest(places: &Places, filter: &Filter, most: usize) -> Result<(QueryResult, Reader), Error> {
    let made = filter.reference.as_deref();
    let made = made.and_then(|id| clock::ulid_time(id, Duration::ZERO));
    let (answer, end, has_decision) = backward(places, filter, most, made)?;
    if has_decision || filter.reference.is_none() || filter.since.is_some() {
        return Ok((answer, end));
    }
    // A clock was put back, or there is no such decision.
    let (answer, end, _) = backward(places, filter, most, None)?;
    Ok((answer, end))
}

/// Reads from the end until `most` records are found, or back to segments that begin before `made` or before the
/// filter's time. Says also whether the decision that the filter is about was met.
fn backward(
    places: &Places,
    filter: &Filter,
    most: usize,
    made: Option<String>,
) -> Result<(QueryResult, Reader, bool), Error> {
    let mut answer = QueryResult::default();
    let mut unsigned = Unsigned::new(&places.directory);
    let mut reader = Backward::new(&places.directory)?;
    let end = reader.end()?;
    let last = segments::last_until(&places.directory, filter.until.as_deref())?;
    reader.skip_to(last);
    // The decision is in a segment that begins before the end of the millisecond that its id names.
    let reference = filter.reference.as_deref().filter(|_| made.is_some());
    let begun = reference.and_then(|id| clock::ulid_time(id, Duration::from_millis(1)));
    let own = segments::last_until(&places.directory, begun.as_deref())?;
    let mut has_decision = false;
    let since = filter.since.clone().max(made);
    let wish = |line: &[u8]| match line::glance(line) {
        Some(glance) if !filter.tells(&glance) && !filter.may_let(&glance) => Wish::Pass,
        Some(_) | None => Wish::Read,
    };
    let wants = |segment| match (reference, own) {
        (Some(id), Some(own)) if segment > own => {
            References::read(&places.state, segment).is_none_or(|it| it.name_any([id]))
        }
        (Some(_) | None, Some(_) | None) => true,
    };
    while answer.records.len() < most && !has_decision {
        let Some(record) = reader.next_of(since.as_deref(), wish, wants)? else { break };
        unsigned.see(&record);
        if let (Some(ending), Some(reference)) = (record.ending(), &record.reference) {
            answer.endings.insert(reference.clone(), ending);
        }
        has_decision = filter.reference.as_ref() == Some(&record.id);
        if filter.lets(&record) {
            answer.records.push(record);
        }
    }
    answer.unsigned = unsigned.among(&answer.records)?;
    answer.broken = reader.broken;
    Ok((answer, end, has_decision))
}

/// Returns the last `count` records that `filter` lets through, oldest first, and what follows the log
/// from there.
pub fn tail(
    places: &Places,
    filter: &Filter,
    count: usize,
) -> Result<(QueryResult, Follow), Error> {
    let (mut answer, reader) = newest(places, filter, count)?;
    answer.records.reverse();
    Ok((answer, Follow { reader, filter: filter.clone() }))
}

/// Follows a log that grows, over rotations.
#[derive(Debug)]
pub struct Follow {
    reader: Reader,
    filter: Filter,
}

impl Follow {
    /// Returns the records that came since the last call; the caller decides how often it asks. An error
    /// means that the log is down, which ends the stream with a notice.
    pub fn poll(&mut self) -> Result<QueryResult, Error> {
        let mut answer = QueryResult::default();
        let mut unsigned = Unsigned::new(self.reader.directory());
        while let Some(record) = self.reader.next()? {
            unsigned.see(&record);
            if self.filter.lets(&record) {
                answer.records.push(record);
            }
        }
        answer.unsigned = unsigned.among(&answer.records)?;
        Ok(answer)
    }

    /// Returns where the chain does not hold.
    pub fn broken(&self) -> Option<&str> {
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
pub fn table(answer: &QueryResult) -> String {
    let mut rows = vec![
        ["SEQ", "TIME", "VERDICT", "BY", "RULE", "WHERE", "USER", "AGENT", "EXIT", "COMMAND"]
            .map(str::to_owned),
    ];
    rows.extend(answer.records.iter().map(|record| row(record, answer)));
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

/// Mark behind the number of a record without a signature.
const UNSIGNED: &str = " unsigned";

fn row(record: &Record, answer: &QueryResult) -> [String; 10] {
    let shown = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), visible);
    let rules = record.list(&["rules"]);
    let is_decisive = |rule: &&Value| rule.get("decisive").and_then(Value::boolean) == Some(true);
    let rule = rules.iter().find(is_decisive);
    let place = rule.and_then(|rule| {
        let file = rule.get("file")?.text()?;
        Some(format!("{}:{}", visible(file), rule.get("line")?.whole()?))
    });
    let user = record.whole(&["caller", "uid"]).or_else(|| record.whole(&["who", "uid"]));
    let ending = record.ending().or_else(|| answer.endings.get(&record.id).cloned());
    let time = record.text(&["time"]).unwrap_or_default();
    let command =
        record.text(&["request", "command"]).or_else(|| record.text(&["request", "tool"]));
    let detail = command.or_else(|| record.text(&["to", "host"]));
    let detail = detail.or_else(|| record.text(&["detail"])).or(record.reference.as_deref());
    let mark = if answer.unsigned.contains(&record.sequence) { UNSIGNED } else { "" };
    [
        format!("{}{mark}", record.sequence),
        time.get(..19).map_or_else(|| visible(time), |time| format!("{time}Z")),
        shown(record.text(&["verdict", "decision"]).or(Some(&record.kind))),
        shown(record.text(&["verdict", "by"])),
        shown(rule.and_then(|rule| rule.get("text")?.text())),
        place.unwrap_or_else(|| "-".into()),
        user.map_or_else(|| "-".into(), |uid| uid.to_string()),
        shown(record.text(&["agent", "name"])),
        ending.map_or_else(|| "-".into(), |ending| visible(&ending)),
        shown(detail),
    ]
}

#[cfg(test)]
mod tests;
