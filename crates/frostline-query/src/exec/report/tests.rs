use super::*;

fn failure(ordinal: u32) -> Failure {
    let split = SplitId::from_random(ordinal.into());
    Failure { ordinal, split, object: "o".to_owned(), kind: "k".to_owned(), reason: "r".to_owned() }
}

#[test]
fn an_answer_that_lacks_a_split_or_has_one_twice_is_refused() {
    let report = |answered: &[u32], failed: &[u32]| Report {
        answered: answered.to_vec(),
        failed: failed.iter().map(|ordinal| failure(*ordinal)).collect(),
        ..Report::default()
    };
    report(&[4, 1], &[2]).check(&[1, 2, 4]).unwrap();
    for wrong in
        [report(&[1, 4], &[]), report(&[1, 2, 4], &[2]), report(&[1, 1, 4], &[2]), report(&[1, 5], &[2])]
    {
        assert_eq!(wrong.check(&[1, 2, 4]).unwrap_err().kind(), crate::ErrorKind::Internal);
    }
    let mut tripled = report(&[1, 2, 4], &[]);
    tripled.add(report(&[1, 2, 4], &[]));
    assert!(tripled.check(&[1, 2, 4]).is_err());
}

#[test]
fn a_report_is_read_as_it_was_written() {
    let report = Report { answered: vec![3, 9], failed: vec![failure(7)], matched: 12, ..Report::default() };
    assert_eq!(Report::read(&report.write().unwrap()).unwrap(), report);
    assert!(Report::read(&report.write().unwrap()[..3]).is_err());
}
