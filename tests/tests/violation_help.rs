//! Each kind of remedy that is told lets the command run that met the refusal, once it is applied.
#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::{Value, json};
use stockade_tests::{Place, is_root, skip};

/// Runs `line` out of a file, so that its text names nothing, and returns its status, its first refusal and its last line.
fn hidden(place: &Place, line: &str) -> (i64, Value, String) {
    place.write("project/act.sh", line);
    let ran = place.output(["run", "--json", "bash act.sh"]);
    let told: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let footer = String::from_utf8_lossy(&ran.stderr).into_owned();
    (told["exit_code"].as_i64().expect("a status"), told["violations"][0].clone(), footer)
}

/// Puts a remedy into the settings of the user.
fn apply(place: &Place, refused: &Value) {
    let remedy = &refused["remedy"];
    assert!(remedy.is_object(), "{refused}");
    if let Some(first) = remedy["first"].as_str() {
        let path = remedy["value"][0].as_str().expect("a path");
        match first {
            "make that file" => fs::write(path, "").expect("a file"),
            "make that directory" => fs::create_dir(path).expect("a directory"),
            other => panic!("{other}"),
        }
    }
    let file = place.home().join(".config/stockade/settings.json");
    let text = fs::read_to_string(&file).unwrap_or_else(|_| "{}".to_owned());
    let mut settings: Value = serde_json::from_str(&text).expect("JSON");
    let setting = remedy["setting"].as_str().expect("a setting");
    let mut at = &mut settings;
    for key in setting.split('.') {
        at = &mut at[key];
    }
    let mut list = at.as_array().cloned().unwrap_or_default();
    let named = remedy["value"].as_array().expect("a list").clone();
    match remedy["change"].as_str() {
        Some("add") => list.extend(named),
        Some("remove") => list.retain(|it| !named.contains(it)),
        other => panic!("{other:?}"),
    }
    *at = json!(list);
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

/// Runs `line` until nothing is refused, applying each remedy.
fn works_after_remedies(place: &Place, line: &str) {
    let mut told = Vec::new();
    for _ in 0..4 {
        let (status, refused, _) = hidden(place, line);
        if status == 0 && refused.is_null() {
            assert!(!told.is_empty(), "{line}: nothing was refused");
            return;
        }
        apply(place, &refused);
        told.push(refused);
    }
    panic!("{line}: {told:#?}");
}

#[test]
fn each_remedy_of_a_write_lets_it_be_done() {
    let out = |place: &Place| place.root.join("out/deep").display().to_string();
    for line in [
        "echo x > OUT/there",
        "echo x > OUT/new",
        "mkdir -p OUT/made; echo x > OUT/made/f",
        "mv OUT/there OUT/moved",
        "rm OUT/there",
        "sed -i s/a/b/ OUT/there",
        "truncate -s 0 OUT/there",
        "ln -s OUT/there link",
        "mkdir -p ~/.tool; echo x > ~/.tool/rc",
        "echo x > ~/.toolrc",
        "echo x > kept",
        "echo x > .npmrc; mkdir -p .vscode; echo x > .vscode/tasks.json",
    ] {
        let place = Place::new("remedies");
        place.write("out/deep/there", "a");
        place.write("project/kept", "a");
        let kept =
            json!({ "sandbox": { "filesystem": { "denyWrite": [place.project().join("kept")] } } });
        place.write("home/.config/stockade/settings.json", &kept.to_string());
        works_after_remedies(&place, &line.replace("OUT", &out(&place)));
    }
}

#[test]
fn no_remedy_names_a_file_that_is_there_for_a_moment() {
    let place = Place::new("remedies-passing");
    place.write("home/.rc", "a");
    for line in [
        "echo x > ~/.gitconfig.lock",
        "sed -i s/a/b/ ~/.rc",
        "mktemp ~/.rc.XXXXXX",
        "mktemp -d ~/tmp.XXXXXXXX",
        "python3 -c \"import tempfile, os; tempfile.mkstemp(dir=os.path.expanduser('~'))\"",
    ] {
        let (status, refused, _) = hidden(&place, line);
        assert_ne!(status, 0, "{line}");
        assert!(refused["remedy"].is_null() && refused["why_not"].is_string(), "{line}: {refused}");
    }
}

#[test]
fn the_refusal_that_a_command_fails_by_is_told_first() {
    let place = Place::new("remedies-first");
    fs::create_dir_all(place.home().join(".cache")).expect("a folder");
    let line = "mkdir ~/.cache/tool; echo x > ~/.toolrc; echo x > .npmrc || exit 1";
    place.write("project/act.sh", line);
    let ran = place.output(["run", "bash act.sh"]);
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(
        told.contains("/.npmrc by builtin: protected in the root") && told.contains("(+2 more"),
        "{told}"
    );
    // All that the root protects is in one remedy.
    let line = "echo x > .npmrc; echo x > .pylintrc; exit 1";
    place.write("project/act.sh", line);
    let told = String::from_utf8_lossy(&place.output(["run", "bash act.sh"]).stderr).into_owned();
    let both = [".npmrc", ".pylintrc"].map(|name| place.project().join(name).display().to_string());
    assert!(told.contains(&format!("[\"{}\",\"{}\"]", both[0], both[1])), "{told}");
    // A directory that holds something is removed by nobody: that is not a refusal.
    place.write("project/act.sh", "rmdir .git 2>/dev/null; exit 3");
    place.repository(&place.project());
    let ran = place.output(["run", "bash act.sh"]);
    assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stderr).as_ref()), (Some(3), ""));
}

const CONNECT: &str = "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('PATH')\"";

#[test]
fn sockets_below_run_are_refused_by_name_and_opened_by_the_remedy() {
    if !is_root() {
        skip("sockets_below_run_are_refused_by_name_and_opened_by_the_remedy", "it takes root");
        return;
    }
    let place = Place::new("remedies-run");
    let folder = format!("/run/stockade-test-{}", std::process::id());
    // An earlier run that was killed may have had this number.
    drop(fs::remove_dir_all(&folder));
    fs::create_dir(&folder).expect("a folder");
    let server = UnixListener::bind(format!("{folder}/docker.sock")).expect("a socket");
    let ways = ["/run", "/var/run"].map(|run| folder.replace("/run", run) + "/docker.sock");
    let mut seen = Vec::new();
    for way in &ways {
        let (_, refused, _) = hidden(&place, &CONNECT.replace("PATH", way));
        seen.push((refused["kind"].clone(), refused["path_or_host"].clone()));
    }
    // Where the host has none, nothing is refused.
    let (status, none, _) =
        hidden(&place, &CONNECT.replace("PATH", &format!("{folder}/other.sock")));
    let (_, refused, _) = hidden(&place, &CONNECT.replace("PATH", &ways[0]));
    apply(&place, &refused);
    let (after, _, footer) = hidden(&place, &CONNECT.replace("PATH", &ways[1]));
    drop(server);
    fs::remove_dir_all(&folder).expect("it is there");
    let expected = (json!("unix-socket"), json!(ways[0]));
    assert_eq!(seen, [expected.clone(), expected]);
    assert_eq!((status, none), (1, Value::Null));
    assert_eq!(after, 0, "{footer}");
}

#[test]
fn a_server_on_the_loopback_of_the_host_is_named_and_no_other() {
    let place = Place::new("remedies-loopback");
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    let connect = |blocking: bool| {
        format!(
            "python3 -c \"import socket, errno; s = socket.socket(); s.setblocking({}); \
             e = s.connect_ex(('127.0.0.1', {})); raise SystemExit(0 if e == errno.ECONNREFUSED else 9)\"; exit 1",
            if blocking { "True" } else { "False" },
            address.port()
        )
    };
    for blocking in [true, false] {
        let (_, refused, _) = hidden(&place, &connect(blocking));
        assert_eq!(refused["path_or_host"], json!(address.to_string()), "{refused}");
        let why = refused["why_not"].as_str().unwrap_or_default();
        assert!(why.contains("allowedDomains"), "{refused}");
    }
    drop(server);
    assert_eq!(hidden(&place, &connect(true)).1, Value::Null);
    // A server of the command itself is reached.
    let own = "python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())\"";
    let (status, refused, footer) = hidden(&place, own);
    assert_eq!((status, refused), (0, Value::Null), "{footer}");
    assert!(Path::new(&place.project()).exists());
}
