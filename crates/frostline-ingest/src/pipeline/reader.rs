//! Reads the inputs in order and divides their lines into batches.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use frostline_base::chain;

use super::follow::Follower;
use super::reading::Reading;
use super::worker::{Item, Job, Source};
use super::{LINE_BYTES_MAX, Part, Pause};
use crate::blocks::{BlockLimits, Blocks, LineEnds, Piece, Upto, line_feeds};
use crate::content::{Content, Recognised, SAMPLE_BYTES};
use crate::identity::{Known, Mark, Prefix, SourceKey};
use crate::inputs::{Input, Inputs, Opened, Own, Skipped};
use crate::lines::{Format, LineParser, SAMPLE_LINES, is_pretty};

const LIMITS: BlockLimits = BlockLimits { block_bytes: 2 << 20, line_bytes_max: LINE_BYTES_MAX };
/// The last line of a file that has not changed for this long needs no end.
pub(super) const IDLE_US: i64 = 60_000_000;
const BINARY_SAMPLE_BYTES: usize = 8 << 10;

/// What the reader has to say in the end.
#[derive(Debug, Default)]
pub(super) struct ReadReport {
    pub(super) already_ingested: Vec<String>,
    pub(super) resumed: Vec<String>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) failed: Vec<Skipped>,
    /// Files whose last line has no end yet.
    pub(super) unfinished: Vec<String>,
}

pub(super) struct Reader {
    pub(super) run: Arc<Reading>,
    jobs: mpsc::SyncSender<Job>,
    /// What the catalog knew at the start, and how far this run has read since.
    pub(super) known: Known,
    /// When this run last moved the mark of an input.
    moved_us: BTreeMap<SourceKey, i64>,
    sources: usize,
    next: u64,
    batch: Option<Batch>,
    pub(super) report: ReadReport,
}

/// The batch being filled.
struct Batch {
    items: mpsc::Sender<Item>,
    bytes: u64,
    lines: u64,
    parts: Vec<Part>,
    begun_us: i64,
}

/// The workers are gone, so reading stops.
pub(super) struct Stopped;

/// What is read next of an input, and how its lines are taken.
pub(super) struct Feed {
    pub(super) reader: Box<dyn Read + Send>,
    pub(super) blocks: Blocks,
    pub(super) source: Arc<Source>,
    /// The file, if what was read of it may go on: not of streams, packed files and generated documents.
    growing: Option<Content>,
    /// What was dealt of an input whose format is not certain yet: its lines were few.
    seen: Option<Vec<u8>>,
    /// Whether it has no lines to read.
    is_refused: bool,
}

impl Reader {
    pub(super) fn new(run: Arc<Reading>, jobs: mpsc::SyncSender<Job>) -> Self {
        Reader {
            jobs,
            known: run.before.known(),
            run,
            moved_us: BTreeMap::new(),
            sources: 0,
            next: 0,
            batch: None,
            report: ReadReport::default(),
        }
    }

    /// Reads every input to its end. What was dealt of one when the run is cancelled makes a whole batch.
    pub(super) fn read_all(mut self, inputs: Inputs) -> ReadReport {
        self.report.skipped = inputs.skipped;
        for input in inputs.inputs {
            if self.read(input).is_err() {
                // What is unfinished is dropped with its channel; a worker sees that its end is missing.
                return self.report;
            }
            if self.run.cancel.is_cancelled() {
                break;
            }
        }
        self.close();
        self.report
    }

    /// Follows files until the run is cancelled.
    pub(super) fn follow(mut self, own: Own, watched: Vec<PathBuf>, pause: &mut dyn Pause) -> ReadReport {
        if Follower::new(&mut self, own, watched).follow(pause).is_ok() {
            self.close();
        }
        self.report
    }

    fn read(&mut self, input: Input) -> Result<(), Stopped> {
        let (name, from_directory) = (input.name().to_owned(), input.from_directory());
        match input.open(&self.run.counters.bytes_read, &self.run.cancel) {
            Ok(Opened::File(content)) => self.read_file(name, &content, from_directory),
            Ok(Opened::Stream(stream)) => self.read_stream(name, stream),
            Ok(Opened::Documents(identity, documents)) => {
                self.read_documents(name, SourceKey::Named(identity), documents)
            }
            Err(error) => {
                self.unopened(name, &error, from_directory);
                Ok(())
            }
        }
    }

    fn read_file(&mut self, name: String, content: &Content, from_directory: bool) -> Result<(), Stopped> {
        let recognised = match content.recognise(&self.known) {
            Ok(recognised) => recognised,
            Err(error) => {
                self.fail(name, &error);
                return Ok(());
            }
        };
        if let Some(reason) = no_lines(self.run.format, &recognised.sample, from_directory) {
            self.unopened(name, &io::Error::other(reason), from_directory);
            return Ok(());
        }
        if let Some((key, ingested)) = &recognised.known
            && recognised.is_done
            && !self.run.again
        {
            content.count_rest();
            let is_again = self.moved_us.contains_key(key);
            self.renew(key, ingested.mark(true))?;
            if is_again {
                let reason = "the same content comes before".into();
                self.report.skipped.push(Skipped { name, reason });
            } else {
                self.report.already_ingested.push(name);
            }
            return Ok(());
        }
        let is_new = recognised.known.is_none();
        let sample = recognised.sample.clone();
        match self.feed_of(name.clone(), content, recognised) {
            Ok(feed) if is_new && !from_directory && feed.source.parser.lacks_time_field(&sample) => {
                let field = self.run.time_field.as_deref().unwrap_or_default();
                let reason = format!("none of its first documents has the field {field:?} of --time-field");
                self.report.failed.push(Skipped { name, reason });
                Ok(())
            }
            Ok(feed) => self.deal(feed),
            Err(error) => {
                self.fail(name, &error);
                Ok(())
            }
        }
    }

    /// Writes the record of an input that has nothing new once more before the catalog forgets it.
    pub(super) fn renew(&mut self, key: &SourceKey, mark: Mark) -> Result<(), Stopped> {
        let now_us = self.run.clock.now_us();
        let before_us = || self.run.before.moved_us(key);
        let moved_us = self.moved_us.get(key).copied().or_else(before_us).unwrap_or(now_us);
        if now_us - moved_us < self.renew_after_us() {
            return Ok(());
        }
        self.moved_us.insert(key.clone(), now_us);
        let source = self.source(key.name(), Format::Plain, b"", Some(key.clone()));
        self.open()?.extend(&source, mark.offset, mark);
        Ok(())
    }

    /// A record that is older is written again.
    pub(super) fn renew_after_us(&self) -> i64 {
        self.run.before.retention_ms().saturating_mul(1_000) / 4
    }

    /// Where to continue in a file that was recognised or is new.
    pub(super) fn feed_of(
        &mut self,
        name: String,
        content: &Content,
        recognised: Recognised,
    ) -> io::Result<Feed> {
        let known = recognised.known.filter(|_| !self.run.again);
        let (key, prefix) = match known {
            Some((key, prefix)) => {
                if !self.moved_us.contains_key(&key) {
                    self.report.resumed.push(name.clone());
                }
                (Some(key), prefix)
            }
            None if recognised.sample.is_empty() => (None, Prefix::default()),
            None => {
                let mut first = Prefix::default();
                first.extend(&recognised.sample);
                (Some(self.known.new_key(first.head())), Prefix::default())
            }
        };
        let reader = content.reader(prefix.bytes())?;
        let source = self.source(name, self.run.format, &recognised.sample, key);
        let growing = content.is_plain().then(|| content.clone());
        let seen = recognised.sample.get(..prefix.bytes() as usize).map(<[u8]>::to_vec);
        let seen = seen.filter(|_| !self.is_certain(&source, &recognised.sample));
        let blocks = Blocks::new(LIMITS, source.line_ends.clone(), prefix);
        Ok(Feed { reader, blocks, source, growing, seen, is_refused: false })
    }

    fn read_stream(&mut self, name: String, stream: Box<dyn Read + Send>) -> Result<(), Stopped> {
        let reader = match crate::decompress::decompress(stream) {
            Ok((stream, _)) => stream,
            Err(error) => {
                self.fail(name, &error);
                return Ok(());
            }
        };
        let source = self.source(name, self.run.format, b"", None);
        let blocks = Blocks::new(LIMITS, LineEnds::All, Prefix::default());
        self.deal(Feed { reader, blocks, source, growing: None, seen: Some(Vec::new()), is_refused: false })
    }

    fn read_documents(
        &mut self,
        name: String,
        key: SourceKey,
        mut documents: Box<dyn Read + Send>,
    ) -> Result<(), Stopped> {
        if self.moved_us.contains_key(&key) {
            let reason = "the same content comes before".into();
            self.report.skipped.push(Skipped { name, reason });
            return Ok(());
        }
        let (offset, is_done) = if self.run.again { (0, false) } else { self.run.before.position(&key) };
        if is_done {
            self.renew(&key, Mark { offset, hash: 0, is_end: true })?;
            self.report.already_ingested.push(name);
            return Ok(());
        }
        let mut prefix = Prefix::default();
        if offset > 0 {
            self.report.resumed.push(name.clone());
            if let Err(error) = prefix.advance(&mut documents, offset) {
                self.fail(name, &error);
                return Ok(());
            }
        }
        let source = self.source(name, Format::NdJson, b"", Some(key));
        let blocks = Blocks::new(LIMITS, source.line_ends.clone(), prefix);
        self.deal(Feed { reader: documents, blocks, source, growing: None, seen: None, is_refused: false })
    }

    /// An input as its lines are parsed.
    fn source(&mut self, name: String, format: Format, sample: &[u8], key: Option<SourceKey>) -> Arc<Source> {
        let run = &self.run;
        let parser = LineParser::for_input(format, sample, run.clock.now_us())
            .with_time_field(run.time_field.clone(), &run.time_to)
            .of(&name);
        let line_ends = match parser.events(&run.multiline, sample) {
            Some(events) => LineEnds::Events(events),
            None if parser.quotes_span_lines() => LineEnds::OutsideQuotes,
            None if parser.format() == Format::Bulk => LineEnds::AfterActions,
            None => parser.runtime().map_or(LineEnds::All, LineEnds::AfterMessages),
        };
        self.sources += 1;
        Arc::new(Source { number: self.sources, name, parser, line_ends, key })
    }

    /// Deals an input to its end. A cancel ends a stream there, since what was read of it cannot be read again;
    /// of another input what was not dealt is left for the next run.
    fn deal(&mut self, mut feed: Feed) -> Result<(), Stopped> {
        let mut waiting_us = None;
        while !feed.is_refused {
            while self.place_next(&mut feed, Upto::Full)? {
                waiting_us = None;
                if feed.source.key.is_some() && self.run.cancel.is_cancelled() {
                    return Ok(());
                }
            }
            if feed.source.key.is_none() {
                self.seal_if_old(&mut feed, &mut waiting_us)?;
            }
            match feed.blocks.fill(&mut feed.reader) {
                Ok(0) => return self.end(&mut feed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.place_rest(&mut feed, Upto::Whole)?;
                    self.fail(feed.source.name.clone(), &error);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Seals what waits for more of a slow stream when it has waited long enough.
    fn seal_if_old(&mut self, feed: &mut Feed, waiting_us: &mut Option<i64>) -> Result<(), Stopped> {
        let now_us = self.run.clock.now_us();
        if waiting_us.is_none() && feed.blocks.has_lines() {
            *waiting_us = Some(now_us);
        }
        let oldest_us = [*waiting_us, self.batch_begun_us()].into_iter().flatten().min();
        if oldest_us.is_some_and(|oldest_us| now_us - oldest_us >= self.run.seal_after_us) {
            self.place_rest(feed, Upto::Lines)?;
            self.close();
            *waiting_us = None;
        }
        Ok(())
    }

    /// When the batch was begun that is being filled.
    pub(super) fn batch_begun_us(&self) -> Option<i64> {
        self.batch.as_ref().map(|batch| batch.begun_us)
    }

    /// Deals what is there.
    pub(super) fn place_rest(&mut self, feed: &mut Feed, upto: Upto) -> Result<(), Stopped> {
        while self.place_next(feed, upto)? {}
        Ok(())
    }

    /// Deals the next piece; returns whether there was one.
    pub(super) fn place_next(&mut self, feed: &mut Feed, upto: Upto) -> Result<bool, Stopped> {
        if feed.seen.is_some() {
            let is_due = match upto {
                Upto::Full => feed.blocks.pending().len() >= SAMPLE_BYTES,
                Upto::Lines | Upto::Whole => feed.blocks.has_lines(),
                Upto::End => true,
            };
            if is_due && feed.seen.as_ref().is_some_and(Vec::is_empty) {
                let pending = feed.blocks.pending();
                let sample = pending.get(..SAMPLE_BYTES).unwrap_or(pending);
                if is_unlined(self.run.format, sample) {
                    self.fail(feed.source.name.clone(), &io::Error::other(PRETTY));
                    feed.is_refused = true;
                    return Ok(false);
                }
            }
            if is_due {
                self.detect(feed);
            }
        }
        let Some(piece) = feed.blocks.next(upto) else { return Ok(false) };
        if let (Some(seen), Piece::Lines(block)) = (&mut feed.seen, &piece) {
            seen.extend_from_slice(&block.bytes);
        }
        self.place(&feed.source, piece, feed.blocks.prefix().mark(false))?;
        Ok(true)
    }

    /// Decides the format of the lines to come: by them, or else by all so far, since a header may have come alone.
    fn detect(&mut self, feed: &mut Feed) {
        let Some(seen) = feed.seen.take() else { return };
        let pending = feed.blocks.pending();
        let pending = pending.get(..SAMPLE_BYTES).unwrap_or(pending);
        let sample = [&seen[..], pending].concat();
        let source = |reader: &mut Reader, sample: &[u8]| {
            reader.source(feed.source.name.clone(), reader.run.format, sample, feed.source.key.clone())
        };
        let mut next = source(self, pending);
        if next.parser.format() == Format::Plain && !seen.is_empty() {
            next = source(self, &sample);
        }
        // A line that continues an event may look like a line of another format, but hardly like JSON.
        let is_other = match feed.source.line_ends {
            LineEnds::Events(_) => next.parser.is_json(),
            _ => next.parser.format() != Format::Plain,
        };
        if is_other || seen.is_empty() {
            feed.blocks.set_line_ends(next.line_ends.clone());
            feed.source = next;
        }
        feed.seen = Some(seen).filter(|_| !self.is_certain(&feed.source, &sample));
    }

    /// Whether more lines than those of `sample` cannot change the format. That a line is free text says little of the
    /// next ones.
    fn is_certain(&self, source: &Source, sample: &[u8]) -> bool {
        self.run.format != Format::Auto
            || source.parser.format() != Format::Plain
            || sample.len() >= SAMPLE_BYTES
            || line_feeds(sample) >= SAMPLE_LINES as u64
    }

    /// Deals the rest of an input that ends here. The last line of a file that may still be written waits for its end.
    pub(super) fn end(&mut self, feed: &mut Feed) -> Result<(), Stopped> {
        let is_growing = feed.growing.as_ref().is_some_and(|file| !self.is_idle(file));
        let is_unfinished = |line: &[u8]| is_growing && !feed.source.parser.is_closed(line);
        if feed.blocks.unfinished().is_some_and(is_unfinished) {
            self.report.unfinished.push(feed.source.name.clone());
            return self.place_rest(feed, Upto::Whole);
        }
        self.place_rest(feed, Upto::End)?;
        if feed.is_refused {
            return Ok(());
        }
        let mark = feed.blocks.prefix().mark(true);
        if mark.offset == 0 {
            let name = feed.source.name.clone();
            self.report.skipped.push(Skipped { name, reason: "no lines".into() });
        }
        if let Some(SourceKey::Named(_)) = &feed.source.key {
            self.open()?.extend(&feed.source, mark.offset, mark);
        }
        Ok(())
    }

    pub(super) fn place(&mut self, source: &Arc<Source>, piece: Piece, mark: Mark) -> Result<(), Stopped> {
        let (offset, bytes, lines) = match &piece {
            Piece::Lines(block) => (block.offset, block.bytes.len() as u64, block.line_feeds.max(1)),
            Piece::TooLong(block) => (block.offset, 0, 1),
        };
        let rows_max = self.run.batch_lines;
        let batch_bytes = self.run.batch_bytes;
        let is_over = |batch: &Batch| batch.bytes + bytes > batch_bytes || batch.lines + lines > rows_max;
        if self.batch.as_ref().is_some_and(|batch| batch.lines > 0 && is_over(batch)) {
            self.close();
        }
        if let Some(key) = &source.key {
            self.moved_us.insert(key.clone(), self.run.clock.now_us());
            self.known.note(key, &mark);
        }
        let batch = self.open()?;
        batch.bytes += bytes;
        batch.lines += lines;
        batch.extend(source, offset, mark);
        batch.items.send(Item::Lines(Arc::clone(source), piece)).map_err(|_| Stopped)?;
        self.run.counters.dealt.fetch_add(bytes, Ordering::Relaxed);
        self.run.report_progress();
        if self.run.is_stopped() { Err(Stopped) } else { Ok(()) }
    }

    fn open(&mut self) -> Result<&mut Batch, Stopped> {
        if self.batch.is_none() {
            if self.run.is_stopped() {
                return Err(Stopped);
            }
            let (items, taken) = mpsc::channel();
            self.jobs.send(Job { number: self.next, items: taken }).map_err(|_| Stopped)?;
            self.next += 1;
            self.run.counters.batches_begun.store(self.next, Ordering::Relaxed);
            self.run.report_progress();
            let begun_us = self.run.clock.now_us();
            self.batch = Some(Batch { items, bytes: 0, lines: 0, parts: Vec::new(), begun_us });
        }
        self.batch.as_mut().ok_or(Stopped)
    }

    pub(super) fn close(&mut self) {
        if let Some(batch) = self.batch.take() {
            // A worker that went has said why itself.
            let _ = batch.items.send(Item::End(batch.parts));
        }
    }

    /// Whether a file has not changed for so long that nothing more of its last line is expected.
    pub(super) fn is_idle(&self, file: &Content) -> bool {
        let changed_us =
            file.metadata().map(|metadata| metadata.mtime() * 1_000_000 + metadata.mtime_nsec() / 1_000);
        changed_us.is_ok_and(|changed_us| self.run.clock.now_us() - changed_us >= IDLE_US)
    }

    /// Notes an input that could not be opened. Of a directory's files that is a note, of others a failure.
    fn unopened(&mut self, name: String, error: &io::Error, from_directory: bool) {
        let list = if from_directory { &mut self.report.skipped } else { &mut self.report.failed };
        list.push(Skipped { name, reason: chain(error) });
    }

    /// Notes an input that could not be read to its end: lines of it may have landed and others not.
    pub(super) fn fail(&mut self, name: String, error: &io::Error) {
        if !self.run.cancel.is_cancelled() {
            self.report.failed.push(Skipped { name, reason: chain(error) });
        }
    }
}

impl Batch {
    fn extend(&mut self, source: &Arc<Source>, start: u64, end: Mark) {
        match self.parts.last_mut() {
            Some(part) if part.source.number == source.number && part.end.offset == start => part.end = end,
            _ => self.parts.push(Part { source: Arc::clone(source), start, end }),
        }
    }
}

/// Why a content that begins with `sample` is not read as lines of this format.
pub(super) fn no_lines(format: Format, sample: &[u8], from_directory: bool) -> Option<&'static str> {
    no_text(sample, from_directory).or(is_unlined(format, sample).then_some(PRETTY))
}

/// Whether what may be read as JSON has objects over several lines.
fn is_unlined(format: Format, sample: &[u8]) -> bool {
    matches!(format, Format::Auto | Format::NdJson | Format::Nginx) && is_pretty(sample)
}

/// What to do with JSON that is not a document a line.
const PRETTY: &str =
    "JSON over several lines, which are no documents: pipe it through jq -c . (an array through jq -c '.[]')";

/// Why a content that begins with `sample` has no lines to read. A file that was named may hold NUL bytes, such as those
/// that a crash leaves, while most of its lines are text; one found in a directory may not.
fn no_text(sample: &[u8], from_directory: bool) -> Option<&'static str> {
    const ARCHIVES: [(usize, &[u8], &str); 6] = [
        (257, b"ustar", "a tar archive: unpack it first"),
        (0, b"PK\x03\x04", "a zip archive: unpack it first"),
        (0, b"PK\x05\x06", "a zip archive: unpack it first"),
        (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
        (0, b"Rar!\x1a\x07", "a rar archive: unpack it first"),
        (0, b"\x04\x22\x4d\x18", "compressed with lz4: unpack it first"),
    ];
    let begins = |(at, magic, _): &&(usize, &[u8], &str)| {
        sample.get(*at..).is_some_and(|rest| rest.starts_with(magic))
    };
    if let Some((_, _, reason)) = ARCHIVES.iter().find(begins) {
        return Some(reason);
    }
    let sample = sample.get(..BINARY_SAMPLE_BYTES).unwrap_or(sample);
    let has_nul = |line: &&[u8]| memchr::memchr(0, line).is_some();
    let lines = || sample.split_inclusive(|byte| *byte == b'\n');
    let binary = lines().filter(has_nul).count();
    let is_binary = if from_directory { binary > 0 } else { binary * 2 > lines().count() };
    is_binary.then_some("binary")
}
