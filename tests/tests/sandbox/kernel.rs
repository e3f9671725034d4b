//! System calls, kernel settings, rights and limits.

use std::fs;

use stockade_spec::Protection;
use stockade_tests::skip;

use crate::place::{Place, as_root_and_user, is_root, run, told};

/// Numbers of x86-64; on others these tests say that they do not run.
fn on_x86_64(test: &str) -> bool {
    let here = cfg!(target_arch = "x86_64");
    if !here {
        skip(test, "the numbers are those of x86-64");
    }
    here
}

/// A script that exits 0 unless the kernel refuses the call with EPERM, ENOSYS or EAFNOSUPPORT. Outside
/// of a sandbox any other error counts as "let through": the arguments are nonsense on purpose.
fn call(arguments: &str) -> String {
    format!(
        "perl -e '$! = 0; syscall({arguments}); exit(($! == 1 || $! == 38 || $! == 97) ? 1 : 0)'"
    )
}

#[test]
fn dangerous_calls_are_refused() {
    as_root_and_user("kernel::dangerous_calls_are_refused", || {
        if !on_x86_64("dangerous_calls_are_refused") {
            return;
        }
        let place = Place::new("calls");
        // (call, whether an ordinary user gets through outside)
        for (arguments, user) in [
            ("165, 0, 0, 0, 0, 0", false),   // mount
            ("272, 0x10000000", true),       // unshare user namespace
            ("272, 0x40000000", false),      // unshare network namespace
            ("308, -1, 0", true),            // setns
            ("321, 99, 0, 0", true),         // bpf
            ("425, 0, 0", true),             // io_uring_setup
            ("298, 0, 0, -1, -1, 0", true),  // perf_event_open
            ("323, 1", true),                // userfaultfd
            ("250, 0, -3, 0", true),         // keyctl
            ("248, 0, 0, 0, 0, 0", true),    // add_key
            ("304, -1, 0, 0", false),        // open_by_handle_at
            ("435, 0, 0", true),             // clone3
            ("437, -1, 0, 0, 0", true),      // openat2
            ("155, 0, 0", false),            // pivot_root
            ("438, -1, 0, 0", true),         // pidfd_getfd
            ("312, $$, $$, 99, 0, 0", true), // kcmp
            ("428, -1, 0, 0x1", false),      // open_tree
            ("41, 2, 3, 1", false),          // raw socket
            ("41, 1, 2, 0", true),           // datagram socket of the host's kind
            ("41, 16, 3, 9", true),          // netlink audit
            ("41, 40, 1, 0", true),          // vsock
            ("157, 35, 1, 0, 0, 0", false),  // PR_SET_MM
            ("317, 1, 8, 0", true),          // a filter with a listener
            ("16, 1, 0x5412, 0", true),      // TIOCSTI
            ("16, 1, 0x100005412, 0", true), // with a bit above the kernel's width
            ("16, 1, 0x541C, 0", true),      // TIOCLINUX
            ("16, 1, 0x50009401, 0", true),  // a snapshot of Btrfs
            ("16, 1, 0x5000940E, 0", true),  // a subvolume of Btrfs
            ("103, 99, 0, 0", true),         // syslog
            ("135, 0x0400000", true),        // personality READ_IMPLIES_EXEC
            ("463, -100, 0, 0, 0, 0", true), // setxattrat
            ("466, -100, 0, 0, 0", true),    // removexattrat
            ("467, -100, 0, 0, 0, 0", true), // open_tree_attr
            ("469, -100, 0, 0, 0, 0", true), // file_setattr
            ("460, 0, 0, 0, 0", true),       // lsm_set_self_attr
        ] {
            let script = call(arguments);
            let outside = place.plain(&script).code;
            if outside != Some(0) && (!user || !is_root()) {
                println!("{arguments}: refused here without a sandbox too");
            } else {
                assert_eq!(outside, Some(0), "must get through unconfined: {arguments}");
            }
            assert_eq!(place.confined(&script).code, Some(1), "must be refused: {arguments}");
        }
    });
}

#[test]
fn calls_that_are_not_known_do_not_exist() {
    as_root_and_user("kernel::calls_that_are_not_known_do_not_exist", || {
        if !on_x86_64("calls_that_are_not_known_do_not_exist") {
            return;
        }
        let place = Place::new("unknown-calls");
        // ENOSYS is 38. 335 and 336 are left out: the kernel keeps them for itself.
        let script = "perl -e 'for my $n (337..423, 463..600, 100000) { $! = 0; syscall($n, -1, 0, 0, 0, 0, 0); \
             $! == 38 or print \"$n \" }'";
        assert_eq!(place.confined(script).text, "");
    });
}

/// A program that asks for its number through the entry of another architecture, and says whether it got one.
const FOREIGN: &str = r#"
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    long number;
    (void)words;
    if (count > 1)
        number = syscall(0x40000000 | SYS_getpid);
    else
        __asm__ volatile("int $0x80" : "=a"(number) : "a"(20L) : "memory");
    return number > 0 ? 0 : 3;
}
"#;

#[test]
fn the_entries_of_other_architectures_end_the_process() {
    as_root_and_user("kernel::the_entries_of_other_architectures_end_the_process", || {
        let name = "the_entries_of_other_architectures_end_the_process";
        if !on_x86_64(name) {
            return;
        }
        let place = Place::new("entries");
        fs::write(place.project.join("entry.c"), FOREIGN).unwrap();
        if place.plain("cc -o entry entry.c").code != Some(0) {
            return skip(name, "there is no C compiler");
        }
        for (entry, script) in [("32-bit", "./entry"), ("x32", "./entry x")] {
            if place.plain(script).code != Some(0) {
                skip(
                    name,
                    &format!("this kernel has no {entry} entry, which would end the process too"),
                );
            }
            // The number of SIGSYS is 31.
            let ran = place.confined(&format!("{script}; echo $?"));
            assert!(ran.text.ends_with("159\n"), "{entry}: {ran:?}");
        }
    });
}

#[test]
fn a_refused_call_is_reported_by_name() {
    as_root_and_user("kernel::a_refused_call_is_reported_by_name", || {
        if !on_x86_64("a_refused_call_is_reported_by_name") {
            return;
        }
        let place = Place::new("told-calls");
        let script = "perl -e 'syscall(321, 99, 0, 0); syscall(321, 98, 0, 0); syscall(16, 1, 0x5412, 0); \
             syscall(41, 40, 1, 0); $! == 97 or die; syscall(272, 0x10000000) == -1 or die; \
             syscall(435, 0, 0); mkdir(\"d\", 02755) and die; $!{EPERM} or die' && test ! -e d";
        let ran = run(&place.spec(script)).unwrap();
        assert_eq!(ran.exit.code, Some(0), "{}", ran.text);
        let rule = "builtin: system calls";
        let expected = [
            ("syscall", "bpf", "", rule),
            ("syscall", "ioctl", "command 0x5412", rule),
            ("syscall", "socket", "family 40, type 1, protocol 0", rule),
            ("syscall", "unshare", "", rule),
            ("syscall", "mkdir", "", rule),
        ];
        assert_eq!(told(&ran), expected);
        assert_eq!((ran.violations[0].count, &*ran.violations[0].source), (2, "filter"));
    });
}

#[test]
fn user_namespaces_and_mounts_cannot_be_made() {
    as_root_and_user("kernel::user_namespaces_and_mounts_cannot_be_made", || {
        let place = Place::new("nesting");
        place.stops("unshare -Ur true", || ());
        place.stops("unshare -Urm mount -t tmpfs none /mnt", || ());
    });
}

#[test]
fn set_id_bits_and_devices_cannot_be_made() {
    as_root_and_user("kernel::set_id_bits_and_devices_cannot_be_made", || {
        let place = Place::new("set-id");
        fs::write(place.project.join("f"), "").unwrap();
        fs::create_dir(place.project.join("d")).unwrap();
        let undo = || drop(fs::remove_file(place.project.join("g")));
        for script in [
            "chmod 4755 f",
            "chmod 2755 f",
            "chmod g+s d",
            "perl -e 'use Fcntl; sysopen(F, \"g\", O_CREAT|O_WRONLY, 04755) or exit 1'",
        ] {
            place.stops(script, undo);
        }
        if is_root() {
            place.stops("mknod g c 1 3", undo);
        } else {
            println!("mknod: refused to an ordinary user without a sandbox too");
        }
    });
}

#[test]
fn kernel_settings_cannot_be_written() {
    as_root_and_user("kernel::kernel_settings_cannot_be_written", || {
        let place = Place::new("settings");
        if !is_root() {
            println!("kernel settings: refused to an ordinary user without a sandbox too");
        }
        for name in ["kernel/core_pattern", "vm/overcommit_memory", "kernel/hostname"] {
            // Writing the value that is there is enough to show the right.
            let script = format!("v=$(cat /proc/sys/{name}) && echo \"$v\" > /proc/sys/{name}");
            if is_root() {
                place.stops(&script, || ());
            } else {
                assert_ne!(place.confined(&script).code, Some(0), "{name}");
            }
        }
        assert_ne!(place.confined("echo h > /proc/sysrq-trigger").code, Some(0));
        assert_ne!(place.confined("echo 100 > /proc/self/oom_score_adj").code, Some(0));
        assert_ne!(place.confined("cat /proc/kallsyms").code, Some(0));
        assert_ne!(place.confined("ls /sys/kernel/debug").code, Some(0));
        place.works("cat /proc/meminfo /proc/cpuinfo /proc/self/status > /dev/null");
    });
}

#[test]
fn there_are_no_capabilities() {
    as_root_and_user("kernel::there_are_no_capabilities", || {
        let place = Place::new("capabilities");
        let text = place.confined("grep -E '^(Cap|NoNewPrivs)' /proc/self/status").text;
        let none = "0000000000000000";
        let expected = format!(
            "CapInh:\t{none}\nCapPrm:\t{none}\nCapEff:\t{none}\nCapBnd:\t{none}\nCapAmb:\t{none}\nNoNewPrivs:\t1\n"
        );
        assert_eq!(text, expected);
    });
}

#[test]
fn limits_hold() {
    as_root_and_user("kernel::limits_hold", || {
        let place = Place::new("limits");
        let mut spec = place.spec("ulimit -c; ulimit -n; ulimit -Hn; ulimit -f");
        spec.limits.file_bytes = 1 << 20;
        spec.limits.descriptors = 256;
        spec.limits.descriptors_hard = 512;
        assert_eq!(place.run(&spec).text, "0\n256\n512\n1024\n");
        // A bomb of processes ends with refusals, not with the machine.
        let script = "perl -e '$n = 0; while ($n < 900 and defined(my $p = fork)) { $p or sleep 100, exit; \
             $n++ } print $n'";
        let mut spec = place.spec(script);
        spec.limits.processes = 200;
        let started: u64 = place.run(&spec).text.parse().unwrap();
        assert!((150..=500).contains(&started), "{started}");
    });
}

#[test]
fn a_crash_leaves_no_core_file_and_starts_nothing() {
    as_root_and_user("kernel::a_crash_leaves_no_core_file_and_starts_nothing", || {
        let place = Place::new("core");
        let script = "ulimit -c unlimited 2> /dev/null; echo $?; \
             grep 'Max core' /proc/self/limits | tr -s ' '; perl -e 'kill SEGV => $$'; echo $?; ls";
        let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
        if pattern == "core\n" && is_root() {
            let plain = place.plain(script).text;
            assert!(plain.starts_with("0\n") && plain.contains("\ncore"), "{plain}");
            place.plain("rm core*");
        }
        // With a limit of exactly one byte the kernel starts no program either.
        let expected = "1\nMax core file size 1 1 bytes \n139\n";
        let told = place.confined(script).text;
        let told: String =
            told.lines().filter(|it| !it.contains("Segm")).map(|it| format!("{it}\n")).collect();
        assert_eq!(told, expected);
    });
}

#[test]
fn the_highest_process_number_of_the_machine_stays() {
    as_root_and_user("kernel::the_highest_process_number_of_the_machine_stays", || {
        let place = Place::new("highest");
        let highest = || fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
        let before = highest();
        let mut spec = place.spec("true");
        spec.limits.processes = 200;
        assert_eq!(place.run(&spec).code, Some(0));
        assert_eq!(highest(), before);
    });
}

#[test]
fn memory_of_the_tree_is_bounded_and_reported() {
    as_root_and_user("kernel::memory_of_the_tree_is_bounded_and_reported", || {
        let place = Place::new("memory");
        let script =
            "for i in 1 2 3; do perl -e '$n = 30 << 20; $x = \"a\" x $n; sleep 20' & done; wait";
        let mut spec = place.spec(script);
        spec.limits.memory_bytes = 80 << 20;
        let ran = run(&spec).unwrap();
        assert_eq!(ran.exit.signal, Some(9));
        let seen: Vec<_> = ran.violations.iter().map(|it| (&*it.kind, &*it.call)).collect();
        assert_eq!(seen, [("limit", "memory")]);
    });
}

/// Runs a bomb of one kind under a low limit; returns what was told of limits.
fn bomb(
    place: &Place,
    script: &str,
    lower: impl Fn(&mut stockade_spec::Limits),
) -> (crate::place::Ran, Vec<String>) {
    let mut spec = place.spec(script);
    lower(&mut spec.limits);
    let ran = run(&spec).unwrap();
    let limits = ran.violations.iter().filter(|it| it.kind == "limit");
    let limits = limits.map(|it| format!("{} {} {}", it.call, it.object, it.rule)).collect();
    (ran, limits)
}

#[test]
fn a_bomb_of_each_kind_ends_and_is_reported_with_its_limit() {
    as_root_and_user("kernel::a_bomb_of_each_kind_ends_and_is_reported_with_its_limit", || {
        let place = Place::new("bombs");
        let fork = "perl -e '$n = 0; while (defined(my $p = fork)) { $p or sleep 100, exit; $n++ } sleep 5; print $n'";
        let (_, told) = bomb(&place, fork, |limits| limits.processes = 150);
        assert_eq!(told, ["processes 150 processes builtin: sandbox.limits.processes"]);
        // Bit by bit, by doubling, and all at once.
        let grow = "perl -e '$x .= \"a\" x (1 << 20) while 1'";
        let double = "perl -e '$x = \"a\" x (1 << 20); $x .= $x for 1 .. 9; sleep 20'";
        let at_once = "perl -e '$x = \"a\" x (500 << 20); sleep 20'";
        for script in [grow, double, at_once] {
            let (ran, told) = bomb(&place, script, |limits| limits.memory_bytes = 200 << 20);
            assert_eq!(ran.exit.signal, Some(9), "{script}");
            assert_eq!(told, ["memory 209715200 bytes builtin: sandbox.limits.memory"], "{script}");
        }
        let (ran, told) = bomb(&place, "head -c 4M /dev/zero > large; exit $?", |limits| {
            limits.file_bytes = 1 << 20;
        });
        assert_eq!(ran.exit.code, Some(128 + 25));
        assert_eq!(told, ["fileSize 1048576 bytes builtin: sandbox.limits.fileSize"]);
        assert_eq!(fs::metadata(place.project.join("large")).unwrap().len(), 1 << 20);
        let open = "perl -e 'while (open(my $f, \"<\", \"/dev/null\")) { push @f, $f } print scalar @f; sleep 5'";
        let (ran, told) = bomb(&place, open, |limits| limits.descriptors = 100);
        assert!(ran.text.parse::<u32>().unwrap() < 100, "{}", ran.text);
        if fs::metadata("/proc/self/fd").unwrap().len() == 0 {
            skip("a bomb of descriptors", "this kernel does not count them (Linux 6.2 does)");
        } else {
            assert_eq!(told, ["descriptors 100 descriptors builtin: sandbox.limits.descriptors"]);
        }
        let open =
            "perl -e 'while (open(my $f, \">\", \"/tmp/f\")) { push @f, $f } print scalar @f'";
        let (_, told) = bomb(&place, open, |limits| limits.descriptors = 100);
        assert!(told.len() == 1 && told[0].starts_with("descriptors "), "{told:?}");
        let (ran, told) =
            bomb(&place, "while :; do head -c 1M /dev/zero > x; sync x; done", |limits| {
                limits.disk_bytes = 30 << 20;
            });
        assert_eq!(ran.exit.signal, Some(9));
        assert_eq!(told, ["diskWritten 31457280 bytes builtin: sandbox.limits.diskWritten"]);
    });
}

#[test]
fn only_three_descriptors_are_passed() {
    as_root_and_user("kernel::only_three_descriptors_are_passed", || {
        let place = Place::new("descriptors");
        // Held open without close-on-exec, as a careless caller would.
        let held = fs::File::open("/etc/passwd").unwrap();
        let text = place.confined("ls /proc/self/fd").text;
        drop(held);
        assert_eq!(text, "0\n1\n2\n3\n", "3 is the directory that `ls` reads");
    });
}

#[test]
fn every_protection_has_a_state() {
    as_root_and_user("kernel::every_protection_has_a_state", || {
        let place = Place::new("states");
        let ran = run(&place.spec("true")).unwrap();
        let states: Vec<_> = ran.enforced.states.keys().copied().collect();
        assert_eq!(states, Protection::ALL);
        for protection in [
            Protection::WriteOutside,
            Protection::NoRead,
            Protection::Network,
            Protection::KernelSettings,
            Protection::Privilege,
            Protection::Syscalls,
            Protection::Tty,
            Protection::Fds,
            Protection::Env,
            Protection::Survivors,
            Protection::Processes,
        ] {
            assert!(ran.enforced.holds(protection), "{protection:?}: {:?}", ran.enforced);
        }
    });
}
