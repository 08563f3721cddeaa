use proptest::prelude::*;

use super::*;

proptest! {
    // A random page header may claim two gigabytes, which the decoder then clears: few cases are enough here.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_pass_every_door(bytes: Vec<u8>) {
        hot_footer(&bytes);
        dictionary_block(&bytes);
        postings(&bytes);
        digest(&bytes);
        column_page(&bytes);
    }
}
