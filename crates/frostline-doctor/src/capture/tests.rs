use std::collections::BTreeSet;
use std::fs;

use proptest::prelude::*;

use super::*;

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A host that is full of what must not leave it.
fn host(root: &Path) {
    put(root, "proc/sys/kernel/hostname", "payments-db7\n");
    put(root, "proc/sys/kernel/osrelease", "6.1.0\n");
    put(root, "proc/cmdline", "quiet isolcpus=2-3 auth_token=hunter2 ip=10.1.2.3\n");
    put(root, "proc/interrupts", "  CPU0 CPU1 CPU2 CPU3\n 30: 5 0 0 0 PCI-MSI virtio0-input.0\n");
    put(
        root,
        "proc/mounts",
        "nas.example.com:/export /home/alice/x nfs rw,addr=10.9.8.7 0 0\n/dev/vda1 / ext4 rw,nobarrier 0 0\n",
    );
    put(root, "etc/fstab", "UUID=5f3a2b1c-1111-2222-3333-444455556666 / ext4 noatime,password=hunter2 0 0\n");
    put(root, "proc/7/cmdline", "/usr/sbin/vault\0--token\0hunter2\0-H\0payments-db7\0");
    put(
        root,
        "proc/8/cmdline",
        "/usr/lib/postgresql/16/bin/postgres\0-D\0/pg\0-c\0config_file=/etc/postgresql/16/main/postgresql.conf\0-c\0primary_conninfo=password=hunter2\0",
    );
    put(root, "proc/8/status", "Name:\tpostgres\n");
    put(
        root,
        "etc/postgresql/16/main/postgresql.conf",
        "fsync = off\nprimary_conninfo = 'host=10.0.0.5 password=hunter2'\n",
    );
    put(
        root,
        "etc/opensearch/opensearch.yml",
        "cluster.name: payments-db7\nplugins.security.ssl.key: hunter2\nnode.roles: [data]\n",
    );
    let xml = "<domain><name>payments-db7</name><uuid>5f3a2b1c-1111-2222-3333-444455556666</uuid><vcpu>8</vcpu><devices>\
               <graphics passwd='hunter2'/><interface><mac address='52:54:00:ab:cd:ef'/><model type='virtio'/></interface>\
               <disk><serial>WD-1234567</serial><target dev='vda' bus='virtio'/></disk></devices></domain>";
    put(root, "etc/libvirt/qemu/payments-db7.xml", xml);
    put(root, "sys/devices/system/cpu/online", "0-3\n");
    put(
        root,
        "sys/fs/cgroup/machine.slice/machine-qemu-1-payments.scope/cpu.stat",
        "nr_periods 0\nnr_throttled 0\n",
    );
    put(root, "home/alice/.config/frostline/config.toml", "data = \"/home/alice/x\"\n");
    put(root, "etc/shadow", "root:hunter2\n");
}

fn files(folder: &Path, found: &mut BTreeSet<String>, all: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found, all);
        } else {
            found.insert(path.display().to_string());
            *all += &fs::read_to_string(&path).unwrap();
        }
    }
}

#[test]
fn a_capture_answers_like_its_host_and_names_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (root, out) = (folder.path().join("root"), folder.path().join("out"));
    host(&root);
    let count = capture(&root, &out, Duration::ZERO).unwrap();
    let (mut names, mut all) = (BTreeSet::new(), String::new());
    files(&out, &mut names, &mut all);
    assert_eq!(names.len(), count + 1);
    all += &names.into_iter().collect::<String>().replace(&folder.path().display().to_string(), "");
    let secrets = [
        "hunter2",
        "payments",
        "alice",
        "nas.example",
        "10.1.2.3",
        "10.9.8.7",
        "10.0.0.5",
        "52:54:00",
        "WD-1234567",
        "5f3a2b1c",
        "shadow",
    ];
    for secret in secrets {
        assert!(!all.contains(secret), "{secret} is in the capture");
    }
    let there = crate::examine(&open(&out, Duration::ZERO, Said::default()).unwrap());
    let here = crate::examine(&Host::once(Tree::open(&root).unwrap(), Said::default()));
    let rules = |report: &crate::Report| report.findings.iter().map(|f| f.rule).collect::<BTreeSet<_>>();
    assert_eq!(rules(&there), rules(&here));
    assert!(rules(&there).is_superset(&BTreeSet::from(["F01", "P03", "V01", "V05"])), "{:?}", rules(&there));
    let error = capture(&root, &out, Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Conflict);
    assert!(error.to_string().ends_with("is there already: a capture needs a folder of its own"), "{error}");
}

/// The files of both samples of a host with many findings, with a secret from `secret` in place of every name.
fn planted(secret: impl Fn(&str) -> String) -> ([Files; 2], BTreeSet<String>) {
    let mut secrets = BTreeSet::new();
    let mut samples = [Files::new(), Files::new()];
    for line in include_str!("planted.txt").lines() {
        let mut text = String::new();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('<') {
            text += before;
            rest = match after.split_once('>').filter(|(name, _)| is_place(name)) {
                Some((name, after)) => {
                    let word = secret(name);
                    text += &word;
                    secrets.insert(word);
                    after
                }
                None => {
                    text.push('<');
                    after
                }
            };
        }
        text += rest;
        let (path, text) = text.split_once(" = ").unwrap();
        let (sample, path) = path.strip_prefix("1/").map_or((0, path), |path| (1, path));
        let text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0");
        samples[sample].insert(path.to_owned(), text.into_bytes());
    }
    (samples, secrets)
}

/// Whether a word in angle brackets is a placeholder for a secret and not an XML element.
fn is_place(name: &str) -> bool {
    const ELEMENTS: &[&str] = &[
        "devices",
        "domain",
        "domstatus",
        "description",
        "disk",
        "emulator",
        "memory",
        "metadata",
        "name",
        "serial",
        "sysinfo",
        "title",
        "uuid",
        "vcpu",
        "x",
    ];
    !ELEMENTS.contains(&name) && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// The samples in a capture of a host with these files, and what its user would state about the capture.
fn kept([first, later]: [Files; 2], mut said: Said) -> ([Files; 2], Said) {
    let printed = first.iter().filter(|(path, _)| path.starts_with("commands/"));
    let printed = printed.map(|(path, bytes)| (path.clone(), bytes.clone())).collect();
    let tree = Tree::from_files(first);
    let mut redactor = Redactor::new(&tree);
    let samples = samples(&tree, [live::snapshot(&tree, COUNTERS), later], printed, &mut redactor);
    said.roles.iter_mut().for_each(|(path, _)| *path = redactor.names.path(path));
    (samples, said)
}

fn examined_as([first, later]: [Files; 2], said: Said) -> crate::Report {
    let tree = || Tree::from_files(first.clone());
    crate::examine(&match later.is_empty() {
        true => Host::once(tree(), said),
        false => Host::twice(tree(), tree(), Tree::from_files(later), 1.0, said),
    })
}

/// The report of a host, compared with that of its capture.
fn compared(host: [Files; 2], told: Said, what: &str) -> crate::Report {
    let here = examined_as(host.clone(), told.clone());
    let (capture, told) = kept(host, told);
    assert_eq!(said(&examined_as(capture, told)), said(&here), "{what}");
    here
}

/// The contents of a report without the names of objects.
fn said(report: &crate::Report) -> Vec<String> {
    let findings = report.findings.iter().map(|one| format!("{} {:?}", one.rule, one.severity));
    let unknown = report.unknown.iter().map(|one| format!("{} unknown", one.rule));
    let mut all: Vec<String> = findings.chain(unknown).collect();
    all.sort();
    all
}

/// Secrets of several shapes: words, with hyphens, dots and digits, in capitals.
fn word(seed: u64, name: &str) -> String {
    let mut numbers = Numbers(xxh3_64(name.as_bytes()) ^ seed, 0);
    let mut letters = |alphabet: &str, count: usize| -> String {
        (0..count).map(|_| char::from(alphabet.as_bytes()[numbers.below(alphabet.len())])).collect()
    };
    let (start, end) = (letters("bcdfghjklmnpqrstvwxz", 5), letters("0123456789abcdef", 6));
    match (seed + xxh3_64(name.as_bytes())) % 6 {
        _ if name == "address" => format!("10.{}.77.8", seed % 200 + 20),
        _ if name == "mac" => format!("52:54:00:{:02x}:7e:91", seed % 256),
        _ if name == "uid" => format!("{}", 734_151_000 + seed),
        0 => format!("{start}-{end}"),
        1 => format!("{start}.{end}"),
        2 => format!("{start}_{end}"),
        3 => format!("{end}-4242-4242-9b5d-{start}").to_uppercase(),
        4 => start + &end,
        _ => start,
    }
}

#[test]
fn no_name_of_a_host_is_in_its_capture_and_all_is_found() {
    for seed in 0..60 {
        let (mut host, secrets) = planted(|name| word(seed, name));
        let broken = format!("etc/libvirt/qemu/{}.xml", word(seed, "broken"));
        if seed % 2 == 0 {
            host[0].remove(&broken).unwrap();
        }
        if seed % 3 == 0 {
            host[0].remove("proc/self/mountinfo").unwrap();
        }
        let here = compared(host.clone(), Said::default(), &format!("seed {seed}"));
        let rules: BTreeSet<_> = here.findings.iter().map(|finding| finding.rule).collect();
        let mut expected = BTreeSet::from([
            "B15", "C03", "E04", "E05", "F01", "F05", "F15", "M05", "N03", "N22", "P03", "V10",
        ]);
        if seed % 2 == 0 {
            expected.extend(["V01", "V04", "V06"]);
        }
        assert!(rules.is_superset(&expected), "seed {seed}: {rules:?}");
        for (path, bytes) in kept(host, Said::default()).0.iter().flatten() {
            let text = format!("{path} = {}", String::from_utf8_lossy(bytes)).to_lowercase();
            for secret in &secrets {
                assert!(!text.contains(&secret.to_lowercase()), "seed {seed}: {secret} is in {text}");
            }
        }
    }
}

#[test]
fn whatever_a_host_holds_can_be_captured() {
    for seed in 0..300 {
        let mut numbers = Numbers(seed, 0);
        let ([mut first, later], _) = planted(|name| word(seed, name));
        for _ in 0..40 {
            damage(&mut first, &mut numbers);
        }
        let (capture, _) = kept([first, later], Said::default());
        assert!(
            capture.iter().flatten().all(|(path, _)| !path.split('/').any(|part| part == "..")),
            "seed {seed}"
        );
    }
}

/// A host may have the name of a program, a setting or a file that a rule looks for.
#[test]
fn a_host_that_is_called_like_what_a_rule_looks_for_keeps_its_findings() {
    let looked_for = PROGRAMS.iter().chain(POSTGRES_KEPT).chain(SEARCH_KEPT).chain(MONITORS).copied();
    let others = [
        "bootstrap",
        "cpu",
        "data",
        "dm-0",
        "elasticsearch",
        "etc",
        "ext4",
        "main",
        "mem-path",
        "nobarrier",
        "opensearch",
        "org",
        "postgresql",
        "proc",
        "root",
        "sda",
        "search",
        "system",
        "tap",
        "usr",
        "vda",
        "virtio0",
        "web",
        "zfs",
    ];
    for name in looked_for.chain(others) {
        let called = |place: &str| if place == "host" { name.to_owned() } else { word(4, place) };
        compared(planted(called).0, Said::default(), &format!("a host called {name}"));
    }
}

#[test]
fn what_a_rule_finds_it_finds_in_a_capture() {
    for rule in crate::rules::all() {
        let (mut first, later) = crate::rules::tests::firing(rule.id);
        // What OpenStack offers is given as files and never captured.
        first.retain(|path, _| !path.starts_with("openstack/"));
        compared([first, later], crate::rules::tests::said(rule.id), rule.id);
    }
}

#[test]
fn what_cannot_be_read_is_known_to_be_there() {
    let path = "etc/libvirt/qemu/payroll.xml";
    let tree = Tree::from_files([("etc/hostname".to_owned(), b"db\n".to_vec())]);
    assert_eq!(unread(&tree), Vec::<String>::new());
    let unread = unread(&tree.with_damaged([path.to_owned()]));
    assert_eq!(unread, ["etc/libvirt/qemu/unread.xml"]);
    let cpus = ("sample0/sys/devices/system/cpu/online".to_owned(), b"0-3\n".to_vec());
    for is_unread in [false, true] {
        let mut header = Header { format: FORMAT, ..Header::default() };
        header.files.insert(cpus.0.clone(), (cpus.1.len() as u64, xxh3_64(&cpus.1)));
        if is_unread {
            header.files.insert(format!("sample0/{}", unread[0]), (0, 0));
        }
        let header = header.checked().unwrap().text().unwrap().into_bytes();
        let report = examined(Files::from([cpus.clone(), ("capture.json".to_owned(), header)]));
        assert_eq!(report.quiet.contains(&"V01"), !is_unread);
    }
}

/// A device of a copied tree leads out of it; the copy of that must say so too.
#[test]
fn links_that_lead_nowhere_are_captured() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    put(&root, "sys/class/net/eth0/mtu", "1500\n");
    std::os::unix::fs::symlink("../../../virtio0", root.join("sys/class/net/eth0/device")).unwrap();
    let out = folder.path().join("out");
    capture(&root, &out, Duration::ZERO).unwrap();
    let (mut names, mut all) = (BTreeSet::new(), String::new());
    files(&out, &mut names, &mut all);

    assert!(names.iter().any(|path| path.ends_with("eth0/device.link")), "{names:?}");
}

/// Guests at work, captured once more.
#[test]
fn a_capture_of_a_capture_says_the_same() {
    for path in guests() {
        let guest = Guest::read(&fs::read_to_string(&path).unwrap());
        let of = |sample: &str| {
            let mine = |(path, bytes): (&String, &Vec<u8>)| {
                Some((path.strip_prefix(sample)?.to_owned(), bytes.clone()))
            };
            guest.files.iter().filter_map(mine).collect::<Files>()
        };
        compared([of("sample0/"), of("sample1/")], Said::default(), &path.display().to_string());
    }
}

#[test]
fn a_capture_cannot_lead_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (root, out) = (folder.path().join("root"), folder.path().join("out"));
    host(&root);
    capture(&root, &out, Duration::ZERO).unwrap();
    let mounts = fs::read(out.join("sample0/proc/mounts")).unwrap();
    fs::remove_dir_all(out.join("sample0/proc")).unwrap();
    fs::write(folder.path().join("mounts"), mounts).unwrap();
    std::os::unix::fs::symlink(folder.path(), out.join("sample0/proc")).unwrap();
    let there = open(&out, Duration::ZERO, Said::default()).unwrap();
    assert!(matches!(there.mounts().unwrap_err().why, crate::tree::Why::Damaged(_)));
    assert!(open(&folder.path().join("nothing"), Duration::ZERO, Said::default()).is_err());
}

#[test]
fn a_damaged_header_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (root, out) = (folder.path().join("root"), folder.path().join("out"));
    host(&root);
    capture(&root, &out, Duration::ZERO).unwrap();
    let header = fs::read_to_string(out.join("capture.json")).unwrap();
    let seconds = header.replace("\"seconds\":0.0", "\"seconds\":9.0");
    assert_ne!(seconds, header);
    let newer = header.replace("\"format\":2", "\"format\":9");
    for damaged in ["", "{}", &header[..header.len() / 2], &seconds, &newer] {
        fs::write(out.join("capture.json"), damaged).unwrap();
        let error = open(&out, Duration::ZERO, Said::default()).unwrap_err().to_string();
        assert!(error.contains("cannot read the capture") && error.contains("/sample0"), "{error}");
    }
    // Its files can be read all the same, unchecked.
    assert!(open(&out.join("sample0"), Duration::ZERO, Said::default()).unwrap().mounts().is_ok());
}

/// The files of a capture's folder, of those in its samples.
fn with_header(seconds: f64, mut files: Files) -> Files {
    let checked = |(path, bytes): (&String, &Vec<u8>)| (path.clone(), (bytes.len() as u64, xxh3_64(bytes)));
    let header = Header { format: FORMAT, seconds, files: files.iter().map(checked).collect(), check: 0 };
    files.insert("capture.json".to_owned(), header.checked().unwrap().text().unwrap().into_bytes());
    files
}

/// A capture of the host on which a rule fires.
fn firing(rule: &str, folder: &Path) -> std::path::PathBuf {
    let (first, second) = crate::rules::tests::firing(rule);
    let samples = [("sample0", first), ("sample1", second)];
    let files = samples.into_iter().flat_map(|(sample, files)| {
        files.into_iter().map(move |(path, bytes)| (format!("{sample}/{path}"), bytes))
    });
    let out = folder.join(rule);
    for (path, bytes) in with_header(1.0, files.collect()) {
        write(&out.join(path), &bytes).unwrap();
    }
    out
}

/// The captures of emulated guests that are kept, by `scripts/doctor-captures.sh`.
fn guests() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/capture/guests");
    if let Some(captures) = std::env::var_os("FROSTLINE_CAPTURES") {
        for capture in fs::read_dir(captures).unwrap().flatten().map(|entry| entry.path()) {
            let mut guest = Guest::captured(&capture);
            guest.found = found(&examined(guest.folder()));
            let kept = folder.join(capture.file_name().unwrap()).with_extension("txt");
            fs::write(kept, guest.written()).unwrap();
        }
    }
    let guests: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(guests.len() > 2, "{guests:?}");
    guests
}

/// A capture as one text: what the guest was, `found RULE OBJECT` for each finding, the seconds between the samples, and
/// `PATH = TEXT` for each file.
#[derive(Debug, Default, PartialEq)]
struct Guest {
    what: String,
    found: Vec<String>,
    seconds: f64,
    files: Files,
}

impl Guest {
    fn read(text: &str) -> Guest {
        let mut guest = Guest::default();
        for line in text.lines() {
            match line.split_once(' ').unwrap() {
                ("#", what) => guest.what = what.to_owned(),
                ("found", found) => guest.found.push(found.to_owned()),
                ("seconds", seconds) => guest.seconds = seconds.parse().unwrap(),
                (path, text) => {
                    let text = text.strip_prefix("= ").unwrap();
                    let text = text.split("\\\\").map(|part| part.replace("\\n", "\n").replace("\\0", "\0"));
                    let text = text.collect::<Vec<_>>().join("\\");
                    guest.files.insert(path.to_owned(), text.into_bytes());
                }
            }
        }
        guest
    }

    fn written(&self) -> String {
        let found: String = self.found.iter().map(|found| format!("found {found}\n")).collect();
        let files = self.files.iter().map(|(path, bytes)| {
            let text = std::str::from_utf8(bytes).unwrap().replace('\\', "\\\\").replace('\n', "\\n");
            format!("{path} = {}\n", text.replace('\0', "\\0"))
        });
        format!("# {}\n{found}seconds {}\n{}", self.what, self.seconds, files.collect::<String>())
    }

    /// That in a folder of `scripts/doctor-captures.sh`.
    fn captured(folder: &Path) -> Guest {
        let text = fs::read_to_string(folder.join("capture.json")).unwrap();
        let header = Header::parse(&text).unwrap();
        let read = |path: &String| (path.clone(), fs::read(folder.join(path)).unwrap());
        let files = header.files.keys().map(read).collect();
        let what = fs::read_to_string(folder.join("guest")).unwrap().trim().to_owned();
        Guest { what, seconds: header.seconds, files, found: Vec::new() }
    }

    fn folder(&self) -> Files {
        with_header(self.seconds, self.files.clone())
    }
}

fn examined(folder: Files) -> crate::Report {
    crate::examine(&super::captured(&Tree::from_files(folder), Said::default()).unwrap())
}

fn found(report: &crate::Report) -> Vec<String> {
    report.findings.iter().map(|finding| format!("{} {}", finding.rule, finding.object)).collect()
}

/// `FROSTLINE_CAPTURES=FOLDER` keeps the captures there as fixtures, with what is found in them.
#[test]
fn captures_of_guests_are_examined_as_their_guests_were() {
    for kept in guests() {
        let (name, guest) = (kept.display(), Guest::read(&fs::read_to_string(&kept).unwrap()));
        assert_eq!(Guest::read(&guest.written()), guest, "{name}");
        assert_eq!(found(&examined(guest.folder())), guest.found, "{name}");
        assert!(!guest.found.is_empty() && guest.files.len() > 50, "{name}: {}", guest.files.len());
    }
}

#[test]
fn a_damaged_capture_of_a_guest_is_unknown_and_never_quiet() {
    for kept in guests() {
        let (name, guest) = (kept.display(), Guest::read(&fs::read_to_string(&kept).unwrap()));
        let folder = guest.folder();
        let whole = examined(folder.clone());
        for (at, path) in guest.files.keys().enumerate() {
            let mut damaged = folder.clone();
            match at % 3 {
                0 => damaged.remove(path).map(drop),
                1 => damaged.get_mut(path).map(|bytes| bytes.push(b'7')),
                _ => damaged.insert(path.clone(), Vec::new()).map(drop),
            };
            let report = examined(damaged);
            let hidden = report.quiet.iter().find(|rule| !whole.quiet.contains(rule));
            assert_eq!(hidden, None, "{name} with a damaged {path}");
        }
    }
}

/// Numbers of a seed: below `bound`, each another.
struct Numbers(u64, u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.1 += 1;
        let number = xxh3_64(&[self.0.to_le_bytes(), self.1.to_le_bytes()].concat());
        (number % bound.max(1) as u64) as usize
    }
}

/// One thing that happens to a file, or to all from one on.
fn damage(folder: &mut Files, numbers: &mut Numbers) {
    let paths: Vec<String> = folder.keys().cloned().collect();
    let path = paths[numbers.below(paths.len())].clone();
    let how = numbers.below(8);
    if how == 0 {
        // A folder that was left out, or a copy that stopped.
        let end = path.rfind('/').unwrap_or(path.len());
        folder.retain(|other, _| !other.starts_with(&path[..end]));
        return;
    }
    let other = folder.get(&paths[numbers.below(paths.len())]).cloned().unwrap_or_default();
    let Some(bytes) = folder.get_mut(&path) else { return };
    let at = numbers.below(bytes.len() + 1);
    match how {
        1 => drop(folder.remove(&path)),
        2 => bytes.truncate(at),
        3 => bytes.clear(),
        4 => *bytes = other,
        5 => bytes.iter_mut().skip(at).take(16).for_each(|byte| *byte = numbers.below(256) as u8),
        6 => bytes.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = b'9'),
        _ => drop(bytes.splice(at..at, (0..64).map(|_| numbers.below(256) as u8)).collect::<Vec<_>>()),
    }
}

/// Several damages at once, of the header too: a rule that read something else is not quiet where it was not.
#[test]
fn random_damages_of_a_guest_s_capture_are_unknown_and_never_quiet() {
    let guests: Vec<Guest> =
        guests().iter().map(|kept| Guest::read(&fs::read_to_string(kept).unwrap())).collect();
    let whole: Vec<_> = guests.iter().map(|guest| examined(guest.folder())).collect();
    let (mut refused, mut unknown) = (0, 0);
    for seed in 0..200 {
        let guest = seed as usize % guests.len();
        let mut numbers = Numbers(seed, 0);
        let mut folder = guests[guest].folder();
        for _ in 0..=numbers.below(6) {
            damage(&mut folder, &mut numbers);
        }
        let Ok(host) = super::captured(&Tree::from_files(folder), Said::default()) else {
            refused += 1;
            continue;
        };
        let report = crate::examine(&host);
        let hidden = report.quiet.iter().find(|rule| !whole[guest].quiet.contains(rule));
        assert_eq!(hidden, None, "seed {seed}: {}", guests[guest].what);
        unknown += usize::from(report.unknown.len() > whole[guest].unknown.len());
    }
    assert!(refused > 0 && unknown > 100, "{refused} were refused, of {unknown} rules are unknown");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Whatever happens to a file of a capture, the rule that would have fired is never quiet.
    #[test]
    fn a_damaged_capture_is_unknown_and_never_quiet(
        rule in 0usize..400, file in 0usize..400, at in 0usize..4096, how in 0u8..4,
    ) {
        let rules: Vec<&crate::rule::Rule> = crate::rules::all().collect();
        let rule = rules[rule % rules.len()];
        let folder = tempfile::tempdir().unwrap();
        let out = firing(rule.id, folder.path());
        let text = fs::read_to_string(out.join("capture.json")).unwrap();
        let files: Vec<String> = Header::parse(&text).unwrap().files.into_keys().collect();
        let path = out.join(&files[file % files.len()]);
        let mut bytes = fs::read(&path).unwrap();
        let at = at % (bytes.len() + 1);
        match how {
            0 => bytes.truncate(at.min(bytes.len().saturating_sub(1))),
            1 => bytes.insert(at, b'7'),
            2 if at < bytes.len() => bytes[at] ^= 1,
            _ => bytes.clear(),
        }
        match how {
            3 => fs::remove_file(&path).unwrap(),
            _ if fs::read(&path).unwrap() == bytes => return Ok(()),
            _ => fs::write(&path, bytes).unwrap(),
        }
        let said = crate::rules::tests::said(rule.id);
        let outcome = crate::examine(&open(&out, Duration::ZERO, said).unwrap()).outcome(rule.id);
        prop_assert!(outcome != crate::rule::Outcome::Quiet, "{} without {}", rule.id, path.display());
    }
}

#[test]
fn a_disk_has_one_name_in_a_capture() {
    for (disk, part) in [
        ("md_payroll", "md_payroll"),
        ("md_payroll", "md_payroll1"),
        ("sdaaab", "sdaaab1"),
        ("etherd!e0", "acme7"),
    ] {
        let source = |part: &str| format!("30 1 9:1 / /srv rw - ext4 /dev/{part} rw,nobarrier\n");
        let files = |part: &str, cache: &str| {
            Files::from([
                ("proc/self/mountinfo".to_owned(), source(part).into_bytes()),
                ("sys/block/acme/queue/write_cache".to_owned(), b"write through\n".to_vec()),
                (format!("sys/block/{disk}/queue/write_cache"), format!("{cache}\n").into_bytes()),
                ("sys/block/sda/queue/write_cache".to_owned(), b"write back\n".to_vec()),
            ])
        };
        for (cache, expected) in [("write back", 1), ("write through", 0)] {
            let is_of_disk = part.starts_with(disk);
            let report = compared([files(part, cache), Files::new()], Said::default(), part);
            let found = report.findings.iter().filter(|finding| finding.rule == "F01").count();
            assert_eq!(found, if is_of_disk { expected } else { 0 }, "{part} {cache}");
        }
        let (samples, _) = kept([files(part, "write back"), Files::new()], Said::default());
        let all = samples[0].iter().map(|(path, bytes)| format!("{path}{}", String::from_utf8_lossy(bytes)));
        assert!(!all.collect::<String>().contains("payroll"));
    }
}
