use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        if let Ok(digest) = Digest::decode(bytes.clone()) {
            for field in digest.fields.keys() {
                let _ = digest.values(*field);
            }
        }
        let _ = read_counts(&mut Cursor::new(&bytes));
    }

    #[test]
    fn what_is_added_reads_back(counts in prop::collection::btree_map(any::<i64>(), 1u32.., 0..20), sum: i64) {
        let values = counts.iter().map(|(value, rows)| {
            ValueCount { value: DigestValue::Long(*value), rows: *rows, buckets: vec![(-5, 1), (*value >> 1 | 1 << 40, 2)] }
        });
        let mut values: Vec<_> = values.collect();
        values.iter_mut().for_each(|value| value.buckets.sort_unstable());
        let counts = ValueCounts { values, bucketed: true };
        let numbers = Numbers::Long { count: 3, min: i64::MIN, max: i64::MAX, sum: i128::from(sum) * 7 };
        let mut writer = DigestWriter::new(&[-1, 0, 59_999_999, 60_000_000], 2);
        let squares = Squares::Long(i128::from(sum) * -3);
        let distribution = Distribution::of([(-0.5, 1), (0.0, 1), (1e9, 1)].into_iter());
        let facts = NumberFacts { numbers, squares, distribution: Some(distribution.clone()) };
        writer.add(9, Some(facts), Some(counts.clone()));
        let old = Digest::decode(writer.version_2()).unwrap();
        let mut file = Vec::new();
        let table = writer.table(3).unwrap().finish(&mut file, 0).unwrap();
        let blocks = table.blocks(&KeyRange::all()).unwrap();
        let read = blocks.iter().map(|block| (block, &file[block.range.start as usize..block.range.end as usize]));
        let digest = Digest::of_blocks(&[8, 9], true, read.clone()).unwrap().unwrap();
        prop_assert_eq!(&digest, &Digest::of_block(&writer.block().unwrap()).unwrap());
        prop_assert_eq!((digest.squares(9), digest.distribution(9)), (Some(squares), Some(&distribution)));
        prop_assert_eq!((old.squares(9), old.distribution(9)), (None, None));
        prop_assert_eq!((old.minutes(), old.numbers(9)), (digest.minutes(), digest.numbers(9)));
        prop_assert_eq!(old.values(9).unwrap(), Some(counts.clone()));
        prop_assert_eq!(Digest::of_blocks(&[8], true, read).unwrap().unwrap().fields().count(), 0);
        prop_assert_eq!(digest.minutes(), &[(-1, 1), (0, 2), (1, 1)]);
        prop_assert_eq!(digest.numbers(9), Some(numbers));
        prop_assert_eq!(digest.values(9).unwrap(), Some(counts));
        prop_assert_eq!(digest.values(8).unwrap(), None);
    }
}
