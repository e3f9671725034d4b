//! One prompt, one turn: `-p`.

use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::Value;
use stockade_model::Block;
use stockade_sdk::Frames;
use stockade_turn::{Interrupter, interrupt};
use tokio::signal::unix::{SignalKind, signal};

use crate::flags::Flags;
use crate::notes::Reader;
use crate::output::{line, say};
use crate::session::Plan;

/// Status of a run whose result is an error.
const ERROR: u8 = 1;
/// Status of a run that was interrupted.
const INTERRUPTED: u8 = 130;
/// Most bytes of standard input.
const INPUT: u64 = 16 << 20;

/// Answers one prompt.
pub(crate) async fn print(flags: Flags) -> anyhow::Result<ExitCode> {
    let prompt = if flags.init_only { String::new() } else { prompt(&flags)? };
    let (format, verbose) = (flags.output_format.clone(), flags.verbose);
    let stream = format == "stream-json";
    let (hooks, init_only) = (flags.include_hook_events, flags.init_only);
    let plan = Plan::new(flags)?;
    let frames = Frames::new(plan.session.id());
    let mut session = plan.begin(Arc::new(Reader { frames, streams: stream, hooks })).await?;
    if init_only {
        session.open().await;
        session.end().await;
        return Ok(ExitCode::SUCCESS);
    }
    let (stop, given) = interrupt();
    let signals = listen(stop)?;
    let mut last = Value::Null;
    let mut all = Vec::new();
    let mut emit = |frame: Value| {
        if stream {
            line(&frame);
        } else if verbose {
            all.push(frame.clone());
        }
        last = frame;
    };
    let message = (!prompt.is_empty()).then(|| vec![Block::Text(prompt)]);
    let ended = session.turn(message, &given, &mut emit).await;
    signals.abort();
    session.end().await;
    match format.as_str() {
        "json" if verbose => line(&Value::Array(all)),
        "json" => line(&last),
        "text" => {
            let text = ended.text.clone().unwrap_or_default();
            match ended.is_error {
                false => say(&text),
                true => {
                    let errors = ended.errors.join("; ");
                    eprintln!("stockade: {}", if text.is_empty() { &errors } else { &text });
                }
            }
        }
        _ => {}
    }
    Ok(match (given.is_given(), ended.is_error) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::from(ERROR),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Returns the prompt, with standard input behind it.
fn prompt(flags: &Flags) -> anyhow::Result<String> {
    let given = [flags.print.as_deref(), flags.prompt.as_deref()];
    let mut parts: Vec<String> =
        given.into_iter().flatten().filter(|it| !it.is_empty()).map(str::to_owned).collect();
    if !std::io::stdin().is_terminal() {
        let mut text = String::new();
        std::io::stdin()
            .lock()
            .take(INPUT)
            .read_to_string(&mut text)
            .context("standard input cannot be read")?;
        parts.push(text);
    }
    parts.retain(|part| !part.trim().is_empty());
    if parts.is_empty() && !flags.continue_pending {
        bail!("the prompt is empty; give one with `-p PROMPT` or on standard input");
    }
    Ok(parts.join("\n\n"))
}

/// Makes signals an interrupt of the turn.
pub(crate) fn listen(stop: Interrupter) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        stop.interrupt();
    }))
}
