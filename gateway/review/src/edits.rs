//! Writes that the file tools of agents are about to make.

use std::path::{Path, PathBuf};

use serde_json::Value;
use stockade_programs::tables::{Table, view};

use super::ledger::{Ledger, pending_until};
use super::{Found, Writer, now, table};
use stockade_base::names::Names;
use stockade_base::place::Place;

/// A call of a tool that may do what it asks for.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    pub tool: &'a str,
    pub input: &'a Value,
    pub agent: Option<&'a str>,
    pub decision: &'a str,
}

/// Notes a call of a file tool that is about to write a file of the table, by each name that leads there.
pub fn note_edit(state: &Path, place: &Place, edit: Edit<'_>) -> std::io::Result<()> {
    let Some(path) = target(place, edit) else { return Ok(()) };
    let mut names = vec![path.clone(), Names::default().real(&path)];
    names.dedup();
    names.retain(|name| {
        let roots = [&place.project, &place.cwd].into_iter().chain(&place.additional);
        let mut inside = roots.filter_map(|root| name.strip_prefix(root).ok());
        let inside = inside.next().unwrap_or(name);
        table::row(inside).is_some()
    });
    if names.is_empty() {
        return Ok(());
    }
    let agent = edit.agent.map_or_else(String::new, |agent| format!(" of {agent}"));
    let writer = Writer {
        decision: edit.decision.to_owned(),
        act: Some(format!("the tool {}{agent}", edit.tool)),
        project: place.project.clone(),
        call: edit.tool.to_owned(),
        program: edit.agent.unwrap_or_default().to_owned(),
        at: now(),
    };
    Ledger::change(state, |ledger| {
        for name in &names {
            ledger.note(name, Found::at(name), writer.clone(), pending_until());
        }
        Ok(())
    })
}

/// Returns the file that a call of an editing tool names.
fn target(place: &Place, edit: Edit<'_>) -> Option<PathBuf> {
    let tools = view(Table::Permissions).members()?.get("edit_tools")?.elements()?;
    let rows = tools.iter().filter_map(|row| row.members());
    let row =
        rows.into_iter().find(|row| row.get("name").and_then(|it| it.text()) == Some(edit.tool))?;
    let path = edit.input.get(row.get("field")?.text()?)?.as_str()?;
    let path = match path.strip_prefix("~/") {
        Some(rest) => place.home.join(rest),
        None => place.cwd.join(path),
    };
    // `..` is what it says here, as for the tool.
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            std::path::Component::CurDir => {}
            part => normal.push(part),
        }
    }
    Some(normal)
}
