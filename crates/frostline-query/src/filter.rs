//! The meaning of a query, in whatever language it was written.
//!
//! The query DSL, query strings and SQL predicates are all translated into a [`Filter`], and only
//! filters are evaluated. A filter describes an exact set of documents, without scores.

mod field;
pub(crate) mod intervals;
pub(crate) mod pattern;
mod times;
pub(crate) mod words;

use std::cmp::Ordering;

use frostline_split::{Analysis, Mapping, Span};
use serde::{Deserialize, Serialize};

use crate::geo::{Relation as PointRelation, Shape};
use crate::nesting::deeper;
use crate::ranges::Relation as RangeRelation;

pub(crate) use field::Measure;
pub(crate) use field::is_index;
pub use field::{FieldPath, FieldRef, INDEX, TypedReading};
pub use intervals::{Intervals, Order, Relation};
pub use pattern::Pattern;
pub(crate) use times::{time_nanos, time_span};

/// A predicate over documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Filter {
    /// Every document.
    All,
    /// No document.
    None,
    /// A value of the field equals this one: exactly for text (case-sensitive, the whole value),
    /// numerically for numbers, as an address for IPs (a CIDR block matches all addresses inside).
    /// Values in the query arrive as written; each reading of the field compares in its own type, and
    /// a value that a reading cannot represent matches nothing there.
    Equals {
        /// The field.
        field: FieldRef,
        /// Any of these.
        values: Vec<Scalar>,
    },
    /// Analysed text: the field's text contains the tokens of `text`; on other readings it is
    /// [`Filter::Equals`] with the text as value.
    Match {
        /// None means every field of the document.
        field: Option<FieldRef>,
        /// The text as written; its tokens come from the split crate's `query_tokens`.
        text: String,
        /// How many of the distinct tokens must be present, at least one.
        minimum: Minimum,
        /// Whether the last token may be a prefix (match_bool_prefix).
        prefix_last: bool,
    },
    /// The words of `text` in sequence in one value of the field, after analysis. On other
    /// readings, and if whole values are requested, it is [`Filter::Equals`] with the text as value.
    Phrase {
        /// None means every field of the document.
        field: Option<FieldRef>,
        /// The phrase as written.
        text: String,
        /// Whether the last word may be a prefix (match_phrase_prefix).
        prefix_last: bool,
    },
    /// A text of the field has words that stand so to one another. It is asked beside what tells the words.
    Intervals {
        /// The field.
        field: FieldRef,
        /// How they stand.
        intervals: Intervals,
    },
    /// A value of the field is between the bounds. Which readings can match follows from the type
    /// of the bounds: dates are already microseconds.
    Range {
        /// The field.
        field: FieldRef,
        /// Lower bound.
        lower: Bound,
        /// Upper bound.
        upper: Bound,
    },
    /// The field has at least one value.
    Exists {
        /// The field; the parent of other fields exists if any of those does.
        field: FieldRef,
    },
    /// A value's text matches the pattern from its first to its last character. If the words of a text field are
    /// requested, the pattern is matched against each lower-cased token instead, as Elasticsearch does.
    Pattern {
        /// None means every field of the document (tokens).
        field: Option<FieldRef>,
        /// The pattern.
        pattern: Pattern,
        /// Whether letter case is ignored.
        case_insensitive: bool,
    },
    /// The document has one of these `_id`s.
    Ids(Vec<String>),
    /// Every part matches. Empty: every document.
    And(#[serde(deserialize_with = "deeper")] Vec<Filter>),
    /// At least `minimum` parts match (1 for a plain OR).
    AtLeast {
        /// How many.
        minimum: usize,
        /// The parts.
        #[serde(deserialize_with = "deeper")]
        parts: Vec<Filter>,
    },
    /// The part does not match.
    Not(#[serde(deserialize_with = "deeper")] Box<Filter>),
    /// One of the objects at a path matches by itself.
    Nested(#[serde(deserialize_with = "deeper")] Box<Nested>),
    /// The points of the field are so to a shape.
    Points {
        /// The field, whose values are its points.
        field: FieldRef,
        /// The shape.
        shape: Shape,
        /// How they are to it.
        relation: PointRelation,
    },
    /// A range of the field is so to another.
    Ranges {
        /// The field, whose values are its ranges.
        field: FieldRef,
        /// The other range.
        span: Span,
        /// How it is to that.
        relation: RangeRelation,
    },
}

/// What one object of a document matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nested {
    /// The path of the objects.
    pub path: String,
    /// What one of them matches as if it were a document that has nothing else.
    pub filter: Filter,
    /// What a document matches that has such an object, and perhaps others do.
    pub candidates: Filter,
    /// How the values of the objects are read.
    pub mapping: Mapping,
}

impl Nested {
    /// Objects at `path` that match.
    pub fn new(path: &str, filter: Filter, mapping: &Mapping) -> Nested {
        let exists = match mapping.may_ignore_below(path) {
            // An object may be there of which nothing was indexed.
            true => Filter::All,
            false => Filter::Exists { field: FieldRef::resolve(mapping, path) },
        };
        let candidates = Filter::And(vec![exists, filter.of_whole()]);
        Nested { path: path.to_owned(), filter, candidates, mapping: mapping.declarations_below(path) }
    }
}

/// What does not match `filter`.
pub(crate) fn not(filter: Filter) -> Filter {
    match filter {
        Filter::All => Filter::None,
        Filter::None => Filter::All,
        other => Filter::Not(Box::new(other)),
    }
}

impl Filter {
    /// Calls `visit` with each text that a value of a field must be, where that field's words could be asked for.
    pub(crate) fn each_whole_text(&self, visit: &mut dyn FnMut(&FieldRef, &str)) {
        match self {
            Filter::Equals { field, values } if field.has_words() => {
                for value in values {
                    if let Scalar::Text(text) = value {
                        visit(field, text);
                    }
                }
            }
            Filter::And(parts) | Filter::AtLeast { parts, .. } => {
                parts.iter().for_each(|part| part.each_whole_text(visit))
            }
            Filter::Nested(nested) => nested.filter.each_whole_text(visit),
            _ => {}
        }
    }

    /// The same for whoever sees some of the fields: what names no field asks for those that are seen, and an object is
    /// there where a field of it is that is seen.
    pub(crate) fn seen(self, mapping: &Mapping, all: &FieldRef) -> Filter {
        let each = |parts: Vec<Filter>| parts.into_iter().map(|part| part.seen(mapping, all)).collect();
        let or_all = |field: Option<FieldRef>| Some(field.unwrap_or_else(|| all.clone()));
        match self {
            Filter::Match { field, text, minimum, prefix_last } => {
                Filter::Match { field: or_all(field), text, minimum, prefix_last }
            }
            Filter::Phrase { field, text, prefix_last } => {
                Filter::Phrase { field: or_all(field), text, prefix_last }
            }
            Filter::Pattern { field, pattern, case_insensitive } => {
                Filter::Pattern { field: or_all(field), pattern, case_insensitive }
            }
            Filter::Exists { field } if mapping.hides_below(field.name()) => {
                let below = mapping.children(field.name()).map(|path| FieldRef::resolve(mapping, path));
                let fields = below.chain([field.clone()]);
                Filter::AtLeast { minimum: 1, parts: fields.map(|field| Filter::Exists { field }).collect() }
            }
            Filter::And(parts) => Filter::And(each(parts)),
            Filter::AtLeast { minimum, parts } => Filter::AtLeast { minimum, parts: each(parts) },
            Filter::Not(part) => Filter::Not(Box::new(part.seen(mapping, all))),
            Filter::Nested(nested) => {
                let filter = nested.filter.seen(mapping, all);
                Filter::Nested(Box::new(Nested::new(&nested.path, filter, mapping)))
            }
            same => same,
        }
    }

    /// Calls `visit` with the field of every part that names one.
    pub fn each_field(&self, visit: &mut dyn FnMut(&FieldRef)) {
        match self {
            Filter::And(parts) | Filter::AtLeast { parts, .. } => {
                parts.iter().for_each(|part| part.each_field(visit))
            }
            Filter::Not(part) => part.each_field(visit),
            Filter::Nested(nested) => nested.filter.each_field(visit),
            leaf => leaf.field().into_iter().for_each(visit),
        }
    }

    /// The same with another field in place of each.
    pub(crate) fn with_fields(self, of: &impl Fn(&FieldRef) -> FieldRef) -> Filter {
        let each = |parts: Vec<Filter>| parts.into_iter().map(|part| part.with_fields(of)).collect();
        match self {
            Filter::Equals { field, values } => Filter::Equals { field: of(&field), values },
            Filter::Range { field, lower, upper } => Filter::Range { field: of(&field), lower, upper },
            Filter::Exists { field } => Filter::Exists { field: of(&field) },
            Filter::Points { field, shape, relation } => {
                Filter::Points { field: of(&field), shape, relation }
            }
            Filter::Ranges { field, span, relation } => Filter::Ranges { field: of(&field), span, relation },
            Filter::Match { field, text, minimum, prefix_last } => {
                Filter::Match { field: field.as_ref().map(of), text, minimum, prefix_last }
            }
            Filter::Phrase { field, text, prefix_last } => {
                Filter::Phrase { field: field.as_ref().map(of), text, prefix_last }
            }
            Filter::Pattern { field, pattern, case_insensitive } => {
                Filter::Pattern { field: field.as_ref().map(of), pattern, case_insensitive }
            }
            Filter::Intervals { field, intervals } => Filter::Intervals { field: of(&field), intervals },
            Filter::And(parts) => Filter::And(each(parts)),
            Filter::AtLeast { minimum, parts } => Filter::AtLeast { minimum, parts: each(parts) },
            Filter::Not(part) => Filter::Not(Box::new(part.with_fields(of))),
            Filter::Nested(nested) => {
                let Nested { path, filter, candidates, mapping } = *nested;
                let (filter, candidates) = (filter.with_fields(of), candidates.with_fields(of));
                Filter::Nested(Box::new(Nested { path, filter, candidates, mapping }))
            }
            same @ (Filter::All | Filter::None | Filter::Ids(_)) => same,
        }
    }

    /// The field of a condition on one.
    pub(crate) fn field(&self) -> Option<&FieldRef> {
        match self {
            Filter::Equals { field, .. }
            | Filter::Range { field, .. }
            | Filter::Exists { field }
            | Filter::Intervals { field, .. }
            | Filter::Points { field, .. }
            | Filter::Ranges { field, .. } => Some(field),
            Filter::Match { field, .. } | Filter::Phrase { field, .. } | Filter::Pattern { field, .. } => {
                field.as_ref()
            }
            _ => None,
        }
    }

    /// What a document matches of which a part matches this.
    fn of_whole(&self) -> Filter {
        let each = |parts: &[Filter]| parts.iter().map(Filter::of_whole).collect();
        match self {
            Filter::And(parts) => Filter::And(each(parts)),
            Filter::AtLeast { minimum, parts } => Filter::AtLeast { minimum: *minimum, parts: each(parts) },
            // Other parts may match what this one does not.
            Filter::Not(_)
            | Filter::Points { relation: PointRelation::Within | PointRelation::Disjoint, .. } => Filter::All,
            Filter::Nested(nested) => nested.candidates.clone(),
            leaf => leaf.clone(),
        }
    }

    /// The field of a condition that is asked of values by their analysis, and this.
    pub(crate) fn analyzed(&self) -> Option<(&FieldRef, &Analysis)> {
        let field = match self {
            Filter::Match { field, .. } | Filter::Phrase { field, .. } | Filter::Pattern { field, .. } => {
                field.as_ref()?
            }
            // Without a normalizer these compare values as they are written.
            Filter::Equals { field, .. } | Filter::Range { field, .. } => {
                field.normalizer()?;
                field
            }
            _ => return None,
        };
        Some((field, field.analysis()?))
    }

    /// Whether it asks in which index a document is.
    pub fn asks_index(&self) -> bool {
        let mut asks = false;
        self.each_field(&mut |field| asks |= field.is_index());
        asks
    }

    /// Whether it asks for `_id`s.
    pub(crate) fn asks_ids(&self) -> bool {
        match self {
            Filter::Ids(_) => true,
            Filter::And(parts) | Filter::AtLeast { parts, .. } => parts.iter().any(Filter::asks_ids),
            Filter::Not(part) => part.asks_ids(),
            Filter::Nested(nested) => nested.filter.asks_ids(),
            _ => false,
        }
    }
}

/// A value as written in a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Scalar {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Long(i64),
    /// Any other number.
    Double(f64),
    /// Text, to be interpreted by each reading of the field in its own way (a number, a date, an address).
    Text(String),
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Bound {
    /// No bound.
    Open,
    /// The value itself is included.
    Included(Edge),
    /// The value itself is excluded.
    Excluded(Edge),
}

/// The value at one end of a range, in every type it can be parsed as. A reading of the field without a
/// counterpart here cannot match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// As a number, for Long and Double readings.
    pub number: Option<Number>,
    /// As a time in microseconds since 1970 UTC (date math, formats and time zone already applied,
    /// rounded as Elasticsearch rounds: `lt`/`gte` down, `lte`/`gt` up), for Date readings.
    pub time_us: Option<i64>,
    /// The nanoseconds since that, where the time is written to less than a microsecond. Without them the bound is the
    /// microsecond as a whole.
    pub nanos: Option<u16>,
    /// As an address (IPv4 mapped into IPv6), for Ip readings.
    pub address: Option<[u8; 16]>,
    /// As text compared byte by byte, for Text readings.
    pub text: Option<String>,
}

/// A number that keeps whole numbers exact.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Number {
    /// A whole number.
    Long(i64),
    /// A whole number that does not fit in 64 bits.
    Big(i128),
    /// Any other number.
    Double(f64),
}

impl Number {
    /// Larger whole numbers are doubles.
    pub(crate) const BIG_MAX: i128 = 10_i128.pow(38) - 1;

    /// `whole`, if it is not beyond [`Number::BIG_MAX`].
    pub(crate) fn whole(whole: i128) -> Option<i128> {
        Some(whole).filter(|whole| whole.unsigned_abs() <= Number::BIG_MAX.unsigned_abs())
    }

    /// The number that a text represents: `42`, `-1.5`, `+3e5`; finite. "nan" and "inf" are words.
    pub fn parse(text: &str) -> Option<Number> {
        if let Some(whole) = text.parse().ok().and_then(Number::whole) {
            return Some(i64::try_from(whole).map_or(Number::Big(whole), Number::Long));
        }
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        text.parse().ok().filter(|number: &f64| plain && number.is_finite()).map(Number::Double)
    }

    /// How a double compares with it, exactly.
    pub(crate) fn order_of(self, double: f64) -> Ordering {
        let whole = match self {
            Number::Double(n) => return double.partial_cmp(&n).unwrap_or(Ordering::Less),
            Number::Long(n) => i128::from(n),
            Number::Big(n) => n,
        };
        // A cast saturates at the ends, beyond which every double is greater or less than any of our numbers.
        let below = double.floor();
        (below as i128).cmp(&whole).then(if double > below { Ordering::Greater } else { Ordering::Equal })
    }
}

/// How many tokens of a [`Filter::Match`] must be present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Minimum {
    /// All (operator and).
    All,
    /// At least this many, already resolved; 1 is operator or. A percentage or a combination is
    /// resolved by the parser, which knows the tokens.
    Count(usize),
}
