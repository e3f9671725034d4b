//! `stockade approvals`: questions that wait at the gateway that runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use stockade_wire::approvals::{ApprovalRequest, ApprovalView, Lasts};
use stockade_wire::types::Lasting;

use super::args::approvals::{ApprovalsCommand, List, Webhook};
use super::args::{Agent, Common};
use super::tasks::shown::since;
use super::{agent, context, failure};
use crate::cli::exit::ExitCode;
use crate::places::Places;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::route::Route;
use crate::serve::shell::inside::own_confinement;

/// How often `watch` looks.
const LOOK: Duration = Duration::from_millis(500);
/// Most characters of a command in the list.
const WIDEST: usize = 60;

/// Does what the options say.
pub(super) fn approvals(
    common: &Common,
    command: Option<ApprovalsCommand>,
) -> Result<ExitCode, Failure> {
    if own_confinement() {
        let message = "a sandboxed command cannot see or answer questions";
        let help = "run `stockade approvals` in your own shell";
        return Err(Failure::new(Code::InvalidRequest, message, help));
    }
    let command = command.unwrap_or_else(|| ApprovalsCommand::List(List::default()));
    let common = &common.clone().join(command.common().clone()).map_err(super::twice)?;
    match command {
        ApprovalsCommand::List(_) => {
            let found = match context::running(common)? {
                Some(mut gateway) => gateway.approval(&ApprovalRequest::List)?.approvals,
                None => Vec::new(),
            };
            print(common, &found, |found| (!found.is_empty()).then(|| table(found)))
        }
        ApprovalsCommand::Watch(_) => watch(common),
        ApprovalsCommand::Web(options) => {
            serve(common, "web", vec!["--port".to_owned(), options.port.to_string()])
        }
        ApprovalsCommand::Webhook(options) => webhook(common, options),
        ApprovalsCommand::Show(options) => {
            let mut found = gateway(common)?.approval(&ApprovalRequest::List)?.approvals;
            found.retain(|view| view.id == options.id);
            if found.is_empty() {
                let message = format!("no open question `{}`", options.id.escape_debug());
                let help = "`stockade approvals` lists open questions";
                return Err(Failure::new(Code::InvalidRequest, message, help));
            }
            print(common, &found, |found| found.first().map(whole))
        }
        ApprovalsCommand::Allow(options) => {
            let lasts = match (options.always, options.for_session, options.minutes, options.uses) {
                (true, ..) => Lasts::Always,
                (_, true, ..) => Lasts::Session,
                (.., Some(count), _) => Lasts::For(Lasting::Minutes(count)),
                (.., Some(count)) => Lasts::For(Lasting::Uses(count)),
                (false, false, None, None) => Lasts::Once,
            };
            answer(
                common,
                &ApprovalRequest::Allow {
                    id: options.id,
                    lasts,
                    digest: None,
                    break_glass: options.break_glass,
                    claimed: None,
                },
                "allowed",
            )
        }
        ApprovalsCommand::Deny(options) => {
            let (id, why) = (options.id, options.why);
            answer(
                common,
                &ApprovalRequest::Deny { id, why, digest: None, claimed: None },
                "denied",
            )
        }
    }
}

fn gateway(common: &Common) -> Result<Route, Failure> {
    context::running(common)?.ok_or_else(|| {
        let message = "none of your gateways is running, so no question is open";
        Failure::new(Code::GatewayUnreachable, message, "")
    })
}

fn answer(common: &Common, request: &ApprovalRequest, how: &str) -> Result<ExitCode, Failure> {
    let answered = gateway(common)?.approval(request)?.approvals;
    if !common.json {
        for view in &answered {
            let how = match &view.required {
                Some(_) if how == "allowed" => "approved",
                Some(_) | None => how,
            };
            failure::tell(&format!("stockade: {how} {}", command(view)));
        }
    }
    print(common, &answered, |_| None)
}

fn print(
    common: &Common,
    found: &[ApprovalView],
    text: impl Fn(&[ApprovalView]) -> Option<String>,
) -> Result<ExitCode, Failure> {
    let text = match common.json {
        true => Some(json!({ "approvals": found }).to_string()),
        false => text(found),
    };
    if let Some(text) = text {
        failure::print(&text).map_err(failure::unwritable)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints each question once, until nobody reads or the gateway is gone.
fn watch(common: &Common) -> Result<ExitCode, Failure> {
    let mut gateway = gateway(common)?;
    let mut seen = BTreeSet::new();
    loop {
        for view in gateway.approval(&ApprovalRequest::List)?.approvals {
            if !seen.insert(view.id.clone()) {
                continue;
            }
            let text = match common.json {
                true => json!(view).to_string(),
                false => whole(&view),
            };
            if failure::print(&text).is_err() {
                return Ok(ExitCode::SUCCESS);
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Sends questions to a webhook. The key is in the state directory, where no command can read or write it: whoever knows it
/// answers questions.
fn webhook(common: &Common, options: Webhook) -> Result<ExitCode, Failure> {
    let Webhook { url, port, form, .. } = options;
    let options = context::options(common, Path::new("."));
    let state = Places::find(&options, |name| std::env::var_os(name))?.state;
    let key = absolute(&state.join(format!("webhook-{form}.key")))?;
    let port = port.to_string();
    let arguments = ["--url", &url, "--key", &key, "--port", &port, "--form", &form];
    serve(common, "webhook", arguments.map(str::to_owned).to_vec())
}

/// Becomes the program beside this one that serves approvals in this way.
fn serve(common: &Common, way: &str, mut arguments: Vec<String>) -> Result<ExitCode, Failure> {
    if let Some(socket) = &common.socket {
        arguments.extend(["--socket".to_owned(), absolute(socket)?]);
    }
    agent::start_as(way, Agent { arguments })
}

fn absolute(path: &Path) -> Result<String, Failure> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.into_os_string().into_string().map_err(|path| {
        let message = format!("the path `{}` is not UTF-8", path.display());
        Failure::new(Code::NotUtf8, message, "rename it")
    })
}

fn table(found: &[ApprovalView]) -> String {
    let rows = found.iter().map(|view| {
        let (age, front) = (since(view.asked_ms), view.agent.as_ref().unwrap_or(&view.door));
        let front = words::one_line(front);
        format!("{:8}  {age:>6}  {front:10}  {}", view.id, command(view))
    });
    let head = format!("{:8}  {:>6}  {:10}  COMMAND", "ID", "AGE", "FROM");
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}

/// Returns a question as a terminal shows it, and who asks.
fn whole(view: &ApprovalView) -> String {
    let ApprovalView { id, cwd, pid, uid, question, .. } = view;
    let text = words::question(question);
    let front = words::one_line(view.agent.as_ref().unwrap_or(&view.door));
    let mut lines = vec![text.trim_end().to_owned()];
    lines.push(format!("asked by  {front} (uid {uid}, process {pid}) in {}", words::one_line(cwd)));
    if let Some(required) = &view.required {
        lines.push(format!("needs     {}", required.sentence()));
    }
    if let Some(offer) = question.always.as_ref().filter(|_| view.required.is_none()) {
        lines.push(format!("always    writes `{}` to {}", offer.rule, offer.file));
    }
    lines.push(format!("answer    stockade approvals allow {id}, or deny {id}"));
    lines.join("\n")
}

fn command(view: &ApprovalView) -> String {
    let text = words::one_line(&view.question.command);
    match text.chars().count() > WIDEST {
        true => format!("{}…", text.chars().take(WIDEST - 1).collect::<String>()),
        false => text,
    }
}
