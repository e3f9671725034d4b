//! Texts for the service manager: units of systemd, or a plain service script where systemd does not run.

/// Folder of units that an administrator installs.
pub(super) const FOLDER: &str = "etc/systemd/system";
/// The service script.
pub(super) const SCRIPT: &str = "etc/init.d/stockade";
/// Sockets that systemd listens at from the start.
pub(super) const SOCKETS: [&str; 3] =
    ["stockade-recorder.socket", "stockade-keeper.socket", "stockade.socket"];
/// Services that the sockets start.
pub(super) const SERVICES: [&str; 3] =
    ["stockade-listener.service", "stockade.service", "stockade-recorder.service"];

/// Returns the name of each unit, and its text.
pub fn units(executable: &str) -> Vec<(&'static str, String)> {
    vec![
        ("stockade.socket", SOCKET.to_owned()),
        ("stockade-keeper.socket", KEEPER_SOCKET.to_owned()),
        ("stockade-recorder.socket", RECORDER_SOCKET.to_owned()),
        ("stockade-listener.service", closed(LISTENER, executable)),
        ("stockade.service", KEEPER.replace("EXECUTABLE", executable)),
        ("stockade-recorder.service", closed(RECORDER, executable)),
    ]
}

/// Returns the unit of a process that needs nothing but what it was given.
fn closed(unit: &str, executable: &str) -> String {
    unit.replace("EXECUTABLE", executable) + CLOSED
}

/// Returns the service script.
pub(super) fn script(executable: &str) -> String {
    SCRIPT_TEXT.replace("EXECUTABLE", executable)
}

const SOCKET: &str = "\
[Unit]
Description=Socket of the stockade gateway

[Socket]
ListenStream=/run/stockade/gateway.sock
SocketMode=0666
DirectoryMode=0755
RemoveOnStop=yes
Backlog=512
Service=stockade-listener.service

[Install]
WantedBy=sockets.target
";

const KEEPER_SOCKET: &str = "\
[Unit]
Description=Socket between the listener of the stockade gateway and its keeper

[Socket]
ListenSequentialPacket=/run/stockade/keeper.sock
SocketUser=stockade
SocketGroup=stockade
SocketMode=0600
DirectoryMode=0755
RemoveOnStop=yes
Service=stockade.service

[Install]
WantedBy=sockets.target
";

const RECORDER_SOCKET: &str = "\
[Unit]
Description=Socket between the stockade gateway and its recorder

[Socket]
ListenStream=/run/stockade/recorder.sock
SocketUser=root
SocketGroup=root
SocketMode=0600
DirectoryMode=0755
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
";

/// Everything that a user's gateway and its commands have to do stays open here: a thing that is closed for this unit is closed for
/// every command of every user. Each command has a sandbox of its own.
const KEEPER: &str = "\
[Unit]
Description=stockade: starts the gateway of each user
Requires=stockade-keeper.socket stockade-recorder.socket
After=stockade-keeper.socket stockade-recorder.socket
# It begins again however often it ends.
StartLimitIntervalSec=0

[Service]
ExecStart=EXECUTABLE system-keeper
StandardInput=socket
StandardOutput=journal
StandardError=journal
Restart=always
RestartSec=1
KillMode=control-group
UMask=0022
LimitNOFILE=65536
# To become the calling user, and nothing else.
CapabilityBoundingSet=CAP_SETUID CAP_SETGID
AmbientCapabilities=
NoNewPrivileges=yes
SystemCallArchitectures=native
# What no sandboxed command may do either. Nothing here makes a mount, which would be one of every command.
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
KeyringMode=private
SystemCallFilter=~@clock @module @raw-io @reboot @swap @obsolete @cpu-emulation
SystemCallErrorNumber=EPERM
";

/// The listener has no user namespace: in one, it would see the users of all connections as nobody.
const LISTENER: &str = "\
[Unit]
Description=stockade: takes the connections of all users
Requires=stockade.socket stockade-keeper.socket
After=stockade.socket stockade-keeper.socket
StartLimitIntervalSec=0

[Service]
ExecStart=EXECUTABLE system-listener
User=stockade
Group=stockade
AppArmorProfile=-stockade-listener
UMask=0077
LimitNOFILE=65536
ProtectSystem=strict
";

/// With a dash in front a profile that is not there is no failure (`systemd.exec(5)`, `AppArmorProfile=`).
const RECORDER: &str = "\
[Unit]
Description=stockade: keeps the log of the machine
Requires=stockade-recorder.socket
After=stockade-recorder.socket
StartLimitIntervalSec=0

[Service]
ExecStart=EXECUTABLE system-recorder
User=stockade-log
Group=stockade-log
AppArmorProfile=-stockade-recorder
UMask=0027
LimitNOFILE=65536
ProtectSystem=strict
ReadWritePaths=/var/log/stockade /var/lib/stockade/log
PrivateUsers=yes
";

/// The rest of the units of listener and recorder.
const CLOSED: &str = "\
StandardInput=socket
StandardOutput=journal
StandardError=journal
Restart=always
RestartSec=1
CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateNetwork=yes
PrivateIPC=yes
ProtectProc=invisible
ProcSubset=all
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
KeyringMode=private
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources @mount @debug @cpu-emulation @obsolete
# Both confine themselves; no group of systemd 252 has these calls.
SystemCallFilter=landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp
IPAddressDeny=any
DevicePolicy=closed
";

const SCRIPT_TEXT: &str = r#"#!/bin/sh
### BEGIN INIT INFO
# Provides:          stockade
# Required-Start:    $local_fs $syslog
# Required-Stop:     $local_fs $syslog
# Default-Start:     2 3 4 5
# Default-Stop:      0 1 6
# Short-Description: The gateway between agents and shells
### END INIT INFO

executable=EXECUTABLE
run=/run/stockade

is_up() {
    [ -r "$run/$1.pid" ] && pid=$(cat "$run/$1.pid") && [ -d "/proc/$pid" ] &&
        tr '\0' ' ' < "/proc/$pid/cmdline" | grep -q " system-$1 "
}

begin() {
    is_up "$1" && return 0
    # One that ends is begun again: nothing runs without it meanwhile.
    setsid sh -c 'ulimit -n 65536 2> /dev/null; echo $$ > "$3/$2.loop"; while :; do "$1" "system-$2" & echo $! > "$3/$2.pid"; wait $!; sleep 1; done' \
        sh "$executable" "$1" "$run" < /dev/null > /dev/null 2>> "$run/$1.log" &
    tries=0
    while [ ! -S "$run/$2.sock" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || { echo "stockade: the $1 does not listen" >&2; return 1; }
        sleep 0.1
    done
}

end() {
    for kind in loop pid; do
        [ -r "$run/$1.$kind" ] && kill "$(cat "$run/$1.$kind")" 2> /dev/null
        rm -f "$run/$1.$kind"
    done
    rm -f "$run/$2.sock" "$run/$1.log"
}

case $1 in
start)
    mkdir -p -m 755 "$run" && begin recorder recorder && begin keeper keeper && begin listener gateway ;;
stop)
    end listener gateway; end keeper keeper; end recorder recorder; rmdir "$run" 2> /dev/null || : ;;
restart | force-reload)
    "$0" stop; "$0" start ;;
status)
    is_up recorder && is_up keeper && is_up listener && echo "stockade runs" || { echo "stockade does not run"; exit 3; } ;;
*)
    echo "usage: $0 start|stop|restart|status" >&2; exit 2 ;;
esac
"#;
