//! The identity of an input: what the catalog records of it, and the only module that knows the encoding.
//!
//! A file is identified by its content, never by its name, size or inode. The catalog records two numbers for it: the
//! *position* up to which its decompressed content is ingested, and a hash of every byte up to there. A file that
//! appears again is read up to that position. If the hash is the same, it is the same file, perhaps grown,
//! renamed, copied, compressed or decompressed since, and reading resumes at the position.
//!
//! The names of the two numbers begin with the hash of the file's *head*, its first line. So only files that
//! begin with the same line are compared, and two runs over one new file choose the same name, so that one of them
//! loses
//! the commit. A count distinguishes files with the same head.
//!
//! The hash is XXH3, which is faster than any file system. It prevents mistaking one log for
//! another by accident, but not deliberate collisions.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};

use frostline_catalog::Index;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Of a longer first line, this much counts.
pub(crate) const HEAD_BYTES_MAX: usize = 4 << 10;
const HASH: &str = "#";
const PIECE_BYTES: usize = 256 << 10;

/// Everything that was read of one content from its start: its length and hash.
#[derive(Clone)]
pub(crate) struct Prefix {
    bytes: u64,
    line_feeds: u64,
    /// Where the last line without an end begins.
    line_start: u64,
    head: Vec<u8>,
    hash: Xxh3,
}

/// A position in a content that the catalog may record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Bytes before it.
    pub(crate) offset: u64,
    /// The hash of them.
    pub(crate) hash: u64,
    /// Whether the input ends there. Recorded only for named inputs, whose content is not read to identify them.
    pub(crate) is_end: bool,
}

/// The name under which the catalog records an input's mark.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceKey {
    /// An input named by its producer.
    Named(String),
    /// A file.
    Content(Head, u32),
}

/// Length and hash of a content's first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Head {
    bytes: u16,
    hash: u128,
}

/// The files that the catalog has recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// By the length of the head, then by its hash; each with its count.
    heads: BTreeMap<u16, HashMap<u128, BTreeMap<u32, Seen>>>,
}

/// The record of one file.
#[derive(Clone, Copy, Debug)]
struct Seen {
    offset: u64,
    /// As the catalog has it: missing if another program wrote an incomplete commit.
    hash: Option<u64>,
    /// Where to continue if that is before `offset`.
    resume: Option<u64>,
}

/// A known file that a content may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) key: SourceKey,
    pub(crate) offset: u64,
    hash: u64,
    /// Where to continue if that is before `offset`.
    pub(crate) resume: Option<u64>,
}

impl Default for Prefix {
    fn default() -> Self {
        Prefix { bytes: 0, line_feeds: 0, line_start: 0, head: Vec::new(), hash: Xxh3::new() }
    }
}

impl Prefix {
    /// Reads on.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        if self.line_feeds == 0 && self.head.len() < HEAD_BYTES_MAX {
            let line = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
            let wanted = line.min(HEAD_BYTES_MAX - self.head.len());
            self.head.extend_from_slice(&bytes[..wanted]);
        }
        if let Some(at) = memchr::memrchr(b'\n', bytes) {
            self.line_start = self.bytes + at as u64 + 1;
            self.line_feeds += memchr::memchr_iter(b'\n', &bytes[..=at]).count() as u64;
        }
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Reads on until `bytes` bytes were read; `false` where the content ends before.
    pub(crate) fn advance(&mut self, content: &mut dyn Read, bytes: u64) -> io::Result<bool> {
        let mut piece = vec![0; PIECE_BYTES];
        while self.bytes < bytes {
            let wanted = (bytes - self.bytes).min(PIECE_BYTES as u64) as usize;
            match content.read(&mut piece[..wanted]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.extend(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// How much was read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the line that begins or continues here, counted from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line_feeds + 1
    }

    /// Where the line began that continues here; here if none does.
    pub(crate) fn line_start(&self) -> u64 {
        self.line_start
    }

    /// The first line, as far as it was read.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(crate) fn mark(&self, is_end: bool) -> Mark {
        Mark { offset: self.bytes, hash: self.hash.digest() >> 1, is_end }
    }
}

impl std::fmt::Debug for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prefix").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Head {
    fn of(head: &[u8]) -> Head {
        Head { bytes: head.len() as u16, hash: xxh3_128(head) }
    }
}

impl SourceKey {
    /// The catalog's name of the number that every change of the mark updates.
    pub(crate) fn name(&self) -> String {
        match self {
            SourceKey::Named(name) => name.clone(),
            SourceKey::Content(head, count) => format!("file-{}-{:032x}-{count}", head.bytes, head.hash),
        }
    }

    /// The numbers that the catalog records for `mark`.
    pub(crate) fn progress(&self, mark: &Mark) -> Vec<(String, i64)> {
        let offset = i64::try_from(mark.offset).unwrap_or(i64::MAX);
        match self {
            SourceKey::Named(name) => {
                vec![(name.clone(), offset.saturating_mul(2).saturating_add(i64::from(mark.is_end)))]
            }
            SourceKey::Content(..) => {
                let name = self.name();
                vec![(format!("{name}{HASH}"), mark.hash as i64), (name, offset)]
            }
        }
    }

    /// The position of a named input: its offset, and whether that is its end.
    pub(crate) fn position(&self, index: &Index) -> (u64, bool) {
        let kept = index.progress(&self.name()).and_then(|kept| u64::try_from(kept).ok()).unwrap_or(0);
        (kept / 2, kept % 2 == 1)
    }

    fn parse(name: &str) -> Option<(SourceKey, bool)> {
        let (name, is_hash) = name.strip_suffix(HASH).map_or((name, false), |name| (name, true));
        let mut parts = name.strip_prefix("file-")?.split('-');
        let bytes = parts.next()?.parse().ok()?;
        let hash = u128::from_str_radix(parts.next()?, 16).ok()?;
        let count = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some((SourceKey::Content(Head { bytes, hash }, count), is_hash))
    }
}

impl Known {
    /// The files that an index has recorded.
    pub(crate) fn of(index: &Index) -> Known {
        let mut known = Known::default();
        for (name, value) in index.sources() {
            if let (Some((SourceKey::Content(head, count), is_hash)), Ok(value)) =
                (SourceKey::parse(name), u64::try_from(value))
            {
                let seen = known.seen(head, count);
                if is_hash { seen.hash = Some(value) } else { seen.offset = value }
            }
        }
        known
    }

    /// The files of these marks: name, offset, hash, and where to continue.
    pub(crate) fn of_marks<'a>(marks: impl Iterator<Item = (&'a str, u64, u64, u64)>) -> Known {
        let mut known = Known::default();
        for (name, offset, hash, resume) in marks {
            if let Some((SourceKey::Content(head, count), false)) = SourceKey::parse(name) {
                let resume = Some(resume).filter(|resume| *resume < offset);
                *known.seen(head, count) = Seen { offset, hash: Some(hash), resume };
            }
        }
        known
    }

    /// The known files that a content beginning with `first` may be, the shortest first. `first` holds the
    /// first line, or its first 4 KiB, or everything.
    pub(crate) fn candidates(&self, first: &[u8]) -> Vec<Candidate> {
        let alike = self.heads.iter().filter_map(|(bytes, heads)| {
            let head = Head::of(first.get(..usize::from(*bytes))?);
            Some((head, heads.get(&head.hash)?))
        });
        let mut candidates: Vec<Candidate> = alike
            .flat_map(|(head, counts)| {
                counts.iter().filter_map(move |(count, seen)| {
                    let (offset, hash) = (seen.offset, seen.hash?);
                    let key = SourceKey::Content(head, *count);
                    (offset > 0).then_some(Candidate { key, offset, hash, resume: seen.resume })
                })
            })
            .collect();
        candidates.sort_by_key(|candidate| candidate.offset);
        candidates
    }

    /// A name for a content that is not a known file.
    pub(crate) fn new_key(&mut self, head: &[u8]) -> SourceKey {
        let head = Head::of(head);
        let counts = self.heads.entry(head.bytes).or_default().entry(head.hash).or_default();
        let count = counts.last_key_value().map_or(0, |(last, _)| last + 1);
        counts.insert(count, Seen { offset: 0, hash: None, resume: None });
        SourceKey::Content(head, count)
    }

    /// Records how far this run has read a file.
    pub(crate) fn note(&mut self, key: &SourceKey, mark: &Mark) {
        if let SourceKey::Content(head, count) = key {
            *self.seen(*head, *count) = Seen { offset: mark.offset, hash: Some(mark.hash), resume: None };
        }
    }

    fn seen(&mut self, head: Head, count: u32) -> &mut Seen {
        let counts = self.heads.entry(head.bytes).or_default().entry(head.hash).or_default();
        counts.entry(count).or_insert(Seen { offset: 0, hash: None, resume: None })
    }
}

impl Candidate {
    /// Whether the content that was read up to [`Candidate::offset`] is this file's.
    pub(crate) fn is(&self, prefix: &Prefix) -> bool {
        let mark = prefix.mark(false);
        (mark.offset, mark.hash) == (self.offset, self.hash)
    }
}

#[cfg(test)]
mod tests;
