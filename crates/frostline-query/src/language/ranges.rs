//! Questions about the ranges of a field.

use frostline_split::{RangeEnd, RangeType, Span};
use serde_json::Value;

use super::Context;
use super::date::DateReader;
use super::json::{self, At, Object};
use crate::Result;
use crate::filter::{FieldRef, Filter};
use crate::ranges::Relation;

/// A field that is declared to have ranges, and how values are read that are asked of it.
pub(crate) struct Ranges {
    field: FieldRef,
    ty: RangeType,
    pub(crate) reader: DateReader,
}

impl Ranges {
    /// None where a name is that of another field.
    pub(crate) fn of_name(name: &str, context: &Context<'_>) -> Option<Ranges> {
        let field = FieldRef::ranges(&[context.mapping], name)?;
        let (ty, reader) = (field.of_ranges()?.ty, context.dates_of(&field));
        Some(Ranges { field, ty, reader })
    }

    /// The ranges that have a value, or some value of a block of addresses, or of the time that a text leaves open.
    pub(crate) fn with_value(&self, value: &Value, at: &At<'_>) -> Result<Filter> {
        let first = self.end(RangeEnd::AtLeast, value, at)?;
        let last = self.end(RangeEnd::AtMost, value, at)?;
        Ok(self.so_to(Span { first, last }, Relation::Intersects))
    }

    /// The ranges that are so to one whose ends are asked for.
    pub(crate) fn between(
        &self,
        ends: &[(RangeEnd, Value)],
        relation: Relation,
        at: &At<'_>,
    ) -> Result<Filter> {
        let mut span = self.ty.all();
        for (end, value) in ends {
            let place = self.end(*end, value, at)?;
            if end.is_lower() {
                span.first = place;
            } else {
                span.last = place;
            }
        }
        Ok(self.so_to(span, relation))
    }

    /// No value is between ends of which the first is after the last.
    fn so_to(&self, span: Span, relation: Relation) -> Filter {
        match span.first <= span.last {
            true => Filter::Ranges { field: self.field.clone(), span, relation },
            false => Filter::None,
        }
    }

    /// The place that is inside of an end.
    fn end(&self, end: RangeEnd, value: &Value, at: &At<'_>) -> Result<i128> {
        let text = json::scalar_text(value, at)?;
        let values = match self.ty {
            RangeType::Date => {
                let round_up = matches!(end, RangeEnd::Above | RangeEnd::AtMost);
                let (us, nanos) =
                    self.reader.read_exactly(&text, round_up).map_err(|error| at.invalid(error))?;
                // Without nanoseconds it is the microsecond as a whole.
                let (first, last) = nanos.map_or((0, 999), |nanos| (nanos.into(), nanos.into()));
                let of_us = i128::from(us) * 1_000;
                Some(Span { first: of_us + first, last: of_us + last })
            }
            _ if value.is_boolean() => None,
            ty => ty.asked(&text),
        };
        let values = values.ok_or_else(|| {
            let (field, ty) = (self.field.name(), self.ty.field_type().name());
            at.invalid(format_args!("[{text}] is no value that a range of [{field}] of type [{ty}] has"))
        })?;
        Ok(end.inside(values))
    }
}

/// `relation` of a query of ranges.
pub(crate) fn relation(options: &mut Object<'_>, at: &At<'_>) -> Result<Relation> {
    let Some(name) = options.string("relation")? else { return Ok(Relation::Intersects) };
    Ok(match name.to_ascii_lowercase().as_str() {
        "intersects" => Relation::Intersects,
        "within" => Relation::Within,
        "contains" => Relation::Contains,
        "disjoint" => {
            return Err(at.invalid(format_args!("[range] query does not support relation [{name}]")));
        }
        _ => return Err(at.invalid(format_args!("{name} is not a valid relation"))),
    })
}
