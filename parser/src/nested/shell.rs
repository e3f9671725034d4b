//! Texts for shells, and the shells that programs start for them: each such shell is a command of its own, so that rules
//! about shells meet it.

use crate::nested::{Inner, InnerText, Reader};
use crate::options::{Argument, unknown};
use crate::{Count, Locality, Operator, Reason, RedirectTarget, Stdin, Word};
use stockade_programs::Dialect;
use stockade_programs::row::Style;

/// The name under which such a shell is listed, be it `/bin/sh`, that of the variable `SHELL`, or that of the account.
const NAME: &[u8] = b"sh";

/// Where the text of a shell runs.
#[derive(Clone, Copy)]
pub(crate) enum Shell<'a> {
    /// In this one, as that of `eval`.
    Own,
    /// In a new one, with these words in front of the text.
    Started(&'a [&'a [u8]]),
}

impl Shell<'static> {
    /// A new one, which gets the text behind `-c`.
    pub(crate) const NEW: Shell<'static> = Shell::Started(&[b"-c"]);
}

impl Reader<'_> {
    /// Says whether the program starts a shell for the text, rather than being that shell, on this machine.
    fn has_shell_of_its_own(&self) -> bool {
        self.row.body.grammar.style != Style::Shell && self.locality == Locality::Here
    }

    /// A text that a shell evaluates.
    pub(crate) fn text(&mut self, dialect: Dialect, shell: Shell<'_>, value: &Argument) {
        self.executes(value.index, Some(value.word.clone()));
        match value.word.exact() {
            Some(bytes) => self.push_text(dialect, value.index, bytes.to_vec(), shell),
            None if self.strict => {
                self.doubt(Reason::EvaluatorText, value.index, "the text is not known");
            }
            None => self.doubt(Reason::DynamicOption, value.index, "the text is not known"),
        }
    }

    /// Words that become one text, with a blank between them.
    pub(crate) fn words(&mut self, dialect: Dialect, shell: Shell<'_>, words: &[Argument]) {
        let Some(first) = words.first() else { return };
        self.executes(first.index, Some(first.word.clone()));
        let mut text = Vec::new();
        for argument in words {
            let Some(bytes) = argument.word.exact() else {
                self.doubt(Reason::EvaluatorText, argument.index, "the text is not known");
                return;
            };
            if argument.index != first.index || !text.is_empty() {
                text.push(b' ');
            }
            text.extend_from_slice(bytes);
        }
        self.push_text(dialect, first.index, text, shell);
    }

    /// A command whose words the program quotes for a shell, as `sudo -s` does.
    pub(crate) fn command_of_shell(&mut self, words: Vec<Argument>) {
        let Some(first) = words.first().filter(|_| self.has_shell_of_its_own()) else {
            return self.command(words);
        };
        let known: Option<Vec<&[u8]>> =
            words.iter().map(|argument| argument.word.exact()).collect();
        let text = match known {
            Some(known) => Word::literal(first.word.span, known.join(&b' ').as_slice()),
            None => unknown(&first.word, Count::One, b"", b""),
        };
        self.shell = [NAME, b"-c"].map(|word| Word::literal(first.word.span, word)).to_vec();
        self.shell.push(text);
        self.command(words);
    }

    fn push_text(&mut self, dialect: Dialect, word: u32, bytes: Vec<u8>, shell: Shell<'_>) {
        let span = self.word(word).span;
        let words = match shell {
            Shell::Started(options) if self.has_shell_of_its_own() => {
                let text = (!options.is_empty()).then_some(bytes.as_slice());
                let words = [NAME].into_iter().chain(options.iter().copied()).chain(text);
                words.map(|word| Word::literal(span, word)).collect()
            }
            Shell::Started(_) | Shell::Own => Vec::new(),
        };
        self.reading.inner.push(Inner::Text(InnerText {
            program: self.row.name.clone(),
            word,
            bytes,
            dialect,
            positional: None,
            strip: self.strip,
            locality: self.locality,
            child: matches!(shell, Shell::Started(_)),
            shell: words,
        }));
    }

    /// Standard input is the program text: exact from a here-document or here-string, else doubtful.
    pub(crate) fn stdin_program(&mut self, dialect: Dialect, argument: &Argument) {
        self.executes(argument.index, None);
        let last = self.command.redirects.iter().rev().find(|redirect| {
            let input = matches!(
                redirect.operator,
                Operator::Read
                    | Operator::ReadWrite
                    | Operator::DuplicateInput
                    | Operator::HereDocument
                    | Operator::HereDocumentTabs
                    | Operator::HereString
            );
            input && redirect.descriptor.is_none_or(|number| number == 0)
        });
        let text = last.filter(|_| self.command.stdin == Stdin::Text).and_then(|redirect| {
            let RedirectTarget::Text(word) = &redirect.target else { return None };
            let is_string = redirect.operator == Operator::HereString;
            let newline: &[u8] = if is_string { b"\n" } else { b"" };
            Some([word.exact()?, newline].concat())
        });
        match text {
            Some(bytes) => self.push_text(dialect, argument.index, bytes, Shell::Started(&[])),
            None => {
                // The shell starts, even if its input turns out to be empty.
                if self.has_shell_of_its_own() {
                    self.push_text(dialect, argument.index, Vec::new(), Shell::Started(&[]));
                }
                self.doubt(Reason::StdinProgram, argument.index, "");
            }
        }
    }
}
