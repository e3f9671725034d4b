//! Questions that wait for a person elsewhere, as they go over the socket.

use serde::{Deserialize, Serialize};

use crate::types::{Answer, Lasting, Question};
use crate::words;

/// A question that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalView {
    /// Its identity, which no other question of this gateway has.
    pub id: String,
    /// SHA-256 of all that a yes would be about, in hexadecimal digits.
    pub digest: String,
    /// The question.
    pub question: Question,
    /// Working directory of the command.
    pub cwd: String,
    /// The front end of the call, such as `run` or `shell`.
    pub door: String,
    /// The agent behind the front end, as it says.
    pub agent: Option<String>,
    /// The session of the call.
    pub session: Option<String>,
    /// Process that called.
    pub pid: u32,
    /// User of that process.
    pub uid: u32,
    /// When the question came up, in milliseconds since 1970 (UTC).
    pub asked_ms: u64,
    /// When it is withdrawn unless somebody answers.
    pub expires_ms: u64,
    /// Required approvers; none where the managed settings name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<RequiredView>,
}

/// Required approvers of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequiredView {
    /// How many persons.
    pub persons: u64,
    /// Whether the person who asks may be one of them.
    pub self_approval: bool,
    /// Unix groups: each person is in one of each list.
    pub groups: Vec<Vec<String>>,
    /// Names of those who have approved.
    pub approved: Vec<String>,
}

impl RequiredView {
    /// Returns who is needed and who has approved so far, in words.
    pub fn sentence(&self) -> String {
        let RequiredView { persons, self_approval, groups, approved } = self;
        let who = if *persons == 1 { "person" } else { "persons" };
        let of: String = groups.iter().map(|list| format!(" of {}", list.join(" or "))).collect();
        let other = if *self_approval { "" } else { ", not the one who asks" };
        let so_far = if approved.is_empty() { "nobody".to_owned() } else { approved.join(", ") };
        words::one_line(&format!("{persons} {who}{of}{other}; approved by {so_far}"))
    }
}

/// A request about questions that wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum ApprovalRequest {
    /// Returns all of them.
    List,
    /// Says yes to one.
    Allow {
        /// The question.
        id: String,
        /// For how long.
        #[serde(default)]
        lasts: Lasts,
        /// The digest of the question that the person was shown. An answer to another one is refused.
        #[serde(default)]
        digest: Option<String>,
        /// Allows it alone in an emergency, for this reason, where the managed settings let the person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        break_glass: Option<String>,
        /// Name of the person who answered, as the program says that passes the answer on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claimed: Option<String>,
    },
    /// Says no to one.
    Deny {
        /// The question.
        id: String,
        /// A word to the caller.
        #[serde(default)]
        why: Option<String>,
        /// The digest of the question that the person was shown.
        #[serde(default)]
        digest: Option<String>,
        /// Name of the person who answered, as the program says that passes the answer on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claimed: Option<String>,
    },
}

/// For how long a yes holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasts {
    /// For this call.
    #[default]
    Once,
    /// For what the offered rule matches in this session.
    Session,
    /// For what the offered rule matches for a while.
    For(Lasting),
    /// For good: the offered rule is written.
    Always,
}

/// The answer to a request about questions that wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// The questions, oldest first; the one that was answered.
    pub approvals: Vec<ApprovalView>,
}

/// A rule that a person allowed for a while. The gateway holds it in memory: it ends with the gateway at the latest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantView {
    /// Its identity, which no other grant of this gateway has.
    pub id: String,
    /// The allow rule.
    pub rule: String,
    /// The session whose calls it is for. None means calls without a session.
    pub session: Option<String>,
    /// The working directory whose calls it is for; none means each directory of the session.
    pub cwd: Option<String>,
    /// When it was made, in milliseconds since 1970 (UTC).
    pub made_ms: u64,
    /// When it ends; none means with its session.
    pub expires_ms: Option<u64>,
    /// For how many more calls it holds; none means any number.
    pub uses_left: Option<u32>,
}

/// A request about grants: about those of the caller's user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum GrantRequest {
    /// Returns all of them.
    List,
    /// Ends one at once.
    Revoke {
        /// The grant.
        id: String,
    },
    /// Ends all at once.
    RevokeAll,
}

/// The answer to a request about grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantAnswer {
    /// The grants, oldest first; those that were revoked.
    pub grants: Vec<GrantView>,
}

/// An answer to a question of another user, as gateways of a machine tell one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// The answer.
    pub answer: Answer,
    /// The reason of who allows alone in an emergency.
    pub break_glass: Option<String>,
    /// Name of the person who answered, as the program says that passed it on.
    pub claimed: Option<String>,
}

/// Answer to a question that a front end asked by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnsweredRequest {
    /// `DecisionView::question_id`.
    pub question_id: String,
    /// The answer, for this one call.
    pub answer: Answer,
    /// How long it took.
    #[serde(default)]
    pub waited_ms: u64,
}

/// The record of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredView {
    /// Its identity.
    pub record: String,
}
