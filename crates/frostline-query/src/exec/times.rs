//! Texts that SQL compares with a time, and `now()`: they are times of microseconds, as columns of times are. DataFusion
//! makes them times of nanoseconds, which begin in 1677 and end in 2262.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator, cast};

use crate::read::merge::time_type;

/// A comparison of a time with texts, in which these are times; or the present time.
pub(crate) fn read(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_time = |expr: &Expr| expr.get_type(schema).is_ok_and(|ty| ty == time_type());
    let is_text = |expr: &Expr| expr.get_type(schema).is_ok_and(|ty| ty.is_string());
    let time = |expr: Expr| match matches!(expr, Expr::Literal(..)) && is_text(&expr) {
        true => cast(expr, time_type()),
        false => expr,
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && is_time(&left) != is_time(&right) =>
        {
            let (left, right) = (Box::new(time(*left)), Box::new(time(*right)));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_time(&expr) => {
            let (low, high) = (Box::new(time(*low)), Box::new(time(*high)));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated }) if is_time(&expr) => {
            let list = list.into_iter().map(time).collect();
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::ScalarFunction(function) if function.name() == "now" => {
            Transformed::yes(cast(Expr::ScalarFunction(function), time_type()))
        }
        other => Transformed::no(other),
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
