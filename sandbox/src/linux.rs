//! The Linux backend: namespaces, Landlock and seccomp, with our own small bindings.

pub(crate) mod aliases;
pub(crate) mod bpf;
mod copies;
pub(crate) mod egress;
pub(crate) mod foreign;
pub(crate) mod group;
pub(crate) mod landlock;
pub(crate) mod layout;
pub(crate) mod mounts;
mod overlay;
pub(crate) mod seccomp;
pub(crate) mod sources;

pub(crate) mod syscalls;
pub(crate) mod worker;
