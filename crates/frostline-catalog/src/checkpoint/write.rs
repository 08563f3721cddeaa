//! Writes a checkpoint: of the previous one and the commits since, every action that still holds.
//!
//! Actions are read from the newest to the oldest, and the first of each key counts. They are copied as they are, so
//! that files of other tools keep their statistics and tags.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options, filter};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::json::{LineDelimitedWriter, ReaderBuilder};
use bytes::Bytes;
use frostline_base::{Error, Result};
use frostline_split::TIME_COLUMN;
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde_json::json;

use super::{claims, column, longs, read_batches, strings, structs, value};
use crate::split_entry::{Statistics, split_of_path};
use crate::state::State;

const ROWS_AT_ONCE: usize = 1_024;
/// Rows that are buffered before they are written.
const ROW_GROUP_ROWS: usize = 1 << 16;
const ZSTD_LEVEL: i32 = 3;

/// A checkpoint being written.
pub(crate) struct Writer {
    state: Arc<State>,
    now_ms: i64,
    /// The keys of the commits' actions: others of the same key are older.
    seen: HashSet<(&'static str, String)>,
    actions: usize,
    adds: usize,
    out: ArrowWriter<Vec<u8>>,
}

/// Where actions are from.
#[derive(Clone, Copy)]
enum Source {
    Commit,
    /// Each key once.
    Checkpoint,
}

/// A kind of action.
struct Kind {
    column: &'static str,
    /// What the key names. A file is live or removed, whichever is newer.
    scope: &'static str,
    /// The field that is the key; without one there is a single action of the kind.
    key: Option<&'static str>,
}

/// Within a commit, adding a file counts more than removing it.
const KINDS: [Kind; 6] = [
    Kind { column: "protocol", scope: "protocol", key: None },
    Kind { column: "metaData", scope: "metaData", key: None },
    Kind { column: "txn", scope: "txn", key: Some("appId") },
    Kind { column: "domainMetadata", scope: "domainMetadata", key: Some("domain") },
    Kind { column: "add", scope: "file", key: Some("path") },
    Kind { column: "remove", scope: "file", key: Some("path") },
];

/// The actions and their fields, as the Delta protocol names them. All are optional, as in the checkpoints of Spark.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let protocol = group(
        "protocol",
        [
            field("minReaderVersion", DataType::Int32),
            field("minWriterVersion", DataType::Int32),
            list("readerFeatures"),
            list("writerFeatures"),
        ],
    );
    let format = group("format", [text("provider"), map("options")]);
    let metadata = group(
        "metaData",
        [
            text("id"),
            text("name"),
            text("description"),
            format,
            text("schemaString"),
            list("partitionColumns"),
            long("createdTime"),
            map("configuration"),
        ],
    );
    let txn = group("txn", [text("appId"), long("version"), long("lastUpdated")]);
    let domain = group("domainMetadata", [text("domain"), text("configuration"), flag("removed")]);
    let add = group(
        "add",
        [
            text("path"),
            map("partitionValues"),
            long("size"),
            long("modificationTime"),
            flag("dataChange"),
            text("stats"),
            field("stats_parsed", DataType::Struct(STATISTICS.clone())),
            map("tags"),
            long("baseRowId"),
            long("defaultRowCommitVersion"),
            text("clusteringProvider"),
        ],
    );
    let remove = group(
        "remove",
        [
            text("path"),
            long("deletionTimestamp"),
            flag("dataChange"),
            flag("extendedFileMetadata"),
            map("partitionValues"),
            long("size"),
            text("stats"),
            map("tags"),
            long("baseRowId"),
            long("defaultRowCommitVersion"),
        ],
    );
    Arc::new(Schema::new(vec![protocol, metadata, txn, domain, add, remove]))
});

/// Statistics as numbers.
static STATISTICS: LazyLock<Fields> = LazyLock::new(|| {
    let time = || field(TIME_COLUMN, DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    Fields::from(vec![
        long("numRecords"),
        group("nullCount", [long(TIME_COLUMN)]),
        group("minValues", [time()]),
        group("maxValues", [time()]),
    ])
});

fn field(name: &str, of: DataType) -> Field {
    Field::new(name, of, true)
}

fn text(name: &str) -> Field {
    field(name, DataType::Utf8)
}

fn long(name: &str) -> Field {
    field(name, DataType::Int64)
}

fn flag(name: &str) -> Field {
    field(name, DataType::Boolean)
}

fn list(name: &str) -> Field {
    field(name, DataType::List(Arc::new(text("element"))))
}

fn map(name: &str) -> Field {
    let pair = Fields::from(vec![Field::new("key", DataType::Utf8, false), text("value")]);
    let pairs = Field::new("key_value", DataType::Struct(pair), false);
    field(name, DataType::Map(Arc::new(pairs), false))
}

fn group(name: &str, of: impl IntoIterator<Item = Field>) -> Field {
    field(name, DataType::Struct(of.into_iter().collect()))
}

impl Writer {
    /// A checkpoint of `state`, without an action yet.
    pub(crate) fn new(state: Arc<State>, now_ms: i64) -> Result<Self> {
        let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(unwritable)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .build();
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let out = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&SCHEMA), options)
            .map_err(unwritable)?;
        Ok(Writer { state, now_ms, seen: HashSet::new(), actions: 0, adds: 0, out })
    }

    /// Takes the actions of a commit, which is older than all before.
    pub(crate) fn take_commit(&mut self, path: &Path, commit: &Bytes) -> Result<()> {
        let reader = ReaderBuilder::new(Arc::clone(&SCHEMA))
            .with_batch_size(ROWS_AT_ONCE)
            // Reading the version has checked the fields that matter.
            .with_ignore_type_conflicts(true)
            .build(commit.as_ref());
        let batches = reader.and_then(|reader| reader.collect::<Result<Vec<_>, _>>());
        let corrupt = |e| Error::corrupt("a commit file cannot be read").with("object", path).with_source(e);
        self.take(&batches.map_err(corrupt)?, Source::Commit)
    }

    /// Takes the actions of an object of the previous checkpoint.
    pub(crate) fn take_checkpoint(&mut self, path: &Path, object: &Bytes) -> Result<()> {
        let columns = KINDS.map(|kind| kind.column);
        read_batches(path, object, &columns, |batch| {
            self.take(std::slice::from_ref(batch), Source::Checkpoint).map_err(|e| e.with("object", path))
        })
    }

    fn take(&mut self, batches: &[RecordBatch], source: Source) -> Result<()> {
        for kind in &KINDS {
            for actions in batches.iter().rev().filter_map(|batch| structs(batch, kind.column)) {
                let held = self.held(kind, actions, source);
                if held.true_count() > 0 {
                    self.write(kind, filter(actions, &held).map_err(unwritable)?.as_struct())?;
                }
            }
        }
        Ok(())
    }

    /// Which of the actions still hold.
    fn held(&mut self, kind: &Kind, actions: &StructArray, source: Source) -> BooleanArray {
        let keys = kind.key.map(|key| strings(actions, key));
        let mut held = vec![false; actions.len()];
        for row in (0..actions.len()).rev().filter(|row| actions.is_valid(*row)) {
            let key = match keys {
                Some(keys) => keys.and_then(|keys| value(keys, row)),
                None => Some(""),
            };
            let Some(key) = key.map(|key| (kind.scope, key.to_owned())) else { continue };
            let is_newest = match source {
                Source::Commit => self.seen.insert(key),
                Source::Checkpoint => !self.seen.contains(&key),
            };
            held[row] = is_newest && !self.is_over(kind, actions, row);
        }
        held.into()
    }

    /// Whether the newest action of its key need not be remembered.
    fn is_over(&self, kind: &Kind, actions: &StructArray, row: usize) -> bool {
        let settings = &self.state.described.settings;
        let time = |name| longs(actions, name).filter(|t| t.is_valid(row)).map(|t| t.value(row));
        let over = |at: i64, retention_ms| at <= self.now_ms.saturating_sub(retention_ms);
        match kind.column {
            "remove" => over(time("deletionTimestamp").unwrap_or(0), settings.file_retention_ms),
            "txn" => time("lastUpdated").is_some_and(|at| over(at, settings.progress_retention_ms)),
            "domainMetadata" => {
                let removed = column(actions, "removed").and_then(|removed| removed.as_boolean_opt());
                removed.is_some_and(|removed| removed.is_valid(row) && removed.value(row))
            }
            _ => false,
        }
    }

    fn write(&mut self, kind: &Kind, actions: &StructArray) -> Result<()> {
        let rows = actions.len();
        let actions: ArrayRef = match kind.column {
            "add" => Arc::new(self.with_statistics(actions)?),
            _ => Arc::new(actions.clone()),
        };
        let columns = SCHEMA.fields().iter().map(|field| {
            if field.name() == kind.column {
                shaped(&actions, field.data_type())
            } else {
                Ok(new_null_array(field.data_type(), rows))
            }
        });
        let columns = columns.collect::<Result<_, _>>().map_err(unwritable)?;
        let batch = RecordBatch::try_new(Arc::clone(&SCHEMA), columns).map_err(unwritable)?;
        self.out.write(&batch).map_err(unwritable)?;
        self.actions += rows;
        self.adds += if kind.column == "add" { rows } else { 0 };
        Ok(())
    }

    /// Statistics of splits become numbers; those of other files stay text, which may say more, and become numbers, too.
    fn with_statistics(&self, adds: &StructArray) -> Result<StructArray> {
        let (paths, stated) = (strings(adds, "path"), strings(adds, "stats"));
        let parsed = column(adds, "stats_parsed").and_then(|parsed| parsed.as_struct_opt());
        let (mut texts, mut numbers) = (Vec::new(), Vec::new());
        for row in 0..adds.len() {
            let id = paths.and_then(|paths| value(paths, row)).and_then(split_of_path);
            if let Some(split) = id.and_then(|id| self.state.splits.get(&id)) {
                texts.push(None);
                numbers.push(split.statistics());
                continue;
            }
            let text = match stated.and_then(|stated| value(stated, row)) {
                Some(text) => Some(text.to_owned()),
                None => parsed.map(|parsed| as_json(parsed, row)).transpose()?.flatten(),
            };
            numbers.push(text.as_deref().map(Statistics::parse).unwrap_or_default());
            texts.push(text);
        }
        let replaced: [(FieldRef, ArrayRef); 2] = [
            (Arc::new(text("stats")), Arc::new(StringArray::from(texts))),
            (
                Arc::new(field("stats_parsed", DataType::Struct(STATISTICS.clone()))),
                Arc::new(as_numbers(&numbers)),
            ),
        ];
        let kept = adds.fields().iter().cloned().zip(adds.columns().iter().cloned());
        let kept = kept.filter(|(field, _)| replaced.iter().all(|(new, _)| new.name() != field.name()));
        let (fields, columns): (Vec<_>, _) = kept.chain(replaced.clone()).unzip();
        StructArray::try_new(fields.into(), columns, adds.nulls().cloned()).map_err(unwritable)
    }

    /// The checkpoint's bytes, and the hint that names it. `Corrupt` if the log did not name the files of its version, or
    /// so many bytes of repetitive text that the checkpoint could not be read.
    pub(crate) fn finish(self) -> Result<(Bytes, Bytes)> {
        let live = self.state.splits.len() + self.state.foreign.len();
        if self.adds != live {
            return Err(Error::corrupt("the log names other files than the version that was read from it")
                .with("version", self.state.version)
                .with("files", live)
                .with("found", self.adds));
        }
        let bytes = Bytes::from(self.out.into_inner().map_err(unwritable)?);
        claims::check(&bytes).map_err(|e| e.context("a checkpoint that could not be read is not written"))?;
        let hint = json!({
            "version": self.state.version,
            "size": self.actions,
            "sizeInBytes": bytes.len(),
            "numOfAddFiles": self.adds,
        });
        Ok((bytes, hint.to_string().into()))
    }
}

fn unwritable(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::corrupt("the actions of the log cannot be written as a checkpoint").with_source(e)
}

/// The column with the fields of `wanted`, by name: those that are missing are null, others are left out.
fn shaped(found: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if found.data_type() == wanted {
        return Ok(Arc::clone(found));
    }
    let (DataType::Struct(fields), Some(found)) = (wanted, found.as_struct_opt()) else {
        return cast_with_options(found, wanted, &CastOptions { safe: false, ..CastOptions::default() });
    };
    let columns = fields.iter().map(|field| match column(found, field.name()) {
        Some(column) => shaped(column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), found.len())),
    });
    let columns = columns.collect::<Result<_, _>>()?;
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, found.nulls().cloned())?))
}

/// Statistics as text, as a commit has them.
fn as_json(parsed: &StructArray, row: usize) -> Result<Option<String>> {
    if parsed.is_null(row) {
        return Ok(None);
    }
    let mut writer = LineDelimitedWriter::new(Vec::new());
    writer.write(&RecordBatch::from(parsed.slice(row, 1))).map_err(unwritable)?;
    let json = String::from_utf8(writer.into_inner()).map_err(unwritable)?;
    Ok(Some(json.trim_end().to_owned()))
}

fn as_numbers(of: &[Statistics]) -> StructArray {
    let longs = |get: fn(&Statistics) -> Option<i64>| -> ArrayRef {
        Arc::new(of.iter().map(get).collect::<Int64Array>())
    };
    let times = |get: fn(&Statistics) -> Option<i64>| -> ArrayRef {
        Arc::new(of.iter().map(get).collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
    };
    let under_time = |at: usize, values: ArrayRef| -> ArrayRef {
        let DataType::Struct(fields) = STATISTICS[at].data_type() else { return values };
        let nulls = values.nulls().cloned();
        Arc::new(StructArray::new(fields.clone(), vec![values], nulls))
    };
    let columns = vec![
        longs(|s| s.rows),
        under_time(1, longs(|s| s.rows_without_time)),
        under_time(2, times(|s| s.time_min)),
        under_time(3, times(|s| s.time_max)),
    ];
    let known: NullBuffer = of.iter().map(|s| *s != Statistics::default()).collect();
    StructArray::new(STATISTICS.clone(), columns, Some(known))
}

#[cfg(test)]
mod tests;
