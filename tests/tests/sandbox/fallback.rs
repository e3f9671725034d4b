//! Without namespaces: Landlock, the filter and limits, and a report that says what is open.

use std::fs;

use stockade_spec::{Access, Error, Fallback, Protection, SandboxSpec, State};
use stockade_tests::lacking::{Refused, landlock, notifications, user_namespaces, without};

use crate::place::{Place, Ran, as_root_and_user, on_older_kernel, rule, run_by, run_without};

/// A spec for a machine that may be without user namespaces.
fn without_namespaces(place: &Place, script: &str) -> SandboxSpec {
    let mut spec = place.spec(script);
    spec.fallback = Fallback::Static;
    let own = place.base.join("tmp");
    fs::create_dir_all(&own).unwrap();
    spec.files.private_tmp = Some(own);
    spec
}

/// Runs `spec` where there are no user namespaces.
fn run_static(spec: &SandboxSpec) -> Result<Ran, Error> {
    run_without(&user_namespaces(), spec)
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
            "chmod 640 $O/file".to_owned(),
            "touch -d 2001-01-01 $O/file".to_owned(),
            "echo x > /proc/self/root$O/file".to_owned(),
            format!("echo x > /proc/{pid}/root$O/file"),
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
            let inside = run_static(&spec).unwrap();
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
        let ran = run_static(&without_namespaces(&place, script)).unwrap();
        assert_eq!((ran.exit.code, &*ran.text), (Some(7), "x\ny\nq4\n0\n"));
    });
}

/// Rules against writing hold in a writable directory, and leave the directory around them writable.
#[test]
fn what_may_not_be_written_is_kept_and_its_directory_stays_writable() {
    as_root_and_user(
        "fallback::what_may_not_be_written_is_kept_and_its_directory_stays_writable",
        || {
            let place = Place::new("static-kept");
            let fill = || {
                let _ = fs::remove_dir_all(&place.project);
                fs::create_dir_all(place.project.join("conf.d")).unwrap();
                for (name, text) in [("config", "kept"), ("conf.d/hook", "kept"), ("other", "x")] {
                    fs::write(place.project.join(name), text).unwrap();
                }
                fs::hard_link(place.project.join("config"), place.project.join("twin")).unwrap();
            };
            let spec = |script: &str| {
                let mut spec = without_namespaces(&place, script);
                let (config, hook) = (place.project.join("config"), "conf.d/hook");
                spec.files.rules.push(rule(&config, Access::ReadOnly));
                spec.files.rules.push(rule(&place.project.join(hook), Access::Protected));
                spec
            };
            for script in [
                "echo x > config",
                "echo x >> config",
                "truncate -s 0 config",
                "perl -e 'truncate(\"config\", 0) or exit 1'",
                "rm config",
                "mv config gone",
                "mv other config",
                "cp --remove-destination other config",
                "ln config l && echo x > l",
                "ln -s config l && echo x > l",
                "echo x > twin",
                "echo x > /proc/self/cwd/config",
                "echo x > /proc/$$/root$P/config",
                "exec 7< config && echo x > /proc/self/fd/7",
                "sleep 9 > /dev/null 2>&1 & echo x > /proc/$!/cwd/config; r=$?; kill $!; exit $r",
                "mv conf.d away",
                "echo x > conf.d/hook",
                "touch .guarded",
                "chmod 600 config",
                "touch -d 2001-01-01 conf.d/hook",
            ] {
                fill();
                let outside = place.plain(script);
                assert_eq!(
                    outside.code,
                    Some(0),
                    "must work unconfined: {script} {}",
                    outside.text
                );
                fill();
                let inside = run_static(&spec(script)).unwrap();
                assert_ne!(inside.exit.code, Some(0), "must fail: {script} {}", inside.text);
                for name in ["config", "conf.d/hook"] {
                    let text = fs::read_to_string(place.project.join(name)).unwrap();
                    assert_eq!(text, "kept", "{script}");
                }
            }
            fill();
            let script = "set -e; cat config; echo new > new; cat new; mv new renamed; mkdir d; echo y > conf.d/y; rm other; ls";
            let ran = run_static(&spec(script)).unwrap();
            let all = "keptnew\nconf.d\nconfig\nd\nrenamed\ntwin\n";
            assert_eq!((ran.exit.code, &*ran.text), (Some(0), all));
        },
    );
}

/// Semaphores and shared memory have names in a directory of the run's own, and those of the host stay closed.
#[test]
fn named_semaphores_work_and_are_the_runs_own() {
    as_root_and_user("fallback::named_semaphores_work_and_are_the_runs_own", || {
        let place = Place::new("static-shm");
        let name = format!("stockade-test-{}", std::process::id());
        let of_the_host = std::path::Path::new("/dev/shm").join(&name);
        let script = format!(
            "import multiprocessing as m, os\n\
             from multiprocessing import shared_memory\n\
             def add(lock, value):\n\
             \x20with lock: value.value += 1\n\
             lock, value = m.Lock(), m.Value('i', 0)\n\
             all = [m.Process(target=add, args=(lock, value)) for _ in range(3)]\n\
             [it.start() for it in all]; [it.join() for it in all]\n\
             own = shared_memory.SharedMemory('own-{name}', create=True, size=64)\n\
             own.buf[0] = 7; again = shared_memory.SharedMemory('own-{name}')\n\
             print(value.value, again.buf[0]); again.close(); own.close(); own.unlink()\n\
             open('/dev/shm/{name}', 'r+').write('changed')\n"
        );
        fs::write(place.project.join("x.py"), script).unwrap();
        fs::write(&of_the_host, "of the host").unwrap();
        let outside = place.plain("python3 x.py");
        assert_eq!((outside.code, &*outside.text), (Some(0), "3 7\n"));
        assert_eq!(fs::read_to_string(&of_the_host).unwrap(), "changedhost");
        let inside = run_static(&without_namespaces(&place, "python3 x.py")).unwrap();
        assert!(inside.text.starts_with("3 7\n"), "{}", inside.text);
        assert!(inside.text.contains("FileNotFoundError"), "{}", inside.text);
        assert_eq!(fs::read_to_string(&of_the_host).unwrap(), "changedhost");
        fs::remove_file(&of_the_host).unwrap();
    });
}

/// A directory with denied files can be listed, and one with a denied directory in it cannot: listing is granted for all
/// beneath.
#[test]
fn directories_with_denied_files_can_be_listed() {
    as_root_and_user("fallback::directories_with_denied_files_can_be_listed", || {
        let place = Place::new("static-list");
        for (above, denied) in [("etc", "shadow"), ("home", "keys")] {
            fs::create_dir_all(place.outside.join(above)).unwrap();
            fs::write(place.outside.join(above).join("plain"), "plain").unwrap();
            match denied {
                "keys" => fs::create_dir(place.outside.join("home/keys")).unwrap(),
                name => fs::write(place.outside.join(above).join(name), "secret").unwrap(),
            }
        }
        let listed = |script: &str| {
            assert_eq!(place.plain(script).code, Some(0), "must work unconfined: {script}");
            let mut spec = without_namespaces(&place, script);
            for path in ["etc/shadow", "home/keys"] {
                spec.files.rules.push(rule(&place.outside.join(path), Access::None));
            }
            let ran = run_static(&spec).unwrap();
            (ran.exit.code == Some(0), ran.text)
        };
        assert_eq!(listed("ls $O/etc"), (true, "plain\nshadow\n".to_owned()));
        assert_eq!(listed("cat $O/etc/plain $O/home/plain"), (true, "plainplain".to_owned()));
        for closed in ["cat $O/etc/shadow", "ls $O/home", "ls $O/home/keys"] {
            assert!(!listed(closed).0, "{closed}");
        }
    });
}

#[test]
fn the_report_says_what_is_open_without_namespaces() {
    as_root_and_user("fallback::the_report_says_what_is_open_without_namespaces", || {
        let place = Place::new("static-report");
        let ran = run_static(&without_namespaces(&place, "true")).unwrap();
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
        for open in [HiddenNames, Loopback] {
            let state = ran.enforced.states.get(&open);
            assert!(matches!(state, Some(State::Missing(_))), "{open:?}: {state:?}");
        }
        for open in [MetadataOutside, Protected, Processes, Limits, Survivors] {
            let state = ran.enforced.states.get(&open);
            assert!(matches!(state, Some(State::Partial(_))), "{open:?}: {state:?}");
        }
        // Without a supervisor nobody keeps names and modes.
        let lacking = [user_namespaces(), vec![notifications()]].concat();
        let ran = run_without(&lacking, &without_namespaces(&place, "true")).unwrap();
        for open in [MetadataOutside, Protected] {
            let state = ran.enforced.states.get(&open);
            assert!(matches!(state, Some(State::Missing(_))), "{open:?}: {state:?}");
        }
        // A protection that is required and missing stops the start here as well.
        let mut spec = without_namespaces(&place, "touch ran");
        spec.required.insert(Protection::Protected);
        assert!(matches!(
            run_static(&spec),
            Err(Error::Unenforceable { protection: Protected, .. })
        ));
        spec.required.clear();
        let lacking = [user_namespaces(), vec![landlock()]].concat();
        let ran = run_without(&lacking, &spec);
        assert!(matches!(ran, Err(Error::Unenforceable { protection: WriteOutside, .. })));
        assert!(!place.project.join("ran").exists());
    });
}

#[test]
fn a_namespace_that_fails_half_way_leads_to_the_fallback_only_when_it_may() {
    as_root_and_user(
        "fallback::a_namespace_that_fails_half_way_leads_to_the_fallback_only_when_it_may",
        || {
            let place = Place::new("half");
            let flags = u32::try_from(libc::SIOCSIFFLAGS).unwrap();
            for step in [
                Refused::call(libc::SYS_mount),
                Refused::call(libc::SYS_move_mount),
                Refused::call(libc::SYS_ioctl).with(1, flags),
            ] {
                let mut spec = place.spec("touch ran");
                let refused = [step.clone()];
                assert!(run_without(&refused, &spec).is_err(), "{step:?}");
                assert!(!place.project.join("ran").exists(), "{step:?}");
                spec.fallback = Fallback::Static;
                let ran = run_without(&refused, &spec).unwrap();
                assert!(!ran.enforced.holds(Protection::Protected), "{step:?}");
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
                let spec = match namespaces {
                    true => place.spec(script),
                    false => without_namespaces(&place, script),
                };
                let mut lacking = if namespaces { Vec::new() } else { user_namespaces() };
                lacking.extend((abi == 0).then(landlock));
                let launcher = match abi {
                    0 => crate::place::launcher().to_path_buf(),
                    _ => on_older_kernel(&format!("landlock-abi-{abi}")),
                };
                let ran = without(&lacking, || run_by(&launcher, &spec));
                if abi == 0 && !namespaces {
                    assert!(ran.is_err());
                    continue;
                }
                let ran = ran.unwrap();
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
