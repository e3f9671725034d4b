//! Cost of a decision with few and with many rules, and of loading the rules.
//!
//! `cargo bench -p stockade-policy`

#![allow(missing_docs, reason = "the macro makes a function without documentation")]
#![allow(clippy::expect_used, reason = "a bench fails by panicking, and does not ship")]

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use stockade_parser::{CommandTree, Limits, Node, NodeKind, Programs, StartState, Witness, parse};
use stockade_policy::{
    Call, Facts, Layer, Mode, Rules, SandboxState, SettingsText, evaluate, load,
};
use stockade_text::json::{Dialect, read};

/// Commands of plain words: an allowed one, one that no rule covers, a read-only one, one with files.
const COMMANDS: [&str; 4] =
    ["program77 run build", "unknown --all", "git status --short", "cp notes.txt out/a.txt"];

/// Half allow rules; half refuse, a third each of commands, of files read and of files written.
fn settings(count: usize) -> String {
    let refused = |index: usize| match index % 3 {
        0 => format!("\"Bash(tool{index} run:*)\""),
        1 => format!("\"Read(secret{index}/**)\""),
        _ => format!("\"Edit(/locked/{index}/*.txt)\""),
    };
    let allowed = |index: usize| format!("\"Bash(program{index} *)\"");
    let list =
        |rule: &dyn Fn(usize) -> String| (0..count / 2).map(rule).collect::<Vec<_>>().join(",\n");
    let (allow, deny) = (list(&allowed), list(&refused));
    format!("{{\"permissions\":{{\"allow\":[{allow}],\"deny\":[{deny}]}}}}")
}

fn texts(count: usize) -> Vec<SettingsText> {
    vec![SettingsText {
        layer: Layer::User,
        file: "settings.json".into(),
        text: settings(count).into_bytes(),
        anchor: "/home/dev".into(),
        trusted: true,
        above: false,
    }]
}

fn rules(count: usize) -> Rules {
    load(&texts(count)).rules
}

/// Reads a text of plain words, with what a witness sees in such a text.
fn tree(text: &str) -> CommandTree {
    let draft =
        parse(text.as_bytes(), &StartState::default(), Programs::builtin(), &Limits::default());
    let length = u32::try_from(text.len()).expect("a short text");
    let node = |kind: &str, start: u32, end: u32, depth: u16| Node {
        kind: NodeKind::named(kind),
        start,
        end,
        depth: depth.into(),
        broken: false,
    };
    let mut nodes = vec![node("program", 0, length, 0), node("command", 0, length, 1)];
    let mut at = 0;
    for (index, word) in text.split(' ').enumerate() {
        let (start, end) = (at, at + u32::try_from(word.len()).expect("a short word"));
        if index == 0 {
            nodes.push(node("command_name", start, end, 2));
        }
        nodes.push(node("word", start, end, if index == 0 { 3 } else { 2 }));
        at = end + 1;
    }
    let tree = draft.confirm(&[Witness::Nodes(nodes)]);
    assert!(
        tree.opaque_spans().is_empty(),
        "`{text}` is not understood: {:?}",
        tree.opaque_spans()
    );
    tree
}

fn facts() -> Facts {
    Facts {
        cwd: "/home/dev/proj".into(),
        session: None,
        home: "/home/dev".into(),
        homes: Vec::new(),
        roots: Vec::new(),
        project: "/home/dev/proj".into(),
        additional_directories: Vec::new(),
        real_paths: BTreeMap::new(),
        expanded: BTreeMap::new(),
        repositories: BTreeMap::new(),
        brought: Default::default(),
        asked: Vec::new(),
        mode: Mode::Default,
        interactive: true,
        root: false,
        sandbox: SandboxState::Off,
        terminal: false,
        hook: None,
        doubts: Default::default(),
    }
}

fn decide(criterion: &mut Criterion) {
    let facts = facts();
    let mut group = criterion.benchmark_group("decide");
    for count in [10, 1_000, 10_000, 100_000] {
        let rules = rules(count);
        for command in COMMANDS {
            let tree = tree(command);
            let input = format!("{{\"command\":\"{command}\"}}");
            let input = read(input.as_bytes(), Dialect::Strict).expect("JSON");
            let call = Call::Bash { tree: &tree, input: &input };
            group.bench_with_input(BenchmarkId::new(command, count), &call, |bencher, call| {
                bencher.iter(|| black_box(evaluate(&rules, call, &facts).decision));
            });
        }
    }
    group.finish();
}

fn loading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    for count in [1_000, 10_000, 100_000] {
        let texts = texts(count);
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter_batched(
                || &texts,
                |texts| black_box(load(texts)),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn looking_through(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lint");
    group.sample_size(10);
    for count in [1_000, 10_000] {
        let rules = rules(count);
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| black_box(stockade_policy::lint(&rules)));
        });
    }
    group.finish();
}

criterion_group!(benches, decide, loading, looking_through);
criterion_main!(benches);
