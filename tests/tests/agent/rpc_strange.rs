//! Strange clients of a server of sessions: slow ones, ones that send too much, that take what is not theirs, and that end
//! before they are answered.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};
use stockade_model_server::Form;
use stockade_tests::{Place, executable};

use super::rpc::{Client, is_result, serve, write};
use super::{say, script};

#[test]
fn a_slow_client_is_dropped_and_comes_back() {
    let place = Place::new("ag-rpc-slow");
    let long = "x".repeat(3 << 20);
    let model = script(Form::Anthropic, &[&[say(&long)], &[say("short")]]);
    let serving = serve(&place, &model, &[]);
    let [mut quick, mut slow] = [(); 2].map(|()| Client::connect(&serving.1));
    let id = quick.ask("session.create", json!({ "cwd": place.project() }))["result"]["id"].clone();
    slow.ask("session.subscribe", json!({ "id": id }));
    quick.ask("session.send", json!({ "id": id, "text": "go" }));
    quick.until(is_result);
    quick.seen.clear();
    quick.ask("session.send", json!({ "id": id, "text": "again" }));
    quick.until(is_result);
    let last = quick.events().last().expect("an event").0;
    // Messages that waited in the kernel still arrive, then the end.
    let mut left = Vec::new();
    let _ = slow.stream.read_to_end(&mut left);
    assert!(left.len() < 9 << 20, "{} bytes", left.len());
    assert!(!String::from_utf8_lossy(&left).contains("short"));
    let mut back = Client::connect(&serving.1);
    let told = back.ask("session.subscribe", json!({ "id": id, "after": 0 }));
    assert_eq!(told["result"], json!({ "seq": last, "gap": true }), "{told}");
    assert_eq!(back.events().last().map(|it| it.0), Some(last));
    let all = back.ask("session.getMessages", json!({ "id": id })).to_string();
    assert!(all.contains(&long) && all.contains("short"));
}

#[test]
fn a_message_that_is_too_long_ends_its_connection_alone() {
    let place = Place::new("ag-rpc-long");
    let model = script(Form::Anthropic, &[]);
    let serving = serve(&place, &model, &[]);
    let [mut one, mut two] = [(); 2].map(|()| Client::connect(&serving.1));
    let most = 16 << 20;
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"session.getLastId","params":{"x":""#;
    let fits = format!("{request}{}\"}}}}\n", "y".repeat(most - request.len() - 4));
    assert_eq!(fits.len(), most);
    one.stream.write_all(fits.as_bytes()).expect("a line");
    assert_eq!(one.line()["id"], 7);
    let _ = one.stream.write_all(&vec![b' '; most + 1]); // it may end in the middle
    let told = one.line();
    assert_eq!(
        told["error"]["message"],
        "a message is longer than 16777216 bytes; the connection ends"
    );
    assert!(one.lines.next().is_none_or(|it| it.is_err()));
    for (line, code) in [("{", -32_700), ("[]", -32_600), (r#"{"id":1}"#, -32_600)] {
        two.stream.write_all(format!("{line}\n").as_bytes()).expect("a line");
        assert_eq!(two.line()["error"]["code"], code, "{line}");
    }
    assert_eq!(two.ask("session.list", json!({}))["result"], json!({ "sessions": [] }));
}

#[test]
fn identities_that_are_paths_or_not_exact_open_and_change_nothing() {
    let place = Place::new("ag-rpc-paths");
    let model = script(Form::Anthropic, &[&[say("words")]]);
    let serving = serve(&place, &model, &[]);
    let mut client = Client::connect(&serving.1);
    let cwd = place.project();
    let id = client.ask("session.create", json!({ "cwd": cwd }))["result"]["id"].clone();
    client.ask("session.send", json!({ "id": id, "text": "words" }));
    client.until(is_result);
    let id = id.as_str().expect("an identity").to_owned();
    client.ask("session.rename", json!({ "id": id, "name": "Name" }));
    let folder = place.root.join("state/stockade/agent/sessions");
    std::fs::write(folder.parent().expect("a folder").join("events.jsonl"), "{}").expect("a file");
    let before = client.ask("session.list", json!({}));
    let absolute = folder.join(&id).display().to_string();
    let odd =
        ["", ".", "..", "../sessions", &absolute, "Name", &id[..8], "a/b", "a\u{0}", "%2e%2e"];
    let methods = [
        "resume",
        "fork",
        "getMetadata",
        "getMessages",
        "rename",
        "delete",
        "destroy",
        "save",
        "get",
        "send",
        "abort",
        "subscribe",
        "answer",
        "setMode",
        "setModel",
        "setForeground",
        "rewindFiles",
        "plan.get",
        "plan.set",
        "plan.delete",
        "settings.get",
        "settings.list",
        "settings.toggle",
    ];
    for method in methods {
        for id in odd {
            let params = json!({ "id": id, "cwd": cwd, "name": "x", "plan": "x", "text": "x", "key": "sandbox.enabled" });
            let told = client.ask(&format!("session.{method}"), params);
            assert_eq!(told["error"]["code"], -32_602, "{method} {id:?}: {told}");
        }
        let told = client.ask(&format!("session.{method}"), Value::Null);
        assert_eq!(told["error"]["code"], -32_602, "{method}: {told}");
    }
    for id in odd.into_iter().skip(1) {
        let told = client.ask("session.create", json!({ "id": id, "cwd": cwd }));
        assert_eq!(
            told["error"],
            json!({ "code": -32_602, "message": "`id` is not a UUID" }),
            "{id:?}"
        );
    }
    assert_eq!(client.ask("session.list", json!({})), {
        let mut same = before;
        same["id"] = json!(client.number);
        same
    });
}

#[test]
fn a_question_is_answered_by_those_who_hear_its_session() {
    let place = Place::new("ag-rpc-own");
    let model = script(Form::Anthropic, &[&[write("a")], &[say("done")]]);
    let serving = serve(&place, &model, &[]);
    let [mut one, mut other] = [(); 2].map(|()| Client::connect(&serving.1));
    let cwd = place.project();
    let create = |client: &mut Client| {
        client.ask("session.create", json!({ "cwd": cwd }))["result"]["id"].clone()
    };
    let (id, own) = (create(&mut one), create(&mut other));
    one.ask("session.send", json!({ "id": id, "text": "go" }));
    let asked = one.until(|it| it["method"] == "session.question")["params"]["question"].clone();
    let answer = |id: &Value| json!({ "id": id, "question": asked, "behavior": "allow" });
    // Neither for a session that it does not hear, nor under the name of its own.
    for (id, told) in [(&id, "only a client that subscribed"), (&own, "not open any more")] {
        let refused = other.ask("session.answer", answer(id));
        assert!(
            refused["error"]["message"].as_str().is_some_and(|it| it.contains(told)),
            "{refused}"
        );
    }
    assert!(!other.seen.iter().any(|it| it["method"] == "session.question"), "{:?}", other.seen);
    // One that comes while the question is open sees it, and may answer.
    other.ask("session.subscribe", json!({ "id": id }));
    other.until(|it| it["params"]["question"] == asked);
    assert!(other.ask("session.answer", answer(&id))["result"].is_object());
    one.until(|it| {
        it["method"] == "session.questionWithdrawn" && it["params"]["question"] == asked
    });
    one.until(is_result);
    assert!(cwd.join("a.txt").exists());
}

#[test]
fn requests_that_were_piped_are_answered_before_the_end_and_carried_to_a_socket() {
    let place = Place::new("ag-rpc-pipe");
    let id = "77777777-7777-4777-8777-777777777777";
    let model = script(Form::Anthropic, &[&[say("first answer")], &[say("second answer")]]);
    drop(executable("stockade-agent"));
    let piped = |arguments: &[&str], requests: &[(&str, Value)]| {
        let mut command = place.stockade(["rpc"]);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("ANTHROPIC_BASE_URL", model.url()).env("ANTHROPIC_API_KEY", "sk-test");
        let mut child = command.spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("its input");
        for (number, (method, params)) in requests.iter().enumerate() {
            let request =
                json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params });
            stdin.write_all(format!("{request}\n").as_bytes()).expect("a line");
        }
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        (super::text(&output.stdout), super::text(&output.stderr), output.status.code())
    };
    let create = ("session.create", json!({ "id": id, "cwd": place.project() }));
    let (stdout, stderr, status) = piped(&[], &[create]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains(id), "{stdout}\n{stderr}");
    let usual = place.root.join("runtime/stockade/rpc.sock");
    let shown = usual.display().to_string();
    let (_, stderr, status) = piped(&["--connect", &shown], &[]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("no server of sessions listens on"), "{stderr}");
    let serving = serve(&place, &model, &[]);
    let socket = serving.1.display().to_string();
    let mut client = Client::connect(&serving.1);
    let id =
        client.ask("session.create", json!({ "cwd": place.project() }))["result"]["id"].clone();
    let requests = [
        ("session.subscribe", json!({ "id": id, "after": 0 })),
        ("session.send", json!({ "id": id, "text": "go" })),
        ("session.getLastId", json!({})),
    ];
    let (stdout, stderr, status) = piped(&["--connect", &socket], &requests);
    assert_eq!(status, Some(0), "{stderr}");
    for number in 0..3 {
        let answer = format!(r#""id":{number}"#);
        assert!(stdout.contains(&answer), "{answer}: {stdout}\n{stderr}");
    }
    client.until(is_result);
}

#[test]
fn a_socket_where_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new("ag-rpc-open");
    drop(executable("stockade-agent"));
    let open = place.root.join("open");
    std::fs::create_dir(&open).expect("a folder");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).expect("a mode");
    let output =
        place.stockade(["rpc", "--socket"]).arg(open.join("s")).output().expect("it starts");
    let told = super::text(&output.stderr);
    assert!(!output.status.success() && told.contains("other users can write to"), "{told}");
    assert!(!open.join("s").exists());
}
