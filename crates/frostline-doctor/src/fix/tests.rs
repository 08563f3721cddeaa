use std::fs;
use std::path::PathBuf;

use super::*;
use crate::host::{Host, Role, Said};
use crate::report::Finding;
use crate::rule::{Confidence, Found, Outcome, Severity, Side};
use crate::setting::Step;
use crate::tree::Tree;

/// Settings that are files of a folder.
struct Settings {
    folder: tempfile::TempDir,
}

impl Settings {
    fn new(values: &[(&str, &str)]) -> Settings {
        let settings = Settings { folder: tempfile::tempdir().unwrap() };
        values.iter().for_each(|(name, value)| settings.put(name, value));
        settings
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, value: &str) {
        fs::write(self.path(name), format!("{value}\n")).unwrap();
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap().trim().to_owned()
    }

    fn step(&self, name: &str, was: &str, to: &str) -> Step {
        let path = self.path(name).display().to_string();
        Step {
            get: format!("value_of {path}"),
            set: format!("echo \"$1\" > {path}"),
            others: format!("files '{path}.other*'"),
            run: format!("echo {to} > {path}"),
            undo: format!("echo {was} > {path}"),
            whose: format!("cat {}.owner 2> /dev/null", path),
            owner: fs::read_to_string(format!("{path}.owner")).unwrap_or_default().trim().to_owned(),
            name: path,
            was: was.to_owned(),
            to: to.to_owned(),
            back: was.to_owned(),
        }
    }

    /// Writes the script of these fixes, and returns what runs it: its status and what it says.
    fn script(&self, fixes: Vec<Remedy>) -> impl Fn(&str) -> (bool, String) {
        self.script_named("fix.sh", fixes)
    }

    fn script_named(&self, name: &str, fixes: Vec<Remedy>) -> impl Fn(&str) -> (bool, String) {
        let path = self.path(name);
        fs::write(&path, script(&report(fixes), &[])).unwrap();
        move |argument| {
            let output = Command::new("/bin/sh").arg(&path).arg(argument).output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8(said).unwrap())
        }
    }
}

fn here(steps: Vec<Step>) -> Remedy {
    Remedy {
        side: Side::Here,
        what: "Writes",
        run: steps.iter().map(|step| step.run.clone()).collect(),
        undo: steps.iter().map(|step| step.undo.clone()).collect(),
        applicable: true,
        refused: None,
        steps,
    }
}

fn report(fixes: Vec<Remedy>) -> Report {
    let finding = Finding {
        rule: "N05",
        name: "no-packet-steering",
        severity: Severity::Medium,
        confidence: Confidence::High,
        title: "Title",
        object: "eth0".to_owned(),
        observed: "observed".to_owned(),
        explanation: "",
        fixes,
        gain: "",
        verify: String::new(),
        sources: &[],
    };
    Report {
        subject: String::new(),
        seconds: 0.0,
        findings: vec![finding],
        unknown: Vec::new(),
        quiet: Vec::new(),
    }
}

#[test]
fn what_is_fixed_is_undone_also_when_it_is_done_twice() {
    let settings = Settings::new(&[("a", "4096 131072"), ("b", "10")]);
    let steps = vec![settings.step("a", "4096 131072", "4096 262144"), settings.step("b", "10", "20")];
    let run = settings.script(vec![here(steps)]);
    for _ in 0..3 {
        for _ in 0..2 {
            assert!(run("").0);
            assert_eq!([settings.get("a"), settings.get("b")], ["4096 262144", "20"]);
        }
        for _ in 0..2 {
            assert!(run("undo").0);
            assert_eq!([settings.get("a"), settings.get("b")], ["4096 131072", "10"]);
        }
        assert!(!settings.path("fix.sh.changed").exists());
    }
}

#[test]
fn a_host_that_changed_meanwhile_is_left_alone() {
    let settings = Settings::new(&[("a", "15"), ("b", "10")]);
    let steps = vec![settings.step("b", "10", "20"), settings.step("a", "10", "20")];
    let run = settings.script(vec![here(steps)]);
    let (worked, said) = run("");
    assert!(!worked && said.contains("was 10 when the host was examined and is 15 now"), "{said}");
    // All of a fix or nothing of it.
    assert_eq!([settings.get("a"), settings.get("b")], ["15", "10"]);
    assert!(run("undo").0);
    assert_eq!([settings.get("a"), settings.get("b")], ["15", "10"]);
}

#[test]
fn what_somebody_else_did_is_not_undone() {
    // Set by somebody between the examination and the fix: not ours to set back.
    let settings = Settings::new(&[("a", "20")]);
    let run = settings.script(vec![here(vec![settings.step("a", "10", "20")])]);
    assert!(!run("").0);
    assert!(run("undo").0);
    assert_eq!(settings.get("a"), "20");
    // Set by somebody after the fix.
    let settings = Settings::new(&[("a", "10"), ("b", "1")]);
    let steps = vec![settings.step("a", "10", "20"), settings.step("b", "1", "2")];
    let run = settings.script(vec![here(steps)]);
    assert!(run("").0);
    settings.put("a", "30");
    let (worked, said) = run("undo");
    assert!(!worked && said.contains("somebody has changed it since"), "{said}");
    assert_eq!([settings.get("a"), settings.get("b")], ["30", "1"]);
}

#[test]
fn what_somebody_has_set_back_is_fixed_again() {
    let settings = Settings::new(&[("a", "10")]);
    let run = settings.script(vec![here(vec![settings.step("a", "10", "20")])]);
    assert!(run("").0);
    settings.put("a", "10");
    let (worked, said) = run("");
    assert!(worked && said.contains("a: 10 -> 20") && settings.get("a") == "20", "{said}");
    settings.put("a", "30");
    let (worked, said) = run("");
    assert!(!worked && said.contains("somebody has changed it since") && settings.get("a") == "30", "{said}");
    settings.put("a", "20");
    assert!(run("undo").0 && settings.get("a") == "10");
}

#[test]
fn a_kill_in_the_middle_is_undone() {
    let settings = Settings::new(&[("a", "10")]);
    let run = settings.script(vec![here(vec![settings.step("a", "10", "20")])]);
    // Recorded, set, and killed before what it reads now was recorded.
    fs::create_dir_all(settings.path("fix.sh.changed/1")).unwrap();
    fs::write(settings.path("fix.sh.changed/1/owner"), "\n").unwrap();
    fs::write(settings.path("fix.sh.changed/1/others"), "").unwrap();
    settings.put("a", "20");
    assert!(run("undo").0);
    assert_eq!(settings.get("a"), "10");
}

/// A setting whose change makes the kernel reset two others, and a third that it removes.
fn resets(settings: &Settings) -> Step {
    let path = settings.path("a").display().to_string();
    let kernel = format!(
        "echo 0 > {path}.other1; echo 0 > {path}.other2; [ \"$1\" != 20 ] || rm -f {path}.other3; \
                 [ \"$1\" != 10 ] || echo 0 > {path}.other3"
    );
    let step = settings.step("a", "10", "20");
    Step { set: format!("{}; {kernel}", step.set), ..step }
}

#[test]
fn what_the_kernel_changes_with_a_setting_is_set_back() {
    const OTHERS: [&str; 3] = ["a.other1", "a.other2", "a.other3"];
    let settings = Settings::new(&[("a", "10"), ("a.other1", "1"), ("a.other2", "2 3"), ("a.other3", "4")]);
    let others = || OTHERS.map(|name| settings.get(name));
    let run = settings.script(vec![here(vec![resets(&settings)])]);
    for _ in 0..2 {
        assert!(run("").0);
        assert_eq!([settings.get("a.other1"), settings.get("a.other2")], ["0", "0"]);
        let (worked, said) = run("undo");
        assert!(worked && others() == ["1", "2 3", "4"] && settings.get("a") == "10", "{said}");
        assert!(!settings.path("fix.sh.changed").exists());
    }
    // What somebody sets between the fix and its undo stays.
    assert!(run("").0);
    settings.put("a.other2", "7");
    assert!(run("undo").0);
    assert_eq!(others(), ["1", "7", "4"]);
    // What cannot be set back is named, and tried again.
    assert!(run("").0);
    let path = settings.path("a.other1");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    for _ in 0..2 {
        let (worked, said) = run("undo");
        assert!(!worked && said.contains("a.other1 could not be set back to 1"), "{said}");
    }
    fs::remove_dir(&path).unwrap();
    settings.put("a.other1", "0");
    let (worked, said) = run("undo");
    assert!(worked && others() == ["1", "7", "4"], "{said}");
    assert!(!settings.path("fix.sh.changed").exists());
}

/// A number of pages that the kernel spreads evenly over two nodes, each of which can be set, too.
fn spread(settings: &Settings) -> Step {
    let path = settings.path("a").display().to_string();
    Step {
        get: format!("echo $(($(cat {path}.other1) + $(cat {path}.other2)))"),
        set: format!("echo $(($1 / 2)) > {path}.other1; echo $(($1 - $1 / 2)) > {path}.other2"),
        ..settings.step("a", "40", "20")
    }
}

#[test]
fn an_undo_that_is_killed_at_any_command_is_completed_by_the_next() {
    check_kills(&[("a", "10"), ("a.other1", "1"), ("a.other2", "2"), ("a.other3", "4")], &resets);
    // The setting itself changes with each that is set back.
    check_kills(&[("a.other1", "40"), ("a.other2", "0")], &spread);
}

fn check_kills(values: &[(&str, &str)], step: &dyn Fn(&Settings) -> Step) {
    // Each program and each function that reads or sets is a place to be killed at.
    let kills = |at: usize| format!("n=0; kill_here() {{ n=$((n + 1)); [ $n != {at} ] || kill -9 $$; }}\n");
    let marked = |text: &str, at: usize| {
        let mut out = String::new();
        for line in text.split_inclusive('\n') {
            let places = [
                "    is_of \"$1\"",
                "    others_back < ",
                "        set_\"$1\"",
                "        if [ \"$(get_\"$1\")",
                "        [ \"$(now_",
                "        printf '%s\\n' \"$line\"",
                "        echo \"$name: $now -> $was\"",
            ];
            let is_place = places.iter().any(|place| line.starts_with(place));
            if is_place {
                out += "    kill_here\n";
            }
            out += &line.replace("&& mv ", "&& kill_here && mv ").replace("&& rm ", "&& kill_here && rm ");
        }
        out.replacen("set -uf\n", &format!("set -uf\n{}", kills(at)), 1)
    };
    let mut killed = 0;
    for at in 1..30 {
        let settings = Settings::new(values);
        let run = settings.script(vec![here(vec![step(&settings)])]);
        assert!(run("").0);
        let script = settings.path("fix.sh");
        let text = fs::read_to_string(&script).unwrap();
        fs::write(&script, marked(&text, at)).unwrap();
        killed += usize::from(!run("undo").0);
        fs::write(&script, text).unwrap();
        let (worked, said) = run("undo");
        let now: Vec<_> = values.iter().map(|(name, _)| (*name, settings.get(name))).collect();
        let is_back = values.iter().zip(&now).all(|((_, value), (_, now))| value == now);
        assert!(worked && is_back, "killed at {at}: {now:?} {said}");
        assert!(!settings.path("fix.sh.changed").exists(), "killed at {at}");
    }
    assert!((5..29).contains(&killed), "killed {killed} times");
}

/// Two settings reset the same others, and the fix of the second makes one of those unusable by `spoil`.
fn check_order(spoil: &str) -> (bool, String) {
    let settings = Settings::new(&[("a", "10"), ("b", "10"), ("a.other1", "64"), ("a.other2", "100")]);
    let path = settings.path("a").display().to_string();
    let second = settings.step("b", "10", "20");
    let kernel = format!(
        "echo 256 > {path}.other1; rm -rf {path}.other2; [ \"$1\" != 20 ] || {spoil} {path}.other2
         [ \"$1\" != 10 ] || echo 500 > {path}.other2"
    );
    let second =
        Step { set: format!("{}; {kernel}", second.set), others: format!("files '{path}.other*'"), ..second };
    let run_first = settings.script_named("first.sh", vec![here(vec![settings.step("a", "10", "20")])]);
    let run_second = settings.script_named("second.sh", vec![here(vec![second])]);
    assert!(run_first("").0 && run_second("").0);
    let undone = run_first("undo");
    assert!(run_second("undo").0 && run_first("undo").0);
    let now = ["a", "b", "a.other1", "a.other2"].map(|name| settings.get(name));
    assert_eq!(now, ["10", "10", "64", "100"]);
    assert!(!settings.path("first.sh.changed").exists());
    undone
}

#[test]
fn an_undo_that_could_not_set_all_back_takes_nothing_for_its_own_that_is_set_right_meanwhile() {
    let (worked, said) = check_order("mkdir");
    assert!(!worked && said.contains("a.other2 could not be set back to 100"), "{said}");
}

#[test]
fn what_changed_with_a_setting_and_is_gone_is_named_and_does_not_hold_up_the_undo() {
    let (worked, said) = check_order(":");
    assert!(worked && said.matches("a.other2 is gone, or belongs to another").count() == 1, "{said}");
    assert!(said.find("a: 20 -> 10") < said.find("is gone"), "{said}");
}

#[test]
fn the_first_fix_that_works_is_the_only_one() {
    let settings = Settings::new(&[("a", "10"), ("b", "1"), ("c", "5")]);
    let refused = Step { set: "false".to_owned(), ..settings.step("c", "5", "6") };
    let fixes = vec![
        here(vec![settings.step("b", "1", "2"), refused]),
        here(vec![settings.step("a", "10", "20")]),
        here(vec![settings.step("b", "1", "3")]),
    ];
    let run = settings.script(fixes);
    assert!(run("").0);
    assert_eq!([settings.get("a"), settings.get("b"), settings.get("c")], ["20", "1", "5"]);
    assert!(run("undo").0);
    assert_eq!([settings.get("a"), settings.get("b"), settings.get("c")], ["10", "1", "5"]);
}

#[test]
fn a_record_of_another_script_is_not_taken_for_its_own() {
    let settings = Settings::new(&[("a", "10")]);
    let saved = settings.path("undo it.sh");
    let report = report(vec![here(vec![settings.step("a", "10", "20")])]);
    apply(&report, &["N05".to_owned()], &saved).unwrap();
    // The script is gone, and what it changed was set back by hand.
    fs::remove_file(&saved).unwrap();
    settings.put("a", "10");
    let error = apply(&report, &["N05".to_owned()], &saved).unwrap_err().to_string();
    assert!(error.contains("undo it.sh.changed records what an earlier fix changed"), "{error}");
    assert!(settings.get("a") == "10" && !saved.exists());
    // A command that can be pasted, whatever the file's name.
    fs::remove_dir_all(settings.path("undo it.sh.changed")).unwrap();
    settings.put("a", "15");
    let error = apply(&report, &["N05".to_owned()], &saved).unwrap().all.unwrap_err().to_string();
    assert!(error.contains(&format!("sh '{}' undo", saved.display())), "{error}");
}

#[test]
fn only_what_is_named_is_applied_and_its_undo_is_saved_first() {
    let settings = Settings::new(&[("a", "10")]);
    let saved = settings.path("undo.sh");
    let typed = Remedy {
        side: Side::OpenStack,
        what: "Elsewhere",
        run: vec!["openstack flavor set".to_owned()],
        undo: vec!["openstack flavor unset".to_owned()],
        applicable: false,
        refused: None,
        steps: Vec::new(),
    };
    let report = report(vec![typed, here(vec![settings.step("a", "10", "20")])]);
    for names in
        [vec![], vec!["N01".to_owned()], vec!["N99".to_owned()], vec!["N05".to_owned(), "N14".to_owned()]]
    {
        assert!(apply(&report, &names, &saved).is_err(), "{names:?}");
        assert!(settings.get("a") == "10" && !saved.exists());
    }
    assert!(planned(&report, &["N01".to_owned()]).is_empty());
    let planned = planned(&report, &["no-packet-steering".to_owned()]);
    assert_eq!(planned, [format!("N05: {}: 10 -> 20", settings.path("a").display())]);
    let ran = apply(&report, &["no-packet-steering".to_owned()], &saved).unwrap();
    assert!(ran.all.is_ok());
    assert_eq!(ran.changed, [format!("{}: 10 -> 20", settings.path("a").display())]);
    assert_eq!(settings.get("a"), "20");
    // What is typed elsewhere is there to be read only.
    let text = fs::read_to_string(&saved).unwrap();
    assert!(text.contains("#     openstack flavor set\n"));
    assert!(Command::new("/bin/sh").arg(&saved).arg("undo").output().unwrap().status.success());
    assert_eq!(settings.get("a"), "10");
    // A script that may be needed is not overwritten.
    assert!(apply(&report, &["N05".to_owned()], &saved).is_err());
    fs::remove_file(&saved).unwrap();
    settings.put("a", "15");
    let error = apply(&report, &["N05".to_owned()], &saved).unwrap().all.unwrap_err().to_string();
    assert!(error.contains("is 15 now") && error.contains("not fixed: N05"), "{error}");
}

#[test]
fn options_of_one_mount_are_settings_of_their_own() {
    let host = host("1 1 254:1 / /data rw,nodiratime - ext4 /dev/vda1 rw,discard,nobarrier\n");
    let settings = ["F01", "F03", "F06"].map(|rule| {
        let found = Found::default().with("point", "/data");
        let finding = Finding::new(&host, rules::find(rule).unwrap(), found);
        let step = finding.fixes.into_iter().flat_map(|fix| fix.steps).next().unwrap();
        assert_eq!(step.back, step.was);
        format!("{}: {} -> {}", step.name, step.was, step.to)
    });
    assert_eq!(
        settings,
        [
            "barrier of /data: nobarrier -> barrier",
            "discard of /data: discard -> nodiscard",
            "atime of /data: strictatime -> relatime"
        ]
    );
}

/// A host with these lines of mountinfo.
fn host(mountinfo: &str) -> Host {
    let files = [("proc/self/mountinfo".to_owned(), mountinfo.as_bytes().to_vec())];
    Host::once(Tree::from_files(files), Said::default())
}

/// Objects, commands and refusals of a rule's findings here.
fn remedies(host: &Host, rule: &str) -> Vec<(String, Vec<String>)> {
    let findings = crate::examine(host).findings;
    let of_rule = findings.into_iter().filter(|finding| finding.rule == rule);
    let texts = |finding: Finding| {
        let here = finding.fixes.into_iter().filter(|fix| fix.side == Side::Here);
        (finding.object, here.flat_map(|fix| fix.run.into_iter().chain(fix.refused)).collect())
    };
    of_rule.map(texts).collect()
}

#[test]
fn options_of_a_file_system_are_changed_once_where_that_changes_nothing_else() {
    // A read-only bind mount first, then one that is hidden, then the one to use; and another file system.
    let mounts = "\
        1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
        2 1 8:2 /sub /ro ro,relatime shared:1 - ext4 /dev/sdb1 rw,nobarrier,discard\n\
        3 1 8:2 / /over rw,relatime - ext4 /dev/sdb1 rw,nobarrier,discard\n\
        4 3 0:9 / /over rw - tmpfs none rw\n\
        5 1 8:2 / /rw rw,nosuid,noatime,nodiratime master:2 shared:3 - ext4 /dev/sdb1 rw,sync,nobarrier,discard,commit=30\n\
        6 1 0:40 /snap /snap ro,relatime - btrfs /dev/sdc rw,nobarrier,subvol=/snap\n\
        7 1 0:40 /data /data rw,relatime - btrfs /dev/sdc rw,nobarrier,subvol=/data\n";
    let host = host(mounts);
    let kept = "mount -o remount,rw,nosuid,nodiratime,sync,noatime";
    let expected = |objects: [&str; 2], commands: [&str; 2]| {
        objects
            .iter()
            .zip(commands)
            .map(|(object, command)| ((*object).to_owned(), vec![command.to_owned()]))
            .collect::<Vec<_>>()
    };
    let barrier = format!("{kept},barrier /dev/sdb1 /rw");
    let of_btrfs = "mount -o remount,rw,relatime,barrier /dev/sdc /data";
    assert_eq!(remedies(&host, "F01"), expected(["/ro, /over, /rw", "/snap, /data"], [&barrier, of_btrfs]));
    assert_eq!(remedies(&host, "F03")[0].1, [format!("{kept},nodiscard /dev/sdb1 /rw")]);
}

#[test]
fn what_a_remount_would_change_too_is_refused() {
    for (mounts, why) in [
        ("1 1 8:2 /sub /ro ro,relatime - ext4 /dev/sdb1 rw,nobarrier\n", "/ro: mounted read-only here"),
        // After errors=remount-ro.
        (
            "1 1 8:2 / /a rw,relatime - ext4 /dev/sdb1 ro,nobarrier\n",
            "/a: the file system has become read-only",
        ),
        (
            "1 1 8:2 / /a rw - ext4 /dev/sdb1 rw,nobarrier\n2 1 8:3 / /a rw - ext4 /dev/sdc1 rw\n",
            "something else is mounted over it",
        ),
    ] {
        let host = host(mounts);
        let found = remedies(&host, "F01");
        assert!(found.len() == 1 && found[0].1.len() == 1 && found[0].1[0].contains(why), "{found:?}");
        let report = crate::examine(&host);
        let script = script(&report, &["F01".to_owned()]);
        assert!(script.contains("not possible: ") && !script.contains("change 1"), "{script}");
        let saved = tempfile::tempdir().unwrap();
        let error = apply(&report, &["F01".to_owned()], &saved.path().join("undo.sh")).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert!(report.render(crate::report::Format::Text).contains("not possible: "));
    }
    // A capture of an earlier build.
    let files = [("proc/mounts".to_owned(), b"/dev/sdb1 /a ext4 rw,nobarrier 0 0\n".to_vec())];
    let found = remedies(&Host::once(Tree::from_files(files), Said::default()), "F01");
    assert_eq!(found, [("/a".to_owned(), vec!["/proc/self/mountinfo is not there".to_owned()])]);
}

#[test]
fn access_times_are_of_each_mount() {
    let mounts = "\
        1 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
        2 1 8:1 /a /a rw,nodev - ext4 /dev/sda1 rw\n\
        3 1 8:1 /b /b ro - ext4 /dev/sda1 rw\n\
        4 1 8:1 /c /c rw - ext4 /dev/sda1 rw\n\
        5 1 8:2 / /d rw - ext4 /dev/sdb1 rw,lazytime\n";
    let command = |kept: &str, point: &str| {
        let run = format!("mount -o remount,bind,{kept},relatime /dev/sda1 {point}");
        (point.to_owned(), vec![run])
    };
    assert_eq!(remedies(&host(mounts), "F06"), [command("rw,nodev", "/a"), command("rw", "/c")]);
    // Without mountinfo too.
    let table = "/dev/sda1 / ext4 rw,relatime 0 0\n/dev/sda1 /a ext4 rw 0 0\n";
    let host = Host::once(Tree::from_files([("proc/mounts".to_owned(), table.into())]), Said::default());
    assert_eq!(remedies(&host, "F06").len(), 1);
}

#[test]
fn a_bind_mount_of_a_cache_is_a_cache() {
    let check = |mounts: &str, expected: Severity| {
        let files = [("proc/self/mountinfo".to_owned(), mounts.as_bytes().to_vec())];
        let roles = vec![("/cache".to_owned(), Role::Cache)];
        let said = Said { roles, ..Said::default() };
        let report = crate::examine(&Host::once(Tree::from_files(files), said));
        let found: Vec<_> = report.findings.iter().filter(|finding| finding.rule == "F01").collect();
        assert!(found.len() == 1 && found[0].severity == expected, "{found:?}");
    };
    let cache = "1 1 8:2 / /cache rw - ext4 /dev/sdb1 rw,nobarrier\n";
    check(&format!("{cache}2 1 8:2 /a /srv rw - ext4 /dev/sdb1 rw,nobarrier\n"), Severity::Low);
    // The cache is a directory of a file system that has more.
    let all = "2 1 8:2 / /data rw - ext4 /dev/sdb1 rw,nobarrier\n";
    check(&format!("{}{all}", cache.replace(" / /cache", " /a /cache")), Severity::High);
}

#[test]
fn the_devices_are_compared_before_a_change_and_before_its_undo() {
    let settings = Settings::new(&[("a", "10"), ("a.owner", "7")]);
    let run = settings.script(vec![here(vec![settings.step("a", "10", "20")])]);
    // Another device since the examination.
    settings.put("a.owner", "8");
    let (worked, said) = run("");
    assert!(
        !worked && said.contains("belongs to another device or file system than when the host was examined"),
        "{said}"
    );
    assert_eq!(settings.get("a"), "10");
    settings.put("a.owner", "7");
    assert!(run("").0);
    // Another one since the fix, with the value that the first one had or has.
    settings.put("a.owner", "8");
    for value in ["20", "10"] {
        settings.put("a", value);
        let (worked, said) = run("undo");
        assert!(
            !worked && said.contains("or belongs to another device or file system now: left alone"),
            "{said}"
        );
        assert_eq!(settings.get("a"), value);
    }
    fs::remove_file(settings.path("a.owner")).unwrap();
    assert!(!run("undo").0);
    settings.put("a.owner", "7");
    settings.put("a", "20");
    assert!(run("undo").0);
    assert_eq!(settings.get("a"), "10");
}

#[test]
fn devices_and_file_systems_are_known_by_more_than_their_names() {
    let files = [
        ("sys/block/sda/diskseq", "9\n"),
        ("sys/block/sda/queue/scheduler", "none [mq-deadline]\n"),
        ("sys/block/sdb.link", "../devices/pci0000:00/sdb"),
        ("sys/block/sdb/queue/scheduler", "none [mq-deadline]\n"),
        ("sys/class/net/eth0/device.link", "../../../virtio0"),
        ("sys/class/net/eth0/mtu", "1500\n"),
        ("sys/class/net/veth/ifindex", "4\n"),
        ("sys/class/net/veth/mtu", "1500\n"),
        ("proc/sys/net/core/somaxconn", "128\n"),
        ("proc/irq/30/smp_affinity_list", "0-1\n"),
        ("proc/interrupts", " CPU0 CPU1\n 30:  7  9  PCI-MSI  65537-edge  virtio0-input.0\n"),
        (
            "proc/self/mountinfo",
            "1 1 8:2 /s\\040b /a rw - ext4 /dev/sdb1 rw,nobarrier\n2 1 0:40 / /b rw - btrfs /dev/sdc rw,nobarrier\n",
        ),
        ("commands/uuid.8:2", "1234-5678\n"),
        ("commands/uuid.0:40", "abcd\n"),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let host = Host::once(Tree::from_files(files), Said::default());
    let owner = |rule: &str, name: &'static str, value: &str| {
        let found = Found::default().with(name, value).with("mtu", "1400").with("cpu", "1");
        let finding = Finding::new(&host, rules::find(rule).unwrap(), found);
        let step = finding.fixes.into_iter().flat_map(|fix| fix.steps).next().unwrap();
        format!("{}: {}", step.whose, step.owner)
    };
    assert_eq!(owner("B01", "dev", "sda"), "block_of sda: 9");
    assert_eq!(owner("B01", "dev", "sdb"), "block_of sdb: ../devices/pci0000:00/sdb");
    assert_eq!(owner("N11", "dev", "eth0"), "nic_of eth0: ../../../virtio0");
    assert_eq!(owner("N11", "dev", "veth"), "nic_of veth: 4");
    assert_eq!(owner("N04", "irq", "30"), "irq_of 30: PCI-MSI 65537-edge virtio0-input.0");
    assert_eq!(owner("N14", "dev", "eth0"), ":: ");
    assert_eq!(owner("F01", "point", "/a"), "fs_of /a: 8:2/1234-5678");
    assert_eq!(owner("F06", "point", "/a"), r"directory_of /a: 8:2/1234-5678/s\040b");
    assert_eq!(owner("F01", "point", "/b"), "fs_of /b: /abcd");
}

/// The table of docs/doctor.md.
#[test]
fn a_setting_knows_what_the_kernel_changes_with_it() {
    let files = [
        ("sys/block/loop1/queue/scheduler", "none [bfq]\n"),
        ("sys/block/loop1/queue/rotational", "1\n"),
        ("sys/block/loop1/queue/read_ahead_kb", "128\n"),
        ("sys/block/loop1/loop/dio", "0\n"),
        ("sys/class/net/eth0/mtu", "9000\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
        (
            "commands/ethtool-l.eth0",
            "Pre-set maximums:\nCombined:\t2\nCurrent hardware settings:\nCombined:\t1\n",
        ),
        ("commands/ethtool-g.eth0", "Pre-set maximums:\nRX:\t256\nCurrent hardware settings:\nRX:\t64\n"),
        ("commands/ethtool-k.eth0", "generic-receive-offload: off\n"),
        ("proc/sys/vm/nr_hugepages", "4\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq.link", "../cpufreq/policy0"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq.link", "../cpufreq/policy0"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
        ("proc/self/mountinfo", "1 1 8:2 / /a\\040b rw,relatime - ext4 /dev/sdb1 rw,nobarrier\n"),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let host = Host::once(Tree::from_files(files), Said::default());
    let others = |rule: &str, dev: &str| {
        let found =
            [("dev", dev), ("mtu", "1500"), ("queues", "2"), ("ring", "256"), ("right", "0"), ("used", "2")]
                .into_iter()
                .fold(Found::default(), |found, (name, value)| found.with(name, value))
                .with("feature", "generic-receive-offload")
                .with("mask", "3")
                .with("point", "/a b");
        let fixes = Finding::new(&host, rules::find(rule).unwrap(), found).fixes;
        let others: Vec<String> =
            fixes.into_iter().flat_map(|fix| fix.steps).map(|step| step.others).collect();
        others.join(", ")
    };
    for rule in ["B01", "B02", "B17"] {
        assert_eq!(others(rule, "loop1"), "disk_of loop1", "{rule}");
    }
    assert_eq!(others("B03", "loop1"), ":");
    assert_eq!(others("N11", "eth0"), "mtus_of eth0 \"$1\"");
    assert_eq!(others("N05", "eth0"), ":");
    assert_eq!(others("N03", "eth0"), "spread_of eth0 && queues_of eth0");
    assert_eq!(others("N08", "eth0"), "queues_of eth0");
    assert_eq!(others("N10", "eth0"), "offloads_of eth0");
    assert_eq!(others("M09", ""), "files /sys/devices/system/node/node*/hugepages/*/nr_hugepages");
    assert_eq!(others("M03", ""), "files /proc/sys/vm/min_free_kbytes");
    // Once for the CPUs that share it.
    assert_eq!(others("C02", ""), "speeds_of cpu0");
    assert_eq!(others("F01", ""), r"echo_line 'options barrier,nobarrier:/a\0040b'");
}

#[test]
fn xfs_is_not_remounted() {
    let host = host("1 1 8:2 / /a rw,relatime - xfs /dev/sdb1 rw,discard,inode32\n");
    assert_eq!(remedies(&host, "F03"), [("/a".to_owned(), Vec::new())]);
    let report = crate::examine(&host);
    let script = script(&report, &["F03".to_owned()]);
    assert!(script.contains("configuration: ") && !script.contains("mount -o remount,rw"), "{script}");
}

/// What ext4 has by default is in its superblock, and no table of mounts shows it.
#[test]
fn defaults_of_an_ext4_are_read() {
    let outcome = |options: Option<&str>, fstab: &str, rule: &str| {
        let mut files = vec![
            ("proc/self/mountinfo", "1 1 8:2 / /a rw,relatime - ext4 /dev/root rw\n"),
            ("proc/diskstats", "8 2 sdb2 1 0 8 1 1 0 8 1 0 1 1\n"),
            ("etc/fstab", fstab),
        ];
        files.extend(options.map(|options| ("proc/fs/ext4/sdb2/options", options)));
        let files = files.into_iter().map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        let host = Host::once(Tree::from_files(files), Said::default());
        let run = remedies(&host, rule).into_iter().flat_map(|(_, commands)| commands).collect::<Vec<_>>();
        (crate::examine(&host).outcome(rule), run)
    };
    let off = Some("rw\nnobarrier\ndiscard\ndata=writeback\n");
    let command = |option: &str| vec![format!("mount -o remount,rw,relatime,{option} /dev/root /a")];
    assert_eq!(outcome(off, "", "F01"), (Outcome::Finding(1), command("barrier")));
    assert_eq!(outcome(off, "", "F03"), (Outcome::Finding(1), command("nodiscard")));
    let fstab = "/dev/sdb2 /a ext4 data=writeback,nobarrier 0 0\n";
    assert_eq!(outcome(off, fstab, "F08").0, Outcome::Quiet);
    assert_eq!(outcome(Some("rw\nbarrier\ndata=ordered\n"), fstab, "F08").0, Outcome::Finding(1));
    for rule in ["F01", "F03", "F08"] {
        assert!(matches!(outcome(None, fstab, rule).0, Outcome::Unknown(_)), "{rule}");
    }
}

#[test]
fn what_cannot_be_read_is_not_taken_for_another() {
    let settings = Settings::new(&[("a", "10"), ("a.owner", "7")]);
    let path = settings.path("a").display().to_string();
    // As `fs_of` does without blkid.
    let whose = format!("cat {path}.owner; [ ! -e {path}.blind ] || return 2");
    let run = settings.script(vec![here(vec![Step { whose, ..settings.step("a", "10", "20") }])]);
    assert!(run("").0);
    settings.put("a.owner", "");
    settings.put("a.blind", "");
    let (worked, said) = run("undo");
    assert!(!worked && said.contains("cannot tell of which file system"), "{said}");
    settings.put("a.owner", "7");
    settings.put("a", "");
    let (worked, said) = run("undo");
    assert!(!worked && said.contains("cannot be read") && !said.contains("somebody"), "{said}");
    settings.put("a", "20");
    assert!(run("undo").0);
    assert_eq!(settings.get("a"), "10");
}

#[test]
fn what_was_changed_is_known_also_if_another_fix_fails() {
    let settings = Settings::new(&[("a", "10"), ("b", "15")]);
    let mut report = report(vec![here(vec![settings.step("a", "10", "20")])]);
    report.findings.extend(self::report(vec![here(vec![settings.step("b", "10", "20")])]).findings);
    let ran = apply(&report, &["N05".to_owned()], &settings.path("undo.sh")).unwrap();
    assert!(ran.all.unwrap_err().to_string().contains("is 15 now"));
    assert_eq!(ran.changed, [format!("{}: 10 -> 20", settings.path("a").display())]);
}
