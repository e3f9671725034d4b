//! The log of a machine over the life of a package: installed, upgraded, removed, purged.

use std::path::Path;

use serde_json::Value;
use stockade_tests::{Place, skip, stockade_word};

use super::machine::{Machine, done, told};
use super::{is_installed, made_as};

/// Managed settings under which commands run without questions.
const POLICY: &str = r#"{"requireGateway": true, "permissions": {"allow": ["Bash(*)"]}}"#;
/// The log.
const LOG: &str = "/var/log/stockade";

/// A machine on which packages are installed: its `/usr` is its own.
fn machine() -> Option<Machine> {
    let machine = Machine::new()?;
    machine.root_does(
        "mkdir -p /run/usr/upper /run/usr/work && mount -t overlay overlay \
         -o lowerdir=/usr,upperdir=/run/usr/upper,workdir=/run/usr/work /usr && \
         rm -f /usr/local/bin/stockade*",
    );
    machine.has_apparmor();
    // Scripts of rpm find no program in /usr/local.
    machine.root_does("cp /usr/local/bin/apparmor_parser /usr/sbin/apparmor_parser");
    Some(machine)
}

/// Runs a call of a user through the service.
fn call(machine: &Machine, user: &str, line: &str) {
    done(Ok(machine.run(user, line)));
}

/// The lines of the log, as they are stored.
fn lines(machine: &Machine) -> Vec<String> {
    let text = machine.root_does(&format!("cat {LOG}/*.jsonl"));
    text.trim_end_matches('\0').lines().map(str::to_owned).collect()
}

/// Verifies the log with an executable that is not of the package, and returns how many records it counts.
fn verified(machine: &Machine) -> u64 {
    let own = stockade_word();
    let text = machine
        .root_does(&format!("{own} audit verify --json {LOG} --trust /var/lib/stockade/log"));
    let object: Value = serde_json::from_str(&text).expect("JSON");
    object["records"].as_u64().unwrap_or_else(|| panic!("no number of records: {object}"))
}

fn commands(lines: &[String]) -> Vec<String> {
    let records = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("a record"));
    let decisions = records.filter(|it| it["kind"] == "decision");
    decisions.map(|it| it["request"]["command"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The first processes of the service.
fn service(machine: &Machine) -> [Vec<i32>; 3] {
    ["system-listener", "system-keeper", "system-recorder"].map(|role| machine.processes(role))
}

/// Installs, makes records, upgrades, makes records and removes; the log is one log all the time.
fn lives(machine: &Machine, [old, new]: [&Path; 2], [install, remove]: [&str; 2]) {
    machine.root_does(&format!("{install} {}", old.display()));
    let profile = || machine.root_does("grep '^profile stockade ' /etc/apparmor.d/stockade");
    let own = "profile stockade /usr/bin/stockade flags=(unconfined) {\n";
    assert_eq!(profile(), own, "installed without the service");
    machine.install(POLICY);
    call(machine, "ada", "echo before");
    let before = lines(machine);
    let counted = verified(machine);
    assert_eq!(counted, before.len() as u64);
    let first = service(machine);
    assert!(first.iter().all(|it| it.len() == 1), "{first:?}");
    machine.root_does(&format!("{install} {}", new.display()));
    let second = service(machine);
    assert_eq!(profile(), own);
    assert!(second.iter().all(|it| it.len() == 1), "{second:?}");
    assert!(first.iter().zip(&second).all(|(first, second)| first != second), "it was restarted");
    call(machine, "ada", "echo after");
    call(machine, "bob", "echo other");
    let after = lines(machine);
    assert_eq!(after.get(..before.len()), Some(&before[..]), "what was there stays, byte for byte");
    assert_eq!(commands(&after), ["echo before", "echo after", "echo other"]);
    assert_eq!(verified(machine), after.len() as u64);
    let chains: Vec<Value> = after
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).expect("a record")["chain"].clone())
        .collect();
    assert!(chains.iter().all(|it| it == &chains[0]), "one chain");
    machine.root_does(remove);
    assert_eq!(service(machine), [[], [], []].map(|it: [i32; 0]| it.to_vec()));
    for gone in [
        "/usr/bin/stockade",
        "/etc/init.d/stockade",
        "/etc/stockade",
        "/run/stockade",
        "/etc/apparmor.d/stockade",
    ] {
        let found = machine.root(&["test", "-e", gone]).status().expect("it starts").success();
        assert!(!found, "{gone} is left");
    }
    assert_eq!(lines(machine), after, "a removal leaves the log as it was");
    assert_eq!(verified(machine), after.len() as u64);
    // Installed again, the log goes on.
    machine.root_does(&format!("{install} {}", new.display()));
    machine.install(POLICY);
    call(machine, "ada", "echo again");
    let again = lines(machine);
    assert_eq!(again.get(..after.len()), Some(&after[..]));
    assert_eq!(commands(&again).last().map(String::as_str), Some("echo again"));
    assert_eq!(verified(machine), again.len() as u64);
}

#[test]
fn the_log_goes_on_over_upgrades_of_the_debian_package_and_stays_after_its_removal() {
    let test = "the_log_goes_on_over_upgrades_of_the_debian_package_and_stays_after_its_removal";
    if !is_installed("dpkg") {
        return skip(test, "`dpkg` is not installed");
    }
    let Some(machine) = machine() else { return };
    let place = Place::new("package-up-deb");
    let [old, new] = ["0.0.1", "9.9.9"].map(|version| made_as(&place, "deb", version));
    lives(
        &machine,
        [&old, &new],
        ["dpkg --no-triggers --install", "dpkg --no-triggers --remove stockade"],
    );
    let version = machine.root_does("dpkg-query -W -f '${Version}' stockade");
    assert_eq!(version, "9.9.9");
    // Purged, nothing is left of it, and it says what goes.
    let purged = machine.root(&["dpkg", "--purge", "stockade"]).output().expect("it starts");
    let said = told(&purged);
    for line in [
        "stockade: purge removes /var/log/stockade\n",
        "stockade: purge removes /var/lib/stockade\n",
        "stockade: purge removes the user stockade-log\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let left = "ls -d /var/log/stockade /var/lib/stockade /etc/stockade 2> /dev/null; grep stockade-log /etc/passwd /etc/group || :";
    assert_eq!(machine.root_does(left), "");
}

#[test]
fn the_log_goes_on_over_upgrades_of_the_rpm_package_and_stays_after_its_removal() {
    let test = "the_log_goes_on_over_upgrades_of_the_rpm_package_and_stays_after_its_removal";
    if !is_installed("rpmbuild") {
        return skip(test, "`rpmbuild` is not installed");
    }
    let Some(machine) = machine() else { return };
    let place = Place::new("package-up-rpm");
    let [old, new] = ["0.0.1", "9.9.9"].map(|version| made_as(&place, "rpm", version));
    // Debian keeps this database in the home directory, which the machine shares.
    let rpm = "rpm --dbpath /run/packages";
    // The shell and git are packages of another manager here.
    lives(
        &machine,
        [&old, &new],
        [&format!("{rpm} --nodeps --upgrade"), &format!("{rpm} --nodeps --erase stockade")],
    );
    assert_eq!(machine.root_does(&format!("{rpm} -q --qf '%{{VERSION}}' stockade")), "9.9.9");
}
