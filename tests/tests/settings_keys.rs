//! The table of settings keys: its schema, its page, and what the reader of settings says to each key.

use serde_json::{Value, json};
use stockade_tests::{Place, root};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn schema(place: &Place) -> Value {
    let output = place.output(["settings", "schema"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A value of the kind that a schema describes.
fn sample(schema: &Value, key: &str) -> Value {
    if let Some(properties) = schema["properties"].as_object() {
        let members = properties.iter().map(|(name, inner)| (name.clone(), sample(inner, name)));
        return Value::Object(members.collect());
    }
    match (schema["type"].as_str(), key) {
        (_, "import") => json!(["claude-code"]),
        (_, "profile" | "default") => json!("network"),
        (_, "shell") => json!("/bin/bash"),
        (_, "whenOutputIsFull" | "whenTimeIsUp") => json!("stop"),
        (_, "disableAutoMode" | "disableBypassPermissionsMode") => json!("disable"),
        (_, "env") if schema["additionalProperties"].is_object() => json!({"A": "b"}),
        (_, "defaultMode") => json!("default"),
        (_, "allow") => json!(["Bash(echo:*)"]),
        (_, "ask" | "deny") => json!(["Bash(touch:*)"]),
        (_, "allowedHttpHookUrls") => json!(["https://a.example/*"]),
        (Some("boolean"), _) => json!(true),
        (Some("integer"), _) => json!(60),
        (Some("array"), _) => json!([]),
        (Some("string"), _) => json!("x"),
        (Some("object"), _) => json!({}),
        _ if schema["type"].is_array() => json!("1GiB"),
        _ => json!([]),
    }
}

#[test]
fn the_page_of_settings_is_the_one_of_the_table() {
    let place = Place::new("settings-page");
    let output = place.output(["settings", "page"]);
    let page =
        std::fs::read_to_string(root().join("docs/reference/settings.md")).expect("the page");
    assert_eq!(
        text(&output.stdout),
        page,
        "run: stockade settings page > docs/reference/settings.md"
    );
}

#[test]
fn every_key_of_the_schema_has_a_text_and_is_read() {
    let place = Place::new("settings-keys");
    let schema = schema(&place);
    let mut waiting = vec![&schema];
    let mut described = 0;
    while let Some(next) = waiting.pop() {
        let properties = next["properties"].as_object().into_iter().flatten();
        for (name, inner) in properties {
            let is_leaf =
                inner.get("properties").is_none() && inner.get("additionalProperties").is_none();
            if is_leaf {
                assert!(
                    inner["description"].as_str().is_some_and(|it| it.ends_with('.')),
                    "{name}"
                );
                described += 1;
            }
            waiting.push(inner);
        }
    }
    assert!(described > 45, "{described}");
    let mut settings = sample(&schema, "");
    let told = |settings: &Value| {
        place.write("home/.config/stockade/settings.json", &settings.to_string());
        let output = place.output(["policy", "lint"]);
        format!("{}{}", text(&output.stdout), text(&output.stderr))
    };
    let odd = |told: &str| told.contains("unknown key") || told.contains("has no effect");
    let first = told(&settings);
    assert!(!odd(&first) && !first.contains("rejected"), "{first}");
    settings["sandbox"]["failIfUnavaliable"] = json!(true);
    assert!(odd(&told(&settings)), "a key that is not in the table is reported");
}

#[test]
fn comments_in_our_files_are_read_and_kept() {
    let place = Place::new("settings-comments");
    let user = "// rules of mine\n{\n  \"permissions\": {\n    \"deny\": [\"Bash(touch:*)\"] // no files\n  }\n}\n";
    place.write("home/.config/stockade/settings.json", user);
    assert_eq!(place.output(["check", "touch a"]).status.code(), Some(120));
    let trailing = "{\"permissions\": {\"deny\": [\"Bash(touch:*)\",]}}";
    place.write("home/.config/stockade/settings.json", trailing);
    assert_eq!(place.output(["check", "touch a"]).status.code(), Some(122), "a trailing comma");
    place.write("home/.config/stockade/settings.json", "{\"import\": [\"claude-code\"]}");
    // Files of the other product stay plain JSON.
    place.write("home/.claude/settings.json", user);
    assert_eq!(place.output(["check", "touch a"]).status.code(), Some(122), "a comment there");
    std::fs::remove_file(place.root.join("home/.claude/settings.json")).expect("it");
    for rule in ["Bash(touch:*)", "Bash(rm:*)"] {
        assert_eq!(place.output(["block", rule]).status.code(), Some(0), "{rule}");
    }
    let file = "project/.stockade/settings.local.json";
    let held = std::fs::read_to_string(place.root.join(file)).expect("it");
    assert!(held.contains("Bash(touch:*)") && held.contains("Bash(rm:*)"), "{held}");
}
