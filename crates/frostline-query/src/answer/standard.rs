//! Values as the types of their fields have them, whatever they are in documents: `"42"` of an integer is 42.

use arrow::datatypes::{ArrowPrimitiveType, Float16Type};
use frostline_split::{Field, FieldType, Moment, Value};
use jiff::tz::TimeZone;

use crate::json::Json;
use crate::language::ValueForm;
use crate::language::date::Format;

/// How the values of a field are shown.
pub(crate) struct Standard<'a> {
    /// The type of the name that asks; none where no mapping has one: values are what they are.
    pub(crate) ty: Option<FieldType>,
    /// The field that has the values.
    pub(crate) field: Option<&'a Field>,
    /// How dates and numbers are written, if the request says so.
    pub(crate) form: Option<&'a ValueForm>,
}

impl Standard<'_> {
    /// A value, which a document spells as `written`; none where its type cannot hold it.
    pub(crate) fn of(&self, value: &Value<'_>, written: &Json) -> Option<Json> {
        let shown = self.typed(value, written)?;
        let number = match &shown {
            Json::Scalar(scalar) if shown.as_text().is_none() => scalar.get().parse::<f64>().ok(),
            _ => None,
        };
        let pattern = self.form.and_then(|form| form.number.as_ref());
        Some(pattern.zip(number).map_or(shown, |(pattern, number)| Json::text(&pattern.text(number))))
    }

    fn typed(&self, value: &Value<'_>, written: &Json) -> Option<Json> {
        use FieldType::*;
        let is_declared = self.field.is_some_and(|field| field.ty().is_some());
        match self.ty.unwrap_or(Object) {
            Boolean => match value {
                Value::Boolean(truth) => Some(Json::scalar(truth)),
                _ => None,
            },
            ty @ (Byte | Short | Integer | Long | UnsignedLong) => whole(ty, value),
            // Numbers that documents made a field of lose no digit.
            Double if !is_declared && matches!(value, Value::Big(_)) => Some(written.clone()),
            Double => real(value).map(|number| Json::scalar(&number)),
            Float => single(real(value)?),
            HalfFloat => {
                type Half = <Float16Type as ArrowPrimitiveType>::Native;
                single(Half::from_f64(real(value)?).to_f64())
            }
            ScaledFloat => {
                let factor = self.field.and_then(Field::scaling_factor).unwrap_or(0.0);
                Some(Json::scalar(&scaled(real(value)?, factor)))
            }
            Date => match value {
                Value::Date(moment) => Some(self.date(*moment)),
                _ => None,
            },
            Ip => match value {
                Value::Ip(address) => Some(Json::text(address)),
                _ => None,
            },
            Keyword | Text | Wildcard | ConstantKeyword | MatchOnlyText | Binary => Some(as_text(written)),
            Object
            | Nested
            | Flattened
            | FlatObject
            | Passthrough
            | GeoPoint
            | GeoShape
            | Histogram
            | AggregateMetricDouble
            | Alias
            | IntegerRange
            | LongRange
            | FloatRange
            | DoubleRange
            | DateRange
            | IpRange => Some(self.natural(value, written)),
        }
    }

    fn natural(&self, value: &Value<'_>, written: &Json) -> Json {
        match value {
            Value::Date(moment) => self.date(*moment),
            Value::Ip(address) => Json::text(address),
            Value::Text(text) => Json::text(text),
            Value::Long(number) => Json::scalar(number),
            Value::Double(number) if written.as_text().is_some() => Json::scalar(number),
            Value::Boolean(_) | Value::Double(_) | Value::Big(_) => written.clone(),
        }
    }

    fn date(&self, moment: Moment) -> Json {
        let of_field = || Format::parse(self.field?.date_format()?).ok();
        let text = match self.form.and_then(|form| form.date.as_ref()) {
            Some(format) => format.write(moment, &TimeZone::UTC),
            None => of_field().unwrap_or_default().write(moment, &TimeZone::UTC),
        };
        Json::text(&text)
    }
}

fn as_text(written: &Json) -> Json {
    match written {
        Json::Scalar(scalar) if written.as_text().is_none() => Json::text(scalar.get()),
        text => text.clone(),
    }
}

/// A number without its fraction, in the range of its type.
fn whole(ty: FieldType, value: &Value<'_>) -> Option<Json> {
    let number = match value {
        Value::Long(number) => i128::from(*number),
        Value::Big(digits) => digits.parse().ok()?,
        // Beyond 2^127 it is no number of these types either.
        value => real(value)?.trunc() as i128,
    };
    let (least, most) = match ty {
        FieldType::Byte => (i8::MIN.into(), i8::MAX.into()),
        FieldType::Short => (i16::MIN.into(), i16::MAX.into()),
        FieldType::Integer => (i32::MIN.into(), i32::MAX.into()),
        FieldType::UnsignedLong => (0, i128::from(u64::MAX)),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    (least..=most).contains(&number).then(|| match i64::try_from(number) {
        Ok(number) => Json::scalar(&number),
        Err(_) => Json::scalar(&(number as u64)),
    })
}

fn real(value: &Value<'_>) -> Option<f64> {
    let number: f64 = match value {
        Value::Long(number) => *number as f64,
        Value::Double(number) => *number,
        Value::Big(digits) | Value::Text(digits) => digits.parse().ok()?,
        Value::Boolean(_) | Value::Date(_) | Value::Ip(_) => return None,
    };
    number.is_finite().then_some(number)
}

/// A number of 32 bits.
fn single(number: f64) -> Option<Json> {
    let single = number as f32;
    single.is_finite().then(|| Json::scalar(&single))
}

/// A number as its whole part after it was multiplied says, which is rounded as Java does.
fn scaled(number: f64, factor: f64) -> f64 {
    let whole = (number * factor + 0.5).floor();
    // A factor that nobody gave, or a product beyond the doubles, leaves the number as it is.
    if factor > 0.0 && whole.is_finite() { whole / factor } else { number }
}
