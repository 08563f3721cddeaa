//! The pages on the local volumes: read, verified, and written in the background.
//!
//! Invariants:
//! - A page is *cached* only after its bytes and its checksum were written, and is used only if they match. So it does
//!   not matter what a slow, failing or lying volume does in between.
//! - A slot that is being written is held, so that it is not given to another region meanwhile. A slot that is being
//!   read
//!   is not held: if it contains something else afterwards, a mismatch is not corruption.
//! - No reader waits for a write. The queue of pages to write is bounded, and pages beyond the bound are not cached.
//! - Lock order: the table's before the slots'. No volume I/O while the slots are locked.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use frostline_base::{ObjectRef, Share};
use futures::future::join_all;
use parking_lot::{Mutex, MutexGuard};

use crate::behind::Behind;
use crate::flight::{Flight, Landing, Pages};
use crate::policy::Shares;
use crate::slots::{HerePage, ObjectId, Slots};
use crate::stats::Stats;
use crate::table::{Layout, PinsFile, TableFile};
use crate::volume::{Geometry, Place, SUM_BYTES, Volume};

/// Fetched pages that are no further apart are fetched with what is between them, since a request costs more.
const GAP_BYTES_MAX: u64 = 128 << 10;
/// Adjacent pages are read and written in pieces of at most this.
const RUN_BYTES_MAX: usize = 1 << 20;
/// So much is read from the kernel's memory without a thread: a tenth of a millisecond.
const AT_ONCE_BYTES_MAX: usize = 256 << 10;
/// A table's regions keep their size as long as at least this many fit.
const REGIONS_KEPT_MIN: u64 = 16;
/// A volume whose read takes longer than this, plus the time for the bytes at 10 MB/s, has failed. The store answers
/// sooner.
const READ_MAX: Duration = Duration::from_secs(3);
const READ_BYTES_PER_US: u64 = 10;

/// The local part of a cache.
#[derive(Debug)]
pub(crate) struct Near {
    geometry: Geometry,
    slots: u32,
    capacity: u64,
    volumes: Vec<Option<Arc<dyn Volume>>>,
    state: Mutex<Slots>,
    table: Mutex<Option<TableFile>>,
    pins: Option<PinsFile>,
    /// Shared with the writing threads, which hold nothing else when all is written.
    behind: Arc<Behind<Write>>,
    /// Held until the last background write is done.
    _locks: Vec<File>,
}

/// Fetched pages that are to be written.
#[derive(Debug)]
struct Write {
    guard: FlightGuard,
    pages: Arc<Pages>,
    share: Share,
}

/// The source of each page of a call.
pub(crate) struct Plan {
    pub(crate) here: Vec<HerePage>,
    pub(crate) fetch: Option<FlightGuard>,
    pub(crate) joined: Vec<(Arc<Flight>, Vec<u64>)>,
}

/// The pages read from the volumes, and those that must be fetched after all.
#[derive(Default)]
pub(crate) struct ReadBack {
    pub(crate) pages: Pages,
    pub(crate) bad: Vec<u64>,
}

/// What became of the pages of one volume.
#[derive(Default)]
struct VolumeRead {
    good: Pages,
    bad: Vec<HerePage>,
    /// The disk has to be waited for.
    later: Vec<HerePage>,
}

impl VolumeRead {
    fn later(later: Vec<HerePage>) -> VolumeRead {
        VolumeRead { later, ..VolumeRead::default() }
    }

    fn bad(bad: Vec<HerePage>) -> VolumeRead {
        VolumeRead { bad, ..VolumeRead::default() }
    }
}

/// The duty to fetch pages. If it is dropped before it has landed, the waiting readers fetch for themselves.
#[derive(Debug)]
pub(crate) struct FlightGuard {
    near: Arc<Near>,
    object: ObjectId,
    pages: Vec<u64>,
    flight: Arc<Flight>,
}

/// Pages of one region on their way to a slot.
struct Filling {
    slot: u32,
    region: u64,
    pages: Vec<(u16, Bytes)>,
    written: Vec<u16>,
    no_space: bool,
}

impl Near {
    /// The bookkeeping, with the contents of an earlier process's table. `table` is the directory of the table's file.
    pub(crate) fn load(
        wanted: Layout,
        capacity: u64,
        volumes: u32,
        shares: Shares,
        table: Option<&PathBuf>,
    ) -> Near {
        let stored = table.and_then(|directory| TableFile::read(directory));
        let mut stored = stored.filter(|stored| is_kept(stored.layout(), wanted, capacity));
        let layout = stored.as_ref().map_or(wanted, |stored| stored.layout());
        let slots = u32::try_from(capacity / u64::from(layout.region_bytes)).unwrap_or(u32::MAX - 1);
        let geometry = Geometry { region_bytes: layout.region_bytes, page_bytes: layout.page_bytes, volumes };
        let pins = table.map(|directory| PinsFile::new(directory));
        let pinned = pins.as_ref().map(PinsFile::read).unwrap_or_default();
        let mut state = Slots::new(slots, geometry, shares, pinned);
        while let Some((slot, region, bits)) = stored.as_mut().and_then(|stored| stored.next_slot()) {
            state.restore(slot, region, bits);
        }
        state.restored();
        let file = table.and_then(|directory| warned("opened", TableFile::open(directory, layout, slots)));
        Near {
            geometry,
            slots,
            capacity,
            volumes: Vec::new(),
            state: Mutex::new(state),
            table: Mutex::new(file),
            pins,
            behind: Arc::new(Behind::new(volumes as usize)),
            _locks: Vec::new(),
        }
    }

    /// Starts to use these volumes. An unusable one is left out.
    pub(crate) fn start(&mut self, volumes: Vec<Option<Arc<dyn Volume>>>, locks: Vec<File>) {
        self.state().failed = vec![false; volumes.len()];
        self.volumes = volumes;
        self._locks = locks;
        for volume in 0..self.volumes.len() as u32 {
            match self.volume(volume) {
                // Reading one byte of each volume shows whether it works at all.
                Some(there) if self.slots > 0 => {
                    if let Err(error) = there.read_at(&mut [0], 0) {
                        self.fail_volume(volume, &error);
                    }
                }
                Some(_) => {}
                None => self.leave_out(volume),
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

    /// Whether anything can be cached at all.
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
        self.state().figures(self.capacity)
    }

    /// For each page: whether it is cached, being fetched by another reader, or now to be fetched by the caller.
    pub(crate) fn plan(
        self: &Arc<Self>,
        object: &ObjectRef,
        wanted: &[u64],
        share: Share,
        again: bool,
    ) -> Plan {
        let id = ObjectId::of(object);
        let mut state = self.state();
        let mut here = Vec::new();
        let mut missing = Vec::new();
        let mut joined: Vec<(Arc<Flight>, Vec<u64>)> = Vec::new();
        if !again {
            state.touch(id, wanted);
        }
        for &page in wanted {
            if let Some(found) = state.find(id, object, page) {
                here.push(found);
            } else if let Some(flight) = state.flight_of(id, page) {
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
        missing.extend(self.between(&state, id, object, &missing));
        missing.sort_unstable();
        let fetch = (!missing.is_empty()).then(|| self.take_off(&mut state, id, missing));
        Plan { here, fetch, joined }
    }

    /// Pages that are worth keeping if these are fetched: what is between them is fetched, too, and a region takes all
    /// of its space whether it has them or not.
    fn between(&self, state: &Slots, id: ObjectId, object: &ObjectRef, missing: &[u64]) -> Vec<u64> {
        let (in_region, page_bytes) = (u64::from(self.geometry.pages()), u64::from(self.page_bytes()));
        let near = missing.windows(2).filter_map(|pair| match pair {
            &[before, after] if (after - before - 1) * page_bytes <= GAP_BYTES_MAX => Some([before, after]),
            _ => None,
        });
        let pages = near.flat_map(|ends| {
            let is_in_region = move |page: &u64| ends.iter().any(|end| end / in_region == page / in_region);
            (ends[0] + 1..ends[1]).filter(is_in_region)
        });
        let is_absent =
            |page: &u64| state.find(id, object, *page).is_none() && state.flight_of(id, *page).is_none();
        pages.filter(is_absent).collect()
    }

    /// Drops these pages, because their bytes did not decode, and lets the caller fetch them. Later readers
    /// wait for that fetch; pages that an earlier fetch has yet to write are ignored.
    pub(crate) fn distrust(self: &Arc<Self>, object: &ObjectRef, pages: Vec<u64>) -> FlightGuard {
        let id = ObjectId::of(object);
        let mut state = self.state();
        for &page in &pages {
            if let Some(here) = state.find(id, object, page) {
                state.drop_page(&here);
            }
        }
        self.take_off(&mut state, id, pages)
    }

    fn take_off(self: &Arc<Self>, state: &mut Slots, object: ObjectId, pages: Vec<u64>) -> FlightGuard {
        let flight = Flight::new();
        state.take_off(object, &pages, &flight);
        FlightGuard { near: Arc::clone(self), object, pages, flight }
    }

    /// The pages of `range` that are not cached.
    pub(crate) fn absent(&self, object: &ObjectRef, range: std::ops::Range<u64>) -> Vec<u64> {
        let (id, state) = (ObjectId::of(object), self.state());
        range.filter(|&page| state.find(id, object, page).is_none()).collect()
    }

    /// Reads pages and verifies every one. What the kernel has in memory is read at once: another thread would take
    /// longer to wake. The rest of each volume is read on a thread of its own. It does not wait for a volume that does not
    /// answer.
    pub(crate) async fn read(self: &Arc<Self>, object: &ObjectRef, here: Vec<HerePage>) -> ReadBack {
        let id = ObjectId::of(object);
        let mut by_volume: BTreeMap<u32, Vec<HerePage>> = BTreeMap::new();
        for page in here {
            by_volume.entry(page.place.volume).or_default().push(page);
        }
        let reads = by_volume.into_iter().map(|(volume, pages)| {
            let now = bytes_of(&pages) <= AT_ONCE_BYTES_MAX;
            let read = if now { self.read_volume(volume, id, pages, true) } else { VolumeRead::later(pages) };
            async move {
                let VolumeRead { mut good, mut bad, later } = read;
                if !later.is_empty() {
                    let rest = self.read_on_thread(volume, id, later).await;
                    good.extend(rest.good);
                    bad.extend(rest.bad);
                }
                (good, bad)
            }
        });
        let mut back = ReadBack::default();
        for (pages, bad) in join_all(reads).await {
            back.pages.extend(pages);
            self.forget(object, &bad);
            back.bad.extend(bad.iter().map(|page| page.page));
        }
        back
    }

    async fn read_on_thread(self: &Arc<Self>, volume: u32, id: ObjectId, pages: Vec<HerePage>) -> VolumeRead {
        let (near, asked) = (Arc::clone(self), pages.clone());
        let time_max = READ_MAX + Duration::from_micros(bytes_of(&pages) as u64 / READ_BYTES_PER_US);
        let read = tokio::task::spawn_blocking(move || near.read_volume(volume, id, pages, false));
        match tokio::time::timeout(time_max, read).await {
            Ok(read) => read.unwrap_or_else(|_| VolumeRead::bad(asked)),
            Err(_) => {
                self.fail_volume(volume, &io::ErrorKind::TimedOut.into());
                VolumeRead::bad(asked)
            }
        }
    }

    /// Queues fetched pages to be written by another thread, or drops them if the queue is full.
    pub(crate) fn write_behind(self: &Arc<Self>, guard: FlightGuard, pages: Arc<Pages>, share: Share) {
        let bytes: usize = pages.values().map(Bytes::len).sum();
        let count = pages.len() as u64;
        self.state().stats.bytes_fetched += bytes as u64;
        let behind = Arc::clone(&self.behind);
        let kept = self.behind.push(Write { guard, pages, share }, bytes, move || {
            tokio::task::spawn_blocking(move || behind.work(|write| write.guard.near.write(write)));
        });
        if !kept {
            self.state().stats.pages_unwritten += count;
        }
    }

    /// Waits until everything fetched so far that is cached at all is written and in the table.
    pub(crate) async fn flush(&self) {
        self.behind.flush().await;
    }

    pub(crate) async fn close(self: &Arc<Self>) {
        self.flush().await;
        self.blocking(|near| {
            for volume in 0..near.volumes.len() as u32 {
                let synced = near.volume(volume).filter(|_| !near.has_failed(volume)).map(|v| v.sync());
                if let Some(Err(error)) = synced {
                    near.fail_volume(volume, &error);
                }
            }
            near.record_all();
        })
        .await;
    }

    pub(crate) async fn clear(self: &Arc<Self>) {
        self.flush().await;
        self.blocking(|near| {
            let mut state = near.state();
            for slot in 0..near.slots {
                state.empty(slot);
            }
            drop(state);
            near.record_all();
        })
        .await;
    }

    pub(crate) fn pin(&self, object: &ObjectRef, pinned: bool) {
        let (id, mut state) = (ObjectId::of(object), self.state());
        let was = if pinned {
            state.pinned.insert(id.0, object.bytes).is_some()
        } else {
            state.pinned.remove(&id.0).is_some()
        };
        if was == pinned {
            return;
        }
        state.hold_object(id, object.bytes, pinned);
        drop(state);
        if let Some(pins) = &self.pins {
            warned("told of a pin", pins.append(id.0, object.bytes, pinned));
        }
    }

    /// Pins these objects and no others.
    pub(crate) fn pin_only(&self, objects: &[ObjectRef]) {
        let wanted: HashMap<u128, u64> =
            objects.iter().map(|object| (ObjectId::of(object).0, object.bytes)).collect();
        let mut state = self.state();
        if state.pinned == wanted {
            return;
        }
        let before = std::mem::replace(&mut state.pinned, wanted.clone());
        let released = before.iter().filter(|(id, _)| !wanted.contains_key(id));
        released.for_each(|(id, bytes)| state.hold_object(ObjectId(*id), *bytes, false));
        let held = wanted.iter().filter(|(id, _)| !before.contains_key(id));
        held.for_each(|(id, bytes)| state.hold_object(ObjectId(*id), *bytes, true));
        drop(state);
        if let Some(pins) = &self.pins {
            warned("told of the pins", pins.replace(&wanted));
        }
    }

    async fn blocking(self: &Arc<Self>, work: impl FnOnce(&Near) + Send + 'static) {
        let near = Arc::clone(self);
        // It fails only when the runtime ends, and then nobody is waiting.
        let _ = tokio::task::spawn_blocking(move || work(&near)).await;
    }

    /// Reads pages of one volume; with `from_memory` only those that the kernel has.
    fn read_volume(
        &self,
        volume: u32,
        object: ObjectId,
        mut pages: Vec<HerePage>,
        from_memory: bool,
    ) -> VolumeRead {
        pages.sort_unstable_by_key(|page| page.place.at);
        let mut done = VolumeRead { good: Pages::with_capacity(pages.len()), ..VolumeRead::default() };
        let mut rest = pages.as_slice();
        while let Some(first) = rest.first() {
            let (run, after) = rest.split_at(run_len(rest));
            rest = after;
            let mut bytes = vec![0; bytes_of(run)];
            let mut sums = vec![0; run.len() * SUM_BYTES as usize];
            let sums_at = self.geometry.sum_at(first.place);
            let read = self.volume(volume).map(|volume| {
                if from_memory {
                    return Ok(volume.read_from_memory(&mut bytes, first.place.at)
                        && volume.read_from_memory(&mut sums, sums_at));
                }
                volume.read_at(&mut sums, sums_at)?;
                volume.read_at(&mut bytes, first.place.at).map(|()| true)
            });
            match read {
                Some(Ok(true)) => verify(object, run, &sums, Bytes::from(bytes), &mut done),
                Some(Ok(false)) => done.later.extend_from_slice(run),
                failed => {
                    done.bad.extend_from_slice(run);
                    // Writing to a truncated file repairs it.
                    if let Some(Err(error)) =
                        failed.filter(|f| f.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::UnexpectedEof))
                    {
                        self.fail_volume(volume, &error);
                    }
                }
            }
        }
        done
    }

    /// Marks pages that failed verification as absent, unless their slot has been reused meanwhile.
    fn forget(&self, object: &ObjectRef, bad: &[HerePage]) {
        let mut state = self.state();
        for page in bad {
            let failed = state.failed.get(page.place.volume as usize) != Some(&false);
            if state.drop_page(page) && !failed {
                state.stats.pages_corrupt += 1;
                // A power loss can damage many pages; one log line is enough.
                if state.stats.pages_corrupt == 1 {
                    tracing::warn!(object = %object.key, page = page.page, "a cached page is damaged; damaged pages are fetched again");
                }
            }
        }
    }

    fn write(&self, write: &Write) {
        let mut fillings = self.assign(write);
        for filling in &mut fillings {
            self.fill(write.guard.object, filling);
        }
        let slots = self.settle(&write.guard, fillings);
        self.record(&slots);
    }

    /// Finds a slot for each region of these pages and holds it.
    fn assign(&self, Write { guard, pages, share }: &Write) -> Vec<Filling> {
        let in_region = u64::from(self.geometry.pages());
        let mut regions: BTreeMap<u64, Vec<(u16, Bytes)>> = BTreeMap::new();
        for page in &guard.pages {
            let Some(bytes) = pages.get(page) else { continue };
            regions.entry(page / in_region).or_default().push(((page % in_region) as u16, bytes.clone()));
        }
        let mut state = self.state();
        state.policy.begin();
        let assigned = regions.into_iter().filter_map(|(region, pages)| {
            let slot = state.slot_for(guard.object, region, *share)?;
            state.policy.hold(slot);
            Some(Filling { slot, region, pages, written: Vec::new(), no_space: false })
        });
        assigned.collect()
    }

    /// Writes the pages of a region and their checksums, adjacent pages of a volume together.
    fn fill(&self, object: ObjectId, filling: &mut Filling) {
        let place = |page: u16| self.geometry.place(filling.slot, u32::from(page));
        let first = filling.region * u64::from(self.geometry.pages());
        let mut rest = filling.pages.as_slice();
        while let Some((page, _)) = rest.first() {
            let start = place(*page);
            let (mut run, mut sums, mut written) = (Vec::new(), Vec::new(), Vec::new());
            while let Some(((page, bytes), after)) = rest.split_first() {
                let here = Place { volume: start.volume, at: start.at + run.len() as u64 };
                if place(*page) != here || run.len() >= RUN_BYTES_MAX {
                    break;
                }
                run.extend_from_slice(bytes);
                sums.extend_from_slice(&object.checksum(first + u64::from(*page), bytes).to_le_bytes());
                written.push(*page);
                rest = after;
            }
            if self.has_failed(start.volume) {
                continue;
            }
            let done = self.volume(start.volume).map(|volume| {
                volume.write_at(&run, start.at)?;
                volume.write_at(&sums, self.geometry.sum_at(start))
            });
            match done {
                Some(Ok(())) => filling.written.append(&mut written),
                Some(Err(error)) if is_full(&error) => filling.no_space = true,
                Some(Err(error)) => self.fail_volume(start.volume, &error),
                None => {}
            }
        }
    }

    /// Registers written pages, releases their slots and returns the slots whose table records must be updated.
    fn settle(&self, guard: &FlightGuard, fillings: Vec<Filling>) -> Vec<u32> {
        let mut state = self.state();
        let (object, in_region) = (guard.object, u64::from(self.geometry.pages()));
        let mut changed = Vec::new();
        for mut filling in fillings {
            let (slot, first) = (filling.slot, filling.region * in_region);
            if !state.is_slot_of(object, filling.region, slot) {
                continue; // Its volume failed meanwhile.
            }
            state.policy.release(slot);
            if filling.no_space {
                state.retire(slot);
                state.policy.retired();
            } else {
                filling
                    .written
                    .retain(|page| state.is_brought_by(object, first + u64::from(*page), &guard.flight));
                state.settle(object, filling.region, slot, &filling.written);
            }
            changed.push(slot);
        }
        changed
    }

    /// Stops using a failed volume, and slots that are entirely on failed volumes.
    fn fail_volume(&self, volume: u32, error: &io::Error) {
        if !self.has_failed(volume) {
            tracing::warn!(volume, %error, "a cache volume failed and is not used until the next start; its pages are fetched again when needed");
            self.leave_out(volume);
        }
    }

    fn leave_out(&self, volume: u32) {
        let mut state = self.state();
        match state.failed.get_mut(volume as usize) {
            Some(failed) if !*failed => *failed = true,
            _ => return,
        }
        let failed = state.failed.clone();
        for slot in (0..self.slots).filter(|&slot| self.geometry.is_lost(slot, &failed)) {
            state.retire(slot);
        }
        state.policy.retired();
    }

    fn has_failed(&self, volume: u32) -> bool {
        self.state().failed.get(volume as usize).copied().unwrap_or(true)
    }

    fn volume(&self, volume: u32) -> Option<&Arc<dyn Volume>> {
        self.volumes.get(volume as usize)?.as_ref()
    }

    /// Writes the current state of these slots to the table.
    fn record(&self, slots: &[u32]) {
        let mut table = self.table.lock();
        for &slot in slots {
            let Some(file) = table.as_ref() else { return };
            let mut record = Vec::new();
            self.state().record(slot, &mut record);
            if warned("written to", file.write(slot, &record)).is_none() {
                *table = None;
            }
        }
    }

    /// Writes the current state of all slots to the table, durably.
    fn record_all(&self) {
        let mut table = self.table.lock();
        let Some(file) = table.as_ref() else { return };
        let step = file.slots_in_piece();
        let written = (0..self.slots).step_by(step as usize).try_for_each(|first| {
            let mut records = Vec::new();
            let state = self.state();
            (first..first.saturating_add(step).min(self.slots))
                .for_each(|slot| state.record(slot, &mut records));
            drop(state);
            file.write(first, &records)
        });
        if warned("written", written.and_then(|()| file.sync())).is_none() {
            *table = None;
        }
        if let Some(pins) = &self.pins {
            warned("told of the pins", pins.replace(&self.state().pinned));
        }
    }

    fn state(&self) -> MutexGuard<'_, Slots> {
        self.state.lock()
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
        self.near.state().land(self.object, &self.pages, &self.flight);
        self.flight.land(Landing::Abandoned);
    }
}

/// Whether to keep the region size of a stored table, although the capacity would now suggest another.
fn is_kept(stored: Layout, wanted: Layout, capacity: u64) -> bool {
    let same = stored.page_bytes == wanted.page_bytes && stored.volumes == wanted.volumes;
    let fits = stored.region_bytes.is_power_of_two()
        && capacity / u64::from(stored.region_bytes.max(1)) >= REGIONS_KEPT_MIN;
    same && (stored.region_bytes == wanted.region_bytes || fits)
}

/// How many of these pages, sorted by place, are contiguous.
fn run_len(pages: &[HerePage]) -> usize {
    let mut bytes = 0;
    let follows = |pair: &[HerePage]| {
        let [before, after] = pair else { return false };
        bytes += before.bytes;
        bytes < RUN_BYTES_MAX && before.place.at + before.bytes as u64 == after.place.at
    };
    1 + pages.windows(2).map(follows).take_while(|&follows| follows).count()
}

fn bytes_of(pages: &[HerePage]) -> usize {
    pages.iter().map(|page| page.bytes).sum()
}

fn verify(object: ObjectId, run: &[HerePage], sums: &[u8], mut bytes: Bytes, done: &mut VolumeRead) {
    for (page, sum) in run.iter().zip(sums.chunks_exact(SUM_BYTES as usize)) {
        let own = bytes.split_to(page.bytes.min(bytes.len()));
        if object.checksum(page.page, &own).to_le_bytes() == *sum {
            done.good.insert(page.page, own);
        } else {
            done.bad.push(*page);
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// The cache works without its table; it only starts empty next time.
fn warned<T>(what: &str, outcome: io::Result<T>) -> Option<T> {
    outcome.inspect_err(|error| tracing::warn!(%error, "the cache's table cannot be {what}")).ok()
}
