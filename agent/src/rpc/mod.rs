//! A server of sessions for other programs: JSON-RPC 2.0, one message a line, on standard input and output or on a socket.

mod client;
mod live;
mod serve;
mod socket;
mod stored;

pub(crate) use serve::{Rpc, run};
