//! Every fix applied to a real kernel and undone, with all settings equal before and after: on devices and mounts of a
//! namespace, and the whole of a virtual machine that may be changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::host::{Host, Said};
use crate::report::{Finding, Report};
use crate::rule::Found;
use crate::rules;
use crate::tree::Tree;

/// Set in a virtual machine of which every setting may be changed, to the rules to try (`N03,M12`) or to `all`.
const GUEST: &str = "FROSTLINE_DOCTOR_GUEST";

fn sh(command: &str) -> String {
    let output = Command::new("/bin/sh").args(["-ec", command]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What the kernel says of everything that a fix could touch.
fn settings(is_guest: bool, block: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut folders: Vec<String> =
        vec!["/sys/class/net".to_owned(), "/proc/sys/net".to_owned(), format!("/sys/block/{block}")];
    if is_guest {
        let more = [
            "/proc/sys",
            "/proc/irq",
            "/sys/block",
            "/sys/kernel/mm",
            "/sys/devices/system/clocksource",
            "/sys/devices/system/cpu",
            "/sys/devices/system/node",
        ];
        folders.extend(more.map(str::to_owned));
    }
    // Counters, and what is drawn at each reading.
    let counts = |path: &str| {
        let parts = [
            "/statistics",
            "/random/",
            "conntrack_count",
            "errors_count",
            "usage_count",
            "carrier_up_count",
            "carrier_down_count",
            "/fs/dentry-state",
            "/fs/inode",
            "/fs/file-nr",
            "/pty/nr",
            "/ns_last_pid",
            "/stat",
            "/inflight",
            // What smp_affinity leads to only at the next interrupt.
            "/effective_affinity",
            "/cpuidle/state",
            "/meminfo",
            "/vmstat",
            "/numastat",
            "/spurious",
            "/pages_",
            "/full_scans",
            "/ksm/",
            "/khugepaged/",
            "/free_hugepages",
            "/stable_node",
            "/uevent",
            "/carrier",
            "/cpufreq/",
            "/byte_queue_limits/",
            "/wakeup",
            "/diskseq",
            "/io_timeout",
            "/dirty_bytes_",
            "/thermal_throttle/",
            "/topology",
            "/cache/",
            "/general_profit",
            "/zswap",
            "/crash_notes",
        ];
        parts.iter().any(|part| path.contains(part))
            && !path.ends_with("/disable")
            && !path.ends_with("/ksm/run")
    };
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path().display().to_string();
            let Ok(kind) = entry.file_type() else { continue };
            let is_device = kind.is_symlink() && ["/sys/class/net", "/sys/block"].contains(&folder.as_str());
            if kind.is_dir() || is_device {
                folders.push(path);
            } else if kind.is_file() && !counts(&path) {
                all.extend(fs::read_to_string(&path).ok().map(|text| (path, text)));
            }
        }
    }
    // Of other file systems than ours somebody else may mount and unmount.
    all.insert("mounts".to_owned(), mounts(if is_guest { "" } else { block }));
    for (option, dev) in
        ["-l", "-g", "-k"].iter().flat_map(|option| nics().into_iter().map(move |dev| (*option, dev)))
    {
        let said = Command::new("ethtool").args([option, &dev]).output();
        all.extend(said.ok().map(|said| {
            (format!("ethtool {option} {dev}"), String::from_utf8_lossy(&said.stdout).into_owned())
        }));
    }
    all
}

fn nics() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/net").unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name != "lo").collect()
}

/// What mountinfo says of a device.
fn mounts(block: &str) -> String {
    // Names of others may be no UTF-8.
    let all = fs::read("/proc/self/mountinfo").unwrap();
    let all = String::from_utf8_lossy(&all);
    all.lines().filter(|line| line.contains(block)).map(|line| format!("{line}\n")).collect()
}

/// The host as the doctor sees it.
fn host() -> Host {
    let tree = Tree::open(Path::new("/")).unwrap();
    let mut printed = crate::live::commands(&tree);
    printed.extend(crate::live::uuids(&tree));
    Host::once(tree.with_files(printed), Said::default())
}

/// The report of one finding of a rule.
fn report(host: &Host, id: &str, found: Found) -> Report {
    let finding = Finding::new(host, rules::find(id).unwrap(), found);
    Report {
        subject: String::new(),
        seconds: 0.0,
        findings: vec![finding],
        unknown: Vec::new(),
        quiet: Vec::new(),
    }
}

/// A rule, a command that makes the host worse, and a finding on it.
struct Case {
    rule: &'static str,
    worse: String,
    found: Found,
}

fn case(rule: &'static str, worse: impl Into<String>, values: &[(&'static str, &str)]) -> Case {
    let found = values.iter().fold(Found::default(), |found, (name, value)| found.with(name, *value));
    Case { rule, worse: worse.into(), found }
}

/// Applies and undoes the fix three times, twice in a row each; and once with part of it in place.
fn check(case: &Case, folder: &Path, block: &str, is_guest: bool) {
    let id = case.rule;
    sh(&case.worse);
    let before = settings(is_guest, block);
    let report = report(&host(), id, case.found.clone());
    let steps: Vec<_> = report.findings[0].fixes.iter().flat_map(|fix| fix.steps.clone()).collect();
    assert!(!steps.is_empty(), "{id}: nothing was read: {:?}", report.findings[0].fixes);
    let script = folder.join(format!("{id}.sh"));
    fs::write(&script, super::script(&report, &[])).unwrap();
    let run = |argument: &str| {
        let output = Command::new("/bin/sh").arg(&script).arg(argument).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{id} {argument}: {said}");
        said
    };
    let compare = |when: &str| {
        let now = settings(is_guest, block);
        let differ: Vec<_> = before.iter().filter(|(path, text)| now.get(*path) != Some(text)).collect();
        let differ: Vec<_> = differ.iter().map(|(path, text)| (path, text, now.get(*path))).collect();
        assert!(differ.is_empty(), "{id} {when}: {differ:?}");
    };
    for round in 0..3 {
        let said = run("fix");
        assert!(said.contains(" -> "), "{id}: {said}");
        assert!(settings(is_guest, block) != before, "{id}: nothing changed");
        assert!(!run("fix").contains(" -> "), "{id} is fixed twice");
        run("undo");
        run("undo");
        compare(&format!("round {round}"));
    }
    // With the first setting as advised already the fix neither touches nor undoes it.
    if let [first, _, ..] = &steps[..] {
        let values =
            format!("{}get() {{ {}; }}; set_it() {{ {}; }}", crate::setting::SHELL, first.get, first.set);
        sh(&format!("set -f; {values}; set_it '{}'", first.to));
        let partly = settings(is_guest, block);
        let again = self::report(&host(), id, case.found.clone());
        let left: Vec<_> = again.findings[0].fixes.iter().flat_map(|fix| fix.steps.clone()).collect();
        assert!(left.iter().all(|step| step.name != first.name), "{id}: {left:?}");
        fs::write(&script, super::script(&again, &[])).unwrap();
        run("fix");
        run("undo");
        assert!(settings(is_guest, block) == partly, "{id}: not undone where part of it was in place");
        sh(&format!("set -f; {values}; set_it '{}'", first.back));
    }
    eprintln!("{id}: {} settings changed and set back", steps.len());
}

/// Options of one mount are fixed by scripts of their own, and by one together, and are undone in every order.
fn check_orders(folder: &Path, block: &str, point: &str) {
    const RULES: [&str; 3] = ["F01", "F03", "F06"];
    let mounts = || mounts(block);
    let (before, host) = (mounts(), host());
    let reports = RULES.map(|rule| report(&host, rule, Found::default().with("point", point)));
    let together = Report {
        findings: reports.iter().flat_map(|report| report.findings.clone()).collect(),
        ..reports[0].clone()
    };
    let run = |name: &str, report: &Report, argument: &str| {
        let script = folder.join(name);
        fs::write(&script, super::script(report, &[])).unwrap();
        let output = Command::new("/bin/sh").arg(&script).arg(argument).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{name} {argument}: {said}");
        said
    };
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for (rule, report) in RULES.iter().zip(&reports) {
            let said = run(rule, report, "fix");
            assert_eq!(said.matches(" -> ").count(), 1, "{rule}: {said}");
        }
        order.iter().for_each(|at| drop(run(RULES[*at], &reports[*at], "undo")));
        assert_eq!(mounts(), before, "undone in the order {order:?}");
    }
    let said = run("together", &together, "fix");
    assert_eq!(said.matches(" -> ").count(), RULES.len(), "{said}");
    let now = mounts();
    assert!(now.contains(",relatime") && !now.contains("discard") && !now.contains("nobarrier"), "{now}");
    run("together", &together, "undo");
    assert_eq!(mounts(), before);
    eprintln!("options of one mount are undone in every order");
}

/// What a rule finds on mounts below `folder`.
fn found(rule: &str, folder: &Path) -> Report {
    let mut report = crate::examine(&host());
    let at = folder.display().to_string();
    report.findings.retain(|finding| finding.rule == rule && finding.object.contains(&at));
    report
}

/// Runs the script of a report with this as its argument: whether it worked, and what it said.
fn ran(script: &Path, argument: &str) -> (bool, String) {
    let output = Command::new("/bin/sh").arg(script).arg(argument).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Makes a btrfs of a file. mkfs.btrfs asks for the file of each loop device that is mounted, also where that is on a file
/// system of another test that has ended. It does not see them in a namespace of its own.
fn mkfs_btrfs(file: &str) -> String {
    let mounted = "$(sed -n \"s#^/dev/loop[^ ]* \\([^ ]*\\) .*#\\1#p\" /proc/self/mounts)";
    format!(
        "unshare --mount --propagation private sh -c '
             for point in {mounted}; do umount -l $point || :; done
             mkfs.btrfs -q {file}'"
    )
}

/// Writable and read-only mounts of one file system: a fix changes only the option, also when it is typed.
fn check_several_mounts(folder: &Path) {
    let at = folder.join("several");
    let there = at.display();
    sh(&format!("mkdir -p {there}/st {there}/ro {there}/rw && truncate -s 256M {there}/ext4 {there}/btrfs"));
    let ext4 = "mkfs.ext4 -qF ext4 && mount -o loop,nobarrier,nosuid,strictatime,sync ext4 st && mkdir st/sub 'st/all x'
         mount --bind st/sub ro && mount -o remount,bind,ro,nodev ro && mount --bind 'st/all x' rw && umount st";
    let btrfs = mkfs_btrfs("btrfs")
        + "
         mount -o loop,nobarrier btrfs st
         btrfs -q subvolume create st/snap
         btrfs -q subvolume create st/data
         loop=$(losetup -n -O NAME -j btrfs)
         mount -o ro,subvol=snap,nobarrier,strictatime $loop ro
         mount -o rw,subvol=data,nobarrier,strictatime $loop rw
         umount st";
    let has_btrfs = Command::new("mkfs.btrfs").arg("-V").output().is_ok();
    for (kind, worse) in [("ext4", ext4), ("btrfs", &btrfs)] {
        if kind == "btrfs" && !has_btrfs {
            eprintln!("skipped: no mkfs.btrfs");
            continue;
        }
        sh(&format!("cd {there}\n{worse}"));
        let all = || mounts(&there.to_string());
        let before = all();
        for (rule, object) in [("F01", format!("{there}/ro, {there}/rw")), ("F06", format!("{there}/rw"))] {
            let report = found(rule, &at);
            let is_one = report.findings.len() == 1 && report.findings[0].object == object;
            assert!(is_one, "{kind} {rule}: {:?} of {before}", report.findings);
            let script = folder.join(format!("{kind}-{rule}"));
            fs::write(&script, super::script(&report, &[])).unwrap();
            let step = &report.findings[0].fixes[0].steps[0];
            assert_eq!(sh(&format!("{}{}", crate::setting::SHELL, step.whose)), step.owner);
            let is_fixed = |by: &str| {
                assert!(found(rule, &at).findings.is_empty(), "{by}: {}", all());
                fs::write(at.join("rw/x"), "x").unwrap();
                // Other options than the one of the rule are as they were.
                let options = |text: &str| {
                    let text = text.replace(",nobarrier", "");
                    text.replace(&format!("{there}/rw rw,nosuid,relatime"), &format!("{there}/rw rw,nosuid"))
                        .replace(&format!("{there}/rw rw,relatime"), &format!("{there}/rw rw"))
                };
                assert_eq!(options(&all()), options(&before), "{by}");
            };
            for _ in 0..2 {
                let (worked, said) = ran(&script, "fix");
                assert!(worked && said.matches(" -> ").count() == 1, "{said}");
                is_fixed("script");
                let (worked, said) = ran(&script, "undo");
                assert!(worked && all() == before, "{said}");
            }
            sh(&step.run);
            is_fixed(&step.run);
            sh(&step.undo);
            assert_eq!(all(), before, "{}", step.undo);
        }
        sh(&format!("umount {there}/ro {there}/rw"));
    }
    eprintln!("one mount of several is fixed");
}

/// A disk is mounted where another one was when it was fixed, also if its file system has no UUID.
fn check_another_disk(folder: &Path) {
    for uuid in ["random", "clear"] {
        check_another_disk_of(&folder.join(format!("another-{uuid}")), uuid);
    }
    eprintln!("another disk is left alone");
}

fn check_another_disk_of(at: &Path, uuid: &str) {
    let there = at.display();
    sh(&format!(
        "mkdir -p {there}/at && cd {there} && truncate -s 64M one two
         mkfs.ext4 -qF -U {uuid} one && mkfs.ext4 -qF -U {uuid} two && mount -o loop,nobarrier one at"
    ));
    let script = at.join("fix.sh");
    fs::write(&script, super::script(&found("F01", at), &[])).unwrap();
    assert!(ran(&script, "fix").0);
    // A device that is freed gets its number again: then only the UUID tells, or the file behind it.
    for other in ["mount -o loop two at", "mount -o loop,nobarrier two at"] {
        sh(&format!("cd {there} && umount at && {other}"));
        let before = mounts(&there.to_string());
        for _ in 0..2 {
            let (worked, said) = ran(&script, "undo");
            assert!(
                !worked && said.contains(&format!("barrier of {there}/at is gone, or belongs to another")),
                "{uuid}: {said}"
            );
            assert_eq!(mounts(&there.to_string()), before);
        }
    }
    sh(&format!("umount {there}/at"));
    let (worked, said) = ran(&script, "undo");
    assert!(!worked && said.contains("is gone"), "{said}");
}

/// A `mount` that makes the file system read-only with the option: everything is set back, and said.
fn check_more_than_was_wanted(folder: &Path) {
    let at = folder.join("more");
    let there = at.display();
    sh(&format!(
        "mkdir -p {there}/at {there}/bin && cd {there} && truncate -s 64M disk && mkfs.ext4 -qF disk && mount -o loop,nobarrier disk at"
    ));
    let mount = sh("command -v mount");
    let wrong = format!(
        "#!/bin/sh\noptions=$2\n[ -e {there}/once ] || options=remount,ro,${{2#remount,rw,}}\n: > {there}/once\n\
         exec {mount} -o \"$options\" \"$3\" \"$4\"\n"
    );
    fs::write(at.join("bin/mount"), wrong).unwrap();
    let script = folder.join("more.sh");
    fs::write(&script, super::script(&found("F01", &at), &[])).unwrap();
    let before = mounts(&there.to_string());
    let command = format!("chmod +x {there}/bin/mount; PATH={there}/bin:$PATH; sh {} fix", script.display());
    let output = Command::new("/bin/sh").args(["-c", &command]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("other options changed with it"), "{said}");
    assert_eq!(mounts(&there.to_string()), before, "{said}");
    assert!(ran(&script, "undo").0 && mounts(&there.to_string()) == before);
    sh(&format!("umount {there}/at"));
    eprintln!("what changes with an option is set back");
}

/// Options that are a default in the superblock of an ext4 are found, and set there and back: on one of many file
/// systems, and with a PATH that has no blkid.
fn check_defaults(folder: &Path) {
    let at = folder.join("defaults");
    let there = at.display();
    sh(&format!(
        "mkdir -p {there} && cd {there} && truncate -s 1M disk0 && mkfs.ext4 -qF disk0
         for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do
             cp --sparse=always disk0 disk$n && mkdir at$n
             [ $n != 17 ] || tune2fs -o nobarrier,discard disk17 > disk0
             mount -o loop disk$n at$n
         done"
    ));
    let block = sh(&format!("basename $(findmnt -no SOURCE {there}/at17)"));
    let all = || mounts(&there.to_string()) + &sh(&format!("cat /proc/fs/ext4/{block}/options"));
    let before = all();
    assert!(!mounts(&block).contains("barrier") && before.contains("\nnobarrier"), "{before}");
    let report = found("F01", &at);
    assert!(report.findings.len() == 1, "{:?} of {before}", report.findings);
    assert!(report.findings[0].fixes[0].steps[0].owner.contains('-'), "the UUID is not known");
    let script = folder.join("defaults.sh");
    fs::write(&script, super::script(&report, &[])).unwrap();
    let run = |argument: &str| {
        let output = Command::new("/bin/sh").arg(&script).arg(argument).env("PATH", "/usr/bin:/bin").output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    for _ in 0..2 {
        run("fix");
        assert!(all().contains("\nbarrier") && found("F01", &at).findings.is_empty(), "{}", all());
        run("undo");
        assert_eq!(all(), before);
    }
    sh(&format!("umount {there}/at*"));
    eprintln!("defaults of a superblock are set and set back");
}

/// Numbers of interrupts that another device gets are left alone, before a fix and when it is undone. The interrupts are
/// files, so that those of this machine stay where they are.
fn check_interrupts(folder: &Path) {
    let at = folder.join("interrupts");
    let there = at.display();
    let devices = |first: &str, second: &str| {
        let table = format!(
            " CPU0 CPU1\n 30:  7  0  PCI-MSI  1-edge  {first}\n 31:  9  10  PCI-MSI  2-edge  {second}\n"
        );
        fs::write(at.join("table"), table).unwrap();
    };
    let places = || sh(&format!("cat {there}/irq/30/smp_affinity_list {there}/irq/31/smp_affinity_list"));
    let place = |cpu: u32| {
        sh(&format!("echo {cpu} | tee {there}/irq/30/smp_affinity_list {there}/irq/31/smp_affinity_list"))
    };
    sh(&format!("mkdir -p {there}/irq/30 {there}/irq/31"));
    place(0);
    devices("eth0-rx-0", "eth0-rx-1");
    sh(&format!("mount --bind {there}/irq /proc/irq && mount --bind {there}/table /proc/interrupts"));
    let found = ["30", "31"].iter().fold(Found::default(), |found, irq| {
        found.row(&[("irq", (*irq).to_owned()), ("cpu", "1".to_owned())])
    });
    let script = folder.join("interrupts.sh");
    fs::write(&script, super::script(&report(&host(), "N04", found), &[])).unwrap();
    devices("nvme0q1", "eth0-rx-1");
    let (worked, said) = ran(&script, "fix");
    assert!(!worked && said.contains("/proc/irq/30/smp_affinity_list belongs to another device"), "{said}");
    assert_eq!(places(), "0\n0");
    devices("eth0-rx-0", "eth0-rx-1");
    assert!(ran(&script, "fix").0 && places() == "1\n1");
    devices("eth0-rx-0", "nvme0q1");
    let (worked, said) = ran(&script, "undo");
    assert!(
        !worked && said.contains("/proc/irq/31/smp_affinity_list is gone, or belongs to another"),
        "{said}"
    );
    assert_eq!(places(), "0\n1");
    devices("eth0-rx-0", "eth0-rx-1");
    assert!(ran(&script, "undo").0 && places() == "0\n0");
    check_channels(&at, &devices, &place);
    sh("umount /sys/class/net /proc/interrupts /proc/irq");
    eprintln!("interrupts of other devices are left alone");
}

/// The number of queues is set back with the places of interrupts and the CPUs of queues: also after a kill between them,
/// and not those of another device.
fn check_channels(at: &Path, devices: &dyn Fn(&str, &str), place: &dyn Fn(u32) -> String) {
    let there = at.display();
    let queues = at.join("net/eth0/queues");
    sh(&format!(
        "mkdir -p {there}/net/eth0/device/msi_irqs {there}/net/eth0/queues/tx-0 {there}/bin
         cd {there}/net/eth0/device/msi_irqs && touch 30 31 && mount --bind {there}/net /sys/class/net"
    ));
    let ethtool = format!(
        "#!/bin/sh
         case $1 in
         -l) printf 'Current hardware settings:\\nCombined:\\t%s\\n' $(cat {there}/channels) ;;
         -L) echo $4 > {there}/channels
             echo 0-1 | tee {there}/irq/30/smp_affinity_list > {there}/irq/31/smp_affinity_list
             echo 3 > {there}/net/eth0/queues/tx-0/xps_cpus
             [ ! -e {there}/kill ] || {{ rm {there}/kill; kill -9 $PPID; }} ;;
         -x) cat {there}/spread ;;
         esac\n"
    );
    fs::write(at.join("bin/ethtool"), ethtool).unwrap();
    fs::write(at.join("channels"), "1\n").unwrap();
    sh(&format!("chmod +x {there}/bin/ethtool"));
    let files = [(
        "commands/ethtool-l.eth0",
        "Pre-set maximums:\nCombined:\t2\nCurrent hardware settings:\nCombined:\t1\n",
    )];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let host = Host::once(Tree::from_files(files), Said::default());
    let script = at.join("channels.sh");
    let found = Found::default().with("dev", "eth0").with("queues", "2");
    fs::write(&script, super::script(&report(&host, "N03", found), &[])).unwrap();
    let run = |argument: &str| {
        let path = format!("{there}/bin:{}", std::env::var("PATH").unwrap());
        let output = Command::new("/bin/sh").arg(&script).arg(argument).env("PATH", path).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let now = || {
        sh(&format!(
            "cd {there} && echo $(cat channels irq/30/smp_affinity_list irq/31/smp_affinity_list \
             net/eth0/queues/tx-0/xps_cpus)"
        ))
    };
    let begin = || {
        devices("eth0-rx-0", "eth0-rx-1");
        place(1);
        fs::write(queues.join("tx-0/xps_cpus"), "1\n").unwrap();
        assert_eq!(now(), "1 1 1 1");
        let (worked, said) = run("fix");
        assert!(worked && now() == "2 0-1 0-1 3", "{said}{}", now());
    };
    begin();
    assert!(run("undo").0 && now() == "1 1 1 1", "{}", now());
    begin();
    fs::write(at.join("kill"), "").unwrap();
    assert!(!run("undo").0 && now() == "1 0-1 0-1 3", "{}", now());
    let (worked, said) = run("undo");
    assert!(worked && now() == "1 1 1 1" && !script.with_extension("sh.changed").exists(), "{said}{}", now());
    // The number of an interrupt of another device is left alone.
    begin();
    devices("nvme0q1", "eth0-rx-1");
    assert!(run("undo").0 && now() == "1 0-1 1 1", "{}", now());
    // A table of flows of its own would be lost, and the default one is none.
    for (row, is_default) in [("1 1 1 1", false), ("0 1 0 1", true)] {
        let table = format!(
            "RX flow hash indirection table for eth0 with 2 RX ring(s):\n    0:    {row}\nRSS hash key:\n"
        );
        fs::write(at.join("spread"), table).unwrap();
        let (worked, said) = run("fix");
        assert_eq!((worked, said.contains("its own table of flows")), (is_default, !is_default), "{said}");
    }
    assert!(run("undo").0);
}

/// What is on top of a device may be in another network namespace: there is one, of whoever runs the tests.
fn check_smaller_frames(folder: &Path) {
    let found = Found::default().with("dev", "mine").with("mtu", "1400");
    let script = folder.join("smaller.sh");
    fs::write(&script, super::script(&report(&host(), "N11", found), &[])).unwrap();
    let (worked, said) = ran(&script, "fix");
    assert!(!worked && said.contains("in another network namespace would become smaller"), "{said}");
    assert!(sh("cat /sys/class/net/mine/mtu") == "1500" && !script.with_extension("sh.changed").exists());
    eprintln!("frames are not made smaller for other namespaces");
}

/// A device on top of another becomes smaller with it, and larger again: if it still is the same one.
fn check_larger_again(folder: &Path) {
    sh(
        "ip link set mine mtu 9000 up && ip link add top link mine type macvlan && ip link set top mtu 9000 up",
    );
    let script = folder.join("larger.sh");
    let found = Found::default().with("dev", "mine").with("mtu", "1500");
    fs::write(&script, super::script(&report(&host(), "N11", found), &[])).unwrap();
    // As on a host without other network namespaces.
    let run = |argument: &str| {
        let alone = format!(
            "for space in $(sed -n 's/^[^ ]* [^ ]* [^ ]* net:[^ ]* \\([^ ]*\\) .*/\\1/p' /proc/self/mountinfo); do
                 umount -l $space
             done
             exec sh {} {argument}",
            script.display()
        );
        let output = Command::new("unshare")
            .args(["--pid", "--fork", "--mount-proc", "sh", "-c", &alone])
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let sizes = || sh("cd /sys/class/net && echo $(cat mine/mtu top/mtu)");
    let is_recorded = || script.with_extension("sh.changed").exists();
    let fix = || {
        let (worked, said) = run("fix");
        assert!(worked && sizes() == "1500 1500", "{said}{}", sizes());
    };
    fix();
    let (worked, said) = run("undo");
    assert!(worked && sizes() == "9000 9000" && !is_recorded(), "{said}{}", sizes());
    fix();
    sh("ip link del top");
    let (worked, said) = run("undo");
    assert!(worked && said.contains("/sys/class/net/top/mtu is gone") && !is_recorded(), "{said}");
    assert_eq!(sh("cat /sys/class/net/mine/mtu"), "9000");
    // Another device that has the name.
    sh("ip link add top link mine type macvlan && ip link set top mtu 9000 up");
    fix();
    sh("ip link del top && ip link add top mtu 1500 type veth peer name below");
    let (worked, said) = run("undo");
    assert!(worked && said.contains("top/mtu is gone, or belongs to another device"), "{said}");
    assert!(sizes() == "9000 1500" && !is_recorded(), "{}", sizes());
    sh("ip link del top && ip link add top link mine type macvlan && ip link set top mtu 9000 up");
    // The kernel makes the MTU of routes smaller, too, and then larger than it was.
    for mtu in ["4000", "1500"] {
        let route = format!("fd00:a::/64 dev top mtu {mtu}");
        sh(&format!("ip -6 route add {route}"));
        let (worked, said) = run("fix");
        assert!(
            !worked && said.contains(&format!("top: the MTU {mtu} of an IPv6 route would be lost")),
            "{said}"
        );
        assert!(sizes() == "9000 9000" && !is_recorded(), "{}", sizes());
        sh(&format!("ip -6 route del {route}"));
    }
    sh("ip -6 route add fd00:a::/64 dev top mtu lock 4000 && ip -6 route add fd00:b::/64 dev top mtu 1400");
    let routes = || sh("ip -6 route show table all | grep mtu");
    let before = routes();
    fix();
    let (worked, said) = run("undo");
    assert!(worked && sizes() == "9000 9000" && routes() == before, "{said}{}", routes());
    // Without a list of routes.
    let path = std::env::var("PATH").unwrap();
    let at = folder.join("no-ip");
    sh(&format!("mkdir {0} && printf '#!/bin/sh\nexit 1\n' > {0}/ip && chmod +x {0}/ip", at.display()));
    let output = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "sh"])
        .arg(&script)
        .env("PATH", format!("{}:{path}", at.display()))
        .output()
        .unwrap();
    assert!(!output.status.success() && sizes() == "9000 9000", "{}", sizes());
    sh("ip link del top");
    eprintln!("devices on top of another become larger again");
}

/// XFS has no option that a remount could set without a change of others.
fn check_xfs(folder: &Path) {
    let at = folder.join("xfs");
    let there = at.display();
    if Command::new("mkfs.xfs").arg("-V").output().is_err() {
        eprintln!("skipped: no mkfs.xfs");
        return;
    }
    sh(&format!(
        "mkdir -p {there}/at && cd {there} && truncate -s 320M disk && mkfs.xfs -qf disk && mount -o loop,discard,inode32 disk at"
    ));
    let before = mounts(&there.to_string());
    let report = report(&host(), "F03", Found::default().with("point", format!("{there}/at")));
    assert!(
        report.findings[0]
            .fixes
            .iter()
            .all(|fix| fix.steps.is_empty() && fix.run.iter().all(|run| !run.contains("remount")))
    );
    let script = folder.join("xfs.sh");
    fs::write(&script, super::script(&report, &[])).unwrap();
    assert!(ran(&script, "fix").0 && mounts(&there.to_string()) == before);
    sh(&format!("umount {there}/at"));
    eprintln!("XFS is not remounted");
}

/// A btrfs keeps its options: also where `mount` loses one, which is recorded, and where its first device is removed.
fn check_btrfs(folder: &Path) {
    let at = folder.join("btrfs");
    let there = at.display();
    if Command::new("mkfs.btrfs").arg("-V").output().is_err() {
        eprintln!("skipped: no mkfs.btrfs");
        return;
    }
    sh(&format!("mkdir -p {there}/at {there}/bin && cd {there} && truncate -s 300M one two"));
    sh(&format!("cd {there}\n{}\nmount -o loop,nobarrier,noacl one at", mkfs_btrfs("one")));
    let all = || mounts(&there.to_string());
    let before = all();
    let report = found("F01", &at);
    let script = folder.join("btrfs.sh");
    fs::write(&script, super::script(&report, &[])).unwrap();
    let fixed = before.replace(",nobarrier", "");
    assert!(ran(&script, "fix").0 && all() == fixed, "{}", all());
    assert!(ran(&script, "undo").0 && all() == before, "{}", all());
    let step = &report.findings[0].fixes[0].steps[0];
    sh(&step.run);
    assert_eq!(all(), fixed, "{}", step.run);
    sh(&step.undo);
    assert_eq!(all(), before, "{}", step.undo);
    // A mount that loses an option, and cannot set it back.
    let mount = sh("command -v mount");
    let wrong = format!("#!/bin/sh\nexec {mount} -o \"$(echo \"$2\" | sed s/,noacl//g)\" \"$3\" \"$4\"\n");
    fs::write(at.join("bin/mount"), wrong).unwrap();
    sh(&format!("chmod +x {there}/bin/mount"));
    let path = format!("{there}/bin:{}", std::env::var("PATH").unwrap());
    for argument in ["fix", "undo", "undo"] {
        let output = Command::new("/bin/sh").arg(&script).arg(argument).env("PATH", &path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("could not be set back: lacks noacl"),
            "{argument}: {said}"
        );
        assert_eq!(all(), before.replace(",noacl", ""));
    }
    let (worked, said) = ran(&script, "undo");
    assert!(worked && all() == before, "{said}{}", all());
    assert!(!script.with_extension("sh.changed").exists());
    assert!(ran(&script, "fix").0);
    sh(&format!(
        "cd {there} && btrfs -q device add -f $(losetup --show -f two) at && btrfs -q device remove $(findmnt -no SOURCE at) at"
    ));
    let (worked, said) = ran(&script, "undo");
    assert!(worked && all().contains(",nobarrier") && all().contains(",noacl"), "{said}{}", all());
    sh(&format!("cd {there} && umount at && losetup -d $(losetup -n -O NAME -j two)"));
    eprintln!("btrfs keeps its options");
}

/// A loop device with a small ext4 on it, mounted at `folder`/mnt.
fn disk(folder: &Path) -> String {
    let at = folder.display();
    let device = sh(&format!(
        "truncate -s 64M {at}/disk && mkfs.ext4 -qF {at}/disk && mkdir -p '{at}/a mount' && losetup --show -f {at}/disk"
    ));
    sh(&format!("mount -o nosuid,strictatime,nodiratime,discard,nobarrier {device} '{at}/a mount'"));
    device.trim_start_matches("/dev/").to_owned()
}

/// What can be tried where only devices and mounts of our own may be changed.
fn own(dev: &str, block: &str, point: &str) -> Vec<Case> {
    let queue = format!("cd /sys/block/{block}/queue");
    vec![
        case("N05", ":", &[("dev", dev), ("mask", "3")]),
        case("N02", ":", &[("dev", dev), ("mask", "3"), ("queues", "2")]),
        case("N11", ":", &[("dev", dev), ("mtu", "1600")]),
        case("N19", ":", &[("rmem", "4096 131072 67108864"), ("wmem", "4096 16384 67108864")]),
        case("N14", "echo 128 > /proc/sys/net/core/somaxconn", &[]),
        // With settings beside them that are not the default ones, and that the kernel resets with them.
        case(
            "B01",
            format!(
                "{queue}; echo mq-deadline > scheduler; echo 64 > nr_requests; echo 100 > iosched/read_expire"
            ),
            &[("dev", block)],
        ),
        case(
            "B01",
            format!(
                "{queue}; echo bfq > scheduler && echo 0 > iosched/low_latency || echo kyber > scheduler
                 echo 100 > nr_requests"
            ),
            &[("dev", block)],
        ),
        case(
            "B02",
            format!("{queue}; echo 1 > rotational; echo 200 > read_ahead_kb"),
            &[("dev", block), ("right", "0")],
        ),
        case("B03", format!("{queue}; echo 128 > read_ahead_kb"), &[("dev", block)]),
        case("B17", format!("{queue}; echo 1 > nomerges"), &[("dev", block)]),
        case("F01", ":", &[("point", point)]),
        case("F03", ":", &[("point", point)]),
        case("F06", ":", &[("point", point)]),
    ]
}

/// What changes the whole machine.
fn machine(dev: &str) -> Vec<Case> {
    // All interrupts of the device on the second CPU.
    let irqs_on_one = format!(
        "for irq in $(ls /sys/class/net/{dev}/device/../msi_irqs); do echo 1 > /proc/irq/$irq/smp_affinity_list; done"
    );
    // Unlike on the two nodes.
    let huge = |first: u32, second: u32| {
        let pages = "hugepages/hugepages-2048kB/nr_hugepages";
        format!("cd /sys/devices/system/node; echo {first} > node0/{pages}; echo {second} > node1/{pages}")
    };
    let flows = "echo 0 > /proc/sys/net/core/rps_sock_flow_entries";
    let other = sh(
        "c=/sys/devices/system/clocksource/clocksource0; n=$(cat $c/current_clocksource); for o in $(cat $c/available_clocksource); do [ $o = $n ] || f=$o; done; echo $f",
    );
    let mut irqs = case("N04", "", &[]);
    for irq in sh("sed -n 's/^ *\\([0-9]*\\):.*input.*/\\1/p' /proc/interrupts").lines() {
        irqs.worse.push_str(&format!("echo 0 > /proc/irq/{irq}/smp_affinity_list\n"));
        irqs.found = irqs.found.row(&[("irq", irq.to_owned()), ("cpu", "1".to_owned())]);
    }
    let mut sends = case(
        "N13",
        "for f in /sys/class/net/*/queues/tx-*/xps_cpus; do echo 0 > $f || :; done",
        &[("dev", dev)],
    );
    for queue in 0..2 {
        sends.found =
            sends.found.row(&[("queue", format!("tx-{queue}")), ("mask", format!("{}", queue + 1))]);
    }
    let mut cases = vec![
        irqs,
        sends,
        case(
            "N03",
            format!(
                "ethtool -L {dev} combined 1; cd /sys/class/net/{dev}/queues
                 echo 1 > tx-0/xps_cpus; echo 2 > rx-0/rps_cpus; {irqs_on_one}"
            ),
            &[("dev", dev), ("queues", "2")],
        ),
        // Lower than what is on top of it.
        case(
            "N11",
            format!(
                "ip link add link {dev} name {dev}.100 type vlan id 100
                 ip link add link {dev}.100 name inner type vlan id 7
                 echo 1450 > /proc/sys/net/ipv6/conf/{dev}/mtu"
            ),
            &[("dev", dev), ("mtu", "1400")],
        ),
        case("N07", ":", &[("backlog", "4000"), ("budget", "600"), ("usecs", "12000")]),
        case(
            "N10",
            format!("ethtool -K {dev} gro off"),
            &[("dev", dev), ("feature", "generic-receive-offload")],
        ),
        case("N12", flows, &[("dev", dev)]),
        case("N16", ":", &[("twice", "600000")]),
        case(
            "M03",
            "echo always > /sys/kernel/mm/transparent_hugepage/enabled; echo 3000 > /proc/sys/vm/min_free_kbytes",
            &[],
        ),
        case("M04", "echo 60 > /proc/sys/vm/swappiness", &[]),
        case("M05", huge(3, 1), &[("pages", "8")]),
        case("M07", "echo 1 > /proc/sys/vm/zone_reclaim_mode", &[]),
        case("M09", huge(8, 0), &[("used", "2")]),
        case("M10", "echo 1 > /sys/kernel/mm/ksm/run", &[]),
        case("M12", "echo 10 > /proc/sys/vm/dirty_background_ratio; echo 20 > /proc/sys/vm/dirty_ratio", &[]),
        case("P04", huge(0, 1), &[("pages", "8")]),
        case("E04", "echo 65530 > /proc/sys/vm/max_map_count", &[]),
        case("C07", ":", &[("fast", &other)]),
    ];
    // Where the device can change its rings, as virtio can since Linux 6.0 and QEMU 7.2.
    let smaller = format!("ethtool -G {dev} rx 64; {irqs_on_one}");
    if Command::new("sh").args(["-c", &smaller]).output().is_ok_and(|done| done.status.success()) {
        cases.push(case("N08", smaller, &[("dev", dev), ("ring", "256")]));
    }
    cases
}

#[test]
#[ignore = "changes the machine: every_fix_is_undone runs it in a namespace, scripts/doctor-guest.sh in a guest"]
fn inside() {
    let is_guest = std::env::var_os(GUEST).is_some();
    let folder = tempfile::tempdir().unwrap();
    let dev = if is_guest { "eth0".to_owned() } else { "mine".to_owned() };
    if !is_guest {
        sh("mount -t sysfs sysfs /sys && ip link add mine type veth peer name other && ip link set mine up");
    }
    let block = disk(folder.path());
    let point = folder.path().join("a mount").display().to_string();
    let mut cases = own(&dev, &block, &point);
    if is_guest {
        cases.extend(machine(&dev));
    }
    let named = std::env::var(GUEST).unwrap_or_else(|_| "all".to_owned());
    cases.retain(|case| named == "all" || named.split(',').any(|rule| rule == case.rule));
    let tried = std::panic::catch_unwind(|| {
        cases.iter().for_each(|case| check(case, folder.path(), &block, is_guest));
        check_orders(folder.path(), &block, &point);
        if !is_guest {
            check_several_mounts(folder.path());
            check_another_disk(folder.path());
            check_smaller_frames(folder.path());
            check_larger_again(folder.path());
            check_interrupts(folder.path());
            check_more_than_was_wanted(folder.path());
            check_defaults(folder.path());
            check_xfs(folder.path());
            check_btrfs(folder.path());
        }
    });
    sh(&format!("umount '{point}' && losetup -d /dev/{block}"));
    if let Err(why) = tried {
        std::panic::resume_unwind(why);
    }
}

#[test]
fn every_fix_is_undone() {
    if !is_root() || Command::new("ip").arg("-V").output().is_err() {
        eprintln!("skipped: needs root, ip and losetup");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["--net", "--mount", "--propagation", "private", "--"]).arg(program);
    inside.args(["--exact", "fix::real::inside", "--ignored", "--nocapture"]).env_remove(GUEST);
    let output = inside.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("F06: 1 settings changed and set back"), "{said}");
    for done in [
        "options of one mount are undone in every order",
        "one mount of several is fixed",
        "another disk is left alone",
        "frames are not made smaller for other namespaces",
        "devices on top of another become larger again",
        "interrupts of other devices are left alone",
        "what changes with an option is set back",
        "defaults of a superblock are set and set back",
    ] {
        assert!(said.contains(done), "{said}");
    }
}
