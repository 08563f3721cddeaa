//! `_field_caps`: which fields indices have, and what can be done with them.

use std::collections::{BTreeMap, BTreeSet};

use frostline_base::wildcard_matches;
use frostline_catalog::{Access, Index};
use frostline_split::{FieldType, Mapping};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::mapping::fields_of;
use crate::api::search::{self, Manner};
use crate::api::{blocks, indices};
use crate::error::{ApiError, Result};
use crate::state::{Call, only};

/// What is known of a document and is no field of it: name, type, whether it is searched, whether it is aggregated.
const METADATA: [(&str, &str, bool, bool); 3] =
    [("_id", "_id", true, false), ("_index", "_index", true, true), ("_source", "_source", false, false)];

/// `GET /{index}/_field_caps`.
pub(crate) async fn field_caps(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["fields", "index_filter", "runtime_mappings"])?;
    if body.get("runtime_mappings").is_some_and(|fields| !fields.is_null() && *fields != json!({})) {
        return Err(ApiError::unsupported(
            "[runtime_mappings] is not supported: scripts are not run; compute the fields with a pipeline",
        ));
    }
    let wanted = Wanted::of(&call, &body)?;
    let unmapped = call.params.flag("include_unmapped")?.unwrap_or(false);
    let mut indices = indices::with_fields(&call, indices::how(&call.params)?).await?;
    blocks::check(&call.state, indices.iter().map(|index| index.name()), Access::Read)?;
    let mut warnings = Vec::new();
    let filter = body.get("index_filter").filter(|filter| !filter.is_null());
    if let Some(filter) = filter.filter(|_| !indices.is_empty()) {
        let (matching, told) = matching(&call, filter).await?;
        indices.retain(|index| matching.contains(index.name().as_str()));
        warnings = told;
    }
    let names: Vec<&str> = indices.iter().map(|index| index.name().as_str()).collect();
    let mut fields: BTreeMap<String, Types> = BTreeMap::new();
    for index in &indices {
        let of_index = all_of(index).into_iter();
        for (path, ty) in of_index.filter(|(path, ty)| wanted.is_field(index.mapping(), path, ty)) {
            fields.entry(path).or_default().entry(ty).or_default().insert(index.name().as_str());
        }
    }
    let mut shown: Map<String, Value> =
        fields.iter().map(|(path, types)| (path.clone(), caps(types, &names, unmapped))).collect();
    for (name, ty, searchable, aggregatable) in METADATA {
        if names.is_empty() || !wanted.is_metadata(name, ty) {
            continue;
        }
        let caps = json!({
            "type": ty, "metadata_field": true, "searchable": searchable, "aggregatable": aggregatable,
        });
        shown.insert(name.to_owned(), json!({ ty: caps }));
    }
    Ok(Answer::json(&json!({ "indices": names, "fields": shown }))?.with_warnings(warnings))
}

/// Which fields are asked for.
struct Wanted {
    /// Their names, which may have wildcards.
    patterns: Vec<String>,
    /// Their types; any where none is named.
    types: Vec<String>,
    metadata: bool,
    /// Those that are no metadata.
    others: bool,
    objects: bool,
    inside_nested: bool,
    other_names: bool,
}

impl Wanted {
    fn of(call: &Call, body: &Map<String, Value>) -> Result<Wanted> {
        let wrong = || ApiError::invalid("[fields] is a list of names, which may have wildcards");
        let owned = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect();
        let patterns = match (body.get("fields"), call.params.list("fields")) {
            (Some(Value::String(one)), _) => vec![one.clone()],
            (Some(Value::Array(names)), _) => {
                let names = names.iter().map(|name| name.as_str().map(str::to_owned));
                names.collect::<Option<_>>().ok_or_else(wrong)?
            }
            (None, Some(names)) => owned(names),
            _ => return Err(wrong()),
        };
        let types = call.params.list("types").map(owned).unwrap_or_default();
        let (metadata, others, objects) = (true, true, true);
        let mut wanted =
            Wanted { patterns, types, metadata, others, objects, inside_nested: true, other_names: true };
        for filter in call.params.list("filters").unwrap_or_default() {
            match filter {
                "+metadata" => wanted.others = false,
                "-metadata" => wanted.metadata = false,
                "-multifield" => wanted.other_names = false,
                "-nested" => wanted.inside_nested = false,
                "-parent" => wanted.objects = false,
                "parent" => {}
                other => return Err(ApiError::invalid(format!("Unknown field caps filter [{other}]"))),
            }
        }
        Ok(wanted)
    }

    fn is_named(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| wildcard_matches(pattern, name))
    }

    /// Whether a type is asked for, by its own name or by that of a type that is searched in the same way.
    fn is_type(&self, ty: &str) -> bool {
        let family = match ty {
            "constant_keyword" | "wildcard" => "keyword",
            "match_only_text" => "text",
            other => other,
        };
        self.types.is_empty() || self.types.iter().any(|wanted| wanted == ty || wanted == family)
    }

    fn is_metadata(&self, name: &str, ty: &str) -> bool {
        self.metadata && self.is_named(name) && self.is_type(ty)
    }

    /// Whether a field of a mapping is asked for that is no metadata. As in Elasticsearch, objects have no type.
    fn is_field(&self, mapping: &Mapping, path: &str, ty: &str) -> bool {
        let is_inside = || path.match_indices('.').any(|(end, _)| mapping.is_nested(&path[..end]));
        let is_other_name = || {
            let parent = path.rsplit_once('.').and_then(|(parent, _)| mapping.field(parent)?.shown_name());
            mapping.field(path).is_none() && parent.is_some_and(|ty| !is_object(ty))
        };
        self.others
            && self.is_named(path)
            && if is_object(ty) { self.objects } else { self.is_type(ty) }
            && (self.inside_nested || !is_inside())
            && (self.other_names || !is_other_name())
    }
}

fn is_object(ty: &str) -> bool {
    [FieldType::Object, FieldType::Nested].map(FieldType::name).contains(&ty)
}

/// The names of the indices in which a query finds documents, and what is to be told of it.
async fn matching(call: &Call, query: &Value) -> Result<(BTreeSet<String>, Vec<String>)> {
    let (indices, filters) = indices::named_filtered(call).await?;
    let names = json!({ "terms": { "field": "_index", "size": indices.len().max(1) } });
    let body = json!({ "query": query, "size": 0, "track_total_hits": false, "aggs": { "names": names } });
    let manner = Manner { strict: true, ..Manner::default() };
    let found = search::run(&call.state, &indices, filters, body.to_string().as_bytes(), manner).await?;
    let counted = found.aggregations.as_ref().map_or(Value::Null, frostline_query::Json::to_value);
    let names = counted["names"]["buckets"].as_array().into_iter().flatten();
    let names = names.filter_map(|bucket| bucket["key"].as_str().map(str::to_owned)).collect();
    Ok((names, found.warnings))
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
        let is_field = !is_object(ty);
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
