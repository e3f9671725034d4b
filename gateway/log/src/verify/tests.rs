//! Every change of a stored log is found, and untouched logs hold.

use std::fs;
use std::path::Path;

use tokio::task::JoinSet;

use super::super::hash::sha256;
use super::super::record::Body;
use super::super::tests::sample::{Scratch, decision, result};
use super::super::{GatewayMode, Log, Rotation};
use super::*;

/// Segments of four records, so that a few commands fill several.
const SMALL: Rotation = Rotation { bytes: 1 << 20, records: Some(4) };

async fn write(scratch: &Scratch, rotation: Rotation, commands: usize) {
    let log = Log::open_with(&scratch.places, GatewayMode::Embedded, rotation).unwrap();
    for number in 0..commands {
        let receipt = log.record(decision(&format!("echo {number}"))).await.unwrap();
        log.record(result(&receipt.id)).await.unwrap();
    }
}

fn check(scratch: &Scratch) -> Report {
    verify(&Options {
        directory: scratch.places.directory.clone(),
        trust: Trust::State(scratch.places.state.clone()),
        checkpoints: Vec::new(),
        strictness: Strictness::Notes,
        repairs: Repairs::Refused,
    })
}

fn check_with_key_only(scratch: &Scratch) -> Report {
    verify(&Options {
        directory: scratch.places.directory.clone(),
        trust: Trust::KeyFile(scratch.places.state.join("trust.vkey")),
        checkpoints: Vec::new(),
        strictness: Strictness::Notes,
        repairs: Repairs::Refused,
    })
}

/// Writes `content` although closed segments are read-only.
fn put(path: &Path, content: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, content).unwrap();
}

/// Changes a file, checks the log, and puts the file back.
fn with<T>(path: &Path, content: Option<&[u8]>, look: impl FnOnce() -> T) -> T {
    let before = fs::read(path).ok();
    match content {
        Some(content) => put(path, content),
        None => fs::remove_file(path).unwrap(),
    }
    let seen = look();
    match before {
        Some(before) => put(path, &before),
        None => fs::remove_file(path).unwrap(),
    }
    seen
}

/// The first finding: code, segment, sequence.
fn first(report: &Report) -> (&'static str, String, Option<u64>) {
    let found = report.findings.first().unwrap_or_else(|| panic!("nothing found: {report:?}"));
    (found.code, found.segment.clone().unwrap_or_default(), found.sequence)
}

fn segment(scratch: &Scratch, number: u64) -> std::path::PathBuf {
    scratch.places.directory.join(files::segment_name(number))
}

fn lines(path: &Path) -> Vec<Vec<u8>> {
    fs::read(path).unwrap().split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

#[tokio::test]
async fn untouched_logs_hold() {
    let fresh = Scratch::new("fresh");
    write(&fresh, Rotation::DEFAULT, 0).await;
    assert_eq!((check(&fresh).exit_code(), check(&fresh).notes), (0, Vec::new()));
    let rotated = Scratch::new("rotated");
    write(&rotated, SMALL, 9).await;
    let report = check(&rotated);
    assert_eq!((report.exit_code(), report.segments, report.notes), (0, 6, Vec::new()));
    assert_eq!(check_with_key_only(&rotated).exit_code(), 0);
}

#[tokio::test]
async fn every_changed_byte_of_a_segment_is_found_at_its_record() {
    let scratch = Scratch::new("bytes");
    write(&scratch, SMALL, 4).await;
    let mut sequence = 0;
    for number in 1..=3 {
        let path = segment(&scratch, number);
        let content = fs::read(&path).unwrap();
        for (at, byte) in content.iter().enumerate() {
            let due = sequence;
            sequence += u64::from(*byte == b'\n');
            // Every byte of the header, and a sample of the long records.
            if (number > 1 || due > 0) && at % 37 != 0 && *byte != b'\n' {
                continue;
            }
            let mut changed = content.clone();
            changed[at] ^= 1;
            let report = with(&path, Some(&changed), || check(&scratch));
            assert_eq!(report.exit_code(), 1, "segment {number}, byte {at}");
            let found: Vec<_> = report.findings.iter().filter_map(|it| it.sequence).collect();
            assert!(found.contains(&due), "segment {number}, byte {at}: {:?}", report.findings);
            if *byte != b'\n' && changed[at] != b'\n' {
                assert_eq!(report.finding_count, 1, "byte {at} of {number}: {:?}", report.findings);
            }
            if at % 29 == 0 {
                assert_eq!(
                    with(&path, Some(&changed), || check_with_key_only(&scratch)).exit_code(),
                    1
                );
            }
        }
    }
}

#[tokio::test]
async fn lines_that_are_taken_away_added_or_moved_are_found() {
    let scratch = Scratch::new("lines");
    write(&scratch, Rotation::DEFAULT, 4).await;
    let path = segment(&scratch, 1);
    let good = lines(&path);
    let seen = |lines: &[Vec<u8>]| first(&with(&path, Some(&lines.concat()), || check(&scratch)));
    for at in 0..good.len() {
        let sequence = Some(at as u64);
        let named = |code| (code, "00000001.jsonl".to_owned(), sequence);
        let mut less = good.clone();
        less.remove(at);
        let code = if at + 1 == good.len() { "truncated" } else { "missing_record" };
        assert_eq!(seen(&less), named(code));
        let mut twice = good.clone();
        twice.insert(at, good[at].clone());
        assert_eq!(seen(&twice), named("duplicate"));
        for rubbish in [&b"\n"[..], b"{}\n", b"rubbish\n"] {
            let mut more = good.clone();
            more.insert(at, rubbish.to_vec());
            assert_eq!(seen(&more), named("not_a_record"));
        }
        if at + 1 < good.len() {
            let mut swapped = good.clone();
            swapped.swap(at, at + 1);
            assert_eq!(seen(&swapped), named("reordered"));
            let half: Vec<Vec<u8>> =
                good[..at].iter().cloned().chain([good[at][..9].to_vec()]).collect();
            assert_eq!(
                seen(&half),
                if at == 0 {
                    ("missing_segment", "00000001.jsonl".into(), None)
                } else {
                    named("truncated")
                }
            );
        }
    }
}

/// Changes a line and makes all links behind it anew.
fn forge(lines: &[Vec<u8>], at: usize) -> Vec<u8> {
    let mut forged = lines.to_vec();
    let text = String::from_utf8(forged[at].clone()).unwrap();
    let changed = text.replacen("\"mono_us\":", "\"mono_us\":1", 1);
    assert_ne!(text, changed);
    forged[at] = changed.into_bytes();
    for next in at + 1..forged.len() {
        let before = forged[next - 1].strip_suffix(b"\n").unwrap().to_vec();
        let text = String::from_utf8(forged[next].clone()).unwrap();
        let (head, tail) = text.split_once("\"prev\":\"").unwrap();
        let (_, tail) = tail.split_at(64);
        let before = super::super::hash::hex(&sha256(&[&before]));
        forged[next] = format!("{head}\"prev\":\"{before}{tail}").into_bytes();
    }
    forged.concat()
}

#[tokio::test]
async fn a_history_made_anew_is_found() {
    let scratch = Scratch::new("forged");
    write(&scratch, Rotation::DEFAULT, 3).await;
    let path = segment(&scratch, 1);
    let good = lines(&path);
    for at in 0..good.len() {
        let forged = forge(&good, at);
        let report = with(&path, Some(&forged), || check(&scratch));
        let code = if at + 1 == good.len() { "edited" } else { "forged" };
        assert_eq!(first(&report), (code, "00000001.jsonl".into(), Some(at as u64)));
        assert_eq!(report.finding_count, 1, "{:?}", report.findings);
        let blind = with(&path, Some(&forged), || check_with_key_only(&scratch));
        assert_eq!(blind.exit_code(), 1, "line {at} with the key only");
    }
}

#[tokio::test]
async fn segments_that_are_taken_away_or_moved_are_found() {
    let scratch = Scratch::new("segments");
    write(&scratch, SMALL, 9).await;
    let other = Scratch::new("other");
    write(&other, SMALL, 9).await;
    for number in 1..=6 {
        let path = segment(&scratch, number);
        let name = files::segment_name(number);
        let gone = with(&path, None, || check(&scratch));
        assert_eq!(
            (gone.exit_code(), first(&gone).0, first(&gone).1),
            (1, "missing_segment", name.clone())
        );
        let empty = with(&path, Some(b""), || check(&scratch));
        assert_eq!((first(&empty).0, first(&empty).1), ("missing_segment", name.clone()));
        let foreign =
            with(&path, Some(&fs::read(segment(&other, number)).unwrap()), || check(&scratch));
        assert_eq!((first(&foreign).0, first(&foreign).1), ("foreign", name.clone()));
        let neighbour = segment(&scratch, if number == 6 { 1 } else { number + 1 });
        let moved = with(&path, Some(&fs::read(neighbour).unwrap()), || check(&scratch));
        assert_eq!((first(&moved).0, first(&moved).1), ("segment_order", name));
    }
    let doubled =
        with(&segment(&scratch, 7), Some(&fs::read(segment(&scratch, 6)).unwrap()), || {
            check(&scratch)
        });
    assert_eq!((first(&doubled).0, first(&doubled).1), ("segment_order", "00000007.jsonl".into()));
}

#[tokio::test]
async fn every_changed_byte_of_a_checkpoint_or_seal_is_found() {
    let scratch = Scratch::new("notes");
    write(&scratch, SMALL, 5).await;
    for name in ["checkpoint", "00000001.seal", "00000002.seal"] {
        let path = scratch.places.directory.join(name);
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 1;
            let report = with(&path, Some(&changed), || check(&scratch));
            assert_eq!(
                (report.exit_code(), first(&report).0),
                (1, "bad_signature"),
                "{name} byte {at}"
            );
        }
        assert_eq!(with(&path, Some(b""), || check(&scratch)).exit_code(), 1);
    }
    let checkpoint = scratch.places.directory.join("checkpoint");
    assert_eq!(first(&with(&checkpoint, None, || check(&scratch))).0, "no_checkpoint");
    assert_eq!(
        first(&with(&checkpoint, None, || check_with_key_only(&scratch))).0,
        "no_checkpoint"
    );
    let seal = scratch.places.directory.join("00000001.seal");
    assert_eq!(first(&with(&seal, None, || check(&scratch))).0, "bad_signature");
    let stranger =
        with(&scratch.places.directory.join("notes.txt"), Some(b"x"), || check(&scratch));
    assert_eq!(first(&stranger).0, "unknown_file");
}

#[tokio::test]
async fn an_older_state_of_the_whole_log_is_a_rollback() {
    let scratch = Scratch::new("rollback");
    write(&scratch, Rotation::DEFAULT, 2).await;
    let old = fs::read(segment(&scratch, 1)).unwrap();
    let checkpoint = scratch.places.directory.join("checkpoint");
    let old_note = fs::read(&checkpoint).unwrap();
    write(&scratch, Rotation::DEFAULT, 2).await;
    let kept = scratch.folder.join("kept");
    fs::copy(&checkpoint, &kept).unwrap();
    put(&segment(&scratch, 1), &old);
    put(&checkpoint, &old_note);
    assert_eq!(first(&check(&scratch)).0, "rollback");
    assert_eq!(check_with_key_only(&scratch).exit_code(), 0, "nobody kept a newer checkpoint");
    let report = verify(&Options {
        directory: scratch.places.directory.clone(),
        trust: Trust::KeyFile(scratch.places.state.join("trust.vkey")),
        checkpoints: vec![kept],
        strictness: Strictness::Notes,
        repairs: Repairs::Refused,
    });
    assert_eq!((first(&report).0, report.anchors), ("rollback", vec![(9, false)]));
}

#[tokio::test]
async fn a_wrong_tile_is_told_from_a_wrong_record() {
    let scratch = Scratch::new("tiles");
    let log = Log::open(&scratch.places, GatewayMode::Daemon).unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..300 {
        let log = log.clone();
        tasks.spawn(async move {
            let mut gap = result("01KAJ8Q5W3V7Z9X1C2B4N6M8K0");
            if let Body::Result(outcome) = &mut gap {
                outcome.execs = number;
            }
            log.record(gap).await.unwrap()
        });
    }
    tasks.join_all().await;
    drop(log);
    assert_eq!(check(&scratch).exit_code(), 0);
    let tile = scratch.places.directory.join("tile/0/000");
    let good = fs::read(&tile).unwrap();
    let mut changed = good.clone();
    changed[32 * 77] ^= 1;
    let report = with(&tile, Some(&changed), || check(&scratch));
    assert_eq!((report.exit_code(), first(&report).0), (1, "tile_mismatch"));
    let without = with(&tile, None, || check(&scratch));
    assert_eq!((without.exit_code(), without.notes.len()), (0, 1));
    let path = segment(&scratch, 1);
    let forged = forge(&lines(&path), 77);
    let report = with(&path, Some(&forged), || check(&scratch));
    assert_eq!(
        (first(&report), report.finding_count),
        (("forged", "00000001.jsonl".into(), Some(77)), 1)
    );
}

#[tokio::test]
async fn without_a_key_nothing_is_said_to_hold() {
    let scratch = Scratch::new("unchecked");
    write(&scratch, Rotation::DEFAULT, 1).await;
    fs::remove_file(scratch.places.state.join("trust.vkey")).unwrap();
    assert_eq!(check(&scratch).exit_code(), 122);
}
