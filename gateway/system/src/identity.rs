//! The identity of a process: user, group and further groups, as the kernel has them.

use std::io;
use std::os::fd::AsFd;

use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

/// A user as a process is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Further groups, in order.
    pub groups: Vec<u32>,
}

impl Identity {
    /// Returns who connected at the other end of `socket`, as the kernel noted it in that moment.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    pub fn of_peer(socket: impl AsFd) -> io::Result<Identity> {
        let peer = rustix::net::sockopt::socket_peercred(socket.as_fd())?;
        let mut groups = stockade_kernel::peer_groups(socket.as_fd())?;
        groups.sort_unstable();
        groups.dedup();
        Ok(Identity { uid: peer.uid.as_raw(), gid: peer.gid.as_raw(), groups })
    }

    /// Returns the identity as one argument: `UID:GID:GROUP,GROUP`.
    pub fn word(&self) -> String {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        format!("{}:{}:{}", self.uid, self.gid, groups.join(","))
    }

    /// Reads what [`Identity::word`] made.
    pub fn read(word: &str) -> Option<Identity> {
        let mut parts = word.split(':');
        let (uid, gid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let groups = parts.next()?;
        let numbers = groups.split(',').filter(|it| !it.is_empty()).map(str::parse);
        let groups = numbers.collect::<Result<Vec<u32>, _>>().ok()?;
        parts.next().is_none().then_some(Identity { uid, gid, groups })
    }

    /// Makes this process, which is root and has one thread, this user and nothing else: no capability, no way back, and
    /// nobody of the same user looks into it.
    ///
    /// # Errors
    ///
    /// The process is not root, the user is, or something of root would be left.
    pub fn assume(&self) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Err(io::Error::other("this process is not root"));
        }
        if self.uid == 0 || self.uid == u32::MAX || self.gid == u32::MAX {
            return Err(io::Error::other("no gateway is root's"));
        }
        let groups: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        let nothing = CapabilitySet::empty();
        set_capabilities(
            None,
            CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing },
        )?;
        set_no_new_privs(true)?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        self.holds()
    }

    /// Checks, from what the kernel shows, that nothing is left of who this process was.
    fn holds(&self) -> io::Result<()> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = |name: &str| {
            let found = status.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'));
            found.map(|rest| rest.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let all = |name: &str, value: u32| line(name) == Some(vec![value.to_string(); 4]);
        let mut groups = self.groups.clone();
        groups.sort_unstable();
        let mut found: Vec<u32> =
            line("Groups").unwrap_or_default().iter().filter_map(|it| it.parse().ok()).collect();
        found.sort_unstable();
        let is_bare = ["CapPrm", "CapEff", "CapInh", "CapAmb"].iter().all(|name| {
            line(name).is_some_and(|it| it.iter().all(|it| it.bytes().all(|it| it == b'0')))
        });
        let can_return = set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_ok();
        match all("Uid", self.uid)
            && all("Gid", self.gid)
            && found == groups
            && is_bare
            && !can_return
        {
            true => Ok(()),
            false => Err(io::Error::other("rights of root are left")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_one_word_and_nothing_else_is() {
        for groups in [vec![], vec![4], vec![4, 27, 1000]] {
            let identity = Identity { uid: 1000, gid: 100, groups };
            assert_eq!(Identity::read(&identity.word()), Some(identity));
        }
        for word in ["", "0", "1:2", "1:2:3:4", "-1:2:", "1:2:x", "1:2:3,,x", "4294967296:1:"] {
            assert_eq!(Identity::read(word), None, "{word}");
        }
    }

    #[test]
    fn who_is_not_root_or_wants_root_becomes_nobody() {
        let root = Identity { uid: 0, gid: 0, groups: Vec::new() };
        assert!(root.assume().is_err());
        let unset = Identity { uid: u32::MAX, gid: 0, groups: Vec::new() };
        assert!(unset.assume().is_err());
    }
}
