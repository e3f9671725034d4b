//! Failures of the log as a caller is told of them.

use crate::audit;
use crate::protocol::errors::{Code, Failure};

/// Returns the failure of a log that cannot take a record.
pub fn unrecorded(error: &audit::Error) -> Failure {
    Failure::new(Code::AuditUnavailable, error.to_string(), error.help())
}
