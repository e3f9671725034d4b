//! Names that do not exist and must not come into being.

use std::fs;

use stockade_spec::{Access, Protection, State};
use stockade_tests::skip;

use crate::place::{Place, as_root_and_user, rule, run, told, with_covered_proc};

#[test]
fn a_guarded_name_cannot_come_into_being() {
    as_root_and_user("guard::a_guarded_name_cannot_come_into_being", || {
        let place = Place::new("guarded");
        let build = || {
            let _ = fs::remove_dir_all(&place.project);
            fs::create_dir_all(place.project.join("d/deep")).unwrap();
            fs::write(place.project.join("f"), "f").unwrap();
        };
        build();
        for script in [
            "echo x > .guarded",
            "echo x > d/deep/.guarded",
            "echo x > d/deep/.GUARDED",
            "echo x > $P/d/../.guarded",
            "cd d && echo x > ../.guarded",
            "mkdir .guarded",
            "mkdir .guarded/",
            "mkfifo .guarded",
            "ln -s f .guarded",
            "ln f .guarded",
            "mv f .guarded",
            "mv -T d .guarded",
            "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Listen => 1, Local => \".guarded\") or exit 1'",
            "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Listen => 1, Local => \"$ENV{P}/d/.Guarded\") or exit 1'",
            "ln -s .guarded l && echo x > l",
            "exec 3<d && echo x > /proc/self/fd/3/.guarded",
            "exec 3<d && echo x > /dev/fd/3/.guarded",
            "echo x > /proc/self/cwd/.guarded",
            "echo x > /proc/thread-self/root$P/.guarded",
            "perl -e 'open F, \"+>\", undef; use Fcntl; sysopen(F, \".guarded\", O_CREAT|O_RDONLY) or exit 1'",
            // O_TMPFILE, then a name for it
            "perl -e 'sysopen(F, \".\", 020200002, 0600) or exit 2; $n = \"/proc/self/fd/\".fileno(F); \
             syscall(265, -100, $n, -100, $g = \".guarded\", 0x400) == 0 or exit 1'",
            // renameat2 with exchange
            "perl -e 'syscall(316, -100, $a = \"f\", -100, $b = \"f\", 2); mkdir \"x\"; \
             rename(\"x\", \".guarded\") or exit 1'",
        ] {
            place.stops(script, build);
            let names = ["", "d", "d/deep"].map(|at| place.project.join(at).join(".guarded"));
            assert!(names.iter().all(|name| fs::symlink_metadata(name).is_err()), "{script}");
            build();
        }
    });
}

#[test]
fn a_guarded_file_that_exists_cannot_be_written() {
    as_root_and_user("guard::a_guarded_file_that_exists_cannot_be_written", || {
        let place = Place::new("existing");
        fs::create_dir(place.project.join("d")).unwrap();
        let file = place.project.join("d/.guarded");
        let build = || {
            let _ = fs::remove_file(place.project.join("l"));
            fs::write(&file, "kept").unwrap();
        };
        build();
        for script in [
            "echo x > d/.guarded",
            "echo x >> d/.guarded",
            "exec 3<d/.guarded && echo x > /proc/self/fd/3",
            "ln d/.guarded l && echo x > l",
            "ln -s d/.guarded l && echo x > l",
            "truncate -s 1 d/.guarded",
            "perl -e 'truncate(\"d/.guarded\", 0) or exit 1'",
            "echo x > f && mv f d/.guarded",
            "rm d/.guarded",
            "perl -e 'unlink(\"d/.guarded\") or exit 1'",
            "mv d/.guarded l",
            "perl -e 'syscall(316, -100, $a = \"d/.guarded\", -100, $b = \"l\", 0) == 0 or exit 1'",
        ] {
            place.stops(script, build);
            assert_eq!(fs::read_to_string(&file).unwrap(), "kept", "{script}");
        }
    });
}

#[test]
fn a_protected_path_that_does_not_exist_cannot_be_made() {
    as_root_and_user("guard::a_protected_path_that_does_not_exist_cannot_be_made", || {
        let place = Place::new("absent");
        let wanted = place.project.join(".agent/settings.json");
        let rules =
            [rule(&wanted, Access::Protected), rule(&place.project.join(".env"), Access::None)];
        let undo = || {
            for entry in fs::read_dir(&place.project).unwrap() {
                let path = entry.unwrap().path();
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            }
        };
        for script in [
            "mkdir .agent && echo x > .agent/settings.json",
            "mkdir a && echo x > a/settings.json && mv a .agent",
            "mkdir a && echo x > a/settings.json && ln -s a .agent",
            "mkdir a .agent && echo x > a/settings.json && rmdir .agent && mv -T a .agent",
            "mkdir .agent && echo x > f && mv f .agent/settings.json",
            "echo x > .env",
            "echo x > f && ln f .env",
        ] {
            place.stops_with(&rules, script, undo);
            assert!(!wanted.exists() && !place.project.join(".env").exists(), "{script}");
            undo();
        }
        let mut spec = place.spec("mkdir .agent; echo x > .agent/other && rm -r .agent");
        spec.files.rules.extend(rules);
        let ran = run(&spec).unwrap();
        assert_eq!(ran.exit.code, Some(0), "{}", ran.text);
        assert!(ran.enforced.holds(Protection::Protected), "{:?}", ran.enforced);
        let left = fs::read_dir(&place.project).unwrap().count();
        assert_eq!(left, 0, "nothing is left behind");
    });
}

#[test]
fn a_refusal_is_reported_with_path_and_rule() {
    let place = Place::new("report");
    let ran = run(&place.spec("for i in 1 2 3; do echo x > .guarded; done")).unwrap();
    let seen: Vec<_> = ran
        .violations
        .iter()
        .map(|it| (&*it.kind, &*it.call, it.object.as_str(), &*it.rule, it.count))
        .collect();
    let path = place.project.join(".guarded");
    let rule = "builtin: guarded name `.guarded`";
    assert_eq!(seen, [("write", "open", path.to_str().unwrap(), rule, 3)]);
}

/// One thread changes the path while others make the call: it never gets through.
#[test]
fn a_path_that_changes_meanwhile_does_not_get_through() {
    as_root_and_user("guard::a_path_that_changes_meanwhile_does_not_get_through", || {
        let place = Place::new("race");
        if std::process::Command::new("gcc").arg("--version").output().is_err() {
            skip(
                "guard::a_path_that_changes_meanwhile_does_not_get_through",
                "there is no C compiler",
            );
            return;
        }
        let source = r#"
            #include <fcntl.h>
            #include <pthread.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <unistd.h>
            static volatile char path[32] = ".xuarded";
            static volatile int done;
            static void *change(void *unused) {
                while (!done) { path[1] = 'g'; path[1] = 'x'; }
                return unused;
            }
            int main(int count, char **arguments) {
                pthread_t thread;
                pthread_create(&thread, 0, change, 0);
                int made = 0;
                for (int i = 0; i < atoi(arguments[1]); i++) {
                    int fd = open((char *)path, O_CREAT | O_WRONLY, 0600);
                    if (fd >= 0) { made++; close(fd); }
                    unlink(".xuarded");
                    if (access(".guarded", F_OK) == 0) { done = 2; break; }
                }
                int result = done == 2;
                done = 1;
                pthread_join(thread, 0);
                printf("%d\n", made > 0);
                return result;
            }"#;
        fs::write(place.project.join("race.c"), source).unwrap();
        let built = place.plain("gcc -O1 -pthread -o race race.c");
        assert_eq!(built.code, Some(0), "{}", built.text);
        let outside = place.plain("./race 1000000");
        assert_eq!(outside.code, Some(1), "unconfined, the name is made");
        fs::remove_file(place.project.join(".guarded")).unwrap();
        let inside = place.confined("./race 3000");
        assert_eq!((inside.code, inside.text.as_str()), (Some(0), "1\n"));
    });
}

#[test]
fn without_a_proc_of_its_own_protected_is_only_partial() {
    with_covered_proc("guard::without_a_proc_of_its_own_protected_is_only_partial", || {
        let place = Place::new("partial");
        let ran = run(&place.spec("true")).unwrap();
        let open = "protected and guarded names that do not exist yet can be made, since nothing can watch over it \
                    without a `/proc`: the kernel refuses a new `/proc`: Operation not permitted (os error 1)";
        let state = ran.enforced.states.get(&Protection::Protected);
        assert_eq!(state, Some(&State::Partial(open.to_owned())));
    });
}

#[test]
fn a_caller_that_dies_in_a_blocked_open_leaves_nothing() {
    as_root_and_user("guard::a_caller_that_dies_in_a_blocked_open_leaves_nothing", || {
        let place = Place::new("blocked");
        place.works(
            // Workers have the name of pid 1.
            "mkfifo p; (echo x > p) & sleep 0.2; kill -9 $!; wait $! 2>/dev/null; name=$(cat /proc/1/comm); \
             for i in $(seq 100); do n=$(grep -lx \"$name\" /proc/[0-9]*/comm 2>/dev/null | wc -l); \
             [ $n = 1 ] && break; sleep 0.1; done; \
             [ $n = 1 ] && { timeout 1 bash -c 'cat < p > /dev/null'; [ $? = 124 ]; }",
        );
    });
}

#[test]
fn a_name_that_some_file_system_folds_to_a_guarded_one_is_guarded() {
    as_root_and_user(
        "guard::a_name_that_some_file_system_folds_to_a_guarded_one_is_guarded",
        || {
            let place = Place::new("folded");
            for name in [".gu\u{200D}arded", ".guarded.", ".guarded "] {
                let undo = || drop(fs::remove_file(place.project.join(name)));
                place.stops(&format!("echo x > '{name}'"), undo);
            }
            let mut spec =
                place.spec("echo x > 'hoo\u{212A}s' && echo x > 'notes.' && echo x > 'gu\u{AD}'");
            spec.files.guarded_names = vec!["hooks".into()];
            assert_ne!(run(&spec).unwrap().exit.code, Some(0));
            spec.files.guarded_names = vec![".guarded".into()];
            assert_eq!(run(&spec).unwrap().exit.code, Some(0));
        },
    );
}

#[test]
fn ordinary_names_are_removed_and_sockets_tell_their_address() {
    as_root_and_user("guard::ordinary_names_are_removed_and_sockets_tell_their_address", || {
        let place = Place::new("removed");
        place.works(
            "mkdir -p a/b && echo x > a/b/c && ln -s c a/b/l && rm a/b/l && test -f a/b/c && rm -r a && \
             mkdir e && rmdir e/ && ! rmdir gone 2>/dev/null && echo y > f && ! rmdir f 2>/dev/null && \
             mkdir d && ! perl -e 'unlink(\"d\") or exit 1' && ! rmdir d/. 2>/dev/null && rmdir d && \
             mkdir -p s && perl -MIO::Socket::UNIX -e '
               for my $path (\"own\", \"s/own\", \"./two\", \"$ENV{P}/three\") {
                 my $s = IO::Socket::UNIX->new(Listen => 1, Local => $path) or die $!;
                 $s->hostpath eq $path or die $s->hostpath; -S $path or die;
                 IO::Socket::UNIX->new(Listen => 1, Local => $path) and die; $!{EADDRINUSE} or die $! }'",
        );
        let mut spec = place.spec(
            "cd s && rm own && umask 077 && perl -MIO::Socket::UNIX -e \
            'IO::Socket::UNIX->new(Listen => 1, Local => \"own\") or die' && stat -c %a own",
        );
        spec.program.cwd = place.project.clone();
        assert_eq!(run(&spec).unwrap().text, "700\n");
    });
}

#[test]
fn a_write_outside_is_reported_and_one_that_the_mode_forbids_is_not() {
    as_root_and_user(
        "guard::a_write_outside_is_reported_and_one_that_the_mode_forbids_is_not",
        || {
            let place = Place::new("outside-told");
            let file = place.outside.join("file");
            fs::write(&file, "kept").unwrap();
            let ran =
                run(&place.spec("echo x > $O/new; echo x > $O/file; rm $O/file; mkdir $O/gone/x"))
                    .unwrap();
            let rule = "builtin: outside of the writable directories";
            let (new, file) = (place.outside.join("new"), file.to_str().unwrap());
            let expected = [
                ("write", "open", new.to_str().unwrap(), rule),
                ("write", "open", file, rule),
                ("write", "unlink", file, rule),
            ];
            assert_eq!(told(&ran), expected);
            let first = &ran.violations[0];
            assert_eq!((first.errno, &*first.program, &*first.source), (30, "bash", "supervisor"));
            assert!(first.pid > 1);
            if !crate::place::is_root() {
                let ran = run(&place.spec("echo x > /etc/hostname; rm /etc/hostname")).unwrap();
                assert_eq!(told(&ran), [], "the mode of the file forbids it to everybody but root");
            }
        },
    );
}

#[test]
fn a_second_name_of_a_guarded_file_is_guarded() {
    as_root_and_user("guard::a_second_name_of_a_guarded_file_is_guarded", || {
        let place = Place::new("second");
        let guarded = place.project.join(".mcp.json");
        let reset = || {
            std::fs::write(&guarded, "old\n").unwrap();
            let _ = std::fs::remove_file(place.project.join("keep"));
            std::fs::hard_link(&guarded, place.project.join("keep")).unwrap();
        };
        for script in
            ["echo x > keep", "echo x >> keep", "truncate -s 0 keep", "exec 3<> keep && echo x >&3"]
        {
            reset();
            place.stops_with(&[rule(&guarded, Access::Protected)], script, reset);
            assert_eq!(std::fs::read_to_string(&guarded).unwrap(), "old\n", "{script}");
        }
        place.works("echo x > a && ln a b && echo y >> b && rm keep");
    });
}
