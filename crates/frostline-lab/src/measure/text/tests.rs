use super::*;
use crate::measure::cost::Cost;
use crate::measure::curve::{Knee, Point};
use crate::measure::load::Load;
use crate::measure::watch::{Burst, Level};
use crate::measure::{Extent, Measured};
use crate::record::Machine;
use frostline_model::catalogue::Evidence;

/// A burst volume and one that failed in the middle.
pub(crate) fn example() -> Measurement {
    let level = |iops: f64, seconds: f64| Level { iops, mib_per_s: iops / 8.0, seconds };
    let burst = Burst { level: level(500.0, 49.9), bucket_requests: 20_950.0, bucket_mib: 2_618.75 };
    let watched = Watched {
        sustained: level(80.0, 12.0),
        burst: Some(burst),
        is_steady: true,
        fell_at_end: false,
        excursion: 0.012,
        slope_excursion: 0.004,
    };
    let point = |offered_iops, iops: f64, p50_ms, cpu_pressure| Point {
        offered_iops,
        iops,
        mib_per_s: iops / 8.0,
        p50_ms,
        p99_ms: p50_ms * 2.0,
        cpu_pressure,
        cpu_wait: None,
    };
    let whole = Measured {
        path: "/mnt/a".into(),
        volume: "ext4 on /dev/loop0".to_owned(),
        rounds: vec![super::super::watch::Round { seconds: 1.0, requests: 500.0, mib: 62.5 }; 3],
        watched: Some(watched),
        points: vec![
            point(None, 80.0, 800.0, Some(30.0)),
            point(Some(40.0), 40.0, 1.0, Some(5.0)),
            point(Some(78.0), 78.0, 1.2, None),
        ],
        knee: Some(Knee { iops: 78.0, mib_per_s: 9.75, p50_ms: 1.2, p99_ms: 2.4 }),
        doubt: None,
        cost: Some(Cost {
            volume: "st1:2TiB".to_owned(),
            region: "us-east-1".to_owned(),
            catalogue: "ebs-2025-09".to_owned(),
            usd_per_month: 92.16,
            evidence: Evidence::Unverified,
            promised_iops: 80.0,
            promised_burst_iops: Some(500.0),
            promised_bucket_requests: Some(2_097_152.0),
        }),
        failed: None,
    };
    let level = Watched { burst: None, is_steady: false, sustained: level(1000.0, 30.0), ..watched };
    let failed = Measured {
        path: "/mnt/<b>".into(),
        volume: "xfs on /dev/loop1".to_owned(),
        rounds: Vec::new(),
        watched: Some(level),
        points: Vec::new(),
        knee: None,
        doubt: None,
        cost: None,
        failed: Some("/mnt/<b> disappeared: what was mounted there is gone".to_owned()),
    };
    Measurement {
        started: "2026-11-23T00:00:00Z".to_owned(),
        load: Load::Elasticsearch,
        block_bytes: 128 << 10,
        outstanding: 64,
        extent: Extent { data_mib: 256, watch_seconds: 60.0, step_seconds: 5.0 },
        fio: "fio-3.33".to_owned(),
        machine: Machine::default(),
        paths: vec![whole, failed],
    }
}

#[test]
fn the_answer_in_lines() {
    let expected = "\
random requests of 128 KiB, 75 % reads: at most 64 outstanding, over 256 MiB in each path, without the page cache (fio-3.33)

/mnt/a (ext4 on /dev/loop0)
  limit   80 IOPS, 10.0 MiB/s, steady (within 1.2 % for 12 s)
  bucket  20950 requests of 128 KiB (2619 MiB) beyond the limit: 500 IOPS for 49.9 s, then 80
  knee    78 IOPS, 98 % of the limit: median 1.20 ms, p99 2.40 ms
  cost    $92.16 a month for st1:2TiB in us-east-1 (unverified, ebs-2025-09), $1.1815 per IOPS at the knee; the class has 80 IOPS of these, 500 in a burst of 2097152 requests
    load  IOPS  MiB/s  median ms   p99 ms
    50 %    40    5.0       1.00     2.00
  97.5 %    78    9.8       1.20     2.40
     all    80   10.0     800.00  1600.00

/mnt/<b> (xfs on /dev/loop1)
  limit   1000 IOPS, 125.0 MiB/s, not steady: watch it longer (--watch) (within 1.2 % for 30 s)
  bucket  none seen: the throughput did not fall within 60 s: there is none, it was empty, or it lasts longer
  failed: /mnt/<b> disappeared: what was mounted there is gone

Latency is that of reads or of writes, whichever is longer. Requests are offered evenly: those that come at random wait longer.
CPUs of this host were waited for, up to 30 % of the time: latencies are partly its own.
";
    assert_eq!(text(&example()), expected);
    assert_eq!(failures(&example().paths).as_deref(), Some("1 of 2 paths failed"));
}

#[test]
fn a_knee_that_cannot_be_told_is_said_to_be_none() {
    let mut measurement = example();
    let path = &mut measurement.paths[0];
    path.knee = None;
    path.doubt = Some(Doubt { bends_at_iops: Some(40.0), cpu_pressure: 94.0 });
    let said = text(&measurement);
    let lines = "
  knee    cannot tell: CPUs of this host were waited for 94 % of the time
          (latency rises from 40 IOPS on); measure again on a quieter host
";
    assert!(said.contains(lines), "{said}");
    assert!(lines.lines().all(|line| line.len() <= 80));
    assert!(!said.contains("per IOPS at the knee"), "{said}");
}

#[test]
fn a_fall_at_the_end_is_said() {
    let mut measurement = example();
    let watched = measurement.paths[1].watched.as_mut().unwrap();
    watched.fell_at_end = true;
    let text = super::text(&measurement);
    assert!(text.contains("but it fell at the end: watch it longer (--watch)"), "{text}");
    assert!(text.contains("bucket  not known") && !text.contains("did not fall"), "{text}");
}
