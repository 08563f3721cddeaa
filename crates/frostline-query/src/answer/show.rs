//! The `fields` of a hit: leaf values of its source by the names of their fields.

use std::collections::{BTreeSet, HashMap};

use frostline_split::{Field, FieldType, Mapping, Moment, Value, parse_moment, parse_moment_field};
use jiff::tz::TimeZone;

use crate::Result;
use crate::json::Json;
use crate::language::date::Format;
use crate::language::{FieldFormat, SearchRequest};

/// Which fields hits show of documents that are read by one mapping.
pub(crate) struct Fields<'a> {
    wanted: Vec<(&'a FieldFormat, Option<Format>)>,
    mapping: &'a Mapping,
    /// Where a path is not the name of what it has: the names that are asked for, each with the place of what asks.
    named: HashMap<&'a str, Vec<(String, usize)>>,
}

impl<'a> Fields<'a> {
    /// None where a request asks for none.
    pub(crate) fn of_request(request: &'a SearchRequest, mapping: &'a Mapping) -> Result<Option<Fields<'a>>> {
        if !request.shows_fields() {
            return Ok(None);
        }
        let wanted = request.docvalue_fields.iter().chain(&request.fields).map(|field| {
            let format = field.format.as_deref().map(Format::parse).transpose()?;
            Ok((field, format))
        });
        let wanted = wanted.collect::<Result<Vec<_>>>()?;
        let has_patterns = wanted.iter().any(|(field, _)| field.is_pattern());
        let mut names = if has_patterns { mapping.other_names() } else { BTreeSet::new() };
        names.extend(
            wanted.iter().filter(|(field, _)| !field.is_pattern()).map(|(field, _)| field.field.clone()),
        );
        let mut fields = Fields { wanted, mapping, named: HashMap::new() };
        for name in names {
            let Some(place) = fields.wanting(&name) else { continue };
            for path in mapping.places_of(&name).into_iter().filter(|path| *path != name) {
                fields.named.entry(path).or_default().push((name.clone(), place));
            }
        }
        Ok(Some(fields))
    }

    /// Every field that the request asks for and the document has, each an array of its values. What the mapping declares
    /// as a date is one however it is written.
    pub(crate) fn of(&self, source: &Json) -> Json {
        let mut leaves = Vec::new();
        collect(source, String::new(), &mut leaves);
        // The values of each name, at the place of its first.
        let mut shown: Vec<(String, Vec<Json>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (path, value) in leaves {
            let is_date = is_date(self.mapping, &path);
            let named = self.named.get(path.as_str()).into_iter().flatten().cloned();
            let own = self.wanting(&path).map(|wanting| (path, wanting));
            for (name, wanting) in own.into_iter().chain(named) {
                let format = self.wanted.get(wanting).and_then(|(_, format)| format.as_ref());
                let place = *places.entry(name).or_insert_with_key(|name| {
                    shown.push((name.clone(), Vec::new()));
                    shown.len() - 1
                });
                shown[place].1.push(formatted(value, format, is_date));
            }
        }
        Json::Object(shown.into_iter().map(|(name, values)| (name, Json::Array(values))).collect())
    }

    /// The place of what asks for the field of this name last.
    fn wanting(&self, name: &str) -> Option<usize> {
        self.wanted.iter().rposition(|(field, _)| field.matches(name))
    }
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

fn formatted(value: &Json, format: Option<&Format>, is_date: bool) -> Json {
    let Some(format) = format else { return value.clone() };
    match moment(value, is_date) {
        Some(time) => Json::text(&format.write(time, &TimeZone::UTC)),
        None => value.clone(),
    }
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
