//! The Thrift header of a Parquet page, looked at before the Parquet reader reads it.
//!
//! That reader skips what it does not know, a list of billions of nothing too, which takes it seconds
//! for 71 bytes (apache/arrow-rs issue 9874). A page of a split needs no such thing: its header has the
//! required fields of a version 1 data page or of a dictionary page, so any other field is `Corrupt`.
//! The look takes time in proportion to the header, some twenty bytes.

use frostline_base::{Error, Result};

use crate::bytes_codec::Cursor;

/// Types of fields in Thrift's compact protocol.
const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I32: u8 = 5;
const STRUCT: u8 = 12;

/// Fields of `PageHeader`: type, uncompressed and compressed size, and the header of either kind of page.
const PAGE: &[(u8, u8)] = &[(1, I32), (2, I32), (3, I32), (5, STRUCT), (7, STRUCT)];
/// Fields of `DataPageHeader`: values, and the encodings of values, definition and repetition levels.
const DATA_PAGE: &[(u8, u8)] = &[(1, I32), (2, I32), (3, I32), (4, I32)];
/// Fields of `DictionaryPageHeader`: values, encoding, whether it is sorted.
const DICTIONARY_PAGE: &[(u8, u8)] = &[(1, I32), (2, I32), (3, TRUE), (3, FALSE)];

/// `Corrupt` unless `page` begins with a header of the fields that pages of a split have.
pub(crate) fn check(page: &[u8]) -> Result<()> {
    read_struct(&mut Cursor::new(page), PAGE)
}

fn read_struct(cursor: &mut Cursor<'_>, known: &[(u8, u8)]) -> Result<()> {
    let mut number = 0u8;
    loop {
        // The high half is how much larger the field's number is than the last one's; zero says that the
        // number itself follows, which numbers so close together never need.
        let field = cursor.u8()?;
        if field == STOP {
            return Ok(());
        }
        let (step, ty) = (field >> 4, field & 0xf);
        number = number.saturating_add(step);
        if step == 0 || !known.contains(&(number, ty)) {
            return Err(Error::corrupt("the header of a column page has a field that no page has")
                .with("field", number)
                .with("type", ty));
        }
        match (ty, number) {
            (STRUCT, 5) => read_struct(cursor, DATA_PAGE)?,
            (STRUCT, _) => read_struct(cursor, DICTIONARY_PAGE)?,
            (I32, _) => drop(cursor.varint_u32()?),
            // The type of a boolean is its value.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
