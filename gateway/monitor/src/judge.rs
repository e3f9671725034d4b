//! Judges one call: the tree, the facts, the hooks, then the rules.

mod changes;
mod pre_tool_hooks;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_parser::{CommandTree, Limits};
use stockade_policy::{Call, Evidence, Facts, Hook, Origin, RuleFiles, SandboxState, Verdict};
use stockade_text::json as strict;

use crate::hooks::{Means, Ran, Report};
use crate::known;
use crate::parse::Scanner;
use crate::plan::credentials;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{CommandRequest, Context};
use crate::request;
pub use stockade_scene::request::command_of;
pub use stockade_scene::scene::{Given, Runner, Scene};
pub use stockade_wire::errors::broken;

/// A call that was judged.
#[derive(Debug)]
pub struct Judged {
    /// Identity of the call, as hooks were told it.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// The input that was judged, after hooks.
    pub input: Value,
    /// The input before, and where the hook is configured that changed it.
    pub received: Option<(Value, Origin)>,
    /// The tree of a command.
    pub tree: Option<CommandTree>,
    /// The input with its positions.
    pub value: strict::Value,
    /// The facts on which the verdict depends besides rules and tree.
    pub facts: Facts,
    /// The verdict.
    pub verdict: Verdict,
    /// Its builders that leave the sandbox.
    pub builders: changes::Builders,
    /// How long the rules took.
    pub took: Duration,
    /// The answers of the hooks.
    pub hooks: Report,
}

impl Judged {
    /// Says whether the `if` of a hook covers the call.
    pub fn is_covered(&self, tool: &str, hook: &Hook) -> bool {
        let call = match self.call() {
            Call::Tool { input, .. } => Call::Tool { name: tool, input },
            bash @ Call::Bash { .. } => bash,
        };
        stockade_policy::hook_covers(hook, &call, &self.facts)
    }
}

/// Whether the hooks of a call run.
#[derive(Debug, Clone)]
pub enum Hooks {
    /// They run, with this.
    Run(Means),
    /// These outcomes stand in for them.
    Recorded(Box<Recorded>),
}

/// Outcomes of hooks that were written down.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// The outcome of those of PreToolUse.
    pub before: Report,
    /// Those of PermissionRequest.
    pub requests: Vec<Ran>,
}

impl Judged {
    /// Returns what the rules were asked about.
    fn call(&self) -> Call<'_> {
        match &self.tree {
            Some(tree) => Call::Bash { tree, input: &self.value },
            None => Call::Tool { name: &self.tool, input: &self.value },
        }
    }

    /// Returns a wider rule than the exact one that lets the call run as well.
    pub fn wider_rule(&self, scene: &Scene) -> Option<String> {
        stockade_propose::wider_rule(
            &scene.snapshot.rules,
            &self.call(),
            &self.facts,
            &self.verdict,
        )
    }

    /// Checks whether a rule that a person wrote lets the call run.
    ///
    /// # Errors
    ///
    /// The rule does not let it run; the text says why.
    pub fn allowed_with(&self, scene: &Scene, rule: &str) -> Result<(), String> {
        stockade_propose::allowed_with(&scene.snapshot.rules, &self.call(), &self.facts, rule)
    }

    /// Returns why the verdict is what it is; none for an input that the verdict was not made of.
    pub fn evidence(&self, scene: &Scene) -> Option<Evidence> {
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
pub struct Asked<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// Its input.
    pub input: Value,
    /// Identity of the call, for hooks.
    pub id: &'a str,
    /// The context that came with it.
    pub context: &'a Context,
    /// The way in which its hooks are heard.
    pub hooks: Hooks,
    /// The runner of the call.
    pub runner: Runner,
}

/// The input of a call, read for the rules.
#[derive(Debug)]
pub struct Reading {
    /// The tree of a command.
    pub tree: Option<CommandTree>,
    /// The input with its positions.
    value: strict::Value,
    /// The facts on which the verdict depends besides rules and tree; nothing of hooks yet.
    facts: Facts,
    /// Notices for people.
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
    pub fn is_covered(&self, tool: &str, hook: &Hook) -> bool {
        stockade_policy::hook_covers(hook, &self.call(tool), &self.facts)
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
        let found = looked.await.map_err(|_| broken("cannot look up the programs"))?;
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
            tokio::task::spawn_blocking(move || stockade_facts::repository::look(&places, &place))
                .await;
        self.facts.repositories = looked.map_err(|_| broken("cannot read the git repositories"))?;
        Ok(())
    }

    /// Looks for protected files that commands of the call would write without naming them.
    async fn look_for_brought(&mut self, tool: &str) -> Result<(), Failure> {
        let sought = match self.facts.sandbox {
            SandboxState::Enforced => stockade_policy::brought_by(&self.call(tool), &self.facts),
            // Nothing refuses such a file there.
            SandboxState::Off | SandboxState::Unavailable => return Ok(()),
        };
        if sought.is_empty() {
            return Ok(());
        }
        let looked =
            tokio::task::spawn_blocking(move || stockade_facts::brought::look(sought)).await;
        self.facts.brought = looked.map_err(|_| broken("cannot read the git history"))?;
        Ok(())
    }

    /// Looks for links among the files that patterns of the call name.
    async fn look_behind_patterns(&mut self, tool: &str) -> Result<(), Failure> {
        let shapes = stockade_policy::patterns_of(&self.call(tool), &self.facts);
        if shapes.is_empty() {
            return Ok(());
        }
        let cwd = self.facts.cwd.clone();
        let looked =
            tokio::task::spawn_blocking(move || stockade_facts::expand::expand(shapes, &cwd)).await;
        self.facts.expanded = looked.map_err(|_| broken("cannot expand the patterns"))?;
        Ok(())
    }

    /// Looks where the paths lead that the rules may ask about.
    async fn look(&mut self, scene: &Scene, tool: &str) -> Result<(), Failure> {
        self.look_for_repositories(scene, tool).await?;
        self.look_for_brought(tool).await?;
        self.look_behind_patterns(tool).await?;
        let paths = stockade_policy::paths_of(&self.call(tool), &self.facts);
        if paths.is_empty() {
            return Ok(());
        }
        let cwd = self.facts.cwd.clone();
        let looked =
            tokio::task::spawn_blocking(move || stockade_base::names::real_paths(paths, &cwd))
                .await;
        self.facts.real_paths = looked.map_err(|_| broken("cannot resolve the paths"))?;
        self.facts.asked = credentials::asked(&self.facts, &scene.snapshot.rules);
        if let Some((directory, include)) = stockade_policy::walk_of(&self.call(tool), &self.facts)
        {
            let below = credentials::asked_below(scene, &self.facts, &directory, include);
            self.facts.asked.extend(below);
        }
        Ok(())
    }
}

/// Judges a call.
pub async fn judge(scanner: &Scanner, scene: &Scene, asked: Asked<'_>) -> Result<Judged, Failure> {
    let reading = read(scanner, scene, asked.tool, asked.runner, &asked.input).await?;
    let mut hearing = pre_tool_hooks::PreToolHooks::open(scanner, scene, &asked, reading).await?;
    // Hooks take their time, and others may have put links there meanwhile.
    if !hearing.report.ran.is_empty() {
        hearing.reading.look(scene, asked.tool).await?;
        hearing.reading.look_for_changes(scene, asked.tool).await?;
    }
    let mut took = Duration::ZERO;
    let mut weigh = |hearing: &pre_tool_hooks::PreToolHooks<'_>| {
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
    let pre_tool_hooks::PreToolHooks { input, received, reading, mut report, .. } = hearing;
    let Reading { tree, value, notices, builders, .. } = reading;
    report.notices.extend(notices);
    let tool = asked.tool.to_owned();
    let hooks = report;
    Ok(Judged { id, tool, input, received, tree, value, facts, verdict, builders, took, hooks })
}

/// Reads an input: its tree, and the real paths that the rules may ask about.
pub async fn read(
    scanner: &Scanner,
    scene: &Scene,
    tool: &str,
    runner: Runner,
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

/// Returns the input of a Bash call as hooks and rules see it.
pub fn bash_input(command: &str, request: &CommandRequest) -> Value {
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
        let message = format!("invalid input: {}", error.message);
        Failure::new(Code::InvalidRequest, message, "pass a plain JSON object")
    })
}
