//! Times questions to a long log: processor time and time until the answer, each of a process of its own.
//!
//! `cargo run --release -p stockade-tests --bin bench_query [RECORDS]`
#![forbid(unsafe_code)]

use std::process::{Command, Stdio};
use std::sync::Arc;

use stockade::Gateway;
use stockade::protocol::types::{CheckRequest, Context};
use stockade::route::Options;
use stockade_tests::{Place, executable, stockade};

/// Records of the log unless the command line says otherwise.
const RECORDS: u64 = 1_000_000;
/// Decisions that wait for the log at once.
const AT_ONCE: u64 = 64;

fn main() {
    let records = std::env::args().nth(1).map(|count| count.parse().expect("a number of records"));
    let place = Place::new("bench-query");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(fill(&place, records.unwrap_or(RECORDS)));
    ask(&place);
}

/// Writes a log of as many decisions.
async fn fill(place: &Place, records: u64) {
    let at = stockade_client::Options {
        embedded: true,
        state_directory: Some(place.state()),
        executable: Some(executable("stockade")),
        ..stockade_client::Options::default()
    };
    let options = Options { at, ..Options::default() };
    let gateway = Arc::new(Gateway::open(options).await.expect("a gateway"));
    let cwd = place.project().display().to_string();
    let tasks = tokio::task::LocalSet::new();
    for number in 0..AT_ONCE {
        let (gateway, cwd) = (Arc::clone(&gateway), cwd.clone());
        tasks.spawn_local(async move {
            for count in (number..records).step_by(64) {
                let request = CheckRequest {
                    tool: "Bash".to_owned(),
                    input: serde_json::json!({ "command": format!("git log -n {count} | head") }),
                    cwd: cwd.clone(),
                    record: true,
                    context: Context { door: "bench".to_owned(), ..Context::default() },
                    ..CheckRequest::default()
                };
                gateway.check(request).await.expect("a decision");
            }
        });
    }
    tasks.await;
}

fn ask(place: &Place) {
    let stored = |which: &str| -> serde_json::Value {
        let output = place.output(["audit", "why", which, "--json"]);
        let line = output.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
        serde_json::from_slice(line).expect("a record")
    };
    let last = stored("last");
    let sequence = |record: &serde_json::Value| record["seq"].as_u64().expect("a number");
    let text =
        |record: &serde_json::Value, key: &str| record[key].as_str().expect("a text").to_owned();
    let middle = stored(&(sequence(&last) / 2).to_string());
    let (id, time) = (text(&middle, "id"), text(&middle, "time"));
    let first = stored("2");
    println!("{} records", sequence(&last) + 1);
    for question in [
        vec!["tail"],
        vec!["why", "last"],
        vec!["why", &id],
        vec!["why", &text(&first, "id")],
        vec!["why", &sequence(&middle).to_string()],
        vec!["search", "--ref", &id],
        vec!["search", "--ref", &id, "--reverse"],
        vec!["search", "--since", &time, "--limit", "10"],
        vec!["search", "--since", &time, "--until", &time],
        vec!["search", "--until", &time, "--limit", "10", "--reverse"],
        vec!["search", "--since", &text(&last, "time")],
    ] {
        time_of(place, &question);
    }
}

/// Prints the time that a question takes, as bash counts it, the best of three.
fn time_of(place: &Place, question: &[&str]) {
    let own = place.stockade(["audit"]);
    let mut best: Option<(f64, String)> = None;
    for _ in 0..3 {
        let mut command = Command::new("bash");
        let script = "TIMEFORMAT='%U %S %R'; time \"$@\" > /dev/null";
        command.args(["-c", script, "bash"]).arg(stockade()).arg("audit").args(question);
        command.envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let output = command.current_dir(place.project()).stdin(Stdio::null()).output();
        let told = String::from_utf8(output.expect("bash starts").stderr).expect("text");
        let times = told.lines().last().unwrap_or_default();
        let parts: Vec<f64> = times.split(' ').filter_map(|part| part.parse().ok()).collect();
        let [user, system, real] = parts[..] else { panic!("{told}") };
        let line = format!(
            "{:>7.0} ms of processor, {:>7.0} ms in all",
            (user + system) * 1e3,
            real * 1e3
        );
        if best.as_ref().is_none_or(|(least, _)| user + system < *least) {
            best = Some((user + system, line));
        }
    }
    println!("{}  audit {}", best.unwrap_or_default().1, question.join(" "));
}
