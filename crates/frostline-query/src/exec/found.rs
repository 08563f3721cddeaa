//! The output of a leaf: one row of three columns, the hits, the aggregation states and the report.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;

use crate::exec::report::Report;
use crate::read::merge::arrow_error;
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
    Arc::new(Schema::new(vec![column("hits", true), column("state", true), column("report", false)]))
}

impl Found {
    pub(crate) fn write(&self) -> Result<RecordBatch> {
        let hits = write_rows(&self.hits)?.map(Buffer::from);
        let report = Buffer::from(self.report.write()?);
        let columns = vec![column(hits)?, column(self.state.clone())?, column(Some(report))?];
        RecordBatch::try_new(schema(), columns).map_err(arrow_error)
    }

    pub(crate) fn read(batch: &RecordBatch) -> Result<Found> {
        let bytes = |at: usize| -> Result<Option<Buffer>> {
            let column = batch.columns().get(at).and_then(|column| column.as_binary_opt::<i32>());
            let column = column.filter(|column| column.len() == 1);
            let column = column.ok_or_else(|| Error::corrupt("an answer is not one row of three columns"))?;
            let (start, end) = (column.value_offsets()[0] as usize, column.value_offsets()[1] as usize);
            Ok(column.is_valid(0).then(|| column.values().slice_with_length(start, end - start)))
        };
        let report = bytes(2)?.ok_or_else(|| Error::corrupt("an answer without a report"))?;
        Ok(Found {
            hits: bytes(0)?.map(read_rows).transpose()?.unwrap_or_default(),
            state: bytes(1)?,
            report: Report::read(&report)?,
        })
    }
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
