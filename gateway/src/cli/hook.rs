//! `stockade hook AGENT`: the supervisor, and its copy, the handler.

use crate::cli::exit::ExitCode;
use std::ffi::OsString;
use std::future::Future;
use std::io::Read as _;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, Waker};

use clap::error::ErrorKind;
use serde_json::json;

use super::refused::Refused;
use super::{args, context, failure, setup};
use crate::prefork::{Prefork, Purpose};
use crate::protocol::errors::{Code, Failure};
use crate::route::{Options, Route};
use crate::serve::hook::answer::{HookOutput, blocked};
use crate::serve::hook::frame::LIMIT_BYTES;
use crate::serve::hook::handle::{Running, handle};
use crate::serve::hook::{Agent, alone, keep_words, print, supervise};

/// Is `stockade hook …`: what is wrong with the arguments is the agent's refusal too, for several agents run the
/// command when their hook ends with any other status.
pub(super) fn guarded(arguments: &[OsString]) -> ExitCode {
    match parsed(arguments) {
        Ok(options) => run(&options),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp) => {
            let _ = error.print(); // nobody reads it: nothing else is to be done
            ExitCode::SUCCESS
        }
        Err(error) => {
            let cline = arguments.iter().any(|argument| argument == Agent::Cline.name());
            let agent = if cline { Agent::Cline } else { Agent::Claude };
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            ExitCode::from(print(&blocked(agent, first)))
        }
    }
}

fn parsed(arguments: &[OsString]) -> Result<args::agents::Hook, clap::Error> {
    let arguments = args::Arguments::read(arguments)?;
    let refused = |message: String| clap::Error::raw(ErrorKind::ArgumentConflict, message);
    let args::Command::Hook(mut options) = arguments.command else {
        return Err(refused("invalid subcommand for a hook".to_owned()));
    };
    let joined = arguments.before.join(options.common);
    options.common = joined.map_err(|option| refused(format!("duplicate `{option}`")))?;
    Ok(options)
}

/// Prints the reason of a refusal in the place of the command, and returns the status of one.
pub(super) fn refuse(options: &args::Refuse) -> ExitCode {
    failure::tell(&format!("stockade: {}", options.reason));
    crate::protocol::status::DENIED.into()
}

/// Answers by the gateway that runs, or is started for this call; without one, supervises a handler, which goes on from here
/// in a process of its own.
pub(super) fn run(options: &args::agents::Hook) -> ExitCode {
    let (agent, deadline) = (options.agent, options.deadline);
    // Before anything that may wait. Where the words of a process cannot be kept ready, another one watches it.
    let kept = keep_words(agent, deadline).is_ok();
    let carry = || alone(agent, AssertUnwindSafe(|| reached(options)));
    let carried = match kept && context::may_run(&options.common) {
        true => carry(),
        false => None,
    };
    let carried = match (carried, kept) {
        (None, true) if context::start_for_agent(&options.common) => carry(),
        (carried, _) => carried,
    };
    let status = carried.unwrap_or_else(|| supervise(agent, || handler(options), deadline));
    ExitCode::from(status)
}

/// Has the gateway that runs judge the frame; none without one.
fn reached(options: &args::agents::Hook) -> Option<HookOutput> {
    match context::running(&options.common) {
        Ok(client) => Some(carried(options, client?)),
        Err(failure) => Some(blocked(options.agent, &failure.message)),
    }
}

/// Has the gateway behind `client` judge the frame on standard input.
fn carried(options: &args::agents::Hook, mut client: Route) -> HookOutput {
    let prepared = prepared(options).map_err(|failure| {
        let request = refused(options.agent).request(&options.common, Path::new("/"));
        at_once(client.refuse(request, failure.clone())).unwrap_or(failure)
    });
    let answer = prepared.and_then(|prepared| {
        let answer = at_once(prepared.answer(options.agent, &mut client));
        answer.ok_or_else(|| Failure::new(Code::Internal, "a step of the hook waits", ""))
    });
    answer.unwrap_or_else(|failure| blocked(options.agent, &failure.message))
}

/// Does work that waits in nothing but system calls; none if it does.
fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(work).poll(&mut context) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// Is the handler: returns its exit status.
fn handler(options: &args::agents::Hook) -> u8 {
    let prefork = context::prefork(&options.common, Purpose::Judge, None);
    match super::wait(answer(options, prefork)) {
        Ok(Ok(())) => 0,
        Ok(Err(_)) | Err(_) => failure::FAILED,
    }
}

/// Gives the answer to the supervisor as one JSON object.
async fn answer(options: &args::agents::Hook, prefork: Prefork) -> Result<(), Failure> {
    let answer = match judged(options, prefork).await {
        Ok(answer) => answer,
        Err(failure) => blocked(options.agent, &failure.message),
    };
    let text = serde_json::to_string(&answer).map_err(|error| lost(&error.to_string()))?;
    failure::print(&text).map_err(|error| lost(&error.to_string()))
}

fn lost(reason: &str) -> Failure {
    Failure::new(Code::Internal, format!("cannot write the answer: {reason}"), "")
}

async fn judged(options: &args::agents::Hook, prefork: Prefork) -> Result<HookOutput, Failure> {
    let prepared = match prepared(options) {
        Ok(prepared) => prepared,
        Err(failure) => {
            let refused = refused(options.agent);
            return Err(refused.record(&options.common, prefork, failure).await);
        }
    };
    let mut client = Route::connect(Options { prefork, ..prepared.call.options.clone() }).await?;
    Ok(prepared.answer(options.agent, &mut client).await)
}

/// Frame for a gateway to judge, and its surroundings.
struct Prepared {
    frame: Vec<u8>,
    call: context::Call,
    running: Running,
}

impl Prepared {
    async fn answer(&self, agent: Agent, client: &mut Route) -> HookOutput {
        let Prepared { frame, call, running } = self;
        handle(agent, frame, &call.cwd, &call.context, running, client).await
    }
}

/// Returns what is recorded of a frame that was not read: through which door it came, and its tool and input.
fn refused(agent: Agent) -> Refused<'static> {
    let (agent, input) = (Some(agent.name()), json!({ "agent": agent.name() }));
    Refused { door: "hook", agent, tool: "hook", input }
}

/// Reads the frame, and what belongs to it.
fn prepared(options: &args::agents::Hook) -> Result<Prepared, Failure> {
    let mut frame = Vec::new();
    let limit = u64::try_from(LIMIT_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let read = std::io::stdin().lock().take(limit).read_to_end(&mut frame);
    read.map_err(|error| {
        Failure::new(Code::InvalidRequest, format!("standard input cannot be read: {error}"), "")
    })?;
    let mut call = context::call(&options.common, "hook")?;
    if options.rewrite {
        let around = setup::surroundings(&call)?;
        let named = context::variable("CLAUDE_PROJECT_DIR").map(PathBuf::from);
        let projects = [Some(around.project.clone()), named].into_iter().flatten();
        let projects: Vec<PathBuf> = projects.filter(|it| it.is_absolute()).collect();
        let rules = crate::setup::own_rules::settings(options.agent, &around, &projects);
        let rules = rules.map_err(|reason| {
            Failure::new(Code::SettingsUnreadable, reason, "correct the agent's settings")
        })?;
        call.context.settings.extend(rules);
    }
    let running =
        if options.rewrite { Running::Rewritten(executable()?) } else { Running::InAgent };
    Ok(Prepared { frame, call, running })
}

/// Where this executable is.
fn executable() -> Result<String, Failure> {
    let executable = std::env::current_exe().ok().and_then(|path| path.to_str().map(str::to_owned));
    executable
        .ok_or_else(|| Failure::new(Code::Internal, "the path of this executable is not UTF-8", ""))
}
