//! How a call ends that is not the command's own end: the exit status and the words.

use std::io::{IsTerminal as _, Write as _};

use serde_json::{Value, json};

use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;

pub(crate) use crate::protocol::status::{DENIED, FAILED, NEEDS_PERSON};

/// Writes lines for people to standard error. That nobody reads them changes nothing.
pub(crate) fn tell(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let text = super::color::paint(text, stderr.is_terminal());
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.write_all(b"\n"));
}

/// Writes a line to standard output, or says that this is not possible.
pub(crate) fn print(line: &str) -> Result<(), std::io::Error> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Tells a failure and returns its exit status. A reader that closed the pipe, such as `head`, has all that it wanted.
pub(crate) fn fail(failure: &Failure) -> u8 {
    if failure.message.is_empty() {
        return 0;
    }
    tell(&words::failure(failure));
    FAILED
}

/// Tells a failure to a program as well: the one object of `--json` holds it.
pub(crate) fn fail_in_json(failure: &Failure) -> u8 {
    let _ = print(&json!({ "error": failure }).to_string()); // the status says it, too
    fail(failure)
}

/// Returns the object of an answer, with the failure that it ends in, if any.
pub(crate) fn with_error(mut object: Value, failure: Option<&Failure>) -> Value {
    if let (Some(members), Some(failure)) = (object.as_object_mut(), failure) {
        members.insert("error".into(), json!(failure));
    }
    object
}

/// Returns the failure of a standard output that cannot be written; one without words where its reader closed the pipe.
pub(crate) fn unwritable(error: std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return Failure { code: Code::Internal, message: String::new(), help: String::new() };
    }
    Failure::new(
        Code::Internal,
        format!("cannot write standard output: {error}"),
        "check the file or the disk that it is redirected to",
    )
}
