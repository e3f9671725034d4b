//! The manual says what the code does.

use stockade_parser::Reason;

#[test]
fn the_manual_lists_each_reason_with_its_help() {
    let manual = include_str!("../../../docs/internals/parser.md");
    let rows = manual
        .lines()
        .skip_while(|line| *line != "| code | meaning | what to write instead |")
        .skip(2);
    let listed: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    let expected: Vec<String> = Reason::ALL
        .iter()
        .map(|reason| format!("| `{}` | {} | {} |", reason.code(), reason.help(), reason.instead()))
        .collect();
    assert_eq!(listed, expected);
}
