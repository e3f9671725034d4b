#!/bin/bash
# Tries the service of the machine under a live systemd: tests/live/systemd.sh STOCKADE [FOLDER]
#
# Needs root and a network: mmdebstrap makes a Debian below FOLDER (default /var/tmp/stockade-systemd, kept for the next time), and
# systemd-nspawn boots it (Debian: mmdebstrap, systemd-container, util-linux). STOCKADE is the executable to try. Each line says what
# was tried; the script ends with 1 if one of them is wrong.
set -uo pipefail
executable=${1:?usage: tests/live/systemd.sh STOCKADE [FOLDER]}
folder=${2:-/var/tmp/stockade-systemd}
packages=systemd,systemd-sysv,dbus,libpam-systemd,dbus-user-session,openssh-server,openssh-client,cron,sudo,login,passwd,procps,git
if [ ! -e "$folder/etc/debian_version" ]; then
    mmdebstrap --variant=minbase --include="$packages" bookworm "$folder" || exit 2
fi
mark=$(date +%s%N)
install -D -m 755 "$executable" "$folder/opt/try/stockade"
install -D -m 755 "$(dirname "$0")/inside.sh" "$folder/opt/try/inside.sh"
echo "$mark" > "$folder/opt/try/mark"
SYSTEMD_SECCOMP=0 systemd-nspawn --quiet --directory="$folder" --register=no --keep-unit --boot --capability=all \
    --console=pipe > "$folder/opt/try/boot.log" 2>&1 &
nspawn=$!
trap 'kill "$nspawn" 2> /dev/null; wait "$nspawn" 2> /dev/null' EXIT
init() {
    for process in $(pgrep -x systemd); do
        if [ "$(cat "/proc/$process/root/opt/try/mark" 2> /dev/null)" = "$mark" ]; then
            echo "$process"
            return
        fi
    done
}
inside() { nsenter --target "$(init)" --all env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
until [ -n "$(init)" ] && inside systemctl is-system-running --wait > /dev/null 2>&1; do
    kill -0 "$nspawn" 2> /dev/null || { echo "the machine does not boot: see $folder/opt/try/boot.log" >&2; exit 2; }
    [ "$(inside systemctl is-system-running 2> /dev/null)" != degraded ] || break
    sleep 0.2
done
inside bash /opt/try/inside.sh
