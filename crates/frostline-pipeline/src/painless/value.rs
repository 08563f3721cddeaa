//! What scripts compute with.
//!
//! Lists, maps and the like are places on a heap that ends with the run: they may refer to each other in any way, and
//! nothing recursive is ever dropped. What a script cannot change stays where it is, as JSON.

use std::ops::Deref;
use std::rc::Rc;

use indexmap::IndexMap;

use super::tree::Pattern;
use crate::document::Document;
use crate::value::{Double, Number, Value};

/// A text of the script or its JSON, or one that was made.
#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Made(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Made(text) => text,
        }
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text::Made(text.into())
    }
}

#[derive(Clone, Debug)]
pub(super) enum Got<'a> {
    Null,
    Boolean(bool),
    /// A unit of UTF-16.
    Char(u16),
    Int(i32),
    Long(i64),
    /// A whole number that is too large for that.
    Big(u64),
    Float(f32),
    Double(Double),
    Text(Text<'a>),
    /// An object or an array that the script cannot change.
    Json(&'a Value),
    /// The context of a condition.
    Context(&'a Document),
    /// A place on the heap.
    Heap(usize),
    /// The keys, values or entries of a map.
    View(Rc<Got<'a>>, Part),
    /// A member of a map, by its name.
    Entry(Rc<Got<'a>>, Text<'a>),
    Pattern(&'a Pattern),
    Failure(Rc<(&'static str, String)>),
    Collector(Collector<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Keys,
    Values,
    Entries,
}

/// What a stream becomes.
#[derive(Clone, Debug)]
pub(super) enum Collector<'a> {
    List,
    Set,
    Joined(Text<'a>),
}

pub(super) type Members<'a> = IndexMap<Rc<str>, Got<'a>>;

#[derive(Debug)]
pub(super) enum Object<'a> {
    List(Vec<Got<'a>>),
    /// No two elements are equal.
    Set(Vec<Got<'a>>),
    Map(Members<'a>),
    /// An iterator, with the next of its elements.
    Cursor(Vec<Got<'a>>, usize),
    /// A tokenizer, in the same way.
    Tokens(Vec<Got<'a>>, usize),
    Builder(String),
    Matcher {
        pattern: &'a Pattern,
        text: Text<'a>,
        groups: Option<Groups>,
        next: usize,
    },
}

/// Where each group of a match is, by its number.
pub(super) type Groups = Vec<Option<(usize, usize)>>;

impl<'a> Got<'a> {
    pub(super) fn text(text: impl Into<String>) -> Got<'a> {
        Got::Text(Text::from(text.into()))
    }

    pub(super) fn double(number: f64) -> Got<'a> {
        Got::Double(number.into())
    }

    pub(super) fn of_json(value: &'a Value) -> Got<'a> {
        match value {
            Value::Null => Got::Null,
            Value::Bool(flag) => Got::Boolean(*flag),
            Value::Number(number) => Got::of_number(number),
            Value::String(text) => Got::Text(Text::Borrowed(text)),
            Value::Array(_) | Value::Object(_) => Got::Json(value),
        }
    }

    /// Whole numbers are as small as Java reads them.
    pub(super) fn of_number(number: &Number) -> Got<'a> {
        match number {
            Number::Long(whole) => i32::try_from(*whole).map_or(Got::Long(*whole), Got::Int),
            Number::Big(whole) => Got::Big(*whole),
            Number::Double(double) => Got::Double(double.clone()),
        }
    }

    /// A number, if it is a whole one.
    pub(super) fn whole(&self) -> Option<i128> {
        match self {
            Got::Char(unit) => Some(i128::from(*unit)),
            Got::Int(number) => Some(i128::from(*number)),
            Got::Long(number) => Some(i128::from(*number)),
            Got::Big(number) => Some(i128::from(*number)),
            _ => None,
        }
    }

    /// A number of any kind.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Got::Float(number) => Some(f64::from(*number)),
            Got::Double(number) => Some(number.value()),
            other => other.whole().map(|whole| whole as f64),
        }
    }
}

/// A number of single precision as JSON has it; none where JSON has none.
pub(super) fn json_of_float(number: f32) -> Option<Value> {
    // The shortest digits that are this number in 32 bits are not those of it in 64.
    Value::of_double(number.to_string().parse().unwrap_or(f64::from(number)))
}

/// A number with a fraction as Java writes it.
pub(super) fn java_of_float(number: f64, is_single: bool) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = number.abs();
    if number == 0.0 || (1e-3..1e7).contains(&size) {
        return if is_single { format!("{:?}", number as f32) } else { format!("{number:?}") };
    }
    let scientific = if is_single { format!("{:e}", number as f32) } else { format!("{number:e}") };
    match scientific.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        Some((digits, exponent)) => format!("{digits}E{exponent}"),
        None => scientific,
    }
}

/// Members that are to be written.
pub(super) fn object(members: impl Iterator<Item = (String, Value)>) -> Value {
    Value::Object(members.collect())
}
