//! Opening, refreshing and committing to an index of many splits: seconds, requests, bytes, memory.
//!
//! `cargo bench -p frostline-catalog --bench open -- [SPLITS]` makes a table of 200,000 splits in a directory,
//! then writes checkpoints of it and opens it, in a process each. Requests and bytes are exact; seconds are this machine's.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use frostline_base::{Cost, ObjectRef, SplitId, SystemClock};
use frostline_catalog::{Catalog, Change, Index, Settings, SplitEntry};
use frostline_split::{Mapping, ValueType};
use frostline_store::{OpenOptions, Repository};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const SPLITS: u64 = 200_000;
const COMMITS: u64 = 20;
const COMMITS_AFTER: u64 = 20;

#[tokio::main]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--checkpoint", directory] => checkpoint(directory).await,
        ["--open", directory] => open(directory).await,
        [] => all(SPLITS).await,
        [splits] => all(splits.parse()?).await,
        _ => Err("usage: open [SPLITS]".into()),
    }
}

async fn all(splits: u64) -> Outcome {
    let directory = tempfile::tempdir()?;
    println!("{splits} splits, {} build", if cfg!(debug_assertions) { "unoptimised" } else { "optimised" });
    println!(
        "{:<44} {:>8} {:>6} {:>6} {:>6} {:>12} {:>12}",
        "", "seconds", "GETs", "LISTs", "PUTs", "read", "written"
    );
    make(directory.path(), splits).await?;
    for step in ["--checkpoint", "--open"] {
        let child =
            std::process::Command::new(std::env::current_exe()?).arg(step).arg(directory.path()).status()?;
        if !child.success() {
            return Err(format!("the process of {step} failed").into());
        }
    }
    Ok(())
}

fn repository(directory: &Path) -> Outcome<Repository> {
    Ok(Repository::open(&directory.to_string_lossy(), &OpenOptions::default())?)
}

async fn make(directory: &Path, splits: u64) -> Outcome {
    let repository = repository(directory)?;
    let catalog = Catalog::new(&repository, Arc::new(SystemClock));
    let settings = Settings { checkpoint_commits: 1_000, ..Settings::default() };
    let mut mapping = Mapping::dynamic();
    for field in 0..200 {
        mapping.place(&format!("field{field}.name"), ValueType::Text, false);
    }
    let mut index = catalog.create(&"bench".parse()?, mapping, settings).await?;
    let each = splits / COMMITS;
    let before = (Instant::now(), repository.meter().cost());
    for commit in 0..COMMITS {
        let add = (0..each).map(|n| entry(&index, commit * each + n)).collect();
        index = index.commit(Change { add, operation: "ingest".to_owned(), ..Change::default() }).await?;
    }
    report("commit all splits", before, &repository);
    let before = (Instant::now(), repository.meter().cost());
    catalog.open(index.name()).await?;
    report("open without a checkpoint", before, &repository);
    Ok(())
}

/// Two checkpoints: one of many commits, and one of the first and the few commits after it.
async fn checkpoint(directory: &str) -> Outcome {
    let repository = repository(Path::new(directory))?;
    let catalog = Catalog::new(&repository, Arc::new(SystemClock));
    let mut index = catalog.open(&"bench".parse()?).await?;
    let splits = index.splits().len() as u64;
    print_memory("opening");
    let before = (Instant::now(), repository.meter().cost());
    index = index.checkpoint().await?;
    report("write a checkpoint", before, &repository);
    print_memory("a checkpoint");
    for (what, from) in [("commit one split", 0), ("commit one split after a checkpoint", COMMITS_AFTER)] {
        let before = (Instant::now(), repository.meter().cost());
        for commit in from..from + COMMITS_AFTER {
            let add = vec![entry(&index, splits + commit)];
            index = index.commit(Change { add, operation: "ingest".to_owned(), ..Change::default() }).await?;
        }
        report(&format!("{what}, {COMMITS_AFTER} times"), before, &repository);
        if from == 0 {
            let before = (Instant::now(), repository.meter().cost());
            index = index.checkpoint().await?;
            report("write the next checkpoint", before, &repository);
            print_memory("the next checkpoint");
        }
    }
    Ok(())
}

async fn open(directory: &str) -> Outcome {
    let repository = repository(Path::new(directory))?;
    let catalog = Catalog::new(&repository, Arc::new(SystemClock));
    print_memory("nothing");
    let before = (Instant::now(), repository.meter().cost());
    let index = catalog.open(&"bench".parse()?).await?;
    report("open with a checkpoint and 20 commits", before, &repository);
    print_memory("opening");
    let before = (Instant::now(), repository.meter().cost());
    let index = index.refresh().await?;
    report("refresh, nothing new", before, &repository);
    println!("{} splits live at version {}", index.splits().len(), index.version());
    Ok(())
}

fn entry(index: &Index, number: u64) -> SplitEntry {
    let id = SplitId::from_random(u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
    let start_us = 1_700_000_000_000_000 + number as i64 * 37_123_457;
    SplitEntry {
        id,
        object: ObjectRef { key: index.split_key(id), bytes: 80_000_000 + number * 1_013 },
        footer: 79_000_000..80_000_000 + number,
        rows: 1_000_000 - number % 977,
        times: Some((start_us, start_us + 3_600_000_000 + number as i64 * 13)),
        rows_without_time: number % 2,
        unpacked_bytes: Some(500_000_000 + number * 7_919),
        is_merged: false,
    }
}

fn report(what: &str, (since, cost): (Instant, Cost), repository: &Repository) {
    let spent = repository.meter().cost().since(&cost);
    println!(
        "{what:<44} {:>8.2} {:>6} {:>6} {:>6} {:>12} {:>12}",
        since.elapsed().as_secs_f64(),
        spent.gets,
        spent.lists,
        spent.puts,
        spent.bytes_read,
        spent.bytes_written
    );
}

fn print_memory(after: &str) {
    let (now, peak) = (memory_kb("VmRSS") / 1024, memory_kb("VmHWM") / 1024);
    println!("memory after {after}: {now} MB, {peak} MB at its peak");
}

fn memory_kb(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
