//! `stockade approvals web` and `webhook`: a page on the loopback interface for open questions, and messages about them.
//!
//! The server speaks to the gateway as every client does and has no rights of its own. Opening the page needs the link that is
//! printed here, which works once, in one browser, for ten minutes. From then on each request needs a cookie that scripts
//! cannot read and a second secret that no browser sends by itself: pages of other names, other ports and other origins
//! get nothing and answer nothing.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod door;
mod gate;
mod hook;
mod questions;

use std::io::{ErrorKind, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use stockade_client::{Client, Options};
use tokio::net::TcpListener;

use gate::Gate;
pub use hook::{Form, Webhook, run as webhook};
use questions::Questions;

/// How many free ports are tried, where one is taken at the other address of `localhost`.
const TRIES: usize = 16;

/// Serves the page at `port`, or at a free one, for the gateway at `socket` or the usual one, and prints the link. Returns
/// on Ctrl-C.
pub fn run(socket: Option<PathBuf>, port: u16) -> anyhow::Result<()> {
    let options = Options { socket, ..Options::from_environment() };
    let reached = Client::reach(&options).map_err(|it| anyhow::anyhow!("{}", it.message))?;
    anyhow::ensure!(reached.is_some(), "none of your gateways is running, so no question is open");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = runtime.block_on(serve(options, port));
    // A question to the gateway may still be on its way.
    runtime.shutdown_background();
    ended
}

async fn serve(options: Options, port: u16) -> anyhow::Result<()> {
    let listeners = listen(port).await?;
    let port = listeners.first().context("no listener")?.local_addr()?.port();
    let (gate, link) = Gate::new(port)?;
    let questions = Arc::new(Questions::new(options));
    tokio::spawn(questions::watch(Arc::clone(&questions)));
    let routes = door::routes(Arc::new(gate), questions)?;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{link}")?;
    output.flush()?;
    drop(output);
    let mut serving = tokio::task::JoinSet::new();
    for listener in listeners {
        let routes: Router = routes.clone();
        serving.spawn(async move { axum::serve(listener, routes).await });
    }
    tokio::select! {
        ended = serving.join_next() => match ended {
            Some(ended) => Ok(ended??),
            None => Ok(()),
        },
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}

/// Listens at both addresses that `localhost` means: whoever else listened at one of them would be given the link.
async fn listen(port: u16) -> anyhow::Result<Vec<TcpListener>> {
    for _ in 0..TRIES {
        let first = bind(Ipv4Addr::LOCALHOST.into(), port).await;
        let first = first.with_context(|| format!("cannot listen at 127.0.0.1:{port}"))?;
        let chosen = first.local_addr()?.port();
        match bind(Ipv6Addr::LOCALHOST.into(), chosen).await {
            Ok(second) => return Ok(vec![first, second]),
            Err(error) if error.kind() == ErrorKind::AddrInUse && port == 0 => {}
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                return Err(error).with_context(|| format!("cannot listen at [::1]:{port}"));
            }
            // This machine has no such address, and nobody can listen there.
            Err(_) => return Ok(vec![first]),
        }
    }
    anyhow::bail!("no port is free at both 127.0.0.1 and [::1]")
}

async fn bind(address: IpAddr, port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((address, port))).await
}
