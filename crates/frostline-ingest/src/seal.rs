//! Seals splits and uploads each with the run of its terms.

use bytes::Bytes;
use frostline_base::{Error, ErrorKind, ObjectRef, Result, SplitId};
use frostline_catalog::{FileEntry, Index, SplitEntry};
use frostline_needle::{About, KIND};
use frostline_split::{Mapping, SplitWriter};
use frostline_store::Repository;

use crate::needle::{self, Terms};
use crate::pipeline::Random;

/// Where splits are written to.
#[derive(Clone)]
pub(crate) struct Output {
    pub(crate) index: Index,
    pub(crate) repository: Repository,
    pub(crate) random: Random,
    pub(crate) runtime: tokio::runtime::Handle,
    /// For the runs, where the index has any.
    pub(crate) terms: Option<Terms>,
}

/// A split that is uploaded and not live yet.
pub(crate) struct NewSplit {
    pub(crate) entry: SplitEntry,
    /// The run of its terms.
    pub(crate) run: Option<FileEntry>,
    pub(crate) mapping: Mapping,
    pub(crate) source_bytes: u64,
    pub(crate) index_bytes: u64,
}

impl NewSplit {
    /// The keys of what was uploaded.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        let run = self.run.iter().map(|run| run.object.key.as_str());
        std::iter::once(self.entry.object.key.as_str()).chain(run)
    }
}

impl Output {
    /// Writes a split, and the run of its terms, to where the index wants them. Nothing names them until they are
    /// committed. Blocks: not for a thread of the runtime.
    pub(crate) fn seal(&self, writer: SplitWriter) -> Result<NewSplit> {
        let id = new_id(&self.random);
        let (mut file, mut run) = (Vec::new(), self.terms.as_ref().map(|terms| terms.run(id)));
        let sealed = match &mut run {
            Some(run) => writer.seal_with_terms(id, &mut file, run)?,
            None => writer.seal(id, &mut file)?,
        };
        let run = run.and_then(|run| unless_failed(id, needle::sealed(run)));
        if sealed.bytes != file.len() as u64 {
            return Err(Error::internal("a sealed split does not have the stated length"));
        }
        let key = self.index.split_key(id);
        let uploads = async {
            self.repository.put(&key, file.into()).await?;
            match run {
                Some((run, about)) => self.put_run(id, run.into(), &about).await,
                None => Ok(None),
            }
        };
        let run = self.runtime.block_on(uploads)?;
        let entry = SplitEntry {
            id,
            object: ObjectRef { key, bytes: sealed.bytes },
            footer: sealed.footer,
            rows: u64::from(sealed.rows),
            times: sealed.times,
            rows_without_time: u64::from(sealed.rows_without_time),
            unpacked_bytes: Some(sealed.unpacked_bytes),
        };
        let index_bytes = sealed.parts.index();
        Ok(NewSplit { entry, run, mapping: sealed.mapping, source_bytes: sealed.source_bytes, index_bytes })
    }

    /// Uploads the run of a split. None where the store refuses it, which is no reason to refuse the split.
    async fn put_run(&self, split: SplitId, run: Bytes, about: &About) -> Result<Option<FileEntry>> {
        let (id, bytes) = (new_id(&self.random), run.len() as u64);
        let key = self.index.file_key(id, KIND);
        match self.repository.put(&key, run).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => Err(error),
            put => Ok(unless_failed(split, put).map(|()| segment_entry(&self.index, id, bytes, about))),
        }
    }
}

/// What the catalog says of a segment that was uploaded under this identity.
pub(crate) fn segment_entry(index: &Index, id: SplitId, bytes: u64, about: &About) -> FileEntry {
    let object = ObjectRef { key: index.file_key(id, KIND), bytes };
    FileEntry { id, kind: KIND.to_owned(), object, about: about.to_json() }
}

/// A segment only spares searches the splits without their terms, so its failure is told, and nothing else fails.
fn unless_failed<T>(split: SplitId, done: Result<T>) -> Option<T> {
    done.inspect_err(|error| {
        tracing::warn!(%split, ?error, "the terms of a split are in no needle segment: searches will open it");
    })
    .ok()
}

/// Creates the identity of a new split or segment.
pub(crate) fn new_id(random: &Random) -> SplitId {
    SplitId::from_random(random())
}
