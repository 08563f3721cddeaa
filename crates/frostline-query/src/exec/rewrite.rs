//! Rewriting the expressions of a plan's node, whose columns keep their names.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The node with each of its expressions rewritten.
pub(crate) fn expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> DataFusionResult<Transformed<Expr>>,
) -> DataFusionResult<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    })
}
