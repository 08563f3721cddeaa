//! What the table's metadata holds: the Delta schema, the mapping and the settings.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use frostline_base::{Error, IndexName, Result};
use frostline_split::Mapping;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::actions::MetaData;

/// The version of the catalog's own additions to Delta. A higher one is refused.
pub(crate) const FORMAT: u32 = 1;

const KEY_FORMAT: &str = "frostline.format";
const KEY_MAPPING: &str = "frostline.mapping";
const KEY_SETTINGS: &str = "frostline.settings";
const KEY_TERMS: &str = "frostline.terms";
/// A mapping whose JSON is longer than this is compressed, so that a wide index's commits stay small.
const MAPPING_PLAIN_BYTES_MAX: usize = 4096;
/// What a compressed mapping may unfold to: a bound against a hostile commit, far above any real mapping.
const MAPPING_BYTES_MAX: usize = 64 << 20;
const HOUR_MS: i64 = 3_600_000;

/// Plain settings of one index, stored with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// A checkpoint is written after this many commits (1 to 1,000).
    pub checkpoint_commits: u64,
    /// How long commit files are kept that no reader needs any more (at least an hour). A reader or writer
    /// that slept longer than half of this reads the index afresh.
    pub log_retention_ms: i64,
    /// How long the log remembers when a file was removed: the longest retention that a vacuum can honour.
    pub file_retention_ms: i64,
    /// How long a source's position is kept after it last moved (at least an hour). What comes again later is taken
    /// for new.
    pub progress_retention_ms: i64,
    /// Whether the terms of new splits are written to needle segments.
    pub needle: bool,
    /// Whether merged splits store documents whole, for tools that read them from a column, even where they take less as
    /// the columns that they can be made of.
    pub stored_source: bool,
    /// Settings of other crates, by name, kept as they are.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            checkpoint_commits: 32,
            log_retention_ms: 30 * 24 * HOUR_MS,
            file_retention_ms: 7 * 24 * HOUR_MS,
            progress_retention_ms: 90 * 24 * HOUR_MS,
            needle: true,
            stored_source: false,
            others: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Refuses what would be unsafe or useless.
    pub(crate) fn check(&self) -> Result<()> {
        if !(1..=1_000).contains(&self.checkpoint_commits) {
            return Err(Error::invalid("checkpoint_commits is not between 1 and 1000"));
        }
        if self.log_retention_ms < HOUR_MS || self.file_retention_ms < 0 {
            return Err(Error::invalid(
                "log_retention_ms is less than an hour, or file_retention_ms is negative",
            ));
        }
        if self.progress_retention_ms < HOUR_MS {
            return Err(Error::invalid("progress_retention_ms is less than an hour"));
        }
        Ok(())
    }
}

/// A table's metadata, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) mapping: KeptMapping,
    pub(crate) settings: Settings,
}

/// A mapping that does not change, with its digest once that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct KeptMapping {
    pub(crate) mapping: Mapping,
    digest: OnceLock<u128>,
}

impl KeptMapping {
    pub(crate) fn new(mapping: Mapping) -> KeptMapping {
        KeptMapping { mapping, digest: OnceLock::new() }
    }

    pub(crate) fn digest(&self) -> u128 {
        *self.digest.get_or_init(|| self.mapping.digest())
    }
}

impl Described {
    /// Reads what Frostline stored in `metadata`. `at` is the object it came from.
    pub(crate) fn read(metadata: &MetaData, at: &str) -> Result<Described> {
        let corrupt = |what: &str| Error::corrupt(what.to_owned()).with("object", at);
        let value = |key: &str| metadata.configuration.get(key).map(String::as_str);
        let Some(format) = value(KEY_FORMAT) else {
            return Err(Error::invalid(
                "this Delta table is not a Frostline index: it has no frostline.format",
            )
            .with("object", at));
        };
        let format: u32 = format.parse().map_err(|_| corrupt("frostline.format is not a number"))?;
        if format > FORMAT {
            return Err(Error::invalid("a newer version of Frostline wrote the index: use that version")
                .with("object", at)
                .with("format", format));
        }
        if !metadata.partition_columns.is_empty() {
            return Err(Error::invalid("the table is partitioned; an index never is").with("object", at));
        }
        let mapping = value(KEY_MAPPING).ok_or_else(|| corrupt("the table's metadata has no mapping"))?;
        let mapping = read_mapping(mapping).map_err(|e| e.with("object", at))?;
        let settings = serde_json::from_str(value(KEY_SETTINGS).unwrap_or("{}"))
            .map_err(|e| corrupt("the index's settings cannot be read").with_source(e))?;
        Ok(Described { mapping: KeptMapping::new(mapping), settings })
    }
}

/// The metadata of a new table.
pub(crate) fn metadata(
    index: &IndexName,
    table_id: String,
    now_ms: i64,
    mapping: &Mapping,
    settings: &Settings,
) -> Result<MetaData> {
    let configuration = BTreeMap::from([
        (KEY_FORMAT.to_owned(), FORMAT.to_string()),
        // Our statistics name the time alone; without this, readers plan for the first 32 columns.
        ("delta.dataSkippingStatsColumns".to_owned(), "_timestamp".to_owned()),
        // In a checkpoint, statistics as numbers take a sixth of what they take as JSON.
        ("delta.checkpoint.writeStatsAsJson".to_owned(), "false".to_owned()),
        ("delta.checkpoint.writeStatsAsStruct".to_owned(), "true".to_owned()),
    ]);
    let mut metadata = MetaData {
        id: table_id,
        name: Some(index.to_string()),
        format: Default::default(),
        schema_string: String::new(),
        partition_columns: Vec::new(),
        created_time: Some(now_ms),
        configuration,
    };
    set_mapping(&mut metadata, mapping)?;
    set_settings(&mut metadata, settings)?;
    Ok(metadata)
}

/// The table of whose splits the needle segments are that a table names: the one that it is a copy of, or itself.
pub(crate) fn terms_table(metadata: &MetaData) -> &str {
    metadata.configuration.get(KEY_TERMS).unwrap_or(&metadata.id)
}

/// The metadata of a table that begins with the splits and the needle segments of another one.
pub(crate) fn copied(metadata: &MetaData, table: String) -> MetaData {
    let mut copy = MetaData::clone(metadata);
    copy.configuration.insert(KEY_TERMS.to_owned(), terms_table(metadata).to_owned());
    MetaData { id: table, ..copy }
}

/// Puts settings into `metadata`, also under the names that other tools know.
pub(crate) fn set_settings(metadata: &mut MetaData, settings: &Settings) -> Result<()> {
    let seconds = |ms: i64| format!("interval {} seconds", ms / 1_000);
    let json = serde_json::to_string(settings)
        .map_err(|e| Error::internal("settings cannot be written as JSON").with_source(e))?;
    metadata.configuration.extend([
        (KEY_SETTINGS.to_owned(), json),
        ("delta.checkpointInterval".to_owned(), settings.checkpoint_commits.to_string()),
        ("delta.logRetentionDuration".to_owned(), seconds(settings.log_retention_ms)),
        ("delta.deletedFileRetentionDuration".to_owned(), seconds(settings.file_retention_ms)),
    ]);
    limit_progress(metadata, settings);
    Ok(())
}

/// How long positions of sources are kept: a checkpoint omits those that last moved before.
/// Tables that were made before there was a limit get it with their next metadata.
pub(crate) fn limit_progress(metadata: &mut MetaData, settings: &Settings) {
    let retention = format!("interval {} seconds", settings.progress_retention_ms / 1_000);
    metadata.configuration.insert("delta.setTransactionRetentionDuration".to_owned(), retention);
}

/// Puts a mapping and the schema that follows from it into `metadata`; the rest stays.
pub(crate) fn set_mapping(metadata: &mut MetaData, mapping: &Mapping) -> Result<()> {
    metadata.schema_string = delta_schema(&mapping.arrow_schema())?;
    metadata.configuration.insert(KEY_MAPPING.to_owned(), write_mapping(mapping)?);
    Ok(())
}

fn delta_schema(schema: &Schema) -> Result<String> {
    let column = |field: &Field| {
        let of = delta_type(field.data_type())?;
        Ok(json!({ "name": field.name(), "type": of, "nullable": field.is_nullable(), "metadata": {} }))
    };
    let fields = schema.fields().iter().map(|field| column(field)).collect::<Result<Vec<_>>>()?;
    Ok(json!({ "type": "struct", "fields": fields }).to_string())
}

fn delta_type(of: &DataType) -> Result<Value> {
    Ok(match of {
        DataType::Boolean => "boolean".into(),
        DataType::Int16 => "short".into(),
        DataType::Int64 => "long".into(),
        DataType::Float64 => "double".into(),
        DataType::Utf8 => "string".into(),
        DataType::Binary => "binary".into(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => "timestamp".into(),
        DataType::List(item) => json!({
            "type": "array",
            "elementType": delta_type(item.data_type())?,
            "containsNull": item.is_nullable(),
        }),
        other => return Err(Error::internal("a mapping's column has no Delta type").with("type", other)),
    })
}

fn write_mapping(mapping: &Mapping) -> Result<String> {
    let json = serde_json::to_string(mapping)
        .map_err(|e| Error::internal("a mapping cannot be written as JSON").with_source(e))?;
    if json.len() <= MAPPING_PLAIN_BYTES_MAX {
        return Ok(json);
    }
    let packed = zstd::bulk::compress(json.as_bytes(), 3)
        .map_err(|e| Error::internal("a mapping cannot be compressed").with_source(e))?;
    Ok(format!("zstd:{}", BASE64.encode(packed)))
}

fn read_mapping(stored: &str) -> Result<Mapping> {
    let corrupt = || Error::corrupt("the index's mapping cannot be read");
    let unpacked;
    let json = match stored.strip_prefix("zstd:") {
        None => stored.as_bytes(),
        Some(packed) => {
            let packed = BASE64.decode(packed).map_err(|e| corrupt().with_source(e))?;
            unpacked =
                zstd::bulk::decompress(&packed, MAPPING_BYTES_MAX).map_err(|e| corrupt().with_source(e))?;
            &unpacked
        }
    };
    serde_json::from_slice(json).map_err(|e| corrupt().with_source(e))
}

#[cfg(test)]
mod tests;
