#!/bin/bash
# What output and tasks cost: tests/benches/tasks.sh [STOCKADE [ROUNDS [TASKS [BYTES]]]].
# STOCKADE is an executable of any build directory; without one, that of the release build. Needs a folder for state with 4 GB
# of room, TMPDIR or /tmp. Prints one table, which docs/internals/performance.md shows.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
stockade=$(realpath -e -- "${1:-${CARGO_TARGET_DIR:-$root/target}/release/stockade}")
rounds=${2:-5} many=${3:-1000} size=${4:-500000000} part=$((${4:-500000000} / 50))
top=$(mktemp -d) && chmod 700 "$top"
export HOME=$top/home XDG_STATE_HOME=$top/state XDG_RUNTIME_DIR=$top/run XDG_CONFIG_HOME=$top/home/.config
mkdir -p "$HOME" "$XDG_RUNTIME_DIR" "$top/p/.git" "$XDG_CONFIG_HOME/stockade"
chmod 700 "$XDG_RUNTIME_DIR"
echo '{"limits": {"sessionTasks": 2000, "sessionCommands": 2000, "sessionOutputBytes": 8000000000}}' > "$XDG_CONFIG_HOME/stockade/settings.json"
cd "$top/p"
"$stockade" serve > "$top/said" & gateway=$!
trap 'kill $gateway 2> /dev/null || true; wait $gateway 2> /dev/null || true; rm -rf "$top"' EXIT
until [ -s "$top/said" ]; do
    kill -0 $gateway 2> /dev/null || { echo "$0: the gateway did not start" >&2; exit 1; }
    sleep 0.05
done
since() { echo $(( ($(date +%s%N) - $1) / 1000000 )); }
memory() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$gateway/status"; }
median() { sort -n | sed -n "$(( (rounds + 1) / 2 ))p"; }
in_session() { "$stockade" run --session bench --background --quiet -- "$1"; }
row() { printf '| %s | %s | %s |\n' "$1" "$2" "$3" >> "$top/table"; }
# The rate of MS for BYTES as a share of the plain one.
share() { echo "$(( 100 * plain * $2 / size / ($1 > 0 ? $1 : 1) )) %"; }

head -c "$size" /dev/urandom > big
for _ in $(seq "$rounds"); do
    t=$(date +%s%N); cat big > "$top/copy"; since "$t" >> "$top/plain"; rm "$top/copy"
    t=$(date +%s%N); "$stockade" run --json --timeout 10m -- 'cat big' > "$top/answer"; since "$t" >> "$top/spilled"
    spill=$(sed 's/.*"spill_path":"\([^"]*\)".*/\1/' "$top/answer")
    cmp big "$spill"; rm "$spill"
    t=$(date +%s%N); id=$(in_session 'cat big'); "$stockade" tasks wait "$id" 2> "$top/told"; since "$t" >> "$top/task"
    spill=$XDG_STATE_HOME/stockade/tasks/$id/output
    cmp big "$spill"; rm "$spill"
done
plain=$(median < "$top/plain") task=$(median < "$top/task") spilled=$(median < "$top/spilled")
row "\`cat\` of $size bytes to a file" "$plain ms" '100 %'
row 'the same as a background task' "$task ms" "$(share "$task" "$size")"
row 'the same by `run --json`, through a gateway' "$spilled ms" "$(share "$spilled" "$size")"

head -c "$part" big > "$top/part"
t=$(date +%s%N)
for _ in $(seq 100); do in_session "head -c $part big" & done > "$top/ids"
wait $(jobs -p | grep -vx $gateway)
while read -r id; do "$stockade" tasks wait "$id" 2> /dev/null; done < "$top/ids"
took=$(since "$t") whole=0
while read -r id; do
    cmp -s "$top/part" "$XDG_STATE_HOME/stockade/tasks/$id/output" && whole=$((whole + 1))
done < "$top/ids"
row "100 tasks of $part bytes at once, $whole of 100 whole" "$took ms" "$(share "$took" $((part * 100)))"

before=$(memory)
for _ in $(seq "$many"); do in_session true > /dev/null; done
until [ -z "$("$stockade" tasks list --running 2> /dev/null | sed 1d)" ]; do sleep 0.2; done
after=$(memory)
row "memory of the gateway, before and after $many more tasks" "$before and $after kB" "$((100 * after / before)) %"
t=$(date +%s%N); "$stockade" tasks list > "$top/list"
row "\`tasks list\` of $(($(wc -l < "$top/list") - 1)) tasks" "$(since "$t") ms" ''

printf '| what | it takes | rate of `cat`, or memory before |\n|---|---:|---:|\n'
cat "$top/table"
