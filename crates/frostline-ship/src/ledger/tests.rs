use frostline_base::ErrorKind;

use super::*;

fn reached(input: &str, offset: u64) -> Reached {
    Reached { input: input.into(), offset, hash: offset + 1 }
}

fn marks(ledger: &Ledger) -> Vec<(String, u64, u64)> {
    ledger.known().into_iter().map(|known| (known.input, known.resume, known.offset)).collect()
}

#[test]
fn what_was_sent_is_known_and_what_was_acknowledged_is_where_to_resume() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/state.json");
    let mut ledger = Ledger::open(&path, 7, 0).unwrap();
    ledger.begin(&[reached("a", 10)], 1).unwrap();
    ledger.begin(&[reached("a", 20), reached("b", 5)], 2).unwrap();
    // The second batch is acknowledged first: nothing moves before the first.
    ledger.end(1, vec![reached("a", 20), reached("b", 5)], 3).unwrap();
    assert_eq!(marks(&ledger), [("a".into(), 0, 20), ("b".into(), 0, 5)]);
    assert_eq!(Ledger::open(&path, 8, 0).unwrap_err().kind(), ErrorKind::Conflict);
    drop(ledger);
    let mut ledger = Ledger::open(&path, 8, 0).unwrap();
    assert_eq!(ledger.shipper().unwrap(), 7);
    assert_eq!(marks(&ledger), [("a".into(), 0, 20), ("b".into(), 0, 5)]);
    // Sent again from the start: what was sent before stays known.
    ledger.begin(&[reached("a", 10)], 4).unwrap();
    ledger.end(0, vec![reached("a", 10)], 4).unwrap();
    assert_eq!(marks(&ledger)[0], ("a".into(), 10, 20));
    drop(ledger);
    assert_eq!(marks(&Ledger::open(&path, 8, 3).unwrap()), [("a".into(), 10, 20)]);
}

#[test]
fn a_file_that_is_no_record_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    for (text, kind) in [
        ("", ErrorKind::Corrupt),
        ("{}", ErrorKind::Corrupt),
        (r#"{"version":2,"shipper":"0","inputs":{}}"#, ErrorKind::Invalid),
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(Ledger::open(&path, 7, 0).unwrap_err().kind(), kind, "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}
