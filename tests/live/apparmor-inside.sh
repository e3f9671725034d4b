#!/bin/bash
# What tests/live/apparmor.sh tries inside of the machine.
bad=0
is() { # NAME WANTED FOUND
    if [ "$2" = "$3" ]; then echo "ok    $1"; else
        echo "WRONG $1: wanted '$2', found '$3'"
        bad=1
    fi
}
has() { # NAME PART TEXT
    case "$3" in *"$2"*) echo "ok    $1" ;; *)
        echo "WRONG $1: no '$2' in '$3'"
        bad=1
        ;;
    esac
}
alice() { runuser -u alice -- env HOME=/home/alice bash -c "cd ~/project; $1" 2>&1; }
profiles() { grep -o '^stockade[^ ]*' /sys/kernel/security/apparmor/profiles | sort | tr '\n' ' '; }
files() { find /etc /usr/lib/systemd /var/lib /var/log /var/cache/apparmor -path '*stockade*' | sort; }
label() { tr -d '\n\0' < "/proc/$(pgrep -f "stockade $1")/attr/current"; }
uname -r
apparmor_parser --version | head -n 1
useradd -m -s /bin/bash alice
runuser -u alice -- git init -q /home/alice/project
before=$(files)
is "the kernel restricts user namespaces" 1 "$(cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns)"
install -m 755 /opt/try/stockade /usr/local/bin/stockade

# Without a profile, and with one.
found=$(alice 'stockade run --no-daemon -- echo ran')
is "without a profile nothing runs" 122 $?
has "the refusal names the command" 'sudo /usr/local/bin/stockade install --apparmor' "$found"
found=$(alice 'stockade doctor')
is "doctor says so" 122 $?
has "doctor names the command" 'fix: AppArmor restricts user namespaces to known programs: run `sudo /usr/local/bin/stockade install --apparmor`' "$found"
stockade install --apparmor
is "the profile is installed" 0 $?
is "the kernel has it" "stockade stockade-listener stockade-recorder " "$(profiles)"
is "a command runs" ran "$(alice 'stockade run --no-daemon -- echo ran')"
found=$(alice 'stockade doctor')
is "doctor is satisfied" 0 $?
has "doctor is ready" "ready: this machine enforces all required protections" "$found"
is "doctor says nothing of AppArmor" "" "$(grep AppArmor <<< "$found")"
has "a command makes no namespace" "unshare failed" "$(alice 'stockade run --no-daemon -- unshare -U true')"
mkdir -p /home/alice/.config/stockade
echo '{ "sandbox": { "enabled": false }, "permissions": { "allow": ["Bash(cat /proc/self/attr/current)"] } }' > /home/alice/.config/stockade/settings.json
is "a program outside of the sandbox has the profile" "stockade (unconfined)" "$(alice 'stockade run --no-daemon -- cat /proc/self/attr/current' | tail -n 1)"
rm -r /home/alice/.config
systemctl restart apparmor # which fills the cache
stockade install --apparmor --undo
is "the profile is taken away" 0 $?
is "the kernel has none" "" "$(profiles)"
is "nothing is left" "$before" "$(files)"
alice 'stockade run --no-daemon -- echo ran' > /dev/null
is "nothing runs again" 122 $?

# The service.
cat > /root/policy.json <<'X'
{ "requireGateway": true, "permissions": { "allow": ["Bash(echo:*)", "Bash(seq:*)", "Bash(true)"], "deny": ["Bash(curl:*)"] } }
X
dmesg --clear
stockade install --system --policy /root/policy.json
is "the service is installed" 0 $?
alice 'stockade run -- true' > /dev/null # the first gateway starts slowly in an emulated machine
is "a command runs in the service" ran "$(alice 'stockade run -- echo ran')"
is "a long output, too" 20000 "$(alice 'stockade run -- seq 20000' | tail -n 1)"
has "a denied command names its rule" "Bash(curl:*)" "$(alice 'stockade run -- curl x')"
found=$(stockade doctor --system 2>&1)
is "doctor --system: every promise holds" "0 0" "$? $(grep -c '^ *fails' <<< "$found")"
is "the listener has its profile" "stockade-listener (enforce)" "$(label system-listener)"
is "the recorder has its profile" "stockade-recorder (enforce)" "$(label system-recorder)"
is "the keeper has that of the executable" "stockade (unconfined)" "$(label system-keeper)"
found=$(stockade audit verify --audit-dir /var/log/stockade 2>&1)
is "the log is intact" 0 $?
is "the kernel refused nothing" "" "$(dmesg | grep 'apparmor="DENIED"' | grep stockade)"
# What a profile leaves: the same program reads a file outside of it, and not inside.
echo '{}' > /root/plain.json
lint='stockade policy lint --settings /root/plain.json'
dmesg --clear
found=$($lint 2>&1)
is "settings are read without the profile" "0 " "$? $(grep cannot <<< "$found")"
for profile in stockade-listener stockade-recorder; do
    aa-exec -p "$profile" -- $lint > /dev/null 2>&1
    is "$profile reads no settings" no "$([ $? = 0 ] && echo yes || echo no)"
done
has "that was AppArmor" 'apparmor="DENIED"' "$(dmesg | grep 'profile="stockade-recorder"')"
stockade install --system --undo > /root/undo.log 2>&1
is "undone" 0 $?
is "the kernel has no profile of it" "" "$(profiles)"
is "nothing of the service is left" "$before" "$(files)"
exit "$bad"
