//! A command that is followed: what came to it so far, and what is to be told of it.

use tokio::sync::mpsc::Permit;

use super::{Manner, Stop, Task};
use crate::control::SIGINT;
use crate::protocol::tasks::TaskState;
use crate::protocol::types::{Control, Event, Window};
use crate::request;
use stockade_output::streams::Streams;
use stockade_output::terminal::Terminal;

/// A command between its start and its end.
pub(super) struct Followed<'a> {
    stop: &'a Stop,
    terminal: Option<&'a Terminal>,
    manner: &'a Manner,
    /// A task that may go to the background, or begins there.
    task: Option<&'a mut Task>,
    pub(super) streams: Streams,
    /// The event about its move to the background, until it is sent.
    pub(super) announced: Option<Event>,
    /// Its time limit is to come.
    pub(super) has_limit: bool,
    pub(super) timed_out: bool,
    pub(super) interrupted: bool,
    stopped: bool,
    /// The front end takes events.
    pub(super) listening: bool,
    /// The front end may send something yet.
    pub(super) commanded: bool,
}

impl<'a> Followed<'a> {
    pub(super) fn new(
        stop: &'a Stop,
        terminal: Option<&'a Terminal>,
        streams: Streams,
        manner: &'a Manner,
        task: Option<&'a mut Task>,
    ) -> Followed<'a> {
        Followed {
            stop,
            terminal,
            manner,
            task,
            streams,
            announced: None,
            has_limit: manner.timeout.is_some(),
            timed_out: false,
            interrupted: false,
            stopped: false,
            listening: true,
            commanded: true,
        }
    }

    /// Notes who watches a task, and has one that begins in the background go there.
    pub(super) fn begins_below(&mut self, monitor: u32) {
        if let Some(task) = self.task.as_deref_mut() {
            task.folder.runs_below(monitor);
        }
        if self.task.as_ref().is_some_and(|task| task.begins_so) {
            self.announced = self.move_to_background();
        }
    }

    /// Says whether something waits to be sent.
    pub(super) fn is_sending(&self) -> bool {
        self.streams.pending.is_some() || self.announced.is_some()
    }

    /// Says whether it was told to end.
    pub(super) fn is_to_end(&self) -> bool {
        self.timed_out || self.stopped
    }

    /// Its time is over: it goes to the background where it may, or ends.
    pub(super) fn reach_limit(&mut self) {
        self.has_limit = false;
        if self.manner.goes_on {
            self.announced = self.move_to_background();
        }
        if self.announced.is_none() {
            self.timed_out = true;
            self.stop.end();
        }
    }

    /// Does what the front end wants; it may be gone.
    pub(super) fn obey(&mut self, control: Option<Control>) {
        match control {
            Some(Control::Signal(number)) => {
                self.interrupted |= number == SIGINT;
                self.stop.signal(number);
            }
            Some(Control::Stop) => {
                (self.interrupted, self.stopped) = (true, true);
                self.stop.end();
            }
            Some(Control::Background) => {
                if let Some(event) = self.move_to_background() {
                    (self.announced, self.has_limit) = (Some(event), false);
                }
            }
            Some(Control::Resize(window)) => self.resize(window),
            None => self.commanded = false,
        }
    }

    fn resize(&mut self, window: Window) {
        let Some(terminal) = self.terminal else { return };
        let stockade_spec::Window { rows, columns } = request::size(Some(window));
        let size = Window { rows, columns };
        terminal.resize(size);
        if let Some(task) = self.task.as_deref_mut() {
            task.folder.has_window(size);
        }
    }

    /// Sends what waits; without a `permit` the front end is gone.
    pub(super) fn send(&mut self, permit: Option<Permit<'_, Event>>) {
        match permit {
            Some(permit) => {
                if let Some(event) = self.streams.pending.take().or_else(|| self.announced.take()) {
                    permit.send(event);
                }
            }
            None => {
                // Its command ends, too.
                (self.listening, self.interrupted, self.stopped) = (false, true, true);
                (self.streams.pending, self.announced) = (None, None);
                self.stop.end();
            }
        }
    }

    /// Ends it when it wrote more than is kept, where that is the end.
    pub(super) fn stop_beyond_limit(&mut self) {
        if self.manner.kept.stops && !self.stopped && self.streams.collector.is_over() {
            self.stopped = true;
            self.stop.end();
        }
    }

    /// Moves it to the background: its output goes to its file whole. Returns the message about it; nothing where that
    /// cannot be, or is so already.
    fn move_to_background(&mut self) -> Option<Event> {
        let task = self.task.as_deref_mut();
        let task = task.filter(|task| task.begins_so || !task.folder.is_task())?;
        task.begins_so = false;
        let view = task.folder.begin(TaskState::Running, "it runs").ok()?;
        self.streams.collector.keep_all();
        Some(Event::Background(Box::new(view)))
    }
}
