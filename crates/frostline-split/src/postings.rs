//! Which rows hold a term: a list of row numbers, in the smallest of a few forms.
//!
//! | list | where | layout |
//! |---|---|---|
//! | every row | in the dictionary entry | nothing |
//! | up to 128 bytes of deltas | in the dictionary entry | count, then varint deltas |
//! | longer | at [`Postings::Stored`] | `checksum u32`, then one of the [forms](forms) |
//! | longer, of a field whose column is read as fast | nowhere: [`Postings::Column`] | nothing |
//!
//! Reading guarantees: rows come back ascending, unique and below the split's row count, or the
//! answer is `Corrupt`.

use frostline_base::{ByteRange, Error, Result};
use roaring::RoaringBitmap;

use crate::bytes_codec::{Cursor, checksum, put_varint, varint_bytes};
use crate::column_lists::ColumnList;

mod forms;

pub(crate) use forms::FormWriter;

/// Lists whose deltas take more bytes than this live outside the dictionary block.
pub(crate) const INLINE_BYTES_MAX: usize = 128;

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
    /// The rows that [`Split::column_lists`](crate::Split::column_lists) reads from the columns of the field.
    Column(ColumnList),
}

impl Postings {
    /// How many rows hold the term, in a split of `split_rows`.
    pub fn count(&self, split_rows: u32) -> u64 {
        match self {
            Postings::All => u64::from(split_rows),
            Postings::Rows(rows) => rows.len(),
            Postings::Stored { rows, .. } => u64::from(*rows),
            Postings::Column(list) => u64::from(list.rows()),
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
    forms::read(&mut cursor, split_rows)
}

/// Reads `count` rows written by [`put_deltas`].
pub(crate) fn decode_deltas(cursor: &mut Cursor<'_>, count: u32, split_rows: u32) -> Result<RoaringBitmap> {
    if count > split_rows {
        return Err(beyond());
    }
    let mut rows = RoaringBitmap::new();
    let mut next = 0u32;
    for _ in 0..count {
        let row =
            next.checked_add(cursor.varint_u32()?).filter(|row| *row < split_rows).ok_or_else(beyond)?;
        // It is above all before it.
        let _ = rows.try_push(row);
        next = row + 1;
    }
    Ok(rows)
}

fn beyond() -> Error {
    Error::corrupt("a postings list names a row that the split does not have")
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

/// Appends ascending, unique `rows` as a stored list, checksum included. Whether it took a form that version 2 does not
/// have.
pub(crate) fn put_stored(forms: &mut FormWriter, out: &mut Vec<u8>, rows: &[u32]) -> Result<bool> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let is_new = forms.put(out, rows)?;
    let sum = checksum(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
    Ok(is_new)
}

#[cfg(test)]
mod tests;
