//! The pages of `docs/` and the README: their links lead somewhere, each page says for whom it is, the settings that they
//! show are read without a complaint, and so are the command lines.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stockade_tests::{Place, root, stockade};

/// Returns all pages, by their paths below the root.
fn pages() -> Vec<PathBuf> {
    let mut waiting = vec![root().join("docs")];
    let mut found = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of pages").flatten() {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the lines of a page outside of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    page.lines().filter(move |line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// Returns the anchor that a heading has on the usual sites.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the targets of the links in a page.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(page) {
        for piece in line.split("](").skip(1) {
            found.extend(piece.split_once(')').map(|(target, _)| target.to_owned()));
        }
    }
    found
}

/// Returns why a link of `page` leads nowhere.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => page.to_owned(),
        _ => page.parent().expect("a folder").join(path),
    };
    if !target.exists() {
        return Some(format!("{}: {link}", page.display()));
    }
    let has = |text: &str| {
        prose(text)
            .any(|line| line.starts_with('#') && anchor(line.trim_start_matches('#')) == fragment)
    };
    (!fragment.is_empty() && !has(&read(&target)))
        .then(|| format!("{}: {link}: no such heading", page.display()))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut found = Vec::new();
    let mut count = 0;
    for page in pages() {
        for link in links(&read(&page)) {
            count += 1;
            found.extend(broken(&page, &link));
        }
    }
    assert!(count > 60, "{count}");
    assert_eq!(found, <[String; 0]>::default());
    let readme = root().join("README.md");
    assert!(broken(&readme, "docs/none.md").is_some());
    assert!(broken(&readme, "docs/guide/network.md#none").is_some());
}

#[test]
fn every_page_says_for_whom_it_is_and_is_in_the_list_of_pages() {
    let list = root().join("docs/README.md");
    let listed: Vec<PathBuf> = links(&read(&list))
        .iter()
        .map(|link| root().join("docs").join(link))
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    for page in pages().iter().filter(|page| page.starts_with(root().join("docs"))) {
        if *page == list {
            continue;
        }
        let text = read(page);
        let said = text.lines().take(4).any(|line| line.starts_with("*For "));
        assert!(said, "{}: the third line has the form `*For …*`", page.display());
        let real = page.canonicalize().expect("a page");
        assert!(listed.contains(&real), "{}: add a link in docs/README.md", page.display());
    }
}

/// Returns the blocks of `language` in a page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in page.lines() {
        match (&mut open, line) {
            (None, line) if line == format!("```{language}") => open = Some(Vec::new()),
            (Some(lines), "```") => {
                found.push(lines.join("\n"));
                open = None;
            }
            (Some(lines), line) => lines.push(line),
            (None, _) => {}
        }
    }
    found
}

#[test]
fn settings_that_the_pages_show_are_read_without_a_complaint() {
    let place = Place::new("docs-settings");
    let schema = place.output(["settings", "schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).expect("a schema");
    let keys = schema["properties"].as_object().expect("properties");
    let mut count = 0;
    for page in pages() {
        for block in blocks(&read(&page), "json") {
            let Ok(value) = serde_json::from_str::<serde_json::Value>(&block) else {
                panic!("{}: not JSON: {block}", page.display());
            };
            let settings = value
                .as_object()
                .is_some_and(|it| !it.is_empty() && it.keys().all(|key| keys.contains_key(key)));
            if !settings {
                continue;
            }
            count += 1;
            let output = place.output(["check", "--json", "--settings", &block, "--", "true"]);
            let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let warnings = told["warnings"].as_array();
            assert!(
                output.status.success() && warnings.is_none_or(Vec::is_empty),
                "{}: {block}\n{told}",
                page.display(),
            );
        }
    }
    assert!(count > 5, "{count}");
}

/// Stands for `stockade` in the blocks: with `--help` at its end a command line is read and does nothing. A command to run
/// would take that word for its own, so such a line runs.
const READS: &str = r#"#!/bin/bash
case $1 in
run | check | learn | --audit-dir) "$GATE" "$@" > /dev/null 2> "$TOLD" ;;
*) "$GATE" "$@" --help > /dev/null 2> "$TOLD" ;;
esac
if grep -q "unexpected\|invalid value\|unrecognized\|required arguments\|cannot be used" "$TOLD"; then
    echo "$*: $(head -n 1 "$TOLD")"
fi
"#;

#[test]
fn command_lines_that_the_pages_show_are_read() {
    let place = Place::new("docs-lines");
    let programs = place.root.join("programs");
    place.write("programs/stockade", READS);
    // Programs that are not part of stockade, or change the machine, do nothing here.
    for name in ["npm", "podman", "docker", "cargo", "install", "apparmor_parser", "systemctl"] {
        place.write(&format!("programs/{name}"), "#!/bin/bash\nexit 0\n");
    }
    place.write("programs/sudo", "#!/bin/bash\nexec \"$@\"\n");
    for program in std::fs::read_dir(&programs).expect("programs").flatten() {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(program.path(), mode).expect("chmod");
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let (mut lines, mut wrong) = (0, Vec::new());
    for page in pages() {
        for block in blocks(&read(&page), "sh") {
            // A block that writes outside of the project is only read.
            let option = if block.contains("> /etc/") { "-n" } else { "-e" };
            lines += block.matches("stockade ").count();
            let plain = place.stockade([""; 0]);
            let mut shell = Command::new("bash");
            shell.args([option, "-c", &block]).current_dir(place.project()).env_clear();
            shell.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
            shell.env("PATH", &path).env("GATE", stockade());
            shell.env("TOLD", place.root.join("told")).stdin(Stdio::null());
            let output = shell.output().expect("bash");
            let told =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            if !told.is_empty() {
                wrong.push(format!("{}: {told}", page.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(lines > 25, "{lines}");
}
