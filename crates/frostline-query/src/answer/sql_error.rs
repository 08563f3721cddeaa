//! Errors of SQL queries, rewritten for users.

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use frostline_show::nearest;
use regex::Regex;

use crate::errors::internal;
use crate::{Error, ErrorKind};

/// Number of columns that are listed if none is similar: an index may have thousands.
const COLUMNS_SHOWN: usize = 10;

/// The error of a query that could not be planned.
pub(crate) fn worded(query: &str, error: DataFusionError) -> Error {
    let what = match error.find_root() {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => Some(no_column(query, field, valid_fields)),
            _ => None,
        },
        DataFusionError::SQL(parser, _) => Some(not_sql(query, parser)),
        DataFusionError::NotImplemented(what) if what.starts_with("Dot access") => {
            Some(dotted(query).unwrap_or_else(|| "a value has no parts".to_owned()))
        }
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::CastError(what) | ArrowError::ParseError(what) => no_value(what),
            _ => None,
        },
        _ => None,
    };
    match what {
        Some(what) => Error::invalid(format!("{what}\n  in: {query}")),
        None => match internal(error) {
            e if e.kind() == ErrorKind::Invalid => Error::invalid(format!("{e}\n  in: {query}")),
            other => other,
        },
    }
}

fn no_column(query: &str, field: &Column, valid: &[Column]) -> String {
    let names = || valid.iter().map(|column| column.name.as_str());
    let what = format!("there is no column {}", field.name);
    if let Some(name) = nearest(&field.name, names()) {
        return format!("{what}; did you mean {}?", quoted(name));
    }
    if let Some(hint) = dotted(query).filter(|_| field.relation.is_some()) {
        return format!("{what}; {hint}");
    }
    let shown: Vec<String> = names().take(COLUMNS_SHOWN).map(quoted).collect();
    match valid.len().saturating_sub(COLUMNS_SHOWN) {
        0 if shown.is_empty() => format!("{what}: there are no columns"),
        0 => format!("{what}; the columns are {}", shown.join(", ")),
        more => format!("{what}; the columns are {} and {more} more", shown.join(", ")),
    }
}

/// What is wrong with a text that is compared with values of another type.
fn no_value(what: &str) -> Option<String> {
    let read = |pattern: &str| Some(Regex::new(pattern).ok()?.captures(what)?.get(1)?.as_str().to_owned());
    if let Some(text) =
        read(r"^Cannot cast string '(?s:(.*))' to value of U?(?:Int|Float|Decimal)[\w(), ]* type")
    {
        return Some(format!(
            "the text '{text}' is not a number, and the column that it is compared with has numbers: to compare it as text, \
             write cast(COLUMN as varchar)"
        ));
    }
    if let Some(text) = read(r"^Error parsing timestamp from '(?s:(.*))':") {
        return Some(format!("the text '{text}' is not a time: write it as in '2024-05-01T10:00:00Z'"));
    }
    let (text, ty) = what.strip_prefix("Cannot cast string '")?.rsplit_once("' to value of ")?;
    Some(format!("the text '{text}' is not a value of the type {}", ty.trim_end_matches(" type")))
}

fn not_sql(query: &str, error: &ParserError) -> String {
    let what = match error {
        ParserError::TokenizerError(what) | ParserError::ParserError(what) => what.as_str(),
        ParserError::RecursionLimitExceeded => "the query is nested too deeply",
    };
    let dashed = unquoted(query).find(|name| name.contains('-') && !name.contains('.'));
    match dashed.filter(|_| what.contains("found: -")) {
        Some(name) => format!("{what}; quote names with a dash: \"{name}\""),
        None => what.to_owned(),
    }
}

/// What to do about the first unquoted name with dots.
fn dotted(query: &str) -> Option<String> {
    let name =
        unquoted(query).find(|name| name.contains('.') && !name.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(format!("quote dotted names: \"{name}\""))
}

/// The names of a query that are not in quotes.
fn unquoted(query: &str) -> impl Iterator<Item = &str> {
    let names = Regex::new(r#""[^"]*"|'[^']*'|[\w@]+(?:[.-][\w@]+)*"#);
    let found: Vec<&str> =
        names.map(|names| names.find_iter(query).map(|name| name.as_str()).collect()).unwrap_or_default();
    found.into_iter().filter(|name| !name.starts_with(['"', '\'']))
}

/// A name as a query must write it.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain && !name.starts_with(|c: char| c.is_ascii_digit()) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            said("Cannot cast string 'x' to value of Decimal128(10, 2) type")
                .contains("cast(COLUMN as varchar)")
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
}
