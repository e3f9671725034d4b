//! Times a durable decision beside a bare write and sync of as many bytes on the same disk.
//!
//! `cargo run --release -p stockade-tests --bin bench_log`
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::Write as _;
use std::time::{Duration, Instant};

use stockade::Gateway;
use stockade::protocol::types::{CheckRequest, Context};
use stockade::route::Options;
use stockade_tests::{Place, executable};

const ROUNDS: usize = 400;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}

/// A call that is decided; the decision is recorded when `record` is true.
fn call(place: &Place, record: bool) -> CheckRequest {
    CheckRequest {
        tool: "Bash".to_owned(),
        input: serde_json::json!({ "command": "git status --porcelain | head" }),
        cwd: place.project().display().to_string(),
        record,
        context: Context { door: "bench".to_owned(), ..Context::default() },
        ..CheckRequest::default()
    }
}

fn show(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_micros();
    println!("{name:36} p50 {:>6} us  p99 {:>6} us", at(50), at(99));
}

async fn measure() {
    let place = Place::new("bench");
    let at = stockade_client::Options {
        embedded: true,
        state_directory: Some(place.state()),
        executable: Some(executable("stockade")),
        ..stockade_client::Options::default()
    };
    let options = Options { at, ..Options::default() };
    let gateway = Gateway::open(options).await.expect("a gateway");
    let decide = async |record| {
        let begun = Instant::now();
        gateway.check(call(&place, record)).await.expect("a decision");
        begun.elapsed()
    };
    let segment = place.state().join("audit/00000001.jsonl");
    let length = || fs::metadata(&segment).expect("the segment").len();
    decide(true).await;
    let before = length();
    decide(true).await;
    let bytes = usize::try_from(length() - before).expect("the size of a record");
    let mut file = File::create(place.root.join("bare")).expect("a file");
    let (mut bare, mut judged, mut recorded) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        file.write_all(&vec![b'x'; bytes]).expect("a write");
        file.sync_data().expect("a sync");
        bare.push(begun.elapsed());
        judged.push(decide(false).await);
        recorded.push(decide(true).await);
    }
    println!("one record: {bytes} bytes, {ROUNDS} rounds");
    let middle = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_micros()
    };
    let cost = middle(&mut recorded).saturating_sub(middle(&mut judged));
    let ratio = 100 * cost / middle(&mut bare).max(1);
    show("bare write and sync", &mut bare);
    show("decision, not recorded", &mut judged);
    show("decision, durable", &mut recorded);
    println!("{:36} p50 {cost:>6} us, {ratio} % of a bare sync", "the record alone");
    drop(gateway);
    let begun = Instant::now();
    let output = place.output(["audit", "verify"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    println!("{:36} {:?}", "verify, with the start of a process", begun.elapsed());
}
