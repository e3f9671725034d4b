//! Everyday work with git in a project whose hooks and configuration are protected.

use std::process::Command;

use stockade_sandbox::Access;

use crate::place::{Place, as_root_and_user, rule, run};

#[test]
fn everyday_git_works_and_plants_nothing() {
    as_root_and_user("git::everyday_git_works_and_plants_nothing", || {
        if Command::new("git").arg("--version").output().is_err() {
            println!("git is not installed: not tested");
            return;
        }
        let place = Place::new("git");
        let setup = place.plain(
            "git init -q -b main . && git config user.name N && git config user.email n@example.invalid \
             && echo 1 > f && git add f && git commit -qm one",
        );
        assert_eq!(setup.code, Some(0), "{}", setup.text);
        let script = "set -e; export GIT_EDITOR=true
            echo 2 >> f; git commit -qam two; git commit -q --amend -m 'two again'
            git branch topic; git checkout -q topic; echo t > t; git add t; git commit -qm topic
            git switch -q main; echo 3 >> f; git commit -qam three
            git rebase -q main topic; git rebase -qi HEAD~1; git switch -q main
            git merge -q --no-ff -m merge topic; git tag v1; echo s >> f; git stash -q; git stash pop -q
            git checkout -q f; git worktree add -q wt topic; (cd wt; echo w > w; git add w; git commit -qm w)
            git worktree remove wt; git cherry-pick topic >/dev/null; git gc -q; git fetch -q . topic
            git mv t t2; git commit -qm moved; git status --short; git log --oneline | wc -l";
        let mut spec = place.spec(script);
        for name in ["hooks", "config"] {
            spec.files.rules.push(rule(&place.project.join(".git").join(name), Access::Protected));
        }
        let ran = run(&spec).unwrap();
        assert_eq!(ran.exit.code, Some(0), "{}", ran.text);
        assert_eq!(ran.text.lines().last(), Some("7"), "{}", ran.text);
        for script in
            ["git config core.fsmonitor x", "git remote add o x", "echo x > .git/hooks/pre-commit"]
        {
            let mut spec = spec.clone();
            spec.program.argv = vec!["bash".into(), "-c".into(), script.into()];
            assert_ne!(run(&spec).unwrap().exit.code, Some(0), "{script}");
        }
    });
}
