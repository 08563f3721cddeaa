//! The distinct values of a split being written, each stored once.
//!
//! Logs are repetitive: a collected document is a list of value numbers, and
//! tokenizing, hashing and sorting happen once per value, not once per row.

use hashbrown::HashTable;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::document::Value;
use crate::mapping::ValueType;
use crate::values::Moment;

/// Texts are addressed by 40 bits of offset and 24 of length.
pub(crate) const TEXT_BYTES_MAX: usize = (1 << 24) - 1;

/// Interned values; a value belongs to one reading of one field.
#[derive(Default)]
pub(crate) struct Values {
    entries: Vec<Entry>,
    text: Vec<u8>,
    table: HashTable<u32>,
}

#[derive(Clone, Copy)]
struct Entry {
    /// The bits of a number, the microseconds of a date, or where the text is.
    bits: u64,
    hash: u32,
    reading: u16,
    /// Of a date.
    nanos: u16,
}

pub(crate) fn type_of(value: &Value<'_>) -> ValueType {
    match value {
        Value::Boolean(_) => ValueType::Boolean,
        Value::Long(_) => ValueType::Long,
        Value::Double(_) => ValueType::Double,
        Value::Big(_) => ValueType::Big,
        Value::Date(_) => ValueType::Date,
        Value::Ip(_) => ValueType::Ip,
        Value::Text(_) => ValueType::Text,
    }
}

impl Values {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.text.capacity() + self.table.capacity() * 5
    }

    /// The number of `value` in `reading`.
    pub(crate) fn intern(&mut self, reading: u16, value: &Value<'_>) -> u32 {
        match value {
            Value::Boolean(truth) => self.intern_bits(reading, u64::from(*truth), 0),
            Value::Long(number) => self.intern_bits(reading, *number as u64, 0),
            Value::Date(Moment { time_us, nanos }) => self.intern_bits(reading, *time_us as u64, *nanos),
            Value::Double(number) => self.intern_bits(reading, number.to_bits(), 0),
            Value::Big(text) | Value::Ip(text) | Value::Text(text) => {
                self.intern_text(reading, text.as_bytes())
            }
        }
    }

    fn intern_bits(&mut self, reading: u16, bits: u64, nanos: u16) -> u32 {
        let seed = u64::from(reading) | u64::from(nanos) << 16;
        let hash = xxh3_64_with_seed(&bits.to_le_bytes(), seed) as u32;
        let same = |n: &u32| {
            let entry = self.entries[*n as usize];
            (entry.hash, entry.bits, entry.nanos, entry.reading) == (hash, bits, nanos, reading)
        };
        if let Some(known) = self.table.find(spread(hash), same) {
            return *known;
        }
        self.push(Entry { bits, hash, reading, nanos })
    }

    fn intern_text(&mut self, reading: u16, bytes: &[u8]) -> u32 {
        let hash = xxh3_64(bytes) as u32 ^ u32::from(reading).wrapping_mul(0x9e37_79b9);
        let same = |n: &u32| {
            let entry = &self.entries[*n as usize];
            entry.hash == hash && entry.reading == reading && text_at(&self.text, entry.bits) == bytes
        };
        if let Some(known) = self.table.find(spread(hash), same) {
            return *known;
        }
        let bits = (self.text.len() as u64) << 24 | bytes.len() as u64;
        self.text.extend_from_slice(bytes);
        self.push(Entry { bits, hash, reading, nanos: 0 })
    }

    fn push(&mut self, entry: Entry) -> u32 {
        let number = self.entries.len() as u32;
        let hash = spread(entry.hash);
        self.entries.push(entry);
        let entries = &self.entries;
        self.table.insert_unique(hash, number, |n| spread(entries[*n as usize].hash));
        number
    }

    /// Values are not looked up any more: returns the table's memory.
    pub(crate) fn close(&mut self) {
        self.table = HashTable::new();
    }

    pub(crate) fn reading(&self, number: u32) -> u16 {
        self.entries[number as usize].reading
    }

    /// The bits of a boolean or a number, or the microseconds of a date.
    pub(crate) fn bits(&self, number: u32) -> u64 {
        self.entries[number as usize].bits
    }

    /// The nanoseconds of a date.
    pub(crate) fn nanos(&self, number: u32) -> u16 {
        self.entries[number as usize].nanos
    }

    /// A date.
    pub(crate) fn moment(&self, number: u32) -> Moment {
        Moment { time_us: self.bits(number) as i64, nanos: self.nanos(number) }
    }

    /// The bytes of a text or an address.
    pub(crate) fn bytes(&self, number: u32) -> &[u8] {
        text_at(&self.text, self.entries[number as usize].bits)
    }

    /// The text of a text or an address.
    pub(crate) fn text(&self, number: u32) -> &str {
        // Only whole texts are stored.
        std::str::from_utf8(self.bytes(number)).unwrap_or_default()
    }

    /// The value as it was interned as `ty`.
    pub(crate) fn value(&self, number: u32, ty: ValueType) -> Value<'_> {
        match ty {
            ValueType::Boolean => Value::Boolean(self.bits(number) != 0),
            ValueType::Long => Value::Long(self.bits(number) as i64),
            ValueType::Double => Value::Double(f64::from_bits(self.bits(number))),
            ValueType::Date => Value::Date(self.moment(number)),
            ValueType::Big => Value::Big(self.text(number)),
            ValueType::Ip => Value::Ip(self.text(number)),
            ValueType::Text => Value::Text(self.text(number)),
        }
    }
}

fn text_at(text: &[u8], bits: u64) -> &[u8] {
    let start = (bits >> 24) as usize;
    &text[start..start + (bits & 0xff_ffff) as usize]
}

/// The table tells entries apart by the high bits and finds them by the low ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
