//! Sessions on disk: the log as the truth, names, and what is cut, foreign, in use or gone.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use stockade_session::{
    Error, Event, Here, Kind, Log, Named, Nearness, Removal, State, Store, Workspace, read, steps,
};

fn kinds() -> impl Strategy<Value = (Kind, Value)> {
    let word = "[a-c]{1,2}";
    prop_oneof![
        word.prop_map(|it| (Kind::User, json!({ "uuid": it, "content": it }))),
        word.prop_map(|it| (
            Kind::Assistant,
            json!({ "uuid": it, "content": [{ "type": "text", "text": it }] })
        )),
        word.prop_map(|it| (Kind::Compaction, json!({ "uuid": it, "content": it }))),
        word.prop_map(|it| (
            Kind::User,
            json!({ "content": [{ "type": "tool_result", "tool_use_id": it, "content": "long" }] })
        )),
        word.prop_map(|it| (Kind::TakenOut, json!({ "results": { it: "short" } }))),
        word.prop_map(|it| (Kind::Rewind, json!({ "uuid": it }))),
        word.prop_map(|it| (Kind::Rewind, json!({ "before": it, "files": true }))),
        word.prop_map(|it| (
            Kind::Changed,
            json!({ "path": it, "before": null, "after": it, "seen": 9 })
        )),
        word.prop_map(|it| (Kind::Mode, json!({ "mode": it }))),
        word.prop_map(|it| (Kind::Name, json!({ "name": it }))),
        word.prop_map(|it| (Kind::Todos, json!({ "todos": [it] }))),
        (0_u32..9).prop_map(|it| (Kind::Usage, json!({ "dollars": it }))),
        word.prop_map(|it| (Kind::Other(format!("later.{it}")), json!({ "x": it }))),
        Just((Kind::User, Value::Null)),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let start = Event::now(None, Kind::Start, json!({ "session": "s", "cwd": "/p" }));
    prop::collection::vec(kinds(), 0..30).prop_map(move |rest| {
        let rest = rest.into_iter().map(|(kind, data)| Event::now(None, kind, data));
        std::iter::once(start.clone()).chain(rest).collect()
    })
}

proptest! {
    #[test]
    fn a_prefix_and_the_rest_come_to_the_same_as_all(events in events(), cut in 0_usize..31) {
        let (prefix, rest) = events.split_at(cut.min(events.len()));
        let mut state = State::of(prefix);
        rest.iter().for_each(|event| state.apply(event));
        prop_assert_eq!(state, State::of(&events));
    }

    #[test]
    fn what_is_written_is_what_is_read(events in events()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let (mut log, _) = Log::open(&path).unwrap();
        let written: Vec<Event> =
            events.into_iter().map(|it| log.append(it.kind, it.data).unwrap()).collect();
        let found = read(&path).unwrap();
        prop_assert_eq!((found.events, found.notes), (written, vec![]));
    }
}

/// A session with a message, and its store.
fn store(folder: &Path) -> Store {
    Store::new(folder.join("sessions"))
}

fn begin(store: &Store, id: &str, words: &str) {
    let (_lock, mut log, _) = store.open(id).expect("a session");
    log.append(Kind::Start, json!({ "session": id, "cwd": "/p" })).expect("an event");
    log.append(Kind::User, json!({ "uuid": format!("{id}-1"), "content": words }))
        .expect("an event");
}

#[test]
fn a_log_that_is_cut_at_any_byte_of_its_last_line_goes_on_behind_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    begin(&store, "a", "first words");
    let path = Store::log(&store.folder("a").unwrap());
    let before = std::fs::metadata(&path).unwrap().len();
    let (_, mut log, _) = store.open("a").unwrap();
    log.append(Kind::User, json!({ "uuid": "last", "content": "é words \u{1f600} that are cut" }))
        .unwrap();
    drop(log);
    let whole = std::fs::read(&path).unwrap();
    for cut in usize::try_from(before).unwrap()..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let found = read(&path).unwrap();
        let notes = usize::from(cut > usize::try_from(before).unwrap());
        assert_eq!(
            (found.events.len(), found.notes.len(), found.whole),
            (2, notes, before),
            "{cut}"
        );
        let (_lock, mut log, state) = store.open("a").unwrap();
        assert_eq!(state.messages.len(), 1, "{cut}");
        log.append(Kind::User, json!({ "uuid": "more", "content": "more" })).unwrap();
        let found = read(&path).unwrap();
        assert_eq!((found.events.len(), found.notes), (3, vec![]), "{cut}");
    }
}

#[test]
fn bad_lines_are_skipped_and_later_or_foreign_logs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    begin(&store, "a", "words");
    let path = Store::log(&store.folder("a").unwrap());
    let whole = std::fs::read_to_string(&path).unwrap();
    let (first, second) = whole.split_once('\n').unwrap();
    std::fs::write(&path, format!("{first}\nno event\n{{\"v\":1}}\n{second}")).unwrap();
    let found = read(&path).unwrap();
    assert_eq!(found.events.len(), 2);
    let told = ["line 2 is not an event and is skipped", "line 3 is not an event and is skipped"];
    assert_eq!(found.notes, told);
    std::fs::write(&path, second).unwrap();
    assert!(matches!(read(&path), Err(Error::NoLog { .. })));
    std::fs::write(&path, format!("{first}\n{{\"v\":2,\"new\":true}}\n")).unwrap();
    assert!(matches!(read(&path), Err(Error::Later { version: 2, .. })));
    assert!(matches!(store.open("a"), Err(Error::Later { .. })));
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"new\":true"), "it was changed");
}

#[test]
fn a_session_is_found_by_identity_prefix_and_name_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    for id in ["aa-1", "aa-2", "bb-1"] {
        begin(&store, id, id);
    }
    let id = |wanted: &str| store.find(wanted).map(|found| found.id).map_err(|it| it.to_string());
    assert_eq!(id("aa-1"), Ok("aa-1".into()));
    assert_eq!(id("b"), Ok("bb-1".into()));
    assert!(id("aa").unwrap_err().contains("several sessions are called `aa`"));
    for unknown in ["c", "", "../sessions/aa-1", "/", "aa-1/"] {
        assert!(id(unknown).unwrap_err().starts_with("No conversation found"), "{unknown}");
    }
    store.rename(&store.find("bb-1").unwrap(), "My Task").unwrap();
    assert_eq!(id("my task"), Ok("bb-1".into()));
    store.rename(&store.find("aa-1").unwrap(), "my task").unwrap();
    assert!(id("My task").unwrap_err().contains("several"));
    for name in ["", "a\nb", "\u{1b}[2J", &"x".repeat(101)] {
        assert!(store.rename(&store.find("aa-1").unwrap(), name).is_err(), "{name:?}");
    }
    let (state, _) = store.state(&store.find("bb-1").unwrap()).unwrap();
    assert_eq!((state.name.as_deref(), state.first_words().as_str()), (Some("My Task"), "bb-1"));
}

#[test]
fn the_nearest_session_goes_on_and_old_ones_go() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    for (id, cwd) in [("a", "/p"), ("b", "/q"), ("c", "/q")] {
        begin(&store, id, id);
        let mut workspace = Workspace { id: id.into(), cwd: cwd.into(), ..Workspace::default() };
        workspace.write(&store.folder(id).unwrap()).unwrap();
        let log =
            std::fs::File::options().append(true).open(Store::log(&store.folder(id).unwrap()));
        let age = Duration::from_secs(if id == "c" { 7_200 } else { 60 });
        log.unwrap().set_modified(std::time::SystemTime::now() - age).unwrap();
    }
    let here = |cwd: &str| Here { cwd: cwd.into(), ..Here::default() };
    let nearest = |cwd: &str| store.nearest(&here(cwd)).map(|(near, found)| (near, found.id));
    assert_eq!(nearest("/q"), Some((Nearness::Directory, "b".into())));
    assert_eq!(nearest("/p"), Some((Nearness::Directory, "a".into())));
    let hour = Duration::from_secs(3_600);
    let ids = |removal| {
        let pruned = store.prune(hour, Named::Stay, removal).unwrap();
        pruned.sessions.into_iter().map(|found| found.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(Removal::Preview), ["c"]);
    assert_eq!(store.list().len(), 3);
    let (lock, _, _) = store.open("c").unwrap();
    let busy = store.prune(hour, Named::Stay, Removal::Apply).unwrap();
    assert_eq!((busy.sessions.len(), busy.in_use), (0, vec!["c".to_owned()]));
    drop(lock);
    store.rename(&store.find("c").unwrap(), "keep").unwrap();
    assert_eq!(
        store.prune(Duration::ZERO, Named::Stay, Removal::Preview).unwrap().sessions.len(),
        2
    );
    store.delete(&store.find("a").unwrap()).unwrap();
    assert!(store.find("a").is_err() && store.list().len() == 2);
}

#[test]
fn a_compaction_takes_the_place_of_all_before_and_lines_that_of_results() {
    let result =
        |id: &str| json!([{ "type": "tool_result", "tool_use_id": id, "content": "long" }]);
    let event = |kind, data| Event::now(None, kind, data);
    let mut events = vec![
        event(Kind::Start, json!({ "session": "s" })),
        event(Kind::User, json!({ "uuid": "1", "content": "go" })),
        event(Kind::User, json!({ "uuid": "2", "content": result("a") })),
        event(Kind::User, json!({ "uuid": "3", "content": result("b") })),
        event(Kind::TakenOut, json!({ "results": { "a": "short" } })),
    ];
    let contents = |events: &[Event]| {
        State::of(events).messages.into_iter().map(|said| said.content).collect::<Vec<_>>()
    };
    let short = json!([{ "type": "tool_result", "tool_use_id": "a", "content": "short" }]);
    assert_eq!(contents(&events), [json!("go"), short, result("b")]);
    events.push(event(Kind::Compaction, json!({ "uuid": "4", "content": "all of it" })));
    events.push(event(Kind::User, json!({ "uuid": "5", "content": "more" })));
    assert_eq!(contents(&events), [json!("all of it"), json!("more")]);
}

#[test]
fn files_go_back_to_a_message_in_one_step_each() {
    let event = |kind, data| Event::now(None, kind, data);
    let user = |uuid: &str| event(Kind::User, json!({ "uuid": uuid, "content": uuid }));
    let change = |path: &str, before: Value, after: Value| {
        event(
            Kind::Changed,
            json!({ "path": path, "before": before, "mode": 420, "after": after, "seen": 1 }),
        )
    };
    let mut events = vec![
        event(Kind::Start, json!({ "session": "s" })),
        user("1"),
        change("/a", json!("A"), json!("B")),
        user("2"),
        change("/a", json!("B"), json!("C")),
        change("/new", Value::Null, json!("N")),
        change("/b", json!("X"), json!("Y")),
        change("/b", json!("Z"), json!("W")),
        change("/gone", json!("G"), json!("H")),
        change("/gone", json!("H"), json!("G")),
    ];
    let told = |events: &[Event], uuid: &str| {
        let steps = steps(&State::of(events), uuid).unwrap();
        let line = |step: stockade_session::Step| {
            let change = step.change;
            (change.path, change.before, change.after, step.is_foreign)
        };
        steps.into_iter().map(line).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    let new = ("/new".to_owned(), None, some("N"), false);
    let other = ("/b".to_owned(), some("X"), some("W"), true);
    let both = [("/a".to_owned(), some("A"), some("C"), false), other.clone(), new.clone()];
    assert_eq!(told(&events, "1"), both);
    assert_eq!(told(&events, "2"), [("/a".to_owned(), some("B"), some("C"), false), other, new]);
    assert!(matches!(steps(&State::of(&events), "3"), Err(Error::NoMessage(_))));
    events
        .push(event(Kind::Rewind, json!({ "before": "2", "conversation": false, "files": true })));
    assert_eq!(told(&events, "2"), []);
    assert_eq!(State::of(&events).messages.len(), 2);
    events.push(event(Kind::Rewind, json!({ "before": "2", "files": true })));
    let state = State::of(&events);
    assert_eq!((state.messages.len(), state.marks.len(), state.changes.len()), (1, 1, 1));
}

#[test]
fn a_log_that_is_exchanged_while_it_is_open_takes_no_more_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("sessions"));
    let (_lock, mut log, _) = store.open("a").unwrap();
    log.append(Kind::Start, json!({ "session": "a", "cwd": "/p" })).unwrap();
    let path = Store::log(&store.folder("a").unwrap());
    let (aside, other) = (folder.path().join("aside"), folder.path().join("other"));
    std::fs::write(&other, "{}\n").unwrap();
    std::fs::rename(&path, &aside).unwrap();
    let exchanges: [&dyn Fn(); 3] =
        [&|| {}, &|| assert_eq!(std::fs::copy(&other, &path).unwrap(), 3), &|| {
            std::os::unix::fs::symlink(&aside, &path).unwrap()
        }];
    for exchange in exchanges {
        exchange();
        let error = log.append(Kind::User, json!({ "uuid": "1", "content": "words" })).unwrap_err();
        assert!(matches!(error, Error::Replaced { .. }), "{error}");
        let _ = std::fs::remove_file(&path); // there is none at first
    }
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "{}\n");
    // With the log at its place the same event goes into it.
    std::fs::rename(&aside, &path).unwrap();
    log.append(Kind::User, json!({ "uuid": "1", "content": "words" })).unwrap();
    let kinds: Vec<_> = read(&path).unwrap().events.into_iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Kind::Start, Kind::User]);
}
