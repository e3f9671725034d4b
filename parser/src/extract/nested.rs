//! Texts and commands inside commands: the tables say which, the walk goes into them.

use crate::event::{Event, Kind};
use crate::extract::commands::kind_beside_functions;
use crate::extract::own;
use crate::extract::scope::Ends;
use crate::extract::weight;
use crate::extract::{Map, Text, Walk};
use crate::grammar::lex::quote::decode_backquotes;
use crate::grammar::{HowRead, Syntax};
use crate::nested::{self, Inner, InnerCommand, InnerText, Reading};
use crate::options::is_many;
use crate::{
    Assignment, CommandKind, Directory, Effect, Locality, Position, Reason, Shared, SimpleCommand,
    Span, Stdin, Thin, Via, Word, WordClass,
};
use stockade_programs::Dialect;

/// Entries of `via` in one tree: bounds what deep nesting costs in memory.
const VIA_ENTRIES: usize = 400_000;

/// A text that a command evaluates, before it is parsed.
struct Evaluated {
    bytes: Vec<u8>,
    map: Map,
    via: Shared<Via>,
    locality: Locality,
    child: bool,
    dialect: Dialect,
    positional: Option<Vec<Word>>,
    directory: Directory,
    span: Span,
}

/// The text of a command, and where in it its words are.
#[derive(Clone, Copy)]
struct Origin<'a> {
    text: &'a Text,
    words: &'a [u32],
}

/// Commands and texts that are found inside a command and are still to be read.
#[derive(Default)]
struct Found {
    /// Commands, by their places in the list.
    commands: Vec<u32>,
    texts: Vec<Evaluated>,
}

impl Walk<'_> {
    /// Walks what stands between backquotes, in a process of its own.
    pub(crate) fn begin_backquotes(&mut self, text: &Text, event: Event, quoted: bool) {
        let (start, end) = (event.start as usize + 1, (event.end as usize).saturating_sub(1));
        let decoded = decode_backquotes(&text.bytes, start, end, quoted);
        let span = text.map.span(Span { start: event.start, end: event.end });
        let runs = decoded.map.iter().map(|(at, source)| (*at, text.map.place(*source))).collect();
        let map =
            if matches!(text.map, Map::Whole(_)) { Map::Whole(span) } else { Map::Runs(runs) };
        let depth = self.runs.last().map_or(0, |run| run.depth);
        if depth >= self.limits.depth || !self.admit(decoded.bytes.len(), span) {
            if depth >= self.limits.depth {
                self.doubt(Reason::LimitDepth, span, "backquotes".to_owned(), String::new());
            }
            return;
        }
        let (syntax, reading) = self.read_text(&decoded.bytes);
        let nested = Text {
            bytes: decoded.bytes,
            syntax,
            map,
            via: text.via.clone(),
            locality: text.locality,
            position: Position::Substitution,
        };
        let scope = self.enter(Ends::Process, None, None);
        self.begin(nested, reading, None, Some(scope), depth + 1, self.dialect());
    }

    fn read_text(&mut self, bytes: &[u8]) -> (Syntax, HowRead) {
        // A nested text is text like any other; how much of it there may be is limited elsewhere.
        let own =
            self.limits.steps_per_byte.saturating_mul(bytes.len() as u64).saturating_add(1_000);
        self.step_limit = self.step_limit.saturating_add(own).min(self.limits.work);
        let reading = HowRead {
            depth: self.limits.depth,
            steps: self.step_limit.saturating_sub(self.steps),
            memory_bytes: self.limits.memory_bytes.saturating_sub(self.kept),
        };
        let syntax = reading.read(bytes);
        self.steps = self.steps.saturating_add(syntax.steps);
        (syntax, reading)
    }

    /// Counts a nested text against the limit.
    fn admit(&mut self, bytes: usize, span: Span) -> bool {
        self.nested_bytes = self.nested_bytes.saturating_add(bytes).saturating_add(16);
        if self.nested_bytes > self.limits.nested_bytes || self.via_entries > VIA_ENTRIES {
            if !std::mem::replace(&mut self.nested_limit_told, true) {
                self.doubt(Reason::LimitNested, span, "nested text".to_owned(), String::new());
            }
            return false;
        }
        true
    }

    /// Asks the tables about a command, and goes into what it runs.
    pub(crate) fn read_nested(&mut self, text: &Text, command: u32, origins: &[u32]) {
        let mut found = Found::default();
        let (mut current, mut next) = (Some(command), 0);
        while let Some(index) = current {
            let origin = (index == command).then_some(Origin { text, words: origins });
            self.read_command(index, origin, &mut found);
            current = found.commands.get(next).copied();
            next += 1;
        }
        // The last one comes on top, so the first is walked first.
        for evaluated in found.texts.into_iter().rev() {
            self.begin_evaluated(evaluated);
        }
    }

    /// Asks the tables about one command, and takes note of what it starts.
    fn read_command(&mut self, index: u32, origin: Option<Origin<'_>>, found: &mut Found) {
        let Some(outer) = self.commands.get(index as usize) else { return };
        if outer.words.len() > self.limits.command_words {
            let span = outer.span;
            let detail = "more words than are read".to_owned();
            return self.doubt(Reason::LimitWork, span, detail, String::new());
        }
        if own::assigns(outer) {
            self.read_assigned(index, found);
        }
        let Some(outer) = self.commands.get(index as usize) else { return };
        let reading = nested::read(&mut self.rows, outer);
        // A text has the standard input of the command that evaluates it.
        let texts_inside = reading.inner.iter().any(|inner| matches!(inner, Inner::Text(_)));
        self.stdin_moved |= texts_inside && outer.stdin != Stdin::Inherited;
        let read = reading.effects_known || !reading.inner.is_empty() || !reading.doubts.is_empty();
        let row = if read { weight::ROW } else { 0 };
        let row = row + self.rows.searches().saturating_mul(weight::LOOK_UP);
        self.steps = self.steps.saturating_add(row + outer.words.len() as u64);
        for inner in self.note_reading(index, reading) {
            self.inner(index, inner, origin, found);
        }
    }

    /// Takes note of what programs run because of the variables that a command sets.
    fn read_assigned(&mut self, index: u32, found: &mut Found) {
        let Some(outer) = self.commands.get(index as usize) else { return };
        let values = match outer.assignments.len() {
            0 => outer.words.len() as u64,
            values => values as u64,
        };
        self.steps = self.steps.saturating_add(values.saturating_mul(weight::VARIABLES));
        let assigning = outer.clone();
        let Reading { inner, unread, .. } = self.read_variables(&assigning);
        if unread.is_some() {
            self.note_unread(index, assigning.span);
        }
        for inner in inner {
            self.inner(index, inner, None, found);
        }
    }

    /// Keeps what the tables say about a command; returns what it starts.
    fn note_reading(&mut self, index: u32, reading: Reading) -> Vec<Inner> {
        let Some(outer) = self.commands.get(index as usize) else { return Vec::new() };
        let Reading {
            inner,
            effects,
            effects_known,
            doubts,
            unread,
            script,
            same_input,
            reads_code,
        } = reading;
        let span = outer.span;
        let place = |at: u32| outer.words.get(at as usize).map(|word| word.span);
        let script = script.and_then(place);
        let unread = unread.map(|at| place(at).unwrap_or(span));
        let places: Vec<Option<Span>> =
            doubts.iter().map(|doubt| doubt.word.and_then(place)).collect();
        if reads_code {
            self.stdin_readers.push(index);
        }
        let effects = self.shared_effects(effects);
        if let Some(slot) = self.commands.get_mut(index as usize) {
            slot.effects = effects;
            slot.effects_known = effects_known;
        }
        if let Some(span) = unread {
            self.note_unread(index, span);
        }
        if let Some(span) = script {
            self.note_script(index, span);
        }
        if same_input {
            self.inputs.same.insert(index);
        }
        for (doubt, place) in doubts.into_iter().zip(places) {
            if self.may_be_empty(&doubt) {
                self.inputs.readers.push((index, doubt));
                continue;
            }
            self.doubt(doubt.reason, place.unwrap_or(span), doubt.detail, doubt.help);
        }
        inner
    }

    /// Commands that are alike share their effects.
    fn shared_effects(&mut self, effects: Vec<Effect>) -> Shared<Effect> {
        if effects.is_empty() {
            return Shared::EMPTY;
        }
        if *self.last_effects != *effects {
            self.kept += 64 + effects.len() * (size_of::<Effect>() + size_of::<Word>());
            self.last_effects = effects.into();
        }
        self.last_effects.clone()
    }

    /// Takes note of something that a command starts, within the limits.
    fn inner(&mut self, index: u32, inner: Inner, origin: Option<Origin<'_>>, found: &mut Found) {
        let Some(outer) = self.commands.get(index as usize) else { return };
        self.steps = self.steps.saturating_add(weight::INNER);
        let memory = self.kept + self.shell.memory_bytes();
        if self.steps > self.step_limit || memory > self.limits.memory_bytes {
            let span = outer.span;
            if !std::mem::replace(&mut self.nested_limit_told, true) {
                let detail = "what this starts is not read".to_owned();
                self.doubt(Reason::LimitWork, span, detail, String::new());
            }
            return;
        }
        // Each has its chain, with names.
        self.kept += 96 + (outer.via.len() + 1) * (size_of::<Via>() + 32);
        if outer.via.len() >= self.limits.evaluator_depth as usize {
            let span = outer.span;
            self.doubt(
                Reason::LimitDepth,
                span,
                "evaluators in evaluators".to_owned(),
                String::new(),
            );
            return;
        }
        match inner {
            Inner::Command(inner) => self.inner_command(index, inner, found),
            Inner::Text(inner) => self.inner_text(index, inner, origin, found),
        }
    }

    /// Lists a command that another one starts.
    fn inner_command(&mut self, index: u32, inner: InnerCommand, found: &mut Found) {
        let Some(outer) = self.commands.get(index as usize) else { return };
        let InnerCommand { program, words, assignments, strip, locality, directory, stdin, shell } =
            inner;
        // Each copy of the words counts as text.
        let place = outer.span;
        let size = words.iter().map(|word| 64 + known_bytes(word)).sum::<usize>();
        if size > 4_096 && !self.admit(size, place) {
            return;
        }
        let span = words.iter().map(|word| word.span).reduce(Span::join).unwrap_or(place);
        // `exec` starts a program, whatever builtins there are.
        let by_builtin = program != "exec";
        let via = Via { program, command: index, strip };
        let via = self.through_shell(via, shell, directory.as_ref(), span);
        let Some(outer) = self.commands.get(index as usize) else { return };
        let in_shell = outer.kind == CommandKind::Builtin && by_builtin;
        let made = SimpleCommand {
            assignments: Thin::EMPTY,
            redirects: outer.redirects.clone(),
            position: Position::Wrapped,
            via,
            kind: CommandKind::External,
            directory: directory_in(&outer.directory, directory.as_ref()),
            locality: if locality == Locality::Here { outer.locality } else { locality },
            stdin: stdin.unwrap_or(outer.stdin),
            effects: Shared::EMPTY,
            effects_known: false,
            span,
            words: words.into(),
        };
        self.via_entries = self.via_entries.saturating_add(made.via.len());
        let number = u32::try_from(self.commands.len()).unwrap_or(u32::MAX);
        self.kept += size_of::<SimpleCommand>()
            + weight::of_words(&made.words)
            + weight::of_assignments(&assignments);
        let kind =
            if in_shell { kind_beside_functions(&made.words) } else { CommandKind::External };
        self.commands.push(SimpleCommand { kind, ..made });
        self.assign_inside(number, assignments, span);
        self.check_command(number);
        if in_shell {
            self.change_shell(number);
        }
        found.commands.push(number);
    }

    /// Gives a command inside another one the variables that its wrapper sets.
    fn assign_inside(&mut self, number: u32, assignments: Vec<Assignment>, span: Span) {
        for assignment in &assignments {
            let value = Some(&assignment.value);
            if let Some(detail) = crate::state::effect_of(&assignment.name, value)
                && *assignment.name != *b"IFS"
            {
                self.doubt(Reason::State, span, detail, String::new());
            }
        }
        if let Some(slot) = self.commands.get_mut(number as usize) {
            slot.assignments = assignments.into();
        }
    }

    /// Keeps a text that a command evaluates, to be walked when all of the command is read.
    fn inner_text(
        &mut self,
        index: u32,
        inner: InnerText,
        origin: Option<Origin<'_>>,
        found: &mut Found,
    ) {
        let Some(outer) = self.commands.get(index as usize) else { return };
        let InnerText { program, word, bytes, dialect, positional, strip, locality, child, shell } =
            inner;
        let span = outer.words.get(word as usize).map_or(outer.span, |word| word.span);
        let via = Via { program, command: index, strip };
        let via = self.through_shell(via, shell, None, span);
        let Some(outer) = self.commands.get(index as usize) else { return };
        let map = origin
            .and_then(|it| word_map(it.text, *it.words.get(word as usize)?, &bytes))
            .unwrap_or(Map::Whole(span));
        let locality = if locality == Locality::Here { outer.locality } else { locality };
        let directory = outer.directory.clone();
        // A word that may be several, or none, leaves open which is which.
        let positional = positional.filter(|words| child && !words.iter().any(is_many));
        // Text that this shell evaluates itself is read like its own text.
        let dialect = if child || dialect == Dialect::Sh { dialect } else { self.dialect() };
        found.texts.push(Evaluated {
            bytes,
            map,
            via,
            locality,
            child,
            dialect,
            positional,
            directory,
            span,
        });
    }

    /// Returns the way to what a command starts, through the shell that it starts for that, if there is one: it is listed.
    fn through_shell(
        &mut self,
        via: Via,
        words: Vec<Word>,
        directory: Option<&Word>,
        span: Span,
    ) -> Shared<Via> {
        let Some(outer) = self.commands.get(via.command as usize) else { return Shared::EMPTY };
        let way = through(&outer.via, via);
        if words.is_empty() {
            return way;
        }
        let made = SimpleCommand {
            assignments: Thin::EMPTY,
            redirects: outer.redirects.clone(),
            position: Position::Shell,
            via: way.clone(),
            kind: CommandKind::External,
            directory: directory_in(&outer.directory, directory),
            locality: outer.locality,
            stdin: outer.stdin,
            effects: Shared::EMPTY,
            effects_known: true,
            span,
            words: words.into(),
        };
        self.via_entries = self.via_entries.saturating_add(way.len());
        self.kept += size_of::<SimpleCommand>() + weight::of_words(&made.words);
        let number = u32::try_from(self.commands.len()).unwrap_or(u32::MAX);
        self.commands.push(made);
        self.inputs.same.insert(number);
        through(&way, Via { program: "sh".to_owned(), command: number, strip: true })
    }

    fn begin_evaluated(&mut self, evaluated: Evaluated) {
        let Evaluated { bytes, map, via, locality, child, dialect, positional, directory, span } =
            evaluated;
        self.nested.push(bytes.as_slice().into());
        // Each command in the text has a copy of `via`.
        let size = bytes.len().saturating_mul(via.len().max(1));
        if !self.admit(if size > 4_096 { size } else { bytes.len() }, span) {
            return;
        }
        if bytes.contains(&0) {
            self.doubt(Reason::Nul, span, "a NUL byte in a nested text".to_owned(), String::new());
            return;
        }
        let (syntax, reading) = self.read_text(&bytes);
        if dialect == Dialect::Sh
            && let Some(place) = syntax.bash_only
        {
            self.doubt_dialect(map.span(place));
        }
        let depth = self.runs.last().map_or(0, |run| run.depth);
        if child {
            self.steps = self.steps.saturating_add(weight::SHELL);
        }
        let outer = child.then(|| {
            let mut shell = self.shell.child(self.start, &bytes);
            shell.directory = directory;
            shell.positional = positional;
            Box::new(std::mem::replace(&mut self.shell, shell))
        });
        // Only `eval` surely runs its text, once and here.
        let surely = |via: &Via| {
            let outer = self.commands.get(via.command as usize);
            via.program == "eval" && outer.is_some_and(|outer| outer.redirects.is_empty())
        };
        let here = child || via.last().is_some_and(surely);
        let scope = (!here).then(|| self.enter(Ends::Branch, None, None));
        let text = Text { bytes, syntax, map, via, locality, position: Position::Wrapped };
        self.hidden_bytes(&text);
        self.begin(text, reading, outer, scope, depth + 1, dialect);
    }

    /// Returns the shell that reads the text that is walked.
    pub(crate) fn dialect(&self) -> Dialect {
        self.runs.last().map_or(Dialect::Bash, |run| run.dialect)
    }

    pub(crate) fn doubt_dialect(&mut self, span: Span) {
        let detail = "other shells that are called sh read this otherwise".to_owned();
        self.doubt(Reason::Dialect, span, detail, String::new());
    }
}

/// Returns the chain `outer` with one more wrapper.
fn through(outer: &[Via], via: Via) -> Shared<Via> {
    outer.iter().cloned().chain([via]).collect::<Vec<_>>().into()
}

/// How many bytes a word holds.
fn known_bytes(word: &Word) -> usize {
    match &word.class {
        WordClass::Exact(bytes) => bytes.len(),
        WordClass::Pattern { glob, .. } => 64 * glob.len(),
        WordClass::Unknown { prefix, suffix, .. } => prefix.len() + suffix.len(),
    }
}

/// The directory of a command that a wrapper starts in `change`.
fn directory_in(outer: &Directory, change: Option<&Word>) -> Directory {
    let Some(word) = change else { return outer.clone() };
    word.exact().map_or(Directory::Unknown, |path| join(outer, path))
}

/// The directory `path` as seen from `from`.
pub(crate) fn join(from: &Directory, path: &[u8]) -> Directory {
    if path.starts_with(b"/") {
        return Directory::Known(path.to_vec().into());
    }
    match from {
        Directory::Start => Directory::Known(path.to_vec().into()),
        Directory::Known(base) => Directory::Known([&**base, b"/", path].concat().into()),
        Directory::Unknown => Directory::Unknown,
    }
}

/// From the decoded value of the word that event `word` opens to its source; none if `bytes` is not that value.
fn word_map(text: &Text, word: u32, bytes: &[u8]) -> Option<Map> {
    use Kind::*;
    if matches!(text.map, Map::Whole(_)) {
        return None;
    }
    let open = text.syntax.event(word as usize)?;
    if open.kind == Kind::PlainWord {
        let start = (0, text.map.place(open.start));
        let same = text.bytes.get(open.start as usize..open.end as usize) == Some(bytes);
        return same.then(|| Map::Runs(vec![start]));
    }
    let mut runs = Vec::new();
    let mut value: Vec<u8> = Vec::with_capacity(bytes.len());
    for at in word + 1..open.link {
        let event = text.syntax.event(at as usize)?;
        let (start, end) = (event.start as usize, event.end as usize);
        let (from, part) = match event.kind {
            Kind::Literal => (start, text.bytes.get(start..end)?),
            Kind::Escape => (start + 1, text.bytes.get(start + 1..end)?),
            Kind::Single => (start + 1, text.bytes.get(start + 1..end.checked_sub(1)?)?),
            Double | Quote | Close | Continuation => continue,
            Blank | Newline | Comment | Operator | Keyword | Number | VariableDescriptor
            | RedirectOperator | Ansi | Name | Parameter | ParameterOperator | Backquote
            | Opener | Closer | HereText | HereTabs | HereEnd | PlainWord | Junk | List | AndOr
            | Pipeline | Simple | PlainCommand | Word | Assignment | ArrayValue | Redirect
            | Braced | Subscript | Substitution | BraceSubstitution | ProcessSubstitution
            | Arithmetic | Group | Subshell | If | Branch | Loop | For | Select | Case
            | CaseItem | Test | Function | Coproc | ExtendedPattern | HereBody => return None,
        };
        runs.push((u32::try_from(value.len()).ok()?, text.map.place(u32::try_from(from).ok()?)));
        value.extend_from_slice(part);
    }
    (value == bytes).then_some(Map::Runs(runs))
}
