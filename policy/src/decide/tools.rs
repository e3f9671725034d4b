//! Calls of tools other than the shell.

use std::path::{Path, PathBuf};

use stockade_parser::Span;
use stockade_text::json::Value;

use crate::Decision;
use crate::facts::Facts;
use crate::index::RuleId;
use crate::knowledge::{FileTool, knowledge};
use crate::paths::{self, Passage};
use crate::pattern::domain::{Host, host_of};
use crate::pattern::path::{Shape, ShapeSegment};
use crate::rule::Specifier;

use super::context::Context;
use super::files::{self, Access};
use super::part::{Certainty, Cover, Draft, Hit, Subject};
use super::{protected, trees};

/// Bytes of a pattern that stand for others.
const MARKS: [char; 6] = ['*', '?', '[', '{', '!', '\\'];

/// Returns what was found about the call: one part.
pub(super) fn parts(context: &Context<'_>) -> Vec<Draft> {
    let mut draft = Draft::new(Subject::Tool, Span::default(), context.tool.to_owned());
    for effect in [Decision::Deny, Decision::Ask, Decision::Allow] {
        draft.add(context.tool_hits(effect));
    }
    let blanket = allow_of(context, &draft);
    let tables = knowledge();
    let named = |rows: &'static [FileTool]| rows.iter().find(|row| row.name == context.tool);
    if let Some(row) = named(&tables.read_tools) {
        file(context, &mut draft, row, Access::Read);
    } else if let Some(row) = named(&tables.edit_tools) {
        draft.edit = true;
        file(context, &mut draft, row, Access::Write);
    } else {
        match context.tool {
            "WebFetch" => web(context, &mut draft),
            "Agent" | "Task" => name(context, &mut draft, "Agent", "subagent_type"),
            "Skill" => name(context, &mut draft, "Skill", "skill"),
            "SlashCommand" => name(context, &mut draft, "SlashCommand", "command"),
            "PowerShell" | "Monitor" => foreign_text(context, &mut draft),
            tool if tables.harmless_tools.contains(&tool) => {
                draft.cover =
                    Cover::Builtin("it touches nothing outside the conversation".to_owned());
            }
            _ => {}
        }
    }
    if draft.hard.is_none()
        && let Some(rule) = blanket
    {
        let own = match draft.cover {
            Cover::Rule(found) => Some(found),
            Cover::Nothing(_) | Cover::Builtin(_) | Cover::Mode(_) => None,
        };
        draft.cover = Cover::Rule(own.map_or(rule, |found| found.min(rule)));
    }
    vec![draft]
}

/// Returns the strongest allow rule for every call of the tool.
fn allow_of(context: &Context<'_>, draft: &Draft) -> Option<RuleId> {
    let broad = context.mode == crate::Mode::Auto && matches!(context.tool, "Agent" | "Monitor");
    let allows = |hit: &&Hit| {
        context.rules.rule(hit.rule).is_some_and(|rule| rule.effect == Decision::Allow)
    };
    draft.hits.iter().filter(allows).map(|hit| hit.rule).min().filter(|_| !broad)
}

/// Returns the path that a file tool works on, absolute and as it is written.
fn path_of(row: &FileTool, input: &Value, facts: &Facts) -> Option<PathBuf> {
    let field = match input.get(row.field) {
        Some(value) => Some(value.text().filter(|text| row.optional || !text.is_empty())?),
        None if row.optional => None,
        None => return None,
    };
    let base = field.map_or_else(|| facts.cwd.clone(), |path| expand(path, facts));
    let pattern = row.pattern.and_then(|key| input.get(key)).and_then(Value::text);
    Some(match pattern {
        // The fixed beginning of a pattern leads on from there, or elsewhere.
        Some(pattern) => {
            let end = pattern.find(MARKS).unwrap_or(pattern.len());
            let (fixed, wild) = pattern.split_at(end);
            if wild.contains("..") {
                // The pattern may climb out of any directory.
                return Some(PathBuf::from("/"));
            }
            match fixed.strip_prefix("~/") {
                Some(rest) => facts.home.join(rest),
                None => base.join(fixed),
            }
        }
        None => base,
    })
}

fn expand(path: &str, facts: &Facts) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => facts.home.join(rest),
        None if path == "~" => facts.home.clone(),
        None => facts.cwd.join(Path::new(path)),
    }
}

/// Returns the path of a call of a file tool.
pub(crate) fn path_of_tool(tool: &str, input: &Value, facts: &Facts) -> Option<PathBuf> {
    let tables = knowledge();
    let row = tables.read_tools.iter().chain(&tables.edit_tools).find(|row| row.name == tool)?;
    path_of(row, input, facts)
}

/// Returns where a tool begins that reads all files of a directory, and the pattern that bounds their names.
pub(crate) fn walk_of_tool<'a>(
    tool: &str,
    input: &'a Value,
    facts: &Facts,
) -> Option<(PathBuf, Option<&'a str>)> {
    let row = knowledge().read_tools.iter().find(|row| row.name == tool && row.walks)?;
    let text = |key: &str| input.get(key).and_then(Value::text);
    let base = text(row.field).map_or_else(|| facts.cwd.clone(), |path| expand(path, facts));
    Some((base, row.pattern.and_then(text)))
}

fn file(context: &Context<'_>, draft: &mut Draft, row: &FileTool, access: Access) {
    let Some(written) = path_of(row, context.input, context.facts) else {
        draft.hard = Some(("bad_input", format!("the call has no text in `{}`", row.field)));
        return;
    };
    draft.text = format!("{}({})", context.tool, written.display());
    let names = paths::names(&written, context.facts, None);
    for effect in [Decision::Deny, Decision::Ask] {
        draft.add(files::hits(context, effect, access, &names));
    }
    let symbols = written.as_os_str().as_encoded_bytes().iter().copied().map(Some).collect();
    if paths::passage_of(symbols, None) != Passage::No {
        // The target of a descriptor or of a link of the kernel is known only where the tool runs.
        draft.add(files::possible_hits(context, access, None, Certainty::Later));
    }
    if row.walks {
        walk(context, draft, row, access);
    }
    if let Some(shape) = pattern_shape(context, row) {
        draft.add(files::possible_hits(context, access, Some(&shape), Certainty::Later));
    }
    if access == Access::Write {
        draft.own = protected::question(context, &names);
    }
    files::cover_path(context, draft, &names, access);
}

/// Adds the rules about paths below the directory through which a tool goes.
fn walk(context: &Context<'_>, draft: &mut Draft, row: &FileTool, access: Access) {
    let text = |key: &str| context.input.get(key).and_then(Value::text);
    let mut base = text(row.field)
        .map_or_else(|| context.facts.cwd.clone(), |path| expand(path, context.facts));
    // A pattern with a `/` begins there; the directories that it spells out bound the walk.
    let pattern = row.pattern.and_then(text).filter(|pattern| !pattern.contains(".."));
    let spelled = pattern.map(|pattern| pattern.split(MARKS).next().unwrap_or_default());
    if let Some((directories, _)) = spelled.and_then(|spelled| spelled.rsplit_once('/')) {
        base.push(directories.trim_start_matches('/'));
    }
    for root in trees::shapes(context, &base, None) {
        let below = if paths::holds_doors(&base) { None } else { root.as_ref() };
        let mut hits = files::possible_hits(context, access, below, Certainty::Below);
        hits.retain(|hit| trees::names_a_place(context, hit.rule, below));
        draft.add(hits);
    }
}

/// Returns what the pattern of a call can name, as far as it names no place at any depth.
fn pattern_shape(context: &Context<'_>, row: &FileTool) -> Option<Shape> {
    let pattern = context.input.get(row.pattern.as_ref()?)?.text()?;
    if pattern.contains("**") || !pattern.contains('/') {
        return None;
    }
    let field = context.input.get(row.field).and_then(Value::text).unwrap_or(".");
    let base = stockade_rules::normal(&expand(field, context.facts));
    let whole = stockade_rules::normal(&base.join(pattern));
    let (mut segments, mut open) = (Vec::new(), false);
    for part in whole.iter().skip(1).map(|part| part.as_encoded_bytes()) {
        let count = |marks: &[u8]| part.iter().filter(|byte| marks.contains(byte)).count();
        // A group that begins here may end behind a `/`, or be a name with a dot in front.
        if count(b"[{") != count(b"]}") || part.first().is_some_and(|it| b"[{!\\".contains(it)) {
            open = true;
            break;
        }
        segments.push(segment(part));
    }
    Some(Shape { segments, open })
}

/// Returns a segment of a pattern. With braces or backslashes it may stand for anything from the first mark to the last.
fn segment(part: &[u8]) -> ShapeSegment {
    let is_mark = |byte: &u8| b"*?[]{}\\".contains(byte);
    let Some(first) = part.iter().position(is_mark) else {
        return ShapeSegment::Known(part.to_vec());
    };
    let nested = part.iter().any(|byte| b"{}\\".contains(byte))
        || part.windows(2).any(|two| [b"[]", b"[!", b"[^"].iter().any(|it| *it == two));
    if nested {
        // A backslash takes its meaning from the next byte.
        let last = part.iter().rposition(is_mark).unwrap_or(first);
        let rest = part.get(last + 1..).unwrap_or_default().iter().copied();
        let rest = rest.skip(usize::from(part.get(last) == Some(&b'\\'))).map(Some);
        let start = part.get(..first).unwrap_or_default().iter().copied().map(Some);
        return ShapeSegment::Glob(start.chain([None]).chain(rest).collect());
    }
    let mut found = Vec::new();
    let mut inside = false;
    for byte in part.iter().copied() {
        match byte {
            b'*' | b'?' if !inside => found.push(None),
            b'[' => {
                found.push(None);
                inside = true;
            }
            b']' => inside = false,
            other if !inside => found.push(Some(other)),
            _ => {}
        }
    }
    ShapeSegment::Glob(found)
}

fn web(context: &Context<'_>, draft: &mut Draft) {
    let url = context.input.get("url").and_then(Value::text);
    let host = url.and_then(host_of);
    if let Some(url) = url {
        draft.text = format!("WebFetch({url})");
    }
    for effect in [Decision::Deny, Decision::Ask, Decision::Allow] {
        for id in context.rules.by_effect(effect).named("WebFetch") {
            let Some(Specifier::Domain(pattern)) =
                context.rules.rule(id).map(|rule| &rule.specifier)
            else {
                continue;
            };
            match &host {
                Some(Host { name, plain }) if pattern.matches(name) => {
                    if *plain || effect != Decision::Allow {
                        draft.add([Hit::certain(id)]);
                    }
                }
                Some(Host { name, .. }) if effect != Decision::Allow && pattern.may_match(name) => {
                    draft.add([Hit { rule: id, certainty: Certainty::Later }]);
                }
                // An unknown host could be the one that is refused.
                Some(Host { plain: false, .. }) | None if effect != Decision::Allow => {
                    draft.add([Hit { rule: id, certainty: Certainty::Later }]);
                }
                Some(_) | None => {}
            }
        }
    }
    if let Some(rule) = allow_of(context, draft) {
        draft.cover = Cover::Rule(rule);
    }
}

/// Rules that name a sub-agent or a skill.
fn name(context: &Context<'_>, draft: &mut Draft, tool: &str, field: &str) {
    let Some(name) = context.input.get(field).and_then(Value::text) else { return };
    let arguments = context.input.get("args").and_then(Value::text).unwrap_or_default();
    let whole = if arguments.is_empty() { name.to_owned() } else { format!("{name} {arguments}") };
    draft.text = format!("{tool}({whole})");
    for effect in [Decision::Deny, Decision::Ask, Decision::Allow] {
        for id in context.rules.by_effect(effect).named(tool) {
            let Some(rule) = context.rules.rule(id) else { continue };
            let Specifier::Name(pattern) = &rule.specifier else { continue };
            let strict = effect != Decision::Allow;
            if pattern.matches(&whole)
                || pattern.matches(&format!("{name} {arguments}"))
                || (strict && pattern.matches(name))
            {
                draft.add([Hit::certain(id)]);
            }
        }
    }
    if let Some(rule) = allow_of(context, draft) {
        draft.cover = Cover::Rule(rule);
    }
}

/// Text in a language that is not read: rules are tried on it as it stands, and none allows it.
fn foreign_text(context: &Context<'_>, draft: &mut Draft) {
    let text = context.input.get("command").and_then(Value::text).unwrap_or_default();
    draft.text = text.to_owned();
    for effect in [Decision::Deny, Decision::Ask] {
        for id in context.rules.by_effect(effect).named(context.tool) {
            let Some(Specifier::Command(pattern)) =
                context.rules.rule(id).map(|rule| &rule.specifier)
            else {
                continue;
            };
            let certain =
                pattern.strikes_raw(&crate::pattern::command::TypedText::new(text.as_bytes()));
            let certainty = if certain { Certainty::Certain } else { Certainty::Later };
            draft.add([Hit { rule: id, certainty }]);
        }
    }
}
