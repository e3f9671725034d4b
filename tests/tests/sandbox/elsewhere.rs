//! Projects in other places: other file systems, homes that cannot be written, odd names, second mounts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use stockade_spec::Access;
use stockade_tests::skip;

use crate::place::{Place, as_root_and_user, is_root, pass_on, rule, run};

/// Set in the copy of a test that runs in a mount namespace of its own: the base of its place.
const INSIDE: &str = "STOCKADE_TEST_MOUNTED";

/// Runs this test again where `mounts`, a script that knows `$BASE`, has been run in a mount namespace of its
/// own; returns whether this is already that copy.
fn is_mounted(test: &str, place: &Place, mounts: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let flags: &[&str] = if is_root() { &["-m"] } else { &["-Urm"] };
    let output = Command::new("unshare")
        .args(flags)
        .args(["--propagation", "private", "bash", "-c"])
        .arg(format!("set -e\n{mounts}\nexec \"$0\" --exact {test} --nocapture"))
        .arg(std::env::current_exe().unwrap())
        .env("BASE", &place.base)
        .env(INSIDE, &place.base)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("mount") && !text.contains("1 passed") && !text.contains("panicked") {
        skip(test, &format!("this user cannot mount: {stderr}"));
        return false;
    }
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{stderr}");
    pass_on(&stderr);
    false
}

/// The place of the test that started this copy; not removed here.
fn mounted_place() -> std::mem::ManuallyDrop<Place> {
    let base = std::path::PathBuf::from(std::env::var_os(INSIDE).unwrap());
    let (project, outside) = (base.join("project"), base.join("outside"));
    std::mem::ManuallyDrop::new(Place { base, project, outside })
}

fn everyday(place: &Place) {
    place.works(
        "set -e; mkdir -p a/b; echo x > a/b/c; mv a/b/c a/d; ln a/d a/e; ln -s d a/f; cat a/f; rm -r a; \
         cp /bin/true t; ./t; f=$(mktemp); echo y > $f; mv $f g; cat g; mkfifo p; (echo z > p) & cat p; wait; \
         : > empty; truncate -s 5 empty; [ $(stat -c %s empty) = 5 ]; touch -d @0 empty; chmod 600 empty",
    );
    place.stops("echo x > $O/file", || drop(fs::remove_file(place.outside.join("file"))));
    place.stops("echo x > .guarded", || drop(fs::remove_file(place.project.join(".guarded"))));
}

#[test]
fn a_project_on_a_file_system_in_memory_works() {
    let test = "elsewhere::a_project_on_a_file_system_in_memory_works";
    let place = if std::env::var_os(INSIDE).is_some() { None } else { Some(Place::new("memory")) };
    let mounts = "mount -t tmpfs none $BASE/project";
    if place.as_ref().is_some_and(|place| !is_mounted(test, place, mounts)) {
        return;
    }
    everyday(&mounted_place());
}

#[test]
fn a_project_on_an_overlay_works() {
    let test = "elsewhere::a_project_on_an_overlay_works";
    let place = if std::env::var_os(INSIDE).is_some() { None } else { Some(Place::new("overlay")) };
    let mounts = "mount -t tmpfs none $BASE/outside; cd $BASE/outside; mkdir lower upper work; echo l > lower/low; \
                  mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work $BASE/project; cd /";
    if place.as_ref().is_some_and(|place| !is_mounted(test, place, mounts)) {
        return;
    }
    let place = mounted_place();
    everyday(&place);
    place.works("cat low && echo more >> low && rm low && ! test -e low");
}

/// The same directory is shown at two places of the writable region: a refusal holds at both.
#[test]
fn a_second_mount_of_a_protected_directory_is_protected_too() {
    let test = "elsewhere::a_second_mount_of_a_protected_directory_is_protected_too";
    let place = match std::env::var_os(INSIDE) {
        Some(_) => None,
        None => {
            let place = Place::new("second");
            fs::create_dir_all(place.project.join("kept/inner")).unwrap();
            fs::create_dir_all(place.project.join("again")).unwrap();
            fs::create_dir_all(place.project.join("deep")).unwrap();
            fs::create_dir_all(place.outside.join("secrets")).unwrap();
            fs::write(place.outside.join("secrets/key"), "secret").unwrap();
            fs::write(place.project.join("kept/file"), "kept").unwrap();
            Some(place)
        }
    };
    let mounts = "mount --bind $BASE/project/kept $BASE/project/again; \
                  mount --bind $BASE/project/kept/inner $BASE/project/deep; mkdir $BASE/project/s; \
                  mount --bind $BASE/outside $BASE/project/s";
    if place.as_ref().is_some_and(|place| !is_mounted(test, place, mounts)) {
        return;
    }
    let place = mounted_place();
    let rules = [
        rule(&place.project.join("kept"), Access::Protected),
        rule(&place.outside.join("secrets"), Access::None),
    ];
    let undo = || fs::write(place.project.join("kept/file"), "kept").unwrap();
    for script in [
        "echo x > kept/file",
        "echo x > again/file",
        "rm again/file",
        "echo x > again/new && rm again/new",
        "echo x > deep/new && rm deep/new",
        "cat s/secrets/key",
        "cat $O/secrets/key",
    ] {
        place.stops_with(&rules, script, undo);
        let text = fs::read_to_string(place.project.join("kept/file")).unwrap();
        assert_eq!(text, "kept", "{script}");
    }
}

/// Mounts that appear on the host while a run lasts are not seen by it, and disturb nothing.
#[test]
fn a_mount_that_appears_meanwhile_is_not_seen() {
    let test = "elsewhere::a_mount_that_appears_meanwhile_is_not_seen";
    let place = if std::env::var_os(INSIDE).is_some() { None } else { Some(Place::new("appears")) };
    let mounts =
        "mount --make-rshared / 2>/dev/null; mkdir $BASE/project/m; echo low > $BASE/project/m/f";
    if place.as_ref().is_some_and(|place| !is_mounted(test, place, mounts)) {
        return;
    }
    let place = mounted_place();
    let script =
        "echo ready; read line < go; cat m/f; echo x > m/g; grep -c $P/m /proc/self/mountinfo";
    assert_eq!(place.plain("mkfifo go").code, Some(0));
    let (child, _, mut reader) = crate::place::start(&place.spec(script)).unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(&mut reader, &mut ready).unwrap();
    let mounted = place.plain("mount -t tmpfs none m && echo high > m/f && echo go > go");
    assert_eq!(mounted.code, Some(0), "{}", mounted.text);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    child.wait().unwrap();
    assert_eq!(text, "low\n0\n");
    assert_eq!(place.plain("ls m; umount m; ls m").text, "f\nf\ng\n");
}

#[test]
fn names_with_blanks_and_other_letters_are_names() {
    as_root_and_user("elsewhere::names_with_blanks_and_other_letters_are_names", || {
        for name in
            ["two  blanks ", "ärger-日本-😀", "new\nline", "quote'\"\\", "-rf", "$(touch x)"]
        {
            let place = Place::new(name);
            let kept = place.project.join(format!("kept {name}"));
            fs::write(&kept, "kept").unwrap();
            let mut spec =
                place.spec("echo x > made && echo x > \"$P\"/also && ! echo x > \"$0\" && pwd -P");
            spec.program.argv.push(kept.clone().into_os_string());
            spec.files.rules.push(rule(&kept, Access::Protected));
            let ran = run(&spec).unwrap();
            assert_eq!(ran.exit.code, Some(0), "{name}: {}", ran.text);
            assert!(ran.text.ends_with(&format!("{}\n", place.project.display())), "{}", ran.text);
            assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
            assert!(place.project.join("made").exists() && place.project.join("also").exists());
        }
    });
}

/// A command between check and use: a directory is exchanged for a link to elsewhere, over and over.
#[test]
fn a_directory_that_becomes_a_link_meanwhile_leads_nowhere_else() {
    as_root_and_user(
        "elsewhere::a_directory_that_becomes_a_link_meanwhile_leads_nowhere_else",
        || {
            let place = Place::new("swapped");
            fs::create_dir_all(place.project.join("sub/.agent")).unwrap();
            fs::write(place.project.join("sub/.agent/settings"), "kept").unwrap();
            fs::write(place.outside.join("file"), "kept").unwrap();
            let mut spec = place.spec(
            "mkdir real; ln -s sub/.agent link; cp /dev/null real/settings
             perl -e 'for (1..4000) { syscall(316, -100, $a = \"real\", -100, $b = \"link\", 2) }' &
             for i in $(seq 300); do echo x > real/settings; echo x > real/.guarded; rm -f real/settings; done 2>/dev/null
             perl -e 'for (1..4000) { unlink \"l\"; symlink \"f\", \"l\"; unlink \"l\"; symlink \"$ENV{O}/file\", \"l\" }' &
             for i in $(seq 300); do echo x > l; done 2>/dev/null; wait; exit 0",
        );
            let settings = place.project.join("sub/.agent/settings");
            spec.files.rules.push(rule(&settings, Access::Protected));
            assert_eq!(run(&spec).unwrap().exit.code, Some(0));
            assert_eq!(fs::read_to_string(&settings).unwrap(), "kept");
            assert_eq!(fs::read_to_string(place.outside.join("file")).unwrap(), "kept");
            assert!(!place.project.join("sub/.agent/.guarded").exists());
            assert!(!place.project.join("real/.guarded").exists());
        },
    );
}

#[test]
fn nothing_of_the_hosts_tree_lies_above_the_root() {
    as_root_and_user("elsewhere::nothing_of_the_hosts_tree_lies_above_the_root", || {
        let place = Place::new("above");
        fs::write(place.outside.join("secret"), "secret").unwrap();
        // The host's folder for temporary files holds a server.
        let socket = std::path::PathBuf::from(format!("/tmp/above-{}.sock", std::process::id()));
        let _ = fs::remove_file(&socket);
        let _server = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
        let hidden = [rule(&place.outside, Access::None)];
        let connect = |above: &str| {
            let path = socket.display();
            format!(
                "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"{above}{path}\") or exit 1'"
            )
        };
        for above in [
            "/..",
            "/usr/..",
            "/../..",
            "/proc/self/root/..",
            "/proc/self/cwd/../../../../../../../../..",
        ] {
            for script in [
                format!("cat {above}$O/secret"),
                format!("ls {above}$O"),
                format!("test -e {above}{}", socket.display()),
                format!("test -d {above}/proc/{}", std::process::id()),
                connect(above),
            ] {
                place.stops_with(&hidden, &script, || ());
            }
        }
        let _ = fs::remove_file(&socket);
        // The kernel says the same: one mount is the root, and the others lie below it.
        let roots = place.confined("awk '$5 == \"/\"' /proc/self/mountinfo");
        assert_eq!((roots.code, roots.text.lines().count()), (Some(0), 1), "{}", roots.text);
    });
}
