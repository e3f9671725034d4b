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
alice() { runuser -u alice -- env HOME=/home/alice bash -c "cd; $1" 2>&1; }
profiles() { grep -o '^stockade[^ ]*' /sys/kernel/security/apparmor/profiles | sort | tr '\n' ' '; }
files() { find /etc /usr/lib/systemd /var/lib /var/log /var/cache/apparmor -path '*stockade*' | sort; }
label() { tr -d '\n\0' < "/proc/$(pgrep -f "stockade $1")/attr/current"; }
uname -r
apparmor_parser --version | head -n 1
useradd -m -s /bin/bash alice
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
is "the kernel has it" "stockade " "$(profiles)"
is "a command runs" ran "$(alice 'stockade run --no-daemon -- echo ran')"
found=$(alice 'stockade doctor')
is "doctor is satisfied" 0 $?
has "doctor is ready" "ready: this machine enforces all required protections" "$found"
is "doctor says nothing of AppArmor" "" "$(grep AppArmor <<< "$found")"
has "a command makes no namespace" "unshare failed" "$(alice 'stockade run --no-daemon -- unshare -U true')"
echo "$found" | head -n 30
systemctl restart apparmor # which fills the cache
stockade install --apparmor --undo
is "the profile is taken away" 0 $?
is "the kernel has none" "" "$(profiles)"
is "nothing is left" "$before" "$(files)"
alice 'stockade run --no-daemon -- echo ran' > /dev/null
is "nothing runs again" 122 $?

# The service.
cat > /root/policy.json <<'X'
{ "requireGateway": true, "permissions": { "allow": ["Bash(*)"], "deny": ["Bash(curl:*)"] } }
X
dmesg --clear
stockade install --system --policy /root/policy.json
is "the service is installed" 0 $?
is "a command runs in the service" ran "$(alice 'stockade run -- echo ran')"
is "a long output, too" 20000 "$(alice 'stockade run -- seq 20000' | tail -n 1)"
has "a denied command names its rule" "Bash(curl:*)" "$(alice 'stockade run -- curl x')"
found=$(stockade doctor --system 2>&1)
is "doctor --system: every promise holds" "0 0" "$? $(grep -c '^ *fails' <<< "$found")"
for role in listener keeper recorder gateway; do echo "      $role: $(label system-$role)"; done
found=$(stockade audit verify --audit-dir /var/log/stockade 2>&1)
is "the log is intact" 0 $?
is "the kernel refused nothing" "" "$(dmesg | grep 'apparmor="DENIED"' | grep stockade)"
stockade install --system --undo > /root/undo.log 2>&1
is "undone" 0 $?
is "the kernel has no profile of it" "" "$(profiles)"
is "nothing of the service is left" "$before" "$(files)"
exit "$bad"
