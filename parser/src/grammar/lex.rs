//! Bash's lexing rules: what a character means depends on where it stands.

mod arith;
mod dollar;
pub(crate) mod heredoc;
pub(crate) mod quote;
mod word;
