#!/bin/bash
# What tests/live/systemd.sh tries inside of the machine.
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
for user in alice bob; do id "$user" > /dev/null 2>&1 || useradd -m -s /bin/bash "$user"; done
grep -q localhost /etc/hosts || echo "127.0.0.1 localhost" >> /etc/hosts
before=$(find /etc /usr/lib/systemd /var/lib /var/log -path '*stockade*' | sort)
install -m 755 /opt/try/stockade /usr/bin/stockade
cat > /root/policy.json <<'X'
{ "requireGateway": true, "permissions": { "allow": ["Bash(id:*)", "Bash(echo:*)", "Bash(ls:*)"], "deny": ["Bash(curl:*)"] } }
X

stockade install --system --policy /root/policy.json > /root/install.log 2>&1
is "installed" 0 $?
found=$(stockade doctor --system 2>&1)
is "doctor --system: every promise holds" "0 0" "$? $(grep -c '^ *fails' <<< "$found")"
echo "$found"
for unit in stockade-listener.service stockade.service stockade-recorder.service; do
    systemd-analyze security --no-pager "$unit" | grep -i overall
done

# As login shell, over ssh, as a forced command, by su, by cron.
ln -sf /usr/bin/stockade /usr/bin/stockade-sh
grep -q stockade-sh /etc/shells || echo /usr/bin/stockade-sh >> /etc/shells
usermod -s /usr/bin/stockade-sh bob 2> /dev/null
[ -e /root/.ssh/id ] || { mkdir -p /root/.ssh && ssh-keygen -q -t ed25519 -N "" -f /root/.ssh/id; }
for user in alice bob; do
    install -d -m 700 -o "$user" -g "$user" "/home/$user/.ssh"
    install -m 600 -o "$user" -g "$user" /root/.ssh/id.pub "/home/$user/.ssh/authorized_keys"
done
if ! grep -q stockade /etc/ssh/sshd_config; then
    printf 'Match User alice\n  ForceCommand /usr/bin/stockade shell -c "$SSH_ORIGINAL_COMMAND"\n' >> /etc/ssh/sshd_config
    systemctl restart ssh
fi
until ssh-keyscan localhost 2> /dev/null | grep -q ed25519; do sleep 0.1; done
ssh=(timeout 20 ssh -i /root/.ssh/id -o StrictHostKeyChecking=no -o LogLevel=ERROR)
for user in alice bob; do
    has "ssh $user: an allowed command runs as the user" "($user)" "$("${ssh[@]}" "$user@localhost" id 2>&1)"
    has "ssh $user: a denied command names its rule" "Bash(curl:*)" "$("${ssh[@]}" "$user@localhost" 'curl x' 2>&1)"
    "${ssh[@]}" "$user@localhost" 'echo x > planted' > /dev/null 2>&1
    is "ssh $user: nothing is written in the home directory" no "$([ -e "/home/$user/planted" ] && echo yes || echo no)"
done
has "su: an allowed command runs as the user" "(bob)" "$(su - bob -c id 2>&1)"
has "su: a denied command names its rule" "Bash(curl:*)" "$(su bob -c 'curl x' 2>&1)"
rm -f /tmp/by-cron
printf 'SHELL=/usr/bin/stockade-sh\n* * * * * bob echo it ran; curl x\n* * * * * bob echo it ran > /tmp/by-cron\n' > /etc/cron.d/try
seen=0
for _ in $(seq 1 140); do
    seen=$(stockade audit tail --audit-dir /var/log/stockade --json 2> /dev/null | grep -c 'echo it ran')
    [ "$seen" -lt 2 ] || break
    sleep 0.5
done
rm -f /etc/cron.d/try
is "cron: both commands are in the log" yes "$([ "$seen" -ge 2 ] && echo yes || echo no)"
is "cron: /tmp of the machine is as before" no "$([ -e /tmp/by-cron ] && echo yes || echo no)"

# Each process killed again and again while a user runs commands.
rm -f /home/alice/told
for round in $(seq 1 8); do
    runuser -u alice -- env HOME=/home/alice bash -c "cd; for n in 1 2 3 4 5; do stockade run -- 'echo $round-'\$n >> told 2> /dev/null; done" &
    for role in recorder keeper gateway listener; do
        sleep 0.2
        pkill -9 -f "stockade system-$role"
    done
    wait $!
done
systemctl reset-failed
systemctl start stockade.socket stockade-keeper.socket stockade-recorder.socket
has "after the kills a command runs" after "$(runuser -u alice -- env HOME=/home/alice bash -c 'cd; stockade run -- echo after' 2>&1)"
found=$(stockade audit verify --audit-dir /var/log/stockade 2>&1)
is "after the kills the log is intact" 0 $?
grep intact <<< "$found"
is "each command that ran is in the log" 0 "$(while read -r word; do
    stockade audit tail --audit-dir /var/log/stockade --json -n 100000 2> /dev/null | grep -q "echo $word" || echo "$word"
done < /home/alice/told | wc -l)"

stockade install --system --undo > /root/undo.log 2>&1
is "undone" 0 $?
is "nothing is left" "$before" "$(find /etc /usr/lib/systemd /var/lib /var/log -path '*stockade*' | sort)"
is "no socket is left" no "$([ -e /run/stockade ] && echo yes || echo no)"
is "no process is left" "" "$(pgrep -f 'stockade system-')"

# A gateway of one user that starts with the first connection.
loginctl enable-linger alice
alice() {
    runuser -u alice -- env HOME=/home/alice XDG_RUNTIME_DIR="/run/user/$(id -u alice)" bash -c "cd; $1" 2>&1
}
until alice 'systemctl --user list-units' > /dev/null; do sleep 0.1; done
alice 'stockade setup --socket-unit' > /root/unit.log
is "the user's units are written" 0 $?
alice 'systemctl --user daemon-reload; systemctl --user enable --now stockade.socket' > /dev/null
is "the socket listens, and no gateway runs" "active inactive" \
    "$(alice 'systemctl --user is-active stockade.socket stockade.service' | tr '\n' ' ' | sed 's/ $//')"
has "the first call starts the gateway" started "$(alice 'stockade run --session s -- echo started')"
is "the gateway runs as the unit" active "$(alice 'systemctl --user is-active stockade.service')"
alice 'systemctl --user disable --now stockade.socket stockade.service; stockade setup --socket-unit --undo' > /dev/null
is "the units are gone" no "$([ -e /home/alice/.config/systemd/user/stockade.socket ] && echo yes || echo no)"
loginctl disable-linger alice
exit "$bad"
