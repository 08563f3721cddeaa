#!/bin/sh
# Applies every fix of the doctor to a whole machine and undoes it, three times, and compares all settings: the test
# fix::real::inside of frostline-doctor, in a guest with two CPUs and memory nodes, two network queues and a kernel of Debian.
#
#     apt-get download linux-image-6.1.0-56-cloud-amd64
#     scripts/doctor-guest.sh linux-image-*.deb [RULES [RECORD]]      # such as N03,M12, or all; what it found is added to the file
#
# Needs root, qemu-system-x86, busybox-static, kmod, xz-utils, ethtool, e2fsprogs and a Rust toolchain. Emulated, it takes some ten
# minutes of a CPU. What it makes is in a temporary folder, and a tap device, both removed at the end.
set -eu

package=$(readlink -f "$1")
rules=${2:-all}
record=${3:+$(realpath "$3")}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
root=$work/root
tap=doctor$$

clean() {
    ip tuntap del "$tap" mode tap multi_queue 2> /dev/null || :
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

dpkg -x "$package" "$work/package"
# Below /lib, or since 2023 below /usr/lib.
all=$(ls -d "$work"/package/lib/modules/* "$work"/package/usr/lib/modules/* 2> /dev/null | tail -1)
kernel=$(basename "$all")
tests=$(cargo test -q -p frostline-doctor --lib --no-run --message-format json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)

mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/data" "$root/bin" "$root/etc"
modules=$root/lib/modules/$kernel
mkdir -p "$modules"
cp "$all/modules.builtin" "$all/modules.order" "$modules"
# The modules that are loaded, with what they need.
(cd "$all" && find kernel -name '*.ko*' |
    grep -E 'block/(mq-deadline|bfq)|drivers/(virtio|net/virtio_net|net/net_failover|block/(loop|virtio_blk))|fs/(ext4|jbd2|mbcache)|lib/crc|crypto/crc|net/(8021q|802|llc|core|netfilter/nf_conntrack|ipv4/netfilter/nf_defrag|ipv6/netfilter/nf_defrag)|libcrc32c' |
    while read -r module; do install -D "$module" "$modules/$module"; done)
find "$modules" -name '*.xz' -exec xz -d {} +
depmod -b "$root" "$kernel"

# put PROGRAM PLACE: with the libraries that it loads
put() {
    install -D "$(readlink -f "$1")" "$root$2"
    ldd "$1" 2> /dev/null | grep -o '/[^ ]*' | while read -r library; do
        [ -e "$root$library" ] || install -D "$(readlink -f "$library")" "$root$library"
    done
}
put "$tests" /bin/doctor-tests
strip "$root/bin/doctor-tests"
for program in sh cat ls sed mount umount mkdir rm rmdir truncate losetup blkid readlink mkfs.ext4 ethtool ip mv tr grep find; do
    put "$(command -v "$program")" "/usr/bin/$program"
done
cp "$root/usr/bin/sh" "$root/bin/sh"
put "$(command -v ethtool)" /usr/sbin/ethtool
put "$(command -v kmod)" /usr/bin/modprobe
cp "$(command -v busybox)" "$root/bin/busybox"

cat > "$root/init" << INIT
#!/bin/busybox sh
export PATH=/usr/bin:/usr/sbin:/bin TMPDIR=/data
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs dev /dev
modprobe loop max_loop=1
for module in virtio_pci virtio_blk virtio_net ext4 nf_conntrack 8021q bfq; do modprobe \$module; done
# A module since Linux 6.12 of Debian.
modprobe -q mq-deadline || :
until [ -e /dev/vda ] && [ -e /sys/class/net/eth0 ]; do :; done
mkfs.ext4 -qF /dev/vda && mount /dev/vda /data
ip link set eth0 up
FROSTLINE_DOCTOR_GUEST=$rules /bin/doctor-tests --exact fix::real::inside --ignored --nocapture && echo "all settings are equal"
busybox poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2> /dev/null | gzip -1 > "$work/initramfs")
truncate -s 512M "$work/disk"
ip tuntap add "$tap" mode tap multi_queue
ip link set "$tap" up

timeout 3600 qemu-system-x86_64 -accel tcg,thread=multi -cpu max,-cx16 -m 1024 -smp 2 \
    -object memory-backend-ram,id=memory0,size=512M -numa node,nodeid=0,cpus=0,memdev=memory0 \
    -object memory-backend-ram,id=memory1,size=512M -numa node,nodeid=1,cpus=1,memdev=memory1 -nodefaults -no-reboot \
    -nographic -serial stdio -kernel "$work/package/boot/vmlinuz-$kernel" -initrd "$work/initramfs" \
    -append "console=ttyS0 quiet panic=-1 no_timer_check" \
    -drive "file=$work/disk,format=raw,if=none,id=disk,cache=unsafe" -device virtio-blk-pci,drive=disk \
    -netdev "tap,id=net,ifname=$tap,script=no,downscript=no,queues=2" \
    -device virtio-net-pci,netdev=net,mq=on,vectors=6 < /dev/null | tee "$work/log"
grep -q "all settings are equal" "$work/log"
if [ -n "$record" ]; then
    {
        echo "Linux $kernel, $(qemu-system-x86_64 --version | head -1), $(date -u +%F)"
        tr -d '\r' < "$work/log" | grep -E 'changed and set back|all settings are equal'
    } >> "$record"
fi
