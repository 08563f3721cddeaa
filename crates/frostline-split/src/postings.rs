//! Which rows hold a term: a list of row numbers, in the smallest of a few forms.
//!
//! | form | where | layout |
//! |---|---|---|
//! | every row | in the dictionary entry | nothing |
//! | up to 128 bytes of deltas | in the dictionary entry | count, then varint deltas |
//! | longer | at [`Postings::Stored`] | `checksum u32` + `1`, count, varint deltas, or `2`, a serialized roaring bitmap |
//!
//! Reading guarantees: rows come back ascending, unique and below the split's row count, or the
//! answer is `Corrupt`.

use frostline_base::{ByteRange, Error, Result};
use roaring::RoaringBitmap;

use crate::bytes_codec::{Cursor, checksum, put_varint, varint_bytes};

/// Lists whose deltas take more bytes than this live outside the dictionary block.
pub(crate) const INLINE_BYTES_MAX: usize = 128;

const FORM_DELTAS: u8 = 1;
const FORM_ROARING: u8 = 2;

/// Which rows hold a term.
#[derive(Clone, Debug, PartialEq)]
pub enum Postings {
    /// Every row of the split.
    All,
    /// These rows.
    Rows(RoaringBitmap),
    /// The rows that [`decode_postings`] reads from these bytes of the split.
    Stored {
        /// Where the list is.
        range: ByteRange,
        /// How many rows it names.
        rows: u32,
    },
}

impl Postings {
    /// How many rows hold the term, in a split of `split_rows`.
    pub fn count(&self, split_rows: u32) -> u64 {
        match self {
            Postings::All => u64::from(split_rows),
            Postings::Rows(rows) => rows.len(),
            Postings::Stored { rows, .. } => u64::from(*rows),
        }
    }
}

/// Reads the bytes of a [`Postings::Stored`] range of a split of `split_rows` rows.
pub fn decode_postings(bytes: &[u8], split_rows: u32) -> Result<RoaringBitmap> {
    let mut cursor = Cursor::new(bytes);
    let expected = cursor.u32_le()?;
    if checksum(cursor.rest()) != expected {
        return Err(Error::corrupt("the checksum of a postings list does not match"));
    }
    decode_checked(cursor, split_rows)
}

/// [`decode_postings`] after its checksum: what a fuzzer should reach.
pub(crate) fn decode_checked(mut cursor: Cursor<'_>, split_rows: u32) -> Result<RoaringBitmap> {
    let rows = match cursor.u8()? {
        FORM_DELTAS => {
            let count = cursor.varint_u32()?;
            let rows = decode_deltas(&mut cursor, count, split_rows)?;
            if !cursor.is_empty() {
                return Err(Error::corrupt("a postings list has bytes left over"));
            }
            rows
        }
        FORM_ROARING => RoaringBitmap::deserialize_from(cursor.rest())
            .map_err(|e| Error::corrupt("a postings bitmap cannot be read").with_source(e))?,
        form => return Err(Error::corrupt("a postings list has an unknown form").with("form", form)),
    };
    match rows.max() {
        Some(max) if max >= split_rows => {
            Err(Error::corrupt("a postings list names a row that the split does not have"))
        }
        _ => Ok(rows),
    }
}

/// Reads `count` rows written by [`put_deltas`].
pub(crate) fn decode_deltas(cursor: &mut Cursor<'_>, count: u32, split_rows: u32) -> Result<RoaringBitmap> {
    let beyond = || Error::corrupt("a postings list names a row that the split does not have");
    if count > split_rows {
        return Err(beyond());
    }
    let mut rows = RoaringBitmap::new();
    let mut next = 0u32;
    for _ in 0..count {
        let row =
            next.checked_add(cursor.varint_u32()?).filter(|row| *row < split_rows).ok_or_else(beyond)?;
        rows.insert(row);
        next = row + 1;
    }
    Ok(rows)
}

/// Passes over `count` rows without reading them.
pub(crate) fn skip_deltas(cursor: &mut Cursor<'_>, count: u32) -> Result<()> {
    for _ in 0..count {
        cursor.varint()?;
    }
    Ok(())
}

/// Appends the gap before each row: how many rows are between it and the one before.
pub(crate) fn put_deltas(out: &mut Vec<u8>, rows: &[u32]) {
    let mut next = 0;
    for row in rows {
        put_varint(out, u64::from(row - next));
        next = row + 1;
    }
}

/// How many bytes [`put_deltas`] appends, counted up to `bytes_max` and a little.
pub(crate) fn deltas_bytes(rows: &[u32], bytes_max: usize) -> usize {
    let (mut next, mut bytes) = (0, 0);
    for row in rows {
        bytes += varint_bytes(row - next);
        next = row + 1;
        if bytes > bytes_max {
            break;
        }
    }
    bytes
}

/// Appends the smaller stored form of ascending, unique `rows`, checksum included.
pub(crate) fn put_stored(out: &mut Vec<u8>, rows: &[u32]) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut bitmap = RoaringBitmap::from_sorted_iter(rows.iter().copied()).unwrap_or_default();
    bitmap.optimize();
    let bitmap_bytes = bitmap.serialized_size();
    let deltas = varint_bytes(rows.len() as u32) + deltas_bytes(rows, bitmap_bytes);
    // Decoding a bitmap costs less than decoding deltas.
    if bitmap_bytes <= deltas {
        out.push(FORM_ROARING);
        // Writing to a Vec cannot fail.
        let _ = bitmap.serialize_into(&mut *out);
    } else {
        out.push(FORM_DELTAS);
        put_varint(out, rows.len() as u64);
        put_deltas(out, rows);
    }
    let sum = checksum(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests;
