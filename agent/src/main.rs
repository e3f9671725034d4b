//! The `stockade-agent` executable.
#![forbid(unsafe_code)]

fn main() {}
