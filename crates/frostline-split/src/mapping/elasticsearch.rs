//! Mappings as Elasticsearch writes them in JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Field, FieldType, Mapping, Mode, ValueType};
use crate::unique_keys::check_unique_keys;
use crate::{Error, Result};

/// Parameters that say how Elasticsearch stores or ranks a field, not what a search finds: taken and
/// forgotten.
const HARMLESS: [&str; 13] = [
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
];

const DATE_FORMATS: [&str; 5] = [
    "strict_date_optional_time",
    "date_optional_time",
    "strict_date_optional_time_nanos",
    "epoch_millis",
    "epoch_second",
];

/// Objects inside each other that a mapping may have.
const DEPTH_MAX: usize = 64;

impl Mapping {
    /// Reads an Elasticsearch mapping: `{"properties": …}`, alone or as `GET index/_mapping`, an index template or the
    /// body that creates an index has it; their settings and aliases say nothing of fields. Types and parameters that
    /// would change what a search finds and that Frostline does not do are `Invalid`, by name.
    pub fn from_elasticsearch_json(json: &Value) -> Result<Mapping> {
        let root = inside(as_object(json, "the mapping")?)?;
        let mut mapping = Mapping::dynamic();
        if let Some(mode) = root.get("dynamic") {
            mapping.mode = read_mode(mode)?;
        }
        for (key, value) in root {
            mapping.read_root(key, value)?;
        }
        Ok(mapping)
    }

    /// The same from the bytes of a request or a file. A key given twice in one object is `Invalid`, too.
    pub fn from_elasticsearch_bytes(json: &[u8]) -> Result<Mapping> {
        let parsed = check_unique_keys(json).and_then(|()| serde_json::from_slice(json));
        let invalid = |error| Error::invalid("the mapping is not valid JSON").with_source(error);
        Self::from_elasticsearch_json(&parsed.map_err(invalid)?)
    }

    /// Elasticsearch's name of the type of the documents' time.
    pub fn time_name(&self) -> &'static str {
        if self.has_nanos { DATE_NANOS } else { FieldType::Date.name() }
    }

    /// Writes the mapping as Elasticsearch would. A field whose values have several types is written
    /// with the type that reads them all; [`Mapping::conflicts`] lists them.
    pub fn to_elasticsearch_json(&self) -> Value {
        let mut properties = Map::new();
        for (path, field) in &self.fields {
            if let Some(body) = field.to_json() {
                put(&mut properties, path, body);
            }
        }
        put(&mut properties, &self.time_field, json!({"type": self.time_name()}));
        let dynamic = match self.mode {
            Mode::Dynamic => "true",
            Mode::Strict => "strict",
        };
        json!({"dynamic": dynamic, "properties": properties})
    }

    fn read_root(&mut self, key: &str, value: &Value) -> Result<()> {
        match key {
            "properties" => self.read_properties("", value, 0),
            "dynamic" | "_meta" => Ok(()),
            "_source" if *value == json!({}) || *value == json!({"enabled": true}) => Ok(()),
            "date_detection" if *value == json!(true) => Ok(()),
            "numeric_detection" if *value == json!(false) => Ok(()),
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

    fn read_field(&mut self, path: &str, json: &Value, depth: usize) -> Result<()> {
        let body = as_object(json, path)?;
        let ty = match body.get("type") {
            // Dates have nanoseconds under either name.
            Some(ty) if *ty == DATE_NANOS => FieldType::Date,
            Some(ty) => read_type(path, ty)?,
            None if body.contains_key("properties") || body.is_empty() => FieldType::Object,
            None => return Err(Error::invalid(format!("field {path:?} has no type"))),
        };
        for (key, value) in body {
            match (ty, key.as_str()) {
                (_, "type") => {}
                // Also of a field with values of its own: such a mapping is what an index with both shows.
                (_, "properties") => self.read_properties(&format!("{path}."), value, depth + 1)?,
                (FieldType::Object, _) => self.check_object_parameter(path, key, value)?,
                (_, "fields") => self.read_multi_fields(path, value)?,
                (_, "index") => {
                    let field = self.fields.entry(path.to_owned()).or_default();
                    field.unindexed |= !read_flag(path, key, value)?;
                }
                (_, "doc_values") => {
                    let field = self.fields.entry(path.to_owned()).or_default();
                    field.without_doc_values |= !read_flag(path, key, value)?;
                }
                _ => check_parameter(path, ty, key, value)?,
            }
        }
        let children_declare_it = ty == FieldType::Object && body.contains_key("properties");
        if children_declare_it { Ok(()) } else { self.declare(path, ty) }
    }

    fn check_object_parameter(&self, path: &str, key: &str, value: &Value) -> Result<()> {
        let same_mode = key == "dynamic" && read_mode(value)? == self.mode;
        let usual = matches!(key, "enabled" | "subobjects") && *value == json!(true);
        if same_mode || usual { Ok(()) } else { Err(unsupported(path, key, value)) }
    }

    fn read_multi_fields(&mut self, path: &str, json: &Value) -> Result<()> {
        let mut multi_fields = BTreeMap::new();
        for (name, body) in as_object(json, path)? {
            let path = format!("{path}.{name}");
            let body = as_object(body, &path)?;
            let ty = read_type(&path, body.get("type").unwrap_or(&Value::Null))?;
            if ty.value_type() != Some(ValueType::Text) {
                return Err(unsupported(&path, "type", &json!(ty.name())));
            }
            for (key, value) in body.iter().filter(|(key, _)| *key != "type") {
                match key.as_str() {
                    // The values are those of the field, and so is their index.
                    "index" | "doc_values" => drop(read_flag(&path, key, value)?),
                    _ => check_parameter(&path, ty, key, value)?,
                }
            }
            multi_fields.insert(name.clone(), ty);
        }
        self.fields.entry(path.to_owned()).or_default().multi_fields.extend(multi_fields);
        Ok(())
    }
}

impl Field {
    /// The type to show for it; `None` where nothing is known.
    pub fn shown_type(&self) -> Option<FieldType> {
        if self.declared.is_some() {
            return self.declared;
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

    fn to_json(&self) -> Option<Value> {
        let (ty, name) = (self.shown_type()?, self.shown_name()?);
        let mut body = Map::from_iter([("type".to_owned(), json!(name))]);
        if self.unindexed {
            body.insert("index".to_owned(), json!(false));
        }
        if self.without_doc_values {
            body.insert("doc_values".to_owned(), json!(false));
        }
        let mut names = self.multi_fields.clone();
        if ty == FieldType::Text {
            names.entry("keyword".to_owned()).or_insert(FieldType::Keyword);
        }
        if !names.is_empty() {
            let names = names.iter().map(|(name, ty)| (name.clone(), json!({"type": ty.name()})));
            body.insert("fields".to_owned(), Value::Object(names.collect()));
        }
        Some(Value::Object(body))
    }
}

impl FieldType {
    /// Every type with its Elasticsearch name.
    const NAMES: [(FieldType, &str); 17] = [
        (FieldType::Boolean, "boolean"),
        (FieldType::Byte, "byte"),
        (FieldType::Short, "short"),
        (FieldType::Integer, "integer"),
        (FieldType::Long, "long"),
        (FieldType::UnsignedLong, "unsigned_long"),
        (FieldType::Float, "float"),
        (FieldType::Double, "double"),
        (FieldType::HalfFloat, "half_float"),
        (FieldType::Date, "date"),
        (FieldType::Ip, "ip"),
        (FieldType::Keyword, "keyword"),
        (FieldType::Text, "text"),
        (FieldType::Wildcard, "wildcard"),
        (FieldType::ConstantKeyword, "constant_keyword"),
        (FieldType::MatchOnlyText, "match_only_text"),
        (FieldType::Object, "object"),
    ];

    /// Its Elasticsearch name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(ty, _)| *ty == self).map_or("object", |(_, name)| name)
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

fn as_object<'a>(json: &'a Value, what: &str) -> Result<&'a Map<String, Value>> {
    json.as_object().ok_or_else(|| Error::invalid(format!("{what} is not an object")))
}

fn read_mode(value: &Value) -> Result<Mode> {
    match value {
        Value::Bool(true) => Ok(Mode::Dynamic),
        Value::String(text) if text == "true" => Ok(Mode::Dynamic),
        Value::String(text) if text == "strict" => Ok(Mode::Strict),
        _ => Err(Error::invalid(format!(
            "dynamic {value} is not supported: every field is indexed (true) or refused (\"strict\"), so leave it out, or \
             remove the fields with a pipeline"
        ))),
    }
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
        "nested" => {
            "leave it out: the values of all objects of a list are found together, by the names of their fields"
        }
        "flattened" => "leave it out: each member is a field of its own, and a rare one costs no column",
        "alias" => "search for the field itself, or copy its values with a pipeline",
        "scaled_float" => "use double, which keeps the value as it is",
        "geo_point" | "geo_shape" | "point" | "shape" => {
            "leave it out: the coordinates are numbers, which ranges find"
        }
        "date_range" | "double_range" | "float_range" | "integer_range" | "ip_range" | "long_range" => {
            "leave it out: its bounds are fields of their own, such as NAME.gte"
        }
        "binary" | "completion" | "search_as_you_type" | "token_count" | "version" => "use keyword",
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
        "analyzer" | "search_analyzer" | "search_quote_analyzer" | "normalizer" => {
            "leave it out: all text is found by its words in either case, and whole by NAME.keyword"
        }
        "copy_to" => "copy the value with a pipeline, or search several fields with multi_match",
        "null_value" => "set the value with a pipeline where it is missing",
        "enabled" | "dynamic" => "leave it out, or remove the field with a pipeline",
        "format" => "bring the date into the ISO form with the pipeline's date processor",
        "script" | "on_script_error" => "compute the value with a pipeline",
        _ => "leave it out",
    }
}

/// What to do instead of setting a parameter of the whole mapping.
fn instead_of_root(key: &str) -> &'static str {
    match key {
        "dynamic_templates" => {
            "leave it out: each new field is read by what its values are, text both by its words and whole, and fields whose \
             names are known can be declared in properties"
        }
        "runtime" => "compute the fields with a pipeline, or ask for them in SQL",
        "_routing" => "leave it out: there are no shards",
        "_source" => "leave it out: documents are always kept",
        "date_detection" | "numeric_detection" | "dynamic_date_formats" => {
            "leave it out, and declare the fields in properties"
        }
        _ => "leave it out",
    }
}

fn check_parameter(path: &str, ty: FieldType, key: &str, value: &Value) -> Result<()> {
    let is_usual = matches!(key, "coerce" | "ignore_malformed") && *value == json!(true);
    let is_format = key == "format" && ty == FieldType::Date && is_date_format(value);
    // All text is analyzed in one way, which goes by these names.
    let is_analyzer = matches!(key, "analyzer" | "search_analyzer" | "search_quote_analyzer")
        && matches!(value.as_str(), Some("default" | "standard"))
        && ty.value_type() == Some(ValueType::Text)
        && !ty.is_exact();
    if is_usual || is_format || is_analyzer || HARMLESS.contains(&key) {
        return Ok(());
    }
    Err(unsupported(path, key, value))
}

fn read_flag(path: &str, key: &str, value: &Value) -> Result<bool> {
    match value {
        Value::Bool(is_set) => Ok(*is_set),
        Value::String(text) if text == "true" || text == "false" => Ok(text == "true"),
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
