//! `stockade proxy`: the process that carries connections. It reads what hostile programs send, so it holds
//! nothing else: no files but those of the name service, no rules, no keys, no other processes.
//!
//! Descriptor 0 is the socket to the gateway, 1 and 2 are the listeners for HTTP and SOCKS inside of the run's
//! network namespace. It ends when the gateway's end of the socket closes; with it the listeners are gone,
//! and nothing answers the command any more.

mod connection;
mod desk;
mod dial;
mod tunnel;

use std::io::{self, BufReader};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::messages::{self, Said, Way};
use desk::Desk;
use dial::System;

/// Most connections at once.
const MAX_CONNECTIONS: usize = 256;
/// Enough for the name service of the C library, and little for each of many connections.
const STACK: usize = 512 << 10;
/// How long connections may take to end when the gateway says so.
const FAREWELL: Duration = Duration::from_millis(500);

/// Exit status of a proxy that could not give its rights away; nothing was carried.
const NOT_CONFINED: i32 = 4;

/// Is `stockade proxy`: returns the exit status.
pub fn main() -> i32 {
    let Ok((control, http, socks)) = descriptors() else { return 1 };
    if stockade_kernel::confine_proxy().is_err() {
        return NOT_CONFINED;
    }
    match serve(control, http, socks) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn descriptors() -> io::Result<(UnixStream, TcpListener, TcpListener)> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let http = io::stdout().as_fd().try_clone_to_owned()?;
    let socks = io::stderr().as_fd().try_clone_to_owned()?;
    Ok((control.into(), http.into(), socks.into()))
}

/// Carries connections until the gateway's end of `control` closes.
fn serve(control: UnixStream, http: TcpListener, socks: TcpListener) -> io::Result<()> {
    let desk = Arc::new(Desk::new(control.try_clone()?, MAX_CONNECTIONS));
    desk.say(&Said::Ready)?;
    for (listener, way) in [(http, Way::Http), (socks, Way::Socks)] {
        let desk = Arc::clone(&desk);
        builder().spawn(move || accept(&listener, way, &desk))?;
    }
    let mut lines = BufReader::new(control);
    while let Some(line) = messages::next_line(&mut lines)? {
        desk.told(serde_json::from_slice(&line)?);
    }
    desk.farewell(FAREWELL);
    Ok(())
}

fn builder() -> thread::Builder {
    thread::Builder::new().stack_size(STACK)
}

/// Takes connections, each into a thread of its own; beyond the limit they are closed at once.
fn accept(listener: &TcpListener, way: Way, desk: &Arc<Desk>) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // No descriptors, or a client that went away; what is short comes back.
            Err(_) => {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        let Some(place) = desk.place() else {
            let reason = format!("more than {MAX_CONNECTIONS} connections at once");
            let _ = desk.say(&Said::Malformed { way, reason }); // without a gateway all ends
            continue;
        };
        let desk = Arc::clone(desk);
        let work = move || {
            connection::serve(stream, way, &desk, &System);
            drop(place);
        };
        // Without a thread the connection is closed.
        let _ = builder().spawn(work);
    }
}

#[cfg(test)]
mod tests;
