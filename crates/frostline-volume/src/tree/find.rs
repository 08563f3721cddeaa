//! Finding files and their chunks by name.

use std::collections::HashMap;

use super::{Node, Tree, chunk_numbers};

/// Finds files of a tree, and chunks of files. What is not there is not found.
#[derive(Debug)]
pub(crate) struct Finder<'a> {
    tree: &'a Tree,
    /// Where the chunks of a file are in it, of files that were asked for.
    numbers: HashMap<usize, Vec<u64>>,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(tree: &'a Tree) -> Finder<'a> {
        Finder { tree, numbers: HashMap::new() }
    }

    /// The file of a path, or the one that this is another name of.
    pub(crate) fn file(&self, path: &[u8]) -> Option<usize> {
        let find = |path: &[u8]| {
            let found = self.tree.entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)).ok()?;
            Some((found, &self.tree.entries[found].node))
        };
        match find(path)? {
            (found, Node::File { .. }) => Some(found),
            (_, Node::HardLink(first)) => {
                find(first).filter(|(_, node)| matches!(node, Node::File { .. })).map(|(found, _)| found)
            }
            _ => None,
        }
    }

    /// The chunk of this number in a file, among those of the tree.
    pub(crate) fn chunk(&mut self, file: usize, number: u64) -> Option<usize> {
        let Node::File { extents, chunks, .. } = &self.tree.entries.get(file)?.node else { return None };
        let numbers = self.numbers.entry(file).or_insert_with(|| chunk_numbers(extents).collect());
        let at = numbers.binary_search(&number).ok()?;
        Some(chunks.start + at).filter(|chunk| chunks.contains(chunk))
    }
}
