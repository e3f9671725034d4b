//! Parts of names that are looked for, which may hold wildcards.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::fold;
use stockade_spec::{Pattern, Wild};

/// One part of a name, compared as file systems that fold would.
#[derive(Debug, Clone)]
pub(super) struct Part {
    text: OsString,
    /// With a wildcard: what the names that fit begin and end with, and the whole.
    wild: Option<(String, String, Wild)>,
}

/// A name of one or more parts.
#[derive(Debug, Clone)]
pub(super) struct Name(Vec<Part>);

impl Part {
    pub(super) fn new(text: &OsStr) -> Part {
        let known = text.to_str().filter(|text| Pattern::is(text)).map(str::to_ascii_lowercase);
        // One that cannot be read counts as it is written; who makes the spec has no such one.
        let wild = known.and_then(|text| {
            let end = |part: Option<&str>| part.unwrap_or_default().to_owned();
            let special = ['*', '?', '[', '\\'];
            let ends = (end(text.split(special).next()), end(text.rsplit([']', '*', '?']).next()));
            Some((ends.0, ends.1, Wild::parse(&text).ok()?))
        });
        Part { text: text.to_os_string(), wild }
    }

    /// Returns the name that it is alone, in small letters.
    pub(super) fn plain(&self) -> Option<String> {
        self.text.to_str().filter(|_| self.wild.is_none()).map(str::to_ascii_lowercase)
    }

    /// Returns it as it was written.
    pub(super) fn text(&self) -> &OsStr {
        &self.text
    }

    /// Says whether `name` may be what this part names.
    pub(super) fn is(&self, name: &OsStr) -> bool {
        match &self.wild {
            Some(_) => fold::folded(name).is_some_and(|name| self.fits(&name)),
            None => fold::reaches(name, &self.text),
        }
    }

    /// The same for a name that is folded already.
    pub(super) fn fits(&self, folded: &str) -> bool {
        self.wild.as_ref().is_some_and(|(begin, end, wild)| {
            folded.starts_with(begin.as_str())
                && folded.ends_with(end.as_str())
                && wild.fits(folded)
        })
    }
}

impl Name {
    pub(super) fn new(path: &Path) -> Name {
        Name(path.components().map(|part| Part::new(part.as_os_str())).collect())
    }

    /// Returns it as it was written.
    pub(super) fn path(&self) -> PathBuf {
        self.0.iter().map(|part| &part.text).collect()
    }

    /// Returns where in the parts of a path it stands.
    pub(super) fn places<'a>(&'a self, inside: &'a [OsString]) -> impl Iterator<Item = usize> + 'a {
        let length = self.0.len().max(1);
        let starts = 0..(inside.len() + 1).saturating_sub(length);
        starts.filter(|start| {
            let found = inside.get(*start..*start + self.0.len());
            !self.0.is_empty() && found.is_some_and(|found| same(found, &self.0))
        })
    }

    /// Says whether the whole of it stands in the parts of a path at `start`.
    pub(super) fn stands_at(&self, path: &[OsString], start: usize) -> bool {
        let found = path.get(start..start.saturating_add(self.0.len()));
        !self.0.is_empty() && found.is_some_and(|found| same(found, &self.0))
    }

    /// Says whether the parts of a path from `start` on are the first parts of this name, so that the rest could come beneath.
    pub(super) fn goes_on_from(&self, path: &[OsString], start: usize) -> bool {
        let end = path.get(start..).unwrap_or_default();
        let is_beginning = !end.is_empty() && end.len() < self.0.len();
        is_beginning && self.0.get(..end.len()).is_some_and(|begin| same(end, begin))
    }

    /// Returns its part, if there is one alone.
    pub(super) fn single(&self) -> Option<&Part> {
        self.0.first().filter(|_| self.0.len() == 1)
    }

    /// Returns how many parts it has.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Says whether parts of a path end with some of the first parts of this name, so that the rest could come beneath.
    pub(super) fn begins_at_the_end_of(&self, inside: &[OsString]) -> bool {
        (1..self.0.len()).any(|length| {
            let end = inside.len().checked_sub(length).and_then(|start| inside.get(start..));
            end.zip(self.0.get(..length)).is_some_and(|(end, begin)| same(end, begin))
        })
    }
}

fn same(found: &[OsString], known: &[Part]) -> bool {
    found.iter().zip(known).all(|(found, known)| known.is(found))
}

/// Returns the parts of a path.
pub(super) fn parts(path: &Path) -> Vec<OsString> {
    path.components().map(|part| part.as_os_str().to_os_string()).collect()
}
