//! The trace of a volume: what the users of its last mounts wanted first, so that the next mount fetches it first.
//!
//! - A chunk is named by the path of its file and its number in it: that is what stays from snapshot to snapshot while
//!   contents change. What is not in a later snapshot under this name is passed over.
//! - It is advisory. One that is missing, damaged or of another volume changes no byte that anybody reads.
//! - It names files. So it is encrypted where the volume is, and like all objects written once, under a name of its own.

use std::collections::{HashMap, HashSet};

use frostline_base::bytes_codec::{Cursor, put_bytes, put_varint};
use frostline_base::{Error, Result};

use crate::digest::Digest;
use crate::seal::Seal;
use crate::tree::{Finder, PATH_BYTES_MAX, Tree};

const MAGIC: &[u8; 8] = b"FROSTVR1";
const LEVEL: i32 = 3;
/// A trace has no more chunks: those of 512 GiB.
pub(crate) const CHUNKS_MAX: u64 = 1 << 20;
/// None unpacks to more.
const BODY_BYTES_MAX: usize = 64 << 20;
/// No object of one is longer.
pub(crate) const OBJECT_BYTES_MAX: u64 = 65 << 20;
/// A chunk that so many mounts in a row could have seen wanted, and did not, is forgotten.
const UNSEEN_MAX: u8 = 3;

/// Chunks in the order in which they are fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Of the files of the runs.
    paths: Vec<Vec<u8>>,
    runs: Vec<Run>,
}

/// Neighbours in a file, which were wanted one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    path: usize,
    first: u64,
    chunks: u64,
    /// Mounts since then that did not see them wanted.
    unseen: u8,
}

/// A trace that is put together.
#[derive(Default)]
struct Builder<'a> {
    trace: Trace,
    numbers: HashMap<&'a [u8], usize>,
    chunks: u64,
    bytes: usize,
}

impl<'a> Builder<'a> {
    fn push(&mut self, path: &'a [u8], number: u64, unseen: u8) {
        // A run takes at most four numbers.
        const RUN_BYTES: usize = 24;
        let is_known = self.numbers.contains_key(path);
        let bytes = RUN_BYTES + if is_known { 0 } else { path.len() + 10 };
        if self.chunks >= CHUNKS_MAX || self.bytes + bytes > BODY_BYTES_MAX {
            return;
        }
        self.chunks += 1;
        let next = self.numbers.len();
        let path = *self.numbers.entry(path).or_insert_with(|| {
            self.trace.paths.push(path.to_vec());
            next
        });
        match self.trace.runs.last_mut() {
            Some(run) if run.path == path && run.unseen == unseen && run.first + run.chunks == number => {
                run.chunks += 1;
                self.bytes += if is_known { 0 } else { bytes };
            }
            _ => {
                self.trace.runs.push(Run { path, first: number, chunks: 1, unseen });
                self.bytes += bytes;
            }
        }
    }
}

impl Trace {
    /// What a mount of `tree` saw wanted, in this order, then what earlier mounts did: that stays for a while, because
    /// it may be wanted again, and longer if this mount could not see it.
    /// Chunks are given as a file among the entries, and a number in it.
    pub(crate) fn after(
        &self,
        tree: &Tree,
        wanted: &[(usize, u64)],
        could_see: impl Fn(usize) -> bool,
    ) -> Trace {
        let mut builder = Builder::default();
        let mut seen: HashSet<(&[u8], u64)> = HashSet::new();
        for (file, number) in wanted {
            let path = tree.entries[*file].path.as_slice();
            if seen.insert((path, *number)) {
                builder.push(path, *number, 0);
            }
        }
        let finder = Finder::new(tree);
        let mut is_hidden: HashMap<usize, bool> = HashMap::new();
        for run in &self.runs {
            let path = self.paths[run.path].as_slice();
            let is_hidden = is_hidden
                .entry(run.path)
                .or_insert_with(|| finder.file(path).is_some_and(|file| !could_see(file)));
            let unseen = if *is_hidden { run.unseen } else { run.unseen.saturating_add(1) };
            if unseen >= UNSEEN_MAX {
                continue;
            }
            for number in run.first..run.first + run.chunks {
                if seen.insert((path, number)) {
                    builder.push(path, number, unseen);
                }
            }
        }
        builder.trace
    }

    /// Those of the chunks that a tree has, each once.
    pub(crate) fn chunks(&self, tree: &Tree) -> Vec<usize> {
        let mut finder = Finder::new(tree);
        let mut files: HashMap<usize, Option<usize>> = HashMap::new();
        let mut seen = HashSet::new();
        let mut chunks = Vec::new();
        for run in &self.runs {
            let find = || finder.file(&self.paths[run.path]);
            let Some(file) = *files.entry(run.path).or_insert_with(find) else { continue };
            let found = (run.first..run.first + run.chunks).filter_map(|number| finder.chunk(file, number));
            chunks.extend(found.filter(|chunk| seen.insert(*chunk)));
        }
        chunks
    }

    /// The object of it.
    pub(crate) fn encode(&self, seal: Option<&Seal>) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        put_varint(&mut body, self.paths.len() as u64);
        self.paths.iter().for_each(|path| put_bytes(&mut body, path));
        put_varint(&mut body, self.runs.len() as u64);
        for run in &self.runs {
            [run.path as u64, run.first, run.chunks].iter().for_each(|value| put_varint(&mut body, *value));
            body.push(run.unseen);
        }
        let packed = zstd::bulk::compress(&body, LEVEL)
            .map_err(|e| Error::internal("Zstandard cannot pack a trace").with_source(e))?;
        let mut part = Digest::of(&packed).as_bytes().to_vec();
        part.extend((body.len() as u32).to_le_bytes());
        part.extend(packed);
        let part = match seal {
            Some(seal) => seal.seal(MAGIC.len() as u64, part)?,
            None => part,
        };
        Ok([MAGIC.as_slice(), &part].concat())
    }

    /// Reads an object; `Corrupt` for whatever is none of this volume.
    pub(crate) fn decode(object: &[u8], seal: Option<&Seal>) -> Result<Trace> {
        let part = object.strip_prefix(MAGIC).ok_or_else(|| damaged("its beginning"))?;
        let opened = seal.map(|seal| seal.open(MAGIC.len() as u64, part)).transpose()?;
        let mut cursor = Cursor::new(opened.as_deref().unwrap_or(part));
        let digest = Digest::read(&mut cursor)?;
        let bytes = cursor.u32_le()? as usize;
        let packed = cursor.rest();
        digest.check(packed, "a trace")?;
        if bytes > BODY_BYTES_MAX {
            return Err(damaged("its length"));
        }
        let body = zstd::bulk::decompress(packed, bytes).map_err(|e| damaged("its body").with_source(e))?;
        Trace::decode_body(&body)
    }

    /// Reads what is behind the digest.
    pub(crate) fn decode_body(body: &[u8]) -> Result<Trace> {
        let mut cursor = Cursor::new(body);
        let count = claimed(&mut cursor)?;
        let mut paths = Vec::with_capacity(count.min(body.len()));
        for _ in 0..count {
            let path = cursor.bytes()?;
            if path.is_empty() || path.len() > PATH_BYTES_MAX {
                return Err(damaged("a path"));
            }
            paths.push(path.to_vec());
        }
        let count = claimed(&mut cursor)?;
        let mut runs = Vec::with_capacity(count.min(body.len() / 4));
        let mut all: u64 = 0;
        for _ in 0..count {
            let (path, first, chunks) = (cursor.varint_usize()?, cursor.varint()?, cursor.varint()?);
            let run = Run { path, first, chunks, unseen: cursor.u8()? };
            all = all.saturating_add(chunks);
            if path >= paths.len() || chunks == 0 || first.checked_add(chunks).is_none() || all > CHUNKS_MAX {
                return Err(damaged("a run"));
            }
            runs.push(run);
        }
        match cursor.is_empty() {
            true => Ok(Trace { paths, runs }),
            false => Err(damaged("its end")),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// How many paths or runs follow. There is none without a chunk, so that memory is bounded by what a trace may have and
/// not by what its body claims.
fn claimed(cursor: &mut Cursor<'_>) -> Result<usize> {
    match cursor.varint()? {
        count if count <= CHUNKS_MAX => Ok(count as usize),
        _ => Err(damaged("a count")),
    }
}

fn damaged(what: &str) -> Error {
    Error::corrupt("a trace cannot be read").with("at", what)
}

#[cfg(test)]
mod tests;
