//! Decompresses pages of lists before the Parquet reader sees them, to check their repetition levels, which mark where
//! rows begin.
//!
//! The Parquet reader skips rows by levels until it has skipped as many as requested or claimed by the header.
//! If there are fewer levels, it never ends. So they are counted first, run by run.

use std::io;

use bytes::Bytes;
use frostline_base::{Error, Result};
use zstd::bulk::Decompressor;
use zstd::zstd_safe::get_frame_content_size;

use crate::bytes_codec::Cursor;
use crate::page_header::PageHeader;

/// Decompresses pages, reusing its buffers.
#[derive(Default)]
pub(super) struct Unpacker(Option<Decompressor<'static>>);

impl Unpacker {
    /// The page with its header as it is and its body decompressed. `Corrupt` unless the body is as long as the
    /// header says and begins, but for a dictionary, with levels for all of its values.
    pub(super) fn unpack(&mut self, page: &[u8], header: &PageHeader) -> Result<Bytes> {
        let broken = |e| Error::corrupt("a column page cannot be decompressed").with_source(e);
        let (front, packed) = page.split_at_checked(header.header_bytes).unwrap_or((page, &[]));
        // Nothing is made room for that the body does not say, too.
        if get_frame_content_size(packed).ok().flatten() != Some(u64::from(header.unpacked_bytes)) {
            return Err(Error::corrupt("a column page is not as long as its header says"));
        }
        let unpacker = match &mut self.0 {
            Some(unpacker) => unpacker,
            none => none.insert(Decompressor::new().map_err(broken)?),
        };
        let mut whole = Vec::with_capacity(front.len() + header.unpacked_bytes as usize);
        whole.extend_from_slice(front);
        let mut end = io::Cursor::new(&mut whole);
        end.set_position(front.len() as u64);
        unpacker.decompress_to_buffer(packed, &mut end).map_err(broken)?;
        if !header.is_dictionary {
            check_repetition(&whole[front.len()..], header.values)?;
        }
        Ok(whole.into())
    }
}

/// `Corrupt` unless the body of a page begins with repetition levels for all of its `values`.
fn check_repetition(body: &[u8], values: u32) -> Result<()> {
    let mut body = Cursor::new(body);
    let bytes = body.u32_le()?;
    count(body.take(bytes as usize)?, values)
}

/// `Corrupt` unless the runs of `levels` are of `values` or more, without one of none.
fn count(levels: &[u8], values: u32) -> Result<()> {
    let mut runs = Cursor::new(levels);
    let mut left = values;
    while left > 0 {
        match run(&mut runs).map_err(|e| wrong(values).with_source(e))? {
            0 => return Err(wrong(values)),
            run => left = left.saturating_sub(run),
        }
    }
    Ok(())
}

/// How many levels the next run has.
fn run(runs: &mut Cursor<'_>) -> Result<u32> {
    let head = runs.varint_u32()?;
    match head & 1 {
        0 => runs.u8().map(|_| head >> 1),
        // Groups of eight, a bit each.
        _ => runs.take((head >> 1) as usize).map(|groups| (groups.len() as u32).saturating_mul(8)),
    }
}

fn wrong(values: u32) -> Error {
    Error::corrupt("the levels of a column page are fewer than its values").with("values", values)
}

#[cfg(test)]
mod tests;
