//! Questions and their answers.

use std::path::Path;

use super::super::tests::sample::{Scratch, decision, result};
use super::super::{GatewayMode, Log, Rotation, files};
use super::*;

fn lines_of(path: &Path) -> impl Iterator<Item = String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn numbers(answer: &QueryResult) -> Vec<u64> {
    answer.records.iter().map(|record| record.sequence).collect()
}

#[tokio::test]
async fn every_way_to_ask_finds_the_same_over_many_segments() {
    let scratch = Scratch::new("segments");
    let rotation = Rotation { bytes: 1 << 20, records: Some(4) };
    let log = Log::open_with(&scratch.places, GatewayMode::Embedded, rotation).unwrap();
    let mut ids = Vec::new();
    for number in 0..20 {
        let receipt = log.record(decision(&format!("echo {number}"))).await.unwrap();
        log.record(result(&receipt.id)).await.unwrap();
        ids.push(receipt.id);
    }
    let places = &scratch.places;
    let filter = Filter { kind: Some("decision".into()), ..Filter::default() };
    let all = search(places, &filter, Order::Oldest(100)).unwrap();
    let mut newest = search(places, &filter, Order::Newest(100)).unwrap();
    newest.records.reverse();
    assert_eq!(all, newest);
    assert_eq!((all.records.len(), all.endings.len(), &all.broken), (20, 20, &None));
    let first = search(places, &filter, Order::Oldest(3)).unwrap();
    assert_eq!(numbers(&first), numbers(&all)[..3]);
    assert_eq!(first.endings.len(), 3, "the ends of what is shown are found behind it");
    // By time, from and up to each record.
    for record in &all.records {
        let time = record.text(&["time"]).map(str::to_owned);
        let since = Filter { since: time.clone(), ..filter.clone() };
        let until = Filter { until: time, ..filter.clone() };
        let at = all.records.iter().position(|it| it == record).unwrap();
        for order in [Order::Oldest(100), Order::Newest(100)] {
            let mut found = [&since, &until].map(|it| numbers(&search(places, it, order).unwrap()));
            found.iter_mut().for_each(|numbers| numbers.sort_unstable());
            assert_eq!(found, [&numbers(&all)[at..], &numbers(&all)[..=at]].map(<[u64]>::to_vec));
        }
    }
    for (id, record) in ids.iter().zip(&all.records) {
        let filter = Filter {
            kind: Some("result".into()),
            reference: Some(id.clone()),
            ..Filter::default()
        };
        let end = search(places, &filter, Order::Oldest(1)).unwrap();
        let (end, number) = (&end.records[0].id, end.records[0].sequence.to_string());
        for which in [id.clone(), record.sequence.to_string(), end.clone(), number] {
            let story = why(places, &Which::read(&which)).unwrap();
            let story = story.unwrap_or_else(|| panic!("{which}"));
            assert_eq!((&story.decision.id, story.later.len()), (id, 1), "{which}");
        }
    }
    let last = why(places, &Which::Last).unwrap().unwrap();
    assert_eq!((Some(&last.decision.id), last.later.len()), (ids.last(), 1));
}

#[tokio::test]
async fn a_result_far_behind_its_decision_is_found_without_the_segments_between() {
    let scratch = Scratch::new("references");
    let rotation = Rotation { bytes: 1 << 20, records: Some(4) };
    let log = Log::open_with(&scratch.places, GatewayMode::Embedded, rotation).unwrap();
    let early = log.record(decision("sleep 1h")).await.unwrap();
    for _ in 0..16 {
        log.record(decision("true")).await.unwrap();
    }
    let late = log.record(result(&early.id)).await.unwrap();
    for _ in 0..16 {
        log.record(decision("true")).await.unwrap();
    }
    drop(log);
    let places = &scratch.places;
    let about = Filter { reference: Some(early.id.clone()), ..Filter::default() };
    let ask = |order| {
        let answer = search(places, &about, order).unwrap();
        (numbers(&answer), answer.endings, answer.broken)
    };
    let why = || {
        let story = why(places, &Which::read(&early.id)).unwrap().unwrap();
        (story.later.iter().map(|it| it.sequence).collect::<Vec<_>>(), story.broken)
    };
    let endings: BTreeMap<String, String> = [(early.id.clone(), "0".to_owned())].into();
    let all_is_well = || {
        let (first, last) = (early.sequence, late.sequence);
        assert_eq!(ask(Order::Oldest(9)), (vec![first, last], endings.clone(), None));
        assert_eq!(ask(Order::Newest(9)), (vec![last, first], endings.clone(), None));
        assert_eq!(why(), (vec![last], None));
    };
    all_is_well();
    // Lines that are not records behind the first one: who reads them says so.
    let numbers = files::segments(&places.directory).unwrap();
    let named = |number: &u64| References::read(&places.state, *number).unwrap();
    let (last, closed) = numbers.split_last().unwrap();
    let holders: Vec<u64> =
        closed.iter().copied().filter(|it| named(it).name_any([early.id.as_str()])).collect();
    let [holder] = holders[..] else { panic!("{holders:?}") };
    let between: Vec<&u64> = closed.iter().filter(|it| **it != 1 && **it != holder).collect();
    assert!(between.len() > 3 && *last > holder + 1, "{numbers:?}, {holder}");
    for number in &between {
        let path = places.directory.join(files::segment_name(**number));
        let first = lines_of(&path).next().unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, format!("{first}\n{{}}\n")).unwrap();
    }
    all_is_well();
    std::fs::remove_dir_all(places.state.join("references")).unwrap();
    assert!(why().1.is_some() && ask(Order::Oldest(9)).2.is_some());
}

#[tokio::test]
async fn records_without_a_signature_are_told_from_those_with_one() {
    let scratch = Scratch::new("unsigned");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    log.record(decision("ls")).await.unwrap();
    drop(log);
    let places = &scratch.places;
    let directory = &places.directory;
    // Somebody who has no key adds a record that follows the chain.
    let path = directory.join("00000001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let line = text.lines().last().unwrap();
    let (head, _) = super::super::line::read(line.as_bytes()).unwrap();
    let before = super::super::hash::hex(&head.previous);
    let digest = super::super::hash::hex(&super::super::hash::sha256(&[line.as_bytes()]));
    let forged = line
        .replace(&before, &digest)
        .replace(&format!("\"seq\":{}", head.sequence), &format!("\"seq\":{}", head.sequence + 1))
        .replace(&head.id, "01KAJ8Q5W3V7Z9X1C2B4N6M8K0");
    std::fs::write(&path, format!("{text}{forged}\n")).unwrap();
    let all = Filter::default();
    let unsigned = |order| search(places, &all, order).unwrap().unsigned;
    assert_eq!([Order::Oldest(9), Order::Newest(9)].map(unsigned), [[2].into(), [2].into()]);
    // A gateway keeps what follows the chain and signs it, and it is still told.
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    log.record(decision("id")).await.unwrap();
    let unsigned = |order| search(places, &all, order).unwrap().unsigned;
    let orders = [Order::Oldest(9), Order::Newest(9), Order::Oldest(3)];
    assert_eq!(orders.map(unsigned), [[2].into(), [2].into(), [2].into()]);
    let shown = table(&search(places, &all, Order::Oldest(9)).unwrap());
    assert_eq!(shown.matches(" unsigned").count(), 1, "{shown}");
    let story = why(places, &Which::read("01KAJ8Q5W3V7Z9X1C2B4N6M8K0")).unwrap().unwrap();
    assert!(story.text().contains("no signature covered record 2"), "{}", story.text());
}

#[tokio::test]
async fn records_are_found_by_what_they_say() {
    let scratch = Scratch::new("query");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let first = log.record(decision("ls \u{1b}[2J")).await.unwrap();
    log.record(result(&first.id)).await.unwrap();
    let second = log.record(decision("cat a")).await.unwrap();
    log.record(result(&second.id)).await.unwrap();
    let places = &scratch.places;
    let directory = &places.directory;
    let filter = Filter { command: Some("ls".into()), ..Filter::default() };
    let answer = search(places, &filter, Order::Oldest(10)).unwrap();
    assert_eq!(answer.records.iter().map(|it| it.sequence).collect::<Vec<_>>(), [1]);
    assert_eq!(answer.endings.get(&first.id).map(String::as_str), Some("0"));
    assert_eq!(answer.broken, None);
    let shown = table(&answer);
    assert!(shown.contains("ls \\u{1b}[2J") && !shown.contains('\u{1b}'), "{shown}");
    let stored = std::fs::read(directory.join("00000001.jsonl")).unwrap();
    let line = stored.split(|byte| *byte == b'\n').nth(1).unwrap();
    assert_eq!(answer.records[0].bytes, line);

    let (last, mut follow) = tail(places, &Filter::default(), 2).unwrap();
    assert_eq!(last.records.iter().map(|it| it.sequence).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(follow.poll().unwrap(), QueryResult::default());
    let third = log.record(decision("id")).await.unwrap();
    assert_eq!(
        follow.poll().unwrap().records.iter().map(|it| it.sequence).collect::<Vec<_>>(),
        [third.sequence]
    );

    let story = why(places, &Which::read("2")).unwrap().unwrap();
    assert_eq!((story.decision.id.as_str(), story.later.len()), (first.id.as_str(), 1));
    assert!(story.text().contains("ended: 0 (as_decided), record 2"), "{}", story.text());
    assert_eq!(why(places, &Which::Last).unwrap().unwrap().decision.id, third.id);
    assert!(why(places, &Which::read("01KAJ8Q5W3V7Z9X1C2B4N6M8K0")).unwrap().is_none());
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
    let answer = search(&scratch.places, &Filter::default(), Order::Oldest(10)).unwrap();
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
