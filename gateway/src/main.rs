//! The `stockade` executable.
#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]
#![deny(unsafe_code)]

/// What the C library's start calls. The start of Rust's library between the two would read the map of this process,
/// for one, and takes a twentieth of the time of a hook's answer.
#[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
#[expect(unsafe_code, reason = "the name, which nothing else here has, is what makes it the entry")]
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    stockade_sandbox::begin();
    let status = std::panic::catch_unwind(stockade::main).unwrap_or(stockade::BROKEN);
    let _ = std::io::Write::flush(&mut std::io::stdout()); // nobody reads it: nothing else is to be done
    stockade_sandbox::end_now(status)
}

/// Elsewhere the arguments reach this program through the start of Rust's library alone.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
fn main() -> std::process::ExitCode {
    stockade::main().into()
}
