//! Encoding of the integers in the split's own structures.
//!
//! [`Cursor`] never panics: a value that reaches past the end, or a varint that does not fit, is
//! `Corrupt`.

use frostline_base::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

/// The low half of XXH3: the checksum of every page, block and stored postings list.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

/// Appends `value` as a varint: seven bits per byte, low bits first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes [`put_varint`] appends.
pub(crate) fn varint_bytes(value: u32) -> usize {
    (38 - (value | 1).leading_zeros() as usize) / 7
}

/// A position in untrusted bytes.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The remaining bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(bytes).ok_or_else(truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        let (first, rest) = self.bytes.split_first().ok_or_else(truncated)?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(crate) fn u32_le(&mut self) -> Result<u32> {
        let (taken, rest) = self.bytes.split_first_chunk::<4>().ok_or_else(truncated)?;
        self.bytes = rest;
        Ok(u32::from_le_bytes(*taken))
    }

    pub(crate) fn u64_le(&mut self) -> Result<u64> {
        let (taken, rest) = self.bytes.split_first_chunk::<8>().ok_or_else(truncated)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*taken))
    }

    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::corrupt("a number does not fit 64 bits"))
    }

    pub(crate) fn varint_u32(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| Error::corrupt("a number does not fit 32 bits"))
    }

    pub(crate) fn varint_usize(&mut self) -> Result<usize> {
        usize::try_from(self.varint()?).map_err(|_| Error::corrupt("a length does not fit"))
    }
}

fn truncated() -> Error {
    Error::corrupt("a structure ends before its end")
}

#[cfg(test)]
mod tests;
