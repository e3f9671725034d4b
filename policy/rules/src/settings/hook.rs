//! Hooks: programs and services of the user that are told of a call and may have a say in it.

use std::path::PathBuf;
use std::time::Duration;

use super::merged::Rules;
use crate::layer::Origin;

/// Time limit of a handler that names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
/// The same where a person waits for the model.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// The same where a text is shown meanwhile.
const DISPLAY_TIMEOUT: Duration = Duration::from_secs(10);

/// An event at which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// Before a call is decided.
    PreToolUse,
    /// After a call succeeded.
    PostToolUse,
    /// After a call failed.
    PostToolUseFailure,
    /// When a question is about to be put.
    PermissionRequest,
    /// After a refusal in auto mode.
    PermissionDenied,
    /// A session begins.
    SessionStart,
    /// A session ends.
    SessionEnd,
    /// Settings changed.
    ConfigChange,
    /// A person's words come in, before the model sees them.
    UserPromptSubmit,
    /// All calls of one answer of the model are over.
    PostToolBatch,
    /// The model is finished.
    Stop,
    /// A turn ended because the model did not answer.
    StopFailure,
    /// A conversation is about to be summed up.
    PreCompact,
    /// A conversation was summed up.
    PostCompact,
    /// A person is wanted.
    Notification,
    /// An item comes onto the list of things to do.
    TaskCreated,
    /// An item of the list of things to do is done.
    TaskCompleted,
    /// The working directory of commands changed.
    CwdChanged,
    /// A file that the agent has read was changed by somebody else.
    FileChanged,
    /// A further directory to work in was added.
    DirectoryAdded,
    /// A file of instructions was read.
    InstructionsLoaded,
    /// A person asked for the preparation of a project.
    Setup,
    /// The session is about to ask another model.
    PreModelSwitch,
    /// The session asks another model.
    PostModelSwitch,
    /// A text of the model is shown.
    MessageDisplay,
}

/// Meaning of exit status 2 of a hook at an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    /// The subject of the event does not go on, or fault is found with it.
    Blocks,
    /// The words on standard error are for the person.
    Tells,
    /// Nothing.
    Nothing,
}

/// Each event with its name in settings.
const NAMES: [(HookEvent, &str); 25] = [
    (HookEvent::PreToolUse, "PreToolUse"),
    (HookEvent::PostToolUse, "PostToolUse"),
    (HookEvent::PostToolUseFailure, "PostToolUseFailure"),
    (HookEvent::PermissionRequest, "PermissionRequest"),
    (HookEvent::PermissionDenied, "PermissionDenied"),
    (HookEvent::SessionStart, "SessionStart"),
    (HookEvent::SessionEnd, "SessionEnd"),
    (HookEvent::ConfigChange, "ConfigChange"),
    (HookEvent::UserPromptSubmit, "UserPromptSubmit"),
    (HookEvent::PostToolBatch, "PostToolBatch"),
    (HookEvent::Stop, "Stop"),
    (HookEvent::StopFailure, "StopFailure"),
    (HookEvent::PreCompact, "PreCompact"),
    (HookEvent::PostCompact, "PostCompact"),
    (HookEvent::Notification, "Notification"),
    (HookEvent::TaskCreated, "TaskCreated"),
    (HookEvent::TaskCompleted, "TaskCompleted"),
    (HookEvent::CwdChanged, "CwdChanged"),
    (HookEvent::FileChanged, "FileChanged"),
    (HookEvent::DirectoryAdded, "DirectoryAdded"),
    (HookEvent::InstructionsLoaded, "InstructionsLoaded"),
    (HookEvent::Setup, "Setup"),
    (HookEvent::PreModelSwitch, "PreModelSwitch"),
    (HookEvent::PostModelSwitch, "PostModelSwitch"),
    (HookEvent::MessageDisplay, "MessageDisplay"),
];

/// One configured handler.
#[derive(Debug, Clone)]
pub struct Hook {
    /// When it runs.
    pub event: HookEvent,
    /// Matcher text; empty matches all.
    pub matcher: String,
    /// Where it is configured.
    pub origin: Origin,
    /// Command or service that the hook runs.
    pub handler: Handler,
    /// `if`: the calls at which it runs.
    pub condition: Option<Condition>,
    /// `timeout`, where it is given.
    pub timeout: Option<Duration>,
    /// `async`: nothing waits for it, and it decides nothing.
    pub runs_beside: bool,
    /// `statusMessage`: what a screen may show while it runs.
    pub status: Option<String>,
    /// The directory above the project whose settings name it: it refuses and asks, and allows nothing.
    pub above: Option<PathBuf>,
}

/// Command or service that a hook runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handler {
    /// A command, with its input on standard input.
    Command(CommandHook),
    /// A service, with its input as the body of a request.
    Http(HttpHook),
}

/// A handler that is a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandHook {
    /// Shell text, or the program when `arguments` is present.
    pub command: String,
    /// Exec form: literal arguments, no shell.
    pub arguments: Option<Vec<String>>,
    /// `shell: "bash"`: the text is for bash, not for `sh`.
    pub bash: bool,
}

/// A handler that is a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpHook {
    /// Where the request goes: `http://…` or `https://…`.
    pub url: String,
    /// Further headers, in which `$NAME` and `${NAME}` stand for variables.
    pub headers: Vec<(String, String)>,
    /// `allowedEnvVars`: the variables that headers may name.
    pub variables: Vec<String>,
}

/// The rule of an `if`.
#[derive(Debug, Clone)]
pub struct Condition {
    text: String,
    rules: Box<Rules>,
}

impl HookEvent {
    /// Returns all events with their names.
    pub fn all() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name)| *name)
    }

    /// Returns the event with this name.
    pub fn named(name: &str) -> Option<HookEvent> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(event, _)| *event)
    }

    /// Returns the names of all events.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
        NAMES.iter().map(|(_, name)| *name)
    }

    /// Returns its name in settings.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(event, _)| *event == self).map_or("", |(_, name)| name)
    }

    /// Says whether it is about the call of a tool, which a matcher and an `if` then name.
    pub fn is_about_a_tool(self) -> bool {
        match self {
            HookEvent::PreToolUse
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::PermissionRequest
            | HookEvent::PermissionDenied => true,
            HookEvent::SessionStart
            | HookEvent::SessionEnd
            | HookEvent::ConfigChange
            | HookEvent::UserPromptSubmit
            | HookEvent::PostToolBatch
            | HookEvent::Stop
            | HookEvent::StopFailure
            | HookEvent::PreCompact
            | HookEvent::PostCompact
            | HookEvent::Notification
            | HookEvent::TaskCreated
            | HookEvent::TaskCompleted
            | HookEvent::CwdChanged
            | HookEvent::FileChanged
            | HookEvent::DirectoryAdded
            | HookEvent::InstructionsLoaded
            | HookEvent::Setup
            | HookEvent::PreModelSwitch
            | HookEvent::PostModelSwitch
            | HookEvent::MessageDisplay => false,
        }
    }

    /// Returns what exit status 2 means. Where it blocks, so does `"decision": "block"`.
    pub fn blocking(self) -> Blocking {
        match self {
            HookEvent::PreToolUse
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::PostToolBatch
            | HookEvent::ConfigChange
            | HookEvent::UserPromptSubmit
            | HookEvent::Stop
            | HookEvent::PreCompact
            | HookEvent::TaskCreated
            | HookEvent::TaskCompleted
            | HookEvent::PreModelSwitch => Blocking::Blocks,
            HookEvent::SessionStart
            | HookEvent::SessionEnd
            | HookEvent::PostCompact
            | HookEvent::CwdChanged
            | HookEvent::FileChanged
            | HookEvent::Setup => Blocking::Tells,
            HookEvent::PermissionRequest
            | HookEvent::PermissionDenied
            | HookEvent::StopFailure
            | HookEvent::Notification
            | HookEvent::DirectoryAdded
            | HookEvent::InstructionsLoaded
            | HookEvent::PostModelSwitch
            | HookEvent::MessageDisplay => Blocking::Nothing,
        }
    }

    /// Says whether something waits for its hooks before it goes on, so that a managed hook that fails keeps it from that.
    pub fn holds_something_up(self) -> bool {
        match self {
            HookEvent::UserPromptSubmit
            | HookEvent::PostToolBatch
            | HookEvent::PreCompact
            | HookEvent::TaskCreated
            | HookEvent::TaskCompleted
            | HookEvent::PreModelSwitch => true,
            HookEvent::PreToolUse
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::PermissionRequest
            | HookEvent::PermissionDenied
            | HookEvent::SessionStart
            | HookEvent::SessionEnd
            | HookEvent::ConfigChange
            | HookEvent::Stop
            | HookEvent::StopFailure
            | HookEvent::PostCompact
            | HookEvent::Notification
            | HookEvent::CwdChanged
            | HookEvent::FileChanged
            | HookEvent::DirectoryAdded
            | HookEvent::InstructionsLoaded
            | HookEvent::Setup
            | HookEvent::PostModelSwitch
            | HookEvent::MessageDisplay => false,
        }
    }

    /// Says whether text of a hook that is no JSON is for the agent.
    pub fn takes_plain_text(self) -> bool {
        matches!(self, HookEvent::SessionStart | HookEvent::UserPromptSubmit)
    }
}

impl Hook {
    /// Returns the time limit of the handler.
    pub fn time_limit(&self) -> Duration {
        use HookEvent::*;
        self.timeout.unwrap_or(match self.event {
            UserPromptSubmit => PROMPT_TIMEOUT,
            MessageDisplay => DISPLAY_TIMEOUT,
            PreToolUse | PostToolUse | PostToolUseFailure | PermissionRequest
            | PermissionDenied | SessionStart | SessionEnd | ConfigChange | PostToolBatch
            | Stop | StopFailure | PreCompact | PostCompact | Notification | TaskCreated
            | TaskCompleted | CwdChanged | FileChanged | DirectoryAdded | InstructionsLoaded
            | Setup | PreModelSwitch | PostModelSwitch => DEFAULT_TIMEOUT,
        })
    }

    /// Says whether two hooks are the same handler, whatever files they stand in.
    pub(crate) fn is_same(&self, other: &Hook) -> bool {
        let condition = |hook: &Hook| hook.condition.as_ref().map(|it| it.text.clone());
        self.event == other.event
            && self.matcher == other.matcher
            && self.handler == other.handler
            && self.timeout == other.timeout
            && self.runs_beside == other.runs_beside
            && condition(self) == condition(other)
    }
}

impl Handler {
    /// Returns the handler as people know it: its command line or its address.
    pub fn text(&self) -> String {
        match self {
            Handler::Command(CommandHook { command, arguments: Some(arguments), .. }) => {
                let words = std::iter::once(command).chain(arguments);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            Handler::Command(CommandHook { command, arguments: None, .. }) => command.clone(),
            Handler::Http(http) => http.url.clone(),
        }
    }
}

impl Condition {
    /// Returns the condition that the one deny rule in `rules` makes.
    pub(crate) fn new(text: &str, rules: Rules) -> Condition {
        Condition { text: text.to_owned(), rules: Box::new(rules) }
    }

    /// Returns the rule as it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the one deny rule, as rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}
