//! The probes: each runs a small program confined, and some also unconfined, as the control.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;

use crate::linux::landlock;
use crate::{
    Enforced, Error, Files, Host, Limits, Mechanism, Mediation, Network, Probe, Program,
    Protection, SandboxSpec, State, Stdio, spawn,
};

/// Acts tried in a shell: name, protection, text. Each must succeed without and fail with confinement.
const ACTS: &[(&str, Protection, &str)] = &[
    ("see other processes", Protection::Processes, "kill -0 $OTHER"),
    ("read another process", Protection::Processes, "[ -e /proc/$OTHER/stat ]"),
];

/// Tries everything once.
pub(crate) fn probe(launcher: &Path) -> Host {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut probes = vec![user_namespaces(), landlock_level()];
    let whole = run(launcher, &spec("exit 0", BTreeSet::new()));
    let enforced = match &whole {
        Ok((_, enforced)) => enforced.clone(),
        Err(error) => Host::without(&error.to_string()).enforced,
    };
    probes.push(confined_start(&whole));
    if whole.is_ok() {
        probes.extend(
            ACTS.iter().map(|(name, protection, text)| act(launcher, name, *protection, text)),
        );
        probes.push(nothing_written(launcher));
        probes.push(without_network(launcher));
    }
    let enforced = believe(enforced, &probes);
    Host {
        probes,
        enforced,
        kernel: kernel.trim().to_owned(),
        landlock_abi: landlock::kernel_abi(),
    }
}

/// Starts one confined command and tells what it reports.
pub(crate) fn start(launcher: &Path) -> Host {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let enforced = match run(launcher, &spec("exit 0", BTreeSet::new())) {
        Ok((_, enforced)) => enforced,
        Err(error) => Host::without(&error.to_string()).enforced,
    };
    let kernel = kernel.trim().to_owned();
    Host { probes: Vec::new(), enforced, kernel, landlock_abi: landlock::kernel_abi() }
}

/// A claim whose probe fails is not made.
fn believe(mut enforced: Enforced, probes: &[Probe]) -> Enforced {
    for (probe, protection) in probes.iter().filter_map(|probe| Some((probe, claim(&probe.name)?)))
    {
        if !probe.works {
            let reason = format!("the probe `{}` fails: {}", probe.name, probe.detail);
            enforced.states.insert(protection, State::Missing(reason));
        }
    }
    enforced
}

const WRITE: &str = "a write outside is refused";
const CONNECT: &str = "the host's network cannot be reached";

/// Returns which protection a probe is about.
fn claim(name: &str) -> Option<Protection> {
    match name {
        WRITE => Some(Protection::WriteOutside),
        CONNECT => Some(Protection::Network),
        name => ACTS.iter().find(|act| refused(act.0) == name).map(|act| act.1),
    }
}

fn refused(name: &str) -> String {
    format!("cannot {name}")
}

fn result(name: &str, seen: Result<String, (String, String)>) -> Probe {
    let name = name.to_owned();
    match seen {
        Ok(detail) => Probe { name, works: true, detail, help: String::new() },
        Err((detail, help)) => Probe { name, works: false, detail, help },
    }
}

/// Makes all namespaces in a process of the launcher's kind; a security module may refuse the second step.
fn user_namespaces() -> Probe {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let most = read("/proc/sys/user/max_user_namespaces");
    let seen = match most.as_deref() {
        Some("0") => Err(("the kernel allows 0 of them".to_owned(), crate::help::namespaces())),
        Some(most) => Ok(format!("the kernel allows {most} of them")),
        None => Err(("the kernel has none".to_owned(), crate::help::namespaces())),
    };
    result("user namespaces", seen)
}

fn landlock_level() -> Probe {
    let seen = match landlock::kernel_abi() {
        0 => Err((
            "the kernel has no Landlock, or it is switched off".to_owned(),
            "add `landlock` to the kernel's `lsm=` parameter".to_owned(),
        )),
        abi => Ok(format!("ABI {abi}")),
    };
    result("Landlock", seen)
}

fn confined_start(whole: &Result<(Option<i32>, Enforced), Error>) -> Probe {
    let seen = match whole {
        Ok(_) => Ok("a shell started with every step".to_owned()),
        Err(Error::Unenforceable { reason, help, .. }) => Err((reason.clone(), help.clone())),
        Err(error) => Err((error.to_string(), crate::help::namespaces())),
    };
    result("a confined start", seen)
}

/// Runs `text` with and without confinement.
fn act(launcher: &Path, name: &str, protection: Protection, text: &str) -> Probe {
    let mut spec = spec(text, BTreeSet::new());
    let me = std::process::id().to_string();
    spec.program.environment.push(("OTHER".into(), me.into()));
    let free = SandboxSpec { confine: false, ..spec.clone() };
    let seen = match (code(launcher, &free), code(launcher, &spec)) {
        (Ok(Some(0)), Ok(Some(0))) => {
            Err(("it succeeds".to_owned(), crate::help::protection(protection)))
        }
        (Ok(Some(0)), Ok(_)) => Ok("succeeds outside, fails inside".to_owned()),
        (Ok(_), Ok(_)) => Ok("not allowed to this user outside either".to_owned()),
        (Err(error), _) | (_, Err(error)) => {
            Err((error.to_string(), crate::help::protection(protection)))
        }
    };
    result(&refused(name), seen)
}

/// Writes a file beside the host's temporary ones.
fn nothing_written(launcher: &Path) -> Probe {
    let name = format!("/dev/shm/stockade-probe-{}", std::process::id());
    let mut spec = spec("echo probe > \"$FILE\"", BTreeSet::new());
    spec.program.environment.push(("FILE".into(), OsString::from(&name)));
    let free = SandboxSpec { confine: false, ..spec.clone() };
    // The file may not be there; both ways it is gone afterwards.
    let written = |spec: &SandboxSpec| {
        let outcome = code(launcher, spec);
        let there = fs::remove_file(&name).is_ok();
        outcome.map(|_| there)
    };
    let help = crate::help::protection(Protection::WriteOutside);
    let seen = match (written(&free), written(&spec)) {
        (Ok(_), Ok(true)) => Err(("the file was written".to_owned(), help)),
        (Ok(true), Ok(false)) => Ok("succeeds outside, fails inside".to_owned()),
        (Ok(false), Ok(false)) => Ok("not allowed to this user outside either".to_owned()),
        (Err(error), _) | (_, Err(error)) => Err((error.to_string(), help)),
    };
    result(WRITE, seen)
}

/// Connects to a server of this process.
fn without_network(launcher: &Path) -> Probe {
    let help = crate::help::protection(Protection::Network);
    let server = std::net::TcpListener::bind("127.0.0.1:0").and_then(|server| {
        let port = server.local_addr()?.port();
        Ok((server, port))
    });
    let (_server, port) = match server {
        Ok(server) => server,
        Err(error) => return result(CONNECT, Ok(format!("no server for the control: {error}"))),
    };
    // Only bash has this redirection; another shell fails, and then the control says so.
    let mut spec = spec(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}"), BTreeSet::new());
    spec.program.path = "/bin/bash".into();
    let free = SandboxSpec { confine: false, ..spec.clone() };
    let seen = match (code(launcher, &free), code(launcher, &spec)) {
        (Ok(_), Ok(Some(0))) => Err(("the connection was made".to_owned(), help)),
        (Ok(Some(0)), Ok(_)) => Ok("succeeds outside, fails inside".to_owned()),
        (Ok(_), Ok(_)) => Ok("this shell cannot connect outside either".to_owned()),
        (Err(error), _) | (_, Err(error)) => Err((error.to_string(), help)),
    };
    result(CONNECT, seen)
}

fn code(launcher: &Path, spec: &SandboxSpec) -> Result<Option<i32>, Error> {
    run(launcher, spec).map(|ran| ran.0)
}

fn run(launcher: &Path, spec: &SandboxSpec) -> Result<(Option<i32>, Enforced), Error> {
    let failed = |source| Error::Report { source };
    let null = || File::options().read(true).write(true).open("/dev/null").map_err(failed);
    let stdio = Stdio { stdin: null()?.into(), stdout: null()?.into(), stderr: null()?.into() };
    let (child, enforced) = spawn(launcher, spec, stdio)?;
    Ok((child.wait().map_err(failed)?.code, enforced))
}

/// A spec that grants no write at all, for a shell text.
fn spec(text: &str, hide: BTreeSet<Mechanism>) -> SandboxSpec {
    SandboxSpec {
        program: Program {
            path: "/bin/sh".into(),
            argv: vec!["sh".into(), "-c".into(), text.into()],
            environment: Vec::new(),
            cwd: "/".into(),
        },
        files: Files::default(),
        network: Network::Off,
        limits: Limits::default(),
        required: BTreeSet::new(),
        mediation: Mediation::Writes,
        confine: true,
        fallback: crate::Fallback::Refuse,
        landlock_abi: u32::MAX,
        fail_at: String::new(),
        hide,
    }
}
