//! `stockade doctor`: what this machine can enforce, found by doing it.

mod agent;
mod between;
mod proxy;
pub(super) mod system;

use crate::cli::exit::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_probe::{Host, Probe};
use stockade_spec::{Enforced, Protection, State};

use self::between::Level;
use super::agent::stand::{self, Lacking};
use super::{args, failure, policy};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use stockade_scene::protections::REQUIRED;

/// Probes this machine and tells the outcome; exit status 0 when what is required by default holds.
pub(crate) fn doctor(options: &args::Doctor) -> Result<ExitCode, Failure> {
    if let Some(agent) = options.agent {
        return agent::doctor(options, agent);
    }
    if options.system {
        return system::doctor(options);
    }
    let begun = Instant::now();
    let mut host = Host::probe();
    if host.enforced.holds(Protection::Network) && !host.lacks_namespaces {
        host.probes.push(proxy::probe());
    }
    let took = begun.elapsed();
    let level = between::level(&host.enforced, policy::turns_the_sandbox_off(&options.common));
    let lacking: Vec<Protection> = REQUIRED
        .iter()
        .copied()
        .filter(|protection| !host.enforced.suffices(*protection))
        .collect();
    let names: Vec<&str> = lacking.iter().map(|protection| protection.name()).collect();
    let cause = lacking.first().map(|first| Cause::of(&host, *first));
    let failure = cause.as_ref().map(|cause| {
        Failure::new(
            Code::SandboxUnavailable,
            format!("this machine cannot enforce required protections: {}", names.join(", ")),
            cause.fix.clone(),
        )
    });
    let stand = policy::of_agent(&options.common);
    let stand = stand.map_err(|failure| Lacking { cause: failure.message, fix: failure.help });
    let stand = stand.and_then(|(places, place)| stand::stand(&places, place.as_deref()));
    let text = if options.common.json {
        let mut told = object(&host, level, &lacking, took);
        if let Some(members) = told.as_object_mut() {
            members.insert("agent".into(), agent_object(&stand));
        }
        if let (Some(members), Some(cause)) = (told.as_object_mut(), &cause) {
            members.insert("cause".into(), json!(cause.text));
            members.insert("fix".into(), json!(cause.fix));
        }
        failure::with_error(told, failure.as_ref()).to_string()
    } else {
        let first = cause.map_or_else(
            || "ready: this machine enforces all required protections\n\n".to_owned(),
            |cause| format!("not ready: {}\n  fix: {}\n\n", cause.text, cause.fix),
        );
        format!("{first}{}\n\n{}", report(&host, level, took), agent_lines(&stand))
    };
    failure::print(&text).map_err(failure::unwritable)?;
    Ok(failure.map_or(ExitCode::SUCCESS, |failure| failure::fail(&failure).into()))
}

/// The first cause of what this machine lacks, and its fix.
struct Cause {
    text: String,
    fix: String,
}

impl Cause {
    /// Returns the cause: a property of the whole machine, else the first probe that fails, else the first protection that is
    /// missing.
    fn of(host: &Host, lacking: Protection) -> Cause {
        const WHOLE: [&str; 3] = ["this is gVisor", "this is WSL", "parts of `/proc` are masked"];
        let cause = |text: &str, fix: &str| Cause {
            text: words::one_line(text),
            fix: words::one_line(fix),
        };
        let is_whole = |note: &&String| WHOLE.iter().any(|start| note.starts_with(start));
        let whole = host.surroundings.iter().find(is_whole);
        if let Some((text, fix)) = whole.and_then(|note| note.split_once(": ")) {
            return cause(text, fix);
        }
        match host.probes.iter().find(|probe| !probe.works && !probe.help.is_empty()) {
            Some(probe) => cause(&format!("{}: {}", probe.name, probe.detail), &probe.help),
            None => {
                let (_, detail) = state(&host.enforced, lacking);
                cause(&format!("{}: {detail}", lacking.name()), lacking.help())
            }
        }
    }
}

/// When a command runs on a machine without namespaces.
const WITH_LESS: &str =
    "only with `\"sandbox\": {\"failIfUnavailable\": false}` in the user's settings";

fn report(host: &Host, level: Level, took: Duration) -> String {
    let abi = match host.landlock_abi {
        0 => "without Landlock".to_owned(),
        abi => format!("Landlock ABI {abi}"),
    };
    let mut lines = vec![format!("kernel {}, {abi}", words::one_line(&host.kernel)), String::new()];
    lines.push(match host.lacks_namespaces {
        true => format!("protections of a command without namespaces, which runs {WITH_LESS}"),
        false => "protections".to_owned(),
    });
    lines.extend(
        Protection::ALL.iter().map(|protection| protection_line(&host.enforced, *protection)),
    );
    lines.extend([String::new(), "between commands".to_owned()]);
    lines.extend(between::lines(level));
    if !host.probes.is_empty() {
        lines.extend([String::new(), "probes".to_owned()]);
        lines.extend(host.probes.iter().map(probe_lines));
    }
    if !host.surroundings.is_empty() {
        lines.extend([String::new(), "surroundings".to_owned()]);
        lines.extend(host.surroundings.iter().map(|note| format!("  {}", words::one_line(note))));
    }
    lines.extend([String::new(), format!("tried in {} ms", took.as_millis())]);
    lines.join("\n")
}

/// Findings about stockade's own agent.
fn agent_lines(stand: &Result<String, Lacking>) -> String {
    match stand {
        Ok(path) => format!("stockade agent\n  ready      {}", words::one_line(path)),
        Err(Lacking { cause, fix }) => format!(
            "stockade agent\n  not ready  {}\n    fix: {}",
            words::one_line(cause),
            words::one_line(fix)
        ),
    }
}

fn agent_object(stand: &Result<String, Lacking>) -> Value {
    match stand {
        Ok(path) => json!({ "ready": true, "detail": path, "fix": "" }),
        Err(Lacking { cause, fix }) => json!({ "ready": false, "detail": cause, "fix": fix }),
    }
}

fn protection_line(enforced: &Enforced, protection: Protection) -> String {
    let (state, detail) = state(enforced, protection);
    let mark = if REQUIRED.contains(&protection) { "required" } else { "" };
    let line =
        format!("  {:17} {state:9} {mark:9} {}", protection.name(), words::one_line(&detail));
    line.trim_end().to_owned()
}

/// The state of a protection and what there is to say about it; one that nothing covers is missing.
fn state(enforced: &Enforced, protection: Protection) -> (&'static str, String) {
    match enforced.states.get(&protection) {
        Some(State::Enforced(layers)) => ("enforced", format!("by {}", layers.join(", "))),
        Some(State::Partial(open)) => ("partial", open.clone()),
        Some(State::Missing(why)) => ("missing", why.clone()),
        Some(State::Off(setting)) => ("off", setting.clone()),
        None => ("missing", "not tested by a probe".to_owned()),
    }
}

fn probe_lines(probe: &Probe) -> String {
    let verb = if probe.works { "works" } else { "fails" };
    let name = words::one_line(&probe.name);
    let detail = words::one_line(&probe.detail);
    let line = format!("  {name:40} {verb}  {detail}").trim_end().to_owned();
    if probe.help.is_empty() {
        line
    } else {
        format!("{line}\n    try: {}", words::one_line(&probe.help))
    }
}

fn object(host: &Host, level: Level, lacking: &[Protection], took: Duration) -> Value {
    let protection = |protection: &Protection| {
        let (state, detail) = state(&host.enforced, *protection);
        json!({
            "name": protection.name(),
            "state": state,
            "detail": detail,
            "required": REQUIRED.contains(protection),
            "help": protection.help(),
        })
    };
    let probe = |probe: &Probe| json!({"name": probe.name, "works": probe.works, "detail": probe.detail, "help": probe.help});
    json!({
        "ok": lacking.is_empty(),
        "version": env!("CARGO_PKG_VERSION"),
        "took_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "kernel": host.kernel,
        "landlock_abi": host.landlock_abi,
        "lacks_namespaces": host.lacks_namespaces,
        "surroundings": host.surroundings,
        "lacking": lacking.iter().map(|protection| protection.name()).collect::<Vec<_>>(),
        "protections": Protection::ALL.iter().map(protection).collect::<Vec<_>>(),
        "between_commands": between::object(level),
        "probes": host.probes.iter().map(probe).collect::<Vec<_>>(),
    })
}
