//! Collects the terms of one split.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use frostline_base::{Result, SplitId};

use crate::directory::{Directory, Scope, key_bits_for};
use crate::field_table::{ANY_FIELD, FieldTable, Kinds, Missing};
use crate::page::Pair;
use crate::split_set::{SPLITS_MAX, SplitSet};
use crate::term::{Term, TermHash, TermKey};
use crate::writer::{SegmentWriter, Written};

/// Collects the terms of one split, and seals them as a *run*: a segment of one split.
///
/// It takes every term whole, before anything is cut for the split's own dictionaries. A term may be added any number
/// of times. Before sealing it holds at most 32 bytes for each distinct term of a field, and the names of the fields;
/// sealing adds a quarter of that for the sets of fields and a page.
#[derive(Debug)]
pub struct RunWriter {
    scope: Scope,
    key: TermKey,
    split: SplitId,
    /// Hashes and fields; repeated ones are removed when there are [`RunWriter::full`].
    terms: Vec<(TermHash, u32)>,
    full: usize,
    /// The last pair of each place, so that a word of every line is hardly ever kept twice.
    recent: Box<[(TermHash, u32)]>,
    numbers: HashMap<String, u32>,
    missing: Vec<Kinds>,
    /// The field of the split's terms that come, and the kinds of its values that have none.
    pub(crate) reading: Option<(FieldNumber, Kinds)>,
}

/// The number of a field in one [`RunWriter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldNumber(u32);

/// A power of two, so that a place is the low bits of a hash.
const RECENT: usize = 1 << 14;
/// Removing repeated pairs earlier is not worth it.
const FULL_MIN: usize = 1 << 16;

impl RunWriter {
    /// For the terms of this split.
    pub fn new(scope: Scope, key: TermKey, split: SplitId) -> RunWriter {
        // No field has this number.
        let recent = vec![(TermHash(0), u32::MAX); RECENT].into_boxed_slice();
        let (terms, numbers, missing) = (Vec::new(), HashMap::new(), Vec::new());
        RunWriter { scope, key, split, terms, full: FULL_MIN, recent, numbers, missing, reading: None }
    }

    /// The number of a field. A split has to name every field that it has values in: one that is not named holds
    /// nothing.
    pub fn field(&mut self, name: &str) -> FieldNumber {
        if let Some(number) = self.numbers.get(name) {
            return FieldNumber(*number);
        }
        let number = self.missing.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        self.missing.push(Kinds::default());
        FieldNumber(number)
    }

    /// The split has this term in this field.
    pub fn add(&mut self, field: FieldNumber, term: Term<'_>) {
        let pair = (self.key.hash(term), field.0);
        let place = (pair.0.0 as usize ^ field.0 as usize) % RECENT;
        if std::mem::replace(&mut self.recent[place], pair) == pair {
            return;
        }
        if self.terms.len() == self.full {
            self.forget_repeated();
            self.full = FULL_MIN.max(self.terms.len() * 2);
            self.terms.reserve_exact(self.full - self.terms.len());
        }
        self.terms.push(pair);
    }

    fn forget_repeated(&mut self) {
        self.terms.sort_unstable();
        self.terms.dedup();
    }

    /// Values of these kinds in this field have no terms: who asks for such a value has to open the split.
    pub fn leave_out(&mut self, field: FieldNumber, kinds: Kinds) {
        if let Some(missing) = self.missing.get_mut(field.0 as usize) {
            *missing = *missing | kinds;
        }
    }

    /// About how much memory it holds.
    pub fn memory_bytes(&self) -> usize {
        let names: usize = self.numbers.keys().map(|name| name.len() + size_of::<(String, u32)>() + 1).sum();
        (self.terms.capacity() + RECENT) * size_of::<(TermHash, u32)>() + names + self.missing.len()
    }

    /// Writes the run.
    pub fn seal(mut self, out: impl Write) -> Result<Written> {
        self.forget_repeated();
        let names: BTreeMap<String, Missing> = self
            .numbers
            .iter()
            .map(|(name, number)| {
                let mut missing = Missing::default();
                missing.add(self.missing[*number as usize], SplitSet::first(1));
                (name.clone(), missing)
            })
            .collect();
        let table = FieldTable::of_fields(names, Missing::default());
        let mut places = vec![None; self.missing.len()];
        for (name, number) in &self.numbers {
            places[*number as usize] = table.field(name);
        }

        let pairs = self.terms.chunk_by(|a, b| a.0 == b.0).count() as u64;
        let key_bits = key_bits_for(pairs, 1, SPLITS_MAX);
        let (mut sets, mut set_of) = (HashMap::<Box<[u16]>, u32>::new(), Vec::new());
        let mut set = Vec::new();
        for same in self.terms.chunk_by(|a, b| a.0 == b.0) {
            let number = fields_of(same, &places, &mut set).then(|| match sets.get(&set[..]) {
                Some(number) => *number,
                None => {
                    let number = sets.len() as u32;
                    sets.insert(set.clone().into_boxed_slice(), number);
                    number
                }
            });
            set_of.push(number);
        }
        let table = table.with_sets(sets.keys().cloned());
        let mut numbers = vec![ANY_FIELD; sets.len()];
        for (set, number) in &sets {
            numbers[*number as usize] = table.set(set);
        }

        let directory = Directory::new(self.scope, self.key.check(), vec![self.split], key_bits, table)?;
        let mut writer = SegmentWriter::new(directory, out)?;
        let (mut last, mut pairs) = (None, Vec::new());
        for (same, set) in self.terms.chunk_by(|a, b| a.0 == b.0).zip(set_of) {
            let key = same[0].0.0 >> (64 - key_bits);
            if let Some(last) = last.replace(key).filter(|last| *last != key) {
                writer.push(last, &mut pairs)?;
                pairs.clear();
            }
            let fields = set.and_then(|set| numbers.get(set as usize)).copied().unwrap_or(ANY_FIELD);
            pairs.push(Pair { fields, split: 0 });
        }
        if let Some(last) = last {
            writer.push(last, &mut pairs)?;
        }
        writer.finish()
    }
}

/// The fields of one term, ascending. False where the table does not name all of them.
fn fields_of(same: &[(TermHash, u32)], places: &[Option<u16>], set: &mut Vec<u16>) -> bool {
    set.clear();
    set.extend(same.iter().filter_map(|(_, field)| places[*field as usize]));
    set.sort_unstable();
    set.len() == same.len()
}

#[cfg(test)]
mod tests;
