//! The directories in which a command may write.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use stockade_policy::{Origin, ProtectedName, Unwritable};
use stockade_spec::Access;

use super::rules::Rules;
use super::{Around, place_of};
use stockade_settings::bounds;
use stockade_wire::errors::{Code, Failure};

/// Begins the place of a rule that is about tools as well.
const PERMISSIONS: &str = "/permissions/allow/";

/// Begins the place of a rule that may open what is protected in the root alone.
const SETTING: &str = "/sandbox/filesystem/allowWrite";

/// Where a command may write.
#[derive(Debug)]
pub(super) struct Writable {
    /// The rules for that.
    pub(super) rules: Rules,
    /// The directories, and single files.
    pub(super) regions: Vec<PathBuf>,
    /// Paths that are protected at the beginning of a region, and writable all the same.
    pub(super) opened: Vec<PathBuf>,
}

/// Returns where a command may write; rules for what nothing may open are refused.
pub(super) fn regions(around: &Around<'_>) -> Result<Writable, Failure> {
    let places = around.places;
    let mut own = vec![places.state.clone(), places.audit.clone(), places.audit_state.clone()];
    own.extend(around.own.iter().cloned());
    let closed = |region: &Path| bounds::closed(region, around.place, &own);
    let known = bounds::remembered(&places.state);
    let mut writable = around.place.regions();
    let mut rules = Rules::within([writable.clone(), known.clone()].concat());
    for directory in &writable {
        if let Some(tree) = closed(directory) {
            return Err(refused_directory(directory, &tree.path));
        }
        rules.add(directory, Access::Write, "builtin: working directory");
    }
    let mut opened = around.yes.opened.clone();
    let roots = writable.clone();
    for (region, (pattern, origin)) in rules.settled(&around.sandbox.allow_write) {
        let place = place_of(pattern, origin);
        if origin.pointer.starts_with(SETTING) && is_kept_at_top_of(&roots, &region) {
            opened.push(region);
            continue;
        }
        match closed(&region) {
            None => {
                rules.add(&region, Access::Write, &place);
                writable.push(region);
            }
            // Such a rule says as well what a person need not be asked about.
            Some(tree) if origin.pointer.starts_with(PERMISSIONS) || tree.is_file => {
                let tree = tree.path.display();
                rules.tell(format!(
                    "{place} makes nothing writable for commands: `{tree}` is protected"
                ));
            }
            Some(tree) => return Err(refused_rule(pattern, origin, &tree.path)),
        }
    }
    if let Some(file) = around.yes.edited.as_deref().and_then(|file| edited(&mut rules, file))
        && closed(&file).is_none()
    {
        rules.add(&file, Access::Write, "builtin: a person said yes to a change of this file");
        writable.push(file);
    }
    bounds::remember(&places.state, &writable, &known).map_err(|error| {
        let state = places.state.display();
        let message = format!("it cannot be kept in `{state}` where commands may write: {error}");
        let help = "make room, or specify another directory with `--state-dir DIR`";
        Failure::new(Code::StateUnusable, message, help)
    })?;
    for own in around.own {
        if writable.iter().any(|region| own.starts_with(region)) {
            rules.follow(own, Access::Protected, "builtin: own settings");
        }
    }
    for own in executables() {
        if rules.passed(&own).iter().any(|it| writable.iter().any(|region| it.starts_with(region)))
        {
            rules.follow(&own, Access::Protected, "builtin: executable of stockade");
        }
    }
    Ok(Writable { rules, regions: writable, opened })
}

/// Returns the executables that gateways start: this one, and the agent's beside it, whether or not it is there. What a
/// command puts in their place would run without a sandbox.
fn executables() -> Vec<PathBuf> {
    let Ok(own) = std::env::current_exe() else { return Vec::new() };
    // The kernel says so of one that was replaced or removed meanwhile.
    let own = match own.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(path) => PathBuf::from(path),
        None => own,
    };
    let beside = own.with_file_name(stockade_scene::file_call::PROGRAM);
    vec![own, beside]
}

/// Returns the real path of a file that may be written because a person said yes to its change: a regular file with one
/// name, to which no command can have led.
fn edited(rules: &mut Rules, file: &Path) -> Option<PathBuf> {
    let real = rules.led(file)?;
    let found = real.symlink_metadata().ok()?;
    (found.is_file() && found.nlink() == 1).then_some(real)
}

/// Says whether `path` is protected only because one of `roots` begins there, or leads to what is.
fn is_kept_at_top_of(roots: &[PathBuf], path: &Path) -> bool {
    let names = || {
        let names = stockade_policy::protected_names().iter();
        names.filter(|name| name.kernel == Unwritable::AtTop)
    };
    roots.iter().filter(|root| path.starts_with(root) && path != **root).any(|root| {
        let inside = path.strip_prefix(root).unwrap_or(path);
        let leads = |name: &ProtectedName| {
            inside.iter().count() < name.segments.len()
                && inside.iter().zip(&name.segments).all(|(it, wanted)| it == *wanted)
        };
        let kept = stockade_policy::protected_part_in(root, path);
        kept.map_or_else(|| names().any(leads), |(_, name)| name.kernel == Unwritable::AtTop)
    })
}

fn refused_directory(directory: &Path, tree: &Path) -> Failure {
    let message = format!(
        "`{}` cannot be writable for commands: `{}` is protected, since your own programs run the files in it",
        directory.display(),
        tree.display()
    );
    let help = "work in a copy outside of it, and copy reviewed files back; specify a directory for commands with `--project DIR`";
    Failure::new(Code::DirectoryUnusable, message, help)
}

fn refused_rule(pattern: &str, origin: &Origin, tree: &Path) -> Failure {
    let message = format!(
        "settings are rejected: {} would make a part of `{}` writable, which is protected, since your own programs run the files in it",
        place_of(pattern, origin),
        tree.display()
    );
    let help =
        format!("remove `{}`; caches of package managers need no rule", pattern.escape_debug());
    Failure::new(Code::SettingsRejected, message, help)
}
