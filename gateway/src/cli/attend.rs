//! A command is attended to: output, input, signals and questions are passed on between this process and the gateway, which is
//! another process or this one.

use std::future::poll_fn;
use std::task::Poll;

use stockade_kernel::let_through;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::ask::{Terminal, WITHDRAWAL, Withdrawal};
use super::failure;
use super::interrupts::{Interrupts, Meant, heard, waited};
use super::streams::{
    BackgroundKey, Keyboard, Keys, Printer, Quiet, Show, read_stdin, unread, window,
};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::types::{Answer, CommandRequest, Control, RunOutcome};
use crate::protocol::words;
use crate::route::{Options, Route};
use stockade_client::left;
use stockade_wire::conversation::{Conversation, PendingQuestion};

/// Places for messages to the command, and those of them that are kept for signals.
const MESSAGES: usize = 16;
const ROOM: usize = 8;
/// Events that the printer may have before it.
const EVENTS: usize = 64;
/// Pieces of input that may have been read before they are taken.
const PIECES: usize = 4;
/// Questions that may wait for the one that a person is reading: more of them hold output up.
const QUESTIONS: usize = 64;

/// Outcome of a command, and why output could not be passed on, if that was so.
pub(super) type Attended = (RunOutcome, Option<std::io::Error>);

/// Has the gateway that `options` name run `request`, or is that gateway, with the person at `terminal` for its questions.
pub(super) fn attend(
    options: Options,
    request: CommandRequest,
    terminal: Option<Terminal>,
    show: Show,
) -> Result<Attended, Failure> {
    // Before signals are heard: a gateway that takes no connections is waited for.
    let reached = Route::reach(&options)?;
    // On the heap from the beginning: as a value it would be copied, twice its size of the stack touched.
    super::wait(Box::pin(async {
        let keyboard = Keyboard::of(&request)?;
        let keys = keyboard.as_ref().map(Keyboard::keys);
        let background = terminal.as_ref().and_then(|_| BackgroundKey::of(&request));
        let signals = Signals::listen(keys.as_ref(), background)?;
        let mut client = match reached {
            Some(client) => client,
            None => Route::embedded(Options { runs: true, ..options }).await?,
        };
        let told = converse(&mut client, request, signals, terminal, show, keys).await;
        client.close().await;
        told
    }))?
}

/// Runs the command, and meanwhile passes on output, input, signals and questions.
async fn converse(
    client: &mut Route,
    request: CommandRequest,
    signals: Signals,
    terminal: Option<Terminal>,
    show: Show,
    keys: Option<Keys>,
) -> Result<Attended, Failure> {
    let (events, shown) = mpsc::channel(EVENTS);
    let (input_in, input) = mpsc::channel(PIECES);
    let (control_in, control) = mpsc::channel(MESSAGES);
    let (asking, asked) = mpsc::channel(QUESTIONS);
    let printer = Printer::new(shown, control_in.clone(), show, keys.clone());
    match keys {
        Some(keys) => keys.read(input_in)?,
        None if request.stdin => read_stdin(input_in)?,
        None => {}
    }
    let questions = terminal.is_some().then_some(asking);
    let mut attendance = Attendance {
        printer,
        signals,
        terminal,
        asked,
        answering: None,
        control: control_in,
        has_terminal: request.pty,
        is_elsewhere: client.is_elsewhere(),
        left: false,
    };
    let running = client.run(request, Conversation { events, questions, input, control });
    let outcome = attendance.finish(running).await;
    Ok((outcome, attendance.passed_on().await))
}

struct Attendance {
    printer: Printer,
    signals: Signals,
    terminal: Option<Terminal>,
    asked: mpsc::Receiver<PendingQuestion>,
    answering: Option<Answering>,
    control: mpsc::Sender<Control>,
    /// The command has a terminal.
    has_terminal: bool,
    /// The gateway is another process.
    is_elsewhere: bool,
    /// Nobody wants to wait any more.
    left: bool,
}

impl Attendance {
    async fn finish(&mut self, running: impl Future<Output = RunOutcome>) -> RunOutcome {
        tokio::pin!(running);
        let outcome = loop {
            // A gateway of this process writes the record first; another one does that alone.
            if self.left && self.is_elsewhere {
                break RunOutcome::Failed(left());
            }
            let Attendance { printer, signals, asked, answering, .. } = self;
            let patience = signals.interrupts.patience();
            tokio::select! {
                outcome = &mut running => break outcome,
                () = printer.wait() => {}
                Some(pending) = asked.recv(), if answering.is_none() => self.ask(pending),
                answer = answered(answering) => self.answer(answer),
                () = waited(patience), if !self.left => self.leave(),
                sent = signals.next() => self.signalled(sent).await,
            }
        };
        if let Some(answering) = self.answering.take() {
            answering.withdraw().await;
        }
        self.printer.resume();
        outcome
    }

    /// Shows a question.
    fn ask(&mut self, pending: PendingQuestion) {
        // Output of the command must not look like the question meanwhile, or hide it.
        self.printer.pause();
        let start = |terminal| Answering::start(terminal, pending, self.printer.quiet());
        self.answering = self.terminal.clone().and_then(start);
        if self.answering.is_none() {
            self.printer.resume();
        }
    }

    /// Passes on the answer of a person.
    fn answer(&mut self, answer: Answer) {
        self.printer.resume();
        if let Some(Answering { pending, .. }) = self.answering.take() {
            let _ = pending.answer.send(answer); // a question withdrawn meanwhile needs no answer
        }
    }

    /// Waits for nothing more that is still told. The command was told to end.
    fn leave(&mut self) {
        self.left = true;
        self.printer.leave();
    }

    /// Does what a signal means while the command runs.
    async fn signalled(&mut self, sent: Sent) {
        match sent {
            Sent::Resized => {
                let size = window().filter(|_| self.has_terminal);
                // Only what is taken at once: sizes must not stand in the way of signals.
                if let Some(size) = size.filter(|_| self.control.capacity() > ROOM) {
                    self.tell(Control::Resize(size));
                }
            }
            Sent::Meant(Meant::Control(Control::Background)) if self.is_elsewhere => {
                self.tell(Control::Background);
            }
            Sent::Meant(Meant::Control(Control::Background)) => {
                self.printer.clear();
                failure::tell(words::NO_BACKGROUND);
            }
            Sent::Meant(meant) => {
                // Without a command yet the question goes away, and with it the request.
                if let Some(answering) = self.answering.take() {
                    answering.withdraw().await;
                }
                self.printer.resume();
                match meant {
                    Meant::Control(control) => self.tell(control),
                    Meant::Leave => self.leave(),
                }
            }
        }
    }

    fn tell(&self, control: Control) {
        let _ = self.control.try_send(control); // sixteen that nobody takes are enough
    }

    /// Waits until all output is passed on, unless nobody waits for it. Returns why it could not be, if that was so.
    async fn passed_on(&mut self) -> Option<std::io::Error> {
        // Nothing is known of the outcome, which says more.
        if self.left && self.is_elsewhere {
            return None;
        }
        while !self.left {
            let patience = self.signals.interrupts.patience();
            tokio::select! {
                // In this order: output that is passed on already is not missed.
                biased;
                lost = self.printer.end() => return lost,
                () = waited(patience) => self.left = true,
                sent = self.signals.next() => {
                    self.left = matches!(sent, Sent::Meant(Meant::Leave | Meant::Control(Control::Stop)));
                }
            }
        }
        Some(unread())
    }
}

/// A question that a person is reading; dropping it takes it back.
struct Answering {
    pending: PendingQuestion,
    reading: tokio::task::JoinHandle<Answer>,
    withdrawal: Withdrawal,
}

impl Answering {
    /// Puts it when the terminal is `quiet`; none when it cannot be put.
    fn start(terminal: Terminal, pending: PendingQuestion, quiet: Quiet) -> Option<Answering> {
        let question = pending.question.clone();
        let (withdrawal, withdrawn) = Withdrawal::new().ok()?;
        let reading = tokio::task::spawn_blocking(move || {
            quiet.wait();
            terminal.ask(&question, &withdrawn)
        });
        Some(Answering { pending, reading, withdrawal })
    }

    /// Takes the question back, and waits until the terminal is as it was.
    async fn withdraw(self) {
        drop((self.withdrawal, self.pending));
        // A terminal that takes nothing more is not waited for.
        let _ = tokio::time::timeout(WITHDRAWAL, self.reading).await;
    }
}

async fn answered(answering: &mut Option<Answering>) -> Answer {
    match answering {
        Some(answering) => (&mut answering.reading).await.unwrap_or(Answer::Withdrawn),
        None => std::future::pending().await,
    }
}

/// Meaning of a signal to this process.
enum Sent {
    /// Something for the command, or for who waits for it.
    Meant(Meant),
    /// The terminal has another size.
    Resized,
}

/// Signals to this process that are meant for the command, with their numbers.
struct Signals {
    heard: Vec<(i32, Signal)>,
    interrupts: Interrupts,
}

impl Signals {
    /// Hears those that matter with these `keys`.
    fn listen(keys: Option<&Keys>, background: Option<BackgroundKey>) -> Result<Signals, Failure> {
        let numbers = heard(keys, background.as_ref());
        let heard = numbers.iter().map(|it| Ok((*it, signal(SignalKind::from_raw(*it))?)));
        let heard = heard.collect::<std::io::Result<_>>();
        let heard = heard.and_then(|heard| let_through(&numbers).map(|()| heard));
        let heard = heard.map_err(|error| {
            Failure::new(Code::Internal, format!("cannot receive signals: {error}"), "")
        })?;
        Ok(Signals { heard, interrupts: Interrupts::new(background) })
    }

    async fn next(&mut self) -> Sent {
        let Signals { heard, interrupts } = self;
        let came = poll_fn(|context| {
            let came = |(number, signal): &mut (i32, Signal)| {
                signal.poll_recv(context).is_ready().then_some(*number)
            };
            heard.iter_mut().find_map(came).map_or(Poll::Pending, Poll::Ready)
        });
        interrupts.meant(came.await).map_or(Sent::Resized, Sent::Meant)
    }
}
