//! Answers for the kernel where mounts and Landlock have no word: names that do not exist yet, and
//! sockets by path.
//!
//! Pid 1 of a run does this. The filter sends it the calls that make, link, rename or open for writing,
//! and `connect`. It copies the arguments once, resolves them itself, compares what it opened, performs
//! the act on its own descriptors and answers with the result. It never lets the kernel go on with
//! arguments that the caller could change meanwhile, and it has no more rights to files than the caller.

mod act;
mod address;
mod attributes;
mod caller;
mod configuration;
mod fold;
mod found;
mod guard;
mod history;
mod inspection;
mod leads;
mod modes;
mod names;
pub(crate) mod neighbours;
mod numerous;
mod part;
mod repository;
mod resolve;
mod review;
mod shared;

use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use stockade_kernel::bpf::{Table, Verdict};
use stockade_kernel::seccomp;
use stockade_kernel::syscalls::{self, Fork, Notification};
use stockade_spec::{SandboxSpec, Violation};

use configuration::Keys;
pub(crate) use found::Found;
use found::Turns;
pub(crate) use guard::Guard;
use history::History;
pub(crate) use inspection::{InspectedDirectory, cut_short, from_outside};
use leads::Leads;
use modes::Modes;
pub(crate) use neighbours::Neighbours;
use numerous::Numerous;
use repository::Made;
pub(crate) use review::Review;
use shared::Shared;

/// Most distinct refusals that are kept.
const MOST_VIOLATIONS: usize = 100;

/// How a call is answered.
enum CallResult {
    /// Its result.
    Value(i64),
    /// A new descriptor of the caller.
    Descriptor { file: OwnedFd, close_on_exec: bool },
    /// An act that may block: done by a process of its own.
    Wait(Blocking),
}

/// An act that may block.
enum Blocking {
    Open {
        object: OwnedFd,
        flags: i32,
    },
    Truncate {
        object: OwnedFd,
        length: u64,
    },
    /// `object` is what the address names by descriptor.
    Connect {
        socket: OwnedFd,
        address: Vec<u8>,
        object: Option<OwnedFd>,
    },
}

/// Why a call is not performed.
enum Refused {
    /// With this error number, as the kernel would.
    Errno(i32),
    /// By a rule.
    Rule(Box<Violation>),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        // An error without a number is ours: the strict one.
        Refused::Errno(error.raw_os_error().unwrap_or(libc::EPERM))
    }
}

/// The supervisor of one run.
pub(crate) struct Supervisor {
    listener: OwnedFd,
    guard: Guard,
    numerous: Numerous,
    made: Made,
    turns: Turns,
    history: History,
    modes: Modes,
    shared: Shared,
    leads: Leads,
    /// Of a run that has its loopback interface with others.
    neighbours: Option<Neighbours>,
    /// Stands for the shared memory of the host where there is no mount over it.
    shared_memory: Option<PathBuf>,
    terminal: Option<OwnedFd>,
    /// Files among the three streams.
    streams: Vec<OwnedFd>,
    /// Review of the changes that the run makes to watched files.
    review: Review,
    /// Keys that a configuration made by the run may set.
    keys: Keys,
    /// The filter, to know what it refuses.
    table: &'static Table,
    violations: Vec<Violation>,
    /// Refusals that found no room among them.
    unlisted: u32,
    workers: Vec<(i32, u64)>,
    /// The report of a caller that has no descriptor left.
    too_many_descriptors: Violation,
}

impl Supervisor {
    pub(crate) fn new(
        listener: OwnedFd,
        spec: &SandboxSpec,
        table: &'static Table,
        terminal: Option<OwnedFd>,
        streams: Vec<OwnedFd>,
        monitor: UnixStream,
        (review, found): (Review, Found),
    ) -> Supervisor {
        syscalls::take_turns(listener.as_fd());
        Supervisor {
            listener,
            guard: Guard::new(spec),
            numerous: Numerous::new(spec),
            made: Made::new(monitor, found.lines),
            turns: found.turns,
            history: History::new(spec),
            modes: found.modes,
            shared: Shared::default(),
            leads: Leads::new(spec),
            neighbours: None,
            shared_memory: None,
            terminal,
            streams,
            review,
            keys: Keys::new(spec),
            table,
            violations: Vec::new(),
            unlisted: 0,
            workers: Vec::new(),
            too_many_descriptors: stockade_spec::violation::too_many_descriptors(&spec.limits),
        }
    }

    /// Returns it for a run whose loopback interface `neighbours` share.
    pub(crate) fn with_neighbours(mut self, neighbours: Option<Neighbours>) -> Supervisor {
        self.neighbours = neighbours;
        self
    }

    /// Returns it for a run that changes `caches` of the host for itself.
    pub(crate) fn with_caches(mut self, caches: Vec<PathBuf>) -> Supervisor {
        self.guard.add_caches(caches);
        self
    }

    /// Returns it for a run without mounts, whose `private` directory is all that is its own.
    pub(crate) fn without_mounts(mut self, private: Option<PathBuf>) -> Supervisor {
        self.shared_memory = private.as_deref().map(shared_memory);
        self.guard.guard_alone(private);
        self
    }

    /// Returns the descriptor that is readable when a call waits.
    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers one call.
    pub(crate) fn serve(&mut self) -> io::Result<()> {
        let call = match syscalls::receive_notification(self.listener.as_fd()) {
            // The caller died, or a signal came, between the wait and this.
            Err(error) if is_gone(&error) => return Ok(()),
            result => result?,
        };
        let performed = self.turns.during(|| act::perform(self, &call));
        let result = performed.unwrap_or_else(|error| Err(error.into()));
        let answered = match result {
            Ok(CallResult::Value(value)) => self.answer(&call, Ok(value)),
            Ok(CallResult::Descriptor { file, close_on_exec }) => {
                match syscalls::answer_with_descriptor(
                    self.listener.as_fd(),
                    call.id,
                    file,
                    close_on_exec,
                ) {
                    // Its table of descriptors is full.
                    Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                        self.note(by(self.too_many_descriptors.clone(), call.thread));
                        self.answer(&call, Err(libc::EMFILE))
                    }
                    result => result,
                }
            }
            Ok(CallResult::Wait(act)) => self.start_worker(&call, act),
            Err(Refused::Errno(number)) => self.answer(&call, Err(number)),
            Err(Refused::Rule(violation)) => {
                let number = violation.errno;
                self.note(by(*violation, call.thread));
                self.answer(&call, Err(number))
            }
        };
        match answered {
            Err(error) if is_gone(&error) => Ok(()),
            result => result,
        }
    }

    /// Ends workers whose callers are gone; called from time to time.
    pub(crate) fn tidy(&mut self) {
        let listener = self.listener.as_fd();
        self.workers.retain(|(pid, id)| {
            let waiting = syscalls::is_waiting(listener, *id);
            if !waiting {
                // The worker may have ended already. A worker that is just answering does not take this signal: if it
                // ended then, the kernel would answer with 0 in its place.
                let _ = syscalls::kill(*pid, libc::SIGTERM);
            }
            waiting
        });
    }

    /// Forgets a worker that was reaped; a call that it left without an answer is interrupted.
    pub(crate) fn reaped(&mut self, pid: i32) {
        let listener = self.listener.as_fd();
        for (_, id) in self.workers.iter().filter(|(worker, _)| *worker == pid) {
            if syscalls::is_waiting(listener, *id) {
                // The caller may have ended meanwhile.
                let _ = syscalls::answer(listener, *id, Err(libc::EINTR));
            }
        }
        self.workers.retain(|(worker, _)| *worker != pid);
    }

    /// Returns what was refused by rules, and what the run left behind that must not stay as it is. Nothing
    /// of the run may live any more.
    pub(crate) fn into_violations(self) -> Vec<Violation> {
        let mut violations = self.violations;
        let inspect = || {
            let planted = self.made.inspect(&self.keys, &self.guard);
            planted.into_iter().chain(self.modes.restore()).collect::<Vec<_>>()
        };
        // If the lock cannot be had, the inspection takes place without it.
        violations.extend(self.turns.during(inspect).unwrap_or_else(|_| inspect()));
        if let Err(error) = self.review.end() {
            let rule = format!("its journal could not be ended: {error}");
            violations.push(cut_short("supervisor", "the run".to_owned(), &rule));
        }
        if self.unlisted > 0 {
            violations.push(Violation {
                kind: "more".to_owned(),
                call: "others".to_owned(),
                rule: format!("builtin: {} more refusals are not listed", self.unlisted),
                count: self.unlisted,
                source: "supervisor".to_owned(),
                ..Violation::default()
            });
        }
        violations
    }

    /// Returns the refusal of a call that the filter refuses by its number and arguments.
    fn refused_call(&self, call: &Notification) -> Option<Refused> {
        let number = u32::try_from(call.number).ok()?;
        let Verdict::Refuse(errno) = self.table.decide(number, call.arguments) else { return None };
        Some(Refused::Rule(Box::new(Violation {
            kind: "syscall".to_owned(),
            call: seccomp::name(call.number),
            object: argument_of(call),
            rule: "builtin: system calls".to_owned(),
            count: 1,
            errno,
            source: "filter".to_owned(),
            ..Violation::default()
        })))
    }

    /// Forgets what is known of an object that has just lost a name; `found` is what it was before.
    fn lost(&self, found: &Metadata) {
        self.made.forget(found);
        self.shared.unlinked(found);
    }

    fn answer(&self, call: &Notification, result: Result<i64, i32>) -> io::Result<()> {
        syscalls::answer(self.listener.as_fd(), call.id, result)
    }

    fn start_worker(&mut self, call: &Notification, act: Blocking) -> io::Result<()> {
        match syscalls::fork(0) {
            Err(_) => self.answer(call, Err(libc::EAGAIN)),
            Ok(Fork::Parent(pid)) => {
                self.workers.push((pid, call.id));
                Ok(())
            }
            Ok(Fork::Child) => {
                let listener = self.listener.as_fd();
                let result = act::block(&act);
                let signals: Vec<i32> = (1..=31).collect();
                let masked = syscalls::signal_set(&signals)
                    .and_then(|signals| syscalls::set_signal_mask(&signals));
                let answered = match masked.and(result) {
                    Ok(CallResult::Descriptor { file, close_on_exec }) => {
                        syscalls::answer_with_descriptor(listener, call.id, file, close_on_exec)
                    }
                    Ok(CallResult::Value(value)) => syscalls::answer(listener, call.id, Ok(value)),
                    Ok(CallResult::Wait(_)) => {
                        syscalls::answer(listener, call.id, Err(libc::EPERM))
                    }
                    Err(error) => {
                        let number = error.raw_os_error().unwrap_or(libc::EPERM);
                        syscalls::answer(listener, call.id, Err(number))
                    }
                };
                syscalls::exit_now(i32::from(answered.is_err()))
            }
        }
    }

    fn note(&mut self, violation: Violation) {
        let has_room = self.violations.len() < MOST_VIOLATIONS;
        let same = self.violations.iter_mut().find(|known| {
            known.kind == violation.kind
                && known.call == violation.call
                && known.object == violation.object
        });
        match same {
            Some(known) => known.count = known.count.saturating_add(1),
            None if has_room => self.violations.push(violation),
            None => self.unlisted = self.unlisted.saturating_add(1),
        }
    }
}

/// Returns the directory that stands for `/dev/shm` in the private directory of a run without mounts.
pub(crate) fn shared_memory(private: &Path) -> PathBuf {
    private.join(".shm")
}

/// Returns what tells one refused use of a call from another, for those that have many uses.
fn argument_of(call: &Notification) -> String {
    let argument = |index: usize| call.arguments.get(index).copied().unwrap_or(0) & 0xFFFF_FFFF;
    match libc::c_long::from(call.number) {
        libc::SYS_ioctl => format!("command {:#x}", argument(1)),
        libc::SYS_prctl => format!("option {}", argument(0)),
        libc::SYS_socket | libc::SYS_socketpair => {
            format!("family {}, type {}, protocol {}", argument(0), argument(1) & 0xF, argument(2))
        }
        _ => String::new(),
    }
}

/// Adds who tried it.
fn by(mut violation: Violation, thread: u32) -> Violation {
    let name = std::fs::read(format!("/proc/{thread}/comm")).unwrap_or_default();
    violation.program = String::from_utf8_lossy(&name).trim_end().to_owned();
    violation.pid = thread;
    violation
}

/// Says whether an error only means that the caller no longer waits.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR | libc::EINPROGRESS))
}
