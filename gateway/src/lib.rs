//! The gate: everything that touches the world.
#![forbid(unsafe_code)]
