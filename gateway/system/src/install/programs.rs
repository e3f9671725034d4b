//! Programs of the machine that an installation runs: the service manager, and the parser of AppArmor.

use std::env;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

/// Runs `program`, which speaks for itself.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let line = format!("{program} {}", arguments.join(" "));
    let status = command(program, arguments).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` failed: {status}")),
        Err(error) => Err(format!("`{line}` cannot be started: {error}")),
    }
}

/// Says whether `program` accepts `input`; its words are not shown.
pub(super) fn accepts(program: &str, arguments: &[&str], input: &str) -> io::Result<bool> {
    let mut command = command(program, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes()); // one that ends before has refused it
    }
    Ok(child.wait()?.success())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the service manager, which starts the processes of the service, and the parser of AppArmor"
)]
fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    // `su` may leave root without the folders of such programs.
    let path = env::var("PATH").ok().filter(|path| !path.is_empty());
    let path = path.unwrap_or_else(|| "/usr/bin:/bin".to_owned());
    command.args(arguments).env("PATH", path + ":/usr/sbin:/sbin");
    command
}
