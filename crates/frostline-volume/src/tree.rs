//! The tree of a snapshot: its entries, the chunks of its files, and the packs that hold them.

mod decode;
mod encode;
mod find;

use std::collections::HashSet;
use std::ops::Range;

use frostline_base::{ByteRange, Error, ObjectRef, Result};

use crate::digest::Digest;
use crate::piece::CHUNK_BYTES;
use crate::seal::VolumeKey;

pub(crate) use decode::{
    Block, Head, decode_chunks, decode_entries, decode_packs, read_chunks, read_entries,
};
pub(crate) use encode::encode;
pub(crate) use find::Finder;

/// The identity of a snapshot: 128 random bits, written as 32 hexadecimal digits.
pub use frostline_base::SplitId as SnapshotId;

const MAGIC: &[u8; 8] = b"FROSTVT1";
const VERSION: u64 = 1;
/// The version of a tree that is encrypted.
const VERSION_SEALED: u64 = 2;
/// The length of the head, and the magic.
pub(crate) const TAIL_BYTES: u64 = 16;
/// What a reader takes, and so what a writer writes.
pub(crate) const LIMITS: Limits = Limits { head_bytes: 64 << 20, block_bytes: 64 << 20 };
/// No path is longer.
pub(crate) const PATH_BYTES_MAX: usize = 4_095;
/// No name in a path is longer.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// No file has more runs of data between holes.
pub(crate) const EXTENTS_MAX: usize = 1 << 20;

/// How long the parts of a tree can be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) head_bytes: u64,
    /// Of a block, as it is stored and unpacked.
    pub(crate) block_bytes: u64,
}

impl Limits {
    pub(crate) fn has_head(&self, bytes: u64) -> bool {
        bytes <= self.head_bytes
    }

    fn has_block(&self, bytes: u64, unpacked_bytes: u64) -> bool {
        bytes <= self.block_bytes && unpacked_bytes <= self.block_bytes
    }
}

/// A whole tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// What its objects are encrypted with.
    pub(crate) key: Option<VolumeKey>,
    pub(crate) packs: Vec<Pack>,
    /// In the byte order of their paths; the first is the directory itself.
    pub(crate) entries: Vec<Entry>,
    /// Those of all files.
    pub(crate) chunks: Vec<Chunk>,
}

/// A pack that a tree refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pack {
    /// The snapshot that it was written for.
    pub(crate) writer: SnapshotId,
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    pub(crate) directory_bytes: u32,
}

/// One name in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Below the directory, with `/` between names; empty for the directory itself.
    pub path: Vec<u8>,
    /// Its owner, mode, times and so on.
    pub meta: Meta,
    /// What it is.
    pub node: Node,
}

/// What is known of an entry besides its contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The 12 bits of permissions.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// When the contents were last written.
    pub modified: Time,
    /// When anything of it was last changed.
    pub changed: Time,
    /// The number of the inode.
    pub inode: u64,
    /// Extended attributes, by name.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A time of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970 UTC.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanos: u32,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A file.
    File {
        /// Its length.
        bytes: u64,
        /// Where it has data, in order; all else is a hole.
        extents: Vec<ByteRange>,
        /// Its chunks, among those of the tree.
        chunks: Range<usize>,
    },
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// Another name of an earlier entry.
    HardLink(Vec<u8>),
}

/// A chunk, and the pieces that make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) digest: Digest,
    pub(crate) bytes: u32,
    /// A full one, then deltas.
    pub(crate) pieces: Vec<PieceRef>,
}

/// Where a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PieceRef {
    /// Among the packs of the tree.
    pub(crate) pack: u32,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

impl PieceRef {
    pub(crate) fn range(&self) -> ByteRange {
        u64::from(self.offset)..u64::from(self.offset) + u64::from(self.bytes)
    }
}

impl Pack {
    pub(crate) fn object(&self) -> ObjectRef {
        ObjectRef { key: pack_key(self.writer, self.number), bytes: self.bytes }
    }

    /// Where its directory is.
    pub(crate) fn directory(&self) -> ByteRange {
        let end = self.bytes.saturating_sub(crate::pack::TAIL_BYTES as u64);
        end.saturating_sub(u64::from(self.directory_bytes))..end
    }
}

/// Where the objects of all snapshots are.
pub(crate) const DATA: &str = "_volumes/data";

pub(crate) fn pack_key(writer: SnapshotId, number: u32) -> String {
    format!("{DATA}/{writer}/{number:06}.pack")
}

pub(crate) fn tree_key(id: SnapshotId) -> String {
    format!("{DATA}/{id}/tree")
}

/// The numbers of the chunks that have data.
pub(crate) fn chunk_numbers(extents: &[ByteRange]) -> impl Iterator<Item = u64> {
    let size = CHUNK_BYTES as u64;
    let mut next = 0;
    extents.iter().filter(|extent| !extent.is_empty()).flat_map(move |extent| {
        let numbers = next.max(extent.start / size)..extent.end.div_ceil(size);
        next = numbers.end.max(next);
        numbers
    })
}

/// The bytes of a file of that length that are in this chunk.
pub(crate) fn chunk_range(number: u64, file_bytes: u64) -> ByteRange {
    let start = number.saturating_mul(CHUNK_BYTES as u64);
    start..file_bytes.min(start.saturating_add(CHUNK_BYTES as u64))
}

impl Entry {
    /// The path, for people.
    pub fn show(&self) -> String {
        show_path(&self.path)
    }
}

impl Meta {
    /// The permissions as `ls -l` shows them, without the kind.
    pub fn permissions(&self) -> String {
        let of = |shift: u32, special: u32, letter: char| {
            let bits = self.mode >> shift;
            let last = match (bits & 1 != 0, self.mode & special != 0) {
                (true, true) => letter,
                (false, true) => letter.to_ascii_uppercase(),
                (true, false) => 'x',
                (false, false) => '-',
            };
            [if bits & 4 != 0 { 'r' } else { '-' }, if bits & 2 != 0 { 'w' } else { '-' }, last]
        };
        [of(6, 0o4000, 's'), of(3, 0o2000, 's'), of(0, 0o1000, 't')].iter().flatten().collect()
    }
}

pub(crate) fn show_path(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { String::from_utf8_lossy(path).into_owned() }
}

/// Where a path is wrong, if it is.
fn fault_of_path(path: &[u8]) -> Option<&'static str> {
    if path.len() > PATH_BYTES_MAX {
        return Some("a path is too long");
    }
    let is_bad = |name: &[u8]| {
        name.is_empty() || name == b"." || name == b".." || name.contains(&0) || name.len() > NAME_BYTES_MAX
    };
    path.split(|byte| *byte == b'/').any(is_bad).then_some("a path has a part that no name can be")
}

pub(crate) fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |at| &path[..at])
}

/// What must hold of the entries of a tree, one after the other: so that whoever makes them again stays below the
/// directory.
#[derive(Debug, Default)]
pub(crate) struct Order {
    last: Option<Vec<u8>>,
    directories: HashSet<Vec<u8>>,
    /// What a hard link may be another name of.
    leaves: HashSet<Vec<u8>>,
}

impl Order {
    /// `Corrupt` where the entry cannot follow those before it.
    pub(crate) fn push(&mut self, entry: &Entry) -> Result<()> {
        let refused = |what: &str| Err(Error::corrupt(what).with("path", entry.show()));
        match &self.last {
            None if !entry.path.is_empty() || entry.node != Node::Directory => {
                return refused("a tree does not begin with its directory");
            }
            None => {}
            Some(last) if *last >= entry.path => return refused("the paths of a tree are not in order"),
            Some(_) => {
                if let Some(fault) = fault_of_path(&entry.path) {
                    return refused(fault);
                }
                if !self.directories.contains(parent(&entry.path)) {
                    return refused("a path is below what is no directory");
                }
            }
        }
        match &entry.node {
            Node::Directory => drop(self.directories.insert(entry.path.clone())),
            Node::HardLink(target) if !self.leaves.contains(target) => {
                return refused("a hard link is to what is no earlier file");
            }
            Node::HardLink(_) => {}
            Node::File { .. } | Node::Symlink(_) => drop(self.leaves.insert(entry.path.clone())),
        }
        self.last = Some(entry.path.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
