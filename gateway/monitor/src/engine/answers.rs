//! Answers of a person whom a front end asked by itself: each is recorded once, and from the front end that put the question.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stockade_policy::Decision;

use super::Gateway;
use super::calling::Calling;
use crate::audit::Receipt;
use crate::audit::record::{self, Body};
use crate::judge::{self, Judged};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Answer, CheckRequest};
use crate::response::unrecorded;
use stockade_approvals::elsewhere::Peer;
use stockade_wire::approvals::{AnsweredRequest, AnsweredView};

/// Most questions that are kept in mind; beyond that the oldest go.
const MOST: usize = 10_000;

/// Questions by the identity of their record, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Asking(Mutex<BTreeMap<String, Asked>>);

#[derive(Debug)]
struct Asked {
    by: Peer,
    /// How it is put.
    door: String,
    /// Keyed digest of what it is about.
    shown: String,
}

impl Asking {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gateway {
    /// Returns the identity under which the front end may tell the answer to a question that it puts by itself; none where
    /// there is no question.
    pub(super) async fn put_by_front_end(
        &self,
        caller: &Calling,
        request: &CheckRequest,
        judged: &Judged,
        receipt: Receipt,
    ) -> Result<Option<String>, Failure> {
        let is_put = request.caller_runs && request.context.interactive;
        if !is_put || judged.verdict.decision != Decision::Ask {
            return Ok(None);
        }
        let text = judge::command_of(&judged.input).unwrap_or_else(|_| judged.input.to_string());
        let log = self.log.log().await?;
        let shown = log.redactor().digest(text.as_bytes());
        let (by, door) = (caller.as_peer(), request.context.door.clone());
        let mut all = self.asking.all();
        all.insert(receipt.id.clone(), Asked { by, door, shown });
        while all.len() > MOST {
            all.pop_first();
        }
        Ok(Some(receipt.id))
    }

    /// Records what a person said to a question that a front end put by itself.
    pub async fn answered_by_front_end(
        &self,
        caller: &Calling,
        request: AnsweredRequest,
    ) -> Result<AnsweredView, Failure> {
        let refused = |message: &str| Failure::new(Code::InvalidRequest, message, "");
        let answer = match request.answer {
            Answer::Once => record::ApprovalAnswer::Allow,
            Answer::Deny | Answer::DenyWith(_) => record::ApprovalAnswer::Deny,
            Answer::Withdrawn => record::ApprovalAnswer::Withdrawn,
            Answer::Session | Answer::For(_) | Answer::Always | Answer::AlwaysRule(_) => {
                return Err(refused("an answer of a front end holds for one call"));
            }
        };
        let own = |asked: &&Asked| asked.by == caller.as_peer();
        let asked = {
            let mut all = self.asking.all();
            let is_own = all.get(&request.question_id).filter(own).is_some();
            is_own.then(|| all.remove(&request.question_id)).flatten()
        };
        let Some(asked) = asked else {
            return Err(refused("this front end has no open question with this `question_id`"));
        };
        let approval = record::Approval {
            reference: request.question_id,
            answer,
            who: Some(record::who()),
            channel: asked.door.into(),
            waited_ms: request.waited_ms,
            shown_hmac: asked.shown,
            scope: record::Scope::Once,
            expires: None,
            question: None,
            approvers: Vec::new(),
            break_glass: None,
            claimed: None,
            spec_hmac: None,
        };
        let recorded = self.log.log().await?.record(Body::Approval(approval)).await;
        let receipt = recorded.map_err(|error| unrecorded(&error))?;
        Ok(AnsweredView { record: receipt.id })
    }
}
