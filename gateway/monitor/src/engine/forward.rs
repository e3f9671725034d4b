//! Forwards: a port of the host's loopback interface that leads to a port of a task.
//!
//! The task is in a network of its own, which no process of the host reaches. Each connection is made by a socket that
//! was made in that network; what the task gets is the bytes, and no way to the host.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream as Socket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use stockade_sandbox::Loopback;
use tokio::io;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::Gateway;
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
            Failure::new(Code::InvalidRequest, message, "leave `--listen` out to use a free port")
        })?;
        let launchers = self.launchers.clone();
        self.tasks.forward(&task.task_id, serve(listener, launchers, loopback, port));
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
    // The first process below the monitor is pid 1 of the run.
    let first = Processes::now().below(monitor).first().copied();
    let first = first.ok_or_else(|| unreachable("it has no process"))?;
    let network = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net"));
    match (network(&first.to_string()), network("self")) {
        (Ok(theirs), Ok(ours)) if theirs == ours => {
            return Err(unreachable("it has the network of this machine; connect to its port"));
        }
        (Ok(_), Ok(_)) => {}
        (Err(error), _) | (_, Err(error)) => return Err(unreachable(&error.to_string())),
    }
    let loopback = Loopback::of_process(first).map_err(|error| unreachable(&error.to_string()))?;
    let task = store.with_ports(vec![task]).pop();
    task.map(|task| (task, Arc::new(loopback))).ok_or_else(|| {
        Failure::new(Code::Internal, "the task was lost on the way", "open it again")
    })
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
            "try again when its server has started; `stockade tasks output` shows what it wrote",
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

/// Carries connections until it is aborted.
async fn serve(
    listener: TcpListener,
    launchers: Arc<Launchers>,
    loopback: Arc<Loopback>,
    port: u16,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => {
                // A connection that is gone by now, or no descriptor left: the next one may do.
                let Ok((client, _)) = accepted else {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                let (launchers, loopback) = (Arc::clone(&launchers), Arc::clone(&loopback));
                connections.spawn(async move {
                    // Either side that breaks off ends the connection.
                    let _ = carry(client, &launchers, loopback, port).await;
                });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn carry(
    mut client: TcpStream,
    launchers: &Launchers,
    loopback: Arc<Loopback>,
    port: u16,
) -> io::Result<()> {
    let [four, six] = launchers.sockets(loopback).await?;
    let connect = |socket: OwnedFd, address: SocketAddr| {
        TcpSocket::from_std_stream(Socket::from(socket)).connect(address)
    };
    let mut server = match connect(four, (Ipv4Addr::LOCALHOST, port).into()).await {
        Ok(server) => server,
        Err(_) => connect(six, (Ipv6Addr::LOCALHOST, port).into()).await?,
    };
    io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}
