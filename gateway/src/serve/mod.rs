//! Front doors that belong to the trusted base.

mod connection;
pub(crate) mod socket;
