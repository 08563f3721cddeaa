use proptest::prelude::*;

use super::*;
use crate::bytes_codec::put_bytes;
use crate::dictionary::put_entry;
use crate::table::{put_key, unpack_block};

const RAW_BYTES_MAX: usize = 1 << 16;
const LAYOUTS: [EntryLayout; 3] = [EntryLayout::TEXT, EntryLayout::EXACT, EntryLayout::PAIRS];

/// A key, the bits of its head, its value, and what its list begins with and has.
type Parts = (Vec<u8>, u64, Vec<u8>, u64, Vec<u64>);

fn entries() -> impl Strategy<Value = Vec<Parts>> {
    let number = prop_oneof![0u64..300, any::<u32>().prop_map(u64::from), any::<u64>()];
    let key = prop::collection::vec(prop::sample::select(vec![0u8, 1, 97, 98, 255]), 0..12);
    let value = prop::collection::vec(any::<u8>(), 0..9);
    prop::collection::vec((key, 0u64..16, value, 0u64..6, prop::collection::vec(number, 5)), 0..80)
}

/// A plain block of these entries.
fn plain(entries: &[Parts], layout: EntryLayout) -> Vec<u8> {
    let (mut raw, mut before) = (Vec::new(), &Vec::new());
    for (key, bits, value, list, numbers) in entries {
        put_key(&mut raw, before, key);
        before = key;
        if layout.has_heads {
            put_varint(&mut raw, list << HEAD_BITS | bits);
            if bits & VALUE_BITS == VALUE_FOLLOWS {
                put_bytes(&mut raw, value);
            }
        } else {
            put_varint(&mut raw, *list);
        }
        let count = match Numbers::of(*list) {
            Numbers::None => 0,
            Numbers::Single => 1,
            Numbers::Gaps(count) => count as usize,
            Numbers::Stored => STORED_NUMBERS as usize,
        };
        numbers[..count].iter().for_each(|number| put_varint(&mut raw, *number));
    }
    raw
}

fn packed(raw: &[u8], layout: EntryLayout) -> Vec<u8> {
    StreamPacker::new(layout, 3).unwrap().pack(raw).unwrap().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn entries_come_back_as_they_were(entries in entries(), layout in prop::sample::select(LAYOUTS.to_vec())) {
        let raw = plain(&entries, layout);
        let mut packer = StreamPacker::new(layout, 3).unwrap();
        // Nothing of one block is in the next.
        for raw in [&raw, &plain(&entries[..entries.len() / 2], layout), &raw] {
            prop_assert_eq!(&join(packer.pack(raw).unwrap(), RAW_BYTES_MAX).unwrap(), raw);
        }
        prop_assert_eq!(join(&packed(&raw, layout), raw.len()).unwrap(), raw.clone());
        if let Some(less) = raw.len().checked_sub(1) {
            prop_assert!(join(&packed(&raw, layout), less).is_err());
        }
    }

    #[test]
    fn damaged_streams_are_an_error_or_a_block(
        entries in entries(),
        layout in prop::sample::select(LAYOUTS.to_vec()),
        at: prop::sample::Index,
        flip in 1u8..,
    ) {
        let packed = packed(&plain(&entries, layout), layout);
        let mut flipped = packed.clone();
        flipped[at.index(packed.len())] ^= flip;
        for damaged in [&flipped[..], &packed[..at.index(packed.len())], &[&packed[..], &[0]].concat()] {
            match join(damaged, RAW_BYTES_MAX) {
                Ok(raw) => prop_assert!(raw.len() <= RAW_BYTES_MAX && damaged.len() == packed.len()),
                Err(e) => prop_assert_eq!(e.kind(), frostline_base::ErrorKind::Corrupt),
            }
        }
    }
}

#[test]
fn what_is_no_block_in_streams_is_refused() {
    let run = |count: u64, rests: u8, head: u8| {
        let mut block = vec![EntryLayout::EXACT.byte()];
        put_varint(&mut block, count);
        // Planes of one byte: none shared, all rests alike, all heads alike.
        block.extend([1, 0, 0, 1, 0, rests, 1, 0, head]);
        block
    };
    let refused = |block: &[u8], says: &str| {
        let error = join(block, RAW_BYTES_MAX).unwrap_err();
        assert_eq!(error.kind(), frostline_base::ErrorKind::Corrupt);
        assert!(error.to_string().contains(says), "{error}");
    };
    // A key of one byte and every row.
    let is_a_block = [&run(1, 1, 0)[..], &[0, b'k']].concat();
    assert_eq!(join(&is_a_block, RAW_BYTES_MAX).unwrap(), [0, 1, b'k', 0]);
    refused(&[is_a_block, vec![0]].concat(), "left over");
    refused(&[], "ends");
    refused(&run(u64::MAX, 1, 0), "more than a block may have");
    refused(&run(1 << 15, 1, 0), "more than a block may have");
    // Keys of 255 bytes, lists of seven rows.
    refused(&run(1 << 10, 255, 0), "more than a block may have");
    refused(&run(1 << 14, 1, 8 << 4), "more than a block may have");
    let lists_without_end = [&[4, 2, 1, 0, 0, 1, 0, 0, 8], &[0, 255].repeat(8)[..]].concat();
    refused(&lists_without_end, "more than a block may have");
    refused(&[8], "unknown form [of=layout]");
    refused(&[4, 1, 9], "unknown form [of=numbers]");
    refused(&[4, 3, 1, 4], "unknown form [of=length]");
    // Varints of fewer bytes than numbers, of more than a block may have, and of one number too many.
    refused(&[4, 3, 0, 2], "more than a block may have");
    refused(&[4, 1, 0, 255, 255, 255, 127], "more than a block may have");
    refused(&[4, 1, 0, 2, 0, 5], "left over");
    // The frame holds one byte less than is wanted.
    let frame = zstd::bulk::compress(&[1, 2].repeat(50)[1..], 3).unwrap();
    let short = [&[4, 100, 1, frame.len() as u8 - 4], &frame[4..]].concat();
    refused(&short, "not as long");
}

/// Cut ids, each of one row, as they are in the text dictionary of a large split.
#[test]
fn ids_take_little_more_than_their_digits_and_rows() {
    let random = |number: u32| xxhash_rust::xxh3::xxh3_64(&number.to_le_bytes());
    let mut ids: Vec<String> = (0..1_500).map(|n| format!("5c{:06x}", random(n) & 0xff_ffff)).collect();
    ids.sort();
    ids.dedup();
    let (mut raw, mut before) = (Vec::new(), Vec::new());
    for (id, number) in ids.iter().zip(0..) {
        let key = [id.as_bytes(), &[0, 0, 7]].concat();
        put_key(&mut raw, &before, &key);
        let mut list = vec![2];
        put_varint(&mut list, random(!number) % 1_000_000);
        put_entry(&mut raw, None, b"", &list).unwrap();
        before = key;
    }
    let (zstd, streams) = (zstd::bulk::compress(&raw, 3).unwrap(), packed(&raw, EntryLayout::TEXT));
    assert!(streams.len() * 10 < zstd.len() * 7, "{} of {}", streams.len(), zstd.len());
    // 20 bits of a row, and about four digits of which the sort order tells a half.
    assert!(streams.len() < ids.len() * 11 / 2, "{}", streams.len());
    // Only blocks of dictionaries can be in streams.
    assert!(unpack_block(&[&[2], &streams[..]].concat(), 1 << 20).is_err());
}
