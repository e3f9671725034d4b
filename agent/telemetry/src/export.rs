//! The requests of OTLP 1: the numbers of fields are those of `opentelemetry/proto`.

use serde_json::Value;

use crate::logs::Log;
use crate::metrics::{About, BOUNDS, Distribution, Metrics, Series};
use crate::proto::{self, Message};
use crate::span::Span;

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u64 = 1;
/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;
/// Span flags: it is known whether the parent is remote, and it is.
const PARENT_KNOWN: u32 = 0x100;
const PARENT_REMOTE: u32 = 0x200;

/// Returns the attribute of a name and a value.
fn attribute(name: &str, value: &Value) -> Message {
    let any = Message::default();
    let any = match value {
        Value::Bool(flag) => any.chosen_number(2, u64::from(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => any.chosen_number(3, whole.cast_unsigned()),
            (None, real) => any.fixed64(4, real.unwrap_or_default().to_bits()),
        },
        Value::String(text) => any.chosen_bytes(1, text.as_bytes()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            any.chosen_bytes(1, value.to_string().as_bytes())
        }
    };
    Message::default().text(1, name).message(2, any)
}

fn text_attribute(name: &str, text: &str) -> Message {
    let any = Message::default().chosen_bytes(1, text.as_bytes());
    Message::default().text(1, name).message(2, any)
}

fn attributes(all: &[(String, Value)]) -> impl Iterator<Item = Message> {
    all.iter().map(|(name, value)| attribute(name, value))
}

/// Returns a request of any of the three services: they have one form.
fn request(resource: &[(String, String)], field: u64, all: Vec<Message>) -> Vec<u8> {
    let resource = resource.iter().map(|(name, text)| text_attribute(name, text));
    let resource = Message::default().messages(1, resource);
    let scope = Message::default().text(1, "stockade").text(2, env!("CARGO_PKG_VERSION"));
    let scoped = Message::default().message(1, scope).messages(field, all);
    let whole = Message::default().message(1, resource).message(2, scoped);
    Message::default().message(1, whole).into_bytes()
}

/// Returns the bytes that hexadecimal digits name.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs =
        digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap_or_default()).collect()
}

/// Returns the request that sends spans.
pub(crate) fn spans(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let spans = spans.iter().map(|it| {
        let error = it.error.as_ref().map(|why| Message::default().text(2, why).number(3, ERROR));
        let remote = if it.is_remote { PARENT_REMOTE } else { 0 };
        Message::default()
            .bytes(1, &bytes(&it.trace.id))
            .bytes(2, &bytes(&it.id))
            .bytes(4, &bytes(it.parent.as_deref().unwrap_or_default()))
            .text(5, it.name)
            .number(6, INTERNAL)
            .fixed64(7, it.start)
            .fixed64(8, it.end)
            .messages(9, attributes(&it.attributes))
            .messages(15, error)
            .fixed32(16, u32::from(it.trace.flags) | PARENT_KNOWN | remote)
    });
    request(resource, 2, spans.collect())
}

/// Returns the request that sends log records.
pub(crate) fn logs(resource: &[(String, String)], logs: &[Log], now: u64) -> Vec<u8> {
    let logs = logs.iter().map(|it| {
        let body = Message::default().chosen_bytes(1, it.body.as_bytes());
        let log = Message::default()
            .fixed64(1, it.time)
            .number(2, it.severity as u64)
            .text(3, it.severity.name())
            .message(5, body)
            .messages(6, attributes(&it.attributes));
        let log = match &it.belongs {
            Some((trace, span)) => log
                .fixed32(8, u32::from(trace.flags))
                .bytes(9, &bytes(&trace.id))
                .bytes(10, &bytes(span)),
            None => log,
        };
        log.fixed64(11, now).text(12, &it.event)
    });
    request(resource, 2, logs.collect())
}

/// Returns the request that sends metrics; `since` is when counting began.
pub(crate) fn metrics(
    resource: &[(String, String)],
    metrics: &Metrics,
    since: u64,
    now: u64,
) -> Vec<u8> {
    let sums = metrics.sums.iter().map(|(about, all)| {
        let points =
            all.iter().map(|(series, count)| sum_point(series, (*count, about.parts), since, now));
        let sum = Message::default().messages(1, points).number(2, CUMULATIVE).number(3, 1);
        described(*about).message(7, sum)
    });
    let distributions = metrics.distributions.iter().map(|(about, all)| {
        let points = all.iter().map(|(series, it)| distribution_point(series, it, since, now));
        let histogram = Message::default().messages(1, points).number(2, CUMULATIVE);
        described(*about).message(9, histogram)
    });
    request(resource, 2, sums.chain(distributions).collect())
}

fn described(about: About) -> Message {
    Message::default().text(1, about.name).text(2, about.text).text(3, about.unit)
}

fn labels(series: &Series) -> impl Iterator<Item = Message> {
    series.iter().map(|(name, text)| text_attribute(name, text))
}

fn sum_point(series: &Series, (count, parts): (u64, u32), since: u64, now: u64) -> Message {
    let point = Message::default().fixed64(2, since).fixed64(3, now);
    let point = match parts {
        1 => point.fixed64(6, count),
        parts => point.fixed64(4, (count as f64 / f64::from(parts)).to_bits()),
    };
    point.messages(7, labels(series))
}

fn distribution_point(series: &Series, it: &Distribution, since: u64, now: u64) -> Message {
    let buckets: Vec<u8> = it.buckets.iter().flat_map(|count| count.to_le_bytes()).collect();
    let bounds: Vec<u8> = BOUNDS.iter().flat_map(|bound| bound.to_le_bytes()).collect();
    Message::default()
        .fixed64(2, since)
        .fixed64(3, now)
        .fixed64(4, it.buckets.iter().sum())
        .fixed64(5, it.sum.to_bits())
        .bytes(6, &buckets)
        .bytes(7, &bounds)
        .messages(9, labels(series))
}

/// Returns how many items the answer of a collector says it did not take, and why.
pub(crate) fn rejected(answer: &[u8]) -> Option<(u64, String)> {
    let Some(proto::Value::Bytes(partial)) = proto::field(answer, 1) else { return None };
    let count = match proto::field(partial, 1) {
        Some(proto::Value::Number(count)) => count,
        Some(proto::Value::Bytes(_)) | None => 0,
    };
    let why = match proto::field(partial, 2) {
        Some(proto::Value::Bytes(why)) => String::from_utf8_lossy(why).into_owned(),
        Some(proto::Value::Number(_)) | None => String::new(),
    };
    (count > 0).then_some((count, why))
}
