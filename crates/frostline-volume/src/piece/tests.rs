use frostline_base::ErrorKind;
use proptest::prelude::*;

use super::*;
use crate::testing::noise;

fn read(pieces: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut chunk = Vec::new();
    pieces.iter().enumerate().try_for_each(|(at, piece)| apply(&mut chunk, piece, at == 0))?;
    Ok(chunk)
}

#[test]
fn a_chunk_is_packed_where_that_saves_something() {
    let words = b"the same words again and again, ".repeat(10_000);
    let packed = full(&words).unwrap();
    assert!(packed.len() < words.len() / 20);
    assert_eq!(read(&[packed]).unwrap(), words);
    let noise = noise(1, CHUNK_BYTES);
    let stored = full(&noise).unwrap();
    assert_eq!(stored.len(), noise.len() + 5);
    assert_eq!(read(&[stored]).unwrap(), noise);
}

#[test]
fn a_sample_chooses_the_level() {
    assert_eq!(level(&noise(1, CHUNK_BYTES)).unwrap(), None);
    assert_eq!(
        level(&b"0123456789abcdef".repeat(1_000)).unwrap(),
        Some(LEVEL_FAST),
        "both levels find all of it"
    );
    let text: Vec<u8> =
        (0..20_000u32).flat_map(|n| format!("{} of {}\n", n * 7_919 % 1_000, n % 61).into_bytes()).collect();
    assert_eq!(level(&text).unwrap(), Some(LEVEL));
}

#[test]
fn forged_pieces_are_refused() {
    let whole = full(&noise(1, 20_000)).unwrap();
    let head = |form: u8, bytes: u32| [&[form][..], &bytes.to_le_bytes()].concat();
    let delta = |bytes: u32, pages: u64, payload: &[u8]| {
        [head(DELTA, bytes), pages.to_le_bytes().to_vec(), payload.to_vec()].concat()
    };
    let bomb = {
        let zeros = zstd::bulk::compress(&vec![0; 4 << 20], 3).unwrap();
        [head(ZSTD, CHUNK_BYTES as u32), zeros].concat()
    };
    for pieces in [
        vec![vec![]],
        vec![head(STORED, 0)],
        vec![head(STORED, CHUNK_BYTES as u32 + 1)],
        vec![head(7, 10)],
        vec![[head(STORED, 10), vec![1; 9]].concat()],
        vec![[head(ZSTD, 10), vec![1; 9]].concat()],
        vec![bomb],
        vec![delta(8_192, 1, &[0; 8_192])],
        vec![whole.clone(), whole.clone()],
        vec![whole.clone(), delta(20_000, 8, &[0; 8_192])],
        vec![whole.clone(), delta(20_000, 1, &[0; 8_191])],
        vec![whole.clone(), delta(20_000, 4, &[0; 8_192])],
        vec![whole, head(DELTA, 20_000)],
    ] {
        assert_eq!(read(&pieces).unwrap_err().kind(), ErrorKind::Corrupt, "{pieces:?}");
    }
}

proptest! {
    /// A chain of versions, each stored as what changed since the one before, gives each version.
    #[test]
    fn a_delta_makes_the_newer_chunk_of_the_older(
        lengths in prop::collection::vec(1..5 * PAGE_BYTES, 1..6),
        edits in prop::collection::vec((0..5 * PAGE_BYTES, any::<u8>()), 6),
    ) {
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        let (mut chunk, mut pages) = (Vec::new(), Pages::default());
        for (length, (at, byte)) in lengths.into_iter().zip(edits) {
            chunk.resize(length, 7);
            if let Some(changed) = chunk.get_mut(at) {
                *changed = byte;
            }
            let now = Pages::of(&chunk);
            let changed = now.changed_since(&pages);
            pieces.push(if pieces.is_empty() { full(&chunk).unwrap() } else { delta(&chunk, changed).unwrap() });
            prop_assert_eq!(&read(&pieces).unwrap(), &chunk);
            // What the next one is compared with, from the sums alone.
            pages.replace(length, changed, &now.select(changed));
            prop_assert_eq!(&pages, &now);
        }
    }

    #[test]
    fn any_bytes_are_a_piece_or_corrupt(bytes in prop::collection::vec(any::<u8>(), 0..200), is_first: bool) {
        let mut chunk = vec![1; 10_000];
        if let Err(error) = apply(&mut chunk, &bytes, is_first) {
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        prop_assert!(chunk.len() <= CHUNK_BYTES);
    }
}
