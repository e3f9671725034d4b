//! `--resume` on a terminal: a person chooses the session that goes on. Nothing is chosen without a key of the person.

mod keys;
mod list;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use rustix::termios::{
    OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetwinsize, tcsetattr,
};
use stockade_session::{Error, Found, Nearness, Store, nearness};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::keys::Keys;
use self::list::{List, Row, Step};
use crate::flags::Flags;
use crate::session::{here, is_stored_elsewhere, store};
use crate::shown::{ago, plain};

/// Status of a person who chose none.
const LEFT: u8 = 130;
/// Size of a terminal that does not tell its own.
const USUAL: (u16, u16) = (80, 24);

/// Options of the session that is to go on.
#[derive(Debug, Args)]
pub(crate) struct Choose {
    #[command(flatten)]
    flags: Flags,
}

/// Prints the identity of the session that a person chose, or nothing where the options leave no choice.
pub(crate) fn run(options: &Choose) -> ExitCode {
    match choose(&options.flags) {
        Ok(Choice::None) => ExitCode::SUCCESS,
        Ok(Choice::Session(id)) => {
            println!("{id}");
            ExitCode::SUCCESS
        }
        Ok(Choice::Left) => ExitCode::from(LEFT),
        Err(error) => {
            crate::fail(&plain(&format!("{error:#}")), "");
            ExitCode::FAILURE
        }
    }
}

/// The choice of a person.
enum Choice {
    /// There is nothing to choose.
    None,
    Session(String),
    /// The person left.
    Left,
}

fn choose(flags: &Flags) -> anyhow::Result<Choice> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let Some(wanted) = flags.resume.as_deref().filter(|_| is_terminal) else {
        return Ok(Choice::None);
    };
    let cwd = std::env::current_dir().context("the working directory cannot be used")?;
    let store = store()?;
    let mut all = candidates(&store, wanted, &cwd);
    if all.is_empty() {
        // The keeper says what is wrong.
        return Ok(Choice::None);
    }
    let here = here(&cwd);
    all.sort_by_key(|found| nearness(&found.workspace, &here));
    let rows = all.iter().map(|found| row(found, nearness(&found.workspace, &here))).collect();
    show(&all, List::new(rows), flags.fork_session)
}

/// Returns the sessions among which a person has to choose: all, or those that a text may mean.
fn candidates(store: &Store, wanted: &str, cwd: &Path) -> Vec<Found> {
    if wanted.is_empty() {
        return store.list();
    }
    match store.find(wanted) {
        Err(Error::Ambiguous { .. }) => store.meant(wanted),
        Err(Error::Unknown(_)) if !is_stored_elsewhere(wanted, cwd) => store.about(wanted),
        Ok(_) | Err(_) => Vec::new(),
    }
}

fn row(found: &Found, near: Nearness) -> Row {
    let workspace = &found.workspace;
    let group = match near {
        Nearness::Branch => "This branch",
        Nearness::Repository | Nearness::Root => "This repository",
        Nearness::Directory => "This directory",
        Nearness::Other => "Elsewhere",
    };
    let place = (near == Nearness::Other).then(|| plain(&workspace.cwd));
    let named = workspace.name.as_deref().filter(|name| !name.trim().is_empty());
    Row {
        group,
        name: plain(named.unwrap_or(&found.id)),
        age: ago(found.written),
        branch: plain(workspace.branch.as_deref().unwrap_or("-")),
        place: place.unwrap_or_default(),
        id: plain(&found.id),
    }
}

/// Shows the list until the person has chosen or left.
fn show(all: &[Found], mut list: List, forks: bool) -> anyhow::Result<Choice> {
    restore_at_signals().context("the terminal cannot be used")?;
    let raw = Raw::begin().context("the terminal cannot be used")?;
    let (mut keys, mut screen) = (Keys::default(), Screen::default());
    let mut events = std::collections::BTreeMap::new();
    let mut about = |index: usize| -> String {
        let told = events.entry(index).or_insert_with(|| {
            let counted = all.get(index).map(Found::events);
            counted
                .map(|(count, is_all)| format!("{count}{} events", if is_all { "" } else { "+" }))
        });
        told.clone().unwrap_or_default()
    };
    let chosen = loop {
        let size = tcgetwinsize(rustix::stdio::stderr()).ok();
        let size = size.map(|it| (it.ws_col, it.ws_row)).filter(|it| it.0 > 0 && it.1 > 0);
        screen.draw(&list.lines(size.unwrap_or(USUAL), &mut about));
        match list.take(keys.next()) {
            Step::Stays => {}
            Step::Left => break Choice::Left,
            Step::Chosen(index) => {
                let Some(found) = all.get(index) else { continue };
                match found.holder().filter(|_| !forks) {
                    Some(holder) => list.note(&format!(
                        "It is in use by {holder}: end that, or go on in a copy with `--fork-session`"
                    )),
                    None => break Choice::Session(found.id.clone()),
                }
            }
        }
    };
    screen.draw(&[]);
    drop(raw);
    Ok(chosen)
}

/// The lines that stand on the terminal.
#[derive(Default)]
struct Screen {
    lines: usize,
}

impl Screen {
    /// Draws lines in the place of those before (ECMA-48, CUU and ED).
    fn draw(&mut self, lines: &[String]) {
        let up = match self.lines.saturating_sub(1) {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A"),
        };
        let mut stderr = std::io::stderr().lock();
        let text = format!("{up}\r\u{1b}[J{}", lines.join("\r\n"));
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()); // only a picture
        self.lines = lines.len();
    }
}

/// Has a signal that ends this process give the terminal back first, and the death of whoever started it as well.
fn restore_at_signals() -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    let plain = tcgetattr(rustix::stdio::stdin())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        let kinds = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
        ];
        let heard = |kind: SignalKind| Ok((kind.as_raw_value(), signal(kind)?));
        kinds.into_iter().map(heard).collect::<std::io::Result<Vec<(i32, Signal)>>>()?
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let came = std::future::poll_fn(|context| {
            let mut all = signals.iter_mut();
            match all.find_map(|(number, it)| it.poll_recv(context).is_ready().then_some(*number)) {
                Some(number) => std::task::Poll::Ready(number),
                None => std::task::Poll::Pending,
            }
        });
        let number = runtime.block_on(came);
        // A terminal that is gone has no modes.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &plain);
        let _ = std::io::stderr().write_all(b"\r\n");
        std::process::exit(128 + number)
    })?;
    Ok(())
}

/// The terminal of this process, which hands on each key as it is. Dropping it restores the modes.
struct Raw(Termios);

impl Raw {
    /// Begins, without what was typed before.
    fn begin() -> std::io::Result<Raw> {
        let stdin = rustix::stdio::stdin();
        let plain = tcgetattr(stdin)?;
        let mut raw = plain.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Now, &raw)?;
        let raw = Raw(plain);
        tcflush(stdin, QueueSelector::IFlush)?;
        Ok(raw)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone has no modes.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.0);
    }
}
