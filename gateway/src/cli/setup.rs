//! `stockade setup AGENT`: writes the few lines that put an agent behind the gate, and takes them away again.

use std::process::ExitCode;

use super::{args, context, failure};
use crate::facts::Place;
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::serve::hook::Agent;
use crate::setup::{Change, Scope, Surroundings, install, uninstall};

/// Does what `options` name, agent by agent; one that fails does not hold up the others.
pub(super) fn setup(options: &args::Setup) -> Result<ExitCode, Failure> {
    let call = context::call(&options.common, "setup")?;
    let place = Place::find(&call.cwd, &call.context)?;
    let executable = std::env::current_exe().and_then(std::fs::canonicalize).map_err(|error| {
        Failure::new(
            Code::Internal,
            format!("the path of this executable is not known: {error}"),
            "",
        )
    })?;
    let around = Surroundings { home: place.home, project: place.project, executable };
    let agents = match options.agent {
        Some(agent) => vec![agent],
        None => Agent::ALL.to_vec(),
    };
    let mut status = ExitCode::SUCCESS;
    for agent in agents {
        if let Err(failure) = one(agent, options, &around) {
            status = failure::fail(&failure);
        }
    }
    Ok(status)
}

fn one(agent: Agent, options: &args::Setup, around: &Surroundings) -> Result<(), Failure> {
    let scopes = match (options.scope, options.agent) {
        (None, None) => vec![Scope::User, Scope::Project],
        (scope, _) => vec![scope.unwrap_or(Scope::User)],
    };
    for scope in scopes {
        let change = match options.undo {
            false => Some(install(agent, scope, around)?),
            // Where an agent reads nothing from a project, nothing of ours is there.
            true if options.agent.is_none() && scope == Scope::Project => {
                uninstall(agent, scope, around).unwrap_or_default()
            }
            true => uninstall(agent, scope, around)?,
        };
        tell(agent, options, change.as_ref());
        if let Some(change) = change.filter(|change| !change.is_nothing() && !options.dry_run) {
            change.apply()?;
        }
    }
    Ok(())
}

fn tell(agent: Agent, options: &args::Setup, change: Option<&Change>) {
    let name = agent.name();
    match change {
        None if options.agent.is_none() => {}
        None => {
            failure::tell(&format!("stockade: nothing of stockade is in the settings of {name}"))
        }
        Some(change) if change.is_nothing() => {
            failure::tell(&format!(
                "stockade: {name} is set up already in {}",
                change.path.display()
            ));
        }
        Some(change) => {
            let verb = if options.dry_run { "would change" } else { "changed" };
            failure::tell(&format!("stockade: {name}: {verb} {}", change.path.display()));
            failure::tell(words::lines(change.difference().trim_end()).as_str());
            if !change.after_words.is_empty() {
                failure::tell(&format!("  then: {}", change.after_words));
            }
        }
    }
}
