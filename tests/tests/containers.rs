//! In a container of a real engine: what its defaults allow, and what the flags of `docs/guide/containers.md` give.
//!
//! Needs root and Podman; the container is made of this machine's own programs, so no image is fetched.

mod containers {
    pub mod engine;
}

use serde_json::{Value, json};
use stockade_tests::skip;

use containers::engine::{Engine, PODMANS_PROFILE, Starter, flag, home, podmans_profile, text};

const UNMASKED: &str = "--security-opt=unmask=ALL";
const NO_FILTER: &str = "--security-opt=seccomp=unconfined";

/// Longest time for all that `doctor` tries.
const DOCTOR_LIMIT_MS: u64 = 1_000;

/// Returns the names of the protections that are not enforced as a whole.
fn open(report: &Value) -> Vec<&str> {
    let all = report["protections"].as_array().expect("a list").iter();
    let open = all.filter(|it| it["state"] != "enforced");
    open.filter_map(|it| it["name"].as_str()).collect()
}

/// Returns the names of the probes that fail.
fn failing(report: &Value) -> Vec<&str> {
    let all = report["probes"].as_array().expect("a list").iter();
    all.filter(|it| it["works"] != true).filter_map(|it| it["name"].as_str()).collect()
}

/// Asserts that `doctor` finds all that is required, and all else but what only a control group gives.
#[track_caller]
fn assert_well(engine: &Engine, flags: &[&str], user: &str) {
    // Others use the machine, too: the fastest of a few tells what it takes.
    let reports: Vec<Value> = (0..3).map(|_| engine.doctor(flags, user)).collect();
    for report in &reports {
        assert_eq!(report["ok"], true, "{flags:?} {user}: {report}");
        assert_eq!(failing(report), <[&str; 0]>::default(), "{flags:?} {user}: {report}");
        let open = open(report);
        assert!(open.is_empty() || open == ["limits"], "{flags:?} {user}: {report}");
    }
    let least = reports.iter().filter_map(|report| report["took_ms"].as_u64()).min();
    assert!(least.is_some_and(|least| least < DOCTOR_LIMIT_MS), "{least:?}");
}

#[test]
fn without_flags_it_refuses_and_says_which_would_do() {
    let name = "without_flags_it_refuses_and_says_which_would_do";
    let engine = match Engine::new("masked") {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    for user in ["0", "1000"] {
        engine.confined(&[NO_FILTER], user).assert_refused("--security-opt unmask=ALL");
        let report = engine.doctor(&[NO_FILTER], user);
        assert_eq!(report["lacking"], json!(["protected"]), "{report}");
        let all = report["protections"].as_array().expect("a list").iter();
        let lacking = all.into_iter().find(|it| it["name"] == "protected").expect("it is there");
        let why = "the kernel refuses a new `/proc`";
        assert!(lacking["detail"].as_str().is_some_and(|it| it.contains(why)), "{lacking}");
        let probes = report["probes"].as_array().expect("a list").iter();
        let helps: Vec<&str> = probes.filter_map(|it| it["help"].as_str()).collect();
        assert!(helps.iter().any(|help| help.contains("--security-opt unmask=ALL")), "{helps:?}");
    }
    let doctor = text(&engine.run(&[NO_FILTER], "0", "/opt/stockade doctor").stdout);
    assert!(doctor.contains("parts of `/proc` are masked"), "{doctor}");
}

#[test]
fn doctor_says_that_it_has_no_place_for_its_probes() {
    let name = "doctor_says_that_it_has_no_place_for_its_probes";
    let engine = match Engine::new("closed") {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    let line = "chmod 755 /tmp /var/tmp; setpriv --reuid 1000 --clear-groups /opt/stockade doctor";
    let told = text(&engine.run(&[NO_FILTER, UNMASKED], "0", line).stdout);
    assert!(told.contains("allow this user to create files in `/tmp` or `/var/tmp`"), "{told}");
}

#[test]
fn the_flags_for_podman_give_everything_required() {
    let name = "the_flags_for_podman_give_everything_required";
    let engine = match Engine::new("podman") {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    let outside = engine.run(&[UNMASKED], "0", "echo x > /etc/planted; rm /etc/planted");
    assert!(outside.status.success(), "unconfined it can be written: {}", text(&outside.stderr));
    let own = podmans_profile().map(|profile| profile.to_string()).unwrap_or_default();
    for user in ["0", "1000"] {
        engine.confined(&[NO_FILTER, UNMASKED], user).assert_confined(user);
        assert_well(&engine, &[NO_FILTER, UNMASKED], user);
        if listed().iter().all(|call| own.contains(&format!("\"{call}\""))) {
            engine.confined(&[UNMASKED], user).assert_confined(user);
            assert_well(&engine, &[UNMASKED], user);
        } else {
            skip(name, "with its own filter: that of this Podman lacks calls that are needed");
        }
    }
}

#[test]
fn other_flags_of_containers_take_nothing_away() {
    let name = "other_flags_of_containers_take_nothing_away";
    let engine = match Engine::new("flags") {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    let nothing_new = "--security-opt=no-new-privileges";
    for user in ["0", "1000"] {
        let project = engine.system().join(home(user)).join("project");
        let volume = format!("--volume={}:/{}/project", project.display(), home(user));
        let flags: [&[&str]; 6] = [
            &["--privileged"],
            &["--cap-drop=ALL", "--cap-add=SETFCAP", nothing_new],
            // A root that nobody can write: the project and the state lie elsewhere, and nothing temporary.
            &["--read-only", &volume, "--env=XDG_STATE_HOME=/tmp/state"],
            &[
                "--read-only",
                "--read-only-tmpfs=false",
                &volume,
                "--env=XDG_STATE_HOME=/dev/shm/state",
            ],
            &["--tmpfs=/tmp:size=64k", "--shm-size=64k"],
            // Without `/dev/shm`.
            &["--ipc=none", "--hostname=other"],
        ];
        for flags in flags {
            let flags = [&[NO_FILTER, UNMASKED], flags].concat();
            engine.confined(&flags, user).assert_confined(user);
            assert_well(&engine, &flags, user);
        }
    }
    let flags = [NO_FILTER, UNMASKED, "--cap-drop=ALL", nothing_new];
    engine.confined(&flags, "1000").assert_confined("1000");
    // Root maps its own number with one capability only.
    engine.confined(&flags, "0").assert_refused("--cap-add=SETFCAP");
    let report = engine.doctor(&flags, "0");
    assert_eq!(failing(&report), ["a confined start"], "{report}");
    assert!(report.to_string().contains("--cap-add=SETFCAP"), "{report}");
    // A project and a state that cannot be written are named.
    let flags = [NO_FILTER, UNMASKED, "--read-only"];
    engine.confined(&flags, "0").assert_refused("--state-dir");
}

#[test]
fn containers_in_user_namespaces_need_the_same_flags() {
    let name = "containers_in_user_namespaces_need_the_same_flags";
    let engine = match Engine::new("mapped") {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    engine.belongs_to(100_000);
    let mapped = "--uidmap=0:100000:65536";
    for user in ["0", "1000"] {
        engine.confined(&[NO_FILTER, mapped], user).assert_refused("--security-opt unmask=ALL");
        engine.confined(&[NO_FILTER, UNMASKED, mapped], user).assert_confined(user);
        assert_well(&engine, &[NO_FILTER, UNMASKED, mapped], user);
    }
}

#[test]
fn an_ordinary_users_container_needs_the_same_flags() {
    let name = "an_ordinary_users_container_needs_the_same_flags";
    // One that has no numbers but its own.
    let engine = match Engine::started_by("rootless", Starter::User(65_534)) {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    engine.confined(&[NO_FILTER], "0").assert_refused("--security-opt unmask=ALL");
    engine.confined(&[NO_FILTER, UNMASKED], "0").assert_confined("0");
    assert_well(&engine, &[NO_FILTER, UNMASKED], "0");
}

#[test]
fn an_ordinary_user_can_stay_who_it_is_in_a_container() {
    let name = "an_ordinary_user_can_stay_who_it_is_in_a_container";
    let Some(user) = with_more_numbers() else {
        return skip(name, "no user has numbers in `/etc/subuid`, and `newuidmap` to use them");
    };
    let engine = match Engine::started_by("kept", Starter::User(user)) {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    let flags = [NO_FILTER, UNMASKED, "--userns=keep-id"];
    let number = user.to_string();
    let line = "cd /root/project; /opt/stockade run --no-daemon -- 'id -u; echo hi > made; cat made; echo x > /etc/planted'";
    let output = engine.run(&flags, "0", line);
    let seen = (text(&output.stdout), engine.system().join("etc/planted").exists());
    assert_eq!(seen, (format!("{number}\nhi\n"), false), "{}", text(&output.stderr));
    assert_well(&engine, &flags, "0");
}

/// Returns a user who may use more numbers than its own.
fn with_more_numbers() -> Option<u32> {
    std::process::Command::new("newuidmap").output().ok()?;
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let more = std::fs::read_to_string("/etc/subuid").ok()?;
    more.lines().find_map(|line| {
        let owner = line.split(':').next()?;
        let entry = users.lines().find(|user| user.split(':').next() == Some(owner))?;
        entry.split(':').nth(2)?.parse().ok()
    })
}

#[test]
fn a_profile_like_dockers_needs_the_calls_that_are_listed_and_no_more() {
    let name = "a_profile_like_dockers_needs_the_calls_that_are_listed_and_no_more";
    let engine = match Engine::new("docker") {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    let Some(closed) = engine.profile("closed.json", &[]) else {
        return skip(name, &format!("there is no `{PODMANS_PROFILE}`"));
    };
    let listed = listed();
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    let open = engine.profile("open.json", &listed).expect("a profile");
    for user in ["0", "1000"] {
        engine
            .confined(&[&flag(&closed), UNMASKED], user)
            .assert_refused("a system-call profile that allows");
        engine.confined(&[&flag(&open), UNMASKED], user).assert_confined(user);
        assert_well(&engine, &[&flag(&open), UNMASKED], user);
    }
}

#[test]
fn where_settings_allow_less_it_runs_asks_and_says_what_is_open() {
    let name = "where_settings_allow_less_it_runs_asks_and_says_what_is_open";
    let engine = match Engine::new("less") {
        Ok(engine) => engine,
        Err(reason) => return skip(name, &reason),
    };
    let Some(closed) = engine.profile("closed.json", &[]) else {
        return skip(name, &format!("there is no `{PODMANS_PROFILE}`"));
    };
    let closed = flag(&closed);
    let masked = ["protected", "unix-sockets", "processes", "limits"].map(str::to_owned).to_vec();
    let bare = [
        "metadata-outside",
        "protected",
        "hidden-names",
        "loopback",
        "processes",
        "limits",
        "survivors",
    ]
    .map(str::to_owned)
    .to_vec();
    // A container with namespaces and without a `/proc` of its own; one without namespaces.
    for (flags, open) in [(&[NO_FILTER][..], masked), (&[&closed, UNMASKED][..], bare)] {
        for user in ["0", "1000"] {
            engine.settings(&json!({"sandbox": {"failIfUnavailable": false}}));
            let seen = engine.confined(flags, user);
            assert_eq!((seen.status, seen.ran), (Some(121), false), "{}", seen.told);
            assert!(seen.told.contains("needs a person"), "{}", seen.told);
            engine.settings(&json!({
                "sandbox": {"failIfUnavailable": false}, "permissions": {"allow": ["Bash", "Edit"]}
            }));
            let seen = engine.confined(flags, user);
            seen.assert_confined(user);
            assert_eq!(seen.status, Some(1), "{}", seen.told);
            let line =
                seen.told.lines().find_map(|it| it.strip_prefix("stockade: not enforced here: "));
            let line = line.unwrap_or_else(|| panic!("{}", seen.told));
            let told: Vec<String> = line
                .split("); ")
                .filter_map(|it| it.split_once(" (").map(|(name, _)| name.to_owned()))
                .collect();
            assert_eq!(told, open, "{}", seen.told);
        }
    }
}

/// Returns the calls that `docs/guide/containers.md` names.
fn listed() -> Vec<String> {
    let page = std::fs::read_to_string(stockade_tests::root().join("docs/guide/containers.md"))
        .expect("the page");
    let (_, list) = page.split_once("without a condition is enough: ").expect("the list");
    let (list, _) = list.split_once(". What").expect("its end");
    list.split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect()
}
