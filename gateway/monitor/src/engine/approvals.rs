//! Requests about questions that wait, and who is asked about a call.

use std::time::Duration;

use stockade_settings::approvers::{Required, required};
use stockade_wire::approvals::{ApprovalAnswer, ApprovalRequest, ApprovalView, Lasts, Said};
use stockade_wire::conversation::PendingQuestion;
use tokio::sync::mpsc;

use super::Gateway;
use super::calling::Calling;
use crate::audit::{GatewayMode, Log};
use crate::judge::{Judged, Scene};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Answer, CommandRequest};
use stockade_approvals::asked::Agreed;
use stockade_approvals::elsewhere::{CHANNEL, Given, Terms};

/// How long a question waits for those who have to approve, unless the settings say how long.
const USUAL: Duration = Duration::from_secs(10 * 60);

/// Persons who are asked about a call.
pub(super) struct Asking {
    /// Where questions go; none where nobody can be asked.
    pub(super) people: Option<mpsc::Sender<PendingQuestion>>,
    /// How the log names the way.
    pub(super) channel: String,
    /// The yes that the person of an agent gave before.
    pub(super) agreed: Option<Agreed>,
    /// Required approvers; none where the managed settings name none.
    pub(super) required: Option<Required>,
}

impl Gateway {
    /// Returns who is asked about a call: whoever is at the door, else who answers from elsewhere. Where the managed settings
    /// say who approves, nobody at the door is asked, and the person of an agent has no say.
    pub(super) async fn asking(
        &self,
        caller: &Calling,
        request: &CommandRequest,
        patience: Option<Duration>,
        scene: &Scene,
        judged: &Judged,
        at_door: Option<mpsc::Sender<PendingQuestion>>,
    ) -> Result<Asking, Failure> {
        let required = required(&scene.snapshot.rules, &judged.verdict)?;
        let elsewhere = CHANNEL.to_owned();
        if let Some(required) = required {
            // A yes is taken all the same, so that it serves no other call.
            let _ = self.agreed_elsewhere(caller.pid, request, scene, judged).await?;
            let alone = required.persons == 1 && required.self_approval;
            let board = match self.mode {
                GatewayMode::Embedded | GatewayMode::Daemon => None,
                GatewayMode::System => Some(self.log.log().await?),
            };
            let can_be_asked = board.is_some() || alone || !required.break_glass.is_empty();
            let patience = Some(patience.unwrap_or(USUAL)).filter(|_| can_be_asked);
            let required = Some(required);
            let terms =
                patience.map(|patience| Terms { patience, required: required.clone(), board });
            let people = terms.and_then(|terms| self.elsewhere(caller, request, terms));
            return Ok(Asking { people, channel: elsewhere, agreed: None, required });
        }
        let agreed = self.agreed_elsewhere(caller.pid, request, scene, judged).await?;
        let (people, channel) = match at_door {
            Some(people) => (Some(people), request.context.door.clone()),
            None => {
                let terms =
                    patience.map(|patience| Terms { patience, required: None, board: None });
                (terms.and_then(|terms| self.elsewhere(caller, request, terms)), elsewhere)
            }
        };
        Ok(Asking { people, channel, agreed, required: None })
    }

    /// Returns where questions of a call go at which nobody can be asked. None where no gateway stays for the answer to reach.
    fn elsewhere(
        &self,
        caller: &Calling,
        request: &CommandRequest,
        terms: Terms,
    ) -> Option<mpsc::Sender<PendingQuestion>> {
        match self.mode {
            GatewayMode::Embedded => None,
            GatewayMode::Daemon | GatewayMode::System => {
                Some(self.approvals.people(request, caller.as_peer(), terms))
            }
        }
    }

    /// Answers a request about questions that wait.
    pub async fn about_approvals(
        &self,
        caller: &Calling,
        request: ApprovalRequest,
    ) -> Result<ApprovalAnswer, Failure> {
        let (id, given) = match request {
            ApprovalRequest::List => {
                let mut approvals = self.approvals.list(caller.uid());
                approvals.extend(self.of_others().await?);
                return Ok(ApprovalAnswer { approvals });
            }
            ApprovalRequest::Allow { id, lasts, digest, break_glass, claimed } => {
                let answer = yes(lasts);
                (id, Given { said: Said { answer, break_glass, claimed }, digest })
            }
            ApprovalRequest::Deny { id, why, digest, claimed } => {
                let answer = why.map_or(Answer::Deny, Answer::DenyWith);
                (id, Given { said: Said { answer, break_glass: None, claimed }, digest })
            }
        };
        let (approvals, who) = (self.approvals.clone(), caller.as_peer());
        let answered = match approvals.has(&id) {
            true => super::blocking(move || approvals.answer(&id, given, who)).await?,
            false => match self.of_others().await?.into_iter().find(|view| view.id == id) {
                Some(view) => self.answer_another(view, given).await?,
                None => super::blocking(move || approvals.answer(&id, given, who)).await?,
            },
        };
        Ok(ApprovalAnswer { approvals: vec![answered] })
    }

    /// Returns the questions of other users that this user may answer.
    async fn of_others(&self) -> Result<Vec<ApprovalView>, Failure> {
        let Some(log) = self.board().await? else { return Ok(Vec::new()) };
        let posted = super::blocking(move || log.posted().map_err(|error| told(&error))).await?;
        let views = posted.iter().filter_map(|it| {
            let view: ApprovalView = serde_json::from_str(&it.question).ok()?;
            // ID and digest come from the recorder, not from the other gateway.
            Some(ApprovalView { id: it.id.clone(), digest: it.digest.clone(), ..view })
        });
        Ok(views.collect())
    }

    /// Hands the answer to a question of another user over. It names the digest of what was shown.
    async fn answer_another(
        &self,
        view: ApprovalView,
        Given { said, digest }: Given,
    ) -> Result<ApprovalView, Failure> {
        let Some(log) = self.board().await? else { return Ok(view) };
        let digest = digest.unwrap_or_else(|| view.digest.clone());
        let answer = serde_json::to_string(&said)
            .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
        let id = view.id.clone();
        let reply = move || log.reply(&id, &digest, answer).map_err(|error| told(&error));
        super::blocking(reply).await?;
        Ok(view)
    }

    async fn board(&self) -> Result<Option<Log>, Failure> {
        match self.mode {
            GatewayMode::Embedded | GatewayMode::Daemon => Ok(None),
            GatewayMode::System => self.log.log().await.map(Some),
        }
    }
}

/// Returns why the recorder refused.
fn told(error: &crate::audit::Error) -> Failure {
    Failure::new(Code::InvalidRequest, error.cause(), "`stockade approvals` lists open questions")
}

fn yes(lasts: Lasts) -> Answer {
    match lasts {
        Lasts::Once => Answer::Once,
        Lasts::Session => Answer::Session,
        Lasts::For(lasting) => Answer::For(lasting),
        Lasts::Always => Answer::Always,
    }
}
