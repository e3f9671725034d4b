//! Git in every form of a project: linked worktrees, bare repositories, submodules; and projects in odd homes.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use stockade_tests::{Place, is_root, skip};

#[path = "worktrees/moved.rs"]
mod moved;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn has_git(test: &str) -> bool {
    let found = Command::new("git").arg("--version").output().is_ok();
    if !found {
        skip(test, "git is not installed");
    }
    found
}

/// Runs `script` plain in `folder`.
fn plain(place: &Place, folder: &Path, script: &str) {
    let status = Command::new("bash")
        .args(["-ec", script])
        .current_dir(folder)
        .env("HOME", place.home())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .status();
    assert!(status.expect("bash").success(), "{script}");
}

/// Runs `script` as a file in `folder` through the gate.
fn gated(place: &Place, folder: &Path, script: &str) -> Output {
    std::fs::write(folder.join("act.sh"), script).expect("a file");
    let mut command = place.stockade(["run", "--no-daemon", "--", "bash act.sh"]);
    command.current_dir(folder).output().expect("the executable starts")
}

const IDENTITY: &str = "export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@example.invalid GIT_COMMITTER_NAME=n \
                        GIT_COMMITTER_EMAIL=n@example.invalid GIT_EDITOR=true; ";

/// Everyday work; the last line that it prints is `done`.
const EVERYDAY: &str = "set -e; echo 1 > f; git add f; git commit -qm one; echo 2 >> f; git commit -qam two; \
    git commit -q --amend -m again; git checkout -q -b topic; echo t > t; git add t; git commit -qm topic; \
    git checkout -q -; echo 3 >> f; git commit -qam three; git rebase -q HEAD topic; git rebase -qi HEAD~1; \
    echo s >> f; git stash -q; git stash pop -q; git checkout -q f; git switch -q -c other; git switch -q topic; \
    git worktree add -q wt other; (cd wt; echo w > w; git add w; git commit -qm w); git worktree remove wt; \
    git tag v; git gc -q; git status --short >/dev/null; echo done";

#[test]
fn a_linked_worktree_is_worked_in_and_its_repository_cannot_be_booby_trapped() {
    let test = "a_linked_worktree_is_worked_in";
    if !has_git(test) {
        return;
    }
    let place = Place::new("linked");
    let main = place.root.join("main");
    std::fs::create_dir(&main).expect("a folder");
    plain(
        &place,
        &main,
        &format!(
            "{IDENTITY} git init -q; git commit -q --allow-empty -m zero; git worktree add -q ../linked"
        ),
    );
    let linked: PathBuf = place.root.join("linked");
    let output = gated(&place, &linked, &format!("{IDENTITY}{EVERYDAY}"));
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.ends_with("done\n"), "{stdout}{stderr}");
    let before = std::fs::read(main.join(".git/config")).expect("the file");
    for act in [
        format!("echo x > '{}/.git/hooks/post-commit'", main.display()),
        format!("echo x >> '{}/.git/config'", main.display()),
        "git config core.fsmonitor x".to_owned(),
        "d=$(git rev-parse --git-dir) && echo x > \"$d/config.worktree\"".to_owned(),
        "echo gitdir: /elsewhere > .git".to_owned(),
        "rm .git && mkdir .git".to_owned(),
    ] {
        let output = gated(&place, &linked, &act);
        assert!(!output.status.success(), "{act}: {}", text(&output.stderr));
    }
    assert_eq!(std::fs::read(main.join(".git/config")).expect("the file"), before);
    assert!(!main.join(".git/hooks/post-commit").exists());
}

#[test]
fn a_directory_worktrees_makes_nothing_above_it_writable() {
    let place = Place::new("no-repository");
    let project = place.home().join("worktrees/project");
    place.repository(&project);
    let pointers = "mkdir -p sub/g; cd sub; echo \"gitdir: $PWD/g\" > .git; echo \"$PWD/.git\" > g/gitdir; \
                    echo ref: refs/heads/x > g/HEAD; echo \"${PWD%%/worktrees/*}\" > g/commondir";
    plain(&place, &project, pointers);
    let sub = project.join("sub");
    let output = gated(&place, &sub, "echo x > made && cat made; echo x > ~/.vimrc; mkdir ~/bin");
    assert_eq!(text(&output.stdout), "x\n", "{}", text(&output.stderr));
    assert!(!place.home().join(".vimrc").exists() && !place.home().join("bin").exists());
}

#[test]
fn a_worktree_in_a_bare_repository_cannot_write_to_the_one_beside_it() {
    let test = "a_worktree_in_a_bare_repository";
    if !has_git(test) {
        return;
    }
    let place = Place::new("beside");
    let script = format!(
        "{IDENTITY} git init -q -b main all; cd all; git commit -q --allow-empty -m zero; cd ..; \
         git clone -q --bare all store; cd store; git worktree add -q one main; git worktree add -q -b two two"
    );
    plain(&place, &place.root, &script);
    let store = place.root.join("store");
    let script = format!(
        "{IDENTITY} echo 1 > f; git add f; git commit -qm f && echo done; echo x > ../two/planted; echo x > ../.envrc"
    );
    let output = gated(&place, &store.join("one"), &script);
    assert_eq!(text(&output.stdout), "done\n", "{}", text(&output.stderr));
    assert!(!store.join("two/planted").exists() && !store.join(".envrc").exists());
}

#[test]
fn a_repository_inside_another_sheds_none_of_its_denials() {
    let place = Place::new("inside");
    let settings = r#"{"permissions":{"deny":["Read(/.env)","Bash(id:*)"]}}"#;
    place.write("project/.stockade/settings.json", settings);
    place.write("project/.env", "SECRET\n");
    let sub = place.project().join("sub");
    place.repository(&sub);
    for (line, rule) in [("id", "Bash(id:*)"), ("cat ../.env", "Read(/.env)")] {
        let mut command = place.stockade(["run", "--no-daemon", "--", line]);
        let output = command.current_dir(&sub).output().expect("the executable starts");
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(stdout.is_empty() && stderr.contains(&format!("deny rule `{rule}`")), "{stderr}");
    }
}

#[test]
fn a_git_file_that_a_run_leaves_leads_to_no_directory_that_it_filled_unseen() {
    let test = "a_git_file_that_a_run_leaves";
    if !has_git(test) {
        return;
    }
    let place = Place::new("pointer");
    let project = place.project();
    let script = format!(
        "{IDENTITY} set -e; git init -q /tmp/e; mkdir sub; echo \"gitdir: /tmp/e/.git\" > sub/.git; \
         git init -q --separate-git-dir=store own; echo x > own/f; git -C own add f; git -C own commit -qm f; \
         git commit -q --allow-empty -m zero; git worktree add -q linked; echo done"
    );
    let output = gated(&place, &project, &script);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.ends_with("done\n"), "{stdout}{stderr}");
    assert!(!project.join("sub/.git").exists(), "{stderr}");
    assert!(project.join("sub/.git.refused").exists() && stderr.contains("sub/.git"), "{stderr}");
    assert!(project.join("own/.git").is_file() && project.join("linked/.git").is_file());
}

#[test]
fn a_bare_repository_in_the_project_is_pushed_to_and_not_booby_trapped() {
    let test = "a_bare_repository_in_the_project";
    if !has_git(test) {
        return;
    }
    let place = Place::new("bare");
    let project = place.project();
    std::fs::remove_dir_all(project.join(".git")).expect("the folder");
    plain(
        &place,
        &project,
        &format!(
            "{IDENTITY} git init -q -b main; git commit -q --allow-empty -m zero; git init -q -b main --bare store"
        ),
    );
    let output = gated(
        &place,
        &project,
        &format!(
            "{IDENTITY}set -e; git push -q store HEAD:refs/heads/main; git -C store log --oneline | wc -l; \
                  git clone -q store copy; cd copy; echo 1 > f; git add f; git commit -qm f; git push -q"
        ),
    );
    assert_eq!(text(&output.stdout), "1\n", "{}", text(&output.stderr));
    for act in [
        "echo x > store/hooks/post-update",
        "git -C store config core.fsmonitor x",
        "echo x > store/commondir",
    ] {
        let output = gated(&place, &project, act);
        assert!(!output.status.success(), "{act}: {}", text(&output.stderr));
    }
}

#[test]
fn a_project_in_the_home_directory_leaves_the_rest_of_it_alone() {
    let place = Place::new("at-home");
    let project = place.home().join("my project ä");
    place.repository(&project);
    let output = gated(
        &place,
        &project,
        "echo x > made && cat made; echo x > ~/outside; echo x > ../beside",
    );
    assert_eq!(text(&output.stdout), "x\n", "{}", text(&output.stderr));
    assert!(!place.home().join("outside").exists() && !place.home().join("beside").exists());
}

/// Runs stockade in a mount namespace where `mounts` was run.
fn mounted(place: &Place, mounts: &str, line: &str) -> Option<Output> {
    let inner = place.stockade(["run", "--no-daemon", "--", line]);
    let mut command = Command::new("unshare");
    command.args(if is_root() { ["-m"].as_slice() } else { ["-Urm"].as_slice() });
    command.args([
        "--propagation",
        "private",
        "bash",
        "-c",
        &format!("set -e; {mounts}; exec \"$@\""),
        "bash",
    ]);
    command
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(place.project())
        .env_clear();
    for (name, value) in inner.get_envs() {
        command.envs(value.map(|value| (name, value)));
    }
    let output = command.env("ROOT", &place.root).output().expect("unshare");
    let stderr = text(&output.stderr);
    (!stderr.contains("unshare:") && !stderr.contains("mount:")).then_some(output)
}

#[test]
fn a_home_that_cannot_be_written_is_no_obstacle() {
    let place = Place::new("read-only-home");
    let mounts = "mount --bind $ROOT/home $ROOT/home; mount -o remount,bind,ro $ROOT/home";
    match mounted(&place, mounts, "echo x > made; cat made") {
        Some(output) => assert_eq!(text(&output.stdout), "x\n", "{}", text(&output.stderr)),
        None => skip("a_home_that_cannot_be_written", "nothing can be mounted here"),
    }
}

/// stockade needs no terminal of its own, and a run makes its own.
#[test]
fn without_free_terminals_it_runs() {
    let place = Place::new("no-terminals");
    let mounts = "mount -t devpts -o newinstance,ptmxmode=0666,max=1 none /dev/pts; \
                  mount --bind /dev/pts/ptmx /dev/ptmx; exec 7<>/dev/ptmx; if (exec 3<>/dev/ptmx) 2>/dev/null; then exit 77; fi";
    match mounted(&place, mounts, "echo x > made; cat made") {
        Some(output) => assert_eq!(text(&output.stdout), "x\n", "{}", text(&output.stderr)),
        None => skip("without_free_terminals_it_runs", "nothing can be mounted here"),
    }
}

#[test]
fn a_full_disk_is_one_clear_refusal_and_nothing_runs() {
    let place = Place::new("full-disk");
    let mounts = "mount -t tmpfs -o size=64k none $ROOT/state; mkdir -p -m 700 $ROOT/state/stockade; \
                  head -c 1M /dev/zero > $ROOT/state/full || true";
    match mounted(&place, mounts, "echo x > made") {
        Some(output) => {
            let stderr = text(&output.stderr);
            let own: Vec<&str> =
                stderr.lines().filter(|line| line.starts_with("stockade: ")).collect();
            assert_eq!((output.status.code(), own.len()), (Some(122), 1), "{stderr}");
            assert!(!place.project().join("made").exists());
        }
        None => skip("a_full_disk_is_one_clear_refusal", "nothing can be mounted here"),
    }
}

/// Ways to change the configuration of the repository that a script stands in, each with what is to be read there after.
const HARMLESS: &[(&str, &str)] = &[
    ("git switch -q -c t2 --track main", "branch.t2.merge=refs/heads/main"),
    ("git branch -q keep; git branch -q --set-upstream-to=main keep", "branch.keep.remote=."),
    ("git branch -m t2 t3", "branch.t3.merge=refs/heads/main"),
    ("git config user.email b@example.invalid", "user.email=b@example.invalid"),
    ("git branch -q u; git push -q -u origin u:${PWD##*/}", "branch.u.remote=origin"),
    ("git config core.fileMode false", "core.filemode=false"),
];

/// Ways to change it that are refused, each with the key that is named.
const HARMFUL: &[(&str, &str)] = &[
    ("git config core.fsmonitor ./x", "core.fsmonitor"),
    ("git config core.hooksPath .", "core.hookspath"),
    ("git config alias.st '!x'", "alias.st"),
    ("git config branch.main.mergeOptions '-s ./x'", "branch.mergeoptions"),
    ("git config remote.origin.url https://x.invalid", "remote.url"),
    ("git config --add remote.origin.pushurl https://x.invalid", "remote.pushurl"),
    ("git config --remove-section remote.origin", "remote.url"),
    ("git remote add up /o", "remote.url"),
    ("git config branch.main.remote https://x.invalid", "branch.remote"),
    (
        "printf '[core]\\nfsmonitor=x\\n' > .git/config.lock; mv .git/config.lock .git/config",
        "core.fsmonitor",
    ),
    ("printf '[core' > .git/config.lock; mv .git/config.lock .git/config", "what git cannot read"),
];

#[test]
fn harmless_keys_of_a_repository_that_was_there_may_change_and_no_others() {
    if !has_git("harmless_keys") {
        return;
    }
    let place = Place::new("keys");
    let project = place.project();
    // The project's own repository, and one inside of it that no mount knows of.
    plain(&place, &project, "git init -q --bare bare; mkdir in");
    for folder in [project.clone(), project.join("in")] {
        let script = "git init -q; git commit -q --allow-empty -m zero; git checkout -q -B main; git config remote.origin.url $B";
        let bare = format!("B='{}/bare'", project.display());
        plain(&place, &folder, &format!("{bare}; {IDENTITY} {script}"));
        let config = folder.join(".git/config");
        let read = || std::fs::read_to_string(&config).expect("the file");
        let acted = |act: &str| {
            let there = format!("cd '{}'", folder.display());
            gated(&place, &project, &format!("{there}; {IDENTITY} set -e; {act}"))
        };
        for (act, expected) in HARMLESS {
            let output = acted(act);
            assert!(output.status.success(), "{act}: {}", text(&output.stderr));
            let mut list = Command::new("git");
            let output = list.args(["config", "--list", "--local"]).current_dir(&folder).output();
            let listed = text(&output.expect("git").stdout);
            assert!(listed.lines().any(|line| line == *expected), "{act}: {listed}");
            assert!(!folder.join(".git/config.lock").exists(), "{act}");
        }
        let before = read();
        for (act, key) in HARMFUL {
            let output = acted(&format!("{{ {act}; }} || {{ rm -f .git/config.lock; false; }}"));
            let stderr = text(&output.stderr);
            assert!(!output.status.success(), "{act}: {stderr}");
            assert!(
                stderr.contains(&format!("builtin: git configuration `{key}`")),
                "{act}: {stderr}"
            );
            assert_eq!(read(), before, "{act}");
            // Without the gate it works.
            plain(&place, &folder, act);
            assert_ne!(read(), before, "{act}");
            std::fs::write(&config, &before).expect("the file");
        }
    }
}

#[test]
fn a_rule_for_the_configuration_keeps_it_whole() {
    if !has_git("a_rule_for_the_configuration") {
        return;
    }
    let place = Place::new("kept");
    let project = place.project();
    plain(&place, &project, "git init -q");
    let config = project.join(".git/config");
    let before = std::fs::read(&config).expect("the file");
    let act = "git config user.email a@example.invalid";
    for (rules, expected) in [
        (r#"{"sandbox":{"filesystem":{"denyWrite":["**/config"]}}}"#, "denyWrite"),
        (r#"{"sandbox":{"filesystem":{"denyWrite":[".git/config"]}}}"#, "denyWrite"),
        (r#"{"permissions":{"deny":["Edit(.git/config)"]}}"#, "permissions.deny"),
    ] {
        std::fs::write(project.join("act.sh"), act).expect("a file");
        let arguments = ["--settings", rules, "run", "--no-daemon", "--", "bash act.sh"];
        let output = place.stockade(arguments).current_dir(&project).output().expect("it starts");
        let stderr = text(&output.stderr);
        assert!(!output.status.success() && stderr.contains(expected), "{rules}: {stderr}");
        assert_eq!(std::fs::read(&config).expect("the file"), before, "{rules}");
    }
    assert!(gated(&place, &project, act).status.success());
    assert_ne!(std::fs::read(&config).expect("the file"), before);
}

/// Returns the files under `folder`, each with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut rest = vec![folder.to_path_buf()];
    while let Some(next) = rest.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => rest.push(path),
                false => drop(found.insert(path.clone(), std::fs::read(&path).expect("a file"))),
            }
        }
    }
    found
}

/// Ways to take the history of a project.
const LOSSES: &[&str] = &[
    "rm -rf .git",
    "find .git/objects -type f -delete",
    "chmod -R u+w .git; for f in $(find .git/objects -type f); do : > $f; done",
    "chmod -R u+w .git; for f in $(find .git/objects -type f); do truncate -s 1 $f; done",
    "chmod -R u+w .git; for f in $(find .git/objects -type f); do echo x > y; mv -f y $f; done",
    "for f in $(find .git/objects -type f); do mv $f .git/lost-$RANDOM; done",
    "mv .git/objects/pack lost; for d in .git/objects/??; do mv $d lost-$RANDOM; done; rm -rf lost*",
    "for f in $(find .git/objects -type f); do ln $f y; chmod u+w y; echo x > y; rm -f y; done",
    "git clone -q --local . c; chmod -R u+w c; for f in $(find c/.git/objects -type f); do : > $f; done",
    "for d in pack $(ls .git/objects | grep -x ..); do mkdir .git/objects/e; \"$RACER\" exchange .git/objects/e .git/objects/$d; rm -rf .git/objects/e; done",
    "for f in $(cd .git/objects; find . -type f); do echo x > y; \"$RACER\" exchange y .git/objects/$f; done",
    "git update-ref -d HEAD; git reflog expire --expire=now --all; rm -f .git/index; git gc -q --prune=now",
    "git update-ref -d HEAD; rm -rf .git/logs .git/index; git repack -qad; git prune-packed; git prune",
];

#[test]
fn the_history_of_a_project_cannot_be_taken() {
    if !has_git("the_history_of_a_project") {
        return;
    }
    let place = Place::new("history");
    let (project, kept) = (place.project(), place.root.join("kept"));
    let made = format!(
        "{IDENTITY} git init -q; echo 1 > f; git add f; git commit -qm one; git repack -qad; echo 2 > f; git commit -qam two; \
         cp -a . '{}'",
        kept.display()
    );
    plain(&place, &project, &made);
    let objects = project.join(".git/objects");
    // Git makes the rest of what lies there again.
    let mut before = files(&objects);
    before.retain(|path, _| {
        !path.ends_with("info/packs") && path.extension().is_none_or(|end| end != "rev")
    });
    let lost = || {
        let after = if objects.exists() { files(&objects) } else { BTreeMap::new() };
        before.iter().filter(|(path, text)| after.get(*path) != Some(*text)).count()
    };
    let restore = format!("rm -rf ./* .git; cp -a '{}/.' .", kept.display());
    for act in LOSSES {
        let racer = stockade_tests::executable("racer");
        let act = format!("RACER='{}'; {{ {act}; }} > log 2>&1 || true", racer.display());
        plain(&place, &project, &act);
        assert!(lost() > 0, "{act} takes nothing");
        plain(&place, &project, &restore);
        let output = gated(&place, &project, &act);
        assert_eq!(lost(), 0, "{act}: {}", text(&output.stderr));
        plain(&place, &project, &restore);
    }
}

#[test]
fn upkeep_of_a_repository_that_was_there_goes_on_and_loses_nothing() {
    if !has_git("upkeep_of_a_repository") {
        return;
    }
    let place = Place::new("upkeep");
    let project = place.project();
    plain(
        &place,
        &project,
        &format!("{IDENTITY} git init -q; echo 1 > f; git add f; git commit -qm one; git gc -q"),
    );
    let acts = [
        "echo 2 > f; git commit -qam two",
        "git gc -q",
        "git gc -q",
        "git repack -qad; git repack -qAd",
        "echo 3 > f; git add f; git stash -q; git stash pop -q; git commit -qam three; git repack -qd; git prune-packed",
    ];
    for act in acts {
        let output =
            gated(&place, &project, &format!("{IDENTITY} set -e; {act}; git fsck --strict"));
        assert!(output.status.success(), "{act}: {}", text(&output.stderr));
    }
    // Nothing goes on beside it.
    let output = gated(&place, &project, "git config gc.auto; git config maintenance.auto");
    assert_eq!(text(&output.stdout), "0\nfalse\n");
}

#[test]
fn the_history_of_repositories_without_that_name_cannot_be_taken_either() {
    if !has_git("the_history_of_repositories_without") {
        return;
    }
    let place = Place::new("nameless");
    let project = place.project();
    let made = format!(
        "{IDENTITY} git init -q; echo 1 > f; git add f; git commit -qm one; \
         git -c protocol.file.allow=always submodule --quiet add \"$PWD\" libs/sub; git clone -q --bare . ../bare"
    );
    plain(&place, &project, &made);
    let bare = place.root.join("bare");
    let whole = "rm -rf HEAD refs packed-refs; mv objects o2; rm -rf o2";
    let acts = [
        (&project, ".git/modules/libs/sub", format!("cd .git/modules/libs/sub; {whole}")),
        (&project, ".git/modules/libs/sub", "find .git/modules -type f -delete".to_owned()),
        (&bare, ".", whole.to_owned()),
        (&bare, ".", "rm -rf objects".to_owned()),
        // Git gives the objects of a clone beside it second names, if a person makes it.
        (
            &project,
            ".git",
            "cd beside/.git/objects; chmod -R u+w .; for f in ??/*; do echo x > $f; done"
                .to_owned(),
        ),
    ];
    for (folder, git, act) in acts {
        let act = format!("{{ {act}; }} > /dev/null 2>&1 || true");
        plain(&place, folder, "test -e beside || git clone -q --local . beside");
        let objects = folder.join(git).join("objects");
        let before = files(&objects);
        let lost = || {
            let after = if objects.exists() { files(&objects) } else { BTreeMap::new() };
            let is_object = |path: &Path| {
                !path.ends_with("info/packs") && path.extension().is_none_or(|end| end != "rev")
            };
            before
                .iter()
                .filter(|(path, text)| is_object(path) && after.get(*path) != Some(*text))
                .count()
        };
        let output = gated(&place, folder, &act);
        assert_eq!(lost(), 0, "{act}: {}", text(&output.stderr));
        // A command that changed the mode of a second name has made it a file of its own.
        plain(&place, folder, "rm -rf beside; git clone -q --local . beside");
        let kept = place.root.join("kept");
        plain(&place, folder, &format!("rm -rf '{0}'; cp -a . '{0}'", kept.display()));
        // Files that the run wrote have names of their own by now.
        plain(&place, folder, "rm -rf beside; git clone -q --local . beside");
        plain(&place, folder, &act);
        assert!(lost() > 0, "{act} takes nothing");
        plain(&place, folder, &format!("rm -rf ./* .git; cp -a '{}/.' .", kept.display()));
    }
}
