//! The trials: each act is tried outside, as the control, and confined; a claim whose act succeeds is not made.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::{Duration, Instant};

use stockade_spec::{Access, Enforced, Error, Fallback, FileRule, Files, Limits, Mediation};
use stockade_spec::{Network, Program, Protection, SandboxSpec, Start, State, Stdio};

use super::attempts;
use super::stranger::Stranger;
use super::{Host, Probe, inside};

/// A name that the confined probe may not make.
pub(super) const GUARDED: &str = ".guarded-by-the-probe";

/// The variables that the probe is given, and no others.
pub(super) const VARIABLES: &[&str] =
    &["PROBE_PLACE", "PROBE_PROCESS", "PROBE_SERVER", "PROBE_MESSAGES", "PROBE_LEAVES"];

/// Time after which processes left behind by a run must be gone.
const SURVIVORS_LIMIT: Duration = Duration::from_secs(5);

/// The launcher, and how it is started.
#[derive(Clone, Copy)]
pub(crate) struct Sandbox<'a> {
    pub(crate) launcher: &'a Path,
    pub(crate) start: Start,
}

/// Tries everything once; where no namespaces can be had, also what a run without them enforces.
pub(crate) fn probe(sandbox: Sandbox<'_>) -> Host {
    let mut probes = vec![user_namespaces(), landlock_level()];
    let first = tried(sandbox, Fallback::Refuse);
    probes.push(start_of(&first));
    let mut lacks_namespaces = false;
    let enforced = match first {
        Ok((outside, inside)) => {
            let mut enforced = inside.enforced.clone();
            for act in inside::ACTS {
                let (probe, stopped) = judged(act, &outside, &inside.succeeded);
                if !stopped {
                    disbelieve(&mut enforced, act.protections, &probe);
                }
                probes.push(probe);
            }
            probes.push(survivors(&inside, &mut enforced));
            enforced
        }
        Err(error) => match tried(sandbox, Fallback::Static) {
            Ok((outside, inside)) => {
                lacks_namespaces = true;
                believed(&outside, &inside)
            }
            Err(_) => Host::without(&why(&error)).enforced,
        },
    };
    let (kernel, landlock_abi) = (kernel(), attempts::landlock_abi());
    let surroundings = crate::surroundings::notes();
    Host { probes, surroundings, enforced, lacks_namespaces, kernel, landlock_abi }
}

/// Tries all acts outside and in a run.
fn tried(sandbox: Sandbox<'_>, fallback: Fallback) -> Result<(Succeeded, Ran), Error> {
    Ground::make()?.tried(sandbox, fallback)
}

/// Returns what a run without namespaces claims, but for claims whose acts succeed.
fn believed(outside: &Succeeded, inside: &Ran) -> Enforced {
    let mut enforced = inside.enforced.clone();
    for act in inside::ACTS {
        let (probe, stopped) = judged(act, outside, &inside.succeeded);
        let claimed = act.protections.iter().copied().filter(|it| inside.enforced.holds(*it));
        if !stopped {
            disbelieve(&mut enforced, &claimed.collect::<Vec<_>>(), &probe);
        }
    }
    enforced
}

/// Starts one confined command and tells what it reports.
pub(crate) fn start(sandbox: Sandbox<'_>) -> Host {
    let enforced = match Ground::make().and_then(|it| it.run(sandbox, Fallback::Refuse)) {
        Ok(ran) => ran.enforced,
        Err(error) => Host::without(&why(&error)).enforced,
    };
    let (probes, surroundings) = (Vec::new(), Vec::new());
    let landlock_abi = attempts::landlock_abi();
    let (lacks_namespaces, kernel) = (false, kernel());
    Host { probes, surroundings, enforced, lacks_namespaces, kernel, landlock_abi }
}

/// Says why nothing is enforced where a start fails with `error`.
fn why(error: &Error) -> String {
    if let Error::Unenforceable { reason, .. } = error { reason.clone() } else { error.to_string() }
}

fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// The step that makes what the acts are about.
const PLACE: &str = "the place for the probes";

/// Whether each act succeeded, by its name.
type Succeeded = BTreeMap<String, bool>;

fn succeeded(text: &str) -> Succeeded {
    let lines = text.lines().filter_map(|line| line.rsplit_once('='));
    lines.map(|(name, what)| (name.to_owned(), what == "true")).collect()
}

/// Result of one run of all acts.
struct Ran {
    succeeded: Succeeded,
    enforced: Enforced,
    /// Nothing of it was left after it had ended.
    is_gone: bool,
}

/// Objects of the acts; removed at the end.
struct Ground {
    place: PathBuf,
    server: Option<TcpListener>,
    _socket: UnixListener,
    stranger: Stranger,
    /// A descriptor that all inherit from here, but those that are confined.
    _inherited: File,
}

impl Ground {
    fn make() -> Result<Ground, Error> {
        let failed = |source| Error::Report { source };
        // Shown inside by rules: a run has these directories for its own.
        let unique = format!("stockade-probe-{}-{:?}", process::id(), std::thread::current().id());
        let stranger = Stranger::enter().map_err(failed)?;
        let inherited = File::open("/dev/null").map_err(failed)?;
        attempts::inherit(inherited.as_fd()).map_err(failed)?;
        let place = Ground::place(&unique)?;
        let fill = || {
            for name in ["outside", "denied", "project"] {
                fs::create_dir(place.join(name))?;
            }
            for name in ["outside/file", "denied/file"] {
                fs::write(place.join(name), "x")?;
            }
            UnixListener::bind(place.join("outside/socket"))
        };
        match fill() {
            Ok(socket) => {
                let server = TcpListener::bind("127.0.0.1:0").ok();
                Ok(Ground { place, server, _socket: socket, stranger, _inherited: inherited })
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&place); // what could not be made whole is not used
                Err(failed(error))
            }
        }
    }

    /// Makes a directory in one of those for temporary files; where neither can be written, as in a container with a root
    /// that nobody can write, in the one where this was started.
    fn place(name: &str) -> Result<PathBuf, Error> {
        let mut reason = String::new();
        let here = std::env::current_dir().and_then(fs::canonicalize).ok();
        for above in [Some("/tmp".into()), Some("/var/tmp".into()), here].into_iter().flatten() {
            let place = above.join(name);
            match fs::DirBuilder::new().mode(0o700).create(&place) {
                Ok(()) => return Ok(place),
                Err(error) => reason = format!("`{}` cannot be made: {error}", place.display()),
            }
        }
        Err(Error::Step { step: PLACE.to_owned(), reason })
    }

    /// Tries all acts outside, then confined.
    fn tried(&self, sandbox: Sandbox<'_>, fallback: Fallback) -> Result<(Succeeded, Ran), Error> {
        let outside = self.outside(sandbox.launcher)?;
        // Files that the acts outside have made would be in the way.
        for left in ["outside/new", "project/.guarded-by-the-probe"] {
            let _ = fs::remove_file(self.place.join(left)); // it may not be there
        }
        Ok((outside, self.run(sandbox, fallback)?))
    }

    /// Tries all acts in a plain child of this process, which is given what this one has; returns which succeeded.
    #[expect(
        clippy::disallowed_methods,
        reason = "this executable as a launcher that only tries what the machine can enforce"
    )]
    fn outside(&self, launcher: &Path) -> Result<Succeeded, Error> {
        let failed = |source| Error::Launcher { path: launcher.to_path_buf(), source };
        let mut child = Command::new(launcher);
        child.arg(super::ROLE).envs(VARIABLES.iter().zip(self.values()));
        child.env("PROBE_NOT_GIVEN", "").current_dir("/");
        let output = child.stdin(process::Stdio::null()).output().map_err(failed)?;
        Ok(succeeded(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Tries all acts confined.
    fn run(&self, sandbox: Sandbox<'_>, fallback: Fallback) -> Result<Ran, Error> {
        let failed = |source| Error::Report { source };
        let null = || File::options().read(true).write(true).open("/dev/null").map_err(failed);
        let (mut reader, writer) = std::io::pipe().map_err(failed)?;
        let stdio = Stdio { stdin: null()?.into(), stdout: writer.into(), stderr: null()?.into() };
        let Sandbox { launcher, start } = sandbox;
        let (child, enforced) = start(launcher, &self.spec(launcher, fallback), stdio)?;
        child.wait().map_err(failed)?;
        let ended = Instant::now();
        let mut text = String::new();
        reader.read_to_string(&mut text).map_err(failed)?;
        Ok(Ran {
            succeeded: succeeded(&text),
            enforced,
            is_gone: ended.elapsed() < SURVIVORS_LIMIT,
        })
    }

    /// Returns the values of [`VARIABLES`] but the last, which only a confined probe is given.
    fn values(&self) -> [OsString; 4] {
        let server = self.server.as_ref().and_then(|server| server.local_addr().ok());
        [
            self.place.clone().into_os_string(),
            self.stranger.number.to_string().into(),
            server.map(|at| at.to_string()).unwrap_or_default().into(),
            fs::read_link("/proc/self/ns/ipc").unwrap_or_default().into_os_string(),
        ]
    }

    fn spec(&self, launcher: &Path, fallback: Fallback) -> SandboxSpec {
        let rule = |path: PathBuf, access| FileRule { path, access, origin: "probe".to_owned() };
        let at = |name: &str| self.place.join(name);
        let values = self.values().into_iter().chain(["true".into()]);
        let mut rules = vec![
            rule(self.place.clone(), Access::Read),
            rule(at("project"), Access::Write),
            rule(at("denied"), Access::None),
        ];
        // The launcher may be in a directory that a run has for its own.
        rules.extend(launcher.canonicalize().ok().map(|path| rule(path, Access::Read)));
        SandboxSpec {
            program: Program {
                path: launcher.canonicalize().unwrap_or_else(|_| launcher.to_path_buf()),
                argv: ["stockade", super::ROLE].map(Into::into).into(),
                environment: VARIABLES.iter().map(Into::into).zip(values).collect(),
                cwd: "/".into(),
            },
            files: Files { rules, guarded_names: vec![GUARDED.into()], ..Files::default() },
            network: Network::Off,
            limits: Limits::default(),
            terminal: None,
            required: BTreeSet::new(),
            mediation: Mediation::Writes,
            confine: true,
            fallback,
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.place); // a left-over of ours in a directory for left-overs
    }
}

fn result(name: &str, seen: Result<String, (String, String)>) -> Probe {
    let name = name.to_owned();
    match seen {
        Ok(detail) => Probe { name, works: true, detail, help: String::new() },
        Err((detail, help)) => Probe { name, works: false, detail, help },
    }
}

fn user_namespaces() -> Probe {
    let most = fs::read_to_string("/proc/sys/user/max_user_namespaces");
    let seen = match most.as_deref().map(str::trim) {
        Ok("0") => {
            Err(("the kernel allows 0 of them".to_owned(), stockade_spec::help::namespaces()))
        }
        Ok(most) => Ok(format!("the kernel allows {most} of them")),
        Err(_) => Err(("the kernel has none".to_owned(), stockade_spec::help::namespaces())),
    };
    result("user namespaces", seen)
}

fn landlock_level() -> Probe {
    let seen = match attempts::landlock_abi() {
        0 => Err((
            "the kernel has no Landlock, or it is switched off".to_owned(),
            "add `landlock` to the kernel's `lsm=` parameter".to_owned(),
        )),
        abi => Ok(format!("ABI {abi}")),
    };
    result("Landlock", seen)
}

fn start_of(tried: &Result<(Succeeded, Ran), Error>) -> Probe {
    let seen = match tried {
        Ok(_) => Ok("a command started with every step".to_owned()),
        Err(Error::Unenforceable { reason, help, .. }) => Err((reason.clone(), help.clone())),
        Err(error @ Error::Step { step, .. }) if step == PLACE => {
            Err((error.to_string(), "allow this user to create files in `/tmp` or `/var/tmp`, or start stockade in your own directory".to_owned()))
        }
        Err(error) => Err((error.to_string(), stockade_spec::help::namespaces())),
    };
    result("a confined start", seen)
}

/// Returns the outcome of an act, and whether it was stopped.
fn judged(act: &inside::Act, outside: &Succeeded, inside: &Succeeded) -> (Probe, bool) {
    let of = |succeeded: &Succeeded| succeeded.get(act.name).copied();
    let help = || {
        act.protections.first().map(|it| stockade_spec::help::protection(*it)).unwrap_or_default()
    };
    let seen = match (of(outside), of(inside)) {
        (_, Some(true)) => Err(("it succeeds".to_owned(), help())),
        (_, None) => Err(("it was not tried".to_owned(), help())),
        (Some(true), Some(false)) => Ok("succeeds outside, fails inside".to_owned()),
        (Some(false) | None, Some(false)) => {
            Ok("fails inside; this user cannot do it outside either".to_owned())
        }
    };
    let probe = result(&format!("cannot {}", act.name), seen);
    let stopped = probe.works;
    (probe, stopped)
}

fn survivors(inside: &Ran, enforced: &mut Enforced) -> Probe {
    let seen = match inside.is_gone {
        true => Ok("a process that was left behind ended with the run".to_owned()),
        false => Err((
            "a process that was left behind went on".to_owned(),
            stockade_spec::help::protection(Protection::Survivors),
        )),
    };
    let probe = result("cannot outlive the run", seen);
    if !probe.works {
        disbelieve(enforced, &[Protection::Survivors], &probe);
    }
    probe
}

/// A claim whose probe fails is not made; what was not claimed as a whole keeps its reason.
fn disbelieve(enforced: &mut Enforced, protections: &[Protection], probe: &Probe) {
    for protection in protections {
        let reason = match enforced.states.get(protection) {
            Some(State::Missing(why) | State::Partial(why)) => why.clone(),
            Some(State::Enforced(_) | State::Off(_)) | None => {
                format!("the probe `{}` fails: {}", probe.name, probe.detail)
            }
        };
        enforced.states.insert(*protection, State::Missing(reason));
    }
}
