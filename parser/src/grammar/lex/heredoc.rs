//! Here-documents: bodies are read by lines, after the line feed that ends the line of their level.

use crate::event::{Kind, flag};
use crate::grammar::{Frame, Parser, Step, SyntaxError};
use crate::{Reason, Span};

fn is_plain_in_body(byte: u8) -> bool {
    !matches!(byte, b'\\' | b'$' | b'`' | b'\n')
}

/// Where a body ends.
struct BodyEnd {
    /// The end of the body: the start of the closing line.
    body: usize,
    /// The end of the closing line, its line feed included.
    line: usize,
    found: bool,
}

/// A search for a closing line that found none.
pub(crate) struct Search {
    delimiter: Vec<u8>,
    quoted: bool,
    tabs: bool,
    in_substitution: bool,
    end: usize,
    from: usize,
}

impl Search {
    /// Says whether `other` looks for the same among the same lines, or fewer.
    fn covers(&self, other: &Search) -> bool {
        self.from <= other.from
            && self.end == other.end
            && (self.quoted, self.tabs, self.in_substitution)
                == (other.quoted, other.tabs, other.in_substitution)
            && self.delimiter == other.delimiter
    }
}

impl Parser<'_> {
    /// Reads the line feed here and then the bodies that wait for it; the caller's frame is on the stack.
    pub(crate) fn newline(&mut self) {
        self.leaf(Kind::Newline, self.pos + 1);
        if self.pending.len() > self.level {
            self.stack.push(Frame::HereBodies { next: self.level });
        }
    }

    pub(crate) fn step_here_bodies(&mut self, next: usize) -> Step {
        let Some(document) = self.pending.get(next).copied() else {
            self.pending.truncate(self.level);
            return Ok(());
        };
        self.stack.push(Frame::HereBodies { next: next + 1 });
        let Some(here) = self.out.here_documents.get(document as usize) else { return Ok(()) };
        let (quoted, tabs) = (here.quoted, here.strip_tabs);
        let end = self.body_end(document)?;
        let node = self.open(Kind::HereBody, if quoted { flag::LITERAL } else { 0 });
        if let Some(here) = self.out.here_documents.get_mut(document as usize) {
            here.body = Some(node);
        }
        if !end.found {
            let span = Span::new(self.start_of(node), end.body);
            self.out.notices.push((span, "this here-document is not closed"));
            // Bash ends the last line where the text ends without a line feed.
            let last = end.body.checked_sub(1).and_then(|at| self.byte(at));
            if end.body > self.pos && last != Some(b'\n') {
                self.add_flags(node, flag::CUT);
            }
        }
        if !quoted {
            let outer_end = self.end;
            self.end = end.body;
            self.in_here_body += 1;
            let line_end = end.line;
            self.stack.push(Frame::HereBody { node, outer_end, tabs, line_end, line_start: true });
            return Ok(());
        }
        self.literal_body(end.body, tabs);
        self.leaf(Kind::HereEnd, end.line);
        self.close(node);
        Ok(())
    }

    fn literal_body(&mut self, end: usize, tabs: bool) {
        self.doubt_continuations(self.pos, end);
        if !tabs {
            self.leaf(Kind::HereText, end);
            return;
        }
        while self.pos < end {
            self.take_tabs(end);
            let rest = self.source.get(self.pos..end).unwrap_or_default();
            let length =
                rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            self.leaf(Kind::HereText, self.pos + length);
        }
    }

    fn take_tabs(&mut self, end: usize) {
        let rest = self.source.get(self.pos..end).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte != b'\t').unwrap_or(rest.len());
        self.leaf(Kind::HereTabs, self.pos + length);
    }

    /// Finds the closing line, from here on.
    fn body_end(&mut self, document: u32) -> Result<BodyEnd, SyntaxError> {
        let Some(here) = self.out.here_documents.get(document as usize) else {
            return Ok(BodyEnd { body: self.pos, line: self.pos, found: false });
        };
        let (delimiter, quoted, tabs) = (here.delimiter.clone(), here.quoted, here.strip_tabs);
        let in_substitution = self.in_substitution();
        let search =
            Search { delimiter, quoted, tabs, in_substitution, end: self.end, from: self.pos };
        if self.in_vain.as_ref().is_some_and(|vain| vain.covers(&search)) {
            return Ok(BodyEnd { body: self.end, line: self.end, found: false });
        }
        let delimiter = search.delimiter.as_slice();
        let mut continued = false;
        let mut start = self.pos;
        let mut line = Vec::new();
        while start < self.end {
            let next = self.logical_line(start, quoted, &mut line);
            let whole = line.as_slice();
            let text = if tabs { trim_tabs(whole) } else { whole };
            if text == delimiter {
                return Ok(BodyEnd { body: start, line: next, found: true });
            }
            if whole == delimiter {
                // Bash 5.2 looks before it takes the TABs away.
                let span = Span::new(start, next);
                self.trouble(Reason::Version, span, "a here-document closed by a line with TABs");
                return Ok(BodyEnd { body: start, line: next, found: true });
            }
            if in_substitution
                && text.strip_prefix(delimiter).is_some_and(|rest| rest.contains(&b')'))
            {
                // Bash 5.2 takes the delimiter before the `)` with a warning.
                let span = Span::new(start, next);
                self.trouble(Reason::Version, span, "a here-document closed on the line of `)`");
                let tab_bytes = line.len() - text.len();
                let stop = start + tab_bytes + delimiter.len();
                return Ok(BodyEnd { body: start, line: stop, found: true });
            }
            continued |= next - start > line.len() + 1;
            self.spend(4 * (next - start) as u64)?;
            start = next;
        }
        // Where a line goes on in the next, another search may see other lines.
        if !continued {
            self.in_vain = Some(search);
        }
        Ok(BodyEnd { body: self.end, line: self.end, found: false })
    }

    fn in_substitution(&self) -> bool {
        self.stack.iter().any(|frame| matches!(frame, Frame::Closing { byte: b')', .. }))
    }

    /// Puts the line at `start` into `line`, continuations removed unless `quoted`; where the next starts.
    fn logical_line(&self, start: usize, quoted: bool, line: &mut Vec<u8>) -> usize {
        line.clear();
        let mut at = start;
        while let Some(byte) = self.byte(at) {
            at += 1;
            match byte {
                b'\n' => break,
                b'\\' if !quoted => match self.byte(at) {
                    Some(b'\n') => at += 1,
                    Some(next) => {
                        line.extend_from_slice(&[b'\\', next]);
                        at += 1;
                    }
                    None => line.push(b'\\'),
                },
                _ => line.push(byte),
            }
        }
        at
    }

    /// The body of a here-document whose delimiter was not quoted.
    pub(crate) fn step_here_body(
        &mut self,
        node: u32,
        outer_end: usize,
        tabs: bool,
        line_end: usize,
        mut line_start: bool,
    ) -> Step {
        while let Some(byte) = self.byte(self.pos) {
            if line_start && tabs && byte == b'\t' {
                self.take_tabs(self.end);
                line_start = false;
                continue;
            }
            line_start = false;
            match byte {
                b'\n' => {
                    self.leaf(Kind::HereText, self.pos + 1);
                    line_start = true;
                }
                b'\\' => match self.byte(self.pos + 1) {
                    Some(b'\n') => self.leaf(Kind::Continuation, self.pos + 2),
                    Some(b'$' | b'`' | b'\\') => self.leaf(Kind::Escape, self.pos + 2),
                    Some(_) | None => self.leaf(Kind::HereText, self.pos + 1),
                },
                b'`' => {
                    self.doubt_tabs(tabs, self.pos);
                    self.backquotes(0)?;
                }
                b'$' => {
                    self.doubt_tabs(tabs, self.pos);
                    self.stack.push(Frame::HereBody {
                        node,
                        outer_end,
                        tabs,
                        line_end,
                        line_start,
                    });
                    return self.dollar(flag::QUOTED);
                }
                _ => {
                    let rest = self.source.get(self.pos..self.end).unwrap_or_default();
                    let length = rest.iter().position(|byte| !is_plain_in_body(*byte));
                    let length = length.unwrap_or(rest.len()).max(1);
                    self.leaf(Kind::HereText, self.pos + length);
                }
            }
        }
        self.end = outer_end;
        self.in_here_body = self.in_here_body.saturating_sub(1);
        self.leaf(Kind::HereEnd, line_end);
        self.close(node);
        Ok(())
    }

    /// Bash takes continuations out of a body before it reads what is inside, also those that a quote or a comment
    /// there would keep. `start..end` is such a part.
    pub(crate) fn doubt_continuations(&mut self, start: usize, end: usize) {
        let text = self.source.get(start..end).unwrap_or_default();
        if self.in_here_body > 0 && text.windows(2).any(|pair| pair == b"\\\n") {
            let detail = "a continuation in quotes or a comment inside a here-document";
            self.trouble(Reason::Syntax, Span::new(start, end), detail);
        }
    }

    /// With `<<-`, TABs vanish before expansions are read; inside one they are not modelled.
    fn doubt_tabs(&mut self, tabs: bool, at: usize) {
        let opens = matches!(self.look(at + 1), Some((b'(' | b'{' | b'[', _)));
        let backquote = self.byte(at) == Some(b'`');
        if !tabs || !(opens || backquote) {
            return;
        }
        let rest = self.source.get(at..self.end).unwrap_or_default();
        if rest.windows(2).any(|pair| pair == b"\n\t") && !self.tabs_doubted {
            self.tabs_doubted = true;
            let span = Span::new(at, self.end);
            self.trouble(
                Reason::Syntax,
                span,
                "an expansion in a here-document whose TABs are removed",
            );
        }
    }
}

fn trim_tabs(line: &[u8]) -> &[u8] {
    let tabs = line.iter().position(|byte| *byte != b'\t').unwrap_or(line.len());
    line.get(tabs..).unwrap_or_default()
}
