//! The one way from an agent to files, programs and hosts.
//!
//! [`Door`] does the tool calls of a turn. Each goes the same way: validate → hooks of the host → the gateway (hooks of the
//! settings, rules, mode) → the person → run → hooks after it. A command or file tool is run by the gateway itself; any
//! other tool runs with a `Granted`, which only the boundary makes, after the gateway's decision.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod bash;
mod boundary;
mod catalogue;
mod database;
mod decided;
mod door;
mod events;
mod gateway;
mod host;
mod list;
mod output;
mod own;
mod progress;
mod restore;
mod schema;
mod session;
mod stages;
mod tasks;
mod through;

pub use catalogue::{Kind, Tool, tools};
pub use door::Door;
pub use events::Said;
pub use gateway::Gateway;
pub use host::{Asked, Host, Nobody, Note, Pending, Reply};
pub use own::server_tools;
pub use session::{Denial, Session, Setup};
