use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::page::{Entries, Pair, encode};
use crate::testing::{Numbers, id, key, merged, scope};
use crate::{Kinds, RunWriter, Term};

proptest! {
    #[test]
    fn any_bytes_pass_every_door(bytes: Vec<u8>) {
        directory(&bytes);
        page(&bytes);
    }
}

/// Entries of every class, some in several sets of fields.
fn page_seed(splits: u16, entries: usize) -> Vec<u8> {
    let mut numbers = Numbers(u64::from(splits));
    let mut model = BTreeMap::new();
    for entry in 0..entries {
        let count = 1 << (entry % 11);
        let pair = |_| Pair {
            fields: (numbers.next() % 3) as u32,
            split: (numbers.next() % u64::from(splits)) as u16,
        };
        let mut pairs: Vec<Pair> = (0..count).map(pair).collect();
        if entry % 7 == 0 {
            pairs = (0..splits).map(|split| Pair { fields: 4, split }).collect();
        }
        pairs.sort_unstable();
        pairs.dedup();
        model.insert((1 << 20) + numbers.next() % (1 << 30), pairs);
    }
    let mut all = Entries::default();
    model.iter().for_each(|(key, pairs)| all.push(*key, pairs));
    let frame = Frame { seed: 0, first_key: 1 << 20, last_key: u64::MAX >> 20, splits, field_sets: 6 };
    let bytes = encode(&all, 0..all.len(), &frame).unwrap();
    let mut seed = splits.to_le_bytes().to_vec();
    seed.extend(6u16.to_le_bytes());
    seed.extend(&bytes[4..]);
    seed
}

fn directory_seed() -> Vec<u8> {
    let runs: Vec<_> = (0..9)
        .map(|split| {
            let mut writer = RunWriter::new(scope(), key(), id(split));
            for field in 0..split + 1 {
                let number = writer.field(&format!("field.{field}"));
                (0..300)
                    .for_each(|term| writer.add(number, Term::Token(&format!("{}", term * field * split))));
                if field % 3 == 0 {
                    writer.leave_out(number, Kinds::DATE | Kinds::FRACTION);
                }
            }
            let mut bytes = Vec::new();
            crate::testing::Stored::of(&writer.seal(&mut bytes).unwrap(), bytes)
        })
        .collect();
    let stored = merged(&runs, 9);
    let bytes = stored.read(&stored.directory_range());
    bytes[12..bytes.len() - 8].to_vec()
}

/// Seeds reach what they are for. `FROSTLINE_BLESS=1` writes them to `fuzz/seeds`.
#[test]
fn seeds_are_decoded() {
    assert!(Directory::decode_checked(&directory_seed()).is_ok());
    let pages = [
        ("one-split", page_seed(1, 30)),
        ("some-splits", page_seed(100, 300)),
        ("all-splits", page_seed(1_024, 40)),
    ];
    let mut seeds = vec![("needle_directory", "nine-runs", directory_seed())];
    for (name, seed) in pages {
        assert!(page(&seed), "{name}");
        seeds.push(("needle_page", name, seed));
    }
    if std::env::var_os("FROSTLINE_BLESS").is_some() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
        for (target, name, seed) in seeds {
            std::fs::create_dir_all(folder.join(target)).unwrap();
            std::fs::write(folder.join(target).join(name), seed).unwrap();
        }
    }
}
