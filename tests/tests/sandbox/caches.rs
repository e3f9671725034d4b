//! Caches of the host that a run changes for itself alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use stockade_spec::{Access, Cache, FileRule, SandboxSpec};
use stockade_tests::lacking::Refused;

use crate::place::{Place, as_root_and_user, rule, run, run_without, told};

/// Changes a cache in every way that leaves it usable.
const CHANGES: &str = "set -e; cd $O/cache; echo new > made; echo more >> old; mkdir a/inner; mv a b; rm -r gone; \
    mkdir gone; chmod 700 kept; ln old second; ln -s /etc/passwd link; rm last; touch last; mkfifo fifo";

/// Makes a cache with something in it, and the store for what a run changes.
fn fill(place: &Place) -> Cache {
    let cache = Cache { path: place.outside.join("cache"), store: place.base.join("store") };
    for directory in ["a", "gone/deep", "kept"] {
        fs::create_dir_all(cache.path.join(directory)).unwrap();
    }
    for file in ["old", "a/f", "gone/deep/f", "kept/f", "last"] {
        fs::write(cache.path.join(file), "old\n").unwrap();
    }
    for directory in ["upper", "work"] {
        fs::create_dir_all(cache.store.join(directory)).unwrap();
    }
    cache
}

/// Makes the store of `cache` fit for another run, as the gateway does.
fn again(cache: &Cache) {
    let work = cache.store.join("work/work");
    for path in [work.clone(), work.join("incompat"), work.join("incompat/volatile")] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::remove_dir_all(work).unwrap();
}

fn spec(place: &Place, cache: &Cache, script: &str) -> SandboxSpec {
    let mut spec = place.spec(script);
    spec.files.caches.push(cache.clone());
    spec.files.rules.push(rule(&cache.store, Access::None));
    spec
}

/// Returns each name beneath a directory with its mode and what it holds or leads to.
fn listing(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(path) = open.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let mut text = String::new();
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if metadata.is_file() {
            text = fs::read_to_string(&path).unwrap();
        }
        let name = path.strip_prefix(directory).unwrap().display();
        found.push(format!("{name} {:o} {text}", metadata.permissions().mode()));
    }
    found.sort();
    found
}

#[test]
fn what_a_run_changes_in_a_cache_is_there_for_it_and_not_for_the_host() {
    as_root_and_user(
        "caches::what_a_run_changes_in_a_cache_is_there_for_it_and_not_for_the_host",
        || {
            let place = Place::new("cache");
            let cache = fill(&place);
            let before = listing(&cache.path);
            let plain = place.plain(CHANGES);
            assert_eq!(plain.code, Some(0), "must work unconfined: {}", plain.text);
            assert_ne!(listing(&cache.path), before);
            fs::remove_dir_all(&cache.path).unwrap();
            fill(&place);
            assert_eq!(listing(&cache.path), before);
            let seen = "; ls -1; cat made old second b/f last; ls gone b; stat -c %a kept";
            let expected = "b\nfifo\ngone\nkept\nlast\nlink\nmade\nold\nsecond\nnew\nold\nmore\nold\nmore\n\
                old\nb:\nf\ninner\n\ngone:\n700\n";
            let ran = run(&spec(&place, &cache, &format!("{CHANGES}{seen}"))).unwrap();
            assert_eq!((ran.exit.code, &*ran.text), (Some(0), expected));
            assert_eq!((told(&ran), &*ran.enforced.notes), (Vec::new(), [].as_slice()));
            assert_eq!(listing(&cache.path), before);
            // The next run with this store finds it as the last one left it.
            again(&cache);
            let ran = run(&spec(&place, &cache, &format!("cd $O/cache{seen}"))).unwrap();
            assert_eq!((ran.exit.code, &*ran.text), (Some(0), expected));
            assert_eq!(listing(&cache.path), before);
        },
    );
}

#[test]
fn a_cache_leads_nowhere_else() {
    as_root_and_user("caches::a_cache_leads_nowhere_else", || {
        let place = Place::new("cache-way-out");
        let cache = fill(&place);
        fs::write(place.outside.join("secret"), "secret words\n").unwrap();
        fs::write(place.outside.join("beside"), "beside\n").unwrap();
        symlink("../beside", cache.path.join("out")).unwrap();
        let before = listing(&place.outside);
        for script in [
            "echo x > $O/cache/out",
            "echo x > $O/cache/../beside",
            "mv $O/cache $O/elsewhere",
            "mv $O/cache/old $O/there",
            "mv $O/beside $O/cache/",
            "ln $O/beside $O/cache/l && echo x > $O/cache/l",
            "ln -s $O/beside $O/cache/s && echo x > $O/cache/s",
            "echo x > $O/new",
            "touch ../store/upper/x",
            "ls ../store/upper",
            "ls ../store",
        ] {
            let plain = place.plain(&format!("cp -a $O $P/kept && {script}"));
            assert_eq!(plain.code, Some(0), "must work unconfined: {script}\n{}", plain.text);
            fs::remove_dir_all(&place.outside).unwrap();
            fs::rename(place.project.join("kept"), &place.outside).unwrap();
            fs::remove_dir_all(&cache.store).unwrap();
            fill(&place);
            let ran = run(&spec(&place, &cache, script)).unwrap();
            assert_ne!(ran.exit.code, Some(0), "must fail confined: {script}\n{}", ran.text);
            assert_eq!(listing(&place.outside), before, "{script}");
            again(&cache);
        }
    });
}

#[test]
fn where_the_disk_takes_no_overlay_changes_end_with_the_run() {
    as_root_and_user("caches::where_the_disk_takes_no_overlay_changes_end_with_the_run", || {
        let place = Place::new("cache-memory");
        let cache = fill(&place);
        let before = listing(&cache.path);
        let store = place.base.join("other");
        let other = Cache { path: place.outside.join("cache2"), store: store.clone() };
        fs::create_dir_all(&other.path).unwrap();
        for directory in ["upper", "work"] {
            fs::create_dir_all(store.join(directory)).unwrap();
        }
        let mut spec = spec(
            &place,
            &cache,
            &format!("{CHANGES}; cat made; ls; ls $O/cache2; echo > $O/cache2/x"),
        );
        spec.files.caches.push(other.clone());
        // The kernel takes a directory alone to work in.
        for store in [&cache.store, &store] {
            fs::remove_dir(store.join("work")).unwrap();
            fs::write(store.join("work"), "").unwrap();
        }
        for _ in 0..2 {
            let ran = run(&spec).unwrap();
            let expected = "new\nb\nfifo\ngone\nkept\nlast\nlink\nmade\nold\nsecond\n";
            assert_eq!((ran.exit.code, &*ran.text), (Some(0), expected));
            assert_eq!((told(&ran), &*ran.enforced.notes), (Vec::new(), [].as_slice()));
            assert_eq!((listing(&cache.path), listing(&other.path).len()), (before.clone(), 1));
            assert_eq!(listing(&cache.store.join("upper")).len(), 1);
        }
    });
}

/// Sets an attribute through the kernel's own call, which a shell has no program for everywhere.
const SET_ATTRIBUTE: &str =
    "perl -e 'exit(syscall(188, $ARGV[0], $ARGV[1], $ARGV[2], length $ARGV[2], 0) == 0 ? 0 : 1)'";

#[test]
fn what_layers_say_of_themselves_is_not_believed() {
    as_root_and_user("caches::what_layers_say_of_themselves_is_not_believed", || {
        let place = Place::new("cache-attributes");
        let cache = fill(&place);
        fs::write(place.outside.join("secret"), "secret words\n").unwrap();
        // As a run might wish its own store to speak: of a file that is elsewhere, and of a directory.
        let script = format!(
            "cd $O/cache; for it in a old; do for to in /a ../secret /gone; do \
             {SET_ATTRIBUTE} $it user.overlay.redirect $to; {SET_ATTRIBUTE} $it user.overlay.metacopy ''; \
             {SET_ATTRIBUTE} $it trusted.overlay.redirect $to; done; {SET_ATTRIBUTE} $it user.overlay.opaque y; done; \
             mknod hidden c 0 0; cat old a/f"
        );
        let ran = run(&spec(&place, &cache, &script)).unwrap();
        assert!(ran.text.ends_with("old\nold\n"), "{}", ran.text);
        again(&cache);
        // The host's own directory may hold anything: here what would lead out, were it followed.
        let to = place.outside.join("secret").display().to_string();
        let lower = place.plain(&format!(
            "cd $O/cache; echo > old; for it in a old; do {SET_ATTRIBUTE} $it user.overlay.redirect {to} && \
             {SET_ATTRIBUTE} $it user.overlay.metacopy ''; done"
        ));
        assert_eq!(lower.code, Some(0), "{}", lower.text);
        let script = "cat $O/cache/old; cat $O/cache/a/f; cat $O/cache/a";
        let ran = run(&spec(&place, &cache, script)).unwrap();
        assert!(!ran.text.contains("secret words"), "{}", ran.text);
    });
}

/// Asserts that a run cannot write the cache although it is to have it, and returns what is noted.
fn stays_closed(
    place: &Place,
    cache: &Cache,
    more: &[FileRule],
    patterns: &[FileRule],
) -> Vec<String> {
    let mut spec = spec(place, cache, "echo x > $O/cache/made");
    spec.files.rules.extend_from_slice(more);
    spec.files.patterns.extend_from_slice(patterns);
    let ran = run(&spec).unwrap();
    assert_eq!(ran.exit.code, Some(1), "{}", ran.text);
    let path = cache.path.join("made").display().to_string();
    assert_eq!(told(&ran).iter().map(|it| (it.0, it.2)).collect::<Vec<_>>(), [("write", &*path)]);
    ran.enforced.notes
}

#[test]
fn rules_beneath_a_cache_hold() {
    as_root_and_user("caches::rules_beneath_a_cache_hold", || {
        let place = Place::new("cache-rules");
        let cache = fill(&place);
        let note = |why: &str| {
            vec![format!("the cache `{}` can be read and not written: {why}", cache.path.display())]
        };
        let by_rule = note("a rule matches it or a path below it: test");
        for (path, access) in [
            ("a/f", Access::None),
            ("a", Access::ReadOnly),
            ("missing", Access::Protected),
            ("", Access::ReadOnly),
        ] {
            let rule = rule(&cache.path.join(path), access);
            assert_eq!(stays_closed(&place, &cache, &[rule], &[]), by_rule, "{path}");
        }
        let pattern = rule(&place.outside.join("**/*.pem"), Access::None);
        let expected = note("a pattern may match a path below it: test");
        assert_eq!(stays_closed(&place, &cache, &[], &[pattern]), expected);
    });
}

#[test]
fn a_cache_that_cannot_be_overlaid_is_read_as_before() {
    as_root_and_user("caches::a_cache_that_cannot_be_overlaid_is_read_as_before", || {
        let place = Place::new("cache-without");
        let cache = fill(&place);
        let failing = spec(&place, &cache, "cat $O/cache/old; echo x > $O/cache/made");
        // FSCONFIG_SET_FLAG: of what a run mounts, an overlay alone has options without a value.
        let flags = Refused::call(libc::SYS_fsconfig).with(1, 0);
        let ran = run_without(&[flags], &failing).unwrap();
        assert_eq!(ran.exit.code, Some(1));
        assert!(ran.text.starts_with("old\n"), "{}", ran.text);
        assert_eq!(ran.enforced.notes.len(), 1);
        // Without a store, and without a cache.
        fs::remove_dir_all(&cache.store).unwrap();
        let why = "there is no store for the changes of the command";
        let expected =
            [format!("the cache `{}` can be read and not written: {why}", cache.path.display())];
        assert_eq!(stays_closed(&place, &cache, &[], &[]), expected);
        fs::remove_dir_all(&cache.path).unwrap();
        let ran = run(&spec(&place, &cache, "echo here")).unwrap();
        assert_eq!((ran.exit.code, &*ran.text, ran.enforced.notes), (Some(0), "here\n", vec![]));
    });
}
