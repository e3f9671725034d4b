//! `stockade policy`: what counts and where it comes from, and a person's trust in the files of a project.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use stockade_policy::{Layer, Rule, SettingsText};

use super::args::{Common, PolicyCommand};
use super::ask::Terminal;
use super::{context, failure};
use crate::answer::unrecorded;
use crate::approve;
use crate::audit::record::{Body, Grant};
use crate::audit::{GatewayMode, Log};
use crate::facts::Place;
use crate::places::{self, Places};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::settings::{self, Snapshot, Sources, trust};

/// Does what `command` names.
pub(crate) async fn policy(common: Common, command: PolicyCommand) -> Result<ExitCode, Failure> {
    let call = context::call(&common, "policy")?;
    let places = Places::find(&call.options, |name| std::env::var_os(name))?;
    let place = Place::find(&call.cwd, &call.context)?;
    let snapshot = settings::read(&Sources {
        managed: Path::new(places::MANAGED),
        managed_owner: 0,
        state: &places.state,
        place: &place,
        context: &call.context,
    })?;
    match command {
        PolicyCommand::Show(_) => show(&common, &snapshot),
        PolicyCommand::Trust(_) => trust(&places, &snapshot).await,
    }
}

fn show(common: &Common, snapshot: &Snapshot) -> Result<ExitCode, Failure> {
    if common.json {
        failure::print(&object(snapshot).to_string()).map_err(failure::unwritable)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec!["files, weakest layer first".to_owned()];
    lines.extend(snapshot.texts.iter().map(|text| {
        let waits = if text.trusted { "" } else { "  waits for trust" };
        let file = words::one_line(&text.file.to_string_lossy());
        format!("  {:8} {file}{waits}", text.layer.name())
    }));
    lines.push("rules, strongest layer first".to_owned());
    lines.extend(snapshot.rules.rules().iter().map(|rule| {
        let file = words::one_line(&rule.origin.file.to_string_lossy());
        let (effect, layer, line) =
            (rule.effect.name(), rule.origin.layer.name(), rule.origin.line);
        format!("  {effect:5} {layer:8} {}  {file}:{line}", words::one_line(&rule.text))
    }));
    failure::print(&lines.join("\n")).map_err(failure::unwritable)?;
    if !common.quiet {
        for warning in &snapshot.warnings {
            failure::tell(&format!("stockade: warning: {}", words::one_line(warning)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn object(snapshot: &Snapshot) -> Value {
    let file = |text: &SettingsText| json!({"layer": text.layer.name(), "file": text.file.to_string_lossy(), "trusted": text.trusted});
    let rule = |rule: &Rule| {
        json!({
            "rule": rule.text,
            "effect": rule.effect.name(),
            "source": rule.origin.layer.name(),
            "file": rule.origin.file.to_string_lossy(),
            "line": rule.origin.line,
            "column": rule.origin.column,
        })
    };
    json!({
        "files": snapshot.texts.iter().map(file).collect::<Vec<_>>(),
        "rules": snapshot.rules.rules().iter().map(rule).collect::<Vec<_>>(),
        "warnings": snapshot.warnings,
        "settings_sha256": snapshot.sha256,
    })
}

/// Puts each file that waits for trust before the person at the terminal, whole. Nobody else can trust one.
async fn trust(places: &Places, snapshot: &Snapshot) -> Result<ExitCode, Failure> {
    let waiting = snapshot.texts.iter().filter(|text| !text.trusted).collect::<Vec<_>>();
    if waiting.is_empty() {
        failure::tell("stockade: no settings file of this project waits for trust");
        return Ok(ExitCode::SUCCESS);
    }
    let Some(terminal) = Terminal::open() else {
        let files = waiting.iter().map(|text| words::quoted(&text.file.to_string_lossy()));
        failure::tell(&format!(
            "stockade: needs a person: trust in {}\n  try: `stockade policy trust` at a terminal",
            files.collect::<Vec<_>>().join(", ")
        ));
        return Ok(ExitCode::from(failure::NEEDS_PERSON));
    };
    places.prepare()?;
    let log = Log::open(&places.of_log(), GatewayMode::Embedded).map_err(|it| unrecorded(&it))?;
    for text in waiting {
        let name = words::quoted(&text.file.to_string_lossy());
        let shown = format!(
            "stockade: {name} comes with the project; what it permits counts once you trust it:\n\n{}\n\n",
            words::lines(String::from_utf8_lossy(&text.text).trim_end())
        );
        if !terminal.confirm(&shown, "  trust this content? yes, no: ") {
            failure::tell(&format!("stockade: {name} is not trusted"));
            return Ok(ExitCode::from(failure::DENIED));
        }
        log.record(Body::Grant(grant(text))).await.map_err(|error| unrecorded(&error))?;
        trust::trust(&places.state, &text.file, &text.text).map_err(|error| {
            let message = format!("trust in {name} cannot be written down: {error}");
            Failure::new(Code::StateUnusable, message, "")
        })?;
        failure::tell(&format!("stockade: {name} is trusted until its content changes"));
    }
    Ok(ExitCode::SUCCESS)
}

fn grant(text: &SettingsText) -> Grant {
    let digest = places::hex(&Sha256::digest(&text.text));
    let layer = match text.layer {
        Layer::Local => "local",
        Layer::Builtin | Layer::User | Layer::Project | Layer::Flag | Layer::Policy => "project",
    };
    let rule = format!("settings of {}, sha256 {digest}", text.file.display());
    Grant { rule: rule.into(), layer, action: "made", who: Some(approve::who()), expires: None }
}
