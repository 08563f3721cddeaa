//! Catalogs of the bases under many names, made by commits as a writer makes them.

use anyhow::{Context, Result};
use frostline_catalog::{Change, FileEntry, Index, Settings};
use frostline_node::Node;
use frostline_split::Mapping;

use super::bases::Base;
use super::names::Name;

/// Splits of one commit.
const COMMIT_SPLITS: usize = 10_000;

/// Creates an index without splits, with the fields of all bases. One of that name, of a run that was kept, goes.
pub(super) async fn create(node: &Node, name: &str, bases: &[Base]) -> Result<Index> {
    let mut mapping: Option<Mapping> = None;
    for base in bases {
        match &mut mapping {
            None => mapping = Some(base.index.mapping().clone()),
            Some(mapping) => {
                mapping.merge(base.index.mapping())?;
            }
        }
    }
    let mapping = mapping.context("there are no bases")?;
    let name = name.parse()?;
    if node.catalog().list().await?.contains(&name) {
        node.catalog().delete(&name).await?;
    }
    Ok(node.catalog().create(&name, mapping, Settings::default()).await?)
}

/// Commits splits, then further files, and writes a checkpoint.
pub(super) async fn commit_all(
    mut index: Index,
    bases: &[Base],
    names: &[Name],
    files: Vec<FileEntry>,
) -> Result<Index> {
    for names in names.chunks(COMMIT_SPLITS) {
        index = commit(&index, bases, names).await?;
    }
    if !files.is_empty() {
        let change = Change { files_add: files, operation: "needle".to_owned(), ..Change::default() };
        index = index.commit(change).await?;
    }
    Ok(index.checkpoint().await?)
}

/// One commit of some splits.
pub(super) async fn commit(index: &Index, bases: &[Base], names: &[Name]) -> Result<Index> {
    let add = names.iter().filter_map(|name| name.entry(index, bases)).collect();
    let change = Change { add, operation: "ingest".to_owned(), ..Change::default() };
    Ok(index.commit(change).await?)
}
