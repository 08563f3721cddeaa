use super::*;

#[test]
fn needs_are_read_and_misspelt_ones_are_answered_with_the_nearest() {
    assert_eq!(Need::parse("root").unwrap(), Need::Root);
    assert_eq!(Need::parse("fs:xfs").unwrap(), Need::FileSystem("xfs".into()));
    assert_eq!(Need::parse("tool:fio").unwrap(), Need::Tool("fio".into()));
    assert!(Need::parse("rooot").unwrap_err().what().contains("did you mean `root`?"));
    assert!(Need::parse("tool:foi").unwrap_err().what().contains("did you mean `fio`?"));
}

#[test]
fn what_is_lacking_says_what_to_do() {
    let mut host = Host { has_fuse: true, file_systems: vec!["ext4".into()], ..Host::default() };
    host.missing_tools.insert("fio".into(), "fio is missing: apt-get install fio".into());
    assert!(host.lacks(&Need::Root).unwrap().contains("sudo"));
    assert_eq!(host.lacks(&Need::Fuse), None);
    assert!(host.lacks(&Need::FileSystem("xfs".into())).unwrap().contains("modprobe xfs"));
    assert!(host.lacks(&Need::Tool("fio".into())).unwrap().contains("apt-get install"));
    assert_eq!(host.lacks(&Need::Tool("dd".into())), None);
}
