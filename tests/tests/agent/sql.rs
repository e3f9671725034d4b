//! The `sql` tool: a database of the session, earlier sessions of the project, and rules as for every tool.

use serde_json::json;
use stockade_model_server::{Form, Turn};
use stockade_tests::Place;

use super::{call, result, run, say, script};

fn sql(id: &str, database: &str, query: &str) -> Turn {
    call(id, "sql", json!({ "database": database, "query": query }))
}

#[test]
fn statements_are_done_on_the_session_and_on_earlier_sessions_of_the_project() {
    let place = Place::new("ag-sql");
    let server = script(Form::Anthropic, &[&[say("the first answer")]]);
    run(&place, &server, &["-p", "about the blue door"]);
    // A session of another project, which this one must not see.
    let other = Place::new("ag-sql-other");
    let mut elsewhere = super::agent(&other, &server, Form::Anthropic, &["-p", "a private thing"]);
    let server = script(Form::Anthropic, &[&[say("a private answer")]]);
    elsewhere
        .env("XDG_STATE_HOME", place.root.join("state"))
        .env("ANTHROPIC_BASE_URL", server.url());
    assert!(elsewhere.output().expect("the agent starts").status.success());
    let server = script(
        Form::Anthropic,
        &[
            &[sql("a", "session", "CREATE TABLE t(name TEXT)")],
            &[sql("b", "session", "INSERT INTO t VALUES ('one'), ('two')")],
            &[sql("c", "session", "SELECT name FROM t ORDER BY name")],
            &[sql("d", "store", "SELECT user_message, assistant_response FROM turns")],
            &[sql(
                "e",
                "store",
                "SELECT content FROM search_index WHERE search_index MATCH 'blue'",
            )],
            &[sql("f", "store", "DELETE FROM turns")],
            &[sql("g", "session", "ATTACH '/tmp/x.db' AS x")],
            &[say("done")],
        ],
    );
    let output = run(&place, &server, &["-p", "look back"]);
    assert!(output.status.success(), "{}", super::text(&output.stderr));
    assert_eq!(result(&server, "b"), ("(0 rows, 2 changed)".into(), false));
    let names = "[\"name\"]\n[\"one\"]\n[\"two\"]\n(2 rows, 0 changed)";
    assert_eq!(result(&server, "c"), (names.into(), false));
    let turns = "[\"user_message\",\"assistant_response\"]\n[\"about the blue door\",\"the first answer\"]\n(1 rows, 0 changed)";
    let (seen, failed) = result(&server, "d");
    assert!(seen.starts_with("[\"user_message\"") && !failed, "{seen}");
    assert!(!seen.contains("private"), "{seen}");
    assert!(seen.contains(turns.lines().nth(1).expect("a row")), "{seen}");
    assert!(result(&server, "e").0.contains("about the blue door"));
    for refused in ["f", "g"] {
        let (error, failed) = result(&server, refused);
        assert!(failed && error.contains("is not allowed here"), "{error}");
    }
}

#[test]
fn a_rule_denies_the_tool() {
    let place = Place::new("ag-sql-deny");
    let settings = json!({ "permissions": { "deny": ["sql"] } }).to_string();
    let server =
        script(Form::Anthropic, &[&[sql("a", "session", "CREATE TABLE t(a)")], &[say("done")]]);
    run(&place, &server, &["-p", "go", "--settings", &settings]);
    let (error, failed) = result(&server, "a");
    assert!(failed && error.contains("sql"), "{error}");
    let mut find = std::process::Command::new("find");
    let found = find.arg(&place.root).args(["-name", "session.db"]).output().expect("find starts");
    assert_eq!(super::text(&found.stdout), "");
}
