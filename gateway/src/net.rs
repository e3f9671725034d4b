//! The one way out of a confined command: a proxy in a process of its own, and what decides about each
//! connection that it carries.

pub(crate) mod broker;
pub mod decode;
mod messages;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod trial;
pub(crate) mod worker;

use stockade_sandbox::{Network, PROXY_PORTS};

/// Port of the HTTP listener inside of a run. No command can listen there.
pub(crate) const HTTP_PORT: u16 = PROXY_PORTS[0];
/// Port of the SOCKS listener inside of a run.
pub(crate) const SOCKS_PORT: u16 = PROXY_PORTS[1];

/// The network of a run with a proxy.
pub(crate) const PROXY: Network = Network::Proxy { http: HTTP_PORT, socks: SOCKS_PORT };
