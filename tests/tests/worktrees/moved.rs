//! Worktrees that are moved, removed and led to their repository.

use std::path::PathBuf;

use stockade_tests::Place;

use super::{IDENTITY, gated, has_git, plain, text};

/// A project with worktrees in it and beside it, none of them made by a run.
fn with_worktrees(place: &Place) -> PathBuf {
    let main = place.root.join("main");
    std::fs::create_dir(&main).expect("a folder");
    let made = "git init -q; git commit -q --allow-empty -m zero; git worktree add -q in; \
                git worktree add -q ../out; git worktree add -q gone; rm -r gone";
    plain(place, &main, &format!("{IDENTITY} {made}"));
    main
}

#[test]
fn worktrees_of_the_project_are_moved_and_removed_in_later_runs() {
    if !has_git("worktrees_of_the_project_are_moved_and_removed_in_later_runs") {
        return;
    }
    let place = Place::new("worktrees");
    let main = with_worktrees(&place);
    for script in [
        "git worktree add -q wt",
        "git worktree move wt moved; cd moved; git status",
        "git worktree remove moved",
        "git worktree remove in",
        "git worktree prune",
        "git worktree add -q wt; git worktree remove wt",
        "git stash list; git rebase -q HEAD; echo f > f; git add f; git stash -q; git stash pop -q",
    ] {
        let output = gated(&place, &main, &format!("set -e; {IDENTITY} {script}"));
        let (code, told) = (output.status.code(), text(&output.stderr));
        assert_eq!((code, told.contains("stockade:")), (Some(0), false), "{script}: {told}");
    }
    let left = std::fs::read_dir(main.join(".git/worktrees")).expect("a directory");
    let left: Vec<_> = left.flatten().map(|it| it.file_name()).collect();
    assert_eq!(left, ["out"]);
}

#[test]
fn what_leads_a_worktree_to_its_repository_is_removed_and_never_changed() {
    if !has_git("what_leads_a_worktree_to_its_repository_is_removed_and_never_changed") {
        return;
    }
    let place = Place::new("worktree-pointers");
    let main = with_worktrees(&place);
    plain(&place, &main, "mkdir evil; cp -r .git/objects .git/refs .git/HEAD evil");
    let file = |name: &str| std::fs::read(main.join(".git/worktrees").join(name)).ok();
    let common = file("in/commondir");
    for act in [
        "echo ../../../evil > .git/worktrees/in/commondir",
        "echo ../../../evil > c; mv c .git/worktrees/in/commondir",
        "ln -f c .git/worktrees/in/commondir",
        "truncate -s 0 .git/worktrees/in/commondir",
        "chmod 666 .git/worktrees/in/commondir; echo x >> .git/worktrees/in/commondir",
        "rm .git/worktrees/out/gitdir; echo x > .git/worktrees/out/gitdir",
        "rm .git/worktrees/out/commondir",
        "rm -rf .git/worktrees/out/gitdir",
    ] {
        gated(&place, &main, act);
        assert_eq!(file("in/commondir"), common, "{act}");
        assert!(file("out/commondir").is_some() && file("out/gitdir").is_some(), "{act}");
    }
    // Removed in one run and made again, by the same or by the next one, it leads nowhere else.
    let again = "echo ../../../evil > .git/worktrees/in/commondir";
    for (one, two) in [
        (format!("rm .git/worktrees/in/commondir; {again}"), "true".to_owned()),
        ("rm .git/worktrees/in/commondir".to_owned(), again.to_owned()),
        (
            "rm -r .git/worktrees/in".to_owned(),
            format!("mkdir .git/worktrees/in; {again}; cp .git/HEAD .git/worktrees/in"),
        ),
    ] {
        for act in [&one, &two] {
            gated(&place, &main, act);
        }
        assert_eq!(file("in/commondir"), None, "{one}, then {two}");
        plain(
            &place,
            &main,
            "rm -rf .git/worktrees/in in; git branch -q -D in; git worktree add -q in",
        );
        assert_eq!(file("in/commondir"), common);
    }
}
