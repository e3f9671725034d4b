//! Checks which crates import which, how much each crate may pull in, under which licences, and where `unsafe` may stand.
//!
//! The rules are those of `docs/internals/architecture.md`; this test reads `cargo metadata` and the sources.

#[path = "layering/crates.rs"]
mod crates;
#[path = "layering/house.rs"]
mod house;
#[path = "layering/matches.rs"]
mod matches;
#[path = "layering/starters.rs"]
mod starters;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crates::{LICENCES, RULES};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Ids of the packages of the workspace.
fn members(metadata: &Value) -> BTreeSet<&str> {
    list(metadata, "workspace_members").iter().filter_map(Value::as_str).collect()
}

/// Package name by package id.
fn names(metadata: &Value) -> BTreeMap<&str, &str> {
    list(metadata, "packages")
        .iter()
        .map(|package| (text(package, "id"), text(package, "name")))
        .collect()
}

/// Ids of the packages that `id` needs when it ships: normal and build dependencies, not those of tests.
fn shipped_dependencies<'a>(metadata: &'a Value, id: &str) -> Vec<&'a str> {
    let nodes = list(&metadata["resolve"], "nodes");
    let Some(node) = nodes.iter().find(|node| text(node, "id") == id) else { return Vec::new() };
    let shipped = |dependency: &&Value| {
        list(dependency, "dep_kinds").iter().any(|kind| kind["kind"].as_str() != Some("dev"))
    };
    list(node, "deps").iter().filter(shipped).map(|dependency| text(dependency, "pkg")).collect()
}

/// Id of the workspace member `name`; empty when it was taken out of the workspace.
fn id_of<'a>(metadata: &'a Value, name: &str) -> &'a str {
    let names = names(metadata);
    members(metadata).into_iter().find(|id| names[id] == name).unwrap_or_default()
}

#[test]
fn crates_import_only_what_the_table_allows() {
    let metadata = metadata();
    let names = names(&metadata);
    let ours: BTreeSet<&str> = members(&metadata).into_iter().map(|id| names[id]).collect();
    let listed: BTreeSet<&str> = RULES.iter().map(|rule| rule.0).collect();
    let unlisted: Vec<_> = ours.difference(&listed).collect();
    assert!(unlisted.is_empty(), "crates without a row in the table: {unlisted:?}");
    let mut wrong = Vec::new();
    for (name, allowed, _) in RULES.iter().filter(|rule| ours.contains(rule.0)) {
        for id in shipped_dependencies(&metadata, id_of(&metadata, name)) {
            let dependency = names[id];
            if ours.contains(dependency) && !allowed.contains(&dependency) {
                wrong.push(format!("{name} imports {dependency}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Crates that may start a confined process: the monitor, and the executable for its table of roles. Hooks and trials of the machine are
/// handed what starts theirs.
const LAUNCHING: [&str; 2] = ["stockade", "stockade-monitor"];

#[test]
fn few_crates_can_launch_at_all() {
    let metadata = metadata();
    let (names, launch) = (names(&metadata), id_of(&metadata, "stockade-sandbox"));
    let launches = |id: &&str| shipped_dependencies(&metadata, id).contains(&launch);
    let ours = members(&metadata).into_iter().filter(launches).map(|id| names[id]);
    let found: BTreeSet<&str> = ours.filter(|name| *name != "stockade-tests").collect();
    assert_eq!(found, LAUNCHING.into());
}

#[test]
fn crates_stay_within_their_budget() {
    let metadata = metadata();
    let names = names(&metadata);
    let ours: BTreeSet<&str> = RULES.iter().map(|rule| rule.0).collect();
    let mut over = Vec::new();
    for (name, _, budget) in RULES {
        let Some(budget) = budget else { continue };
        let mut seen = BTreeSet::new();
        let mut open = vec![id_of(&metadata, name)];
        while let Some(id) = open.pop() {
            for dependency in shipped_dependencies(&metadata, id) {
                if seen.insert(dependency) {
                    open.push(dependency);
                }
            }
        }
        let count = seen.iter().filter(|id| !ours.contains(names[*id])).count();
        println!("{name}: {count} of {budget} crates");
        if count > *budget {
            over.push(format!("{name} pulls in {count} crates, {budget} are allowed"));
        }
    }
    assert_eq!(over, Vec::<String>::new());
}

fn licence_fits(expression: &str) -> bool {
    let plain = expression.replace('/', " OR ").replace(['(', ')'], "");
    plain.split(" AND ").all(|part| part.split(" OR ").any(|one| LICENCES.contains(&one.trim())))
}

#[test]
fn every_dependency_has_a_fitting_licence() {
    let metadata = metadata();
    let unfit: Vec<String> = list(&metadata, "packages")
        .iter()
        .filter(|package| !licence_fits(text(package, "license")))
        .map(|package| {
            format!(
                "{} {}: `{}`",
                text(package, "name"),
                text(package, "version"),
                text(package, "license")
            )
        })
        .collect();
    assert_eq!(unfit, Vec::<String>::new());
    assert!(licence_fits("(MIT OR GPL-3.0) AND Unicode-3.0"), "one side of OR is enough");
    assert!(!licence_fits("GPL-3.0") && !licence_fits("MIT AND GPL-3.0") && !licence_fits(""));
}

#[test]
fn every_direct_dependency_has_a_reason() {
    let reasons = std::fs::read_to_string(root().join("docs/internals/dependencies.md"))
        .expect("docs/internals/dependencies.md");
    let metadata = metadata();
    let members = members(&metadata);
    let ours: BTreeSet<&str> = RULES.iter().map(|rule| rule.0).collect();
    let mut silent = BTreeSet::new();
    for package in
        list(&metadata, "packages").iter().filter(|package| members.contains(text(package, "id")))
    {
        for dependency in list(package, "dependencies") {
            let name = text(dependency, "name");
            if !ours.contains(name) && !reasons.contains(&format!("| `{name}` |")) {
                silent.insert(name.to_owned());
            }
        }
    }
    assert_eq!(silent, BTreeSet::new(), "each needs a row in docs/internals/dependencies.md");
}

/// The crates that ship.
const SHIPPED: [&str; 5] = ["parser", "policy", "sandbox", "gateway", "agent"];

/// All Rust files of the crates that ship, relative to the root.
fn sources() -> Vec<PathBuf> {
    sources_in(&SHIPPED)
}

fn sources_in(folders: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(root().join(&folder)) else { continue };
        for entry in entries {
            let entry = entry.expect("a readable folder");
            let path = folder.join(entry.file_name());
            if entry.file_type().expect("a file type").is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).expect("a readable source file")
}

#[test]
fn unsafe_stands_in_one_place() {
    let allowed = |path: &PathBuf| {
        path.starts_with("sandbox/kernel/src/syscalls") || path.ends_with("kernel/src/syscalls.rs")
    };
    let says_unsafe = |path: &PathBuf| {
        read(path).lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
                .iter()
                .any(|word| code.contains(word))
        })
    };
    let found: Vec<PathBuf> =
        sources().into_iter().filter(|path| !allowed(path)).filter(says_unsafe).collect();
    assert_eq!(found, Vec::<PathBuf>::new());
}

#[test]
fn crates_forbid_unsafe_code() {
    let roots = [
        "parser/src/lib.rs",
        "parser/witness/src/lib.rs",
        "policy/src/lib.rs",
        "policy/pattern/src/lib.rs",
        "policy/propose/src/lib.rs",
        "policy/rules/src/lib.rs",
        "gateway/src/lib.rs",
        "gateway/src/main.rs",
        "gateway/wire/src/lib.rs",
        "gateway/base/src/lib.rs",
        "gateway/log/src/lib.rs",
        "sandbox/src/lib.rs",
        "sandbox/probe/src/lib.rs",
        "gateway/client/src/lib.rs",
        "gateway/egress/src/lib.rs",
        "gateway/hooks/src/lib.rs",
        "gateway/monitor/src/lib.rs",
        "gateway/output/src/lib.rs",
        "gateway/plan/src/lib.rs",
        "gateway/violation-help/src/lib.rs",
        "gateway/review/src/lib.rs",
        "gateway/subscriptions/src/lib.rs",
        "gateway/system/src/lib.rs",
        "gateway/tasks/src/lib.rs",
        "gateway/settings/src/lib.rs",
        "gateway/shell/src/lib.rs",
        "gateway/facts/src/lib.rs",
        "gateway/scene/src/lib.rs",
        "gateway/approvals/src/lib.rs",
        "gateway/screen/src/lib.rs",
        "gateway/worker/src/lib.rs",
        "agent/src/main.rs",
        "agent/model/src/lib.rs",
        "agent/files/src/lib.rs",
        "agent/turn/src/lib.rs",
        "agent/door/src/lib.rs",
        "agent/sdk/src/lib.rs",
        "agent/web/src/lib.rs",
    ];
    let present = roots.iter().map(Path::new).filter(|path| root().join(path).exists());
    let lax: Vec<&Path> =
        present.filter(|path| !read(path).contains("\n#![forbid(unsafe_code)]")).collect();
    assert_eq!(lax, Vec::<&Path>::new());
}

/// Modules of the confinement crate, the lowest first: what each is for is its first line. One imports what stands before it,
/// and nothing behind; those of one line are one module.
const SANDBOX: &[&[&str]] =
    &[&["supervise"], &["launch", "spawn", "launcher_zygote", "other"], &["starter"]];

/// Returns the names behind `crate::` in a source, its tests and comments left out.
fn imported(source: &str) -> BTreeSet<String> {
    let code: String =
        code_of(source).iter().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let mut depth = 0;
        let mut begins = true;
        for (at, letter) in rest.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' | ' ' => {}
                _ if begins && (letter.is_alphabetic()) => {
                    let end = rest[at..].find(|it: char| !it.is_alphanumeric() && it != '_');
                    found.insert(rest[at..at + end.unwrap_or(rest.len() - at)].to_owned());
                }
                _ => {}
            }
            begins = depth == 1 && matches!(letter, '{' | ',' | ' ');
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// Returns the lines of code of a source: no comments, no empty lines, no tests.
fn code_of(source: &str) -> Vec<&str> {
    let mut lines = source.lines();
    let mut code = Vec::new();
    while let Some(line) = lines.next() {
        let bare = line.trim();
        if bare.starts_with("#[cfg(test)]") || bare.starts_with("#[cfg(all(test") {
            // The item behind it: up to the brace that closes it, or the end of a line without one.
            let mut depth = 0;
            for line in lines.by_ref() {
                depth += line.matches('{').count();
                depth -= line.matches('}').count().min(depth);
                if depth == 0 && !line.trim_start().starts_with("#[") {
                    break;
                }
            }
        } else if !bare.is_empty() && !bare.starts_with("//") {
            code.push(line);
        }
    }
    code
}

#[test]
fn modules_of_the_confinement_crate_import_one_way() {
    let root = read(Path::new("sandbox/src/lib.rs"));
    // A name that the crate shows as its own is defined in a module.
    let shown: BTreeMap<String, String> = root
        .split("pub use ")
        .skip(1)
        .filter_map(|part| part.split(';').next()?.split_once("::"))
        .flat_map(|(module, names)| {
            let names = names.split(|it: char| !it.is_alphanumeric() && it != '_');
            names.map(|name| (name.to_owned(), module.to_owned())).collect::<Vec<_>>()
        })
        .collect();
    let rank = |name: &str| SANDBOX.iter().position(|modules| modules.contains(&name));
    let mut wrong = Vec::new();
    let files = sources_in(&["sandbox/src"]);
    for file in files.iter().filter(|it| !it.ends_with("lib.rs") && !it.ends_with("tests.rs")) {
        let inside = file.strip_prefix("sandbox/src").unwrap().with_extension("");
        let module = inside.iter().next().unwrap().to_str().unwrap();
        let own = rank(module).unwrap_or_else(|| panic!("`{module}` has no place in the table"));
        for name in imported(&read(file)) {
            let target = shown.get(&name).unwrap_or(&name);
            if rank(target).is_some_and(|target| target > own) {
                wrong.push(format!("{} imports {name}", file.display()));
            }
        }
    }
    assert_eq!(wrong, <[String; 0]>::default());
    assert_eq!(
        imported("use crate::kernel::x;\nuse crate::{A, b::{c, d}, E};\n// crate::no\n"),
        ["A", "E", "b", "kernel"].map(str::to_owned).into()
    );
}

#[test]
fn functions_reach_nothing_outside() {
    for crate_name in ["parser", "parser/explain", "parser/programs", "parser/text", "policy"] {
        let bans = read(Path::new(&format!("{crate_name}/clippy.toml")));
        for ban in [
            "std::fs::read",
            "std::env::var",
            "std::process::Command::new",
            "std::time::SystemTime::now",
        ] {
            assert!(
                bans.contains(&format!("\"{ban}\"")),
                "{crate_name}/clippy.toml does not ban {ban}"
            );
        }
    }
    let manifest = read(Path::new("Cargo.toml"));
    assert!(manifest.contains("disallowed_methods = \"deny\""), "the ban must be an error");
}

#[test]
fn files_stay_readable() {
    // Tests are read as well: those of the crates, and those beside them.
    let all = sources_in(&[&SHIPPED[..], &["tests", "fuzz"]].concat());
    let read_too = ["tests/tests/layering.rs", "parser/src/lib.rs", "fuzz"];
    assert!(read_too.iter().all(|it| all.iter().any(|path| path.starts_with(it))), "{all:?}");
    let long: Vec<String> = all
        .into_iter()
        .filter_map(|path| {
            let lines = read(&path).lines().count();
            (lines > 600).then(|| format!("{}: {lines} lines", path.display()))
        })
        .collect();
    assert_eq!(long, Vec::<String>::new());
}

/// Every test of the tree: its name, with the files that hold one of this name.
/// Returns the files below `folder`.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of the repository");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// A line of a table can be read and reviewed whole; only a text that cannot be broken may be longer.
#[test]
fn tables_stay_reviewable() {
    const LONGEST: usize = 200;
    let mut long = Vec::new();
    for path in files_below(&root().join("policies")) {
        for (number, line) in read(&path).lines().enumerate() {
            let texts = line.split(", \"").map(|text| text.chars().count());
            let unbroken = texts.max().unwrap_or_default() > LONGEST - 50;
            if line.chars().count() > LONGEST && !unbroken {
                long.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert_eq!(long, [""; 0], "lines of more than {LONGEST} characters");
}

fn tests_by_name() -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in sources_in(&[&SHIPPED[..], &["tests"]].concat()) {
        let source = read(&file);
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((_, rest)) = line.split_once("fn ") else { continue };
            // Other attributes may stand in between.
            let marked = lines[..at].iter().rev().take_while(|it| it.starts_with("#["));
            if marked.into_iter().any(|it| *it == "#[test]" || it.starts_with("#[tokio::test")) {
                let name = rest.split('(').next().unwrap_or_default().to_owned();
                found.entry(name).or_default().push(file.clone());
            }
        }
    }
    found
}

/// Says whether `file` can be the one that `modules` name, such as `sandbox::guard` for `sandbox/guard.rs`.
fn is_in(file: &Path, modules: &[&str]) -> bool {
    let parts: Vec<String> = file
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    modules.iter().filter(|it| **it != "tests").all(|module| parts.iter().any(|it| it == module))
}

/// Returns what is wrong with the tests that one row of the table names.
fn missing_tests(cell: &str, tests: &BTreeMap<String, Vec<PathBuf>>) -> Vec<String> {
    // The name of a crate stands in quotes as well.
    let cell = SHIPPED
        .iter()
        .fold(cell.to_owned(), |cell, it| cell.replace(&format!("(unit test of `{it}`)"), ""));
    let quoted: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    let exists = |file: &Path, name: &str| {
        tests.get(name).is_some_and(|files| files.iter().any(|it| it.ends_with(file)))
    };
    let is_missing = |name: &&str| match name.rsplit_once("::") {
        // A file of cases, whose headings follow, or of tests.
        _ if name.ends_with(".md") => {
            let cases = read(&root().join("tests/cases").join(name));
            let said = cell.rsplit_once(": ").map_or("", |(_, headings)| headings.trim());
            let headings: Vec<&str> =
                cases.lines().filter_map(|it| it.strip_prefix("## ")).collect();
            !said.split("; ").all(|part| headings.iter().any(|it| it.contains(part)))
        }
        _ if name.ends_with(".rs") => !quoted.iter().any(|test| exists(Path::new(name), test)),
        None => !tests.contains_key(*name),
        Some((modules, test)) => {
            let modules: Vec<&str> = modules.split("::").collect();
            let named = tests.get(test).into_iter().flatten().any(|file| is_in(file, &modules));
            let whole: Vec<&str> = name.split("::").collect();
            let module = cell.contains("(unit tests)")
                && tests.values().flatten().any(|file| is_in(file, &whole));
            !named && !module
        }
    };
    let missing = quoted.iter().filter(|it| is_missing(it)).map(ToString::to_string).collect();
    if quoted.is_empty() { vec![cell.clone()] } else { missing }
}

#[test]
fn every_known_attack_names_a_test_that_is_there() {
    let text = read(&root().join("docs/internals/threats.md"));
    let tests = tests_by_name();
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Shape"));
    let cells: Vec<&str> = rows.filter_map(|row| row.rsplit('|').nth(1)).map(str::trim).collect();
    assert!(cells.len() > 80, "{}", cells.len());
    let missing: Vec<String> = cells.iter().flat_map(|cell| missing_tests(cell, &tests)).collect();
    assert_eq!(missing, <[String; 0]>::default());
    // A missing test is found.
    let none = [
        "`sandbox::guard::no_such_test`",
        "`kernel::a_bomb`",
        "general",
        "`7-executors.md`: Nothing",
    ];
    assert!(none.iter().all(|cell| !missing_tests(cell, &tests).is_empty()));
}
