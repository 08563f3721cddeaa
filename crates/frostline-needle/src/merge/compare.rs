//! Compares a segment with what the splits that it covers really have.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use bytes::Bytes;
use frostline_base::{ByteRange, Error, Result, SplitId};

use super::{Input, Joined, Stream};
use crate::directory::Directory;
use crate::field_table::{ANY_FIELD, FieldTable, Kinds};
use crate::page::Pair;
use crate::split_set::SPLITS_MAX;

/// What a segment does not say of a split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Terms, in the fields that have them.
    pub terms: u64,
    /// Fields that have values without terms.
    pub fields: u64,
}

/// What `segment` does not say of the splits of `others`, which it should cover: for each split that lacks something,
/// what. Nothing is lost where the segment was merged from the others, or from segments with the same terms.
///
/// Pages stream as in [`super::merge`].
pub fn compare<R: FnMut(ByteRange) -> Result<Bytes>>(
    segment: Input<R>,
    others: Vec<Input<R>>,
    read_bytes: u64,
) -> Result<BTreeMap<SplitId, Lost>> {
    let covered: Vec<SplitId> = others.iter().flat_map(|input| input.segment.splits()).copied().collect();
    let mut inputs = vec![segment];
    inputs.extend(others);
    let joined = Joined::new(&inputs, |split| covered.contains(&split), SPLITS_MAX)?;
    let splits = joined.directory.splits.clone();
    let mut lost = BTreeMap::<SplitId, Lost>::new();
    for other in inputs.iter().skip(1) {
        for (split, fields) in lost_fields(inputs[0].segment.directory(), other.segment.directory()) {
            lost.entry(split).or_default().fields += fields;
        }
    }
    let widest = inputs.iter().map(|input| input.segment.directory().key_bits).min().unwrap_or(64);
    let mut streams = Vec::new();
    for (input, map) in inputs.into_iter().zip(joined.maps) {
        let shift = input.segment.directory().key_bits - widest;
        streams.push(Stream::new(input, map, shift, read_bytes));
    }
    let mut heads = BinaryHeap::new();
    for (number, stream) in streams.iter_mut().enumerate() {
        heads.extend(stream.next()?.map(|key| Reverse((key, number))));
    }
    // The segment is the first stream, so of each key its pairs come first.
    let (mut said, mut last) = (Vec::new(), None);
    while let Some(Reverse((key, number))) = heads.pop() {
        if last.replace(key) != Some(key) {
            said.clear();
        }
        let Some(stream) = streams.get_mut(number) else { break };
        match number {
            0 => said.extend_from_slice(&stream.pairs),
            _ => {
                for pair in &stream.pairs {
                    if let Some(split) = splits.get(usize::from(pair.split))
                        && !is_said(&joined.directory.table, &said, *pair)
                    {
                        lost.entry(*split).or_default().terms += 1;
                    }
                }
            }
        }
        if let Some(next) = stream.next()? {
            if next < key {
                return Err(Error::corrupt("the keys of a needle segment are not in order"));
            }
            heads.push(Reverse((next, number)));
        }
    }
    Ok(lost)
}

/// Whether the fields of a pair are among those that are said of its split.
fn is_said(table: &FieldTable, said: &[Pair], pair: Pair) -> bool {
    let own = || said.iter().filter(|other| other.split == pair.split);
    let in_field = |field: &u16| own().any(|other| table.contains(other.fields, Some(*field)));
    match table.sets().get(pair.fields as usize) {
        Some(fields) if pair.fields != ANY_FIELD => fields.iter().all(in_field),
        _ => own().next().is_some(),
    }
}

/// Of how many fields of each split it is not said that they have values without terms.
fn lost_fields(segment: &Directory, other: &Directory) -> BTreeMap<SplitId, u64> {
    let place = |split: &SplitId| segment.splits.iter().position(|known| known == split);
    let splits: Vec<(SplitId, Option<usize>)> =
        other.splits.iter().map(|split| (*split, place(split))).collect();
    let mut lost = BTreeMap::new();
    for (name, _) in other.table.fields() {
        for kinds in Kinds::ALL.each() {
            let said = segment.table.missing(Some(name), kinds);
            let has = other.table.missing(Some(name), kinds);
            for (split, place) in has.iter().filter_map(|at| splits.get(usize::from(at))) {
                if !place.is_some_and(|place| said.contains(place as u16)) {
                    *lost.entry(*split).or_insert(0) += 1;
                }
            }
        }
    }
    lost
}

#[cfg(test)]
mod tests;
