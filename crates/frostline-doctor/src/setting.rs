//! Settings of a host that a fix changes: how each is read, judged, set, and set back.
//!
//! A [`Change`] of a rule becomes [`Step`]s on one host. A step knows what the setting held when the host was
//! examined; where it cannot be read there is no step, and where it is as good as advised already there is
//! nothing to change.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{self, Mount};
use crate::host::{FileSystem, Host};
use crate::live;
use crate::rule::fill;
use crate::text::shell_word;
use crate::tree::{Absent, Fact, Why};

/// A setting. `{name}` is a value of the finding; a `*` in a path stands for every file that matches.
#[derive(Clone, Copy, Debug)]
pub enum Setting {
    /// A kernel parameter, by its dotted name.
    Sysctl(&'static str),
    /// A file of the kernel that holds one value.
    File(&'static str),
    /// A file of the kernel that lists its choices, the chosen one in brackets.
    Choice(&'static str),
    /// The kernel parameters `…_bytes` and `…_ratio`, of which setting one clears the other.
    Dirty(&'static str),
    /// Combined channels of the network device `{dev}`.
    Channels,
    /// Receive ring of the network device `{dev}`.
    Ring,
    /// The offload `{feature}` of the network device `{dev}`.
    Offload,
    /// Whether the loop device `{dev}` reads and writes its file directly.
    LoopDirect,
    /// An option of the file system mounted at `{point}`, and its opposite, which the kernel shows.
    FileSystem(&'static str, &'static str),
    /// When reads through the mount at `{point}` write access times.
    AccessTime,
}

/// What a setting should hold.
#[derive(Clone, Copy, Debug)]
pub enum Want {
    /// This.
    Exactly(&'static str),
    /// This number, or more.
    Least(&'static str),
    /// This number, or less.
    Most(&'static str),
}

/// A setting that a fix changes, and to what.
#[derive(Clone, Copy, Debug)]
pub struct Change(pub Setting, pub Want);

/// One setting of one host that is worse than advised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What it is called in messages.
    pub(crate) name: String,
    /// Shell command that prints which device or file system it belongs to, and what it printed when the host was
    /// examined: empty where that is not known.
    pub(crate) whose: String,
    pub(crate) owner: String,
    /// Shell commands that print its value and that set it to `$1`.
    pub(crate) get: String,
    pub(crate) set: String,
    /// Shell command that names the settings that may change with it, one a line: a kind and a name without spaces.
    pub(crate) others: String,
    /// Its value when the host was examined.
    pub(crate) was: String,
    /// Arguments of `set` to fix it, and to undo that.
    pub(crate) to: String,
    pub(crate) back: String,
    /// The same for a person to type.
    pub(crate) run: String,
    pub(crate) undo: String,
}

type Values = BTreeMap<&'static str, String>;

impl Want {
    fn template(self) -> &'static str {
        match self {
            Want::Exactly(value) | Want::Least(value) | Want::Most(value) => value,
        }
    }

    /// Whether `now` is as good as `wanted`; numbers where they are compared.
    fn is_met(self, now: &str, wanted: &str) -> Option<bool> {
        let numbers = || Some((now.parse::<f64>().ok()?, wanted.parse::<f64>().ok()?));
        match self {
            Want::Exactly(_) => Some(now == wanted),
            Want::Least(_) => numbers().map(|(now, wanted)| now >= wanted),
            Want::Most(_) => numbers().map(|(now, wanted)| now <= wanted),
        }
    }
}

impl Change {
    /// The command for a person to type, with `{names}`.
    pub(crate) fn run(self) -> String {
        self.0.command(self.1.template())
    }

    /// The command that undoes it; `{was}` is what the setting held.
    pub(crate) fn undo(self) -> String {
        match self.0 {
            Setting::FileSystem(_, without) => self.0.command(without),
            Setting::AccessTime => self.0.command("strictatime"),
            Setting::Dirty(name) => format!("sysctl -w {name}_ratio={{was}}"),
            setting => setting.command("{was}"),
        }
    }

    /// Whether its command needs values that were read: a remount resets all options that it does not name.
    pub(crate) fn is_of_mount(self) -> bool {
        matches!(self.0, Setting::FileSystem(..) | Setting::AccessTime)
    }

    /// The steps of this change on `host`, none where every setting is as good as advised. An error where one
    /// cannot be read.
    pub(crate) fn steps(self, host: &Host, values: &Values) -> Fact<Vec<Step>> {
        let mut steps = Vec::new();
        for target in self.0.targets(host, values)? {
            let now = target.value(host)?;
            let wanted = fill(self.1.template(), values, false);
            let judged = match (&target.kind, now.split_once(' ')) {
                (Kind::Dirty, Some(("ratio", part))) => {
                    let bytes =
                        part.parse::<f64>().ok().map(|part| part / 100.0 * host.memory().unwrap_or(0.0));
                    bytes.map(|bytes| bytes.to_string())
                }
                (Kind::Dirty, Some((_, bytes))) => Some(bytes.to_owned()),
                _ => Some(now.clone()),
            };
            let is_met = match &judged {
                Some(judged) => self.1.is_met(judged, &wanted).ok_or_else(|| {
                    Absent::damaged(&target.path, &format!("holds {judged}, which is not a number"))
                })?,
                None => false,
            };
            if !is_met {
                steps.push(target.step(host, now, wanted));
            }
        }
        Ok(steps)
    }
}

impl Setting {
    fn command(self, value: &str) -> String {
        match self {
            Setting::Sysctl(name) => format!("sysctl -w {name}={value}"),
            Setting::File(path) | Setting::Choice(path) => format!("echo {value} > {path}"),
            Setting::Dirty(name) => format!("sysctl -w {name}_bytes={value}"),
            Setting::Channels => format!("ethtool -L {{dev}} combined {value}"),
            Setting::Ring => format!("ethtool -G {{dev}} rx {value}"),
            Setting::Offload => format!("ethtool -K {{dev}} {{feature}} {value}"),
            Setting::LoopDirect => format!("losetup --direct-io={} /dev/{{dev}}", on_or_off(value)),
            Setting::FileSystem(..) => format!("mount -o remount,{{options}},{value} {{device}} {{point}}"),
            Setting::AccessTime => format!("mount -o remount,bind,{{options}},{value} {{device}} {{point}}"),
        }
    }

    /// The files or devices that this names on `host`.
    fn targets(self, host: &Host, values: &Values) -> Fact<Vec<Target>> {
        let get = |name: &str| values.get(name).cloned().ok_or_else(|| Absent::damaged(name, "is not known"));
        let one = |path: String, name: String, kind: Kind| Ok(vec![Target { path, name, kind }]);
        match self {
            Setting::Sysctl(name) => {
                one(format!("proc/sys/{}", name.replace('.', "/")), name.to_owned(), Kind::Sysctl)
            }
            Setting::Dirty(name) => {
                one(format!("proc/sys/{}", name.replace('.', "/")), name.to_owned(), Kind::Dirty)
            }
            Setting::File(template) | Setting::Choice(template) => {
                let pattern = fill(template, values, false);
                let pattern = pattern.trim_start_matches('/');
                let mut paths = host.tree().glob(pattern)?;
                if paths.is_empty() && !pattern.contains('*') {
                    // So that the file itself says what is the matter.
                    paths.push(pattern.to_owned());
                }
                // CPUs that share a policy share its governor.
                let mut policies = BTreeSet::new();
                paths.retain(|path| {
                    let policy = path.split_once("/cpufreq/").map(|(cpu, _)| format!("{cpu}/cpufreq"));
                    let policy = policy.and_then(|policy| host.tree().link(&policy).ok());
                    policy.is_none_or(|policy| policies.insert(policy))
                });
                let kind = || if matches!(self, Setting::File(_)) { Kind::File } else { Kind::Choice };
                Ok(paths
                    .into_iter()
                    .map(|path| Target { name: format!("/{path}"), path, kind: kind() })
                    .collect())
            }
            Setting::Channels => {
                let dev = get("dev")?;
                one(format!("commands/ethtool-l.{dev}"), format!("channels of {dev}"), Kind::Channels(dev))
            }
            Setting::Ring => {
                let dev = get("dev")?;
                one(format!("commands/ethtool-g.{dev}"), format!("receive ring of {dev}"), Kind::Ring(dev))
            }
            Setting::Offload => {
                let (dev, feature) = (get("dev")?, get("feature")?);
                let name = format!("{feature} of {dev}");
                one(format!("commands/ethtool-k.{dev}"), name, Kind::Offload(dev, feature))
            }
            Setting::LoopDirect => {
                let dev = get("dev")?;
                one(
                    format!("sys/block/{dev}/loop/dio"),
                    format!("direct I/O of {dev}"),
                    Kind::LoopDirect(dev),
                )
            }
            Setting::FileSystem(with, without) => {
                // XFS ignores these at a remount, and changes others.
                if mounted(host, values)?.kind == "xfs" {
                    return Ok(Vec::new());
                }
                let mount = remountable(host, values)?;
                let name = format!("{} of {}", without.trim_start_matches("no"), mount.point);
                let remount = Remount::new(mount, with, &[without], false)?;
                one("proc/self/mountinfo".to_owned(), name, Kind::Mount(remount))
            }
            Setting::AccessTime => {
                let mount = mounted(host, values)?;
                let name = format!("atime of {}", mount.point);
                let remount = Remount::new(mount, "strictatime", &["noatime", "relatime"], true)?;
                one("proc/self/mountinfo".to_owned(), name, Kind::Mount(remount))
            }
        }
    }
}

/// The mount at the path of a finding that no other mount hides.
fn mounted<'a>(host: &'a Host, values: &Values) -> Fact<&'a Mount> {
    let hidden = Why::Unsaid("something else is mounted over it");
    let point = values.get("point").ok_or_else(|| Absent::new("the mount", hidden))?;
    let is_there = |mount: &&Mount| mount.point == *point && mount.is_visible();
    let lacks = || Absent::damaged("proc/self/mountinfo", &format!("lacks {point}"));
    host.mounts()?.iter().rfind(is_there).ok_or_else(lacks)
}

/// The mount through which the options of a finding's file system can be changed.
fn remountable<'a>(host: &'a Host, values: &Values) -> Fact<&'a Mount> {
    let mount = mounted(host, values)?;
    let file_systems = host.file_systems()?;
    let all = file_systems.iter().find(|all| all.mounts.iter().any(|one| std::ptr::eq(*one, mount)));
    if let Some(mount) = all.and_then(FileSystem::remountable) {
        return Ok(mount);
    }
    // A remount makes both read-only, or both writable.
    let info = mount.info.as_ref().ok_or_else(|| Absent::new("proc/self/mountinfo", Why::Missing))?;
    let why = match info.shared.first().is_some_and(|mode| mode == "ro") {
        true => "the file system has become read-only: see the kernel's messages",
        false => "mounted read-only here: change it where the file system is mounted writable",
    };
    Err(Absent::new(&mount.point, Why::Unsaid(why)))
}

/// A setting on one host.
struct Target {
    /// The file of the tree that holds its value.
    path: String,
    name: String,
    kind: Kind,
}

enum Kind {
    Sysctl,
    File,
    Choice,
    Dirty,
    Channels(String),
    Ring(String),
    Offload(String, String),
    LoopDirect(String),
    Mount(Remount),
}

/// An option of a mount or of its file system, and what a remount must name besides it.
struct Remount {
    point: String,
    device: String,
    /// The options to keep, for the printed command.
    kept: String,
    /// The option in effect when none of `shown` is shown.
    otherwise: &'static str,
    shown: Vec<&'static str>,
    now: &'static str,
    /// Whether it belongs to the mount and not to the file system.
    is_own: bool,
    number: String,
    root: String,
}

/// Options that a remount resets if it does not name them; all others stay.
const KEPT: [&str; 12] = [
    "nosuid",
    "nodev",
    "noexec",
    "nosymfollow",
    "nodiratime",
    "sync",
    "dirsync",
    "mand",
    "lazytime",
    "noacl",
    "i_version",
    "inlinecrypt",
];

impl Remount {
    fn new(mount: &Mount, otherwise: &'static str, shown: &[&'static str], is_own: bool) -> Fact<Remount> {
        let info = mount.info.as_ref().ok_or_else(|| Absent::new("proc/self/mountinfo", Why::Missing))?;
        let options = if is_own { &info.flags } else { &mount.options };
        let now = shown.iter().find(|option| options.iter().any(|one| one == *option)).unwrap_or(&otherwise);
        let atimes = ["noatime", "relatime"];
        let mut kept: Vec<&str> = info.flags.first().into_iter().map(String::as_str).collect();
        let shared = info.shared.iter().filter(|_| !is_own);
        kept.extend(
            info.flags.iter().chain(shared).map(String::as_str).filter(|option| KEPT.contains(option)),
        );
        if !is_own {
            let atime = info.flags.iter().map(String::as_str).find(|option| atimes.contains(option));
            kept.push(atime.unwrap_or("strictatime"));
        }
        Ok(Remount {
            point: mount.point.clone(),
            device: mount.device.clone(),
            kept: format!("{}{}", if is_own { "bind," } else { "" }, kept.join(",")),
            otherwise,
            shown: shown.to_vec(),
            now,
            is_own,
            number: info.number.clone(),
            root: info.root.clone(),
        })
    }

    fn whose(&self, host: &Host) -> (String, String) {
        let command = if self.is_own { "directory_of" } else { "fs_of" };
        let command = format!("{command} {}", shell_word(&self.point));
        let Ok(uuid) = host.text(&live::uuid_path(&self.number)) else { return (command, String::new()) };
        let number = if self.number.starts_with("0:") { "" } else { &self.number };
        let directory = if self.is_own { &self.root } else { "" };
        (command, format!("{number}/{}{directory}", uuid.trim()))
    }

    /// Its other options, by a name without spaces: `without` of the shell takes the first part.
    fn others(&self) -> String {
        let point: String = self
            .point
            .chars()
            .map(|one| match one {
                ' ' | '\\' | '\t' | '\n' => format!("\\0{:03o}", u32::from(one)),
                _ => one.to_string(),
            })
            .collect();
        let name = format!("{},{}:{point}", self.otherwise, self.shown.join(","));
        format!("echo_line {}", shell_word(&format!("options {name}")))
    }
}

impl Target {
    /// Its value, as the `get` of its step prints it.
    fn value(&self, host: &Host) -> Fact<String> {
        let lacks = |what: &str| Absent::damaged(&self.path, &format!("lacks {what}"));
        match &self.kind {
            Kind::Sysctl | Kind::File | Kind::LoopDirect(_) => words(host, &self.path),
            Kind::Choice => {
                let text = host.text(&self.path)?;
                facts::chosen(&text).map(str::to_owned).ok_or_else(|| lacks("a choice"))
            }
            Kind::Dirty => match words(host, &format!("{}_bytes", self.path))?.as_str() {
                "0" => Ok(format!("ratio {}", words(host, &format!("{}_ratio", self.path))?)),
                bytes => Ok(format!("bytes {bytes}")),
            },
            Kind::Channels(_) => {
                let pair = facts::ethtool_pair(&host.text(&self.path)?, "Combined");
                pair.map(|(_, now)| now.to_string()).ok_or_else(|| lacks("Combined"))
            }
            Kind::Ring(_) => {
                let pair = facts::ethtool_pair(&host.text(&self.path)?, "RX");
                pair.map(|(_, now)| now.to_string()).ok_or_else(|| lacks("RX"))
            }
            Kind::Offload(_, feature) => {
                let text = host.text(&self.path)?;
                let line = text
                    .lines()
                    .find_map(|line| line.trim().strip_prefix(feature.as_str())?.strip_prefix(": "));
                let word = line.and_then(|line| line.split_whitespace().next());
                word.map(str::to_owned).ok_or_else(|| lacks(feature))
            }
            Kind::Mount(remount) => Ok(remount.now.to_owned()),
        }
    }

    /// The device or file system that it belongs to: the shell command that identifies it, and its output on `host`.
    fn whose(&self, host: &Host) -> (String, String) {
        let mut parts = self.path.split('/');
        let device = match (&self.kind, parts.next(), parts.next(), parts.next(), parts.next()) {
            (Kind::Mount(remount), ..) => return remount.whose(host),
            (Kind::Channels(dev) | Kind::Ring(dev) | Kind::Offload(dev, _), ..) => {
                Some(("nic", dev.as_str()))
            }
            (_, Some("sys"), Some("block"), Some(dev), _) => Some(("block", dev)),
            (_, Some("sys"), Some("class"), Some("net"), Some(dev)) => Some(("nic", dev)),
            (_, Some("proc"), Some("irq"), Some(irq), _) => Some(("irq", irq)),
            _ => None,
        };
        let Some((kind, dev)) = device else { return (":".to_owned(), String::new()) };
        let owner = match kind {
            "block" => {
                let number = host.word(&format!("sys/block/{dev}/diskseq"));
                number.or_else(|_| host.tree().link(&format!("sys/block/{dev}"))).ok()
            }
            "irq" => host.interrupts().ok().and_then(|table| table.what(dev).map(str::to_owned)),
            _ => {
                let bus = host.tree().link(&format!("sys/class/net/{dev}/device"));
                bus.or_else(|_| host.word(&format!("sys/class/net/{dev}/ifindex"))).ok()
            }
        };
        (format!("{kind}_of {}", shell_word(dev)), owner.unwrap_or_default())
    }

    /// The shell command that names the settings that the kernel may change with this one. docs/doctor.md has this table.
    fn others(&self) -> String {
        let parts: Vec<&str> = self.path.split('/').collect();
        match (&self.kind, &parts[..]) {
            (Kind::Mount(remount), _) => remount.others(),
            (Kind::Channels(dev), _) => format!("spread_of {0} && queues_of {0}", shell_word(dev)),
            (Kind::Ring(dev), _) => format!("queues_of {}", shell_word(dev)),
            (Kind::Offload(dev, _), _) => format!("offloads_of {}", shell_word(dev)),
            (_, ["sys", "class", "net", dev, "mtu"]) => format!("mtus_of {} \"$1\"", shell_word(dev)),
            (
                _,
                ["sys", "block", dev, "queue", "scheduler" | "rotational"]
                | ["sys", "block", dev, "loop", "dio"],
            ) => {
                format!("disk_of {}", shell_word(dev))
            }
            (_, ["proc", "sys", "vm", "nr_hugepages"]) => {
                "files /sys/devices/system/node/node*/hugepages/*/nr_hugepages".to_owned()
            }
            (_, ["sys", "kernel", "mm", "transparent_hugepage", "enabled"]) => {
                "files /proc/sys/vm/min_free_kbytes".to_owned()
            }
            (_, ["sys", "devices", "system", "cpu", cpu, "cpufreq", "scaling_governor"]) => {
                format!("speeds_of {}", shell_word(cpu))
            }
            _ => ":".to_owned(),
        }
    }

    fn step(self, host: &Host, was: String, to: String) -> Step {
        let (whose, owner) = self.whose(host);
        let file = shell_word(&format!("/{}", self.path));
        let typed = |value: &str| shell_word(value);
        let (get, set, run, undo) = match &self.kind {
            Kind::Sysctl => (
                format!("value_of {file}"),
                format!("echo \"$1\" > {file}"),
                format!("sysctl -w {}={}", self.name, typed(&to)),
                format!("sysctl -w {}={}", self.name, typed(&was)),
            ),
            Kind::File | Kind::Choice => (
                format!("{} {file}", if matches!(self.kind, Kind::File) { "value_of" } else { "choice_of" }),
                format!("echo \"$1\" > {file}"),
                format!("echo {} > {file}", typed(&to)),
                format!("echo {} > {file}", typed(&was)),
            ),
            Kind::Dirty => {
                let (kind, number) = was.split_once(' ').unwrap_or(("ratio", &was));
                (
                    format!("dirty_of {file}"),
                    format!("set_dirty {file} \"$1\""),
                    format!("sysctl -w {}_bytes={}", self.name, typed(&to)),
                    format!("sysctl -w {}_{kind}={}", self.name, typed(number)),
                )
            }
            Kind::Channels(dev) => ethtool("channels_of", "-L", "combined", dev, &to, &was),
            Kind::Ring(dev) => ethtool("ring_of", "-G", "rx", dev, &to, &was),
            Kind::Offload(dev, feature) => {
                let (_, set, run, undo) = ethtool("", "-K", feature, dev, &to, &was);
                (format!("offload_of {} {}", shell_word(dev), shell_word(feature)), set, run, undo)
            }
            Kind::LoopDirect(dev) => {
                let device = shell_word(&format!("/dev/{dev}"));
                let command = |value: &str| format!("losetup --direct-io={} {device}", on_or_off(value));
                (
                    format!("value_of {file}"),
                    format!("set_direct {device} \"$1\""),
                    command(&to),
                    command(&was),
                )
            }
            Kind::Mount(Remount { point, device, kept, otherwise, shown, .. }) => {
                let (point, device) = (shell_word(point), shell_word(device));
                let options = format!("{otherwise} {}", shown.join(" "));
                let typed = |value: &str| format!("mount -o remount,{kept},{value} {device} {point}");
                (
                    format!("option_of {point} {options}"),
                    format!("remount {point} \"$1\" {options}"),
                    typed(&to),
                    typed(&was),
                )
            }
        };
        let others = self.others();
        let back = was.clone();
        let to = if matches!(self.kind, Kind::Dirty) { format!("bytes {to}") } else { to };
        Step { name: self.name, whose, owner, get, set, others, was, to, back, run, undo }
    }
}

fn ethtool(
    get: &str,
    option: &str,
    what: &str,
    dev: &str,
    to: &str,
    was: &str,
) -> (String, String, String, String) {
    let (dev, what) = (shell_word(dev), shell_word(what));
    let command = |value: &str| format!("ethtool {option} {dev} {what} {value}");
    (format!("{get} {dev}"), command("\"$1\""), command(&shell_word(to)), command(&shell_word(was)))
}

fn on_or_off(value: &str) -> &str {
    match value {
        "1" => "on",
        "0" => "off",
        other => other,
    }
}

/// The words of a file, with one space between them.
fn words(host: &Host, path: &str) -> Fact<String> {
    let words = host.text(path)?.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() { Err(Absent::damaged(path, "is empty")) } else { Ok(words) }
}

/// Functions of the shell that the steps use.
pub(crate) const SHELL: &str = r#"
value_of() { set -- $(cat "$1"); [ $# -gt 0 ] && echo "$*"; }
choice_of() {
    set -- "$(cat "$1")"
    case $1 in *\[*\]*) set -- "${1#*\[}"; set -- "${1%%\]*}" ;; esac
    [ -n "$1" ] && echo "$1"
}
dirty_of() {
    bytes=$(value_of "$1_bytes") || return 1
    if [ "$bytes" = 0 ]; then echo "ratio $(value_of "$1_ratio")"; else echo "bytes $bytes"; fi
}
set_dirty() { echo "${2#* }" > "$1_${2% *}"; }
channels_of() { ethtool -l "$1" | sed -n '/^Current/,$s/^Combined:[[:space:]]*//p'; }
ring_of() { ethtool -g "$1" | sed -n '/^Current/,$s/^RX:[[:space:]]*//p'; }
offload_of() { ethtool -k "$1" | sed -n "s/^[[:space:]]*$2: \([a-z]*\).*/\1/p"; }
set_direct() { if [ "$2" = 1 ]; then losetup --direct-io=on "$1"; else losetup --direct-io=off "$1"; fi; }
# block_of DEV, nic_of DEV, irq_of NUMBER: what no other device has that gets the same name or number
block_of() { cat "/sys/block/$1/diskseq" 2> /dev/null || readlink "/sys/block/$1"; }
nic_of() { readlink "/sys/class/net/$1/device" || cat "/sys/class/net/$1/ifindex"; }
irq_of() { sed -n "s/^ *$1: *\([0-9]\{1,\} \{1,\}\)*//p" /proc/interrupts | tr -s ' ' | sed 's/ $//'; }
# mount_at POINT: what this path leads to: id, directory, flags, device, the options of its file system that are shown,
# and all of them
mount_at() {
    [ -d "$1" ] || [ -f "$1" ] || return 1
    id=$(sed -n 's/^mnt_id:[[:space:]]*//p' /proc/self/fdinfo/9 9< "$1")
    [ -n "$id" ] || return 1
    while read -r mount _ number root _ flags rest; do
        [ "$mount" = "$id" ] || continue
        options=${rest##* } rest=${rest% *}
        device=$(printf '%b' "$(printf '%s\n' "${rest##* }" | sed 's/\\/\\0/g')")
        case $rest in
        *'- ext4 '*) all=$options,$(ext4_options) ;;
        *) all=$options ;;
        esac
        return 0
    done < /proc/self/mountinfo
    return 1
}
# ext4_options: those of the ext4 of mount_at, also those that it has by default and does not show
ext4_options() {
    while read -r major minor disk _; do
        [ "$major:$minor" != "$number" ] || tr '\n' , < "/proc/fs/ext4/$disk/options"
    done < /proc/diskstats
}
# fs_of POINT, directory_of POINT: which file system is mounted there, and which directory of it; 2 where that cannot
# be told
fs_of() {
    mount_at "$1" || return 1
    # Numbers of btrfs are drawn at each mount.
    case $number in 0:*) number= ;; esac
    uuid=$(blkid -p -s UUID -o value "$device" 2> /dev/null)
    echo "$number/${uuid:-$(kernel_id "$1")}"
    command -v blkid > /dev/null || return 2
}
# kernel_id POINT: the id of the file system, which ext4 and btrfs take from their UUID, and what the disk of mount_at is
kernel_id() {
    disk=/sys/dev/block/$number
    [ ! -e "$disk/partition" ] || disk=$disk/..
    set -- $(stat -f -c %i "$1"
        for name in wwid device/wwid serial device/serial dm/uuid loop/backing_file diskseq; do
            cat "$disk/$name" 2> /dev/null
        done)
    echo "$*"
}
directory_of() {
    fs=$(fs_of "$1")
    told=$?
    mount_at "$1" && printf '%s\n' "$fs$root" && return "$told"
}
# option_of POINT OTHERWISE OPTION...: the one of the options that is shown
option_of() {
    mount_at "$1" || return 1
    found=$2
    shift 2
    for option; do
        case ,$flags,$all, in *,"$option",*) found=$option ;; esac
    done
    echo "$found"
}
# without LIST OPTION...: the list without the options
without() (
    list=$1 left=
    shift
    IFS=,
    for word in $list; do
        for option; do
            [ "$word" != "$option" ] || continue 2
        done
        [ -z "$word" ] || left=$left,$word
    done
    printf '%s\n' "$left"
)
# others OPTION...: all mounts of the file system of mount_at with all options but these
others() {
    while read -r mount _ of directory point own rest; do
        [ "$of" = "$number" ] || continue
        [ "$mount" != "$id" ] || own=$(without "$own" "$@")
        printf '%s\n' "$mount $directory $point $own ${rest% *} $(without "${rest##* }" "$@")"
    done < /proc/self/mountinfo
}
# keeping VALUE: what a remount of mount_at that sets VALUE must name besides, and all that it may change
keeping() {
    mode=${flags%%,*}
    case $1 in
    noatime | relatime | strictatime)
        # Of the mount: what is of the file system is not touched.
        kept=bind,$mode own=$flags atime= ;;
    *)
        kept=$mode own=$flags,$options atime=,strictatime ;;
    esac
    IFS=,
    for option in $own; do
        case $option in
        nosuid | nodev | noexec | nosymfollow | nodiratime) kept=$kept,$option ;;
        sync | dirsync | mand | lazytime | noacl | i_version | inlinecrypt) kept=$kept,$option ;;
        # Neither is shown where strictatime is in effect; nodiratime alone would make it relatime.
        noatime | relatime) [ -z "$atime" ] || atime=,$option ;;
        esac
    done
    unset IFS
    kept=$kept$atime
}
# remount POINT VALUE OPTION...: sets this one of the options; fails if something else of the file system and its mounts
# changes with it. With the device named, mount does not look into fstab.
remount() (
    point=$1 value=$2
    shift 2
    mount_at "$point" && before=$(others "$@") || exit 1
    keeping "$value"
    [ "$kept" != "${kept#bind,}" ] || [ "$mode" = "${options%%,*}" ] ||
        { echo "$point is $mode and its file system is not" >&2; exit 1; }
    mount -o "remount,$kept,$value" "$device" "$point" || exit 1
    [ "$(others "$@")" = "$before" ] || { echo "$point: other options changed with it" >&2; exit 1; }
)

# Settings that change with another one.
# whose KIND NAME: a word for what it belongs to, `-` if that is what the other one belongs to; nothing if it is gone
whose() {
    [ "$1" != file ] || [ -e "$2" ] || return
    owner_of=$(case $1$2 in
        # A driver may have other interrupts now, and another device some of these.
        file/proc/irq/*) irq_of "$(part_of "$2" /proc/irq)" ;;
        file/sys/class/net/*) nic_of "$(part_of "$2" /sys/class/net)" ;;
        file/proc/sys/net/ipv6/conf/*) nic_of "$(part_of "$2" /proc/sys/net/ipv6/conf)" ;;
        file/sys/block/*/queue/iosched/*) choice_of "${2%/iosched/*}/scheduler" ;;
        esac 2> /dev/null | tr ' ' _)
    echo "${owner_of:--}"
}
# part_of PATH FOLDER: what is next in the path
part_of() { set -- "${1#"$2"/}" && echo "${1%%/*}"; }
# Of each kind: now_KIND NAME prints what it holds, set_KIND NAME VALUE sets it, and succeeds only if it then holds that.
now_file() { choice_of "$1" 2> /dev/null; }
set_file() { echo "$2" > "$1" && [ "$(now_file "$1")" = "$2" ]; }
# DEV:FEATURE
now_offload() { offload_of "${1%:*}" "${1##*:}"; }
set_offload() { ethtool -K "${1%:*}" "${1##*:}" "$2" && [ "$(now_offload "$1")" = "$2" ]; }
# DEV:NAME of how long interrupts wait
now_coalesce() { ethtool -c "${1%:*}" 2> /dev/null | sed -n "s/^${1##*:}:[[:space:]]*\([0-9]\{1,\}\)$/\1/p"; }
set_coalesce() { ethtool -C "${1%:*}" "${1##*:}" "$2" && [ "$(now_coalesce "$1")" = "$2" ]; }
# OPTION,...:POINT: all options but these
now_options() (
    point=$(printf '%b' "${1#*:}") names=${1%%:*}
    IFS=,
    set -- $names
    unset IFS
    mount_at "$point" && keeping "$(option_of "$point" "$@")" && without "$own" "$@"
)
set_options() (
    point=$(printf '%b' "${1#*:}") names=${1%%:*} list=$2
    IFS=,
    set -- $names
    unset IFS
    mount_at "$point" && value=$(option_of "$point" "$@") && keeping "$value" || exit 1
    mount -o "remount,$kept$(gone),$value" "$device" "$point"
    lost=$(gone) new=$(come "$@")
    [ -n "$lost$new" ] || exit 0
    echo "$point: could not be set back:${lost:+ lacks ${lost#,}}${new:+ has ${new#,}}" >&2
    exit 1
)
# gone, come OPTION...: what mount_at lacks of the list, and has beside it
gone() ( mount_at "$point" && keeping "$value" && IFS=, && without "$list" $own )
come() ( mount_at "$point" && keeping "$value" && IFS=, && without "$own" $list "$@" )

echo_line() { printf '%s\n' "$1"; }
# files PATTERN...: those that there are
files() {
    set +f
    for file in $*; do [ ! -f "$file" ] || echo "file $file"; done
    set -f
}
# disk_of DEV: a new scheduler, and on some kernels any limit, resets these. The scheduler's own come last: some follow
# the number of requests.
disk_of() {
    if [ "$(choice_of "/sys/block/$1/queue/scheduler")" = bfq ] &&
        find /sys/fs/cgroup -name '*.bfq.weight*' -exec cat {} + 2> /dev/null | grep -q "^$(cat "/sys/block/$1/dev") "; then
        echo "control groups have weights for $1, which another scheduler forgets" >&2
        return 1
    fi
    queue=/sys/block/$1/queue
    files $queue/nr_requests $queue/async_depth $queue/wbt_lat_usec $queue/nomerges $queue/read_ahead_kb \
        $queue/max_sectors_kb "$queue/iosched/*"
}
# queues_of DEV: drivers place interrupts and queues anew
queues_of() {
    folder=/sys/class/net/$1/device/msi_irqs
    [ -e "$folder" ] || folder=/sys/class/net/$1/device/../msi_irqs
    ls "$folder" 2> /dev/null | sed 's#.*#file /proc/irq/&/smp_affinity_list#'
    files "/sys/class/net/$1/queues/*/*ps_*" "/sys/class/net/$1/queues/*/tx_maxrate"
    for name in rx-usecs rx-frames tx-usecs tx-frames; do echo "coalesce $1:$name"; done
}
# spread_of DEV: fails if flows are not spread over the queues as by default: that table is made anew
spread_of() {
    ethtool -x "$1" 2> /dev/null |
        sed -n 's/^RX flow.* with \([0-9]*\) RX ring.*/\1/p; s/^ *[0-9]*:\( [ 0-9]*\)$/\1/p' | {
        read -r rings || exit 0
        at=0
        while read -r row; do
            for queue in $row; do
                [ "$queue" = $((at % rings)) ] ||
                    { echo "$1 has its own table of flows (ethtool -x), which could not be set back" >&2; exit 1; }
                at=$((at + 1))
            done
        done
    }
}
offloads_of() {
    ethtool -k "$1" | sed -n "/\[fixed\]/d; s/^[[:space:]]*\([^ :]*\): o[nf].*/offload $1:\1/p"
}
# mtus_of DEV MTU: what is on top of it becomes smaller with it, now or when it is set back
mtus_of() {
    now=$(cat "/sys/class/net/$1/mtu") || return 1
    if [ "$2" -lt "$now" ]; then
        [ "$2" -ge 1280 ] || { echo "$1: IPv6 ends below 1280" >&2; return 1; }
        spaces=$(readlink $(ls /proc | sed -n 's#^[0-9]\{1,\}$#/proc/&/ns/net#p') 2> /dev/null
            sed -n 's/^[^ ]* [^ ]* [^ ]* \(net:[^ ]*\) .*/\1/p' /proc/self/mountinfo)
        for space in $spaces; do
            [ "$space" = "$(readlink /proc/self/ns/net)" ] ||
                { echo "$1: devices on top of it in another network namespace would become smaller, too" >&2; return 1; }
        done
        now=$2
    fi
    routes_keep "$1" "$now" || return 1
    files "/proc/sys/net/ipv6/conf/$1/mtu"
    # A link to each, also to the bridge.
    for upper in $(ls "/sys/class/net/$1" | sed -n 's/^upper_//p'); do
        echo "file /sys/class/net/$upper/mtu"
        mtus_of "$upper" "$2" || return 1
    done
}
# routes_keep DEV MTU: fails if IPv6 routes through it have an MTU of their own that a device of this MTU changes
routes_keep() {
    [ -e /proc/sys/net/ipv6 ] || return 0
    routes=$(ip -6 -o route show table all) || { echo "$1: cannot list IPv6 routes with ip" >&2; return 1; }
    for mtu in $(printf '%s\n' "$routes" | sed -n "s/\$/ /; / dev $1 /s/.* mtu \([0-9]\{1,\}\) .*/\1/p"); do
        [ "$mtu" -lt "$2" ] || { echo "$1: the MTU $mtu of an IPv6 route would be lost (ip -6 route)" >&2; return 1; }
    done
}
# speeds_of CPU: a governor starts with its own
speeds_of() {
    governor=$(cat "/sys/devices/system/cpu/$1/cpufreq/scaling_governor")
    for folder in "/sys/devices/system/cpu/$1/cpufreq" /sys/devices/system/cpu/cpufreq; do
        files $folder/scaling_min_freq $folder/scaling_max_freq $folder/scaling_setspeed \
            $folder/energy_performance_preference "$folder/$governor/*"
    done
}
"#;
