//! Corrects the precedence of `IS DISTINCT FROM`, which in SQL binds more tightly than `NOT`, `AND`, `XOR` and `OR`.
//! sqlparser takes
//! everything after it as its right side, so that `f IS DISTINCT FROM true AND f IS NULL` would be
//! `f IS DISTINCT FROM (true AND f IS NULL)`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Statement, UnaryOperator, Value as SqlValue, visit_expressions,
    visit_expressions_mut,
};

use crate::{Error, Result};

/// `Invalid` where a statement has a whole number that a double would round.
pub(super) fn check_numbers(statement: &Statement) -> Result<()> {
    let found = visit_expressions(statement, |expr| match expr {
        Expr::Value(value) => match &value.value {
            SqlValue::Number(digits, _)
                if digits.parse::<u64>().is_err() && digits.bytes().all(|b| b.is_ascii_digit()) =>
            {
                ControlFlow::Break(digits.clone())
            }
            _ => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(digits) => Err(Error::invalid(format!(
            "{digits} is beyond 64 bits: write cast('{digits}' as decimal(38, 0))"
        ))),
    }
}

/// Puts the operators of a statement together as SQL's precedences say. `Invalid` where they say nothing:
/// `a IS DISTINCT FROM b IS NULL`.
pub(super) fn restore(statement: &mut Statement) -> Result<()> {
    let found = visit_expressions(statement, |expr| match expr {
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if found.is_continue() {
        return Ok(());
    }
    let restored = visit_expressions_mut(statement, |expr| {
        let taken = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
        match Chain::of(taken) {
            Ok(chain) => {
                *expr = chain.build();
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    });
    match restored {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Operands and what stands between them, before anything binds.
struct Chain {
    first: Expr,
    rest: Vec<(BinaryOperator, Expr)>,
}

impl Chain {
    fn of(expr: Expr) -> Result<Chain> {
        match expr {
            Expr::BinaryOp { left, op, right } if strength(&op).is_some() => {
                let (mut chain, right) = (Chain::of(*left)?, Chain::of(*right)?);
                chain.rest.push((op, right.first));
                chain.rest.extend(right.rest);
                Ok(chain)
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                let chain = Chain::of(*expr)?;
                let first = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(chain.first) };
                Ok(Chain { first, ..chain })
            }
            Expr::IsDistinctFrom(left, right) => {
                Chain::after(*right, |right| Expr::IsDistinctFrom(left, Box::new(right)))
            }
            Expr::IsNotDistinctFrom(left, right) => {
                Chain::after(*right, |right| Expr::IsNotDistinctFrom(left, Box::new(right)))
            }
            first => Ok(Chain { first, rest: Vec::new() }),
        }
    }

    fn after(right: Expr, compare: impl FnOnce(Expr) -> Expr) -> Result<Chain> {
        let chain = Chain::of(right)?;
        let is_test = matches!(
            chain.first,
            Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::IsTrue(_)
                | Expr::IsNotTrue(_)
                | Expr::IsFalse(_)
                | Expr::IsNotFalse(_)
                | Expr::IsUnknown(_)
                | Expr::IsNotUnknown(_)
                | Expr::IsDistinctFrom(..)
                | Expr::IsNotDistinctFrom(..)
        );
        if is_test {
            return Err(Error::invalid("put parentheses around what follows IS [NOT] DISTINCT FROM"));
        }
        Ok(Chain { first: compare(chain.first), ..chain })
    }

    fn build(self) -> Expr {
        let mut operands = vec![self.first];
        let mut waiting: Vec<BinaryOperator> = Vec::new();
        for (op, operand) in self.rest {
            while waiting.last().is_some_and(|before| strength(before) >= strength(&op)) {
                join(&mut operands, &mut waiting);
            }
            waiting.push(op);
            operands.push(operand);
        }
        while !waiting.is_empty() {
            join(&mut operands, &mut waiting);
        }
        operands.swap_remove(0)
    }
}

fn join(operands: &mut Vec<Expr>, waiting: &mut Vec<BinaryOperator>) {
    if let (Some(right), Some(left), Some(op)) = (operands.pop(), operands.pop(), waiting.pop()) {
        operands.push(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) });
    }
}

fn strength(op: &BinaryOperator) -> Option<u8> {
    match op {
        BinaryOperator::And => Some(3),
        BinaryOperator::Xor => Some(2),
        BinaryOperator::Or => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
