//! Every rule on a host where it fires, on one where it is quiet, and on a damaged one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::host::{Host, Role, Said};
use crate::report::Format;
use crate::rule::Outcome;
use crate::tree::Tree;
use crate::{Report, examine};

const FIXTURES: &str = include_str!("fixtures.txt");

/// The files of a host, and what its user said.
#[derive(Clone, Debug, Default)]
struct Fixture {
    files: [BTreeMap<String, Vec<u8>>; 2],
    said: Said,
}

impl Fixture {
    fn apply(&mut self, line: &str, blocks: &BTreeMap<String, Vec<String>>) {
        if line.starts_with('@') {
            blocks[line].iter().for_each(|line| self.apply(line, blocks));
        } else if let Some(path) = line.strip_suffix(" -").filter(|_| !line.contains(" = ")) {
            self.files[0]
                .remove(path)
                .or_else(|| self.files[1].remove(path.trim_start_matches("1/")))
                .unwrap_or_else(|| panic!("{line}"));
        } else {
            let (path, text) =
                line.split_once(" = ").unwrap_or_else(|| panic!("not a line of a fixture: {line}"));
            if let Some(at) = path.strip_prefix("role ") {
                let role = <Role as clap::ValueEnum>::from_str(text, true).unwrap();
                self.said.roles.push((at.to_owned(), role));
            } else if let Some(device) = path.strip_prefix("volume ") {
                self.said.volumes.push((device.to_owned(), text.to_owned()));
            } else {
                let text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0");
                let (sample, path) = path.strip_prefix("1/").map_or((0, path), |path| (1, path));
                self.files[sample].insert(path.to_owned(), text.into_bytes());
            }
        }
    }

    fn host(&self) -> Host {
        let tree = || Tree::from_files(self.files[0].clone());
        if self.files[1].is_empty() {
            return Host::once(tree(), self.said.clone());
        }
        Host::twice(tree(), tree(), Tree::from_files(self.files[1].clone()), 1.0, self.said.clone())
    }

    fn examine(&self) -> Report {
        examine(&self.host())
    }
}

/// The fixtures by rule and kind.
fn fixtures() -> BTreeMap<(String, String), Fixture> {
    let mut blocks = BTreeMap::new();
    let mut fixtures: BTreeMap<(String, String), Fixture> = BTreeMap::new();
    for section in FIXTURES.split("\n== ").skip(1) {
        let mut lines =
            section.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned);
        let title = lines.next().unwrap();
        let Some((rule, kind)) = title.split_once(' ') else {
            blocks.insert(title, lines.collect::<Vec<_>>());
            continue;
        };
        let mut fixture = match kind {
            "fires" => Fixture::default(),
            _ => fixtures[&(rule.to_owned(), "fires".to_owned())].clone(),
        };
        lines.for_each(|line| fixture.apply(&line, &blocks));
        let known = fixtures.insert((rule.to_owned(), kind.to_owned()), fixture);
        assert!(known.is_none(), "{title} is there twice");
    }
    fixtures
}

type Files = BTreeMap<String, Vec<u8>>;

/// The files, of two samples, of a host on which a rule fires.
pub(crate) fn firing(rule: &str) -> (Files, Files) {
    let [first, second] = fixtures()[&(rule.to_owned(), "fires".to_owned())].files.clone();
    (first, second)
}

/// What the user says of that host.
pub(crate) fn said(rule: &str) -> Said {
    fixtures()[&(rule.to_owned(), "fires".to_owned())].said.clone()
}

#[test]
fn every_rule_fires_is_quiet_and_survives_damage() {
    let fixtures = fixtures();
    let mut wrong = Vec::new();
    for rule in super::all() {
        for kind in ["fires", "quiet", "damaged"] {
            let Some(fixture) = fixtures.get(&(rule.id.to_owned(), kind.to_owned())) else {
                wrong.push(format!("{} has no fixture {kind}", rule.id));
                continue;
            };
            let outcome = fixture.examine().outcome(rule.id);
            let right = match (kind, &outcome) {
                ("fires", Outcome::Finding(_)) | ("quiet", Outcome::Quiet) => true,
                // Never quiet: what could not be read may be what would have been found.
                ("damaged", Outcome::Unknown(_)) => true,
                _ => false,
            };
            if !right {
                wrong.push(format!("{} {kind}: {outcome:?}", rule.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(fixtures.len(), 3 * super::all().count(), "fixtures of rules that are not there");
}

#[test]
fn the_table_is_whole() {
    let rules: Vec<_> = super::all().collect();
    assert!(rules.len() >= 45, "{}", rules.len());
    for field in [|r: &&crate::rule::Rule| r.id, |r: &&crate::rule::Rule| r.name] {
        assert_eq!(
            rules.iter().map(field).collect::<BTreeSet<_>>().len(),
            rules.len(),
            "a name is there twice"
        );
    }
    for rule in rules {
        assert!(!rule.reads.is_empty() && !rule.fixes.is_empty() && !rule.sources.is_empty(), "{}", rule.id);
        for text in [rule.title, rule.threshold, rule.explanation, rule.gain, rule.verify, rule.needs] {
            assert!(!text.is_empty(), "{} lacks a text", rule.id);
        }
        // What is typed on the machine itself only looks; what changes something there the doctor can undo.
        let looks = |command: &&str| {
            ["ss ", "ps ", "systemd-cgtop", "journalctl", "iostat", "pidstat", "nstat", "tc -s "]
                .iter()
                .any(|p| command.starts_with(p))
        };
        for fix in rule.fixes {
            let is_here = fix.side == crate::rule::Side::Here;
            assert!(is_here || fix.changes.is_empty(), "{}: {:?}", rule.id, fix.what);
            assert!(!is_here || fix.run.iter().all(looks), "{}: {:?}", rule.id, fix.run);
        }
    }
}

/// The damage that a truncated, mixed-up or foreign capture has, on every fixture that fires.
#[test]
fn no_cut_or_swap_panics() {
    for (_, fixture) in fixtures().iter().filter(|((_, kind), _)| kind == "fires") {
        for sample in 0..2 {
            for (path, bytes) in &fixture.files[sample] {
                for end in [0, bytes.len() / 4, bytes.len() / 2, bytes.len() * 3 / 4] {
                    let mut damaged = fixture.clone();
                    damaged.files[sample].insert(path.clone(), bytes[..end].to_vec());
                    let report = damaged.examine();
                    assert_eq!(
                        report.quiet.len() + report.unknown.len() + fired(&report),
                        super::all().count()
                    );
                }
            }
        }
    }
}

fn fired(report: &Report) -> usize {
    report.findings.iter().map(|finding| finding.rule).collect::<BTreeSet<_>>().len()
}

#[test]
fn an_empty_tree_says_why_for_every_rule_that_needs_something() {
    let report = Fixture::default().examine();
    assert_eq!(report.findings.len(), 0);
    assert!(report.unknown.len() > 40, "{}", report.unknown.len());
    assert!(report.unknown.iter().all(|unknown| !unknown.reason.is_empty()));
}

#[test]
fn a_cache_may_go_without_barriers() {
    let fixture = fixtures()[&("F01".to_owned(), "fires".to_owned())].clone();
    let severity = |role: Option<Role>| {
        let mut fixture = fixture.clone();
        fixture.said.roles = role.map(|role| ("/var/lib/log/deep".to_owned(), role)).into_iter().collect();
        fixture.examine().findings.iter().find(|finding| finding.rule == "F01").unwrap().severity
    };
    use crate::rule::Severity::{High, Low};
    assert_eq!([severity(Some(Role::Log)), severity(Some(Role::Database)), severity(None)], [High; 3]);
    assert_eq!(severity(Some(Role::Cache)), Low);
}

/// What is found on the fixture on which a rule fires, with these files in place of its own processes.
fn with_processes(rule: &str, files: &[(&str, &str)]) -> Report {
    let mut fixture = fixtures()[&(rule.to_owned(), "fires".to_owned())].clone();
    fixture.files[0].retain(|path, _| !path.starts_with("proc/") || !path.ends_with("/cmdline"));
    for (path, text) in files {
        fixture.files[0].insert((*path).to_owned(), text.as_bytes().to_vec());
    }
    fixture.examine()
}

#[test]
fn the_doctor_does_not_find_itself() {
    for rule in ["E07", "M02", "M12"] {
        let files = [
            ("proc/13/cmdline", "/usr/local/bin/frostline\0doctor\0"),
            ("proc/13/limits", "Max open files            1024                 4096                 files\n"),
            ("proc/13/status", "Cpus_allowed_list: 0-3\n"),
        ];
        let outcome = with_processes(rule, &files).outcome(rule);
        assert!(matches!(outcome, Outcome::Quiet), "{rule}: {outcome:?}");
    }
}

#[test]
fn a_server_that_ended_meanwhile_has_no_limits() {
    let limits = "Max open files            65535                65535                files\n";
    let files =
        [("proc/88/cmdline", "postgres\0"), ("proc/99/cmdline", "mongod\0"), ("proc/99/limits", limits)];
    let outcome = with_processes("E07", &files).outcome("E07");
    assert!(matches!(outcome, Outcome::Quiet), "{outcome:?}");
}

/// What is found on the host on which a rule fires, with these files added to it.
fn with(rule: &str, files: &[(&str, &str)]) -> Report {
    let mut fixture = fixtures()[&(rule.to_owned(), "fires".to_owned())].clone();
    for (path, text) in files {
        let (sample, path) = path.strip_prefix("1/").map_or((0, *path), |path| (1, path));
        fixture.files[sample].insert(path.to_owned(), text.as_bytes().to_vec());
    }
    fixture.examine()
}

/// What the doctor would change for a rule: name, was, to.
fn changes(report: &Report, rule: &str) -> Vec<(String, String, String)> {
    let findings = report.findings.iter().filter(|finding| finding.rule == rule);
    let steps = findings.flat_map(|finding| &finding.fixes).flat_map(|fix| &fix.steps);
    steps.map(|step| (step.name.clone(), step.was.clone(), step.to.clone())).collect()
}

fn check_changes(report: &Report, rule: &str, expected: &[(&str, &str, &str)]) {
    let texts =
        |(name, was, to): &(&str, &str, &str)| ((*name).to_owned(), (*was).to_owned(), (*to).to_owned());
    assert_eq!(changes(report, rule), expected.iter().map(texts).collect::<Vec<_>>(), "{rule}");
}

#[test]
fn a_fix_changes_only_what_is_worse_than_advised() {
    let somaxconn = "proc/sys/net/core/somaxconn";
    check_changes(&with("N14", &[(somaxconn, "4096\n")]), "N14", &[("net.core.somaxconn", "4096", "8192")]);
    check_changes(&with("N14", &[(somaxconn, "65535\n")]), "N14", &[]);
    // What was not read is not changed.
    check_changes(&with("N14", &[]), "N14", &[]);
    let core = |name: &str| format!("proc/sys/net/core/{name}");
    let squeezed = "00000001 00000000 00000900 0\n00000001 00000000 00000000 0\n";
    let budgets = |budget: &'static str, usecs: &'static str| {
        with(
            "N07",
            &[
                ("1/proc/net/softnet_stat", squeezed),
                (&core("netdev_max_backlog"), "1000\n"),
                (&core("netdev_budget"), budget),
                (&core("netdev_budget_usecs"), usecs),
            ],
        )
    };
    // Nothing was dropped: the queue stays as long as it is.
    check_changes(
        &budgets("300\n", "2000\n"),
        "N07",
        &[("net.core.netdev_budget", "300", "600"), ("net.core.netdev_budget_usecs", "2000", "8000")],
    );
    check_changes(&budgets("1000\n", "20000\n"), "N07", &[]);
    let dirty = |ratio: &'static str, bytes: &'static str| {
        with(
            "M12",
            &[
                ("proc/sys/vm/dirty_background_bytes", "0\n"),
                ("proc/sys/vm/dirty_ratio", ratio),
                ("proc/sys/vm/dirty_bytes", bytes),
            ],
        )
    };
    let background = ("vm.dirty_background", "ratio 10", "bytes 67108864");
    check_changes(&dirty("20\n", "0\n"), "M12", &[background, ("vm.dirty", "ratio 20", "bytes 536870912")]);
    check_changes(&dirty("0\n", "268435456\n"), "M12", &[background]);
}

#[test]
fn what_is_in_place_is_neither_changed_nor_undone() {
    let entries = "proc/sys/net/core/rps_sock_flow_entries";
    // Packet steering has nothing to do with the table of flows.
    let report = with("N05", &[(entries, "65536\n")]);
    let mask = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
    check_changes(&report, "N05", &[(mask, "00", "000000ff")]);
    assert!(!crate::fix::script(&report, &["N05".to_owned()]).contains("rps_sock_flow_entries"));
    let flows = "sys/class/net/eth0/queues/rx-0/rps_flow_cnt";
    check_changes(
        &with("N12", &[(flows, "32768\n")]),
        "N12",
        &[("net.core.rps_sock_flow_entries", "0", "32768")],
    );
    // An irqbalance that runs is neither started nor stopped; of four stacked queues three move.
    let irq = |number: u32| format!("proc/irq/{number}/smp_affinity_list");
    let report = with(
        "N04",
        &[
            (&irq(30), "3\n"),
            (&irq(31), "3\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("proc/50/cmdline", "/usr/sbin/irqbalance\0"),
        ],
    );
    let script = crate::fix::script(&report, &["N04".to_owned()]);
    assert!(script.lines().all(|line| !line.contains("irqbalance") || line.trim_start().starts_with('#')));
    let moved = changes(&report, "N04");
    assert_eq!(moved.len(), 3, "{moved:?}");
    assert!(moved.iter().all(|(_, was, to)| was == "3" && to != "3"), "{moved:?}");
}

#[test]
fn only_the_buffer_that_is_too_small_grows() {
    let right = ("net.ipv4.tcp_rmem", "4096 131072 6291456", "4096 131072 50331648");
    check_changes(&with("N19", &[]), "N19", &[right]);
}

#[test]
fn bonds_are_judged_by_their_members() {
    use crate::rule::Severity::{High, Low, Medium};
    let severity = |policy: &str, state: &str, speed: &str| {
        let bond = format!(
            "Bonding Mode: IEEE 802.3ad\nTransmit Hash Policy: {policy}\nMII Status: up\n\nSlave Interface: a\nMII Status: up\nSpeed: 10000 Mbps\n\nSlave Interface: b\nMII Status: {state}\nSpeed: {speed} Mbps\n"
        );
        let report = with("N22", &[("proc/net/bonding/bond0", &bond)]);
        report.findings.iter().find(|finding| finding.rule == "N22").map(|finding| finding.severity)
    };
    assert_eq!(severity("layer3+4 (1)", "down", "10000"), Some(High));
    assert_eq!(severity("layer3+4 (1)", "up", "1000"), Some(Medium));
    assert_eq!(severity("layer2 (0)", "up", "10000"), Some(Low));
    assert_eq!(severity("layer3+4 (1)", "up", "10000"), None);
}

/// A VRF takes larger frames than its ports, which loses none.
#[test]
fn only_bridges_and_bonds_pass_frames_between_their_ports() {
    let outcome = |of_master: &[(&str, &str)]| {
        let port = [
            ("sys/class/net/eth0/master.link", "../up"),
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/class/net/up/mtu", "65575\n"),
        ];
        outcome_of("N11", &[&port[..], of_master].concat())
    };
    assert_eq!(outcome(&[]), Outcome::Quiet);
    assert_eq!(outcome(&[("sys/class/net/up/bridge/stp_state", "0\n")]), Outcome::Finding(1));
    assert_eq!(outcome(&[("sys/class/net/up/bonding/mode", "balance-rr 0\n")]), Outcome::Finding(1));
}

/// A logical volume on an encrypted one, on an array of partitions.
#[test]
fn a_file_system_is_on_the_disks_at_the_bottom() {
    let outcome = |of_sdb: &str| {
        let disks = [
            ("dev/mapper/vg-data.link", "../dm-1"),
            ("sys/block/dm-1/slaves/dm-0.link", "../../dm-0"),
            ("sys/block/dm-1/queue/write_cache", "write through\n"),
            ("sys/block/dm-0/slaves/md0.link", "../../md0"),
            ("sys/block/md0/slaves/sda2.link", "../../sda/sda2"),
            ("sys/block/md0/slaves/sdb2.link", "../../sdb/sdb2"),
            ("sys/block/sda/queue/write_cache", "write through\n"),
            ("sys/block/sdb/queue/write_cache", of_sdb),
            ("proc/self/mountinfo", "1 1 252:1 / /data rw - xfs /dev/mapper/vg-data rw,nobarrier\n"),
        ];
        let report = with("F01", &disks);
        let observed = report.findings.iter().map(|finding| finding.observed.clone()).collect::<String>();
        (report.outcome("F01"), observed)
    };
    assert_eq!(outcome("write through\n").0, Outcome::Quiet);
    let (_, observed) = outcome("write back\n");
    assert!(observed.contains("sdb"), "{observed}");
}

#[test]
fn what_is_empty_or_garbage_is_unknown() {
    let link = "sys/bus/pci/devices/0000:01:00.0/";
    let links = ["current_link_speed", "max_link_speed", "current_link_width", "max_link_width"];
    let mut files: Vec<(&str, String)> = links.iter().map(|file| ("B12", format!("{link}{file}"))).collect();
    let more = [
        ("F01", "proc/fs/ext4/vda1/options"),
        ("F03", "proc/fs/ext4/vda1/options"),
        ("B15", "proc/mdstat"),
        ("B16", "proc/mdstat"),
        ("E03", "proc/swaps"),
        ("M03", "sys/kernel/mm/transparent_hugepage/enabled"),
        ("M02", "sys/devices/system/node/node0/cpulist"),
        ("F14", "etc/frostline/config.toml"),
        ("B09", "sys/block/nvme1n1/queue/write_cache"),
    ];
    files.extend(more.map(|(rule, path)| (rule, path.to_owned())));
    for (rule, path) in files {
        for text in ["", "\n", "abc\n", "\0\u{1}\u{fffd}\n"] {
            // A node without CPUs, and no settings at all.
            if text.trim().is_empty() && ["M02", "F14"].contains(&rule) {
                continue;
            }
            let outcome = with(rule, &[(&path, text)]).outcome(rule);
            assert!(matches!(outcome, Outcome::Unknown(_)), "{rule} {path} {text:?}: {outcome:?}");
        }
    }
    // A disk whose cache is not known may lose what nobarrier does not flush.
    let cache = ("sys/block/vda/queue/write_cache", "abc\n");
    assert_eq!(with("F01", &[cache]).outcome("F01"), Outcome::Finding(1));
}

#[test]
fn each_send_queue_gets_its_own_cpus() {
    let expected: Vec<(String, &str)> = (0..4u32)
        .map(|queue| format!("/sys/class/net/eth0/queues/tx-{queue}/xps_cpus"))
        .zip(["00000011", "00000022", "00000044", "00000088"])
        .collect();
    let expected: Vec<_> = expected.iter().map(|(name, mask)| (name.as_str(), "00", *mask)).collect();
    check_changes(&with("N13", &[]), "N13", &expected);
}

/// The scripts of all rules that fire can be read by a shell, and every name in them is quoted.
#[test]
fn scripts_are_shell() {
    for rule in super::all() {
        let fixture = fixtures()[&(rule.id.to_owned(), "fires".to_owned())].clone();
        let script = crate::fix::script(&fixture.examine(), &[]);
        let mut shell = std::process::Command::new("/bin/sh");
        let output = shell.args(["-n", "-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}: {}", rule.id, String::from_utf8_lossy(&output.stderr));
    }
}

const CONFIG: &str = "etc/postgresql/16/main/postgresql.conf";
const AUTO: &str = "var/lib/postgresql/16/main/postgresql.auto.conf";

#[test]
fn what_alter_system_set_is_judged() {
    let outcome = |files: &[(&str, &str)]| {
        let safe = [&[(CONFIG, "fsync = on\n")], files].concat();
        with("P03", &safe).outcome("P03")
    };
    assert_eq!(outcome(&[]), Outcome::Quiet);
    assert_eq!(outcome(&[(AUTO, "fsync = 'off'\n")]), Outcome::Finding(1));
    // What an included file says counts where it is included; the command line is last.
    let included = ("etc/postgresql/16/main/conf.d/a.conf", "fsync = off\n");
    let include = |order: &'static str| outcome(&[(CONFIG, order), included]);
    assert_eq!(include("fsync = on\ninclude_dir = 'conf.d'\n"), Outcome::Finding(1));
    assert_eq!(include("include_dir = 'conf.d'\nfsync = on\n"), Outcome::Quiet);
    let line = "postgres\0-D\0/var/lib/postgresql/16/main\0-c\0config_file=/etc/postgresql/16/main/postgresql.conf\0-F\0";
    assert_eq!(outcome(&[("proc/88/cmdline", line)]), Outcome::Finding(1));
    let own = ("etc/postgresql/16/main/a.conf", "include 'a.conf'\n");
    assert!(matches!(outcome(&[(CONFIG, "include 'a.conf'\n"), own]), Outcome::Unknown(_)));
}

#[test]
fn a_cluster_that_does_not_run_is_not_judged() {
    for rule in ["P02", "P03", "P05"] {
        assert!(matches!(
            with_processes(rule, &[("proc/88/cmdline", "bash\0")]).outcome(rule),
            Outcome::Quiet
        ));
    }
    // Its data directory is where a server is that was started without naming one.
    let mut fixture = fixtures()[&("P03".to_owned(), "fires".to_owned())].clone();
    fixture.files[0].insert("proc/88/cmdline".to_owned(), b"postgres\0".to_vec());
    fixture.files[0].insert("proc/88/cwd.link".to_owned(), b"/srv/pg".to_vec());
    fixture.files[0].insert("srv/pg/postgresql.conf".to_owned(), b"fsync = on\n".to_vec());
    assert_eq!(fixture.examine().outcome("P03"), Outcome::Quiet);
}

#[test]
fn a_command_that_ends_soon_is_no_server() {
    let limits = "Max open files            1024                 4096                 files\n";
    let outcome = |started: u32| {
        let stat = format!("88 (mongod) S {} {started} 1\n", "0 ".repeat(18).trim());
        let files = [
            ("proc/88/cmdline", "/usr/bin/mongod\0--version\0"),
            ("proc/88/limits", limits),
            ("proc/88/stat", stat.as_str()),
            ("proc/uptime", "1000.00 1.0\n"),
        ];
        with_processes("E07", &files).outcome("E07")
    };
    assert_eq!(outcome(99_950), Outcome::Quiet);
    assert_eq!(outcome(10_000), Outcome::Finding(1));
}

/// What a rule says of a host with these files.
fn outcome_of(rule: &str, files: &[(&str, &str)]) -> Outcome {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    examine(&Host::once(Tree::from_files(files), Said::default())).outcome(rule)
}

#[test]
fn the_launcher_of_a_search_node_is_none() {
    let launcher = "/usr/share/elasticsearch/jdk/bin/java\0-Xms4m\0-Xmx64m\0-Des.path.conf=/etc/elasticsearch\0org.elasticsearch.launcher.CliToolLauncher\0";
    let node = "/usr/share/elasticsearch/jdk/bin/java\0-Xms4g\0-Xmx8g\0-m\0org.elasticsearch.server/org.elasticsearch.bootstrap.Elasticsearch\0";
    assert_eq!(outcome_of("E02", &[("proc/7/cmdline", launcher)]), Outcome::Quiet);
    assert_eq!(
        outcome_of("E02", &[("proc/7/cmdline", launcher), ("proc/8/cmdline", node)]),
        Outcome::Finding(1)
    );
}

#[test]
fn a_search_node_is_judged_by_the_settings_that_it_was_told_to_read() {
    let node = "/opt/java/bin/java\0-Dopensearch.path.home=/srv/os\0-Dopensearch.path.conf=/srv/os/config\0org.opensearch.bootstrap.OpenSearch\0";
    let node = ("proc/7/cmdline", node);
    let lossy = "index.translog.durability: async\n";
    let own = ("srv/os/config/opensearch.yml", lossy);
    let packaged = ("etc/opensearch/opensearch.yml", lossy);
    assert_eq!(outcome_of("E05", &[node, own]), Outcome::Finding(1));
    assert_eq!(outcome_of("E05", &[node, packaged, (own.0, "cluster.name: x\n")]), Outcome::Quiet);
    // In a container it is elsewhere.
    assert!(matches!(outcome_of("E05", &[node, packaged]), Outcome::Unknown(_)));
    // Where it keeps its data follows from its home, unless the settings say.
    let mounts = ("proc/mounts", "/dev/sda / ext4 rw 0 0\ntmpfs /srv/os/data tmpfs rw 0 0\n");
    assert_eq!(outcome_of("F14", &[node, mounts, own]), Outcome::Finding(1));
    assert_eq!(outcome_of("F14", &[node, mounts, (own.0, "path.data:\n  - /var/os\n")]), Outcome::Quiet);
}

#[test]
fn only_a_node_with_other_work_needs_a_size_for_its_cache() {
    let outcome = |roles: &str| {
        let text = format!("node.roles: {roles}\n");
        outcome_of("E06", &[("etc/opensearch/opensearch.yml", text.as_str())])
    };
    for dedicated in
        ["[data_frozen]", "[ data_frozen, remote_cluster_client ]", "[warm]", "[ search ]", "[data]"]
    {
        assert_eq!(outcome(dedicated), Outcome::Quiet, "{dedicated}");
    }
    for mixed in ["[data_frozen, data_cold]", "[warm, data]", "[search, ingest]", "\n  - data\n  - warm"] {
        assert_eq!(outcome(mixed), Outcome::Finding(1), "{mixed}");
    }
}

#[test]
fn the_log_of_a_database_may_have_a_disk_of_its_own() {
    let files = [
        ("proc/88/cmdline", "/usr/lib/postgresql/16/bin/postgres\0-D\0/data/main\0"),
        ("data/main/postgresql.conf", "port = 5432\n"),
        ("proc/mounts", "/dev/sda / ext4 rw 0 0\ntmpfs /wal tmpfs rw 0 0\n"),
    ];
    assert_eq!(outcome_of("F14", &files), Outcome::Quiet);
    let log = ("data/main/pg_wal.link", "/wal/main");
    assert_eq!(outcome_of("F14", &[&files[..], &[log]].concat()), Outcome::Finding(1));
}

#[test]
fn children_of_a_server_are_called_as_it_is() {
    let conf = "etc/postgresql/16/main/postgresql.conf";
    let server = format!("/usr/lib/postgresql/16/bin/postgres\0-D\0/data/main\0-c\0config_file=/{conf}\0");
    let files = [
        ("proc/88/cmdline", server.as_str()),
        ("proc/89/cmdline", "postgres: 16/main: checkpointer \0"),
        ("proc/89/limits", "Max open files            512                  4096                 files\n"),
        ("proc/89/cwd.link", "/data/main"),
        (conf, "fsync = off\n"),
    ];
    assert_eq!(outcome_of("P03", &files), Outcome::Finding(1));
    assert_eq!(outcome_of("E07", &files), Outcome::Finding(1));
}

#[test]
fn writes_that_are_not_durable_are_judged_by_whose_they_are() {
    use crate::rule::Severity::{High, Low, Medium};
    let fixture = fixtures()[&("F15".to_owned(), "fires".to_owned())].clone();
    let severity = |role: Option<Role>| {
        let mut fixture = fixture.clone();
        fixture.said.roles = role.map(|role| ("/pg".to_owned(), role)).into_iter().collect();
        fixture.examine().findings.iter().find(|finding| finding.rule == "F15").unwrap().severity
    };
    let roles = [Some(Role::Log), Some(Role::Database), None, Some(Role::Cache)];
    assert_eq!(roles.map(severity), [High, Medium, Medium, Low]);
}

#[test]
fn what_a_server_can_do_with_is_not_too_little() {
    let outcome = |soft: u32| {
        let limits = format!("Max open files            {soft}                 524288               files\n");
        let server = "/usr/lib/postgresql/16/bin/postgres\0-D\0/data\0";
        outcome_of("E07", &[("proc/88/cmdline", server), ("proc/88/limits", limits.as_str())])
    };
    assert_eq!(outcome(1024), Outcome::Quiet);
    assert_eq!(outcome(512), Outcome::Finding(1));
}

#[test]
fn an_offload_that_a_device_does_not_have_is_not_off() {
    let outcome = |kinds: &str| {
        let text = format!(
            "scatter-gather: on\ntcp-segmentation-offload: off\n{kinds}generic-receive-offload: on\n"
        );
        with("N10", &[("commands/ethtool-k.eth0", text.as_str())]).outcome("N10")
    };
    assert_eq!(
        outcome("\ttx-tcp-segmentation: off [fixed]\n\ttx-tcp6-segmentation: off [fixed]\n"),
        Outcome::Quiet
    );
    assert_eq!(
        outcome("\ttx-tcp-segmentation: off\n\ttx-tcp6-segmentation: off [fixed]\n"),
        Outcome::Finding(1)
    );
    assert_eq!(outcome(""), Outcome::Finding(1));
}

#[test]
fn the_arc_gets_what_servers_leave() {
    let report = fixtures()[&("F16".to_owned(), "fires".to_owned())].examine();
    let finding = report.findings.iter().find(|finding| finding.rule == "F16").unwrap();
    assert_eq!(
        finding.observed,
        "the ARC may grow to 8.0 GiB beside 8.0 GiB of servers, of 16.0 GiB of memory"
    );
    // 0.9 of 16 GiB less 8.
    assert!(finding.fixes[0].run[0].starts_with("echo 6871947673 >"), "{:?}", finding.fixes[0].run);
    // Without a server the ARC may have it.
    let outcome = with_processes("F16", &[("proc/1/cmdline", "init\0")]).outcome("F16");
    assert_eq!(outcome, Outcome::Quiet);
}

/// A volume of st1 of `tib`, at `requests` a second of `kib` each.
fn st1(tib: u64, requests: u64, kib: u64) -> Report {
    let size = (tib * 2_147_483_648).to_string();
    let later = format!("259 0 nvme1n1 {requests} 0 {} 4000 0 0 0 0 0 999 0\n", requests * kib * 2);
    with("B05", &[("sys/block/nvme1n1/size", &size), ("1/proc/diskstats", &later)])
}

#[test]
fn volumes_are_judged_by_their_credits() {
    let limited = |report: Report| {
        [report.outcome("B05"), report.outcome("B06")].map(|outcome| outcome != Outcome::Quiet)
    };
    // The study's own case: 8 TiB, 128 KiB at random places, drained: 320 credits a second are 40 MiB/s.
    assert_eq!(limited(st1(8, 320, 128)), [false, true]);
    assert_eq!(limited(st1(8, 500, 128)), [true, false]);
    // 1 TiB may spend 250 credits a second, and 40 when it is drained.
    assert_eq!(limited(st1(1, 250, 16)), [true, false]);
    assert_eq!(limited(st1(1, 40, 16)), [false, true]);
    // Sequential requests are merged: their bytes are what counts.
    assert_eq!(limited(st1(2, 640, 128)), [false, true]);
    assert_eq!(limited(st1(2, 400, 128)), [false, false]);
    // Where the base is the burst there is no bucket.
    assert_eq!(limited(st1(13, 500, 1024)), [true, false]);
}

#[test]
fn killed_processes_are_judged_by_when() {
    use crate::rule::Severity::{Low, Medium};
    let severity = |files: &[(&str, &str)]| {
        let report = with("M08", files);
        report.findings.iter().find(|finding| finding.rule == "M08").unwrap().severity
    };
    assert_eq!(severity(&[("proc/uptime", "8640000.0 1\n")]), Low);
    assert_eq!(severity(&[("proc/uptime", "86400.0 1\n")]), Medium);
    assert_eq!(severity(&[("proc/uptime", "8640000.0 1\n"), ("1/proc/vmstat", "oom_kill 4\n")]), Medium);
}

/// The published /proc/interrupts of 28 CPUs and one queue pair, as figures (the file is not ours to ship).
fn published() -> String {
    let row = |irq: u32, counts: &[(usize, u64)], what: &str| {
        let mut columns = [0u64; 28];
        counts.iter().for_each(|(cpu, count)| columns[*cpu] = *count);
        let columns: Vec<String> = columns.iter().map(|count| format!("{count:>11}")).collect();
        format!(" {irq}: {}  PCI-MSI-edge {what}\n", columns.join(" "))
    };
    let header: Vec<String> = (0..28).map(|cpu| format!("CPU{cpu}")).collect();
    let mut text = format!("     {}\n", header.join("     "));
    text += &row(24, &[], "virtio1-config");
    text += &row(25, &[(0, 9177), (18, 112_894_163), (19, 1_340_489)], "virtio1-req.0");
    text += &row(27, &[(0, 9_176_864), (15, 3_676_790_525), (16, 401_551_873)], "virtio0-input.0");
    text + &row(28, &[(0, 2), (16, 1_285_361), (17, 18_874)], "virtio0-output.0")
}

fn check_published(text: &str) {
    let files = [("proc/interrupts".to_owned(), text.as_bytes().to_vec())];
    let report = examine(&Host::once(Tree::from_files(files), Said::default()));
    let first = &report.findings[0];
    assert_eq!((first.rule, first.object.as_str()), ("N02", "virtio0"));
    for figure in ["CPU15 89.95 %", "CPU16 9.82 %", "1.22 effective CPUs of 28"] {
        assert!(first.observed.contains(figure), "{}", first.observed);
    }
    let runs: Vec<&str> = first.fixes.iter().map(|fix| fix.run[0].as_str()).collect();
    assert!(runs[0].contains("hw:vif_multiqueue_enabled=true"), "{runs:?}");
    assert!(runs[1].contains("queues='28'"), "{runs:?}");
    assert!(runs[2].contains("ethtool -L $(ls /sys/bus/virtio/devices/virtio0/net) combined 28"), "{runs:?}");
    assert!(runs[3].contains("echo 0fffffff >") && runs[3].ends_with("rx-0/rps_cpus"), "{runs:?}");
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.rule == "B10" && finding.observed.contains("CPU18 takes 98.8 %"))
    );
}

#[test]
fn the_published_interrupts_are_one_queue() {
    check_published(&published());
}

#[test]
fn the_published_file_itself() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/published-interrupts.txt");
    match std::fs::read_to_string(file) {
        Ok(text) => check_published(&text),
        Err(_) => eprintln!("skipped: {file} is not there"),
    }
}

#[test]
fn hostile_names_reach_no_terminal_and_no_shell() {
    let mut fixture = Fixture::default();
    let hostile = "/a\\033[31m\\015;reboot`x`$(y)'z";
    let mounts = format!("27 1 254:1 / {hostile} rw - ext4 /dev/vda1{hostile} rw,discard\n");
    fixture.files[0].insert("proc/self/mountinfo".to_owned(), mounts.into_bytes());
    let report = fixture.examine();
    let finding = report.findings.iter().find(|finding| finding.rule == "F03").unwrap();
    let quoted = r"/a\u{1b}[31m\u{d};reboot`x`$(y)'\''z'";
    let expected = format!("mount -o remount,rw,strictatime,nodiscard '/dev/vda1{quoted} '{quoted}");
    assert_eq!(finding.fixes[0].run[0], expected);
    for format in Format::ALL {
        assert!(!report.render(format).contains(['\x1b', '\r']), "{format:?}");
    }
    assert!(!report.render(Format::Html).contains("'z"));
    let mut forged = Fixture::default();
    let table = "CPU0 CPU1 CPU2 CPU3\n 1: 1 1 1 1 MSI virtio0/net);reboot;$(ls-input.0\n".to_owned();
    forged.files[0].insert("proc/interrupts".to_owned(), table.into_bytes());
    assert!(forged.examine().findings.is_empty());
}

#[test]
fn forms_are_what_they_say() {
    let report = fixtures()[&("N02".to_owned(), "fires".to_owned())].examine();
    let json: serde_json::Value = serde_json::from_str(&report.render(Format::Json)).unwrap();
    assert_eq!(json["findings"][0]["rule"], "N02");
    let sarif: serde_json::Value = serde_json::from_str(&report.render(Format::Sarif)).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "N02");
    assert_eq!(sarif["runs"][0]["tool"]["driver"]["rules"][0]["id"], "N02");
    let metrics = report.prometheus();
    assert!(metrics.contains("frostline_doctor_finding{rule=\"N02\",name=\"single-queue-nic\",object=\"eth0\",severity=\"medium\"} 1\n"), "{metrics}");
    let page = report.render(Format::Html);
    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("<p class=lead>Begin with eth0: "), "{page}");
}

/// The seeds of the fuzz target: every fixture that fires, one file for each letter of rules.
#[test]
fn seeds_of_the_fuzzer_are_read() {
    let mut seeds: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for ((rule, _), fixture) in fixtures().iter().filter(|((_, kind), _)| kind == "fires") {
        let seed = seeds.entry(rule[..1].to_lowercase()).or_default();
        for (prefix, files) in ["", "1/"].iter().zip(&fixture.files) {
            for (path, text) in files {
                // NUL ends a text there; command lines are read with line feeds, too.
                let text = String::from_utf8_lossy(text).replace('\0', "\n");
                seed.extend_from_slice(format!("{prefix}{path}\0{text}\0").as_bytes());
            }
        }
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/doctor");
    for (letter, seed) in seeds {
        crate::fuzzing::examine_files(&seed);
        if std::env::var_os("FROSTLINE_BLESS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(letter), seed).unwrap();
        }
    }
}

#[test]
fn the_page_of_rules_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, _) = page.split_once("## The rules\n").expect("docs/doctor.md has a section of rules");
    let current = format!("{head}## The rules\n\n{}", crate::report::markdown());
    if page != current {
        assert!(
            std::env::var_os("FROSTLINE_BLESS").is_some(),
            "docs/doctor.md is stale: run with FROSTLINE_BLESS=1"
        );
        std::fs::write(path, current).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Fixtures with files mixed, cut and filled with noise: every rule answers, every form renders.
    #[test]
    fn damaged_captures_never_panic(which in prop::collection::vec((0usize..400, 0usize..600, "(?s).{0,40}"), 1..6)) {
        let all: Vec<Fixture> = fixtures().into_values().collect();
        let mut mixed = Fixture::default();
        for (at, cut, noise) in which {
            for sample in 0..2 {
                for (path, bytes) in &all[at % all.len()].files[sample] {
                    let mut bytes = bytes.clone();
                    let cut = cut.min(bytes.len());
                    bytes.splice(cut..cut, noise.bytes());
                    mixed.files[sample].insert(path.clone(), bytes);
                }
            }
        }
        let report = mixed.examine();
        prop_assert_eq!(report.quiet.len() + report.unknown.len() + fired(&report), super::all().count());
        for format in Format::ALL {
            let text = report.render(format);
            let acts = text.contains(|c| ['\u{1b}', '\u{202e}', '\r'].contains(&c));
            prop_assert!(!acts);
        }
    }
}
