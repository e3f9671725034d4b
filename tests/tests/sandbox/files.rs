//! Files that can be written and read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use stockade_spec::Access;

use crate::place::{Place, as_root_and_user, rule};

#[test]
fn nothing_outside_can_be_written() {
    as_root_and_user("files::nothing_outside_can_be_written", || {
        let place = Place::new("write-outside");
        let target = place.outside.join("file");
        let undo = || {
            let _ = fs::remove_file(&target);
            fs::write(place.outside.join("old"), "old").unwrap();
        };
        undo();
        symlink(&place.outside, place.project.join("link")).unwrap();
        symlink(&target, place.project.join("dangling")).unwrap();
        for script in [
            "echo x > $O/file",
            "echo x > link/file",
            "echo x > dangling",
            "echo x > $P/../outside/file",
            "echo x > /proc/self/root$O/file",
            "exec 3<$O; echo x > /proc/self/fd/3/file",
            "echo x >> $O/old",
            "rm $O/old",
            "mv $O/old $P/",
            "mkdir $O/file && rmdir $O/file",
            "mkfifo $O/file",
            "ln -s x $O/file",
            "truncate -s 0 $O/old",
            "dd if=/dev/zero of=$O/old count=1",
        ] {
            place.stops(script, undo);
            assert!(!target.exists(), "{script}");
            assert_eq!(fs::read_to_string(place.outside.join("old")).unwrap(), "old", "{script}");
        }
    });
}

#[test]
fn nothing_outside_can_change_its_mode_or_times() {
    as_root_and_user("files::nothing_outside_can_change_its_mode_or_times", || {
        let place = Place::new("metadata");
        fs::write(place.outside.join("old"), "").unwrap();
        for script in [
            "chmod 600 $O/old",
            "touch -d 2001-01-01 $O/old",
            "exec 3<$O/old; chmod 600 /proc/self/fd/3",
            "chgrp $(id -g) $O/old",
            "perl -e 'open F,\"<\",\"$ENV{O}/old\"; chmod(0600, *F) or exit 1'",
        ] {
            place.stops(script, || ());
        }
    });
}

#[test]
fn a_hard_link_to_what_lies_outside_cannot_be_made() {
    as_root_and_user("files::a_hard_link_to_what_lies_outside_cannot_be_made", || {
        let place = Place::new("hard-link");
        fs::write(place.outside.join("old"), "old").unwrap();
        let undo = || drop(fs::remove_file(place.project.join("l")));
        place.stops("ln $O/old $P/l && echo x > l", undo);
    });
}

#[test]
fn denied_paths_can_be_neither_read_nor_listed_nor_looked_at() {
    as_root_and_user("files::denied_paths_can_be_neither_read_nor_listed_nor_looked_at", || {
        let place = Place::new("denied");
        let secrets = place.outside.join("secrets");
        fs::create_dir(&secrets).unwrap();
        fs::write(secrets.join("key"), "secret words").unwrap();
        fs::write(place.outside.join("token"), "secret words").unwrap();
        symlink(&secrets, place.project.join("link")).unwrap();
        let rules =
            [rule(&secrets, Access::None), rule(&place.outside.join("token"), Access::None)];
        for script in [
            "cat $O/secrets/key",
            "cat link/key",
            "cat /proc/self/root$O/secrets/key",
            "cat $O/../outside/secrets/key",
            "ls $O/secrets",
            "stat $O/secrets/key",
            "test -e $O/secrets/key",
            "cd $O/secrets",
            "cat $O/token",
            "test $(stat -c %s $O/token) = 12",
            "head -c 1 $O/token",
            "chmod 644 $O/token && cat $O/token",
            "mv $O/token $O/moved && cat $O/moved",
        ] {
            let undo =
                || drop(fs::rename(place.outside.join("moved"), place.outside.join("token")));
            place.stops_with(&rules, script, undo);
        }
    });
}

#[test]
fn what_lies_beneath_a_denied_directory_can_be_shown_again() {
    as_root_and_user("files::what_lies_beneath_a_denied_directory_can_be_shown_again", || {
        let place = Place::new("complement");
        let inner = place.outside.join("home/desk");
        fs::create_dir_all(&inner).unwrap();
        fs::write(place.outside.join("home/secret"), "").unwrap();
        fs::write(inner.join("notes"), "notes").unwrap();
        let mut spec = place
            .spec("cat $O/home/desk/notes && ! test -e $O/home/secret && echo > $O/home/desk/new");
        spec.files
            .rules
            .extend([rule(&place.outside.join("home"), Access::None), rule(&inner, Access::Write)]);
        assert_eq!(place.run(&spec).code, Some(0), "{:?}", place.run(&spec));
        // A project below a denied path works when the spec grants it.
        spec.program.cwd = inner.clone();
        assert_eq!(place.run(&spec).code, Some(0));
    });
}

#[test]
fn protected_files_stay_as_they_are() {
    as_root_and_user("files::protected_files_stay_as_they_are", || {
        let place = Place::new("protected");
        let hooks = place.project.join(".git/hooks");
        let build = || {
            let _ = fs::remove_dir_all(place.project.join(".git"));
            let _ = fs::remove_dir_all(place.project.join("away"));
            fs::create_dir_all(&hooks).unwrap();
            fs::write(place.project.join(".git/config"), "config").unwrap();
            fs::write(hooks.join("pre-commit"), "hook").unwrap();
        };
        build();
        let rules = [
            rule(&hooks, Access::Protected),
            rule(&place.project.join(".git/config"), Access::Protected),
        ];
        for script in [
            "echo x > .git/hooks/post-commit",
            "echo x > .git/hooks/pre-commit",
            "rm .git/hooks/pre-commit",
            "echo x >> .git/config",
            "echo x > n; mv n .git/config",
            "mv .git/hooks away",
            "mv .git away",
            "rm -rf .git",
            "chmod 777 .git/hooks",
            "chmod 600 .git/config",
            "ln .git/config l && echo x > l",
            "mkdir away; mv -T --exchange .git away 2>/dev/null || mv -T .git away/x",
        ] {
            place.stops_with(&rules, script, build);
            assert_eq!(fs::read_to_string(place.project.join(".git/config")).unwrap(), "config");
            let names: Vec<_> =
                fs::read_dir(&hooks).unwrap().map(|it| it.unwrap().file_name()).collect();
            assert_eq!(names, ["pre-commit"], "{script}");
        }
        let mut spec = place.spec("echo x > .git/index.lock && mv .git/index.lock .git/index");
        spec.files.rules.extend(rules);
        assert_eq!(place.run(&spec).code, Some(0), "the rest of the directory stays writable");
    });
}

#[test]
fn a_read_only_region_holds_inside_a_writable_one() {
    as_root_and_user("files::a_read_only_region_holds_inside_a_writable_one", || {
        let place = Place::new("read-only");
        fs::create_dir_all(place.project.join("a/fixed")).unwrap();
        let rules = [
            rule(&place.project.join("a/fixed"), Access::ReadOnly),
            rule(&place.project.join("a/fixed/deeper"), Access::Write),
        ];
        fs::create_dir(place.project.join("a/fixed/deeper")).unwrap();
        place.stops_with(&rules, "echo x > a/fixed/deeper/f", || ());
        place.stops_with(&rules, "echo x > a/fixed/f", || ());
    });
}

#[test]
fn temporary_directories_exist_and_are_the_runs_own() {
    as_root_and_user("files::temporary_directories_exist_and_are_the_runs_own", || {
        let place = Place::new("temporary");
        place.works(
            "f=$(mktemp) && echo x > $f && [[ $f = /tmp/* ]] && touch /var/tmp/x && touch /dev/shm/x \
             && touch $TMPDIR/y",
        );
        let own = place.base.join("own-tmp");
        fs::create_dir(&own).unwrap();
        let mut spec = place.spec("echo kept > /tmp/kept; ls /tmp /var/tmp");
        spec.files.private_tmp = Some(own.clone());
        assert_eq!(place.run(&spec).text, "/tmp:\nkept\n\n/var/tmp:\nkept\n");
        assert_eq!(fs::read_to_string(own.join("kept")).unwrap(), "kept\n");
        let host = Path::new("/tmp").join(format!("stockade-host-{}", std::process::id()));
        fs::write(&host, "").unwrap();
        let inside = place.confined(&format!("test -e {}", host.display()));
        fs::remove_file(&host).unwrap();
        assert_eq!(inside.code, Some(1));
    });
}

#[test]
fn a_project_under_tmp_is_writable_there_and_alone() {
    as_root_and_user("files::a_project_under_tmp_is_writable_there_and_alone", || {
        let place = Place::new("under-tmp");
        let project = Path::new("/tmp").join(format!("stockade project {}", std::process::id()));
        fs::create_dir(&project).unwrap();
        let mut spec = place.spec("echo made > new && ls /tmp && pwd");
        spec.program.cwd = project.clone();
        spec.files.rules = vec![rule(&project, Access::Write)];
        let outcome = place.run(&spec);
        let made = fs::read_to_string(project.join("new"));
        fs::remove_dir_all(&project).unwrap();
        assert_eq!(made.unwrap(), "made\n");
        let name = project.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(outcome.text, format!("{name}\n{}\n", project.display()));
    });
}

#[test]
fn names_with_blanks_and_any_bytes_work() {
    as_root_and_user("files::names_with_blanks_and_any_bytes_work", || {
        use std::os::unix::ffi::OsStrExt;
        let place = Place::new("Grüße an  alle\n“x”");
        let odd = place.project.join(Path::new(std::ffi::OsStr::from_bytes(b"\xff\xfe\\040")));
        fs::create_dir(&odd).unwrap();
        let mut spec = place.spec("echo x > \"$P/new\" && ! echo x 2>&1 > */f");
        spec.files.rules.push(rule(&odd, Access::Protected));
        let outcome = place.run(&spec);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(place.project.join("new").exists() && !odd.join("f").exists());
    });
}

#[test]
fn files_made_in_the_project_are_as_without_a_sandbox() {
    as_root_and_user("files::files_made_in_the_project_are_as_without_a_sandbox", || {
        let script = "umask 027; echo a > a; mkdir -m 700 d; umask 0; echo b > d/b; ln -s a l; ln a h;
            mkfifo p; cat p > out & echo through > p; wait; mv d/b c; mkdir -p x/y/z; echo q > x/y/z/q;
            mv x w; cp -p a a2; cat out;
            set -o noclobber; echo z > a || echo kept; exec 9>n; ls -l /proc/self/fd/9 | sed 's/.*-> //' |
            xargs basename; stat -c '%n %a %F %h' a d l h p c w w/y/z/q";
        let (one, other) = (Place::new("plain"), Place::new("confined"));
        let text = |outcome: crate::place::Outcome| {
            outcome
                .text
                .lines()
                .filter(|line| !line.contains("cannot overwrite"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let (plain, confined) = (one.plain(script), other.confined(script));
        assert_eq!((plain.code, text(plain)), (confined.code, text(confined)));
    });
}

/// Whoever wrote a program and closed it can run it at once: nothing of ours still holds it open.
#[test]
fn what_was_just_written_can_be_executed() {
    as_root_and_user("files::what_was_just_written_can_be_executed", || {
        let place = Place::new("just-written");
        place.works("for i in $(seq 200); do cp /bin/true t && ./t || exit 1; rm t; done");
    });
}
