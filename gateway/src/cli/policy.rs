//! `stockade policy`: what the rules are, what is wrong with them, what a change would change, and
//! a person's trust in the files of a project.

pub(super) mod amend;
mod diff;
mod last;
pub(super) mod learn;
mod lint;
mod own;
mod show;
mod test;
mod trust;
mod witnesses;

use crate::cli::exit::ExitCode;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stockade_policy::{Origin, Verdict};

use super::args::Common;
use super::args::policy::{Policy, PolicyCommand};
use super::{context, failure, wait};
use crate::bounds;
use crate::judge::{self, Asked, Hooks, Judged, Runner, Scene};
use crate::parse::Scanner;
use crate::places::Places;
use crate::prefork::Prefork;
use crate::protocol::errors::Failure;
use crate::protocol::types::Context;
use crate::protocol::words;
use crate::settings::{self, Sources};
use stockade_base::place::Place;
use stockade_settings::roots;

/// Exit status when something was found.
const FOUND: u8 = 1;

/// Does what `options` name; `join` puts the options before the subcommand to those behind it.
pub(super) fn policy(
    options: Policy,
    join: impl Fn(Common) -> Result<Common, Failure>,
) -> Result<ExitCode, Failure> {
    let common = join(options.common)?;
    let join = |inner: Common| common.clone().join(inner).map_err(super::twice);
    match options.command {
        PolicyCommand::Show(mut options) => {
            options.common = join(options.common)?;
            show::show(&options)
        }
        PolicyCommand::Lint(mut options) => {
            options.common = join(options.common)?;
            wait(lint::lint(options))?
        }
        PolicyCommand::Test(mut options) => {
            options.common = join(options.common)?;
            wait(test::test(options))?
        }
        PolicyCommand::Diff(mut options) => {
            options.common = join(options.common)?;
            wait(diff::diff(options))?
        }
        PolicyCommand::Trust(mut options) => {
            options.common = join(options.common)?;
            wait(trust::trust(options))?
        }
    }
}

/// Says whether the settings turn the sandbox off. Settings that cannot be read let nothing run.
pub(super) fn turns_the_sandbox_off(common: &Common) -> bool {
    let snapshot = Court::new(common).and_then(|court| settings::read(&court.sources()));
    snapshot.is_ok_and(|snapshot| !snapshot.rules.settings().sandbox.enabled)
}

/// Returns where the settings say that the agent runs without a sandbox, with the places of the state.
pub(super) fn of_agent(common: &Common) -> Result<(Places, Option<String>), Failure> {
    let court = Court::new(common)?;
    let snapshot = settings::read(&court.sources())?;
    let place = crate::plan::agent::unconfined_in(&snapshot.rules);
    Ok((court.places, place))
}

/// Inputs for judging calls without a log: nothing of this runs or records anything.
struct Court {
    call: context::Call,
    places: Places,
    place: Place,
    regions: Vec<PathBuf>,
    scanner: Scanner,
}

impl Court {
    fn new(common: &Common) -> Result<Court, Failure> {
        let mut call = context::call(common, "policy")?;
        call.context.interactive = true;
        let places = Places::find(&call.options, |name| std::env::var_os(name))?;
        let mut place = Place::find(&call.cwd, &call.context)?;
        place.roots = roots::around(&places.state, &place);
        let regions = bounds::of(&place, &places);
        bounds::check(&call.cwd, &call.context, &place, &places, &regions)?;
        let scanner = Scanner::new(call.options.executable()?, Prefork::default().scan_worker());
        Ok(Court { call, places, place, regions, scanner })
    }

    /// Where the settings of this machine are looked for.
    fn sources(&self) -> Sources<'_> {
        Sources {
            managed: Path::new(crate::places::MANAGED),
            managed_owner: 0,
            state: &self.places.state,
            place: &self.place,
            regions: &self.regions,
            context: &self.call.context,
        }
    }

    fn context(&self) -> &Context {
        &self.call.context
    }

    /// Judges a call by the rules of `scene`; hooks have no say.
    async fn judge(&self, scene: &Scene, tool: &str, input: Value) -> Result<Verdict, Failure> {
        Ok(self.judged(scene, tool, input).await?.verdict)
    }

    /// Judges a call in the same way, and returns all that was found out about it.
    async fn judged(&self, scene: &Scene, tool: &str, input: Value) -> Result<Judged, Failure> {
        let hooks = Hooks::Recorded(Box::default());
        let (context, runner) = (self.context(), Runner::Caller);
        let asked = Asked { tool, input, id: "policy", context, hooks, runner };
        judge::judge(&self.scanner, scene, asked).await
    }

    /// Names a place as people read it, files of the project relative to the working directory.
    fn named(&self, origin: &Origin) -> String {
        let file = origin.file.strip_prefix(&self.place.cwd).unwrap_or(&origin.file);
        let file = words::one_line(&file.display().to_string());
        format!("{file}:{}:{}", origin.line, origin.column)
    }
}

fn print(line: &str) -> Result<(), Failure> {
    failure::print(line).map_err(failure::unwritable)
}
