//! No frame leads to "no opinion", unless its event is one at which nothing can run.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::Agent;
use super::frame::{Frame, read};
use super::table::{self, AgentRow};

/// Fields of the frames of all agents.
const FIELDS: [&str; 20] = [
    "hook_event_name",
    "hookEventName",
    "hookName",
    "agent_action_name",
    "tool_name",
    "toolName",
    "tool_input",
    "toolArgs",
    "toolInput",
    "toolResult",
    "tool_call",
    "tool_result",
    "command",
    "cwd",
    "workspaceRoots",
    "sessionId",
    "timestamp",
    "source",
    "reason",
    "stopReason",
];

/// Names of all events of all agents, and some of none.
fn events() -> Vec<String> {
    let rows = Agent::ALL.iter().map(|agent| table::row(agent.name()).unwrap());
    let names = rows.flat_map(|row| {
        let told = row.told.into_keys();
        row.events.into_iter().chain(row.others).chain(told).chain(row.unnamed.into_keys())
    });
    names.chain(["".into(), "pretooluse".into(), "other".into()]).collect()
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => prop::sample::select(events()).prop_map(Value::from),
        2 => Just(json!({ "command": "id" })),
        1 => Just(json!({ "name": "run_commands", "input": { "commands": ["id"] } })),
        1 => Just(json!("/p")),
        1 => Just(json!("bash")),
        1 => Just(json!("Bash")),
        1 => Just(json!(["PreToolUse"])),
        1 => Just(json!([{ "command": "id" }])),
        1 => Just(json!({})),
        1 => Just(Value::Null),
        1 => Just(json!(1)),
        1 => Just(json!(true)),
    ]
}

/// Fields that come together in the frames of one agent or another.
const FAMILIES: [&[&str]; 7] = [
    &["hook_event_name", "tool_name", "tool_input", "command"],
    &["toolName", "toolArgs", "toolResult"],
    &["hookName", "toolName", "toolInput"],
    &["hookName", "tool_call", "workspaceRoots"],
    &["hookEventName", "tool_name", "tool_input"],
    &["toolCall", "workspacePaths", "error"],
    &["agent_action_name", "tool_info"],
];

/// Most of the fields of one family and of those that all frames have, and a few others.
fn frame() -> impl Strategy<Value = Value> {
    let member = || (prop::sample::select(FIELDS.to_vec()), value());
    let family = prop::sample::select(FAMILIES.to_vec()).prop_flat_map(|family| {
        prop::sample::subsequence(family.to_vec(), 0..=family.len()).prop_flat_map(|fields| {
            let values = prop::collection::vec(value(), fields.len());
            values.prop_map(move |values| fields.iter().copied().zip(values).collect::<Vec<_>>())
        })
    });
    let others = prop::collection::vec(member(), 0..3);
    (family, others, any::<bool>(), 0..20_u8).prop_map(|(family, others, usual, kind)| {
        let usual = usual.then(|| [("cwd", json!("/p")), ("sessionId", json!("s"))]);
        let members = others.into_iter().chain(usual.into_iter().flatten()).chain(family);
        let object = members.map(|(key, value)| (key.to_owned(), value)).collect();
        if kind == 0 { json!([Value::Object(object)]) } else { Value::Object(object) }
    })
}

/// Says whether nothing can run at the event that a frame names, or has the shape of.
fn cannot_run(row: &AgentRow, members: &Map<String, Value>) -> bool {
    let known = |name: &str| row.others.iter().any(|it| it == name) || row.told.contains_key(name);
    let named: Vec<&Value> = row.named.iter().filter_map(|field| members.get(field)).collect();
    match named.as_slice() {
        [Value::String(name)] => known(name) && !row.events.contains(name),
        [] if !row.unnamed.is_empty() => {
            match (members.get("toolName"), members.get("toolResult")) {
                (Some(_), Some(Value::Object(_))) => true,
                (Some(_), _) => false,
                (None, _) => members.keys().all(|key| !key.contains("tool") && key != "command"),
            }
        }
        _ => false,
    }
}

static ROWS: LazyLock<Vec<(Agent, AgentRow)>> = LazyLock::new(|| {
    Agent::ALL.iter().map(|agent| (*agent, table::row(agent.name()).unwrap())).collect()
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn a_frame_is_passed_over_only_where_nothing_can_run(frame in frame()) {
        for (agent, row) in ROWS.iter() {
            match (read(*agent, row, frame.to_string().as_bytes()), &frame) {
                (Ok(Frame::Other | Frame::Told(_)), Value::Object(members)) => {
                    prop_assert!(cannot_run(row, members), "{agent:?}: {frame}");
                }
                (Ok(_), Value::Object(_)) | (Err(_), _) => {}
                (Ok(read), _) => prop_assert!(false, "{agent:?}: {frame}: {read:?}"),
            }
        }
    }
}
