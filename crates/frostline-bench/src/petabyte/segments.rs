//! Needle segments over all names: the runs of the bases, one copy for each name, merged as a writer merges them.

use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use frostline_base::{ByteRange, Meter, ObjectRef, SplitId};
use frostline_catalog::{FileEntry, Index};
use frostline_needle::{About, Input, KIND, MergeOptions, SPLITS_MAX, Scope, Segment, TermKey, merge};
use frostline_node::Node;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;

use super::bases::Base;
use super::names::Name;
use crate::Limits;

/// Segments that are merged at a time.
const AT_A_TIME: usize = 2;

/// All segments together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Size {
    pub(super) segments: usize,
    pub(super) bytes: u64,
    pub(super) directory_bytes: u64,
    pub(super) pages: usize,
    /// Pairs of a term and a split.
    pub(super) pairs: u64,
}

/// The run of a base.
struct Run {
    segment: Segment,
    bytes: Bytes,
}

/// Writes a segment for each 1,024 names, and returns what the catalog has to name.
pub(super) async fn write(
    node: &Node,
    index: &Index,
    bases: &[Base],
    names: &[Name],
    limits: &Limits,
) -> Result<(Vec<FileEntry>, Size)> {
    let key = node.catalog().term_key().await?.context("ingest has made no key of terms")?;
    let key = TermKey::from_random(key);
    let runs = stream::iter(bases).then(|base| Run::of(node, base, &key)).try_collect::<Vec<_>>().await?;
    let runs = Arc::new(runs);
    let written = names.chunks(SPLITS_MAX).map(|names| {
        let (runs, names, table) = (Arc::clone(&runs), names.to_vec(), index.table_id().to_owned());
        let id = SplitId::from_random((limits.random)());
        async move {
            let merged = tokio::task::spawn_blocking(move || merged(&runs, &names, &table)).await??;
            let key = index.file_key(id, KIND);
            node.repository().put(&key, merged.bytes.clone()).await?;
            let object = ObjectRef { key, bytes: merged.bytes.len() as u64 };
            let about = merged.about.to_json();
            anyhow::Ok((FileEntry { id, kind: KIND.to_owned(), object, about }, merged.size))
        }
    });
    let written: Vec<_> = stream::iter(written).buffered(AT_A_TIME).try_collect().await?;
    let (files, sizes): (Vec<FileEntry>, Vec<Size>) = written.into_iter().unzip();
    Ok((files, sizes.into_iter().fold(Size::default(), Size::and)))
}

struct Merged {
    bytes: Bytes,
    about: About,
    size: Size,
}

fn merged(runs: &[Run], names: &[Name], table: &str) -> Result<Merged> {
    let inputs = names.iter().map(|name| {
        let run = runs.get(name.base).context("a name has no base")?;
        let segment = Arc::new(run.segment.renamed(table, vec![name.id])?);
        let bytes = run.bytes.clone();
        let read = move |range: ByteRange| Ok(bytes.slice(range.start as usize..range.end as usize));
        anyhow::Ok(Input { segment, read })
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let options = MergeOptions { grows_to: names.len(), ..MergeOptions::default() };
    let mut bytes = Vec::new();
    let written = merge(inputs, |_| true, options, &mut bytes)?;
    let size = Size {
        segments: 1,
        bytes: written.bytes,
        directory_bytes: written.directory.end - written.directory.start,
        pages: written.pages,
        pairs: written.pairs,
    };
    Ok(Merged { bytes: bytes.into(), about: written.about, size })
}

impl Run {
    async fn of(node: &Node, base: &Base, key: &TermKey) -> Result<Run> {
        let index = &base.index;
        let mut files = index.files().filter(|file| file.kind == KIND);
        let file =
            files.next().with_context(|| format!("ingest has written no terms of {}", index.name()))?;
        let about = About::of_splits(KIND, &file.about).context("terms of another version")?;
        let directory = about.directory(file.object.bytes).context("a run is too short")?;
        let bytes = node.repository().get(&file.object.key, &Meter::default()).await?;
        let scope = Scope::of_splits(index.terms_table());
        let range = directory.start as usize..directory.end as usize;
        let segment =
            Segment::open(bytes.get(range).context("a run is shorter than its catalog says")?, &scope, key)?;
        Ok(Run { segment, bytes })
    }
}

impl Size {
    fn and(self, other: Size) -> Size {
        Size {
            segments: self.segments + other.segments,
            bytes: self.bytes + other.bytes,
            directory_bytes: self.directory_bytes + other.directory_bytes,
            pages: self.pages + other.pages,
            pairs: self.pairs + other.pairs,
        }
    }
}
