//! Texts that zsh and bash read alike: a small part of both languages, and nothing else.
//!
//! The reader here is its own. It knows bytes and no grammar of bash, so that a mistake in one is not one in the other.
//! A construct that the reader does not know is named, and makes the text unknown.

use std::sync::LazyLock;

use crate::Span;
use stockade_programs::tables::{Table, view};
use stockade_text::json::view::{Members, View};

mod builtins;
mod lines;

/// The zsh that is to run a text, with `-f` and no other option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zsh {
    /// Major and minor version.
    pub version: (u32, u32),
    /// The file that it reads nevertheless defines nothing.
    pub clean_start: bool,
}

/// Why zsh may do something else with a text than bash.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub span: Span,
    pub detail: String,
}

/// Returns the first part of `text` that `zsh` may read differently from bash; none for a text that means the same.
pub(crate) fn difference(text: &[u8], zsh: Zsh) -> Option<Difference> {
    let whole = |detail: String| Some(Difference { span: Span::new(0, text.len()), detail });
    let Some(table) = TABLE.as_ref() else {
        return whole("the table about zsh is not readable".to_owned());
    };
    let (major, minor) = zsh.version;
    if zsh.version < table.first || zsh.version > table.last {
        return whole(format!("zsh {major}.{minor} is not modelled"));
    }
    if !zsh.clean_start {
        return whole("the file that zsh always reads defines something".to_owned());
    }
    lines::read(text).and_then(|pipelines| builtins::check(&pipelines, table)).err()
}

/// Content of the table.
struct Known {
    first: (u32, u32),
    last: (u32, u32),
    names: Vec<&'static str>,
    same: Members<'static>,
}

static TABLE: LazyLock<Option<Known>> = LazyLock::new(|| {
    let table = view(Table::Zsh).members()?;
    let versions = table.get("versions").and_then(View::texts)?;
    let (first, last) = (number(versions.first()?)?, number(versions.last()?)?);
    let names = table.get("names").and_then(View::texts)?;
    let same = table.get("same").and_then(View::members)?;
    Some(Known { first, last, names, same })
});

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
