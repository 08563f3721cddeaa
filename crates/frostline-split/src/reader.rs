//! An open split: its hot footer, and how to locate the rest. This module does not read; the caller
//! fetches the ranges that it is given and passes the bytes back.

use std::collections::HashMap;
use std::ops::Range;

use frostline_base::{ByteRange, Error, Result, TimeRange};
use roaring::RoaringBitmap;
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes_codec::Cursor;
use crate::columns::{ColumnRead, TextAs};
use crate::dictionary::Dictionary;
use crate::digest::Digest;
use crate::dynamic::DynamicPairs;
use crate::footer::{Bounds, ColumnKind, Footer, PageBounds, SplitField, unpack};
use crate::mapping::{DYNAMIC_COLUMN, TIME_COLUMN, ValueType};
use crate::postings::Postings;

const PARQUET_MAGIC: &[u8] = b"PAR1";

/// An open split.
#[derive(Clone, Debug)]
pub struct Split {
    footer: Footer,
    columns: HashMap<String, usize>,
    fields: HashMap<(String, ValueType), u16>,
}

/// The rows of a range of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeRows {
    /// Every row here is inside, without a look at its time.
    pub certain: Range<u32>,
    /// Rows here are inside or not: their times must be read.
    pub unsure: Vec<Range<u32>>,
}

impl Split {
    /// Opens a split by its hot footer. `Corrupt` where a byte is not what was written, `Invalid`
    /// where the format's version is not known.
    pub fn open(hot_footer: &[u8]) -> Result<Split> {
        Footer::decode(hot_footer).map(Split::from_footer)
    }

    pub(crate) fn from_footer(footer: Footer) -> Split {
        let columns = footer.chunks.iter().enumerate().map(|(n, chunk)| (chunk.name.clone(), n)).collect();
        let fields =
            footer.fields.iter().map(|field| ((field.path.clone(), field.ty), field.number)).collect();
        Split { footer, columns, fields }
    }

    /// The format's version.
    pub fn version(&self) -> u32 {
        self.footer.version
    }

    /// How many rows there are, numbered from zero in order of time, those without time last.
    pub fn rows(&self) -> u32 {
        self.footer.rows
    }

    /// How many rows have no time; they are the last ones.
    pub fn rows_without_time(&self) -> u32 {
        self.footer.rows_without_time
    }

    /// The first and the last time, both inside; `None` where no row has one.
    pub fn times(&self) -> Option<(i64, i64)> {
        self.footer.times
    }

    /// Every reading of every field, by number.
    pub fn fields(&self) -> &[SplitField] {
        &self.footer.fields
    }

    /// The reading of `path` as `ty`.
    pub fn field(&self, path: &str, ty: ValueType) -> Option<&SplitField> {
        let number = self.fields.get(&(path.to_owned(), ty))?;
        self.footer.fields.get(usize::from(*number))
    }

    /// The readings of `path`, at most one of each type.
    pub fn readings<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a SplitField> + 'a {
        ValueType::ALL.into_iter().filter_map(move |ty| self.field(path, ty))
    }

    /// Decompresses the digest.
    pub fn digest(&self) -> Result<Digest> {
        Digest::decode(unpack(&self.footer.digest, self.footer.digest_raw_bytes as usize)?)
    }

    /// Verifies what other Parquet readers begin with and Frostline never reads: the first four bytes of
    /// the file (`head`), and all that follows the hot footer (`tail`), which are the page index and the Parquet
    /// footer. `Corrupt` where a byte is not what was written; `false` where the split was written before a
    /// checksum of them was kept, so that only its first and last bytes could be looked at.
    pub fn verify_parquet(&self, head: &[u8], tail: &[u8]) -> Result<bool> {
        if head != PARQUET_MAGIC || !tail.ends_with(PARQUET_MAGIC) {
            return Err(Error::corrupt("the file does not begin and end as a Parquet file does"));
        }
        match self.footer.tail_checksum {
            Some(sum) if xxh3_64(tail) != sum => {
                Err(Error::corrupt("the checksum of the page index and the Parquet footer does not match"))
            }
            sum => Ok(sum.is_some()),
        }
    }

    /// The dictionary of tokens.
    pub fn text(&self) -> &Dictionary {
        &self.footer.text
    }

    /// The dictionary of whole values.
    pub fn exact(&self) -> &Dictionary {
        &self.footer.exact
    }

    /// The rows that have a value of field number `field`.
    pub fn exists(&self, field: u16) -> Result<Postings> {
        let encoded = self.footer.exists.get(usize::from(field));
        let encoded =
            encoded.ok_or_else(|| Error::invalid(format!("the split has no field number {field}")))?;
        self.footer.text.read_postings(&mut Cursor::new(encoded))
    }

    /// How to read the values of a reading that has no column of its own from `_dynamic`.
    pub fn dynamic_pairs(&self, field: &SplitField) -> DynamicPairs {
        let chunk = self.columns.get(DYNAMIC_COLUMN).and_then(|n| self.footer.chunks.get(*n));
        DynamicPairs::new(self, field, chunk.map_or(ColumnKind::Dynamic { typed: true }, |chunk| chunk.kind))
    }

    /// Whether the split has a physical column of this name.
    pub fn has_column(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }

    /// The names of the physical columns, in file order.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.footer.chunks.iter().map(|chunk| chunk.name.as_str())
    }

    /// The bytes of a column in the split, its dictionary page included.
    pub fn column_range(&self, name: &str) -> Option<ByteRange> {
        self.columns.get(name).and_then(|n| self.footer.chunks.get(*n)).map(|chunk| chunk.range())
    }

    /// A read of these columns in `rows`, or in all rows. `Invalid` where a column is not in this
    /// split: all its rows are then null.
    pub fn columns(
        &self,
        names: &[&str],
        rows: Option<&RoaringBitmap>,
        text_as: TextAs,
    ) -> Result<ColumnRead> {
        let chunk = |name: &&str| {
            let chunk = self.columns.get(*name).and_then(|n| self.footer.chunks.get(*n));
            chunk.ok_or_else(|| Error::invalid(format!("the split has no column {name:?}")))
        };
        let chunks = names.iter().map(chunk).collect::<Result<Vec<_>>>()?;
        ColumnRead::new(&chunks, self.footer.rows, rows, text_as)
    }

    /// The smallest and the largest value of each page of a column of times or numbers; nothing for
    /// other columns and for columns that are not here.
    pub fn page_bounds(&self, name: &str) -> &[PageBounds] {
        let chunk = self.columns.get(name).and_then(|n| self.footer.chunks.get(*n));
        chunk.map_or(&[], |chunk| &chunk.bounds)
    }

    /// The rows of `range`, as far as the bounds of the time column's pages tell.
    pub fn rows_in_time(&self, range: TimeRange) -> TimeRows {
        let mut rows = TimeRows { certain: 0..0, unsure: Vec::new() };
        let timed = self.footer.rows - self.footer.rows_without_time;
        for page in self.page_bounds(TIME_COLUMN) {
            let Some(Bounds::Long(min, max)) = page.values else { continue };
            // Rows without time are the last ones, so the page's timed rows are its first ones.
            let timed = page.rows.start..page.rows.end.min(timed);
            if range.contains(min) && range.contains(max) {
                let start = if rows.certain.is_empty() { timed.start } else { rows.certain.start };
                rows.certain = start..timed.end;
            } else if !range.is_empty() && max >= range.start_us && min < range.end_us {
                rows.unsure.push(timed);
            }
        }
        rows
    }
}
