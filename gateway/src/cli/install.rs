//! `stockade install --system`: the gateway as a service of this machine.

use std::path::{Path, PathBuf};

use stockade_policy::{Layer, SettingsText, Severity};
use stockade_system::install::{self, Manager, Plan, apparmor};
use stockade_system::is_roots_alone;

use super::exit::ExitCode;
use super::{args, failure};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;

fn refused(message: impl Into<String>, help: &str) -> Failure {
    Failure::new(Code::InvalidRequest, message.into(), help)
}

/// Installs, or takes away, and tells each thing that is done.
pub(super) fn install(options: &args::install::Install) -> Result<ExitCode, Failure> {
    let root = options.root.clone().unwrap_or_else(|| PathBuf::from("/"));
    let is_here = options.root.is_none();
    let manager = match options.manager {
        Some(args::install::Manager::Systemd) => Manager::Systemd,
        Some(args::install::Manager::Script) => Manager::Script,
        None => Manager::of_this_machine(),
    };
    if !rustix::process::geteuid().is_root() && !options.dry_run {
        let help = match options.apparmor {
            true => "`sudo stockade install --apparmor`",
            false => "`sudo stockade install --system`",
        };
        return Err(refused("only root can install for all users", help));
    }
    if options.apparmor {
        return profile(options, &root);
    }
    let starts = is_here && !options.dry_run;
    let failed = |reason: String| {
        Failure::new(Code::Internal, reason, "`sudo stockade install --system --undo` removes it")
    };
    if options.undo {
        if starts {
            install::stop(manager).map_err(failed)?;
        }
        let told = install::undo(&root, options.dry_run, options.keep_log);
        return tell(
            &told
                .map_err(|reason| refused(reason, "`stockade install --help` names the options"))?,
            options.dry_run,
        );
    }
    let executable = executable(is_here)?;
    let policy = options.policy.as_deref().map(policy).transpose()?;
    if policy.as_deref().is_some_and(|text| !text.contains("\"requireGateway\"")) {
        failure::tell(
            "stockade: the policy does not say `\"requireGateway\": true`: users can run stockade without the service",
        );
    }
    let plan = Plan { root, executable, policy, manager };
    let told = install::install(&plan, options.dry_run).map_err(failed)?;
    let status = tell(&told, options.dry_run)?;
    if manager == Manager::Script {
        failure::tell(
            "stockade: systemd does not run here: the service is the script /etc/init.d/stockade; \
             `update-rc.d stockade defaults` starts it with the machine",
        );
    }
    if starts {
        install::start(manager).map_err(failed)?;
        failure::tell(
            "stockade: the service runs; `sudo stockade doctor --system` tries it as an ordinary user",
        );
    }
    Ok(status)
}

/// Writes and loads the AppArmor profile alone, or takes it away.
fn profile(options: &args::install::Install, root: &Path) -> Result<ExitCode, Failure> {
    let told = match options.undo {
        true => apparmor::undo(root, options.dry_run),
        false => apparmor::install(root, &executable(options.root.is_none())?, options.dry_run),
    };
    let told = told.map_err(|reason| match reason.split_once("; ") {
        Some((reason, help)) => refused(reason, help),
        None => refused(reason, "docs/guide/containers.md has the profile, for a file of your own"),
    });
    tell(&told?, options.dry_run)
}

fn tell(lines: &[String], is_tried: bool) -> Result<ExitCode, Failure> {
    for line in lines {
        let line = words::one_line(line);
        let line = if is_tried { format!("would {line}") } else { line.to_string() };
        failure::print(&line).map_err(failure::unwritable)?;
    }
    if lines.is_empty() {
        failure::tell("stockade: nothing to do");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns this executable, which the service will be: root alone may be able to change it.
fn executable(is_here: bool) -> Result<PathBuf, Failure> {
    let found = std::env::current_exe().and_then(std::fs::canonicalize);
    let found = found.map_err(|error| {
        refused(format!("cannot find this executable: {error}"), "mount `/proc`")
    })?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if !found.as_os_str().as_encoded_bytes().iter().copied().all(is_plain) {
        let message = format!(
            "cannot use `{}` as the service: its path has special characters",
            found.display()
        );
        return Err(refused(message, "put it into /usr/local/bin"));
    }
    if is_here && let Err(reason) = is_roots_alone(&found) {
        let message = format!("the service cannot be `{}`: {reason}", found.display());
        return Err(refused(
            message,
            "`sudo install -m 755 stockade /usr/local/bin/` puts it where root alone can change it",
        ));
    }
    Ok(found)
}

/// Reads the managed settings, and refuses those that the gate would refuse: nothing would run any more.
fn policy(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        refused(
            format!("the policy `{}` cannot be read: {error}", path.display()),
            "specify a readable file",
        )
    })?;
    let file = Path::new(crate::places::MANAGED).join("managed-settings.json");
    let settings = SettingsText {
        layer: Layer::Policy,
        anchor: crate::places::MANAGED.into(),
        file,
        text: text.clone().into_bytes(),
        trusted: true,
        above: false,
    };
    let problems = stockade_policy::load(&[settings]).problems;
    for problem in &problems {
        let place = format!("{}:{}:{}", path.display(), problem.origin.line, problem.origin.column);
        let message = format!("{place}: {}", problem.message);
        if problem.severity == Severity::Refusal {
            return Err(Failure::new(Code::SettingsRejected, message, problem.help.clone()));
        }
        failure::tell(&format!("stockade: {}", words::one_line(&message)));
    }
    Ok(text)
}
