use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const LAYOUT: Layout = Layout { region_bytes: 65_536, page_bytes: 4_096, volumes: 7 };

fn region(key: u64) -> StoredRegion {
    StoredRegion { key, share: Share::Index, frequency: 3, stamp: (1 << 47) + key }
}

/// A table of four slots, of which the second and the last hold something.
fn written(directory: &Path) -> TableFile {
    let file = TableFile::open(directory, LAYOUT, 4).unwrap();
    let mut records = Vec::new();
    encode_record(&mut records, Some(region(11)), &[1, 128]);
    encode_record(&mut records, None, &[255, 255]);
    encode_record(&mut records, Some(region(12)), &[255, 0]);
    file.write(1, &records).unwrap();
    file
}

fn all(bytes: &[u8]) -> Vec<(u32, StoredRegion, Vec<u8>)> {
    let mut found = Vec::new();
    if let Ok(mut table) = TableReader::new(bytes) {
        while let Some((slot, region, bits)) = table.next_slot() {
            found.push((slot, region, bits.to_vec()));
        }
    }
    found
}

#[test]
fn what_was_written_is_read() {
    let directory = TempDir::new().unwrap();
    written(directory.path());
    let bytes = std::fs::read(directory.path().join("table")).unwrap();
    assert_eq!(bytes.len(), HEADER_BYTES + 4 * 18);
    assert_eq!(all(&bytes), [(1, region(11), vec![1, 128]), (3, region(12), vec![255, 0])]);
    let reader = TableFile::read(directory.path()).unwrap();
    assert_eq!(reader.layout(), LAYOUT);
}

#[test]
fn a_table_of_the_same_layout_goes_on_and_another_starts_anew() {
    let directory = TempDir::new().unwrap();
    let read = || all(&std::fs::read(directory.path().join("table")).unwrap()).len();
    written(directory.path());
    TableFile::open(directory.path(), LAYOUT, 2).unwrap();
    assert_eq!(read(), 1, "of a smaller cache the first slots");
    TableFile::open(directory.path(), LAYOUT, 4).unwrap();
    assert_eq!(read(), 1);
    TableFile::open(directory.path(), Layout { volumes: 8, ..LAYOUT }, 4).unwrap();
    assert_eq!(read(), 0);
}

#[test]
fn a_table_cut_or_changed_anywhere_is_read_without_a_panic() {
    let directory = TempDir::new().unwrap();
    written(directory.path());
    let bytes = std::fs::read(directory.path().join("table")).unwrap();
    for cut in 0..bytes.len() {
        assert!(all(&bytes[..cut]).len() <= 2);
        let mut damaged = bytes.clone();
        damaged[cut] ^= 1 << (cut % 8);
        assert!(all(&damaged).len() <= 2 || cut >= HEADER_BYTES);
    }
}

#[test]
fn the_last_word_on_an_object_says_whether_it_is_pinned() {
    let directory = TempDir::new().unwrap();
    let pins = PinsFile::new(directory.path());
    assert!(pins.read().is_empty());
    for (id, pinned) in [(1, true), (2, true), (1, false), (3, true), (3, true)] {
        pins.append(id, 100 + id as u64, pinned).unwrap();
    }
    let expected = HashMap::from([(2, 102), (3, 103)]);
    assert_eq!(pins.read(), expected);
    pins.replace(&expected).unwrap();
    assert_eq!(pins.read(), expected);
    assert_eq!(std::fs::metadata(directory.path().join("pins")).unwrap().len(), 50);
    pins.replace(&HashMap::new()).unwrap();
    pins.replace(&HashMap::new()).unwrap();
    assert!(pins.read().is_empty());
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(tail in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = all(&tail);
        let sealed = [header(LAYOUT), tail].concat();
        for (slot, region, bits) in all(&sealed) {
            prop_assert!(slot < 300 / 18 && region.frequency < 16 && bits.len() == 2);
        }
    }
}

/// What the fuzz target of tables starts from. `FROSTLINE_BLESS=1` writes it to `fuzz/seeds`.
#[test]
fn a_seed_is_a_table() {
    let directory = TempDir::new().unwrap();
    written(directory.path());
    let seed = std::fs::read(directory.path().join("table")).unwrap();
    assert_eq!(all(&seed).len(), 2);
    if std::env::var_os("FROSTLINE_BLESS").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/cache_table");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("four-slots"), &seed).unwrap();
    }
}
