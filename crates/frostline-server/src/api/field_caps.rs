//! `_field_caps`: which fields indices have, and what can be done with them.

use std::collections::{BTreeMap, BTreeSet};

use frostline_catalog::{Access, Index};
use frostline_query::language::wildcard_matches;
use frostline_split::FieldType;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::mapping::fields_of;
use crate::api::{blocks, indices};
use crate::error::{ApiError, Result};
use crate::state::{Call, only};

/// What is known of a document and is no field of it: name, type, whether it is searched, whether it is aggregated.
const METADATA: [(&str, &str, bool, bool); 3] =
    [("_id", "_id", true, false), ("_index", "_index", true, true), ("_source", "_source", false, false)];

/// `GET /{index}/_field_caps`.
pub(crate) async fn field_caps(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["fields"])?;
    let wrong = || ApiError::invalid("[fields] is a list of names, which may have wildcards");
    let patterns: Vec<String> = match (body.get("fields"), call.params.list("fields")) {
        (Some(Value::String(one)), _) => vec![one.clone()],
        (Some(Value::Array(names)), _) => {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned));
            names.collect::<Option<_>>().ok_or_else(wrong)?
        }
        (None, Some(names)) => names.into_iter().map(str::to_owned).collect(),
        _ => return Err(wrong()),
    };
    let unmapped = call.params.flag("include_unmapped")?.unwrap_or(false);
    let indices = indices::with_fields(&call, indices::how(&call.params)?).await?;
    blocks::check(&call.state, indices.iter().map(|index| index.name()), Access::Read)?;
    let names: Vec<&str> = indices.iter().map(|index| index.name().as_str()).collect();
    let wanted = |name: &str| patterns.iter().any(|pattern| wildcard_matches(pattern, name));
    let mut fields: BTreeMap<String, Types> = BTreeMap::new();
    for index in &indices {
        for (path, ty) in all_of(index).into_iter().filter(|(path, _)| wanted(path)) {
            fields.entry(path).or_default().entry(ty).or_default().insert(index.name().as_str());
        }
    }
    let mut shown: Map<String, Value> =
        fields.iter().map(|(path, types)| (path.clone(), caps(types, &names, unmapped))).collect();
    for (name, ty, searchable, aggregatable) in METADATA.into_iter().filter(|(name, ..)| wanted(name)) {
        let caps = json!({
            "type": ty, "metadata_field": true, "searchable": searchable, "aggregatable": aggregatable,
        });
        shown.insert(name.to_owned(), json!({ ty: caps }));
    }
    Answer::json(&json!({ "indices": names, "fields": shown }))
}

/// The indices in which a field has each type.
type Types<'a> = BTreeMap<&'static str, BTreeSet<&'a str>>;

/// The fields of an index, their other names with the types of what these mean, and the objects that they are in.
fn all_of(index: &Index) -> Vec<(String, &'static str)> {
    let mapping = index.mapping();
    let mut all = fields_of(index);
    all.retain(|(path, _)| mapping.alias_of(path).is_none());
    for (_, ty) in &mut all {
        if *ty == FieldType::Passthrough.name() {
            *ty = FieldType::Object.name();
        }
    }
    let known: BTreeSet<String> = all.iter().map(|(path, _)| path.clone()).collect();
    let others = mapping.other_names().into_iter().filter(|name| !known.contains(name));
    all.extend(others.filter_map(|name| mapping.type_name_of(&name).map(|ty| (name, ty))));
    let parents: BTreeSet<String> = all
        .iter()
        .flat_map(|(path, _)| path.match_indices('.').map(|(at, _)| path[..at].to_owned()))
        .filter(|parent| all.iter().all(|(path, _)| path != parent))
        .collect();
    all.extend(parents.into_iter().map(|parent| (parent, FieldType::Object.name())));
    all
}

fn caps(types: &Types<'_>, indices: &[&str], unmapped: bool) -> Value {
    let mapped: BTreeSet<&str> = types.values().flatten().copied().collect();
    let lacking: Vec<&str> = indices.iter().filter(|name| !mapped.contains(*name)).copied().collect();
    let shows_indices = types.len() > 1 || (unmapped && !lacking.is_empty());
    let mut shown = Map::new();
    for (ty, of) in types {
        let is_field = ![FieldType::Object, FieldType::Nested].map(FieldType::name).contains(ty);
        let mut caps = json!({
            "type": ty, "metadata_field": false, "searchable": is_field, "aggregatable": is_field,
        });
        if shows_indices {
            caps["indices"] = json!(of);
        }
        shown.insert((*ty).to_owned(), caps);
    }
    if unmapped && !lacking.is_empty() {
        let caps = json!({
            "type": "unmapped", "metadata_field": false, "searchable": false, "aggregatable": false,
            "indices": lacking,
        });
        shown.insert("unmapped".to_owned(), caps);
    }
    Value::Object(shown)
}
