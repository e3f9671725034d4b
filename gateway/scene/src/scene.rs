//! Where and under what a call is judged, gathered fresh for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stockade_base::places::{self, Places};
use stockade_parser::StartState;
use stockade_policy::{Facts, Mode, SandboxState, Settings};
use stockade_wire::errors::{Code, Failure};
use stockade_wire::types::{CommandRequest, Context};

use crate::protections::is_available;
use crate::regions::Regions;
use crate::request;
use stockade_base::place::{Place, own_directories, variable};
use stockade_settings::roots;
use stockade_settings::{self as settings, Snapshot, Sources, bounds};
use stockade_shell::elsewhere::Elsewhere;
use stockade_shell::environment::{self, Additions, Environment};
use stockade_shell::{self as shell, Shell, toolchains};

/// Where and under what a call is judged, read fresh for it.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Its directories.
    pub place: Place,
    /// The folders from which the settings of the caller are read.
    pub own: [PathBuf; 2],
    /// Its settings.
    pub snapshot: Arc<Snapshot>,
    /// The shell for its text.
    pub shell: Shell,
    /// The environment of its command.
    pub environment: Environment,
    /// Where files of the home directory lie besides there.
    pub elsewhere: Elsewhere,
    /// Directories of tools that variables of the caller name.
    pub tools: Vec<PathBuf>,
    /// The mode that was asked for, by flag or settings.
    pub mode: Mode,
    /// Whether it would run confined, as far as the settings alone say.
    pub sandbox: SandboxState,
    /// A person can be asked.
    pub interactive: bool,
    /// The caller is uid 0.
    pub root: bool,
    /// The search path of who runs a text: of its command, or of a caller that runs it.
    pub search: String,
    /// The caller runs a text that is allowed.
    pub caller_runs: bool,
    /// Our state, in which commands have their temporary files.
    pub state: PathBuf,
    /// The session of the call.
    pub session: Option<String>,
    /// Its settings come with the call, and the call never runs.
    pub is_written: bool,
}

impl Scene {
    /// Finds directories, settings, shell and environment of a call; blocks on the file system.
    pub fn find(cwd: &str, context: &Context, places: &Places) -> Result<Scene, Failure> {
        request::context(context)?;
        let mut place = Place::find(cwd, context)?;
        place.roots = roots::around(&places.state, &place);
        let regions = bounds::of(&place, places);
        bounds::check(cwd, context, &place, places, &regions)?;
        let snapshot = settings::read(&Sources {
            regions: &regions,
            managed: Path::new(places::MANAGED),
            managed_owner: 0,
            state: &places.state,
            place: &place,
            context,
        })?;
        Scene::with(place, snapshot, context, places)
    }

    /// Returns the scene of a call whose directories and settings are known.
    pub fn with(
        place: Place,
        snapshot: Arc<Snapshot>,
        context: &Context,
        places: &Places,
    ) -> Result<Scene, Failure> {
        let settings = snapshot.rules.settings();
        let environment = environment::build(
            &context.environment,
            &Additions {
                settings: &settings.env,
                pass: &settings.sandbox.env_pass,
                deny: &settings.sandbox.env_deny,
                home: &place.home,
                cwd: &place.cwd,
                agent: context.agent.as_deref(),
                session: context.session.as_deref(),
            },
        )?;
        let search = environment.variables.get("PATH").map(String::as_str).unwrap_or_default();
        if let Some(path) = &settings.shell {
            bounds::check_shell(path, &bounds::of(&place, places))?;
        }
        let shell = shell::find(settings.shell.as_deref(), search, &place, &places.state)?;
        let mode = match &context.mode {
            Some(name) => Mode::named(name).ok_or_else(|| {
                let message = format!("invalid permission mode `{}`", name.escape_debug());
                let help =
                    "the modes are default, acceptEdits, plan, auto, dontAsk and bypassPermissions";
                Failure::new(Code::InvalidRequest, message, help)
            })?,
            None => settings.default_mode.unwrap_or(Mode::Default),
        };
        let sandbox = confinement(settings);
        let interactive = context.interactive;
        let root = rustix::process::geteuid().is_root();
        let (state, caller_runs) = (places.state.clone(), false);
        let search = environment.variables.get("PATH").cloned().unwrap_or_default();
        let own = own_directories(context, &place);
        let elsewhere = Elsewhere::find(&context.environment, &environment.variables, &place);
        Ok(Scene {
            place,
            own,
            snapshot,
            shell,
            environment,
            elsewhere,
            tools: toolchains::moved(&context.environment),
            mode,
            sandbox,
            interactive,
            root,
            search,
            caller_runs,
            state,
            session: context.session.clone(),
            is_written: false,
        })
    }

    /// Says how what is confined here is confined, whoever runs the text of the call.
    pub fn confinement(&self) -> SandboxState {
        confinement(self.snapshot.rules.settings())
    }

    /// Returns where commands may write; blocks on the file system.
    pub fn regions(&self) -> Regions {
        let sandbox = stockade_policy::sandbox_settings(&self.snapshot.rules, &self.facts());
        Regions::of(&self.place, &sandbox, &self.state)
    }

    /// Returns the scene of a call whose text the caller runs itself.
    pub fn run_by_caller(self, context: &Context) -> Scene {
        let search = search(context, &self);
        Scene { search, caller_runs: true, ..self }
    }

    /// Returns what tells where credentials lie.
    /// Returns what the parser may assume about the shell that runs the text. What a caller gives the shell that
    /// it starts itself is not known.
    pub fn start_state(&self, runner: Runner) -> StartState {
        let names = self.environment.variables.keys().map(String::as_str).chain(environment::ADDED);
        let names = names.chain(environment::CACHES);
        let home = self.place.home.to_string_lossy().into_owned().into_bytes();
        StartState {
            version: self.shell.version,
            zsh: self.shell.zsh,
            plain_options: true,
            clean_environment: true,
            utf8_or_c: self.environment.is_utf8_or_c(),
            no_operands: matches!(runner, Runner::Gateway(_)),
            // Without input of its own a command is given the empty device (`run/pipes.rs`).
            stdin_empty: runner == Runner::Gateway(Given::Nothing),
            closed_environment: matches!(runner, Runner::Gateway(_)),
            present: names.map(|name| name.as_bytes().to_vec()).collect(),
            known: [(b"HOME".to_vec(), home)].into(),
        }
    }

    /// Returns what a decision depends on besides rules and tree, as far as the scene tells it.
    pub fn facts(&self) -> Facts {
        let settings = self.snapshot.rules.settings();
        let added = settings.additional_directories.iter();
        let added = added.map(|directory| self.place.project.join(directory));
        Facts {
            cwd: self.place.cwd.clone(),
            session: self.place.session.clone(),
            home: self.place.home.clone(),
            homes: self.place.homes.clone(),
            project: self.place.project.clone(),
            roots: self.place.roots.clone(),
            additional_directories: self.place.additional.iter().cloned().chain(added).collect(),
            real_paths: Default::default(),
            expanded: Default::default(),
            repositories: Default::default(),
            brought: Default::default(),
            asked: Vec::new(),
            mode: self.mode,
            interactive: self.interactive,
            root: self.root,
            sandbox: self.sandbox,
            terminal: false,
            hook: None,
            doubts: Default::default(),
        }
    }
}

/// Says what settings alone say about confinement.
fn confinement(settings: &Settings) -> SandboxState {
    match (settings.sandbox.enabled, settings.sandbox.fail_if_unavailable) {
        (false, _) => SandboxState::Off,
        // A protection that cannot be had stops the start, so a command that runs is confined.
        (true, true) => SandboxState::Enforced,
        (true, false) if is_available() => SandboxState::Enforced,
        (true, false) => SandboxState::Unavailable,
    }
}

/// Returns the search path of a caller that runs a text itself.
fn search(context: &Context, scene: &Scene) -> String {
    let own = || scene.search.clone();
    variable(context, "PATH").map_or_else(own, |it| it.to_string_lossy().into_owned())
}

/// The source of a command's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// The empty device.
    Nothing,
    /// An input that is handed on.
    Input,
    /// A terminal of its own, whatever comes there.
    Terminal,
}

impl Given {
    /// Returns what the command of `request` reads from.
    pub fn by(request: &CommandRequest) -> Given {
        match (request.pty, request.stdin) {
            (true, _) => Given::Terminal,
            (false, true) => Given::Input,
            (false, false) => Given::Nothing,
        }
    }
}

/// The process that runs a call that is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// This gateway, with the environment that it builds.
    Gateway(Given),
    /// Somebody else, or it is not said who.
    Caller,
}
