//! Writes a split anew without some of its documents.

use std::sync::Arc;

use frostline_base::{Error, Result};
use frostline_catalog::SplitEntry;
use frostline_split::{SplitWriter, WriterOptions};
use roaring::RoaringBitmap;

use crate::documents::{BlockingReads, Documents};
use crate::seal::{NewSplit, Output};

/// About how many times more memory the documents of a split take than its object, where the catalog does not say it.
const UNPACKED: u64 = 8;

/// About how much memory the documents of a split take while they are written anew.
pub(super) fn bytes(entry: &SplitEntry) -> u64 {
    entry.unpacked_bytes.unwrap_or(entry.object.bytes.saturating_mul(UNPACKED))
}

/// The split without the documents of these rows; none where no other is left, and then it is not read. Those that stay keep
/// their `_id`s. Blocks: not for a thread of the runtime.
pub(super) fn without(
    reads: &BlockingReads,
    output: &Output,
    entry: &Arc<SplitEntry>,
    rows: &RoaringBitmap,
) -> Result<Option<NewSplit>> {
    if rows.len() == entry.rows {
        return Ok(None);
    }
    let options = WriterOptions {
        rows_max: u32::MAX,
        // It was one split before.
        source_bytes_max: u64::MAX,
        memory_bytes_max: u64::MAX,
        ..WriterOptions::default()
    };
    let mut documents = Documents::open(reads, entry)?;
    let (mut writer, mut row) = (SplitWriter::new(output.index.mapping().clone(), options), 0);
    while documents.head(reads)?.is_some() {
        let Some((document, known)) = documents.next_document() else { break };
        if !rows.contains(row) {
            let added = known.add(&document, &mut writer);
            added.map_err(|error| error.context("a document of the index cannot be rewritten"))?;
        }
        row += 1;
    }
    if u64::from(writer.rows()) + rows.len() != entry.rows {
        return Err(Error::internal(format!("a split of {} documents was read as {row}", entry.rows)));
    }
    (writer.rows() > 0).then(|| output.seal(writer)).transpose()
}
