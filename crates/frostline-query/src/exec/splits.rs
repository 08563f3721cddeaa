//! The splits of a query, and the numbers by which query and answer refer to them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use frostline_base::{Cost, ObjectRef, SplitId};
use frostline_catalog::{Index, SplitEntry};
use frostline_split::{Mapping, Origin};
use roaring::RoaringBitmap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Result;
use crate::agg::HitAddress;
use crate::exec::report::both;
use crate::filter::Filter;
use crate::language::IndexVersion;
use crate::prune::{Pruner, Target, targets};
use crate::read::packs::PackFile;

/// The fields of some indices: a field has the readings that it has in any of them.
pub(crate) fn mapping(indices: &[Arc<Index>]) -> Result<Cow<'_, Mapping>> {
    let Some((first, others)) = indices.split_first() else { return Ok(Cow::Owned(Mapping::dynamic())) };
    let mut joined = Cow::Borrowed(first.mapping());
    for other in others {
        joined.to_mut().join(other.mapping())?;
    }
    Ok(joined)
}

/// Splits of one or several indices, ordered by identity, so that their numbers compare as the identities do. A
/// serialized plan carries them completely, so that no catalog is needed to run it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Splits {
    pub(crate) indices: Arc<[IndexVersion]>,
    splits: Vec<NumberedSplit>,
    /// The packs of their indices.
    packs: Arc<[PackFile]>,
    /// What became of the others that were asked for.
    ruled_out: Box<RuledOut>,
}

/// Splits that were ruled out before any was opened, and what it cost to know that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuledOut {
    /// By the catalog.
    pub(crate) time: u64,
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
        self.needle += other.needle;
        self.opening = both(&self.opening, &other.opening);
        self.asking = both(&self.asking, &other.asking);
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct NumberedSplit {
    ordinal: u32,
    /// Position of its index.
    index: u32,
    /// Its place in the index, for who makes the plan.
    #[serde(skip)]
    place: u32,
    #[serde(with = "wire")]
    entry: Arc<SplitEntry>,
}

impl Splits {
    /// All live splits of these indices.
    pub(crate) fn of(indices: &[Arc<Index>]) -> Splits {
        let named = (0..).zip(indices);
        let mut splits: Vec<NumberedSplit> = named
            .flat_map(|(index, of)| {
                of.splits().iter().zip(0..).map(move |(entry, place)| (index, entry, place))
            })
            .map(|(index, entry, place)| NumberedSplit { ordinal: 0, index, place, entry: Arc::clone(entry) })
            .collect();
        if indices.len() > 1 {
            splits.sort_by_key(|split| split.entry.id);
        }
        splits.iter_mut().zip(0..).for_each(|(split, ordinal)| split.ordinal = ordinal);
        let packs = PackFile::of_all(indices).into();
        let indices = indices.iter().map(|index| IndexVersion::of(index)).collect();
        Splits { indices, splits, packs, ruled_out: Box::default() }
    }

    /// Some of them, as if there were no others.
    fn some<'s>(&self, splits: impl Iterator<Item = &'s NumberedSplit>) -> Splits {
        let (indices, packs) = (Arc::clone(&self.indices), Arc::clone(&self.packs));
        Splits { indices, splits: splits.cloned().collect(), packs, ruled_out: Box::default() }
    }

    /// The packs that may have their hot footers.
    pub(crate) fn packs(&self) -> Arc<[PackFile]> {
        Arc::clone(&self.packs)
    }

    pub(crate) fn len(&self) -> usize {
        self.splits.len()
    }

    /// What was ruled out on the way to these.
    pub(crate) fn ruled_out(&self) -> &RuledOut {
        &self.ruled_out
    }

    /// The splits that may hold matches of the filter by their times.
    pub(crate) fn matching(&self, filter: &Filter) -> Splits {
        let mut pruner = Pruner::new(filter);
        let left = |split: &&NumberedSplit| *pruner.left(&split.entry) != Filter::None;
        let mut matching = self.some(self.splits.iter().filter(left));
        matching.ruled_out.clone_from(&self.ruled_out);
        matching.ruled_out.time += (self.len() - matching.len()) as u64;
        matching
    }

    /// Whether each of the splits of an index, by its place there, is among them.
    pub(crate) fn places_in(&self, index: &Index) -> Vec<bool> {
        let (of, mut among) = (self.position_of(index), vec![false; index.splits().len()]);
        for split in self.splits.iter().filter(|split| Some(split.index) == of) {
            if let Some(among) = among.get_mut(split.place as usize) {
                *among = true;
            }
        }
        among
    }

    /// Their places of those that are wanted by their places in these indices.
    pub(crate) fn at_places(&self, indices: &[Arc<Index>], wanted: &[Vec<bool>]) -> RoaringBitmap {
        let positions = indices.iter().map(|index| self.position_of(index));
        let of_position: HashMap<Option<u32>, &Vec<bool>> = positions.zip(wanted).collect();
        let is_wanted = |split: &NumberedSplit| {
            let wanted = of_position.get(&Some(split.index)).and_then(|of| of.get(split.place as usize));
            wanted != Some(&false)
        };
        (0..).zip(&self.splits).filter(|(_, split)| is_wanted(split)).map(|(at, _)| at).collect()
    }

    fn position_of(&self, index: &Index) -> Option<u32> {
        let of = IndexVersion::of(index);
        (0..).zip(self.indices.iter()).find(|(_, other)| **other == of).map(|(position, _)| position)
    }

    /// The splits at these places among them, which is what needle segments left.
    pub(crate) fn left_by_needle(&self, places: &RoaringBitmap, asking: Cost) -> Splits {
        let at = |place: u32| self.splits.get(place as usize);
        let mut left = self.some(places.iter().filter_map(at));
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
    pub(crate) fn of_indices(&self, wanted: impl Fn(usize) -> bool) -> Splits {
        self.some(self.splits.iter().filter(|split| wanted(split.index as usize)))
    }

    /// The splits with these numbers.
    pub(crate) fn only(&self, wanted: impl Fn(u32) -> bool) -> Splits {
        self.some(self.splits.iter().filter(|split| wanted(split.ordinal)))
    }

    /// Divides them into at most `groups` groups, at least one. What was ruled out is told by the first.
    pub(crate) fn groups(&self, groups: usize) -> Vec<Splits> {
        let groups = groups.clamp(1, self.splits.len().max(1));
        let of = |group| self.some(self.splits.iter().skip(group).step_by(groups));
        let mut divided: Vec<Splits> = (0..groups).map(of).collect();
        divided.iter_mut().take(1).for_each(|first| first.ruled_out.clone_from(&self.ruled_out));
        divided
    }

    /// The remaining filter for each split that may hold matches.
    pub(crate) fn targets(&self, filter: &Filter) -> Vec<Target> {
        targets(self.splits.iter().map(|split| (split.ordinal, &split.entry)), filter)
    }

    pub(crate) fn ordinals(&self) -> impl Iterator<Item = u32> + '_ {
        self.splits.iter().map(|split| split.ordinal)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<SplitEntry>> {
        self.splits.iter().map(|split| &split.entry)
    }

    /// The split of a number, and its index.
    pub(crate) fn get(&self, ordinal: u32) -> Option<(&Arc<SplitEntry>, &IndexVersion)> {
        let at = self.splits.binary_search_by_key(&ordinal, |split| split.ordinal).ok()?;
        let split = self.splits.get(at)?;
        Some((&split.entry, self.indices.get(split.index as usize)?))
    }

    /// The position of a row among all, as a text that is valid for these versions of the indices.
    pub(crate) fn position(&self, address: HitAddress) -> Option<String> {
        let (entry, _) = self.get(address.split)?;
        Some(Origin { split: entry.id, row: address.row }.to_string())
    }

    /// The split and the row at a position; no row if the position is before all of that split.
    pub(crate) fn place(&self, position: &str) -> Option<(u32, Option<u32>)> {
        let (id, row) = position.split('@').next()?.split_once('-')?;
        let (id, row): (SplitId, u32) = (id.parse().ok()?, row.parse().ok()?);
        Some(match self.splits.binary_search_by_key(&id, |split| split.entry.id) {
            Ok(at) => (self.splits[at].ordinal, Some(row)),
            Err(at) => (self.splits.get(at).map_or(u32::MAX, |split| split.ordinal), None),
        })
    }
}

/// A serialized entry of the catalog.
mod wire {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Entry {
        id: SplitId,
        key: String,
        bytes: u64,
        footer: std::ops::Range<u64>,
        rows: u64,
        times: Option<(i64, i64)>,
        rows_without_time: u64,
    }

    pub(super) fn serialize<S: Serializer>(
        entry: &Arc<SplitEntry>,
        to: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        Entry {
            id: entry.id,
            key: entry.object.key.clone(),
            bytes: entry.object.bytes,
            footer: entry.footer.clone(),
            rows: entry.rows,
            times: entry.times,
            rows_without_time: entry.rows_without_time,
        }
        .serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> std::result::Result<Arc<SplitEntry>, D::Error> {
        let Entry { id, key, bytes, footer, rows, times, rows_without_time } = Entry::deserialize(from)?;
        let object = ObjectRef { key, bytes };
        Ok(Arc::new(SplitEntry {
            id,
            object,
            footer,
            rows,
            times,
            rows_without_time,
            unpacked_bytes: None,
            is_merged: false,
        }))
    }
}
