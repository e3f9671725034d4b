//! The case files with this crate alone: whoever changes a rule sees the manual hold without building a gateway.

// Tests fail by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::disallowed_types
)]

#[allow(dead_code, reason = "other tests read single cases")]
#[path = "../../tests/src/cases.rs"]
mod cases;
#[allow(dead_code, reason = "other tests read trees of their own")]
#[path = "../../tests/src/oracle/tree.rs"]
mod tree;

mod oracle {
    pub(crate) use crate::tree;
}

/// The places of the cage in which the oracle runs a text.
mod cage {
    pub const HOME: &str = "/desk";
}

#[test]
fn the_case_files_hold() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/cases");
    let entries = std::fs::read_dir(folder).expect("the folder of the cases");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let (mut count, mut wrong) = (0, Vec::new());
    for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let text = std::fs::read_to_string(&path).expect("a case file");
        for case in cases::cases_of(&path.to_string_lossy(), &text) {
            count += 1;
            wrong.extend(cases::judge(&case));
        }
    }
    assert!(count > 1_000, "{count} cases");
    assert!(wrong.is_empty(), "{} of {count} are wrong\n{}", wrong.len(), wrong.join("\n"));
}
