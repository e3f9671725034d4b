#!/bin/bash
# Tries the AppArmor profiles on an Ubuntu that restricts user namespaces: tests/live/apparmor.sh STOCKADE [FOLDER]
#
# Needs root and a network: mmdebstrap makes an Ubuntu 24.04 below FOLDER (default /var/tmp/stockade-apparmor, kept for the next time),
# and QEMU boots its kernel (Debian: mmdebstrap, qemu-system-x86, e2fsprogs). KEYRING names the keys of Ubuntu's archive, where they are
# not in /usr/share/keyrings; ACCEL=kvm is faster than the usual `tcg`. STOCKADE is the executable to try. Each line says what was
# tried; the script ends with 1 if one of them is wrong.
set -uo pipefail
executable=${1:?usage: tests/live/apparmor.sh STOCKADE [FOLDER]}
folder=${2:-/var/tmp/stockade-apparmor}
packages=systemd,systemd-sysv,dbus,apparmor,linux-image-virtual,sudo,login,passwd,procps,git
root=$folder/root
if [ ! -e "$root/etc/os-release" ]; then
    mkdir -p "$folder"
    mmdebstrap --variant=minbase --include="$packages" --components=main \
        --keyring="${KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}" noble "$root" http://archive.ubuntu.com/ubuntu || exit 2
fi
install -D -m 755 "$executable" "$root/opt/try/stockade"
install -D -m 755 "$(dirname "$0")/apparmor-inside.sh" "$root/opt/try/inside.sh"
cat > "$root/etc/systemd/system/try.service" <<'X'
[Unit]
Description=The trial
After=apparmor.service dbus.service
[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/bin/bash -c 'bash /opt/try/inside.sh > /dev/ttyS1 2>&1; echo "END $?" > /dev/ttyS1'
ExecStopPost=/bin/systemctl poweroff --force
[Install]
WantedBy=multi-user.target
X
ln -sf ../try.service "$root/etc/systemd/system/multi-user.target.wants/try.service"
rm -f "$folder/disk" "$folder/told"
mkfs.ext4 -q -d "$root" "$folder/disk" 4G || exit 2
timeout 1200 qemu-system-x86_64 -accel "${ACCEL:-tcg,thread=multi}" -cpu max -m 2G -smp 2 -display none -no-reboot -nic none \
    -kernel "$root/boot/vmlinuz" -append "root=/dev/vda rw console=ttyS0" \
    -drive "file=$folder/disk,format=raw,if=virtio" -serial "file:$folder/boot.log" -serial "file:$folder/told" ||
    { echo "the machine does not boot: see $folder/boot.log" >&2; exit 2; }
tr -d '\r' < "$folder/told"
grep -q '^END 0' "$folder/told"
