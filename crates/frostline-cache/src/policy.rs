//! Which regions stay: an LFU with decay, a recency window in front of it, and shares.
//!
//! Pure bookkeeping over slot numbers, without I/O, clock or randomness: the same accesses give the
//! same decisions. Time is counted in accesses.
//!
//! - A newcomer enters the *window*, an LRU. Whatever was read only once lives and dies there, so a
//!   sweep over all data passes through the window and evicts nothing that was read again.
//! - When room is needed, the oldest of the window either moves to the *main* part (it was read at least
//!   twice and there is room, or it is clearly more popular than the least popular of main) or leaves.
//!   "Clearly" is a margin of two reads: in a loop slightly larger than the cache the newcomer is always
//!   one read ahead of what it would evict, and evicting that would make every read a miss.
//! - Popularity is a count up to 15 that halves every [`DECAY_ACCESSES`] × slots *meaningful* accesses:
//!   hits and returns of keys that are still remembered. A sweep of new keys does not count, so it
//!   cannot age what is popular either.
//! - Keys that left are remembered (a *ghost*: key and count, two per slot), so that popularity outlives
//!   eviction.
//! - Reads of one region within [`CORRELATED_CALLS`] calls are one read: a sweep that takes a region in
//!   pieces does not look popular.
//! - Each share (footer, index, column, source) has a guaranteed minimum. A newcomer evicts only from
//!   shares above theirs, or from its own.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

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

/// The guaranteed minimum of each share, in percent of the slots. What a share does not use, others borrow.
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
    /// Fails with `Invalid` where the guarantees add up to more than the whole.
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

/// Decides which of a fixed number of slots holds what. See the module.
#[derive(Debug)]
pub struct Policy {
    entries: Vec<Entry>,
    free: Vec<u32>,
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
    epoch: u32,
    /// Meaningful accesses since the last halving.
    meaningful: u64,
    evictions: u64,
    demoted: u64,
    /// Entries of the window that are held: they will be back.
    window_held: u32,
}

/// A slot for a newcomer, and whether something was evicted to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The slot.
    pub slot: u32,
    /// Whether the slot held something until now.
    pub evicted: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    key: u64,
    access: u64,
    call: u64,
    epoch: u32,
    prev: u32,
    next: u32,
    holds: u32,
    share: u8,
    list: u8,
    frequency: u8,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Used,
    /// On a volume that failed: never used again.
    Retired,
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
        Policy {
            entries: vec![Entry::free(); slots as usize],
            free: (0..slots).rev().collect(),
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
        }
    }

    /// A call of a reader begins: what it touches more than once counts once.
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
        let counted = call > entry.call + CORRELATED_CALLS;
        if counted {
            entry.call = call;
            entry.frequency = (frequency + 1).min(FREQUENCY_MAX);
            self.meaningful();
        }
        self.relink(slot);
    }

    /// Finds a slot for the region `key`, which is in none. `None` where nothing may be evicted for it.
    pub fn admit(&mut self, key: u64, share: Share) -> Option<Admitted> {
        self.access += 1;
        let remembered = self.ghosts.take(key, self.epoch);
        if remembered.is_some() {
            self.meaningful();
        }
        let free = self.free.pop();
        let admitted = match free {
            Some(slot) => Admitted { slot, evicted: false },
            None => Admitted { slot: self.evict(share as usize)?, evicted: true },
        };
        let frequency = remembered.map_or(1, |f| (f + 1).min(FREQUENCY_MAX));
        self.occupy(admitted.slot, key, share, frequency);
        Some(admitted)
    }

    /// Puts a region back into the slot where it was before a restart. False where the slot is taken or
    /// there is no such slot. Call [`Policy::restored`] after the last one.
    pub fn restore(&mut self, slot: u32, key: u64, share: Share, frequency: u8) -> bool {
        let free = self.entries.get(slot as usize).is_some_and(|e| e.state == State::Free);
        if free {
            self.access += 1;
            self.occupy(slot, key, share, frequency.clamp(1, FREQUENCY_MAX));
        }
        free
    }

    /// All regions are restored. A restart separates reads: the next one of each region counts, however
    /// few calls a process makes.
    pub fn restored(&mut self) {
        self.call += CORRELATED_CALLS + 1;
        self.retain_free();
    }

    /// The slot is empty now. Nothing is remembered of what it held.
    pub fn remove(&mut self, slot: u32) {
        if self.is_used(slot) {
            self.vacate(slot);
            self.free.push(slot);
        }
    }

    /// The slot is gone for good.
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
            entry.state = State::Retired;
        }
    }

    /// All slots that are gone are retired.
    pub fn retired(&mut self) {
        self.retain_free();
        let slots = self.slots();
        self.main_max = slots - slots.div_ceil(WINDOW_PART);
    }

    /// Keeps the slot from eviction until as many calls of [`Policy::release`].
    pub fn hold(&mut self, slot: u32) {
        if self.is_used(slot) {
            self.unlink(slot);
            let entry = &mut self.entries[slot as usize];
            self.window_held += u32::from(entry.holds == 0 && entry.list == 0);
            entry.holds += 1;
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

    /// How popular the region in `slot` is now.
    pub fn frequency(&self, slot: u32) -> u8 {
        self.decayed(slot).unwrap_or(0)
    }

    /// The used slots, least recently read first.
    pub fn by_age(&self) -> Vec<u32> {
        let mut used: Vec<u32> = (0..self.entries.len() as u32).filter(|&s| self.is_used(s)).collect();
        used.sort_by_key(|&slot| self.entries[slot as usize].access);
        used
    }

    /// Slots that hold something, of one share.
    pub fn used(&self, share: Share) -> u32 {
        self.used[share as usize]
    }

    /// Slots that hold nothing and may.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Slots that hold something or may.
    pub fn slots(&self) -> u32 {
        self.free() + self.used.iter().sum::<u32>()
    }

    /// Regions evicted so far, and how many of them asked for a place in main and lost.
    pub fn evictions(&self) -> (u64, u64) {
        (self.evictions, self.demoted)
    }

    fn retain_free(&mut self) {
        let entries = &self.entries;
        self.free.retain(|&slot| entries[slot as usize].state == State::Free);
    }

    fn is_used(&self, slot: u32) -> bool {
        self.entries.get(slot as usize).is_some_and(|e| e.state == State::Used)
    }

    fn decayed(&self, slot: u32) -> Option<u8> {
        let entry = self.entries.get(slot as usize).filter(|e| e.state == State::Used)?;
        Some(decay(entry.frequency, entry.epoch, self.epoch))
    }

    fn meaningful(&mut self) {
        self.meaningful += 1;
        if self.meaningful >= DECAY_ACCESSES * self.entries.len() as u64 {
            self.meaningful = 0;
            self.epoch += 1;
        }
    }

    fn occupy(&mut self, slot: u32, key: u64, share: Share, frequency: u8) {
        self.used[share as usize] += 1;
        let (access, call, epoch) = (self.access, self.call, self.epoch);
        let share = share as u8;
        self.entries[slot as usize] =
            Entry { key, access, call, epoch, share, frequency, state: State::Used, ..Entry::free() };
        self.link(slot, 0);
    }

    fn vacate(&mut self, slot: u32) {
        self.unlink(slot);
        let entry = std::mem::replace(&mut self.entries[slot as usize], Entry::free());
        self.used[entry.share as usize] -= 1;
        self.window_held -= u32::from(entry.holds > 0 && entry.list == 0);
    }

    /// Empties and returns the slot that is worth least to the others, for a newcomer of `share`.
    fn evict(&mut self, share: usize) -> Option<u32> {
        let eligible = self.eligible(share);
        self.age(eligible);
        // Each turn moves one entry from the window to main, so the loop ends.
        let victim = loop {
            let Some(candidate) = self.oldest(eligible, 0) else {
                // A call larger than the window holds all of it. What does not fit is not kept, rather than
                // evict what is popular.
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
        Some(victim)
    }

    fn eligible(&self, share: usize) -> [bool; SHARES] {
        std::array::from_fn(|s| s == share || self.used[s] > self.guaranteed[s])
    }

    /// Moves entries whose popularity has decayed to the list where they belong now. Only the oldest of
    /// each list is looked at, twice for each eviction: an entry that is read is put right when read.
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
                    // Out of main means next to leave: it has not been read for long.
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
            call: 0,
            epoch: 0,
            prev: NONE,
            next: NONE,
            holds: 0,
            share: 0,
            list: 0,
            frequency: 0,
            state: State::Free,
        }
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

fn decay(frequency: u8, then: u32, now: u32) -> u8 {
    frequency.checked_shr(now.saturating_sub(then)).unwrap_or(0)
}

/// Popularity of what is no longer here, oldest forgotten first.
#[derive(Debug)]
struct Ghosts {
    keys: HashMap<u64, Ghost, BuildHasherDefault<AlreadyHashed>>,
    order: VecDeque<(u64, u64)>,
    len_max: usize,
    sequence: u64,
}

#[derive(Debug)]
struct Ghost {
    frequency: u8,
    epoch: u32,
    sequence: u64,
}

impl Ghosts {
    fn new(len_max: usize) -> Self {
        Ghosts { keys: HashMap::default(), order: VecDeque::new(), len_max, sequence: 0 }
    }

    fn remember(&mut self, key: u64, frequency: u8, epoch: u32) {
        self.sequence += 1;
        self.keys.insert(key, Ghost { frequency, epoch, sequence: self.sequence });
        self.order.push_back((key, self.sequence));
        // The order also holds ghosts that came back to life; it is bounded like the keys.
        while self.keys.len() > self.len_max || self.order.len() > 2 * self.len_max.max(1) {
            let Some((key, sequence)) = self.order.pop_front() else { return };
            if self.keys.get(&key).is_some_and(|ghost| ghost.sequence == sequence) {
                self.keys.remove(&key);
            }
        }
    }

    fn take(&mut self, key: u64, epoch: u32) -> Option<u8> {
        self.keys.remove(&key).map(|ghost| decay(ghost.frequency, ghost.epoch, epoch))
    }
}

/// Keys are hashes already.
#[derive(Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| hash.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[cfg(test)]
mod tests;
