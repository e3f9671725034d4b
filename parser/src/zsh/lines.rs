//! Bytes to pipelines of simple commands.

use super::Difference;
use crate::Span;

/// A word, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub value: String,
    /// The word has a quote, or an equals sign outside of quotes, so it is not the name of a command.
    pub is_operand: bool,
    pub span: Span,
}

/// A simple command.
#[derive(Debug, Default)]
pub(super) struct Command {
    pub words: Vec<Word>,
    /// The descriptors that it redirects, and where.
    pub redirects: Vec<(u8, Span)>,
}

/// Commands between bars.
pub(super) type Pipeline = Vec<Command>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(Word),
    /// A line feed.
    Line,
    /// `;`
    Semicolon,
    /// `&&` or `||`
    And,
    /// `|`
    Bar,
    /// A redirection of a descriptor to the word that follows.
    Redirect(u8),
    /// `2>&1`
    ErrorToOutput,
    End,
}

/// Returns the pipelines of a text.
pub(super) fn read(text: &[u8]) -> Result<Vec<Pipeline>, Difference> {
    let mut reader = Reader { text, at: 0, start: 0 };
    let mut pipelines = Vec::new();
    let mut token = reader.after_lines()?;
    while token != Token::End {
        let mut pipeline = Vec::new();
        let mut next = Token::Bar;
        while next == Token::Bar {
            let (command, behind) = reader.command(token)?;
            pipeline.push(command);
            token = if behind == Token::Bar { reader.after_lines()? } else { Token::End };
            next = behind;
        }
        pipelines.push(pipeline);
        let joins = next == Token::And;
        token = match next {
            Token::And | Token::Line | Token::Semicolon => reader.after_lines()?,
            Token::Word(_)
            | Token::Bar
            | Token::Redirect(_)
            | Token::ErrorToOutput
            | Token::End => next,
        };
        if joins && token == Token::End {
            return Err(reader.differs("a list that does not end"));
        }
    }
    Ok(pipelines)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the last token begins.
    start: usize,
}

impl Reader<'_> {
    fn span(&self) -> Span {
        Span::new(self.start, self.at)
    }

    fn differs(&self, detail: &str) -> Difference {
        Difference { span: self.span(), detail: detail.to_owned() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Goes behind `what`, if it stands here.
    fn takes(&mut self, what: &[u8]) -> bool {
        let found = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(what));
        self.at += if found { what.len() } else { 0 };
        found
    }

    fn after_lines(&mut self) -> Result<Token, Difference> {
        loop {
            let token = self.token()?;
            if token != Token::Line {
                return Ok(token);
            }
        }
    }

    /// Returns the command that begins with `token`, and the token behind it.
    fn command(&mut self, mut token: Token) -> Result<(Command, Token), Difference> {
        let mut command = Command::default();
        loop {
            match token {
                Token::Word(word) => command.words.push(word),
                Token::Redirect(_) | Token::ErrorToOutput if command.words.is_empty() => {
                    return Err(self.differs("a redirection in front of a command"));
                }
                Token::ErrorToOutput => self.redirect(&mut command, 2)?,
                Token::Redirect(descriptor) => {
                    self.redirect(&mut command, descriptor)?;
                    self.file()?;
                }
                Token::Line | Token::Semicolon | Token::And | Token::Bar | Token::End => {
                    return match command.words.is_empty() {
                        true => Err(self.differs("no command where one is expected")),
                        false => Ok((command, token)),
                    };
                }
            }
            token = self.token()?;
        }
    }

    fn redirect(&self, command: &mut Command, descriptor: u8) -> Result<(), Difference> {
        if command.redirects.iter().any(|(other, _)| *other == descriptor) {
            return Err(self.differs("two redirections of one descriptor, which go to both files"));
        }
        command.redirects.push((descriptor, self.span()));
        Ok(())
    }

    /// Reads the file of a redirection.
    fn file(&mut self) -> Result<(), Difference> {
        match self.token()? {
            // Bash opens some of these names itself.
            Token::Word(word) if word.value.starts_with("/dev/") && word.value != "/dev/null" => {
                Err(self.differs("a device as the file of a redirection"))
            }
            Token::Word(word) if word.value.starts_with('-') || word.value.is_empty() => {
                Err(self.differs("this file of a redirection"))
            }
            Token::Word(_) => Ok(()),
            Token::Line
            | Token::Semicolon
            | Token::And
            | Token::Bar
            | Token::Redirect(_)
            | Token::ErrorToOutput
            | Token::End => Err(self.differs("this redirection")),
        }
    }

    fn token(&mut self) -> Result<Token, Difference> {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        self.start = self.at;
        if self.takes(b"2>&1") {
            return match self.peek() {
                None | Some(b' ' | b'\t' | b'\n' | b';' | b'|' | b'&') => Ok(Token::ErrorToOutput),
                Some(_) => Err(self.differs("this redirection")),
            };
        }
        // `<1-9>` is a pattern.
        if self.peek() == Some(b'<') && self.text.get(self.at + 1).is_some_and(u8::is_ascii_digit) {
            return Err(self.differs("a number right behind `<`"));
        }
        for (text, token) in [
            (b"\n".as_slice(), Token::Line),
            (b";", Token::Semicolon),
            (b"&&", Token::And),
            (b"||", Token::And),
            (b"|", Token::Bar),
            (b"2>>", Token::Redirect(2)),
            (b"2>", Token::Redirect(2)),
            (b">>", Token::Redirect(1)),
            (b">", Token::Redirect(1)),
            (b"<", Token::Redirect(0)),
        ] {
            if self.takes(text) {
                return Ok(token);
            }
        }
        match self.peek() {
            None => Ok(Token::End),
            Some(_) => self.word().map(Token::Word),
        }
    }

    fn word(&mut self) -> Result<Word, Difference> {
        let (mut value, mut is_operand, mut plain) = (Vec::new(), false, true);
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>' => {
                    self.at -= 1;
                    break;
                }
                b'\'' | b'"' => {
                    (is_operand, plain) = (true, false);
                    self.quoted(byte, &mut value)?;
                }
                b'=' if !value.is_empty() && self.begins_plain() => {
                    is_operand = true;
                    value.push(byte);
                }
                b'%' if self.at - 1 == self.start => return Err(self.unknown(byte)),
                _ if is_plain(byte) => value.push(byte),
                _ => return Err(self.unknown(byte)),
            }
        }
        if self.at == self.start {
            self.at += 1;
            return Err(self.differs("a command in the background, or this operator"));
        }
        let numeric = plain && value.iter().all(u8::is_ascii_digit);
        if numeric && matches!(self.peek(), Some(b'<' | b'>')) {
            return Err(self.differs("a redirection of this descriptor"));
        }
        let value =
            String::from_utf8(value).map_err(|_| self.differs("bytes that are not UTF-8"))?;
        Ok(Word { value, is_operand, span: self.span() })
    }

    /// Says whether the word begins with a letter, a digit or a dash, outside of quotes.
    fn begins_plain(&self) -> bool {
        let first = self.text.get(self.start);
        first.is_some_and(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_'))
    }

    /// Reads what follows an opening quote, up to the closing one.
    fn quoted(&mut self, quote: u8, value: &mut Vec<u8>) -> Result<(), Difference> {
        loop {
            let Some(byte) = self.peek() else {
                return Err(self.differs("a quote that stays open"));
            };
            self.at += 1;
            match byte {
                _ if byte == quote => return Ok(()),
                b'$' | b'`' | b'\\' | b'!' if quote == b'"' => return Err(self.unknown(byte)),
                b'\t' | b'\n' | b' '..=b'~' | 0x80.. => value.push(byte),
                _ => return Err(self.differs("a control character")),
            }
        }
    }

    fn unknown(&self, byte: u8) -> Difference {
        let what = match byte {
            b'$' => "an expansion (`$`)".to_owned(),
            b'`' => "a command substitution".to_owned(),
            b'*' | b'?' | b'[' | b']' | b'^' | b'~' => format!("a pattern (`{}`)", byte as char),
            b'{' | b'}' | b'(' | b')' | b'#' | b'!' | b'=' | b'%' | b'\\' => {
                format!("`{}`", byte as char)
            }
            _ => "a character that is not plain".to_owned(),
        };
        self.differs(&format!("{what} outside of single quotes"))
    }
}

/// Says whether a byte means itself to both shells, wherever it stands in a word but as a `%` in front.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_./:@%+,-".contains(&byte)
}
