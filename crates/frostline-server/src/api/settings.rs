//! Which settings of an index have an effect: its pipelines, its blocks, and whether it is hidden.

use std::collections::BTreeMap;

use frostline_base::IndexName;
use frostline_catalog::{INDEX_SETTINGS, RecordChange, Records};
use serde_json::{Map, Value};

use crate::error::{ApiError, Result};

/// What is said of an index's settings, by their names without `index.`: none resets one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexSettings(BTreeMap<&'static str, Option<Value>>);

/// What a setting can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// True or false.
    Flag,
    /// The name of a pipeline, or `_none`.
    Pipeline,
}

/// What documents go through that are sent without a pipeline.
const DEFAULT: &str = "default_pipeline";
/// What all documents go through.
const FINAL: &str = "final_pipeline";
/// How a request says that it wants no pipeline.
const NONE: &str = "_none";

/// The field of the time, which a new index gets with its mapping.
pub(crate) const TIME_FIELD: &str = "time_field";

/// The settings that have an effect.
const KNOWN: [(&str, Form); 8] = [
    ("blocks.metadata", Form::Flag),
    ("blocks.read", Form::Flag),
    ("blocks.read_only", Form::Flag),
    ("blocks.read_only_allow_delete", Form::Flag),
    ("blocks.write", Form::Flag),
    (DEFAULT, Form::Pipeline),
    (FINAL, Form::Pipeline),
    ("hidden", Form::Flag),
];

impl IndexSettings {
    /// Reads settings in each of the forms in which they are written.
    pub(crate) fn read(json: Option<&Value>) -> Result<IndexSettings> {
        let mut said = BTreeMap::new();
        for (name, value) in flat(json) {
            let Some((known, form)) = KNOWN.iter().find(|(known, _)| *known == name) else { continue };
            let value = match (form, value) {
                (_, Value::Null) => None,
                (Form::Pipeline, Value::String(id)) if id == NONE => None,
                (Form::Pipeline, Value::String(_)) | (Form::Flag, Value::Bool(_)) => Some(value.clone()),
                (Form::Flag, Value::String(flag)) if flag == "true" => Some(Value::Bool(true)),
                (Form::Flag, Value::String(flag)) if flag == "false" => Some(Value::Bool(false)),
                (Form::Pipeline, _) => {
                    return Err(ApiError::invalid(format!("[index.{name}] is the name of a pipeline")));
                }
                (Form::Flag, other) => {
                    return Err(ApiError::invalid(format!(
                        "Failed to parse value [{}] of [index.{name}] as only [true] or [false] are allowed.",
                        text(other)
                    )));
                }
            };
            said.insert(*known, value);
        }
        Ok(IndexSettings(said))
    }

    /// Those of an index.
    pub(crate) fn of(records: &Records, index: &IndexName) -> IndexSettings {
        let kept = records.other(INDEX_SETTINGS, index.as_str());
        IndexSettings::read(kept).unwrap_or_default()
    }

    /// The same with what `over` says.
    pub(crate) fn with(mut self, over: IndexSettings) -> IndexSettings {
        self.0.extend(over.0);
        self
    }

    pub(crate) fn default_pipeline(&self) -> Option<&str> {
        self.0.get(DEFAULT)?.as_ref()?.as_str()
    }

    pub(crate) fn final_pipeline(&self) -> Option<&str> {
        self.0.get(FINAL)?.as_ref()?.as_str()
    }

    pub(crate) fn has_pipeline(&self) -> bool {
        self.default_pipeline().is_some() || self.final_pipeline().is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.values().all(Option::is_none)
    }

    /// Whether it changes blocks and nothing else, which a block does not keep anybody from.
    pub(crate) fn is_of_blocks(&self) -> bool {
        !self.0.is_empty() && self.0.keys().all(|name| name.starts_with("blocks."))
    }

    /// As they are shown, by their full names.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().filter_map(|(name, value)| Some((format!("index.{name}"), text(value.as_ref()?))))
    }

    /// What sets them, where an index has others; with `preserve`, only those that it has not.
    pub(crate) fn change(
        &self,
        records: &Records,
        index: &IndexName,
        preserve: bool,
    ) -> Option<RecordChange> {
        let kept = IndexSettings::of(records, index);
        let is_wanted = |name: &str| !preserve || kept.0.get(name).is_none_or(Option::is_none);
        let said = self.0.iter().filter(|(name, _)| is_wanted(name));
        change(records, index, said.map(|(name, value)| (*name, value.clone())))
    }
}

/// What sets members of what is kept of an index, or removes those without a value; nothing where it has them.
pub(crate) fn change<'a>(
    records: &Records,
    index: &IndexName,
    said: impl Iterator<Item = (&'a str, Option<Value>)>,
) -> Option<RecordChange> {
    let old = records.other(INDEX_SETTINGS, index.as_str()).and_then(Value::as_object);
    let old = old.cloned().unwrap_or_default();
    let mut new = old.clone();
    for (name, value) in said {
        match value {
            Some(value) => new.insert(name.to_owned(), value),
            None => new.remove(name),
        };
    }
    let value = (!new.is_empty()).then(|| Value::Object(new.clone()));
    (new != old).then(|| RecordChange::Other { kind: INDEX_SETTINGS, name: index.to_string(), value })
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Which field has the time of the documents, as settings of a new index say it. The mapping keeps it.
pub(crate) fn time_field(json: Option<&Value>) -> Result<Option<String>> {
    let mut said: Vec<&Value> =
        flat(json).into_iter().filter(|(name, _)| name == TIME_FIELD).map(|(_, value)| value).collect();
    said.dedup();
    match said.as_slice() {
        [] | [Value::Null] => Ok(None),
        [Value::String(path)] => Ok(Some(path.clone())),
        [other] => Err(ApiError::invalid(format!(
            "[index.{TIME_FIELD}] is the name of a field, not [{}]",
            text(other)
        ))),
        [one, other, ..] => Err(ApiError::invalid(format!(
            "[index.{TIME_FIELD}] is [{}] and [{}]: say it once",
            text(one),
            text(other)
        ))),
    }
}

/// Settings in the one form in which they can be laid over others.
pub(crate) fn of_one_form(json: &Value) -> Value {
    let all = flat(Some(json)).into_iter().map(|(name, value)| (format!("index.{name}"), value.clone()));
    nested(all.collect(), false)
}

/// What is warned of where settings have no effect.
pub(crate) fn warning(json: Option<&Value>) -> Option<String> {
    // Every client sends these two, and nothing that they promise is missing.
    let is_known = |name: &str| {
        ["number_of_replicas", "number_of_shards", TIME_FIELD].contains(&name)
            || KNOWN.iter().any(|(known, _)| *known == name)
    };
    let mut others: Vec<String> = flat(json)
        .iter()
        .filter(|(name, _)| !is_known(name))
        .map(|(name, _)| format!("[index.{name}]"))
        .collect();
    others.sort_unstable();
    others.dedup();
    let more = others.len().saturating_sub(NAMED_MAX);
    others.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!others.is_empty()).then(|| {
        format!(
            "the settings {}{more} have no effect: those that have are blocks, default_pipeline, final_pipeline, hidden and time_field",
            others.join(", ")
        )
    })
}

/// So many settings without an effect are named.
const NAMED_MAX: usize = 20;

/// The lifecycle policy that settings name.
pub(crate) fn lifecycle(json: Option<&Value>) -> Option<&str> {
    flat(json).into_iter().find(|(name, _)| name == "lifecycle.name").and_then(|(_, value)| value.as_str())
}

/// Settings as Elasticsearch shows them: below `index`, or by their full names, each as a text or a list of texts.
pub(crate) fn shown(json: Option<&Value>, is_flat: bool) -> Value {
    let shown = |value: &Value| match value {
        Value::Array(_) | Value::Null | Value::String(_) => value.clone(),
        scalar => Value::String(scalar.to_string()),
    };
    let all = flat(json).into_iter().map(|(name, value)| (format!("index.{name}"), shown(value)));
    nested(all.collect(), is_flat)
}

/// Values by their full names, or each inside of the objects that its name has dots for.
pub(crate) fn nested(all: BTreeMap<String, Value>, is_flat: bool) -> Value {
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

/// Settings by their names without `index.`, whether they are inside of objects or named with dots.
fn flat(json: Option<&Value>) -> Vec<(String, &Value)> {
    fn leaves<'a>(name: String, value: &'a Value, all: &mut Vec<(String, &'a Value)>) {
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(member, value)| leaves(format!("{name}.{member}"), value, all));
            }
            leaf => all.push((name, leaf)),
        }
    }
    let mut all = Vec::new();
    for (name, value) in json.and_then(Value::as_object).into_iter().flatten() {
        leaves(name.clone(), value, &mut all);
    }
    for (name, _) in &mut all {
        if let Some(short) = name.strip_prefix("index.") {
            *name = short.to_owned();
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_in_each_form() {
        for json in [
            json!({ "default_pipeline": "a", "index.final_pipeline": "b", "blocks": { "write": true } }),
            json!({ "index": { "default_pipeline": "a", "final_pipeline": "b", "blocks.write": "true" } }),
            json!({ "index": { "default_pipeline": "a", "final_pipeline": "b" }, "index.blocks": { "write": true } }),
        ] {
            let settings = IndexSettings::read(Some(&json)).unwrap();
            assert_eq!((settings.default_pipeline(), settings.final_pipeline()), (Some("a"), Some("b")));
            let blocks = settings.shown().next();
            assert_eq!(blocks, Some(("index.blocks.write".to_owned(), "true".to_owned())));
            assert_eq!(warning(Some(&json)), None);
        }
        assert_eq!(warning(Some(&json!({ "number_of_shards": 3, "index.number_of_replicas": 0 }))), None);
        let json = json!({ "index": { "default_pipeline": "_none", "refresh_interval": "1s" } });
        assert!(IndexSettings::read(Some(&json)).unwrap().is_empty());
        assert!(
            warning(Some(&json)).unwrap().starts_with("the settings [index.refresh_interval] have no effect")
        );
        let many: Map<String, Value> = (0..30).map(|n| (format!("codec{n:02}"), json!(1))).collect();
        let told = warning(Some(&Value::Object(many))).unwrap();
        assert!(
            told.contains("[index.codec00], [index.codec01]") && told.contains("[index.codec19] and 10 more")
        );
        for wrong in
            [json!({ "default_pipeline": 1 }), json!({ "hidden": "yes" }), json!({ "blocks.write": 1 })]
        {
            assert!(IndexSettings::read(Some(&wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_change_of_blocks_is_told_from_others() {
        let read = |json: Value| IndexSettings::read(Some(&json)).unwrap();
        assert!(read(json!({ "blocks": { "write": null, "read": false } })).is_of_blocks());
        assert!(!read(json!({ "blocks.write": true, "hidden": true })).is_of_blocks());
        assert!(!read(json!({})).is_of_blocks());
    }
}
