use super::*;

fn sample(block: u32) -> Sample {
    Sample {
        cell: "fs=ext4".into(),
        block,
        position: 0,
        at_s: 0.0,
        seconds: 1.0,
        values: [("iops".to_owned(), 1.0)].into(),
        gates: vec![],
        raw: "x".into(),
    }
}

#[test]
fn a_line_that_was_cut_short_is_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(folder.path(), "").unwrap();
    journal.append(sample(0)).unwrap();
    journal.append(sample(1)).unwrap();
    let path = folder.path().join(SAMPLES);
    let whole = fs::read(&path).unwrap();
    for cut in whole.len() / 2 + 1..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut again = Journal::open(folder.path()).unwrap();
        assert_eq!(again.samples(), [sample(0)], "cut at {cut}");
        again.append(sample(2)).unwrap();
        assert_eq!(Journal::open(folder.path()).unwrap().samples(), [sample(0), sample(2)]);
    }
}

#[test]
fn a_folder_with_a_run_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    drop(Journal::create(folder.path(), "").unwrap());
    assert_eq!(Journal::create(folder.path(), "").unwrap_err().kind(), frostline_base::ErrorKind::Conflict);
}

#[test]
fn what_is_not_a_run_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Journal::resume(folder.path()).unwrap_err().kind(), frostline_base::ErrorKind::NotFound);
    fs::write(folder.path().join(SAMPLES), "nonsense\n").unwrap();
    assert!(Journal::open(folder.path()).is_err());
}
