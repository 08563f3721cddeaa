//! Sort keys that are values of some of the objects of documents: those that a filter matches.
//!
//! The documents are read and taken apart. What is left of each, its matching objects, is a document of a split in
//! memory, of which the key is read as of any other.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{Field, Schema};
use roaring::RoaringBitmap;

use crate::Result;
use crate::filter::Nested;
use crate::read::merge::arrow_error;
use crate::read::objects::{Objects, several};
use crate::read::output::{Output, read_rows};
use crate::read::view::View;

/// About how much memory documents take whose objects are asked, and their objects.
pub(crate) const OBJECTS_BYTES: usize = 32 << 20;

/// The outputs for the given rows of a split, in row order.
pub(crate) async fn read_keys(
    view: View<'_>,
    ordinal: u32,
    outputs: &[Output],
    rows: &RoaringBitmap,
) -> Result<RecordBatch> {
    if outputs.iter().all(|output| output.objects().is_none()) {
        return read_rows(view, ordinal, outputs, rows).await;
    }
    let whole: Vec<Output> = outputs.iter().filter(|output| output.objects().is_none()).cloned().collect();
    let whole = read_rows(view, ordinal, &whole, rows).await?;
    let mut of_whole = whole.columns().iter();
    let mut columns = Vec::with_capacity(outputs.len());
    for output in outputs {
        columns.push(match output.objects() {
            Some(objects) => of_objects(view, output, objects, rows).await?,
            None => of_whole.next().cloned().unwrap_or_else(|| new_null_array(&output.ty, 0)),
        });
    }
    let fields: Vec<Field> = outputs.iter().map(Output::field).collect();
    let options = RecordBatchOptions::new().with_row_count(usize::try_from(rows.len()).ok());
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(arrow_error)
}

async fn of_objects(
    view: View<'_>,
    output: &Output,
    nested: &Nested,
    rows: &RoaringBitmap,
) -> Result<ArrayRef> {
    let output = output.clone().of_whole();
    let mut parts = Vec::new();
    let mut left = rows.iter().peekable();
    while left.peek().is_some() {
        let part: RoaringBitmap = left.by_ref().take(view.documents_at_once()).collect();
        let texts = view.documents(&part).await?;
        let objects = Objects::new(texts.iter().map(String::as_str), &[&nested.path], &nested.mapping)?;
        let matching = objects.matching(&nested.filter, view.reads).await?;
        let documents = texts.iter().zip(objects.of_documents());
        let documents = documents
            .map(|(text, objects)| {
                let is_matching = |number: usize| matching.contains(objects.start + number as u32);
                several(&nested.path, text, is_matching)
            })
            .collect::<Result<Vec<String>>>()?;
        let reduced = Objects::whole(documents.iter().map(String::as_str), &nested.mapping)?;
        let Some((view, documents)) = reduced.view(view.reads) else { continue };
        let keys = output.read(view, 0, &(0..view.split().rows()).collect()).await?;
        // Rows are in the order of times.
        let mut rows = vec![0; documents.len()];
        (0..).zip(documents).for_each(|(row, document)| rows[*document as usize] = row);
        parts.push(take(&keys, &UInt32Array::from(rows), None).map_err(arrow_error)?);
    }
    let parts: Vec<&dyn Array> = parts.iter().map(ArrayRef::as_ref).collect();
    match parts.is_empty() {
        true => Ok(new_null_array(&output.ty, 0)),
        false => concat(&parts).map_err(arrow_error),
    }
}
