//! Hit ratio and bytes fetched of cache policies on seeded traces, as a table in Markdown.
//!
//! Every policy gets the same requests and the same number of bytes, and fills its regions page by page
//! as the cache does. A *hit* is a region of which everything wanted was cached.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foyer_memory::{Cache, EvictionConfig, LfuConfig, LruConfig, S3FifoConfig, SieveConfig};
use frostline_base::Share;
use frostline_cache::policy::{Policy, Shares};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Regions of 64 KiB in the data: 2.5 GiB in splits of 12.5 MiB.
const REGIONS: u64 = 40_000;
const SPLIT: u64 = 200;
const PAGES: u64 = 16;
const PAGE_BYTES: u64 = 4 << 10;
const SEED: u64 = 1;

/// What one call of a reader wants of a region: bits of pages.
#[derive(Clone, Copy)]
struct Want {
    region: u64,
    pages: u64,
    share: Share,
}

type Trace = Vec<Vec<Want>>;
type MakeFixed = fn(&mut SmallRng) -> Trace;
type MakeSized = fn(u64) -> Trace;

trait Kept {
    /// A call begins.
    fn begin(&mut self) {}
    /// Reads and fills a region; returns the wanted pages that were missing.
    fn read(&mut self, want: Want) -> u64;
}

/// Ours, with regions of `scale` times 64 KiB.
struct Ours {
    policy: Policy,
    places: HashMap<u64, u32>,
    slots: Vec<(u64, Box<[u64]>)>,
    scale: u64,
}

impl Ours {
    fn new(regions: u64, scale: u64) -> Self {
        let slots = (regions / scale).max(1);
        let empty = (u64::MAX, vec![0; scale as usize].into_boxed_slice());
        let policy = Policy::new(slots as u32, Shares::default());
        Ours { policy, places: HashMap::new(), slots: vec![empty; slots as usize], scale }
    }
}

impl Kept for Ours {
    fn begin(&mut self) {
        self.policy.begin();
    }

    fn read(&mut self, want: Want) -> u64 {
        let (region, part) = (want.region / self.scale, (want.region % self.scale) as usize);
        let slot = match self.places.get(&region) {
            Some(&slot) => {
                self.policy.touch(slot);
                slot
            }
            None => {
                let key = region.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let Some(admitted) = self.policy.admit(key, want.share) else { return want.pages };
                let held = &mut self.slots[admitted.slot as usize];
                if admitted.evicted.is_some() {
                    self.places.remove(&held.0);
                }
                held.0 = region;
                held.1.fill(0);
                self.places.insert(region, admitted.slot);
                admitted.slot
            }
        };
        let pages = &mut self.slots[slot as usize].1[part];
        let missing = want.pages & !*pages;
        *pages |= want.pages;
        missing
    }
}

struct Foyer(Cache<u64, Arc<AtomicU64>>);

impl Foyer {
    fn boxed(regions: u64, config: impl Into<EvictionConfig>) -> Box<dyn Kept> {
        Box::new(Foyer(Cache::builder(regions as usize).with_shards(1).with_eviction_config(config).build()))
    }
}

impl Kept for Foyer {
    fn read(&mut self, want: Want) -> u64 {
        let before = match self.0.get(&want.region) {
            Some(entry) => entry.value().fetch_or(want.pages, Ordering::Relaxed),
            None => {
                self.0.insert(want.region, Arc::new(AtomicU64::new(want.pages)));
                0
            }
        };
        want.pages & !before
    }
}

/// Least recently used, nothing else.
#[derive(Default)]
struct PlainLru {
    regions: HashMap<u64, (u64, u64)>,
    order: BTreeMap<u64, u64>,
    now: u64,
    len_max: u64,
}

impl Kept for PlainLru {
    fn read(&mut self, want: Want) -> u64 {
        self.now += 1;
        let (used, pages) = self.regions.remove(&want.region).unwrap_or((0, 0));
        self.order.remove(&used);
        if self.regions.len() as u64 >= self.len_max {
            let (_, oldest) = self.order.pop_first().unwrap();
            self.regions.remove(&oldest);
        }
        self.regions.insert(want.region, (self.now, pages | want.pages));
        self.order.insert(self.now, want.region);
        want.pages & !pages
    }
}

/// Draws ranks with probability 1 / rank^s by a table of sums.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(n: u64, s: f64) -> Self {
        let sums = (1..=n).scan(0.0, |sum, rank| {
            *sum += (rank as f64).powf(-s);
            Some(*sum)
        });
        Zipf(sums.collect())
    }

    fn draw(&self, random: &mut SmallRng) -> u64 {
        let at = random.random::<f64>() * self.0.last().unwrap();
        self.0.partition_point(|&sum| sum < at) as u64
    }
}

/// Spreads ranks over the data, differently for each `salt`. A permutation: the factor is odd and no multiple of 5.
fn scatter(rank: u64, salt: u64, n: u64) -> u64 {
    (rank * 7_919 + salt * 13_007) % n
}

fn run(pages: u64, first: u64) -> u64 {
    ((1 << pages) - 1) << first
}

fn point(random: &mut SmallRng, region: u64, share: Share) -> Want {
    // The same reader wants the same pages of a region again, mostly.
    let first = if random.random_bool(0.9) { region % 12 } else { random.random_range(0..12) };
    Want { region, pages: run(4, first), share }
}

fn zipf(random: &mut SmallRng) -> Trace {
    let ranks = Zipf::new(REGIONS, 0.9);
    (0..10 * REGIONS)
        .map(|_| {
            let region = scatter(ranks.draw(random), 0, REGIONS);
            vec![point(random, region, Share::Column)]
        })
        .collect()
}

fn sweep(regions: std::ops::Range<u64>) -> Trace {
    let whole = |region| Want { region, pages: run(PAGES, 0), share: Share::Column };
    let calls = regions.step_by(8).map(|first| (first..first + 8).map(whole).collect());
    calls.collect()
}

fn zipf_and_sweeps(random: &mut SmallRng) -> Trace {
    let mut trace = Trace::new();
    let points = zipf(random);
    for part in points.chunks(points.len() / 5) {
        trace.extend_from_slice(part);
        trace.extend(sweep(0..REGIONS));
    }
    trace
}

/// Needles in popular splits; now and then a dashboard over a fifth of every split, and twice a full sweep.
fn needles_and_dashboards(random: &mut SmallRng) -> Trace {
    let splits = REGIONS / SPLIT;
    let ranks = Zipf::new(splits * 20, 0.9);
    let mut trace = Trace::new();
    for query in 0..40_000 {
        let rank = scatter(ranks.draw(random), 0, splits * 20);
        let (split, value) = (rank / 20 * SPLIT, rank % 20);
        trace.push(vec![Want { region: split + 199, pages: run(8, 4), share: Share::Footer }]);
        trace.push(vec![Want {
            region: split + 160 + value,
            pages: run(4, value % 12),
            share: Share::Index,
        }]);
        trace.push(vec![Want {
            region: split + 180 + value % 15,
            pages: 1 << (value % 16),
            share: Share::Index,
        }]);
        let rows = [0, 1].map(|row| split + 60 + (value * 2 + row) % 100);
        trace.push(rows.map(|region| Want { region, pages: run(PAGES, 0), share: Share::Source }).to_vec());
        if query % 4_000 == 2_000 {
            let panel = query / 4_000 % 3;
            for split in 0..splits {
                let first = split * SPLIT + panel * 10;
                let column = |region| Want { region, pages: run(PAGES, 0), share: Share::Column };
                trace.push((first..first + 40).map(column).collect());
            }
        }
        if query == 15_000 || query == 30_000 {
            trace.extend(sweep(0..REGIONS));
        }
    }
    trace
}

fn shift(random: &mut SmallRng) -> Trace {
    let ranks = Zipf::new(REGIONS, 0.9);
    (0..10 * REGIONS)
        .map(|at| {
            let region = scatter(ranks.draw(random), at / (2 * REGIONS), REGIONS);
            vec![point(random, region, Share::Column)]
        })
        .collect()
}

fn looping(len: u64) -> Trace {
    let mut trace = Trace::new();
    for _ in 0..20 {
        trace.extend(sweep(0..len.next_multiple_of(8)));
    }
    trace
}

/// A working set of nine tenths of the cache, read three times, after a sweep has filled the cache.
fn working_set(len: u64) -> Trace {
    let mut trace = sweep(0..REGIONS / 2);
    for _ in 0..3 {
        trace.extend(sweep(REGIONS / 2..REGIONS / 2 + (len * 9 / 10) / 8 * 8));
    }
    trace
}

struct Outcome {
    hit_percent: f64,
    fetched_per_used: f64,
}

fn play(kept: &mut dyn Kept, trace: &Trace) -> Outcome {
    let (mut hits, mut reads, mut fetched, mut used) = (0u64, 0u64, 0u64, 0u64);
    for call in trace {
        kept.begin();
        for want in call {
            let missing = kept.read(*want);
            hits += u64::from(missing == 0);
            reads += 1;
            fetched += u64::from(missing.count_ones()) * PAGE_BYTES;
            used += u64::from(want.pages.count_ones()) * PAGE_BYTES;
        }
    }
    Outcome {
        hit_percent: 100.0 * hits as f64 / reads as f64,
        fetched_per_used: fetched as f64 / used as f64,
    }
}

fn policies(regions: u64) -> Vec<(&'static str, Box<dyn Kept>)> {
    let lru = LruConfig { high_priority_pool_ratio: 0.0 };
    vec![
        ("Frostline", Box::new(Ours::new(regions, 1))),
        ("plain LRU", Box::new(PlainLru { len_max: regions, ..PlainLru::default() })),
        ("foyer LRU", Foyer::boxed(regions, lru)),
        ("foyer LFU", Foyer::boxed(regions, LfuConfig::default())),
        ("foyer S3-FIFO", Foyer::boxed(regions, S3FifoConfig::default())),
        ("foyer SIEVE", Foyer::boxed(regions, SieveConfig)),
    ]
}

fn row(name: &str, size: &str, outcomes: &[Outcome]) {
    let best = outcomes.iter().map(|o| o.fetched_per_used).fold(f64::MAX, f64::min);
    print!("| {name} | {size} |");
    for Outcome { hit_percent, fetched_per_used } in outcomes {
        let mark = if *fetched_per_used < best + 0.0005 { "**" } else { "" };
        print!(" {hit_percent:.1} % / {mark}{fetched_per_used:.3}{mark} |");
    }
    println!();
}

fn main() {
    let names: Vec<_> = policies(8).iter().map(|(name, _)| *name).collect();
    println!(
        "Hit ratio / bytes fetched per byte used (fewest in bold), seed {SEED}, {REGIONS} regions of 64 KiB.\n"
    );
    println!("| trace | cache | {} |", names.join(" | "));
    println!("|---|---|{}", "---|".repeat(names.len()));
    let fixed: [(&str, MakeFixed); 4] = [
        ("zipf 0.9", zipf),
        ("zipf 0.9 and full sweeps", zipf_and_sweeps),
        ("needles, dashboards, sweeps", needles_and_dashboards),
        ("zipf 0.9, popularity shifts", shift),
    ];
    let sized: [(&str, MakeSized); 2] = [
        ("loop of 1.1 caches", |len| looping(len * 11 / 10)),
        ("new working set of 0.9 caches", working_set),
    ];
    let sizes = [("0.5 %", REGIONS / 200), ("5 %", REGIONS / 20), ("20 %", REGIONS / 5)];
    for (name, make) in fixed {
        let trace = make(&mut SmallRng::seed_from_u64(SEED));
        for (size, regions) in sizes {
            let outcomes: Vec<_> =
                policies(regions).iter_mut().map(|(_, kept)| play(kept.as_mut(), &trace)).collect();
            row(name, size, &outcomes);
        }
    }
    for (name, make) in sized {
        for (size, regions) in sizes {
            let trace = make(regions);
            let outcomes: Vec<_> =
                policies(regions).iter_mut().map(|(_, kept)| play(kept.as_mut(), &trace)).collect();
            row(name, size, &outcomes);
        }
    }
    println!("\nThe size of a region, same policy, needles, dashboards and sweeps.\n");
    println!("| trace | cache | 64 KiB | 256 KiB | 1 MiB | 16 MiB |\n|---|---|---|---|---|---|");
    let trace = needles_and_dashboards(&mut SmallRng::seed_from_u64(SEED));
    for (size, regions) in sizes {
        let outcomes = [1, 4, 16, 256].map(|scale| play(&mut Ours::new(regions, scale), &trace));
        row("needles, dashboards, sweeps", size, &outcomes);
    }
}
