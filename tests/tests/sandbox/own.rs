//! The processes of stockade in a run: what they gave up, and what the command can do to them.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

use crate::place::{Place, Ran, as_root_and_user, is_root, run, start};

/// Returns the fields of a text in the form of `/proc/PID/status` that start with one of `names`, in their order there.
fn fields<'a>(status: &'a str, names: &[&str]) -> Vec<(&'a str, &'a str)> {
    let pairs = status.lines().filter_map(|line| line.split_once(":\t"));
    pairs.filter(|(name, _)| names.iter().any(|it| name.starts_with(it))).collect()
}

#[test]
fn process_1_keeps_one_capability_and_is_filtered() {
    as_root_and_user("own::process_1_keeps_one_capability_and_is_filtered", || {
        let place = Place::new("own-rights");
        let names = ["Cap", "NoNewPrivs", "Seccomp"];
        let outside = fs::read_to_string("/proc/self/status").unwrap();
        let filters: u32 = fields(&outside, &["Seccomp_filters"])[0].1.parse().unwrap();
        let status = place.confined("cat /proc/1/status").text;
        assert!(status.starts_with(&format!("Name:\t{}\n", stockade_spec::INIT_NAME)), "{status}");
        // CAP_SYS_PTRACE is 19 (`linux/capability.h`): the supervisor reads what callers point at.
        let (none, traces) = ("0000000000000000", "0000000000080000");
        let filters = (filters + 1).to_string();
        assert_eq!(
            fields(&status, &names),
            [
                ("CapInh", none),
                ("CapPrm", traces),
                ("CapEff", traces),
                ("CapBnd", none),
                ("CapAmb", none),
                ("NoNewPrivs", "1"),
                ("Seccomp", "2"),
                ("Seccomp_filters", &*filters),
            ]
        );
    });
}

/// Of the same user as the command, pid 1 is out of its reach by its Landlock scope alone.
#[test]
fn process_1_cannot_be_signalled_traced_or_looked_into() {
    as_root_and_user("own::process_1_cannot_be_signalled_traced_or_looked_into", || {
        let place = Place::new("own-signals");
        // The command signals a process of its own run, and no signal means no process of ours was ended.
        let script = "sleep 100 & kill -0 $! && kill -9 $! || exit 3
             for signal in 0 TERM KILL; do
                 perl -e '$! = 0; kill($ARGV[0], 1) and exit 1; $!{EPERM} or die $!' $signal || exit 4
             done
             perl -e 'syscall(101, 0x4206, 1, 0, 0) == -1 or exit 1; $!{EPERM} or die $!' || exit 5
             ! cat /proc/1/environ || exit 6
             ! readlink /proc/1/fd/0 || exit 7";
        let Ran { exit, text, .. } = run(&place.spec(script)).unwrap();
        assert_eq!(exit.code, Some(0), "{text}");
    });
}

/// Files in `/proc/PID` that tell secrets of a process that cannot be dumped belong to root (`proc(5)`).
#[test]
fn neither_monitor_nor_process_1_can_be_looked_into() {
    as_root_and_user("own::neither_monitor_nor_process_1_can_be_looked_into", || {
        let place = Place::new("own-dumps");
        let (child, _, mut reader) = start(&place.spec("echo ready; exec sleep 100")).unwrap();
        reader.read_exact(&mut [0; 6]).unwrap();
        let monitor = child.monitor();
        let children = format!("/proc/{monitor}/task/{monitor}/children");
        let init: u32 = fs::read_to_string(children).unwrap().trim().parse().unwrap();
        let owner = |pid: u32| fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid();
        let of_command: u32 = {
            let children = format!("/proc/{init}/task/{init}/children");
            fs::read_to_string(children).unwrap().trim().parse().unwrap()
        };
        let own = owner(std::process::id());
        assert_eq!([owner(monitor), owner(init), owner(of_command)], [0, 0, own]);
        if is_root() {
            println!("for root the owner is the same either way: the ordinary user's turn tells");
        }
        drop(child);
    });
}
