//! The values of a document: those of JSON, in which a number keeps the text that it was read from.
//!
//! Whoever moves or copies a value has its text with it, so that a number is written as it was read, of however many digits
//! it is. What is computed is a number without such a text.

use std::fmt;
use std::sync::Arc;

use frostline_base::Result;
use indexmap::IndexMap;

use crate::original::{read_json, text_of};

/// The members of an object, in their order.
pub type Map = IndexMap<String, Value>;

/// A value of a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Map),
}

/// A number of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Long(i64),
    /// A whole number that is too large for that.
    Big(u64),
    /// Any other.
    Double(Double),
}

/// The nearest double to a number.
#[derive(Clone, Debug)]
pub struct Double {
    value: f64,
    /// What it was read from, where the double is written otherwise.
    text: Option<Arc<str>>,
}

impl Value {
    /// Reads JSON; every number keeps its text. `Invalid` if it is no JSON, or if an object has a key twice.
    pub fn read(json: &[u8]) -> Result<Value> {
        read_json(text_of(json)?, false, true)
    }

    /// What JSON is that is neither an object nor an array: none where this is no such text.
    pub(crate) fn of_scalar(text: &str) -> Option<Value> {
        Some(match text {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ if text.starts_with('"') => Value::String(serde_json::from_str(text).ok()?),
            _ => Value::Number(Number::read(text)?),
        })
    }

    /// A double that JSON can have.
    pub(crate) fn of_double(value: f64) -> Option<Value> {
        value.is_finite().then(|| Value::Number(Number::Double(value.into())))
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub(crate) fn is_array(&self) -> bool {
        matches!(self, Value::Array(_))
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Value::Object(_))
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Value::Number(_))
    }

    /// A text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number of 64 bits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(number.as_f64()),
            _ => None,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&Vec<Value>> {
        match self {
            Value::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The members of an object.
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// A member, where this is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.as_object()?.get(name)
    }

    pub(crate) fn take(&mut self) -> Value {
        std::mem::take(self)
    }
}

impl Number {
    /// Reads a number of JSON.
    fn read(text: &str) -> Option<Number> {
        if !text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            return None;
        }
        // No whole number is below zero and zero.
        if text != "-0" {
            if let Ok(whole) = text.parse() {
                return Some(Number::Long(whole));
            }
            if let Ok(whole) = text.parse() {
                return Some(Number::Big(whole));
            }
        }
        let double = Double::from(text.parse::<f64>().ok()?);
        Some(Number::Double(match double.to_string() == text {
            true => double,
            false => Double { text: Some(text.into()), ..double },
        }))
    }

    pub(crate) fn as_i64(&self) -> Option<i64> {
        match self {
            Number::Long(whole) => Some(*whole),
            _ => None,
        }
    }

    pub(crate) fn as_f64(&self) -> f64 {
        match self {
            Number::Long(whole) => *whole as f64,
            Number::Big(whole) => *whole as f64,
            Number::Double(double) => double.value,
        }
    }

    /// The number that processors read, as a text.
    pub(crate) fn text(&self) -> String {
        match self {
            Number::Double(double) => double.rounded().map_or_else(|| written(double.value), str::to_owned),
            whole => whole.to_string(),
        }
    }

    /// The bytes of the text that it keeps.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Number::Double(double) => double.text_bytes(),
            _ => 0,
        }
    }
}

impl Double {
    pub(crate) fn value(&self) -> f64 {
        self.value
    }

    /// Whether JSON has it.
    pub(crate) fn can_be_written(&self) -> bool {
        self.value.is_finite() || self.text.is_some()
    }

    /// What it was read from, where that is a number that no double is: a whole one of more than 64 bits, or one that is too
    /// large for any.
    pub(crate) fn rounded(&self) -> Option<&str> {
        let is_rounded = |text: &&str| {
            self.value.is_infinite() || text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
        };
        self.text.as_deref().filter(|text| *text != "-0").filter(is_rounded)
    }

    pub(crate) fn text_bytes(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len())
    }
}

impl From<f64> for Double {
    fn from(value: f64) -> Double {
        Double { value, text: None }
    }
}

impl PartialEq for Double {
    fn eq(&self, other: &Double) -> bool {
        self.value == other.value && self.rounded() == other.rounded()
    }
}

/// A double as JSON has it, in as few digits as mean it.
fn written(double: f64) -> String {
    serde_json::Number::from_f64(double).map_or_else(|| double.to_string(), |number| number.to_string())
}

impl fmt::Display for Double {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&written(self.value)),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Long(whole) => whole.fmt(f),
            Number::Big(whole) => whole.fmt(f),
            Number::Double(double) => double.fmt(f),
        }
    }
}

/// As JSON.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(flag) => flag.fmt(f),
            Value::Number(number) => number.fmt(f),
            Value::String(text) => f.write_str(&quoted(text)),
            Value::Array(elements) => {
                f.write_str("[")?;
                for (place, element) in elements.iter().enumerate() {
                    f.write_str(if place > 0 { "," } else { "" })?;
                    element.fmt(f)?;
                }
                f.write_str("]")
            }
            Value::Object(members) => {
                f.write_str("{")?;
                for (place, (name, member)) in members.iter().enumerate() {
                    f.write_str(if place > 0 { "," } else { "" })?;
                    f.write_str(&quoted(name))?;
                    f.write_str(":")?;
                    member.fmt(f)?;
                }
                f.write_str("}")
            }
        }
    }
}

/// A text with its quotes and escapes.
pub(crate) fn quoted(text: &str) -> String {
    // A text can always be written.
    serde_json::to_string(text).unwrap_or_default()
}

impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Value {
        match json {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(flag) => Value::Bool(flag),
            serde_json::Value::Number(number) => Value::Number(match (number.as_i64(), number.as_u64()) {
                (Some(whole), _) => Number::Long(whole),
                (None, Some(whole)) => Number::Big(whole),
                (None, None) => Number::Double(number.as_f64().unwrap_or_default().into()),
            }),
            serde_json::Value::String(text) => Value::String(text),
            serde_json::Value::Array(elements) => {
                Value::Array(elements.into_iter().map(Value::from).collect())
            }
            serde_json::Value::Object(members) => members.into(),
        }
    }
}

impl From<serde_json::Map<String, serde_json::Value>> for Value {
    fn from(members: serde_json::Map<String, serde_json::Value>) -> Value {
        Value::Object(members.into_iter().map(|(name, member)| (name, member.into())).collect())
    }
}

impl From<Map> for Value {
    fn from(members: Map) -> Value {
        Value::Object(members)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Bool(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text)
    }
}

impl From<i64> for Value {
    fn from(whole: i64) -> Value {
        Value::Number(Number::Long(whole))
    }
}

impl From<i32> for Value {
    fn from(whole: i32) -> Value {
        Value::from(i64::from(whole))
    }
}

impl From<u16> for Value {
    fn from(whole: u16) -> Value {
        Value::from(i64::from(whole))
    }
}

impl From<u64> for Value {
    fn from(whole: u64) -> Value {
        Value::Number(i64::try_from(whole).map_or(Number::Big(whole), Number::Long))
    }
}

#[cfg(test)]
mod tests;
