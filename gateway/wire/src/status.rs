//! Exit statuses: those of stockade itself, and how an outcome becomes one.

use super::types::{RunOutcome, RunResult};

/// Denied.
pub const DENIED: u8 = 120;
/// Needs a person, and none can be asked.
pub const NEEDS_PERSON: u8 = 121;
/// stockade itself could not.
pub const FAILED: u8 = 122;
/// Timed out.
pub const TIMED_OUT: u8 = 124;

/// Returns the exit status of a front end that ran one command: the command's own, 128+N for signal N,
/// else one of the above.
pub fn of(outcome: &RunOutcome) -> u8 {
    match outcome {
        RunOutcome::Ran(result) => of_result(result),
        RunOutcome::Background(_) => 0,
        RunOutcome::Denied(_) => DENIED,
        RunOutcome::NeedsPerson(_) => NEEDS_PERSON,
        RunOutcome::Failed(_) => FAILED,
    }
}

fn of_result(result: &RunResult) -> u8 {
    let status = match (result.timed_out, result.signal_number, result.exit_code) {
        (true, _, _) => return TIMED_OUT,
        // A number that is not a signal's must not make a success.
        (false, Some(signal @ 1..), _) => signal.saturating_add(128),
        (false, Some(_), _) => return FAILED,
        (false, None, Some(code)) => code,
        (false, None, None) => return FAILED,
    };
    u8::try_from(status).unwrap_or(FAILED)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_command_that_exited_with_nought_is_a_success() {
        let status = |exit_code: Option<i32>, signal_number: Option<i32>| {
            let result = json!({"decision": crate::types::DecisionView::default(),
                "exit_code": exit_code, "signal_number": signal_number, "timed_out": false,
                "interrupted": false, "duration_ms": 0, "output": "", "output_bytes": 0,
                "output_lines": 0, "truncated": false, "sandbox": {"enforced": [], "missing": []},
                "violations": [], "footer": "", "audit": {"decision_id": "", "sequence": 0}});
            of(&RunOutcome::Ran(serde_json::from_value(result).unwrap()))
        };
        assert_eq!(
            [status(Some(0), None), status(Some(7), None), status(None, Some(9))],
            [0, 7, 137]
        );
        for (exit_code, signal_number) in [
            (None, None),
            (Some(256), None),
            (Some(-256), None),
            (None, Some(-128)),
            (Some(0), Some(0)),
            (Some(0), Some(128)),
            (None, Some(i32::MAX)),
        ] {
            let found = status(exit_code, signal_number);
            assert_eq!(found, FAILED, "{exit_code:?} {signal_number:?}");
        }
    }
}
