//! Leftovers of one confined command widen nothing for the next: links where commands write, trees in which the
//! person's programs find what they start, settings that a command could have written.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use stockade_tests::{Place, is_root};

const NOBODY: u32 = 65_534;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a test as whoever runs it and, if that is root, as an ordinary user, too.
fn as_everybody(name: &str, test: impl Fn(&Place, &dyn Fn(&[&str]) -> Command)) {
    let place = Place::new(name);
    test(&place, &|arguments| place.stockade(arguments));
    if is_root() {
        let place = Place::new(&format!("{name}-user"));
        test(&place, &|arguments| place.stockade_as(NOBODY, arguments));
    }
}

type Stockade<'a> = &'a dyn Fn(&[&str]) -> Command;

fn run(stockade: Stockade<'_>, line: &str) -> Output {
    stockade(&["run", "--no-daemon", "--", line]).output().expect("the executable starts")
}

/// Runs a command that must succeed.
fn works(stockade: Stockade<'_>, line: &str) {
    let output = run(stockade, line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
}

/// Does what a run with a supervisor is kept from: what is there counts the same, whoever made it.
fn by_hand(directory: &Path, line: &str) {
    let done = Command::new("sh").args(["-c", line]).current_dir(directory).status();
    assert!(done.expect("sh starts").success(), "{line}");
}

fn user(place: &Place, settings: &Value) {
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

/// Settings with one entry of the sandbox's files beside what lets commands run.
fn files(key: &str, path: &Path) -> Value {
    json!({"permissions": {"allow": ["Bash"]}, "sandbox": {"filesystem": {key: [path]}}})
}

/// Returns the notes of a run on rules that granted nothing.
fn notes(stockade: Stockade<'_>, line: &str) -> Vec<String> {
    let output = stockade(&["run", "--no-daemon", "--json", "--", line]).output().expect("it");
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let notes = object["sandbox"]["notes"].as_array().cloned().unwrap_or_default();
    notes.iter().map(|note| note.as_str().expect("text").to_owned()).collect()
}

#[test]
fn a_rule_that_opens_a_place_goes_over_no_link_that_a_command_made() {
    as_everybody("regions-write", |place, stockade| {
        let (project, kept) = (place.project(), place.home().join("kept"));
        let named = project.join("src");
        let rules = |path: &Path| {
            let edit = json!({"permissions": {"allow": ["Bash", format!("Edit(/{}/**)", path.display())]}});
            let added =
                json!({"permissions": {"allow": ["Bash"], "additionalDirectories": [path]}});
            [files("allowWrite", path), edit, added]
        };
        for at in 0..3 {
            place.write("home/kept/old", "");
            place.write("project/src/old", "");
            // Named by its own path, it is opened.
            user(place, &rules(&kept)[at]);
            works(stockade, "bash -c 'echo > ~/kept/by-name'");
            assert!(kept.join("by-name").exists());
            user(place, &rules(&named)[at]);
            works(stockade, "bash -c 'echo > src/before'");
            by_hand(&place.project(), "rm -r src && ln -s ../home/kept src");
            for act in ["echo > src/planted", "echo > ~/kept/planted"] {
                let output = run(stockade, &format!("bash -c '{act}'"));
                assert_ne!(output.status.code(), Some(0), "{act}");
                assert!(!kept.join("planted").exists(), "{at}: {act}");
                let told = text(&output.stderr);
                let expected = format!("use the real path in the rule: `{}`", kept.display());
                assert!(told.contains("grants nothing") && told.contains(&expected), "{told}");
            }
            let notes = notes(stockade, "true");
            assert!(
                matches!(notes.as_slice(), [one] if one.contains(&named.display().to_string())),
                "{notes:?}"
            );
            // A folder that a person puts back counts again.
            std::fs::remove_file(&named).expect("the link goes");
            place.write("project/src/old", "");
            works(stockade, "bash -c 'echo > src/again'");
            std::fs::remove_dir_all(&named).expect("the folder goes");
            std::fs::remove_dir_all(&kept).expect("the folder goes");
        }
    });
}

#[test]
fn rules_for_reading_for_one_file_and_for_sockets_go_over_no_such_link_either() {
    as_everybody("regions-read", |place, stockade| {
        let (project, home) = (place.project(), place.home());
        place.write("home/secret/key", "hidden");
        place.write("home/notes", "old");
        let hidden = |path: &Path| {
            json!({"permissions": {"allow": ["Bash"]}, "sandbox": {"filesystem": {
                "denyRead": [home.join("secret")], "allowRead": [path]}}})
        };
        user(place, &hidden(&home.join("secret/key")));
        works(stockade, "bash -c 'cat ~/secret/key'");
        user(place, &hidden(&project.join("public/key")));
        by_hand(&place.project(), "ln -s ../home/secret public");
        let output = run(stockade, "bash -c 'cat public/key ~/secret/key'");
        assert_eq!(text(&output.stdout), "", "{}", text(&output.stderr));
        // A pattern, of which the last part is the link.
        user(place, &hidden(&project.join("p*/k*")));
        let output = run(stockade, "bash -c 'cat public/key ~/secret/key'");
        assert_eq!(text(&output.stdout), "", "{}", text(&output.stderr));

        user(place, &files("allowWrite", &home.join("notes")));
        works(stockade, "bash -c 'echo new > ~/notes'");
        user(place, &files("allowWrite", &project.join("notes")));
        by_hand(&place.project(), "ln -s ../home/notes notes");
        assert_ne!(run(stockade, "bash -c 'echo planted > notes'").status.code(), Some(0));
        assert_eq!(std::fs::read_to_string(home.join("notes")).expect("it"), "new\n");

        // A path of a socket is short (unix(7)), so it is bound and reached under another name.
        let socket = |path: &Path| json!({"permissions": {"allow": ["Bash"]}, "sandbox": {"network": {"allowUnixSockets": [path]}}});
        let connect = "cd ~ && perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); \
                       connect(S, pack_sockaddr_un(\"s\")) or die $!'";
        let here = std::env::current_dir().expect("a directory");
        std::env::set_current_dir(&home).expect("it can be entered");
        let listener = UnixListener::bind("s");
        std::env::set_current_dir(here).expect("it is there");
        let _listener = listener.expect("a socket");
        std::fs::set_permissions(home.join("s"), std::fs::Permissions::from_mode(0o777))
            .expect("chmod");
        user(place, &socket(&home.join("s")));
        works(stockade, connect);
        user(place, &socket(&project.join("s")));
        by_hand(&place.project(), "ln -s ../home/s s");
        assert_ne!(run(stockade, connect).status.code(), Some(0));
    });
}

#[test]
fn a_link_that_a_command_of_another_project_made_counts_as_one() {
    as_everybody("regions-other", |place, stockade| {
        let other = place.root.join("other");
        place.repository(&other);
        place.write("other/out/old", "");
        place.write("home/kept/old", "");
        user(place, &files("allowWrite", &other.join("out")));
        works(stockade, "bash -c 'echo > ../other/out/before'");
        user(place, &json!({"permissions": {"allow": ["Bash"]}}));
        let mut command = stockade(&["run", "--no-daemon", "--", "touch out/there"]);
        assert_eq!(command.current_dir(&other).output().expect("it").status.code(), Some(0));
        by_hand(&other, "rm -r out && ln -s ../home/kept out");
        user(place, &files("allowWrite", &other.join("out")));
        assert_ne!(run(stockade, "bash -c 'echo > ../other/out/planted'").status.code(), Some(0));
        assert!(!place.home().join("kept/planted").exists());
    });
}

#[test]
fn links_that_no_command_could_make_lead_as_before() {
    as_everybody("regions-own-links", |place, stockade| {
        place.write("home/data/old", "");
        symlink("data", place.home().join("short")).expect("a link");
        symlink(place.project(), place.root.join("work")).expect("a link");
        user(place, &files("allowWrite", &place.home().join("short")));
        works(stockade, "bash -c 'echo > ~/data/new && echo > ~/short/newer'");
        let work = place.root.join("work").display().to_string();
        for arguments in [["--cwd", &work], ["--project", &work], ["--add-dir", &work]] {
            let arguments =
                [&["run", "--no-daemon"], arguments.as_slice(), &["--", "touch here"]].concat();
            let output = stockade(&arguments).output().expect("it");
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        }
        // One that stays in the project gives nothing that the project does not.
        works(stockade, "mkdir -p a/b && ln -s a/b inner");
        let output = stockade(&["run", "--no-daemon", "--cwd", "inner", "--", "touch x"]).output();
        assert_eq!(output.expect("it").status.code(), Some(0));
        assert!(place.project().join("a/b/x").exists());
    });
}

#[test]
fn no_directory_of_a_call_is_what_a_link_of_a_command_says() {
    as_everybody("regions-call", |place, stockade| {
        place.write("home/kept/old", "");
        let (kept, link) = (place.home().join("kept"), place.project().join("src"));
        let real = kept.display().to_string();
        let by_name = stockade(&[
            "run",
            "--no-daemon",
            "--project",
            &real,
            "--cwd",
            &real,
            "--",
            "touch by-name",
        ])
        .output();
        assert_eq!(by_name.expect("it").status.code(), Some(0));
        by_hand(&place.project(), "ln -s ../home/kept src");
        let refused = |output: Output, what: &str| {
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(122), "{what}: {told}");
            assert!(
                told.contains("contains the symbolic link") && told.contains(&real),
                "{what}: {told}"
            );
            assert!(!kept.join("planted").exists(), "{what}");
        };
        for what in ["--cwd", "--project", "--add-dir"] {
            let arguments = ["run", "--no-daemon", what, "src", "--", "touch planted src/planted"];
            refused(stockade(&arguments).output().expect("it"), what);
        }
        // A shell that went there by the link says so.
        let mut command = stockade(&["run", "--no-daemon", "--", "touch planted"]);
        command.current_dir(&link).env("PWD", &link);
        refused(command.output().expect("it"), "PWD");
        for name in
            ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CLAUDE_CONFIG_DIR", "HOME"]
        {
            let mut command = stockade(&["run", "--no-daemon", "--", "touch planted"]);
            refused(command.env(name, &link).output().expect("it"), name);
        }
    });
}

#[test]
fn a_circle_of_links_where_a_rule_points_stops_no_command() {
    as_everybody("regions-circle", |place, stockade| {
        let named = place.project().join("src");
        place.write("project/src/old", "");
        for key in ["allowWrite", "allowRead", "denyRead", "denyWrite"] {
            user(place, &files(key, &named));
            let _ = std::fs::remove_dir_all(&named);
            let _ = std::fs::remove_file(&named);
            symlink("src", &named).expect("a link");
            works(stockade, "true");
        }
    });
}

#[test]
fn what_leads_to_a_refusal_can_be_neither_removed_nor_replaced() {
    as_everybody("regions-deny", |place, stockade| {
        place.write("project/real/key", "hidden");
        place.write("project/real/sub/old", "");
        place.write("project/other/old", "");
        let project = place.project();
        symlink("real", project.join("conf")).expect("a link");
        symlink("../conf", project.join("other/deep")).expect("a link");
        // `renameat2` with RENAME_EXCHANGE.
        let number = if cfg!(target_arch = "x86_64") { 316 } else { 276 };
        let exchange = format!(
            "perl -e 'my ($x, $y) = (\"conf\", \"other\"); syscall({number}, -100, $x, -100, $y, 2) == 0 or die'"
        );
        let acts = [
            "rm conf",
            "mv conf c",
            "ln -sfn other conf",
            "mv -T other conf",
            "mv real r",
            "rm other/deep",
            "mv other o",
            exchange.as_str(),
        ];
        let named = project.join("other/deep/key");
        let pattern = project.join("other/deep/k*");
        let absent = project.join("conf/sub/made");
        for (key, rule) in [
            ("denyRead", &named),
            ("denyWrite", &named),
            ("denyRead", &pattern),
            ("denyWrite", &absent),
        ] {
            user(place, &files(key, rule));
            for act in acts {
                // The path of that rule leads only over `conf` and the directory behind it.
                if rule == &absent && act.contains("other") {
                    continue;
                }
                let output = run(stockade, &format!("bash -c {}", quoted(act)));
                assert_ne!(output.status.code(), Some(0), "{key} {rule:?}: {act}");
                let links = ["conf", "other/deep"].map(|name| project.join(name).is_symlink());
                assert_eq!((links, project.join("real/key").exists()), ([true; 2], true), "{act}");
            }
        }
        user(place, &files("denyRead", &named));
        let read = run(stockade, "bash -c 'rm conf; cat real/key other/deep/key'");
        assert_eq!(text(&read.stdout), "");
        // Files beside the refused one stay free.
        works(stockade, "bash -c 'echo > real/new && mv real/new other/new && rm -r real/sub'");
        // Without the rule the same acts succeed.
        user(place, &json!({"permissions": {"allow": ["Bash"]}}));
        works(
            stockade,
            &format!(
                "bash -c {}",
                quoted(&format!(
                    "{exchange} && {exchange} && rm conf && mv other o && cat real/key"
                ))
            ),
        );
    });
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[test]
fn a_protected_name_that_is_a_link_leads_on_and_stops_no_command() {
    as_everybody("regions-names", |place, stockade| {
        place.write("project/shared/tasks.json", "mine");
        place.write("home/servers.json", "mine");
        let project = place.project();
        symlink("shared", project.join(".vscode")).expect("a link");
        symlink("../home/servers.json", project.join(".mcp.json")).expect("a link");
        user(place, &json!({"permissions": {"allow": ["Bash"]}}));
        works(stockade, "true");
        for act in ["echo > shared/tasks.json", "rm .vscode", "mv .mcp.json x", "mv shared s"] {
            let output = run(stockade, &format!("bash -c '{act}'"));
            assert_ne!(output.status.code(), Some(0), "{act}");
        }
        let found = std::fs::read_to_string(project.join(".vscode/tasks.json")).expect("it");
        assert_eq!(found, "mine");
    });
}

#[test]
fn nothing_makes_a_protected_tree_writable() {
    as_everybody("regions-trees", |place, stockade| {
        let home = place.home();
        user(place, &json!({"permissions": {"allow": ["Bash"]}}));
        let trees = [
            ".config",
            ".config/git",
            ".config/systemd",
            ".config/nvim",
            ".claude",
            ".claude/skills",
            ".codex",
            ".cargo",
            ".cargo/registry",
            ".ssh",
            ".config/stockade",
        ];
        for tree in trees {
            let directory = home.join(tree);
            std::fs::create_dir_all(&directory).expect("a folder");
            let named = directory.display().to_string();
            for what in ["--project", "--add-dir"] {
                let output = stockade(&["run", "--no-daemon", what, &named, "--", "true"])
                    .output()
                    .expect("it");
                let told = text(&output.stderr);
                assert_eq!(output.status.code(), Some(122), "{what} {tree}: {told}");
                assert!(
                    told.contains("protected") && told.contains("  try: "),
                    "{what} {tree}: {told}"
                );
            }
            user(place, &files("allowWrite", &directory));
            let output = run(stockade, "true");
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(122), "{tree}: {told}");
            assert!(
                told.contains("settings.json:1") && told.contains("  try: remove `"),
                "{tree}: {told}"
            );
            // A rule that tools go by as well opens nothing, and stops nothing.
            let edit = format!("Edit(/{}/**)", directory.display());
            user(place, &json!({"permissions": {"allow": ["Bash", edit]}}));
            let output = run(stockade, &format!("bash -c 'echo > ~/{tree}/planted'"));
            assert_eq!(output.status.code(), Some(1), "{tree}");
            assert!(
                text(&output.stderr).contains("is protected"),
                "{tree}: {}",
                text(&output.stderr)
            );
            assert!(!directory.join("planted").exists(), "{tree}");
            user(place, &json!({"permissions": {"allow": ["Bash"]}}));
        }
        for worktree in [".codex/worktrees/1/app", ".claude/worktrees/w", ".cursor/worktrees/app/x"]
        {
            let directory = home.join(worktree);
            place.repository(&directory);
            let named = directory.display().to_string();
            let output = stockade(&[
                "run",
                "--no-daemon",
                "--project",
                &named,
                "--cwd",
                &named,
                "--",
                "touch x",
            ])
            .output();
            let output = output.expect("it");
            assert_eq!(output.status.code(), Some(0), "{worktree}: {}", text(&output.stderr));
        }
    });
}

#[test]
fn a_rule_for_one_protected_file_opens_nothing_and_stops_nothing() {
    as_everybody("regions-file", |place, stockade| {
        user(place, &files("allowWrite", &place.home().join(".npmrc")));
        for _ in 0..2 {
            let output = run(stockade, "bash act.sh");
            assert_ne!(output.status.code(), Some(0));
            works(stockade, "true");
            place.write("project/act.sh", "echo planted > ~/.npmrc");
            place.write("home/.npmrc", "old");
        }
        let kept = std::fs::read_to_string(place.home().join(".npmrc")).expect("it");
        assert_eq!(kept, "old");
    });
}

#[test]
fn names_that_count_from_the_root_are_protected_in_a_region_that_holds_them() {
    if !is_root() {
        return;
    }
    let place = Place::new("regions-root");
    let stockade: Stockade<'_> = &|arguments| place.stockade(arguments);
    user(&place, &files("allowWrite", Path::new("/etc")));
    let name = format!("stockade-test-{}", std::process::id());
    for (directory, is_kept) in [
        ("/etc/cron.d", true),
        ("/etc/systemd/system", true),
        ("/etc/claude-code", true),
        ("/etc", false),
    ] {
        let file = Path::new(directory).join(&name);
        place
            .write("project/act.sh", &format!("mkdir -p {directory} && echo > {}", file.display()));
        let output = run(stockade, "bash act.sh");
        let made = file.exists();
        let _ = std::fs::remove_file(&file);
        assert_eq!((output.status.code() != Some(0), made), (is_kept, !is_kept), "{directory}");
    }
}

#[test]
fn a_protected_name_may_begin_above_the_region() {
    as_everybody("regions-begin", |place, stockade| {
        place.write("project/.cargo/config.toml", "old");
        user(place, &json!({"permissions": {"allow": ["Bash"]}}));
        let project = place.project().join(".cargo").display().to_string();
        // In a script: what a text would write is judged before.
        let act = "bash act.sh";
        let script = "echo > made; echo new > config.toml; echo new > config; mv made config.toml";
        place.write("project/.cargo/act.sh", script);
        let output =
            stockade(&["run", "--no-daemon", "--project", &project, "--cwd", &project, "--", act])
                .output();
        assert_ne!(output.expect("it").status.code(), Some(0));
        assert!(place.project().join(".cargo/made").exists());
        assert!(!place.project().join(".cargo/config").exists());
        let kept = std::fs::read_to_string(place.project().join(".cargo/config.toml")).expect("it");
        assert_eq!(kept, "old");
    });
}

#[test]
fn directories_of_the_persons_programs_stay_as_they_are_in_any_region() {
    as_everybody("regions-programs", |place, stockade| {
        let home = place.home();
        for name in [".local/bin/old", ".local/share/old", "tools/old", "go/src/old"] {
            place.write(&format!("home/{name}"), "old");
        }
        user(
            place,
            &json!({"permissions": {"allow": ["Bash"]}, "sandbox": {"filesystem":
            {"allowWrite": [home.join(".local"), home.join("tools"), home.join("go")]}}}),
        );
        let search =
            format!("{}:{}", home.join("tools").display(), std::env::var("PATH").expect("a path"));
        let confined = |line: &str| {
            let mut command = stockade(&["run", "--no-daemon", "--", line]);
            command.env("PATH", &search).output().expect("it").status.code()
        };
        for act in [
            "echo > ~/.local/bin/old",
            "echo > ~/.local/bin/ls",
            "mv ~/.local/bin ~/.local/b",
            "rm ~/.local/bin/old",
            "echo > ~/tools/ls",
            "mkdir -p ~/go/bin && echo > ~/go/bin/ls",
        ] {
            assert_ne!(confined(&format!("bash -c '{act}'")), Some(0), "{act}");
        }
        assert_eq!(confined("bash -c 'echo > ~/.local/share/new && echo > ~/go/src/new'"), Some(0));
        assert!(!home.join("go/bin/ls").exists() && !home.join("tools/ls").exists());
        // The environment that the caller works in is the work itself.
        place.write("project/.venv/bin/activate", "");
        let own = place.project().join(".venv");
        let modules = place.project().join("node_modules/.bin");
        std::fs::create_dir_all(&modules).expect("a folder");
        let search = format!("{}/bin:{}:/usr/bin:/bin", own.display(), modules.display());
        let mut command =
            stockade(&["run", "--no-daemon", "--", "touch .venv/bin/tool node_modules/.bin/tool"]);
        let output = command.env("PATH", search).env("VIRTUAL_ENV", own).output().expect("it");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    });
}

#[test]
fn settings_are_not_read_from_where_commands_write() {
    as_everybody("regions-settings", |place, stockade| {
        let rejected = |output: Output, what: &str| {
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(122), "{what}: {told}");
            assert!(
                told.contains("where commands can write") && told.contains("  try: "),
                "{what}: {told}"
            );
        };
        // A command makes what a later call would take for the person's own.
        works(
            stockade,
            "mkdir -p cfg/stockade && bash -c 'echo {} | tee cfg/stockade/settings.json > own.json'",
        );
        let mut command = stockade(&["run", "--no-daemon", "--", "true"]);
        rejected(
            command.env("XDG_CONFIG_HOME", place.project().join("cfg")).output().expect("it"),
            "user",
        );
        let output =
            stockade(&["run", "--no-daemon", "--settings", "own.json", "--", "true"]).output();
        rejected(output.expect("it"), "flag");
        symlink(place.project().join("own.json"), place.root.join("outer.json")).expect("a link");
        let outer = place.root.join("outer.json").display().to_string();
        rejected(
            stockade(&["run", "--no-daemon", "--settings", &outer, "--", "true"])
                .output()
                .expect("it"),
            "link",
        );
        // Nor from another directory, when commands worked in the first.
        let mut command =
            stockade(&["run", "--no-daemon", "--settings", "../project/own.json", "--", "true"]);
        let other = place.root.join("other");
        place.repository(&other);
        rejected(command.current_dir(&other).output().expect("it"), "elsewhere");
        // Where none are, no command makes them.
        works(stockade, "rm -r cfg && mkdir cfg");
        let mut command = stockade(&[
            "run",
            "--no-daemon",
            "--",
            "bash -c 'mkdir cfg/stockade && echo {} > cfg/stockade/settings.json'",
        ]);
        command.env("XDG_CONFIG_HOME", place.project().join("cfg"));
        assert_ne!(command.output().expect("it").status.code(), Some(0));
        assert!(!place.project().join("cfg/stockade/settings.json").exists());
        // Those of the project itself are read, and those that lie outside.
        place.write("project/.stockade/settings.json", r#"{"permissions":{"deny":["Bash(id)"]}}"#);
        assert_eq!(run(stockade, "id").status.code(), Some(120));
        place.write("out.json", r#"{"permissions":{"deny":["Bash(ls)"]}}"#);
        let output =
            stockade(&["run", "--no-daemon", "--settings", "../out.json", "--", "ls"]).output();
        assert_eq!(output.expect("it").status.code(), Some(120));
    });
}
