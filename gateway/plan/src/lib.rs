//! Verdict and settings to [`SandboxSpec`]: what one command may reach, complete and as plain data.
//!
//! Reads the file system; makes the temporary directory and the caches of a run, and removes them again. Starts nothing but
//! `git` where a repository is looked at, and decides nothing.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start what they look at"))]
#![allow(missing_docs, reason = "fields whose names and types say what they are")]

pub mod agent;
pub mod caches;
pub mod carried;
pub mod credentials;
pub mod file_backups;
mod globs;
pub mod hook;
pub mod leads;
mod limits;
mod programs;
mod protected;
mod refusals;
mod repository;
mod rules;
mod targets;
pub mod temporary;
mod writable;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::access;
use stockade_policy::{Facts, NetworkRules, Origin, SandboxSettings, SandboxState, Unwritable};
use stockade_spec::{
    Access, Cache, Fallback, FileRule, Files, Limits, Mediation, Network, Program, Protection,
    SandboxSpec, Watched,
};

use self::caches::Wanted;
use self::protected::{protect, protect_from_root};
use self::repository::Changeable;
use self::rules::Rules;
use self::targets::Targets;
use self::writable::{Writable, regions};
use crate::temporary::{Ending, Temporary};
use stockade_base::names::Names;
use stockade_base::place::Place;
use stockade_base::places::Places;
use stockade_egress as net;
use stockade_review::Journal;
use stockade_scene::protections::{REQUIRED, is_available};
use stockade_scene::regions::Regions;
use stockade_scene::request::Command;
use stockade_scene::scene::Scene;
use stockade_shell::environment::{self, Environment};
use stockade_shell::{self as shell, Shell, zsh};
use stockade_wire::errors::{Code, Failure};
use stockade_wire::types::CommandRequest;

/// Parts of a plan that are the same for every confined command of a scene: all that depends on the file system.
#[derive(Debug)]
pub struct Ahead {
    sandbox: SandboxSettings,
    files: Opened,
    limits: Limits,
    temporary: Temporary,
}

/// Files that a command may see, and settings that grant nothing, described for people.
#[derive(Debug, Clone, Default)]
struct Opened {
    files: Files,
    withheld: Vec<String>,
}

/// Finds what a confined command of the scene gets; blocks on the file system. What cannot be found or made has to be
/// told when it is needed.
pub fn ahead(
    scene: &Scene,
    facts: &Facts,
    places: &Places,
    session: Option<&str>,
) -> Option<Ahead> {
    writable(&scene.place).ok()?;
    let sandbox = credentials::settings(scene, facts);
    let files = files(&Around::of(scene, &sandbox, places)).ok()?;
    let limits = limits::of(&sandbox, &scene.place.cwd);
    let temporary = Temporary::make(&places.state, session).ok()?;
    Some(Ahead { sandbox, files, limits, temporary })
}

impl Ahead {
    /// Says whether the file system has nothing more to say about a command that gets this.
    pub fn is_all(&self, job: Job<'_>, request: &CommandRequest) -> bool {
        // A program is searched for, and places for caches and for the directory that the shell tells are made.
        job.command.words.is_none() && !request.report_cwd && *job.caches == Wanted::None
    }
}

/// A command to plan for.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    pub command: &'a Command,
    /// Owner of the caches that it gets.
    pub caches: &'a Wanted,
}

/// Makes the private temporary directory and the spec of a command; blocks on the file system.
pub fn prepare(
    scene: &Scene,
    ahead: Option<Ahead>,
    facts: &Facts,
    yes: &Yes,
    Job { command, caches: wanted }: Job<'_>,
    places: &Places,
    request: &CommandRequest,
) -> Result<Planned, Failure> {
    let unusable = |error| unusable(places, &error);
    let session = request.context.session.as_deref();
    let confines = facts.sandbox != SandboxState::Off;
    let (sandbox, files, limits, mut temporary) = match ahead {
        Some(Ahead { sandbox, files, limits, temporary }) if confines => {
            (sandbox, Some(files), limits, temporary)
        }
        Some(_) | None => {
            let temporary = Temporary::make(&places.state, session).map_err(unusable)?;
            if confines {
                writable(&scene.place)?;
            }
            let sandbox = credentials::settings(scene, facts);
            let limits = limits::of(&sandbox, &scene.place.cwd);
            (sandbox, None, limits, temporary)
        }
    };
    let (fallback, wanted) = fallback_of(facts.sandbox, wanted);
    let given = caches::give(wanted, scene, &mut temporary, &places.state, session);
    let (caches, variables) = given.map_err(unusable)?;
    let watched = confines.then(|| watch(scene, places, &mut temporary)).transpose();
    let watched = watched.map_err(unusable)?;
    let turns = confines.then(|| turns(&places.state)).transpose().map_err(unusable)?;
    let own = temporary.path().to_path_buf();
    let confined = confines.then_some(own.as_path());
    let ending = match request.report_cwd && command.words.is_none() {
        true => Some(temporary.ask_for_cwd(&places.state).map_err(unusable)?),
        false => None,
    };
    let around = Around { yes, ..Around::of(scene, &sandbox, places) };
    let Opened { mut files, withheld } = match (confined, files) {
        (Some(_), Some(files)) => files,
        (Some(_), None) => self::files(&around)?,
        (None, _) => Opened::default(),
    };
    credentials::show(&mut files, &facts.asked);
    if let (Some(_), Some(ending)) = (confined, ending) {
        files.rules.extend(files_of(ending));
    }
    if confined.is_some() {
        files
            .rules
            .extend(file_backups::folder(&places.state, scene, request).map(file_backups::rule));
    }
    files.watched = watched;
    files.turns = turns;
    let spec = plan(Ground {
        command,
        around,
        files,
        limits,
        temporary: confined,
        caches,
        variables,
        fallback,
        start_file: ending.map(Ending::start),
    })?;
    let rest = Rest { temporary, hosts: NetworkRules::new(&sandbox), withheld };
    Ok(Planned { spec, rest })
}

fn unusable(places: &Places, error: &std::io::Error) -> Failure {
    let message =
        format!("no temporary directory can be made in `{}`: {error}", places.state.display());
    let help = "make room, or specify another directory with `--state-dir DIR`";
    Failure::new(Code::StateUnusable, message, help)
}

/// Has the temporary directory carry the journal of what a command plants, and returns what is watched for it.
fn watch(scene: &Scene, places: &Places, temporary: &mut Temporary) -> std::io::Result<Watched> {
    let journal = Journal::named(&places.state, &scene.place.project)?;
    let watched = stockade_review::watched(&scene.place, journal.path().to_path_buf());
    temporary.carry(journal);
    Ok(watched)
}

/// Creates the lock files that the runs of this user share and returns their paths: one for an act, one for a whole run.
fn turns(state: &Path) -> std::io::Result<(PathBuf, PathBuf)> {
    let made = |name: &str| {
        let path = state.join(name);
        std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path).map(|_| path)
    };
    Ok((made("turn-act")?, made("turn-run")?))
}

/// Returns what holds where the sandbox cannot be had, and which caches the command gets.
fn fallback_of(sandbox: SandboxState, wanted: &Wanted) -> (Fallback, &Wanted) {
    match sandbox {
        // The settings accept less, and this machine has no more.
        SandboxState::Unavailable => (Fallback::Static, &Wanted::None),
        SandboxState::Enforced => (Fallback::Refuse, wanted),
        SandboxState::Off => (Fallback::Refuse, &Wanted::None),
    }
}

/// Shows a command the two files with which its shell tells where it ends, out of the state that is hidden from it.
fn files_of(ending: &Ending) -> [FileRule; 2] {
    let rule = |path: &Path, access| FileRule {
        path: path.to_path_buf(),
        access,
        origin: "builtin: where the shell ends".to_owned(),
    };
    [rule(ending.start(), Access::Read), rule(ending.told(), Access::Write)]
}

/// Consent of a person for one call, besides what the settings open.
#[derive(Debug, Clone, Default)]
pub struct Yes {
    /// Paths that are protected in the root alone.
    pub opened: Vec<PathBuf>,
    /// The file that a file tool changes.
    pub edited: Option<PathBuf>,
}

/// Nobody was asked.
pub static NOBODY: Yes = Yes { opened: Vec::new(), edited: None };

/// Everything that is needed to run a command.
#[derive(Debug)]
pub struct Planned {
    /// Spec of what the command may reach.
    pub spec: SandboxSpec,
    pub rest: Rest,
}

/// A plan without its spec.
#[derive(Debug)]
pub struct Rest {
    /// Its private temporary directory.
    pub temporary: Temporary,
    /// Hosts that the command may reach through the proxy.
    pub hosts: NetworkRules,
    /// Settings that grant the command nothing, described for people.
    pub withheld: Vec<String>,
}

/// Refuses a project in which nothing could be written, before anything runs half.
fn writable(place: &Place) -> Result<(), Failure> {
    if place.project_is_too_wide() || access(&place.project, rustix::fs::Access::WRITE_OK).is_ok() {
        return Ok(());
    }
    let message = format!("the project `{}` is not writable", place.project.display());
    let help = "use `chmod u+w`, or specify another directory with `--project DIR`";
    Err(Failure::new(Code::DirectoryUnusable, message, help))
}

/// Inputs of a plan besides the command.
#[derive(Debug, Clone, Copy)]
struct Around<'a> {
    /// Where it happens.
    place: &'a Place,
    /// The settings, with every path absolute.
    sandbox: &'a SandboxSettings,
    /// Any socket that it can see may be connected to.
    every_socket: bool,
    /// Our own directories, which no command reads.
    places: &'a Places,
    /// The folders of our own settings.
    own: &'a [PathBuf],
    /// The shell for command texts.
    shell: &'a Shell,
    /// The environment.
    environment: &'a Environment,
    /// Where files of the home directory lie besides there.
    elsewhere: &'a stockade_shell::elsewhere::Elsewhere,
    /// Directories of tools that variables of the caller name.
    tools: &'a [PathBuf],
    /// Consent of a person.
    yes: &'a Yes,
}

impl<'a> Around<'a> {
    fn of(scene: &'a Scene, sandbox: &'a SandboxSettings, places: &'a Places) -> Around<'a> {
        let values = &scene.snapshot.rules.settings().values;
        let every = values.get("sandbox.network.allowAllUnixSockets");
        Around {
            place: &scene.place,
            sandbox,
            every_socket: every.is_some_and(|(value, _)| value.boolean() == Some(true)),
            places,
            own: &scene.own,
            shell: &scene.shell,
            environment: &scene.environment,
            elsewhere: &scene.elsewhere,
            tools: &scene.tools,
            yes: &NOBODY,
        }
    }
}

/// All that a plan depends on.
#[derive(Debug, Clone)]
struct Ground<'a> {
    /// Command to run.
    command: &'a Command,
    around: Around<'a>,
    /// Files that the command may see; empty for a command that runs unconfined.
    files: Files,
    /// How much it may use.
    limits: Limits,
    /// The private temporary directory; none for a command that runs unconfined.
    temporary: Option<&'a Path>,
    /// Caches that the command may change for itself.
    caches: Vec<Cache>,
    /// Variables that name caches in the private temporary directory.
    variables: Vec<caches::Variable>,
    /// Behavior where no namespaces are available.
    fallback: Fallback,
    /// A file that bash reads first.
    start_file: Option<&'a Path>,
}

/// Returns the spec of a command.
fn plan(ground: Ground<'_>) -> Result<SandboxSpec, Failure> {
    let required: BTreeSet<Protection> = match ground.around.sandbox.fail_if_unavailable {
        true => REQUIRED.iter().copied().collect(),
        false => BTreeSet::new(),
    };
    let confine = ground.temporary.is_some();
    let network = match (confine, has_proxy(&ground)) {
        (true, true) => net::PROXY,
        (true, false) => Network::Off,
        (false, _) => Network::Host,
    };
    let program = program(&ground)?;
    let mut rules = ground.files.rules;
    if ground.command.is_worker && confine && is_beneath_private(&program.path) {
        let origin = "builtin: the file worker".to_owned();
        rules.push(FileRule { path: program.path.clone(), access: Access::Read, origin });
    }
    Ok(SandboxSpec {
        program,
        files: Files {
            rules,
            private_tmp: ground.temporary.map(Path::to_path_buf),
            caches: ground.caches,
            ..ground.files
        },
        network,
        limits: ground.limits,
        terminal: ground.command.terminal,
        required: if confine { required } else { BTreeSet::new() },
        mediation: if confine { Mediation::Writes } else { Mediation::None },
        confine,
        fallback: ground.fallback,
    })
}

/// Says whether a command gets a proxy: the only way out, unless the settings leave none.
fn has_proxy(ground: &Ground<'_>) -> bool {
    // Without namespaces there is no place for its listeners.
    let namespaces = match ground.fallback {
        Fallback::Refuse => true,
        Fallback::Static => false,
    };
    let wanted = ground.around.sandbox.network_off.is_none() && !ground.command.is_worker;
    ground.temporary.is_some() && namespaces && wanted
}

/// Variables that name the folder for temporary files.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

fn program(ground: &Ground<'_>) -> Result<Program, Failure> {
    let mut variables = ground.around.environment.variables.clone();
    if ground.temporary.is_none() {
        without_regions(&ground.around, &mut variables);
    }
    let shell = ground.around.shell;
    let (told, start_variable) = shell.told(&ground.command.text, ground.start_file);
    let (path, argv): (PathBuf, Vec<OsString>) = match &ground.command.words {
        None => {
            variables.retain(|name, _| shell.zsh.is_none() || !zsh::is_withheld(name));
            (shell.path.clone(), told)
        }
        Some(words) => {
            let name = words.first().map(String::as_str).unwrap_or_default();
            let search = variables.get("PATH").map(String::as_str);
            let path = shell::program(name, search.unwrap_or_default(), &ground.around.place.cwd)?;
            (path, words.iter().map(OsString::from).collect())
        }
    };
    if ground.temporary.is_some() {
        variables.extend(TEMPORARY.map(|name| (name.into(), "/tmp".into())));
        environment::without_upkeep(&mut variables)?;
    }
    variables.extend(ground.variables.iter().map(|(name, it)| ((*name).into(), it.clone())));
    if has_proxy(ground) {
        variables.extend(environment::of_proxy(net::HTTP_PORT, net::SOCKS_PORT)?);
    }
    if let Some(start) = start_variable {
        variables.insert("BASH_ENV".into(), start.to_string_lossy().into_owned());
    }
    let environment = variables.into_iter().map(|(name, it)| (name.into(), it.into())).collect();
    Ok(Program { path, argv, environment, cwd: ground.around.place.cwd.clone() })
}

/// Takes out of the search path of an unconfined command what leads where commands may write.
fn without_regions(around: &Around<'_>, variables: &mut BTreeMap<String, String>) {
    let regions = Regions::of(around.place, around.sandbox, &around.places.state);
    if let Some(search) = variables.get_mut("PATH") {
        *search = regions.clean(search).kept;
    }
}

fn files(around: &Around<'_>) -> Result<Opened, Failure> {
    let sandbox = around.sandbox;
    let Writable { mut rules, regions: writable, opened } = regions(around)?;
    for path in beneath_private(around, &mut rules) {
        rules.add(&path, Access::Read, "builtin: home and programs");
    }
    let mut sockets = Vec::new();
    for (path, origin) in &sandbox.allow_unix_sockets {
        // Shown where it lies in a directory of which a command sees its own.
        sockets.extend(rules.permit(Path::new(path), Access::Read, path, origin));
    }
    if around.every_socket {
        sockets.push(PathBuf::from("/"));
    }
    let mut targets = Targets::new(&writable, &needed(around));
    // Files that are created while a command runs are refused by their names.
    let mut patterns = Rules::default();
    refusals::add(sandbox, &mut targets, &mut rules, &mut patterns)?;
    let copies = credentials::hide(&mut rules, around);
    for directory in &writable {
        protect(&mut rules, directory, &opened);
    }
    protect_from_root(&mut rules, &mut patterns, &targets, &writable);
    programs::keep(&mut rules, &writable, around);
    let Changeable { configurations, removable } =
        repository::keep(&mut rules, around.place, &writable);
    for own in [&around.places.state, &around.places.audit, &around.places.audit_state] {
        rules.add(own, Access::None, "builtin: own state");
    }
    for usual in around.places.usual.iter().filter(|usual| usual.is_dir()) {
        rules.follow(usual, Access::None, "builtin: own state");
    }
    if let Some(directory) = socket_within(around, &writable)? {
        rules.add(&directory, Access::None, "builtin: own socket");
    }
    refusals::settle(&targets, &mut rules);
    let files = Files {
        rules: rules.all,
        patterns: patterns.all,
        guarded_names: guarded_names(Unwritable::Everywhere),
        guarded_at_top: guarded_names(Unwritable::AtTop),
        opened,
        removable,
        numerous_names: credentials::numerous_names(),
        git_keys: repository::keys(),
        git_configurations: configurations,
        kept_objects: repository::objects(around.place),
        link_roots: leads::roots(around, &writable),
        private_tmp: None,
        caches: Vec::new(),
        sockets,
        watched: None,
        turns: None,
        copies,
    };
    Ok(Opened { files, withheld: rules.withheld })
}

/// Returns what no command can do without, besides what it can write.
fn needed(around: &Around<'_>) -> Vec<PathBuf> {
    let search = around.environment.variables.get("PATH").map(String::as_str).unwrap_or_default();
    let programs = search.split(':').map(PathBuf::from).filter(|path| path.is_absolute());
    let own = [&around.place.cwd, &around.place.home, &around.shell.path].map(PathBuf::clone);
    programs.chain(own).collect()
}

/// Returns the directory of the gateway's socket if it lies below one of `writable`: a command that could write there could
/// listen in the gateway's place. One that holds the work itself cannot be hidden.
fn socket_within(around: &Around<'_>, writable: &[PathBuf]) -> Result<Option<PathBuf>, Failure> {
    let found = around.places.socket.as_deref().filter(|found| found.is_dir()).map(real);
    let Some(directory) = found.filter(|found| writable.iter().any(|it| found.starts_with(it)))
    else {
        return Ok(None);
    };
    let holds = around.place.cwd.starts_with(&directory)
        || writable.iter().any(|it| it.starts_with(&directory));
    match holds {
        true => Err(socket_in_reach(&directory, &around.place.cwd)),
        false => Ok(Some(directory)),
    }
}

/// Refuses a socket in `directory`, where commands that work in `region` could put another in its place.
fn socket_in_reach(directory: &Path, region: &Path) -> Failure {
    let message = format!(
        "the socket would be in `{}`, where commands of `{}` can write: one of them could listen in its place",
        directory.display(),
        region.display()
    );
    let help = "specify a socket outside with `--socket PATH`, or start it without the option where XDG_RUNTIME_DIR is set";
    Failure::new(Code::DirectoryUnusable, message, help)
}

/// Refuses a socket at `path` that commands of `place` could replace.
///
/// Those of the gateway behind it see an empty directory there; other runs in the same project know nothing of it.
pub fn socket_is_out_of_reach(path: &Path, place: &Place) -> Result<(), Failure> {
    let Some(directory) = path.parent() else { return Ok(()) };
    // The directory may not exist yet.
    let there = directory.ancestors().find(|it| it.exists()).map(real);
    let regions = place.regions();
    let region = regions.iter().find(|it| there.as_ref().is_some_and(|dir| dir.starts_with(it)));
    region.map_or(Ok(()), |region| Err(socket_in_reach(directory, region)))
}

/// Returns what is needed to read of the directories that the command sees private ones in place of.
fn beneath_private(around: &Around<'_>, rules: &mut Rules) -> Vec<PathBuf> {
    let search = around.environment.variables.get("PATH").map(String::as_str).unwrap_or_default();
    let mut paths: Vec<PathBuf> = search.split(':').map(PathBuf::from).collect();
    paths.extend([around.place.home.clone(), around.place.cwd.clone()]);
    paths.extend(around.shell.path.parent().map(Path::to_path_buf));
    let real = paths.iter().filter(|path| path.is_absolute()).filter_map(|path| rules.led(path));
    real.filter(|path| is_beneath_private(path)).filter(|path| path.is_dir()).collect()
}

/// Says whether a path lies in a directory of which a command sees its own.
fn is_beneath_private(path: &Path) -> bool {
    PRIVATE.iter().any(|private| path.starts_with(private))
}

/// Directories of which a command sees its own.
const PRIVATE: &[&str] = &["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// Returns the protected names for the guard over calls that create, of those that are kept `there`.
fn guarded_names(there: Unwritable) -> Vec<OsString> {
    let guarded = |name: &&stockade_policy::ProtectedName| {
        // A repository that a command makes has hooks and configuration; `repository` guards those that are there.
        let in_repository = name.segments.len() > 1
            && name.segments.first().is_some_and(|first| first.ends_with(".git"));
        name.kernel == there && !name.root && !in_repository
    };
    let names = stockade_policy::protected_names().iter().filter(guarded);
    names.map(|name| name.segments.iter().collect::<PathBuf>().into_os_string()).collect()
}

/// Says where a rule about a path comes from: key, pattern, file, line and layer. The help with violations reads it.
pub fn place_of(pattern: &str, origin: &Origin) -> String {
    let keys = origin.pointer.split('/').filter(|key| key.parse::<usize>().is_err());
    let key = keys.filter(|key| !key.is_empty()).collect::<Vec<_>>().join(".");
    let (file, line, layer) = (origin.file.display(), origin.line, origin.layer.name());
    format!("{key} {pattern} ({file}:{line}, {layer})")
}

/// Returns the path behind links, also when its last parts do not exist yet.
fn real(path: &Path) -> PathBuf {
    Names::default().real(path)
}
