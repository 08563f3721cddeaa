//! The settings of an index. Its pipelines, its blocks, and whether it is hidden have an effect, and so has its analysis, which
//! the mapping keeps. What a client says of others is kept and shown, for clients that compare what they find with what they said.

use std::collections::{BTreeMap, BTreeSet};

use frostline_base::{IndexName, wildcard_matches};
use frostline_catalog::{INDEX_SETTINGS, RecordChange, Records};
use frostline_split::Definitions;
use serde_json::{Map, Value};

use crate::api::template::overlay;
use crate::error::{ApiError, Result};
use crate::params::duration;

/// What is said of an index's settings, by their names without `index.`: none resets one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexSettings(BTreeMap<String, Option<Value>>);

/// What a setting can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// True or false.
    Flag,
    /// The name of a pipeline, or `_none`.
    Pipeline,
    /// A whole number that is at least this one.
    AtLeast(u64),
    /// A time such as `30s`, or -1.
    Time,
    /// Bytes, such as `512mb`.
    Size,
}

/// What documents go through that are sent without a pipeline.
const DEFAULT: &str = "default_pipeline";
/// What all documents go through.
const FINAL: &str = "final_pipeline";
/// What searches go through that name no pipeline.
const SEARCH: &str = "search.default_pipeline";
/// How a request says that it wants no pipeline.
pub(crate) const NONE: &str = "_none";

/// The field of the time, which a new index gets with its mapping.
pub(crate) const TIME_FIELD: &str = "time_field";

/// The settings that have an effect.
const KNOWN: [(&str, Form); 9] = [
    ("blocks.metadata", Form::Flag),
    ("blocks.read", Form::Flag),
    ("blocks.read_only", Form::Flag),
    ("blocks.read_only_allow_delete", Form::Flag),
    ("blocks.write", Form::Flag),
    (DEFAULT, Form::Pipeline),
    (FINAL, Form::Pipeline),
    ("hidden", Form::Flag),
    (SEARCH, Form::Pipeline),
];

/// Those that every client sends. Nothing that they promise is missing.
const OF_SHARDS: [(&str, Form); 2] =
    [("number_of_replicas", Form::AtLeast(0)), ("number_of_shards", Form::AtLeast(1))];

/// What is known of an index by itself: nobody sets these, or their `.` members.
const OWN: [&str; 7] =
    ["creation_date", "creation_date_string", "history", "provided_name", "time_field", "uuid", "version"];

/// What the mapping keeps: how text may be compared.
const ANALYSIS: &str = "analysis";
/// What may be said there.
const OF_ANALYSIS: &str = "max_ngram_diff";

/// What Elasticsearch does not change once an index is there, or, with a dot at the end, what is below such a name.
const STATIC: [&str; 11] = [
    "analysis.",
    "codec",
    "load_fixed_bitset_filters_eagerly",
    "mode",
    "number_of_routing_shards",
    "number_of_shards",
    "routing_partition_size",
    "shard.check_on_startup",
    "soft_deletes.enabled",
    "sort.",
    "store.",
];

/// What values of settings without an effect have to be, so that a mistake is told as Elasticsearch tells it. With `*`.
const CHECKED: [(&str, Form); 25] = [
    ("flush_after_merge", Form::Size),
    ("gc_deletes", Form::Time),
    ("highlight.max_analyzed_offset", Form::AtLeast(1)),
    ("indexing.slowlog.threshold.*", Form::Time),
    ("lifecycle.indexing_complete", Form::Flag),
    ("lifecycle.parse_origination_date", Form::Flag),
    ("lifecycle.prefer_ilm", Form::Flag),
    ("load_fixed_bitset_filters_eagerly", Form::Flag),
    ("mapping.coerce", Form::Flag),
    ("mapping.ignore_malformed", Form::Flag),
    ("mapping.*.limit", Form::AtLeast(0)),
    ("max_docvalue_fields_search", Form::AtLeast(0)),
    ("max_inner_result_window", Form::AtLeast(1)),
    ("max_refresh_listeners", Form::AtLeast(0)),
    ("max_result_window", Form::AtLeast(1)),
    ("max_terms_count", Form::AtLeast(1)),
    ("number_of_routing_shards", Form::AtLeast(1)),
    ("priority", Form::AtLeast(0)),
    ("refresh_interval", Form::Time),
    ("routing_partition_size", Form::AtLeast(1)),
    ("search.idle.after", Form::Time),
    ("search.slowlog.threshold.*", Form::Time),
    ("translog.flush_threshold_size", Form::Size),
    ("translog.sync_interval", Form::Time),
    ("unassigned.node_left.delayed_timeout", Form::Time),
];

/// How what has no effect is called where it is kept.
const KEPT: &str = "index.";
/// A longer one is not kept, and neither are more of them.
const KEPT_BYTES_MAX: usize = 1_024;
const KEPT_MAX: usize = 128;

impl Form {
    /// The value of a setting; none where that is reset.
    fn read(self, name: &str, value: &Value) -> Result<Option<Value>> {
        let wrong = |what: &str| {
            let value = text(value);
            Err(ApiError::invalid(format!(
                "failed to parse setting [index.{name}] with value [{value}] {what}"
            )))
        };
        Ok(match (self, value) {
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
            (Form::AtLeast(min), other) => {
                let number = text(other).parse().ok().filter(|number: &u64| *number >= min);
                let number = number.ok_or_else(|| {
                    ApiError::invalid(format!(
                        "Failed to parse value [{}] for setting [index.{name}] must be >= {min}",
                        text(other)
                    ))
                })?;
                Some(Value::String(number.to_string()))
            }
            (Form::Time, other) => {
                let time = text(other);
                if time != "-1" && duration(&time, name).is_err() {
                    return wrong("as a time value: unit is missing or unrecognized");
                }
                Some(value.clone())
            }
            (Form::Size, other) => {
                let size = text(other);
                let number = size.strip_suffix(['b', 'B']).map(frostline_show::parse_bytes);
                if size != "-1" && size != "0" && number.is_none_or(|number| number.is_err()) {
                    return wrong("as a size in bytes: unit is missing or unrecognized");
                }
                Some(value.clone())
            }
        })
    }
}

impl IndexSettings {
    /// Reads settings in each of the forms in which they are written.
    pub(crate) fn read(json: Option<&Value>) -> Result<IndexSettings> {
        let mut said = BTreeMap::new();
        for (name, value) in flat(json) {
            if name.contains('*') && !value.is_null() && !is_of_analysis(&name) {
                return Err(ApiError::invalid(format!(
                    "unknown setting [index.{name}]: a name with [*] resets settings, and its value is null"
                )));
            }
            let Some((_, form)) = KNOWN.iter().chain(&OF_SHARDS).find(|(known, _)| *known == name) else {
                if said.len() < KEPT_MAX && can_be_kept(&name, value) {
                    let checked = CHECKED.iter().find(|(pattern, _)| wildcard_matches(pattern, &name));
                    checked.map_or(Ok(None), |(_, form)| form.read(&name, value))?;
                    said.insert(name, shown_value(value));
                }
                continue;
            };
            let value = form.read(&name, value)?;
            said.insert(name, value);
        }
        Ok(IndexSettings(said))
    }

    /// Reads what was kept. An earlier version may have kept what is refused now.
    fn read_kept(json: &Value) -> IndexSettings {
        let each = flat(Some(json)).into_iter().filter_map(|(name, value)| {
            let form = KNOWN.iter().chain(&OF_SHARDS).find(|(known, _)| *known == name);
            let value = match form {
                Some((_, form)) => form.read(&name, value).ok()?,
                None => shown_value(value),
            };
            Some((name, value))
        });
        IndexSettings(each.collect())
    }

    /// Those of an index.
    pub(crate) fn of(records: &Records, index: &IndexName) -> IndexSettings {
        let kept = records.other(INDEX_SETTINGS, index.as_str()).and_then(Value::as_object);
        let all = kept.into_iter().flatten().filter(|(name, _)| is_setting(name));
        let all = all.map(|(name, value)| (name.clone(), value.clone())).collect();
        IndexSettings::read_kept(&Value::Object(all))
    }

    /// The same with what `over` says.
    pub(crate) fn with(mut self, over: IndexSettings) -> IndexSettings {
        self.0.retain(|name, _| !is_reset(&over.0, Option::is_none, name));
        self.0.extend(over.0);
        self
    }

    /// The full names of those that cannot be changed once an index is there.
    pub(crate) fn of_new_indices(&self) -> Vec<String> {
        let fixed = self.0.keys().filter(|name| is_static(name) && !name.contains('*'));
        fixed.map(|name| format!("[index.{name}]")).collect()
    }

    /// Those that cannot be changed once an index is there, and the others.
    pub(crate) fn split(self) -> (IndexSettings, IndexSettings) {
        let (later, at_once) = self.0.into_iter().partition(|(name, _)| is_static(name));
        (IndexSettings(later), IndexSettings(at_once))
    }

    /// Their full names, without those of wildcards.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.keys().filter(|name| !name.contains('*')).map(|name| format!("index.{name}")).collect()
    }

    /// The number of shards that was asked for, which every index has one of.
    pub(crate) fn shards(&self) -> Option<&str> {
        self.0.get("number_of_shards")?.as_ref()?.as_str()
    }

    pub(crate) fn default_pipeline(&self) -> Option<&str> {
        self.0.get(DEFAULT)?.as_ref()?.as_str()
    }

    pub(crate) fn final_pipeline(&self) -> Option<&str> {
        self.0.get(FINAL)?.as_ref()?.as_str()
    }

    /// The search pipeline of an index, without its other settings being read.
    pub(crate) fn search_pipeline<'a>(records: &'a Records, index: &IndexName) -> Option<&'a str> {
        records.other(INDEX_SETTINGS, index.as_str())?.get(SEARCH)?.as_str()
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
    pub(crate) fn shown(&self) -> impl Iterator<Item = (String, Value)> {
        self.0
            .iter()
            .filter_map(|(name, value)| Some((format!("index.{name}"), shown_value(value.as_ref()?)?)))
    }

    /// What is kept of an index with these over it, and without those of `ignored`, which may have `*`.
    pub(crate) fn over(&self, kept: Option<&Value>, ignored: &[String]) -> Option<Value> {
        let mut members = kept.and_then(Value::as_object).cloned().unwrap_or_default();
        let is_ignored = |name: &str| ignored.iter().any(|pattern| wildcard_matches(short(pattern), name));
        let is_left = |name: &str| !is_ignored(name) && !is_reset(&self.0, Option::is_none, name);
        members.retain(|member, _| !is_setting(member) || is_left(short(member)));
        lay(&mut members, self.0.iter().map(|(name, value)| (member(name), value.clone())));
        (!members.is_empty()).then_some(Value::Object(members))
    }

    /// What sets them, where an index has others; with `preserve`, only those that it has not.
    pub(crate) fn change(
        &self,
        records: &Records,
        index: &IndexName,
        preserve: bool,
    ) -> Option<RecordChange> {
        let kept = IndexSettings::of(records, index);
        let resets = if preserve { Vec::new() } else { self.resets(records, index, &kept) };
        let resets = resets.into_iter().map(|name| (member(name), None));
        let mut room = KEPT_MAX.saturating_sub(kept.0.len());
        let said = self.0.iter().filter(|(name, _)| match kept.0.contains_key(*name) {
            true => !preserve,
            false if is_known(name) => true,
            false => {
                let fits = room > 0;
                room = room.saturating_sub(1);
                fits
            }
        });
        let said = said.map(|(name, value)| (member(name), value.clone()));
        change(records, index, resets.chain(said))
    }

    /// Which settings of an index, which are `kept`, its wildcards reset. Of an open one, only those that can change there.
    fn resets<'a>(&self, records: &Records, index: &IndexName, kept: &'a IndexSettings) -> Vec<&'a str> {
        let is_open = !records.is_closed(index);
        let names = kept.0.keys().map(String::as_str);
        names
            .filter(|name| is_reset(&self.0, Option::is_none, name) && !(is_open && is_static(name)))
            .collect()
    }

    /// The full names of the settings that it changes of an index: those that it says and those that its wildcards reset.
    pub(crate) fn names_of_change(&self, records: &Records, index: &IndexName) -> BTreeSet<String> {
        let kept = IndexSettings::of(records, index);
        let resets = self.resets(records, index, &kept).into_iter().map(|name| format!("index.{name}"));
        self.names().into_iter().chain(resets).collect()
    }
}

/// Whether settings, by their names, reset one of that name by a wildcard: those that they say themselves they do not.
fn is_reset<V>(said: &BTreeMap<String, V>, is_null: impl Fn(&V) -> bool, name: &str) -> bool {
    let mut patterns = said.iter().filter(|(pattern, value)| pattern.contains('*') && is_null(value));
    !said.contains_key(name) && patterns.any(|(pattern, _)| wildcard_matches(pattern, name))
}

fn is_static(name: &str) -> bool {
    STATIC.iter().any(|of| match of.strip_suffix('.') {
        Some(_) => name.starts_with(of),
        None => name == *of,
    })
}

/// A name without `index.`.
fn short(name: &str) -> &str {
    name.strip_prefix(KEPT).unwrap_or(name)
}

/// Whether a setting has an effect.
fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|(known, _)| *known == name)
}

/// Whether a member of what is kept of an index is a setting.
fn is_setting(member: &str) -> bool {
    member.starts_with(KEPT) || is_known(member)
}

/// The member that keeps a setting.
fn member(name: &str) -> String {
    if is_known(name) { name.to_owned() } else { format!("{KEPT}{name}") }
}

fn lay(members: &mut Map<String, Value>, said: impl Iterator<Item = (String, Option<Value>)>) {
    for (name, value) in said {
        match value {
            Some(value) => members.insert(name, value),
            None => members.remove(&name),
        };
    }
}

/// What sets members of what is kept of an index, or removes those without a value; nothing where it has them.
pub(crate) fn change(
    records: &Records,
    index: &IndexName,
    said: impl Iterator<Item = (String, Option<Value>)>,
) -> Option<RecordChange> {
    let old = records.other(INDEX_SETTINGS, index.as_str()).and_then(Value::as_object);
    let old = old.cloned().unwrap_or_default();
    let mut new = old.clone();
    lay(&mut new, said);
    let value = (!new.is_empty()).then(|| Value::Object(new.clone()));
    (new != old).then(|| RecordChange::Other { kind: INDEX_SETTINGS, name: index.to_string(), value })
}

fn is_of_analysis(name: &str) -> bool {
    name.strip_prefix(ANALYSIS).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What settings define for the fields of an index.
pub(crate) fn analysis(json: Option<&Value>) -> Result<Definitions> {
    Ok(json.map_or(Ok(Definitions::default()), Definitions::from_settings)?)
}

/// The full names of the settings that define that.
pub(crate) fn names_of_analysis(json: &Value) -> Vec<String> {
    flat(Some(json))
        .into_iter()
        .filter(|(name, _)| is_of_analysis(name))
        .map(|(name, _)| format!("[index.{name}]"))
        .collect()
}

/// The settings to reset, also through a wildcard, without `index.`
pub(crate) fn resets_of_analysis(json: &Value) -> Vec<String> {
    let all = flat(Some(json)).into_iter();
    all.filter(|(name, value)| value.is_null() && (is_of_analysis(name) || name.contains('*')))
        .map(|(name, _)| name)
        .collect()
}

/// Refuses such settings of an index that has the mapping of another one.
pub(crate) fn refuse_analysis(json: Option<&Value>, why: &str) -> Result<()> {
    let names = json.map(names_of_analysis).unwrap_or_default();
    match names.is_empty() {
        true => Ok(()),
        false => {
            let names = names.join(", ");
            Err(ApiError::invalid(format!("Can't update non dynamic settings [{names}]: {why}")))
        }
    }
}

/// Whether what has no effect is kept.
fn can_be_kept(name: &str, value: &Value) -> bool {
    let is_own = OWN
        .iter()
        .any(|own| name.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
    let is_short = |value: &Value| text(value).len() <= KEPT_BYTES_MAX;
    !is_own && !is_of_analysis(name) && !name.is_empty() && name.len() <= KEPT_BYTES_MAX && is_short(value)
}

/// A setting as it is shown: a text, or a list of what it has; none resets one.
pub(crate) fn shown_value(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(_) | Value::String(_) => Some(value.clone()),
        scalar => Some(Value::String(scalar.to_string())),
    }
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

/// Settings with `over` laid over them, each inside of the objects that its name has dots for. Of a name with `*` and null
/// nothing is left.
pub(crate) fn laid(under: &Value, over: &Value) -> Value {
    let (mut under, mut over) = (by_name(under), by_name(over));
    under.retain(|name, _| !is_reset(&over, Value::is_null, name));
    over.retain(|name, value| !(name.contains('*') && value.is_null()));
    let mut all = nested(under, false);
    overlay(&mut all, &nested(over, false));
    all
}

/// Kept settings without names with `*` that reset nothing, and these: an earlier version took them.
pub(crate) fn without_wildcards(kept: &Value) -> (Value, Vec<String>) {
    let mut all = by_name(kept);
    let is_ignored =
        |name: &str, value: &Value| name.contains('*') && !value.is_null() && !is_of_analysis(short(name));
    let ignored: Vec<String> =
        all.iter().filter(|(name, value)| is_ignored(name, value)).map(|(name, _)| name.clone()).collect();
    if ignored.is_empty() {
        return (kept.clone(), ignored);
    }
    all.retain(|name, value| !is_ignored(name, value));
    (Value::Object(all.into_iter().collect()), ignored)
}

/// Whether a setting, by its full name, is for new indices alone.
pub(crate) fn is_of_new_indices(name: &str) -> bool {
    is_static(short(name))
}

/// Settings by their full names.
pub(crate) fn by_name(json: &Value) -> BTreeMap<String, Value> {
    flat(Some(json)).into_iter().map(|(name, value)| (format!("index.{name}"), value.clone())).collect()
}

/// What is warned of where settings have no effect.
pub(crate) fn warning(json: Option<&Value>) -> Option<String> {
    let is_known =
        |name: &str| name == TIME_FIELD || KNOWN.iter().chain(&OF_SHARDS).any(|(known, _)| *known == name);
    let mut others: Vec<String> = flat(json)
        .iter()
        .filter(|(name, value)| !(is_known(name) || value.is_null() && name.contains('*')))
        .filter(|(name, _)| !is_of_analysis(name) && name != OF_ANALYSIS)
        .map(|(name, _)| format!("[index.{name}]"))
        .collect();
    others.sort_unstable();
    others.dedup();
    let more = others.len().saturating_sub(NAMED_MAX);
    others.truncate(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!others.is_empty()).then(|| {
        format!(
            "the settings {}{more} have no effect: those that have are analysis, blocks, default_pipeline, final_pipeline, hidden, search.default_pipeline and time_field",
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
    let shown = |value: &Value| shown_value(value).unwrap_or(Value::Null);
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
    fn what_is_brought_back_has_the_settings_that_a_request_says() {
        let kept = json!({ "closed": true, "default_pipeline": "a", "hidden": true, "index.codec": "zstd" });
        let said = json!({ "index": { "default_pipeline": "b", "hidden": null, "refresh_interval": "9s" } });
        let said = IndexSettings::read(Some(&said)).unwrap();
        let over = |ignored: &[&str]| {
            let ignored: Vec<String> = ignored.iter().map(|name| (*name).to_owned()).collect();
            said.over(Some(&kept), &ignored).unwrap()
        };
        let all = json!({
            "closed": true, "default_pipeline": "b", "index.codec": "zstd", "index.refresh_interval": "9s",
        });
        assert_eq!(over(&[]), all);
        let without = json!({ "closed": true, "default_pipeline": "b", "index.refresh_interval": "9s" });
        assert_eq!(over(&["index.cod*"]), without);
        assert_eq!(over(&["codec", "index.refresh_interval"]), without, "what is said counts");
        assert_eq!(IndexSettings::default().over(None, &[]), None);
        let said = json!({ "default_*": null, "index": { "cod*": null, "hid*": null, "hidden": true } });
        let reset = IndexSettings::read(Some(&said)).unwrap().over(Some(&kept), &[]).unwrap();
        assert_eq!(reset, json!({ "closed": true, "hidden": true }));
    }

    #[test]
    fn what_an_earlier_version_kept_is_read_as_it_is() {
        let kept = json!({ "index.refresh_interval": "banana", "default_pipeline": "a" });
        assert_eq!(IndexSettings::read_kept(&kept).default_pipeline(), Some("a"));
        assert!(IndexSettings::read(Some(&kept)).is_err());
    }

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
            assert_eq!(blocks, Some(("index.blocks.write".to_owned(), json!("true"))));
            assert_eq!(warning(Some(&json)), None);
        }
        assert_eq!(warning(Some(&json!({ "number_of_shards": 3, "index.number_of_replicas": 0 }))), None);
        let json = json!({ "index": { "default_pipeline": "_none", "refresh_interval": "1s" } });
        assert!(IndexSettings::read(Some(&json)).unwrap().default_pipeline().is_none());
        assert!(
            warning(Some(&json)).unwrap().starts_with("the settings [index.refresh_interval] have no effect")
        );
        let many: Map<String, Value> = (0..30).map(|n| (format!("codec{n:02}"), json!(1))).collect();
        let told = warning(Some(&Value::Object(many))).unwrap();
        assert!(
            told.contains("[index.codec00], [index.codec01]") && told.contains("[index.codec19] and 10 more")
        );
        for wrong in [
            json!({ "default_pipeline": 1 }),
            json!({ "hidden": "yes" }),
            json!({ "blocks.write": 1 }),
            json!({ "number_of_shards": 0 }),
            json!({ "index.number_of_replicas": "-1" }),
        ] {
            assert!(IndexSettings::read(Some(&wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_an_index_knows_itself_and_what_is_long_is_not_kept() {
        let json = json!({
            "uuid": "x", "version": { "created": 1 }, "creation_date": 1, "time_field": "at",
            "long": "x".repeat(KEPT_BYTES_MAX + 1), "sort": { "field": ["a", "b"] }, "priority": 3, "off": null,
        });
        let shown: Vec<_> = IndexSettings::read(Some(&json)).unwrap().shown().collect();
        let sort = ("index.sort.field".to_owned(), json!(["a", "b"]));
        assert_eq!(shown, [("index.priority".to_owned(), json!("3")), sort]);
        let many: Map<String, Value> = (0..500).map(|n| (format!("n{n:03}"), json!(n))).collect();
        assert_eq!(IndexSettings::read(Some(&Value::Object(many))).unwrap().shown().count(), KEPT_MAX);
    }

    #[test]
    fn a_change_of_blocks_is_told_from_others() {
        let read = |json: Value| IndexSettings::read(Some(&json)).unwrap();
        assert!(read(json!({ "blocks": { "write": null, "read": false } })).is_of_blocks());
        assert!(!read(json!({ "blocks.write": true, "hidden": true })).is_of_blocks());
        assert!(!read(json!({})).is_of_blocks());
    }
}
