//! Git's configuration text: which variables it sets, as git reads it (`git-config(1)`, Syntax).
//!
//! Text that git would not read is refused as a whole, and so is a text that other readers could take for another one.

/// One variable that a text sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitVariable {
    /// Section, subsection where there is one, and name, as git lists it.
    pub full: Vec<u8>,
    /// Section and name, lower case, without the subsection: `remote.url`.
    pub key: String,
    /// Its value without quotes; none where there is no `=`, which git takes for true.
    pub value: Option<Vec<u8>>,
}

/// Returns the variables that `text` sets; `None` for what git would not read, or what is in doubt.
pub fn git_variables(text: &[u8]) -> Option<Vec<GitVariable>> {
    let text = clean(text)?;
    let mut reader = Reader { rest: &text };
    let mut found = Vec::new();
    let mut section: Option<Vec<u8>> = None;
    loop {
        match reader.next() {
            None => return Some(found),
            Some(b' ' | b'\t' | b'\n') => {}
            Some(b'#' | b';') => reader.skip_line(),
            Some(b'[') => section = Some(reader.header()?),
            Some(first) if first.is_ascii_alphabetic() => {
                let section = section.as_ref()?;
                let mut name = vec![first.to_ascii_lowercase()];
                name.extend(reader.name(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
                let value = reader.value()?;
                let kind = section.split(|byte| *byte == b'.').next().unwrap_or_default();
                let key = [kind, b".", &name].concat();
                let key = String::from_utf8_lossy(&key).into_owned();
                found.push(GitVariable { full: [section, &b"."[..], &name].concat(), key, value });
            }
            Some(_) => return None,
        }
    }
}

/// Returns a text with line feeds alone at the ends of its lines.
fn clean(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut cleaned = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            // A blank for git, an end of line for others.
            b'\r' if bytes.peek() != Some(&b'\n') => return None,
            b'\r' => {}
            // The end of a value for some readers.
            0 => return None,
            byte => cleaned.push(byte),
        }
    }
    Some(cleaned)
}

/// Unread rest of a text; its end counts as the end of a line.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    /// Takes what belongs to a name, in lower case.
    fn name(&mut self, belongs: impl Fn(u8) -> bool) -> Vec<u8> {
        let length = self.rest.iter().take_while(|byte| belongs(**byte)).count();
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest;
        name.to_ascii_lowercase()
    }

    fn skip_blanks(&mut self) {
        let length = self.rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.rest = self.rest.split_at(length).1;
    }

    /// Reads a header behind its bracket: `section]`, `section.subsection]` or `section "subsection"]`.
    fn header(&mut self) -> Option<Vec<u8>> {
        let belongs = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let mut section = self.name(belongs);
        if section.first().is_none_or(|first| *first == b'.') {
            return None;
        }
        match self.next()? {
            b']' => return Some(section),
            b' ' | b'\t' => self.skip_blanks(),
            _ => return None,
        }
        if self.next()? != b'"' {
            return None;
        }
        section.push(b'.');
        loop {
            match self.next()? {
                b'\n' => return None,
                b'"' => break,
                b'\\' => match self.next()? {
                    b'\n' => return None,
                    byte => section.push(byte),
                },
                byte => section.push(byte),
            }
        }
        (self.next()? == b']').then_some(section)
    }

    /// Reads what follows a name, to the end of the line; the outer `None` is what git cannot read.
    fn value(&mut self) -> Option<Option<Vec<u8>>> {
        self.skip_blanks();
        match self.next() {
            None | Some(b'\n') => return Some(None),
            Some(b'=') => {}
            Some(_) => return None,
        }
        let mut value = Vec::new();
        let mut is_quoted = false;
        // Up to here the value is kept when nothing but blanks follows.
        let mut kept = 0;
        loop {
            match self.next().unwrap_or(b'\n') {
                b'\n' if is_quoted => return None,
                b'\n' => break,
                b' ' | b'\t' if !is_quoted && value.is_empty() => continue,
                byte @ (b' ' | b'\t') if !is_quoted => {
                    value.push(byte);
                    continue;
                }
                b'#' | b';' if !is_quoted => {
                    self.skip_line();
                    break;
                }
                b'"' => is_quoted = !is_quoted,
                b'\\' => match self.next().unwrap_or(b'\n') {
                    // The value goes on in the next line.
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                byte => value.push(byte),
            }
            kept = value.len();
        }
        value.truncate(kept);
        Some(Some(value))
    }
}
