//! The other side of a front end: a person at a terminal, a program with an SDK, or nobody.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;
use stockade_wire::types::HookView;

/// An answer that takes time.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A question to the host about one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Name of the tool.
    pub tool: String,
    /// Input as it would run.
    pub input: Value,
    /// Identity of the call.
    pub call_id: String,
    /// Why it is asked, in one sentence.
    pub reason: String,
    /// Changes of permissions that would answer this kind of question for good, in the form of the SDK.
    pub suggestions: Vec<Value>,
    /// A file outside of what is allowed, if that is the reason.
    pub blocked_path: Option<String>,
}

/// The host's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Run it, with this input if it is another one.
    Allow {
        /// The whole new input.
        input: Option<Value>,
        /// Changes of permissions, in the form of the SDK.
        updates: Vec<Value>,
    },
    /// Do not run it.
    Deny {
        /// A word to the model.
        message: String,
        /// The turn ends.
        interrupt: bool,
    },
}

/// Something that a front end may show.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A call was refused without a question to the host.
    Denied {
        /// Name of the tool.
        tool: String,
        /// Identity of the call.
        call_id: String,
        /// `rule`, `mode`, `hook` or `other`.
        kind: String,
        /// Why, for people.
        message: String,
    },
    /// The mode changed.
    Mode(String),
    /// A line for a person.
    Said(String),
    /// A hook of the settings ran.
    Hook(Box<HookView>),
    /// A background command began.
    TaskStarted {
        /// Identity of the task.
        task: String,
        /// Identity of the call.
        call_id: String,
        /// The text that describes the task.
        description: String,
    },
    /// A background command wrote what is watched for.
    TaskEvent {
        /// Identity of the task.
        task: String,
        /// Identity of the call that watches it.
        call_id: String,
        /// The line.
        text: String,
    },
    /// A background command ended.
    TaskEnded {
        /// Identity of the task.
        task: String,
        /// Identity of the call.
        call_id: String,
        /// `completed`, `failed` or `stopped`.
        status: String,
        /// One line for people.
        summary: String,
    },
    /// Lines of the session were stored, and the host keeps a copy.
    Mirror {
        /// File that has them.
        path: String,
        /// The lines.
        entries: Vec<Value>,
    },
}

/// The other side of a front end. A host that cannot answer says no.
pub trait Host: Send + Sync {
    /// Says whether a question has anybody to answer it.
    fn can_be_asked(&self) -> bool;

    /// Puts a question.
    fn ask(&self, asked: Asked) -> Pending<'_, Reply>;

    /// Runs the host's hooks of an event and returns what each says, in the form of a command hook's JSON. `subject` is the
    /// tool, or what the event's matcher is about. An error is a hook that failed and blocks.
    fn hooks<'a>(
        &'a self,
        event: &'a str,
        subject: &'a str,
        input: Value,
        call_id: Option<&'a str>,
    ) -> Pending<'a, Vec<Result<Value, String>>>;

    /// Sends a message to an MCP server of the host, and returns its reply.
    fn mcp<'a>(&'a self, server: &'a str, message: Value) -> Pending<'a, Result<Value, String>>;

    /// Tells of something.
    fn note(&self, note: Note);
}

/// Nobody.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Host for Nobody {
    fn can_be_asked(&self) -> bool {
        false
    }

    fn ask(&self, _: Asked) -> Pending<'_, Reply> {
        let message = "Nobody can be asked in this session.".to_owned();
        Box::pin(async { Reply::Deny { message, interrupt: false } })
    }

    fn hooks<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: Value,
        _: Option<&'a str>,
    ) -> Pending<'a, Vec<Result<Value, String>>> {
        Box::pin(async { Vec::new() })
    }

    fn mcp<'a>(&'a self, server: &'a str, _: Value) -> Pending<'a, Result<Value, String>> {
        Box::pin(async move { Err(format!("the server `{server}` has no host")) })
    }

    fn note(&self, _: Note) {}
}
