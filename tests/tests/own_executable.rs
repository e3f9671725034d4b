//! The executables of stockade stay as they are, also where they lie in a directory in which commands write: what a command
//! put in their place would run without a sandbox.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use stockade_tests::{Place, copy_program, stockade};

/// Runs a line by the copy of the executable in `target/debug` of the project.
fn run(place: &Place, line: &str) -> Output {
    let own = place.project().join("target/debug/stockade");
    let plain = place.stockade(["run", "--", line]);
    let mut command = Command::new(own);
    command.args(plain.get_args()).current_dir(place.project()).env_clear().stdin(Stdio::null());
    command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.output().expect("it starts")
}

/// Returns which files the executables are, and what they hold.
fn found(folder: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = |name: &&str| folder.join(name);
    let there = ["stockade", "stockade-agent"];
    let there = there.iter().map(file).filter(|it| it.symlink_metadata().is_ok());
    there.map(|it| (it.metadata().expect("it").ino(), fs::read(it).expect("it"))).collect()
}

#[test]
fn no_command_changes_the_executable_of_the_gateway_or_the_agents_beside_it() {
    let place = Place::new("own-executable");
    let folder = place.project().join("target/debug");
    fs::create_dir_all(folder.join("deps")).expect("a folder");
    copy_program(stockade(), &folder.join("stockade"));
    // As cargo has it: one file of two names.
    fs::hard_link(folder.join("stockade"), folder.join("deps/stockade-1a2b")).expect("a link");
    for is_there in [true, false] {
        let agent = folder.join("stockade-agent");
        match is_there {
            true => fs::write(&agent, "the agent\n").expect("a file"),
            false => fs::remove_file(&agent).expect("it is there"),
        }
        let before = found(&folder);
        for line in [
            "cp /bin/true target/debug/stockade",
            "cp --remove-destination /bin/true target/debug/stockade",
            "cp /bin/true new; mv new target/debug/stockade",
            "rm -f target/debug/stockade",
            "mv target/debug away; mkdir target/debug; cp /bin/true target/debug/stockade",
            "mv target away; mkdir -p target/debug; cp /bin/true target/debug/stockade",
            "cp /bin/true target/debug/deps/stockade-1a2b",
            "echo x | dd of=target/debug/deps/stockade-1a2b conv=notrunc",
            "cp /bin/true target/debug/stockade-agent",
            "ln -s /bin/true target/debug/stockade-agent",
            "ln -f /bin/true target/debug/stockade-agent; cp /bin/true new; ln -f new target/debug/stockade-agent",
            "cp /bin/true new; mv new target/debug/stockade-agent",
            "chmod 777 target/debug/stockade",
        ] {
            let output = run(&place, line);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(found(&folder) == before, "{line}: {told}");
            let mode = folder.join("stockade").metadata().expect("it").mode();
            assert_eq!(mode & 0o022, 0, "{line}: {told}");
        }
    }
    // All else in that directory is the work, and is built there.
    let output = run(
        &place,
        "mkdir -p target/debug/deps && echo built > target/debug/other && echo built > target/debug/deps/x",
    );
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A command could replace such a shell, and the replacement would run the next call, even outside the sandbox.
#[test]
fn a_shell_in_a_place_where_commands_write_is_refused() {
    let place = Place::new("own-shell");
    let (inside, outside) = (place.project().join("shell"), place.home().join("shell"));
    for copy in [&inside, &outside] {
        copy_program(Path::new("/bin/bash"), copy);
    }
    let link = place.home().join("link");
    std::os::unix::fs::symlink(&inside, &link).expect("a link");
    let ran = |shell: &Path| {
        let settings = format!(
            r#"{{"shell": {shell:?}, "permissions": {{"allow": ["Bash(ls:*)"]}}, "sandbox": {{"excludedCommands": ["ls"]}}}}"#
        );
        place.write("home/.config/stockade/settings.json", &settings);
        let output = place.output(["run", "--no-daemon", "--quiet", "--", "ls -d ."]);
        let told = String::from_utf8_lossy(&output.stderr).lines().next().map(str::to_owned);
        (String::from_utf8_lossy(&output.stdout).into_owned(), told.unwrap_or_default())
    };
    assert_eq!(ran(&outside), (".\n".to_owned(), String::new()));
    let project = place.project();
    for shell in [&inside, &link] {
        let message = format!(
            "stockade: invalid setting `shell`: `{}` is in `{}`, where commands can write",
            shell.display(),
            project.display()
        );
        assert_eq!(ran(shell), (String::new(), message));
    }
}
