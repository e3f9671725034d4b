//! Rules, mode and questions for a tool that the gateway does not run itself.

use serde_json::Value;
use stockade_wire::types::{CheckRequest, DecisionView};

use crate::catalogue::Kind;
use crate::door::Door;
use crate::host::{Asked, Note, Reply};
use crate::stages::{Heard, Refused, is_ask_rule, refusal, show_hooks, suggestions};

pub(crate) use sealed::Granted;

mod sealed {
    use serde_json::Value;

    /// The right to run one call of a tool of the agent. Only the decision makes one.
    #[derive(Debug)]
    pub(crate) struct Granted {
        name: String,
        input: Value,
        call_id: String,
    }

    impl Granted {
        pub(super) fn new(name: &str, input: Value, call_id: &str) -> Granted {
            Granted { name: name.to_owned(), input, call_id: call_id.to_owned() }
        }

        pub(crate) fn name(&self) -> &str {
            &self.name
        }

        pub(crate) fn input(&self) -> &Value {
            &self.input
        }

        pub(crate) fn call_id(&self) -> &str {
            &self.call_id
        }
    }
}

/// Decides a call: the gateway first, then the host where it asks. The host may give another input, which is validated
/// and decided again.
pub(crate) async fn decide(door: &Door, heard: Heard<'_>) -> Result<Granted, Refused> {
    let mut heard = heard;
    let mut agreed = false;
    loop {
        let (name, input) = (heard.valid.tool().name.as_str(), heard.valid.input().clone());
        let view = check(door, name, &input, heard.valid.call_id()).await?;
        show_hooks(door, &view);
        if view.decision == "deny" {
            return Err(refusal(door, &heard.valid, &view));
        }
        // A tool that runs commands comes here only without one: to watch a task of the session.
        let touches_nothing =
            matches!(heard.valid.tool().kind, Kind::Own { harmless: true } | Kind::Shell);
        let harmless = touches_nothing && !is_ask_rule(&view);
        let allowed = view.decision == "allow" || harmless || (heard.allows && !is_ask_rule(&view));
        // The input that a hook of the settings changed is the one that runs.
        let input = if view.input.is_object() { view.input.clone() } else { input };
        if agreed || (allowed && !heard.asks) {
            return Ok(Granted::new(name, input, heard.valid.call_id()));
        }
        let reason = heard.reason.clone().unwrap_or_else(|| view.reason.clone());
        let asked = Asked {
            tool: name.to_owned(),
            input: input.clone(),
            call_id: heard.valid.call_id().to_owned(),
            reason,
            suggestions: suggestions(&view),
            blocked_path: None,
        };
        if !door.host.can_be_asked() {
            door.host.note(Note::Said(format!("{name}: nobody can be asked")));
            return Err(refusal(door, &heard.valid, &view));
        }
        match door.ask(asked).await {
            Reply::Deny { message, interrupt } => {
                return Err(Refused::by_host(door, &heard.valid, message, interrupt));
            }
            Reply::Allow { input: None, updates } => {
                door.update(&updates).await;
                return Ok(Granted::new(name, input, heard.valid.call_id()));
            }
            Reply::Allow { input: Some(changed), updates } => {
                door.update(&updates).await;
                if changed == input {
                    return Ok(Granted::new(name, input, heard.valid.call_id()));
                }
                heard.valid =
                    door.validate_again(&heard.valid, changed).map_err(Refused::invalid)?;
                agreed = true;
            }
        }
    }
}

async fn check(
    door: &Door,
    name: &str,
    input: &Value,
    call_id: &str,
) -> Result<DecisionView, Refused> {
    let request = CheckRequest {
        tool: name.to_owned(),
        input: input.clone(),
        cwd: door.session.cwd(),
        record: true,
        run_hooks: true,
        caller_runs: true,
        call_id: Some(call_id.to_owned()),
        // Whether anybody can be asked is seen when it comes to that: what needs no question must not be refused for it.
        context: door.session.context(true),
        ..CheckRequest::default()
    };
    door.gateway.check(&request).await.map_err(|failure| Refused::failure(&failure))
}
