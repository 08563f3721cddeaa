//! Splits of random documents against a model that keeps every document and looks at all of them.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int16Type, Int64Type, TimestampMicrosecondType};
use bytes::Bytes;
use proptest::prelude::*;
use roaring::RoaringBitmap;

use super::*;
use crate::dictionary::UnpackedBlock;
use crate::footer::Footer;
use crate::text_index::{Form, each_key};
use crate::{
    Block, Dictionary, Digest, DigestValue, Entry, HeldText, KeyRange, KeyRanges, MINUTE_US, NANOS_COLUMN,
    Numbers, Origin, PairKey, Phrase, Postings, SOURCE_COLUMN, Split, TIME_COLUMN, Table, TextAs, TextKey,
    Tokenizer, Value, Wanted, decode_postings, exact_key, ip_key, parse_ip, text_key, token_of_text,
    value_token,
};

const ID: SplitId = SplitId::from_random(7);

type Keyed = BTreeMap<Vec<u8>, BTreeSet<u32>>;

/// What is in a row, as the parser says it.
#[derive(Clone, Debug, PartialEq)]
enum Held {
    Boolean(bool),
    Long(i64),
    Double(f64),
    Date(Moment),
    Text(String),
}

struct Model {
    sources: Vec<String>,
    times: Vec<Option<Moment>>,
    /// By path and type, the values of each row.
    readings: BTreeMap<(String, ValueType), BTreeMap<u32, Vec<Held>>>,
}

impl Model {
    fn new(documents: &[String]) -> Model {
        let mut document = Document::new();
        let mut parse = |source: &str| {
            parse_document(source.as_bytes(), &Mapping::dynamic(), &Limits::default(), &mut document)
                .unwrap();
            document.time
        };
        let mut sorted: Vec<&String> = documents.iter().collect();
        sorted.sort_by_key(|source| parse(source).map_or((true, None), |time| (false, Some(time))));
        let mut model = Model { sources: Vec::new(), times: Vec::new(), readings: BTreeMap::new() };
        for (row, source) in sorted.into_iter().enumerate() {
            parse_document(source.as_bytes(), &Mapping::dynamic(), &Limits::default(), &mut document)
                .unwrap();
            model.sources.push(source.clone());
            model.times.push(document.time);
            for (path, value) in document.values() {
                let key = (document.path(path).to_owned(), type_of(&value));
                model.readings.entry(key).or_default().entry(row as u32).or_default().push(held(&value));
            }
        }
        model
    }

    fn text(&self, split: &Split) -> Keyed {
        let mut keys = Keyed::new();
        for ((path, ty), rows) in &self.readings {
            let field = split.field(path, *ty).unwrap().number;
            for (row, value) in rows.iter().flat_map(|(row, values)| values.iter().map(move |v| (*row, v))) {
                let mut add = |token: &str, form: Form| {
                    let key = [token.as_bytes(), &[form as u8], &field.to_be_bytes()].concat();
                    keys.entry(key).or_default().insert(row)
                };
                let _ = match value {
                    Held::Text(text) if *ty == ValueType::Text => {
                        each_key(&mut Tokenizer::new(), text, |token, form, _| add(token, form), |_| {})
                    }
                    Held::Text(digits) if *ty == ValueType::Big => add(digits, Form::Whole),
                    Held::Text(text) => add(&value_token(&Value::Ip(text)).unwrap(), Form::Whole),
                    Held::Boolean(truth) => add(&truth.to_string(), Form::Whole),
                    Held::Long(number) => add(&number.to_string(), Form::Whole),
                    Held::Double(_) | Held::Date(_) => false,
                };
            }
        }
        keys
    }

    fn exact(&self, split: &Split) -> Keyed {
        let mut keys = Keyed::new();
        for ((path, ty), rows) in &self.readings {
            let field = split.field(path, *ty).unwrap().number;
            for (row, value) in rows.iter().flat_map(|(row, values)| values.iter().map(move |v| (*row, v))) {
                let key = match value {
                    Held::Text(text) if *ty == ValueType::Text => exact_key(text, field),
                    Held::Text(text) if *ty == ValueType::Ip => ip_key(&parse_ip(text).unwrap(), field),
                    _ => continue,
                };
                keys.entry(key).or_default().insert(row);
            }
        }
        keys
    }
}

impl Model {
    /// The texts that are held with a token, by its key: the first by which all rows of the token have it.
    fn held(&self, split: &Split) -> BTreeMap<Vec<u8>, String> {
        let tokens = self.text(split);
        let mut held = BTreeMap::new();
        for (value, rows) in self.exact(split) {
            let (field, text) = value.split_first_chunk::<2>().unwrap();
            let number = u16::from_be_bytes(*field);
            let is_text = split.fields().any(|field| field.number == number && field.ty == ValueType::Text);
            let text = str::from_utf8(text).ok().filter(|_| is_text);
            let mut tokenizer = Tokenizer::new();
            let token = text.and_then(|text| token_of_text(&mut tokenizer, text));
            let key = token.map(|token| text_key(token, number)).filter(|key| tokens[key] == rows);
            if let (Some(key), Some(text)) = (key, text) {
                held.entry(key).or_insert_with(|| text.to_owned());
            }
        }
        held
    }

    /// What the pairs of frequent words are to be, of texts that are in no dictionary page.
    fn pairs(&self, split: &Split) -> Keyed {
        let mut pairs = Keyed::new();
        let threshold = split.rows().div_ceil(100).max(32);
        let has_dictionary =
            |path: &str| [false, true].iter().any(|list| split.has_dictionary(&column(path, *list)));
        for ((path, ty), rows) in &self.readings {
            if *ty != ValueType::Text || has_dictionary(path) {
                continue;
            }
            let field = split.field(path, *ty).unwrap().number;
            let mut key = |first: &str, second: &str, row: u32| {
                let key = [first.as_bytes(), &[0], second.as_bytes(), &[0], &field.to_be_bytes()].concat();
                pairs.entry(key).or_default().insert(row);
            };
            let texts = || {
                rows.iter().flat_map(|(row, values)| {
                    values.iter().map(move |value| match value {
                        Held::Text(text) => (*row, words(text)),
                        other => panic!("{other:?} is no text"),
                    })
                })
            };
            let mut rows_of: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
            for (row, word) in texts().flat_map(|(row, words)| words.into_iter().map(move |w| (row, w))) {
                rows_of.entry(word).or_default().insert(row);
            }
            rows_of.retain(|word, rows| rows.len() >= threshold as usize && word.len() <= 64);
            if rows_of.is_empty() {
                continue;
            }
            key("", "", threshold - 1);
            for (row, words) in texts() {
                for (at, word) in words.iter().enumerate().filter(|(_, word)| rows_of.contains_key(*word)) {
                    if words[..at].contains(word) {
                        key(word, "", row);
                    }
                    if let Some(next) = words.get(at + 1).filter(|next| rows_of.contains_key(*next)) {
                        key(word, next, row);
                    }
                }
            }
        }
        pairs
    }

    /// What the exact dictionary is to have.
    fn by_themselves(&self, split: &Split) -> Keyed {
        let mut values = self.exact(split);
        for (key, value) in self.held(split) {
            values.remove(&exact_key(&value, TextKey::split(&key).unwrap().field)).unwrap();
        }
        values
    }
}

fn column(path: &str, list: bool) -> String {
    Mapping::column_name(path, ValueType::Text, list)
}

/// The words of a text in order.
fn words(text: &str) -> Vec<String> {
    Phrase::new(text).words().to_vec()
}

fn held(value: &Value<'_>) -> Held {
    match value {
        Value::Boolean(truth) => Held::Boolean(*truth),
        Value::Long(number) => Held::Long(*number),
        Value::Double(number) => Held::Double(*number),
        Value::Date(time) => Held::Date(*time),
        Value::Big(text) | Value::Ip(text) | Value::Text(text) => Held::Text((*text).to_owned()),
    }
}

fn seal(documents: &[String], mapping: Mapping) -> (Vec<u8>, Sealed) {
    seal_within(documents, mapping, 32 << 10, DocumentForm::Stored)
}

/// With a hot footer of at most this many bytes, or as few as can be.
fn seal_within(
    documents: &[String],
    mapping: Mapping,
    hot_footer_bytes_max: usize,
    form: DocumentForm,
) -> (Vec<u8>, Sealed) {
    let options = WriterOptions {
        source_page_bytes: 400,
        hot_footer_bytes_max,
        documents: form,
        // Some columns are scanned in the row groups, others have copies.
        group_rows_max: 7,
        scanned_bytes_min: 60,
        pairs_column_bytes_min: 0,
        ..WriterOptions::default()
    };
    let mut writer = SplitWriter::new(mapping, options);
    for (row, document) in (0..).zip(documents) {
        // Every second document was merged.
        let origin = Origin { split: SplitId::from_random(8 + u128::from(row % 6)), row: row * 3 };
        match row % 2 {
            0 => writer.add_of(document.as_bytes(), origin).unwrap(),
            _ => writer.add(document.as_bytes()).unwrap(),
        }
    }
    let mut file = Vec::new();
    let sealed = writer.seal(ID, &mut file).unwrap();
    assert_eq!(sealed.bytes, file.len() as u64);
    (file, sealed)
}

/// The bytes of a range of a file, as far as the file goes.
fn cut(file: &[u8], range: &std::ops::Range<u64>) -> Bytes {
    let end = (range.end as usize).min(file.len());
    Bytes::copy_from_slice(&file[(range.start as usize).min(end)..end])
}

/// The split, with all that its hot footer leaves to other parts of the file.
fn open(file: &[u8], footer: &std::ops::Range<u64>) -> Result<Split> {
    let split = Split::open(&cut(file, footer))?;
    let columns: Vec<&str> = split.column_names().collect();
    let blocks = split.unread_fields(Wanted::All).into_iter();
    for block in blocks.chain(split.unread_pages(&columns)) {
        split.keep(&block, &cut(file, &block.range))?;
    }
    Ok(split)
}

/// All blocks of a table.
fn blocks_of(file: &[u8], table: &Table) -> Result<Vec<Block>> {
    let index = table.index_blocks(&[KeyRange::all()]);
    if index.is_empty() {
        return table.blocks(&KeyRange::all());
    }
    let read: Vec<Bytes> = index.iter().map(|block| cut(file, &block.range)).collect();
    let read = index.iter().zip(read.iter().map(|bytes| bytes.as_ref()));
    table.with_index(read)?.blocks(&KeyRange::all())
}

fn digest_of(file: &[u8], split: &Split) -> Result<Digest> {
    let fields: Vec<u16> = split.fields().map(|field| field.number).collect();
    let blocks = blocks_of(file, &split.digest_table())?;
    let read: Vec<Bytes> = blocks.iter().map(|block| cut(file, &block.range)).collect();
    let digest = split.digest(&fields, true, blocks.iter().zip(read.iter().map(|bytes| bytes.as_ref())))?;
    Ok(Digest::clone(&digest.expect("a digest of few minutes is kept")))
}

fn rows_of(file: &[u8], split: &Split, postings: &Postings) -> Result<BTreeSet<u32>> {
    Ok(match postings {
        Postings::All => (0..split.rows()).collect(),
        Postings::Rows(rows) => rows.iter().collect(),
        Postings::Stored { range, rows } => {
            let read: BTreeSet<u32> = decode_postings(&cut(file, range), split.rows())?.iter().collect();
            assert_eq!(read.len(), *rows as usize);
            read
        }
        Postings::Column(list) => {
            let read = split.column_lists(list.field(), vec![list.clone()])?;
            let bytes = read.ranges().iter().map(|range| cut(file, range)).collect();
            read.decode(bytes)?.iter().flatten().collect()
        }
    })
}

/// An entry of a dictionary.
#[derive(Clone, Debug, PartialEq)]
struct Listed {
    key: Vec<u8>,
    is_short: bool,
    /// What is held with a token; none inside where only the column has it.
    value: Option<Option<String>>,
    rows: BTreeSet<u32>,
}

fn all_entries(file: &[u8], split: &Split, dictionary: &Dictionary) -> Result<Vec<Listed>> {
    let mut entries = Vec::new();
    for block in blocks_of(file, dictionary.table())? {
        let visit = |entry: Entry<'_>| {
            let value = entry.value.map(|value| match value {
                HeldText::Written(text) => Some(text.to_owned()),
                HeldText::InColumn => None,
            });
            entries.push((entry.key.to_vec(), entry.is_short, value, entry.postings));
        };
        dictionary.scan(&block, &cut(file, &block.range), &KeyRanges::all(), visit)?;
    }
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys ascend");
    let with_rows = |(key, is_short, value, postings)| {
        Ok(Listed { key, is_short, value, rows: rows_of(file, split, &postings)? })
    };
    entries.into_iter().map(with_rows).collect()
}

/// The entries with their keys as they were before they were cut: each short key is the start of one text alone.
fn uncut(entries: Vec<Listed>, keys: &Keyed, behind_text: usize) -> Vec<Listed> {
    let of_text =
        |key: &[u8]| (key[..key.len() - behind_text].to_vec(), key[key.len() - behind_text..].to_vec());
    let whole = |entry: Listed| {
        if !entry.is_short {
            return entry;
        }
        let (start, behind) = of_text(&entry.key);
        let longer =
            keys.range(start.clone()..).map(|(key, _)| key).take_while(|key| key.starts_with(&start));
        let longer: Vec<&Vec<u8>> = longer.collect();
        let texts: BTreeSet<Vec<u8>> = longer.iter().map(|key| of_text(key).0).collect();
        assert!(texts.len() == 1 && !texts.contains(&start), "{start:?} stands for {texts:?}");
        let key = longer.into_iter().find(|key| of_text(key).1 == behind).unwrap().clone();
        Listed { key, ..entry }
    };
    entries.into_iter().map(whole).collect()
}

fn text_of(file: &[u8], split: &Split, model: &Model) -> Vec<Listed> {
    uncut(all_entries(file, split, split.text()).unwrap(), &model.text(split), 3)
}

fn exact_of(file: &[u8], split: &Split, model: &Model) -> Keyed {
    let entries = uncut(all_entries(file, split, split.exact()).unwrap(), &model.by_themselves(split), 0);
    entries.into_iter().map(|entry| (entry.key, entry.rows)).collect()
}

fn read(
    file: &[u8],
    split: &Split,
    names: &[&str],
    rows: Option<&RoaringBitmap>,
    text_as: TextAs,
) -> Result<RecordBatch> {
    let read = split.columns(names, rows, text_as)?;
    let schema = read.schema().clone();
    let bytes = read.ranges().iter().map(|range| cut(file, range)).collect();
    let batches = read.decode(bytes)?;
    Ok(arrow::compute::concat_batches(&schema, &batches).unwrap())
}

fn read_documents(file: &[u8], split: &Split, rows: Option<&RoaringBitmap>) -> Result<Vec<String>> {
    let read = split.documents(rows)?;
    let bytes = read.ranges().iter().map(|range| cut(file, range)).collect();
    let batches = read.decode(bytes)?;
    let columns = batches.iter().flat_map(|batch| batch.column(0).as_binary::<i32>().iter());
    Ok(columns.map(|document| String::from_utf8(document.unwrap().to_vec()).unwrap()).collect())
}

fn values_at(column: &dyn Array, row: usize) -> Vec<Held> {
    if column.is_null(row) {
        return Vec::new();
    }
    match column.data_type() {
        DataType::Boolean => vec![Held::Boolean(column.as_boolean().value(row))],
        DataType::Int64 => vec![Held::Long(column.as_primitive::<Int64Type>().value(row))],
        DataType::Float64 => vec![Held::Double(column.as_primitive::<Float64Type>().value(row))],
        DataType::Timestamp(..) => {
            vec![Held::Date(Moment::of_us(column.as_primitive::<TimestampMicrosecondType>().value(row)))]
        }
        DataType::Utf8 => vec![Held::Text(column.as_string::<i32>().value(row).to_owned())],
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let key = dictionary.normalized_keys()[row];
            vec![Held::Text(dictionary.values().as_string::<i32>().value(key).to_owned())]
        }
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            (0..items.len()).flat_map(|item| values_at(&items, item)).collect()
        }
        other => panic!("no column has the type {other}"),
    }
}

/// The dates of a row with the nanoseconds that are in a column of their own.
fn moments_at(column: &dyn Array, nanos: &dyn Array, row: usize) -> Vec<Held> {
    let rest = match nanos.as_list_opt::<i32>() {
        Some(_) if nanos.is_null(row) => Vec::new(),
        Some(lists) => lists.value(row).as_primitive::<Int16Type>().values().to_vec(),
        None => nanos.as_primitive::<Int16Type>().slice(row, 1).iter().flatten().collect(),
    };
    let dates = values_at(column, row);
    assert_eq!(dates.len(), rest.len());
    let whole = |(date, nanos): (Held, i16)| match date {
        Held::Date(moment) => Held::Date(Moment { nanos: nanos as u16, ..moment }),
        other => panic!("{other:?} is no date"),
    };
    dates.into_iter().zip(rest).map(whole).collect()
}

fn check(documents: &[String], wanted: &BTreeSet<u32>) {
    let model = Model::new(documents);
    for (hot_footer_bytes_max, form) in [
        (32 << 10, DocumentForm::Stored),
        (0, DocumentForm::Stored),
        (700, DocumentForm::Stored),
        (32 << 10, DocumentForm::Rendered),
        (0, DocumentForm::Rendered),
    ] {
        let (file, sealed) = seal_within(documents, Mapping::dynamic(), hot_footer_bytes_max, form);
        let split = open(&file, &sealed.footer).unwrap();
        check_split(documents, wanted, &model, &file, &split);
    }
}

fn check_split(documents: &[String], wanted: &BTreeSet<u32>, model: &Model, file: &[u8], split: &Split) {
    assert_eq!((split.version(), split.id()), (FORMAT_VERSION, Some(ID)));
    assert_eq!(split.rows() as usize, documents.len());
    assert_eq!(split.rows_without_time() as usize, model.times.iter().filter(|time| time.is_none()).count());
    let (text, held) = (text_of(file, split, model), model.held(split));
    for Listed { key, is_short, value, .. } in &text {
        let expected = held.get(key).map(|value| Some(value.clone()).filter(|_| !is_short));
        assert_eq!(value, &expected, "{key:?}");
    }
    let text: Keyed = text.into_iter().map(|entry| (entry.key, entry.rows)).collect();
    assert_eq!(text, model.text(split));
    assert_eq!(exact_of(file, split, model), model.by_themselves(split));
    assert_eq!(split.fields().count(), model.readings.len());
    for ((path, ty), rows) in &model.readings {
        let field = split.field(path, *ty).unwrap();
        let exists = rows_of(file, split, &split.exists(field.number).unwrap()).unwrap();
        assert_eq!(exists, rows.keys().copied().collect());
        assert_eq!(field.rows_with_value as usize, rows.len());
    }
    let pairs = all_entries(file, split, split.pairs()).unwrap();
    assert_eq!(pairs.into_iter().map(|pair| (pair.key, pair.rows)).collect::<Keyed>(), model.pairs(split));
    check_columns(file, split, model, None);
    let wanted: RoaringBitmap = wanted.iter().copied().filter(|row| *row < split.rows()).collect();
    check_columns(file, split, model, Some(&wanted));
    check_digest(file, split, model);
}

fn check_columns(file: &[u8], split: &Split, model: &Model, wanted: Option<&RoaringBitmap>) {
    let rows: Vec<u32> = wanted.map_or_else(|| (0..split.rows()).collect(), |wanted| wanted.iter().collect());
    let has_nanos = model.times.iter().flatten().any(|time| time.nanos > 0);
    assert_eq!(split.has_column(NANOS_COLUMN), has_nanos);
    let times = &[TIME_COLUMN, NANOS_COLUMN][..1 + usize::from(has_nanos)];
    let base = read(file, split, times, wanted, TextAs::Plain).unwrap();
    let documents = read_documents(file, split, wanted).unwrap();
    assert_eq!((base.num_rows(), documents.len()), (rows.len(), rows.len()));
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(documents[at], model.sources[*row as usize]);
        let time = model.times[*row as usize].map(Held::Date);
        let found = match has_nanos {
            true => moments_at(base.column(0), base.column(1), at),
            false => values_at(base.column(0), at),
        };
        assert_eq!(found, time.into_iter().collect::<Vec<_>>());
    }
    for ((path, ty), held) in &model.readings {
        for list in [false, true] {
            let name = Mapping::column_name(path, *ty, list);
            let expected = |row: &u32| held.get(row).filter(|values| (values.len() > 1) == list).cloned();
            assert_eq!(split.has_column(&name), held.keys().any(|row| expected(row).is_some()));
            let nanos = Mapping::nanos_column_name(path, list);
            let is_exact = |value: &Held| matches!(value, Held::Date(Moment { nanos: 1.., .. }));
            let has_nanos = split.has_column(&name) && held.values().flatten().any(is_exact);
            assert!(*ty != ValueType::Date || split.has_column(&nanos) == has_nanos, "{nanos}");
            if !split.has_column(&name) {
                continue;
            }
            if has_nanos {
                let batch = read(file, split, &[&name, &nanos], wanted, TextAs::Plain).unwrap();
                for (at, row) in rows.iter().enumerate() {
                    let found = moments_at(batch.column(0), batch.column(1), at);
                    assert_eq!(found, expected(row).unwrap_or_default(), "{nanos} row {row}");
                }
                continue;
            }
            for text_as in [TextAs::Plain, TextAs::Dictionary] {
                let batch = read(file, split, &[&name], wanted, text_as).unwrap();
                for (at, row) in rows.iter().enumerate() {
                    assert_eq!(
                        values_at(batch.column(0), at),
                        expected(row).unwrap_or_default(),
                        "{name} row {row}"
                    );
                }
            }
        }
    }
}

fn check_digest(file: &[u8], split: &Split, model: &Model) {
    let digest = digest_of(file, split).unwrap();
    let mut minutes: BTreeMap<i64, u32> = BTreeMap::new();
    for Moment { time_us: time, .. } in model.times.iter().flatten() {
        *minutes.entry(time.div_euclid(MINUTE_US)).or_default() += 1;
    }
    assert_eq!(digest.minutes(), minutes.into_iter().collect::<Vec<_>>());
    for ((path, ty), rows) in &model.readings {
        let field = split.field(path, *ty).unwrap().number;
        if let Some(counts) = digest.values(field).unwrap() {
            let mut expected: BTreeMap<DigestValue, u32> = BTreeMap::new();
            for value in rows.values().flatten() {
                let value = match value {
                    Held::Boolean(truth) => DigestValue::Boolean(*truth),
                    Held::Long(number) => DigestValue::Long(*number),
                    Held::Text(text) => DigestValue::Text(text.clone()),
                    other => panic!("{other:?} is not counted"),
                };
                *expected.entry(value).or_default() += 1;
            }
            let read = counts.values.iter().map(|count| (count.value.clone(), count.rows));
            assert_eq!(read.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
            let timed = rows.keys().filter(|row| model.times[**row as usize].is_some()).count();
            let bucketed: u32 =
                counts.values.iter().flat_map(|count| &count.buckets).map(|(_, rows)| rows).sum();
            assert!(counts.bucketed && bucketed as usize == timed);
        }
        if *ty == ValueType::Long {
            let values = || rows.values().flatten().map(|v| if let Held::Long(n) = v { *n } else { 0 });
            let (count, sum) = (values().count() as u64, values().map(i128::from).sum());
            let (min, max) = (values().min().unwrap(), values().max().unwrap());
            assert_eq!(digest.numbers(field), Some(Numbers::Long { count, min, max, sum }));
        }
    }
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<bool>().prop_map(|truth| truth.to_string()),
        (-3i64..5).prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<i128>().prop_map(|number| (number / 1_000_000).to_string()),
        (-9.5f64..9.5).prop_map(|number| format!("{number:?}")),
        prop::sample::select(vec!["10.0.0.1", "10.0.0.2", "::1", "0:0:0:0:0:0:0:1", "fe80::9"])
            .prop_map(|ip| format!("{ip:?}")),
        prop::sample::select(vec!["2024-01-01", "2024-01-01T10:20:30.5Z", "1969-12-31T23:59:59Z"])
            .prop_map(|date| format!("{date:?}")),
        prop::sample::select(vec![1, 2, 500, 999, 1_000, 1_001])
            .prop_map(|nanos| format!("\"2024-01-01T10:20:30.{nanos:09}Z\"")),
        prop::collection::vec(
            prop::sample::select(vec!["GET", "/a/b", "x=1", "powershell.exe", "é", "日本", "-", ""]),
            0..5
        )
        .prop_map(|words| format!("{:?}", words.join(" "))),
        "[a-z]{60,70}[a-z]{0,140}".prop_map(|text| format!("{text:?}")),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        5 => scalar(),
        1 => prop::collection::vec(scalar(), 0..4).prop_map(|values| format!("[{}]", values.join(","))),
        1 => scalar().prop_map(|value| format!("{{\"inner\":{value}}}")),
    ]
}

fn document() -> impl Strategy<Value = String> {
    let time = prop::option::of(0i64..4_000_000);
    let fields =
        prop::collection::btree_map(prop::sample::select(vec!["a", "b", "B", "c.d", "wide"]), value(), 0..4);
    (time, fields).prop_map(|(time, fields)| {
        // Some have nanoseconds.
        let time = time.map(|s| match s % 4 {
            0 => format!("\"@timestamp\":{}", 1_700_000_000_000_000_000 + s / 2_000),
            _ => format!("\"@timestamp\":{}", 1_700_000_000_000 + s * 10),
        });
        let fields = fields.into_iter().map(|(name, value)| format!("{name:?}:{value}"));
        format!("{{{}}}", time.into_iter().chain(fields).collect::<Vec<_>>().join(","))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_split_answers_what_was_written(
        documents in prop::collection::vec(document(), 1..60),
        wanted in prop::collection::btree_set(0u32..60, 0..20),
    ) {
        check(&documents, &wanted);
    }

    #[test]
    fn a_changed_byte_is_corrupt_or_changes_nothing(
        at: prop::sample::Index,
        with in 1u8..,
        truncate: bool,
        hot_footer_bytes_max in prop::sample::select(vec![32 << 10, 0, 900]),
        form in prop::sample::select(vec![DocumentForm::Stored, DocumentForm::Rendered]),
    ) {
        let documents = sample(120);
        let (mut file, sealed) = seal_within(&documents, Mapping::dynamic(), hot_footer_bytes_max, form);
        let answers = answer_all(&file, &sealed).unwrap();
        let at = at.index(file.len());
        if truncate { file.truncate(at) } else { file[at] ^= with }
        match answer_all(&file, &sealed) {
            Ok(now) => prop_assert!(now == answers, "a changed byte at {at} changed an answer"),
            Err(e) => prop_assert_eq!(e.kind(), crate_kind()),
        }
    }
}

/// Values of which several are spellings of one token.
fn spelling() -> impl Strategy<Value = String> {
    let long = ["q".repeat(64), "Q".repeat(64), "q".repeat(65), format!("{}q", "-".repeat(128))];
    let values =
        ["alice", "Alice", "ALICE", "(alice)", "alice.", "\"alice\"", "alice bob", "a.B", "A.b", "a"];
    let beyond = ["σας", "ΣΑΣ", "σασ", "İstanbul", "i\u{307}stanbul", "istanbul", "東京", "-", "", " "];
    let all = values.into_iter().chain(beyond).map(str::to_owned).chain(long);
    prop::sample::select(all.map(|value| serde_json::Value::from(value).to_string()).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_value_is_held_once_with_its_token_or_by_itself(
        rows in prop::collection::vec(prop::collection::vec(spelling(), 1..4), 1..30),
    ) {
        let documents: Vec<String> = rows.iter().map(|values| format!(r#"{{"v":[{}]}}"#, values.join(","))).collect();
        check(&documents, &BTreeSet::new());
    }
}

#[track_caller]
fn check_places(documents: &[&str], with_token: &[&str], by_themselves: &[&str]) {
    let documents: Vec<String> = documents.iter().map(|values| format!(r#"{{"v":{values}}}"#)).collect();
    let (file, sealed) = seal(&documents, Mapping::dynamic());
    let (split, model) = (open(&file, &sealed.footer).unwrap(), Model::new(&documents));
    check_split(&documents, &BTreeSet::new(), &model, &file, &split);
    assert_eq!(model.held(&split).into_values().collect::<Vec<_>>(), with_token);
    let own = model.by_themselves(&split);
    assert_eq!(own.keys().map(|key| str::from_utf8(&key[2..]).unwrap()).collect::<Vec<_>>(), by_themselves);
}

#[test]
fn a_value_is_held_with_its_token_where_no_other_row_has_the_token() {
    check_places(&[r#""GET""#, r#""(b.C)""#, r#""x y""#], &["(b.C)", "GET"], &["x y"]);
    // Two spellings in one row have the same rows; in different rows neither has all of the token's.
    check_places(&[r#"["Get","GET"]"#], &["GET"], &["Get"]);
    check_places(&[r#""Get""#, r#""GET""#, r#""get it""#], &[], &["GET", "Get", "get it"]);
    check_places(&[r#""é""#, r#""-""#], &["é"], &["-"]);
    // A lower-case İ is two characters.
    check_places(&[r#""İ""#, r#""ΑΣ""#], &["İ", "ΑΣ"], &[]);
}

/// Rows with ids that differ in the last byte, with words that share their start, and with texts in several fields.
fn alike(rows: usize) -> Vec<String> {
    let document = |n: usize| {
        let random = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (id, word) = (format!("0123456789abcdef-{n:04}"), "prefix".repeat(1 + n % 9));
        let (path, short) = (format!("/a/{id}/{word}.html"), format!("{:x}", n % 300));
        format!(
            r#"{{"id":"{id}","random":"{random:016x}","text":"GET {path} by {word}{n} of {short}","path":"{path}","other":"{word}{n}","n":{n}}}"#
        )
    };
    (0..rows).map(document).collect()
}

#[test]
fn short_keys_keep_order_and_are_the_start_of_one_text_alone() {
    for rows in [1, 30, 400] {
        let documents = alike(rows);
        let model = Model::new(&documents);
        let (file, sealed) = seal(&documents, Mapping::dynamic());
        let split = open(&file, &sealed.footer).unwrap();
        check_split(&documents, &BTreeSet::new(), &model, &file, &split);
        let short = |dictionary| {
            all_entries(&file, &split, dictionary).unwrap().iter().filter(|e| e.is_short).count()
        };
        let short = [split.text(), split.exact()].map(short);
        assert!(rows < 400 || short.iter().all(|short| *short >= rows), "few keys are short: {short:?}");
    }
}

/// The keys that a scan of the blocks of a range visits, and whether they are short: the same each time.
fn visited(file: &[u8], dictionary: &Dictionary, range: &KeyRange) -> Vec<(Vec<u8>, bool)> {
    let mut all = Vec::new();
    for block in dictionary.table().blocks(range).unwrap() {
        let unpacked = UnpackedBlock::new(&block, &cut(file, &block.range)).unwrap();
        let scan = || {
            let (mut visited, ranges) = (Vec::new(), KeyRanges::from(range));
            let visit = |entry: Entry<'_>| {
                visited.push((entry.key.to_vec(), entry.is_short, entry.bytes, entry.postings))
            };
            dictionary.scan_unpacked(&unpacked, &ranges, visit).unwrap();
            visited
        };
        let visited = scan();
        assert_eq!(scan(), visited, "a block that is kept");
        all.extend(visited.into_iter().map(|(key, is_short, ..)| (key, is_short)));
    }
    all
}

#[test]
fn every_token_and_few_that_are_absent_are_found_in_the_blocks_that_the_index_names() {
    let documents = alike(6_000);
    let model = Model::new(&documents);
    let (file, sealed) = seal(&documents, Mapping::dynamic());
    let split = open(&file, &sealed.footer).unwrap();
    for (dictionary, keys, behind_text) in
        [(split.text(), model.text(&split), 3), (split.exact(), model.by_themselves(&split), 0)]
    {
        assert!(dictionary.table().blocks(&KeyRange::all()).unwrap().len() > 2, "one block shows nothing");
        let stands_for = |key: &[u8], (own, is_short): &(Vec<u8>, bool)| {
            let at = own.len() - behind_text;
            key == own || *is_short && key.starts_with(&own[..at]) && key.ends_with(&own[at..])
        };
        let step = keys.len() / 400 + 1;
        for key in keys.keys().step_by(step) {
            let found = visited(&file, dictionary, &KeyRange::exact(key.clone()));
            assert_eq!(found.iter().filter(|entry| stands_for(key, entry)).count(), 1, "{key:?}: {found:?}");
            // One that is absent meets no more than one text.
            let (text, behind) = key.split_at(key.len() - behind_text);
            let absent = [&text[..text.len() - 1], b"~", behind].concat();
            let found = visited(&file, dictionary, &KeyRange::exact(absent));
            let texts: BTreeSet<&[u8]> =
                found.iter().map(|(own, _)| &own[..own.len() - behind_text]).collect();
            assert!(texts.len() <= 1 && found.iter().all(|(_, is_short)| *is_short), "{found:?}");
            // A start has what starts with it.
            let start = &text[..text.len() / 2];
            let found = visited(&file, dictionary, &KeyRange::prefix(start.to_vec()));
            assert!(found.iter().any(|entry| stands_for(key, entry)), "{start:?} does not find {key:?}");
        }
    }
}

fn crate_kind() -> frostline_base::ErrorKind {
    frostline_base::ErrorKind::Corrupt
}

fn sample(count: usize) -> Vec<String> {
    let document = |n: usize| {
        let (seconds, status, user) = (1_700_000_000 + n as i64 * 37 % 5000, 200 + n % 3 * 102, n % 7);
        format!(
            r#"{{"@timestamp":{seconds}000,"status":{status},"user":"user-{user}","message":"request {n} of user-{user} took {}ms","took":{}.5,"ip":"10.0.0.{}","tags":["t{}","u"],"at":"2024-01-01T00:00:00.{:09}Z"}}"#,
            n % 11,
            n % 13,
            n % 5,
            n % 2,
            n % 50 * 123
        )
    };
    (0..count).map(document).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pairs_are_of_frequent_words_that_stand_one_after_the_other(
        texts in prop::collection::vec(
            prop::collection::vec(
                prop::sample::select(vec!["a", "a", "B", "b.c", "c", "a-a", "東京", "é", "value set", "x, y"]),
                0..6,
            ),
            80..120,
        ),
        in_lists: bool,
    ) {
        let text = |(n, words): (usize, &Vec<&str>)| {
            let text = format!("{} {n}", words.join(" "));
            let value = if in_lists && n % 3 == 0 { serde_json::json!([text, "a b"]) } else { text.into() };
            serde_json::json!({ "m": value }).to_string()
        };
        let documents: Vec<String> = texts.iter().enumerate().map(text).collect();
        let (file, sealed) = seal(&documents, Mapping::dynamic());
        let split = open(&file, &sealed.footer).unwrap();
        check_split(&documents, &BTreeSet::new(), &Model::new(&documents), &file, &split);
        prop_assert!(split.pairs().table().len() > 0);
    }
}

#[test]
fn a_word_is_frequent_from_one_in_a_hundred_rows_on() {
    let has = |n: u32, rows: u32| if n < rows { "often" } else { "once" };
    for (rows, often, is_frequent) in [
        (10_000, 99, false),
        (10_000, 100, true),
        (10_001, 100, false),
        (10_001, 101, true),
        (900, 31, false),
        (900, 32, true),
    ] {
        let document = |n: u32| format!(r#"{{"m":"{n:x} seen {}, {n}"}}"#, has(n, often));
        let (file, sealed) = seal(&(0..rows).map(document).collect::<Vec<_>>(), Mapping::dynamic());
        let split = open(&file, &sealed.footer).unwrap();
        let pairs = all_entries(&file, &split, split.pairs()).unwrap();
        let pair = |first: &str, second: &str| {
            pairs.iter().find(|entry| {
                let key = PairKey::split(&entry.key).unwrap();
                (key.first, key.second) == (first, second)
            })
        };
        let threshold = (rows as f64 / 100.0).ceil().max(32.0) as u32;
        assert_eq!(pair("", "").unwrap().rows, BTreeSet::from([threshold - 1]));
        assert_eq!(pair("seen", "often").map(|pair| pair.rows.len()), is_frequent.then_some(often as usize));
        assert_eq!(pair("seen", "once").unwrap().rows.len(), (rows - often) as usize);
    }
}

#[test]
fn pairs_are_of_the_most_frequent_words_where_too_many_are() {
    // Word n is in every row but n of them.
    let document = |n: usize| {
        let words: Vec<String> =
            (0..1_100).filter(|word| *word <= n).map(|word| format!("w{word}")).collect();
        format!(r#"{{"m":"{} {n:x}"}}"#, words.join(" "))
    };
    let (file, sealed) = seal(&(0..1_300).map(document).collect::<Vec<_>>(), Mapping::dynamic());
    let split = open(&file, &sealed.footer).unwrap();
    let pairs = all_entries(&file, &split, split.pairs()).unwrap();
    let words: BTreeSet<&str> = pairs
        .iter()
        .map(|entry| PairKey::split(&entry.key).unwrap().first)
        .filter(|word| !word.is_empty())
        .collect();
    // The last of 1,024 frequent words begins no pair.
    assert_eq!(words.len(), 1_023);
    assert_eq!(pairs[0].rows, BTreeSet::from([1_300 - 1_024]));
}

#[test]
fn texts_of_a_dictionary_page_or_of_small_columns_have_no_pairs() {
    let document = |n: usize| format!(r#"{{"m":"the value set {}","n":"the value set {n}"}}"#, n % 9);
    let documents: Vec<String> = (0..500).map(document).collect();
    let (file, sealed) = seal(&documents, Mapping::dynamic());
    let split = open(&file, &sealed.footer).unwrap();
    let number = split.field("n", ValueType::Text).unwrap().number;
    let pairs = all_entries(&file, &split, split.pairs()).unwrap();
    assert!(pairs.iter().all(|entry| PairKey::split(&entry.key).unwrap().field == number));
    assert_eq!(pairs.len(), 3);
    let (_, split, _) = self::sealed(&documents, WriterOptions::default());
    assert_eq!(split.pairs().table().len(), 0);
}

/// The entries of the dictionaries, the columns, the documents and the digest.
type Answers = ([Vec<Listed>; 3], RecordBatch, Vec<String>, String);

/// Everything that a split can be asked.
fn answer_all(file: &[u8], sealed: &Sealed) -> Result<Answers> {
    let split = open(file, &sealed.footer)?;
    let names: Vec<&str> = split.column_names().collect();
    let batch = read(file, &split, &names, None, TextAs::Plain)?;
    let documents = read_documents(file, &split, None)?;
    let digest = digest_of(file, &split)?;
    let values = split.fields().map(|field| digest.values(field.number)).collect::<Result<Vec<_>>>()?;
    let blocks = blocks_of(file, &split.origins_table())?;
    let bytes: Vec<Bytes> = blocks.iter().map(|block| cut(file, &block.range)).collect();
    let origins = || blocks.iter().zip(bytes.iter().map(|bytes| bytes.as_ref()));
    let told = split.origins(&(0..split.rows()).collect(), origins())?;
    let near = split.rows_near_origins(&told.iter().copied().collect(), origins())?;
    let digest = format!("{digest:?} {values:?} {told:?} {near:?}");
    let dictionaries = [split.text(), split.exact(), split.pairs()];
    let [text, exact, pairs] = dictionaries.map(|dictionary| all_entries(file, &split, dictionary));
    Ok(([text?, exact?, pairs?], batch, documents, digest))
}

#[test]
fn every_byte_that_only_other_readers_read_is_checked() {
    let (file, sealed) = seal(&sample(50), Mapping::dynamic());
    let split = Split::open(&cut(&file, &sealed.footer)).unwrap();
    let tail = &file[sealed.footer.end as usize..];
    assert_eq!(tail.len() as u64 + 4, sealed.parts.parquet_footer);
    assert_eq!(sealed.parts.all(), sealed.bytes);
    assert!(split.verify_parquet(&file[..4], tail).unwrap());
    for at in 0..tail.len() {
        let mut changed = tail.to_vec();
        changed[at] ^= 0x10;
        let error = split.verify_parquet(&file[..4], &changed).unwrap_err();
        assert_eq!(error.kind(), crate_kind(), "{at}");
    }
    for (head, tail) in [(&b"PAR2"[..], tail), (b"", tail), (b"PAR1", &tail[1..]), (b"PAR1", b"")] {
        assert_eq!(split.verify_parquet(head, tail).unwrap_err().kind(), crate_kind());
    }
}

#[test]
fn many_rows_take_many_pages_and_only_the_wanted_are_read() {
    let documents: Vec<String> = (0..50_000)
        .map(|n| {
            format!(
                r#"{{"@timestamp":{},"n":{n},"k":"v{}","l":[{n},{}]}}"#,
                1_700_000_000_000i64 + n,
                n % 3,
                n / 2
            )
        })
        .collect();
    let (file, split, _) =
        sealed(&documents, WriterOptions { source_page_bytes: 64 << 10, ..WriterOptions::default() });
    let wanted: RoaringBitmap = [0, 7, 19_999, 20_000, 49_999].into_iter().collect();
    let names = ["n__long", "k__text", "l__long_list", SOURCE_COLUMN];
    let batch = read(&file, &split, &names, Some(&wanted), TextAs::Dictionary).unwrap();
    for (at, row) in wanted.iter().enumerate() {
        assert_eq!(values_at(batch.column(0), at), [Held::Long(i64::from(row))]);
        assert_eq!(values_at(batch.column(1), at), [Held::Text(format!("v{}", row % 3))]);
        assert_eq!(
            values_at(batch.column(2), at),
            [Held::Long(i64::from(row)), Held::Long(i64::from(row / 2))]
        );
        assert_eq!(batch.column(3).as_binary::<i32>().value(at), documents[row as usize].as_bytes());
    }
    let one: RoaringBitmap = [31_000].into_iter().collect();
    let bytes = |rows| {
        let read = split.columns(&[SOURCE_COLUMN], rows, TextAs::Plain).unwrap();
        read.ranges().iter().map(|range| range.end - range.start).sum::<u64>()
    };
    assert!(bytes(Some(&one)) * 20 < bytes(None), "one row costs one page");
    let second = 1_000_000i64;
    let start_us = 1_700_000_000_000_000i64;
    let range = |from_s, to_s| frostline_base::TimeRange {
        start_us: start_us + from_s * second,
        end_us: start_us + to_s * second,
    };
    let rows = split.rows_in_time(range(15, 45));
    assert_eq!((rows.certain, rows.unsure), (20_000..40_000, vec![0..20_000, 40_000..50_000]));
    let rows = split.rows_in_time(range(50, 90));
    assert_eq!((rows.certain, rows.unsure), (0..0, vec![]));
}

fn sealed(documents: &[String], options: WriterOptions) -> (Vec<u8>, Split, Footer) {
    let mut writer = SplitWriter::new(Mapping::dynamic(), options);
    documents.iter().for_each(|document| writer.add(document.as_bytes()).unwrap());
    let mut file = Vec::new();
    let sealed = writer.seal(ID, &mut file).unwrap();
    let footer = Footer::decode(&cut(&file, &sealed.footer)).unwrap();
    (file, Split::from_footer(footer.clone()), footer)
}

fn chunk<'a>(footer: &'a Footer, column: &str) -> &'a crate::footer::Chunk {
    match footer.own.iter().find(|own| own.name() == column) {
        Some(own) => own.chunk.get().unwrap(),
        None => footer.fields.chunk(column).unwrap(),
    }
}

/// The pages of a column: how many rows and bytes each has.
fn pages(footer: &Footer, column: &str) -> Vec<(u32, u32)> {
    chunk(footer, column).pages.iter().map(|page| (page.rows, page.bytes)).collect()
}

/// Hexadecimal digits that nothing predicts.
fn digits(seed: u64, bytes: usize) -> String {
    let blocks =
        (0u64..).map(|n| format!("{:032x}", xxhash_rust::xxh3::xxh3_128_with_seed(&n.to_le_bytes(), seed)));
    let mut digits: String = blocks.take(bytes / 32 + 1).collect();
    digits.truncate(bytes);
    digits
}

#[test]
fn a_split_says_what_a_reader_must_know() {
    let required_of = |documents: &[String], form| {
        let options = WriterOptions { documents: form, ..WriterOptions::default() };
        let mut writer = SplitWriter::new(Mapping::dynamic(), options);
        documents.iter().for_each(|document| writer.add(document.as_bytes()).unwrap());
        let mut file = Vec::new();
        let start = writer.seal(ID, &mut file).unwrap().footer.start as usize;
        u64::from_le_bytes(file[start + 12..start + 20].try_into().unwrap())
    };
    let required = |documents: &[String]| required_of(documents, DocumentForm::Stored);
    let documents = |of: fn(u64) -> String| (0..3_000).map(of).collect::<Vec<_>>();
    let heads = crate::footer::ENTRY_HEADS;
    assert_eq!(required(&documents(|_| r#"{"m":"the same"}"#.to_owned())), heads);
    let every_third = documents(|n| format!(r#"{{"m":"word {}"}}"#, n % 3));
    assert_eq!(required(&every_third), heads | crate::footer::COLUMN_LISTS);
    let beside_ids = documents(|n| format!(r#"{{"m":"{n} word {}"}}"#, n % 3));
    assert_eq!(required(&beside_ids), heads | crate::footer::LISTS | crate::footer::STREAMS);
    // Three thousand documents are one row group.
    let rendered = heads | crate::footer::RENDERED | crate::footer::ROW_GROUPS;
    let rare = documents(|n| format!(r#"{{"n":{}}}"#, n * n % 2_003));
    let further = required_of(&rare, DocumentForm::Rendered) & !rendered;
    assert_eq!(further & !crate::footer::STREAMS, crate::footer::PAGE_STREAMS);
    let ids = documents(|n| format!(r#"{{"id":"{}"}}"#, digits(n, 32)));
    assert_eq!(required(&ids), heads | crate::footer::TEXT_LENGTHS | crate::footer::STREAMS);
    let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
    writer.add_of(b"{}", Origin { split: ID, row: 7 }).unwrap();
    let mut file = Vec::new();
    let start = writer.seal(SplitId::from_random(8), &mut file).unwrap().footer.start as usize;
    assert_eq!(file[start + 12..start + 20], (heads | crate::footer::ORIGINS).to_le_bytes());
}

#[test]
fn nanoseconds_have_a_column_if_any_time_has_them() {
    let required = |documents: &[&str]| {
        let documents: Vec<String> = documents.iter().map(|text| (*text).to_owned()).collect();
        let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
        documents.iter().for_each(|document| writer.add(document.as_bytes()).unwrap());
        let mut file = Vec::new();
        let sealed = writer.seal(ID, &mut file).unwrap();
        let start = sealed.footer.start as usize;
        let required = u64::from_le_bytes(file[start + 12..start + 20].try_into().unwrap());
        let names: Vec<String> =
            sealed.mapping.arrow_schema().fields().iter().map(|field| field.name().clone()).collect();
        let split = Split::open(&cut(&file, &sealed.footer)).unwrap();
        let has = split.has_column(crate::NANOS_COLUMN);
        assert_eq!(names.contains(&crate::NANOS_COLUMN.to_owned()), has);
        assert_eq!(required & crate::footer::NANOS != 0, has);
        has
    };
    assert!(!required(&[r#"{"@timestamp":"2024-01-01T00:00:00.123456000Z"}"#, "{}"]));
    assert!(required(&[r#"{"@timestamp":"2024-01-01T00:00:00.123456001Z"}"#, "{}"]));
    assert!(required(&[r#"{"@timestamp":1704067200000000001}"#]));
    assert!(required(&[r#"{"@timestamp":"2024-01-01 00:00:00.1234567 +02:00"}"#]));
}

#[test]
fn nanoseconds_of_a_field_have_columns_if_any_date_has_them() {
    let at = |nanos: u32| format!("\"2024-01-01T00:00:00.{nanos:09}Z\"");
    let (micro, nanos) = (at(123_456_000), at(123_456_789));
    for (values, expected) in [
        (vec![micro.clone(), format!("[{micro},{micro}]")], None),
        (vec![nanos.clone()], Some(vec!["at__date", "at__date_ns"])),
        // The dates of one column have them, and the other has a column of zeros.
        (
            vec![micro.clone(), format!("[{micro},{nanos}]")],
            Some(vec!["at__date", "at__date_ns", "at__date_list", "at__date_list_ns"]),
        ),
    ] {
        for (version, budget) in [(3, 1_000), (3, 0), (2, 1_000)] {
            let options = WriterOptions { version, ..WriterOptions::default() };
            let mut writer = SplitWriter::new(Mapping::dynamic().with_column_budget(budget), options);
            for value in &values {
                writer.add(format!(r#"{{"at":{value}}}"#).as_bytes()).unwrap();
            }
            let mut file = Vec::new();
            let sealed = writer.seal(ID, &mut file).unwrap();
            let split = open(&file, &sealed.footer).unwrap();
            let has_nanos = version == 3 && expected.is_some();
            assert_eq!(split.field("at", ValueType::Date).unwrap().has_nanos, has_nanos);
            let names: Vec<&str> = split.column_names().filter(|name| name.starts_with("at")).collect();
            match &expected {
                Some(expected) if has_nanos && budget > 0 => assert_eq!(names, *expected),
                _ => assert!(names.iter().all(|name| !name.ends_with("_ns")), "{names:?}"),
            }
            if version == 3 {
                let start = sealed.footer.start as usize;
                let required = u64::from_le_bytes(file[start + 12..start + 20].try_into().unwrap());
                assert_eq!(required & crate::footer::DATE_NANOS != 0, has_nanos);
            }
            assert_eq!(sealed.mapping.field("at").unwrap().readings[&ValueType::Date].nanos, has_nanos);
        }
    }
}

#[test]
fn identities_have_columns_if_any_document_has_one() {
    let names = [crate::ID_COLUMN, crate::VERSION_COLUMN, crate::SEQ_NO_COLUMN];
    for (version, documents) in
        [(2, DocumentForm::Stored), (3, DocumentForm::Stored), (3, DocumentForm::Rendered)]
    {
        for identified in [vec![], vec![1, 4]] {
            let options = WriterOptions { version, documents, group_rows_max: 2, ..WriterOptions::default() };
            let mut writer = SplitWriter::new(Mapping::dynamic(), options);
            for n in 0..6 {
                // The last comes first.
                let document = format!(r#"{{"@timestamp":{},"n":{n},"_id":"x"}}"#, 9 - n);
                let identity = crate::Identity { id: format!("id {n}"), version: n, seq_no: 10 * n };
                match identified.contains(&n) {
                    true => writer.add_identified(document.as_bytes(), &identity).unwrap(),
                    false => writer.add(document.as_bytes()).unwrap(),
                }
            }
            let mut file = Vec::new();
            let sealed = writer.seal(ID, &mut file).unwrap();
            let split = Split::open(&cut(&file, &sealed.footer)).unwrap();
            let has = version == 3 && !identified.is_empty();
            assert_eq!(split.has_identities(), has);
            if version == 3 {
                let start = sealed.footer.start as usize;
                let required = u64::from_le_bytes(file[start + 12..start + 20].try_into().unwrap());
                assert_eq!(required & crate::footer::CLIENT_IDS != 0, has);
                let schema = sealed.mapping.arrow_schema();
                assert!(names.iter().all(|name| schema.field_with_name(name).is_ok() == has));
            }
            if has {
                let read = split.columns(&names, None, TextAs::Plain).unwrap();
                let bytes = read.ranges().iter().map(|range| cut(&file, range)).collect();
                let batches = read.clone().decode(bytes).unwrap();
                let batch = arrow::compute::concat_batches(read.schema(), &batches).unwrap();
                let number = |column: usize| batch.column(column).as_primitive::<Int64Type>();
                let ids: Vec<_> = batch.column(0).as_string::<i32>().iter().collect();
                assert_eq!(ids, [None, Some("id 4"), None, None, Some("id 1"), None]);
                assert_eq!((number(1).value(1), number(2).value(1)), (4, 40));
                assert_eq!((number(1).value(4), number(2).value(4)), (1, 10));
            }
            let documents = split.documents(None).unwrap();
            let bytes = documents.ranges().iter().map(|range| cut(&file, range)).collect();
            let batches = documents.decode(bytes).unwrap();
            let first = batches[0].column(0).as_binary::<i32>().value(0);
            assert_eq!(first, br#"{"@timestamp":4,"n":5,"_id":"x"}"#);
        }
    }
}

#[test]
fn an_identity_that_is_no_key_is_refused_and_leaves_nothing() {
    let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
    for id in [String::new(), "é".repeat(257)] {
        let refused = writer.add_identified(b"{}", &crate::Identity { id, version: 1, seq_no: 1 });
        assert_eq!(refused.unwrap_err().kind(), frostline_base::ErrorKind::Invalid);
    }
    let longest = crate::Identity { id: "é".repeat(256), version: 1, seq_no: 1 };
    assert!(writer.add_identified(b"{", &longest).is_err());
    assert_eq!(writer.rows(), 0);
    writer.add(b"{}").unwrap();
    writer.add_identified(b"{}", &longest).unwrap();
    let mut file = Vec::new();
    let sealed = writer.seal(ID, &mut file).unwrap();
    let split = Split::open(&cut(&file, &sealed.footer)).unwrap();
    let read = split.columns(&[crate::ID_COLUMN], None, TextAs::Plain).unwrap();
    let bytes = read.ranges().iter().map(|range| cut(&file, range)).collect();
    let ids = read.decode(bytes).unwrap().remove(0);
    let ids: Vec<_> = ids.column(0).as_string::<i32>().iter().collect();
    assert_eq!(ids, [None, Some(longest.id.as_str())]);
}

#[test]
fn lengths_come_before_texts_where_that_saves_room() {
    let documents: Vec<String> = (0..3_000)
        .map(|n| {
            let (id, long) = (digits(n, 32), digits(n, 300));
            format!(r#"{{"n":{n},"id":"{id}","long":"{long}","few":"{}"}}"#, n % 7)
        })
        .collect();
    let has_lengths = |options| {
        let (_, _, footer) = sealed(&documents, options);
        let columns = ["id__text", "long__text", "few__text", SOURCE_COLUMN];
        columns.map(|column| chunk(&footer, column).has_lengths)
    };
    assert_eq!(has_lengths(WriterOptions::default()), [true, false, false, false]);
    assert_eq!(has_lengths(WriterOptions { version: 2, ..WriterOptions::default() }), [false; 4]);
}

#[test]
fn copies_of_numbers_are_in_streams_where_that_saves_room() {
    let times = (0..6_000u64).map(|n| 1_709_287_200_000 + n * 2_500 + n * n * 7_919 % 1_009);
    let documents: Vec<String> = times
        .zip(0u64..)
        .map(|(time, n)| {
            let scattered = n * n * 7_919 % 100_003;
            let took = scattered as f64 / 1e3;
            format!(
                r#"{{"@timestamp":{time},"took":{took},"few":{},"id":"{}"}}"#,
                scattered % 50,
                digits(n, 32)
            )
        })
        .collect();
    let columns = [TIME_COLUMN, "took__double", "few__long", "id__text"];
    let options =
        |documents| WriterOptions { documents, scanned_bytes_min: 1 << 20, ..WriterOptions::default() };
    let (file, split, rendered) = sealed(&documents, options(DocumentForm::Rendered));
    let (stored_file, stored_split, stored) = sealed(&documents, options(DocumentForm::Stored));
    assert_eq!(columns.map(|column| chunk(&rendered, column).has_streams), [true, true, true, false]);
    assert_eq!(columns.map(|column| chunk(&stored, column).has_streams), [false; 4]);
    for column in &columns[..3] {
        let bytes = |footer| chunk(footer, column).bytes() as f64;
        assert!(
            bytes(&rendered) < 0.95 * bytes(&stored),
            "{column}: {} of {}",
            bytes(&rendered),
            bytes(&stored)
        );
    }
    let read = |file: &[u8], split: &Split, wanted: Option<&RoaringBitmap>| {
        let read = split.columns(&columns, wanted, TextAs::Plain).unwrap();
        let bytes = read.ranges().iter().map(|range| cut(file, range)).collect();
        let schema = Arc::clone(read.schema());
        arrow::compute::concat_batches(&schema, &read.decode(bytes).unwrap()).unwrap()
    };
    let some: RoaringBitmap = (7..6_000).step_by(41).collect();
    for wanted in [None, Some(&some)] {
        assert_eq!(read(&file, &split, wanted), read(&stored_file, &stored_split, wanted));
    }
}

#[test]
fn a_page_that_packs_badly_is_cut_unless_it_is_of_one_document() {
    let document = |n: u64, bytes| format!(r#"{{"n":{n},"m":"{}"}}"#, digits(n, bytes));
    // Digits pack two to one: half of a page is too much, a quarter is not.
    let mut documents: Vec<String> = (0..1_000).map(|n| document(n, 3_000)).collect();
    documents.push(document(1_000, 900_000));
    documents.extend((1_001..1_500).map(|n| format!(r#"{{"n":{n},"m":"the same text again and again"}}"#)));
    documents.extend((1_500..2_500).map(|n| document(n, 10)));
    let (file, split, footer) = sealed(&documents, WriterOptions::default());
    for column in [SOURCE_COLUMN, "m__text"] {
        let pages = pages(&footer, column);
        let large: Vec<_> = pages.iter().filter(|(_, bytes)| *bytes > 192 << 10).collect();
        assert_eq!(large.iter().map(|(rows, _)| *rows).collect::<Vec<_>>(), [1], "{column}: {pages:?}");
        assert!((10..30).contains(&pages.len()), "{column}: {pages:?}");
    }
    let batch = read(&file, &split, &[SOURCE_COLUMN], None, TextAs::Plain).unwrap();
    let read = batch.column(0).as_binary::<i32>();
    assert!(documents.iter().enumerate().all(|(row, document)| read.value(row) == document.as_bytes()));
}

#[test]
fn pages_end_by_values_and_those_of_long_texts_are_larger() {
    let text = |n: usize, words: usize| format!("{n} {}", "the same words ".repeat(words));
    let document = |n: usize| {
        let rare =
            if n % 100 == 3 { format!(r#","rare":{},"list":[{n},1]"#, n * n % 977) } else { String::new() };
        format!(r#"{{"long":"{}","short":"{}"{rare}}}"#, text(n, 8), text(n, 1))
    };
    let documents: Vec<String> = (0..45_000).map(document).collect();
    let (file, split, footer) = sealed(&documents, WriterOptions::default());
    for column in ["rare__long", "list__long_list"] {
        assert_eq!(pages(&footer, column).len(), 1, "{column} has 450 rows with values");
    }
    // 45,000 times 131 and 26 bytes.
    assert_eq!((pages(&footer, "long__text").len(), pages(&footer, "short__text").len()), (6, 9));
    let wanted = RoaringBitmap::from_iter([2, 3, 44_903, 44_999]);
    let batch =
        read(&file, &split, &["rare__long", "list__long_list"], Some(&wanted), TextAs::Plain).unwrap();
    let expected = |n: i64| vec![Held::Long(n * n % 977)];
    let rare: Vec<_> = (0..4).map(|at| values_at(batch.column(0), at)).collect();
    assert_eq!(rare, [vec![], expected(3), expected(44_903), vec![]]);
    assert_eq!(values_at(batch.column(1), 2), [Held::Long(44_903), Held::Long(1)]);
}

#[test]
fn a_dictionary_is_as_large_as_it_packs_well() {
    // Each value twice: 600 KB of them, alike or not.
    let twice = |value: &dyn Fn(u64) -> String| -> Vec<String> {
        (0..20_000).map(|n| format!(r#"{{"v":"{}"}}"#, value(n % 10_000))).collect()
    };
    let alike = twice(&|n| format!("/var/log/service/of/this/machine/{n}"));
    let random = twice(&|n| digits(n, 60));
    let (_, _, alike) = sealed(&alike, WriterOptions::default());
    let (file, split, random) = sealed(&random, WriterOptions::default());
    assert!(chunk(&alike, "v__text").dictionary.is_some());
    assert!(chunk(&random, "v__text").dictionary.is_none());
    let one = RoaringBitmap::from_iter([10_007]);
    let batch = read(&file, &split, &["v__text"], Some(&one), TextAs::Dictionary).unwrap();
    assert_eq!(values_at(batch.column(0), 0), [Held::Text(digits(7, 60))]);
}

#[test]
fn a_higher_level_is_used_for_the_columns_that_get_smaller_by_it() {
    let document = |n: u64| {
        let words: Vec<String> =
            (0..12).map(|word| format!("word-{}", (n * 7 + word * word * n) % 211)).collect();
        format!(r#"{{"id":"{}","text":"{} {n}"}}"#, digits(n, 24), words.join(" "))
    };
    let documents: Vec<String> = (0..30_000).map(document).collect();
    let bytes = |level| {
        let options =
            WriterOptions { column_zstd_level: level, source_zstd_level: level, ..WriterOptions::default() };
        let (_, split, _) = sealed(&documents, options);
        let bytes = |column| split.column_range(column).map_or(0, |range| range.end - range.start);
        [SOURCE_COLUMN, "text__text", "id__text"].map(bytes)
    };
    let ([source, text, id], [source_9, text_9, id_9]) = (bytes(3), bytes(9));
    assert!(source_9 * 100 < source * 97 && text_9 * 100 < text * 97, "{source} {source_9}, {text} {text_9}");
    assert!(id_9 <= id, "{id} {id_9}");
}

#[test]
fn fields_beyond_the_budget_stay_searchable() {
    let documents: Vec<String> =
        (0..20).map(|n| format!(r#"{{"f{n}":"value {n}","f0":{n}}}"#)).skip(1).collect();
    let (file, sealed) = seal(&documents, Mapping::dynamic().with_column_budget(3));
    let split = Split::open(&cut(&file, &sealed.footer)).unwrap();
    let field = split.field("f15", ValueType::Text).unwrap();
    assert!(field.dynamic);
    let entries = all_entries(&file, &split, split.exact()).unwrap().into_iter();
    let found: Vec<_> =
        entries.filter(|entry| exact_key("value 15", field.number).starts_with(&entry.key)).collect();
    assert!(matches!(&found[..], [one] if one.rows == BTreeSet::from([14])), "{found:?}");
    let batch = read(&file, &split, &["_dynamic"], None, TextAs::Plain).unwrap();
    assert_eq!(values_at(batch.column(0), 14), [Held::Text("f15:text=value 15".to_owned())]);
}

#[test]
fn a_document_with_values_of_several_types_makes_a_list() {
    let documents = [r#"{"y": [1, 2.5], "z": 1}"#, r#"{"y": 3, "z": "x"}"#].map(str::to_owned);
    let (_, sealed) = seal(&documents, Mapping::dynamic());
    let is_list = |mapping: &Mapping, path: &str| mapping.field(path).unwrap().mixed_list;
    assert!(is_list(&sealed.mapping, "y"));
    assert!(!is_list(&sealed.mapping, "z"), "no document has several values");
    let mut other = Mapping::dynamic();
    other.merge(&sealed.mapping).unwrap();
    assert!(is_list(&other, "y"));
}

#[test]
fn a_refused_document_leaves_the_writer_as_it_was() {
    let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
    writer.add(br#"{"a":1}"#).unwrap();
    assert!(writer.add(br#"{"b":1,"c":"#).is_err());
    writer.add(br#"{"a":2}"#).unwrap();
    assert_eq!(writer.rows(), 2);
    assert!(writer.mapping().field("b").is_none());
}

#[test]
fn a_split_of_nothing_is_refused() {
    let writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
    assert!(writer.seal(ID, &mut Vec::new()).is_err());
}

/// A split of `readings` fields, ten in each document.
fn wide(readings: usize) -> (Vec<u8>, Sealed) {
    let document = |n: usize| {
        let fields = (0..10).map(|field| {
            let (field, word) = ((n * 10 + field) % readings, digits(n as u64, 12));
            format!(r#""service.{}.name-{field}":"{word} of {n}""#, field % 7)
        });
        format!(
            r#"{{"@timestamp":{},{}}}"#,
            1_700_000_000_000i64 + n as i64,
            fields.collect::<Vec<_>>().join(",")
        )
    };
    let documents: Vec<String> = (0..1_000).map(document).collect();
    let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
    documents.iter().for_each(|document| writer.add(document.as_bytes()).unwrap());
    let mut file = Vec::new();
    let sealed = writer.seal(ID, &mut file).unwrap();
    (file, sealed)
}

#[test]
fn a_hot_footer_of_many_fields_takes_at_most_32_kib() {
    for readings in [449, 1_000] {
        let (file, sealed) = wide(readings);
        let hot = sealed.footer.end - sealed.footer.start;
        assert!(hot <= 32 << 10, "{readings} readings take {hot} bytes");
        let split = Split::open(&cut(&file, &sealed.footer)).unwrap();
        let path = format!("service.{}.name-{}", (readings - 1) % 7, readings - 1);
        // What is unread of one field is a block, and the field is there once it was read.
        let unread = split.unread_fields(Wanted::Path(&path));
        assert!(unread.len() <= 2, "{readings}: {unread:?}");
        if !unread.is_empty() {
            let error = split.find(Wanted::Path(&path)).unwrap_err();
            assert_eq!(error.kind(), frostline_base::ErrorKind::Internal);
        }
        unread.iter().for_each(|block| split.keep(block, &cut(&file, &block.range)).unwrap());
        let field = split.find(Wanted::Path(&path)).unwrap()[0].clone();
        assert_eq!((field.path.as_str(), field.ty), (path.as_str(), ValueType::Text));
        assert_eq!(split.find(Wanted::Number(field.number)).unwrap(), [&field]);
        let whole = open(&file, &sealed.footer).unwrap();
        assert_eq!(whole.find(Wanted::All).unwrap().len(), readings);
        let under = whole.find(Wanted::Below("service.3")).unwrap().len();
        assert_eq!(under, (0..readings).filter(|field| field % 7 == 3).count());
    }
}

#[test]
fn paths_that_hold_the_byte_between_path_and_type_keep_apart() {
    let documents = [r#"{"a\u0000\u0001":"x","a":"y","a\u0000":2}"#.to_owned()];
    let (file, sealed) = seal_within(&documents, Mapping::dynamic(), 0, DocumentForm::Stored);
    let split = open(&file, &sealed.footer).unwrap();
    for path in ["a", "a\0", "a\0\u{1}"] {
        let found = split.find(Wanted::Path(path)).unwrap();
        assert_eq!(found.iter().map(|field| field.path.as_str()).collect::<Vec<_>>(), [path]);
    }
}

#[test]
fn a_digest_leaves_out_what_takes_too_much() {
    // A thousand texts of a kilobyte each take a mebibyte.
    let documents: Vec<String> = (0..1_000)
        .map(|n| {
            format!(
                r#"{{"@timestamp":{},"long":"{}","short":"{}"}}"#,
                1_700_000_000_000i64,
                digits(n, 1_000),
                n % 9
            )
        })
        .collect();
    let (file, sealed) = seal(&documents, Mapping::dynamic());
    let split = open(&file, &sealed.footer).unwrap();
    let digest = digest_of(&file, &split).unwrap();
    let number = |path| split.field(path, ValueType::Text).unwrap().number;
    let has = |path| digest.values(number(path)).unwrap().is_some();
    assert!(has("short") && !has("long"));
    assert_eq!(digest.minutes().len(), 1);
}
