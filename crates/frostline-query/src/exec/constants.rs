//! Constants of a plan that are too large for its rows: beside columns, a constant is repeated for each row of a batch.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;

use crate::errors::internal;
use crate::exec::leaf::LeafExec;
use crate::{Error, Result};

/// Shorter ones, of which a query may have thousands, are nothing beside what their rows take.
const LARGE: usize = 1 << 10;

/// `Exhausted` where the constants of an operator take more than `bytes_max` in a batch of `batch_rows`.
pub(crate) fn check(plan: &Arc<dyn ExecutionPlan>, batch_rows: usize, bytes_max: usize) -> Result<()> {
    let mut largest = (0_usize, 0, 0);
    let visited = plan.apply(|node| {
        let mut bytes = 0;
        node.apply_expressions(&mut |expr| {
            expr.apply(|part| {
                let size = part.downcast_ref::<Literal>().map_or(0, |literal| literal.value().size());
                bytes += if size > LARGE { size } else { 0 };
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        let rows = match node.children().as_slice() {
            [below] => rows_max(below.as_ref()).min(batch_rows as u64) as usize,
            _ => batch_rows,
        };
        largest = largest.max((bytes.saturating_mul(rows), bytes, rows));
        Ok(TreeNodeRecursion::Continue)
    });
    visited.map_err(internal)?;
    match largest {
        (whole, bytes, rows) if whole > bytes_max => Err(Error::exhausted(format!(
            "constants of {bytes} bytes would be repeated for {rows} rows at once, and may take {bytes_max} bytes: write \
             shorter ones, or allow more with --query-memory"
        ))),
        _ => Ok(()),
    }
}

/// How many rows an operator returns at most.
fn rows_max(plan: &dyn ExecutionPlan) -> u64 {
    if plan.is::<PlaceholderRowExec>() {
        return 1;
    }
    if let Some(leaf) = plan.downcast_ref::<LeafExec>() {
        return leaf.leaf().splits().entries().map(|entry| entry.rows).sum();
    }
    let rows = match (plan.cardinality_effect(), plan.children().as_slice()) {
        (CardinalityEffect::Equal | CardinalityEffect::LowerEqual, [below]) => rows_max(below.as_ref()),
        _ => u64::MAX,
    };
    plan.fetch().map_or(rows, |limit| rows.min(limit as u64))
}
