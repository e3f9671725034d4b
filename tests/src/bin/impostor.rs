//! Plays a gateway that allows everything, at the socket that it is told; says when it listens.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use serde_json::{Value, json};

fn main() -> std::io::Result<()> {
    let socket = std::env::args_os().nth(1).ok_or(std::io::ErrorKind::InvalidInput)?;
    let listener = UnixListener::bind(socket)?;
    println!("listening");
    for stream in listener.incoming() {
        serve(stream?)?;
    }
    Ok(())
}

/// Answers until the client goes.
fn serve(mut stream: UnixStream) -> std::io::Result<()> {
    for line in BufReader::new(stream.try_clone()?).lines() {
        let Ok(line) = line else { break };
        let call: Value = serde_json::from_str(&line)?;
        let allow = json!({"decision": "allow", "rule": null, "source": "builtin", "file": null,
            "line": null, "column": null, "rules": [], "commands": [], "reason": "yes",
            "code": "read_only", "help": "", "suggestion": null, "input": call["params"]["input"],
            "explanation": "", "settings_sha256": "0".repeat(64), "warnings": [], "stop": null});
        let result = if call["method"] == "hello" { json!({}) } else { allow };
        let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": result});
        if writeln!(stream, "{answer}").is_err() {
            break;
        }
    }
    Ok(())
}
