//! Opening a log that a crash, another gateway or another hand left behind.

use std::fs;
use std::path::PathBuf;

use stockade_policy::Decision as Ruling;
use stockade_text::json::Value;

use super::lines;
use super::sample::{Scratch, decision, plain_decision, result};
use crate::checkpoint::PublicKey;
use crate::hash::{hex, sha256};
use crate::position::{Position, chain, genesis};
use crate::record::Body;
use crate::{Error, GatewayMode, Log, Rotation, files, line};

/// Files with a signed note.
const NOTES: [&str; 2] = ["audit/checkpoint", "state/head"];

/// A log with one command, whose gateway ended.
async fn log_of_one(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    one_more(&scratch, Rotation::DEFAULT).await;
    scratch
}

/// Records one command and its result by a gateway that then ends.
async fn one_more(scratch: &Scratch, rotation: Rotation) {
    let log = Log::open_with(&scratch.places, GatewayMode::Embedded, rotation).unwrap();
    let receipt = log.record(decision("ls")).await.unwrap();
    log.record(result(&receipt.id)).await.unwrap();
}

fn segment(scratch: &Scratch, number: u64) -> PathBuf {
    scratch.places.directory.join(files::segment_name(number))
}

/// Opens the log, and returns its last record.
fn last_after_opening(scratch: &Scratch) -> Value {
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    last(scratch)
}

fn last(scratch: &Scratch) -> Value {
    let number = *files::segments(&scratch.places.directory).unwrap().last().unwrap();
    line::read(lines(scratch, number).last().unwrap().as_bytes()).unwrap().1
}

fn text<'a>(record: &'a Value, key: &str) -> &'a str {
    record.get(key).and_then(Value::text).unwrap_or_default()
}

/// Returns why the log cannot be continued.
fn damage(scratch: &Scratch) -> String {
    match Log::open(&scratch.places, GatewayMode::Embedded) {
        Err(Error::Damaged { finding, .. }) => finding,
        other => panic!("{other:?}"),
    }
}

/// The signed notes as they are now.
fn notes(scratch: &Scratch) -> [Vec<u8>; 2] {
    NOTES.map(|name| fs::read(scratch.folder.join(name)).unwrap())
}

/// Puts older notes back, as if the gateway had been killed before it signed.
fn unsign(scratch: &Scratch, notes: &[Vec<u8>; 2]) {
    for (name, note) in NOTES.iter().zip(notes) {
        fs::write(scratch.folder.join(name), note).unwrap();
    }
}

#[tokio::test]
async fn bytes_that_continue_no_chain_are_set_aside_and_named() {
    let scratch = log_of_one("aside").await;
    let path = segment(&scratch, 1);
    let good = fs::read(&path).unwrap();
    // The first line once more is a record, and does not continue the chain.
    let repeated = format!("{}\n", lines(&scratch, 1)[0]);
    for (rest, why) in [
        ("rubbish\n", "it is not a record: "),
        (repeated.as_str(), "it has sequence 0 where 3 is due"),
        ("\0\0x\n", "there are bytes after the padding"),
    ] {
        let notes = notes(&scratch);
        fs::write(&path, [&good, rest.as_bytes()].concat()).unwrap();
        let gap = last_after_opening(&scratch);
        let end = good.len().to_string();
        let found = (text(&gap, "kind"), text(&gap, "reason"), text(&gap, "from"));
        assert_eq!(found, ("gap", "abandoned_tail", end.as_str()));
        let size = gap.get("bytes").and_then(Value::whole);
        assert_eq!(size, Some(rest.len() as u64));
        assert_eq!(text(&gap, "sha256"), hex(&sha256(&[rest.as_bytes()])));
        let told = format!("bytes that do not continue the chain were set aside: {why}");
        assert!(text(&gap, "detail").starts_with(&told), "{}", text(&gap, "detail"));
        let kept = scratch.places.state.join(format!("quarantine/00000001.jsonl-{end}"));
        assert_eq!(fs::read(&kept).unwrap(), rest.as_bytes());
        assert_eq!(lines(&scratch, 1).len(), 4, "the record of the gap stands in their place");
        // Back to the log of one command for the next.
        fs::write(&path, &good).unwrap();
        unsign(&scratch, &notes);
        let _ = fs::remove_file(scratch.places.state.join("edge"));
    }
}

#[tokio::test]
async fn room_that_was_reserved_behind_the_last_record_goes_without_a_word() {
    let scratch = log_of_one("room").await;
    let path = segment(&scratch, 1);
    let good = fs::read(&path).unwrap();
    fs::write(&path, [good.as_slice(), &[0; 4096]].concat()).unwrap();
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    assert_eq!(fs::read(&path).unwrap(), good);
}

#[tokio::test]
async fn records_behind_the_signed_ones_are_adopted_and_named() {
    let scratch = log_of_one("adopted").await;
    let signed = notes(&scratch);
    one_more(&scratch, Rotation::DEFAULT).await;
    unsign(&scratch, &signed);
    let gap = last_after_opening(&scratch);
    let found = ["kind", "reason", "from", "to"].map(|key| text(&gap, key));
    assert_eq!(found, ["gap", "above_checkpoint", "3", "4"]);
    assert_eq!(gap.get("count").and_then(Value::whole), Some(2));
    // All is signed now: the next gateway has nothing to say.
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    assert_eq!(lines(&scratch, 1).len(), 6);
}

#[tokio::test]
async fn an_open_gateway_adopts_what_another_chained_and_did_not_sign() {
    // The other one goes on in the same segment, or begins the next.
    for (records, segments) in [(None, 1), (Some(3), 2)] {
        let scratch = log_of_one("adopted-open").await;
        let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
        log.record(decision("true")).await.unwrap();
        let signed = notes(&scratch);
        one_more(&scratch, Rotation { records, ..Rotation::DEFAULT }).await;
        assert_eq!(files::segments(&scratch.places.directory).unwrap().len(), segments);
        unsign(&scratch, &signed);
        let receipt = log.record(decision("id")).await.unwrap();
        let all: Vec<Value> = (1..=segments as u64)
            .flat_map(|number| lines(&scratch, number))
            .map(|it| line::read(it.as_bytes()).unwrap().1)
            .collect();
        let sequences: Vec<u64> =
            all.iter().map(|it| it.get("seq").and_then(Value::whole).unwrap()).collect();
        assert_eq!(sequences, (0..=receipt.sequence).collect::<Vec<u64>>());
        let [.., gap, newest] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((text(gap, "reason"), text(gap, "from")), ("above_checkpoint", "4"));
        assert_eq!(text(newest, "id"), receipt.id);
    }
}

/// Rewrites the command of the second record, and chains all that follows to it.
fn rewrite(scratch: &Scratch) {
    let mut before = String::new();
    let mut whole = String::new();
    for (number, line) in lines(scratch, 1).into_iter().enumerate() {
        let head = line::read(line.as_bytes()).unwrap().0;
        let mut line = line;
        if number == 1 {
            line = line.replace("\"ls\"", "\"id\"");
        } else if number > 1 {
            line = line.replace(&hex(&head.previous), &before);
        }
        before = hex(&sha256(&[line.as_bytes()]));
        whole.push_str(&line);
        whole.push('\n');
    }
    fs::write(segment(scratch, 1), whole).unwrap();
}

#[tokio::test]
async fn a_log_that_was_rewritten_with_an_intact_chain_is_refused() {
    let refused = "its first 3 records differ from the signed ones";
    let scratch = log_of_one("rewritten").await;
    assert!(scratch.places.state.join("edge").exists());
    rewrite(&scratch);
    assert_eq!(damage(&scratch), refused);
    // The cache is not believed either when it agrees with what was rewritten.
    let trust = fs::read_to_string(scratch.places.state.join("trust.vkey")).unwrap();
    let trust = PublicKey::read(trust.trim_end()).unwrap();
    let mut position = Position::beginning(&trust);
    position.advance(&scratch.places.directory, chain(&trust), |_, _, _| Ok(())).unwrap();
    assert_ne!(position.last, genesis(&trust));
    position.save(&scratch.places.state.join("edge")).unwrap();
    assert_eq!(damage(&scratch), refused);
    fs::remove_file(scratch.places.state.join("edge")).unwrap();
    assert_eq!(damage(&scratch), refused);
}

#[tokio::test]
async fn the_newer_of_both_notes_counts() {
    // A log that was put back to an earlier state, with the checkpoint of that time: the state knows more.
    let scratch = log_of_one("put-back").await;
    let (path, earlier) = (segment(&scratch, 1), notes(&scratch));
    let content = fs::read(&path).unwrap();
    one_more(&scratch, Rotation::DEFAULT).await;
    fs::write(&path, content).unwrap();
    fs::write(scratch.folder.join(NOTES[0]), &earlier[0]).unwrap();
    assert_eq!(damage(&scratch), "it ends after 3 records, and 5 were signed");
}

#[tokio::test]
async fn a_beginning_that_was_interrupted_is_finished_and_no_other_log_without_a_checkpoint() {
    let scratch = Scratch::new("born");
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    let [checkpoint, head] = NOTES.map(|name| scratch.folder.join(name));
    for path in [&checkpoint, &head] {
        fs::remove_file(path).unwrap();
    }
    one_more(&scratch, Rotation::DEFAULT).await;
    assert_eq!(lines(&scratch, 1).len(), 3);
    // With a record behind the first, somebody had an answer.
    fs::remove_file(&checkpoint).unwrap();
    assert_eq!(damage(&scratch), "its checkpoint is missing, and this state knows that it had one");
    fs::remove_file(&head).unwrap();
    assert_eq!(damage(&scratch), "its checkpoint is missing");
}

/// Returns the only mark of a command that runs: its name and its path.
fn mark(scratch: &Scratch) -> (String, PathBuf) {
    let found = fs::read_dir(scratch.places.state.join("open")).unwrap().next().unwrap().unwrap();
    (found.file_name().into_string().unwrap(), found.path())
}

#[tokio::test]
async fn a_question_whose_gateway_is_gone_is_withdrawn() {
    let scratch = Scratch::new("asked");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let mut asked = plain_decision("rm x");
    asked.verdict.decision = Ruling::Ask;
    let receipt = log.record(Body::Decision(Box::new(asked))).await.unwrap();
    drop(log);
    let withdrawn = last_after_opening(&scratch);
    let found = ["kind", "ref", "answer"].map(|key| text(&withdrawn, key));
    assert_eq!(found, ["approval", receipt.id.as_str(), "withdrawn"]);
}

#[tokio::test]
async fn a_command_whose_result_is_in_a_later_segment_gets_no_second_one() {
    let scratch = Scratch::new("settled");
    let rotation = Rotation { records: Some(4), ..Rotation::DEFAULT };
    one_more(&scratch, rotation).await;
    let log = Log::open_with(&scratch.places, GatewayMode::Embedded, rotation).unwrap();
    let receipt = log.record(decision("ls")).await.unwrap();
    let (name, path) = mark(&scratch);
    log.record(result(&receipt.id)).await.unwrap();
    drop(log);
    assert_eq!(files::segments(&scratch.places.directory).unwrap(), [1, 2]);
    // The mark stays, as if the gateway had been killed right behind the result.
    assert!(name.starts_with(&format!("{}.1.", receipt.id)), "{name}");
    fs::write(&path, "").unwrap();
    let newest = last_after_opening(&scratch);
    assert_eq!((text(&newest, "kind"), text(&newest, "agreement")), ("result", "as_decided"));
    assert_eq!(lines(&scratch, 2).len(), 2);
    assert!(!path.exists(), "the mark is gone");
}

#[tokio::test]
async fn a_record_that_cannot_be_signed_everywhere_is_taken_back() {
    let scratch = log_of_one("taken-back").await;
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let running = log.record(decision("true")).await.unwrap();
    let (path, signed) = (segment(&scratch, 1), notes(&scratch));
    let before = fs::read(&path).unwrap();
    // In the way of the second of both notes: the first is written by then.
    let obstacle = scratch.places.state.join(".head.tmp");
    let _ = fs::remove_file(&obstacle);
    fs::create_dir(&obstacle).unwrap();
    let refused = log.record(decision("id")).await.unwrap_err();
    assert!(refused.to_string().ends_with("nothing was run"), "{refused}");
    assert_eq!(notes(&scratch), signed);
    assert_eq!(fs::read(&path).unwrap(), before);
    let (name, _) = mark(&scratch);
    assert!(name.starts_with(&running.id), "only the command that runs is marked: {name}");
    fs::remove_dir(&obstacle).unwrap();
    // The refusal is named, and the numbers go on where they were.
    let receipt = log.record(result(&running.id)).await.unwrap();
    assert_eq!(receipt.sequence, 5);
    drop(log);
    let report = super::crash::check(&scratch);
    assert_eq!((report.exit_code(), report.records), (0, 6), "{report:?}");
}
