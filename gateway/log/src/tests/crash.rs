//! Whoever is killed at any moment leaves a log that opens, holds, and has every answered record.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::sample::{Scratch, decision, result};
use crate::verify::{Options, Repairs, Strictness, Trust, verify};
use crate::{GatewayMode, Log, Places, Rotation, query};

/// Names the folder in which a child writes until it is killed.
const FOLDER: &str = "STOCKADE_TEST_CRASH";

/// Is the child: writes and prints what was answered. Does nothing when it is not started by the test below.
#[test]
fn a_child_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else {
        eprintln!("only a part of kills_at_any_moment_leave_a_log_that_holds");
        return;
    };
    let places = Places { directory: folder.join("audit"), state: folder.join("state") };
    let rotation = Rotation { bytes: 1 << 20, records: Some(5) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        loop {
            let log = Log::open_with(&places, GatewayMode::Embedded, rotation).unwrap();
            for _ in 0..4 {
                let receipt = log.record(decision("true")).await.unwrap();
                println!("answered {} {}", receipt.sequence, receipt.id);
                let ended = log.record(result(&receipt.id)).await.unwrap();
                println!("answered {} {}", ended.sequence, ended.id);
            }
        }
    });
}

pub(crate) fn check(scratch: &Scratch) -> crate::verify::Report {
    verify(&Options {
        directory: scratch.places.directory.clone(),
        trust: Trust::State(scratch.places.state.clone()),
        checkpoints: Vec::new(),
        strictness: Strictness::Notes,
        repairs: Repairs::Refused,
    })
}

/// Starts a child, kills it after `answers` answers and `more`, and returns what was answered.
fn kill_after(scratch: &Scratch, answers: usize, more: Duration) -> Vec<(u64, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::crash::a_child_writes_until_it_is_killed", "--nocapture"])
        .env(FOLDER, &scratch.folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answered = Vec::new();
    let read = |line: &str| {
        let (_, rest) = line.split_once("answered ")?;
        let (sequence, id) = rest.split_once(' ')?;
        (id.len() == 26).then(|| (sequence.parse().unwrap(), id.to_owned()))
    };
    while answered.len() < answers {
        let line = lines.next().expect("the child goes on until it is killed").unwrap();
        answered.extend(read(&line));
    }
    let until = Instant::now() + more;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    answered.extend(lines.map_while(Result::ok).filter_map(|line| read(&line)));
    answered
}

#[test]
fn kills_at_any_moment_leave_a_log_that_holds() {
    let scratch = Scratch::new("crash");
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut answered = Vec::new();
    for round in 0..25 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let answers = usize::try_from(seed % 9).unwrap();
        answered.extend(kill_after(&scratch, answers, Duration::from_micros(seed >> 8 & 0xfff)));
        if !scratch.places.directory.join("checkpoint").exists() {
            continue;
        }
        let report = check(&scratch);
        assert_eq!(report.exit_code(), 0, "round {round}: {:?}", report);
    }
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    let report = check(&scratch);
    assert_eq!(report.exit_code(), 0, "{report:?}");
    assert!(!report.notes.iter().any(|note| note.contains("no result")), "{:?}", report.notes);
    let all =
        query::search(&scratch.places, &query::Filter::default(), query::Order::Oldest(usize::MAX))
            .unwrap();
    assert_eq!(all.broken, None);
    let numbers: Vec<u64> = all.records.iter().map(|record| record.sequence).collect();
    assert_eq!(numbers, (0..report.records).collect::<Vec<_>>());
    for (sequence, id) in answered {
        assert_eq!(all.records[usize::try_from(sequence).unwrap()].id, id);
    }
}
