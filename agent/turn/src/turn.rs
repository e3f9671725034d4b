//! One turn: from a message of the user to the end of the model's work.

use serde_json::Value;
use stockade_model::{
    Answer, Block, Client, Error, Event, Ledger, Message, Outcome, Prices, Request, Role, Stop,
};

use crate::calls::{self, INTERRUPTED};
use crate::hands::{Done, Hands};
use crate::interrupt::Interrupt;

/// Wrong calls in a row that end a turn.
const WRONG: u32 = 5;
/// Times in a row that a finished turn is kept going.
const KEPT: u32 = 8;
/// The message after an interrupt while the model answered.
const STOPPED: &str = "[Request interrupted by user]";

/// Step of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A request is sent to this model.
    Asked {
        /// Name of the model.
        model: String,
    },
    /// Something arrived while the model answers.
    Arrived(Event),
    /// An answer is complete.
    Answered(Box<Answer>),
    /// A call of a tool is over.
    Done(Box<Done>),
    /// A message went into the conversation beside results: reminders, messages of people, reasons of hooks.
    Added(Vec<Block>),
    /// The model was replaced by the fallback model.
    FellBack {
        /// The model that did not answer.
        from: String,
        /// The model that is asked from now on.
        to: String,
    },
}

/// Limits of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Most requests to the model.
    pub turns: Option<u64>,
    /// Most US dollars, those of former turns included.
    pub dollars: Option<f64>,
    /// Tokens of one request and its answer from which the turn pauses, so that somebody can make room.
    pub context: Option<u64>,
}

/// How a turn ended.
#[derive(Debug)]
pub enum End {
    /// The model finished, with this text.
    Finished {
        /// Text of the last answer.
        text: String,
        /// Why the answer ended.
        stop: Stop,
    },
    /// The limit of requests was reached.
    Turns,
    /// The budget is spent.
    Budget,
    /// The person interrupted; `in_tools` says whether tools were running.
    Interrupted {
        /// Tools were running.
        in_tools: bool,
    },
    /// A tool, a hook or the host ended the turn.
    Ended(String),
    /// The context is as full as [`Limits::context`] says. The turn goes on when it is run again.
    Full,
    /// The model did not answer.
    Failed(Error),
    /// The model's calls were wrong too often.
    Wrong(String),
}

/// A turn.
#[derive(Debug)]
pub struct Turn<'a> {
    /// Asks the model.
    pub client: &'a Client,
    /// The request; `messages` are left out of it, and `model` is the current one.
    pub request: Request,
    /// The model that is asked when the first one does not answer.
    pub fallback: Option<String>,
    /// Limits.
    pub limits: Limits,
    /// Prices by name of the model.
    pub prices: fn(&str) -> Prices,
}

impl Turn<'_> {
    /// Runs the turn. `messages` grow by what is said; they are valid for another request whatever the end is.
    pub async fn run(
        mut self,
        messages: &mut Vec<Message>,
        hands: &impl Hands,
        (ledger, interrupt): (&mut Ledger, &Interrupt),
        report: &mut (dyn FnMut(Step) + Send),
    ) -> (End, u64) {
        let (mut asked, mut wrong, mut kept) = (0, Wrong::default(), 0);
        loop {
            add(messages, hands.between().await, report);
            if let Some(end) = self.limit(asked, ledger) {
                return (end, asked);
            }
            asked += 1;
            let answer = match self.ask(messages, hands, interrupt, report).await {
                Ok(answer) => answer,
                Err(end) => return (unanswered(end, messages, report), asked),
            };
            ledger.add(&self.request.model, answer.usage, &(self.prices)(&self.request.model));
            let mut answer = answer;
            let calls = calls::sent(&mut answer.message.blocks, hands);
            report(Step::Answered(Box::new(answer.clone())));
            let Answer { message, stop, usage, .. } = answer;
            let used = usage.input + usage.cache_write + usage.cache_read + usage.output;
            let text = text_of(&message);
            if !message.blocks.is_empty() {
                messages.push(message);
            }
            if calls.is_empty() {
                match hands.finished(&text).await {
                    Some(reason) if kept < KEPT => {
                        kept += 1;
                        add(messages, vec![Block::Text(reason)], report);
                        continue;
                    }
                    Some(_) | None => return (End::Finished { text, stop }, asked),
                }
            }
            let named = names_of(&calls);
            let mut told = |done: &Done| report(Step::Done(Box::new(done.clone())));
            let done = calls::run(hands, calls, interrupt, &mut told).await;
            let mut ends = done.iter().find_map(|it| it.ends.clone());
            let too_many = wrong.count(&named, &done);
            let outcomes = done.into_iter().map(|it| Block::Outcome(it.outcome)).collect();
            messages.push(Message { role: Role::User, blocks: outcomes });
            if interrupt.is_given() {
                add(messages, vec![Block::Text(INTERRUPTED.into())], report);
                return (End::Interrupted { in_tools: true }, asked);
            }
            if ends.is_none() {
                ends = hands.batch().await;
            }
            if let Some(reason) = ends {
                return (End::Ended(reason), asked);
            }
            if let Some(reason) = too_many {
                return (End::Wrong(reason), asked);
            }
            if hands.is_over() {
                return (End::Finished { text, stop }, asked);
            }
            if self.limits.context.is_some_and(|most| used >= most) {
                return (End::Full, asked);
            }
        }
    }

    fn limit(&self, asked: u64, ledger: &Ledger) -> Option<End> {
        if self.limits.turns.is_some_and(|most| asked >= most) {
            return Some(End::Turns);
        }
        self.limits.dollars.is_some_and(|most| ledger.dollars() >= most).then_some(End::Budget)
    }

    async fn ask(
        &mut self,
        messages: &[Message],
        hands: &impl Hands,
        interrupt: &Interrupt,
        report: &mut (dyn FnMut(Step) + Send),
    ) -> Result<Answer, End> {
        loop {
            let mut request = self.request.clone();
            request.messages = messages.to_vec();
            request.tools = hands.tools().to_vec();
            report(Step::Asked { model: request.model.clone() });
            let mut heard = |event| report(Step::Arrived(event));
            let answer = tokio::select! {
                answer = self.client.ask(&request, &mut heard) => answer,
                () = interrupt.given() => return Err(End::Interrupted { in_tools: false }),
            };
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let gave_up = matches!(error, Error::GaveUp { .. } | Error::Wait { .. });
            match self.fallback.take().filter(|it| gave_up && *it != self.request.model) {
                Some(to) => {
                    let from = std::mem::replace(&mut self.request.model, to.clone());
                    report(Step::FellBack { from, to });
                }
                None => return Err(End::Failed(error)),
            }
        }
    }
}

/// Adds blocks to the last message of the user, or a message of its own.
fn add(messages: &mut Vec<Message>, blocks: Vec<Block>, report: &mut (dyn FnMut(Step) + Send)) {
    if blocks.is_empty() {
        return;
    }
    report(Step::Added(blocks.clone()));
    match messages.last_mut().filter(|last| last.role == Role::User) {
        Some(last) => last.blocks.extend(blocks),
        None => messages.push(Message { role: Role::User, blocks }),
    }
}

/// Returns the end of a turn whose last request got no answer; the conversation says where the person stopped it.
fn unanswered(end: End, messages: &mut Vec<Message>, report: &mut (dyn FnMut(Step) + Send)) -> End {
    if matches!(end, End::Interrupted { .. }) {
        add(messages, vec![Block::Text(STOPPED.into())], report);
    }
    end
}

/// Returns names and inputs of calls, and whether each was wrong.
fn names_of(calls: &[calls::Sent]) -> Vec<(String, Value, bool)> {
    let named =
        |it: &calls::Sent| (it.call.name.clone(), it.call.input.clone(), it.wrong.is_some());
    calls.iter().map(named).collect()
}

fn text_of(message: &Message) -> String {
    let texts = message.blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        Block::Image(_) | Block::Thinking(_) | Block::Call { .. } | Block::Outcome(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Counts calls that were wrong in a row.
#[derive(Debug, Default)]
struct Wrong {
    invalid: u32,
    failing: Option<(String, Value, u32)>,
}

impl Wrong {
    /// Returns why the turn ends, if the model goes on with what does not work.
    fn count(&mut self, calls: &[(String, Value, bool)], done: &[Done]) -> Option<String> {
        for ((name, input, is_wrong), done) in calls.iter().zip(done) {
            self.invalid = if *is_wrong { self.invalid + 1 } else { 0 };
            let Outcome { is_error, .. } = &done.outcome;
            self.failing = match self.failing.take() {
                _ if !is_error || *is_wrong => None,
                Some((of, with, times)) if of == *name && with == *input => {
                    Some((of, with, times + 1))
                }
                Some(_) | None => Some((name.clone(), input.clone(), 1)),
            };
        }
        if self.invalid >= WRONG {
            return Some(format!("the model sent {WRONG} invalid tool calls in a row"));
        }
        let (name, _, _) = self.failing.as_ref().filter(|(_, _, times)| *times >= WRONG)?;
        Some(format!("the model repeated a failing call of `{name}` {WRONG} times"))
    }
}
