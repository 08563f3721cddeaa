//! `sum` and `avg` of columns that a few odd documents made lists or text: of all numbers in a list, and of what text
//! can be read as a number. Whole numbers are added without rounding. Windows that move on add doubles anew, also of other
//! columns: what is added and taken away again leaves its rounding behind, and an infinite sum stays one.

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
use frostline_base::Doubles;

use crate::agg::quotient;
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

impl OddNumbers {
    fn numbers(&self, args: &AccumulatorArgs<'_>, fractions: Fractions) -> Numbers {
        let ty = args.return_field.data_type().clone();
        Numbers { whole: 0, fractions, count: 0, average: self.name() == "avg", ty }
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
        Ok(Box::new(self.numbers(&args, Fractions::All(Doubles::default()))))
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
        let is_double = |field: &FieldRef| *field.data_type() == DataType::Float64;
        match is_odd(args.expr_fields) || (args.expr_fields.iter().all(is_double) && !args.is_distinct) {
            true => Ok(Box::new(self.numbers(&args, Fractions::Window(Window::default())))),
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
    fractions: Fractions,
    count: u64,
    average: bool,
    /// Of the answer.
    ty: DataType,
}

/// The sum of what is not whole.
#[derive(Debug)]
enum Fractions {
    All(Doubles),
    Window(Window),
}

impl Fractions {
    fn add(&mut self, number: f64) {
        match self {
            Fractions::All(sum) => sum.add(number),
            Fractions::Window(window) => window.add(number),
        }
    }

    fn value(&self) -> f64 {
        match self {
            Fractions::All(sum) => sum.value(),
            Fractions::Window(window) => window.value(),
        }
    }
}

/// The sum of numbers of which the oldest is taken away, without a difference. Each number is added twice.
#[derive(Debug, Default)]
struct Window {
    /// Of the older ones: the sums of each of them and of those after it, the last one first.
    older: Vec<Doubles>,
    newer: Vec<f64>,
    /// Of the newer ones.
    sum: Doubles,
}

impl Window {
    fn add(&mut self, number: f64) {
        self.newer.push(number);
        self.sum.add(number);
    }

    fn take(&mut self) {
        if self.older.is_empty() {
            self.sum = Doubles::default();
            let mut sum = Doubles::default();
            self.older.extend(self.newer.drain(..).rev().map(|number| {
                sum.add(number);
                sum
            }));
        }
        self.older.pop();
    }

    fn value(&self) -> f64 {
        let mut all = self.sum;
        self.older.last().iter().for_each(|older| all.merge(**older));
        all.value()
    }
}

impl Numbers {
    fn add(&mut self, number: Number) -> DataFusionResult<()> {
        self.count += 1;
        match number {
            Number::Long(number) => self.add_whole(number.into()),
            Number::Big(number) => self.add_whole(number),
            Number::Double(number) => {
                self.fractions.add(number);
                Ok(())
            }
        }
    }

    fn take(&mut self, number: Number) -> DataFusionResult<()> {
        self.count -= 1;
        match number {
            Number::Long(number) => self.add_whole(-i128::from(number)),
            Number::Big(number) => self.add_whole(-number),
            Number::Double(_) => match &mut self.fractions {
                Fractions::Window(window) => {
                    window.take();
                    Ok(())
                }
                Fractions::All(_) => exec_err!("numbers are taken from a window alone"),
            },
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
        matches!(self.fractions, Fractions::Window(_))
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
                let (fractions, by) = (self.fractions.value(), if self.average { self.count } else { 1 });
                let value = match fractions == 0.0 {
                    true => quotient(self.whole, by),
                    false => (self.whole as f64 + fractions) / by as f64,
                };
                Ok(ScalarValue::Float64(Some(value)))
            }
        }
    }

    fn size(&self) -> usize {
        let held = match &self.fractions {
            Fractions::All(_) => 0,
            Fractions::Window(of) => {
                size_of::<Doubles>() * of.older.capacity() + size_of::<f64>() * of.newer.capacity()
            }
        };
        size_of_val(self) + held
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Decimal128(Some(self.whole), 38, 0),
            ScalarValue::Float64(Some(self.fractions.value())),
            ScalarValue::UInt64(Some(self.count)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        let [whole, fraction, count] = states else {
            return exec_err!("the state of a sum has three parts");
        };
        whole.as_primitive::<Decimal128Type>().iter().flatten().try_for_each(|part| self.add_whole(part))?;
        fraction.as_primitive::<Float64Type>().iter().flatten().for_each(|part| self.fractions.add(part));
        self.count += count.as_primitive::<UInt64Type>().iter().flatten().sum::<u64>();
        Ok(())
    }
}
