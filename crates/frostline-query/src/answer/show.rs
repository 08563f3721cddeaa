//! The `fields` of a hit: leaf values of its source by path.

use frostline_split::parse_date;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::Result;
use crate::language::date::{Format, format_date};
use crate::language::{FieldFormat, SearchRequest};

/// Every field that the request asks for and the document has, each an array of its values.
pub(crate) fn fields(source: &Value, request: &SearchRequest) -> Result<Map<String, Value>> {
    let mut leaves = Map::new();
    collect(source, String::new(), &mut leaves);
    let mut shown = Map::new();
    for (path, values) in leaves {
        let mut wanted = request.fields.iter().chain(&request.docvalue_fields);
        if let Some(field) = wanted.find(|field| field.matches(&path)) {
            shown.insert(path, formatted(values, field)?);
        }
    }
    Ok(shown)
}

fn collect(value: &Value, path: String, leaves: &mut Map<String, Value>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(value, path, leaves);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, path.clone(), leaves)),
        Value::Null => {}
        leaf => {
            let values = leaves.entry(path).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(values) = values {
                values.push(leaf.clone());
            }
        }
    }
}

fn formatted(values: Value, field: &FieldFormat) -> Result<Value> {
    let (Some(format), Value::Array(items)) = (&field.format, &values) else { return Ok(values) };
    let format = Format::parse(format)?;
    let each = items.iter().map(|item| match item.as_str().and_then(parse_date) {
        Some(time) => Value::from(format_date(time, &format, &TimeZone::UTC)),
        None => item.clone(),
    });
    Ok(Value::Array(each.collect()))
}
