#!/bin/sh
# Captures emulated guests with the doctor, for its tests: kernels of several Debian releases, two architectures, several
# CPUs, nodes, disks and network interfaces, and servers at work: PostgreSQL, PostgreSQL on OpenZFS, OpenSearch.
#
#     scripts/doctor-captures.sh FOLDER [GUEST...]     # all guests by default; opensearch-amd64 only if it is named
#     FROSTLINE_CAPTURES=FOLDER cargo test -p frostline-doctor --lib captures_of_guests     # keeps them as fixtures
#
# Needs root, a Rust toolchain with the musl targets (rustup target add x86_64-unknown-linux-musl
# aarch64-unknown-linux-musl), apt, qemu-system-x86, qemu-system-arm, e2fsprogs, kmod, xz-utils; for servers also
# mmdebstrap, and OpenZFS is compiled by `lab image build` (in $FROSTLINE_DATA). OpenSearch is
# the unpacked archive $OPENSEARCH, and runs on $JAVA_HOME. Some two minutes a guest on a quiet machine of two CPUs,
# with a server five. What it makes is in a temporary folder and a tap device, removed at the end.
set -eu

out=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
work=$(mktemp -d)
tap=captures$$
trap 'ip link del "$tap" 2> /dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
mkdir -p "$out"
mirror="deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian"

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
    echo "$mirror $1 main" > "$apt/list"
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

# servers FOLDER: Debian with what servers need, and the kernel and modules of the lab's image with OpenZFS
servers() {
    data=${FROSTLINE_DATA:-$work/data}
    FROSTLINE_DATA=$data cargo run -q -p frostline-lab --example lab -- image build bookworm
    kernel=$(dirname "$(ls "$data"/lab/images/kernel-*/root/lib/modules/6.1.*/updates/dkms/zfs.ko)")
    kernel=${kernel%/lib/modules/*}
    echo "$mirror bookworm main contrib" > "$work/list"
    mmdebstrap --quiet --variant=minbase --mode=root --aptopt='APT::Install-Recommends "false"' \
        --include=busybox-static,e2fsprogs,ethtool,iproute2,kmod,postgresql-15,procps,udev,zfsutils-linux bookworm "$1" "$work/list"
    # /lib is a link.
    cp -a "$kernel/lib/modules" "$1/usr/lib/"
    cp -a "$kernel/boot" "$1/"
    depmod -b "$1" "$(ls "$1/usr/lib/modules")"
}

# Runs in a server's guest, before the file /scene, which starts the server and its load.
cat > "$work/serve" << 'SERVE'
#!/bin/bash
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/shm /dev/pts /run/lock
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
mount -t cgroup2 cgroup /sys/fs/cgroup
hostname guest
ip link set lo up
/lib/systemd/systemd-udevd --daemon
udevadm trigger --type=subsystems --action=add
udevadm trigger --type=devices --action=add
udevadm settle
for nic in /sys/class/net/*; do ip link set "${nic##*/}" up; done

# format DISK FOLDER OPTIONS: a disk for a server's files
format() { mkfs.ext4 -q "/dev/$1" && mkdir -p "$2" && mount -o "$3" "/dev/$1" "$2"; }

# postgres DATA [LOG]: a cluster of Debian's, with its load
postgres() {
    pg_dropcluster 15 main 2> /dev/null
    chown postgres "$(dirname "$1")" "$(dirname "${2:-$1}")"
    pg_createcluster 15 main -d "$1" -- ${2:+-X "$2"} && pg_ctlcluster 15 main start
    su postgres -c "pgbench -q -i -s 5 postgres"
    su postgres -c "pgbench -c 4 -T 3600 postgres" > /dev/null 2>&1 &
}

. /scene
# A server is one that has been there for a while.
sleep 15
doctor capture /tmp/capture --interval 2000 && busybox tar cf /dev/vdb -C /tmp capture && echo the capture is written
busybox poweroff -f
SERVE

cat > "$work/scene-postgres" << 'SCENE'
# Its files and its log on disks of their own, mounted as somebody advised; the rest is as Debian installs it.
format vdc /data noatime,data=writeback
format vdd /wal noatime,nobarrier
postgres /data/main /wal/main
su postgres -c "psql -qc 'alter system set synchronous_commit = off'"
pg_ctlcluster 15 main reload
SCENE

cat > "$work/scene-zfs" << 'SCENE'
# Four disks in one pool, as it comes; a data set for large files, and one for a database that was too slow.
modprobe zfs
zpool create -O compression=lz4 tank vdc vdd vde vdf
zfs create -o recordsize=1M tank/warm
zfs create -o sync=disabled tank/db
postgres /tank/db/main
SCENE

cat > "$work/scene-opensearch" << 'SCENE'
# A node as its archive starts it, with its data on an NVMe disk and swap on another. C1 alone compiles: emulated, the
# node would not be up before an hour.
mkswap /dev/vdc > /dev/null && swapon /dev/vdc
format nvme0n1 /data noatime
home=/usr/share/opensearch
useradd --system opensearch
mkdir -p $home/bin $home/extensions $home/logs /data/nodes
chown -R opensearch $home /data/nodes
cat > $home/config/opensearch.yml << YML
cluster.name: logs
discovery.type: single-node
node.roles: [cluster_manager, data, ingest, warm]
node.search.cache.size: 256mb
path.data: /data/nodes
YML
su opensearch -c "/opt/java/bin/java -Xms512m -Xmx1g -XX:TieredStopAtLevel=1 --add-modules=jdk.incubator.vector \
    --enable-native-access=ALL-UNNAMED -Dlog4j2.disable.jmx=true -Dopensearch.path.home=$home -Dopensearch.path.conf=$home/config \
    -Dopensearch.distribution.type=tar -cp '$home/lib/*' org.opensearch.bootstrap.OpenSearch > /tmp/node 2>&1" &
until grep -qE '\] started|ERROR' /tmp/node; do sleep 1; done
grep -E 'ERROR|Exception|max virtual memory|\] started' /tmp/node
SCENE

# root NAME ARCHITECTURE: what the guest runs, in $root, with its kernel
root() {
    root=$work/root
    rm -rf "$root"
    case $1 in
    postgres-* | zfs-* | opensearch-*)
        [ -d "$work/servers" ] || servers "$work/servers"
        cp -a "$work/servers" "$root"
        install "$work/serve" "$root/run-captures"
        cp "$work/scene-${1%%-*}" "$root/scene"
        ;;
    *)
        packages "${1%%-*}" "$2" "$root"
        mkdir -p "$root/proc" "$root/sys" "$root/tmp" "$root/dev" "$root/etc" "$root/bin" "$root/usr/bin"
        install "$work/run" "$root/run-captures"
        ;;
    esac
    case $1 in
    opensearch-*)
        mkdir -p "$root/usr/share" "$root/opt"
        cp -a "$OPENSEARCH" "$root/usr/share/opensearch"
        cp -a "$JAVA_HOME" "$root/opt/java"
        rm -rf "$root/opt/java/jmods" "$root/opt/java/lib/src.zip"
        ;;
    esac
}

# guest NAME ARCHITECTURE DISKS QEMU...
guest() {
    name=$1 arch=$2 count=$3
    shift 3
    echo "$name"
    rm -rf "$work/first" "$out/$name"
    root "$name" "$arch"
    case $arch in
    amd64) target=x86_64-unknown-linux-musl console=ttyS0 ;;
    arm64) target=aarch64-unknown-linux-musl console=ttyAMA0 ;;
    esac
    cp "$(doctor $target)" "$root/usr/bin/doctor"
    cp "$(find "$root/bin" "$root/usr/bin" -name busybox -type f 2> /dev/null | head -1)" "$work/busybox"
    if [ ! -e "$root/bin/sh" ]; then
        [ -e "$root/bin/busybox" ] || cp "$work/busybox" "$root/bin/busybox"
        ln -s busybox "$root/bin/sh"
        ln -s busybox "$root/bin/mkdir"
    fi

    # What mounts the root: the modules that are loaded, with what they need. Below /lib, or since 2023 below /usr/lib.
    all=$(ls -d "$root"/lib/modules/* "$root"/usr/lib/modules/* 2> /dev/null | tail -1)
    kernel=$(basename "$all")
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
    # Servers load more, such as OpenZFS.
    [ -e "$root/scene" ] || rm -rf "$root/lib/modules" "$root/usr/lib/modules"
    rm -rf "$root/usr/share/doc" "$root/usr/share/locale"
    vmlinuz=$(ls "$root"/boot/vmlinuz-* | tail -1)
    cp "$vmlinuz" "$work/vmlinuz"
    rm -f "$work"/*.raw
    truncate -s 4G "$work/vda.raw"
    mkfs.ext4 -qF -d "$root" "$work/vda.raw"
    truncate -s 64M "$work/vdb.raw"
    disks=
    for disk in $(echo a b c d e f g | cut -d ' ' -f "-$count"); do
        [ -e "$work/vd$disk.raw" ] || truncate -s 2G "$work/vd$disk.raw"
        disks="$disks -drive file=$work/vd$disk.raw,format=raw,if=none,id=$disk,cache=unsafe -device virtio-blk-pci,drive=$disk"
    done
    # shellcheck disable=SC2086
    timeout 5400 "$@" -nodefaults -no-reboot -nographic -serial stdio -kernel "$work/vmlinuz" -initrd "$work/initramfs" \
        -append "console=$console quiet panic=-1 no_timer_check" $disks < /dev/null | tee "$work/log"
    grep -q "the capture is written" "$work/log"
    mkdir -p "$out/$name"
    tar xf "$work/vdb.raw" -C "$out/$name" --strip-components=1
    echo "Linux $kernel of Debian, $name, $("$1" --version | head -1)" > "$out/$name/guest"
}

nic() { echo "-netdev user,id=net$1,restrict=on -device virtio-net-pci,netdev=net$1"; }

# With a queue for each of four CPUs.
queues() {
    ip tuntap add "$tap" mode tap multi_queue 2> /dev/null || :
    ip link set "$tap" up
    echo "-netdev tap,id=queues,ifname=$tap,script=no,downscript=no,queues=4 -device virtio-net-pci,netdev=queues,mq=on,vectors=10"
}

# A disk that is not virtio's.
nvme() {
    truncate -s 4G "$work/nvme.disk"
    echo "-drive file=$work/nvme.disk,format=raw,if=none,id=nvme,cache=unsafe -device nvme,serial=1,drive=nvme"
}

x86="qemu-system-x86_64 -accel tcg,thread=multi -cpu max,-cx16"
arm="qemu-system-aarch64 -M virt -accel tcg,thread=multi -cpu cortex-a72"

# nodes MIB: four CPUs, on two nodes of so much memory
nodes() {
    echo "-m $((2 * $1)) -smp 4 -object memory-backend-ram,id=m0,size=$1M -object memory-backend-ram,id=m1,size=$1M"
    echo "-numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1"
}

[ $# -gt 0 ] || set -- bullseye-amd64 bookworm-amd64 trixie-amd64 trixie-arm64 postgres-amd64 zfs-amd64
# Arguments of QEMU are words.
# shellcheck disable=SC2046,SC2086
for name in "$@"; do
    case $name in
    bullseye-amd64) guest $name amd64 3 $x86 -m 512 -smp 1 $(nic 0) ;;
    bookworm-amd64) guest $name amd64 3 $x86 $(nodes 512) $(nic 0) $(nic 1) ;;
    trixie-amd64) guest $name amd64 3 $x86 -m 512 -smp 8 $(nic 0) ;;
    trixie-arm64) guest $name arm64 3 $arm -m 512 -smp 2 $(nic 0) ;;
    # Memory that is not touched takes none of the host's.
    postgres-amd64) guest $name amd64 4 $x86 -m 12288 -smp 4 $(queues) $(nic 0) ;;
    zfs-amd64) guest $name amd64 6 $x86 $(nodes 1536) $(nic 0) $(nic 1) $(nic 2) ;;
    opensearch-amd64) guest $name amd64 3 $x86 -m 2560 -smp 2 $(queues) $(nvme) ;;
    *) echo "no guest is called $name" >&2 && exit 2 ;;
    esac
done
