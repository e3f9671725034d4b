//! The gateway as a service of the machine, on a machine of the test's own with ordinary users.
//!
//! Each test needs root and a mount namespace, and says so where it has neither.
#![cfg(target_os = "linux")]

#[path = "system/apparmor.rs"]
mod apparmor;
#[path = "system/approvers.rs"]
mod approvers;
#[path = "system/hostile.rs"]
mod hostile;
#[path = "system/machine.rs"]
mod machine;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use machine::{Machine, USERS, done, told};
use serde_json::Value;

/// Managed settings under which commands run without questions.
const POLICY: &str = r#"{"requireGateway": true, "permissions": {"allow": ["Bash(*)"], "deny": ["Bash(touch /home/*/forbidden)"]}}"#;

/// Longest wait: some tests start 70 processes and more.
const PATIENCE: Duration = Duration::from_secs(300);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL); // it may be gone
}

fn status(pid: i32, name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a line").split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_command_runs_as_the_calling_user_and_nothing_else() {
    let Some(machine) = Machine::new() else { return };
    machine.install(POLICY);
    for (name, id) in USERS {
        let shown = "id -u; id -g; id -G; grep -E '^(Uid|Gid|CapPrm|CapEff|NoNewPrivs)' /proc/self/status; echo $HOME";
        let output = machine.run(name, shown);
        let text = told(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let groups = if name == "ada" { format!("{id} 2100") } else { id.to_string() };
        assert_eq!(lines[..2], [id.to_string(), id.to_string()], "{text}");
        // Groups that a user namespace cannot map are shown as those of nobody.
        assert_eq!(lines[2].split(' ').count(), groups.split(' ').count(), "{text}");
        assert!(text.contains("CapPrm:\t0000000000000000"), "{text}");
        assert!(text.contains("NoNewPrivs:\t1"), "{text}");
        assert!(text.contains(&format!("/home/{name}")), "{text}");
    }
    let refused = machine.run("ada", "touch /home/ada/forbidden");
    assert_eq!(refused.status.code(), Some(120), "{}", told(&refused));
    let of = |record: &Value, pointer: &str| record.pointer(pointer).cloned().unwrap_or_default();
    let records = machine.records();
    for (_, id) in USERS {
        let own =
            records.iter().filter(|it| it["kind"] == "decision" && of(it, "/caller/uid") == id);
        let own: Vec<&Value> = own.collect();
        assert!(!own.is_empty());
        assert!(own.iter().all(|it| of(it, "/gateway/mode") == "system"), "{own:?}");
        let results = records.iter().filter(|it| it["kind"] == "result");
        assert!(results.into_iter().any(|it| it["ref"] == own[0]["id"]));
    }
}

#[test]
fn each_process_has_the_rights_of_its_work_and_no_others() {
    let Some(machine) = Machine::new() else { return };
    machine.install(POLICY);
    done(Ok(machine.run("ada", "true")));
    let [listener] = machine.processes("system-listener")[..] else { panic!("one listener") };
    let [keeper] = machine.processes("system-keeper")[..] else { panic!("one keeper") };
    let [recorder] = machine.processes("system-recorder")[..] else { panic!("one recorder") };
    let [gateway] = machine.processes("system-gateway")[..] else { panic!("one gateway") };
    // Bits 6 and 7 of capabilities(7): CAP_SETGID and CAP_SETUID.
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(status(keeper, set), ["00000000000000c0"], "{set}");
    }
    let user = done(machine.root(&["id", "-u", "stockade"]).output());
    assert_eq!(status(listener, "Uid"), vec![user.trim(); 4]);
    assert_eq!(status(listener, "Groups"), [] as [&str; 0]);
    let log_user = done(machine.root(&["id", "-u", "stockade-log"]).output());
    assert_eq!(status(recorder, "Uid"), vec![log_user.trim(); 4]);
    assert_eq!(status(gateway, "Uid"), ["2001"; 4]);
    assert_eq!(status(gateway, "Groups"), ["2001", "2100"]);
    for pid in [listener, keeper, recorder, gateway] {
        assert_eq!(status(pid, "NoNewPrivs"), ["1"]);
        assert_eq!(status(pid, "Seccomp"), ["2"], "a filter of its own");
    }
    for pid in [listener, recorder, gateway] {
        for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
            assert_eq!(status(pid, set), ["0000000000000000"], "{set} of {pid}");
        }
    }
}

#[test]
fn an_ordinary_user_reaches_neither_rules_nor_keys_nor_log_nor_processes() {
    let Some(machine) = Machine::new() else { return };
    machine.install(POLICY);
    let output = machine
        .root(&["stockade", "doctor", "--system", "--json", "--user", "ada"])
        .output()
        .unwrap();
    let object: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)));
    assert_eq!(object["ok"], true, "{object:#}");
    assert_eq!(object["tries"].as_array().map(Vec::len), Some(8));
    let own = machine.user("bob", &["stockade", "doctor", "--system"]).output().unwrap();
    assert_eq!(own.status.code(), Some(0), "{}", told(&own));
    // The same attempts succeed where somebody was careless, and that is told.
    for (careless, promise) in [
        ("chmod o+w /etc/stockade/managed-settings.json", "this user cannot change the rules"),
        (
            "chmod 755 /var/lib/stockade/log /var/lib/stockade/log/keys; chmod 644 /var/lib/stockade/log/keys/sign.key",
            "this user cannot read or change the keys",
        ),
        ("chmod o+rx /var/log/stockade", "this user cannot read or change the log"),
        ("chmod 777 /run/stockade", "no other process can replace the gateway or write its log"),
        ("printf '{}' > /etc/stockade/managed-settings.json", "without the system gateway"),
    ] {
        machine.root_does("cp -a /etc/stockade /etc/kept");
        machine.root_does(careless);
        let output =
            machine.root(&["stockade", "doctor", "--system", "--user", "ada"]).output().unwrap();
        let text = told(&output);
        assert!(output.status.code() == Some(122) && text.contains(promise), "{careless}: {text}");
        machine
            .root_does("rm -rf /etc/stockade; mv /etc/kept /etc/stockade; chmod 755 /run/stockade");
        machine.root_does("chmod o-rx /var/log/stockade; chmod 700 /var/lib/stockade/log /var/lib/stockade/log/keys");
        machine.root_does("chmod 600 /var/lib/stockade/log/keys/sign.key");
    }
}

#[test]
fn nothing_runs_without_the_gateway_of_the_machine() {
    let Some(machine) = Machine::new() else { return };
    machine.install(POLICY);
    let made = "/home/ada/project/made";
    let line = format!("touch {made}");
    for words in [
        vec!["stockade", "run", "--no-daemon", "--", &line],
        vec!["stockade", "run", "--state-dir", "/home/ada/s", "--", &line],
        vec!["env", "XDG_CONFIG_HOME=/home/ada/c", "stockade", "run", "--no-daemon", "--", &line],
    ] {
        let output = machine.user("ada", &words).output().unwrap();
        let text = told(&output);
        assert_eq!(output.status.code(), Some(122), "{text}");
        assert!(text.contains("requireGateway"), "{text}");
    }
    let frame = r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"session_id":"s","cwd":"/home/ada/project"}"#;
    let hook = format!("printf '%s' '{frame}' | stockade hook claude");
    machine.root_does("/etc/init.d/stockade stop");
    for (words, what) in
        [(vec!["stockade", "run", "--", &line], "run"), (vec!["sh", "-c", &hook], "hook")]
    {
        let text = told(&machine.user("ada", &words).output().unwrap());
        assert!(text.contains("requireGateway"), "{what}: {text}");
        assert!(!text.contains(r#""permissionDecision":"allow""#), "{what}: {text}");
    }
    machine.root_does(&format!("test ! -e {made}"));
    machine.root_does("/etc/init.d/stockade start");
    done(Ok(machine.run("ada", &line)));
    machine.root_does(&format!("test -e {made}"));
}

#[test]
fn whichever_process_is_killed_nothing_runs_unrecorded_and_the_rest_goes_on() {
    let Some(machine) = Machine::new() else { return };
    machine.install(POLICY);
    done(Ok(machine.run("bob", "true")));
    for (turn, role) in ["system-gateway", "system-recorder", "system-keeper", "system-listener"]
        .iter()
        .cycle()
        .take(8)
        .enumerate()
    {
        let made = format!("/home/ada/project/made-{turn}");
        let line = format!("touch {made}; sleep 1000");
        let mut command = machine.user("ada", &["stockade", "run", "--", &line]);
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the command runs", || {
            machine.root(&["test", "-e", &made]).status().unwrap().success()
        });
        machine.processes(role).into_iter().for_each(kill);
        if *role == "system-listener" {
            // Running commands go on: they do not depend on the listener.
            until("a command runs again", || machine.run("bob", "true").status.success());
            assert!(running.try_wait().unwrap().is_none());
            let client = format!("stockade run -- touch {made}");
            machine.root(&["pkill", "-KILL", "-f", &client]).status().unwrap();
        }
        let mut code = None;
        until("its end is told", || {
            code = running.try_wait().unwrap();
            code.is_some()
        });
        assert_ne!(code.and_then(|it| it.code()), Some(0));
        // The service goes on for both, with a process that begins again.
        for user in ["ada", "bob"] {
            until("a command runs again", || machine.run(user, "true").status.success());
        }
        let records = machine.records();
        let is_it = |it: &&Value| {
            it["request"]["command"].as_str().is_some_and(|text| text.contains(&made))
        };
        let decision = records.iter().find(is_it).expect("a decision of what ran");
        until("a result of it", || {
            machine.records().iter().any(|it| it["kind"] == "result" && it["ref"] == decision["id"])
        });
        let processes = done(machine.root(&["sh", "-c", "ps -eo args"]).output());
        assert!(!processes.contains(&made), "{processes}");
    }
    let verified = machine
        .root(&[
            "stockade",
            "audit",
            "verify",
            "/var/log/stockade",
            "--state-dir",
            "/var/lib/stockade/log",
        ])
        .output()
        .unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", told(&verified));
}

#[test]
fn a_user_with_a_shell_gets_nothing_from_the_processes_that_are_his() {
    let Some(machine) = Machine::new() else { return };
    machine.install(POLICY);
    let mut command = machine.user("ada", &["stockade", "run", "--", "sleep 1000"]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a gateway runs", || !machine.processes("system-gateway").is_empty());
    let gateway = machine.processes("system-gateway")[0];
    // Each attempt succeeds on a process of the user's own, so that its failure says something.
    let attempts = |pid: &str| {
        format!(
            "for it in environ maps; do test -n \"$(cat /proc/{pid}/$it 2> /dev/null)\" && echo $it; done; \
             ls /proc/{pid}/fd > /dev/null 2>&1 && echo fd; \
             dd if=/proc/{pid}/mem bs=1 count=0 2> /dev/null && echo mem; \
             ls /proc/{pid}/root/ > /dev/null 2>&1 && echo root"
        )
    };
    let own = format!("sleep 1000 & {}; kill $!", attempts("$!"));
    let own = done(machine.user("ada", &["sh", "-c", &own]).output());
    assert_eq!(
        own.split_whitespace().collect::<Vec<_>>(),
        ["environ", "maps", "fd", "mem", "root"]
    );
    let its = machine.user("ada", &["sh", "-c", &attempts(&gateway.to_string())]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&its.stdout), "");
    // Neither with a role of the service nor with its sockets.
    for words in [
        vec!["stockade", "system-gateway", "2001:2001:"],
        vec!["stockade", "system-gateway", "0:0:"],
        vec!["stockade", "system-keeper"],
        vec!["stockade", "system-listener"],
        vec!["stockade", "system-recorder"],
        vec!["stockade", "system-tries", "0:0:"],
        vec!["stockade", "install", "--system"],
        vec!["stockade", "install", "--system", "--undo"],
    ] {
        let output = machine.user("ada", &words).output().unwrap();
        assert_eq!(output.status.code(), Some(122), "{words:?}: {}", told(&output));
    }
    // A process of another user namespace, as a confined command is, has the same user and is not served.
    let apart = machine.user(
        "ada",
        &["unshare", "--user", "--map-current-user", "stockade", "run", "--", "echo it ran"],
    );
    let mut apart = apart;
    let output = apart.output().unwrap();
    assert!(!told(&output).contains("it ran"), "{}", told(&output));
    let _ = running.kill();
    let _ = running.wait();
}

#[test]
fn installing_and_taking_away_leaves_the_machine_as_it_was() {
    let Some(machine) = Machine::new() else { return };
    let look = "cd / && find etc var/lib var/log run usr/local home -xdev ! -type d -printf '%p %m %U %G %y %l\\n' | sort; \
        find etc var/lib/stockade var/log run usr/local home -xdev -type f -exec sha256sum {} + 2> /dev/null | sort; \
        find etc var/lib var/log run usr/local -xdev -type d -printf '%p %m %U %G\\n' | sort";
    machine.root_does(&format!("printf '%s' '{POLICY}' > /etc/policy.json"));
    let before = machine.root_does(look);
    let tried = machine.root_does(
        "stockade install --system --dry-run --manager script --policy /etc/policy.json",
    );
    assert!(tried.contains("would make /var/log/stockade (mode 0750"), "{tried}");
    assert_eq!(machine.root_does(look), before);
    machine.root_does("stockade install --system --manager script --policy /etc/policy.json");
    done(Ok(machine.run("ada", "true")));
    machine.root_does("rm -rf /home/ada/.local /home/ada/.cache");
    machine.root_does("stockade install --system --manager script --undo");
    assert_eq!(machine.root_does(look), before);
    for role in ["system-listener", "system-keeper", "system-recorder"] {
        assert_eq!(machine.processes(role), [] as [i32; 0], "{role}");
    }
}

#[test]
fn one_user_who_has_too_much_does_not_hold_up_another() {
    let Some(machine) = Machine::new() else { return };
    machine.install(POLICY);
    let line =
        "for i in $(seq 70); do stockade run -- 'sleep 1000' > /dev/null 2> ~/said.$i & done; wait";
    let mut many = machine.user("ada", &["sh", "-c", line]).spawn().unwrap();
    until("some are refused", || {
        let said = machine.root_does("cat /home/ada/said.* 2> /dev/null || :");
        said.contains("has 64 commands already")
    });
    done(Ok(machine.run("bob", "true")));
    let _ = many.kill();
    let _ = many.wait();
    let _ = machine.user("ada", &["sh", "-c", "kill -KILL -1"]).status(); // it ends itself, too
    until("it goes on for the first as well", || machine.run("ada", "true").status.success());
}

/// Says whether the machine can have users and groups that no file of `/etc` names.
fn has_extra_users(machine: &Machine) -> bool {
    let module =
        "ls /usr/lib/libnss_extrausers.so.2 /usr/lib/*/libnss_extrausers.so.2 2> /dev/null";
    let found = machine.root(&["sh", "-c", module]).output().is_ok_and(|it| !it.stdout.is_empty());
    if !found {
        println!("skipped: libnss-extrausers is not installed");
    }
    found
}

#[test]
fn a_user_that_only_the_name_service_switch_knows_has_a_gateway() {
    let Some(machine) = Machine::new() else { return };
    if !has_extra_users(&machine) {
        return;
    }
    machine.root_does(
        "mkdir -p /var/lib/extrausers /home/dee/project; chown -R 2004:2004 /home/dee; \
         echo 'dee:x:2004:2004::/home/dee:/bin/bash' > /var/lib/extrausers/passwd; \
         echo 'passwd: files extrausers' > /etc/nsswitch.conf",
    );
    machine.install(POLICY);
    let as_user = |uid: &str, words: &[&str]| {
        let own = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "env"];
        let place = ["--chdir", "/home/dee/project", "HOME=/home/dee", "stockade"];
        machine.root(&[&own[..], &place[..], words].concat()).output().expect("it starts")
    };
    let output = as_user("2004", &["run", "--", "id -u; echo $HOME"]);
    assert_eq!(done(Ok(output)), "2004\n/home/dee\n");
    let record = machine.records().into_iter().rfind(|it| it["kind"] == "decision");
    let caller = record.expect("a decision").pointer("/caller/uid").cloned();
    assert_eq!(caller, Some(Value::from(2004)));
    // Nobody knows this one.
    let stranger = as_user("2005", &["run", "--", "id -u"]);
    assert_eq!(stranger.status.code(), Some(122), "{}", told(&stranger));
    let said = machine.root_does("cat /run/stockade/keeper.log");
    let line = "stockade: uid 2005 is not in /etc/passwd and getent does not find it, so it cannot have a gateway\n";
    assert!(said.contains(line), "{said}");
}

#[test]
fn the_units_are_read_by_systemd_and_listener_and_recorder_are_closed() {
    let Some(machine) = Machine::new() else { return };
    let analyzes = machine.root(&["systemd-analyze", "--version"]).output();
    if !analyzes.is_ok_and(|it| it.status.success()) {
        println!("skipped: there is no systemd-analyze");
        return;
    }
    machine.root_does(
        "mkdir -p /run/r/etc /run/r/var/lib /run/r/var/log; cp /etc/passwd /etc/group /run/r/etc; \
         mkdir -p /run/r/etc/systemd; stockade install --system --root /run/r --manager systemd",
    );
    let units = "cd /run/r/etc/systemd/system && systemd-analyze verify ./stockade*.service ./stockade*.socket 2>&1";
    let said = machine.root_does(units);
    assert!(!said.contains("stockade"), "{said}");
    // A threshold counts in tenths. Ours are the values that systemd 252 gives, and no more.
    for (unit, most) in [("stockade-listener", 6), ("stockade-recorder", 4), ("stockade", 55)] {
        let closed = format!(
            "cd /run/r/etc/systemd/system && systemd-analyze security --offline=true --threshold={most} ./{unit}.service"
        );
        machine.root_does(&closed);
    }
    // Whatever is open for the keeper is needed by it or by commands; another line that opens shows here.
    let open = machine.root_does(
        "cd /run/r/etc/systemd/system && systemd-analyze security --offline=true --json=short ./stockade.service",
    );
    let open: Value = serde_json::from_str(&open).expect("JSON");
    let lines = open.as_array().expect("a list").iter();
    let mut open: Vec<&str> = lines
        .filter(|line| line["set"] == false && line["exposure"].is_string())
        .filter_map(|line| line["name"].as_str())
        .collect();
    open.sort_unstable();
    assert_eq!(open, OPEN);
}

/// Lines that the unit of the keeper leaves open, for its own work and for mounts, namespaces, network, memory and devices of commands.
const OPEN: [&str; 38] = [
    "CapabilityBoundingSet=~CAP_SET(UID|GID|PCAP)",
    "DeviceAllow=",
    "IPAddressDeny=",
    "LockPersonality=",
    "MemoryDenyWriteExecute=",
    "PrivateDevices=",
    "PrivateMounts=",
    "PrivateNetwork=",
    "PrivateTmp=",
    "PrivateUsers=",
    "ProcSubset=",
    "ProtectClock=",
    "ProtectControlGroups=",
    "ProtectHome=",
    "ProtectHostname=",
    "ProtectKernelLogs=",
    "ProtectKernelModules=",
    "ProtectKernelTunables=",
    "ProtectProc=",
    "ProtectSystem=",
    "RestrictAddressFamilies=~AF_(INET|INET6)",
    "RestrictAddressFamilies=~AF_NETLINK",
    "RestrictAddressFamilies=~AF_UNIX",
    "RestrictNamespaces=~cgroup",
    "RestrictNamespaces=~ipc",
    "RestrictNamespaces=~mnt",
    "RestrictNamespaces=~net",
    "RestrictNamespaces=~pid",
    "RestrictNamespaces=~user",
    "RestrictNamespaces=~uts",
    "RestrictSUIDSGID=",
    "RootDirectory=/RootImage=",
    "SystemCallFilter=~@debug",
    "SystemCallFilter=~@mount",
    "SystemCallFilter=~@privileged",
    "SystemCallFilter=~@resources",
    "UMask=",
    "User=/DynamicUser=",
];

#[test]
fn a_user_is_told_of_own_calls_alone_and_the_group_of_the_log_of_all() {
    let Some(machine) = Machine::new() else { return };
    machine.install(POLICY);
    for user in ["ada", "bob", "ada", "cay"] {
        done(Ok(machine.run(user, &format!("echo of-{user}"))));
    }
    let told = |command: &mut std::process::Command| -> Vec<Value> {
        let text = done(command.output());
        text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
    };
    let words = ["stockade", "events", "--from", "0", "--json"];
    let calls = |uid: u32| {
        let all = machine.records();
        let of = |it: &&Value| it.pointer("/caller/uid") == Some(&Value::from(uid));
        let own: Vec<&Value> = all.iter().filter(of).collect();
        let belongs = |it: &&Value| {
            own.contains(it)
                || it["kind"] == "result" && own.iter().any(|call| call["id"] == it["ref"])
        };
        all.iter().filter(belongs).cloned().collect::<Vec<Value>>()
    };
    for (user, uid) in USERS {
        let own = calls(uid);
        assert!(own.len() >= 2, "{own:?}");
        assert_eq!(told(&mut machine.user(user, &words)), own, "{user}");
    }
    // From a result on, whose decision is older than what is read.
    let result = calls(USERS[0].1).pop().expect("a record");
    assert_eq!(result["kind"], "result");
    // Also by a recorder that remembers none of it.
    for pid in machine.processes("system-recorder") {
        kill(pid);
    }
    until("another recorder", || machine.run("ada", "true").status.success());
    let from = result["seq"].to_string();
    let later = told(&mut machine.user("ada", &["stockade", "events", "--from", &from, "--json"]));
    assert_eq!(later.first(), Some(&result), "{later:?}");
    let new =
        calls(USERS[0].1).into_iter().filter(|it| it["seq"].as_u64() >= result["seq"].as_u64());
    assert_eq!(later, new.collect::<Vec<_>>());
    // A member of the log's group has a gateway that reads all.
    machine.root_does("sed -i 's/^stockade-log:.*/&bob/' /etc/group");
    assert_eq!(told(&mut machine.user("bob", &words)), machine.records());
}
