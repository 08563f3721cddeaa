//! Indices: made, deleted, shown.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use frostline_base::{IndexName, wildcard_matches};
use frostline_catalog::{Access, Amend, Change, Index, Records, Resolve, Wildcards};
use frostline_ingest::{Merge, MergePolicy};
use frostline_split::{Definitions, Mapping};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::alias::{self, About};
use crate::api::settings::{self, IndexSettings};
use crate::api::template::compose;
use crate::api::{blocks, indices, mapping, names, tasks};
use crate::counts::Count;
use crate::error::{ApiError, Result};
use crate::state::{Call, State, only};

/// `PUT /{index}`.
pub(crate) async fn create(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["aliases", "mappings", "settings"])?;
    let index_name = names::resolved(&call.state, call.index())?;
    let name = index_name.as_str();
    call.client.scope.check(&index_name)?;
    let records = call.state.node.catalog().records().await?;
    let mut composed = compose(&records, name)?.unwrap_or_default();
    if composed.data_stream {
        return Err(ApiError::invalid(format!(
            "cannot create index with name [{name}], because it matches with template [{}] that creates data streams \
             only, use create data stream api instead",
            composed.template
        )));
    }
    let aliases = About::read_all(body.get("aliases"))?;
    alias::check_filters(&call.state, &aliases).await?;
    aliases.keys().try_for_each(|alias| call.client.scope.check(alias))?;
    composed.aliases.extend(aliases);
    let index_settings = composed.index_settings()?.with(IndexSettings::read(body.get("settings"))?);
    let composed = composed.with(body.get("mappings"), body.get("settings"))?;
    let mapping = composed.mapping()?;
    let warnings = settings::warning(body.get("settings")).into_iter().chain(mapping::warning(&mapping));
    let warnings: Vec<String> = warnings.chain(composed.warning()).collect();
    let birth = names::birth(&index_name, mapping, composed.aliases, index_settings);
    names::make_index(&call.state, &index_name, birth).await?;
    let answer = json!({ "acknowledged": true, "shards_acknowledged": true, "index": name });
    Ok(Answer::json(&answer)?.with_warnings(warnings))
}

/// `PUT /{index}/_clone/{target}`: an index with the documents, the mapping and the settings that another one has at that
/// time. That one is neither blocked meanwhile nor need it be, as it is copied as it was.
pub(crate) async fn clone(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["aliases", "settings"])?;
    let source = source_of_clone(&call).await?;
    let name = names::resolved(&call.state, call.part("target").unwrap_or_default())?;
    let settings = body.get("settings");
    if settings::time_field(settings)?.is_some() {
        return Err(ApiError::invalid(
            "Can't update non dynamic settings [[index.time_field]]: a clone has the time field of its source",
        ));
    }
    settings::refuse_analysis(settings, "a clone keeps the analysis of its source")?;
    let records = call.state.node.catalog().records().await?;
    [Access::Read, Access::ReadMetadata]
        .into_iter()
        .try_for_each(|access| blocks::check(&call.state, std::iter::once(&source), access))?;
    let aliases = About::read_all(body.get("aliases"))?;
    alias::check_filters(&call.state, &aliases).await?;
    let (of_source, own) = (IndexSettings::of(&records, &source), IndexSettings::read(settings)?);
    let shards = of_source.shards().unwrap_or("1");
    if own.shards().is_some_and(|wanted| wanted != shards) {
        return Err(ApiError::invalid(format!(
            "[index.number_of_shards] of a clone is [{shards}], as of its source"
        )));
    }
    let also = names::named(&name, aliases, of_source.with(own));
    let about = format!("clone from [{source}] to [{name}]");
    let state = Arc::clone(&call.state);
    let cloned = async move {
        let cloned = state.node.catalog().clone_index(&source, &name, also).await;
        cloned.map_err(|e| names::not_made(&name, e))?;
        Ok(json!({ "acknowledged": true, "shards_acknowledged": true, "index": name }))
    };
    let answer = match call.params.flag("wait_for_completion")?.unwrap_or(true) {
        true => Answer::json(&cloned.await?)?,
        false => tasks::begin(&call, "indices.clone", about, cloned)?,
    };
    Ok(answer.with_warnings(settings::warning(settings)))
}

/// The index that is cloned, by its name or by an alias of it alone.
async fn source_of_clone(call: &Call) -> Result<IndexName> {
    let name = names::resolved(&call.state, call.index())?;
    let how =
        Resolve { wildcards: Wildcards::NONE, allow_no_indices: false, closed: true, ..Resolve::default() };
    let mut found = indices::names(&call.state, &call.client.scope, name.as_str(), how).await?;
    match (found.pop(), found.is_empty()) {
        (Some(index), true) => Ok(index),
        (None, _) => Err(ApiError::no_such_index(name.as_str())),
        (Some(_), false) => {
            Err(ApiError::invalid(format!("[{name}] stands for several indices: name the one to clone")))
        }
    }
}

/// `DELETE /{index}`. Names alone: a wildcard deletes more than was meant too easily.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let how = indices::how_of_any(&call.params, Wildcards::NONE)?;
    for name in deletable(&call, call.index(), how).await? {
        call.state.node.catalog().delete(&name).await?;
        call.state.node.unmount(&name).await?;
    }
    Answer::json(&json!({ "acknowledged": true }))
}

/// The indices that an expression names by themselves, and that may be deleted.
pub(crate) async fn deletable(call: &Call, expression: &str, how: Resolve) -> Result<Vec<IndexName>> {
    if expression.split(',').any(|part| part.contains('*') || part.trim() == "_all" || part.is_empty()) {
        return Err(ApiError::invalid("Wildcard expressions or all indices are not allowed"));
    }
    let catalog = call.state.node.catalog();
    let found = indices::names(&call.state, &call.client.scope, expression, how).await?;
    for part in expression.split(',') {
        if part.trim().parse().is_ok_and(|name| catalog.stands_for_others(&name)) {
            return Err(ApiError::invalid(format!(
                "The provided expression [{part}] matches an alias or a data stream, specify the corresponding concrete \
                 indices instead."
            )));
        }
    }
    let records = catalog.records().await?;
    for name in &found {
        records.check_deletion(name)?;
        let mut streams = records.data_streams().iter();
        if let Some((stream, _)) = streams.find(|(_, stream)| stream.indices.last() == Some(name)) {
            return Err(ApiError::invalid(format!(
                "index [{name}] is the write index for data stream [{stream}] and cannot be deleted"
            )));
        }
    }
    Ok(found)
}

/// `HEAD /{index}`.
pub(crate) async fn exists(call: Call) -> Result<Answer> {
    let how = indices::how_of_any(&call.params, Wildcards::OPEN)?;
    let names = indices::names(&call.state, &call.client.scope, call.index(), how).await;
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
    let found = indices::described(&call, Wildcards::OPEN).await?;
    let records = call.state.node.records().await?;
    for index in found {
        let mut shown = Map::new();
        for feature in &features {
            let value = match *feature {
                "aliases" => alias::shown(&records, &call.client.scope, index.name()),
                "mappings" => index.mapping().to_elasticsearch_json(),
                "settings" => settings_of(&records, &index, flat, &["*"]),
                other => return Err(ApiError::invalid(format!("unknown feature [{other}]"))),
            };
            shown.insert((*feature).to_owned(), value);
        }
        let mut streams = records.data_streams().iter();
        if let Some((stream, _)) = streams.find(|(_, stream)| stream.indices.contains(index.name())) {
            shown.insert("data_stream".to_owned(), json!(stream));
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
    let indices = indices::described(&call, Wildcards::SHOWN).await?;
    let records = call.state.node.records().await?;
    let each = indices.iter().map(|index| {
        (index.name().to_string(), json!({ "settings": settings_of(&records, index, flat, &names) }))
    });
    Answer::json(&each.collect::<Map<String, Value>>())
}

/// `PUT /{index}/_settings`.
pub(crate) async fn put_settings(call: Call) -> Result<Answer> {
    let body = Value::Object(call.object()?);
    let settings = body.get("settings").filter(|settings| settings.is_object()).unwrap_or(&body);
    let change = IndexSettings::read(Some(settings))?;
    if settings::time_field(Some(settings))?.is_some() {
        return Err(ApiError::invalid(
            "Can't update non dynamic settings [[index.time_field]]: make another index with it, and _reindex into that",
        ));
    }
    let preserve = call.params.flag("preserve_existing")?.unwrap_or(false);
    let how = indices::how_of_change(&call.params)?;
    let names = indices::names(&call.state, &call.client.scope, call.index(), how).await?;
    if !change.is_of_blocks() {
        blocks::check(&call.state, names.iter(), Access::WriteMetadata)?;
    }
    let mut fixed = change.of_new_indices();
    let analysis = settings::analysis(Some(settings))?;
    fixed.extend(settings::names_of_analysis(settings));
    let records = call.state.node.records().await?;
    let open = names.iter().filter(|name| !fixed.is_empty() && !records.is_closed(name));
    let open: Vec<String> = open.map(|name| format!("[{name}]")).collect();
    if !open.is_empty() {
        return Err(ApiError::invalid(format!(
            "Can't update non dynamic settings [{}] for open indices [{}]",
            fixed.join(", "),
            open.join(", ")
        )));
    }
    let resets = settings::resets_of_analysis(settings);
    if !analysis.is_empty() || !resets.is_empty() {
        let closed = names.iter().filter(|name| records.is_closed(name));
        define(&call.state, closed, analysis, &resets).await?;
    }
    let plan = |records: &Records| {
        let there = names.iter().filter(|name| records.has_index(name));
        Ok(there.filter_map(|name| change.change(records, name, preserve)).collect())
    };
    call.state.node.catalog().change_records("settings", plan).await?;
    Ok(Answer::json(&json!({ "acknowledged": true }))?.with_warnings(settings::warning(Some(settings))))
}

/// Adds to the definitions in the settings of closed indices. Existing ones cannot be reset.
async fn define(
    state: &State,
    names: impl Iterator<Item = &IndexName>,
    analysis: Definitions,
    resets: &[String],
) -> Result<()> {
    let adds = !analysis.is_empty();
    let amend = move |known: &Mapping| {
        let all = known.definitions().adding(&analysis)?;
        Ok(known.clone().with_definitions(all))
    };
    let mut indices = Vec::new();
    for name in names {
        let index = state.node.index(name).await?;
        // Nothing is changed where one of the indices refuses it.
        resets.iter().try_for_each(|name| index.mapping().definitions().check_reset(name))?;
        amend(index.mapping())?;
        indices.push(index);
    }
    if !adds {
        return Ok(());
    }
    let amend = Amend::new(amend);
    for index in indices {
        let operation = "settings".to_owned();
        let amend = Some(amend.clone());
        let change = Change { amend, operation, rearranges: true, ..Change::default() };
        state.live.note(index.commit(change).await?);
    }
    Ok(())
}

/// The id of an index, as Elasticsearch shows ids: 22 characters of Base64 instead of 32 digits.
pub(crate) fn index_uuid(table_id: &str) -> String {
    let digits: String = table_id.chars().filter(|c| *c != '-').collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(number) if digits.len() == 32 => BASE64_URL_SAFE_NO_PAD.encode(number.to_be_bytes()),
        _ => table_id.to_owned(),
    }
}

/// The settings of an index whose names match, as text, which is how Elasticsearch shows them.
pub(crate) fn settings_of(records: &Records, index: &Index, flat: bool, names: &[&str]) -> Value {
    let uuid = index_uuid(index.table_id());
    let shards = [("index.number_of_replicas", "0"), ("index.number_of_shards", "1")];
    let time = index.mapping().time_field();
    let time = (time != "@timestamp").then_some(("index.time_field", time));
    let created = records.created_ms(index.name()).map(|ms| ms.to_string());
    let created = created.as_deref().map(|ms| ("index.creation_date", ms));
    let own = [("index.provided_name", index.name().as_str()), ("index.uuid", &uuid)];
    let own = own.into_iter().chain(time).chain(created);
    let said = IndexSettings::of(records, index.name());
    let text = |(name, value): (&str, &str)| (name.to_owned(), json!(value));
    let analysis = settings::by_name(&index.mapping().definitions().to_settings());
    let analysis =
        analysis.into_iter().filter_map(|(name, value)| Some((name, settings::shown_value(&value)?)));
    let all = shards.into_iter().map(text).chain(said.shown()).chain(own.map(text)).chain(analysis);
    let matches = |name: &str| names.iter().any(|pattern| wildcard_matches(pattern, name));
    settings::nested(all.filter(|(name, _)| matches(name)).collect(), flat)
}

/// `POST /{index}/_forcemerge`: merges small splits.
pub(crate) async fn force_merge(call: Call) -> Result<Answer> {
    let names =
        indices::names(&call.state, &call.client.scope, call.index(), indices::how(&call.params)?).await?;
    blocks::check(&call.state, names.iter(), Access::WriteMetadata)?;
    let segments = call.params.get("max_num_segments");
    let warning = segments
        .map(|_| "[max_num_segments] has no effect: splits are merged up to their best size".to_owned());
    let flag = |name: &str, default: bool| Ok::<_, ApiError>(call.params.flag(name)?.unwrap_or(default));
    let about = format!(
        "Force-merge indices [{}], maxSegments[{}], onlyExpungeDeletes[{}], flush[{}], primaryOnly[{}]",
        names.iter().map(IndexName::as_str).collect::<Vec<_>>().join(", "),
        segments.unwrap_or("-1"),
        flag("only_expunge_deletes", false)?,
        flag("flush", true)?,
        flag("primary_only", false)?,
    );
    let merged = merged(Arc::clone(&call.state), names);
    let answer = match flag("wait_for_completion", true)? {
        true => Answer::json(&merged.await?)?,
        false => tasks::begin(&call, "indices.forcemerge", about, merged)?,
    };
    Ok(answer.with_warnings(warning))
}

/// Merges the small splits of some indices.
async fn merged(state: Arc<State>, names: Vec<IndexName>) -> Result<Value> {
    let node = &state.node;
    let policy = MergePolicy { memory_bytes_max: node.settings().memory_bytes_max, ..MergePolicy::default() };
    for name in &names {
        let merge = Merge::new(node.repository(), node.catalog(), Arc::clone(&state.random));
        merge.counting(&state.merges).run(name, &policy).await?;
    }
    let count = names.len();
    Ok(json!({ "_shards": { "total": count, "successful": count, "failed": 0 } }))
}

/// `POST /{index}/_refresh`: what was acknowledged can be searched already.
pub(crate) async fn refresh(call: Call) -> Result<Answer> {
    done_already(&call, &[(Count::Refreshes, 1)]).await
}

/// `POST /{index}/_flush`: what was acknowledged is stored already.
pub(crate) async fn flush(call: Call) -> Result<Answer> {
    let flag = |name: &str, default: bool| Ok::<_, ApiError>(call.params.flag(name)?.unwrap_or(default));
    if flag("force", false)? && !flag("wait_if_ongoing", true)? {
        return Err(ApiError::invalid(
            "Validation Failed: 1: wait_if_ongoing must be true for a force flush;",
        )
        .named("action_request_validation_exception"));
    }
    done_already(&call, &[(Count::Flushes, 1)]).await
}

/// `POST /{index}/_cache/clear`: no cache answers with what has changed.
pub(crate) async fn clear_cache(call: Call) -> Result<Answer> {
    done_already(&call, &[]).await
}

/// Answers for some indices what there is nothing to do for, and counts that it was asked for.
async fn done_already(call: &Call, asked: &[(Count, u64)]) -> Result<Answer> {
    let indices = indices::named(call).await?;
    indices.iter().for_each(|index| call.state.count(index.name(), asked));
    let count = indices.len();
    Answer::json(&json!({ "_shards": { "total": count, "successful": count, "failed": 0 } }))
}
