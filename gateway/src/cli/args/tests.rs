//! Both ways of reading a command line.

use super::*;

#[test]
fn the_short_way_reads_as_the_whole_definition_does() {
    for line in [
        "run true",
        "run --no-daemon --state-dir d -- git push --force",
        "run --timeout 5 --for-agent true",
        "run",
        "check --jsonl",
        "check --tool Bash --input {} --json",
        "--json check true",
        "--quiet run --quiet true",
        "--no-daemon --state-dir d run true",
        "audit tail -n 3 --since -2h",
        "audit",
        "policy --json show",
        "hook claude --deadline 3s",
        "hook nobody",
        "shell -lc true",
        "--json shell --help",
        "agent run --help",
        "man run",
        "--version",
        "-V",
        "run --version",
        "--help",
        "run --help",
        "help run",
        "help",
        "rnu true",
        "--no-demon run",
        "-- run true",
        "",
    ] {
        let words: Vec<&str> = ["stockade"].into_iter().chain(line.split_whitespace()).collect();
        let shown = |result: Result<Arguments, clap::Error>| {
            result.map(|it| format!("{it:?}")).map_err(|error| error.to_string())
        };
        let whole = shown(Arguments::try_parse_from(&words));
        assert_eq!(shown(Arguments::read(&words)), whole, "{line}");
    }
}
