//! The normal forms of a part: what rules were held against.

use std::path::Path;

use stockade_parser::{Directory, EffectKind, SimpleCommand, Target, Word};

use super::{Form, Question};
use crate::decide::files::{self, Access};
use crate::decide::part::{Draft, Subject};
use crate::decide::{allow_cover, shell, tools};
use crate::paths;
use crate::pattern::command::{base_name, versions_of};

/// Returns the forms of a part, each once.
pub(super) fn of(question: &Question<'_>, draft: &Draft) -> Vec<Form> {
    let mut found = match (draft.subject, question.shell) {
        (Subject::Command(index), Some(shell)) => {
            shell.commands.get(index).map_or(Vec::new(), |one| command(question, one))
        }
        (Subject::Write(index), Some(shell)) => {
            shell.writes.get(index).map_or(Vec::new(), |one| target(question, one, Access::Write))
        }
        (Subject::Read(index), Some(shell)) => {
            shell.reads.get(index).map_or(Vec::new(), |one| target(question, one, Access::Read))
        }
        (Subject::Tool, _) => tool(question),
        (Subject::Command(_) | Subject::Write(_) | Subject::Read(_) | Subject::Doubt, _) => {
            Vec::new()
        }
    };
    found.dedup();
    found
}

fn form(name: &'static str, text: impl Into<String>) -> Form {
    Form { name, text: text.into() }
}

fn command(question: &Question<'_>, command: &SimpleCommand) -> Vec<Form> {
    let Some(shell) = question.shell else { return Vec::new() };
    let typed = String::from_utf8_lossy(command.span.of(shell.source)).trim().to_owned();
    let canonical = joined(shell.source, &command.words, None);
    let mut found = Vec::new();
    if typed != canonical {
        found.push(form("as typed", typed));
    }
    found.push(form("compared", canonical));
    if !command.assignments.is_empty() {
        let names = command.assignments.iter().map(|one| String::from_utf8_lossy(&one.name));
        let names = names.collect::<Vec<_>>().join("`, `");
        found.push(match allow_cover::are_safe(&command.assignments) {
            true => form("ignored", format!("the assignment of `{names}`")),
            false => form("ignored", format!("`{names}` by deny and ask rules alone")),
        });
    }
    if let Some(base) = base_name(&command.words) {
        found.push(form("by its name", joined(shell.source, &command.words, Some(base))));
    }
    for name in versions_of(&command.words) {
        found.push(form("as a version of", joined(shell.source, &command.words, Some(name))));
    }
    for via in &command.via {
        let how = if via.strip { "rules look through it" } else { "which is also judged" };
        found.push(form("found inside", format!("`{}`; {how}", via.program)));
    }
    let facts = question.context.facts;
    match &command.directory {
        Directory::Start => {}
        Directory::Known(_) => {
            found.extend(paths::directory(&command.directory, facts).map(|directory| {
                form("in directory", stockade_rules::normal(&directory).to_string_lossy())
            }))
        }
        Directory::Unknown => found.push(form("in directory", "not known before it runs")),
    }
    let directory = paths::directory(&command.directory, facts);
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
        if let Some(word) = effect.object(&command.words) {
            found.extend(file(question, word, directory.as_deref(), access));
        }
    }
    found
}

fn target(question: &Question<'_>, target: &Target, access: Access) -> Vec<Form> {
    let Some(shell) = question.shell else { return Vec::new() };
    let place = shell::directory_of(question.context, shell, target);
    file(question, &target.word, place.as_deref(), access).into_iter().collect()
}

/// Returns a file with every name that it goes by.
fn file(
    question: &Question<'_>,
    word: &Word,
    directory: Option<&Path>,
    access: Access,
) -> Option<Form> {
    let name = match access {
        Access::Read => "reads",
        Access::Write => "writes",
    };
    let source = question.shell.map_or(&[][..], |shell| shell.source);
    let shown = match word.exact() {
        Some(bytes) if files::is_no_file(bytes, access) => return None,
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => String::from_utf8_lossy(word.span.of(source)).into_owned(),
    };
    let written = word.exact().and_then(|bytes| paths::written(bytes, directory));
    let Some(written) = written else {
        return Some(form(name, format!("`{shown}`, not known before it runs")));
    };
    let names = paths::names(&written, question.context.facts, directory);
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.display())).collect();
    Some(form(name, format!("`{shown}` = {}", names.join(" -> "))))
}

fn tool(question: &Question<'_>) -> Vec<Form> {
    let context = question.context;
    let mut found = Vec::new();
    if let Some(written) = tools::path_of_tool(context.tool, context.input, context.facts) {
        let names = paths::names(&written, context.facts, None);
        found.extend(names.iter().map(|name| form("path", name.to_string_lossy())));
    }
    let url =
        context.input.get("url").and_then(|url| url.text()).filter(|_| context.tool == "WebFetch");
    if let Some(host) = url.and_then(crate::pattern::domain::host_of) {
        found.push(form("host", host.name));
    }
    found
}

/// Joins words by single blanks, unquoted; what is not known before it runs stands as it is typed.
pub(super) fn joined(source: &[u8], words: &[Word], program: Option<&[u8]>) -> String {
    let text = |(index, word): (usize, &Word)| match (program, word.exact()) {
        (Some(base), _) if index == 0 => String::from_utf8_lossy(base).into_owned(),
        (_, Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        (_, None) => String::from_utf8_lossy(word.span.of(source)).into_owned(),
    };
    words.iter().enumerate().map(text).collect::<Vec<_>>().join(" ")
}
