//! Names that stand for indices.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use frostline_base::IndexName;

/// Another name for indices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// The indices.
    pub indices: BTreeSet<IndexName>,
    /// The one of them that takes documents which are sent to the alias; the only one does without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<IndexName>,
    /// Queries, by the indices of which the alias means only the documents that match. The catalog does not read them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filters: BTreeMap<IndexName, Value>,
    /// Whether wildcards leave it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// What clients said of the routing to shards, by index. There is one shard, and so this is only shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub routing: BTreeMap<IndexName, Routing>,
    /// Members that a newer version wrote.
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Which shards a client chose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routing {
    /// For documents that are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// For searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
}

/// A name for indices that follow one another, of which the last takes documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataStream {
    /// The indices, oldest first.
    pub indices: Vec<IndexName>,
    /// How many indices there have been.
    pub generation: u64,
    /// The template that it was made from.
    pub template: String,
    /// How long its documents are kept; none where nothing is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// Whether wildcards leave it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Members that a newer version wrote.
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// How long the documents of a data stream are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// Whether it has an effect.
    pub enabled: bool,
    /// None for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    /// Members that a newer version wrote.
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Lifecycle {
    /// One that keeps documents so long; without a time, for ever.
    pub fn new(enabled: bool, retention_ms: Option<u64>) -> Lifecycle {
        Lifecycle { enabled, retention_ms, others: Map::new() }
    }
}

impl Alias {
    /// An alias of these indices.
    pub fn new(indices: BTreeSet<IndexName>, write: Option<IndexName>) -> Alias {
        Alias { indices, write, ..Alias::default() }
    }

    /// Takes an index out.
    pub fn remove(&mut self, index: &IndexName) {
        self.indices.remove(index);
        self.filters.remove(index);
        self.routing.remove(index);
        self.write.take_if(|write| write == index);
    }

    /// Whether it means only some of the documents of an index.
    pub fn has_filter(&self) -> bool {
        !self.filters.is_empty()
    }

    /// The index that takes documents, if it is clear which one does.
    pub fn write_index(&self) -> Option<&IndexName> {
        let mut indices = self.indices.iter();
        self.write.as_ref().or_else(|| indices.next().filter(|_| indices.next().is_none()))
    }
}

impl DataStream {
    /// A stream with its first index.
    pub fn new(first: IndexName, template: String) -> DataStream {
        DataStream { indices: vec![first], generation: 1, template, ..DataStream::default() }
    }

    /// The same of those of its indices that have a name by `named`, which is theirs then; none where none has.
    pub(crate) fn with_indices(&self, named: impl Fn(&IndexName) -> Option<IndexName>) -> Option<DataStream> {
        let indices: Vec<IndexName> = self.indices.iter().filter_map(named).collect();
        (!indices.is_empty()).then(|| DataStream { indices, ..self.clone() })
    }
}
