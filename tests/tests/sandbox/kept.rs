//! Files of an existing git directory that are kept by their names alone, and against other runs.

use std::fs;

use stockade_spec::Access;

use crate::place::{Place, as_root_and_user, rule, run, run_both};
use crate::repository::{git_works, known_keys, place};

#[test]
fn a_configuration_that_no_mount_covers_is_kept_by_its_name() {
    as_root_and_user("kept::a_configuration_that_no_mount_covers_is_kept_by_its_name", || {
        if !git_works() {
            return;
        }
        let place = place("uncovered");
        fs::remove_dir_all(place.project.join(".git/hooks")).unwrap();
        let config = place.project.join(".git/config");
        let before = fs::read(&config).unwrap();
        for script in [
            "echo x >> .git/config",
            "echo x > .GIT/config || echo x > .git/config",
            "truncate -s 0 .git/config",
            "rm -f .git/config",
            "mv .git/config y",
            "mv .git y && echo x > y/config && mv y .git",
            "mv .git y && mkdir .git && echo x > .git/config",
            "ln .git/config y && echo x > y",
            "echo x > y && mv y .git/config",
            "echo x > y && mv y .git/config.lock && mv .git/config.lock .git/config",
            "ln -s ../y .git/config.lock && echo '[user]' > y && mv .git/config.lock .git/config",
            "cd .git && exec 3<> config && echo x >&3",
            "python3 -c 'import os; os.replace(\".git/config.lock\", \".git/config\")' || mv HEAD .git/config || cp /etc/hostname .git/config",
        ] {
            let outside = place.plain(script);
            assert_eq!(outside.code, Some(0), "must work unconfined: {script}\n{}", outside.text);
            assert_ne!(fs::read(&config).ok().as_ref(), Some(&before), "{script}");
            let undo = format!(
                "rm -rf .git y; cp -a {}/made/.git .; rm -rf .git/hooks",
                place.outside.display()
            );
            place.plain(&undo);
            let mut spec = place.spec(script);
            spec.files.rules.push(rule(&config, Access::Protected));
            spec.files.git_configurations = vec![config.clone()];
            spec.files.git_keys = known_keys();
            let inside = place.run(&spec);
            assert_ne!(inside.code, Some(0), "must fail confined: {script}\n{}", inside.text);
            assert_eq!(fs::read(&config).unwrap(), before, "{script}");
            place.plain(&undo);
        }
        for script in [
            "echo x > .git/config.stockade-0",
            "echo x > y && mv y .git/config.Stockade-0",
            "echo x > y && ln y .git/config.stockade-0",
            "mkdir d && mv d .git/config.stockade-1",
        ] {
            place.stops(script, || drop(place.plain("rm -rf .git/config.[sS]tockade-* y d")));
        }
    });
}

#[test]
fn the_lock_of_a_configuration_is_his_who_made_it() {
    as_root_and_user("kept::the_lock_of_a_configuration_is_his_who_made_it", || {
        if !git_works() {
            return;
        }
        let place = place("lock");
        let lock = place.project.join(".git/config.lock");
        // Anybody might make this change, but a run must not choose when.
        let theirs =
            fs::read_to_string(place.project.join(".git/config")).unwrap() + "[user]\n\tname = x\n";
        let undo = || {
            let _ = fs::remove_file(place.project.join("y"));
            let _ = fs::remove_dir_all(place.project.join(".git/q"));
            fs::write(&lock, &theirs).unwrap();
        };
        for script in [
            "echo x > .git/config.lock",
            "echo x >> .GIT/config.lock || echo x >> .git/config.lock",
            "truncate -s 0 .git/config.lock",
            "rm -f .git/config.lock",
            "mv .git/config.lock y",
            "ln .git/config.lock y && echo x > y",
            "echo x > y && mv -f y .git/config.lock",
            "cd .git && exec 3<> config.lock && echo x >&3",
            "mv .git/config.lock .git/config",
            "mkdir .git/q && echo x > .git/q/config.lock && mv -f .git/q/config.lock .git/config.lock",
        ] {
            undo();
            place.stops(script, undo);
            assert_eq!(fs::read_to_string(&lock).unwrap(), theirs, "{script}");
        }
        undo();
        fs::remove_file(&lock).unwrap();
        // Nothing is put there either: it would replace what somebody makes in the same instant.
        place.stops(
            "mkdir .git/q && echo x > .git/q/config.lock && mv .git/q/config.lock .git/config.lock",
            || {
                let _ = fs::remove_file(&lock);
                let _ = fs::remove_dir_all(place.project.join(".git/q"));
            },
        );
        place.works(
            "echo x > .git/config.lock && echo y >> .git/config.lock && rm .git/config.lock",
        );
    });
}

#[test]
fn remotes_outside_of_the_configuration_cannot_be_made() {
    as_root_and_user("kept::remotes_outside_of_the_configuration_cannot_be_made", || {
        if !git_works() {
            return;
        }
        let place = place("remotes");
        for script in [
            "mkdir -p .git/remotes && echo 'URL: /x' > .git/remotes/origin",
            "mkdir -p .git/branches && echo /x > .git/branches/origin",
            "mkdir -p .git/remotes/a && echo 'URL: /x' > .git/remotes/a/b",
            "mkdir r && echo 'URL: /x' > r/origin && rm -rf .git/remotes && mv r .git/remotes",
            "mkdir -p bare/branches && echo /x > bare/branches/origin",
        ] {
            place.stops(script, || {
                drop(place.plain("rm -rf r .git/remotes .git/branches bare/branches"))
            });
        }
        place.works("git update-ref refs/remotes/origin/main HEAD; git update-ref refs/remotes/x HEAD; git init -q n; echo /x > n/.git/branches/o || mkdir n/.git/branches && echo /x > n/.git/branches/o");
    });
}

#[test]
fn two_runs_do_not_make_a_git_directory_that_nobody_looks_into() {
    as_root_and_user("kept::two_runs_do_not_make_a_git_directory_that_nobody_looks_into", || {
        if !git_works() {
            return;
        }
        let place = Place::new("halves");
        let first = place.spec(
            "mkdir g g/objects; : > made; until [ -e go ]; do :; done; printf '[core]\\n\\tfsmonitor = x\\n' > g/config",
        );
        // It starts when the call that makes `objects` has returned: until then that call is judged.
        let second = place.spec(
            "until [ -e made ]; do :; done; mkdir g/refs; echo 'ref: refs/heads/main' > g/HEAD; : > go",
        );
        run_both(&first, &second);
        assert_eq!(parts_of_git(&place), ["HEAD", "objects", "refs"]);
    });
}

#[test]
fn of_two_runs_in_the_same_instant_none_completes_a_git_directory_with_a_configuration() {
    let place = Place::new("instant");
    fs::create_dir_all(place.project.join("g/objects")).unwrap();
    let half = |name: &str| {
        let mut spec = place.spec(&format!("exec '{}' {name}", env!("CARGO_BIN_EXE_racer")));
        // Runs with different state directories take no turns.
        spec.files.turns = None;
        spec
    };
    let ran = run_both(&half("configure"), &half("complete"));
    assert_eq!(ran.text, "false\n", "whether the configuration stayed in a git directory");
}

/// Returns the names in `g`, in order.
fn parts_of_git(place: &Place) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(place.project.join("g"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_mode_of_a_configuration_is_what_it_was() {
    as_root_and_user("kept::the_mode_of_a_configuration_is_what_it_was", || {
        use std::os::unix::fs::PermissionsExt;
        if !git_works() {
            return;
        }
        let place = place("mode");
        let config = place.project.join(".git/config");
        let mode = || config.metadata().unwrap().permissions().mode() & 0o7777;
        let before = mode();
        for script in ["chmod 666 .git/config", "chmod 000 .git/config"] {
            assert_eq!(place.plain(script).code, Some(0));
            assert_ne!(mode(), before);
            fs::set_permissions(&config, fs::Permissions::from_mode(before)).unwrap();
            let mut spec = place.spec(script);
            spec.files.rules.push(rule(&config, Access::Protected));
            spec.files.git_configurations = vec![config.clone()];
            let ran = run(&spec).unwrap();
            assert_eq!(mode(), before, "{script}");
            assert_eq!(ran.violations.len(), 1, "{script}: {:?}", ran.violations);
        }
    });
}
