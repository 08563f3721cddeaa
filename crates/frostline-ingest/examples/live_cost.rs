//! Measures what clients wait for: web logs are appended by 1, 10 and 100 clients, each of which sends its next request when
//! the one before is acknowledged.
//!
//! ```text
//! cargo run -p frostline-ingest --example live_cost -- URL SECONDS DOCUMENTS
//! ```
//!
//! URL is a new folder of the repository for each row, such as `sim+file:///tmp/live?profile=measured`; DOCUMENTS are those of a
//! request. Prints documents a second, the time to acknowledgement, PUTs a second, and what merging beside it leaves.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use frostline_base::{IndexName, SystemClock};
use frostline_catalog::Catalog;
use frostline_corpus::{Generator, GeneratorOptions};
use frostline_ingest::{Append, Live, LiveOptions, Random, Upkeep, UpkeepOptions};
use frostline_split::Mapping;
use frostline_store::{OpenOptions, Repository};

const REQUESTS: usize = 200;
/// Requests to an index that was idle.
const IDLE: usize = 9;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, seconds, documents] = arguments.as_slice() else { panic!("URL SECONDS DOCUMENTS") };
    let (seconds, documents) = (Duration::from_secs(seconds.parse().unwrap()), documents.parse().unwrap());
    let requests = requests(documents);
    println!(
        "| clients | ms when idle | documents a request | documents/s | MB/s | ms to acknowledgement: p50 | p99 | PUTs/s | commits/s | splits written | live |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for clients in [1, 10, 100] {
        measure(url, clients, documents, seconds, &requests).await;
    }
}

/// Web logs of today.
fn requests(documents: usize) -> Vec<Vec<Bytes>> {
    let mut logs = Generator::new(GeneratorOptions {
        documents: (REQUESTS * documents) as u64,
        ..GeneratorOptions::default()
    });
    let mut line = Vec::new();
    let mut request = || {
        let document = |_| {
            line.clear();
            assert!(logs.next_document(&mut line));
            Bytes::copy_from_slice(line.trim_ascii_end())
        };
        (0..documents).map(document).collect()
    };
    (0..REQUESTS).map(|_| request()).collect()
}

async fn measure(url: &str, clients: usize, documents: usize, seconds: Duration, requests: &[Vec<Bytes>]) {
    let repository = Repository::open(url, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
    let catalog = Catalog::new(&repository, Arc::new(SystemClock));
    let ids = Arc::new(AtomicU64::new(1));
    let salt = (clients * 1_000 + documents) as u128;
    let random: Random = Arc::new(move || {
        (u128::from(ids.fetch_add(1, Ordering::Relaxed)) << 32 | salt)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    });
    let live = Live::new(&repository, &catalog, Arc::clone(&random), LiveOptions::default());
    let name: IndexName = format!("logs-{clients}-{documents}").parse().unwrap();
    let append = |number: usize| Append {
        documents: requests[number % requests.len()].clone(),
        create: Some(Mapping::dynamic()),
        key: None,
    };
    live.append(&name, append(0)).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        tokio::time::sleep(LiveOptions::default().group_after).await;
        let sent = Instant::now();
        live.append(&name, append(0)).await.unwrap();
        idle.push(sent.elapsed().as_millis());
    }
    idle.sort_unstable();
    let upkeep = UpkeepOptions { every: Duration::from_secs(5), ..UpkeepOptions::default() };
    let upkeep = Upkeep::new(&repository, &catalog, Arc::new(SystemClock), random, upkeep);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let upkeep = tokio::spawn(async move { upkeep.run(async { drop(stopped.await) }).await });
    let (started, cost, version) =
        (Instant::now(), repository.meter().cost(), catalog.open(&name).await.unwrap().version());
    let clients_all: Vec<_> = (0..clients)
        .map(|client| {
            let (live, name) = (live.clone(), name.clone());
            let requests: Vec<Append> = (0..20).map(|number| append(client * 20 + number)).collect();
            tokio::spawn(async move {
                let mut waits = Vec::new();
                while started.elapsed() < seconds {
                    let request = requests[waits.len() % requests.len()].clone();
                    let sent = Instant::now();
                    live.append(&name, request).await.unwrap();
                    waits.push(sent.elapsed().as_micros() as u64);
                }
                waits
            })
        })
        .collect();
    let mut waits = Vec::new();
    for client in clients_all {
        waits.extend(client.await.unwrap());
    }
    let took_s = started.elapsed().as_secs_f64();
    live.close().await;
    drop(stop);
    upkeep.await.unwrap();
    let cost = repository.meter().cost().since(&cost);
    let index = catalog.open(&name).await.unwrap();
    let commits = index.history((index.version() - version) as usize).await.unwrap();
    let lives = commits.iter().filter(|event| event.operation == "live").count();
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    let request_bytes = requests.iter().flatten().map(Bytes::len).sum::<usize>() / requests.len();
    println!(
        "| {clients} | {} | {documents} | {:.0} | {:.2} | {:.0} | {:.0} | {:.2} | {:.2} | {lives} | {} |",
        idle[IDLE / 2],
        (waits.len() * documents) as f64 / took_s,
        (waits.len() * request_bytes) as f64 / took_s / 1e6,
        at(0.5),
        at(0.99),
        cost.puts as f64 / took_s,
        lives as f64 / took_s,
        index.splits().len(),
    );
}
