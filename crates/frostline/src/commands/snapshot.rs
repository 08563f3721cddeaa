//! `frostline snapshot`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};
use frostline_base::IndexName;
use frostline_catalog::{Records, Restored, Snapshot, SnapshotIndex, TAKEN};
use frostline_node::Node;
use frostline_server::{Chosen, check_snapshot_name, chosen_of_snapshot};
use frostline_show::{Table, note, say, say_json, show_bytes, show_count, suggestion};
use serde_json::{Value, json};

use super::index::iso;
use crate::Outcome;
use crate::args;
use crate::config::Config;

pub(crate) async fn run(config: &Config, given: args::Snapshot) -> Result<Outcome> {
    let node = config.node()?;
    match given {
        args::Snapshot::Create { name, index } => create(&node, config, &name, &index).await,
        args::Snapshot::List => list(&node, config).await,
        args::Snapshot::Show { name } => show(&node, config, &name).await,
        args::Snapshot::Delete { name, yes } => delete(&node, config, &name, yes).await,
        args::Snapshot::Restore { from, no_aliases, dry_run } => {
            let how = How::Restore { with_aliases: !no_aliases };
            bring_back(&node, config, &from, how, dry_run).await
        }
        args::Snapshot::Mount { from, dry_run } => {
            bring_back(&node, config, &from, How::Mount, dry_run).await
        }
    }
}

async fn create(node: &Node, config: &Config, name: &str, expression: &str) -> Result<Outcome> {
    if let Err(why) = check_snapshot_name(name) {
        bail!("{name:?} is no name of a snapshot: it {why}");
    }
    let in_repository = || format!("in {}", node.repository().url());
    let indices = node.catalog().resolve(expression, super::NAMED).await.with_context(in_repository)?;
    if indices.is_empty() {
        bail!("{expression} names no index of {}", node.repository().url());
    }
    // A stream is in the snapshot if all of its indices are.
    let records = node.catalog().records().await?;
    let streams = records.data_streams().iter();
    let streams = streams.filter(|(_, stream)| stream.indices.iter().all(|index| indices.contains(index)));
    let streams: Vec<IndexName> = streams.map(|(name, _)| name.clone()).collect();
    let made = node.catalog().make_snapshot(name, &indices, &streams, None).await.map_err(|error| {
        let exists = error.fact(TAKEN).is_some();
        let error = anyhow::Error::from(error);
        if exists { error.context("choose another name, or delete that one") } else { error }
    })?;
    if config.json {
        say_json(&document(name, &made))?;
    } else {
        let (indices, documents, bytes) = totals(&made);
        say!(
            "{name} keeps {}: {}, {}",
            if indices == 1 { "1 index".to_owned() } else { format!("{indices} indices") },
            show_count(documents, "document"),
            show_bytes(bytes)
        )?;
    }
    Ok(Outcome::Done)
}

async fn list(node: &Node, config: &Config) -> Result<Outcome> {
    let records = node.catalog().records().await?;
    let mut all: Vec<_> = records.snapshots().iter().collect();
    all.sort_by_key(|(_, snapshot)| snapshot.started_ms);
    if config.json {
        let each: Vec<Value> = all.iter().map(|(name, snapshot)| document(name, snapshot)).collect();
        say_json(&json!({ "snapshots": each }))?;
        return Ok(Outcome::Done);
    }
    if all.is_empty() {
        say!("no snapshot in {}: frostline snapshot create NAME makes one", node.repository().url())?;
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&["snapshot", "made", "indices>", "documents>", "size>"]);
    for (name, snapshot) in all {
        let (indices, documents, bytes) = totals(snapshot);
        table.row(vec![
            name.clone(),
            time(snapshot.ended_ms),
            indices.to_string(),
            documents.to_string(),
            show_bytes(bytes),
        ]);
    }
    say!("{table}")?;
    Ok(Outcome::Done)
}

async fn show(node: &Node, config: &Config, name: &str) -> Result<Outcome> {
    let records = node.catalog().records().await?;
    let snapshot = named(&records, name)?;
    if config.json {
        say_json(&document(name, snapshot))?;
        return Ok(Outcome::Done);
    }
    say!("{name}: made {}", time(snapshot.ended_ms))?;
    let mut table = Table::new(&["index", "version>", "documents>", "splits>", "size>", "aliases"]);
    for (index, about) in &snapshot.indices {
        let aliases: Vec<&str> = about.aliases.keys().map(IndexName::as_str).collect();
        table.row(vec![
            index.to_string(),
            about.version.to_string(),
            about.documents.to_string(),
            about.splits.to_string(),
            show_bytes(about.bytes),
            aliases.join(" "),
        ]);
    }
    say!("{table}")?;
    Ok(Outcome::Done)
}

async fn delete(node: &Node, config: &Config, name: &str, yes: bool) -> Result<Outcome> {
    let records = node.catalog().records().await?;
    let id = named(&records, name)?.id.clone();
    super::confirm(&format!("Delete the snapshot {name} in {}", node.repository().url()), name, yes)?;
    node.catalog().delete_snapshot(name, &id).await?;
    if config.json {
        say_json(&json!({ "snapshot": name, "deleted": true }))?;
    } else {
        say!("{name} is deleted; frostline vacuum frees what nothing else needs")?;
    }
    Ok(Outcome::Done)
}

/// How indices are brought back.
#[derive(Clone, Copy)]
enum How {
    /// Their files are copied.
    Restore { with_aliases: bool },
    /// Their files are read where they are.
    Mount,
}

async fn bring_back(
    node: &Node,
    config: &Config,
    from: &args::FromSnapshot,
    how: How,
    dry_run: bool,
) -> Result<Outcome> {
    let records = node.catalog().records().await?;
    let snapshot = named(&records, &from.name)?;
    let renames = from.rename.iter().map(|text| Rename::parse(text)).collect::<Result<Vec<Rename>>>()?;
    let Chosen { mut indices, streams } = choose(&from.name, snapshot, &from.index)?;
    let renamed = |name: &IndexName| -> Result<IndexName> {
        match renames.iter().find_map(|rename| rename.apply(name.as_str())) {
            Some(new) => new.parse().with_context(|| format!("--rename makes {new} of {name}")),
            None => Ok(name.clone()),
        }
    };
    let restored = |index: &IndexName, about: &SnapshotIndex, name: IndexName| {
        let named = Restored { settings: about.settings.clone(), ..Restored::named(index.clone(), name) };
        match how {
            How::Restore { with_aliases: true } => Restored { aliases: about.aliases.clone(), ..named },
            _ => named,
        }
    };
    let mut parts = Vec::new();
    for (of, stream) in streams.into_iter().filter(|_| matches!(how, How::Restore { .. })) {
        let name = renamed(of)?;
        let mut own = Vec::new();
        for index in &stream.indices {
            let Some(about) = indices.remove(index) else { continue };
            // Their names have that of their stream in them.
            let new = index.as_str().replacen(of.as_str(), name.as_str(), 1);
            own.push(restored(index, about, new.parse().with_context(|| format!("--rename of {of}"))?));
        }
        parts.push(Part { stream: Some((of, name)), indices: own });
    }
    for (index, about) in indices {
        parts.push(Part { stream: None, indices: vec![restored(index, about, renamed(index)?)] });
    }
    let mut taken = BTreeMap::new();
    for (of, name) in parts.iter().flat_map(Part::names) {
        if records.has_index(name) || records.data_streams().contains_key(name) {
            bail!(
                "there is {name} already: delete it, or add --rename {of}=OTHER to call this one otherwise"
            );
        }
        if let Some(other) = taken.insert(name, of) {
            bail!("{other} and {of} would both be {name}: give each a name of its own with --rename");
        }
    }
    let is_of_one = |rename: &&Rename<'_>| {
        parts.iter().flat_map(Part::names).any(|(of, _)| rename.apply(of.as_str()).is_some())
    };
    if let Some(unused) = renames.iter().find(|rename| !is_of_one(rename)) {
        bail!("--rename {}={} is of no index that is brought back", unused.from, unused.to);
    }
    let verb = match how {
        How::Restore { .. } => "restored",
        How::Mount => "mounted",
    };
    let mut documents = Vec::new();
    for Part { stream, indices } in &parts {
        if !dry_run {
            let catalog = node.catalog();
            let of = indices.iter().map(|one| one.index.as_str()).collect::<Vec<_>>().join(", ");
            match (how, indices.as_slice()) {
                (How::Mount, [one]) => catalog.mount_snapshot(&from.name, one).await.map(drop),
                _ => {
                    let stream = stream.as_ref().map(|(of, name)| (*of, name));
                    catalog.restore_snapshot(&from.name, indices, stream).await
                }
            }
            .with_context(|| format!("{of} is not {verb}"))?;
        }
        let would = if dry_run { "would be " } else { "is " };
        if let Some((of, name)) = stream.as_ref().filter(|_| !config.json) {
            let called = if *of == name { String::new() } else { format!(" as {name}") };
            say!("the data stream {of} {would}{verb}{called}, with its indices")?;
        }
        for one in indices {
            let about = snapshot.indices.get(&one.index).cloned().unwrap_or_default();
            if config.json {
                documents.push(json!({
                    "index": one.name, "of": one.index, "documents": about.documents, "splits": about.splits,
                    "bytes": about.bytes, "data_stream": stream.as_ref().map(|(_, name)| name),
                }));
                continue;
            }
            let (documents, size) = (show_count(about.documents, "document"), show_bytes(about.bytes));
            let called = if one.name == one.index { String::new() } else { format!(" as {}", one.name) };
            say!("{} {would}{verb}{called}: {documents}, {size}", one.index)?;
        }
    }
    if config.json {
        say_json(&json!({ "snapshot": from.name, "indices": documents, "dry_run": dry_run }))?;
    } else if dry_run {
        note!("nothing was done");
    }
    Ok(Outcome::Done)
}

/// The snapshot of this name.
fn named<'a>(records: &'a Records, name: &str) -> Result<&'a Snapshot> {
    let all = records.snapshots();
    let found = all.get(name).map(|snapshot| snapshot.as_ref());
    found.with_context(|| {
        let meant = suggestion(name, all.keys().map(String::as_str));
        format!("there is no snapshot {name}{meant}")
    })
}

/// What is there at once or not at all: an index, or a data stream with its indices.
struct Part<'a> {
    /// Its name in the snapshot, and from now on.
    stream: Option<(&'a IndexName, IndexName)>,
    indices: Vec<Restored>,
}

impl Part<'_> {
    /// The names in the snapshot, and from now on.
    fn names(&self) -> impl Iterator<Item = (&IndexName, &IndexName)> {
        let stream = self.stream.iter().map(|(of, name)| (*of, name));
        stream.chain(self.indices.iter().map(|each| (&each.index, &each.name)))
    }
}

/// The indices and data streams of a snapshot that an expression names.
fn choose<'a>(name: &str, snapshot: &'a Snapshot, expression: &str) -> Result<Chosen<'a>> {
    let parts = expression.split(',').map(str::trim).filter(|part| !part.is_empty());
    let streams = snapshot.data_streams.iter();
    let chosen = chosen_of_snapshot(snapshot.indices.iter(), streams, parts, false).map_err(|missing| {
        let meant = suggestion(missing, snapshot.indices.keys().map(IndexName::as_str));
        anyhow!("the snapshot {name} has no index {missing}{meant}")
    })?;
    if chosen.indices.is_empty() {
        bail!("--index {expression} names no index of the snapshot {name}");
    }
    Ok(chosen)
}

/// What some indices are called when they are brought back.
struct Rename<'a> {
    from: &'a str,
    to: &'a str,
}

impl<'a> Rename<'a> {
    fn parse(text: &'a str) -> Result<Rename<'a>> {
        let pair = text.split_once('=').filter(|(from, to)| {
            let stars = |text: &str| text.matches('*').count();
            !from.is_empty() && !to.is_empty() && stars(from) <= 1 && stars(to) <= stars(from)
        });
        let (from, to) = pair.with_context(|| {
            format!("--rename {text} is not a pair such as web=web-old or logs-*=old-*, with a * at most once in each")
        })?;
        Ok(Rename { from, to })
    }

    /// The other name of an index; none where it is of another one.
    fn apply(&self, index: &str) -> Option<String> {
        let Some((start, end)) = self.from.split_once('*') else {
            return (self.from == index).then(|| self.to.to_owned());
        };
        let rest = index.strip_prefix(start)?.strip_suffix(end)?;
        Some(self.to.replacen('*', rest, 1))
    }
}

fn totals(snapshot: &Snapshot) -> (u64, u64, u64) {
    let sum = |of: fn(&SnapshotIndex) -> u64| snapshot.indices.values().map(of).sum();
    (snapshot.indices.len() as u64, sum(|about| about.documents), sum(|about| about.bytes))
}

fn time(ms: i64) -> String {
    iso(ms.saturating_mul(1_000))
}

fn document(name: &str, snapshot: &Snapshot) -> Value {
    let indices = snapshot.indices.iter().map(|(index, about)| {
        json!({
            "index": index, "version": about.version, "documents": about.documents, "splits": about.splits,
            "bytes": about.bytes, "aliases": about.aliases.keys().collect::<Vec<_>>(),
        })
    });
    json!({
        "snapshot": name, "id": snapshot.id, "started": time(snapshot.started_ms), "ended": time(snapshot.ended_ms),
        "indices": indices.collect::<Vec<Value>>(), "data_streams": snapshot.data_streams.keys().collect::<Vec<_>>(),
        "metadata": snapshot.metadata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_exchanged_or_a_part_of_it() {
        let renamed = |text: &str, index: &str| Rename::parse(text).unwrap().apply(index);
        assert_eq!(renamed("web=old", "web").as_deref(), Some("old"));
        assert_eq!(renamed("web=old", "web-1"), None);
        assert_eq!(renamed("web-*=old-*-x", "web-1").as_deref(), Some("old-1-x"));
        assert_eq!(renamed("*=old-*", "web").as_deref(), Some("old-web"));
        assert_eq!(renamed("a*a=b", "a"), None);
        for text in ["web", "=b", "a=", "a=b*", "a**=b", "*=**"] {
            assert!(Rename::parse(text).is_err(), "{text}");
        }
    }
}
