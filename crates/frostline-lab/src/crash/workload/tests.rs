use super::*;

/// A run on an ordinary folder, and its marks.
fn ran(steps: usize) -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut marks = Vec::new();
    leave_stale_blocks(folder.path(), 1 << 20).expect("fill");
    run(folder.path(), steps, |mark| {
        marks.push(mark.to_owned());
        Ok(())
    })
    .expect("run");
    (folder, marks)
}

fn promised(marks: &[String]) -> Promised {
    Promised::of(marks.iter().map(String::as_str))
}

#[test]
fn what_was_promised_is_there_while_the_power_is_on() {
    let (folder, marks) = ran(7);
    assert_eq!(promised(&marks), Promised { files: 7, records: 7, version: 2 });
    for count in 0..=marks.len() {
        let findings = judge(folder.path(), promised(&marks[..count]));
        assert_eq!(findings, Findings::default());
    }
}

#[test]
fn every_kind_of_loss_is_found() {
    let (folder, marks) = ran(7);
    let at = |name: &str| folder.path().join(name);
    fs::remove_file(at("file-1")).expect("remove");
    fs::write(at("file-2"), &file_content(2)[..500]).expect("cut short");
    fs::write(at("file-3"), file_content(4)).expect("swap");
    fs::write(at(GROWING), "").expect("cut short");
    fs::write(at(REPLACED), version_content(1)).expect("age");
    fs::write(at("file-99"), lines(STALE, 0, 300)).expect("expose");
    let findings = judge(folder.path(), promised(&marks));
    assert_eq!((findings.lost.len(), findings.wrong.len(), findings.stale.len()), (4, 1, 1), "{findings:?}");
}

#[test]
fn a_newer_version_is_fine_only_as_a_whole() {
    let (folder, marks) = ran(3);
    fs::write(folder.path().join(REPLACED), version_content(9)).expect("write");
    assert_eq!(judge(folder.path(), promised(&marks)), Findings::default());
    let mixed = [&version_content(9)[..128], &version_content(8)[128..]].concat();
    fs::write(folder.path().join(REPLACED), mixed).expect("write");
    assert_eq!(judge(folder.path(), promised(&marks)).wrong.len(), 1);
}
