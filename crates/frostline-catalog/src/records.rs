//! What the repository log keeps beside indices: names that stand for indices, and records of whoever uses the catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use frostline_base::{Error, IndexName, Result};

use crate::expression::{self, CLOSED_INDEX, Names, Resolve};
use crate::names::{Alias, DataStream};
use crate::repository_log::{ALIAS, DATA_STREAM, LogEntry, Record, Registry, is_own_kind};
use crate::snapshot::{Mounted, Snapshot};

/// The kind of records that belong to the index of their name, and are gone with it.
pub const INDEX_SETTINGS: &str = "index_settings";

/// The fact of a `Conflict` that says which name is taken already.
pub const TAKEN: &str = "taken";
/// The fact of a `Conflict` that names an alias whose name something else has.
pub const ALIAS_TAKEN: &str = "taken_alias";

/// The names and records of a repository at one version of its log.
#[derive(Clone, Debug)]
pub struct Records {
    registry: Arc<Registry>,
}

/// A record that is set, or removed where there is no value.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordChange {
    /// An alias.
    Alias(IndexName, Option<Alias>),
    /// A data stream.
    DataStream(IndexName, Option<DataStream>),
    /// A record of a kind that the catalog keeps without reading it.
    Other {
        /// Its kind.
        kind: &'static str,
        /// Its name, which no other record of its kind has.
        name: String,
        /// What is kept.
        value: Option<Value>,
    },
}

impl Records {
    pub(crate) fn of(registry: Arc<Registry>) -> Records {
        Records { registry }
    }

    /// The indices that an expression names at a time, were there only those that `sees` lets see, each by its own name
    /// or by one that stands for it: neither the answer nor an error tells what else there is. Errors are those of
    /// [`crate::Catalog::resolve`]; an alias with a filter is `Invalid`, and no wildcard names it.
    pub fn resolve(
        &self,
        expression: &str,
        now_us: i64,
        how: Resolve,
        sees: impl Fn(&IndexName) -> bool,
    ) -> Result<Vec<IndexName>> {
        let filtered = |name: &&IndexName| {
            sees(name) && self.aliases().get(*name).is_some_and(|alias| alias.has_filter())
        };
        if let Some(alias) = expression::spelled_out(expression, now_us)?.iter().find(filtered) {
            return Err(Error::invalid(format!(
                "the alias {alias} has a filter, which this request cannot apply: name the index"
            )));
        }
        let mut standing_for = self.registry.standing_for();
        standing_for.retain(|name, _| sees(name));
        let mut indices: BTreeSet<&IndexName> = self.indices().filter(|name| sees(name)).collect();
        indices.extend(standing_for.values().flatten());
        let hidden = indices.iter().copied().filter(|index| self.is_hidden(index));
        let hidden_aliases = self.aliases().iter().filter(|(_, alias)| alias.hidden).map(|(name, _)| name);
        let streams = self.data_streams().iter();
        let hidden_streams = streams.filter(|(_, stream)| stream.hidden).map(|(name, _)| name);
        let names = Names {
            closed: indices.iter().copied().filter(|index| self.is_closed(index)).collect(),
            hidden: hidden.chain(hidden_aliases).chain(hidden_streams).collect(),
            indices,
            standing_for,
        };
        let named = expression::resolve(expression, now_us, &names, how);
        named.map_err(|e| match e.fact(CLOSED_INDEX).and_then(|name| self.table_id(&name.parse().ok()?)) {
            Some(table) => e.with("table", table),
            None => e,
        })
    }

    /// A number that grows with each change of names and records.
    pub fn version(&self) -> u64 {
        self.registry.version.unwrap_or_default()
    }

    /// Whether there is an index of that name.
    pub fn has_index(&self, name: &IndexName) -> bool {
        self.registry.indices.contains_key(name)
    }

    /// The identity of an index's table, if it is known.
    pub fn table_id(&self, name: &IndexName) -> Option<&str> {
        self.registry.indices.get(name)?.table.as_deref()
    }

    /// When an index was made, in milliseconds since 1970 UTC.
    pub fn created_ms(&self, name: &IndexName) -> Option<i64> {
        Some(self.registry.indices.get(name)?.created_ms)
    }

    /// When an index was restored from a snapshot, in milliseconds since 1970 UTC, if it was.
    pub fn restored_ms(&self, name: &IndexName) -> Option<i64> {
        self.registry.indices.get(name)?.restored_ms
    }

    /// What an index is mounted from, if it is.
    pub fn mounted(&self, name: &IndexName) -> Option<&Mounted> {
        self.registry.indices.get(name)?.mounted.as_ref()
    }

    /// The snapshots, by name.
    pub fn snapshots(&self) -> &BTreeMap<String, Arc<Snapshot>> {
        &self.registry.snapshots
    }

    /// The names of the indices, sorted.
    pub fn indices(&self) -> impl Iterator<Item = &IndexName> {
        self.registry.indices.keys()
    }

    /// The aliases, by name.
    pub fn aliases(&self) -> &BTreeMap<IndexName, Arc<Alias>> {
        &self.registry.aliases
    }

    /// The data streams, by name.
    pub fn data_streams(&self) -> &BTreeMap<IndexName, Arc<DataStream>> {
        &self.registry.data_streams
    }

    /// The data streams that an expression names, by their own names or with wildcards. `Invalid` if it is no expression.
    pub fn streams_named(&self, expression: &str, now_us: i64) -> Result<Vec<&IndexName>> {
        expression::named(expression, now_us, self.data_streams().keys())
    }

    /// The data stream that an index belongs to.
    pub fn stream_of(&self, index: &IndexName) -> Option<(&IndexName, &DataStream)> {
        let mut streams = self.data_streams().iter();
        let (name, stream) = streams.find(|(_, stream)| stream.indices.contains(index))?;
        Some((name, stream.as_ref()))
    }

    /// The records of another kind, sorted by name.
    pub fn others(&self, kind: &str) -> impl Iterator<Item = (&str, &Value)> {
        self.registry.others_of(kind)
    }

    /// A record of another kind.
    pub fn other(&self, kind: &str, name: &str) -> Option<&Value> {
        self.registry.other(kind, name)
    }
}

/// Adds changes to an entry that is to follow `registry`, one after the other: a name that one of them removes is free for the
/// next. `Conflict` where a name would mean two things; with the fact [`ALIAS_TAKEN`] where that is the name of an alias.
pub(crate) fn add(entry: &mut LogEntry, registry: &Registry, changes: Vec<RecordChange>) -> Result<()> {
    let made: BTreeSet<String> = entry.puts.iter().map(|record| record.name.clone()).collect();
    let mut aliases: BTreeSet<IndexName> = registry.aliases.keys().cloned().collect();
    let mut streams: BTreeSet<IndexName> = registry.data_streams.keys().cloned().collect();
    let becomes = |names: &mut BTreeSet<IndexName>, name: &IndexName, is_there: bool| match is_there {
        true => names.insert(name.clone()),
        false => names.remove(name),
    };
    let is_index = |name: &IndexName| registry.indices.contains_key(name) || made.contains(name.as_str());
    for change in changes {
        let (kind, name, record) = match change {
            RecordChange::Alias(name, alias) => {
                if alias.is_some() && (is_index(&name) || streams.contains(&name)) {
                    let what = format!("the alias {name} would have the name of an index or a data stream");
                    return Err(Error::conflict(what).with(ALIAS_TAKEN, name));
                }
                becomes(&mut aliases, &name, alias.is_some());
                let record = alias.map(|alias| Record::of(ALIAS, name.as_str(), &alias)).transpose()?;
                (ALIAS, name.into(), record)
            }
            RecordChange::DataStream(name, stream) => {
                if stream.is_some() && (is_index(&name) || aliases.contains(&name)) {
                    return Err(Error::conflict(format!("there is already an index or an alias {name}")));
                }
                becomes(&mut streams, &name, stream.is_some());
                let record =
                    stream.map(|stream| Record::of(DATA_STREAM, name.as_str(), &stream)).transpose()?;
                (DATA_STREAM, name.into(), record)
            }
            RecordChange::Other { kind, name, value } => {
                if is_own_kind(kind) {
                    return Err(Error::internal(format!(
                        "the catalog itself writes records of the kind {kind}"
                    )));
                }
                let record = value.map(|value| Record { kind: kind.to_owned(), name: name.clone(), value });
                (kind, name, record)
            }
        };
        match record {
            Some(record) => entry.puts.push(record),
            None => entry.removes.push((kind.to_owned(), name)),
        }
    }
    Ok(())
}

/// The changes that take a deleted index out of the names that stand for it, and its settings with it.
pub(crate) fn without(registry: &Registry, index: &IndexName) -> Vec<RecordChange> {
    let aliases = registry.aliases.iter().filter(|(_, alias)| alias.indices.contains(index));
    let aliases = aliases.map(|(name, alias)| {
        let mut left = Alias::clone(alias);
        left.remove(index);
        RecordChange::Alias(name.clone(), Some(left).filter(|left| !left.indices.is_empty()))
    });
    let streams = registry.data_streams.iter().filter(|(_, stream)| stream.indices.contains(index));
    let streams = streams.map(|(name, stream)| {
        let mut left = DataStream::clone(stream);
        left.indices.retain(|kept| kept != index);
        RecordChange::DataStream(name.clone(), Some(left).filter(|left| !left.indices.is_empty()))
    });
    let settings = registry.other(INDEX_SETTINGS, index.as_str()).map(|_| RecordChange::Other {
        kind: INDEX_SETTINGS,
        name: index.to_string(),
        value: None,
    });
    aliases.chain(streams).chain(settings).collect()
}

#[cfg(test)]
mod tests;
