//! Access of a hook that a command may have written: the access of a command of the project, and no network.

use std::collections::{BTreeMap, BTreeSet};

use stockade_policy::SandboxState;
use stockade_spec::{Fallback, Files, Mediation, Network, Program, SandboxSpec};

use super::{Around, Opened, REQUIRED, TEMPORARY, files, limits};
use crate::temporary::Temporary;
use stockade_base::places::Places;
use stockade_base::random;
use stockade_review::Journal;
use stockade_scene::scene::Scene;
use stockade_shell as shell;
use stockade_wire::errors::{Code, Failure};

/// Makes the spec of a hook, the directory of its temporary files, and the journal of what it changes; blocks on the file
/// system.
pub fn plan(
    scene: &Scene,
    places: &Places,
    argv: Vec<String>,
    mut variables: BTreeMap<String, String>,
) -> Result<(SandboxSpec, Temporary, Journal), Failure> {
    let sandbox = stockade_policy::sandbox_settings(&scene.snapshot.rules, &scene.facts());
    let unusable = |error: std::io::Error| {
        let message =
            format!("it has no directory for its files in `{}`: {error}", places.state.display());
        Failure::new(Code::StateUnusable, message, "")
    };
    let temporary = Temporary::make(&places.state, None).map_err(unusable)?;
    let mut journal = Journal::named(&places.state, &scene.place.project).map_err(unusable)?;
    journal.begin(&random::call_id()?).map_err(unusable)?;
    let cwd = scene.place.cwd.clone();
    let name = argv.first().map(String::as_str).unwrap_or_default();
    let search = variables.get("PATH").cloned().unwrap_or_default();
    let path = shell::program(name, &search, &cwd)?;
    variables.extend(TEMPORARY.map(|name| (name.into(), "/tmp".into())));
    let Opened { mut files, .. } = files(&Around::of(scene, &sandbox, places))?;
    files.turns = Some(super::turns(&places.state).map_err(unusable)?);
    files.watched = Some(stockade_review::watched(&scene.place, journal.path().to_path_buf()));
    let fallback = match (scene.confinement(), sandbox.fail_if_unavailable) {
        (SandboxState::Unavailable | SandboxState::Off, false) => Fallback::Static,
        (SandboxState::Enforced, _) | (_, true) => Fallback::Refuse,
    };
    let required = match sandbox.fail_if_unavailable {
        true => REQUIRED.iter().copied().collect(),
        false => BTreeSet::new(),
    };
    let argv = argv.into_iter().map(Into::into).collect();
    let environment = variables.into_iter().map(|(name, it)| (name.into(), it.into())).collect();
    let spec = SandboxSpec {
        program: Program { path, argv, environment, cwd },
        files: Files { private_tmp: Some(temporary.path().to_path_buf()), ..files },
        network: Network::Off,
        limits: limits::of(&sandbox, &scene.place.cwd),
        terminal: None,
        required,
        mediation: Mediation::Writes,
        confine: true,
        fallback,
    };
    Ok((spec, temporary, journal))
}
