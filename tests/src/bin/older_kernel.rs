//! The launcher on a kernel that is older than this one, as the name by which it was started says.

fn main() {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        let name = std::env::args().next().unwrap_or_default();
        stockade_tests::older::set(name.rsplit('/').next().unwrap_or_default());
    }
    let role = std::env::args().nth(1).unwrap_or_default();
    let is_probe = role == stockade_probe::ROLE;
    std::process::exit(match is_probe {
        true => stockade_probe::main(stockade_sandbox::start),
        false => stockade_sandbox::launch(),
    });
}
