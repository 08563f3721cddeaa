use frostline_base::ErrorKind;
use proptest::prelude::*;

use super::*;
use crate::mapping::Mapping;
use crate::writer::{Sealed, SplitWriter, WriterOptions};

const OWN: SplitId = SplitId::from_random(1);

fn origin(split: u128, row: u32) -> Origin {
    Origin { split: SplitId::from_random(split << 64 | 7), row }
}

/// Rows with these origins. The documents come in the other order.
fn seal(origins: &[Option<Origin>], hot_footer_bytes_max: usize) -> (Vec<u8>, Sealed) {
    let options = WriterOptions { hot_footer_bytes_max, ..WriterOptions::default() };
    let mut writer = SplitWriter::new(Mapping::dynamic(), options);
    for (row, origin) in origins.iter().enumerate().rev() {
        let document = format!(r#"{{"@timestamp":{row}}}"#);
        match origin {
            Some(origin) => writer.add_of(document.as_bytes(), *origin).unwrap(),
            None => writer.add(document.as_bytes()).unwrap(),
        }
    }
    let mut file = Vec::new();
    let sealed = writer.seal(OWN, &mut file).unwrap();
    (file, sealed)
}

fn cut<'f>(file: &'f [u8], range: &std::ops::Range<u64>) -> &'f [u8] {
    &file[range.start as usize..range.end as usize]
}

/// The blocks that may hold some keys, and their bytes.
fn blocks<'f>(file: &'f [u8], split: &Split, keys: &[KeyRange]) -> Vec<(Block, &'f [u8])> {
    let mut table = split.origins_table();
    let index = table.index_blocks(keys);
    if !index.is_empty() {
        table = table.with_index(index.iter().map(|block| (block, cut(file, &block.range)))).unwrap();
    }
    let mut blocks: Vec<Block> = keys.iter().flat_map(|keys| table.blocks(keys).unwrap()).collect();
    blocks.sort_by_key(|block| block.range.start);
    blocks.dedup();
    blocks.into_iter().map(|block| (block.clone(), cut(file, &block.range))).collect()
}

fn read<'r>(blocks: &'r [(Block, &'r [u8])]) -> impl Iterator<Item = (&'r Block, &'r [u8])> {
    blocks.iter().map(|(block, bytes)| (block, *bytes))
}

fn told(file: &[u8], split: &Split, rows: &RoaringBitmap) -> Result<Vec<Origin>> {
    split.origins(rows, read(&blocks(file, split, &split.origin_keys(rows))))
}

fn near(file: &[u8], split: &Split, origins: &BTreeSet<Origin>) -> RoaringBitmap {
    let keys = split.origin_split_keys(origins.iter().map(|origin| origin.split));
    split.rows_near_origins(origins, read(&blocks(file, split, &keys))).unwrap()
}

fn check(origins: &[Option<Origin>], hot_footer_bytes_max: usize, some: &[u32]) {
    let (file, sealed) = seal(origins, hot_footer_bytes_max);
    let split = Split::open(cut(&file, &sealed.footer)).unwrap();
    let rows = origins.len() as u32;
    let expected: Vec<Origin> =
        (0..rows).zip(origins).map(|(row, origin)| origin.unwrap_or(Origin { split: OWN, row })).collect();
    assert_eq!(split.has_origins(), origins.iter().any(Option::is_some));
    if !split.has_origins() {
        return;
    }
    let of =
        |rows: &RoaringBitmap| -> Vec<Origin> { rows.iter().map(|row| expected[row as usize]).collect() };
    let (all, some) = ((0..rows).collect(), some.iter().map(|row| row % rows).collect());
    for rows in [&all, &some, &RoaringBitmap::new()] {
        assert_eq!(told(&file, &split, rows).unwrap(), of(rows));
        assert!(rows.is_subset(&near(&file, &split, &of(rows).into_iter().collect())));
    }
    let absent = BTreeSet::from([origin(9_999, 3), Origin { split: expected[0].split, row: 4_000_000_000 }]);
    assert!(near(&file, &split, &absent).is_empty());
}

/// Rows of a few splits: one after the other, in turns, with rows left out, and back and forth.
fn some_origins() -> impl Strategy<Value = Vec<Option<Origin>>> {
    let step = (0..5u128, 0..4u32, prop_oneof![8 => Just(0i64), 1 => 1..9i64, 1 => -3..0i64], 1..40usize);
    prop::collection::vec(step, 1..60).prop_map(|steps| {
        let mut next = [0u32; 5];
        let mut origins = Vec::new();
        for (split, own, skipped, rows) in steps {
            for _ in 0..rows {
                let row = &mut next[split as usize];
                *row = u32::try_from(i64::from(*row) + skipped).unwrap_or_default();
                origins.push((own > 0).then(|| origin(split, *row)));
                *row += 1;
            }
        }
        origins
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_told_and_found(origins in some_origins(), hot in prop_oneof![Just(0usize), Just(32 << 10)], some: Vec<u32>) {
        check(&origins, hot, &some);
    }

    #[test]
    fn any_piece_gives_so_many_rows_or_is_corrupt(value: Vec<u8>, rows in 0..50u32) {
        match read_piece(&value, rows) {
            Ok(origins) => prop_assert_eq!(origins.len(), rows as usize),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
    }
}

/// Rows at the edges of pieces, of many splits, in a table with index blocks.
#[test]
fn many_pieces_of_many_splits_read_back() {
    let of = |n: u32| Some(origin(u128::from(n % 700), n / 700));
    let origins: Vec<_> = (0..40_000).map(of).collect();
    check(&origins, 0, &[0, 4_095, 4_096, 8_191, 39_999]);
    let greatest: Vec<_> = (0..3).map(|n| Some(origin(3, u32::MAX - 1 - n))).collect();
    check(&greatest, 32 << 10, &[0]);
}

#[test]
fn a_row_takes_as_few_bytes_as_its_place_among_the_splits() {
    let hash = |n: u32| xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes());
    let random = |n: u32| u128::from(xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()));
    let bytes = |hot_footer_bytes_max, split_of: &dyn Fn(u32) -> u32| {
        let mut next = HashMap::new();
        let origins: Vec<_> = (0..100_000)
            .map(|n| {
                let split = split_of(n);
                let row = next.entry(split).or_insert(0);
                *row += 1;
                Some(Origin { split: SplitId::from_random(random(split)), row: *row - 1 })
            })
            .collect();
        let (_, sealed) = seal(&origins, hot_footer_bytes_max);
        (sealed.parts.origins, sealed.parts.footer)
    };
    // Five bits for each row, and the splits once for each four pieces or so.
    let (interleaved, _) = bytes(0, &|n| (hash(n) % 32) as u32);
    assert!((62_500..72_000).contains(&interleaved), "{interleaved}");
    let (runs, _) = bytes(0, &|n| (hash(n / 50) % 32) as u32);
    assert!((2_000..9_000).contains(&runs), "{runs}");
    println!("bytes of 100,000 rows of 32 splits: {interleaved} interleaved, {runs} in runs of 50 rows");
    // One after the other: all of it is in the hot footer.
    let (outside, footer) = bytes(32 << 10, &|n| n / 4_000);
    assert!(outside == 0 && footer < 3_000, "{footer}");
}

#[test]
fn forged_pieces_are_corrupt() {
    let piece = |splits: &[(u128, u64)], form: u8, body: &[u8]| {
        let mut out = Vec::new();
        put_varint(&mut out, splits.len() as u64);
        for (split, row) in splits {
            out.extend_from_slice(&split.to_be_bytes());
            put_varint(&mut out, *row);
        }
        out.push(form);
        out.extend_from_slice(body);
        out
    };
    let is_corrupt = |value: &[u8], what: &str| {
        let error = read_piece(value, 4).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(what), "{error}");
    };
    assert_eq!(read_piece(&piece(&[(1, 5), (2, 0)], BITS, &[0b0110]), 4).unwrap()[1].row, 0);
    assert_eq!(read_piece(&piece(&[(1, 5)], RUNS, &[0, 3]), 4).unwrap()[3].row, 8);
    is_corrupt(&piece(&[(1, 5)], RUNS, &[0, 4]), "more rows than there are");
    is_corrupt(&piece(&[(1, 5)], RUNS, &[0, 2, 1, 0]), "unknown origin");
    is_corrupt(&piece(&[(1, 5)], RUNS, &[0, 3, 0]), "do not end with the rows");
    is_corrupt(&piece(&[(1, 5)], 3, &[]), "unknown form");
    is_corrupt(&piece(&[(1, u64::from(u32::MAX) - 2)], RUNS, &[0, 3]), "impossible origin");
    is_corrupt(&piece(&[(1, 5)], RUNS_WITH_GAPS, &[0, 11, 3]), "impossible origin");
    is_corrupt(&piece(&[], BITS, &[]), "unknown origin");
    is_corrupt(&piece(&[(1, 0), (2, 0), (3, 0)], BITS, &[0xff]), "unknown origin");
    is_corrupt(&piece(&[(1, 0); 5], BITS, &[0; 2]), "more origins than rows");
}

#[test]
fn pieces_that_are_missing_or_damaged_are_corrupt() {
    let origins: Vec<_> = (0..9_000).map(|n| Some(origin(u128::from(n % 7), n / 7))).collect();
    let (mut file, sealed) = seal(&origins, 0);
    let split = Split::open(cut(&file, &sealed.footer)).unwrap();
    let rows: RoaringBitmap = [3, 8_000].into_iter().collect();
    let all = blocks(&file, &split, &split.origin_keys(&rows));
    let error = split.origins(&rows, read(&all[..all.len() - 1])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let range = all[0].0.range.clone();
    file[range.start as usize + 20] ^= 1;
    assert_eq!(told(&file, &split, &rows).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn an_id_has_one_spelling() {
    let id = "000000000000000000000000000000aF-7";
    for (text, is_id) in [
        (id.to_lowercase(), true),
        (id.to_owned(), false),
        (id.to_lowercase().replace("-7", "-07"), false),
        (id.to_lowercase().replace("-7", "-+7"), false),
        ("7".to_owned(), false),
        (id.to_lowercase() + "8888888888", false),
    ] {
        assert_eq!(text.parse::<Origin>().is_ok(), is_id, "{text}");
    }
}
