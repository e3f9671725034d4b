use std::collections::BTreeMap;

use stockade_scratch::Folder;

use super::*;

/// Names, modes and contents of all below `root`.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let about = path.symlink_metadata().unwrap();
        let content = match about.is_dir() {
            true => {
                waiting.extend(fs::read_dir(&path).unwrap().map(|it| it.unwrap().path()));
                Vec::new()
            }
            false => fs::read(&path).unwrap(),
        };
        found.insert(path, (about.mode(), content));
    }
    found
}

fn machine() -> Folder {
    let folder = Folder::new();
    let root = folder.path();
    for path in ["etc", "var/lib", "var/log", "etc/init.d"] {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    fs::write(root.join("etc/group"), "root:x:0:\n").unwrap();
    fs::write(root.join("etc/shadow"), "root:*:19000::::::\n").unwrap();
    folder
}

fn plan(root: &Path, policy: Option<&str>) -> Plan {
    Plan {
        root: root.to_path_buf(),
        executable: "/usr/bin/stockade".into(),
        policy: policy.map(str::to_owned),
        manager: Manager::Script,
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: files of root can be made by root alone");
    }
    is_root
}

#[test]
fn a_try_tells_all_and_changes_nothing() {
    if !is_root() {
        return;
    }
    let folder = machine();
    let before = tree(folder.path());
    let told = install(&plan(folder.path(), Some("{}")), true).unwrap();
    assert!(told.iter().any(|line| line.contains("etc/init.d/stockade")), "{told:?}");
    assert!(told.iter().any(|line| line.contains("stockade-log:x:")), "{told:?}");
    assert_eq!(tree(folder.path()), before);
}

#[test]
fn what_was_installed_is_taken_away_to_the_byte() {
    if !is_root() {
        return;
    }
    let folder = machine();
    let root = folder.path();
    fs::create_dir(root.join("etc/stockade")).unwrap();
    fs::write(root.join(POLICY), "{\"old\": true}").unwrap();
    fs::set_permissions(root.join(POLICY), Permissions::from_mode(0o640)).unwrap();
    let before = tree(root);
    install(&plan(root, Some("{}")), false).unwrap();
    // Once more, with another policy: what was there at first is what comes back.
    install(&plan(root, Some("{\"model\": \"x\"}")), false).unwrap();
    assert_eq!(fs::read_to_string(root.join(POLICY)).unwrap(), "{\"model\": \"x\"}");
    fs::write(root.join("var/log/stockade/00000001.jsonl"), "a record").unwrap();
    assert_ne!(tree(root), before);
    undo(root, false, false).unwrap();
    assert_eq!(tree(root), before);
    assert!(undo(root, false, false).is_err());
}

#[test]
fn the_log_can_stay_and_is_taken_up_again() {
    if !is_root() {
        return;
    }
    let folder = machine();
    let root = folder.path();
    let before = tree(root);
    install(&plan(root, None), false).unwrap();
    let record = root.join("var/log/stockade/00000001.jsonl");
    fs::write(&record, "a record").unwrap();
    undo(root, false, true).unwrap();
    assert!(record.exists() && !root.join("etc/stockade").exists());
    install(&plan(root, None), false).unwrap();
    assert!(record.exists() && root.join(POLICY).exists());
    undo(root, false, false).unwrap();
    assert_eq!(tree(root), before);
}

#[test]
fn what_somebody_else_put_there_is_not_believed() {
    if !is_root() {
        return;
    }
    let folder = machine();
    let root = folder.path();
    let log = root.join("var/log/stockade");
    fs::create_dir(&log).unwrap();
    fs::set_permissions(&log, Permissions::from_mode(0o777)).unwrap();
    let told = install(&plan(root, None), false).unwrap_err();
    assert!(told.contains("other users can write it"), "{told}");
    undo(root, false, false).unwrap();
    assert!(log.exists(), "it was not ours");
    fs::remove_dir(&log).unwrap();
    std::os::unix::fs::symlink("/etc", &log).unwrap();
    assert!(install(&plan(root, None), false).unwrap_err().contains("is not a directory"));
}

/// The root of a machine where AppArmor is in force.
fn with_apparmor() -> Folder {
    let folder = machine();
    let root = folder.path();
    for path in ["etc/apparmor.d", "sys/module/apparmor/parameters", "sys/kernel/security/apparmor"]
    {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    fs::write(root.join("sys/module/apparmor/parameters/enabled"), "Y\n").unwrap();
    fs::write(root.join("sys/kernel/security/apparmor/profiles"), "").unwrap();
    folder
}

#[test]
fn the_profile_of_the_executable_holds_nothing_back_and_those_of_the_service_grant_little() {
    let expected = "\
# Written by `stockade install`, which replaces it. Additions go into local/stockade.
abi <abi/4.0>,
include <tunables/global>

profile stockade /usr/bin/stockade flags=(unconfined) {
  userns,
  include if exists <local/stockade>
}

# Two processes of the service, whose units name these profiles. They start nothing, and have no network. A socket that came from
# outside of the mounts of a unit has its name all the same.
profile stockade-listener flags=(attach_disconnected) {
  /usr/bin/stockade mr,
  /{,usr/}lib{,32,64}/** mr,
  /dev/null rw,
  /etc/ld.so.cache r,
  /proc/@{pid}/maps r,
  /run/systemd/journal/stdout rw,
  signal (receive) peer=unconfined,
  /etc/passwd r,
  /run/stockade/{gateway,keeper}.sock rw,
  unix (accept, getattr, getopt, receive, send, setopt, shutdown) type=stream,
  unix (connect, create, getattr, getopt, receive, send, setopt) type=seqpacket,
  include if exists <local/stockade-listener>
}

profile stockade-recorder flags=(attach_disconnected) {
  /usr/bin/stockade mr,
  /{,usr/}lib{,32,64}/** mr,
  /dev/null rw,
  /etc/ld.so.cache r,
  /proc/@{pid}/maps r,
  /run/systemd/journal/stdout rw,
  signal (receive) peer=unconfined,
  /etc/{hostname,machine-id} r,
  /proc/sys/kernel/random/boot_id r,
  /run/stockade/recorder.sock rw,
  /var/lib/stockade/log/ rk,
  /var/lib/stockade/log/** rwk,
  /var/log/stockade/ rwk,
  /var/log/stockade/** rwk,
  unix (accept, getattr, getopt, receive, send, setopt, shutdown) type=stream,
  include if exists <local/stockade-recorder>
}
";
    assert_eq!(apparmor::text("/usr/bin/stockade"), expected);
}

#[test]
fn the_units_of_listener_and_recorder_name_profiles_that_the_file_has() {
    let text = apparmor::text("/usr/bin/stockade");
    let units = units::units("/usr/bin/stockade");
    let named: Vec<(&str, &str)> = units
        .iter()
        .flat_map(|(unit, text)| text.lines().map(move |line| (*unit, line)))
        .filter_map(|(unit, line)| Some((unit, line.strip_prefix("AppArmorProfile=-")?)))
        .collect();
    let expected = [
        ("stockade-listener.service", "stockade-listener"),
        ("stockade-recorder.service", "stockade-recorder"),
    ];
    assert_eq!(named, expected);
    for (_, name) in named {
        assert!(text.contains(&format!("\nprofile {name} flags=(attach_disconnected) {{\n")));
    }
}

#[test]
fn a_machine_without_apparmor_gets_no_profile() {
    let (folder, executable) = (machine(), Path::new("/usr/bin/stockade"));
    let told = apparmor::install(folder.path(), executable, false).unwrap();
    assert_eq!(told, ["leave out the AppArmor profile: AppArmor is not in force on this machine"]);
}

#[test]
fn a_profile_is_somebody_elses_unless_its_first_line_says_that_it_is_ours() {
    let (folder, executable) = (with_apparmor(), Path::new("/usr/bin/stockade"));
    let (root, path) = (folder.path(), folder.path().join("etc/apparmor.d/stockade"));
    let ours = apparmor::text("/usr/bin/stockade");
    let own = root.join("elsewhere");
    fs::write(&own, &ours).unwrap();
    std::os::unix::fs::symlink(&own, &path).unwrap();
    for other in ["", "profile stockade {}\n", &format!("\n{ours}")] {
        let before = tree(root);
        let refused = apparmor::install(root, executable, false).unwrap_err();
        assert!(refused.contains("is there and not written by stockade"), "{refused}");
        assert!(apparmor::undo(root, false).is_err());
        assert_eq!(tree(root), before);
        fs::remove_file(&path).unwrap();
        fs::write(&path, other).unwrap();
    }
    assert!(apparmor::undo(root, false).is_err());
    fs::write(&path, ours).unwrap();
    let removed = [format!("remove {}", path.display())];
    assert_eq!(apparmor::undo(root, true).unwrap(), removed);
    assert!(path.exists());
    assert_eq!(apparmor::undo(root, false).unwrap(), removed);
    assert_eq!(apparmor::undo(root, false).unwrap(), [] as [String; 0]);
    assert!(!path.exists());
}
