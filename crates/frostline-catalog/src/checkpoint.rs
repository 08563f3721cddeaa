//! Checkpoints: the live files of one version in one Parquet file, so that opening does not replay the log.
//!
//! Other tools write them, too. Only
//! the columns of entries are decoded, and only after the file's claims were checked ([`claims`]).

mod claims;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, ListArray, MapArray, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{Int32Type, Int64Type};
use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use frostline_base::{Error, Result};
use frostline_commits::objects;

use crate::actions::{DomainMetadata, MetaData, Protocol, Remove};
use crate::file_entry::{self, FileEntry};
use crate::log::Log;
use crate::sorted::Sorted;
use crate::split_entry::{ForeignFile, LiveFile, SplitEntry, live_file};
use crate::state::{Base, Reached, State};
pub(crate) use write::Writer;

/// Commits that are read at the same time to write a checkpoint.
const COMMITS_AT_ONCE: usize = 4;
/// A checkpoint longer than this is put in parts of this size.
const PART_BYTES: usize = 16 << 20;
const PARTS_AT_ONCE: usize = 4;
const ROWS_AT_ONCE_MAX: usize = 8_192;
/// Approximate size of a column's texts in a batch, if each were as long as the longest page.
const TEXT_AT_ONCE_BYTES: u64 = 512 << 20;
const LIVE: [&str; 8] = [
    "add.path",
    "add.size",
    "add.tags",
    "add.deletionVector",
    "txn",
    "domainMetadata",
    "protocol",
    "metaData",
];
const REMOVED: [&str; 2] = ["remove.path", "remove.deletionTimestamp"];

/// Writes a checkpoint of `state`, which must be committed, and then the hint that names it. If it is killed at any
/// point, the log stays readable: the checkpoint is one object, and the hint is written after it. `previous` is an
/// earlier checkpoint, if one is known, so that not the whole log is listed.
pub(crate) async fn write(log: &Log, state: &Arc<State>, previous: Option<u64>, now_ms: i64) -> Result<()> {
    let (bytes, hint) = render(log, state, previous, now_ms).await?;
    put(log, &log.commits.checkpoint_path(state.version), bytes).await?;
    put(log, &log.commits.hint_path(), hint).await
}

/// Writes what a checkpoint of `state` says to an object that no reader of the log looks at.
pub(crate) async fn write_beside(log: &Log, state: &Arc<State>, path: &Path, now_ms: i64) -> Result<()> {
    let (bytes, _) = render(log, state, None, now_ms).await?;
    put(log, path, bytes).await
}

/// The bytes of a checkpoint, and of the hint that names it.
async fn render(log: &Log, state: &Arc<State>, previous: Option<u64>, now_ms: i64) -> Result<(Bytes, Bytes)> {
    let start = log.commits.start_up_to(state.version, previous.unwrap_or(0)).await?;
    let (of, state) = (log.clone(), Arc::clone(state));
    let runtime = tokio::runtime::Handle::current();
    // On one thread from beginning to end: memory that one thread frees, another does not reuse.
    decode(start.checkpoint.map(|(_, objects)| objects).unwrap_or_default(), move |objects| {
        let mut writer = Writer::new(state, now_ms)?;
        for numbers in start.entries.rchunks(COMMITS_AT_ONCE) {
            let reads = numbers.iter().rev().map(|number| commit(&of, *number));
            let commits = runtime.block_on(futures::future::try_join_all(reads))?;
            commits.iter().try_for_each(|(path, bytes)| writer.take_commit(path, bytes))?;
        }
        objects.iter().try_for_each(|(path, bytes)| writer.take_checkpoint(path, bytes))?;
        writer.finish()
    })
    .await
}

async fn commit(log: &Log, number: u64) -> Result<(Path, Bytes)> {
    let path = log.commits.entry_path(number);
    let bytes = objects::get(log.store().as_ref(), &path).await?.ok_or_else(|| {
        Error::unavailable("a commit file disappeared while a checkpoint was written: try again")
            .with("object", &path)
    })?;
    Ok((path, bytes))
}

/// Puts an object, in parts if it is large.
pub(crate) async fn put(log: &Log, path: &Path, bytes: Bytes) -> Result<()> {
    let failed = |e| objects::failed(e, path);
    if bytes.len() <= PART_BYTES {
        return log.store().put(path, bytes.into()).await.map(drop).map_err(failed);
    }
    let upload = log.store().put_multipart(path).await.map_err(failed)?;
    let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
    for part in (0..bytes.len()).step_by(PART_BYTES) {
        upload.wait_for_capacity(PARTS_AT_ONCE).await.map_err(failed)?;
        upload.put(bytes.slice(part..bytes.len().min(part + PART_BYTES)));
    }
    upload.finish().await.map(drop).map_err(failed)
}

/// Decodes objects of the log with `decode` on a blocking thread, because it takes up to seconds. The
/// Parquet reader panics on some damaged bytes; this is caught and reported as `Corrupt`.
pub(crate) async fn decode<T: Send + 'static>(
    objects: Vec<(Path, Bytes)>,
    decode: impl FnOnce(&[(Path, Bytes)]) -> Result<T> + Send + 'static,
) -> Result<T> {
    let at = objects.first().map(|(path, _)| path.to_string()).unwrap_or_default();
    let decoded = tokio::task::spawn_blocking(move || decode(&objects)).await;
    decoded.map_err(|e| Error::corrupt("the log cannot be read").with("object", at).with_source(e))?
}

/// The state that a checkpoint's objects hold.
pub(crate) fn read(folder: &Path, version: u64, objects: &[(Path, Bytes)]) -> Result<Base> {
    let at = objects.first().map(|(path, _)| path.to_string()).unwrap_or_default();
    let mut found = Found::default();
    for (path, bytes) in objects {
        read_batches(path, bytes, &LIVE, |batch| read_live(folder, path, batch, &mut found))?;
    }
    let count = found.splits.len();
    let splits: Sorted<_, _> = found.splits.into_iter().map(|split| (split.id, split)).collect();
    if splits.len() != count {
        return Err(Error::corrupt("a checkpoint names a split twice").with("object", &at));
    }
    Ok(Base {
        version: Some(version),
        at,
        protocol: found.protocol,
        metadata: found.metadata.map(Arc::new),
        splits,
        foreign: found.foreign.into_iter().map(|file| (file.path.clone(), file)).collect(),
        progress: found.progress.into_iter().collect(),
        files: found.files.into_iter().collect(),
        newest_ms: None,
    })
}

/// The state, built row by row from a checkpoint.
#[derive(Default)]
struct Found {
    protocol: Option<Protocol>,
    metadata: Option<MetaData>,
    splits: Vec<Arc<SplitEntry>>,
    foreign: Vec<Arc<ForeignFile>>,
    progress: Vec<(String, Reached)>,
    files: Vec<(String, Arc<FileEntry>)>,
}

/// The files that a checkpoint records as removed.
pub(crate) fn read_removed(objects: &[(Path, Bytes)]) -> Result<Vec<Remove>> {
    let mut removed = Vec::new();
    for (path, bytes) in objects {
        read_batches(path, bytes, &REMOVED, |batch| {
            let Some(remove) = structs(batch, "remove") else { return Ok(()) };
            let (paths, times) = (strings(remove, "path"), longs(remove, "deletionTimestamp"));
            for row in (0..batch.num_rows()).filter(|row| remove.is_valid(*row)) {
                let Some(path) = paths.and_then(|p| value(p, row)) else { continue };
                let deletion_timestamp = times.filter(|t| t.is_valid(row)).map(|t| t.value(row));
                removed.push(Remove {
                    path: path.to_owned(),
                    deletion_timestamp,
                    data_change: false,
                    size: None,
                });
            }
            Ok(())
        })?;
    }
    Ok(removed)
}

fn read_batches(
    path: &Path,
    bytes: &Bytes,
    columns: &[&str],
    mut visit: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let corrupt = |e: Box<dyn std::error::Error + Send + Sync>| {
        Error::corrupt("a checkpoint cannot be read").with("object", path).with_source(e)
    };
    let refused = |e: Error| e.context("a checkpoint cannot be read").with("object", path);
    claims::check_footer(bytes).map_err(refused)?;
    // The Arrow schema a writer embeds may ask for other string types than the ones read below.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes.clone(), options)
        .map_err(|e| corrupt(e.into()))?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
    let mut pages = claims::Pages::of(bytes);
    for group in builder.metadata().row_groups() {
        let wanted = group.columns().iter().enumerate().filter(|(column, _)| mask.leaf_included(*column));
        for (_, chunk) in wanted {
            pages.add(chunk).map_err(|e| refused(e.with("column", chunk.column_path())))?;
        }
    }
    let rows = usize::try_from(TEXT_AT_ONCE_BYTES / pages.largest.max(1)).unwrap_or(ROWS_AT_ONCE_MAX);
    let reader = builder
        .with_projection(mask)
        .with_batch_size(rows.clamp(1, ROWS_AT_ONCE_MAX))
        .build()
        .map_err(|e| corrupt(e.into()))?;
    let mut decoded = 0;
    for batch in reader {
        let batch = batch.map_err(|e| corrupt(e.into()))?;
        decoded += batch.get_array_memory_size();
        claims::check_decoded(bytes, decoded).map_err(refused)?;
        visit(&batch)?;
    }
    Ok(())
}

fn read_live(folder: &Path, at: &Path, batch: &RecordBatch, found: &mut Found) -> Result<()> {
    if let Some(add) = structs(batch, "add") {
        read_adds(folder, at, add, found)?;
    }
    if let Some(txn) = structs(batch, "txn") {
        read_txns(txn, found);
    }
    if let Some(domains) = structs(batch, "domainMetadata") {
        read_domains(folder, at, domains, found)?;
    }
    for row in 0..batch.num_rows() {
        if let Some(protocol) = structs(batch, "protocol").filter(|p| p.is_valid(row)) {
            found.protocol = Some(read_protocol(protocol, row));
        }
        if let Some(metadata) = structs(batch, "metaData").filter(|m| m.is_valid(row)) {
            found.metadata = Some(read_metadata(metadata, row));
        }
    }
    Ok(())
}

fn read_adds(folder: &Path, at: &Path, add: &StructArray, found: &mut Found) -> Result<()> {
    let (paths, sizes, tags) = (strings(add, "path"), longs(add, "size"), column(add, "tags"));
    let tags = tags.and_then(|tags| tags.as_any().downcast_ref::<MapArray>());
    let vectors = column(add, "deletionVector").and_then(|v| v.as_struct_opt());
    for row in (0..add.len()).filter(|row| add.is_valid(*row)) {
        let path = paths.and_then(|p| value(p, row));
        let size = sizes.filter(|s| s.is_valid(row)).map(|s| s.value(row));
        let (Some(path), Some(size)) = (path, size) else {
            return Err(Error::corrupt("a checkpoint names a file without path or size").with("object", at));
        };
        if vectors.is_some_and(|v| v.is_valid(row)) {
            return Err(Error::invalid(
                "another tool deleted rows of a split in place, which Frostline cannot read",
            )
            .with("object", at)
            .with("split", path));
        }
        let entries = tags.filter(|tags| tags.is_valid(row)).map(|tags| pairs(tags, row));
        match live_file(folder, at.as_ref(), path, size, entries.into_iter().flatten())? {
            LiveFile::Split(entry) => found.splits.push(Arc::new(entry)),
            LiveFile::Foreign(file) => found.foreign.push(Arc::new(file)),
        }
    }
    Ok(())
}

fn read_txns(txn: &StructArray, found: &mut Found) {
    let (sources, versions) = (strings(txn, "appId"), longs(txn, "version"));
    let moved = longs(txn, "lastUpdated");
    for row in (0..txn.len()).filter(|row| txn.is_valid(*row)) {
        let version = versions.filter(|v| v.is_valid(row)).map(|v| v.value(row));
        if let (Some(source), Some(version)) = (sources.and_then(|s| value(s, row)), version) {
            let moved_ms = moved.filter(|v| v.is_valid(row)).map(|v| v.value(row));
            found.progress.push((source.to_owned(), Reached { position: version, moved_ms }));
        }
    }
}

fn read_domains(folder: &Path, at: &Path, domains: &StructArray, found: &mut Found) -> Result<()> {
    let (names, said) = (strings(domains, "domain"), strings(domains, "configuration"));
    let removed = column(domains, "removed").and_then(|c| c.as_boolean_opt());
    for row in (0..domains.len()).filter(|row| domains.is_valid(*row)) {
        let Some(domain) = names.and_then(|names| value(names, row)) else { continue };
        let action = DomainMetadata {
            domain: domain.to_owned(),
            configuration: said.and_then(|said| value(said, row)).unwrap_or_default().to_owned(),
            removed: removed.is_some_and(|removed| removed.is_valid(row) && removed.value(row)),
        };
        if let Some((path, Some(file))) = file_entry::read(folder, at.as_ref(), &action)? {
            found.files.push((path, Arc::new(file)));
        }
    }
    Ok(())
}

fn read_protocol(protocol: &StructArray, row: usize) -> Protocol {
    let number = |name: &str| {
        let numbers = column(protocol, name).and_then(|c| c.as_primitive_opt::<Int32Type>());
        // A version that cannot be parsed is one that this reader does not support.
        numbers.filter(|n| n.is_valid(row)).map_or(i64::MAX, |n| i64::from(n.value(row)))
    };
    Protocol {
        min_reader_version: number("minReaderVersion"),
        min_writer_version: number("minWriterVersion"),
        reader_features: list(protocol, "readerFeatures", row),
        writer_features: list(protocol, "writerFeatures", row),
    }
}

fn read_metadata(metadata: &StructArray, row: usize) -> MetaData {
    let text = |name: &str| strings(metadata, name).and_then(|s| value(s, row)).map(str::to_owned);
    let configuration = column(metadata, "configuration").and_then(|c| c.as_any().downcast_ref::<MapArray>());
    let configuration = configuration.filter(|c| c.is_valid(row)).map(|c| pairs(c, row));
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    MetaData {
        id: text("id").unwrap_or_default(),
        name: text("name"),
        format: Default::default(),
        schema_string: text("schemaString").unwrap_or_default(),
        partition_columns: list(metadata, "partitionColumns", row).unwrap_or_default(),
        created_time: longs(metadata, "createdTime").filter(|t| t.is_valid(row)).map(|t| t.value(row)),
        configuration: configuration.into_iter().flatten().map(owned).collect::<BTreeMap<_, _>>(),
    }
}

fn structs<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a StructArray> {
    batch.column_by_name(name)?.as_struct_opt()
}

fn column<'a>(parent: &'a StructArray, name: &str) -> Option<&'a Arc<dyn Array>> {
    parent.column_by_name(name)
}

fn strings<'a>(parent: &'a StructArray, name: &str) -> Option<&'a StringArray> {
    column(parent, name)?.as_string_opt::<i32>()
}

fn longs<'a>(parent: &'a StructArray, name: &str) -> Option<&'a arrow::array::Int64Array> {
    column(parent, name)?.as_primitive_opt::<Int64Type>()
}

fn value(strings: &StringArray, row: usize) -> Option<&str> {
    strings.is_valid(row).then(|| strings.value(row))
}

fn list(parent: &StructArray, name: &str, row: usize) -> Option<Vec<String>> {
    let lists: &ListArray = column(parent, name)?.as_list_opt()?;
    let items = lists.is_valid(row).then(|| lists.value(row))?;
    let items = items.as_string_opt::<i32>()?;
    Some(items.iter().flatten().map(str::to_owned).collect())
}

/// The pairs of one row of a map, without those whose value is null.
fn pairs(map: &MapArray, row: usize) -> impl Iterator<Item = (&str, &str)> {
    let (keys, values) = (map.keys().as_string_opt::<i32>(), map.values().as_string_opt::<i32>());
    let offsets = map.value_offsets();
    let bound = |at: usize| offsets.get(at).map_or(0, |o| usize::try_from(*o).unwrap_or_default());
    (bound(row)..bound(row + 1)).filter_map(move |at| Some((value(keys?, at)?, value(values?, at)?)))
}

#[cfg(test)]
mod tests;
