//! The gate: everything that touches the world.
//!
//! Three things are public: [`Gateway`], the [`client`] and the [`protocol`]. A front end takes a
//! [`client::Client`], which is a gateway in this process or one behind a socket.
#![forbid(unsafe_code)]

mod audit;
mod cli;
pub mod client;
mod engine;
mod environment;
mod facts;
mod hooks;
mod places;
pub mod protocol;
mod request;
mod serve;
mod settings;
mod shell;
#[cfg(test)]
mod testing;

pub use cli::main;
pub use engine::Gateway;

#[allow(dead_code, unused_imports)]
mod parse;
mod scan;
