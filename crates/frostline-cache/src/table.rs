//! What survives a restart: which region is in which slot, which of its pages are cached, and which objects are pinned.
//!
//! The table is a header and a record of fixed length for each slot, written in place after the pages, so it needs no
//! memory and no rewriting. A record is only a claim: a page is used only if its bytes match its checksum, which
//! depends
//! on the object and the page as well. So it does not matter which writes of a slot a crash or a power loss
//! preserved. Byte map: `docs/format/cache.md`.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use frostline_base::{Error, Result, Share};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"FROSTRC2";
const HEADER_BYTES: usize = 32;
/// A record without its bits.
const RECORD_BYTES: usize = 16;
const STAMP_BYTES: usize = 6;
const USED: u8 = 1;
/// Records are read and written in pieces of about this size.
const PIECE_BYTES: usize = 1 << 20;

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

/// The record of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRegion {
    /// The region's key.
    pub key: u64,
    /// The region's share.
    pub share: Share,
    /// Its popularity, 0 to 15.
    pub frequency: u8,
    /// When it was last read, in 48 bits: larger is later.
    pub stamp: u64,
}

impl Layout {
    fn pages(&self) -> usize {
        (self.region_bytes / self.page_bytes.max(1)) as usize
    }

    fn record_bytes(&self) -> usize {
        RECORD_BYTES + self.pages().div_ceil(8)
    }
}

/// Reads a table, slot after slot. It ends and never panics, whatever the bytes.
#[derive(Debug)]
pub struct TableReader<R> {
    layout: Layout,
    input: R,
    slot: u32,
    record: Vec<u8>,
}

impl<R: Read> TableReader<R> {
    /// Reads the header. Fails with `Corrupt` if it is not a table's.
    pub fn new(mut input: R) -> Result<Self> {
        let mut header = [0; HEADER_BYTES];
        let layout = input.read_exact(&mut header).ok().and_then(|()| decode_header(&header));
        let layout = layout.ok_or_else(|| Error::corrupt("the cache table's header cannot be read"))?;
        Ok(TableReader { layout, input, slot: 0, record: vec![0; layout.record_bytes()] })
    }

    /// Sizes that the records depend on.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The next slot in use, and the bits of its pages, the lowest first.
    pub fn next_slot(&mut self) -> Option<(u32, StoredRegion, &[u8])> {
        loop {
            self.input.read_exact(&mut self.record).ok()?;
            let slot = self.slot;
            self.slot = slot.checked_add(1)?;
            if let Some(region) = decode_record(&self.record) {
                return Some((slot, region, self.record.get(RECORD_BYTES..)?));
            }
        }
    }
}

fn decode_header(header: &[u8; HEADER_BYTES]) -> Option<Layout> {
    let (body, sum) = header.split_at_checked(HEADER_BYTES - 8)?;
    let mut fields = Fields(body.strip_prefix(MAGIC)?);
    let layout = Layout { region_bytes: fields.u32()?, page_bytes: fields.u32()?, volumes: fields.u64()? };
    let pages = layout.region_bytes.checked_div(layout.page_bytes)?;
    let whole = layout.region_bytes.is_multiple_of(layout.page_bytes) && (1..=1 << 15).contains(&pages);
    (Fields(sum).u64()? == xxh3_64(body) && whole).then_some(layout)
}

/// None if the slot is empty.
fn decode_record(record: &[u8]) -> Option<StoredRegion> {
    let mut fields = Fields(record);
    let (key, stamp) = (fields.u64()?, fields.array::<STAMP_BYTES>()?);
    let (kind, used) = (fields.u8()?, fields.u8()?);
    let share = [Share::Footer, Share::Index, Share::Column, Share::Source].get(usize::from(kind >> 4))?;
    let mut wide = [0; 8];
    wide.get_mut(..STAMP_BYTES)?.copy_from_slice(&stamp);
    (used == USED).then_some(StoredRegion {
        key,
        share: *share,
        frequency: kind & 15,
        stamp: u64::from_le_bytes(wide),
    })
}

/// Appends the record of a slot.
pub(crate) fn encode_record(record: &mut Vec<u8>, region: Option<StoredRegion>, bits: &[u8]) {
    let Some(StoredRegion { key, share, frequency, stamp }) = region else {
        record.resize(record.len() + RECORD_BYTES + bits.len(), 0);
        return;
    };
    record.extend_from_slice(&key.to_le_bytes());
    record.extend(stamp.to_le_bytes().into_iter().take(STAMP_BYTES));
    record.extend_from_slice(&[(share as u8) << 4 | frequency.min(15), USED]);
    record.extend_from_slice(bits);
}

/// Little-endian fields, taken from the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_at_checked(N)?;
        self.0 = rest;
        taken.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// The table's file.
#[derive(Debug)]
pub(crate) struct TableFile {
    file: File,
    layout: Layout,
}

impl TableFile {
    /// The table that an earlier process left in `directory`, if it can be read.
    pub(crate) fn read(directory: &Path) -> Option<TableReader<BufReader<File>>> {
        let file = File::open(directory.join("table")).ok()?;
        TableReader::new(BufReader::with_capacity(PIECE_BYTES, file)).ok()
    }

    /// The table of `slots` slots. Each has its earlier contents if there is a table of this layout, else it is empty.
    pub(crate) fn open(directory: &Path, layout: Layout, slots: u32) -> io::Result<TableFile> {
        let known = TableFile::read(directory).is_some_and(|table| table.layout == layout);
        let path = directory.join("table");
        let file = OpenOptions::new().write(true).create(true).truncate(!known).open(path)?;
        let mut table = TableFile { file, layout };
        if !known {
            table.file.write_all(&header(layout))?;
        }
        table.file.set_len(HEADER_BYTES as u64 + u64::from(slots) * layout.record_bytes() as u64)?;
        Ok(table)
    }

    /// Writes the records of consecutive slots, starting with `slot`.
    pub(crate) fn write(&self, slot: u32, records: &[u8]) -> io::Result<()> {
        let at = HEADER_BYTES as u64 + u64::from(slot) * self.layout.record_bytes() as u64;
        self.file.write_all_at(records, at)
    }

    /// The number of slots whose records fill about one write.
    pub(crate) fn slots_in_piece(&self) -> u32 {
        (PIECE_BYTES / self.layout.record_bytes()).max(1) as u32
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn header(layout: Layout) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&layout.region_bytes.to_le_bytes());
    bytes.extend_from_slice(&layout.page_bytes.to_le_bytes());
    bytes.extend_from_slice(&layout.volumes.to_le_bytes());
    let sum = xxh3_64(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// The file of pinned objects: a record for each pin and each removal; the last record of an object applies.
#[derive(Debug)]
pub(crate) struct PinsFile(PathBuf);

/// A kind, the object's hash and its length.
const PIN_BYTES: usize = 1 + 16 + 8;
const PIN: u8 = 1;
const UNPIN: u8 = 2;

impl PinsFile {
    pub(crate) fn new(directory: &Path) -> PinsFile {
        PinsFile(directory.join("pins"))
    }

    /// The pinned objects by their hash, with their lengths.
    pub(crate) fn read(&self) -> HashMap<u128, u64> {
        let bytes = std::fs::read(&self.0).unwrap_or_default();
        let mut pinned = HashMap::new();
        for record in bytes.chunks_exact(PIN_BYTES) {
            let mut fields = Fields(record);
            let (Some(kind), Some(id), Some(bytes)) = (fields.u8(), fields.array(), fields.u64()) else {
                break;
            };
            match kind {
                PIN => pinned.insert(u128::from_le_bytes(id), bytes),
                UNPIN => pinned.remove(&u128::from_le_bytes(id)),
                _ => None,
            };
        }
        pinned
    }

    pub(crate) fn append(&self, id: u128, bytes: u64, pinned: bool) -> io::Result<()> {
        OpenOptions::new().append(true).create(true).open(&self.0)?.write_all(&pin_record(id, bytes, pinned))
    }

    /// Replaces the file with these pins alone.
    pub(crate) fn replace(&self, pinned: &HashMap<u128, u64>) -> io::Result<()> {
        if pinned.is_empty() {
            return match std::fs::remove_file(&self.0) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let unfinished = self.0.with_extension("new");
        let records: Vec<u8> = pinned.iter().flat_map(|(id, bytes)| pin_record(*id, *bytes, true)).collect();
        let mut file = File::create(&unfinished)?;
        file.write_all(&records)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &self.0)
    }
}

fn pin_record(id: u128, bytes: u64, pinned: bool) -> Vec<u8> {
    let mut record = vec![if pinned { PIN } else { UNPIN }];
    record.extend_from_slice(&id.to_le_bytes());
    record.extend_from_slice(&bytes.to_le_bytes());
    record
}

#[cfg(test)]
mod tests;
