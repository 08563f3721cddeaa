//! Errors of SQL queries, rewritten for users.

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use frostline_show::nearest;
use regex::Regex;

use crate::errors::{internal, ours, out_of_range};
use crate::{Error, ErrorKind};

/// Number of columns that are listed if none is similar: an index may have thousands.
const COLUMNS_SHOWN: usize = 10;

/// The longest list of what a function takes that is told.
const SHAPES_MAX: usize = 160;

/// The error of a query that could not be planned, or run. What DataFusion says of a statement is about the statement:
/// errors of ours go through it as they are.
pub(crate) fn worded(query: &str, error: DataFusionError) -> Error {
    let what = match error.find_root() {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => Some(no_column(query, field, valid_fields)),
            _ => Some(plain(&schema.to_string())),
        },
        DataFusionError::SQL(parser, _) => Some(not_sql(query, parser)),
        DataFusionError::NotImplemented(what) if what.starts_with("Dot access") => {
            Some(dotted(query).unwrap_or_else(|| "a value has no parts".to_owned()))
        }
        DataFusionError::NotImplemented(what) => Some(format!("not supported: {}", plain(what))),
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::CastError(what) | ArrowError::ParseError(what) => {
                Some(no_value(what).unwrap_or_else(|| plain(what)))
            }
            other => Some(plain(&other.to_string())),
        },
        DataFusionError::Execution(what) => out_of_range(what).or_else(|| Some(plain(what))),
        DataFusionError::Plan(what)
        | DataFusionError::Configuration(what)
        | DataFusionError::Internal(what) => Some(plain(what)),
        DataFusionError::External(library) => Some(plain(&library.to_string())),
        _ => None,
    };
    match (ours(&error), what) {
        (None, Some(what)) => Error::invalid(format!("{what}\n  in: {query}")),
        _ => match internal(error) {
            e if e.kind() == ErrorKind::Invalid => Error::invalid(format!("{e}\n  in: {query}")),
            other => other,
        },
    }
}

/// What a library says of a statement in one line, without what it says of itself.
fn plain(what: &str) -> String {
    let what = what.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default();
    if let Some(known) = no_pattern(what).or_else(|| no_call(what)).or_else(|| no_function(what)) {
        return known;
    }
    let what = what.split("This issue was likely caused by a bug").next().unwrap_or_default();
    let kinds = Regex::new(
        r"(?x) \b (?: Error\ during\ planning | (?:Internal|Execution|External|Arrow|Compute|Schema|Cast|Parser)\ error
        | Invalid\ argument\ error | Invalid\ or\ Unsupported\ Configuration | This\ feature\ is\ not\ implemented ) :\ ",
    );
    let what = kinds.map_or_else(|_| what.into(), |kinds| kinds.replace_all(what, ""));
    // Where the library shows how it has read a part of the statement, the kind of the part is enough.
    let part = Regex::new(r"(?s)\b(\w+) \{ .*$");
    let what = part.map_or_else(|_| what.clone(), |part| part.replace(&what, "$1"));
    let what = what.replace("datafusion.public.", "");
    let lines = what.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<&str>>().join(" ");
    line.trim_end_matches(['.', ' ']).to_owned()
}

/// A regular expression that is none, and why.
fn no_pattern(what: &str) -> Option<String> {
    let drawn = Regex::new(r"regex parse error:\n {4}(.*)\n[ ^]*\nerror: (.*)").ok()?;
    if let Some(found) = drawn.captures(what) {
        return Some(format!("'{}' is not a regular expression: {}", &found[1], found[2].trim()));
    }
    let (_, why) = what.split_once("regex parse error:")?.1.rsplit_once("error: ")?;
    let why = why.lines().next().unwrap_or_default();
    Some(format!("a regular expression is not valid: {}", why.trim()))
}

/// A call of a function with arguments that it does not take, and what it takes where that is short.
fn no_call(what: &str) -> Option<String> {
    let (_, found) = what.split_once("No function matches the given name and argument types '")?;
    let (call, rest) = found.split_once("'. ")?;
    let shapes = rest.split_once("Candidate functions:").map_or("", |(_, shapes)| shapes);
    let shapes: Vec<&str> = shapes.lines().map(str::trim).filter(|shape| !shape.is_empty()).collect();
    let name = call.split('(').next().unwrap_or_default();
    let shapes = shapes.join(" or ");
    // Some are what only the library understands.
    let is_told = !shapes.is_empty() && shapes.len() <= SHAPES_MAX && !shapes.contains("UserDefined");
    let takes = if is_told { format!(": it is {shapes}") } else { String::new() };
    Some(format!("the function {name} does not take these arguments, {call}{takes}"))
}

/// A function that does not exist.
fn no_function(what: &str) -> Option<String> {
    let names = Regex::new(r"^Invalid function '([^']*)'\.\s*(?:Did you mean '([^']*)'\?)?").ok()?;
    let names = names.captures(what)?;
    let name = &names[1];
    let similar = names.get(2).and_then(|other| nearest(name, [other.as_str()]));
    Some(match similar {
        Some(similar) => format!("there is no function {name}; did you mean {similar}?"),
        None => format!("there is no function {name}"),
    })
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
mod tests;
