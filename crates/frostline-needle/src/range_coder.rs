//! A range coder: symbols cost the logarithm of how rare they are, in fractions of a bit.
//!
//! All probabilities are `size` of `total`, stated by the caller; what is decoded with the same totals and sizes
//! is what was encoded. [`Decoder`] reads any bytes without panic, zeros behind their end, and gives numbers below
//! the totals that it is asked for.

use bytes::Bytes;

/// No total is greater: the coder is precise to one part in 256 even then.
pub(crate) const TOTAL_MAX: u32 = 1 << 16;
const RANGE_MIN: u32 = 1 << 24;

#[derive(Debug)]
pub(crate) struct Encoder {
    low: u32,
    range: u32,
    out: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new() -> Encoder {
        Encoder { low: 0, range: u32::MAX, out: Vec::new() }
    }

    /// One of `total` cases of which `start..start + size` are this symbol.
    pub(crate) fn put(&mut self, start: u32, size: u32, total: u32) {
        debug_assert!(size > 0 && start + size <= total && total <= TOTAL_MAX);
        let step = self.range / total;
        self.add(step * start);
        self.range = step * size;
        while self.range < RANGE_MIN {
            self.out.push((self.low >> 24) as u8);
            self.low <<= 8;
            self.range <<= 8;
        }
    }

    /// One of `total` equally probable numbers.
    pub(crate) fn put_even(&mut self, number: u32, total: u32) {
        if total > 1 {
            self.put(number, 1, total);
        }
    }

    fn add(&mut self, amount: u32) {
        let (low, overflows) = self.low.overflowing_add(amount);
        self.low = low;
        if overflows {
            for byte in self.out.iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
        }
    }

    /// Appends the shortest bytes that decode to what was put, and starts anew.
    pub(crate) fn finish_into(&mut self, out: &mut Vec<u8>) {
        // The range has at least 2^24 numbers, so one of them needs no more than its first byte.
        self.add(RANGE_MIN - 1);
        self.out.push((self.low >> 24) as u8);
        while self.out.last() == Some(&0) {
            self.out.pop();
        }
        out.append(&mut self.out);
        *self = Encoder { out: std::mem::take(&mut self.out), ..Encoder::new() };
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    /// What is left after the symbols so far.
    code: u32,
    range: u32,
    bytes: Bytes,
    at: usize,
}

impl Decoder {
    pub(crate) fn new(bytes: Bytes) -> Decoder {
        let mut decoder = Decoder { code: 0, range: u32::MAX, bytes, at: 0 };
        (0..4).for_each(|_| decoder.shift());
        decoder
    }

    fn shift(&mut self) {
        self.code = self.code << 8 | u32::from(self.bytes.get(self.at).copied().unwrap_or(0));
        self.at += 1;
    }

    /// A number below `total` that lies in the symbol, whose bounds [`Decoder::take`] is then told.
    pub(crate) fn peek(&self, total: u32) -> u32 {
        (self.code / (self.range / total)).min(total - 1)
    }

    pub(crate) fn take(&mut self, start: u32, size: u32, total: u32) {
        let step = self.range / total;
        self.code = self.code.wrapping_sub(step * start);
        self.range = step * size;
        while self.range < RANGE_MIN {
            self.shift();
            self.range <<= 8;
        }
    }

    pub(crate) fn even(&mut self, total: u32) -> u32 {
        if total <= 1 {
            return 0;
        }
        let number = self.peek(total);
        self.take(number, 1, total);
        number
    }
}

#[cfg(test)]
mod tests;
