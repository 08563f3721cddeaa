//! The lines of a commit file, as the Delta protocol names them.
//!
//! Only what Frostline reads or writes is modelled; a reader ignores the rest, as the protocol requires.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use frostline_base::{Error, Result};

/// The writer's name in commits.
pub(crate) const ENGINE: &str = concat!("Frostline/", env!("CARGO_PKG_VERSION"));

const DOMAIN_METADATA: &str = "domainMetadata";

/// One line of a commit: exactly one of the fields is set.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Action {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commit_info: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<Protocol>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) meta_data: Option<MetaData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) txn: Option<Txn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) domain_metadata: Option<DomainMetadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remove: Option<Remove>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) add: Option<Add>,
}

/// A file becomes part of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Add {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) partition_values: BTreeMap<String, Option<String>>,
    pub(crate) size: i64,
    pub(crate) modification_time: i64,
    pub(crate) data_change: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<String>,
    #[serde(default)]
    pub(crate) tags: Option<BTreeMap<String, Option<String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_vector: Option<Value>,
}

/// A file stops being part of the table; it stays in the bucket until a vacuum.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remove {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) deletion_timestamp: Option<i64>,
    #[serde(default)]
    pub(crate) data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<i64>,
}

/// How far a source of documents is ingested.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Txn {
    pub(crate) app_id: String,
    pub(crate) version: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_updated: Option<i64>,
}

/// Data of a writer's own, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DomainMetadata {
    pub(crate) domain: String,
    pub(crate) configuration: String,
    #[serde(default)]
    pub(crate) removed: bool,
}

/// The protocol versions and features that a reader and a writer must support.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Protocol {
    pub(crate) min_reader_version: i64,
    pub(crate) min_writer_version: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reader_features: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) writer_features: Option<Vec<String>>,
}

/// The table's identity, schema and settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetaData {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) format: Format,
    pub(crate) schema_string: String,
    #[serde(default)]
    pub(crate) partition_columns: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_time: Option<i64>,
    #[serde(default)]
    pub(crate) configuration: BTreeMap<String, String>,
}

/// The format of the table's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Format {
    pub(crate) provider: String,
    #[serde(default)]
    pub(crate) options: BTreeMap<String, String>,
}

impl Default for Format {
    fn default() -> Self {
        Format { provider: "parquet".to_owned(), options: BTreeMap::new() }
    }
}

impl Protocol {
    /// The protocol that Frostline writes: the oldest one, which every Delta reader supports.
    pub(crate) fn ours() -> Self {
        Protocol {
            min_reader_version: 1,
            min_writer_version: 2,
            reader_features: None,
            writer_features: None,
        }
    }

    /// The same for a table whose log names further files: readers need no more, writers must preserve the files.
    pub(crate) fn naming_files(&self) -> Option<Self> {
        let features = self.writer_features.as_deref().unwrap_or_default();
        if features.iter().any(|feature| feature == DOMAIN_METADATA) {
            return None;
        }
        // Version 7 lists by name the features that version 2 implies.
        let implied = if self.min_writer_version < 7 { &["appendOnly", "invariants"][..] } else { &[] };
        let features = features.iter().cloned().chain(implied.iter().map(|feature| (*feature).to_owned()));
        Some(Protocol {
            min_writer_version: 7,
            writer_features: Some(features.chain([DOMAIN_METADATA.to_owned()]).collect()),
            ..self.clone()
        })
    }

    /// Refuses a table that needs a feature that this version cannot read.
    pub(crate) fn check_readable(&self) -> Result<()> {
        let features = self.reader_features.as_deref().unwrap_or_default();
        if self.min_reader_version <= 1 || (self.min_reader_version == 3 && features.is_empty()) {
            return Ok(());
        }
        Err(Error::invalid(
            "another tool changed the table, which now needs Delta reader features that Frostline does not have",
        )
        .with("min_reader_version", self.min_reader_version)
        .with("reader_features", features.join(",")))
    }

    /// Refuses to write to a table that needs a feature that this version cannot preserve.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let known = |f: &String| matches!(f.as_str(), "appendOnly" | "invariants" | DOMAIN_METADATA);
        let features = self.writer_features.as_deref().unwrap_or_default();
        if self.min_writer_version <= 2 || (self.min_writer_version == 7 && features.iter().all(known)) {
            return Ok(());
        }
        Err(Error::invalid(
            "another tool changed the table, which now needs Delta writer features that Frostline does not have",
        )
        .with("min_writer_version", self.min_writer_version)
        .with("writer_features", features.join(",")))
    }
}

/// A parsed commit file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commit {
    pub(crate) version: u64,
    /// The commit file's key, for messages.
    pub(crate) key: String,
    pub(crate) info: Value,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) metadata: Option<MetaData>,
    pub(crate) txns: Vec<Txn>,
    pub(crate) domains: Vec<DomainMetadata>,
    pub(crate) removes: Vec<Remove>,
    pub(crate) adds: Vec<Add>,
}

impl Commit {
    /// Parses a commit file. A line that is not an action is `Corrupt`; the error names object and line.
    pub(crate) fn parse(version: u64, key: &str, bytes: &[u8]) -> Result<Commit> {
        let mut commit = Commit { version, key: key.to_owned(), ..Commit::default() };
        let mut actions = 0_usize;
        for (number, line) in bytes.split(|b| *b == b'\n').enumerate() {
            let corrupt = || {
                Error::corrupt("a line of a commit file is not an action")
                    .with("object", key)
                    .with("line", number + 1)
            };
            match line.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => continue,
                Some(b'{') => {}
                // A JSON array would be accepted as the fields in order.
                Some(_) => return Err(corrupt()),
            }
            let action: Action = serde_json::from_slice(line).map_err(|e| corrupt().with_source(e))?;
            actions += 1;
            commit.push(action);
        }
        if actions == 0 {
            return Err(Error::corrupt("a commit file is empty").with("object", key));
        }
        Ok(commit)
    }

    /// The file that [`Commit::parse`] reads back.
    pub(crate) fn render(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for action in self.actions() {
            serde_json::to_writer(&mut out, &action)
                .map_err(|e| Error::internal("an action cannot be written as JSON").with_source(e))?;
            out.push(b'\n');
        }
        Ok(out)
    }

    /// The identity of this commit, if Frostline wrote it.
    pub(crate) fn id(&self) -> Option<&str> {
        self.info.get("txnId").and_then(Value::as_str)
    }

    /// The identity of the table it was written for, if Frostline wrote it.
    pub(crate) fn table_id(&self) -> Option<&str> {
        self.info.get("frostlineTable").and_then(Value::as_str)
    }

    /// Whether this commit records that the index was deleted.
    pub(crate) fn drops_index(&self) -> bool {
        self.info.get("frostlineDropped").and_then(Value::as_bool).unwrap_or(false)
    }

    fn push(&mut self, action: Action) {
        if let Some(info) = action.commit_info {
            self.info = info;
        }
        self.protocol = action.protocol.or(self.protocol.take());
        self.metadata = action.meta_data.or(self.metadata.take());
        self.txns.extend(action.txn);
        self.domains.extend(action.domain_metadata);
        self.removes.extend(action.remove);
        self.adds.extend(action.add);
    }

    fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        let info = Action { commit_info: Some(self.info.clone()), ..Action::default() };
        let protocol = self.protocol.clone().map(|p| Action { protocol: Some(p), ..Action::default() });
        let metadata = self.metadata.clone().map(|m| Action { meta_data: Some(m), ..Action::default() });
        let txns = self.txns.iter().map(|t| Action { txn: Some(t.clone()), ..Action::default() });
        let domain = |d: &DomainMetadata| Action { domain_metadata: Some(d.clone()), ..Action::default() };
        let domains = self.domains.iter().map(domain);
        let removes = self.removes.iter().map(|r| Action { remove: Some(r.clone()), ..Action::default() });
        let adds = self.adds.iter().map(|a| Action { add: Some(a.clone()), ..Action::default() });
        std::iter::once(info)
            .chain(protocol)
            .chain(metadata)
            .chain(txns)
            .chain(domains)
            .chain(removes)
            .chain(adds)
    }
}

#[cfg(test)]
mod tests;
