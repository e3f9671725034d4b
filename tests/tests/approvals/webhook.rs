//! Questions that go to a webhook, and answers that come back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use stockade_tests::browser::{Reply, request};
use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, found};

use super::{ended, place, start, text, waiting};

const KEY: &str = "a key of the test";

fn mac(text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).expect("a key");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// The line of the head that signs an answer made so many seconds ago.
fn signed(body: &str, ago: u64) -> String {
    let seconds = now() - ago;
    format!("Stockade-Signature: t={seconds},v1={}", mac(&format!("answer.{seconds}.{body}")))
}

/// A message that came.
struct Message {
    head: String,
    body: String,
}

impl Message {
    fn header(&self, name: &str) -> &str {
        let mut pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    fn value(&self) -> Value {
        serde_json::from_str(&self.body).expect("an object")
    }
}

/// Takes one request and answers it with this status.
fn take(listener: &TcpListener, status: &str) -> Message {
    listener.set_nonblocking(true).expect("a mode");
    let (stream, _) = found("a message comes", || listener.accept().ok());
    stream.set_nonblocking(false).expect("a mode");
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        head.push_str(&line.replace("\r\n", "\n"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    reader.into_inner().write_all(answer.as_bytes()).expect("it reads");
    Message { head, body: text(&body) }
}

/// `stockade approvals webhook`; ended with the test.
struct Hook {
    child: Child,
    said: BufReader<ChildStdout>,
    port: u16,
}

impl Hook {
    fn start(place: &Place, listener: &TcpListener, form: &str) -> Hook {
        stockade_tests::executable("stockade-agent");
        give(place, form, 0o600);
        let url = format!("http://{}/in", listener.local_addr().expect("an address"));
        let words = ["approvals", "webhook", "--url", &url, "--form", form];
        let mut command = place.stockade(words);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        said.read_line(&mut line).expect("the address");
        let rest = line.trim().strip_prefix("answers: http://127.0.0.1:").expect("an address");
        let port = rest.split('/').next().and_then(|it| it.parse().ok()).expect("a port");
        Hook { child, said, port }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        line
    }

    fn answer(&self, path: &str, head: &[String], body: &str) -> Reply {
        let host = format!("Host: 127.0.0.1:{}", self.port);
        request(self.port, &format!("POST {path}"), &[&[host], head].concat(), body)
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts the key of a form where stockade looks for it.
fn give(place: &Place, form: &str, mode: u32) {
    let key = place.state().join(format!("webhook-{form}.key"));
    std::fs::write(&key, KEY).expect("the state directory");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

#[test]
fn a_question_goes_out_signed_and_only_a_signed_answer_about_it_comes_in() {
    let place = place("ap-hook", 600);
    let _gateway = Gateway::start(&place);
    let listener = listener();
    let mut hook = Hook::start(&place, &listener, "plain");
    let running = start(&place, "touch made");
    let message = take(&listener, "200 OK");
    let told = message.value();
    let question = &told["question"];
    assert_eq!(told["event"], "question.opened");
    assert_eq!(question["question"]["command"], "touch made");
    let signature = message.header("stockade-signature");
    let (seconds, signature) =
        signature.strip_prefix("t=").and_then(|it| it.split_once(",v1=")).expect("a signature");
    assert_eq!(signature, mac(&format!("question.{seconds}.{}", message.body)));
    let id = question["id"].as_str().expect("an identity");
    assert_eq!(hook.line(), format!("sent question {id}\n"));
    let body = |change: Value| {
        let mut answer =
            json!({ "act": "allow", "id": id, "digest": question["digest"], "by": "Ann" });
        let members = change.as_object().expect("an object").clone();
        answer.as_object_mut().expect("an object").extend(members);
        answer.to_string()
    };
    let good = body(json!({}));
    let replayed = format!("Stockade-Signature: {}", message.header("stockade-signature"));
    for (head, text, status) in [
        // Not signed, signed for another text, too old, and a signature of ours that came back.
        (vec![], &good, 401),
        (vec![signed(&body(json!({ "act": "deny" })), 0)], &good, 401),
        (vec![signed(&good, 600)], &good, 401),
        (vec![signed(&good, 0), signed(&good, 0)], &good, 401),
        (vec![replayed], &message.body, 401),
        // Signed, but too much, or about another question.
        (
            vec![signed(&body(json!({ "lasts": "always" })), 0)],
            &body(json!({ "lasts": "always" })),
            400,
        ),
        (vec![signed(&body(json!({ "digest": "00" })), 0)], &body(json!({ "digest": "00" })), 409),
        (vec![signed(&body(json!({ "id": "00" })), 0)], &body(json!({ "id": "00" })), 409),
    ] {
        assert_eq!(hook.answer("/answer", &head, text).status, status, "{head:?} {text}");
    }
    assert_eq!(waiting(&place).len(), 1);
    assert!(!place.project().join("made").exists());
    assert_eq!(hook.answer("/answer", &[signed(&good, 0)], &good).status, 200);
    assert_eq!(ended(running).status.code(), Some(0));
    assert!(place.project().join("made").exists());
    assert_eq!(hook.line(), format!("Ann allowed question {id}\n"));
    assert_eq!(hook.answer("/answer", &[signed(&good, 0)], &good).status, 409);
    // The log has who it was, as the word of the other end.
    let log = std::fs::read_to_string(place.state().join("audit/00000001.jsonl")).expect("the log");
    let record = log.lines().find(|line| line.contains("\"kind\":\"approval\"")).expect("a record");
    let record: Value = serde_json::from_str(record).expect("a record");
    assert_eq!((&record["claimed"], &record["channel"]), (&json!("Ann"), &json!("approvals")));
    assert_ne!(record["who"]["name"], "Ann");
    let closed = take(&listener, "200 OK").value();
    assert_eq!(closed, json!({ "event": "question.closed", "id": id, "how": "allowed" }));
}

#[test]
fn a_message_that_the_webhook_did_not_take_is_sent_again() {
    let place = place("ap-hook-again", 600);
    let _gateway = Gateway::start(&place);
    let listener = listener();
    let hook = Hook::start(&place, &listener, "plain");
    let running = start(&place, "touch made");
    let first = take(&listener, "503 Service Unavailable");
    let again = take(&listener, "200 OK");
    assert_eq!(first.value(), again.value());
    let question = &again.value()["question"];
    let (id, digest) = (&question["id"], &question["digest"]);
    let body = json!({ "act": "deny", "id": id, "digest": digest, "by": "Ann", "why": "not now" });
    let body = body.to_string();
    assert_eq!(hook.answer("/answer", &[signed(&body, 0)], &body).status, 200);
    let output = ended(running);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(120), "{told}");
    assert!(told.contains("not now"), "{told}");
    assert!(!place.project().join("made").exists());
}

#[test]
fn a_button_of_slack_answers_with_the_signature_of_slack() {
    let place = place("ap-slack", 600);
    let _gateway = Gateway::start(&place);
    let listener = listener();
    let hook = Hook::start(&place, &listener, "slack");
    let running = start(&place, "touch made");
    let message = take(&listener, "200 OK").value();
    let buttons = message.pointer("/blocks/2/elements").expect("buttons");
    let value = buttons[0]["value"].as_str().expect("a value");
    let payload = json!({ "user": { "username": "ann" }, "actions": [{ "value": value }] });
    let payload: String = payload.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
    let body = format!("payload={payload}");
    let head = |seconds: u64| {
        let signature = mac(&format!("v0:{seconds}:{body}"));
        vec![
            format!("X-Slack-Request-Timestamp: {seconds}"),
            format!("X-Slack-Signature: v0={signature}"),
        ]
    };
    assert_eq!(hook.answer("/slack", &head(now() - 600), &body).status, 401);
    assert_eq!(hook.answer("/slack", &head(now())[..1], &body).status, 401);
    assert_eq!(hook.answer("/answer", &head(now()), &body).status, 404);
    assert_eq!(hook.answer("/slack", &head(now()), &body).status, 200);
    assert_eq!(ended(running).status.code(), Some(0));
}

#[test]
fn the_key_is_made_where_no_command_can_read_it() {
    let place = place("ap-hook-key", 600);
    let _gateway = Gateway::start(&place);
    let listener = listener();
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let mut command = place.stockade(["approvals", "webhook", "--url", &url]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("its output"));
    said.read_line(&mut line).expect("the address");
    child.kill().expect("it runs");
    child.wait().expect("its end");
    let key = place.state().join("webhook-plain.key");
    let mode = std::fs::metadata(&key).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kept = std::fs::read_to_string(&key).expect("a key");
    assert_eq!(kept.trim().len(), 64);
    let read = place.output(["run", "--", &format!("cat '{}'", key.display())]);
    let told = [text(&read.stdout), text(&read.stderr)].concat();
    assert!(!read.status.success() && !told.contains(kept.trim()), "{told}");
}

#[test]
fn an_address_or_a_key_that_gives_secrets_away_is_refused() {
    let place = place("ap-hook-bad", 600);
    let _gateway = Gateway::start(&place);
    give(&place, "plain", 0o644);
    for (url, form, told) in [
        ("http://h.example/", "plain", "the webhook `http://h.example/` does not use https"),
        ("h", "plain", "invalid URL `h`"),
        ("https://h.example/", "plain", "run `chmod 600` on it"),
        ("https://h.example/", "slack", "write the signing secret of the Slack app to `"),
        ("https://h.example/", "teams", "write the token of the Teams webhook to `"),
    ] {
        let output = place.output(["approvals", "webhook", "--url", url, "--form", form]);
        assert_eq!(output.status.code(), Some(122), "{url}");
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
    // A key in a place that commands reach could be one of theirs.
    let own = place.output(["approvals", "webhook", "--url", "https://h.example/", "--key", "k"]);
    assert_eq!(own.status.code(), Some(122));
    assert!(text(&own.stderr).contains("--key"), "{}", text(&own.stderr));
}
