use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_varint_reads_back(value: u64) {
        let mut out = Vec::new();
        put_varint(&mut out, value);
        let mut cursor = Cursor::new(&out);
        prop_assert_eq!(cursor.varint().unwrap(), value);
        prop_assert!(cursor.is_empty());
    }

    #[test]
    fn the_length_of_a_varint_is_known_before(value: u32) {
        let mut out = Vec::new();
        put_varint(&mut out, u64::from(value));
        prop_assert_eq!(out.len(), varint_bytes(value));
    }

    #[test]
    fn bytes_read_back(bytes: Vec<u8>) {
        let mut out = Vec::new();
        put_bytes(&mut out, &bytes);
        prop_assert_eq!(Cursor::new(&out).bytes().unwrap(), &bytes[..]);
        out.pop();
        prop_assert!(Cursor::new(&out).bytes().is_err());
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        let mut cursor = Cursor::new(&bytes);
        while cursor.varint().is_ok() {}
    }
}
