//! The recorder's board: questions of one user that other users answer. What stands there is taken from connections whose user
//! the keeper told, so neither side can be somebody else.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Most questions of one user.
const MOST: usize = 64;
/// Most answers to one question.
const MOST_REPLIES: usize = 32;
/// Longest question, and longest answer, in bytes.
const LONGEST: usize = 128 << 10;
const LONGEST_REPLY: usize = 16 << 10;
/// Most bytes of questions that are shown at once.
const SHOWN: usize = 1 << 20;
/// How long the answers to a question that is over are remembered: the record of them follows at once.
const REMEMBERED: Duration = Duration::from_secs(15 * 60);

/// A user whom no file of the machine names, as the keeper found it: the name of the name service switch, and the names of the
/// groups that the kernel has for the process that connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The name.
    pub name: String,
    /// The names of the groups.
    pub groups: Vec<String>,
}

impl Known {
    /// Returns it as one word: `NAME:GROUP,GROUP`.
    pub fn word(&self) -> String {
        format!("{}:{}", self.name, self.groups.join(","))
    }

    /// Reads what [`Known::word`] made.
    pub fn read(word: &str) -> Option<Known> {
        let (name, groups) = word.split_once(':').filter(|(name, _)| !name.is_empty())?;
        let groups = groups.split(',').filter(|it| !it.is_empty()).map(str::to_owned);
        Some(Known { name: name.to_owned(), groups: groups.collect() })
    }
}

/// A question that others may answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Posted {
    /// Its identity.
    pub id: String,
    /// The digest of all that a yes would be about.
    pub digest: String,
    /// The users who see and answer it.
    pub audience: Vec<u32>,
    /// A user whom the keeper alone knows sees and answers it in a group of each of these lists,
    pub groups: Vec<Vec<String>>,
    /// or in one of these groups.
    pub or_in: Vec<String>,
    /// The question, as gateways tell it.
    pub question: String,
}

/// An answer of another user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The same user, as the keeper told.
    pub uid: u32,
    /// The name and groups of the user who asks, where no file names that user.
    pub known: Option<Known>,
    /// The answer, as gateways tell it.
    pub answer: String,
}

#[derive(Debug)]
struct Entry {
    owner: u32,
    posted: Posted,
    replies: Vec<Reply>,
    over: Option<Instant>,
}

/// One for all connections of a recorder.
#[derive(Debug, Default)]
pub(super) struct Board(Mutex<BTreeMap<String, Entry>>);

impl Board {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, entry| entry.over.is_none_or(|over| over.elapsed() < REMEMBERED));
        all
    }

    /// Puts a question of `owner` up, or its newer words.
    pub(super) fn post(&self, owner: u32, posted: Posted) -> Result<(), String> {
        let mut all = self.all();
        let own = all.values().filter(|entry| entry.owner == owner && entry.over.is_none()).count();
        let length = posted.question.len() + posted.digest.len() + posted.id.len();
        if length > LONGEST || posted.audience.len() > LONGEST / 8 {
            return Err("the question is too long".to_owned());
        }
        match all.get_mut(&posted.id) {
            Some(entry) if entry.owner == owner && entry.posted.digest == posted.digest => {
                entry.posted = posted;
                Ok(())
            }
            Some(_) => Err("another question has that identity".to_owned()),
            None if own >= MOST => Err(format!("uid {owner} has {MOST} open questions already")),
            None => {
                let id = posted.id.clone();
                all.insert(id, Entry { owner, posted, replies: Vec::new(), over: None });
                Ok(())
            }
        }
    }

    /// Takes a question of `owner` down.
    pub(super) fn close(&self, owner: u32, id: &str) {
        if let Some(entry) = self.all().get_mut(id).filter(|entry| entry.owner == owner) {
            entry.over = Some(Instant::now());
        }
    }

    /// Returns the questions of others that `uid` may answer.
    pub(super) fn shown_to(&self, uid: u32, known: Option<&Known>) -> Vec<Posted> {
        let mut bytes = 0;
        let all = self.all();
        let open = all.values().filter(|it| it.over.is_none() && may_answer(it, uid, known));
        let mut shown = Vec::new();
        for entry in open {
            bytes += entry.posted.question.len();
            if bytes > SHOWN {
                break;
            }
            // The other approvers are not disclosed.
            let (audience, groups, or_in) = (Vec::new(), Vec::new(), Vec::new());
            shown.push(Posted { audience, groups, or_in, ..entry.posted.clone() });
        }
        shown
    }

    /// Notes the answer of `uid` to the question with this identity and digest.
    pub(super) fn reply(&self, id: &str, digest: &str, reply: Reply) -> Result<(), String> {
        let mut all = self.all();
        let known = reply.known.as_ref();
        let is_meant = |it: &&mut Entry| it.over.is_none() && may_answer(it, reply.uid, known);
        let found = all.get_mut(id).filter(is_meant);
        let Some(entry) = found else {
            return Err(format!("no open question `{}`", id.escape_debug()));
        };
        if entry.posted.digest != digest {
            return Err(format!("question `{id}` is not the one that was shown"));
        }
        if entry.replies.len() >= MOST_REPLIES || reply.answer.len() > LONGEST_REPLY {
            return Err("too many answers, or one that is too long".to_owned());
        }
        entry.replies.push(reply);
        Ok(())
    }

    /// Returns the answers to a question of `owner`.
    pub(super) fn replies(&self, owner: u32, id: &str) -> Vec<Reply> {
        let all = self.all();
        let found = all.get(id).filter(|entry| entry.owner == owner);
        found.map(|entry| entry.replies.clone()).unwrap_or_default()
    }

    /// Says whether `uid` answered a question of `owner`.
    pub(super) fn has_answered(&self, owner: u32, id: &str, uid: u32) -> bool {
        self.replies(owner, id).iter().any(|reply| reply.uid == uid)
    }
}

fn may_answer(entry: &Entry, uid: u32, known: Option<&Known>) -> bool {
    let Posted { audience, groups, or_in, .. } = &entry.posted;
    let is_meant = |known: &Known| {
        let is_in = |list: &Vec<String>| known.groups.iter().any(|it| list.contains(it));
        groups.iter().all(is_in) || is_in(or_in)
    };
    entry.owner != uid && (audience.contains(&uid) || known.is_some_and(is_meant))
}
