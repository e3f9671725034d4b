#![allow(clippy::too_many_lines, reason = "a row of a table is a line")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use expect_test::{Expect, expect};
use stockade_text::json::{Dialect, read};

use super::brought_by_shell;
use crate::decide::evaluate_shell;
use crate::decide::shell::Shell;
use crate::decide::tests::tree::tree;
use crate::decide::tests::{facts, rules};
use crate::facts::{Bringing, Facts, GitPlace, Repository, SandboxState, TreeChange, Unpacked};
use crate::verdict::Verdict;
use crate::{Layer, Mode};

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn of_change(change: &TreeChange) -> String {
    match change {
        TreeChange::Switch(rev) => format!("switch {}", shown(rev)),
        TreeChange::Checkout(word) => format!("checkout {}", shown(word)),
        TreeChange::Reset(rev) => format!("reset {}", shown(rev)),
        TreeChange::Merge(rev) => format!("merge {}", shown(rev)),
        TreeChange::Between(from, to) => format!("from {} to {}", shown(from), shown(to)),
        TreeChange::Paths(rev, places) => {
            let rev = rev.as_deref().map_or("the index".to_owned(), shown);
            format!("{places:?} of {rev}")
        }
    }
}

fn of(bringing: &Bringing) -> String {
    match bringing {
        Bringing::Git(GitPlace::Above(place), change) => {
            format!("{}: {}", place.display(), of_change(change))
        }
        Bringing::Git(GitPlace::At(_) | GitPlace::Within(_), _) => "another place".to_owned(),
        Bringing::Unpacked(Unpacked { archive, into, strip, members }) => {
            let members: Vec<String> = members.iter().map(|it| shown(it)).collect();
            format!("{} into {} strip {strip} {members:?}", archive.display(), into.display())
        }
    }
}

/// Each row is a command and what it brings.
fn check(commands: &[&str], expected: Expect) {
    let row = |command: &&str| {
        let tree = tree(command);
        let found = brought_by_shell(&Shell::of(&tree), &facts());
        let found: Vec<String> = found.iter().map(of).collect();
        format!("{command}  =>  {}", if found.is_empty() { "-".into() } else { found.join(" + ") })
    };
    expected.assert_eq(&commands.iter().map(row).collect::<Vec<_>>().join("\n"));
}

#[test]
fn git_brings_the_version_that_it_goes_to() {
    check(
        &[
            "git switch main",
            "git switch",
            "git switch -c new main",
            "git switch --create=new main",
            "git switch -f main",
            "git switch --discard-changes main",
            "git switch --orphan main",
            "git switch --conflict merge main",
            "git switch --conflict=merge main",
            "git switch -",
            "git switch -- main",
            "git switch -fd main",
            "git switch -dfc new main",
            "git switch -cnew main",
            "git switch --disc main",
            "git switch --crea new main",
            "git reset",
            "git reset --soft main",
            "git reset --hard",
            "git reset --hard main",
            "git reset --merge main",
            "git reset --keep main",
            "git reset --har main",
            "git reset --mer main",
            "git reset -q --har",
            "git merge",
            "git merge a b",
            "git merge -m text a",
            "git merge --abort",
            "git merge --continue",
            "git pull",
            "git pull origin",
            "git pull origin main",
            "git pull --depth 1 origin main",
            "git pull origin main next",
            "git rebase",
            "git rebase main",
            "git rebase --onto base main",
            "git rebase --onto=base main",
            "git rebase --abort",
            "git rebase --continue",
        ],
        expect![[r#"
            git switch main  =>  /p: switch main
            git switch  =>  -
            git switch -c new main  =>  /p: switch main
            git switch --create=new main  =>  /p: switch main
            git switch -f main  =>  /p: reset main
            git switch --discard-changes main  =>  /p: reset main
            git switch --orphan main  =>  -
            git switch --conflict merge main  =>  /p: switch main
            git switch --conflict=merge main  =>  /p: switch main
            git switch -  =>  /p: switch -
            git switch -- main  =>  /p: switch main
            git switch -fd main  =>  /p: reset main
            git switch -dfc new main  =>  /p: reset main
            git switch -cnew main  =>  /p: switch main
            git switch --disc main  =>  /p: reset main
            git switch --crea new main  =>  /p: switch main
            git reset  =>  -
            git reset --soft main  =>  -
            git reset --hard  =>  /p: reset HEAD
            git reset --hard main  =>  /p: reset main
            git reset --merge main  =>  /p: switch main
            git reset --keep main  =>  /p: switch main
            git reset --har main  =>  /p: reset main
            git reset --mer main  =>  /p: switch main
            git reset -q --har  =>  /p: reset HEAD
            git merge  =>  /p: merge @{u}
            git merge a b  =>  /p: merge a + /p: merge b
            git merge -m text a  =>  /p: merge a
            git merge --abort  =>  /p: reset HEAD
            git merge --continue  =>  -
            git pull  =>  /p: merge @{u}
            git pull origin  =>  -
            git pull origin main  =>  /p: merge origin/main
            git pull --depth 1 origin main  =>  /p: merge origin/main
            git pull origin main next  =>  -
            git rebase  =>  /p: switch @{u}
            git rebase main  =>  /p: switch main
            git rebase --onto base main  =>  /p: switch base
            git rebase --onto=base main  =>  /p: switch base
            git rebase --abort  =>  /p: reset ORIG_HEAD
            git rebase --continue  =>  -"#]],
    );
}

#[test]
fn git_brings_the_files_that_it_checks_out_and_restores() {
    check(
        &[
            "git checkout",
            "git checkout main",
            "git checkout main --",
            "git checkout -b new",
            "git checkout -b new main",
            "git checkout -f",
            "git checkout -f main",
            "git checkout main a",
            "git checkout a b c",
            "git checkout -- a",
            "git checkout main -- a b/../c /etc/x",
            "git checkout main -- ':(glob)x' a",
            "git checkout main -- '*.json'",
            "git checkout -p main",
            "git checkout --orphan main",
            "git checkout --pathspec-from-file list main",
            "git restore a",
            "git restore -- -a",
            "git restore a -- b",
            "git restore -s main a",
            "git restore --source=main --source=next a",
            "git restore --conflict merge a",
            "git restore -S a",
            "git restore --staged a",
            "git restore -S -W a",
            "git restore --staged --worktree a",
            "git restore -p a",
        ],
        expect![[r#"
            git checkout  =>  -
            git checkout main  =>  /p: checkout main
            git checkout main --  =>  /p: checkout main
            git checkout -b new  =>  -
            git checkout -b new main  =>  /p: switch main
            git checkout -f  =>  /p: reset HEAD
            git checkout -f main  =>  /p: reset main
            git checkout main a  =>  /p: ["/p/main", "/p/a"] of the index + /p: ["/p/a"] of main
            git checkout a b c  =>  /p: ["/p/a", "/p/b", "/p/c"] of the index + /p: ["/p/b", "/p/c"] of a
            git checkout -- a  =>  /p: ["/p/a"] of the index
            git checkout main -- a b/../c /etc/x  =>  /p: ["/p/a", "/p/c", "/etc/x"] of main
            git checkout main -- ':(glob)x' a  =>  /p: [] of main
            git checkout main -- '*.json'  =>  /p: [] of main
            git checkout -p main  =>  -
            git checkout --orphan main  =>  -
            git checkout --pathspec-from-file list main  =>  /p: checkout main
            git restore a  =>  /p: ["/p/a"] of the index
            git restore -- -a  =>  /p: ["/p/-a"] of the index
            git restore a -- b  =>  /p: ["/p/a", "/p/b"] of the index
            git restore -s main a  =>  /p: ["/p/a"] of main
            git restore --source=main --source=next a  =>  /p: ["/p/a"] of next
            git restore --conflict merge a  =>  /p: ["/p/a"] of the index
            git restore -S a  =>  -
            git restore --staged a  =>  -
            git restore -S -W a  =>  /p: ["/p/a"] of the index
            git restore --staged --worktree a  =>  /p: ["/p/a"] of the index
            git restore -p a  =>  -"#]],
    );
}

#[test]
fn git_brings_what_it_picks_and_what_was_put_away() {
    check(
        &[
            "git cherry-pick a b",
            "git cherry-pick a..b",
            "git cherry-pick ..b",
            "git cherry-pick a..",
            "git cherry-pick a...b",
            "git cherry-pick ...b",
            "git cherry-pick -nm1 a",
            "git cherry-pick -nm 1 a",
            "git cherry-pick -m 1 a",
            "git cherry-pick --abort",
            "git cherry-pick --quit",
            "git revert a",
            "git stash",
            "git stash push a",
            "git stash save text",
            "git stash pop",
            "git stash apply 1",
            "git stash pop stash@{2}",
            "git stash branch new",
            "git stash branch new 12",
            "git stash list",
            "git stash -m text",
            "git stash -p",
        ],
        expect![[r#"
            git cherry-pick a b  =>  /p: from a^ to a + /p: from b^ to b
            git cherry-pick a..b  =>  /p: from a to b
            git cherry-pick ..b  =>  /p: from HEAD to b
            git cherry-pick a..  =>  /p: from a to HEAD
            git cherry-pick a...b  =>  /p: merge a + /p: merge b
            git cherry-pick ...b  =>  /p: merge HEAD + /p: merge b
            git cherry-pick -nm1 a  =>  /p: from a^ to a
            git cherry-pick -nm 1 a  =>  /p: from a^ to a
            git cherry-pick -m 1 a  =>  /p: from a^ to a
            git cherry-pick --abort  =>  /p: reset HEAD
            git cherry-pick --quit  =>  -
            git revert a  =>  /p: from a^ to a
            git stash  =>  /p: reset HEAD
            git stash push a  =>  /p: reset HEAD
            git stash save text  =>  /p: reset HEAD
            git stash pop  =>  /p: from stash@{0}^ to stash@{0}
            git stash apply 1  =>  /p: from stash@{1}^ to stash@{1}
            git stash pop stash@{2}  =>  /p: from stash@{2}^ to stash@{2}
            git stash branch new  =>  /p: from stash@{0}^ to stash@{0}
            git stash branch new 12  =>  /p: from stash@{12}^ to stash@{12}
            git stash list  =>  -
            git stash -m text  =>  /p: reset HEAD
            git stash -p  =>  -"#]],
    );
}

#[test]
fn git_is_followed_to_the_directory_in_which_it_works() {
    check(
        &[
            "/usr/bin/git switch main",
            "git -C sub switch main",
            "git -C sub -C ../other pull",
            "git -C /x merge a",
            "git -c a=b switch main",
            "git -P --no-pager switch main",
            "git --namespace n switch main",
            "cd sub && git switch main",
            "git switch main; git -C sub stash; git switch main",
            // Another repository than the one of the directory, or words that only the running shell knows.
            "git --git-dir=/x switch main",
            "git --git-dir /x switch main",
            "git --work-tree=/x switch main",
            "git --work-tree /x switch main",
            "git --bare switch main",
            "git -C $(x) switch main",
            "git $(x) main",
            "git switch $(x)",
            "cd $(x) && git switch main",
            // No command that brings anything.
            "git",
            "git -C",
            "git status",
            "git log main",
            "git restore --source",
            "hub switch main",
            "git() { :; }; git switch main",
        ],
        expect![[r#"
            /usr/bin/git switch main  =>  /p: switch main
            git -C sub switch main  =>  /p/sub: switch main
            git -C sub -C ../other pull  =>  /p/other: merge @{u}
            git -C /x merge a  =>  /x: merge a
            git -c a=b switch main  =>  /p: switch main
            git -P --no-pager switch main  =>  /p: switch main
            git --namespace n switch main  =>  /p: switch main
            cd sub && git switch main  =>  /p/sub: switch main
            git switch main; git -C sub stash; git switch main  =>  /p: switch main + /p/sub: reset HEAD
            git --git-dir=/x switch main  =>  -
            git --git-dir /x switch main  =>  -
            git --work-tree=/x switch main  =>  -
            git --work-tree /x switch main  =>  -
            git --bare switch main  =>  -
            git -C $(x) switch main  =>  -
            git $(x) main  =>  -
            git switch $(x)  =>  -
            cd $(x) && git switch main  =>  -
            git  =>  -
            git -C  =>  -
            git status  =>  -
            git log main  =>  -
            git restore --source  =>  -
            hub switch main  =>  -
            git() { :; }; git switch main  =>  -"#]],
    );
}

#[test]
fn tar_brings_what_it_extracts() {
    check(
        &[
            "tar xf a.tar",
            "tar -xf a.tar",
            "tar -x -f a.tar",
            "tar -xfa.tar",
            "tar -f /t/a.tar -xv",
            "tar xvzf ../a.tgz",
            "tar --extract --file a.tar",
            "tar --get --file=a.tar --verbose",
            "tar -xf a.tar -C sub",
            "tar -x -C /t -C sub -fa.tar",
            "tar xfC a.tar sub member",
            "tar xCf sub a.tar",
            "tar xbf 20 a.tar",
            "tar -xb 20 -f a.tar",
            "tar --directory=sub --directory deep -xf a.tar",
            "tar --strip-components=1 -xf a.tar",
            "tar --strip 2 -xf a.tar",
            "tar -xf a.tar m n",
            "gtar xf a.tar",
            "/opt/bin/bsdtar xf a.tar",
            "cd sub && tar xf a.tar",
            // Nothing is extracted, or the words do not tell from what.
            "tar cf a.tar m",
            "tar tf a.tar",
            "tar -x",
            "tar -xf",
            "tar -xf ''",
            "tar -xf $(x)",
            "tar --strip-components=x -xf a.tar",
            "star xf a.tar",
        ],
        expect![[r#"
            tar xf a.tar  =>  /p/a.tar into /p strip 0 []
            tar -xf a.tar  =>  /p/a.tar into /p strip 0 []
            tar -x -f a.tar  =>  /p/a.tar into /p strip 0 []
            tar -xfa.tar  =>  /p/a.tar into /p strip 0 []
            tar -f /t/a.tar -xv  =>  /t/a.tar into /p strip 0 []
            tar xvzf ../a.tgz  =>  /p/../a.tgz into /p strip 0 []
            tar --extract --file a.tar  =>  /p/a.tar into /p strip 0 []
            tar --get --file=a.tar --verbose  =>  /p/a.tar into /p strip 0 []
            tar -xf a.tar -C sub  =>  /p/a.tar into /p/sub strip 0 []
            tar -x -C /t -C sub -fa.tar  =>  /p/a.tar into /t/sub strip 0 []
            tar xfC a.tar sub member  =>  /p/a.tar into /p/sub strip 0 ["member"]
            tar xCf sub a.tar  =>  /p/a.tar into /p/sub strip 0 []
            tar xbf 20 a.tar  =>  /p/a.tar into /p strip 0 []
            tar -xb 20 -f a.tar  =>  /p/a.tar into /p strip 0 []
            tar --directory=sub --directory deep -xf a.tar  =>  /p/a.tar into /p/sub/deep strip 0 []
            tar --strip-components=1 -xf a.tar  =>  /p/a.tar into /p strip 1 []
            tar --strip 2 -xf a.tar  =>  /p/a.tar into /p strip 2 []
            tar -xf a.tar m n  =>  /p/a.tar into /p strip 0 ["m", "n"]
            gtar xf a.tar  =>  /p/a.tar into /p strip 0 []
            /opt/bin/bsdtar xf a.tar  =>  /p/a.tar into /p strip 0 []
            cd sub && tar xf a.tar  =>  /p/sub/a.tar into /p/sub strip 0 []
            tar cf a.tar m  =>  -
            tar tf a.tar  =>  -
            tar -x  =>  -
            tar -xf  =>  -
            tar -xf ''  =>  -
            tar -xf $(x)  =>  -
            tar --strip-components=x -xf a.tar  =>  -
            star xf a.tar  =>  -"#]],
    );
}

#[test]
fn unzip_brings_what_it_extracts() {
    check(
        &[
            "unzip a.zip",
            "unzip -qo a.zip",
            "unzip a.zip -d out",
            "unzip -d /out a.zip",
            "unzip a.zip m n",
            "unzip a.zip m 'src/*.json'",
            "unzip a.zip 'm?'",
            "unzip a.zip '[m]'",
            "unzip a.zip m -x skipped",
            "unzip -P -l a.zip",
            // Nothing is extracted.
            "unzip -l a.zip",
            "unzip -qt a.zip",
            "unzip -p a.zip",
            "unzip -Z a.zip",
            "unzip",
            "unzip a.zip -d",
            "unzip $(x)",
            "funzip a.zip",
        ],
        expect![[r#"
            unzip a.zip  =>  /p/a.zip into /p strip 0 []
            unzip -qo a.zip  =>  /p/a.zip into /p strip 0 []
            unzip a.zip -d out  =>  /p/a.zip into /p/out strip 0 []
            unzip -d /out a.zip  =>  /p/a.zip into /out strip 0 []
            unzip a.zip m n  =>  /p/a.zip into /p strip 0 ["m", "n"]
            unzip a.zip m 'src/*.json'  =>  /p/a.zip into /p strip 0 []
            unzip a.zip 'm?'  =>  /p/a.zip into /p strip 0 []
            unzip a.zip '[m]'  =>  /p/a.zip into /p strip 0 []
            unzip a.zip m -x skipped  =>  /p/a.zip into /p strip 0 ["m"]
            unzip -P -l a.zip  =>  /p/a.zip into /p strip 0 []
            unzip -l a.zip  =>  -
            unzip -qt a.zip  =>  -
            unzip -p a.zip  =>  -
            unzip -Z a.zip  =>  -
            unzip  =>  -
            unzip a.zip -d  =>  -
            unzip $(x)  =>  -
            funzip a.zip  =>  -"#]],
    );
}

/// Returns the verdict on `git switch main` where going there writes `paths`.
fn verdict(settings: &str, facts: &Facts, paths: &[&str]) -> Verdict {
    let bringing =
        Bringing::Git(GitPlace::Above("/p".into()), TreeChange::Switch(b"main".to_vec()));
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let facts = Facts {
        brought: BTreeMap::from([(bringing, paths)]),
        repositories: BTreeMap::from([(GitPlace::Above("/p".into()), Repository::Harmless)]),
        ..facts.clone()
    };
    let tree = tree("git switch main");
    let input = read(br#"{"command":"git switch main"}"#, Dialect::Strict).unwrap();
    evaluate_shell(&rules(&[(Layer::User, settings)]), &Shell::of(&tree), &input, &facts)
}

fn confined() -> Facts {
    Facts { sandbox: SandboxState::Enforced, additional_directories: vec!["/d".into()], ..facts() }
}

fn told(verdict: &Verdict) -> String {
    let Verdict { decision, code, reason, opens, .. } = verdict;
    format!("{} {code} {reason} {opens:?}", decision.name())
}

const ALLOWED: &str = "{'permissions':{'allow':['Bash(git switch:*)']}}";

#[test]
fn a_version_with_protected_files_is_asked_about_and_a_yes_opens_those_of_the_root() {
    let rows = [
        vec![],
        vec!["/p/src/a"],
        vec!["/p/.npmrc"],
        vec!["/d/.npmrc", "/p/.npmrc", "/p/deep/.npmrc"],
        vec!["/p/.claude/settings.json"],
        vec!["/p/.claude/worktrees/x"],
        vec!["/p/.npmrc", "/p/.claude/settings.json", "/p/.envrc"],
        vec!["/p/.envrc", "/p/a/.envrc", "/p/b/.envrc", "/p/c/.envrc", "/p/d/.envrc"],
        vec![
            "/p/.envrc",
            "/p/a/.envrc",
            "/p/b/.envrc",
            "/p/c/.envrc",
            "/p/d/.envrc",
            "/p/e/.envrc",
        ],
        vec!["/p/.idea/\"x"],
        vec!["/p/.husky/pre-commit"],
    ];
    let row = |paths: &Vec<&str>| {
        format!("{paths:?}  =>  {}", told(&verdict(ALLOWED, &confined(), paths)))
    };
    expect![[r#"
        []  =>  allow rule_allow allow rule `Bash(git switch:*)` in user.json:1 []
        ["/p/src/a"]  =>  allow rule_allow allow rule `Bash(git switch:*)` in user.json:1 []
        ["/p/.npmrc"]  =>  ask protected_path it would write `/p/.npmrc`, protected in the root of the project; to allow: sandbox.filesystem.allowWrite: ["/p/.npmrc"] (user settings) ["/p/.npmrc"]
        ["/d/.npmrc", "/p/.npmrc", "/p/deep/.npmrc"]  =>  ask protected_path it would write `/d/.npmrc`, `/p/.npmrc`, protected in the root of the project; to allow: sandbox.filesystem.allowWrite: ["/d/.npmrc", "/p/.npmrc"] (user settings) ["/d/.npmrc", "/p/.npmrc"]
        ["/p/.claude/settings.json"]  =>  ask protected_path it would write `/p/.claude/settings.json`, which no sandboxed command can: the rest would be written without it []
        ["/p/.claude/worktrees/x"]  =>  allow rule_allow allow rule `Bash(git switch:*)` in user.json:1 []
        ["/p/.npmrc", "/p/.claude/settings.json", "/p/.envrc"]  =>  ask protected_path it would write `/p/.claude/settings.json`, `/p/.envrc`, which no sandboxed command can: the rest would be written without it ["/p/.npmrc"]
        ["/p/.envrc", "/p/a/.envrc", "/p/b/.envrc", "/p/c/.envrc", "/p/d/.envrc"]  =>  ask protected_path it would write `/p/.envrc`, `/p/a/.envrc`, `/p/b/.envrc`, `/p/c/.envrc`, `/p/d/.envrc`, which no sandboxed command can: the rest would be written without it []
        ["/p/.envrc", "/p/a/.envrc", "/p/b/.envrc", "/p/c/.envrc", "/p/d/.envrc", "/p/e/.envrc"]  =>  ask protected_path it would write `/p/.envrc`, `/p/a/.envrc`, `/p/b/.envrc`, `/p/c/.envrc`, `/p/d/.envrc`, 1 more, which no sandboxed command can: the rest would be written without it []
        ["/p/.idea/\"x"]  =>  ask protected_path it would write `/p/.idea/"x`, protected in the root of the project; to allow: sandbox.filesystem.allowWrite: ["/p/.idea/\"x"] (user settings) ["/p/.idea/\"x"]
        ["/p/.husky/pre-commit"]  =>  allow rule_allow allow rule `Bash(git switch:*)` in user.json:1 []"#]].assert_eq(&rows.iter().map(row).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_protected_file_that_a_setting_opened_or_no_sandbox_keeps_is_no_question() {
    let opened = "{'permissions':{'allow':['Bash(git switch:*)']},'sandbox':{'filesystem':{'allowWrite':['/p/.npmrc']}}}";
    expect!["allow rule_allow allow rule `Bash(git switch:*)` in user.json:1 []"]
        .assert_eq(&told(&verdict(opened, &confined(), &["/p/.npmrc"])));
    expect![[r#"ask protected_path it would write `/p/.idea/x`, protected in the root of the project; to allow: sandbox.filesystem.allowWrite: ["/p/.idea/x"] (user settings) ["/p/.idea/x"]"#]].assert_eq(&told(&verdict(opened, &confined(), &["/p/.npmrc", "/p/.idea/x"])));
    expect!["allow rule_allow allow rule `Bash(git switch:*)` in user.json:1 []"]
        .assert_eq(&told(&verdict(ALLOWED, &facts(), &["/p/.npmrc"])));
    let bypass = Facts { mode: Mode::BypassPermissions, ..confined() };
    expect![[r#"allow bypass mode bypassPermissions asks no questions ["/p/.npmrc"]"#]]
        .assert_eq(&told(&verdict(ALLOWED, &bypass, &["/p/.npmrc"])));
}
