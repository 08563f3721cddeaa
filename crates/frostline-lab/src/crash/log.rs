//! A record of what was sent to a device, and the states that a power cut may leave it in.
//!
//! A device with a volatile cache guarantees two things: whole sectors are written atomically, and everything written
//! before a flush is durable when the flush is done. Everything sent after the last flush may be present,
//! missing, or applied in another order. A [`Cut`] is one such state; [`WriteLog::cuts`] draws cuts by
//! seed, [`Replay`] builds them.
//!
//! ```text
//! write write FLUSH write mark write write | power fails here
//! ---- durable ----  any subset, any order, the last one torn
//! ```
//!
//! An [`Event::Mark`] is a note between the requests: what had been acknowledged at that point.
//!
//! ```ignore
//! let mut device = Recorded::new(1 << 20);
//! device.write(0, b"record");
//! device.flush();
//! device.mark("acknowledged 1");
//! for failure in device.log().check(&device.log().cuts(0, 100, seed, 512), |image, marks| ..) { .. }
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use frostline_base::{Error, Result};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"FLwrlog1";
const BLOCK: usize = 4096;

/// One thing that was sent to a device, or said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes to be stored.
    Write {
        /// Where the first goes.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Bytes to be forgotten; they read as zero.
    Discard {
        /// Where the first is.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// All before it is durable once it is done.
    Flush,
    /// A remark, such as what had been acknowledged by now.
    Mark(String),
}

/// What was sent to a device of `bytes`, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteLog {
    /// Size of the device.
    pub bytes: u64,
    /// What was sent.
    pub events: Vec<Event>,
}

/// Where power fails and what of the writes since the last flush is stored nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// `events[..at]` had been sent.
    pub at: usize,
    /// `events[..durable]` are stored; `durable <= at`.
    pub durable: usize,
    /// What of `events[durable..at]` is stored.
    pub kept: Kept,
    /// Decides which.
    pub seed: u64,
    /// What is written as a whole or not at all; a torn write ends at a multiple of it.
    pub sector: u32,
}

/// What survives of the writes that no flush covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Nothing: the whole cache is lost.
    Nothing,
    /// All: the cache was just emptied.
    All,
    /// Each write by the toss of a coin, in order.
    Some,
    /// Half of them, in another order.
    Shuffled,
    /// All but the last, and of that some sectors.
    Torn,
}

impl Kept {
    const EVERY: [Kept; 5] = [Kept::Some, Kept::Shuffled, Kept::Torn, Kept::All, Kept::Nothing];
}

impl WriteLog {
    /// An empty log of a device of `bytes`.
    pub fn new(bytes: u64) -> WriteLog {
        WriteLog { bytes, events: Vec::new() }
    }

    /// Reads what a [`Writer`] wrote.
    ///
    /// # Errors
    /// Corrupt if it is not a log or ends within an event.
    pub fn read(path: &Path) -> Result<WriteLog> {
        let cannot = |e| Error::unavailable(format!("cannot read the log {}", path.display())).with_source(e);
        let mut bytes = Vec::new();
        File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(cannot)?;
        WriteLog::decode(&bytes).map_err(|e| e.with("log", path.display()))
    }

    fn decode(bytes: &[u8]) -> Result<WriteLog> {
        let mut rest = Rest(bytes);
        if rest.take(8)? != MAGIC {
            return Err(Error::corrupt("this is no log of writes"));
        }
        let mut log = WriteLog::new(rest.number()?);
        while !rest.0.is_empty() {
            let kind = rest.take(1)?[0];
            let (offset, bytes) = (rest.number()?, rest.number()?);
            log.events.push(match kind {
                b'W' => Event::Write { offset, data: rest.take(bytes)?.to_vec() },
                b'D' => Event::Discard { offset, bytes },
                b'F' => Event::Flush,
                b'M' => Event::Mark(String::from_utf8_lossy(rest.take(bytes)?).into_owned()),
                other => {
                    return Err(Error::corrupt("a log of writes has an unknown event").with("kind", other));
                }
            });
        }
        Ok(log)
    }

    /// The position behind the first mark that is `text`.
    pub fn behind(&self, text: &str) -> Option<usize> {
        self.events
            .iter()
            .position(|event| matches!(event, Event::Mark(said) if said == text))
            .map(|at| at + 1)
    }

    /// The marks that were made before the power failed.
    pub fn marks(&self, cut: &Cut) -> impl Iterator<Item = &str> {
        self.events[..cut.at].iter().filter_map(|event| match event {
            Event::Mark(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// How many events from `from` on are writes or discards, and how many are flushes.
    pub fn count(&self, from: usize) -> (usize, usize) {
        let events = &self.events[from.min(self.events.len())..];
        let flushes = events.iter().filter(|event| **event == Event::Flush).count();
        (events.iter().filter(|event| event.is_write()).count(), flushes)
    }

    /// `count` cuts behind `from`, all that is before being durable. At most half are the moments right after a
    /// flush, each flush once as long as they last, spread evenly if they are more; the others are
    /// anywhere behind a write, with what survives in turn of every kind. Sorted for [`Replay`].
    pub fn cuts(&self, from: usize, count: usize, seed: u64, sector: u32) -> Vec<Cut> {
        let mut random = SmallRng::seed_from_u64(seed);
        let behind = |wanted: fn(&Event) -> bool| -> Vec<usize> {
            (from..self.events.len()).filter(|at| wanted(&self.events[*at])).map(|at| at + 1).collect()
        };
        let flushes = behind(|event| *event == Event::Flush);
        let writes = behind(Event::is_write);
        let mut cuts = Vec::with_capacity(count);
        let mut push = |at: usize, kept, seed| {
            let durable =
                flushes[..flushes.partition_point(|flush| *flush <= at)].last().copied().unwrap_or(from);
            cuts.push(Cut { at, durable, kept, seed, sector });
        };
        let at_flushes = if writes.is_empty() { flushes.len() } else { flushes.len().min(count / 2) };
        for nth in 0..at_flushes {
            push(flushes[nth * flushes.len() / at_flushes], Kept::Nothing, random.random());
        }
        if !writes.is_empty() {
            for nth in 0..count - at_flushes {
                let at = writes[random.random_range(0..writes.len())];
                push(at, Kept::EVERY[nth % Kept::EVERY.len()], random.random());
            }
        }
        cuts.sort_by_key(|cut| (cut.durable, cut.at));
        cuts
    }

    /// Shows `judge` the device after each cut, with the marks made before it. Returns what it said against
    /// them, with the cut, which alone brings the same state back.
    pub fn check<'a>(
        &'a self,
        cuts: &[Cut],
        mut judge: impl FnMut(&Image, &mut dyn Iterator<Item = &'a str>) -> Result<(), String>,
    ) -> Vec<(Cut, String)> {
        let mut replay = Replay::new(self);
        let mut failures = Vec::new();
        for cut in cuts {
            if let Err(what) = judge(&replay.state(cut), &mut self.marks(cut)) {
                failures.push((*cut, what));
            }
        }
        failures
    }
}

impl Event {
    /// Whether it changes bytes.
    fn is_write(&self) -> bool {
        matches!(self, Event::Write { .. } | Event::Discard { .. })
    }
}

/// What is left to decode.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: u64) -> Result<&'a [u8]> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (taken, rest) = self
            .0
            .split_at_checked(bytes)
            .ok_or_else(|| Error::corrupt("a log of writes ends within an event"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes were taken")))
    }
}

/// Builds the states of cuts, fastest in the order of [`WriteLog::cuts`].
#[derive(Debug)]
pub struct Replay<'a> {
    log: &'a WriteLog,
    durable: Image,
    /// `events[..done]` are in `durable`.
    done: usize,
}

impl<'a> Replay<'a> {
    /// A replay of `log` onto a device of zeroes.
    pub fn new(log: &'a WriteLog) -> Replay<'a> {
        Replay { log, durable: Image::new(log.bytes), done: 0 }
    }

    /// What the device holds after `cut`.
    pub fn state(&mut self, cut: &Cut) -> Image {
        if cut.durable < self.done {
            *self = Replay::new(self.log);
        }
        for event in &self.log.events[self.done..cut.durable] {
            self.durable.apply(event);
        }
        self.done = cut.durable;
        let mut image = self.durable.clone();
        let pending: Vec<&Event> =
            self.log.events[cut.durable..cut.at].iter().filter(|event| event.is_write()).collect();
        cut.apply(pending, &mut image);
        image
    }
}

impl Cut {
    fn apply(&self, mut pending: Vec<&Event>, image: &mut Image) {
        let mut random = SmallRng::seed_from_u64(self.seed);
        let mut torn = None;
        match self.kept {
            Kept::Nothing => pending.clear(),
            Kept::All => {}
            Kept::Some => pending.retain(|_| random.random()),
            Kept::Shuffled => {
                pending.shuffle(&mut random);
                pending.truncate(pending.len() / 2);
            }
            Kept::Torn => torn = pending.pop(),
        }
        for event in pending {
            image.apply(event);
        }
        if let Some(Event::Write { offset, data }) = torn {
            let sector = self.sector.max(1) as usize;
            for (nth, part) in data.chunks(sector).enumerate() {
                if random.random() {
                    image.write(offset + (nth * sector) as u64, part);
                }
            }
        }
    }
}

/// The bytes of a device. What was never written is zero and takes no memory; a clone shares all blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    bytes: u64,
    blocks: BTreeMap<u64, Arc<[u8; BLOCK]>>,
}

impl Image {
    /// A device of `bytes` zeroes.
    pub fn new(bytes: u64) -> Image {
        Image { bytes, blocks: BTreeMap::new() }
    }

    /// Size of the device.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes at `offset`; zeroes behind the end of the device.
    pub fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        for (block, in_block, in_data) in pieces(offset, bytes) {
            if let Some(stored) = self.blocks.get(&block) {
                let length = in_data.len();
                data[in_data].copy_from_slice(&stored[in_block..in_block + length]);
            }
        }
        data
    }

    /// Stores `data`; what would be behind the end of the device is dropped.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let room = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let data = &data[..data.len().min(room)];
        for (block, in_block, in_data) in pieces(offset, data.len()) {
            let stored = self.blocks.entry(block).or_insert_with(|| Arc::new([0; BLOCK]));
            let length = in_data.len();
            Arc::make_mut(stored)[in_block..in_block + length].copy_from_slice(&data[in_data]);
        }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Write { offset, data } => self.write(*offset, data),
            Event::Discard { offset, bytes } => self.discard(*offset, *bytes),
            Event::Flush | Event::Mark(_) => {}
        }
    }

    fn discard(&mut self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes).min(self.bytes);
        let size = BLOCK as u64;
        let whole = offset.div_ceil(size)..end / size;
        if whole.is_empty() {
            return self.write(offset, &vec![0; end.saturating_sub(offset) as usize]);
        }
        self.write(offset, &vec![0; (whole.start * size - offset) as usize]);
        self.write(whole.end * size, &vec![0; (end - whole.end * size) as usize]);
        let gone: Vec<u64> = self.blocks.range(whole).map(|(block, _)| *block).collect();
        for block in gone {
            self.blocks.remove(&block);
        }
    }

    /// Makes `file` hold exactly these bytes, with holes for what was never written.
    pub fn store(&self, file: &File) -> io::Result<()> {
        file.set_len(0)?;
        file.set_len(self.bytes)?;
        let mut run: Vec<u8> = Vec::new();
        let mut start = 0;
        for (block, stored) in &self.blocks {
            let offset = block * BLOCK as u64;
            if offset != start + run.len() as u64 {
                file.write_all_at(&run, start)?;
                run.clear();
            }
            if run.is_empty() {
                start = offset;
            }
            run.extend_from_slice(&stored[..(self.bytes - offset).min(BLOCK as u64) as usize]);
        }
        file.write_all_at(&run, start)
    }
}

/// Splits a range at block edges: the block, the place in it, and which part of the range that is.
fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let in_block = (at % BLOCK as u64) as usize;
        let length = (BLOCK - in_block).min(bytes - done);
        let piece = (at / BLOCK as u64, in_block, done..done + length);
        done += length;
        (length > 0).then_some(piece)
    })
}

/// Writes a log to a file as it comes about.
#[derive(Debug)]
pub struct Writer(File);

impl Writer {
    /// A new log of a device of `bytes`.
    pub fn create(path: &Path, bytes: u64) -> Result<Writer> {
        let make = || -> io::Result<File> {
            let mut file = File::options().create_new(true).write(true).open(path)?;
            file.write_all(&[MAGIC.as_slice(), &bytes.to_le_bytes()].concat())?;
            Ok(file)
        };
        let cannot = |e| Error::unavailable(format!("cannot make the log {}", path.display())).with_source(e);
        make().map(Writer).map_err(cannot)
    }

    /// Adds `event` to the end. It is in the file, though not on the disk, when this returns.
    pub fn append(&mut self, event: &Event) -> io::Result<()> {
        let (kind, offset, bytes, data): (u8, u64, u64, &[u8]) = match event {
            Event::Write { offset, data } => (b'W', *offset, data.len() as u64, data),
            Event::Discard { offset, bytes } => (b'D', *offset, *bytes, &[]),
            Event::Flush => (b'F', 0, 0, &[]),
            Event::Mark(text) => (b'M', 0, text.len() as u64, text.as_bytes()),
        };
        let head = [&[kind], &offset.to_le_bytes()[..], &bytes.to_le_bytes()].concat();
        self.0.write_all(&[&head, data].concat())
    }
}

/// A device in memory that keeps the record itself, for tests of code that writes to one.
#[derive(Clone, Debug)]
pub struct Recorded {
    log: WriteLog,
    now: Image,
}

impl Recorded {
    /// A device of `bytes` zeroes.
    pub fn new(bytes: u64) -> Recorded {
        Recorded { log: WriteLog::new(bytes), now: Image::new(bytes) }
    }

    /// Stores `data`, in the cache.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.send(Event::Write { offset, data: data.to_vec() });
    }

    /// Makes what was written durable.
    pub fn flush(&mut self) {
        self.send(Event::Flush);
    }

    /// Remarks something, such as what is acknowledged from now on.
    pub fn mark(&mut self, text: impl Into<String>) {
        self.send(Event::Mark(text.into()));
    }

    /// What the device holds while it has power.
    pub fn image(&self) -> &Image {
        &self.now
    }

    /// The record so far.
    pub fn log(&self) -> &WriteLog {
        &self.log
    }

    fn send(&mut self, event: Event) {
        self.now.apply(&event);
        self.log.events.push(event);
    }
}

#[cfg(test)]
mod tests;
