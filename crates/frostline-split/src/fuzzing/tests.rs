use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn any_bytes_pass_every_door(bytes: Vec<u8>) {
        hot_footer(&bytes);
        dictionary_block(&bytes);
        postings(&bytes);
        digest(&bytes);
        column_page(&bytes);
    }
}
