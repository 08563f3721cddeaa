use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::*;

fn read(condition: &str) -> Result<Statement> {
    let mut parsed = Parser::parse_sql(&GenericDialect {}, &format!("SELECT 1 WHERE {condition}")).unwrap();
    let mut statement = parsed.remove(0);
    restore(&mut statement).map(|()| statement)
}

/// Without the parentheses it reads as with them.
#[track_caller]
fn check(bare: &str, grouped: &str) {
    fn plain(statement: &mut Statement) -> String {
        let _ = visit_expressions_mut(statement, |expr| {
            if let Expr::Nested(inner) = expr {
                *expr = (**inner).clone();
            }
            ControlFlow::<()>::Continue(())
        });
        format!("{statement:?}").split_once("selection").unwrap().1.replace(char::is_numeric, "")
    }
    assert_eq!(plain(&mut read(bare).unwrap()), plain(&mut read(grouped).unwrap()), "{bare}");
}

#[test]
fn is_distinct_from_binds_before_and_and_or() {
    check("f IS DISTINCT FROM true AND f IS NULL", "(f IS DISTINCT FROM true) AND (f IS NULL)");
    check("a IS NOT DISTINCT FROM b OR c AND d", "(a IS NOT DISTINCT FROM b) OR (c AND d)");
    check(
        "a IS DISTINCT FROM b AND c IS DISTINCT FROM d OR e",
        "((a IS DISTINCT FROM b) AND (c IS DISTINCT FROM d)) OR e",
    );
    check("NOT a IS DISTINCT FROM b AND c", "(NOT (a IS DISTINCT FROM b)) AND c");
    check("x OR a IS DISTINCT FROM b + 1 AND c", "x OR ((a IS DISTINCT FROM (b + 1)) AND c)");
    check("a IS DISTINCT FROM (b AND c) OR d", "(a IS DISTINCT FROM (b AND c)) OR d");
    check("a OR b AND NOT c", "a OR (b AND (NOT c))");
}

#[test]
fn what_binds_neither_way_is_refused() {
    for condition in ["a IS DISTINCT FROM b IS NULL", "a IS DISTINCT FROM b IS DISTINCT FROM c"] {
        assert!(read(condition).unwrap_err().to_string().contains("parentheses"), "{condition}");
    }
    assert!(read("(a IS DISTINCT FROM b) IS NULL").is_ok());
}
