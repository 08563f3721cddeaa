//! An open split: its hot footer, and how to locate the rest. This module does not read; the caller
//! fetches the ranges that it is given and passes the bytes back.

use std::ops::Range;
use std::sync::Arc;

use frostline_base::{ByteRange, Error, Result, SplitId, TimeRange};
use roaring::RoaringBitmap;
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes_codec::Cursor;
use crate::columns::{ColumnRead, TextAs, wanted_ranges};
use crate::dictionary::Dictionary;
use crate::digest::Digest;
use crate::documents::DocumentRead;
use crate::dynamic::DynamicPairs;
use crate::fields::Wanted;
use crate::footer::{Bounds, Chunk, ColumnKind, DigestPlace, Footer, OwnColumn, PageBounds, SplitField};
use crate::mapping::{DYNAMIC_COLUMN, SOURCE_COLUMN, TIME_COLUMN, ValueType};
use crate::postings::Postings;
use crate::table::{Block, KeyRange, Table};

const PARQUET_MAGIC: &[u8] = b"PAR1";

/// An open split. Some of what it says may be outside its hot footer: [`Split::unread_fields`] and
/// [`Split::unread_pages`] name what to read and [`Split::keep`] takes it, once for as long as the split is open.
#[derive(Clone, Debug)]
pub struct Split {
    pub(crate) footer: Footer,
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
        Split { footer }
    }

    /// The format's version.
    pub fn version(&self) -> u32 {
        self.footer.version
    }

    /// The split's identity; splits of versions 1 and 2 do not have it.
    pub fn id(&self) -> Option<SplitId> {
        self.footer.id
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

    /// What to read before [`Split::find`] can say which of these fields there are.
    pub fn unread_fields(&self, wanted: Wanted<'_>) -> Vec<Block> {
        self.footer.fields.missing(wanted)
    }

    /// What to read before these columns can be.
    pub fn unread_pages(&self, columns: &[&str]) -> Vec<Block> {
        let own = self.footer.own.iter().filter(|own| columns.contains(&own.name()));
        let unread = own.filter(|own| own.chunk.get().is_none());
        unread.filter_map(|own| own.outside.as_ref()).map(|(block, _)| block.clone()).collect()
    }

    /// Keeps what was read of a block that one of these named.
    pub fn keep(&self, block: &Block, bytes: &[u8]) -> Result<()> {
        for own in &self.footer.own {
            if let Some((place, raw_bytes)) = own.outside.as_ref().filter(|(place, _)| place == block) {
                return own.keep(place, *raw_bytes, bytes, self.footer.rows);
            }
        }
        match self.footer.fields.keep(block, bytes)? {
            true => Ok(()),
            false => Err(Error::internal("bytes were read that are no part of the split's directory")),
        }
    }

    /// About how much memory the open split takes, with what of its directory is still outside.
    pub fn memory_bytes(&self) -> usize {
        // Half as much again is what allocations take that are larger than was asked for.
        self.footer.memory_bytes() * 3 / 2
    }

    /// The wanted readings, by number. `Internal` where some of [`Split::unread_fields`] were not kept.
    pub fn find(&self, wanted: Wanted<'_>) -> Result<Vec<&SplitField>> {
        self.footer.fields.find(wanted)
    }

    /// The readings that are known without another read, by number.
    pub fn fields(&self) -> impl Iterator<Item = &SplitField> {
        self.footer.fields.known().map(|record| &record.field)
    }

    /// The reading of `path` as `ty`, among those that are known.
    pub fn field(&self, path: &str, ty: ValueType) -> Option<&SplitField> {
        self.fields().find(|field| field.path == path && field.ty == ty)
    }

    /// The known readings of `path`, at most one of each type.
    pub fn readings<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a SplitField> + 'a {
        self.fields().filter(move |field| field.path == path)
    }

    /// The table of the digest; of no block where the hot footer has the digest.
    pub fn digest_table(&self) -> Table {
        self.footer.digest.table().cloned().unwrap_or_default()
    }

    /// The keys of [`Split::digest_table`] with what is known of these fields and, where wanted, of the times of all rows.
    pub fn digest_keys(&self, fields: &[u16], with_times: bool) -> Vec<KeyRange> {
        Digest::keys(fields, with_times)
    }

    /// What the digest says of these fields, given the blocks of its table that can hold the same
    /// [`Split::digest_keys`]. `None` where it was left out.
    pub fn digest<'b>(
        &self,
        fields: &[u16],
        with_times: bool,
        read: impl IntoIterator<Item = (&'b Block, &'b [u8])>,
    ) -> Result<Option<Arc<Digest>>> {
        match &self.footer.digest {
            DigestPlace::Table(_) => Ok(Digest::of_blocks(fields, with_times, read)?.map(Arc::new)),
            DigestPlace::Footer(digest) => digest.read().map(Some),
        }
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

    /// The pairs of frequent words; their keys are [`PairKey`](crate::PairKey)s.
    pub fn pairs(&self) -> &Dictionary {
        &self.footer.pairs
    }

    /// The rows that have a value of field number `field`.
    pub fn exists(&self, field: u16) -> Result<Postings> {
        let record = self.footer.fields.get(field);
        let record =
            record.ok_or_else(|| Error::invalid(format!("the split has no field number {field}")))?;
        self.footer.text.read_postings(&mut Cursor::new(&record.exists))
    }

    /// How to read the values of a reading that has no column of its own from `_dynamic`.
    pub fn dynamic_pairs(&self, field: &SplitField) -> DynamicPairs {
        let kind = self.own(DYNAMIC_COLUMN).map_or(ColumnKind::Dynamic { typed: true }, |own| own.kind);
        DynamicPairs::new(self, field, kind)
    }

    fn own(&self, name: &str) -> Option<&OwnColumn> {
        self.footer.own.iter().find(|own| own.name() == name)
    }

    fn chunk(&self, name: &str) -> Option<&Chunk> {
        match self.own(name) {
            Some(own) => own.chunk.get(),
            None => self.footer.fields.chunk(name),
        }
    }

    /// Whether the split has a physical column of this name, among those of known fields.
    pub fn has_column(&self, name: &str) -> bool {
        self.column_range(name).is_some()
    }

    /// The names of the physical columns, those of known fields before the split's own.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        let of_fields = self.footer.fields.known().flat_map(|record| &record.chunks);
        let own = self.footer.own.iter().map(|own| -> &str { own.name() });
        of_fields.map(|chunk| chunk.name.as_str()).chain(own)
    }

    /// What each column is, where it begins and how many bytes it takes, as far as fields are known.
    pub(crate) fn column_kinds(&self) -> impl Iterator<Item = (ColumnKind, u64, u64)> {
        let of_fields = self.footer.fields.known().flat_map(|record| &record.chunks);
        let own = self.footer.own.iter().map(|own| (own.kind, own.range.start, own.bytes()));
        of_fields.map(|chunk| (chunk.kind, chunk.offset, chunk.bytes())).chain(own)
    }

    /// What the row groups take beside the columns that are nowhere else.
    pub(crate) fn row_group_bytes(&self) -> u64 {
        let Some(last) = self.footer.groups.last() else { return 0 };
        let inside = self.column_kinds().filter(|(_, start, _)| *start < last.range.end);
        self.document_bytes().saturating_sub(inside.map(|(_, _, bytes)| bytes).sum())
    }

    /// The bytes of a column in the split, its dictionary page included.
    pub fn column_range(&self, name: &str) -> Option<ByteRange> {
        match self.own(name) {
            Some(own) => Some(own.range.clone()),
            None => self.footer.fields.chunk(name).map(Chunk::range),
        }
    }

    /// Whether the column has a dictionary page.
    pub fn has_dictionary(&self, name: &str) -> bool {
        self.chunk(name).is_some_and(|chunk| chunk.dictionary.is_some())
    }

    /// A read of these columns in `rows`, or in all rows. `Invalid` where a column is not in this
    /// split: all its rows are then null. `Internal` where some of [`Split::unread_pages`] were not kept.
    pub fn columns(
        &self,
        names: &[&str],
        rows: Option<&RoaringBitmap>,
        text_as: TextAs,
    ) -> Result<ColumnRead> {
        ColumnRead::new(&self.chunks(names)?, self.footer.rows, rows, text_as)
    }

    /// The [`ColumnRead::ranges`] of [`Split::columns`], without the rest of the read. Fails as it does.
    pub fn column_ranges(&self, names: &[&str], rows: &RoaringBitmap) -> Result<Vec<ByteRange>> {
        Ok(wanted_ranges(&self.chunks(names)?, rows))
    }

    fn chunks(&self, names: &[&str]) -> Result<Vec<&Chunk>> {
        let chunk = |name: &&str| {
            self.chunk(name).ok_or_else(|| match self.own(name) {
                Some(_) => {
                    Error::internal("a column is wanted whose pages were not read").with("column", name)
                }
                None => Error::invalid(format!("the split has no column {name:?}")),
            })
        };
        names.iter().map(chunk).collect()
    }

    /// A read of the documents in `rows`, or of all. `Internal` where [`Split::unread_pages`] of `_source` were not
    /// kept.
    pub fn documents(&self, rows: Option<&RoaringBitmap>) -> Result<DocumentRead> {
        if self.footer.groups.is_empty() {
            return Ok(DocumentRead::stored(self.columns(&[SOURCE_COLUMN], rows, TextAs::Plain)?));
        }
        if rows.and_then(RoaringBitmap::max).is_some_and(|max| max >= self.rows()) {
            return Err(Error::invalid(format!(
                "a row is wanted that is not among the split's {}",
                self.rows()
            )));
        }
        Ok(DocumentRead::rendered(&self.footer.groups, rows))
    }

    /// The end of the rows whose documents are read with those of the rows before `end`, whether wanted or not.
    pub fn read_together(&self, end: u32) -> u32 {
        let at = self.footer.groups.partition_point(|group| group.rows.end < end);
        self.footer.groups.get(at).map_or(end, |group| group.rows.end)
    }

    /// Whether documents are made again from columns, and no column has them.
    pub fn renders_documents(&self) -> bool {
        !self.footer.groups.is_empty()
    }

    /// How many bytes of the split are read for all documents.
    pub fn document_bytes(&self) -> u64 {
        let groups: u64 = self.footer.groups.iter().map(|group| group.range.end - group.range.start).sum();
        groups + self.column_bytes(SOURCE_COLUMN)
    }

    /// How many bytes a column takes; none that is not here.
    pub fn column_bytes(&self, name: &str) -> u64 {
        match self.own(name) {
            Some(own) => own.bytes(),
            None => self.footer.fields.chunk(name).map_or(0, Chunk::bytes),
        }
    }

    /// The smallest and the largest value of each page of a column of times or numbers; nothing for
    /// other columns and for columns that are not here.
    pub fn page_bounds(&self, name: &str) -> &[PageBounds] {
        self.chunk(name).map_or(&[], |chunk| &chunk.bounds)
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
