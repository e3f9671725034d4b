//! `stockade doctor --system`: whether the service of the machine is out of reach, tried as an ordinary user.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stockade_system::TRIES;
use stockade_system::accounts::Account;
use stockade_system::identity::Identity;
use stockade_system::tries;

use crate::cli::exit::ExitCode;
use crate::cli::{args, failure};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;

/// Tries it, and tells the outcome of each attempt; exit status 0 when every promise holds.
pub(super) fn doctor(options: &args::Doctor) -> Result<ExitCode, Failure> {
    let (who, tried) = match rustix::process::geteuid().is_root() {
        true => as_another(options.user.as_deref())?,
        false if options.user.is_some() => {
            let message = "only root can use `--user`";
            return Err(Failure::new(Code::InvalidRequest, message, "leave it out, or use sudo"));
        }
        false => (String::from("this user"), results()?),
    };
    let of = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let holds = |value: &Value| value.get("holds").and_then(Value::as_bool) == Some(true);
    let list = tried.as_array().cloned().unwrap_or_default();
    let broken: Vec<String> =
        list.iter().filter(|it| !holds(it)).map(|it| of(it, "promise")).collect();
    let failure = (!broken.is_empty() || list.is_empty()).then(|| {
        let message = format!("the system service is not secure: {}", broken.join("; "));
        let help = "`sudo stockade install --system` repairs it, with a policy that says `\"requireGateway\": true`; the lines marked `fails` name the attacks that succeeded";
        Failure::new(Code::GatewayUnreachable, message, help)
    });
    let text = match options.common.json {
        true => {
            let object = json!({ "ok": failure.is_none(), "user": who, "tries": tried });
            failure::with_error(object, failure.as_ref()).to_string()
        }
        false => {
            let line = |it: &Value| {
                let mark = if holds(it) { "holds" } else { "fails" };
                format!("  {mark}  {}: {}", of(it, "promise"), words::one_line(&of(it, "detail")))
            };
            let mut lines = vec![format!("tried as {}", words::one_line(&who))];
            lines.extend(list.iter().map(line));
            lines.join("\n")
        }
    };
    failure::print(&text).map_err(failure::unwritable)?;
    Ok(failure.map_or(ExitCode::SUCCESS, |failure| failure::fail(&failure).into()))
}

/// Has this executable try it as an ordinary user.
#[expect(
    clippy::disallowed_methods,
    reason = "this executable once more, which becomes an ordinary user"
)]
fn as_another(name: Option<&str>) -> Result<(String, Value), Failure> {
    let root = Path::new("/");
    let caller =
        || Account::of(root, std::env::var("SUDO_UID").ok()?.parse().ok().filter(|uid| *uid != 0)?);
    let found = match name {
        Some(name) => Account::find(root, name),
        None => caller().or_else(|| Account::ordinary(root)),
    };
    let account = found.filter(|account| account.uid != 0).ok_or_else(|| {
        let message = "no ordinary user to try it as";
        Failure::new(Code::InvalidRequest, message, "specify one with `--user NAME`")
    })?;
    let identity = Identity { uid: account.uid, gid: account.gid, groups: account.groups(root) };
    let broken = |reason: String| {
        let message = format!("cannot become `{}` to try it: {reason}", account.name);
        Failure::new(Code::Internal, message, "specify another user with `--user NAME`")
    };
    let executable = std::env::current_exe().map_err(|error| broken(error.to_string()))?;
    let mut command = Command::new(executable);
    command.arg(TRIES).arg(identity.word()).env_clear().current_dir("/");
    command.env("HOME", &account.home).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| broken(error.to_string()))?;
    let tried = serde_json::from_slice(&output.stdout)
        .map_err(|_| broken(String::from_utf8_lossy(&output.stderr).trim().to_owned()))?;
    Ok((account.name.clone(), tried))
}

/// Becomes the user that the arguments name, tries it, and prints the outcome.
pub(in crate::cli) fn as_user(arguments: &[OsString]) -> Result<(), Failure> {
    let broken =
        |reason: String| Failure::new(Code::Internal, reason, "use `stockade doctor --system`");
    let identity = arguments.get(2).and_then(|word| Identity::read(word.to_str()?));
    let identity = identity.ok_or_else(|| broken("no user is named".to_owned()))?;
    identity.assume().map_err(|error| broken(error.to_string()))?;
    failure::print(&results()?.to_string()).map_err(failure::unwritable)
}

fn results() -> Result<Value, Failure> {
    let failed = |reason: String| Failure::new(Code::Internal, reason, "mount `/proc`");
    let executable = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    serde_json::to_value(tries::all(&executable)).map_err(|error| failed(error.to_string()))
}
