//! Root loses nothing: what uid 0 could do to the host without any capability, seen from outside.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use stockade_tests::skip;

use crate::place::{Place, is_root};

/// Returns what an act inside could have changed.
fn state(folder: &str) -> Vec<String> {
    let mut state = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, found) = (entry.path(), entry.metadata().unwrap());
        let text = fs::read_to_string(&path).unwrap_or_default();
        let (mode, uid, links) = (found.mode(), found.uid(), found.nlink());
        state.push(format!("{path:?} {mode:o} {uid} {links} {} {text}", found.mtime()));
    }
    for path in ["/dev/null", "/etc", "/"] {
        let found = fs::symlink_metadata(path).unwrap();
        state.push(format!("{path} {:o} {} {}", found.mode(), found.uid(), found.uid()));
    }
    state.sort();
    state
}

/// Acts of root: each would succeed outside, and none does harm should it succeed.
fn acts(pid: u32) -> String {
    let same = |path: &str| format!("v=$(cat {path}) && echo \"$v\" > {path}\n");
    let settings = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/panic",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/vm/swappiness",
        "/proc/sys/fs/file-max",
        "/proc/self/oom_score_adj",
    ];
    let mut acts: String = settings.iter().map(|path| same(path)).collect();
    acts.push_str(
        "echo h > /proc/sysrq-trigger
for f in /sys/fs/cgroup/*/release_agent; do v=$(cat $f) && echo \"$v\" > $f && break; done
for f in /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs; do echo $$ > $f && break; done
chmod 600 $F/file
chown 1 $F/file
touch -d @0 $F/file
setfattr -n user.x -v y $F/file
chattr +d $F/file
echo x >> $F/file
echo x > $F/new
mkdir $F/newdir
rm -f $F/file && test ! -e $F/file
mv $F/file $F/moved
ln $F/file hard
ln -s $F/file soft && echo x >> soft
chmod 666 /dev/null && test $(stat -c %d /dev/null) = $DEV
mknod b b 250 250
mknod c c 1 3
dd if=/dev/mem of=/dev/null bs=1 count=1
head -c 1 /dev/kmsg
head -c 1 /dev/vda
head -c 1 /dev/sda
mount -t tmpfs none /mnt
mount --bind /tmp /mnt
mount -o remount,rw /
chroot / true
unshare -m true
unshare -U true
nsenter -t $PID -m true
kill -0 $PID
renice -n 1 -p $PID
cat /proc/$PID/root/etc/shadow
ls /proc/$PID
dmesg
cp /bin/sh s && chmod 4755 s
cp /bin/sh s && chmod 2755 s
setcap cap_sys_admin+ep s
capsh --has-p=cap_sys_admin
setpriv --reuid 65534 true
perl -e 'syscall(175, 0, 0, 0) == -1 && $!{EPERM} and exit 1'
perl -e 'syscall(161, \"/\") == 0 or exit 1'
perl -e 'syscall(163, 0) == 0 or exit 1'
perl -e 'syscall(321, 0, 0, 0) == -1 && $!{EPERM} and exit 1'
echo x > /proc/self/root$F/new
exec 3</ && echo x > /proc/self/fd/3$F/new
echo x > /proc/1/root$F/new
",
    );
    acts.replace("$PID", &pid.to_string())
}

#[test]
fn root_changes_nothing_outside() {
    let test = "root::root_changes_nothing_outside";
    if !is_root() {
        skip(test, "an ordinary user has nothing to lose");
        return;
    }
    let place = Place::new("root");
    let folder = format!("/etc/stockade-test-{}", std::process::id());
    fs::create_dir(&folder).unwrap();
    fs::write(format!("{folder}/file"), "kept").unwrap();
    let device = fs::metadata("/dev").unwrap().dev();
    let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
    let before = state(&folder);
    let mut worked = Vec::new();
    for act in acts(victim.id()).lines() {
        let script = format!("F={folder}; DEV={device}; {act}");
        if place.confined(&script).code == Some(0) {
            worked.push(act.to_owned());
        }
    }
    let after = state(&folder);
    fs::remove_dir_all(&folder).unwrap();
    assert!(victim.try_wait().unwrap().is_none(), "the process outside lives");
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(worked, Vec::<String>::new());
    assert_eq!(after, before);
}
