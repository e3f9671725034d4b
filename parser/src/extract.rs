//! From the flat syntax tree to commands: one walk over the events, with a stack of what is being built.

pub(crate) mod arithmetic;
mod assigned;
pub(crate) mod commands;
mod effects;
mod forks;
mod guarded;
mod hidden;
mod input;
mod known;
mod leaves;
pub(crate) mod marks;
mod nested;
mod nodes;
mod own;
mod scope;
mod scripts;
pub(crate) mod shell;
pub(crate) mod weight;

use std::cmp::Ordering;
use std::rc::Rc;

use crate::event::{Event, Kind};
use crate::grammar::{HowRead, Syntax};
use crate::marks::Request;
use crate::word::build::{BraceBudget, Building};
use crate::zsh::{Difference, difference};
use crate::{
    Assignment, Bytes, CommandTree, Draft, Effect, Limits, Locality, Notice, Opaque, Position,
    Programs, Reason, Redirect, Shared, SimpleCommand, Span, StartState, Stdin, Target, Unread,
    Via, Word,
};
use stockade_programs::{Dialect, Rows};

use shell::Shell;

/// A text that is walked: the source, or one nested in it.
pub(crate) struct Text {
    pub bytes: Vec<u8>,
    pub syntax: Syntax,
    pub map: Map,
    /// Wrappers and evaluators around the whole text.
    pub via: Shared<Via>,
    pub locality: Locality,
    /// Position of commands that stand at its top.
    pub position: Position,
}

/// From places in a nested text to places in the source.
pub(crate) enum Map {
    /// The source itself.
    Same,
    /// All of it comes from here.
    Whole(Span),
    /// Runs: where each starts in the text and in the source.
    Runs(Vec<(u32, u32)>),
}

impl Map {
    pub(crate) fn place(&self, at: u32) -> u32 {
        match self {
            Map::Same => at,
            Map::Whole(span) => span.start,
            Map::Runs(runs) => {
                let after = runs.partition_point(|(decoded, _)| *decoded <= at);
                match after.checked_sub(1).and_then(|run| runs.get(run)) {
                    Some((decoded, source)) => source.saturating_add(at - decoded),
                    None => runs.first().map_or(0, |(_, source)| *source),
                }
            }
        }
    }

    pub(crate) fn span(&self, span: Span) -> Span {
        match self {
            Map::Same => span,
            Map::Whole(whole) => *whole,
            Map::Runs(_) if span.start >= span.end => {
                let at = self.place(span.start);
                Span { start: at, end: at }
            }
            Map::Runs(_) => Span {
                start: self.place(span.start),
                end: self.place(span.end - 1).saturating_add(1),
            },
        }
    }
}

/// A simple command while its parts come in.
#[derive(Default)]
pub(crate) struct Collecting {
    pub words: Vec<Word>,
    /// For each word, the event that opens it, for mapping nested texts.
    pub origins: Vec<u32>,
    pub assignments: Vec<Assignment>,
    pub redirects: Vec<Redirect>,
    /// Here-document and here-string bodies are kept in `redirects`.
    pub command: u32,
}

/// Role of an open node of the syntax tree in the walk.
pub(crate) enum Build {
    /// Nothing is built: the node only groups.
    Passing,
    Simple(Box<Collecting>),
    Word(Building),
    Assignment {
        building: Building,
        name: Vec<u8>,
        append: bool,
        array: bool,
    },
    Array,
    Double,
    Braced(Box<Braced>),
    Arithmetic {
        building: Building,
    },
    Subscript {
        building: Building,
    },
    Extended {
        building: Building,
    },
    Redirect(Box<Redirecting>),
    HereBody {
        building: Building,
    },
    /// A scope of shell state ends with this node.
    Scope {
        scope: Box<scope::Scope>,
        piece: Option<Reason>,
    },
    AndOr(scope::Chain),
    Pipeline {
        piped: bool,
        negated: bool,
        element: u32,
        directory: u32,
        scope: Option<Box<scope::Scope>>,
    },
    /// A loop or `select`: its variable, and the words it takes.
    For {
        name: Vec<u8>,
        words: Vec<Word>,
        scope: Option<Box<scope::Scope>>,
    },
    Function {
        named: bool,
    },
    /// The last word and the one before it.
    Test {
        operator: Vec<u8>,
        last: Option<Building>,
    },
}

/// `${ }` while it is read.
#[derive(Default)]
pub(crate) struct Braced {
    pub prefix: u8,
    pub name: Vec<u8>,
    pub operator: Vec<u8>,
    pub subscript: Option<Vec<u8>>,
    pub operand: Building,
    pub quoted: bool,
}

/// A redirection while it is read.
pub(crate) struct Redirecting {
    pub operator: crate::Operator,
    pub descriptor: Option<u32>,
    pub variable: bool,
    pub target: Option<Word>,
    /// The body of the here-document is read.
    pub read: bool,
}

/// Events of a text that are still to be walked.
pub(crate) struct Run {
    pub text: Rc<Text>,
    pub at: usize,
    pub end: usize,
    /// The shell of the outer text, when this one has its own.
    pub outer: Option<Box<Shell>>,
    /// Scope to leave when the run is over.
    pub scope: Option<scope::Scope>,
    pub depth: u32,
    /// The body of a here-document that this run is for: the event that opens it.
    pub here: Option<usize>,
    /// The shell that reads the text.
    pub dialect: Dialect,
}

pub(crate) struct Walk<'a> {
    pub rows: Rows<'a>,
    pub limits: &'a Limits,
    pub start: &'a StartState,
    pub source_length: usize,
    /// The text has more than one line.
    pub lines: bool,
    pub runs: Vec<Run>,
    pub builds: Vec<Build>,
    /// The events that opened `builds`.
    pub opened: Vec<Event>,
    pub positions: Vec<Position>,
    pub stdins: Vec<Stdin>,
    pub shell: Shell,
    pub braces: BraceBudget,
    pub commands: Vec<SimpleCommand>,
    pub opaque: Vec<Opaque>,
    pub notices: Vec<Notice>,
    pub notices_left_out: usize,
    pub writes: Vec<Target>,
    pub reads: Vec<Target>,
    pub nested: Vec<Bytes>,
    pub unread: Vec<Unread>,
    /// Variables that get values otherwise than by plain assignments.
    pub assigned: guarded::Names,
    /// Calls by which functions start themselves again beside themselves.
    pub forks: Vec<Span>,
    /// Something in the text gives the shell another standard input than it has at its start.
    pub stdin_moved: bool,
    /// Shells that read their standard input, and who has that of the text.
    pub inputs: input::Inputs,
    /// Scripts that shells of the text run.
    pub scripts: Vec<scripts::Script>,
    /// Commands that read the text of a program from the standard input of the shell.
    pub stdin_readers: Vec<u32>,
    pub nested_bytes: usize,
    pub nested_limit_told: bool,
    /// A mistake in an expansion may have ended this line: bash goes on with the next.
    pub given_up: bool,
    /// A compound command has a redirection: if that fails, it does not run.
    pub redirected: bool,
    /// The effects of the command before.
    pub last_effects: Shared<Effect>,
    /// The parts of a command that was read, to be used again.
    pub spare: Option<Box<Collecting>>,
    pub associative: std::collections::HashMap<Vec<u8>, bool>,
    pub via_entries: usize,
    pub requests: Vec<Request>,
    pub step_limit: u64,
    pub steps: u64,
    /// Bytes that what is found takes.
    pub kept: usize,
    /// Work spent on values that may or may not have changed.
    pub blurred: u64,
    /// Steps that searches of the text for one name may still take.
    pub search_steps: u64,
    /// Bytes that values of variables may still take where they are used.
    pub value_bytes: usize,
    /// Scopes of function bodies.
    pub bodies: Vec<scope::Scope>,
    /// Names that were looked up: whether the text sets them to numbers only.
    pub integers: std::collections::HashMap<Vec<u8>, bool>,
    /// Names that were looked up: whether the text uses them only.
    pub unset: std::collections::HashMap<Vec<u8>, bool>,
    /// Names that are arrays since somewhere in the text.
    pub arrays: std::collections::BTreeSet<Vec<u8>>,
    /// Operands `NAME=(...)` that the grammar read as arrays: command and word.
    pub array_operands: std::collections::BTreeSet<(u32, usize)>,
}

/// After so many events the walk looks whether a piece of them can be given back.
const PAUSE_EVERY: usize = 1 << 14;

/// Bytes of values of variables that are put in where they are used, in one text.
const VALUE_BYTES: usize = 1 << 20;

/// Steps that reading and walking a text may take, without those for texts in it.
fn work_for(source: &[u8], limits: &Limits) -> u64 {
    let steps = limits.steps_per_byte.saturating_mul(source.len() as u64).saturating_add(100_000);
    steps.min(limits.work)
}

/// Returns the walk over `source` before its first step.
fn new_walk<'a>(
    source: &[u8],
    start: &'a StartState,
    programs: &'a Programs,
    limits: &'a Limits,
) -> Walk<'a> {
    Walk {
        rows: Rows::new(programs),
        limits,
        start,
        source_length: source.len(),
        lines: source.trim_ascii_end().contains(&b'\n'),
        runs: Vec::with_capacity(4),
        builds: Vec::with_capacity(32),
        opened: Vec::with_capacity(32),
        positions: vec![Position::Top],
        stdins: vec![Stdin::Inherited],
        shell: Shell::new(start, source),
        braces: BraceBudget { words: limits.brace_words, bytes: limits.brace_bytes },
        commands: Vec::new(),
        opaque: Vec::new(),
        notices: Vec::new(),
        notices_left_out: 0,
        writes: Vec::new(),
        reads: Vec::new(),
        nested: Vec::new(),
        unread: Vec::new(),
        assigned: guarded::Names::default(),
        forks: Vec::new(),
        stdin_moved: false,
        inputs: input::Inputs::default(),
        scripts: Vec::new(),
        stdin_readers: Vec::new(),
        nested_bytes: 0,
        nested_limit_told: false,
        given_up: false,
        redirected: false,
        last_effects: Shared::EMPTY,
        spare: None,
        associative: std::collections::HashMap::new(),
        via_entries: 0,
        requests: Vec::new(),
        step_limit: work_for(source, limits),
        steps: 0,
        kept: 0,
        blurred: 0,
        search_steps: 8 * source.len() as u64 + 100_000,
        value_bytes: VALUE_BYTES,
        bodies: Vec::new(),
        integers: std::collections::HashMap::new(),
        unset: std::collections::HashMap::new(),
        arrays: std::collections::BTreeSet::new(),
        array_operands: std::collections::BTreeSet::new(),
    }
}

/// Reads `source` and lists what it could start, write and read.
pub(crate) fn extract(
    source: &[u8],
    start: &StartState,
    programs: &Programs,
    limits: &Limits,
) -> Draft {
    if source.len() > limits.input_bytes {
        return Draft::opaque(source, Reason::LimitInput);
    }
    if source.contains(&0) {
        return Draft::opaque(source, Reason::Nul);
    }
    let mut walk = new_walk(source, start, programs, limits);
    // The walk through what was read takes work and memory as well.
    let reading = HowRead {
        depth: limits.depth,
        steps: walk.step_limit.min(limits.work / 5 * 3),
        memory_bytes: limits.memory_bytes / 4 * 3,
    };
    let syntax = reading.read(source);
    walk.steps = syntax.steps;
    let text = Text {
        bytes: source.to_vec(),
        syntax,
        map: Map::Same,
        via: Shared::EMPTY,
        locality: Locality::Here,
        position: Position::Top,
    };
    walk.start_state();
    walk.other_shell(source);
    walk.hidden_bytes(&text);
    walk.begin(text, reading, None, None, 0, Dialect::Bash);
    walk.walk();
    walk.finish(source, reading)
}

impl Walk<'_> {
    /// Makes the whole text opaque if the start state does not promise all that is needed.
    fn start_state(&mut self) {
        let whole = Span::new(0, self.source_length);
        let start = self.start;
        for (promised, detail) in [
            (start.plain_options, "the options of the shell are not the ones that are modelled"),
            (start.clean_environment, "the environment may change how bash reads this"),
            (start.utf8_or_c, "the locale may give bytes another meaning"),
        ] {
            if !promised {
                self.doubt(Reason::State, whole, detail.to_owned(), String::new());
            }
        }
        if start.version < (3, 2) || start.version > (5, 3) {
            let detail = format!("bash {}.{} is not modelled", start.version.0, start.version.1);
            self.doubt(Reason::Version, whole, detail, String::new());
        }
    }

    /// Makes what zsh may read differently opaque, where it runs the text.
    fn other_shell(&mut self, source: &[u8]) {
        if let Some(Difference { span, detail }) =
            self.start.zsh.and_then(|zsh| difference(source, zsh))
        {
            self.doubt(Reason::Zsh, span, detail, String::new());
        }
    }

    /// Starts walking a text.
    pub(crate) fn begin(
        &mut self,
        mut text: Text,
        reading: HowRead,
        outer: Option<Box<Shell>>,
        scope: Option<scope::Scope>,
        depth: u32,
        dialect: Dialect,
    ) {
        for trouble in &text.syntax.troubles {
            let span = text.map.span(trouble.span);
            self.doubt(trouble.reason, span, trouble.detail.to_owned(), trouble.help.to_owned());
        }
        for (span, detail) in &text.syntax.notices {
            let span = text.map.span(*span);
            self.notice(span, detail);
        }
        self.functions_of(&text, outer.is_some());
        self.forks_of(&text);
        let whole = Span::new(0, text.bytes.len());
        self.requests.push(Request {
            text: text.bytes.as_slice().into(),
            origin: text.map.span(whole),
            reading,
        });
        self.steps = self.steps.saturating_add(weight::TEXT);
        self.kept = self.kept.saturating_add(size_of::<Request>() + text.bytes.len());
        self.positions.push(text.position);
        text.syntax.divide();
        let end = text.syntax.count;
        self.runs.push(Run {
            text: Rc::new(text),
            at: 0,
            end,
            outer,
            scope,
            depth,
            here: None,
            dialect,
        });
    }

    fn walk(&mut self) {
        while let Some(run) = self.runs.last_mut() {
            if run.at >= run.end {
                self.end_run();
                continue;
            }
            // Only the last who looks at a text may make it smaller.
            let at = run.at;
            if let Some(text) = Rc::get_mut(&mut run.text) {
                text.syntax.forget_before(at);
            }
            let text = Rc::clone(&run.text);
            let depth = self.runs.len();
            let syntax_bytes = text.syntax.memory_bytes();
            // Events of this text, until another text comes on top.
            while let Some(run) = self.runs.last_mut() {
                let at = run.at;
                if at >= run.end {
                    break;
                }
                run.at += 1;
                self.steps += 1;
                let memory = self.kept + self.shell.memory_bytes() + syntax_bytes;
                if self.steps > self.step_limit || memory > self.limits.memory_bytes {
                    return self.give_up();
                }
                let Some(event) = text.syntax.event(at).copied() else { break };
                if event.kind == Kind::Close {
                    self.close(&text, event);
                } else if event.kind.is_leaf() {
                    self.leaf(&text, event, at);
                } else {
                    self.open(&text, event, at);
                }
                let now = self.runs.last().map_or(at, |run| run.at);
                if self.runs.len() != depth || now / PAUSE_EVERY != at / PAUSE_EVERY {
                    break;
                }
            }
        }
    }

    /// The walk takes too much work: what is left of the source is opaque.
    fn give_up(&mut self) {
        let place = self.runs.last().and_then(|run| {
            let event = run.text.syntax.event(run.at.saturating_sub(1))?;
            Some(run.text.map.place(event.start))
        });
        let end = u32::try_from(self.source_length).unwrap_or(u32::MAX);
        let span = Span { start: place.unwrap_or(0).min(end), end };
        let detail = "the rest is not read".to_owned();
        self.opaque.push(Opaque { reason: Reason::LimitWork, span, detail, help: String::new() });
        self.runs.clear();
    }

    fn end_run(&mut self) {
        let Some(run) = self.runs.pop() else { return };
        self.positions.pop();
        if let Some(scope) = run.scope {
            self.leave(scope);
        }
        if let Some(outer) = run.outer {
            self.shell = *outer;
        }
    }

    /// Adds an opaque span, in terms of the source.
    pub(crate) fn doubt(&mut self, reason: Reason, span: Span, detail: String, help: String) {
        self.steps = self.steps.saturating_add(weight::DOUBT);
        let opaque = match self.opaque.len().cmp(&self.limits.doubts) {
            Ordering::Less => Opaque { reason, span, detail, help },
            Ordering::Equal => Opaque {
                reason: Reason::LimitWork,
                span: Span::new(0, self.source_length),
                detail: "more doubts than are listed".to_owned(),
                help: String::new(),
            },
            Ordering::Greater => return,
        };
        self.kept += size_of::<Opaque>() + opaque.detail.len() + opaque.help.len() + 32;
        self.opaque.push(opaque);
    }

    pub(crate) fn notice(&mut self, span: Span, text: &str) {
        if self.notices.len() < self.limits.notices {
            self.notices.push(Notice { text: text.to_owned(), span });
        } else {
            self.notices_left_out += 1;
        }
    }

    fn finish(mut self, source: &[u8], reading: HowRead) -> Draft {
        self.programs_made_here();
        self.programs_on_stdin();
        self.scripts_made_here();
        self.shells_with_input();
        let unread: Vec<Span> = self.unread.iter().map(|unread| unread.span).collect();
        for span in unread {
            self.notice(span, "what this text starts is not read");
        }
        if self.notices_left_out > 0 {
            let text = format!("and {} more", self.notices_left_out);
            self.notices.push(Notice { text, span: Span::new(0, source.len()) });
        }
        let tree = CommandTree {
            source: source.to_vec(),
            commands: self.commands,
            opaque: self.opaque,
            notices: self.notices,
            writes: self.writes,
            reads: self.reads,
            nested: self.nested,
            unread: self.unread,
            assigned: self.assigned.list,
            forks: self.forks,
            reading: Some(reading),
            repairs: Vec::new(),
        };
        Draft::new(tree, self.requests, self.steps)
    }
}
