//! Drives the agents that are installed here with a scripted model, and prints what each let through.
//!
//! `cargo run -p stockade-tests --bin agents -- [FOLDER [AGENT]]`
//!
//! FOLDER holds the agents' programs, such as the `node_modules/.bin` of
//! `npm install @anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai cline @github/copilot`; without it the search path
//! does. Nothing leaves this machine: the model is on the loopback interface. An agent that is not installed is
//! named and left out. Exit status 0 when every line is as it must be.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use stockade_tests::agents::clients::Client;
use stockade_tests::agents::{folders, through_hook, through_shell};
use stockade_tests::{Place, stockade};

fn main() -> ExitCode {
    let folders = folders(std::env::args_os().nth(1).map(PathBuf::from));
    let only = std::env::args().nth(2);
    stockade();
    let (mut good, mut driven) = (true, 0);
    println!("| agent | path | case | result |\n|---|---|---|---|");
    for client in Client::ALL {
        if only.as_ref().is_some_and(|name| name != client.name()) {
            continue;
        }
        let Some(program) = client.find(&folders) else {
            eprintln!(
                "agents: {} is not installed (npm install {})",
                client.name(),
                client.package()
            );
            continue;
        };
        driven += 1;
        let version = client.version(&program, &Place::new("ag-version"));
        let mut lines = through_hook(client, &program);
        if client.takes_a_shell() {
            lines.extend(through_shell(client, &program));
        }
        for line in lines {
            good &= line.good;
            println!(
                "| {} {version} | {} | {} | {} |",
                line.agent, line.path, line.case, line.result
            );
        }
    }
    match (driven, good) {
        (0, _) => {
            eprintln!("agents: none of the agents is installed; nothing was verified");
            ExitCode::from(122)
        }
        (_, true) => ExitCode::SUCCESS,
        (_, false) => ExitCode::FAILURE,
    }
}
