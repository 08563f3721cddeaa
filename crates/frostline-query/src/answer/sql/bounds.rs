//! How deep and how large a query may be: whatever reads it calls itself for each level, on a stack that ends.

use std::ops::ControlFlow;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Statement as SqlStatement, TableFactor, Visit, Visitor};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::errors::internal;
use crate::{Error, Result};

/// The most operators of a query.
const OPERATORS_MAX: usize = 250;
/// The most casts in one another: each is read twice, for the one around it.
const CASTS_MAX: usize = 16;
/// The most levels of an expression.
const DEPTH_MAX: usize = 250;
/// The most queries with `WITH` that are in one another: each is planned twice for the one around it.
const NAMING_MAX: usize = 8;
/// The most tables and subqueries: each may be in the next one.
const TABLES_MAX: usize = 64;
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
    if casts(&tokens) > CASTS_MAX {
        return Err(Error::invalid(format!("the query has CAST inside of more than {CASTS_MAX} others")));
    }
    let is_operator = |token: &&Token| match token {
        Token::Word(word) => is_operator(word.keyword),
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod | Token::StringConcat => true,
        Token::Ampersand | Token::Pipe | Token::Caret | Token::ShiftLeft | Token::ShiftRight => true,
        Token::Arrow | Token::Colon => true,
        // A list of the type before it.
        Token::LBracket => true,
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

/// How many casts are in one another.
fn casts(tokens: &[Token]) -> usize {
    let mut is_cast = false;
    let (mut open, mut deepest) = (Vec::new(), 0);
    for token in tokens {
        match token {
            Token::LParen => open.push(is_cast),
            Token::RParen => drop(open.pop()),
            _ => {}
        }
        deepest = deepest.max(open.iter().filter(|is_cast| **is_cast).count());
        is_cast = match token {
            Token::Word(word) => {
                matches!(word.keyword, Keyword::CAST | Keyword::TRY_CAST | Keyword::SAFE_CAST)
            }
            Token::Whitespace(_) => is_cast,
            _ => false,
        };
    }
    deepest
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
    if let ControlFlow::Break(what) = statement.visit(&mut extent) {
        return Err(Error::invalid(what));
    }
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
    naming: usize,
    tables: usize,
}

impl Visitor for Extent {
    type Break = String;

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<String> {
        self.depth += 1;
        match self.depth > DEPTH_MAX {
            true => ControlFlow::Break(format!(
                "an expression of the query is nested deeper than {DEPTH_MAX} levels"
            )),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<String> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        self.naming += usize::from(query.with.is_some());
        match self.naming > NAMING_MAX {
            true => ControlFlow::Break(format!(
                "a query has WITH inside of more than {NAMING_MAX} others: name all in the outermost"
            )),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        self.naming -= usize::from(query.with.is_some());
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<String> {
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
