use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        let _ = Footer::decode(&bytes);
        let _ = decode_body(&mut Cursor::new(&bytes), Vec::new(), 0);
        let mut framed = [MAGIC.as_slice(), &FORMAT_VERSION.to_le_bytes()].concat();
        framed.extend_from_slice(&bytes);
        let _ = Footer::decode_checked(&framed);
    }

    #[test]
    fn signed_numbers_read_back(value: i64) {
        let mut out = Vec::new();
        put_signed(&mut out, value);
        prop_assert_eq!(read_signed(&mut Cursor::new(&out)).unwrap(), value);
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = [MAGIC.as_slice(), &7u32.to_le_bytes(), &[0; 16]].concat();
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    let error = Footer::decode(&bytes).unwrap_err();
    assert!(error.to_string().contains("version 7"), "{error}");
}

#[test]
fn a_footer_cannot_ask_for_more_memory_than_it_could_fill() {
    assert!(unpack(&[0; 20], 1 << 30).is_err());
}
