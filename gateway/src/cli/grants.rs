//! `stockade grants`: rules that a person allowed for a while, at the gateway that runs.

use serde_json::json;
use stockade_wire::approvals::{GrantRequest, GrantView};

use super::args::Common;
use super::args::grants::{GrantsCommand, List};
use super::tasks::shown::{since, until};
use super::{context, failure};
use crate::cli::exit::ExitCode;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::serve::shell::inside::own_confinement;

/// Does what the options say.
pub(super) fn grants(common: &Common, command: Option<GrantsCommand>) -> Result<ExitCode, Failure> {
    if own_confinement() {
        let message = "a sandboxed command cannot see or revoke grants";
        let help = "run `stockade grants` in your own shell";
        return Err(Failure::new(Code::InvalidRequest, message, help));
    }
    let command = command.unwrap_or_else(|| GrantsCommand::List(List::default()));
    let common = &common.clone().join(command.common().clone()).map_err(super::twice)?;
    let request = match command {
        GrantsCommand::List(_) => GrantRequest::List,
        GrantsCommand::Revoke(options) => match options.id {
            Some(id) => GrantRequest::Revoke { id },
            None => GrantRequest::RevokeAll,
        },
    };
    // A gateway that is gone has taken its grants along.
    let found = match context::running(common)? {
        Some(mut gateway) => gateway.grant(&request)?.grants,
        None => Vec::new(),
    };
    if common.json {
        let object = json!({ "grants": found }).to_string();
        failure::print(&object).map_err(failure::unwritable)?;
    } else if request != GrantRequest::List {
        for view in found {
            failure::tell(&format!("stockade: revoked `{}`", words::one_line(&view.rule)));
        }
    } else if !found.is_empty() {
        failure::print(&table(&found)).map_err(failure::unwritable)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(found: &[GrantView]) -> String {
    let rows = found.iter().map(|view| {
        let ends = match (view.expires_ms, view.uses_left) {
            (Some(end), _) => format!("in {}", until(end)),
            (None, Some(1)) => "1 call".to_owned(),
            (None, Some(left)) => format!("{left} calls"),
            (None, None) => "session".to_owned(),
        };
        let place = view.session.as_ref().or(view.cwd.as_ref()).map(|it| words::one_line(it));
        let (age, rule) = (since(view.made_ms), words::one_line(&view.rule));
        format!("{:8}  {age:>6}  {ends:9}  {rule}  {}", view.id, place.unwrap_or_default())
    });
    let head = format!("{:8}  {:>6}  {:9}  RULE", "ID", "AGE", "ENDS");
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}
