//! Requests that the command line refuses before a gateway hears of them: they leave a record, too.

use std::path::Path;

use serde_json::Value;

use super::args::Common;
use super::context;
use crate::prefork::Prefork;
use crate::protocol::errors::Failure;
use crate::protocol::types::{CheckRequest, Context};
use crate::route::{Options, Route};

/// A call that came through `door`, from `agent` if it says so.
pub(super) struct Refused<'a> {
    pub(super) door: &'a str,
    pub(super) agent: Option<&'a str>,
    pub(super) tool: &'a str,
    pub(super) input: Value,
}

impl Refused<'_> {
    /// Has the gateway that `common` names record that the call was refused because of `failure`. Returns what the
    /// caller is told: that, or why it cannot be recorded.
    pub(super) async fn record(
        self,
        common: &Common,
        prefork: Prefork,
        failure: Failure,
    ) -> Failure {
        let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let options = Options { prefork, ..context::options(common, &here) };
        let mut client = match Route::connect(options).await {
            Ok(client) => client,
            Err(unrecorded) => return unrecorded,
        };
        client.refuse(self.request(common, &here), failure).await
    }

    /// Returns what is recorded of it.
    pub(super) fn request(self, common: &Common, here: &Path) -> CheckRequest {
        let context = Context {
            door: self.door.to_owned(),
            agent: self.agent.map(str::to_owned),
            session: common.session.clone(),
            ..Context::default()
        };
        let (tool, cwd) = (self.tool.to_owned(), here.to_string_lossy().into_owned());
        CheckRequest { tool, input: self.input, cwd, context, ..CheckRequest::default() }
    }
}
