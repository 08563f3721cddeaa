//! Functions of SQL whose result may be far larger than their arguments, such as `repeat` and `range`: what a call will
//! make is calculated before it makes it, and refused where that is more than a part of what the query may hold. This
//! holds for constants, too, which the optimizer calculates.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::Error;
use crate::errors::external;
use crate::read::memory::reservation;

/// A function that is refused where its result would be too large.
#[derive(Debug)]
pub(crate) struct Bounded {
    inner: ScalarUDF,
    memory: Arc<dyn MemoryPool>,
}

/// What texts are joined by.
pub(crate) const JOIN: &str = "frostline_join";

/// The functions that are bounded.
pub(crate) const NAMES: [&str; 15] = [
    "array_repeat",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_resize",
    "array_to_string",
    "concat",
    "concat_ws",
    "generate_series",
    "lpad",
    "range",
    "regexp_replace",
    "repeat",
    "replace",
    "rpad",
];

impl Bounded {
    /// One of these functions, bounded by the memory of a query.
    pub(crate) fn over(function: &ScalarUDF, memory: &Arc<dyn MemoryPool>) -> ScalarUDF {
        ScalarUDF::from(Bounded { inner: function.clone(), memory: Arc::clone(memory) })
    }

    /// Bytes that one call may make.
    fn bytes_max(&self, is_constant: bool) -> u64 {
        let held_max = match self.memory.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes as u64,
            MemoryLimit::Infinite | MemoryLimit::Unknown => u64::MAX,
        };
        // A constant is copied with each plan that the optimizer makes, and wherever a query names it.
        let part = match is_constant {
            // What the query has itself is joined.
            true if self.name() == JOIN => 16,
            true => 64,
            false => 4,
        };
        // Texts and lists of an array are addressed with 31 bits.
        (held_max / part).min(i32::MAX as u64)
    }

    fn refused(&self, bytes: u64, bytes_max: u64) -> DataFusionError {
        external(Error::exhausted(format!(
            "{} would make {bytes} bytes at once, and may make {bytes_max}: ask for less, or allow more with --query-memory",
            self.inner.name()
        )))
    }

    /// The results of some rows, which make so many bytes at most.
    fn part(
        &self,
        args: &ScalarFunctionArgs,
        rows: &Range<usize>,
        bytes: u64,
    ) -> DataFusionResult<ColumnarValue> {
        let memory = reservation(&self.memory, self.inner.name());
        memory.try_grow(bytes as usize)?;
        let mut args = args.clone();
        if *rows != (0..args.number_rows) {
            args.number_rows = rows.len();
            for arg in &mut args.args {
                if let ColumnarValue::Array(array) = arg {
                    *array = array.slice(rows.start, rows.len());
                }
            }
        }
        self.inner.inner().invoke_with_args(args)
    }
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Bounded) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

/// `simplify` is not handed on: what a function makes of its call there would be the function itself, unbounded.
impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> DataFusionResult<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let bytes_max = self.bytes_max(is_constant);
        let rows = if is_constant { 1 } else { args.number_rows };
        let values = args.args.iter().map(Values::new).collect::<DataFusionResult<Vec<Values>>>()?;
        let sizes: Vec<u64> = (0..rows).map(|row| size(self.name(), &values, row)).collect();
        let total = sizes.iter().fold(0, |total: u64, size| total.saturating_add(*size));
        if total <= bytes_max {
            return self.part(&args, &(0..args.number_rows), total);
        }
        // Of these the sizes are upper bounds, and what is found is often rare.
        if is_constant || !matches!(self.name(), "replace" | "regexp_replace") {
            return Err(self.refused(total, bytes_max));
        }
        let (mut arrays, mut made) = (Vec::new(), 0);
        for (rows, bytes) in parts(&sizes, bytes_max) {
            if bytes > bytes_max {
                return Err(self.refused(bytes, bytes_max));
            }
            let array = self.part(&args, &rows, bytes)?.into_array(rows.len())?;
            made += array.get_array_memory_size() as u64;
            if made > bytes_max {
                return Err(self.refused(made, bytes_max));
            }
            arrays.push(array);
        }
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&arrays)?))
    }
}

/// Ranges of rows, each with as many as are at most so large together, or with one row.
fn parts(sizes: &[u64], bytes_max: u64) -> Vec<(Range<usize>, u64)> {
    let mut parts: Vec<(Range<usize>, u64)> = Vec::new();
    for (row, size) in sizes.iter().enumerate() {
        match parts.last_mut() {
            Some((rows, bytes)) if bytes.saturating_add(*size) <= bytes_max => {
                rows.end = row + 1;
                *bytes += size;
            }
            _ => parts.push((row..row + 1, *size)),
        }
    }
    parts
}

/// Bytes that a function makes of a row at most.
fn size(function: &str, args: &[Values], row: usize) -> u64 {
    let bytes = |at: usize| args.get(at).map_or(0, |arg| arg.bytes(row));
    let items = |at: usize| args.get(at).map_or(0, |arg| arg.items(row));
    let number = |at: usize| args.get(at).and_then(|arg| arg.number(row)).unwrap_or(0);
    let count = |at: usize| u64::try_from(number(at)).unwrap_or(0);
    let times = |count: u64, bytes: u64| count.saturating_mul(bytes);
    match function {
        "repeat" | "array_repeat" => times(count(1), bytes(0).max(1)),
        "lpad" | "rpad" => {
            let fill = args.get(2).and_then(|arg| arg.text(row)).unwrap_or(" ");
            let widest = fill.chars().map(char::len_utf8).max().unwrap_or(0);
            bytes(0).saturating_add(times(count(1), widest as u64))
        }
        "range" | "generate_series" => times(steps(args, row), 8),
        "array_resize" => bytes(0).saturating_add(times(count(1), bytes(2).max(8))),
        "array_replace" | "array_replace_all" | "array_replace_n" => {
            bytes(0).saturating_add(times(items(0), bytes(2)))
        }
        "array_to_string" => {
            // Numbers take more bytes as text.
            let item = bytes(1).saturating_add(bytes(2).max(24));
            times(bytes(0), 3).saturating_add(times(items(0), item))
        }
        "replace" => {
            let found = match bytes(1) {
                0 => bytes(0) + 1,
                length => bytes(0) / length,
            };
            bytes(0).saturating_add(times(found, bytes(2)))
        }
        "regexp_replace" => {
            let is_global =
                args.get(3).and_then(|arg| arg.text(row)).is_some_and(|flags| flags.contains('g'));
            let found = if is_global { bytes(0) + 1 } else { 1 };
            // Each two bytes of a replacement may stand for all that was found.
            let copied = times(bytes(0), bytes(2) / 2 + 1);
            copied.saturating_add(times(found, bytes(2)))
        }
        "concat_ws" => {
            let between = args.len().saturating_sub(2) as u64;
            times(between, bytes(0)).saturating_add(whole(args.get(1..).unwrap_or_default(), row))
        }
        _ => whole(args, row),
    }
}

fn whole(args: &[Values], row: usize) -> u64 {
    args.iter().fold(0, |sum: u64, arg| sum.saturating_add(arg.bytes(row)))
}

/// The number of values from a first to a last one, by a step.
fn steps(args: &[Values], row: usize) -> u64 {
    let number = |at: usize| args.get(at).and_then(|arg: &Values| arg.number(row));
    let (start, stop) = match args.len() {
        1 => (Some(0), number(0)),
        _ => (number(0), number(1)),
    };
    let step = args.get(2).map_or(Some(Step::By(1)), |step| step.step(row));
    let (Some(start), Some(stop), Some(step)) = (start, stop, step) else { return 0 };
    match step {
        Step::By(step) if step == 0 || (step > 0) != (stop >= start) => 1,
        Step::By(step) => u64::try_from((stop - start) / step).unwrap_or(u64::MAX).saturating_add(1),
        Step::Unknown => u64::MAX,
    }
}

/// How far a step reaches at least.
enum Step {
    By(i128),
    /// Months and days that cancel each other out.
    Unknown,
}

const DAY: i128 = 86_400_000_000_000;

/// An argument: a value for each row, or one for all.
struct Values {
    array: ArrayRef,
    /// As whole numbers, where it is something that can be counted.
    numbers: Option<ArrayRef>,
    /// What these count: ones, or the nanoseconds of a day.
    unit: i128,
    is_constant: bool,
}

impl Values {
    fn new(arg: &ColumnarValue) -> DataFusionResult<Values> {
        let (array, is_constant) = match arg {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
        };
        let whole = |array: &ArrayRef| cast(array, &DataType::Int64);
        let (numbers, unit) = match array.data_type() {
            ty if ty.is_integer() => (Some(whole(&array)?), 1),
            DataType::Date32 | DataType::Date64 => {
                let days = cast(&cast(&array, &DataType::Date32)?, &DataType::Int32)?;
                (Some(whole(&days)?), DAY)
            }
            DataType::Timestamp(..) => {
                // A time that is none in nanoseconds is an error of the function.
                (Some(whole(&cast(&array, &DataType::Timestamp(TimeUnit::Nanosecond, None))?)?), 1)
            }
            _ => (None, 1),
        };
        Ok(Values { array, numbers, unit, is_constant })
    }

    fn at(&self, row: usize) -> usize {
        if self.is_constant { 0 } else { row }
    }

    fn number(&self, row: usize) -> Option<i128> {
        let (numbers, at) = (self.numbers.as_ref()?, self.at(row));
        let number = || i128::from(numbers.as_primitive::<Int64Type>().value(at)) * self.unit;
        numbers.is_valid(at).then(number)
    }

    fn step(&self, row: usize) -> Option<Step> {
        let Some(intervals) = self.array.as_primitive_opt::<IntervalMonthDayNanoType>() else {
            return self.number(row).map(Step::By);
        };
        let at = self.at(row);
        let interval = intervals.is_valid(at).then(|| intervals.value(at))?;
        let parts = [
            i128::from(interval.months) * 28 * DAY,
            // A day may have 23 hours.
            i128::from(interval.days) * (DAY / 24 * 23),
            i128::from(interval.nanoseconds),
        ];
        let agree = parts.iter().all(|part| *part >= 0) || parts.iter().all(|part| *part <= 0);
        Some(if agree { Step::By(parts.iter().sum()) } else { Step::Unknown })
    }

    fn text(&self, row: usize) -> Option<&str> {
        let at = self.at(row);
        if self.array.is_null(at) {
            return None;
        }
        match self.array.data_type() {
            DataType::Utf8 => Some(self.array.as_string::<i32>().value(at)),
            DataType::LargeUtf8 => Some(self.array.as_string::<i64>().value(at)),
            DataType::Utf8View => Some(self.array.as_string_view().value(at)),
            _ => None,
        }
    }

    /// Items of a list.
    fn items(&self, row: usize) -> u64 {
        let at = self.at(row);
        match self.array.data_type() {
            _ if self.array.is_null(at) => 0,
            DataType::List(_) => self.array.as_list::<i32>().value_length(at) as u64,
            DataType::LargeList(_) => self.array.as_list::<i64>().value_length(at) as u64,
            DataType::FixedSizeList(_, length) => *length as u64,
            _ => 0,
        }
    }

    fn bytes(&self, row: usize) -> u64 {
        let at = self.at(row);
        if self.array.is_null(at) {
            return 0;
        }
        match (self.text(row), self.array.data_type().primitive_width()) {
            (Some(text), _) => text.len() as u64,
            (None, Some(width)) => width as u64,
            (None, None) => {
                let value = self.array.slice(at, 1);
                let bytes = value.to_data().get_slice_memory_size();
                bytes.unwrap_or_else(|_| value.get_array_memory_size()) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests;
