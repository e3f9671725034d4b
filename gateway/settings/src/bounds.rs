//! Where commands may write, or once might: what lies there may be theirs, so nothing that widens a call is taken from it.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use stockade_programs::tables::{Table, view};
use stockade_text::json::view::{Members, View};

pub use stockade_base::links::remembered;
use stockade_base::links::{check_way, led};

use stockade_base::names::Names;
use stockade_base::place::{Place, own_directories, variable};
use stockade_base::places::Places;
use stockade_wire::errors::{Code, Failure};
use stockade_wire::types::Context;

/// Size of the list of regions above which those that are gone are taken out.
const LONG: usize = 64 << 10;

/// Remembers `regions`, of which `known` are remembered already.
pub fn remember(state: &Path, regions: &[PathBuf], known: &[PathBuf]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for region in regions.iter().filter(|region| !known.contains(region)) {
        bytes.extend_from_slice(region.as_os_str().as_bytes());
        bytes.push(0);
    }
    if bytes.is_empty() {
        return Ok(());
    }
    let file = state.join("regions");
    if file.metadata().is_ok_and(|found| found.len() > LONG as u64) {
        let there: Vec<&PathBuf> = known.iter().filter(|region| region.exists()).collect();
        let mut kept: Vec<u8> =
            there.iter().flat_map(|it| [it.as_os_str().as_bytes(), b"\0"].concat()).collect();
        kept.append(&mut bytes);
        let new = state.join(format!("regions.{}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).open(&new)?.write_all(&kept)?;
        return std::fs::rename(&new, &file);
    }
    // One call, so that those of two gateways do not mix.
    OpenOptions::new().append(true).create(true).mode(0o600).open(&file)?.write_all(&bytes)
}

/// The table of regions.
#[derive(Debug, Default)]
pub struct Known {
    closed: Vec<&'static str>,
    worktrees: Vec<&'static str>,
    /// Directories of programs.
    pub programs: Vec<&'static str>,
    /// Ends of directories of programs that are part of the work.
    pub ends: Vec<&'static str>,
    /// Variables with directories that hold such ones.
    pub variables: Vec<&'static str>,
}

/// Returns the table.
pub fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    // A table that cannot be read, which a test rules out, closes nothing.
    KNOWN.get_or_init(|| read().unwrap_or_default())
}

fn read() -> Option<Known> {
    let table = view(Table::Regions).members()?;
    let texts = |from: &Members<'static>, key: &str| from.get(key).and_then(View::texts);
    let work = table.get("work")?.members()?;
    Some(Known {
        closed: texts(&table, "closed")?,
        worktrees: texts(&table, "worktrees")?,
        programs: texts(&table, "programs")?,
        ends: texts(&work, "ends")?,
        variables: texts(&work, "variables")?,
    })
}

/// Returns the home directories of the caller: that of the call, and that of the password database.
pub fn homes(place: &Place) -> impl Iterator<Item = &PathBuf> {
    std::iter::once(&place.home).chain(&place.homes)
}

/// Path that nothing makes writable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub path: PathBuf,
    /// True if the path is one file, and no tree.
    pub is_file: bool,
}

/// Returns the protected tree that `region` is or lies in, or the protected file that it is.
pub fn closed(region: &Path, place: &Place, own: &[PathBuf]) -> Option<Closed> {
    let below = |home: &PathBuf| region.strip_prefix(home).ok().map(Path::to_path_buf);
    let is_in = |names: &[&'static str], below: &Path| {
        names.iter().copied().find(|name| begins(below, Path::new(name)))
    };
    let found = homes(place).filter_map(|home| Some((home, below(home)?)));
    let found: Vec<(&PathBuf, PathBuf)> = found.collect();
    let known = known();
    if !found.iter().any(|(_, below)| is_in(&known.worktrees, below).is_some()) {
        let tree = own.iter().find(|tree| region.starts_with(tree)).cloned();
        let closed = |(home, below): &(&PathBuf, PathBuf)| {
            is_in(&known.closed, below).map(|name| home.join(name))
        };
        if let Some(tree) = tree.or_else(|| found.iter().find_map(closed)) {
            return Some(Closed { path: tree, is_file: false });
        }
    }
    let (path, name) = stockade_policy::protected_part(region)?;
    Some(Closed { path, is_file: !name.tree })
}

/// Says whether `path` begins with the parts of `name`, in any letter case.
fn begins(path: &Path, name: &Path) -> bool {
    let mut parts = path.components();
    name.components().all(|wanted| {
        let equal = |part: Component<'_>| part.as_os_str().eq_ignore_ascii_case(wanted.as_os_str());
        parts.next().is_some_and(equal)
    })
}

/// Refuses a call that a link which a command could have made leads to its directories, its settings or its state;
/// blocks on the file system.
pub fn check(
    cwd: &str,
    context: &Context,
    place: &Place,
    places: &Places,
    regions: &[PathBuf],
) -> Result<(), Failure> {
    let mut names = Names::default();
    check_given(cwd, context, place, &mut names, regions)?;
    check_own(context, place, places, &mut names, regions)
}

/// Returns the directories in which commands may write, or might before; blocks on the file system.
pub fn of(place: &Place, places: &Places) -> Vec<PathBuf> {
    let mut regions = remembered(&places.state);
    // A path that nothing makes writable is refused where it would be opened.
    regions.extend(place.regions().into_iter().filter(|it| closed(it, place, &[]).is_none()));
    regions
}

fn check_given(
    cwd: &str,
    context: &Context,
    place: &Place,
    names: &mut Names,
    regions: &[PathBuf],
) -> Result<(), Failure> {
    let mut given = vec![("working directory", cwd, place.cwd.as_path())];
    let session = context.session_directory.iter().zip(&place.session);
    given.extend(session.map(|(it, real)| ("session's directory", it.as_str(), real.as_path())));
    let project = context.project.iter();
    given.extend(project.map(|it| ("project", it.as_str(), place.project.as_path())));
    let added = context.additional_directories.iter().zip(&place.additional);
    given.extend(added.map(|(it, real)| ("additional directory", it.as_str(), real.as_path())));
    for (what, text, real) in given {
        let way = names.way(Path::new(text), Path::new("/"));
        // A process that changes it between two looks could show a link to one of them alone.
        if way.real() != real {
            let text = text.escape_debug();
            let message = format!("the {what} `{text}` changed while it was resolved");
            let help = format!("run the call again, or use the real path `{}`", real.display());
            return Err(Failure::new(Code::DirectoryUnusable, message, help));
        }
        for link in &way.links {
            let above = link.parent().unwrap_or(link);
            let around = regions.iter().filter(|it| above.starts_with(it)).cloned();
            let mut around = around.chain(place.repository_above(above));
            if let Some(region) = around.find(|region| !way.real().starts_with(region)) {
                return Err(led(what, text, link, way.real(), &region));
            }
        }
    }
    Ok(())
}

fn check_own(
    context: &Context,
    place: &Place,
    places: &Places,
    names: &mut Names,
    regions: &[PathBuf],
) -> Result<(), Failure> {
    let own = own_directories(context, place);
    let home = stockade_base::directories::home(|name| variable(context, name)).ok();
    let settings = own.iter().map(|it| ("settings directory", it.as_path()));
    let given = places.given.iter().map(|(what, it)| (*what, it.as_path()));
    let home = home.iter().map(|it| ("home directory", it.as_path()));
    for (what, path) in home.chain(settings).chain(given) {
        check_way(what, path, names, regions)?;
    }
    Ok(())
}

/// Refuses settings in `file` that lie where commands write; blocks on the file system.
pub fn check_settings(file: &Path, regions: &[PathBuf]) -> Result<(), Failure> {
    let Some(region) = region_of(file, regions) else { return Ok(()) };
    let message = format!(
        "the settings file `{}` is rejected: it is in `{}`, where commands can write, so one of them could have written it",
        file.display(),
        region.display()
    );
    let help = "keep it as a plain file outside of every project, or put its text into `.stockade/settings.json` of the \
                project and trust that";
    Err(Failure::new(Code::SettingsRejected, message, help))
}

/// Refuses a shell at `path` that lies where commands write, or to which a link there leads: one of them could have put
/// another program in its place. Blocks on the file system.
pub fn check_shell(path: &Path, regions: &[PathBuf]) -> Result<(), Failure> {
    let Some(region) = region_of(path, regions) else { return Ok(()) };
    let message = format!(
        "invalid setting `shell`: `{}` is in `{}`, where commands can write",
        path.display(),
        region.display()
    );
    let help = "set `shell` to a program outside of every project, such as `/bin/bash`";
    Err(Failure::new(Code::ShellMissing, message, help))
}

/// Returns the region in which `path`, or a link on the way to it, can be written.
fn region_of<'a>(path: &Path, regions: &'a [PathBuf]) -> Option<&'a PathBuf> {
    let way = Names::default().way(path, Path::new("/"));
    let link = way.links.iter().find(|link| inside(link, regions).is_some());
    link.map_or_else(|| inside(way.real(), regions), |it| inside(it, regions))
}

/// Returns the region of `regions` in which `path` can be written: not what has a protected name there.
fn inside<'a>(path: &Path, regions: &'a [PathBuf]) -> Option<&'a PathBuf> {
    regions.iter().find(|region| {
        let below = path.strip_prefix(region).ok();
        below.is_some() && stockade_policy::protected_part_in(region, path).is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_scratch::Folder;

    #[test]
    fn the_table_is_read() {
        let table = read().unwrap();
        let lists =
            [&table.closed, &table.worktrees, &table.programs, &table.ends, &table.variables];
        assert!(lists.iter().all(|list| !list.is_empty()));
        // Each worktree folder is an exception to something.
        for name in &table.worktrees {
            assert!(
                table.closed.iter().any(|tree| begins(Path::new(name), Path::new(tree))),
                "{name}"
            );
        }
    }

    #[test]
    fn a_protected_tree_is_one_wherever_a_region_begins() {
        let home = PathBuf::from("/h");
        let place = Place {
            cwd: home.join("p"),
            session: None,
            project: home.join("p"),
            roots: Vec::new(),
            home,
            homes: vec![PathBuf::from("/h2")],
            additional: Vec::new(),
        };
        let own = [PathBuf::from("/var/own")];
        let found = |region: &str| {
            closed(Path::new(region), &place, &own).map(|it| it.path.display().to_string())
        };
        for (region, tree) in [
            ("/h/.config", "/h/.config"),
            ("/h/.config/nvim", "/h/.config"),
            ("/h2/.config/nvim", "/h2/.config"),
            ("/h/.Config/git", "/h/.config"),
            ("/h/.cargo/registry", "/h/.cargo"),
            ("/h/p/.vscode/x", "/h/p/.vscode"),
            ("/x/.config/git", "/x/.config/git"),
            ("/etc/cron.d", "/etc/cron.d"),
            ("/h/.claude/skills", "/h/.claude"),
            ("/var/own/x", "/var/own"),
        ] {
            assert_eq!(found(region).as_deref(), Some(tree), "{region}");
        }
        for region in [
            "/h",
            "/h/p",
            "/h/p/.cargo",
            "/h/.configuration",
            "/h/.codex/worktrees/1/p",
            "/h/p/.claude/worktrees/w",
            "/var/owner",
            "/x/.config",
        ] {
            assert_eq!(found(region), None, "{region}");
        }
    }

    #[test]
    fn regions_are_remembered_once_and_those_that_are_gone_are_forgotten() {
        let folder = Folder::new();
        let state = folder.path();
        let here = state.join("here");
        std::fs::create_dir(&here).unwrap();
        let regions = [here.clone(), PathBuf::from("/gone/a\nb")];
        for _ in 0..2 {
            remember(state, &regions, &remembered(state)).unwrap();
            assert_eq!(remembered(state), regions);
        }
        let many: Vec<PathBuf> = (0..LONG / 10).map(|it| format!("/gone/{it:06}").into()).collect();
        remember(state, &many, &remembered(state)).unwrap();
        let other = [PathBuf::from("/other")];
        remember(state, &other, &remembered(state)).unwrap();
        assert_eq!(remembered(state), [here, other[0].clone()]);
    }
}
