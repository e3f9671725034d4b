//! Protections that were really enforced.

use std::collections::BTreeMap;

macro_rules! protections {
    ($($name:ident $text:literal $help:literal,)*) => {
        /// Something a sandbox protects.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Protection { $(#[doc = $help] $name,)* }

        impl Protection {
            /// All protections.
            pub const ALL: &'static [Protection] = &[$(Protection::$name,)*];

            /// Returns the stable name, lower case with hyphens.
            pub fn name(self) -> &'static str {
                match self { $(Protection::$name => $text,)* }
            }

            /// Returns the protection with this name.
            pub fn from_name(name: &str) -> Option<Protection> {
                Protection::ALL.iter().copied().find(|protection| protection.name() == name)
            }

            /// Returns what it means, in one sentence.
            pub fn help(self) -> &'static str {
                match self { $(Protection::$name => $help,)* }
            }
        }
    };
}

protections! {
    WriteOutside "write-outside" "Files outside the writable regions cannot be written.",
    MetadataOutside "metadata-outside" "Mode, owner, times and attributes outside cannot be changed.",
    Protected "protected" "Protected files inside the writable regions cannot be written.",
    NoRead "no-read" "Denied files cannot be read.",
    HiddenNames "hidden-names" "Nothing below a denied path can be seen.",
    Network "network" "No connection leaves but as the spec says.",
    Loopback "loopback" "The loopback interface is private.",
    UnixSockets "unix-sockets" "Sockets of the host cannot be reached.",
    Processes "processes" "Other processes cannot be seen, signalled or traced.",
    Ipc "ipc" "Shared memory and message queues are private.",
    Keyring "keyring" "Kernel keyrings cannot be reached.",
    KernelSettings "kernel-settings" "Kernel settings cannot be written.",
    Privilege "privilege" "No capability and no set-id program gives rights.",
    Syscalls "syscalls" "Dangerous system calls are refused.",
    Limits "limits" "Processes, memory, files and descriptors are limited.",
    Env "env" "The environment is built anew.",
    Fds "fds" "Only descriptors 0, 1 and 2 are passed.",
    Tty "tty" "Terminal input cannot be injected.",
    Survivors "survivors" "Nothing outlives the run.",
}

/// Result for one protection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Enforced, by these layers.
    Enforced(Vec<String>),
    /// Enforced but for what the text says.
    Partial(String),
    /// Not enforced, and why.
    Missing(String),
    /// Switched off by this setting.
    Off(String),
}

/// Result for each protection, reported by the launcher from steps that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Enforced {
    /// The state of each protection; one that is not there is missing.
    pub states: BTreeMap<Protection, State>,
    /// Restrictions beyond the spec, one plain sentence each: why a write may fail.
    pub notes: Vec<String>,
}

impl Enforced {
    /// Says whether `protection` is enforced as far as what is required goes: fully, but for limits, which are kept
    /// for each process and sampled for the tree where no control group is delegated.
    pub fn suffices(&self, protection: Protection) -> bool {
        let sampled = protection == Protection::Limits
            && matches!(self.states.get(&protection), Some(State::Partial(_)));
        sampled || self.holds(protection)
    }

    /// Says whether `protection` is fully enforced.
    pub fn holds(&self, protection: Protection) -> bool {
        matches!(self.states.get(&protection), Some(State::Enforced(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_holds_fully_and_limits_at_least_for_each_process() {
        let states = [
            State::Enforced(vec!["a layer".to_owned()]),
            State::Partial("something is open".to_owned()),
            State::Missing("no layer".to_owned()),
            State::Off("a setting".to_owned()),
        ];
        let seen = |protection: Protection| {
            states.clone().map(|state| {
                let states = BTreeMap::from([(protection, state)]);
                Enforced { states, notes: Vec::new() }.suffices(protection)
            })
        };
        for protection in Protection::ALL {
            let partly = *protection == Protection::Limits;
            assert_eq!(seen(*protection), [true, partly, false, false], "{protection:?}");
            assert!(!Enforced::default().suffices(*protection), "{protection:?}");
        }
    }
}
