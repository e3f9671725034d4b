//! A receiver of OTLP/HTTP on the loopback interface: keeps each request as it came, and answers as the test says.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Map, Value, json};

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub headers: Vec<String>,
    pub body: Vec<u8>,
    /// The status that it was answered with.
    pub status: u16,
}

/// An answer: status, further header lines, body.
pub type Answer = (u16, &'static str, Vec<u8>);

#[derive(Debug, Default)]
struct Kept {
    requests: Mutex<Vec<Request>>,
    answers: Mutex<VecDeque<Answer>>,
    came: Condvar,
}

/// The receiver.
#[derive(Debug)]
pub struct Receiver {
    kept: Arc<Kept>,
    pub port: u16,
}

impl Receiver {
    /// Listens at a free port.
    pub fn start() -> Receiver {
        Receiver::at(TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    pub fn at(listener: TcpListener) -> Receiver {
        let port = listener.local_addr().expect("an address").port();
        let kept = Arc::new(Kept::default());
        let receiver = Receiver { kept: Arc::clone(&kept), port };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || while serve(&stream, &kept).is_some() {});
            }
        });
        receiver
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Answers the next requests with these; all others are accepted.
    pub fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.kept.answers.lock().expect("answers").extend(answers);
    }

    pub fn requests(&self) -> Vec<Request> {
        self.kept.requests.lock().expect("requests").clone()
    }

    /// Waits until a condition holds for the requests.
    pub fn until(&self, what: &str, holds: impl Fn(&Receiver) -> bool) {
        for _ in 0..600 {
            let requests = self.kept.requests.lock().expect("requests");
            let limit = Duration::from_millis(100);
            drop(self.kept.came.wait_timeout(requests, limit).expect("requests"));
            if holds(self) {
                return;
            }
        }
        panic!("{what}: {:?}", self.requests().iter().map(|it| &it.path).collect::<Vec<_>>());
    }

    fn accepted(&self, path: &str) -> Vec<Vec<u8>> {
        let requests = self.requests().into_iter();
        requests.filter(|it| it.path == path && it.status == 200).map(|it| it.body).collect()
    }

    /// All spans that were accepted.
    pub fn spans(&self) -> Vec<Span> {
        let requests = self.accepted("/v1/traces").into_iter();
        let decoded =
            requests.map(|it| ExportTraceServiceRequest::decode(&*it).expect("a request"));
        let resources = decoded.flat_map(|it| it.resource_spans);
        resources.flat_map(|it| it.scope_spans).flat_map(|it| it.spans).collect()
    }

    /// All log records that were accepted.
    pub fn logs(&self) -> Vec<LogRecord> {
        let requests = self.accepted("/v1/logs").into_iter();
        let decoded = requests.map(|it| ExportLogsServiceRequest::decode(&*it).expect("a request"));
        let resources = decoded.flat_map(|it| it.resource_logs);
        resources.flat_map(|it| it.scope_logs).flat_map(|it| it.log_records).collect()
    }

    /// The numbers of the records that came as log records.
    pub fn sequences(&self) -> Vec<i64> {
        let logs = self.logs().into_iter();
        logs.filter_map(|it| named(&it.attributes)["stockade.record.seq"].as_i64()).collect()
    }

    /// The metrics of the last request, and the attributes of its resource.
    pub fn metrics(&self) -> (Value, Vec<Metric>) {
        let last = self.accepted("/v1/metrics").pop().expect("metrics");
        let mut decoded = ExportMetricsServiceRequest::decode(&*last).expect("a request");
        assert_eq!(decoded.resource_metrics.len(), 1);
        let all = decoded.resource_metrics.remove(0);
        let resource = named(&all.resource.expect("a resource").attributes);
        (resource, all.scope_metrics.into_iter().flat_map(|it| it.metrics).collect())
    }
}

/// Attributes as an object.
pub fn named(attributes: &[KeyValue]) -> Value {
    let value = |value: &Option<AnyValue>| match value.as_ref().and_then(|it| it.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => json!(text),
        Some(any_value::Value::IntValue(number)) => json!(number),
        Some(any_value::Value::DoubleValue(number)) => json!(number),
        Some(any_value::Value::BoolValue(flag)) => json!(flag),
        other => panic!("an attribute {other:?}"),
    };
    let pairs = attributes.iter().map(|it| (it.key.clone(), value(&it.value)));
    let all: Map<String, Value> = pairs.collect();
    assert_eq!(all.len(), attributes.len(), "each name once");
    Value::Object(all)
}

fn serve(stream: &TcpStream, kept: &Kept) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let length = lines
        .iter()
        .find_map(|it| it.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length?];
    reader.read_exact(&mut body).ok()?;
    let path = lines.remove(0).split(' ').nth(1)?.to_owned();
    let answer = kept.answers.lock().expect("answers").pop_front();
    let (status, more, said) = answer.unwrap_or((200, "", Vec::new()));
    let request = Request { path, headers: lines, body, status };
    kept.requests.lock().expect("requests").push(request);
    kept.came.notify_all();
    let head = format!("HTTP/1.1 {status} X\r\n{more}content-length: {}\r\n\r\n", said.len());
    let mut stream = stream;
    stream.write_all(&[head.into_bytes(), said].concat()).ok()
}
