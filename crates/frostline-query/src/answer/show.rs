//! The `fields` of a hit: leaf values of its source by path.

use frostline_split::parse_date;
use jiff::tz::TimeZone;

use crate::Result;
use crate::json::Json;
use crate::language::date::{Format, format_date};
use crate::language::{FieldFormat, SearchRequest};

/// Every field that the request asks for and the document has, each an array of its values.
pub(crate) fn fields(source: &Json, request: &SearchRequest) -> Result<Json> {
    let mut leaves = Vec::new();
    collect(source, String::new(), &mut leaves);
    let mut shown: Vec<(String, Json)> = Vec::new();
    for (path, value) in leaves {
        let mut wanted = request.fields.iter().chain(&request.docvalue_fields);
        let Some(field) = wanted.find(|field| field.matches(&path)) else { continue };
        let value = formatted(value, field)?;
        match shown.iter_mut().find(|(known, _)| *known == path) {
            Some((_, Json::Array(values))) => values.push(value),
            _ => shown.push((path, Json::Array(vec![value]))),
        }
    }
    Ok(Json::Object(shown))
}

fn collect<'a>(value: &'a Json, path: String, leaves: &mut Vec<(String, &'a Json)>) {
    match value {
        Json::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(value, path, leaves);
            }
        }
        Json::Array(items) => items.iter().for_each(|item| collect(item, path.clone(), leaves)),
        null if null.is_null() => {}
        leaf => leaves.push((path, leaf)),
    }
}

fn formatted(value: &Json, field: &FieldFormat) -> Result<Json> {
    let Some(format) = &field.format else { return Ok(value.clone()) };
    let format = Format::parse(format)?;
    Ok(match value.as_text().as_deref().and_then(parse_date) {
        Some(time) => Json::text(&format_date(time, &format, &TimeZone::UTC)),
        None => value.clone(),
    })
}
