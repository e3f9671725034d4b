//! Acts of a run against the processes that watch it: none keeps them from their work.

use std::fs;
use std::process::{Child, Command};

use stockade_spec::{Fallback, Violation};
use stockade_tests::lacking::user_namespaces;
use stockade_tests::skip;

use crate::place::{Place, as_root_and_user, run, run_without};

/// A process that does nothing, ended with this value.
struct Victim(Child);

impl Victim {
    fn start() -> Victim {
        Victim(Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Acts on another process, whose number is `N`; each takes something away that it may not have back.
const ACTS: &[&str] = &[
    "prlimit --pid N --nofile=1:1",
    "prlimit --pid N --fsize=0:0",
    "prlimit --pid N --nproc=0:0",
    "renice -n 19 -p N",
    "ionice -c 3 -p N",
    "taskset -p 1 N",
    "chrt --idle -p 0 N",
    "chrt --batch -p 0 N",
];

#[test]
fn limits_and_priorities_of_the_watchers_cannot_be_changed() {
    as_root_and_user("watchers::limits_and_priorities_of_the_watchers_cannot_be_changed", || {
        let place = Place::new("limits");
        for act in ACTS {
            let victim = Victim::start();
            let outside = place.plain(&act.replace('N', &victim.0.id().to_string()));
            assert_eq!(outside.code, Some(0), "must work unconfined: {act} {}", outside.text);
            let inside = place.confined(&act.replace('N', "1"));
            assert_ne!(inside.code, Some(0), "must fail confined: {act} {}", inside.text);
        }
        // Ours belongs to the same user.
        let act = "renice -n 19 -u $(id -u)";
        assert_ne!(place.confined(act).code, Some(0), "{act}");
    });
}

#[test]
fn limits_of_a_process_named_by_its_number_can_be_asked_for() {
    as_root_and_user("watchers::limits_of_a_process_named_by_its_number_can_be_asked_for", || {
        let place = Place::new("asked-limits");
        let script = "python3 -c 'import os, resource as r
asked = r.prlimit(os.getpid(), r.RLIMIT_NOFILE) == r.getrlimit(r.RLIMIT_NOFILE)
try:
    r.prlimit(os.getpid(), r.RLIMIT_NOFILE, (64, 64))
    print(asked, \"set\")
except PermissionError:
    print(asked, \"refused\")'";
        let outside = place.plain(script);
        assert_eq!((outside.code, outside.text.as_str()), (Some(0), "True set\n"));
        let inside = place.confined(script);
        assert_eq!((inside.code, inside.text.as_str()), (Some(0), "True refused\n"));
    });
}

#[test]
fn without_namespaces_no_other_process_can_be_changed() {
    as_root_and_user("watchers::without_namespaces_no_other_process_can_be_changed", || {
        let place = Place::new("static-limits");
        let own = place.base.join("tmp");
        fs::create_dir_all(&own).unwrap();
        for act in ACTS {
            let victim = Victim::start();
            let act = act.replace('N', &victim.0.id().to_string());
            let mut spec = place.spec(&act);
            spec.fallback = Fallback::Static;
            spec.files.private_tmp = Some(own.clone());
            let inside = run_without(&user_namespaces(), &spec).unwrap();
            assert_ne!(inside.exit.code, Some(0), "must fail confined: {act} {}", inside.text);
            let outside = place.plain(&act);
            assert_eq!(outside.code, Some(0), "must work unconfined: {act} {}", outside.text);
        }
    });
}

#[test]
fn a_run_may_change_its_own_limits_and_priorities() {
    as_root_and_user("watchers::a_run_may_change_its_own_limits_and_priorities", || {
        let script = "set -e; ulimit -n 100; nice true; ionice -c 3 true; taskset 1 true; chrt --batch 0 true
             prlimit --nofile=50:50 true; sleep 9 & renice -n 19 -p $! >/dev/null; kill $!; echo done";
        let ran = Place::new("own-limits").confined(script);
        assert_eq!((ran.code, &*ran.text), (Some(0), "done\n"));
    });
}

fn told<'a>(violations: &'a [Violation], kind: &str) -> Vec<&'a str> {
    violations.iter().filter(|it| it.kind == kind).map(|it| &*it.call).collect()
}

/// Writes a configuration that runs a program; nobody can look into it before it is done.
const PLANT: &str =
    "mkdir -p n/.git/refs n/.git/objects && echo '[core] fsmonitor = x' > n/.git/config;";

#[test]
fn what_was_planted_is_found_although_pid_1_was_to_starve() {
    as_root_and_user("watchers::what_was_planted_is_found_although_pid_1_was_to_starve", || {
        let place = Place::new("starve");
        let script = format!("{PLANT} prlimit --pid 1 --nofile=1:1; kill -9 $$");
        let ran = run(&place.spec(&script)).unwrap();
        assert_eq!(told(&ran.violations, "planted"), ["core.fsmonitor"], "{:?}", ran.violations);
        assert_eq!(told(&ran.violations, "syscall"), ["prlimit64"]);
        assert!(!place.project.join("n/.git/config").exists());
    });
}

/// Takes a lease on a file of its own, and opens that file for writing, which would wait for the lease.
const LEASE: &str = "perl -e 'open(F, \">\", \"leased\"); close F; open(F, \"<\", \"leased\");
     $SIG{IO} = \"IGNORE\"; fcntl(F, 1024, 0) or exit 1; exit 0'";

#[test]
fn nobody_can_be_made_to_wait_for_a_lease() {
    as_root_and_user("watchers::nobody_can_be_made_to_wait_for_a_lease", || {
        let place = Place::new("lease");
        place.stops(LEASE, || {});
        let ran = run(&place.spec(&format!("{PLANT} {LEASE}"))).unwrap();
        assert_eq!(told(&ran.violations, "syscall"), ["fcntl"], "{:?}", ran.violations);
        assert_eq!(told(&ran.violations, "planted"), ["core.fsmonitor"]);
    });
}

/// The host's programs may hold leases; a run waits for them, the supervisor does not.
#[test]
fn a_lease_of_the_host_holds_up_only_who_opens_that_file() {
    as_root_and_user("watchers::a_lease_of_the_host_holds_up_only_who_opens_that_file", || {
        let place = Place::new("held");
        fs::write(place.project.join("held"), "x").unwrap();
        // The holder gives its lease up when it is asked to, after the other file is there.
        let holder = "use Fcntl; open(F, \"<\", \"held\") or die; fcntl(F, 1024, F_RDLCK) or die; $| = 1;
             $SIG{IO} = sub { select(undef, undef, undef, 0.02) until -e \"other\"; fcntl(F, 1024, F_UNLCK) };
             print \"ready\\n\"; sleep 1 while 1";
        let mut holder = Command::new("perl")
            .args(["-e", holder])
            .current_dir(&place.project)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let script = "(echo a >> held; echo written) & while ! test -e other; do echo o > new; mv new other; done; wait; cat held";
        let ran = place.confined(script);
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!((ran.code, &*ran.text), (Some(0), "written\nxa\n"));
    });
}

#[test]
fn descriptors_of_the_watchers_cannot_be_opened() {
    as_root_and_user("watchers::descriptors_of_the_watchers_cannot_be_opened", || {
        if !cfg!(target_arch = "x86_64") {
            skip(
                "watchers::descriptors_of_the_watchers_cannot_be_opened",
                "the number of the call is that of x86-64",
            );
            return;
        }
        let place = Place::new("their-descriptors");
        // Through a descriptor of the directory in `/proc`, of pid 1 and of the process that waits for the pipe.
        let script = "mkfifo pipe; perl -e '
            my $child = fork // die; if (!$child) { open(my $pipe, \">\", \"pipe\"); exit }
            my %ours = map { $_ => 1 } $$, $child, \"self\"; my ($own, $found, $others) = (0, 0, 0);
            sub opened { my $count = 0; sysopen(my $there, \"/proc/$_[0]\", 010000000) or return 0;
                for (0..63) { my $at = syscall(257, fileno($there), \"fd/$_\", 2); $count++ if $at >= 0 } $count }
            until ($others > 1) { my @all = map { m:(\\d+)$: } glob(\"/proc/[0-9]*\");
                $others = grep { !$ours{$_} } @all; $found += opened($_) for grep { !$ours{$_} } @all }
            $own = opened(\"self\"); kill 9, $child; print \"own \", $own > 0 ? 1 : 0, \", theirs $found\\n\"'";
        assert_eq!(place.confined(script).text, "own 1, theirs 0\n");
    });
}
