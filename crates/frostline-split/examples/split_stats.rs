//! Reads NDJSON from standard input, writes splits to a directory and says how fast, and what each
//! part of them takes: `split_stats DIR [ZSTD_LEVEL [SOURCE_PAGE_KIB [stored|rendered|smaller [SOURCE_MIB]]]]`. The level
//! is that of columns and `_source`; the word says how documents are kept; a split has so many MiB of them.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use frostline_base::SplitId;
use frostline_split::{DocumentForm, Mapping, PartBytes, SplitWriter, WriterOptions};

type Failure = Box<dyn std::error::Error>;

#[derive(Default)]
struct Totals {
    documents: u64,
    refused: u64,
    source_bytes: u64,
    bytes: u64,
    splits: usize,
    parts: PartBytes,
    adding: Duration,
    sealing: Duration,
    memory_bytes: u64,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("name a directory for the splits")?);
    std::fs::create_dir_all(&directory)?;
    let mut options = WriterOptions::default();
    if let Some(level) = arguments.next() {
        options.source_zstd_level = level.parse()?;
        options.column_zstd_level = options.source_zstd_level;
    }
    if let Some(kib) = arguments.next() {
        options.source_page_bytes = kib.parse::<usize>()? << 10;
    }
    options.documents = match arguments.next().as_deref() {
        None | Some("stored") => DocumentForm::Stored,
        Some("rendered") => DocumentForm::Rendered,
        Some("smaller") => DocumentForm::Smaller,
        Some(other) => return Err(format!("{other} is no way to keep documents").into()),
    };
    if let Some(mib) = arguments.next() {
        options.source_bytes_max = mib.parse::<u64>()? << 20;
        options.memory_bytes_max = 4 * options.source_bytes_max;
    }
    let mut totals = Totals::default();
    let mut writer = SplitWriter::new(Mapping::dynamic(), options.clone());
    let mut input = BufReader::with_capacity(1 << 20, std::io::stdin().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let started = Instant::now();
        match writer.add(line.trim_ascii_end()) {
            Ok(()) => totals.documents += 1,
            Err(e) => {
                totals.refused += 1;
                eprintln!("refused: {e}");
            }
        }
        totals.adding += started.elapsed();
        line.clear();
        if writer.is_full() {
            let mapping = writer.mapping().clone();
            let full = std::mem::replace(&mut writer, SplitWriter::new(mapping, options.clone()));
            seal(full, &directory, &mut totals)?;
        }
    }
    if writer.rows() > 0 {
        seal(writer, &directory, &mut totals)?;
    }
    print(&totals);
    Ok(())
}

fn seal(writer: SplitWriter, directory: &std::path::Path, totals: &mut Totals) -> Result<(), Failure> {
    totals.memory_bytes = totals.memory_bytes.max(writer.memory_bytes());
    let path = directory.join(format!("{}.parquet", totals.splits));
    let started = Instant::now();
    let mut out = BufWriter::new(File::create(&path)?);
    let sealed = writer.seal(SplitId::from_random(totals.splits as u128), &mut out)?;
    out.flush()?;
    totals.sealing += started.elapsed();
    totals.splits += 1;
    totals.bytes += sealed.bytes;
    totals.source_bytes += sealed.source_bytes;
    totals.parts.add(&sealed.parts);
    println!(
        "{}: {} rows, {} bytes, hot footer {:?}",
        path.display(),
        sealed.rows,
        sealed.bytes,
        sealed.footer
    );
    Ok(())
}

fn print(totals: &Totals) {
    let megabytes = totals.source_bytes as f64 / 1e6;
    let (adding, sealing) = (totals.adding.as_secs_f64(), totals.sealing.as_secs_f64());
    println!("documents {} refused {} splits {}", totals.documents, totals.refused, totals.splits);
    println!("input {megabytes:.1} MB, written {:.1} MB", totals.bytes as f64 / 1e6);
    println!("adding {adding:.2} s, sealing {sealing:.2} s, {:.1} MB/s", megabytes / (adding + sealing));
    println!("memory before sealing at most {:.1} MB", totals.memory_bytes as f64 / 1e6);
    let part = |name: &str, bytes: u64| {
        println!(
            "{name:>16} {bytes:>12} bytes  {:6.3} % of input",
            100.0 * bytes as f64 / totals.source_bytes as f64
        );
    };
    part("source", totals.parts.source);
    part("columns", totals.parts.columns);
    part("text dictionary", totals.parts.text_dictionary);
    part("exact dictionary", totals.parts.exact_dictionary);
    part("pairs", totals.parts.pairs);
    part("postings", totals.parts.postings);
    part("hot footer", totals.parts.footer);
    part("digest", totals.parts.digest);
    part("origins", totals.parts.origins);
    part("parquet footer", totals.parts.parquet_footer);
    part("all", totals.bytes);
}
