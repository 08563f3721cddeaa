//! Values equal to a given one: each reading of a field compares in its own type.

use std::collections::BTreeSet;

use frostline_base::TimeRange;
use frostline_split::{KeyRange, Moment, SplitField, ValueType, ip_text, parse_cidr, parse_ip};
use futures::future::{try_join, try_join_all};
use roaring::RoaringBitmap;

use crate::Result;
use crate::filter::{FieldRef, Number, Scalar, time_nanos, time_span};
use crate::read::fields::{self, FieldValue};
use crate::read::view::View;
use crate::select::Rows;
use crate::select::lookup::Lookup;

impl View<'_> {
    pub(super) async fn equals(
        self,
        field: &FieldRef,
        values: &[Scalar],
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let readings: Vec<&SplitField> =
            self.readings(field).await?.into_iter().map(|(reading, _)| reading).collect();
        let rows = self.equal_in(&readings, values, among).await?;
        Ok(Rows::Some(if field.is_time() { rows | self.time_equals(values).await? } else { rows }))
    }

    /// Rows in which a reading of whole values, or the time, equals a text.
    pub(super) async fn equals_whole(
        self,
        field: &FieldRef,
        text: &str,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let text = [Scalar::Text(text.to_owned())];
        let readings = self.readings(field).await?.into_iter();
        let whole: Vec<_> = readings.filter(|(_, exact)| *exact).map(|(reading, _)| reading).collect();
        let rows = self.equal_in(&whole, &text, among).await?;
        Ok(if field.is_time() { rows | self.time_equals(&text).await? } else { rows })
    }

    async fn time_equals(self, values: &[Scalar]) -> Result<RoaringBitmap> {
        let mut rows = RoaringBitmap::new();
        for value in values {
            let Some((start_us, end_us)) = time_span(value) else { continue };
            rows |= match time_nanos(value) {
                Some(nanos) => self.rows_at(start_us, |of_row| nanos.contains(&of_row)).await?,
                None => self.rows_in_time(TimeRange { start_us, end_us }).await?,
            };
        }
        Ok(rows)
    }

    /// Rows in which one of the readings has one of the values.
    pub(super) async fn equal_in(
        self,
        readings: &[&SplitField],
        values: &[Scalar],
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let Equalities { lookup, by_values } = Equalities::of(readings, values);
        let by_values = by_values.iter().map(|(reading, left)| self.equal_values(reading, left, among));
        let (rows, others) = try_join(self.rows_of(lookup), try_join_all(by_values)).await?;
        Ok(others.into_iter().fold(rows, |a, b| a | b))
    }

    /// Values that are not found by one key: text, which is in either dictionary, fractions and dates, which are in none,
    /// and what is not indexed.
    pub(super) async fn equal_values(
        self,
        field: &SplitField,
        wanted: &[Scalar],
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        match field.ty {
            ValueType::Text => {
                let texts: BTreeSet<String> = wanted.iter().map(scalar_text).collect();
                self.texts_equal(field, &texts, among).await
            }
            ValueType::Date => {
                let spans: Vec<_> =
                    wanted.iter().filter_map(|value| Some((time_span(value)?, time_nanos(value)))).collect();
                let inside = |date: Moment| {
                    spans.iter().any(|((start, end), nanos)| {
                        (*start..*end).contains(&date.time_us)
                            && nanos.as_ref().is_none_or(|nanos| nanos.contains(&date.nanos))
                    })
                };
                let are_exact = spans.iter().any(|(_, nanos)| nanos.is_some());
                self.scan_dates(field, among, are_exact, &inside, |low, high| {
                    spans.iter().any(|((start, end), _)| low < *end && high >= *start)
                })
                .await
            }
            ValueType::Long => {
                let numbers: BTreeSet<i64> = wanted.iter().filter_map(scalar_i64).collect();
                self.scan_longs(field, among, &|n| numbers.contains(&n), |low, high| {
                    low <= high && numbers.range(low..=high).next().is_some()
                })
                .await
            }
            ValueType::Big => {
                let numbers: BTreeSet<i128> = wanted.iter().filter_map(scalar_big).collect();
                let rows = self.rows_with_value(field, among).await?;
                self.keep(field, &rows, |value| matches!(value, FieldValue::Big(n) if numbers.contains(n)))
                    .await
            }
            ValueType::Ip => {
                let blocks: Vec<_> = wanted.iter().filter_map(addresses).collect();
                self.addresses_where(field, among, |address| {
                    blocks.iter().any(|(first, last)| first <= address && address <= last)
                })
                .await
            }
            ValueType::Double | ValueType::Boolean => {
                let numbers: Vec<f64> = wanted.iter().filter_map(scalar_f64).collect();
                let inside = |n: f64| numbers.contains(&n);
                self.scan_doubles(field, among, &inside, |low, high| {
                    numbers.iter().any(|n| low <= *n && *n <= high)
                })
                .await
            }
        }
    }
}

/// The first and the last address that a value stands for.
fn addresses(value: &Scalar) -> Option<([u8; 16], [u8; 16])> {
    let Scalar::Text(text) = value else { return None };
    let one = parse_ip(text.trim()).map(|address| (address, address));
    one.or_else(|| parse_cidr(text.trim()))
}

/// What to ask to find some values in some readings.
#[derive(Default)]
pub(super) struct Equalities<'f> {
    pub(super) lookup: Lookup,
    /// What is not found by one key.
    pub(super) by_values: Vec<(&'f SplitField, Vec<Scalar>)>,
}

impl<'f> Equalities<'f> {
    pub(super) fn of(readings: &[&'f SplitField], values: &[Scalar]) -> Equalities<'f> {
        let mut equal = Equalities::default();
        for reading in readings {
            let mut left = Vec::new();
            for value in values {
                match equality(reading, value) {
                    Equality::Nothing => {}
                    _ if !reading.is_indexed => left.push(value.clone()),
                    Equality::Token(token) => equal.lookup.add_token(token, reading.number),
                    Equality::Exact(range) => equal.lookup.exact.push(range),
                    Equality::Values => left.push(value.clone()),
                }
            }
            if !left.is_empty() {
                equal.by_values.push((*reading, left));
            }
        }
        equal
    }
}

/// How one reading of a field answers "equals this value".
enum Equality {
    Nothing,
    /// By its one token.
    Token(String),
    /// By keys of the exact dictionary.
    Exact(KeyRange),
    Values,
}

fn equality(field: &SplitField, value: &Scalar) -> Equality {
    let token = |token: Option<String>| token.map_or(Equality::Nothing, Equality::Token);
    match field.ty {
        ValueType::Boolean => token(scalar_bool(value).map(|value| value.to_string())),
        ValueType::Long => token(scalar_i64(value).map(|value| value.to_string())),
        ValueType::Big => token(scalar_big(value).map(|value| value.to_string())),
        ValueType::Ip => match value {
            Scalar::Text(text) => match parse_ip(text.trim()) {
                Some(address) => Equality::Token(ip_text(&address)),
                None => {
                    fields::ip_block(field.number, text.trim()).map_or(Equality::Nothing, Equality::Exact)
                }
            },
            _ => Equality::Nothing,
        },
        ValueType::Text => Equality::Values,
        ValueType::Double => scalar_f64(value).map_or(Equality::Nothing, |_| Equality::Values),
        ValueType::Date => time_span(value).map_or(Equality::Nothing, |_| Equality::Values),
    }
}

pub(crate) fn scalar_text(value: &Scalar) -> String {
    match value {
        Scalar::Boolean(b) => b.to_string(),
        Scalar::Long(n) => n.to_string(),
        Scalar::Double(n) => {
            serde_json::Number::from_f64(*n).map_or_else(|| n.to_string(), |n| n.to_string())
        }
        Scalar::Text(text) => text.clone(),
    }
}

pub(super) fn scalar_bool(value: &Scalar) -> Option<bool> {
    match value {
        Scalar::Boolean(b) => Some(*b),
        Scalar::Text(text) => text.trim().parse().ok(),
        Scalar::Long(_) | Scalar::Double(_) => None,
    }
}

/// The number that a value is, or that a text is written as.
fn scalar_number(value: &Scalar) -> Option<Number> {
    match value {
        Scalar::Long(n) => Some(Number::Long(*n)),
        Scalar::Double(n) => Some(Number::Double(*n)),
        Scalar::Text(text) => Number::parse(text.trim()),
        Scalar::Boolean(_) => None,
    }
}

/// The whole number that equals it.
pub(super) fn scalar_i64(value: &Scalar) -> Option<i64> {
    let number = scalar_number(value)?;
    let (below, above) = (fields::floor(number)?, fields::ceil(number)?);
    (below == above).then_some(below)
}

/// The whole number that equals it and that 64 bits do not hold.
pub(super) fn scalar_big(value: &Scalar) -> Option<i128> {
    match scalar_number(value)? {
        Number::Long(_) => None,
        Number::Big(n) => Some(n),
        Number::Double(n) => {
            let whole = Number::whole(n as i128).filter(|_| n.fract() == 0.0)?;
            i64::try_from(whole).is_err().then_some(whole)
        }
    }
}

/// The double that equals it.
pub(super) fn scalar_f64(value: &Scalar) -> Option<f64> {
    match scalar_number(value)? {
        // A whole number that no double holds equals none.
        Number::Long(n) => Some(n as f64).filter(|near| *near as i128 == i128::from(n)),
        Number::Big(n) => Some(n as f64).filter(|near| *near as i128 == n),
        Number::Double(n) => Some(n),
    }
}
