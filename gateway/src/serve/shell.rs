//! `stockade shell`: a drop-in shell for agents, in four small parts that only read.
//!
//! [`options`] reads what a shell was asked for, [`wrapping`] finds the person's command inside what an agent
//! puts around it, [`inside`] says whether this process is confined by us already, and [`marker`] writes where
//! a command ended. What is judged is what runs: the command alone, never the wrapping.

pub(crate) mod inside;
pub(crate) mod marker;
pub(crate) mod options;
pub(crate) mod wrapping;
