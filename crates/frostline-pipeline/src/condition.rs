//! `if`: conditions in a part of Painless.
//!
//! ```text
//! condition  = [ "return" ] or [ ";" ]
//! or         = and { "||" and }
//! and        = compare { "&&" compare }
//! compare    = unary [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) unary ]
//! unary      = "!" unary | value
//! value      = ( "(" or ")" | "[" [ or { "," or } ] "]" | literal | "ctx" ) { link }
//! link       = ( "." | "?." ) name [ "(" [ or { "," or } ] ")" ] | "[" or "]"
//! literal    = "null" | "true" | "false" | number | 'text' | "text"
//! ```
//!
//! Methods: `contains`, `startsWith`, `endsWith`, `containsKey`, `isEmpty`, `size`, `length`, `equals`,
//! `equalsIgnoreCase`, `toLowerCase`, `toUpperCase`.
//!
//! A condition is Invalid with its position where it is anything else. What goes wrong when it is evaluated, such as a
//! member of null without `?.`, fails the document, as in Elasticsearch.

use std::borrow::Cow;
use std::cmp::Ordering;

use frostline_base::{Error, Result};
use serde_json::{Number, Value};

use crate::document::{Document, Done, Stop, failure, kind};
use crate::limits::{CONDITION_BYTES_MAX, CONDITION_DEPTH_MAX};

mod read;

/// A condition on a document.
#[derive(Debug)]
pub struct Condition {
    source: String,
    expression: Expression,
}

#[derive(Debug)]
enum Expression {
    Literal(Value),
    List(Vec<Expression>),
    Context,
    Chain(Box<Expression>, Vec<Link>),
    Not(Box<Expression>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Compare(Box<Expression>, Comparison, Box<Expression>),
}

#[derive(Debug)]
struct Link {
    what: Of,
    /// Whether null has it, as null.
    is_safe: bool,
}

#[derive(Debug)]
enum Of {
    Member(String),
    Element(Expression),
    Call(Method, Vec<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Contains,
    ContainsKey,
    EndsWith,
    Equals,
    EqualsIgnoreCase,
    IsEmpty,
    Length,
    Size,
    StartsWith,
    ToLowerCase,
    ToUpperCase,
}

/// Each method with how many arguments it takes.
const METHODS: &[(&str, Method, usize)] = &[
    ("contains", Method::Contains, 1),
    ("containsKey", Method::ContainsKey, 1),
    ("endsWith", Method::EndsWith, 1),
    ("equals", Method::Equals, 1),
    ("equalsIgnoreCase", Method::EqualsIgnoreCase, 1),
    ("isEmpty", Method::IsEmpty, 0),
    ("length", Method::Length, 0),
    ("size", Method::Size, 0),
    ("startsWith", Method::StartsWith, 1),
    ("toLowerCase", Method::ToLowerCase, 0),
    ("toUpperCase", Method::ToUpperCase, 0),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Condition {
    /// Reads a condition. `Invalid` with the position of what is not understood.
    pub fn parse(source: &str) -> Result<Condition> {
        if source.len() > CONDITION_BYTES_MAX {
            return Err(Error::invalid(format!("a condition has at most {CONDITION_BYTES_MAX} bytes")));
        }
        let expression = read::read(source)?;
        Ok(Condition { source: source.to_owned(), expression })
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn holds(&self, document: &Document) -> Done<bool> {
        self.expression.flag(document)
    }
}

/// What an expression is.
enum Got<'a> {
    Value(Cow<'a, Value>),
    /// The document itself.
    Context,
}

fn wrong(reason: impl Into<String>) -> Stop {
    failure("script_exception", reason)
}

impl Expression {
    fn flag(&self, document: &Document) -> Done<bool> {
        match self.value(document)?.as_ref() {
            Value::Bool(flag) => Ok(*flag),
            other => Err(wrong(format!("a condition is a [{}], not a boolean", kind(other)))),
        }
    }

    fn value<'a>(&'a self, document: &'a Document) -> Done<Cow<'a, Value>> {
        match self.get(document)? {
            Got::Value(value) => Ok(value),
            Got::Context => Ok(Cow::Borrowed(document.source())),
        }
    }

    fn get<'a>(&'a self, document: &'a Document) -> Done<Got<'a>> {
        let value = match self {
            Expression::Context => return Ok(Got::Context),
            Expression::Literal(value) => Cow::Borrowed(value),
            Expression::List(elements) => {
                let elements = elements.iter().map(|element| element.value(document).map(Cow::into_owned));
                Cow::Owned(Value::Array(elements.collect::<Done<_>>()?))
            }
            Expression::Chain(start, links) => {
                let mut at = start.get(document)?;
                for link in links {
                    at = link.follow(at, document)?;
                }
                return Ok(at);
            }
            Expression::Not(operand) => Cow::Owned(Value::Bool(!operand.flag(document)?)),
            Expression::And(operands) => {
                let mut holds = true;
                for operand in operands {
                    holds = holds && operand.flag(document)?;
                }
                Cow::Owned(Value::Bool(holds))
            }
            Expression::Or(operands) => {
                let mut holds = false;
                for operand in operands {
                    holds = holds || operand.flag(document)?;
                }
                Cow::Owned(Value::Bool(holds))
            }
            Expression::Compare(left, comparison, right) => {
                let (left, right) = (left.value(document)?, right.value(document)?);
                Cow::Owned(Value::Bool(comparison.holds(&left, &right)?))
            }
        };
        Ok(Got::Value(value))
    }
}

impl Link {
    fn follow<'a>(&'a self, at: Got<'a>, document: &'a Document) -> Done<Got<'a>> {
        let at = match (at, &self.what) {
            (Got::Context, Of::Member(name)) => return Ok(Got::Value(member_of(document, name))),
            (Got::Context, Of::Element(name)) => match name.value(document)?.as_ref() {
                Value::String(name) => return Ok(Got::Value(member_of(document, name))),
                other => return Err(wrong(format!("[ctx] has no [{}] member", kind(other)))),
            },
            (Got::Context, Of::Call(Method::ContainsKey, arguments)) => {
                let name = text_argument(arguments, document)?;
                return Ok(flag(document.member(&name).is_some()));
            }
            (Got::Context, Of::Call(..)) => Cow::Borrowed(document.source()),
            (Got::Value(value), _) => value,
        };
        if at.is_null() {
            return match self.is_safe {
                true => Ok(Got::Value(at)),
                false => Err(failure("null_pointer_exception", "cannot access a member or a method of null")),
            };
        }
        match &self.what {
            Of::Member(name) => match at.as_ref() {
                Value::Object(_) => Ok(Got::Value(member(at, name))),
                other => Err(wrong(format!("a [{}] has no member [{name}]", kind(other)))),
            },
            Of::Element(place) => {
                let place = place.value(document)?;
                match (at.as_ref(), place.as_ref()) {
                    (Value::Object(_), Value::String(name)) => Ok(Got::Value(member(at, name))),
                    (Value::Array(elements), Value::Number(number)) => {
                        let number = number.as_i64().unwrap_or(-1);
                        // From the end where it is negative, as in Painless.
                        let number = if number < 0 { number + elements.len() as i64 } else { number };
                        let element = usize::try_from(number).ok().and_then(|number| elements.get(number));
                        let element =
                            element.ok_or_else(|| wrong(format!("there is no element [{number}]")))?;
                        Ok(Got::Value(Cow::Owned(element.clone())))
                    }
                    (at, place) => {
                        Err(wrong(format!("a [{}] has no element by a [{}]", kind(at), kind(place))))
                    }
                }
            }
            Of::Call(method, arguments) => {
                method.call(&at, arguments, document).map(|value| Got::Value(Cow::Owned(value)))
            }
        }
    }
}

fn flag<'a>(flag: bool) -> Got<'a> {
    Got::Value(Cow::Owned(Value::Bool(flag)))
}

fn member_of<'a>(document: &'a Document, name: &str) -> Cow<'a, Value> {
    document.member(name).map_or(Cow::Owned(Value::Null), Cow::Borrowed)
}

fn member<'a>(of: Cow<'a, Value>, name: &str) -> Cow<'a, Value> {
    match of {
        Cow::Borrowed(of) => of.get(name).map_or(Cow::Owned(Value::Null), Cow::Borrowed),
        Cow::Owned(of) => Cow::Owned(of.get(name).cloned().unwrap_or_default()),
    }
}

fn text_argument(arguments: &[Expression], document: &Document) -> Done<String> {
    let [argument] = arguments else { return Err(wrong("a method takes one argument")) };
    match argument.value(document)?.into_owned() {
        Value::String(text) => Ok(text),
        other => Err(wrong(format!("an argument is a [{}], not a string", kind(&other)))),
    }
}

impl Method {
    fn call(self, at: &Value, arguments: &[Expression], document: &Document) -> Done<Value> {
        let text = || text_argument(arguments, document);
        let argument = || match arguments {
            [argument] => argument.value(document),
            _ => Err(wrong("a method takes one argument")),
        };
        Ok(match (self, at) {
            (Method::Contains, Value::String(at)) => Value::Bool(at.contains(&text()?)),
            (Method::StartsWith, Value::String(at)) => Value::Bool(at.starts_with(&text()?)),
            (Method::EndsWith, Value::String(at)) => Value::Bool(at.ends_with(&text()?)),
            (Method::EqualsIgnoreCase, Value::String(at)) => {
                Value::Bool(at.to_lowercase() == text()?.to_lowercase())
            }
            (Method::ToLowerCase, Value::String(at)) => Value::String(at.to_lowercase()),
            (Method::ToUpperCase, Value::String(at)) => Value::String(at.to_uppercase()),
            // Java counts in units of UTF-16.
            (Method::Length, Value::String(at)) => Value::from(at.encode_utf16().count()),
            (Method::IsEmpty, Value::String(at)) => Value::Bool(at.is_empty()),
            (Method::Contains, Value::Array(at)) => {
                let wanted = argument()?;
                Value::Bool(at.iter().any(|element| equal(element, &wanted)))
            }
            (Method::IsEmpty, Value::Array(at)) => Value::Bool(at.is_empty()),
            (Method::Size | Method::Length, Value::Array(at)) => Value::from(at.len()),
            (Method::ContainsKey, Value::Object(at)) => Value::Bool(at.contains_key(&text()?)),
            (Method::IsEmpty, Value::Object(at)) => Value::Bool(at.is_empty()),
            (Method::Size, Value::Object(at)) => Value::from(at.len()),
            (Method::Equals, at) => Value::Bool(equal(at, argument()?.as_ref())),
            (method, at) => {
                let name =
                    METHODS.iter().find(|(_, known, _)| *known == method).map_or("", |(name, ..)| name);
                return Err(wrong(format!("a [{}] has no method [{name}]", kind(at))));
            }
        })
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Done<bool> {
        let order = match (self, left, right) {
            (Comparison::Equal, ..) => return Ok(equal(left, right)),
            (Comparison::NotEqual, ..) => return Ok(!equal(left, right)),
            (_, Value::Number(left), Value::Number(right)) => order(left, right),
            _ => {
                return Err(wrong(format!("cannot compare a [{}] with a [{}]", kind(left), kind(right))));
            }
        };
        Ok(match self {
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Comparison::More => order == Some(Ordering::Greater),
            _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        })
    }
}

fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => order(left, right) == Some(Ordering::Equal),
        _ => left == right,
    }
}

fn order(left: &Number, right: &Number) -> Option<Ordering> {
    let whole = |number: &Number| number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

#[cfg(test)]
mod tests;
