//! Case files: settings, commands and what is decided about them, as documents that people read.
//!
//! A case begins with a `##` heading. Its blocks are:
//!
//! - `json LAYER` (`user`, `project`, `local`, `flag`, `policy`, `builtin`): settings of that layer; `untrusted`
//!   behind the layer says that the folder was not trusted for it;
//! - `facts`: lines `mode: plan`, `cwd: /p/sub`, `sandbox: enforced`, `interactive: no`, `root: yes`,
//!   `hook: allow policy`, `input: KEY VALUE`, `link: /p/a -> /p/b`, and
//!   `repository: /p/a: WHAT` with `missing`, `harmless` or why it is doubtful;
//! - `sh` with one command, followed by `expect` with what is decided about it;
//! - `cases`: lines `COMMAND => EXPECTATION`, or `TOOL {INPUT} => EXPECTATION`;
//! - `problems`: what loading the settings reports, one a line: `refusal LAYER:LINE` or `warning LAYER:LINE`.
//!
//! An expectation is `DECISION`, then the rule that decided, or the source when none did; then, if wanted,
//! `LAYER:LINE` of the rule and the deciding part in backquotes. Blocks stay in force until the next heading;
//! `facts` stay as well.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use stockade_parser::StartState;
use stockade_policy::{
    Call, Expanded, Facts, GitPlace, HookOutcome, HookVerdict, Layer, Mode, Origin, Repository,
    Rules, SandboxState, SettingsText, Severity, Shape, ShapeSegment, Verdict, evaluate, load,
    patterns_of, repositories_of,
};
use stockade_text::json::{Dialect, Kind, Member, Value, read};

use crate::oracle::tree;

/// One question with the answer that is right.
#[derive(Debug, Clone)]
pub struct Case {
    /// File, heading and line.
    pub place: String,
    /// The settings.
    pub layers: Vec<(Layer, bool, String)>,
    /// Further facts.
    pub facts: Facts,
    /// Further fields of the tool input.
    pub input: Vec<(String, String)>,
    /// A command, or the name of a tool and its input.
    pub question: String,
    /// The right answer.
    pub expectation: String,
}

/// A case as far as it was read.
#[derive(Clone)]
struct State {
    heading: String,
    layers: Vec<(Layer, bool, String)>,
    facts: Facts,
    input: Vec<(String, String)>,
    command: Option<String>,
}

/// Returns the facts that hold when a case says nothing.
pub fn plain_facts() -> Facts {
    Facts {
        cwd: "/home/dev/proj".into(),
        session: None,
        home: "/home/dev".into(),
        homes: Vec::new(),
        roots: Vec::new(),
        project: "/home/dev/proj".into(),
        additional_directories: Vec::new(),
        real_paths: BTreeMap::new(),
        expanded: BTreeMap::new(),
        repositories: BTreeMap::new(),
        brought: Default::default(),
        asked: Vec::new(),
        mode: Mode::Default,
        interactive: true,
        root: false,
        sandbox: SandboxState::Off,
        terminal: false,
        hook: None,
        doubts: Default::default(),
    }
}

/// Reads the cases of one file.
pub fn cases_of(file: &str, text: &str) -> Vec<Case> {
    let mut found = Vec::new();
    let mut state = State::new(String::new());
    let mut lines = text.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            state = State::new(heading.to_owned());
        }
        let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else { continue };
        let mut block = Vec::new();
        for (number, line) in lines.by_ref() {
            if line == "```" {
                break;
            }
            block.push((number + 1, line));
        }
        state.take(file, kind, &block, &mut found);
    }
    found
}

impl State {
    fn new(heading: String) -> State {
        State {
            heading,
            layers: Vec::new(),
            facts: plain_facts(),
            input: Vec::new(),
            command: None,
        }
    }

    fn take(&mut self, file: &str, kind: &str, block: &[(usize, &str)], found: &mut Vec<Case>) {
        let text = block.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
        let first = block.first().map_or(0, |(number, _)| *number);
        match kind.split(' ').collect::<Vec<_>>().as_slice() {
            ["json", layer, rest @ ..] => {
                self.layers.push((layer_named(layer), !rest.contains(&"untrusted"), text));
            }
            ["facts"] => {
                for (_, line) in block {
                    self.fact(line);
                }
            }
            ["sh"] => self.command = Some(text),
            ["expect"] => {
                let question = self.command.take().expect("`sh` stands before `expect`");
                found.push(self.case(file, first, question, text));
            }
            ["cases"] => {
                for (number, line) in block.iter().filter(|(_, line)| !line.trim().is_empty()) {
                    let (question, expectation) = line
                        .rsplit_once(" => ")
                        .unwrap_or_else(|| panic!("{file}:{number}: ` => ` is missing"));
                    let (question, expectation) = (question.trim().to_owned(), expectation.trim());
                    found.push(self.case(file, *number, question, expectation.to_owned()));
                }
            }
            ["problems"] => found.push(self.case(file, first, "problems".to_owned(), text)),
            _ => {}
        }
    }

    fn case(&self, file: &str, line: usize, question: String, expectation: String) -> Case {
        Case {
            place: format!("{file}:{line}: {}", self.heading),
            layers: self.layers.clone(),
            facts: self.facts.clone(),
            input: self.input.clone(),
            question,
            expectation,
        }
    }

    fn fact(&mut self, line: &str) {
        let (key, value) = line.split_once(": ").unwrap_or_else(|| panic!("no fact: {line}"));
        let facts = &mut self.facts;
        match key {
            "mode" => facts.mode = Mode::named(value).expect("a mode"),
            "cwd" => facts.cwd = value.into(),
            "session" => facts.session = Some(value.into()),
            "outer root" => facts.roots.push(value.into()),
            "other home" => facts.homes.push(value.into()),
            "directory" => facts.additional_directories.push(value.into()),
            "interactive" => facts.interactive = value == "yes",
            "root" => facts.root = value == "yes",
            "sandbox" => {
                facts.sandbox = match value {
                    "enforced" => SandboxState::Enforced,
                    "unavailable" => SandboxState::Unavailable,
                    "off" => SandboxState::Off,
                    other => panic!("no state of the sandbox: {other}"),
                };
            }
            "hook" => {
                let (verdict, layer) = value.split_once(' ').expect("verdict and layer");
                facts.hook = Some(outcome(verdict, layer_named(layer)));
            }
            "input" => {
                let (key, value) = value.split_once(' ').expect("key and value");
                self.input.push((key.to_owned(), value.to_owned()));
            }
            "repository" => {
                let (path, what) = value.split_once(": ").expect("a path and what lies there");
                let found = match what {
                    "missing" => Repository::Missing,
                    "harmless" => Repository::Harmless,
                    why => Repository::Doubtful(why.to_owned()),
                };
                facts.repositories.insert(GitPlace::Above(path.into()), found);
            }
            "link" => {
                let (from, to) = value.split_once(" -> ").expect("a link");
                facts.real_paths.entry(from.into()).or_default().push(PathBuf::from(to));
            }
            other => panic!("no fact is called {other}"),
        }
    }
}

/// Returns the outcome of a hook of this layer.
pub fn outcome(verdict: &str, layer: Layer) -> HookOutcome {
    let verdict = match verdict {
        "allow" => HookVerdict::Allow,
        "ask" => HookVerdict::Ask,
        "defer" => HookVerdict::Defer,
        "deny" => HookVerdict::Deny,
        other => panic!("no verdict of a hook: {other}"),
    };
    let origin = Origin {
        layer,
        file: layer.name().into(),
        line: 1,
        column: 1,
        pointer: "/hooks".to_owned(),
    };
    HookOutcome { verdict, reason: String::new(), origin }
}

/// Returns the layer with this name.
pub fn layer_named(name: &str) -> Layer {
    let layers =
        [Layer::Builtin, Layer::User, Layer::Project, Layer::Local, Layer::Flag, Layer::Policy];
    let found = layers.into_iter().find(|layer| layer.name() == name);
    found.unwrap_or_else(|| panic!("no layer is called {name}"))
}

/// Returns the settings texts of layers, each with its name as file.
pub fn texts(layers: &[(Layer, bool, String)], home: &Path, project: &Path) -> Vec<SettingsText> {
    let text = |(layer, trusted, text): &(Layer, bool, String)| SettingsText {
        layer: *layer,
        file: layer.name().into(),
        text: text.clone().into_bytes(),
        anchor: match layer {
            Layer::User => home.join(".claude"),
            Layer::Policy => "/etc/stockade".into(),
            Layer::Builtin | Layer::Project | Layer::Local | Layer::Flag => project.to_owned(),
        },
        trusted: *trusted,
        above: false,
    };
    layers.iter().map(text).collect()
}

/// Returns what is decided about a call.
pub fn answer(rules: &Rules, tool: &str, input: &Value, facts: &Facts) -> Verdict {
    if tool == "Bash" {
        let command = input.get("command").and_then(Value::text).unwrap_or_default();
        let known = [(b"HOME".to_vec(), facts.home.to_string_lossy().into_owned().into())].into();
        let start = StartState { no_operands: false, known, ..StartState::default() };
        let tree = tree::read_from(command.as_bytes(), &start);
        let call = Call::Bash { tree: &tree, input };
        evaluate(rules, &call, &with_repositories(&call, facts))
    } else {
        evaluate(rules, &Call::Tool { name: tool, input }, facts)
    }
}

/// Returns the facts with the repository of each place in which the call uses git: the one that a case says lies there or
/// above, else the project's.
fn with_repositories(call: &Call<'_>, facts: &Facts) -> Facts {
    let found = |place: GitPlace| {
        let path = lexical(place.path());
        let told = facts.repositories.iter().rev().find(|(it, _)| path.starts_with(it.path()));
        (place, told.map_or(Repository::Harmless, |(_, repository)| repository.clone()))
    };
    let repositories = repositories_of(call, facts).into_iter().map(found).collect();
    // A pattern names the links that a case tells of in its directory.
    let links = |shape: &Shape| {
        let paths = facts.real_paths.iter();
        let names = paths.filter(|(path, _)| fits(shape, path));
        names.map(|(path, names)| std::iter::once(path).chain(names).cloned().collect()).collect()
    };
    let shapes = patterns_of(call, facts).into_iter();
    let expanded = shapes.map(|shape| (shape.clone(), Expanded::Links(links(&shape)))).collect();
    Facts { repositories, expanded, ..facts.clone() }
}

/// Says whether a pattern may stand for a path: what it spells out is there at both ends of each segment.
fn fits(shape: &Shape, path: &Path) -> bool {
    let names: Vec<&[u8]> = path.iter().skip(1).map(OsStr::as_encoded_bytes).collect();
    names.len() == shape.segments.len()
        && names.iter().zip(&shape.segments).all(|(name, segment)| match segment {
            ShapeSegment::Known(bytes) => bytes == name,
            ShapeSegment::Glob(glob) => {
                let start: Vec<u8> = glob.iter().map_while(|byte| *byte).collect();
                let end: Vec<u8> = glob.iter().rev().map_while(|byte| *byte).collect();
                name.starts_with(&start) && name.iter().rev().take(end.len()).eq(end.iter())
            }
        })
}

/// Returns a path without `.` and `..`.
fn lexical(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(result.pop()),
            Component::CurDir => {}
            part => result.push(part),
        }
    }
    result
}

/// Returns what is wrong with the answer to a case; nothing when it is right.
pub fn judge(case: &Case) -> Option<String> {
    let loaded = load(&texts(&case.layers, &case.facts.home, &case.facts.project));
    if case.question == "problems" {
        let found: Vec<String> = loaded
            .problems
            .iter()
            .map(|problem| {
                let kind = match problem.severity {
                    Severity::Warning => "warning",
                    Severity::Error => "error",
                    Severity::Refusal => "refusal",
                };
                let place = format!("{}:{}", problem.origin.layer.name(), problem.origin.line);
                format!("{kind} {place} {}", problem.message)
            })
            .collect();
        let found = found.join("\n");
        return (found != case.expectation).then(|| {
            format!("{}\n  expected:\n{}\n  found:\n{found}", case.place, case.expectation)
        });
    }
    let (tool, input) = call(case);
    let verdict = answer(&loaded.rules, &tool, &input, &case.facts);
    let found = describe(&verdict, &case.expectation);
    (found != case.expectation).then(|| {
        let why = &verdict.reason;
        format!(
            "{}\n  {}\n  expected: {}\n  found:    {found}\n  because:  {why}",
            case.place, case.question, case.expectation
        )
    })
}

fn call(case: &Case) -> (String, Value) {
    let tool = case.question.split_once(" {").map(|(name, _)| name);
    let name = tool.filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    if let Some(name) = name
        && let Some(json) = case.question.get(name.len() + 1..)
        && let Ok(input) = read(json.as_bytes(), Dialect::Strict)
    {
        return (name.to_owned(), input);
    }
    let mut members = vec![member("command", Kind::String(case.question.clone()))];
    for (key, value) in &case.input {
        let kind = match value.as_str() {
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            text => Kind::String(text.to_owned()),
        };
        members.push(member(key, kind));
    }
    let span = stockade_parser::Span::default();
    ("Bash".to_owned(), Value { span, kind: Kind::Object(members) })
}

fn member(key: &str, kind: Kind) -> Member {
    let span = stockade_parser::Span::default();
    Member { key: key.to_owned(), key_span: span, value: Value { span, kind } }
}

/// Returns the verdict in the words of an expectation, with as much as that one tells.
fn describe(verdict: &Verdict, expectation: &str) -> String {
    let mut words = vec![verdict.decision.name().to_owned()];
    let rule = verdict.decisive_rule();
    let wants_more = expectation.contains(' ');
    if wants_more {
        words.push(rule.map_or(verdict.source().to_owned(), |rule| rule.text.clone()));
    }
    let layered = |layer: &str| expectation.contains(&format!(" {layer}:"));
    if let Some(rule) = rule
        && ["builtin", "user", "project", "local", "flag", "policy"].into_iter().any(layered)
    {
        words.push(format!("{}:{}", rule.origin.layer.name(), rule.origin.line));
    }
    if expectation.ends_with('`')
        && let Some(part) = rule.and_then(|rule| verdict.parts.get(rule.part))
    {
        words.push(format!("`{}`", part.text));
    }
    words.join("  ")
}
