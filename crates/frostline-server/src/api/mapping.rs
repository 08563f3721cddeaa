//! Mappings of indices.

use frostline_catalog::Index;
use frostline_query::language::wildcard_matches;
use frostline_split::FieldType;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::indices;
use crate::error::Result;
use crate::state::Call;

/// The fields of an index with the type that each is shown as, their other names among them.
pub(crate) fn fields_of(index: &Index) -> Vec<(String, &'static str)> {
    let mapping = index.mapping();
    let mut all = Vec::new();
    for (path, field) in mapping.fields() {
        let Some(name) = field.shown_name() else { continue };
        all.push((path.clone(), name));
        let mut names = field.multi_fields.clone();
        if field.shown_type() == Some(FieldType::Text) {
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
    let indices = indices::named(&call).await?;
    let each = indices.iter().map(|index| {
        (index.name().to_string(), json!({ "mappings": index.mapping().to_elasticsearch_json() }))
    });
    Answer::json(&each.collect::<Map<String, Value>>())
}

/// `GET /{index}/_mapping/field/{fields}`.
pub(crate) async fn get_fields(call: Call) -> Result<Answer> {
    let patterns: Vec<&str> = call.part("fields").unwrap_or("*").split(',').collect();
    let indices = indices::named(&call).await?;
    let each = indices.iter().map(|index| {
        let wanted = fields_of(index)
            .into_iter()
            .filter(|(path, _)| patterns.iter().any(|pattern| wildcard_matches(pattern, path)));
        let fields: Map<String, Value> = wanted
            .map(|(path, ty)| {
                let last = path.rsplit('.').next().unwrap_or(&path).to_owned();
                let field = json!({ "full_name": path, "mapping": { last: { "type": ty } } });
                (path, field)
            })
            .collect();
        (index.name().to_string(), json!({ "mappings": fields }))
    });
    Answer::json(&each.collect::<Map<String, Value>>())
}
