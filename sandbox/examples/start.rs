//! Measures how long starting and ending `/bin/true` takes: plain, confined, and with a launcher that waited.
//!
//! `start [LAUNCHER] [COUNT]`; the launcher is this executable unless another is named.
#![expect(clippy::disallowed_methods, reason = "tests and figures start what they look at")]

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stockade_sandbox::{LauncherZygote, Loopback, spawn};
use stockade_spec::{
    Access, FileRule, Files, Limits, Mediation, Network, Program, SandboxSpec, Stdio,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("launch".as_ref()) {
        std::process::exit(stockade_sandbox::launch());
    }
    let launcher = first.map_or_else(std::env::current_exe, |path| Ok(PathBuf::from(path)))?;
    let count: usize = arguments.next().and_then(|it| it.to_str()?.parse().ok()).unwrap_or(300);
    let mut zygote = LauncherZygote::fork()?;
    let loopback = zygote.loopback()?;
    for (kind, loopback) in [("waited", None), ("waited, one loopback", Some(&loopback))] {
        let times = waited(count, &mut zygote, loopback)?;
        for (name, times) in ["to the start", "to the end", "until it is gone"].iter().zip(times) {
            show(&format!("{kind}, {name}"), &times);
        }
    }
    let plain = times(count, || {
        std::process::Command::new("/bin/true").status()?;
        Ok(())
    })?;
    let spec = spec();
    let confined = times(count, || run(&launcher, &spec))?;
    let let_out = SandboxSpec { confine: false, ..spec.clone() };
    let unconfined = times(count, || run(&launcher, &let_out))?;
    for (name, times) in [("plain", plain), ("confined", confined), ("let out", unconfined)] {
        show(name, &times);
    }
    Ok(())
}

fn show(name: &str, times: &[Duration]) {
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    println!("{name}: least {:?}, median {:?}, p95 {:?}", at(0), at(50), at(95));
}

/// Times from the spec to the start of the command, to its end, and until nothing of it is left, with launchers that
/// had time to make ready what needs no spec.
fn waited(
    count: usize,
    zygote: &mut LauncherZygote,
    loopback: Option<&Loopback>,
) -> Result<[Vec<Duration>; 3], Box<dyn std::error::Error>> {
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    let spec = spec();
    for _ in 0..count {
        let launcher = zygote.launcher(loopback)?;
        std::thread::sleep(Duration::from_millis(8));
        let start = Instant::now();
        let (child, _) = launcher.run(&spec, stdio()?)?;
        let started = start.elapsed();
        child.ended()?;
        let ended = start.elapsed();
        drop(child);
        for (times, time) in all.iter_mut().zip([started, ended, start.elapsed()]) {
            times.push(time);
        }
    }
    all.iter_mut().for_each(|times| times.sort());
    Ok(all)
}

fn times(
    count: usize,
    mut act: impl FnMut() -> Result<(), Box<dyn std::error::Error>>,
) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        act()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times)
}

fn run(launcher: &Path, spec: &SandboxSpec) -> Result<(), Box<dyn std::error::Error>> {
    spawn(launcher, spec, stdio()?)?.0.wait()?;
    Ok(())
}

fn stdio() -> std::io::Result<Stdio> {
    let null = || File::options().read(true).write(true).open("/dev/null");
    Ok(Stdio { stdin: null()?.into(), stdout: null()?.into(), stderr: null()?.into() })
}

fn spec() -> SandboxSpec {
    let rule = |path: &Path, access: Access| FileRule {
        path: path.to_path_buf(),
        access,
        origin: "measurement".to_owned(),
    };
    let writable = std::env::temp_dir();
    let mut rules = vec![rule(&writable, Access::Write)];
    // About as many as a call has, most of which name what is not there.
    for number in 0..20 {
        rules.push(rule(&writable.join(format!("absent/{number}/config")), Access::Protected));
        rules.push(rule(&Path::new("/root/absent").join(number.to_string()), Access::None));
    }
    rules.push(rule(Path::new("/etc/ssl"), Access::None));
    SandboxSpec {
        program: Program {
            path: "/bin/true".into(),
            argv: vec!["true".into()],
            environment: Vec::new(),
            cwd: "/".into(),
        },
        files: Files { rules, guarded_names: vec![".envrc".into()], ..Files::default() },
        network: Network::Off,
        limits: Limits::default(),
        terminal: None,
        required: BTreeSet::new(),
        mediation: Mediation::Writes,
        confine: true,
        fallback: stockade_spec::Fallback::Refuse,
    }
}
