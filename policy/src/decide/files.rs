//! Paths that a call reads or writes.

use std::path::{Path, PathBuf};

use stockade_parser::{EffectKind, SimpleCommand, Target, Word, WordClass};

use crate::Decision;
use crate::Mode;
use crate::index::PathIndex;
use crate::knowledge::{knowledge, listed};
use crate::paths::{self, Passage};
use crate::pattern::path::{PathPattern, Shape};
use crate::rule::Specifier;

use super::brought;
use super::context::Context;
use super::expanded;
use super::operands::{judge_operands, opens_operands, operands, pieces};
use super::part::{Certainty, Cover, Draft, Hit, Own};
use super::protected::{self, unwritable};
use super::repositories;
use super::shell::{self, Shell};
use super::trees;

/// Kind of access to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Says whether rules refuse or ask about some paths.
pub(super) fn has_strict_rules(context: &Context<'_>) -> bool {
    [Decision::Deny, Decision::Ask].iter().any(|effect| {
        let index = context.rules.by_effect(*effect);
        !index.read().is_empty() || !index.edit().is_empty()
    })
}

/// Says whether the path is a descriptor of the process itself, or nothing.
pub(super) fn is_no_file(path: &[u8], access: Access) -> bool {
    let descriptor = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    match path {
        b"/dev/null" => true,
        b"/dev/stdout" | b"/dev/stderr" => access == Access::Write,
        b"/dev/stdin" => access == Access::Read,
        other => other.strip_prefix(b"/dev/fd/").is_some_and(descriptor),
    }
}

/// Returns the rules of `effect` about a path that goes by these names.
pub(super) fn hits(
    context: &Context<'_>,
    effect: Decision,
    access: Access,
    names: &[PathBuf],
) -> Vec<Hit> {
    let mut found = Vec::new();
    for (index, needs) in indices(context, effect, access) {
        for id in index.candidates(names) {
            let Some(pattern) = pattern(context, id) else { continue };
            let matches = |name: &PathBuf| pattern.matches(name, context.anchors(effect));
            let hit = match needs {
                Needs::Any => names.iter().any(matches),
                Needs::All => !names.is_empty() && names.iter().all(matches),
            };
            if hit {
                found.push(Hit::certain(id));
            }
        }
    }
    found.extend(tool_level(context, effect, access));
    found
}

/// Returns deny and ask rules that a path of this shape could fall under.
pub(super) fn possible_hits(
    context: &Context<'_>,
    access: Access,
    shape: Option<&Shape>,
    certainty: Certainty,
) -> Vec<Hit> {
    let mut found = Vec::new();
    for effect in [Decision::Deny, Decision::Ask] {
        for (index, _) in indices(context, effect, access) {
            for id in index.all() {
                let Some(pattern) = pattern(context, *id) else { continue };
                if shape.is_none_or(|shape| pattern.may_match(shape, context.anchors(effect))) {
                    found.push(Hit { rule: *id, certainty });
                }
            }
        }
        found.extend(tool_level(context, effect, access));
    }
    found
}

/// Returns what is known about the path that a word names; none when it may be any. Only confinement keeps a part
/// that is not known from climbing with `..`.
pub(super) fn shape(context: &Context<'_>, word: &Word, directory: Option<&Path>) -> Option<Shape> {
    let unknown = matches!(word.class, WordClass::Unknown { .. });
    if unknown && !context.is_confined() { None } else { paths::shape(word, directory) }
}

/// Adds deny and ask rules that the path of a word could fall under.
fn add_possible(
    context: &Context<'_>,
    draft: &mut Draft,
    word: &Word,
    directory: Option<&Path>,
    access: Access,
) {
    let shape = shape(context, word, directory);
    if shape.is_some() || !context.is_confined() {
        draft.add(possible_hits(context, access, shape.as_ref(), Certainty::Later));
    }
}

/// Places that a path stands for when it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The path alone.
    Path,
    /// Whatever lies below it as well.
    Tree,
}

/// Adds all rules about paths when a path could lead elsewhere by a link that the same text makes.
pub(super) fn add_linked(
    context: &Context<'_>,
    draft: &mut Draft,
    user: Option<&SimpleCommand>,
    path: &Path,
    extent: Extent,
    access: Access,
) {
    let made = &context.made;
    if made.is_empty() || context.is_confined() {
        return;
    }
    let inside = || {
        paths::working_directories(context.facts, &context.directories)
            .any(|root| path.starts_with(root) || root.starts_with(path))
    };
    if made.goes_through(user, path)
        || (extent == Extent::Tree && made.lies_below(user, path))
        || (made.anywhere(user) && inside())
    {
        draft.add(possible_hits(context, access, None, Certainty::Linked));
    }
}

/// Returns the rules of `effect` about paths with this access, whether they match or not.
pub(super) fn related(context: &Context<'_>, effect: Decision, access: Access) -> Vec<usize> {
    let indices = indices(context, effect, access);
    indices.into_iter().flat_map(|(index, _)| index.all().iter().copied()).collect()
}

/// Returns the file of a redirection, absolute and as it is written, if the text tells.
pub(super) fn written_target(
    context: &Context<'_>,
    shell: &Shell<'_>,
    target: &Target,
) -> Option<PathBuf> {
    let directory = shell::directory_of(context, shell, target);
    paths::written(target.word.exact()?, directory.as_deref())
}

enum Needs {
    Any,
    All,
}

/// A rule that refuses reading refuses writing as well; a rule that allows must name this access.
fn indices<'a>(
    context: &Context<'a>,
    effect: Decision,
    access: Access,
) -> Vec<(&'a PathIndex, Needs)> {
    let index = context.rules.by_effect(effect);
    match (effect, access) {
        (Decision::Allow, Access::Read) => vec![(index.read(), Needs::All)],
        (Decision::Allow, Access::Write) => vec![(index.edit(), Needs::All)],
        (Decision::Deny, Access::Write) => {
            vec![(index.edit(), Needs::Any), (index.read(), Needs::Any)]
        }
        (Decision::Deny | Decision::Ask, Access::Read) => vec![(index.read(), Needs::Any)],
        (Decision::Ask, Access::Write) => vec![(index.edit(), Needs::Any)],
    }
}

/// A bare `Read` or `Edit` is about every path.
fn tool_level(context: &Context<'_>, effect: Decision, access: Access) -> Vec<Hit> {
    let tools: &[&str] = match (effect, access) {
        (Decision::Deny, Access::Write) => &["Edit", "Read"],
        (Decision::Allow | Decision::Ask, Access::Write) => &["Edit"],
        (Decision::Allow | Decision::Ask | Decision::Deny, Access::Read) => &["Read"],
    };
    let index = context.rules.by_effect(effect);
    tools
        .iter()
        .flat_map(|tool| index.every(tool))
        .filter(|id| {
            context.rules.rule(*id).is_some_and(|rule| {
                let whole = matches!(rule.specifier, Specifier::Every | Specifier::Malformed);
                whole && tools.contains(&rule.tool.as_str())
            })
        })
        .map(Hit::certain)
        .collect()
}

/// Returns the rules about paths that cannot mean anything: not even the sandbox keeps what they were to keep.
fn invalid_rules(context: &Context<'_>) -> Vec<Hit> {
    let mut found = Vec::new();
    for effect in [Decision::Deny, Decision::Ask] {
        for access in [Access::Read, Access::Write] {
            found.extend(tool_level(context, effect, access));
        }
    }
    let is_invalid =
        |hit: &Hit| context.rules.rule(hit.rule).is_some_and(|rule| rule.fault.is_some());
    found.retain(is_invalid);
    found
}

pub(super) fn pattern<'a>(context: &Context<'a>, id: usize) -> Option<&'a PathPattern> {
    match &context.rules.rule(id)?.specifier {
        Specifier::Read(pattern) | Specifier::Edit(pattern) => Some(pattern),
        Specifier::Every
        | Specifier::EveryOf(_)
        | Specifier::Command(_)
        | Specifier::Domain(_)
        | Specifier::Name(_)
        | Specifier::Parameter(..)
        | Specifier::Malformed => None,
    }
}

/// Judges a file that a redirection opens.
pub(super) fn judge_target(
    context: &Context<'_>,
    draft: &mut Draft,
    word: &Word,
    typed: &[u8],
    directory: Option<&Path>,
    access: Access,
) {
    let verb = if access == Access::Read { "read" } else { "written" };
    let wild = context.globs_differ && matches!(word.class, WordClass::Pattern { .. });
    if !context.is_confined() && (wild || paths::passage(word, directory) == Passage::Anywhere) {
        add_any(context, draft);
    }
    let written = word.exact().and_then(|bytes| paths::written(bytes, directory));
    let Some(written) = written else {
        add_possible(context, draft, word, directory, access);
        expanded::add(context, draft, word, directory, access);
        if let Some(shape) = paths::shape(word, directory) {
            let place = paths::fixed_directory(&shape);
            add_linked(context, draft, None, &place, Extent::Tree, access);
        }
        draft.confinable = true;
        let reason = format!("which file is {verb} is not known before it runs");
        draft.cover = Cover::Nothing(reason.clone());
        if access == Access::Write && !context.auto_allow {
            draft.own = Some(Own { code: "unknown_target", reason, protected: false });
        }
        return;
    };
    let names = paths::names(&written, context.facts, directory);
    for effect in [Decision::Deny, Decision::Ask] {
        draft.add(hits(context, effect, access, &names));
    }
    add_passed(context, draft, &names);
    let place = stockade_rules::normal(&written);
    add_linked(context, draft, None, &place, Extent::Path, access);
    draft.confinable = true;
    if access == Access::Write {
        draft.own = unwritable(context, draft, &names).or_else(|| device(&names));
    } else if device(&names).is_some() && !typed.starts_with(b"/dev/zero") {
        draft.own = device(&names);
    }
    if typed.starts_with(b"~") && access == Access::Write && !context.auto_allow {
        let reason = "a target that begins with `~` needs approval".to_owned();
        draft.own =
            draft.own.take().or(Some(Own { code: "tilde_target", reason, protected: false }));
    }
    cover_path(context, draft, &names, access);
    let inside = matches!(draft.cover, Cover::Builtin(_) | Cover::Mode(_));
    if inside && context.made.goes_through(None, &place) {
        draft.cover = Cover::Nothing("a link made by the same command leads there".to_owned());
    }
}

/// Fills in what allows a path.
pub(super) fn cover_path(
    context: &Context<'_>,
    draft: &mut Draft,
    names: &[PathBuf],
    access: Access,
) {
    let allowed = hits(context, Decision::Allow, access, names);
    let rule = allowed.iter().map(|hit| hit.rule).min();
    draft.add(allowed);
    let inside = paths::is_inside(names, context.facts, &context.directories);
    let harmless = "it is read inside the working directories";
    draft.cover = match (rule, access) {
        // INVARIANT: a rule never makes plan mode ask about what is harmless without it.
        (Some(_), Access::Read) if inside && context.mode == Mode::Plan => {
            Cover::Builtin(harmless.to_owned())
        }
        (Some(rule), _) => Cover::Rule(rule),
        (None, Access::Read) if inside => Cover::Builtin(harmless.to_owned()),
        (None, Access::Write) if inside && accepts_edits(context.mode) => {
            Cover::Mode("edits inside the working directories are accepted".to_owned())
        }
        (None, Access::Read) => Cover::Nothing(
            "it is outside the working directories, and no Read rule allows it".to_owned(),
        ),
        (None, Access::Write) if inside => {
            Cover::Nothing("no Edit rule allows this file".to_owned())
        }
        (None, Access::Write) => Cover::Nothing(
            "it is outside the working directories, and no Edit rule allows it".to_owned(),
        ),
    };
}

pub(super) fn accepts_edits(mode: Mode) -> bool {
    match mode {
        Mode::AcceptEdits | Mode::Auto => true,
        Mode::Default | Mode::Plan | Mode::DontAsk | Mode::BypassPermissions => false,
    }
}

fn device(names: &[PathBuf]) -> Option<Own> {
    let network = names.iter().any(|n| n.starts_with("/dev/tcp") || n.starts_with("/dev/udp"));
    let device = names.iter().any(|n| n.starts_with("/dev"));
    if network {
        let reason = "it opens a network connection".to_owned();
        return Some(Own { code: "network_target", reason, protected: true });
    }
    device.then(|| Own { code: "device", reason: "it opens a device".to_owned(), protected: true })
}

/// Adds what rules say about the files that a command reads and writes.
pub(super) fn judge_command(context: &Context<'_>, draft: &mut Draft, command: &SimpleCommand) {
    let directory = paths::directory(&command.directory, context.facts);
    let directory = directory.as_deref();
    for effect in &command.effects {
        let access = match effect.kind {
            EffectKind::Read => Access::Read,
            EffectKind::Write => Access::Write,
            EffectKind::ReadOnly
            | EffectKind::Execute
            | EffectKind::Network
            | EffectKind::LoadCode
            | EffectKind::ProjectCode
            | EffectKind::Settings => continue,
        };
        let Some(word) = effect.object(&command.words) else {
            // The effect may reach any path.
            if !context.is_confined() {
                draft.add(possible_hits(context, access, None, Certainty::Later));
            }
            continue;
        };
        if word.exact().is_some_and(|path| is_no_file(path, access)) {
            continue;
        }
        judge_word(context, draft, command, word, directory, access);
    }
    if let Some(made) = directory.and_then(|directory| repositories::made(command, directory)) {
        let names = paths::names(&made, context.facts, directory);
        for effect in [Decision::Deny, Decision::Ask] {
            draft.add(hits(context, effect, Access::Write, &names));
        }
        let own = unwritable(context, draft, &names);
        draft.own = draft.own.take().or(own);
    }
    protected::add_unnamed(context, draft, command);
    brought::add(context, draft, command);
    let opens = opens_operands(command);
    if opens.is_some() {
        draft.add(invalid_rules(context));
    }
    if context.is_confined() || !has_strict_rules(context) {
        return;
    }
    judge_passages(context, draft, command, directory);
    if let Some(certainty) = opens {
        judge_operands(context, draft, command, directory, certainty);
    }
    trees::judge(context, draft, command, directory);
    trees::leave_out_others(context, draft, command);
    // A command may also read files of its directory without naming them.
    if directory.is_some_and(|place| context.made.goes_through(Some(command), place)) {
        draft.add(possible_hits(context, Access::Read, None, Certainty::Linked));
    }
}

/// Adds what rules say about a word that names what is read or written.
fn judge_word(
    context: &Context<'_>,
    draft: &mut Draft,
    command: &SimpleCommand,
    word: &Word,
    directory: Option<&Path>,
    access: Access,
) {
    match word.exact().and_then(|bytes| paths::written(bytes, directory)) {
        Some(written) => {
            let names = paths::names(&written, context.facts, directory);
            for effect in [Decision::Deny, Decision::Ask] {
                draft.add(hits(context, effect, access, &names));
            }
            add_passed(context, draft, &names);
            let place = stockade_rules::normal(&written);
            add_linked(context, draft, Some(command), &place, Extent::Path, access);
            add_pieces(context, draft, word, directory, access);
            trees::add_quoted(context, draft, command, word, directory, access);
            if access == Access::Write {
                let own = unwritable(context, draft, &names);
                draft.own = draft.own.take().or(own);
            }
        }
        None => {
            add_possible(context, draft, word, directory, access);
            expanded::add(context, draft, word, directory, access);
            if let Some(shape) = paths::shape(word, directory) {
                let place = paths::fixed_directory(&shape);
                add_linked(context, draft, Some(command), &place, Extent::Tree, access);
            }
        }
    }
}

/// Adds all rules about paths when an operand may go through what a process has open, or a pattern does not mean
/// what it says.
fn judge_passages(
    context: &Context<'_>,
    draft: &mut Draft,
    command: &SimpleCommand,
    directory: Option<&Path>,
) {
    let program = super::allow_cover::program(command);
    let tables = knowledge();
    // For these a descriptor is a directory that they go into.
    let enters = listed(&tables.directory_changers, program)
        || tables.walkers.iter().any(|row| listed(&row.names, program));
    let named = |word: &Word| {
        word.exact().is_some_and(|it| it.starts_with(b"-C") || DIRECTORY_OPTIONS.contains(&it))
    };
    let behind = |word: &Word| {
        let before = word.exact().into_iter().flat_map(|bytes| {
            let letter = bytes.strip_prefix(b"-").and_then(|it| it.get(1..)).map(<[u8]>::to_vec);
            pieces(bytes).into_iter().chain(letter)
        });
        before
            .map(|bytes| paths::passage_of(bytes.into_iter().map(Some).collect(), directory))
            .any(|it| it != Passage::No)
    };
    let pairs = command.words.iter().zip(command.words.iter().skip(1));
    let passes = pairs.clone().any(|(before, word)| match paths::passage(word, directory) {
        Passage::Anywhere => true,
        Passage::Descriptor => enters || named(before),
        Passage::No => behind(word),
    });
    let wild = context.globs_differ
        && pairs.clone().any(|(_, word)| matches!(word.class, WordClass::Pattern { .. }));
    if passes || wild {
        add_any(context, draft);
    }
}

/// Adds every rule about paths when one of the names of a path goes through what a process has open.
fn add_passed(context: &Context<'_>, draft: &mut Draft, names: &[PathBuf]) {
    let passes = |name: &PathBuf| {
        let symbols = name.as_os_str().as_encoded_bytes().iter().copied().map(Some).collect();
        paths::passage_of(symbols, None) == Passage::Anywhere
    };
    if !context.is_confined() && names.iter().any(passes) {
        add_any(context, draft);
    }
}

/// Options whose value is a directory to work in.
const DIRECTORY_OPTIONS: [&[u8]; 5] =
    [b"--directory", b"--git-dir", b"--work-tree", b"--chdir", b"--cd"];

/// Adds every deny and ask rule about paths: which of them counts is not known before it runs.
pub(super) fn add_any(context: &Context<'_>, draft: &mut Draft) {
    for access in [Access::Read, Access::Write] {
        draft.add(possible_hits(context, access, None, Certainty::Later));
    }
}

/// Adds deny and ask rules about files that stand between marks in a word (`docker run -v DIRECTORY:PLACE`).
fn add_pieces(
    context: &Context<'_>,
    draft: &mut Draft,
    word: &Word,
    directory: Option<&Path>,
    access: Access,
) {
    for piece in word.exact().map(pieces).unwrap_or_default() {
        let Some(written) = paths::written(&piece, directory) else { continue };
        let names = paths::names(&written, context.facts, directory);
        for effect in [Decision::Deny, Decision::Ask] {
            draft.add(hits(context, effect, access, &names));
        }
    }
}

/// Returns every word of a command whose real path may matter.
pub(super) fn path_words(command: &SimpleCommand) -> Vec<Vec<u8>> {
    let program = command.words.first().and_then(Word::exact).unwrap_or_default();
    let base = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let tables = knowledge();
    let mut found: Vec<Vec<u8>> = command
        .effects
        .iter()
        .filter_map(|effect| effect.object(&command.words)?.exact().map(<[u8]>::to_vec))
        .collect();
    let all = opens_operands(command).is_some()
        || listed(&tables.directory_changers, base)
        || tables.removers.iter().any(|row| listed(&row.names, base));
    if all {
        found.extend(operands(command));
    }
    found
}
