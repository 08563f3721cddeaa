#!/bin/bash
# Program 1 of a guest: starts udev, then runs the scripts that its owner sends, one at a time.
#
# Requests come over the port `frostline.command`: a line `RUN <id> <seconds> <bytes>` and a script of so
# many bytes. The answer is a line `DONE <id> <status> <bytes> <bytes>`, the standard output and the standard error.
# The port `frostline.life` is never written after its first line: when it ends, the owner is gone.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/pts /dev/shm /run/lock /run/frostline
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t debugfs debug /sys/kernel/debug
hostname guest
ip link set lo up
# Without udev there are no links in /dev/disk, and zpool create waits for them in vain.
/lib/systemd/systemd-udevd --daemon
udevadm trigger --type=subsystems --action=add
udevadm trigger --type=devices --action=add
udevadm settle
modprobe -q virtio_console

off() {
    busybox sync
    busybox poweroff -f
}

port() {
    local name
    for name in /sys/class/virtio-ports/*/name; do
        if [ "$(<"$name")" = "$1" ]; then
            name=${name%/name}
            echo "/dev/${name##*/}"
            return
        fi
    done
    echo "no port $1" >/dev/console
    off
}

exec 3<>"$(port frostline.command)" 4<"$(port frostline.life)"
# Reads end at once until the other side is there.
until IFS= read -r _ <&4; do sleep 0.02; done
{
    while IFS= read -r _ <&4; do :; done
    off
} 3>&- &

cd /run/frostline || off
printf 'READY 1\n' >&3
while IFS=' ' read -r verb id seconds bytes <&3; do
    [ "$verb" = RUN ] || continue
    head -c "$bytes" <&3 >script
    (cd /root && timeout -k 5 "$seconds" bash /run/frostline/script) </dev/null >out 2>err 3>&- 4<&-
    status=$?
    # What a program left in the background still writes comes too late.
    out=$(stat -c %s out) err=$(stat -c %s err)
    {
        printf 'DONE %s %s %s %s\n' "$id" "$status" "$out" "$err"
        head -c "$out" out
        head -c "$err" err
    } >&3
    # A program in the background keeps its own files.
    rm -f out err
done
off
