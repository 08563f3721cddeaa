//! Measures the needle index on the terms of real documents: bits, false splits, time and memory.
//!
//! ```text
//! measure PIECES FOLDER < documents.ndjson     the documents in so many splits of equal numbers of documents
//! measure PIECES FOLDER ids DOCUMENTS          the same for generated documents of one random id each
//! measure PIECES FOLDER web DOCUMENTS          the same for generated web logs
//! measure seal ROUNDS FILE                     what a run adds to parsing and sealing these documents as one split
//! ```
//!
//! Times are those of the processor. Runs are written to FOLDER, then merged by a process of its own, all at once
//! and in two steps (32 at a time).
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use frostline_base::{ByteRange, SplitId};
use frostline_corpus::{Generator, GeneratorOptions};
use frostline_needle::{
    Input, Kinds, Lookup, MergeOptions, RunWriter, Scope, Segment, TermKey, directory_range, merge,
};
use frostline_split::{
    Document, Limits, Mapping, SplitWriter, TakeTerms as _, Term, Tokenizer, ValueType, WriterOptions,
    each_term, parse_document,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["merge", grows_to, output, ref inputs @ ..] => {
            print_merge(Path::new(output), inputs, grows_to.parse().unwrap());
        }
        ["seal", rounds, file] => print_sealing(rounds.parse().unwrap(), Path::new(file)),
        [pieces, folder, ref source @ ..] => measure(pieces.parse().unwrap(), Path::new(folder), source),
        _ => panic!("see the head of examples/measure.rs"),
    }
}

fn scope() -> Scope {
    Scope::of_splits("measured")
}

fn key() -> TermKey {
    TermKey::from_random(*b"sixteen bytes ok")
}

fn measure(pieces: usize, folder: &Path, source: &[&str]) {
    std::fs::create_dir_all(folder).unwrap();
    let documents = documents(source);
    let lines: Vec<&[u8]> = documents.split_inclusive(|byte| *byte == b'\n').collect();
    let (mut tokenizer, mut document, mut sample) = (Tokenizer::new(), Document::new(), Vec::new());
    let (mut terms, mut built, mut triples, mut raw) = (0u64, Duration::ZERO, 0u64, 0u64);
    let mut runs = Vec::new();
    for piece in 0..pieces {
        let own = &lines[piece * lines.len() / pieces..(piece + 1) * lines.len() / pieces];
        raw += own.iter().map(|line| line.len() as u64).sum::<u64>();
        let found = terms_of(own, &mut tokenizer, &mut document);
        sample.extend(found.iter().step_by(101).map(|term| (piece, term.clone())));
        triples += found.len() as u64;
        let path = folder.join(format!("{piece:04}.run"));
        let file = BufWriter::new(File::create(&path).unwrap());
        let begun = processor_time();
        let mut writer = RunWriter::new(scope(), key(), SplitId::from_random(piece as u128));
        let mut last = String::new();
        for (path, term) in &found {
            if last != *path {
                writer.reading(path, ValueType::Text);
                last.clone_from(path);
            }
            writer.term(Some(term.clone()));
        }
        let written = writer.seal(file).unwrap();
        built += processor_time() - begun;
        terms += written.pairs;
        runs.push(path);
    }
    let run_bytes: u64 = runs.iter().map(|path| path.metadata().unwrap().len()).sum();
    println!("documents {}, bytes {raw}, splits {pieces}", lines.len());
    println!("pairs of term and split {terms}, of term, field and split {triples}");
    println!(
        "runs: {run_bytes} bytes, {:.2} bits a pair; {:.0} ns a pair to build, {:.1} MB/s of documents",
        run_bytes as f64 * 8.0 / terms as f64,
        built.as_nanos() as f64 / triples as f64,
        raw as f64 / 1e6 / built.as_secs_f64()
    );
    let all = folder.join("all.segment");
    merge_apart(&all, &runs, pieces);
    let steps: Vec<PathBuf> = runs
        .chunks(32)
        .enumerate()
        .map(|(number, runs)| {
            let path = folder.join(format!("{number:04}.step"));
            merge_to(&path, runs, MergeOptions::default().grows_to);
            path
        })
        .collect();
    let twice = folder.join("twice.segment");
    merge_apart(&twice, &steps, pieces);
    println!(
        "merged in two steps: the same bytes: {}",
        std::fs::read(&all).unwrap() == std::fs::read(&twice).unwrap()
    );
    ask(&all, terms, raw, &sample);
}

/// By turns without a run, with one of the documents' terms by themselves, and with one that sealing hands its terms.
fn print_sealing(rounds: usize, file: &Path) {
    let documents = std::fs::read(file).unwrap();
    let mut seconds = [const { Vec::new() }; 3];
    for round in 0..rounds * 3 {
        // Whoever comes next finds the processor's caches warm.
        let way = (round + round / 3) % 3;
        let begun = process_seconds();
        let options = WriterOptions { source_bytes_max: u64::MAX, ..WriterOptions::default() };
        let mut writer = SplitWriter::new(Mapping::dynamic(), options);
        documents.split(|byte| *byte == b'\n').for_each(|line| drop(writer.add(line)));
        let id = SplitId::from_random(7);
        let (mut run, mut split) = (RunWriter::new(scope(), key(), id), Vec::new());
        match way {
            0 => drop(writer.seal(id, &mut split).unwrap()),
            1 => {
                writer.each_term(&mut run);
                writer.seal(id, &mut split).unwrap();
            }
            _ => drop(writer.seal_with_terms(id, &mut split, &mut run).unwrap()),
        }
        let pairs = if way > 0 { run.seal(&mut split).unwrap().pairs } else { 0 };
        seconds[way].push(process_seconds() - begun);
        println!("way {way}: {:.2} s, {pairs} terms", process_seconds() - begun);
    }
    let median = |mut of: Vec<f64>| {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let [without, of_documents, of_sealing] = seconds.map(median);
    let more = |with: f64| (with / without - 1.0) * 100.0;
    println!(
        "medians: {without:.2} s without, {of_documents:.2} s ({:+.1} %) from values, {of_sealing:.2} s ({:+.1} %) from sealing",
        more(of_documents),
        more(of_sealing)
    );
}

/// User and system time of this process.
fn process_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    // The kernel's unit for programs is a hundredth of a second.
    (ticks(11) + ticks(12)) / 100.0
}

/// Of this thread, the only one.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

fn documents(source: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match source {
        ["ids", count] => {
            let mut state = 7u64;
            for _ in 0..count.parse().unwrap() {
                writeln!(bytes, r#"{{"trace":"{:016x}{:016x}"}}"#, mix(&mut state), mix(&mut state)).unwrap();
            }
        }
        ["web", count] => {
            let options =
                GeneratorOptions { documents: count.parse().unwrap(), ..GeneratorOptions::default() };
            Generator::new(options).read_to_end(&mut bytes).unwrap();
        }
        _ => drop(BufReader::new(std::io::stdin()).read_to_end(&mut bytes).unwrap()),
    }
    bytes
}

fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The distinct terms of a split with their fields.
fn terms_of(
    lines: &[&[u8]],
    tokenizer: &mut Tokenizer,
    document: &mut Document,
) -> Vec<(String, Term<'static>)> {
    let (mapping, limits) = (Mapping::dynamic(), Limits::default());
    let (mut terms, mut seen) = (HashSet::new(), HashSet::new());
    for line in lines {
        if parse_document(line, &mapping, &limits, document).is_err() {
            continue;
        }
        for (path, value) in document.values() {
            if !seen.insert((path, format!("{value:?}"))) {
                continue;
            }
            each_term(tokenizer, &value, |term| {
                terms.insert((document.path(path).to_owned(), term.into_owned()));
            });
        }
    }
    let mut terms: Vec<_> = terms.into_iter().collect();
    terms.sort_unstable();
    terms
}

fn open(path: &Path) -> (Arc<Segment>, File) {
    let file = File::open(path).unwrap();
    let bytes = file.metadata().unwrap().len();
    let tail = read(&file, bytes - 16..bytes);
    let directory = read(&file, directory_range(&tail, bytes).unwrap());
    (Arc::new(Segment::open(&directory, &scope(), &key()).unwrap()), file)
}

fn read(file: &File, range: ByteRange) -> Bytes {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start).unwrap();
    bytes.into()
}

fn merge_to(output: &Path, inputs: &[impl AsRef<Path>], grows_to: usize) {
    let inputs = inputs.iter().map(|path| {
        let (segment, file) = open(path.as_ref());
        Input { segment, read: move |range| Ok(read(&file, range)) }
    });
    let inputs = inputs.collect();
    let options = MergeOptions { grows_to, ..MergeOptions::default() };
    merge(inputs, |_| true, options, BufWriter::new(File::create(output).unwrap())).unwrap();
}

/// Merges in another process, so that the peak of its memory is that of merging.
fn merge_apart(output: &Path, inputs: &[PathBuf], grows_to: usize) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    assert!(
        command.arg("merge").arg(grows_to.to_string()).arg(output).args(inputs).status().unwrap().success()
    );
}

fn print_merge(output: &Path, inputs: &[&str], grows_to: usize) {
    let bytes: u64 = inputs.iter().map(|path| Path::new(path).metadata().unwrap().len()).sum();
    let pairs: u64 = inputs.iter().map(|path| open(Path::new(path)).0.pairs()).sum();
    let begun = processor_time();
    merge_to(output, inputs, grows_to);
    let took = processor_time() - begun;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    println!(
        "merge of {}: {bytes} bytes in {:.2} s, {:.1} MB/s, {:.0} ns a pair, peak of the process {peak}",
        inputs.len(),
        took.as_secs_f64(),
        bytes as f64 / 1e6 / took.as_secs_f64(),
        took.as_nanos() as f64 / pairs as f64,
    );
}

fn ask(path: &Path, terms: u64, raw: u64, sample: &[(usize, (String, Term<'static>))]) {
    let (segment, file) = open(path);
    let bytes = file.metadata().unwrap().len();
    let directory = directory_range(&read(&file, bytes - 16..bytes), bytes).unwrap();
    println!(
        "segment: {bytes} bytes, {:.2} bits a pair, {:.3} % of the documents; {} entries, {} pages; \
         directory {} bytes, {} in memory",
        bytes as f64 * 8.0 / terms as f64,
        bytes as f64 * 100.0 / raw as f64,
        segment.entries(),
        segment.pages(),
        directory.end - directory.start,
        segment.memory_bytes(),
    );
    let whole: Bytes = std::fs::read(path).unwrap().into();
    let answer = |term: &Term<'_>, field: Option<&str>| {
        let lookup = Lookup { term: key().of_split(term), field, kinds: Kinds::TEXT };
        let range = segment.page(lookup.term);
        let page = range.map_or(Bytes::new(), |range| whole.slice(range.start as usize..range.end as usize));
        segment.answer(&lookup, &page).unwrap()
    };
    let (mut state, mut false_splits) = (99, 0u64);
    let begun = processor_time();
    const ABSENT: u64 = 200_000;
    for _ in 0..ABSENT {
        let term = format!("absent-{:016x}", mix(&mut state));
        false_splits += answer(&Term::Token(term.into()), None).len() as u64;
    }
    println!(
        "absent terms: {:.6} false splits each (bound {:.6}), {:.1} us each",
        false_splits as f64 / ABSENT as f64,
        segment.false_splits(),
        (processor_time() - begun).as_secs_f64() * 1e6 / ABSENT as f64
    );
    let (mut named, mut anywhere) = (0, 0);
    for (piece, (field, term)) in sample {
        let splits = answer(term, Some(field));
        assert!(splits.contains(*piece as u16), "{field} {term:?} in {piece}");
        named += splits.len();
        anywhere += answer(term, None).len();
    }
    println!(
        "present: {} pairs of a field and a term, all found; {:.2} splits each in the field, {:.2} in any",
        sample.len(),
        named as f64 / sample.len() as f64,
        anywhere as f64 / sample.len() as f64
    );
}
