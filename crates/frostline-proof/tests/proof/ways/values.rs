//! What a document holds: every path with its typed values.

use std::cmp::Ordering;
use std::net::IpAddr;

use serde_json::{Map, Value};

use super::documents::Scene;

/// One typed value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Typed {
    Boolean(bool),
    Number(Number),
    /// Nanoseconds since 1970 UTC.
    Date(i64),
    Address(u128),
    Text(String),
}

/// A number without rounding.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Whole(i128),
    Fraction(f64),
}

impl Number {
    pub(crate) fn of(value: &Value) -> Option<Number> {
        match value {
            Value::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(whole), _) => Some(Number::Whole(whole.into())),
                (_, Some(whole)) => Some(Number::Whole(whole.into())),
                _ => n.as_f64().map(Number::Fraction),
            },
            Value::String(text) => {
                let text = text.trim();
                let whole = text.parse().ok().map(Number::Whole);
                let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
                whole.or_else(|| {
                    text.parse().ok().filter(|n: &f64| plain && n.is_finite()).map(Number::Fraction)
                })
            }
            _ => None,
        }
    }

    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Number::Whole(n) => n as f64,
            Number::Fraction(n) => n,
        }
    }

    pub(crate) fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => a.cmp(&b),
            (Number::Fraction(a), Number::Fraction(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Number::Whole(a), Number::Fraction(b)) => whole_and_fraction(a, b),
            (Number::Fraction(a), Number::Whole(b)) => whole_and_fraction(b, a).reverse(),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.compare(*other) == Ordering::Equal
    }
}

fn whole_and_fraction(whole: i128, fraction: f64) -> Ordering {
    // Beyond 1e30 no whole number of a document is near.
    if fraction.abs() > 1e30 {
        return if fraction > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let floor = fraction.floor();
    whole.cmp(&(floor as i128)).then(if fraction > floor { Ordering::Less } else { Ordering::Equal })
}

/// A document and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct Doc {
    /// Its number, unique in the scene.
    pub(crate) n: i64,
    pub(crate) time_ns: Option<i64>,
    pub(crate) values: Vec<(String, Typed)>,
}

impl Doc {
    pub(crate) fn new(scene: &Scene, source: &Value) -> Doc {
        let mut doc = Doc { n: source["n"].as_i64().unwrap_or(-1), time_ns: None, values: Vec::new() };
        if let Value::Object(object) = source {
            doc.object(scene, "", object);
        }
        doc
    }

    fn object(&mut self, scene: &Scene, prefix: &str, object: &Map<String, Value>) {
        for (key, value) in object {
            self.value(scene, &format!("{prefix}{key}"), value);
        }
    }

    fn value(&mut self, scene: &Scene, path: &str, value: &Value) {
        match value {
            Value::Null => {}
            Value::Object(object) => self.object(scene, &format!("{path}."), object),
            Value::Array(items) => items.iter().for_each(|item| self.value(scene, path, item)),
            _ if path == scene.time_field && self.time_ns.is_none() && time_of(value).is_some() => {
                self.time_ns = time_of(value);
            }
            one => self.values.push((path.to_owned(), typed(scene.declared(path), one))),
        }
    }

    /// The values at a path.
    pub(crate) fn at<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Typed> {
        self.values.iter().filter(move |(own, _)| own == path).map(|(_, value)| value)
    }
}

/// The value that a JSON value is, where its field is declared so.
fn typed(declared: Option<&str>, value: &Value) -> Typed {
    let written = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let own = natural(value);
    let read = match declared {
        Some("keyword" | "text" | "wildcard") => Some(Typed::Text(written)),
        Some("long" | "integer") => match &own {
            Typed::Text(_) => Number::of(value).and_then(whole).map(Typed::Number),
            Typed::Number(n) => whole(*n).map(Typed::Number),
            _ => None,
        },
        Some("double") => match &own {
            Typed::Number(_) | Typed::Text(_) => {
                Number::of(value).map(|n| Typed::Number(Number::Fraction(n.as_f64())))
            }
            _ => None,
        },
        Some("boolean") => match &own {
            Typed::Text(text) => text.parse().ok().map(Typed::Boolean),
            _ => None,
        },
        Some("date") => time_of(value).map(Typed::Date),
        _ => None,
    };
    read.unwrap_or(own)
}

fn whole(number: Number) -> Option<Number> {
    match number {
        Number::Whole(_) => Some(number),
        Number::Fraction(n) => {
            (n.fract() == 0.0 && n.abs() <= 2f64.powi(53)).then_some(Number::Whole(n as i128))
        }
    }
}

fn natural(value: &Value) -> Typed {
    match value {
        Value::Bool(b) => Typed::Boolean(*b),
        Value::String(text) => match (date(text), address(text)) {
            (Some(time_ns), _) => Typed::Date(time_ns),
            (_, Some(address)) => Typed::Address(address),
            _ => Typed::Text(text.clone()),
        },
        number => Number::of(number).map_or_else(|| Typed::Text(number.to_string()), Typed::Number),
    }
}

/// The nanoseconds of a date as the generator writes them: a day, or a time in UTC. Further digits are cut.
pub(crate) fn date(text: &str) -> Option<i64> {
    if text.len() == 10 {
        let day: jiff::civil::Date = text.parse().ok()?;
        return nanoseconds(day.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp());
    }
    let looks = text.len() >= 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z');
    let nine = "2024-05-31T10:00:00.123456789".len();
    let cut = match text.strip_suffix('Z').filter(|digits| digits.len() > nine) {
        Some(_) => format!("{}Z", text.get(..nine)?),
        None => text.to_owned(),
    };
    let time: jiff::Timestamp = cut.parse().ok().filter(|_| looks)?;
    nanoseconds(time)
}

fn nanoseconds(time: jiff::Timestamp) -> Option<i64> {
    time.as_nanosecond().try_into().ok()
}

/// The time that a value of the time field, or of a declared date, is.
pub(crate) fn time_of(value: &Value) -> Option<i64> {
    match value {
        // The generator writes milliseconds.
        Value::Number(n) => n.as_i64().and_then(|ms| ms.checked_mul(1_000_000)),
        Value::String(text) => date(text),
        _ => None,
    }
}

/// An address as a number, IPv4 mapped into IPv6.
pub(crate) fn address(text: &str) -> Option<u128> {
    let address: IpAddr = text.parse().ok()?;
    Some(match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    })
}

/// The one text of an address.
pub(crate) fn address_text(address: u128) -> String {
    IpAddr::V6(address.into()).to_canonical().to_string()
}

/// A value as JSON would have it.
pub(crate) fn literal(value: &Typed) -> Value {
    match value {
        Typed::Boolean(b) => Value::from(*b),
        Typed::Number(Number::Whole(n)) => whole_value(*n),
        Typed::Number(Number::Fraction(n)) => Value::from(*n),
        Typed::Date(time_ns) => {
            let time = jiff::Timestamp::from_nanosecond((*time_ns).into()).expect("a time");
            let digits = match (time_ns % 1_000_000, time_ns % 1_000) {
                (0, _) => 3,
                (_, 0) => 6,
                _ => 9,
            };
            Value::from(format!("{time:.digits$}"))
        }
        Typed::Address(address) => Value::from(address_text(*address)),
        Typed::Text(text) => Value::from(text.as_str()),
    }
}

/// A whole number; as text where 64 bits do not hold it.
pub(crate) fn whole_value(whole: i128) -> Value {
    let signed = i64::try_from(whole).map(Value::from);
    signed
        .or_else(|_| u64::try_from(whole).map(Value::from))
        .unwrap_or_else(|_| Value::from(whole.to_string()))
}

/// A value among text.
pub(crate) fn text_of(value: &Typed) -> String {
    match literal(value) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// First and last address of a block.
pub(crate) fn block(text: &str) -> Option<(u128, u128)> {
    let (first, bits) = text.split_once('/')?;
    let bits: u32 = bits.parse().ok()?;
    let bits = if first.contains(':') { bits } else { bits + 96 };
    let hosts = u128::MAX.checked_shr(bits).unwrap_or(0);
    let first = address(first)?;
    Some((first & !hosts, first | hosts))
}
