//! `stockade agent sessions`: lists, shows, names and removes sessions.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use stockade_index::Hit;
use stockade_session::{Exported, Found, Named, Removal, Store};

use crate::session::{here, indexed, store};
use crate::shown::{ago, plain};

/// Options of `stockade agent sessions`.
#[derive(Debug, Args)]
pub(crate) struct Sessions {
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// List sessions, newest first.
    List,
    /// Show one session: its messages, one line each.
    Show {
        /// Identity, beginning of one, or name
        session: String,
    },
    /// Give a session a name.
    Rename {
        /// Identity, beginning of one, or name
        session: String,
        /// The name
        name: String,
    },
    /// Remove a session with all its files.
    Delete {
        /// Identity, beginning of one, or name
        session: String,
    },
    /// Write a session as one file, without secrets and without old contents of files.
    Export {
        /// Identity, beginning of one, or name
        session: String,
        /// File to make, such as session.tar.zst
        file: PathBuf,
    },
    /// Make a session of such a file; it works in the current directory.
    Import {
        /// The file
        file: PathBuf,
    },
    /// Find sessions in which words stand, best first: those that fit best and are nearest to here.
    Search {
        /// Words; a session has all of them in one text
        #[arg(required = true)]
        words: Vec<String>,
        /// Most sessions that are shown
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
        limit: u16,
    },
    /// Make the index of `search` anew from the logs of all sessions.
    Reindex,
    /// Remove sessions that were not used for some time.
    Prune {
        /// Age, such as 30d, 12h or 0d
        #[arg(long, value_name = "AGE", default_value = "30d")]
        older_than: String,
        /// Keep those that have a name
        #[arg(long)]
        keep_named: bool,
        /// Only tell which
        #[arg(long)]
        dry_run: bool,
    },
}

/// Does what is asked for.
pub(crate) fn run(options: &Sessions) -> ExitCode {
    match perform(options) {
        Ok(text) => {
            let _ = std::io::stdout().write_all(text.as_bytes()); // nobody reads it
            ExitCode::SUCCESS
        }
        Err(error) => {
            crate::fail(&plain(&format!("{error:#}")), help(options, &error));
            ExitCode::FAILURE
        }
    }
}

/// Returns what to do about an error.
fn help(options: &Sessions, error: &anyhow::Error) -> &'static str {
    let own = error.downcast_ref::<stockade_session::Error>();
    if let Some(stockade_session::Error::Name(_)) = own {
        return "choose a name of one line";
    }
    match &options.act {
        Some(Act::Import { .. }) => {
            "`stockade agent sessions export SESSION FILE` makes a file to import"
        }
        Some(Act::Export { .. }) if own.is_none() => "name a file that is not there yet",
        Some(Act::Prune { .. }) if own.is_none() => {
            "`stockade agent sessions prune --older-than 30d --dry-run` lists what would go"
        }
        Some(Act::Search { .. }) if own.is_none() => {
            "`stockade agent sessions search WORD` finds sessions by words"
        }
        None
        | Some(Act::List | Act::Show { .. } | Act::Rename { .. } | Act::Delete { .. })
        | Some(Act::Export { .. } | Act::Search { .. } | Act::Reindex | Act::Prune { .. }) => {
            "`stockade agent sessions list` shows all"
        }
    }
}

fn perform(Sessions { json, act }: &Sessions) -> anyhow::Result<String> {
    let store = store()?;
    match act.as_ref().unwrap_or(&Act::List) {
        Act::List => Ok(told(&store.list(), *json, "There are no sessions.\n")),
        Act::Show { session } => show(&store, session, *json),
        Act::Rename { session, name } => {
            let found = store.find(session)?;
            store.rename(&found, name)?;
            refresh(&store, &[found.id]);
            Ok(told(&[store.find(session).or_else(|_| store.find(name))?], *json, ""))
        }
        Act::Delete { session } => {
            let found = store.find(session)?;
            store.delete(&found)?;
            refresh(&store, std::slice::from_ref(&found.id));
            Ok(format!("{} is removed; {} bytes are free\n", plain(&found.line()), found.bytes))
        }
        Act::Export { session, file } => export(&store, session, file),
        Act::Import { file } => {
            let cwd = std::env::current_dir().context("the working directory cannot be used")?;
            let cwd = cwd.to_str().context("the working directory is not UTF-8")?;
            let unread = || format!("{} cannot be read", shown(file));
            let mut input = File::open(file).with_context(unread)?;
            let id = store.import(&mut input, cwd).with_context(|| shown(file))?;
            refresh(&store, std::slice::from_ref(&id));
            Ok(format!("{id}\n`stockade agent -p PROMPT --resume {id}` goes on with it\n"))
        }
        Act::Search { words, limit } => search(&store, words, usize::from(*limit), *json),
        Act::Reindex => reindex(&store, *json),
        Act::Prune { older_than, keep_named, dry_run } => {
            let named = if *keep_named { Named::Stay } else { Named::Go };
            let removal = if *dry_run { Removal::Preview } else { Removal::Apply };
            prune(&store, age(older_than)?, (named, removal), *json)
        }
    }
}

fn prune(
    store: &Store,
    age: Duration,
    (named, removal): (Named, Removal),
    json: bool,
) -> anyhow::Result<String> {
    let pruned = store.prune(age, named, removal)?;
    let ids: Vec<String> = pruned.sessions.iter().map(|found| found.id.clone()).collect();
    if removal == Removal::Apply && !ids.is_empty() {
        refresh(store, &ids);
    }
    let mut text = told(&pruned.sessions, json, "Nothing is that old.\n");
    for id in &pruned.in_use {
        text.push_str(&format!("{} is in use and stays\n", plain(id)));
    }
    if !pruned.sessions.is_empty() && !json {
        let bytes: u64 = pruned.sessions.iter().map(|found| found.bytes).sum();
        let word = if removal == Removal::Preview { "would be" } else { "are" };
        text.push_str(&format!("{bytes} bytes {word} free\n"));
    }
    Ok(text)
}

/// Brings the index up to date. An index that cannot be written undoes nothing.
fn refresh(store: &Store, ids: &[String]) {
    if let Err(error) = indexed::refresh(store, ids) {
        eprintln!("stockade: {}", plain(&error.to_string()));
    }
}

fn reindex(store: &Store, json: bool) -> anyhow::Result<String> {
    let rebuilt = indexed::rebuild(store)?;
    for line in &rebuilt.left_out {
        eprintln!("stockade: left out: {}", plain(line));
    }
    Ok(match json {
        true => {
            format!("{}\n", json!({ "sessions": rebuilt.sessions, "left_out": rebuilt.left_out }))
        }
        false if rebuilt.sessions == 1 => "1 session is indexed\n".to_owned(),
        false => format!("{} sessions are indexed\n", rebuilt.sessions),
    })
}

fn search(store: &Store, words: &[String], most: usize, json: bool) -> anyhow::Result<String> {
    let cwd = std::env::current_dir().context("the working directory cannot be used")?;
    let here = here(&cwd);
    let hits = indexed::read(store, |index| index.search(store, words, &here, most))?;
    if json {
        let values: Vec<Value> = hits.iter().map(hit).collect();
        return Ok(format!("{}\n", json!({ "sessions": values })));
    }
    if hits.is_empty() {
        return Ok("No session has all of these words in one text.\n".to_owned());
    }
    let mut text = String::new();
    for Hit { found, source, snippet, .. } in &hits {
        let (name, cwd) =
            (found.workspace.name.as_deref().unwrap_or_default(), &found.workspace.cwd);
        let since = ago(found.written);
        text.push_str(&format!(
            "{}  {since:>4}  {}  {}\n",
            plain(&found.id),
            plain(name),
            plain(cwd)
        ));
        let line = snippet.split_whitespace().collect::<Vec<_>>().join(" ");
        text.push_str(&format!("    {}: {}\n", plain(&source.0), plain(&line)));
    }
    Ok(text)
}

fn hit(hit: &Hit) -> Value {
    let mut value = object(&hit.found);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("source_type".into(), json!(hit.source.0));
        fields.insert("source_id".into(), json!(hit.source.1));
        fields.insert("snippet".into(), json!(hit.snippet));
        fields.insert("texts".into(), json!(hit.texts));
    }
    value
}

fn shown(file: &Path) -> String {
    format!("`{}`", plain(&file.to_string_lossy()))
}

/// Writes a session to a file that must not exist yet. One that cannot be written whole goes again.
fn export(store: &Store, session: &str, file: &Path) -> anyhow::Result<String> {
    let found = store.find(session)?;
    let mut output = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("{} cannot be made", shown(file)))?;
    match store.export(&found, &mut output) {
        Ok(Exported { files, masked }) => {
            Ok(format!("{}: {files} files, {masked} secrets masked\n", shown(file)))
        }
        Err(error) => {
            let _ = std::fs::remove_file(file); // the error says what happened
            Err(error.into())
        }
    }
}

/// Reads an age: a number with `d`, `h` or `m`.
pub(crate) fn age(text: &str) -> anyhow::Result<Duration> {
    let units = [('d', 86_400), ('h', 3_600), ('m', 60)];
    let found = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    match found {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => bail!("`{}` is not an age; write 30d, 12h or 45m", text.escape_debug()),
    }
}

fn told(all: &[Found], json: bool, none: &str) -> String {
    if json {
        let values: Vec<Value> = all.iter().map(object).collect();
        return format!("{}\n", json!({ "sessions": values }));
    }
    if all.is_empty() {
        return none.to_owned();
    }
    let mut text = String::new();
    for found in all {
        let name = found.workspace.name.as_deref().unwrap_or_default();
        let branch = found.workspace.branch.as_deref().unwrap_or("-");
        let (id, cwd) = (plain(&found.id), plain(&found.workspace.cwd));
        let (since, kib) = (ago(found.written), found.bytes.div_ceil(1024));
        text.push_str(&format!(
            "{id}  {since:>4}  {kib:>6} KiB  {}  {}  {cwd}\n",
            plain(branch),
            plain(name)
        ));
        if let Some(holder) = found.holder() {
            text.push_str(&format!("    in use by {}\n", plain(&holder.to_string())));
        }
    }
    text
}

fn object(found: &Found) -> Value {
    let workspace = &found.workspace;
    json!({
        "id": found.id, "name": workspace.name, "user_named": workspace.user_named, "cwd": workspace.cwd,
        "branch": workspace.branch, "repository": workspace.repository, "bytes": found.bytes,
        "created_at": workspace.created_at, "updated_at": workspace.updated_at, "in_use": found.holder(),
    })
}

fn show(store: &Store, session: &str, json: bool) -> anyhow::Result<String> {
    let found = store.find(session)?;
    let (state, notes) = store.state(&found).context("the session cannot be read")?;
    if json {
        let messages: Vec<Value> = state
            .messages
            .iter()
            .map(|said| json!({ "uuid": said.uuid, "by_model": said.by_model, "content": said.content }))
            .collect();
        let mut object = object(&found);
        if let Some(object) = object.as_object_mut() {
            object.insert("messages".into(), json!(messages));
            object.insert("events".into(), json!(state.events));
            object.insert("cost_usd".into(), json!(state.dollars));
            object.insert("notes".into(), json!(notes));
        }
        return Ok(format!("{object}\n"));
    }
    let mut text = format!("{}\n{}\n", plain(&found.line()), plain(&found.workspace.cwd));
    text.push_str(&format!("{} events, {:.4} USD\n", state.events, state.dollars));
    notes.iter().for_each(|note| text.push_str(&format!("{}\n", plain(note))));
    for said in &state.messages {
        let who = if said.by_model { "model" } else { "user" };
        let words: String = plain(&said.content.to_string()).chars().take(200).collect();
        text.push_str(&format!("{}  {who:5}  {words}\n", plain(&said.uuid)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_read_in_days_hours_and_minutes() {
        let seconds = |text: &str| age(text).map(|it| it.as_secs()).ok();
        assert_eq!(
            ["2d", "3h", "0m", "d", "2", "-1d", "99999999999999999999d"].map(seconds),
            [Some(172_800), Some(10_800), Some(0), None, None, None, None]
        );
    }
}
