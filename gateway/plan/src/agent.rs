//! The reach of an agent's process: its own directory, the programs of the system, and no way out but the sockets that
//! lie in that directory.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::place_of;
use stockade_sandbox::{
    Access, Fallback, FileRule, Files, Limits, Mediation, Network, Program, SandboxSpec,
};
use stockade_scene::protections::REQUIRED;
use stockade_scene::scene::Scene;

/// Directories at the root in which programs and libraries of the system lie (hier(7), and the stores of Nix and Guix).
const SHOWN: [&str; 8] = ["bin", "gnu", "lib", "lib32", "lib64", "nix", "sbin", "usr"];
/// Directories at the root that every run has of its own.
const OWN: [&str; 3] = ["dev", "proc", "sys"];
/// The list of libraries that the loader reads (ld.so(8)).
const LOADER: &str = "/etc/ld.so.cache";
/// Variables that an agent gets: language, terminal, and what its host says about itself. None of them may hold a secret.
const VARIABLES: [&str; 9] = [
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "LANG",
    "LC_ALL",
    "NO_COLOR",
    "STOCKADE_MODEL_TRIES",
    "TERM",
    "TZ",
];

/// The setting that decides whether the agent's own process is confined.
const CONFINE: &str = "agent.confine";

/// Returns where the settings of a scene say that the agent runs unconfined: key, value, file and line.
#[must_use]
pub fn unconfined_by(scene: &Scene) -> Option<String> {
    let (value, origin) = scene.snapshot.rules.settings().values.get(CONFINE)?;
    (value.boolean() == Some(false)).then(|| place_of("false", origin))
}

/// Returns the variables that an agent gets of those of this process.
#[must_use]
pub fn variables() -> Vec<(OsString, OsString)> {
    let found = VARIABLES.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
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
    if Path::new(LOADER).exists() {
        add(Path::new(LOADER), Access::Read);
    }
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
        let is_own = entry.file_type()?.is_symlink() || OWN.iter().any(|own| name == **own);
        if !is_own && !SHOWN.iter().any(|shown| name == **shown) {
            rules.push(rule(entry.path(), Access::None));
        }
    }
    Ok(rules)
}
