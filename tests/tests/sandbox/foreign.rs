//! Root in regions that belong to other users.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use stockade_spec::Access;
use stockade_tests::skip;

use crate::place::{Place, is_root, rule, run};

const OWNER: u32 = 12345;
const THIRD: u32 = 23456;

/// Says whether the tests run as root, and prints that they do not.
fn as_root(test: &str) -> bool {
    if !is_root() {
        skip(test, "only root can work in a region that is closed to it");
    }
    is_root()
}

/// Gives the project, empty but for `files`, to somebody else.
fn foreign(name: &str, files: &[(&str, u32, u32)]) -> Place {
    let place = Place::new(name);
    for (file, owner, mode) in files {
        let path = place.project.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "old\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        chown(&path, Some(*owner), Some(*owner)).unwrap();
        for above in path.ancestors().skip(1).take_while(|it| it.starts_with(&place.project)) {
            give(above);
        }
    }
    give(&place.project);
    place
}

fn give(path: &Path) {
    chown(path, Some(OWNER), Some(OWNER)).unwrap();
}

#[test]
fn files_of_the_owner_are_the_callers_and_new_ones_the_owners() {
    if !as_root("foreign::files_of_the_owner_are_the_callers_and_new_ones_the_owners") {
        return;
    }
    let place = foreign("foreign", &[("private", OWNER, 0o600), ("sub/own", OWNER, 0o644)]);
    place.works(
        "set -e; cat private; echo new >> private; chmod 640 private; echo x > made; mkdir d; echo y > d/f
         mv d e; ln made other; ln -s made link; rm sub/own; touch -d 2001-01-01 made; mkfifo p
         test \"$(stat -c %u:%g private made e/f .)\" = \"$(printf '0:0\\n0:0\\n0:0\\n0:0')\"; truncate -s 1 e/f",
    );
    for name in ["private", "made", "e", "e/f", "other", "link", "p"] {
        let found = fs::symlink_metadata(place.project.join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (OWNER, OWNER), "{name}");
    }
}

#[test]
fn files_of_third_users_stay_theirs() {
    if !as_root("foreign::files_of_third_users_stay_theirs") {
        return;
    }
    let files = [("open", THIRD, 0o644), ("shut", THIRD, 0o600), ("mine", 0, 0o644)];
    let place = foreign("third", &files);
    place.works("cat open && test \"$(stat -c %u open shut mine | sort -u)\" = 65534");
    for script in ["cat shut", "echo x >> open", "chmod 666 open", "echo x >> mine"] {
        place.stops(script, || {});
    }
    let owners = files.map(|(name, ..)| fs::metadata(place.project.join(name)).unwrap().uid());
    assert_eq!(owners, [THIRD, THIRD, 0]);
}

#[test]
fn rules_and_guarded_names_hold_in_a_region_of_somebody_else() {
    if !as_root("foreign::rules_and_guarded_names_hold_in_a_region_of_somebody_else") {
        return;
    }
    let files = [("keep/shut/config", OWNER, 0o600), ("secret/key", OWNER, 0o600)];
    let place = foreign("foreign-rules", &files);
    let rules = [
        rule(&place.project.join("keep/shut"), Access::Protected),
        rule(&place.project.join("secret"), Access::None),
        rule(&place.project.join("later/file"), Access::Protected),
    ];
    let mut spec = place.spec("cat keep/shut/config && echo x > keep/free && mkdir later");
    spec.files.rules.extend_from_slice(&rules);
    let ran = run(&spec).unwrap();
    assert_eq!((ran.exit.code, ran.text.as_str()), (Some(0), "old\n"));
    assert_eq!(ran.enforced.notes, Vec::<String>::new());
    for script in [
        "echo x > keep/shut/config",
        "echo x > keep/shut/new",
        "mv keep kept && mv kept keep",
        "cat secret/key",
        "echo x > later/file",
        "echo x > .guarded",
    ] {
        let undo = || {
            let _ = fs::remove_file(place.project.join("later/file"));
            let _ = fs::remove_file(place.project.join(".guarded"));
        };
        place.stops_with(&rules, script, undo);
    }
}

#[test]
fn nothing_is_mounted_on_the_host() {
    if !as_root("foreign::nothing_is_mounted_on_the_host") {
        return;
    }
    let place = foreign("foreign-mounts", &[("keep/config", OWNER, 0o600)]);
    let mut spec = place.spec("sort /proc/self/mountinfo");
    spec.files.rules.push(rule(&place.project.join("keep"), Access::Protected));
    let ran = run(&spec).unwrap();
    let inside = format!("{}/keep ", place.project.display());
    assert!(ran.text.contains(&inside) && ran.text.contains("idmapped"), "{}", ran.text);
    assert!(!ran.text.contains("shared:"), "{}", ran.text);
    let outside = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!outside.contains(&inside), "{outside}");
}

#[test]
fn harmless_keys_of_the_owners_repository_may_change() {
    if !as_root("foreign::harmless_keys_of_the_owners_repository_may_change") {
        return;
    }
    let files = [(".git/config", OWNER, 0o644), (".git/HEAD", OWNER, 0o644)];
    let place = foreign("configuration", &files);
    let config = place.project.join(".git/config");
    fs::write(&config, "[core]\n\tbare = false\n").unwrap();
    let script = |text: &str| {
        format!(
            "printf '[core]\\nbare = false\\n{text}' > .git/config.lock; mv .git/config.lock .git/config"
        )
    };
    for (text, expected) in [("[user]\\nemail = e\\n", 0), ("[core]\\npager = x\\n", 1)] {
        let mut spec = place.spec(&script(text));
        spec.files.rules.push(rule(&config, Access::Protected));
        spec.files.git_configurations = vec![config.clone()];
        spec.files.git_keys.changeable = vec!["user.email".into()];
        let ran = run(&spec).unwrap();
        assert_eq!(ran.exit.code, Some(expected), "{}", ran.text);
    }
    assert_eq!(fs::read_to_string(&config).unwrap(), "[core]\nbare = false\n[user]\nemail = e\n");
    let found = config.metadata().unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777), (OWNER, 0o644));
}
