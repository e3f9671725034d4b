#!/bin/bash
# The service of the machine under the load of many users: tests/benches/load.sh [STOCKADE [USERS [CALLS [AT_ONCE [RATE]]]]].
# Each of USERS (200) makes CALLS (25) calls of `stockade run`, AT_ONCE (8) of all of them at the same time, as fast as they go or RATE
# in a minute. STOCKADE is an executable of any build directory; without one, that of the release build. Needs root, Python 3, and
# leaves the machine as it is: all happens in namespaces of its own. Prints one table, which docs/internals/performance.md shows, and
# ends with 1 if a call that ran has not two records or the log is not whole. CHAOS=1 kills one process of the service every second.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
stockade=$(realpath -e -- "${1:-${CARGO_TARGET_DIR:-$root/target}/release/stockade}")
# The log lies on a disk, where each record waits until it is written.
disk=$(mktemp -d "${TMPDIR:-/tmp}/stockade-load-XXXXXX")
trap 'rm -rf "$disk"' EXIT
prepare='
set -e
mount --make-rprivate /
for folder in etc var; do
    mkdir -p "$1/$folder/upper" "$1/$folder/work"
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$1/$folder/upper,workdir=$1/$folder/work" "/$folder"
done
for folder in run home usr/local; do mount -t tmpfs -o mode=755 none "/$folder"; done
mkdir -p /usr/local/bin && cp "$2" /usr/local/bin/stockade && chmod 755 /usr/local/bin/stockade
rm -rf /etc/stockade /var/log/stockade /var/lib/stockade
for number in $(seq "$3"); do
    id=$((20000 + number)) name=u$number
    echo "$name:x:$id:$id::/home/$name:/bin/bash" >> /etc/passwd
    echo "$name:x:$id:" >> /etc/group
    mkdir -p "/home/$name/project/.git" && chown -R "$id:$id" "/home/$name"
done
shift 2
exec python3 -c "$LOAD" "$@"
'
export LOAD='
import collections, json, os, random, signal, statistics, subprocess, sys, threading, time

USERS, CALLS, AT_ONCE = (int(it) for it in sys.argv[1:4])
RATE = int(sys.argv[4]) if len(sys.argv) > 4 and sys.argv[4] else 0
STOCKADE = "/usr/local/bin/stockade"
POLICY = {"requireGateway": True, "permissions": {"allow": ["Bash(*)"]}}
ROLES = ("listener", "keeper", "gateway", "recorder")


def root(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def processes():
    """Process numbers by role; what a gateway started counts as it."""
    found = collections.defaultdict(list)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        role = words[1].decode(errors="replace")[7:] if len(words) > 1 and words[1].startswith(b"system-") else ""
        if role in ROLES:
            found[role].append(int(pid))
    return found


def seconds(pids):
    """Processor time of these, and of their children that ended."""
    total = 0
    for pid in pids:
        try:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            total += sum(int(it) for it in fields[11:15])
        except OSError:
            pass
    return total / os.sysconf("SC_CLK_TCK")


def memory(pids):
    total = 0
    for pid in pids:
        try:
            lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
            total += sum(int(it.split()[1]) for it in lines if it.startswith("Pss:"))
        except OSError:
            pass
    return total // 1024


open("/etc/policy.json", "w").write(json.dumps(POLICY))
root(STOCKADE, "install", "--system", "--manager", "script", "--policy", "/etc/policy.json")
jobs = [(user, call) for call in range(CALLS) for user in range(1, USERS + 1)]
queue = collections.deque(enumerate(jobs))
taken, refused, marks = [], collections.Counter(), set()
lock = threading.Lock()
begun = time.monotonic()


def work():
    while True:
        with lock:
            if not queue:
                return
            place, (user, call) = queue.popleft()
        if RATE:
            time.sleep(max(0, begun + place * 60 / RATE - time.monotonic()))
        uid, mark = 20000 + user, f"mark-{user}-{call}"
        t = time.monotonic()
        ran = subprocess.run(
            [STOCKADE, "run", "--", f"echo {mark}"], user=uid, group=uid, extra_groups=[], capture_output=True, text=True,
            cwd=f"/home/u{user}/project", stdin=subprocess.DEVNULL,
            env={"HOME": f"/home/u{user}", "PATH": "/usr/local/bin:/usr/bin:/bin"})
        with lock:
            taken.append(time.monotonic() - t)
            if ran.stdout.strip() == mark:
                marks.add((uid, f"echo {mark}"))
            else:
                said = (ran.stderr.strip().splitlines() or ["nothing"])[0]
                refused["".join("N" if it.isdigit() else it for it in said)[:160]] += 1


def kills():
    while queue:
        time.sleep(1)
        role = random.choice(ROLES)
        for pid in processes()[role][:1]:
            os.kill(pid, signal.SIGKILL)


threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
if os.environ.get("CHAOS"):
    threads.append(threading.Thread(target=kills))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
lasted = time.monotonic() - begun
found = processes()
spent = {role: seconds(found[role]) for role in ROLES}
held = {role: memory(found[role]) for role in ROLES}
gateways = len(found["gateway"])
spent["clients"] = sum(os.times()[2:4])

decisions, results = {}, collections.Counter()
folder = "/var/log/stockade"
size = 0
time.sleep(3)  # for what a new recorder writes about those before it
for name in sorted(os.listdir(folder)):
    if name.endswith(".jsonl"):
        text = open(f"{folder}/{name}").read().rstrip("\0")
        size += len(text)
        for line in text.splitlines():
            record = json.loads(line)
            if record["kind"] == "decision":
                decisions[record["id"]] = (record["caller"]["uid"], record["request"]["command"])
            elif record["kind"] == "result":
                results[record["ref"]] += 1
recorded = collections.Counter(it for key, it in decisions.items() if results[key] == 1)
unrecorded = [it for it in marks if recorded[it] < 1]
wrong = [it for it in decisions.values() if not it[1].startswith(f"echo mark-{it[0] - 20000}-")]
verified = subprocess.run([STOCKADE, "audit", "verify", folder, "--state-dir", "/var/lib/stockade/log"], capture_output=True, text=True)

taken.sort()
at = lambda share: 1000 * taken[min(len(taken) - 1, int(share * len(taken)))]
rows = [
    ("calls that ran, of all", f"{len(marks)} of {len(jobs)}"),
    ("in", f"{lasted:.0f} s"),
    ("calls in a minute", f"{60 * len(marks) / lasted:.0f}"),
    ("a call takes: median, 95 %, 99 %, longest", " ".join(f"{at(it):.0f}" for it in (0.5, 0.95, 0.99, 1)) + " ms"),
    ("gateways at the end", str(gateways)),
] + [(f"processor time of {role}, for a call", f"{1000 * spent[role] / len(jobs):.2f} ms") for role in (*ROLES, "clients")]
rows += [(f"memory of {role}", f"{held[role]} MB") for role in ROLES]
rows += [("log", f"{size / 1e6:.1f} MB, {size // max(1, len(marks))} bytes a call")]
rows += [(f"refused: {said}", str(count)) for said, count in refused.most_common()]
rows += [
    ("commands that ran without two records", str(len(unrecorded))),
    ("calls that were recorded for another user", str(len(wrong))),
    ("the log", "whole" if verified.returncode == 0 else verified.stderr.strip() or verified.stdout.strip()),
]
print("| what | it takes |\n|---|---:|")
for what, value in rows:
    print(f"| {what} | {value} |")
subprocess.run(["/etc/init.d/stockade", "stop"], capture_output=True)
sys.exit(1 if unrecorded or wrong or verified.returncode else 0)
'
unshare --mount --pid --fork --kill-child --mount-proc sh -c "$prepare" sh "$disk" "$stockade" "${2:-200}" "${3:-25}" "${4:-8}" "${5:-}"
