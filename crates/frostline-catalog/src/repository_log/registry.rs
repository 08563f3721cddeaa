//! The state of the repository log at one version, and as a checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use frostline_base::{Error, IndexName, Result};

use super::entry::{self, FORMAT, Header, Line, LogEntry, Record};
use crate::names::{Alias, DataStream};
use crate::snapshot::{Kept, Mounted, Snapshot, SnapshotIndex};

pub(super) const INDEX: &str = "index";
const RETIRED: &str = "retired";
const KEY: &str = "key";
/// Apart from indices: who does not know mounts would take the folder for the index's own.
const MOUNTED: &str = "mounted_index";
const SNAPSHOT: &str = "snapshot";
pub(crate) const ALIAS: &str = "alias";
pub(crate) const DATA_STREAM: &str = "data_stream";
/// The name of the key of term hashes.
const TERMS: &str = "terms";

/// An index, by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexRecord {
    /// The table's identity; `None` if the table could not be read when it was adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) table: Option<String>,
    /// The folder below the repository's root that holds the table.
    pub(crate) folder: String,
    pub(crate) created_ms: i64,
    /// Of an index that was restored from a snapshot, when that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restored_ms: Option<i64>,
    /// Of an index that is mounted from a snapshot, whose record has a kind of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mounted: Option<Mounted>,
    /// Members that a newer version wrote.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

/// A deleted index, by its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetiredRecord {
    pub(crate) index: IndexName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) table: Option<String>,
    pub(crate) deleted_ms: i64,
    /// Whether its objects were removed, as far as they existed when it was deleted.
    #[serde(default)]
    pub(crate) purged: bool,
    /// Members that a newer version wrote.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

impl IndexRecord {
    /// What most indices' records say, for one that this process has not seen.
    pub(crate) fn unseen(name: &IndexName) -> IndexRecord {
        IndexRecord::new(None, name.as_str(), 0)
    }

    /// That of a new table.
    pub(crate) fn new(table: Option<String>, folder: &str, created_ms: i64) -> IndexRecord {
        let folder = folder.to_owned();
        IndexRecord { table, folder, created_ms, restored_ms: None, mounted: None, others: Map::new() }
    }

    /// Whether its table is in that folder, rather than a mounted version of it.
    pub(crate) fn is_table_in(&self, folder: &Path) -> bool {
        self.mounted.is_none() && self.folder == folder.as_ref()
    }
}

impl Record {
    pub(crate) fn index(name: &IndexName, index: &IndexRecord) -> Result<Record> {
        Record::of(if index.mounted.is_some() { MOUNTED } else { INDEX }, name.as_str(), index)
    }

    pub(crate) fn snapshot(name: &str, snapshot: &Snapshot) -> Result<Record> {
        Record::of(SNAPSHOT, name, snapshot)
    }

    pub(crate) fn retired(folder: &str, retired: &RetiredRecord) -> Result<Record> {
        Record::of(RETIRED, folder, retired)
    }
}

/// A secret of the repository, as 32 hexadecimal digits.
#[derive(Debug, Serialize, Deserialize)]
struct KeyRecord {
    key: String,
}

impl Record {
    pub(crate) fn term_key(key: [u8; 16]) -> Result<Record> {
        Record::of(KEY, TERMS, &KeyRecord { key: format!("{:032x}", u128::from_be_bytes(key)) })
    }
}

/// Whether the catalog itself reads and writes records of this kind.
pub(crate) fn is_own_kind(kind: &str) -> bool {
    [INDEX, RETIRED, KEY, ALIAS, DATA_STREAM, MOUNTED, SNAPSHOT].contains(&kind)
}

/// The key of an index's record, to remove it.
pub(crate) fn index_key(name: &IndexName) -> (String, String) {
    (INDEX.to_owned(), name.to_string())
}

/// The key of a mounted index's record.
pub(crate) fn mounted_key(name: &IndexName) -> (String, String) {
    (MOUNTED.to_owned(), name.to_string())
}

/// The key of a snapshot's record.
pub(crate) fn snapshot_key(name: &str) -> (String, String) {
    (SNAPSHOT.to_owned(), name.to_owned())
}

/// The key of the record of a deleted index's folder.
pub(crate) fn retired_key(folder: &str) -> (String, String) {
    (RETIRED.to_owned(), folder.to_owned())
}

/// The state of the log at one version.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Registry {
    /// The number of the last entry.
    pub(crate) version: Option<u64>,
    pub(crate) indices: BTreeMap<IndexName, Arc<IndexRecord>>,
    /// By folder.
    pub(crate) retired: BTreeMap<String, Arc<RetiredRecord>>,
    pub(crate) aliases: BTreeMap<IndexName, Arc<Alias>>,
    pub(crate) data_streams: BTreeMap<IndexName, Arc<DataStream>>,
    pub(crate) snapshots: BTreeMap<String, Arc<Snapshot>>,
    /// Records of other kinds, known here or not, by kind and name.
    others: BTreeMap<(String, String), Arc<Value>>,
}

impl Registry {
    /// Applies an entry, which must be the next one.
    pub(crate) fn apply(&mut self, entry: &LogEntry) -> Result<()> {
        for (kind, name) in &entry.removes {
            match kind.as_str() {
                INDEX | MOUNTED => self.indices.retain(|index, _| index.as_str() != name),
                SNAPSHOT => self.snapshots.retain(|snapshot, _| snapshot != name),
                RETIRED => self.retired.retain(|folder, _| folder != name),
                ALIAS => self.aliases.retain(|alias, _| alias.as_str() != name),
                DATA_STREAM => self.data_streams.retain(|stream, _| stream.as_str() != name),
                _ => self.others.retain(|(of_kind, of_name), _| (of_kind, of_name) != (kind, name)),
            }
        }
        for record in &entry.puts {
            self.put(record).map_err(|e| e.with("object", &entry.key))?;
        }
        self.version = Some(entry.version);
        Ok(())
    }

    fn put(&mut self, record: &Record) -> Result<()> {
        let corrupt = || {
            Error::corrupt("a record of the repository log cannot be read")
                .with("kind", &record.kind)
                .with("name", &record.name)
        };
        let read = |e: serde_json::Error| corrupt().with_source(e);
        let name = || record.name.parse().map_err(|e: Error| corrupt().with_source(e));
        match record.kind.as_str() {
            INDEX | MOUNTED => {
                let index = IndexRecord::deserialize(&record.value).map_err(read)?;
                let is_whole = index.mounted.is_some() == (record.kind == MOUNTED);
                is_whole.then_some(()).ok_or_else(corrupt)?;
                index_of_folder(&index.folder).ok_or_else(corrupt)?;
                self.indices.insert(name()?, Arc::new(index));
            }
            SNAPSHOT => {
                let snapshot = Snapshot::deserialize(&record.value).map_err(read)?;
                let is_folder = |index: &SnapshotIndex| index_of_folder(&index.folder).is_some();
                snapshot.indices.values().all(is_folder).then_some(()).ok_or_else(corrupt)?;
                self.snapshots.insert(record.name.clone(), Arc::new(snapshot));
            }
            ALIAS => {
                let alias = Alias::deserialize(&record.value).map_err(read)?;
                self.aliases.insert(name()?, Arc::new(alias));
            }
            DATA_STREAM => {
                let stream = DataStream::deserialize(&record.value).map_err(read)?;
                self.data_streams.insert(name()?, Arc::new(stream));
            }
            RETIRED => {
                index_of_folder(&record.name).ok_or_else(corrupt)?;
                let retired = RetiredRecord::deserialize(&record.value).map_err(read)?;
                self.retired.insert(record.name.clone(), Arc::new(retired));
            }
            _ => {
                let value = Arc::new(record.value.clone());
                self.others.insert((record.kind.clone(), record.name.clone()), value);
            }
        }
        Ok(())
    }

    /// Everything, as records.
    pub(crate) fn records(&self) -> Result<Vec<Record>> {
        let indices = self.indices.iter().map(|(name, index)| Record::index(name, index));
        let retired = self.retired.iter().map(|(name, folder)| Record::retired(name, folder));
        let aliases =
            self.aliases.iter().map(|(name, alias)| Record::of(ALIAS, name.as_str(), alias.as_ref()));
        let streams = self.data_streams.iter();
        let streams = streams.map(|(name, stream)| Record::of(DATA_STREAM, name.as_str(), stream.as_ref()));
        let snapshots = self.snapshots.iter().map(|(name, snapshot)| Record::snapshot(name, snapshot));
        let others = self.others.iter().map(|((kind, name), value)| Record::of(kind, name, value.as_ref()));
        indices.chain(retired).chain(aliases).chain(streams).chain(snapshots).chain(others).collect()
    }

    /// The versions of the table in this folder that snapshots and mounted indices keep.
    pub(crate) fn kept(&self, folder: &str) -> impl Iterator<Item = Kept> {
        let snapshots = self.snapshots.values().flat_map(|snapshot| snapshot.indices.values());
        let of_snapshots = snapshots.filter(move |index| index.folder == folder).map(SnapshotIndex::kept);
        let mounted = self.indices.values().filter(move |index| index.folder == folder);
        of_snapshots.chain(mounted.filter_map(|index| Some(index.mounted.as_ref()?.kept())))
    }

    /// The records of a kind that is not read here, by name.
    pub(crate) fn others_of(&self, kind: &str) -> impl Iterator<Item = (&str, &Value)> {
        let from = (kind.to_owned(), String::new());
        let of_kind = self.others.range(from..).take_while(move |((of_kind, _), _)| *of_kind == kind);
        of_kind.map(|((_, name), value)| (name.as_str(), value.as_ref()))
    }

    /// A record of another kind.
    pub(crate) fn other(&self, kind: &str, name: &str) -> Option<&Value> {
        self.others.get(&(kind.to_owned(), name.to_owned())).map(|value| value.as_ref())
    }

    /// The indices that each alias without filters and each data stream stands for, as far as they exist.
    pub(crate) fn standing_for(&self) -> BTreeMap<&IndexName, Vec<&IndexName>> {
        let aliases = self.aliases.iter().filter(|(_, alias)| !alias.has_filter());
        let aliases = aliases.map(|(name, alias)| (name, alias.indices.iter().collect()));
        let streams = self.data_streams.iter().map(|(name, stream)| (name, stream.indices.iter().collect()));
        let all = aliases.chain(streams).map(|(name, mut indices): (_, Vec<&IndexName>)| {
            indices.retain(|index| self.indices.contains_key(*index));
            (name, indices)
        });
        all.collect()
    }

    /// Whether an index, an alias or a data stream has that name.
    pub(crate) fn is_taken(&self, name: &IndexName) -> bool {
        self.indices.contains_key(name) || self.stands_for_others(name)
    }

    /// Whether the name is an alias or a data stream.
    pub(crate) fn stands_for_others(&self, name: &IndexName) -> bool {
        self.aliases.contains_key(name) || self.data_streams.contains_key(name)
    }

    /// Whether an index has or had this folder.
    pub(crate) fn has_had(&self, folder: &str) -> bool {
        self.retired.contains_key(folder) || self.indices.values().any(|index| index.folder == folder)
    }

    /// The key of the repository's term hashes, once a writer has drawn it.
    pub(crate) fn term_key(&self) -> Result<Option<[u8; 16]>> {
        let Some(value) = self.others.get(&(KEY.to_owned(), TERMS.to_owned())) else { return Ok(None) };
        let corrupt = || Error::corrupt("the key of terms in the repository log cannot be read");
        let record = KeyRecord::deserialize(value.as_ref()).map_err(|e| corrupt().with_source(e))?;
        let is_key = record.key.len() == 32 && record.key.bytes().all(|b| b.is_ascii_hexdigit());
        let key = u128::from_str_radix(&record.key, 16).ok().filter(|_| is_key);
        key.map(|key| Some(key.to_be_bytes())).ok_or_else(corrupt)
    }

    /// The folders of deleted indices of that name whose objects may still exist.
    pub(crate) fn unpurged(&self, name: &IndexName) -> Vec<String> {
        let of_name = self.retired.iter().filter(|(_, retired)| retired.index == *name && !retired.purged);
        of_name.map(|(folder, _)| folder.clone()).collect()
    }

    /// The error for a name that no index has; it suggests a similar name.
    pub(crate) fn no_such_index(&self, name: &str) -> Error {
        no_such_index(name, self.indices.keys())
    }
}

/// The error for a name that no index has; it suggests the most similar of `names`.
pub(crate) fn no_such_index<'a>(name: &str, names: impl Iterator<Item = &'a IndexName>) -> Error {
    Error::not_found(match frostline_show::nearest(name, names.map(IndexName::as_str)) {
        Some(other) => format!("there is no index {name}; did you mean {other}?"),
        None => format!("there is no index {name}"),
    })
}

/// The folder that the table of an index has where its name alone is taken: the name, `@` and 8 digits of the table's
/// identity.
pub(crate) fn numbered_folder(name: &IndexName, table: &str) -> String {
    format!("{name}@{}", table.get(..8).unwrap_or_default())
}

/// The index that has or had this folder: its name, or its name, `@` and 8 digits.
pub fn index_of_folder(folder: &str) -> Option<IndexName> {
    let (name, number) = folder.split_once('@').unwrap_or((folder, "00000000"));
    let is_number = number.len() == 8 && number.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    name.parse().ok().filter(|_| is_number)
}

/// The state that a checkpoint contains.
pub(crate) fn read_checkpoint(version: u64, objects: &[(Path, Bytes)]) -> Result<Registry> {
    let mut registry = Registry { version: Some(version), ..Registry::default() };
    let Some((path, bytes)) = objects.first() else { return Ok(registry) };
    let mut lines = entry::lines(path.as_ref(), bytes);
    let corrupt = |what: &str| Error::corrupt(what.to_owned()).with("object", path);
    let Some(Line { checkpoint: Some(header), .. }) = lines.next().transpose()? else {
        return Err(corrupt("a checkpoint of the repository log has no header"));
    };
    entry::check_format(header.format, path.as_ref())?;
    let mut records = 0;
    for line in lines {
        let Line { put: Some(record), .. } = line? else { return Err(entry::misplaced(path.as_ref())) };
        registry.put(&record).map_err(|e| e.with("object", path))?;
        records += 1;
    }
    if (header.version, header.records) != (version, records) {
        return Err(corrupt("a checkpoint of the repository log is incomplete"));
    }
    Ok(registry)
}

/// The checkpoint that [`read_checkpoint`] reads back.
pub(crate) fn write_checkpoint(registry: &Registry) -> Result<Vec<u8>> {
    let records = registry.records()?;
    let version = registry.version.unwrap_or_default();
    let header = Header { format: FORMAT, version, records: records.len() as u64 };
    let header = Line { checkpoint: Some(header), ..Line::default() };
    let puts = records.into_iter().map(|record| Line { put: Some(record), ..Line::default() });
    entry::render(std::iter::once(header).chain(puts))
}
