//! Requests that the command line refuses before a gateway hears of them: they leave a record, too.

use std::path::Path;

use serde_json::Value;

use super::args::Common;
use super::context;
use crate::prefork::Prefork;
use crate::protocol::errors::Failure;
use crate::protocol::types::{CheckRequest, Context};
use crate::route::{Options, Route};

/// Has the gateway that `common` names record that the call of `tool` was refused because of `failure`. Returns what the
/// caller is told: that, or why it cannot be recorded.
pub(super) async fn record(
    (common, prefork): (&Common, Prefork),
    (door, agent): (&str, Option<&str>),
    (tool, input): (&str, Value),
    failure: Failure,
) -> Failure {
    let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let options = Options { prefork, ..context::options(common, &here) };
    let mut client = match Route::connect(options).await {
        Ok(client) => client,
        Err(unrecorded) => return unrecorded,
    };
    let request = request((door, agent), (tool, input), common, &here);
    client.refuse(request, failure).await
}

/// Returns what is recorded of such a call.
pub(super) fn request(
    (door, agent): (&str, Option<&str>),
    (tool, input): (&str, Value),
    common: &Common,
    here: &Path,
) -> CheckRequest {
    let context = Context {
        door: door.to_owned(),
        agent: agent.map(str::to_owned),
        session: common.session.clone(),
        ..Context::default()
    };
    let (tool, cwd) = (tool.to_owned(), here.to_string_lossy().into_owned());
    CheckRequest { tool, input, cwd, context, ..CheckRequest::default() }
}
