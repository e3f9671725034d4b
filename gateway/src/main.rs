//! The `stockade` executable.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    stockade::main()
}
