//! The reach of an agent's process: its own directory, the programs of the system, and no way out but the sockets that
//! lie in that directory.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::place_of;
use stockade_programs::tables::{Table, view};
use stockade_scene::protections::REQUIRED;
use stockade_scene::scene::Scene;
use stockade_spec::{
    Access, Fallback, FileRule, Files, Limits, Mediation, Network, Program, SandboxSpec,
};
use stockade_text::json::view::View;

/// Files and variables of the agent's process, from `policies/agent.jsonc`.
#[derive(Debug, Default)]
struct Known {
    shown: Vec<&'static str>,
    own: Vec<&'static str>,
    files: Vec<&'static str>,
    variables: Vec<&'static str>,
}

fn known() -> &'static Known {
    // A table that cannot be read shows nothing, so that nothing starts; a test reads it.
    static KNOWN: LazyLock<Known> = LazyLock::new(|| read().unwrap_or_default());
    &KNOWN
}

fn read() -> Option<Known> {
    let table = view(Table::Agent).members()?;
    let texts = |key: &str| table.get(key).and_then(View::texts);
    Some(Known {
        shown: texts("shown")?,
        own: texts("own")?,
        files: texts("files")?,
        variables: texts("variables")?,
    })
}

/// The setting that decides whether the agent's own process is confined.
const CONFINE: &str = "agent.confine";

/// Returns where the settings of a scene say that the agent runs unconfined: key, value, file and line.
#[must_use]
pub fn unconfined_by(scene: &Scene) -> Option<String> {
    unconfined_in(&scene.snapshot.rules)
}

/// Returns the same of rules.
#[must_use]
pub fn unconfined_in(rules: &stockade_policy::Rules) -> Option<String> {
    let (value, origin) = rules.settings().values.get(CONFINE)?;
    (value.boolean() == Some(false)).then(|| place_of("false", origin))
}

/// Returns the variables that an agent gets of those of this process.
#[must_use]
pub fn variables() -> Vec<(OsString, OsString)> {
    let found = known().variables.iter();
    let found = found.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    found.collect()
}

/// Makes the spec of an agent that works in `place`; blocks on the file system.
///
/// # Errors
///
/// The executable or the root of the file system cannot be read.
pub fn plan(
    executable: &Path,
    argv: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    place: &Path,
) -> io::Result<SandboxSpec> {
    let program = executable.canonicalize()?;
    let mut rules = hidden()?;
    let mut add = |path: &Path, access| rules.push(rule(path.to_path_buf(), access));
    let files = known().files.iter().map(Path::new);
    files.filter(|file| file.exists()).for_each(|file| add(file, Access::Read));
    add(&program, Access::Read);
    add(place, Access::Write);
    Ok(SandboxSpec {
        program: Program { path: program, argv, environment, cwd: place.to_path_buf() },
        files: Files { rules, sockets: vec![place.to_path_buf()], ..Files::default() },
        network: Network::Off,
        limits: Limits::default(),
        terminal: None,
        required: REQUIRED.iter().copied().collect(),
        mediation: Mediation::Writes,
        confine: true,
        fallback: Fallback::Refuse,
    })
}

fn rule(path: PathBuf, access: Access) -> FileRule {
    FileRule { path, access, origin: "builtin: the agent's own process".to_owned() }
}

/// Returns rules that hide all of the root but the system's programs.
fn hidden() -> io::Result<Vec<FileRule>> {
    let mut rules = Vec::new();
    for entry in std::fs::read_dir("/")? {
        let entry = entry?;
        let name = entry.file_name();
        // A link leads to what has a rule of its own.
        let is_own = entry.file_type()?.is_symlink() || known().own.iter().any(|own| name == **own);
        if !is_own && !known().shown.iter().any(|shown| name == **shown) {
            rules.push(rule(entry.path(), Access::None));
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_what_it_does_not_show_is_hidden() {
        let known = read().expect("a table");
        assert!(known.shown.contains(&"usr") && known.files == ["/etc/ld.so.cache"]);
        assert_eq!(known.own, ["dev", "proc", "sys"]);
        assert!(known.variables.iter().all(|it| !it.contains("KEY") && !it.contains("TOKEN")));
        let hidden = hidden().expect("the root");
        let is_hidden = |path: &str| hidden.iter().any(|it| it.path == Path::new(path));
        for path in ["/etc", "/home", "/root", "/tmp", "/var", "/run"] {
            let is_there = Path::new(path).is_dir() && !Path::new(path).is_symlink();
            assert_eq!(is_hidden(path), is_there, "{path}");
        }
        assert!(!is_hidden("/usr") && !is_hidden("/proc"));
    }
}
