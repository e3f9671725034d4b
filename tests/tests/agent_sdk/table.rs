//! Every method and every option of the packages, each tried once: what comes of it stands in this table and in the guide.

use serde_json::{Value, json};
use stockade_tests::{Place, root};

use super::{say, script, seen, seen_by_npm};

/// What comes of each, in order.
type Table = [(&'static str, Value)];

fn page() -> String {
    std::fs::read_to_string(root().join("docs/agent/sdk.md")).expect("the page")
}

/// Holds what was seen against the table, and the table against the guide.
fn compare(seen: &[Value], table: &Table, listed: bool) {
    let (untried, seen) = seen.split_first().expect("an answer");
    // A newer package may have more, which the guide does not know yet.
    println!("not tried: {untried}");
    let seen: Vec<(String, Value)> = seen
        .iter()
        .map(|it| (it[0].as_str().expect("a name").to_owned(), it[1].clone()))
        .collect();
    let page = page();
    for (name, expected) in table {
        let found = seen.iter().find(|it| it.0 == *name);
        let (_, outcome) = found.unwrap_or_else(|| panic!("`{name}` was not tried: {seen:?}"));
        match (expected.as_str(), outcome.as_str()) {
            (Some(expected), Some(outcome)) => {
                assert!(outcome.contains(expected), "{name}: {outcome}");
            }
            _ => assert_eq!(outcome, expected, "{name}"),
        }
        let short = name.split("_EXPERIMENTAL").next().unwrap_or(name);
        assert!(!listed || page.contains(&format!("`{short}`")), "the guide lacks `{short}`");
    }
    let names: Vec<&str> = table.iter().map(|it| it.0).collect();
    let more: Vec<&String> =
        seen.iter().map(|it| &it.0).filter(|it| !names.contains(&it.as_str())).collect();
    assert!(more.is_empty(), "without a row: {more:?}");
}

fn server() -> stockade_model_server::Server {
    let done = [say("done")];
    script(&vec![&done[..]; 90])
}

fn plugin(place: &Place) {
    place.write("home/plugin/.claude-plugin/plugin.json", r#"{"name":"guard"}"#);
}

#[test]
fn each_method_of_the_npm_package_is_tried_once() {
    let place = Place::new("sdk-npm-methods");
    let server = server();
    let test = "each_method_of_the_npm_package_is_tried_once";
    let Some(seen) = seen_by_npm(test, "methods", &place, &server) else { return };
    compare(&seen, &npm_methods(), true);
}

#[test]
fn each_option_of_the_npm_package_is_tried_once() {
    let place = Place::new("sdk-npm-options");
    plugin(&place);
    let server = server();
    let test = "each_option_of_the_npm_package_is_tried_once";
    let Some(seen) = seen_by_npm(test, "options", &place, &server) else { return };
    compare(&seen, &npm_options(), false);
}

#[test]
fn each_method_of_the_python_package_is_tried_once() {
    let place = Place::new("sdk-py-methods");
    let server = server();
    let test = "each_method_of_the_python_package_is_tried_once";
    let Some(seen) = seen(test, "methods", &place, &server) else { return };
    compare(&seen, &python_methods(), true);
}

#[test]
fn each_option_of_the_python_package_is_tried_once() {
    let place = Place::new("sdk-py-options");
    plugin(&place);
    let server = server();
    let test = "each_option_of_the_python_package_is_tried_once";
    let Some(seen) = seen(test, "choices", &place, &server) else { return };
    compare(&seen, &python_options(), false);
}

fn npm_methods() -> Vec<(&'static str, Value)> {
    Vec::new()
}

fn npm_options() -> Vec<(&'static str, Value)> {
    Vec::new()
}

fn python_methods() -> Vec<(&'static str, Value)> {
    Vec::new()
}

fn python_options() -> Vec<(&'static str, Value)> {
    vec![("model", json!(""))]
}
