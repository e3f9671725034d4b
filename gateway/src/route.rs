//! The one way in: a gateway in this process, or one behind a socket, through the same calls.

use std::pin::Pin;

use stockade_client::Client;
use stockade_wire::approvals::{ApprovalAnswer, ApprovalRequest, GrantAnswer, GrantRequest};
use stockade_wire::conversation::Conversation;
use stockade_wire::sessions::{SessionAnswer, SessionRequest};
use stockade_wire::subscriptions::{SubscribeAnswer, SubscribeRequest, Told};

use crate::Gateway;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::tasks::{TaskAnswer, TaskRequest};
use crate::protocol::types::{
    CheckRequest, CommandRequest, DecisionView, EventRequest, EventView, RunOutcome,
};
pub use stockade_monitor::options::Options;

/// Most characters of a reason that are recorded.
const LONGEST_REASON: usize = 1000;

/// The way to a gateway: in this process, or a client of another one.
#[derive(Debug)]
pub struct Route {
    way: Way,
}

#[derive(Debug)]
enum Way {
    Embedded(Box<Gateway>),
    Socket(Box<Client>),
}

impl Route {
    /// Connects to the running gateway, or makes one in this process.
    ///
    /// A named socket must answer. At the default place a gateway is used if one of the same user listens, and if neither
    /// the log nor the state directory is named: those are the gateway's. What listens as this user but is sandboxed, like a command of an agent,
    /// and what takes no connections is an error at either place. Versions are compared with the first call, which
    /// fails when they differ: nothing is tried elsewhere then, for that gateway holds the log.
    pub async fn connect(options: Options) -> Result<Route, Failure> {
        match Route::reach(&options)? {
            Some(route) => Ok(route),
            None => Route::embedded(options).await,
        }
    }

    /// Connects to the gateway that runs, as [`Route::connect`] does; none when this process is to be the gateway.
    pub(crate) fn reach(options: &Options) -> Result<Option<Route>, Failure> {
        Ok(Client::reach(options)?.map(Route::through))
    }

    /// Connects to gateway `pid`, which left its place to one of a new executable; none where it did not.
    pub(crate) fn left_by(options: &Options, pid: u32) -> Result<Option<Route>, Failure> {
        Ok(Client::left_by(options, pid)?.map(Route::through))
    }

    fn through(connection: Client) -> Route {
        Route { way: Way::Socket(Box::new(connection)) }
    }

    /// Says whether the gateway is another process, which goes on without this one.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.way, Way::Socket(_))
    }

    /// Runs one command to its end.
    pub async fn run(&mut self, request: CommandRequest, conversation: Conversation) -> RunOutcome {
        match &mut self.way {
            Way::Embedded(gateway) => run_here(gateway, request, conversation).await,
            Way::Socket(connection) => connection.run(request, conversation).await,
        }
    }

    /// Judges one call without running anything.
    pub async fn check(&mut self, request: CheckRequest) -> Result<DecisionView, Failure> {
        match &mut self.way {
            Way::Embedded(gateway) => gateway.check(request).await,
            Way::Socket(connection) => connection.check(&request),
        }
    }

    /// Has it recorded that the front end refused a call by itself because of `failure`, and returns what the caller is told:
    /// that, or that it cannot be recorded.
    pub(crate) async fn refuse(&mut self, request: CheckRequest, failure: Failure) -> Failure {
        let message = failure.message.chars().take(LONGEST_REASON).collect();
        let refused = Some(Failure { message, ..failure.clone() });
        match self.check(CheckRequest { record: true, refused, ..request }).await {
            Err(unrecorded) if unrecorded.code == Code::AuditUnavailable => unrecorded,
            Ok(_) | Err(_) => failure,
        }
    }

    /// Tells of an event, and returns what the hooks that run at it say.
    pub async fn event(&mut self, request: EventRequest) -> Result<EventView, Failure> {
        match &mut self.way {
            Way::Embedded(gateway) => gateway.event(request).await,
            Way::Socket(connection) => connection.tell(&request),
        }
    }

    /// Asks about background tasks: of the gateway behind the socket. A gateway in this process has none.
    pub fn task(&mut self, request: &TaskRequest) -> Result<TaskAnswer, Failure> {
        match &mut self.way {
            Way::Embedded(_) => Err(Failure::new(
                Code::TaskUnknown,
                "this process cannot start background tasks: they need a running gateway",
                "start one with `stockade serve`",
            )),
            Way::Socket(connection) => connection.task(request),
        }
    }

    /// Asks about questions that wait at the gateway behind the socket, or answers one. A gateway in this process has none.
    pub fn approval(&mut self, request: &ApprovalRequest) -> Result<ApprovalAnswer, Failure> {
        match &mut self.way {
            Way::Embedded(_) => Ok(ApprovalAnswer { approvals: Vec::new() }),
            Way::Socket(connection) => connection.approval(request),
        }
    }

    /// Asks about grants of the gateway behind the socket, or revokes them. A gateway in this process has none.
    pub fn grant(&mut self, request: &GrantRequest) -> Result<GrantAnswer, Failure> {
        match &mut self.way {
            Way::Embedded(_) => Ok(GrantAnswer { grants: Vec::new() }),
            Way::Socket(connection) => connection.grant(request),
        }
    }

    /// Asks about the sessions of the gateway behind the socket. A gateway in this process has none.
    pub fn session(&mut self, request: &SessionRequest) -> Result<SessionAnswer, Failure> {
        match &mut self.way {
            Way::Embedded(_) => Ok(SessionAnswer { sessions: Vec::new() }),
            Way::Socket(connection) => connection.session(request),
        }
    }

    /// Subscribes to records of the gateway behind the socket. A gateway in this process has no subscribers.
    pub(crate) fn subscribe(
        &mut self,
        request: &SubscribeRequest,
    ) -> Result<SubscribeAnswer, Failure> {
        match &mut self.way {
            Way::Embedded(_) => Ok(SubscribeAnswer { next: 0 }),
            Way::Socket(connection) => connection.subscribe(request),
        }
    }

    /// Waits for what a subscription tells next.
    pub(crate) fn told(&mut self) -> Result<Told, Failure> {
        match &mut self.way {
            Way::Embedded(_) => Ok(Told::Ended { error: None }),
            Way::Socket(connection) => loop {
                if let Some(told) = connection.told(None)? {
                    return Ok(told);
                }
            },
        }
    }

    /// Makes a gateway in this process.
    pub(crate) async fn embedded(options: Options) -> Result<Route, Failure> {
        let gateway = open_here(options).await?;
        Ok(Route { way: Way::Embedded(Box::new(gateway)) })
    }

    /// Ends what this process was the gateway with, and leaves nobody behind.
    pub(crate) async fn close(self) {
        match self.way {
            Way::Embedded(gateway) => close_here(gateway).await,
            Way::Socket(_) => {}
        }
    }
}

/// A future of a gateway in this process. Separate functions make it on the heap: a client of another gateway would otherwise touch the
/// pages of its stack that are reserved for it.
type Here<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

#[inline(never)]
fn open_here(options: Options) -> Here<'static, Result<Gateway, Failure>> {
    Box::pin(Gateway::open(options))
}

#[inline(never)]
fn run_here(
    gateway: &mut Gateway,
    request: CommandRequest,
    conversation: Conversation,
) -> Here<'_, RunOutcome> {
    Box::pin(gateway.run(request, conversation))
}

#[inline(never)]
fn close_here(gateway: Box<Gateway>) -> Here<'static, ()> {
    Box::pin(gateway.close())
}
