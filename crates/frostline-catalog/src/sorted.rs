//! Values sorted by key, which versions share: a change copies the chunks that it touches, and the list of chunks.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Values in a chunk.
const CHUNK_MAX: usize = 512;
/// A chunk that was changed and has fewer takes in its neighbour.
const CHUNK_MIN: usize = CHUNK_MAX / 4;

type Chunk<K, V> = Arc<Vec<(K, V)>>;

/// A sorted map that never changes. Cloning it is free, [`Sorted::after`] costs what it changes.
#[derive(Debug)]
pub(crate) struct Sorted<K, V>(Arc<Inner<K, V>>);

#[derive(Debug)]
struct Inner<K, V> {
    /// None is empty; the keys of each are above those of the one before.
    chunks: Vec<Chunk<K, V>>,
    len: usize,
    /// The values in order, built on first use: a writer that only commits does not need them.
    row: OnceLock<Vec<V>>,
}

impl<K, V> Clone for Sorted<K, V> {
    fn clone(&self) -> Self {
        Sorted(Arc::clone(&self.0))
    }
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Sorted::of(Vec::new(), 0)
    }
}

impl<K, V> Sorted<K, V> {
    fn of(chunks: Vec<Chunk<K, V>>, len: usize) -> Self {
        Sorted(Arc::new(Inner { chunks, len, row: OnceLock::new() }))
    }

    fn pairs(&self) -> impl Iterator<Item = &(K, V)> {
        self.0.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.pairs().map(|(key, value)| (key, value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.pairs().map(|(_, value)| value)
    }
}

impl<K: Ord + Clone, V: Clone> Sorted<K, V> {
    /// The values in a row. Costs all of them, once.
    pub(crate) fn row(&self) -> &[V] {
        self.0.row.get_or_init(|| self.values().cloned().collect())
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let after =
            self.0.chunks.partition_point(|chunk| chunk.first().is_some_and(|(k, _)| k.borrow() <= key));
        let chunk = self.0.chunks.get(after.checked_sub(1)?)?;
        let at = chunk.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        chunk.get(at).map(|(_, value)| value)
    }

    /// The same with these values put, or taken away.
    pub(crate) fn after(&self, changes: BTreeMap<K, Option<V>>) -> Self {
        if changes.is_empty() {
            return self.clone();
        }
        let mut changes = changes.into_iter().peekable();
        let mut next =
            Filling { chunks: Vec::with_capacity(self.0.chunks.len() + 1), last: Vec::new(), len: 0 };
        for (at, chunk) in self.0.chunks.iter().enumerate() {
            let end = self.0.chunks.get(at + 1).and_then(|next| next.first()).map(|(key, _)| key);
            let is_inside = |key: &K| end.is_none_or(|end| key < end);
            let is_touched = changes.peek().is_some_and(|(key, _)| is_inside(key));
            if !is_touched && (next.last.is_empty() || next.last.len() >= CHUNK_MIN) {
                next.share(chunk);
                continue;
            }
            for (key, value) in chunk.iter() {
                while let Some((key, value)) = changes.next_if(|(changed, _)| changed < key) {
                    next.last.extend(value.map(|value| (key, value)));
                }
                match changes.next_if(|(changed, _)| changed == key) {
                    Some((key, value)) => next.last.extend(value.map(|value| (key, value))),
                    None => next.last.push((key.clone(), value.clone())),
                }
            }
            while let Some((key, value)) = changes.next_if(|(changed, _)| is_inside(changed)) {
                next.last.extend(value.map(|value| (key, value)));
            }
        }
        next.last.extend(changes.filter_map(|(key, value)| Some((key, value?))));
        next.flush();
        Sorted::of(next.chunks, next.len)
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for Sorted<K, V> {
    /// Of several values with one key the last stays.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(values: I) -> Self {
        let mut values: Vec<(K, V)> = values.into_iter().collect();
        values.reverse();
        values.sort_by(|(a, _), (b, _)| a.cmp(b));
        values.dedup_by(|(next, _), (first, _)| next == first);
        let mut filling = Filling { chunks: Vec::new(), last: values, len: 0 };
        filling.flush();
        Sorted::of(filling.chunks, filling.len)
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for Sorted<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.pairs().eq(other.pairs())
    }
}

/// Chunks on their way into the next version.
struct Filling<K, V> {
    chunks: Vec<Chunk<K, V>>,
    last: Vec<(K, V)>,
    len: usize,
}

impl<K: Clone, V: Clone> Filling<K, V> {
    fn share(&mut self, chunk: &Chunk<K, V>) {
        self.flush();
        self.len += chunk.len();
        self.chunks.push(Arc::clone(chunk));
    }

    fn flush(&mut self) {
        self.len += self.last.len();
        let pieces = self.last.len().div_ceil(CHUNK_MAX).max(1);
        let each = self.last.len().div_ceil(pieces);
        let mut last = std::mem::take(&mut self.last).into_iter();
        while last.len() > 0 {
            self.chunks.push(Arc::new(last.by_ref().take(each).collect()));
        }
    }
}

#[cfg(test)]
mod tests;
