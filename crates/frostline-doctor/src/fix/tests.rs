use std::fs;
use std::path::PathBuf;

use super::*;
use crate::host::{Host, Said};
use crate::report::Finding;
use crate::rule::{Confidence, Found, Severity, Side};
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
            run: format!("echo {to} > {path}"),
            undo: format!("echo {was} > {path}"),
            name: path,
            was: was.to_owned(),
            to: to.to_owned(),
            back: was.to_owned(),
        }
    }

    /// Writes the script of these fixes, and returns what runs it: its status and what it says.
    fn script(&self, fixes: Vec<Remedy>) -> impl Fn(&str) -> (bool, String) {
        let path = self.path("fix.sh");
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
fn a_kill_in_the_middle_is_undone() {
    let settings = Settings::new(&[("a", "10")]);
    let run = settings.script(vec![here(vec![settings.step("a", "10", "20")])]);
    // Recorded, set, and killed before what it reads now was recorded.
    fs::create_dir(settings.path("fix.sh.changed")).unwrap();
    fs::write(settings.path("fix.sh.changed/1"), "").unwrap();
    settings.put("a", "20");
    assert!(run("undo").0);
    assert_eq!(settings.get("a"), "10");
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
    let error = apply(&report, &["N05".to_owned()], &saved).unwrap_err().to_string();
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
        steps: Vec::new(),
    };
    let report = report(vec![typed, here(vec![settings.step("a", "10", "20")])]);
    for names in
        [vec![], vec!["N01".to_owned()], vec!["N99".to_owned()], vec!["N05".to_owned(), "N14".to_owned()]]
    {
        assert!(apply(&report, &names, &saved).is_err(), "{names:?}");
        assert!(settings.get("a") == "10" && !saved.exists());
    }
    let ran = apply(&report, &["no-packet-steering".to_owned()], &saved).unwrap();
    assert_eq!(ran, [format!("{}: 10 -> 20", settings.path("a").display())]);
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
    let error = apply(&report, &["N05".to_owned()], &saved).unwrap_err().to_string();
    assert!(error.contains("is 15 now") && error.contains("not fixed: N05"), "{error}");
}

#[test]
fn options_of_one_mount_are_settings_of_their_own() {
    let mounts = "/dev/vda1 /data ext4 rw,nodiratime,discard,nobarrier 0 0\n";
    let tree = Tree::from_files([("proc/mounts".to_owned(), mounts.as_bytes().to_vec())]);
    let host = Host::once(tree, Said::default());
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
