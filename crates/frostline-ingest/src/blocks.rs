//! A stream of bytes cut into blocks of whole lines, in bounded memory.
//!
//! A line longer than the limit is skipped while it is read, never held whole: at most the limit and two
//! blocks are in memory. A read error comes after every whole line before it.

use std::io::{self, Read};

/// A line of CSV may hold line ends in quotes: then a *line* here is a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnds {
    /// Every line feed.
    All,
    /// Those outside double quotes.
    OutsideQuotes,
}

/// Whole lines of one input, or one that is too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Lines with their ends; the last of an input may lack its.
    Lines(Block),
    /// A line over the limit, of which only the start is kept.
    TooLong(Block),
}

/// Bytes and where they stood in the unpacked input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    pub(crate) offset: u64,
    /// The number of the first line, counted from 1.
    pub(crate) line: u64,
    /// Line feeds in it.
    pub(crate) line_feeds: u64,
}

/// Sizes of a [`Blocks`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLimits {
    /// A block is cut when it has this many bytes.
    pub(crate) block_bytes: usize,
    /// A longer line is refused.
    pub(crate) line_bytes_max: usize,
}

/// How much of a refused line is kept to be shown.
const HEAD_BYTES: usize = 1 << 10;

/// Cuts a reader into blocks.
pub(crate) struct Blocks {
    reader: Box<dyn Read + Send>,
    limits: BlockLimits,
    line_ends: LineEnds,
    pending: Vec<u8>,
    /// Bytes of `pending` that were searched for line ends, and what was found.
    scanned: usize,
    in_quotes: bool,
    whole: usize,
    offset: u64,
    line: u64,
    at_end: bool,
    failed: Option<io::Error>,
}

impl Blocks {
    /// Starts at the first byte of `reader`.
    pub(crate) fn new(reader: Box<dyn Read + Send>, limits: BlockLimits) -> Self {
        Blocks {
            reader,
            limits,
            line_ends: LineEnds::All,
            pending: Vec::new(),
            scanned: 0,
            in_quotes: false,
            whole: 0,
            offset: 0,
            line: 1,
            at_end: false,
            failed: None,
        }
    }

    /// The first bytes, at least `wanted` of them where there are as many. Only before the first block.
    pub(crate) fn sample(&mut self, wanted: usize) -> &[u8] {
        while self.pending.len() < wanted && !self.is_drained() {
            self.fill(wanted);
        }
        &self.pending
    }

    /// How lines end; said after the sample told the format and before the first block.
    pub(crate) fn set_line_ends(&mut self, line_ends: LineEnds) {
        self.line_ends = line_ends;
    }

    /// Goes on at `offset`, which lies after a line end: what was read by an earlier run.
    pub(crate) fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        while self.offset < offset {
            if self.pending.is_empty() {
                if self.is_drained() {
                    return self.failed.take().map_or(Ok(()), Err);
                }
                self.fill(self.limits.block_bytes);
                continue;
            }
            let wanted = usize::try_from(offset - self.offset).unwrap_or(usize::MAX).min(self.pending.len());
            let rest = self.pending.split_off(wanted);
            self.advance(wanted as u64, line_feeds(&self.pending));
            self.pending = rest;
        }
        Ok(())
    }

    /// Where the next piece starts in the unpacked input.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next piece; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            self.scan();
            if self.whole > 0 && (self.pending.len() >= self.limits.block_bytes || self.is_drained()) {
                return Ok(Some(Piece::Lines(self.cut(self.whole))));
            }
            if self.whole == 0 && self.pending.len() > self.limits.line_bytes_max {
                return self.skip_line().map(Some);
            }
            if self.is_drained() {
                return self.finish();
            }
            self.fill(self.limits.block_bytes);
        }
    }

    /// The last line, if it has no end; it is whole unless reading failed.
    fn finish(&mut self) -> io::Result<Option<Piece>> {
        match self.failed.take() {
            Some(error) => Err(error),
            None if self.pending.is_empty() => Ok(None),
            None => Ok(Some(Piece::Lines(self.cut(self.pending.len())))),
        }
    }

    fn cut(&mut self, at: usize) -> Block {
        let mut rest = Vec::with_capacity(self.limits.block_bytes.max(self.pending.len() - at));
        rest.extend_from_slice(&self.pending[at..]);
        self.pending.truncate(at);
        let bytes = std::mem::replace(&mut self.pending, rest);
        let line_feeds = line_feeds(&bytes);
        let block = Block { offset: self.offset, line: self.line, line_feeds, bytes };
        self.advance(at as u64, line_feeds);
        self.restart_scan();
        block
    }

    /// Drops the rest of a line that is too long.
    fn skip_line(&mut self) -> io::Result<Piece> {
        let head = self.pending.get(..HEAD_BYTES).unwrap_or(&self.pending).to_vec();
        let block = Block { offset: self.offset, line: self.line, line_feeds: 1, bytes: head };
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.pending) {
                self.pending.drain(..=end);
                self.advance(end as u64 + 1, 1);
                break;
            }
            self.advance(self.pending.len() as u64, 0);
            self.pending.clear();
            if self.is_drained() {
                break;
            }
            self.fill(self.limits.block_bytes);
        }
        self.restart_scan();
        Ok(Piece::TooLong(block))
    }

    fn restart_scan(&mut self) {
        (self.scanned, self.whole, self.in_quotes) = (0, 0, false);
    }

    fn scan(&mut self) {
        let fresh = &self.pending[self.scanned..];
        match self.line_ends {
            LineEnds::All => {
                if let Some(at) = memchr::memrchr(b'\n', fresh) {
                    self.whole = self.scanned + at + 1;
                }
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

    fn fill(&mut self, bytes: usize) {
        let before = self.pending.len();
        let read = self.reader.by_ref().take(bytes.max(1) as u64).read_to_end(&mut self.pending);
        match read {
            Ok(0) => self.at_end = true,
            Ok(_) => {}
            Err(error) => self.failed = Some(error),
        }
        debug_assert!(self.pending.len() >= before);
    }

    fn is_drained(&self) -> bool {
        self.at_end || self.failed.is_some()
    }

    fn advance(&mut self, bytes: u64, lines: u64) {
        self.offset += bytes;
        self.line += lines;
    }
}

impl Block {
    /// The lines without their ends, each with its offset and number.
    pub(crate) fn lines(&self, line_ends: LineEnds) -> Lines<'_> {
        Lines { rest: &self.bytes, offset: self.offset, line: self.line, line_ends }
    }
}

/// The lines of a block.
pub(crate) struct Lines<'a> {
    rest: &'a [u8],
    offset: u64,
    line: u64,
    line_ends: LineEnds,
}

/// One line and where it stands.
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
        let end = self.end();
        let (whole, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let bytes = whole.strip_suffix(b"\n").unwrap_or(whole);
        let line = Line { bytes, offset: self.offset, number: self.line };
        self.offset += whole.len() as u64;
        self.line += if self.line_ends == LineEnds::All { 1 } else { line_feeds(whole) };
        self.rest = rest;
        Some(line)
    }
}

impl Lines<'_> {
    fn end(&self) -> Option<usize> {
        if self.line_ends == LineEnds::All {
            return memchr::memchr(b'\n', self.rest).map(|at| at + 1);
        }
        let mut in_quotes = false;
        let mut marks = memchr::memchr2_iter(b'"', b'\n', self.rest);
        let end = marks.find(|at| {
            let is_quote = self.rest[*at] == b'"';
            in_quotes ^= is_quote;
            !is_quote && !in_quotes
        });
        end.map(|at| at + 1)
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests;
