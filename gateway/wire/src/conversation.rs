//! Channels between a front end and a gateway while one command runs.

use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, oneshot};

use super::types::{Answer, Control, Event, Input, Question};

/// Pieces of standard input that may be on the way; the gateway says when it has taken one.
pub const WINDOW: usize = 8;

/// A question with the channel for its answer; dropping the channel withdraws it.
#[derive(Debug)]
pub struct PendingQuestion {
    /// The question.
    pub question: Question,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Answer>,
    /// Where it is noted who gave it, if that is not the person at the call.
    pub whom: Whom,
}

/// Where it is noted who answered.
pub type Whom = Arc<Mutex<ByWhom>>;

/// User who answered from another terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByWhom {
    /// The identity of the question.
    pub question: Option<String>,
    /// The persons who approved where the managed settings say who may: user, name, and in whose place.
    pub approvers: Vec<(u32, String, Option<String>)>,
    /// The reason of who allowed it alone in an emergency.
    pub break_glass: Option<String>,
    /// Name of the person who answered, as the program says that passed the answer on.
    pub claimed: Option<String>,
}

/// Channels that a front end gives along with a command, to see it run and to act on it.
#[derive(Debug)]
pub struct Conversation {
    /// Output and notices go here; a full channel holds the command up.
    pub events: mpsc::Sender<Event>,
    /// Questions go here; without a receiver nobody can be asked.
    pub questions: Option<mpsc::Sender<PendingQuestion>>,
    /// Input for the command comes from here; its end is the end of standard input.
    pub input: mpsc::Receiver<Input>,
    /// Signals for the command come from here, also while its input is full; its end means nothing.
    pub control: mpsc::Receiver<Control>,
}
