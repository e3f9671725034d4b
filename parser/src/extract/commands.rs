//! Simple commands and redirections, once all their parts are read.

use crate::event::{Event, Kind};
use crate::extract::shell::Value;
use crate::extract::weight;
use crate::extract::{Build, Collecting, Redirecting, Text, Walk};
use crate::nested::operand_meaning::may_be_descriptor;
use crate::word::build::unknown_word;
use crate::{
    Assignment, Bytes, CommandKind, Count, Directory, Effect, EffectKind, Object, Operator,
    Position, Reason, Redirect, RedirectTarget, Shared, SimpleCommand, Span, Stdin, Target, Thin,
    Word, WordClass, Words,
};
use stockade_programs::{Dialect, is_nameless as is_nameless_path};

impl Walk<'_> {
    /// Takes the next place in the list of commands: outer ones stand before those inside them.
    pub(crate) fn reserve(&mut self, text: &Text, span: Span) -> u32 {
        let index = u32::try_from(self.commands.len()).unwrap_or(u32::MAX);
        self.kept += size_of::<SimpleCommand>();
        self.steps = self.steps.saturating_add(text.via.len() as u64 / 4);
        self.via_entries = self.via_entries.saturating_add(text.via.len());
        self.commands.push(SimpleCommand {
            words: Words::default(),
            assignments: Thin::EMPTY,
            redirects: Thin::EMPTY,
            position: self.positions.last().copied().unwrap_or(Position::Top),
            via: text.via.clone(),
            kind: CommandKind::AssignmentOnly,
            directory: Directory::Unknown,
            locality: text.locality,
            stdin: self.stdins.last().copied().unwrap_or(Stdin::Inherited),
            effects: Shared::EMPTY,
            effects_known: false,
            span,
        });
        index
    }

    pub(crate) fn close_simple(
        &mut self,
        text: &Text,
        event: Event,
        mut collecting: Box<Collecting>,
    ) {
        let command = collecting.command;
        self.finish_simple(text, event, &mut collecting);
        self.read_nested(text, command, &collecting.origins);
        self.change_shell(command);
        self.network_targets(command);
        collecting.origins.clear();
        self.spare = Some(collecting);
    }

    /// Puts a simple command that was read into the list.
    fn finish_simple(&mut self, text: &Text, event: Event, collecting: &mut Collecting) {
        let command = collecting.command;
        let words = Words::taken(&mut collecting.words);
        let assignments = std::mem::take(&mut collecting.assignments);
        let redirects = std::mem::take(&mut collecting.redirects);
        let span = text.map.span(Span { start: event.start, end: event.end });
        let nothing = words.is_empty() && assignments.is_empty() && redirects.is_empty();
        if nothing && self.commands.len() == command as usize + 1 {
            // Only behind a syntax error.
            self.commands.pop();
            return;
        }
        self.kept += weight::of_words(&words) + weight::of_assignments(&assignments);
        let kind = self.kind_of(&words);
        let only_assigns = words.is_empty();
        for assignment in &assignments {
            self.given_up |= !self.shell.follows || is_readonly(&assignment.name);
            self.integer_assigned(&assignment.name, Some(&assignment.value), assignment.span);
            let value = Some(&assignment.value).filter(|_| !assignment.append);
            self.history_file(&assignment.name, value, Some(command), assignment.span);
            if assignment.array {
                self.array_named(&assignment.name);
            }
            if only_assigns {
                self.variable_changes(&assignment.name, Some(&assignment.value), assignment.span);
            } else {
                self.prefix_state(assignment, &words, span);
                // Text that this command evaluates sees another value than the text around it.
                self.shell.set(&assignment.name, Value::Lost);
            }
        }
        let stdin = stdin_of(&redirects);
        let directory = self.shell.directory_for_list();
        self.steps += if directory == Directory::Start { 0 } else { weight::ELSEWHERE };
        if let Some(slot) = self.commands.get_mut(command as usize) {
            slot.words = words;
            slot.assignments = assignments.into();
            slot.redirects = redirects.into();
            slot.kind = kind;
            slot.span = span;
            slot.directory = directory;
            slot.stdin = stdin.unwrap_or(slot.stdin);
            // Commands that it runs in this shell have its standard input.
            let redirects = slot.redirects.iter();
            self.stdin_moved |= kind != CommandKind::External
                && (slot.stdin == Stdin::Pipe
                    || redirects.into_iter().any(|it| moves_stdin(stdin, it)));
        }
        self.list_targets(command);
        self.check_command(command);
    }

    /// Returns the kind of command that the first word names.
    fn kind_of(&self, words: &[Word]) -> CommandKind {
        match words.first().and_then(Word::exact) {
            Some(name) if self.shell.is_function(name) => CommandKind::Function,
            Some(_) | None => kind_beside_functions(words),
        }
    }

    /// Doubts about what the first word starts.
    pub(crate) fn check_command(&mut self, index: u32) {
        let Some(command) = self.commands.get(index as usize) else { return };
        let Some(first) = command.words.first() else { return };
        let span = first.span;
        if command.kind == CommandKind::Builtin && self.dialect() == Dialect::Sh {
            // Dash expands aliases always.
            let alias = command.words.len() > 1 && first.exact() == Some(b"alias");
            // There `exec` and `eval` have no options, not even `--`.
            let dash = command.words.get(1).is_some_and(|second| second.may_start_with(b"-"))
                && matches!(first.exact(), Some(b"exec" | b"eval"));
            if alias || dash || !first.exact().is_some_and(crate::state::is_posix_builtin) {
                self.doubt_dialect(span);
            }
        }
        let Some(command) = self.commands.get(index as usize) else { return };
        let Some(first) = command.words.first() else { return };
        let doubt = match &first.class {
            WordClass::Exact(name) => {
                let relative = name.contains(&b'/') && !name.starts_with(b"/");
                if relative && command.directory == Directory::Unknown {
                    Some("a program by a relative path, in a directory that is not known")
                } else {
                    is_nameless(&command.directory, name)
                        .then_some("a path that may be any program")
                }
            }
            WordClass::Pattern { .. } => Some("the program is named by a file name pattern"),
            WordClass::Unknown { .. } => Some("the name of the program is not known"),
        };
        if let Some(detail) = doubt {
            self.doubt(Reason::DynamicName, span, detail.to_owned(), String::new());
        }
    }

    /// Lists the files that the redirections of a command open.
    fn list_targets(&mut self, index: u32) {
        let redirect =
            |walk: &Self, at: usize| walk.commands.get(index as usize)?.redirects.get(at).cloned();
        let mut at = 0;
        while let Some(redirect) = redirect(self, at) {
            self.list_target(&redirect, Some(index));
            at += 1;
        }
    }

    fn list_target(&mut self, redirect: &Redirect, command: Option<u32>) {
        let RedirectTarget::File(word) = &redirect.target else { return };
        let target = Target {
            word: word.clone(),
            command,
            operator: redirect.operator,
            span: redirect.span,
        };
        match redirect.operator {
            Operator::Read | Operator::DuplicateInput => self.reads.push(target),
            Operator::ReadWrite => {
                self.reads.push(target.clone());
                self.writes.push(target);
            }
            Operator::Write
            | Operator::Append
            | Operator::Clobber
            | Operator::DuplicateOutput
            | Operator::WriteBoth
            | Operator::AppendBoth => self.writes.push(target),
            Operator::HereDocument | Operator::HereDocumentTabs | Operator::HereString => {}
        }
    }

    /// `/dev/tcp/..` is the network; bash opens the connection itself.
    fn network_targets(&mut self, index: u32) {
        let Some(command) = self.commands.get_mut(index as usize) else { return };
        let mut found = Vec::new();
        for redirect in &command.redirects {
            if let RedirectTarget::File(word) = &redirect.target
                && (word.may_start_with(b"/dev/tcp/") || word.may_start_with(b"/dev/udp/"))
                && word.exact().is_some_and(|path| path.len() > 8)
            {
                found.push(Effect {
                    kind: EffectKind::Network,
                    word: 0,
                    object: Object::Other(Box::new(word.clone())),
                });
            }
        }
        if !found.is_empty() {
            command.effects =
                command.effects.iter().cloned().chain(found).collect::<Vec<_>>().into();
        }
    }

    /// The end of a redirection; a here-document is read first.
    pub(crate) fn close_redirect(
        &mut self,
        text: &Text,
        event: Event,
        redirecting: Redirecting,
        span: Span,
    ) {
        let here =
            matches!(redirecting.operator, Operator::HereDocument | Operator::HereDocumentTabs);
        if here && !redirecting.read {
            let documents = &text.syntax.here_documents;
            let found = documents.binary_search_by_key(&event.link, |document| document.redirect);
            let body =
                found.ok().and_then(|at| documents.get(at)).and_then(|document| document.body);
            let open =
                body.and_then(|body| text.syntax.event(body as usize).map(|open| (body, *open)));
            let empty = Word { span, class: WordClass::Exact(Bytes::EMPTY) };
            let redirecting = Redirecting { read: true, target: Some(empty), ..redirecting };
            match open {
                Some((body, open)) if open.kind == Kind::HereBody && open.link != u32::MAX => {
                    return self.read_body(body as usize, open.link as usize, redirecting);
                }
                Some(_) | None => return self.finish_redirect(redirecting, span),
            }
        }
        self.finish_redirect(redirecting, span);
    }

    fn finish_redirect(&mut self, redirecting: Redirecting, span: Span) {
        self.note_input(&redirecting);
        let Redirecting { operator, descriptor, target, .. } = redirecting;
        let word = target.unwrap_or_else(|| unknown_word(span, Reason::Parameter, Count::Any));
        if operator == Operator::DuplicateOutput && !expands_once(&word) {
            // Checked with bash 5.2: `>&'$(a)'` runs a.
            let detail = "bash expands the target of `>&` a second time".to_owned();
            self.doubt(Reason::EvaluatorText, word.span, detail, "use `&>`".to_owned());
        }
        let target = match operator {
            Operator::HereDocument | Operator::HereDocumentTabs | Operator::HereString => {
                RedirectTarget::Text(word)
            }
            Operator::DuplicateInput | Operator::DuplicateOutput => duplicate(word),
            Operator::Read
            | Operator::Write
            | Operator::Append
            | Operator::Clobber
            | Operator::ReadWrite
            | Operator::WriteBoth
            | Operator::AppendBoth => RedirectTarget::File(word),
        };
        let redirect = Redirect { operator, descriptor, target, span };
        self.steps = self.steps.saturating_add(weight::REDIRECT);
        self.kept += weight::of_redirect(&redirect);
        if let Some(Build::Simple(collecting)) = self.builds.last_mut() {
            collecting.redirects.push(redirect);
        } else {
            self.redirected = true;
            self.stdin_moved |= moves_stdin(stdin_of(std::slice::from_ref(&redirect)), &redirect);
            self.list_target(&redirect, None);
        }
    }

    /// A prefix assignment that changes what its command means.
    fn prefix_state(&mut self, assignment: &Assignment, words: &[Word], span: Span) {
        let name = &assignment.name;
        let Some(detail) = crate::state::effect_of(name, Some(&assignment.value)) else { return };
        // Bash sets IFS anew at its start; here only a builtin that splits could see it.
        let first = words.first().and_then(Word::exact);
        let splits = first.is_none_or(|first| {
            first != b"read"
                && (crate::state::is_builtin(first) || self.shell.may_be_function(first))
        });
        if **name == *b"IFS" && !splits {
            return;
        }
        self.doubt(Reason::State, span, detail, String::new());
    }

    /// A variable gets another value, or one that is not known.
    pub(crate) fn variable_changes(&mut self, name: &[u8], value: Option<&Word>, span: Span) {
        let _ = span;
        if let Some(detail) = crate::state::effect_of(name, value) {
            self.shell.shake(detail);
        }
        // The value itself is set where the assignment is read; other changes are not followed.
        if value.is_none() {
            self.shell.set(name, Value::Lost);
        }
    }

    /// An assignment in front of a command or alone: those behind it see it.
    pub(crate) fn prefix_assignment(&mut self, assignment: &Assignment) {
        self.steps = self.steps.saturating_add(weight::SET);
        let value = match assignment.value.exact() {
            Some(bytes) if !assignment.array && !assignment.append => Value::Exact(bytes.into()),
            Some(bytes) if !assignment.array => match self.shell.exact(&assignment.name) {
                Some(old) if old.len() + bytes.len() <= self.value_bytes => {
                    self.value_bytes -= old.len() + bytes.len();
                    Value::Exact([old, bytes].concat().into())
                }
                Some(_) | None => Value::Set,
            },
            Some(_) | None => Value::Set,
        };
        if self.shell.set(&assignment.name, value) {
            self.steps = self.steps.saturating_add(weight::NEW_NAME);
        }
    }

    /// Reports the rest as opaque if an earlier part has changed its meaning.
    pub(crate) fn tell_shaken(&mut self, span: Span) {
        if self.shell.told {
            return;
        }
        let Some(detail) = self.shell.shaken.clone() else { return };
        self.shell.told = true;
        let rest =
            Span { start: span.start, end: u32::try_from(self.source_length).unwrap_or(u32::MAX) };
        self.doubt(Reason::State, rest, detail.to_string(), String::new());
    }
}

/// Returns the kind of command that the first word names where no function counts.
pub(crate) fn kind_beside_functions(words: &[Word]) -> CommandKind {
    let Some(first) = words.first() else { return CommandKind::AssignmentOnly };
    match first.exact() {
        Some(name) if crate::state::is_builtin(name) => CommandKind::Builtin,
        Some(_) | None => CommandKind::External,
    }
}

/// Says whether bash refuses to assign to this variable from the start.
fn is_readonly(name: &[u8]) -> bool {
    matches!(name, b"UID" | b"EUID" | b"PPID" | b"BASHOPTS" | b"SHELLOPTS" | b"BASH_VERSINFO")
}

/// Says whether expanding the word again changes nothing.
fn expands_once(word: &Word) -> bool {
    word.exact().is_some_and(|text| {
        text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(byte))
    })
}

/// Says whether a program is named by a path that says nothing about it, such as `/proc/self/exe`.
fn is_nameless(directory: &Directory, name: &[u8]) -> bool {
    if !name.contains(&b'/') {
        return false;
    }
    let (parts, absolute) = directory.parts_of(name);
    let plain: Vec<u8> = parts.iter().flat_map(|part| [b"/", *part].concat()).collect();
    absolute && is_nameless_path(&plain)
}

/// The target of `>&` or `<&`.
fn duplicate(word: Word) -> RedirectTarget {
    let Some(text) = word.exact() else { return RedirectTarget::File(word) };
    if text == b"-" {
        return RedirectTarget::Descriptor(None);
    }
    let digits = text.strip_suffix(b"-").unwrap_or(text);
    let number = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok());
    match number {
        Some(number) => RedirectTarget::Descriptor(Some(number)),
        None => RedirectTarget::File(word),
    }
}

/// Says whether a redirection, which takes standard input from `stdin`, gives what may be no file of the project.
fn moves_stdin(stdin: Option<Stdin>, redirect: &Redirect) -> bool {
    match (stdin, &redirect.target) {
        (None, _) => false,
        (Some(_), RedirectTarget::File(file)) => may_be_descriptor(file),
        (Some(_), RedirectTarget::Text(_) | RedirectTarget::Descriptor(_)) => true,
    }
}

/// Where redirections take standard input from; none if they do not.
fn stdin_of(redirects: &[Redirect]) -> Option<Stdin> {
    redirects.iter().rev().find_map(|redirect| {
        let standard = redirect.descriptor.is_none_or(|descriptor| descriptor == 0);
        match redirect.operator {
            Operator::Read | Operator::ReadWrite | Operator::DuplicateInput if standard => {
                Some(Stdin::File)
            }
            Operator::HereDocument | Operator::HereDocumentTabs | Operator::HereString
                if standard =>
            {
                Some(Stdin::Text)
            }
            Operator::Read
            | Operator::ReadWrite
            | Operator::DuplicateInput
            | Operator::HereDocument
            | Operator::HereDocumentTabs
            | Operator::HereString
            | Operator::Write
            | Operator::Append
            | Operator::Clobber
            | Operator::DuplicateOutput
            | Operator::WriteBoth
            | Operator::AppendBoth => None,
        }
    })
}
