use frostline_base::ErrorKind;

use super::*;

#[test]
fn a_missing_tool_is_named_with_its_install_command() {
    let missing: Vec<&Tool> = ["fio", "mkfs.xfs", "xfs_repair"].iter().map(|n| known(n).unwrap()).collect();
    assert_eq!(
        explain(&missing),
        "fio, mkfs.xfs, xfs_repair are missing: apt-get install -y --no-install-recommends fio xfsprogs"
    );
}

#[test]
fn an_unknown_tool_is_answered_with_the_nearest() {
    let error = need(["foi"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.what(), "no tool `foi`; did you mean `fio`?");
}

#[test]
fn a_tool_that_is_here_says_its_version() {
    let versions = need(["dd"]).unwrap();
    assert!(versions["dd"].starts_with("dd (coreutils)"), "{versions:?}");
}

#[test]
fn the_table_is_sorted() {
    assert!(KNOWN.is_sorted_by_key(|tool| tool.name));
}
