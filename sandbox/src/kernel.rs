//! Kernel features: namespaces, mounts, Landlock, filters, limits, and the system calls for them.

pub(crate) mod aliases;
pub(crate) mod bpf;
mod copies;
pub(crate) mod egress;
mod file_calls;
pub(crate) mod foreign;
pub(crate) mod frames;
pub(crate) mod group;
pub(crate) mod landlock;
pub(crate) mod layout;
pub(crate) mod mounts;
mod overlay;
pub(crate) mod seccomp;
pub(crate) mod service;
pub(crate) mod sources;

pub(crate) mod syscalls;
pub(crate) mod worker;
