//! Runs that overlap in time act one after the other, and no run trusts state that another one may have made.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use stockade_spec::{Access, SandboxSpec};
use stockade_tests::until;

use crate::place::{Place, Ran, as_root_and_user, rule, run, run_both};
use crate::repository::{git_works, place};

/// Makes `$D` so large that looking through it takes a while.
const FILL: &str = "for i in {1..20}; do mkdir $D/$i $D/$i/{1..100}; done;";

/// Runs one script, and the other as soon as `sign` is there; returns what both did.
fn run_beside(place: &Place, one: &SandboxSpec, sign: &str, other: &SandboxSpec) -> [Ran; 2] {
    std::thread::scope(|scope| {
        let first = scope.spawn(|| run(one).unwrap());
        until(sign, || place.project.join(sign).exists());
        let second = run(other).unwrap();
        [first.join().unwrap(), second]
    })
}

/// Returns a spec that keeps the configuration of the project's repository.
fn keeping(place: &Place, script: &str) -> SandboxSpec {
    let config = place.project.join(".git/config");
    let mut spec = place.spec(script);
    spec.files.rules.push(rule(&config, Access::Protected));
    spec.files.git_configurations = vec![config];
    spec
}

#[test]
fn a_hook_cannot_come_by_an_exchange_while_another_run_makes_a_git_directory() {
    let place = Place::new("turn-exchange");
    let racer = env!("CARGO_BIN_EXE_racer");
    let one = place.spec(&format!(
        "mkdir -p h x/hooks; D=h; {FILL} echo x > h/pre-commit; chmod +x h/pre-commit; : > go; exec '{racer}' exchange x/hooks h"
    ));
    let other = place.spec(
        "until [ -e go ]; do :; done; mkdir x/objects x/refs; echo 'ref: refs/heads/main' > x/HEAD",
    );
    run_both(&one, &other);
    let there = |name: &str| place.project.join("x").join(name).exists();
    let is_git = there("objects") && (there("HEAD") || there("refs"));
    assert!(!(is_git && there("hooks/pre-commit")), "a git directory with a hook");
    assert!(is_git || there("hooks/pre-commit"), "neither came about");
}

#[test]
fn instructions_of_another_run_are_no_persons() {
    as_root_and_user("turns::instructions_of_another_run_are_no_persons", || {
        if !git_works() {
            return;
        }
        let place = place("turn-rebase");
        let write = "echo 'exec touch ran' > .git/rebase-merge/git-rebase-todo";
        let one = keeping(
            &place,
            &format!("mkdir .git/rebase-merge; {write}; : > go; until [ -e touched ]; do :; done"),
        );
        // The second run starts when the lines are there, touches them, and writes them again after the first run has lost them.
        let other = keeping(
            &place,
            &format!(
                ": >> .git/rebase-merge/git-rebase-todo; : > touched; \
                 until [ -e .git/rebase-merge/git-rebase-todo.stockade ]; do :; done; {write}"
            ),
        );
        for ran in run_beside(&place, &one, "go", &other) {
            let planted: Vec<_> = ran.violations.iter().map(|it| (&*it.kind, &*it.call)).collect();
            assert_eq!(planted, [("planted", "exec")]);
        }
        assert!(!place.project.join(".git/rebase-merge/git-rebase-todo").exists());
    });
}

#[test]
fn what_another_run_holds_open_does_not_lead_a_worktree_elsewhere() {
    as_root_and_user(
        "turns::what_another_run_holds_open_does_not_lead_a_worktree_elsewhere",
        || {
            if !git_works() {
                return;
            }
            let place = place("turn-pointer");
            let holder = place.spec(
                "exec 3> f; echo ../.. >&3; : > held; until [ -e end ]; do :; done; echo /elsewhere >&3",
            );
            let mover = place.spec(
                "mkdir -p .git/worktrees/w; echo x > .git/worktrees/w/HEAD; mv f .git/worktrees/w/commondir",
            );
            let (held, moved) = std::thread::scope(|scope| {
                let first = scope.spawn(|| run(&holder).unwrap());
                until("it is open", || place.project.join("held").exists());
                let moved = run(&mover).unwrap();
                fs::write(place.project.join("end"), "").unwrap();
                (first.join().unwrap(), moved)
            });
            assert_eq!(moved.violations.len(), 0, "{} {:?}", moved.text, moved.violations);
            assert_eq!(held.exit.code, Some(0), "{}", held.text);
            let text = fs::read_to_string(place.project.join(".git/worktrees/w/commondir"));
            assert_eq!(text.unwrap(), "../..\n");
        },
    );
}

#[test]
fn a_mode_that_another_run_gave_is_not_what_it_was() {
    as_root_and_user("turns::a_mode_that_another_run_gave_is_not_what_it_was", || {
        if !git_works() {
            return;
        }
        let place = place("turn-mode");
        let open = "chmod 666 .git/config";
        let one = keeping(&place, &format!("{open}; : > go; until [ -e begun ]; do :; done"));
        let other = keeping(
            &place,
            &format!(": > begun; until [ $(stat -c %a .git/config) = 644 ]; do :; done; {open}"),
        );
        let config = place.project.join(".git/config");
        fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
        run_beside(&place, &one, "go", &other);
        assert_eq!(config.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    });
}
