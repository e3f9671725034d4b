//! What a record costs beside a bare write and sync; run by hand in release with `--ignored --nocapture`.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::sample::{Scratch, decision, result};
use crate::audit::{GatewayMode, Log};

fn show(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    println!("{name:32} p50 {:>6.0?} p99 {:>6.0?}", at(50), at(99));
}

#[tokio::test]
#[ignore = "a measurement"]
async fn one_record_beside_a_bare_sync() {
    for mode in [GatewayMode::Embedded, GatewayMode::Daemon] {
        let scratch = Scratch::new("cost");
        let opened = Instant::now();
        let log = Log::open(&scratch.places, mode).unwrap();
        println!("{mode:?}: birth {:.0?}", opened.elapsed());
        let mut file =
            OpenOptions::new().append(true).create(true).open(scratch.folder.join("bare")).unwrap();
        let (mut bare, mut decided, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..200 {
            let begun = Instant::now();
            file.write_all(&[b'x'; 2600]).unwrap();
            file.sync_data().unwrap();
            bare.push(begun.elapsed());
            let begun = Instant::now();
            let receipt = log.record(decision("git status --porcelain | head")).await.unwrap();
            decided.push(begun.elapsed());
            let begun = Instant::now();
            log.record(result(&receipt.id)).await.unwrap();
            ended.push(begun.elapsed());
        }
        show("bare write and sync", bare);
        show("decision", decided);
        show("result", ended);
        drop(log);
        let opened = Instant::now();
        let log = Log::open(&scratch.places, mode).unwrap();
        println!("{:32} {:.0?}", "open", opened.elapsed());
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..64 {
            let log = log.clone();
            tasks.spawn(async move {
                for _ in 0..40 {
                    log.record(result("01KAJ8Q5W3V7Z9X1C2B4N6M8K0")).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        println!("{:32} {:.0}/s", "64 writers", 2_560.0 / begun.elapsed().as_secs_f64());
        drop(log);
        let begun = Instant::now();
        let mut out = std::io::stdout();
        let report = super::crash::check(&scratch);
        writeln!(out, "{:32} {} records in {:.0?}", "verify", report.records, begun.elapsed())
            .unwrap();
        assert_eq!(report.exit_code(), 0);
    }
}
