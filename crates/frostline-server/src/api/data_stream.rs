//! Data streams: names for indices that follow one another.

use std::collections::BTreeMap;
use std::time::Duration;

use frostline_base::{Error, ErrorKind, IndexName, wildcard_matches};
use frostline_catalog::{Access, Alias, DataStream, Index, RecordChange, Records, Settings, Wildcards};
use frostline_ingest::{own_retention, retaining};
use frostline_split::TIME_FIELD;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::by_query::TRIES_MAX;
use crate::api::cat::size;
use crate::api::index::index_uuid;
use crate::api::names::{exists, make_stream, next_backing, parse, resolved};
use crate::api::settings;
use crate::api::stream_settings::OwnSettings;
use crate::api::template::{Composed, compose};
use crate::api::{blocks, indices, lifecycle};
use crate::error::{ApiError, Result};
use crate::params::duration;
use crate::state::{Call, only, only_in};

/// `PUT /_data_stream/{name}`.
pub(crate) async fn create(call: Call) -> Result<Answer> {
    let name = parse(call.part("name").unwrap_or_default())?;
    let records = call.state.node.catalog().records().await?;
    let composed = compose(&records, name.as_str())?.filter(|composed| composed.data_stream);
    let composed = composed.ok_or_else(|| {
        ApiError::invalid(format!("no matching index template found for data stream [{name}]"))
    })?;
    make_stream(&call.state, &name, &composed).await?;
    Ok(Answer::json(&json!({ "acknowledged": true }))?.with_warnings(composed.warning()))
}

/// `POST /_data_stream/_migrate/{name}`: an alias becomes a data stream of its indices, all at once. Nothing is moved.
pub(crate) async fn migrate(call: Call) -> Result<Answer> {
    let (state, name) = (&call.state, parse(call.part("name").unwrap_or_default())?);
    let catalog = state.node.catalog();
    let records = catalog.records().await?;
    let (alias, _) = migratable(&records, &name)?;
    let composed = compose(&records, name.as_str())?.filter(|composed| composed.data_stream);
    let composed = composed.ok_or_else(|| {
        ApiError::invalid(format!("no matching index template found for data stream [{name}]"))
    })?;
    blocks::check(state, alias.indices.iter(), Access::WriteMetadata)?;
    for index in &alias.indices {
        let index = state.node.index(index).await?;
        let time_field = index.mapping().time_field();
        if time_field != TIME_FIELD {
            return Err(ApiError::invalid(format!(
                "data stream timestamp field [{TIME_FIELD}] does not exist in index [{}]: its documents have their time in \
                 [{time_field}]",
                index.name()
            )));
        }
    }
    let lifecycle = composed.lifecycle()?;
    let plan = |records: &Records| {
        let (known, write) = migratable(records, &name)?;
        if known != alias {
            return Err(Error::conflict(format!("the alias [{name}] was just changed")));
        }
        let mut stream = DataStream::new(write.clone(), composed.template.clone());
        stream.indices = alias.indices.iter().filter(|index| *index != write).cloned().collect();
        stream.indices.sort_by_key(|index| records.created_ms(index));
        stream.indices.push(write.clone());
        stream.lifecycle.clone_from(&lifecycle);
        stream.hidden = alias.hidden || composed.hidden;
        let changes =
            [RecordChange::Alias(name.clone(), None), RecordChange::DataStream(name.clone(), Some(stream))];
        Ok(changes.into_iter().chain(OwnSettings::forget(records, &name)).collect())
    };
    catalog.change_records("migrate to a data stream", plan).await?;
    Answer::json(&json!({ "acknowledged": true }))
}

/// An alias that can become a data stream, and the index that takes its documents.
fn migratable<'a>(
    records: &'a Records,
    name: &IndexName,
) -> frostline_base::Result<(&'a Alias, &'a IndexName)> {
    let invalid = |what: &str| Error::invalid(format!("alias [{name}] {what}"));
    let alias = records.aliases().get(name).map(|alias| &**alias);
    let alias = alias.ok_or_else(|| invalid("does not exist"))?;
    if alias.has_filter() || !alias.routing.is_empty() {
        return Err(invalid("may not have custom filtering or routing"));
    }
    let write = alias.write_index().ok_or_else(|| invalid("must specify a write index"))?;
    records.check_open(write)?;
    let of_streams = alias.indices.iter().find_map(|index| Some((index, records.stream_of(index)?.0)));
    match of_streams {
        Some((index, stream)) => {
            Err(invalid(&format!("has the index [{index}], which is of the data stream [{stream}]")))
        }
        None => Ok((alias, write)),
    }
}

/// `GET /_data_stream/{name}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let each = matching(&records, &call, Wildcards::ALL)?;
    let each = each.into_iter().map(|(name, stream)| {
        let managed_by = match &stream.lifecycle {
            Some(lifecycle) if lifecycle.enabled => "Data stream lifecycle",
            _ => "Unmanaged",
        };
        let indices = stream.indices.iter().map(|index| {
            json!({
                "index_name": index, "index_uuid": records.table_id(index).map(index_uuid),
                "managed_by": managed_by, "prefer_ilm": false,
            })
        });
        let mut shown = json!({
            "name": name,
            "timestamp_field": { "name": "@timestamp" },
            "indices": indices.collect::<Vec<_>>(),
            "generation": stream.generation,
            "status": "GREEN",
            "template": stream.template,
            "next_generation_managed_by": managed_by,
            "prefer_ilm": false,
            "hidden": stream.hidden,
            "system": false,
            "allow_custom_routing": false,
            "replicated": false,
            "rollover_on_write": false,
        });
        let own = OwnSettings::of(&records, name);
        shown["settings"] = settings::shown(Some(&own.settings), false);
        shown["mappings"] = own.mappings;
        if let Some(of_stream) = &stream.lifecycle {
            shown["lifecycle"] = lifecycle::shown(of_stream);
        }
        shown
    });
    Answer::json(&json!({ "data_streams": each.collect::<Vec<_>>() }))
}

/// `GET /_data_stream/{name}/_stats`: how much data streams hold, and the time of their last document.
pub(crate) async fn stats(call: Call) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let found = matching(&records, &call, Wildcards::ALL)?;
    let mut streams = Vec::with_capacity(found.len());
    let (mut backing, mut bytes) = (0, 0);
    for (name, stream) in found {
        let (mut of_stream, mut last_us) = (0, None);
        for index in stream.indices.iter().filter(|index| records.has_index(index)) {
            let index = call.state.node.index(index).await?;
            of_stream += size(&index).1;
            last_us = last_us.max(index.splits().iter().filter_map(|split| Some(split.times?.1)).max());
        }
        backing += stream.indices.len();
        bytes += of_stream;
        streams.push(json!({
            "data_stream": name, "backing_indices": stream.indices.len(), "store_size_bytes": of_stream,
            "maximum_timestamp": last_us.unwrap_or_default().div_euclid(1_000),
        }));
    }
    Answer::json(&json!({
        "_shards": { "total": backing, "successful": backing, "failed": 0 },
        "data_stream_count": streams.len(), "backing_indices": backing, "total_store_size_bytes": bytes,
        "data_streams": streams,
    }))
}

/// The data streams that the path of a request names and that may be known; an error of status 404 where there is none of a
/// name without a wildcard. `default` is what wildcards name where the URL does not say it.
pub(crate) fn matching<'a>(
    records: &'a Records,
    call: &Call,
    default: Wildcards,
) -> Result<Vec<(&'a IndexName, &'a DataStream)>> {
    let (scope, wanted) = (&call.client.scope, call.part("name").unwrap_or("*"));
    let wanted: Vec<&str> = wanted.split(',').map(|name| if name == "_all" { "*" } else { name }).collect();
    let wildcards = indices::wildcards(&call.params, default)?;
    let streams = records.data_streams();
    let is_there = |name: &str| name.parse().is_ok_and(|name: IndexName| streams.contains_key(&name));
    let spelled = wanted.iter().filter(|name| !name.contains('*'));
    spelled.filter_map(|name| name.parse().ok()).try_for_each(|name| scope.check(&name))?;
    match wanted.iter().find(|name| !name.contains('*') && !is_there(name)) {
        Some(name) => Err(ApiError::no_such_index(name)),
        None => {
            // A data stream is never closed itself.
            let by_wildcard = |stream: &DataStream| {
                (wildcards.open || wildcards.closed) && (wildcards.hidden || !stream.hidden)
            };
            let is_wanted = |name: &IndexName, stream: &DataStream| {
                wanted.iter().any(|wanted| match wanted.contains('*') {
                    true => by_wildcard(stream) && wildcard_matches(wanted, name.as_str()),
                    false => *wanted == name.as_str(),
                })
            };
            let found = streams.iter().map(|(name, stream)| (name, stream.as_ref()));
            Ok(found.filter(|(name, stream)| is_wanted(name, stream) && scope.allows(name)).collect())
        }
    }
}

/// `DELETE /_data_stream/{name}`, with its indices.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let records = call.state.node.catalog().records().await?;
    let found = matching(&records, &call, Wildcards::OPEN)?;
    for (_, stream) in &found {
        stream.indices.iter().try_for_each(|index| records.check_deletion(index))?;
    }
    let found: Vec<IndexName> = found.into_iter().map(|(name, _)| name.clone()).collect();
    for name in found {
        delete_whole(&call, &name).await?;
    }
    Answer::json(&json!({ "acknowledged": true }))
}

/// Deletes a stream and its indices at once: a stop leaves no index that belongs to no stream, and neither does a rollover
/// meanwhile.
async fn delete_whole(call: &Call, name: &IndexName) -> Result<()> {
    let catalog = call.state.node.catalog();
    let mut tries = 0;
    loop {
        tries += 1;
        let records = catalog.records().await?;
        let Some(stream) = records.data_streams().get(name) else { return Ok(()) };
        let is_there = |index: &&IndexName| records.has_index(index);
        let indices: Vec<IndexName> = stream.indices.iter().filter(is_there).cloned().collect();
        indices.iter().try_for_each(|index| records.check_deletion(index))?;
        let gone = |left: &Records| match left.data_streams().get(name) {
            None => Ok(Vec::new()),
            Some(stream) if stream.indices.iter().any(|index| left.has_index(index)) => {
                Err(Error::conflict(format!("the data stream {name} was just rolled over")))
            }
            Some(_) => {
                let stream = RecordChange::DataStream(name.clone(), None);
                Ok([stream].into_iter().chain(OwnSettings::forget(left, name)).collect())
            }
        };
        match catalog.delete_with(&indices, gone).await {
            Err(e) if matches!(e.kind(), ErrorKind::Conflict | ErrorKind::NotFound) && tries < TRIES_MAX => {}
            done => {
                done?;
                for index in &indices {
                    call.state.node.unmount(index).await?;
                }
                return Ok(());
            }
        }
    }
}

/// `POST /{index}/_rollover/{new_index}`: the name's documents go to a new index from now on, where the conditions are
/// met.
pub(crate) async fn rollover(call: Call) -> Result<Answer> {
    let (state, catalog) = (&call.state, call.state.node.catalog());
    let body = call.object()?;
    only(&body, &["aliases", "conditions", "mappings", "settings"])?;
    if body.get("aliases").and_then(Value::as_object).is_some_and(|aliases| !aliases.is_empty()) {
        return Err(ApiError::unsupported(
            "[aliases] of a new index are those of its template: leave them out",
        ));
    }
    let name = resolved(state, call.index())?;
    let records = catalog.records().await?;
    let (stream, alias) = (records.data_streams().get(&name), records.aliases().get(&name));
    let old = stream.and_then(|stream| stream.indices.last());
    let old = old.or_else(|| alias.and_then(|alias| alias.write_index())).cloned().ok_or_else(|| {
        ApiError::invalid(format!(
            "rollover target [{name}] is neither a data stream nor an alias that takes documents"
        ))
    })?;
    let (new, generation) = match (call.part("new_index"), stream) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid(
                "new index name may not be specified when rolling over a data stream",
            ));
        }
        (Some(new), None) => (resolved(state, new)?, 0),
        (None, Some(stream)) => next_backing(Some(&records), &name, stream.generation)?,
        (None, None) => (following(&old)?, 0),
    };
    if records.has_index(&new) {
        return Err(exists(&new));
    }
    blocks::check(state, std::iter::once(&old), Access::WriteMetadata)?;
    let index = state.node.index(&old).await?;
    let conditions = conditions(&call, &index, body.get("conditions")).await?;
    let is_met = conditions.is_empty() || conditions.values().any(|met| *met == json!(true));
    let dry_run = call.params.flag("dry_run")?.unwrap_or(false);
    if is_met && !dry_run {
        let template = if stream.is_some() { name.as_str() } else { new.as_str() };
        let composed = compose(&records, template)?.unwrap_or_default();
        let composed = match stream {
            Some(_) => OwnSettings::of(&records, &name).over(composed),
            None => composed,
        };
        let composed = composed.with(body.get("mappings"), None)?;
        // Of a stream, the lifecycle says it.
        let kept = if stream.is_some() { None } else { own_retention(index.settings())? };
        follow(&call, &name, [&old, &new], generation, &composed, retaining(kept)?).await?;
    }
    Answer::json(&json!({
        "acknowledged": is_met && !dry_run,
        "shards_acknowledged": is_met && !dry_run,
        "old_index": old,
        "new_index": new,
        "rolled_over": is_met && !dry_run,
        "dry_run": dry_run,
        "lazy": false,
        "conditions": conditions,
    }))
}

/// Makes the new index, which has that number in a data stream, and sends documents to it from now on, unless somebody else
/// was first.
async fn follow(
    call: &Call,
    name: &IndexName,
    [old, new]: [&IndexName; 2],
    generation: u64,
    composed: &Composed,
    of_table: Settings,
) -> Result<()> {
    let settings = composed.index_settings()?;
    let also = |records: &Records| {
        let late = || frostline_base::Error::conflict(format!("{name} was rolled over by another request"));
        if let Some(stream) = records.data_streams().get(name) {
            let mut stream = DataStream::clone(stream);
            if stream.indices.last() != Some(old) {
                return Err(late());
            }
            stream.indices.push(new.clone());
            stream.generation = generation;
            let stream = RecordChange::DataStream(name.clone(), Some(stream));
            return Ok([stream].into_iter().chain(settings.change(records, new, false)).collect());
        }
        let alias = records.aliases().get(name).filter(|alias| alias.write_index() == Some(old));
        let mut alias = alias.map(|alias| Alias::clone(alias)).ok_or_else(late)?;
        if alias.has_filter() {
            return Err(frostline_base::Error::invalid(format!(
                "the alias [{name}] has a filter: it is not rolled over"
            )));
        }
        match alias.write {
            Some(_) => {
                alias.indices.insert(new.clone());
                alias.write = Some(new.clone());
            }
            // The alias always names the one index that takes documents.
            None => alias.indices = [new.clone()].into(),
        }
        let alias = RecordChange::Alias(name.clone(), Some(alias));
        Ok([alias].into_iter().chain(settings.change(records, new, false)).collect())
    };
    let made = call.state.node.catalog().create_with(new, composed.mapping()?, of_table, also).await;
    made.map(drop).map_err(|e| match e.kind() {
        ErrorKind::Conflict => exists(new),
        _ => e.into(),
    })
}

/// The data stream that an index is of.
pub(crate) fn stream_of<'a>(records: &'a Records, index: &IndexName) -> Option<&'a IndexName> {
    let mut streams = records.data_streams().iter();
    streams.find(|(_, stream)| stream.indices.contains(index)).map(|(name, _)| name)
}

/// One change of the indices of a data stream.
struct Modification {
    adds: bool,
    stream: IndexName,
    index: IndexName,
}

impl Modification {
    fn read(action: &Value) -> Result<Modification> {
        let wrong = || {
            ApiError::unparsed(
                "an action is [add_backing_index] or [remove_backing_index], with [data_stream] and [index]",
            )
        };
        let action = action.as_object().filter(|action| action.len() == 1).ok_or_else(wrong)?;
        let (name, about) = action.iter().next().ok_or_else(wrong)?;
        let about = about.as_object().ok_or_else(wrong)?;
        only_in(name, about, &["data_stream", "index"])?;
        let text = |member: &str| about.get(member).and_then(Value::as_str).ok_or_else(wrong);
        let adds = match name.as_str() {
            "add_backing_index" => true,
            "remove_backing_index" => false,
            _ => return Err(wrong()),
        };
        Ok(Modification { adds, stream: parse(text("data_stream")?)?, index: parse(text("index")?)? })
    }

    fn apply(
        &self,
        records: &Records,
        streams: &mut BTreeMap<IndexName, DataStream>,
    ) -> frostline_base::Result<()> {
        let Modification { adds, stream: name, index } = self;
        let invalid = |reason: String| Err(frostline_base::Error::invalid(reason));
        let is_elsewhere =
            streams.iter().any(|(other, stream)| other != name && stream.indices.contains(index));
        let Some(stream) = streams.get_mut(name) else {
            return invalid(format!("data stream [{name}] not found"));
        };
        let is_last = stream.indices.last() == Some(index);
        let is_there = stream.indices.contains(index);
        if !records.has_index(index) {
            return invalid(format!("index [{index}] not found"));
        }
        match adds {
            true if is_elsewhere => invalid(format!("index [{index}] is of another data stream")),
            true if is_there => Ok(()),
            true => {
                // The oldest come first, and the last stays the one that takes documents.
                let made = records.created_ms(index);
                let older = stream.indices[..stream.indices.len().saturating_sub(1)].iter();
                let place = older.take_while(|other| records.created_ms(other) <= made).count();
                stream.indices.insert(place, index.clone());
                Ok(())
            }
            false if !is_there => invalid(format!("index [{index}] is not of the data stream [{name}]")),
            false if is_last => invalid(format!(
                "cannot remove backing index [{index}] of data stream [{name}] because it is the write index"
            )),
            false => {
                stream.indices.retain(|other| other != index);
                Ok(())
            }
        }
    }
}

/// `POST /_data_stream/_modify`: indices come to data streams and go from them, all or none. None is deleted.
pub(crate) async fn modify(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["actions"])?;
    let actions = body.get("actions").and_then(Value::as_array).filter(|actions| !actions.is_empty());
    let actions = actions.ok_or_else(|| ApiError::unparsed("[actions] is a list of at least one"))?;
    let actions = actions.iter().map(Modification::read).collect::<Result<Vec<_>>>()?;
    let plan = |records: &Records| {
        let old = records.data_streams();
        let mut new: BTreeMap<IndexName, DataStream> =
            old.iter().map(|(name, stream)| (name.clone(), DataStream::clone(stream))).collect();
        actions.iter().try_for_each(|action| action.apply(records, &mut new))?;
        let changed =
            new.into_iter().filter(|(name, stream)| old.get(name).map(|old| &**old) != Some(stream));
        Ok(changed.map(|(name, stream)| RecordChange::DataStream(name, Some(stream))).collect())
    };
    call.state.node.catalog().change_records("modify data streams", plan).await?;
    Answer::json(&json!({ "acknowledged": true }))
}

/// The name after one that ends with a number: `logs-000002` after `logs-000001`.
fn following(name: &IndexName) -> Result<IndexName> {
    let number = name.as_str().rsplit_once('-').and_then(|(start, number)| {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        Some((start, number.parse::<u64>().ok().filter(|_| is_number)?))
    });
    let (start, number) = number.ok_or_else(|| {
        ApiError::invalid(format!(
            "index name [{name}] does not match pattern '^.*-\\d+$': name the new index"
        ))
    })?;
    parse(&format!("{start}-{:06}", number.saturating_add(1)))
}

/// The conditions, each with whether it is met.
async fn conditions(call: &Call, index: &Index, wanted: Option<&Value>) -> Result<Map<String, Value>> {
    let Some(wanted) = wanted else { return Ok(Map::new()) };
    let wanted = wanted.as_object().ok_or_else(|| ApiError::unparsed("[conditions] is an object"))?;
    let (documents, bytes) = size(index);
    let mut met = BTreeMap::new();
    for (name, value) in wanted {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let wrong = || ApiError::unparsed(format!("[{name}] cannot be [{text}]"));
        let is_met = match name.as_str() {
            "max_docs" | "max_primary_shard_docs" => documents >= text.parse::<u64>().map_err(|_| wrong())?,
            "max_size" | "max_primary_shard_size" => {
                bytes >= // A unit is 1,024 of the one before.
                frostline_show::parse_bytes(text.trim_end_matches(['b', 'B'])).map_err(|_| wrong())?
            }
            "max_age" => age(call, index).await? >= duration(&text, name)?,
            other => {
                return Err(ApiError::new(
                    StatusCode::NOT_IMPLEMENTED,
                    "unsupported_operation_exception",
                    format!("the condition [{other}] is not supported: use max_age, max_docs and max_size"),
                ));
            }
        };
        met.insert(format!("[{name}: {text}]"), json!(is_met));
    }
    Ok(met.into_iter().collect())
}

/// How long ago the index was made.
async fn age(call: &Call, index: &Index) -> Result<Duration> {
    let made_ms = call.state.node.catalog().records().await?.created_ms(index.name()).unwrap_or_default();
    let now_ms = call.state.node.clock().now_us() / 1_000;
    Ok(Duration::from_millis(u64::try_from(now_ms - made_ms).unwrap_or_default()))
}
