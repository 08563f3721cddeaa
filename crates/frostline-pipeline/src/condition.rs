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

use crate::document::{Document, Done, LOOKUP_BYTES, READ, Stop, failure, kind, shown, weight};
use crate::limits::{CONDITION_BYTES_MAX, CONDITION_DEPTH_MAX};

mod read;

/// What it counts to evaluate a part of a condition.
const STEP_BYTES: u64 = 64;

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

/// What an expression is. Nothing of a document is copied into it; what a method makes is.
enum Got<'a> {
    Value(Cow<'a, Value>),
    List(Vec<Got<'a>>),
    /// The document itself.
    Context,
}

impl Got<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Got::Value(value) => kind(value),
            Got::List(_) => "array",
            Got::Context => "object",
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Got::Value(value) if value.is_null())
    }

    fn text(&self) -> Option<&str> {
        match self {
            Got::Value(value) => value.as_str(),
            _ => None,
        }
    }

    fn equals(&self, other: &Got<'_>, document: &Document) -> Done<bool> {
        Ok(match (self, other) {
            (Got::List(left), Got::List(right)) => {
                left.len() == right.len() && all_equal(left.iter().zip(right), document)?
            }
            (Got::List(list), Got::Value(value)) | (Got::Value(value), Got::List(list)) => {
                match value.as_array() {
                    Some(elements) if elements.len() == list.len() => {
                        let elements: Vec<Got<'_>> = elements.iter().map(borrowed).collect();
                        all_equal(list.iter().zip(&elements), document)?
                    }
                    _ => false,
                }
            }
            (Got::Value(left), Got::Value(right)) => equal(left, right, document)?,
            (Got::Context, Got::Context) => true,
            (Got::Context, Got::Value(value)) | (Got::Value(value), Got::Context) => {
                equal(document.source(), value, document)?
            }
            (Got::Context, Got::List(_)) | (Got::List(_), Got::Context) => false,
        })
    }
}

fn borrowed(value: &Value) -> Got<'_> {
    Got::Value(Cow::Borrowed(value))
}

fn owned<'a>(value: impl Into<Value>) -> Got<'a> {
    Got::Value(Cow::Owned(value.into()))
}

fn all_equal<'g, 'a: 'g>(
    mut pairs: impl Iterator<Item = (&'g Got<'a>, &'g Got<'a>)>,
    document: &Document,
) -> Done<bool> {
    pairs.try_fold(true, |equal, (left, right)| Ok(equal && left.equals(right, document)?))
}

fn wrong(reason: impl Into<String>) -> Stop {
    failure("script_exception", reason)
}

impl Expression {
    fn flag(&self, document: &Document) -> Done<bool> {
        let got = self.get(document)?;
        match &got {
            Got::Value(value) if value.is_boolean() => Ok(value.as_bool() == Some(true)),
            other => Err(wrong(format!("a condition is a [{}], not a boolean", other.kind()))),
        }
    }

    fn get<'a>(&'a self, document: &'a Document) -> Done<Got<'a>> {
        document.look(STEP_BYTES, READ)?;
        Ok(match self {
            Expression::Context => Got::Context,
            Expression::Literal(value) => borrowed(value),
            Expression::List(elements) => {
                let elements = elements.iter().map(|element| element.get(document));
                Got::List(elements.collect::<Done<_>>()?)
            }
            Expression::Chain(start, links) => {
                let mut at = start.get(document)?;
                for link in links {
                    at = link.follow(at, document)?;
                }
                at
            }
            Expression::Not(operand) => owned(!operand.flag(document)?),
            Expression::And(operands) => {
                let mut holds = true;
                for operand in operands {
                    holds = holds && operand.flag(document)?;
                }
                owned(holds)
            }
            Expression::Or(operands) => {
                let mut holds = false;
                for operand in operands {
                    holds = holds || operand.flag(document)?;
                }
                owned(holds)
            }
            Expression::Compare(left, comparison, right) => {
                let (left, right) = (left.get(document)?, right.get(document)?);
                owned(comparison.holds(&left, &right, document)?)
            }
        })
    }
}

impl Link {
    fn follow<'a>(&'a self, at: Got<'a>, document: &'a Document) -> Done<Got<'a>> {
        document.look(LOOKUP_BYTES, READ)?;
        if at.is_null() {
            return match self.is_safe {
                true => Ok(at),
                false => Err(failure("null_pointer_exception", "cannot access a member or a method of null")),
            };
        }
        match &self.what {
            Of::Member(name) => member(at, name, document),
            Of::Element(place) => {
                let place = place.get(document)?;
                match (&place, place.text()) {
                    (_, Some(name)) => member(at, name, document),
                    (Got::Value(value), None) if value.is_number() => {
                        element(at, value.as_i64().unwrap_or(-1))
                    }
                    _ => Err(no_element(&at, place.kind())),
                }
            }
            Of::Call(method, arguments) => method.call(&at, arguments, document).map(owned),
        }
    }
}

fn no_element(at: &Got<'_>, place: &str) -> Stop {
    wrong(format!("a [{}] has no element by a [{place}]", at.kind()))
}

/// A member of an object; null where it has none of that name.
fn member<'a>(of: Got<'a>, name: &str, document: &'a Document) -> Done<Got<'a>> {
    let found = match of {
        Got::Context => document.member(name).map(Cow::Borrowed),
        Got::Value(Cow::Borrowed(Value::Object(members))) => members.get(name).map(Cow::Borrowed),
        other => return Err(wrong(format!("a [{}] has no member [{}]", other.kind(), shown(name)))),
    };
    Ok(Got::Value(found.unwrap_or(Cow::Owned(Value::Null))))
}

/// An element of a list: from the end where the number is negative, as in Painless.
fn element(of: Got<'_>, number: i64) -> Done<Got<'_>> {
    let place = |length: usize| {
        let number = if number < 0 { number.saturating_add(length as i64) } else { number };
        usize::try_from(number).ok().filter(|place| *place < length)
    };
    let found = match of {
        Got::Value(Cow::Borrowed(Value::Array(elements))) => {
            place(elements.len()).and_then(|place| elements.get(place)).map(borrowed)
        }
        Got::List(mut elements) => place(elements.len()).map(|place| elements.swap_remove(place)),
        other => return Err(no_element(&other, "number")),
    };
    found.ok_or_else(|| wrong(format!("there is no element [{number}]")))
}

impl Method {
    fn call(self, at: &Got<'_>, arguments: &[Expression], document: &Document) -> Done<Value> {
        let argument = || match arguments {
            [argument] => argument.get(document),
            _ => Err(wrong("a method takes one argument")),
        };
        match (self, at) {
            (Method::Equals, at) => at.equals(&argument()?, document).map(Value::from),
            (_, Got::List(elements)) => match self {
                Method::Contains => {
                    let wanted = argument()?;
                    let mut elements = elements.iter();
                    elements
                        .try_fold(false, |found, element| Ok(found || element.equals(&wanted, document)?))
                        .map(Value::from)
                }
                _ => self.of_all(elements.len()).ok_or_else(|| self.unknown(at)),
            },
            (_, Got::Context) => self.of_value(at, document.source(), argument, document),
            (_, Got::Value(value)) => self.of_value(at, value, argument, document),
        }
    }

    fn of_value<'a>(
        self,
        at: &Got<'_>,
        value: &Value,
        argument: impl Fn() -> Done<Got<'a>>,
        document: &Document,
    ) -> Done<Value> {
        match value {
            Value::String(text) => self.of_text(at, text, argument, document),
            Value::Array(elements) if self == Method::Contains => {
                let wanted = argument()?;
                document.look(weight(value), READ)?;
                for element in elements {
                    if wanted.equals(&borrowed(element), document)? {
                        return Ok(Value::Bool(true));
                    }
                }
                Ok(Value::Bool(false))
            }
            Value::Array(elements) => self.of_all(elements.len()).ok_or_else(|| self.unknown(at)),
            Value::Object(members) => match self {
                Method::ContainsKey => {
                    let name = argument()?;
                    let name = needed_text(&name)?;
                    Ok(Value::Bool(match at {
                        Got::Context => document.member(name).is_some(),
                        _ => members.contains_key(name),
                    }))
                }
                Method::Length => Err(self.unknown(at)),
                _ => self.of_all(members.len()).ok_or_else(|| self.unknown(at)),
            },
            _ => Err(self.unknown(at)),
        }
    }

    fn of_text<'a>(
        self,
        at: &Got<'_>,
        text: &str,
        argument: impl Fn() -> Done<Got<'a>>,
        document: &Document,
    ) -> Done<Value> {
        if matches!(
            self,
            Method::Contains
                | Method::EqualsIgnoreCase
                | Method::Length
                | Method::ToLowerCase
                | Method::ToUpperCase
        ) {
            document.look(text.len() as u64, READ)?;
        }
        let copied = || document.spend(text.len() as u64);
        let with = |holds: &dyn Fn(&str) -> bool| {
            let argument = argument()?;
            let argument = needed_text(&argument)?;
            document.look(argument.len() as u64, READ)?;
            Ok(Value::Bool(holds(argument)))
        };
        match self {
            Method::Contains => with(&|other| text.contains(other)),
            Method::StartsWith => with(&|other| text.starts_with(other)),
            Method::EndsWith => with(&|other| text.ends_with(other)),
            Method::EqualsIgnoreCase => with(&|other| lower(text).eq(lower(other))),
            Method::ToLowerCase => copied().map(|()| Value::String(text.to_lowercase())),
            Method::ToUpperCase => copied().map(|()| Value::String(text.to_uppercase())),
            // Java counts in units of UTF-16.
            Method::Length => Ok(Value::from(text.encode_utf16().count())),
            Method::IsEmpty => Ok(Value::Bool(text.is_empty())),
            _ => Err(self.unknown(at)),
        }
    }

    /// What it is of so many elements.
    fn of_all(self, count: usize) -> Option<Value> {
        match self {
            Method::IsEmpty => Some(Value::Bool(count == 0)),
            Method::Size | Method::Length => Some(Value::from(count)),
            _ => None,
        }
    }

    fn unknown(self, at: &Got<'_>) -> Stop {
        let name = METHODS.iter().find(|(_, known, _)| *known == self).map_or("", |(name, ..)| name);
        wrong(format!("a [{}] has no method [{name}]", at.kind()))
    }
}

/// The lower case of a text, character by character.
fn lower(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().flat_map(char::to_lowercase)
}

fn needed_text<'g>(argument: &'g Got<'_>) -> Done<&'g str> {
    argument.text().ok_or_else(|| wrong(format!("an argument is a [{}], not a string", argument.kind())))
}

impl Comparison {
    fn holds(self, left: &Got<'_>, right: &Got<'_>, document: &Document) -> Done<bool> {
        let number = |got: &Got<'_>| match got {
            Got::Value(value) => value.as_number().cloned(),
            _ => None,
        };
        let order = match (self, number(left), number(right)) {
            (Comparison::Equal, ..) => return left.equals(right, document),
            (Comparison::NotEqual, ..) => return Ok(!left.equals(right, document)?),
            (_, Some(left), Some(right)) => order(&left, &right),
            _ => {
                let (left, right) = (left.kind(), right.kind());
                return Err(wrong(format!("cannot compare a [{left}] with a [{right}]")));
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

fn equal(left: &Value, right: &Value, document: &Document) -> Done<bool> {
    Ok(match (left, right) {
        (Value::Number(left), Value::Number(right)) => order(left, right) == Some(Ordering::Equal),
        (Value::String(left), Value::String(right)) => {
            document.look(left.len().min(right.len()) as u64, READ)?;
            left == right
        }
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
            document.look(weight(left), READ)?;
            left == right
        }
        _ => left == right,
    })
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
