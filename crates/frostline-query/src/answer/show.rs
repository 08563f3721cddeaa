//! The `fields` of a hit: leaf values of its source by path.

use std::collections::HashMap;

use frostline_split::{Field, FieldType, Mapping, Moment, Value, parse_moment, parse_moment_field};
use jiff::tz::TimeZone;

use crate::Result;
use crate::json::Json;
use crate::language::{SearchRequest, ValueForm};

/// Every field that the request asks for and the document has, each an array of its values. What the mapping declares as
/// a date is one however it is written.
pub(crate) fn fields(source: &Json, request: &SearchRequest, mapping: Option<&Mapping>) -> Result<Json> {
    let wanted =
        request.fields.iter().chain(&request.docvalue_fields).map(|field| Ok((field, field.form()?)));
    let wanted = wanted.collect::<Result<Vec<_>>>()?;
    let mut leaves = Vec::new();
    collect(source, String::new(), &mut leaves);
    // The values of each path, at the place of its first.
    let mut shown: Vec<(String, Vec<Json>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (path, value) in leaves {
        let Some((_, format)) = wanted.iter().find(|(field, _)| field.matches(&path)) else { continue };
        let is_date = mapping.is_some_and(|mapping| is_date(mapping, &path));
        let value = formatted(value, format.as_ref(), is_date);
        let place = *places.entry(path).or_insert_with_key(|path| {
            shown.push((path.clone(), Vec::new()));
            shown.len() - 1
        });
        shown[place].1.push(value);
    }
    Ok(Json::Object(shown.into_iter().map(|(path, values)| (path, Json::Array(values))).collect()))
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

fn is_date(mapping: &Mapping, path: &str) -> bool {
    let declared = mapping.field(path).and_then(Field::ty);
    mapping.is_time(path) || declared == Some(FieldType::Date)
}

fn formatted(value: &Json, form: Option<&ValueForm>, is_date: bool) -> Json {
    let Some(form) = form else { return value.clone() };
    let text = match (moment(value, is_date), value) {
        (Some(time), _) => form.date.as_ref().map(|format| format.write(time, &TimeZone::UTC)),
        (None, Json::Scalar(number)) => {
            let number: Option<f64> = number.get().parse().ok();
            form.number.as_ref().zip(number).map(|(format, number)| format.text(number))
        }
        (None, _) => None,
    };
    text.map_or_else(|| value.clone(), |text| Json::text(&text))
}

fn moment(value: &Json, is_date: bool) -> Option<Moment> {
    if let Some(text) = value.as_text() {
        return parse_moment(&text).or_else(|| parse_moment_field(&Value::Text(&text)).filter(|_| is_date));
    }
    let Json::Scalar(number) = value else { return None };
    let whole = number.get().parse().ok().map(Value::Long);
    let number = whole.or_else(|| number.get().parse().ok().map(Value::Double));
    number.filter(|_| is_date).and_then(|number| parse_moment_field(&number))
}
