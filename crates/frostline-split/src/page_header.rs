//! Checks the Thrift header of a Parquet page before the Parquet reader uses it.
//!
//! A page of a split has only the fields and encodings that our pages have; any other is `Corrupt`. A page of
//! another program may have more. The check takes time in proportion to the header, some twenty bytes. A page that
//! passes claims no more values than the reader may allocate space for:
//!
//! - A dictionary has at most one value per byte; the reader allocates space for all before it reads one.
//! - Two encodings state how many lengths they contain, and the reader allocates space for all of them. In a split, one
//!   of them is allowed where the description of the column says so. The caller must check the lengths
//!   ([`PageHeader::has_lengths`]).
//! - A page of a split has no more values than a document of 16 MiB.

use frostline_base::{Error, Result};

use crate::thrift::{Seen, Shape, Type, walk};

/// What a page is, and claims to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageHeader {
    /// How long the header is.
    pub header_bytes: usize,
    /// Whether it is a dictionary.
    pub is_dictionary: bool,
    /// How many bytes follow the header.
    pub packed_bytes: u32,
    /// How many these are when decompressed.
    pub unpacked_bytes: u32,
    /// Values, nulls and empty rows included.
    pub values: u32,
    /// Whether its values begin with lists of lengths ([`crate::delta_lengths`]).
    pub has_lengths: bool,
}

/// The header that a page of a split begins with, of a column in which lengths may come before texts.
pub(crate) fn of_split(page: &[u8], may_have_lengths: bool) -> Result<PageHeader> {
    let (header, encodings) = read(page, &SPLIT_PAGE)?;
    let known = match header.is_dictionary {
        true => encodings == [PLAIN],
        false => match encodings[..] {
            [PLAIN | DELTA_PACKED | DICTIONARY, RLE, RLE] => true,
            [DELTA_LENGTHS, RLE, RLE] => may_have_lengths,
            _ => false,
        },
    };
    if !known || header.values > SPLIT_VALUES_MAX {
        return Err(Error::corrupt("the header of a column page is not one of a split"));
    }
    Ok(header)
}

/// The header that a page begins with which another program may have written.
pub fn of_any(page: &[u8]) -> Result<PageHeader> {
    read(page, &ANY_PAGE).map(|(header, _)| header)
}

/// The header, and the encodings of values, definition and repetition levels as far as it names them.
fn read(page: &[u8], shape: &'static Shape) -> Result<(PageHeader, Vec<u32>)> {
    let mut ints = Vec::with_capacity(12);
    let rest = walk(page, shape, &mut |seen| {
        if let Seen::Int(structure, number, value) = seen {
            ints.push((structure, number, value));
        }
        Ok(())
    })?;
    // Of a field that is there twice the reader takes the last; it cuts numbers to 32 bits.
    let int = |structure, number| {
        let found = ints.iter().rev().find(|(s, n, _)| (*s, *n) == (structure, number));
        let value = found.and_then(|(_, _, value)| i32::try_from(*value).ok());
        value.and_then(|value| u32::try_from(value).ok()).ok_or_else(|| {
            Error::corrupt("the header of a page lacks a number, or it is out of range")
                .with("structure", structure)
                .with("field", number)
        })
    };
    let (structure, encodings): (_, &[i16]) = match int("PageHeader", 1)? {
        0 => ("DataPageHeader", &[2, 3, 4]),
        2 => ("DictionaryPageHeader", &[2]),
        3 => ("DataPageHeaderV2", &[4]),
        kind => return Err(Error::corrupt("the kind of a page is not supported").with("kind", kind)),
    };
    let encodings = encodings.iter().map(|number| int(structure, *number)).collect::<Result<Vec<_>>>()?;
    let header = PageHeader {
        header_bytes: page.len() - rest.len(),
        is_dictionary: structure == "DictionaryPageHeader",
        unpacked_bytes: int("PageHeader", 2)?,
        packed_bytes: int("PageHeader", 3)?,
        values: int(structure, 1)?,
        has_lengths: matches!(encodings.first(), Some(&(DELTA_LENGTHS | DELTA_TEXTS))),
    };
    if header.is_dictionary && header.values > header.unpacked_bytes {
        return Err(Error::corrupt("a dictionary page claims more values than bytes"));
    }
    Ok((header, encodings))
}

/// A page ends with the row that fills it, and a document of 16 MiB has fewer values.
const SPLIT_VALUES_MAX: u32 = 1 << 24;

const PLAIN: u32 = 0;
const RLE: u32 = 3;
const DELTA_PACKED: u32 = 5;
const DELTA_LENGTHS: u32 = 6;
const DELTA_TEXTS: u32 = 7;
const DICTIONARY: u32 = 8;

static SPLIT_PAGE: Shape = Shape {
    name: "PageHeader",
    fields: &[
        (1, Type::Int),
        (2, Type::Int),
        (3, Type::Int),
        (5, Type::Struct(&DATA_PAGE)),
        (7, Type::Struct(&DICTIONARY_PAGE)),
    ],
    open: false,
};
static ANY_PAGE: Shape = Shape {
    name: "PageHeader",
    fields: &[
        // Kind, decompressed and compressed size, and a checksum that is not used.
        (1, Type::Int),
        (2, Type::Int),
        (3, Type::Int),
        (4, Type::Int),
        (5, Type::Struct(&Shape { open: true, ..DATA_PAGE })),
        (7, Type::Struct(&Shape { open: true, ..DICTIONARY_PAGE })),
        (8, Type::Struct(&DATA_PAGE_2)),
    ],
    open: true,
};
/// Values, and the encodings of values, definition and repetition levels.
const DATA_PAGE: Shape = Shape {
    name: "DataPageHeader",
    fields: &[(1, Type::Int), (2, Type::Int), (3, Type::Int), (4, Type::Int)],
    open: false,
};
/// Values, encoding, whether it is sorted.
const DICTIONARY_PAGE: Shape = Shape {
    name: "DictionaryPageHeader",
    fields: &[(1, Type::Int), (2, Type::Int), (3, Type::Bool)],
    open: false,
};
/// Values, nulls, rows, encoding, bytes of definition and repetition levels, whether it is compressed.
static DATA_PAGE_2: Shape = Shape {
    name: "DataPageHeaderV2",
    fields: &[
        (1, Type::Int),
        (2, Type::Int),
        (3, Type::Int),
        (4, Type::Int),
        (5, Type::Int),
        (6, Type::Int),
        (7, Type::Bool),
    ],
    open: true,
};

#[cfg(test)]
mod tests;
