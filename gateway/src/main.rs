//! The `stockade` executable.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

use std::io::Write as _;

fn main() {
    let status = std::panic::catch_unwind(stockade::main).unwrap_or(stockade::BROKEN);
    let _ = std::io::stdout().flush(); // nobody reads it: nothing else is to be done
    stockade_kernel::end_now(status)
}
