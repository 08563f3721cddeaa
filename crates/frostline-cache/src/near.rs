//! What is near: slots on the volumes, the pages in them, and who fetches what.
//!
//! Invariants:
//! - A page is *here* only after its bytes were written, and is believed only when they match the checksum
//!   in memory. So it does not matter what a slow, failing or lying volume does in between.
//! - A slot that is being written is held, so it is not given to another region meanwhile. A slot that is being read
//!   is not: its generation tells the reader afterwards that a mismatch is no corruption.
//! - Locks: the table's before the state's; no I/O on volumes under the state's.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use frostline_base::{ObjectRef, Share};
use futures::future::join_all;
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::flight::{Flight, Landing, Pages};
use crate::policy::{Policy, Shares};
use crate::stats::{ShareStats, Stats};
use crate::table::{Compact, Layout, Records, StoredRegion, Table, TableFile, decode_table};
use crate::volume::{Geometry, Place, Volume};

/// Fetched bytes that wait to be written; who fetches more waits too.
const UNWRITTEN_KIB_MAX: u32 = 64 << 10;
/// Neighbouring pages are read and written in pieces of at most this.
const RUN_BYTES_MAX: usize = 1 << 20;
/// A table's regions are kept at their size while at least this many fit.
const REGIONS_KEPT_MIN: u64 = 16;

/// The part of a cache that is on this machine.
#[derive(Debug)]
pub(crate) struct Near {
    geometry: Geometry,
    layout: Layout,
    slots: u32,
    capacity: u64,
    volumes: Vec<Arc<dyn Volume>>,
    state: Mutex<State>,
    table: Mutex<Option<TableFile>>,
    unwritten: Arc<Semaphore>,
    /// Held until the last background write is done.
    _locks: Vec<File>,
}

#[derive(Debug)]
struct State {
    policy: Policy,
    slots: Vec<Slot>,
    places: HashMap<(u32, u32), u32>,
    objects: HashMap<u32, Object>,
    numbers: HashMap<ObjectRef, u32>,
    object_next: u32,
    flights: HashMap<(u32, u64), Arc<Flight>>,
    failed: Vec<bool>,
    unrecorded: Records,
    stats: Stats,
    refused: u64,
}

#[derive(Debug)]
struct Slot {
    object: u32,
    region: u32,
    share: Share,
    generation: u32,
    /// The checksum of each page, 0 where the page is absent. Empty where the slot is.
    sums: Box<[u64]>,
}

#[derive(Debug)]
struct Object {
    object: ObjectRef,
    hash: u64,
    regions: u32,
    flights: u32,
    pinned: bool,
    /// Whether the table knows it.
    recorded: bool,
}

/// Where each page of a call comes from.
pub(crate) struct Plan {
    pub(crate) here: Vec<HerePage>,
    pub(crate) fetch: Option<FlightGuard>,
    pub(crate) joined: Vec<(Arc<Flight>, Vec<u64>)>,
}

/// A page that should be on a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HerePage {
    page: u64,
    place: Place,
    bytes: usize,
    sum: u64,
    slot: u32,
    generation: u32,
    index: u32,
}

/// What was read from the volumes, and the pages that must be fetched after all.
#[derive(Default)]
pub(crate) struct ReadBack {
    pub(crate) pages: Pages,
    pub(crate) bad: Vec<u64>,
}

/// The duty to fetch pages. Dropped before it has landed, it lets the others fetch for themselves.
pub(crate) struct FlightGuard {
    near: Arc<Near>,
    object: u32,
    pages: Vec<u64>,
    flight: Arc<Flight>,
}

/// Pages of one region on their way to a slot.
struct Filling {
    slot: u32,
    region: u32,
    pages: Vec<(u16, Bytes)>,
    written: Vec<(u16, u64)>,
    no_space: bool,
}

impl Near {
    /// The bookkeeping, with what the table of a former process says. `table` is the directory of the table's file.
    pub(crate) fn load(
        wanted: Layout,
        capacity: u64,
        volumes: u32,
        shares: Shares,
        table: Option<&PathBuf>,
    ) -> Near {
        let mut file = table.map(|directory| TableFile::new(directory));
        let stored = file.as_ref().and_then(|file| decode_table(&file.read()).ok());
        let stored = stored.filter(|stored| is_kept(stored.layout, wanted, capacity));
        let layout = stored.as_ref().map_or(wanted, |stored| stored.layout);
        let slots = u32::try_from(capacity / u64::from(layout.region_bytes)).unwrap_or(u32::MAX - 1);
        let resumed = stored.as_ref().is_some_and(|stored| {
            file.as_mut().is_some_and(|file| warned("resumed", file.resume(stored.bytes)).is_some())
        });
        let geometry = Geometry { region_bytes: layout.region_bytes, page_bytes: layout.page_bytes, volumes };
        let mut state = State::new(slots, shares);
        if let Some(stored) = stored {
            state.restore(stored, geometry);
        }
        let near = Near {
            geometry,
            layout,
            slots,
            capacity,
            volumes: Vec::new(),
            state: Mutex::new(state),
            table: Mutex::new(file),
            unwritten: Arc::new(Semaphore::new(UNWRITTEN_KIB_MAX as usize)),
            _locks: Vec::new(),
        };
        if !resumed {
            near.compact();
        }
        near
    }

    /// Begins to use these volumes. A missing one shows itself when it is first used.
    pub(crate) fn start(&mut self, volumes: Vec<Arc<dyn Volume>>, locks: Vec<File>) {
        self.state().failed = vec![false; volumes.len()];
        self.volumes = volumes;
        self._locks = locks;
        for volume in 0..self.volumes.len() as u32 {
            // A byte of each volume says whether it is there at all.
            if self.slots > 0 && self.volume(volume).is_some_and(|v| v.read_at(&mut [0], 0).is_err()) {
                self.fail_volume(volume);
            }
        }
    }

    pub(crate) fn page_bytes(&self) -> u32 {
        self.geometry.page_bytes
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// Whether anything can be kept at all.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.state();
        state.policy.slots() > 0 && state.failed.iter().any(|failed| !failed)
    }

    pub(crate) fn bytes_free(&self) -> u64 {
        u64::from(self.state().policy.free()) * u64::from(self.geometry.region_bytes)
    }

    pub(crate) fn count_used(&self, bytes: u64) {
        self.state().stats.bytes_used += bytes;
    }

    pub(crate) fn stats(&self) -> Stats {
        let state = self.state();
        let (evictions, demoted) = state.policy.evictions();
        let mut stats = state.stats.clone();
        stats.capacity = self.capacity;
        stats.region_bytes = u64::from(self.geometry.region_bytes);
        stats.page_bytes = u64::from(self.geometry.page_bytes);
        stats.regions_total = u64::from(state.policy.slots());
        stats.evictions = evictions;
        stats.admissions_refused = demoted + state.refused;
        stats.volumes_failed = state.failed.iter().filter(|&&failed| failed).count() as u32;
        for (share, figures) in SHARES.into_iter().zip(&mut stats.shares) {
            figures.regions_used = u64::from(state.policy.used(share));
            stats.regions_used += figures.regions_used;
            stats.hits += figures.hits;
            stats.misses += figures.misses;
        }
        stats
    }

    /// Says for each page whether it is here, being fetched by somebody, or now to be fetched by the caller.
    pub(crate) fn plan(
        self: &Arc<Self>,
        object: &ObjectRef,
        wanted: &[u64],
        share: Share,
        again: bool,
    ) -> Plan {
        let mut guard = self.state();
        let state = &mut *guard;
        let number = state.number(object);
        let mut here = Vec::new();
        let mut missing = Vec::new();
        let mut joined: Vec<(Arc<Flight>, Vec<u64>)> = Vec::new();
        if !again {
            state.touch(number, wanted, self.geometry);
        }
        for &page in wanted {
            if let Some(found) = state.find(self.geometry, number, object, page) {
                here.push(found);
            } else if let Some(flight) = state.flights.get(&(number, page)) {
                match joined.iter_mut().find(|(known, _)| Arc::ptr_eq(known, flight)) {
                    Some((_, pages)) => pages.push(page),
                    None => joined.push((Arc::clone(flight), vec![page])),
                }
            } else {
                missing.push(page);
            }
        }
        if !again {
            state.count(share, here.len(), missing.len(), joined.iter().map(|(_, pages)| pages.len()).sum());
        }
        let fetch = (!missing.is_empty()).then(|| state.take_off(self, number, missing));
        state.tidy(number);
        Plan { here, fetch, joined }
    }

    /// Drops these pages, because their bytes did not decode, and has the caller fetch them. Who wants them from now on
    /// waits for that fetch; what an earlier one has yet to write does not count.
    pub(crate) fn distrust(self: &Arc<Self>, object: &ObjectRef, pages: Vec<u64>) -> FlightGuard {
        let mut guard = self.state();
        let state = &mut *guard;
        let number = state.number(object);
        let here: Vec<HerePage> =
            pages.iter().filter_map(|&page| state.find(self.geometry, number, object, page)).collect();
        for page in here {
            state.drop_page(&page);
        }
        state.take_off(self, number, pages)
    }

    /// The pages of `range` that are not here.
    pub(crate) fn absent(&self, object: &ObjectRef, range: std::ops::Range<u64>) -> Vec<u64> {
        let state = self.state();
        let Some(&number) = state.numbers.get(object) else { return range.collect() };
        range.filter(|&page| state.find(self.geometry, number, object, page).is_none()).collect()
    }

    /// Reads pages, each volume on its own thread, and verifies every one.
    pub(crate) async fn read(self: &Arc<Self>, object: &ObjectRef, here: Vec<HerePage>) -> ReadBack {
        let mut by_volume: BTreeMap<u32, Vec<HerePage>> = BTreeMap::new();
        for page in here {
            by_volume.entry(page.place.volume).or_default().push(page);
        }
        let reads = by_volume.into_iter().map(|(volume, pages)| {
            let (near, asked) = (Arc::clone(self), pages.clone());
            let read = tokio::task::spawn_blocking(move || near.read_volume(volume, pages));
            async move { read.await.unwrap_or_else(|_| (Pages::new(), asked)) }
        });
        let mut back = ReadBack::default();
        for (pages, bad) in join_all(reads).await {
            back.pages.extend(pages);
            self.forget(object, &bad);
            back.bad.extend(bad.iter().map(|page| page.page));
        }
        back
    }

    /// Has fetched pages written by a blocking thread. Waits while too much is waiting already.
    pub(crate) async fn write_behind(self: &Arc<Self>, guard: FlightGuard, pages: Arc<Pages>, share: Share) {
        let bytes: usize = pages.values().map(Bytes::len).sum();
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX).min(UNWRITTEN_KIB_MAX);
        self.state().stats.bytes_fetched += bytes as u64;
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&self.unwritten).acquire_many_owned(kib).await else { return };
        let near = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            near.write(&guard, &pages, share);
            // Who waits for the permits may open the cache again, so nothing of it is held after them.
            drop(guard);
            drop(near);
            drop(permit);
        });
    }

    pub(crate) async fn flush(self: &Arc<Self>) {
        let Ok(_all) = self.unwritten.acquire_many(UNWRITTEN_KIB_MAX).await else { return };
        self.blocking(|near| near.append()).await;
    }

    pub(crate) async fn close(self: &Arc<Self>) {
        let Ok(_all) = self.unwritten.acquire_many(UNWRITTEN_KIB_MAX).await else { return };
        self.blocking(|near| {
            for volume in 0..near.volumes.len() as u32 {
                if !near.has_failed(volume) && near.volume(volume).is_some_and(|v| v.sync().is_err()) {
                    near.fail_volume(volume);
                }
            }
            near.compact();
        })
        .await;
    }

    pub(crate) async fn clear(self: &Arc<Self>) {
        let Ok(_all) = self.unwritten.acquire_many(UNWRITTEN_KIB_MAX).await else { return };
        self.blocking(|near| {
            let mut state = near.state();
            for slot in state.policy.by_age() {
                state.drop_region(near.geometry, slot);
                state.policy.remove(slot);
            }
            drop(state);
            near.compact();
        })
        .await;
    }

    pub(crate) fn pin(&self, object: &ObjectRef, pinned: bool) {
        let mut guard = self.state();
        let state = &mut *guard;
        let number = state.number(object);
        let Some(entry) = state.objects.get_mut(&number).filter(|entry| entry.pinned != pinned) else {
            state.tidy(number);
            return;
        };
        (entry.pinned, entry.recorded) = (pinned, true);
        state.unrecorded.object(number, object, pinned);
        for slot in state.policy.by_age() {
            if state.slots.get(slot as usize).is_some_and(|s| s.object == number) {
                if pinned { state.policy.hold(slot) } else { state.policy.release(slot) }
            }
        }
        state.tidy(number);
        drop(guard);
        self.append();
    }

    async fn blocking(self: &Arc<Self>, work: impl FnOnce(&Near) + Send + 'static) {
        let near = Arc::clone(self);
        // It fails only when the runtime ends, and then there is nobody to tell.
        let _ = tokio::task::spawn_blocking(move || work(&near)).await;
    }

    fn read_volume(&self, volume: u32, mut pages: Vec<HerePage>) -> (Pages, Vec<HerePage>) {
        pages.sort_unstable_by_key(|page| page.place.at);
        let (mut good, mut bad) = (Pages::with_capacity(pages.len()), Vec::new());
        let mut rest = pages.as_slice();
        while let Some(first) = rest.first() {
            let (run, after) = rest.split_at(run_len(rest));
            rest = after;
            let mut bytes = vec![0; run.iter().map(|page| page.bytes).sum()];
            match self.volume(volume).map(|v| v.read_at(&mut bytes, first.place.at)) {
                Some(Ok(())) => verify(run, Bytes::from(bytes), &mut good, &mut bad),
                failed => {
                    bad.extend_from_slice(run);
                    // A file that was cut short is mended by writing to it.
                    if failed.is_some_and(|f| f.is_err_and(|e| e.kind() != io::ErrorKind::UnexpectedEof)) {
                        self.fail_volume(volume);
                    }
                }
            }
        }
        (good, bad)
    }

    /// Pages that did not verify are absent, unless their slot has got something else meanwhile.
    fn forget(&self, object: &ObjectRef, bad: &[HerePage]) {
        let mut guard = self.state();
        let state = &mut *guard;
        for page in bad {
            if state.drop_page(page) {
                state.stats.pages_corrupt += 1;
                tracing::warn!(object = %object.key, page = page.page, "a cached page is damaged and fetched again");
            }
        }
    }

    fn write(&self, guard: &FlightGuard, pages: &Pages, share: Share) {
        let mut fillings = self.assign(guard, pages, share);
        for filling in &mut fillings {
            self.fill(filling);
        }
        self.settle(guard, fillings, share);
        self.append();
    }

    /// Finds a slot for each region of these pages and holds it.
    fn assign(&self, guard: &FlightGuard, pages: &Pages, share: Share) -> Vec<Filling> {
        let in_region = u64::from(self.geometry.pages());
        let mut regions: BTreeMap<u64, Vec<(u16, Bytes)>> = BTreeMap::new();
        for page in &guard.pages {
            let Some(bytes) = pages.get(page) else { continue };
            regions.entry(page / in_region).or_default().push(((page % in_region) as u16, bytes.clone()));
        }
        let mut state = self.state();
        state.policy.begin();
        let assigned = regions.into_iter().filter_map(|(region, pages)| {
            let region = u32::try_from(region).ok()?;
            let slot = state.slot_for(self.geometry, guard.object, region, share)?;
            state.policy.hold(slot);
            Some(Filling { slot, region, pages, written: Vec::new(), no_space: false })
        });
        assigned.collect()
    }

    /// Writes the pages of a region, neighbours on a volume together.
    fn fill(&self, filling: &mut Filling) {
        let place = |page: u16| self.geometry.place(filling.slot, u32::from(page));
        let mut rest = filling.pages.as_slice();
        while let Some((first, _)) = rest.first() {
            let start = place(*first);
            let mut run = Vec::new();
            let mut written = Vec::new();
            while let Some(((page, bytes), after)) = rest.split_first() {
                let here = Place { volume: start.volume, at: start.at + run.len() as u64 };
                if place(*page) != here || run.len() >= RUN_BYTES_MAX {
                    break;
                }
                run.extend_from_slice(bytes);
                written.push((*page, checksum(bytes)));
                rest = after;
            }
            if self.has_failed(start.volume) {
                continue;
            }
            match self.volume(start.volume).map(|v| v.write_at(&run, start.at)) {
                Some(Ok(())) => filling.written.append(&mut written),
                Some(Err(error)) if is_full(&error) => filling.no_space = true,
                _ => self.fail_volume(start.volume),
            }
        }
    }

    /// Makes written pages known and releases their slots.
    fn settle(&self, flight: &FlightGuard, fillings: Vec<Filling>, share: Share) {
        let mut guard = self.state();
        let state = &mut *guard;
        let (object, in_region) = (flight.object, u64::from(self.geometry.pages()));
        for mut filling in fillings {
            let first = u64::from(filling.region) * in_region;
            filling.written.retain(|(page, _)| state.is_flight_of(flight, first + u64::from(*page)));
            let slot = filling.slot;
            state.policy.release(slot);
            if state.places.get(&(object, filling.region)) != Some(&slot) {
                continue; // Its volume failed meanwhile.
            }
            if filling.no_space {
                state.drop_region(self.geometry, slot);
                state.policy.retire(slot);
                continue;
            }
            state.settle(self.geometry, object, filling, share);
        }
    }

    /// Never again uses a volume that failed, nor slots that lie wholly on failed ones.
    fn fail_volume(&self, volume: u32) {
        let mut guard = self.state();
        let state = &mut *guard;
        match state.failed.get_mut(volume as usize) {
            Some(failed) if !*failed => *failed = true,
            _ => return,
        }
        tracing::warn!(volume, "a cache volume failed; its pages are fetched again when wanted");
        let failed = state.failed.clone();
        for slot in (0..self.slots).filter(|&slot| self.geometry.is_lost(slot, &failed)) {
            state.drop_region(self.geometry, slot);
            state.policy.retire_unordered(slot);
        }
        state.policy.retired();
    }

    fn has_failed(&self, volume: u32) -> bool {
        self.state().failed.get(volume as usize).copied().unwrap_or(true)
    }

    fn volume(&self, volume: u32) -> Option<&Arc<dyn Volume>> {
        self.volumes.get(volume as usize)
    }

    /// Appends what is not in the table yet.
    fn append(&self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let records = self.state().unrecorded.take();
        let Some(file) = table.as_mut() else { return };
        if !records.is_empty() {
            warned("appended to", file.append(&records));
        }
        let long = file.is_long();
        drop(table);
        if long {
            self.compact();
        }
    }

    /// Replaces the table by one that says only what is true now.
    fn compact(&self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = table.as_mut() else { return };
        let bytes = self.state().compact(self.layout);
        warned("written", file.replace(&bytes));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(slots: u32, shares: Shares) -> Self {
        let empty =
            || Slot { object: 0, region: 0, share: Share::Column, generation: 0, sums: Box::default() };
        State {
            policy: Policy::new(slots, shares),
            slots: std::iter::repeat_with(empty).take(slots as usize).collect(),
            places: HashMap::new(),
            objects: HashMap::new(),
            numbers: HashMap::new(),
            object_next: 0,
            flights: HashMap::new(),
            failed: Vec::new(),
            unrecorded: Records::default(),
            stats: Stats::default(),
            refused: 0,
        }
    }

    /// Takes over what a table says, oldest first, as far as it fits.
    fn restore(&mut self, table: Table, geometry: Geometry) {
        for (number, stored) in table.objects {
            self.object_next = self.object_next.max(number.saturating_add(1));
            self.numbers.insert(stored.object.clone(), number);
            let object = Object { pinned: stored.pinned, recorded: true, ..Object::new(stored.object) };
            self.objects.insert(number, object);
        }
        let mut regions: Vec<_> = table.slots.into_iter().collect();
        regions.sort_unstable_by_key(|(_, region)| region.order);
        for (slot, stored) in regions {
            let Some(hash) = self.objects.get(&stored.object).map(|object| object.hash) else { continue };
            let key = region_key(hash, stored.region);
            if self.policy.restore(slot, key, stored.share, stored.frequency) {
                self.occupy(geometry, slot, stored.object, stored.region, stored.share);
                self.set_sums(geometry, slot, &stored.pages);
            }
        }
        self.policy.restored();
        for number in self.objects.keys().copied().collect::<Vec<_>>() {
            self.tidy(number);
        }
    }

    fn number(&mut self, object: &ObjectRef) -> u32 {
        if let Some(&number) = self.numbers.get(object) {
            return number;
        }
        // Numbers are not used twice while the process lives; after four billion objects they wrap onto
        // ones long forgotten.
        while self.objects.contains_key(&self.object_next) {
            self.object_next = self.object_next.wrapping_add(1);
        }
        let number = self.object_next;
        self.object_next = number.wrapping_add(1);
        self.numbers.insert(object.clone(), number);
        self.objects.insert(number, Object::new(object.clone()));
        number
    }

    /// Forgets an object of which nothing is here.
    fn tidy(&mut self, number: u32) {
        if self.objects.get(&number).is_some_and(|o| o.regions == 0 && o.flights == 0 && !o.pinned)
            && let Some(object) = self.objects.remove(&number)
        {
            self.numbers.remove(&object.object);
        }
    }

    /// Counts a call's read of each region once.
    fn touch(&mut self, number: u32, wanted: &[u64], geometry: Geometry) {
        self.policy.begin();
        let in_region = u64::from(geometry.pages());
        let mut before = None;
        for region in wanted.iter().map(|page| page / in_region) {
            if before.replace(region) == Some(region) {
                continue;
            }
            let place = u32::try_from(region).ok().and_then(|region| self.places.get(&(number, region)));
            if let Some(&slot) = place {
                self.policy.touch(slot);
            }
        }
    }

    fn count(&mut self, share: Share, hits: usize, misses: usize, joined: usize) {
        self.stats.joined += joined as u64;
        let ShareStats { hits: share_hits, misses: share_misses, .. } =
            &mut self.stats.shares[share as usize];
        *share_hits += hits as u64;
        *share_misses += misses as u64;
    }

    fn find(&self, geometry: Geometry, number: u32, object: &ObjectRef, page: u64) -> Option<HerePage> {
        let in_region = u64::from(geometry.pages());
        let (region, index) = (u32::try_from(page / in_region).ok()?, (page % in_region) as u32);
        let &slot = self.places.get(&(number, region))?;
        let held = self.slots.get(slot as usize)?;
        let sum = held.sums.get(index as usize).copied().filter(|&sum| sum != 0)?;
        let place = geometry.place(slot, index);
        let bytes = page_len(geometry, object, page)?;
        let usable = self.failed.get(place.volume as usize) == Some(&false);
        usable.then_some(HerePage { page, place, bytes, sum, slot, generation: held.generation, index })
    }

    /// Makes a page absent, unless its slot has got something else meanwhile.
    fn drop_page(&mut self, page: &HerePage) -> bool {
        let Some(slot) = self.slots.get_mut(page.slot as usize) else { return false };
        let Some(sum) = slot.sums.get_mut(page.index as usize) else { return false };
        let same = slot.generation == page.generation && *sum == page.sum;
        if same {
            *sum = 0;
            self.stats.bytes_near = self.stats.bytes_near.saturating_sub(page.bytes as u64);
        }
        same
    }

    fn take_off(&mut self, near: &Arc<Near>, object: u32, pages: Vec<u64>) -> FlightGuard {
        let flight = Flight::new();
        for &page in &pages {
            self.flights.insert((object, page), Arc::clone(&flight));
        }
        if let Some(entry) = self.objects.get_mut(&object) {
            entry.flights += 1;
        }
        FlightGuard { near: Arc::clone(near), object, pages, flight }
    }

    /// Whether the page is still this fetch's to bring.
    fn is_flight_of(&self, guard: &FlightGuard, page: u64) -> bool {
        self.flights.get(&(guard.object, page)).is_some_and(|flight| Arc::ptr_eq(flight, &guard.flight))
    }

    fn slot_for(&mut self, geometry: Geometry, object: u32, region: u32, share: Share) -> Option<u32> {
        if let Some(&slot) = self.places.get(&(object, region)) {
            return Some(slot);
        }
        let key = region_key(self.objects.get(&object)?.hash, region);
        let Some(admitted) = self.policy.admit(key, share) else {
            self.refused += 1;
            return None;
        };
        if admitted.evicted {
            self.drop_region(geometry, admitted.slot);
        }
        self.occupy(geometry, admitted.slot, object, region, share);
        Some(admitted.slot)
    }

    fn occupy(&mut self, geometry: Geometry, slot: u32, object: u32, region: u32, share: Share) {
        let Some(entry) = self.slots.get_mut(slot as usize) else { return };
        let sums = vec![0; geometry.pages() as usize].into_boxed_slice();
        *entry = Slot { object, region, share, generation: entry.generation.wrapping_add(1), sums };
        self.places.insert((object, region), slot);
        if let Some(object) = self.objects.get_mut(&object) {
            object.regions += 1;
            if object.pinned {
                self.policy.hold(slot);
            }
        }
    }

    /// Empties a slot here; the policy is told by the caller.
    fn drop_region(&mut self, geometry: Geometry, slot: u32) {
        let Some(entry) = self.slots.get_mut(slot as usize).filter(|entry| !entry.sums.is_empty()) else {
            return;
        };
        let (number, region, sums) = (entry.object, entry.region, std::mem::take(&mut entry.sums));
        entry.generation = entry.generation.wrapping_add(1);
        self.places.remove(&(number, region));
        let Some(object) = self.objects.get_mut(&number) else { return };
        let first = u64::from(region) * u64::from(geometry.pages());
        let here = (first..).zip(sums.iter()).filter(|(_, sum)| **sum != 0);
        let bytes: usize = here.filter_map(|(page, _)| page_len(geometry, &object.object, page)).sum();
        self.stats.bytes_near = self.stats.bytes_near.saturating_sub(bytes as u64);
        object.regions = object.regions.saturating_sub(1);
        self.tidy(number);
    }

    fn settle(&mut self, geometry: Geometry, object: u32, filling: Filling, share: Share) {
        let Filling { slot, region, written: pages, .. } = filling;
        self.set_sums(geometry, slot, &pages);
        if pages.is_empty() {
            return;
        }
        if let Some(entry) = self.objects.get_mut(&object).filter(|entry| !entry.recorded) {
            entry.recorded = true;
            self.unrecorded.object(object, &entry.object, entry.pinned);
        }
        let share = self.slots.get(slot as usize).map_or(share, |held| held.share);
        let frequency = self.policy.frequency(slot);
        self.unrecorded.fill(slot, &StoredRegion { object, region, share, frequency, pages, order: 0 });
    }

    fn set_sums(&mut self, geometry: Geometry, slot: u32, pages: &[(u16, u64)]) {
        let Some(held) = self.slots.get_mut(slot as usize) else { return };
        let Some(object) = self.objects.get(&held.object) else { return };
        let first = u64::from(held.region) * u64::from(geometry.pages());
        for &(page, sum) in pages {
            let Some(len) = page_len(geometry, &object.object, first + u64::from(page)) else { continue };
            let Some(known) = held.sums.get_mut(usize::from(page)) else { continue };
            if *known == 0 {
                self.stats.bytes_near += len as u64;
            }
            *known = sum;
        }
    }

    /// The table of what is here now, least recently read first.
    fn compact(&mut self, layout: Layout) -> Vec<u8> {
        let mut table = Compact::new(layout);
        // What waits to be recorded is part of what is here.
        self.unrecorded.take();
        let mut records = Records::default();
        for (&number, object) in &mut self.objects {
            object.recorded = object.regions > 0 || object.pinned;
            if object.recorded {
                records.object(number, &object.object, object.pinned);
            }
            flush_full(&mut records, &mut table);
        }
        for slot in self.policy.by_age() {
            let Some(held) = self.slots.get(slot as usize) else { continue };
            let here = held.sums.iter().enumerate().filter(|(_, sum)| **sum != 0);
            let pages: Vec<_> = here.map(|(page, sum)| (page as u16, *sum)).collect();
            let Slot { object, region, share, .. } = *held;
            if !pages.is_empty() {
                let frequency = self.policy.frequency(slot);
                records.fill(slot, &StoredRegion { object, region, share, frequency, pages, order: 0 });
            }
            flush_full(&mut records, &mut table);
        }
        table.frame(&records);
        table.into_bytes()
    }
}

impl Object {
    fn new(object: ObjectRef) -> Self {
        let hash = xxh3_64_with_seed(object.key.as_bytes(), object.bytes);
        Object { object, hash, regions: 0, flights: 0, pinned: false, recorded: false }
    }
}

impl FlightGuard {
    /// The pages to fetch, in order.
    pub(crate) fn pages(&self) -> &[u64] {
        &self.pages
    }

    pub(crate) fn land(&self, landing: Landing) {
        self.flight.land(landing);
    }
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        let mut guard = self.near.state();
        let state = &mut *guard;
        for &page in &self.pages {
            if state.is_flight_of(self, page) {
                state.flights.remove(&(self.object, page));
            }
        }
        if let Some(object) = state.objects.get_mut(&self.object) {
            object.flights = object.flights.saturating_sub(1);
        }
        state.tidy(self.object);
        drop(guard);
        self.flight.land(Landing::Abandoned);
    }
}

const SHARES: [Share; 4] = [Share::Footer, Share::Index, Share::Column, Share::Source];

/// Whether the regions of a stored table are used on, although the capacity would now suggest others.
fn is_kept(stored: Layout, wanted: Layout, capacity: u64) -> bool {
    let same = stored.page_bytes == wanted.page_bytes && stored.volumes == wanted.volumes;
    let fits = stored.region_bytes.is_power_of_two()
        && capacity / u64::from(stored.region_bytes.max(1)) >= REGIONS_KEPT_MIN;
    same && (stored.region_bytes == wanted.region_bytes || fits)
}

fn region_key(object_hash: u64, region: u32) -> u64 {
    xxh3_64_with_seed(&region.to_le_bytes(), object_hash)
}

/// 0 stands for an absent page.
fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes).max(1)
}

/// The length of a page: the last one ends with its object. `None` past the end.
fn page_len(geometry: Geometry, object: &ObjectRef, page: u64) -> Option<usize> {
    let page_bytes = u64::from(geometry.page_bytes);
    let start = page.checked_mul(page_bytes).filter(|&start| start < object.bytes)?;
    Some((object.bytes - start).min(page_bytes) as usize)
}

/// How many of these pages, sorted by place, lie one after the other.
fn run_len(pages: &[HerePage]) -> usize {
    let mut bytes = 0;
    let follows = |pair: &[HerePage]| {
        let [before, after] = pair else { return false };
        bytes += before.bytes;
        bytes < RUN_BYTES_MAX && before.place.at + before.bytes as u64 == after.place.at
    };
    1 + pages.windows(2).map(follows).take_while(|&follows| follows).count()
}

fn verify(run: &[HerePage], mut bytes: Bytes, good: &mut Pages, bad: &mut Vec<HerePage>) {
    for page in run {
        let own = bytes.split_to(page.bytes.min(bytes.len()));
        if checksum(&own) == page.sum {
            good.insert(page.page, own);
        } else {
            bad.push(*page);
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn flush_full(records: &mut Records, table: &mut Compact) {
    if records.is_full() {
        table.frame(&records.take());
    }
}

/// The cache lives without its table, it only starts empty next time.
fn warned<T>(what: &str, outcome: io::Result<T>) -> Option<T> {
    outcome.inspect_err(|error| tracing::warn!(%error, "the cache's table cannot be {what}")).ok()
}
