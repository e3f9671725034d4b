//! Files with several names, one of which lies where a run cannot write: no run changes them by the other.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use stockade_sandbox::spawn;
use stockade_spec::Stdio;

use crate::place::{Place, as_root_and_user, launcher, run, told};

const BEFORE: &str = "before\n";

/// Makes `outside/kept` anew, with the second name `project/linked`, and nothing else in the project.
fn reset(place: &Place) {
    for directory in [&place.project, &place.outside] {
        fs::remove_dir_all(directory).unwrap();
        fs::create_dir(directory).unwrap();
    }
    let kept = place.outside.join("kept");
    fs::write(&kept, BEFORE).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o640)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(&kept).unwrap().set_modified(old).unwrap();
    fs::hard_link(&kept, place.project.join("linked")).unwrap();
}

/// All that a person outside can see of a file but for its number of names.
fn state(path: &Path) -> (String, u32, u32, u32, i64, u64) {
    let found = fs::metadata(path).unwrap();
    let text = fs::read_to_string(path).unwrap();
    (text, found.mode(), found.uid(), found.gid(), found.mtime(), found.ino())
}

/// Runs `scripts` one after the other; each is a run of its own. They change the file plain, and not confined.
fn keeps(place: &Place, scripts: &[&str]) {
    let kept = place.outside.join("kept");
    reset(place);
    let before = state(&kept);
    for script in scripts {
        place.plain(script);
    }
    assert_ne!(state(&kept), before, "must change it unconfined: {scripts:?}");
    reset(place);
    let before = state(&kept);
    let mut said = String::new();
    for script in scripts {
        said += &place.confined(script).text;
    }
    assert_eq!(state(&kept), before, "must not change it confined: {scripts:?}\n{said}");
}

#[test]
fn a_file_with_a_name_outside_is_not_changed_by_the_one_inside() {
    as_root_and_user("shared::a_file_with_a_name_outside_is_not_changed_by_the_one_inside", || {
        let place = Place::new("shared");
        for scripts in [
            &["echo x > linked"][..],
            &["echo x >> linked"],
            &["perl -e 'truncate(\"linked\", 0)'"],
            &["perl -e 'truncate(\"linked\", 3)'"],
            &["perl -e 'open(F, \"+<\", \"linked\"); print F \"x\"'"],
            &["chmod 777 linked"],
            &["touch -d 2020-01-01 linked"],
            &["touch -c linked"],
            &["exec 5< linked; perl -e 'open(F, \"<&=5\"); chmod(0777, *F)'"],
            &["exec 5< linked; perl -e 'open(F, \"<&=5\"); utime(1, 1, *F)'"],
            &["exec 5< linked; chmod 777 /proc/self/fd/5"],
            // Its last name in the project goes, and what is open is left.
            &["exec 5< linked; rm linked; echo x > /proc/self/fd/5"],
            &["exec 5< linked; rm linked; chmod 777 /proc/self/fd/5"],
            &["exec 5< linked; echo y > other; mv other linked; echo x > /proc/self/fd/5"],
            &["exec 5< linked; echo y >> linked; echo x > /proc/self/fd/5"],
            // Further names, in one run and over several.
            &["ln linked b; echo x > b"],
            &["ln linked b; rm linked; echo x > b"],
            &["ln -s linked s; echo x > s"],
            &["mv linked b; echo x > b"],
            &["ln linked b", "rm linked; mv b c", "echo x >> c"],
            &["mkdir d; mv linked d/e", "cp -al d f; rm -r d", "chmod 777 f/e", "echo x > f/e"],
        ] {
            keeps(&place, scripts);
        }
    });
}

#[test]
fn the_name_inside_gets_a_copy_and_work_goes_on() {
    as_root_and_user("shared::the_name_inside_gets_a_copy_and_work_goes_on", || {
        let place = Place::new("copied");
        let linked = place.project.join("linked");
        reset(&place);
        let before = state(&linked);
        place.works("chmod 600 linked");
        let after = state(&linked);
        assert_eq!((after.0, after.1 & 0o777, after.4), (before.0, 0o600, before.4));
        assert_ne!(after.5, before.5);
        reset(&place);
        place.works(
            "echo after >> linked && test \"$(cat linked)\" = \"$(printf 'before\\nafter')\"",
        );
        assert_eq!(fs::metadata(&linked).unwrap().mode() & 0o777, 0o640);
        reset(&place);
        place.works("echo after > linked && test \"$(cat linked)\" = after");
        // A file that is not changed stays one file.
        reset(&place);
        place.works("cat linked && chmod 640 linked && ln linked b && test linked -ef b");
        assert_eq!(fs::metadata(&linked).unwrap().ino(), state(&place.outside.join("kept")).5);
        // Nothing is left of the way there.
        let mut names: Vec<_> =
            fs::read_dir(&place.project).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["b", "linked"]);
    });
}

#[test]
fn files_whose_names_are_all_of_the_run_stay_one() {
    as_root_and_user("shared::files_whose_names_are_all_of_the_run_stay_one", || {
        let place = Place::new("one");
        place.works("echo a > f; ln f g; ln g h; rm g; echo b > f; chmod 700 f; test \"$(cat h)\" = b && test f -ef h");
        // One that had one name before the run is the run's as well.
        place.works("rm h; true");
        place.works("ln f i && echo c > i && test \"$(cat f)\" = c && test f -ef i");
        // In a later run nobody knows where the names are: the one that is written gets a copy.
        place.works("echo d > i && test \"$(cat f)\" = c && test \"$(cat i)\" = d");
    });
}

#[test]
fn a_large_file_is_refused_with_a_way_to_go_on() {
    as_root_and_user("shared::a_large_file_is_refused_with_a_way_to_go_on", || {
        let place = Place::new("large");
        reset(&place);
        let kept = place.outside.join("kept");
        let file = fs::File::options().write(true).open(&kept).unwrap();
        file.set_len((64 << 20) + 1).unwrap();
        drop(file);
        let length = || fs::metadata(&kept).unwrap().len();
        let spec = place.spec("echo x >> linked");
        let ran = run(&spec).unwrap();
        let linked = place.project.join("linked");
        // Where the file system shares the bytes there is no limit.
        if ran.exit.code != Some(0) {
            let rule = "builtin: file with several names, and of more than 67108864 bytes";
            assert_eq!(told(&ran), [("write", "open", linked.to_str().unwrap(), rule)]);
            assert_ne!(place.confined("chmod 777 linked").code, Some(0));
            place.works("cp linked copy && mv copy linked && echo x >> linked");
            assert_eq!(fs::metadata(&linked).unwrap().len(), (64 << 20) + 3);
        }
        assert_eq!(length(), (64 << 20) + 1);
        fs::remove_file(&linked).unwrap();
        fs::hard_link(&kept, &linked).unwrap();
        // A file that is emptied needs no copy.
        place.works("echo x > linked");
        assert_eq!(
            (length(), fs::read_to_string(&linked).unwrap()),
            ((64 << 20) + 1, "x\n".into())
        );
    });
}

#[test]
fn attributes_change_as_without_a_supervisor() {
    as_root_and_user("shared::attributes_change_as_without_a_supervisor", || {
        let place = Place::new("attributes");
        let script = "umask 022; rm -rf a; mkdir a; cd a; echo x > f; ln -s f s; ln -s none dangling; mkfifo p; mkdir d
            chmod 641 f; chmod 1777 d; chmod 700 s; chmod 755 none; chmod 711 p; chmod -R go-w d
            touch -d @1000000000.5 f; touch -h -d @1000000001 s; touch -h -d @1000000002 dangling; touch -d @3 d/new; touch -d @4 none2
            chown $(id -u) f; chown -h $(id -u):$(id -g) dangling;
            perl -e 'utime(5, 6, \"p\") or print \"utime $!\\n\"; utime(undef, undef, \"nothing\") or print \"nothing $!\\n\"'
            perl -e 'open(F, \"<\", \"f\"); chmod(0604, *F) or print \"fchmod $!\\n\"; utime(7, 8, *F); chown(-1, -1, *F) or print \"fchown $!\\n\"'
            chown 0 /nonexistent; chmod 600 f/x
            exec 7> memory; rm memory; chmod 604 /proc/self/fd/7 && stat -L -c %a /proc/self/fd/7
            cp -a f g; cp -a s t; touch -r f none2; touch -d @9 d; stat -c '%n %a %u %g %F %Y %x' f g p d none2 d/new | sed 's/ [0-9-]* [0-9:.]* +0000$//'
            stat -c '%n %Y' dangling s t f g";
        let plain = place.plain(script);
        let confined = place.confined(&format!("exec 2>&1\n{script}"));
        assert_eq!(confined.text, plain.text);
    });
}

#[test]
fn a_file_of_the_host_that_is_a_stream_keeps_its_mode() {
    as_root_and_user("shared::a_file_of_the_host_that_is_a_stream_keeps_its_mode", || {
        let place = Place::new("stream");
        reset(&place);
        let kept = place.outside.join("kept");
        let act = "perl -e 'chmod(0777, *STDIN); utime(1, 1, *STDIN)'; chmod 777 /proc/self/fd/0";
        place.plain(&format!("exec < $O/kept; {act}"));
        assert_eq!(state(&kept).1 & 0o777, 0o777, "must work unconfined");
        reset(&place);
        let before = state(&kept);
        let stdin = fs::File::open(&kept).unwrap().into();
        let [stdout, stderr] =
            [1, 2].map(|_| fs::File::options().write(true).open("/dev/null").unwrap().into());
        let streams = Stdio { stdin, stdout, stderr };
        let (child, _) = spawn(launcher(), &place.spec(act), streams).unwrap();
        child.wait_with_violations().unwrap();
        assert_eq!(state(&kept), before);
    });
}
