//! A sync that fails: what is not durable does not run, and the end of what ran is written again.

use std::fs;
use std::process::Command;

use serde_json::Value;
use stockade_tests::{Place, skip};

use super::{log, runs, text, verifies};

/// Starts `stockade` so that sync number `failing` of each of its threads has an input or output error.
fn with_failing_sync(place: &Place, failing: u64, command: &str) -> Command {
    let inner = place.stockade(["run", "--no-daemon", "--", command]);
    let mut outer = Command::new("strace");
    outer.args(["-f", "-qq", "-e", "trace=fdatasync", "-e", "signal=none", "-o"]);
    outer.arg(place.root.join("trace")).arg("-e");
    outer.arg(format!("inject=fdatasync:error=EIO:when={failing}"));
    outer.arg(inner.get_program()).args(inner.get_args()).env_clear();
    outer.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    outer.current_dir(place.project());
    outer
}

/// Returns the records of a kind.
fn records(place: &Place, kind: &str) -> Vec<Value> {
    let found = text(&place.output(["audit", "search", "--kind", kind, "--json"]).stdout);
    found.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

#[test]
fn a_failed_sync_refuses_and_the_end_of_what_ran_is_written_again() {
    const TEST: &str = "a_failed_sync_refuses_and_the_end_of_what_ran_is_written_again";
    let place = Place::new("sync");
    runs(&place);
    let traced = |failing| {
        let output = with_failing_sync(&place, failing, "touch made; exit 3").output();
        output.map_err(|error| error.to_string()).and_then(|output| {
            let trace = fs::read_to_string(place.root.join("trace")).unwrap_or_default();
            match trace.contains("(INJECTED)") {
                true => Ok((output.status.code(), text(&output.stderr))),
                false => Err(format!("no sync failed: {}", text(&output.stderr))),
            }
        })
    };
    let line = format!(
        "stockade: audit log {} cannot be written: Input/output error (EIO); nothing was run",
        log(&place)
    );
    let made = place.project().join("made");
    // The syncs of one call with settings that are in force: the decision, the result.
    match traced(1) {
        Err(reason) => return skip(TEST, &reason),
        Ok((status, told)) => {
            assert_eq!((status, told.lines().next()), (Some(122), Some(&*line)), "{told}");
            assert!(!made.exists(), "it ran without a record");
        }
    }
    let ended = |number: usize| {
        let results = records(&place, "result");
        assert_eq!(results.len(), number, "{results:?}");
        results.last().map(|result| result["exit"].clone())
    };
    assert_eq!(ended(1), Some(0.into()));
    // The gap of the refusal above comes first, in a sync of its own.
    let (status, told) = traced(3).expect("it could be traced before");
    assert_eq!((status, made.exists()), (Some(3), true), "{told}");
    assert_eq!(ended(2), Some(3.into()), "the result is there once");
    let refused: Vec<Value> =
        records(&place, "gap").iter().map(|gap| gap["count"].clone()).collect();
    assert_eq!(refused, [Value::from(1)], "only what was refused is counted");
    verifies(&place);
}
