use super::*;

/// As PostgreSQL 11 to 18 write it, as far as it is read.
pub(crate) fn control(state: u32, redo: u64, log_bytes: u32) -> Vec<u8> {
    let mut bytes = vec![0; 8_192];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(8, &1_300u32.to_le_bytes());
    put(16, &state.to_le_bytes());
    put(40, &redo.to_le_bytes());
    put(208, &1_234_567f64.to_le_bytes());
    for (at, size) in [(216, 8_192), (220, 131_072), (224, 8_192), (228, log_bytes)] {
        put(at, &u32::to_le_bytes(size));
    }
    bytes
}

#[test]
fn sizes_and_the_start_of_the_log_are_read() {
    let read = Control::read(&control(6, 0x2_0300_0028, 16 << 20)).unwrap();
    assert_eq!(read.sizes, Sizes::default());
    let needs = |control: &Control, name: &str| control.needs_log(name.as_bytes());
    assert!(!needs(&read, "000000010000000200000002"));
    assert!(needs(&read, "000000010000000200000003") && needs(&read, "0000000100000003000000FE"));
    assert!(!needs(&read, "0000000100000001000000FF"), "of the half before");
    assert!(needs(&read, "00000002.history") && needs(&read, "archive_status"));
    let ended = Control::read(&control(1, 0x2_0300_0028, 16 << 20)).unwrap();
    let names = ["000000010000000200000002", "000000010000000200000003", "000000010000000200000004"];
    assert_eq!(names.map(|name| needs(&ended, name)), [false, true, true]);
    assert!(!needs(&ended, "000000010000000200000005"), "it was made for later");
    let large = Control::read(&control(6, 5 << 30, 1 << 30)).unwrap();
    assert_eq!(
        ["000000010000000100000000", "000000010000000100000001"].map(|n| needs(&large, n)),
        [false, true]
    );
}

#[test]
fn what_is_not_known_needs_all_of_the_log() {
    let without_log = Control::read(&control(1, 0, 12_345)).unwrap();
    assert!(without_log.needs_log(b"000000010000000200000002"));
    let mut old = control(1, 5 << 30, 16 << 20);
    old[8..12].copy_from_slice(&960u32.to_le_bytes());
    assert!(Control::read(&old).unwrap().needs_log(b"000000010000000000000002"));
    let mut impossible = control(1, 0, 16 << 20);
    impossible[216] = 3;
    assert_eq!(Control::read(&impossible), None);
    let whole = control(1, 0, 16 << 20);
    for length in 0..232 {
        assert_eq!(Control::read(&whole[..length]), None, "{length}");
    }
}
