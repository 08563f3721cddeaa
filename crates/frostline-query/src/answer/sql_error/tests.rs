use super::*;
use crate::testing::Place;

#[test]
fn an_unquoted_name_is_found_outside_of_quotes() {
    assert_eq!(dotted("select user.id from web").as_deref(), Some("quote dotted names: \"user.id\""));
    assert_eq!(dotted("select \"a.b\", 'c.d', 1.5 from web"), None);
    let error = ParserError::ParserError("Expected: end of statement, found: - at Line: 1".to_owned());
    assert!(not_sql("select * from logs-1", &error).ends_with("quote names with a dash: \"logs-1\""));
}

#[test]
fn a_text_that_is_no_value_of_the_column_says_what_to_write() {
    let said = |what: &str| no_value(what).unwrap_or_default();
    assert!(
        said("Cannot cast string 'it's' to value of Int64 type")
            .starts_with("the text 'it's' is not a number")
    );
    assert!(
        said("Cannot cast string 'x' to value of Decimal128(10, 2) type").contains("cast(COLUMN as varchar)")
    );
    let boolean = said("Cannot cast string 'x' to value of Boolean type");
    assert_eq!(boolean, "the text 'x' is not a value of the type Boolean");
    let time =
        said("Error parsing timestamp from 'yesterday': timestamp must contain at least 10 characters");
    assert!(time.starts_with("the text 'yesterday' is not a time"), "{time}");
    assert_eq!(no_value("something else"), None);
}

#[test]
fn an_unknown_column_is_answered_with_the_nearest_or_with_a_few() {
    let columns: Vec<Column> = (0..400).map(|n| Column::new_unqualified(format!("Field{n}"))).collect();
    let said = |name: &str| no_column("", &Column::new_unqualified(name), &columns);
    assert_eq!(said("field399"), "there is no column field399; did you mean \"Field399\"?");
    assert!(said("status").ends_with("\"Field9\" and 390 more"), "{}", said("status"));
    assert!(said("status").len() < 200);
}

/// Statements of which most are wrong, one a line.
const STATEMENTS: &str = include_str!("statements.sql");

#[tokio::test]
async fn no_statement_is_an_error_of_ours() {
    let place = Place::with(&[web()]).await;
    let mut wrong = Vec::new();
    for statement in STATEMENTS.lines().filter(|line| !line.starts_with("--")) {
        let answered = place.rows(statement).await;
        if let Err(error) = answered {
            let (what, kind) = (error.to_string(), error.kind());
            let told = what.split_once("\n  in: ").map_or(what.as_str(), |(told, _)| told);
            let is_plain = told.lines().count() == 1
                && !["DataFusion", "datafusion.", " { ", "rror: ", "bug", "caused by", "Did you mean"]
                    .iter()
                    .any(|word| told.contains(word));
            if !is_plain
                || !matches!(kind, ErrorKind::Invalid | ErrorKind::Exhausted)
                || what.matches(told).count() != 1
            {
                wrong.push(format!("{statement}\n    {kind:?}: {what}"));
            } else if std::env::var_os("FROSTLINE_SHOW").is_some() {
                println!("{statement}\n    {told}");
            }
        }
    }
    assert!(wrong.is_empty(), "{} statements:\n{}", wrong.len(), wrong.join("\n"));
}

fn web() -> Vec<serde_json::Value> {
    let document = |n: usize| {
        serde_json::json!({
            "@timestamp": 1_700_000_000_000_u64 + n as u64 * 1_000, "verb": if n.is_multiple_of(2) { "get" } else { "post" }, "status": 200 + n % 5,
            "agent": format!("agent-{}", n % 7), "host": format!("h{}", n % 5), "bytes": n as f64 * 3.5,
        })
    };
    (0..30).map(document).collect()
}

#[tokio::test]
async fn an_error_of_a_statement_says_once_what_is_wrong() {
    let place = Place::with(&[web()]).await;
    for (statement, expected) in [
        ("select 1 from logs where agent ~ 'bot('", "'bot(' is not a regular expression: unclosed group"),
        ("select regexp_like(verb, '(') from logs", "'(' is not a regular expression: unclosed group"),
        (
            "select regexp_replace(verb, '[', 'x') from logs",
            "'[' is not a regular expression: unclosed character class",
        ),
        ("select 1 from logs where verb similar to '('", "'(' is not a regular expression: unclosed group"),
        (
            "select regexp_like(verb, host || '(') from logs",
            "'h0(' is not a regular expression: unclosed group",
        ),
        ("select foo(1), bar(2) from logs", "there is no function foo"),
        ("select lenght(verb) from logs", "there is no function lenght; did you mean length?"),
        ("copy logs to '/tmp/x'", "SQL only reads: to delete an index, use `frostline index delete`"),
        (
            "copy logs to '/tmp/x.csv' stored as csv",
            "SQL only reads: to delete an index, use `frostline index delete`",
        ),
        (
            "select match(agent) from logs",
            "the function match does not take these arguments, match(Utf8): it is match(Any, Any) or match(Any, Any, Any)",
        ),
        ("select 1 from logs where verb rlike 'a'", "not supported: Unsupported ast node in sqltorel: RLike"),
        ("select 1 from nothing", "table 'nothing' not found"),
        ("select array_resize([1], -1)", "array_resize: failed to convert size to usize"),
        ("select 1 / 0", "Divide by zero error"),
    ] {
        let error = place.rows(statement).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(error.to_string(), format!("{expected}\n  in: {statement}"));
    }
}
