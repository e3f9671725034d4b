//! The AppArmor profile: written where AppArmor is in force, loaded, taken away.

use super::POLICY;
use super::machine::{Machine, done, told};

/// The file of profiles for the executable of a test's machine.
const PROFILE: &str = include_str!("profile.txt");
/// How the parser is asked whether it takes the text.
const TRY: &str = "--quiet --skip-kernel-load --skip-cache --base /etc/apparmor.d\n";
/// All files of the machine that an installation could touch, with their contents.
const LOOK: &str = "cd / && find etc/apparmor.d etc/stockade var/cache/apparmor var/lib/stockade -type f \
    -exec sha256sum {} + 2> /dev/null | sort; cat /sys/kernel/security/apparmor/profiles";

fn machine() -> Option<Machine> {
    let machine = Machine::new()?;
    machine.has_apparmor();
    machine.root_does(&format!("printf '%s' '{POLICY}' > /etc/policy.json"));
    Some(machine)
}

/// Runs `stockade install`, which must succeed, and returns its lines about AppArmor.
fn install(machine: &Machine, options: &str) -> String {
    let said = machine.root_does(&format!("stockade install {options}"));
    let lines = said.lines().filter(|line| line.to_lowercase().contains("apparmor"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns how the parser was called since the last time.
fn calls(machine: &Machine) -> String {
    machine.root_does("cat /run/parser.log; rm -f /run/parser.log")
}

const SYSTEM: &str = "--system --manager script --policy /etc/policy.json";

#[test]
fn the_profile_is_loaded_before_the_service_starts_and_nothing_of_it_stays() {
    let Some(machine) = machine() else { return };
    let before = machine.root_does(LOOK);
    let bytes = PROFILE.len();
    let lines = format!(
        "write /etc/apparmor.d/stockade (mode 0644, {bytes} bytes)\nload /etc/apparmor.d/stockade into the kernel\n"
    );
    let tried: String = lines.lines().map(|line| format!("would {line}\n")).collect();
    assert_eq!(install(&machine, &format!("{SYSTEM} --dry-run")), tried);
    assert_eq!(machine.root_does(LOOK), before);
    assert_eq!(calls(&machine), TRY);
    assert_eq!(install(&machine, SYSTEM), lines);
    assert_eq!(machine.root_does("cat /etc/apparmor.d/stockade"), PROFILE);
    let loads = "--replace --skip-cache /etc/apparmor.d/stockade\n";
    assert_eq!(calls(&machine), format!("{TRY}{loads}"));
    done(Ok(machine.run("ada", "true")));
    // Once more: there is nothing to write and to load. A kernel that lost it gets it again.
    assert_eq!(install(&machine, SYSTEM), "");
    assert_eq!(calls(&machine), TRY);
    machine.root_does("/etc/init.d/stockade stop; : > /sys/kernel/security/apparmor/profiles");
    assert_eq!(install(&machine, SYSTEM), "load /etc/apparmor.d/stockade into the kernel\n");
    assert_eq!(calls(&machine), format!("{TRY}{loads}"));
    // As the machine does at its start.
    machine
        .root_does("mkdir -p /var/cache/apparmor/1.0; echo x > /var/cache/apparmor/1.0/stockade");
    let undone = install(&machine, "--system --manager script --undo");
    assert_eq!(undone, "remove /etc/apparmor.d/stockade\n");
    assert_eq!(calls(&machine), "--remove /etc/apparmor.d/stockade\n");
    assert_eq!(machine.root_does(LOOK), before);
}

#[test]
fn the_profile_alone_is_installed_and_taken_away() {
    let Some(machine) = machine() else { return };
    let before = machine.root_does(LOOK);
    let first = install(&machine, "--apparmor");
    assert_eq!(first.lines().count(), 2, "{first}");
    assert_eq!(machine.root_does("cat /etc/apparmor.d/stockade"), PROFILE);
    assert_eq!(install(&machine, "--apparmor"), "");
    // The service finds it there, and leaves it to whoever installed it.
    assert_eq!(install(&machine, SYSTEM), "");
    assert_eq!(install(&machine, "--system --manager script --undo"), "");
    assert_eq!(machine.root_does("cat /etc/apparmor.d/stockade"), PROFILE);
    assert_eq!(install(&machine, "--apparmor --undo"), "remove /etc/apparmor.d/stockade\n");
    assert_eq!(machine.root_does(LOOK), before);
    assert_eq!(install(&machine, "--apparmor --undo"), "");
    // A service of another executable replaces it, and brings it back.
    let other = PROFILE.replace("/usr/local/bin/", "/usr/bin/");
    machine.root_does(&format!("cat > /etc/apparmor.d/stockade <<'EOF'\n{other}EOF"));
    install(&machine, SYSTEM);
    assert_eq!(machine.root_does("cat /etc/apparmor.d/stockade"), PROFILE);
    calls(&machine);
    let undone = install(&machine, "--system --manager script --undo");
    assert_eq!(undone, "restore /etc/apparmor.d/stockade\n");
    assert_eq!(machine.root_does("cat /etc/apparmor.d/stockade"), other);
    let [remove, load] = ["--remove", "--replace --skip-cache"];
    let file = "/etc/apparmor.d/stockade";
    assert_eq!(calls(&machine), format!("{remove} {file}\n{load} {file}\n"));
}

#[test]
fn a_profile_of_somebody_else_is_kept() {
    let Some(machine) = machine() else { return };
    machine.root_does("echo 'profile stockade /opt/x {}' > /etc/apparmor.d/stockade");
    let before = machine.root_does(LOOK);
    let left = "`/etc/apparmor.d/stockade` is there and not written by stockade";
    let help = "`sudo mv /etc/apparmor.d/stockade /etc/apparmor.d/stockade.orig` makes room for it";
    let lines = install(&machine, SYSTEM);
    assert_eq!(lines, format!("leave out the AppArmor profile: {left}; {help}\n"));
    done(Ok(machine.run("ada", "true")));
    for words in [&["--apparmor"][..], &["--apparmor", "--undo"]] {
        let words = [&["stockade", "install"], words].concat();
        let refused = machine.root(&words).output().expect("it starts");
        let said = told(&refused);
        assert!(said.contains("not written by stockade") && said.contains("`sudo "), "{said}");
        assert_eq!(refused.status.code(), Some(122), "{said}");
    }
    assert_eq!(install(&machine, "--system --manager script --undo"), "");
    assert_eq!(machine.root_does(LOOK), before);
    // Nor is one that came after ours.
    machine.root_does("rm /etc/apparmor.d/stockade");
    install(&machine, SYSTEM);
    machine.root_does("echo 'profile stockade /opt/x {}' > /etc/apparmor.d/stockade");
    install(&machine, "--system --manager script --undo");
    let held = machine.root_does("cat /etc/apparmor.d/stockade");
    assert_eq!(held, "profile stockade /opt/x {}\n");
}

#[test]
fn a_machine_that_takes_no_profile_has_the_service_without_one() {
    let Some(machine) = machine() else { return };
    let before = machine.root_does(LOOK);
    let old = "the `apparmor_parser` of this machine refuses it, as those before AppArmor 4.0 do, which restrict no user namespaces";
    let none = "AppArmor is not in force on this machine";
    machine.root_does("touch /run/old");
    assert_eq!(install(&machine, SYSTEM), format!("leave out the AppArmor profile: {old}\n"));
    done(Ok(machine.run("ada", "true")));
    assert_eq!(install(&machine, "--system --manager script --undo"), "");
    assert_eq!(calls(&machine), TRY);
    assert_eq!(machine.root_does(LOOK), before);
    let remove = "rm /usr/local/bin/apparmor_parser";
    for (change, why) in [
        (remove, "`apparmor_parser` cannot be started"),
        ("rm /sys/kernel/security/apparmor/profiles", none),
        ("touch /sys/kernel/security/apparmor/profiles; mv /etc/apparmor.d /etc/x", none),
        ("mv /etc/x /etc/apparmor.d; echo N > /sys/module/apparmor/parameters/enabled", none),
    ] {
        machine.root_does(change);
        if change == remove && has_parser(&machine) {
            println!("skipped: the machine has a parser of its own");
            continue;
        }
        let lines = install(&machine, &format!("{SYSTEM} --dry-run"));
        let begin = format!("would leave out the AppArmor profile: {why}");
        assert!(lines.starts_with(&begin) && lines.lines().count() == 1, "{change}: {lines}");
    }
    machine.root_does("echo Y > /sys/module/apparmor/parameters/enabled");
    assert_eq!(machine.root_does(LOOK), before);
}

fn has_parser(machine: &Machine) -> bool {
    machine.root(&["apparmor_parser", "--version"]).output().is_ok_and(|it| it.status.success())
}

#[test]
fn the_parser_of_the_machine_takes_the_profile_or_nothing_is_written() {
    let Some(machine) = machine() else { return };
    machine.root_does("rm /usr/local/bin/apparmor_parser");
    if !has_parser(&machine) {
        return println!("skipped: apparmor_parser is not installed (`apt-get install apparmor`)");
    }
    // The test installs below another root: otherwise the parser would load the profile into the kernel of this machine.
    machine.root_does(
        "mkdir -p /run/r/etc /run/r/var/lib /run/r/var/log /run/r/etc/init.d; cp /etc/passwd /etc/group /run/r/etc; \
         cp -a /etc/apparmor.d /run/r/etc; mkdir -p /run/r/sys/module /run/r/sys/kernel; \
         cp -a /sys/module/apparmor /run/r/sys/module; cp -a /sys/kernel/security /run/r/sys/kernel",
    );
    let knows =
        machine.root_does("test -e /etc/apparmor.d/abi/4.0 && echo yes || echo no") == "yes\n";
    let said = machine.root_does("stockade install --system --root /run/r --manager script 2>&1");
    let written = machine.root_does("cat /run/r/etc/apparmor.d/stockade 2> /dev/null || echo none");
    let refused =
        said.contains("leave out the AppArmor profile: the `apparmor_parser` of this machine");
    assert_eq!((written == PROFILE, refused), (knows, !knows), "{written}{said}");
    assert!(knows || written == "none\n", "{written}");
}
