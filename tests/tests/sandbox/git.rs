//! Everyday work with git in a project whose hooks and configuration are protected.

use std::process::Command;

use stockade_spec::Access;
use stockade_tests::skip;

use crate::place::{Place, as_root_and_user, is_root, rule, run};

/// Everyday work; the last line it prints is a number of commits.
const EVERYDAY: &str = "set -e; export GIT_EDITOR=true
    echo 2 >> f; git commit -qam two; git commit -q --amend -m 'two again'
    git branch topic; git checkout -q topic; echo t > t; git add t; git commit -qm topic
    git switch -q main; echo 3 >> f; git commit -qam three
    git rebase -q main topic; git rebase -qi HEAD~1; git switch -q main
    git merge -q --no-ff -m merge topic; git tag v1; echo s >> f; git stash -q; git stash pop -q
    git checkout -q f; git worktree add -q wt topic; (cd wt; echo w > w; git add w; git commit -qm w)
    git worktree remove wt; git cherry-pick topic >/dev/null; git gc -q; git fetch -q . topic
    git mv t t2; git commit -qm moved; git status --short; git log --oneline | wc -l";

/// Rarer work, after that: what stops in the middle and goes on, and what starts programs on the way.
const RARER: &str = "set -e; export GIT_EDITOR=true
git switch -qc side HEAD~1; echo side > f; git commit -qam side; git switch -q main; echo main > f; git commit -qam main
if git merge -q side > /dev/null 2>&1; then exit 3; fi; echo both > f; git add f; git merge --continue > /dev/null
git switch -qc pick main~1; if git cherry-pick side > /dev/null 2>&1; then exit 4; fi; echo x > f; git add f; git cherry-pick --continue > /dev/null
git revert --no-edit HEAD > /dev/null; git rebase -q -i --exec 'test -e f' HEAD~2; echo d > d; git add d; git commit -qm 'fixup! side'
git rebase -q -i --autosquash HEAD~3; git switch -q main; git bisect start HEAD HEAD~2 > /dev/null; git bisect run true > /dev/null; git bisect reset 2> /dev/null
git format-patch -q -1 -o patches pick; git switch -qc mail main~1; git am -q patches/* || git am --abort; rm -r patches
git notes add -m n; git stash list; echo y >> f; git stash -qu; git switch -q main; git stash apply -q || git reset -q --hard; git stash drop -q
git reset -q --hard; git clean -qfd; git reflog expire --all; git gc -q --prune=now; git fsck --no-progress; git branch -qD pick mail; git checkout -q --detach
git update-index --refresh; git ls-files | wc -l; git restore -s HEAD~1 f; git switch -qf main; git submodule status; echo ok";

fn has_git(test: &str) -> bool {
    let found = Command::new("git").arg("--version").output().is_ok();
    if !found {
        skip(test, "git is not installed");
    }
    found
}

/// Makes the project a repository with one commit.
fn repository(place: &Place) {
    let setup = place.plain(
        "git init -q -b main . && git config user.name N && git config user.email n@example.invalid \
         && echo 1 > f && git add f && git commit -qm one",
    );
    assert_eq!(setup.code, Some(0), "{}", setup.text);
}

/// Asserts that everyday git works in the project of `place`, and that hooks and configuration stay.
fn works_and_plants_nothing(place: &Place) {
    let mut spec = place.spec(EVERYDAY);
    for name in ["hooks", "config"] {
        spec.files.rules.push(rule(&place.project.join(".git").join(name), Access::Protected));
    }
    let ran = run(&spec).unwrap();
    assert_eq!(ran.exit.code, Some(0), "{}", ran.text);
    assert_eq!(ran.text.lines().last(), Some("7"), "{}", ran.text);
    spec.program.argv = vec!["bash".into(), "-c".into(), RARER.into()];
    let ran = run(&spec).unwrap();
    assert_eq!(ran.exit.code, Some(0), "{} {:?}", ran.text, ran.violations);
    assert_eq!(ran.text.lines().last(), Some("ok"), "{}", ran.text);
    assert!(!ran.violations.iter().any(|it| it.kind == "planted"), "{:?}", ran.violations);
    for script in
        ["git config core.fsmonitor x", "git remote add o x", "echo x > .git/hooks/pre-commit"]
    {
        let mut spec = spec.clone();
        spec.program.argv = vec!["bash".into(), "-c".into(), script.into()];
        assert_ne!(run(&spec).unwrap().exit.code, Some(0), "{script}");
    }
}

#[test]
fn everyday_git_works_and_plants_nothing() {
    as_root_and_user("git::everyday_git_works_and_plants_nothing", || {
        if !has_git("git::everyday_git_works_and_plants_nothing") {
            return;
        }
        let place = Place::new("git");
        repository(&place);
        works_and_plants_nothing(&place);
    });
}

#[test]
fn root_works_with_git_in_the_clone_of_somebody_else() {
    let test = "git::root_works_with_git_in_the_clone_of_somebody_else";
    if !is_root() {
        skip(test, "only root can work in a clone that is closed to it");
        return;
    }
    if !has_git(test) {
        return;
    }
    let place = Place::new("foreign-git");
    repository(&place);
    let owner = place.plain("chown -R 12345:12346 .");
    assert_eq!(owner.code, Some(0), "{}", owner.text);
    works_and_plants_nothing(&place);
    let strangers = place.plain("find . ! -uid 12345 -o ! -gid 12346");
    assert_eq!(strangers.text, "", "everything belongs to the owner of the clone");
}
