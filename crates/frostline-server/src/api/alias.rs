//! Aliases: other names for indices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use frostline_base::{ErrorKind, IndexName, wildcard_matches};
use frostline_catalog::{
    ALIAS_TAKEN, Access, Alias, Index, RecordChange, Records, Resolve, Routing, Wildcards,
};
use frostline_query::Search;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::names::parse;
use crate::api::{blocks, index, indices};
use crate::error::{ApiError, Result};
use crate::scope::Scope;
use crate::state::{Call, State, only};

/// What is said of an alias where it gets an index.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct About {
    /// Whether the index takes the documents that are sent to it.
    write: Option<bool>,
    /// Whether wildcards leave it out.
    hidden: Option<bool>,
    /// The query that documents of the index have to match.
    filter: Option<Value>,
    /// Which shards were chosen.
    routing: Routing,
}

/// Aliases, each with what is said of it.
pub(crate) type Abouts = BTreeMap<IndexName, About>;

impl About {
    /// Reads what is said beside what is `known` to mean something else.
    fn read(about: &Map<String, Value>, known: &[&str]) -> Result<About> {
        let mut read = About::default();
        let routing = |member: &str| match about.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(routing)) => Ok(Some(routing.clone())),
            Some(Value::Number(routing)) => Ok(Some(routing.to_string())),
            Some(value) => {
                Err(ApiError::unparsed(format!("an alias cannot have [{member}] with the value {value}")))
            }
        };
        let both = routing("routing")?;
        read.routing.index = routing("index_routing")?.or_else(|| both.clone());
        read.routing.search = routing("search_routing")?.or(both);
        for (member, value) in about {
            match (member.as_str(), value) {
                (member, _) if known.contains(&member) => {}
                ("is_write_index", Value::Bool(flag)) => read.write = Some(*flag),
                ("is_hidden", Value::Bool(flag)) => read.hidden = Some(*flag),
                ("filter", Value::Object(_)) => read.filter = Some(value.clone()),
                ("is_write_index" | "is_hidden" | "filter", Value::Null) => {}
                ("routing" | "index_routing" | "search_routing", _) => {}
                (member @ ("is_write_index" | "is_hidden" | "filter"), value) => {
                    return Err(ApiError::unparsed(format!(
                        "an alias cannot have [{member}] with the value {value}"
                    )));
                }
                (member, _) => {
                    return Err(ApiError::unparsed(format!("unknown field [{member}] of an alias")));
                }
            }
        }
        Ok(read)
    }

    /// Reads aliases of an index that is made.
    pub(crate) fn read_all(value: Option<&Value>) -> Result<Abouts> {
        let Some(value) = value else { return Ok(BTreeMap::new()) };
        let aliases = value.as_object().ok_or_else(|| ApiError::unparsed("[aliases] is an object"))?;
        let each = aliases.iter().map(|(name, about)| {
            let about = about
                .as_object()
                .ok_or_else(|| ApiError::unparsed(format!("alias [{name}] is an object")))?;
            Ok((parse(name)?, About::read(about, &[])?))
        });
        each.collect()
    }

    /// What there is to say of an alias for one of its indices.
    fn of(alias: &Alias, index: &IndexName) -> About {
        About {
            write: alias.write.as_ref().map(|write| write == index),
            hidden: alias.hidden.then_some(true),
            filter: alias.filters.get(index).cloned(),
            routing: alias.routing.get(index).cloned().unwrap_or_default(),
        }
    }

    /// As it is shown.
    pub(crate) fn to_json(&self) -> Value {
        let members = [
            ("filter", self.filter.clone()),
            ("index_routing", self.routing.index.clone().map(Value::from)),
            ("is_hidden", self.hidden.map(Value::from)),
            ("is_write_index", self.write.map(Value::from)),
            ("search_routing", self.routing.search.clone().map(Value::from)),
        ];
        let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        members.collect::<Map<_, _>>().into()
    }
}

/// An alias while it is changed: only in the end one of its indices at most may take the documents.
#[derive(Clone, Default)]
pub(crate) struct Draft {
    alias: Alias,
    writes: BTreeSet<IndexName>,
}

impl Draft {
    pub(crate) fn of(alias: Option<&Alias>) -> Draft {
        let alias = alias.cloned().unwrap_or_default();
        Draft { writes: alias.write.iter().cloned().collect(), alias }
    }

    /// Gives it these indices, or says this of them from now on.
    pub(crate) fn add(
        &mut self,
        name: &IndexName,
        about: &About,
        indices: &[IndexName],
    ) -> frostline_base::Result<()> {
        let (alias, hidden) = (&mut self.alias, about.hidden.unwrap_or(false));
        if let Some(other) = alias.indices.iter().find(|other| !indices.contains(other))
            && alias.hidden != hidden
        {
            return Err(frostline_base::Error::invalid(format!(
                "alias [{name}] has is_hidden set to {} on the index [{other}]: it is the same for all its indices",
                alias.hidden
            )));
        }
        alias.hidden = hidden;
        for index in indices {
            alias.indices.insert(index.clone());
            alias.filters.remove(index);
            alias.filters.extend(about.filter.clone().map(|filter| (index.clone(), filter)));
            match about.routing == Routing::default() {
                true => alias.routing.remove(index),
                false => alias.routing.insert(index.clone(), about.routing.clone()),
            };
            match about.write {
                Some(true) => drop(self.writes.insert(index.clone())),
                Some(false) => drop(self.writes.remove(index)),
                None => {}
            }
        }
        Ok(())
    }

    fn remove(&mut self, index: &IndexName) {
        self.alias.remove(index);
        self.writes.remove(index);
    }

    /// What it is now; none without an index.
    pub(crate) fn done(mut self, name: &IndexName) -> frostline_base::Result<Option<Alias>> {
        if self.writes.len() > 1 {
            let writes: Vec<&str> = self.writes.iter().map(IndexName::as_str).collect();
            let writes = writes.join(",");
            let what = format!("alias [{name}] has more than one write index [{writes}]");
            return Err(frostline_base::Error::invalid(what).with(WRITE_INDICES, writes));
        }
        self.alias.write = self.writes.pop_first();
        Ok(Some(self.alias).filter(|alias| !alias.indices.is_empty()))
    }
}

/// The fact of an error that says which indices would all take the documents of an alias.
const WRITE_INDICES: &str = "write_indices";

/// The error of a change of aliases, as Elasticsearch tells it.
pub(crate) fn refused(error: &frostline_base::Error) -> Option<ApiError> {
    let state = || ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "illegal_state_exception", error.what());
    error.fact(ALIAS_TAKEN).map(taken).or_else(|| error.fact(WRITE_INDICES).map(|_| state()))
}

/// One step of a change.
#[derive(Clone, Debug)]
enum Step {
    Add { indices: Vec<IndexName>, aliases: Vec<IndexName>, about: About },
    Remove { indices: Vec<IndexName>, aliases: Vec<String>, must_exist: bool },
    RemoveIndex { indices: Vec<IndexName> },
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
            return Err(ApiError::unparsed(
                "an action is an object with one of add, remove and remove_index",
            ));
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
    if !matches!(name, "add" | "remove" | "remove_index") {
        let what = format!("the action [{name}] is not supported: use add, remove and remove_index");
        return Err(ApiError::unsupported(what));
    }
    let named = texts("index", "indices")?.join(",");
    if name == "remove_index" {
        if let Some(other) =
            about.keys().find(|member| !["index", "indices", "must_exist"].contains(&member.as_str()))
        {
            return Err(ApiError::unparsed(format!("[remove_index] unknown field [{other}]")));
        }
        let must_exist = about.get("must_exist").is_none_or(|must| *must != json!(false));
        let how = Resolve { ignore_unavailable: !must_exist, wildcards: Wildcards::NONE, ..Resolve::ALL };
        return Ok(Step::RemoveIndex { indices: index::deletable(call, &named, how).await? });
    }
    let indices = changed(call, &named).await?;
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
    let about = About::read(about, known)?;
    if let Some(filter) = &about.filter {
        let mut of = Vec::new();
        for index in &indices {
            of.push(call.state.node.index(index).await?);
        }
        check_filter(&call.state, filter, &of).await?;
    }
    Ok(Step::Add { indices, aliases, about })
}

/// Refuses what is no query, or none of one of these indices.
async fn check_filter(state: &State, filter: &Value, indices: &[Arc<Index>]) -> Result<()> {
    let body = json!({ "query": filter }).to_string();
    let (searcher, options) = (state.node.searcher().await?, state.node.search_options(false, true).await);
    let refused = |e| ApiError::invalid(format!("failed to parse filter for alias: {e}"));
    let check = |indices: &[Arc<Index>]| {
        Search::new(&searcher, indices, body.as_bytes(), &options).map(drop).map_err(refused)
    };
    match indices {
        [] => check(&[]),
        indices => indices.iter().try_for_each(|index| check(std::slice::from_ref(index))),
    }
}

/// Refuses the filters of aliases of an index that is not there yet.
pub(crate) async fn check_filters(state: &State, aliases: &Abouts) -> Result<()> {
    for filter in aliases.values().filter_map(|about| about.filter.as_ref()) {
        check_filter(state, filter, &[]).await?;
    }
    Ok(())
}

/// Indices that an alias is to have must be there.
const STRICT: Resolve = Resolve { allow_no_indices: false, wildcards: Wildcards::SHOWN, ..Resolve::ALL };

/// The indices of which the aliases are to change.
async fn changed(call: &Call, expression: &str) -> Result<Vec<IndexName>> {
    let names = indices::names(&call.state, &call.client.scope, expression, STRICT).await?;
    blocks::check(&call.state, names.iter(), Access::WriteMetadata)?;
    Ok(names)
}

async fn apply(state: &State, steps: Vec<Step>) -> Result<Answer> {
    // As in Elasticsearch indices are removed first, so that an alias may take the name of one.
    let removed = steps.iter().filter_map(|step| match step {
        Step::RemoveIndex { indices } => Some(indices),
        Step::Add { .. } | Step::Remove { .. } => None,
    });
    let removed: BTreeSet<&IndexName> = removed.flatten().collect();
    let removed: Vec<IndexName> = removed.into_iter().cloned().collect();
    let added = steps.iter().filter_map(|step| match step {
        Step::Add { indices, .. } => Some(indices),
        _ => None,
    });
    if let Some(index) = added.flatten().find(|index| removed.contains(index)) {
        return Err(ApiError::no_such_index(index.as_str()));
    }
    let plan = |records: &Records| {
        let mut changed: BTreeMap<IndexName, Draft> = BTreeMap::new();
        for step in &steps {
            take(records, &mut changed, step)?;
        }
        let done = |(name, draft): (IndexName, Draft)| {
            let alias = draft.done(&name)?;
            Ok(RecordChange::Alias(name, alias))
        };
        changed.into_iter().map(done).collect()
    };
    let catalog = state.node.catalog();
    let done = match removed.is_empty() {
        true => catalog.change_records("aliases", plan).await.map(drop),
        false => catalog.delete_with(&removed, plan).await,
    };
    done.map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            ApiError::new(StatusCode::NOT_FOUND, "aliases_not_found_exception", e.to_string())
        }
        _ => refused(&e).unwrap_or_else(|| e.into()),
    })?;
    for index in &removed {
        state.node.unmount(index).await?;
    }
    Answer::json(&json!({ "acknowledged": true, "errors": false }))
}

/// The error of an alias that would have the name of something else.
fn taken(alias: &str) -> ApiError {
    let reason = format!("Invalid alias name [{alias}]: there is an index or a data stream of that name");
    ApiError::new(StatusCode::BAD_REQUEST, "invalid_alias_name_exception", reason).about("index", alias)
}

/// Puts a step into what is changed.
fn take(
    records: &Records,
    changed: &mut BTreeMap<IndexName, Draft>,
    step: &Step,
) -> frostline_base::Result<()> {
    let of_records = |name: &IndexName| Draft::of(records.aliases().get(name).map(|alias| &**alias));
    match step {
        Step::RemoveIndex { .. } => {}
        Step::Add { indices, aliases, about } => {
            for name in aliases {
                let draft = changed.entry(name.clone()).or_insert_with(|| of_records(name));
                draft.add(name, about, indices)?;
            }
        }
        Step::Remove { indices, aliases, must_exist } => {
            for pattern in aliases {
                let known: BTreeSet<IndexName> =
                    records.aliases().keys().chain(changed.keys()).cloned().collect();
                let mut found = false;
                for name in known.iter().filter(|name| matches(pattern, name)) {
                    let draft = changed.entry(name.clone()).or_insert_with(|| of_records(name));
                    let before = draft.alias.indices.len();
                    indices.iter().for_each(|index| draft.remove(index));
                    found |= draft.alias.indices.len() < before;
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

/// `PUT /{index}/_alias/{name}`, of which the body may say both, and counts before the path.
pub(crate) async fn put(call: Call) -> Result<Answer> {
    let mut about = call.object()?;
    let mut said = |member: &str, part: &str| match about.remove(member) {
        None => call.part(part).map(str::to_owned).ok_or_else(|| {
            ApiError::invalid(format!("Validation Failed: 1: [{member}] is missing;"))
                .named("action_request_validation_exception")
        }),
        Some(Value::String(name)) => Ok(name),
        Some(other) => Err(ApiError::unparsed(format!("[{member}] is {other}, not a text"))),
    };
    let (indices, alias) = (said("index", "index")?, said("alias", "name")?);
    let aliases = vec![parse(&alias)?];
    let indices = changed(&call, &indices).await?;
    let step = add(&call, indices, aliases, &about, &[]).await?;
    apply(&call.state, vec![step]).await
}

/// `DELETE /{index}/_alias/{name}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let aliases = call.part("name").unwrap_or_default().split(',').map(str::to_owned).collect();
    let indices = changed(&call, call.index()).await?;
    apply(&call.state, vec![Step::Remove { indices, aliases, must_exist: true }]).await
}

/// `GET /{index}/_alias/{name}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let how = indices::how_of_any(&call.params, Wildcards::ALL)?;
    let scope = &call.client.scope;
    let indices = indices::names(&call.state, scope, call.index(), how).await?;
    let records = call.state.node.records().await?;
    let wanted: Option<Vec<&str>> = call.part("name").map(|names| names.split(',').collect());
    let spelled = wanted.iter().flatten().filter(|part| !part.contains('*') && **part != "_all");
    spelled.filter_map(|part| part.parse().ok()).try_for_each(|name| scope.check(&name))?;
    let is_wanted = |name: &IndexName| wanted.as_ref().is_none_or(|wanted| expression_matches(wanted, name));
    let mut each = Map::new();
    let mut seen = BTreeSet::new();
    for index in &indices {
        let own = of_index(&records, scope, index).filter(|(name, _)| is_wanted(name));
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

/// The aliases of an index that may be known, each with what was said of it for this index.
pub(crate) fn of_index<'a>(
    records: &'a Records,
    scope: &'a Scope,
    index: &'a IndexName,
) -> impl Iterator<Item = (&'a IndexName, Value)> {
    let all = records.aliases().iter();
    let of_it = all.filter(move |(name, alias)| alias.indices.contains(index) && scope.allows(name));
    of_it.map(move |(name, alias)| (name, About::of(alias, index).to_json()))
}

/// The aliases of an index as an object.
pub(crate) fn shown(records: &Records, scope: &Scope, index: &IndexName) -> Value {
    of_index(records, scope, index)
        .map(|(name, about)| (name.to_string(), about))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tested;

    /// What an alias says is the same wherever it is said.
    #[tokio::test]
    async fn an_index_is_made_with_aliases_that_have_filters() {
        let tested = Tested::new();
        let about = json!({ "filter": { "term": { "n": 1 } }, "is_write_index": true });
        let aliases = |name: &str| json!({ "aliases": { name: about } });
        let put = async |path: &str, body: Value| drop(tested.ok("PUT", path, &body.to_string()).await);
        put("/made", aliases("ones-of-made")).await;
        put("/_component_template/part", json!({ "template": aliases("ones-of-part") })).await;
        let both = json!({
            "index_patterns": ["new*"], "composed_of": ["part"], "template": aliases("ones-of-new"),
        });
        put("/_index_template/both", both).await;
        let mut old = aliases("ones-of-old");
        old["index_patterns"] = json!("old*");
        put("/_template/old", old).await;
        for (index, alias) in [
            ("made", "ones-of-made"),
            ("new", "ones-of-part"),
            ("new", "ones-of-new"),
            ("old", "ones-of-old"),
        ] {
            for n in [1, 2] {
                let (path, document) = (format!("/{index}/_doc"), json!({ "n": n }).to_string());
                assert_eq!(tested.send("POST", &path, &document).await.status, 201);
            }
            let count = async |name: &str| {
                tested.ok("GET", &format!("/{name}/_count"), "").await["count"].as_u64().unwrap_or_default()
            };
            assert_eq!(count(alias).await * 2, count(index).await, "{alias}");
            let shown = tested.ok("GET", &format!("/{index}/_alias/{alias}"), "").await;
            assert_eq!(shown[index]["aliases"][alias], about);
        }
        // Another index of an alias has a filter of its own, or none.
        put("/other", json!({ "aliases": { "ones-of-made": {} } })).await;
        tested.send("POST", "/other/_doc", r#"{"n":3}"#).await;
        assert_eq!(tested.ok("GET", "/ones-of-made/_count", "").await["count"], 2);
        for (path, body) in [
            ("/x", json!({ "aliases": { "a": { "filter": { "trem": {} } } } })),
            ("/x", json!({ "aliases": { "a": { "filter": 1 } } })),
            ("/x", json!({ "aliases": { "a": { "is_hiden": true } } })),
            (
                "/_template/x",
                json!({ "index_patterns": "x", "aliases": { "a": { "filter": { "trem": {} } } } }),
            ),
            (
                "/_component_template/x",
                json!({ "template": { "aliases": { "a": { "filter": { "trem": {} } } } } }),
            ),
        ] {
            assert_eq!(tested.error("PUT", path, &body.to_string()).await.0, 400, "{path} {body}");
        }
    }

    #[tokio::test]
    async fn an_alias_takes_the_name_of_an_index_that_goes_at_once() {
        let tested = Tested::new();
        for (index, n) in [("old", 1), ("new", 2), ("other", 3)] {
            let (path, document) = (format!("/{index}/_doc"), json!({ "n": n }).to_string());
            assert_eq!(tested.send("POST", &path, &document).await.status, 201);
        }
        let change = |actions: Value| json!({ "actions": actions }).to_string();
        for index in ["old", "new", "other"] {
            let add = json!([{ "add": { "index": index, "alias": "all" } }]);
            tested.ok("POST", "/_aliases", &change(add)).await;
        }
        // What cannot be done leaves everything as it was.
        for (actions, status) in [
            (
                json!([{ "remove_index": { "index": "old" } }, { "remove": { "index": "new", "alias": "none" } }]),
                404,
            ),
            (
                json!([{ "remove_index": { "index": "old" } }, { "add": { "index": "old", "alias": "a" } }]),
                404,
            ),
            (json!([{ "remove_index": { "index": "gone" } }]), 404),
            (json!([{ "remove_index": { "index": "o*" } }]), 400),
            (json!([{ "remove_index": { "index": "all" } }]), 400),
            (json!([{ "remove_index": { "index": "old", "alias": "all" } }]), 400),
            (json!([{ "add": { "index": "new", "alias": "old" } }]), 400),
        ] {
            assert_eq!(
                tested.error("POST", "/_aliases", &change(actions.clone())).await.0,
                status,
                "{actions}"
            );
        }
        assert_eq!(tested.ok("GET", "/old/_count", "").await["count"], 1);
        let swap = json!([
            { "add": { "index": "new", "aliases": ["old", "more"] } },
            { "remove_index": { "indices": ["old", "other"] } },
            { "remove_index": { "index": "gone", "must_exist": false } },
        ]);
        tested.ok("POST", "/_aliases", &change(swap)).await;
        let found = tested.ok("GET", "/old/_search", "").await;
        assert_eq!(
            (&found["hits"]["hits"][0]["_index"], &found["hits"]["total"]["value"]),
            (&json!("new"), &json!(1))
        );
        let aliases = tested.ok("GET", "/_alias", "").await;
        assert_eq!(aliases, json!({ "new": { "aliases": { "all": {}, "more": {}, "old": {} } } }));
        assert_eq!(tested.error("GET", "/other", "").await.0, 404);
    }

    /// Which of the indices of an alias takes its documents is said of one at most, whoever says it.
    #[tokio::test]
    async fn an_alias_has_one_write_index() {
        let tested = Tested::new();
        let writing = |name: &str| json!({ "aliases": { name: { "is_write_index": true } } }).to_string();
        tested.ok("PUT", "/a", &writing("all")).await;
        tested.ok("PUT", "/b", r#"{"aliases":{"all":{}}}"#).await;
        let add = |index: &str, write: bool| json!({ "add": { "index": index, "alias": "all", "is_write_index": write } });
        let change = |actions: &[Value]| json!({ "actions": actions }).to_string();
        let second = "alias [all] has more than one write index [a,b]";
        let is_refused = |error: (u16, String, String), reason: &str| {
            assert_eq!(error, (500, "illegal_state_exception".to_owned(), reason.to_owned()));
        };
        is_refused(tested.error("POST", "/_aliases", &change(&[add("b", true)])).await, second);
        is_refused(tested.error("PUT", "/b/_alias/all", r#"{"is_write_index":true}"#).await, second);
        let third = "alias [all] has more than one write index [a,c]";
        is_refused(tested.error("PUT", "/c", &writing("all")).await, third);
        let template = json!({ "index_patterns": "c", "template": { "aliases": { "all": { "is_write_index": true } } } });
        tested.ok("PUT", "/_index_template/c", &template.to_string()).await;
        is_refused(tested.error("PUT", "/c/_doc/1", "{}").await, third);
        assert_eq!(tested.send("HEAD", "/c", "").await.status, 404);
        // One after the other, in either order.
        for (old, new) in [("a", "b"), ("b", "a")] {
            let mut swap = [add(old, false), add(new, true)];
            if old == "b" {
                swap.reverse();
            }
            tested.ok("POST", "/_aliases", &change(&swap)).await;
            assert_eq!(tested.send("POST", "/all/_doc", "{}").await.json()["_index"], new);
        }
        let moved = [add("b", true), json!({ "remove": { "index": "a", "alias": "all" } })];
        tested.ok("POST", "/_aliases", &change(&moved)).await;
        // An index that goes makes room.
        tested.ok("PUT", "/d", "").await;
        let moved = [add("d", true), json!({ "remove_index": { "index": "b" } })];
        tested.ok("POST", "/_aliases", &change(&moved)).await;
        assert_eq!(tested.send("POST", "/all/_doc", "{}").await.json()["_index"], "d");
    }

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
