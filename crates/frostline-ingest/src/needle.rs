//! Needle segments: written with each split, merged into larger ones, made again and checked.
//!
//! **Advisory.** A search without segments gives the same answers and opens more splits. So nothing here fails an ingest,
//! and a segment that is missing or damaged is told and passed over, never merged.

mod administer;
mod segments;

use frostline_base::{Error, ErrorKind, Result, SplitId};
use frostline_catalog::{Catalog, Index};
use frostline_needle::{About, FieldNumber, Kinds, RunWriter, Scope, Segment, Term, TermKey};
use frostline_split::{ORIGIN_FIELD, SplitWriter, TERMS_VERSION, Term as SplitTerm, ValueType};

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
        let scope = Scope { table: index.table_id().to_owned(), analyser: TERMS_VERSION };
        Terms { scope, key: TermKey::from_random(key) }
    }

    fn open(&self, directory: &[u8]) -> Result<Segment> {
        Segment::open(directory, &self.scope, &self.key)
    }

    /// The run of a split that is about to be sealed under this identity.
    pub(crate) fn run(&self, writer: &SplitWriter, id: SplitId) -> Result<(Vec<u8>, About)> {
        let mut terms = self.run_writer(id);
        add_terms(&mut terms, writer);
        sealed(terms)
    }

    fn run_writer(&self, id: SplitId) -> RunWriter {
        RunWriter::new(self.scope.clone(), self.key, id)
    }
}

/// Adds the terms of all documents.
fn add_terms(run: &mut RunWriter, writer: &SplitWriter) {
    // All readings of a path are one field. Each is named, whether it has terms or not.
    let readings: Vec<(FieldNumber, ValueType)> =
        writer.readings().map(|(path, ty)| (run.field(path), ty)).collect();
    writer.each_term(|reading, term| {
        let Some((field, ty)) = readings.get(reading).copied() else { return };
        match term {
            Some(term) => run.add(field, asked(&term)),
            None => run.leave_out(field, kinds_without_terms(ty)),
        }
    });
    for split in writer.origin_splits() {
        let field = run.field(ORIGIN_FIELD);
        run.add(field, asked(&SplitTerm::of_origin(*split)));
    }
}

fn asked<'t>(term: &'t SplitTerm<'_>) -> Term<'t> {
    match term {
        SplitTerm::Token(token) => Term::Token(token),
        SplitTerm::Value(value) => Term::Value(value.as_bytes()),
    }
}

/// What values of this type are that have no term.
fn kinds_without_terms(ty: ValueType) -> Kinds {
    match ty {
        ValueType::Double => Kinds::FRACTION,
        ValueType::Date => Kinds::DATE,
        // All of these have terms; whatever has none is in every answer.
        _ => Kinds::ALL,
    }
}

fn sealed(run: RunWriter) -> Result<(Vec<u8>, About)> {
    let mut file = Vec::new();
    let written = run.seal(&mut file)?;
    if written.bytes != file.len() as u64 {
        return Err(Error::internal("a run of terms does not have the stated length"));
    }
    Ok((file, written.about))
}

#[cfg(test)]
mod tests;
