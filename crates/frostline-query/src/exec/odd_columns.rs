//! SQL comparisons with columns that a few documents turned into lists or text.
//!
//! One array makes a column a list, and one text makes a column of numbers text. A list compares like a field
//! with several values in a search: true if any of them does. Text that is compared with a number is parsed
//! as one, and text that is not a number never matches.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_nested::expr_fn::{array_has, array_max, array_min};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast, try_cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// The rule that plans such comparisons.
#[derive(Debug)]
pub(crate) struct OddColumns;

impl ExprPlanner for OddColumns {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> DataFusionResult<PlannerResult<RawBinaryExpr>> {
        let Some(op) = operator(&expr.op) else { return Ok(PlannerResult::Original(expr)) };
        let types = (expr.left.get_type(schema)?, expr.right.get_type(schema)?);
        let planned = match &types {
            (DataType::List(_), DataType::List(_)) => None,
            (DataType::List(_), _) => any_value(&expr.left, op, &expr.right),
            (_, DataType::List(_)) => op.swap().and_then(|op| any_value(&expr.right, op, &expr.left)),
            (DataType::Utf8, other) if compares_as_number(&expr.left, &expr.right, other) => Some(binary(
                try_cast(expr.left.clone(), DataType::Float64),
                op,
                cast(expr.right.clone(), DataType::Float64),
            )),
            (other, DataType::Utf8) if compares_as_number(&expr.right, &expr.left, other) => Some(binary(
                cast(expr.left.clone(), DataType::Float64),
                op,
                try_cast(expr.right.clone(), DataType::Float64),
            )),
            _ => None,
        };
        Ok(planned.map_or_else(|| PlannerResult::Original(expr), PlannerResult::Planned))
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

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Whether any value of a list compares in this way; `<>` is true if none is equal.
fn any_value(list: &Expr, op: Operator, value: &Expr) -> Option<Expr> {
    let (list, value) = (list.clone(), value.clone());
    Some(match op {
        Operator::Eq => array_has(list, value),
        Operator::NotEq => !array_has(list, value),
        Operator::Lt | Operator::LtEq => binary(array_min(list), op, value),
        Operator::Gt | Operator::GtEq => binary(array_max(list), op, value),
        _ => return None,
    })
}

/// Whether a column of text is compared with a number that a double represents exactly.
fn compares_as_number(column: &Expr, number: &Expr, ty: &DataType) -> bool {
    const EXACT_MAX: u64 = 1 << 53;
    let exact = match number {
        Expr::Negative(number) => return compares_as_number(column, number, ty),
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => number.unsigned_abs() <= EXACT_MAX,
        Expr::Literal(ScalarValue::Float64(Some(_)), _) => true,
        _ => false,
    };
    matches!(column, Expr::Column(_)) && ty.is_numeric() && exact
}
