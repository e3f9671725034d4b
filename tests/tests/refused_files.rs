//! Rules that refuse a path hold while a command runs, whatever the names on the way are.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use serde_json::json;
use stockade_tests::{Place, give, is_root};

/// Prints or replaces the files of a list, so that the text of the command names none.
const ACT: &str =
    "for name in $(cat names); do cat \"$name\"; echo changed > \"$name\"; done; true";

/// Someone who is not root.
const ORDINARY: u32 = 1234;

fn act(place: &Place, project: &Path) -> String {
    place.write("act.sh", ACT);
    fs::copy(place.root.join("act.sh"), project.join("act.sh")).expect("a script");
    let folder = project.to_str().expect("a name in UTF-8");
    let arguments = ["--cwd", folder, "run", "--no-daemon", "--", "bash act.sh"];
    let output: Output = match is_root() {
        // For root every directory can be listed.
        true => {
            give(&place.root, ORDINARY);
            place.stockade_as(ORDINARY, arguments).output().expect("stockade")
        }
        false => place.output(arguments),
    };
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn user(place: &Place, settings: &serde_json::Value) {
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

#[test]
fn a_directory_named_like_a_pattern_is_none() {
    let place = Place::new("named-like-a-pattern");
    let name = "here [1] and * or ?";
    let project = place.root.join(name);
    place.repository(&{
        fs::create_dir_all(&project).expect("a project");
        project.clone()
    });
    for file in ["private", "kept", "hidden", "route/[id]", "open"] {
        place.write(&format!("{name}/{file}"), &format!("text of {file}\n"));
    }
    place.write(&format!("{name}/names"), "private kept hidden route/[id] open");
    let deny = ["Read(./private)", "Edit(./kept)", "Read(./route/\\[id\\])"];
    let ours = json!({"sandbox": {"filesystem": {"denyRead": ["./hidden"]}}});
    place.write(&format!("{name}/.stockade/settings.json"), &ours.to_string());
    user(&place, &json!({"permissions": {"deny": deny}}));
    let told = act(&place, &project);
    for file in ["private", "hidden", "route/[id]"] {
        assert!(!told.contains(&format!("text of {file}")), "{file}: {told}");
    }
    assert!(told.contains("text of open") && told.contains("text of kept"), "{told}");
    let text = |file: &str| fs::read_to_string(project.join(file)).expect("a file");
    for file in ["private", "kept", "hidden", "route/[id]"] {
        assert_eq!(text(file), format!("text of {file}\n"));
    }
    assert_eq!(text("open"), "changed\n");
}

#[test]
fn what_cannot_be_listed_is_refused_as_a_whole() {
    let place = Place::new("unlisted");
    let project = place.project();
    place.write("project/closed/key.pem", "text of a key\n");
    place.write("project/open", "text of open\n");
    place.write("project/names", "closed/key.pem open");
    user(&place, &json!({"permissions": {"deny": ["Read(./**/*.pem)"]}}));
    let closed = project.join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o300)).expect("rights");
    let told = act(&place, &project);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("rights");
    assert!(!told.contains("text of a key") && told.contains("text of open"), "{told}");
    let text = fs::read_to_string(closed.join("key.pem")).expect("a file");
    assert_eq!(text, "text of a key\n");
}
