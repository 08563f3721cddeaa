//! Reads documents and columns of a split from memory, and looks up terms, and says how long that takes and how many
//! bytes: `split_reads FILE [COLUMN ...]`.

use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use frostline_split::{Dictionary, KeyRange, KeyRanges, SOURCE_COLUMN, Split, TIME_COLUMN, TextAs};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use roaring::RoaringBitmap;

type Failure = Box<dyn std::error::Error>;

const RUNS: usize = 40;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let file: Bytes = std::fs::read(arguments.next().ok_or("name a split")?)?.into();
    let split = Split::open(&file.slice(hot_footer(&file)?))?;
    let rows = split.rows();
    let every = |step: u32| (0..rows).step_by(step.max(1) as usize).collect::<RoaringBitmap>();
    println!("{rows} rows");
    measure("one document", &file, &split, &[SOURCE_COLUMN], Some(&RoaringBitmap::from_iter([rows / 3])))?;
    measure("10 documents", &file, &split, &[SOURCE_COLUMN], Some(&every(rows / 10)))?;
    measure("10,000 documents", &file, &split, &[SOURCE_COLUMN], Some(&every(rows / 10_000)))?;
    measure(TIME_COLUMN, &file, &split, &[TIME_COLUMN], None)?;
    let mut all: Vec<String> = split.column_names().map(str::to_owned).collect();
    all.retain(|name| name != SOURCE_COLUMN);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    for column in arguments {
        let one = Some(RoaringBitmap::from_iter([rows / 3]));
        measure(&column, &file, &split, &[&column], None)?;
        measure(&format!("{column}, one row"), &file, &split, &[&column], one.as_ref())?;
    }
    measure("all columns", &file, &split, &all, None)?;
    look_up("text dictionary", &file, split.text())?;
    look_up("exact dictionary", &file, split.exact())
}

fn hot_footer(file: &Bytes) -> Result<Range<usize>, Failure> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone())?;
    let pairs = reader.metadata().file_metadata().key_value_metadata().ok_or("the file is no split")?;
    let range = pairs.iter().find(|pair| pair.key == "frostline.split.footer");
    let range = range.and_then(|pair| pair.value.as_ref()).ok_or("the file is no split")?;
    let (start, end) = range.split_once("..").ok_or("the file is no split")?;
    Ok(start.parse()?..end.parse()?)
}

/// Prints what looking up the last key of a block reads on average, and how long it takes when nothing disturbs it.
fn look_up(what: &str, file: &Bytes, dictionary: &Dictionary) -> Result<(), Failure> {
    let blocks = dictionary.table().blocks(&KeyRange::all())?;
    let (mut bytes, mut seconds) = (0, 0.0);
    for block in &blocks {
        let held = file.slice(block.range.start as usize..block.range.end as usize);
        let mut last = Vec::new();
        dictionary.scan(block, &held, &KeyRanges::all(), |entry| last = entry.key.to_vec())?;
        let key = KeyRanges::from(&KeyRange::exact(last));
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let started = Instant::now();
            dictionary.scan(block, &held, &key, |_| {})?;
            times.push(started.elapsed());
        }
        bytes += held.len();
        seconds += times.into_iter().min().unwrap_or_default().as_secs_f64();
    }
    let count = blocks.len().max(1);
    let (ms, bytes) = (seconds * 1e3 / count as f64, bytes / count);
    println!("{what:>24} {ms:9.3} ms {bytes:>10} bytes {:>6} blocks", blocks.len());
    Ok(())
}

/// Prints the bytes that a read fetches and the time of decoding them when nothing disturbed it.
fn measure(
    what: &str,
    file: &Bytes,
    split: &Split,
    columns: &[&str],
    rows: Option<&RoaringBitmap>,
) -> Result<(), Failure> {
    let mut times: Vec<Duration> = Vec::new();
    let (mut bytes, mut ranges) = (0, 0);
    for _ in 0..RUNS {
        let started = Instant::now();
        let read = split.columns(columns, rows, TextAs::Dictionary)?;
        let held: Vec<Bytes> =
            read.ranges().iter().map(|range| file.slice(range.start as usize..range.end as usize)).collect();
        (bytes, ranges) = (held.iter().map(Bytes::len).sum(), held.len());
        read.decode(held)?;
        times.push(started.elapsed());
    }
    times.sort();
    println!("{what:>24} {:9.3} ms {bytes:>10} bytes {ranges:>6} ranges", times[0].as_secs_f64() * 1e3);
    Ok(())
}
