//! Approvers on a machine: two persons, groups, delegation with an end, and break-glass.

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Output, Stdio};

use serde_json::{Value, json};
use stockade_tests::Place;
use stockade_tests::browser::Browser;

use super::machine::{Machine, done, told};
use super::{has_extra_users, until};

/// Managed settings in which `touch` is asked about, and who approves it.
fn policy(approvals: &Value) -> String {
    json!({
        "requireGateway": true,
        "permissions": { "allow": ["Bash(*)"], "ask": ["Bash(touch:*)"] },
        "approvals": approvals,
    })
    .to_string()
}

/// Puts other managed settings in the place of those that are there.
fn change(machine: &Machine, approvals: &Value) {
    let policy = policy(approvals);
    machine.root_does(&format!("printf '%s' '{policy}' > /etc/stockade/managed-settings.json"));
}

/// Starts a command of an agent of `ada`.
fn asks(machine: &Machine, line: &str) -> Child {
    let words = ["perl", "-e", "system(@ARGV); exit($? >> 8)", "stockade", "run", "--", line];
    let mut agent = machine.user("ada", &words);
    agent.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn list(machine: &Machine, user: &str) -> Vec<Value> {
    let text = done(machine.user(user, &["stockade", "approvals", "--json"]).output());
    let object: Value = serde_json::from_str(&text).expect("an object");
    object["approvals"].as_array().expect("a list").clone()
}

/// Waits for the question that `user` may answer.
fn question(machine: &Machine, user: &str) -> Value {
    let mut found = None;
    until("a question", || {
        found = list(machine, user).pop();
        found.is_some()
    });
    found.expect("a question")
}

fn answer(machine: &Machine, user: &str, words: &[&str]) -> Output {
    let words = [&["stockade", "approvals"], words].concat();
    machine.user(user, &words).output().expect("it starts")
}

fn is_made(machine: &Machine, name: &str) -> bool {
    let path = format!("/home/ada/project/{name}");
    machine.root(&["test", "-e", &path]).status().expect("it starts").success()
}

fn approval(machine: &Machine) -> Value {
    let records = machine.records();
    records.into_iter().rfind(|it| it["kind"] == "approval").expect("a record")
}

#[test]
fn two_persons_approve_and_neither_is_the_one_who_asks() {
    let Some(machine) = Machine::new() else { return };
    machine.install(&policy(&json!({ "rules": [{ "rule": "Bash(touch:*)", "require": 2 }] })));
    let running = asks(&machine, "touch made");
    let seen = question(&machine, "bob");
    let id = seen["id"].as_str().expect("an identity").to_owned();
    assert_eq!((&seen["question"]["command"], &seen["uid"]), (&json!("touch made"), &json!(2001)));
    let shown = told(&answer(&machine, "bob", &["show", &id]));
    let needs = "needs     2 persons, not the one who asks; approved by nobody\n";
    assert!(shown.contains(needs), "{shown}");
    // Whoever asks sees it, and cannot approve it, and neither for good.
    let own = answer(&machine, "ada", &["allow", &id]);
    assert_eq!(own.status.code(), Some(122));
    assert!(told(&own).contains("the person who asks cannot approve it"), "{}", told(&own));
    let lasting = answer(&machine, "bob", &["allow", &id, "--minutes", "5"]);
    assert_eq!(done(Ok(answer(&machine, "bob", &["allow", &id]))), "", "{}", told(&lasting));
    let approved = |names: &[&str]| {
        let list = list(&machine, "cay");
        list.first().is_some_and(|it| it["required"]["approved"] == json!(names))
    };
    until("one approval", || approved(&["bob"]));
    // One person twice is one person.
    answer(&machine, "bob", &["allow", &id]);
    assert!(approved(&["bob"]) && !is_made(&machine, "made"));
    let second = answer(&machine, "cay", &["allow", &id]);
    assert_eq!(second.status.code(), Some(0), "{}", told(&second));
    assert!(told(&second).contains("stockade: approved touch made\n"), "{}", told(&second));
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(is_made(&machine, "made"));
    let record = approval(&machine);
    let persons = json!([{ "uid": 2002, "name": "bob" }, { "uid": 2003, "name": "cay" }]);
    assert_eq!((&record["approvers"], &record["who"]), (&persons, &Value::Null), "{record}");
    assert_eq!((&record["question"], &record["answer"]), (&json!(id), &json!("allow")));
    let decision = record["ref"].as_str().expect("a decision");
    let why =
        machine.root_does(&format!("stockade audit why {decision} --audit-dir /var/log/stockade"));
    assert!(why.contains("answered allow by bob and cay through approvals"), "{why}");
    // One no is enough.
    let running = asks(&machine, "touch other");
    let id = question(&machine, "cay")["id"].as_str().expect("an identity").to_owned();
    assert_eq!(
        answer(&machine, "cay", &["deny", &id, "--why", "not today"]).status.code(),
        Some(0)
    );
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(120), "{}", told(&output));
    assert!(
        told(&output).contains("not today") && !is_made(&machine, "other"),
        "{}",
        told(&output)
    );
}

#[test]
fn groups_delegation_with_an_end_and_break_glass_say_who_may() {
    let Some(machine) = Machine::new() else { return };
    machine.root_does("printf 'ops:x:2200:bob\\noncall:x:2201:ada\\n' >> /etc/group");
    let lent = |until: &str| {
        json!({ "groups": ["ops"], "selfApproval": false,
            "delegations": [{ "from": "bob", "to": "cay", "until": until }],
            "breakGlass": { "groups": ["oncall"] } })
    };
    machine.install(&policy(&lent("2020-01-01T00:00:00Z")));
    // Only the group sees it: what bob lent to cay has ended.
    let running = asks(&machine, "touch one");
    let id = question(&machine, "bob")["id"].as_str().expect("an identity").to_owned();
    assert!(list(&machine, "cay").is_empty());
    let refused = answer(&machine, "cay", &["allow", &id]);
    assert!(told(&refused).contains("no open question"), "{}", told(&refused));
    // A change of the policy meanwhile makes the answer void.
    change(&machine, &lent("2999-01-01T00:00:00Z"));
    assert_eq!(answer(&machine, "bob", &["allow", &id]).status.code(), Some(0));
    let output = running.wait_with_output().expect("its end");
    assert!(!is_made(&machine, "one"), "{}", told(&output));
    assert_eq!(output.status.code(), Some(121), "{}", told(&output));
    // Now cay approves in the place of bob.
    let running = asks(&machine, "touch two");
    let id = question(&machine, "cay")["id"].as_str().expect("an identity").to_owned();
    assert_eq!(answer(&machine, "cay", &["allow", &id]).status.code(), Some(0));
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let persons = json!([{ "uid": 2003, "name": "cay", "for": "bob" }]);
    assert_eq!(approval(&machine)["approvers"], persons);
    // In an emergency ada allows it alone, with a reason, once, and loudly.
    let running = asks(&machine, "touch three");
    let id = question(&machine, "ada")["id"].as_str().expect("an identity").to_owned();
    for (user, words) in [
        ("bob", vec!["allow", &id, "--break-glass", "because"]),
        ("ada", vec!["allow", &id, "--break-glass", " "]),
        ("ada", vec!["allow", &id, "--break-glass", "outage", "--minutes", "5"]),
        ("ada", vec!["allow", &id, "--for-session", "--break-glass", "outage"]),
    ] {
        let refused = answer(&machine, user, &words);
        // The gateway of the user who asks weighs the answer of another user.
        assert!(
            user == "bob" || refused.status.code() == Some(122),
            "{words:?} {}",
            told(&refused)
        );
    }
    let allowed = answer(&machine, "ada", &["allow", &id, "--break-glass", "outage 7"]);
    assert_eq!(allowed.status.code(), Some(0), "{}", told(&allowed));
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let loud = "BREAK-GLASS: allowed by ada alone: outage 7";
    assert!(told(&output).contains(loud), "{}", told(&output));
    let record = approval(&machine);
    let persons = json!([{ "uid": 2001, "name": "ada" }]);
    assert_eq!((&record["approvers"], &record["break_glass"]), (&persons, &json!("outage 7")));
}

#[test]
fn settings_about_approvers_count_in_the_managed_file_alone_and_fail_closed() {
    let Some(machine) = Machine::new() else { return };
    machine.install(&policy(&json!({ "require": 2 })));
    machine.root_does(
        "mkdir -p /home/ada/.config/stockade; \
         printf '{\"approvals\":{\"require\":1,\"selfApproval\":true,\"breakGlass\":{\"groups\":[\"ada\"]}}}' \
         > /home/ada/.config/stockade/settings.json; chown -R ada:ada /home/ada/.config",
    );
    let running = asks(&machine, "touch made");
    let id = question(&machine, "ada")["id"].as_str().expect("an identity").to_owned();
    for (words, why) in [
        (vec!["allow", &id], "the person who asks cannot approve it"),
        (vec!["allow", &id, "--break-glass", "mine"], "is in no group that may break the glass"),
    ] {
        let refused = answer(&machine, "ada", &words);
        assert_eq!(refused.status.code(), Some(122), "{}", told(&refused));
        assert!(told(&refused).contains(why), "{}", told(&refused));
    }
    // Whoever asks can give it up.
    assert_eq!(answer(&machine, "ada", &["deny", &id]).status.code(), Some(0));
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(120), "{}", told(&output));
    // A call that an agent runs itself cannot wait for others.
    let edit = json!({ "file_path": "/home/ada/project/x", "content": "x" }).to_string();
    let words = ["stockade", "check", "--record", "--tool", "Write", "--input", &edit];
    let refused = machine.user("ada", &words).output().expect("it starts");
    assert_eq!(refused.status.code(), Some(120), "{}", told(&refused));
    for wrong in [
        json!({ "require": 0 }),
        json!({ "require": "2" }),
        json!({ "groups": [] }),
        json!({ "requires": 2 }),
        json!({ "selfApproval": "no" }),
        json!({ "rules": [{ "rule": "Bash(tuoch:*)", "require": 2 }] }),
        json!({ "rules": [{ "rule": "Bash(touch:*)", "required": 2 }] }),
        json!({ "delegations": [{ "from": "bob", "to": "cay" }] }),
        json!({ "breakGlass": { "minutes": 0 } }),
    ] {
        change(&machine, &wrong);
        let output = machine.run("ada", "touch made");
        assert_eq!(output.status.code(), Some(122), "{wrong}: {}", told(&output));
    }
    assert!(!is_made(&machine, "made"));
}

/// Runs `stockade` as a user whom no file names, in these groups.
fn extra(machine: &Machine, uid: &str, groups: &str, words: &[&str]) -> Output {
    let own = ["setpriv", "--reuid", uid, "--regid", uid, "--groups", groups, "env"];
    let home = format!("HOME=/home/{uid}");
    let place = ["--chdir", "/home/2004/project", &home, "stockade"];
    machine.root(&[&own[..], &place[..], words].concat()).output().expect("it starts")
}

#[test]
fn who_is_only_in_the_name_service_switch_approves_and_asks_as_others_do() {
    let Some(machine) = Machine::new() else { return };
    if !has_extra_users(&machine) {
        return;
    }
    // `ops` is a group of the files, and one of another number elsewhere.
    machine.root_does(
        "mkdir -p /var/lib/extrausers /home/2004/project; \
         for id in 2004 2005 2006; do mkdir -p /home/$id; chown -R $id:$id /home/$id; done; \
         printf 'dee:x:2004:2004::/home/2004:/bin/bash\neve:x:2005:2005::/home/2005:/bin/bash\nbob:x:2006:2006::/home/2006:/bin/bash\n' \
         > /var/lib/extrausers/passwd; \
         printf 'leads:x:2300:dee\nops:x:2301:eve\n' > /var/lib/extrausers/group; \
         echo 'ops:x:2200:cay' >> /etc/group; \
         printf 'passwd: files extrausers\ngroup: files extrausers\n' > /etc/nsswitch.conf",
    );
    machine
        .install(&policy(&json!({ "groups": ["leads", "ops", "extra"], "selfApproval": false })));
    let running = asks(&machine, "touch made");
    // Cay sees it by the files.
    let id = question(&machine, "cay")["id"].as_str().expect("an identity").to_owned();
    let shown = |uid: &str, groups: &str| {
        let output = extra(&machine, uid, groups, &["approvals", "--json"]);
        let object: Value = serde_json::from_str(&done(Ok(output))).expect("an object");
        object["approvals"].as_array().expect("a list").len()
    };
    // A group counts that the process has, not one that the database lists. A name of the files is that of their group or user.
    assert_eq!(shown("2004", "2004"), 0);
    assert_eq!(shown("2005", "2301"), 0);
    assert_eq!(shown("2006", "2300"), 0);
    assert_eq!(shown("2004", "2300"), 1);
    let refused = extra(&machine, "2005", "2301", &["approvals", "allow", &id]);
    assert!(told(&refused).contains("no open question"), "{}", told(&refused));
    let allowed = extra(&machine, "2004", "2300", &["approvals", "allow", &id]);
    assert_eq!(allowed.status.code(), Some(0), "{}", told(&allowed));
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(is_made(&machine, "made"));
    assert_eq!(approval(&machine)["approvers"], json!([{ "uid": 2004, "name": "dee" }]));
    // A user whom only the name service knows asks, cannot approve it, and is answered by others.
    let words = ["setpriv", "--reuid", "2004", "--regid", "2004", "--groups", "2300", "env"];
    let place = ["--chdir", "/home/2004/project", "HOME=/home/2004"];
    let line =
        ["perl", "-e", "system(@ARGV); exit($? >> 8)", "stockade", "run", "--", "touch other"];
    let mut agent = machine.root(&[&words[..], &place[..], &line[..]].concat());
    let running = agent.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let id = question(&machine, "cay")["id"].as_str().expect("an identity").to_owned();
    let own = extra(&machine, "2004", "2300", &["approvals", "allow", &id]);
    assert!(told(&own).contains("the person who asks cannot approve it"), "{}", told(&own));
    assert_eq!(answer(&machine, "cay", &["allow", &id]).status.code(), Some(0));
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(approval(&machine)["approvers"], json!([{ "uid": 2003, "name": "cay" }]));
}

/// `stockade approvals` of a user that serves until the end of the test, and the first line that it printed.
struct Serving {
    child: Child,
    // A reader stays open for further output.
    _said: std::io::BufReader<std::process::ChildStdout>,
    line: String,
}

impl Serving {
    fn start(machine: &Machine, user: &str, words: &[&str]) -> Serving {
        let words = [&["stockade", "approvals"], words].concat();
        let mut command = machine.user(user, &words);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = std::io::BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        Serving { child, _said: said, line: line.trim().to_owned() }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes one message of a webhook.
fn message(listener: &TcpListener) -> Value {
    listener.set_nonblocking(true).expect("a mode");
    let (stream, _) = stockade_tests::found("a message comes", || listener.accept().ok());
    stream.set_nonblocking(false).expect("a mode");
    let mut reader = std::io::BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    reader.into_inner().write_all(answer).expect("it reads");
    serde_json::from_slice(&body).expect("an object")
}

/// A machine on which the agent's executable is beside the gateway's.
fn with_agent() -> Option<Machine> {
    let machine = Machine::new()?;
    let agent = stockade_tests::executable("stockade-agent");
    let copy = format!("cp '{}' /usr/local/bin/; chmod 755 /usr/local/bin/*", agent.display());
    machine.root_does(&copy);
    machine.install(&policy(&json!({ "rules": [{ "rule": "Bash(touch:*)", "require": 2 }] })));
    Some(machine)
}

#[test]
fn the_page_says_who_has_to_approve_and_who_has() {
    let Some(machine) = with_agent() else { return };
    let place = Place::new("approvers-page");
    let test = "approvers::the_page_says_who_has_to_approve_and_who_has";
    let Some(browser) = Browser::start(test, &place.root.join("chromium")) else { return };
    let running = asks(&machine, "touch made");
    let id = question(&machine, "bob")["id"].as_str().expect("an identity").to_owned();
    let page = Serving::start(&machine, "bob", &["web"]);
    browser.open(&page.line);
    let shown = browser.until("2 persons, not the one who asks; approved by nobody");
    assert!(shown.contains("0 of 2 approved"), "{shown}");
    let buttons =
        "return [...document.querySelectorAll('#detail button')].map((it) => it.textContent)";
    assert_eq!(browser.script(buttons), json!(["Approve once", "Deny"]), "for one call alone");
    assert_eq!(answer(&machine, "cay", &["allow", &id]).status.code(), Some(0));
    let shown = browser.until("2 persons, not the one who asks; approved by cay");
    assert!(shown.contains("1 of 2 approved"), "{shown}");
    assert!(!is_made(&machine, "made"));
    browser.script("document.querySelector('#detail button.once').click()");
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(is_made(&machine, "made"));
    browser.until("approved · ");
}

#[test]
fn the_webhook_says_who_has_to_approve_and_who_has() {
    let Some(machine) = with_agent() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/in", listener.local_addr().expect("an address"));
    let _hook = Serving::start(&machine, "bob", &["webhook", "--url", &url]);
    let running = asks(&machine, "touch made");
    let opened = message(&listener);
    let required = |message: &Value| message["question"]["required"].clone();
    let expected = |approved: &[&str]| json!({ "persons": 2, "self_approval": false, "groups": [], "approved": approved });
    assert_eq!((&opened["event"], required(&opened)), (&json!("question.opened"), expected(&[])));
    let id = opened["question"]["id"].as_str().expect("an identity").to_owned();
    assert_eq!(answer(&machine, "cay", &["allow", &id]).status.code(), Some(0));
    let next = message(&listener);
    assert_eq!(
        (&next["event"], required(&next)),
        (&json!("question.approved"), expected(&["cay"]))
    );
    assert_eq!(answer(&machine, "bob", &["allow", &id]).status.code(), Some(0));
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}
