//! Decodes the stored postings of splits that `split_stats` wrote, and says by form what they take and how long that
//! lasts beside a roaring bitmap of the same rows, and how long lists take that are left to columns: `list_reads FILE…`.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use frostline_split::{
    ColumnList, Dictionary, KeyRange, KeyRanges, Postings, Split, Wanted, decode_postings,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use roaring::RoaringBitmap;

type Failure = Box<dyn std::error::Error>;

const ROUNDS: u32 = 5;
const FORMS: [&str; 8] = ["", "gaps", "bitmap", "Rice", "runs", "gaps packed", "runs packed", "segments"];

#[derive(Default)]
struct Form {
    lists: u64,
    rows: u64,
    bytes: u64,
    nanos: u128,
    bitmap_bytes: u64,
    bitmap_nanos: u128,
    /// Of the list that takes longest beside its bitmap: the difference, and its rows.
    worst: (u128, u64),
}

fn main() -> Result<(), Failure> {
    let mut forms: BTreeMap<u8, Form> = BTreeMap::new();
    for path in std::env::args().skip(1) {
        let file = Bytes::from(std::fs::read(path)?);
        let split = open(&file)?;
        for block in split.unread_fields(Wanted::All) {
            split.keep(&block, &file[block.range.start as usize..block.range.end as usize])?;
        }
        let mut lists = BTreeSet::new();
        for field in split.fields() {
            keep(&split.exists(field.number)?, &mut lists);
        }
        for dictionary in [split.text(), split.exact(), split.pairs()] {
            stored(dictionary, &file, &mut lists)?;
        }
        columns(&file, &split)?;
        for (start, end) in lists {
            measure(&file[start as usize..end as usize], split.rows(), &mut forms)?;
        }
    }
    println!(
        "form         |   lists |      rows |    bytes | as bitmap | ns a row | as bitmap | worst list: µs more, rows"
    );
    for (number, form) in forms {
        let each = |nanos: u128| nanos as f64 / form.rows as f64;
        println!(
            "{:12} | {:7} | {:9} | {:8} | {:9} | {:8.2} | {:9.2} | {:6.1}, {}",
            FORMS.get(usize::from(number)).unwrap_or(&"?"),
            form.lists,
            form.rows,
            form.bytes,
            form.bitmap_bytes,
            each(form.nanos),
            each(form.bitmap_nanos),
            form.worst.0 as f64 / 1e3,
            form.worst.1,
        );
    }
    Ok(())
}

fn open(file: &Bytes) -> Result<Split, Failure> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone())?;
    let pairs = reader.metadata().file_metadata().key_value_metadata().ok_or("no metadata")?;
    let place =
        pairs.iter().find(|pair| pair.key == "frostline.split.footer").and_then(|p| p.value.as_deref());
    let (start, end) = place.and_then(|place| place.split_once("..")).ok_or("not a split")?;
    Ok(Split::open(&file[start.parse()?..end.parse()?])?)
}

/// Says of each column that has lists how long it takes to read that of most rows, and all of them.
fn columns(file: &Bytes, split: &Split) -> Result<(), Failure> {
    let mut left: BTreeMap<u16, Vec<ColumnList>> = BTreeMap::new();
    for block in split.text().table().blocks(&KeyRange::all())? {
        let bytes = &file[block.range.start as usize..block.range.end as usize];
        split.text().scan(&block, bytes, &KeyRanges::all(), |entry| {
            if let Postings::Column(list) = entry.postings {
                left.entry(list.field()).or_default().push(list);
            }
        })?;
    }
    println!("column               |   bytes | lists | most rows | ms, one list | all lists");
    for (number, mut lists) in left {
        lists.sort_by_key(|list| std::cmp::Reverse(list.rows()));
        let read = split.column_lists(number, lists.clone())?;
        let bytes: u64 = read.ranges().iter().map(|range| range.end - range.start).sum();
        let ms = |lists: &[ColumnList]| -> Result<f64, Failure> {
            let read = split.column_lists(number, lists.to_vec())?;
            let held = |range: &std::ops::Range<u64>| file.slice(range.start as usize..range.end as usize);
            let held: Vec<Bytes> = read.ranges().iter().map(held).collect();
            Ok(shortest(|| read.clone().decode(held.clone()).map(drop))? as f64 / 1e6)
        };
        let path = split.fields().find(|field| field.number == number).map_or("?", |field| &field.path);
        let (one, all) = (ms(&lists[..1])?, ms(&lists)?);
        println!(
            "{path:20} | {bytes:7} | {:5} | {:9} | {one:12.1} | {all:9.1}",
            lists.len(),
            lists[0].rows()
        );
    }
    Ok(())
}

fn stored(dictionary: &Dictionary, file: &Bytes, lists: &mut BTreeSet<(u64, u64)>) -> Result<(), Failure> {
    for block in dictionary.table().blocks(&KeyRange::all())? {
        let bytes = &file[block.range.start as usize..block.range.end as usize];
        dictionary.scan(&block, bytes, &KeyRanges::all(), |entry| keep(&entry.postings, lists))?;
    }
    Ok(())
}

fn keep(postings: &Postings, lists: &mut BTreeSet<(u64, u64)>) {
    if let Postings::Stored { range, .. } = postings {
        lists.insert((range.start, range.end));
    }
}

fn measure(list: &[u8], split_rows: u32, forms: &mut BTreeMap<u8, Form>) -> Result<(), Failure> {
    let mut rows = decode_postings(list, split_rows)?;
    rows.optimize();
    let mut bitmap = Vec::new();
    rows.serialize_into(&mut bitmap)?;
    let form = forms.entry(list[4]).or_default();
    form.lists += 1;
    form.rows += rows.len();
    form.bytes += list.len() as u64;
    form.bitmap_bytes += bitmap.len() as u64 + 5;
    let nanos = shortest(|| decode_postings(black_box(list), split_rows).map(drop))?;
    let bitmap_nanos = shortest(|| RoaringBitmap::deserialize_from(black_box(&bitmap[..])).map(drop))?;
    form.nanos += nanos;
    form.bitmap_nanos += bitmap_nanos;
    form.worst = form.worst.max((nanos.saturating_sub(bitmap_nanos), rows.len()));
    Ok(())
}

/// In nanoseconds, when nothing disturbed it.
fn shortest<E>(mut act: impl FnMut() -> Result<(), E>) -> Result<u128, E> {
    let mut shortest = u128::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        act()?;
        shortest = shortest.min(started.elapsed().as_nanos());
    }
    Ok(shortest)
}
