//! Front doors that belong to the trusted base.

mod connection;
pub(crate) mod hook;
pub(crate) mod host_answers;
pub(crate) mod machine;
pub(crate) mod rights;
pub(crate) mod shell;
pub(crate) mod socket;
mod subscribed;
