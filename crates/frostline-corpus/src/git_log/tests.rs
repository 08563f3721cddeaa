use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::GitLog;

fn git(clone: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("git");
    command.arg("-C").arg(clone).args(["-c", "user.name=A", "-c", "user.email=a@example.org"]);
    command.args(arguments).output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_document_for_each_commit_and_file() {
    let clone = tempfile::tempdir().unwrap();
    if !git(clone.path(), &["init", "-q"]) {
        eprintln!("skipped: git cannot be run");
        return;
    }
    fs::write(clone.path().join("a b.txt"), "one\ntwo\n").unwrap();
    let commit = ["commit", "-q", "--date=2025-01-01T09:00:00+09:00", "-m"];
    assert!(git(clone.path(), &["add", "."]));
    assert!(git(clone.path(), &[&commit[..], &["First \"try\""]].concat()));
    assert!(git(clone.path(), &[&commit[..], &["Nothing", "--allow-empty"]].concat()));
    let mut text = String::new();
    GitLog::open(clone.path()).unwrap().read_to_string(&mut text).unwrap();
    let documents: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [empty, first] = documents.as_slice() else { panic!("{text}") };
    assert_eq!((&empty["subject"], &empty["path"]), (&"Nothing".into(), &Value::Null));
    assert_eq!(
        (&first["path"], &first["added"], &first["deleted"]),
        (&"a b.txt".into(), &2.into(), &0.into())
    );
    assert_eq!(first["@timestamp"], "2025-01-01T00:00:00.000Z");
    assert_eq!(
        (&first["date"], &first["subject"]),
        (&"2025-01-01T09:00:00+09:00".into(), &"First \"try\"".into())
    );
    assert_eq!(empty["commit"], GitLog::head(clone.path()).unwrap().as_str());
}
