//! Input and files that are broken, missing or in the way: each ends with one clear line, one thing to try, status 122 and a
//! stable code, soon, and nothing has run. As the user who tests and, where root tests, as an ordinary user too.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use stockade_tests::{Place, is_root, skip};

/// The ordinary user, where root tests.
const NOBODY: u32 = 65534;
/// A command that would leave a file behind.
const MARK: &str = "touch made-by-the-command";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn users() -> Vec<Option<u32>> {
    if is_root() { vec![None, Some(NOBODY)] } else { vec![None] }
}

/// Returns `stockade` for the user who tests, or for another.
fn command<A: AsRef<std::ffi::OsStr>>(
    place: &Place,
    user: Option<u32>,
    arguments: &[A],
) -> Command {
    match user {
        None => place.stockade(arguments),
        Some(uid) => place.stockade_as(uid, arguments),
    }
}

/// Asserts that `output` is one refusal of stockade itself: its line, a thing to try, status and, with `--json`, its
/// code; and that nothing ran.
#[track_caller]
fn assert_refused(place: &Place, output: &Output, begins: &str, code: &str) {
    let stderr = text(&output.stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(output.status.code(), Some(122), "{stderr}");
    assert_eq!(lines.len(), 2, "{stderr}");
    assert!(lines[0].starts_with(begins), "`{stderr}` does not begin with `{begins}`");
    assert!(lines[1].starts_with("  try: ") && lines[1].len() > 12, "{stderr}");
    let object: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)));
    assert_eq!(object["error"]["code"], code, "{object}");
    assert!(object["error"]["help"].as_str().is_some_and(|help| !help.is_empty()), "{object}");
    assert!(!place.project().join("made-by-the-command").exists(), "it ran: {stderr}");
}

/// Runs the command with these options as each user, in places that `prepare` makes odd, and asserts the refusal.
#[track_caller]
fn check(prepare: impl Fn(&Place), options: &[&str], begins: &str, code: &str) {
    for user in users() {
        check_as(user, &prepare, options, begins, code);
    }
}

#[track_caller]
fn check_as(
    user: Option<u32>,
    prepare: &impl Fn(&Place),
    options: &[&str],
    begins: &str,
    code: &str,
) {
    let place = Place::new("bad");
    let arguments = [&["run", "--no-daemon", "--json"], options, &["--", MARK]].concat();
    prepare(&place);
    let mut command = command(&place, user, &arguments);
    let start = Instant::now();
    let output = command.output().expect("it starts");
    assert!(start.elapsed() < Duration::from_secs(60), "it took {:?}", start.elapsed());
    assert_refused(&place, &output, begins, code);
}

fn user_file(place: &Place) -> PathBuf {
    let folder = place.home().join(".config/stockade");
    fs::create_dir_all(&folder).expect("a folder");
    folder.join("settings.json")
}

fn project_file(place: &Place) -> PathBuf {
    fs::create_dir_all(place.project().join(".stockade")).expect("a folder");
    place.project().join(".stockade/settings.json")
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
}

#[test]
fn settings_that_are_no_settings_are_rejected_with_their_place() {
    for (settings, place_of_it) in [
        ("{\n  \"permissions\": {,}\n}", ":2:19: "),
        ("{", ":1:2: "),
        ("[]", ":1:1: "),
        ("", ":1:1: "),
        ("\u{feff}", ":1:1: "),
        ("\u{feff}{\"shell\": 1}", ":1:11: "),
        ("# mine\n{}", ":1:1: "),
        ("{\"shell\": 1}", ":1:11: "),
        ("{\"a\":1,\"a\":2}", ""),
    ] {
        let write = |place: &Place| fs::write(user_file(place), settings).expect("settings");
        check(write, &[], "stockade: settings are rejected: ", "settings_rejected");
        let place = Place::new("bad-place");
        write(&place);
        let told = text(&place.output(["check", MARK]).stderr);
        assert!(told.contains(&format!("settings.json{place_of_it}")), "{told}");
    }
}

#[test]
fn a_nul_in_settings_is_rejected() {
    for (settings, at) in [
        (r#"{"permissions":{"deny":["Bash(a\u0000b)"]}}"#, "1:25"),
        (r#"{"permissions":{"deny\u0000":[]}}"#, "1:17"),
        (r#"{"env":{"A":"\u0000"}}"#, "1:13"),
    ] {
        let begins = format!(
            "stockade: settings are rejected: <--settings>:{at}: a string contains a NUL byte"
        );
        check(|_| {}, &["--settings", settings], &begins, "settings_rejected");
    }
    let place = Place::new("backslash");
    let plain = r#"{"permissions":{"deny":["Bash(a\\u0000b)"]}}"#;
    assert_eq!(place.output(["run", "--settings", plain, "true"]).status.code(), Some(0));
}

#[test]
fn what_stands_in_the_place_of_settings_is_named() {
    let unreadable = "stockade: the settings file `";
    for file in [user_file, project_file] {
        check(
            |it| fs::create_dir(file(it)).expect("mkdir"),
            &[],
            unreadable,
            "settings_unreadable",
        );
        let fifo = |it: &Place| {
            let made = Command::new("mkfifo").arg(file(it)).status();
            assert!(made.expect("mkfifo").success());
        };
        check(fifo, &[], unreadable, "settings_unreadable");
        let circle =
            |it: &Place| symlink(file(it).file_name().expect("a name"), file(it)).expect("a link");
        check(circle, &[], unreadable, "settings_unreadable");
        let nothing = |it: &Place| symlink("/nowhere/at/all", file(it)).expect("a link");
        check(nothing, &[], unreadable, "settings_unreadable");
        let large = |it: &Place| {
            let made = fs::File::create(file(it)).expect("a file");
            made.set_len(50 << 20).expect("a length");
        };
        check(large, &[], unreadable, "settings_rejected");
        let plain = |it: &Place| {
            let folder = file(it).parent().expect("a folder").to_path_buf();
            fs::remove_dir(&folder).expect("rmdir");
            fs::write(folder, "").expect("a file");
        };
        check(plain, &[], unreadable, "settings_unreadable");
        let link = |it: &Place| {
            let folder = file(it).parent().expect("a folder").to_path_buf();
            fs::remove_dir(&folder).expect("rmdir");
            symlink("/nowhere/at/all", folder).expect("a link");
        };
        check(link, &[], unreadable, "settings_unreadable");
    }
    // A path of a socket is short (unix(7)), so it is bound under another name.
    let place = Place::new("bad");
    let short = Path::new("/tmp").join(format!("stockade-{}", std::process::id()));
    // An earlier run that was killed may have had this number.
    drop(fs::remove_file(&short));
    symlink(place.project(), &short).expect("a link");
    let _listener = UnixListener::bind(short.join("s")).expect("a socket");
    fs::remove_file(&short).expect("the link goes");
    fs::rename(place.project().join("s"), project_file(&place)).expect("it moves");
    let output = place.output(["run", "--json", MARK]);
    assert_refused(&place, &output, unreadable, "settings_unreadable");
}

#[test]
fn a_folder_of_settings_in_a_project_is_no_link() {
    let link = |place: &Place| {
        fs::create_dir(place.root.join("elsewhere")).expect("mkdir");
        symlink("../elsewhere", place.project().join(".stockade")).expect("a link");
    };
    check(link, &[], "stockade: the settings file `", "settings_unreadable");
}

#[test]
fn what_an_ordinary_user_may_not_read_or_write_is_named() {
    let user = if is_root() { Some(NOBODY) } else { None };
    let secret = |place: &Place| {
        fs::write(user_file(place), "{}").expect("settings");
        mode(&user_file(place), 0o000);
    };
    check_as(user, &secret, &[], "stockade: the settings file `", "settings_unreadable");
    let closed = |place: &Place| {
        fs::write(user_file(place), "{}").expect("settings");
        mode(user_file(place).parent().expect("a folder"), 0o000);
    };
    check_as(user, &closed, &[], "stockade: the settings file `", "settings_unreadable");
    let project = |place: &Place| mode(&place.project(), 0o555);
    check_as(user, &project, &[], "stockade: the project `", "directory_unusable");
    let state = |place: &Place| mode(&place.root.join("state"), 0o500);
    check_as(user, &state, &[], "stockade: the state directory `", "state_unusable");
}

#[test]
fn places_that_cannot_be_used_are_named() {
    let file = |place: &Place| place.write("file", "");
    let state = "stockade: the state directory `";
    check(file, &["--state-dir", "../file"], state, "state_unusable");
    check(file, &["--state-dir", "../file/below"], state, "state_unusable");
    check(file, &["--state-dir", "/proc/nothing"], state, "state_unusable");
    check(file, &["--audit-dir", "../file"], "stockade: audit log ", "audit_unavailable");
    let directory = "stockade: the directory `";
    for option in ["--cwd", "--project", "--add-dir"] {
        check(file, &[option, "../file"], directory, "directory_unusable");
        check(file, &[option, "/nowhere/at/all"], directory, "directory_unusable");
    }
    check(
        file,
        &["--settings", "nowhere.json"],
        "stockade: the settings file `",
        "settings_unreadable",
    );
    let place = Place::new("bad");
    let output = place.output(["run", "--json", "--socket", "none.sock", MARK]);
    assert_refused(
        &place,
        &output,
        "stockade: none of your gateways answers",
        "gateway_unreachable",
    );
}

#[test]
fn a_working_directory_that_is_gone_is_named() {
    for user in users() {
        for subcommand in ["run", "check"] {
            let place = Place::new("bad");
            let inner = command(&place, user, &[subcommand, "--no-daemon", "--json", MARK]);
            let gone = place.root.join("gone");
            fs::create_dir(&gone).expect("mkdir");
            let mut shell = Command::new("sh");
            shell.args(["-c", "rmdir ../gone && exec \"$@\"", "sh"]).arg(inner.get_program());
            shell.args(inner.get_args()).env_clear();
            shell.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
            let output = shell.current_dir(&gone).output().expect("sh");
            let begins = "stockade: the working directory cannot be used";
            assert_refused(&place, &output, begins, "directory_unusable");
        }
    }
}

/// Directories that hold more than one project are not writable as a whole, and that is told.
#[test]
fn the_home_directory_and_the_root_are_no_project() {
    let place = Place::new("too-wide");
    for folder in [place.home(), PathBuf::from("/")] {
        let act = "echo x > made-by-the-test; cat made-by-the-test";
        let mut command = place.stockade(["run", "--no-daemon", "--project"]);
        command.arg(&folder).args(["--", act]);
        let output = command.current_dir(&folder).output().expect("the executable starts");
        let stderr = text(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{stderr}");
        assert!(!folder.join("made-by-the-test").exists(), "{stderr}");
        let notice = format!("nothing in `{}` is writable", folder.display());
        assert!(stderr.contains(&notice), "{stderr}");
        let mut command = place.stockade(["run", "--no-daemon", "--", "pwd"]);
        let output = command.current_dir(&folder).output().expect("the executable starts");
        assert_eq!(text(&output.stdout), format!("{}\n", folder.display()));
    }
}

#[test]
fn a_shell_that_is_none_is_named() {
    for (shell, begins) in [
        ("/nowhere/bash", "stockade: invalid setting `shell`: `/nowhere/bash` is not a program"),
        ("/etc/passwd", "stockade: invalid setting `shell`: `/etc/passwd` is not a program"),
        ("/bin/true", "stockade: `/bin/true` does not report a version of bash"),
    ] {
        let settings = format!("{{\"shell\": \"{shell}\"}}");
        check(|_| {}, &["--settings", &settings], begins, "shell_missing");
    }
}

#[test]
fn a_kernel_without_user_namespaces_is_named() {
    let name = "a_kernel_without_user_namespaces_is_named";
    let hide = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let hidden = |program: &std::ffi::OsStr| {
        let mut command = Command::new("unshare");
        command.args(["-Ur", "bash", "-c", hide, "bash"]).arg(program);
        command
    };
    if !hidden("true".as_ref()).status().is_ok_and(|status| status.success()) {
        return skip(name, "this machine lets nobody hide its user namespaces with `unshare -Ur`");
    }
    for json in [true, false] {
        let place = Place::new("bad");
        let inner = place.stockade(["run", "--no-daemon", "--json", MARK]);
        let mut command = hidden(inner.get_program());
        command.args(inner.get_args().filter(|word| json || *word != "--json")).env_clear();
        command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let mut output = command.current_dir(place.project()).output().expect("unshare");
        if !json {
            assert_eq!(text(&output.stdout), "");
            output.stdout = br#"{"error":{"code":"sandbox_unavailable","help":"-"}}"#.to_vec();
        }
        let begins = "stockade: write-outside cannot be enforced on this machine: ";
        assert_refused(&place, &output, begins, "sandbox_unavailable");
    }
}

#[test]
fn bytes_that_are_no_utf8_are_named() {
    let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let word = |text: &str| OsString::from(text);
    for user in users() {
        for arguments in [
            vec![word("run"), word("--json"), bytes(b"touch made-by-the-command\xff")],
            vec![word("run"), word("--json"), word("--settings"), bytes(b"{\"a\xff"), word(MARK)],
            vec![word("run"), word("--json"), word("--cwd"), bytes(b"/\xff"), word(MARK)],
            vec![word("run"), word("--json"), word("--"), bytes(b"\xfftouch"), word("x")],
        ] {
            let place = Place::new("bad");
            let output = command(&place, user, &arguments).output().expect("it starts");
            assert_refused(&place, &output, "stockade: argument ", "not_utf8");
        }
    }
    let place = Place::new("name");
    let mut named = place.stockade(["run", "true"]);
    std::os::unix::process::CommandExt::arg0(&mut named, std::ffi::OsStr::from_bytes(b"st\xff"));
    assert_eq!(named.output().expect("it starts").status.code(), Some(0));
    // The name of a folder is not an argument.
    let odd = place.root.join(bytes(b"odd\xff"));
    fs::create_dir(&odd).expect("mkdir");
    let output = place.stockade(["run", "--json", MARK]).current_dir(&odd).output();
    assert_refused(&place, &output.expect("it starts"), "stockade: the path `", "not_utf8");
}

#[test]
fn text_that_is_too_long_or_holds_a_nul_is_refused() {
    let place = Place::new("long");
    fs::write(place.root.join("long"), format!("{MARK}; : {}", "x".repeat(10 << 20))).expect("it");
    fs::write(place.root.join("above"), format!("{MARK}; : {}", "x".repeat(1 << 20))).expect("it");
    fs::write(place.root.join("nul"), format!("{MARK}\0")).expect("it");
    fs::write(place.root.join("bytes"), [MARK.as_bytes(), b"\xff"].concat()).expect("it");
    for (file, begins, code) in [
        ("long", "stockade: the command text on standard input is longer than", "invalid_request"),
        ("above", "stockade: the command is longer than", "invalid_request"),
        ("nul", "stockade: the command contains a NUL byte", "invalid_request"),
        ("bytes", "stockade: the command text on standard input is not UTF-8", "not_utf8"),
    ] {
        let mut command = place.stockade(["run", "--no-daemon", "--json", "-"]);
        command.stdin(fs::File::open(place.root.join(file)).expect("a file"));
        let start = Instant::now();
        let output = command.output().expect("it starts");
        assert!(start.elapsed() < Duration::from_secs(60), "it took {:?}", start.elapsed());
        assert_refused(&place, &output, begins, code);
    }
}

#[test]
fn arguments_that_cannot_be_read_are_one_line() {
    let place = Place::new("bad");
    for arguments in [
        &["--json"][..],
        &["run", "--json"],
        &["run", "--json", "--bogus", MARK],
        &["bogus", "--json"],
        &["run", "--json", "--timeout", "soon", MARK],
        &["run", "--json", "--permission-mode", "wild", MARK],
        &["run", "--json", "--profile", "nobody\nknows", MARK],
        &["run", "--json", "--timeout", "2h", MARK],
        &["run", "--json", "--color", "sometimes", MARK],
        &["--cwd", "/", "run", "--json", "--cwd", "/", MARK],
        &["check", "--json", "--setting-sources", "user,policy", MARK],
        &["check", "--json", "--tool", "Read", "--input", "[1]"],
        &["audit", "search", "--json", "--since", "yesterday-ish"],
        &["run", "--json", ""],
    ] {
        assert_refused(&place, &place.output(arguments), "stockade: ", "invalid_request");
    }
    assert_eq!(place.output(["run", "--profile", "default", "true"]).status.code(), Some(0));
}

#[test]
fn closed_descriptors_change_nothing_but_what_is_seen() {
    for user in users() {
        for (closed, json) in [
            ("<&-", false),
            (">&-", false),
            ("2>&-", false),
            ("<&- >&- 2>&-", false),
            (">&-", true),
        ] {
            let place = Place::new("closed");
            let line = "echo out; echo err >&2; cat; touch made-by-the-command";
            let format = if json { "--json" } else { "--quiet" };
            let inner = command(&place, user, &["run", "--no-daemon", format, line]);
            let mut shell = Command::new("bash");
            shell.args(["-c", &format!("\"$@\" {closed}"), "bash"]).arg(inner.get_program());
            shell.args(inner.get_args());
            shell.env_clear().envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
            let output = shell.current_dir(place.project()).stdin(Stdio::null()).output();
            let output = output.expect("bash");
            assert_eq!(output.status.code(), Some(0), "{closed}: {}", text(&output.stderr));
            assert!(place.project().join("made-by-the-command").exists(), "{closed}");
        }
    }
}

/// An agent takes the end of a hook by a signal for no answer, and runs the command.
#[test]
fn a_hook_that_may_open_nothing_says_no() {
    let place = Place::new("no-descriptors");
    let frame = place.root.join("frame.json");
    place.write(
        "frame.json",
        r#"{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"true"}}"#,
    );
    for limit in ["0", "1", "2", "3", "6"] {
        for closed in ["", ">&-", "2>&-"] {
            let inner = place.stockade(["hook", "claude"]);
            let mut shell = Command::new("bash");
            let line = format!("prlimit --nofile={limit} \"$@\" < \"$0\" {closed}");
            shell.args(["-c", &line]).arg(&frame).arg(inner.get_program()).args(inner.get_args());
            shell.env_clear().envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
            let output = shell.output().expect("bash");
            if text(&output.stderr).contains("shared libraries") {
                return skip(
                    "a_hook_that_may_open_nothing_says_no",
                    "this executable has a loader",
                );
            }
            assert_eq!(output.status.code(), Some(2), "{limit} {closed}: {output:?}");
        }
    }
}

#[test]
fn a_log_that_cannot_be_read_is_named() {
    let place = Place::new("no-log");
    for subcommand in ["verify", "tail", "search", "why"] {
        let output = place.output(["audit", subcommand, "--json"]);
        assert_refused(&place, &output, "stockade: ", "audit_unavailable");
    }
}

#[test]
fn output_that_nobody_can_take_is_told() {
    let place = Place::new("full");
    for arguments in
        [&["run", "echo x"][..], &["run", "--json", "true"], &["check", "--json", "ls"]]
    {
        let mut command = place.stockade(arguments);
        command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full"));
        let output = command.output().expect("it starts");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(122), "{stderr}");
        assert!(stderr.contains("stockade: cannot write standard output: "), "{stderr}");
    }
}
