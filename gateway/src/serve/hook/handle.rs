//! The handler behind the supervisor: reads a frame, has each call judged, gives the answer.

use serde_json::{Value, json};

use super::Agent;
use super::answer::{
    HookOutput, Ruling, answer, asks, blocked, ends_with_refusal, takes_new_input,
    takes_new_input_with_question,
};
use super::frame::{Call, Frame, Told, Waiting, given_back, read_from};
use super::hook_messages;
use super::table::Split;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{CheckRequest, Context, DecisionView, EventRequest};
use crate::protocol::words;
use crate::random;
use crate::route::Route;
use crate::serve::shell::wrapping::{self, Parts};
use stockade_base::hex;
use stockade_base::place::Place;

/// How allowed shell commands are to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Running {
    /// In the agent's own shell, unconfined: the gate only judges.
    InAgent,
    /// Rewritten to a line by which the gate, this executable, runs it.
    Rewritten(String),
}

/// Returns the answer to one frame, of a hook that runs in the directory `here`. Total: what fails is a refusal.
pub(crate) async fn handle(
    agent: Agent,
    bytes: &[u8],
    here: &str,
    context: &Context,
    running: &Running,
    client: &mut Route,
) -> HookOutput {
    let (agent, frame) = read_from(agent, bytes, here);
    match frame {
        Err(reason) => {
            let failure = Failure::new(Code::InvalidRequest, reason, "");
            let told = client.refuse(unreadable(agent, bytes, context), failure).await;
            blocked(agent, &told.message)
        }
        Ok(Frame::Other) => answer(agent, "", &Ruling::NoObjection),
        Ok(Frame::Told(told)) => {
            let said = client.event(event(agent, &told, context)).await;
            hook_messages::of_event(agent, &told, said.map_err(|failure| failure.message))
        }
        Ok(Frame::Calls(waiting)) => {
            let ruling = judge(agent, &waiting, context, running, client).await;
            match ruling {
                Ok((ruling, decisions)) => {
                    let ruling =
                        replaced(agent, &waiting, launcher(agent, &waiting, running), ruling);
                    let answer = answer(agent, &waiting.event, &ruling);
                    hook_messages::beside(agent, &waiting.event, answer, &decisions)
                }
                Err(reason) => blocked(agent, &reason),
            }
        }
    }
}

/// Returns what is recorded of a frame that cannot be read: how long it is, and none of its content, of which nobody
/// can say what is secret.
fn unreadable(agent: Agent, bytes: &[u8], context: &Context) -> CheckRequest {
    let input = json!({ "agent": agent.name(), "frame_bytes": bytes.len() });
    let (cwd, context) = ("/".to_owned(), of_agent(agent, context, None));
    CheckRequest { tool: "hook".into(), input, cwd, context, ..CheckRequest::default() }
}

/// Judges every call of a frame; the strictest decision holds for all.
async fn judge(
    agent: Agent,
    waiting: &Waiting,
    context: &Context,
    running: &Running,
    client: &mut Route,
) -> Result<(Ruling, Vec<DecisionView>), String> {
    let launcher = launcher(agent, waiting, running);
    let mut decisions = Vec::new();
    let question = match launcher {
        Some(_) if takes_new_input_with_question(agent, &waiting.event) => Some(number()?),
        Some(_) | None => None,
    };
    for call in &waiting.calls {
        let mut request = request(agent, waiting, call, context, launcher.is_none());
        request.context.hook_question = question.clone();
        let mut decision = checked(client, request.clone()).await?;
        let is_asked = decision.decision == "ask" && asks(agent, &waiting.event);
        if is_asked && launcher.is_some() && question.is_none() {
            decision = unconfined(client, request, decision).await?;
        }
        decisions.push(decision);
    }
    let judged = || waiting.calls.iter().zip(&decisions);
    if let Some((call, denied)) = judged().find(|(_, decision)| decision.decision == "deny") {
        return Ok((Ruling::Deny(told(denied, call)), decisions));
    }
    let Some(first) = decisions.first() else { return Err("the frame contains no call".into()) };
    // Only the judged input may run: a new input of a hook goes back to the agent, or nothing runs.
    let changed = judged().any(|(call, decision)| call.input != decision.input);
    let taken = takes_new_input(agent, &waiting.event);
    if let Some((call, asked)) = judged().find(|(_, decision)| decision.decision != "allow") {
        // No rule and no hook matches the call, and it reaches nothing but the agent: each call that it starts comes
        // here itself.
        let inner = waiting.inner && asked.rule.is_none() && asked.source != "hook";
        let ruling = match (changed, inner, agent) {
            (true, _, _) => {
                Ruling::Deny(format!("{}; and a hook changed the input", told(asked, call)))
            }
            (false, false, _) => {
                let rewritten = match question {
                    Some(_) if !stays_in_project(waiting, context) => {
                        return Ok((Ruling::Deny(ELSEWHERE.into()), decisions));
                    }
                    Some(_) => {
                        through_gate(agent, waiting, context, launcher, question, &decisions)?
                    }
                    None => None,
                };
                Ruling::Ask { reason: told(asked, call), rewritten }
            }
            // These go on only after a plain yes.
            (false, true, Agent::OpenCode | Agent::Antigravity) => {
                Ruling::Allow { reason: "a tool of the agent itself".into(), rewritten: None }
            }
            (false, true, _) => Ruling::NoObjection,
        };
        return Ok((ruling, decisions));
    }
    let rewritten = match (launcher, changed) {
        (Some(_), _) if !stays_in_project(waiting, context) => {
            return Ok((Ruling::Deny(ELSEWHERE.into()), decisions));
        }
        (Some(_), _) => through_gate(agent, waiting, context, launcher, None, &decisions)?,
        (None, false) => None,
        (None, true) if taken && decisions.len() == 1 => Some(given_back(waiting, &first.input)?),
        (None, true) => return Ok((Ruling::Deny(CHANGED.into()), decisions)),
    };
    Ok((Ruling::Allow { reason: first.reason.clone(), rewritten }, decisions))
}

/// Returns the decision about a call that the agent runs as it sent it, unconfined, after a yes: the one about a
/// `sandboxed` call holds only where it may.
async fn unconfined(
    client: &mut Route,
    request: CheckRequest,
    sandboxed: DecisionView,
) -> Result<DecisionView, String> {
    // Hooks were heard.
    let request = CheckRequest { caller_runs: true, run_hooks: false, ..request };
    let unconfined = checked(client, request).await?;
    Ok(if unconfined.decision == "allow" { sandboxed } else { unconfined })
}

/// The reason where an agent cannot run the input of a hook.
const CHANGED: &str = "a hook changed the input, and this agent runs only what it sent";
/// Why a command that the gate would run elsewhere is refused.
const ELSEWHERE: &str = "its working directory is outside the project of the session, and the gate that would run it \
                         there looks for rules there; begin the command with `cd` instead";

async fn checked(client: &mut Route, request: CheckRequest) -> Result<DecisionView, String> {
    client.check(request).await.map_err(|failure| failure.message)
}

/// Returns the number of a new question, which nobody guesses.
fn number() -> Result<String, String> {
    let mut bytes = [0; 16];
    let filled = random::fill(&mut bytes);
    filled.map_err(|error| format!("cannot get random bytes: {error}"))?;
    Ok(hex(&bytes))
}

/// Returns the agent's input with the lines by which the gate runs the judged commands.
fn through_gate(
    agent: Agent,
    waiting: &Waiting,
    context: &Context,
    launcher: Option<&str>,
    question: Option<String>,
    judged: &[DecisionView],
) -> Result<Option<Value>, String> {
    let Some(launcher) = launcher else { return Ok(None) };
    let session = of_agent(agent, context, waiting.session.as_ref()).session;
    let parts = Parts {
        session: session.as_deref(),
        question: question.as_deref(),
        streams: &waiting.streams,
    };
    let line = |decision: &DecisionView| {
        let command = decision.input.get("command").and_then(Value::as_str)?;
        Some(wrapping::line(launcher, parts, command))
    };
    let lines = judged.iter().map(line).collect::<Option<_>>();
    with_commands(waiting, lines.ok_or("the judged input has no command")?).map(Some)
}

/// Turns a refusal of commands into commands that only print it, where the agent's run would end with the refusal.
fn replaced(agent: Agent, waiting: &Waiting, launcher: Option<&str>, ruling: Ruling) -> Ruling {
    let (Ruling::Deny(reason) | Ruling::Ask { reason, .. }, Some(launcher), true) =
        (&ruling, launcher, ends_with_refusal(agent))
    else {
        return ruling;
    };
    let lines = waiting.calls.iter().map(|_| wrapping::refusing_line(launcher, reason)).collect();
    match with_commands(waiting, lines) {
        Ok(input) => Ruling::Replace { reason: reason.clone(), input },
        Err(_) => ruling,
    }
}

/// Returns what the gateway is told of an event.
fn event(agent: Agent, told: &Told, context: &Context) -> EventRequest {
    EventRequest {
        event: told.ours.clone(),
        subject: told.call.tool.clone(),
        input: told.call.input.clone(),
        further: told.further.clone(),
        call_id: told.call_id.clone(),
        cwd: told.call.cwd.clone(),
        context: Context {
            session_directory: Some(told.directory.clone()).filter(|it| *it != told.call.cwd),
            ..of_agent(agent, context, told.session.as_ref())
        },
    }
}

/// Returns the context of a call of an agent.
fn of_agent(agent: Agent, context: &Context, session: Option<&String>) -> Context {
    let mut context = context.clone();
    context.door = "hook".into();
    // A question goes back to the agent, which has a person or refuses.
    context.interactive = true;
    context.agent = Some(agent.name().into());
    context.session = context.session.or_else(|| session.cloned());
    context
}

/// Returns the words that every front door has for a decision, on one line.
fn told(decision: &DecisionView, call: &Call) -> String {
    let command = decision.input.get("command").and_then(Value::as_str);
    let shown = command.map_or_else(|| format!("{} {}", call.tool, decision.input), str::to_owned);
    let lines = words::verdict(decision, &shown, &call.cwd);
    lines.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// Returns the executable that runs the commands through the gate; none when the agent runs them itself.
fn launcher<'a>(agent: Agent, waiting: &Waiting, running: &'a Running) -> Option<&'a str> {
    let Running::Rewritten(executable) = running else { return None };
    let is_list = waiting.tool.as_ref().is_some_and(|it| matches!(it.split, Split::Each(_)));
    let counted = if is_list { !waiting.calls.is_empty() } else { waiting.calls.len() == 1 };
    let commands = counted && waiting.calls.iter().all(|call| call.tool == "Bash");
    (commands && takes_new_input(agent, &waiting.event)).then_some(executable)
}

/// Says whether what runs in the directories of the calls belongs to the project of the session.
fn stays_in_project(waiting: &Waiting, context: &Context) -> bool {
    let context = Context { project: None, session_directory: None, ..context.clone() };
    let project = |cwd: &str| Place::find(cwd, &context).ok().map(|place| place.project);
    let elsewhere = |call: &Call| call.cwd != waiting.directory;
    waiting.calls.iter().filter(|call| elsewhere(call)).all(|call| {
        let found = project(&call.cwd);
        found.is_some() && found == project(&waiting.directory)
    })
}

fn request(
    agent: Agent,
    waiting: &Waiting,
    call: &Call,
    context: &Context,
    caller_runs: bool,
) -> CheckRequest {
    let mut context = of_agent(agent, context, waiting.session.as_ref());
    // Where it runs is the call's choice; whose rules count is not.
    context.session_directory = Some(waiting.directory.clone()).filter(|it| *it != call.cwd);
    if waiting.plan {
        context.mode = Some("plan".into());
    }
    CheckRequest {
        tool: call.tool.clone(),
        input: call.input.clone(),
        cwd: call.cwd.clone(),
        record: true,
        run_hooks: true,
        caller_runs,
        caller_asks: asks(agent, &waiting.event),
        call_id: waiting.call_id.clone(),
        context,
        ..CheckRequest::default()
    }
}

/// Returns the agent's whole input with `lines` in the place of its commands, one for each call.
fn with_commands(waiting: &Waiting, mut lines: Vec<String>) -> Result<Value, String> {
    let mut input = waiting.raw_input.clone();
    let list = waiting.tool.as_ref().and_then(|tool| match &tool.split {
        Split::Each(list) => Some(list.as_str()),
        Split::No | Split::Patch(_) | Split::Addresses(_) => None,
    });
    let new = match list {
        Some(_) => Value::from(lines),
        None => Value::from(lines.pop().unwrap_or_default()),
    };
    match input.get_mut(list.unwrap_or("command")) {
        Some(place) => *place = new,
        None => return Err("the shell tool has no `command`".into()),
    }
    Ok(input)
}
