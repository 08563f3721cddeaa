//! Preserves SQL's three-valued logic against an optimizer rule.
//!
//! DataFusion merges lists: `x NOT IN (1) OR x NOT IN (2)` becomes true, `x IN (1) AND x IN (2)` false. Both are wrong
//! if x is null. In a filter of comparisons, `AND` and `OR`, null and false are equivalent. In any other expression all
//! comparisons of a value with a literal or a list, except the first, get the value through [`Same`], a function that
//! DataFusion does not see through, but a scan does.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::exec::rewrite;

/// The rule that keeps comparisons apart.
#[derive(Debug)]
pub(crate) struct KeepNulls {
    same: Arc<ScalarUDF>,
}

impl KeepNulls {
    pub(crate) fn new() -> KeepNulls {
        KeepNulls { same: Arc::new(ScalarUDF::from(Same::new())) }
    }

    /// The function that it inserts to keep them apart.
    pub(crate) fn function(&self) -> ScalarUDF {
        self.same.as_ref().clone()
    }

    fn apart(&self, expr: Expr, seen: &mut HashMap<Expr, u64>) -> DataFusionResult<Transformed<Expr>> {
        expr.transform_up(|expr| {
            let Some(value) = compared(&expr) else { return Ok(Transformed::no(expr)) };
            let count = seen.entry(value.clone()).or_default();
            *count += 1;
            if *count == 1 {
                return Ok(Transformed::no(expr));
            }
            let again = |value: Box<Expr>| {
                let args = vec![*value, lit(*count)];
                Box::new(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&self.same), args)))
            };
            Ok(Transformed::yes(match expr {
                Expr::InList(list) => Expr::InList(InList { expr: again(list.expr), ..list }),
                Expr::BinaryExpr(BinaryExpr { left, op, right }) => match *left {
                    Expr::Literal(..) => Expr::BinaryExpr(BinaryExpr { left, op, right: again(right) }),
                    _ => Expr::BinaryExpr(BinaryExpr { left: again(left), op, right }),
                },
                other => other,
            }))
        })
    }
}

impl AnalyzerRule for KeepNulls {
    fn name(&self) -> &str {
        "keep_nulls"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let rewritten = plan.transform_down_with_subqueries(|node| {
            let is_filter = matches!(node, LogicalPlan::Filter(_));
            rewrite::expressions(node, |expr| match is_filter && cannot_tell(&expr) {
                true => Ok(Transformed::no(expr)),
                false => self.apart(expr, &mut HashMap::new()),
            })
        })?;
        Ok(rewritten.data)
    }
}

/// The value that an expression compares with a literal or a list.
fn compared(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::InList(list) => Some(&list.expr),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq | Operator::NotEq, right }) => {
            match (left.as_ref(), right.as_ref()) {
                (value, Expr::Literal(..)) | (Expr::Literal(..), value) => Some(value),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a filter gives the same result if a part of the condition is false instead of null.
fn cannot_tell(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            cannot_tell(left) && cannot_tell(right)
        }
        // Merged lists of exclusions can become true.
        Expr::InList(list) => !list.negated,
        Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }) => true,
        other => {
            let has_comparison = other.exists(|part| Ok(compared(part).is_some()));
            !has_comparison.unwrap_or(true)
        }
    }
}

/// The value that an expression stands for, looking through [`Same`].
pub(crate) fn looked_through(expr: &Expr) -> &Expr {
    match expr {
        Expr::ScalarFunction(function) if function.name() == SAME => {
            function.args.first().map_or(expr, looked_through)
        }
        other => other,
    }
}

const SAME: &str = "frostline_same";

/// Its first argument, whatever the second is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Same {
    signature: Signature,
}

impl Same {
    fn new() -> Same {
        Same { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Same {
    fn name(&self) -> &str {
        SAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DataFusionResult<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(|| {
            datafusion::error::DataFusionError::Internal(format!("{SAME} without an argument"))
        })
    }
}
