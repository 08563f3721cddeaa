//! Which settings of an index have an effect: its pipelines.

use std::collections::BTreeMap;

use frostline_base::IndexName;
use frostline_catalog::{INDEX_SETTINGS, RecordChange, Records};
use serde_json::{Map, Value};

use crate::error::{ApiError, Result};

/// The pipelines of an index, each as far as something is said of it: the outer None is nothing, the inner one is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexSettings {
    /// What documents go through that are sent without a pipeline.
    default_pipeline: Option<Option<String>>,
    /// What all documents go through.
    final_pipeline: Option<Option<String>>,
}

const DEFAULT: &str = "default_pipeline";
const FINAL: &str = "final_pipeline";
/// How a request says that it wants no pipeline.
const NONE: &str = "_none";

impl IndexSettings {
    /// Reads settings in each of the forms in which they are written.
    pub(crate) fn read(json: Option<&Value>) -> Result<IndexSettings> {
        let mut settings = IndexSettings::default();
        for (name, value) in flat(json) {
            let pipeline = match value {
                Value::Null => None,
                Value::String(id) if id == NONE => None,
                Value::String(id) => Some(id.clone()),
                _ if matches!(name, DEFAULT | FINAL) => {
                    return Err(ApiError::invalid(format!("[index.{name}] is the name of a pipeline")));
                }
                _ => continue,
            };
            match name {
                DEFAULT => settings.default_pipeline = Some(pipeline),
                FINAL => settings.final_pipeline = Some(pipeline),
                _ => {}
            }
        }
        Ok(settings)
    }

    /// Those of an index.
    pub(crate) fn of(records: &Records, index: &IndexName) -> IndexSettings {
        let kept = records.other(INDEX_SETTINGS, index.as_str());
        IndexSettings::read(kept).unwrap_or_default()
    }

    /// The same with what `over` says.
    pub(crate) fn with(self, over: IndexSettings) -> IndexSettings {
        IndexSettings {
            default_pipeline: over.default_pipeline.or(self.default_pipeline),
            final_pipeline: over.final_pipeline.or(self.final_pipeline),
        }
    }

    pub(crate) fn default_pipeline(&self) -> Option<&str> {
        self.default_pipeline.as_ref()?.as_deref()
    }

    pub(crate) fn final_pipeline(&self) -> Option<&str> {
        self.final_pipeline.as_ref()?.as_deref()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.default_pipeline().is_none() && self.final_pipeline().is_none()
    }

    /// As they are shown.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let of = |name, id: Option<_>| id.map(|id| (name, id));
        let both = [
            of("index.default_pipeline", self.default_pipeline()),
            of("index.final_pipeline", self.final_pipeline()),
        ];
        both.into_iter().flatten()
    }

    /// What keeps them with a new index; nothing where there are none.
    pub(crate) fn record(&self, index: &IndexName) -> Option<RecordChange> {
        (!self.is_empty()).then(|| self.change(index))
    }

    /// What keeps them with `change`, where that says anything else.
    pub(crate) fn changed(self, change: IndexSettings, index: &IndexName) -> Option<RecordChange> {
        let changed = self.clone().with(change);
        let same = (changed.default_pipeline(), changed.final_pipeline())
            == (self.default_pipeline(), self.final_pipeline());
        (!same).then(|| changed.change(index))
    }

    fn change(&self, index: &IndexName) -> RecordChange {
        let both = [(DEFAULT, self.default_pipeline()), (FINAL, self.final_pipeline())];
        let kept = both.into_iter().filter_map(|(name, id)| Some((name.to_owned(), Value::from(id?))));
        let kept: Map<String, Value> = kept.collect();
        let value = (!kept.is_empty()).then_some(Value::Object(kept));
        RecordChange::Other { kind: INDEX_SETTINGS, name: index.to_string(), value }
    }
}

/// What is warned of where settings have no effect.
pub(crate) fn warning(json: Option<&Value>) -> Option<String> {
    // Every client sends these two, and nothing that they promise is missing.
    let is_known = |name: &str| matches!(name, DEFAULT | FINAL | "number_of_replicas" | "number_of_shards");
    let has_others = flat(json).any(|(name, _)| !is_known(name));
    has_others.then(|| {
        "the settings have no effect except default_pipeline and final_pipeline: there are no shards and no replicas"
            .to_owned()
    })
}

/// Settings as Elasticsearch shows them: below `index`, or by their full names, each as a text or a list of texts.
pub(crate) fn shown(json: Option<&Value>, is_flat: bool) -> Value {
    fn leaves(name: &str, value: &Value, all: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(member, value)| leaves(&format!("{name}.{member}"), value, all));
            }
            Value::Array(_) | Value::Null | Value::String(_) => {
                drop(all.insert(name.to_owned(), value.clone()))
            }
            scalar => drop(all.insert(name.to_owned(), Value::String(scalar.to_string()))),
        }
    }
    let mut all = BTreeMap::new();
    flat(json).for_each(|(name, value)| leaves(&format!("index.{name}"), value, &mut all));
    if is_flat {
        return Value::Object(all.into_iter().collect());
    }
    let mut nested = Value::Object(Map::new());
    for (name, value) in all {
        let mut at = &mut nested;
        for part in name.split('.') {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[part];
        }
        *at = value;
    }
    nested
}

/// Settings by their names without `index.`, whether they are inside of that object or named with it.
fn flat(json: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    let members = json.and_then(Value::as_object).into_iter().flatten();
    members.flat_map(|(name, value)| {
        let inside = value.as_object().filter(|_| name == "index").into_iter().flatten();
        let inside = inside.map(|(name, value)| (name.as_str(), value));
        let own = (name != "index").then(|| (name.strip_prefix("index.").unwrap_or(name), value));
        own.into_iter().chain(inside)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_in_each_form() {
        for json in [
            json!({ "default_pipeline": "a", "index.final_pipeline": "b" }),
            json!({ "index": { "default_pipeline": "a", "final_pipeline": "b" } }),
        ] {
            let settings = IndexSettings::read(Some(&json)).unwrap();
            assert_eq!((settings.default_pipeline(), settings.final_pipeline()), (Some("a"), Some("b")));
            assert_eq!(warning(Some(&json)), None);
        }
        assert_eq!(warning(Some(&json!({ "number_of_shards": 3, "index.number_of_replicas": 0 }))), None);
        let json = json!({ "index": { "default_pipeline": "_none", "refresh_interval": "1s" } });
        assert!(IndexSettings::read(Some(&json)).unwrap().is_empty());
        assert!(warning(Some(&json)).is_some());
        assert!(IndexSettings::read(Some(&json!({ "default_pipeline": 1 }))).is_err());
    }

    #[test]
    fn a_change_says_only_what_it_names() {
        let read = |json: Value| IndexSettings::read(Some(&json)).unwrap();
        let before = read(json!({ "default_pipeline": "a", "final_pipeline": "b" }));
        let after = before.clone().with(read(json!({ "default_pipeline": null })));
        assert_eq!((after.default_pipeline(), after.final_pipeline()), (None, Some("b")));
        let index = "web".parse().unwrap();
        assert_eq!(before.clone().changed(read(json!({ "default_pipeline": "a" })), &index), None);
        let gone = before.changed(read(json!({ "default_pipeline": null, "final_pipeline": null })), &index);
        assert!(matches!(gone, Some(RecordChange::Other { value: None, .. })));
    }
}
