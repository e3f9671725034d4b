//! Readers of what a confined program sends to the proxy: functions from bytes to what they say, or to why
//! they are refused. Strict where two readers could differ.

pub mod body;
pub mod hello;
pub mod http;
pub mod socks;
