//! Mappings of indices.

use std::collections::BTreeSet;

use frostline_base::wildcard_matches;
use frostline_catalog::{Access, Amend, Change, Index, Wildcards};
use frostline_split::{Definitions, FieldType, Mapping};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::{blocks, indices};
use crate::error::{ApiError, Result};
use crate::scope::Privilege;
use crate::state::{Call, only};

/// The fields of an index with the type that each is shown as, their other names among them.
pub(crate) fn fields_of(index: &Index) -> Vec<(String, &'static str)> {
    let mapping = index.mapping();
    let mut all = Vec::new();
    for (path, field) in mapping.fields() {
        let Some(name) = field.shown_name() else { continue };
        all.push((path.clone(), name));
        let mut names = field.other_names();
        let is_text = field.shown_type() == Some(FieldType::Text);
        if is_text && mapping.type_name_of(&format!("{path}.keyword")).is_some() {
            names.entry("keyword".to_owned()).or_insert(FieldType::Keyword);
        }
        all.extend(names.into_iter().map(|(name, ty)| (format!("{path}.{name}"), ty.name())));
    }
    let time = mapping.time_field();
    all.retain(|(path, _)| path != time);
    all.push((time.to_owned(), mapping.time_name()));
    all
}

/// `GET /{index}/_mapping`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let indices = indices::with_mappings(&call, Wildcards::OPEN).await?;
    let each = indices.iter().map(|index| {
        (index.name().to_string(), json!({ "mappings": index.mapping().to_elasticsearch_json() }))
    });
    Answer::json(&each.collect::<Map<String, Value>>())
}

/// What a mapping says beside its fields, as far as Elasticsearch knows it.
const ROOT: &[&str] = &[
    "_data_stream_timestamp",
    "_field_names",
    "_meta",
    "_routing",
    "_size",
    "_source",
    "date_detection",
    "dynamic",
    "dynamic_date_formats",
    "dynamic_templates",
    "numeric_detection",
    "properties",
    "runtime",
];

/// `PUT /{index}/_mapping`: declares fields. Documents that arrive afterwards are read by that, and so are queries.
pub(crate) async fn put(call: Call) -> Result<Answer> {
    let body = call.object()?;
    if let (Some(("_doc", Value::Object(_))), 1) =
        (body.iter().next().map(|(name, value)| (name.as_str(), value)), body.len())
    {
        return Err(ApiError::invalid("Types cannot be provided in put mapping requests"));
    }
    only(&body, ROOT)?;
    let said: BTreeSet<String> = body.keys().cloned().collect();
    let body = Value::Object(body);
    let warning = warning(&Mapping::from_elasticsearch_json_with(&body, Definitions::unknown())?);
    let scope = call.client.scope.to(Privilege::Manage);
    let how = indices::how_of_change(&call.params)?;
    let indices = indices::open(&call.state, &scope, call.index(), how).await?;
    blocks::check(&call.state, indices.iter().map(|index| index.name()), Access::WriteMetadata)?;
    let amend = move |known: &Mapping| {
        let wanted = Mapping::from_elasticsearch_json_with(&body, known.definitions().clone())?;
        known.amended(wanted, |key| said.contains(key))
    };
    // Nothing is changed where one of the indices refuses it.
    indices.iter().try_for_each(|index| amend(index.mapping()).map(drop))?;
    let amend = Amend::new(amend);
    for index in indices {
        let change = Change {
            amend: Some(amend.clone()),
            operation: "mapping".to_owned(),
            rearranges: true,
            ..Change::default()
        };
        call.state.live.note(index.commit(change).await?);
    }
    Ok(Answer::json(&json!({ "acknowledged": true }))?.with_warnings(warning))
}

/// What is warned of where fields have types for which there are no queries.
pub(crate) fn warning(mapping: &Mapping) -> Option<String> {
    let types: Vec<&str> = mapping.types_without_queries().into_iter().collect();
    (!types.is_empty()).then(|| {
        format!(
            "the types [{}] have no effect: the parts of such a value are found as fields of their own",
            types.join(", ")
        )
    })
}

/// `GET /{index}/_mapping/field/{fields}`.
pub(crate) async fn get_fields(call: Call) -> Result<Answer> {
    let patterns: Vec<&str> = call.part("fields").unwrap_or("*").split(',').collect();
    let indices = indices::with_mappings(&call, Wildcards::OPEN).await?;
    let each = indices.iter().map(|index| {
        let wanted = fields_of(index)
            .into_iter()
            .filter(|(path, _)| patterns.iter().any(|pattern| wildcard_matches(pattern, path)));
        let fields: Map<String, Value> = wanted
            .map(|(path, ty)| {
                let last = path.rsplit('.').next().unwrap_or(&path).to_owned();
                let mut field = json!({ "full_name": path, "mapping": { &last: { "type": ty } } });
                if let Some(of) = index.mapping().alias_of(&path) {
                    field["mapping"][&last]["path"] = json!(of);
                }
                (path, field)
            })
            .collect();
        (index.name().to_string(), json!({ "mappings": fields }))
    });
    Answer::json(&each.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests;
