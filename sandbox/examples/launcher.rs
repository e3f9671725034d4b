//! Runs a command confined: `launcher DIRECTORY PROGRAM ARGUMENTS…`, writable in DIRECTORY alone.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use stockade_spec::{
    Access, FileRule, Files, Limits, Mediation, Network, Program, SandboxSpec, Stdio,
};

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == "launch" {
        std::process::exit(stockade_sandbox::launch());
    }
    let argv: Vec<_> = arguments.collect();
    let directory = PathBuf::from(first);
    let spec = SandboxSpec {
        program: Program {
            path: argv.first().map(PathBuf::from).unwrap_or_default(),
            argv,
            environment: std::env::vars_os().collect(),
            cwd: directory.clone(),
        },
        files: Files {
            rules: vec![FileRule {
                path: directory,
                access: Access::Write,
                origin: "argument".to_owned(),
            }],
            patterns: Vec::new(),
            guarded_names: vec![".guarded".into()],
            guarded_at_top: Vec::new(),
            opened: Vec::new(),
            removable: Vec::new(),
            numerous_names: Vec::new(),
            git_keys: Default::default(),
            git_configurations: Vec::new(),
            kept_objects: Vec::new(),
            link_roots: Vec::new(),
            private_tmp: None,
            caches: Vec::new(),
            sockets: Vec::new(),
            watched: None,
            turns: None,
            copies: Vec::new(),
        },
        network: Network::Off,
        limits: Limits::default(),
        terminal: None,
        required: Default::default(),
        mediation: Mediation::Writes,
        confine: std::env::var_os("UNCONFINED").is_none(),
        fallback: stockade_spec::Fallback::Refuse,
    };
    std::process::exit(run(&spec));
}

fn run(spec: &SandboxSpec) -> i32 {
    let started = (|| {
        let launcher = std::env::current_exe()?;
        let stdio = Stdio {
            stdin: OwnedFd::from(std::fs::File::open("/dev/null")?),
            stdout: std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?,
            stderr: std::os::fd::AsFd::as_fd(&std::io::stderr()).try_clone_to_owned()?,
        };
        Ok::<_, std::io::Error>(stockade_sandbox::spawn(&launcher, spec, stdio))
    })();
    match started {
        Ok(Ok((child, enforced))) => {
            if std::env::var_os("REPORT").is_some() {
                for (protection, state) in &enforced.states {
                    eprintln!("{}: {state:?}", protection.name());
                }
            }
            match child.wait() {
                Ok(exit) => exit.code.unwrap_or_else(|| 128 + exit.signal.unwrap_or(0)),
                Err(error) => {
                    eprintln!("wait: {error}");
                    122
                }
            }
        }
        Ok(Err(error)) => {
            eprintln!("{error}: {error:?}");
            122
        }
        Err(error) => {
            eprintln!("{error}");
            122
        }
    }
}
