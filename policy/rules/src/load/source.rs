//! One settings text: where its values stand, and what was wrong in it.

use std::cell::Cell;
use std::path::Path;

use stockade_parser::Span;

use crate::layer::{Layer, Origin};
use crate::settings::{Problem, SettingsText, Severity};

/// A settings text with the beginnings of its lines.
pub(super) struct Source<'a> {
    text: &'a SettingsText,
    lines: Vec<usize>,
    /// The place that was asked about last, as offset of its line, its own offset and its column: whoever
    /// goes through a long line in order counts each of its bytes once.
    last: Cell<(usize, usize, usize)>,
}

/// Problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub list: Vec<Problem>,
}

impl<'a> Source<'a> {
    pub fn new(text: &'a SettingsText) -> Source<'a> {
        let breaks = text.text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let lines = [0].into_iter().chain(breaks.map(|(at, _)| at + 1)).collect();
        Source { text, lines, last: Cell::new((0, 0, 0)) }
    }

    pub fn layer(&self) -> Layer {
        self.text.layer
    }

    pub fn anchor(&self) -> &Path {
        &self.text.anchor
    }

    /// Says whether the settings come with the project.
    pub fn is_shared(&self) -> bool {
        matches!(self.text.layer, Layer::Project | Layer::Local)
    }

    /// Says whether the settings are of a directory above the project.
    pub fn is_above(&self) -> bool {
        self.text.above
    }

    /// Says whether entries that widen count.
    pub fn widens(&self) -> bool {
        !self.is_shared() || (self.text.trusted && !self.text.above)
    }

    /// Says whether the hooks of the settings run.
    pub fn may_run(&self) -> bool {
        !self.is_shared() || self.text.trusted
    }

    pub fn origin(&self, span: Span, pointer: &str) -> Origin {
        let at = span.start as usize;
        let line = self.lines.partition_point(|start| *start <= at);
        let start =
            line.checked_sub(1).and_then(|index| self.lines.get(index)).copied().unwrap_or(0);
        let (from, known) = match self.last.get() {
            (line, place, column) if line == start && place <= at => (place, column),
            _ => (start, 0),
        };
        let between = self.text.text.get(from..at).unwrap_or_default();
        // The first byte of each character of UTF-8 counts.
        let column = known + between.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        self.last.set((start, at, column));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Origin {
            layer: self.text.layer,
            file: self.text.file.clone(),
            line: count(line).max(1),
            column: count(column).saturating_add(1),
            pointer: pointer.to_owned(),
        }
    }

    fn excerpt(&self, span: Span) -> String {
        let text = String::from_utf8_lossy(span.of(&self.text.text)).into_owned();
        let mut short: String = text.chars().take(60).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        short
    }
}

impl Problems {
    pub fn warn(
        &mut self,
        source: &Source<'_>,
        span: Span,
        pointer: &str,
        message: &str,
        help: &str,
    ) {
        self.add(Severity::Warning, source, span, pointer, message, help);
    }

    pub fn refuse(
        &mut self,
        source: &Source<'_>,
        span: Span,
        pointer: &str,
        message: &str,
        help: &str,
    ) {
        self.add(Severity::Refusal, source, span, pointer, message, help);
    }

    /// Reports something that is wrong with us.
    pub fn refuse_all(&mut self, message: &str) {
        let origin = Origin {
            layer: Layer::Builtin,
            file: "<built-in>".into(),
            line: 1,
            column: 1,
            pointer: String::new(),
        };
        self.list.push(Problem {
            severity: Severity::Refusal,
            origin,
            text: String::new(),
            message: message.to_owned(),
            help: "install stockade again".to_owned(),
        });
    }

    pub fn add(
        &mut self,
        severity: Severity,
        source: &Source<'_>,
        span: Span,
        pointer: &str,
        message: &str,
        help: &str,
    ) {
        // Other faults there are reported to the people who work there.
        let is_rule =
            ["/permissions/deny", "/permissions/ask"].iter().any(|it| pointer.starts_with(it));
        if severity == Severity::Warning && source.is_above() && !is_rule {
            return;
        }
        self.list.push(Problem {
            severity,
            origin: source.origin(span, pointer),
            text: source.excerpt(span),
            message: message.to_owned(),
            help: help.to_owned(),
        });
    }
}

/// Returns the JSON pointer of member or element `key` of what `pointer` points to.
pub(super) fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}
