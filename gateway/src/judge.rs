//! Judges one call: the tree, the facts, the hooks, then the rules.

mod changes;
mod hearing;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_parser::{CommandTree, Limits, StartState, json as strict};
use stockade_policy::{
    Call, Evidence, Facts, Hook, Mode, Origin, RuleFiles, SandboxState, Settings, Verdict,
};

use crate::bounds;
use crate::environment::{self, Additions, Environment};
use crate::facts::{self, Place, roots};
use crate::hooks::{Means, Ran, Report};
use crate::known;
use crate::parse::Scanner;
use crate::places::Places;
use crate::plan;
use crate::plan::credentials::{self, Elsewhere};
use crate::plan::leads;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{CommandRequest, Context};
use crate::regions::Regions;
use crate::request;
use crate::settings::{self, Snapshot, Sources};
use crate::shell::{self, Shell};

/// Where and under what a call is judged, read fresh for it.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    /// Its directories.
    pub(crate) place: Place,
    /// The folders from which the settings of the caller are read.
    pub(crate) own: [PathBuf; 2],
    /// Its settings.
    pub(crate) snapshot: Arc<Snapshot>,
    /// The shell for its text.
    pub(crate) shell: Shell,
    /// The environment of its command.
    pub(crate) environment: Environment,
    /// Where files of the home directory lie besides there.
    pub(crate) elsewhere: Elsewhere,
    /// Directories of tools that variables of the caller name.
    pub(crate) tools: Vec<PathBuf>,
    /// The mode that was asked for, by flag or settings.
    pub(crate) mode: Mode,
    /// Whether it would run confined, as far as the settings alone say.
    pub(crate) sandbox: SandboxState,
    /// A person can be asked.
    pub(crate) interactive: bool,
    /// The caller is uid 0.
    pub(crate) root: bool,
    /// The search path of who runs a text: of its command, or of a caller that runs it.
    pub(crate) search: String,
    /// The caller runs a text that is allowed.
    pub(crate) caller_runs: bool,
    /// Our state, in which commands have their temporary files.
    pub(crate) state: PathBuf,
    /// Its settings come with the call, and the call never runs.
    pub(crate) is_written: bool,
}

/// A call that was judged.
#[derive(Debug)]
pub(crate) struct Judged {
    /// Identity of the call, as hooks were told it.
    pub(crate) id: String,
    /// Name of the tool.
    pub(crate) tool: String,
    /// The input that was judged, after hooks.
    pub(crate) input: Value,
    /// The input before, and where the hook is configured that changed it.
    pub(crate) received: Option<(Value, Origin)>,
    /// The tree of a command.
    pub(crate) tree: Option<CommandTree>,
    /// The input with its positions.
    pub(crate) value: strict::Value,
    /// What the verdict depends on besides rules and tree.
    pub(crate) facts: Facts,
    /// The verdict.
    pub(crate) verdict: Verdict,
    /// Its builders that leave the sandbox.
    pub(crate) builders: changes::Builders,
    /// How long the rules took.
    pub(crate) took: Duration,
    /// What the hooks said.
    pub(crate) hooks: Report,
}

impl Judged {
    /// Says whether the `if` of a hook covers the call.
    pub(crate) fn is_covered(&self, tool: &str, hook: &Hook) -> bool {
        let call = match &self.tree {
            Some(tree) => Call::Bash { tree, input: &self.value },
            None => Call::Tool { name: tool, input: &self.value },
        };
        hook.covers(&call, &self.facts)
    }
}

/// Whether the hooks of a call run.
#[derive(Debug, Clone)]
pub(crate) enum Hooks {
    /// They run, with this.
    Run(Means),
    /// These outcomes stand in for them.
    Recorded(Box<Recorded>),
}

/// Outcomes of hooks that were written down.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    /// What those of PreToolUse come to.
    pub(crate) before: Report,
    /// Those of PermissionRequest.
    pub(crate) requests: Vec<Ran>,
}

impl Scene {
    /// Finds directories, settings, shell and environment of a call; blocks on the file system.
    pub(crate) fn find(cwd: &str, context: &Context, places: &Places) -> Result<Scene, Failure> {
        request::context(context)?;
        let mut place = Place::find(cwd, context)?;
        place.roots = roots::around(&places.state, &place);
        let regions = bounds::of(&place, places);
        bounds::check(cwd, context, (&place, places), &regions)?;
        let snapshot = settings::read(&Sources {
            regions: &regions,
            managed: Path::new(crate::places::MANAGED),
            managed_owner: 0,
            state: &places.state,
            place: &place,
            context,
        })?;
        Scene::with(place, snapshot, context, places)
    }

    /// Returns the scene of a call whose directories and settings are known.
    pub(crate) fn with(
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
            },
        )?;
        let search = environment.variables.get("PATH").map(String::as_str).unwrap_or_default();
        let shell = shell::find(settings.shell.as_deref(), search, &place, &places.state)?;
        let mode = match &context.mode {
            Some(name) => Mode::named(name).ok_or_else(|| {
                let message = format!("there is no permission mode `{}`", name.escape_debug());
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
        let own = facts::own_directories(context, &place);
        let elsewhere = Elsewhere::find(&context.environment, &environment.variables, &place);
        Ok(Scene {
            place,
            own,
            snapshot,
            shell,
            environment,
            elsewhere,
            tools: leads::moved(&context.environment),
            mode,
            sandbox,
            interactive,
            root,
            search,
            caller_runs,
            state,
            is_written: false,
        })
    }

    /// Says how what is confined here is confined, whoever runs the text of the call.
    pub(crate) fn confinement(&self) -> SandboxState {
        confinement(self.snapshot.rules.settings())
    }

    /// Returns where commands may write; blocks on the file system.
    pub(crate) fn regions(&self) -> Regions {
        let sandbox = stockade_policy::sandbox_settings(&self.snapshot.rules, &self.facts());
        Regions::of(&self.place, &sandbox, &self.state)
    }

    /// Returns the scene of a call whose text the caller runs itself.
    pub(crate) fn run_by_caller(self, context: &Context) -> Scene {
        let search = known::search(context, &self);
        Scene { search, caller_runs: true, ..self }
    }

    /// Returns what tells where credentials lie.
    pub(crate) fn credentials(&self) -> (&Elsewhere, &Place) {
        (&self.elsewhere, &self.place)
    }

    /// Returns what the parser may assume about the shell that runs the text. What a caller gives the shell that
    /// it starts itself is not known.
    pub(crate) fn start_state(&self, runner: Runner) -> StartState {
        let names = self.environment.variables.keys().map(String::as_str).chain(environment::ADDED);
        let names = names.chain(plan::caches::VARIABLES);
        let home = self.place.home.to_string_lossy().into_owned().into_bytes();
        StartState {
            version: self.shell.version,
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
    pub(crate) fn facts(&self) -> Facts {
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
        // What cannot be had stops the start, so a command that runs is confined.
        (true, true) => SandboxState::Enforced,
        (true, false) if plan::is_available() => SandboxState::Enforced,
        (true, false) => SandboxState::Unavailable,
    }
}

/// What a command reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// The empty device.
    Nothing,
    /// An input that is handed on.
    Input,
    /// A terminal of its own, whatever comes there.
    Terminal,
}

impl Given {
    /// Returns what the command of `request` reads from.
    pub(crate) fn by(request: &CommandRequest) -> Given {
        match (request.pty, request.stdin) {
            (true, _) => Given::Terminal,
            (false, true) => Given::Input,
            (false, false) => Given::Nothing,
        }
    }
}

/// Who runs a call that is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// This gateway, with the environment that it builds.
    Gateway(Given),
    /// Somebody else, or it is not said who.
    Caller,
}

impl Judged {
    /// Returns why the verdict is what it is; none for an input that the verdict was not made of.
    pub(crate) fn evidence(&self, scene: &Scene) -> Option<Evidence> {
        let value = positioned(&self.input).ok()?;
        let call = match &self.tree {
            Some(tree) => Call::Bash { tree, input: &value },
            None => Call::Tool { name: &self.tool, input: &value },
        };
        let local = scene.place.project.join(".stockade/settings.local.json");
        let managed = Path::new(crate::places::MANAGED).join("managed-settings.json");
        let files = RuleFiles { local: &local, managed: &managed };
        let rules = &scene.snapshot.rules;
        Some(stockade_policy::explain(rules, &call, &self.facts, &self.verdict, files))
    }
}

/// A call to judge.
#[derive(Debug, Clone)]
pub(crate) struct Asked<'a> {
    /// Name of the tool.
    pub(crate) tool: &'a str,
    /// Its input.
    pub(crate) input: Value,
    /// Identity of the call, for hooks.
    pub(crate) id: &'a str,
    /// What came with it.
    pub(crate) context: &'a Context,
    /// What its hooks do.
    pub(crate) hooks: Hooks,
    /// Who runs it.
    pub(crate) runner: Runner,
}

/// The input of a call, read for the rules.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The tree of a command.
    pub(crate) tree: Option<CommandTree>,
    /// The input with its positions.
    value: strict::Value,
    /// What the verdict depends on besides rules and tree; nothing of hooks yet.
    facts: Facts,
    /// What to tell whoever reads along.
    notices: Vec<String>,
    /// Its builders that leave the sandbox.
    builders: changes::Builders,
}

impl Reading {
    /// Returns what the rules are asked about.
    fn call<'a>(&'a self, tool: &'a str) -> Call<'a> {
        match &self.tree {
            Some(tree) => Call::Bash { tree, input: &self.value },
            None => Call::Tool { name: tool, input: &self.value },
        }
    }

    /// Says whether the `if` of a hook covers the call.
    pub(crate) fn is_covered(&self, tool: &str, hook: &Hook) -> bool {
        hook.covers(&self.call(tool), &self.facts)
    }

    /// Finds out whether the call leaves the sandbox, and what may not be believed of its programs.
    async fn look_for_programs(&mut self, scene: &Scene, tool: &str) -> Result<(), Failure> {
        let rules = &scene.snapshot.rules;
        let names = stockade_policy::programs_of(&self.call(tool));
        let may_leave = stockade_policy::may_leave_sandbox(rules, &self.call(tool));
        if names.is_empty() || !known::is_needed(scene, &self.facts, may_leave) {
            if stockade_policy::runs_outside_sandbox(rules, &self.call(tool), &self.facts) {
                self.facts.sandbox = SandboxState::Off;
            }
            return Ok(());
        }
        let scene_of = scene.clone();
        let looked = tokio::task::spawn_blocking(move || known::look(&scene_of, &names));
        let found = looked.await.map_err(|_| broken("the programs cannot be looked for"))?;
        self.facts.doubts = found.outside;
        if stockade_policy::runs_outside_sandbox(rules, &self.call(tool), &self.facts) {
            self.facts.sandbox = SandboxState::Off;
        }
        match self.facts.sandbox {
            SandboxState::Off if !scene.caller_runs => self.notices = found.notices,
            SandboxState::Off | SandboxState::Enforced | SandboxState::Unavailable => {
                self.facts.doubts = found.inside;
            }
        }
        Ok(())
    }

    /// Looks at the repositories in which commands of the call would use git.
    async fn look_for_repositories(&mut self, scene: &Scene, tool: &str) -> Result<(), Failure> {
        let places = stockade_policy::repositories_of(&self.call(tool), &self.facts);
        if places.is_empty() {
            return Ok(());
        }
        let place = scene.place.clone();
        let looked =
            tokio::task::spawn_blocking(move || facts::repository::look(&places, &place)).await;
        self.facts.repositories =
            looked.map_err(|_| broken("the git repositories cannot be looked at"))?;
        Ok(())
    }

    /// Looks for links among the files that patterns of the call name.
    async fn look_behind_patterns(&mut self, tool: &str) -> Result<(), Failure> {
        let shapes = stockade_policy::patterns_of(&self.call(tool), &self.facts);
        if shapes.is_empty() {
            return Ok(());
        }
        let cwd = self.facts.cwd.clone();
        let looked = tokio::task::spawn_blocking(move || facts::expand::expand(shapes, &cwd)).await;
        self.facts.expanded = looked.map_err(|_| broken("the patterns cannot be expanded"))?;
        Ok(())
    }

    /// Looks where the paths lead that the rules may ask about.
    async fn look(&mut self, scene: &Scene, tool: &str) -> Result<(), Failure> {
        self.look_for_repositories(scene, tool).await?;
        self.look_behind_patterns(tool).await?;
        let paths = stockade_policy::paths_of(&self.call(tool), &self.facts);
        if paths.is_empty() {
            return Ok(());
        }
        let cwd = self.facts.cwd.clone();
        let looked = tokio::task::spawn_blocking(move || facts::real_paths(paths, &cwd)).await;
        self.facts.real_paths = looked.map_err(|_| broken("the paths cannot be looked up"))?;
        self.facts.asked = credentials::asked(&self.facts, &scene.snapshot.rules);
        if let Some((directory, include)) = stockade_policy::walk_of(&self.call(tool), &self.facts)
        {
            let below = credentials::asked_below((scene, &self.facts), &directory, include);
            self.facts.asked.extend(below);
        }
        Ok(())
    }
}

/// Judges a call.
pub(crate) async fn judge(
    scanner: &Scanner,
    scene: &Scene,
    asked: Asked<'_>,
) -> Result<Judged, Failure> {
    let reading = read(scanner, scene, (asked.tool, asked.runner), &asked.input).await?;
    let mut hearing = hearing::Hearing::open(scanner, scene, &asked, reading).await?;
    // Hooks take their time, and others may have put links there meanwhile.
    if !hearing.report.ran.is_empty() {
        hearing.reading.look(scene, asked.tool).await?;
        hearing.reading.look_for_changes(scene, asked.tool).await?;
    }
    let mut took = Duration::ZERO;
    let mut weigh = |hearing: &hearing::Hearing<'_>| {
        let Reading { facts, .. } = &hearing.reading;
        let facts = Facts { hook: hearing.report.outcome.clone(), ..facts.clone() };
        let start = Instant::now();
        let call = hearing.reading.call(asked.tool);
        let verdict = stockade_policy::evaluate(&scene.snapshot.rules, &call, &facts);
        took += start.elapsed();
        (verdict, facts)
    };
    let (mut verdict, mut facts) = weigh(&hearing);
    if hearing.answers(&verdict).await? {
        (verdict, facts) = weigh(&hearing);
    }
    hearing.told(&verdict).await?;
    let id = asked.id.to_owned();
    let hearing::Hearing { input, received, reading, mut report, .. } = hearing;
    let Reading { tree, value, notices, builders, .. } = reading;
    report.notices.extend(notices);
    let tool = asked.tool.to_owned();
    let hooks = report;
    Ok(Judged { id, tool, input, received, tree, value, facts, verdict, builders, took, hooks })
}

/// Reads an input: its tree, and the real paths that the rules may ask about.
pub(crate) async fn read(
    scanner: &Scanner,
    scene: &Scene,
    (tool, runner): (&str, Runner),
    input: &Value,
) -> Result<Reading, Failure> {
    let tree = match tool {
        "Bash" => {
            let text = request::command_text(command_of(input)?)?;
            let limits = Limits::default();
            Some(scanner.parse(text.as_bytes(), &scene.start_state(runner), &limits).await)
        }
        _ => None,
    };
    let value = positioned(input)?;
    let terminal = runner == Runner::Gateway(Given::Terminal);
    let facts = Facts { terminal, ..scene.facts() };
    let mut reading =
        Reading { tree, value, facts, notices: Vec::new(), builders: Default::default() };
    reading.look_for_programs(scene, tool).await?;
    reading.look_for_changes(scene, tool).await?;
    reading.look(scene, tool).await?;
    Ok(reading)
}

/// Returns the command of a Bash input.
pub(crate) fn command_of(input: &Value) -> Result<String, Failure> {
    let text = input.get("command").and_then(Value::as_str);
    text.map(str::to_string).ok_or_else(|| {
        let message = "the input of `Bash` has no string `command`";
        Failure::new(Code::InvalidRequest, message, "give an object with `command`")
    })
}

/// Returns the input of a Bash call as hooks and rules see it.
pub(crate) fn bash_input(command: &str, request: &CommandRequest) -> Value {
    let mut input = json!({ "command": command });
    if let Some(object) = input.as_object_mut() {
        let mut put = |key: &str, value: Value| object.insert(key.to_string(), value);
        if let Some(description) = &request.description {
            put("description", json!(description));
        }
        if let Some(timeout) = request.timeout_ms {
            put("timeout", json!(timeout));
        }
        if request.background {
            put("run_in_background", json!(true));
        }
        if request.unsandboxed {
            put("dangerouslyDisableSandbox", json!(true));
        }
    }
    input
}

fn positioned(input: &Value) -> Result<strict::Value, Failure> {
    strict::read(input.to_string().as_bytes(), strict::Dialect::Strict).map_err(|error| {
        let message = format!("the input is not usable: {}", error.message);
        Failure::new(Code::InvalidRequest, message, "give a plain JSON object")
    })
}

/// Returns the failure of something of ours.
pub(crate) fn broken(message: &str) -> Failure {
    Failure::new(Code::Internal, message, "this is a fault of stockade; report it")
}
