//! The ranges of a field.
//!
//! - A range is written as an object of its ends, which are columns of their own, and in those stands what it is where its
//!   document has no other. Of documents with several ranges the columns do not say which ends belong together, so these
//!   documents are read.
//! - What is no range is none. An index takes no such document from its author.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, StringBuilder};
use frostline_split::{Moment, RangeEnd, RangeEnds, RangeType, Span, SplitField, Value, ValueType, Wanted};
use roaring::RoaringBitmap;

use crate::filter::FieldRef;
use crate::json::Json;
use crate::ranges::{RangesOf, text};
use crate::read::fields::{self, FieldValue};
use crate::read::per_row::PerRow;
use crate::read::view::View;
use crate::{Error, Result};

/// The ranges of these rows by their texts: an array of one a row, or of lists where a row has several.
pub(crate) async fn values(
    view: View<'_>,
    field: &FieldRef,
    of: &RangesOf,
    rows: &RoaringBitmap,
) -> Result<ArrayRef> {
    let ranges = ranges(view, field, of, rows).await?;
    Ok(match ranges.are_single() {
        true => Arc::new(ranges.rows().map(|row| row.first().map(text)).collect::<StringArray>()),
        false => ranges.lists(StringBuilder::new(), |builder, span| builder.append_value(text(span))),
    })
}

/// The ranges of these rows.
pub(crate) async fn ranges(
    view: View<'_>,
    field: &FieldRef,
    of: &RangesOf,
    rows: &RoaringBitmap,
) -> Result<PerRow<Span>> {
    view.know_fields(&[field]).await?;
    let documents = async |paths: &[&str], rows: &RoaringBitmap| {
        PerRow::from_documents(view, paths, rows, |json, all| add_all_of(json, of.ty, all)).await
    };
    let mut ranges = PerRow::default();
    match field.paths() {
        [] => rows.iter().for_each(|_| ranges.push(&[])),
        [path] => {
            let told = Told::by_columns(view, &path.path, of, rows).await?;
            let others = documents(&[&path.path], &told.left(of, rows)).await?;
            let mut others = others.rows();
            for row in &told.rows {
                match row.told(of) {
                    Some(spans) => ranges.push(&spans),
                    None => ranges.push(others.next().unwrap_or_default()),
                }
            }
        }
        several => {
            // Rarely is a name that of several paths: an alias that is a field as well.
            let paths: Vec<&str> = several.iter().map(|path| path.path.as_str()).collect();
            ranges = documents(&paths, rows).await?;
        }
    }
    if ranges.len() as u64 != rows.len() {
        return Err(Error::internal("rows and their ranges do not belong together"));
    }
    Ok(ranges)
}

/// What columns say of the ranges of rows.
struct Told {
    rows: Vec<Row>,
}

/// The same of one row.
#[derive(Clone, Default)]
struct Row {
    ends: RangeEnds,
    blocks: Vec<Span>,
    /// Columns cannot tell.
    is_other: bool,
}

impl Row {
    /// Its ranges; none where the document has to be read.
    fn told(&self, of: &RangesOf) -> Option<Vec<Span>> {
        if self.is_other || (self.ends.has_both() && !of.are_single) {
            return None;
        }
        match (self.ends.span(of.ty), self.blocks.as_slice()) {
            (Ok(None), blocks) => Some(blocks.to_vec()),
            (Ok(Some(span)), []) => Some(vec![span]),
            _ => None,
        }
    }
}

impl Told {
    async fn by_columns(view: View<'_>, path: &str, of: &RangesOf, rows: &RoaringBitmap) -> Result<Told> {
        let mut told = Told { rows: vec![Row::default(); rows.len() as usize] };
        let numbers: Vec<u32> = rows.iter().collect();
        let split: &frostline_split::Split = &view.open.split;
        let mut readings: Vec<&SplitField> = Vec::new();
        for wanted in [Wanted::Path(path), Wanted::Below(path)] {
            readings.extend(split.find(wanted)?);
        }
        for reading in readings {
            let rest = reading.path.get(path.len()..).unwrap_or_default();
            let end = rest.strip_prefix('.').and_then(RangeEnd::of_name);
            let all = &mut told.rows;
            let mut take = |row: u32, value: &Value<'_>| {
                let row = numbers.binary_search(&row).ok().and_then(|at| all.get_mut(at));
                let Some(row) = row else { return };
                match (end, value) {
                    (Some(end), value) => row.is_other |= row.ends.put(of.ty, end, value).is_err(),
                    (None, Value::Text(text)) if rest.is_empty() => match of.ty.block(text) {
                        Some(block) => row.blocks.push(block),
                        None => row.is_other = true,
                    },
                    _ => row.is_other = true,
                }
            };
            match reading.ty {
                // Nobody but a document can tell.
                ValueType::Boolean => all.iter_mut().for_each(|row| row.is_other = true),
                ValueType::Date => {
                    let take = |row, date: Moment| take(row, &Value::Date(date));
                    fields::for_each_date(view, reading, rows, take).await?;
                }
                ty => {
                    let take = |row, value: FieldValue<'_>| match value {
                        FieldValue::Long(number) => take(row, &Value::Long(number)),
                        FieldValue::Double(number) => take(row, &Value::Double(number)),
                        FieldValue::Big(number) => take(row, &Value::Big(&number.to_string())),
                        FieldValue::Text(text) if ty == ValueType::Ip => take(row, &Value::Ip(text)),
                        FieldValue::Text(text) => take(row, &Value::Text(text)),
                    };
                    fields::for_each_value(view, reading, rows, take).await?;
                }
            }
        }
        told.rows
            .iter_mut()
            .for_each(|row| row.is_other |= row.ends != RangeEnds::default() && !row.blocks.is_empty());
        Ok(told)
    }

    /// The rows that documents have to tell.
    fn left(&self, of: &RangesOf, rows: &RoaringBitmap) -> RoaringBitmap {
        let left = rows.iter().zip(&self.rows).filter(|(_, told)| told.told(of).is_none());
        left.map(|(row, _)| row).collect()
    }
}

/// Adds the ranges that a value of a document is.
fn add_all_of(json: &Json, ty: RangeType, all: &mut Vec<Span>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| add_all_of(item, ty, all)),
        Json::Object(members) => all.extend(of_members(members, ty)),
        text => all.extend(text.as_text().and_then(|text| ty.block(&text))),
    }
}

/// The range of these ends; none where they are those of no range.
fn of_members(members: &[(String, Json)], ty: RangeType) -> Option<Span> {
    let mut ends = RangeEnds::default();
    for (name, json) in members {
        let end = RangeEnd::of_name(name);
        // An end may be a list of one.
        for json in json.items().iter().filter(|json| !json.is_null()) {
            let Json::Scalar(scalar) = json else { return None };
            let text = json.as_text();
            let value = match &text {
                Some(text) => Value::Text(text),
                None => number(scalar.get())?,
            };
            ends.put(ty, end?, &value).ok()?;
        }
    }
    ends.span(ty).ok().flatten()
}

/// The number that JSON writes so.
fn number(written: &str) -> Option<Value<'_>> {
    let real = || written.parse().ok().filter(|real: &f64| real.is_finite());
    match written.parse() {
        Ok(number) => Some(Value::Long(number)),
        Err(_) if frostline_split::parse_big(written).is_some() => Some(Value::Big(written)),
        Err(_) if matches!(written, "true" | "false") => None,
        Err(_) => Some(real().map_or(Value::Text(written), Value::Double)),
    }
}
