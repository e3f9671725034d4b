//! The page of `stockade approvals web`, in a Chromium and with requests that no browser would send.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_tests::Place;
use stockade_tests::browser::{Browser, Reply, request};
use stockade_tests::gateway::Gateway;

use super::{asking, ended, place, start, text, until_one, waiting};

/// The server of the page; ended with the test.
struct Page {
    child: Child,
    _said: BufReader<ChildStdout>,
    link: String,
    port: u16,
}

impl Page {
    fn start(place: &Place) -> Page {
        stockade_tests::executable("stockade-agent");
        let mut command = place.stockade(["approvals", "web"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        let mut link = String::new();
        said.read_line(&mut link).expect("the link");
        let link = link.trim().to_owned();
        let rest = link.strip_prefix("http://localhost:").expect("a link");
        let port = rest.split('/').next().and_then(|it| it.parse().ok()).expect("a port");
        Page { child, _said: said, link, port }
    }

    fn secret(&self) -> &str {
        self.link.split_once('#').expect("a secret").1
    }

    /// The lines of a head that the page itself would send.
    fn own(&self) -> Vec<String> {
        vec![
            format!("Host: localhost:{}", self.port),
            format!("Origin: http://localhost:{}", self.port),
            "Content-Type: application/json".to_owned(),
        ]
    }

    fn post(&self, path: &str, head: &[String], body: &Value) -> Reply {
        request(self.port, &format!("POST {path}"), head, &body.to_string())
    }

    /// Opens the link as the page does, and returns the head that it then sends.
    fn opened(&self) -> Vec<String> {
        let mut head = self.own();
        let reply = self.post("/open", &head, &json!({ "link": self.secret() }));
        assert_eq!(reply.status, 200);
        let cookie = reply.header("set-cookie").expect("a cookie");
        let told: Value = serde_json::from_str(&reply.body).expect("an object");
        head.push(format!("Cookie: {}", cookie.split(';').next().expect("a pair")));
        head.push(format!("X-Stockade-Page: {}", told["page"].as_str().expect("a secret")));
        head
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn allow(question: &Value) -> Value {
    json!({ "act": "allow", "id": question["id"], "digest": question["digest"] })
}

#[test]
fn nobody_without_the_page_sees_or_answers_a_question() {
    let place = place("ap-web", 600);
    let _gateway = Gateway::start(&place);
    let running = start(&place, "touch made");
    let question = until_one(&place);
    let page = Page::start(&place);
    let answer = allow(&question);
    // The link of another server, or a part of this one, opens nothing and uses nothing up.
    for wrong in ["", &"0".repeat(64), &page.secret()[1..]] {
        assert_eq!(page.post("/open", &page.own(), &json!({ "link": wrong })).status, 401);
    }
    let known = page.opened();
    // A stolen link is used up.
    let stolen = page.post("/open", &page.own(), &json!({ "link": page.secret() }));
    assert_eq!((stolen.status, stolen.header("set-cookie")), (401, None));
    let without = |name: &str| -> Vec<String> {
        known.iter().filter(|line| !line.starts_with(name)).cloned().collect()
    };
    let with = |name: &str, line: &str| -> Vec<String> {
        let mut head = without(name);
        head.push(line.to_owned());
        head
    };
    let elsewhere = format!("Origin: http://localhost:{}", page.port + 1);
    for (head, status) in [
        // Another name that means this machine, and its numbers.
        (with("Host", &format!("Host: evil.test:{}", page.port)), 421),
        (with("Host", &format!("Host: 127.0.0.1:{}", page.port)), 421),
        (with("Host", "Host: localhost"), 421),
        // Another page, one of another port, and one without a name.
        (with("Origin", "Origin: http://evil.test"), 403),
        (with("Origin", &elsewhere), 403),
        (with("Origin", "Origin: null"), 403),
        (without("Origin"), 403),
        // A form sends no JSON.
        (with("Content-Type", "Content-Type: application/x-www-form-urlencoded"), 415),
        (with("Content-Type", "Content-Type: text/plain"), 415),
        // A browser sends cookies by itself, and only the page has the rest.
        (without("X-Stockade-Page"), 401),
        (without("Cookie"), 401),
        ([known.clone(), vec!["Sec-Fetch-Site: cross-site".into()]].concat(), 403),
    ] {
        for path in ["/answer", "/revoke"] {
            assert_eq!(page.post(path, &head, &answer).status, status, "{path} {head:?}");
        }
    }
    for missing in ["Cookie", "X-Stockade-Page"] {
        let reply = request(page.port, "GET /events", &without(missing), "");
        assert_eq!((reply.status, reply.body.as_str()), (401, ""), "{missing}");
    }
    // An answer without the digest of what was shown, or with another one.
    for digest in [Value::Null, json!("0".repeat(64))] {
        let mut wrong = answer.clone();
        wrong["digest"] = digest;
        assert_eq!(page.post("/answer", &known, &wrong).status, 409);
    }
    assert_eq!(waiting(&place).len(), 1);
    let events = request(page.port, "GET /events", &known, "");
    assert_eq!(events.status, 200);
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    assert_eq!(page.post("/answer", &known, &answer).status, 200);
    assert_eq!(ended(running).status.code(), Some(0));
    assert!(place.project().join("made").exists());
}

#[test]
fn each_answer_keeps_other_pages_and_scripts_out() {
    let place = place("ap-web-head", 600);
    let _gateway = Gateway::start(&place);
    let page = Page::start(&place);
    let reply = request(page.port, "GET /", &page.own()[..1], "");
    assert_eq!(reply.status, 200);
    let policy = reply.header("content-security-policy").expect("a policy");
    for part in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe-"), "{policy}");
    assert_eq!(reply.header("x-frame-options"), Some("DENY"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("access-control-allow-origin"), None);
    // Nobody else can listen where the link leads, at either address of `localhost`.
    for address in ["127.0.0.1", "::1"] {
        let taken = TcpListener::bind((address, page.port));
        assert!(taken.is_err(), "{address}");
    }
    // Only this machine is served.
    let listening = std::fs::read_to_string("/proc/net/tcp").expect("the table of sockets");
    let port = format!(":{:04X} ", page.port);
    let own: Vec<&str> = listening.lines().filter(|it| it.contains(&port)).collect();
    assert!(
        own.iter().filter(|it| it.contains(" 0A ")).all(|it| it.contains("0100007F:")),
        "{own:?}"
    );
}

#[test]
fn a_sandboxed_command_does_not_reach_the_page() {
    let place = Place::new("ap-web-inside");
    let _gateway = Gateway::start(&place);
    let page = Page::start(&place);
    for address in ["127.0.0.1", "localhost"] {
        let line = format!(
            "perl -e 'use IO::Socket::INET; print qq(reached) if IO::Socket::INET->new(q({address}:{}))'",
            page.port
        );
        let outside = Command::new("bash").arg("-c").arg(&line).output().expect("bash starts");
        assert_eq!(text(&outside.stdout), "reached", "{}", text(&outside.stderr));
        let inside = place.output(["run", "--", &line]);
        assert_eq!(inside.status.code(), Some(0), "{}", text(&inside.stderr));
        assert_eq!(text(&inside.stdout), "");
    }
}

/// A page of somebody else, which does what it can to the page at `port`.
fn attacker(port: u16, id: &str, digest: &str) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = format!("http://localhost:{port}");
    let body = json!({ "act": "allow", "id": id, "digest": digest });
    let html = format!(
        r#"<!doctype html><body><form id=f method=post action="{own}/answer" enctype="text/plain" target=t>
<input name='{{"act":"allow","id":"{id}","x":"' value='"}}'></form><iframe name=t></iframe><iframe id=i src="{own}/"></iframe>
<script>
const told = [];
const tries = [
  fetch("{own}/answer", {{ method: "POST", credentials: "include", headers: {{ "Content-Type": "application/json" }}, body: JSON.stringify({body}) }}),
  fetch("{own}/answer", {{ method: "POST", credentials: "include", mode: "no-cors", body: JSON.stringify({body}) }}),
  fetch("{own}/events", {{ credentials: "include" }}).then((it) => it.text()),
  fetch("{own}/", {{ credentials: "include" }}).then((it) => it.text()),
  new Promise((done, fail) => {{ const it = new EventSource("{own}/events", {{ withCredentials: true }}); it.onmessage = done; it.onerror = () => fail("closed"); }}),
  new Promise((done, fail) => {{ const it = new WebSocket("ws://localhost:{port}/events"); it.onopen = done; it.onerror = () => fail("closed"); }}),
].map((it) => it.then((found) => told.push("got " + (typeof found === "string" ? found : found.type)), () => told.push("kept out")));
document.getElementById("f").submit();
Promise.all(tries).then(() => {{
  let frame = "frame kept out";
  try {{ if (document.getElementById("i").contentDocument.body.innerText) frame = "frame got"; }} catch {{}}
  document.body.append("done: " + told.join(", ") + ", " + frame);
}});
</script>"#
    );
    let serving = listener.try_clone().expect("a second handle");
    std::thread::spawn(move || {
        for stream in serving.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{html}",
                html.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    listener
}

#[test]
fn in_a_browser_no_other_page_reads_or_answers_and_a_stolen_link_is_dead() {
    let place = place("ap-web-attack", 600);
    let Some(browser) = Browser::start("approvals::web", &place.root.join("chromium")) else {
        return;
    };
    let _gateway = Gateway::start(&place);
    let running = start(&place, "touch made");
    let question = until_one(&place);
    let page = Page::start(&place);
    browser.open(&page.link);
    let shown = browser.until("1 question waits");
    assert!(shown.contains("touch made"), "{shown}");
    assert_eq!(browser.script("return location.hash + document.cookie"), "");
    // The thief comes second, in a browser that has the cookie.
    browser.open_tab(&page.link);
    let told = browser.until("this link was used already");
    assert!(!told.contains("touch made"), "{told}");
    // Another name that is made to mean this machine.
    browser.open_tab(&format!("http://rebound.test:{}/#{}", page.port, page.secret()));
    assert!(!browser.text().contains("stockade"), "{}", browser.text());
    // Pages of another host and of another port, in the browser that has the cookie.
    let (id, digest) = (question["id"].as_str().unwrap(), question["digest"].as_str().unwrap());
    let attacker = attacker(page.port, id, digest);
    let port = attacker.local_addr().expect("a port").port();
    for host in ["evil.test", "localhost"] {
        browser.open_tab(&format!("http://{host}:{port}/"));
        let told = browser.until("done: ");
        assert!(!told.contains("touch made"), "{told}");
        // An answer whose content no script may read is all that anybody gets.
        assert!(!told.replace("got opaque", "").contains("got "), "{told}");
        assert!(told.contains("frame kept out"), "{told}");
    }
    assert_eq!(waiting(&place).len(), 1, "nobody answered");
    assert!(!place.project().join("made").exists());
    assert_eq!(place.output(["approvals", "deny", id]).status.code(), Some(0));
    assert_eq!(ended(running).status.code(), Some(120));
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_person_answers_with_the_keyboard_and_sees_grants_and_history() {
    let place = asking("ap-web-keys");
    let Some(browser) = Browser::start("approvals::web", &place.root.join("chromium")) else {
        return;
    };
    let _gateway = Gateway::start(&place);
    let page = Page::start(&place);
    browser.open(&page.link);
    browser.until("Nothing waits.");
    let press = |key: &str, child: Child| {
        // A key that is pressed right after a question came up is meant for another one.
        let mut child = child;
        until("the answer counts", || {
            browser.keys(key);
            child.try_wait().expect("its state").is_some()
        });
        ended(child)
    };
    // The page draws its parts one after the other.
    let click = |button: &str| {
        let script = format!(
            "const it = document.querySelector('{button}'); it?.click(); return it !== null"
        );
        until("the button is there", || browser.script(&script) == json!(true));
    };
    // Once, with all that is known about it. Text of an agent is text.
    let running = start(&place, "touch made '<b>x<b>' && echo \u{202e}");
    let shown = browser.until("1 question waits");
    for part in ["touch made '<b>x<b>'", "\\u{202e}", "Parts", "asked by", "digest"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let output = press("y", running);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    browser.until("allowed · run");
    // For minutes: it is listed, holds, and is revoked at once.
    let running = start(&place, "touch made");
    browser.until("1 question waits");
    click("#detail button.minutes");
    assert_eq!(ended(running).status.code(), Some(0));
    browser.until("Bash(touch made)");
    assert_eq!(ended(start(&place, "touch made")).status.code(), Some(0));
    click("#grants button.revoke");
    until("it is revoked", || text(&place.output(["grants"]).stdout).is_empty());
    // With a word, and what changed since the last time.
    place.write("home/.config/stockade/settings.json",
        r#"{"permissions":{"deny":["Bash(rm:*)"]},"sandbox":{"autoAllowBashIfSandboxed":false},"approvals":{"waitSeconds":600}}"#);
    let running = start(&place, "touch made");
    let shown = browser.until("1 question waits");
    assert!(shown.contains("changed since: settings"), "{shown}");
    until("the field has the focus", || {
        browser.keys("w");
        browser.script("return document.activeElement.id") == "why"
    });
    browser.keys("use make\u{e007}");
    let output = ended(running);
    assert_eq!(output.status.code(), Some(120));
    assert!(text(&output.stderr).contains("use make"), "{}", text(&output.stderr));
    // In the dark and in the light.
    let colour = |scheme: &str| {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.tool("Emulation.setEmulatedMedia", &json!({ "features": features }));
        browser.script("return getComputedStyle(document.body).backgroundColor")
    };
    assert_eq!(
        (colour("light"), colour("dark")),
        (json!("rgb(255, 255, 255)"), json!("rgb(22, 24, 28)"))
    );
}
