//! Decompresses pages before the Parquet reader sees them, to check what the reader relies on: the repetition levels of
//! lists, which mark where rows begin, and the lengths of texts that come before them. What is in streams is put together.
//!
//! The Parquet reader skips rows by levels until it has skipped as many as requested or claimed by the header.
//! If there are fewer levels, it never ends. So they are counted first, run by run. And it makes room for as many
//! lengths as these say they are.

use bytes::Bytes;
use frostline_base::{Error, Result};

use crate::bytes_codec::Cursor;
use crate::delta_lengths;
use crate::page_header::PageHeader;
use crate::page_streams;
use crate::unpack::append_unpacked;

/// The page with its header as it is and its body decompressed. `Corrupt` unless the body is as long as the
/// header says. But for a dictionary, it must begin with levels for all of its values where it is of lists, and lengths
/// must be as many as they say and no more than values.
pub(super) fn unpack(page: &[u8], header: &PageHeader, is_list: bool, has_streams: bool) -> Result<Bytes> {
    let (front, packed) = page.split_at_checked(header.header_bytes).unwrap_or((page, &[]));
    let mut whole = front.to_vec();
    if has_streams && !header.is_dictionary {
        // What it says of itself is not trusted with more memory than such a page may take.
        whole.reserve_exact((header.unpacked_bytes as usize).min(page_streams::BODY_BYTES_MAX));
        page_streams::unpack(packed, header.values, &mut whole)?;
        if whole.len() - front.len() != header.unpacked_bytes as usize {
            return Err(Error::corrupt("a page in streams is not as long as its header says"));
        }
    } else {
        append_unpacked(&mut whole, packed, header.unpacked_bytes)?;
    }
    if !header.is_dictionary {
        let mut body = Cursor::new(&whole[front.len()..]);
        if is_list {
            count(levels(&mut body)?, header.values)?;
        }
        if header.has_lengths {
            levels(&mut body)?;
            delta_lengths::check(body.rest(), 1, header.values)?;
        }
    }
    Ok(whole.into())
}

/// Reads the levels that come next in the body of a page.
fn levels<'a>(body: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let bytes = body.u32_le()?;
    body.take(bytes as usize)
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
