//! The loop of an agent: asks the model, has its tool calls done, gives the results back, until the model is finished or a
//! limit is reached.
//!
//! The loop keeps nothing but what it is given: messages go in, [`Step`]s come out, and what tools do is up to
//! [`Hands`]. Every call of a tool has exactly one result in the messages, whatever happens.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod calls;
mod hands;
mod interrupt;
mod pending;
mod turn;

pub use hands::{Call, Done, Hands};
pub use interrupt::{Interrupt, Interrupter, interrupt};
pub use pending::{Finished, finish};
pub use turn::{End, Limits, Step, Turn};
