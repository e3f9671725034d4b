//! The pipeline: judge, record, decide, run, record.

mod after;
mod answered;
mod answers;
mod approvals;
mod busy_port;
pub mod calling;
mod carried;
mod changes;
mod definitions;
mod due;
mod failed;
mod forward;
mod going;
mod grants;
mod hooked;
mod loopbacks;
mod opening;
mod progress;
mod pruning;
mod quotas;
mod reviewed;
mod session_list;
pub mod sessions;
mod steps;
pub mod tasks;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stockade_parser::Programs;
use stockade_policy::Decision;
use stockade_subscriptions::{Subscribers, Subscription};
use stockade_wire::subscriptions::{SubscribeAnswer, SubscribeRequest};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::audit::record::decision::Runs;
use crate::audit::{self, GatewayMode, Log, Receipt, Writer};
use stockade_wire::conversation::Conversation;

use crate::blocking::blocking;
use crate::decide::Grant;
use crate::judge::{self, Judged, Scene};
use crate::options::Options;
use crate::parse::Scanner;
use crate::places::{LogPlaces, Places};
use crate::protocol::errors::Failure;
use crate::protocol::types::{CommandRequest, DecisionView, EventView, RunOutcome};
use crate::records::{self, Circumstances};
use crate::response::{self, Case};
use crate::run::{self, Launchers, Lines, Manner, Task};
use crate::tasks::live::Live;
use crate::temporary::Temporary;
use crate::{request, view, worker};
use calling::Calling;
use due::Due;
use opening::Opening;
use stockade_approvals::elsewhere::Approvals;
use stockade_egress::broker::Broker;
use stockade_egress::report::Report;

/// The whole gate: takes a request, gives its outcome.
pub struct Gateway {
    places: Places,
    log: Opening,
    scanner: Scanner,
    launchers: Arc<Launchers>,
    mode: GatewayMode,
    executable: PathBuf,
    /// Of a gateway that stays: the settings that counted last.
    changes: Option<changes::Changes>,
    /// Of a gateway that stays: the sessions that have begun.
    sessions: Option<sessions::Sessions>,
    loopbacks: loopbacks::Loopbacks,
    hooked: hooked::Hooked,
    quotas: quotas::Quotas,
    /// Questions that front ends put by themselves.
    asking: answers::Asking,
    tasks: Live,
    /// True if the gateway stays as long as the tasks of its sessions.
    keeps_tasks: bool,
    /// Tasks that wait until the kernel has removed the namespaces of ended commands.
    remains: Mutex<Vec<JoinHandle<()>>>,
    /// Of a gateway that stays: when it looked last for temporary directories that others left behind.
    swept: Option<Due>,
    /// Questions that wait for an answer through the socket.
    approvals: Approvals,
    /// Rules that a person gave for a while.
    grants: grants::Grants,
    /// Places for those who read records along.
    subscribers: Subscribers,
    /// When output was pruned last.
    pruned: Due,
}

/// How long a gateway that stays looks for nothing that others left behind, unless a run has to remove something anyway.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(60);
/// Pause between two removals of old output.
const BETWEEN_PRUNES: Duration = Duration::from_secs(600);

/// Returns the log that the recorder keeps.
fn attached(places: &LogPlaces, recorder: &UnixStream) -> Result<(Log, Writer), audit::Error> {
    let failed = |error: std::io::Error| audit::Error::Recorder {
        directory: places.directory.clone(),
        cause: error.to_string(),
    };
    Log::attach(places, recorder.try_clone().map_err(failed)?)
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Gateway").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        match self.mode {
            GatewayMode::Embedded => self.log.leave(),
            GatewayMode::Daemon | GatewayMode::System => {}
        }
    }
}

impl Gateway {
    /// Opens the log and what else a gateway holds, for the calls of this process.
    pub async fn open(options: Options) -> Result<Gateway, Failure> {
        Gateway::open_as(options, GatewayMode::Embedded).await
    }

    /// Opens a gateway that lives as `mode` says.
    pub async fn open_as(options: Options, mode: GatewayMode) -> Result<Gateway, Failure> {
        let places = Places::find(&options, |name| std::env::var_os(name))?;
        let executable = options.executable()?;
        let scanner = Scanner::new(executable.clone(), options.prefork.scan_worker());
        if !options.prefork.is_idle() {
            scanner.warm();
        }
        let opening = places.clone();
        let prepared = places.clone();
        let recorder = options.recorder.clone();
        let open = move || {
            let opened = match recorder {
                Some(recorder) => attached(&opening.of_log(), &recorder),
                None => Log::begin(&opening.of_log(), mode),
            };
            opened.map_err(|error| response::unrecorded(&error))
        };
        let log = Opening::start(&places.audit, move || prepared.prepare(), open)?;
        let launchers = Arc::new(Launchers::new(executable.clone(), &options.prefork));
        if options.runs {
            launchers.warm();
        }
        // First the worker's start, which waits in line behind this task; then, while the log opens, the
        // tables of programs and names.
        tokio::task::yield_now().await;
        let _ = (Programs::builtin(), stockade_policy::protected_names()); // read once, kept for ever
        match mode {
            GatewayMode::Embedded => {}
            // Nobody is told to come before the log is open.
            GatewayMode::Daemon | GatewayMode::System => drop(log.log().await?),
        }
        let stays = mode != GatewayMode::Embedded;
        let changes = stays.then(changes::Changes::default);
        let sessions = stays.then(sessions::Sessions::default);
        let remains = Mutex::default();
        Ok(Gateway {
            log,
            places,
            scanner,
            launchers,
            mode,
            executable,
            changes,
            sessions,
            loopbacks: loopbacks::Loopbacks::default(),
            hooked: hooked::Hooked::default(),
            quotas: quotas::Quotas::default(),
            asking: answers::Asking::default(),
            tasks: Live::default(),
            keeps_tasks: stays,
            remains,
            swept: stays.then(|| Due::every(BETWEEN_SWEEPS)),
            approvals: Approvals::default(),
            grants: grants::Grants::default(),
            subscribers: Subscribers::default(),
            pruned: Due::every(BETWEEN_PRUNES),
        })
    }

    /// Has commands become background tasks although the gateway shares the log: for one that ends with its only session.
    #[must_use]
    pub fn keeping_tasks(mut self) -> Gateway {
        self.keeps_tasks = true;
        // The gateway stays as long as its tasks, so hooks are told of settings that change meanwhile.
        self.changes = Some(changes::Changes::default());
        self
    }

    /// Decides one command, runs it if it may, and records both.
    pub async fn run(&self, request: CommandRequest, conversation: Conversation) -> RunOutcome {
        self.run_for(Calling::parent(), request, conversation).await
    }

    /// The same for a caller that the kernel named.
    pub async fn run_for(
        &self,
        caller: Calling,
        request: CommandRequest,
        conversation: Conversation,
    ) -> RunOutcome {
        // INVARIANT: whatever fails on the way to a decision ends here, and nothing has run.
        let mut asked = failed::Asked::to_run(&request);
        match self.handle(caller.clone(), request, conversation, &mut asked).await {
            Ok(outcome) => outcome,
            Err(failure) => RunOutcome::Failed(self.record_failed(&caller, asked, failure).await),
        }
    }

    async fn handle(
        &self,
        caller: Calling,
        mut request: CommandRequest,
        mut conversation: Conversation,
        asked: &mut failed::Asked,
    ) -> Result<RunOutcome, Failure> {
        self.find_session(&caller, &mut request).await?;
        let lent = self.lend_rules(&caller, &mut request);
        let accepted = request::accept(&request)?;
        self.log.is_writable().await?;
        let begun = self.begin(&caller, &request.cwd, &request.context).await;
        let (scene, beside, moved) = self.scene_of_session(&caller, &mut request).await?;
        let settings = scene.snapshot.rules.settings();
        let accepted = accepted.limited(settings)?;
        self.prune_output(&accepted.limits);
        let seat = self.take_seat(&caller, &request, accepted.limits.session, settings)?;
        let accepted = self.written_out(worker::find(accepted, &self.executable)).await?;
        let input = input_of(&accepted, &request);
        let (judged, ahead, loopback) = tokio::join!(
            self.judge(&request, &scene, input),
            self.ahead(&request, &scene, beside),
            self.loopback(&caller, &request.context)
        );
        let judged = judged?;
        let command = accepted.after_hooks(&judged.input, judged.received.is_some())?;
        if self.mode == GatewayMode::Embedded {
            self.scanner.rest();
        }
        let view = self.viewed(&request, &scene, &judged, begun, moved);
        let asking = conversation.questions.take().filter(|_| request.context.interactive);
        let patience = command.limits.approval;
        let asked_people =
            self.asking(&caller, &request, patience, &scene, &judged, asking).await?;
        let approvals::Asking { people: asking, channel, agreed, required } = asked_people;
        let runs = runs_of(judged.verdict.decision, asking.is_some() || agreed.is_some());
        let planned = self.plan_for(&runs, &request, &scene, ahead, &judged, &command).await;
        // The more is done while the log opens, the better; that it cannot says more than that nothing can be planned.
        let log = self.log.log().await?;
        let planned = planned.transpose()?;
        let known = caller.caller().await?;
        let circumstances = Circumstances::of_run(known, &request, command.timeout, runs);
        let (spec, rest) = planned.map(|it| (it.spec.into(), it.rest)).unzip();
        let recorded = self.record(&scene, &judged, circumstances, spec).await?;
        asked.is_decided = true;
        let call = answered::Call {
            caller: &caller,
            request: &request,
            command: &command,
            log: &log,
            channel: &channel,
            required: required.as_ref(),
        };
        let case = Case { scene, judged, view, receipt: recorded.receipt().clone() };
        let people = asking.clone();
        let person = answered::Person { agreed, people, conversation: &mut conversation };
        let going = match self.decided(call, case, recorded, rest, person).await? {
            Ok(going) => going,
            Err(outcome) => return Ok(outcome),
        };
        // About a host nobody is asked who cannot be told apart from who asks.
        let of_hosts = asking.filter(|_| required.is_none());
        let share = going::Share { lent, seat: seat.as_ref(), loopback };
        self.go(call, going, share, of_hosts, conversation).await
    }

    /// Returns what the caller sees of a decision, with each warning once a session.
    fn viewed(
        &self,
        request: &CommandRequest,
        scene: &Scene,
        judged: &Judged,
        begun: EventView,
        moved: Option<String>,
    ) -> DecisionView {
        let mut view = view::decision(&judged.verdict, &scene.snapshot, judged.input.clone());
        self.tell_once(&request.context, &mut view.warnings);
        view.warnings.extend(moved);
        view::add_hooks(&mut view, judged.hooks.clone());
        view::add_beginning(&mut view, begun);
        view
    }

    /// Runs what was granted, and records how it ended before anybody learns of it. Also returns where its shell stood
    /// at last, if that was asked for.
    async fn execute(
        &self,
        grant: Grant,
        broker: Broker<'_>,
        manner: Manner,
        temporary: Temporary,
        mut task: Option<Task>,
        mut lines: Lines,
    ) -> Result<(run::Execution, Option<String>), Failure> {
        let (log, receipt) = (broker.log, broker.decision);
        if let Some(task) = task.as_mut().filter(|task| task.begins_so) {
            tasks::pending(task)?;
        }
        let mut running = match run::start(grant, &self.launchers, &manner).await {
            Ok(running) => running,
            Err(error) => {
                let recorded = records::not_run(log, receipt).await;
                let failure = response::not_started(&error);
                tasks::not_started(task, &failure);
                self.clear(temporary).await?;
                recorded?;
                return Err(failure);
            }
        };
        // While the command runs; whoever comes next finds it ready.
        match self.mode {
            GatewayMode::Embedded => {}
            GatewayMode::Daemon | GatewayMode::System => {
                self.launchers.replace(manner.loopback.clone())
            }
        }
        let listeners = running.take_listeners();
        let (over, ended) = oneshot::channel();
        let carry = async {
            match listeners {
                Some(listeners) => broker.serve(listeners, ended).await,
                None => Report::default(),
            }
        };
        let follow = async {
            let execution = run::follow(running, &manner, &mut lines, task.as_mut()).await;
            drop(over);
            execution
        };
        let (mut execution, network) = tokio::join!(follow, carry);
        execution.network = network;
        execution.withheld.clone_from(&manner.withheld);
        let remains = std::mem::take(&mut execution.remains);
        // Nothing of it runs any more; what is left is the kernel, which takes its namespaces down.
        self.leave(remains);
        let concluded = self.conclude(log, receipt, &execution, temporary).await;
        // Nobody learns of the end before it is recorded.
        let is_task = task.as_ref().is_some_and(|task| task.folder.is_task());
        self.end_task(task, &execution, concluded.as_ref().err()).await;
        // Output of the command is sent even if its end cannot be recorded.
        for event in execution.unsent.drain(..) {
            let _ = lines.events.send(event).await; // a front end that is gone needs nothing
        }
        // One that went to the background ends while its session goes on elsewhere.
        let cwd_after = concluded?.filter(|_| !is_task);
        Ok((execution, cwd_after))
    }

    /// Records how a command ended, and removes what it leaves behind. Returns where its shell stood at last.
    async fn conclude(
        &self,
        log: &Log,
        receipt: &Receipt,
        execution: &run::Execution,
        temporary: Temporary,
    ) -> Result<Option<String>, Failure> {
        let recorded = async {
            let recorded = records::result(log, receipt, execution).await;
            recorded.map_err(|error| response::ran_unrecorded(&error, execution))
        };
        match self.mode {
            // This thread alone answers: it does not touch a disk that may hang.
            GatewayMode::Embedded => match recorded.await {
                Err(failure) if log.is_stuck() => {
                    // A later run removes the directory.
                    std::mem::forget(temporary);
                    Err(failure)
                }
                recorded => {
                    let cwd_after = self.clear(temporary).await;
                    recorded.and(cwd_after)
                }
            },
            // While the log writes, what the command leaves behind goes.
            GatewayMode::Daemon | GatewayMode::System => {
                let both = tokio::try_join!(recorded, self.clear(temporary));
                both.map(|(_, cwd_after)| cwd_after)
            }
        }
    }

    /// Has a task wait for the end of what kept a command apart.
    fn leave(&self, remains: run::Remains) {
        let mut waiting = self.remains.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|task| !task.is_finished());
        waiting.push(tokio::spawn(remains.gone()));
    }

    /// Begins a subscription to the records of the log.
    pub async fn subscribe(
        &self,
        request: SubscribeRequest,
    ) -> Result<(SubscribeAnswer, Subscription), Failure> {
        self.subscribers.begin(self.log.log().await?, request).await
    }

    /// Ends this gateway, and returns when nothing is left of its commands, so that a process that ends with them leaves
    /// nobody behind.
    pub async fn close(mut self) {
        let waiting = std::mem::take(&mut self.remains);
        drop(self);
        for task in waiting.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let _ = task.await; // one that broke off has dropped what it waited for, which waits as well
        }
    }

    /// Removes the temporary directory of a command that is gone, and returns where its shell said that it stood.
    async fn clear(&self, temporary: Temporary) -> Result<Option<String>, Failure> {
        if temporary.stays() && !self.sweeps() {
            return Ok(None);
        }
        let state = self.places.state.clone();
        let clear = move || {
            let cwd_after = temporary.cwd_after();
            temporary.end(&state);
            Ok(cwd_after)
        };
        self.blocking(clear).await
    }
}

impl Gateway {
    /// Says whether what others left behind is to be looked for.
    fn sweeps(&self) -> bool {
        self.swept.as_ref().is_none_or(Due::is_due)
    }

    /// Does work that waits for the file system. Where this is the only call of the process, nobody else is held up, and
    /// a thread for it would take longer than most of it.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        match self.mode {
            GatewayMode::Embedded => work(),
            GatewayMode::Daemon | GatewayMode::System => blocking(work).await,
        }
    }
}

/// Returns the input of a call, as hooks and records see it.
fn input_of(accepted: &request::Command, request: &CommandRequest) -> serde_json::Value {
    match request.tool() {
        Some(call) => call.input.clone(),
        None => judge::bash_input(&accepted.text, request),
    }
}

/// Returns who runs a call: nobody where it is refused, or asked about and nobody may agree.
fn runs_of(decision: Decision, may_agree: bool) -> Runs {
    match decision {
        Decision::Allow => Runs::Gateway,
        Decision::Ask if may_agree => Runs::Gateway,
        Decision::Ask | Decision::Deny => Runs::Nobody,
    }
}
