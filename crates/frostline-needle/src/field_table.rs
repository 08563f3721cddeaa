//! The fields of a segment: their names, the sets of them that terms occur in, and the values that no term stands
//! for.
//!
//! Both tables are bounded. A field or a set beyond the bounds becomes *any field*, which every question about a
//! field takes for its own: such questions then open more, never fewer splits.

use std::collections::BTreeMap;
use std::ops::BitOr;

use frostline_base::bytes_codec::{Cursor, put_varint};
use frostline_base::{Error, Result};

use crate::split_set::SplitSet;

/// The number of the set of fields that contains every field, also those that the table does not name.
pub(crate) const ANY_FIELD: u32 = 0;
/// At most so many fields are named, the first in the order of their names.
pub(crate) const FIELDS_MAX: usize = 32_768;
/// Their names have at most so many bytes together.
const NAME_BYTES_MAX: usize = 4 << 20;
/// At most so many sets are kept, the smallest.
const FIELD_SETS_MAX: usize = 32_768;
/// A larger set is any field.
const FIELDS_PER_SET_MAX: usize = 255;

/// Kinds of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kinds(u8);

impl Kinds {
    /// Texts.
    pub const TEXT: Kinds = Kinds(1);
    /// Whole numbers.
    pub const WHOLE: Kinds = Kinds(2);
    /// Numbers with a fraction.
    pub const FRACTION: Kinds = Kinds(4);
    /// Dates.
    pub const DATE: Kinds = Kinds(8);
    /// Addresses.
    pub const ADDRESS: Kinds = Kinds(16);
    /// Booleans.
    pub const BOOLEAN: Kinds = Kinds(32);
    /// Values of every kind.
    pub const ALL: Kinds = Kinds(0xff);

    fn meet(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    /// Each kind by itself.
    pub(crate) fn each(self) -> impl Iterator<Item = Kinds> {
        (0..8).map(|bit| Kinds(1 << bit)).filter(move |kind| self.meet(*kind))
    }
}

impl BitOr for Kinds {
    type Output = Kinds;

    fn bitor(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }
}

/// For each kind of which some values have no terms: the splits that have such values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Missing(BTreeMap<Kinds, SplitSet>);

impl Missing {
    pub(crate) fn add(&mut self, kinds: Kinds, splits: SplitSet) {
        if !splits.is_empty() {
            kinds.each().for_each(|kind| *self.0.entry(kind).or_insert(SplitSet::EMPTY) |= splits);
        }
    }

    pub(crate) fn add_all(&mut self, other: &Missing, map: impl Fn(&SplitSet) -> SplitSet) {
        other.0.iter().for_each(|(kinds, splits)| self.add(*kinds, map(splits)));
    }

    /// The splits that have values of any of these kinds.
    pub(crate) fn splits(&self, kinds: Kinds) -> SplitSet {
        let mut all = SplitSet::EMPTY;
        self.0.iter().filter(|(missing, _)| missing.meet(kinds)).for_each(|(_, splits)| all |= *splits);
        all
    }

    fn put(&self, splits: usize, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        for (kind, set) in &self.0 {
            out.push(kind.0);
            put_varint(out, set.len() as u64);
            let mut next = 0;
            for split in set.iter().filter(|_| set.len() < splits) {
                put_varint(out, u64::from(split - next));
                next = split + 1;
            }
        }
    }

    fn read(cursor: &mut Cursor<'_>, splits: usize) -> Result<Missing> {
        let beyond = || Error::corrupt("a needle segment names a split that it does not cover");
        let mut missing = Missing::default();
        for _ in 0..cursor.varint()? {
            let kind = Kinds(cursor.u8()?);
            let is_next = missing.0.last_key_value().is_none_or(|(last, _)| *last < kind);
            let count = cursor.varint_usize()?;
            if count > splits || !is_next || !kind.0.is_power_of_two() {
                return Err(beyond());
            }
            let (mut set, mut next) = (SplitSet::EMPTY, 0u32);
            if count == splits {
                set = SplitSet::first(splits);
            }
            for _ in 0..if count < splits { count } else { 0 } {
                let split = next.checked_add(cursor.varint_u32()?);
                let split = split.filter(|split| (*split as usize) < splits).ok_or_else(beyond)?;
                set.insert(split as u16);
                next = split + 1;
            }
            missing.add(kind, set);
        }
        Ok(missing)
    }
}

/// The fields and sets of fields of a segment, each with its number: its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldTable {
    /// In the order of their names.
    fields: Vec<(String, Missing)>,
    /// Of fields that the table does not name.
    others: Missing,
    /// Of all fields.
    anywhere: Missing,
    /// In the order of their sizes, then of their fields; the first one, of no field, stands for any field.
    sets: Vec<Box<[u16]>>,
}

impl FieldTable {
    /// The table of these fields, within its bounds.
    pub(crate) fn of_fields(all: BTreeMap<String, Missing>, mut others: Missing) -> FieldTable {
        let (mut fields, mut name_bytes, mut anywhere) = (Vec::new(), 0, others.clone());
        for (name, missing) in all {
            anywhere.add_all(&missing, |splits| *splits);
            name_bytes += name.len();
            if fields.len() < FIELDS_MAX && name_bytes <= NAME_BYTES_MAX {
                fields.push((name, missing));
            } else {
                others.add_all(&missing, |splits| *splits);
                name_bytes = usize::MAX / 2;
            }
        }
        FieldTable { fields, others, anywhere, sets: vec![Box::default()] }
    }

    /// Adds sets of fields, each ascending; those that are too large or too many are left out.
    pub(crate) fn with_sets(mut self, sets: impl IntoIterator<Item = Box<[u16]>>) -> FieldTable {
        self.sets.extend(sets.into_iter().filter(|set| (1..=FIELDS_PER_SET_MAX).contains(&set.len())));
        self.sets.sort_unstable_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        self.sets.dedup();
        self.sets.truncate(FIELD_SETS_MAX);
        self
    }

    /// The number of a field; none where the table does not name it.
    pub(crate) fn field(&self, name: &str) -> Option<u16> {
        let at = self.fields.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        u16::try_from(at).ok()
    }

    /// The number of a set, [`ANY_FIELD`] where the table has no such set.
    pub(crate) fn set(&self, fields: &[u16]) -> u32 {
        let found =
            self.sets.binary_search_by(|known| (known.len(), &known[..]).cmp(&(fields.len(), fields)));
        found.map_or(ANY_FIELD, |at| at as u32)
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &Missing)> {
        self.fields.iter().map(|(name, missing)| (name.as_str(), missing))
    }

    pub(crate) fn others(&self) -> &Missing {
        &self.others
    }

    pub(crate) fn sets(&self) -> &[Box<[u16]>] {
        &self.sets
    }

    /// Whether a set of the table may contain a field of this number, none for one that the table does not name.
    pub(crate) fn contains(&self, set: u32, field: Option<u16>) -> bool {
        set == ANY_FIELD
            || self
                .sets
                .get(set as usize)
                .is_none_or(|fields| field.is_some_and(|field| fields.binary_search(&field).is_ok()))
    }

    /// The splits in which values of these kinds, of the field or of all fields, have no terms.
    pub(crate) fn missing(&self, field: Option<&str>, kinds: Kinds) -> SplitSet {
        let Some(name) = field else { return self.anywhere.splits(kinds) };
        let mut splits = self.others.splits(kinds);
        if let Some((_, missing)) = self.field(name).and_then(|at| self.fields.get(usize::from(at))) {
            splits |= missing.splits(kinds);
        }
        splits
    }

    /// About how much memory it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let sets: usize = self.sets.iter().map(|set| set.len() * 2 + size_of::<Box<[u16]>>()).sum();
        let missing = |missing: &Missing| missing.0.len() * size_of::<(Kinds, SplitSet)>();
        let field = |(name, without): &(String, Missing)| {
            name.capacity() + size_of::<(String, Missing)>() + missing(without)
        };
        self.fields.iter().map(field).sum::<usize>() + missing(&self.others) + sets
    }

    pub(crate) fn put(&self, splits: usize, out: &mut Vec<u8>) {
        put_varint(out, self.fields.len() as u64);
        let mut before: &[u8] = &[];
        for (name, missing) in &self.fields {
            put_front_coded(out, before, name.as_bytes(), |out, rest| out.extend_from_slice(rest));
            missing.put(splits, out);
            before = name.as_bytes();
        }
        self.others.put(splits, out);
        put_varint(out, self.sets.len() as u64 - 1);
        let mut before = Vec::new();
        for set in self.sets.iter().skip(1) {
            let gaps = gaps(set);
            put_front_coded(out, &before, &gaps, |out, rest| {
                rest.iter().for_each(|gap| put_varint(out, u64::from(*gap)));
            });
            before = gaps;
        }
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>, splits: usize) -> Result<FieldTable> {
        let disorder = || Error::corrupt("the fields of a needle segment are not in order");
        let (mut fields, mut before, mut name_bytes) = (Vec::<(String, Missing)>::new(), Vec::new(), 0);
        let count = at_most(cursor.varint_usize()?, FIELDS_MAX)?;
        for _ in 0..count {
            let rest = read_front_coded(cursor, &mut before, NAME_BYTES_MAX)?;
            name_bytes += before.len() + rest;
            if name_bytes > NAME_BYTES_MAX {
                return Err(disorder());
            }
            before.extend_from_slice(cursor.take(rest)?);
            let name = String::from_utf8(before.clone())
                .map_err(|_| Error::corrupt("the name of a field of a needle segment is not UTF-8"))?;
            if fields.last().is_some_and(|(last, _)| *last >= name) {
                return Err(disorder());
            }
            fields.push((name, Missing::read(cursor, splits)?));
        }
        let others = Missing::read(cursor, splits)?;
        let mut anywhere = others.clone();
        fields.iter().for_each(|(_, missing)| anywhere.add_all(missing, |splits| *splits));
        let (mut sets, mut before) = (vec![Box::<[u16]>::default()], Vec::new());
        for _ in 0..at_most(cursor.varint_usize()?, FIELD_SETS_MAX)? {
            let rest = read_front_coded(cursor, &mut before, FIELDS_PER_SET_MAX)?;
            for _ in 0..rest {
                before.push(u16::try_from(cursor.varint()?).map_err(|_| disorder())?);
            }
            let mut next = 0usize;
            let set = before.iter().map(|gap: &u16| {
                let field = next + usize::from(*gap);
                next = field + 1;
                u16::try_from(field).ok().filter(|_| field < count)
            });
            let set = set.collect::<Option<Box<[u16]>>>().ok_or_else(disorder)?;
            if sets.last().is_some_and(|last| (last.len(), last) >= (set.len(), &set)) {
                return Err(disorder());
            }
            sets.push(set);
        }
        Ok(FieldTable { fields, others, anywhere, sets })
    }
}

/// How many fields are skipped before each one of a set.
fn gaps(set: &[u16]) -> Vec<u16> {
    let before = std::iter::once(None).chain(set.iter().map(Some));
    before.zip(set).map(|(before, field)| field - before.map_or(0, |before| before + 1)).collect()
}

fn at_most(count: usize, max: usize) -> Result<usize> {
    let many = || {
        Error::corrupt("a needle segment has more fields or sets of them than there may be")
            .with("count", count)
    };
    (count <= max).then_some(count).ok_or_else(many)
}

/// What `next` shares with the one before, how much follows, and what follows.
fn put_front_coded<T: PartialEq>(
    out: &mut Vec<u8>,
    before: &[T],
    next: &[T],
    put: impl Fn(&mut Vec<u8>, &[T]),
) {
    let shared = before.iter().zip(next).take_while(|(a, b)| a == b).count();
    put_varint(out, shared as u64);
    put_varint(out, (next.len() - shared) as u64);
    put(out, &next[shared..]);
}

/// Shortens the last one to what the next one shares with it; how much follows.
fn read_front_coded<T>(cursor: &mut Cursor<'_>, last: &mut Vec<T>, length_max: usize) -> Result<usize> {
    let (shared, rest) = (cursor.varint_usize()?, cursor.varint_usize()?);
    if shared > last.len() || rest > length_max - shared.min(length_max) {
        return Err(Error::corrupt(
            "a front-coded name shares more than the one before it has, or is too long",
        ));
    }
    last.truncate(shared);
    Ok(rest)
}

#[cfg(test)]
mod tests;
