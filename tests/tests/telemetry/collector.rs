//! A real collector: `rotel`, whose executable a package of PyPI carries.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use stockade_tests::gateway::Gateway;
use stockade_tests::{Place, skip};

use super::{TRACE, run_with, telemetry, text};

/// The version whose output is known here.
const PACKAGE: &str = "rotel==0.0.1a15";

/// Fetches the executable, once for all runs of the tests.
fn fetched() -> Result<PathBuf, String> {
    if let Some(given) = std::env::var_os("STOCKADE_TEST_COLLECTOR") {
        return Ok(given.into());
    }
    let folder = stockade_tests::root().join("target/collector");
    let program = folder.join("rotel/rotel-agent");
    if program.exists() {
        return Ok(program);
    }
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let words = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--python-version=3.11",
    ];
    let mut fetch = Command::new("python3");
    fetch
        .args(words)
        .args(["--platform=manylinux_2_34_x86_64", PACKAGE])
        .arg("--dest")
        .arg(&folder);
    let fetched = fetch.output().map_err(|error| format!("python3: {error}"))?;
    if !fetched.status.success() {
        return Err(text(&fetched.stderr).lines().last().unwrap_or("pip failed").to_owned());
    }
    let unpack = "import glob,os,sys,zipfile\n\
        wheel=zipfile.ZipFile(glob.glob(sys.argv[1]+'/rotel-*.whl')[0])\n\
        path=wheel.extract('rotel/rotel-agent',sys.argv[1]+'/new')\n\
        os.chmod(path,0o755)\n\
        os.makedirs(sys.argv[1]+'/rotel',exist_ok=True)\n\
        os.replace(path,sys.argv[1]+'/rotel/rotel-agent')";
    let unpacked = Command::new("python3").args(["-c", unpack]).arg(&folder).output();
    let unpacked = unpacked.map_err(|error| error.to_string())?;
    match unpacked.status.success() {
        true => Ok(program),
        false => Err(text(&unpacked.stderr)),
    }
}

/// The collector, which prints what it decoded.
struct Collector(Child);

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &Path, ports: [u16; 2], output: &Path) -> Collector {
    let file = std::fs::File::create(output).expect("a file");
    let [grpc, http] = ports.map(|port| format!("127.0.0.1:{port}"));
    let child = Command::new(program)
        .args(["start", "--otlp-grpc-endpoint", &grpc, "--otlp-http-endpoint", &http])
        .args(["--exporter", "blackhole", "--debug-log-verbosity", "detailed"])
        .args(["--debug-log", "traces", "--debug-log", "metrics", "--debug-log", "logs"])
        .args(["--batch-timeout", "200ms"])
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("a second handle"))
        .stderr(file)
        .spawn()
        .expect("the collector starts");
    Collector(child)
}

#[test]
fn a_real_collector_takes_traces_metrics_and_logs() {
    let name = "a_real_collector_takes_traces_metrics_and_logs";
    let program = match fetched() {
        Ok(program) => program,
        Err(why) => return skip(name, &format!("no collector can be fetched: {why}")),
    };
    let place = Place::new("te-real");
    let _gateway = Gateway::start(&place);
    run_with(&place, "echo confidential", &[("TRACEPARENT", TRACE)]);
    let answer = [stockade_model_server::Turn::Text("done".into())];
    super::sessions::agent(&place, &[&answer], &["--model", "claude-sonnet-4-5"]);
    let ports = [(); 2].map(|()| {
        let held = TcpListener::bind("127.0.0.1:0").expect("a port");
        held.local_addr().expect("an address").port()
    });
    let output = place.root.join("collector.txt");
    let _collector = start(&program, ports, &output);
    let end = Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(("127.0.0.1", ports[1])).is_err() {
        assert!(Instant::now() < end, "{}", std::fs::read_to_string(&output).unwrap_or_default());
        std::thread::sleep(Duration::from_millis(50));
    }
    let url = format!("http://127.0.0.1:{}", ports[1]);
    let sent = telemetry(&place, &url, &["--once"]).output().expect("it starts");
    assert_eq!((sent.status.code(), text(&sent.stderr)), (Some(0), String::new()));
    // The collector prints in a task of its own, after its answer.
    let wanted = [
        "Trace ID       : 4bf92f3577b34da6a3ce929d0e0e4736",
        "Parent ID      : 00f067aa0ba902b7",
        "Name           : call",
        "Name           : judge",
        "Name           : run",
        "Name           : turn",
        "Name           : session",
        "stockade.tokens",
        "stockade.cost",
        "task completed: end",
        "service.name: Str(stockade)",
        "stockade.decisions",
        "stockade.run.duration",
        "decision: allow",
        "result: success",
    ];
    let shown = || {
        let mut shown = String::new();
        let mut file = std::fs::File::open(&output).expect("what it printed");
        file.read_to_string(&mut shown).expect("text");
        shown
    };
    while !wanted.iter().all(|it| shown().contains(it)) {
        let missing: Vec<_> = wanted.iter().filter(|it| !shown().contains(**it)).collect();
        assert!(Instant::now() < end, "without {missing:?}: {}", shown());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!shown().contains("confidential"), "{}", shown());
}
