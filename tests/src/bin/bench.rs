//! Times whole processes beside plain bash, in turn, and prints medians and ratios.
//!
//! `cargo build --release && cargo run --release -p stockade-tests --bin bench -- [RUNS]`
//!
//! Each round runs every contender once, so that a drift of the machine's speed meets all alike. What is not
//! installed is named and left out.
#![forbid(unsafe_code)]

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A way to run one command.
struct Contender {
    name: &'static str,
    argv: Vec<String>,
    /// What it reads; nothing without one.
    input: Option<PathBuf>,
    times: Vec<Duration>,
}

fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let Some(stockade) = beside_this_executable("stockade") else {
        eprintln!("bench: no `stockade` beside this executable; run `cargo build --release` first");
        return ExitCode::from(122);
    };
    let scratch = std::env::temp_dir().join(format!("stockade-bench-{}", std::process::id()));
    // A gateway listens only where nobody else may look.
    let made = std::fs::DirBuilder::new().mode(0o700).create(&scratch);
    if let Err(error) = made.and_then(|()| std::fs::create_dir_all(scratch.join("project/.git"))) {
        eprintln!("bench: cannot make {}: {error}", scratch.display());
        return ExitCode::from(122);
    }
    let frame = scratch.join("frame.json");
    if let Err(error) = std::fs::write(&frame, FRAME) {
        eprintln!("bench: cannot write {}: {error}", frame.display());
        return ExitCode::from(122);
    }
    let daemon = Daemon::start(&stockade, &scratch);
    let mut contenders = contenders(&stockade, &scratch, daemon.is_some());
    for round in 0..=rounds {
        for contender in &mut contenders {
            let took = time(contender, &scratch.join("project"));
            match took {
                Some(took) if round > 0 => contender.times.push(took),
                Some(_) => {}
                None if round == 0 => println!("left out, does not run here: {}", contender.name),
                None => {}
            }
        }
    }
    print(&mut contenders);
    drop(daemon);
    let removed = std::fs::remove_dir_all(&scratch);
    if let Err(error) = removed {
        eprintln!("bench: cannot remove {}: {error}", scratch.display());
    }
    ExitCode::SUCCESS
}

/// What an agent sends to its hook before it runs a command.
const FRAME: &str = r#"{"hook_event_name":"PreToolUse","session_id":"bench","cwd":"/","tool_name":"Bash",
"tool_input":{"command":"git status"}}"#;

fn beside_this_executable(name: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name(name);
    path.is_file().then_some(path)
}

const HOOK: &str = "stockade hook claude, one shot";

fn contenders(stockade: &Path, scratch: &Path, daemon: bool) -> Vec<Contender> {
    let stockade = stockade.display().to_string();
    let state = scratch.join("state").display().to_string();
    let socket = scratch.join("gateway.sock").display().to_string();
    let mut lines = vec![
        ("bash -c true", "bash -c true".to_owned()),
        (
            "stockade run -- true, one shot",
            format!("{stockade} run --no-daemon --state-dir {state} -- true"),
        ),
        (
            "stockade check -- true, one shot",
            format!("{stockade} check --no-daemon --state-dir {state} -- true"),
        ),
        (HOOK, format!("{stockade} hook claude --no-daemon --state-dir {state}")),
    ];
    if daemon {
        lines.push((
            "stockade run -- true, running gateway",
            format!("{stockade} run --socket {socket} -- true"),
        ));
    }
    for (name, line) in [
        (
            "bubblewrap",
            "bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-all bash -c true",
        ),
        ("firejail", "firejail --quiet --noprofile --net=none bash -c true"),
        ("srt", "srt bash -c true"),
        ("codex", "codex sandbox linux bash -c true"),
    ] {
        let program = line.split(' ').next().unwrap_or_default();
        if on_path(program) {
            lines.push((name, line.to_owned()));
        } else {
            println!("not installed: {name}");
        }
    }
    let split = |line: String| line.split(' ').map(str::to_owned).collect();
    lines
        .into_iter()
        .map(|(name, line)| {
            let input = (name == HOOK).then(|| scratch.join("frame.json"));
            Contender { name, argv: split(line), input, times: Vec::new() }
        })
        .collect()
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn time(contender: &Contender, cwd: &Path) -> Option<Duration> {
    let (program, arguments) = contender.argv.split_first()?;
    let input = match &contender.input {
        Some(path) => Stdio::from(std::fs::File::open(path).ok()?),
        None => Stdio::null(),
    };
    let start = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .current_dir(cwd)
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    let took = start.elapsed();
    status.success().then_some(took)
}

/// A gateway that runs while the bench does.
struct Daemon(Child);

impl Daemon {
    fn start(stockade: &Path, scratch: &Path) -> Option<Daemon> {
        use std::io::BufRead as _;
        let mut child = Command::new(stockade)
            .args(["serve", "--socket"])
            .arg(scratch.join("gateway.sock"))
            .arg("--state-dir")
            .arg(scratch.join("state-daemon"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut line = String::new();
        let ready =
            std::io::BufReader::new(child.stdout.take()?).read_line(&mut line).is_ok_and(|n| n > 0);
        if !ready {
            println!("left out: the gateway did not start");
        }
        ready.then_some(Daemon(child))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let ended = self.0.kill().and_then(|()| self.0.wait());
        if let Err(error) = ended {
            eprintln!("bench: cannot end the gateway: {error}");
        }
    }
}

fn print(contenders: &mut [Contender]) {
    for contender in contenders.iter_mut() {
        contender.times.sort();
    }
    let at = |times: &[Duration], share: usize| times.get(times.len() * share / 100).copied();
    let base = contenders.first().and_then(|first| at(&first.times, 50)).unwrap_or_default();
    println!(
        "{:<42} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "least", "median", "p95", "over bash", "ratio"
    );
    for contender in contenders.iter() {
        let [Some(least), Some(median), Some(high)] =
            [0, 50, 95].map(|share| at(&contender.times, share))
        else {
            continue;
        };
        println!(
            "{:<42} {:>6.2} ms {:>6.2} ms {:>6.2} ms {:>6.2} ms {:>8.1}x",
            contender.name,
            least.as_secs_f64() * 1e3,
            median.as_secs_f64() * 1e3,
            high.as_secs_f64() * 1e3,
            (median.as_secs_f64() - base.as_secs_f64()) * 1e3,
            median.as_secs_f64() / base.as_secs_f64().max(1e-9),
        );
    }
}
