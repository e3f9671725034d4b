//! Traces that one command leaves for the next: which of the protections against them hold on this machine. The table
//! in `docs/internals/threats.md` says the same for every machine.

use serde_json::{Value, json};
use stockade_spec::{Enforced, Protection, State};

/// How far commands are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Namespaces, and a supervisor that answers the calls that write.
    Supervised,
    /// Landlock, or mounts, and nobody who answers calls.
    Unsupervised,
    /// Nothing: no command runs, or it runs unconfined where the settings turn the sandbox off.
    Off,
}

/// One protection, with what is open without the supervisor, and with the sandbox off; nothing is where it holds.
struct Row {
    name: &'static str,
    unsupervised: &'static str,
    off: &'static str,
}

const ROWS: &[Row] = &[
    Row { name: "links-grant-nothing", unsupervised: "", off: "no command is confined" },
    Row {
        name: "links-of-denials-stay",
        unsupervised: "a command can remove or replace a link over which a rule refuses",
        off: "a command can remove or replace a link over which a rule refuses",
    },
    Row { name: "protected-trees-closed", unsupervised: "", off: "no command is confined" },
    Row { name: "known-programs", unsupervised: "", off: "" },
    Row { name: "hooks-apart", unsupervised: "", off: "" },
    Row { name: "yes-to-what-was-shown", unsupervised: "", off: "" },
    Row { name: "rules-from-everywhere", unsupervised: "", off: "rules see what the text names" },
    Row {
        name: "links-as-bait",
        unsupervised: "a command can make a link to what only the user reaches",
        off: "a command can make a link to what only the user reaches",
    },
    Row {
        name: "second-names",
        unsupervised: "a file is written, and its mode changed, by each of its names",
        off: "a file is written, and its mode changed, by each of its names",
    },
    Row {
        name: "no-credentials",
        unsupervised: "",
        off: "a command reads what the user reads; stockade asks about files that its text names",
    },
    Row {
        name: "settings-of-tools",
        unsupervised: "protected files in the project can be made, written and replaced",
        off: "protected files in the project can be made, written and replaced",
    },
    Row {
        name: "review",
        unsupervised: "what commands write is not seen; of agents' file tools it is",
        off: "what commands write is not seen; of agents' file tools it is",
    },
    Row {
        name: "next-command-starts",
        unsupervised: "a directory that a command closes stays closed",
        off: "a directory that a command closes stays closed",
    },
    Row { name: "tightening-is-inherited", unsupervised: "", off: "" },
];

/// Returns how far commands are confined; the settings may turn the sandbox off.
pub(super) fn level(enforced: &Enforced, is_off: bool) -> Level {
    if is_off {
        return Level::Off;
    }
    let layers = |protection| match enforced.states.get(&protection) {
        Some(State::Enforced(layers)) => layers.as_slice(),
        Some(State::Partial(_) | State::Missing(_) | State::Off(_)) | None => &[],
    };
    let is_supervised = layers(Protection::UnixSockets).iter().any(|layer| layer == "supervisor");
    match (is_supervised, layers(Protection::WriteOutside).is_empty()) {
        (true, _) => Level::Supervised,
        (false, false) => Level::Unsupervised,
        (false, true) => Level::Off,
    }
}

/// Returns each protection with what is open of it here; nothing where it holds.
fn rows(level: Level) -> impl Iterator<Item = (&'static str, &'static str)> {
    ROWS.iter().map(move |row| match level {
        Level::Supervised => (row.name, ""),
        Level::Unsupervised => (row.name, row.unsupervised),
        Level::Off => (row.name, row.off),
    })
}

/// Returns the lines of the report.
pub(super) fn lines(level: Level) -> Vec<String> {
    let line = |(name, open): (&str, &str)| match open {
        "" => format!("  {name:25} holds"),
        open => format!("  {name:25} open   {open}"),
    };
    rows(level).map(line).collect()
}

/// Returns the same for programs.
pub(super) fn object(level: Level) -> Value {
    let row =
        |(name, open): (&str, &str)| json!({"name": name, "holds": open.is_empty(), "open": open});
    rows(level).map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn machine(layers: &[(Protection, &str)]) -> Enforced {
        let state = |(protection, layer): &(Protection, &str)| {
            (*protection, State::Enforced(vec![(*layer).to_owned()]))
        };
        let states: BTreeMap<_, _> = layers.iter().map(state).collect();
        Enforced { states, ..Enforced::default() }
    }

    fn open(enforced: &Enforced) -> Vec<&'static str> {
        rows(level(enforced, false)).filter(|row| !row.1.is_empty()).map(|row| row.0).collect()
    }

    #[test]
    fn what_holds_depends_on_who_watches() {
        use Protection::{UnixSockets, WriteOutside};
        let supervised = machine(&[(WriteOutside, "mounts"), (UnixSockets, "supervisor")]);
        assert_eq!(open(&supervised), Vec::<&str>::new());
        let landlock = machine(&[(WriteOutside, "Landlock"), (UnixSockets, "system-call filter")]);
        let expected = [
            "links-of-denials-stay",
            "links-as-bait",
            "second-names",
            "settings-of-tools",
            "review",
            "next-command-starts",
        ];
        assert_eq!(open(&landlock), expected);
        let nothing = open(&machine(&[]));
        assert!(expected.iter().all(|name| nothing.contains(name)));
        assert!(nothing.len() < ROWS.len());
        // Settings that turn the sandbox off leave as much open on any machine.
        assert_eq!(level(&supervised, true), level(&machine(&[]), false));
    }

    #[test]
    fn the_documentation_has_a_row_for_each() {
        let page = include_str!("../../../../docs/internals/threats.md");
        for Row { name, .. } in ROWS {
            let count =
                page.lines().filter(|line| line.starts_with(&format!("| `{name}`"))).count();
            assert_eq!(count, 1, "{name}");
        }
    }
}
