//! Git directories that a run leaves are inspected, whatever becomes of the process that watched it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use stockade_sandbox::Child;
use stockade_spec::{Access, SandboxSpec, Violation};
use stockade_tests::skip;

use crate::place::{Place, Ran, as_root_and_user, rule, run, start};

/// Plants a configuration by a write that nobody can look into before it is done.
const PLANT: &str =
    "mkdir -p n/.git/refs n/.git/objects; echo '[core] fsmonitor = x' > n/.git/config;";

fn told<'a>(violations: &'a [Violation], kind: &str) -> Vec<&'a str> {
    violations.iter().filter(|it| it.kind == kind).map(|it| &*it.call).collect()
}

/// Returns pid 1 of a run, as the host numbers it: the only child of the monitor.
fn init_of(child: &Child) -> String {
    let monitor = child.monitor();
    let children = fs::read_to_string(format!("/proc/{monitor}/task/{monitor}/children")).unwrap();
    children.trim().to_owned()
}

fn signal(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

/// Starts `spec` and waits for its first line.
fn started(spec: &SandboxSpec) -> Child {
    let (child, _, mut reader) = start(spec).unwrap();
    let mut ready = [0; 6];
    reader.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    child
}

#[test]
fn what_was_planted_is_found_when_pid_1_was_killed() {
    as_root_and_user("inspection::what_was_planted_is_found_when_pid_1_was_killed", || {
        let place = Place::new("killed");
        let child = started(&place.spec(&format!("{PLANT} mv n m; echo ready; sleep 100")));
        signal("-KILL", &init_of(&child));
        let (exit, violations) = child.wait_with_violations().unwrap();
        assert_eq!(exit.signal, Some(9));
        assert_eq!(told(&violations, "process"), ["supervisor"]);
        assert_eq!(told(&violations, "planted"), ["core.fsmonitor"], "{violations:?}");
        assert!(!place.project.join("m/.git/config").exists());
        assert!(place.project.join("m/.git/config.refused").exists());
    });
}

#[test]
fn what_was_planted_is_found_when_pid_1_hangs() {
    as_root_and_user("inspection::what_was_planted_is_found_when_pid_1_hangs", || {
        let place = Place::new("hangs");
        let child = started(&place.spec(&format!("{PLANT} echo ready; sleep 100")));
        signal("-STOP", &init_of(&child));
        child.stopper().unwrap().stop(Duration::ZERO).unwrap();
        let (exit, violations) = child.wait_with_violations().unwrap();
        assert_eq!(exit.signal, Some(9));
        assert_eq!(told(&violations, "process"), ["supervisor"]);
        assert_eq!(told(&violations, "planted"), ["core.fsmonitor"], "{violations:?}");
        assert!(!place.project.join("n/.git/config").exists());
    });
}

#[test]
fn a_monitor_that_hangs_is_killed_and_the_run_with_it() {
    as_root_and_user("inspection::a_monitor_that_hangs_is_killed_and_the_run_with_it", || {
        let place = Place::new("hanging-monitor");
        for confine in [true, false] {
            let mut spec = place.spec("exec 8>lock; flock -x 8; echo ready; sleep 100");
            spec.confine = confine;
            let child = started(&spec);
            signal("-STOP", &child.monitor().to_string());
            let stopper = child.stopper().unwrap();
            stopper.stop(Duration::ZERO).unwrap();
            stopper.kill();
            assert!(child.wait().is_err());
            let mut lock = Command::new("flock");
            let ended =
                lock.args(["-w", "20"]).arg(place.project.join("lock")).arg("true").status();
            assert!(ended.unwrap().success(), "the command still lives");
        }
    });
}

/// Longer than what a socket holds, so that pid 1 can say it only while the monitor listens.
#[test]
fn a_long_report_comes_through() {
    as_root_and_user("inspection::a_long_report_comes_through", || {
        let place = Place::new("long-report");
        let name = "d".repeat(200);
        let script = format!(
            "{PLANT} cd $O; for i in {{1..18}}; do mkdir -p {name}; cd {name}; done; for i in {{1..120}}; do echo x > $i; done; exit 3"
        );
        let made = place.plain(&script.replace("echo x > $i", ":").replace(PLANT, ""));
        assert_eq!(made.code, Some(3), "{}", made.text);
        let ran = run(&place.spec(&script)).unwrap();
        assert_eq!(ran.exit.code, Some(3));
        assert_eq!(told(&ran.violations, "planted"), ["core.fsmonitor"]);
        let size: usize = ran.violations.iter().map(|it| it.object.len()).sum();
        assert!(size > 300_000, "{size}");
    });
}

#[test]
fn nothing_stands_in_the_way_of_putting_aside() {
    as_root_and_user("inspection::nothing_stands_in_the_way_of_putting_aside", || {
        let place = Place::new("aside");
        for (trap, aside) in [
            ("mkdir n/.git/config.refused", "config.refused.1"),
            ("echo x > n/.git/config.refused", "config.refused.1"),
            ("chmod 500 n/.git", "config.refused"),
            ("chmod 0 n/.git", "config.refused"),
            ("chmod 0 n/.git/config", "config.refused"),
            (
                "for i in {1..60}; do mkdir n/.git/config.refused.$i; done; mkdir n/.git/config.refused",
                "config.refused",
            ),
            ("rm n/.git/config; mkfifo n/.git/config", "config.refused"),
        ] {
            let ran = run(&place.spec(&format!("{PLANT} {trap}"))).unwrap();
            let left = place.plain("ls -d n/.git/config");
            assert_ne!(left.code, Some(0), "{trap}: {:?}", ran.violations);
            assert_eq!(told(&ran.violations, "planted").len(), 1, "{trap}: {:?}", ran.violations);
            assert!(
                fs::symlink_metadata(place.project.join("n/.git").join(aside)).is_ok(),
                "{trap}"
            );
            place.plain("chmod -R u+rwx n; rm -rf n");
        }
    });
}

/// A git directory that cannot be held open until the end cannot come into being.
#[test]
fn more_repositories_than_can_be_inspected_cannot_be_made() {
    as_root_and_user("inspection::more_repositories_than_can_be_inspected_cannot_be_made", || {
        let place = Place::new("many");
        let script = "for i in {1..520}; do mkdir -p n$i/.git 2>/dev/null || { echo $i; mkdir b$i; mkdir b$i/refs b$i/objects; }
             echo '[core] fsmonitor = x' > n$i/.git/config; done 2>/dev/null; ls -d n*/.git/config | wc -l";
        let ran = place.confined(script);
        assert!(
            ran.text.starts_with("501\n502\n") && ran.text.ends_with("\n500\n"),
            "{}",
            ran.text
        );
        let left = place.plain("ls n*/.git/config b*/config 2>/dev/null | wc -l; ls -d n501/.git b501/objects 2>/dev/null");
        assert_eq!(left.text, "0\n", "a directory that was refused is there");
    });
}

/// A project that is a repository in which three commits can be picked again, and what its own rules protect.
fn repository(name: &str) -> (Place, SandboxSpec) {
    let place = Place::new(name);
    let made = place.plain(
        "git init -q -b main . && git config user.name N && git config user.email n@example.invalid && mkdir d &&
         for i in 1 2 3; do echo $i > f$i && git add f$i && git commit -qm $i || exit 1; done",
    );
    assert_eq!(made.code, Some(0), "{}", made.text);
    let mut spec = place.spec("");
    for name in ["hooks", "config", "commondir", "info/attributes"] {
        spec.files.rules.push(rule(&place.project.join(".git").join(name), Access::Protected));
    }
    spec.files.git_configurations = vec![place.project.join(".git/config")];
    (place, spec)
}

fn git_works(test: &str) -> bool {
    let found = Command::new("git").arg("--version").output().is_ok();
    if !found {
        skip(test, "git is not installed");
    }
    found
}

fn inside(spec: &SandboxSpec, script: &str) -> Ran {
    let mut spec = spec.clone();
    spec.program.argv = vec!["bash".into(), "-c".into(), script.into()];
    run(&spec).unwrap()
}

/// The state of a stopped rebase, made by hand in the directory `$D`.
const STATE: &str = "mkdir -p $D; git rev-parse HEAD | tee $D/onto $D/orig-head > /dev/null; echo refs/heads/main > $D/head-name;
     touch $D/interactive $D/done; echo 1 > $D/msgnum; echo 1 > $D/end; git checkout -q --detach;";

/// Each makes `git rebase --continue` touch `$O/ran`.
const INSTRUCTIONS: &[&str] = &[
    "D=.git/rebase-merge; STATE echo 'exec touch $O/ran' > $D/git-rebase-todo",
    "D=.git/rebase-merge; STATE printf 'noop\\n \\tx\\ttouch $O/ran\\n' > $D/git-rebase-todo",
    "D=.git/x; STATE echo 'exec touch $O/ran' > $D/git-rebase-todo; mv .git/x .git/rebase-merge",
    "D=d/rebase-merge; STATE echo 'exec touch $O/ran' > $D/git-rebase-todo; mv d/rebase-merge .git/rebase-merge",
    "D=.git/rebase-merge; STATE echo 'exec touch $O/ran' > t; mv t $D/git-rebase-todo",
    "git branch side HEAD~1; git checkout -q side; echo s > s; git add s; git commit -qm s; git checkout -q main
     D=.git/rebase-merge; STATE mkdir git-merge-.; printf '#!/bin/sh\\ntouch $O/ran\\n' > git-merge-./x; chmod +x git-merge-./x
     echo ./x > $D/strategy; echo pick side > $D/git-rebase-todo",
];

#[test]
fn instructions_for_a_rebase_that_start_programs_are_put_aside() {
    let test = "inspection::instructions_for_a_rebase_that_start_programs_are_put_aside";
    as_root_and_user(test, || {
        if !git_works(test) {
            return;
        }
        for script in INSTRUCTIONS {
            let script = script.replace("STATE", STATE);
            let (place, _) = repository("rebase-plain");
            place.plain(&format!("{script}; GIT_EDITOR=true git rebase --continue"));
            assert!(place.outside.join("ran").exists(), "must run unconfined: {script}");
            let (place, spec) = repository("rebase");
            let ran = inside(&spec, &script);
            assert_eq!(ran.exit.code, Some(0), "{script}: {}", ran.text);
            let after = place.plain("GIT_EDITOR=true git rebase --continue");
            assert!(!place.outside.join("ran").exists(), "{script}: {}", after.text);
            assert_eq!(told(&ran.violations, "planted").len(), 1, "{script} {:?}", ran.violations);
        }
    });
}

#[test]
fn a_rebase_can_start_programs_inside_and_go_on_outside() {
    let test = "inspection::a_rebase_can_start_programs_inside_and_go_on_outside";
    as_root_and_user(test, || {
        if !git_works(test) {
            return;
        }
        let (place, spec) = repository("exec");
        let ran = inside(
            &spec,
            "GIT_EDITOR=true git rebase -q -i --exec 'echo done >> l' HEAD~2 && cat l",
        );
        assert_eq!(
            (ran.exit.code, told(&ran.violations, "planted").len()),
            (Some(0), 0),
            "{}",
            ran.text
        );
        assert!(ran.text.contains("done\ndone\n"), "{}", ran.text);
        // Stopped without one that is left.
        let edit = "rm -f l; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~2; git status | head -1";
        let ran = inside(&spec, edit);
        assert_eq!(told(&ran.violations, "planted").len(), 0, "{} {:?}", ran.text, ran.violations);
        let after = place.plain("git rebase --continue");
        assert_eq!(after.code, Some(0), "{}", after.text);
        // Stopped with one that is left: put aside, and back.
        let ran = inside(&spec, "GIT_EDITOR=true git rebase -q -i --exec 'test -e go' HEAD~2");
        assert_eq!(told(&ran.violations, "planted"), ["exec"], "{}", ran.text);
        let todo = place.project.join(".git/rebase-merge/git-rebase-todo");
        assert!(!todo.exists());
        let ran = inside(
            &spec,
            "cd .git/rebase-merge && mv git-rebase-todo.stockade git-rebase-todo && cd ../.. && touch go && git rebase --continue",
        );
        assert_eq!(
            (ran.exit.code, told(&ran.violations, "planted").len()),
            (Some(0), 0),
            "{} {:?}",
            ran.text,
            ran.violations
        );
    });
}

#[test]
fn what_a_person_left_in_a_rebase_stays() {
    let test = "inspection::what_a_person_left_in_a_rebase_stays";
    as_root_and_user(test, || {
        if !git_works(test) {
            return;
        }
        let (place, spec) = repository("left");
        let left = place.plain("GIT_EDITOR=true git rebase -q -i --exec 'test -e go' HEAD~2");
        assert_ne!(left.code, Some(0), "the person's rebase stops: {}", left.text);
        // The first is done, the second stops again.
        let ran = inside(
            &spec,
            "touch go; rm -f .git/index.lock; git rebase --skip; git status > /dev/null; test -d .git/rebase-merge || echo over",
        );
        assert_eq!(told(&ran.violations, "planted").len(), 0, "{} {:?}", ran.text, ran.violations);
        let (place, spec) = repository("left-and-added");
        place.plain("GIT_EDITOR=true git rebase -q -i --exec 'test -e go' HEAD~2");
        let ran = inside(&spec, "echo 'exec touch $O/ran' >> .git/rebase-merge/git-rebase-todo");
        assert_eq!(told(&ran.violations, "planted"), ["exec"]);
    });
}

#[test]
fn a_worktree_leads_to_its_own_repository_and_nowhere_else() {
    let test = "inspection::a_worktree_leads_to_its_own_repository_and_nowhere_else";
    as_root_and_user(test, || {
        if !git_works(test) {
            return;
        }
        let (place, spec) = repository("pointer");
        let evil = "mkdir -p .git/worktrees/e; echo $PWD/d > .git/worktrees/e/commondir; echo x > .git/worktrees/e/HEAD";
        let ran = inside(&spec, evil);
        assert_eq!(
            told(&ran.violations, "planted"),
            ["commondir"],
            "{} {:?}",
            ran.text,
            ran.violations
        );
        assert!(place.project.join(".git/worktrees/e/commondir.refused").exists());
        let elsewhere =
            "mkdir e; echo ../.. > e/commondir; echo x > e/HEAD; echo text > d/commondir";
        let ran = inside(&spec, elsewhere);
        assert_eq!(
            told(&ran.violations, "planted"),
            ["commondir", "commondir"],
            "{} {:?}",
            ran.text,
            ran.violations
        );
        // `HEAD` could come later.
        assert!(place.project.join("d/commondir.refused").exists());
        let ran = inside(
            &spec,
            "rm -rf .git/worktrees/e; git worktree add -q w && cd w && echo 1 > w && git add w && git commit -qm w",
        );
        assert_eq!(
            (ran.exit.code, told(&ran.violations, "planted").len()),
            (Some(0), 0),
            "{}",
            ran.text
        );
        let after = place.plain("git -C w status -s && git worktree list | wc -l");
        assert_eq!((after.code, &*after.text), (Some(0), "2\n"));
    });
}

#[test]
fn attributes_outside_of_the_project_cannot_be_set() {
    let test = "inspection::attributes_outside_of_the_project_cannot_be_set";
    as_root_and_user(test, || {
        if !git_works(test) {
            return;
        }
        let (place, spec) = repository("attributes");
        for act in
            ["echo '* -diff' > .git/info/attributes", "echo x > a; mv a .git/info/attributes"]
        {
            let outside = place.plain(act);
            assert_eq!(outside.code, Some(0), "must work unconfined: {act} {}", outside.text);
            place.plain("rm .git/info/attributes");
            assert_ne!(inside(&spec, act).exit.code, Some(0), "{act}");
            let mut spec = spec.clone();
            spec.files.rules.retain(|it| !it.path.ends_with("info/attributes"));
            assert_ne!(inside(&spec, act).exit.code, Some(0), "without a rule of its own: {act}");
        }
        let ran = inside(
            &spec,
            "git init -q new && echo '* text' > new/.git/info/attributes && echo x > .gitattributes",
        );
        assert_eq!(ran.exit.code, Some(0), "{}", ran.text);
        fs::set_permissions(&place.project, fs::Permissions::from_mode(0o755)).unwrap();
    });
}
