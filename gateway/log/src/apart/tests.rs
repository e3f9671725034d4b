use std::os::unix::net::UnixStream;
use std::sync::Arc;

use stockade_scratch::Folder;

use super::board::Known;
use super::ledger::{Ledger, MOST_RUNNING};
use super::*;
use crate::query::along::Whose;
use crate::record::{self, Agreement, Body, Outcome};
use crate::{GatewayMode, Log, Places};

/// A recorder with a log of its own.
struct Recorder {
    _folder: Folder,
    places: Places,
    log: Log,
    ledger: Arc<Ledger>,
}

impl Recorder {
    fn new() -> Recorder {
        let folder = Folder::new();
        let places =
            Places { directory: folder.path().join("log"), state: folder.path().join("state") };
        let log = Log::open(&places, GatewayMode::System).unwrap();
        Recorder { _folder: folder, places, log, ledger: Arc::default() }
    }

    /// Connects a gateway of `uid`; the recorder's thread ends with it.
    fn connect(&self, uid: u32) -> (UnixStream, std::thread::JoinHandle<()>) {
        self.connect_as(uid, None)
    }

    /// The same for a user of whom the keeper told more.
    fn connect_as(
        &self,
        uid: u32,
        known: Option<Known>,
    ) -> (UnixStream, std::thread::JoinHandle<()>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (log, ledger) = (self.log.clone(), Arc::clone(&self.ledger));
        let user = User { uid, whose: Whose::Of(uid), known };
        let serving = move || serve(&log, &ledger, &theirs, &user).unwrap();
        (ours, std::thread::spawn(serving))
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.places.directory.join("00000001.jsonl")).unwrap();
        let text = text.trim_end_matches('\0');
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Says `wanted` as a gateway that is in wrong hands could, and returns the answer.
fn say(stream: &UnixStream, kind: &str, reference: Option<&str>, members: &str) -> Told {
    let follow = match kind {
        "decision" => Following::Opens,
        "result" => Following::Closes,
        _ => Following::None,
    };
    let reference = reference.map(str::to_owned);
    let wanted = Wanted { kind: kind.into(), reference, members: members.into(), follow };
    send(stream, &Asked::Write(wanted)).unwrap();
    receive(stream).unwrap()
}

fn cause(told: Told) -> String {
    match told {
        Told::Refused { cause } => cause,
        other => panic!("{other:?}"),
    }
}

fn id(told: Told) -> String {
    match told {
        Told::Written { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

fn grant(uid: u32) -> String {
    format!(
        r#""rule":"Bash(ls)","layer":"user","action":"made","who":{{"uid":{uid},"name":"ada"}},"redacted":[]"#
    )
}

/// The members of a decision that lets a command run.
fn decision(uid: u32) -> String {
    let mut decision = crate::tests::sample::plain_decision("ls");
    decision.caller.uid = uid;
    let head = serde_json::json!({
        "host": {"id": "h-0", "name": "forged", "os": "linux", "kernel": "0"},
        "gateway": {"version": "9", "exe_sha256": "0".repeat(64), "mode": "embedded", "pid": 7},
    });
    let redactor = crate::Redactor::new(crate::keys::RedactKey::new([7; 32])).unwrap();
    let body = Body::Decision(Box::new(decision));
    let prepared = crate::wire::prepare(&body, head.as_object().unwrap(), &redactor).unwrap();
    String::from_utf8(prepared.members).unwrap()
}

fn result() -> String {
    let body = Body::Result(Box::new(Outcome::bare("", Agreement::AsDecided, "gateway")));
    let redactor = crate::Redactor::new(crate::keys::RedactKey::new([7; 32])).unwrap();
    let prepared = crate::wire::prepare(&body, &Map::new(), &redactor).unwrap();
    String::from_utf8(prepared.members).unwrap()
}

fn greeted(stream: &UnixStream) {
    assert!(matches!(receive(stream).unwrap(), Told::Hello { .. }));
}

#[tokio::test]
async fn a_gateway_has_its_records_written_by_the_recorder() {
    let recorder = Recorder::new();
    let (stream, serving) = recorder.connect(1000);
    let (log, writer) = Log::attach(&recorder.places, stream).unwrap();
    let writing = std::thread::spawn(|| writer.run());
    let body = || {
        Body::Grant(record::GrantRecord {
            rule: "Bash(ls)".into(),
            layer: "user",
            action: "made",
            who: Some(record::Who { uid: 1000, name: "ada".into() }),
            expires: None,
        })
    };
    let first = log.record(body()).await.unwrap();
    let second = log.record(body()).await.unwrap();
    assert_eq!(second.sequence, first.sequence + 1);
    assert!(log.is_apart());
    assert_eq!(log.settings_recorded("00"), None);
    log.note_settings("00", &second.id);
    assert_eq!(log.settings_recorded("00").as_ref(), Some(&second.id));
    assert_eq!(log.settings_recorded("11"), None);
    assert_eq!(log.redactor().tag(b"x"), recorder.log.redactor().tag(b"x"));
    drop(log);
    writing.join().unwrap();
    serving.join().unwrap();
    assert_eq!(recorder.lines().last().unwrap()["id"], second.id);
}

#[test]
fn a_gateway_in_wrong_hands_writes_for_its_own_user_alone() {
    let recorder = Recorder::new();
    let (ada, _serving) = recorder.connect(1000);
    let (bob, _serving) = recorder.connect(1001);
    greeted(&ada);
    greeted(&bob);
    assert_eq!(cause(say(&ada, "grant", None, &grant(1001))), "it names another user");
    assert_eq!(cause(say(&ada, "decision", None, &decision(1001))), "it names another user");
    for kind in ["segment", "key", "repair", "prune", "gap", "nonsense"] {
        assert_eq!(cause(say(&ada, kind, None, &grant(1000))), "no gateway writes that kind");
    }
    let of_bob = id(say(&bob, "decision", None, &decision(1001)));
    let other = "it refers to another user's decision";
    assert_eq!(cause(say(&ada, "result", Some(&of_bob), &result())), other);
    assert_eq!(
        cause(say(&ada, "result", Some(&"0".repeat(26)), &result())),
        "no command of that decision runs"
    );
    id(say(&bob, "result", Some(&of_bob), &result()));
    let again = cause(say(&bob, "result", Some(&of_bob), &result()));
    assert_eq!(again, "no command of that decision runs");
}

#[test]
fn a_record_that_the_table_does_not_have_is_refused() {
    let recorder = Recorder::new();
    let (ada, _serving) = recorder.connect(1000);
    greeted(&ada);
    let more = format!("{},\"more\":1", grant(1000));
    let seq = format!("\"seq\":5,{}", grant(1000));
    let line = grant(1000).replace("Bash(ls)", "a\\nb\"},{\"");
    for members in [more.as_str(), seq.as_str(), line.as_str(), "", "}{"] {
        cause(say(&ada, "grant", None, members));
    }
    // The consequence for a command is read off the decision.
    let wanted = Wanted {
        kind: "decision".into(),
        reference: None,
        members: decision(1000),
        follow: Following::None,
    };
    send(&ada, &Asked::Write(wanted)).unwrap();
    let told = cause(receive(&ada).unwrap());
    assert_eq!(told, "it means something else for its command");
    let before = recorder.lines().len();
    id(say(&ada, "grant", None, &grant(1000)));
    assert_eq!(recorder.lines().len(), before + 1);
}

#[test]
fn what_the_recorder_knows_stands_in_a_decision_and_not_what_a_gateway_says() {
    let recorder = Recorder::new();
    let (ada, _serving) = recorder.connect(1000);
    greeted(&ada);
    id(say(&ada, "decision", None, &decision(1000)));
    let line = recorder.lines().pop().unwrap();
    assert_eq!(line["gateway"]["mode"], "system");
    assert_eq!(line["gateway"]["pid"], 7);
    assert_ne!(line["host"]["name"], "forged");
}

#[test]
fn commands_of_a_gateway_that_is_gone_get_a_result() {
    let recorder = Recorder::new();
    let (ada, serving) = recorder.connect(1000);
    greeted(&ada);
    let decision = id(say(&ada, "decision", None, &decision(1000)));
    drop(ada);
    serving.join().unwrap();
    let line = recorder.lines().pop().unwrap();
    assert_eq!((&line["kind"], &line["ref"]), (&"result".into(), &decision.into()));
    assert_eq!(line["agreement"], "unknown");
}

#[test]
fn one_user_has_so_many_commands_at_once_and_takes_nothing_from_another() {
    let recorder = Recorder::new();
    let (ada, _serving) = recorder.connect(1000);
    let (bob, _serving) = recorder.connect(1001);
    greeted(&ada);
    greeted(&bob);
    let members = decision(1000);
    let ids: Vec<String> =
        (0..MOST_RUNNING).map(|_| id(say(&ada, "decision", None, &members))).collect();
    let told = cause(say(&ada, "decision", None, &members));
    assert_eq!(told, "uid 1000 has 64 commands already");
    id(say(&bob, "decision", None, &decision(1001)));
    id(say(&ada, "result", ids.first().map(String::as_str), &result()));
    id(say(&ada, "decision", None, &members));
}

#[test]
fn one_user_has_a_share_of_the_log() {
    let ledger = Ledger::default();
    let piece = 1 << 20;
    let most = usize::try_from(super::ledger::BURST).unwrap() / piece;
    for _ in 0..most {
        ledger.spend(1000, piece).unwrap();
    }
    // A slow machine gains some in the meantime.
    let refused = (0..1000).find_map(|_| ledger.spend(1000, 8 * piece).err());
    assert_eq!(refused.unwrap(), "uid 1000 writes more than its share of the log");
    ledger.spend(1001, piece).unwrap();
}

/// Returns numbers and kinds of what a user is given from the beginning on.
fn reads(stream: &UnixStream) -> Vec<(u64, String)> {
    send(stream, &Asked::Begin(Start::Record(0))).unwrap();
    let Told::Begun(Begun { mut place, .. }) = receive(stream).unwrap() else { panic!("a place") };
    let mut found = Vec::new();
    loop {
        send(stream, &Asked::Read(place)).unwrap();
        let Told::Read(piece) = receive(stream).unwrap() else { panic!("records") };
        found.extend(piece.records.into_iter().map(|(sequence, kind, _)| (sequence, kind)));
        if piece.is_end {
            return found;
        }
        place = piece.place;
    }
}

#[test]
fn one_user_reads_no_record_of_another() {
    let recorder = Recorder::new();
    let ((ada, _), (bob, _)) = (recorder.connect(1000), recorder.connect(1001));
    greeted(&ada);
    greeted(&bob);
    let of_ada = id(say(&ada, "decision", None, &decision(1000)));
    id(say(&bob, "grant", None, &grant(1001)));
    id(say(&ada, "result", Some(&of_ada), &result()));
    let own = |uid: u64| -> Vec<(u64, String)> {
        let lines = recorder.lines();
        let is_own = |it: &&Value| {
            let named = |pointer: &str| it.pointer(pointer).and_then(Value::as_u64) == Some(uid);
            named("/caller/uid") || named("/who/uid") || uid == 1000 && it["ref"] == *of_ada
        };
        let shown =
            |it: &Value| (it["seq"].as_u64().unwrap(), it["kind"].as_str().unwrap().to_owned());
        lines.iter().filter(is_own).map(shown).collect()
    };
    let kinds = |found: &[(u64, String)]| found.iter().map(|it| it.1.clone()).collect::<Vec<_>>();
    assert_eq!(reads(&ada), own(1000));
    assert_eq!(kinds(&own(1000)), ["decision", "result"]);
    assert_eq!(reads(&bob), own(1001));
    assert_eq!(kinds(&own(1001)), ["grant"]);
    // Somebody who remembers nothing of the decision finds it, and it is still not bob's.
    let other = Arc::new(Ledger::default());
    let (ours, theirs) = UnixStream::pair().unwrap();
    let log = recorder.log.clone();
    let user = User { uid: 1000, whose: Whose::Of(1000), known: None };
    std::thread::spawn(move || serve(&log, &other, &theirs, &user));
    greeted(&ours);
    send(&ours, &Asked::Begin(Start::Record(own(1000)[1].0))).unwrap();
    let Told::Begun(Begun { place, .. }) = receive(&ours).unwrap() else { panic!("a place") };
    send(&ours, &Asked::Read(place)).unwrap();
    let Told::Read(piece) = receive(&ours).unwrap() else { panic!("records") };
    assert_eq!(piece.records.len(), 1);
    // Nobody reads from the middle of a record, or from a segment that is not there.
    for wrong in
        [json(&place, |it| it["offset"] = 17.into()), json(&place, |it| it["segment"] = 9.into())]
    {
        send(&bob, &Asked::Read(wrong)).unwrap();
        let told: Told = receive(&bob).unwrap();
        match told {
            Told::Refused { .. } => {}
            Told::Read(piece) => assert!(piece.records.is_empty() && piece.is_end, "{piece:?}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Returns a place that is changed as somebody could who writes the messages.
fn json(place: &LogPosition, change: impl Fn(&mut Value)) -> LogPosition {
    let mut value = serde_json::to_value(place).unwrap();
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

#[test]
fn nobody_approves_for_another_and_no_approver_is_made_up() {
    let recorder = Recorder::new();
    let ask = |stream: &UnixStream, asked: Asked| -> Told {
        send(stream, &asked).unwrap();
        receive(stream).unwrap()
    };
    let ((ada, _), (bob, _), (cay, _)) =
        (recorder.connect(1000), recorder.connect(1001), recorder.connect(1002));
    for stream in [&ada, &bob, &cay] {
        greeted(stream);
    }
    let posted = |audience: &[u32], digest: &str| Posted {
        id: "1f".into(),
        digest: digest.into(),
        audience: audience.to_vec(),
        groups: vec![vec!["ops".into()], vec!["day".into(), "night".into()]],
        or_in: vec!["oncall".into()],
        question: "{}".into(),
    };
    let reply = |digest: &str| Asked::Reply {
        id: "1f".into(),
        digest: digest.into(),
        answer: "\"once\"".into(),
    };
    assert!(matches!(ask(&ada, Asked::Post(posted(&[1000, 1001], "d"))), Told::Done));
    // Neither who asks, nor who is not meant, nor about another question.
    cause(ask(&ada, reply("d")));
    cause(ask(&cay, reply("d")));
    cause(ask(&bob, reply("e")));
    assert!(matches!(ask(&cay, Asked::Posted), Told::Posted(shown) if shown.is_empty()));
    // Nobody takes it over, takes it down, or reads its answers.
    cause(ask(&cay, Asked::Post(posted(&[1002], "d"))));
    cause(ask(&ada, Asked::Post(posted(&[1001], "e"))));
    assert!(matches!(ask(&cay, Asked::Close("1f".into())), Told::Done));
    assert!(
        matches!(ask(&cay, Asked::Replies("1f".into())), Told::Replies(none) if none.is_empty())
    );
    let of_ada = id(say(&ada, "decision", None, &decision(1000)));
    let approval = |uid: u32| {
        format!(
            r#""answer":"allow","who":null,"channel":"approvals","waited_ms":1,"shown_hmac":"{}","scope":"once","question":"1f","approvers":[{{"uid":{uid},"name":"x"}}],"redacted":[]"#,
            crate::Redactor::new(crate::keys::RedactKey::new([7; 32])).unwrap().digest(b"ls")
        )
    };
    let told = cause(say(&ada, "approval", Some(&of_ada), &approval(1001)));
    assert_eq!(told, "it names a person who has not answered");
    assert!(matches!(ask(&bob, reply("d")), Told::Done));
    cause(say(&ada, "approval", Some(&of_ada), &approval(1002)));
    let written = say(&ada, "approval", Some(&of_ada), &approval(1001));
    assert!(matches!(written, Told::Written { .. }), "{written:?}");
    let Told::Replies(replies) = ask(&ada, Asked::Replies("1f".into())) else { panic!("answers") };
    assert_eq!(replies.iter().map(|it| it.uid).collect::<Vec<_>>(), [1001]);
    // A user whom no file names is known by the groups of which the keeper told.
    let known = |groups: &[&str]| {
        let groups = groups.iter().map(|it| (*it).to_owned()).collect();
        Some(Known { name: "dee".into(), groups })
    };
    for (groups, sees) in [
        (known(&["ops", "night"]), true),
        (known(&["oncall"]), true),
        (known(&["ops"]), false),
        (known(&["day", "night"]), false),
        (known(&[]), false),
        (None, false),
    ] {
        let (dee, _) = recorder.connect_as(1003, groups.clone());
        greeted(&dee);
        let Told::Posted(shown) = ask(&dee, Asked::Posted) else { panic!("questions") };
        assert_eq!(shown.len(), usize::from(sees), "{groups:?}");
        assert_eq!(matches!(ask(&dee, reply("d")), Told::Done), sees, "{groups:?}");
    }
    let Told::Replies(replies) = ask(&ada, Asked::Replies("1f".into())) else { panic!("answers") };
    let of_dee: Vec<_> = replies.into_iter().skip(1).map(|it| (it.uid, it.known)).collect();
    assert_eq!(of_dee, [(1003, known(&["ops", "night"])), (1003, known(&["oncall"]))]);
    // The question goes with the gateway that put it up.
    drop(ada);
    let gone = |told: Told| matches!(told, Told::Posted(shown) if shown.is_empty());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !gone(ask(&bob, Asked::Posted)) {
        assert!(std::time::Instant::now() < end, "the question stays");
        std::thread::yield_now();
    }
}
