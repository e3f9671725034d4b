//! `stockade policy trust`: a person's trust in the settings files of a project.

use crate::cli::exit::ExitCode;

use sha2::{Digest as _, Sha256};
use stockade_policy::{Layer, SettingsText};

use super::super::args::policy::Trust;
use super::super::ask::Terminal;
use super::{Court, failure};
use crate::audit::record::{Body, GrantRecord};
use crate::audit::{GatewayMode, Log};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::response::unrecorded;
use crate::settings::{self, trust};

/// Puts each file that is not trusted yet before the person at the terminal, whole. Nobody else can trust one.
pub(super) async fn trust(options: Trust) -> Result<ExitCode, Failure> {
    let court = Court::new(&options.common)?;
    let snapshot = settings::read(&court.sources())?;
    let places = &court.places;
    let waiting =
        snapshot.texts.iter().filter(|text| !text.trusted && !text.above).collect::<Vec<_>>();
    if waiting.is_empty() {
        failure::tell("stockade: every settings file of this project is trusted");
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
            "stockade: {name} is part of the project; its permissions apply after you trust it:\n\n{}\n\n",
            words::lines(String::from_utf8_lossy(&text.text).trim_end())
        );
        if !terminal.confirm(&shown, "  trust this content? yes, no: ") {
            failure::tell(&format!("stockade: {name} is not trusted"));
            return Ok(ExitCode::from(failure::DENIED));
        }
        log.record(Body::Grant(grant(text))).await.map_err(|error| unrecorded(&error))?;
        trust::trust(&places.state, &text.file, &text.text).map_err(|error| {
            let message = format!("cannot save the trust in {name}: {error}");
            Failure::new(Code::StateUnusable, message, "")
        })?;
        failure::tell(&format!("stockade: {name} is trusted until its content changes"));
    }
    Ok(ExitCode::SUCCESS)
}

fn grant(text: &SettingsText) -> GrantRecord {
    let digest = stockade_base::hex(&Sha256::digest(&text.text));
    let layer = match text.layer {
        Layer::Local => "local",
        Layer::Builtin | Layer::User | Layer::Project | Layer::Flag | Layer::Policy => "project",
    };
    let rule = format!("settings of {}, sha256 {digest}", text.file.display());
    GrantRecord {
        rule: rule.into(),
        layer,
        action: "made",
        who: Some(crate::audit::record::who()),
        expires: None,
    }
}
