//! When a run does not start at all, and what is said then.

use std::fs;

use stockade_probe::Host;
use stockade_spec::{Access, Error, Network, Protection, SandboxSpec, State, Window};
use stockade_tests::lacking::{Refused, control_groups, landlock, user_namespaces};

use crate::place::{Place, as_root_and_user, launcher, rule, run, run_without, with_covered_proc};

#[test]
fn without_namespaces_nothing_starts() {
    as_root_and_user("refusal::without_namespaces_nothing_starts", || {
        let place = Place::new("no-namespaces");
        match run_without(&user_namespaces(), &place.spec("touch ran")) {
            Err(Error::Unenforceable { reason, help, .. }) => {
                let refused = "Operation not permitted (os error 1)";
                assert_eq!(reason, format!("namespaces cannot be made: {refused}"));
                assert!(!help.is_empty());
            }
            other => panic!("{other:?}"),
        }
        assert!(!place.project.join("ran").exists());
    });
}

#[test]
fn i7_a_required_protection_that_is_missing_stops_the_start() {
    let test = "refusal::i7_a_required_protection_that_is_missing_stops_the_start";
    with_covered_proc(test, || {
        let place = Place::new("required");
        let mut spec = place.spec("touch ran");
        let ran = run(&spec).unwrap();
        let state = ran.enforced.states.get(&Protection::Processes);
        assert!(matches!(state, Some(State::Missing(_))), "{state:?}");
        fs::remove_file(place.project.join("ran")).unwrap();
        spec.required.insert(Protection::Processes);
        match run(&spec) {
            Err(Error::Unenforceable { protection, .. }) => {
                assert_eq!(protection, Protection::Processes);
            }
            other => panic!("{other:?}"),
        }
        assert!(!place.project.join("ran").exists());
    });
}

#[test]
fn limits_can_be_required_where_no_group_is_delegated() {
    as_root_and_user("refusal::limits_can_be_required_where_no_group_is_delegated", || {
        let place = Place::new("required-limits");
        let mut spec = place.spec("ulimit -f");
        spec.required.insert(Protection::Limits);
        spec.limits.file_bytes = 1 << 20;
        // Without the call that groups need there are no locks.
        spec.files.turns = None;
        let ran = run_without(&[control_groups()], &spec).unwrap();
        assert_eq!((ran.exit.code, &*ran.text), (Some(0), "1024\n"));
        let state = ran.enforced.states.get(&Protection::Limits);
        assert!(matches!(state, Some(State::Partial(_))), "{state:?}");
    });
}

/// Asserts that a run can neither write outside nor connect to the host.
fn holds_without(place: &Place, refused: &[Refused]) {
    let spec = place.spec("echo x > $O/file; exec 3<>/dev/tcp/127.0.0.1/22");
    let ran = run_without(refused, &spec).unwrap();
    assert_eq!(ran.exit.code, Some(1), "{refused:?}: {}", ran.text);
    assert!(!place.outside.join("file").exists(), "{refused:?}");
    for protection in [Protection::WriteOutside, Protection::Network] {
        assert!(ran.enforced.holds(protection), "{refused:?}: {protection:?}");
    }
}

#[test]
fn what_is_left_holds_without_landlock() {
    as_root_and_user("refusal::what_is_left_holds_without_landlock", || {
        holds_without(&Place::new("layers"), &[landlock()]);
    });
}

#[test]
fn what_is_left_holds_without_a_proc_of_its_own() {
    with_covered_proc("refusal::what_is_left_holds_without_a_proc_of_its_own", || {
        holds_without(&Place::new("layers-proc"), &[]);
    });
}

#[test]
fn a_run_that_was_let_out_says_so() {
    as_root_and_user("refusal::a_run_that_was_let_out_says_so", || {
        let place = Place::new("let-out");
        let mut spec = place.spec("echo x > $O/file");
        spec.confine = false;
        let ran = run(&spec).unwrap();
        assert!(place.outside.join("file").exists());
        for state in ran.enforced.states.values() {
            assert_eq!(*state, State::Off("this call runs unsandboxed".to_owned()));
        }
    });
}

#[test]
fn a_working_directory_that_is_gone_is_refused() {
    as_root_and_user("refusal::a_working_directory_that_is_gone_is_refused", || {
        let place = Place::new("gone");
        let mut spec = place.spec("true");
        spec.program.cwd = place.project.join("gone");
        for confine in [true, false] {
            spec.confine = confine;
            match run(&spec) {
                Err(Error::Step { step, .. }) => assert_eq!(step, "working directory"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn a_missing_program_is_our_error() {
    as_root_and_user("refusal::a_missing_program_is_our_error", || {
        let place = Place::new("exec");
        let mut spec = place.spec("true");
        spec.program.path = "/nonexistent/program".into();
        match run(&spec) {
            Err(Error::Exec { source, .. }) => {
                assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn the_whole_file_system_is_no_region() {
    as_root_and_user("refusal::the_whole_file_system_is_no_region", || {
        let place = Place::new("whole");
        let root = std::path::Path::new("/");
        for access in [Access::Write, Access::None] {
            let mut spec = place.spec("true");
            spec.files.rules.push(rule(root, access));
            assert!(matches!(run(&spec), Err(Error::Spec { .. })));
        }
        let mut spec = place.spec("pwd");
        spec.program.cwd = root.into();
        spec.files.rules = vec![rule(root, Access::Read)];
        assert_eq!(run(&spec).unwrap().text, "/\n");
    });
}

#[test]
fn a_spec_that_contradicts_itself_is_refused() {
    as_root_and_user("refusal::a_spec_that_contradicts_itself_is_refused", || {
        let place = Place::new("contradiction");
        let refused = |change: &dyn Fn(&mut SandboxSpec)| {
            let mut spec = place.spec("touch ran");
            change(&mut spec);
            assert!(matches!(run(&spec), Err(Error::Spec { .. })), "{spec:?}");
            assert!(!place.project.join("ran").exists());
        };
        refused(&|spec| spec.program.path = "bash".into());
        refused(&|spec| spec.program.cwd = "project".into());
        refused(&|spec| spec.program.argv.clear());
        refused(&|spec| spec.program.argv.push("a\0b".into()));
        refused(&|spec| spec.program.environment.push(("A".into(), "b\0c".into())));
        // Of two rules for one path the stricter one holds.
        std::fs::write(place.project.join("both"), "kept").unwrap();
        for access in [Access::None, Access::ReadOnly, Access::Protected] {
            for order in [[Access::Write, access], [access, Access::Write]] {
                let mut spec = place.spec("echo x > both");
                spec.files.rules.extend(order.map(|it| rule(&place.project.join("both"), it)));
                assert_ne!(run(&spec).unwrap().exit.code, Some(0), "{order:?}");
            }
        }
        assert_eq!(std::fs::read_to_string(place.project.join("both")).unwrap(), "kept");
    });
}

#[test]
fn a_rule_whose_path_became_a_link_is_refused() {
    as_root_and_user("refusal::a_rule_whose_path_became_a_link_is_refused", || {
        let place = Place::new("link");
        let link = place.project.join("link");
        std::os::unix::fs::symlink(&place.outside, &link).unwrap();
        for (path, access) in [
            (link.clone(), Access::Write),
            (link.clone(), Access::Protected),
            (link.join("deeper"), Access::Write),
        ] {
            let mut spec = place.spec("true");
            spec.files.rules.push(rule(&path, access));
            assert!(run(&spec).is_err(), "{access:?} {}", path.display());
        }
    });
}

#[test]
fn paths_that_do_not_exist_are_no_error() {
    as_root_and_user("refusal::paths_that_do_not_exist_are_no_error", || {
        let place = Place::new("absent");
        let mut spec = place.spec("echo x > f");
        for access in [Access::Write, Access::Read, Access::ReadOnly, Access::None] {
            spec.files.rules.push(rule(&place.outside.join("absent"), access));
        }
        assert_eq!(run(&spec).unwrap().exit.code, Some(0));
        assert!(!place.outside.join("absent").exists());
    });
}

#[test]
fn the_hosts_network_is_reported() {
    let place = Place::new("host-network");
    let mut spec = place.spec("true");
    spec.network = Network::Host;
    spec.required.insert(Protection::Network);
    assert!(matches!(run(&spec), Err(Error::Unenforceable { .. })));
}

#[test]
fn the_machine_is_probed_by_doing() {
    as_root_and_user("refusal::the_machine_is_probed_by_doing", || {
        let host = Host::probe_with(launcher());
        let failing: Vec<_> = host.probes.iter().filter(|probe| !probe.works).collect();
        assert!(failing.is_empty(), "{failing:?}");
        // Each act is possible without confinement, but for what may be taken from whoever runs the tests.
        let untried: Vec<_> =
            host.probes.iter().filter(|it| it.detail.contains("outside either")).collect();
        let taken = [
            "gain rights from a set-id program",
            "have files without a limit",
            "connect to a server of the host",
        ];
        assert!(
            untried.iter().all(|it| taken.iter().any(|name| it.name.ends_with(name))),
            "{untried:?}"
        );
        assert!(host.enforced.holds(Protection::WriteOutside) && !host.kernel.is_empty());
        let host = Host::probe_with(std::path::Path::new("/nonexistent/launcher"));
        assert!(!host.enforced.holds(Protection::WriteOutside));
    });
}

/// Calls that the start of a run is made of, each with the step that a refusal names.
fn steps() -> Vec<(&'static str, Refused)> {
    let prctl = |option: libc::c_int| Refused::call(libc::SYS_prctl).with(0, option.unsigned_abs());
    let ioctl = |command: libc::c_ulong| {
        Refused::call(libc::SYS_ioctl).with(1, u32::try_from(command).unwrap())
    };
    let listener = u32::try_from(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER).unwrap();
    vec![
        ("subreaper", prctl(libc::PR_SET_CHILD_SUBREAPER)),
        ("parent death signal", prctl(libc::PR_SET_PDEATHSIG)),
        ("dumpable", prctl(libc::PR_SET_DUMPABLE)),
        ("mounts", Refused::call(libc::SYS_mount)),
        ("mounts", Refused::call(libc::SYS_open_tree)),
        ("mounts", Refused::call(libc::SYS_mount_setattr)),
        ("mounts", Refused::call(libc::SYS_fsmount)),
        ("mounts", Refused::call(libc::SYS_move_mount)),
        ("mounts", Refused::call(libc::SYS_pivot_root)),
        ("mounts", Refused::call(libc::SYS_umount2)),
        ("secure bits", prctl(libc::PR_SET_SECUREBITS)),
        ("ambient set", prctl(libc::PR_CAP_AMBIENT)),
        ("bounding set", prctl(libc::PR_CAPBSET_DROP)),
        ("loopback", ioctl(libc::SIOCSIFFLAGS)),
        ("capabilities", Refused::call(libc::SYS_capset)),
        ("no new privileges", prctl(libc::PR_SET_NO_NEW_PRIVS)),
        ("Landlock", Refused::call(libc::SYS_landlock_add_rule)),
        ("Landlock", Refused::call(libc::SYS_landlock_restrict_self)),
        ("limits", Refused::call(libc::SYS_prlimit64)),
        ("mounts", Refused::call(libc::SYS_fchdir)),
        ("descriptors", Refused::call(libc::SYS_close_range).with(2, libc::CLOSE_RANGE_CLOEXEC)),
        ("system-call filter", Refused::call(libc::SYS_seccomp).with_bits(1, listener)),
        ("own filter", Refused::call(libc::SYS_seccomp).with(1, 0)),
        ("terminal", ioctl(libc::TIOCGPTPEER)),
        ("controlling terminal", ioctl(libc::TIOCSCTTY)),
    ]
}

/// A hardened kernel may say no at any step: then it is one clear refusal, and nothing has run.
#[test]
fn a_step_that_fails_is_named_and_nothing_runs() {
    as_root_and_user("refusal::a_step_that_fails_is_named_and_nothing_runs", || {
        let place = Place::new("steps");
        let spec = |has_terminal: bool| {
            let mut spec = place.spec("touch ran");
            spec.terminal = has_terminal.then_some(Window { rows: 24, columns: 80 });
            spec.files.rules.push(rule(&place.outside, Access::None));
            spec
        };
        for has_terminal in [false, true] {
            assert_eq!(run(&spec(has_terminal)).unwrap().exit.code, Some(0));
            fs::remove_file(place.project.join("ran")).unwrap();
        }
        for (name, refused) in steps() {
            match run_without(std::slice::from_ref(&refused), &spec(name.ends_with("terminal"))) {
                Err(Error::Step { step, .. }) => assert_eq!(step, name, "{refused:?}"),
                Err(Error::Terminal { .. }) => assert_eq!("terminal", name),
                other => panic!("{name}, {refused:?}: {other:?}"),
            }
            assert!(!place.project.join("ran").exists(), "{name}");
        }
    });
}
