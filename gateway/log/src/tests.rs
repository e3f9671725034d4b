//! The log as a whole: what is written opens, goes on and survives.

pub(super) mod crash;
mod full;
mod recovery;
pub(super) mod sample;

use std::fs;

use super::*;
use sample::{Scratch, decision, result};

fn lines(scratch: &Scratch, number: u64) -> Vec<String> {
    let path = scratch.places.directory.join(files::segment_name(number));
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn records_are_numbered_from_zero_without_holes() {
    let scratch = Scratch::new("numbered");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let first = log.record(decision("ls")).await.unwrap();
    let second = log.record(result(&first.id)).await.unwrap();
    assert_eq!((first.sequence, second.sequence), (1, 2));
    let kinds: Vec<String> =
        lines(&scratch, 1).iter().map(|line| line::read(line.as_bytes()).unwrap().0.kind).collect();
    assert_eq!(kinds, ["segment", "decision", "result"]);
}

#[tokio::test]
async fn several_gateways_share_a_log() {
    let scratch = Scratch::new("shared");
    let logs: Vec<Log> =
        (0..3).map(|_| Log::open(&scratch.places, GatewayMode::Embedded).unwrap()).collect();
    for round in 0..4 {
        for (number, log) in logs.iter().enumerate() {
            let receipt = log.record(decision("true")).await.unwrap();
            assert_eq!(receipt.sequence, 1 + 2 * (round * 3 + number as u64));
            log.record(result(&receipt.id)).await.unwrap();
        }
    }
    assert_eq!(lines(&scratch, 1).len(), 25);
}

#[tokio::test]
async fn a_service_of_the_machine_holds_its_log() {
    let scratch = Scratch::new("held");
    let daemon = Log::open(&scratch.places, GatewayMode::System).unwrap();
    daemon.record(decision("ls")).await.unwrap();
    let refused = Log::open(&scratch.places, GatewayMode::Embedded).unwrap_err();
    assert_eq!(refused, Error::Busy { directory: scratch.places.directory.clone() });
}

#[tokio::test]
async fn a_daemon_and_a_gateway_for_one_call_append_in_turns() {
    let scratch = Scratch::new("shared-daemon");
    let daemon = Log::open(&scratch.places, GatewayMode::Daemon).unwrap();
    let first = daemon.record(decision("ls")).await.unwrap();
    let call = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    call.record(decision("id")).await.unwrap();
    daemon.record(result(&first.id)).await.unwrap();
    drop(call);
    drop(daemon);
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    let kinds: Vec<String> =
        lines(&scratch, 1).iter().map(|line| line::read(line.as_bytes()).unwrap().0.kind).collect();
    // The last result is that of the second command, whose gateway is gone.
    assert_eq!(kinds, ["segment", "decision", "decision", "result", "result"]);
}

#[tokio::test]
async fn a_lock_that_is_taken_away_lets_nobody_write_beside_its_holder() {
    let scratch = Scratch::new("lock-lost");
    let daemon = Log::open(&scratch.places, GatewayMode::System).unwrap();
    daemon.record(decision("ls")).await.unwrap();
    fs::remove_file(scratch.places.directory.join("lock")).unwrap();
    let refused = Log::open(&scratch.places, GatewayMode::Embedded).unwrap_err();
    assert_eq!(refused, Error::Busy { directory: scratch.places.directory.clone() });
    let lost = daemon.record(decision("id")).await.unwrap_err();
    assert_eq!(lost, Error::LockLost { directory: scratch.places.directory.clone() });
    drop(daemon);
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let receipt = log.record(decision("id")).await.unwrap();
    // Acknowledged records are there, and a `gap` reports the refusals.
    let kinds: Vec<String> =
        lines(&scratch, 1).iter().map(|line| line::read(line.as_bytes()).unwrap().0.kind).collect();
    assert_eq!(kinds, ["segment", "decision", "result", "gap", "decision"]);
    assert_eq!(receipt.sequence, 4);
}

#[tokio::test]
async fn gateways_for_one_call_agree_on_a_new_lock() {
    let scratch = Scratch::new("lock-new");
    let [first, second] =
        [(); 2].map(|()| Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    for round in 0..8_u64 {
        fs::remove_file(scratch.places.directory.join("lock")).unwrap();
        let [one, other] = [first.clone(), second.clone()].map(|log| {
            tokio::spawn(async move { log.record(decision("true")).await.unwrap().sequence })
        });
        let mut numbers = [one.await.unwrap(), other.await.unwrap()];
        numbers.sort_unstable();
        assert_eq!(numbers, [1 + 2 * round, 2 + 2 * round]);
    }
}

#[tokio::test]
async fn a_result_that_could_not_be_written_is_written_later() {
    let scratch = Scratch::new("later");
    let log = Log::open(&scratch.places, GatewayMode::Daemon).unwrap();
    let receipt = log.record(decision("make")).await.unwrap();
    let away = scratch.folder.join("away");
    fs::rename(&scratch.places.directory, &away).unwrap();
    log.record(result(&receipt.id)).await.unwrap_err();
    fs::rename(&away, &scratch.places.directory).unwrap();
    log.record(decision("ls")).await.unwrap();
    // A line that was written once more is not written again with the next record.
    log.record(decision("id")).await.unwrap();
    let ends: Vec<_> = lines(&scratch, 1)
        .iter()
        .map(|line| line::read(line.as_bytes()).unwrap())
        .filter(|(head, _)| head.reference.as_ref() == Some(&receipt.id))
        .map(|(head, value)| (head.kind, value.get("exit").and_then(|exit| exit.whole())))
        .collect();
    assert_eq!(ends, [("result".to_owned(), Some(0))]);
}

/// Polls `record` once, so that it is with the writer, which does not run yet.
async fn hand_over(record: std::pin::Pin<&mut impl Future<Output = Result<Receipt, Error>>>) {
    tokio::select! {
        biased;
        _ = record => panic!("nobody writes"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn i1_a_decision_that_nobody_waits_for_gets_a_result_that_nothing_ran() {
    let scratch = Scratch::new("abandoned");
    let (log, writer) = Log::begin(&scratch.places, GatewayMode::Embedded).unwrap();
    {
        let mut record = std::pin::pin!(log.record(decision("ls")));
        hand_over(record.as_mut()).await;
    }
    let thread = std::thread::spawn(|| writer.run());
    drop(log);
    thread.join().unwrap();
    let written = lines(&scratch, 1);
    let written: Vec<_> = written.iter().map(|it| line::read(it.as_bytes()).unwrap()).collect();
    let kinds: Vec<&str> = written.iter().map(|it| it.0.kind.as_str()).collect();
    assert_eq!(kinds, ["segment", "decision", "result"]);
    assert_eq!(written[2].0.reference.as_ref(), Some(&written[1].0.id));
    assert_eq!(written[2].1.get("agreement").unwrap().text(), Some("not_run"));
}

#[tokio::test]
async fn a_log_is_idle_when_every_record_is_answered() {
    let scratch = Scratch::new("idle");
    let (log, writer) = Log::begin(&scratch.places, GatewayMode::Embedded).unwrap();
    assert_eq!([log.is_idle(), log.is_stuck(), log.is_apart()], [true, false, false]);
    let mut record = std::pin::pin!(log.record(decision("ls")));
    hand_over(record.as_mut()).await;
    assert_eq!([log.is_idle(), log.is_stuck()], [false, false]);
    let thread = std::thread::spawn(|| writer.run());
    record.await.unwrap();
    assert_eq!([log.is_idle(), log.is_stuck()], [true, false]);
    log.note_settings("00", "01");
    assert_eq!(log.settings_recorded("00"), None, "a note beside the log serves");
    drop(thread);
}

#[tokio::test]
async fn who_waits_for_a_writer_that_hangs_is_refused_and_can_end() {
    let scratch = Scratch::new("hangs");
    let (log, _writer) = Log::begin(&scratch.places, GatewayMode::Embedded).unwrap();
    let refused = log.record(decision("ls")).await.unwrap_err();
    assert_eq!(refused, Error::Slow { directory: scratch.places.directory.clone(), seconds: 5 });
    assert!(log.is_stuck() && !log.is_idle());
    let begun = std::time::Instant::now();
    drop(log);
    assert!(begun.elapsed() < PATIENCE, "the end waited for the writer");
}

#[tokio::test]
async fn a_record_of_a_later_format_is_left_to_a_later_version() {
    let scratch = Scratch::new("newer");
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    let path = scratch.places.directory.join("00000001.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().next().unwrap();
    let (head, _) = line::read(line.as_bytes()).unwrap();
    let before = hash::hex(&head.previous);
    let digest = hash::hex(&hash::sha256(&[line.as_bytes()]));
    let newer = line.replacen("{\"v\":1", "{\"v\":2", 1).replacen(&before, &digest, 1);
    let newer = newer.replacen("\"seq\":0", "\"seq\":1", 1);
    fs::write(&path, format!("{text}{newer}\n")).unwrap();
    let refused = Log::open(&scratch.places, GatewayMode::Embedded).unwrap_err();
    assert_eq!(refused, Error::Newer { directory: scratch.places.directory.clone(), version: 2 });
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{text}{newer}\n"), "nothing is cut");
    let check = || {
        verify::verify(&verify::Options {
            directory: scratch.places.directory.clone(),
            trust: verify::Trust::State(scratch.places.state.clone()),
            checkpoints: Vec::new(),
            strictness: verify::Strictness::Notes,
            repairs: verify::Repairs::Refused,
        })
    };
    let report = check();
    let expected = "a newer stockade wrote line 2 of `00000001.jsonl`: it has format 2; check the log with that version";
    assert_eq!((report.exit_code(), report.unchecked.as_deref()), (122, Some(expected)));
    // A record whose digest is known to be another one was edited, whatever it says of itself.
    fs::write(&path, text.replacen("{\"v\":1", "{\"v\":2", 1)).unwrap();
    let report = check();
    assert_eq!(
        (report.exit_code(), report.findings.first().map(|it| it.code)),
        (1, Some("edited"))
    );
}

#[tokio::test]
async fn a_log_of_another_host_is_refused() {
    if !fs::read_to_string("/etc/machine-id").is_ok_and(|text| text.trim().len() >= 32) {
        println!("skipped: this machine has no identity of its own (machine-id(5))");
        return;
    }
    let scratch = Scratch::new("elsewhere");
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    let key = fs::read(scratch.places.state.join("keys/sign.key")).unwrap();
    let key = ed25519_dalek::SigningKey::from_bytes(&key.try_into().unwrap());
    let elsewhere = checkpoint::PublicKey::of("stockade/h-00000000/0123", &key).line();
    fs::write(scratch.places.state.join("trust.vkey"), elsewhere).unwrap();
    let refused = Log::open(&scratch.places, GatewayMode::Embedded).unwrap_err();
    let (directory, host) = (scratch.places.directory.clone(), keys::host_id());
    assert_eq!(refused, Error::OtherHost { directory, origin: "h-00000000".into(), host });
}

#[tokio::test]
async fn segments_rotate_and_are_sealed() {
    let scratch = Scratch::new("rotated");
    let rotation = Rotation { bytes: 1 << 20, records: Some(4) };
    for _ in 0..5 {
        let log = Log::open_with(&scratch.places, GatewayMode::Embedded, rotation).unwrap();
        let receipt = log.record(decision("ls")).await.unwrap();
        log.record(result(&receipt.id)).await.unwrap();
    }
    assert_eq!(files::segments(&scratch.places.directory).unwrap(), [1, 2, 3, 4]);
    assert!(scratch.places.directory.join("00000003.seal").exists());
    assert!(!scratch.places.directory.join("00000004.seal").exists());
}

#[tokio::test]
async fn a_command_whose_gateway_is_gone_gets_a_result() {
    let scratch = Scratch::new("orphan");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let receipt = log.record(decision("sleep 9")).await.unwrap();
    drop(log);
    let _log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let (head, value) = line::read(lines(&scratch, 1).last().unwrap().as_bytes()).unwrap();
    assert_eq!((head.kind.as_str(), head.reference), ("result", Some(receipt.id)));
    assert_eq!(value.get("agreement").unwrap().text(), Some("unknown"));
}

#[tokio::test]
async fn a_torn_tail_is_cut_and_named() {
    let scratch = Scratch::new("torn");
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    let path = scratch.places.directory.join("00000001.jsonl");
    let mut content = fs::read(&path).unwrap();
    content.extend_from_slice(b"{\"v\":1,\"kind\":\"deci");
    fs::write(&path, content).unwrap();
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    let (head, value) = line::read(lines(&scratch, 1)[1].as_bytes()).unwrap();
    assert_eq!(head.kind, "gap");
    assert_eq!(value.get("reason").unwrap().text(), Some("torn_tail"));
    assert_eq!(value.get("bytes").unwrap().whole(), Some(19));
}

#[tokio::test]
async fn a_shortened_log_is_refused() {
    let scratch = Scratch::new("shortened");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let receipt = log.record(decision("ls")).await.unwrap();
    log.record(result(&receipt.id)).await.unwrap();
    drop(log);
    let path = scratch.places.directory.join("00000001.jsonl");
    let kept = lines(&scratch, 1)[..2].join("\n") + "\n";
    fs::write(&path, kept).unwrap();
    let refused = Log::open(&scratch.places, GatewayMode::Embedded).unwrap_err();
    let Error::Damaged { finding, .. } = refused else { panic!("{refused}") };
    assert_eq!(finding, "it ends after 2 records, and 3 were signed");
}

#[tokio::test]
async fn a_missing_key_beside_a_log_is_never_replaced() {
    let scratch = Scratch::new("keyless");
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
    for name in ["keys/sign.key", "keys/redact.key", "trust.vkey"] {
        let path = scratch.places.state.join(name);
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let refused = Log::open(&scratch.places, GatewayMode::Embedded).unwrap_err();
        assert!(matches!(refused, Error::Damaged { .. }), "{name}: {refused}");
        assert!(!path.exists());
        fs::write(&path, content).unwrap();
    }
    drop(Log::open(&scratch.places, GatewayMode::Embedded).unwrap());
}

#[tokio::test]
async fn a_log_that_is_taken_away_refuses_until_it_is_back() {
    let scratch = Scratch::new("away");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    log.record(decision("ls")).await.unwrap();
    let aside = scratch.folder.join("aside");
    fs::rename(&scratch.places.directory, &aside).unwrap();
    let refused = log.record(decision("ls")).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "audit log {} cannot be written: No such file or directory (ENOENT); nothing was run",
            scratch.places.directory.display()
        )
    );
    assert!(!scratch.places.directory.exists());
    fs::rename(&aside, &scratch.places.directory).unwrap();
    log.record(decision("ls")).await.unwrap();
    let (head, value) = line::read(lines(&scratch, 1)[2].as_bytes()).unwrap();
    assert_eq!((head.kind.as_str(), value.get("count").unwrap().whole()), ("gap", Some(1)));
}

#[test]
fn one_directory_has_one_state_however_it_is_named() {
    let scratch = Scratch::new("named");
    let state = scratch.folder.join("state");
    let direct = Places::of(&scratch.folder.join("d"), &state);
    fs::create_dir(scratch.folder.join("x")).unwrap();
    assert_eq!(Places::of(&scratch.folder.join("x/../d"), &state).state, direct.state);
    assert_ne!(Places::of(&scratch.folder.join("e"), &state).state, direct.state);
}

#[tokio::test]
async fn a_secret_is_in_no_file_of_the_log() {
    let scratch = Scratch::new("secret");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let mut plain = sample::plain_decision(&format!("git push https://x:{secret}@github.com/a/b"));
    plain.verdict.reason = format!("denied because of {secret}");
    plain.request.description = Some("push with password=tr0ub4dor".into());
    log.record(Body::Decision(Box::new(plain))).await.unwrap();
    drop(log);
    let content = fs::read(scratch.places.directory.join("00000001.jsonl")).unwrap();
    let text = String::from_utf8(content).unwrap();
    assert!(!text.contains(secret) && !text.contains("tr0ub4dor"), "{text}");
    let (_, value) = line::read(lines(&scratch, 1)[1].as_bytes()).unwrap();
    let masks: Vec<String> = value
        .get("redacted")
        .and_then(|it| it.elements())
        .unwrap()
        .iter()
        .map(|it| it.get("ptr").unwrap().text().unwrap().to_owned())
        .collect();
    assert_eq!(
        masks,
        ["/request/command", "/request/description", "/request/input/command", "/verdict/reason"]
    );
}

#[tokio::test]
async fn the_grammar_of_a_real_command_tells_its_secrets() {
    let scratch = Scratch::new("grammar");
    let log = Log::open(&scratch.places, GatewayMode::Embedded).unwrap();
    let command = "API_TOKEN=abc123 curl -u 'bob:hunter2' https://x.org | cat";
    let draft = stockade_parser::parse(
        command.as_bytes(),
        &stockade_parser::StartState::default(),
        stockade_parser::Programs::builtin(),
        &stockade_parser::Limits::default(),
    );
    let mut plain = sample::plain_decision(command);
    plain.tree = Some(draft.confirm(&[]));
    log.record(Body::Decision(Box::new(plain))).await.unwrap();
    let text = lines(&scratch, 1).remove(1);
    assert!(!text.contains("hunter2") && !text.contains("abc123"), "{text}");
    let (_, value) = line::read(text.as_bytes()).unwrap();
    let redactor = log.redactor();
    let stored = format!(
        "API_TOKEN=[redacted:variable:{}] curl -u 'bob:[redacted:flag-user:{}]' https://x.org | cat",
        redactor.tag(b"abc123"),
        redactor.tag(b"hunter2")
    );
    assert_eq!(value.get("request").unwrap().get("command").unwrap().text(), Some(stored.as_str()));
    let commands = value.get("parsed").unwrap().get("commands").unwrap().elements().unwrap();
    let ends = commands[0].get("span").unwrap().elements().unwrap();
    let end = usize::try_from(ends[1].whole().unwrap()).unwrap();
    assert!(stored.get(..end).unwrap().trim_end().ends_with("https://x.org"), "{end}: {stored}");
}
