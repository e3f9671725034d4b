//! The way out of a confined command, through the executable: what is listed is reached, everything else is
//! refused by name, asked about, and written down. Servers of the test on the loopback interface, nothing else.

#[path = "network/programs.rs"]
mod programs;
#[path = "network/server.rs"]
mod server;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use server::Server;
use stockade_tests::gateway::Gateway;
use stockade_tests::terminal::Terminal;
use stockade_tests::{Place, skip, stockade, until};

/// `curl` that uses the proxy for the loopback, too.
const CURL: &str = "curl -sS --noproxy ''";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes `network` into the settings of the user.
fn user(place: &Place, network: &Value) {
    let settings = json!({ "sandbox": { "network": network } });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
}

fn run(place: &Place, line: &str) -> Output {
    place.output(["run", "--no-daemon", "--", line])
}

/// Runs `line` and returns the object of `--json`.
fn object(place: &Place, line: &str) -> Value {
    let output = place.output(["run", "--no-daemon", "--json", "--", line]);
    let object = serde_json::from_slice(&output.stdout);
    object.unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// Runs `script` from a file: what a shell opens by itself is asked about when it stands in the command.
fn script(place: &Place, script: &str) -> Value {
    place.write("project/try.sh", script);
    object(place, "bash try.sh")
}

/// Returns the records of connections.
fn connections(place: &Place) -> Vec<Value> {
    let output = place.output(["audit", "search", "--json", "--kind", "connection"]);
    let lines = text(&output.stdout);
    lines.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

fn assert_intact(place: &Place) {
    let output = place.output(["audit", "verify"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

/// Asserts that `line` works outside of any sandbox.
fn works_outside(place: &Place, line: &str) {
    let output = Command::new("bash")
        .args(["-c", line])
        .current_dir(place.project())
        .output()
        .expect("bash");
    assert!(output.status.success(), "must work unconfined: {line}: {}", text(&output.stderr));
}

#[test]
fn a_host_without_a_rule_is_refused_and_named_with_the_line_that_would_allow_it() {
    let (place, server) = (Place::new("network-unlisted"), Server::new());
    let port = server.port();
    let line = format!("{CURL} --fail http://127.0.0.1:{port}/a");
    works_outside(&place, &line);
    assert_eq!(server.requests(), ["GET /a"]);
    let object = object(&place, &line);
    assert_eq!(object["exit_code"], 22, "{object}");
    assert_eq!(server.requests(), ["GET /a"], "the server was reached");
    let rule = format!("127.0.0.1:{port}");
    let change = format!("to allow: sandbox.network.allowedDomains: [\"{rule}\"] (local settings)");
    assert_eq!(
        object["violations"],
        json!([{
            "kind": "network", "syscall": "connect", "path_or_host": rule, "errno": 0, "pid": 0,
            "program": "", "rule": "no rule", "file": null, "line": null,
            "reason": "no rule matches this host",
            "remedy": {
                "change": "add", "setting": "sandbox.network.allowedDomains", "value": [rule],
                "layer": "local", "text": change,
            },
            "why_not": null, "count": 1, "source": "proxy",
        }])
    );
    let output = run(&place, &line);
    assert!(
        text(&output.stderr).ends_with(&format!(
            "stockade: refused connection to {rule}: no rule matches this host; {change}\n"
        )),
        "{output:?}"
    );
    let [first, second] = connections(&place).try_into().expect("two records");
    for record in [&first, &second] {
        assert_eq!(record["action"], "refused");
        assert_eq!(record["to"], json!({"host": "127.0.0.1", "port": port}));
        assert_eq!(record["verdict"]["decision"], "deny");
        assert_eq!(record["verdict"]["code"], "host_unlisted");
    }
    assert_intact(&place);
}

#[test]
fn what_would_allow_it_allows_it_and_bytes_are_on_record() {
    let (place, server) = (Place::new("network-listed"), Server::new());
    let port = server.port();
    let rule = format!("127.0.0.1:{port}");
    user(&place, &json!({ "allowedDomains": [rule] }));
    let output = run(&place, &format!("{CURL} http://{rule}/a"));
    assert_eq!(text(&output.stdout), "served /a\n", "{output:?}");
    assert_eq!(text(&output.stderr), "", "a run without refusals says nothing");
    let [opened, closed] = connections(&place).try_into().expect("two records");
    assert_eq!(opened["action"], "opened");
    assert_eq!(opened["addresses"], json!(["127.0.0.1"]));
    assert_eq!(opened["rules"][0]["text"], rule);
    assert_eq!(opened["rules"][0]["layer"], "user");
    assert_eq!(opened["bytes"], Value::Null);
    assert_eq!(closed["action"], "closed");
    assert!(closed["bytes"]["sent"].as_u64() > Some(20), "{closed}");
    assert!(closed["bytes"]["received"].as_u64() > Some(10), "{closed}");
    let result = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "result"]);
    let result: Value = serde_json::from_slice(&result.stdout).expect("a record");
    assert_eq!(result["touched"]["sockets"], json!([rule]));
    let why = text(&place.output(["audit", "why", "last"]).stdout);
    assert!(
        why.contains(&format!("connection to 127.0.0.1:{port} closed (127.0.0.1) by `{rule}`")),
        "{why}"
    );
    let found = place.output(["audit", "search", "--host", "127.0.0.1"]);
    assert_eq!(text(&found.stdout).lines().count(), 3, "{}", text(&found.stdout));
    assert_intact(&place);
}

#[test]
fn a_deny_rule_beats_every_allow_rule_and_web_fetch_rules_count() {
    let (place, server) = (Place::new("network-deny"), Server::new());
    let rule = format!("127.0.0.1:{}", server.port());
    place.write(
        "home/.config/stockade/settings.json",
        &json!({
            "permissions": { "deny": ["WebFetch(domain:127.0.0.1)"] },
            "sandbox": { "network": { "allowedDomains": [rule, "*"] } },
        })
        .to_string(),
    );
    let object = object(&place, &format!("{CURL} --fail http://{rule}/"));
    let [violation] = object["violations"].as_array().unwrap().as_slice() else {
        panic!("{object}")
    };
    assert_eq!(violation["rule"], "127.0.0.1");
    assert_eq!(violation["line"], 1);
    assert_eq!(violation["remedy"]["change"], "remove");
    assert_eq!(violation["remedy"]["setting"], "permissions.deny");
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn a_listed_name_that_leads_to_a_private_address_is_refused() {
    let (place, server) = (Place::new("network-private"), Server::new());
    let port = server.port();
    let line = format!("{CURL} --fail http://localhost:{port}/a");
    user(&place, &json!({ "allowedDomains": [format!("localhost:{port}")] }));
    let refused = object(&place, &line);
    assert_eq!(refused["violations"][0]["remedy"]["setting"], "sandbox.network.allowPrivate");
    assert!(
        refused["violations"][0]["reason"].as_str().unwrap().ends_with("it is a loopback address"),
        "{refused}"
    );
    assert_eq!(server.requests(), Vec::<String>::new());
    user(
        &place,
        &json!({ "allowedDomains": [format!("localhost:{port}")], "allowPrivate": ["localhost"] }),
    );
    let allowed = object(&place, &line);
    assert_eq!(allowed["output"], "served /a\n", "{allowed}");
    // A rule that names the address itself says enough.
    let rules = [format!("localhost:{port}"), format!("127.0.0.1:{port}")];
    user(&place, &json!({ "allowedDomains": rules }));
    assert_eq!(object(&place, &line)["output"], "served /a\n");
}

#[test]
fn what_a_project_brings_along_widens_only_when_it_is_trusted() {
    let (place, server) = (Place::new("network-trust"), Server::new());
    let rule = format!("127.0.0.1:{}", server.port());
    let settings = json!({ "sandbox": { "network": { "allowedDomains": [rule] } } });
    place.write("project/.stockade/settings.json", &settings.to_string());
    let object = object(&place, &format!("{CURL} --fail http://{rule}/"));
    assert_eq!(object["violations"][0]["rule"], "no rule", "{object}");
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn there_is_no_way_past_the_proxy() {
    let (place, server) = (Place::new("network-past"), Server::new());
    let port = server.port();
    user(&place, &json!({ "allowedDomains": ["allowed.example"] }));
    let direct = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    works_outside(&place, &direct);
    let refused = script(&place, &direct);
    assert_eq!(refused["exit_code"], 1, "{refused}");
    // A raw question to a name server, and an address that is not the loopback.
    let dns = "printf x > /dev/udp/192.0.2.53/53; exec 3<>/dev/tcp/192.0.2.1/443";
    let object = script(&place, dns);
    let named: Vec<&str> = object["violations"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["path_or_host"].as_str())
        .collect();
    assert_eq!(named, ["192.0.2.53:53", "192.0.2.1:443"], "{object}");
    assert_eq!(
        object["sandbox"]["enforced"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| *it == "network")
            .count(),
        1
    );
}

#[test]
fn requests_that_two_readers_could_read_in_two_ways_are_refused() {
    let (place, server) = (Place::new("network-shapes"), Server::new());
    let allowed = format!("127.0.0.1:{}", server.port());
    user(&place, &json!({ "allowedDomains": [allowed] }));
    let good = (format!("GET http://{allowed}/good HTTP/1.1\\r\\nHost: {allowed}\\r\\n"), "200");
    let shapes: Vec<(String, &str)> = [
        good,
        (format!("GET http://{allowed}/1 HTTP/1.1\\r\\nHost: evil.example\\r\\n"), "400"),
        (format!("GET http://evil.example/2 HTTP/1.1\\r\\nHost: {allowed}\\r\\n"), "400"),
        (
            format!("GET http://{allowed}@evil.example/3 HTTP/1.1\\r\\nHost: evil.example\\r\\n"),
            "400",
        ),
        (format!("GET http://evil.example#{allowed}/4 HTTP/1.1\\r\\nHost: {allowed}\\r\\n"), "400"),
        (
            format!("GET http://evil.example\\\\{allowed}/5 HTTP/1.1\\r\\nHost: {allowed}\\r\\n"),
            "400",
        ),
        (
            format!(
                "GET http://{allowed}/6 HTTP/1.1\\r\\nHost: {allowed}\\r\\nHost: {allowed}\\r\\n"
            ),
            "400",
        ),
        (
            format!(
                "POST http://{allowed}/7 HTTP/1.1\\r\\nHost: {allowed}\\r\\nContent-Length: 5\\r\\n\
                 Transfer-Encoding: chunked\\r\\n"
            ),
            "400",
        ),
        (format!("GET http://{allowed}/8 HTTP/1.1\\nHost: {allowed}\\n"), "400"),
        (
            format!("GET http://{allowed}/9 HTTP/1.1\\r\\nHost: {allowed}\\r\\nX: a\\r\\n b\\r\\n"),
            "400",
        ),
        ("GET http://2130706433/10 HTTP/1.1\\r\\nHost: 2130706433\\r\\n".into(), "400"),
        ("GET http://0x7f.1/11 HTTP/1.1\\r\\nHost: 0x7f.1\\r\\n".into(), "400"),
        ("GET http://127.0.0.1./12 HTTP/1.1\\r\\nHost: 127.0.0.1.\\r\\n".into(), "400"),
        (
            "GET http://[::ffff:127.0.0.1]/13 HTTP/1.1\\r\\nHost: [::ffff:127.0.0.1]\\r\\n".into(),
            "403",
        ),
        ("GET http://EVIL.EXAMPLE./14 HTTP/1.1\\r\\nHost: evil.example\\r\\n".into(), "403"),
        ("CONNECT 169.254.169.254:80 HTTP/1.1\\r\\nHost: 169.254.169.254:80\\r\\n".into(), "403"),
        (format!("CONNECT {allowed} HTTP/1.1\\r\\nHost: evil.example:443\\r\\n"), "400"),
    ]
    .into();
    let lines: String = shapes
        .iter()
        .map(|(request, _)| {
            format!(
                "exec 3<>/dev/tcp/127.0.0.1/29128; printf '{request}\\r\\n' >&3; \
                 read -r _ status _ <&3; echo $status; exec 3>&-\n"
            )
        })
        .collect();
    let object = script(&place, &lines);
    let expected: Vec<&str> = shapes.iter().map(|shape| shape.1).collect();
    let seen = object["output"].as_str().unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected, "{object}");
    assert_eq!(server.requests(), ["GET /good"]);
    assert_intact(&place);
}

#[test]
fn without_network_there_is_no_proxy_either() {
    let place = Place::new("network-off");
    user(&place, &json!({ "enabled": false, "allowedDomains": ["*"] }));
    // Both streams are in `output`, in the order in which they come: so bash says nothing here.
    let tried = "env | grep -ci proxy; { exec 3<>/dev/tcp/127.0.0.1/29128; } 2> /dev/null";
    let object = script(&place, tried);
    assert_eq!((&object["exit_code"], &object["output"]), (&json!(1), &json!("0\n")), "{object}");
    let decision = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "decision"]);
    let decision: Value = serde_json::from_slice(&decision.stdout).expect("a record");
    assert_eq!(decision["sandbox"]["network"], "off");
}

#[test]
fn a_socket_of_the_host_is_reached_when_settings_name_it() {
    let place = Place::new("network-socket");
    let path = place.root.join("open.sock");
    let _server = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let line = format!(
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"{}\") or die $!'",
        path.display()
    );
    works_outside(&place, &line);
    let refused = object(&place, &line);
    assert_eq!(refused["violations"][0]["kind"], "unix-socket", "{refused}");
    user(&place, &json!({ "allowUnixSockets": [path] }));
    assert_eq!(object(&place, &line)["exit_code"], 0);
}

/// Returns the number of the proxy that `gateway` started.
fn proxy_of(gateway: u32) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(|pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == Some(&gateway.to_string()) && line.ends_with(b"\0proxy\0")
    })
}

/// Waits until a process has ended, reaped or not.
fn await_end(process: u32) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let state = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    loop {
        let state = state();
        // Its first thread may be gone before the others, which hold the descriptors.
        let threads = std::fs::read_dir(format!("/proc/{process}/task"));
        let is_last = threads.map_or(true, |it| it.count() <= 1);
        if state.is_empty() || state.contains(") Z ") && is_last {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "it is left");
        std::thread::yield_now();
    }
}

/// Starts a command that makes one connection, waits for a line, and makes another.
fn two_connections(name: &str) -> (Place, Server, std::process::Child) {
    let (place, server) = (Place::new(name), Server::new());
    let rule = format!("127.0.0.1:{}", server.port());
    user(&place, &json!({ "allowedDomains": [rule] }));
    let line =
        format!("{CURL} http://{rule}/first; read -r line; {CURL} http://{rule}/second; echo $?");
    let mut command = place.stockade(["run", "--no-daemon", "--", &line]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the executable starts");
    (place, server, child)
}

#[test]
fn when_the_proxy_dies_nothing_leaves_any_more() {
    let (place, server, mut child) = two_connections("network-dead");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "served /first\n");
    let proxy = proxy_of(child.id()).expect("a proxy");
    let killed = Command::new("kill").args(["-9", &proxy.to_string()]).status().unwrap();
    assert!(killed.success());
    // Until it has closed its sockets a connection is taken, and reset.
    await_end(proxy);
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "7\n", "curl cannot connect");
    let ended = child.wait_with_output().unwrap();
    assert!(text(&ended.stderr).contains("the proxy ended before the command"), "{ended:?}");
    assert_eq!(server.requests(), ["GET /first"]);
    assert_intact(&place);
}

#[test]
fn a_proxy_ends_with_its_run_and_with_its_gateway() {
    let (place, _server, mut child) = two_connections("network-end");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let proxy = proxy_of(child.id()).expect("a proxy");
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!std::path::Path::new(&format!("/proc/{proxy}")).exists(), "it is left");
    drop(place);
    // Killed, the gateway cannot end it; its own end does.
    let (_place, _server, mut child) = two_connections("network-killed");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let proxy = proxy_of(child.id()).expect("a proxy");
    child.kill().unwrap();
    child.wait().unwrap();
    await_end(proxy);
}

/// Starts a command that wants to reach the server, at a terminal.
fn at_a_terminal(test: &str, place: &Place, server: &Server) -> Option<Terminal> {
    let url = format!("http://127.0.0.1:{}", server.port());
    let line = format!("{CURL} {url}/a; {CURL} {url}/b");
    let terminal = Terminal::start(place, stockade(), &["run", "--no-daemon", "--", &line]);
    if terminal.is_none() {
        skip(test, "the program `script`, which gives a terminal, is not installed");
    }
    terminal
}

#[test]
fn a_person_is_asked_once_for_a_host_and_the_answer_holds_for_the_run() {
    for (answer, requests, said) in [
        ("once\n", &["GET /a", "GET /b"][..], "host_allowed_by_person"),
        ("deny\n", &[][..], "declined"),
    ] {
        let (place, server) = (Place::new("network-asked"), Server::new());
        let test = "a_person_is_asked_once_for_a_host_and_the_answer_holds_for_the_run";
        let Some(mut terminal) = at_a_terminal(test, &place, &server) else { return };
        terminal.wait_for(&format!("wants to reach `127.0.0.1:{}`", server.port()));
        terminal.wait_for("once, always, deny: ");
        terminal.press(answer);
        let (status, screen) = terminal.end();
        assert_eq!(status, Some(0), "{screen}");
        assert_eq!(screen.matches("wants to reach").count(), 1, "{screen}");
        assert_eq!(server.requests(), requests);
        assert_eq!(connections(&place)[0]["verdict"]["code"], said);
        assert_eq!(connections(&place)[0]["verdict"]["by"], "human");
        assert_intact(&place);
    }
}

#[test]
fn what_a_command_prints_while_a_person_is_asked_waits_for_the_answer() {
    let (place, server) = (Place::new("network-noise"), Server::new());
    let noise = "until [ -e asked ]; do sleep 0.02; done; seq -f noise-%g 200; touch written";
    let line = format!("({noise}) & {CURL} http://127.0.0.1:{}/a; wait", server.port());
    let terminal = Terminal::start(&place, stockade(), &["run", "--no-daemon", "--", &line]);
    let test = "what_a_command_prints_while_a_person_is_asked_waits_for_the_answer";
    let Some(mut terminal) = terminal else {
        return skip(test, "the program `script`, which gives a terminal, is not installed");
    };
    terminal.wait_for("once, always, deny: ");
    place.write("project/asked", "");
    until("all is written", || place.project().join("written").exists());
    terminal.press("once\n");
    let (status, screen) = terminal.end();
    assert_eq!(status, Some(0), "{screen}");
    let (_, behind) = screen.split_once("once, always, deny: ").expect("the question");
    assert!(behind.starts_with("once") && behind.contains("noise-200"), "{screen}");
    assert_eq!(server.requests(), ["GET /a"]);
}

#[test]
fn what_a_command_printed_before_a_question_stands_before_it() {
    let (place, server) = (Place::new("network-late"), Server::new());
    let url = format!("http://127.0.0.1:{}/a", server.port());
    // Each piece that is printed ends in the middle of a line.
    let noise =
        "for i in {1..2000}; do printf '%s\\nnoise' 0123456789012345678901234567890123456789; done";
    let fetch = format!("until [ -e go ]; do sleep 0.02; done; {CURL} {url}");
    place.write("project/try.sh", &format!("({fetch}) & {noise}; wait\n"));
    let arguments = ["run", "--no-daemon", "--quiet", "--", "bash try.sh"];
    let test = "what_a_command_printed_before_a_question_stands_before_it";
    let Some(mut terminal) = Terminal::start(&place, stockade(), &arguments) else {
        return skip(test, "the program `script`, which gives a terminal, is not installed");
    };
    // From here on the screen is read byte by byte, so that the terminal has no room when the question comes.
    terminal.wait_for("noise");
    place.write("project/go", "");
    terminal.wait_for("once, always, deny: ");
    terminal.press("deny\n");
    let (_, screen) = terminal.end();
    let (_, behind) = screen.split_once("stockade: needs a person: ").expect("the question");
    let (question, _) = behind.split_once("deny\r\n").expect("the answer");
    assert!(!question.contains("noise") && !question.contains("0123456789"), "{question}");
}

#[test]
fn always_writes_the_host_into_the_local_settings_and_it_counts_from_then_on() {
    let (place, server) = (Place::new("network-always"), Server::new());
    let test = "always_writes_the_host_into_the_local_settings_and_it_counts_from_then_on";
    let Some(mut terminal) = at_a_terminal(test, &place, &server) else { return };
    terminal.wait_for("once, always, deny: ");
    terminal.press("always\n");
    let (status, screen) = terminal.end();
    assert_eq!(status, Some(0), "{screen}");
    let written = std::fs::read(place.project().join(".stockade/settings.local.json")).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    let rule = format!("127.0.0.1:{}", server.port());
    assert_eq!(written, json!({ "sandbox": { "network": { "allowedDomains": [rule] } } }));
    let output = run(&place, &format!("{CURL} http://{rule}/later"));
    assert_eq!(text(&output.stdout), "served /later\n", "{output:?}");
    let grant = place.output(["audit", "tail", "--json", "-n", "1", "--kind", "grant"]);
    assert!(text(&grant.stdout).contains(&rule), "{grant:?}");
}

#[test]
fn a_gateway_behind_a_socket_asks_its_client() {
    let (place, server) = (Place::new("network-serve"), Server::new());
    let gateway = Gateway::start(&place);
    let test = "a_gateway_behind_a_socket_asks_its_client";
    let command = format!("{CURL} http://127.0.0.1:{}/a", server.port());
    let terminal = Terminal::start(&place, stockade(), &["run", "--", &command]);
    match terminal {
        None => skip(test, "the program `script`, which gives a terminal, is not installed"),
        Some(mut terminal) => {
            terminal.wait_for("once, always, deny: ");
            terminal.press("once\n");
            let (status, screen) = terminal.end();
            assert_eq!(status, Some(0), "{screen}");
            assert_eq!(server.requests(), ["GET /a"]);
        }
    }
    assert_eq!(gateway.end(), Some(0));
    assert_intact(&place);
}

#[test]
fn where_questions_are_refusals_a_host_is_not_asked_about_either() {
    let (place, server) = (Place::new("network-dont-ask"), Server::new());
    let test = "where_questions_are_refusals_a_host_is_not_asked_about_either";
    let line = format!("{CURL} http://127.0.0.1:{}/a", server.port());
    let arguments = ["run", "--no-daemon", "--permission-mode", "dontAsk", "--", &line];
    let Some(terminal) = Terminal::start(&place, stockade(), &arguments) else {
        return skip(test, "the program `script`, which gives a terminal, is not installed");
    };
    let (_, screen) = terminal.end();
    assert!(!screen.contains("wants to reach"), "{screen}");
    assert!(screen.contains("no rule matches this host"), "{screen}");
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn a_strict_list_is_never_asked_about() {
    let (place, server) = (Place::new("network-strict"), Server::new());
    user(&place, &json!({ "strictAllowlist": true }));
    let test = "a_strict_list_is_never_asked_about";
    let Some(terminal) = at_a_terminal(test, &place, &server) else { return };
    let (_, screen) = terminal.end();
    assert!(!screen.contains("wants to reach"), "{screen}");
    assert!(screen.contains("`sandbox.network.strictAllowlist` forbids asking"), "{screen}");
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn sixty_four_at_once_are_all_served() {
    let (place, server) = (Place::new("network-many"), Server::new());
    let rule = format!("127.0.0.1:{}", server.port());
    user(&place, &json!({ "allowedDomains": [rule] }));
    let line = format!(
        "for i in $(seq 64); do {CURL} --fail http://{rule}/$i > out-$i & done; wait; cat out-* | sort -u | wc -l"
    );
    let object = object(&place, &line);
    assert_eq!(object["output"], "64\n", "{object}");
    assert_eq!(server.requests().len(), 64);
    assert_intact(&place);
}

#[test]
fn doctor_tries_the_proxy() {
    let place = Place::new("network-doctor");
    let output = place.output(["doctor", "--json"]);
    let told: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let probes = told["probes"].as_array().unwrap();
    let probe = probes.iter().find(|it| it["name"] == "the proxy forwards to listed hosts");
    assert_eq!(probe.expect("a probe")["works"], true, "{told}");
    assert!(told["took_ms"].as_u64().is_some(), "{told}");
}
