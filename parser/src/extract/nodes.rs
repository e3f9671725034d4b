//! Nodes: what opening and closing each means for the walk.

use crate::event::{Event, Kind, flag};
use crate::extract::known::common_beginning;
use crate::extract::scope::{Ends, Scope};
use crate::extract::shell::Value;
use crate::extract::weight;
use crate::extract::{Braced, Build, Collecting, Redirecting, Run, Text, Walk};
use crate::grammar::redirect::{push_without_continuations, token_text};
use crate::word::build::{Building, Piece, Place, is_active};
use crate::{Assignment, Bytes, Count, Position, Reason, Span, Stdin, Thin, Word, WordClass};

impl Walk<'_> {
    pub(crate) fn open(&mut self, text: &Text, event: Event, at: usize) {
        let span = text.map.span(Span { start: event.start, end: event.end });
        let building = || Building { span, ..Building::default() };
        self.inputs.moved |= matches!(event.kind, Kind::Coproc | Kind::ProcessSubstitution);
        if event.kind == Kind::AndOr {
            self.begin_line(&text.bytes, event.start);
        }
        let build = match event.kind {
            Kind::AndOr => Build::AndOr(self.open_chain(event.flags & flag::BACKGROUND != 0)),
            Kind::Pipeline => self.open_pipeline(event),
            Kind::Simple => self.open_simple(text, event),
            Kind::Word => {
                self.end_prefixes();
                Build::Word(building())
            }
            Kind::Assignment => Build::Assignment {
                building: building(),
                name: Vec::new(),
                append: event.flags & flag::APPEND != 0,
                array: false,
            },
            Kind::ArrayValue => Build::Array,
            Kind::Redirect => {
                self.end_prefixes();
                Build::Redirect(Box::new(Redirecting {
                    operator: crate::Operator::Write,
                    descriptor: None,
                    variable: false,
                    target: None,
                    read: false,
                }))
            }
            Kind::Double => {
                // Even empty, quotes make a word.
                self.push(Piece::Quoted, b"");
                Build::Double
            }
            Kind::Braced => Build::Braced(Box::new(Braced {
                quoted: event.flags & flag::QUOTED != 0,
                operand: building(),
                ..Braced::default()
            })),
            Kind::Subscript => Build::Subscript { building: building() },
            Kind::Arithmetic => {
                if let Some(Build::For { scope: scope @ None, .. }) = self.builds.last_mut() {
                    *scope = None;
                    self.enter_loop_head();
                }
                Build::Arithmetic { building: building() }
            }
            Kind::ExtendedPattern => Build::Extended { building: building() },
            Kind::HereBody => return self.open_here_body(event, at, building()),
            kind => self.open_compound(kind, span),
        };
        self.builds.push(build);
        self.opened.push(event);
    }

    fn open_pipeline(&mut self, event: Event) -> Build {
        if event.flags == 0 {
            return Build::Passing;
        }
        let piped = event.flags & flag::PIPED != 0;
        let directory = self.shell.directory_changes;
        let scope = piped.then(|| Box::new(self.enter_element(0)));
        let negated = event.flags & flag::NEGATED != 0;
        Build::Pipeline { piped, negated, element: 0, directory, scope }
    }

    /// Begins what holds commands: substitutions, subshells, conditions, loops and functions.
    fn open_compound(&mut self, kind: Kind, span: Span) -> Build {
        match kind {
            Kind::Substitution => {
                self.scope(Ends::Process, Position::Substitution, Some(Reason::Substitution))
            }
            Kind::ProcessSubstitution => {
                self.scope(Ends::Process, Position::ProcessSubstitution, Some(Reason::Substitution))
            }
            Kind::BraceSubstitution => {
                self.scope(Ends::Branch, Position::Substitution, Some(Reason::Substitution))
            }
            Kind::Subshell => self.scope(Ends::Process, Position::Subshell, None),
            Kind::Coproc => self.scope(Ends::Process, Position::Compound, None),
            Kind::If | Kind::Case => {
                let scope = Box::new(self.enter(Ends::Branch, None, None));
                Build::Scope { scope, piece: None }
            }
            Kind::Branch => self.open_branch(span),
            Kind::CaseItem => self.scope(Ends::Branch, Position::Compound, None),
            Kind::Loop => {
                let scope = Box::new(self.enter_repeated(Position::Compound));
                Build::Scope { scope, piece: None }
            }
            Kind::For | Kind::Select => {
                Build::For { name: Vec::new(), words: Vec::new(), scope: None }
            }
            Kind::Function => Build::Function { named: false },
            Kind::Test => Build::Test { operator: Vec::new(), last: None },
            _ => Build::Passing,
        }
    }

    fn scope(&mut self, ends: Ends, position: Position, piece: Option<Reason>) -> Build {
        let scope = Box::new(self.enter(ends, Some(position), None));
        Build::Scope { scope, piece }
    }

    pub(crate) fn enter_element(&mut self, element: u32) -> Scope {
        self.inputs.moved = true;
        self.steps = self.steps.saturating_add(weight::PROCESS);
        let stdin = (element > 0).then_some(Stdin::Pipe);
        self.enter(Ends::Process, Some(Position::Pipeline(element)), stdin)
    }

    /// Words of a command do not see the assignments in front of it, and what they see is not followed.
    fn end_prefixes(&mut self) {
        let Some(Build::Simple(collecting)) = self.builds.last() else { return };
        if collecting.assignments.is_empty() {
            return;
        }
        let names: Vec<Bytes> =
            collecting.assignments.iter().map(|assignment| assignment.name.clone()).collect();
        for name in names {
            self.shell.set(&name, Value::Lost);
        }
    }

    fn open_simple(&mut self, text: &Text, event: Event) -> Build {
        let span = text.map.span(Span { start: event.start, end: event.end });
        self.tell_shaken(span);
        let command = self.reserve(text, span);
        // Inside of another command it is an allocation of its own.
        self.kept += if self.spare.is_none() { 2 * size_of::<Collecting>() } else { 0 };
        let mut collecting = self.spare.take().unwrap_or_default();
        collecting.command = command;
        Build::Simple(collecting)
    }

    /// A command of plain words alone in its list: the same as its and-or chain, all at once.
    pub(crate) fn plain_command(&mut self, text: &Text, event: Event, at: usize) {
        let end = event.link as usize;
        if let Some(run) = self.runs.last_mut() {
            run.at = end.saturating_add(1);
        }
        self.steps = self.steps.saturating_add(end.saturating_sub(at) as u64);
        self.begin_line(&text.bytes, event.start);
        let chain = self.open_chain(false);
        let span = text.map.span(Span { start: event.start, end: event.end });
        self.tell_shaken(span);
        let mut collecting = self.spare.take().unwrap_or_default();
        collecting.command = self.reserve(text, span);
        for place in at + 1..end {
            let Some(word) = text.syntax.event(place) else { break };
            if word.kind != Kind::PlainWord {
                continue;
            }
            let origin = u32::try_from(place).unwrap_or(u32::MAX);
            let span = text.map.span(Span { start: word.start, end: word.end });
            let bytes = token_text(&text.bytes, word);
            if !bytes.iter().any(|byte| is_active(*byte)) {
                collecting.origins.push(origin);
                collecting.words.push(Word::literal(span, bytes));
                continue;
            }
            let mut building = Building { span, ..Building::default() };
            building.push(Piece::Plain, bytes);
            let words = self.finish_word(building, Place::Argument);
            collecting.origins.extend(words.iter().map(|_| origin));
            collecting.words.extend(words);
        }
        self.close_simple(text, event, collecting);
        self.close_chain(chain);
    }

    fn enter_loop_head(&mut self) {
        let scope = self.enter_repeated(Position::Compound);
        if let Some(Build::For { scope: place, .. }) = self.builds.last_mut() {
            *place = Some(Box::new(scope));
        }
    }

    /// Returns the value of the loop variable in the body of the loop that is read.
    fn value_of_loop(&self) -> Value {
        let is_for = self.opened.last().is_some_and(|opened| opened.kind == Kind::For);
        let Some(Build::For { words, .. }) = self.builds.last().filter(|_| is_for) else {
            return Value::Set;
        };
        match common_beginning(words) {
            beginning if beginning.is_empty() => Value::Set,
            beginning => Value::Begins(beginning.into()),
        }
    }

    /// The body of a condition or loop.
    fn open_branch(&mut self, span: Span) -> Build {
        if let Some(Build::For { scope: None, .. }) = self.builds.last() {
            self.enter_loop_head();
        }
        if let Some(Build::For { name, .. }) = self.builds.last()
            && !name.is_empty()
        {
            let name = name.clone();
            if let Some(detail) = crate::state::effect_of(&name, None) {
                self.shell.shake(detail);
            }
            self.integer_assigned(&name, None, span);
            self.shell.set(&name, self.value_of_loop());
        }
        let scope = Box::new(self.enter(Ends::Branch, Some(Position::Compound), None));
        Build::Scope { scope, piece: None }
    }

    fn open_here_body(&mut self, event: Event, at: usize, building: Building) {
        let Some(run) = self.runs.last_mut() else { return };
        if run.here == Some(at) {
            self.builds.push(Build::HereBody { building });
            self.opened.push(event);
        } else {
            // The body was read at its redirection.
            run.at = (event.link as usize).saturating_add(1).max(run.at);
        }
    }

    pub(crate) fn close(&mut self, text: &Text, event: Event) {
        let (Some(build), Some(opened)) = (self.builds.pop(), self.opened.pop()) else { return };
        let span = text.map.span(Span { start: event.start, end: event.end });
        match build {
            Build::Passing | Build::Double => {}
            Build::Simple(collecting) => self.close_simple(text, event, collecting),
            Build::Word(building) => self.close_word(text, event, building),
            Build::Assignment { building, name, append, array } => {
                let operand = opened.flags & flag::OPERAND != 0;
                self.close_assignment(event, Head { name, append, array, operand }, building, span);
            }
            Build::Array => {
                if let Some(Build::Assignment { array, building, .. }) = self.builds.last_mut() {
                    *array = true;
                    building.unknown(Reason::Parameter, Count::One);
                }
            }
            Build::Braced(braced) => self.close_braced(text, *braced, span),
            Build::Arithmetic { building } => self.close_arithmetic(text, opened, &building, span),
            Build::Subscript { building } => self.close_subscript(text, &building, span),
            Build::Extended { building } => self.close_extended(&building),
            Build::Redirect(redirecting) => self.close_redirect(text, event, *redirecting, span),
            Build::HereBody { mut building } => {
                if opened.flags & flag::CUT != 0 {
                    building.push(Piece::Quoted, b"\n");
                }
                self.close_here_body(building, span);
            }
            Build::Scope { scope, piece } => {
                self.leave(*scope);
                if opened.kind == Kind::Loop {
                    // Changes in a loop count for its own earlier commands too.
                    self.tell_shaken(span);
                }
                if let Some(reason) = piece {
                    self.close_substitution(text, event, opened, reason, span);
                }
            }
            Build::AndOr(chain) => self.close_chain(chain),
            Build::Pipeline { scope, negated, directory, .. } => {
                if let Some(scope) = scope {
                    self.leave(*scope);
                }
                if negated && self.shell.directory_changes != directory {
                    self.shell.directory = crate::Directory::Unknown;
                }
            }
            Build::For { scope, .. } => {
                if let Some(scope) = scope {
                    self.leave(*scope);
                }
                // Changes in a loop count for its own earlier commands too.
                self.tell_shaken(span);
            }
            Build::Function { .. } | Build::Test { .. } => self.close_rest(build),
        }
    }

    /// The alternatives of an extended pattern, such as `@(a|b)`.
    fn close_extended(&mut self, building: &Building) {
        let bytes = [b"(", building.bytes.as_slice(), b")"].concat();
        self.push(Piece::Extended, &bytes);
        if let Some(reason) = building.doubt() {
            self.unknown(reason, Count::Any);
        }
    }

    /// Puts what a substitution prints into the word around it.
    fn close_substitution(
        &mut self,
        text: &Text,
        event: Event,
        opened: Event,
        reason: Reason,
        span: Span,
    ) {
        self.steps = self.steps.saturating_add(weight::SUBSTITUTION);
        let process = opened.kind == Kind::ProcessSubstitution;
        let inner = (event.link as usize..).map_while(|at| text.syntax.event(at));
        // Without a command inside, `<()` is not a word at all.
        let filled = process
            && inner
                .take_while(|inner| inner.start < event.end)
                .any(|inner| matches!(inner.kind, Kind::AndOr | Kind::PlainCommand));
        if filled {
            self.push(Piece::Quoted, b"/dev/fd/");
        }
        // Output beside other text is not a word that could be missing.
        let beside = self.building().is_some_and(|it| !it.bytes.is_empty());
        let one = self.quoted() || filled || (beside && self.prints_one_word(span));
        let is_number = reason == Reason::Substitution && self.prints_number(span);
        let reason = if is_number { Reason::Arithmetic } else { reason };
        self.unknown(reason, if one { Count::One } else { Count::Any });
    }

    /// Ends what has no value.
    fn close_rest(&mut self, build: Build) {
        if let Build::Function { named: true } = build
            && let Some(scope) = self.bodies.pop()
        {
            self.leave(scope);
            // Those of the body count when it is called.
            self.redirected = false;
        }
    }

    /// Takes note of the functions that a text defines: what is read before them may run behind them. `child`: in a new shell.
    pub(crate) fn functions_of(&mut self, text: &Text, child: bool) {
        let events = text.syntax.events.as_slice();
        let open = |event: &Event| event.kind == Kind::Function;
        for at in events.iter().enumerate().filter(|(_, event)| open(event)).map(|(at, _)| at) {
            let named = |event: &&Event| matches!(event.kind, Kind::Word | Kind::PlainWord);
            let Some(word) = events.iter().skip(at).find(named) else { continue };
            let mut name = Vec::new();
            push_without_continuations(token_text(&text.bytes, word), &mut name);
            let later = !child && !self.runs.is_empty() && !self.shell.may_be_function(&name);
            let called = |command: &crate::SimpleCommand| {
                command.words.first().and_then(Word::exact) == Some(name.as_slice())
            };
            self.steps = self.steps.saturating_add(weight::NEW_NAME);
            if later && self.commands.iter().any(called) {
                self.steps = self.steps.saturating_add(self.commands.len() as u64);
                let detail = "a function is defined after a command of its name".to_owned();
                self.doubt(Reason::State, text.map.span(word_span(word)), detail, String::new());
            }
            self.shell.define(&name, false);
        }
    }

    /// The name of a function is read: what follows is its body.
    fn name_function(&mut self, building: &Building, span: Span) {
        match building.literal() {
            Some(name) => {
                if name == b"command_not_found_handle" {
                    self.shell.shake("`command_not_found_handle` is defined".to_owned());
                }
                // Bash keeps quotes and backslashes in the name.
                let surely =
                    matches!(building.segments.as_slice(), [only] if only.piece == Piece::Plain);
                self.shell.define(name, surely);
            }
            None => {
                let detail = "the name of a function is not known".to_owned();
                self.doubt(Reason::DynamicName, span, detail, String::new());
            }
        }
        let scope = self.enter(Ends::Body, Some(Position::Function), None);
        self.shell.forget();
        if self.shell.moves {
            self.shell.go(crate::Directory::Unknown);
        }
        self.bodies.push(scope);
    }

    fn close_word(&mut self, text: &Text, event: Event, building: Building) {
        self.take_word(text, event.link, building);
    }

    /// A word of a command that is one literal.
    pub(crate) fn plain_word(&mut self, text: &Text, event: Event, at: usize) {
        self.end_prefixes();
        let span = text.map.span(Span { start: event.start, end: event.end });
        let bytes = token_text(&text.bytes, &event);
        let origin = u32::try_from(at).unwrap_or(u32::MAX);
        match self.builds.last_mut() {
            Some(Build::Simple(collecting)) if !bytes.iter().any(|byte| is_active(*byte)) => {
                collecting.origins.push(origin);
                collecting.words.push(Word::literal(span, bytes));
            }
            Some(_) | None => {
                let mut building = Building { span, ..Building::default() };
                building.push(Piece::Plain, bytes);
                self.take_word(text, origin, building);
            }
        }
    }

    /// Hands a word that is read to what it is a part of; `origin` is its event.
    fn take_word(&mut self, text: &Text, origin: u32, building: Building) {
        let span = building.span;
        match self.builds.last_mut() {
            Some(Build::Simple(collecting)) => {
                let building = match building.simple() {
                    Ok(word) => {
                        collecting.origins.push(origin);
                        return collecting.words.push(word);
                    }
                    Err(building) => building,
                };
                let words = self.finish_word(building, Place::Argument);
                if let Some(Build::Simple(collecting)) = self.builds.last_mut() {
                    collecting.origins.extend(words.iter().map(|_| origin));
                    collecting.words.extend(words);
                }
            }
            Some(Build::For { .. }) => {
                let finished = self.finish_word(building, Place::Argument);
                if let Some(Build::For { words, .. }) = self.builds.last_mut() {
                    words.extend(finished);
                }
            }
            Some(Build::Redirect(_)) => self.close_target(building),
            Some(Build::Function { named: named @ false }) => {
                *named = true;
                self.name_function(&building, span);
            }
            Some(Build::Test { .. }) => self.test_operand(text, &building, span),
            Some(_) | None => {}
        }
    }

    /// Carries out the expansions of a word.
    pub(crate) fn finish_word(&mut self, building: Building, place: Place) -> Vec<Word> {
        let span = building.span;
        // Only bash reads the `~` behind `=` and `:` of a word that is not an assignment.
        let tilde = building.bytes.windows(2).any(|pair| matches!(pair, b"=~" | b":~"));
        if tilde && place == Place::Argument && self.runs.last().is_some_and(|run| run.sh) {
            self.dialect(span);
        }
        let finished = building.finish(place, &self.shell.home, &mut self.braces);
        if finished.brace_limit {
            let detail = "brace expansion makes too many words, or ones that are not modelled";
            self.doubt(Reason::LimitBrace, span, detail.to_owned(), String::new());
        }
        if finished.braces
            && let Some(run) = self.runs.last()
            && run.sh
        {
            self.dialect(span);
        }
        finished.words
    }

    fn close_target(&mut self, building: Building) {
        let Some(Build::Redirect(redirect)) = self.builds.last() else { return };
        let place = match redirect.operator {
            crate::Operator::HereString => Place::Single,
            _ => Place::Target,
        };
        let span = building.span;
        let words = self.finish_word(building, place);
        let word = match <[Word; 1]>::try_from(words) {
            Ok([word]) => word,
            // Several words or none: bash opens nothing, and says so.
            Err(_) => crate::word::build::unknown_word(span, Reason::Parameter, Count::Any),
        };
        if let Some(Build::Redirect(redirect)) = self.builds.last_mut() {
            redirect.target = Some(word);
        }
    }

    fn close_assignment(&mut self, event: Event, head: Head, building: Building, span: Span) {
        let mut words = self.finish_word(building, Place::Value);
        let value = words.pop().unwrap_or(Word { span, class: WordClass::Exact(Bytes::EMPTY) });
        let Some(Build::Simple(collecting)) = self.builds.last_mut() else {
            // An element of an array.
            return;
        };
        let Head { name, append, array, operand } = head;
        if operand {
            self.steps = self.steps.saturating_add(weight::SET);
            if array {
                self.array_operands.insert((collecting.command, collecting.words.len()));
            }
            collecting.words.push(operand_word(&name, append, &value, array, span));
            collecting.origins.push(event.link);
            return;
        }
        let name = name.into();
        collecting.assignments.push(Assignment { name, array, append, value, span });
        // Later assignments of the same command see this one.
        if let Some(Build::Simple(collecting)) = self.builds.last()
            && let Some(assignment) = collecting.assignments.last().cloned()
        {
            self.prefix_assignment(&assignment);
        }
    }

    /// Reads the body of a here-document, then its redirection again.
    pub(crate) fn read_body(&mut self, body: usize, end: usize, redirect: Redirecting) {
        self.builds.push(Build::Redirect(Box::new(redirect)));
        let Some(run) = self.runs.last_mut() else { return };
        run.at = run.at.saturating_sub(1);
        let text = std::rc::Rc::clone(&run.text);
        let (depth, sh) = (run.depth, run.sh);
        let position = self.positions.last().copied().unwrap_or(Position::Top);
        self.positions.push(position);
        self.runs.push(Run {
            text,
            at: body,
            end: end.saturating_add(1),
            outer: None,
            scope: None,
            depth,
            here: Some(body),
            sh,
        });
    }

    fn close_here_body(&mut self, building: Building, span: Span) {
        let words = self.finish_word(Building { span, ..building }, Place::Single);
        if let Some(Build::Redirect(redirect)) = self.builds.last_mut() {
            redirect.target = words.into_iter().next();
        }
    }
}

/// Part of an assignment in front of its value.
struct Head {
    name: Vec<u8>,
    append: bool,
    array: bool,
    operand: bool,
}

/// `name=value` as an operand of a declaration builtin: one word.
fn operand_word(name: &[u8], append: bool, value: &Word, array: bool, span: Span) -> Word {
    let mut front = name.to_vec();
    front.extend_from_slice(if append { b"+=" } else { b"=" });
    let class = match &value.class {
        WordClass::Exact(bytes) if !array => {
            front.extend_from_slice(bytes);
            WordClass::Exact(front.into())
        }
        WordClass::Exact(_) | WordClass::Pattern { .. } => WordClass::Unknown {
            reason: Reason::Parameter,
            count: Count::One,
            prefix: front.into(),
            suffix: Thin::EMPTY,
            joined: false,
        },
        WordClass::Unknown { reason, prefix, suffix, joined, .. } => {
            front.extend_from_slice(prefix);
            WordClass::Unknown {
                reason: *reason,
                count: Count::One,
                prefix: front.into(),
                suffix: suffix.clone(),
                joined: *joined,
            }
        }
    };
    Word { span, class }
}

/// Where the word of an event is.
fn word_span(word: &Event) -> Span {
    Span { start: word.start, end: word.end }
}
