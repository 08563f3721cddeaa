//! Delimited text with a header row.

use std::borrow::Cow;

use super::{Refusal, TimeRule};
use crate::json::ObjectWriter;
use crate::times;

/// The columns that hold the time when the caller names none, compared without case.
const TIME_COLUMNS: [&str; 6] = ["@timestamp", "timestamp", "time", "datetime", "date", "ts"];

/// A name of a column has at most as many words.
const WORDS_MAX: usize = 5;

/// The names of a CSV file's columns.
#[derive(Clone, Debug)]
pub struct CsvHeader {
    line: String,
    delimiter: u8,
    names: Vec<String>,
}

impl CsvHeader {
    /// The header that a file beginning with `sample` has: its first record that is not blank. The
    /// delimiter is what is in it most often of comma, semicolon and tab. A column without a name is
    /// called `column_<n>`, a name used before gets `_<n>`.
    pub(super) fn of_sample(sample: &[u8]) -> Self {
        let text = String::from_utf8_lossy(sample);
        let text = text.trim_start_matches(['\u{feff}', '\r', '\n']);
        let line = &text[..record_end(text)];
        let line = line.strip_suffix('\r').unwrap_or(line);
        let count = |delimiter: &u8| line.bytes().filter(|byte| byte == delimiter).count();
        let delimiter = [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',');
        let mut names: Vec<String> = Vec::new();
        for field in fields_of(line, delimiter).unwrap_or_default() {
            let mut name = field.trim().to_owned();
            if name.is_empty() {
                name = format!("column_{}", names.len() + 1);
            }
            if names.contains(&name) {
                name = format!("{name}_{}", names.len() + 1);
            }
            names.push(name);
        }
        CsvHeader { line: line.to_owned(), delimiter, names }
    }

    /// The columns in their order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether a record is the header itself (again): it is skipped, as in files that were joined.
    pub(super) fn is(&self, record: &str) -> bool {
        record.trim_start_matches('\u{feff}') == self.line
    }

    /// Whether the first record of the sample can only be a header: its fields are names, and at least three of four
    /// records have as many fields, none of them its own column's name. What is taken for a header is no document.
    pub(super) fn heads(&self, sample: &str) -> bool {
        let header = fields_of(&self.line, self.delimiter).unwrap_or_default();
        let is_named = |(at, field): (usize, &Cow<'_, str>)| {
            // Tables with numbered rows leave the first name out.
            is_name(field, &header[..at]) || (at == 0 && field.is_empty())
        };
        if header.len() < 2
            || times::leading_time(&self.line, 0).is_some()
            || !header.iter().enumerate().all(is_named)
        {
            return false;
        }
        let mut rest = sample.trim_start_matches(['\u{feff}', '\r', '\n']);
        let (mut records, mut fitting) = (0, 0);
        while let end = record_end(rest)
            && end < rest.len()
            && records < 100
        {
            let record = rest[..end].trim_end_matches('\r');
            rest = &rest[end + 1..];
            let fields = fields_of(record, self.delimiter).unwrap_or_default();
            if !self.is(record)
                && fields.iter().zip(&header).any(|(field, name)| !name.is_empty() && field == name)
            {
                return false;
            }
            records += usize::from(!record.is_empty());
            fitting += usize::from(fields.len() == header.len());
        }
        fitting >= 2 && fitting * 4 >= records * 3
    }

    /// Writes one record; an empty field is absent.
    pub(super) fn write(
        &self,
        record: &str,
        rule: &TimeRule,
        object: &mut ObjectWriter<'_>,
    ) -> Result<(), Refusal> {
        let fields =
            fields_of(record, self.delimiter).ok_or_else(|| Refusal::new("a quoted field is malformed"))?;
        if fields.len() != self.names.len() {
            let (has, columns) = (fields.len(), self.names.len());
            return Err(Refusal::new(format!("the record has {has} fields, the header {columns}")));
        }
        let time = |wanted: &str| {
            let column = self.names.iter().position(|name| name.eq_ignore_ascii_case(wanted))?;
            times::whole_time(fields.get(column)?.trim(), rule.now_us)
        };
        let time_ns = rule.candidates(&TIME_COLUMNS).find_map(time);
        if let Some(time_ns) = time_ns {
            object.time(&rule.to, time_ns);
        }
        for (name, value) in self.names.iter().zip(&fields) {
            if !value.is_empty() && (*name != rule.to || time_ns.is_none()) {
                object.guessed(name, value);
            }
        }
        Ok(())
    }
}

/// Whether a field of the first record, after those `before` it, can be the name of a column and hardly anything else: a
/// few words without the punctuation of messages.
fn is_name(field: &str, before: &[Cow<'_, str>]) -> bool {
    field == field.trim()
        && field.len() <= 128
        && field.split_whitespace().count() <= WORDS_MAX
        && field.contains(char::is_alphabetic)
        && !field.contains(['[', ']', '{', '}', '<', '>', '=', ':', ';', '"', '|'])
        && !before.iter().any(|other| other == field)
}

/// The length of the first record: up to the line end outside quotes, or all of the text.
fn record_end(text: &str) -> usize {
    let mut in_quotes = false;
    let end = text.bytes().position(|byte| {
        in_quotes ^= byte == b'"';
        byte == b'\n' && !in_quotes
    });
    end.unwrap_or(text.len())
}

/// The fields of a record without their quotes; `None` where text follows a closing quote or a quote
/// is not closed.
fn fields_of(record: &str, delimiter: u8) -> Option<Vec<Cow<'_, str>>> {
    let delimiter = char::from(delimiter);
    let mut fields = Vec::new();
    let mut rest = record;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(delimiter).unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(delimiter) {
            Some(next) => rest = next,
            None => return after.is_empty().then_some(fields),
        }
    }
}

fn quoted_field(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('"')?;
        if text[at + 1..].starts_with('"') {
            from = at + 2;
            continue;
        }
        let value = &text[..at];
        let value = if from == 0 { value.into() } else { value.replace("\"\"", "\"").into() };
        return Some((value, &text[at + 1..]));
    }
}
