//! Templates: what indices and data streams are made with. Those of indices and of components, and those of the old form,
//! which count where no index template does.

use std::collections::BTreeSet;

use frostline_base::wildcard_matches;
use frostline_catalog::{Lifecycle, RecordChange, Records};
use frostline_split::{Definitions, Mapping};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::alias::{About, Abouts, check_filters};
use crate::api::settings::{self, IndexSettings};
use crate::api::{lifecycle, mapping};
use crate::error::{ApiError, Result};
use crate::state::{Call, only, only_in};

/// A kind of template, as it is kept and as it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Index,
    Component,
    /// `_template`.
    Legacy,
}

impl Kind {
    fn record(self) -> &'static str {
        match self {
            Kind::Index => "index_template",
            Kind::Component => "component_template",
            Kind::Legacy => "legacy_template",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Index => "index template",
            Kind::Legacy => "index_template",
            Kind::Component => "component template",
        }
    }
}

/// The longest template, which every server holds.
const BYTES_MAX: usize = 1 << 20;

/// What the templates of a name say together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Composed {
    /// The index template.
    pub(crate) template: String,
    pub(crate) mappings: Value,
    pub(crate) settings: Value,
    pub(crate) aliases: Abouts,
    pub(crate) data_stream: bool,
    /// Whether wildcards leave a data stream out.
    pub(crate) hidden: bool,
    /// How long the documents of a data stream are kept.
    lifecycle: Value,
    /// Whether a document that is sent to the name makes it.
    pub(crate) auto_create: bool,
    /// Settings of kept templates that an earlier version took and that mean nothing, by their full names.
    ignored: BTreeSet<String>,
}

impl Composed {
    /// What no template says anything of.
    pub(crate) fn nothing() -> Composed {
        Composed { auto_create: true, ..Composed::default() }
    }

    pub(crate) fn mapping(&self) -> Result<Mapping> {
        let mapping = self.mapping_of_part()?;
        mapping.check_aliases().map_err(|e| ApiError::from(e).named("mapper_parsing_exception"))?;
        Ok(mapping)
    }

    /// The same, where others may declare what it names.
    fn mapping_of_part(&self) -> Result<Mapping> {
        self.mapping_by(settings::analysis(Some(&self.settings))?)
    }

    fn mapping_by(&self, definitions: Definitions) -> Result<Mapping> {
        let mapping = mapping(&self.mappings, definitions)?;
        Ok(match settings::time_field(Some(&self.settings))? {
            Some(path) if self.data_stream && path != mapping.time_field() => {
                return Err(ApiError::invalid(format!(
                    "the time of a data stream is in [@timestamp], not in [{path}]: leave [index.time_field] out"
                )));
            }
            Some(path) => {
                let mapping = mapping.with_time_field(path);
                let wrong = |e| ApiError::from(e).about("setting", "index.time_field");
                mapping.check_time_field().map_err(wrong)?;
                mapping
            }
            None => mapping,
        })
    }

    pub(crate) fn index_settings(&self) -> Result<IndexSettings> {
        IndexSettings::read(Some(&self.settings))
    }

    pub(crate) fn lifecycle(&self) -> Result<Option<Lifecycle>> {
        lifecycle::read(&self.lifecycle)
    }

    fn lay(&mut self, settings: &Value) {
        self.settings = settings::laid(&self.settings, settings);
    }

    /// The same of settings that were kept.
    fn lay_kept(&mut self, settings: &Value) {
        let (settings, ignored) = settings::without_wildcards(settings);
        self.ignored.extend(ignored);
        self.lay(&settings);
    }

    /// What is warned of where something is made.
    pub(crate) fn warning(&self) -> Option<String> {
        let names: Vec<String> = self.ignored.iter().map(|name| format!("[{name}]")).collect();
        (!names.is_empty()).then(|| {
            format!(
                "the settings {} of the template [{}] are ignored: a name with [*] resets settings, and its value is null; \
                 put the template without them",
                names.join(", "),
                self.template
            )
        })
    }

    /// Puts what a template says over what is there.
    fn take(&mut self, template: &Value) -> Result<()> {
        for (member, to) in [("lifecycle", &mut self.lifecycle), ("mappings", &mut self.mappings)] {
            if let Some(value) = template.get(member) {
                overlay(to, value);
            }
        }
        if let Some(settings) = template.get("settings") {
            self.lay_kept(settings);
        }
        self.aliases.extend(About::read_all(template.get("aliases"))?);
        Ok(())
    }

    /// The same with what a data stream says of its own indices.
    pub(crate) fn with_own(mut self, mappings: &Value, settings: &Value) -> Composed {
        overlay(&mut self.mappings, mappings);
        self.lay_kept(settings);
        self
    }

    /// The same with what a request says itself.
    pub(crate) fn with(mut self, mappings: Option<&Value>, of_index: Option<&Value>) -> Result<Composed> {
        if let Some(mappings) = mappings {
            overlay(&mut self.mappings, mappings);
        }
        settings::time_field(of_index)?;
        if let Some(of_index) = of_index {
            self.lay(of_index);
        }
        Ok(self)
    }
}

fn mapping(json: &Value, definitions: Definitions) -> Result<Mapping> {
    if json.is_null() {
        return Ok(Mapping::dynamic().with_definitions(definitions));
    }
    Mapping::from_elasticsearch_json_with(json, definitions)
        .map_err(|e| ApiError::from(e).named("mapper_parsing_exception"))
}

/// What the index template of the highest priority whose pattern matches says with its components; none where no
/// pattern does.
pub(crate) fn compose(records: &Records, name: &str) -> Result<Option<Composed>> {
    match index_template_of(records, name) {
        Some((template, body)) => composed(records, template, body).map(Some),
        None => of_legacy(records, name),
    }
}

/// The index template of the highest priority whose pattern matches.
fn index_template_of<'a>(records: &'a Records, name: &str) -> Option<(&'a str, &'a Value)> {
    let fits = records
        .others(Kind::Index.record())
        .filter(|(_, template)| patterns(template).iter().any(|pattern| wildcard_matches(pattern, name)));
    fits.max_by_key(|(_, template)| priority(template))
}

/// What all templates of the old form say whose pattern matches, those of a higher order over the others.
fn of_legacy(records: &Records, name: &str) -> Result<Option<Composed>> {
    let fits = records
        .others(Kind::Legacy.record())
        .filter(|(_, template)| patterns(template).iter().any(|pattern| wildcard_matches(pattern, name)));
    let mut fits: Vec<(&str, &Value)> = fits.collect();
    fits.sort_by_key(|(name, template)| (template_order(template), *name));
    let names: Vec<&str> = fits.iter().map(|(name, _)| *name).collect();
    let mut composed = Composed { template: names.join(","), ..Composed::nothing() };
    for (_, body) in &fits {
        composed.take(body)?;
    }
    Ok((!fits.is_empty()).then_some(composed))
}

/// Which of the templates of the old form counts before others.
fn template_order(template: &Value) -> i64 {
    template.get("order").and_then(Value::as_i64).unwrap_or_default()
}

fn composed(records: &Records, template: &str, body: &Value) -> Result<Composed> {
    let components = texts(body.get("composed_of"));
    let of_components = components.iter().filter_map(|name| records.other(Kind::Component.record(), name));
    let mut composed = Composed {
        template: template.to_owned(),
        data_stream: body.get("data_stream").is_some(),
        hidden: body.pointer("/data_stream/hidden").is_some_and(|hidden| *hidden == true || hidden == "true"),
        auto_create: body.get("allow_auto_create") != Some(&json!(false)),
        ..Composed::default()
    };
    for part in of_components.chain([body]).filter_map(|body| body.get("template")) {
        composed.take(part)?;
    }
    Ok(composed)
}

/// Puts what `over` says over `under`, object by object, and dynamic templates by their names.
pub(crate) fn overlay(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                let under = under.entry(name.clone()).or_insert(Value::Null);
                match (under, value) {
                    (Value::Array(under), Value::Array(over)) if name == "dynamic_templates" => {
                        overlay_templates(under, over);
                    }
                    (under, value) => overlay(under, value),
                }
            }
        }
        (under, over) => *under = over.clone(),
    }
}

/// A dynamic template takes the place of one of its name; others come after those that are there.
fn overlay_templates(under: &mut Vec<Value>, over: &[Value]) {
    let name = |template: &Value| template.as_object()?.keys().next().cloned();
    for template in over {
        match under.iter_mut().find(|known| name(known) == name(template)) {
            Some(known) => *known = template.clone(),
            None => under.push(template.clone()),
        }
    }
}

fn texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn patterns(template: &Value) -> Vec<&str> {
    texts(template.get("index_patterns"))
}

fn priority(template: &Value) -> u64 {
    template.get("priority").and_then(Value::as_u64).unwrap_or_default()
}

/// `PUT` of `/_index_template/{name}`, `/_component_template/{name}` and `/_template/{name}`.
pub(crate) async fn put(call: Call, kind: Kind) -> Result<Answer> {
    let name = call.part("name").unwrap_or_default().to_owned();
    if name.is_empty() || name.contains(['*', ',', ' ']) || name.starts_with('_') || name.len() > 200 {
        return Err(ApiError::invalid(format!("[{name}] is not the name of a template")));
    }
    if call.body.len() > BYTES_MAX {
        return Err(ApiError::invalid(format!("a template has at most {BYTES_MAX} bytes")));
    }
    let mut body = call.object()?;
    if let Some(order) = call.params.number("order")? {
        body.insert("order".to_owned(), order.into());
    }
    let body = Value::Object(body);
    check(&body, kind)?;
    let template = if kind == Kind::Legacy { Some(&body) } else { body.get("template") };
    let aliases = template.and_then(|template| template.get("aliases"));
    check_filters(&call.state, &About::read_all(aliases)?).await?;
    let create = call.params.flag("create")?.unwrap_or(false);
    let refused = parking_lot::Mutex::new(None);
    let plan = |records: &Records| match conflict(records, kind, &name, &body, create) {
        Ok(()) => {
            let value = Some(body.clone());
            Ok(vec![RecordChange::Other { kind: kind.record(), name: name.clone(), value }])
        }
        Err(error) => {
            let reason = error.reason.clone();
            *refused.lock() = Some(error);
            Err(frostline_base::Error::invalid(reason))
        }
    };
    let put = call.state.node.catalog().change_records("template", plan).await;
    let refused = refused.into_inner();
    put.map_err(|e| refused.unwrap_or_else(|| e.into()))?;
    let settings =
        if kind == Kind::Legacy { body.get("settings") } else { body.pointer("/template/settings") };
    let mappings =
        if kind == Kind::Legacy { body.get("mappings") } else { body.pointer("/template/mappings") };
    let of_mapping = mapping::warning(&mapping(mappings.unwrap_or(&Value::Null), Definitions::unknown())?);
    let warnings = settings::warning(settings).into_iter().chain(of_mapping);
    Ok(Answer::json(&json!({ "acknowledged": true }))?.with_warnings(warnings))
}

/// Refuses a template that says what is not understood.
fn check(body: &Value, kind: Kind) -> Result<()> {
    let Value::Object(members) = body else { return Err(ApiError::unparsed("a template is an object")) };
    only(
        members,
        match kind {
            Kind::Component => &["_meta", "allow_auto_create", "deprecated", "template", "version"],
            Kind::Index => &[
                "_meta",
                "allow_auto_create",
                "composed_of",
                "data_stream",
                "deprecated",
                "ignore_missing_component_templates",
                "index_patterns",
                "priority",
                "template",
                "version",
            ],
            Kind::Legacy => &["aliases", "index_patterns", "mappings", "order", "settings", "version"],
        },
    )?;
    if kind != Kind::Component && patterns(body).is_empty() {
        return Err(ApiError::invalid("Validation Failed: 1: index patterns are missing;"));
    }
    if let Some(Value::Object(stream)) = body.get("data_stream") {
        only_in("data_stream", stream, &["allow_custom_routing", "hidden"])?;
    }
    if body.get("priority").is_some_and(|priority| priority.as_u64().is_none()) {
        return Err(ApiError::unparsed("[priority] is a whole number of at least 0"));
    }
    if body.get("order").is_some_and(|order| order.as_i64().is_none()) {
        return Err(ApiError::unparsed("[order] is a whole number"));
    }
    let template = if kind == Kind::Legacy { Some(body) } else { body.get("template") };
    let Some(template) = template else { return Ok(()) };
    let template = template.as_object().ok_or_else(|| ApiError::unparsed("[template] is an object"))?;
    if kind != Kind::Legacy {
        only_in("template", template, &["aliases", "lifecycle", "mappings", "settings"])?;
    }
    lifecycle::read(template.get("lifecycle").unwrap_or(&Value::Null))?;
    About::read_all(template.get("aliases"))?;
    IndexSettings::read(template.get("settings"))?;
    // With the mapping of this template alone: another one may declare the field.
    let alone =
        Composed { settings: template.get("settings").cloned().unwrap_or_default(), ..Composed::default() };
    let alone = Composed { mappings: template.get("mappings").cloned().unwrap_or_default(), ..alone };
    match kind {
        // A component may define what its fields are compared by.
        Kind::Index => drop(alone.mapping_by(Definitions::unknown())?),
        _ => drop(alone.mapping_of_part()?),
    }
    Ok(())
}

/// Refuses a template that does not go with the others.
fn conflict(records: &Records, kind: Kind, name: &str, body: &Value, create: bool) -> Result<()> {
    if create && records.other(kind.record(), name).is_some() {
        return Err(ApiError::invalid(format!("{} [{name}] already exists", kind.name())));
    }
    if kind != Kind::Index {
        return Ok(());
    }
    let refused =
        |reason: String| ApiError::new(StatusCode::BAD_REQUEST, "invalid_index_template_exception", reason);
    let may_miss = texts(body.get("ignore_missing_component_templates"));
    let components = texts(body.get("composed_of"));
    let missing = components
        .iter()
        .find(|part| !may_miss.contains(part) && records.other(Kind::Component.record(), part).is_none());
    if let Some(part) = missing {
        return Err(refused(format!(
            "index_template [{name}] invalid, cause [index template [{name}] specifies component templates [{part}] \
             that do not exist]"
        )));
    }
    let composed = composed(records, name, body)?;
    composed.mapping()?;
    if composed.lifecycle()?.is_some() && !composed.data_stream {
        return Err(refused(format!(
            "index template [{name}] specifies lifecycle configuration that can only be used in combination with a data stream"
        )));
    }
    let same = records
        .others(kind.record())
        .filter(|(other, template)| *other != name && priority(template) == priority(body))
        .find(|(_, template)| {
            patterns(template).iter().any(|a| patterns(body).iter().any(|b| overlap(a, b)))
        });
    match same {
        Some((other, _)) => Err(refused(format!(
            "index template [{name}] has index patterns {:?} matching patterns from existing templates [{other}] that have \
             the same priority [{}], multiple index templates may not match during index creation, please use a \
             different priority",
            patterns(body),
            priority(body)
        ))),
        None => Ok(()),
    }
}

/// Whether some name matches both patterns.
fn overlap(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Whether the rests from here on do: the last row first.
    let mut below = vec![false; b.len() + 1];
    for i in (0..=a.len()).rev() {
        let mut row = vec![false; b.len() + 1];
        for j in (0..=b.len()).rev() {
            row[j] = match (a.get(i), b.get(j)) {
                (None, None) => true,
                (Some('*'), _) if below[j] => true,
                (_, Some('*')) if row[j + 1] => true,
                (Some('*'), Some(_)) => row[j + 1],
                (Some(_), Some('*')) => below[j],
                (Some(a), Some(b)) => a == b && below[j + 1],
                _ => false,
            };
        }
        below = row;
    }
    below[0]
}

/// `GET /_index_template/{name}` and `GET /_component_template/{name}`.
pub(crate) async fn get(call: Call, kind: Kind) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let wanted = call.part("name").unwrap_or("*");
    let found = matching(&records, kind, wanted)?;
    let member = kind.record();
    let flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let each = found.iter().map(|(name, body)| json!({ "name": name, member: shown(body, flat) }));
    Answer::json(&json!({ format!("{member}s"): each.collect::<Vec<_>>() }))
}

/// A template with its patterns as a list and its settings as Elasticsearch shows them.
fn shown(body: &Value, flat: bool) -> Value {
    let mut shown = body.clone();
    if body.get("index_patterns").is_some() {
        shown["index_patterns"] = json!(patterns(body));
    }
    if let Some(kept) = body.pointer("/template/settings") {
        shown["template"]["settings"] = settings::shown(Some(kept), flat);
    }
    shown
}

/// `GET /_template/{name}`. What is missing is an empty answer of status 404.
pub(crate) async fn get_legacy(call: Call) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let wanted = call.part("name").unwrap_or("*");
    let found = match matching(&records, Kind::Legacy, wanted) {
        Err(error) if error.status == StatusCode::NOT_FOUND => {
            return Ok(Answer::json(&json!({}))?.with_status(StatusCode::NOT_FOUND));
        }
        found => found?,
    };
    let each = found.into_iter().map(|(name, body)| (name.to_owned(), legacy_json(body, flat)));
    Answer::json(&each.collect::<Map<_, _>>())
}

/// The templates of the old form, as they are shown.
pub(crate) fn all_legacy(records: &Records) -> Map<String, Value> {
    let all = records.others(Kind::Legacy.record());
    all.map(|(name, body)| (name.to_owned(), legacy_json(body, false))).collect()
}

fn legacy_json(body: &Value, flat: bool) -> Value {
    let object = |member: &str| body.get(member).filter(|value| !value.is_null()).cloned();
    let mut shown = json!({
        "order": template_order(body),
        "index_patterns": patterns(body),
        "settings": settings::shown(body.get("settings"), flat),
        "mappings": object("mappings").unwrap_or_else(|| json!({})),
        "aliases": object("aliases").unwrap_or_else(|| json!({})),
    });
    if let Some(version) = body.get("version") {
        shown["version"] = version.clone();
    }
    shown
}

/// The templates of these names; an error of status 404 where there is none of a name without a wildcard.
pub(crate) fn matching<'a>(
    records: &'a Records,
    kind: Kind,
    wanted: &str,
) -> Result<Vec<(&'a str, &'a Value)>> {
    let is_wanted = |name: &str| wanted.split(',').any(|pattern| wildcard_matches(pattern, name));
    let missing =
        wanted.split(',').find(|name| !name.contains('*') && records.other(kind.record(), name).is_none());
    match missing {
        Some(name) if kind == Kind::Legacy => Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "index_template_missing_exception",
            format!("index_template [{name}] missing"),
        )),
        Some(name) => Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "resource_not_found_exception",
            format!("{} matching [{name}] not found", kind.name()),
        )),
        None => Ok(records.others(kind.record()).filter(|(name, _)| is_wanted(name)).collect()),
    }
}

/// `DELETE` of the same paths as [`put`].
pub(crate) async fn delete(call: Call, kind: Kind) -> Result<Answer> {
    let wanted = call.part("name").unwrap_or_default();
    let catalog = call.state.node.catalog();
    matching(&catalog.records().await?, kind, wanted)?;
    let plan = |records: &Records| {
        let found = matching(records, kind, wanted).unwrap_or_default();
        let names: Vec<&str> = found.into_iter().map(|(name, _)| name).collect();
        if let Some(user) = user_of(records, kind, &names) {
            return Err(frostline_base::Error::invalid(user));
        }
        let gone =
            |name: &&str| RecordChange::Other { kind: kind.record(), name: (*name).to_owned(), value: None };
        Ok(names.iter().map(gone).collect())
    };
    catalog.change_records("delete template", plan).await?;
    Answer::json(&json!({ "acknowledged": true }))
}

/// Why templates cannot be deleted: something is made from them.
fn user_of(records: &Records, kind: Kind, names: &[&str]) -> Option<String> {
    match kind {
        Kind::Legacy => None,
        Kind::Component => records.others(Kind::Index.record()).find_map(|(template, body)| {
            let used = texts(body.get("composed_of")).into_iter().find(|part| names.contains(part))?;
            Some(format!("component templates [{used}] cannot be removed as they are still in use by index templates [{template}]"))
        }),
        Kind::Index => records.data_streams().iter().find_map(|(stream, about)| {
            let used = names.iter().find(|name| **name == about.template)?;
            Some(format!("unable to remove composable templates [{used}] as they are in use by a data streams [{stream}]"))
        }),
    }
}

/// `POST /_index_template/_simulate_index/{name}`: what an index of that name would be made with, were there also the
/// template in the body.
pub(crate) async fn simulate_index(call: Call) -> Result<Answer> {
    let name = call.part("name").unwrap_or_default();
    let records = call.state.node.records().await?;
    let template = of_body(&call, &records, "").await?;
    let fits = template.filter(|body| {
        let best = index_template_of(&records, name).map(|(_, template)| priority(template));
        patterns(body).iter().any(|pattern| wildcard_matches(pattern, name))
            && best.is_none_or(|best| best <= priority(body))
    });
    let (of, body) = match (fits, index_template_of(&records, name)) {
        (Some(body), _) => ("", body),
        (None, Some((of, body))) => (of, body.clone()),
        (None, None) => match of_legacy(&records, name)? {
            Some(composed) => return simulated(&composed, Vec::new()),
            None => return Answer::json(&json!({})),
        },
    };
    simulated(&composed(&records, of, &body)?, overlapping(&records, of, &body))
}

/// `POST /_index_template/_simulate/{name}`: what the template in the body says with its components, or else the one of
/// that name.
pub(crate) async fn simulate(call: Call) -> Result<Answer> {
    let name = call.part("name").unwrap_or_default();
    let records = call.state.node.records().await?;
    let body = match of_body(&call, &records, name).await? {
        Some(body) => body,
        None if name.is_empty() => return Err(ApiError::invalid("name a template, or give one in the body")),
        None => records.other(Kind::Index.record(), name).cloned().ok_or_else(|| {
            ApiError::invalid(format!("unable to simulate template [{name}] that does not exist"))
        })?,
    };
    simulated(&composed(&records, name, &body)?, overlapping(&records, name, &body))
}

/// The index template in a body, as if it was put under that name.
async fn of_body(call: &Call, records: &Records, name: &str) -> Result<Option<Value>> {
    let Some(body) = call.json()? else { return Ok(None) };
    check(&body, Kind::Index)?;
    check_filters(&call.state, &About::read_all(body.pointer("/template/aliases"))?).await?;
    conflict(records, Kind::Index, name, &body, false)?;
    Ok(Some(body))
}

/// The other templates of which some name matches the patterns too, those of the old form first.
fn overlapping(records: &Records, of: &str, body: &Value) -> Vec<Value> {
    let overlaps =
        |template: &Value| patterns(template).iter().any(|a| patterns(body).iter().any(|b| overlap(a, b)));
    let legacy = records.others(Kind::Legacy.record());
    let others = records.others(Kind::Index.record()).filter(|(name, _)| *name != of);
    let found = legacy.chain(others).filter(|(_, template)| overlaps(template));
    found.map(|(name, template)| json!({ "name": name, "index_patterns": patterns(template) })).collect()
}

fn simulated(composed: &Composed, overlapping: Vec<Value>) -> Result<Answer> {
    let mappings = if composed.mappings.is_null() { json!({}) } else { composed.mappings.clone() };
    let aliases = composed.aliases.iter().map(|(name, about)| (name.to_string(), about.to_json()));
    let mut template = json!({
        "settings": settings::shown(Some(&composed.settings), false),
        "mappings": mappings,
        "aliases": aliases.collect::<Map<_, _>>(),
    });
    if let Some(of_stream) = composed.lifecycle()? {
        template["lifecycle"] = lifecycle::shown(&of_stream);
    }
    Answer::json(&json!({ "template": template, "overlapping": overlapping }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tested;

    #[tokio::test]
    async fn what_a_template_would_make_is_shown() {
        let tested = Tested::new();
        let put = async |path: &str, body: Value| drop(tested.ok("PUT", path, &body.to_string()).await);
        let of = |ty: &str| json!({ "mappings": { "properties": { "f": { "type": ty } } } });
        put("/_template/old", json!({ "index_patterns": ["l*"], "settings": { "number_of_shards": 2 } }))
            .await;
        put("/_component_template/part", json!({ "template": { "settings": { "index.hidden": true } } }))
            .await;
        let kept = json!({ "index_patterns": "logs*", "priority": 5, "template": of("ip") });
        put("/_index_template/kept", kept).await;
        let simulate =
            async |path: &str, body: &str| tested.ok("POST", &format!("/_index_template/{path}"), body).await;
        let old = json!({ "name": "old", "index_patterns": ["l*"] });
        let shown = simulate("_simulate/kept", "").await;
        assert_eq!(shown["template"]["mappings"], of("ip")["mappings"]);
        assert_eq!(shown["overlapping"], json!([old]));
        assert_eq!(simulate("_simulate_index/logs-1", "").await, shown);
        let body = json!({
            "index_patterns": "logs-*", "priority": 7, "composed_of": ["part"], "template": of("long"),
        });
        let shown = simulate("_simulate", &body.to_string()).await;
        assert_eq!(shown["template"]["settings"], json!({ "index": { "hidden": "true" } }));
        let overlapping = json!([old, { "name": "kept", "index_patterns": ["logs*"] }]);
        assert_eq!(shown["overlapping"], overlapping);
        assert_eq!(simulate("_simulate_index/logs-1", &body.to_string()).await, shown);
        // The template in the body does not fit.
        let kept = simulate("_simulate_index/logs", &body.to_string()).await;
        assert_eq!(kept["template"]["mappings"], of("ip")["mappings"]);
        let legacy = simulate("_simulate_index/later", "").await;
        assert_eq!(legacy["template"]["settings"], json!({ "index": { "number_of_shards": "2" } }));
        assert_eq!(simulate("_simulate_index/other", "").await, json!({}));
        // Nothing was put.
        assert_eq!(
            tested.ok("GET", "/_index_template", "").await["index_templates"].as_array().unwrap().len(),
            1
        );
        for (path, body) in [
            ("_simulate", ""),
            ("_simulate/gone", ""),
            ("_simulate", r#"{"index_patterns":"x","composed_of":["gone"]}"#),
        ] {
            assert_eq!(
                tested.error("POST", &format!("/_index_template/{path}"), body).await.0,
                400,
                "{path} {body}"
            );
        }
    }

    /// An earlier version took settings with `*` that reset nothing. What it kept goes on making indices.
    #[tokio::test]
    async fn a_kept_template_with_a_wildcard_that_resets_nothing_makes_indices() {
        let tested = Tested::new();
        let settings =
            |name: &str| json!({ "settings": { name: "1s", "index": { "refresh_interval": "9s" } } });
        let kept = [
            (Kind::Component, "part", json!({ "template": settings("index.part.*") })),
            (
                Kind::Index,
                "logs",
                json!({
                    "index_patterns": ["logs-*"], "composed_of": ["part"], "template": settings("search.*.warn"),
                }),
            ),
            (
                Kind::Index,
                "streams",
                json!({ "index_patterns": ["stream-*"], "data_stream": {}, "template": settings("s.*") }),
            ),
            (Kind::Legacy, "old", json!({ "index_patterns": ["old-*"], "settings": { "index.o*": 1 } })),
        ];
        let change = |(kind, name, body): &(Kind, &str, Value)| RecordChange::Other {
            kind: kind.record(),
            name: (*name).to_owned(),
            value: Some(body.clone()),
        };
        let changes: Vec<RecordChange> = kept.iter().map(change).collect();
        let catalog = tested.state.node.catalog();
        catalog.change_records("templates", |_| Ok(changes.clone())).await.unwrap();
        for (path, ignored) in [
            ("/logs-1", "[index.part.*], [index.search.*.warn] of the template [logs]"),
            ("/old-1", "[index.o*] of the template [old]"),
            ("/_data_stream/stream-1", "[index.s.*] of the template [streams]"),
        ] {
            let made = tested.send("PUT", path, "").await;
            let warning = made.header("warning");
            assert!(made.status == StatusCode::OK && warning.contains(ignored), "{path} {made:?}");
        }
        for (name, interval) in
            [("logs-1", json!("9s")), ("old-1", Value::Null), ("ds-stream-1-000001", json!("9s"))]
        {
            let shown = tested.ok("GET", &format!("/{name}/_settings?flat_settings"), "").await;
            let settings = shown[name]["settings"].as_object().unwrap();
            assert!(settings.keys().all(|name| !name.contains('*')), "{shown}");
            assert_eq!(shown[name]["settings"]["index.refresh_interval"], interval, "{shown}");
        }
        // Documents make them too, and so does a rollover.
        for name in ["logs-2", "old-2", "stream-2"] {
            let stored =
                tested.send("POST", &format!("/{name}/_doc"), r#"{"@timestamp":"2024-05-01"}"#).await;
            assert_eq!(stored.status, StatusCode::CREATED, "{name} {stored:?}");
        }
        tested.ok("POST", "/stream-1/_rollover", "").await;
        let shown = tested.ok("POST", "/_index_template/_simulate_index/logs-3", "").await;
        assert_eq!(shown["template"]["settings"], json!({ "index": { "refresh_interval": "9s" } }));
        // Nothing else can be put, and a template that is put anew is refused as before.
        for (path, name, body) in [("_index_template", "logs", &kept[1].2), ("_template", "old", &kept[3].2)]
        {
            let (status, _, reason) =
                tested.error("PUT", &format!("/{path}/{name}"), &body.to_string()).await;
            assert!(status == 400 && reason.contains("a name with [*] resets settings"), "{reason}");
        }
        let other = json!({ "index_patterns": ["other-*"], "composed_of": ["part"] });
        tested.ok("PUT", "/_index_template/other", &other.to_string()).await;
    }

    /// What defines analyzers may come from one component, and the fields that have them from another template.
    #[tokio::test]
    async fn indices_have_the_analyzers_of_their_templates() {
        let tested = Tested::new();
        let analysis = json!({
            "analyzer": { "mine": { "tokenizer": "whitespace", "filter": ["lowercase", "half"] } },
            "filter": { "half": { "type": "truncate", "length": 2 } },
            "normalizer": { "plain": { "type": "custom", "filter": ["lowercase", "asciifolding"] } },
        });
        let component = json!({ "template": { "settings": { "analysis": analysis } } }).to_string();
        tested.ok("PUT", "/_component_template/words", &component).await;
        let properties = json!({
            "line": { "type": "text", "analyzer": "mine", "search_analyzer": "standard" },
            "host": { "type": "keyword", "normalizer": "plain" },
            "raw": { "type": "text", "fields": { "words": { "type": "text", "analyzer": "mine" } } },
        });
        let dynamic = json!([{ "hosts": { "match": "*_host", "mapping": { "type": "keyword", "normalizer": "plain" } } }]);
        let template = json!({
            "settings": { "index.analysis.filter.half.length": 3 },
            "mappings": { "properties": properties, "dynamic_templates": dynamic },
        });
        let of = |pattern: &str, stream: bool| {
            let mut body =
                json!({ "index_patterns": pattern, "composed_of": ["words"], "template": template });
            if stream {
                body["data_stream"] = json!({});
            }
            body.to_string()
        };
        for (name, body) in [("a", of("a-*", false)), ("s", of("s-*", true))] {
            let put = tested.send("PUT", &format!("/_index_template/{name}"), &body).await;
            assert_eq!((put.status.as_u16(), put.header("warning")), (200, ""), "{name}");
        }
        let mut composed = analysis.clone();
        composed["filter"]["half"]["length"] = json!("3");
        let simulated = tested.ok("POST", "/_index_template/_simulate/a", "").await["template"].clone();
        assert_eq!(simulated["settings"]["index"]["analysis"], composed);
        assert_eq!(simulated["mappings"]["properties"], properties);
        let kept =
            tested.ok("GET", "/_index_template/a", "").await["index_templates"][0]["index_template"].clone();
        assert_eq!(
            kept["template"]["settings"]["index"]["analysis"]["filter"]["half"],
            json!({ "length": "3" })
        );
        assert_eq!(kept["template"]["mappings"], template["mappings"]);
        let document = json!({
            "@timestamp": "2024-01-01T00:00:00Z", "line": "Server Two", "host": "Köln", "raw": "Server", "other_host": "KÖLN",
        });
        for name in ["a-1", "s-1"] {
            tested.send("POST", &format!("/{name}/_doc?refresh=true"), &document.to_string()).await;
            let found = async |query: Value| {
                let body = json!({ "query": query }).to_string();
                tested.ok("POST", &format!("/{name}/_search"), &body).await["hits"]["total"]["value"].clone()
            };
            assert_eq!(found(json!({ "match": { "line": "ser" } })).await, 1);
            assert_eq!(found(json!({ "match": { "line": "server" } })).await, 0);
            assert_eq!(found(json!({ "match": { "raw.words": "SERvant" } })).await, 1);
            assert_eq!(found(json!({ "term": { "host": "koln" } })).await, 1);
            assert_eq!(found(json!({ "term": { "other_host": "koln" } })).await, 1);
            let of_one = |answer: Value| answer.as_object().unwrap().values().next().unwrap().clone();
            let settings = of_one(tested.ok("GET", &format!("/{name}/_settings"), "").await);
            assert_eq!(settings["settings"]["index"]["analysis"], composed);
            let mapping = of_one(tested.ok("GET", &format!("/{name}/_mapping"), "").await);
            let shown = &mapping["mappings"];
            assert_eq!(shown["properties"]["line"], properties["line"]);
            assert_eq!(shown["properties"]["host"], properties["host"]);
            assert_eq!(shown["properties"]["raw"]["fields"]["words"], properties["raw"]["fields"]["words"]);
            assert_eq!(shown["properties"]["other_host"]["normalizer"], "plain");
            assert_eq!(shown["dynamic_templates"], dynamic);
        }
        // The next index of the stream has them, too.
        tested.ok("POST", "/s-1/_rollover", "").await;
        tested.send("POST", "/s-1/_doc?refresh=true", &document.to_string()).await;
        let body = json!({ "query": { "match": { "line": "ser" } } }).to_string();
        assert_eq!(tested.ok("POST", "/s-1/_search", &body).await["hits"]["total"]["value"], 2);
        // What is nowhere defined is refused: of an index template, by all of its components together.
        let gone = json!({ "mappings": { "properties": { "f": { "type": "text", "analyzer": "gone" } } } });
        for (path, body) in [
            (
                "/_index_template/b",
                json!({ "index_patterns": "b-*", "composed_of": ["words"], "template": gone }),
            ),
            ("/_component_template/b", json!({ "template": gone })),
            ("/_template/b", json!({ "index_patterns": "b-*", "mappings": gone["mappings"] })),
        ] {
            let (status, _, reason) = tested.error("PUT", path, &body.to_string()).await;
            assert_eq!(status, 400, "{path}");
            assert!(reason.contains("analyzer [gone] has not been configured"), "{reason}");
        }
        let wrong = json!({ "template": { "settings": { "analysis": { "analyzer": { "a": { "tokenizer": "thai" } } } } } });
        let (_, _, reason) = tested.error("PUT", "/_component_template/b", &wrong.to_string()).await;
        assert_eq!(reason, "Custom Analyzer [a] failed to find tokenizer under name [thai]");
    }

    #[test]
    fn patterns_overlap_where_a_name_matches_both() {
        for (a, b) in [
            ("logs-*", "logs-app-*"),
            ("*", "x"),
            ("a*c", "ab*"),
            ("*-x", "logs-*"),
            ("a", "a"),
            ("**", "a*"),
        ] {
            assert!(overlap(a, b) && overlap(b, a), "{a} {b}");
        }
        for (a, b) in
            [("logs-*", "metrics-*"), ("a", "b"), ("a*c", "ab*d"), ("a", "aa"), ("", "a"), ("*-x", "logs-y")]
        {
            assert!(!overlap(a, b) && !overlap(b, a), "{a} {b}");
        }
    }

    #[test]
    fn what_comes_later_counts_and_leaves_the_rest() {
        let mut under = json!({ "properties": { "a": { "type": "long" }, "b": { "type": "ip" } } });
        overlay(
            &mut under,
            &json!({ "properties": { "a": { "type": "keyword" }, "c": {} }, "dynamic": false }),
        );
        let expected = json!({
            "properties": { "a": { "type": "keyword" }, "b": { "type": "ip" }, "c": {} }, "dynamic": false,
        });
        assert_eq!(under, expected);
    }
}
