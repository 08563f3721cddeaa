//! What data streams say themselves of their indices: `_data_stream/{name}/_settings`, `_mappings` and `_options`.
//!
//! It goes over what their templates say, for the indices that come. Settings that can be changed later are changed for the
//! indices that are there, too.

use std::collections::BTreeSet;

use frostline_base::IndexName;
use frostline_catalog::{RecordChange, Records, Wildcards};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::data_stream::matching;
use crate::api::settings::{self, IndexSettings};
use crate::api::template::{Composed, compose, overlay};
use crate::error::{ApiError, Result};
use crate::state::{Call, only, only_in};

/// The kind of records.
const KIND: &str = "data_stream_settings";

/// What one data stream says. Settings are by their full names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnSettings {
    pub(crate) settings: Value,
    pub(crate) mappings: Value,
}

/// Which part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Settings,
    Mappings,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Settings => "settings",
            Part::Mappings => "mappings",
        }
    }
}

impl OwnSettings {
    pub(crate) fn of(records: &Records, stream: &IndexName) -> OwnSettings {
        let kept = records.other(KIND, stream.as_str());
        let part =
            |part: Part| kept.and_then(|kept| kept.get(part.name()).cloned()).unwrap_or_else(|| json!({}));
        OwnSettings { settings: part(Part::Settings), mappings: part(Part::Mappings) }
    }

    /// What its templates say, with this over it.
    pub(crate) fn over(&self, composed: Composed) -> Composed {
        composed.with_own(&self.mappings, &self.settings)
    }

    /// What removes it with its stream.
    pub(crate) fn forget(records: &Records, stream: &IndexName) -> Option<RecordChange> {
        let name = stream.to_string();
        records.other(KIND, stream.as_str()).map(|_| RecordChange::Other { kind: KIND, name, value: None })
    }

    /// The full names of its settings.
    fn names(&self) -> impl Iterator<Item = &String> {
        self.settings.as_object().into_iter().flat_map(Map::keys)
    }

    fn keep(&self, stream: &IndexName) -> RecordChange {
        let value = json!({ "settings": self.settings, "mappings": self.mappings });
        RecordChange::Other { kind: KIND, name: stream.to_string(), value: Some(value) }
    }

    /// The same with what a request says of a part.
    fn with(mut self, part: Part, said: &Value) -> OwnSettings {
        match part {
            Part::Mappings => overlay(&mut self.mappings, said),
            Part::Settings => {
                let mut all = settings::by_name(&settings::laid(&self.settings, said));
                all.retain(|_, value| !value.is_null());
                self.settings = Value::Object(all.into_iter().collect());
            }
        }
        self
    }

    /// A part of it, as it is shown, and what the next index of the stream is made with.
    fn shown(&self, records: &Records, stream: &IndexName, part: Part) -> Result<(Value, Value)> {
        let composed = self.over(compose(records, stream.as_str())?.unwrap_or_default());
        Ok(match part {
            Part::Settings => {
                let settings = settings::shown(Some(&composed.settings), false);
                (settings::shown(Some(&self.settings), false), settings)
            }
            Part::Mappings => (self.mappings.clone(), composed.mapping()?.to_elasticsearch_json()),
        })
    }
}

/// `GET /_data_stream/{name}/_settings`, `GET /_data_stream/{name}/_mappings`.
pub(crate) async fn get(call: Call, part: Part) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let found = matching(&records, &call, Wildcards::ALL)?;
    let each = found.into_iter().map(|(name, _)| {
        let (own, effective) = OwnSettings::of(&records, name).shown(&records, name, part)?;
        let mut shown = json!({ "name": name });
        shown[part.name()] = own;
        shown[format!("effective_{}", part.name())] = effective;
        Ok(shown)
    });
    Answer::json(&json!({ "data_streams": each.collect::<Result<Vec<Value>>>()? }))
}

/// `PUT /_data_stream/{name}/_settings`, `PUT /_data_stream/{name}/_mappings`.
pub(crate) async fn put(call: Call, part: Part) -> Result<Answer> {
    let said = Value::Object(call.object()?);
    let catalog = call.state.node.catalog();
    let records = catalog.records().await?;
    let found = matching(&records, &call, Wildcards::OPEN)?;
    let names: Vec<IndexName> = found.iter().map(|(name, _)| (*name).clone()).collect();
    let of_indices = match part {
        Part::Settings => IndexSettings::read(Some(&said))?,
        Part::Mappings => IndexSettings::default(),
    };
    if part == Part::Settings && settings::time_field(Some(&said))?.is_some() {
        return Err(ApiError::invalid(
            "the time of a data stream is in [@timestamp]: leave [index.time_field] out",
        ));
    }
    let (later, at_once) = of_indices.split();
    let of_analysis = settings::names_of_analysis(&said).into_iter().filter(|name| !name.contains('*'));
    let of_analysis = of_analysis.map(|name| name.trim_matches(['[', ']']).to_owned());
    let later: BTreeSet<String> = later.names().into_iter().chain(of_analysis).collect();
    let mut shown = Vec::new();
    for (name, stream) in &found {
        let old = OwnSettings::of(&records, name);
        let own = old.clone().with(part, &said);
        // It has to go with the templates.
        let composed = own.over(compose(&records, name.as_str())?.unwrap_or_default());
        composed.mapping()?;
        composed.index_settings()?;
        let (shown_own, effective) = own.shown(&records, name, part)?;
        let mut of_stream = json!({ "name": name, "applied_to_data_stream": true });
        of_stream[part.name()] = shown_own;
        of_stream[format!("effective_{}", part.name())] = effective;
        if part == Part::Settings {
            let (mut later, mut changed) = (later.clone(), BTreeSet::from_iter(at_once.names()));
            changed.extend(stream.indices.iter().flat_map(|index| at_once.names_of_change(&records, index)));
            for name in old.names().filter(|name| own.settings.get(name).is_none()) {
                let of = if settings::is_of_new_indices(name) { &mut later } else { &mut changed };
                of.insert(name.clone());
            }
            of_stream["index_settings_results"] = json!({
                "applied_to_data_stream_only": later,
                "applied_to_data_stream_and_backing_indices": changed,
            });
        }
        shown.push(of_stream);
    }
    if !call.params.flag("dry_run")?.unwrap_or(false) {
        let plan = |records: &Records| {
            let mut changes = Vec::new();
            for name in &names {
                let Some(stream) = records.data_streams().get(name) else { continue };
                changes.push(OwnSettings::of(records, name).with(part, &said).keep(name));
                changes
                    .extend(stream.indices.iter().filter_map(|index| at_once.change(records, index, false)));
            }
            Ok(changes)
        };
        catalog.change_records(&format!("data stream {}", part.name()), plan).await?;
    }
    let warning = settings::warning(Some(&said)).filter(|_| part == Part::Settings);
    Ok(Answer::json(&json!({ "data_streams": shown }))?.with_warnings(warning))
}

/// `GET /_data_stream/{name}/_options`: there are none.
pub(crate) async fn options(call: Call) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let found = matching(&records, &call, Wildcards::ALL)?;
    let each = found.into_iter().map(|(name, _)| json!({ "name": name }));
    Answer::json(&json!({ "data_streams": each.collect::<Vec<_>>() }))
}

/// `PUT /_data_stream/{name}/_options`, `DELETE /_data_stream/{name}/_options`.
pub(crate) async fn put_options(call: Call) -> Result<Answer> {
    let records = call.state.node.records().await?;
    matching(&records, &call, Wildcards::OPEN)?;
    let body = call.object()?;
    only(&body, &["failure_store"])?;
    if let Some(Value::Object(store)) = body.get("failure_store") {
        only_in("failure_store", store, &["enabled", "lifecycle"])?;
        if store.get("enabled") != Some(&json!(false)) {
            return Err(ApiError::unsupported(
                "there is no failure store: a document that fails is an error of its request",
            ));
        }
    }
    Answer::json(&json!({ "acknowledged": true }))
}

#[cfg(test)]
mod tests;
