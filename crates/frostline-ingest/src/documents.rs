//! The documents of a split, read from its object in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int16Type, Int64Type, TimestampMicrosecondType};
use bytes::Bytes;
use frostline_base::{ByteRange, Error, Meter, ObjectRef, ReadRanges, Result, Share};
use frostline_catalog::SplitEntry;
use frostline_split::{
    Block, ID_COLUMN, Identity, Moment, NANOS_COLUMN, Origin, SEQ_NO_COLUMN, SOURCE_COLUMN, Split,
    SplitWriter, TIME_COLUMN, TextAs, VERSION_COLUMN,
};
use frostline_store::Repository;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use roaring::RoaringBitmap;

const WINDOW_BYTES: usize = 4 << 20;
const WINDOW_ROWS_FIRST: u32 = 256;
const WINDOW_ROWS_MAX: u32 = 16_384;
/// Objects of at most so many bytes are read whole.
const SMALL_BYTES: u64 = 1 << 20;
const SMALL_AT_ONCE: usize = 32;

/// Reads objects on a thread that may wait, which no thread of the runtime may.
#[derive(Clone)]
pub(crate) struct BlockingReads {
    repository: Repository,
    runtime: tokio::runtime::Handle,
    /// Small objects, by key.
    held: Arc<BTreeMap<String, Bytes>>,
}

impl BlockingReads {
    /// Of a repository, for threads that this runtime's tasks start.
    pub(crate) fn new(repository: &Repository) -> BlockingReads {
        let (repository, runtime) = (repository.clone(), tokio::runtime::Handle::current());
        BlockingReads { repository, runtime, held: Arc::default() }
    }

    /// Holds those of these objects that are small: each then costs one request, and many are read at the same time.
    pub(crate) fn holding<'a>(&self, objects: impl Iterator<Item = &'a ObjectRef>) -> Result<BlockingReads> {
        let whole = |object: &'a ObjectRef| async move {
            let range = 0..object.bytes;
            let (ranges, meter) = (std::slice::from_ref(&range), Meter::default());
            let read = self.repository.read_ranges(object, ranges, Share::Source, &meter).await?;
            Ok::<_, Error>((object.key.clone(), read.into_iter().next().unwrap_or_default()))
        };
        let small: Vec<_> = objects.filter(|object| object.bytes <= SMALL_BYTES).map(whole).collect();
        let held =
            self.runtime.block_on(stream::iter(small).buffer_unordered(SMALL_AT_ONCE).try_collect())?;
        Ok(BlockingReads { held: Arc::new(held), ..self.clone() })
    }

    pub(crate) fn read(&self, object: &ObjectRef, ranges: &[ByteRange], share: Share) -> Result<Vec<Bytes>> {
        if let Some(bytes) = self.held.get(&object.key) {
            let part = |range: &ByteRange| {
                let is_inside = range.start <= range.end && range.end <= bytes.len() as u64;
                is_inside.then(|| bytes.slice(range.start as usize..range.end as usize))
            };
            let parts: Option<_> = ranges.iter().map(part).collect();
            return parts.ok_or_else(|| {
                Error::corrupt("a range is not inside its object").with("object", &object.key)
            });
        }
        let meter: &Meter = &Meter::default();
        self.runtime.block_on(self.repository.read_ranges(object, ranges, share, meter))
    }
}

/// The documents of one split in order, with a few MiB of read-ahead.
pub(crate) struct Documents {
    entry: Arc<SplitEntry>,
    split: Split,
    next: u32,
    window_rows: u32,
    /// Times, with the latest for documents that have none, and documents.
    rows: VecDeque<(Moment, Vec<u8>)>,
    /// What the documents of these rows are known by.
    known: VecDeque<Known>,
    /// The last range that documents were made from: a row group may have more of them than a window.
    group: Option<(ByteRange, Bytes)>,
}

/// What a document is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Where it first landed.
    Landed(Origin),
    /// What a client called it.
    Given(Identity),
}

impl Known {
    /// Adds the document to a split in which it keeps its `_id`.
    pub(crate) fn add(&self, document: &[u8], writer: &mut SplitWriter) -> Result<()> {
        match self {
            Known::Landed(origin) => writer.add_of(document, *origin),
            Known::Given(identity) => writer.add_identified(document, identity),
        }
    }
}

/// The columns of what clients call documents.
const IDENTITY: [&str; 3] = [ID_COLUMN, VERSION_COLUMN, SEQ_NO_COLUMN];

impl Documents {
    pub(crate) fn open(from: &BlockingReads, entry: &Arc<SplitEntry>) -> Result<Documents> {
        let footer = from.read(&entry.object, std::slice::from_ref(&entry.footer), Share::Footer)?;
        let footer = footer.into_iter().next().unwrap_or_default();
        let named = |error: Error| error.with("object", &entry.object.key);
        let split = Split::open(&footer).map_err(named)?;
        let names = [&[TIME_COLUMN, NANOS_COLUMN, SOURCE_COLUMN], &IDENTITY[..]].concat();
        for (block, bytes) in blocks(from, entry, split.unread_pages(&names), Share::Footer)? {
            split.keep(&block, &bytes).map_err(named)?;
        }
        let (entry, rows, known) = (Arc::clone(entry), VecDeque::new(), VecDeque::new());
        let (next, window_rows) = (0, WINDOW_ROWS_FIRST);
        Ok(Documents { entry, split, next, window_rows, rows, known, group: None })
    }

    /// Whether documents of the split first landed in others.
    pub(crate) fn is_merged(&self) -> bool {
        self.split.has_origins()
    }

    /// The time of the next document; `None` at the end.
    pub(crate) fn head(&mut self, from: &BlockingReads) -> Result<Option<Moment>> {
        if self.rows.is_empty() && self.next < self.split.rows() {
            self.fill(from).map_err(|error| error.with("object", &self.entry.object.key))?;
        }
        Ok(self.rows.front().map(|(time, _)| *time))
    }

    /// The document whose time [`Documents::head`] said, and what it is known by.
    pub(crate) fn next_document(&mut self) -> Option<(Vec<u8>, Known)> {
        let (_, document) = self.rows.pop_front()?;
        Some((document, self.known.pop_front()?))
    }

    fn fill(&mut self, from: &BlockingReads) -> Result<()> {
        let end = self.next.saturating_add(self.window_rows).min(self.split.rows());
        let mut wanted = RoaringBitmap::new();
        wanted.insert_range(self.next..end);
        let nanos = Some(NANOS_COLUMN).filter(|nanos| self.split.has_column(nanos));
        let identity = IDENTITY.into_iter().filter(|_| self.split.has_identities());
        let names: Vec<&str> = [TIME_COLUMN].into_iter().chain(nanos).chain(identity).collect();
        let read = self.split.columns(&names, Some(&wanted), TextAs::Plain)?;
        let bytes = from.read(&self.entry.object, read.ranges(), Share::Column)?;
        let wrong = || Error::corrupt("a split's time or source column has another type");
        let (mut times, mut identities) = (Vec::new(), Vec::new());
        for batch in read.decode(bytes)? {
            let of_batch =
                batch.column(0).as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(wrong)?;
            let nanos = batch.column_by_name(NANOS_COLUMN);
            let nanos =
                nanos.map(|nanos| nanos.as_primitive_opt::<Int16Type>().ok_or_else(wrong)).transpose()?;
            identities.extend(identities_in(&batch)?);
            times.extend((0..batch.num_rows()).map(|row| Moment {
                time_us: if of_batch.is_valid(row) { of_batch.value(row) } else { i64::MAX },
                nanos: nanos.filter(|nanos| nanos.is_valid(row)).map_or(0, |nanos| nanos.value(row) as u16),
            }));
        }
        let read = self.split.documents(Some(&wanted))?;
        let bytes = self.read_documents(read.ranges(), from)?;
        let (mut held, mut times) = (0, times.into_iter());
        for batch in read.decode(bytes)? {
            for document in batch.column(0).as_binary_opt::<i32>().ok_or_else(wrong)? {
                let document = document.ok_or_else(|| Error::corrupt("a row of a split has no document"))?;
                held += document.len();
                self.rows.push_back((times.next().ok_or_else(wrong)?, document.to_vec()));
            }
        }
        if self.rows.len() as u32 != end - self.next {
            return Err(Error::corrupt("a split has fewer rows than it states"));
        }
        let origins = self.origins_of(from, &wanted)?;
        let known = identities.into_iter().zip(origins);
        self.known.extend(known.map(|(given, origin)| given.map_or(Known::Landed(origin), Known::Given)));
        self.next = end;
        // Documents are assumed to be about as long as the previous ones.
        let fitting = (self.rows.len() * WINDOW_BYTES / held.max(1)) as u32;
        self.window_rows = fitting.clamp(1, self.window_rows.saturating_mul(2).min(WINDOW_ROWS_MAX));
        Ok(())
    }

    fn read_documents(&mut self, ranges: &[ByteRange], from: &BlockingReads) -> Result<Vec<Bytes>> {
        let known = self.group.take().filter(|(range, _)| ranges.first() == Some(range));
        let unread = ranges.get(usize::from(known.is_some())..).unwrap_or_default();
        let mut bytes: Vec<Bytes> = known.into_iter().map(|(_, bytes)| bytes).collect();
        if !unread.is_empty() {
            bytes.extend(from.read(&self.entry.object, unread, Share::Source)?);
        }
        if self.split.renders_documents() {
            self.group = ranges.last().cloned().zip(bytes.last().cloned());
        }
        Ok(bytes)
    }

    fn origins_of(&self, from: &BlockingReads, rows: &RoaringBitmap) -> Result<Vec<Origin>> {
        if !self.split.has_origins() {
            return Ok(rows.iter().map(|row| Origin { split: self.entry.id, row }).collect());
        }
        let (mut table, keys) = (self.split.origins_table(), self.split.origin_keys(rows));
        let index = blocks(from, &self.entry, table.index_blocks(&keys), Share::Index)?;
        if !index.is_empty() {
            table = table.with_index(as_read(&index))?;
        }
        let mut wanted = Vec::new();
        for keys in &keys {
            wanted.extend(table.blocks(keys)?);
        }
        wanted.dedup();
        self.split.origins(rows, as_read(&blocks(from, &self.entry, wanted, Share::Index)?))
    }
}

/// What clients called the documents of a batch with [`IDENTITY`]; nothing for one without.
fn identities_in(batch: &RecordBatch) -> Result<Vec<Option<Identity>>> {
    let Some(ids) = batch.column_by_name(ID_COLUMN) else { return Ok(vec![None; batch.num_rows()]) };
    let wrong = || Error::corrupt("a split's columns of identities have other types");
    let ids = ids.as_string_opt::<i32>().ok_or_else(wrong)?;
    let number = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
    let (versions, numbers) = (number(VERSION_COLUMN), number(SEQ_NO_COLUMN));
    let (versions, numbers) = (versions.ok_or_else(wrong)?, numbers.ok_or_else(wrong)?);
    let of_row = |(row, id): (usize, Option<&str>)| {
        let id = id?.to_owned();
        Some(Identity { id, version: versions.value(row), seq_no: numbers.value(row) })
    };
    Ok(ids.iter().enumerate().map(of_row).collect())
}

/// Blocks of a split with their bytes.
fn blocks(
    from: &BlockingReads,
    entry: &SplitEntry,
    blocks: Vec<Block>,
    share: Share,
) -> Result<Vec<(Block, Bytes)>> {
    if blocks.is_empty() {
        return Ok(Vec::new());
    }
    let ranges: Vec<ByteRange> = blocks.iter().map(|block| block.range.clone()).collect();
    Ok(blocks.into_iter().zip(from.read(&entry.object, &ranges, share)?).collect())
}

fn as_read(blocks: &[(Block, Bytes)]) -> impl Iterator<Item = (&Block, &[u8])> {
    blocks.iter().map(|(block, bytes)| (block, bytes.as_ref()))
}

#[cfg(test)]
mod tests;
