//! The digest: small exact aggregates of a split, so that counts, time histograms and top values over
//! all its rows are answered without reading data.
//!
//! It always has the number of rows per minute. For a reading of a field it may have the
//! count, extremes, sum, sum of squares and distribution of its numbers, and the number of rows with each of its
//! values, also per ten-minute bucket. Value counts exist only if every row has at most one value of the reading, so
//! that rows and values are the same count, and if there are at most 1,000 distinct values. Whatever is
//! present is exact, save that a [`Distribution`] knows a number only by its bucket; absence means unknown.
//!
//! It is a [`Table`](crate::Table) by field, so that a question reads what it is about: under the empty key the
//! minutes, under the number of a field (big-endian) its aggregates. What would take too much there is left out:
//! first the buckets of a field, then its value counts. In versions 1 and 2 the digest is one piece of the hot footer.

use std::collections::BTreeMap;

use bytes::Bytes;
use frostline_base::{Error, Result};

use crate::bytes_codec::{Cursor, put_bytes, put_varint};
use crate::distribution::Distribution;
use crate::footer::{put_signed, read_signed, read_text};
use crate::table::{Block, BlockBuilder, KeyRange, TableWriter, read_key, unpack_block};

/// A reading with more distinct values has no value counts.
pub(crate) const VALUES_MAX: usize = 1_000;
/// A reading whose values times buckets are more has value counts without buckets.
pub(crate) const CELLS_MAX: usize = 200_000;
/// What a field may have in the table, before compression.
const FIELD_BYTES_MAX: usize = 192 << 10;
/// What a block may hold: the minutes of a split are in one.
pub(crate) const BLOCK_RAW_BYTES_MAX: usize = 4 << 20;
/// The width of a bucket of [`ValueCount::buckets`].
pub const BUCKET_US: i64 = 600_000_000;
/// The width of a minute.
pub const MINUTE_US: i64 = 60_000_000;

/// The aggregates of one split, or those of them that were asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Digest {
    minutes: Vec<(i64, u32)>,
    rows_without_time: u32,
    fields: BTreeMap<u16, FieldDigest>,
}

#[derive(Clone, Debug, PartialEq)]
struct FieldDigest {
    numbers: Option<Numbers>,
    /// The encoded value counts; they are decoded when asked for.
    values: Option<Bytes>,
    squares: Option<Squares>,
    distribution: Option<Distribution>,
}

/// The sum of the squares of all numbers of a reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Squares {
    /// Of whole numbers; exact, or the greatest number where it is beyond that.
    Long(i128),
    /// Of other numbers.
    Double(f64),
}

/// What more is said of a field since version 3, by its tag; other tags are not for this reader.
const SQUARES_LONG: u8 = 1;
const SQUARES_DOUBLE: u8 = 2;
const DISTRIBUTION: u8 = 3;

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

    /// The sum of the squares of the numbers of field number `field`.
    pub fn squares(&self, field: u16) -> Option<Squares> {
        self.fields.get(&field)?.squares
    }

    /// How the numbers of field number `field` are distributed; `None` where they are few, or it is not known.
    pub fn distribution(&self, field: u16) -> Option<&Distribution> {
        self.fields.get(&field)?.distribution.as_ref()
    }

    /// The value counts of field number `field`; `None` where they are not kept.
    pub fn values(&self, field: u16) -> Result<Option<ValueCounts>> {
        let encoded = self.fields.get(&field).and_then(|digest| digest.values.as_ref());
        encoded
            .map(|bytes| read_counts(&mut Cursor::new(bytes)))
            .transpose()
            .map_err(|e| e.with("field", field))
    }

    /// The keys of what is known of these fields and, where wanted, of the times of all rows.
    pub(crate) fn keys(fields: &[u16], with_times: bool) -> Vec<KeyRange> {
        let of_fields = fields.iter().map(|field| field.to_be_bytes().to_vec());
        with_times.then(Vec::new).into_iter().chain(of_fields).map(KeyRange::exact).collect()
    }

    /// What these blocks say of the fields. `None` where the times are wanted and were left out.
    pub(crate) fn of_blocks<'b>(
        fields: &[u16],
        with_times: bool,
        read: impl IntoIterator<Item = (&'b Block, &'b [u8])>,
    ) -> Result<Option<Digest>> {
        let (mut digest, mut has_minutes) = (Digest::default(), false);
        for (block, bytes) in read {
            block.check(bytes)?;
            let raw = unpack_block(bytes, BLOCK_RAW_BYTES_MAX)?;
            has_minutes |= digest.add_block(|field| fields.contains(&field), &raw)?;
        }
        Ok((has_minutes || !with_times).then_some(digest))
    }

    /// Reads a digest that is one block, as in a hot footer of version 3.
    pub(crate) fn of_block(raw: &[u8]) -> Result<Digest> {
        let mut digest = Digest::default();
        digest.add_block(|_| true, raw)?;
        Ok(digest)
    }

    /// Adds what a block says of some fields; whether it has the minutes.
    fn add_block(&mut self, wanted: impl Fn(u16) -> bool, raw: &[u8]) -> Result<bool> {
        let (mut cursor, mut key, mut has_minutes) = (Cursor::new(raw), Vec::new(), false);
        while !cursor.is_empty() {
            read_key(&mut cursor, &mut key)?;
            let mut value = Cursor::new(cursor.bytes()?);
            match key.as_slice() {
                [] => {
                    self.read_whole(&mut value)?;
                    has_minutes = true;
                }
                [high, low] => {
                    let field = u16::from_be_bytes([*high, *low]);
                    if wanted(field) {
                        let mut digest = read_field(&mut value, Bytes::copy_from_slice)?;
                        digest.read_more(&mut value)?;
                        self.fields.insert(field, digest);
                    }
                }
                _ => return Err(Error::corrupt("a digest has a key of no field")),
            }
        }
        Ok(has_minutes)
    }

    /// Reads what is said of the split as a whole.
    fn read_whole(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        self.rows_without_time = cursor.varint_u32()?;
        self.minutes = read_series(cursor)?;
        Ok(())
    }

    /// Reads the digest of version 1 or 2: what a fuzzer should reach.
    pub(crate) fn decode(encoded: Vec<u8>) -> Result<Digest> {
        let encoded = Bytes::from(encoded);
        let mut cursor = Cursor::new(&encoded);
        let mut digest = Digest::default();
        digest.read_whole(&mut cursor)?;
        while !cursor.is_empty() {
            let number = cursor.varint()?;
            let number =
                u16::try_from(number).map_err(|_| Error::corrupt("a digest names an impossible field"))?;
            digest.fields.insert(number, read_field(&mut cursor, |values| encoded.slice_ref(values))?);
        }
        Ok(digest)
    }
}

fn read_field(cursor: &mut Cursor<'_>, keep: impl Fn(&[u8]) -> Bytes) -> Result<FieldDigest> {
    let numbers = read_numbers(cursor)?;
    let values = cursor.bytes()?;
    let values = (!values.is_empty()).then(|| keep(values));
    Ok(FieldDigest { numbers, values, squares: None, distribution: None })
}

impl FieldDigest {
    fn read_more(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        while !cursor.is_empty() {
            let tag = cursor.u8()?;
            let mut said = Cursor::new(cursor.bytes()?);
            match tag {
                SQUARES_LONG => {
                    let (low, high) = (said.u64_le()?, said.u64_le()?);
                    self.squares = Some(Squares::Long((u128::from(high) << 64 | u128::from(low)) as i128));
                }
                SQUARES_DOUBLE => self.squares = Some(Squares::Double(f64::from_bits(said.u64_le()?))),
                DISTRIBUTION => {
                    let distribution = Distribution::read(&mut said)?;
                    if self.numbers.map(|numbers| numbers.count()) != Some(distribution.count()) {
                        return Err(Error::corrupt(
                            "a distribution is of more or fewer numbers than there are",
                        ));
                    }
                    self.distribution = Some(distribution);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Numbers {
    /// How many values.
    pub fn count(&self) -> u64 {
        match self {
            Numbers::Long { count, .. } | Numbers::Double { count, .. } => *count,
        }
    }
}

/// What is known of the numbers of a reading.
#[derive(Debug)]
pub(crate) struct NumberFacts {
    pub(crate) numbers: Numbers,
    pub(crate) squares: Squares,
    pub(crate) distribution: Option<Distribution>,
}

/// Collects a digest field by field.
pub(crate) struct DigestWriter {
    whole: Vec<u8>,
    fields: Vec<Field>,
}

/// What is known of a field of which anything is known.
struct Field {
    number: u16,
    /// As in versions 1 and 2.
    value: Vec<u8>,
    /// What more is known since.
    more: Vec<u8>,
}

impl DigestWriter {
    /// Of rows whose times ascend; those without time are only counted.
    pub(crate) fn new(times: &[i64], rows_without_time: u32) -> Self {
        let mut whole = Vec::new();
        put_varint(&mut whole, u64::from(rows_without_time));
        put_series(&mut whole, &count_by(times.iter().map(|time| time.div_euclid(MINUTE_US))));
        DigestWriter { whole, fields: Vec::new() }
    }

    /// Adds what is known of field number `number`, which is above those before it; `counts` ascend by value.
    pub(crate) fn add(&mut self, number: u16, facts: Option<NumberFacts>, counts: Option<ValueCounts>) {
        let encode = |counts: &ValueCounts| {
            let mut encoded = Vec::new();
            put_counts(&mut encoded, counts);
            Some(encoded).filter(|encoded| encoded.len() <= FIELD_BYTES_MAX)
        };
        let counts = counts.and_then(|mut counts| {
            encode(&counts).or_else(|| {
                counts.bucketed = false;
                encode(&counts)
            })
        });
        if facts.is_none() && counts.is_none() {
            return;
        }
        let (mut value, mut more) = (Vec::new(), Vec::new());
        put_numbers(&mut value, facts.as_ref().map(|facts| facts.numbers));
        put_bytes(&mut value, &counts.unwrap_or_default());
        if let Some(facts) = &facts {
            match facts.squares {
                Squares::Long(sum) => put_tagged(&mut more, SQUARES_LONG, &sum.to_le_bytes()),
                Squares::Double(sum) => put_tagged(&mut more, SQUARES_DOUBLE, &sum.to_le_bytes()),
            }
        }
        if let Some(distribution) = facts.and_then(|facts| facts.distribution) {
            let mut encoded = Vec::new();
            distribution.put(&mut encoded);
            put_tagged(&mut more, DISTRIBUTION, &encoded);
        }
        self.fields.push(Field { number, value, more });
    }

    /// The entries of a table, in order.
    fn each(&self, mut add: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut add = |key: &[u8], value: &[u8]| {
            let mut entry = Vec::with_capacity(value.len() + 5);
            put_bytes(&mut entry, value);
            add(key, &entry)
        };
        if self.whole.len() <= BLOCK_RAW_BYTES_MAX / 2 {
            add(&[], &self.whole)?;
        }
        for Field { number, value, more } in &self.fields {
            add(&number.to_be_bytes(), &[value.as_slice(), more].concat())?;
        }
        Ok(())
    }

    /// As a table.
    pub(crate) fn table(&self, zstd_level: i32) -> Result<TableWriter> {
        let mut table = TableWriter::new(zstd_level)?;
        self.each(|key, entry| table.add(key, entry))?;
        Ok(table)
    }

    /// As one block.
    pub(crate) fn block(&self) -> Result<Vec<u8>> {
        let mut block = BlockBuilder::new();
        self.each(|key, entry| {
            block.add(key, entry);
            Ok(())
        })?;
        Ok(block.take().map(|(_, entries)| entries).unwrap_or_default())
    }

    /// As it is in versions 1 and 2.
    pub(crate) fn version_2(&self) -> Vec<u8> {
        let mut out = self.whole.clone();
        for Field { number, value, .. } in &self.fields {
            put_varint(&mut out, u64::from(*number));
            out.extend_from_slice(value);
        }
        out
    }
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    put_bytes(out, bytes);
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
