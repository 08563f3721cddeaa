//! Settings of a host that a fix changes: how each is read, judged, set, and set back.
//!
//! A [`Change`] of a rule becomes [`Step`]s on one host. A step knows what the setting held when the host was
//! examined; where it cannot be read there is no step, and where it is as good as advised already there is
//! nothing to change.

use std::collections::BTreeMap;

use crate::facts;
use crate::host::Host;
use crate::rule::fill;
use crate::text::shell_word;
use crate::tree::{Absent, Fact};

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
    /// An option of the file system mounted at `{point}`, and its opposite.
    Mount(&'static str, &'static str),
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
    /// Shell commands that print its value and that set it to `$1`.
    pub(crate) get: String,
    pub(crate) set: String,
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
            Setting::Mount(_, without) => self.0.command(without),
            Setting::Dirty(name) => format!("sysctl -w {name}_ratio={{was}}"),
            setting => setting.command("{was}"),
        }
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
                steps.push(target.step(now, wanted));
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
            Setting::Mount(..) => format!("mount -o remount,{value} {{point}}"),
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
            Setting::Mount(with, without) => {
                let point = get("point")?;
                // The table of mounts leaves the default out.
                let (option, shown, otherwise) = match without {
                    "strictatime" => ("atime", vec!["noatime", "relatime"], without),
                    _ => (without.trim_start_matches("no"), vec![without], with),
                };
                let name = format!("{option} of {point}");
                one("proc/mounts".to_owned(), name, Kind::Mount { point, shown, otherwise })
            }
        }
    }
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
    Mount { point: String, shown: Vec<&'static str>, otherwise: &'static str },
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
            Kind::Mount { point, shown, otherwise } => {
                let mount = host.mounts()?.iter().rfind(|mount| mount.point == *point);
                let mount = mount.ok_or_else(|| lacks(point))?;
                Ok((*shown.iter().find(|option| mount.has(option)).unwrap_or(otherwise)).to_owned())
            }
        }
    }

    fn step(self, was: String, to: String) -> Step {
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
            Kind::Channels(dev) => {
                let (get, _, run, undo) = ethtool("channels_of", "-L", "combined", dev, &to, &was);
                (get, format!("set_channels {} \"$1\"", shell_word(dev)), run, undo)
            }
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
            Kind::Mount { point, shown, otherwise } => {
                let (listed, point) = (shell_word(&facts::escape(point)), shell_word(point));
                (
                    format!("option_of {listed} {otherwise} {}", shown.join(" ")),
                    format!("remount {listed} {point} \"$1\""),
                    format!("mount -o remount,{to} {point}"),
                    format!("mount -o remount,{was} {point}"),
                )
            }
        };
        let back = was.clone();
        let to = if matches!(self.kind, Kind::Dirty) { format!("bytes {to}") } else { to };
        Step { name: self.name, get, set, was, to, back, run, undo }
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
# set_channels DEV NUMBER: the kernel places the interrupts anew when channels change. The first time records where they
# were, the second puts them back there.
set_channels() {
    places=$record/irqs.$1
    if [ ! -e "$places" ]; then
        folder=/sys/class/net/$1/device
        for irq in $(ls "$folder/msi_irqs" 2> /dev/null || ls "$folder/../msi_irqs" 2> /dev/null); do
            echo "$irq $(cat "/proc/irq/$irq/smp_affinity_list")"
        done > "$places"
        ethtool -L "$1" combined "$2" || { rm -f "$places"; return 1; }
        return
    fi
    ethtool -L "$1" combined "$2" || return 1
    # A driver may have other interrupts now.
    while read -r irq cpus; do
        [ ! -e "/proc/irq/$irq" ] || echo "$cpus" > "/proc/irq/$irq/smp_affinity_list"
    done < "$places"
    rm -f "$places"
}
ring_of() { ethtool -g "$1" | sed -n '/^Current/,$s/^RX:[[:space:]]*//p'; }
offload_of() { ethtool -k "$1" | sed -n "s/^[[:space:]]*$2: \([a-z]*\).*/\1/p"; }
set_direct() { if [ "$2" = 1 ]; then losetup --direct-io=on "$1"; else losetup --direct-io=off "$1"; fi; }
# mounted SHOWN: the device and the options of what is mounted there last
mounted() {
    device= options=
    while read -r source point _ rest _; do
        [ "$point" = "$1" ] && device=$source options=$rest
    done < /proc/self/mounts
    [ -n "$options" ]
}
# option_of SHOWN OTHERWISE OPTION...: the option that is shown
option_of() {
    mounted "$1" || return 1
    found=$2
    shift 2
    for option; do
        case ,$options, in *,"$option",*) found=$option ;; esac
    done
    echo "$found"
}
# remount SHOWN POINT OPTION: keeps the other options; with the device named, mount does not look into fstab
remount() {
    mounted "$1" || return 1
    kept= atime=strictatime
    IFS=,
    for option in $options; do
        case $option in
        ro | rw | nosuid | nodev | noexec | nosymfollow | sync | dirsync | mand | lazytime | nodiratime)
            kept=$kept,$option ;;
        # Neither is shown where strictatime is in effect; nodiratime alone would make it relatime.
        noatime | relatime) atime=$option ;;
        esac
    done
    unset IFS
    case $3 in noatime | relatime | strictatime) ;; *) kept=$kept,$atime ;; esac
    mount -o "remount$kept,$3" "$device" "$2"
}
"#;
