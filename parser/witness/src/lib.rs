//! tree-sitter-bash as a flat list of nodes. Only the contained worker calls this crate.
#![forbid(unsafe_code)]
