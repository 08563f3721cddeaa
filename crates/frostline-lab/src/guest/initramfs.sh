#!/bin/busybox sh
# First program of a guest: loads what the root disk needs, mounts it, and hands over.
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
case " $(/bin/busybox cat /proc/cmdline) " in
*" frostline.probe "*)
    echo FROSTLINE-KERNEL-RUNS
    /bin/busybox poweroff -f
    ;;
esac
for module in $(/bin/busybox cat /modules); do
    /bin/busybox insmod "/lib/$module" || echo "cannot load $module"
done
root=
tries=0
while [ -z "$root" ] && [ $tries -lt 500 ]; do
    for serial in /sys/block/vd*/serial; do
        if [ -e "$serial" ] && [ "$(/bin/busybox cat "$serial")" = frostline-root ]; then
            root=${serial%/serial}
            root=/dev/${root##*/}
        fi
    done
    # A disk is probed a moment after its driver is there.
    [ -n "$root" ] || /bin/busybox usleep 20000
    tries=$((tries + 1))
done
/bin/busybox mount -t ext4 -o rw,noatime "$root" /root || echo "cannot mount the root disk ($root)"
for folder in proc sys dev; do /bin/busybox mount --move /$folder /root/$folder; done
exec /bin/busybox switch_root /root /sbin/frostline-init
