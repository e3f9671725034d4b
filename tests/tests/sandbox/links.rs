//! Git writes through symbolic links and second names: neither comes into a git directory, and what a run leaves
//! there is nobody else's to change.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;

use crate::place::{Place, as_root_and_user, run};
use crate::repository::{git_works, place, reset};

fn all_stop(place: &Place, scripts: &[&str]) {
    for script in scripts {
        place.stops_with(&[], script, || reset(place));
        reset(place);
    }
}

#[test]
fn no_symbolic_link_comes_into_a_git_directory() {
    as_root_and_user("links::no_symbolic_link_comes_into_a_git_directory", || {
        if !git_works() {
            return;
        }
        let place = place("symbolic");
        all_stop(
            &place,
            &[
                "rm -f .git/COMMIT_EDITMSG; ln -s $O/rc .git/COMMIT_EDITMSG",
                "ln -s config sub/.git/MERGE_MSG",
                "rm .git/logs/HEAD; ln -s $O/rc .git/logs/HEAD",
                "rm .git/HEAD; ln -s refs/heads/main .git/HEAD",
                "ln -s $O/rc l && mv l .git/MERGE_MSG",
                "ln -s $O/rc l && ln -P l .git/MERGE_MSG",
                "mkdir -p d/e && ln -s $O/rc d/e/HEAD && mv d .git/x",
                "ln -s $O/rc bare/COMMIT_EDITMSG",
                "ln -s $O bare/refs/heads/x",
                "git init -q new && ln -s $O/rc new/.git/MERGE_MSG",
                "git init -q new && ln -s testing new/.git/logs",
                "mkdir -p n/refs n/x && ln -s $O/rc n/x/MERGE_MSG && mkdir n/objects",
                "mkdir n && ln -s x n/.git",
            ],
        );
    });
}

#[test]
fn a_commit_after_a_run_writes_where_git_does() {
    as_root_and_user("links::a_commit_after_a_run_writes_where_git_does", || {
        if !git_works() {
            return;
        }
        let place = place("commit");
        let script = "ln -sf $O/rc .git/COMMIT_EDITMSG; echo planted > .git/MERGE_MSG";
        let commit = "GIT_EDITOR=true git commit -q --allow-empty";
        let rc = place.outside.join("rc");
        place.plain(&format!("{script}; {commit}"));
        assert!(fs::read_to_string(&rc).unwrap().starts_with("planted"), "must work unconfined");
        fs::remove_file(&rc).unwrap();
        reset(&place);
        place.confined(script);
        place.plain(commit);
        assert!(!rc.exists());
    });
}

#[test]
fn links_of_git_and_of_the_person_stay_as_they_are() {
    as_root_and_user("links::links_of_git_and_of_the_person_stay_as_they_are", || {
        if !git_works() {
            return;
        }
        let place = place("own-links");
        symlink("../sub", place.project.join(".git/mine")).unwrap();
        place.works(
            "git init -q new && ! git -C new config core.symlinks &&
             ln -s x sub/link && mkdir d && ln -s x d/y && mv d sub/d && mv sub/link sub/link2 &&
             git clone -q --local sub c && test -n \"$(find c/.git/objects -type f -links +1)\"",
        );
        assert!(place.project.join(".git/mine").is_symlink());
        assert!(place.project.join("sub/d/y").is_symlink());
    });
}

#[test]
fn files_of_git_have_one_name() {
    as_root_and_user("links::files_of_git_have_one_name", || {
        if !git_works() {
            return;
        }
        let place = place("names");
        all_stop(
            &place,
            &[
                "git init -q new && ln new/.git/config c",
                "ln sub/.git/HEAD h",
                "ln bare/HEAD bare/foo",
                "mkdir .git/rebase-merge && echo x > .git/rebase-merge/git-rebase-todo && ln .git/rebase-merge/git-rebase-todo .git/foo",
                "echo x > t && mkdir .git/rebase-merge && ln t .git/rebase-merge/git-rebase-todo",
                "echo x > t && ln t u && mkdir .git/rebase-merge && mv t .git/rebase-merge/git-rebase-todo",
                "mkdir d && echo x > d/git-rebase-todo && ln d/git-rebase-todo u && mv d .git/rebase-merge",
                "git init -q new && echo > a && ln a new/.git/objects/info/alternates",
                "mkdir -p n/refs && echo > n/config && ln n/config c && mkdir n/objects",
            ],
        );
    });
}

/// Each makes the first of two runs; the file is away after it.
#[test]
fn a_git_directory_is_inspected_without_its_head() {
    as_root_and_user("links::a_git_directory_is_inspected_without_its_head", || {
        if !git_works() {
            return;
        }
        let place = place("headless");
        let todo = "rebase-merge && echo 'exec x' >";
        for (script, file) in [
            (
                format!("mv .git/HEAD .git/H; mkdir .git/{todo} .git/rebase-merge/git-rebase-todo"),
                ".git/rebase-merge/git-rebase-todo",
            ),
            ("mkdir D; echo ../E > D/commondir".to_owned(), "D/commondir"),
            (
                "ln -s empty lk; git init -q --bare .git/modules/x; printf '[core]\\n\\tworktree = ../../../lk\\n' > .git/modules/x/config".to_owned(),
                ".git/modules/x/config",
            ),
        ] {
            let file = place.project.join(file);
            assert_eq!(place.plain(&script).code, Some(0), "{script}");
            assert!(file.exists(), "must be there unconfined: {script}");
            reset(&place);
            let mut spec = place.spec(&script);
            spec.files.git_keys.refused = vec!["core.worktree".into()];
            let ran = run(&spec).unwrap();
            assert_eq!(ran.exit.code, Some(0), "{script}: {}", ran.text);
            assert!(!file.exists(), "{script}: {:?}", ran.violations);
            reset(&place);
        }
    });
}

#[test]
fn a_directory_with_instructions_does_not_become_a_git_directory() {
    as_root_and_user(
        "links::a_directory_with_instructions_does_not_become_a_git_directory",
        || {
            if !git_works() {
                return;
            }
            let place = place("prepared");
            all_stop(&place, &["mkdir -p n/rebase-merge n/refs && mkdir n/objects"]);
        },
    );
}

#[test]
fn who_holds_a_file_open_does_not_change_the_configuration() {
    as_root_and_user("links::who_holds_a_file_open_does_not_change_the_configuration", || {
        if !git_works() {
            return;
        }
        let place = place("held");
        let script = "git init -q new; mv plain new/.git/config";
        let config = place.project.join("new/.git/config");
        let other = |confined: bool| {
            let mut held = File::create(place.project.join("plain")).unwrap();
            held.write_all(b"[core]\n\tbare = false\n").unwrap();
            if confined {
                place.works(script)
            } else {
                drop(place.plain(script))
            }
            held.write_all(b"\tfsmonitor = x\n").unwrap();
            fs::read_to_string(&config).unwrap()
        };
        assert!(other(false).contains("fsmonitor"), "must work unconfined");
        reset(&place);
        assert_eq!(other(true), "[core]\n\tbare = false\n");
    });
}

#[test]
fn refusals_that_are_not_listed_are_counted() {
    let place = Place::new("unlisted");
    let spec = place.spec("for i in {1..130}; do echo x > $O/$i; done 2>/dev/null");
    let violations = run(&spec).unwrap().violations;
    assert_eq!(violations.len(), 101);
    let last = violations.last().unwrap();
    assert_eq!((&*last.kind, last.count), ("more", 30));
    assert_eq!(last.rule, "builtin: 30 more refusals are not listed");
}
