//! One mapping of a host's names to numbers, for the paths and the contents of a capture.
//!
//! A name is kept only if a list or pattern here says that the kernel, systemd or a package gave it. Every other name is
//! replaced by a number, everywhere by the same one, so references stay valid.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

/// Parts of paths that distributions and packages create, and those that rules append.
const PATH_PARTS: &[&str] = &[
    ".config",
    "bin",
    "binfmt_misc",
    "boot",
    "bpf",
    "cache",
    "cgroup",
    "config",
    "config.toml",
    "connections",
    "containers",
    "data",
    "debug",
    "default",
    "dev",
    "docker",
    "efi",
    "efivars",
    "elasticsearch",
    "elasticsearch.yml",
    "etc",
    "export",
    "firmware",
    "frostline",
    "fs",
    "fuse",
    "home",
    "hugepages",
    "jvm.options",
    "jvm.options.d",
    "kernel",
    "kubelet",
    "lib",
    "libvirt",
    "local",
    "lock",
    "log",
    "lxcfs",
    "main",
    "media",
    "misc",
    "mnt",
    "mongodb",
    "mqueue",
    "mysql",
    "net",
    "none",
    "opensearch",
    "opensearch.yml",
    "opt",
    "overlay2",
    "pg_wal",
    "pgsql",
    "postgresql",
    "postgresql.conf",
    "proc",
    "pstore",
    "pts",
    "qemu",
    "redis",
    "root",
    "run",
    "security",
    "share",
    "shm",
    "snap",
    "spool",
    "srv",
    "swap",
    "sys",
    "systemd",
    "tmp",
    "tracing",
    "user",
    "usr",
    "var",
];

/// Sources of file systems without a device.
const SOURCES: &[&str] = &[
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "none",
    "nsfs",
    "overlay",
    "proc",
    "pstore",
    "ramfs",
    "rootfs",
    "securityfs",
    "selinuxfs",
    "shm",
    "sunrpc",
    "sysfs",
    "systemd-1",
    "tmpfs",
    "tracefs",
    "udev",
];

/// Kinds of file systems.
const KINDS: &[&str] = &[
    "9p",
    "aufs",
    "auto",
    "autofs",
    "bcachefs",
    "binfmt_misc",
    "bpf",
    "btrfs",
    "ceph",
    "cgroup",
    "cgroup2",
    "cifs",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "ecryptfs",
    "efivarfs",
    "erofs",
    "exfat",
    "ext2",
    "ext3",
    "ext4",
    "f2fs",
    "fuse",
    "fuseblk",
    "fusectl",
    "gfs2",
    "glusterfs",
    "hfsplus",
    "hugetlbfs",
    "iso9660",
    "jfs",
    "lustre",
    "mqueue",
    "nfs",
    "nfs4",
    "nfsd",
    "nilfs2",
    "none",
    "nsfs",
    "ntfs",
    "ntfs-3g",
    "ntfs3",
    "ocfs2",
    "overlay",
    "proc",
    "pstore",
    "ramfs",
    "reiserfs",
    "rootfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smb3",
    "squashfs",
    "swap",
    "sysfs",
    "tmpfs",
    "tracefs",
    "udf",
    "vboxsf",
    "vfat",
    "virtiofs",
    "xfs",
    "zfs",
];

/// What controllers and drivers call interrupts, in lower case, beside the names of devices.
const INTERRUPTS: &[&str] = &[
    "acpi",
    "ahci",
    "apic",
    "arch_timer",
    "async",
    "bus",
    "comp",
    "config",
    "control",
    "ctrl",
    "deflate",
    "dmar",
    "dyn",
    "edge",
    "ehci_hcd",
    "event",
    "eventq",
    "fasteoi",
    "fp",
    "ged",
    "gic",
    "gicv2",
    "gicv3",
    "gpio",
    "hpet",
    "i8042",
    "i40e",
    "iavf",
    "ice",
    "idpf",
    "inflate",
    "input",
    "io",
    "ipi",
    "ir",
    "irq",
    "its",
    "ixgbe",
    "level",
    "md",
    "megasas",
    "mgmnt",
    "mgmt",
    "mpt3sas",
    "msi",
    "msix",
    "net",
    "output",
    "pci",
    "pciehp",
    "pcie",
    "pciex",
    "percpu",
    "pirq",
    "pme",
    "reporting_vq",
    "req",
    "requests",
    "rtc0",
    "rx",
    "rxtx",
    "stats",
    "timer",
    "tx",
    "txrx",
    "uhci_hcd",
    "vfio",
    "virq",
    "x",
    "xen",
    "xhci_hcd",
];

/// Programs behind FUSE that packages have.
const FUSE_PROGRAMS: &[&str] = &[
    "curlftpfs",
    "davfs",
    "fuse-overlayfs",
    "frostline",
    "gcsfuse",
    "glusterfs",
    "gocryptfs",
    "goofys",
    "gvfsd",
    "juicefs",
    "lxcfs",
    "mergerfs",
    "mount-s3",
    "ntfs-3g",
    "portal",
    "rclone",
    "s3fs",
    "snapfuse",
    "squashfuse",
    "sshfs",
];

/// Control groups that systemd itself creates.
const GROUPS: &[&str] = &[
    "",
    "-.slice",
    "app.slice",
    "background.slice",
    "cpu.stat",
    "init.scope",
    "machine.slice",
    "session.slice",
    "system.slice",
    "user.slice",
];

static DISK: LazyLock<Regex> = LazyLock::new(|| {
    let whole = [
        // A fourth letter comes after 18,278 disks.
        r"sd[a-z]{1,4}\d{0,3}",
        r"(?:hd|vd|xvd)[a-z]{1,2}\d{0,3}",
        r"nvme\d{1,4}(?:c\d{1,4})?n\d{1,4}(?:p\d{1,3})?",
        r"(?:md|loop|mmcblk|nbd|rbd|bcache|drbd|zd|pmem|ublkb|cciss!c\d+d)\d{1,6}(?:p\d{1,3})?",
        r"md_d\d{1,3}(?:p\d{1,3})?",
        r"(?:dm-|ram|zram|sr|fd|mtdblock)\d{1,4}",
        r"dasd[a-z]{1,3}\d?",
        "root|fuse|shm|pts|mqueue|hugepages",
    ];
    pattern(&whole.join("|"))
});

static NIC: LazyLock<Regex> = LazyLock::new(|| {
    let numbered = "eth|wlan|bond|br|virbr|docker|dummy|tap|tun|veth|vnet|ib|wg";
    let placed = r"(?:en|ib|sl|wl|ww)(?:P\d{1,5})?(?:o\d{1,5}|(?:p\d{1,3})?s\d{1,5})(?:f\d{1,4})?(?:np?\d{1,3}|d\d{1,4})?";
    pattern(&format!(r"lo|(?:{numbered})\d{{1,4}}|{placed}"))
});

static BUS: LazyLock<Regex> = LazyLock::new(|| {
    let pci = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]";
    let usb = r"\d{1,3}-[\d.]{1,9}:\d\.\d";
    pattern(&format!(r"{pci}|{usb}|virtio\d{{1,4}}|vif-\d{{1,4}}|[0-9a-f]{{6,16}}\.ethernet"))
});

static GROUP: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"user-\d{1,10}\.slice|user@\d{1,10}\.service|session-c?\d{1,9}\.scope"));

fn pattern(whole: &str) -> Regex {
    Regex::new(&format!("^(?:{whole})$")).expect("a constant pattern is one")
}

static PCI: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b";
    Regex::new(part).expect("a constant pattern is one")
});

static INTERRUPT: LazyLock<Regex> = LazyLock::new(|| {
    let numbers = r"\d{1,4}(?:\.\d{1,3})?|q\d{1,4}|net\d{1,4}|virtio\d{1,4}|nvme\d{1,4}q\d{1,4}";
    let drivers = r"mlx[45]_[a-z]{1,6}\d{0,4}|ttyS\d{1,2}|(?:input|output|req|request|requests)\.\d{1,4}";
    pattern(&format!("{numbers}|{drivers}"))
});

const SEPARATORS: [char; 11] = [' ', '-', ':', '@', '/', ',', '[', ']', '(', ')', '\t'];

fn interrupt_words(text: &str) -> String {
    let mut out = String::new();
    for part in text.split_inclusive(SEPARATORS) {
        let word = part.trim_end_matches(SEPARATORS);
        let known = [&*INTERRUPT, &*NIC, &*DISK, &*BUS].iter().any(|pattern| pattern.is_match(word));
        let is_known = word.is_empty() || known || INTERRUPTS.contains(&&*word.to_ascii_lowercase());
        let kind = ["async", "mgmnt"].into_iter().find(|kind| word.contains(kind));
        out += if is_known { word } else { kind.unwrap_or("other") };
        out += &part[word.len()..];
    }
    out
}

/// The numbers that names were given, by what they are names of.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// The disks, of which partitions have names of their own.
    disks: Vec<String>,
}

impl Names {
    pub(super) fn new(disks: Vec<String>) -> Names {
        Names { disks, ..Names::default() }
    }

    fn number(&mut self, what: &'static str, name: &str) -> usize {
        let known = self.numbers.entry(what).or_default();
        let next = known.len();
        *known.entry(name.to_owned()).or_insert(next)
    }

    fn numbered(&mut self, what: &'static str, name: &str) -> String {
        format!("{what}-{}", self.number(what, name))
    }

    /// A path, part by part, so that a path below another one stays below it.
    pub(super) fn path(&mut self, path: &str) -> String {
        let mut one = |part: &str| {
            let is_version = part.len() < 3 && part.bytes().all(|byte| byte.is_ascii_digit());
            if is_version || PATH_PARTS.contains(&part) {
                part.to_owned()
            } else {
                self.numbered("folder", part)
            }
        };
        path.split('/').map(&mut one).collect::<Vec<_>>().join("/")
    }

    /// A file of which only the folder and the ending matter.
    pub(super) fn file(&mut self, path: &str, ending: &str) -> String {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name.strip_suffix(ending).unwrap_or(name);
        format!("{}/{}{ending}", self.path(folder), self.numbered("file", stem))
    }

    /// A block device or a partition, as the kernel calls it.
    pub(super) fn disk(&mut self, name: &str) -> String {
        let partition = |disk: &String| {
            let number = name.strip_prefix(disk)?;
            let digits = number.strip_prefix('p').unwrap_or(number);
            let is_number =
                (1..4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| (disk.clone(), digits.to_owned()))
        };
        match name {
            known if DISK.is_match(known) => known.to_owned(),
            part if !self.disks.iter().any(|disk| disk == part)
                && let Some((disk, number)) =
                    self.disks.iter().filter_map(partition).max_by_key(|(disk, _)| disk.len()) =>
            {
                format!("{}p{number}", self.disk(&disk))
            }
            // A named array.
            array if array.starts_with("md") => format!("md_{}", self.number("array", array)),
            other => self.numbered("disk", other),
        }
    }

    /// A path below `/dev`.
    pub(super) fn device(&mut self, path: &str) -> String {
        let name = path.strip_prefix("/dev/").unwrap_or(path);
        if name.contains('/') {
            format!("/dev/mapper/{}", self.numbered("device", name))
        } else {
            format!("/dev/{}", self.disk(name))
        }
    }

    /// What a file system of a kind is mounted from.
    pub(super) fn source(&mut self, source: &str, kind: &str) -> String {
        if SOURCES.contains(&source) {
            return source.to_owned();
        }
        if source.starts_with("/dev/") {
            return self.device(source);
        }
        if kind == "zfs" || source.starts_with('/') && !source.starts_with("//") {
            return self.path(source);
        }
        let program = FUSE_PROGRAMS.iter().find(|program| source.contains(**program));
        match program.filter(|_| kind.starts_with("fuse")) {
            Some(program) => (*program).to_owned(),
            None => self.numbered("source", source),
        }
    }

    /// The type of a file system; a FUSE type names its program.
    pub(super) fn kind(&mut self, kind: &str) -> String {
        let (kind, program) =
            kind.split_once('.').map_or((kind, None), |(kind, program)| (kind, Some(program)));
        let kind = if KINDS.contains(&kind) { kind.to_owned() } else { self.numbered("kind", kind) };
        let Some(program) = program else { return kind };
        match FUSE_PROGRAMS.iter().find(|known| program.contains(**known)) {
            Some(known) => format!("{kind}.{known}"),
            None => format!("{kind}.{}", self.numbered("program", program)),
        }
    }

    /// Controller and devices of an interrupt, of which network devices and buses have their new names.
    pub(super) fn interrupt(&self, what: &str) -> String {
        let mut out = String::new();
        let mut rest = what;
        while let Some(address) = PCI.find(rest) {
            out += &interrupt_words(&rest[..address.start()]);
            out += address.as_str();
            rest = &rest[address.end()..];
        }
        out + &interrupt_words(rest)
    }

    /// A network device. A name with a hyphen keeps one, since interrupts cannot be told by it.
    pub(super) fn nic(&mut self, name: &str) -> String {
        match name {
            known if NIC.is_match(known) => known.to_owned(),
            other if other.contains('-') => self.numbered("net", other),
            other => format!("net{}", self.number("net", other)),
        }
    }

    /// What a network device is attached to.
    pub(super) fn bus(&mut self, name: &str) -> String {
        if BUS.is_match(name) { name.to_owned() } else { self.numbered("bus", name) }
    }

    /// The path of a control group.
    pub(super) fn group(&mut self, path: &str) -> String {
        let mut one = |name: &str| {
            if GROUPS.contains(&name) || GROUP.is_match(name) {
                return name.to_owned();
            }
            let ending = [".service", ".scope", ".slice"].into_iter().find(|ending| name.ends_with(ending));
            self.numbered("group", name) + ending.unwrap_or_default()
        };
        path.split('/').map(&mut one).collect::<Vec<_>>().join("/")
    }

    /// A virtual machine.
    pub(super) fn machine(&mut self, name: &str) -> String {
        self.numbered("machine", name)
    }
}
