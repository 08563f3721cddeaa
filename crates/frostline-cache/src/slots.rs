//! The contents of each slot, in memory: fingerprints of regions, a bit for each page, and fetches in progress.
//!
//! A region is identified by its *key*, 64 bits of a hash of object and number. Neither the object nor a checksum is
//! stored here.
//! Two regions with the same key are distinguished by the checksums of their pages, which depend on another 64 bits of
//! the
//! object's hash. A slot takes 32 bytes of the policy, 8 of its ghosts, 6 of the table of keys and a bit for each
//! page: 48 bytes
//! for regions of 64 KiB and pages of 4 KiB, 0.07 % of the capacity, whatever the cache holds.

use std::collections::HashMap;
use std::sync::Arc;

use frostline_base::{ObjectRef, Share};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::flight::Flight;
use crate::places::Places;
use crate::policy::{Policy, Shares};
use crate::stats::{ShareStats, Stats};
use crate::table::{StoredRegion, encode_record};
use crate::volume::{Geometry, Place};

/// An object, by a hash of its key and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectId(pub(crate) u128);

impl ObjectId {
    pub(crate) fn of(object: &ObjectRef) -> ObjectId {
        ObjectId(xxh3_128_with_seed(object.key.as_bytes(), object.bytes))
    }

    fn region_key(self, region: u64) -> u64 {
        xxh3_64_with_seed(&region.to_le_bytes(), self.0 as u64)
    }

    /// The checksum of a page of this object; 0 means none.
    pub(crate) fn checksum(self, page: u64, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, ((self.0 >> 64) as u64).wrapping_add(page)).max(1)
    }
}

/// The bookkeeping of a cache.
#[derive(Debug)]
pub(crate) struct Slots {
    geometry: Geometry,
    pub(crate) policy: Policy,
    /// The slots in use, by key.
    places: Places,
    here: Bits,
    pages_here: u64,
    /// Pages being fetched or written.
    flights: HashMap<(ObjectId, u64), Arc<Flight>>,
    /// Pinned objects, with their lengths.
    pub(crate) pinned: HashMap<u128, u64>,
    pub(crate) failed: Vec<bool>,
    pub(crate) stats: Stats,
    refused: u64,
}

/// A page that should be on a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HerePage {
    pub(crate) page: u64,
    pub(crate) place: Place,
    pub(crate) bytes: usize,
    key: u64,
    slot: u32,
    index: u32,
}

impl Slots {
    pub(crate) fn new(slots: u32, geometry: Geometry, shares: Shares, pinned: HashMap<u128, u64>) -> Self {
        Slots {
            geometry,
            policy: Policy::new(slots, shares),
            places: Places::new(slots),
            here: Bits::new(slots, geometry.pages()),
            pages_here: 0,
            flights: HashMap::new(),
            pinned,
            failed: Vec::new(),
            stats: Stats::default(),
            refused: 0,
        }
    }

    /// Restores a slot from a table record.
    pub(crate) fn restore(&mut self, slot: u32, stored: StoredRegion, bits: &[u8]) {
        // If two slots claim one region, the one that was read later keeps it.
        if let Some(other) = self.slot_of(stored.key) {
            if self.policy.share_and_stamp(other).is_some_and(|(_, stamp)| stamp >= stored.stamp) {
                return;
            }
            self.empty(other);
        }
        let StoredRegion { key, share, frequency, stamp } = stored;
        if self.policy.restore(slot, key, share, frequency, stamp) {
            self.places.insert(key, slot);
            self.pages_here += self.here.set_all(slot, bits);
        }
    }

    /// All slots are restored.
    pub(crate) fn restored(&mut self) {
        self.policy.restored();
        for (id, bytes) in self.pinned.clone() {
            self.hold_object(ObjectId(id), bytes, true);
        }
    }

    /// Bytes of memory that this takes while the cache is open, whatever it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.policy.memory_bytes() + self.places.memory_bytes() + self.here.0.capacity() * size_of::<u64>()
    }

    pub(crate) fn figures(&self, capacity: u64) -> Stats {
        let (evictions, demoted) = self.policy.evictions();
        let mut stats = self.stats.clone();
        stats.capacity = capacity;
        stats.region_bytes = u64::from(self.geometry.region_bytes);
        stats.page_bytes = u64::from(self.geometry.page_bytes);
        stats.bytes_near = self.pages_here * stats.page_bytes;
        stats.memory_bytes = self.memory_bytes() as u64;
        stats.regions_total = u64::from(self.policy.slots());
        stats.evictions = evictions;
        stats.admissions_refused = demoted + self.refused;
        stats.volumes_failed = self.failed.iter().filter(|&&failed| failed).count() as u32;
        for (share, figures) in SHARES.into_iter().zip(&mut stats.shares) {
            figures.regions_used = u64::from(self.policy.used(share));
            stats.regions_used += figures.regions_used;
            stats.hits += figures.hits;
            stats.misses += figures.misses;
        }
        stats
    }

    /// Counts a call's read of each region once.
    pub(crate) fn touch(&mut self, id: ObjectId, wanted: &[u64]) {
        self.policy.begin();
        let in_region = u64::from(self.geometry.pages());
        let mut before = None;
        for region in wanted.iter().map(|page| page / in_region) {
            if before.replace(region) == Some(region) {
                continue;
            }
            if let Some(slot) = self.slot_of(id.region_key(region)) {
                self.policy.touch(slot);
            }
        }
    }

    pub(crate) fn count(&mut self, share: Share, hits: usize, misses: usize, joined: usize) {
        self.stats.joined += joined as u64;
        let ShareStats { hits: share_hits, misses: share_misses, .. } =
            &mut self.stats.shares[share as usize];
        *share_hits += hits as u64;
        *share_misses += misses as u64;
    }

    /// Where a page is, if it is cached.
    pub(crate) fn find(&self, id: ObjectId, object: &ObjectRef, page: u64) -> Option<HerePage> {
        let in_region = u64::from(self.geometry.pages());
        let (key, index) = (id.region_key(page / in_region), (page % in_region) as u32);
        let slot = self.slot_of(key).filter(|&slot| self.here.get(slot, index))?;
        let place = self.geometry.place(slot, index);
        let bytes = page_len(self.geometry, object, page)?;
        let usable = self.failed.get(place.volume as usize) == Some(&false);
        usable.then_some(HerePage { page, place, bytes, key, slot, index })
    }

    /// Marks a page as absent, unless its slot has been reused meanwhile.
    pub(crate) fn drop_page(&mut self, page: &HerePage) -> bool {
        let same = self.policy.key(page.slot) == Some(page.key) && self.here.get(page.slot, page.index);
        if same {
            self.here.clear(page.slot, page.index);
            self.pages_here -= 1;
        }
        same
    }

    pub(crate) fn flight_of(&self, id: ObjectId, page: u64) -> Option<&Arc<Flight>> {
        self.flights.get(&(id, page))
    }

    /// Registers that this flight fetches the pages.
    pub(crate) fn take_off(&mut self, id: ObjectId, pages: &[u64], flight: &Arc<Flight>) {
        for &page in pages {
            self.flights.insert((id, page), Arc::clone(flight));
        }
    }

    /// Removes the flight.
    pub(crate) fn land(&mut self, id: ObjectId, pages: &[u64], flight: &Arc<Flight>) {
        for &page in pages {
            if self.is_brought_by(id, page, flight) {
                self.flights.remove(&(id, page));
            }
        }
    }

    /// Whether this flight is still the one that fetches the page.
    pub(crate) fn is_brought_by(&self, id: ObjectId, page: u64, flight: &Arc<Flight>) -> bool {
        self.flight_of(id, page).is_some_and(|known| Arc::ptr_eq(known, flight))
    }

    /// The slot of a region; evicts another region if necessary.
    pub(crate) fn slot_for(&mut self, id: ObjectId, region: u64, share: Share) -> Option<u32> {
        let key = id.region_key(region);
        if let Some(slot) = self.slot_of(key) {
            return Some(slot);
        }
        // The evicted region is known only after the policy has given its slot away.
        let Some(admitted) = self.policy.admit(key, share) else {
            self.refused += 1;
            return None;
        };
        if let Some(evicted) = admitted.evicted {
            self.forget_place(admitted.slot, evicted);
        }
        self.places.insert(key, admitted.slot);
        if self.pinned.contains_key(&id.0) {
            self.policy.hold(admitted.slot);
        }
        Some(admitted.slot)
    }

    /// Registers written pages, if the slot is still the region's.
    pub(crate) fn settle(&mut self, id: ObjectId, region: u64, slot: u32, pages: &[u16]) {
        if self.is_slot_of(id, region, slot) {
            for &page in pages {
                self.pages_here += u64::from(self.here.set(slot, u32::from(page)));
            }
        }
    }

    pub(crate) fn is_slot_of(&self, id: ObjectId, region: u64, slot: u32) -> bool {
        self.policy.key(slot) == Some(id.region_key(region))
    }

    /// Empties a slot.
    pub(crate) fn empty(&mut self, slot: u32) {
        if let Some(key) = self.policy.key(slot) {
            self.forget_place(slot, key);
            self.policy.remove(slot);
        }
    }

    /// Removes a slot permanently. Call `policy.retired` after the last one.
    pub(crate) fn retire(&mut self, slot: u32) {
        self.empty(slot);
        self.policy.retire_unordered(slot);
    }

    /// Pins or unpins the cached regions of an object.
    pub(crate) fn hold_object(&mut self, id: ObjectId, bytes: u64, held: bool) {
        for region in 0..bytes.div_ceil(u64::from(self.geometry.region_bytes)) {
            if let Some(slot) = self.slot_of(id.region_key(region)) {
                if held { self.policy.hold(slot) } else { self.policy.release(slot) }
            }
        }
    }

    /// Appends the table record of a slot.
    pub(crate) fn record(&self, slot: u32, records: &mut Vec<u8>) {
        let region = self.policy.share_and_stamp(slot).and_then(|(share, stamp)| {
            let (key, frequency) = (self.policy.key(slot)?, self.policy.frequency(slot));
            Some(StoredRegion { key, share, frequency, stamp })
        });
        encode_record(records, region, &self.here.bytes(slot));
    }

    fn slot_of(&self, key: u64) -> Option<u32> {
        self.places.find(key, |slot| self.policy.key(slot))
    }

    fn forget_place(&mut self, slot: u32, key: u64) {
        self.places.remove(key, slot, |slot| self.policy.key(slot));
        self.pages_here -= self.here.clear_all(slot);
    }
}

/// A bit for each page of each slot.
#[derive(Debug)]
struct Bits(Vec<u64>, u32);

impl Bits {
    fn new(slots: u32, pages: u32) -> Bits {
        let bits = u64::from(slots) * u64::from(pages);
        Bits(vec![0; bits.div_ceil(64) as usize], pages)
    }

    fn at(&self, slot: u32, page: u32) -> (usize, u64) {
        let bit = u64::from(slot) * u64::from(self.1) + u64::from(page);
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn get(&self, slot: u32, page: u32) -> bool {
        let (word, bit) = self.at(slot, page);
        page < self.1 && self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Whether it was not set before.
    fn set(&mut self, slot: u32, page: u32) -> bool {
        let (word, bit) = self.at(slot, page);
        let Some(word) = self.0.get_mut(word).filter(|_| page < self.1) else { return false };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn clear(&mut self, slot: u32, page: u32) {
        let (word, bit) = self.at(slot, page);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Clears all bits of a slot, and returns how many were set.
    fn clear_all(&mut self, slot: u32) -> u64 {
        let set: Vec<u32> = (0..self.1).filter(|&page| self.get(slot, page)).collect();
        set.iter().for_each(|&page| self.clear(slot, page));
        set.len() as u64
    }

    /// Sets the bits of an empty slot, and returns how many there are.
    fn set_all(&mut self, slot: u32, bytes: &[u8]) -> u64 {
        let is_set =
            |page: &u32| bytes.get(*page as usize / 8).is_some_and(|byte| byte >> (page % 8) & 1 == 1);
        (0..self.1).filter(is_set).map(|page| u64::from(self.set(slot, page))).sum()
    }

    /// The bits of a slot, the lowest first, in whole bytes.
    fn bytes(&self, slot: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.1.div_ceil(8) as usize];
        for page in (0..self.1).filter(|&page| self.get(slot, page)) {
            if let Some(byte) = bytes.get_mut(page as usize / 8) {
                *byte |= 1 << (page % 8);
            }
        }
        bytes
    }
}

const SHARES: [Share; 4] = [Share::Footer, Share::Index, Share::Column, Share::Source];

/// The length of a page: the last one ends with its object. `None` past the end.
fn page_len(geometry: Geometry, object: &ObjectRef, page: u64) -> Option<usize> {
    let page_bytes = u64::from(geometry.page_bytes);
    let start = page.checked_mul(page_bytes).filter(|&start| start < object.bytes)?;
    Some((object.bytes - start).min(page_bytes) as usize)
}

#[cfg(test)]
mod tests;
