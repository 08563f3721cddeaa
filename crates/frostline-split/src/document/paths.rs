//! Numbers for the paths that documents have, and what the mapping says about each.
//!
//! A *node* is a key inside a parent node; a *path* is the dotted text. Two nodes can have one path
//! (`{"a.b":1}` and `{"a":{"b":1}}`), so they are numbered apart.

use hashbrown::HashTable;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::PathId;
use crate::mapping::{FieldType, Kind, Mapping, Mode, Revision, Templated};
use crate::ranges::RangeType;
use crate::{Error, Result};

/// A key inside a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(u32);

impl NodeId {
    /// The document itself.
    pub(super) const ROOT: NodeId = NodeId(0);
}

/// What the mapping says about a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    pub(super) declared: Option<FieldType>,
    pub(super) is_time: bool,
    /// The mapping is strict and does not have the path.
    pub(super) is_unknown: bool,
    /// No search is to find the value.
    pub(super) is_ignored: bool,
    /// The mapping has rules for the values of fields that it does not declare.
    pub(super) follows_rules: bool,
    pub(super) detects_dates: bool,
    pub(super) detects_numbers: bool,
    /// The field has ranges.
    pub(super) range: Option<RangeType>,
    /// It is below a field that has.
    pub(super) is_in_range: bool,
}

impl Plan {
    /// Whether the mapping leaves the value as it is.
    pub(super) fn is_free(&self) -> bool {
        self.declared.is_none()
            && !self.is_time
            && !self.is_unknown
            && !self.is_ignored
            && !self.follows_rules
    }

    fn of(path: &str, mapping: &Mapping) -> Plan {
        let field = mapping.field(path);
        let is_time = path == mapping.time_field();
        let declared = field.and_then(|field| field.declared);
        let is_inside_field = mapping.is_inside_field(path);
        let is_new = field.is_none() && !is_time && !is_inside_field;
        let mode = mapping.mode_of(path);
        Plan {
            declared,
            is_time,
            is_unknown: is_new && mode == Mode::Strict,
            is_ignored: mode == Mode::Disabled || is_new && mode == Mode::Ignoring,
            follows_rules: declared.is_none() && (is_inside_field || mapping.has_rules()),
            detects_dates: mapping.detects_dates(path),
            detects_numbers: mapping.detects_numbers(path),
            range: declared.and_then(RangeType::of),
            is_in_range: is_inside_field && mapping.is_inside_range(path),
        }
    }
}

#[derive(Debug)]
struct Node {
    parent: NodeId,
    key: Box<str>,
    path: PathId,
    /// The object in which the key was last seen.
    object: u64,
    /// The node that came after this one the last time.
    next: NodeId,
}

#[derive(Debug)]
struct Path {
    text: Box<str>,
    plan: Plan,
    /// The document in which the path was last seen.
    document: u64,
    /// What templates say of values, by the kinds that there were.
    templated: Option<Box<ByKind>>,
}

type ByKind = [Option<Option<Templated>>; Kind::COUNT];

/// All nodes and paths that were ever seen.
#[derive(Debug, Default)]
pub(super) struct Paths {
    nodes: Vec<Node>,
    paths: Vec<Path>,
    node_table: HashTable<u32>,
    path_table: HashTable<u32>,
    document: u64,
    object: u64,
    /// The node that the last key led to.
    last: usize,
    revision: Revision,
    text_bytes: usize,
}

impl Paths {
    pub(super) fn count(&self) -> usize {
        self.paths.len()
    }

    pub(super) fn path(&self, id: PathId) -> &str {
        self.paths.get(id.0 as usize).map_or("", |path| &path.text)
    }

    pub(super) fn path_of(&self, node: NodeId) -> &str {
        if node == NodeId::ROOT { "" } else { self.path(self.node(node).path) }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * (size_of::<Node>() + 8)
            + self.paths.capacity() * (size_of::<Path>() + 8)
            + self.text_bytes
    }

    pub(super) fn begin_document(&mut self, mapping: &Mapping) {
        if self.nodes.is_empty() {
            self.nodes.push(Node {
                parent: NodeId::ROOT,
                key: "".into(),
                path: PathId(0),
                object: 0,
                next: NodeId::ROOT,
            });
        }
        self.document += 1;
        self.last = 0;
        if !self.revision.is_same(mapping.revision()) {
            self.revision = mapping.revision().clone();
            for path in &mut self.paths {
                path.plan = Plan::of(&path.text, mapping);
                path.templated = None;
            }
        }
    }

    /// A number that no object had before.
    pub(super) fn begin_object(&mut self) -> u64 {
        self.object += 1;
        self.object
    }

    /// Whether the key is new to this object; the second time it is not.
    pub(super) fn is_first_in(&mut self, node: NodeId, object: u64) -> bool {
        let node = &mut self.nodes[node.0 as usize];
        std::mem::replace(&mut node.object, object) != object
    }

    /// Whether the path is new to this document; the second time it is not.
    pub(super) fn is_first_in_document(&mut self, node: NodeId) -> bool {
        let path = self.node(node).path.0 as usize;
        std::mem::replace(&mut self.paths[path].document, self.document) != self.document
    }

    pub(super) fn leaf(&self, node: NodeId) -> (PathId, Plan) {
        let id = self.node(node).path;
        (id, self.paths[id.0 as usize].plan)
    }

    /// What templates say of a value of this kind.
    pub(super) fn templated(&mut self, id: PathId, kind: Kind, mapping: &Mapping) -> Option<&Templated> {
        let path = self.paths.get_mut(id.0 as usize)?;
        let known = path.templated.get_or_insert_default().get_mut(kind as usize)?;
        known.get_or_insert_with(|| mapping.templated(&path.text, kind)).as_ref()
    }

    /// What they said of those that there were.
    pub(super) fn known_templated(&self, id: PathId, kind: Kind) -> Option<&Templated> {
        let known = self.paths.get(id.0 as usize)?.templated.as_deref()?;
        known.get(kind as usize)?.as_ref()?.as_ref()
    }

    /// The node of `key` inside `parent`. Documents of one kind have their keys in one order, so the
    /// key that followed the last time is tried before the table.
    pub(super) fn child(
        &mut self,
        parent: NodeId,
        key: &str,
        mapping: &Mapping,
        path_bytes_max: usize,
    ) -> Result<NodeId> {
        let guess = self.nodes[self.last].next;
        let guessed = self.node(guess);
        let found = if guessed.parent == parent && *guessed.key == *key && guess != NodeId::ROOT {
            guess
        } else {
            let found = self.find_or_add(parent, key, mapping, path_bytes_max)?;
            self.nodes[self.last].next = found;
            found
        };
        self.last = found.0 as usize;
        Ok(found)
    }

    fn find_or_add(
        &mut self,
        parent: NodeId,
        key: &str,
        mapping: &Mapping,
        path_bytes_max: usize,
    ) -> Result<NodeId> {
        let hash = xxh3_64_with_seed(key.as_bytes(), u64::from(parent.0));
        let nodes = &self.nodes;
        let is_it = |at: &u32| nodes[*at as usize].parent == parent && *nodes[*at as usize].key == *key;
        if let Some(at) = self.node_table.find(hash, is_it) {
            return Ok(NodeId(*at));
        }
        let path = self.path_for(parent, key, mapping, path_bytes_max)?;
        let id = number(self.nodes.len())?;
        self.text_bytes += key.len();
        self.nodes.push(Node { parent, key: key.into(), path, object: 0, next: NodeId::ROOT });
        let nodes = &self.nodes;
        self.node_table.insert_unique(hash, id, |at| {
            let node = &nodes[*at as usize];
            xxh3_64_with_seed(node.key.as_bytes(), u64::from(node.parent.0))
        });
        Ok(NodeId(id))
    }

    fn path_for(
        &mut self,
        parent: NodeId,
        key: &str,
        mapping: &Mapping,
        path_bytes_max: usize,
    ) -> Result<PathId> {
        let text = match parent {
            NodeId::ROOT => key.to_owned(),
            _ => format!("{}.{key}", self.path_of(parent)),
        };
        if text.len() > path_bytes_max {
            let shown: String = text.chars().take(super::SHOWN_MAX).collect();
            return Err(Error::invalid(format!(
                "field {shown:?}…: the path is longer than {path_bytes_max} bytes"
            )));
        }
        let hash = xxh3_64(text.as_bytes());
        let paths = &self.paths;
        if let Some(at) = self.path_table.find(hash, |at| *paths[*at as usize].text == *text) {
            return Ok(PathId(*at));
        }
        let id = number(self.paths.len())?;
        let plan = Plan::of(&text, mapping);
        self.text_bytes += text.len();
        self.paths.push(Path { text: text.into(), plan, document: 0, templated: None });
        let paths = &self.paths;
        self.path_table.insert_unique(hash, id, |at| xxh3_64(paths[*at as usize].text.as_bytes()));
        Ok(PathId(id))
    }

    fn node(&self, node: NodeId) -> &Node {
        // Node numbers are only made here, and nodes are never removed.
        &self.nodes[node.0 as usize]
    }
}

fn number(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::exhausted("documents had more than four billion paths"))
}
