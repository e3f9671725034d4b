//! Every row is loaded; the examples of each are read in the parser.

use super::*;

/// Returns the rows of the built-in tables; a row that cannot be read fails the test.
fn rows() -> Vec<(&'static str, &'static Row)> {
    let programs = Programs::builtin();
    let files = ["wrappers", "evaluators", "effects", "read_only"];
    let (mut rows, mut wrong) = (Vec::new(), String::new());
    for (loaded, file) in programs.tables.iter().zip(files) {
        for number in 0..loaded.rows.len() {
            match loaded.row(number) {
                Some(Ok(row)) => rows.push((file, row)),
                other => {
                    wrong += &format!(
                        "policies/commands/{file}.jsonc: {:?}\n",
                        other.map(|row| row.as_ref().err())
                    )
                }
            }
        }
    }
    assert!(wrong.is_empty(), "rows that cannot be read:\n{wrong}");
    rows
}

#[test]
fn the_places_are_those_of_the_tables() {
    for (text, places) in BUILTIN.iter().zip(&places::PLACES) {
        assert_eq!(index::Places::find(text).as_ref(), Ok(places));
    }
}

#[test]
fn a_row_without_its_examples_is_the_same() {
    for text in BUILTIN {
        let whole = Loaded::of(Table::new(text.into()).unwrap(), Examples::Read);
        let lean = Loaded::of(Table::new(text.into()).unwrap(), Examples::Skipped);
        for number in 0..whole.rows.len() {
            let read = |loaded: &Loaded| {
                let row = loaded.row(number).unwrap().as_ref().unwrap();
                format!("{:?}", Row { tests: Vec::new(), ..row.clone() })
            };
            assert_eq!(read(&lean), read(&whole));
        }
    }
}

#[test]
fn no_program_has_two_rows() {
    let mut names: Vec<&str> = Programs::builtin().names().collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert_eq!(twice, Vec::<&[&str]>::new());
}

/// Returns the options of a body and of its sub-commands that stand there twice.
fn twice(body: &row::Body) -> Vec<String> {
    let mut names: Vec<&String> = body.options.iter().flat_map(|option| &option.names).collect();
    names.sort_unstable();
    let pairs = names.windows(2).filter(|pair| pair[0] == pair[1]);
    let here = pairs.map(|pair| pair[0].clone());
    here.chain(body.commands.iter().flat_map(|(_, inner)| twice(inner))).collect()
}

#[test]
fn no_option_stands_twice_in_a_row() {
    let wrong: Vec<_> = rows()
        .into_iter()
        .map(|(_, row)| (row.name.as_str(), twice(&row.body)))
        .filter(|(_, names)| !names.is_empty())
        .collect();
    assert_eq!(wrong, Vec::new());
}

/// Returns the sub-commands of a pure row that have an option which does more.
fn impure(name: &str, body: &row::Body) -> Vec<String> {
    let mut danger = row::Danger::default();
    body.options.iter().flat_map(|option| &option.slots).for_each(|slot| slot.add_to(&mut danger));
    let here = body.pure && danger.kinds().next().is_some();
    let inner = body.commands.iter();
    let below = inner.flat_map(|(names, inner)| impure(&format!("{name} {}", names[0]), inner));
    here.then(|| name.to_owned()).into_iter().chain(below).collect()
}

#[test]
fn no_option_of_a_pure_row_does_more() {
    let wrong: Vec<_> = rows().iter().flat_map(|(_, row)| impure(&row.name, &row.body)).collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn errors_have_their_line() {
    let check = |text: &str, line: u32, message: &str| {
        let expected = TableError { line, message: message.into() };
        assert_eq!(Programs::from_text(text).err(), Some(expected), "{text}");
    };
    let table = |rows: &str| format!("{{\n  \"rows\": [\n{rows}\n  ]\n}}\n");
    check("[]", 1, "this line does not follow the layout of a table");
    check("{\n", 2, "the table has no end");
    check(&table("    { \"flags\": [] }"), 3, "this line does not follow the layout of a table");
    check(&table("    { \"names\": [a] }"), 3, "a row begins with its names");
    check(&table("    { \"names\": [\"a\"] }"), 3, "a row needs a `source`");
    let row = |rest: &str| {
        let start = "    { \"names\": [\"a\"], \"source\": \"s\", \"tests\": { \"a\": \"\" },";
        table(&format!("{start}\n      {rest} }}"))
    };
    check(&row("\"flag\": []"), 4, "`flag` is not a key of a row");
    check(&row("\"values\": {\"-a\": \"shell\"}"), 4, "`shell` is not a slot");
    check(&row("\"options\": \"x\""), 4, "`x` is not an option grammar");
    check(&row("\"strip\": 1"), 4, "`strip` is `true`, `false` or `without-options`");
    check(&row("\"flags\": [}"), 4, "expected a value");
    let twice = row("\"flags\": []").replace("[\"a\"]", "[\"a\", \"b\", \"a\"]");
    check(&twice, 3, "`a` has two rows");
    assert!(Programs::from_text(&row("\"flags\": [\"-a\"]")).is_ok());
}

#[test]
fn a_broken_table_makes_every_command_doubtful() {
    let broken = Programs { tables: Vec::new(), broken: true };
    assert!(matches!(broken.look_up(b"ls"), Lookup::Broken));
    assert!(matches!(Programs::default().look_up(b"ls"), Lookup::None));
}

#[test]
fn tables_can_be_put_in_front() {
    let row = "    { \"names\": [\"ls\"], \"source\": \"s\", \"tests\": { \"ls\": \"\" } }";
    let own = format!("{{\n  \"rows\": [\n{row}\n  ]\n}}\n");
    let own = Programs::from_text(&own).unwrap();
    let both = Programs::builtin().preceded_by(&own);
    assert!(matches!(both.look_up(b"ls"), Lookup::Row(row) if !row.body.read_only));
    assert!(matches!(both.look_up(b"env"), Lookup::Row(_)));
}
