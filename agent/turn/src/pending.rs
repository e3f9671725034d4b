//! Calls at the end of a conversation that have no result: a session that broke off left them behind.

use stockade_model::{Block, Message, Role};

use crate::calls::{self, Sent};
use crate::hands::{Done, Hands};
use crate::interrupt::Interrupt;

/// Outcome of calls that had no result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finished {
    /// Names of the tools that were called.
    pub names: Vec<String>,
    /// Why the turn ends without asking the model.
    pub ends: Option<String>,
}

/// Does the calls of the last answer that have no result, as if the model had just sent them, and adds their results. `report`
/// hears of each. A conversation that went on behind an answer has no such calls.
pub async fn finish(
    messages: &mut Vec<Message>,
    hands: &impl Hands,
    interrupt: &Interrupt,
    report: &mut (dyn FnMut(&Done) + Send),
) -> Finished {
    let Some(open) = open(messages, hands) else { return Finished::default() };
    let names = open.iter().map(|it| it.call.name.clone()).collect();
    let done = calls::run(hands, open, interrupt, report).await;
    let ends = done.iter().find_map(|it| it.ends.clone());
    let outcomes: Vec<Block> = done.into_iter().map(|it| Block::Outcome(it.outcome)).collect();
    match messages.last_mut().filter(|last| last.role == Role::User) {
        Some(last) => last.blocks.extend(outcomes),
        None => messages.push(Message { role: Role::User, blocks: outcomes }),
    }
    let ends = match ends {
        Some(reason) => Some(reason),
        None => hands.batch().await,
    };
    Finished { names, ends }
}

/// Returns the calls without a result; none where there is nothing to do.
fn open(messages: &mut [Message], hands: &impl Hands) -> Option<Vec<Sent>> {
    let outcomes = match messages.last()? {
        Message { role: Role::User, blocks } => blocks.clone(),
        Message { role: Role::Assistant, .. } => Vec::new(),
    };
    let results: Vec<&str> = outcomes
        .iter()
        .map(|block| match block {
            Block::Outcome(outcome) => Some(outcome.id.as_str()),
            Block::Text(_) | Block::Image(_) | Block::Thinking(_) | Block::Call { .. } => None,
        })
        .collect::<Option<_>>()?;
    let answer = messages.iter_mut().rev().find(|it| it.role == Role::Assistant)?;
    let mut sent = calls::sent(&mut answer.blocks, hands);
    sent.retain(|it| !results.contains(&it.call.id.as_str()));
    (!sent.is_empty()).then_some(sent)
}
