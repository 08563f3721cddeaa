//! Counts distinct values: exactly while they are few, then by HyperLogLog.
//!
//! Both forms depend only on the set of values. "Exact" means by 64-bit hashes: the probability that any two of
//! 100,000 values collide is about 1 in 4 billion.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::column::Scalar;
use super::keys::mix;

/// 2^14 registers: a standard error of 1.04 / sqrt(16384) = 0.81 %.
const REGISTER_BITS: u32 = 14;
const REGISTERS: usize = 1 << REGISTER_BITS;
/// 1.04 / sqrt(REGISTERS)
pub(super) const STANDARD_ERROR: f64 = 0.008125;

/// Up to how many values a count is exact.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Precision {
    pub exact_max: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Distinct {
    Hashes(HashSet<u64, BuildHasherDefault<Spread>>),
    Registers(Vec<u8>),
}

/// Hashes are spread already; they only need not to be spread again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl Default for Distinct {
    fn default() -> Self {
        Distinct::Hashes(HashSet::default())
    }
}

/// The hash that stands for a value. A number is the same value however it was written, so `404`,
/// `404.0` and `"404"` are one.
pub(super) fn value_hash(value: Scalar<'_>) -> u64 {
    match value {
        Scalar::Boolean(value) => xxh3_64(if value { b"true" } else { b"false" }),
        Scalar::Long(value) => mix(value as u64),
        Scalar::Double(value) if value.fract() == 0.0 && value.abs() < 1e38 => whole_hash(value as i128),
        Scalar::Big(value) => whole_hash(value),
        Scalar::Double(value) => mix(value.to_bits()) ^ 1,
        Scalar::Time(us) => mix(us as u64) ^ 2,
        Scalar::Text(text) => match canonical_long(text) {
            Some(value) => mix(value as u64),
            None => xxh3_64(text.as_bytes()),
        },
    }
}

fn whole_hash(value: i128) -> u64 {
    match i64::try_from(value) {
        Ok(value) => mix(value as u64),
        Err(_) => xxh3_64(value.to_string().as_bytes()),
    }
}

/// The whole number that is written exactly like this.
fn canonical_long(text: &str) -> Option<i64> {
    let first = *text.as_bytes().first()?;
    let maybe = text.len() <= 20 && (first.is_ascii_digit() || first == b'-');
    let value = maybe.then(|| text.parse::<i64>().ok()).flatten()?;
    let padded = (first == b'0' && text.len() > 1) || text.starts_with("-0");
    (!padded).then_some(value)
}

impl Distinct {
    pub(super) fn add(&mut self, hash: u64, precision: Precision) {
        match self {
            Distinct::Hashes(hashes) => {
                if hashes.insert(hash) && hashes.len() > precision.exact_max {
                    self.shrink();
                }
            }
            Distinct::Registers(registers) => raise(registers, hash),
        }
    }

    pub(super) fn merge(&mut self, other: Distinct, precision: Precision) {
        match (&mut *self, other) {
            (_, Distinct::Hashes(theirs)) => theirs.into_iter().for_each(|hash| self.add(hash, precision)),
            (Distinct::Registers(mine), Distinct::Registers(theirs)) => {
                mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = (*mine).max(theirs));
            }
            (Distinct::Hashes(mine), Distinct::Registers(mut theirs)) => {
                mine.iter().for_each(|hash| raise(&mut theirs, *hash));
                *self = Distinct::Registers(theirs);
            }
        }
    }

    fn shrink(&mut self) {
        if let Distinct::Hashes(hashes) = self {
            let mut registers = vec![0; REGISTERS];
            hashes.iter().for_each(|hash| raise(&mut registers, *hash));
            *self = Distinct::Registers(registers);
        }
    }

    pub(super) fn is_approximate(&self) -> bool {
        matches!(self, Distinct::Registers(_))
    }

    /// Whether what was read back can be counted.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Distinct::Hashes(_) => true,
            Distinct::Registers(registers) => {
                registers.len() == REGISTERS && registers.iter().all(|r| u32::from(*r) <= 65 - REGISTER_BITS)
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Distinct::Hashes(hashes) => hashes.capacity() * 9,
            Distinct::Registers(_) => REGISTERS,
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Distinct::Hashes(hashes) => hashes.len() as u64,
            Distinct::Registers(registers) => estimate(registers),
        }
    }
}

fn raise(registers: &mut [u8], hash: u64) {
    let register = (hash >> (64 - REGISTER_BITS)) as usize;
    let zeros = (hash << REGISTER_BITS).leading_zeros().min(64 - REGISTER_BITS) as u8 + 1;
    if let Some(slot) = registers.get_mut(register) {
        *slot = (*slot).max(zeros);
    }
}

/// Ertl's improved raw estimator ("New cardinality estimation algorithms for HyperLogLog sketches",
/// 2017), which is unbiased over the whole range without tables.
fn estimate(registers: &[u8]) -> u64 {
    let ranks_max = (64 - REGISTER_BITS) as usize;
    let mut counts = vec![0u32; ranks_max + 2];
    for register in registers {
        if let Some(count) = counts.get_mut(usize::from(*register)) {
            *count += 1;
        }
    }
    let m = registers.len() as f64;
    let mut z = m * tau(1.0 - f64::from(counts[ranks_max + 1]) / m);
    for rank in (1..=ranks_max).rev() {
        z = 0.5 * (z + f64::from(counts[rank]));
    }
    z += m * sigma(f64::from(counts[0]) / m);
    (m * m / (2.0 * std::f64::consts::LN_2 * z)).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
