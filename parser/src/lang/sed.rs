//! sed programs: which files they read and write, and what they run (GNU sed 4.9 manual, sections 3 to 6).
//!
//! Strict: what is not in the common subset may do anything.

use super::{Between, Findings};

/// Reads a sed program.
pub(crate) fn scan(program: &[u8]) -> Findings {
    // busybox ends lines at a carriage return.
    if program.contains(&b'\r') {
        return Findings::anything();
    }
    let mut scanner = Scanner { text: program, at: 0, findings: Findings::default() };
    match scanner.program() {
        Some(()) => scanner.findings,
        None => Findings::anything(),
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    findings: Findings,
}

/// None: not understood.
type Step = Option<()>;

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, bytes: &[u8]) {
        while self.peek().is_some_and(|byte| bytes.contains(&byte)) {
            self.at += 1;
        }
    }

    fn program(&mut self) -> Step {
        loop {
            self.skip(b" \t\n;");
            if self.peek().is_none() {
                return Some(());
            }
            if self.peek() == Some(b'#') {
                self.line();
                continue;
            }
            self.addresses()?;
            self.command()?;
        }
    }

    /// Returns the rest of the line.
    fn line(&mut self) -> Vec<u8> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or_default().to_vec()
    }

    fn addresses(&mut self) -> Step {
        if self.address()? {
            self.skip(b" \t");
            if self.peek() == Some(b',') {
                self.at += 1;
                self.skip(b" \t");
                if matches!(self.peek(), Some(b'+' | b'~')) {
                    self.at += 1;
                }
                if !self.address()? {
                    return None;
                }
            }
        }
        self.skip(b" \t");
        self.skip(b"! \t");
        Some(())
    }

    fn address(&mut self) -> Option<bool> {
        match self.peek() {
            Some(b'0'..=b'9') => {
                self.skip(b"0123456789");
                if self.peek() == Some(b'~') {
                    self.at += 1;
                    self.skip(b"0123456789");
                }
                Some(true)
            }
            Some(b'$') => {
                self.at += 1;
                Some(true)
            }
            Some(b'/') => {
                self.at += 1;
                self.past(b'/', Between::Regex)?;
                self.skip(b"IM");
                Some(true)
            }
            Some(b'\\') => {
                self.at += 1;
                let delimiter = self.next()?;
                // An escaped or bracketed delimiter is read in several ways by versions of sed.
                if delimiter.is_ascii_alphanumeric() || b"\\\n[]".contains(&delimiter) {
                    return None;
                }
                self.past(delimiter, Between::Regex)?;
                self.skip(b"IM");
                Some(true)
            }
            _ => Some(false),
        }
    }

    /// Steps behind the next `delimiter`.
    fn past(&mut self, delimiter: u8, between: Between) -> Step {
        self.at = super::past(self.text, self.at, delimiter, between)?;
        Some(())
    }

    fn command(&mut self) -> Step {
        match self.next()? {
            b'{' => Some(()),
            b'}' | b'=' | b'd' | b'D' | b'g' | b'G' | b'h' | b'H' | b'n' | b'N' | b'p' | b'P'
            | b'x' | b'z' => self.end(),
            b'q' | b'Q' | b'l' | b'L' => {
                self.skip(b" \t");
                self.skip(b"0123456789");
                self.end()
            }
            b'F' => self.end(),
            b':' => {
                self.skip(b" \t");
                let label = self.line();
                self.label(&label)
            }
            b'b' | b't' | b'T' => {
                self.skip(b" \t");
                let label = self.line();
                self.label(&label)
            }
            b'a' | b'i' | b'c' => self.insert(),
            b's' => self.substitute(),
            b'y' => {
                let delimiter = self.delimiter()?;
                self.past(delimiter, Between::Text)?;
                self.past(delimiter, Between::Text)?;
                self.end()
            }
            b'r' | b'R' => {
                let file = self.file()?;
                self.findings.reads.push(file);
                Some(())
            }
            b'w' | b'W' => {
                let file = self.file()?;
                self.write(file);
                Some(())
            }
            b'e' => {
                self.skip(b" \t");
                let text = self.line();
                // Escapes are decoded first, and a backslash at the end takes the next line in.
                if text.contains(&b'\\') {
                    return None;
                }
                if text.is_empty() {
                    self.findings.may_execute = true;
                } else {
                    self.findings.executes.push(text);
                }
                Some(())
            }
            _ => None,
        }
    }

    /// A label ends at `;`, a blank or `}`; what is behind is read again as commands.
    fn label(&mut self, line: &[u8]) -> Step {
        let length = line.iter().position(|byte| b"; \t}".contains(byte)).unwrap_or(line.len());
        let name = line.get(..length).unwrap_or_default();
        // busybox takes `}#x` for a label, the others for an end and a comment.
        let word = line.split(|byte| b"; \t".contains(byte)).next().unwrap_or_default();
        if word.contains(&b'#')
            || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte))
        {
            return None;
        }
        self.at -= line.len() - length;
        Some(())
    }

    /// After a command only blanks, `;`, `}`, a comment or the end of the line may stand.
    fn end(&mut self) -> Step {
        self.skip(b" \t");
        matches!(self.peek(), None | Some(b';' | b'\n' | b'}' | b'#')).then_some(())
    }

    fn delimiter(&mut self) -> Option<u8> {
        let delimiter = self.next()?;
        let usual = delimiter.is_ascii_punctuation() && !b"\\[]".contains(&delimiter);
        usual.then_some(delimiter)
    }

    /// `a`, `i`, `c`: text up to the end of a line that does not end in a backslash.
    fn insert(&mut self) -> Step {
        self.skip(b" \t");
        self.peek()?;
        loop {
            let line = self.line();
            let backslashes = line.iter().rev().take_while(|byte| **byte == b'\\').count();
            self.next();
            if backslashes % 2 == 0 || self.peek().is_none() {
                return Some(());
            }
        }
    }

    fn substitute(&mut self) -> Step {
        let delimiter = self.delimiter()?;
        self.past(delimiter, Between::Regex)?;
        self.past(delimiter, Between::Text)?;
        loop {
            match self.peek() {
                Some(b'g' | b'p' | b'i' | b'I' | b'm' | b'M' | b'0'..=b'9') => self.at += 1,
                Some(b'e') => {
                    // Runs what the replacement makes.
                    self.findings.may_execute = true;
                    self.at += 1;
                }
                Some(b'w') => {
                    self.at += 1;
                    let file = self.file()?;
                    self.write(file);
                    return Some(());
                }
                _ => return self.end(),
            }
        }
    }

    fn file(&mut self) -> Option<Vec<u8>> {
        self.skip(b" \t");
        let file = self.line();
        // Implementations differ in the blanks that they skip and the escapes that they decode.
        let plain = !file.contains(&b'\\') && !file.first()?.is_ascii_control();
        plain.then_some(file)
    }

    fn write(&mut self, file: Vec<u8>) {
        if file != b"/dev/stdout" && file != b"/dev/stderr" {
            self.findings.writes.push(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: &str, expected: &str) {
        let found = scan(program.as_bytes());
        let list = |name: &str, items: &[Vec<u8>]| {
            items
                .iter()
                .map(|item| format!("{name} {} ", String::from_utf8_lossy(item)))
                .collect::<String>()
        };
        let flag = |name: &str, set: bool| if set { format!("{name}? ") } else { String::new() };
        let text = [
            list("run", &found.executes),
            list("write", &found.writes),
            list("read", &found.reads),
            flag("run", found.may_execute),
            flag("write", found.may_write),
            flag("read", found.may_read),
        ]
        .concat();
        assert_eq!(text.trim_end(), expected, "{program}");
    }

    #[test]
    fn common_programs_do_nothing_else() {
        for program in [
            "s/a/b/g",
            "1,5p",
            "$!N;P;D",
            "/x/d",
            "s|a|b|;s#c#d#2p",
            "/a/,/b/{s/[^/]*$//;p}",
            "y/abc/xyz/",
            ":a;N;$!ba;s/\\n/ /g",
            "1i\\\nhello\n2d",
            "1~2d",
            "/x/I,+3d",
            "a text w /tmp/x",
            "s/a/w x/",
            "\\,a,d",
            "10q",
            "# e date",
            "s/[[:space:]]*$//",
            "s/[]/]/x/",
            "1!G;h;$!d",
            "/^$/{N;/^\\n$/D}",
        ] {
            check(program, "");
        }
    }

    #[test]
    fn executing_and_writing_commands_are_found() {
        check("1e date", "run date");
        check("e", "run?");
        check("s/a/b/e", "run?");
        check("s/a/b/ge", "run?");
        check("s/a/b/w out", "write out");
        check("w /etc/passwd", "write /etc/passwd");
        check("/x/ { W o", "write o");
        check("p;r f;x", "read f;x");
        check("1!e rm x", "run rm x");
        check("y/a/b/;e id", "run id");
        check("s/x/\\\n/;e id", "run id");
        check("b\ne id", "run id");
        check("a\\\nfoo\ne id", "run id");
        check("ba;e id", "run id");
    }

    #[test]
    fn what_is_not_common_may_do_anything() {
        for program in [
            "v",
            "s/a/b/ew",
            "s/a",
            "M",
            "s/[\\]/]e/",
            "s/[/x/;e id",
            "1,e id",
            "s\na\nb\n",
            "}e id",
            "a",
            "1e r\\x6d x",
            "e \\id",
            "e echo\\nid",
            "e echo \\; id",
            "e \\d105d",
            "e \\o151d",
            "e \\cI",
            "e echo a\\\nid",
            "# x\re id",
            "w \x0bout",
            "w \\\nout",
            "t}#n;w out",
        ] {
            let found = scan(program.as_bytes());
            assert!(found.may_execute || !found.executes.is_empty(), "{program}");
        }
    }
}
