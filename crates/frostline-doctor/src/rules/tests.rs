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
                ("damaged", outcome) => !matches!(outcome, Outcome::Finding(_)),
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
        // What is applied here can be undone, or is only looked at.
        let looks = |command: &&str| {
            [
                "ss ",
                "ps ",
                "cat ",
                "systemd-cgtop",
                "journalctl",
                "iostat",
                "pidstat",
                "nstat",
                "mdadm",
                "fio ",
                "numactl",
            ]
            .iter()
            .any(|p| command.starts_with(p))
        };
        for fix in rule.fixes.iter().filter(|fix| fix.side == crate::rule::Side::Here && fix.undo.is_empty())
        {
            assert!(
                fix.run.iter().all(looks) || matches!(rule.id, "N06" | "F08"),
                "{}: {:?}",
                rule.id,
                fix.run
            );
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

#[test]
fn settings_of_a_cluster_that_does_not_run_matter_little() {
    use crate::rule::Severity::{Low, Medium};
    for (process, severity, says) in [("postgres\0", Medium, false), ("bash\0", Low, true)] {
        let report = with_processes("P02", &[("proc/88/cmdline", process)]);
        let found = report.findings.iter().find(|finding| finding.rule == "P02").unwrap();
        let is_said = found.observed.ends_with("of a cluster that does not run");
        assert_eq!((found.severity, is_said), (severity, says), "{}", found.observed);
    }
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
    let mounts = format!("/dev/vda1 {hostile} ext4 rw,discard 0 0\n");
    fixture.files[0].insert("proc/mounts".to_owned(), mounts.into_bytes());
    let report = fixture.examine();
    let finding = report.findings.iter().find(|finding| finding.rule == "F03").unwrap();
    let expected = r"mount -o remount,nodiscard '/a\u{1b}[31m\u{d};reboot`x`$(y)'\''z'";
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
    assert!(report.render(Format::Html).starts_with("<!doctype html>"));
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
