//! Rows from JSONC text. Every key and slot must be known: a typing error is an error, never a gap.

use std::sync::Arc;

use super::index::Table;
use super::row::{
    Body, Danger, Form, Grammar, Input, Operand, OptionRow, Row, Slot, Strip, Style, Takes, Times,
};
use super::{Examples, TableError};
use crate::{Dialect, EffectKind, Locality, Reason};
use stockade_text::json;
use stockade_text::json::{Dialect as JsonDialect, Kind, Member, Value};

/// Deepest nesting of sub-commands.
const MAX_COMMANDS: u32 = 4;

/// A part of a table that is being read.
struct Loader<'a> {
    table: &'a Table,
    /// The place of the part in the table.
    base: usize,
    sets: &'a dyn Fn() -> Result<&'a Sets, TableError>,
    matches: Vec<(String, Vec<(String, Slot)>)>,
}

/// Lists of options that several rows share.
pub(super) type Sets = Vec<(String, Vec<Arc<OptionRow>>)>;

/// Reads the option sets of a table.
pub(super) fn sets(table: &Table) -> Result<Sets, TableError> {
    let (text, base) = table.sets();
    let none = || Err(TableError { line: 1, message: "sets do not use sets".into() });
    let loader = Loader { table, base, sets: &none, matches: Vec::new() };
    let value = loader.json(text)?;
    let mut sets = Vec::new();
    for set in loader.object(&value)? {
        let mut body = empty();
        for member in loader.object(&set.value)? {
            loader.options(member, &mut body)?;
        }
        sets.push((set.key.clone(), body.options));
    }
    Ok(sets)
}

/// Reads what all rows of a table have.
pub(super) fn defaults(table: &Table) -> Result<Body, TableError> {
    let (text, base) = table.defaults();
    let none = || Err(TableError { line: 1, message: "defaults do not use sets".into() });
    let loader = Loader { table, base, sets: &none, matches: Vec::new() };
    loader.body(&loader.json(text)?, empty(), 0)
}

/// Reads one row.
pub(super) fn row<'a>(
    table: &'a Table,
    number: usize,
    examples: Examples,
    sets: &'a dyn Fn() -> Result<&'a Sets, TableError>,
    defaults: &Body,
) -> Result<Row, TableError> {
    let (text, base) = table.row(number);
    let mut loader = Loader { table, base, sets, matches: Vec::new() };
    let value = match examples {
        Examples::Read => loader.json(text)?,
        Examples::Skipped => loader.without_examples(text)?,
    };
    let names = loader.strings(value.get("names").unwrap_or(&value))?;
    let Some(name) = names.first() else {
        return Err(loader.error(&value, "a row needs a name"));
    };
    if examples == Examples::Read
        && value.get("source").and_then(Value::text).unwrap_or_default().is_empty()
    {
        return Err(loader.error(&value, "a row needs a `source`"));
    }
    let tests = match examples {
        Examples::Read => loader.tests(&value)?,
        Examples::Skipped => Vec::new(),
    };
    let strip = loader.strip(value.get("strip"))?;
    let builtin = value.get("builtin").map(|value| loader.boolean(value)).transpose()?;
    let builtin = builtin.unwrap_or(false);
    let input = value.get("input").map(|value| loader.boolean(value)).transpose()?;
    let input = input.unwrap_or(false);
    let one_word = value.get("one_word").map(|value| loader.boolean(value)).transpose()?;
    let one_word = one_word.unwrap_or(false);
    let partial = value.get("partial").map(|value| loader.boolean(value)).transpose()?;
    let loose = value.get("loose").map(|value| loader.boolean(value)).transpose()?;
    let loose = loose.unwrap_or(false);
    let partial = partial.unwrap_or(loose);
    if let Some(cases) = value.get("match") {
        loader.read_matches(cases)?;
    }
    let body = loader.body(&value, defaults.clone(), MAX_COMMANDS)?;
    Ok(Row { name: name.clone(), strip, builtin, input, one_word, partial, loose, body, tests })
}

impl Loader<'_> {
    fn json(&self, text: &str) -> Result<Value, TableError> {
        json::read(text.as_bytes(), JsonDialect::Commented).map_err(|error| TableError {
            line: self.table.line(self.base + error.at),
            message: error.message,
        })
    }

    /// Reads a row of a built-in table: what is for people and tests was checked when those ran.
    fn without_examples(&self, text: &str) -> Result<Value, TableError> {
        let read = json::read_without(text.as_bytes(), &["tests", "source", "checked"]);
        read.map_err(|error| TableError {
            line: self.table.line(self.base + error.at),
            message: error.message,
        })
    }

    fn error(&self, value: &Value, message: impl Into<String>) -> TableError {
        let line = self.table.line(self.base + value.span.start as usize);
        TableError { line, message: message.into() }
    }

    fn text<'v>(&self, value: &'v Value) -> Result<&'v str, TableError> {
        value.text().ok_or_else(|| {
            self.error(value, format!("a string is expected, not {}", value.type_name()))
        })
    }

    fn boolean(&self, value: &Value) -> Result<bool, TableError> {
        value.boolean().ok_or_else(|| {
            self.error(value, format!("`true` or `false` is expected, not {}", value.type_name()))
        })
    }

    fn list<'v>(&self, value: &'v Value) -> Result<&'v [Value], TableError> {
        value.elements().ok_or_else(|| {
            self.error(value, format!("a list is expected, not {}", value.type_name()))
        })
    }

    fn object<'v>(&self, value: &'v Value) -> Result<&'v [Member], TableError> {
        value.members().ok_or_else(|| {
            self.error(value, format!("an object is expected, not {}", value.type_name()))
        })
    }

    fn strings(&self, value: &Value) -> Result<Vec<String>, TableError> {
        self.list(value)?.iter().map(|item| self.text(item).map(str::to_owned)).collect()
    }

    /// Reads a string of names separated by blanks.
    fn names(&self, value: &Value) -> Result<Vec<String>, TableError> {
        Ok(self.text(value)?.split_ascii_whitespace().map(str::to_owned).collect())
    }

    fn tests(&self, value: &Value) -> Result<Vec<(String, String)>, TableError> {
        let tests = match value.get("tests").map(|tests| (tests, &tests.kind)) {
            Some((_, Kind::Object(members))) if !members.is_empty() => members,
            Some((tests, _)) => return Err(self.error(tests, "`tests` is an object with members")),
            None => return Err(self.error(value, "a row needs `tests`")),
        };
        tests
            .iter()
            .map(|member| Ok((member.key.clone(), self.text(&member.value)?.to_owned())))
            .collect()
    }

    fn strip(&self, value: Option<&Value>) -> Result<Strip, TableError> {
        match value.map(|value| (value, &value.kind)) {
            None | Some((_, Kind::Bool(false))) => Ok(Strip::Never),
            Some((_, Kind::Bool(true))) => Ok(Strip::Always),
            Some((_, Kind::String(text))) if text == "without-options" => Ok(Strip::WithoutOptions),
            Some((value, _)) => {
                Err(self.error(value, "`strip` is `true`, `false` or `without-options`"))
            }
        }
    }

    fn read_matches(&mut self, value: &Value) -> Result<(), TableError> {
        for member in self.object(value)? {
            let mut cases = Vec::new();
            for case in self.object(&member.value)? {
                let slot = self.slot(&case.value)?;
                for pattern in case.key.split_ascii_whitespace() {
                    cases.push((pattern.to_owned(), slot.clone()));
                }
            }
            if cases.last().is_none_or(|(pattern, _)| pattern != "*") {
                return Err(self.error(&member.value, "the last pattern must be `*`"));
            }
            self.matches.push((member.key.clone(), cases));
        }
        Ok(())
    }

    /// Reads the keys of `value` into `body`, with sub-commands of so many levels; a row alone may have all of them.
    fn body(&self, value: &Value, body: Body, levels: u32) -> Result<Body, TableError> {
        let mut body = body;
        let mut commands = None;
        for member in self.object(value)? {
            let value = &member.value;
            match member.key.as_str() {
                "names" | "strip" | "source" | "checked" | "tests" | "match" | "builtin"
                | "input" | "one_word" | "partial" | "loose" => {
                    if levels < MAX_COMMANDS {
                        return Err(self.error(value, "this key is valid in a row only"));
                    }
                }
                "options" => body.grammar = self.grammar(value)?,
                "permute" => body.grammar.permute = self.boolean(value)?,
                "abbrev" => body.grammar.abbrev = self.boolean(value)?,
                "end_of_options" => body.grammar.end_of_options = self.boolean(value)?,
                "number" => body.grammar.number = self.boolean(value)?,
                "strict" => body.strict = self.boolean(value)?,
                "read_only" => body.read_only = self.boolean(value)?,
                "pure" => body.pure = self.boolean(value)?,
                "locality" => body.locality = self.locality(value)?,
                "use" => self.use_sets(value, &mut body)?,
                "flags" | "does" | "values" | "optional" | "stop" => {
                    self.options(member, &mut body)?;
                }
                "operands" => body.operands = self.operands(value)?,
                "effects" => body.effects = self.slots(value)?,
                "forms" => {
                    body.forms = self
                        .list(value)?
                        .iter()
                        .map(|form| self.form(form))
                        .collect::<Result<_, _>>()?;
                }
                "commands" => commands = Some(value),
                "otherwise" => body.otherwise = self.slots(value)?,
                "bare" => body.bare = self.slots(value)?,
                _ => {
                    return Err(
                        self.error(value, format!("`{}` is not a key of a row", member.key))
                    );
                }
            }
        }
        if let Some(commands) = commands {
            if levels == 0 {
                return Err(self.error(commands, "sub-commands are nested too deeply"));
            }
            for member in self.object(commands)? {
                let inner = self.body(&member.value, inherited(&body), levels - 1)?;
                let names = member.key.split_ascii_whitespace().map(str::to_owned).collect();
                body.commands.push((names, inner));
            }
        }
        body.danger = danger(&body);
        Ok(body)
    }

    fn grammar(&self, value: &Value) -> Result<Grammar, TableError> {
        let (style, permute, abbrev) = match self.text(value)? {
            "gnu" => (Style::Dashes, true, true),
            "gnu-ordered" => (Style::Dashes, false, true),
            "posix" | "bsd" => (Style::Dashes, false, false),
            "git" => (Style::Dashes, true, true),
            "tar" => (Style::Tar, true, true),
            "shell" => (Style::Shell, false, false),
            "single" => (Style::Single, true, false),
            "find" => (Style::Find, true, false),
            "test" => (Style::Test, true, false),
            "none" | "dd" | "applet" => (Style::None, false, false),
            other => return Err(self.error(value, format!("`{other}` is not an option grammar"))),
        };
        Ok(Grammar { style, permute, abbrev, number: false, end_of_options: false })
    }

    fn locality(&self, value: &Value) -> Result<Locality, TableError> {
        match self.text(value)? {
            "here" => Ok(Locality::Here),
            "remote" => Ok(Locality::Remote),
            "container" => Ok(Locality::Container),
            _ => Err(self.error(value, "`locality` is `here`, `remote` or `container`")),
        }
    }

    fn use_sets(&self, value: &Value, body: &mut Body) -> Result<(), TableError> {
        let sets = (self.sets)()?;
        for name in self.text(value)?.split_ascii_whitespace() {
            let Some((_, options)) = sets.iter().find(|(known, _)| known == name) else {
                return Err(self.error(value, format!("unknown set `{name}`")));
            };
            body.options.extend(options.iter().cloned());
        }
        Ok(())
    }

    fn options(&self, member: &Member, body: &mut Body) -> Result<(), TableError> {
        let value = &member.value;
        if member.key == "flags" {
            for item in self.list(value)? {
                let names = self.names(item)?;
                body.options.push(Arc::new(OptionRow {
                    names,
                    takes: Takes::Nothing,
                    slots: Vec::new(),
                    stop: false,
                }));
            }
            return Ok(());
        }
        for option in self.object(value)? {
            let names = option.key.split_ascii_whitespace().map(str::to_owned).collect();
            let slots = self.slots(&option.value)?;
            let takes = match member.key.as_str() {
                "does" => Takes::Nothing,
                "optional" if slots.len() == 1 => Takes::Optional,
                "stop" if slots.is_empty() => Takes::Nothing,
                "values" | "stop" => Takes::Values,
                key => return Err(self.error(value, format!("`{key}` cannot be read here"))),
            };
            body.options.push(Arc::new(OptionRow {
                names,
                takes,
                slots,
                stop: member.key == "stop",
            }));
        }
        Ok(())
    }

    /// Reads one slot, or several separated by blanks or as a list.
    fn slots(&self, value: &Value) -> Result<Vec<Slot>, TableError> {
        if let Kind::Array(items) = &value.kind {
            return items.iter().map(|item| self.slot(item)).collect();
        }
        Ok(vec![self.slot(value)?])
    }

    fn operands(&self, value: &Value) -> Result<Vec<Operand>, TableError> {
        let mut operands = Vec::new();
        for item in self.list(value)? {
            let text = self.text(item)?;
            let (name, times) = match (text.strip_suffix("..."), text.strip_suffix('?')) {
                (Some(name), _) => (name, Times::Many),
                (None, Some(name)) => (name, Times::Optional),
                (None, None) => (text, Times::One),
            };
            let slot = self.slot_named(item, name)?;
            operands.push(Operand { slot, times });
        }
        if operands.iter().filter(|operand| operand.times == Times::Many).count() > 1
            && !operands.iter().any(|operand| {
                operand.slot.takes_rest()
                    || is_assignments(&operand.slot)
                    || operand.slot == Slot::Positional
            })
        {
            return Err(self.error(value, "only one operand can repeat"));
        }
        Ok(operands)
    }

    fn form(&self, value: &Value) -> Result<Form, TableError> {
        let mut form = Form {
            with: Vec::new(),
            without: Vec::new(),
            operands: Vec::new(),
            effects: Vec::new(),
            values: Vec::new(),
            read_only: false,
        };
        for member in self.object(value)? {
            let value = &member.value;
            match member.key.as_str() {
                "with" => form.with = self.names(value)?,
                "without" => form.without = self.names(value)?,
                "operands" => form.operands = self.operands(value)?,
                "effects" => form.effects = self.slots(value)?,
                "values" => {
                    for option in self.object(value)? {
                        form.values.push((option.key.clone(), self.slot(&option.value)?));
                    }
                }
                "read_only" => form.read_only = self.boolean(value)?,
                key => return Err(self.error(value, format!("`{key}` is not a key of a form"))),
            }
        }
        Ok(form)
    }

    fn slot(&self, value: &Value) -> Result<Slot, TableError> {
        self.slot_named(value, self.text(value)?)
    }

    fn slot_named(&self, value: &Value, name: &str) -> Result<Slot, TableError> {
        if name.contains('+') {
            let slots = name.split('+').map(|name| self.slot_named(value, name));
            return slots.collect::<Result<_, _>>().map(Slot::Both);
        }
        if let Some(name) = name.strip_prefix("match:") {
            return match self.matches.iter().find(|(known, _)| known == name) {
                Some((_, cases)) => Ok(Slot::Match(cases.clone())),
                None => Err(self.error(value, format!("unknown match `{name}`"))),
            };
        }
        slot(name).ok_or_else(|| self.error(value, format!("`{name}` is not a slot")))
    }
}

fn is_assignments(slot: &Slot) -> bool {
    matches!(slot, Slot::Assignments | Slot::AssignmentsAndOptions)
}

/// Returns what a sub-command has from its program.
fn inherited(body: &Body) -> Body {
    Body {
        grammar: body.grammar,
        strict: body.strict,
        locality: body.locality,
        pure: body.pure,
        ..empty()
    }
}

fn empty() -> Body {
    Body {
        grammar: Grammar {
            style: Style::Dashes,
            permute: true,
            abbrev: true,
            number: false,
            end_of_options: false,
        },
        strict: false,
        read_only: false,
        pure: false,
        locality: Locality::Here,
        options: Vec::new(),
        operands: Vec::new(),
        effects: Vec::new(),
        forms: Vec::new(),
        commands: Vec::new(),
        otherwise: Vec::new(),
        bare: Vec::new(),
        danger: Danger::default(),
    }
}

fn danger(body: &Body) -> Danger {
    let mut danger = Danger::default();
    body.options.iter().flat_map(|option| &option.slots).for_each(|slot| slot.add_to(&mut danger));
    for (_, command) in &body.commands {
        danger = danger.or(command.danger);
        command.effects.iter().for_each(|slot| slot.add_to(&mut danger));
        command.operands.iter().for_each(|operand| operand.slot.add_to(&mut danger));
    }
    danger
}

fn slot(name: &str) -> Option<Slot> {
    Some(match name {
        "plain" | "number" | "duration" | "signal" | "user" | "function-name" | "pattern" => {
            Slot::Plain
        }
        "unknown" => Slot::Unknown,
        "command" => Slot::Command(Input::None),
        "command-of-shell" => Slot::Command(Input::Shell),
        "command-xargs" => Slot::Command(Input::Xargs),
        "command-found" => Slot::Command(Input::Found),
        "command-until" => Slot::CommandUntil,
        "command-through-shell" => Slot::CommandThroughShell,
        "shell-text" => Slot::Text(Dialect::Sh),
        "bash-text" => Slot::Text(Dialect::Bash),
        "foreign-text" => Slot::ForeignText,
        "eval-text" => Slot::Eval,
        "shell-words" => Slot::Words,
        "eval-words" => Slot::EvalWords,
        "split-text" => Slot::Split,
        "program" => Slot::Program,
        "entry" => Slot::Entry,
        "local-text" => Slot::Local(Box::new(Slot::Text(Dialect::Sh))),
        "positional" => Slot::Positional,
        "assignments" => Slot::Assignments,
        "assignments-and-options" => Slot::AssignmentsAndOptions,
        "options" => Slot::Options,
        "text-option" => Slot::TextOption,
        "sed" => Slot::Sed,
        "awk" => Slot::Awk,
        "stdin-program" => Slot::StdinProgram(Dialect::Sh),
        "stdin-program:bash" => Slot::StdinProgram(Dialect::Bash),
        "script" => Slot::Script,
        "file-edit" => Slot::Edit,
        "file-write-or-stdout" => Slot::Match(vec![
            ("-$".to_owned(), Slot::Plain),
            ("*".to_owned(), Slot::Effect(EffectKind::Write)),
        ]),
        "directory" => Slot::Directory,
        "replace" => Slot::Replace,
        "variable" => Slot::Variable,
        "arithmetic" => Slot::Arithmetic,
        name if name.strip_prefix("code:").is_some_and(|language| !language.is_empty()) => {
            Slot::Code
        }
        "stdin-code" => Slot::StdinCode,
        "program-file" => Slot::ProgramFile,
        "name-or-code" => Slot::NameOrCode,
        _ => return doubt_slot(name).or_else(|| effect_slot(name)),
    })
}

/// Slots that only say why a command is not fully read.
fn doubt_slot(name: &str) -> Option<Slot> {
    Some(Slot::Doubt(match name {
        "script-file" => Reason::ScriptFile,
        "startup-files" => Reason::StartupFiles,
        "evaluator-text" => Reason::EvaluatorText,
        "dialect" => Reason::Dialect,
        "state" => Reason::State,
        "unknown-form" => Reason::UnknownWrapperForm,
        _ => return None,
    }))
}

/// Slots that only say what is done.
fn effect_slot(name: &str) -> Option<Slot> {
    Some(match name {
        "read-only" => Slot::Effect(EffectKind::ReadOnly),
        "execute" | "regex-with-code" => Slot::Effect(EffectKind::Execute),
        "file-read" | "read" => Slot::Effect(EffectKind::Read),
        "file-write" | "write" => Slot::Effect(EffectKind::Write),
        "read-somewhere" => Slot::Somewhere(EffectKind::Read),
        "write-somewhere" => Slot::Somewhere(EffectKind::Write),
        "url" | "host" | "network" => Slot::Effect(EffectKind::Network),
        "load-code" => Slot::Effect(EffectKind::LoadCode),
        "project-code" => Slot::Effect(EffectKind::ProjectCode),
        "settings" => Slot::Effect(EffectKind::Settings),
        _ => return None,
    })
}
