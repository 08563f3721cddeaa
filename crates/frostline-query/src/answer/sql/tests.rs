use serde_json::{Value, json};

use super::*;
use crate::testing::Place;

#[test]
fn show_tables_is_told_from_other_queries() {
    for (query, shows) in
        [("show tables", true), (" SHOW\n TABLES ; ", true), ("show tables like 'x'", false)]
    {
        assert_eq!(Sql::shows_tables(query), shows, "{query}");
    }
}

/// A first query, and others of which each reads the one before.
fn chained(count: usize, next: impl Fn(usize) -> String) -> String {
    let queries: String = (1..=count).map(|at| format!(", q{at} as ({})", next(at - 1))).collect();
    format!("with q0 as (select n from logs){queries} select count(*) from q{count}")
}

fn nested(count: usize, (start, end): (&str, &str), inner: &str) -> String {
    format!("{}{inner}{}", start.repeat(count), end.repeat(count))
}

#[tokio::test]
async fn nested_queries_are_answered_or_refused() {
    let place = Place::with(&[vec![json!({ "n": 1 }), json!({ "n": 2 })]]).await;
    let sql = Sql::new(&place.searcher, std::slice::from_ref(&place.index)).unwrap();
    let rows = async |query: &str| -> Result<Vec<Vec<Value>>> {
        Sql::tables(query)?;
        let rows = serde_json::to_value(sql.run(query).await?.json_rows()).unwrap();
        Ok(serde_json::from_value(rows).unwrap())
    };
    let filtered = |before: usize| format!("select n from q{before} where n + 0 <> -{before} - 1");
    let answered = [
        (nested(20, ("select n from (", ")"), "select n from logs where n > 1"), json!(2)),
        (format!("select {}", nested(20, ("abs(", ")"), "1")), json!(1)),
        (format!("select {}true", "not ".repeat(40)), json!(true)),
        (format!("select 1{}", "::int".repeat(120)), json!(1)),
        (format!("select null{}", " is null".repeat(120)), json!(false)),
        (format!("select count(*) from logs where {}", vec!["n = 2"; 120].join(" or ")), json!(1)),
        (chained(40, |before| format!("select n from q{before}")), json!(2)),
        (chained(20, filtered), json!(2)),
        (nested(8, ("with a as (", ") select n from a"), "select 2 as n"), json!(2)),
    ];
    for (query, expected) in answered {
        assert_eq!(rows(&query).await.unwrap(), [[expected]], "{query}");
    }
    let doubled = |before: usize| format!("select a.n from q{before} a join q{before} b on a.n = b.n");
    let refused = [
        (format!("select 1{}", "::int".repeat(251)), "deeper than 250 levels"),
        (format!("select 1{}", "::int".repeat(20_000)), "deeper than 250 levels"),
        (format!("select 1{}", "::int".repeat(100_000)), "names and signs"),
        (format!("{}select 1", "explain ".repeat(5_000)), "operators and 250"),
        (format!("select 1::{}", nested(5_000, ("array<", ">"), "int")), "operators and 250"),
        (nested(5_000, ("(", ")"), "select 1"), "brackets in more than 250 others"),
        (chained(250, |before| format!("select n from q{before}")), "tables and subqueries"),
        (
            format!("select {} from logs", nested(50, ("CAST(", " AS BIGINT)"), "n")),
            "CAST inside of more than 16 others",
        ),
        (format!("select cast(n as int{}) from logs", "[]".repeat(300)), "operators and 250"),
        (format!("select a.n from logs a {}", "join logs using (n) ".repeat(99)), "tables and subqueries"),
        (chained(20, doubled), "more than 5000 steps"),
        (
            nested(30, ("with a as (", ") select n from a"), "select 1 as n"),
            "WITH inside of more than 8 others",
        ),
    ];
    for (query, expected) in refused {
        let error = rows(&query).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
