#!/bin/bash
# What output and tasks cost: tests/benches/tasks.sh STOCKADE [ROUNDS] [TASKS] [BYTES].
# Needs a folder for state with 4 GB of room, TMPDIR or /tmp. Prints what docs/internals/performance.md shows.
set -eu
stockade=$(realpath "$1") rounds=${2:-5} many=${3:-1000} size=${4:-500000000}
top=$(mktemp -d) && chmod 700 "$top"
export HOME=$top/home XDG_STATE_HOME=$top/state XDG_RUNTIME_DIR=$top/run XDG_CONFIG_HOME=$top/home/.config
mkdir -p "$HOME" "$XDG_RUNTIME_DIR" "$top/p/.git" "$XDG_CONFIG_HOME/stockade"
echo '{"limits": {"sessionTasks": 2000, "sessionCommands": 2000, "sessionOutputBytes": 8000000000}}' > "$XDG_CONFIG_HOME/stockade/settings.json"
cd "$top/p"
"$stockade" serve > "$top/said" & gateway=$!
trap 'kill $gateway; wait $gateway 2> /dev/null || true; rm -rf "$top"' EXIT
until [ -s "$top/said" ]; do sleep 0.05; done
since() { echo $(( ($(date +%s%N) - $1) / 1000000 )); }
memory() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$gateway/status; }
median() { sort -n | sed -n "$(( (rounds + 1) / 2 ))p"; }
in_session() { "$stockade" run --session bench --background --quiet -- "$1"; }

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
plain=$(median < "$top/plain")
for way in spilled task; do
    took=$(median < "$top/$way")
    echo "$size bytes to a file: cat $plain ms, $way $took ms ($((100 * plain / took)) % of the rate)"
done

t=$(date +%s%N)
for _ in $(seq 100); do in_session "head -c $((size / 50)) big" & done > "$top/ids"
wait $(jobs -p | grep -vx $gateway)
whole=0
head -c $((size / 50)) big > "$top/part"
while read -r id; do
    "$stockade" tasks wait "$id" 2> /dev/null
    cmp -s "$top/part" "$XDG_STATE_HOME/stockade/tasks/$id/output" && whole=$((whole + 1))
done < "$top/ids"
echo "100 tasks of $((size / 50)) bytes at once: $(since "$t") ms, $whole of 100 whole"

before=$(memory)
for _ in $(seq "$many"); do in_session true > /dev/null; done
until [ -z "$("$stockade" tasks list --running)" ]; do sleep 0.2; done
t=$(date +%s%N); "$stockade" tasks list > "$top/list"
echo "gateway: $before kB, after $many more tasks $(memory) kB; listing $(($(wc -l < "$top/list") - 1)) of them takes $(since "$t") ms"
