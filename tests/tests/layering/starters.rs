//! The files that may start a process.

use std::path::{Path, PathBuf};

use super::{code_of, read, sources_in};

/// Files that name what starts a confined process: the monitor, the hooks that are confined, the agent's own process, the trial of the
/// proxy, and the table of roles.
const CONFINED: &[&str] = &[
    "gateway/hooks/src/confined.rs",
    "gateway/monitor/src/run/launchers.rs",
    "gateway/monitor/src/prefork.rs",
    "gateway/src/cli/agent.rs",
    "gateway/src/cli/agent/stand.rs",
    "gateway/src/cli/doctor/proxy.rs",
    "gateway/src/cli/mod.rs",
];

/// Files that start another process, each with its reason: helpers that are this executable or stand beside it.
const OTHERS: &[&str] = &[
    "gateway/client/src/connection.rs",
    "gateway/client/src/start.rs",
    "gateway/egress/src/process.rs",
    "gateway/hooks/src/http.rs",
    "gateway/hooks/src/process.rs",
    "gateway/hooks/src/reaper.rs",
    "gateway/src/cli/agent/choose.rs",
    "gateway/src/cli/agent/stand.rs",
    "gateway/src/cli/agent.rs",
    "gateway/src/cli/doctor/agent.rs",
    "gateway/src/cli/doctor/system.rs",
    "gateway/src/cli/serve.rs",
    "gateway/src/cli/shell.rs",
    "gateway/system/src/elsewhere.rs",
    "gateway/system/src/install/programs.rs",
    "gateway/system/src/keeper.rs",
    "gateway/system/src/tries.rs",
    "gateway/worker/src/worker.rs",
    "sandbox/probe/src/process.rs",
    "sandbox/probe/src/trial.rs",
    "sandbox/src/spawn.rs",
];

/// Returns the sources below `folders` that have a line of code, outside of tests, for which `is_meant` holds.
fn that_hold(folders: &[&str], is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let is_shipped = |path: &PathBuf| {
        let mut parts = path.components().map(|it| it.as_os_str().to_string_lossy().into_owned());
        !parts.any(|it| matches!(it.as_str(), "tests" | "tests.rs" | "benches" | "examples"))
    };
    let holds = |path: &PathBuf| code_of(&read(path)).into_iter().any(&is_meant);
    sources_in(folders).into_iter().filter(is_shipped).filter(holds).collect()
}

#[test]
fn only_the_monitor_and_confined_hooks_start_confined_processes() {
    let starts = |line: &str| {
        let line = line.replace("Error::Launcher", "");
        let words = ["Launcher", "stockade_sandbox", "start_confined", ".start)("];
        words.iter().any(|it| line.contains(it))
    };
    let found = that_hold(&["gateway", "agent"], starts);
    // The monitor keeps launchers under a name of its own.
    let own = Path::new("gateway/monitor/src");
    let others: Vec<&PathBuf> = found
        .iter()
        .filter(|it| !it.starts_with(own) && !CONFINED.iter().any(|allowed| it.ends_with(allowed)))
        .collect();
    assert_eq!(others, Vec::<&PathBuf>::new());
    let missing: Vec<&&str> =
        CONFINED.iter().filter(|it| !found.iter().any(|path| path.ends_with(it))).collect();
    assert_eq!(missing, Vec::<&&str>::new(), "what starts nothing needs no exception");
}

#[test]
fn among_the_doors_the_table_of_roles_alone_names_the_launcher() {
    let found = that_hold(&["gateway/src"], |line| line.contains("stockade_sandbox"));
    assert_eq!(found, [PathBuf::from("gateway/src/cli/mod.rs")]);
}

#[test]
fn processes_are_started_where_the_list_says_and_nowhere_else() {
    let manifest = read(Path::new("Cargo.toml"));
    assert!(manifest.contains("disallowed_methods = \"deny\""), "the ban must be an error");
    for folder in ["gateway", "sandbox"] {
        let bans = read(&Path::new(folder).join("clippy.toml"));
        for ban in ["std::process::Command::new", "tokio::process::Command::new"] {
            assert!(bans.contains(&format!("\"{ban}\"")), "{folder}/clippy.toml: {ban}");
        }
    }
    let lifts = |line: &str| {
        line.contains("clippy::disallowed_methods")
            && !line.trim_start().starts_with("#![cfg_attr(test")
    };
    let found = that_hold(&["gateway", "sandbox"], lifts);
    assert_eq!(found, OTHERS.iter().map(PathBuf::from).collect::<Vec<_>>());
    let starts = |line: &str| line.contains("Command::new(");
    assert_eq!(that_hold(&["gateway", "sandbox"], starts), found);
}
