//! Questions of calls at which nobody can be asked: they wait for an answer through the socket, and no answer is no.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use stockade_settings::approvers::Required;
use stockade_wire::approvals::{ApprovalView, Said};
use stockade_wire::conversation::{ByWhom, PendingQuestion, Whom};
use tokio::sync::{mpsc, oneshot};

use crate::asked;
use crate::strict::Strict;
use stockade_base::hex;
use stockade_log::Log;
use stockade_log::apart::board::{Known, Posted};
use stockade_log::record::caller::{Process, processes_above};
use stockade_wire::errors::{Code, Failure};
use stockade_wire::types::{Answer, CommandRequest, Context, Question};

/// How the log names the way by which the answer came.
pub const CHANNEL: &str = "approvals";
/// Most questions that wait at once; of further ones nobody is asked.
const MOST: usize = 256;

/// Most characters of a word that goes with a no.
const LONGEST_WHY: usize = 1000;

/// How often it is looked for answers of other users.
const LOOK: Duration = Duration::from_millis(300);
/// Most characters of the name of who is said to have answered.
const LONGEST_NAME: usize = 200;

/// A process that calls, as the kernel names it (unix(7), `SO_PEERCRED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// An answer from elsewhere.
#[derive(Debug)]
pub struct Given {
    /// The answer.
    pub said: Said,
    /// The digest of the question that was shown.
    pub digest: Option<String>,
}

/// The questions that wait.
#[derive(Debug, Clone, Default)]
pub struct Approvals(Arc<Mutex<BTreeMap<String, Waiting>>>);

#[derive(Debug)]
struct Waiting {
    view: ApprovalView,
    /// The agent that asks: neither it nor what it started may answer.
    agent: Option<Process>,
    answer: oneshot::Sender<Answer>,
    whom: Whom,
    /// Required approvers; none where the managed settings name none.
    strict: Option<Strict>,
}

/// How long a question waits, and its required approvers.
#[derive(Debug)]
pub struct Terms {
    /// How long a question waits.
    pub patience: Duration,
    /// Required approvers; none where the managed settings name none.
    pub required: Option<Required>,
    /// The log by whose recorder others are asked; none where there are no others.
    pub board: Option<Log>,
}

impl Approvals {
    /// Returns where questions of a call go that wait here. Needs a runtime.
    pub fn people(
        &self,
        request: &CommandRequest,
        Peer { pid, uid }: Peer,
        Terms { patience, required, board }: Terms,
    ) -> mpsc::Sender<PendingQuestion> {
        let (sender, mut questions) = mpsc::channel::<PendingQuestion>(1);
        let all = self.clone();
        let (cwd, context) = (request.cwd.clone(), request.context.clone());
        tokio::spawn(async move {
            let agent = tokio::task::spawn_blocking(move || asked::agent_above(pid).pop());
            let agent = agent.await.ok().flatten();
            while let Some(PendingQuestion { question, answer, whom }) = questions.recv().await {
                let asked_ms = now_ms();
                let Some(digest) = digest(&question, &cwd, uid, &context) else { continue };
                let strict = match &required {
                    None => None,
                    Some(required) => match Strict::new(required.clone(), uid, board.clone()) {
                        Some(strict) => Some(strict),
                        // An unknown requester could approve their own call: nobody is asked.
                        None => continue,
                    },
                };
                let view = ApprovalView {
                    id: String::new(),
                    digest,
                    question,
                    cwd: cwd.clone(),
                    door: context.door.clone(),
                    agent: context.agent.clone(),
                    session: context.session.clone(),
                    pid,
                    uid,
                    asked_ms,
                    expires_ms: asked_ms.saturating_add(milliseconds(patience)),
                    required: strict.as_ref().map(Strict::view),
                };
                all.wait(Waiting { view, agent, answer, whom, strict }, patience).await;
            }
        });
        sender
    }

    /// Waits for the answer to one question: until it comes, nobody waits for it any more, or `patience` is over.
    async fn wait(&self, mut waiting: Waiting, patience: Duration) {
        let mut random = [0; 4];
        if stockade_base::random::fill(&mut random).is_err() || self.all().len() >= MOST {
            return;
        }
        let id = hex(&random);
        waiting.view.id.clone_from(&id);
        let board = waiting.strict.as_ref().and_then(|strict| strict.board.clone());
        let (answer, mut answered) = oneshot::channel();
        let mut to = std::mem::replace(&mut waiting.answer, answer);
        self.all().insert(id.clone(), waiting);
        let mut seen = 0;
        if board.is_some() && !self.post(&id).await {
            self.all().remove(&id);
            return;
        }
        let late = tokio::time::sleep(patience);
        tokio::pin!(late);
        let answer = loop {
            tokio::select! {
                answer = &mut answered => break answer.ok(),
                () = to.closed() => break None,
                () = &mut late => break None,
                () = tokio::time::sleep(LOOK), if board.is_some() => {
                    if let Some(board) = board.clone() {
                        seen = self.take_replies(&id, board, seen).await;
                    }
                }
            }
        };
        self.all().remove(&id);
        if let Some(board) = board {
            let id = id.clone();
            // The recorder takes it down itself when this gateway is gone.
            let _ = tokio::task::spawn_blocking(move || board.close(&id)).await;
        }
        if let Some(answer) = answer {
            let _ = to.send(answer); // one that is given up needs none
        }
    }

    /// Puts a question up for other users, and says whether that was done.
    async fn post(&self, id: &str) -> bool {
        let all = self.clone();
        let id = id.to_owned();
        let post = move || {
            let (board, posted) = {
                let all = all.all();
                let Waiting { view, strict, .. } = all.get(&id)?;
                let strict = strict.as_ref()?;
                let question = serde_json::to_string(view).ok()?;
                let (digest, audience) = (view.digest.clone(), strict.audience());
                let (id, (groups, or_in)) = (id.clone(), strict.groups());
                let posted = Posted { id, digest, audience, groups, or_in, question };
                (strict.board.clone()?, posted)
            };
            board.post(posted).ok()
        };
        tokio::task::spawn_blocking(post).await.is_ok_and(|done| done.is_some())
    }

    /// Weighs the answers of other users behind the first `seen`, and returns how many there are.
    async fn take_replies(&self, id: &str, board: Log, seen: usize) -> usize {
        let asked = id.to_owned();
        let replies = tokio::task::spawn_blocking(move || board.replies(&asked).ok()).await;
        let replies = replies.ok().flatten().unwrap_or_default();
        for reply in replies.iter().skip(seen) {
            let Ok(said) = serde_json::from_str::<Said>(&reply.answer) else { continue };
            // A refused answer is reported to nobody here: the approver sees who has approved.
            let weighed = self.weigh(id, reply.uid, reply.known.clone(), said);
            if matches!(weighed, Ok((_, false))) {
                self.post(id).await;
            }
        }
        seen.max(replies.len())
    }

    /// Weighs an answer, and sends it if it settles the question; says whether it does.
    fn weigh(
        &self,
        id: &str,
        uid: u32,
        known: Option<Known>,
        said: Said,
    ) -> Result<(ApprovalView, bool), Failure> {
        let mut all = self.all();
        let gone =
            || refuse(format!("question `{id}` is no longer open"), "the call was cancelled");
        let Some(waiting) = all.get_mut(id) else { return gone() };
        if let Some((message, help)) = unfit(&said, &waiting.view) {
            return refuse(message, help);
        }
        let (answer, by) = match &mut waiting.strict {
            None if said.break_glass.is_some() => {
                return refuse(
                    format!("question `{id}` needs no break-glass"),
                    "allow it without a reason",
                );
            }
            None => (said.answer, ByWhom { claimed: said.claimed, ..ByWhom::default() }),
            Some(strict) => match strict.take(uid, known, said) {
                Err(reason) => {
                    return refuse(reason, "`stockade approvals show ID` says who may approve");
                }
                Ok(None) => {
                    waiting.view.required = Some(strict.view());
                    return Ok((waiting.view.clone(), false));
                }
                Ok(Some(settled)) => settled,
            },
        };
        let Some(Waiting { mut view, answer: to, whom, strict, .. }) = all.remove(id) else {
            return gone();
        };
        if let Some(required) = view.required.as_mut() {
            required.approved = by.approvers.iter().map(|(_, name, _)| name.clone()).collect();
        }
        let question = strict.map(|_| id.to_owned());
        *whom.lock().unwrap_or_else(PoisonError::into_inner) = ByWhom { question, ..by };
        match to.send(answer) {
            Ok(()) => Ok((view, true)),
            Err(_) => gone(),
        }
    }

    /// Says whether a question waits here.
    pub fn has(&self, id: &str) -> bool {
        self.all().contains_key(id)
    }

    /// Returns the questions of a user, oldest first.
    pub fn list(&self, uid: u32) -> Vec<ApprovalView> {
        let all = self.all();
        let own = all.values().map(|waiting| &waiting.view).filter(|view| view.uid == uid);
        let mut found: Vec<ApprovalView> = own.cloned().collect();
        found.sort_by(|left, right| (left.asked_ms, &left.id).cmp(&(right.asked_ms, &right.id)));
        found
    }

    /// Answers a question, for process `pid` of `uid`. Neither the agent that asks nor a process that it started may.
    pub fn answer(
        &self,
        id: &str,
        Given { said, digest }: Given,
        Peer { pid, uid }: Peer,
    ) -> Result<ApprovalView, Failure> {
        let above = processes_above(pid);
        {
            let all = self.all();
            let Some(waiting) = all.get(id).filter(|waiting| waiting.view.uid == uid) else {
                return refuse(
                    format!("no open question `{}`", id.escape_debug()),
                    "`stockade approvals` lists open questions",
                );
            };
            if waiting.agent.is_none_or(|agent| above.contains(&agent)) {
                return refuse(
                    format!("the program that asks cannot answer question `{id}`"),
                    "answer it in another terminal",
                );
            }
            if digest.is_some_and(|digest| digest != waiting.view.digest) {
                return refuse(
                    format!("question `{id}` is not the one that was shown"),
                    "`stockade approvals` lists open questions",
                );
            }
        }
        self.weigh(id, uid, None, said).map(|(view, _)| view)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns why an answer does not fit a question, and what to do, if so.
fn unfit(said: &Said, view: &ApprovalView) -> Option<(String, &'static str)> {
    let id = &view.id;
    let is_name =
        |name: &String| name.chars().count() <= LONGEST_NAME && !name.chars().any(char::is_control);
    if !said.claimed.as_ref().is_none_or(is_name) {
        let message = format!("invalid name of who answered question `{id}`");
        return Some((message, "give one line of at most 200 characters"));
    }
    match &said.answer {
        Answer::Always | Answer::Session | Answer::For(_) if view.question.always.is_none() => {
            Some((format!("no rule can be kept for question `{id}`"), "allow it once"))
        }
        Answer::Session if view.question.session.is_none() => {
            let message = format!("question `{id}` belongs to no session");
            Some((message, "allow it once, or for some minutes"))
        }
        Answer::Session | Answer::For(_) if view.question.connection.is_some() => Some((
            format!("a host can be allowed once or permanently, question `{id}`"),
            "allow it once",
        )),
        Answer::For(lasting) if !lasting.is_valid() => {
            let message = format!("invalid duration for question `{id}`");
            Some((message, "give 1 to 1440 minutes, or 2 to 1000 uses"))
        }
        Answer::DenyWith(why)
            if why.chars().count() > LONGEST_WHY || why.chars().any(char::is_control) =>
        {
            let message = format!("invalid word to the caller of question `{id}`");
            Some((message, "give one line of at most 1000 characters"))
        }
        Answer::Once
        | Answer::Session
        | Answer::For(_)
        | Answer::Always
        | Answer::AlwaysRule(_)
        | Answer::Deny
        | Answer::DenyWith(_)
        | Answer::Withdrawn => None,
    }
}

/// Returns the digest of all that a yes would be about.
fn digest(question: &Question, cwd: &str, uid: u32, context: &Context) -> Option<String> {
    let Context { door, agent, session, .. } = context;
    let about = serde_json::to_vec(&(question, cwd, uid, door, agent, session)).ok()?;
    Some(hex(&Sha256::digest(about)))
}

fn refuse<T>(message: String, help: &str) -> Result<T, Failure> {
    Err(Failure::new(Code::InvalidRequest, message, help))
}

fn now_ms() -> u64 {
    milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
