//! `_resolve/index` and `_resolve/cluster`.

use frostline_base::{IndexName, wildcard_matches};
use frostline_catalog::Wildcards;
use http::StatusCode;
use serde_json::json;

use crate::answer::Answer;
use crate::api::{alias, indices, info};
use crate::error::Result;
use crate::state::Call;

/// `GET /_resolve/cluster/{name}`: there is no cluster but this one.
pub(crate) async fn cluster(call: Call) -> Result<Answer> {
    let mut found = json!({ "connected": true, "skip_unavailable": false, "version": info::version() });
    if let Some(expression) = call.part("name") {
        let how = indices::how_of_any(&call.params, Wildcards::ALL)?;
        match indices::names(&call.state, &call.client.scope, expression, how).await {
            Ok(names) => found["matching_indices"] = json!(!names.is_empty()),
            Err(error) if error.status == StatusCode::NOT_FOUND => found["error"] = json!(error.reason),
            Err(error) => return Err(error),
        }
    }
    Answer::json(&json!({ "(local)": found }))
}

/// `GET /_resolve/index/{name}`.
pub(crate) async fn index(call: Call) -> Result<Answer> {
    let expression = call.part("name").unwrap_or("_all");
    let how = indices::how_of_any(&call.params, Wildcards::OPEN)?;
    let scope = &call.client.scope;
    let names = indices::names(&call.state, scope, expression, how).await?;
    let records = call.state.node.records().await?;
    let is_named = |name: &IndexName| {
        let parts = expression.split(',').map(|part| if part == "_all" { "*" } else { part });
        let mut parts = parts.filter(|part| !part.starts_with('-'));
        parts.any(|pattern| wildcard_matches(pattern, name.as_str()))
    };
    let is_known = |name: &IndexName| is_named(name) && scope.allows(name);
    // An index that is only behind another name is not named itself.
    let own = names.iter().filter(|name| is_named(name) || expression.contains('<'));
    let indices = own.map(|name| {
        let mut attributes = vec![if records.is_closed(name) { "closed" } else { "open" }];
        attributes.extend(records.is_hidden(name).then_some("hidden"));
        let mut shown = json!({ "name": name, "attributes": attributes });
        let aliases: Vec<_> = alias::of_index(&records, scope, name).map(|(alias, _)| alias).collect();
        if !aliases.is_empty() {
            shown["aliases"] = json!(aliases);
        }
        let stream = records.data_streams().iter().find(|(_, stream)| stream.indices.contains(name));
        if let Some((stream, _)) = stream.filter(|(stream, _)| scope.allows(stream)) {
            shown["data_stream"] = json!(stream);
        }
        shown
    });
    let is_spelled = |name: &IndexName| expression.split(',').any(|part| part == name.as_str());
    let is_shown = |name: &IndexName, hidden: bool| !hidden || how.wildcards.hidden || is_spelled(name);
    let aliases =
        records.aliases().iter().filter(|(name, alias)| is_known(name) && is_shown(name, alias.hidden));
    let aliases = aliases.map(|(name, alias)| json!({ "name": name, "indices": alias.indices }));
    let streams = records.data_streams().iter();
    let streams = streams.filter(|(name, stream)| is_known(name) && is_shown(name, stream.hidden));
    let streams = streams.map(|(name, stream)| {
        json!({ "name": name, "backing_indices": stream.indices, "timestamp_field": "@timestamp" })
    });
    Answer::json(&json!({
        "indices": indices.collect::<Vec<_>>(),
        "aliases": aliases.collect::<Vec<_>>(),
        "data_streams": streams.collect::<Vec<_>>(),
    }))
}
