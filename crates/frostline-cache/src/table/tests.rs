use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const LAYOUT: Layout = Layout { region_bytes: 65_536, page_bytes: 4_096, volumes: 7 };

fn object(key: &str) -> ObjectRef {
    ObjectRef { key: key.to_owned(), bytes: 1 << 20 }
}

fn region(object: u32, region: u32, pages: &[(u16, u64)]) -> StoredRegion {
    StoredRegion { object, region, share: Share::Index, frequency: 3, pages: pages.to_vec(), order: 0 }
}

/// A table in three frames, and the length of each prefix of frames.
fn three_frames(directory: &TempDir) -> (TableFile, Vec<u64>) {
    let mut file = TableFile::new(directory.path());
    let mut compact = Compact::new(LAYOUT);
    let mut records = Records::default();
    records.object(4, &object("logs/ä"), true);
    records.fill(9, &region(4, 2, &[(0, 11), (15, 12)]));
    compact.frame(&records.take());
    file.replace(&compact.into_bytes()).unwrap();
    let mut lengths = vec![HEADER_BYTES as u64, file.bytes];
    records.fill(9, &region(4, 2, &[(1, 13)]));
    records.fill(3, &region(4, 5, &[(2, 14)]));
    file.append(&records.take()).unwrap();
    lengths.push(file.bytes);
    records.object(5, &object("logs/b"), false);
    records.fill(9, &region(5, 0, &[(7, 15)]));
    records.fill(8, &region(4, 5, &[(3, 16)]));
    file.append(&records.take()).unwrap();
    lengths.push(file.bytes);
    (file, lengths)
}

#[test]
fn the_last_record_says_what_a_slot_holds_and_where_a_region_lies() {
    let directory = TempDir::new().unwrap();
    let (file, lengths) = three_frames(&directory);
    let bytes = file.read();
    let second = decode_table(&bytes[..lengths[2] as usize]).unwrap();
    assert_eq!(second.slots[&9].pages, [(0, 11), (15, 12), (1, 13)]);
    let table = decode_table(&bytes).unwrap();
    assert_eq!(table.objects[&4], StoredObject { object: object("logs/ä"), pinned: true });
    assert_eq!(table.slots.len(), 2, "region 5 moved out of slot 3");
    assert_eq!((table.slots[&9].object, &*table.slots[&9].pages), (5, &[(7, 15)][..]));
    assert_eq!(table.slots[&8].pages, [(3, 16)]);
    assert_eq!((table.layout, table.bytes), (LAYOUT, bytes.len() as u64));
}

#[test]
fn an_object_has_one_number_and_a_number_one_object() {
    let mut compact = Compact::new(LAYOUT);
    let mut records = Records::default();
    records.object(1, &object("a"), false);
    records.fill(0, &region(1, 0, &[(0, 11)]));
    records.object(2, &object("a"), false);
    records.fill(1, &region(2, 0, &[(0, 12)]));
    records.fill(2, &region(1, 3, &[(0, 13)]));
    records.object(3, &object("b"), false);
    records.fill(3, &region(3, 0, &[(0, 14)]));
    records.object(3, &object("c"), false);
    compact.frame(&records);
    let table = decode_table(&compact.into_bytes()).unwrap();
    let mut numbers: Vec<_> = table.objects.into_keys().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
    let of_known = table.slots.values().filter(|region| numbers.contains(&region.object));
    assert_eq!(of_known.map(|region| region.object).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_table_cut_anywhere_is_its_whole_frames_and_can_be_appended_to() {
    let directory = TempDir::new().unwrap();
    let (mut file, lengths) = three_frames(&directory);
    let bytes = file.read();
    for cut in 0..=bytes.len() {
        let Ok(table) = decode_table(&bytes[..cut]) else {
            assert!(cut < HEADER_BYTES);
            continue;
        };
        let mut frames = lengths.iter().filter(|&&len| len <= cut as u64);
        assert_eq!(Some(&table.bytes), frames.next_back());
    }
    std::fs::write(directory.path().join("table"), &bytes[..bytes.len() - 1]).unwrap();
    file.resume(decode_table(&file.read()).unwrap().bytes).unwrap();
    let mut records = Records::default();
    records.fill(1, &region(4, 77, &[(0, 1)]));
    file.append(&records).unwrap();
    assert_eq!(decode_table(&file.read()).unwrap().slots.len(), 3);
}

#[test]
fn a_flipped_bit_ends_the_table_before_its_frame() {
    let directory = TempDir::new().unwrap();
    let (file, lengths) = three_frames(&directory);
    let bytes = file.read();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let Ok(table) = decode_table(&damaged) else {
            assert!(at < HEADER_BYTES);
            continue;
        };
        assert_eq!(Some(&table.bytes), lengths.iter().rfind(|&&len| len <= at as u64));
    }
}

#[test]
fn a_long_table_asks_to_be_made_compact() {
    let directory = TempDir::new().unwrap();
    let (mut file, _) = three_frames(&directory);
    let mut records = Records::default();
    while !records.is_full() {
        records.fill(1, &region(4, 77, &[(0, 1); 16]));
    }
    assert!(!file.is_long());
    (0..5).for_each(|_| file.append(&records).unwrap());
    assert!(file.is_long());
    file.replace(&Compact::new(LAYOUT).into_bytes()).unwrap();
    assert!(!file.is_long() && decode_table(&file.read()).unwrap().slots.is_empty());
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(tail in proptest::collection::vec(any::<u8>(), 0..300), sealed in any::<bool>()) {
        let mut bytes = Compact::new(LAYOUT).into_bytes();
        if sealed {
            bytes.extend(frame(&Records(tail.clone()), bytes.len() as u64));
        } else {
            bytes.extend(&tail);
        }
        prop_assert!(decode_table(&bytes).is_ok());
        let _ = decode_table(&tail);
    }
}

/// What the fuzz target of tables starts from: all records of a table, behind a byte that says where to
/// part them. `FROSTLINE_BLESS=1` writes it to `fuzz/seeds`.
#[test]
fn a_seed_is_records() {
    let directory = TempDir::new().unwrap();
    let (file, lengths) = three_frames(&directory);
    let bytes = file.read();
    let frames: Vec<&[u8]> = lengths[..3].iter().map(|at| frame_at(&bytes, *at).unwrap()).collect();
    let seed = [&[frames[0].len() as u8], frames.concat().as_slice()].concat();
    assert_eq!(decode_records(&seed[1..], LAYOUT).map(|records| records.len()), Some(7));
    if std::env::var_os("FROSTLINE_BLESS").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/cache_table");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("three-frames"), seed).unwrap();
    }
}
