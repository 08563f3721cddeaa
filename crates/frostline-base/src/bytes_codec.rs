//! Encoding of the integers and byte strings in our own file formats.
//!
//! [`Cursor`] never panics: a value that reaches past the end, or a varint that does not fit, is
//! `Corrupt`.

use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Result};

/// The low half of XXH3: the checksum of every page and block.
pub fn checksum(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

/// Appends `value` as a varint: seven bits per byte, low bits first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of `bytes` as a varint, and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// How many bytes [`put_varint`] appends.
pub fn varint_bytes(value: u32) -> usize {
    (38 - (value | 1).leading_zeros() as usize) / 7
}

/// A position in untrusted bytes.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// At the first of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes }
    }

    /// Whether no bytes remain.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The remaining bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next `bytes` bytes.
    pub fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(bytes).ok_or_else(truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        let (first, rest) = self.bytes.split_first().ok_or_else(truncated)?;
        self.bytes = rest;
        Ok(*first)
    }

    /// Four bytes, little-endian.
    pub fn u32_le(&mut self) -> Result<u32> {
        let (taken, rest) = self.bytes.split_first_chunk::<4>().ok_or_else(truncated)?;
        self.bytes = rest;
        Ok(u32::from_le_bytes(*taken))
    }

    /// Eight bytes, little-endian.
    pub fn u64_le(&mut self) -> Result<u64> {
        let (taken, rest) = self.bytes.split_first_chunk::<8>().ok_or_else(truncated)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*taken))
    }

    /// A number of [`put_varint`].
    pub fn varint(&mut self) -> Result<u64> {
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

    /// A number of [`put_varint`] that fits 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| Error::corrupt("a number does not fit 32 bits"))
    }

    /// What [`put_bytes`] appended.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let bytes = self.varint_usize()?;
        self.take(bytes)
    }

    /// A number of [`put_varint`] that fits the address space.
    pub fn varint_usize(&mut self) -> Result<usize> {
        usize::try_from(self.varint()?).map_err(|_| Error::corrupt("a length does not fit"))
    }
}

fn truncated() -> Error {
    Error::corrupt("a structure ends before its end")
}

#[cfg(test)]
mod tests;
