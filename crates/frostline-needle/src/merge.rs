//! Joins segments: runs of single splits, and what was joined before.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{ByteRange, Error, Result, SplitId};

use crate::directory::{Directory, key_bits_for};
use crate::field_table::{ANY_FIELD, FieldTable, Missing};
use crate::page::{Page, Pair, Place};
use crate::segment::Segment;
use crate::split_set::{SPLITS_MAX, SplitSet};
use crate::writer::{SegmentWriter, Written};

/// A segment that is to be joined, and how its pages are read.
pub struct Input<R> {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Returns these bytes of its file. It is asked for every byte of the pages once, in order.
    pub read: R,
}

/// How to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeOptions {
    /// How many splits the result may later be merged to. What is not to be merged again is smaller.
    pub grows_to: usize,
    /// Inputs are read in pieces of at most so many bytes, or of one page.
    pub read_bytes: u64,
}

impl Default for MergeOptions {
    fn default() -> Self {
        MergeOptions { grows_to: SPLITS_MAX, read_bytes: 256 << 10 }
    }
}

/// Joins segments of one scope and key into one that answers for all their splits for which `keep` is true; a
/// split that several of them cover is one split. The splits keep the order of the inputs, and so do the bytes of
/// the result: equal inputs give equal bytes.
///
/// Pages stream: of each input at most [`MergeOptions::read_bytes`] or one page is held, and of the result one
/// page. A damaged page is an error, because a segment without it would claim that its terms are in no split.
pub fn merge<R: FnMut(ByteRange) -> Result<Bytes>>(
    inputs: Vec<Input<R>>,
    keep: impl Fn(SplitId) -> bool,
    options: MergeOptions,
    out: impl Write,
) -> Result<Written> {
    let joined = Joined::new(&inputs, keep, options.grows_to)?;
    let key_bits = joined.directory.key_bits;
    let mut writer = SegmentWriter::new(joined.directory, out)?;
    let mut streams = Vec::new();
    for (input, map) in inputs.into_iter().zip(joined.maps) {
        let shift = input.segment.directory().key_bits - key_bits;
        streams.push(Stream::new(input, map, shift, options.read_bytes));
    }
    let mut heads = BinaryHeap::new();
    for (number, stream) in streams.iter_mut().enumerate() {
        heads.extend(stream.next()?.map(|key| Reverse((key, number))));
    }
    let (mut pairs, mut last) = (Vec::new(), None);
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((key, number)) = *head;
        if let Some(last) = last.replace(key).filter(|last| *last != key) {
            put(&mut writer, last, &mut pairs)?;
        }
        let Some(stream) = streams.get_mut(number) else { break };
        pairs.append(&mut stream.pairs);
        match stream.next()? {
            Some(next) if next < key => {
                return Err(Error::corrupt("the keys of a needle segment are not in order"));
            }
            Some(next) => *head = Reverse((next, number)),
            None => drop(PeekMut::pop(head)),
        }
    }
    if let Some(last) = last {
        put(&mut writer, last, &mut pairs)?;
    }
    writer.finish()
}

/// An entry, unless all its splits are left out.
fn put<W: Write>(writer: &mut SegmentWriter<W>, key: u64, pairs: &mut Vec<Pair>) -> Result<()> {
    if !pairs.is_empty() {
        writer.push(key, pairs)?;
    }
    pairs.clear();
    Ok(())
}

/// What numbers of an input become.
struct Map {
    splits: Vec<Option<u16>>,
    sets: Vec<u32>,
}

/// The directory of the result without its pages, and what the inputs' numbers become.
struct Joined {
    directory: Directory,
    maps: Vec<Map>,
}

impl Joined {
    fn new<R>(inputs: &[Input<R>], keep: impl Fn(SplitId) -> bool, grows_to: usize) -> Result<Joined> {
        let directories: Vec<&Directory> = inputs.iter().map(|input| input.segment.directory()).collect();
        let first = directories.first().ok_or_else(|| Error::invalid("no needle segments to merge"))?;
        if directories.iter().any(|one| one.scope != first.scope || one.key_check != first.key_check) {
            return Err(Error::invalid(
                "needle segments of different tables, analysers or keys cannot be merged",
            ));
        }
        let (mut splits, mut numbers) = (Vec::new(), HashMap::new());
        let mut split_maps = Vec::new();
        for directory in &directories {
            let number = |split: &SplitId| {
                keep(*split).then(|| {
                    *numbers.entry(*split).or_insert_with(|| {
                        splits.push(*split);
                        splits.len() as u64 - 1
                    })
                })
            };
            split_maps.push(directory.splits.iter().map(number).collect::<Vec<_>>());
        }
        // Beyond 16 bits there are too many splits, which `Directory::new` refuses.
        let split_maps =
            split_maps.into_iter().map(|map| map.into_iter().map(|n| n.map(|n| n as u16)).collect());
        let split_maps: Vec<Vec<Option<u16>>> = split_maps.collect();
        let (table, set_maps) = join_tables(&directories, &split_maps);
        let pairs = directories.iter().map(|one| one.pairs).sum();
        let covered = directories.iter().map(|one| one.splits.len()).sum();
        let widest = directories.iter().map(|one| one.key_bits).min().unwrap_or(first.key_bits);
        let key_bits = key_bits_for(pairs, covered, grows_to).min(widest);
        let maps = split_maps.into_iter().zip(set_maps).map(|(splits, sets)| Map { splits, sets }).collect();
        let directory = Directory::new(first.scope.clone(), first.key_check, splits, key_bits, table)?;
        Ok(Joined { directory, maps })
    }
}

/// The fields of all inputs, and what the numbers of their sets become.
fn join_tables(directories: &[&Directory], splits: &[Vec<Option<u16>>]) -> (FieldTable, Vec<Vec<u32>>) {
    let mut fields = BTreeMap::<String, Missing>::new();
    let mut others = Missing::default();
    for (directory, map) in directories.iter().zip(splits) {
        let mapped = |set: &SplitSet| -> SplitSet {
            set.iter().filter_map(|split| *map.get(usize::from(split))?).collect()
        };
        others.add_all(directory.table.others(), mapped);
        for (name, missing) in directory.table.fields() {
            fields.entry(name.to_owned()).or_default().add_all(missing, mapped);
        }
    }
    let table = FieldTable::of_fields(fields, others);
    let sets: Vec<Vec<Option<Box<[u16]>>>> = directories
        .iter()
        .map(|directory| {
            let numbers: Vec<Option<u16>> =
                directory.table.fields().map(|(name, _)| table.field(name)).collect();
            let place = |field: &u16| *numbers.get(usize::from(*field))?;
            directory.table.sets().iter().map(|set| set.iter().map(place).collect()).collect()
        })
        .collect();
    let table = table.with_sets(sets.iter().flatten().flatten().cloned());
    let number = |set: &Option<Box<[u16]>>| set.as_ref().map_or(ANY_FIELD, |set| table.set(set));
    let maps = sets.iter().map(|sets| sets.iter().map(number).collect()).collect();
    (table, maps)
}

/// The entries of one input in order, with the numbers of the result.
struct Stream<R> {
    input: Input<R>,
    map: Map,
    /// How many bits the keys lose.
    shift: u32,
    read_bytes: u64,
    seed: u64,
    /// The page that is decoded, and those that were read with it.
    page: Option<(Page, Place)>,
    bytes: Bytes,
    next_page: usize,
    read: Vec<Pair>,
    /// Of the entry that [`Stream::next`] returned the key of.
    pairs: Vec<Pair>,
}

impl<R: FnMut(ByteRange) -> Result<Bytes>> Stream<R> {
    fn new(input: Input<R>, map: Map, shift: u32, read_bytes: u64) -> Stream<R> {
        let seed = input.segment.seed();
        let (read, pairs) = (Vec::new(), Vec::new());
        Stream {
            input,
            map,
            shift,
            read_bytes,
            seed,
            page: None,
            bytes: Bytes::new(),
            next_page: 0,
            read,
            pairs,
        }
    }

    fn next(&mut self) -> Result<Option<u64>> {
        loop {
            if let Some((page, place)) = &mut self.page
                && let Some(key) = page.next_entry(place, &mut self.read)?
            {
                let Map { splits, sets } = &self.map;
                self.pairs.clear();
                self.pairs.extend(self.read.iter().filter_map(|pair| {
                    let split = *splits.get(usize::from(pair.split))?;
                    let fields = sets.get(pair.fields as usize).copied().unwrap_or(ANY_FIELD);
                    split.map(|split| Pair { fields, split })
                }));
                return Ok(Some(key >> self.shift));
            }
            if !self.open_page()? {
                return Ok(None);
            }
        }
    }

    /// Whether there is another page.
    fn open_page(&mut self) -> Result<bool> {
        let directory = self.input.segment.directory();
        let at = self.next_page;
        let (Some(start), Some(range)) = (directory.starts.get(at), directory.range(at..at + 1)) else {
            return Ok(false);
        };
        let length = (range.end - range.start) as usize;
        if self.bytes.is_empty() {
            let within =
                directory.offsets.partition_point(|end| *end <= range.start.saturating_add(self.read_bytes));
            let wanted = directory.range(at..(within.saturating_sub(1)).max(at + 1)).unwrap_or(range);
            let bytes = wanted.end - wanted.start;
            self.bytes = (self.input.read)(wanted)?;
            if self.bytes.len() as u64 != bytes {
                return Err(Error::corrupt("pages of a needle segment were read in part"));
            }
        }
        if self.bytes.len() < length {
            return Err(Error::corrupt("pages of a needle segment were read in part"));
        }
        let bytes = self.bytes.split_to(length);
        let page = Page::open(&bytes, directory.frame(self.seed, at, *start))?;
        self.page = Some((page, Place::start()));
        self.next_page += 1;
        Ok(true)
    }
}

mod compare;

pub use compare::{Lost, compare};

#[cfg(test)]
mod tests;
