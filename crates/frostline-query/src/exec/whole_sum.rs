//! `sum` of whole numbers without overflow: added in 128 bits, an error if the sum does not fit in 64.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
};

/// What sums are added in.
const WIDE: DataType = DataType::Decimal128(38, 0);

/// DataFusion's `sum`, exact for whole numbers.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct WholeSum {
    inner: Sum,
}

fn is_whole(args: &AccumulatorArgs<'_>) -> bool {
    *args.return_field.data_type() == DataType::Int64
}

fn wide(name: &str) -> FieldRef {
    Arc::new(Field::new(name, WIDE, true))
}

impl AggregateUDFImpl for WholeSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> DataFusionResult<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DataFusionResult<Box<dyn Accumulator>> {
        if !is_whole(&args) {
            return self.inner.accumulator(args);
        }
        let args = AccumulatorArgs { return_field: wide(args.name), ..args };
        Ok(Box::new(Checked(self.inner.accumulator(args)?)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>> {
        if *args.return_field.data_type() != DataType::Int64 {
            return self.inner.state_fields(args);
        }
        self.inner.state_fields(StateFieldsArgs { return_field: wide(args.name), ..args })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
        if !is_whole(&args) {
            return self.inner.create_groups_accumulator(args);
        }
        let args = AccumulatorArgs { return_field: wide(args.name), ..args };
        Ok(Box::new(CheckedGroups(self.inner.create_groups_accumulator(args)?)))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        if !is_whole(&args) || args.is_distinct {
            return self.inner.create_sliding_accumulator(args);
        }
        let args = AccumulatorArgs { return_field: wide(args.name), ..args };
        Ok(Box::new(Checked(self.inner.create_sliding_accumulator(args)?)))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn widened(values: &[ArrayRef]) -> DataFusionResult<Vec<ArrayRef>> {
    values.iter().map(|array| Ok(cast(array, &WIDE)?)).collect()
}

pub(super) fn narrowed(sum: i128) -> DataFusionResult<i64> {
    i64::try_from(sum).map_err(|_| {
        DataFusionError::Execution(format!(
            "the sum {sum} is beyond 64 bits: sum double values, as in sum(cast(f as double))"
        ))
    })
}

/// A sum of [`WIDE`] numbers for 64-bit ones.
#[derive(Debug)]
struct Checked(Box<dyn Accumulator>);

impl Accumulator for Checked {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.0.update_batch(&widened(values)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.0.retract_batch(&widened(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        match self.0.evaluate()? {
            ScalarValue::Decimal128(sum, ..) => Ok(ScalarValue::Int64(sum.map(narrowed).transpose()?)),
            other => Ok(other),
        }
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        self.0.merge_batch(states)
    }
}

/// The same for many groups.
struct CheckedGroups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for CheckedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> DataFusionResult<()> {
        self.0.update_batch(&widened(values)?, group_indices, filter, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DataFusionResult<ArrayRef> {
        let sums = self.0.evaluate(emit_to)?;
        Ok(Arc::new(sums.as_primitive::<Decimal128Type>().try_unary::<_, Int64Type, _>(narrowed)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        groups: usize,
    ) -> DataFusionResult<()> {
        self.0.merge_batch(states, group_indices, groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        self.0.convert_to_state(&widened(values)?, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
