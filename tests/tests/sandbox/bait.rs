//! Symbolic links as bait: none that a run makes or moves leads a program outside to what only the person can reach.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use crate::place::{Place, as_root_and_user, is_root, run, told};

/// Makes the project and `outside/` anew; the person has a link of his own in the project.
fn reset(place: &Place) {
    for directory in [&place.project, &place.outside] {
        fs::remove_dir_all(directory).unwrap();
        fs::create_dir(directory).unwrap();
    }
    fs::create_dir(place.outside.join("d")).unwrap();
    for file in ["secret", "d/secret"] {
        fs::write(place.outside.join(file), "secret\n").unwrap();
    }
    fs::create_dir(place.project.join("person")).unwrap();
    symlink(&place.outside, place.project.join("person/mine")).unwrap();
}

/// Returns the links of the project that lead out of it, by name; nothing is believed but the kernel and their texts.
fn baits(place: &Place) -> Vec<PathBuf> {
    let (mut found, mut rest) = (Vec::new(), vec![place.project.clone()]);
    while let Some(directory) = rest.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let (path, kind) = entry.map(|it| (it.path(), it.file_type().unwrap())).unwrap();
            if kind.is_dir() {
                rest.push(path);
            } else if kind.is_symlink() && path != place.project.join("person/mine") {
                let end = path
                    .canonicalize()
                    .unwrap_or_else(|_| lexical(&directory.join(fs::read_link(&path).unwrap())));
                if !end.starts_with(&place.project) && !end.starts_with("/usr/lib") {
                    found.push(path.strip_prefix(&place.project).unwrap().to_path_buf());
                }
            }
        }
    }
    found
}

fn lexical(path: &Path) -> PathBuf {
    let mut found = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => found.push(name),
            Component::ParentDir => drop(found.pop()),
            _ => {}
        }
    }
    found
}

/// Runs `scripts` one after the other, each as a run of its own: they leave a bait plain, and not confined.
fn leaves_none(place: &Place, scripts: &[&str]) {
    reset(place);
    let mut said: String = scripts.iter().map(|script| place.plain(script).text).collect();
    assert!(!baits(place).is_empty(), "must leave one unconfined: {scripts:?}\n{said}");
    reset(place);
    said.clear();
    for script in scripts {
        said += &place.confined(script).text;
    }
    assert_eq!(baits(place), Vec::<PathBuf>::new(), "{scripts:?}\n{said}");
    assert!(!said.is_empty(), "the refusal is told: {scripts:?}");
}

#[test]
fn no_link_leads_to_what_only_the_person_reaches() {
    as_root_and_user("bait::no_link_leads_to_what_only_the_person_reaches", || {
        let place = Place::new("bait");
        for scripts in [
            &["ln -s $O/secret x"][..],
            &["ln -s ../outside/secret x"],
            &["ln -s $O x"],
            &["ln -s $O/new x"],
            &["ln -s ../outside/new/deeper x"],
            &["ln -s .. x"],
            &["ln -s ../.. x"],
            &["ln -s / x"],
            &["ln -s /home x"],
            &["ln -s /usr x"],
            &["ln -s /usr/.. x"],
            &["ln -s $P/../outside/secret x"],
            &["ln -s $O/none/../../../.. x"],
            &["ln -s /tmp/x x"],
            &["ln -s /var/tmp/x x"],
            &["ln -s /dev/shm/x x"],
            &["ln -s /run/user/x x"],
            &["ln -s /proc/self/environ x"],
            &["ln -s /proc/self/root/etc x"],
            &["ln -s /dev/fd/0 x"],
            // By the links of the person, of the run, and of its temporary directory.
            &["ln -s person/mine/secret x"],
            &["ln -s person/mine/d x"],
            &["mv person/mine x"],
            &["mv person x"],
            &["cp -a person/mine x"],
            &["ln -P person/mine x"],
            &["n=/tmp/bait-$$; ln -s $O/secret $n; mv $n x"],
            &["rm -rf /tmp/d; mkdir /tmp/d; ln -s $O/secret /tmp/d/x; mv /tmp/d d"],
            // Moved to where the text means something else, one by one, with a directory, by a second name, by an exchange.
            &["mkdir a; ln -s ../outside/secret a/x", "mv a/x x"],
            &["mkdir a; ln -s ../outside/secret a/x", "ln -P a/x x"],
            &["mkdir -p a/b; ln -s ../../outside/secret a/b/x", "mv a/b b"],
            &["mkdir -p a/b/c/d; ln -s ../../../../outside a/b/c/d/x", "mv a/b b"],
            &[
                "mkdir -p a/b; ln -s ../../outside/secret a/b/x; mkdir b",
                "perl -e '$f = \"a/b\"; $t = \"b\"; syscall(316, -100, $f, -100, $t, 2) == 0 or print \"$!\"'",
            ],
            // A part of the way is replaced after the link was judged.
            &["mkdir d; echo > d/secret; ln -s d/secret x", "rm -r d; ln -s $O d"],
            &["mkdir d; echo > d/secret; ln -s d/secret x", "rm -r d; mv person/mine d"],
            &["mkdir d e; ln -s ../e d/x; rmdir e", "ln -s ../outside e"],
            &["mkdir -p p/a; ln -s a/../../etc p/x", "rmdir p/a; ln -s /usr/lib p/a"],
            &["ln -s missing/../../etc x", "ln -s /usr/lib missing"],
        ] {
            leaves_none(&place, scripts);
        }
    });
}

#[test]
fn links_of_ordinary_work_are_made_and_moved() {
    as_root_and_user("bait::links_of_ordinary_work_are_made_and_moved", || {
        let place = Place::new("no-bait");
        for script in [
            "echo > f; ln -s f x; ln -s $P/f y; ln -s ../project/f z; ln -s ./f ./w; cat x y z w",
            "ln -s missing a; ln -s missing/deeper b; ln -s $P/missing/deeper c",
            "mkdir -p d/e; ln -s ../../f d/e/x; ln -s . d/self; ln -s .. d/up; mv d/e d/g; mv d h; ln -s h/up/h i; test -d i",
            "ln -s loop loop; ln -s loop/x l2; mv loop loop2; ! cat loop2; rm loop2",
            "ln -s one two; ln -s two three; echo > one; cat three; mv one four",
            "ln -s /usr/bin/env e; ln -s /usr/lib l; ln -s /usr/share/none n; ln -s /bin/sh s; ln -s l/none q; test -x e",
            "ln -s /none/deeper g",
            "ln -s $O/secret /tmp/x; ln -s / /tmp/root; mkdir /tmp/t; mv /tmp/x /tmp/t/x; test -L /tmp/t/x",
            "ln -s f t1 && ln -sfn d t1 && ln -sfr f t1 && cp -P t1 t2 && cp -a t2 t3 && ln -P t3 t4 && mv -f t4 t1",
            "tar c -f t.tar x y && mkdir out && tar x -C out -f t.tar && test -L out/x && rm person/mine",
        ] {
            if script.contains("echo > f;") {
                reset(&place);
            }
            place.works(&format!("set -e; {script}"));
        }
        assert_eq!(fs::read_link(place.project.join("out/x")).unwrap(), Path::new("f"));
        if !is_root() {
            // Targets that belong to somebody else, and can be read.
            place.works("ln -s /etc/passwd p1 && ln -s /none p2 && ln -s /etc/none/x p3");
        }
    });
}

#[test]
fn a_refused_link_is_told_with_where_it_leads() {
    as_root_and_user("bait::a_refused_link_is_told_with_where_it_leads", || {
        let place = Place::new("told-bait");
        reset(&place);
        let link = place.project.join("x");
        let (outside, at) = (place.outside.display(), link.to_str().unwrap());
        for (script, call, rule) in [
            ("ln -s ../outside/d x", "symlink", format!("builtin: symbolic link to {outside}/d")),
            ("mv person/mine x", "rename", format!("builtin: symbolic link to {outside}")),
            (
                "mkdir a; ln -s a/../.. x",
                "symlink",
                format!(
                    "builtin: symbolic link to {}/a, by `..` behind a name that a command can replace",
                    place.project.display()
                ),
            ),
        ] {
            let ran = run(&place.spec(script)).unwrap();
            assert_eq!(told(&ran), [("write", call, at, &*rule)], "{script}");
        }
        // A directory that is named may be led to, and nothing beside it.
        let mut spec =
            place.spec("ln -s ../outside/d/secret x && ln -s $O/d y && ! ln -s $O/secret z");
        spec.files.link_roots.push(place.outside.join("d"));
        assert_eq!(run(&spec).unwrap().exit.code, Some(0));
        assert!(link.is_symlink());
    });
}

#[test]
fn what_is_hidden_or_guarded_is_no_place_for_a_link() {
    use stockade_spec::Access;

    as_root_and_user("bait::what_is_hidden_or_guarded_is_no_place_for_a_link", || {
        let place = Place::new("hidden");
        reset(&place);
        for name in ["key", "kept", "hidden/d"] {
            fs::create_dir_all(place.project.join("hidden")).unwrap();
            fs::write(place.project.join(name), "x\n").unwrap();
        }
        for script in [
            "ln -s key x",
            "ln -s hidden/d x",
            "ln -s kept x",
            "ln -s .guarded x",
            "ln -s ../outside/d/secret x",
        ] {
            assert_eq!(place.plain(script).code, Some(0), "{script}");
            fs::remove_file(place.project.join("x")).unwrap();
            let mut spec = place.spec(script);
            let rules = [
                (place.project.join("key"), Access::None),
                (place.project.join("hidden"), Access::None),
                (place.project.join("kept"), Access::Protected),
                (place.outside.join("d"), Access::None),
            ];
            spec.files.rules.extend(rules.map(|(path, access)| crate::place::rule(&path, access)));
            spec.files.link_roots.push(place.outside.clone());
            let ran = run(&spec).unwrap();
            assert_ne!(ran.exit.code, Some(0), "{script}: {}", ran.text);
            assert!(!place.project.join("x").is_symlink(), "{script}");
        }
    });
}

#[test]
fn a_directory_that_cannot_be_looked_through_is_not_moved() {
    as_root_and_user("bait::a_directory_that_cannot_be_looked_through_is_not_moved", || {
        let place = Place::new("closed");
        reset(&place);
        place.works(
            "mkdir -p d/e; ln -s ../x d/e/x; chmod 300 d/e; ! mv d f; chmod 700 d/e; mv d f",
        );
        if !is_root() {
            return;
        }
        let many = place.project.join("many/inner");
        fs::create_dir_all(&many).unwrap();
        for number in 0..100_000 {
            fs::File::create(many.join(number.to_string())).unwrap();
        }
        let ran = run(&place.spec("mv many other")).unwrap();
        let (to, rule) = (
            place.project.join("other"),
            "builtin: directory with unknown links: more than 100000 entries",
        );
        assert_eq!(told(&ran), [("write", "rename", to.to_str().unwrap(), rule)]);
        place.works("mkdir other && mv many/inner other/inner && test -f other/inner/99999");
    });
}
