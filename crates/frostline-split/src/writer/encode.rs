//! The Parquet encodings that a split uses: levels and dictionary
//! indices as runs and packed bits (RLE), whole numbers as bit-packed differences (DELTA_BINARY_PACKED).

use crate::bytes_codec::put_varint;

/// Encodes small numbers as Parquet's RLE / bit-packed hybrid.
pub(crate) struct RleEncoder {
    bits: u32,
    run: (u32, usize),
    literals: Vec<u32>,
}

impl RleEncoder {
    /// Of numbers below two to the `bits`, at least one bit each.
    pub(crate) fn new(bits: u32) -> Self {
        RleEncoder { bits: bits.max(1), run: (0, 0), literals: Vec::new() }
    }

    /// Adds `value`, `times` times.
    pub(crate) fn push(&mut self, value: u32, times: usize, out: &mut Vec<u8>) {
        if self.run.0 != value {
            self.end_run(out);
            self.run = (value, 0);
        }
        self.run.1 += times;
    }

    /// Writes what is pending. The encoder is then as new.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.end_run(out);
        self.flush_literals(out);
        self.run = (0, 0);
    }

    fn end_run(&mut self, out: &mut Vec<u8>) {
        let (value, mut times) = self.run;
        // Packed groups hold eight; a run may only start where one ends.
        let gap = (8 - self.literals.len() % 8) % 8;
        let padding = gap.min(times);
        self.literals.extend(std::iter::repeat_n(value, padding));
        times -= padding;
        if times >= 8 {
            self.flush_literals(out);
            put_varint(out, (times as u64) << 1);
            out.extend_from_slice(&value.to_le_bytes()[..self.bits.div_ceil(8) as usize]);
        } else {
            self.literals.extend(std::iter::repeat_n(value, times));
        }
        self.run.1 = 0;
    }

    fn flush_literals(&mut self, out: &mut Vec<u8>) {
        if self.literals.is_empty() {
            return;
        }
        self.literals.resize(self.literals.len().next_multiple_of(8), 0);
        put_varint(out, (self.literals.len() as u64 / 8) << 1 | 1);
        let bits = self.bits;
        pack_bits(self.literals.drain(..).map(u64::from), bits, out);
    }
}

/// Appends numbers of `bits` bits each, low bits first; their count is a multiple of eight.
fn pack_bits(numbers: impl Iterator<Item = u64>, bits: u32, out: &mut Vec<u8>) {
    let (mut pending, mut pending_bits) = (0u128, 0u32);
    for number in numbers {
        pending |= u128::from(number) << pending_bits;
        pending_bits += bits;
        while pending_bits >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            pending_bits -= 8;
        }
    }
}

const DELTA_BLOCK: usize = 128;
const DELTA_MINIBLOCK: usize = 32;

/// Appends `values` as DELTA_BINARY_PACKED.
pub(crate) fn put_delta_packed(values: &[i64], out: &mut Vec<u8>) {
    let Some((first, rest)) = values.split_first() else {
        return put_delta_header(0, 0, out);
    };
    put_delta_header(values.len(), *first, out);
    let mut last = *first;
    for block in rest.chunks(DELTA_BLOCK) {
        let deltas: Vec<i64> =
            block.iter().map(|v| v.wrapping_sub(std::mem::replace(&mut last, *v))).collect();
        put_delta_block(&deltas, out);
    }
}

fn put_delta_header(count: usize, first: i64, out: &mut Vec<u8>) {
    put_varint(out, DELTA_BLOCK as u64);
    put_varint(out, (DELTA_BLOCK / DELTA_MINIBLOCK) as u64);
    put_varint(out, count as u64);
    put_varint(out, zigzag(first));
}

fn put_delta_block(deltas: &[i64], out: &mut Vec<u8>) {
    let min = deltas.iter().copied().min().unwrap_or(0);
    put_varint(out, zigzag(min));
    let over = |delta: &i64| delta.wrapping_sub(min) as u64;
    let widths: Vec<u32> = deltas
        .chunks(DELTA_MINIBLOCK)
        .map(|mini| 64 - mini.iter().map(over).fold(0, |all, one| all | one).leading_zeros())
        .collect();
    for mini in 0..DELTA_BLOCK / DELTA_MINIBLOCK {
        out.push(widths.get(mini).map_or(0, |width| *width as u8));
    }
    for (mini, width) in deltas.chunks(DELTA_MINIBLOCK).zip(widths) {
        let padding = std::iter::repeat_n(0, DELTA_MINIBLOCK - mini.len());
        pack_bits(mini.iter().map(over).chain(padding), width, out);
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}
