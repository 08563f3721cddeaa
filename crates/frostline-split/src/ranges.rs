//! Ranges: what fields of the types `integer_range`, `long_range`, `float_range`, `double_range`, `date_range` and
//! `ip_range` hold.
//!
//! - A range is an object of one end or two: `gte` or `gt`, and `lte` or `lt`. Of addresses it is also a block such as
//!   `10.0.0.0/8`.
//! - The values of a type have places in one order. A range goes from one place to another, both inside: an end that is
//!   excluded is the next place, and one that is open is the first or the last of the type.
//! - As in Elasticsearch, a document's whole numbers lose their fraction, and `float_range` has numbers of 32 bits.

use serde::{Deserialize, Serialize};

use crate::document::Value;
use crate::mapping::FieldType;
use crate::values::{Moment, ip_text, parse_cidr, parse_double, parse_ip, parse_moment_field};

/// What the values in a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RangeType {
    /// Whole numbers of 32 bits.
    Integer,
    /// Whole numbers of 64 bits.
    Long,
    /// Numbers of 32 bits.
    Float,
    /// Numbers of 64 bits.
    Double,
    /// Times, to the nanosecond.
    Date,
    /// Addresses.
    Ip,
}

/// The places from the first to the last, both inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// The first place.
    pub first: i128,
    /// The last place.
    pub last: i128,
}

/// An end of a range, by its name in documents and queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeEnd {
    /// `gte`
    AtLeast,
    /// `gt`
    Above,
    /// `lte`
    AtMost,
    /// `lt`
    Below,
}

/// The ends of a range of which more may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeEnds {
    first: Option<i128>,
    last: Option<i128>,
}

impl RangeEnd {
    /// By its name.
    pub fn of_name(name: &str) -> Option<RangeEnd> {
        Some(match name {
            "gte" => RangeEnd::AtLeast,
            "gt" => RangeEnd::Above,
            "lte" => RangeEnd::AtMost,
            "lt" => RangeEnd::Below,
            _ => return None,
        })
    }

    /// By its side, and whether the value itself is inside.
    pub fn new(is_lower: bool, is_included: bool) -> RangeEnd {
        match (is_lower, is_included) {
            (true, true) => RangeEnd::AtLeast,
            (true, false) => RangeEnd::Above,
            (false, true) => RangeEnd::AtMost,
            (false, false) => RangeEnd::Below,
        }
    }

    /// Whether it is where a range begins.
    pub fn is_lower(self) -> bool {
        matches!(self, RangeEnd::AtLeast | RangeEnd::Above)
    }

    /// The place that is inside, where the values at the end have these places.
    pub fn inside(self, values: Span) -> i128 {
        match self {
            RangeEnd::AtLeast => values.first,
            RangeEnd::Above => values.last.saturating_add(1),
            RangeEnd::AtMost => values.last,
            RangeEnd::Below => values.first.saturating_sub(1),
        }
    }
}

impl RangeEnds {
    /// Adds an end; says what is wrong with it.
    pub fn put(&mut self, ty: RangeType, end: RangeEnd, value: &Value<'_>) -> Result<(), String> {
        let place = end.inside(Span::at(ty.place(value)?));
        let known = if end.is_lower() { &mut self.first } else { &mut self.last };
        match known.replace(place) {
            None => Ok(()),
            Some(_) if end.is_lower() => Err("only one of [gte] and [gt] may be given, and once".to_owned()),
            Some(_) => Err("only one of [lte] and [lt] may be given, and once".to_owned()),
        }
    }

    /// Whether it has both.
    pub fn has_both(&self) -> bool {
        self.first.is_some() && self.last.is_some()
    }

    /// The range; none without an end, and what is wrong where it has no place.
    pub fn span(&self, ty: RangeType) -> Result<Option<Span>, String> {
        if self.first.is_none() && self.last.is_none() {
            return Ok(None);
        }
        let all = ty.all();
        let (first, last) = (self.first.unwrap_or(all.first), self.last.unwrap_or(all.last));
        match first <= last {
            true => Ok(Some(Span { first, last })),
            false => {
                Err(format!("min value ({}) is greater than max value ({})", ty.text(first), ty.text(last)))
            }
        }
    }
}

impl Span {
    fn at(place: i128) -> Span {
        Span { first: place, last: place }
    }

    /// Whether they have a place in common.
    pub fn meets(&self, other: &Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Whether all places of the other are in it.
    pub fn contains(&self, other: &Span) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

/// A number of a document or a query.
enum Written {
    Whole(i128),
    Real(f64),
}

impl Written {
    fn of(value: &Value<'_>) -> Option<Written> {
        let text = match value {
            Value::Long(number) => return Some(Written::Whole((*number).into())),
            Value::Double(number) => return Some(Written::Real(*number)),
            Value::Big(text) | Value::Text(text) => text.trim(),
            Value::Boolean(_) | Value::Date(_) | Value::Ip(_) => return None,
        };
        text.parse().ok().map(Written::Whole).or_else(|| parse_double(text).map(Written::Real))
    }

    fn real(self) -> f64 {
        match self {
            Written::Whole(number) => number as f64,
            Written::Real(number) => number,
        }
    }
}

impl RangeType {
    /// What the ranges of a field of this type hold; none of another type.
    pub fn of(ty: FieldType) -> Option<RangeType> {
        Some(match ty {
            FieldType::IntegerRange => RangeType::Integer,
            FieldType::LongRange => RangeType::Long,
            FieldType::FloatRange => RangeType::Float,
            FieldType::DoubleRange => RangeType::Double,
            FieldType::DateRange => RangeType::Date,
            FieldType::IpRange => RangeType::Ip,
            _ => return None,
        })
    }

    /// The type of a field that has such ranges.
    pub fn field_type(self) -> FieldType {
        match self {
            RangeType::Integer => FieldType::IntegerRange,
            RangeType::Long => FieldType::LongRange,
            RangeType::Float => FieldType::FloatRange,
            RangeType::Double => FieldType::DoubleRange,
            RangeType::Date => FieldType::DateRange,
            RangeType::Ip => FieldType::IpRange,
        }
    }

    /// The type of a field that has what is in such ranges.
    pub fn value_type(self) -> FieldType {
        match self {
            RangeType::Integer => FieldType::Integer,
            RangeType::Long => FieldType::Long,
            RangeType::Float => FieldType::Float,
            RangeType::Double => FieldType::Double,
            RangeType::Date => FieldType::Date,
            RangeType::Ip => FieldType::Ip,
        }
    }

    /// All places.
    pub fn all(self) -> Span {
        let (first, last) = match self {
            RangeType::Integer => (i32::MIN.into(), i32::MAX.into()),
            RangeType::Long => (i64::MIN.into(), i64::MAX.into()),
            RangeType::Float => (float_place(f32::NEG_INFINITY), float_place(f32::INFINITY)),
            RangeType::Double => (double_place(f64::NEG_INFINITY), double_place(f64::INFINITY)),
            RangeType::Date => {
                (i128::from(i64::MIN) * NANOS_PER_MICRO, i128::from(i64::MAX) * NANOS_PER_MICRO + 999)
            }
            RangeType::Ip => (i128::MIN, i128::MAX),
        };
        Span { first, last }
    }

    /// The place of a document's value, or what is wrong with it.
    pub fn place(self, value: &Value<'_>) -> Result<i128, String> {
        let number = || Written::of(value).ok_or_else(|| format!("For input string: \"{}\"", shown(value)));
        match self {
            RangeType::Integer | RangeType::Long => {
                let whole = match number()? {
                    Written::Whole(number) => number,
                    // A cast ends where the numbers end.
                    Written::Real(number) => number as i128,
                };
                let Span { first, last } = self.all();
                let kind = if self == RangeType::Integer { "an integer" } else { "a long" };
                match (first..=last).contains(&whole) {
                    true => Ok(whole),
                    false => Err(format!("Value [{}] is out of range for {kind}", shown(value))),
                }
            }
            RangeType::Float => match number()?.real() as f32 {
                real if real.is_finite() => Ok(float_place(real)),
                _ => Err(format!("[float] supports only finite values, but got [{}]", shown(value))),
            },
            RangeType::Double => match number()?.real() {
                real if real.is_finite() => Ok(double_place(real)),
                _ => Err(format!("[double] supports only finite values, but got [{}]", shown(value))),
            },
            RangeType::Date => parse_moment_field(value)
                .map(Moment::ns)
                .ok_or_else(|| format!("failed to parse date field [{}]", shown(value))),
            RangeType::Ip => match value {
                Value::Ip(text) | Value::Text(text) => {
                    parse_ip(text.trim()).map(|bytes| address_place(&bytes))
                }
                _ => None,
            }
            .ok_or_else(|| format!("'{}' is not an IP string literal.", shown(value))),
        }
    }

    /// The places of what a query writes, which are none in between where it is between two of the type: `3.5` of whole
    /// numbers. None of dates, which are read as queries read them, and of what is no value of the type.
    pub fn asked(self, text: &str) -> Option<Span> {
        let real = || parse_double(text.trim());
        match self {
            RangeType::Integer | RangeType::Long => match Written::of(&Value::Text(text))? {
                Written::Whole(number) => Some(Span::at(number)),
                Written::Real(number) => {
                    Some(Span { first: number.ceil() as i128, last: number.floor() as i128 })
                }
            },
            RangeType::Float => real().map(|real| Span::at(float_place(real as f32))),
            RangeType::Double => real().map(|real| Span::at(double_place(real))),
            RangeType::Date => None,
            RangeType::Ip => self.block(text).or_else(|| {
                let address = parse_ip(text.trim())?;
                Some(Span::at(address_place(&address)))
            }),
        }
    }

    /// The addresses of a block such as `10.0.0.0/8`.
    pub fn block(self, text: &str) -> Option<Span> {
        let (first, last) = parse_cidr(text.trim()).filter(|_| self == RangeType::Ip)?;
        Some(Span { first: address_place(&first), last: address_place(&last) })
    }

    /// The number that a place is; of times the milliseconds. None of addresses.
    pub fn number(self, place: i128) -> Option<f64> {
        match self {
            RangeType::Integer | RangeType::Long => Some(place as f64),
            RangeType::Float => Some(f64::from(f32::from_bits(ordered(place as i32, i32::MAX) as u32))),
            RangeType::Double => Some(f64::from_bits(ordered(place as i64, i64::MAX) as u64)),
            RangeType::Date => Some(place.div_euclid(NANOS_PER_MICRO * 1_000) as f64),
            RangeType::Ip => None,
        }
    }

    fn text(self, place: i128) -> String {
        match self {
            RangeType::Integer | RangeType::Long => place.to_string(),
            RangeType::Float | RangeType::Double => {
                self.number(place).map_or_else(String::new, |number| format!("{number:?}"))
            }
            RangeType::Date => place.div_euclid(NANOS_PER_MICRO * 1_000).to_string(),
            RangeType::Ip => ip_text(&(place as u128 ^ HIGH_BIT).to_be_bytes()),
        }
    }
}

const NANOS_PER_MICRO: i128 = 1_000;
const HIGH_BIT: u128 = 1 << 127;

/// Addresses in their order, IPv4 as mapped into IPv6.
fn address_place(address: &[u8; 16]) -> i128 {
    (u128::from_be_bytes(*address) ^ HIGH_BIT) as i128
}

fn double_place(number: f64) -> i128 {
    // Both zeros are one number.
    ordered((number + 0.0).to_bits() as i64, i64::MAX).into()
}

fn float_place(number: f32) -> i128 {
    ordered((number + 0.0).to_bits() as i32, i32::MAX).into()
}

/// The bits of a number as one that is ordered as numbers are, and back.
fn ordered<T>(bits: T, magnitude: T) -> T
where
    T: Copy + PartialOrd + Default + std::ops::BitXor<Output = T>,
{
    if bits < T::default() { bits ^ magnitude } else { bits }
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Boolean(truth) => truth.to_string(),
        Value::Long(number) => number.to_string(),
        Value::Double(number) => format!("{number:?}"),
        Value::Big(text) | Value::Ip(text) | Value::Text(text) => text.chars().take(80).collect(),
        Value::Date(moment) => moment.ns().div_euclid(1_000_000).to_string(),
    }
}

#[cfg(test)]
mod tests;
