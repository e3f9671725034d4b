//! `stockade snapshot`: the aliases and functions of a person, for the texts of commands.

use std::io::{ErrorKind, IsTerminal as _};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use stockade_parser::{Limits, StartState};
use stockade_shell::definitions::{self, Definitions, LARGEST, Printed};

use super::args::snapshot::Snapshot;
use super::{context, failure};
use crate::audit::record::{Body, GrantRecord};
use crate::audit::{GatewayMode, Log};
use crate::cli::exit::ExitCode;
use crate::parse::Scanner;
use crate::places::Places;
use crate::prefork::Prefork;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::response::unrecorded;
use crate::serve::shell::inside::own_confinement;

/// Does what the options say.
pub(super) async fn snapshot(options: Snapshot) -> Result<ExitCode, Failure> {
    if own_confinement() {
        let message = "a sandboxed command cannot change or see your aliases and functions";
        let help = "run `stockade snapshot` in your own shell";
        return Err(Failure::new(Code::InvalidRequest, message, help));
    }
    let call = context::call(&options.common, "snapshot")?;
    let places = Places::find(&call.options, |name| std::env::var_os(name))?;
    if options.show {
        let kept = Definitions::read(&places.state)?;
        failure::print(shown(&kept, options.common.json).trim_end())
            .map_err(failure::unwritable)?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = match options.remove {
        true => None,
        false => Some(read().await?),
    };
    let left = change(&places, found.as_ref()).await?;
    if options.common.json {
        failure::print(&left.to_string()).map_err(failure::unwritable)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Usable definitions, and the name of each other one with the reason.
struct Found {
    usable: Definitions,
    left_out: Vec<(String, &'static str)>,
}

async fn read() -> Result<Found, Failure> {
    let help = "run `{ alias -p; declare -f; } | stockade snapshot` in your bash";
    if std::io::stdin().is_terminal() {
        let message = "standard input is a terminal";
        return Err(Failure::new(Code::InvalidRequest, message, help));
    }
    let text = context::standard_input("the definitions")?;
    if text.len() as u64 > LARGEST {
        let message = format!("the definitions are longer than {LARGEST} bytes");
        return Err(Failure::new(Code::InvalidRequest, message, "hand over those that you need"));
    }
    let executable = stockade_client::Options::default().executable()?;
    let scanner = Scanner::new(executable, Prefork::default().scan_worker());
    let mut found = Found { usable: Definitions::default(), left_out: Vec::new() };
    for one in definitions::printed(&text) {
        let (name, text) = match &one {
            Printed::Alias(name, text) | Printed::Function(name, text) => (name, text),
            Printed::Other(line) => (line, line),
        };
        let tree = scanner.parse(text.as_bytes(), &StartState::default(), &Limits::default()).await;
        if let Some(why) = definitions::hindrance(&one, &tree) {
            found.left_out.push((name.clone(), why));
            continue;
        }
        let kept = match &one {
            Printed::Alias(..) => &mut found.usable.aliases,
            Printed::Function(..) | Printed::Other(_) => &mut found.usable.functions,
        };
        kept.insert(name.clone(), text.clone());
    }
    match found.usable.is_empty() {
        true => {
            let message = "standard input has no alias and no function that can be used";
            Err(Failure::new(Code::InvalidRequest, message, help))
        }
        false => Ok(found),
    }
}

/// Keeps what was found, or removes what was kept, and records that. Returns the object about it.
async fn change(places: &Places, found: Option<&Found>) -> Result<serde_json::Value, Failure> {
    places.prepare()?;
    let log = Log::open(&places.of_log(), GatewayMode::Embedded).map_err(|it| unrecorded(&it))?;
    let text = found.map(|it| shown(&it.usable, false)).unwrap_or_default();
    let digest = stockade_base::hex(&Sha256::digest(&text));
    let action = if found.is_some() { "made" } else { "revoked" };
    let rule = format!("aliases and functions, sha256 {digest}");
    let who = Some(crate::audit::record::who());
    let grant = GrantRecord { rule: rule.into(), layer: "user", action, who, expires: None };
    log.record(Body::Grant(grant)).await.map_err(|error| unrecorded(&error))?;
    let path = definitions::file(&places.state);
    let changed = match found {
        Some(found) => found.usable.keep(&places.state),
        None => match std::fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        },
    };
    changed.map_err(|error| {
        let message = format!("`{}` cannot be changed: {error}", path.display());
        Failure::new(Code::StateUnusable, message, "check the state directory")
    })?;
    let Some(Found { usable, left_out }) = found else {
        failure::tell("stockade: no aliases and functions are kept");
        return Ok(json!({ "aliases": 0, "functions": 0, "left_out": [] }));
    };
    let (aliases, functions) = (usable.aliases.len(), usable.functions.len());
    failure::tell(&format!("stockade: kept aliases: {aliases}, functions: {functions}"));
    for (name, why) in left_out {
        failure::tell(&format!("stockade: left out {}: {why}", words::quoted(name)));
    }
    let left: Vec<_> =
        left_out.iter().map(|(name, why)| json!({ "name": name, "reason": why })).collect();
    Ok(json!({ "aliases": aliases, "functions": functions, "left_out": left }))
}

/// Returns what is kept, as bash would print it, or as an object.
fn shown(kept: &Definitions, json: bool) -> String {
    if json {
        return json!({ "aliases": kept.aliases, "functions": kept.functions }).to_string();
    }
    let quoted = |value: &str| value.replace('\'', r"'\''");
    let aliases = kept.aliases.iter().map(|(name, it)| format!("alias {name}='{}'\n", quoted(it)));
    aliases.chain(kept.functions.values().map(|it| format!("{it}\n"))).collect()
}
