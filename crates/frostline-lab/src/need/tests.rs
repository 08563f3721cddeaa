use std::path::Path;

use frostline_doctor::{Host, Said, Tree};

use super::*;
use crate::decide::{Question, decide};

const IOSTAT: &str = include_str!("fixtures/iostat.txt");
/// Without -d.
const IOSTAT_CPU: &str = include_str!("fixtures/iostat-cpu.txt");
const IOSTAT_JSON: &str = include_str!("fixtures/iostat.json");
const CLOUDWATCH: &str = include_str!("fixtures/cloudwatch.json");
const REQUESTS: &str = include_str!("fixtures/requests_lat.1.log");
const AVERAGED_BW: &str = include_str!("fixtures/averaged_bw.1.log");
const AVERAGED_IOPS: &str = include_str!("fixtures/averaged_iops.1.log");
const SEQUENTIAL: &str = include_str!("fixtures/sequential_lat.1.log");

fn iostat(text: &str) -> Result<Derived> {
    derive(&chosen(iostat::read("io.txt", text)?, None)?, false)
}

fn fio(files: &[(&str, &str)]) -> Result<Derived> {
    let files: Vec<_> = files.iter().map(|(name, text)| (Path::new(*name), (*text).to_owned())).collect();
    derive(&fio_log::read(&files)?, false)
}

fn cloudwatch(text: &str) -> Result<Derived> {
    let traces = cloudwatch::read(&[(Path::new("cw.json"), text.to_owned())])?;
    derive(&chosen(traces, None)?, false)
}

/// Replaces text that must be there, and says what is refused.
fn refused<T: std::fmt::Debug>(text: &str, from: &str, to: &str, read: fn(&str) -> Result<T>) -> String {
    let changed = text.replacen(from, to, 1);
    assert_ne!(changed, text, "the change must change something");
    read(&changed).unwrap_err().to_string()
}

fn is_close(a: f64, b: f64, part: f64) -> bool {
    (a - b).abs() <= b * part
}

#[test]
fn what_fio_did_is_what_iostat_counted() {
    // fio read 150 times 64 KiB and wrote 50 times 128 KiB a second, for 4 of 7 seconds.
    let derived = iostat(IOSTAT).unwrap();
    assert_eq!((derived.samples, derived.seconds), (7, 7.0));
    assert!(derived.holes.is_empty(), "{derived:?}");
    assert!(is_close(derived.writes.peak_iops, 51.0, 1e-9), "{derived:?}");
    let again: Need = derived.text.parse().unwrap();
    assert_eq!(again, derived.need);
    let need = &derived.need;
    assert!(need.random && (need.read_bytes, need.write_bytes) > (4096, 4096), "{need:?}");
    let json = iostat(IOSTAT_JSON).unwrap();
    assert!(is_close(json.need.mib_per_s, need.mib_per_s, 0.05), "{} / {}", json.text, derived.text);
}

#[test]
fn iostat_without_times_or_columns_is_refused_by_line() {
    let wrong = |from: &str, to: &str| refused(IOSTAT, from, to, iostat);
    let no_time = IOSTAT.replace("11/24/26 18:", "");
    let error = iostat(&no_time).unwrap_err().to_string();
    assert!(error.contains("line 4: this report has no time") || error.contains("cannot be read"), "{error}");
    let error = iostat(include_str!("fixtures/iostat-plain.txt")).unwrap_err().to_string();
    assert!(error.starts_with("io.txt: line 3: these columns do not tell reads from writes"), "{error}");
    let error = wrong("18:53:50", "18:53:40");
    assert!(
        error.contains("line 23: the clock goes back, from 11/24/26 18:53:49 to 11/24/26 18:53:40"),
        "{error}"
    );
    let error = wrong("11/24/26 18:53:50", "11-24 18:53:50");
    assert!(error.contains("line 23: the time `11-24 18:53:50` cannot be read"), "{error}");
    assert!(iostat("").unwrap_err().to_string().contains("no report with requests a second"));
    assert!(
        iostat("{\"sysstat\": {").unwrap_err().to_string().contains("line 1, column 13: not JSON; it is cut")
    );
}

#[test]
fn rows_of_the_cpus_are_no_times() {
    let derived = iostat(IOSTAT_CPU).unwrap();
    assert_eq!((derived.samples, derived.seconds, derived.holes.len()), (5, 5.0, 0), "{derived:?}");
    assert!(is_close(derived.reads.peak_iops, 388.0, 1e-9), "{derived:?}");
    let no_time = IOSTAT_CPU.replace("11/27/26 17:12:", "");
    let no_time: String =
        no_time.lines().filter(|line| line.len() != 2).map(|line| format!("{line}\n")).collect();
    assert_eq!(
        iostat(&no_time).unwrap_err().to_string(),
        "io.txt: line 6: this report has no time: run iostat with -t"
    );
    // Cut after the word, and the next report follows.
    let cut = IOSTAT_CPU.find("avg-cpu").unwrap() + "avg-cpu:".len();
    let next = IOSTAT_CPU.find("11/27/26 17:12:06").unwrap();
    let derived = iostat(&format!("{}\n\n{}", &IOSTAT_CPU[..cut], &IOSTAT_CPU[next..])).unwrap();
    assert_eq!(derived.samples, 4);
}

#[test]
fn holes_of_iostat_are_named_and_are_no_time() {
    // A report is lost, and a row is cut.
    let at = |time: &str| IOSTAT.find(&format!("11/24/26 {time}")).unwrap();
    let without = format!("{}{}", &IOSTAT[..at("18:53:48")], &IOSTAT[at("18:53:51")..]);
    let derived = iostat(&without).unwrap();
    assert_eq!(derived.samples, 4);
    assert_eq!(derived.holes, ["io.txt: line 13: 3 s without a report before 11/24/26 18:53:51"]);
    let cut = IOSTAT.replacen("vda            150.00   9600.00", "vda            150.00", 1);
    let derived = iostat(&cut).unwrap();
    assert_eq!(derived.samples, 6);
    assert_eq!(derived.holes, ["io.txt: line 25: the row of vda is cut"]);
}

/// Reports of `vda` at these times, each with 10 reads of 4 KiB a second.
fn reports(times: &[&str]) -> String {
    let row = "vda 10.00 40.00 0.00 0.00";
    times.iter().map(|time| format!("{time}\nDevice r/s rkB/s w/s wkB/s\n{row}\n\n")).collect()
}

#[test]
fn times_of_iostat_may_have_a_zone_and_day_and_month_in_any_order() {
    // Daylight saving time ends between the last two.
    let zoned = ["2026-10-25T02:00:00+0200", "2026-10-25T02:59:59+0200", "2026-10-25T02:59:58+0100"];
    let derived = iostat(&reports(&zoned)).unwrap();
    assert_eq!((derived.samples, derived.holes.len()), (2, 0), "{derived:?}");
    let local = zoned.map(|time| time[..19].replace('T', " "));
    let error = iostat(&reports(&local.each_ref().map(String::as_str))).unwrap_err().to_string();
    assert!(
        error.contains("from 2026-10-25 02:59:59 to 2026-10-25 02:59:58")
            && error.contains("S_TIME_FORMAT=ISO"),
        "{error}"
    );
    // The first of the ninth month is not the ninth of the first.
    for times in [
        ["31/08/26 23:59:58", "31/08/26 23:59:59", "01/09/26 00:00:00"],
        ["08/09/26 23:59:58", "08/09/26 23:59:59", "09/09/26 00:00:00"],
        ["09/08/26 23:59:58", "09/08/26 23:59:59", "09/09/26 00:00:00"],
    ] {
        let derived = iostat(&reports(&times)).unwrap();
        assert!(derived.holes.is_empty() && derived.samples == 2, "{derived:?}");
    }
}

#[test]
fn a_second_of_iostat_may_have_two_reports_and_a_minute_may_not() {
    let at = |seconds: [u32; 6]| {
        reports(
            &seconds
                .map(|second| format!("2026-01-01 00:{:02}:{:02}", second / 60, second % 60))
                .each_ref()
                .map(String::as_str),
        )
    };
    let derived = iostat(&at([1, 2, 3, 3, 5, 6])).unwrap();
    assert_eq!((derived.samples, derived.holes.len()), (5, 0));
    let error = iostat(&at([60, 120, 180, 180, 240, 300])).unwrap_err().to_string();
    assert_eq!(error, "io.txt: several reports have the time 2026-01-01 00:03:00");
    assert!(
        iostat(&at([1, 1, 1, 1, 1, 1])).unwrap_err().to_string().contains("several reports have the time")
    );
}

#[test]
fn of_joined_files_the_first_report_of_each_is_left_out() {
    let since_boot = "2026-01-01 01:00:00\nDevice r/s rkB/s w/s wkB/s\nvda 9999.00 9999.00 0.00 0.00\n\n";
    let first = reports(&["2026-01-01 00:00:00", "2026-01-01 00:00:01", "2026-01-01 00:00:02"]);
    let second = reports(&["2026-01-01 01:00:01", "2026-01-01 01:00:02"]);
    let header = "Linux 6.1.0-56 (vm) \t01/01/26 \t_x86_64_\t(2 CPU)\n\n";
    // The first file may end within a row, and without the end of the line.
    let cut = first.trim_end_matches(" 0.00\n\n");
    for first in [format!("{first}\n"), format!("{cut}\n"), cut.to_owned()] {
        let derived = iostat(&format!("{header}{first}{header}{since_boot}{second}")).unwrap();
        assert_eq!(derived.reads.peak_iops, 10.0, "{derived:?}");
        assert!(
            derived.holes.iter().any(|hole| hole.contains("3597 s without a report")),
            "{:?}",
            derived.holes
        );
    }
}

/// Reports of `vda` each `interval` seconds, with so many reads of 4 KiB a second.
fn every(begin: usize, interval: usize, count: usize, reads: usize) -> String {
    let report = |at: usize| {
        let second = begin + at * interval;
        let time = format!("2026-01-01 {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
        format!("{time}\nDevice r/s rkB/s w/s wkB/s\nvda {reads} {} 0.00 0.00\n\n", reads * 4)
    };
    (0..count).map(report).collect()
}

#[test]
fn joined_files_of_iostat_have_their_own_intervals() {
    let header = "Linux 6.1.0-56 (vm) \t01/01/26 \t_x86_64_\t(2 CPU)\n\n";
    // 30 seconds at 1,000 requests a second, then 20 minutes at 10.
    let (fast, slow) = (every(0, 1, 31, 1000), every(60, 60, 21, 10));
    for (first, second) in [(&fast, &slow), (&slow, &every(3600, 1, 31, 1000))] {
        let derived = iostat(&format!("{header}{first}{header}{second}")).unwrap();
        assert_eq!((derived.samples, derived.seconds), (50, 1230.0), "{derived:?}");
        let mean = (30.0 * 1000.0 + 1200.0 * 10.0) / 1230.0;
        assert!(is_close(derived.reads.iops, mean, 1e-9), "{derived:?}");
    }
    // Without the line between them nothing says where the interval changes.
    let error = iostat(&format!("{header}{fast}{slow}")).unwrap_err().to_string();
    assert!(
        error.contains("from here on reports are 60 s apart, others 1 s: give files of one interval"),
        "{error}"
    );
    let error =
        iostat(&format!("{header}{}{}", every(0, 1, 5, 10), every(6, 2, 9, 10))).unwrap_err().to_string();
    assert!(error.starts_with("io.txt: line 7: from here on reports are 1 s apart, others 2 s"), "{error}");
}

#[test]
fn a_device_is_named_or_the_only_busy_one() {
    let two =
        IOSTAT.replace("\n\n\n", "\nsdb 5.00 40.00 0 0 0 0 5.00 40.00 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\n\n");
    let traces = iostat::read("io.txt", &two).unwrap();
    let error = chosen(traces.clone(), None).unwrap_err().to_string();
    assert!(error.contains("name one with --device (vda, sdb)"), "{error}");
    let sdb = derive(&chosen(traces.clone(), Some("sdb")).unwrap(), false).unwrap();
    assert_eq!(sdb.text, "randrw bs=8k mix=50 0.08MiB/s");
    assert!(chosen(traces, Some("sdc")).unwrap_err().to_string().contains("did you mean `sdb`?"));
}

#[test]
fn a_log_of_requests_is_counted_by_second() {
    let derived = fio(&[("x_lat.1.log", REQUESTS)]).unwrap();
    let count = REQUESTS.lines().count() as f64;
    let counted = (derived.reads.iops + derived.writes.iops) * derived.seconds;
    assert!(counted > count * 0.7 && counted <= count, "{counted} of {count}: {derived:?}");
    assert!(derived.need.read_bytes > 16 << 10 && derived.need.read_bytes < 128 << 10, "{derived:?}");
    assert!(derived.notes[0].contains("does not say where requests went"), "{derived:?}");
    // 40 writes of 64 KiB a second, each after the one before.
    let derived = fio(&[("s_lat.1.log", SEQUENTIAL)]).unwrap();
    assert_eq!(derived.text, "write bs=64k 2.5MiB/s");
    assert!(derived.notes[0].contains("100 % of the requests follow"), "{derived:?}");
    // A second without requests is idle.
    let idle = "10, 1, 0, 4096, 0\n20, 1, 0, 4096, 0\n4100, 1, 0, 4096, 0\n5000, 1, 0, 4096, 0\n";
    let derived = fio(&[("i_lat.log", idle)]).unwrap();
    assert_eq!((derived.seconds, derived.samples), (5.0, 3));
}

#[test]
fn averaged_logs_need_both_kinds() {
    let both = [("a_bw.1.log", AVERAGED_BW), ("a_iops.1.log", AVERAGED_IOPS)];
    let derived = fio(&both).unwrap();
    assert!(
        is_close(derived.reads.iops, 150.0, 0.02) && is_close(derived.writes.iops, 50.0, 0.02),
        "{derived:?}"
    );
    assert_eq!((derived.need.read_bytes, derived.need.write_bytes), (65_536, 131_072));
    assert!(is_close(derived.need.mib_per_s, 150.0 / 16.0 + 50.0 / 8.0, 0.03), "{}", derived.text);
    // Two jobs at once.
    let twice =
        fio(&[both[0], both[1], ("a_bw.2.log", AVERAGED_BW), ("a_iops.2.log", AVERAGED_IOPS)]).unwrap();
    assert!(is_close(twice.need.mib_per_s, 2.0 * derived.need.mib_per_s, 0.01), "{}", twice.text);
    let error = |files: &[(&str, &str)]| fio(files).unwrap_err().to_string();
    assert!(error(&both[..1]).contains("the log of _iops is missing"));
    assert!(error(&both[1..]).contains("the log of _bw is missing"));
    assert!(error(&[("a_lat.log", AVERAGED_BW)]).contains("line 1: with log_avg_msec a log has no requests"));
    assert!(error(&[both[0], both[1], ("x_lat.log", REQUESTS)]).contains("some do not: give one kind"));
}

#[test]
fn a_request_that_several_logs_of_a_job_list_counts_once() {
    let alone = fio(&[("k_lat.1.log", SEQUENTIAL)]).unwrap();
    let left_out = |derived: &Derived| derived.notes.iter().find(|note| note.contains("left out")).cloned();
    assert_eq!(left_out(&alone), None);
    let kinds = ["k_slat.1.log", "k_clat.1.log", "k_lat.1.log", "k_iops.1.log", "k_bw.1.log"];
    for count in 2..=kinds.len() {
        let files: Vec<_> = kinds[..count].iter().map(|name| (*name, SEQUENTIAL)).collect();
        let derived = fio(&files).unwrap();
        assert_eq!((derived.text.as_str(), derived.writes), (alone.text.as_str(), alone.writes), "{count}");
        assert!(left_out(&derived).unwrap().starts_with(if count == 2 {
            "k_slat.1.log: "
        } else {
            "k_clat.1.log, "
        }));
    }
    // Engines that submit and complete at once have nothing to log of the one.
    let derived = fio(&[("k_lat.1.log", ""), ("k_clat.1.log", SEQUENTIAL)]).unwrap();
    assert_eq!(derived.text, alone.text);
    // Other jobs, folders and names are not the same requests.
    for other in ["k_clat.2.log", "l_clat.1.log", "b/k_clat.1.log", "k.log"] {
        let derived = fio(&[("k_lat.1.log", SEQUENTIAL), (other, SEQUENTIAL)]).unwrap();
        assert_eq!(left_out(&derived), None);
        assert!(is_close(derived.writes.iops, 2.0 * alone.writes.iops, 1e-9), "{other}: {derived:?}");
    }
}

#[test]
fn mistakes_in_logs_are_named_by_line() {
    let error = |text: &str| fio(&[("x_lat.log", text)]).unwrap_err().to_string();
    assert_eq!(
        error("0, 1, 0, 4096\n5, 1, 0, 4096\n3, 1, 0, 4096\n"),
        "x_lat.log: line 3: the clock goes back, from 5 to 3 ms"
    );
    assert!(error("0, 1, 7, 4096\n").contains("line 1: the direction `7`"));
    assert!(error("0, 1\n").contains("line 1: a line has a time"));
    assert!(error("99999999999999999, 1, 0, 4096\n").contains("longer than any run"));
    assert!(error("").contains("it has no request"));
    let hole = "1000, 5, 0, 0\n2000, 5, 0, 0\n5000, 5, 0, 0\n6000, 5, 0, 0\n";
    let derived = fio(&[("h_bw.log", hole), ("h_iops.log", hole)]).unwrap();
    assert_eq!(derived.holes[0], "h_bw.log: line 3: nothing was logged for 2000 ms");
    assert_eq!((derived.samples, derived.seconds), (4, 4.0));
    // A direction without requests is no hole while the other one has some.
    let late = "1000, 5, 0, 0\n2000, 5, 0, 0\n3000, 5, 0, 0\n3001, 5, 1, 0\n4000, 5, 0, 0\n";
    let derived = fio(&[("l_bw.log", late), ("l_iops.log", late)]).unwrap();
    assert!(derived.holes.is_empty() && derived.samples == 4, "{derived:?}");
    assert!(error("1795000000000, 1, 0, 4096\n").contains("run fio without log_unix_epoch"));
}

#[test]
fn a_day_of_cloudwatch_has_a_peak_and_holes() {
    // 300 + 60 requests a second for two hours, 20 + 10 in the others; 15 minutes without values and one value missing.
    let derived = cloudwatch(CLOUDWATCH).unwrap();
    assert_eq!(derived.device, "vol-0a1b2c3d4e5f60718");
    let need = &derived.need;
    assert_eq!((need.read_bytes, need.write_bytes, need.read_percent), (65_536, 131_072, 83.3));
    let peak = need.peak.unwrap();
    assert!(is_close(peak.mib_per_s, 300.0 / 16.0 + 60.0 / 8.0, 0.01), "{peak:?}");
    assert!(is_close(peak.hours_per_day, 2.0, 0.03), "{peak:?}");
    // 30 requests a second of the peak's sizes.
    assert!(need.mib_per_s >= 2.5 && need.mib_per_s < 2.5 * 1.1, "{need:?}");
    assert_eq!(derived.samples, 284);
    assert_eq!(derived.holes[0], "3 periods without values before 2026-11-01T03:35:00Z");
    assert_eq!(derived.holes[1], "no VolumeWriteOps at 2026-11-01T04:10:00Z");
    // And `decide` takes it.
    let question = Question {
        need: derived.text.parse().unwrap(),
        data_gib: 2048.0,
        region: "eu-west-1".to_owned(),
        instance: None,
        hours_per_day: None,
        count_max: 4,
        copies: 1,
        snapshot_gib: None,
    };
    let decision = decide(&frostline_model::catalogue::Catalogue::latest(), &question).unwrap();
    assert!(decision.answer.starts_with("Buy "), "{}", decision.answer);
}

#[test]
fn mistakes_in_exports_are_named() {
    let wrong = |from: &str, to: &str| refused(CLOUDWATCH, from, to, cloudwatch);
    assert!(wrong("VolumeReadBytes", "VolumeQueueLength").contains("the metric VolumeReadBytes is missing"));
    let error = wrong("2026-11-01T23:45:00+00:00", "2026-11-01T23:55:01+00:00");
    assert!(error.contains("cw.json: MetricDataResults[0].Timestamps[2]: the clock goes back"), "{error}");
    assert!(
        wrong("2026-11-01T23:45:00+00:00", "yesterday").contains("the time \"yesterday\" cannot be read")
    );
    assert!(wrong("\"Values\":[6000.0,", "\"Values\":[").contains("has 285 times for 284 values"));
    assert!(
        wrong("\"Values\":[6000.0,", "\"Values\":[-6000.0,").contains(".Values[0]: -6000.0 is not a number")
    );
    assert!(cloudwatch("[").unwrap_err().to_string().contains("not JSON; it is cut"));
    assert!(cloudwatch("{}").unwrap_err().to_string().contains("neither"));
}

/// `get-metric-data` of one volume: requests of 4 KiB, 100 a second, at these seconds.
fn exported(times: &[i64], period: f64) -> String {
    let metric = |name: &str, each: f64| serde_json::json!({"Label": name, "Timestamps": times, "Values": vec![each * period; times.len()]});
    let results = [
        metric("VolumeReadOps", 100.0),
        metric("VolumeReadBytes", 409_600.0),
        metric("VolumeWriteOps", 0.0),
        metric("VolumeWriteBytes", 0.0),
    ];
    serde_json::json!({ "MetricDataResults": results }).to_string()
}

#[test]
fn exports_may_overlap_but_not_contradict_each_other() {
    let read = |files: &[String]| {
        let files: Vec<_> = files.iter().map(|text| (Path::new("cw.json"), text.clone())).collect();
        cloudwatch::read(&files).map(|traces| traces[0].samples.len())
    };
    let (first, second) = (exported(&[0, 300, 600, 600], 300.0), exported(&[600, 900, 1200], 300.0));
    assert_eq!(read(&[first.clone(), second.clone()]).unwrap(), 5);
    let other = second.replacen("30000.0", "29999.0", 1);
    let error = read(&[first, other]).unwrap_err().to_string();
    assert_eq!(
        error,
        "cw.json: MetricDataResults[0].Values[0]: 1970-01-01T00:10:00Z already has the value 30000, not 29999"
    );
}

#[test]
fn other_periods_statistics_and_units_are_refused() {
    let hours = [0, 300, 600, 900, 3600, 7200, 10_800, 14_400];
    let error = cloudwatch(&exported(&hours, 300.0)).unwrap_err().to_string();
    assert!(error.contains("values from 1970-01-01T01:00:00Z on are 3600 s apart, others 300 s"), "{error}");
    // Two holes of the same length are holes.
    assert_eq!(cloudwatch(&exported(&[0, 300, 1200, 2100, 2400], 300.0)).unwrap().holes.len(), 2);
    let averages = exported(&[0, 300], 300.0).replace("122880000.0", "4096.0");
    let error = cloudwatch(&averages).unwrap_err().to_string();
    assert!(
        error.contains("VolumeReadBytes is 0.1 bytes for each of VolumeReadOps: both must be sums"),
        "{error}"
    );
    let point =
        serde_json::json!({"Timestamp": "2026-11-01T00:00:00+09:00", "Sum": 5.0, "Unit": "Kilobytes"});
    let error =
        cloudwatch(&serde_json::json!({"Label": "VolumeReadBytes", "Datapoints": [point]}).to_string());
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "cw.json: Datapoints[0]: its unit is Kilobytes, not Count or Bytes");
    // Times of two zones are one time.
    let zones = exported(&[0, 300], 300.0)
        .replace("[0,300]", "[\"1970-01-01T09:00:00+09:00\",\"1970-01-01T00:05:00Z\"]");
    assert_eq!(cloudwatch(&zones).unwrap().text, "randread bs=4k 0.4MiB/s");
}

#[test]
fn a_file_is_given_once() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a_lat.log");
    std::fs::write(&log, REQUESTS).unwrap();
    let args = |files: Vec<std::path::PathBuf>| args::NeedArgs {
        from: args::From::FioLog,
        files,
        device: None,
        sequential: false,
    };
    assert!(args::run(&args(vec![log.clone()])).is_ok());
    let again = folder.path().join(".").join("a_lat.log");
    let error = args::run(&args(vec![log, again.clone()])).unwrap_err().to_string();
    assert_eq!(error, format!("{} is given twice", again.display()));
}

#[test]
fn statistics_come_in_no_order_and_one_metric_a_file() {
    let file = |metric: &str, sums: [f64; 3]| {
        let point = |(hour, sum): (u32, f64)| serde_json::json!({"Timestamp": format!("2026-11-01T0{hour}:00:00Z"), "Sum": sum, "Unit": "Count"});
        let points: Vec<_> = [(2, sums[2]), (0, sums[0]), (1, sums[1])].into_iter().map(point).collect();
        (Path::new("s.json"), serde_json::json!({"Label": metric, "Datapoints": points}).to_string())
    };
    let files = |drop: &str| {
        let of = |metric: &str, each: f64| file(metric, [each, each, each].map(|sum| sum * 3600.0));
        let all = [
            of("VolumeReadOps", 100.0),
            of("VolumeReadBytes", 409_600.0),
            of("VolumeWriteOps", 0.0),
            of("VolumeWriteBytes", 0.0),
        ];
        all.map(|(path, text)| (path, text.replace(drop, "Average")))
    };
    let traces = cloudwatch::read(&files("none")).unwrap();
    assert_eq!(derive(&traces[0], false).unwrap().text, "randread bs=4k 0.4MiB/s");
    let error = cloudwatch::read(&files("Sum")).unwrap_err().to_string();
    assert!(error.contains("Datapoints[0]: it has no Sum: ask with --statistics Sum"), "{error}");
}

#[test]
fn a_capture_is_one_sample_and_counters_that_go_back_are_named() {
    let stat = |reads: u64| format!("259 0 nvme1n1 {reads} 0 {} 10 50 0 800 10 0 100 110\n", reads * 16);
    let tree = |reads: u64| Tree::from_files([("proc/diskstats".to_owned(), stat(reads).into_bytes())]);
    let host =
        |first: u64, second: u64| Host::twice(tree(0), tree(first), tree(second), 10.0, Said::default());
    let (loads, seconds) = host(100, 1100).disk_loads().unwrap();
    assert_eq!(
        (loads["nvme1n1"].reads, loads["nvme1n1"].read_bytes, seconds),
        (1000.0, 1000.0 * 8192.0, 10.0)
    );
    assert_eq!(loads["nvme1n1"].writes, 0.0);
    let absent = host(1100, 100).disk_loads().unwrap_err().to_string();
    assert_eq!(absent, "/proc/diskstats: the counters of nvme1n1 went back");
    let once = Host::once(tree(5), Said::default()).disk_loads().unwrap_err().to_string();
    assert!(once.contains("was read once"), "{once}");
    let error = capture::read(&["/".into()]).unwrap_err().to_string();
    assert_eq!(error, "/ is not a capture: frostline doctor capture makes one");
}

#[test]
fn two_levels_are_a_peak_only_if_they_differ_and_one_is_rare() {
    let sample =
        |mib: f64| Sample { seconds: 60.0, reads: mib * 16.0, read_bytes: mib * MIB, ..Sample::default() };
    let trace = |rates: &[(usize, f64)]| Trace {
        device: "d".to_owned(),
        samples: rates.iter().flat_map(|(count, mib)| vec![sample(*mib); *count]).collect(),
        ..Trace::default()
    };
    let text = |rates: &[(usize, f64)]| derive(&trace(rates), false).unwrap().text;
    assert_eq!(text(&[(90, 60.0), (10, 600.0)]), "randread bs=64k 1MiB/s peak=10MiB/s,2.4h");
    // Too alike, or most of the time.
    assert_eq!(text(&[(90, 500.0), (10, 600.0)]), "randread bs=64k 10MiB/s");
    assert_eq!(text(&[(10, 60.0), (90, 600.0)]), "randread bs=64k 10MiB/s");
    assert_eq!(text(&[(1, 60.0)]), "randread bs=64k 1MiB/s");
    assert!(derive(&trace(&[(10, 0.0)]), false).is_err());
}

/// Samples of five minutes over so many days; `rate` says requests a second and their bytes at an hour.
fn days(days: usize, rate: impl Fn(f64) -> (f64, f64)) -> Trace {
    let sample = |at: usize| {
        let (reads, bytes) = rate(at as f64 / 12.0);
        let (start, seconds) = (Some(at as f64 * 300.0), 300.0);
        Sample {
            start,
            seconds,
            reads: reads * seconds,
            read_bytes: reads * bytes * seconds,
            ..Sample::default()
        }
    };
    Trace { device: "d".to_owned(), samples: (0..days * 288).map(sample).collect(), ..Trace::default() }
}

#[test]
fn a_need_says_no_rate_that_was_never_there() {
    // Eight hours of many small requests and one of few large ones.
    let derived = derive(
        &days(3, |hour| match hour % 24.0 {
            2.0..3.0 => (400.0, 262_144.0),
            9.0..17.0 => (4000.0, 4096.0),
            _ => (5.0, 4096.0),
        }),
        false,
    )
    .unwrap();
    assert_eq!(derived.need.most_mib_per_s(), 100.0, "{}", derived.text);
    assert!(is_close(derived.need.iops(), 4000.0, 0.05), "{} IOPS: {}", derived.need.iops(), derived.text);
    assert!(derived.notes.iter().any(|note| note.contains("has the peak's rate all day")), "{derived:?}");
    // One level of both.
    let derived =
        derive(&days(1, |hour| if hour % 2.0 < 1.0 { (64.0, 1_048_576.0) } else { (8000.0, 8192.0) }), false);
    let need = derived.unwrap().need;
    assert_eq!((need.mib_per_s, need.read_bytes), (64.0, 8192), "{need}");
    // Smaller requests outside the peak: their own MiB/s, and how many they are.
    let derived =
        derive(&days(1, |hour| if hour < 2.0 { (800.0, 131_072.0) } else { (100.0, 32_768.0) }), false);
    let Derived { text, need, .. } = derived.unwrap();
    assert_eq!(text, "randread bs=128k 3.13MiB/s 100iops peak=100MiB/s,2h");
    assert_eq!((need.base_mib_per_s(), need.iops()), (12.5, 100.0));
    // Larger or equal requests: the MiB/s say everything.
    for (requests, bytes) in [(100.0, 262_144.0), (200.0, 131_072.0)] {
        let rate = |hour: f64| if hour < 2.0 { (800.0, 131_072.0) } else { (requests, bytes) };
        let derived = derive(&days(1, rate), false).unwrap();
        assert_eq!(derived.text, "randread bs=128k 25MiB/s peak=100MiB/s,2h");
    }
}

#[test]
fn hours_of_a_peak_are_those_of_the_longest_day() {
    let text = |count: usize, is_peak: &dyn Fn(f64) -> bool| {
        let rate = |hour: f64| (if is_peak(hour) { 800.0 } else { 16.0 }, 131_072.0);
        let derived = derive(&days(count, rate), false).unwrap();
        let differ = derived.notes.iter().any(|note| note.starts_with("Days differ: the peak lasts up to "));
        (derived.text.replace("randread bs=128k ", ""), differ)
    };
    let peak = |hours: &str| format!("2MiB/s peak=100MiB/s,{hours}h");
    // Every day, once a week, over midnight, and in two parts of one day.
    assert_eq!(text(7, &|hour| hour % 24.0 < 3.0), (peak("3"), false));
    assert_eq!(text(28, &|hour| hour % 168.0 < 14.0), (peak("14"), true));
    assert_eq!(text(4, &|hour| (20.0..29.0).contains(&hour)), (peak("9"), true));
    assert_eq!(text(4, &|hour| (2.0..4.0).contains(&hour) || (8.0..10.0).contains(&hour)), (peak("4"), true));
    // A whole day of it is no peak.
    assert_eq!(text(7, &|hour| hour < 30.0), ("100MiB/s".to_owned(), false));
}

proptest::proptest! {
    #[test]
    fn no_text_is_a_panic(text in "([0-9:/., {}\\[\\]\"\\n-]|Device|vda|r/s|rkB/s|w/s|wkB/s|11/24/26 18:53:4|Timestamps|Values|MetricDataResults){0,60}") {
        let _ = (iostat(&text), cloudwatch(&text), fio(&[("x_bw.log", &text)]), fio(&[("x_lat.log", &text)]));
    }

    #[test]
    fn a_need_is_read_as_it_is_written(rates in proptest::collection::vec((0.0..5000.0_f64, 0.0..5e8_f64, 0.0..5000.0_f64, 0.0..5e8_f64), 1..40)) {
        let samples = rates.iter().map(|(reads, read_bytes, writes, write_bytes)| Sample {
            start: None,
            seconds: 1.0,
            reads: reads.floor(),
            read_bytes: if reads.floor() > 0.0 { *read_bytes } else { 0.0 },
            writes: writes.floor(),
            write_bytes: if writes.floor() > 0.0 { *write_bytes } else { 0.0 },
        }).collect();
        let trace = Trace { device: "d".to_owned(), samples, ..Trace::default() };
        if let Ok(derived) = derive(&trace, false) {
            let again = derived.text.parse::<Need>();
            proptest::prop_assert!(again.is_ok(), "{}: {again:?}", derived.text);
            let most = trace.samples.iter().map(Sample::mib_per_s).fold(0.0, f64::max);
            proptest::prop_assert!((0.0..=most + 0.01).contains(&derived.need.most_mib_per_s()), "{}", derived.text);
            proptest::prop_assert_eq!(&again.unwrap(), &derived.need);
            // Of the lower level, its own.
            let (low, high) = levels(&trace.samples);
            let low = if derived.need.peak.is_some() { low } else { [low, high].concat() };
            let (mib, iops) = (covered(&low, Sample::mib_per_s), covered(&low, Sample::iops));
            proptest::prop_assert!(derived.need.mib_per_s <= mib + 0.01, "{}: {mib}", derived.text);
            proptest::prop_assert!(derived.need.requests_per_s.unwrap_or(0.0) <= iops + 0.01, "{}: {iops}", derived.text);
        }
    }
}
