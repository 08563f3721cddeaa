//! Aliases: other names for indices.

use std::collections::{BTreeMap, BTreeSet};

use frostline_base::{ErrorKind, IndexName};
use frostline_catalog::{Alias, RecordChange, Records};
use frostline_query::Search;
use frostline_query::language::wildcard_matches;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::indices;
use crate::api::names::{joining, parse};
use crate::api::template::{alias_json, of_alias};
use crate::error::{ApiError, Result};
use crate::state::{Call, State, only};

/// One step of a change.
#[derive(Clone, Debug)]
enum Step {
    Add { indices: Vec<IndexName>, aliases: Vec<IndexName>, write: Option<bool>, filter: Option<Value> },
    Remove { indices: Vec<IndexName>, aliases: Vec<String>, must_exist: bool },
}

/// `POST /_aliases`: all steps at once, or none of them.
pub(crate) async fn update(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["actions"])?;
    let actions = body.get("actions").and_then(Value::as_array);
    let actions = actions.ok_or_else(|| ApiError::unparsed("[actions] is a list of actions"))?;
    if actions.is_empty() {
        return Err(ApiError::invalid("No action specified"));
    }
    let mut steps = Vec::new();
    for action in actions {
        let mut members = action.as_object().into_iter().flatten();
        let (Some((name, Value::Object(about))), None) = (members.next(), members.next()) else {
            return Err(ApiError::unparsed("an action is an object with one of add and remove"));
        };
        steps.push(step(&call, name, about).await?);
    }
    apply(&call.state, steps).await
}

async fn step(call: &Call, name: &str, about: &Map<String, Value>) -> Result<Step> {
    let texts = |one: &str, many: &str| {
        let wrong = || ApiError::unparsed(format!("[{one}] is a name, and [{many}] a list of names"));
        match (about.get(one), about.get(many)) {
            (Some(Value::String(name)), None) | (None, Some(Value::String(name))) => Ok(vec![name.clone()]),
            (None, Some(Value::Array(names))) | (Some(Value::Array(names)), None) => {
                let names = names.iter().map(|name| name.as_str().map(str::to_owned));
                names.collect::<Option<Vec<String>>>().filter(|names| !names.is_empty()).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    };
    if !matches!(name, "add" | "remove") {
        let what =
            format!("the action [{name}] is not supported: use add and remove, and DELETE for an index");
        return Err(ApiError::unsupported(what));
    }
    let named = texts("index", "indices")?.join(",");
    let indices = indices::names(&call.state, &call.client.scope, &named, strict()).await?;
    let aliases = texts("alias", "aliases")?;
    const KNOWN: &[&str] = &["alias", "aliases", "index", "indices", "must_exist"];
    if name == "remove" {
        if let Some(other) = about.keys().find(|member| !KNOWN.contains(&member.as_str())) {
            return Err(ApiError::unparsed(format!("[remove] unknown field [{other}]")));
        }
        let must_exist = about.get("must_exist").is_none_or(|must| *must != json!(false));
        return Ok(Step::Remove { indices, aliases, must_exist });
    }
    let aliases = aliases.iter().map(|alias| parse(alias)).collect::<Result<_>>()?;
    add(call, indices, aliases, about, KNOWN).await
}

/// Adds indices to aliases, with what is said of that.
async fn add(
    call: &Call,
    indices: Vec<IndexName>,
    aliases: Vec<IndexName>,
    about: &Map<String, Value>,
    known: &[&str],
) -> Result<Step> {
    let filter = about.get("filter").filter(|filter| !filter.is_null()).cloned();
    let write = of_alias(about, &[known, &["filter"]].concat())?;
    if let Some(filter) = &filter {
        let (node, body) = (&call.state.node, json!({ "query": filter }).to_string());
        for index in &indices {
            let options = node.search_options(false, true).await;
            let read =
                Search::new(&node.searcher().await?, &[node.index(index).await?], body.as_bytes(), &options);
            read.map_err(|e| ApiError::invalid(format!("failed to parse filter for alias: {e}")))?;
        }
    }
    Ok(Step::Add { indices, aliases, write, filter })
}

/// Indices that an alias is to have must be there.
fn strict() -> frostline_catalog::Resolve {
    frostline_catalog::Resolve { allow_no_indices: false, ..frostline_catalog::Resolve::default() }
}

async fn apply(state: &State, steps: Vec<Step>) -> Result<Answer> {
    let plan = |records: &Records| {
        let mut changed: BTreeMap<IndexName, Option<Alias>> = BTreeMap::new();
        for step in &steps {
            take(records, &mut changed, step)?;
        }
        Ok(changed.into_iter().map(|(name, alias)| RecordChange::Alias(name, alias)).collect())
    };
    let done = state.node.catalog().change_records("aliases", plan).await;
    done.map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            ApiError::new(StatusCode::NOT_FOUND, "aliases_not_found_exception", e.to_string())
        }
        ErrorKind::Conflict => {
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_alias_name_exception", e.to_string())
        }
        _ => e.into(),
    })?;
    Answer::json(&json!({ "acknowledged": true, "errors": false }))
}

/// Puts a step into what is changed.
fn take(
    records: &Records,
    changed: &mut BTreeMap<IndexName, Option<Alias>>,
    step: &Step,
) -> frostline_base::Result<()> {
    let now = |changed: &BTreeMap<IndexName, Option<Alias>>, name: &IndexName| match changed.get(name) {
        Some(alias) => alias.clone(),
        None => records.aliases().get(name).map(|alias| Alias::clone(alias)),
    };
    match step {
        Step::Add { indices, aliases, write, filter } => {
            for name in aliases {
                let mut alias = now(changed, name).unwrap_or_default();
                for index in indices {
                    alias = joining(alias, index, *write);
                    alias.filters.extend(filter.clone().map(|filter| (index.clone(), filter)));
                }
                changed.insert(name.clone(), Some(alias));
            }
        }
        Step::Remove { indices, aliases, must_exist } => {
            for pattern in aliases {
                let known: BTreeSet<IndexName> =
                    records.aliases().keys().chain(changed.keys()).cloned().collect();
                let mut found = false;
                for name in known.iter().filter(|name| matches(pattern, name)) {
                    let Some(mut alias) = now(changed, name) else { continue };
                    let before = alias.indices.len();
                    indices.iter().for_each(|index| alias.remove(index));
                    found |= alias.indices.len() < before;
                    changed.insert(name.clone(), Some(alias).filter(|alias| !alias.indices.is_empty()));
                }
                if !found && *must_exist {
                    return Err(frostline_base::Error::not_found(format!("aliases [{pattern}] missing")));
                }
            }
        }
    }
    Ok(())
}

fn matches(pattern: &str, name: &IndexName) -> bool {
    pattern == "_all" || wildcard_matches(pattern, name.as_str())
}

/// `PUT /{index}/_alias/{name}`.
pub(crate) async fn put(call: Call) -> Result<Answer> {
    let about = call.object()?;
    let aliases = vec![parse(call.part("name").unwrap_or_default())?];
    let indices = indices::names(&call.state, &call.client.scope, call.index(), strict()).await?;
    let step = add(&call, indices, aliases, &about, &[]).await?;
    apply(&call.state, vec![step]).await
}

/// `DELETE /{index}/_alias/{name}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let aliases = call.part("name").unwrap_or_default().split(',').map(str::to_owned).collect();
    let indices = indices::names(&call.state, &call.client.scope, call.index(), strict()).await?;
    apply(&call.state, vec![Step::Remove { indices, aliases, must_exist: true }]).await
}

/// `GET /{index}/_alias/{name}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let indices =
        indices::names(&call.state, &call.client.scope, call.index(), indices::how(&call.params)?).await?;
    let records = call.state.node.catalog().records().await?;
    let wanted: Option<Vec<&str>> = call.part("name").map(|names| names.split(',').collect());
    let is_wanted = |name: &IndexName| wanted.as_ref().is_none_or(|wanted| expression_matches(wanted, name));
    let mut each = Map::new();
    let mut seen = BTreeSet::new();
    for index in &indices {
        let own = of_index(&records, index).filter(|(name, _)| is_wanted(name));
        let own: Map<String, Value> = own
            .map(|(name, about)| {
                seen.insert(name.clone());
                (name.to_string(), about)
            })
            .collect();
        if wanted.is_none() || !own.is_empty() {
            each.insert(index.to_string(), json!({ "aliases": own }));
        }
    }
    let missing: Vec<&str> = missing(wanted.as_deref().unwrap_or_default(), &seen).into_iter().collect();
    if missing.is_empty() {
        return Answer::json(&each);
    }
    let what = if missing.len() == 1 { "alias" } else { "aliases" };
    let mut answer = Map::from_iter([
        ("error".to_owned(), json!(format!("{what} [{}] missing", missing.join(",")))),
        ("status".to_owned(), json!(404)),
    ]);
    answer.extend(each);
    Ok(Answer::json(&answer)?.with_status(StatusCode::NOT_FOUND))
}

/// Whether an expression names an alias: its parts add, and those after a minus take away again.
fn expression_matches(parts: &[&str], name: &IndexName) -> bool {
    parts.iter().fold(false, |named, part| match part.strip_prefix('-') {
        Some(taken) => named && !matches(taken, name),
        None => named || matches(part, name),
    })
}

/// The names that an expression spells out and does not take away again, of which no alias was seen. As in Elasticsearch a
/// minus before the first wildcard is a part of a name.
fn missing<'a>(parts: &[&'a str], seen: &BTreeSet<IndexName>) -> BTreeSet<&'a str> {
    let is_pattern = |part: &str| part.contains('*') || part == "_all";
    let first_pattern = parts.iter().position(|part| part.contains('*')).unwrap_or(parts.len());
    let taken_away = |at: usize| {
        let later = parts.iter().skip((at + 1).max(first_pattern));
        later.filter_map(|part| part.strip_prefix('-')).any(|pattern| wildcard_matches(pattern, parts[at]))
    };
    let takes = |at: usize| at > first_pattern && parts[at].starts_with('-');
    let is_spelled = |at: usize| !(is_pattern(parts[at]) || takes(at) || taken_away(at));
    let spelled = parts.iter().enumerate().filter(|(at, _)| is_spelled(*at));
    let absent = spelled.filter(|(_, part)| !seen.iter().any(|seen| seen.as_str() == **part));
    absent.map(|(_, part)| *part).collect()
}

/// The aliases of an index, each with what was said of it for this index.
pub(crate) fn of_index<'a>(
    records: &'a Records,
    index: &'a IndexName,
) -> impl Iterator<Item = (&'a IndexName, Value)> {
    let of_it = records.aliases().iter().filter(|(_, alias)| alias.indices.contains(index));
    of_it.map(move |(name, alias)| {
        let write = alias.write.as_ref().map(|write| write == index);
        (name, alias_json(write, alias.filters.get(index)))
    })
}

/// The aliases of an index as an object.
pub(crate) fn shown(records: &Records, index: &IndexName) -> Value {
    of_index(records, index).map(|(name, about)| (name.to_string(), about)).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_takes_aliases_away_again() {
        let all = ["a1", "a2", "b1", "b2"].map(|name| name.parse::<IndexName>().unwrap());
        let check = |expression: &str, named: &[&str], absent: &[&str]| {
            let parts: Vec<&str> = expression.split(',').collect();
            let seen: BTreeSet<IndexName> =
                all.iter().filter(|name| expression_matches(&parts, name)).cloned().collect();
            assert_eq!(seen.iter().map(IndexName::as_str).collect::<Vec<_>>(), named, "{expression}");
            assert_eq!(missing(&parts, &seen).into_iter().collect::<Vec<_>>(), absent, "{expression}");
        };
        check("a*,b1", &["a1", "a2", "b1"], &[]);
        check("b2,a*,-a1", &["a2", "b2"], &[]);
        check("a1,b1,-a*", &["b1"], &[]);
        check("a1,b2,-a*,-b2", &[], &[]);
        check("-a1,a*,-a2", &["a1"], &["-a1"]);
        check("a*,-none,b*,-b2", &["a1", "a2", "b1"], &[]);
        check("-none,-none*,-other", &[], &["-none"]);
        check("a1,none", &["a1"], &["none"]);
        check("_all", &["a1", "a2", "b1", "b2"], &[]);
    }
}
