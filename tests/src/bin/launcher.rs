//! The launcher half of the sandbox, alone: what `stockade launch` is.

fn main() {
    let role = std::env::args().nth(1).unwrap_or_default();
    let is_probe = role == stockade_probe::ROLE;
    std::process::exit(match is_probe {
        true => stockade_probe::main(stockade_sandbox::start),
        false => stockade_sandbox::launch(),
    });
}
