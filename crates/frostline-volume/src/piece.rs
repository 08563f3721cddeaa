//! Pieces: a chunk as it is stored, whole or as the pages that changed.

use frostline_base::bytes_codec::Cursor;
use frostline_base::{Error, Result};

use crate::digest::{PageSum, page_sum};

/// Bytes of a chunk; the last one of a file may be shorter.
pub(crate) const CHUNK_BYTES: usize = 512 << 10;
/// Bytes of a page; the last one of a file may be shorter.
pub(crate) const PAGE_BYTES: usize = 8 << 10;
/// Most pages that a delta holds: with more, a whole chunk is smaller in the long run.
pub(crate) const DELTA_PAGES_MAX: u32 = 16;
/// A full piece and its deltas.
pub(crate) const PIECES_MAX: usize = 9;
/// No piece is longer: an unpacked chunk and its head.
pub(crate) const PIECE_BYTES_MAX: usize = CHUNK_BYTES + 64;

const STORED: u8 = 0;
const ZSTD: u8 = 1;
const DELTA: u8 = 16;
/// Zstandard's levels: for what packs well, and for what does not.
const LEVEL: i32 = 3;
const LEVEL_FAST: i32 = -3;
const SAMPLE_BYTES: usize = 4 << 10;

/// The pages of a chunk, by their sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages(Vec<PageSum>);

impl Pages {
    pub(crate) fn of(chunk: &[u8]) -> Pages {
        Pages(chunk.chunks(PAGE_BYTES).map(page_sum).collect())
    }

    /// A bit for each page that is not the same in `before`.
    pub(crate) fn changed_since(&self, before: &Pages) -> u64 {
        let differs = |(i, sum): (usize, &PageSum)| (before.0.get(i) != Some(sum)).then_some(1 << i);
        self.0.iter().enumerate().filter_map(differs).fold(0, |bits, bit: u64| bits | bit)
    }

    pub(crate) fn all(&self) -> u64 {
        all_pages(self.0.len())
    }

    /// The sums of these pages.
    pub(crate) fn select(&self, pages: u64) -> Vec<PageSum> {
        bits(pages).filter_map(|page| self.0.get(page).copied()).collect()
    }

    /// What they become with a piece of a chunk of `chunk_bytes`.
    pub(crate) fn replace(&mut self, chunk_bytes: usize, pages: u64, sums: &[PageSum]) {
        self.0.resize(chunk_bytes.div_ceil(PAGE_BYTES), PageSum::default());
        for (page, sum) in bits(pages).zip(sums) {
            if let Some(at) = self.0.get_mut(page) {
                *at = *sum;
            }
        }
    }
}

/// A bit for each of so many pages.
pub(crate) fn all_pages(pages: usize) -> u64 {
    if pages >= 64 { u64::MAX } else { (1 << pages) - 1 }
}

fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bit)
    })
}

/// A whole chunk.
pub(crate) fn full(chunk: &[u8]) -> Result<Vec<u8>> {
    let mut piece = vec![STORED];
    piece.extend((chunk.len() as u32).to_le_bytes());
    packed(piece, chunk)
}

/// These pages of a chunk.
pub(crate) fn delta(chunk: &[u8], pages: u64) -> Result<Vec<u8>> {
    let mut piece = vec![DELTA];
    piece.extend((chunk.len() as u32).to_le_bytes());
    piece.extend(pages.to_le_bytes());
    let mut payload = Vec::with_capacity(pages.count_ones() as usize * PAGE_BYTES);
    bits(pages).filter_map(|page| chunk.chunks(PAGE_BYTES).nth(page)).for_each(|page| payload.extend(page));
    packed(piece, &payload)
}

/// Appends the payload in the form that suits it, and says so in the first byte.
fn packed(mut piece: Vec<u8>, payload: &[u8]) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| Error::internal("Zstandard cannot pack a chunk").with_source(e);
    if let Some(level) = level(payload).map_err(failed)? {
        let packed = zstd::bulk::compress(payload, level).map_err(failed)?;
        if packed.len() < payload.len() {
            piece[0] |= ZSTD;
            piece.extend(packed);
            return Ok(piece);
        }
    }
    piece.extend(payload);
    Ok(piece)
}

/// The level that suits samples from the start, the middle and the end; none where packing saves nothing.
fn level(payload: &[u8]) -> std::io::Result<Option<i32>> {
    let sample = match payload.len() {
        length if length <= 3 * SAMPLE_BYTES => payload.to_vec(),
        length => [0, (length - SAMPLE_BYTES) / 2, length - SAMPLE_BYTES]
            .iter()
            .flat_map(|start| &payload[*start..start + SAMPLE_BYTES])
            .copied()
            .collect(),
    };
    let fast = zstd::bulk::compress(&sample, LEVEL_FAST)?.len();
    let best = zstd::bulk::compress(&sample, LEVEL)?.len();
    if best * 100 >= sample.len() * 97 {
        return Ok(None);
    }
    Ok(Some(if best * 10 > fast * 9 { LEVEL_FAST } else { LEVEL }))
}

/// Applies a piece to what the pieces before it gave. Anything that is not a piece is `Corrupt`.
pub(crate) fn apply(chunk: &mut Vec<u8>, piece: &[u8], is_first: bool) -> Result<()> {
    let mut cursor = Cursor::new(piece);
    let form = cursor.u8()?;
    let bytes = cursor.u32_le()? as usize;
    let is_delta = form & DELTA != 0;
    if bytes == 0 || bytes > CHUNK_BYTES || is_delta == is_first {
        return Err(Error::corrupt("a piece is not where one of its kind belongs"));
    }
    if !is_delta {
        *chunk = unpacked(form, cursor.rest(), bytes)?;
        return Ok(());
    }
    let pages = cursor.u64_le()?;
    let count = bytes.div_ceil(PAGE_BYTES);
    if pages & !all_pages(count) != 0 {
        return Err(Error::corrupt("a delta has pages behind the end of its chunk"));
    }
    let range = |page: usize| page * PAGE_BYTES..bytes.min((page + 1) * PAGE_BYTES);
    let payload = unpacked(form & !DELTA, cursor.rest(), bits(pages).map(|page| range(page).len()).sum())?;
    chunk.resize(bytes, 0);
    let mut rest = payload.as_slice();
    for page in bits(pages) {
        let (replaced, others) = rest.split_at(range(page).len());
        chunk[range(page)].copy_from_slice(replaced);
        rest = others;
    }
    Ok(())
}

/// Exactly `bytes` bytes.
fn unpacked(form: u8, payload: &[u8], bytes: usize) -> Result<Vec<u8>> {
    let damaged = || Error::corrupt("a piece cannot be unpacked");
    let unpacked = match form {
        STORED => payload.to_vec(),
        ZSTD => zstd::bulk::decompress(payload, bytes).map_err(|e| damaged().with_source(e))?,
        _ => return Err(damaged().with("form", form)),
    };
    if unpacked.len() == bytes {
        Ok(unpacked)
    } else {
        Err(damaged().with("bytes", unpacked.len()).with("expected", bytes))
    }
}

#[cfg(test)]
mod tests;
