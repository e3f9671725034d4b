use std::process::Command;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};

use super::*;

fn shown(text: Option<Text>) -> Value {
    serde_json::to_value(text).unwrap()
}

#[test]
fn a_terminal_is_named_by_its_device_number() {
    for (device, name) in [
        (0, json!(null)),
        (136 << 8 | 5, json!("pts/5")),
        (137 << 8 | 1, json!("pts/257")),
        (136 << 8 | 3 << 20 | 1, json!("pts/769")),
        (4 << 8 | 2, json!("tty2")),
        (5 << 8 | 1, json!("5:1")),
    ] {
        assert_eq!(shown(terminal(device)), name, "{device:#x}");
    }
}

#[test]
fn a_process_is_described_as_the_kernel_has_it() {
    let (pid, parent) = (std::process::id(), std::os::unix::process::parent_id());
    let above = processes_above(pid);
    assert_eq!(above[0].pid, pid);
    assert_eq!(above.get(1).map(|it| it.pid), (parent > 1).then_some(parent));
    assert!(above.iter().all(|it| it.pid > 1), "{above:?}");
    assert!(above[0].is_alive());
    assert!(!Process { start: above[0].start + 1, ..above[0] }.is_alive(), "another start");
    let own = std::env::current_exe().unwrap();
    assert_eq!(shown(executable(pid)), json!(own));
    // Where nobody logged in, the kernel has the highest number.
    let text = std::fs::read_to_string("/proc/self/loginuid").unwrap_or_default();
    let said: Option<u32> = text.trim().parse().ok();
    assert_eq!(loginuid(pid), if said == Some(u32::MAX) { None } else { said });
}

#[test]
fn a_process_that_only_waits_for_its_parent_has_ended() {
    let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let process = processes_above(child.id())[0];
    assert!(process.is_alive());
    drop(child.stdin.take());
    let id = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    assert!(stat(process.pid).unwrap().has_ended && !process.is_alive());
    child.wait().unwrap();
    assert!(!process.is_alive());
}

#[test]
fn the_parents_of_a_process_go_up_to_the_leader_of_its_session() {
    use std::io::{BufRead as _, BufReader, Write as _};

    let mut command = Command::new("setsid");
    command.args(["sh", "-c", "cat; true"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut shell = command.spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    input.write_all(b"x\n").unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = numbers.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let below = |pid: &u32| stat(*pid).is_some_and(|it| it.parent == shell.id());
    let cat = numbers.find(below).expect("`cat` below the shell");
    let told = |pid: u32| serde_json::to_value(parents(pid, stat(pid).as_ref())).unwrap();
    let exe = std::fs::read_link(format!("/proc/{}/exe", shell.id())).unwrap();
    assert_eq!(told(cat), json!([{ "pid": shell.id(), "exe": exe }]));
    assert_eq!(told(shell.id()), json!([]));
    drop(input);
    shell.wait().unwrap();
}
