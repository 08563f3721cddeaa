//! Converts the groups that our aggregations found to rows for DataFusion.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Decimal128Builder, Float64Builder, Int64Builder, RecordBatch,
    RecordBatchOptions, StringBuilder, TimestampMicrosecondBuilder, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::agg::AggState;
use crate::agg::groups::{Group, GroupBy, GroupCell};
use crate::errors::{external, internal};
use crate::exec::aggregate::STATE_UNPACKED;
use crate::exec::found::Found;
use crate::exec::step::{Step, StepExec};
use crate::read::memory::reservation;
use crate::read::merge::arrow_error;
use crate::{Error, Result};

/// The groups, and the columns that they become: the keys, then the values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Groups {
    pub(crate) by: GroupBy,
    pub(crate) schema: SchemaRef,
}

impl Groups {
    /// Deserialized input is untrusted.
    pub(crate) fn check(&self) -> Result<()> {
        if self.schema.fields().len() == self.by.keys.len() + self.by.values.len() {
            return Ok(());
        }
        Err(Error::corrupt("groups that have other columns"))
    }

    /// The state that was found, with its memory.
    fn state(&self, found: &Found, memory: MemoryReservation) -> Result<(AggState, MemoryReservation)> {
        let bytes = found.state.as_ref().ok_or_else(|| Error::internal("groups without a state"))?;
        memory.try_resize(bytes.len() * (1 + STATE_UNPACKED)).map_err(internal)?;
        let state = AggState::read(bytes, &self.by.tree())?;
        memory.try_resize(state.memory_bytes()).map_err(internal)?;
        Ok((state, memory))
    }

    /// All rows, some at a time.
    fn batches(
        self: Arc<Self>,
        (state, memory): (AggState, MemoryReservation),
    ) -> Result<impl Stream<Item = Result<RecordBatch>>> {
        let buckets = self.by.buckets(&state)?;
        let parts = (0..buckets).step_by(BATCH_ROWS).map(move |start| {
            let _held = &memory;
            self.batch(&state, start..buckets.min(start + BATCH_ROWS))
        });
        Ok(stream::iter(parts))
    }

    fn batch(&self, state: &AggState, buckets: Range<usize>) -> Result<RecordBatch> {
        let groups = self.by.groups(state, buckets)?;
        let keys = self.by.keys.len();
        let cell = |group: &'_ Group, at: usize| -> GroupCell {
            let cell = if at < keys { group.keys.get(at) } else { group.values.get(at - keys) };
            cell.cloned().unwrap_or(GroupCell::Null)
        };
        let columns = self
            .schema
            .fields()
            .iter()
            .enumerate()
            .map(|(at, field)| column(groups.iter().map(|group| cell(group, at)), field.data_type()));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(arrow_error)
    }
}

/// How many buckets become rows at a time.
const BATCH_ROWS: usize = 8_192;

/// The cells of a column, all of one kind, whole numbers, or null.
fn column(cells: impl Iterator<Item = GroupCell>, ty: &DataType) -> Result<ArrayRef> {
    let mut cells: Vec<GroupCell> = cells.collect();
    if cells.iter().any(|cell| matches!(cell, GroupCell::Big(_))) {
        for cell in &mut cells {
            if let GroupCell::Long(value) = cell {
                *cell = GroupCell::Big(i128::from(*value));
            }
        }
    }
    macro_rules! built {
        ($builder:expr, $kind:path) => {{
            let mut builder = $builder;
            for cell in &cells {
                match cell {
                    $kind(value) => builder.append_value(value.clone()),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    let array = match cells.iter().find(|cell| **cell != GroupCell::Null) {
        None | Some(GroupCell::Null) => return Ok(new_null_array(ty, cells.len())),
        Some(GroupCell::Boolean(_)) => built!(BooleanBuilder::new(), GroupCell::Boolean),
        Some(GroupCell::Long(_)) => built!(Int64Builder::new(), GroupCell::Long),
        Some(GroupCell::Big(_)) => {
            built!(Decimal128Builder::new().with_data_type(DataType::Decimal128(38, 0)), GroupCell::Big)
        }
        Some(GroupCell::Double(_)) => built!(Float64Builder::new(), GroupCell::Double),
        Some(GroupCell::Text(_)) => built!(StringBuilder::new(), GroupCell::Text),
        Some(GroupCell::Time(_)) => {
            built!(TimestampMicrosecondBuilder::new().with_timezone("UTC"), GroupCell::Time)
        }
    };
    cast(&array, ty).map_err(arrow_error)
}

/// The rows of the groups that its input, a search of one row, has found.
pub(crate) type GroupsExec = StepExec<Groups>;

impl Step for Groups {
    const NAME: &'static str = "GroupsExec";

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn describe(&self) -> String {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        format!("columns=[{}]", names.join(", "))
    }

    fn run(
        self: Arc<Self>,
        input: &Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let input = input.execute(0, Arc::clone(&context))?.map_err(internal);
        let (schema, pool) = (Arc::clone(&self.schema), Arc::clone(context.memory_pool()));
        let batches = input.and_then(move |batch| {
            let memory = reservation(&pool, "groups");
            let state = Found::read(&batch).and_then(|found| self.state(&found, memory));
            std::future::ready(state.and_then(|state| Arc::clone(&self).batches(state)))
        });
        let batches = batches.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.map_err(external).boxed())))
    }
}
