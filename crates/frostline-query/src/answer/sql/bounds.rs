//! How deep and how large a query may be: whatever reads it calls itself for each level, on a stack that ends.

use std::ops::ControlFlow;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Statement as SqlStatement, TableFactor, Visit, Visitor};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::errors::internal;
use crate::{Error, Result};

/// The most operators of a query.
const OPERATORS_MAX: usize = 250;
/// The most levels of an expression.
const DEPTH_MAX: usize = 250;
/// The most tables and subqueries: each may be in the next one.
const TABLES_MAX: usize = 250;
/// The most steps of a plan, in which what a name stands for is written anew wherever a query names it.
const STEPS_MAX: usize = 5_000;
/// The most names and signs. A statement is read before its levels are counted, of which it has fewer.
const SIGNS_MAX: usize = 50_000;

/// `Invalid` where a text may be a statement that is too deep to be read: a chain of operators is a tree as deep as it is
/// long.
pub(super) fn check_text(query: &str) -> Result<()> {
    // What is no SQL is refused by the parser.
    let tokens = Tokenizer::new(&GenericDialect {}, query).tokenize().unwrap_or_default();
    if brackets(&tokens) > DEPTH_MAX {
        return Err(Error::invalid(format!("the query has brackets in more than {DEPTH_MAX} others")));
    }
    let is_operator = |token: &&Token| match token {
        Token::Word(word) => is_operator(word.keyword),
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod | Token::StringConcat => true,
        Token::Ampersand | Token::Pipe | Token::Caret | Token::ShiftLeft | Token::ShiftRight => true,
        Token::Arrow | Token::Colon => true,
        _ => false,
    };
    let operators = tokens.iter().filter(is_operator).count();
    if operators > OPERATORS_MAX {
        return Err(Error::invalid(format!(
            "the query has {operators} operators and {OPERATORS_MAX} are allowed: ask for many values with IN (…)"
        )));
    }
    let is_sign = |token: &&Token| {
        !matches!(
            token,
            Token::Whitespace(_) | Token::Comma | Token::Number(..) | Token::SingleQuotedString(_)
        )
    };
    match tokens.iter().filter(is_sign).count() {
        0..=SIGNS_MAX => Ok(()),
        more => Err(Error::invalid(format!(
            "the query has {more} names and signs beside its values, and {SIGNS_MAX} are allowed"
        ))),
    }
}

/// How many brackets are in one another.
fn brackets(tokens: &[Token]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for token in tokens {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Whether what follows may be nested in it.
fn is_operator(keyword: Keyword) -> bool {
    match keyword {
        Keyword::AND | Keyword::OR | Keyword::XOR => true,
        Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => true,
        Keyword::EXPLAIN | Keyword::PREPARE | Keyword::IF | Keyword::INTERVAL | Keyword::PIVOT => true,
        // Types of values in others.
        Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP => true,
        _ => false,
    }
}

/// `Invalid` where a statement is nested too deep, or reads too many tables.
pub(super) fn check(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Statement(statement) => check_statement(statement),
        Statement::Explain(explain) => check(&explain.statement),
        _ => Ok(()),
    }
}

fn check_statement(statement: &SqlStatement) -> Result<()> {
    let mut extent = Extent::default();
    let ControlFlow::Continue(()) = statement.visit(&mut extent) else {
        return Err(Error::invalid(format!(
            "an expression of the query is nested deeper than {DEPTH_MAX} levels"
        )));
    };
    match extent.tables {
        0..=TABLES_MAX => Ok(()),
        more => Err(Error::invalid(format!(
            "the query reads {more} tables and subqueries, and {TABLES_MAX} are allowed"
        ))),
    }
}

#[derive(Default)]
struct Extent {
    depth: usize,
    tables: usize,
}

impl Visitor for Extent {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<()> {
        self.tables += 1;
        ControlFlow::Continue(())
    }
}

/// `Invalid` where a plan is too large to be improved: subqueries that read one another twice double it with each.
pub(super) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    let mut steps = 0;
    let visited = plan.apply_with_subqueries(|_| {
        steps += 1;
        Ok(if steps > STEPS_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.map_err(internal)?;
    if steps > STEPS_MAX {
        return Err(Error::invalid(format!(
            "the plan of the query has more than {STEPS_MAX} steps: read each subquery fewer times"
        )));
    }
    Ok(())
}
