//! The harness of the tests.
#![forbid(unsafe_code)]
