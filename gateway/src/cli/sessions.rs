//! `stockade sessions`: the open sessions of the gateway that runs.

use serde_json::json;
use stockade_wire::sessions::{SessionRequest, SessionView};

use super::args::Common;
use super::args::sessions::{List, SessionsCommand};
use super::tasks::shown::since;
use super::{context, failure};
use crate::cli::exit::ExitCode;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::serve::shell::inside::own_confinement;

/// Does what the options say.
pub(super) fn sessions(
    common: &Common,
    command: Option<SessionsCommand>,
) -> Result<ExitCode, Failure> {
    if own_confinement() {
        let message = "a sandboxed command cannot see sessions";
        let help = "run `stockade sessions` in your own shell";
        return Err(Failure::new(Code::InvalidRequest, message, help));
    }
    let command = command.unwrap_or_else(|| SessionsCommand::List(List::default()));
    let common = &common.clone().join(command.common().clone()).map_err(super::twice)?;
    let request = match command {
        SessionsCommand::List(_) => SessionRequest::List,
        SessionsCommand::Close(options) => SessionRequest::Close { session: options.name },
    };
    let closes = request != SessionRequest::List;
    let sessions = match context::running(common)? {
        Some(mut gateway) => gateway.session(&request)?.sessions,
        None if closes => {
            let message = "none of your gateways is running, so no session is open";
            return Err(Failure::new(Code::GatewayUnreachable, message, ""));
        }
        None => Vec::new(),
    };
    if common.json {
        let object = json!({ "sessions": sessions }).to_string();
        failure::print(&object).map_err(failure::unwritable)?;
    } else if closes {
        for view in sessions {
            let name = words::one_line(&view.session);
            failure::tell(&format!(
                "stockade: closed session {name}; stopped {}",
                tasks(view.tasks)
            ));
        }
    } else if !sessions.is_empty() {
        failure::print(&table(&sessions)).map_err(failure::unwritable)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(sessions: &[SessionView]) -> String {
    let names: Vec<String> = sessions.iter().map(|view| words::one_line(&view.session)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    let rows = sessions.iter().zip(&names).map(|(view, name)| {
        let front = words::one_line(view.agent.as_deref().unwrap_or(&view.door));
        let (age, idle) = (since(view.began_ms), since(view.used_ms));
        let cwd = words::one_line(&view.cwd);
        format!("{name:width$}  {front:10}  {age:>8}  {idle:>8}  {:>5}  {cwd}", view.tasks)
    });
    let head = format!(
        "{:width$}  {:10}  {:>8}  {:>8}  {:>5}  DIRECTORY",
        "NAME", "FROM", "AGE", "IDLE", "TASKS"
    );
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}

fn tasks(count: usize) -> String {
    match count {
        1 => "1 task".to_owned(),
        count => format!("{count} tasks"),
    }
}
