use frostline_model::{Instance, best_count};

use super::*;

/// The published study of warm tiers: OpenZFS over 8 TiB of st1.
const BLOCK_KIB: [u64; 6] = [16, 32, 64, 128, 256, 512];
const RECORD_KIB: [u64; 3] = [32, 64, 128];
const COUNTS: [u32; 4] = [1, 2, 4, 8];
const TOTAL_GIB: f64 = 8192.0;
const GIB: u64 = 1024 * MIB;

/// Its fio line: 16 threads of depth 64 over 10 GiB each, 75 % random reads, random data.
fn job(block_kib: u64) -> Job {
    Job {
        read_percent: 75.0,
        block_bytes: block_kib * KIB,
        outstanding: 16 * 64,
        threads: 16,
        sequential: false,
        compression_ratio: 1.0,
        set_bytes: 160 * GIB,
    }
}

/// `total_gib` of `class` in `count` volumes under `file_system`.
fn stack(file_system: FileSystem, class: &str, total_gib: f64, count: u32) -> Stack {
    Stack::new(file_system, VolumeSpec::new(class, total_gib / f64::from(count)), count)
}

fn catalogue() -> Catalogue {
    Catalogue::built_in("ebs-2023").unwrap()
}

fn run(stack: &Stack, job: &Job, seconds: f64) -> Outcome {
    simulate(&catalogue(), stack, job, seconds, 7).unwrap()
}

fn near(value: f64, expected: f64, part: f64) {
    assert!((value - expected).abs() <= part * expected.abs(), "{value}, expected {expected} within {part}");
}

fn st1(count: u32) -> Stack {
    stack(FileSystem::ext4(), "st1", TOTAL_GIB, count)
}

#[test]
fn random_reads_meet_the_formula_in_both_regimes() {
    for (class, count) in [("st1", 1), ("st1", 2), ("st1", 4), ("st1", 8), ("sc1", 3)] {
        for kib in [16, 128, 512] {
            let stack = stack(FileSystem::ext4(), class, TOTAL_GIB, count);
            let limits = stack.volume.limits(&catalogue()).unwrap();
            let of = |drained| f64::from(count) * limits.random_mib_per_s(kib * KIB, drained);
            let outcome = run(&stack, &job(kib), 600.0);
            near(outcome.mib_per_s, of(false), 0.01);
            near(outcome.drained_mib_per_s, of(true), 0.03);
            near(outcome.drained_after_s.unwrap(), limits.burst_seconds(f64::INFINITY).unwrap(), 0.02);
        }
    }
}

#[test]
fn a_jump_changes_nothing() {
    // The same run with buckets so small that every request is played, against one that jumps.
    let mut small = st1(2);
    small.time_scale = 2000.0;
    let limits = small.volume.limits(&catalogue()).unwrap();
    let empty_s = limits.burst_seconds(f64::INFINITY).unwrap() / 2000.0;
    let outcome = run(&small, &job(128), 60.0);
    let expected = (empty_s * 125.0 + (60.0 - empty_s) * 40.0) / 60.0;
    near(outcome.mib_per_s, expected, 0.02);
    near(outcome.drained_after_s.unwrap(), empty_s, 0.02);

    let long = run(&st1(2), &job(128), 8.0 * 3600.0);
    let empty_s = limits.burst_seconds(f64::INFINITY).unwrap();
    near(long.mib_per_s, (empty_s * 125.0 + (28_800.0 - empty_s) * 40.0) / 28_800.0, 0.02);
    assert_eq!(long.series.len(), 480);
    near(long.series[10].mib_per_s, 125.0, 0.02);
    near(long.series[470].mib_per_s, 40.0, 0.03);
    let of_series = long.series.iter().map(|point| point.mib_per_s).sum::<f64>() / 480.0;
    near(of_series, long.mib_per_s, 1e-6);
}

#[test]
fn jumping_agrees_with_playing_every_request() {
    // Small enough to play, large enough to jump: buckets last about 10 and 40 s of 100.
    for (file_system, count, scale) in
        [(FileSystem::ext4(), 2, 1000.0), (FileSystem::zfs(64 * KIB, true), 4, 150.0)]
    {
        let stack =
            Stack { time_scale: scale, latency_ms: 2.0, ..stack(file_system, "st1", TOTAL_GIB, count) };
        let job = job(32);
        let mut every = ClosedLoop::new(Pool::new(&catalogue(), &stack).unwrap(), &stack, &job, 7);
        every.play_until(100.0);
        let every = every.outcome(100.0);
        let jumped = run(&stack, &job, 100.0);
        near(jumped.mib_per_s, every.mib_per_s, 0.02);
        near(jumped.device_units_per_s, every.device_units_per_s, 0.02);
        // How many wait at each volume changes slowly, and a jump keeps what it saw.
        near(jumped.p50_ms, every.p50_ms, 0.1);
        for (jumped, every) in jumped.series.iter().zip(&every.series) {
            near(jumped.mib_per_s, every.mib_per_s, 0.03);
        }
    }
}

#[test]
fn latency_follows_littles_law() {
    for outstanding in [1, 32, 1024] {
        let job = Job { outstanding, ..job(64) };
        let outcome = run(&st1(1), &job, 120.0);
        near(outcome.iops, 500.0, 0.01);
        near(outcome.p50_ms, 1000.0 * f64::from(outstanding) / 500.0, 0.02);
        assert!(outcome.p50_ms <= outcome.p99_ms && outcome.p99_ms <= outcome.p999_ms);
    }
    let slow = Stack { latency_ms: 18.0, ..st1(1) };
    let outcome = run(&slow, &Job { outstanding: 1, ..job(64) }, 120.0);
    near(outcome.iops, 50.0, 0.01);
}

#[test]
fn one_stream_is_merged_and_many_are_not() {
    let one = Job { sequential: true, outstanding: 1, threads: 1, read_percent: 100.0, ..job(64) };
    near(run(&st1(1), &one, 60.0).mib_per_s, 500.0, 0.01);
    let many = Job { outstanding: 16, threads: 16, ..one };
    near(run(&st1(1), &many, 60.0).mib_per_s, 31.25, 0.01);
}

#[test]
fn small_chunks_multiply_what_st1_charges() {
    // A block of 512 KiB in chunks of 128 KiB is four requests, each a whole unit.
    let small = Stack { chunk_bytes: 128 * KIB, ..st1(4) };
    near(run(&small, &job(512), 60.0).mib_per_s, 250.0, 0.01);
    near(run(&st1(4), &job(512), 60.0).mib_per_s, 1000.0, 0.01);
}

#[test]
fn a_machine_caps_a_stripe_after_half_an_hour() {
    let capped = Stack { instance: Some("r7g.xlarge".to_owned()), ..st1(4) };
    let outcome = run(&capped, &job(512), 600.0);
    near(outcome.mib_per_s, 1000.0, 0.01);
    // 1,000 MiB/s spend 892 MB/s of a bucket of 1,094 MB/s x 30 minutes.
    near(outcome.instance_drained_after_s.unwrap(), (1250.0 - 156.25) * 1800.0 / (1048.576 - 156.25), 0.02);
    // What the machine lets through then is less than the volumes' base, so they keep their credits.
    near(outcome.drained_mib_per_s, 149.01, 0.02);
    assert_eq!(outcome.drained_after_s, None);
}

#[test]
fn records_cost_what_they_cost() {
    let zfs = |record: u64, ratio: f64, reads: f64, block: u64| {
        let stack = stack(FileSystem::zfs(record * KIB, true), "gp3", 1024.0, 1);
        run(&stack, &Job { read_percent: reads, compression_ratio: ratio, ..job(block) }, 60.0)
    };
    // 16 KiB out of a record of 128 KiB: all of it is read, 125 MiB/s of records.
    near(zfs(128, 1.0, 100.0, 16).mib_per_s, 125.0 / 8.0, 0.02);
    // A partial write reads its record and writes it.
    near(zfs(128, 1.0, 0.0, 16).mib_per_s, 125.0 / 16.0, 0.03);
    near(zfs(128, 1.0, 0.0, 128).mib_per_s, 125.0, 0.02);
    // Compressible data passes the volume's bytes sooner.
    near(zfs(128, 2.0, 0.0, 128).mib_per_s, 250.0, 0.03);
    near(zfs(128, 2.0, 100.0, 128).mib_per_s, 250.0, 0.02);
    // A record that would save less than an eighth is stored as it is.
    near(zfs(128, 1.05, 100.0, 128).mib_per_s, 125.0, 0.02);
}

/// OpenZFS with aged records on slowed volumes of st1, whose figures are of measured cells.
fn aged(count: u32, record: u64) -> Stack {
    let file_system = FileSystem { group: None, ..FileSystem::zfs_measured(record * KIB, true, true) };
    Stack { slowed: 20.0, ..stack(file_system, "st1", TOTAL_GIB, count) }
}

#[test]
fn scattered_records_cost_a_unit_each() {
    let reads = |record: u64, block: u64| {
        let job = Job { read_percent: 100.0, outstanding: 16, ..job(block) };
        run(&aged(1, record), &job, 600.0).iops
    };
    // 25 units a second: a block of 512 KiB is 16 records of 32 KiB, or 4 of 128 KiB; a small one is in one record.
    near(reads(32, 512), 25.0 / 16.0, 0.03);
    near(reads(128, 512), 25.0 / 4.0, 0.03);
    near(reads(128, 16), 25.0, 0.03);
    near(reads(32, 16), 25.0, 0.03);
}

#[test]
fn more_volumes_are_less_busy_where_submissions_block() {
    let reads = |count: u32| {
        let job = Job { read_percent: 100.0, ..job(128) };
        run(&aged(count, 128), &job, 600.0).iops
    };
    // Of n volumes with 16 requests at random, 16 / (15 + n) are busy: that of a closed network of equal queues.
    near(reads(4), 100.0 * 16.0 / 19.0, 0.1);
    // Eight have the burst of four, and more of them idle.
    let eight = reads(8) / reads(4);
    assert!((0.75..0.95).contains(&eight), "{eight}");
}

#[test]
fn a_transaction_group_takes_its_requests_from_the_data() {
    let with = |requests: f64| {
        let mut stack = aged(1, 128);
        stack.file_system.group = Some(Group { every_s: 5.0, requests });
        run(&stack, &Job { read_percent: 100.0, ..job(128) }, 600.0).iops
    };
    // 25 of the 125 units of five seconds.
    near(with(25.0), 20.0, 0.03);
    near(with(0.5), 25.0 - 0.1, 0.03);
}

#[test]
fn what_is_gathered_is_written_by_the_unit() {
    let writes = |gathered: u64| {
        let mut stack = aged(1, 128);
        stack.file_system.aggregate_bytes = Some(gathered * KIB);
        run(&stack, &Job { read_percent: 0.0, ..job(128) }, 600.0).mib_per_s
    };
    near(writes(1024), 25.0, 0.03);
    near(writes(128), 25.0 / 8.0, 0.03);
}

#[test]
fn a_slowed_volume_is_the_same_but_slower() {
    let of = |slowed: f64| run(&Stack { slowed, ..st1(2) }, &job(128), 600.0);
    near(of(1.0).mib_per_s / of(20.0).mib_per_s, 20.0, 0.02);
    near(of(1.0).drained_after_s.unwrap(), of(20.0).drained_after_s.unwrap(), 0.02);
}

#[test]
fn compression_does_not_help_random_reads_of_st1() {
    let read = |ratio: f64| {
        let stack = stack(FileSystem::zfs(128 * KIB, true), "st1", TOTAL_GIB, 4);
        run(&stack, &Job { read_percent: 100.0, compression_ratio: ratio, ..job(128) }, 60.0).mib_per_s
    };
    near(read(4.0), read(1.0), 0.02);
}

#[test]
fn a_cache_multiplies_what_the_volumes_do() {
    let cached = Stack { cache: Some(Cache { bytes: 64 * GIB, hit_ms: 0.05 }), ..st1(4) };
    let outcome = run(&cached, &job(128), 600.0);
    near(outcome.cache_hit_part, 0.4, 0.05);
    near(outcome.mib_per_s, 250.0 / (1.0 - 0.75 * 0.4), 0.02);
    near(outcome.device_mib_per_s, 250.0, 0.01);
    let all = Stack { cache: Some(Cache { bytes: 160 * GIB, hit_ms: 0.05 }), ..st1(4) };
    let reads = Job { read_percent: 100.0, outstanding: 16, ..job(128) };
    near(run(&all, &reads, 1.0).iops, 16.0 / 0.000_05, 0.01);
}

#[test]
fn the_questions_of_the_warm_tier() {
    let rate = |stack: &Stack, kib: u64| run(stack, &job(kib), 600.0).mib_per_s;
    let mean = |ratio: &dyn Fn(u64) -> f64| BLOCK_KIB.map(ratio).iter().sum::<f64>() / BLOCK_KIB.len() as f64;
    let (one, four) = (st1(1), st1(4));
    let (of_one, of_four) = (run(&one, &job(128), 600.0), run(&four, &job(128), 600.0));
    near(of_four.mib_per_s / of_one.mib_per_s, 4.0, 0.01);
    near(of_four.drained_mib_per_s / of_one.drained_mib_per_s, 1.0, 0.03);
    near(of_four.drained_after_s.unwrap() / 60.0, 83.2, 0.01);
    near(of_one.drained_after_s.unwrap() / 3600.0, 12.95, 0.01);
    let best = |class| best_count(&catalogue(), class, TOTAL_GIB, 16).unwrap();
    assert_eq!((best("st1").0, best("sc1")), (4, (3, 640.0)));
    let machine = Instance::new(&catalogue(), "r7g.xlarge", 1.0).unwrap();
    near(machine.base_mib_per_s() / of_one.mib_per_s, 2.38, 0.02);
    let cached = Stack { cache: Some(Cache { bytes: 64 * GIB, hit_ms: 0.05 }), ..four.clone() };
    near(rate(&cached, 128) / of_four.mib_per_s, 1.0 / 0.7, 0.02);
    let zfs = |file_system: FileSystem, count: u32| stack(file_system, "st1", TOTAL_GIB, count);
    let over_ext4 = |latency_ms: f64| {
        let zfs = Stack { latency_ms, ..zfs(FileSystem::zfs(128 * KIB, true), 4) };
        let ext4 = Stack { latency_ms, ..one.clone() };
        mean(&|kib| rate(&zfs, kib) / rate(&ext4, kib))
    };
    let without_latency = over_ext4(0.0);
    assert!((3.0..5.0).contains(&without_latency), "{without_latency}");
    // Sixteen blocking threads wait for latency; the thousand requests of ext4 do not.
    assert!((2.4..3.0).contains(&over_ext4(10.0)), "{}", over_ext4(10.0));
    // Records of 128k are fewer requests for the same blocks once they are scattered.
    let scattered = |record: u64| zfs(FileSystem::zfs_measured(record * KIB, true, true), 4);
    let (small, large) = (scattered(32), scattered(128));
    assert!(mean(&|kib| rate(&large, kib) / rate(&small, kib)) > 1.2);
    assert!(mean(&|kib| rate(&large, kib) / rate(&one, kib)) < without_latency);
}

#[test]
fn all_cells_cost_little() {
    let mut played = run(&st1(1), &job(128), 600.0).played;
    let mut cells = 1;
    for count in COUNTS {
        for record in RECORD_KIB {
            for block in BLOCK_KIB {
                let stack = stack(FileSystem::zfs(record * KIB, true), "st1", TOTAL_GIB, count);
                let outcome = run(&stack, &job(block), 600.0);
                assert!(outcome.mib_per_s > 0.0 && outcome.outstanding == 16);
                played += outcome.played;
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 73);
    // Under ten seconds are wanted; a million of these take about one in a debug build.
    assert!(played < 4_000_000, "{played}");
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let stack = stack(FileSystem::zfs(64 * KIB, true), "st1", TOTAL_GIB, 2);
    assert_eq!(run(&stack, &job(32), 60.0), run(&stack, &job(32), 60.0));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused =
        |stack: Stack, job: Job| simulate(&catalogue(), &stack, &job, 1.0, 1).unwrap_err().to_string();
    assert!(refused(Stack { count: 0, ..st1(1) }, job(16)).contains("at least one volume"));
    assert!(refused(st1(1), Job { read_percent: 101.0, ..job(16) }).contains("0 to 100"));
    assert!(refused(st1(1), Job { set_bytes: 1, ..job(16) }).contains("at least one block"));
    assert!(refused(stack(FileSystem::ext4(), "st1", 1000.0, 16), job(16)).contains("125 to 16384 GiB"));
    assert!(
        refused(Stack { instance: Some("r7g.huge".to_owned()), ..st1(1) }, job(16)).contains("r7g.large")
    );
}
