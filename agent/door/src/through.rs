//! Commands and file tools: the gateway decides them, asks through the host, runs them and tells the result.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stockade_files::{Answer as Worked, Content};
use stockade_model::{Block, Image};
use stockade_wire::tasks::TaskView;
use stockade_wire::types::{
    Answer, AtLimit, CommandRequest, CommandText, DecisionView, Event, LONGEST_MS, Question,
    RunOutcome, RunResult, ToolCall,
};

use crate::bash::{self, Streams};
use crate::catalogue::Kind;
use crate::door::Door;
use crate::gateway::{self, Run};
use crate::host::{Asked, Reply};
use crate::output::worded;
use crate::schema::Valid;
use crate::stages::{Heard, Ran, Refused, is_ask_rule, refusal, show_hooks, suggestions};
use crate::tasks::{About, Watch};

/// Time limit of a command that names none, in milliseconds.
const TIMEOUT: u64 = 120_000;
/// Most bytes of a worker's answer.
const ANSWER: usize = 64 << 20;

/// Outcome of a question.
enum Answered {
    Goes,
    Again(Value),
    Not(Refused),
}

/// Has a call decided and done.
pub(crate) async fn run(door: &Door, mut heard: Heard<'_>) -> Result<Ran, Refused> {
    let mut agreed = None;
    if heard.asks {
        if let Some(input) = before(door, &heard).await? {
            heard.valid = door.validate_again(&heard.valid, input).map_err(Refused::invalid)?;
        }
        agreed = Some(heard.valid.input().clone());
    }
    loop {
        match once(door, &heard, agreed.as_ref()).await? {
            Ok(ran) => return Ok(ran),
            Err(input) => {
                heard.valid =
                    door.validate_again(&heard.valid, input.clone()).map_err(Refused::invalid)?;
                agreed = Some(input);
            }
        }
    }
}

/// Has a call done to which the host has agreed already.
pub(crate) async fn agreed(door: &Door, valid: Valid<'_>) -> Result<Ran, Refused> {
    let agreed = valid.input().clone();
    let heard = Heard { valid, allows: false, asks: false, reason: None };
    match once(door, &heard, Some(&agreed)).await? {
        Ok(ran) => Ok(ran),
        Err(_) => Err(Refused::invalid("the input was changed".to_owned())),
    }
}

/// Asks the host before the gateway does, as a hook wants. Returns another input, if the host gives one.
async fn before(door: &Door, heard: &Heard<'_>) -> Result<Option<Value>, Refused> {
    let asked = Asked {
        tool: heard.valid.tool().name.clone(),
        input: heard.valid.input().clone(),
        call_id: heard.valid.call_id().to_owned(),
        reason: heard.reason.clone().unwrap_or_else(|| "a hook asks".into()),
        suggestions: Vec::new(),
        blocked_path: None,
    };
    match door.ask(asked).await {
        Reply::Deny { message, interrupt } => {
            Err(Refused::by_host(door, &heard.valid, message, interrupt))
        }
        Reply::Allow { input, updates } => {
            door.update(&updates).await;
            Ok(input.filter(|input| input != heard.valid.input()))
        }
    }
}

fn request(door: &Door, heard: &Heard<'_>) -> CommandRequest {
    let valid = &heard.valid;
    let input = valid.input();
    let flag = |key: &str| input.get(key).and_then(Value::as_bool).unwrap_or_default();
    let is_shell = valid.tool().kind == Kind::Shell;
    let command = match is_shell {
        true => CommandText::Shell(
            input.get("command").and_then(Value::as_str).unwrap_or_default().to_owned(),
        ),
        false => CommandText::Tool(ToolCall {
            name: valid.tool().name.clone(),
            input: input.clone(),
            conditions: path(input).map(|path| door.session.known(path)).unwrap_or_default(),
        }),
    };
    let background = is_shell && is_background(valid);
    let timeout = match (is_shell, background) {
        (true, true) => LONGEST_MS,
        (_, _) => limit(input),
    };
    CommandRequest {
        command,
        cwd: door.session.cwd(),
        timeout_ms: Some(timeout),
        background,
        at_limit: AtLimit::Stop,
        one_stream: false,
        pty: false,
        window: None,
        description: input
            .get("description")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .filter(|_| is_shell),
        unsandboxed: is_shell && flag("dangerouslyDisableSandbox"),
        stdin: false,
        report_cwd: is_shell && !background,
        carry_cwd: false,
        call_id: Some(valid.call_id().to_owned()),
        // A question that a hook of the host has answered needs nobody else.
        context: door.session.context(door.host.can_be_asked() || heard.allows),
    }
}

/// Returns the time limit of a command in milliseconds.
fn limit(input: &Value) -> u64 {
    let asked = input.get("timeout").and_then(Value::as_f64).filter(|it| *it >= 1.0);
    // The schema bounds it, and a fraction of a millisecond is none.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    asked.map_or(TIMEOUT, |it| it as u64)
}

/// Returns the path that a file tool names.
fn path(input: &Value) -> Option<&str> {
    ["file_path", "notebook_path"].iter().find_map(|key| input.get(*key).and_then(Value::as_str))
}

/// Has it done once; the inner error is another input, to which the host has agreed.
async fn once(
    door: &Door,
    heard: &Heard<'_>,
    agreed: Option<&Value>,
) -> Result<Result<Ran, Value>, Refused> {
    let valid = &heard.valid;
    let request = request(door, heard);
    let mut run = door.gateway.run(&request).map_err(|failure| Refused::failure(&failure))?;
    let mut streams = Streams::default();
    let is_shell = valid.tool().kind == Kind::Shell;
    let outcome = loop {
        match run.next().await {
            gateway::Heard::Event(Event::Output { stream, bytes }) => match is_shell {
                true => streams.push_short(stream, &bytes),
                false => streams.push(stream, &bytes, ANSWER),
            },
            gateway::Heard::Event(Event::Notice(line)) => streams.notices.push(line),
            gateway::Heard::Event(Event::Terminal | Event::Background(_)) => {}
            gateway::Heard::Question(id, question) => {
                match question_of(door, heard, (&question, agreed)).await {
                    (answer, Answered::Goes) => run.answer(&id, answer),
                    (answer, Answered::Again(input)) => {
                        run.answer(&id, answer);
                        drain(run).await;
                        return Ok(Err(input));
                    }
                    (answer, Answered::Not(refused)) => {
                        run.answer(&id, answer);
                        drain(run).await;
                        return Err(refused);
                    }
                }
            }
            gateway::Heard::Ended(outcome) => break *outcome,
        }
    };
    match outcome {
        RunOutcome::Ran(result) if is_shell => {
            show_hooks(door, &result.decision);
            let ran = shell(door, &result, &streams, request.timeout_ms.unwrap_or_default());
            moved(door, &request.cwd).await;
            Ok(Ok(ran))
        }
        RunOutcome::Ran(result) => {
            show_hooks(door, &result.decision);
            let (ran, changed) = file(door, valid, &result, &streams);
            if let Some(path) = changed {
                tell_change(door, &path).await;
            }
            Ok(Ok(ran))
        }
        RunOutcome::Denied(refused) | RunOutcome::NeedsPerson(refused) => {
            show_hooks(door, &refused.decision);
            Err(refusal(door, valid, &refused.decision))
        }
        RunOutcome::Background(task) => Ok(Ok(keep(door, valid, &task).await)),
        RunOutcome::Failed(failure) => Err(Refused::failure(&failure)),
    }
}

/// Tells hooks where commands work now, if that changed.
async fn moved(door: &Door, before: &str) {
    let now = door.session.cwd();
    if now != before {
        let more = json!({ "old_cwd": before, "new_cwd": now });
        door.event("CwdChanged", "", more).await;
    }
}

/// Tells hooks that somebody else changed a file that the session had read.
async fn tell_change(door: &Door, path: &Path) {
    let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let more = json!({ "file_path": path.to_string_lossy(), "event": "change" });
    door.event("FileChanged", &name, more).await;
}

/// Waits until the gateway has recorded that a run was refused.
async fn drain(mut run: Run) {
    while !matches!(run.next().await, gateway::Heard::Ended(_)) {}
}

/// Answers a question of the gateway: what the host has agreed to, or what it says now.
async fn question_of(
    door: &Door,
    heard: &Heard<'_>,
    (question, agreed): (&Question, Option<&Value>),
) -> (Answer, Answered) {
    let valid = &heard.valid;
    let view = &question.decision;
    let input = if view.input.is_object() { view.input.clone() } else { valid.input().clone() };
    let asked = match &question.connection {
        Some(connection) => Asked {
            tool: "SandboxNetworkAccess".into(),
            input: json!({ "host": connection.host, "port": connection.port }),
            call_id: valid.call_id().to_owned(),
            reason: format!("the command wants to reach {}:{}", connection.host, connection.port),
            suggestions: Vec::new(),
            blocked_path: None,
        },
        None => {
            let is_same = |agreed: &Value| same(valid, agreed, &input);
            let is_agreed = agreed.is_some_and(is_same) || (heard.allows && !is_ask_rule(view));
            if is_agreed {
                return (Answer::Once, Answered::Goes);
            }
            Asked {
                tool: valid.tool().name.clone(),
                input: input.clone(),
                call_id: valid.call_id().to_owned(),
                reason: view.reason.clone(),
                suggestions: suggestions(view),
                blocked_path: path(valid.input()).map(str::to_owned),
            }
        }
    };
    let is_connection = question.connection.is_some();
    match door.ask(asked).await {
        Reply::Deny { .. } if is_connection => (Answer::Deny, Answered::Goes),
        Reply::Deny { message, interrupt } => {
            (Answer::Deny, Answered::Not(Refused::by_host(door, valid, message, interrupt)))
        }
        Reply::Allow { input: Some(changed), updates } if !is_connection && changed != input => {
            door.update(&updates).await;
            (Answer::Withdrawn, Answered::Again(changed))
        }
        Reply::Allow { updates, .. } => {
            door.update(&updates).await;
            (Answer::Once, Answered::Goes)
        }
    }
}

/// Says whether what would run is what the host agreed to.
fn same(valid: &Valid<'_>, agreed: &Value, now: &Value) -> bool {
    match valid.tool().kind {
        Kind::Shell => agreed.get("command") == now.get("command"),
        Kind::File { .. } | Kind::Own { .. } | Kind::Mcp { .. } => agreed == now,
    }
}

/// Says whether a call goes on while the model works.
fn is_background(valid: &Valid<'_>) -> bool {
    let asks = valid.input().get("run_in_background").and_then(Value::as_bool) == Some(true);
    asks || valid.tool().name == "Monitor"
}

/// Takes in a command that goes on in the background, and watches it where that was asked for.
async fn keep(door: &Door, valid: &Valid<'_>, task: &TaskView) -> Ran {
    let command = valid.input().get("command").and_then(Value::as_str).unwrap_or_default();
    let description = valid.input().get("description").and_then(Value::as_str).unwrap_or(command);
    let about = About { call_id: valid.call_id().to_owned(), description: description.to_owned() };
    let id = door.tasks.add(task, about);
    let mut text = format!(
        "The command runs in the background with the id {id}. TaskOutput shows what it writes; you are told when it ends."
    );
    let mut is_error = false;
    if valid.tool().name == "Monitor" {
        let watch = Watch::of(valid.input(), valid.call_id(), true);
        match door.tasks.watch(&id, watch).await {
            Ok(()) => text.push_str(" Its lines are watched."),
            Err(error) => {
                text.push_str(&format!(" It is not watched: {error}"));
                is_error = true;
            }
        }
    }
    let result = json!({ "stdout": "", "stderr": "", "interrupted": false, "isImage": false,
        "noOutputExpected": false, "backgroundTaskId": id, "gatewayTaskId": task.task_id });
    Ran { content: vec![Block::Text(text)], is_error, result, ends: None }
}

fn shell(door: &Door, result: &RunResult, streams: &Streams, limit: u64) -> Ran {
    if let Some(cwd) = result.cwd_after.as_ref().filter(|_| !result.cwd_outside) {
        door.session.set_cwd(cwd);
    }
    let (mut text, is_error, fields) = bash::told(result, streams, limit);
    said(&mut text, &result.decision);
    let ends = result.decision.stop.as_deref().map(worded);
    Ran { content: vec![Block::Text(text)], is_error, result: fields, ends }
}

/// Adds what hooks of the settings want the model to know.
fn said(text: &mut String, view: &DecisionView) {
    for context in &view.context {
        text.push_str(&format!("\n<hook>\n{context}\n</hook>"));
    }
}

/// Returns the result of a file tool, and the file that somebody else changed since the session read it.
fn file(
    door: &Door,
    valid: &Valid<'_>,
    result: &RunResult,
    streams: &Streams,
) -> (Ran, Option<PathBuf>) {
    let Ok(answer) = serde_json::from_slice::<Worked>(&streams.stdout) else {
        let how = String::from_utf8_lossy(&streams.stderr);
        let how = how.lines().next_back().unwrap_or("it said nothing");
        let text = format!(
            "The file worker did not answer: {how}{}",
            bash::framed(std::slice::from_ref(&result.footer))
        );
        let content = vec![Block::Text(text.clone())];
        return (Ran { content, is_error: true, result: json!(text), ends: None }, None);
    };
    let named = path(valid.input());
    let whole = |path: &str| Path::new(&door.session.cwd()).join(path);
    let mut changed = named.filter(|_| is_stale(answer.error.as_deref())).map(whole);
    if let (Some(facts), Some(path)) = (answer.facts, named)
        && door.session.learn(path, facts)
        && valid.tool().kind == (Kind::File { writes: false })
    {
        changed = Some(whole(path));
    }
    let is_error = answer.error.is_some();
    let mut content: Vec<Block> = match answer.error {
        Some(error) => vec![Block::Text(error)],
        None => answer.content.into_iter().map(block).collect(),
    };
    let mut more = String::new();
    said(&mut more, &result.decision);
    let lines: Vec<String> = result.footer.lines().map(str::to_owned).collect();
    if is_error {
        more.push_str(&bash::framed(&lines));
    }
    if !more.is_empty() {
        content.push(Block::Text(more.trim_start().to_owned()));
    }
    let ends = result.decision.stop.as_deref().map(worded);
    (Ran { content, is_error, result: answer.result, ends }, changed)
}

/// Says whether a file tool refused a file because somebody else changed it.
fn is_stale(error: Option<&str>) -> bool {
    error.is_some_and(|it| it.ends_with(stockade_files::STALE))
}

fn block(content: Content) -> Block {
    match content {
        Content::Text { text } => Block::Text(text),
        Content::Image { media_type, data } => Block::Image(Image { media_type, base64: data }),
    }
}
