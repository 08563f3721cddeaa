//! The digest: small exact aggregates of a split, so that counts, time histograms and top values over
//! all its rows are answered without reading data.
//!
//! It always has the number of rows per minute. For a reading of a field it may have the
//! count, extremes and sum of its numbers, and the number of rows with each of its values, also per
//! ten-minute bucket. Value counts exist only if every row has at most one value of the reading, so
//! that rows and values are the same count, and if there are at most 1,000 distinct values. Whatever is
//! present is exact; absence means unknown.

use std::collections::BTreeMap;
use std::ops::Range;

use frostline_base::{Error, Result};

use crate::bytes_codec::{Cursor, put_bytes, put_varint};
use crate::footer::{put_signed, read_signed, read_text};

/// A reading with more distinct values has no value counts.
pub(crate) const VALUES_MAX: usize = 1_000;
/// A reading whose values times buckets are more has value counts without buckets.
pub(crate) const CELLS_MAX: usize = 200_000;
/// The width of a bucket of [`ValueCount::buckets`].
pub const BUCKET_US: i64 = 600_000_000;
/// The width of a minute.
pub const MINUTE_US: i64 = 60_000_000;

/// The aggregates of one split.
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    encoded: Vec<u8>,
    minutes: Vec<(i64, u32)>,
    rows_without_time: u32,
    fields: BTreeMap<u16, FieldDigest>,
}

#[derive(Clone, Debug, PartialEq)]
struct FieldDigest {
    numbers: Option<Numbers>,
    /// Where the value counts are encoded; they are decoded when asked for.
    values: Option<Range<usize>>,
}

/// Aggregates of all numbers of a reading, each value of a multi-valued row counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numbers {
    /// Of whole numbers.
    Long {
        /// How many values.
        count: u64,
        /// The smallest.
        min: i64,
        /// The greatest.
        max: i64,
        /// The exact sum.
        sum: i128,
    },
    /// Of other numbers.
    Double {
        /// How many values.
        count: u64,
        /// The smallest.
        min: f64,
        /// The greatest.
        max: f64,
        /// The sum, added in row order.
        sum: f64,
    },
}

/// A value that a digest counts; an IP address is text, as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DigestValue {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Long(i64),
    /// Text, or an IP address as written.
    Text(String),
}

/// How many rows have each value of a reading; rows without a value are in none.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueCounts {
    /// The values, ascending.
    pub values: Vec<ValueCount>,
    /// Whether the buckets are known.
    pub bucketed: bool,
}

/// How many rows have one value.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueCount {
    /// The value.
    pub value: DigestValue,
    /// All rows that have it, with or without a time.
    pub rows: u32,
    /// Rows by ten-minute bucket, ascending; the number is time divided by [`BUCKET_US`], rounded
    /// down. Rows without a time are in no bucket.
    pub buckets: Vec<(i64, u32)>,
}

impl Digest {
    /// How many rows fall into each minute that has any, ascending; the minute is time divided by
    /// [`MINUTE_US`], rounded down.
    pub fn minutes(&self) -> &[(i64, u32)] {
        &self.minutes
    }

    /// How many rows have no time.
    pub fn rows_without_time(&self) -> u32 {
        self.rows_without_time
    }

    /// The numbers of the fields that the digest says anything about, ascending.
    pub fn fields(&self) -> impl Iterator<Item = u16> + '_ {
        self.fields.keys().copied()
    }

    /// The aggregates of the numbers of field number `field`, where it has any.
    pub fn numbers(&self, field: u16) -> Option<Numbers> {
        self.fields.get(&field)?.numbers
    }

    /// The value counts of field number `field`; `None` where they are not kept.
    pub fn values(&self, field: u16) -> Result<Option<ValueCounts>> {
        let place = self.fields.get(&field).and_then(|digest| digest.values.clone());
        let encoded = place.and_then(|place| self.encoded.get(place));
        encoded
            .map(|bytes| read_counts(&mut Cursor::new(bytes)))
            .transpose()
            .map_err(|e| e.with("field", field))
    }

    /// Reads what [`DigestWriter::finish`] returned: what a fuzzer should reach.
    pub(crate) fn decode(encoded: Vec<u8>) -> Result<Digest> {
        let mut cursor = Cursor::new(&encoded);
        let rows_without_time = cursor.varint_u32()?;
        let minutes = read_series(&mut cursor)?;
        let mut fields = BTreeMap::new();
        while !cursor.is_empty() {
            let number = cursor.varint()?;
            let number =
                u16::try_from(number).map_err(|_| Error::corrupt("a digest names an impossible field"))?;
            let numbers = read_numbers(&mut cursor)?;
            let values = cursor.bytes()?.len();
            let end = encoded.len() - cursor.rest().len();
            let values = (values > 0).then(|| end - values..end);
            fields.insert(number, FieldDigest { numbers, values });
        }
        Ok(Digest { encoded, minutes, rows_without_time, fields })
    }
}

/// Collects a digest field by field.
pub(crate) struct DigestWriter(Vec<u8>);

impl DigestWriter {
    /// Of rows whose times ascend; those without time are only counted.
    pub(crate) fn new(times: &[i64], rows_without_time: u32) -> Self {
        let mut out = Vec::new();
        put_varint(&mut out, u64::from(rows_without_time));
        put_series(&mut out, &count_by(times.iter().map(|time| time.div_euclid(MINUTE_US))));
        DigestWriter(out)
    }

    /// Adds what is known of field number `field`; `counts` ascend by value.
    pub(crate) fn add(&mut self, field: u16, numbers: Option<Numbers>, counts: Option<&ValueCounts>) {
        if numbers.is_none() && counts.is_none() {
            return;
        }
        put_varint(&mut self.0, u64::from(field));
        put_numbers(&mut self.0, numbers);
        let mut encoded = Vec::new();
        if let Some(counts) = counts {
            put_counts(&mut encoded, counts);
        }
        put_bytes(&mut self.0, &encoded);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// How often each number is in an ascending series.
pub(crate) fn count_by(ascending: impl Iterator<Item = i64>) -> Vec<(i64, u32)> {
    let mut counts: Vec<(i64, u32)> = Vec::new();
    for number in ascending {
        match counts.last_mut() {
            Some((last, count)) if *last == number => *count += 1,
            _ => counts.push((number, 1)),
        }
    }
    counts
}

fn put_series(out: &mut Vec<u8>, series: &[(i64, u32)]) {
    put_varint(out, series.len() as u64);
    let mut last = 0i64;
    for (number, count) in series {
        put_signed(out, number.wrapping_sub(last));
        put_varint(out, u64::from(*count));
        last = *number;
    }
}

fn read_series(cursor: &mut Cursor<'_>) -> Result<Vec<(i64, u32)>> {
    let count = cursor.varint_usize()?;
    let mut series: Vec<(i64, u32)> = Vec::new();
    for _ in 0..count {
        let last = series.last().map(|(number, _)| *number);
        let number = last.unwrap_or(0).wrapping_add(read_signed(cursor)?);
        if last.is_some_and(|last| number <= last) {
            return Err(Error::corrupt("the times of a digest do not ascend"));
        }
        series.push((number, cursor.varint_u32()?));
    }
    Ok(series)
}

fn put_numbers(out: &mut Vec<u8>, numbers: Option<Numbers>) {
    match numbers {
        None => out.push(0),
        Some(Numbers::Long { count, min, max, sum }) => {
            out.push(1);
            put_varint(out, count);
            put_signed(out, min);
            put_signed(out, max);
            out.extend_from_slice(&sum.to_le_bytes());
        }
        Some(Numbers::Double { count, min, max, sum }) => {
            out.push(2);
            put_varint(out, count);
            for number in [min, max, sum] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
}

fn read_numbers(cursor: &mut Cursor<'_>) -> Result<Option<Numbers>> {
    match cursor.u8()? {
        0 => Ok(None),
        1 => {
            let (count, min, max) = (cursor.varint()?, read_signed(cursor)?, read_signed(cursor)?);
            let (low, high) = (cursor.u64_le()?, cursor.u64_le()?);
            let sum = (u128::from(high) << 64 | u128::from(low)) as i128;
            Ok(Some(Numbers::Long { count, min, max, sum }))
        }
        2 => {
            let count = cursor.varint()?;
            let mut number = || cursor.u64_le().map(f64::from_bits);
            Ok(Some(Numbers::Double { count, min: number()?, max: number()?, sum: number()? }))
        }
        form => Err(Error::corrupt("the numbers of a digest have an unknown form").with("form", form)),
    }
}

fn put_counts(out: &mut Vec<u8>, counts: &ValueCounts) {
    out.push(u8::from(counts.bucketed));
    put_varint(out, counts.values.len() as u64);
    for ValueCount { value, rows, buckets } in &counts.values {
        match value {
            DigestValue::Boolean(truth) => out.extend_from_slice(&[0, u8::from(*truth)]),
            DigestValue::Long(number) => {
                out.push(1);
                put_signed(out, *number);
            }
            DigestValue::Text(text) => {
                out.push(2);
                put_bytes(out, text.as_bytes());
            }
        }
        put_varint(out, u64::from(*rows));
        if counts.bucketed {
            put_series(out, buckets);
        }
    }
}

fn read_counts(cursor: &mut Cursor<'_>) -> Result<ValueCounts> {
    let bucketed = cursor.u8()? == 1;
    let count = cursor.varint_usize()?;
    let mut values = Vec::new();
    for _ in 0..count {
        let value = match cursor.u8()? {
            0 => DigestValue::Boolean(cursor.u8()? == 1),
            1 => DigestValue::Long(read_signed(cursor)?),
            2 => DigestValue::Text(read_text(cursor)?),
            form => return Err(Error::corrupt("a value of a digest has an unknown form").with("form", form)),
        };
        let rows = cursor.varint_u32()?;
        let buckets = if bucketed { read_series(cursor)? } else { Vec::new() };
        values.push(ValueCount { value, rows, buckets });
    }
    Ok(ValueCounts { values, bucketed })
}

#[cfg(test)]
mod tests;
