//! Which entries of a snapshot are restored.

use std::collections::{HashMap, HashSet};

use frostline_base::{Error, Result};
use glob::Pattern;

use super::tablespace::find;
use crate::digest::Digest;
use crate::patterns::matches;
use crate::tree::{Entry, Node, Tree, parent, show_path};

/// The entries that one of some patterns matches, with all that is below them, but for those of other patterns.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// All entries are meant if there is none.
    pub include: Vec<Pattern>,
    /// What is left out.
    pub exclude: Vec<Pattern>,
}

impl Selection {
    /// What distinguishes it from others; none if it is all.
    pub(super) fn name(&self) -> Option<Digest> {
        let text = |patterns: &[Pattern]| patterns.iter().map(Pattern::as_str).collect::<Vec<_>>().join("\n");
        let is_all = self.include.is_empty() && self.exclude.is_empty();
        (!is_all).then(|| Digest::of(format!("{}\0{}", text(&self.include), text(&self.exclude)).as_bytes()))
    }

    /// Leaves in a tree only what is selected, and the directories above. `Invalid` if a pattern of `include` matches
    /// nothing, or nothing is left.
    pub(super) fn apply(&self, tree: &mut Tree) -> Result<()> {
        if self.name().is_none() {
            return Ok(());
        }
        let selected = self.selected(&tree.entries)?;
        let mut kept: HashSet<Vec<u8>> = HashSet::from([Vec::new()]);
        for path in selected {
            let mut path = path.as_slice();
            while kept.insert(path.to_vec()) {
                path = parent(path);
            }
        }
        // The first name that is kept of a file takes the place of one that is not.
        let mut first: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        let mut entries = Vec::with_capacity(kept.len());
        for entry in tree.entries.iter().filter(|entry| kept.contains(&entry.path)) {
            let entry = match &entry.node {
                Node::HardLink(target) if !kept.contains(target) => match first.get(target) {
                    Some(other) => Entry { node: Node::HardLink(other.clone()), ..entry.clone() },
                    None => {
                        let target = find(tree, target)
                            .ok_or_else(|| Error::corrupt(format!("{} is lost", show_path(target))))?;
                        first.insert(target.path.clone(), entry.path.clone());
                        Entry { path: entry.path.clone(), ..target.clone() }
                    }
                },
                _ => entry.clone(),
            };
            entries.push(entry);
        }
        tree.entries = entries;
        Ok(())
    }

    /// The paths that are selected.
    fn selected<'a>(&self, entries: &'a [Entry]) -> Result<Vec<&'a Vec<u8>>> {
        let mut unused: Vec<&Pattern> = self.include.iter().collect();
        let (mut included, mut excluded) = (HashSet::new(), HashSet::new());
        let mut selected = Vec::new();
        for Entry { path, node, .. } in entries.iter().filter(|entry| !entry.path.is_empty()) {
            unused.retain(|pattern| !matches(pattern, path));
            let above = parent(path);
            let is_of = |patterns: &[Pattern]| patterns.iter().any(|pattern| matches(pattern, path));
            let is_included = self.include.is_empty() || included.contains(above) || is_of(&self.include);
            let is_excluded = excluded.contains(above) || is_of(&self.exclude);
            if *node == Node::Directory {
                included.extend(is_included.then_some(path.as_slice()));
                excluded.extend(is_excluded.then_some(path.as_slice()));
            }
            selected.extend((is_included && !is_excluded).then_some(path));
        }
        if let Some(unused) = unused.first() {
            return Err(Error::not_found(format!("--include {:?} matches nothing", unused.as_str())));
        }
        if selected.is_empty() {
            return Err(Error::not_found("nothing is left to restore: --exclude leaves out all of it"));
        }
        Ok(selected)
    }
}
