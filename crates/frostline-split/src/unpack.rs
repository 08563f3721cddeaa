//! Decompresses parts of a split.

use std::cell::RefCell;
use std::io::{self, Cursor};

use frostline_base::{Error, Result};
use zstd::bulk::Decompressor;
use zstd::zstd_safe::get_frame_content_size;

/// What every zstd frame begins with, and small ones are stored without.
pub(crate) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A part that unpacks to more is not one of ours.
const RAW_BYTES_MAX: usize = 1 << 30;

thread_local! {
    /// Making one takes longer than what most parts take to decompress.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Unpacks a zstd frame that is said to hold `raw_bytes`.
pub(crate) fn unpack(packed: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    // zstd packs at most about a thousandfold save for runs; a claim far beyond is not trusted with memory.
    let believable = raw_bytes <= RAW_BYTES_MAX && raw_bytes / 65_536 <= packed.len();
    let raw = if believable { Some(unpack_at_most(packed, raw_bytes)?) } else { None };
    raw.filter(|raw| raw.len() == raw_bytes)
        .ok_or_else(|| Error::corrupt("a part of a split is not as long as the split says"))
}

/// [`unpack`] of a frame without its magic number.
pub(crate) fn unpack_bare(packed: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    unpack(&[&ZSTD_MAGIC, packed].concat(), raw_bytes)
}

/// Unpacks a zstd frame that holds at most `raw_bytes_max`.
pub(crate) fn unpack_at_most(packed: &[u8], raw_bytes_max: usize) -> Result<Vec<u8>> {
    with_decompressor(|decompressor| decompressor.decompress(packed, raw_bytes_max))
}

/// Appends what a zstd frame holds, if it says itself that these are `raw_bytes`.
pub(crate) fn append_unpacked(out: &mut Vec<u8>, packed: &[u8], raw_bytes: u32) -> Result<()> {
    if get_frame_content_size(packed).ok().flatten() != Some(u64::from(raw_bytes)) {
        return Err(Error::corrupt("a part of a split is not as long as the split says"));
    }
    out.reserve_exact(raw_bytes as usize);
    let mut end = Cursor::new(&mut *out);
    end.set_position(end.get_ref().len() as u64);
    with_decompressor(|decompressor| decompressor.decompress_to_buffer(packed, &mut end)).map(drop)
}

fn with_decompressor<T>(unpack: impl FnOnce(&mut Decompressor<'static>) -> io::Result<T>) -> Result<T> {
    let broken = |e| Error::corrupt("a part of a split cannot be decompressed").with_source(e);
    DECOMPRESSOR.with_borrow_mut(|known| {
        let decompressor = match known {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new().map_err(broken)?),
        };
        unpack(decompressor).map_err(broken)
    })
}
