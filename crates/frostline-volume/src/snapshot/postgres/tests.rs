use super::*;

const LABEL: &str = "START WAL LOCATION: 16/FF000028 (file 0000000300000016000000FF)\n\
    CHECKPOINT LOCATION: 16/FF000060\nBACKUP METHOD: streamed\nBACKUP FROM: primary\n";

#[test]
fn the_log_of_a_backup_is_from_its_label_to_its_end() {
    let check = |end: &str, expected: &[&str]| {
        assert_eq!(segments(LABEL, end, 16 << 20).unwrap(), expected, "{end}");
    };
    check("16/FF000138", &["0000000300000016000000FF"]);
    // An end at the start of a segment needs nothing of it.
    check("17/0", &["0000000300000016000000FF"]);
    check("17/1", &["0000000300000016000000FF", "000000030000001700000000"]);
    let large = segments(LABEL, "17/1", 1 << 30).unwrap();
    assert_eq!(large, ["000000030000001600000003", "000000030000001700000000"]);
    for (label, end, bytes) in [
        ("", "17/0", 16 << 20),
        (LABEL, "16/FE000000", 16 << 20),
        (LABEL, "17", 16 << 20),
        (LABEL, "FFFFFFFF/0", 16 << 20),
        (LABEL, "17/0", 0),
    ] {
        segments(label, end, bytes).unwrap_err();
    }
}

#[test]
fn what_is_of_one_run_is_left_out() {
    for path in [
        "postmaster.pid",
        ".s.PGSQL.5432.lock",
        "pg_wal/000000010000000000000001",
        "pg_wal/archive_status/000000010000000000000001.done",
        "pg_replslot/standby/state",
        "base/pgsql_tmp",
        "base/5/pg_internal.init",
        "backup_label",
    ] {
        assert!(is_left_out(path.as_bytes()), "{path}");
    }
    for path in [
        "pg_wal",
        "pg_wal/archive_status",
        "pg_replslot",
        "base/5/16384",
        "base/postmaster.pid",
        "global/pg_control",
        "backup_label.old",
    ] {
        assert!(!is_left_out(path.as_bytes()), "{path}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_told_with_its_message() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("PG_VERSION"), "17\n").unwrap();
    let shown = folder.path().display().to_string();
    let conninfo = format!("host={shown} port=1 dbname=postgres");
    let refused = Backup::begin(&conninfo, folder.path(), "a").unwrap_err();
    assert!(refused.what().starts_with("cannot connect to PostgreSQL: connection"), "{refused}");
    assert!(refused.what().contains(&shown), "{refused}");
}

#[test]
fn a_directory_that_no_server_has_is_told_before_one_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Backup::begin("port=1", folder.path(), "a").unwrap_err();
    assert_eq!(refused.kind(), frostline_base::ErrorKind::Invalid);
    assert!(refused.what().contains("is not a data directory of PostgreSQL"), "{refused}");
}
