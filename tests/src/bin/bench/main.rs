//! Times whole processes beside plain bash, and prints medians and ratios.
//!
//! `cargo build --release && cargo run --release -p stockade-tests --bin bench -- [ROUNDS] [PART …]`
//!
//! Parts: `start` (one command, one hook answer), `rate` (four at a time), `work` (ordinary commands). All by default.
//! Each round runs every contender once, so that a drift of the machine's speed meets all alike. What is not
//! installed is named and left out.
#![forbid(unsafe_code)]

mod gateway;
mod rate;
mod start;
mod table;
mod work;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gateway::Gateway;

/// Where a bench works, and with what.
struct Ground {
    /// The executable.
    stockade: String,
    /// A folder of its own, gone afterwards.
    scratch: PathBuf,
    /// State and log, in memory where there is such a folder: so the syncs of the log are not counted.
    state: PathBuf,
    /// A gateway that runs meanwhile, if it started.
    gateway: Option<Gateway>,
}

impl Ground {
    fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Returns `run` of this executable in a process of its own.
    fn one_shot(&self) -> String {
        let state = self.state.join("one-shot");
        format!("{} run --quiet --no-daemon --state-dir {}", self.stockade, state.display())
    }

    /// Returns `run` through the gateway that runs.
    fn through_gateway(&self) -> String {
        let socket = self.path("gateway.sock");
        format!("{} run --quiet --socket {}", self.stockade, socket.display())
    }
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.first().and_then(|text| text.parse().ok());
    if rounds.is_some() {
        arguments.remove(0);
    }
    let rounds: usize = rounds.unwrap_or(100);
    let Some(stockade) = beside_this_executable("stockade") else {
        eprintln!("bench: no `stockade` beside this executable; run `cargo build --release` first");
        return ExitCode::from(122);
    };
    let name = format!("stockade-bench-{}", std::process::id());
    let scratch = std::env::temp_dir().join(&name);
    let memory = Path::new("/dev/shm");
    let state = if memory.is_dir() { memory.join(&name) } else { scratch.join("state") };
    if let Err(error) = prepare(&scratch, &state) {
        eprintln!("bench: cannot make {} or {}: {error}", scratch.display(), state.display());
        return ExitCode::from(122);
    }
    println!("state and log in {}\n", state.display());
    let gateway = Gateway::start(&stockade, &scratch, &state);
    let ground = Ground { stockade: stockade.display().to_string(), scratch, state, gateway };
    let wanted = |part: &str| arguments.is_empty() || arguments.iter().any(|word| word == part);
    if wanted("start") {
        start::measure(&ground, rounds);
    }
    if wanted("rate") {
        rate::measure(&ground, rounds);
    }
    if wanted("work") {
        work::measure(&ground, rounds.div_ceil(10).max(3));
    }
    let Ground { scratch, state, gateway, .. } = ground;
    drop(gateway);
    for folder in [state, scratch] {
        if let Err(error) = std::fs::remove_dir_all(&folder) {
            eprintln!("bench: cannot remove {}: {error}", folder.display());
        }
    }
    ExitCode::SUCCESS
}

/// Makes the folders; a gateway listens only where nobody else may look.
fn prepare(scratch: &Path, state: &Path) -> std::io::Result<()> {
    for folder in [scratch, state] {
        std::fs::DirBuilder::new().mode(0o700).create(folder)?;
    }
    std::fs::create_dir_all(scratch.join("project/.git"))
}

fn beside_this_executable(name: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name(name);
    path.is_file().then_some(path)
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
