//! The view of a run, built in namespaces of its own and looked at from inside.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::process::Command;

use super::*;
use stockade_spec::{Access, Cache, Fallback, Files, Mediation, Network, Program, Shown};

/// Directory over which each test mounts a file system of its own.
const PLACE: &str = "/mnt";
/// Outcome of writing where nothing can be written.
const READ_ONLY: &str = "ReadOnlyFilesystem";

/// Runs `body` as root of a user and a mount namespace of its own, and with `own_processes` of a process namespace: the test of
/// this name, in another process.
fn inside(name: &str, own_processes: bool, body: fn()) {
    const VARIABLE: &str = "STOCKADE_TEST_NAMESPACES";
    if std::env::var_os(VARIABLE).is_some() {
        return body();
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount"]);
    command.args(if own_processes { &["--pid", "--fork"][..] } else { &[] });
    command.arg("--").arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("mounts::tests::{name}")]);
    command.args(["--nocapture", "--test-threads=1"]).env(VARIABLE, "1");
    let output = command.output().expect("unshare of util-linux");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{}\n{said}\n{complained}", output.status);
}

/// Returns the directories of a store for the changes of a cache.
fn store(name: &str) -> [String; 2] {
    ["upper/", "work/"].map(|part| format!("{name}/{part}"))
}

fn at(name: &str) -> PathBuf {
    Path::new(PLACE).join(name)
}

fn rule(name: &str, access: Access) -> FileRule {
    FileRule { path: at(name), access, origin: format!("rule of {name}") }
}

fn spec(rules: Vec<FileRule>) -> SandboxSpec {
    let (argv, environment) = (Vec::new(), Vec::new());
    SandboxSpec {
        program: Program { path: "/bin/true".into(), argv, environment, cwd: "/".into() },
        files: Files { rules, ..Files::default() },
        network: Network::Off,
        limits: Limits::default(),
        terminal: None,
        required: BTreeSet::new(),
        mediation: Mediation::Writes,
        confine: true,
        fallback: Fallback::Refuse,
    }
}

/// Mounts an empty file system at [`PLACE`] and makes these there ([`furnish_at`]).
fn furnish(names: &[&str]) {
    furnish_at(PLACE, names);
}

/// Mounts an empty file system without options at `place` and makes these there: directories, where the name ends with a slash,
/// or files that hold their own name.
fn furnish_at(place: &str, names: &[&str]) {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mount = syscalls::new_file_system(c"tmpfs", &[(c"mode", c"0755")], 0).unwrap();
    syscalls::attach(mount.as_fd(), open(Path::new(place)).unwrap().as_fd()).unwrap();
    for name in names {
        let path = Path::new(place).join(name);
        if name.ends_with('/') {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
    }
}

fn build(spec: &SandboxSpec) -> Built {
    Stage::new().unwrap().build(spec, Foreign::default()).unwrap()
}

fn outcome<T>(result: io::Result<T>, good: impl FnOnce(T) -> String) -> String {
    result.map_or_else(|error| format!("{:?}", error.kind()), good)
}

/// Returns what reading finds: the names in a directory, the text of a file, or the error.
fn read(path: &Path) -> String {
    if !path.is_dir() {
        return outcome(fs::read_to_string(path), |text| text);
    }
    outcome(fs::read_dir(path), |found| {
        let names = found.map(|it| it.unwrap().file_name().to_string_lossy().into_owned());
        let names: BTreeSet<String> = names.collect();
        format!("[{}]", names.into_iter().collect::<Vec<_>>().join(" "))
    })
}

/// Makes a file in a directory, or opens another file for writing, and returns the outcome.
fn write(path: &Path) -> String {
    let is_directory = path.is_dir();
    let path = if is_directory { path.join("new") } else { path.to_owned() };
    let opened = OpenOptions::new().append(true).create(is_directory).open(path);
    outcome(opened, |_| "writable".to_owned())
}

/// Returns place and options of the mounts at and below `top`, sorted (`proc_pid_mountinfo(5)`).
fn mounted(top: &str) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut found = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        // Others are covered by the file system of the test.
        if Path::new(fields[4]).starts_with(top) && Path::new(fields[4]).exists() {
            found.push(format!("{} {}", fields[4], fields[5].replace(",relatime", "")));
        }
    }
    found.sort();
    found
}

/// Returns the options of the mount that is seen at `path` (`statvfs(3)`).
fn options(path: &str) -> String {
    use rustix::fs::StatVfsMountFlags as Flags;
    let flags = rustix::fs::statvfs(path).unwrap().f_flag;
    let access = if flags.contains(Flags::RDONLY) { "ro" } else { "rw" };
    let mut found = vec![access];
    for (flag, name) in
        [(Flags::NOSUID, "nosuid"), (Flags::NODEV, "nodev"), (Flags::NOEXEC, "noexec")]
    {
        found.extend(flags.contains(flag).then_some(name));
    }
    found.join(",")
}

#[test]
fn each_path_is_seen_as_the_rules_say() {
    inside("each_path_is_seen_as_the_rules_say", true, || {
        let names = ["src/lib.rs", ".git/config", ".git/hooks/"].map(|it| format!("project/{it}"));
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.extend(["secret/key", "secret/shown/text", "closed/file", "token", "lent", "other"]);
        furnish(&names);
        let mut spec = spec(vec![
            rule("project", Access::Write),
            rule("project/.git/config", Access::Protected),
            rule("secret", Access::None),
            rule("secret/shown", Access::Read),
            rule("closed", Access::None),
            rule("token", Access::None),
            rule("lent", Access::None),
            rule("absent", Access::Write),
        ]);
        spec.files.copies = vec![Shown { path: at("lent"), text: "a text of ours".into() }];
        let built = build(&spec);
        assert_eq!(built.absent, [rule("absent", Access::Write)]);
        assert_eq!(built.notes, <[String; 0]>::default());
        for (name, content, access, mode) in VIEWS {
            let path = at(name);
            let found = fs::symlink_metadata(&path).map_or(0, |found| found.mode() & 0o7777);
            let found = (read(&path), write(&path), found);
            assert_eq!(found, ((*content).to_owned(), (*access).to_owned(), *mode), "{name}");
        }
        let moved = fs::rename(at("project/.git"), at("project/moved"));
        assert_eq!(moved.map_err(|error| error.kind()), Err(io::ErrorKind::ResourceBusy));
        assert_eq!(mounted(PLACE), MOUNTED);
    });
}

/// Content, access and mode of each path in the run of the rules above.
const VIEWS: &[(&str, &str, &str, u32)] = &[
    ("", "[closed lent other project secret token]", READ_ONLY, 0o755),
    ("project", "[.git src]", "writable", 0o755),
    ("project/src/lib.rs", "project/src/lib.rs", "writable", 0o644),
    ("project/.git", "[config hooks]", "writable", 0o755),
    ("project/.git/config", "project/.git/config", READ_ONLY, 0o644),
    ("secret", "[shown]", READ_ONLY, 0o111),
    ("secret/key", "NotFound", "NotFound", 0),
    ("secret/shown", "[text]", READ_ONLY, 0o755),
    ("secret/shown/text", "secret/shown/text", READ_ONLY, 0o644),
    ("closed", "[]", READ_ONLY, 0),
    ("closed/file", "NotFound", "NotFound", 0),
    ("token", "", READ_ONLY, 0),
    ("lent", "a text of ours", READ_ONLY, 0o444),
    ("other", "other", READ_ONLY, 0o644),
];

/// Mounts of that run, with their options.
const MOUNTED: [&str; 9] = [
    "/mnt ro,nosuid,nodev",
    "/mnt/closed ro,nosuid,nodev,noexec",
    "/mnt/lent ro,nosuid,nodev,noexec",
    "/mnt/project rw,nosuid,nodev",
    "/mnt/project/.git rw,nosuid,nodev",
    "/mnt/project/.git/config ro,nosuid,nodev",
    "/mnt/secret ro,nosuid,nodev,noexec",
    "/mnt/secret/shown ro,nosuid,nodev",
    "/mnt/token ro,nosuid,nodev,noexec",
];

#[test]
fn devices_are_the_own_ones_and_what_tells_of_the_kernel_is_covered() {
    inside("devices_are_the_own_ones_and_what_tells_of_the_kernel_is_covered", true, || {
        furnish(&[]);
        let there = |top: &str, names: &[&str]| -> Vec<PathBuf> {
            let paths = names.iter().map(|name| Path::new(top).join(name));
            paths.filter(|path| path.exists()).collect()
        };
        let [directories, files] = PROC_MASKS.map(|names| there("/proc", names));
        let of_sys = there("/sys", SYS_MASKS[0]);
        assert!(files.len() > 3, "{files:?}");
        build(&spec(Vec::new()));
        let dev = Path::new("/dev");
        let names = "[fd full null ptmx pts random shm stderr stdin stdout tty urandom zero]";
        assert_eq!((read(dev).as_str(), write(dev).as_str()), (names, READ_ONLY));
        for name in DEVICES {
            let kind = fs::symlink_metadata(dev.join(name)).unwrap().file_type();
            assert!(kind.is_char_device(), "{name}");
        }
        fs::write("/dev/null", "x").unwrap();
        assert_eq!(fs::read_link("/dev/ptmx").unwrap(), Path::new("pts/ptmx"));
        assert_eq!(fs::read_link("/dev/stderr").unwrap(), Path::new("/proc/self/fd/2"));
        assert_eq!(read(Path::new("/dev/pts")), "[ptmx]");
        assert_eq!(write(Path::new("/dev/shm")), "writable");
        assert_eq!(options("/dev"), "ro,nosuid,nodev,noexec");
        for name in DEVICES {
            assert_eq!(options(&format!("/dev/{name}")), "ro,nosuid,noexec");
        }
        assert_eq!(options("/dev/pts"), "rw,nosuid,noexec");
        assert_eq!(options("/dev/shm"), "rw,nosuid,nodev,noexec");
        for path in directories.iter().chain(&of_sys) {
            assert_eq!((read(path).as_str(), write(path).as_str()), ("[]", READ_ONLY));
        }
        for path in &files {
            let mode = fs::metadata(path).unwrap().mode() & 0o7777;
            assert_eq!((read(path).as_str(), mode), ("", 0), "{}", path.display());
        }
    });
}

#[test]
fn numbers_of_processes_and_temporary_directories_are_the_own_ones() {
    inside("numbers_of_processes_and_temporary_directories_are_the_own_ones", true, || {
        furnish(&[]);
        let built = build(&spec(Vec::new()));
        assert_eq!((built.has_proc, built.proc_reason.as_str()), (true, ""));
        assert_eq!(fs::read_link("/proc/self").unwrap(), Path::new("1"));
        assert_eq!(write(Path::new("/proc/self/comm")), READ_ONLY);
        assert!(built.refuses_nesting);
        assert_eq!(read(Path::new("/proc/sys/user/max_user_namespaces")), "0\n");
        let counts = syscalls::kernel_version() >= (6, 14);
        assert_eq!(built.counts_processes, counts);
        if counts {
            assert_eq!(read(Path::new("/proc/sys/kernel/pid_max")), "2348\n");
        }
        for path in private_directories() {
            let expected = if path.ends_with("run") { READ_ONLY } else { "writable" };
            assert_eq!((read(&path).as_str(), write(&path).as_str()), ("[]", expected));
        }
        assert_eq!(write(Path::new("/")), READ_ONLY);
    });
}

#[test]
fn landlock_gets_a_grant_for_what_is_writable_and_for_what_is_the_own() {
    inside("landlock_gets_a_grant_for_what_is_writable_and_for_what_is_the_own", true, || {
        let [upper, scratch] = store("store");
        furnish(&["a/", "b", "c/", &upper, &scratch]);
        let mut spec = spec(vec![
            rule("a", Access::Write),
            rule("b", Access::Write),
            rule("a/none", Access::Write),
        ]);
        spec.files.caches = vec![Cache { path: at("c"), store: at("store") }];
        let private = private_directories().iter().filter(|it| !it.ends_with("run")).count();
        let built = build(&spec);
        let names: Vec<Rights> = built.grants.iter().map(|(_, grant)| *grant).collect();
        let mut expected = vec![Rights::Write, Rights::File];
        expected.extend(vec![Rights::Write; private]);
        expected.push(Rights::Write); // the cache
        expected.extend(vec![Rights::Device; DEVICES.len() + 1]);
        expected.extend([Rights::Read, Rights::Write]);
        assert_eq!(names, expected);
        let kinds: Vec<Kind> =
            built.grants.iter().map(|(object, _)| Kind::of(object).unwrap()).collect();
        assert_eq!(kinds[..2], [Kind::Directory, Kind::File]);
        assert_eq!(kinds[kinds.len() - 2..], [Kind::Directory, Kind::Directory]);
    });
}

#[test]
fn limits_of_the_spec_hold_for_memory_and_numbers() {
    inside("limits_of_the_spec_hold_for_memory_and_numbers", true, || {
        furnish(&[]);
        let mut spec = spec(Vec::new());
        spec.limits.shm_bytes = 1 << 16;
        spec.limits.processes = 100;
        let built = build(&spec);
        for directory in ["/dev/shm", "/tmp"] {
            let file = Path::new(directory).join("large");
            fs::write(&file, vec![1; 1 << 15]).unwrap();
            let more = fs::write(&file, vec![1; 1 << 17]).map_err(|error| error.kind());
            assert_eq!(more, Err(io::ErrorKind::StorageFull), "{directory}");
        }
        if built.counts_processes {
            assert_eq!(read(Path::new("/proc/sys/kernel/pid_max")), "400\n");
        }
        // The descriptor for measuring is of the same file system.
        let used = syscalls::used_bytes(built.shm.as_fd()).unwrap();
        assert!((1 << 15..=1 << 16).contains(&used), "{used}");
    });
}

#[test]
fn the_temporary_directory_of_a_run_is_shown_at_its_places() {
    inside("the_temporary_directory_of_a_run_is_shown_at_its_places", true, || {
        furnish(&["state/tmp/before"]);
        let mut spec = spec(Vec::new());
        spec.files.private_tmp = Some(at("state/tmp"));
        build(&spec);
        assert_eq!(write(Path::new("/tmp")), "writable");
        for directory in ["/tmp", "/var/tmp", "/mnt/state/tmp"] {
            assert_eq!(read(Path::new(directory)), "[before new]", "{directory}");
        }
        assert_eq!(write(&at("state/tmp")), READ_ONLY);
        assert_eq!(options("/tmp"), "rw,nosuid,nodev");
    });
}

#[test]
fn a_cache_is_read_and_its_changes_go_to_the_store() {
    inside("a_cache_is_read_and_its_changes_go_to_the_store", true, || {
        let stores = ["s", "f"].map(store).concat();
        let mut names: Vec<&str> = stores.iter().map(String::as_str).collect();
        names.extend(["cache/a", "other/b", "third/c", "file", "half/upper/", "hidden/x"]);
        furnish(&names);
        let mut spec = spec(vec![rule("hidden", Access::None)]);
        let cache = |path: &str, store: &str| Cache { path: at(path), store: at(store) };
        spec.files.caches = vec![
            cache("cache", "s"),
            cache("none", "s"),
            cache("file", "f"),
            cache("other", "nowhere"),
            cache("third", "half"),
            cache("hidden", "s"),
        ];
        let built = build(&spec);
        // A store that cannot be used is replaced by memory, and one that is not there is told.
        assert_eq!(built.caches, [at("cache"), at("third")]);
        let note = |path: &str, why: &str| {
            format!("the cache `/mnt/{path}` can be read and not written: {why}")
        };
        assert_eq!(
            built.notes,
            [
                note("file", "not a directory"),
                note("other", "there is no store for the changes of the command"),
                note("hidden", "it is hidden"),
            ]
        );
        for (name, expected) in [("cache", "[a new]"), ("third", "[c new]")] {
            assert_eq!(
                (write(&at(name)).as_str(), read(&at(name)).as_str()),
                ("writable", expected)
            );
        }
        assert_eq!(read(&at("s/upper")), "[new]");
        assert_eq!(read(&at("half/upper")), "[]");
        assert_eq!(mounted("/mnt/cache"), ["/mnt/cache rw,nosuid,nodev"]);
        assert_eq!(write(&at("other")), READ_ONLY);
    });
}

#[test]
fn what_the_supervisor_keeps_is_not_covered() {
    inside("what_the_supervisor_keeps_is_not_covered", true, || {
        let built = with_supervised_files();
        assert!(built.has_proc);
        for name in SUPERVISED {
            assert_eq!(write(&at(name)), "writable", "{name}");
        }
    });
}

#[test]
fn where_no_processes_can_be_shown_nothing_is_left_to_a_supervisor() {
    inside("where_no_processes_can_be_shown_nothing_is_left_to_a_supervisor", false, || {
        let built = with_supervised_files();
        assert!(!built.has_proc && !built.counts_processes && !built.refuses_nesting);
        let reason = "the kernel refuses a new `/proc`: ";
        assert!(built.proc_reason.starts_with(reason), "{}", built.proc_reason);
        let proc = Path::new("/proc");
        assert_eq!((read(proc).as_str(), write(proc).as_str()), ("[]", READ_ONLY));
        for name in SUPERVISED {
            assert_eq!(write(&at(name)), READ_ONLY, "{name}");
        }
    });
}

const SUPERVISED: [&str; 2] = ["project/config", "project/ignored"];

fn with_supervised_files() -> Built {
    furnish(&SUPERVISED);
    let protected = SUPERVISED.map(|name| rule(name, Access::Protected));
    let mut spec = spec([&[rule("project", Access::Write)][..], &protected].concat());
    spec.files.git_configurations = vec![at(SUPERVISED[0])];
    spec.files.removable = vec![at(SUPERVISED[1])];
    build(&spec)
}

#[test]
fn a_rule_for_the_whole_tree_is_refused() {
    inside("a_rule_for_the_whole_tree_is_refused", true, || {
        furnish(&[]);
        let whole = FileRule { path: "/".into(), ..rule("", Access::Write) };
        let built = Stage::new().unwrap().build(&spec(vec![whole]), Foreign::default());
        let reason = "`/` cannot be a writable region".to_owned();
        assert_eq!(built.err(), Some(Failure::Spec { reason }));
    });
}

#[test]
fn what_rules_show_in_a_directory_of_the_own_gets_mount_points_there() {
    inside("what_rules_show_in_a_directory_of_the_own_gets_mount_points_there", true, || {
        furnish(&[]);
        furnish_at("/tmp", &["a/file", "a/folder/x", "hidden"]);
        let rule = |path: &str, access| FileRule { path: path.into(), ..rule("", access) };
        build(&spec(vec![
            rule("/tmp/a/file", Access::ReadOnly),
            rule("/tmp/a/folder", Access::Write),
            rule("/tmp/a/folder/x", Access::ReadOnly),
        ]));
        for (path, content, access) in [
            ("/tmp", "[a]", "writable"),
            ("/tmp/a", "[file folder]", "writable"),
            ("/tmp/a/file", "a/file", READ_ONLY),
            ("/tmp/a/folder", "[x]", "writable"),
            ("/tmp/a/folder/x", "a/folder/x", READ_ONLY),
        ] {
            let path = Path::new(path);
            assert_eq!((read(path).as_str(), write(path).as_str()), (content, access), "{path:?}");
        }
    });
}

#[test]
fn a_name_is_masked_whatever_kind_of_object_has_it() {
    inside("a_name_is_masked_whatever_kind_of_object_has_it", true, || {
        furnish(&["file", "folder/x", "other", "more/y"]);
        let mut stage = Stage::new().unwrap();
        let place = open(Path::new(PLACE)).unwrap();
        let names: [&[&str]; 2] = [&["file", "none", "more"], &["folder", "nothing", "other"]];
        stage.mask_each(&place, Path::new(PLACE), &names).unwrap();
        for (name, expected) in [("file", ""), ("folder", "[]"), ("more", "[]"), ("other", "")] {
            let mode = fs::metadata(at(name)).unwrap().mode() & 0o7777;
            assert_eq!((read(&at(name)).as_str(), mode), (expected, 0), "{name}");
        }
    });
}

#[test]
fn an_object_of_another_kind_at_a_mount_point_was_exchanged() {
    let path = Path::new("/p");
    let error = |number| Err(io::Error::from_raw_os_error(number));
    assert_eq!(attached("attach", path, Ok(())), Ok(()));
    assert_eq!(attached("attach", path, error(libc::EINVAL)), Err(exchanged(path)));
    let refused = failed("attach", path, error(libc::EPERM));
    assert_eq!(attached("attach", path, error(libc::EPERM)), refused);
}

#[test]
fn as_many_files_may_be_open_as_the_hard_limit_allows() {
    inside("as_many_files_may_be_open_as_the_hard_limit_allows", true, || {
        let (_, hard) = syscalls::limit(libc::RLIMIT_NOFILE).unwrap();
        syscalls::set_limit(libc::RLIMIT_NOFILE, hard / 2, hard).unwrap();
        furnish(&[]);
        build(&spec(Vec::new()));
        assert_eq!(syscalls::limit(libc::RLIMIT_NOFILE).unwrap(), (hard, hard));
    });
}
