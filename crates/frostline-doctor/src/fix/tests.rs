use std::fs;
use std::path::PathBuf;

use super::*;
use crate::report::Finding;
use crate::rule::{Confidence, Severity};

/// A finding whose fixes write to `file`.
fn report(file: &Path) -> Report {
    let path = file.display();
    let remedy = |run: String, undo: Option<String>, side| Remedy {
        side,
        what: "Writes",
        run: vec![run],
        undo: undo.into_iter().collect(),
        complete: true,
    };
    let finding = Finding {
        rule: "N05",
        name: "no-packet-steering",
        severity: Severity::Medium,
        confidence: Confidence::High,
        title: "Title",
        object: "eth0".to_owned(),
        observed: "observed".to_owned(),
        explanation: "",
        fixes: vec![
            remedy(
                "openstack flavor set".to_owned(),
                Some("openstack flavor unset".to_owned()),
                Side::OpenStack,
            ),
            remedy("echo irreversible".to_owned(), None, Side::Here),
            remedy("false".to_owned(), Some("true".to_owned()), Side::Here),
            remedy(format!("echo fixed > {path}"), Some(format!("echo undone > {path}")), Side::Here),
        ],
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

fn run(script: &str, argument: Option<&str>) {
    let status = Command::new("/bin/sh").args(["-c", script, "sh"]).args(argument).status().unwrap();
    assert!(status.success());
}

#[test]
fn the_script_fixes_and_undoes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("setting");
    let script = script(&report(&file), &[]);
    run(&script, None);
    assert_eq!(fs::read_to_string(&file).unwrap(), "fixed\n");
    run(&script, Some("undo"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "undone\n");
    // What cannot be undone or is typed elsewhere is there to be read only.
    assert!(script.contains("#     echo irreversible\n") && script.contains("#     openstack flavor set\n"));
    assert!(!super::script(&report(&file), &["N01".to_owned()]).contains("fixed"));
}

#[test]
fn only_what_is_named_is_applied_and_its_undo_is_saved_first() {
    let folder = tempfile::tempdir().unwrap();
    let (file, saved): (PathBuf, PathBuf) = (folder.path().join("setting"), folder.path().join("undo.sh"));
    let report = report(&file);
    for names in [vec![], vec!["N01".to_owned()], vec!["N99".to_owned()]] {
        assert!(apply(&report, &names, &saved).is_err(), "{names:?}");
        assert!(!file.exists() && !saved.exists());
    }
    let ran = apply(&report, &["no-packet-steering".to_owned()], &saved).unwrap();
    assert_eq!(ran, [format!("echo fixed > {}", file.display())]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "fixed\n");
    run(&fs::read_to_string(&saved).unwrap(), Some("undo"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "undone\n");
    // An undo that is still needed is not overwritten.
    assert!(apply(&report, &["N05".to_owned()], &saved).is_err());
}
