//! `stockade setup AGENT`: writes the few lines that put an agent behind the gate, and takes them away again.

use crate::cli::exit::ExitCode;
use std::path::PathBuf;

use super::{args, context, failure};
use crate::protocol::errors::{Code, Failure};
use crate::protocol::words;
use crate::serve::hook::Agent;
use crate::setup::{Change, Scope, Surroundings, install, left, row, uninstall, unit};
use stockade_base::place::Place;

/// Does what `options` name, file by file; what fails does not hold up the others.
pub(super) fn setup(options: &args::agents::Setup) -> Result<ExitCode, Failure> {
    let call = context::call(&options.common, "setup")?;
    let around = surroundings(&call)?;
    let scope = if options.managed { Some(Scope::Managed) } else { options.scope };
    let mut status = ExitCode::SUCCESS;
    let mut tried = |agent, scope| {
        if let Err(failure) = one(agent, scope, options, &around) {
            status = failure::fail(&failure).into();
        }
    };
    match options.agent {
        None if options.socket_unit => units(options, &around)?,
        Some(agent) => tried(agent, scope.unwrap_or(Scope::User)),
        None if !options.undo => {
            let scope = scope.unwrap_or(Scope::User);
            let installed = installed(scope, &around)?;
            if installed.is_empty() {
                failure::tell("stockade: no known agent was found; use `stockade setup AGENT`");
            }
            installed.into_iter().for_each(|agent| tried(agent, scope));
        }
        None => {
            let scopes = match scope {
                Some(scope) => vec![scope],
                None => vec![Scope::User, Scope::Project],
            };
            for agent in Agent::ALL {
                scopes.iter().for_each(|scope| tried(agent, *scope));
            }
            units(options, &around)?;
        }
    }
    Ok(status)
}

/// Returns the installed agents that can be set up in `scope`.
fn installed(scope: Scope, around: &Surroundings) -> Result<Vec<Agent>, Failure> {
    let path = context::variable("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut found = Vec::new();
    for agent in Agent::ALL {
        if row::is_installed(agent, around, &folders)? && row::has(agent, scope)? {
            found.push(agent);
        }
    }
    Ok(found)
}

/// Returns the folders and the executable that a set-up is about.
pub(super) fn surroundings(call: &context::Call) -> Result<Surroundings, Failure> {
    let place = Place::find(&call.cwd, &call.context)?;
    let executable = std::env::current_exe().and_then(std::fs::canonicalize).map_err(|error| {
        Failure::new(
            Code::Internal,
            format!("the path of this executable is not known: {error}"),
            "",
        )
    })?;
    let variables = row::variables().map_err(|reason| {
        Failure::new(Code::Internal, format!("invalid table of agents: {reason}"), "")
    })?;
    let moved = variables.into_iter().filter_map(|(name, folder)| {
        let (name, below) = name.split_once('/').unwrap_or((&name, ""));
        let place = context::variable(name).map(PathBuf::from)?.join(below);
        place.is_absolute().then_some((folder, place))
    });
    let configuration = context::variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let configuration = configuration.filter(|path| path.is_absolute());
    Ok(Surroundings {
        configuration: configuration.unwrap_or_else(|| place.home.join(".config")),
        home: place.home,
        project: place.project,
        executable,
        system: "/".into(),
        moved: moved.collect(),
    })
}

fn one(
    agent: Agent,
    scope: Scope,
    options: &args::agents::Setup,
    around: &Surroundings,
) -> Result<(), Failure> {
    let changes = match options.undo {
        false => install(agent, scope, around)?,
        // Where an agent reads nothing from a project, nothing of ours is there.
        true if options.agent.is_none() && !row::has(agent, scope)? => return Ok(()),
        true => uninstall(agent, scope, around)?,
    };
    if changes.is_empty() && options.agent.is_some() {
        let name = agent.name();
        failure::tell(&format!("stockade: the settings of {name} do not use stockade"));
    }
    for change in &changes {
        tell(agent.name(), options, change)?;
        if !change.is_nothing() && !options.dry_run {
            change.apply(around)?;
        }
    }
    if options.undo && !options.dry_run {
        left(agent, scope, around)?;
    }
    Ok(())
}

/// Writes or removes the user units of the gateway.
fn units(options: &args::agents::Setup, around: &Surroundings) -> Result<(), Failure> {
    let changes = if options.undo { unit::uninstall(around)? } else { unit::install(around)? };
    if changes.is_empty() && options.socket_unit {
        failure::tell("stockade: there is no socket unit of stockade");
    }
    for change in &changes {
        tell("socket unit", options, change)?;
        if !change.is_nothing() && !options.dry_run {
            change.apply(around)?;
        }
    }
    if options.undo && !options.dry_run {
        unit::left(around);
    }
    Ok(())
}

/// Says what changed on standard error, or what would change on standard output.
fn tell(name: &str, options: &args::agents::Setup, change: &Change) -> Result<(), Failure> {
    let path = change.path.display();
    if change.is_nothing() {
        failure::tell(&format!("stockade: {name} is already set up in {path}"));
        return Ok(());
    }
    let difference = words::lines(change.difference().trim_end());
    if options.dry_run {
        let text = format!("{name}: would change {path}\n{difference}");
        return failure::print(&text).map_err(failure::unwritable);
    }
    failure::tell(&format!("stockade: {name}: changed {path}"));
    failure::tell(difference.as_str());
    if !change.after_words.is_empty() {
        failure::tell(&format!("  then: {}", change.after_words));
    }
    Ok(())
}
