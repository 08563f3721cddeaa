//! Where documents go that are sent to a name: to the index of that name, or to one that an alias, a data stream or a
//! template says.

use std::sync::Arc;

use frostline_base::{Error, ErrorKind, IndexName};
use frostline_catalog::{Access, DataStream, RecordChange, Records, Settings};
use frostline_ingest::Birth;
use frostline_split::Mapping;
use http::StatusCode;
use serde_json::Value;

use crate::api::alias::{self, Abouts, Draft};
use crate::api::settings::IndexSettings;
use crate::api::stream_settings::OwnSettings;
use crate::api::template::{Composed, compose};
use crate::api::{blocks, indices};
use crate::error::{ApiError, Result};
use crate::scope::Scope;
use crate::state::State;

/// An index that takes documents, and the mapping that it is made with where it is missing.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) index: IndexName,
    pub(crate) create: Mapping,
}

/// What a name has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Required {
    pub(crate) alias: bool,
    pub(crate) data_stream: bool,
}

/// Reads the name of an index.
pub(crate) fn parse(name: &str) -> Result<IndexName> {
    name.parse().map_err(|e| ApiError::from(e).named("invalid_index_name_exception").about("index", name))
}

/// Reads the name of an index, which may be date math: `<logs-{now/d}>`.
pub(crate) fn resolved(state: &State, name: &str) -> Result<IndexName> {
    let resolved = frostline_catalog::name_of(name, state.node.clock().now_us());
    resolved.map_err(|e| ApiError::from(e).named("invalid_index_name_exception").about("index", name))
}

/// The index that takes documents which are sent to `name`. An index costs no request once the server has seen it: what
/// another server has closed or blocked just now is refused when the documents are about to be committed.
pub(crate) async fn target(
    state: &State,
    scope: &Scope,
    name: &IndexName,
    required: Required,
) -> Result<Target> {
    let target = target_of(state, scope, name, required).await?;
    blocks::check(state, std::iter::once(&target.index), Access::Write)?;
    Ok(target)
}

async fn target_of(state: &State, scope: &Scope, name: &IndexName, required: Required) -> Result<Target> {
    let catalog = state.node.catalog();
    let records = match catalog.seen_records().filter(|seen| seen.has_index(name)) {
        Some(records) => records,
        None => catalog.records().await?,
    };
    if !indices::allows(state, scope, name) {
        return Err(scope.forbidden(name.as_str()));
    }
    let is_alias = records.aliases().contains_key(name);
    let needs = |flag: &str, what: &str| {
        let reason =
            format!("no such index [{name}] and [{flag}] request flag is [true] and [{name}] is not {what}");
        Err(ApiError { reason, ..ApiError::no_such_index(name.as_str()) })
    };
    if required.alias && !is_alias {
        return needs("require_alias", "an alias");
    }
    if let Some(stream) = records.data_streams().get(name) {
        return Ok(Target { index: write_index(name, stream)?, create: Mapping::dynamic() });
    }
    let composed = compose(&records, name.as_str())?;
    if required.data_stream && !composed.as_ref().is_some_and(|composed| composed.data_stream) {
        return needs("require_data_stream", "a data stream");
    }
    if let Some(alias) = records.aliases().get(name) {
        let index = alias.write_index().cloned().ok_or_else(|| no_write_index(name))?;
        return Ok(Target { index, create: Mapping::dynamic() });
    }
    match composed {
        Some(composed) if !records.has_index(name) => made(state, name, composed).await,
        Some(composed) => Ok(Target { index: name.clone(), create: composed.mapping()? }),
        None => Ok(Target { index: name.clone(), create: Mapping::dynamic() }),
    }
}

/// Makes what a template says of a name that is nothing yet.
async fn made(state: &State, name: &IndexName, composed: Composed) -> Result<Target> {
    check_auto_create(name, &composed)?;
    let create = composed.mapping()?;
    let settings = composed.index_settings()?;
    let says_more = !composed.aliases.is_empty() || !settings.is_empty();
    let index = match (composed.data_stream, says_more) {
        (true, _) => match make_stream(state, name, &composed).await {
            Err(error) if error.status == StatusCode::BAD_REQUEST => {
                // Another request has just made it.
                let records = state.node.catalog().records().await?;
                let stream = records.data_streams().get(name).ok_or(error)?;
                write_index(name, stream)?
            }
            made => made?,
        },
        (false, false) => name.clone(),
        (false, true) => {
            let made = make_index(state, name, birth(name, create.clone(), composed.aliases, settings)).await;
            if let Err(error) = made {
                // Another request may have just made it.
                let is_there = error.kind == EXISTS && state.node.catalog().records().await?.has_index(name);
                is_there.then_some(()).ok_or(error)?;
            }
            name.clone()
        }
    };
    Ok(Target { index, create })
}

const EXISTS: &str = "resource_already_exists_exception";

/// Makes an index with its settings and its aliases, or nothing of all that.
pub(crate) async fn make_index(
    state: &State,
    name: &IndexName,
    Birth { mapping, also }: Birth,
) -> Result<()> {
    let made = state.node.catalog().create_with(name, mapping, Settings::default(), &*also).await;
    made.map(drop).map_err(|e| not_made(name, e))
}

/// Why there is no index of that name after all.
pub(crate) fn not_made(name: &IndexName, error: Error) -> ApiError {
    match (alias::refused(&error), error.kind()) {
        (Some(refused), _) => refused,
        (None, ErrorKind::Conflict) => exists(name),
        _ => error.into(),
    }
}

/// An index with its settings and its aliases, as it is to be made.
pub(crate) fn birth(name: &IndexName, mapping: Mapping, aliases: Abouts, settings: IndexSettings) -> Birth {
    Birth { mapping, also: Arc::new(named(name, aliases, settings)) }
}

/// What the records say of an index that is made with these aliases and settings.
pub(crate) fn named(
    name: &IndexName,
    aliases: Abouts,
    settings: IndexSettings,
) -> impl Fn(&Records) -> frostline_base::Result<Vec<RecordChange>> + Send + Sync + use<> {
    let name = name.clone();
    move |records: &Records| {
        let joined = aliases.iter().map(|(alias, about)| {
            let mut draft = Draft::of(records.aliases().get(alias).map(|old| &**old));
            draft.add(alias, about, std::slice::from_ref(&name))?;
            Ok(RecordChange::Alias(alias.clone(), draft.done(alias)?))
        });
        joined.chain(settings.change(records, &name, false).map(Ok)).collect()
    }
}

/// What the first document of a name would make there by the templates, for who writes without a server. The `mappings` and
/// `settings` of `body` are laid over theirs. `Invalid` where that is no index.
pub fn birth_of(records: &Records, name: &IndexName, body: Option<&Value>) -> frostline_base::Result<Birth> {
    let of_templates = || {
        let composed = compose(records, name.as_str())?.unwrap_or_else(Composed::nothing);
        check_auto_create(name, &composed)?;
        if composed.data_stream {
            return Err(ApiError::invalid(format!(
                "the template [{}] makes data streams of such names: send the documents to a server, as `frostline ship` \
                 does, or name another index",
                composed.template
            )));
        }
        let member = |name: &str| body.and_then(|body| body.get(name));
        let composed = composed.with(member("mappings"), member("settings"))?;
        let (mapping, settings) = (composed.mapping()?, composed.index_settings()?);
        Ok(birth(name, mapping, composed.aliases, settings))
    };
    of_templates().map_err(|e: ApiError| Error::invalid(e.reason))
}

fn check_auto_create(name: &IndexName, composed: &Composed) -> Result<()> {
    if composed.auto_create {
        return Ok(());
    }
    let reason =
        format!("no such index [{name}] and its template does not allow it to be made by a document");
    Err(ApiError { reason, ..ApiError::no_such_index(name.as_str()) })
}

pub(crate) fn exists(name: &IndexName) -> ApiError {
    let reason = format!("index [{name}] already exists, or is the name of an alias or a data stream");
    ApiError::new(StatusCode::BAD_REQUEST, EXISTS, reason).about("index", name.as_str())
}

/// Makes a data stream with its first index.
pub(crate) async fn make_stream(state: &State, name: &IndexName, composed: &Composed) -> Result<IndexName> {
    let (first, generation) = next_backing(state.node.catalog().seen_records().as_ref(), name, 0)?;
    let mut stream = DataStream::new(first.clone(), composed.template.clone());
    stream.hidden = composed.hidden;
    stream.generation = generation;
    stream.lifecycle = composed.lifecycle()?;
    let settings = composed.index_settings()?;
    let also = |records: &Records| {
        if records.data_streams().contains_key(name) {
            return Err(Error::conflict(format!("there is already a data stream {name}")));
        }
        let stream = RecordChange::DataStream(name.clone(), Some(stream.clone()));
        let settings = settings.change(records, &first, false);
        // What one of that name said of its own is not of this one.
        Ok([stream].into_iter().chain(settings).chain(OwnSettings::forget(records, name)).collect())
    };
    let mapping = composed.mapping()?;
    let made = state.node.catalog().create_with(&first, mapping, Settings::default(), also).await;
    made.map_err(|e| match e.kind() {
        ErrorKind::Conflict => {
            let reason =
                format!("data_stream [{name}] already exists, or is the name of an index or an alias");
            ApiError::new(StatusCode::BAD_REQUEST, EXISTS, reason)
        }
        _ => e.into(),
    })?;
    Ok(first)
}

/// What the names of the indices of a data stream begin with.
pub(crate) const BACKING: &str = "ds-";

/// The next index of a data stream after that number, and its number. A name may be taken by an index that was restored
/// without the stream.
pub(crate) fn next_backing(
    records: Option<&Records>,
    stream: &IndexName,
    generation: u64,
) -> Result<(IndexName, u64)> {
    let mut generation = generation;
    loop {
        generation = generation.saturating_add(1);
        let index = parse(&format!("{BACKING}{stream}-{generation:06}"))?;
        if records.is_none_or(|records| !records.has_index(&index)) {
            return Ok((index, generation));
        }
    }
}

fn write_index(name: &IndexName, stream: &DataStream) -> Result<IndexName> {
    stream.indices.last().cloned().ok_or_else(|| no_write_index(name))
}

fn no_write_index(name: &IndexName) -> ApiError {
    ApiError::invalid(format!(
        "no write index is defined for alias [{name}]. The write index may be explicitly disabled using \
         is_write_index=false or the alias points to multiple indices without one being designated as a write index"
    ))
}
