//! Seals splits and uploads each with the run of its terms.

use bytes::Bytes;
use frostline_base::{Error, ErrorKind, ObjectRef, Result, SplitId};
use frostline_catalog::{FileEntry, Index, SplitEntry};
use frostline_needle::{About, KIND};
use frostline_split::{Identity, Mapping, Sealed, SplitWriter};
use frostline_store::Repository;
use serde_json::Value;

use crate::lines::Refusal;
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
    /// Its hot footer.
    pub(crate) footer: Bytes,
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

/// A split that is written and not uploaded yet.
pub(crate) struct WrittenSplit {
    id: SplitId,
    file: Bytes,
    /// The run of its terms.
    run: Option<(Bytes, About)>,
    sealed: Sealed,
}

impl WrittenSplit {
    /// Its identity.
    pub(crate) fn id(&self) -> SplitId {
        self.id
    }

    /// Which document each row is, counted in the order in which they were added.
    pub(crate) fn order(&self) -> &[u32] {
        &self.sealed.order
    }

    /// The fields of the split, and those that its writer knew before.
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.sealed.mapping
    }
}

impl Output {
    /// Writes a split, and the run of its terms, to where the index wants them. Nothing names them until they are
    /// committed. Blocks: not for a thread of the runtime.
    pub(crate) fn seal(&self, writer: SplitWriter) -> Result<NewSplit> {
        let written = self.write(writer)?;
        self.runtime.block_on(self.upload(written))
    }

    /// Writes a split, and the run of its terms, to memory.
    pub(crate) fn write(&self, writer: SplitWriter) -> Result<WrittenSplit> {
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
        Ok(WrittenSplit { id, file: file.into(), run: run.map(|(run, about)| (run.into(), about)), sealed })
    }

    /// Uploads a split and the run of its terms at the same time.
    pub(crate) async fn upload(&self, split: WrittenSplit) -> Result<NewSplit> {
        let WrittenSplit { id, file, run, sealed } = split;
        let key = self.index.split_key(id);
        let (start, end) = (sealed.footer.start as usize, sealed.footer.end as usize);
        // A slice would hold the whole file.
        let footer = file.get(start..end).map(Bytes::copy_from_slice).unwrap_or_default();
        let run = async {
            match run {
                Some((run, about)) => self.put_run(id, run, &about).await,
                None => Ok(None),
            }
        };
        let (put, run) = futures::join!(self.repository.put(&key, file), run);
        put?;
        let run = run?;
        let entry = SplitEntry::new(id, key, &sealed);
        let index_bytes = sealed.parts.index();
        let Sealed { mapping, source_bytes, .. } = sealed;
        Ok(NewSplit { entry, footer, run, mapping, source_bytes, index_bytes })
    }

    /// Uploads the run of a split. None where the store refuses it, which is no reason to refuse the split.
    async fn put_run(&self, split: SplitId, run: Bytes, about: &About) -> Result<Option<FileEntry>> {
        let (id, bytes) = (new_id(&self.random), run.len() as u64);
        let key = self.index.file_key(id, KIND);
        match self.repository.put(&key, run).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => Err(error),
            put => {
                Ok(unless_failed(split, put)
                    .map(|()| file_entry(&self.index, id, KIND, bytes, about.to_json())))
            }
        }
    }
}

/// The fields of all splits.
pub(crate) fn mapping_of<'a>(splits: impl Iterator<Item = &'a NewSplit>) -> Result<Option<Mapping>> {
    let mut all: Option<Mapping> = None;
    for split in splits {
        match &mut all {
            Some(mapping) => drop(mapping.merge(&split.mapping)?),
            None => all = Some(split.mapping.clone()),
        }
    }
    Ok(all)
}

/// What became of a document that was offered to a writer.
pub(crate) enum Offer {
    Taken,
    Refused(Refusal),
    /// The split must be sealed first.
    Full,
}

/// The only place where an error becomes a refusal: the writer's answer to a document, before anything is sealed.
pub(crate) fn offer(writer: &mut SplitWriter, document: &[u8], identity: Option<&Identity>) -> Result<Offer> {
    match writer.add_new(document, identity) {
        Ok(()) => Ok(Offer::Taken),
        Err(error) => match error.kind() {
            ErrorKind::Invalid => Ok(Offer::Refused(Refusal::new(error.to_string()))),
            ErrorKind::Exhausted => Ok(Offer::Full),
            _ => Err(error),
        },
    }
}

/// What the catalog says of a further file that is uploaded under this identity.
pub(crate) fn file_entry(index: &Index, id: SplitId, kind: &str, bytes: u64, about: Value) -> FileEntry {
    let object = ObjectRef { key: index.file_key(id, kind), bytes };
    FileEntry { id, kind: kind.to_owned(), object, about }
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
