//! How much each crate holds, and whether its modules import one way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{list, members, metadata, read, root, sources_in, tests_by_name, text};

/// Folder, and the most lines that it may hold without tests, comments and blank lines. A limit goes down when
/// code goes away.
const LINES: &[(&str, usize)] = &[
    // With the reader of texts that zsh runs.
    ("parser/src", 13_000),
    ("parser/programs", 1_600),
    ("parser/text", 700),
    ("parser/explain", 190),
    ("parser/witness", 400),
    ("policy/src", 7_000),
    ("policy/pattern", 340),
    ("policy/propose", 120),
    // Words of a choice for each misspelt key or value.
    ("policy/rules", 5_520),
    // Together with `sandbox/kernel` 11,500 at most. With the turns that runs take.
    ("sandbox/src", 7_501),
    // With the filters of the machine's service, one for each of its processes.
    ("sandbox/kernel", 3_999),
    // With what crates that cannot launch are handed.
    ("sandbox/spec", 1_245),
    // With its acts, and a trial as a process of its own.
    ("sandbox/probe", 805),
    ("sandbox/seatbelt", 270),
    // With the trace of a caller, times of command lines and the sentence about approvers, which front ends share; with what an
    // agent says of its session.
    ("gateway/wire", 1_520),
    ("gateway/base", 930),
    // With who wrote what is read at the socket of the machine's service.
    ("gateway/client", 917),
    // Subscriptions read along: by place, and of one user alone. The recorder carries questions and answers between users.
    ("gateway/log", 9_410),
    ("gateway/worker", 600),
    ("gateway/egress", 2_700),
    // With who has to approve, with what settings of a host may tighten, and the hooks of plugins.
    ("gateway/settings", 1_420),
    // With the aliases and functions of a person, which are put into texts before these are judged. And zsh.
    ("gateway/shell", 830),
    ("gateway/facts", 1_440),
    ("gateway/scene", 622),
    ("gateway/approvals", 670),
    ("gateway/review", 1_100),
    // With users that the name service switch alone knows, and a listener apart from the keeper: its message, its shares, its unit.
    // And what others learn of such a user for approvals. With the profiles of AppArmor: their
    // text, whether a machine takes them, how the kernel gets and loses them.
    ("gateway/system", 2_265),
    ("gateway/tasks", 900),
    ("gateway/screen", 80),
    ("gateway/output", 560),
    ("gateway/violation-help", 360),
    ("gateway/subscriptions", 190),
    // With where a session goes on, and the table of the agent's process. And the files with which runs take turns.
    ("gateway/plan", 3_770),
    ("gateway/hooks", 2_100),
    // Its long functions are cut into named ones, each of which costs the lines of a signature. Subscriptions are here, where a
    // session goes on, and texts with definitions. Together with the scene it holds 7,000 at most.
    ("gateway/monitor", 6_378),
    // With the words of an agent's host, which it hears beside the agent, how the agent stands on this machine, and the choice
    // of a session before anything starts. What a host tightens while a session runs is answered in front of the agent.
    // And a connection is counted as long as it is served.
    ("gateway/src", 14_500),
    ("agent/web", 1_050),
];

/// One part of a crate: its name, its modules, and its limit of lines.
type Part = (&'static str, &'static [&'static str], usize);

/// Parts of a crate, the lowest first: modules, and the most lines that they may hold together. A module imports those of its own
/// part and of the parts before it. The part without names holds all other modules.
const PARTS: &[(&str, &[Part])] = &[(
    "gateway/log/src",
    &[
        ("record", &["checkpoint", "hash", "keys", "error", "files", "record"], 1_250),
        ("redact", &["redact"], 1_400),
        ("write", &[], 3_000),
        ("read", &["query", "verify", "schema"], 3_350),
        ("apart", &["apart"], 800),
    ],
)];

/// Returns the lines of `source` without its unit tests.
pub(super) fn shipped(source: &str) -> impl Iterator<Item = &str> {
    source.lines().take_while(|line| !line.starts_with("mod tests {"))
}

pub(super) fn is_test(path: &Path) -> bool {
    path.components().any(|part| {
        let part = part.as_os_str();
        ["tests", "tests.rs", "benches", "properties.rs", "oracle.rs"].iter().any(|it| part == *it)
    })
}

fn is_code(line: &&str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

#[test]
fn each_crate_holds_no_more_lines_than_the_table_allows() {
    let mut over = Vec::new();
    for (folder, limit) in LINES {
        let files = sources_in(&[folder]).into_iter().filter(|path| !is_test(path));
        let lines: usize = files.map(|path| shipped(&read(&path)).filter(is_code).count()).sum();
        println!("{folder}: {lines} of {limit} lines");
        assert!(lines > 0, "{folder} is empty");
        if lines > *limit {
            over.push(format!("{folder} holds {lines} lines, {limit} are allowed"));
        }
    }
    assert_eq!(over, Vec::<String>::new());
}

/// Returns the paths that a tree of a `use` declaration names, such as `a::b` and `a::c` for `a::{b, c}`.
fn paths(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, inner)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    let mut add = |part: &str| {
        let part = part.trim();
        if !part.is_empty() {
            found.extend(paths(part).into_iter().map(|path| format!("{}{path}", prefix.trim())));
        }
    };
    for (at, character) in inner.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                add(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    add(&inner[start..]);
    found
}

/// Returns the modules of a crate's top level, each with those that it imports.
fn imports(root: &str) -> BTreeMap<String, BTreeSet<String>> {
    let files: Vec<PathBuf> =
        sources_in(&[root]).into_iter().filter(|path| !is_test(path)).collect();
    let place = |path: &Path| -> Vec<String> {
        let below = path.strip_prefix(root).expect("below the root").with_extension("");
        below.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let tops: BTreeSet<String> = files.iter().map(|path| place(path)[0].clone()).collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in &files {
        let place = place(file);
        if place[0] == "lib" || place[0] == "main" {
            continue;
        }
        let source = read(file);
        let code: Vec<&str> =
            shipped(&source).map(|line| line.split("//").next().unwrap_or_default()).collect();
        let code = code.join(" ");
        let mut named = Vec::new();
        for (at, _) in code.match_indices("use ") {
            if let Some((tree, _)) = code[at + 4..].split_once(';') {
                named.extend(paths(tree));
            }
        }
        // Paths in the code itself.
        for (at, _) in code.match_indices("crate::") {
            let rest = &code[at + 7..];
            let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_');
            named.push(format!("crate::{}", &rest[..end.unwrap_or(rest.len())]));
        }
        for path in named {
            let parts: Vec<&str> = path.split("::").map(str::trim).collect();
            let ups = parts.iter().take_while(|part| **part == "super").count();
            let target = match parts[0] {
                "crate" => parts.get(1),
                // Only so many `super` lead to the root of the crate.
                "super" if ups == place.len() => parts.get(ups),
                _ => None,
            };
            if let Some(target) = target.filter(|it| tops.contains(**it) && **it != place[0]) {
                found.entry(place[0].clone()).or_default().insert((*target).to_owned());
            }
        }
    }
    found
}

/// Returns the folder of the sources of a crate, from the root of the workspace.
fn source_of(metadata: &serde_json::Value, id: &str) -> Option<String> {
    let mut packages = list(metadata, "packages").iter();
    let manifest = text(packages.find(|package| text(package, "id") == id)?, "manifest_path");
    let folder = Path::new(manifest).parent()?.strip_prefix(root()).ok()?.join("src");
    root().join(&folder).is_dir().then(|| folder.display().to_string())
}

/// Returns the modules that can be reached from `module`.
fn reach(graph: &BTreeMap<String, BTreeSet<String>>, module: &str) -> BTreeSet<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![module.to_owned()]);
    while let Some(next) = open.pop() {
        for target in graph.get(&next).into_iter().flatten() {
            if seen.insert(target.clone()) {
                open.push(target.clone());
            }
        }
    }
    seen
}

#[test]
fn modules_import_one_way() {
    let metadata = metadata();
    let mut wrong = Vec::new();
    for root in members(&metadata).into_iter().filter_map(|id| source_of(&metadata, id)) {
        let graph = imports(&root);
        let reached: BTreeMap<&String, BTreeSet<String>> =
            graph.keys().map(|module| (module, reach(&graph, module))).collect();
        let circle_of = |module: &String| -> BTreeSet<String> {
            let mutual = |it: &&String| reached.get(it).is_some_and(|from| from.contains(module));
            reached[module].iter().filter(mutual).cloned().collect()
        };
        let largest = graph.keys().map(circle_of).max_by_key(BTreeSet::len).unwrap_or_default();
        println!("{root}: {} modules in one circle", largest.len());
        if !largest.is_empty() {
            wrong.push(format!("{root}: {largest:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(paths("a::{b, c::{d, e}}"), ["a::b", "a::c::d", "a::c::e"]);
    let two = BTreeMap::from([
        ("a".to_owned(), BTreeSet::from(["b".to_owned()])),
        ("b".to_owned(), BTreeSet::from(["a".to_owned()])),
    ]);
    assert!(reach(&two, "a").contains("a"), "a circle of two is found");
}

/// Returns the number of the part that a module belongs to.
fn part_of(parts: &[(&str, &[&str], usize)], module: &str) -> usize {
    let named = parts.iter().position(|(_, modules, _)| modules.contains(&module));
    let rest = || parts.iter().position(|(_, modules, _)| modules.is_empty());
    named.or_else(rest).unwrap_or_else(|| panic!("`{module}` belongs to no part"))
}

#[test]
fn parts_of_a_crate_import_one_way_and_stay_small() {
    let mut wrong = Vec::new();
    for (root, parts) in PARTS {
        for (module, targets) in imports(root) {
            let own = part_of(parts, &module);
            let above = targets.iter().filter(|target| part_of(parts, target) > own);
            wrong.extend(above.map(|target| format!("{root}: {module} imports {target}")));
        }
        let mut lines = vec![0; parts.len()];
        for file in sources_in(&[root]).into_iter().filter(|path| !is_test(path)) {
            let below = file.strip_prefix(root).expect("below the root").with_extension("");
            let module = below.iter().next().expect("a module").to_string_lossy().into_owned();
            lines[part_of(parts, &module)] += shipped(&read(&file)).filter(is_code).count();
        }
        for ((name, modules, limit), lines) in parts.iter().zip(lines) {
            println!("{root}: part {name} holds {lines} of {limit} lines");
            assert!(lines > 0, "{name}: {modules:?}");
            if lines > *limit {
                wrong.push(format!("{root}: {name} holds {lines} lines, {limit} are allowed"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn modules_and_stops_exist() {
    let page = read(Path::new("docs/internals/architecture.md"));
    let section = page.split("## The path of one call").nth(1).expect("the path of one call");
    let section = section.split("\n## ").next().unwrap_or_default();
    let cell = |row: &str, at: usize| {
        row.split('|').nth(at).unwrap_or_default().trim().trim_matches('`').to_owned()
    };
    let rows: Vec<&str> =
        section.lines().filter(|row| row.starts_with("| ") && !row.starts_with("| stop")).collect();
    assert!((20..=30).contains(&rows.len()), "{} stops", rows.len());
    let source = |file: &str| read(Path::new(file));
    let is_missing = |row: &&&str| {
        let (file, function) = (cell(row, 2), cell(row, 3));
        !super::root().join(&file).is_file()
            || ["(", "<"].iter().all(|it| !source(&file).contains(&format!("fn {function}{it}")))
    };
    let missing: Vec<&&str> = rows.iter().filter(is_missing).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}

#[test]
fn each_invariant_has_a_test_that_is_named_after_it() {
    let page = read(Path::new("docs/internals/architecture.md"));
    let rows = page.lines().filter_map(|row| row.strip_prefix("| I")?.split_once(" |"));
    let numbers: Vec<&str> = rows.map(|(number, _)| number).collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
    let tests = tests_by_name();
    let has_test = |number: &&&str| tests.keys().any(|it| it.starts_with(&format!("i{number}_")));
    let missing: Vec<&&str> = numbers.iter().filter(|it| !has_test(it)).collect();
    assert_eq!(missing, Vec::<&&str>::new());
    assert!(!has_test(&&"11"), "what is not there is missed");
}
