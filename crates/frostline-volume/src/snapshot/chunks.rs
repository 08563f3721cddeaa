//! Reading chunks, and deciding how each is stored.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use frostline_base::{ByteRange, Error, ErrorKind, Result};
use frostline_store::Repository;

use super::blocking;
use crate::digest::{Digest, PageSum};
use crate::pack::Directory;
use crate::piece::{self, DELTA_PAGES_MAX, PIECES_MAX, Pages};
use crate::reader::directory;
use crate::scan::{self, Identity};
use crate::seal::VolumeKey;
use crate::tree::{Chunk, Entry, Node, Pack, PieceRef, Tree};

/// Bytes of directories of packs that are kept for the next chunks.
const DIRECTORIES_BYTES_MAX: u64 = 256 << 20;

/// The snapshot that a new one is written on top of.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) tree: Tree,
    by_path: HashMap<Vec<u8>, usize>,
    by_inode: HashMap<u64, usize>,
    by_digest: HashMap<Digest, usize>,
}

impl Base {
    /// A base without the chunks in `lost` packs and without the files that need them.
    pub(super) fn new(tree: Tree, lost: &HashSet<u32>) -> Base {
        let is_there = |chunk: &Chunk| !chunk.pieces.iter().any(|piece| lost.contains(&piece.pack));
        let files = || {
            let is_whole = |(_, entry): &(usize, &Entry)| match &entry.node {
                Node::File { chunks, .. } => tree.chunks[chunks.clone()].iter().all(is_there),
                _ => false,
            };
            tree.entries.iter().enumerate().filter(is_whole)
        };
        let there = tree.chunks.iter().enumerate().filter(|(_, chunk)| is_there(chunk));
        Base {
            by_path: files().map(|(at, entry)| (entry.path.clone(), at)).collect(),
            by_inode: files().map(|(at, entry)| (entry.meta.inode, at)).collect(),
            by_digest: there.map(|(at, chunk)| (chunk.digest, at)).collect(),
            tree,
        }
    }

    /// What a file was: that of its path, or else of its inode.
    pub(super) fn file(&self, entry: &Entry) -> Option<&Entry> {
        let at = self.by_path.get(&entry.path).or_else(|| self.by_inode.get(&entry.meta.inode));
        at.map(|at| &self.tree.entries[*at])
    }

    /// Whether there is a file of this path.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.by_path.contains_key(path)
    }

    pub(super) fn chunk(&self, digest: &Digest) -> Option<&Chunk> {
        self.by_digest.get(digest).map(|at| &self.tree.chunks[*at])
    }
}

/// A chunk to read.
#[derive(Clone, Debug)]
pub(super) struct Read {
    /// Among the entries of the scan.
    pub(super) file: usize,
    pub(super) range: ByteRange,
    /// The chunk of the base at this place.
    pub(super) base: Option<usize>,
}

/// Where the contents of a file are.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// This file, while it is there.
    Path(PathBuf, Identity),
    /// This file, wherever it is now.
    Open(PathBuf, Arc<File>),
    Bytes(Bytes),
}

/// Chunks that are read together, and where their files are.
#[derive(Debug)]
pub(super) struct Job(pub(super) Vec<(Source, Read)>);

/// A chunk that was read.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) file: usize,
    /// Where the chunk begins in the file.
    pub(super) at: u64,
    pub(super) read_bytes: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// Another file is there, or none.
    Vanished,
    /// The base has it.
    Known(Digest),
    /// It is to be stored.
    New(NewPiece),
}

/// A piece to store, and the chunk that it completes.
#[derive(Debug)]
pub(super) struct NewPiece {
    pub(super) digest: Digest,
    pub(super) chunk_bytes: u32,
    /// The pieces that it is applied to.
    pub(super) onto: Vec<PieceRef>,
    pub(super) piece: Vec<u8>,
    pub(super) pages: u64,
    pub(super) sums: Vec<PageSum>,
}

enum Looked {
    Ready(What),
    Unknown(Digest, Vec<u8>),
}

impl Looked {
    fn of(bytes: Vec<u8>, base: &Base) -> Looked {
        let digest = Digest::of(&bytes);
        match base.chunk(&digest) {
            Some(_) => Looked::Ready(What::Known(digest)),
            None => Looked::Unknown(digest, bytes),
        }
    }
}

/// Reads the chunks of a job, and packs those that the base does not have.
pub(super) async fn run(job: Job, base: Arc<Base>, directories: &Directories<'_>) -> Result<Vec<Ready>> {
    let known = Arc::clone(&base);
    let looked = blocking(move || look(job, &known)).await?;
    let mut before = Vec::with_capacity(looked.len());
    for (read, looked) in &looked {
        let chunk =
            read.base.filter(|_| matches!(looked, Looked::Unknown(..))).map(|at| &base.tree.chunks[at]);
        before.push(match chunk {
            Some(chunk) => directories.pages(chunk).await?,
            None => Vec::new(),
        });
    }
    blocking(move || {
        let all = looked.into_iter().zip(before);
        all.map(|((read, looked), before)| {
            let what = match looked {
                Looked::Ready(what) => what,
                Looked::Unknown(digest, bytes) => {
                    let chunk = read.base.map(|at| &base.tree.chunks[at]);
                    What::New(new_piece(digest, &bytes, chunk, &before)?)
                }
            };
            Ok(Ready {
                file: read.file,
                at: read.range.start,
                read_bytes: read.range.end - read.range.start,
                what,
            })
        })
        .collect()
    })
    .await
}

fn look(job: Job, base: &Base) -> Result<Vec<(Read, Looked)>> {
    let mut open: Option<(usize, Arc<File>)> = None;
    let mut all = Vec::with_capacity(job.0.len());
    for (source, read) in job.0 {
        let path = match &source {
            Source::Path(path, _) | Source::Open(path, _) => path,
            Source::Bytes(bytes) => {
                let lost = || Error::internal("a chunk is behind the end of what was given");
                let range = read.range.start as usize..read.range.end as usize;
                let chunk = bytes.get(range).ok_or_else(lost)?.to_vec();
                all.push((read, Looked::of(chunk, base)));
                continue;
            }
        };
        if open.as_ref().is_none_or(|(file, _)| *file != read.file) {
            let file = match &source {
                Source::Path(path, identity) => scan::open(path, *identity)?.map(Arc::new),
                Source::Open(_, file) => Some(Arc::clone(file)),
                Source::Bytes(_) => None,
            };
            open = file.map(|file| (read.file, file));
        }
        let Some((_, file)) = &open else {
            all.push((read, Looked::Ready(What::Vanished)));
            continue;
        };
        let bytes = read_chunk(file, &read.range).map_err(|e| scan::failed("read", path, &e))?;
        all.push((read, Looked::of(bytes, base)));
    }
    Ok(all)
}

/// The bytes of a range. What is behind the end of a file that became shorter is zero; the last look at the directory
/// will tell.
fn read_chunk(file: &File, range: &ByteRange) -> std::io::Result<Vec<u8>> {
    let mut bytes = scan::read(file, range)?;
    bytes.resize((range.end - range.start) as usize, 0);
    Ok(bytes)
}

/// How a chunk is stored: the pages that changed where they are few, else all of it. `before` has the pages after each
/// of the pieces of `base`.
fn new_piece(digest: Digest, bytes: &[u8], base: Option<&Chunk>, before: &[Pages]) -> Result<NewPiece> {
    let pages = Pages::of(bytes);
    let chunk_bytes = bytes.len() as u32;
    let pieces = base.map_or(&[][..], |chunk| &chunk.pieces);
    // On top of all pieces while they are few, then on the first, which is whole.
    let onto = if pieces.len() < PIECES_MAX { pieces } else { &pieces[..1] };
    if let Some(under) = onto.len().checked_sub(1).and_then(|last| before.get(last)) {
        let changed = pages.changed_since(under);
        if changed.count_ones() <= DELTA_PAGES_MAX && changed.count_ones() * 2 < pages.all().count_ones() {
            let piece = piece::delta(bytes, changed)?;
            let sums = pages.select(changed);
            return Ok(NewPiece { digest, chunk_bytes, onto: onto.to_vec(), piece, pages: changed, sums });
        }
    }
    let (piece, all) = (piece::full(bytes)?, pages.all());
    Ok(NewPiece { digest, chunk_bytes, onto: Vec::new(), piece, pages: all, sums: pages.select(all) })
}

/// The directories of the base's packs, each read once while it is near.
pub(super) struct Directories<'a> {
    repository: &'a Repository,
    packs: &'a [Pack],
    key: Option<&'a VolumeKey>,
    read: Mutex<Kept>,
}

/// Directories by pack, and their length as they are stored.
#[derive(Default)]
struct Kept(HashMap<u32, Arc<OnceCell<Option<Directory>>>>, u64);

impl<'a> Directories<'a> {
    pub(super) fn new(repository: &'a Repository, base: &'a Base) -> Self {
        let Tree { packs, key, .. } = &base.tree;
        Directories { repository, packs, key: key.as_ref(), read: Mutex::default() }
    }

    /// The pages of a chunk after each of its pieces; fewer where a directory cannot be used.
    async fn pages(&self, chunk: &Chunk) -> Result<Vec<Pages>> {
        let mut after = Vec::with_capacity(chunk.pieces.len());
        let mut pages = Pages::default();
        for piece in &chunk.pieces {
            let cell = self.cell(piece.pack);
            let directory = cell.get_or_try_init(|| self.fetch(piece.pack)).await?;
            let is_known = directory.as_ref().is_some_and(|d| d.apply(piece.offset.into(), &mut pages));
            if !is_known {
                break;
            }
            after.push(pages.clone());
        }
        Ok(after)
    }

    fn cell(&self, pack: u32) -> Arc<OnceCell<Option<Directory>>> {
        let Kept(read, bytes) = &mut *self.read.lock();
        if !read.contains_key(&pack) {
            let more = self.packs.get(pack as usize).map_or(0, |pack| pack.directory_bytes.into());
            if *bytes + more > DIRECTORIES_BYTES_MAX {
                read.clear();
                *bytes = 0;
            }
            *bytes += more;
        }
        Arc::clone(read.entry(pack).or_default())
    }

    /// A directory that is gone, damaged or longer than all that is kept costs bytes, not the snapshot: chunks are then
    /// stored whole.
    async fn fetch(&self, pack: u32) -> Result<Option<Directory>> {
        let is_short = |pack: &&Pack| u64::from(pack.directory_bytes) <= DIRECTORIES_BYTES_MAX;
        let Some(pack) = self.packs.get(pack as usize).filter(is_short) else { return Ok(None) };
        match directory(self.repository, pack, self.key).await {
            Ok(directory) => Ok(Some(directory)),
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
                tracing::warn!(%error, "the directory of a pack cannot be read; run volume verify");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
