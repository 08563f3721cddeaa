use frostline_base::ErrorKind;
use frostline_base::bytes_codec::put_varint;

use super::*;
use crate::piece;
use crate::testing::noise;

#[test]
fn the_directory_tells_the_pages_of_a_chunk() {
    let (first, mut second) = (noise(1, 30_000), noise(1, 30_000));
    second[10_000] ^= 1;
    let (before, after) = (Pages::of(&first), Pages::of(&second));
    let mut writer = PackWriter::new(None);
    let whole = piece::full(&first).unwrap();
    let (one, _) = writer.push(whole.clone(), 30_000, before.all(), &before.select(before.all())).unwrap();
    let changed = after.changed_since(&before);
    assert_eq!(changed, 0b10);
    let (two, _) = writer
        .push(piece::delta(&second, changed).unwrap(), 30_000, changed, &after.select(changed))
        .unwrap();
    let (bytes, directory_bytes) = writer.finish().unwrap();
    assert_eq!(&bytes[..8], MAGIC);
    assert_eq!(&bytes[one as usize..two as usize], whole);
    let end = bytes.len() - TAIL_BYTES;
    let directory = Directory::decode(&bytes[end - directory_bytes as usize..end]).unwrap();
    let mut pages = Pages::default();
    assert!(directory.apply(one.into(), &mut pages));
    assert_eq!(pages, before);
    assert!(directory.apply(two.into(), &mut pages));
    assert_eq!(pages, after);
    assert!(!directory.apply(u64::from(two) + 1, &mut pages), "no piece begins there");
    let mut damaged = bytes[end - directory_bytes as usize..end].to_vec();
    damaged[20] ^= 1;
    assert_eq!(Directory::decode(&damaged).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(Directory::decode(b"short").unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn what_a_pack_takes_in_memory_counts() {
    let chunk = vec![0; CHUNK_BYTES];
    let (piece, pages) = (piece::full(&chunk).unwrap(), Pages::of(&chunk));
    let mut writer = PackWriter::new(None);
    for _ in 0..100 {
        writer.push(piece.clone(), CHUNK_BYTES as u32, pages.all(), &pages.select(pages.all())).unwrap();
    }
    let counted = writer.bytes();
    let (bytes, directory_bytes) = writer.finish().unwrap();
    assert!(directory_bytes as usize > bytes.len() * 9 / 10, "{directory_bytes} of {}", bytes.len());
    // The directories of the packs that there are: the smallest pieces of whole chunks.
    assert!(is_possible(2 << 30, directory_bytes as u64 / 100 * (32 << 20) / piece.len() as u64));
    assert!(bytes.len() - counted < 100, "{counted} of {}", bytes.len());
}

#[test]
fn forged_directories_are_refused() {
    let piece = |piece_bytes: u64, chunk_bytes: u64, pages: u64, sums: usize| {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, piece_bytes);
        put_varint(&mut bytes, chunk_bytes);
        bytes.extend(pages.to_le_bytes());
        bytes.extend(vec![0; sums * 16]);
        bytes
    };
    for (count, rest) in [
        (u64::MAX, vec![]),
        (1, piece(10, CHUNK_BYTES as u64 + 1, 1, 1)),
        (1, piece(PIECE_BYTES_MAX as u64 + 1, 10, 1, 1)),
        (1, piece(10, 8_192, 0b10, 1)),
        (1, piece(10, 8_192, 1, 0)),
        (1, piece(10, 8_192, 1, 2)),
    ] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, count);
        bytes.extend(rest);
        assert_eq!(Directory::decode_checked(&bytes).unwrap_err().kind(), ErrorKind::Corrupt, "{bytes:?}");
    }
}
