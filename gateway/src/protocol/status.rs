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
        RunOutcome::Denied(_) => DENIED,
        RunOutcome::NeedsPerson(_) => NEEDS_PERSON,
        RunOutcome::Failed(_) => FAILED,
    }
}

fn of_result(result: &RunResult) -> u8 {
    let status = match (result.timed_out, result.signal_number, result.exit_code) {
        (true, _, _) => return TIMED_OUT,
        (false, Some(signal), _) => signal.saturating_add(128),
        (false, None, Some(code)) => code,
        // A task runs on; that it was started is all there is to tell.
        (false, None, None) if result.task_id.is_some() => 0,
        (false, None, None) => return FAILED,
    };
    u8::try_from(status).unwrap_or(FAILED)
}
