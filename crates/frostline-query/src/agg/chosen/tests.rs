use super::*;

/// Those of the public tests of Elasticsearch.
#[test]
fn keys_are_in_the_partitions_of_elasticsearch() {
    for (key, of, expected) in [
        (Key::Text("abc".to_owned()), 2, 1),
        (Key::Text("bcd".to_owned()), 2, 0),
        (Key::Long(1234), 2, 1),
        (Key::Long(5678), 2, 0),
    ] {
        assert_eq!(partition(&key, of), expected, "{key:?}");
    }
}

/// Texts with every length of what is left after blocks of four bytes.
#[test]
fn every_key_is_in_one_partition() {
    for length in 0..9 {
        for of in 1..5 {
            let key = Key::Text("x".repeat(length));
            let held =
                (0..of).filter(|number| Include::Partition { number: *number, of }.holds(&key, "")).count();
            assert_eq!(held, 1, "{length} {of}");
        }
    }
}
