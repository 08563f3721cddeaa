//! Whole numbers in SQL are added, subtracted and multiplied without wrapping: an error where the result does not
//! fit its type. DataFusion's own operators wrap, and lose their option not to when a plan is written to bytes.

use std::sync::Arc;

use arrow::array::{ArrayRef, Datum};
use arrow::compute::kernels::numeric;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::ExprSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;

use crate::exec::rewrite;

/// The rule that puts [`Checked`] in the place of operators.
#[derive(Debug)]
pub(crate) struct CheckedArithmetic {
    functions: [Arc<ScalarUDF>; 3],
}

impl CheckedArithmetic {
    pub(crate) fn new() -> CheckedArithmetic {
        let function = |of| Arc::new(ScalarUDF::from(Checked::new(of)));
        CheckedArithmetic { functions: [Of::Sum, Of::Difference, Of::Product].map(function) }
    }

    /// The functions that it puts in.
    pub(crate) fn functions(&self) -> impl Iterator<Item = ScalarUDF> {
        self.functions.iter().map(|function| function.as_ref().clone())
    }

    fn call(&self, of: Of, left: Expr, right: Expr) -> Expr {
        let function = Arc::clone(&self.functions[of as usize]);
        Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![left, right]))
    }

    fn checked(&self, expr: Expr, schema: &dyn ExprSchema) -> DataFusionResult<Transformed<Expr>> {
        expr.transform_up(|expr| {
            let is_integer = |expr: &Expr| expr.get_type(schema).is_ok_and(|ty| ty.is_integer());
            let is_whole = match &expr {
                Expr::BinaryExpr(BinaryExpr { left, right, .. }) => is_integer(left) && is_integer(right),
                Expr::Negative(value) => value.get_type(schema).is_ok_and(|ty| ty == DataType::Int64),
                _ => false,
            };
            if !is_whole {
                return Ok(Transformed::no(expr));
            }
            Ok(match expr {
                Expr::Negative(value) => Transformed::yes(self.call(Of::Difference, lit(0_i64), *value)),
                Expr::BinaryExpr(BinaryExpr { left, op, right }) => match Of::operator(op) {
                    Some(of) => Transformed::yes(self.call(of, *left, *right)),
                    None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
                },
                other => Transformed::no(other),
            })
        })
    }
}

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            rewrite::expressions(node, |expr| self.checked(expr, &schema))
        })?;
        Ok(rewritten.data)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    Sum,
    Difference,
    Product,
}

impl Of {
    fn operator(op: Operator) -> Option<Of> {
        match op {
            Operator::Plus => Some(Of::Sum),
            Operator::Minus => Some(Of::Difference),
            Operator::Multiply => Some(Of::Product),
            _ => None,
        }
    }

    fn apply(self, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
        match self {
            Of::Sum => numeric::add(left, right),
            Of::Difference => numeric::sub(left, right),
            Of::Product => numeric::mul(left, right),
        }
    }
}

/// Arithmetic that fails where the result does not fit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    of: Of,
    signature: Signature,
}

impl Checked {
    fn new(of: Of) -> Checked {
        Checked { of, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.of {
            Of::Sum => "frostline_sum",
            Of::Difference => "frostline_difference",
            Of::Product => "frostline_product",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DataFusionResult<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return Err(DataFusionError::Internal(format!("{} of other than two values", self.name())));
        };
        apply(left, right, |left, right| self.of.apply(left, right)).map_err(|error| {
            match error.find_root() {
                DataFusionError::ArrowError(error, _)
                    if matches!(error.as_ref(), ArrowError::ArithmeticOverflow(_)) =>
                {
                    DataFusionError::Execution(
                        "a whole number is beyond 64 bits: calculate with doubles, as in cast(f as double) * 2"
                            .to_owned(),
                    )
                }
                _ => error,
            }
        })
    }
}
