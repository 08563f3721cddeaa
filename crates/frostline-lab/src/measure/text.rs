//! The answer as text.

use frostline_show::{Table, printable, show_count};

use super::curve::{CPU_PRESSURE_MAX, Doubt, cpu_share};
use super::watch::Watched;
use super::{Measured, Measurement};
use crate::report::text::round;

/// The measurement as lines.
pub(super) fn text(measurement: &Measurement) -> String {
    let Measurement { load, extent, outstanding, fio, paths, .. } = measurement;
    let mut lines = vec![format!(
        "{}: at most {outstanding} outstanding, over {} MiB in each path, without the page cache ({fio})",
        load.words(),
        extent.data_mib
    )];
    for path in paths {
        lines.push(String::new());
        lines.push(printable(&format!("{} ({})", path.path.display(), path.volume)));
        lines.extend(of_path(path, measurement));
    }
    lines.push(String::new());
    lines.push(
        "Latency is that of reads or of writes, whichever is longer. Requests are offered evenly: those that come at random wait longer."
            .to_owned(),
    );
    if let Some(pressure) = pressure(paths) {
        lines.push(format!(
            "CPUs of this host were waited for, up to {pressure:.0} % of the time: latencies are partly its own."
        ));
    }
    lines.join("\n") + "\n"
}

fn of_path(path: &Measured, measurement: &Measurement) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(watched) = &path.watched {
        lines.push(limit(watched));
        lines.push(burst(watched, measurement));
    }
    lines.extend(knee(path));
    lines.extend(cost(path));
    if let Some(why) = &path.failed {
        lines.push(printable(&format!("  failed: {why}")));
    }
    if !path.points.is_empty() {
        lines.extend(table(path).to_string().lines().map(|line| format!("  {line}")));
    }
    lines
}

/// What the volume sustains.
fn limit(watched: &Watched) -> String {
    let Watched { sustained, is_steady, fell_at_end, excursion, .. } = watched;
    let steady = match (is_steady, fell_at_end) {
        (true, _) => "steady",
        (_, true) => "but it fell at the end: watch it longer (--watch)",
        _ => "not steady: watch it longer (--watch)",
    };
    format!(
        "  limit   {:.0} IOPS, {:.1} MiB/s, {steady} (within {:.1} % for {:.0} s)",
        sustained.iops,
        sustained.mib_per_s,
        excursion * 100.0,
        sustained.seconds
    )
}

fn burst(watched: &Watched, measurement: &Measurement) -> String {
    match &watched.burst {
        Some(burst) => format!(
            "  bucket  {:.0} requests of {} KiB ({:.0} MiB) beyond the limit: {:.0} IOPS for {:.1} s, then {:.0}",
            burst.bucket_requests,
            measurement.block_bytes >> 10,
            burst.bucket_mib,
            burst.level.iops,
            burst.level.seconds,
            watched.sustained.iops
        ),
        None if watched.fell_at_end => {
            "  bucket  not known: the throughput fell too late in the watch".to_owned()
        }
        None => format!(
            "  bucket  none seen: the throughput did not fall within {:.0} s: there is none, it was empty, or it lasts longer",
            measurement.extent.watch_seconds
        ),
    }
}

fn knee(path: &Measured) -> Vec<String> {
    let (Some(watched), false) = (&path.watched, path.points.is_empty()) else { return Vec::new() };
    if let Some(doubt) = &path.doubt {
        return doubtful(doubt);
    }
    let line = match &path.knee {
        Some(knee) => format!(
            "  knee    {:.0} IOPS, {:.0} % of the limit: median {:.2} ms, p99 {:.2} ms",
            knee.iops,
            100.0 * knee.iops / watched.sustained.iops,
            knee.p50_ms,
            knee.p99_ms
        ),
        None => {
            "  knee    none: latency hardly rises, so that more outstanding requests would still be served"
                .to_owned()
        }
    };
    vec![line]
}

/// Why there is none, and what to do.
fn doubtful(doubt: &Doubt) -> Vec<String> {
    let what = match doubt.bends_at_iops {
        Some(iops) => format!("latency rises from {iops:.0} IOPS on"),
        None => "latency hardly rises".to_owned(),
    };
    vec![
        format!(
            "  knee    cannot tell: CPUs of this host were waited for {:.0} % of the time",
            doubt.cpu_pressure
        ),
        format!("          ({what}); measure again on a quieter host"),
    ]
}

fn cost(path: &Measured) -> Option<String> {
    let cost = path.cost.as_ref()?;
    let evidence = format!("{:?}", cost.evidence).to_lowercase();
    let mut line = format!(
        "  cost    ${:.2} a month for {} in {} ({evidence}, {})",
        cost.usd_per_month, cost.volume, cost.region, cost.catalogue
    );
    if let Some(knee) = &path.knee {
        line += &format!(", ${:.4} per IOPS at the knee", cost.usd_per_month / knee.iops);
    }
    line += &format!("; the class has {:.0} IOPS of these", cost.promised_iops);
    if let Some((iops, requests)) = cost.promised_burst_iops.zip(cost.promised_bucket_requests) {
        line += &format!(", {iops:.0} in a burst of {requests:.0} requests");
    }
    Some(line)
}

fn table(path: &Measured) -> Table {
    let mut table = Table::new(&["load>", "IOPS>", "MiB/s>", "median ms>", "p99 ms>"]);
    let mut points = path.points.clone();
    points.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    for point in points {
        let limit = path.watched.map_or(f64::NAN, |watched| watched.sustained.iops);
        let part = |iops: f64| round((iops / limit * 1000.0).round() / 10.0);
        let load = point.offered_iops.map_or("all".to_owned(), |iops| format!("{} %", part(iops)));
        table.row(vec![
            load,
            format!("{:.0}", point.iops),
            format!("{:.1}", point.mib_per_s),
            format!("{:.2}", point.p50_ms),
            format!("{:.2}", point.p99_ms),
        ]);
    }
    table
}

/// The largest share of time spent waiting for CPUs, if it was large.
pub(crate) fn pressure(paths: &[Measured]) -> Option<f64> {
    let of_paths = paths.iter().filter_map(|path| cpu_share(&path.points));
    of_paths.filter(|share| *share > CPU_PRESSURE_MAX).reduce(f64::max)
}

/// What a person is told at the end.
pub(super) fn failures(paths: &[Measured]) -> Option<String> {
    let failed = paths.iter().filter(|path| path.failed.is_some()).count();
    (failed > 0).then(|| format!("{} of {} failed", failed, show_count(paths.len() as u64, "path")))
}

#[cfg(test)]
pub(crate) mod tests;
