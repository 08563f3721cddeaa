//! One volume of the daemon: its backing file, the model that says when a request is done, and its account.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use frostline_base::{Error, Result};
use frostline_model::{Instance, Io};
use rustix::fs::FallocateFlags;
use rustix::io::ReadWriteFlags;

use super::daemon::Served;
use super::stripe::Members;
use super::{Account, Lazy, Model, Stripe};
use crate::crash::log::{Event, Writer};
use crate::host::io;

/// Slower than this, one flush outlasts any sample.
const DRAIN_MIB_PER_S_MIN: f64 = 0.1;

pub(super) struct Disk {
    file: File,
    pub(super) bytes: u64,
    flush: Duration,
    started: Instant,
    stripe: Option<Stripe>,
    state: Mutex<State>,
    /// Buffers of responses that were sent. Allocating new ones would cost a page fault for every 4 KiB.
    spare: Mutex<Vec<Vec<u8>>>,
    /// Held while a request is logged and done, so that the log has the order of the bytes.
    log: Option<Mutex<Writer>>,
}

struct State {
    members: Option<Members>,
    instance: Option<Arc<Mutex<Instance>>>,
    touched: Option<Touched>,
    cache: Option<Cache>,
    account: Account,
    late: Late,
}

impl Disk {
    /// A new disk whose times count from `started`, under the cap of `instance`.
    pub(super) fn open(
        served: &Served,
        started: Instant,
        instance: Option<Arc<Mutex<Instance>>>,
    ) -> Result<Disk> {
        let path = &served.backing;
        let make = || -> io::Result<File> {
            let file = File::options().create_new(true).read(true).write(true).open(path)?;
            file.set_len(served.options.bytes)?;
            Ok(file)
        };
        let file = make().map_err(|e| io(e, "cannot make the backing file", path))?;
        let log = served.log.as_ref().map(|path| Writer::create(path, served.options.bytes)).transpose()?;
        let touched = served.options.lazy.map(|lazy| Touched::new(lazy, served.options.bytes)).transpose()?;
        let members = |model| Members::new(model, served.options.stripe, started.elapsed().as_secs_f64());
        let members = served.options.model.as_ref().map(members).transpose()?;
        let flush = Duration::try_from_secs_f64(served.options.flush_ms / 1e3)
            .map_err(|e| Error::invalid("a flush cannot take that long").with_source(e))?;
        let cache = served.options.drain_mib_per_s.map(Cache::new).transpose()?;
        let (account, late) = (Account::default(), Late::default());
        Ok(Disk {
            file,
            bytes: served.options.bytes,
            flush,
            started,
            stripe: served.options.stripe,
            state: Mutex::new(State { members, instance, touched, cache, account, late }),
            spare: Mutex::default(),
            log: log.map(Mutex::new),
        })
    }

    /// Charges a request that arrives now and says when it is done; `None` is at once.
    pub(super) fn admit(&self, io: Io) -> Option<Instant> {
        let mut state = self.state();
        let state = &mut *state;
        // Read under the lock: the model wants times that never go back.
        let now = self.started.elapsed().as_secs_f64();
        let mut done = now;
        if let Some(members) = &mut state.members {
            done = done.max(members.admit(now, io));
        }
        if let Some(instance) = &state.instance {
            done = done.max(instance.lock().expect("nothing panics under the lock").admit(now, io));
        }
        if let Some(touched) = &mut state.touched {
            done = done.max(touched.touch(now, io));
        }
        if let Some(cache) = state.cache.as_mut().filter(|_| io.write) {
            cache.take(now, io.bytes);
        }
        state.account.count(io, done - now);
        (done > now).then(|| self.started + Duration::from_secs_f64(done))
    }

    /// Takes the time of `model` from now on, beginning with its balance; `None` is as fast as the host.
    pub(super) fn set_model(&self, model: Option<&Model>) -> Result<()> {
        let mut state = self.state();
        let now = self.started.elapsed().as_secs_f64();
        state.members = model.map(|model| Members::new(model, self.stripe, now)).transpose()?;
        if let Some(cache) = &mut state.cache {
            cache.clean_at = now;
        }
        Ok(())
    }

    /// The bytes at `offset`, fewer at the end of the device. Give the buffer back with [`Disk::spare`].
    pub(super) fn read(&self, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let mut buffer = self.buffer(offset, size);
        self.file.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// The same if the host has all of it in memory.
    pub(super) fn read_if_near(&self, offset: u64, size: u32) -> Option<Vec<u8>> {
        let mut buffer = self.buffer(offset, size);
        let nowait = ReadWriteFlags::NOWAIT;
        match rustix::io::preadv2(&self.file, &mut [io::IoSliceMut::new(&mut buffer)], offset, nowait) {
            Ok(read) if read == buffer.len() => Some(buffer),
            _ => {
                self.spare(buffer);
                None
            }
        }
    }

    fn buffer(&self, offset: u64, size: u32) -> Vec<u8> {
        let size = u64::from(size).min(self.bytes.saturating_sub(offset));
        let mut buffer = self.spare.lock().expect("nothing panics under the lock").pop().unwrap_or_default();
        buffer.resize(size as usize, 0);
        buffer
    }

    /// Takes back a buffer whose bytes have left.
    pub(super) fn spare(&self, buffer: Vec<u8>) {
        self.spare.lock().expect("nothing panics under the lock").push(buffer);
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset.saturating_add(data.len() as u64) > self.bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.logged(Event::Write { offset, data: data.to_vec() }, || self.file.write_all_at(data, offset))
    }

    pub(super) fn discard(&self, offset: u64, bytes: u64, mode: FallocateFlags) -> io::Result<()> {
        self.state().account.discards += 1;
        let bytes = bytes.min(self.bytes.saturating_sub(offset));
        if bytes == 0 {
            return Ok(());
        }
        self.logged(Event::Discard { offset, bytes }, || {
            rustix::fs::fallocate(&self.file, mode | FallocateFlags::KEEP_SIZE, offset, bytes)?;
            Ok(())
        })
    }

    /// Counts a flush that arrives now and says when it is done; `None` is at once. The backing file is not
    /// synced: it is as volatile as the run.
    pub(super) fn flush(&self) -> io::Result<Option<Instant>> {
        self.logged(Event::Flush, || Ok(()))?;
        let mut state = self.state();
        state.account.flushes += 1;
        let now = self.started.elapsed().as_secs_f64();
        let dirty_s = state.cache.as_ref().map_or(0.0, |cache| (cache.clean_at - now).max(0.0));
        let wait = self.flush + Duration::from_secs_f64(dirty_s);
        Ok((wait > Duration::ZERO).then(|| Instant::now() + wait))
    }

    pub(super) fn mark(&self, text: &str) -> io::Result<()> {
        self.logged(Event::Mark(text.to_owned()), || Ok(()))
    }

    fn logged(&self, event: Event, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let Some(log) = &self.log else { return act() };
        let mut log = log.lock().expect("nothing panics under the lock");
        log.append(&event)?;
        act()
    }

    pub(super) fn count_error(&self) {
        self.state().account.errors += 1;
    }

    /// An answer was due before its bytes were there.
    pub(super) fn count_overrun(&self) {
        self.state().account.overrun += 1;
    }

    pub(super) fn count_late(&self, late: Duration) {
        self.state().late.add(late.as_secs_f64() * 1e6);
    }

    pub(super) fn account(&self) -> Account {
        let state = self.state();
        let mut account = state.account.clone();
        account.first_touches = state.touched.as_ref().map_or(0, |touched| touched.fetched);
        let now = self.started.elapsed().as_secs_f64();
        account.model = state.members.as_ref().map(|members| members.account(now));
        account.late_mean_us = state.late.mean();
        account.late_p99_us = state.late.quantile(0.99);
        account.late_max_us = state.late.max;
        account
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under the lock")
    }
}

impl Account {
    fn count(&mut self, io: Io, delay_s: f64) {
        let (requests, bytes) = match io.write {
            true => (&mut self.writes, &mut self.written_bytes),
            false => (&mut self.reads, &mut self.read_bytes),
        };
        *requests += 1;
        *bytes += io.bytes;
        self.delayed += u64::from(delay_s > 0.0);
        self.delay_s += delay_s;
    }
}

/// A volatile cache, which drains all the time: when the medium has everything that was written so far.
struct Cache {
    mib_per_s: f64,
    clean_at: f64,
}

impl Cache {
    fn new(mib_per_s: f64) -> Result<Cache> {
        if !(mib_per_s.is_finite() && mib_per_s >= DRAIN_MIB_PER_S_MIN) {
            let what = format!("a cache drains at {DRAIN_MIB_PER_S_MIN} MiB/s or more, not at {mib_per_s}");
            return Err(Error::invalid(what));
        }
        Ok(Cache { mib_per_s, clean_at: 0.0 })
    }

    fn take(&mut self, now: f64, bytes: u64) {
        self.clean_at = self.clean_at.max(now) + bytes as f64 / (self.mib_per_s * frostline_model::MIB);
    }
}

/// How late answers left: counts by powers of two of microseconds.
#[derive(Default)]
struct Late {
    counts: [u64; 32],
    sum: f64,
    max: f64,
}

impl Late {
    fn add(&mut self, us: f64) {
        let us = us.max(0.0);
        self.counts[(us.max(1.0).log2().ceil() as usize).min(31)] += 1;
        self.sum += us;
        self.max = self.max.max(us);
    }

    fn mean(&self) -> f64 {
        let count: u64 = self.counts.iter().sum();
        self.sum / (count.max(1) as f64)
    }

    /// The upper edge of the class that holds the quantile.
    fn quantile(&self, q: f64) -> f64 {
        let wanted = q * self.counts.iter().sum::<u64>() as f64;
        let mut below = 0.0;
        for (class, count) in self.counts.iter().enumerate() {
            below += *count as f64;
            if below > 0.0 && below >= wanted {
                return 2f64.powi(class as i32).min(self.max);
            }
        }
        0.0
    }
}

/// Which blocks are loaded, and when those in transit will be.
pub(super) struct Touched {
    lazy: Lazy,
    near: Vec<u64>,
    on_their_way: HashMap<u64, f64>,
    /// When the link to the snapshot is free again.
    link_free: f64,
    fetched: u64,
}

impl Touched {
    pub(super) fn new(lazy: Lazy, volume_bytes: u64) -> Result<Touched> {
        if lazy.block_bytes == 0 || lazy.mib_per_s <= 0.0 || lazy.first_touch_ms < 0.0 {
            return Err(Error::invalid(
                "lazy loading needs a block size, a rate above 0 and a first touch of at least 0 ms",
            ));
        }
        let blocks = volume_bytes.div_ceil(lazy.block_bytes);
        let near = vec![0; blocks.div_ceil(64) as usize];
        Ok(Touched { lazy, near, on_their_way: HashMap::new(), link_free: 0.0, fetched: 0 })
    }

    /// When all blocks of a request are loaded. A block that a write covers completely is not fetched.
    pub(super) fn touch(&mut self, now: f64, io: Io) -> f64 {
        let Io { write, offset, bytes } = io;
        let (size, end) = (self.lazy.block_bytes, offset + bytes);
        let mut ready = now;
        for block in offset / size..end.div_ceil(size) {
            let covered = write && offset <= block * size && (block + 1) * size <= end;
            ready = ready.max(self.touch_block(now, block, covered));
        }
        ready
    }

    fn touch_block(&mut self, now: f64, block: u64, covered: bool) -> f64 {
        let (word, bit) = ((block / 64) as usize, 1 << (block % 64));
        if self.near[word] & bit != 0 {
            return match self.on_their_way.get(&block) {
                Some(at) if *at > now => *at,
                Some(_) => {
                    self.on_their_way.remove(&block);
                    now
                }
                None => now,
            };
        }
        self.near[word] |= bit;
        if covered {
            return now;
        }
        self.fetched += 1;
        // Fetches share the link one after the other; their first-touch times overlap.
        let seconds = self.lazy.block_bytes as f64 / (self.lazy.mib_per_s * f64::from(1 << 20));
        self.link_free = self.link_free.max(now) + seconds;
        let at = self.link_free + self.lazy.first_touch_ms / 1e3;
        self.on_their_way.insert(block, at);
        at
    }
}

#[cfg(test)]
mod tests;
