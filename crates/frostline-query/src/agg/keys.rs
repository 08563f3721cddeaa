//! Bucket keys, and the table that numbers them.

use std::cmp::Ordering;

use frostline_split::{ValueType, ip_text, parse_ip};
use hashbrown::HashTable;
use serde::{Deserialize, Deserializer, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::column::Scalar;
use crate::filter::FieldRef;

/// The key of a bucket. Ordered within one kind as Elasticsearch orders; kinds follow one another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Key {
    /// No value (composite with missing_bucket).
    Null,
    Boolean(bool),
    Long(i64),
    /// A whole number that 64 bits do not hold.
    Big(i128),
    Double(Real),
    /// Microseconds since 1970 UTC.
    Time(i64),
    Text(String),
    Address([u8; 16]),
    /// One key for each source of a composite or of `multi_terms`, none of them a tuple.
    Tuple(#[serde(deserialize_with = "parts_of_tuple")] Vec<Key>),
}

/// What a tuple may hold: the kinds of [`Key`] before it, in their order. Stored keys are read as these,
/// so that no bytes make keys nest.
#[derive(Deserialize)]
enum Part {
    Null,
    Boolean(bool),
    Long(i64),
    Big(i128),
    Double(Real),
    Time(i64),
    Text(String),
    Address([u8; 16]),
}

impl From<Part> for Key {
    fn from(part: Part) -> Key {
        match part {
            Part::Null => Key::Null,
            Part::Boolean(value) => Key::Boolean(value),
            Part::Long(value) => Key::Long(value),
            Part::Big(value) => Key::Big(value),
            Part::Double(value) => Key::Double(value),
            Part::Time(us) => Key::Time(us),
            Part::Text(text) => Key::Text(text),
            Part::Address(address) => Key::Address(address),
        }
    }
}

fn parts_of_tuple<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Key>, D::Error> {
    let parts: Vec<Part> = Vec::deserialize(deserializer)?;
    Ok(parts.into_iter().map(Key::from).collect())
}

/// A double with a total order; both zeros are one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Real(pub f64);

impl Real {
    fn canonical(self) -> f64 {
        if self.0 == 0.0 { 0.0 } else { self.0 }
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Real) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Real) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Real) -> Ordering {
        self.canonical().total_cmp(&other.canonical())
    }
}

impl std::hash::Hash for Real {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.canonical().to_bits().hash(state);
    }
}

/// What an entry of a table of numbers takes: itself, its tag, and the eighth that stays free.
pub(super) const TABLE_ENTRY: usize = 6;
/// About how much an allocation takes beside what it holds.
const ALLOCATION: usize = 16;

impl Key {
    pub(super) fn bytes(&self) -> usize {
        size_of::<Key>() + self.heap_bytes()
    }

    /// What it takes elsewhere, with what the allocator adds.
    fn heap_bytes(&self) -> usize {
        match self {
            Key::Text(text) => text.len() + ALLOCATION,
            Key::Tuple(keys) => keys.iter().map(Key::bytes).sum::<usize>() + ALLOCATION,
            _ => 0,
        }
    }

    fn hash64(&self) -> u64 {
        match self {
            Key::Null => mix(1),
            Key::Boolean(value) => mix(2 + u64::from(*value)),
            Key::Long(value) => mix(*value as u64),
            Key::Big(value) => big_hash(*value),
            Key::Double(value) => mix(value.canonical().to_bits()),
            Key::Time(value) => mix(*value as u64),
            Key::Text(text) => xxh3_64(text.as_bytes()),
            Key::Address(address) => xxh3_64(address),
            Key::Tuple(keys) => keys.iter().fold(7, |hash, key| mix(hash ^ key.hash64())),
        }
    }

    /// The value as text, as a document would write it.
    pub(super) fn text(&self) -> String {
        match self {
            Key::Null => String::new(),
            Key::Boolean(value) => value.to_string(),
            Key::Long(value) => value.to_string(),
            Key::Big(value) => value.to_string(),
            Key::Double(value) => {
                serde_json::Number::from_f64(value.0).map_or_else(String::new, |n| n.to_string())
            }
            Key::Time(us) => super::time::DateFormat::iso().text(*us),
            Key::Text(text) => text.clone(),
            Key::Address(address) => ip_text(address),
            Key::Tuple(keys) => keys.iter().map(Key::text).collect::<Vec<_>>().join("|"),
        }
    }

    pub(super) fn scalar(&self) -> Option<Scalar<'_>> {
        Some(match self {
            Key::Boolean(value) => Scalar::Boolean(*value),
            Key::Long(value) => Scalar::Long(*value),
            Key::Big(value) => Scalar::Big(*value),
            Key::Double(value) => Scalar::Double(value.0),
            Key::Time(us) => Scalar::Time(*us),
            Key::Text(text) => Scalar::Text(text),
            Key::Null | Key::Address(_) | Key::Tuple(_) => return None,
        })
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Key::Boolean(value) => Some(f64::from(u8::from(*value))),
            Key::Long(value) => Some(*value as f64),
            Key::Big(value) => Some(*value as f64),
            Key::Double(value) => Some(value.0),
            Key::Time(us) => Some(us.div_euclid(1000) as f64),
            _ => None,
        }
    }
}

/// A position in the list of fields of an aggregation tree.
pub(super) type FieldIndex = usize;

/// What the keys of a field are, so that a value has the same key in whichever split it is, and a field that
/// is a number here and text there has one key for `404` and `"404"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Common {
    /// All values have one type, or are whole numbers; the values themselves.
    #[default]
    Same,
    /// Addresses, in their order.
    Address,
    /// Whole and other numbers; doubles.
    Double,
    /// Anything else; the values as text.
    Text,
    /// The words of texts.
    Words,
}

impl Common {
    /// For values of a field and what stands for none.
    pub(super) fn of(field: &FieldRef, missing: Option<&Key>) -> Common {
        let is_address = |key: &Key| matches!(key, Key::Text(text) if parse_ip(text).is_some());
        if field.has_addresses_alone() && missing.is_none_or(is_address) {
            return Common::Address;
        }
        let kinds = field.types().map(|ty| match ty {
            ValueType::Boolean => 0,
            ValueType::Long | ValueType::Big => 1,
            ValueType::Double => 2,
            ValueType::Date => 3,
            ValueType::Ip | ValueType::Text => 4,
        });
        let missing = missing.and_then(|key| match key {
            Key::Boolean(_) => Some(0),
            Key::Long(_) | Key::Big(_) => Some(1),
            Key::Double(_) => Some(2),
            Key::Time(_) => Some(3),
            Key::Text(_) => Some(4),
            Key::Null | Key::Address(_) | Key::Tuple(_) => None,
        });
        let kinds = kinds.chain(missing).fold(0u8, |all, kind| all | 1 << kind);
        match kinds {
            kinds if kinds.count_ones() <= 1 => Common::Same,
            0b00110 => Common::Double,
            _ => Common::Text,
        }
    }

    /// Times are kept to the millisecond, as keys are answered.
    pub(super) fn key(self, value: Scalar<'_>) -> Key {
        let value = match value {
            Scalar::Time(us) => Scalar::Time(us - us.rem_euclid(1000)),
            other => other,
        };
        match (self, value) {
            (Common::Double, Scalar::Long(value)) => Key::Double(Real(value as f64)),
            (Common::Double, Scalar::Big(value)) => Key::Double(Real(value as f64)),
            (Common::Text, Scalar::Double(value)) if value.fract() == 0.0 && value.abs() < 9e18 => {
                Key::Text((value as i64).to_string())
            }
            (Common::Text, Scalar::Text(text)) => Key::Text(text.to_owned()),
            (Common::Text, value) => Key::Text(value.key().text()),
            (Common::Address, Scalar::Text(text)) => {
                parse_ip(text).map_or_else(|| Key::Text(text.to_owned()), Key::Address)
            }
            _ => value.key(),
        }
    }
}

impl Scalar<'_> {
    pub(super) fn key(self) -> Key {
        match self {
            Scalar::Boolean(value) => Key::Boolean(value),
            Scalar::Long(value) => Key::Long(value),
            Scalar::Double(value) => Key::Double(Real(value)),
            Scalar::Big(value) => i64::try_from(value).map_or(Key::Big(value), Key::Long),
            Scalar::Time(us) => Key::Time(us),
            Scalar::Text(text) => Key::Text(text.to_owned()),
        }
    }

    fn hash64(self) -> u64 {
        match self {
            Scalar::Boolean(value) => Key::Boolean(value).hash64(),
            Scalar::Long(value) => mix(value as u64),
            Scalar::Double(value) => Key::Double(Real(value)).hash64(),
            Scalar::Big(value) => {
                i64::try_from(value).map_or_else(|_| big_hash(value), |value| mix(value as u64))
            }
            Scalar::Time(us) => mix(us as u64),
            Scalar::Text(text) => xxh3_64(text.as_bytes()),
        }
    }

    fn is(self, key: &Key) -> bool {
        match (self, key) {
            (Scalar::Boolean(a), Key::Boolean(b)) => a == *b,
            (Scalar::Long(a), Key::Long(b)) => a == *b,
            (Scalar::Double(a), Key::Double(b)) => Real(a) == *b,
            (Scalar::Time(a), Key::Time(b)) => a == *b,
            (Scalar::Text(a), Key::Text(b)) => a == b,
            (Scalar::Big(a), Key::Big(b)) => a == *b,
            (Scalar::Big(a), Key::Long(b)) => a == i128::from(*b),
            _ => false,
        }
    }
}

/// Numbers keys in the order in which they are first seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct KeyTable {
    keys: Vec<Key>,
    #[serde(skip)]
    index: HashTable<u32>,
    #[serde(skip)]
    bytes: usize,
}

impl KeyTable {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The heap that the keys take.
    pub(super) fn bytes(&self) -> usize {
        let is_counted = self.index.len() == self.keys.len();
        let heap = if is_counted { self.bytes } else { self.keys.iter().map(Key::heap_bytes).sum() };
        heap + self.keys.capacity() * size_of::<Key>() + self.index.capacity() * TABLE_ENTRY
    }

    /// Creates the index again after the table was read back.
    pub(super) fn rebuild(&mut self) {
        if self.index.len() == self.keys.len() {
            return;
        }
        self.index.clear();
        self.bytes = self.keys.iter().map(Key::heap_bytes).sum();
        for (id, key) in self.keys.iter().enumerate() {
            let keys = &self.keys;
            self.index.insert_unique(key.hash64(), id as u32, |id| keys[*id as usize].hash64());
        }
    }

    pub(super) fn scalar(&mut self, value: Scalar<'_>) -> u32 {
        let hash = value.hash64();
        match self.index.find(hash, |id| value.is(&self.keys[*id as usize])) {
            Some(id) => *id,
            None => self.push(value.key(), hash),
        }
    }

    pub(super) fn key(&mut self, key: &Key) -> u32 {
        let hash = key.hash64();
        match self.index.find(hash, |id| self.keys[*id as usize] == *key) {
            Some(id) => *id,
            None => self.push(key.clone(), hash),
        }
    }

    fn push(&mut self, key: Key, hash: u64) -> u32 {
        let id = self.keys.len() as u32;
        self.bytes += key.heap_bytes();
        self.keys.push(key);
        let keys = &self.keys;
        self.index.insert_unique(hash, id, |id| keys[*id as usize].hash64());
        id
    }
}

/// Numbers by their value, whatever they are; all else by kind, then by value.
pub(super) fn compare_keys(a: &Key, b: &Key) -> Ordering {
    match (a, b) {
        (Key::Long(a), Key::Double(b)) => Real(*a as f64).cmp(b),
        (Key::Double(a), Key::Long(b)) => a.cmp(&Real(*b as f64)),
        (Key::Big(a), Key::Double(b)) => Real(*a as f64).cmp(b),
        (Key::Double(a), Key::Big(b)) => a.cmp(&Real(*b as f64)),
        (Key::Long(a), Key::Big(b)) => i128::from(*a).cmp(b),
        (Key::Big(a), Key::Long(b)) => a.cmp(&i128::from(*b)),
        (Key::Time(us), Key::Long(ms)) => us.cmp(&ms.saturating_mul(1000)),
        (Key::Long(ms), Key::Time(us)) => ms.saturating_mul(1000).cmp(us),
        (Key::Tuple(a), Key::Tuple(b)) => {
            let parts = a.iter().zip(b).map(|(a, b)| compare_keys(a, b));
            parts.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
        }
        _ => a.cmp(b),
    }
}

fn big_hash(value: i128) -> u64 {
    mix(value as u64 ^ mix((value >> 64) as u64))
}

/// Spreads the bits of a number (the finalizer of splitmix64).
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
