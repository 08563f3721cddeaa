//! Reads NDJSON from standard input and says what its documents take as shapes and literals beside their columns, and
//! what it costs to make them again: `render_stats [ROWS_OF_A_GROUP]`.

use std::collections::HashMap;
use std::io::BufRead;
use std::time::{Duration, Instant};

use frostline_base::SplitId;
use frostline_split::{
    Document, DocumentRow, Limits, Mapping, Parts, Shape, Shaper, SplitWriter, WriterOptions, parse_document,
};

type Failure = Box<dyn std::error::Error>;

#[derive(Default)]
struct Totals {
    documents: u64,
    bytes: u64,
    unequal: u64,
    literals: HashMap<String, u64>,
    groups: u64,
    shapes: usize,
    packed_shapes: usize,
    packed_literals: usize,
    columns: u64,
    source: u64,
    parsing: Duration,
    taking_apart: Duration,
    reading: Duration,
    rendering: Duration,
}

fn main() -> Result<(), Failure> {
    let rows = std::env::args().nth(1).map_or(Ok(4_096), |rows| rows.parse())?;
    let lines: Vec<Vec<u8>> = std::io::stdin().lock().split(b'\n').collect::<Result<_, _>>()?;
    let (mut totals, mut shapes) = (Totals::default(), HashMap::new());
    let (mut document, mut shaper) = (Document::new(), Shaper::default());
    for group in lines.chunks(rows) {
        measure(group, &mut document, &mut shaper, &mut shapes, &mut totals)?;
        measure_columns(group, &mut totals)?;
    }
    totals.shapes = shapes.len();
    print(&totals);
    Ok(())
}

fn measure(
    group: &[Vec<u8>],
    document: &mut Document,
    shaper: &mut Shaper,
    shapes: &mut HashMap<Vec<u8>, Shape>,
    totals: &mut Totals,
) -> Result<(), Failure> {
    let mapping = Mapping::dynamic();
    let (mut parts, mut out) = (Parts::default(), Vec::new());
    let (mut numbers, mut dictionary, mut indices, mut literals) =
        (HashMap::new(), Vec::new(), Vec::new(), Vec::new());
    for line in group {
        let started = Instant::now();
        parse_document(line, &mapping, &Limits::default(), document)?;
        totals.parsing += started.elapsed();
        let started = Instant::now();
        shaper.take_apart(line, document, &mut parts);
        totals.taking_apart += started.elapsed();
        if !shapes.contains_key(&parts.shape) {
            let started = Instant::now();
            shapes.insert(parts.shape.clone(), Shape::read(&parts.shape)?);
            totals.reading += started.elapsed();
        }
        let shape = &shapes[&parts.shape];
        let mut row = DocumentRow::new(document, shape, &parts.literals);
        let started = Instant::now();
        out.clear();
        shape.render(&mut row, &mut out)?;
        totals.rendering += started.elapsed();
        totals.unequal += u64::from(out != *line);
        totals.documents += 1;
        totals.bytes += line.len() as u64;
        let next = numbers.len() as u16;
        let number = *numbers.entry(parts.shape.clone()).or_insert_with(|| {
            dictionary.extend_from_slice(&(parts.shape.len() as u32).to_le_bytes());
            dictionary.extend_from_slice(&parts.shape);
            next
        });
        indices.extend_from_slice(&number.to_le_bytes());
        for literal in &parts.literals {
            let kind = literal.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).take(60).collect();
            *totals.literals.entry(kind).or_default() += 1;
            literals.extend_from_slice(&(literal.len() as u32).to_le_bytes());
            literals.extend_from_slice(literal.as_bytes());
        }
    }
    let packed = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).map(|packed| packed.len());
    totals.packed_shapes += packed(&dictionary)? + packed(&indices)?;
    totals.packed_literals += packed(&literals)?;
    totals.groups += 1;
    Ok(())
}

/// What the columns take if each group of rows has its own pages and dictionaries.
fn measure_columns(group: &[Vec<u8>], totals: &mut Totals) -> Result<(), Failure> {
    let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
    for line in group {
        writer.add(line)?;
    }
    let sealed = writer.seal(SplitId::from_random(1), &mut std::io::sink())?;
    totals.columns += sealed.parts.columns;
    totals.source += sealed.parts.source;
    Ok(())
}

fn print(totals: &Totals) {
    let part = |name: &str, bytes: u64| {
        let percent = 100.0 * bytes as f64 / totals.bytes as f64;
        println!("{name:>24} {bytes:>12} bytes {percent:7.3} % of input");
    };
    println!("documents {} in {} groups, {} bytes", totals.documents, totals.groups, totals.bytes);
    println!("distinct shapes {}, documents that are made otherwise {}", totals.shapes, totals.unequal);
    part("shapes", totals.packed_shapes as u64);
    part("literals", totals.packed_literals as u64);
    part("columns by group", totals.columns);
    part("documents by group", totals.source);
    let each = |name: &str, took: Duration, count: u64| {
        println!("{name:>24} {:9.0} ns each", took.as_nanos() as f64 / count.max(1) as f64);
    };
    each("parsing", totals.parsing, totals.documents);
    each("taking apart", totals.taking_apart, totals.documents);
    each("rendering", totals.rendering, totals.documents);
    each("reading a shape", totals.reading, totals.shapes as u64);
    let mut literals: Vec<_> = totals.literals.iter().collect();
    literals.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    println!("literals {}", literals.iter().map(|(_, count)| **count).sum::<u64>());
    literals.iter().take(20).for_each(|(kind, count)| println!("{count:>10} {kind}"));
}
