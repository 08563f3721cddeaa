#!/bin/sh
# Captures emulated guests with the doctor, for its tests: kernels of several Debian releases, two architectures, several
# CPUs, nodes, disks and network interfaces.
#
#     scripts/doctor-captures.sh FOLDER [GUEST...]     # all guests by default
#     FROSTLINE_CAPTURES=FOLDER cargo test -p frostline-doctor --lib captures_of_guests     # keeps them as fixtures
#
# Needs root, a Rust toolchain with the musl targets (rustup target add x86_64-unknown-linux-musl
# aarch64-unknown-linux-musl), apt, qemu-system-x86, qemu-system-arm, e2fsprogs, kmod, xz-utils. Some two
# minutes a guest on a quiet machine of two CPUs.
# What it makes is in a temporary folder, removed at the end.
set -eu

out=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
mkdir -p "$out"

# doctor TARGET: the path of a doctor that needs no library
doctor() {
    case $1 in
    aarch64*) linker="-C linker=rust-lld" ;;
    *) linker= ;;
    esac
    RUSTFLAGS="$linker -C target-feature=+crt-static -C strip=symbols" cargo build -q -p frostline-doctor --example doctor --target "$1" \
        --message-format json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1
}

# packages SUITE ARCHITECTURE FOLDER: Debian's kernel and busybox, unpacked
packages() {
    apt=$work/apt-$1-$2
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$3"
    : > "$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $1 main" > "$apt/list"
    cat > "$apt/conf" << CONF
APT::Architecture "$2";
APT::Architectures { "$2"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::SourceList "$apt/list";
Dir::Etc::SourceParts "-";
CONF
    export APT_CONFIG="$apt/conf"
    apt-get -qq update
    image=$(apt-cache show "linux-image-cloud-$2" | sed -n 's/^Depends: \([^ ,]*\).*/\1/p' | head -1)
    (cd "$apt" && apt-get -qq download "$image" busybox-static && for package in *.deb; do dpkg -x "$package" "$3"; done)
    unset APT_CONFIG
}

# Runs in the guest: everything is up, is captured twice a second apart, and goes to the first disk.
cat > "$work/run" << 'RUN'
#!/bin/busybox sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t tmpfs tmpfs /tmp
for nic in /sys/class/net/*; do busybox ip link set "${nic##*/}" up; done
mkdir -p /data
busybox mke2fs -q /dev/vdc > /dev/null 2>&1 && busybox mount -o noatime /dev/vdc /data
doctor capture /tmp/capture --interval 1000 && busybox tar cf /dev/vdb -C /tmp capture && echo the capture is written
busybox poweroff -f
RUN

# guest NAME SUITE ARCHITECTURE QEMU...
guest() {
    name=$1 suite=$2 arch=$3
    shift 3
    echo "$name"
    root=$work/root
    rm -rf "$root" "$work/first" "$out/$name"
    packages "$suite" "$arch" "$root"
    # Below /lib, or since 2023 below /usr/lib.
    all=$(ls -d "$root"/lib/modules/* "$root"/usr/lib/modules/* 2> /dev/null | tail -1)
    kernel=$(basename "$all")
    case $arch in
    amd64) target=x86_64-unknown-linux-musl console=ttyS0 ;;
    arm64) target=aarch64-unknown-linux-musl console=ttyAMA0 ;;
    esac
    mkdir -p "$root/proc" "$root/sys" "$root/tmp" "$root/dev" "$root/etc" "$root/usr/bin"
    cp "$(doctor $target)" "$root/usr/bin/doctor"
    install "$work/run" "$root/run-captures"
    cp "$(find "$root/bin" "$root/usr/bin" -name busybox -type f 2> /dev/null | head -1)" "$work/busybox"
    mkdir -p "$root/bin"
    [ -e "$root/bin/busybox" ] || cp "$work/busybox" "$root/bin/busybox"
    ln -sf busybox "$root/bin/sh"
    ln -sf busybox "$root/bin/mkdir"

    # What mounts the root: the modules that are loaded, with what they need.
    first=$work/first
    modules=$first/lib/modules/$kernel
    mkdir -p "$first/bin" "$first/proc" "$first/dev" "$first/root" "$modules"
    cp "$work/busybox" "$first/bin/busybox"
    (cd "$all" && cp modules.builtin modules.order "$modules" &&
        find kernel -name '*.ko*' | grep -E 'drivers/(virtio|net/virtio_net|net/net_failover|block/virtio_blk)|net/core/failover|fs/(ext4|jbd2|mbcache)|lib/(crc|libcrc)|crypto/crc' |
        while read -r module; do install -D "$module" "$modules/$module"; done)
    find "$modules" -name '*.xz' -exec xz -d {} +
    depmod -b "$first" "$kernel"
    cat > "$first/init" << INIT
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
for module in virtio_pci virtio_mmio virtio_blk virtio_net ext4; do busybox modprobe \$module 2> /dev/null; done
until [ -e /dev/vda ]; do :; done
busybox mount -t ext4 /dev/vda /root
busybox mount --move /dev /root/dev
busybox umount /proc
exec busybox switch_root /root /run-captures
INIT
    chmod +x "$first/init"
    (cd "$first" && find . | busybox cpio -o -H newc 2> /dev/null | gzip -1 > "$work/initramfs")
    rm -rf "$root/lib/modules" "$root/usr/lib/modules" "$root/usr/share/doc" "$root/usr/share/locale"
    vmlinuz=$(ls "$root"/boot/vmlinuz-* | tail -1)
    cp "$vmlinuz" "$work/vmlinuz"
    rm -f "$work"/*.raw
    truncate -s 1G "$work/vda.raw"
    mkfs.ext4 -qF -d "$root" "$work/vda.raw"
    truncate -s 64M "$work/vdb.raw"
    disks=
    for disk in a b c; do
        [ -e "$work/vd$disk.raw" ] || truncate -s 1G "$work/vd$disk.raw"
        disks="$disks -drive file=$work/vd$disk.raw,format=raw,if=none,id=$disk,cache=unsafe -device virtio-blk-pci,drive=$disk"
    done
    # shellcheck disable=SC2086
    timeout 600 "$@" -nodefaults -no-reboot -nographic -serial stdio -kernel "$work/vmlinuz" -initrd "$work/initramfs" \
        -append "console=$console quiet panic=-1 no_timer_check" $disks < /dev/null | tee "$work/log"
    grep -q "the capture is written" "$work/log"
    mkdir -p "$out/$name"
    tar xf "$work/vdb.raw" -C "$out/$name" --strip-components=1
    echo "Linux $kernel of Debian's $suite, $arch, $("$1" --version | head -1)" > "$out/$name/guest"
}

nic() { echo "-netdev user,id=net$1,restrict=on -device virtio-net-pci,netdev=net$1"; }

x86="qemu-system-x86_64 -accel tcg,thread=multi -cpu max,-cx16"
arm="qemu-system-aarch64 -M virt -accel tcg,thread=multi -cpu cortex-a72"
nodes="-m 1024 -smp 4 -object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=512M
    -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1"

[ $# -gt 0 ] || set -- bullseye-amd64 bookworm-amd64 trixie-amd64 trixie-arm64
# Arguments of QEMU are words.
# shellcheck disable=SC2046,SC2086
for name in "$@"; do
    case $name in
    bullseye-amd64) guest $name bullseye amd64 $x86 -m 512 -smp 1 $(nic 0) ;;
    bookworm-amd64) guest $name bookworm amd64 $x86 $nodes $(nic 0) $(nic 1) ;;
    trixie-amd64) guest $name trixie amd64 $x86 -m 512 -smp 8 $(nic 0) ;;
    trixie-arm64) guest $name trixie arm64 $arm -m 512 -smp 2 $(nic 0) ;;
    *) echo "no guest is called $name" >&2 && exit 2 ;;
    esac
done
