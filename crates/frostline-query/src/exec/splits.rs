//! The splits of a query, and the numbers by which query and answer refer to them.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use frostline_base::{Cost, ObjectRef, SplitId};
use frostline_catalog::{Index, SplitEntry};
use frostline_split::{FieldType, Mapping, Origin, TIME_FIELD};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::agg::HitAddress;
use crate::exec::report::both;
use crate::filter::Filter;
use crate::language::{IndexVersion, Slice};
use crate::prune::{Pruner, Target, targets};
use crate::read::numbered::{Numbered, NumberedSplit};
use crate::read::open::Searcher;
use crate::read::packs::PackFile;
use crate::{Error, Result};

/// The fields of some indices: a field has the readings that it has in any of them. Where documents have their time in
/// different fields, it is known as `@timestamp`; an index without documents says nothing of that.
pub(crate) fn mapping(indices: &[Arc<Index>]) -> Cow<'_, Mapping> {
    let times = time_fields(indices);
    let is_alike = |index: &&Arc<Index>| times.contains(index.mapping().time_field());
    let mut mappings = indices.iter().filter(is_alike).map(|index| index.mapping());
    let Some(first) = mappings.next() else { return Cow::Owned(Mapping::dynamic()) };
    let mut joined = Cow::Borrowed(first);
    mappings.for_each(|other| joined.to_mut().join(other));
    if times.len() > 1 {
        let mut of_all = joined.into_owned().with_time_field(TIME_FIELD);
        for time in times.into_iter().filter(|time| *time != TIME_FIELD) {
            if of_all.field(time).is_none() {
                // It is known, but what it means is for each index to say.
                let _ = of_all.declare(time, FieldType::Date);
            }
        }
        joined = Cow::Owned(of_all);
    }
    joined
}

/// The fields in which documents of some indices have their time: of those that have documents, or else of the first one.
fn time_fields(indices: &[Arc<Index>]) -> BTreeSet<&str> {
    fn of(index: &Arc<Index>) -> &str {
        index.mapping().time_field()
    }
    let with_documents = indices.iter().filter(|index| !index.splits().is_empty());
    let times: BTreeSet<&str> = with_documents.map(of).collect();
    if times.is_empty() { indices.first().map(of).into_iter().collect() } else { times }
}

/// The time field of [`mapping`].
pub(crate) fn time_field(indices: &[Arc<Index>]) -> &str {
    let times = time_fields(indices);
    times.first().filter(|_| times.len() == 1).copied().unwrap_or(TIME_FIELD)
}

/// The name by which all of these indices know the time of their documents. `Invalid` where there is none.
pub fn time_name(indices: &[Arc<Index>]) -> Result<&str> {
    if time_fields(indices).len() > 1 {
        check_time(indices, TIME_FIELD)?;
    }
    Ok(time_field(indices))
}

/// `Invalid` where a name means the time of the documents of some of these indices and something else in others.
pub(crate) fn check_time(indices: &[Arc<Index>], name: &str) -> Result<()> {
    let with_documents = || indices.iter().filter(|index| !index.splits().is_empty());
    let is_time = |index: &&Arc<Index>| index.mapping().resolve(name).is_time;
    match (with_documents().find(is_time), with_documents().find(|index| !is_time(index))) {
        (Some(one), Some(other)) => Err(Error::invalid(format!(
            "{name:?} is the time of the documents of {}, and not of those of {}, which have it in {:?}: search them \
             separately{}",
            one.name(),
            other.name(),
            other.mapping().time_field(),
            if name == TIME_FIELD { "" } else { ", or use \"@timestamp\" for the time of each" },
        ))),
        _ => Ok(()),
    }
}

/// Splits of one or several indices, ordered by identity, so that their numbers compare as the identities do. A
/// serialized plan carries them completely, so that no catalog is needed to run it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "wire::Splits", into = "wire::Splits")]
pub(crate) struct Splits {
    numbered: Arc<Numbered>,
    /// The places there of those that are meant, ascending; none if all are.
    chosen: Option<Arc<[u32]>>,
    /// What became of the others that were asked for.
    ruled_out: Box<RuledOut>,
}

/// Splits that were ruled out before any was opened, and what it cost to know that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuledOut {
    /// By their times, from the catalog.
    pub(crate) time: u64,
    /// By the query, which nothing can match.
    pub(crate) query: u64,
    /// By needle segments.
    pub(crate) needle: u64,
    /// Of opening the segments.
    pub(crate) opening: Cost,
    /// Of asking them.
    pub(crate) asking: Cost,
}

impl RuledOut {
    pub(crate) fn add(&mut self, other: &RuledOut) {
        self.time += other.time;
        self.query += other.query;
        self.needle += other.needle;
        self.opening = both(&self.opening, &other.opening);
        self.asking = both(&self.asking, &other.asking);
    }
}

impl Splits {
    /// All live splits of these indices.
    pub(crate) fn of(searcher: &Searcher, indices: &[Arc<Index>]) -> Splits {
        Splits::all(searcher.numbered(indices))
    }

    fn all(numbered: Arc<Numbered>) -> Splits {
        Splits { numbered, chosen: None, ruled_out: Box::default() }
    }

    /// Those at these of their places, as if there were no others.
    fn some(&self, places: impl Iterator<Item = usize>) -> Splits {
        let chosen = match &self.chosen {
            None => places.map(|place| place as u32).collect(),
            Some(chosen) => places.map(|place| chosen[place]).collect(),
        };
        Splits { numbered: Arc::clone(&self.numbered), chosen: Some(chosen), ruled_out: Box::default() }
    }

    /// Those of which this is true, as if there were no others.
    fn filtered(&self, mut wanted: impl FnMut(&NumberedSplit) -> bool) -> Splits {
        self.some(self.iter().enumerate().filter(|(_, split)| wanted(split)).map(|(place, _)| place))
    }

    fn iter(&self) -> impl Iterator<Item = &NumberedSplit> {
        (0..self.len()).map(|place| self.at(place))
    }

    fn at(&self, place: usize) -> &NumberedSplit {
        match &self.chosen {
            None => &self.numbered.splits[place],
            Some(chosen) => &self.numbered.splits[chosen[place] as usize],
        }
    }

    /// The place of the one with this key, by which they ascend, or the place that it would have.
    fn search<K: Ord>(&self, key: &K, of: impl Fn(&NumberedSplit) -> K) -> std::result::Result<usize, usize> {
        let all = &self.numbered.splits;
        match &self.chosen {
            None => all.binary_search_by_key(key, of),
            Some(chosen) => chosen.binary_search_by_key(key, |place| of(&all[*place as usize])),
        }
    }

    pub(crate) fn indices(&self) -> &Arc<[IndexVersion]> {
        &self.numbered.indices
    }

    /// The packs that may have their hot footers.
    pub(crate) fn packs(&self) -> Arc<[PackFile]> {
        Arc::clone(&self.numbered.packs)
    }

    pub(crate) fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.numbered.splits.len(), |chosen| chosen.len())
    }

    /// How many they are as Elasticsearch counts shards, of which each index has one at least.
    pub(crate) fn shards(&self) -> u64 {
        let mut is_empty = vec![true; self.numbered.indices.len()];
        for split in self.iter() {
            if let Some(is_empty) = is_empty.get_mut(split.index as usize) {
                *is_empty = false;
            }
        }
        (self.len() + is_empty.into_iter().filter(|is_empty| *is_empty).count()) as u64
    }

    /// Which splits these are, as bytes: the same of the same splits of the same indices.
    pub(crate) fn digest(&self) -> Vec<u8> {
        let mut hash = Xxh3::new();
        self.chosen
            .iter()
            .flat_map(|chosen| chosen.iter())
            .for_each(|place| hash.update(&place.to_le_bytes()));
        let chosen = self.chosen.as_ref().map(|_| hash.digest128());
        [Some(self.numbered.digest()), chosen].into_iter().flatten().flat_map(u128::to_le_bytes).collect()
    }

    /// What was ruled out on the way to these.
    pub(crate) fn ruled_out(&self) -> &RuledOut {
        &self.ruled_out
    }

    /// The splits that may hold matches of the filter by their times; none if nothing can match it.
    pub(crate) fn matching(&self, filter: &Filter) -> Splits {
        let mut pruner = Pruner::new(filter);
        let mut matching = match pruner.everywhere() {
            Some(left) if *left != Filter::None => return self.clone(),
            Some(_) => self.some(std::iter::empty()),
            None => self.filtered(|split| *pruner.left(&split.entry) != Filter::None),
        };
        matching.ruled_out.clone_from(&self.ruled_out);
        let pruned = (self.len() - matching.len()) as u64;
        let ruled_out = &mut matching.ruled_out;
        match pruner.is_impossible() {
            true => ruled_out.query += pruned,
            false => ruled_out.time += pruned,
        }
        matching
    }

    /// Whether each of the splits of an index, by its place there, is among them.
    pub(crate) fn places_in(&self, index: &Index) -> Vec<bool> {
        let (of, mut among) = (self.position_of(index), vec![false; index.splits().len()]);
        for split in self.iter().filter(|split| Some(split.index) == of) {
            if let Some(among) = among.get_mut(split.place as usize) {
                *among = true;
            }
        }
        among
    }

    /// Their places of those that are wanted by their places in these indices.
    pub(crate) fn at_places(&self, indices: &[Arc<Index>], wanted: &[Vec<bool>]) -> RoaringBitmap {
        let mut of_position = vec![None; self.numbered.indices.len()];
        for (index, wanted) in indices.iter().zip(wanted) {
            if let Some(position) = self.position_of(index) {
                of_position[position as usize] = Some(wanted);
            }
        }
        let is_wanted = |split: &NumberedSplit| {
            let of = of_position.get(split.index as usize).copied().flatten();
            of.and_then(|of| of.get(split.place as usize)) != Some(&false)
        };
        (0..).zip(self.iter()).filter(|(_, split)| is_wanted(split)).map(|(at, _)| at).collect()
    }

    fn position_of(&self, index: &Index) -> Option<u32> {
        let of = IndexVersion::of(index);
        (0..).zip(self.numbered.indices.iter()).find(|(_, other)| **other == of).map(|(position, _)| position)
    }

    /// The splits at these places among them, which is what needle segments left.
    pub(crate) fn left_by_needle(&self, places: &RoaringBitmap, asking: Cost) -> Splits {
        let places = places.iter().map(|place| place as usize);
        let mut left = self.some(places.filter(|place| *place < self.len()));
        let needle = (self.len() - left.len()) as u64;
        left.ruled_out.clone_from(&self.ruled_out);
        left.ruled_out.add(&RuledOut { needle, asking, ..RuledOut::default() });
        left
    }

    /// The same after needle segments were opened.
    pub(crate) fn after_opening(mut self, opening: Cost) -> Splits {
        self.ruled_out.add(&RuledOut { opening, ..RuledOut::default() });
        self
    }

    /// The splits of the indices at these positions.
    pub(crate) fn of_indices(&self, positions: &[usize]) -> Splits {
        if positions.len() == self.indices().len() {
            return self.clone();
        }
        let positions: HashSet<usize> = positions.iter().copied().collect();
        self.filtered(|split| positions.contains(&(split.index as usize)))
    }

    /// A part of the splits. Each is in one part, of as many as there are.
    pub(crate) fn slice(&self, slice: Slice) -> Splits {
        self.filtered(|split| split.entry.id.bits() % u128::from(slice.max) == u128::from(slice.id))
    }

    /// The splits with these numbers, which ascend.
    pub(crate) fn only(&self, ordinals: impl Iterator<Item = u32>) -> Splits {
        self.some(ordinals.filter_map(|ordinal| self.search(&ordinal, |split| split.ordinal).ok()))
    }

    /// Divides them into at most `groups` groups, at least one. What was ruled out is told by the first.
    pub(crate) fn groups(&self, groups: usize) -> Vec<Splits> {
        let groups = groups.clamp(1, self.len().max(1));
        let of = |group| self.some((0..self.len()).skip(group).step_by(groups));
        let mut divided: Vec<Splits> = match groups {
            1 => vec![self.clone()],
            _ => (0..groups).map(of).collect(),
        };
        divided.iter_mut().take(1).for_each(|first| first.ruled_out.clone_from(&self.ruled_out));
        divided
    }

    /// The remaining filter for each split that may hold matches.
    pub(crate) fn targets(&self, filter: &Filter) -> Vec<Target> {
        targets(self.iter().map(|split| (split.ordinal, &split.entry)), filter)
    }

    pub(crate) fn ordinals(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter().map(|split| split.ordinal)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<SplitEntry>> {
        self.iter().map(|split| &split.entry)
    }

    /// The split of a number, and its index.
    pub(crate) fn get(&self, ordinal: u32) -> Option<(&Arc<SplitEntry>, &IndexVersion)> {
        let split = self.at(self.search(&ordinal, |split| split.ordinal).ok()?);
        Some((&split.entry, self.numbered.indices.get(split.index as usize)?))
    }

    /// The position of a row among all, as a text that is valid for these versions of the indices.
    pub(crate) fn position(&self, address: HitAddress) -> Option<String> {
        let (entry, _) = self.get(address.split)?;
        let position = Origin { split: entry.id, row: address.row }.to_string();
        // A version that is mounted or restored beside its index has the same splits: their numbers tell them apart.
        let all = &self.numbered.splits;
        let first = all.partition_point(|split| split.entry.id < entry.id);
        let is_shared = all.get(first + 1).is_some_and(|next| next.entry.id == entry.id);
        Some(if is_shared { format!("{position}-{}", address.split) } else { position })
    }

    /// The split and the row at a position; no row if the position is before all of that split.
    pub(crate) fn place(&self, position: &str) -> Option<(u32, Option<u32>)> {
        let (id, row) = position.split('@').next()?.split_once('-')?;
        let (row, ordinal) = row.split_once('-').map_or((row, None), |(row, ordinal)| (row, Some(ordinal)));
        let (id, row): (SplitId, u32) = (id.parse().ok()?, row.parse().ok()?);
        let place = match ordinal {
            None => self.search(&id, |split| split.entry.id),
            Some(ordinal) => self.search(&ordinal.parse().ok()?, |split| split.ordinal),
        };
        Some(match place {
            Ok(place) => (self.at(place).ordinal, Some(row)),
            Err(place) if place < self.len() => (self.at(place).ordinal, None),
            Err(_) => (u32::MAX, None),
        })
    }
}

/// The form in which splits travel: those that are meant, with what the catalog says of them.
mod wire {
    use super::*;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Splits {
        indices: Arc<[IndexVersion]>,
        splits: Vec<Entry>,
        packs: Arc<[PackFile]>,
        ruled_out: RuledOut,
    }

    #[derive(Serialize, Deserialize)]
    struct Entry {
        ordinal: u32,
        index: u32,
        id: SplitId,
        key: String,
        bytes: u64,
        footer: std::ops::Range<u64>,
        rows: u64,
        times: Option<(i64, i64)>,
        rows_without_time: u64,
    }

    impl From<super::Splits> for Splits {
        fn from(splits: super::Splits) -> Splits {
            Splits {
                indices: Arc::clone(splits.indices()),
                splits: splits.iter().map(Entry::of).collect(),
                packs: splits.packs(),
                ruled_out: *splits.ruled_out,
            }
        }
    }

    impl From<Splits> for super::Splits {
        fn from(Splits { indices, splits, packs, ruled_out }: Splits) -> super::Splits {
            let splits = splits.into_iter().map(Entry::numbered).collect();
            let numbered = Arc::new(Numbered::new(indices, splits, packs));
            super::Splits { ruled_out: Box::new(ruled_out), ..super::Splits::all(numbered) }
        }
    }

    impl Entry {
        fn of(split: &NumberedSplit) -> Entry {
            let NumberedSplit { ordinal, index, place: _, entry } = split;
            Entry {
                ordinal: *ordinal,
                index: *index,
                id: entry.id,
                key: entry.object.key.clone(),
                bytes: entry.object.bytes,
                footer: entry.footer.clone(),
                rows: entry.rows,
                times: entry.times,
                rows_without_time: entry.rows_without_time,
            }
        }

        fn numbered(self) -> NumberedSplit {
            let Entry { ordinal, index, id, key, bytes, footer, rows, times, rows_without_time } = self;
            let object = ObjectRef { key, bytes };
            let entry = SplitEntry {
                id,
                object,
                footer,
                rows,
                times,
                rows_without_time,
                unpacked_bytes: None,
                is_merged: false,
            };
            NumberedSplit { ordinal, index, place: 0, entry: Arc::new(entry) }
        }
    }
}
