//! The keeper of one agent: the process that reads files and variables before the session begins, holds the key of the
//! endpoint, and keeps the session's log. The agent has none of these rights.
//!
//! The gateway starts `stockade-agent keep --place DIR OPTIONS`. The keeper writes what the session begins with to DIR,
//! listens there at two sockets, tells the gateway in one line of JSON which rights the session has, and serves until its
//! standard input ends and the agent has closed its connections.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use stockade_model::Endpoint;
use stockade_model::relay::Relay;

use crate::flags::Flags;
use crate::keeper::{BEGUN, MODEL, SESSION, SQL};
use crate::models::KEYS;
use crate::session::database::Databases;
use crate::session::{Begun, Record, retention, store};

/// Longest line of a session's file, in bytes.
const LONGEST: u64 = 64 << 20;

/// Options of the keeper.
#[derive(Debug, Args)]
pub(crate) struct Keep {
    /// The agent's directory
    #[arg(long, value_name = "DIR")]
    place: PathBuf,
    #[command(flatten)]
    flags: Flags,
}

/// Keeps one agent to its end.
pub(crate) fn run(options: &Keep) -> ExitCode {
    if !crate::has_front_end(&options.flags) {
        return ExitCode::from(crate::USAGE);
    }
    match keep(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::fail(&format!("{error:#}"), "");
            ExitCode::FAILURE
        }
    }
}

fn keep(Keep { place, flags }: &Keep) -> anyhow::Result<()> {
    let (mut begun, endpoint) = Begun::read(flags)?;
    let notes = flags.debug_file.as_ref().map(|path| notes(path)).transpose()?;
    let record = begun.record(flags);
    std::env::set_current_dir(place).context("the agent's directory cannot be used")?;
    let private = |name: &str| {
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(name)
    };
    private(BEGUN)
        .and_then(|mut file| file.write_all(&serde_json::to_vec(&begun)?))
        .context("the agent's directory cannot be written")?;
    let index = record.as_ref().map(Record::index).unwrap_or_default();
    let listener = UnixListener::bind(SESSION).context("the keeper cannot listen")?;
    std::thread::Builder::new().name("session".into()).spawn(move || appends(&listener, record))?;
    let statements = UnixListener::bind(SQL).context("the keeper cannot listen")?;
    let databases = Databases::of(&begun, !flags.no_session_persistence);
    std::thread::Builder::new().name("sql".into()).spawn(move || databases.serve(&statements))?;
    let model = UnixListener::bind(MODEL).context("the keeper cannot listen")?;
    println!("{}", rights(flags, &begun));
    if let (Some(days), Ok(store)) = (retention::period(&begun.settings), store()) {
        // Nobody waits for it.
        std::thread::Builder::new().name("retention".into()).spawn(move || {
            if let Some(told) = retention::clean(&store, days) {
                eprintln!("stockade: {told}");
            }
        })?;
    }
    let done = relay(model, endpoint, notes);
    index.finish();
    done
}

/// Returns the rights of the session, for the gateway: whatever the agent says later, they do not grow.
fn rights(flags: &Flags, begun: &Begun) -> Value {
    let setup = &begun.setup;
    json!({
        "session": setup.id, "cwd": setup.cwd, "settings": setup.settings, "setting_sources": setup.setting_sources,
        "mode": setup.mode, "may_bypass": setup.may_bypass, "allowed": setup.allowed, "disallowed": setup.disallowed,
        "directories": setup.directories, "managed": flags.managed_settings,
        "plugins": begun.plugins.iter().map(|(_, path)| path).collect::<Vec<_>>(), "has_host": flags.streams(),
        "asks": flags.streams(), "withheld": KEYS,
    })
}

/// Opens the file for notes about requests: nobody else reads it.
fn notes(path: &Path) -> anyhow::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.create(true).append(true).mode(0o600).open(path);
    opened.with_context(|| format!("`{}` cannot be written", path.display()))
}

/// Relays requests of the agent until standard input ends, which says that the agent is gone.
fn relay(
    listener: UnixListener,
    endpoint: Option<Endpoint>,
    notes: Option<File>,
) -> anyhow::Result<()> {
    let Some(endpoint) = endpoint else {
        wait_for_the_end();
        return Ok(());
    };
    let mut relay = Relay::new(&endpoint)?;
    if let Some(notes) = notes {
        relay = relay.with_notes(notes);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        tokio::select! {
            () = relay.serve(listener) => {}
            _ = tokio::task::spawn_blocking(wait_for_the_end) => {}
        }
        anyhow::Ok(())
    })
}

fn wait_for_the_end() {
    let mut nothing = [0; 64];
    // An error is an end as well.
    while std::io::stdin().lock().read(&mut nothing).is_ok_and(|count| count > 0) {}
}

/// Records each line of the one agent, and answers it: an empty line, why it cannot, or what was asked for.
fn appends(listener: &UnixListener, record: Option<Record>) {
    let Some(mut record) = record else { return };
    while let Ok((stream, _)) = listener.accept() {
        let Ok(mut answers) = stream.try_clone() else { return };
        let mut lines = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            match (&mut lines).take(LONGEST).read_until(b'\n', &mut line) {
                Ok(count) if count > 0 && line.ends_with(b"\n") => {}
                Ok(_) | Err(_) => break,
            }
            let told = match record.take(&line) {
                Ok(answer) => answer.map(|answer| answer.to_string()).unwrap_or_default(),
                Err(error) => format!("{error:#}").replace('\n', " "),
            };
            if writeln!(answers, "{told}").is_err() {
                break;
            }
        }
    }
}
