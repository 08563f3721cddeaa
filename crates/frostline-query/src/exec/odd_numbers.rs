//! `sum` and `avg` of columns that a few odd documents made lists or text: of all numbers in a list, and of what text
//! can be read as a number. Whole numbers are added without rounding.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type, UInt64Type};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use crate::exec::whole_sum::narrowed;
use crate::filter::Number;
use crate::read::merge::BIG;

/// A `sum` or an `avg` that takes odd columns, too.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OddNumbers {
    inner: AggregateUDF,
    signature: Signature,
}

impl OddNumbers {
    pub(crate) fn over(inner: AggregateUDF) -> AggregateUDF {
        AggregateUDF::from(OddNumbers { inner, signature: Signature::user_defined(Volatility::Immutable) })
    }
}

/// The type of the values of an odd column.
fn odd(ty: &DataType) -> Option<&DataType> {
    let values = match ty {
        DataType::List(item) => item.data_type(),
        DataType::Utf8 => ty,
        _ => return None,
    };
    let has_numbers =
        matches!(values, DataType::Int64 | DataType::Float64 | DataType::Utf8) || *values == BIG;
    has_numbers.then_some(values)
}

fn is_odd(fields: &[FieldRef]) -> bool {
    fields.iter().any(|field| odd(field.data_type()).is_some())
}

impl AggregateUDFImpl for OddNumbers {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        if let [ty] = types
            && odd(ty).is_some()
        {
            return Ok(types.to_vec());
        }
        let fields: Vec<FieldRef> =
            types.iter().map(|ty| FieldRef::new(Field::new("f", ty.clone(), true))).collect();
        let coerced = fields_with_udf(&fields, &self.inner)?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> DataFusionResult<DataType> {
        match types.first().and_then(odd) {
            Some(values) if self.name() == "sum" && *values != DataType::Utf8 => Ok(values.clone()),
            Some(_) => Ok(DataType::Float64),
            None => self.inner.return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DataFusionResult<Box<dyn Accumulator>> {
        if !is_odd(args.expr_fields) {
            return self.inner.accumulator(args);
        }
        let ty = args.return_field.data_type().clone();
        let average = self.name() == "avg";
        Ok(Box::new(Numbers { whole: 0, fraction: 0.0, count: 0, average, ty }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>> {
        if !is_odd(args.input_fields) {
            return self.inner.state_fields(args);
        }
        let parts = [("whole", BIG), ("fraction", DataType::Float64), ("count", DataType::UInt64)];
        let field = |(part, ty)| FieldRef::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        Ok(parts.into_iter().map(field).collect())
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !is_odd(args.expr_fields) && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        match is_odd(args.expr_fields) {
            true => self.accumulator(args),
            false => self.inner.create_sliding_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The numbers so far: whole ones, and the rest.
#[derive(Debug)]
struct Numbers {
    whole: i128,
    fraction: f64,
    count: u64,
    average: bool,
    /// Of the answer.
    ty: DataType,
}

impl Numbers {
    fn add(&mut self, number: Number) -> DataFusionResult<()> {
        self.count += 1;
        match number {
            Number::Long(number) => self.add_whole(number.into()),
            Number::Big(number) => self.add_whole(number),
            Number::Double(number) => {
                self.fraction += number;
                Ok(())
            }
        }
    }

    fn take(&mut self, number: Number) -> DataFusionResult<()> {
        self.count -= 1;
        match number {
            Number::Long(number) => self.add_whole(-i128::from(number)),
            Number::Big(number) => self.add_whole(-number),
            Number::Double(number) => {
                self.fraction -= number;
                Ok(())
            }
        }
    }

    fn add_whole(&mut self, number: i128) -> DataFusionResult<()> {
        let sum = self.whole.checked_add(number).and_then(Number::whole);
        self.whole = sum.ok_or_else(|| exec_datafusion_err!("a sum of whole numbers has over 38 digits"))?;
        Ok(())
    }
}

/// Hands every number of an array to `visit`.
fn each_number(
    array: &dyn Array,
    visit: &mut dyn FnMut(Number) -> DataFusionResult<()>,
) -> DataFusionResult<()> {
    if let Some(lists) = array.as_list_opt::<i32>() {
        return lists.iter().flatten().try_for_each(|list| each_number(&list, visit));
    }
    if let Some(values) = array.as_primitive_opt::<Int64Type>() {
        return values.iter().flatten().map(Number::Long).try_for_each(visit);
    }
    if let Some(values) = array.as_primitive_opt::<Float64Type>() {
        return values.iter().flatten().map(Number::Double).try_for_each(visit);
    }
    if let Some(values) = array.as_primitive_opt::<Decimal128Type>() {
        return values.iter().flatten().map(Number::Big).try_for_each(visit);
    }
    let Some(texts) = array.as_string_opt::<i32>() else {
        return exec_err!("no numbers can be read from {}", array.data_type());
    };
    texts.iter().flatten().filter_map(Number::parse).try_for_each(visit)
}

impl Accumulator for Numbers {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        values.iter().try_for_each(|array| each_number(array, &mut |number| self.add(number)))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        values.iter().try_for_each(|array| each_number(array, &mut |number| self.take(number)))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        if self.count == 0 {
            return ScalarValue::try_from(&self.ty);
        }
        match self.ty {
            DataType::Int64 => Ok(ScalarValue::Int64(Some(narrowed(self.whole)?))),
            DataType::Decimal128(precision, scale) => {
                Ok(ScalarValue::Decimal128(Some(self.whole), precision, scale))
            }
            _ => {
                let sum = self.whole as f64 + self.fraction;
                let by = if self.average { self.count as f64 } else { 1.0 };
                Ok(ScalarValue::Float64(Some(sum / by)))
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Decimal128(Some(self.whole), 38, 0),
            ScalarValue::Float64(Some(self.fraction)),
            ScalarValue::UInt64(Some(self.count)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        let [whole, fraction, count] = states else {
            return exec_err!("the state of a sum has three parts");
        };
        whole.as_primitive::<Decimal128Type>().iter().flatten().try_for_each(|part| self.add_whole(part))?;
        self.fraction += fraction.as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
        self.count += count.as_primitive::<UInt64Type>().iter().flatten().sum::<u64>();
        Ok(())
    }
}
