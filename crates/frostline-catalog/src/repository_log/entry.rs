//! Entries of the repository log, as JSON lines. Checkpoints have the same lines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use frostline_base::{Error, Result};
use frostline_commits::Entry;

use crate::actions::ENGINE;

/// The version of the repository log's format. A higher one is refused.
pub(super) const FORMAT: u32 = 1;

/// One line of an entry or a checkpoint: exactly one of the fields is set.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<Info>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<Header>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remove: Option<Key>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) put: Option<Record>,
}

/// The first line of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Info {
    format: u32,
    id: String,
    time_ms: i64,
    operation: String,
    #[serde(default)]
    engine: String,
}

/// The first line of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: u32,
    pub(super) version: u64,
    /// Number of lines that follow, to detect a truncated checkpoint.
    pub(super) records: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Key {
    kind: String,
    name: String,
}

/// One record: its kind, its name within the kind, and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) value: Value,
}

impl Record {
    pub(crate) fn of(kind: &str, name: &str, value: &impl Serialize) -> Result<Record> {
        let value = serde_json::to_value(value)
            .map_err(|e| Error::internal("a record cannot be written as JSON").with_source(e))?;
        Ok(Record { kind: kind.to_owned(), name: name.to_owned(), value })
    }
}

/// One entry of the repository log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LogEntry {
    pub(crate) version: u64,
    /// The object's key, for messages.
    pub(crate) key: String,
    info: Info,
    /// Kinds and names of the records to remove before others are put.
    pub(crate) removes: Vec<(String, String)>,
    pub(crate) puts: Vec<Record>,
}

impl LogEntry {
    pub(crate) fn new(id: String, time_ms: i64, operation: &str) -> Self {
        let (operation, engine) = (operation.to_owned(), ENGINE.to_owned());
        LogEntry { info: Info { format: FORMAT, id, time_ms, operation, engine }, ..LogEntry::default() }
    }

    /// Adds what another entry would do after this one.
    pub(crate) fn then(&mut self, later: LogEntry) {
        let is_changed = |put: &Record| {
            let mut removes = later.removes.iter();
            removes.any(|(kind, name)| *kind == put.kind && *name == put.name)
                || later.puts.iter().any(|other| other.kind == put.kind && other.name == put.name)
        };
        self.puts.retain(|put| !is_changed(put));
        self.removes.extend(later.removes);
        self.puts.extend(later.puts);
    }

    /// The same entry, to be written under that number.
    pub(crate) fn numbered(self, version: u64, key: &str) -> Self {
        LogEntry { version, key: key.to_owned(), ..self }
    }
}

impl Entry for LogEntry {
    fn decode(version: u64, key: &str, bytes: &[u8]) -> Result<LogEntry> {
        let mut entry = LogEntry { version, key: key.to_owned(), ..LogEntry::default() };
        let mut lines = lines(key, bytes);
        let Some(Line { commit: Some(info), .. }) = lines.next().transpose()? else {
            return Err(Error::corrupt("an entry of the repository log does not say who wrote it")
                .with("object", key));
        };
        check_format(info.format, key)?;
        entry.info = info;
        for line in lines {
            match line? {
                Line { put: Some(record), .. } => entry.puts.push(record),
                Line { remove: Some(key), .. } => entry.removes.push((key.kind, key.name)),
                _ => return Err(misplaced(key)),
            }
        }
        Ok(entry)
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let commit = Line { commit: Some(self.info.clone()), ..Line::default() };
        let remove = |(kind, name): &(String, String)| Line {
            remove: Some(Key { kind: kind.clone(), name: name.clone() }),
            ..Line::default()
        };
        let put = |record: &Record| Line { put: Some(record.clone()), ..Line::default() };
        let removes = self.removes.iter().map(remove);
        render(std::iter::once(commit).chain(removes).chain(self.puts.iter().map(put)))
    }

    fn id(&self) -> Option<&str> {
        Some(&self.info.id)
    }
}

pub(super) fn lines(key: &str, bytes: &[u8]) -> impl Iterator<Item = Result<Line>> {
    let lines = bytes.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    lines.map(move |(number, line)| {
        let corrupt = || {
            Error::corrupt("a line of the repository log cannot be read")
                .with("object", key)
                .with("line", number + 1)
        };
        // A JSON array would be accepted as the fields in order.
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err(corrupt());
        }
        serde_json::from_slice(line).map_err(|e| corrupt().with_source(e))
    })
}

pub(super) fn render(lines: impl Iterator<Item = Line>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut out, &line).map_err(|e| {
            Error::internal("an entry of the repository log cannot be written").with_source(e)
        })?;
        out.push(b'\n');
    }
    Ok(out)
}

pub(super) fn check_format(format: u32, key: &str) -> Result<()> {
    if format <= FORMAT {
        return Ok(());
    }
    Err(Error::invalid("a newer version of Frostline wrote the repository: use that version")
        .with("object", key)
        .with("format", format))
}

pub(super) fn misplaced(key: &str) -> Error {
    Error::corrupt("a line of the repository log is neither put nor remove").with("object", key)
}
