//! What differs between two snapshots.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use frostline_base::Result;

use crate::log::Snapshot;
use crate::tree::{Entry, Node, Tree};
use crate::volumes::Volumes;

/// A name that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The path.
    pub path: String,
    /// How.
    pub change: Change,
    /// Bytes of the chunks that the older one does not have at this path.
    pub bytes: u64,
}

/// How a name differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Only the newer one has it.
    Added,
    /// Only the older one has it.
    Removed,
    /// Its contents differ, or it is of another kind.
    Modified,
    /// Its owner, mode, time or attributes differ.
    Metadata,
}

impl Volumes {
    /// What differs between an older and a newer snapshot, in the order of the paths. No file contents are read.
    pub async fn diff(&self, older: &Snapshot, newer: &Snapshot) -> Result<Vec<Difference>> {
        let (older, newer) = futures::future::try_join(self.tree(older), self.tree(newer)).await?;
        Ok(diff(&older, &newer))
    }
}

fn diff(older: &Tree, newer: &Tree) -> Vec<Difference> {
    let before: HashMap<&[u8], &Entry> =
        older.entries.iter().map(|entry| (entry.path.as_slice(), entry)).collect();
    let after: HashSet<&[u8]> = newer.entries.iter().map(|entry| entry.path.as_slice()).collect();
    let removed = older.entries.iter().filter(|entry| !after.contains(entry.path.as_slice()));
    let removed = removed.map(|entry| Difference { path: entry.show(), change: Change::Removed, bytes: 0 });
    let others = newer.entries.iter().filter_map(|entry| {
        let before = before.get(entry.path.as_slice()).copied();
        let change = match before {
            None => Change::Added,
            Some(before) if !is_same_node(older, before, newer, entry) => Change::Modified,
            Some(before) if !is_same_meta(before, entry) => Change::Metadata,
            Some(_) => return None,
        };
        Some(Difference { path: entry.show(), change, bytes: new_bytes(older, before, newer, entry) })
    });
    let mut all: Vec<Difference> = removed.chain(others).collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

fn is_same_node(older: &Tree, before: &Entry, newer: &Tree, after: &Entry) -> bool {
    match (&before.node, &after.node) {
        (
            Node::File { bytes: a, extents: of_a, chunks: in_a },
            Node::File { bytes: b, extents: of_b, chunks: in_b },
        ) => {
            let digests = |tree: &Tree, chunks: &std::ops::Range<usize>| {
                tree.chunks[chunks.clone()].iter().map(|chunk| chunk.digest).collect::<Vec<_>>()
            };
            a == b && of_a == of_b && digests(older, in_a) == digests(newer, in_b)
        }
        (a, b) => a == b,
    }
}

fn is_same_meta(before: &Entry, after: &Entry) -> bool {
    let of = |entry: &Entry| {
        let meta = &entry.meta;
        (meta.mode, meta.uid, meta.gid, meta.modified, meta.attributes.clone())
    };
    of(before) == of(after)
}

fn new_bytes(older: &Tree, before: Option<&Entry>, newer: &Tree, after: &Entry) -> u64 {
    let Node::File { chunks, .. } = &after.node else { return 0 };
    let known: HashSet<_> = match before.map(|entry| &entry.node) {
        Some(Node::File { chunks, .. }) => {
            older.chunks[chunks.clone()].iter().map(|chunk| chunk.digest).collect()
        }
        _ => HashSet::new(),
    };
    let new = newer.chunks[chunks.clone()].iter().filter(|chunk| !known.contains(&chunk.digest));
    new.map(|chunk| u64::from(chunk.bytes)).sum()
}

#[cfg(test)]
mod tests;
