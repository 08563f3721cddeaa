//! Splits a byte stream into blocks of whole lines, in bounded memory.
//!
//! The reader appends bytes and takes pieces: [`Upto`] says how much must be available for a piece. Everything
//! taken passes through a [`Prefix`], so the hash up to the end of a piece is always known.
//!
//! A line longer than the limit is dropped while it arrives, without being held in memory: at most the limit and two
//! blocks are.

use std::io::{self, Read};
use std::sync::Arc;

use crate::identity::Prefix;
use crate::lines::{Events, Runtime, Unfinished, announces_document};

/// Where the text of a document ends. A *line* here is the text of one document: for CSV a record; if lines are
/// joined, an event.
#[derive(Clone, Debug)]
pub(crate) enum LineEnds {
    /// At every line feed.
    All,
    /// At line feeds outside double quotes.
    OutsideQuotes,
    /// At every line feed but those of lines that say what becomes of the next line.
    AfterActions,
    /// At line feeds after which no message of a container is unfinished.
    AfterMessages(Runtime),
    /// Before each line that begins an event.
    Events(Arc<Events>),
}

/// How much must be available for a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upto {
    /// A full block.
    Full,
    /// Complete lines; an event ends with the last of them.
    Lines,
    /// Complete lines; an event whose last line has no end is not among them.
    Whole,
    /// Everything: the input ends here.
    End,
}

/// Whole lines of one input, or one line that is too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Lines with their line ends; the last line of an input may lack its own.
    Lines(Block),
    /// A line over the limit, of which only the start is held.
    TooLong(Block),
}

/// Bytes and their offset in the decompressed input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    pub(crate) offset: u64,
    /// The number of the first line, counted from 1.
    pub(crate) line: u64,
    /// Line feeds in it.
    pub(crate) line_feeds: u64,
}

/// The limits of a [`Blocks`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLimits {
    /// A block is cut when it has this many bytes.
    pub(crate) block_bytes: usize,
    /// A longer line is refused.
    pub(crate) line_bytes_max: usize,
}

/// How much of a refused line is held, to report it.
const HEAD_BYTES: usize = 1 << 10;
const FILL_BYTES: usize = 256 << 10;
/// A longer event is split into several.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// Divides its input into blocks.
pub(crate) struct Blocks {
    limits: BlockLimits,
    line_ends: LineEnds,
    prefix: Prefix,
    pending: Vec<u8>,
    /// Number of bytes of `pending` that were searched for line ends, and the result.
    scanned: usize,
    in_quotes: bool,
    unfinished: Unfinished,
    whole: usize,
    /// The line that is being dropped.
    too_long: Option<Block>,
}

impl Blocks {
    /// Continues after `prefix`, where a line begins.
    pub(crate) fn new(limits: BlockLimits, line_ends: LineEnds, prefix: Prefix) -> Self {
        Blocks {
            limits,
            line_ends,
            prefix,
            pending: Vec::new(),
            scanned: 0,
            in_quotes: false,
            unfinished: Unfinished::default(),
            whole: 0,
            too_long: None,
        }
    }

    /// Everything that was taken so far.
    pub(crate) fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// How lines end, as soon as the first bytes show it.
    pub(crate) fn set_line_ends(&mut self, line_ends: LineEnds) {
        self.line_ends = line_ends;
        self.restart_scan();
    }

    /// What was read but not taken yet.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.pending
    }

    /// Whether [`Upto::Lines`] would return a piece.
    pub(crate) fn has_lines(&mut self) -> bool {
        self.scan();
        self.whole > 0
    }

    /// What follows the last document whose last line has an end; `None` where nothing does. Of a line over the limit only
    /// its start is held.
    pub(crate) fn unfinished(&mut self) -> Option<&[u8]> {
        self.scan();
        if let Some(head) = &self.too_long {
            return Some(&head.bytes);
        }
        let whole = self.whole_upto(Upto::Whole);
        (whole < self.pending.len()).then(|| &self.pending[whole..])
    }

    /// Reads once, at most 256 KiB; returns the number of bytes.
    pub(crate) fn fill(&mut self, reader: &mut dyn Read) -> io::Result<usize> {
        let before = self.pending.len();
        self.pending.resize(before + FILL_BYTES, 0);
        let read = loop {
            match reader.read(&mut self.pending[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.pending.truncate(before + read.as_ref().map_or(0, |count| *count));
        read
    }

    /// The next piece; `None` if there is not enough for one.
    pub(crate) fn next(&mut self, upto: Upto) -> Option<Piece> {
        if self.too_long.is_none() {
            self.scan();
            let is_over = self.pending.len() > self.limits.line_bytes_max;
            let is_due = upto != Upto::Full || self.pending.len() >= self.limits.block_bytes;
            let whole = match upto {
                Upto::End if !is_over => self.pending.len(),
                _ if is_due => self.whole_upto(upto),
                _ => self.whole,
            };
            if whole > 0 || !is_over {
                return (whole > 0 && is_due).then(|| Piece::Lines(self.cut(whole)));
            }
            let head = self.pending.get(..HEAD_BYTES).unwrap_or(&self.pending).to_vec();
            let (offset, line) = (self.prefix.bytes(), self.prefix.line());
            self.too_long = Some(Block { offset, line, line_feeds: 1, bytes: head });
        }
        let end = memchr::memchr(b'\n', &self.pending).map(|at| at + 1);
        let dropped = end.unwrap_or(self.pending.len());
        self.prefix.extend(&self.pending[..dropped]);
        self.pending.drain(..dropped);
        self.restart_scan();
        let is_over = end.is_some() || upto == Upto::End;
        self.too_long.take_if(|_| is_over).map(Piece::TooLong)
    }

    fn cut(&mut self, at: usize) -> Block {
        let mut rest = Vec::with_capacity(self.limits.block_bytes.max(self.pending.len() - at));
        rest.extend_from_slice(&self.pending[at..]);
        self.pending.truncate(at);
        let bytes = std::mem::replace(&mut self.pending, rest);
        let (offset, line) = (self.prefix.bytes(), self.prefix.line());
        self.prefix.extend(&bytes);
        self.restart_scan();
        Block { offset, line, line_feeds: self.prefix.line() - line, bytes }
    }

    fn restart_scan(&mut self) {
        (self.scanned, self.whole, self.in_quotes) = (0, 0, false);
        self.unfinished = Unfinished::default();
    }

    fn scan(&mut self) {
        let fresh = &self.pending[self.scanned..];
        match self.line_ends {
            LineEnds::All | LineEnds::Events(_) => {
                if let Some(at) = memchr::memrchr(b'\n', fresh) {
                    self.whole = self.scanned + at + 1;
                }
            }
            LineEnds::AfterActions => {
                let mut start = self.scanned;
                while let Some(at) = memchr::memchr(b'\n', &self.pending[start..]) {
                    let end = start + at + 1;
                    if !announces_document(&self.pending[start..end]) {
                        self.whole = end;
                    }
                    start = end;
                }
                // A line is looked at when all of it is here.
                self.scanned = start;
                return;
            }
            LineEnds::AfterMessages(runtime) => {
                let mut start = self.scanned;
                while let Some(at) = memchr::memchr(b'\n', &self.pending[start..]) {
                    let end = start + at + 1;
                    self.unfinished = self.unfinished.after(runtime, &self.pending[start..end]);
                    if self.unfinished.is_none() || end - self.whole > EVENT_BYTES_MAX {
                        (self.whole, self.unfinished) = (end, Unfinished::default());
                    }
                    start = end;
                }
                self.scanned = start;
                return;
            }
            LineEnds::OutsideQuotes => {
                for at in memchr::memchr2_iter(b'"', b'\n', fresh) {
                    if fresh[at] == b'"' {
                        self.in_quotes = !self.in_quotes;
                    } else if !self.in_quotes {
                        self.whole = self.scanned + at + 1;
                    }
                }
            }
        }
        self.scanned = self.pending.len();
    }

    /// Where the last whole line ends. The last event may continue in later input, unless it is longer than a block.
    fn whole_upto(&self, upto: Upto) -> usize {
        let LineEnds::Events(events) = &self.line_ends else { return self.whole };
        let has_open_event = || {
            let rest = &self.pending[self.whole..];
            !rest.is_empty() && !events.is_start(rest)
        };
        let is_cut = match upto {
            Upto::Full => true,
            Upto::Whole => has_open_event(),
            Upto::Lines | Upto::End => false,
        };
        if !is_cut {
            return self.whole;
        }
        let mut end = self.whole;
        while end > 0 {
            let start = memchr::memrchr(b'\n', &self.pending[..end - 1]).map_or(0, |at| at + 1);
            if start > 0 && events.is_start(&self.pending[start..end]) {
                return start;
            }
            end = start;
        }
        if upto == Upto::Full { self.whole } else { 0 }
    }
}

impl Block {
    /// The lines without their ends, each with its offset and number.
    pub(crate) fn lines<'a>(&'a self, line_ends: &'a LineEnds) -> Lines<'a> {
        Lines { rest: &self.bytes, offset: self.offset, line: self.line, line_ends }
    }
}

/// The lines of a block.
pub(crate) struct Lines<'a> {
    rest: &'a [u8],
    offset: u64,
    line: u64,
    line_ends: &'a LineEnds,
}

/// One line and its position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) offset: u64,
    pub(crate) number: u64,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (whole, rest) = self.rest.split_at(self.end());
        let bytes = whole.strip_suffix(b"\n").unwrap_or(whole);
        let line = Line { bytes, offset: self.offset, number: self.line };
        self.offset += whole.len() as u64;
        self.line += if matches!(self.line_ends, LineEnds::All) { 1 } else { line_feeds(whole) };
        self.rest = rest;
        Some(line)
    }
}

impl Lines<'_> {
    fn end(&self) -> usize {
        let end = match self.line_ends {
            LineEnds::All => memchr::memchr(b'\n', self.rest).map(|at| at + 1),
            LineEnds::OutsideQuotes => {
                let mut in_quotes = false;
                let mut marks = memchr::memchr2_iter(b'"', b'\n', self.rest);
                let end = marks.find(|at| {
                    let is_quote = self.rest[*at] == b'"';
                    in_quotes ^= is_quote;
                    !is_quote && !in_quotes
                });
                end.map(|at| at + 1)
            }
            LineEnds::AfterActions => {
                let (mut start, mut end) = (0, None);
                while end.is_none()
                    && let Some(at) = memchr::memchr(b'\n', &self.rest[start..])
                {
                    let next = start + at + 1;
                    end = Some(next).filter(|_| !announces_document(&self.rest[start..next]));
                    start = next;
                }
                end
            }
            LineEnds::AfterMessages(runtime) => {
                let (mut start, mut end, mut unfinished) = (0, None, Unfinished::default());
                while end.is_none()
                    && let Some(at) = memchr::memchr(b'\n', &self.rest[start..])
                {
                    let next = start + at + 1;
                    unfinished = unfinished.after(*runtime, &self.rest[start..next]);
                    end = Some(next).filter(|next| unfinished.is_none() || *next > EVENT_BYTES_MAX);
                    start = next;
                }
                end
            }
            LineEnds::Events(events) => self.event_end(events),
        };
        end.unwrap_or(self.rest.len())
    }

    fn event_end(&self, events: &Events) -> Option<usize> {
        let line_end = |from: usize| memchr::memchr(b'\n', &self.rest[from..]).map(|at| from + at + 1);
        let mut end = line_end(0)?;
        while end < self.rest.len() {
            let next = line_end(end).unwrap_or(self.rest.len());
            if next > EVENT_BYTES_MAX || events.is_start(&self.rest[end..next]) {
                return Some(end);
            }
            end = next;
        }
        Some(end)
    }
}

/// How many line feeds there are.
pub(crate) fn line_feeds(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests;
