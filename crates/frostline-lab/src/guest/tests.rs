use super::*;

#[test]
fn missing_tools_are_named_with_what_installs_them() {
    need(&["sh"]).unwrap();
    let error = need(&["sh", "frostline-no-such-tool"]).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::NotFound);
    assert!(
        error.what().starts_with("missing frostline-no-such-tool; install with: apt-get install "),
        "{error}"
    );
}

#[test]
fn every_tool_has_a_package_and_the_table_is_sorted() {
    assert!(TOOLS.is_sorted_by_key(|(tool, _)| tool), "{TOOLS:?}");
}

#[test]
fn the_end_of_a_log_is_short_and_never_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    assert_eq!(last_lines(&log, 2), "");
    std::fs::write(&log, b"one\n\ntwo \xff\r\nthree\n\n").unwrap();
    assert_eq!(last_lines(&log, 2), "two \u{fffd}\nthree");
}
