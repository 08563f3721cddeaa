//! Lists that are left to the column: the rows of a key of a dictionary, read from the columns of its field.
//!
//! Each distinct value is looked at once, and tells which of the wanted lists its rows are on: those of the keys that the
//! writer makes of the value.

use std::collections::HashMap;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use frostline_base::{ByteRange, Error, Result};
use roaring::RoaringBitmap;

use crate::columns::{ColumnRead, KnownTexts, TextAs};
use crate::dictionary::{TextKey, exact_key, ip_key};
use crate::document::Value;
use crate::fields::Wanted;
use crate::footer::Chunk;
use crate::mapping::ValueType;
use crate::reader::Split;
use crate::rows::RowBits;
use crate::text_index::{Form, each_key};
use crate::tokenizer::Tokenizer;
use crate::values::{parse_ip, value_token};
use crate::writer::Groups;

/// A list that is left to the column: of the rows with a value of which the dictionary has this key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnList {
    field: u16,
    key: ListKey,
    rows: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ListKey {
    Token(Box<str>, Form),
    /// Of the exact dictionary, the field included.
    Value(Box<[u8]>),
}

impl ColumnList {
    pub(crate) fn of_token(key: &TextKey<'_>, rows: u32) -> ColumnList {
        ColumnList { field: key.field, key: ListKey::Token(key.token.into(), key.form), rows }
    }

    /// Of a key of the exact dictionary; none where it has no field.
    pub(crate) fn of_value(key: &[u8], rows: u32) -> Option<ColumnList> {
        let field = u16::from_be_bytes(*key.first_chunk()?);
        Some(ColumnList { field, key: ListKey::Value(key.into()), rows })
    }

    /// The number of the field.
    pub fn field(&self) -> u16 {
        self.field
    }

    /// How many rows it names.
    pub fn rows(&self) -> u32 {
        self.rows
    }
}

/// A read of lists of one field: fetch [`ColumnListRead::ranges`], then [`ColumnListRead::decode`].
#[derive(Clone, Debug)]
pub struct ColumnListRead {
    lists: Vec<ColumnList>,
    ty: ValueType,
    columns: ColumnRead,
}

impl Split {
    /// A read of these lists, all of which are of field number `field`. `Corrupt` where it has no columns, `Internal` where
    /// some of [`Split::unread_fields`] were not kept.
    pub fn column_lists(&self, field: u16, lists: Vec<ColumnList>) -> Result<ColumnListRead> {
        self.find(Wanted::Number(field))?;
        let record = self.footer.fields.get(field).filter(|record| !record.chunks.is_empty());
        let record = record.ok_or_else(|| Error::corrupt("a list is left to a column that is not there"))?;
        let chunks: Vec<&Chunk> = record.chunks.iter().collect();
        let columns = ColumnRead::new(&chunks, self.rows(), None, TextAs::Dictionary)?;
        Ok(ColumnListRead { lists, ty: record.field.ty, columns })
    }

    /// Whether lists may be left to columns.
    pub fn leaves_lists(&self) -> bool {
        self.footer.leaves_lists
    }
}

impl ColumnListRead {
    /// The bytes of the split to hand to [`ColumnListRead::decode`].
    pub fn ranges(&self) -> &[ByteRange] {
        self.columns.ranges()
    }

    /// The rows of each list. `Corrupt` where they are not as many as it says.
    pub fn decode(self, bytes: Vec<Bytes>) -> Result<Vec<RoaringBitmap>> {
        let ColumnListRead { lists, ty, columns } = self;
        let (mut finder, mut first) = (Finder::new(ty, &lists), 0);
        for batch in columns.decode(bytes)? {
            let end = first + batch.num_rows() as u32;
            batch.columns().iter().try_for_each(|array| finder.add(array, first..end))?;
            first = end;
        }
        let found = finder.values.rows_of_lists(lists.len(), first);
        for (list, rows) in lists.iter().zip(&found) {
            if rows.len() != u64::from(list.rows) {
                let error = Error::corrupt("a list that is left to the column does not have as many rows");
                return Err(error.with("list", list.rows).with("column", rows.len()));
            }
        }
        Ok(found)
    }
}

/// The rows of values that are on some list.
#[derive(Default)]
struct ValueRows {
    /// On which lists each value is, by their places.
    lists: Vec<Vec<usize>>,
    /// Where a value is in a row: the number of the value, and the row.
    numbers: Vec<u32>,
    rows: Vec<u32>,
}

impl ValueRows {
    /// The number of a value that is on these lists; none where it is on none.
    fn number(&mut self, lists: Vec<usize>) -> Option<u32> {
        if lists.is_empty() {
            return None;
        }
        self.lists.push(lists);
        Some(self.lists.len() as u32 - 1)
    }

    fn add(&mut self, row: u32, number: Option<u32>) {
        if let Some(number) = number {
            self.numbers.push(number);
            self.rows.push(row);
        }
    }

    fn rows_of_lists(self, lists: usize, split_rows: u32) -> Vec<RoaringBitmap> {
        let mut rows_of_value = Groups::default();
        rows_of_value.fill(self.lists.len(), &self.numbers, self.rows.into_iter());
        let mut values_of_list = vec![Vec::new(); lists];
        for (value, lists) in self.lists.iter().enumerate() {
            lists.iter().for_each(|list| values_of_list[*list].push(value));
        }
        let mut bits = RowBits::new(split_rows);
        let rows_of_list = values_of_list.into_iter().map(|values| {
            let rows = || values.iter().flat_map(|value| rows_of_value.get(*value));
            // A bit for each row costs a step for each of them.
            if rows().count() < split_rows as usize / 64 {
                return rows().collect();
            }
            bits.clear();
            rows().for_each(|row| bits.insert(*row));
            bits.rows()
        });
        rows_of_list.collect()
    }
}

/// Finds the values that are on lists.
struct Finder<'l> {
    keys: ListKeys<'l>,
    values: ValueRows,
    /// Whole numbers and the values that they are, ascending.
    numbers: Vec<(i64, u32)>,
    /// The number of the value that each text of a dictionary is.
    dictionary: KnownTexts<Option<u32>>,
    /// Of texts that are in no dictionary.
    texts: HashMap<String, Option<u32>>,
}

/// The keys of lists, with the places of the lists.
struct ListKeys<'l> {
    ty: ValueType,
    field: u16,
    /// By form.
    tokens: [HashMap<&'l str, Vec<usize>>; 3],
    values: HashMap<&'l [u8], Vec<usize>>,
    tokenizer: Tokenizer,
}

impl<'l> ListKeys<'l> {
    fn new(ty: ValueType, lists: &'l [ColumnList]) -> ListKeys<'l> {
        let field = lists.first().map_or(0, ColumnList::field);
        let (tokens, values) = Default::default();
        let mut keys = ListKeys { ty, field, tokens, values, tokenizer: Tokenizer::new() };
        for (place, list) in lists.iter().enumerate() {
            match &list.key {
                ListKey::Token(token, form) => {
                    keys.tokens[*form as usize].entry(token).or_default().push(place);
                }
                ListKey::Value(key) => keys.values.entry(key).or_default().push(place),
            }
        }
        keys
    }

    /// The lists on which a value is that is written so.
    fn lists_of(&mut self, text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        let ListKeys { ty, field, tokens, values, tokenizer } = self;
        let (mut token, mut key) = (None, None);
        match ty {
            ValueType::Text => {
                if tokens.iter().any(|tokens| !tokens.is_empty()) {
                    let emit = |token: &str, form: Form, _: bool| {
                        found.extend(tokens[form as usize].get(token).into_iter().flatten());
                        false
                    };
                    each_key(tokenizer, text, emit, |_| {});
                }
                key = Some(exact_key(text, *field)).filter(|_| !values.is_empty());
            }
            ValueType::Ip => {
                token = value_token(&Value::Ip(text));
                key = parse_ip(text).map(|address| ip_key(&address, *field));
            }
            _ => token = value_token(&Value::Big(text)),
        }
        let whole = &tokens[Form::Whole as usize];
        found.extend(token.and_then(|token| whole.get(token.as_str())).into_iter().flatten());
        found.extend(key.and_then(|key| values.get(key.as_slice())).into_iter().flatten());
        // A text may have a token more than once.
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl<'l> Finder<'l> {
    fn new(ty: ValueType, lists: &'l [ColumnList]) -> Finder<'l> {
        let (keys, mut values) = (ListKeys::new(ty, lists), ValueRows::default());
        let mut numbers = Vec::new();
        if ty == ValueType::Long {
            for (token, lists) in &keys.tokens[Form::Whole as usize] {
                numbers.extend(token.parse().ok().zip(values.number(lists.clone())));
            }
            numbers.sort_unstable();
        }
        Finder { keys, values, numbers, dictionary: KnownTexts::default(), texts: HashMap::new() }
    }

    /// Adds the values of these rows.
    fn add(&mut self, array: &ArrayRef, rows: Range<u32>) -> Result<()> {
        let Some(lists) = array.as_list_opt::<i32>() else { return self.add_values(array, rows) };
        let offsets = lists.value_offsets();
        let owners = rows.zip(offsets.windows(2)).flat_map(|(row, ends)| {
            std::iter::repeat_n(row, usize::try_from(ends[1] - ends[0]).unwrap_or(0))
        });
        let first = offsets.first().map_or(0, |first| *first as usize);
        self.add_values(&lists.values().slice(first, lists.values().len() - first), owners)
    }

    fn add_values(&mut self, array: &ArrayRef, owners: impl Iterator<Item = u32>) -> Result<()> {
        let Finder { keys, values, numbers, dictionary, texts } = self;
        let mut look = |text: &str| values.number(keys.lists_of(text));
        if let Some(known) = dictionary.of(array, &mut look) {
            owners.zip(known).for_each(|(row, number)| values.add(row, number.flatten()));
        } else if let Some(array) = array.as_primitive_opt::<Int64Type>() {
            for (row, number) in owners.zip(array) {
                let place = number.and_then(|n| numbers.binary_search_by_key(&n, |(of, _)| *of).ok());
                values.add(row, place.map(|place| numbers[place].1));
            }
        } else if let Some(array) = array.as_string_opt::<i32>() {
            for (row, text) in owners.zip(array).filter_map(|(row, text)| Some((row, text?))) {
                let number = texts.get(text).copied().unwrap_or_else(|| {
                    let number = values.number(keys.lists_of(text));
                    texts.insert(text.to_owned(), number);
                    number
                });
                values.add(row, number);
            }
        } else {
            return Err(Error::corrupt("a list is left to a column of values that have no keys"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
