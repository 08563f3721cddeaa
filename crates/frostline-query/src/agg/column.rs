//! The values of one field for the rows of one batch, whatever their types.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array,
    ListArray, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};

use frostline_split::{Analysis, Phrase};

use crate::{Error, Result};

/// The union of the readings of a field: a row has the values of all of them. Every array has one entry
/// for each row of the batch. No reading at all means that no row has a value.
#[derive(Clone, Debug, Default)]
pub struct FieldColumn {
    readings: Vec<Reading>,
    /// By what its texts are taken apart, where it is not as all text is.
    analysis: Option<Analysis>,
}

/// One reading. A list holds the values of rows that have several.
#[derive(Clone, Debug)]
pub enum Reading {
    /// Booleans.
    Boolean(BooleanArray),
    /// Whole numbers.
    Long(Int64Array),
    /// Other numbers.
    Double(Float64Array),
    /// Whole numbers that 64 bits do not hold.
    Big(Decimal128Array),
    /// Microseconds since 1970 UTC.
    Time(TimestampMicrosecondArray),
    /// Text and addresses as written.
    Text(StringArray),
    /// Text and addresses as codes of a dictionary: the fast way.
    Codes(DictionaryArray<Int32Type>),
    /// Several values for a row: the offsets of each row's values in the inner reading.
    List(ListArray, Box<Reading>),
}

/// One value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Boolean(bool),
    Long(i64),
    Double(f64),
    Big(i128),
    Time(i64),
    Text(&'a str),
}

impl FieldColumn {
    /// A field without a value in these rows.
    pub fn absent() -> FieldColumn {
        FieldColumn::default()
    }

    /// The column of these Arrow arrays, one for each reading: Boolean, Int64, Float64, Decimal128(38, 0), Timestamp(µs),
    /// Utf8, Dictionary(Int32, Utf8), or a List of one of them. Any other type is `Internal`.
    pub fn new(arrays: &[ArrayRef]) -> Result<FieldColumn> {
        Ok(FieldColumn { readings: arrays.iter().map(reading).collect::<Result<_>>()?, analysis: None })
    }

    /// The same with its texts taken apart so.
    pub fn by(self, analysis: Option<Analysis>) -> FieldColumn {
        FieldColumn { analysis, ..self }
    }

    /// Calls `visit` with each word of a text.
    pub(super) fn each_word(&self, text: &str, mut visit: impl FnMut(&str)) {
        match &self.analysis {
            None => Phrase::new(text).words().iter().for_each(|word| visit(word)),
            Some(analysis) => analysis.words(text).iter().for_each(|word| visit(&word.text)),
        }
    }

    /// The readings, in no particular order.
    pub fn readings(&self) -> &[Reading] {
        &self.readings
    }

    /// The number of rows, where there is a reading to tell.
    pub(super) fn rows(&self) -> Option<usize> {
        self.readings.iter().map(Reading::len).min()
    }

    /// Hands out the values of row `at`, duplicates included.
    #[inline]
    pub(super) fn each<'a>(&'a self, at: usize, mut take: impl FnMut(Scalar<'a>)) {
        for reading in &self.readings {
            reading.each(at, &mut take);
        }
    }

    /// Whether row `at` has a value.
    pub(super) fn has(&self, at: usize) -> bool {
        let mut found = false;
        self.each(at, |_| found = true);
        found
    }
}

impl Reading {
    fn len(&self) -> usize {
        match self {
            Reading::Boolean(array) => array.len(),
            Reading::Long(array) => array.len(),
            Reading::Double(array) => array.len(),
            Reading::Big(array) => array.len(),
            Reading::Time(array) => array.len(),
            Reading::Text(array) => array.len(),
            Reading::Codes(array) => array.len(),
            Reading::List(array, _) => array.len(),
        }
    }

    /// The value at `at` of a reading that is not a list.
    #[inline]
    pub(super) fn scalar(&self, at: usize) -> Option<Scalar<'_>> {
        match self {
            Reading::Boolean(array) => array.is_valid(at).then(|| Scalar::Boolean(array.value(at))),
            Reading::Long(array) => array.is_valid(at).then(|| Scalar::Long(array.value(at))),
            Reading::Double(array) => array.is_valid(at).then(|| Scalar::Double(array.value(at))),
            Reading::Big(array) => array.is_valid(at).then(|| Scalar::Big(array.value(at))),
            Reading::Time(array) => array.is_valid(at).then(|| Scalar::Time(array.value(at))),
            Reading::Text(array) => array.is_valid(at).then(|| Scalar::Text(array.value(at))),
            Reading::Codes(array) => {
                let code = array.key(at)?;
                let words = array.values().as_string_opt::<i32>()?;
                (code < words.len() && words.is_valid(code)).then(|| Scalar::Text(words.value(code)))
            }
            Reading::List(..) => None,
        }
    }

    #[inline]
    fn each<'a>(&'a self, at: usize, take: &mut impl FnMut(Scalar<'a>)) {
        let Reading::List(lists, inner) = self else {
            if let Some(value) = self.scalar(at) {
                take(value);
            }
            return;
        };
        if lists.is_valid(at) {
            let offsets = lists.value_offsets();
            for item in offsets[at] as usize..offsets[at + 1] as usize {
                if let Some(value) = inner.scalar(item) {
                    take(value);
                }
            }
        }
    }
}

fn reading(array: &ArrayRef) -> Result<Reading> {
    let reading = match array.data_type() {
        DataType::Boolean => array.as_boolean_opt().cloned().map(Reading::Boolean),
        DataType::Int64 => array.as_primitive_opt::<Int64Type>().cloned().map(Reading::Long),
        DataType::Float64 => array.as_primitive_opt::<Float64Type>().cloned().map(Reading::Double),
        DataType::Decimal128(38, 0) => array.as_primitive_opt::<Decimal128Type>().cloned().map(Reading::Big),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive_opt::<TimestampMicrosecondType>().cloned().map(Reading::Time)
        }
        DataType::Utf8 => array.as_string_opt::<i32>().cloned().map(Reading::Text),
        DataType::Dictionary(_, words) if **words == DataType::Utf8 => {
            array.as_dictionary_opt::<Int32Type>().cloned().map(Reading::Codes)
        }
        DataType::List(_) => match array.as_list_opt::<i32>() {
            Some(lists) => {
                let inner = reading(lists.values())?;
                (!matches!(inner, Reading::List(..))).then(|| Reading::List(lists.clone(), Box::new(inner)))
            }
            None => None,
        },
        _ => None,
    };
    reading.ok_or_else(|| {
        Error::internal(format!("no aggregation reads a column of type {}", array.data_type()))
    })
}
