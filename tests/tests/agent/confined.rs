//! The agent's own process has no rights: a program in its place tries what a plugin would try.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use stockade_model_server::{Form, Server};
use stockade_tests::{Place, copy_program, executable, write_program};

use super::{SECRET, say, script, text};

/// Stands in for `stockade-agent`: the keeper is the real one, and the agent tries each thing and says whether it could.
fn program(place: &Place, real: &Path) -> String {
    let root = place.root.display().to_string();
    let project = place.project().display().to_string();
    let tries = [
        ("the key of ssh", format!("cat '{root}/home/.ssh/id_test'")),
        (
            "the key of the model in a process",
            format!("cat /proc/[0-9]*/environ | grep -a {SECRET}"),
        ),
        ("the key of the model in its own variables", format!("env | grep {SECRET}")),
        ("the project", format!("cat '{project}/plan.txt'")),
        ("the project, to write", format!("echo x > '{project}/written'")),
        ("the home directory, to write", format!("echo x > '{root}/home/written'")),
        ("another directory, to write", format!("echo x > '{root}/written'")),
        ("the log", format!("ls '{root}'/*/stockade/audit | grep .")),
        ("/etc/passwd", "cat /etc/passwd".to_owned()),
        ("another host", "exec 3<>/dev/tcp/127.0.0.1/$PORT".to_owned()),
        ("a signal", "kill -0 $OUTSIDE".to_owned()),
        ("the memory of a process", "cat /proc/$OUTSIDE/maps | grep .".to_owned()),
    ];
    let tries: Vec<String> = tries
        .iter()
        .map(|(name, act)| {
            format!("( {act} ) >/dev/null 2>&1 && echo '{name}: yes' || echo '{name}: no'")
        })
        .collect();
    format!(
        "#!/bin/bash\ncase $1 in\nkeep) exec '{}' \"$@\";;\nesac\n{}\n",
        real.display(),
        tries.join("\n")
    )
}

/// Runs the program in the place of the agent, with `settings` of the user. The project asks for an agent without
/// confinement, which opens nothing.
fn tried(name: &str, settings: &str) -> (Place, Output) {
    let place = Place::new(name);
    let real = executable("stockade-agent");
    place.write("home/.ssh/id_test", "private\n");
    place.write("home/.config/stockade/settings.json", settings);
    place.write("project/plan.txt", "plan\n");
    place.write("project/.stockade/settings.json", r#"{"agent": {"confine": false}}"#);
    let server: Server = script(Form::Anthropic, &[&[say("nobody asks")]]);
    let port = server.url().rsplit(':').next().map(str::to_owned).expect("a port");
    let outside = std::process::id().to_string();
    let (own, agent) = (place.root.join("bin/stockade"), place.root.join("bin/stockade-agent"));
    let program = program(&place, &real).replace("$PORT", &port).replace("$OUTSIDE", &outside);
    write_program(&agent, &program);
    copy_program(stockade_tests::stockade(), &own);
    let usual = place.stockade(["agent"]);
    let mut command = Command::new(own);
    command.args(["agent", "-p", "go"]).current_dir(place.project()).env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("ANTHROPIC_BASE_URL", server.url()).env("ANTHROPIC_API_KEY", SECRET);
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    (place, output)
}

/// Returns how often the program said `word`.
fn count(output: &Output, word: &str) -> usize {
    text(&output.stdout).lines().filter(|line| line.ends_with(word)).count()
}

#[test]
fn a_program_in_the_place_of_the_agent_gains_no_file_host_or_process() {
    let (free, output) = tried("ag-unconfined", r#"{"agent": {"confine": false}}"#);
    let told = format!("{}\n{}", text(&output.stdout), text(&output.stderr));
    // Its variables are few, confined or not.
    assert!(told.contains("its own variables: no"), "{told}");
    assert_eq!((count(&output, ": yes"), count(&output, ": no")), (11, 1), "{told}");
    assert!(free.project().join("written").exists(), "{told}");
    let line = "stockade: the agent runs without a sandbox, by agent.confine false (";
    assert!(text(&output.stderr).contains(line), "{told}");
    let (place, output) = tried("ag-confined", "{}");
    let told = format!("{}\n{}", text(&output.stdout), text(&output.stderr));
    assert_eq!((count(&output, ": yes"), count(&output, ": no")), (0, 12), "{told}");
    for written in ["project/written", "home/written", "written"] {
        assert!(!place.root.join(written).exists(), "{written}");
    }
}

#[test]
fn an_agent_that_cannot_be_sandboxed_starts_only_where_the_user_says_so() {
    let name = "an_agent_that_cannot_be_sandboxed_starts_only_where_the_user_says_so";
    let start = |settings: &str| {
        let place = Place::new("ag-less");
        place.write("home/.config/stockade/settings.json", settings);
        let server = script(Form::Anthropic, &[&[say("started")]]);
        let inner = super::agent(&place, &server, Form::Anthropic, &["-p", "go"]);
        let mut command = Command::new("unshare");
        let line = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
        command.args(["-Ur", "bash", "-c", line, "bash"]).arg(inner.get_program());
        command.args(inner.get_args()).current_dir(place.project()).env_clear();
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.stdin(Stdio::null()).output().expect("unshare");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, stdout, stderr) = start("{}");
    if stderr.contains("unshare:") {
        println!("skipped: {name}: no user namespace can be made to hide them in");
        return;
    }
    assert_eq!((code, stdout.as_str()), (Some(122), ""), "{stderr}");
    assert!(stderr.contains("the agent cannot be sandboxed on this machine"), "{stderr}");
    assert!(stderr.contains("`\"agent\": {\"confine\": false}` in the user settings"), "{stderr}");
    let (code, stdout, stderr) = start(r#"{"agent": {"confine": false}}"#);
    assert_eq!((code, stdout.as_str()), (Some(0), "started"), "{stderr}");
}
