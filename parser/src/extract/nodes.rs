//! Nodes: what opening and closing each means for the walk.

use crate::event::{Event, Kind, flag};
use crate::extract::known::common_beginning;
use crate::extract::scope::{Ends, Scope};
use crate::extract::shell::Value;
use crate::extract::weight;
use crate::extract::{Build, Collecting, Redirecting, Run, Text, Walk};
use crate::grammar::redirect::{push_without_continuations, token_text};
use crate::word::build::{Building, Piece, WordRole, is_active};
use crate::{Assignment, Bytes, Count, Position, Reason, Span, Stdin, Thin, Word, WordClass};
use stockade_programs::Dialect;

impl Walk<'_> {
    pub(crate) fn open(&mut self, text: &Text, event: Event, at: usize) {
        use Kind::*;
        let span = text.map.span(Span { start: event.start, end: event.end });
        let building = || Building { span, ..Building::default() };
        self.inputs.moved |= matches!(event.kind, Coproc | ProcessSubstitution);
        if event.kind == AndOr {
            self.begin_line(&text.bytes, event.start);
        }
        let build = match event.kind {
            AndOr => self.open_and_or(event),
            Pipeline => self.open_pipeline(event),
            Simple => self.open_simple(text, event),
            PlainCommand => return self.plain_command(text, event, at),
            Word => {
                self.end_prefixes();
                Build::Word(building())
            }
            Assignment => Build::Assignment {
                building: building(),
                name: Vec::new(),
                append: event.flags & flag::APPEND != 0,
                array: false,
            },
            ArrayValue => Build::Array,
            Redirect => self.open_redirect(),
            Double => {
                // Even empty, quotes make a word.
                self.push(Piece::Quoted, b"");
                Build::Double
            }
            Braced => {
                let (quoted, operand) = (event.flags & flag::QUOTED != 0, building());
                Build::Braced(Box::new(super::Braced { quoted, operand, ..Default::default() }))
            }
            Subscript => Build::Subscript { building: building() },
            Arithmetic => {
                self.enter_loop_head();
                Build::Arithmetic { building: building() }
            }
            ExtendedPattern => Build::Extended { building: building() },
            HereBody => return self.open_here_body(event, at, building()),
            Substitution => self.open_output(Ends::Process, Position::Substitution),
            ProcessSubstitution => self.open_output(Ends::Process, Position::ProcessSubstitution),
            BraceSubstitution => self.open_output(Ends::Branch, Position::Substitution),
            Subshell => self.scope(Ends::Process, Some(Position::Subshell), None),
            Coproc => self.scope(Ends::Process, Some(Position::Compound), None),
            If | Case => self.scope(Ends::Branch, None, None),
            Branch => self.open_branch(span),
            CaseItem => self.scope(Ends::Branch, Some(Position::Compound), None),
            Loop => self.open_loop(),
            For | Select => Build::For { name: Vec::new(), words: Vec::new(), scope: None },
            Function => Build::Function { named: false },
            Test => Build::Test { operator: Vec::new(), last: None },
            List | Group => Build::Passing,
            // Tokens and ends: `leaf` and `close` take them.
            Blank | Newline | Comment | Continuation | Operator | Keyword | Number
            | VariableDescriptor | RedirectOperator | Literal | Escape | Single | Ansi | Quote
            | Name | Parameter | ParameterOperator | Backquote | Opener | Closer | HereText
            | HereTabs | HereEnd | PlainWord | Junk | Close => Build::Passing,
        };
        self.builds.push(build);
        self.opened.push(event);
    }

    fn open_and_or(&mut self, event: Event) -> Build {
        match event.flags & flag::BACKGROUND {
            0 => Build::AndOr(self.open_chain()),
            _ => Build::AndOr(self.open_background_chain()),
        }
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

    fn open_redirect(&mut self) -> Build {
        self.end_prefixes();
        Build::Redirect(Box::new(Redirecting {
            operator: crate::Operator::Write,
            descriptor: None,
            variable: false,
            target: None,
            read: false,
        }))
    }

    /// Begins a substitution, whose output is a piece of a word.
    fn open_output(&mut self, ends: Ends, position: Position) -> Build {
        self.scope(ends, Some(position), Some(Reason::Substitution))
    }

    fn open_loop(&mut self) -> Build {
        let scope = Box::new(self.enter_repeated(Position::Compound));
        Build::Scope { scope, piece: None }
    }

    fn scope(&mut self, ends: Ends, position: Option<Position>, piece: Option<Reason>) -> Build {
        let scope = Box::new(self.enter(ends, position, None));
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
    fn plain_command(&mut self, text: &Text, event: Event, at: usize) {
        let end = event.link as usize;
        if let Some(run) = self.runs.last_mut() {
            run.at = end.saturating_add(1);
        }
        self.steps = self.steps.saturating_add(end.saturating_sub(at) as u64);
        self.begin_line(&text.bytes, event.start);
        let chain = self.open_chain();
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
            let words = self.finish_word(building, WordRole::Argument);
            collecting.origins.extend(words.iter().map(|_| origin));
            collecting.words.extend(words);
        }
        self.close_simple(text, event, collecting);
        self.close_chain(chain);
    }

    /// Begins the scope of the `for` or `select` around this, unless it has begun.
    fn enter_loop_head(&mut self) {
        if !matches!(self.builds.last(), Some(Build::For { scope: None, .. })) {
            return;
        }
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
        self.enter_loop_head();
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
            self.shell.may_define(&name);
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
                match building.segments.as_slice() {
                    [only] if only.piece == Piece::Plain => self.shell.define(name),
                    _ => self.shell.may_define(name),
                }
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
                let words = self.finish_word(building, WordRole::Argument);
                if let Some(Build::Simple(collecting)) = self.builds.last_mut() {
                    collecting.origins.extend(words.iter().map(|_| origin));
                    collecting.words.extend(words);
                }
            }
            Some(Build::For { .. }) => {
                let finished = self.finish_word(building, WordRole::Argument);
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
    pub(crate) fn finish_word(&mut self, building: Building, place: WordRole) -> Vec<Word> {
        let span = building.span;
        // Only bash reads the `~` behind `=` and `:` of a word that is not an assignment.
        let tilde = building.bytes.windows(2).any(|pair| matches!(pair, b"=~" | b":~"));
        if tilde && place == WordRole::Argument && self.dialect() == Dialect::Sh {
            self.doubt_dialect(span);
        }
        let finished = building.finish(place, &self.shell.home, &mut self.braces);
        if finished.brace_limit {
            let detail = "brace expansion makes too many words, or ones that are not modelled";
            self.doubt(Reason::LimitBrace, span, detail.to_owned(), String::new());
        }
        if finished.braces && self.dialect() == Dialect::Sh {
            self.doubt_dialect(span);
        }
        finished.words
    }

    fn close_target(&mut self, building: Building) {
        let Some(Build::Redirect(redirect)) = self.builds.last() else { return };
        let here_string = redirect.operator == crate::Operator::HereString;
        let place = if here_string { WordRole::Single } else { WordRole::Target };
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
        let mut words = self.finish_word(building, WordRole::Value);
        let value = words.pop().unwrap_or(Word { span, class: WordClass::Exact(Bytes::EMPTY) });
        let Some(Build::Simple(collecting)) = self.builds.last_mut() else {
            // An element of an array.
            return;
        };
        if head.operand {
            self.steps = self.steps.saturating_add(weight::SET);
            if head.array {
                self.array_operands.insert((collecting.command, collecting.words.len()));
            }
            collecting.words.push(operand_word(&head, &value, span));
            collecting.origins.push(event.link);
            return;
        }
        let Head { name, append, array, .. } = head;
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
        let (depth, dialect) = (run.depth, run.dialect);
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
            dialect,
        });
    }

    fn close_here_body(&mut self, building: Building, span: Span) {
        let words = self.finish_word(Building { span, ..building }, WordRole::Single);
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
fn operand_word(head: &Head, value: &Word, span: Span) -> Word {
    let mut front = head.name.clone();
    front.extend_from_slice(if head.append { b"+=" } else { b"=" });
    let class = match &value.class {
        WordClass::Exact(bytes) if !head.array => {
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
