//! The one way out of a confined command: a proxy in a process of its own, and the broker that decides about each
//! connection that it carries.
//!
//! May start `stockade proxy`, and record connections in the log. It writes no settings: a person's "always" goes through
//! [`Saving`].
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

pub mod broker;
pub mod decode;
pub mod messages;
pub mod process;
pub mod report;
pub mod worker;

pub use broker::Saving;
use stockade_spec::{Network, PROXY_PORTS};

/// Port of the HTTP listener inside of a run. No command can listen there.
pub const HTTP_PORT: u16 = PROXY_PORTS[0];
/// Port of the SOCKS listener inside of a run.
pub const SOCKS_PORT: u16 = PROXY_PORTS[1];

/// The network of a run with a proxy.
pub const PROXY: Network = Network::Proxy { http: HTTP_PORT, socks: SOCKS_PORT };
