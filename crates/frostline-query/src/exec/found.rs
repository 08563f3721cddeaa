//! The output of a leaf: one row of four columns, the hits, their documents, the aggregation states and the report.
//!
//! Hits are columns in bytes, since each search has others. Their documents are not among these bytes: a list of views of
//! texts is handed on without a copy.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, ListArray, RecordBatch, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;

use crate::exec::report::Report;
use crate::read::merge::arrow_error;
use crate::read::output::SOURCE;
use crate::{Error, Result};

/// One leaf's answer, or the answer of several merged.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Rows with their keys and addresses, the best first; none where none were requested.
    pub(crate) hits: Vec<RecordBatch>,
    /// The state of the aggregations, in bytes.
    pub(crate) state: Option<Buffer>,
    pub(crate) report: Report,
}

/// The columns of an answer.
pub(crate) fn schema() -> SchemaRef {
    let column = |name, nullable| Field::new(name, DataType::Binary, nullable);
    let documents = Field::new("documents", DataType::List(document()), true);
    let columns = vec![column("hits", true), documents, column("state", true), column("report", false)];
    Arc::new(Schema::new(columns))
}

/// An item of the list of documents; null where a document is not text or was not read.
fn document() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Utf8View, true))
}

impl Found {
    pub(crate) fn write(&self) -> Result<RecordBatch> {
        let (hits, documents) = without_documents(&self.hits)?;
        let hits = write_rows(&hits)?.map(Buffer::from);
        let report = Buffer::from(self.report.write()?);
        let columns = vec![column(hits)?, documents, column(self.state.clone())?, column(Some(report))?];
        RecordBatch::try_new(schema(), columns).map_err(arrow_error)
    }

    pub(crate) fn read(batch: &RecordBatch) -> Result<Found> {
        let bytes = |at: usize| -> Result<Option<Buffer>> {
            let column = batch.columns().get(at).and_then(|column| column.as_binary_opt::<i32>());
            let column = column.filter(|column| column.len() == 1);
            let column = column.ok_or_else(|| Error::corrupt("an answer is not one row of four columns"))?;
            let (start, end) = (column.value_offsets()[0] as usize, column.value_offsets()[1] as usize);
            Ok(column.is_valid(0).then(|| column.values().slice_with_length(start, end - start)))
        };
        let report = bytes(3)?.ok_or_else(|| Error::corrupt("an answer without a report"))?;
        let hits = bytes(0)?.map(read_rows).transpose()?.unwrap_or_default();
        Ok(Found {
            hits: with_documents(hits, batch.columns().get(1))?,
            state: bytes(2)?,
            report: Report::read(&report)?,
        })
    }
}

/// The hits without the column of their documents, and a list of these; null where there is no such column.
fn without_documents(hits: &[RecordBatch]) -> Result<(Vec<RecordBatch>, ArrayRef)> {
    let (mut others, mut documents) = (Vec::with_capacity(hits.len()), Vec::new());
    for batch in hits {
        let mut batch = batch.clone();
        if let Ok(place) = batch.schema_ref().index_of(SOURCE) {
            documents.push(batch.remove_column(place));
        }
        others.push(batch);
    }
    if documents.is_empty() || documents.len() < hits.len() {
        return Ok((hits.to_vec(), Arc::new(ListArray::new_null(document(), 1))));
    }
    let documents: Vec<&dyn Array> = documents.iter().map(ArrayRef::as_ref).collect();
    let documents = concat(&documents).map_err(arrow_error)?;
    let lengths = OffsetBuffer::from_lengths([documents.len()]);
    let list = ListArray::try_new(document(), lengths, documents, None).map_err(arrow_error)?;
    Ok((others, Arc::new(list)))
}

/// The hits with the column of their documents, if there is a list of these.
fn with_documents(hits: Vec<RecordBatch>, list: Option<&ArrayRef>) -> Result<Vec<RecordBatch>> {
    let damaged = || Error::corrupt("an answer has not one document for each hit");
    let list = list.and_then(|list| list.as_list_opt::<i32>()).filter(|list| list.len() == 1);
    let list = list.ok_or_else(damaged)?;
    if list.is_null(0) {
        return Ok(hits);
    }
    let documents = list.value(0);
    let documents: &StringViewArray = documents.as_string_view_opt().ok_or_else(damaged)?;
    let (mut start, mut whole) = (0, Vec::with_capacity(hits.len()));
    for batch in hits {
        let rows = batch.num_rows();
        if rows > documents.len() - start {
            return Err(damaged());
        }
        let own: ArrayRef = Arc::new(documents.slice(start, rows));
        let fields = batch.schema_ref().fields().iter().map(|field| field.as_ref().clone());
        let fields: Vec<Field> = fields.chain([Field::new(SOURCE, DataType::Utf8View, true)]).collect();
        let columns = batch.columns().iter().cloned().chain([own]).collect();
        whole.push(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(arrow_error)?);
        start += rows;
    }
    if start < documents.len() { Err(damaged()) } else { Ok(whole) }
}

/// A column of one value, which is not copied.
fn column(bytes: Option<Buffer>) -> Result<ArrayRef> {
    let nulls = bytes.is_none().then(|| NullBuffer::new_null(1));
    let bytes = bytes.unwrap_or_default();
    if i32::try_from(bytes.len()).is_err() {
        let what = format!("a part of the answer takes {} bytes, more than 2 GiB: ask for less", bytes.len());
        return Err(Error::exhausted(what));
    }
    let offsets = OffsetBuffer::from_lengths([bytes.len()]);
    let column = BinaryArray::try_new(offsets, bytes, nulls).map_err(arrow_error)?;
    Ok(Arc::new(column))
}

fn write_rows(batches: &[RecordBatch]) -> Result<Option<Vec<u8>>> {
    let Some(first) = batches.first() else { return Ok(None) };
    // Columns that were read have one allocation in common.
    let columns = batches.iter().flat_map(RecordBatch::columns);
    let bytes = columns.map(|column| column.to_data().get_slice_memory_size());
    let bytes = Vec::with_capacity(bytes.sum::<std::result::Result<usize, _>>().map_err(arrow_error)?);
    let mut writer = StreamWriter::try_new(bytes, &first.schema()).map_err(arrow_error)?;
    for batch in batches {
        writer.write(batch).map_err(arrow_error)?;
    }
    writer.into_inner().map(Some).map_err(arrow_error)
}

/// The rows, which are not copied.
fn read_rows(mut bytes: Buffer) -> Result<Vec<RecordBatch>> {
    let damaged = |e| Error::corrupt("the hits of an answer cannot be read").with_source(e);
    let (mut decoder, mut batches) = (StreamDecoder::new(), Vec::new());
    while let Some(batch) = decoder.decode(&mut bytes).map_err(damaged)? {
        batches.push(batch);
    }
    decoder.finish().map_err(damaged)?;
    match batches.is_empty() {
        true => Err(Error::corrupt("the hits of an answer are cut off")),
        false => Ok(batches),
    }
}

#[cfg(test)]
mod tests;
