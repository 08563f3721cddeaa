//! Delta-encoded lengths of Parquet texts, counted before the Parquet reader allocates space
//! for as many as they claim.

use frostline_base::{Error, Result};

use crate::bytes_codec::Cursor;

/// `Corrupt` unless `values`, those of a page, begin with so many `lists` of lengths, none of more than `values_max`.
pub fn check(values: &[u8], lists: usize, values_max: u32) -> Result<()> {
    let mut cursor = Cursor::new(values);
    (0..lists).try_for_each(|_| check_list(&mut cursor, values_max))
}

fn check_list(cursor: &mut Cursor<'_>, values_max: u32) -> Result<()> {
    let wrong = || Error::corrupt("the lengths of a page's texts are not encoded correctly");
    let (block, parts, count) = (cursor.varint_usize()?, cursor.varint_usize()?, cursor.varint_usize()?);
    let _first = cursor.varint()?;
    if count > values_max as usize || parts == 0 || block % parts != 0 {
        return Err(wrong().with("lengths", count).with("values_max", values_max));
    }
    let in_part = block / parts;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        let _smallest = cursor.varint()?;
        for bits in cursor.take(parts)? {
            // The widths of parts beyond the last value may be anything.
            if left > 0 {
                let bits = in_part.checked_mul(usize::from(*bits)).ok_or_else(wrong)?;
                cursor.take(bits / 8)?;
                left = left.saturating_sub(in_part.max(1));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
