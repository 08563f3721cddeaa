//! Terms lookup: values of a stored document as the values of a `terms` query.

use std::sync::Arc;

use frostline_query::Json;
use serde_json::value::to_raw_value;

use crate::api::document;
use crate::api::search_body::SearchBody;
use crate::error::{ApiError, Result};
use crate::scope::Scope;
use crate::state::State;

/// The most documents that one request looks up.
const LOOKUPS_MAX: usize = 64;

/// Where the values of a query are.
#[derive(Debug, PartialEq, Eq)]
struct Lookup {
    index: String,
    id: String,
    path: String,
}

/// The members of a body that have queries, and whether they are queries themselves.
const MEMBERS: [(&str, bool); 4] =
    [("query", true), ("post_filter", true), ("aggs", false), ("aggregations", false)];

/// Puts the values in place of where they are looked up, in the queries of a body and of its aggregations.
pub(crate) async fn resolve(state: &Arc<State>, scope: &Scope, body: &mut SearchBody) -> Result<()> {
    let mut left = LOOKUPS_MAX;
    for (member, is_query) in MEMBERS {
        let Some(query) = body.get(member).map(|query| query.get().to_owned()) else { continue };
        // Who reads the body refuses what is not unique, and tells where it is wrong.
        let is_sound = body.names().filter(|name| *name == member).count() == 1
            && frostline_split::check_unique_keys(query.as_bytes()).is_ok();
        if !query.contains("path") || !is_sound {
            continue;
        }
        let Ok(mut tree) = serde_json::from_str::<Json>(&query) else { continue };
        let mut found = Vec::new();
        each(&mut tree, is_query, &mut |place| {
            found.push(Lookup::read(place)?);
            Ok(())
        })?;
        if found.is_empty() {
            continue;
        }
        left = left.checked_sub(found.len()).ok_or_else(|| {
            ApiError::invalid(format!("a request looks up the terms of at most {LOOKUPS_MAX} documents"))
        })?;
        let mut values = Vec::new();
        for lookup in &found {
            values.push(lookup.values(state, scope).await?);
        }
        let mut values = values.into_iter();
        each(&mut tree, is_query, &mut |place| {
            *place = Json::Array(values.next().unwrap_or_default());
            Ok(())
        })?;
        body.set(member, &to_raw_value(&tree).map_err(unwritten)?)?;
    }
    Ok(())
}

fn unwritten(e: serde_json::Error) -> ApiError {
    frostline_base::Error::internal("a query cannot be written again").with_source(e).into()
}

/// Calls `visit` with what stands for the values of each `terms` query that looks them up. An aggregation of that name has
/// other objects, which lack an index or an id.
fn each(json: &mut Json, is_query: bool, visit: &mut dyn FnMut(&mut Json) -> Result<()>) -> Result<()> {
    let is_lookup = |members: &[(String, Json)]| {
        let has = |wanted: &str| members.iter().any(|(name, _)| name == wanted);
        has("path") && (is_query || (has("index") && has("id")))
    };
    match json {
        Json::Object(members) => members.iter_mut().try_for_each(|(name, json)| match json {
            Json::Object(fields) if name == "terms" => {
                fields.iter_mut().try_for_each(|(_, place)| match place {
                    Json::Object(of) if is_lookup(of) => visit(place),
                    place => each(place, is_query, visit),
                })
            }
            json => each(json, is_query, visit),
        }),
        Json::Array(items) => items.iter_mut().try_for_each(|item| each(item, is_query, visit)),
        Json::Scalar(_) => Ok(()),
    }
}

impl Lookup {
    fn read(place: &Json) -> Result<Lookup> {
        let wrong = |what: &str| ApiError::unparsed(format!("a terms lookup {what}"));
        let Json::Object(members) = place else { return Err(wrong("is an object")) };
        // Documents are whole: what is stored apart elsewhere is in them.
        let known = |name: &str| ["id", "index", "path", "routing", "store"].contains(&name);
        if let Some((other, _)) = members.iter().find(|(name, _)| !known(name)) {
            return Err(wrong(&format!("does not know [{other}]")));
        }
        let text = |wanted: &str| {
            let value = members.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
            let text = value.and_then(|value| match value {
                Json::Scalar(scalar) => value.as_text().or_else(|| Some(scalar.get().to_owned())),
                _ => None,
            });
            text.filter(|text| text != "null").ok_or_else(|| wrong(&format!("needs [{wanted}]")))
        };
        Ok(Lookup { index: text("index")?, id: text("id")?, path: text("path")? })
    }

    /// The values; none where there is no such document, or nothing at the path.
    async fn values(&self, state: &Arc<State>, scope: &Scope) -> Result<Vec<Json>> {
        let index = document::holder_in(state, scope, &self.index).await?;
        let mut values = Vec::new();
        if let Some(source) = document::source_in(state, scope, &index, &self.id).await? {
            let damaged = |e| {
                let what = format!("the document {} of {index} is not JSON", self.id);
                frostline_base::Error::corrupt(what).with_source(e)
            };
            let source: Json = serde_json::from_slice(&source).map_err(damaged)?;
            collect(&source, &self.path, &mut values);
        }
        Ok(values)
    }
}

/// A scalar that loses nothing to who reads it as JSON: a number that 64 bits do not hold as a text.
fn exact(scalar: &Json) -> Json {
    let Json::Scalar(raw) = scalar else { return scalar.clone() };
    let is_whole = raw.get().bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    match serde_json::from_str::<serde_json::Value>(raw.get()) {
        Ok(number) if is_whole && number.is_f64() => Json::text(raw.get()),
        Ok(_) => scalar.clone(),
        Err(_) => Json::text(raw.get()),
    }
}

/// The values at a path, which may go through lists; a name may have dots itself.
pub(crate) fn collect(json: &Json, path: &str, values: &mut Vec<Json>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| collect(item, path, values)),
        Json::Object(members) => {
            for (name, json) in members {
                match path.strip_prefix(name.as_str()) {
                    Some("") => collect(json, "", values),
                    Some(rest) if rest.starts_with('.') => collect(json, &rest[1..], values),
                    _ => {}
                }
            }
        }
        scalar if path.is_empty() && !scalar.is_null() => values.push(exact(scalar)),
        Json::Scalar(_) => {}
    }
}

#[cfg(test)]
mod tests;
