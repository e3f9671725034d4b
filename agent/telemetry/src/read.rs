//! Reads from the gateway, in a thread: the client of a gateway waits without a runtime.

use std::time::Duration;

use stockade_client::{Client, Options};
use stockade_wire::errors::Failure;
use stockade_wire::subscriptions::{SubscribeRequest, Told};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Most messages that wait here.
const WAITING: usize = 256;
/// How often it is looked whether anybody still wants messages.
const LOOK: Duration = Duration::from_millis(200);

/// Message from the gateway.
#[derive(Debug)]
pub(crate) enum News {
    /// The gateway tells records from this one on.
    Begins(u64),
    Told(Told),
    /// The connection is over, or there was none.
    Gone(Failure),
    /// No gateway runs.
    Nobody,
}

/// Subscribes, and returns what is told. The connection ends when the receiver is dropped.
pub(crate) fn read(options: Options, request: SubscribeRequest) -> anyhow::Result<Receiver<News>> {
    let (sender, receiver) = channel(WAITING);
    let thread = std::thread::Builder::new().name("records".to_owned());
    thread.spawn(move || {
        let last = match follow(&options, &request, &sender) {
            Ok(true) => return,
            Ok(false) => News::Nobody,
            Err(failure) => News::Gone(failure),
        };
        let _ = sender.blocking_send(last); // nobody wants it
    })?;
    Ok(receiver)
}

/// Hands on what is told until nobody wants it. Says whether there is a gateway.
fn follow(
    options: &Options,
    request: &SubscribeRequest,
    sender: &Sender<News>,
) -> Result<bool, Failure> {
    let Some(mut client) = Client::reach(options)? else { return Ok(false) };
    let next = client.subscribe(request)?.next;
    if sender.blocking_send(News::Begins(next)).is_err() {
        return Ok(true);
    }
    while !sender.is_closed() {
        let Some(told) = client.told(Some(LOOK))? else { continue };
        let is_last = matches!(told, Told::Ended { .. });
        if sender.blocking_send(News::Told(told)).is_err() || is_last {
            return Ok(true);
        }
    }
    Ok(true)
}
