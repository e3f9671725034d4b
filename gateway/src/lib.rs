//! The gate: everything that touches the world.
//!
//! Three things are public: [`Gateway`], the [`client`] and the [`protocol`]. A front end takes a
//! [`client::Client`], which is a gateway in this process or one behind a socket.
#![forbid(unsafe_code)]

mod audit;
mod cli;
pub mod client;
mod engine;
pub mod protocol;
mod serve;

pub use cli::main;
pub use engine::Gateway;

#[allow(dead_code, unused_imports)]
mod parse;
mod scan;
