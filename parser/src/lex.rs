//! Bash's lexing rules: what a character means depends on where it stands.

mod arith;
mod dollar;
mod heredoc;
pub(crate) mod quote;
mod word;
