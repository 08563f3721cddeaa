//! The fields of an index: the types of their values and the columns that hold them.
//!
//! - [`Mapping::merge`] is commutative, associative and idempotent, and never loses a field: mappings
//!   that writers extended independently merge to the same result in any order.
//! - A reading that has a column keeps it. A reading that first appears when the column budget is spent is
//!   *dynamic*: it is indexed like any other, but its column is the shared `_dynamic`.
//! - [`Mapping::column_name`] depends only on its arguments, so all writers agree.
//! - What its author says of fields that are not declared ([`Rules`]) has a version: of two, the newer stands.
//! - Parameters of an Elasticsearch mapping that Frostline does not support are refused by name.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::analysis::Definitions;
use crate::ranges::RangeType;
use crate::{Error, Result};

mod analyses;
mod changes;
mod elasticsearch;
mod rules;
mod source;

pub use analyses::Analyses;
pub(crate) use rules::Kind;
pub use rules::{Rules, Templated};
pub use source::ShownSource;

/// The column of the documents' time.
pub const TIME_COLUMN: &str = "_timestamp";
/// The column of the nanoseconds since the microseconds of [`TIME_COLUMN`].
pub const NANOS_COLUMN: &str = "_timestamp_ns";
/// The column of the identities that clients gave documents.
pub const ID_COLUMN: &str = "_id";
/// The column of the versions of these documents.
pub const VERSION_COLUMN: &str = "_version";
/// The column of their sequence numbers.
pub const SEQ_NO_COLUMN: &str = "_seq_no";
/// The column of the documents' original bytes.
pub const SOURCE_COLUMN: &str = "_source";
/// The column of the shapes of documents that are made again from columns.
pub const SHAPE_COLUMN: &str = "_shape";
/// The column of what no column has of these documents.
pub const RESIDUAL_COLUMN: &str = "_residual";
/// The column of the documents of such a split that are stored whole.
pub const RAW_COLUMN: &str = "_raw";
/// The column of `path:type=value` for readings beyond the column budget.
pub const DYNAMIC_COLUMN: &str = "_dynamic";
/// The time field of a mapping that names none.
pub const TIME_FIELD: &str = "@timestamp";

/// The longest path of the field of the documents' time.
const TIME_FIELD_BYTES_MAX: usize = 255;
/// What is known of a document and is no field of it.
const METADATA: [&str; 16] = [
    "_data_stream_timestamp",
    "_doc",
    "_feature",
    "_field_names",
    "_id",
    "_ignored",
    "_index",
    "_meta",
    "_nested_path",
    "_routing",
    "_score",
    "_seq_no",
    "_source",
    "_tier",
    "_type",
    "_version",
];

/// The fields of an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mapping {
    mode: Mode,
    time_field: String,
    column_budget: u32,
    fields: BTreeMap<String, Field>,
    /// Some documents have times that are no whole microseconds.
    #[serde(default)]
    has_nanos: bool,
    /// Some documents have identities that clients gave.
    #[serde(default)]
    has_identities: bool,
    /// What becomes of fields that it does not declare.
    #[serde(default)]
    rules: Rules,
    /// Fields that are other names of fields.
    #[serde(default)]
    aliases: BTreeMap<String, String>,
    /// Fields whose values are found by the name of another, too, by that name.
    #[serde(default)]
    copies: BTreeMap<String, BTreeSet<String>>,
    /// What the settings of the index define, by which its fields may be compared.
    #[serde(default)]
    definitions: Definitions,
    /// Which part of its documents is shown.
    #[serde(default)]
    source: ShownSource,
    /// Fields that whoever asks does not see.
    #[serde(skip)]
    hidden: BTreeSet<String>,
    /// Names of the form `NAME.keyword` that whoever asks does not see, of fields that they do see.
    #[serde(skip)]
    hidden_names: BTreeSet<String>,
    #[serde(skip)]
    revision: Revision,
}

/// What happens to an undeclared field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It becomes part of the mapping.
    #[default]
    Dynamic,
    /// The same, and text is compared whole.
    Runtime,
    /// It stays in its document and no search finds it.
    Ignoring,
    /// Its document is refused.
    Strict,
    /// Of an object alone: no search finds it, nor what is below it, declared or not.
    Disabled,
}

/// One user path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// The type that the mapping's author gave it.
    pub declared: Option<FieldType>,
    /// Other names of the same values, such as `keyword` for `message.keyword`.
    pub multi_fields: BTreeMap<String, FieldType>,
    /// The types that its values have. More than one is a conflict; all stay searchable.
    pub readings: BTreeMap<ValueType, Reading>,
    /// Some documents have values of several types at once, or several ranges, so a list even where no reading is one.
    #[serde(default)]
    pub mixed_list: bool,
    /// Splits have no index of it: searches read its values. Where writers differ, it has none.
    #[serde(default)]
    pub unindexed: bool,
    /// Splits have no digest of it, and no copy of its column for scans where that costs much. Where writers differ, they
    /// have none.
    #[serde(default)]
    pub without_doc_values: bool,
    /// What a dynamic template said of it when it was new.
    #[serde(default)]
    pub templated: Option<Templated>,
    /// Of some text in it no template said anything, while others may say something of other values.
    #[serde(default)]
    pub has_plain_text: bool,
    /// The version of the rules by which a document first had a value in it.
    #[serde(default)]
    made_by: Option<u64>,
    /// Where fields of several objects that are passed through have one name, the field of the highest is meant.
    #[serde(default)]
    priority: u64,
    /// How its values are shown, as its author says.
    #[serde(default)]
    display: Display,
}

/// How the values of a field are shown where it is asked for by its name. Where writers differ, the greater text counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Display {
    /// The formats of its dates; none for the usual ones.
    format: Option<String>,
    /// The `scaling_factor` of its numbers.
    factor: Option<String>,
    /// The one value that a `constant_keyword` may have.
    #[serde(default)]
    constant: Option<String>,
    /// What the author of nested objects says of their parents, whose values theirs always are here.
    #[serde(default)]
    in_parent: bool,
    #[serde(default)]
    in_root: bool,
    /// The parts of [`Analyses`].
    #[serde(default)]
    analysis: Option<String>,
    #[serde(default)]
    analysis_of_names: BTreeMap<String, String>,
    #[serde(default)]
    search: Option<String>,
    #[serde(default)]
    search_of_names: BTreeMap<String, String>,
}

/// Where the values of one type of one field are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Some documents have one value: there is a scalar column.
    pub scalar: bool,
    /// Some documents have several values: there is a list column.
    pub list: bool,
    /// Some documents have their values in `_dynamic`.
    pub dynamic: bool,
    /// Some of those have several values.
    #[serde(default)]
    pub dynamic_list: bool,
    /// Some of the dates are no whole microseconds: each column has one of nanoseconds beside it.
    #[serde(default)]
    pub nanos: bool,
}

/// The type of a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    /// `true` or `false`.
    Boolean,
    /// A 64-bit integer.
    Long,
    /// A finite 64-bit floating-point number.
    Double,
    /// A whole number of at most 38 digits that 64 bits do not hold.
    Big,
    /// A time.
    Date,
    /// An IPv4 or IPv6 address.
    Ip,
    /// Text.
    Text,
}

/// A type that a mapping's author can declare, by its Elasticsearch name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldType {
    /// `boolean`
    Boolean,
    /// `byte`
    Byte,
    /// `short`
    Short,
    /// `integer`
    Integer,
    /// `long`
    Long,
    /// `unsigned_long`
    UnsignedLong,
    /// `float`
    Float,
    /// `double`
    Double,
    /// `half_float`
    HalfFloat,
    /// `scaled_float`
    ScaledFloat,
    /// `date`
    Date,
    /// `ip`
    Ip,
    /// `keyword`
    Keyword,
    /// `text`
    Text,
    /// `wildcard`
    Wildcard,
    /// `constant_keyword`
    ConstantKeyword,
    /// `match_only_text`
    MatchOnlyText,
    /// `binary`
    Binary,
    /// `object`
    Object,
    /// `nested`
    Nested,
    /// `flattened`
    Flattened,
    /// `flat_object`, as OpenSearch calls it
    FlatObject,
    /// `passthrough`
    Passthrough,
    /// `geo_point`
    GeoPoint,
    /// `geo_shape`
    GeoShape,
    /// `histogram`
    Histogram,
    /// `aggregate_metric_double`
    AggregateMetricDouble,
    /// `alias`
    Alias,
    /// `integer_range`
    IntegerRange,
    /// `long_range`
    LongRange,
    /// `float_range`
    FloatRange,
    /// `double_range`
    DoubleRange,
    /// `date_range`
    DateRange,
    /// `ip_range`
    IpRange,
}

/// Where [`Mapping::place`] put a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the column named by [`Mapping::column_name`].
    Column,
    /// In `_dynamic`.
    Dynamic,
}

/// A field whose values have several types.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The field.
    pub path: String,
    /// Its types, at least two.
    pub types: Vec<ValueType>,
}

/// What a name in a query means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved<'a> {
    /// The documents' time, the column `_timestamp`, is one of the values.
    pub is_time: bool,
    /// The fields whose values are meant, each with whether whole values are requested (`keyword` and
    /// its kin) and not words in them. Two where a field's other name is the path of a field as well.
    pub paths: Vec<(&'a str, bool)>,
}

/// Changes whenever what a document parser may remember about a mapping changes. Equality of mappings
/// ignores it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Revision(Arc<()>);

/// The other name of the values of each field, compared whole.
const KEYWORD: &str = "keyword";

fn whole_name(path: &str) -> String {
    format!("{path}.{KEYWORD}")
}

fn is_below(path: &str, parent: &str) -> bool {
    rest_below(path, parent).is_some()
}

/// A path as seen from the object at `parent`.
fn rest_below<'p>(path: &'p str, parent: &str) -> Option<&'p str> {
    path.strip_prefix(parent)?.strip_prefix('.')
}

fn is_above_any(path: &str, paths: &BTreeSet<String>) -> bool {
    let prefix = format!("{path}.");
    let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
    paths.range::<str, _>(from).next().is_some_and(|path| path.starts_with(&prefix))
}

impl Mapping {
    /// A mapping that takes any document, with a budget of 1,000 columns.
    pub fn dynamic() -> Mapping {
        Mapping {
            mode: Mode::Dynamic,
            time_field: TIME_FIELD.to_owned(),
            column_budget: 1_000,
            fields: BTreeMap::new(),
            has_nanos: false,
            has_identities: false,
            rules: Rules::default(),
            aliases: BTreeMap::new(),
            copies: BTreeMap::new(),
            definitions: Definitions::default(),
            source: ShownSource::default(),
            hidden: BTreeSet::new(),
            hidden_names: BTreeSet::new(),
            revision: Revision::default(),
        }
    }

    /// What who sees only some of the fields knows of them. It is for questions: nothing is written by it.
    #[must_use]
    pub fn seen(&self, is_seen: impl Fn(&str) -> bool) -> Mapping {
        let mut seen = self.clone();
        // An alias tells the name of its field.
        let is_of_seen =
            |path: &str| self.alias_of(path).into_iter().chain(self.field_of_alias(path)).all(&is_seen);
        seen.fields.retain(|path, _| is_seen(path) && is_of_seen(path));
        let mut sees_names = true;
        for (path, field) in &mut seen.fields {
            sees_names &= field.see_names(|name| is_seen(&format!("{path}.{name}")));
        }
        let without_keyword = seen.fields.keys().map(|path| whole_name(path)).filter(|name| !is_seen(name));
        seen.hidden_names = without_keyword.collect();
        sees_names &= seen.hidden_names.is_empty();
        let hidden = self.fields.keys().filter(|path| !seen.fields.contains_key(*path)).cloned();
        seen.hidden = hidden.collect();
        seen.definitions =
            self.definitions.named_only(&seen.fields.values().flat_map(Field::all_analyses).collect());
        if seen.hides() || !sees_names {
            // Their conditions name fields.
            seen.rules = Rules::default();
            seen.aliases.retain(|alias, _| seen.fields.contains_key(alias));
            seen.copies.retain(|to, _| seen.fields.contains_key(to));
        }
        seen.revision = Revision::default();
        seen
    }

    /// Whether some fields are not seen.
    pub fn hides(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Whether some of the fields below `path` are not seen.
    pub fn hides_below(&self, path: &str) -> bool {
        is_above_any(path, &self.hidden)
    }

    /// Whether `path` or some of what is below it is not seen.
    pub fn hides_some_of(&self, path: &str) -> bool {
        self.hidden.contains(path) || self.hides_below(path)
    }

    /// What happens to undeclared fields.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The same mapping with this mode.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Mapping {
        self.mode = mode;
        self.revision = Revision::default();
        self
    }

    /// The field that holds the documents' time.
    pub fn time_field(&self) -> &str {
        &self.time_field
    }

    /// The same mapping with its time in this field.
    #[must_use]
    pub fn with_time_field(mut self, path: impl Into<String>) -> Mapping {
        self.time_field = path.into();
        self.revision = Revision::default();
        self
    }

    /// `Invalid` where no document can have its time in the time field.
    pub fn check_time_field(&self) -> Result<()> {
        let path = self.time_field.as_str();
        if path.len() > TIME_FIELD_BYTES_MAX {
            let what =
                format!("the name of the field of the time has more than {TIME_FIELD_BYTES_MAX} bytes");
            return Err(Error::invalid(what));
        }
        let first = path.split('.').next().unwrap_or_default();
        let declared = |path: &str| self.fields.get(path).and_then(|field| field.declared);
        let above = path.match_indices('.').map(|(end, _)| &path[..end]);
        let above = above.filter_map(|above| Some((above, declared(above)?)));
        let why = if path.split('.').any(str::is_empty) || path.contains(|c: char| c == '*' || c.is_control())
        {
            "that is no name of a field: name one whose values are dates".to_owned()
        } else if METADATA.contains(&first) {
            format!("{first} is no field of a document: name one whose values are dates")
        } else if let Some(other) = declared(path).filter(|ty| *ty != FieldType::Date) {
            let other = other.name();
            format!("the mapping declares it as {other}: declare it as date, or leave it out of the mapping")
        } else if let Some(child) = self.children(path).next() {
            format!("it is an object with fields such as {child}: name the one of them that has the time")
        } else if let Some((above, ty)) = { above }.find(|(_, ty)| *ty != FieldType::Object) {
            format!("the mapping declares {above} as {}, which has no fields: name another", ty.name())
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("documents cannot have their time in the field {path:?}: {why}")))
    }

    /// How many columns fields may have before new ones become dynamic.
    pub fn column_budget(&self) -> u32 {
        self.column_budget
    }

    /// The same mapping with this column budget.
    #[must_use]
    pub fn with_column_budget(mut self, columns: u32) -> Mapping {
        self.column_budget = columns;
        self
    }

    /// All fields by path.
    pub fn fields(&self) -> &BTreeMap<String, Field> {
        &self.fields
    }

    /// The field of exactly this path.
    pub fn field(&self, path: &str) -> Option<&Field> {
        self.fields.get(path)
    }

    /// Declares a field's type. `Invalid` where it is declared as another already.
    pub fn declare(&mut self, path: &str, declared: FieldType) -> Result<()> {
        let field = self.fields.entry(path.to_owned()).or_default();
        match field.declared {
            Some(other) if other != declared => return Err(declared_twice(path, other, declared)),
            _ => field.declared = Some(declared),
        }
        self.revision = Revision::default();
        Ok(())
    }

    /// Makes room for a value and says where it goes. A reading that has a column gets its other
    /// column (scalar or list) whatever the budget says, so that a field is never half dynamic.
    pub fn place(&mut self, path: &str, ty: ValueType, list: bool) -> Placement {
        let known = self.fields.get(path).and_then(|field| field.readings.get(&ty)).copied();
        let mut reading = known.unwrap_or_default();
        if !reading.has_column() && (reading.dynamic || !self.has_room(path)) {
            reading.dynamic = true;
            reading.dynamic_list |= list;
        } else if list {
            reading.list = true;
        } else {
            reading.scalar = true;
        }
        if known != Some(reading) {
            self.made(path).readings.insert(ty, reading);
        }
        if reading.has_column() { Placement::Column } else { Placement::Dynamic }
    }

    /// Notes that a document has several ranges in this field.
    pub fn note_several_ranges(&mut self, path: &str) {
        self.note_mixed_list(path);
    }

    /// Whether some document may have several ranges in this field.
    pub fn has_several_ranges(&self, path: &str) -> bool {
        self.field(path).is_some_and(|field| field.mixed_list)
    }

    /// Notes that a document has values of several types in this field.
    pub fn note_mixed_list(&mut self, path: &str) {
        self.made(path).mixed_list = true;
    }

    /// Notes that the time of a document is no whole microsecond.
    pub fn note_nanos(&mut self) {
        self.has_nanos = true;
    }

    /// Notes that some date of this field is no whole microsecond.
    pub fn note_nanos_of(&mut self, path: &str) {
        self.made(path).readings.entry(ValueType::Date).or_default().nanos = true;
    }

    /// The field of a value that a document has.
    fn made(&mut self, path: &str) -> &mut Field {
        let field = self.fields.entry(path.to_owned()).or_default();
        field.made_by = field.made_by().or(Some(self.rules.version()));
        field
    }

    /// Notes that a client gave a document its identity.
    pub fn note_identities(&mut self) {
        self.has_identities = true;
    }

    /// Columns that fields have, without those of nanoseconds.
    pub fn column_count(&self) -> usize {
        let readings = self.fields.values().flat_map(|field| field.readings.values());
        readings.map(|reading| usize::from(reading.scalar) + usize::from(reading.list)).sum()
    }

    /// What becomes of fields that it does not declare.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Takes in what `other` knows; returns whether that changed anything. `Invalid`, with nothing
    /// changed, where the two declare a field differently or have their time in different fields.
    pub fn merge(&mut self, other: &Mapping) -> Result<bool> {
        self.check_mergeable(other)?;
        let before = self.clone();
        self.mode = match self.rules.version().cmp(&other.rules.version()) {
            Ordering::Less => other.mode,
            Ordering::Equal => self.mode.max(other.mode),
            Ordering::Greater => self.mode,
        };
        self.rules.merge(&other.rules);
        if self.source < other.source {
            self.source = other.source.clone();
        }
        self.definitions.absorb(&other.definitions);
        self.take_names(other);
        self.column_budget = self.column_budget.max(other.column_budget);
        self.has_nanos |= other.has_nanos;
        self.has_identities |= other.has_identities;
        for (path, field) in &other.fields {
            self.fields.entry(path.clone()).or_default().absorb(field);
        }
        // One that has such copies already goes on with them.
        if let Err(error) = self.check_copies()
            && before.check_copies().is_ok()
        {
            *self = before;
            return Err(error);
        }
        let changed = *self != before;
        if changed {
            self.revision = Revision::default();
        }
        Ok(changed)
    }

    /// Takes in the fields of another index, for questions over both: a field has the readings of either, and where
    /// they declare it differently the declaration here stands, but that objects are nested where they are in either.
    pub fn join(&mut self, other: &Mapping) {
        for (path, field) in &other.fields {
            let ours = self.fields.entry(path.clone()).or_default();
            ours.absorb(field);
            if field.ty() == Some(FieldType::Nested) {
                ours.declared = field.ty();
            }
        }
        self.definitions.absorb(&other.definitions);
        self.take_names(other);
        self.hidden.extend(other.hidden.iter().cloned());
        self.revision = Revision::default();
    }

    /// What its author wrote: the same mapping without what it learned from documents.
    #[must_use]
    pub fn declarations(&self) -> Mapping {
        let written = |(path, field): (&String, &Field)| {
            let field = Field {
                declared: field.declared,
                multi_fields: field.multi_fields.clone(),
                unindexed: field.unindexed,
                without_doc_values: field.without_doc_values,
                priority: field.priority,
                display: field.display.clone(),
                ..Field::default()
            };
            (field != Field::default()).then(|| (path.clone(), field))
        };
        let fields = self.fields.iter().filter_map(written).collect();
        let rules = self.rules.first_version();
        Mapping { fields, rules, has_nanos: false, has_identities: false, ..self.clone() }
    }

    /// Whether objects at a path are asked by themselves.
    pub fn is_nested(&self, path: &str) -> bool {
        self.field(path).and_then(Field::ty) == Some(FieldType::Nested)
    }

    /// The same of the fields below `path`, for documents that have no others: none is refused, and fields that were
    /// learned before others were ignored are still read.
    #[must_use]
    pub fn declarations_below(&self, path: &str) -> Mapping {
        let mut below = self.declarations();
        below.fields.retain(|field, _| field == path || is_below(field, path));
        for learned in self.children(path).filter(|field| self.mode_of(field) == Mode::Ignoring) {
            below.fields.entry(learned.to_owned()).or_default();
        }
        if self.rules.differ_in_time() {
            below.rules = self.rules.clone();
            for learned in self.children(path) {
                let made_by = self.field(learned).and_then(Field::made_by);
                below.fields.entry(learned.to_owned()).or_default().made_by = made_by;
            }
        }
        below.aliases.clear();
        below.copies.clear();
        below.hidden.clear();
        for mode in below.rules.objects.values_mut().chain([&mut below.mode]) {
            if *mode == Mode::Strict {
                *mode = Mode::Dynamic;
            }
        }
        below.revision = Revision::default();
        below
    }

    /// Whether an object at `path` may have values of which its split has no trace, because of what its author says or
    /// once said.
    pub fn may_ignore_below(&self, path: &str) -> bool {
        is_below(&self.time_field, path) || self.mode == Mode::Ignoring || self.rules.may_ignore()
    }

    /// The fields whose values have several types.
    pub fn conflicts(&self) -> Vec<Conflict> {
        let several = self.fields.iter().filter(|(_, field)| field.readings.len() > 1);
        several
            .map(|(path, field)| Conflict {
                path: path.clone(),
                types: field.readings.keys().copied().collect(),
            })
            .collect()
    }

    /// All physical columns: `_timestamp`, `_timestamp_ns` if any time has nanoseconds, `_source`, `_dynamic`, `_id`,
    /// `_version` and `_seq_no` if clients gave identities, then those of the fields by path, type, scalar before list, each
    /// followed by its nanoseconds if there are any. All are nullable.
    pub fn arrow_schema(&self) -> SchemaRef {
        let mut columns = vec![
            ArrowField::new(TIME_COLUMN, ValueType::Date.arrow_type(), true),
            ArrowField::new(SOURCE_COLUMN, DataType::Binary, true),
            ArrowField::new(DYNAMIC_COLUMN, list_of(DataType::Utf8), true),
        ];
        if self.has_nanos {
            columns.insert(1, ArrowField::new(NANOS_COLUMN, DataType::Int16, true));
        }
        if self.has_identities {
            columns.push(ArrowField::new(ID_COLUMN, DataType::Utf8, true));
            columns.extend(
                [VERSION_COLUMN, SEQ_NO_COLUMN].map(|name| ArrowField::new(name, DataType::Int64, true)),
            );
        }
        for (path, field) in &self.fields {
            for (ty, reading) in &field.readings {
                for list in reading.columns() {
                    columns.push(arrow_field(path, *ty, list));
                    columns.extend(reading.nanos.then(|| nanos_field(path, list)));
                }
            }
        }
        Arc::new(Schema::new(columns))
    }

    /// The physical column of a reading: readable, and unique also where names have no case.
    pub fn column_name(path: &str, ty: ValueType, list: bool) -> String {
        let suffix = if list { "_list" } else { "" };
        let ty = ty.column_suffix();
        if is_plain(path) {
            return format!("{path}__{ty}{suffix}");
        }
        let hash = xxh3_64(path.as_bytes()) as u32;
        format!("{}_{hash:08x}__{ty}{suffix}", sanitized(path))
    }

    /// The column of the nanoseconds since the microseconds in the column of a field's dates.
    pub fn nanos_column_name(path: &str, list: bool) -> String {
        // No column of a field ends so.
        Mapping::column_name(path, ValueType::Date, list) + "_ns"
    }

    /// What `name` means in a query; nothing where the mapping does not know it. A field is known by its
    /// path, by its other names (`message.raw` where the mapping declares `raw`) and by `.keyword`, which
    /// asks for whole values of whatever type. The time of the documents is known by its own name, and as
    /// `@timestamp` where no field has that name. An alias means the field that it is of; a field that others are copied
    /// to, these as well; a flattened one, all that is below it; and what is below a field that is passed through is
    /// known without the name of that: of several, in the one of the highest priority, of those in the first by name.
    pub fn resolve<'a>(&'a self, name: &str) -> Resolved<'a> {
        let resolved = self.resolve_own(name);
        if resolved != Resolved::default() {
            return resolved;
        }
        let mut passed = self.passed_through().map(|parent| self.resolve_own(&format!("{parent}.{name}")));
        passed.find(|resolved| *resolved != Resolved::default()).unwrap_or_default()
    }

    /// The objects whose fields are known without their names, those that count before others first.
    pub(super) fn passed_through(&self) -> impl Iterator<Item = &str> {
        let passed = self.fields.iter().filter(|(_, field)| field.ty() == Some(FieldType::Passthrough));
        let mut passed: Vec<_> = passed.collect();
        passed.sort_by_key(|(_, field)| std::cmp::Reverse(field.priority));
        passed.into_iter().map(|(parent, _)| parent.as_str())
    }

    fn resolve_own<'a>(&'a self, name: &str) -> Resolved<'a> {
        let mut resolved = Resolved::default();
        self.add_named(name, &mut resolved);
        // It is of a field, never of another alias.
        if let Some(of) = self.aliases.get(name) {
            self.add_named(of, &mut resolved);
        }
        for (end, _) in name.match_indices('.') {
            if let Some(of) = self.aliases.get(&name[..end]) {
                self.add_named(&format!("{of}{}", &name[end..]), &mut resolved);
            }
        }
        resolved
    }

    /// Adds whose values are meant by a name that is no alias.
    fn add_named<'a>(&'a self, name: &str, resolved: &mut Resolved<'a>) {
        let is_exact = self.field(name).and_then(Field::ty).is_some_and(FieldType::is_exact)
            || self.is_in_flattened(name);
        self.add_values_of(name, is_exact, resolved);
        if let Some((parent, ty)) = self.of_other_name(name) {
            self.add_values_of(parent, ty.is_exact(), resolved);
        }
    }

    /// The field of which `name` may be another name, and how its values are read by that.
    pub(super) fn of_other_name<'n>(&self, name: &'n str) -> Option<(&'n str, FieldType)> {
        let (parent, other_name) = name.rsplit_once('.')?;
        let declared = self.field(parent).and_then(|field| field.other_name(other_name));
        let is_whole = || other_name == KEYWORD && !self.hidden_names.contains(name);
        let ty = declared.or_else(|| is_whole().then_some(FieldType::Keyword))?;
        Some((parent, ty))
    }

    /// Whether a field is in an object of which all values are compared whole.
    fn is_in_flattened(&self, path: &str) -> bool {
        let mut above = path.match_indices('.').filter_map(|(end, _)| self.field(&path[..end])?.ty());
        above.any(FieldType::is_flattened)
    }

    fn add_values_of<'a>(&'a self, path: &str, is_exact: bool, resolved: &mut Resolved<'a>) {
        let known = |path: &str| self.fields.get_key_value(path).map(|(path, _)| path.as_str());
        resolved.is_time |= self.is_time(path);
        resolved.paths.extend(known(path).map(|path| (path, is_exact)));
        if self.field(path).and_then(Field::ty).is_some_and(FieldType::is_flattened) {
            resolved.paths.extend(self.children(path).map(|below| (below, true)));
        }
        let copied = self.copies.get(path).into_iter().flatten();
        resolved.paths.extend(copied.filter_map(|from| known(from)).map(|from| (from, is_exact)));
    }

    /// The names that fields have beside their paths: aliases, what values are copied to, other names of the same values,
    /// and those without the name of an object that is passed through.
    pub fn other_names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.aliases.keys().chain(self.copies.keys()).cloned().collect();
        // The time is shown by its own name alone: as a text it is what could not be read.
        for (path, field) in self.fields.iter().filter(|(path, _)| !self.is_time(path)) {
            names.extend(self.shown_names(path, field).into_keys().map(|name| format!("{path}.{name}")));
        }
        let of_fields = || self.fields.keys().chain(&names);
        let below = self
            .passed_through()
            .flat_map(|parent| of_fields().filter_map(move |name| rest_below(name, parent)));
        let is_own = |name: &&str| self.resolve_own(name) != Resolved::default();
        let without: Vec<String> = below.filter(|name| !is_own(name)).map(str::to_owned).collect();
        names.extend(without);
        names
    }

    /// The paths at which documents have the values of a field of this name. A flattened field is not what is below it.
    pub fn places_of<'a>(&'a self, name: &str) -> BTreeSet<&'a str> {
        let Resolved { is_time, paths } = self.resolve(name);
        let is_flattened =
            |path: &&str| self.field(path).and_then(Field::ty).is_some_and(FieldType::is_flattened);
        let flattened: Vec<&str> = paths.iter().map(|(path, _)| *path).filter(is_flattened).collect();
        let is_part = |path: &&str| flattened.iter().any(|parent| is_below(path, parent));
        let paths = paths.into_iter().map(|(path, _)| path).filter(|path| !is_part(path));
        paths.chain(is_time.then_some(self.time_field())).collect()
    }

    /// Whether `path` names the time of the documents.
    pub fn is_time(&self, path: &str) -> bool {
        path == self.time_field || (path == TIME_FIELD && !self.fields.contains_key(TIME_FIELD))
    }

    /// Whether fields are below `path`.
    pub fn has_children(&self, path: &str) -> bool {
        self.children(path).next().is_some()
    }

    /// The fields below `path`.
    pub fn children(&self, path: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{path}.");
        let from = (Bound::Included(prefix.clone()), Bound::Unbounded);
        let after = self.fields.range::<String, _>(from).map(|(path, _)| path.as_str());
        after.take_while(move |path| path.starts_with(&prefix))
    }

    /// The name that `path` is an alias of.
    pub fn alias_of(&self, path: &str) -> Option<&str> {
        self.aliases.get(path).map(String::as_str)
    }

    /// The field that has the values of an alias, also where that is of another name of them.
    pub fn field_of_alias(&self, path: &str) -> Option<&str> {
        let of = self.alias_of(path)?;
        let is_field = self.is_time(of) || self.fields.contains_key(of);
        Some(if is_field { of } else { self.of_other_name(of).map_or(of, |(parent, _)| parent) })
    }

    /// The aliases of fields.
    pub fn aliases(&self) -> impl Iterator<Item = &str> {
        self.aliases.keys().map(String::as_str)
    }

    /// A hash of all that it says; mappings are equal where these are. Takes as long as writing it.
    pub fn digest(&self) -> u128 {
        // A mapping of texts, numbers and flags can always be written.
        xxh3_128(&serde_json::to_vec(&(self, &self.hidden, &self.hidden_names)).unwrap_or_default())
    }

    pub(crate) fn revision(&self) -> &Revision {
        &self.revision
    }

    /// Whether one more column may be made for `path`. Its name must also be free: two paths whose
    /// names meet by chance or by malice never share a column.
    fn has_room(&self, path: &str) -> bool {
        self.column_count() < self.column_budget as usize && (is_plain(path) || self.is_name_free(path))
    }

    fn is_name_free(&self, path: &str) -> bool {
        let name = Mapping::column_name(path, ValueType::Text, false);
        let mut others = self.fields.iter().filter(|(other, _)| !is_plain(other) && *other != path);
        others.all(|(other, field)| {
            !field.has_column() || Mapping::column_name(other, ValueType::Text, false) != name
        })
    }

    fn take_names(&mut self, other: &Mapping) {
        for (alias, of) in &other.aliases {
            self.aliases.entry(alias.clone()).or_insert_with(|| of.clone());
        }
        for (to, from) in &other.copies {
            self.copies.entry(to.clone()).or_default().extend(from.iter().cloned());
        }
    }

    /// `Invalid` where values are copied to a field that would read them as another type: they are found by the type of
    /// their own field.
    fn check_copies(&self) -> Result<()> {
        let declared = |path: &String| self.fields.get(path).and_then(|field| field.declared);
        for (to, all) in &self.copies {
            for from in all {
                let (Some(ours), Some(theirs)) = (declared(from), declared(to)) else { continue };
                if !theirs.takes_copies_of(ours) {
                    return Err(Error::invalid(format!(
                        "field {from:?} of type {} is copied to {to:?} of type {}, which is not supported: declare \
                         {to:?} as the same type or as text, or write the value to both fields",
                        ours.name(),
                        theirs.name()
                    )));
                }
            }
        }
        Ok(())
    }

    fn check_mergeable(&self, other: &Mapping) -> Result<()> {
        if self.time_field != other.time_field {
            let what =
                format!("the time field is {:?} here and {:?} there", self.time_field, other.time_field);
            return Err(Error::invalid(what));
        }
        for (path, theirs) in &other.fields {
            if let Some(ours) = self.fields.get(path) {
                ours.check_mergeable(theirs, path)?;
            }
        }
        for (alias, theirs) in &other.aliases {
            if let Some(ours) = self.aliases.get(alias).filter(|ours| *ours != theirs) {
                let what = format!("field {alias:?} is an alias of {ours:?} and of {theirs:?}");
                return Err(Error::invalid(what));
            }
        }
        Ok(())
    }
}

impl Default for Mapping {
    fn default() -> Self {
        Mapping::dynamic()
    }
}

impl Field {
    /// Whether any reading has a column.
    pub fn has_column(&self) -> bool {
        self.readings.values().any(Reading::has_column)
    }

    /// The type that it is declared as, or that a dynamic template gave it. That its values are compared whole is said
    /// of all of its text, or of none.
    pub fn ty(&self) -> Option<FieldType> {
        let templated = || self.templated.as_ref()?.ty.filter(|ty| !self.has_plain_text || !ty.is_exact());
        self.declared.or_else(templated)
    }

    /// The version of the rules by which its values are read; none where no document has any.
    fn made_by(&self) -> Option<u64> {
        let is_made = !self.readings.is_empty() || self.templated.is_some();
        self.made_by.or(is_made.then_some(0))
    }

    /// Whether splits have no index of it.
    pub fn is_unindexed(&self) -> bool {
        self.unindexed || self.templated.as_ref().is_some_and(|templated| templated.unindexed)
    }

    /// Whether splits have no digest of it, and no copy of its column.
    pub fn is_without_doc_values(&self) -> bool {
        self.without_doc_values
            || self.templated.as_ref().is_some_and(|templated| templated.without_doc_values)
    }

    /// How its dates are written, unless in the usual way.
    pub fn date_format(&self) -> Option<&str> {
        self.display.format.as_deref()
    }

    /// The one value that documents of an author may have in it.
    pub fn constant(&self) -> Option<&str> {
        self.display.constant.as_deref()
    }

    /// What its numbers are multiplied by before they are rounded, where it is a `scaled_float`.
    pub fn scaling_factor(&self) -> Option<f64> {
        let templated = || self.templated.as_ref()?.scaling_factor.as_ref();
        self.display.factor.as_ref().or_else(templated)?.parse().ok()
    }

    /// The other names of its values, with what each is declared as.
    pub fn other_names(&self) -> BTreeMap<String, FieldType> {
        let mut names = self.multi_fields.clone();
        for (name, ty) in self.templated.iter().flat_map(|templated| &templated.multi_fields) {
            names.entry(name.clone()).or_insert(*ty);
        }
        names
    }

    fn other_name(&self, name: &str) -> Option<FieldType> {
        let templated = || self.templated.as_ref()?.multi_fields.get(name);
        self.multi_fields.get(name).or_else(templated).copied()
    }

    fn absorb(&mut self, other: &Field) {
        self.declared = self.declared.or(other.declared);
        for (name, ty) in &other.multi_fields {
            self.multi_fields.entry(name.clone()).or_insert(*ty);
        }
        self.mixed_list |= other.mixed_list;
        self.unindexed |= other.unindexed;
        self.without_doc_values |= other.without_doc_values;
        self.priority = self.priority.max(other.priority);
        self.display.absorb(&other.display);
        self.absorb_making(other);
        for (ty, theirs) in &other.readings {
            let ours = self.readings.entry(*ty).or_default();
            ours.scalar |= theirs.scalar;
            ours.list |= theirs.list;
            ours.dynamic |= theirs.dynamic;
            ours.dynamic_list |= theirs.dynamic_list;
            ours.nanos |= theirs.nanos;
        }
    }

    /// Of two writers that made the field by different versions, what the older one was told counts.
    fn absorb_making(&mut self, other: &Field) {
        let (ours, theirs) = (self.made_by(), other.made_by());
        self.made_by = ours;
        match (ours, theirs) {
            (_, None) => {}
            (Some(ours), Some(theirs)) if ours < theirs => {}
            (Some(ours), Some(theirs)) if ours == theirs => {
                self.has_plain_text |= other.has_plain_text;
                if let Some(theirs) = &other.templated {
                    self.templated.get_or_insert_default().absorb(theirs);
                }
            }
            _ => {
                self.made_by = theirs;
                self.has_plain_text = other.has_plain_text;
                self.templated = other.templated.clone();
            }
        }
    }

    fn check_mergeable(&self, other: &Field, path: &str) -> Result<()> {
        check_same(path, self.declared, other.declared)?;
        for (name, ty) in &self.multi_fields {
            check_same(&format!("{path}.{name}"), Some(*ty), other.multi_fields.get(name).copied())?;
        }
        Ok(())
    }
}

impl Display {
    fn absorb(&mut self, other: &Display) {
        // None is the least.
        self.format = self.format.take().max(other.format.clone());
        self.factor = self.factor.take().max(other.factor.clone());
        self.constant = self.constant.take().max(other.constant.clone());
        self.in_parent |= other.in_parent;
        self.in_root |= other.in_root;
        self.absorb_analyses(&other.analyses());
    }
}

impl Reading {
    /// Whether its values have a column of their own.
    pub fn has_column(&self) -> bool {
        self.scalar || self.list
    }

    /// Its columns: `false` for the scalar one, `true` for the list.
    pub fn columns(&self) -> impl Iterator<Item = bool> + use<> {
        self.scalar.then_some(false).into_iter().chain(self.list.then_some(true))
    }
}

impl ValueType {
    /// All types, in the order of [`Ord`].
    pub const ALL: [ValueType; 7] = [
        ValueType::Boolean,
        ValueType::Long,
        ValueType::Double,
        ValueType::Big,
        ValueType::Date,
        ValueType::Ip,
        ValueType::Text,
    ];

    /// The type of a scalar column.
    pub fn arrow_type(self) -> DataType {
        match self {
            ValueType::Boolean => DataType::Boolean,
            ValueType::Long => DataType::Int64,
            ValueType::Double => DataType::Float64,
            ValueType::Date => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            ValueType::Big | ValueType::Ip | ValueType::Text => DataType::Utf8,
        }
    }

    pub(crate) fn column_suffix(self) -> &'static str {
        match self {
            ValueType::Boolean => "bool",
            ValueType::Long => "long",
            ValueType::Double => "double",
            ValueType::Big => "big",
            ValueType::Date => "date",
            ValueType::Ip => "ip",
            ValueType::Text => "text",
        }
    }
}

impl FieldType {
    /// The type that its values are stored as; `None` for `object`.
    pub fn value_type(self) -> Option<ValueType> {
        use FieldType::*;
        Some(match self {
            Boolean => ValueType::Boolean,
            Byte | Short | Integer | Long | UnsignedLong => ValueType::Long,
            Float | Double | HalfFloat | ScaledFloat => ValueType::Double,
            Date => ValueType::Date,
            Ip => ValueType::Ip,
            Keyword | Text | Wildcard | ConstantKeyword | MatchOnlyText | Binary => ValueType::Text,
            Object
            | Nested
            | Flattened
            | FlatObject
            | Passthrough
            | GeoPoint
            | GeoShape
            | Histogram
            | AggregateMetricDouble
            | Alias
            | IntegerRange
            | LongRange
            | FloatRange
            | DoubleRange
            | DateRange
            | IpRange => return None,
        })
    }

    /// Whether all that is below a field of this type is found under its own name, too.
    pub(crate) fn is_flattened(self) -> bool {
        matches!(self, FieldType::Flattened | FieldType::FlatObject)
    }

    /// Whether no mapping says more of what is below a field of this type.
    fn is_opaque(self) -> bool {
        use FieldType::*;
        let is_of_parts = matches!(self, GeoPoint | GeoShape | Histogram | AggregateMetricDouble);
        self.is_flattened() || is_of_parts || RangeType::of(self).is_some()
    }

    /// Whether values of that type are found here as what this type says.
    fn takes_copies_of(self, from: FieldType) -> bool {
        match (from.value_type(), self.value_type()) {
            _ if matches!(self, FieldType::Text | FieldType::MatchOnlyText) => true,
            (Some(ValueType::Long), Some(ValueType::Double)) => true,
            (Some(from), Some(own)) => from == own,
            _ => true,
        }
    }

    /// Whether a query on it means the whole value.
    pub fn is_exact(self) -> bool {
        use FieldType::*;
        matches!(self, Keyword | Wildcard | ConstantKeyword | Binary)
    }
}

impl Revision {
    /// Whether nothing changed in between.
    pub(crate) fn is_same(&self, other: &Revision) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl PartialEq for Revision {
    fn eq(&self, _: &Revision) -> bool {
        true
    }
}

fn check_same(path: &str, ours: Option<FieldType>, theirs: Option<FieldType>) -> Result<()> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours != theirs => Err(declared_twice(path, ours, theirs)),
        _ => Ok(()),
    }
}

fn declared_twice(path: &str, one: FieldType, other: FieldType) -> Error {
    Error::invalid(format!("field {path:?} is declared as {} and as {}", one.name(), other.name()))
}

fn arrow_field(path: &str, ty: ValueType, list: bool) -> ArrowField {
    let data_type = if list { list_of(ty.arrow_type()) } else { ty.arrow_type() };
    ArrowField::new(Mapping::column_name(path, ty, list), data_type, true)
}

fn nanos_field(path: &str, list: bool) -> ArrowField {
    let data_type = if list { list_of(DataType::Int16) } else { DataType::Int16 };
    ArrowField::new(Mapping::nanos_column_name(path, list), data_type, true)
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(ArrowField::new("item", item, true)))
}

/// Whether a path can be a column's name as it is. One that ends like a hash is not: it could meet
/// the name made for another path.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_')
        && bytes.len() <= 100
        && !ends_like_hash(bytes)
}

fn ends_like_hash(bytes: &[u8]) -> bool {
    let Some((_, tail)) = bytes.split_last_chunk::<9>() else { return false };
    tail[0] == b'_' && tail[1..].iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// At most 60 lower-case letters, digits and underscores, starting with a letter.
fn sanitized(path: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = path.chars().take(59).map(plain).collect();
    if name.starts_with(|c: char| c.is_ascii_lowercase()) { name } else { format!("f{name}") }
}

#[cfg(test)]
mod tests;
