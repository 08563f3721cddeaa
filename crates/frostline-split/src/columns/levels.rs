//! The repetition levels of a list's page: where its rows begin.
//!
//! The Parquet reader skips rows by levels until it has skipped as many as its caller wants or the header
//! claims; when the levels are fewer, it never ends. So they are counted, run by run, before it sees them:
//! only the front of the page is unpacked for that.

use std::io::Read;

use frostline_base::{Error, Result};

use crate::bytes_codec::Cursor;

/// `Corrupt` unless the packed body of a page begins with repetition levels for all of its `values`.
pub(super) fn check_repetition(packed: &[u8], values: u32) -> Result<()> {
    let broken = |e| Error::corrupt("the levels of a column page cannot be unpacked").with_source(e);
    let mut unpacked = zstd::stream::read::Decoder::with_buffer(packed).map_err(broken)?;
    let mut bytes = [0; 4];
    unpacked.read_exact(&mut bytes).map_err(broken)?;
    let bytes = u64::from(u32::from_le_bytes(bytes));
    // Eight values take three bytes at most.
    if bytes > u64::from(values) + 8 {
        return Err(wrong(values));
    }
    let mut levels = Vec::with_capacity(bytes as usize);
    unpacked.take(bytes).read_to_end(&mut levels).map_err(broken)?;
    count(&levels, values)
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
    Error::corrupt("the levels of a column page are not as many as its values").with("values", values)
}

#[cfg(test)]
mod tests;
