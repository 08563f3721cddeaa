//! Indices: made, deleted, shown.

use frostline_base::{ErrorKind, IndexName};
use frostline_catalog::{Index, Settings};
use frostline_query::language::wildcard_matches;
use frostline_split::Mapping;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::indices;
use crate::error::{ApiError, Result};
use crate::state::{Call, only};

/// `PUT /{index}`.
pub(crate) async fn create(call: Call) -> Result<Answer> {
    let name = call.index();
    let body = call.object()?;
    only(&body, &["aliases", "mappings", "settings"])?;
    if body.get("aliases").and_then(Value::as_object).is_some_and(|aliases| !aliases.is_empty()) {
        return Err(ApiError::unsupported("an index has no aliases yet: create it without"));
    }
    let mapping = match body.get("mappings") {
        Some(mapping) => Mapping::from_elasticsearch_json(mapping)
            .map_err(|e| ApiError::from(e).named("mapper_parsing_exception"))?,
        None => Mapping::dynamic(),
    };
    let index_name: IndexName = name
        .parse()
        .map_err(|e| ApiError::from(e).named("invalid_index_name_exception").about("index", name))?;
    let created = call.state.node.catalog().create(&index_name, mapping, Settings::default()).await;
    created.map_err(|e| match e.kind() {
        ErrorKind::Conflict => {
            let reason = format!("index [{name}] already exists");
            ApiError::new(StatusCode::BAD_REQUEST, "resource_already_exists_exception", reason)
                .about("index", name)
        }
        _ => e.into(),
    })?;
    let settings = body.get("settings").and_then(Value::as_object);
    let ignored = settings.is_some_and(|settings| !settings.is_empty());
    let warning =
        ignored.then(|| "the settings have no effect: there are no shards and no replicas".to_owned());
    let answer = json!({ "acknowledged": true, "shards_acknowledged": true, "index": name });
    Ok(Answer::json(&answer)?.with_warnings(warning))
}

/// `DELETE /{index}`. Names alone: a wildcard deletes more than was meant too easily.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let expression = call.index();
    if expression.split(',').any(|part| part.contains('*') || part.trim() == "_all" || part.is_empty()) {
        return Err(ApiError::invalid("Wildcard expressions or all indices are not allowed"));
    }
    for name in indices::names(&call.state, expression, indices::how(&call.params)?).await? {
        call.state.node.catalog().delete(&name).await?;
        call.state.node.unmount(&name).await?;
    }
    Answer::json(&json!({ "acknowledged": true }))
}

/// `HEAD /{index}`.
pub(crate) async fn exists(call: Call) -> Result<Answer> {
    let names = indices::names(&call.state, call.index(), indices::how(&call.params)?).await;
    match names {
        Ok(names) if !names.is_empty() || call.index().contains('*') => Ok(Answer::empty(StatusCode::OK)),
        Ok(_) => Ok(Answer::empty(StatusCode::NOT_FOUND)),
        // What is no name is the name of no index.
        Err(error) if error.status.is_client_error() => Ok(Answer::empty(StatusCode::NOT_FOUND)),
        Err(error) => Err(error),
    }
}

/// `GET /{index}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let features = call.params.list("features").unwrap_or_else(|| vec!["aliases", "mappings", "settings"]);
    let flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let mut all = Map::new();
    for index in indices::named(&call).await? {
        let mut shown = Map::new();
        for feature in &features {
            let value = match *feature {
                "aliases" => json!({}),
                "mappings" => index.mapping().to_elasticsearch_json(),
                "settings" => settings_of(&index, flat, &["*"]),
                other => return Err(ApiError::invalid(format!("unknown feature [{other}]"))),
            };
            shown.insert((*feature).to_owned(), value);
        }
        all.insert(index.name().to_string(), Value::Object(shown));
    }
    Answer::json(&all)
}

/// `GET /{index}/_settings/{name}`.
pub(crate) async fn settings(call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let names: Vec<&str> = call.part("name").unwrap_or("*").split(',').collect();
    let names = if names == ["_all"] { vec!["*"] } else { names };
    let indices = indices::named(&call).await?;
    let each = indices
        .iter()
        .map(|index| (index.name().to_string(), json!({ "settings": settings_of(index, flat, &names) })));
    Answer::json(&each.collect::<Map<String, Value>>())
}

/// The settings of an index whose names match, as text, which is how Elasticsearch shows them.
fn settings_of(index: &Index, flat: bool, names: &[&str]) -> Value {
    let all = [
        ("index.number_of_replicas", "0"),
        ("index.number_of_shards", "1"),
        ("index.provided_name", index.name().as_str()),
        ("index.uuid", index.table_id()),
    ];
    let matches = |name: &str| names.iter().any(|pattern| wildcard_matches(pattern, name));
    let shown = all.into_iter().filter(|(name, _)| matches(name));
    if flat {
        return shown.map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>().into();
    }
    let inner: Map<String, Value> =
        shown.map(|(name, value)| (name.trim_start_matches("index.").to_owned(), json!(value))).collect();
    if inner.is_empty() { json!({}) } else { json!({ "index": inner }) }
}

/// `POST /{index}/_refresh`: what was acknowledged can be searched already.
pub(crate) async fn refresh(call: Call) -> Result<Answer> {
    let indices = indices::named(&call).await?;
    let count = indices.len();
    Answer::json(&json!({ "_shards": { "total": count, "successful": count, "failed": 0 } }))
}
