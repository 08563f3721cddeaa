//! `frostline doctor --repo`: whether a repository is whole.
//!
//! One LIST of each index says which objects are there and how long they are. Without `--full` the hot footer of each
//! split and the directory of each segment are read; with it, everything.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use frostline_base::{ErrorKind, IndexName, Meter, SplitId};
use frostline_catalog::{Deleted, Index, Reason, Resolve, Vacuum};
use frostline_ingest::{Needles, SegmentState, retention};
use frostline_node::{Node, Whole};
use frostline_show::{Table, item_progress, printable, say, say_json, show_bytes, show_count};
use frostline_split::Pack;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;

use super::retain::show_kept;
use super::{agrees, verify_pack, verify_split};
use crate::Outcome;
use crate::commands::ingest::random;
use crate::config::Config;

/// Concurrent requests.
const AT_ONCE: usize = 32;
const FAULTS_SHOWN: usize = 50;

/// What is wrong.
#[derive(Debug, Serialize)]
struct Fault {
    index: IndexName,
    /// The object, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    what: String,
}

/// What was checked of one index.
#[derive(Debug, Serialize)]
struct Checked {
    index: IndexName,
    version: u64,
    splits: usize,
    documents: u64,
    bytes: u64,
    /// Splits by the version of their format.
    formats: BTreeMap<u32, u64>,
    segments: usize,
    /// Splits without a readable segment: every search for a term opens them.
    uncovered: usize,
    packs: usize,
    /// Files of other tools, which cannot be searched.
    foreign: usize,
    retention_ms: Option<u64>,
    pins: usize,
    /// What a vacuum with the usual times would delete, and what it would leave for being young.
    removed: Unneeded,
    orphans: Unneeded,
    young: u64,
}

#[derive(Debug, Default, Serialize)]
struct Unneeded {
    objects: u64,
    bytes: u64,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    repository: String,
    full: bool,
    indices: Vec<Checked>,
    /// Objects of deleted indices that a vacuum would delete.
    of_deleted_indices: Unneeded,
    bytes_read: u64,
    faults: Vec<Fault>,
}

pub(crate) async fn run(config: &Config, full: bool) -> Result<Outcome> {
    let node = config.node()?;
    let meter = Meter::default();
    let mut report = Report { repository: node.repository().url().to_owned(), full, ..Report::default() };
    let found = node.catalog().open_all("*", Resolve::default(), |_| None).await;
    let found =
        found.with_context(|| format!("cannot read which indices are in {}", node.repository().url()))?;
    if found.is_empty() && node.catalog().seen_records().is_none() {
        bail!(
            "there is no repository of indices in {}: it has neither a log of indices (_frostline/log) nor an index. Check the \
             URL; snapshots of directories are checked by frostline volume verify",
            node.repository().url()
        );
    }
    for (index, opened) in found {
        match opened {
            Ok(opened) => {
                let checked = check(&node, config, &opened, full, &meter, &mut report.faults).await?;
                report.indices.push(checked);
            }
            // What is not allowed or not reached says nothing about the index.
            Err(e) if matches!(e.kind(), ErrorKind::Denied | ErrorKind::Refused | ErrorKind::Unavailable) => {
                return Err(e).with_context(|| format!("cannot read the index {index}"));
            }
            Err(error) => {
                let what = format!("its log cannot be read: {:#}", anyhow::Error::from(error));
                report.faults.push(Fault { index, object: None, what });
            }
        }
    }
    let wanted = Vacuum { dry_run: true, ..Vacuum::default() };
    report.of_deleted_indices = unneeded(node.catalog().vacuum_deleted(&wanted).await?.deleted.iter());
    report.bytes_read = meter.cost().bytes_read;
    if config.json {
        say_json(&report)?;
    } else {
        print(&report)?;
    }
    node.close().await;
    Ok(if report.faults.is_empty() { Outcome::Done } else { Outcome::Partial })
}

async fn check(
    node: &Node,
    config: &Config,
    index: &Index,
    full: bool,
    meter: &Meter,
    faults: &mut Vec<Fault>,
) -> Result<Checked> {
    let name = index.name();
    let there = objects_of(node, index).await?;
    let wrong =
        |object: &str, what: String| Fault { index: name.clone(), object: Some(object.to_owned()), what };
    let splits = index.splits().iter().map(|split| &split.object);
    for object in splits.chain(index.files().map(|file| &file.object)) {
        match there.get(&object.key) {
            None => faults.push(wrong(&object.key, "the object is missing".to_owned())),
            Some(bytes) if *bytes != object.bytes => faults.push(wrong(
                &object.key,
                format!("the object has {bytes} bytes and the catalog says {}", object.bytes),
            )),
            Some(_) => {}
        }
    }
    let bar = item_progress(Some(index.splits().len() as u64), "splits");
    // What the list says of an object is said once.
    let sound =
        index.splits().iter().filter(|split| there.get(&split.object.key) == Some(&split.object.bytes));
    let opened = stream::iter(sound).map(async |entry| {
        let whole = Whole { node, entry, meter };
        let opened = async {
            let split = whole.footer().await?;
            agrees(entry, &split)?;
            if full {
                verify_split(node, entry, meter).await?;
            }
            Ok::<_, frostline_base::Error>(split.version())
        };
        let opened = opened.await;
        bar.inc(1);
        (entry, opened)
    });
    // Of whole splits, few at a time: each is held in memory.
    let opened: Vec<_> = opened.buffer_unordered(if full { 2 } else { AT_ONCE }).collect().await;
    bar.finish_and_clear();
    let mut formats = BTreeMap::new();
    for (entry, opened) in opened {
        match opened {
            Ok(version) => *formats.entry(version).or_insert(0) += 1,
            Err(e) if matches!(e.kind(), ErrorKind::Denied | ErrorKind::Unavailable) => return Err(e.into()),
            Err(error) => faults.push(wrong(&entry.object.key, format!("{:#}", anyhow::Error::from(error)))),
        }
    }
    let packs: Vec<_> = index.files().filter(|file| file.kind == Pack::KIND).collect();
    for pack in packs.iter().filter(|pack| full && there.get(&pack.object.key) == Some(&pack.object.bytes)) {
        for error in verify_pack(node, index, pack, meter).await {
            faults.push(wrong(&pack.object.key, format!("{:#}", anyhow::Error::from(error))));
        }
    }
    let needles = Needles::new(node.repository(), node.catalog(), random(), config.memory_bytes_max);
    let status = needles.status(name).await?;
    let damaged = status.segments.iter().filter(|segment| segment.state == SegmentState::Damaged);
    for segment in damaged.filter(|segment| there.contains_key(&segment.object)) {
        let what = segment.error.clone().unwrap_or_else(|| "the segment is damaged".to_owned());
        faults.push(wrong(&segment.object, what));
    }
    if full {
        match needles.verify(name, |_, _| {}).await {
            Ok(verified) => {
                for unread in verified.faults {
                    let is_known = faults.iter().any(|fault| fault.object.as_deref() == Some(&unread.object));
                    if !is_known {
                        faults.push(wrong(&unread.object, unread.what));
                    }
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::Denied | ErrorKind::Unavailable) => return Err(e.into()),
            // A split that cannot be read is a fault of its own.
            Err(error) => {
                let what = format!("segments are not compared with splits: {:#}", anyhow::Error::from(error));
                faults.push(Fault { index: name.clone(), object: None, what });
            }
        }
    }
    let vacuum = index.vacuum(&Vacuum { dry_run: true, ..Vacuum::default() }).await?;
    let of = |reason: Reason| unneeded(vacuum.deleted.iter().filter(|deleted| deleted.reason == reason));
    let pins = there.keys().filter(|key| key.contains("/_pins/")).count();
    Ok(Checked {
        index: name.clone(),
        version: index.version(),
        splits: index.splits().len(),
        documents: index.splits().iter().map(|split| split.rows).sum(),
        bytes: index.splits().iter().map(|split| split.object.bytes).sum(),
        formats,
        segments: status.segments.len(),
        uncovered: status.splits - status.covered,
        packs: packs.len(),
        foreign: index.foreign().len(),
        retention_ms: retention(index, node.catalog().seen_records().as_ref())?
            .map(|kept| kept.as_millis() as u64),
        pins: pins.saturating_sub(of(Reason::Pin).objects as usize),
        removed: of(Reason::Removed),
        orphans: of(Reason::Orphan),
        young: vacuum.kept,
    })
}

/// The objects below an index, with their lengths.
async fn objects_of(node: &Node, index: &Index) -> Result<BTreeMap<String, u64>> {
    let any = index.split_key(SplitId::from_random(0));
    // A split is in a folder of its own in that of the index.
    let folder = any.rsplitn(3, '/').nth(2).unwrap_or_default().to_owned();
    let listed = node.repository().list(&folder).map_ok(|object| (object.key, object.bytes));
    listed.try_collect().await.with_context(|| format!("cannot list {folder}"))
}

fn unneeded<'a>(deleted: impl Iterator<Item = &'a Deleted>) -> Unneeded {
    deleted.fold(Unneeded::default(), |sum, deleted| Unneeded {
        objects: sum.objects + 1,
        bytes: sum.bytes.saturating_add(deleted.bytes),
    })
}

fn print(report: &Report) -> Result<()> {
    let mut table = Table::new(&[
        "index",
        "version>",
        "splits>",
        "documents>",
        "size>",
        "format",
        "segments>",
        "uncovered>",
        "packs>",
        "kept",
        "pins>",
        "removed>",
        "orphans>",
    ]);
    for checked in &report.indices {
        let formats: Vec<String> = checked.formats.keys().map(u32::to_string).collect();
        let kept = checked.retention_ms.map(std::time::Duration::from_millis);
        table.row(vec![
            checked.index.to_string(),
            checked.version.to_string(),
            checked.splits.to_string(),
            checked.documents.to_string(),
            show_bytes(checked.bytes),
            formats.join(", "),
            checked.segments.to_string(),
            checked.uncovered.to_string(),
            checked.packs.to_string(),
            kept.map_or_else(|| "forever".to_owned(), show_kept),
            checked.pins.to_string(),
            checked.removed.objects.to_string(),
            checked.orphans.objects.to_string(),
        ]);
    }
    if !report.indices.is_empty() {
        say!("{table}")?;
    }
    for fault in report.faults.iter().take(FAULTS_SHOWN) {
        let object = fault.object.as_ref().map_or(String::new(), |object| format!("{object}: "));
        say!("{}: {}{}", fault.index, printable(&object), printable(&fault.what))?;
    }
    if report.faults.len() > FAULTS_SHOWN {
        say!(
            "and {} more, which --json prints",
            show_count((report.faults.len() - FAULTS_SHOWN) as u64, "fault")
        )?;
    }
    let foreign: usize = report.indices.iter().map(|checked| checked.foreign).sum();
    if foreign > 0 {
        say!("{} of other tools cannot be searched", show_count(foreign as u64, "file"))?;
    }
    let unneeded = |pick: fn(&Checked) -> &Unneeded| -> u64 {
        report.indices.iter().map(|checked| pick(checked).bytes).sum()
    };
    let bytes = unneeded(|c| &c.removed) + unneeded(|c| &c.orphans) + report.of_deleted_indices.bytes;
    if bytes > 0 {
        say!("{} are no longer needed: frostline vacuum deletes them", show_bytes(bytes))?;
    }
    say!(
        "{} of {} checked ({} read), {}{}",
        match report.indices.len() {
            1 => "1 index".to_owned(),
            count => format!("{count} indices"),
        },
        report.repository,
        show_bytes(report.bytes_read),
        show_count(report.faults.len() as u64, "fault"),
        if report.full { "" } else { "; --full reads everything" }
    )?;
    Ok(())
}
