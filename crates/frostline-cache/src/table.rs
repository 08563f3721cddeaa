//! What survives a restart: a table of which pages lie in which slot, with their checksums.
//!
//! The file is a header and frames of records. A cache appends a frame after each write of pages, and
//! now and then replaces the file by a compact one (temporary file, fsync, rename). A frame counts
//! only if its checksum is right, and the first bad one ends the table, so a file cut anywhere is a
//! shorter table. The table is only a claim: a page is believed when its bytes match its checksum.
//! Byte map: `docs/format/cache.md`.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use frostline_base::{Error, ObjectRef, Result, Share};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: &[u8; 8] = b"FROSTRC1";
const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 12;
const FRAME_BYTES_MAX: usize = 64 << 20;
/// A compact table is written in frames of about this size.
const FRAME_BYTES: usize = 1 << 20;
const OBJECT: u8 = 1;
const FILL: u8 = 2;
/// A table this much longer than when it was compact is made compact again.
const GROWTH_BYTES_MIN: u64 = 4 << 20;

/// A decoded table.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Sizes that the entries depend on.
    pub layout: Layout,
    /// The objects named, by number.
    pub objects: HashMap<u32, StoredObject>,
    /// What each slot holds.
    pub slots: HashMap<u32, StoredRegion>,
    /// The length of the readable part; what follows is cut off before anything is appended.
    pub bytes: u64,
}

/// The sizes that a table's entries depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a region.
    pub region_bytes: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// A hash of the volumes' paths, in order.
    pub volumes: u64,
}

/// An object that has regions near or is pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Key and length.
    pub object: ObjectRef,
    /// Whether its regions are kept from eviction.
    pub pinned: bool,
}

/// A region and the checksums of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRegion {
    /// The object's number.
    pub object: u32,
    /// The region's number in the object.
    pub region: u32,
    /// Whose share it counts to.
    pub share: Share,
    /// Its popularity.
    pub frequency: u8,
    /// Page number and checksum.
    pub pages: Vec<(u16, u64)>,
    /// Position among all records: the order in which slots were last filled.
    pub order: u64,
}

/// Decodes a table file. Fails with `Corrupt` where not even the header can be read; whatever follows
/// is read up to the first frame that does not verify. Never panics, whatever the bytes.
pub fn decode_table(bytes: &[u8]) -> Result<Table> {
    let layout =
        decode_header(bytes).ok_or_else(|| Error::corrupt("the cache table's header cannot be read"))?;
    let mut table =
        Table { layout, objects: HashMap::new(), slots: HashMap::new(), bytes: HEADER_BYTES as u64 };
    let mut known = Known::default();
    let mut order = 0;
    while let Some(payload) = frame_at(bytes, table.bytes) {
        let Some(records) = decode_records(payload, layout) else { break };
        for record in records {
            order += 1;
            table.apply(record, order, &mut known);
        }
        table.bytes += (FRAME_HEADER_BYTES + payload.len()) as u64;
    }
    Ok(table)
}

impl Table {
    fn apply(&mut self, record: Record, order: u64, known: &mut Known) {
        match record {
            Record::Object(number, object) => self.name(number, object, known),
            Record::Fill(slot, region) => self.fill(slot, region, order, &mut known.places),
        }
    }

    /// An object has one number, the last one it was given: all its regions had gone before it got another.
    /// A number has one object: what lies under it belongs to no other, whatever a damaged table says.
    fn name(&mut self, number: u32, object: StoredObject, known: &mut Known) {
        let before = known.numbers.insert(object.object.clone(), number);
        if let Some(before) = before.filter(|&before| before != number) {
            self.objects.remove(&before);
            known.given_up.insert(before);
        }
        let before = self.objects.get(&number);
        if known.given_up.remove(&number) || before.is_some_and(|before| before.object != object.object) {
            self.slots.retain(|_, region| region.object != number);
        }
        self.objects.insert(number, object);
    }

    fn fill(&mut self, slot: u32, filled: StoredRegion, order: u64, places: &mut HashMap<(u32, u32), u32>) {
        let name = (filled.object, filled.region);
        if !self.objects.contains_key(&filled.object) {
            return;
        }
        // A region lies in one slot, a slot holds one region: the last record says which.
        if let Some(before) = places.insert(name, slot).filter(|&before| before != slot) {
            self.slots.remove(&before);
        }
        let StoredRegion { share, frequency, .. } = filled;
        match self.slots.get_mut(&slot) {
            Some(held) if (held.object, held.region) == name => {
                held.pages.extend(filled.pages);
                (held.order, held.share, held.frequency) = (order, share, frequency);
            }
            held => {
                if let Some(held) = held {
                    places.remove(&(held.object, held.region));
                }
                self.slots.insert(slot, StoredRegion { order, ..filled });
            }
        }
    }
}

/// What is known while a table is decoded: the number of each object, the numbers that are no longer
/// any object's, the slot of each region.
#[derive(Default)]
struct Known {
    numbers: HashMap<ObjectRef, u32>,
    given_up: HashSet<u32>,
    places: HashMap<(u32, u32), u32>,
}

enum Record {
    Object(u32, StoredObject),
    Fill(u32, StoredRegion),
}

fn decode_header(bytes: &[u8]) -> Option<Layout> {
    let header = bytes.get(..HEADER_BYTES)?;
    let (body, sum) = header.split_at_checked(HEADER_BYTES - 8)?;
    let mut fields = Fields(body.strip_prefix(MAGIC)?);
    let layout = Layout { region_bytes: fields.u32()?, page_bytes: fields.u32()?, volumes: fields.u64()? };
    let whole = layout.page_bytes > 0 && layout.region_bytes.is_multiple_of(layout.page_bytes);
    (Fields(sum).u64()? == xxh3_64(body) && whole).then_some(layout)
}

/// The payload of the frame that starts at `at`, if its checksum is right. The checksum covers the
/// position, so that a frame is valid only where it was written.
fn frame_at(bytes: &[u8], at: u64) -> Option<&[u8]> {
    let mut fields = Fields(bytes.get(usize::try_from(at).ok()?..)?);
    let (len, sum) = (fields.u32()? as usize, fields.u64()?);
    let payload = fields.take(len)?;
    (len <= FRAME_BYTES_MAX && xxh3_64_with_seed(payload, at) == sum).then_some(payload)
}

fn decode_records(payload: &[u8], layout: Layout) -> Option<Vec<Record>> {
    let mut fields = Fields(payload);
    let mut records = Vec::new();
    while !fields.0.is_empty() {
        records.push(match fields.u8()? {
            OBJECT => decode_object(&mut fields)?,
            FILL => decode_fill(&mut fields, layout)?,
            _ => return None,
        });
    }
    Some(records)
}

fn decode_object(fields: &mut Fields<'_>) -> Option<Record> {
    let (number, bytes, pinned, len) = (fields.u32()?, fields.u64()?, fields.u8()? != 0, fields.u32()?);
    let key = std::str::from_utf8(fields.take(len as usize)?).ok()?.to_owned();
    Some(Record::Object(number, StoredObject { object: ObjectRef { key, bytes }, pinned }))
}

fn decode_fill(fields: &mut Fields<'_>, layout: Layout) -> Option<Record> {
    let (slot, object, region) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (share, frequency, count) = (share_of(fields.u8()?)?, fields.u8()?, fields.u16()?);
    let page = |fields: &mut Fields<'_>| {
        let (page, sum) = (fields.u16()?, fields.u64()?);
        (u32::from(page) < layout.region_bytes / layout.page_bytes).then_some((page, sum))
    };
    let pages = (0..count).map(|_| page(fields)).collect::<Option<Vec<_>>>()?;
    Some(Record::Fill(slot, StoredRegion { object, region, share, frequency, pages, order: 0 }))
}

fn share_of(number: u8) -> Option<Share> {
    [Share::Footer, Share::Index, Share::Column, Share::Source].get(usize::from(number)).copied()
}

/// Little-endian fields, taken from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Records waiting to be written.
#[derive(Debug, Default)]
pub(crate) struct Records(Vec<u8>);

impl Records {
    pub(crate) fn object(&mut self, number: u32, object: &ObjectRef, pinned: bool) {
        self.0.push(OBJECT);
        self.0.extend_from_slice(&number.to_le_bytes());
        self.0.extend_from_slice(&object.bytes.to_le_bytes());
        self.0.push(u8::from(pinned));
        self.0.extend_from_slice(&(object.key.len() as u32).to_le_bytes());
        self.0.extend_from_slice(object.key.as_bytes());
    }

    pub(crate) fn fill(&mut self, slot: u32, region: &StoredRegion) {
        self.0.push(FILL);
        for number in [slot, region.object, region.region] {
            self.0.extend_from_slice(&number.to_le_bytes());
        }
        self.0.extend_from_slice(&[region.share as u8, region.frequency]);
        self.0.extend_from_slice(&(region.pages.len() as u16).to_le_bytes());
        for (page, sum) in &region.pages {
            self.0.extend_from_slice(&page.to_le_bytes());
            self.0.extend_from_slice(&sum.to_le_bytes());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is enough for a frame of a compact table.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= FRAME_BYTES
    }

    pub(crate) fn take(&mut self) -> Records {
        std::mem::take(self)
    }
}

/// Builds the bytes of a compact table.
pub(crate) struct Compact(Vec<u8>);

impl Compact {
    pub(crate) fn new(layout: Layout) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&layout.region_bytes.to_le_bytes());
        bytes.extend_from_slice(&layout.page_bytes.to_le_bytes());
        bytes.extend_from_slice(&layout.volumes.to_le_bytes());
        let sum = xxh3_64(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        Compact(bytes)
    }

    pub(crate) fn frame(&mut self, records: &Records) {
        let at = self.0.len() as u64;
        self.0.extend(frame(records, at));
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

fn frame(records: &Records, at: u64) -> Vec<u8> {
    let payload = &records.0;
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&xxh3_64_with_seed(payload, at).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The table's file, open for appending.
#[derive(Debug)]
pub(crate) struct TableFile {
    directory: PathBuf,
    /// Absent before the first compact table is written and after a failure.
    file: Option<File>,
    bytes: u64,
    compact_bytes: u64,
}

impl TableFile {
    /// A table file in `directory`, with nothing in it yet.
    pub(crate) fn new(directory: &Path) -> Self {
        TableFile { directory: directory.to_owned(), file: None, bytes: 0, compact_bytes: 0 }
    }

    /// The bytes on disk; empty where there are none.
    pub(crate) fn read(&self) -> Vec<u8> {
        std::fs::read(self.directory.join("table")).unwrap_or_default()
    }

    /// Goes on after the first `bytes` bytes of the file, which were decoded.
    pub(crate) fn resume(&mut self, bytes: u64) -> io::Result<()> {
        let file = OpenOptions::new().append(true).open(self.directory.join("table"))?;
        file.set_len(bytes)?;
        (self.file, self.bytes, self.compact_bytes) = (Some(file), bytes, bytes);
        Ok(())
    }

    /// Appends one frame. It outlives this process at once, and the machine after the next sync.
    pub(crate) fn append(&mut self, records: &Records) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let frame = frame(records, self.bytes);
        let written = file.write_all(&frame);
        self.bytes += frame.len() as u64;
        if written.is_err() {
            // Part of the frame may be there. Nothing may follow it.
            self.file = None;
        }
        written
    }

    /// Whether most of the file is history.
    pub(crate) fn is_long(&self) -> bool {
        self.bytes - self.compact_bytes > self.compact_bytes.max(GROWTH_BYTES_MIN)
    }

    /// Replaces the file by these bytes: after a crash either the old or the new table is there.
    pub(crate) fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (temporary, path) = (self.directory.join("table.new"), self.directory.join("table"));
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        File::open(&self.directory)?.sync_all()?;
        // The handle still names the renamed file and stands at its end.
        (self.file, self.bytes, self.compact_bytes) = (Some(file), bytes.len() as u64, bytes.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
