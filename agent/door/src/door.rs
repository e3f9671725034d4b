//! A door holds the tools of a session, and what a turn keeps between its calls.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};
use stockade_model::{Block, Tool as Shown};
use stockade_turn::Call;

use crate::catalogue::{Tool, canonical};
use crate::gateway::Gateway;
use crate::host::Host;
use crate::schema::{self, Valid};
use crate::session::Session;
use crate::tasks::Tasks;

/// How the reason of a turn begins that ends without a structured output; what went wrong follows.
const WRONG_OUTPUTS: &str = "error_max_structured_output_retries: ";

/// Does the tool calls of a session.
pub struct Door {
    pub(crate) gateway: Gateway,
    pub(crate) session: Arc<Session>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) shown: Vec<Shown>,
    validators: HashMap<String, Validator>,
    pub(crate) queued: Mutex<Vec<Block>>,
    /// The calls of one answer that are over, for hooks that hear of all of them at once.
    pub(crate) batch: Mutex<Vec<Value>>,
    /// Socket of whoever does statements of the `sql` tool.
    pub(crate) database: Option<PathBuf>,
    pub(crate) wrong_outputs: AtomicU32,
    /// Servers that the host switched off.
    off: Mutex<BTreeSet<String>>,
    /// Answers without a structured output.
    pub(crate) without_output: AtomicU32,
    pub(crate) stop_active: AtomicU32,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Door").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Door {
    /// Opens the door of a session with these tools.
    ///
    /// # Errors
    ///
    /// A schema is not a JSON Schema.
    pub fn new(
        gateway: Gateway,
        session: Arc<Session>,
        host: Arc<dyn Host>,
        tools: Vec<Tool>,
    ) -> Result<Door, String> {
        let mut validators = HashMap::new();
        for tool in &tools {
            let validator = schema::compile(&tool.schema)
                .map_err(|error| format!("the schema of `{}` is invalid: {error}", tool.name))?;
            validators.insert(tool.name.clone(), validator);
        }
        let shown = tools.iter().map(|tool| Shown {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input: tool.schema.clone(),
        });
        Ok(Door {
            tasks: Arc::new(Tasks::new(gateway.clone(), Arc::clone(&host))),
            gateway,
            session,
            host,
            shown: shown.collect(),
            tools,
            validators,
            queued: Mutex::default(),
            batch: Mutex::default(),
            database: None,
            off: Mutex::default(),
            wrong_outputs: AtomicU32::new(0),
            without_output: AtomicU32::new(0),
            stop_active: AtomicU32::new(0),
        })
    }

    /// Has statements of the `sql` tool done by whoever listens at this socket.
    #[must_use]
    pub fn with_database(self, socket: &Path) -> Door {
        Door { database: Some(socket.to_owned()), ..self }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Puts text into the conversation before the next request of the running turn.
    pub fn queue(&self, text: &str) {
        self.queue_all(vec![Block::Text(text.to_owned())]);
    }

    pub(crate) fn queue_all(&self, blocks: Vec<Block>) {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner).extend(blocks);
    }

    /// Switches a server on or off: calls of its tools are refused while it is off. The tools stay in the model's list.
    pub fn switch(&self, server: &str, on: bool) {
        let mut off = self.off.lock().unwrap_or_else(PoisonError::into_inner);
        match on {
            true => drop(off.remove(server)),
            false => drop(off.insert(server.to_owned())),
        }
    }

    /// Says whether a server is switched off.
    #[must_use]
    pub fn is_off(&self, server: &str) -> bool {
        self.off.lock().unwrap_or_else(PoisonError::into_inner).contains(server)
    }

    /// Ends a background command.
    ///
    /// # Errors
    ///
    /// There is none of this name.
    pub fn stop_task(&self, id: &str) -> Result<(), String> {
        self.tasks.identity(id)?;
        let (tasks, id) = (Arc::clone(&self.tasks), id.to_owned());
        // How it ends is told like every end.
        tokio::spawn(async move { tasks.stop(&id).await });
        Ok(())
    }

    /// Forgets the structured output of the turn before.
    pub fn begin_turn(&self) {
        self.session.set_structured(None);
        self.wrong_outputs.store(0, Ordering::Relaxed);
        self.without_output.store(0, Ordering::Relaxed);
        self.stop_active.store(0, Ordering::Relaxed);
        self.batch.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the reason of a turn that has no structured output.
    #[must_use]
    pub fn no_output(&self) -> String {
        let count = |of: &AtomicU32, one: &str, more: &str| match of.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(format!("1 {one}")),
            many => Some(format!("{many} {more}")),
        };
        let wrong = count(
            &self.wrong_outputs,
            "call of StructuredOutput was invalid",
            "calls of StructuredOutput were invalid",
        );
        let without = count(&self.without_output, "answer had none", "answers had none");
        let parts: Vec<String> = wrong.into_iter().chain(without).collect();
        let why =
            if parts.is_empty() { "nothing was returned".to_owned() } else { parts.join(", ") };
        format!("{WRONG_OUTPUTS}the model returned no valid structured output: {why}")
    }

    /// Returns what every hook is told.
    #[must_use]
    pub fn frame(&self, event: &str) -> serde_json::Map<String, Value> {
        let frame = json!({
            "session_id": self.session.id(), "transcript_path": "", "cwd": self.session.cwd(),
            "permission_mode": self.session.mode(), "hook_event_name": event,
        });
        frame.as_object().cloned().unwrap_or_default()
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == canonical(name))
    }

    pub(crate) fn validate(&self, call: Call) -> Result<Valid<'_>, String> {
        let Some(tool) = self.tool(&call.name) else {
            return Err(format!("The tool `{}` does not exist.", call.name));
        };
        schema::validate(tool, self.validators.get(&tool.name), call)
    }

    /// Validates another input for a call.
    pub(crate) fn validate_again<'a>(
        &'a self,
        valid: &Valid<'_>,
        input: Value,
    ) -> Result<Valid<'a>, String> {
        let (id, name) = (valid.call_id().to_owned(), valid.tool().name.clone());
        self.validate(Call { id, name, input })
    }
}
