//! The `stockade` executable.
#![forbid(unsafe_code)]

fn main() {}
