//! Records as traces, metrics and logs of OpenTelemetry: what is sent, what is not, and what a collector that is away costs.

#[path = "telemetry/collector.rs"]
mod collector;
#[path = "telemetry/receiver.rs"]
mod receiver;
#[path = "telemetry/sessions.rs"]
mod sessions;

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::process::{Child, Command, Stdio};

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::trace::v1::Span;
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketType};
use serde_json::{Value, json};
use stockade_tests::Place;
use stockade_tests::gateway::Gateway;

use receiver::{Receiver, named};

/// The trace of a caller.
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `stockade telemetry` for a collector at `url`.
fn telemetry(place: &Place, url: &str, words: &[&str]) -> Command {
    let mut command = place.stockade(["telemetry"]);
    command.args(words).env("OTEL_EXPORTER_OTLP_ENDPOINT", url);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "50").env("OTEL_METRIC_EXPORT_INTERVAL", "200");
    command
}

/// Sends all that is there, and returns what it said.
fn send(place: &Place, receiver: &Receiver, words: &[&str]) -> String {
    let mut command = telemetry(place, &receiver.url(), &["--once"]);
    let output = command.args(words).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    text(&output.stderr)
}

fn run_with(place: &Place, line: &str, variables: &[(&str, &str)]) {
    let mut command = place.stockade(["run", "--", line]);
    let output = command.envs(variables.iter().copied()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

fn check(place: &Place, line: &str) -> Option<i32> {
    place.output(["check", "--record", line]).status.code()
}

/// The spans of a name.
fn of<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|it| it.name == name).collect()
}

/// A process that sends until the end of the test.
struct Sending(Child);

impl Sending {
    fn start(place: &Place, url: &str, words: &[&str]) -> Sending {
        let mut command = telemetry(place, url, words);
        Sending(command.stderr(Stdio::piped()).spawn().expect("it starts"))
    }

    /// Ends it as a service manager does, and returns its status and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let status = self.0.wait().expect("it ends").code();
        let mut said = String::new();
        let stderr = self.0.stderr.take().expect("what it says");
        std::io::Read::read_to_string(&mut { stderr }, &mut said).expect("text");
        (status, said)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_call_is_a_trace_that_goes_on_from_its_caller() {
    let place = Place::new("te-trace");
    let _gateway = Gateway::start(&place);
    run_with(&place, "echo confidential", &[("TRACEPARENT", TRACE)]);
    let receiver = Receiver::start();
    assert_eq!(send(&place, &receiver, &[]), "");
    let spans = receiver.spans();
    let names: Vec<&str> = spans.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["judge", "run", "call"]);
    let [judge, run, call] = spans.as_slice() else { panic!("three spans") };
    for span in &spans {
        assert_eq!(hex(&span.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(span.span_id.len(), 8);
        assert_eq!(span.status, None);
        assert!(
            span.start_time_unix_nano > 0 && span.start_time_unix_nano <= span.end_time_unix_nano
        );
    }
    assert_eq!(hex(&call.parent_span_id), "00f067aa0ba902b7");
    assert_eq!((&judge.parent_span_id, &run.parent_span_id), (&call.span_id, &call.span_id));
    assert!(call.start_time_unix_nano == judge.start_time_unix_nano);
    assert!(judge.end_time_unix_nano <= run.start_time_unix_nano);
    assert!(run.end_time_unix_nano <= call.end_time_unix_nano);
    // Sampled, and a parent in another process or in this one.
    assert_eq!((call.flags, judge.flags, run.flags), (0x301, 0x101, 0x101));
    let mut attributes = named(&call.attributes);
    let host = attributes["host.id"].take();
    assert!(host.as_str().is_some_and(|it| it.starts_with("h-")), "{host}");
    let uid = rustix::process::getuid().as_raw();
    assert_eq!(
        attributes,
        json!({ "stockade.tool": "Bash", "stockade.decision": "allow", "stockade.by": "builtin",
            "stockade.code": "read_only", "stockade.runs": "gateway", "stockade.door": "run",
            "stockade.mode": "default", "host.id": null, "stockade.uid": uid })
    );
    assert_eq!(named(&run.attributes)["process.exit.code"], 0);
    assert_eq!(named(&run.attributes)["stockade.stdout.bytes"], "confidential\n".len());
    // A call whose caller wants no trace has none, and is counted all the same.
    let unsampled = TRACE.replace("-01", "-00");
    run_with(&place, "echo more", &[("TRACEPARENT", &unsampled)]);
    run_with(&place, "echo more", &[("TRACEPARENT", "00-not-a-trace-01")]);
    let receiver = Receiver::start();
    send(&place, &receiver, &[]);
    let spans = receiver.spans();
    assert_eq!(spans.len(), 3, "of the second call alone");
    assert_ne!(hex(&spans[0].trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(of(&spans, "call")[0].parent_span_id.is_empty());
    assert_eq!(receiver.logs().len(), 4);
}

#[test]
fn texts_are_sent_only_where_they_are_asked_for_and_masked_then() {
    let place = Place::new("te-texts");
    let settings = json!({ "permissions": { "deny": ["Bash(forbidden-word:*)"] } });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let _gateway = Gateway::start(&place);
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    run_with(&place, &format!("echo confidential {token}"), &[("OWN_VARIABLE", "own-value")]);
    assert_eq!(check(&place, "forbidden-word now"), Some(120));
    let receiver = Receiver::start();
    send(&place, &receiver, &[]);
    let project = place.project().display().to_string();
    let texts = ["confidential", "ghp_", "OWN_VARIABLE", "own-value", "forbidden-word", &project];
    let has = |receiver: &Receiver, text: &str| {
        let requests = receiver.requests();
        requests.iter().any(|it| it.body.windows(text.len()).any(|part| part == text.as_bytes()))
    };
    for text in texts {
        assert!(!has(&receiver, text), "{text}");
    }
    // Everything again, with texts. What the log masks stays masked.
    let words = ["--from", "0", "--include", "commands", "--include", "paths"];
    let receiver = Receiver::start();
    send(&place, &receiver, &words);
    for text in ["echo confidential ", "forbidden-word now", "Bash(forbidden-word:*)", &project] {
        assert!(has(&receiver, text), "{text}");
    }
    for text in ["ghp_", "OWN_VARIABLE", "own-value"] {
        assert!(!has(&receiver, text), "{text}");
    }
    let spans = receiver.spans();
    let denied = of(&spans, "call")[1];
    assert_eq!(named(&denied.attributes)["stockade.rule"], "Bash(forbidden-word:*)");
    let status = denied.status.clone().expect("a status");
    assert_eq!((status.code, status.message.as_str()), (2, "denied: rule_deny"));
}

#[test]
fn calls_answers_times_and_bytes_are_counted() {
    let place = Place::new("te-count");
    let settings = json!({ "permissions": { "deny": ["Bash(curl:*)"] } });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let _gateway = Gateway::start(&place);
    run_with(&place, "echo 12345", &[]);
    run_with(&place, "echo 1", &[]);
    place.output(["run", "--", "test -e /nowhere"]);
    assert_eq!(check(&place, "curl x"), Some(120));
    let receiver = Receiver::start();
    send(&place, &receiver, &[]);
    let (resource, metrics) = receiver.metrics();
    assert_eq!(
        resource,
        json!({ "service.name": "stockade", "service.version": env!("CARGO_PKG_VERSION") })
    );
    let (mut sums, mut counts) = (Vec::new(), Vec::new());
    for metric in &metrics {
        match metric.data.as_ref().expect("data") {
            Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
                for point in &sum.data_points {
                    let number_data_point::Value::AsInt(value) = point.value.expect("a value")
                    else {
                        panic!("a whole number")
                    };
                    assert!(point.start_time_unix_nano < point.time_unix_nano);
                    sums.push(json!([metric.name, metric.unit, named(&point.attributes), value]));
                }
            }
            Data::Histogram(histogram) => {
                assert_eq!((histogram.aggregation_temporality, metric.unit.as_str()), (2, "s"));
                for point in &histogram.data_points {
                    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                    assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
                    assert!(point.sum.expect("a sum") > 0.0);
                    counts.push(json!([metric.name, named(&point.attributes), point.count]));
                }
            }
            other => panic!("{other:?}"),
        }
    }
    let decided = |decision: &str, by: &str, door: &str, count| {
        let series = json!({ "stockade.by": by, "stockade.decision": decision,
            "stockade.door": door, "stockade.tool": "Bash" });
        json!(["stockade.decisions", "{call}", series, count])
    };
    let outcome = |outcome: &str| json!({ "stockade.outcome": outcome });
    assert_eq!(
        sums,
        [
            decided("allow", "builtin", "run", 3),
            decided("deny", "rule", "check", 1),
            json!(["stockade.run.output", "By", { "stockade.stream": "stdout" }, 8]),
            json!(["stockade.runs", "{command}", outcome("failure"), 1]),
            json!(["stockade.runs", "{command}", outcome("success"), 2]),
        ]
    );
    assert_eq!(
        counts,
        [
            json!(["stockade.decision.duration", { "stockade.decision": "allow" }, 3]),
            json!(["stockade.decision.duration", { "stockade.decision": "deny" }, 1]),
            json!(["stockade.run.duration", outcome("failure"), 1]),
            json!(["stockade.run.duration", outcome("success"), 2]),
        ]
    );
}

#[test]
fn a_question_is_a_span_of_its_call() {
    let place = Place::new("te-ask");
    let settings =
        json!({ "permissions": { "ask": ["Bash(touch:*)"] }, "approvals": { "waitSeconds": 1 } });
    place.write("home/.config/stockade/settings.json", &settings.to_string());
    let _gateway = Gateway::start(&place);
    place.output(["run", "--", "touch a"]);
    let receiver = Receiver::start();
    send(&place, &receiver, &[]);
    let spans = receiver.spans();
    let names: Vec<&str> = spans.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["judge", "ask", "call"]);
    let (ask, call) = (&spans[1], &spans[2]);
    assert_eq!(ask.parent_span_id, call.span_id);
    let waited = ask.end_time_unix_nano - ask.start_time_unix_nano;
    assert!(waited >= 900_000_000, "{waited} ns of a second");
    assert_eq!(named(&ask.attributes)["stockade.answer"], "withdrawn");
    assert_eq!(named(&call.attributes)["stockade.answer"], "withdrawn");
}

#[test]
fn a_later_process_goes_on_where_the_last_one_ended() {
    let place = Place::new("te-again");
    let _gateway = Gateway::start(&place);
    check(&place, "echo one");
    let first = Receiver::start();
    send(&place, &first, &[]);
    assert_eq!(first.sequences(), [1, 2], "without the head of the segment");
    // A call that is not over when the first process ends is whole all the same.
    let mut running = place.stockade(["run", "--", "read line"]);
    let mut running = running.stdin(Stdio::piped()).spawn().expect("it starts");
    let begun = Receiver::start();
    for _ in 0..600 {
        send(&place, &begun, &[]);
        if !begun.sequences().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(begun.sequences(), [3]);
    assert!(of(&begun.spans(), "call").is_empty());
    drop(running.stdin.take());
    running.wait().expect("it ends");
    let last = Receiver::start();
    send(&place, &last, &[]);
    assert_eq!(last.sequences(), [4]);
    let (begun, last) = (begun.spans(), last.spans());
    let call = of(&last, "call")[0];
    assert_eq!(of(&begun, "judge")[0].parent_span_id, call.span_id);
    assert_eq!(named(&call.attributes)["stockade.tool"], "Bash");
    let nothing = Receiver::start();
    assert_eq!(send(&place, &nothing, &[]), "");
    assert_eq!(nothing.requests().len(), 0);
}

/// Takes a port at which nobody listens for now. Nobody else gets it meanwhile.
fn silent() -> TcpListener {
    let held = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    let held = held.expect("a socket");
    rustix::io::fcntl_setfd(&held, FdFlags::CLOEXEC).expect("a flag");
    rustix::net::bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    TcpListener::from(held)
}

#[test]
fn a_collector_that_is_away_has_everything_once_it_is_back() {
    let place = Place::new("te-away");
    let gateway = Gateway::start(&place);
    check(&place, "echo one");
    let held = silent();
    let port = held.local_addr().expect("an address").port();
    let sending = Sending::start(&place, &format!("http://127.0.0.1:{port}"), &["--from", "0"]);
    for number in 0..20 {
        assert_eq!(check(&place, &format!("echo {number}")), Some(0), "no call waits for it");
    }
    rustix::net::listen(&held, 128).expect("it listens");
    let receiver = Receiver::at(held);
    receiver.answer([(503, "", Vec::new()), (429, "retry-after: 1\r\n", Vec::new())]);
    receiver.until("all records", |it| it.sequences().len() >= 22);
    assert_eq!(receiver.sequences(), (1..23).collect::<Vec<i64>>(), "each once and in order");
    // The gateway goes away, and another one comes.
    assert_eq!(gateway.end(), Some(0));
    let _gateway = Gateway::start(&place);
    check(&place, "echo last");
    receiver.until("the last record", |it| it.sequences().contains(&23));
    receiver.until("metrics", |it| it.requests().iter().any(|it| it.path == "/v1/metrics"));
    let (status, said) = sending.end();
    assert_eq!(status, Some(0), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.iter().any(|it| it.ends_with("; trying again")), "{said}");
    assert_eq!(lines.last(), Some(&"stockade: the collector is there again"), "{said}");
    assert_eq!(receiver.sequences(), (1..24).collect::<Vec<i64>>());
}

#[test]
fn what_speaks_with_a_collector_is_confined_and_ends_with_its_parent() {
    let place = Place::new("te-confined");
    let _gateway = Gateway::start(&place);
    check(&place, "echo one");
    let receiver = Receiver::start();
    let mut sending = Sending::start(&place, &receiver.url(), &["--from", "0"]);
    receiver.until("records", |it| !it.sequences().is_empty());
    let parent = sending.0.id();
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).expect("its threads").flatten();
    let children = tasks.map(|it| std::fs::read_to_string(it.path().join("children")));
    let children: String = children.map(Result::unwrap_or_default).collect();
    let child = children.trim().to_owned();
    assert!(child.parse::<u32>().is_ok(), "one child: {children}");
    let state = |process: &str| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a status");
        let value = |name: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(":"));
            line.expect("a line").trim().to_owned()
        };
        ["Seccomp", "NoNewPrivs"].map(value)
    };
    assert_eq!(state(&child), ["2", "1"]);
    assert_ne!(state(&parent.to_string()), state(&child));
    sending.0.kill().expect("it runs");
    sending.0.wait().expect("it ends");
    let path = format!("/proc/{child}/exe");
    for _ in 0..600 {
        // Of a process that ended and is not waited for yet, there is no executable.
        if std::fs::read_link(&path).is_err() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("process {child} is left");
}

#[test]
fn what_is_not_sent_is_named() {
    let place = Place::new("te-lost");
    let _gateway = Gateway::start(&place);
    check(&place, "echo one");
    let receiver = Receiver::start();
    // Field 1: 7 rejected log records, field 2: why.
    let partial = [&[0x0a, 0x08, 0x08, 0x07, 0x12, 0x04][..], b"full"].concat();
    receiver.answer([(400, "", Vec::new()), (200, "", partial)]);
    assert_eq!(
        send(&place, &receiver, &[]),
        "stockade: the collector answered 400 Bad Request: traces of 3 records are not sent (seq 0 to 2)\n\
         stockade: the collector rejected 7 items of logs: full\n"
    );
    let (_, metrics) = receiver.metrics();
    let lost =
        metrics.iter().find(|it| it.name == "stockade.telemetry.lost").expect("it is counted");
    let Some(Data::Sum(sum)) = &lost.data else { panic!("a sum") };
    let counted: Vec<Value> = sum.data_points.iter().map(|it| named(&it.attributes)).collect();
    assert_eq!(
        counted,
        [
            json!({ "stockade.gap.reason": "refused by the collector" }),
            json!({ "stockade.gap.reason": "rejected by the collector" })
        ]
    );
    // A position of a log that is not there any more.
    let position = json!({ "chain": "0123", "next": 9999, "open": {} });
    std::fs::write(place.state().join("telemetry/position.json"), position.to_string())
        .expect("it is written");
    let receiver = Receiver::start();
    assert_eq!(
        send(&place, &receiver, &[]),
        "stockade: the log is another one: what was not sent of the one before is missing (from seq 9999 on)\n"
    );
    let gap = receiver.logs().remove(0);
    assert_eq!(
        named(&gap.attributes),
        json!({ "stockade.gap.reason": "the log is another one", "stockade.gap.first": 9999 })
    );
    assert_eq!(receiver.sequences(), [1, 2]);
    // The same number exists, in another log.
    let position = json!({ "chain": "0123", "next": 1, "open": {} });
    std::fs::write(place.state().join("telemetry/position.json"), position.to_string())
        .expect("it is written");
    let receiver = Receiver::start();
    assert_eq!(
        send(&place, &receiver, &[]),
        "stockade: the log is another one: what was not sent of the one before is missing (from seq 1 on)\n"
    );
    assert_eq!(receiver.sequences(), [1, 2]);
}

#[test]
fn variables_say_where_to_and_their_secrets_are_not_said() {
    let place = Place::new("te-where");
    let _gateway = Gateway::start(&place);
    check(&place, "echo one");
    let (receiver, logs) = (Receiver::start(), Receiver::start());
    let mut command = telemetry(&place, &format!("{}/base/", receiver.url()), &["--once"]);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hidden-key");
    command.env("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", format!("{}/own", logs.url()));
    command.env("OTEL_METRICS_EXPORTER", "none").env("STOCKADE_LOG", "trace");
    let output = command.output().expect("it starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let paths = |it: &Receiver| it.requests().into_iter().map(|it| it.path).collect::<Vec<_>>();
    assert_eq!(
        (paths(&receiver), paths(&logs)),
        (vec!["/base/v1/traces".into()], vec!["/own".into()])
    );
    let headers = &receiver.requests()[0].headers;
    assert!(headers.contains(&"authorization: Bearer hidden-key".to_owned()), "{headers:?}");
    assert!(headers.contains(&"content-type: application/x-protobuf".to_owned()), "{headers:?}");
    assert!(said.contains("stockade_telemetry"), "{said}");
    assert!(!said.contains("hidden-key") && !said.contains("echo"), "{said}");
    for (name, value, message) in [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            "OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`, not `http/protobuf`",
        ),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "http://c.example",
            "OTEL_EXPORTER_OTLP_ENDPOINT sends telemetry to another machine without TLS; use https, or set OTEL_EXPORTER_OTLP_INSECURE=true",
        ),
    ] {
        let output = telemetry(&place, &receiver.url(), &["--once"])
            .env(name, value)
            .output()
            .expect("it starts");
        let said =
            format!("stockade: {message}\n  try: `stockade telemetry --help` shows the options\n");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(122), said));
    }
}

#[test]
fn a_process_says_what_it_does_only_where_it_is_asked() {
    let place = Place::new("te-log");
    let _gateway = Gateway::start(&place);
    check(&place, "echo one");
    let receiver = Receiver::start();
    let said = |level: Option<&str>, form: Option<&str>| {
        let mut command = telemetry(&place, &receiver.url(), &["--once", "--from", "0"]);
        command
            .envs(level.map(|it| ("STOCKADE_LOG", it)))
            .envs(form.map(|it| ("STOCKADE_LOG_FORMAT", it)));
        let output = command.output().expect("it starts");
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(said(None, None), (Some(0), String::new()));
    assert_eq!(said(Some(""), Some("json")), (Some(0), String::new()));
    assert_eq!(said(Some("stockade_web=debug"), None), (Some(0), String::new()));
    assert_eq!(said(Some("info"), None), (Some(0), String::new()), "these are of the level debug");
    let (_, lines) = said(Some("stockade_telemetry=debug"), Some("json"));
    let lines = lines.lines().map(|it| serde_json::from_str::<Value>(it).expect("JSON"));
    let fields: Vec<Value> =
        lines.map(|it| json!([it["level"], it["target"], it["fields"]])).collect();
    assert_eq!(
        fields,
        [
            json!(["DEBUG", "stockade_telemetry::follow", { "message": "subscribed", "next": 0 }]),
            json!(["DEBUG", "stockade_telemetry::deliver", { "message": "accepted", "records": 3, "next": 3 }]),
        ]
    );
    let (status, line) = said(Some("loud"), None);
    assert_eq!(status, Some(122));
    assert!(line.starts_with("stockade: STOCKADE_LOG is `loud`, not levels by module"), "{line}");
}
