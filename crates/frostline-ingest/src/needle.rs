//! Needle segments: written with each split, merged into larger ones, made again and checked.
//!
//! **Advisory.** A search without segments gives the same answers and opens more splits. So nothing here fails an ingest,
//! and a segment that is missing or damaged is told and passed over, never merged.

mod administer;
mod segments;

use frostline_base::{Error, ErrorKind, Result, SplitId};
use frostline_catalog::{Catalog, Index};
use frostline_needle::{About, RunWriter, Scope, Segment, TermKey};

use crate::pipeline::Random;

pub use administer::{Needles, Rebuilt, SegmentState, SegmentStatus, Status, Unread, Verified};
pub(crate) use segments::{Extent, Segments, dead_files};

/// What the terms of an index are, for who writes them.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    scope: Scope,
    key: TermKey,
}

impl Terms {
    /// Those of an index whose settings want segments. None where the repository's key cannot be had: that is told, and
    /// is no reason to refuse documents.
    pub(crate) async fn of(catalog: &Catalog, index: &Index, random: &Random) -> Result<Option<Terms>> {
        if !index.settings().needle {
            return Ok(None);
        }
        match catalog.term_key_or(random().to_le_bytes()).await {
            Ok(key) => Ok(Some(Terms::new(index, key))),
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::NotFound) => Err(error),
            Err(error) => {
                tracing::warn!(index = %index.name(), ?error, "without its key of terms no needle segments are written");
                Ok(None)
            }
        }
    }

    fn new(index: &Index, key: [u8; 16]) -> Terms {
        Terms { scope: Scope::of_splits(index.terms_table()), key: TermKey::from_random(key) }
    }

    fn open(&self, directory: &[u8]) -> Result<Segment> {
        Segment::open(directory, &self.scope, &self.key)
    }

    /// A run of the split of this identity, which has no terms yet.
    pub(crate) fn run(&self, id: SplitId) -> RunWriter {
        RunWriter::new(self.scope.clone(), self.key, id)
    }
}

/// The file of a run.
pub(crate) fn sealed(run: RunWriter) -> Result<(Vec<u8>, About)> {
    let mut file = Vec::new();
    let written = run.seal(&mut file)?;
    if written.bytes != file.len() as u64 {
        return Err(Error::internal("a run of terms does not have the stated length"));
    }
    Ok((file, written.about))
}

#[cfg(test)]
mod tests;
