//! Measures what needle segments cost an ingest: processor time and bytes, with and without them by turns.
//!
//! ```text
//! cargo run --profile demo -p frostline-ingest --example needle_cost -- ROUNDS SPLIT_BYTES FILE...
//! ```
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use frostline_base::SystemClock;
use frostline_catalog::Catalog;
use frostline_ingest::{Ingest, IngestOptions, IngestReport, Inputs, Random};
use frostline_store::{OpenOptions, Repository};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().unwrap().parse().unwrap();
    let split_bytes: u64 = arguments.next().unwrap().parse().unwrap();
    let files: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    let mut seconds = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        // Whoever is second finds the processor's caches warm.
        for needle in [round % 2 == 0, round % 2 == 1] {
            let before = processor_seconds();
            let report = ingest(&files, split_bytes, needle).await;
            let took = processor_seconds() - before;
            seconds[usize::from(needle)].push(took);
            println!(
                "needle {needle}: {took:.2} s, {:.1} MB/s, {} splits, {} bytes out, {} of needle segments = {:.3} % of {}",
                report.bytes_in as f64 / 1e6 / took,
                report.splits,
                report.bytes_out,
                report.needle_bytes,
                report.needle_bytes as f64 * 100.0 / report.bytes_in as f64,
                report.bytes_in
            );
        }
    }
    let [without, with] = seconds.map(median);
    println!("medians: {without:.2} s without, {with:.2} s with: {:+.1} %", (with / without - 1.0) * 100.0);
}

async fn ingest(files: &[PathBuf], split_bytes: u64, needle: bool) -> IngestReport {
    let repository = Repository::open("memory:", &OpenOptions::default()).unwrap();
    let clock = Arc::new(SystemClock);
    let catalog = Catalog::new(&repository, clock.clone());
    let ids = AtomicU64::new(1);
    let random: Random = Arc::new(move || {
        u128::from(ids.fetch_add(1, Ordering::Relaxed))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    });
    let options = IngestOptions { needle, split_bytes, threads: 1, ..IngestOptions::default() };
    let inputs = Inputs::from_arguments(files).unwrap();
    Ingest::new(&repository, &catalog, clock, random)
        .run(inputs, &"logs".parse().unwrap(), options)
        .await
        .unwrap()
}

/// User and system time of this process.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    // The kernel's unit for programs is a hundredth of a second.
    (ticks(11) + ticks(12)) / 100.0
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
