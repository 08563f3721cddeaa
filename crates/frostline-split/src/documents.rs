//! Reads the documents of a split: from `_source`, or made again from the columns of their row group.
//!
//! A row group is one range of the file: its column chunks, then its *directory*, which says where in the range they
//! are and of which readings. So that a document is made from one read, and from nothing else of the split.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int16Array, Int32Array,
    Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{
    DataType, Field as ArrowField, Float64Type, Int16Type, Int32Type, Int64Type, Schema,
    TimestampMicrosecondType,
};
use bytes::Bytes;
use frostline_base::{ByteRange, Error, Result};
use roaring::RoaringBitmap;

use crate::bytes_codec::{Cursor, checksum, put_bytes, put_varint};
use crate::columns::{ColumnRead, KnownTexts, TextAs};
use crate::document::{Value, is_plain};
use crate::dynamic::DynamicPairs;
use crate::footer::{
    Chunk, ColumnKind, RowGroup, own_name, put_chunk, read_chunk, read_text, read_type, type_code,
};
use crate::mapping::{Mapping, SOURCE_COLUMN, ValueType};
use crate::render::{Row, Shape, is_json};
use crate::values::Moment;

/// A row group ends before its documents have more bytes, unless it has one.
pub(crate) const GROUP_SOURCE_BYTES_MAX: usize = 8 << 20;

const TIME: u8 = 0;
const NANOS: u8 = 2;
const ID: u8 = 3;
const VERSION: u8 = 4;
const DYNAMIC: u8 = 5;
const SEQ_NO: u8 = 6;
const SCALAR: u8 = 8;
const LIST: u8 = 9;
const SCALAR_NANOS: u8 = 10;
const LIST_NANOS: u8 = 11;
const SHAPE: u8 = 16;
const RESIDUAL: u8 = 17;
const RAW: u8 = 18;

/// A read of some documents: fetch [`DocumentRead::ranges`], then [`DocumentRead::decode`].
#[derive(Clone, Debug)]
pub struct DocumentRead {
    form: Form,
    ranges: Vec<ByteRange>,
}

#[derive(Clone, Debug)]
enum Form {
    Stored(ColumnRead),
    /// Row groups, and which of their rows, counted in the group.
    Rendered(Vec<(RowGroup, RoaringBitmap)>),
}

impl DocumentRead {
    pub(crate) fn stored(read: ColumnRead) -> DocumentRead {
        DocumentRead { ranges: read.ranges().to_vec(), form: Form::Stored(read) }
    }

    /// The documents of `rows` of a split with these row groups.
    pub(crate) fn rendered(groups: &[RowGroup], rows: Option<&RoaringBitmap>) -> DocumentRead {
        let mut wanted = Vec::new();
        for group in groups {
            let mut here = RoaringBitmap::new();
            match rows {
                None => drop(here.insert_range(0..group.rows.end - group.rows.start)),
                Some(rows) => here.extend(rows.range(group.rows.clone()).map(|row| row - group.rows.start)),
            }
            if !here.is_empty() {
                wanted.push((group.clone(), here));
            }
        }
        let ranges = wanted.iter().map(|(group, _)| group.range.clone()).collect();
        DocumentRead { form: Form::Rendered(wanted), ranges }
    }

    /// The bytes of the split to hand to [`DocumentRead::decode`].
    pub fn ranges(&self) -> &[ByteRange] {
        &self.ranges
    }

    /// The documents in row order, in batches of one column. `bytes` are those of [`DocumentRead::ranges`]. Documents that
    /// are made again from columns are JSON.
    pub fn decode(self, bytes: Vec<Bytes>) -> Result<Vec<RecordBatch>> {
        let groups = match self.form {
            Form::Stored(read) => return read.decode(bytes),
            Form::Rendered(groups) => groups,
        };
        if groups.len() != bytes.len() {
            return Err(Error::invalid(format!("{} ranges were read of {}", bytes.len(), groups.len())));
        }
        let located = |group: &RowGroup, e: Error| e.with("range", format!("{:?}", group.range));
        let groups = groups.iter().zip(bytes);
        groups
            .map(|((group, rows), bytes)| render(group, rows, &bytes).map_err(|e| located(group, e)))
            .collect()
    }
}

/// A column of a row group; none of a field for those of our own.
pub(crate) struct GroupColumn {
    pub(crate) reading: Option<(String, ValueType)>,
    pub(crate) chunk: Chunk,
}

/// The end of a row group, which says where its columns are.
pub(crate) fn write_directory(columns: &[GroupColumn]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, columns.len() as u64);
    for GroupColumn { reading, chunk } in columns {
        out.push(match chunk.kind {
            ColumnKind::Time => TIME,
            ColumnKind::Nanos => NANOS,
            ColumnKind::Id => ID,
            ColumnKind::Version => VERSION,
            ColumnKind::SeqNo => SEQ_NO,
            ColumnKind::Dynamic { .. } => DYNAMIC,
            ColumnKind::Field { list: false, .. } => SCALAR,
            ColumnKind::Field { list: true, .. } => LIST,
            ColumnKind::FieldNanos { list: false, .. } => SCALAR_NANOS,
            ColumnKind::FieldNanos { list: true, .. } => LIST_NANOS,
            ColumnKind::Shape => SHAPE,
            ColumnKind::Residual => RESIDUAL,
            ColumnKind::Raw | ColumnKind::Source => RAW,
        });
        if let Some((path, ty)) = reading {
            put_bytes(&mut out, path.as_bytes());
            out.push(type_code(*ty));
        }
        put_chunk(&mut out, chunk);
    }
    out
}

fn read_directory(bytes: &[u8], rows: u32) -> Result<Vec<GroupColumn>> {
    let mut cursor = Cursor::new(bytes);
    let mut columns = Vec::new();
    for _ in 0..cursor.varint_usize()? {
        let code = cursor.u8()?;
        let mut reading = None;
        let kind = match code {
            TIME => ColumnKind::Time,
            NANOS => ColumnKind::Nanos,
            ID => ColumnKind::Id,
            VERSION => ColumnKind::Version,
            SEQ_NO => ColumnKind::SeqNo,
            DYNAMIC => ColumnKind::Dynamic { typed: true },
            SHAPE => ColumnKind::Shape,
            RESIDUAL => ColumnKind::Residual,
            RAW => ColumnKind::Raw,
            SCALAR | LIST | SCALAR_NANOS | LIST_NANOS => {
                let (path, ty) = (read_text(&mut cursor)?, read_type(cursor.u8()?)?);
                reading = Some((path, ty));
                // Fields have their numbers in the hot footer, which is not needed here.
                match code {
                    SCALAR | LIST => ColumnKind::Field { field: 0, ty, list: code == LIST },
                    _ => ColumnKind::FieldNanos { field: 0, list: code == LIST_NANOS },
                }
            }
            code => return Err(Error::corrupt("a column has an unknown kind").with("kind", code)),
        };
        let name = match (&reading, kind) {
            (Some((path, _)), ColumnKind::FieldNanos { list, .. }) => Mapping::nanos_column_name(path, list),
            (Some((path, ty)), _) => Mapping::column_name(path, *ty, kind.is_list()),
            (None, _) => own_name(kind).to_owned(),
        };
        columns.push(GroupColumn { reading, chunk: read_chunk(&mut cursor, name, kind, rows)? });
    }
    Ok(columns)
}

/// Makes the wanted documents of a row group.
fn render(group: &RowGroup, wanted: &RoaringBitmap, bytes: &Bytes) -> Result<RecordBatch> {
    if checksum(bytes) != group.checksum {
        return Err(Error::corrupt("the checksum of a row group does not match"));
    }
    let directory = bytes.len().checked_sub(group.directory_bytes as usize).and_then(|at| bytes.get(at..));
    let directory = directory.ok_or_else(|| Error::corrupt("a row group is shorter than its directory"))?;
    let columns = read_directory(directory, group.rows.end - group.rows.start)?;
    let read = |columns: &[&GroupColumn], text_as| read_columns(group, wanted, bytes, columns, text_as);
    let is_part =
        |kind: ColumnKind| matches!(kind, ColumnKind::Shape | ColumnKind::Residual | ColumnKind::Raw);
    let (own, others): (Vec<_>, Vec<_>) = columns.iter().partition(|column| is_part(column.chunk.kind));
    // Shapes are few and long: each is read once, not copied row by row.
    let are_listed =
        own.iter().any(|column| column.chunk.kind == ColumnKind::Shape && column.chunk.dictionary.is_some());
    let parts = Parts::new(&own, &read(&own, if are_listed { TextAs::Dictionary } else { TextAs::Plain })?);
    let rows = wanted.len() as usize;
    let (shapes, shape_of_row) = parts.shapes()?;
    let readings: HashSet<_> = shapes.iter().flat_map(Shape::readings).collect();
    let is_needed = |column: &&GroupColumn| match &column.reading {
        Some((path, ty)) => readings.contains(&(path.as_str(), *ty)),
        None => !column.chunk.kind.is_of_identity(),
    };
    // A text of a list that is shorter than the rows is looked at once.
    let is_listed = |column: &&GroupColumn| column.chunk.dictionary.is_some() && !column.chunk.kind.is_list();
    let (listed, plain): (Vec<_>, Vec<_>) = others.into_iter().filter(is_needed).partition(is_listed);
    let mut group_cells = GroupCells::default();
    group_cells.extend(&listed, &read(&listed, TextAs::Dictionary)?);
    group_cells.extend(&plain, &read(&plain, TextAs::Plain)?);
    let cells_of = |shape: &Shape| -> Vec<Cells> {
        shape.readings().map(|(path, ty)| group_cells.of(path, ty)).collect()
    };
    let shapes: Vec<_> = shapes.iter().map(|shape| (shape, cells_of(shape))).collect();
    let (mut documents, mut ends, mut next) = (Vec::new(), vec![0], Vec::new());
    for row in 0..rows {
        let shape = shape_of_row.get(row).copied().flatten();
        match shape.and_then(|number| shapes.get(number)) {
            Some((shape, cells)) => {
                next.clear();
                next.resize(cells.len(), 0);
                let (time, residual) = (group_cells.time(row), parts.residual.as_ref());
                let mut row = GroupRow { row, cells, next: &mut next, time, residual, literals: 0 };
                shape.render(&mut row, &mut documents)?;
            }
            None => {
                let raw = parts.raw(row);
                let raw = raw.ok_or_else(|| Error::corrupt("a row of a split has no document"))?;
                if !is_json(raw) {
                    return Err(Error::corrupt("a document is not JSON"));
                }
                documents.extend_from_slice(raw);
            }
        }
        let too_many = || Error::corrupt("a row group has more bytes of documents than any");
        if documents.len() > GROUP_SOURCE_BYTES_MAX && group.rows.len() > 1 {
            return Err(too_many());
        }
        ends.push(i32::try_from(documents.len()).map_err(|_| too_many())?);
    }
    let not_in_order = |e| Error::internal("documents are not in order").with_source(e);
    let documents = BinaryArray::try_new(OffsetBuffer::new(ends.into()), documents.into(), None);
    let documents = documents.map_err(not_in_order)?;
    let schema = Schema::new(vec![ArrowField::new(SOURCE_COLUMN, DataType::Binary, true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(documents)])
        .map_err(|e| Error::internal("documents do not fit their schema").with_source(e))
}

/// The wanted rows of some columns of a row group.
fn read_columns(
    group: &RowGroup,
    wanted: &RoaringBitmap,
    bytes: &Bytes,
    columns: &[&GroupColumn],
    text_as: TextAs,
) -> Result<RecordBatch> {
    let chunks: Vec<&Chunk> = columns.iter().map(|column| &column.chunk).collect();
    let read = ColumnRead::new(&chunks, group.rows.end - group.rows.start, Some(wanted), text_as)?;
    let place = |at: u64| at.checked_sub(group.range.start).and_then(|at| usize::try_from(at).ok());
    let held = |range: &ByteRange| {
        let (start, end) = (place(range.start)?, place(range.end)?);
        (end <= bytes.len()).then(|| bytes.slice(start..end))
    };
    let held: Option<Vec<Bytes>> = read.ranges().iter().map(held).collect();
    let held = held.ok_or_else(|| Error::corrupt("a column of a row group is not in it"))?;
    let schema = Arc::clone(read.schema());
    concat_batches(&schema, &read.decode(held)?)
        .map_err(|e| Error::internal("columns do not fit their schema").with_source(e))
}

/// What documents are made from beside their values.
struct Parts {
    shape: Option<ArrayRef>,
    residual: Option<TextLists>,
    raw: Option<BinaryArray>,
}

impl Parts {
    fn new(columns: &[&GroupColumn], batch: &RecordBatch) -> Parts {
        let column = |kind: ColumnKind| {
            let at = columns.iter().position(|column| column.chunk.kind == kind)?;
            batch.columns().get(at)
        };
        Parts {
            shape: column(ColumnKind::Shape).cloned(),
            residual: column(ColumnKind::Residual).and_then(TextLists::new),
            raw: column(ColumnKind::Raw).and_then(|raw| raw.as_binary_opt::<i32>().cloned()),
        }
    }

    /// The shapes, and which of them each row has, if any.
    fn shapes(&self) -> Result<(Vec<Shape>, Vec<Option<usize>>)> {
        let (mut shapes, mut known) = (Vec::new(), KnownTexts::default());
        let Some(column) = &self.shape else { return Ok((Vec::new(), Vec::new())) };
        let mut read = |text: &str| {
            shapes.push(Shape::read(text.as_bytes()));
            shapes.len() - 1
        };
        let of_row = match (known.of(column, &mut read), column.as_string_opt::<i32>()) {
            (Some(known), _) => known.collect(),
            (None, Some(texts)) => {
                let mut numbers = HashMap::new();
                let mut number = |text| *numbers.entry(text).or_insert_with(|| read(text));
                texts.iter().map(|text| text.map(&mut number)).collect()
            }
            (None, None) => return Err(Error::corrupt("the shapes of a row group are no texts")),
        };
        Ok((shapes.into_iter().collect::<Result<_>>()?, of_row))
    }

    fn raw(&self, row: usize) -> Option<&[u8]> {
        let raw = self.raw.as_ref()?;
        raw.is_valid(row).then(|| raw.value(row))
    }
}

/// The columns of a row group that hold values.
#[derive(Default)]
struct GroupCells {
    columns: HashMap<(String, ValueType), Cells>,
    time: Option<TimestampMicrosecondArray>,
    nanos: Option<Int16Array>,
    dynamic: Option<TextLists>,
}

/// The values of one reading.
#[derive(Clone, Default)]
struct Cells {
    scalar: Option<Values>,
    scalar_nanos: Option<Int16Array>,
    list: Option<(ListArray, Values)>,
    list_nanos: Option<(ListArray, Int16Array)>,
    dynamic: Option<(TextLists, DynamicPairs)>,
}

impl GroupCells {
    fn extend(&mut self, columns: &[&GroupColumn], batch: &RecordBatch) {
        for (column, array) in columns.iter().zip(batch.columns()) {
            let nanos = |array: &ArrayRef| array.as_primitive_opt::<Int16Type>().cloned();
            match (&column.reading, column.chunk.kind) {
                (Some(reading), kind) => {
                    let of = self.columns.entry(reading.clone()).or_default();
                    let list = array.as_list_opt::<i32>().cloned();
                    match (kind, list) {
                        (ColumnKind::FieldNanos { .. }, None) => of.scalar_nanos = nanos(array),
                        (ColumnKind::FieldNanos { .. }, Some(list)) => {
                            of.list_nanos = nanos(list.values()).map(|values| (list, values));
                        }
                        (_, None) => of.scalar = Values::new(array, reading.1),
                        (_, Some(list)) => {
                            of.list = Values::new(list.values(), reading.1).map(|values| (list, values));
                        }
                    }
                }
                (None, ColumnKind::Time) => self.time = array.as_primitive_opt().cloned(),
                (None, ColumnKind::Nanos) => self.nanos = nanos(array),
                (None, _) => self.dynamic = TextLists::new(array),
            }
        }
    }

    fn of(&self, path: &str, ty: ValueType) -> Cells {
        if let Some(cells) = self.columns.get(&(path.to_owned(), ty)) {
            return cells.clone();
        }
        let dynamic = self.dynamic.clone().map(|pairs| (pairs, DynamicPairs::typed(path, ty)));
        Cells { dynamic, ..Cells::default() }
    }

    fn time(&self, row: usize) -> Option<Moment> {
        moment_at(self.time.as_ref()?, row, self.nanos.as_ref().map(|nanos| (nanos, row)))
    }
}

impl Cells {
    /// The value of `row` from place `next` on, and the place after it.
    fn value(&self, row: usize, next: usize) -> Option<(Value<'_>, usize)> {
        let nanos = self.scalar_nanos.as_ref().map(|nanos| (nanos, row));
        if let Some(value) = self.scalar.as_ref().and_then(|scalars| scalars.at(row, nanos)) {
            return (next == 0).then_some((value, 1));
        }
        if let Some((pairs, of)) = &self.dynamic {
            let range = list_range(&pairs.lists, row)?;
            let mut places = range.start + next..range.end;
            let found = places.find_map(|at| Some((of.value(pairs.texts.value(at))?, at)));
            return found.map(|(value, at)| (value, at + 1 - range.start));
        }
        let (lists, values) = self.list.as_ref()?;
        let range = list_range(lists, row)?;
        let at = Some(range.start + next).filter(|at| *at < range.end)?;
        let nanos = match &self.list_nanos {
            Some((lists, nanos)) => {
                let range = list_range(lists, row)?;
                Some((nanos, Some(range.start + next).filter(|at| *at < range.end)?))
            }
            None => None,
        };
        Some((values.at(at, nanos)?, next + 1))
    }
}

/// The values of a column, or the items of its lists.
#[derive(Clone)]
enum Values {
    Boolean(BooleanArray),
    Long(Int64Array),
    Double(Float64Array),
    Date(TimestampMicrosecondArray),
    Big(StringArray),
    Ip(StringArray),
    Text(StringArray),
    Listed(Listed),
}

/// Texts of a dictionary.
#[derive(Clone)]
struct Listed {
    keys: Int32Array,
    texts: StringArray,
    is_ip: bool,
    /// Where among the bytes of all texts each is that has no characters that JSON does not allow; none where that is not
    /// known.
    plain: Option<Arc<[(u32, u32)]>>,
}

/// No place.
const NOT_PLAIN: (u32, u32) = (1, 0);

impl Listed {
    /// None where the array has no dictionary of texts.
    fn new(array: &ArrayRef, is_ip: bool) -> Option<Listed> {
        let listed = array.as_dictionary_opt::<Int32Type>()?;
        let texts = listed.values().as_string_opt::<i32>()?.clone();
        // Of a few rows each text is looked at when it is written.
        let plain = (!is_ip && texts.len() <= listed.len()).then(|| {
            let place = |(at, text): (usize, Option<&str>)| {
                let ends = texts.value_offsets().get(at..at + 2)?;
                let place = (u32::try_from(*ends.first()?).ok()?, u32::try_from(*ends.last()?).ok()?);
                text.is_some_and(is_plain).then_some(place)
            };
            texts.iter().enumerate().map(|text| place(text).unwrap_or(NOT_PLAIN)).collect()
        });
        Some(Listed { keys: listed.keys().clone(), texts, is_ip, plain })
    }

    /// The place of a row's text.
    fn place(&self, row: usize) -> Option<usize> {
        let is_there = row < self.keys.len() && self.keys.is_valid(row);
        let place = usize::try_from(is_there.then(|| self.keys.value(row))?).ok()?;
        (place < self.texts.len() && self.texts.is_valid(place)).then_some(place)
    }

    fn at(&self, row: usize) -> Option<Value<'_>> {
        let text = self.texts.value(self.place(row)?);
        Some(if self.is_ip { Value::Ip(text) } else { Value::Text(text) })
    }

    fn plain_text(&self, row: usize) -> Option<&[u8]> {
        let plain = self.plain.as_deref()?;
        let key = *self.keys.values().get(row).filter(|_| self.keys.is_valid(row))?;
        let (start, end) = *plain.get(usize::try_from(key).ok()?)?;
        self.texts.value_data().get(start as usize..end as usize)
    }
}

impl Values {
    /// None where the array has values of another type.
    fn new(array: &ArrayRef, ty: ValueType) -> Option<Values> {
        let text = || array.as_string_opt::<i32>().cloned();
        Some(match ty {
            ValueType::Boolean => Values::Boolean(array.as_boolean_opt()?.clone()),
            ValueType::Long => Values::Long(array.as_primitive_opt::<Int64Type>()?.clone()),
            ValueType::Double => Values::Double(array.as_primitive_opt::<Float64Type>()?.clone()),
            ValueType::Date => Values::Date(array.as_primitive_opt::<TimestampMicrosecondType>()?.clone()),
            ValueType::Big => Values::Big(text()?),
            ValueType::Ip | ValueType::Text if matches!(array.data_type(), DataType::Dictionary(..)) => {
                Values::Listed(Listed::new(array, ty == ValueType::Ip)?)
            }
            ValueType::Ip => Values::Ip(text()?),
            ValueType::Text => Values::Text(text()?),
        })
    }

    /// A value, the nanoseconds of a date in another array.
    fn at(&self, at: usize, nanos: Option<(&Int16Array, usize)>) -> Option<Value<'_>> {
        fn get<A: ArrayAccessor>(array: A, at: usize) -> Option<A::Item> {
            (at < array.len() && array.is_valid(at)).then(|| array.value(at))
        }
        Some(match self {
            Values::Boolean(values) => Value::Boolean(get(values, at)?),
            Values::Long(values) => Value::Long(get(values, at)?),
            Values::Double(values) => Value::Double(get(values, at)?),
            Values::Date(values) => Value::Date(moment_at(values, at, nanos)?),
            Values::Big(values) => Value::Big(get(values, at)?),
            Values::Ip(values) => Value::Ip(get(values, at)?),
            Values::Text(values) => Value::Text(get(values, at)?),
            Values::Listed(values) => values.at(at)?,
        })
    }
}

fn moment_at(
    times: &TimestampMicrosecondArray,
    at: usize,
    nanos: Option<(&Int16Array, usize)>,
) -> Option<Moment> {
    let nanos = match nanos {
        Some((nanos, at)) if at < nanos.len() && nanos.is_valid(at) => nanos.value(at),
        _ => 0,
    };
    // Forged ones would write more than nine digits.
    let nanos = u16::try_from(nanos).ok().filter(|nanos| *nanos < 1_000)?;
    (at < times.len() && times.is_valid(at)).then(|| Moment { time_us: times.value(at), nanos })
}

/// A column of lists of texts.
#[derive(Clone)]
struct TextLists {
    lists: ListArray,
    texts: StringArray,
}

impl TextLists {
    /// None where the array has others.
    fn new(array: &ArrayRef) -> Option<TextLists> {
        let lists = array.as_list_opt::<i32>()?.clone();
        let texts = lists.values().as_string_opt::<i32>()?.clone();
        Some(TextLists { lists, texts })
    }
}

fn list_range(lists: &ListArray, row: usize) -> Option<std::ops::Range<usize>> {
    let offsets = lists.value_offsets();
    let range = *offsets.get(row)? as usize..*offsets.get(row + 1)? as usize;
    lists.is_valid(row).then_some(range)
}

/// One row of a row group, as far as it was read.
struct GroupRow<'g> {
    row: usize,
    cells: &'g [Cells],
    /// Where the next value of each reading is looked for.
    next: &'g mut [usize],
    time: Option<Moment>,
    residual: Option<&'g TextLists>,
    literals: usize,
}

impl Row for GroupRow<'_> {
    fn next_value(&mut self, reading: usize) -> Option<Value<'_>> {
        let next = self.next.get_mut(reading)?;
        let (value, after) = self.cells.get(reading)?.value(self.row, *next)?;
        *next = after;
        Some(value)
    }

    fn next_plain_text(&mut self, reading: usize) -> Option<&[u8]> {
        let next = self.next.get_mut(reading).filter(|next| **next == 0)?;
        let Some(Values::Listed(listed)) = &self.cells.get(reading)?.scalar else { return None };
        let text = listed.plain_text(self.row)?;
        *next = 1;
        Some(text)
    }

    fn time(&mut self) -> Option<Moment> {
        self.time
    }

    fn next_literal(&mut self) -> Option<&str> {
        let TextLists { lists, texts } = self.residual?;
        let range = list_range(lists, self.row)?;
        let at = range.start + self.literals;
        self.literals += 1;
        (at < range.end && texts.is_valid(at)).then(|| texts.value(at))
    }
}

#[cfg(test)]
mod tests;
