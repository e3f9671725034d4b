//! Values that are known to be secret, and the search for all of them at once.

use std::collections::BTreeMap;
use std::ops::Range;

use super::rules::Spot;

/// Most steps of one search, a step being a comparison or a byte of one. Texts that are left then are masked whole.
pub(super) const MOST_STEPS: usize = 16 << 20;

/// Shorter secrets count only as whole words.
const LONG: usize = 8;

/// Mark at the place where a text was shortened.
const SHORTENED: &[u8] = "…".as_bytes();

/// The least of a secret in front of that which counts as the secret.
const LEAST: usize = 4;

/// Values, for each the secret part of it and the rule that found it first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(BTreeMap<Vec<u8>, (Range<usize>, usize)>);

impl Known {
    /// Adds a secret, also in the forms that it has in paths and in texts that must be UTF-8.
    pub(super) fn add(&mut self, secret: &[u8], rule: usize) {
        self.add_part(secret, 0..secret.len(), rule);
        let text = String::from_utf8_lossy(secret);
        if text.as_bytes() != secret {
            self.add_part(text.as_bytes(), 0..text.len(), rule);
        }
        let path = normal(secret);
        self.add_part(&path, 0..path.len(), rule);
    }

    /// Adds a value of which `inner` is secret: a secret may be too short to be known without what it stands in.
    pub(super) fn add_part(&mut self, value: &[u8], inner: Range<usize>, rule: usize) {
        if !inner.is_empty() && inner.end <= value.len() {
            self.0.entry(value.to_vec()).or_insert((inner, rule));
        }
    }

    /// Adds what `other` knows.
    pub(super) fn take(&mut self, other: Known) {
        for (value, found) in other.0 {
            self.0.entry(value).or_insert(found);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns `secret` as it stands in a path: without empty parts and `.`, and with `..` carried out.
fn normal(secret: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for (index, part) in secret.split(|byte| *byte == b'/').enumerate() {
        match part {
            b"." => {}
            b"" if index > 0 => {}
            b".." if parts.last().is_some_and(|last| !last.is_empty() && *last != b"..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

/// One value in the order of all.
struct Entry<'a> {
    value: &'a [u8],
    inner: Range<usize>,
    rule: usize,
    /// The longest other value that this one begins with.
    shorter: Option<usize>,
}

/// The search for all values. A value that a text begins with is the last one that is not behind the text in the
/// order of bytes, or one that this begins with: a few comparisons for each byte, however many values there are.
pub(super) struct Search<'a> {
    entries: Vec<Entry<'a>>,
    /// Whether a value begins with a byte.
    firsts: [bool; 256],
    steps: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(known: &'a Known) -> Search<'a> {
        let mut entries: Vec<Entry<'a>> = Vec::with_capacity(known.0.len());
        let mut firsts = [false; 256];
        for (value, (inner, rule)) in &known.0 {
            let mut shorter = entries.len().checked_sub(1);
            while let Some(entry) = shorter.and_then(|it| entries.get(it)) {
                if value.starts_with(entry.value) {
                    break;
                }
                shorter = entry.shorter;
            }
            if let Some(first) = value.first().and_then(|it| firsts.get_mut(usize::from(*it))) {
                *first = true;
            }
            entries.push(Entry { value, inner: inner.clone(), rule: *rule, shorter });
        }
        Search { entries, firsts, steps: MOST_STEPS }
    }

    /// Returns the steps taken so far.
    #[cfg(test)]
    pub(super) fn spent(&self) -> usize {
        MOST_STEPS - self.steps
    }

    /// Adds to `spots` where values stand in `text`; all of it when it takes too long to say.
    pub(super) fn find(&mut self, text: &[u8], spots: &mut Vec<Spot>) {
        let mut last = 0..0;
        for (at, byte) in text.iter().enumerate() {
            if !self.firsts.get(usize::from(*byte)).is_some_and(|it| *it) {
                continue;
            }
            if self.steps == 0 {
                let rule = self.entries.first().map_or(0, |entry| entry.rule);
                spots.push(Spot { range: 0..text.len(), rule });
                return;
            }
            self.find_at(text, at, &mut |range, rule| {
                if !range.is_empty() && (range.start < last.start || range.end > last.end) {
                    last = range.clone();
                    spots.push(Spot { range, rule });
                }
            });
        }
    }

    /// Gives `take` the secret parts of the values that count at byte `at` of `text`, the longest value first.
    fn find_at(&mut self, text: &[u8], at: usize, take: &mut impl FnMut(Range<usize>, usize)) {
        let rest = text.get(at..).unwrap_or_default();
        let mut steps = 0;
        let behind = self.entries.partition_point(|entry| {
            let common = common(entry.value, rest);
            steps += 1 + common;
            // The text begins with the value, or the next byte of the value is the smaller one.
            match (entry.value.get(common), rest.get(common)) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(value), Some(text)) => value < text,
            }
        });
        if let Some((entry, length)) = self.shortened(rest, behind, &mut steps) {
            take(at + entry.inner.start..at + entry.inner.end.min(length), entry.rule);
        }
        let mut next = behind.checked_sub(1);
        while let Some(entry) = next.and_then(|number| self.entries.get(number)) {
            steps += 1 + entry.value.len();
            if rest.starts_with(entry.value) && counts(text, at, entry.value.len()) {
                take(at + entry.inner.start..at + entry.inner.end, entry.rule);
                if entry.inner == (0..entry.value.len()) {
                    break; // the shorter ones lie in it
                }
            }
            next = entry.shorter;
        }
        self.steps = self.steps.saturating_sub(steps);
    }

    /// Returns the value of which `rest` holds no more than the beginning, because it was shortened there. Such a
    /// value comes in the order right behind or right before the text.
    fn shortened(
        &self,
        rest: &[u8],
        behind: usize,
        steps: &mut usize,
    ) -> Option<(&Entry<'a>, usize)> {
        for number in [Some(behind), behind.checked_sub(1)].into_iter().flatten() {
            let Some(entry) = self.entries.get(number) else { continue };
            let length = common(entry.value, rest);
            *steps += 1 + length;
            let is_cut = rest.get(length..).is_some_and(|it| it.starts_with(SHORTENED));
            if length >= LEAST && length < entry.value.len() && is_cut {
                return Some((entry, length));
            }
        }
        None
    }
}

/// Returns how many bytes both begin with.
fn common(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

/// Says whether a value of `length` bytes counts at byte `at`: a short one only as a whole word.
fn counts(text: &[u8], at: usize, length: usize) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let before = at.checked_sub(1).and_then(|it| text.get(it));
    length >= LONG || !(is_word(before) || is_word(text.get(at + length)))
}
