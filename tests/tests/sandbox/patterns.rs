//! Patterns that refuse writing hold for what comes to be while a command runs.

use std::fs;

use stockade_spec::Access;

use crate::place::{Place, as_root_and_user, rule, run, run_both, told};

#[test]
fn what_a_pattern_refuses_cannot_come_into_being() {
    as_root_and_user("patterns::what_a_pattern_refuses_cannot_come_into_being", || {
        let place = Place::new("patterns");
        let build = || {
            let _ = fs::remove_dir_all(&place.project);
            fs::create_dir_all(place.project.join("d/deep")).unwrap();
            fs::create_dir_all(place.project.join("e")).unwrap();
            fs::write(place.project.join("f"), "f").unwrap();
            // No pattern says anything of this place.
            fs::create_dir_all(place.project.join("free/in")).unwrap();
            fs::write(place.project.join("free/in/x.key"), "x").unwrap();
        };
        let patterns = ["*.lock", "d/**/*.key", "kept?/**/*.c"];
        let patterns = patterns.map(|it| rule(&place.project.join(it), Access::ReadOnly));
        let confined = |script: &str| {
            let mut spec = place.spec(script);
            spec.files.patterns = patterns.to_vec();
            run(&spec).unwrap()
        };
        build();
        for (script, made) in [
            ("echo x > a.lock", "a.lock"),
            ("mkdir a.lock", "a.lock"),
            ("mv f a.lock", "a.lock"),
            ("ln f a.lock", "a.lock"),
            ("ln -s f a.lock", "a.lock"),
            ("mkfifo a.lock", "a.lock"),
            ("mv -T e a.lock", "a.lock"),
            ("echo x > d/x.key", "d/x.key"),
            ("echo x > d/deep/x.key", "d/deep/x.key"),
            ("cd d/deep && echo x > ../x.key", "d/x.key"),
            ("mkdir -p d/a/b && echo x > d/a/b/x.key", "d/a/b/x.key"),
            ("ln -s d l && echo x > l/x.key", "d/x.key"),
            ("mkdir kept1 && echo x > kept1/x.c", "kept1/x.c"),
            // A link has what it leads to go by another name.
            ("mkdir -p e/s && echo x > e/s/x.c && ln -s e kept1", "kept1/s/x.c"),
            ("ln -s ../free d/l", "d/l/in/x.key"),
            ("ln -s ../e/../free d/l", "d/l/in/x.key"),
            ("mkdir q; ln -s ../free q/l && mv q/l d/", "d/l/in/x.key"),
            ("ln -s /proc/self/cwd/free d/l", "d/l"),
            ("mkdir -p n/m && ln -s ../../free n/m/l && mv n/m d/", "d/m/l/in/x.key"),
            // Put together elsewhere, and moved there with the directory around.
            ("mv free d/", "d/free/in/x.key"),
            ("mv free/in d/deep/", "d/deep/in/x.key"),
            ("mv -T free d/deep", "d/deep/in/x.key"),
            ("mkdir -p e/s && echo x > e/s/x.c && mv e kept1", "kept1/s/x.c"),
            (
                "perl -e 'syscall(316, -100, $a = \"free\", -100, $b = \"d\", 2) == 0 or exit 1'",
                "d/in/x.key",
            ),
        ] {
            assert_eq!(place.plain(script).code, Some(0), "must work unconfined: {script}");
            assert!(fs::symlink_metadata(place.project.join(made)).is_ok(), "{script}");
            build();
            let ran = confined(script);
            assert_ne!(ran.exit.code, Some(0), "must fail confined: {script}: {}", ran.text);
            assert!(fs::symlink_metadata(place.project.join(made)).is_err(), "{script}");
            let told = told(&ran);
            assert!(told.iter().any(|it| (it.0, it.3) == ("write", "test")), "{script}: {told:?}");
            build();
        }
        // Everything beside it goes on.
        let ran = confined(
            "set -e; echo x > a.lock2; mkdir lock; echo x > lock/a.lock; mv lock e/; mv d d2; mv d2 d; \
             echo x > d/x; mkdir d/new; mv d/new d/newer; echo x > free/y.key; mv free free2; mkdir kept1; \
             echo x > kept1/x.h; mv kept1 kept2; mv e/lock /tmp/; \
             ln -s deep d/l; mv d/l d/l2; ln -s /usr/lib kept3; ln -s d/deep near; ln -s free2 e/l",
        );
        assert_eq!(ran.exit.code, Some(0), "{}", ran.text);
        assert!(ran.violations.is_empty(), "{:?}", ran.violations);
    });
}

#[test]
fn of_two_runs_in_the_same_instant_none_gets_past_a_pattern() {
    let place = Place::new("race");
    fs::create_dir(place.project.join("d")).unwrap();
    let spec = |half: &str| {
        let mut spec = place.spec(&format!("exec '{}' {half}", env!("CARGO_BIN_EXE_racer")));
        spec.files.patterns = vec![rule(&place.project.join("kept/*.secret"), Access::ReadOnly)];
        // Runs with different state directories take no turns.
        spec.files.turns = None;
        spec
    };
    let ran = run_both(&spec("make"), &spec("move"));
    assert_eq!(ran.text, "false\n", "whether the file stayed under a name that is refused");
}
