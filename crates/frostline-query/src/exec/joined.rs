//! Texts joined by `||`, and lists joined, as functions that are refused where their results would be too large: a
//! subquery that joins a text with itself doubles it, and so does the next one.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::kernels::concat_elements::concat_elements_utf8;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::exec::bounded::{Bounded, JOIN};
use crate::exec::rewrite;

/// The functions that `||` of lists is planned as.
pub(crate) const OF_LISTS: [&str; 3] = ["array_append", "array_concat", "array_prepend"];

/// The rule that puts the bounded functions in the place of operators.
#[derive(Debug)]
pub(crate) struct BoundedJoins {
    texts: Arc<ScalarUDF>,
    lists: Vec<Arc<ScalarUDF>>,
}

impl BoundedJoins {
    /// With these functions of lists, bounded by the memory of a query.
    pub(crate) fn new(
        lists: impl Iterator<Item = Arc<ScalarUDF>>,
        memory: &Arc<dyn MemoryPool>,
    ) -> BoundedJoins {
        let bounded = |function: &ScalarUDF| Arc::new(Bounded::over(function, memory));
        let texts = ScalarUDF::from(Joined { signature: Signature::any(2, Volatility::Immutable) });
        BoundedJoins { texts: bounded(&texts), lists: lists.map(|function| bounded(&function)).collect() }
    }

    /// The functions that it puts in.
    pub(crate) fn functions(&self) -> impl Iterator<Item = ScalarUDF> {
        [&self.texts].into_iter().chain(&self.lists).map(|function| function.as_ref().clone())
    }
}

impl AnalyzerRule for BoundedJoins {
    fn name(&self) -> &str {
        "bounded_joins"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            rewrite::expressions(node, |expr| {
                expr.transform_up(|expr| {
                    let is_text = |expr: &Expr| expr.get_type(&schema).is_ok_and(|ty| ty == DataType::Utf8);
                    Ok(match expr {
                        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
                            if is_text(&left) && is_text(&right) =>
                        {
                            let args = vec![*left, *right];
                            let call = ScalarFunction::new_udf(Arc::clone(&self.texts), args);
                            Transformed::yes(Expr::ScalarFunction(call))
                        }
                        Expr::ScalarFunction(ScalarFunction { func, args }) => {
                            let bounded = self.lists.iter().find(|known| known.name() == func.name());
                            let call = ScalarFunction::new_udf(Arc::clone(bounded.unwrap_or(&func)), args);
                            Transformed::new_transformed(Expr::ScalarFunction(call), bounded.is_some())
                        }
                        other => Transformed::no(other),
                    })
                })
            })
        })?;
        Ok(rewritten.data)
    }
}

/// Two texts, one after the other; null where one of them is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Joined {
    signature: Signature,
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &str {
        JOIN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = arrays.as_slice() else {
            return Err(DataFusionError::Internal("a join of other than two texts".to_owned()));
        };
        let joined = concat_elements_utf8(left.as_string::<i32>(), right.as_string::<i32>())?;
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?)),
            false => Ok(ColumnarValue::Array(Arc::new(joined))),
        }
    }
}
