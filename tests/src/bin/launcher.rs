//! The launcher half of the sandbox, alone: what `stockade launch` is.

fn main() {
    std::process::exit(stockade_sandbox::launch());
}
