//! Mappings as Elasticsearch writes them in JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::analyses::{self, Analyses};
use super::{Field, FieldType, KEYWORD, Mapping, Mode, ShownSource, ValueType, whole_name};
use crate::analysis::Definitions;
use crate::ranges::RangeType;
use crate::unique_keys::check_unique_keys;
use crate::{Error, Result};

/// Parameters that say how Elasticsearch stores or ranks a field, not what a search finds: taken and
/// forgotten.
const HARMLESS: [&str; 19] = [
    "store",
    "norms",
    "similarity",
    "term_vector",
    "index_phrases",
    "index_prefixes",
    "ignore_above",
    "eager_global_ordinals",
    "index_options",
    "fielddata",
    "meta",
    "split_queries_on_whitespace",
    "depth_limit",
    "coerce",
    "ignore_malformed",
    "locale",
    "time_series_dimension",
    "time_series_metric",
    "synthetic_source_keep",
];

/// Likewise, of fields of one type.
const HARMLESS_OF_TYPE: [(FieldType, &str); 6] = [
    (FieldType::GeoPoint, "ignore_z_value"),
    (FieldType::GeoShape, "ignore_z_value"),
    (FieldType::GeoShape, "orientation"),
    (FieldType::AggregateMetricDouble, "metrics"),
    (FieldType::AggregateMetricDouble, "default_metric"),
    (FieldType::AggregateMetricDouble, "metric_type"),
];

/// What dates are read and written by where nothing else is said,
pub(super) const USUAL_FORMAT: &str = "strict_date_optional_time||epoch_millis";
/// and what says the same.
const USUAL_FORMATS: [&str; 3] =
    [USUAL_FORMAT, "strict_date_optional_time_nanos||epoch_millis", "strict_date_optional_time"];

/// Formats whose dates a field of dates reads ([`parse_moment_field`](crate::values::parse_moment_field)).
pub(super) const DATE_FORMATS: &[&str] = &[
    "strict_date_optional_time",
    "date_optional_time",
    "strict_date_optional_time_nanos",
    "iso8601",
    "strict_date",
    "date",
    "yyyy-MM-dd",
    "uuuu-MM-dd",
    "strict_date_time",
    "date_time",
    "strict_date_time_no_millis",
    "date_time_no_millis",
    "strict_date_hour_minute_second",
    "date_hour_minute_second",
    "yyyy-MM-dd'T'HH:mm:ss",
    "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "yyyy-MM-dd'T'HH:mm:ssXXX",
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "yyyy-MM-dd HH:mm:ss",
    "uuuu-MM-dd HH:mm:ss",
    "yyyy-MM-dd HH:mm:ss.SSS",
    "uuuu-MM-dd HH:mm:ss.SSS",
    "yyyy-MM-dd HH:mm:ss.SSSSSS",
    "yyyy-MM-dd HH:mm:ssXXX",
    "yyyy-MM-dd HH:mm:ss Z",
    "yyyy/MM/dd HH:mm:ss",
    "uuuu/MM/dd HH:mm:ss",
    "yyyy/MM/dd HH:mm:ss.SSS",
    "yyyy/MM/dd HH:mm:ss Z",
    "dd/MMM/yyyy:HH:mm:ss Z",
    "epoch_millis",
    "epoch_second",
];

/// Objects inside each other that a mapping may have.
const DEPTH_MAX: usize = 64;

impl Mapping {
    /// Reads an Elasticsearch mapping: `{"properties": …}`, alone or as `GET index/_mapping`, an index template or the
    /// body that creates an index has it. Of their settings the analysis counts, by which fields are compared. Types and parameters that
    /// would change what a search finds and that Frostline does not do are `Invalid`, by name.
    pub fn from_elasticsearch_json(json: &Value) -> Result<Mapping> {
        Mapping::from_elasticsearch_json_with(json, Mapping::definitions_beside(json)?)
    }

    /// What the settings define that are beside the mapping in what APIs answer and take.
    pub fn definitions_beside(json: &Value) -> Result<Definitions> {
        settings_beside(json).map_or(Ok(Definitions::default()), Definitions::from_settings)
    }

    /// The same of an index whose settings define this.
    pub fn from_elasticsearch_json_with(json: &Value, definitions: Definitions) -> Result<Mapping> {
        let root = Mapping::inside(json)?;
        let mut mapping = Mapping { definitions, ..Mapping::dynamic() };
        if let Some(mode) = root.get("dynamic") {
            mapping.mode = read_mode(mode)?;
        }
        for (key, value) in root {
            mapping.read_root(key, value)?;
        }
        mapping.check_copies()?;
        Ok(mapping)
    }

    /// The mapping inside of what APIs answer and take: what `properties` is a member of.
    pub fn inside(json: &Value) -> Result<&Map<String, Value>> {
        inside(as_object(json, "the mapping")?)
    }

    /// The same from the bytes of a request or a file. A key given twice in one object is `Invalid`, too.
    pub fn from_elasticsearch_bytes(json: &[u8]) -> Result<Mapping> {
        Self::from_elasticsearch_json(&Mapping::json_of_bytes(json)?)
    }

    /// A mapping's JSON, not read yet. A key given twice in one object is `Invalid`.
    pub fn json_of_bytes(json: &[u8]) -> Result<Value> {
        let parsed = check_unique_keys(json).and_then(|()| serde_json::from_slice(json));
        let invalid = |error| Error::invalid("the mapping is not valid JSON").with_source(error);
        parsed.map_err(invalid)
    }

    /// Elasticsearch's name of the type of the documents' time.
    pub fn time_name(&self) -> &'static str {
        if self.has_nanos { DATE_NANOS } else { FieldType::Date.name() }
    }

    /// Elasticsearch's name of the type of what has this name: of the field that an alias is of, and of those that are
    /// copied to a field that is not declared.
    pub fn type_name_of(&self, name: &str) -> Option<&'static str> {
        if let Some(of) = self.aliases.get(name) {
            return self.own_type_name_of(of);
        }
        self.own_type_name_of(name).or_else(|| {
            let full = self.passed_through().map(|parent| format!("{parent}.{name}"));
            { full }.find_map(|full| self.own_type_name_of(&full))
        })
    }

    /// The type of what has this name.
    pub fn type_of(&self, name: &str) -> Option<FieldType> {
        match self.type_name_of(name)? {
            DATE_NANOS => Some(FieldType::Date),
            name => FieldType::NAMES.iter().find(|(_, known)| *known == name).map(|(ty, _)| *ty),
        }
    }

    /// What the ranges of the field of this name hold; none where it has no ranges.
    pub fn range_type_of(&self, name: &str) -> Option<RangeType> {
        self.type_of(name).and_then(RangeType::of)
    }

    /// The other names of a field's values that are shown.
    pub(super) fn shown_names(&self, path: &str, field: &Field) -> BTreeMap<String, FieldType> {
        let mut names = field.shown_names();
        if self.hidden_names.contains(&whole_name(path)) {
            names.remove(KEYWORD);
        }
        names
    }

    fn own_type_name_of(&self, name: &str) -> Option<&'static str> {
        if self.is_time(name) {
            return Some(self.time_name());
        }
        let shown = |path: &str| self.field(path).and_then(Field::shown_name);
        if let Some(own) = shown(name).filter(|_| !self.aliases.contains_key(name)) {
            return Some(own);
        }
        if let Some((parent, ty)) = self.of_other_name(name)
            && (shown(parent).is_some() || self.copies.contains_key(parent))
        {
            return Some(ty.name());
        }
        let mut copied = self.copies.get(name)?.iter().filter_map(|from| shown(from));
        let first = copied.next()?;
        Some(if copied.all(|other| other == first) { first } else { FieldType::Text.name() })
    }

    /// Writes the mapping as Elasticsearch would. A field whose values have several types is written
    /// with the type that reads them all; [`Mapping::conflicts`] lists them.
    pub fn to_elasticsearch_json(&self) -> Value {
        let mut properties = Map::new();
        for (path, field) in &self.fields {
            if self.is_in_flattened(path) && field.declared.is_none() {
                continue;
            }
            if let Some(body) = field.to_json(&self.shown_names(path, field)) {
                put(&mut properties, path, body);
            }
        }
        for (path, of) in &self.aliases {
            put(&mut properties, path, json!({"path": of}));
        }
        let mut copies: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (to, from) in &self.copies {
            from.iter().for_each(|from| copies.entry(from).or_default().push(to));
        }
        for (path, to) in copies.into_iter().filter(|(path, _)| self.fields.contains_key(*path)) {
            put(&mut properties, path, json!({"copy_to": to}));
        }
        put(&mut properties, &self.time_field, json!({"type": self.time_name()}));
        for (path, mode) in &self.rules.objects {
            let body = match mode {
                Mode::Disabled => json!({"type": "object", "enabled": false}),
                mode => json!({"dynamic": mode_name(*mode)}),
            };
            put(&mut properties, path, body);
        }
        let mut shown = json!({"dynamic": mode_name(self.mode)});
        if self.rules.dates_are_text {
            shown["date_detection"] = json!(false);
        }
        if self.rules.numbers_in_text {
            shown["numeric_detection"] = json!(true);
        }
        let templates = self.rules.templates_json();
        if !templates.is_empty() {
            shown["dynamic_templates"] = Value::Array(templates);
        }
        if !self.source.is_whole() {
            shown["_source"] = self.source.to_json();
        }
        shown["properties"] = Value::Object(properties);
        shown
    }

    /// Types that fields are declared as, and templates give them, for which there are no queries, each once.
    pub fn types_without_queries(&self) -> BTreeSet<&'static str> {
        let declared = self.fields.values().filter_map(|field| field.declared);
        let by_templates = self.rules.types_of_templates();
        declared.chain(by_templates).filter(|ty| ty.has_no_queries()).map(FieldType::name).collect()
    }

    fn read_root(&mut self, key: &str, value: &Value) -> Result<()> {
        match key {
            "properties" => self.read_properties("", value, 0),
            "dynamic" | "_meta" | "_field_names" => Ok(()),
            "_source" => {
                self.source = ShownSource::read(value)?;
                Ok(())
            }
            "_routing" if *value == json!({}) || *value == json!({"required": false}) => Ok(()),
            "_size" if *value == json!({}) || *value == json!({"enabled": false}) => Ok(()),
            "_data_stream_timestamp" if *value == json!({"enabled": true}) => Ok(()),
            "runtime" if *value == json!({}) => Ok(()),
            "subobjects" => Ok(()),
            "dynamic_date_formats" if is_known_formats(value) => Ok(()),
            "dynamic_templates" => self.rules.read_templates(value, &self.definitions),
            "date_detection" => {
                self.rules.dates_are_text = !read_flag("", key, value)?;
                Ok(())
            }
            "numeric_detection" => {
                self.rules.numbers_in_text = read_flag("", key, value)?;
                Ok(())
            }
            _ => Err(Error::invalid(format!(
                "the mapping's parameter {key:?} is not supported: {}",
                instead_of_root(key)
            ))),
        }
    }

    fn read_properties(&mut self, prefix: &str, json: &Value, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Error::invalid(format!(
                "the mapping is deeper than {DEPTH_MAX} objects at {prefix:?}"
            )));
        }
        for (name, body) in as_object(json, "\"properties\"")? {
            if name.split('.').any(str::is_empty) {
                return Err(Error::invalid(format!(
                    "field name {name:?} below {prefix:?} has an empty part"
                )));
            }
            self.read_field(&format!("{prefix}{name}"), body, depth)?;
        }
        Ok(())
    }

    pub(super) fn read_field(&mut self, path: &str, json: &Value, depth: usize) -> Result<()> {
        let body = as_object(json, path)?;
        let ty = match body.get("type") {
            // Dates have nanoseconds under either name.
            Some(ty) if *ty == DATE_NANOS => FieldType::Date,
            Some(ty) => read_type(path, ty)?,
            None if body.is_empty() || body.keys().any(|key| OF_OBJECTS.contains(&key.as_str())) => {
                FieldType::Object
            }
            None => return Err(Error::invalid(format!("field {path:?} has no type"))),
        };
        for (key, value) in body {
            match (ty, key.as_str()) {
                (_, "type") => {}
                // Also of a field with values of its own: such a mapping is what an index with both shows.
                (_, "properties") => self.read_properties(&format!("{path}."), value, depth + 1)?,
                (FieldType::Alias, "path") => {
                    let of = value.as_str().ok_or_else(|| unsupported(path, key, value))?;
                    self.aliases.insert(path.to_owned(), of.to_owned());
                }
                (FieldType::Alias, _) => return Err(unsupported(path, key, value)),
                (FieldType::Object | FieldType::Nested | FieldType::Passthrough, "dynamic" | "enabled") => {
                    self.read_object_mode(path, key, value)?;
                }
                (FieldType::Object | FieldType::Nested | FieldType::Passthrough, "subobjects") => {}
                (FieldType::Nested, "include_in_parent" | "include_in_root") => {
                    let is_in = read_flag(path, key, value)?;
                    let display = &mut self.fields.entry(path.to_owned()).or_default().display;
                    let known =
                        if key == "include_in_root" { &mut display.in_root } else { &mut display.in_parent };
                    *known |= is_in;
                }
                (FieldType::ConstantKeyword, "value") => {
                    let constant = match value {
                        Value::String(text) => text.clone(),
                        Value::Number(_) | Value::Bool(_) => value.to_string(),
                        _ => return Err(unsupported(path, key, value)),
                    };
                    self.fields.entry(path.to_owned()).or_default().display.constant = Some(constant);
                }
                (FieldType::Object | FieldType::Nested, _) => return Err(unsupported(path, key, value)),
                (FieldType::Passthrough, "priority") => {
                    let priority = value.as_u64().ok_or_else(|| unsupported(path, key, value))?;
                    self.fields.entry(path.to_owned()).or_default().priority = priority;
                }
                (_, key) if analyses::PARAMETERS.contains(&key) => {}
                (_, "copy_to") => self.read_copies(path, value)?,
                (_, "fields") => self.read_multi_fields(path, ty, value)?,
                (_, "index") => {
                    let field = self.fields.entry(path.to_owned()).or_default();
                    field.unindexed |= !read_flag(path, key, value)?;
                }
                (_, "doc_values") => {
                    let field = self.fields.entry(path.to_owned()).or_default();
                    field.without_doc_values |= !read_flag(path, key, value)?;
                }
                (FieldType::Date | FieldType::DateRange, "format") => {
                    let text = value.as_str().filter(|_| is_date_format(value));
                    let text = text.ok_or_else(|| unsupported(path, key, value))?;
                    let format = (!USUAL_FORMATS.contains(&text)).then(|| text.to_owned());
                    self.fields.entry(path.to_owned()).or_default().display.format = format;
                }
                (FieldType::ScaledFloat, "scaling_factor") => {
                    let factor = real(value).filter(|factor| *factor > 0.0 && factor.is_finite());
                    let factor = factor.ok_or_else(|| {
                        Error::invalid(format!("field {path:?}: [scaling_factor] must be a positive number"))
                    })?;
                    self.fields.entry(path.to_owned()).or_default().display.factor =
                        Some(json!(factor).to_string());
                }
                _ => check_parameter(path, ty, key, value)?,
            }
        }
        let mut analyses = Analyses::default();
        analyses.read(None, (path, ty), body, &self.definitions)?;
        if !analyses.is_empty() {
            self.fields.entry(path.to_owned()).or_default().display.absorb_analyses(&analyses);
        }
        if ty == FieldType::Alias && !self.aliases.contains_key(path) {
            return Err(Error::invalid(format!(
                "field {path:?}: an alias has the \"path\" of the field that it is of"
            )));
        }
        let children_declare_it = ty == FieldType::Object && body.contains_key("properties");
        if children_declare_it { Ok(()) } else { self.declare(path, ty) }
    }

    fn read_object_mode(&mut self, path: &str, key: &str, value: &Value) -> Result<()> {
        let mode = match key {
            "enabled" if read_flag(path, key, value)? => return Ok(()),
            "enabled" => Mode::Disabled,
            _ => read_mode(value)?,
        };
        let known = self.rules.objects.entry(path.to_owned()).or_insert(mode);
        // What is not enabled stays so, in whatever order it is said.
        *known = (*known).max(mode);
        Ok(())
    }

    fn read_copies(&mut self, path: &str, value: &Value) -> Result<()> {
        let targets = match value {
            Value::String(to) => vec![to.as_str()],
            Value::Array(all) if all.iter().all(Value::is_string) => {
                all.iter().filter_map(Value::as_str).collect()
            }
            _ => return Err(unsupported(path, "copy_to", value)),
        };
        for to in targets {
            self.copies.entry(to.to_owned()).or_default().insert(path.to_owned());
        }
        Ok(())
    }

    /// Reads other names of the values of a field of type `of`.
    fn read_multi_fields(&mut self, path: &str, of: FieldType, json: &Value) -> Result<()> {
        let (mut multi_fields, mut analyses) = (BTreeMap::new(), Analyses::default());
        for (name, body) in as_object(json, path)? {
            let path = format!("{path}.{name}");
            let body = as_object(body, &path)?;
            let ty = match body.get("type") {
                Some(ty) if *ty == DATE_NANOS => FieldType::Date,
                ty => read_type(&path, ty.unwrap_or(&Value::Null))?,
            };
            // The values of the field are what they are by either name.
            let is_same = ty == FieldType::Date && of == FieldType::Date;
            if ty.value_type() != Some(ValueType::Text) && !is_same {
                return Err(unsupported(&path, "type", &json!(ty.name())));
            }
            for (key, value) in body.iter().filter(|(key, _)| *key != "type") {
                match key.as_str() {
                    // The values are those of the field, and so is their index.
                    "index" | "doc_values" => drop(read_flag(&path, key, value)?),
                    "format" if is_same && is_date_format(value) => {}
                    key if analyses::PARAMETERS.contains(&key) => {}
                    _ => check_parameter(&path, ty, key, value)?,
                }
            }
            analyses.read(Some(name), (&path, ty), body, &self.definitions)?;
            multi_fields.insert(name.clone(), ty);
        }
        let field = self.fields.entry(path.to_owned()).or_default();
        field.multi_fields.extend(multi_fields);
        field.display.absorb_analyses(&analyses);
        Ok(())
    }
}

impl Field {
    /// The type to show for it; `None` where nothing is known.
    pub fn shown_type(&self) -> Option<FieldType> {
        if let Some(ty) = self.ty() {
            return Some(ty);
        }
        let has = |ty| self.readings.contains_key(&ty);
        let only_numbers =
            self.readings.keys().all(|ty| matches!(ty, ValueType::Long | ValueType::Double | ValueType::Big));
        match self.readings.keys().next() {
            None => None,
            Some(only) if self.readings.len() == 1 => Some(FieldType::of(*only)),
            Some(_) if only_numbers => Some(FieldType::Double),
            Some(_) if has(ValueType::Text) => Some(FieldType::Text),
            Some(_) => Some(FieldType::Keyword),
        }
    }

    /// Elasticsearch's name of that type.
    pub fn shown_name(&self) -> Option<&'static str> {
        let ty = self.shown_type()?;
        let has_nanos = self.readings.get(&ValueType::Date).is_some_and(|dates| dates.nanos);
        Some(if ty == FieldType::Date && has_nanos { DATE_NANOS } else { ty.name() })
    }

    /// The other names of its values that are shown to whoever sees all of them.
    pub(super) fn shown_names(&self) -> BTreeMap<String, FieldType> {
        let mut names = self.other_names();
        // What its author wrote is shown as it was written.
        if self.ty().is_none() && self.shown_type() == Some(FieldType::Text) {
            names.entry(KEYWORD.to_owned()).or_insert(FieldType::Keyword);
        }
        names
    }

    fn to_json(&self, names: &BTreeMap<String, FieldType>) -> Option<Value> {
        let (ty, name) = (self.shown_type()?, self.shown_name()?);
        let mut body = Map::from_iter([("type".to_owned(), json!(name))]);
        if ty == FieldType::Passthrough {
            body.insert("priority".to_owned(), json!(self.priority));
        }
        if let Some(format) = self.date_format() {
            body.insert("format".to_owned(), json!(format));
        }
        body.extend(self.analyses_json(None, ty.is_exact()));
        if let Some(constant) = self.constant() {
            body.insert("value".to_owned(), json!(constant));
        }
        for (name, is_in) in
            [("include_in_parent", self.display.in_parent), ("include_in_root", self.display.in_root)]
        {
            if is_in {
                body.insert(name.to_owned(), json!(true));
            }
        }
        if let Some(factor) = self.scaling_factor() {
            body.insert("scaling_factor".to_owned(), json!(factor));
        }
        if self.is_unindexed() {
            body.insert("index".to_owned(), json!(false));
        }
        if self.is_without_doc_values() {
            body.insert("doc_values".to_owned(), json!(false));
        }
        if !names.is_empty() {
            let names = names.iter().map(|(name, ty)| {
                let mut own = Map::from_iter([("type".to_owned(), json!(ty.name()))]);
                own.extend(self.analyses_json(Some(name), ty.is_exact()));
                (name.clone(), Value::Object(own))
            });
            body.insert("fields".to_owned(), Value::Object(names.collect()));
        }
        Some(Value::Object(body))
    }
}

impl FieldType {
    /// Every type with its Elasticsearch name.
    const NAMES: [(FieldType, &str); 34] = [
        (FieldType::Boolean, "boolean"),
        (FieldType::Byte, "byte"),
        (FieldType::Short, "short"),
        (FieldType::Integer, "integer"),
        (FieldType::Long, "long"),
        (FieldType::UnsignedLong, "unsigned_long"),
        (FieldType::Float, "float"),
        (FieldType::Double, "double"),
        (FieldType::HalfFloat, "half_float"),
        (FieldType::ScaledFloat, "scaled_float"),
        (FieldType::Date, "date"),
        (FieldType::Ip, "ip"),
        (FieldType::Keyword, "keyword"),
        (FieldType::Text, "text"),
        (FieldType::Wildcard, "wildcard"),
        (FieldType::ConstantKeyword, "constant_keyword"),
        (FieldType::MatchOnlyText, "match_only_text"),
        (FieldType::Binary, "binary"),
        (FieldType::Object, "object"),
        (FieldType::Nested, "nested"),
        (FieldType::Flattened, "flattened"),
        (FieldType::FlatObject, "flat_object"),
        (FieldType::Passthrough, "passthrough"),
        (FieldType::GeoPoint, "geo_point"),
        (FieldType::GeoShape, "geo_shape"),
        (FieldType::Histogram, "histogram"),
        (FieldType::AggregateMetricDouble, "aggregate_metric_double"),
        (FieldType::Alias, "alias"),
        (FieldType::IntegerRange, "integer_range"),
        (FieldType::LongRange, "long_range"),
        (FieldType::FloatRange, "float_range"),
        (FieldType::DoubleRange, "double_range"),
        (FieldType::DateRange, "date_range"),
        (FieldType::IpRange, "ip_range"),
    ];

    /// Its Elasticsearch name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(ty, _)| *ty == self).map_or("object", |(_, name)| name)
    }

    /// Whether nothing can be asked of it by what the type means: its parts are found, each by its own name.
    pub(super) fn has_no_queries(self) -> bool {
        use FieldType::*;
        matches!(self, GeoShape | Histogram | AggregateMetricDouble)
    }

    /// The type to show for values of one type.
    pub fn of(ty: ValueType) -> FieldType {
        match ty {
            ValueType::Boolean => FieldType::Boolean,
            ValueType::Long => FieldType::Long,
            ValueType::Double | ValueType::Big => FieldType::Double,
            ValueType::Date => FieldType::Date,
            ValueType::Ip => FieldType::Ip,
            ValueType::Text => FieldType::Text,
        }
    }
}

/// Dates of which some are no whole microseconds.
const DATE_NANOS: &str = "date_nanos";

/// What only an object says of itself.
const OF_OBJECTS: [&str; 4] = ["dynamic", "enabled", "properties", "subobjects"];

/// The mapping inside of what APIs answer and take.
fn inside(body: &Map<String, Value>) -> Result<&Map<String, Value>> {
    if body.contains_key("properties") {
        return Ok(body);
    }
    if let Some(mapping) = body.get("mappings") {
        return as_object(mapping, "\"mappings\"");
    }
    let is_wrapped = |inner: &&Value| inner.get("mappings").is_some();
    // Of a template, or under the name of the one index that was asked for.
    let only = body.values().next().filter(|_| body.len() == 1);
    match body.get("template").filter(is_wrapped).or(only.filter(is_wrapped)) {
        Some(inner) => inside(as_object(inner, "the mapping")?),
        None => Ok(body),
    }
}

/// The settings beside the mapping that [`inside`] finds.
fn settings_beside(json: &Value) -> Option<&Value> {
    let body = json.as_object()?;
    if body.contains_key("properties") {
        return None;
    }
    if body.contains_key("mappings") {
        return body.get("settings");
    }
    let only = body.values().next().filter(|_| body.len() == 1);
    [body.get("template"), only].into_iter().flatten().find_map(|inner| {
        inner.get("mappings")?;
        inner.get("settings")
    })
}

fn as_object<'a>(json: &'a Value, what: &str) -> Result<&'a Map<String, Value>> {
    json.as_object().ok_or_else(|| Error::invalid(format!("{what} is not an object")))
}

fn read_mode(value: &Value) -> Result<Mode> {
    match value {
        Value::Bool(true) => Ok(Mode::Dynamic),
        Value::String(text) if text == "true" => Ok(Mode::Dynamic),
        Value::Bool(false) => Ok(Mode::Ignoring),
        Value::String(text) if text == "false" => Ok(Mode::Ignoring),
        Value::String(text) if text == "runtime" => Ok(Mode::Runtime),
        Value::String(text) if text == "strict" => Ok(Mode::Strict),
        _ => Err(Error::invalid(format!(
            "dynamic {value} is not supported: a new field is indexed (true, or \"runtime\" with text as keyword), \
             not searchable (false), or refused (\"strict\")"
        ))),
    }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Dynamic => "true",
        Mode::Runtime => "runtime",
        Mode::Ignoring | Mode::Disabled => "false",
        Mode::Strict => "strict",
    }
}

/// Whether dates are found in these forms alone, or in those that Elasticsearch finds unless it is told others.
fn is_known_formats(value: &Value) -> bool {
    const USUAL: [&str; 2] = ["strict_date_optional_time", "yyyy/MM/dd HH:mm:ss Z||yyyy/MM/dd Z"];
    let is_known = |format: &Value| is_date_format(format) || *format == USUAL[1];
    value.as_array().is_some_and(|formats| formats.iter().all(is_known))
}

fn read_type(path: &str, json: &Value) -> Result<FieldType> {
    let Some(name) = json.as_str() else {
        return Err(Error::invalid(format!("field {path:?}: the type {json} is not a name")));
    };
    let known = FieldType::NAMES.iter().find(|(_, known)| *known == name);
    known.map(|(ty, _)| *ty).ok_or_else(|| {
        let instead = instead_of_type(name);
        Error::invalid(format!("field {path:?}: the type {name:?} is not supported: {instead}"))
    })
}

/// What to do instead of declaring a type.
fn instead_of_type(name: &str) -> &'static str {
    match name {
        "point" | "shape" => "leave it out: the coordinates are numbers, which ranges find",
        "completion" | "search_as_you_type" | "token_count" | "version" => "use keyword",
        "annotated_text" | "semantic_text" => "use text",
        "dense_vector" | "join" | "percolator" | "rank_feature" | "rank_features" | "sparse_vector" => {
            "leave the field out: there is no query for it"
        }
        _ => "leave it out, and the field is searched by what its values are",
    }
}

/// What to do instead of setting a parameter of a field.
fn instead_of_parameter(key: &str) -> &'static str {
    match key {
        "null_value" => "set the value with a pipeline where it is missing",
        "enabled" | "dynamic" => "leave it out: it is of objects",
        "format" => "bring the date into the ISO form with the pipeline's date processor",
        "script" | "on_script_error" => "compute the value with a pipeline",
        _ => "leave it out",
    }
}

/// What to do instead of setting a parameter of the whole mapping.
fn instead_of_root(key: &str) -> &'static str {
    match key {
        "runtime" => "compute the fields with a pipeline, or ask for them in SQL",
        "_routing" => "leave it out: there are no shards",
        "dynamic_date_formats" => {
            "leave it out, and bring dates into the ISO form with the pipeline's date processor"
        }
        _ => "leave it out",
    }
}

fn check_parameter(path: &str, ty: FieldType, key: &str, value: &Value) -> Result<()> {
    let is_harmless = HARMLESS.contains(&key) || HARMLESS_OF_TYPE.contains(&(ty, key));
    if is_harmless {
        return Ok(());
    }
    Err(unsupported(path, key, value))
}

fn real(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn read_flag(path: &str, key: &str, value: &Value) -> Result<bool> {
    match value {
        Value::Bool(is_set) => Ok(*is_set),
        Value::String(text) if text == "true" || text == "false" => Ok(text == "true"),
        _ if path.is_empty() => Err(Error::invalid(format!("{key:?} is {value}, not true or false"))),
        _ => Err(Error::invalid(format!("field {path:?}: {key:?} is {value}, not true or false"))),
    }
}

fn is_date_format(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.split("||").all(|format| DATE_FORMATS.contains(&format)))
}

fn unsupported(path: &str, key: &str, value: &Value) -> Error {
    let instead = instead_of_parameter(key);
    Error::invalid(format!("field {path:?}: the parameter {key:?}: {value} is not supported: {instead}"))
}

/// Puts a field's body at its dotted path, below `properties` of its parents.
fn put(properties: &mut Map<String, Value>, path: &str, body: Value) {
    let Some((parent, rest)) = path.split_once('.') else {
        let own = properties.entry(path).or_insert_with(|| json!({}));
        if let (Value::Object(own), Value::Object(body)) = (own, body) {
            own.extend(body);
        }
        return;
    };
    let parent = properties.entry(parent).or_insert_with(|| json!({}));
    let below = parent.as_object_mut().map(|parent| parent.entry("properties").or_insert_with(|| json!({})));
    if let Some(Value::Object(below)) = below {
        put(below, rest, body);
    }
}
