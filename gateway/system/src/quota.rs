//! Shares of the listener: how many connections one user has at once, and how fast new ones go on.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Most connections of one user, those that wait among them.
pub(crate) const MOST: usize = 256;
/// So many go on at once,
const BURST: u32 = 256;
/// and then one more in this time: 64 in each second.
const EACH: Duration = Duration::from_micros(15_625);
/// So many tickets of one user, and twice as many as were open at the last look, wait until they are looked at: one that comes and
/// goes all the time leaves few descriptors behind.
const FEW: usize = 8;
/// Most users at once.
const MOST_USERS: usize = 4096;

/// A connection that was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) stream: UnixStream,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
    /// The process that made it; none where the kernel has no such descriptors.
    pub(crate) process: Option<OwnedFd>,
}

/// The connections of one user.
#[derive(Debug)]
struct User {
    /// The other end of each ticket: it closes when nobody serves that connection any more.
    tickets: Vec<OwnedFd>,
    /// With so many tickets they are looked at.
    look_at: usize,
    waiting: VecDeque<Taken>,
    /// How many go on at once, counted up to here.
    left: u32,
    counted: Instant,
}

/// All users that have connections, or had some a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    users: HashMap<u32, User>,
}

impl Quota {
    /// Puts a connection in line; gives it back where its user has too many.
    pub(crate) fn admit(&mut self, taken: Taken, now: Instant) -> Result<(), Taken> {
        let uid = taken.uid;
        if self.users.len() >= MOST_USERS && !self.users.contains_key(&uid) {
            self.forget(now);
            if self.users.len() >= MOST_USERS {
                return Err(taken);
            }
        }
        let user = self.users.entry(uid).or_insert_with(|| User::new(now));
        if user.count() >= MOST {
            user.look();
        }
        if user.count() >= MOST {
            return Err(taken);
        }
        user.waiting.push_back(taken);
        Ok(())
    }

    /// Returns the connections that may go on now. Those whose process ended meanwhile are dropped.
    pub(crate) fn ready(&mut self, now: Instant) -> Vec<Taken> {
        let mut ready = Vec::new();
        for user in self.users.values_mut() {
            user.count_up(now);
            while user.left > 0
                && let Some(taken) = user.waiting.pop_front()
            {
                if taken.process.as_ref().is_none_or(|it| !has_ended(it, PollFlags::IN)) {
                    user.left = user.left.saturating_sub(1);
                    ready.push(taken);
                }
            }
        }
        ready
    }

    /// Counts a connection as served as long as the other end of `ticket` is open.
    pub(crate) fn served(&mut self, uid: u32, ticket: OwnedFd) {
        if let Some(user) = self.users.get_mut(&uid) {
            user.tickets.push(ticket);
            if user.tickets.len() >= user.look_at {
                user.look();
            }
        }
    }

    /// Drops what has ended, and users of whom nothing is left.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.users.retain(|_, user| {
            user.look();
            user.count_up(now);
            user.count() > 0 || user.left < BURST
        });
    }

    /// Returns how long to wait when nothing comes: none where there is nobody.
    pub(crate) fn pause(&self) -> Option<Duration> {
        match self.users.values().any(|user| !user.waiting.is_empty()) {
            true => Some(EACH),
            false => (!self.users.is_empty()).then_some(Duration::from_secs(1)),
        }
    }
}

impl User {
    fn new(now: Instant) -> User {
        let (tickets, waiting) = (Vec::new(), VecDeque::new());
        User { tickets, look_at: FEW, waiting, left: BURST, counted: now }
    }

    fn count(&self) -> usize {
        self.tickets.len().saturating_add(self.waiting.len())
    }

    fn look(&mut self) {
        self.tickets.retain(|ticket| !has_ended(ticket, PollFlags::empty()));
        self.look_at = self.tickets.len().saturating_mul(2).max(FEW);
    }

    fn count_up(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.counted).as_micros();
        let more =
            u32::try_from(passed.checked_div(EACH.as_micros()).unwrap_or(0)).unwrap_or(BURST);
        self.left = self.left.saturating_add(more).min(BURST);
        self.counted = self.counted.checked_add(EACH.saturating_mul(more)).unwrap_or(now);
    }
}

/// Says whether the other end is closed, or the process has ended.
fn has_ended(descriptor: &OwnedFd, what: PollFlags) -> bool {
    let mut events = [PollFd::new(descriptor, what)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut events, Some(&at_once)).is_ok_and(|ended| ended > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(uid: u32) -> Taken {
        let (stream, _) = UnixStream::pair().unwrap();
        Taken { stream, uid, gid: uid, pid: 1, process: None }
    }

    #[test]
    fn a_user_has_a_share_and_takes_nothing_of_another() {
        let (mut quota, now) = (Quota::default(), Instant::now());
        let mut open = Vec::new();
        for _ in 0..MOST {
            quota.admit(taken(1), now).unwrap();
            for taken in quota.ready(now) {
                let (own, theirs) = rustix::pipe::pipe().unwrap();
                quota.served(taken.uid, own);
                open.push(theirs);
            }
        }
        assert_eq!(open.len(), MOST);
        assert!(quota.admit(taken(1), now).is_err(), "one too many");
        quota.admit(taken(2), now).unwrap();
        assert_eq!(quota.ready(now).iter().map(|it| it.uid).collect::<Vec<_>>(), [2]);
        // One that ends makes room, and goes on only when its time has come.
        open.pop();
        quota.admit(taken(1), now).unwrap();
        assert_eq!(quota.ready(now).len(), 0);
        assert_eq!(quota.pause(), Some(EACH));
        assert_eq!(quota.ready(now + EACH).len(), 1);
        // Nobody is remembered of whom nothing is left.
        drop(open);
        quota.forget(now + Duration::from_secs(60));
        assert_eq!(quota.pause(), None);
    }

    #[test]
    fn a_user_who_comes_and_goes_all_the_time_leaves_few_descriptors() {
        let (mut quota, mut now) = (Quota::default(), Instant::now());
        let mut most = 0;
        let (own, _stays) = rustix::pipe::pipe().unwrap();
        quota.admit(taken(1), now).unwrap();
        quota.served(1, own);
        for _ in 0..1000 {
            now += EACH;
            quota.admit(taken(1), now).unwrap();
            for taken in quota.ready(now) {
                let (own, _ends) = rustix::pipe::pipe().unwrap();
                quota.served(taken.uid, own);
            }
            most = most.max(quota.users.get(&1).unwrap().tickets.len());
        }
        assert_eq!(most, FEW - 1);
    }

    #[test]
    fn a_connection_whose_process_ended_while_it_waited_goes_nowhere() {
        let (mut quota, now) = (Quota::default(), Instant::now());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let process =
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        quota.admit(Taken { process: Some(process), ..taken(1) }, now).unwrap();
        assert_eq!(quota.ready(now).len(), 0);
        assert_eq!(quota.users.get(&1).unwrap().count(), 0);
    }
}
