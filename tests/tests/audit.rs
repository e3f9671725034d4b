//! A command that cannot be recorded does not run, and one clear line tells the reason.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use stockade_tests::{Place, skip, stockade};

#[path = "audit/frozen.rs"]
mod frozen;
#[path = "audit/lock.rs"]
mod lock;
#[path = "audit/refused.rs"]
mod refused;
#[path = "audit/secrets.rs"]
mod secrets;
#[path = "audit/sync.rs"]
mod sync;

const SMALL_DISK: &str = "STOCKADE_TEST_SMALL_DISK";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that leaves a file in the project, and says whether it did.
fn run(place: &Place) -> (Output, bool) {
    let trace = place.project().join("ran");
    if trace.exists() {
        fs::remove_file(&trace).expect("the trace of the run before");
    }
    let output = place.output(["run", "touch ran"]);
    (output, trace.exists())
}

fn runs(place: &Place) {
    let (output, ran) = run(place);
    assert_eq!((output.status.code(), ran), (Some(0), true), "{}", text(&output.stderr));
}

/// Asserts that nothing runs, and that the first line says why.
fn refuses(place: &Place, line: &str) {
    let (output, ran) = run(place);
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), ran), (Some(122), false), "{told}");
    assert_eq!(told.lines().next(), Some(line), "{told}");
    assert!(told.contains("\n  try: "), "{told}");
}

fn log(place: &Place) -> String {
    place.state().join("audit").display().to_string()
}

fn verifies(place: &Place) {
    verifies_in(place, &place.root.join("state"));
}

fn verifies_in(place: &Place, state: &Path) {
    let mut command = place.stockade(["audit", "verify"]);
    let output = command.env("XDG_STATE_HOME", state).output().expect("the executable starts");
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn a_limit_of_file_size_is_an_error_and_the_command_gets_the_signal_back() {
    let place = Place::new("limit");
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 1 && exec \"$@\"", "bash"]).arg(stockade());
    command.args(["run", "touch ran"]).current_dir(place.project());
    command.env("HOME", place.home()).env("XDG_STATE_HOME", place.root.join("state"));
    command.env("XDG_RUNTIME_DIR", place.root.join("runtime"));
    let output = command.output().expect("bash starts");
    let line = format!(
        "stockade: audit log {} cannot be written: File too large (EFBIG); nothing was run",
        log(&place)
    );
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), told.lines().next()), (Some(122), Some(line.as_str())));
    assert!(!place.project().join("ran").exists());
    runs(&place);
    let signals = place.output(["run", "grep -E '^Sig(Ign|Blk)' /proc/self/status"]);
    for line in text(&signals.stdout).lines() {
        let digits = line.split_ascii_whitespace().last().unwrap_or_default();
        let set = u64::from_str_radix(digits, 16).expect("a set of signals");
        assert_eq!(set & (1 << 24), 0, "SIGXFSZ is not the default: {line}");
    }
    assert!(!signals.stdout.is_empty(), "{}", text(&signals.stderr));
    verifies(&place);
}

#[test]
fn a_secret_in_a_rule_a_hook_or_a_warning_is_not_stored() {
    let place = Place::new("settings-secrets");
    let hook = "test -n x || curl -u bob:hooksecret7 http://127.0.0.1:1";
    let settings = json!({
        "permissions": {
            "deny": ["Bash(curl -u bob:rulesecret7 *)", "Bash(curl -u bob:brokensecret7"],
            "allow": ["Bash(mysql -prulesecret8 *)"],
        },
        "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": hook }] }] },
    });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let output = place.output(["run", "curl -u bob:rulesecret7 https://example.com"]);
    assert_ne!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let log = fs::read_to_string(place.state().join("audit/00000001.jsonl")).expect("the log");
    assert!(log.contains("[redacted:flag-user:"), "{log}");
    for secret in ["rulesecret7", "rulesecret8", "hooksecret7", "brokensecret7"] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
    verifies(&place);
}

#[test]
fn a_missing_segment_key_or_state_is_named_and_nothing_runs() {
    let place = Place::new("missing");
    runs(&place);
    let directory = log(&place);
    let state = place.state().display().to_string();
    let without = |path: &str, line: &str| {
        let aside = format!("{path}.aside");
        fs::rename(path, &aside).expect("the file is there");
        refuses(&place, line);
        assert!(!Path::new(path).exists(), "a new `{path}` was made");
        fs::rename(&aside, path).expect("the file comes back");
    };
    without(
        &format!("{state}/audit/00000001.jsonl"),
        &format!(
            "stockade: audit log {directory} cannot be continued: it ends after 0 records, and 4 were signed; \
             nothing was run"
        ),
    );
    for key in ["keys/sign.key", "keys/redact.key", "trust.vkey"] {
        let path = format!("{state}/{key}");
        without(
            &path,
            &format!(
                "stockade: audit log {directory} cannot be continued: `{path}` is missing or altered; a new one \
                 would not be believed; nothing was run"
            ),
        );
    }
    runs(&place);
    verifies(&place);
}

#[test]
fn a_state_path_that_is_a_file_is_named_and_nothing_runs() {
    let place = Place::new("file");
    fs::write(place.state(), "not a folder").expect("a file");
    let line = format!(
        "stockade: the state directory `{}` cannot be used: it is not a directory",
        place.state().display()
    );
    refuses(&place, &line);
    fs::remove_file(place.state()).expect("the file goes");
    runs(&place);
}

#[test]
fn a_folder_without_rights_is_named_and_nothing_runs() {
    const TEST: &str = "a_folder_without_rights_is_named_and_nothing_runs";
    const AGAIN: &str = "STOCKADE_TEST_ORDINARY";
    if std::env::var_os(AGAIN).is_none() && Path::new("/proc/self").exists() {
        use std::os::unix::fs::MetadataExt as _;
        let user = fs::metadata("/proc/self").expect("this process").uid();
        if user == 0 {
            // Rights do not bind root: the same test as an ordinary user, in a folder of its own. That user cannot
            // build the executable, so it is there before.
            stockade_tests::stockade();
            let home = std::env::temp_dir().join(format!("ordinary-{}", std::process::id()));
            // An earlier run that was killed may have had this number.
            drop(fs::remove_dir_all(&home));
            fs::create_dir(&home).expect("a folder");
            std::os::unix::fs::chown(&home, Some(65_534), Some(65_534)).expect("its owner");
            let done = Command::new("setpriv")
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(std::env::current_exe().expect("this test"))
                .args(["--exact", TEST, "--nocapture"])
                .env(AGAIN, "1")
                .env("HOME", &home)
                .current_dir(&home)
                .output();
            let removed = fs::remove_dir_all(&home);
            match done {
                Err(error) => skip(TEST, &format!("no `setpriv`: {error}")),
                Ok(done) => {
                    let told = format!("{}{}", text(&done.stdout), text(&done.stderr));
                    print!("{told}");
                    assert!(done.status.success(), "{told}");
                }
            }
            removed.expect("the folder goes");
            return;
        }
    }
    let place = Place::new("rights");
    runs(&place);
    let rights = |path: &Path, mode: u32| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode changes");
    };
    let directory = place.state().join("audit");
    rights(&directory, 0o500);
    rights(&directory.join("00000001.jsonl"), 0o400);
    let line = format!(
        "stockade: audit log {} cannot be written: Permission denied (EACCES); nothing was run",
        log(&place)
    );
    refuses(&place, &line);
    rights(&directory.join("00000001.jsonl"), 0o600);
    rights(&directory, 0o700);
    rights(&place.state(), 0o500);
    let (output, ran) = run(&place);
    rights(&place.state(), 0o700);
    assert_eq!((output.status.code(), ran), (Some(122), false), "{}", text(&output.stderr));
    runs(&place);
    verifies(&place);
}

#[test]
fn a_full_disk_refuses_in_words_and_the_next_record_names_the_gap() {
    const TEST: &str = "a_full_disk_refuses_in_words_and_the_next_record_names_the_gap";
    if std::env::var_os(SMALL_DISK).is_some() {
        return on_a_small_disk();
    }
    let place = Place::new("full");
    let user = {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata("/proc/self").expect("this process").uid()
    };
    let script = "mount -t tmpfs -o size=1000k,mode=755 none \"$1\" || exit 77; exec \"$2\" --exact \"$3\" --nocapture";
    let done = Command::new("unshare")
        .args([if user == 0 { "-m" } else { "-rm" }, "sh", "-c", script, "sh"])
        .arg(&place.root)
        .arg(std::env::current_exe().expect("this test"))
        .arg(TEST)
        .env(SMALL_DISK, &place.root)
        .output();
    match done {
        Ok(done) if done.status.success() => print!("{}", text(&done.stdout)),
        Ok(done) if !text(&done.stdout).contains("running 1 test") => {
            skip(TEST, &format!("no small disk can be had: {}", text(&done.stderr)));
        }
        Ok(done) => panic!("{}{}", text(&done.stdout), text(&done.stderr)),
        Err(error) => skip(TEST, &format!("no `unshare`: {error}")),
    }
}

/// The test above in a mount namespace where the state has one megabyte.
fn on_a_small_disk() {
    // The project lies on the large disk: the command itself could run.
    let place = Place::new("small");
    let disk = std::env::var_os(SMALL_DISK).map(std::path::PathBuf::from).expect("the small disk");
    let state = disk.join("stockade");
    let start = |command: &str| {
        let mut command = place.stockade(["run", command]);
        command.env("XDG_STATE_HOME", &disk);
        command.output().expect("the executable starts")
    };
    assert_eq!(start("true").status.code(), Some(0));
    let filler = disk.join("filler");
    let mut size = 4 << 20;
    while size > 512 {
        let mut content = fs::read(&filler).unwrap_or_default();
        content.resize(content.len() + size, b'x');
        // Writing until it does not fit, in ever smaller steps.
        if fs::write(&filler, content).is_err() {
            size /= 2;
        }
    }
    let line = format!(
        "stockade: audit log {} cannot be written: No space left on device (ENOSPC); nothing was run",
        state.join("audit").display()
    );
    let trace = place.project().join("ran");
    let review =
        format!("the review journal in `{}` cannot be written", state.join("review").display());
    // Blocks that the log has reserved still take a few commands, which may find no room for their review journal.
    let mut refused = start("touch ran");
    for _ in 0..50 {
        let told = text(&refused.stderr);
        match refused.status.code() {
            Some(0) => fs::remove_file(&trace).expect("it ran"),
            Some(122) if told.contains(&review) => assert!(!trace.exists()),
            _ => break,
        }
        refused = start("touch ran");
    }
    for refused in [refused, start("touch ran")] {
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(122), "{told}");
        assert_eq!(told.lines().next(), Some(line.as_str()), "{told}");
        assert!(!trace.exists());
    }
    fs::remove_file(&filler).expect("room again");
    let after = start("touch ran");
    assert_eq!(after.status.code(), Some(0), "{}", text(&after.stderr));
    assert!(trace.exists());
    let audit = |arguments: &[&str]| {
        let mut command = place.stockade(["audit"]);
        command.args(arguments).env("XDG_STATE_HOME", &disk);
        let output = command.output().expect("the executable starts");
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    };
    audit(&["verify"]);
    let gaps = audit(&["search", "--kind", "gap", "--json"]);
    let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("a record");
    // The first refusal may be named before the second, when that much still fits.
    let refused = gaps.lines().map(read).filter(|gap| gap["reason"] == "refused");
    let count: u64 = refused.filter_map(|gap| gap["count"].as_u64()).sum();
    assert_eq!(count, 2, "{gaps}");
}

#[test]
fn questions_to_the_log_have_answers_and_statuses() {
    let place = Place::new("questions");
    runs(&place);
    let audit = |arguments: &[&str]| {
        let mut words = vec!["audit"];
        words.extend_from_slice(arguments);
        place.output(words)
    };
    let status = |arguments: &[&str]| audit(arguments).status.code();
    let stored = fs::read(place.state().join("audit/00000001.jsonl")).expect("the segment");
    let all = audit(&["tail", "-n", "100", "--json"]);
    let kept = stored.split(|byte| *byte == 0).next().unwrap_or_default();
    assert_eq!(text(&all.stdout), text(kept));
    assert_eq!(status(&["search", "--verdict", "deny"]), Some(1));
    assert_eq!(status(&["report", "--by", "program", "--until", "-2h"]), Some(1));
    let report = text(&audit(&["report", "--by", "program"]).stdout);
    assert!(report.lines().nth(1).is_some_and(|line| line.ends_with("  touch")), "{report}");
    for which in ["last", "2"] {
        assert!(text(&audit(&["why", which]).stdout).starts_with("allowed `touch ran`\n"));
    }
    assert_eq!(status(&["why", "999"]), Some(1));
    let note = audit(&["checkpoint"]);
    let path = place.root.join("note");
    fs::write(&path, &note.stdout).expect("a note kept elsewhere");
    runs(&place);
    let path = path.to_str().expect("a path");
    assert_eq!(status(&["verify", "--checkpoint", path]), Some(0));
    assert_eq!(status(&["repair"]), Some(0));
    let segment = place.state().join("audit/00000001.jsonl");
    let changed =
        text(&fs::read(&segment).expect("the segment")).replacen("touch ran", "touch ram", 1);
    fs::write(&segment, changed).expect("an edit");
    assert_eq!(status(&["verify"]), Some(1));
    let broken = audit(&["report"]);
    assert!(text(&broken.stderr).starts_with("stockade: the chain of the log is broken"));
    let nowhere = place.root.join("nowhere");
    let nowhere = nowhere.to_str().expect("a path");
    assert_eq!(status(&["verify", nowhere]), Some(122));
    assert_eq!(status(&["checkpoint", nowhere]), Some(1));
    assert_eq!(status(&["repair", nowhere]), Some(122));
    for command in ["verify", "tail", "search", "why", "report", "checkpoint", "repair"] {
        let help = text(&audit(&[command, "--help"]).stdout);
        assert!(help.contains("Example:") && help.contains("Exit status:"), "{command}: {help}");
    }
}

/// Commands with secrets in every position, and the secret of each.
const SECRETS: [(&str, &str); 26] = [
    ("curl -s \"https://bob:hunter2zz@example.com/a.git\"", "hunter2zz"),
    ("curl https://bob:s3gm3nt@example.com/a//b/../c", "s3gm3nt"),
    ("curl https://bob:qu0t'ed11'@example.com/", "qu0ted11"),
    (
        "git clone https://ghp_0123456789abcdefghijABCDEFGHIJ012345@github.com/a/b",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    ),
    ("psql postgres://u:p4ssXYZ@db/x", "p4ssXYZ"),
    ("psql --password=0ption1a db", "0ption1a"),
    ("vault login --token s.Opt10n2", "s.Opt10n2"),
    ("mysql -uroot -pj01ned shop", "j01ned"),
    ("sshpass -p sp1it ssh host", "sp1it"),
    ("curl -u bob:us3rpw/a//b https://x.org", "us3rpw"),
    ("curl -H 'Authorization: Bearer h3ad.er1' https://x.org", "h3ad.er1"),
    ("curl -H'X-Api-Key: h3ad2' https://x.org", "h3ad2"),
    ("API_TOKEN=ass1gn1 make", "ass1gn1"),
    ("env DB_PASSWORD=ass1gn2 make", "ass1gn2"),
    ("export AWS_SECRET_ACCESS_KEY='ass1gn three'", "ass1gn three"),
    ("docker login -u bob --password-stdin <<< h3restr", "h3restr"),
    ("docker login --password-stdin <<'X'\nh3redoc\nX", "h3redoc"),
    ("echo p1ped | sudo -S id", "p1ped"),
    ("cat notes/glpat-0123456789abcdefghij/a", "glpat-0123456789abcdefghij"),
    ("touch AKIAIOSFODNN7EXAMPLE.txt; ls AKIAIOSFODNN7EXAMPLE.txt", "AKIAIOSFODNN7EXAMPLE"),
    ("cp a /etc/token=fil3name", "fil3name"),
    ("bash -c 'mysql -uroot -pinn3r shop'", "inn3r"),
    ("if true; then tool --api-key c0mpound; fi", "c0mpound"),
    ("wget 'https://x.org/a?access_token=qu3ry&b=c' -O out", "qu3ry"),
    ("echo $(redis-cli -a subst1tute ping) > log", "subst1tute"),
    ("openssl rsa -passin pass:0penssl -in k.pem -out /etc/0penssl", "0penssl"),
];

#[test]
fn no_line_of_the_log_holds_a_secret_in_any_form() {
    const FOLDER: &str = "xoxb-123456789012-abcdefghij";
    const KEY: &str = "sk_live_0123456789abcdefghij";
    let place = Place::new("secrets");
    let folder = place.project().join(FOLDER);
    fs::create_dir(&folder).expect("a folder");
    for (command, _) in SECRETS {
        let _ = place.output(["run", command]); // most cannot work here; the record is what counts
    }
    let _ = place.stockade(["run", "ls"]).current_dir(&folder).output().expect("it starts");
    let keys =
        json!({ KEY: { "path": KEY }, "db_password": "m3mber", "b64": "ASIAIOSFODNN7EXAMPL2" });
    for (tool, input) in [
        ("mcp__db__query", keys),
        ("mcp__db__query", json!({ "b64": "AKIAIOSFODNN7EXAMPLE" })),
        ("Write", json!({ "file_path": format!("/etc/{KEY}/a"), "content": "x" })),
        ("Bash", json!({ "command": "cat /etc/shadow", KEY: true })),
    ] {
        let frame = json!({
            "session_id": "s", "transcript_path": "/x", "cwd": place.project(), "permission_mode": "default",
            "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input,
        });
        let path = place.root.join("frame");
        fs::write(&path, frame.to_string()).expect("a frame");
        let mut command = place.stockade(["hook", "claude"]);
        command.stdin(fs::File::open(&path).expect("the frame"));
        let output = command.output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{tool}: {}", text(&output.stderr));
    }
    verifies(&place);
    let stored = text(&place.output(["audit", "tail", "-n", "1000", "--json"]).stdout);
    let read = |line: &str| serde_json::from_str::<Value>(line).expect("a record");
    let decisions: Vec<Value> =
        stored.lines().map(read).filter(|record| record["kind"] == "decision").collect();
    assert_eq!(decisions.len(), SECRETS.len() + 5);
    for decision in &decisions {
        let masks = decision["redacted"].as_array().expect("masks");
        assert!(!masks.is_empty(), "{decision}");
        for mask in masks {
            let pointer = mask["ptr"].as_str().expect("a pointer");
            assert!(decision.pointer(pointer).is_some(), "{pointer}: {decision}");
        }
    }
    let others = [FOLDER, KEY, "m3mber", "ASIAIOSFODNN7EXAMPL2", "AKIAIOSFODNN7EXAMPLE"];
    for secret in SECRETS.iter().map(|(_, secret)| *secret).chain(others) {
        let holds: Vec<&str> = stored.lines().filter(|line| line.contains(secret)).collect();
        assert!(holds.is_empty(), "{secret}: {holds:#?}");
    }
}

#[test]
fn very_many_secrets_in_one_command_cost_little() {
    let place = Place::new("many");
    let took = |name: &str| {
        let words: String = (0..2500).map(|number| format!(" {name}=zq{number:07}")).collect();
        let once = |_| {
            let start = std::time::Instant::now();
            let output = place.output(["run", &format!("true{words}")]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            start.elapsed()
        };
        // The shortest of three: other work of the machine only makes one longer.
        (0..3).map(once).min().expect("three")
    };
    let (harmless, secret) = (took("A_TOKFN"), took("A_TOKEN"));
    assert!(secret < harmless * 30, "{secret:?} with secrets, {harmless:?} without");
    let stored = text(&place.output(["audit", "tail", "-n", "100", "--json"]).stdout);
    assert!(stored.contains("A_TOKFN=zq0001234") && !stored.contains("A_TOKEN=zq"));
}
