//! Text that agents put around a command, recognised exactly; the templates are data, in `policies/agents.jsonc`.
//!
//! Only the command inside is judged and only that runs, so a text that merely looks like a wrapping gains
//! nothing: what it holds is judged like any other. A text that fits no template is judged whole.

use std::path::{Path, PathBuf};

use stockade_programs::tables::{Table, view};
use stockade_text::json::Value;

use stockade_base::executable::is_this_executable;
use stockade_base::quoted::word;

use super::marker;

/// The wrappings of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    templates: Vec<Vec<Piece>>,
    marker: Option<(String, String)>,
}

/// One piece of a template, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    times: Times,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    Once,
    AtMostOnce,
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// The command as one shell word.
    Word,
    /// The command as it stands, up to the pieces behind it.
    Text,
    /// A word that is passed over, such as the name of a file.
    Any,
    /// The file into which the last working directory goes.
    Marker,
    /// Commands that the agent puts in front of every command: judged and run with it.
    Lines,
}

/// A command that stood in a wrapping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unwrapped {
    /// The command.
    pub text: String,
    /// Commands that the agent runs in front of it, in the same shell; mostly empty.
    pub before: String,
    /// Where the agent looks up in which directory it ended.
    pub marker: Option<PathBuf>,
}

/// Returns the command inside the wrapping of an agent, if `text` is one. `folders` hold temporary files.
pub(crate) fn unwrap(text: &str, folders: &[PathBuf]) -> Result<Option<Unwrapped>, String> {
    let table = view(Table::Agents).members().ok_or("it cannot be read")?;
    for (_, agent) in table.iter() {
        let agent = agent.members().ok_or("a row is not an object")?;
        let Some(shell) = agent.get("shell") else { continue };
        let row = row(&shell.value().ok_or("a row cannot be read")?)?;
        let found = row.templates.iter().find_map(|pieces| fit(text, pieces, &row, folders));
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// A command in a line that runs it through this very executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Through {
    /// The command.
    pub text: String,
    /// The session that the line names. Anybody can write such a line; who lets it count asks the gateway whether a hook did.
    pub session: Option<String>,
    /// The number of the question that the line names: it is worth what the gateway knows of it.
    pub question: Option<String>,
}

/// Options of the hook's line about the streams of the command, in their order; an agent's row of the table names its own.
pub(crate) const STREAM_OPTIONS: [&str; 2] = ["--pty=auto", "--merge-output"];

/// Parts of the hook's line besides the command.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parts<'a> {
    /// The session that the line names. A name that is not plain is left out.
    pub session: Option<&'a str>,
    /// The number of the question that the line follows.
    pub question: Option<&'a str>,
    /// Those of [`STREAM_OPTIONS`] that the agent needs.
    pub streams: &'a [String],
}

/// Returns the line by which the hook has `executable`, the gate, run `command`.
pub(crate) fn line(executable: &str, parts: Parts<'_>, command: &str) -> String {
    let session = parts.session.filter(|name| is_plain_name(name));
    let words = [executable, "run", "--for-agent"];
    let named = session.into_iter().flat_map(|name| ["--session", name]);
    let asked = parts.question.into_iter().flat_map(|number| ["--asked", number]);
    let streams =
        STREAM_OPTIONS.into_iter().filter(|option| parts.streams.iter().any(|it| it == option));
    let words = words.into_iter().chain(named).chain(asked).chain(streams).chain(["--", command]);
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// Returns the line by which `executable`, the gate, only prints the reason of a refusal.
pub(crate) fn refusing_line(executable: &str, reason: &str) -> String {
    [executable, "refuse", "--", reason].map(quoted).join(" ")
}

/// Says whether a line is one of [`refusing_line`] for this very executable.
pub(crate) fn is_refusing_line(text: &str) -> bool {
    let reason = || {
        let (program, rest) = word(text)?;
        let rest = next(&next(rest, "refuse")?, "--")?;
        let (reason, rest) = word(rest.strip_prefix(' ')?)?;
        (rest.is_empty() && is_this_executable(Path::new(&program))).then_some(reason)
    };
    reason().is_some()
}

/// Returns what follows the next word of a line, if it is the expected one.
fn next(rest: &str, expected: &str) -> Option<String> {
    let (found, left) = word(rest.strip_prefix(' ')?)?;
    (found == expected).then(|| left.to_owned())
}

/// Returns the command of a line that runs it through this very executable, as the hook writes it.
pub(crate) fn through_gate(text: &str) -> Option<Through> {
    let (program, rest) = word(text)?;
    let rest = next(&next(rest, "run")?, "--for-agent")?;
    let option = |rest: String, name: &str| {
        let Some(left) = next(&rest, name) else { return Some((None, rest)) };
        let (value, left) = word(left.strip_prefix(' ')?)?;
        is_plain_name(&value).then(|| (Some(value), left.to_owned()))
    };
    let (session, rest) = option(rest, "--session")?;
    let (question, rest) = option(rest, "--asked")?;
    // The streams are those of the caller here.
    let rest = STREAM_OPTIONS.iter().fold(rest, |rest, name| next(&rest, name).unwrap_or(rest));
    let rest = next(&rest, "--")?;
    let (text, rest) = word(rest.strip_prefix(' ')?)?;
    let ours = is_this_executable(Path::new(&program));
    (ours && rest.is_empty()).then_some(Through { text, session, question })
}

/// Longest name of a session that a line names.
const LONGEST_NAME: usize = 128;

/// Says whether no reader takes the name of a session for anything but one word: those of agents are of this kind.
fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    name.len() <= LONGEST_NAME
        && name.bytes().all(plain)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Returns `word` as one shell word, in single quotes.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

fn row(shell: &Value) -> Result<Row, String> {
    let templates = shell.get("wrappings").and_then(Value::elements).unwrap_or_default();
    let template = |value: &Value| {
        let pieces = value.elements().ok_or("a wrapping is a list")?;
        pieces.iter().map(|it| it.text().map(piece).ok_or("a piece is a string")).collect()
    };
    let templates = templates.iter().map(template).collect::<Result<_, &str>>()?;
    let marker = match shell.get("marker").and_then(Value::elements) {
        Some([prefix, suffix]) => match (prefix.text(), suffix.text()) {
            (Some(prefix), Some(suffix)) => Some((prefix.to_owned(), suffix.to_owned())),
            (_, _) => return Err("`marker` holds strings".into()),
        },
        Some(_) => return Err("`marker` is a prefix and a suffix".into()),
        None => None,
    };
    Ok(Row { templates, marker })
}

/// Reads a piece: `?` in front makes it optional, `*` repeats it, and `%` encloses the names of holes.
fn piece(text: &str) -> Piece {
    let (times, text) = match (text.strip_prefix('?'), text.strip_prefix('*')) {
        (Some(rest), _) => (Times::AtMostOnce, rest),
        (None, Some(rest)) => (Times::Any, rest),
        (None, None) => (Times::Once, text),
    };
    let part = |(index, part): (usize, &str)| match (index % 2, part) {
        (1, "word") => Part::Word,
        (1, "text") => Part::Text,
        (1, "any") => Part::Any,
        (1, "marker") => Part::Marker,
        (1, "lines") => Part::Lines,
        (_, literal) => Part::Literal(literal.to_owned()),
    };
    let parts =
        text.split('%').enumerate().map(part).filter(|it| *it != Part::Literal(String::new()));
    Piece { times, parts: parts.collect() }
}

/// Most places at which commands in front of a wrapped command are looked for the end of.
const MOST_ENDS: usize = 256;

/// The text between the commands in front and the rest of the wrapping.
const JOINT: &str = " && ";

/// Reads `text` as the template `pieces`. Commands in front of the rest of a wrapping can be any text: where they end
/// decides nothing, for they are judged together with the command.
fn fit(text: &str, pieces: &[Piece], row: &Row, folders: &[PathBuf]) -> Option<Unwrapped> {
    let place = pieces.iter().position(|piece| piece.parts.contains(&Part::Lines));
    let (head, tail) = match place {
        None => (&[][..], pieces),
        Some(place) => (pieces.get(..place)?, pieces.get(place + 1..)?),
    };
    let rest = walk(text, head, row, folders, &mut Unwrapped::default())?;
    if let Some(found) = whole(rest, tail, row, folders) {
        return Some(found);
    }
    place?;
    rest.match_indices(JOINT).take(MOST_ENDS).find_map(|(end, _)| {
        let mut found = whole(rest.get(end + JOINT.len()..)?, tail, row, folders)?;
        found.before = rest.get(..end)?.to_owned();
        Some(found)
    })
}

/// Returns the command in `text`, if all of it fits `pieces`.
fn whole(text: &str, pieces: &[Piece], row: &Row, folders: &[PathBuf]) -> Option<Unwrapped> {
    let mut found = Unwrapped::default();
    let rest = walk(text, pieces, row, folders, &mut found)?;
    (rest.is_empty() && !found.text.is_empty()).then_some(found)
}

/// Returns what is left of `text` behind `pieces`.
fn walk<'a>(
    text: &'a str,
    pieces: &[Piece],
    row: &Row,
    folders: &[PathBuf],
    found: &mut Unwrapped,
) -> Option<&'a str> {
    let mut rest = text;
    for (index, piece) in pieces.iter().enumerate() {
        loop {
            let mut tried = found.clone();
            let behind = pieces.get(index + 1..).unwrap_or_default();
            match (one(rest, piece, behind, row, folders, &mut tried), piece.times) {
                (Some(left), Times::Any) if left.len() < rest.len() => {
                    (rest, *found) = (left, tried)
                }
                (Some(left), Times::Once | Times::AtMostOnce) => {
                    (rest, *found) = (left, tried);
                    break;
                }
                (None, Times::Once) => return None,
                (_, Times::Any | Times::AtMostOnce) => break,
            }
        }
    }
    Some(rest)
}

/// Returns what is left of `text` behind one piece.
fn one<'a>(
    text: &'a str,
    piece: &Piece,
    behind: &[Piece],
    row: &Row,
    folders: &[PathBuf],
    found: &mut Unwrapped,
) -> Option<&'a str> {
    let mut rest = text;
    for (index, part) in piece.parts.iter().enumerate() {
        rest = match part {
            Part::Literal(literal) => rest.strip_prefix(literal.as_str())?,
            Part::Any => word(rest)?.1,
            Part::Word => {
                let (command, left) = word(rest)?;
                found.text = command;
                left
            }
            // Read in `fit`, which knows what follows.
            Part::Lines => return None,
            Part::Marker => {
                let (path, left) = word(rest)?;
                let (prefix, suffix) = row.marker.as_ref()?;
                found.marker = Some(marker::path(&path, [prefix, suffix], folders)?);
                left
            }
            Part::Text => {
                let tail = piece.parts.get(index + 1..).unwrap_or_default().iter();
                let tail = tail.chain(behind.iter().flat_map(|piece| &piece.parts));
                let literals = tail.map(|part| match part {
                    Part::Literal(literal) => Some(literal.as_str()),
                    Part::Word | Part::Text | Part::Any | Part::Marker | Part::Lines => None,
                });
                let end: String = literals.collect::<Option<Vec<_>>>()?.concat();
                found.text = rest.strip_suffix(end.as_str())?.to_owned();
                rest.get(found.text.len()..)?
            }
        };
    }
    Some(rest)
}

#[cfg(test)]
mod tests;
