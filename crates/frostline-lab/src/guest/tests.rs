use super::*;

#[test]
fn the_end_of_a_log_is_short_and_never_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    assert_eq!(last_lines(&log, 2), "");
    std::fs::write(&log, b"one\n\ntwo \xff\r\nthree\n\n").unwrap();
    assert_eq!(last_lines(&log, 2), "two \u{fffd}\nthree");
}
