//! Tries the proxy on this machine, for `doctor`: a confined program reaches a listed server of this process
//! through it, is refused another one, and reaches neither without it.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stockade_monitor::start_confined;
use stockade_policy::{Host, Layer, NetworkRules, Origin, Reach, SandboxSettings};
use stockade_probe::Probe;
use stockade_spec::{Fallback, Files, Limits, Mediation, Program, SandboxSpec, Stdio};

use stockade_egress::messages::{self, Said, Told};
use stockade_egress::process;

/// Name of the probe.
const NAME: &str = "the proxy forwards to listed hosts";

/// Statuses of the two requests, and whether the listed server can be reached without the proxy.
const SCRIPT: &str = r#"
get() {
  exec 3<>"/dev/tcp/127.0.0.1/$PROXY" || return
  printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n' "$1" "$1" >&3
  read -r -t 5 _ status _ <&3
  exec 3>&-
  [ "$status" = "$2" ]
}
get "127.0.0.1:$LISTED" 200 || exit 2
get "127.0.0.1:$OTHER" 403 || exit 3
( exec 3<>"/dev/tcp/127.0.0.1/$LISTED" ) && exit 4
exit 0
"#;

/// Tries it once.
pub fn probe() -> Probe {
    let tried = std::env::current_exe().and_then(|executable| attempt(&executable));
    let detail = match tried {
        Ok(Some(0)) => {
            let detail = "a listed server answers, another one is refused".to_owned();
            return Probe { name: NAME.into(), works: true, detail, help: String::new() };
        }
        Ok(Some(2)) => "a listed server cannot be reached through it".to_owned(),
        Ok(Some(3)) => "a server that is not listed is not refused".to_owned(),
        Ok(Some(4)) => "a listed server can be reached without it".to_owned(),
        Ok(code) => format!("the program that tries it ended with {code:?}"),
        Err(error) => error.to_string(),
    };
    let help =
        "commands run without any network until this works; the line above names the other failure";
    Probe { name: NAME.into(), works: false, detail, help: help.into() }
}

fn attempt(executable: &Path) -> io::Result<Option<i32>> {
    let (listed, other) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let (listed_port, other_port) = (listed.local_addr()?.port(), other.local_addr()?.port());
    let server = std::thread::spawn(move || answer_one(&listed));
    let ended = run(executable, listed_port, other_port);
    // Whether it was asked or not, the server ends with this connection.
    drop(TcpStream::connect(("127.0.0.1", listed_port)));
    let _ = server.join();
    ended
}

/// Answers the first connection.
fn answer_one(server: &TcpListener) -> io::Result<()> {
    let (mut stream, _) = server.accept()?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = [0; 1024];
    let count = stream.read(&mut request)?;
    if request.get(..count).unwrap_or_default().starts_with(b"GET / HTTP/1.1\r\n") {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    }
    Ok(())
}

fn run(executable: &Path, listed: u16, other: u16) -> io::Result<Option<i32>> {
    let null = || File::options().read(true).write(true).open("/dev/null");
    let stdio = Stdio { stdin: null()?.into(), stdout: null()?.into(), stderr: null()?.into() };
    let started = start_confined(executable, &spec(listed, other), stdio);
    let (mut child, _) = started.map_err(io::Error::other)?;
    let listeners = child.take_listeners().ok_or(io::ErrorKind::NotConnected)?;
    let (process, control) = process::start(executable, listeners)?;
    let closing = control.try_clone()?;
    let waiting = std::thread::spawn(move || {
        let ended = child.wait();
        // Nobody asks any more.
        let _ = closing.shutdown(Shutdown::Both);
        ended
    });
    let served = serve(&control, &rules(listed));
    let ended = waiting.join().map_err(|_| io::ErrorKind::Other)?;
    drop(process);
    match served {
        Ok(true) => Ok(ended?.code),
        Ok(false) => Err(io::Error::other("it does not start")),
        Err(error) => Err(error),
    }
}

/// Decides as the gateway does, without a log: nothing but this process is reached. Says whether it was ready.
fn serve(control: &UnixStream, rules: &NetworkRules) -> io::Result<bool> {
    let mut lines = BufReader::new(control.try_clone()?);
    let mut ready = false;
    let mut asked = None;
    while let Some(line) = messages::next_line(&mut lines)? {
        let told = match serde_json::from_slice(&line)? {
            Said::Ready => {
                ready = true;
                continue;
            }
            Said::Ask { id, host, port, .. } => {
                let host = Host::parse(host.as_bytes()).map_err(io::Error::other)?;
                let allowed = matches!(rules.decide(&host, port), Reach::Allowed { .. });
                asked = Some((host, port));
                match allowed {
                    true => Told::Allowed { id, anything: false },
                    false => Told::Refused { id, text: "this is not listed".into() },
                }
            }
            Said::Found { id, mut addresses } => {
                let may = |address| {
                    asked.as_ref().is_some_and(|(host, port): &(Host, u16)| {
                        rules.objection(host, address, *port).is_none()
                    })
                };
                addresses.retain(|address| may(*address));
                Told::Dial { id, addresses }
            }
            Said::Ended { .. } | Said::Malformed { .. } => continue,
        };
        let mut control = control;
        control.write_all(&messages::line(&told))?;
    }
    Ok(ready)
}

fn rules(port: u16) -> NetworkRules {
    let origin = Origin {
        layer: Layer::Builtin,
        file: "<doctor>".into(),
        line: 1,
        column: 1,
        pointer: String::new(),
    };
    let mut sandbox = SandboxSettings::default();
    sandbox.allowed_domains.push((format!("127.0.0.1:{port}"), origin));
    NetworkRules::new(&sandbox)
}

fn spec(listed: u16, other: u16) -> SandboxSpec {
    let number = |name: &str, port: u16| (name.into(), port.to_string().into());
    SandboxSpec {
        program: Program {
            path: PathBuf::from("/bin/bash"),
            argv: ["bash", "--noprofile", "--norc", "-c", SCRIPT].map(Into::into).to_vec(),
            environment: vec![
                number("PROXY", stockade_egress::HTTP_PORT),
                number("LISTED", listed),
                number("OTHER", other),
            ],
            cwd: "/".into(),
        },
        files: Files::default(),
        network: stockade_egress::PROXY,
        limits: Limits::default(),
        terminal: None,
        required: std::collections::BTreeSet::new(),
        mediation: Mediation::Writes,
        confine: true,
        fallback: Fallback::Refuse,
    }
}
