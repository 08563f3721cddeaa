use object_store::ObjectStoreExt;
use object_store::memory::InMemory;

use super::*;

fn cloud(profile: Profile, seed: u64) -> Arc<Simulation> {
    Simulation::new(SimulationOptions { profile, seed, realtime: true })
}

/// A store of `objects` objects "p{i}/k" of `bytes` each.
async fn store(cloud: &Arc<Simulation>, objects: usize, bytes: usize) -> Arc<Simulated> {
    let below = InMemory::new();
    for i in 0..objects {
        below.put(&key(i), vec![0; bytes].into()).await.unwrap();
    }
    Arc::new(Simulated::new(Arc::new(below), Arc::clone(cloud)))
}

fn key(i: usize) -> Path {
    Path::from(format!("p{i}/k"))
}

async fn read(store: &Simulated, i: usize, start: u64, bytes: u64) -> Duration {
    let started = Instant::now();
    store.get_range(&key(i), start..start + bytes).await.unwrap();
    started.elapsed()
}

fn percentile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
}

#[tokio::test(start_paused = true)]
async fn first_bytes_are_as_the_profile_says() {
    for profile in [Profile::optimistic(), Profile::measured(), Profile::pessimistic()] {
        let (p50, p99) = profile.get_ms;
        let mut times = Vec::new();
        for seed in 1..=4 {
            let store = store(&cloud(profile.clone(), seed), 1, 10_000).await;
            for i in 0..2_000 {
                times.push(read(&store, 0, i, 1).await);
            }
        }
        let stragglers = times.iter().filter(|t| t.as_millis() >= 1_000).count();
        let (got50, got99) = (percentile(&mut times, 0.50), percentile(&mut times, 0.99));
        println!(
            "{:<12} p50 {got50:6.1} (asked {p50}) p99 {got99:6.1} (asked {p99}) stragglers {stragglers}/8000",
            profile.name
        );
        assert!((got50 / p50 - 1.0).abs() < 0.05, "{}: {got50}", profile.name);
        assert!((got99 / p99 - 1.0).abs() < 0.15, "{}: {got99}", profile.name);
        assert!((2..=20).contains(&stragglers), "{}: {stragglers}", profile.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_seed_repeats_and_order_does_not_matter() {
    let mut runs = Vec::new();
    for (seed, backwards) in [(5, false), (5, true), (6, false)] {
        let store = store(&cloud(Profile::measured(), seed), 40, 10).await;
        let mut order: Vec<usize> = (0..40).collect();
        if backwards {
            order.reverse();
        }
        let reads = order.into_iter().map(|i| {
            let store = &store;
            async move { (i, read(store, i, 0, 5).await) }
        });
        let mut times = futures::future::join_all(reads).await;
        times.sort_unstable();
        runs.push(times);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_and_the_network_limit_bandwidth() {
    let quick =
        Profile { get_ms: (1.0, 1.001), straggler_share: 0.0, connect_ms: 0.0, ..Profile::measured() };
    let bytes = 90_000_000;
    let one = store(&cloud(quick.clone(), 1), 20, bytes).await;
    let took = read(&one, 0, 0, bytes as u64).await.as_secs_f64();
    assert!((took - 1.0).abs() < 0.01, "90 MB at 90 MB/s took {took} s");
    // 20 connections want 1.8 GB/s; 10 Gbit/s carry 1.25.
    let started = Instant::now();
    futures::future::join_all((0..20).map(|i| read(&one, i, 0, bytes as u64))).await;
    let took = started.elapsed().as_secs_f64();
    assert!((took - 1.44).abs() < 0.03, "1.8 GB at 1.25 GB/s took {took} s");
}

#[tokio::test(start_paused = true)]
async fn connections_are_opened_once_and_used_again() {
    let fixed =
        Profile { get_ms: (10.0, 10.001), straggler_share: 0.0, connect_ms: 500.0, ..Profile::measured() };
    let store = store(&cloud(fixed, 1), 1, 10).await;
    assert!(read(&store, 0, 0, 1).await.as_millis() >= 510);
    assert!(read(&store, 0, 0, 1).await.as_millis() < 20);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(read(&store, 0, 0, 1).await.as_millis() >= 510, "the store closed it meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_hot_prefix_is_refused_and_cools_down() {
    let store = store(&cloud(Profile::measured(), 1), 2, 10).await;
    let refused = |i: usize| {
        let store = Arc::clone(&store);
        async move {
            let key = key(i);
            let reads = (0..2_000).map(|_| store.get_range(&key, 0..1));
            futures::future::join_all(reads)
                .await
                .into_iter()
                .filter(|answer| answer.as_ref().is_err())
                .count()
        }
    };
    let hot = refused(0).await;
    assert_eq!(hot, 2_000 - 550, "a burst of a tenth of a second is served");
    assert_eq!(refused(1).await, 2_000 - 550, "another prefix has its own patience");
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.get_range(&key(0), 0..1).await.unwrap();
}

#[tokio::test]
async fn without_real_time_only_the_account_grows() {
    let cloud = Simulation::new(SimulationOptions { realtime: false, ..SimulationOptions::default() });
    let store = store(&cloud, 1, 90_000).await;
    let started = std::time::Instant::now();
    for _ in 0..1_000 {
        store.get(&key(0)).await.unwrap().bytes().await.unwrap();
    }
    let busy = cloud.busy().as_secs_f64();
    assert!((60.0..75.0).contains(&busy), "1,000 reads of 63 ms and 1 ms: {busy} s");
    assert!(started.elapsed().as_secs_f64() < 20.0);
}

/// The shape of somebody's query: rounds that wait for each other, of reads that do not.
struct Shape {
    objects: usize,
    /// Reads of each object in each round, and the bytes of one.
    rounds: &'static [(usize, u64)],
    nic_gbit_s: f64,
}

/// Virtual seconds and GETs of a shape through the simulated store alone: no merging, no hedging.
async fn run(shape: &Shape, profile: Profile) -> (f64, u64) {
    let cloud = cloud(Profile { nic_gbit_s: shape.nic_gbit_s, ..profile }, 11);
    let most = shape.rounds.iter().map(|(_, bytes)| *bytes).max().unwrap();
    let store = store(&cloud, shape.objects, most as usize).await;
    let started = Instant::now();
    // Each object goes through its rounds at its own pace, as a search of many splits does.
    let walks = (0..shape.objects).map(|i| {
        let store = Arc::clone(&store);
        async move {
            for (reads, bytes) in shape.rounds {
                futures::future::join_all((0..*reads).map(|_| read(&store, i, 0, *bytes))).await;
            }
        }
    });
    futures::future::join_all(walks).await;
    let gets = shape.rounds.iter().map(|(reads, _)| reads * shape.objects).sum::<usize>() as u64;
    (started.elapsed().as_secs_f64(), gets)
}

#[tokio::test(start_paused = true)]
async fn published_runs_come_out_near() {
    // What each shape is and which of its numbers are published: docs/studies/simulation.md.
    const MIB: u64 = 1 << 20;
    // (name, shape, seconds published, CPU seconds published, lowest and highest total that we accept)
    let quickwit_cpus = 16.0;
    let cases = [
        (
            "Quickwit, term, 207 GETs",
            Shape {
                objects: 25,
                rounds: &[(1, 4 * MIB), (4, 128 << 10), (2, 256 << 10), (1, 64 << 10)],
                nic_gbit_s: 10.0,
            },
            0.6,
            2.89,
            (0.4, 0.9),
        ),
        (
            "Quickwit, histogram, 88 GETs",
            Shape { objects: 22, rounds: &[(1, 4 * MIB), (3, 13 * MIB)], nic_gbit_s: 10.0 },
            2.1,
            22.3,
            (1.4, 3.0),
        ),
        (
            "turbopuffer, cold, p50",
            Shape { objects: 1, rounds: &[(8, 256 << 10); 4], nic_gbit_s: 10.0 },
            0.316,
            0.0,
            (0.25, 0.40),
        ),
        (
            "Elasticsearch, 16 MiB ranges",
            Shape { objects: 80, rounds: &[(1, 16 * MIB); 5], nic_gbit_s: 10.0 },
            6.257,
            0.0,
            (3.0, 12.0),
        ),
    ];
    for (name, shape, published_s, cpu_s, (least, most)) in cases {
        for profile in [Profile::optimistic(), Profile::measured(), Profile::pessimistic()] {
            let (storage_s, gets) = run(&shape, profile.clone()).await;
            let total_s = storage_s + cpu_s / quickwit_cpus;
            println!(
                "{name:<30} {:<12} GETs {gets:4} storage {storage_s:6.3} s + CPU {:5.2} s = {total_s:6.3} s, published {published_s} s",
                profile.name,
                cpu_s / quickwit_cpus
            );
            if profile.name == "measured" {
                assert!((least..most).contains(&total_s), "{name}: {total_s} s");
            }
        }
    }
}
