//! One command and one hook answer, beside bash and other sandboxes; and what two syncs of the log cost.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::table::{self, Contender};
use crate::{Ground, on_path};

/// A frame that an agent sends to its hook before it runs a command.
const FRAME: &str = r#"{"hook_event_name":"PreToolUse","session_id":"bench","cwd":"/","tool_name":"Bash",
"tool_input":{"command":"git status"}}"#;

/// Rules in the settings of the hook that is timed.
const RULES: usize = 500;

/// Other sandboxes, by the name of their program.
const OTHERS: &[(&str, &str)] = &[
    (
        "bubblewrap",
        "bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-all bash -c",
    ),
    ("firejail", "firejail --quiet --noprofile --net=none bash -c"),
    ("srt", "srt bash -c"),
    ("codex", "codex sandbox linux bash -c"),
];

pub(crate) fn measure(ground: &Ground, rounds: usize) {
    let (frame, settings) = (ground.path("frame.json"), ground.path("rules.json"));
    let written =
        std::fs::write(&frame, FRAME).and_then(|()| std::fs::write(&settings, rules(RULES)));
    if let Err(error) = written {
        eprintln!("bench: cannot write {}: {error}", ground.scratch.display());
        return;
    }
    let mut contenders = contenders(ground, &frame, &settings);
    table::in_turn(&mut contenders, rounds, &ground.path("project"), || {});
    table::print("start", &contenders);
    match syncs(&ground.scratch, rounds) {
        Ok(median) => println!(
            "two syncs of a line at the end of a file in {}: median {:.2} ms\n",
            ground.scratch.display(),
            median.as_secs_f64() * 2e3
        ),
        Err(error) => println!("left out, the syncs: {error}\n"),
    }
}

fn contenders(ground: &Ground, frame: &Path, settings: &Path) -> Vec<Contender> {
    let stockade = &ground.stockade;
    let state = ground.state.join("one-shot");
    let embedded = format!("--no-daemon --state-dir {}", state.display());
    let mut all = vec![
        Contender::new("bash -c true", "bash -c", &["true"]),
        Contender::new("run -- true, one shot", &ground.one_shot(), &["--", "true"]),
        Contender::new(
            "shell -c true, one shot",
            &format!("{stockade} {embedded} shell -c"),
            &["true"],
        ),
    ];
    let disk =
        format!("{stockade} run --quiet --no-daemon --state-dir {}", ground.path("disk").display());
    all.push(Contender::new("run -- true, one shot, log on disk", &disk, &["--", "true"]));
    let hook = |name: &str, options: &str| {
        let line = format!("{stockade} hook claude {options}");
        let mut contender =
            Contender::new(name, &line, &["--settings", &settings.display().to_string()]);
        contender.input = Some(frame.to_path_buf());
        contender
    };
    if ground.gateway.is_some() {
        let line = ground.through_gateway();
        all.push(Contender::new("run -- true, running gateway", &line, &["--", "true"]));
        let session = ["--session", "bench", "--", "true"];
        all.push(Contender::new("run -- true, running gateway, a session", &line, &session));
        let socket = format!("--socket {}", ground.path("gateway.sock").display());
        let shell = format!("{stockade} {socket} shell -c");
        all.push(Contender::new("shell -c true, running gateway", &shell, &["true"]));
        all.push(hook("hook claude, 500 rules, running gateway", &socket));
    }
    all.push(hook("hook claude, 500 rules, one shot", &embedded));
    let check = format!("{stockade} check {embedded}");
    all.push(Contender::new("check -- true, one shot", &check, &["--", "true"]));
    for (name, line) in OTHERS {
        if on_path(line.split(' ').next().unwrap_or_default()) {
            all.push(Contender::new(name, line, &["true"]));
        } else {
            println!("not installed: {name}");
        }
    }
    all
}

/// Returns settings with `count` rules of all kinds, none of which is about the command that is judged.
fn rules(count: usize) -> String {
    let rule = |number: usize| match number % 4 {
        0 => format!("\"Bash(tool{number}:*)\""),
        1 => format!("\"Bash(npm run task{number} *)\""),
        2 => format!("\"Read(~/folder{number}/**)\""),
        _ => format!("\"WebFetch(domain:host{number}.example)\""),
    };
    let list = |effect: usize| {
        let chosen = (0..count).filter(|number| number % 3 == effect).map(rule);
        chosen.collect::<Vec<_>>().join(",\n")
    };
    format!(
        "{{\"permissions\":{{\"allow\":[{}],\n\"ask\":[{}],\n\"deny\":[{}]}}}}\n",
        list(0),
        list(1),
        list(2)
    )
}

/// Returns the median time of one sync of an appended line.
fn syncs(folder: &Path, rounds: usize) -> std::io::Result<Duration> {
    let mut file = std::fs::File::create(folder.join("synced"))?;
    let line = [b'a'; 1500];
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds.max(1) {
        file.write_all(&line)?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}
