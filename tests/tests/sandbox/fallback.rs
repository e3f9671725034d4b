//! Without namespaces: Landlock, the filter and limits, and a report that says what is open.

use std::fs;

use stockade_sandbox::{Access, Error, Fallback, Mechanism, Protection, SandboxSpec, State};

use crate::place::{Place, as_root_and_user, rule, run};

/// A spec for a machine without user namespaces.
fn without_namespaces(place: &Place, script: &str) -> SandboxSpec {
    let mut spec = place.spec(script);
    spec.hide.insert(Mechanism::UserNamespace);
    spec.fallback = Fallback::Static;
    let own = place.base.join("tmp");
    fs::create_dir_all(&own).unwrap();
    spec.files.private_tmp = Some(own);
    spec
}

#[test]
fn what_can_be_enforced_without_namespaces_is() {
    as_root_and_user("fallback::what_can_be_enforced_without_namespaces_is", || {
        let place = Place::new("static");
        let denied = place.outside.join("denied");
        let undo = || {
            let _ = fs::remove_dir_all(&place.outside);
            fs::create_dir_all(&denied).unwrap();
            fs::write(denied.join("secret"), "secret").unwrap();
            fs::write(place.outside.join("file"), "kept").unwrap();
        };
        undo();
        let mut victim = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = victim.id();
        for script in [
            "echo x > $O/new".to_owned(),
            "echo x > $O/file".to_owned(),
            "truncate -s 0 $O/file".to_owned(),
            "perl -e 'truncate(\"$ENV{O}/file\", 0) or exit 1'".to_owned(),
            "rm $O/file".to_owned(),
            "mv $O/file f".to_owned(),
            "mkdir $O/d".to_owned(),
            "ln $O/file l && echo x > l".to_owned(),
            "cat $O/denied/secret".to_owned(),
            "ls $O/denied".to_owned(),
            "ln -s $O/denied l && cat l/secret".to_owned(),
            "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) or exit 1'".to_owned(),
            "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 1'".to_owned(),
            "ipcmk -M 4096".to_owned(),
            format!("kill -0 {pid}"),
            format!("cat /proc/{pid}/environ"),
            format!("perl -e 'syscall(101, 0x4206, {pid}, 0, 0) == 0 or exit 1'"),
            "unshare -Ur true".to_owned(),
        ] {
            let outside = place.plain(&script);
            assert_eq!(outside.code, Some(0), "must work unconfined: {script} {}", outside.text);
            let _ = fs::remove_file(place.project.join("l"));
            let _ = fs::remove_file(place.project.join("f"));
            undo();
            let mut spec = without_namespaces(&place, &script);
            spec.files.rules.push(rule(&denied, Access::None));
            let inside = run(&spec).unwrap();
            assert_ne!(inside.exit.code, Some(0), "must fail confined: {script} {}", inside.text);
            assert_eq!(fs::read_to_string(place.outside.join("file")).unwrap(), "kept", "{script}");
            let _ = fs::remove_file(place.project.join("l"));
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
    });
}

#[test]
fn ordinary_work_goes_on_without_namespaces() {
    as_root_and_user("fallback::ordinary_work_goes_on_without_namespaces", || {
        let place = Place::new("static-work");
        let script = "set -e; mkdir -p a/b; echo x > a/b/c; mv a/b/c a/d; ln a/d a/e; ln -s d a/f; cat a/f; rm -r a
             echo y > $TMPDIR/y; cat $TMPDIR/y; f=$(mktemp); rm $f; echo z > /dev/null; printf q | cat; ls /proc/self/fd | wc -l
             perl -e 'use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; defined fork or die'; ulimit -c; exit 7";
        let ran = run(&without_namespaces(&place, script)).unwrap();
        assert_eq!((ran.exit.code, &*ran.text), (Some(7), "x\ny\nq4\n0\n"));
    });
}

#[test]
fn the_report_says_what_is_open_without_namespaces() {
    as_root_and_user("fallback::the_report_says_what_is_open_without_namespaces", || {
        let place = Place::new("static-report");
        let ran = run(&without_namespaces(&place, "true")).unwrap();
        use Protection::{
            Env, Fds, HiddenNames, Ipc, KernelSettings, Keyring, Limits, Loopback, MetadataOutside,
            Network, NoRead, Privilege, Processes, Protected, Survivors, Syscalls, Tty,
            UnixSockets, WriteOutside,
        };
        for holds in [
            WriteOutside,
            NoRead,
            Network,
            UnixSockets,
            Ipc,
            Keyring,
            KernelSettings,
            Privilege,
            Syscalls,
            Env,
            Fds,
            Tty,
        ] {
            assert!(ran.enforced.holds(holds), "{holds:?}: {:?}", ran.enforced.states.get(&holds));
        }
        for open in [MetadataOutside, Protected, HiddenNames, Loopback] {
            let state = ran.enforced.states.get(&open);
            assert!(matches!(state, Some(State::Missing(_))), "{open:?}: {state:?}");
        }
        for open in [Processes, Limits, Survivors] {
            let state = ran.enforced.states.get(&open);
            assert!(matches!(state, Some(State::Partial(_))), "{open:?}: {state:?}");
        }
        // What is required and not there stops the start here as well.
        let mut spec = without_namespaces(&place, "touch ran");
        spec.required.insert(Protection::Protected);
        assert!(matches!(run(&spec), Err(Error::Unenforceable { protection: Protected, .. })));
        spec.required.clear();
        spec.hide.insert(Mechanism::Landlock);
        assert!(matches!(run(&spec), Err(Error::Unenforceable { protection: WriteOutside, .. })));
        assert!(!place.project.join("ran").exists());
    });
}

#[test]
fn a_namespace_that_fails_half_way_leads_to_the_fallback_only_when_it_may() {
    as_root_and_user(
        "fallback::a_namespace_that_fails_half_way_leads_to_the_fallback_only_when_it_may",
        || {
            let place = Place::new("half");
            for step in ["/proc/self/uid_map", "mounts: attach", "loopback"] {
                let mut spec = place.spec("touch ran");
                spec.fail_at = step.to_owned();
                assert!(run(&spec).is_err(), "{step}");
                assert!(!place.project.join("ran").exists(), "{step}");
                spec.fallback = Fallback::Static;
                let ran = run(&spec).unwrap();
                assert!(!ran.enforced.holds(Protection::Protected), "{step}");
                fs::remove_file(place.project.join("ran")).unwrap();
            }
        },
    );
}

/// Each level of Landlock is used for what it can, with namespaces and without.
#[test]
fn every_level_of_landlock_is_used_for_what_it_can() {
    as_root_and_user("fallback::every_level_of_landlock_is_used_for_what_it_can", || {
        let place = Place::new("levels");
        fs::write(place.outside.join("file"), "kept").unwrap();
        let script = "echo x > $O/file; truncate -s 0 $O/file; perl -e 'truncate(\"$ENV{O}/file\", 0)'; rm $O/file; \
             mkdir -p a b; echo x > a/f; mv a/f b/f && echo moved";
        let own = place.project.clone();
        for abi in 0..=7 {
            for namespaces in [true, false] {
                let mut spec = match namespaces {
                    true => place.spec(script),
                    false => without_namespaces(&place, script),
                };
                spec.landlock_abi = abi;
                if abi == 0 && !namespaces {
                    assert!(run(&spec).is_err());
                    continue;
                }
                let ran = run(&spec).unwrap();
                let kept = fs::read_to_string(place.outside.join("file")).unwrap();
                assert_eq!(kept, "kept", "ABI {abi}, namespaces {namespaces}");
                assert!(ran.enforced.holds(Protection::WriteOutside), "ABI {abi}");
                // ABI 1 cannot let a file move to another directory; `mv` copies it then.
                assert!(ran.text.ends_with("moved\n"), "ABI {abi} {namespaces}: {}", ran.text);
                let named = format!("Landlock ABI {abi}");
                let State::Enforced(layers) = &ran.enforced.states[&Protection::WriteOutside]
                else {
                    panic!()
                };
                assert_eq!(layers.contains(&named), abi > 0, "{layers:?}");
                if !namespaces {
                    let State::Partial(open) = &ran.enforced.states[&Protection::Processes] else {
                        panic!()
                    };
                    assert_eq!(open.ends_with("neither signalled nor traced"), abi >= 6, "{open}");
                }
                for name in ["a", "b"] {
                    fs::remove_dir_all(own.join(name)).unwrap();
                }
            }
        }
    });
}
