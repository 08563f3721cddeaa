use proptest::prelude::*;

use super::*;
use crate::catalogue::Catalogue;

const EPSILON: f64 = 1e-6;

fn catalogue() -> Catalogue {
    Catalogue::built_in("ebs-2023").unwrap()
}

fn volume(spec: &str, start: Balance, time_scale: f64) -> Volume {
    let catalogue = catalogue();
    Volume::new(&catalogue, &VolumeSpec::parse(&catalogue, spec).unwrap(), start, time_scale).unwrap()
}

fn limits(spec: &str) -> Limits {
    volume(spec, Balance::Full, 1.0).limits().clone()
}

fn io(offset: u64, bytes: u64) -> Io {
    Io { write: false, offset, bytes }
}

/// Seconds that one sequential stream of 1 MiB takes over the whole volume, all requests there from the start.
fn scan_s(spec: &str, gib: u64) -> f64 {
    let mut volume = volume(spec, Balance::Full, 1.0);
    let requests = gib * 1024;
    // 16 MiB requests are split into the same sixteen units; fewer of them make the test quicker.
    (0..requests / 16).map(|i| volume.admit(0.0, io(i << 24, 16 << 20))).last().unwrap()
}

#[test]
fn the_published_scan_times() {
    // hdd-vols.md, "ideal scan times", hours by TiB.
    let st1 =
        [1.17, 1.17, 1.75, 2.33, 2.91, 3.50, 4.08, 4.66, 5.24, 5.83, 6.41, 6.99, 7.57, 8.16, 8.74, 9.32];
    let sc1 = [
        3.64, 3.64, 3.64, 4.66, 5.83, 6.99, 8.16, 9.32, 10.49, 11.65, 12.82, 13.98, 15.15, 16.31, 17.48,
        18.64,
    ];
    for (class, table) in [("st1", st1), ("sc1", sc1)] {
        for (i, hours) in table.into_iter().enumerate() {
            let tib = i as u64 + 1;
            let modelled = scan_s(&format!("{class}:{tib}TiB"), tib * 1024) / 3600.0;
            assert!((modelled - hours).abs() < 0.006, "{class} {tib} TiB: {modelled} h, published {hours} h");
        }
    }
}

#[test]
fn base_and_burst_by_size() {
    // hdd-vols.md, the tables of base and burst throughput (0.125 TiB is printed rounded).
    for (tib, base, burst) in [
        (0.125, 5.0, 31.25),
        (1.0, 40.0, 250.0),
        (2.0, 80.0, 500.0),
        (8.0, 320.0, 500.0),
        (12.5, 500.0, 500.0),
        (16.0, 500.0, 500.0),
    ] {
        let limits = limits(&format!("st1:{tib}TiB"));
        assert_eq!((limits.base, limits.burst), (base, burst), "st1 {tib}");
    }
    for (tib, base, burst) in [
        (0.125, 1.5, 10.0),
        (1.0, 12.0, 80.0),
        (3.125, 37.5, 250.0),
        (8.0, 96.0, 250.0),
        (16.0, 192.0, 250.0),
    ] {
        let limits = limits(&format!("sc1:{tib}TiB"));
        assert_eq!((limits.base, limits.burst), (base, burst), "sc1 {tib}");
    }
}

#[test]
fn seconds_of_burst() {
    // Bucket over burst less base. The gp2 rows are those of general-purpose.md.
    let expected = [
        ("st1:2TiB", 4_993.0),
        ("st1:8TiB", 46_603.0),
        ("st1:4TiB", 12_336.0),
        ("sc1:8TiB", 54_471.0),
        ("sc1:2TiB", 15_420.0),
        ("gp2:33GiB", 1_862.0),
        ("gp2:100GiB", 2_000.0),
        ("gp2:334GiB", 2_703.0),
        ("gp2:750GiB", 7_200.0),
    ];
    for (spec, seconds) in expected {
        let limits = limits(spec);
        let modelled = limits.burst_seconds(f64::INFINITY).unwrap();
        assert!((modelled - seconds).abs() < 1.0, "{spec}: {modelled}");
    }
    assert_eq!(limits("gp2:1000GiB").burst_seconds(f64::INFINITY), None);
    assert_eq!(limits("st1:13TiB").burst_seconds(f64::INFINITY), None);
}

#[test]
fn a_full_bucket_drains_when_the_formula_says() {
    for (spec, bytes) in [("st1:2TiB", 128 << 10), ("gp2:100GiB", 16 << 10)] {
        let mut volume = volume(spec, Balance::Full, 100.0);
        let seconds = volume.limits().burst_seconds(f64::INFINITY).unwrap() / 100.0;
        let mut done = 0.0;
        let mut i = 0;
        while done < seconds * 2.0 {
            i += 1;
            done = volume.admit(0.0, io(i * (8 << 20), bytes));
        }
        let account = volume.account(done);
        assert!((account.first_empty_s.unwrap() - seconds).abs() < 0.01, "{spec}: {account:?}");
        assert!((account.drained_s - seconds).abs() < 0.1, "{spec}: {account:?}");
        assert_eq!(account.credits, 0.0);
    }
}

#[test]
fn a_volume_of_two_tib_for_eight() {
    // What a full stripe of N volumes of 8 TiB together does: base, burst, hours (section "Ready numbers").
    for (class, count, base, burst, hours) in [
        ("st1", 1, 320.0, 500.0, 12.95),
        ("st1", 2, 320.0, 1000.0, 3.43),
        ("st1", 4, 320.0, 2000.0, 1.39),
        ("st1", 8, 320.0, 2000.0, 1.39),
        ("sc1", 1, 96.0, 250.0, 15.1),
        ("sc1", 2, 96.0, 500.0, 5.77),
        ("sc1", 3, 96.0, 640.0, 4.28),
        ("sc1", 8, 96.0, 640.0, 4.28),
    ] {
        let limits = VolumeSpec::new(class, 8192.0 / f64::from(count)).limits(&catalogue()).unwrap();
        let n = f64::from(count);
        assert!((n * limits.base - base).abs() < 1e-9, "{class} {count}");
        assert!((n * limits.burst - burst).abs() < 1e-9, "{class} {count}");
        assert!(
            (limits.burst_seconds(f64::INFINITY).unwrap() / 3600.0 - hours).abs() < 0.05,
            "{class} {count}"
        );
    }
    assert_eq!(best_count(&catalogue(), "st1", 8192.0, 16).unwrap().0, 4);
    assert_eq!(best_count(&catalogue(), "sc1", 8192.0, 16).unwrap().0, 3);
}

#[test]
fn random_ceilings() {
    // MiB/s of 8 TiB of st1 at random, burst and base (section "Ready numbers").
    for (kib, count, burst, base) in [
        (16, 1, 7.8125, 5.0),
        (16, 4, 31.25, 5.0),
        (64, 1, 31.25, 20.0),
        (128, 4, 250.0, 40.0),
        (512, 1, 250.0, 160.0),
        (512, 4, 1000.0, 160.0),
    ] {
        let limits = VolumeSpec::new("st1", 8192.0 / f64::from(count)).limits(&catalogue()).unwrap();
        let of = |drained| f64::from(count) * limits.random_mib_per_s(kib << 10, drained);
        assert_eq!((of(false), of(true)), (burst, base), "{kib} KiB on {count}");
    }
}

#[test]
fn small_requests_cost_a_unit_unless_they_continue_the_last() {
    let mut volume = volume("st1:1TiB", Balance::Full, 1.0);
    for i in 0..16 {
        volume.admit(0.0, io(i * 65_536, 65_536));
    }
    let account = volume.account(0.0);
    assert_eq!((account.units, account.merged, account.charged), (1, 15, 1.0));
    volume.admit(0.0, io(1 << 30, 65_536));
    // Writes between two reads that follow each other do not part them.
    volume.admit(0.0, Io { write: true, offset: 5 << 30, bytes: 4096 });
    volume.admit(0.0, io((1 << 30) + 65_536, 65_536));
    assert_eq!(volume.account(0.0).units, 3);
    volume.admit(0.0, io(9 << 30, (1 << 20) + 1));
    assert_eq!(volume.account(0.0).units, 5);
    assert_eq!(volume.admit(7.0, io(0, 0)), 7.0);
    assert_eq!(volume.account(7.0).requests, 20);
}

#[test]
fn gp3_gives_what_was_bought() {
    let mut volume = volume("gp3:100GiB,iops=4000,mbps=500", Balance::Full, 1.0);
    let done = (0..8000).map(|i| volume.admit(0.0, io(i << 24, 4096))).last().unwrap();
    assert!((done - 2.0).abs() < 0.01, "{done}");
    let done = (0..1000).map(|i| volume.admit(10.0, io(i << 24, 1 << 20))).last().unwrap();
    assert!((done - 12.0).abs() < 0.01 + SLACK_S, "{done}");
    assert_eq!(limits("gp3:10GiB").mib_per_s, 125.0);
    assert_eq!(limits("io2:100GiB,iops=10000").mib_per_s, 2560.0);
    assert_eq!(limits("gp2:170GiB").mib_per_s, 128.0);
    assert_eq!(limits("gp2:171GiB").mib_per_s, 250.0);
}

#[test]
fn what_cannot_be_ordered_is_refused() {
    let catalogue = catalogue();
    let error = |text: &str| {
        let spec = VolumeSpec::parse(&catalogue, text);
        spec.and_then(|spec| spec.limits(&catalogue)).unwrap_err().to_string()
    };
    assert_eq!(
        error("ts1:2TiB"),
        "`ts1:2TiB`, position 1: no volume class `ts1` in ebs-2023; did you mean `st1`?"
    );
    assert_eq!(error("st1:2TB"), "`st1:2TB`, position 5: no unit `TB`; did you mean `TiB`?");
    assert_eq!(
        error("gp3:1TiB,iosp=5"),
        "`gp3:1TiB,iosp=5`, position 10: no option `iosp`; did you mean `iops`?"
    );
    assert!(error("gp3:1TiB,iops=").contains("position 15: `iops` needs a number above 0"));
    assert!(error("gp3:1TiB,iops=-4").contains("position 15"));
    assert!(error("st1").contains("position 4: a size is a number above 0"));
    assert!(error("st1:0").contains("above 0"));
    assert!(error("st1:100GiB").contains("125 to 16384 GiB"));
    assert!(error("st1:1TiB,iops=5").contains("none can be bought"));
    assert!(error("io2:1TiB").contains("needs `iops=`"));
    assert!(error("io2:1TiB,iops=1000,mbps=9").contains("sells no MiB/s"));
    assert!(error("gp3:10GiB,iops=6000").contains("3000 to 5000 IOPS"));
    assert!(error("gp3:10GiB,iops=3000,mbps=800").contains("125 to 750 MiB/s"));
    assert!(error("gp3:20TiB").contains("GiB"));
}

#[test]
fn specs_print_as_they_are_read() {
    for text in ["st1:2TiB", "gp3:500GiB,iops=16000,mbps=1000", "io2:4GiB,iops=100"] {
        assert_eq!(text.parse::<VolumeSpec>().unwrap().to_string(), text);
    }
    assert_eq!("st1:0.5tib".parse::<VolumeSpec>().unwrap().gib, 512.0);
}

#[test]
fn a_machine_has_thirty_minutes() {
    let catalogue = catalogue();
    let mut instance = Instance::new(&catalogue, "r7g.xlarge", 1.0).unwrap();
    assert_eq!(instance.burst_s(), Some(1800.0));
    assert!((instance.base_mib_per_s() - 149.01).abs() < 0.01);
    let mib_in = |instance: &mut Instance, from: f64, seconds: f64| {
        let mut mib = 0.0;
        while instance.admit(from, io(0, 1 << 20)) < from + seconds {
            mib += 1.0;
        }
        mib / seconds
    };
    let first = mib_in(&mut instance, 0.0, 1800.0);
    assert!((first - instance.max_mib_per_s()).abs() < 2.0, "{first}");
    let after = mib_in(&mut instance, 1801.0, 600.0);
    assert!((after - instance.base_mib_per_s()).abs() < 2.0, "{after}");
    assert_eq!(Instance::new(&catalogue, "r7g.8xlarge", 1.0).unwrap().burst_s(), None);
}

#[test]
fn balances_and_scales_outside_are_refused() {
    let limits = limits("st1:1TiB");
    let refused = |start, scale| Volume::with_limits(limits.clone(), start, scale).unwrap_err().to_string();
    assert!(refused(Balance::Credits(2e6), 1.0).contains("0 to 1048576 credits"));
    assert!(refused(Balance::Full, 0.5).contains("from 1 up"));
    assert!("fill".parse::<Balance>().is_err());
    assert_eq!("1000".parse::<Balance>().unwrap(), Balance::Credits(1000.0));
}

fn any_spec() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "st1:1TiB",
        "st1:16TiB",
        "sc1:125GiB",
        "gp2:100GiB",
        "gp2:2TiB",
        "gp3:1TiB",
        "io2:1TiB,iops=5000",
    ])
}

/// Gap before it (s), sequential to the last or not, write, KiB.
fn any_requests() -> impl Strategy<Value = Vec<(f64, bool, bool, u64)>> {
    let gap = prop_oneof![4 => Just(0.0), 2 => 0.0..0.01_f64, 1 => 0.0..60.0_f64];
    proptest::collection::vec((gap, any::<bool>(), any::<bool>(), 1..4096_u64), 1..300)
}

proptest! {
    #[test]
    fn no_spec_is_a_panic(text in "([a-z0-9é:,=.]|st1|gp3:|GiB|iops=|mbps=){0,8}") {
        let catalogue = catalogue();
        if let Ok(spec) = VolumeSpec::parse(&catalogue, &text) {
            prop_assert_eq!(VolumeSpec::parse(&catalogue, &spec.to_string()).unwrap(), spec.clone());
            if let Ok(limits) = spec.limits(&catalogue) {
                prop_assert!(limits.base > 0.0 && limits.mib_per_s > 0.0 && limits.unit_bytes > 0);
            }
        }
    }

    #[test]
    fn the_laws_hold(spec in any_spec(), requests in any_requests(), part in 0.0..=1.0_f64, scale in 1.0..100_000.0_f64) {
        let credits = limits(spec).bucket * part;
        let mut volume = volume(spec, Balance::Credits(credits), scale);
        let limits = volume.limits().clone();
        let (mut now, mut end, mut random) = (0.0, 0, 1_u64);
        let mut log: Vec<(f64, f64, f64)> = Vec::new();
        let (mut bytes, mut last_done) = (0, 0.0);
        for (gap, sequential, write, kib) in requests {
            now += gap;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let offset = if sequential { end } else { (random >> 20) << 12 };
            let request = Io { write, offset, bytes: kib << 10 };
            end = offset + request.bytes;
            let before = volume.account(now);
            let done = volume.admit(now, request);
            let after = volume.account(now);
            prop_assert!(done >= now && done >= last_done, "done {done} at {now}, after {last_done}");
            prop_assert!(after.credits >= 0.0 && after.credits <= after.bucket * (1.0 + EPSILON), "{after:?}");
            bytes += request.bytes;
            last_done = done;
            log.push((done, after.charged - before.charged, request.bytes as f64 / MIB));
        }
        let account = volume.account(now);
        prop_assert_eq!(account.bytes, bytes);
        prop_assert_eq!(account.requests, log.len() as u64);
        let units = account.units * limits.unit_bytes;
        // Every byte has a unit; a unit is never charged without a byte in it.
        prop_assert!(units >= bytes && account.units <= account.requests + bytes / limits.unit_bytes);

        let rate = limits.burst.max(limits.base);
        for first in 0..log.len() {
            let (mut charged, mut mib) = (0.0, 0.0);
            // The first request only opens the window: its own work may lie before it.
            for (done, charge, size) in log[first + 1..].iter().take(40) {
                charged += charge;
                mib += size;
                let window = done - log[first].0 + SLACK_S;
                prop_assert!(charged <= rate * window * (1.0 + EPSILON) + charge + EPSILON, "{charged} in {window} s");
                prop_assert!(mib <= limits.mib_per_s * window * (1.0 + EPSILON) + size + EPSILON, "{mib} MiB in {window} s");
            }
        }
        let bound = (credits / scale) + limits.base * last_done;
        prop_assert!(!limits.bursts() || account.charged <= bound * (1.0 + EPSILON) + EPSILON, "{} > {bound}", account.charged);
    }
}
