//! The eviction policy: an LFU with decay, a recency window in front of it, and guaranteed shares.
//!
//! Pure bookkeeping over slot numbers, without I/O, clock or randomness: the same accesses give the
//! same decisions. Time is counted in accesses.
//!
//! - A newcomer enters the *window*, an LRU. A region that is read only once stays there until it is evicted, so a
//!   scan over all data passes through the window and evicts nothing that was read again.
//! - When space is needed, the oldest entry of the window either moves to the *main* part or leaves. It moves if it was
//!   read at least twice and there is space, or if it is clearly more popular than the least popular entry of main.
//!   "Clearly" is a margin of two reads: in a loop slightly larger than the cache the newcomer is always
//!   one read ahead of what it would evict, and evicting that would make every read a miss.
//! - Popularity is a count up to 15 that halves every [`DECAY_ACCESSES`] × slots *meaningful* accesses:
//!   hits, and returns of keys that are still remembered. A scan of new keys does not count, so it
//!   cannot age what is popular either.
//! - Evicted keys are remembered (a *ghost*: a fingerprint of the key and the count, two per slot), so popularity
//!   survives eviction.
//! - Reads of one region within [`CORRELATED_CALLS`] calls count as one: a scan that reads a region in
//!   pieces does not look popular.
//! - Memory is 40 bytes per slot, allocated when the policy is created: 32 for the entry and 8 for its two ghosts.
//! - Each share (footer, index, column, source) has a guaranteed minimum. A newcomer evicts only from
//!   shares above theirs, or from its own.

use frostline_base::{Error, Result, Share};

/// Counts halve after this many meaningful accesses for each slot.
pub const DECAY_ACCESSES: u64 = 16;
/// Reads of a region that are at most this many calls after the last counted one are not counted.
pub const CORRELATED_CALLS: u64 = 4;
/// Keys remembered after eviction, for each slot.
const GHOSTS: usize = 2;
/// Main never takes this part of the slots, so that newcomers always have a window.
const WINDOW_PART: u32 = 20;
const FREQUENCY_MAX: u8 = 15;
const NONE: u32 = u32::MAX;
/// Lists of a share: the window, then main by popularity (2-3, 4-7, 8-15).
const LISTS: usize = 4;
const SHARES: usize = 4;
/// Stands for the list of a slot that is empty or retired.
const FREE: u8 = 0xFE;
const RETIRED: u8 = 0xFF;

/// The guaranteed minimum of each share, in percent of the slots. Other shares may borrow what a share does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Hot footers.
    pub footer_percent: u8,
    /// Dictionary blocks and postings.
    pub index_percent: u8,
    /// Column pages.
    pub column_percent: u8,
    /// Pages of `_source`.
    pub source_percent: u8,
}

impl Default for Shares {
    fn default() -> Self {
        Shares { footer_percent: 10, index_percent: 20, column_percent: 20, source_percent: 5 }
    }
}

impl Shares {
    /// Fails with `Invalid` if the guarantees add up to more than 100 %.
    pub fn check(&self) -> Result<()> {
        let sum: u32 = self.percents().iter().map(|&p| u32::from(p)).sum();
        if sum <= 100 {
            return Ok(());
        }
        Err(Error::invalid(format!("the cache's shares guarantee {sum} percent of it, more than 100")))
    }

    fn percents(&self) -> [u8; SHARES] {
        [self.footer_percent, self.index_percent, self.column_percent, self.source_percent]
    }
}

/// Decides what each of a fixed number of slots holds. See the module docs.
#[derive(Debug)]
pub struct Policy {
    entries: Vec<Entry>,
    /// The first free slot, which links to the next one, and their number.
    free_first: u32,
    free: u32,
    lists: [[List; LISTS]; SHARES],
    used: [u32; SHARES],
    guaranteed: [u32; SHARES],
    ghosts: Ghosts,
    /// Entries in main lists, and how many may be.
    main: u32,
    main_max: u32,
    /// Number of this access, of this call, and of the halvings so far.
    access: u64,
    call: u64,
    epoch: u16,
    /// Meaningful accesses since the last halving.
    meaningful: u64,
    evictions: u64,
    demoted: u64,
    /// Entries of the window that are held and will be returned to it.
    window_held: u32,
}

/// A slot for a newcomer, and what was evicted to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The slot.
    pub slot: u32,
    /// The key that the slot held before.
    pub evicted: Option<u64>,
}

/// 32 bytes for each region of a cache. The numbers that wrap around (call, epoch) are compared by their distance.
#[derive(Clone, Debug)]
struct Entry {
    key: u64,
    /// When it was last read.
    access: u64,
    prev: u32,
    /// The next newer one of its list; of a free slot, the next free one.
    next: u32,
    /// The call whose read was last counted, and the halvings that `frequency` has seen.
    call: u16,
    epoch: u16,
    share: u8,
    list: u8,
    frequency: u8,
    holds: u8,
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
}

impl Policy {
    /// A policy for `slots` empty slots.
    pub fn new(slots: u32, shares: Shares) -> Self {
        let guaranteed = shares.percents().map(|p| (u64::from(slots) * u64::from(p) / 100) as u32);
        let mut policy = Policy {
            entries: vec![Entry::free(); slots as usize],
            free_first: NONE,
            free: 0,
            lists: [[List { oldest: NONE, newest: NONE }; LISTS]; SHARES],
            used: [0; SHARES],
            guaranteed,
            ghosts: Ghosts::new(slots as usize * GHOSTS),
            main: 0,
            main_max: slots - slots.div_ceil(WINDOW_PART),
            access: 0,
            call: CORRELATED_CALLS,
            epoch: 0,
            meaningful: 0,
            evictions: 0,
            demoted: 0,
            window_held: 0,
        };
        policy.chain_free();
        policy
    }

    /// A reader's call begins: a region that it touches more than once counts once.
    pub fn begin(&mut self) {
        self.call += 1;
    }

    /// The region in `slot` is read.
    pub fn touch(&mut self, slot: u32) {
        self.access += 1;
        let (access, call) = (self.access, self.call);
        let Some(frequency) = self.decayed(slot) else { return };
        let entry = &mut self.entries[slot as usize];
        entry.access = access;
        let counted = u64::from((call as u16).wrapping_sub(entry.call)) > CORRELATED_CALLS;
        if counted {
            entry.call = call as u16;
            entry.frequency = (frequency + 1).min(FREQUENCY_MAX);
            self.meaningful();
        }
        self.relink(slot);
    }

    /// Finds a slot for the region `key`, which is in none. `None` if nothing may be evicted for it.
    pub fn admit(&mut self, key: u64, share: Share) -> Option<Admitted> {
        self.access += 1;
        let remembered = self.ghosts.take(key, self.epoch);
        if remembered.is_some() {
            self.meaningful();
        }
        let admitted = match self.take_free() {
            Some(slot) => Admitted { slot, evicted: None },
            None => self.evict(share as usize)?,
        };
        let frequency = remembered.map_or(1, |f| (f + 1).min(FREQUENCY_MAX));
        self.occupy(admitted.slot, key, share, frequency);
        Some(admitted)
    }

    /// Restores a region to the slot where it was before a restart, last read at `stamp`. False if the slot is
    /// taken or does not exist. Call [`Policy::restored`] after the last one.
    pub fn restore(&mut self, slot: u32, key: u64, share: Share, frequency: u8, stamp: u64) -> bool {
        let free = self.entries.get(slot as usize).is_some_and(|e| e.list == FREE);
        if free {
            self.access = self.access.max(stamp);
            self.occupy(slot, key, share, frequency.clamp(1, FREQUENCY_MAX));
            self.entries[slot as usize].access = stamp;
        }
        free
    }

    /// Ends the restore, which may be in any order. A restart separates reads: the next read of each region counts,
    /// however
    /// few calls a process makes.
    pub fn restored(&mut self) {
        self.call += CORRELATED_CALLS + 1;
        self.chain_free();
        for slot in self.by_age() {
            self.relink(slot);
        }
    }

    /// Empties the slot, without remembering its key.
    pub fn remove(&mut self, slot: u32) {
        if self.is_used(slot) {
            self.vacate(slot);
            self.entries[slot as usize].next = self.free_first;
            (self.free_first, self.free) = (slot, self.free + 1);
        }
    }

    /// Removes the slot permanently.
    pub fn retire(&mut self, slot: u32) {
        self.retire_unordered(slot);
        self.retired();
    }

    /// Like [`Policy::retire`] for one of many slots; call [`Policy::retired`] after the last one.
    pub fn retire_unordered(&mut self, slot: u32) {
        if self.is_used(slot) {
            self.vacate(slot);
        }
        if let Some(entry) = self.entries.get_mut(slot as usize) {
            entry.list = RETIRED;
        }
    }

    /// All slots that are gone are retired.
    pub fn retired(&mut self) {
        self.chain_free();
        let slots = self.slots();
        self.main_max = slots - slots.div_ceil(WINDOW_PART);
    }

    /// Protects the slot from eviction until as many calls of [`Policy::release`].
    pub fn hold(&mut self, slot: u32) {
        if self.is_used(slot) {
            self.unlink(slot);
            let entry = &mut self.entries[slot as usize];
            self.window_held += u32::from(entry.holds == 0 && entry.list == 0);
            entry.holds = entry.holds.saturating_add(1);
        }
    }

    /// Undoes one [`Policy::hold`].
    pub fn release(&mut self, slot: u32) {
        if self.is_used(slot) && self.entries[slot as usize].holds > 0 {
            let entry = &mut self.entries[slot as usize];
            entry.holds -= 1;
            self.window_held -= u32::from(entry.holds == 0 && entry.list == 0);
            self.relink(slot);
        }
    }

    /// The current popularity of the region in `slot`.
    pub fn frequency(&self, slot: u32) -> u8 {
        self.decayed(slot).unwrap_or(0)
    }

    /// The key of the region in the slot.
    pub fn key(&self, slot: u32) -> Option<u64> {
        self.entries.get(slot as usize).filter(|e| e.is_used()).map(|e| e.key)
    }

    /// The slot's share, and a number that grows with each read: larger is later.
    pub fn share_and_stamp(&self, slot: u32) -> Option<(Share, u64)> {
        let entry = self.entries.get(slot as usize).filter(|e| e.is_used())?;
        let share =
            [Share::Footer, Share::Index, Share::Column, Share::Source].get(usize::from(entry.share))?;
        Some((*share, entry.access))
    }

    /// Bytes of memory that this takes.
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.ghosts.ways.capacity() * size_of::<u32>()
    }

    /// The used slots, least recently read first.
    pub fn by_age(&self) -> Vec<u32> {
        let mut used: Vec<u32> = (0..self.entries.len() as u32).filter(|&s| self.is_used(s)).collect();
        used.sort_by_key(|&slot| self.entries[slot as usize].access);
        used
    }

    /// Slots of one share that hold a region.
    pub fn used(&self, share: Share) -> u32 {
        self.used[share as usize]
    }

    /// Empty slots that may be used.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Slots that are used or may be.
    pub fn slots(&self) -> u32 {
        self.free() + self.used.iter().sum::<u32>()
    }

    /// Regions evicted so far, and how many of them were candidates for main and lost.
    pub fn evictions(&self) -> (u64, u64) {
        (self.evictions, self.demoted)
    }

    /// Makes one chain of all free slots, the lowest first.
    fn chain_free(&mut self) {
        (self.free_first, self.free) = (NONE, 0);
        for slot in (0..self.entries.len() as u32).rev() {
            let entry = &mut self.entries[slot as usize];
            if entry.list == FREE {
                entry.next = self.free_first;
                (self.free_first, self.free) = (slot, self.free + 1);
            }
        }
    }

    fn take_free(&mut self) -> Option<u32> {
        let slot = Some(self.free_first).filter(|&slot| slot != NONE)?;
        (self.free_first, self.free) = (self.entries[slot as usize].next, self.free - 1);
        Some(slot)
    }

    fn is_used(&self, slot: u32) -> bool {
        self.entries.get(slot as usize).is_some_and(Entry::is_used)
    }

    fn decayed(&self, slot: u32) -> Option<u8> {
        let entry = self.entries.get(slot as usize).filter(|e| e.is_used())?;
        Some(decay(entry.frequency, entry.epoch, self.epoch))
    }

    fn meaningful(&mut self) {
        self.meaningful += 1;
        if self.meaningful >= DECAY_ACCESSES * self.entries.len() as u64 {
            self.meaningful = 0;
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    fn occupy(&mut self, slot: u32, key: u64, share: Share, frequency: u8) {
        self.used[share as usize] += 1;
        let (access, call, epoch) = (self.access, self.call as u16, self.epoch);
        let share = share as u8;
        self.entries[slot as usize] =
            Entry { key, access, call, epoch, share, frequency, list: 0, ..Entry::free() };
        self.link(slot, 0);
    }

    fn vacate(&mut self, slot: u32) {
        self.unlink(slot);
        let entry = std::mem::replace(&mut self.entries[slot as usize], Entry::free());
        self.used[entry.share as usize] -= 1;
        self.window_held -= u32::from(entry.holds > 0 && entry.list == 0);
    }

    /// Empties and returns the slot that is worth least to the other shares, for a newcomer of `share`.
    fn evict(&mut self, share: usize) -> Option<Admitted> {
        let eligible = self.eligible(share);
        self.age(eligible);
        // Each turn moves one entry from the window to main, so the loop ends.
        let victim = loop {
            let Some(candidate) = self.oldest(eligible, 0) else {
                // A call larger than the window holds all of it. Rather than evict what is popular, the rest is not
                // cached.
                if self.window_held > 0 {
                    return None;
                }
                break self.least(eligible)?;
            };
            let frequency = self.frequency(candidate);
            if frequency < 2 {
                break candidate;
            }
            if self.main < self.main_max {
                self.promote(candidate);
                continue;
            }
            let Some(victim) = self.least(eligible) else { break candidate };
            let least = self.frequency(victim);
            if frequency >= least + 2 || (least < 2 && frequency > least) {
                self.promote(candidate);
                break victim;
            }
            self.demoted += 1;
            break candidate;
        };
        let (key, frequency) = (self.entries[victim as usize].key, self.frequency(victim));
        self.vacate(victim);
        self.ghosts.remember(key, frequency, self.epoch);
        self.evictions += 1;
        Some(Admitted { slot: victim, evicted: Some(key) })
    }

    fn eligible(&self, share: usize) -> [bool; SHARES] {
        std::array::from_fn(|s| s == share || self.used[s] > self.guaranteed[s])
    }

    /// Moves entries whose popularity has decayed to the list where they now belong. Only the oldest of
    /// each list is checked, twice for each eviction; other entries are moved when they are read.
    fn age(&mut self, eligible: [bool; SHARES]) {
        for share in (0..SHARES).filter(|&s| eligible[s]) {
            for list in (1..LISTS).flat_map(|list| [list, list]) {
                let slot = self.lists[share][list].oldest;
                if slot == NONE {
                    continue;
                }
                let belongs = list_of(self.frequency(slot));
                if belongs < list {
                    self.unlink(slot);
                    // Leaving main means being next to be evicted: the entry has not been read for long.
                    if belongs == 0 { self.link_oldest(slot) } else { self.link(slot, belongs) }
                }
            }
        }
    }

    /// The least recently read of the least popular of main.
    fn least(&self, eligible: [bool; SHARES]) -> Option<u32> {
        (1..LISTS).find_map(|list| self.oldest(eligible, list))
    }

    fn oldest(&self, eligible: [bool; SHARES], list: usize) -> Option<u32> {
        let heads = (0..SHARES).filter(|&s| eligible[s]).map(|s| self.lists[s][list].oldest);
        heads.filter(|&slot| slot != NONE).min_by_key(|&slot| self.entries[slot as usize].access)
    }

    fn promote(&mut self, slot: u32) {
        let frequency = self.frequency(slot);
        self.unlink(slot);
        self.link(slot, list_of(frequency).max(1));
    }

    /// Makes an entry the newest of the list where it belongs. The window is left only by promotion.
    fn relink(&mut self, slot: u32) {
        let Some(frequency) = self.decayed(slot) else { return };
        let epoch = self.epoch;
        let entry = &mut self.entries[slot as usize];
        entry.frequency = frequency;
        entry.epoch = epoch;
        let held = entry.holds > 0;
        let list = if entry.list == 0 { 0 } else { list_of(frequency).max(1) };
        self.unlink(slot);
        if held {
            self.entries[slot as usize].list = list as u8;
        } else {
            self.link(slot, list);
        }
    }

    fn link(&mut self, slot: u32, list: usize) {
        let share = self.entries[slot as usize].share as usize;
        let newest = self.lists[share][list].newest;
        self.put(slot, list, newest, NONE);
    }

    fn link_oldest(&mut self, slot: u32) {
        let share = self.entries[slot as usize].share as usize;
        let oldest = self.lists[share][0].oldest;
        self.put(slot, 0, NONE, oldest);
    }

    fn put(&mut self, slot: u32, list: usize, prev: u32, next: u32) {
        let entry = &mut self.entries[slot as usize];
        (entry.prev, entry.next, entry.list) = (prev, next, list as u8);
        let share = entry.share as usize;
        match prev {
            NONE => self.lists[share][list].oldest = slot,
            _ => self.entries[prev as usize].next = slot,
        }
        match next {
            NONE => self.lists[share][list].newest = slot,
            _ => self.entries[next as usize].prev = slot,
        }
        self.main += u32::from(list > 0);
    }

    /// Takes an entry out of its list, if it is in one.
    fn unlink(&mut self, slot: u32) {
        let Entry { prev, next, list, share, .. } = self.entries[slot as usize];
        let lists = &mut self.lists[share as usize][list as usize];
        if prev == NONE && lists.oldest != slot {
            return;
        }
        match prev {
            NONE => lists.oldest = next,
            _ => self.entries[prev as usize].next = next,
        }
        match next {
            NONE => lists.newest = prev,
            _ => self.entries[next as usize].prev = prev,
        }
        let entry = &mut self.entries[slot as usize];
        (entry.prev, entry.next) = (NONE, NONE);
        self.main -= u32::from(list > 0);
    }
}

impl Entry {
    fn free() -> Self {
        Entry {
            key: 0,
            access: 0,
            prev: NONE,
            next: NONE,
            call: 0,
            epoch: 0,
            share: 0,
            list: FREE,
            frequency: 0,
            holds: 0,
        }
    }

    fn is_used(&self) -> bool {
        usize::from(self.list) < LISTS
    }
}

/// The list for this popularity.
fn list_of(frequency: u8) -> usize {
    match frequency {
        0 | 1 => 0,
        2 | 3 => 1,
        4..=7 => 2,
        _ => 3,
    }
}

fn decay(frequency: u8, then: u16, now: u16) -> u8 {
    frequency.checked_shr(u32::from(now.wrapping_sub(then))).unwrap_or(0)
}

/// Popularity of evicted regions. Keys are grouped into sets; each forgets the oldest first. A key is identified by a
/// fingerprint of 18 bits, so one in eight thousand unknown keys is mistaken for a known one.
#[derive(Debug)]
struct Ghosts {
    /// Set after set, each oldest first and zeros after the last.
    ways: Vec<u32>,
    sets: u64,
}

const GHOSTS_IN_SET: usize = 32;
const EPOCH_BITS: u32 = 10;
const FREQUENCY_BITS: u32 = 4;
const FINGERPRINT_BITS: u32 = 32 - EPOCH_BITS - FREQUENCY_BITS;

impl Ghosts {
    fn new(len_max: usize) -> Self {
        let sets = len_max.div_ceil(GHOSTS_IN_SET);
        Ghosts { ways: vec![0; sets * GHOSTS_IN_SET], sets: sets as u64 }
    }

    fn remember(&mut self, key: u64, frequency: u8, epoch: u16) {
        let (set, fingerprint) = self.set_of(key);
        forget(set, fingerprint);
        let end = set.iter().position(|&ghost| ghost == 0).unwrap_or_else(|| {
            set.copy_within(1.., 0);
            set.len() - 1
        });
        let epoch = u32::from(epoch) & ((1 << EPOCH_BITS) - 1);
        if let Some(ghost) = set.get_mut(end) {
            *ghost = (fingerprint << (32 - FINGERPRINT_BITS)) | (u32::from(frequency) << EPOCH_BITS) | epoch;
        }
    }

    fn take(&mut self, key: u64, epoch: u16) -> Option<u8> {
        let (set, fingerprint) = self.set_of(key);
        let ghost = forget(set, fingerprint)?;
        let frequency = (ghost >> EPOCH_BITS) & ((1 << FREQUENCY_BITS) - 1);
        let age = u32::from(epoch).wrapping_sub(ghost) & ((1 << EPOCH_BITS) - 1);
        Some((frequency as u8).checked_shr(age).unwrap_or(0))
    }

    fn set_of(&mut self, key: u64) -> (&mut [u32], u32) {
        // Keys need not be hashes: a multiplication and a shift spread them.
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let set = (((hash >> 32) * self.sets) >> 32) as usize * GHOSTS_IN_SET;
        // Never zero, which stands for none.
        let fingerprint = 1 + (((hash & 0xFFFF_FFFF) * ((1 << FINGERPRINT_BITS) - 1)) >> 32) as u32;
        (self.ways.get_mut(set..set + GHOSTS_IN_SET).unwrap_or_default(), fingerprint)
    }
}

/// Takes the ghost with this fingerprint out of its set.
fn forget(set: &mut [u32], fingerprint: u32) -> Option<u32> {
    let at = set.iter().position(|&ghost| ghost >> (32 - FINGERPRINT_BITS) == fingerprint)?;
    let ghost = *set.get(at)?;
    set.copy_within(at + 1.., at);
    if let Some(last) = set.last_mut() {
        *last = 0;
    }
    Some(ghost)
}

#[cfg(test)]
mod tests;
