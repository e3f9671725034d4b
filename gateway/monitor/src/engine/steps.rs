//! The steps of the pipeline that wait for files, hooks or the log, and calls that are only judged.

use stockade_policy::{Decision, SandboxState};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::calling::Calling;
use super::{Gateway, blocking, failed};
use stockade_settings::approvers::required;

use crate::approve::named;
use crate::audit::record::decision::Runs;
use crate::audit::{GatewayMode, Recorded};
use crate::decide::Spec;
use crate::hooks::Means;
use crate::judge::{self, Asked, Given, Hooks, Judged, Runner, Scene};
use crate::plan::{Ahead, Job, NOBODY, Planned, Yes, caches};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{CheckRequest, CommandRequest, Context, DecisionView, EventView};
use crate::records::{self, Circumstances};
use crate::request::Command;
use crate::{dry_run, plan, response, view};
use stockade_approvals::asked::{self, Agreed};
use stockade_settings::roots;

/// Plan of what a command gets, which another thread makes while the text is read.
pub(super) type Beside = JoinHandle<Option<Ahead>>;

/// Says whether what a command gets can be found before it is judged: no hook runs first that may change it.
fn is_foreseen(scene: &Scene) -> bool {
    let hooks = &scene.snapshot.rules.settings().hooks;
    hooks.is_empty() && scene.sandbox != SandboxState::Off
}

/// The front door through which an agent's shell comes.
pub(super) const SHELL: &str = "shell";

impl Gateway {
    /// Judges one call without running anything.
    pub async fn check(&self, request: CheckRequest) -> Result<DecisionView, Failure> {
        self.check_for(Calling::parent(), request).await
    }

    /// The same for a caller that the kernel named.
    pub async fn check_for(
        &self,
        caller: Calling,
        request: CheckRequest,
    ) -> Result<DecisionView, Failure> {
        // A call that is only tried leaves no record.
        if !request.record {
            return self.judged_for(&caller, request).await;
        }
        let asked = failed::Asked::about(&request);
        match self.judged_for(&caller, request).await {
            Ok(view) => Ok(view),
            Err(failure) => Err(self.record_failed(&caller, asked, failure).await),
        }
    }

    async fn judged_for(
        &self,
        caller: &Calling,
        mut request: CheckRequest,
    ) -> Result<DecisionView, Failure> {
        self.tried_with_definitions(&mut request).await?;
        let mut scene = match self.mode {
            GatewayMode::Embedded => dry_run::scene(&request, &self.places)?,
            GatewayMode::Daemon | GatewayMode::System => {
                let (asked, places) = (request.clone(), self.places.clone());
                blocking(move || dry_run::scene(&asked, &places)).await?
            }
        };
        let mut begun = EventView::default();
        if let Some(failure) = request.refused {
            return Err(failure);
        }
        self.log.is_writable().await?;
        // A call that is only tried begins no session and notices no change.
        if request.record && request.case.is_none() {
            begun = self.begin(caller, &request.cwd, &request.context).await;
            let sandbox = scene.sandbox;
            scene = self.settled(caller, scene, &request.context).await?;
            if request.caller_runs {
                scene.sandbox = sandbox;
                scene = scene.run_by_caller(&request.context);
            }
            self.may_decide(&scene)?;
            roots::remember(&self.places.state, &scene.place);
        }
        let id = match &request.call_id {
            Some(id) => id.clone(),
            None => crate::random::call_id()?,
        };
        let asked = Asked {
            tool: &request.tool,
            input: request.input.clone(),
            id: &id,
            context: &request.context,
            hooks: dry_run::hooks(&request, &scene, self.means()),
            // Whoever asks may run it elsewhere.
            runner: Runner::Caller,
        };
        self.open_before_hooks(&scene).await?;
        let judging = judge::judge(&self.scanner, &scene, asked);
        let (judged, agent) = tokio::join!(judging, self.agent_of_hook(caller, &request));
        let mut judged = judged?;
        refuse_where_others_approve(&request, &scene, &mut judged)?;
        self.keep_named(agent?, &request, &judged);
        // A call that could not be recorded is not judged either.
        drop(self.log.log().await?);
        let mut question_id = None;
        if request.record {
            let runs = if request.caller_runs { Runs::Caller } else { Runs::Nobody };
            let circumstances = Circumstances::of_check(caller.caller().await?, &request, runs);
            let receipt = self.record(&scene, &judged, circumstances, None).await?.into_receipt();
            self.note_edit(&scene, &judged, &request, &receipt).await?;
            question_id = self.put_by_front_end(caller, &request, &judged, receipt).await?;
        }
        if request.caller_asks {
            self.put_elsewhere(caller.pid, &request.context, &scene, &judged).await?;
        }
        let mut view = DecisionView { question_id, ..dry_run::answer(&request, &scene, judged) };
        view::add_beginning(&mut view, begun);
        Ok(view)
    }

    /// Keeps in mind that the caller asks a person of its own about this call, instead of the one before.
    async fn put_elsewhere(
        &self,
        pid: u32,
        context: &Context,
        scene: &Scene,
        judged: &Judged,
    ) -> Result<(), Failure> {
        let number = context.hook_question.clone();
        let (state, cwd) = (self.places.state.clone(), scene.place.cwd.clone());
        let command = judge::command_of(&judged.input).ok();
        let asks = judged.verdict.decision == Decision::Ask;
        let command = command.filter(|_| asks && judged.tree.is_some());
        let about = command.as_ref().map(|_| named::digest(scene, judged)).unwrap_or_default();
        let changes = named::changes(judged);
        self.blocking(move || {
            asked::forget(&state, pid);
            let Some(command) = command else { return Ok(()) };
            let number = number.as_deref();
            let asked = asked::Asked { command: &command, cwd: &cwd, number, about, changes };
            asked::note(&state, asked, pid).map_err(|error| {
                let message =
                    format!("the question cannot be kept in `{}`: {error}", state.display());
                Failure::new(Code::StateUnusable, message, "")
            })
        })
        .await
    }

    /// Returns the yes that the person of an agent gave to this command, if the agent's hook asked for it.
    pub(super) async fn agreed_elsewhere(
        &self,
        pid: u32,
        request: &CommandRequest,
        scene: &Scene,
        judged: &Judged,
    ) -> Result<Option<Agreed>, Failure> {
        let asks = judged.verdict.decision == Decision::Ask;
        let number = request.context.hook_question.clone();
        // Without a number it comes through the agent's own shell alone.
        let is_door = request.context.door == SHELL || number.is_some();
        if !asks || !is_door || judged.received.is_some() || judged.tree.is_none() {
            return Ok(None);
        }
        let (about, changes) = (named::digest(scene, judged), named::changes(judged));
        let (state, cwd) = (self.places.state.clone(), scene.place.cwd.clone());
        let command = judge::command_of(&judged.input)?;
        self.blocking(move || {
            let number = number.as_deref();
            let asked = asked::Asked { command: &command, cwd: &cwd, number, about, changes };
            Ok(asked::take(&state, asked, pid))
        })
        .await
    }

    /// Waits for the log where programs of the person run before the decision.
    async fn open_before_hooks(&self, scene: &Scene) -> Result<(), Failure> {
        match scene.snapshot.rules.settings().hooks.is_empty() {
            true => Ok(()),
            false => self.log.log().await.map(drop),
        }
    }

    pub(super) async fn scene(
        &self,
        caller: &Calling,
        request: &CommandRequest,
    ) -> Result<Scene, Failure> {
        self.scene_and_more(caller, request).await.map(|(scene, _)| scene)
    }

    /// Finds the scene of a call, and what its command may get, which another thread goes on to find.
    pub(super) async fn scene_and_more(
        &self,
        caller: &Calling,
        request: &CommandRequest,
    ) -> Result<(Scene, Option<Beside>), Failure> {
        let (found, beside) = match self.mode {
            GatewayMode::Embedded => {
                (Scene::find(&request.cwd, &request.context, &self.places)?, None)
            }
            GatewayMode::Daemon | GatewayMode::System => self.find_beside(request).await?,
        };
        let sha256 = found.snapshot.sha256.clone();
        let scene = self.settled(caller, found, &request.context).await?;
        self.may_decide(&scene)?;
        roots::remember(&self.places.state, &scene.place);
        // A plan for settings other than those that count is of no use.
        let beside = beside.filter(|_| scene.snapshot.sha256 == sha256);
        // Whether a person is there to answer is seen when a question comes up.
        Ok((Scene { interactive: true, ..scene }, beside))
    }

    /// Refuses where the managed settings want the gateway of the machine, and this is another one. Root is not a user of it.
    fn may_decide(&self, scene: &Scene) -> Result<(), Failure> {
        let is_another = self.mode != GatewayMode::System && !scene.root;
        match scene.snapshot.rules.settings().require_gateway && is_another {
            false => Ok(()),
            true => Err(Failure::new(
                Code::GatewayUnreachable,
                "the managed settings require the system gateway (`requireGateway`), and this process is not it",
                "remove `--no-daemon`, `--socket`, `--state-dir` and `--audit-dir`; `sudo stockade doctor --system` says whether \
                 the system gateway runs",
            )),
        }
    }

    async fn find_beside(
        &self,
        request: &CommandRequest,
    ) -> Result<(Scene, Option<Beside>), Failure> {
        let (cwd, context) = (request.cwd.clone(), request.context.clone());
        let places = self.places.clone();
        let (told, found) = oneshot::channel();
        let beside = tokio::task::spawn_blocking(move || {
            let scene = Scene::find(&cwd, &context, &places);
            let foreseen = scene.as_ref().ok().filter(|scene| is_foreseen(scene)).cloned();
            told.send(scene).ok()?; // else the call is given up
            let scene = foreseen?;
            plan::ahead(&scene, &scene.facts(), &places, context.session.as_deref())
        });
        let found = found.await.map_err(|_| judge::broken("a step of the gateway failed"))?;
        Ok((found?, Some(beside)))
    }

    /// Finds the scene of a call.
    pub(super) async fn find(&self, cwd: &str, context: &Context) -> Result<Scene, Failure> {
        match self.mode {
            // Nothing is copied for another thread where there is none.
            GatewayMode::Embedded => Scene::find(cwd, context, &self.places),
            GatewayMode::Daemon | GatewayMode::System => {
                let (cwd, context, places) = (cwd.to_owned(), context.clone(), self.places.clone());
                blocking(move || Scene::find(&cwd, &context, &places)).await
            }
        }
    }

    pub(super) async fn judge(
        &self,
        request: &CommandRequest,
        scene: &Scene,
        input: serde_json::Value,
    ) -> Result<Judged, Failure> {
        let id = match &request.call_id {
            Some(id) => id.clone(),
            None => crate::random::call_id()?,
        };
        let context = &request.context;
        let runner = Runner::Gateway(Given::by(request));
        let hooks = Hooks::Run(self.means());
        let asked = Asked { tool: request.tool_name(), input, id: &id, context, hooks, runner };
        self.open_before_hooks(scene).await?;
        judge::judge(&self.scanner, scene, asked).await
    }

    /// Finds what a command gets while the scan worker reads its text; nothing where that may change before it runs.
    pub(super) async fn ahead(
        &self,
        request: &CommandRequest,
        scene: &Scene,
        beside: Option<Beside>,
    ) -> Option<Ahead> {
        match (self.mode, beside) {
            (GatewayMode::Embedded, _) if is_foreseen(scene) => {
                // First the text leaves for the worker.
                tokio::task::yield_now().await;
                let session = request.context.session.as_deref();
                plan::ahead(scene, &scene.facts(), &self.places, session)
            }
            // One that panicked found nothing.
            (_, Some(beside)) => beside.await.ok().flatten(),
            (_, None) => None,
        }
    }

    /// Plans a call that the gateway runs without a question.
    pub(super) async fn plan_for(
        &self,
        runs: &Runs,
        request: &CommandRequest,
        scene: &Scene,
        ahead: Option<Ahead>,
        judged: &Judged,
        command: &Command,
    ) -> Option<Result<Planned, Failure>> {
        match runs {
            Runs::Gateway => Some(self.plan(request, scene, ahead, judged, &NOBODY, command).await),
            Runs::Caller | Runs::Nobody => None,
        }
    }

    pub(super) async fn plan(
        &self,
        request: &CommandRequest,
        scene: &Scene,
        ahead: Option<Ahead>,
        judged: &Judged,
        yes: &Yes,
        command: &Command,
    ) -> Result<Planned, Failure> {
        let confined = judged.facts.sandbox != SandboxState::Off;
        let wanted = caches::wanted(judged.tree.as_ref(), &scene.place);
        let job = Job { command, caches: &wanted };
        let is_all = ahead.as_ref().is_some_and(|it| confined && it.is_all(job, request));
        if is_all || self.mode == GatewayMode::Embedded {
            return plan::prepare(scene, ahead, &judged.facts, yes, job, &self.places, request);
        }
        let (scene, command, places) = (scene.clone(), command.clone(), self.places.clone());
        let (request, facts, yes) = (request.clone(), judged.facts.clone(), yes.clone());
        let prepare = move || {
            let job = Job { command: &command, caches: &wanted };
            plan::prepare(&scene, ahead, &facts, &yes, job, &places, &request)
        };
        blocking(prepare).await
    }

    /// Returns with what hooks are run.
    pub(super) fn means(&self) -> Means {
        let (executable, start) = (self.executable.clone(), crate::start_confined);
        Means { executable, start, places: self.places.clone() }
    }

    pub(super) async fn record(
        &self,
        scene: &Scene,
        judged: &Judged,
        circumstances: Circumstances<'_>,
        spec: Option<Spec>,
    ) -> Result<Recorded<Spec>, Failure> {
        let state = &self.places.audit_state;
        let log = self.log.log().await?;
        let recorded = records::decision(&log, state, scene, judged, circumstances, spec).await;
        recorded.map_err(|error| response::unrecorded(&error))
    }
}

/// Denies a call that the managed settings let certain persons approve, where they cannot be asked.
fn refuse_where_others_approve(
    request: &CheckRequest,
    scene: &Scene,
    judged: &mut Judged,
) -> Result<(), Failure> {
    // A caller that asks a person of its own, or runs the call itself, would pass by those who have to approve.
    let is_theirs = request.caller_runs || request.tool != "Bash";
    if !request.record || !is_theirs || judged.verdict.decision != Decision::Ask {
        return Ok(());
    }
    if required(&scene.snapshot.rules, &judged.verdict)?.is_none() {
        return Ok(());
    }
    let verdict = &mut judged.verdict;
    verdict.decision = Decision::Deny;
    verdict.code = "needs_approvers";
    verdict.reason =
        "the managed settings say who approves this call, and they cannot be asked here".to_owned();
    verdict.help = "do it by a command, which waits for their approval".to_owned();
    verdict.suggestion = None;
    Ok(())
}
