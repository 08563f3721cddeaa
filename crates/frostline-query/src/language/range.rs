//! Ranges: the bounds of the query DSL and of query strings, in every type they can be parsed as.

use frostline_split::{RangeEnd, ValueType, parse_ip};
use serde_json::Value;

use super::Context;
use super::date::{DateReader, Format, parse_time_zone};
use super::json::{self, At, Object};
use super::ranges::{self, Ranges};
use super::text::{Dates, dates_of};
use crate::Result;
use crate::filter::{Bound, Edge, FieldRef, Filter, Measure, Number};

/// How bounds of one range are read.
pub(crate) struct Edges<'a> {
    context: &'a Context<'a>,
    field: &'a FieldRef,
    /// For dates.
    pub(crate) reader: DateReader,
    /// A format or time zone was given, or the field holds only dates: what is no date is a mistake.
    pub(crate) must_be_date: bool,
    has_numbers: bool,
    has_dates: bool,
    has_addresses: bool,
}

impl<'a> Edges<'a> {
    /// The default formats in UTC.
    pub(crate) fn new(field: &'a FieldRef, context: &'a Context<'a>) -> Edges<'a> {
        let has = |wanted: &[ValueType]| field.types().any(|ty| wanted.contains(&ty));
        Edges {
            context,
            field,
            reader: context.dates_of(field),
            must_be_date: dates_of(field) == Dates::Only,
            // A number that is asked of the time is a time.
            has_numbers: field.measure() == Some(Measure::Numbers),
            has_dates: has(&[ValueType::Date]),
            has_addresses: has(&[ValueType::Ip]),
        }
    }

    /// The bound of a value as written. `gte` and `lt` round down, `gt` and `lte` up.
    ///
    /// Where the field has values of a type that the bound can be read as, the bound asks those and no
    /// others: a number asks numbers, and neither dates nor text.
    pub(crate) fn bound(&self, value: &Value, lower: bool, included: bool, at: &At<'_>) -> Result<Bound> {
        let text = json::scalar_text(value, at)?;
        let round_up = lower != included;
        let (time_us, nanos) = match self.reader.read_exactly(&text, round_up) {
            Ok((us, nanos)) => (Some(us), nanos),
            Err(error) if self.must_be_date && self.is_mistake() => return Err(at.invalid(error)),
            Err(_) => (None, None),
        };
        let number = if value.is_boolean() { None } else { Number::parse(&text) };
        let address = parse_ip(&text);
        let edge = if self.must_be_date {
            Edge { time_us, nanos, ..Edge::default() }
        } else if self.has_numbers && number.is_some() {
            Edge { number, ..Edge::default() }
        } else if self.has_dates && time_us.is_some() {
            Edge { time_us, nanos, ..Edge::default() }
        } else if self.has_addresses && address.is_some() {
            Edge { address, ..Edge::default() }
        } else {
            Edge { number, time_us, nanos, address, text: Some(text) }
        };
        Ok(if included { Bound::Included(edge) } else { Bound::Excluded(edge) })
    }

    /// Whether what is no date is a mistake: it may be asked of other indices.
    fn is_mistake(&self) -> bool {
        dates_of(self.field) != Dates::Only || self.context.is_of_dates(self.field)
    }
}

/// Reads the body of `{"range": {FIELD: {…}}}`.
pub(crate) fn parse(field: &str, body: &Value, at: &At<'_>, context: &Context<'_>) -> Result<Filter> {
    let mut options = Object::new(body, at)?;
    options.ignore(&["boost", "_name"]);
    // Of a field that has no ranges it says nothing, as each value is one place.
    let relation = ranges::relation(&mut options, at)?;
    let format = options.string("format")?;
    let format = format.map(|format| Format::parse(format).map_err(|error| at.key("format").invalid(error)));
    let format = format.transpose()?;
    let zone = options.string("time_zone")?;
    let zone = zone.map(|zone| parse_time_zone(zone).map_err(|error| at.key("time_zone").invalid(error)));
    let zone = zone.transpose()?;
    if let Some(mut ranges) = Ranges::of_name(field, context) {
        ranges.reader.format = format.unwrap_or(ranges.reader.format);
        ranges.reader.zone = zone.unwrap_or(ranges.reader.zone);
        let lower = end(&mut options, at, Side::LOWER)?;
        let upper = end(&mut options, at, Side::UPPER)?;
        let ends: Vec<(RangeEnd, Value)> = lower.into_iter().chain(upper).collect();
        options.finish()?;
        return ranges.between(&ends, relation, at);
    }
    let field = context.field(field);
    let mut edges = Edges::new(&field, context);
    edges.must_be_date |= format.is_some() || zone.is_some();
    edges.reader.format = format.unwrap_or(edges.reader.format);
    edges.reader.zone = zone.unwrap_or(edges.reader.zone);
    let lower = side(&mut options, at, &edges, Side::LOWER)?;
    let upper = side(&mut options, at, &edges, Side::UPPER)?;
    options.finish()?;
    Ok(between(field.clone(), lower, upper))
}

/// The range, or what it means without bounds.
pub(crate) fn between(field: FieldRef, lower: Bound, upper: Bound) -> Filter {
    match (&lower, &upper) {
        (Bound::Open, Bound::Open) => Filter::Exists { field },
        _ => Filter::Range { field, lower, upper },
    }
}

/// The names of one end of a range.
struct Side {
    lower: bool,
    included: &'static str,
    excluded: &'static str,
    legacy: &'static str,
    legacy_included: &'static str,
}

impl Side {
    const LOWER: Side = Side {
        lower: true,
        included: "gte",
        excluded: "gt",
        legacy: "from",
        legacy_included: "include_lower",
    };
    const UPPER: Side = Side {
        lower: false,
        included: "lte",
        excluded: "lt",
        legacy: "to",
        legacy_included: "include_upper",
    };
}

fn side(options: &mut Object<'_>, at: &At<'_>, edges: &Edges<'_>, side: Side) -> Result<Bound> {
    let lower = side.lower;
    match written(options, at, side)? {
        Some((key, value, included)) => edges.bound(value, lower, included, &at.key(key)),
        None => Ok(Bound::Open),
    }
}

/// The end on one side as a range of a document would have it.
fn end(options: &mut Object<'_>, at: &At<'_>, side: Side) -> Result<Option<(RangeEnd, Value)>> {
    let lower = side.lower;
    let written = written(options, at, side)?;
    Ok(written.map(|(_, value, included)| (RangeEnd::new(lower, included), value.clone())))
}

/// The bound that is given on one side: its key, and whether the value itself is included.
fn written<'o>(
    options: &mut Object<'o>,
    at: &At<'_>,
    side: Side,
) -> Result<Option<(&'static str, &'o Value, bool)>> {
    let legacy_included = options.boolean(side.legacy_included)?.unwrap_or(true);
    let keys = [(side.included, true), (side.excluded, false), (side.legacy, legacy_included)];
    let mut found = None;
    for (key, included) in keys {
        let Some(value) = options.take(key) else { continue };
        if found.is_some() {
            return Err(at.invalid(format_args!("[{key}] is a second bound on the same side")));
        }
        found = Some((key, value, included));
    }
    Ok(found)
}
