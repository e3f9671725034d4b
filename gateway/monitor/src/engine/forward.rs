//! Forwards: a port of the host's loopback interface that leads to a port of a task.
//!
//! The task is in a network of its own, which no process of the host reaches. Each connection is made by a socket that
//! was made in that network; what the task gets is the bytes, and no way to the host. It is recorded before it is made,
//! and when it is over.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream as Socket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stockade_sandbox::Loopback;
use tokio::io;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::Gateway;
use crate::audit::Log;
use crate::audit::record::connection::{Action, Bytes, Connection, Target, Verdict};
use crate::audit::record::{Body, who};
use crate::blocking::blocking;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::tasks::{Forward, TaskAnswer, TaskView};
use crate::run::Launchers;
use crate::tasks::ports::Processes;
use crate::tasks::store::Store;

/// Most connections of one forward at once; further ones wait.
const MOST_CONNECTIONS: usize = 256;
/// How long a connection that could not be accepted holds up the next one.
const PAUSE: Duration = Duration::from_millis(50);

impl Gateway {
    /// Opens a forward to `task`.
    pub(super) async fn forward(
        &self,
        task: TaskView,
        port: Option<u16>,
        listen: Option<u16>,
    ) -> Result<TaskAnswer, Failure> {
        // Only a task of this gateway ends its forwards.
        self.tasks.find(&task.task_id)?;
        let store = Store::of(&self.places.state);
        let (task, loopback) = blocking(move || found(&store, task)).await?;
        let port = chosen(&task, port)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, listen.unwrap_or(0)));
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = bound.await.map_err(|error: io::Error| {
            let message = format!("cannot listen on {address}: {error}");
            Failure::new(Code::InvalidRequest, message, "remove `--listen` to use a free port")
        })?;
        let lead = Lead {
            log: self.log.log().await?,
            launchers: Arc::clone(&self.launchers),
            loopback,
            task: task.task_id.clone(),
            port,
        };
        self.tasks.forward(&task.task_id, serve(listener, Arc::new(lead)));
        let forward = Forward { address: address.to_string(), port };
        Ok(TaskAnswer { tasks: vec![task], output: None, forward: Some(forward) })
    }
}

/// Returns a task with its ports, and the network in which it is.
fn found(store: &Store, task: TaskView) -> Result<(TaskView, Arc<Loopback>), Failure> {
    let unreachable = |reason: &str| {
        let message = format!("task `{}` cannot be reached: {reason}", task.task_id);
        Failure::new(Code::InvalidRequest, message, "`stockade tasks show` has its state")
    };
    let monitor = store.monitor(&task.task_id).ok_or_else(|| unreachable("it does not run"))?;
    let network = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net"));
    let ours = network("self").map_err(|error| unreachable(&error.to_string()))?;
    // An ordinary user may not look into pid 1 of a run, but into the processes of the command.
    let below = Processes::now().below(monitor);
    let mut seen = below.iter().filter_map(|pid| Some((*pid, network(&pid.to_string()).ok()?)));
    let (pid, theirs) = seen.next().ok_or_else(|| unreachable("no process of it can be seen"))?;
    if theirs == ours {
        return Err(unreachable("it has the network of this machine; connect to its port"));
    }
    let loopback = Loopback::of_process(pid).map_err(|error| unreachable(&error.to_string()))?;
    let task = store.with_ports(vec![task]).pop();
    task.map(|task| (task, Arc::new(loopback)))
        .ok_or_else(|| Failure::new(Code::Internal, "the task ended meanwhile", "open it again"))
}

/// Returns the port that is meant.
fn chosen(task: &TaskView, port: Option<u16>) -> Result<u16, Failure> {
    let listed = task.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let invalid =
        |message: String, help: &str| Err(Failure::new(Code::InvalidRequest, message, help));
    let id = &task.task_id;
    match (port, task.ports.as_slice()) {
        (Some(port), ports) if ports.contains(&port) => Ok(port),
        (None, [port]) => Ok(*port),
        (_, []) => invalid(
            format!("task `{id}` listens on no TCP port"),
            "try again when its server has started; `stockade tasks output` shows its output",
        ),
        (Some(port), _) => invalid(
            format!("task `{id}` does not listen on port {port}"),
            &format!("it listens on {listed}"),
        ),
        (None, _) => invalid(
            format!("task `{id}` listens on more than one port: {listed}"),
            "choose one with `--port`",
        ),
    }
}

/// Where a forward leads.
struct Lead {
    log: Log,
    launchers: Arc<Launchers>,
    loopback: Arc<Loopback>,
    /// The decision that let the task run, which is its identity.
    task: String,
    port: u16,
}

/// Carries connections until it is aborted.
async fn serve(listener: TcpListener, lead: Arc<Lead>) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => {
                // A connection that is gone by now, or no descriptor left: the next one may do.
                let Ok((client, _)) = accepted else {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                number += 1;
                let (lead, number) = (Arc::clone(&lead), number);
                connections.spawn(async move { lead.carry(client, number).await });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

impl Lead {
    /// Carries one connection, between two records. One that cannot be recorded is not made.
    async fn carry(&self, mut client: TcpStream, number: u64) {
        let opened = Body::Connection(Box::new(self.connection(number, Action::Opened)));
        if self.log.record(opened).await.is_err() {
            return;
        }
        let started = Instant::now();
        let carried = async {
            let mut server = self.connect().await?;
            io::copy_bidirectional(&mut client, &mut server).await
        };
        // Either side that breaks off ends the connection.
        let carried = carried.await;
        let mut closed = self.connection(number, Action::Closed);
        closed.bytes = carried.ok().map(|(sent, received)| Bytes { sent, received });
        closed.duration_us = u64::try_from(started.elapsed().as_micros()).ok();
        // The first record is there; that it ended is told by the end of the task as well.
        let _ = self.log.record(Body::Connection(Box::new(closed))).await;
    }

    fn connection(&self, number: u64, action: Action) -> Connection {
        Connection {
            reference: self.task.clone(),
            action,
            number,
            way: "forward",
            to: Target { host: "localhost".to_owned().into(), port: self.port },
            addresses: Vec::new(),
            verdict: Verdict {
                decision: "allow",
                by: "human",
                code: "forward_opened_by_person",
                reason: String::new().into(),
            },
            rules: Vec::new(),
            who: Some(who()),
            count: 1,
            bytes: None,
            duration_us: None,
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let [four, six] = self.launchers.sockets(Arc::clone(&self.loopback)).await?;
        let connect = |socket: OwnedFd, address: SocketAddr| {
            TcpSocket::from_std_stream(Socket::from(socket)).connect(address)
        };
        match connect(four, (Ipv4Addr::LOCALHOST, self.port).into()).await {
            Ok(server) => Ok(server),
            Err(_) => connect(six, (Ipv6Addr::LOCALHOST, self.port).into()).await,
        }
    }
}
