//! Which indices a request names.

use std::collections::BTreeMap;
use std::sync::Arc;

use frostline_base::{ErrorKind, IndexName};
use frostline_catalog::{Access, Index, IsSeen, Records, Resolve, Wildcards, spelled_out};
use frostline_query::language::IndexVersion;
use http::StatusCode;

use serde_json::{Value, json};

use crate::api::blocks;
use crate::error::{ApiError, Result};
use crate::params::Params;
use crate::scope::{FieldRules, Scope};
use crate::state::{Call, State};

/// The most parts of an expression.
const PARTS_MAX: usize = 1_000;

/// What happens to missing and closed indices where documents are read or changed, as the URL says it.
pub(crate) fn how(params: &Params) -> Result<Resolve> {
    Ok(Resolve { closed: false, ..how_of_any(params, Wildcards::OPEN)? })
}

/// The same for who wants to know of closed indices too. `default` is what wildcards name where the URL does not say it.
pub(crate) fn how_of_any(params: &Params, default: Wildcards) -> Result<Resolve> {
    Ok(Resolve {
        wildcards: wildcards(params, default)?,
        closed: true,
        allow_no_indices: params.flag("allow_no_indices")?.unwrap_or(true),
        ignore_unavailable: params.flag("ignore_unavailable")?.unwrap_or(false),
    })
}

/// The same for who changes what is known of indices: a wildcard that names none is a mistake.
pub(crate) fn how_of_change(params: &Params) -> Result<Resolve> {
    let allow_no_indices = params.flag("allow_no_indices")?.unwrap_or(false);
    Ok(Resolve { allow_no_indices, ..how_of_any(params, Wildcards::SHOWN)? })
}

/// What wildcards name, as the URL says it.
pub(crate) fn wildcards(params: &Params, default: Wildcards) -> Result<Wildcards> {
    params.list("expand_wildcards").map_or(Ok(default), |wanted| expands(&wanted, default))
}

/// What wildcards name; `default` where nothing is said.
pub(crate) fn expands(wanted: &[&str], default: Wildcards) -> Result<Wildcards> {
    if wanted.is_empty() {
        return Ok(default);
    }
    wanted.iter().try_fold(Wildcards::NONE, |sum, wanted| match *wanted {
        "all" => Ok(Wildcards::ALL),
        "closed" => Ok(Wildcards { closed: true, ..sum }),
        "hidden" => Ok(Wildcards { hidden: true, ..sum }),
        "none" => Ok(Wildcards::NONE),
        "open" => Ok(Wildcards { open: true, ..sum }),
        other => Err(ApiError::invalid(format!("No valid expand wildcard value [{other}]"))),
    })
}

/// The newest versions of the open indices that the path of a request names.
pub(crate) async fn named(call: &Call) -> Result<Vec<Arc<Index>>> {
    open(&call.state, &call.client.scope, call.index(), how(&call.params)?).await
}

/// Those of all indices that it names, for who shows what is known of them.
pub(crate) async fn named_of_any(call: &Call, default: Wildcards) -> Result<Vec<Arc<Index>>> {
    let how = how_of_any(&call.params, default)?;
    open(&call.state, &call.client.scope, call.index(), how).await
}

/// The same, where what is shown can be blocked.
pub(crate) async fn described(call: &Call, default: Wildcards) -> Result<Vec<Arc<Index>>> {
    let found = named_of_any(call, default).await?;
    blocks::check(&call.state, found.iter().map(|index| index.name()), Access::ReadMetadata)?;
    Ok(found)
}

/// The indices that the path of a request names, for who shows which fields they have. Through an alias with a filter, whoever
/// may not read the index itself is shown the fields that its mapping declares: other names may be those of documents that the
/// filter hides.
pub(crate) async fn with_fields(call: &Call, how: Resolve) -> Result<Vec<Arc<Index>>> {
    let (state, scope) = (&call.state, &call.client.scope);
    let (opened, filters) = opened_and_filters(state, scope, call.index(), how).await?;
    let shown = opened.into_iter().map(|index| {
        if !filters.contains_key(index.name()) || allows(state, scope, index.name()) {
            return index;
        }
        let whole = Arc::clone(&index);
        let is_declared = move |path: &str| {
            let mapping = whole.mapping();
            let is_declared = |path: &str| mapping.field(path).is_some_and(|field| field.declared.is_some());
            let is_other_name = mapping.field(path).is_none();
            let mut of = mapping.places_of(path).into_iter().peekable();
            let is_of_declared = is_other_name && of.peek().is_some() && of.all(is_declared);
            path == mapping.time_field() || is_declared(path) || is_of_declared
        };
        Arc::new(index.with_fields(Arc::new(is_declared)))
    });
    Ok(shown.collect())
}

/// The same of indices whose mappings are not blocked.
pub(crate) async fn with_mappings(call: &Call, default: Wildcards) -> Result<Vec<Arc<Index>>> {
    let found = with_fields(call, how_of_any(&call.params, default)?).await?;
    blocks::check(&call.state, found.iter().map(|index| index.name()), Access::ReadMetadata)?;
    Ok(found)
}

/// Queries, by the indices that are read only through aliases with them.
pub(crate) type Filters = BTreeMap<IndexName, Value>;

/// The newest versions of the indices that the path of a request names, and the filters of what is read of them.
pub(crate) async fn named_filtered(call: &Call) -> Result<(Vec<Arc<Index>>, Filters)> {
    open_filtered(&call.state, &call.client.scope, call.index(), how(&call.params)?).await
}

/// As [`open`], for who reads documents and applies the filters of aliases.
pub(crate) async fn open_filtered(
    state: &State,
    scope: &Scope,
    expression: &str,
    how: Resolve,
) -> Result<(Vec<Arc<Index>>, Filters)> {
    let (opened, filters) = opened_and_filters(state, scope, expression, how).await?;
    blocks::check(state, opened.iter().map(|index| index.name()), Access::Read)?;
    Ok((opened, filters))
}

async fn opened_and_filters(
    state: &State,
    scope: &Scope,
    expression: &str,
    how: Resolve,
) -> Result<(Vec<Arc<Index>>, Filters)> {
    check_expression(expression)?;
    // What was seen may be outdated: it only saves a request where no alias has a filter.
    let seen = through_filters(state, expression, state.node.catalog().seen_records())?;
    let newest = match seen {
        Some(_) => through_filters(state, expression, Some(state.node.records().await?))?,
        None => None,
    };
    let through = match newest {
        Some(through) => through,
        None => match open(state, scope, expression, how).await {
            // An alias may have just got a filter. What was read to refuse it is seen now.
            Err(error) => {
                let seen = through_filters(state, expression, state.node.catalog().seen_records())?;
                seen.ok_or(error)?
            }
            opened => return Ok((opened?, Filters::new())),
        },
    };
    let (names, filters) = through.resolve(state, scope, how).await?;
    let names = names.iter().map(IndexName::as_str).collect::<Vec<_>>().join(",");
    let opened = match names.is_empty() {
        true => Vec::new(),
        false => state.node.indices(&names, how).await.map_err(|e| missing(state, scope, &names, how, e))?,
    };
    // A filter may be by a field that is not seen.
    scope.check_fields(filters.is_empty(), "aliases with filters")?;
    Ok((as_seen(state, scope, opened)?, filters))
}

/// As [`names`], for who reads documents and applies the filters of aliases.
pub(crate) async fn names_filtered(
    state: &State,
    scope: &Scope,
    expression: &str,
    how: Resolve,
) -> Result<(Vec<IndexName>, Filters)> {
    check_expression(expression)?;
    let records = state.node.records().await?;
    let (names, filters) = match through_filters(state, expression, Some(records))? {
        Some(through) => through.resolve(state, scope, how).await?,
        None => (names(state, scope, expression, how).await?, Filters::new()),
    };
    blocks::check(state, names.iter(), Access::Read)?;
    Ok((names, filters))
}

/// An expression that spells out aliases with filters.
struct ThroughFilters {
    records: Records,
    aliases: Vec<IndexName>,
    /// Its other parts.
    rest: Vec<String>,
}

/// None where an expression names no alias with a filter.
fn through_filters(
    state: &State,
    expression: &str,
    records: Option<Records>,
) -> Result<Option<ThroughFilters>> {
    let Some(records) = records else { return Ok(None) };
    let now_us = state.node.clock().now_us();
    let has_filter = |name: &IndexName| records.aliases().get(name).is_some_and(|alias| alias.has_filter());
    let aliases: Vec<IndexName> = spelled_out(expression, now_us)?.into_iter().filter(has_filter).collect();
    if aliases.is_empty() {
        return Ok(None);
    }
    let mut rest = Vec::new();
    for part in expression.split(',').map(str::trim) {
        if part.starts_with('-') || !spelled_out(part, now_us)?.iter().any(has_filter) {
            rest.push(part.to_owned());
        }
    }
    Ok(Some(ThroughFilters { records, aliases, rest }))
}

impl ThroughFilters {
    /// Each index once. What is also named without a filter has none, and of several filters any may match.
    async fn resolve(self, state: &State, scope: &Scope, how: Resolve) -> Result<(Vec<IndexName>, Filters)> {
        if let Some(other) = self.aliases.iter().find(|alias| !scope.allows(alias)) {
            return Err(scope.forbidden(other.as_str()));
        }
        if let Some(part) = self.rest.iter().find(|part| part.starts_with('-')) {
            return Err(ApiError::invalid(format!(
                "[{part}] takes away from an expression with an alias that has a filter: list the indices"
            )));
        }
        let mut found = match self.rest.is_empty() {
            true => Vec::new(),
            false => names(state, scope, &self.rest.join(","), how).await?,
        };
        let mut filtered: BTreeMap<IndexName, Vec<Value>> = BTreeMap::new();
        for alias in self.aliases.iter().filter_map(|name| self.records.aliases().get(name)) {
            for index in alias.indices.iter().filter(|index| self.records.has_index(index)) {
                match self.records.check_open(index) {
                    Err(_) if how.ignore_unavailable => continue,
                    closed => closed?,
                }
                match alias.filters.get(index) {
                    Some(filter) => filtered.entry(index.clone()).or_default().push(filter.clone()),
                    None => found.push(index.clone()),
                }
            }
        }
        let filters = filtered.into_iter().filter(|(index, _)| !found.contains(index)).map(|(index, all)| {
            let any = match <[Value; 1]>::try_from(all) {
                Ok([filter]) => filter,
                Err(all) => json!({ "bool": { "should": all, "minimum_should_match": 1 } }),
            };
            (index, any)
        });
        let filters: Filters = filters.collect();
        found.extend(filters.keys().cloned());
        found.sort_unstable();
        found.dedup();
        Ok((found, filters))
    }
}

/// The newest versions of the indices that an expression names, of those in the scope.
pub(crate) async fn open(
    state: &State,
    scope: &Scope,
    expression: &str,
    how: Resolve,
) -> Result<Vec<Arc<Index>>> {
    check_expression(expression)?;
    let mut narrowed = None;
    if !scope.is_all() {
        let names = names(state, scope, expression, how).await?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        narrowed = Some(names.iter().map(IndexName::as_str).collect::<Vec<_>>().join(","));
    }
    let opened = state.node.indices(narrowed.as_deref().unwrap_or(expression), how).await;
    as_seen(state, scope, opened.map_err(|error| missing(state, scope, expression, how, error))?)
}

/// Indices as they are asked for whoever has this scope. All that such requests read of them goes through here: of several
/// together only fields are seen that are seen in each of them. An error of status 403 where the time is not among them.
pub(crate) fn as_seen(state: &State, scope: &Scope, indices: Vec<Arc<Index>>) -> Result<Vec<Arc<Index>>> {
    if !scope.limits_fields() {
        return Ok(indices);
    }
    let rules = indices.iter().filter_map(|index| fields(state, scope, index.name()));
    let rules: Vec<Vec<FieldRules>> = rules.collect();
    if rules.is_empty() {
        return Ok(indices);
    }
    let is_seen: IsSeen =
        Arc::new(move |path| rules.iter().all(|of_index| of_index.iter().any(|rules| rules.sees(path))));
    let each = indices.iter().map(|index| match index.mapping().time_field() {
        time if is_seen(time) => Ok(Arc::new(index.with_fields(Arc::clone(&is_seen)))),
        time => {
            let name = index.name();
            let reason = format!("the fields that are granted on [{name}] lack [{time}], which has its time");
            Err(ApiError::new(StatusCode::FORBIDDEN, "security_exception", reason))
        }
    });
    each.collect()
}

/// By which rules fields of an index are seen, itself or by a name that stands for it; none where all are.
pub(crate) fn fields(state: &State, scope: &Scope, index: &IndexName) -> Option<Vec<FieldRules>> {
    let records = state.node.catalog().seen_records();
    let others = records.iter().flat_map(|records| names_for(records, index));
    let names: Vec<&str> = [index].into_iter().chain(others).map(IndexName::as_str).collect();
    scope.fields(&names)
}

/// Other names that stand for an index.
fn names_for<'a>(records: &'a Records, index: &IndexName) -> impl Iterator<Item = &'a IndexName> {
    let is_of_it = |alias: &frostline_catalog::Alias| alias.indices.contains(index) && !alias.has_filter();
    let aliases = records.aliases().iter().filter(move |(_, alias)| is_of_it(alias));
    let streams = records.data_streams().iter().filter(move |(_, stream)| stream.indices.contains(index));
    aliases.map(|(name, _)| name).chain(streams.map(|(name, _)| name))
}

/// Whether an index is in the scope: itself, or by a name that stands for it.
pub(crate) fn allows(state: &State, scope: &Scope, index: &IndexName) -> bool {
    scope.allows(index)
        || state
            .node
            .catalog()
            .seen_records()
            .is_some_and(|records| names_for(&records, index).any(|name| scope.allows(name)))
}

/// Refuses versions of an index that is not in the scope.
pub(crate) fn check(state: &State, scope: &Scope, versions: &[IndexVersion]) -> Result<()> {
    match versions.iter().find(|version| !allows(state, scope, &version.name)) {
        Some(other) => Err(scope.forbidden(other.name.as_str())),
        None => Ok(()),
    }
}

/// The names of the indices that an expression names, of those in the scope. An error of status 403 where it spells out
/// another name, whether or not that means something.
pub(crate) async fn names(
    state: &State,
    scope: &Scope,
    expression: &str,
    how: Resolve,
) -> Result<Vec<IndexName>> {
    check_expression(expression)?;
    let (records, now_us) = (state.node.records().await?, state.node.clock().now_us());
    if let Some(other) = spelled_out(expression, now_us)?.iter().find(|name| !allows(state, scope, name)) {
        return Err(scope.forbidden(other.as_str()));
    }
    let names = records.resolve(expression, now_us, how, |name| scope.allows(name));
    names.map_err(|error| missing(state, scope, expression, how, error))
}

/// The error where one of these indices is missing names it, and what in the scope may be meant.
fn missing(
    state: &State,
    scope: &Scope,
    expression: &str,
    how: Resolve,
    error: frostline_base::Error,
) -> ApiError {
    let now_us = state.node.clock().now_us();
    if error.kind() == ErrorKind::Invalid {
        // What is wrong with the expression, without where the repository is.
        let records = state.node.catalog().seen_records();
        let again =
            records.map(|records| records.resolve(expression, now_us, how, |name| scope.allows(name)));
        return match again {
            Some(Err(cause)) if cause.kind() == ErrorKind::Invalid => cause.into(),
            _ => error.into(),
        };
    }
    if error.kind() != ErrorKind::NotFound {
        return error.into();
    }
    if let Some(records) = state.node.catalog().seen_records() {
        for part in expression.split(',').map(str::trim) {
            match records.resolve(part, now_us, how, |name| scope.allows(name)) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => {
                    return ApiError::no_such_index(part).caused_by(&cause);
                }
                _ => {}
            }
        }
    }
    // It was deleted while it was opened.
    ApiError::no_such_index(expression)
}

/// Refuses an expression that would keep the server busy, or that names indices of another cluster.
fn check_expression(expression: &str) -> Result<()> {
    if expression.split(',').nth(PARTS_MAX).is_some() {
        return Err(ApiError::invalid(format!("over {PARTS_MAX} names of indices in a list: use wildcards")));
    }
    // Date math has colons in times.
    let mut parts = expression.split(',').filter(|_| !expression.contains('<'));
    match parts.find_map(|part| part.split_once(':').filter(|(_, index)| !index.starts_with(':'))) {
        Some((remote, _)) => Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "no_such_remote_cluster_exception",
            format!(
                "no such remote cluster: [{remote}]; there is no search of several clusters: ask each server"
            ),
        )),
        None => Ok(()),
    }
}
