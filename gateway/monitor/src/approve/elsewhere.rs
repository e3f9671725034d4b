//! Questions of calls at which nobody can be asked: they wait for an answer through the socket, and no answer is no.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use stockade_wire::approvals::ApprovalView;
use stockade_wire::conversation::PendingQuestion;
use tokio::sync::{mpsc, oneshot};

use crate::approve::asked;
use crate::audit::record::caller::{Process, processes_above};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Answer, CommandRequest, Context, Question};
use stockade_base::hex;

/// How the log names the way by which the answer came.
pub const CHANNEL: &str = "approvals";
/// Most questions that wait at once; of further ones nobody is asked.
const MOST: usize = 256;

/// Most characters of a word that goes with a no.
const LONGEST_WHY: usize = 1000;

/// An answer from elsewhere.
#[derive(Debug)]
pub struct Given {
    /// The answer.
    pub answer: Answer,
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
}

impl Approvals {
    /// Returns where questions of a call go that wait here for at most `patience`. Needs a runtime.
    pub fn people(
        &self,
        request: &CommandRequest,
        (pid, uid): (u32, u32),
        patience: Duration,
    ) -> mpsc::Sender<PendingQuestion> {
        let (sender, mut questions) = mpsc::channel::<PendingQuestion>(1);
        let all = self.clone();
        let (cwd, context) = (request.cwd.clone(), request.context.clone());
        tokio::spawn(async move {
            let agent = tokio::task::spawn_blocking(move || asked::agent_above(pid).pop());
            let agent = agent.await.ok().flatten();
            while let Some(PendingQuestion { question, answer }) = questions.recv().await {
                let asked_ms = now_ms();
                let Some(digest) = digest(&question, (&cwd, uid), &context) else { continue };
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
                };
                all.wait(view, agent, answer, patience).await;
            }
        });
        sender
    }

    /// Waits for the answer to one question: until it comes, nobody waits for it any more, or `patience` is over.
    async fn wait(
        &self,
        mut view: ApprovalView,
        agent: Option<Process>,
        mut to: oneshot::Sender<Answer>,
        patience: Duration,
    ) {
        let mut random = [0; 4];
        if stockade_base::random::fill(&mut random).is_err() || self.all().len() >= MOST {
            return;
        }
        let id = hex(&random);
        view.id.clone_from(&id);
        let (answer, answered) = oneshot::channel();
        self.all().insert(id.clone(), Waiting { view, agent, answer });
        let answer = tokio::select! {
            answer = answered => answer.ok(),
            () = to.closed() => None,
            () = tokio::time::sleep(patience) => None,
        };
        self.all().remove(&id);
        if let Some(answer) = answer {
            let _ = to.send(answer); // one that is given up needs none
        }
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
        Given { answer, digest }: Given,
        (pid, uid): (u32, u32),
    ) -> Result<ApprovalView, Failure> {
        let above = processes_above(pid);
        let mut all = self.all();
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
        if let Some((message, help)) = unfit(&answer, &waiting.view) {
            return refuse(message, help);
        }
        let Some(Waiting { view, answer: to, .. }) = all.remove(id) else {
            return refuse(format!("question `{id}` is no longer open"), "the call was cancelled");
        };
        match to.send(answer) {
            Ok(()) => Ok(view),
            Err(_) => {
                refuse(format!("question `{id}` is no longer open"), "the call was cancelled")
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns why an answer does not fit a question, and what to do, if so.
fn unfit(answer: &Answer, view: &ApprovalView) -> Option<(String, &'static str)> {
    let id = &view.id;
    match answer {
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
fn digest(question: &Question, (cwd, uid): (&str, u32), context: &Context) -> Option<String> {
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
