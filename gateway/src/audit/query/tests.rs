//! Questions and their answers.

use super::super::tests::sample::{Scratch, decision, result};
use super::super::{GatewayMode, Log};
use super::*;

#[tokio::test]
async fn records_are_found_by_what_they_say() {
    let scratch = Scratch::new("query");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let first = log.record(decision("ls \u{1b}[2J")).await.unwrap();
    log.record(result(&first.id)).await.unwrap();
    let second = log.record(decision("cat a")).await.unwrap();
    log.record(result(&second.id)).await.unwrap();
    let directory = &scratch.places.directory;
    let filter = Filter { command: Some("ls".into()), ..Filter::default() };
    let answer = search(directory, &filter, Order::Oldest(10)).unwrap();
    assert_eq!(answer.records.iter().map(|it| it.sequence).collect::<Vec<_>>(), [1]);
    assert_eq!(answer.endings.get(&first.id).map(String::as_str), Some("0"));
    assert_eq!(answer.broken, None);
    let shown = table(&answer);
    assert!(shown.contains("ls \\u{1b}[2J") && !shown.contains('\u{1b}'), "{shown}");
    let stored = std::fs::read(directory.join("00000001.jsonl")).unwrap();
    let line = stored.split(|byte| *byte == b'\n').nth(1).unwrap();
    assert_eq!(answer.records[0].bytes, line);

    let (last, mut follow) = tail(directory, &Filter::default(), 2).unwrap();
    assert_eq!(last.records.iter().map(|it| it.sequence).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(follow.poll().unwrap(), []);
    let third = log.record(decision("id")).await.unwrap();
    assert_eq!(
        follow.poll().unwrap().iter().map(|it| it.sequence).collect::<Vec<_>>(),
        [third.sequence]
    );

    let story = why(directory, &Which::read("2")).unwrap().unwrap();
    assert_eq!((story.decision.id.as_str(), story.later.len()), (first.id.as_str(), 1));
    assert!(story.text().contains("ended: 0 (as_decided), record 2"), "{}", story.text());
    assert_eq!(why(directory, &Which::Last).unwrap().unwrap().decision.id, third.id);
    assert!(why(directory, &Which::read("01KAJ8Q5W3V7Z9X1C2B4N6M8K0")).unwrap().is_none());
    let counts = report(directory, &Filter::default(), By::Verdict).unwrap();
    assert_eq!(counts.broken, None);
    let counted: serde_json::Value = serde_json::from_str(&counts.json()).unwrap();
    assert_eq!(
        (&counted["name"], &counted["count"], &counted["worst"]),
        (&"allow".into(), &3.into(), &"allow".into())
    );
    let agents = report(directory, &Filter::default(), By::Agent).unwrap().table();
    assert_eq!(agents.lines().count(), 2, "{agents}");
}

#[tokio::test]
async fn a_broken_chain_is_told_with_the_answer() {
    let scratch = Scratch::new("told");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    log.record(decision("ls")).await.unwrap();
    log.record(decision("cat")).await.unwrap();
    let path = scratch.places.directory.join("00000001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap().replacen("\"ls\"", "\"lt\"", 1);
    std::fs::write(&path, text).unwrap();
    let answer = search(&scratch.places.directory, &Filter::default(), Order::Oldest(10)).unwrap();
    assert!(answer.broken.is_some());
}

#[test]
fn times_may_be_relative() {
    assert_eq!(
        filter::when("2026-11-21T10:15:02Z").as_deref(),
        Some("2026-11-21T10:15:02.000000000Z")
    );
    assert!(filter::when("-2h").unwrap() < filter::when("-1m").unwrap());
    assert!(filter::when("today").unwrap().ends_with("T00:00:00.000000000Z"));
    assert_eq!(filter::when("yesterday-ish"), None);
}
