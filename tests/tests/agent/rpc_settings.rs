//! Settings of a session that a server has open: they are read, and tightened, and never loosened by any name.

use serde_json::{Value, json};
use stockade_model_server::Form;
use stockade_tests::Place;

use super::rpc::{Client, is_result, serve, write};
use super::{call, say, script};

/// Changes that would loosen something, by their keys, by others, or in other forms.
fn loosening() -> Vec<(&'static str, Value)> {
    vec![
        ("permissions.allow", json!(["Write"])),
        ("permissions", json!({ "allow": ["Write"] })),
        ("permissions.deny", json!("Write")),
        ("permissions.deny", json!({ "0": "Write" })),
        ("Permissions.Deny", json!(["Write"])),
        ("permissions.deny.", json!(["Write"])),
        ("permissions..deny", json!(["Write"])),
        ("permissions.defaultMode", json!("bypassPermissions")),
        ("permissions.additionalDirectories", json!(["/"])),
        ("permissions.disableBypassPermissionsMode", json!("enable")),
        ("sandbox", json!({ "enabled": false })),
        ("sandbox.enabled", json!(false)),
        ("sandbox.enabled", json!("false")),
        ("sandbox.allowUnsandboxedCommands", json!(true)),
        ("sandbox.network.allowedDomains", json!(["*"])),
        ("sandbox.filesystem.allowWrite", json!(["/"])),
        ("sandbox.filesystem.disabled", json!(true)),
        ("sandbox.excludedCommands", json!(["*"])),
        ("disableAllHooks", json!(true)),
        ("hooks", json!({})),
        ("env", json!({ "A": "b" })),
        ("agent", json!({ "confine": false })),
        ("$schema", json!("x")),
        ("", json!({ "permissions": { "allow": ["Write"] } })),
        ("permissions.deny\u{0}", json!(["Write"])),
    ]
}

#[test]
fn settings_are_told_and_tightened_for_all_clients_and_never_loosened() {
    let place = Place::new("ag-rpc-set");
    place.write(
        "home/.config/stockade/settings.json",
        r#"{ "permissions": { "ask": ["Bash(id:*)"] } }"#,
    );
    let turns = [write("a"), call("b", "Bash", json!({ "command": "true" }))];
    let model = script(Form::Anthropic, &[&turns, &[say("done")], &[write("c")], &[say("done")]]);
    let serving = serve(&place, &model, &[]);
    let [mut one, mut two] = [(); 2].map(|()| Client::connect(&serving.1));
    let id = one.ask("session.create", json!({ "cwd": place.project() }))["result"]["id"].clone();
    two.ask("session.subscribe", json!({ "id": id }));
    let all = one.ask("session.settings.list", json!({ "id": id }))["result"]["settings"].clone();
    let keys: Vec<&str> =
        all.as_array().expect("a list").iter().filter_map(|it| it["key"].as_str()).collect();
    assert_eq!(keys.len(), 18, "{keys:?}");
    for (key, value) in loosening() {
        let told =
            one.ask("session.settings.toggle", json!({ "id": id, "key": key, "value": value }));
        assert_eq!(told["error"]["code"], -32_602, "{key}: {told}");
    }
    let after = one.ask("settings.list", json!({ "id": id }))["result"]["settings"].clone();
    assert_eq!(after, all);
    // The rule counts for the next call, and the one that stood before stays.
    let deny = json!({ "id": id, "key": "permissions.deny", "value": ["Write"] });
    let told = one.ask("session.settings.toggle", deny.clone());
    assert_eq!(told["result"], json!({ "keys": ["permissions.deny"] }), "{told}");
    for client in [&mut one, &mut two] {
        let changed = client.until(|it| it["method"] == "settings.changed");
        assert_eq!(changed["params"], json!({ "session": id, "keys": ["permissions.deny"] }));
    }
    assert!(one.ask("settings.toggle", deny)["result"].is_object(), "twice is no fault");
    let enabled =
        one.ask("settings.toggle", json!({ "id": id, "key": "sandbox.failIfUnavailable" }));
    assert_eq!(enabled["result"]["keys"], json!(["sandbox.failIfUnavailable"]), "{enabled}");
    let get = |client: &mut Client, key: &str| {
        client.ask("session.settings.get", json!({ "id": id, "key": key }))["result"].clone()
    };
    let host =
        |value: Value| json!({ "layer": "policy", "file": "<--managed-settings>", "value": value });
    assert_eq!(
        get(&mut two, "permissions.deny"),
        json!({ "key": "permissions.deny", "tightens": null, "set": [host(json!(["Write"]))] })
    );
    assert_eq!(get(&mut two, "sandbox.failIfUnavailable")["set"][0], host(json!(true)));
    let asks = get(&mut two, "permissions.ask")["set"][0].clone();
    assert_eq!(
        (&asks["layer"], &asks["value"]),
        (&json!("user"), &json!(["Bash(id:*)"])),
        "{asks}"
    );
    one.ask("session.send", json!({ "id": id, "text": "go" }));
    // The write is refused without a question; the command is the only one that may ask.
    loop {
        let next = one.until(|it| is_result(it) || it["method"] == "session.question");
        if is_result(&next) {
            break;
        }
        assert_eq!(next["params"]["request"]["tool_name"], "Bash", "{next}");
        let question = next["params"]["question"].clone();
        one.seen.clear();
        one.ask("session.answer", json!({ "id": id, "question": question, "behavior": "allow" }));
    }
    assert!(!place.project().join("a.txt").exists());
    let (told, is_error) = super::result(&model, "a");
    assert!(is_error && told.contains("denied") && told.contains("<--managed-settings>"), "{told}");
    // Another session is not touched by it, and a yes counts there.
    let other =
        one.ask("session.create", json!({ "cwd": place.project() }))["result"]["id"].clone();
    one.seen.clear();
    one.ask("session.send", json!({ "id": other, "text": "go" }));
    let asked = one.until(|it| it["method"] == "session.question");
    assert_eq!(asked["params"]["session"], other);
    one.ask(
        "session.answer",
        json!({ "id": other, "question": asked["params"]["question"], "behavior": "allow" }),
    );
    one.until(is_result);
    assert!(place.project().join("c.txt").exists());
}
