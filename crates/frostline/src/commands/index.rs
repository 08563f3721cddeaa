//! `frostline index`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use frostline_base::{Error, ErrorKind, IndexName, Meter, Share, SplitId, told};
use frostline_catalog::{FileEntry, Index, Records, Resolve, SplitEntry};
use frostline_node::{Node, Stored, Whole};
use frostline_show::{Table, item_progress, note, printable, say, say_json, show_bytes, show_count};
use frostline_split::{
    ColumnList, KeyRanges, Moment, Pack, PackAbout, Postings, Split, TextAs, decode_postings,
};
use serde::Serialize;
use serde_json::{Value, json};

use self::bytes::IndexBytes;
use self::merge::Merging;
use crate::Outcome;
use crate::args;
use crate::config::Config;

mod bytes;
pub(crate) mod check;
mod merge;
mod retain;

pub(crate) async fn run(config: &Config, given: args::Index) -> Result<Outcome> {
    let node = config.node()?;
    match given {
        args::Index::List => list(&node, config).await,
        args::Index::Show { name, bytes } => {
            each(&node, config, &name, async |name| show(&node, config, name, bytes).await).await
        }
        args::Index::Delete { name, yes } => delete(&node, config, &name, yes).await,
        args::Index::Retain { name, keep } => retain::run(&node, config, &name, keep.as_deref()).await,
        args::Index::Verify(given) => {
            each(&node, config, &given.name, async |name| verify(&node, config, name).await).await
        }
        args::Index::Merge(given) => Merging::new(&node, config, &given)?.run_each(config, &given.name).await,
    }
}

/// Runs a command for each index that an expression names, and collects the outcomes and `--json` documents.
pub(crate) async fn each(
    node: &Node,
    config: &Config,
    expression: &str,
    act: impl AsyncFn(&IndexName) -> Result<(Outcome, Value)>,
) -> Result<Outcome> {
    let (mut outcome, mut documents) = (Outcome::Done, Vec::new());
    for name in super::names_of(node, expression, super::NAMED).await? {
        let (ended, document) = act(&name).await?;
        if ended != Outcome::Done && outcome != Outcome::Interrupted {
            outcome = ended;
        }
        documents.push(document);
    }
    if config.json {
        super::say_each(expression, documents)?;
    }
    Ok(outcome)
}

#[derive(Serialize)]
struct Summary {
    index: IndexName,
    version: u64,
    documents: u64,
    splits: usize,
    bytes: u64,
    time_min: Option<String>,
    time_max: Option<String>,
    mounted: bool,
    /// `closed`, `hidden`, and the blocks as `blocks.write`; none of an index that is open.
    state: Vec<String>,
}

fn summary(node: &Node, index: &Index) -> Summary {
    let splits = index.splits();
    let time = |pick: fn((i64, i64)) -> i64| splits.iter().filter_map(|s| s.times).map(pick);
    Summary {
        index: index.name().clone(),
        version: index.version(),
        documents: splits.iter().map(|s| s.rows).sum(),
        splits: splits.len(),
        bytes: splits.iter().map(|s| s.object.bytes).sum(),
        time_min: time(|t| t.0).min().map(iso),
        time_max: time(|t| t.1).max().map(iso),
        mounted: node.mounts().find(index.name()).is_some(),
        state: node.catalog().seen_records().map(|records| state(&records, index.name())).unwrap_or_default(),
    }
}

/// What keeps an index from being read or written as any other.
fn state(records: &Records, index: &IndexName) -> Vec<String> {
    let flags = [("closed", records.is_closed(index)), ("hidden", records.is_hidden(index))];
    let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name.to_owned());
    flags.chain(records.blocks(index).map(|block| format!("blocks.{}", block.name()))).collect()
}

pub(super) fn iso(time_us: i64) -> String {
    let format = frostline_query::language::date::Format::default();
    format.write(Moment::of_us(time_us), &frostline_query::UTC)
}

async fn list(node: &Node, config: &Config) -> Result<Outcome> {
    let (mut found, mut damaged, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    let all = node.catalog().open_all("*", Resolve::ALL, |_| None).await;
    for (name, opened) in all.with_context(|| format!("in {}", node.repository().url()))? {
        match opened {
            Ok(index) => found.push(summary(node, &index)),
            Err(error) => {
                let unread =
                    matches!(error.kind(), ErrorKind::Denied | ErrorKind::Refused | ErrorKind::Unavailable);
                let list = if unread { &mut unreadable } else { &mut damaged };
                list.push((name, told(&error)));
            }
        }
    }
    let whole = damaged.is_empty() && unreadable.is_empty();
    let outcome = if whole { Outcome::Done } else { Outcome::Partial };
    if config.json {
        let list = |of: &[(_, String)]| -> Vec<Value> {
            of.iter().map(|(name, error): &(IndexName, _)| json!({ "index": name, "error": error })).collect()
        };
        let (damaged, unreadable) = (list(&damaged), list(&unreadable));
        say_json(&json!({ "indices": found, "damaged": damaged, "unreadable": unreadable }))?;
        return Ok(outcome);
    }
    for (name, error) in &damaged {
        note!("{name} is damaged: {error}");
    }
    for (name, error) in &unreadable {
        note!("{name} cannot be read: {error}");
    }
    if found.is_empty() && whole {
        say!("no index in {}: frostline ingest --index NAME FILE makes one", node.repository().url())?;
        return Ok(outcome);
    }
    let mut table =
        Table::new(&["index", "documents>", "splits>", "size>", "from", "to", "mounted", "state"]);
    for s in found {
        let state = if s.state.is_empty() { "open".to_owned() } else { s.state.join(" ") };
        let mounted = if s.mounted { "frozen" } else { "" };
        table.row(vec![
            s.index.to_string(),
            s.documents.to_string(),
            s.splits.to_string(),
            show_bytes(s.bytes),
            s.time_min.unwrap_or_default(),
            s.time_max.unwrap_or_default(),
            mounted.to_owned(),
            state,
        ]);
    }
    say!("{table}")?;
    Ok(outcome)
}

async fn show(node: &Node, config: &Config, name: &IndexName, with_bytes: bool) -> Result<(Outcome, Value)> {
    let index = node.index(name).await?;
    let bytes = if with_bytes { Some(IndexBytes(Stored::count(node, &index).await?)) } else { None };
    let summary = summary(node, &index);
    let mapping = index.mapping();
    let conflicts = mapping.conflicts();
    if config.json {
        let fields: Vec<Value> = mapping
            .fields()
            .iter()
            .map(|(path, field)| json!({ "path": path, "readings": field.readings }))
            .collect();
        let splits: Vec<Value> = index.splits().iter().map(|split| split_json(split)).collect();
        let conflicts: Vec<Value> =
            conflicts.iter().map(|c| json!({ "path": c.path, "types": c.types })).collect();
        let foreign: Vec<&str> = index.foreign().iter().map(|file| file.path.as_str()).collect();
        let mut document = json!({
            "summary": summary, "mapping": mapping.to_elasticsearch_json(), "fields": fields,
            "conflicts": conflicts, "splits": splits, "foreign": foreign,
        });
        if let Some(bytes) = bytes {
            document["stored"] = bytes.json();
        }
        return Ok((Outcome::Done, document));
    }
    say!(
        "{}: {} in {}, {}, version {}",
        summary.index,
        show_count(summary.documents, "document"),
        show_count(summary.splits as u64, "split"),
        show_bytes(summary.bytes),
        summary.version
    )?;
    if let (Some(from), Some(to)) = (&summary.time_min, &summary.time_max) {
        say!("times from {from} to {to}")?;
    }
    let timeless: u64 = index.splits().iter().map(|split| split.rows_without_time).sum();
    if timeless > 0 {
        let (documents, time) = (show_count(timeless, "document"), printable(mapping.time_field()));
        note!("{documents} without a time: the time field {time} is missing or not a date");
    }
    for file in index.foreign() {
        note!("{} was committed by another tool and cannot be searched", file.path);
    }
    if let Some(bytes) = bytes {
        bytes.say()?;
        return Ok((Outcome::Done, Value::Null));
    }
    let mut table = Table::new(&["field", "types", "kept in"]);
    for (path, field) in mapping.fields() {
        let types: Vec<String> = field.readings.keys().map(|ty| format!("{ty:?}").to_lowercase()).collect();
        let own = field.readings.values().any(|reading| !reading.dynamic);
        let place = if own { "a column" } else { "_dynamic" };
        let index = if field.is_unindexed() { ", without an index" } else { "" };
        table.row(vec![printable(path), types.join(", "), format!("{place}{index}")]);
    }
    say!("{table}")?;
    for conflict in conflicts {
        let types: Vec<String> = conflict.types.iter().map(|ty| format!("{ty:?}").to_lowercase()).collect();
        say!(
            "conflict: {} is {}; all readings are searchable",
            printable(&conflict.path),
            types.join(" and ")
        )?;
    }
    Ok((Outcome::Done, Value::Null))
}

fn split_json(split: &SplitEntry) -> Value {
    json!({
        "id": split.id, "object": split.object.key, "bytes": split.object.bytes, "rows": split.rows,
        "footer": [split.footer.start, split.footer.end], "rows_without_time": split.rows_without_time,
        "time_min": split.times.map(|t| iso(t.0)), "time_max": split.times.map(|t| iso(t.1)),
    })
}

async fn delete(node: &Node, config: &Config, name: &str, yes: bool) -> Result<Outcome> {
    let name: IndexName = name.parse()?;
    let what = format!("Delete {name} and all its data in {}", node.repository().url());
    super::confirm(&what, name.as_str(), yes)?;
    node.catalog().records().await?.check_deletion(&name)?;
    node.catalog().delete(&name).await.with_context(|| format!("cannot delete the index {name}"))?;
    node.unmount(&name).await?;
    if config.json {
        say_json(&json!({ "index": name, "deleted": true }))?;
    } else {
        say!("{name} is deleted")?;
    }
    Ok(Outcome::Done)
}

/// What is wrong with a split or a pack.
#[derive(Serialize)]
struct Fault {
    /// None of a pack.
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<String>,
    object: String,
    what: String,
}

async fn verify(node: &Node, config: &Config, name: &IndexName) -> Result<(Outcome, Value)> {
    let index = node.index(name).await?;
    let bar = item_progress(Some(index.splits().len() as u64), "splits");
    let mut faults = Vec::new();
    let (meter, mut unchecked) = (Meter::default(), 0);
    for split in index.splits() {
        match verify_split(node, split, &meter).await {
            Ok(has_checksum) => unchecked += u64::from(!has_checksum),
            Err(error) => faults.push(Fault {
                split: Some(split.id.to_string()),
                object: split.object.key.clone(),
                what: format!("{:#}", anyhow::Error::from(error)),
            }),
        }
        bar.inc(1);
    }
    for file in index.files().filter(|file| file.kind == Pack::KIND) {
        for error in verify_pack(node, &index, file, &meter).await {
            let what = format!("{:#}", anyhow::Error::from(error));
            faults.push(Fault { split: None, object: file.object.key.clone(), what });
        }
    }
    bar.finish_and_clear();
    let (bytes, foreign) = (meter.cost().bytes_read, index.foreign().len());
    let outcome = if faults.is_empty() { Outcome::Done } else { Outcome::Partial };
    let document = json!({
        "index": name, "splits": index.splits().len(), "bytes_read": bytes, "faults": faults, "foreign": foreign,
        "parquet_footers_unchecked": unchecked,
    });
    if !config.json {
        for fault in &faults {
            say!("{}: {}", fault.object, fault.what)?;
        }
        say!(
            "{name}: {} checked ({}), {} damaged, {foreign} of other tools",
            show_count(index.splits().len() as u64, "split"),
            show_bytes(bytes),
            faults.len()
        )?;
        if unchecked > 0 {
            let splits = show_count(unchecked, "split");
            say!(
                "{name}: {splits} of an earlier version of Frostline, whose Parquet footer has no checksum"
            )?;
        }
    }
    Ok((outcome, document))
}

/// Reads a pack of hot footers and opens each live split by it. What is wrong with it.
async fn verify_pack(node: &Node, index: &Index, file: &FileEntry, meter: &Meter) -> Vec<Error> {
    let pack = async {
        let bytes = node.repository().get(&file.object.key, meter).await?;
        let about = PackAbout::read(&file.about);
        let about = about.ok_or_else(|| Error::invalid("a newer version of Frostline wrote the pack"))?;
        let directory = bytes.get(..Pack::directory(about.splits).end as usize);
        let directory = directory.ok_or_else(|| Error::corrupt("the pack is shorter than its directory"))?;
        Pack::open(directory, bytes.len() as u64).map(|pack| (bytes.clone(), pack))
    };
    let (bytes, pack) = match pack.await {
        Ok(pack) => pack,
        Err(error) => return vec![error],
    };
    let wrong = |split: SplitId| {
        let place = pack.place(split).filter(|_| index.split(split).is_some())?;
        let footer = bytes.get(place.start as usize..place.end as usize).unwrap_or_default();
        match Split::open(footer) {
            Ok(open) if open.id() == Some(split) => None,
            Ok(_) => {
                Some(Error::corrupt("the pack has the hot footer of another split").with("split", split))
            }
            Err(error) => Some(error.with("split", split)),
        }
    };
    pack.splits().filter_map(wrong).collect()
}

/// Whether the catalog says of a split what the split says.
fn agrees(entry: &SplitEntry, split: &Split) -> frostline_base::Result<()> {
    let counts = (u64::from(split.rows()), u64::from(split.rows_without_time()));
    // The catalog also has the times of a document that the split does not sort by: its further ones.
    let covers = match (entry.times, split.times()) {
        (Some(all), Some(own)) => all.0 <= own.0 && own.1 <= all.1,
        (all, own) => all == own,
    };
    if counts != (entry.rows, entry.rows_without_time) || !covers {
        let what = "the catalog and the split disagree about its rows and times";
        return Err(Error::corrupt(what).with("object", &entry.object.key));
    }
    Ok(())
}

/// Reads and decodes every part of a split. Whether its Parquet footer has a checksum.
async fn verify_split(node: &Node, entry: &SplitEntry, meter: &Meter) -> frostline_base::Result<bool> {
    let whole = Whole { node, entry, meter };
    let split = whole.open().await?;
    let rows = u64::from(split.rows());
    agrees(entry, &split)?;
    let around = whole.read(&[0..4, entry.footer.end..entry.object.bytes], Share::Footer).await?;
    let around: Vec<&[u8]> = around.iter().map(|bytes| bytes.as_ref()).collect();
    let parquet = match around[..] {
        [head, tail] => split.verify_parquet(head, tail)?,
        _ => return Err(Error::internal("a read of two ranges did not return two")),
    };
    whole.know_all(&split).await?;
    let fields: Vec<u16> = split.fields().map(|field| field.number).collect();
    let blocks = whole.blocks(&split.digest_table()).await?;
    let digest = split.digest(&fields, true, blocks.iter().map(|(block, bytes)| (block, bytes.as_ref())))?;
    for field in fields.iter().filter(|_| digest.is_some()) {
        digest.as_ref().map(|digest| digest.values(*field)).transpose()?;
    }
    if split.has_origins() {
        let blocks = whole.blocks(&split.origins_table()).await?;
        let read = || blocks.iter().map(|(block, bytes)| (block, bytes.as_ref()));
        let origins = split.origins(&(0..split.rows()).collect(), read())?;
        if split.rows_near_origins(&origins.into_iter().collect(), read())?.len() != rows {
            return Err(Error::corrupt("not every document is found by its _id"));
        }
    }
    let names: Vec<String> = split.column_names().map(str::to_owned).collect();
    for name in &names {
        let columns = split.columns(&[name], None, TextAs::Plain)?;
        let bytes = whole.read(columns.ranges(), Share::Column).await?;
        columns.decode(bytes).map_err(|e| e.with("column", name))?;
    }
    if split.renders_documents() {
        let mut start = 0;
        while start < split.rows() {
            let rows = start..split.read_together(start + 1);
            let documents = split.documents(Some(&rows.clone().collect()))?;
            let bytes = whole.read(documents.ranges(), Share::Source).await?;
            documents.decode(bytes).map_err(|e| e.with("rows", format!("{rows:?}")))?;
            start = rows.end;
        }
    }
    let (mut stored, mut left) = (Vec::new(), BTreeMap::<u16, Vec<ColumnList>>::new());
    for field in split.fields() {
        if let Postings::Stored { range, .. } = split.exists(field.number)? {
            stored.push(range);
        }
    }
    for dictionary in [split.text(), split.exact(), split.pairs()] {
        for (block, bytes) in whole.blocks(dictionary.table()).await? {
            dictionary.scan(&block, &bytes, &KeyRanges::all(), |entry| match entry.postings {
                Postings::Stored { range, .. } => stored.push(range),
                Postings::Column(list) => left.entry(list.field()).or_default().push(list),
                Postings::All | Postings::Rows(_) => {}
            })?;
        }
    }
    stored.sort_by_key(|range| range.start);
    stored.dedup();
    for chunk in stored.chunks(4_096) {
        for bytes in whole.read(chunk, Share::Index).await? {
            decode_postings(&bytes, split.rows())?;
        }
    }
    for (field, lists) in left {
        let lists = split.column_lists(field, lists)?;
        let bytes = whole.read(lists.ranges(), Share::Column).await?;
        lists.decode(bytes).map_err(|e| e.with("field", field))?;
    }
    Ok(parquet)
}
