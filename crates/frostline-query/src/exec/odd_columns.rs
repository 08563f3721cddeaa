//! SQL comparisons with columns that a few documents turned into lists or text.
//!
//! One array makes a column a list, and one text makes a column of numbers text. A list compares like a field
//! with several values in a search: true if any of them does. Text that is compared with a number is parsed
//! as one, and text that is not a number never matches. Numbers are compared exactly.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{AggregateFunction, InList, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::errors::external;
use crate::exec::{rewrite, times};
use crate::read::merge::{BIG, time_type};
use crate::read::mixed;

/// The rule by which such comparisons are planned.
#[derive(Clone, Debug)]
pub(crate) struct OddColumns {
    compares: Arc<ScalarUDF>,
}

impl OddColumns {
    pub(crate) fn new() -> OddColumns {
        OddColumns { compares: Arc::new(ScalarUDF::from(Compares::new())) }
    }

    /// The function that compares.
    pub(crate) fn function(&self) -> ScalarUDF {
        self.compares.as_ref().clone()
    }

    fn call(&self, values: &Expr, how: &str, with: impl IntoIterator<Item = Expr>) -> Expr {
        let args = [values.clone(), lit(how)].into_iter().chain(with).collect();
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&self.compares), args))
    }

    /// What stands for `IN` and `BETWEEN` of an odd column.
    fn set(&self, expr: &Expr, schema: &DFSchema) -> Option<Expr> {
        let (values, how, with, negated) = match expr {
            Expr::InList(InList { expr, list, negated }) => (expr, IN, list.clone(), *negated),
            Expr::Between(Between { expr, negated, low, high }) => {
                (expr, BETWEEN, vec![low.as_ref().clone(), high.as_ref().clone()], *negated)
            }
            _ => return None,
        };
        if !with.iter().any(|with| is_odd(values, with, schema).unwrap_or(false)) {
            return None;
        }
        let holds = self.call(values, how, with);
        Some(if negated { !holds } else { holds })
    }
}

impl ExprPlanner for OddColumns {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> DataFusionResult<PlannerResult<RawBinaryExpr>> {
        let Some(op) = operator(&expr.op) else { return Ok(PlannerResult::Original(expr)) };
        let (values, op, with) = if is_odd(&expr.left, &expr.right, schema)? {
            (&expr.left, Some(op), &expr.right)
        } else if is_odd(&expr.right, &expr.left, schema)? {
            (&expr.right, op.swap(), &expr.left)
        } else {
            return Ok(PlannerResult::Original(expr));
        };
        let planned = op.map(|op| self.call(values, &op.to_string(), [with.clone()]));
        Ok(planned.map_or_else(|| PlannerResult::Original(expr), PlannerResult::Planned))
    }
}

impl AnalyzerRule for OddColumns {
    fn name(&self) -> &str {
        "odd_columns"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let rewritten = plan.transform_down_with_subqueries(|node| {
            let mut schema = merge_schema(&node.inputs());
            if let LogicalPlan::TableScan(scan) = &node {
                schema.merge(&DFSchema::try_from_qualified_schema(
                    scan.table_name.clone(),
                    &scan.source.schema(),
                )?);
            }
            rewrite::expressions(node, |expr| {
                expr.transform_up(|expr| {
                    check_distinct(&expr, &schema)?;
                    let planned = self.set(&expr, &schema);
                    Ok(planned.map_or_else(|| times::read(expr, &schema), Transformed::yes))
                })
            })
        })?;
        Ok(rewritten.data)
    }
}

fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

/// An error where `sum` or `avg` is to count each of an odd column's values once: the same number may stand there in
/// several ways.
fn check_distinct(expr: &Expr, schema: &DFSchema) -> DataFusionResult<()> {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else { return Ok(()) };
    let sums = matches!(func.name(), "sum" | "avg") && params.distinct;
    let odd = |arg: &Expr| matches!(arg.get_type(schema), Ok(DataType::List(_) | DataType::Utf8));
    match sums && params.args.iter().any(odd) {
        true => plan_err!("{expr} of a column of lists or text: unnest or cast it"),
        false => Ok(()),
    }
}

/// Whether a list is compared with a value, or a column of text with a number.
fn is_odd(values: &Expr, with: &Expr, schema: &DFSchema) -> DataFusionResult<bool> {
    Ok(match (values.get_type(schema)?, with.get_type(schema)?) {
        (DataType::List(_), DataType::List(_)) => false,
        (DataType::List(_), _) => true,
        (DataType::Utf8, with) => with.is_numeric() && matches!(values, Expr::Column(_)),
        _ => false,
    })
}

const COMPARES: &str = "frostline_compares";
const IN: &str = "in";
const BETWEEN: &str = "between";

/// `frostline_compares(values, how, with…)`: whether any of a row's values compares so. It is null where the row has
/// no value that can be compared.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Compares {
    signature: Signature,
}

impl Compares {
    fn new() -> Compares {
        Compares { signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Compares {
    fn name(&self) -> &str {
        COMPARES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let rows = args.number_rows;
        let [values, ColumnarValue::Scalar(ScalarValue::Utf8(Some(how))), with @ ..] = args.args.as_slice()
        else {
            return plan_err!("{COMPARES} takes values, how to compare them, and what with");
        };
        let values = Rows::new(&values.to_array(rows)?);
        let with = with.iter().map(|with| Comparison::new(&values, with));
        let with: Vec<Comparison> = with.collect::<DataFusionResult<_>>()?;
        let holds: BooleanArray = match (how.as_str(), with.as_slice()) {
            (IN, with) => (0..rows).map(|row| any_of(with, &values, row)).collect(),
            (BETWEEN, [low, high]) => (0..rows).map(|row| between(low, high, &values, row)).collect(),
            (op, [with]) => (0..rows).map(|row| with.holds(op, &values, row)).collect(),
            _ => return plan_err!("{COMPARES} knows no {how}"),
        };
        Ok(ColumnarValue::Array(Arc::new(holds)))
    }
}

/// The values of each row.
struct Rows {
    items: ArrayRef,
    /// Where the values of each row are; none where there is one a row.
    lists: Option<arrow::array::ListArray>,
}

impl Rows {
    fn new(values: &ArrayRef) -> Rows {
        match values.as_list_opt::<i32>() {
            Some(lists) => Rows { items: Arc::clone(lists.values()), lists: Some(lists.clone()) },
            None => Rows { items: Arc::clone(values), lists: None },
        }
    }

    fn of(&self, row: usize) -> Range<usize> {
        match &self.lists {
            None => row..row + 1,
            Some(lists) if lists.is_null(row) => 0..0,
            Some(lists) => lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize,
        }
    }
}

/// Values and what they are compared with, as bytes that compare as they do.
struct Comparison {
    items: BinaryArray,
    with: BinaryArray,
}

impl Comparison {
    fn new(values: &Rows, with: &ColumnarValue) -> DataFusionResult<Comparison> {
        let with = match with {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        };
        let (of, than) = (values.items.data_type(), with.data_type());
        let ty = match of {
            _ if of.is_numeric() || (than.is_numeric() && *of == DataType::Utf8) => As::Number,
            DataType::Timestamp(..) => As::Whole(time_type()),
            DataType::Boolean => As::Whole(DataType::Boolean),
            _ => As::Text,
        };
        Ok(Comparison { items: ty.keys(&values.items)?, with: ty.keys(&with)? })
    }

    /// How each value of a row compares with the row's other value, where the two can be compared.
    fn orders(&self, values: &Rows, row: usize) -> impl Iterator<Item = Ordering> {
        let row_with = if self.with.len() == 1 { 0 } else { row };
        let with = self.with.is_valid(row_with).then(|| self.with.value(row_with));
        let items = values.of(row).filter(|at| self.items.is_valid(*at));
        with.into_iter().flat_map(move |with| items.clone().map(move |at| self.items.value(at).cmp(with)))
    }

    /// Whether any value compares so; `<>` is that none is equal.
    fn holds(&self, op: &str, values: &Rows, row: usize) -> Option<bool> {
        let mut orders = self.orders(values, row).peekable();
        orders.peek()?;
        Some(match op {
            "=" => orders.any(Ordering::is_eq),
            "!=" => orders.all(Ordering::is_ne),
            "<" => orders.any(Ordering::is_lt),
            "<=" => orders.any(Ordering::is_le),
            ">" => orders.any(Ordering::is_gt),
            _ => orders.any(Ordering::is_ge),
        })
    }
}

fn any_of(with: &[Comparison], values: &Rows, row: usize) -> Option<bool> {
    let mut unknown = false;
    for one in with {
        match one.holds("=", values, row) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => unknown = true,
        }
    }
    (!unknown).then_some(false)
}

/// Whether one value is between both.
fn between(low: &Comparison, high: &Comparison, values: &Rows, row: usize) -> Option<bool> {
    let mut orders = low.orders(values, row).zip(high.orders(values, row)).peekable();
    orders.peek()?;
    Some(orders.any(|(low, high)| low.is_ge() && high.is_le()))
}

/// What two values are compared as.
enum As {
    Number,
    /// A type whose values are whole numbers.
    Whole(DataType),
    Text,
}

impl As {
    fn keys(&self, array: &ArrayRef) -> DataFusionResult<BinaryArray> {
        let cast = |array: &ArrayRef, ty: &DataType| {
            cast_with_options(array, ty, &CastOptions { safe: false, ..CastOptions::default() })
        };
        let keyed = match (self, array.data_type()) {
            (As::Number, DataType::Utf8) => return Ok(numbers_of_text(array)),
            (As::Number, DataType::Utf8View) => return Ok(numbers_of_text(&cast(array, &DataType::Utf8)?)),
            (As::Number, ty) if ty.is_floating() => cast(array, &DataType::Float64)?,
            (As::Number, DataType::UInt64 | DataType::Decimal128(_, 0)) => cast(array, &BIG)?,
            (As::Number, DataType::Decimal128(..)) => cast(array, &DataType::Float64)?,
            (As::Number, _) => cast(array, &DataType::Int64)?,
            (As::Whole(ty), _) => cast(&cast(array, ty)?, &DataType::Int64)?,
            (As::Text, _) => {
                let texts = cast(array, &DataType::Utf8)?;
                return Ok(texts.as_string::<i32>().iter().map(|text| text.map(str::as_bytes)).collect());
            }
        };
        mixed::keys(&keyed, false).map(|keys| keys.as_binary::<i32>().clone()).map_err(external)
    }
}

fn numbers_of_text(array: &ArrayRef) -> BinaryArray {
    array.as_string::<i32>().iter().map(|text| mixed::number(text?)).collect()
}
