//! The one way out of a confined command: a proxy in a process of its own, and what decides about each
//! connection that it carries.

pub mod decode;
