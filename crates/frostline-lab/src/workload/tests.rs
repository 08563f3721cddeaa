use proptest::prelude::*;

use super::*;

fn printed(stdout: &str, stderr: &str) -> Printed {
    Printed { stdout: stdout.into(), stderr: stderr.into() }
}

fn read_fixture(tool: &str, text: &str) -> Measured {
    read(tool, &BTreeMap::new(), &printed(text, text), 1.0).unwrap()
}

#[test]
fn fio_mixed_reads_and_writes() {
    let measured = read_fixture("fio", include_str!("fixtures/fio-mix.json"));
    let v = &measured.values;
    assert!((v["mib_per_s"] - v["read_mib_per_s"] - v["write_mib_per_s"]).abs() < 1e-6, "{v:?}");
    assert!((v["iops"] - v["read_iops"] - v["write_iops"]).abs() < 1e-6);
    // 16 KiB a request.
    assert!((v["mib_per_s"] / v["iops"] * 64.0 - 1.0).abs() < 0.01, "{v:?}");
    assert!(v["read_p50_ms"] > 0.0 && v["read_p50_ms"] <= v["read_p99_ms"]);
    let (read, written) = measured.bytes.unwrap();
    assert!(read > written && written > 0);
    assert_eq!(measured.errors, 0);
}

#[test]
fn fio_syncs_have_latencies_of_their_own() {
    let v = read_fixture("fio", include_str!("fixtures/fio-fsync.json")).values;
    assert!((v["sync_p50_ms"] - 2.768896).abs() < 1e-9, "{v:?}");
    assert!((v["sync_iops"] / v["write_iops"] - 1.0).abs() < 0.05, "{v:?}");
    assert!(!v.contains_key("read_iops"));
}

#[test]
fn fio_that_failed_is_not_a_figure() {
    let text = include_str!("fixtures/fio-mix.json").replace("\"error\" : 0", "\"error\" : 5");
    assert!(read("fio", &BTreeMap::new(), &printed(&text, ""), 1.0).is_err());
}

#[test]
fn fio_says_what_was_done_so_far() {
    let document = |ms: u64, requests: u64| {
        let side = format!(
            r#"{{"io_bytes": {}, "bw_bytes": 1, "iops": 1.0, "runtime": {ms}, "total_ios": {requests}}}"#,
            requests * 4096
        );
        format!("{{\n  \"jobs\": [{{\"bw_agg\": 0.25, \"read\": {side}, \"write\": {side}}}]\n}}")
    };
    let text = format!("note: a note\n{}\n{}\n", document(1000, 10), document(2001, 25));
    let moments = so_far(&mut text.clone()).unwrap();
    let last = SoFar { seconds: 2.001, requests: 50, bytes: 50 * 4096 };
    assert_eq!((moments.len(), moments[1]), (2, last));
    // A document that is still being written, at whatever byte.
    for cut in 0..text.len() {
        let (mut begun, rest) = (text[..cut].to_owned(), &text[cut..]);
        let mut pieces = so_far(&mut begun).unwrap();
        begun.push_str(rest);
        pieces.extend(so_far(&mut begun).unwrap());
        assert_eq!(pieces, moments, "{cut}");
    }
    assert!(so_far(&mut "{\n\"jobs\": 7\n}\n".to_owned()).is_err());
}

#[test]
fn what_may_write_is_not_only_read() {
    let check = |arguments: &str, expected: bool| assert_eq!(writes(arguments), expected, "{arguments}");
    check("--name=a --filename={device} --rw=randread --bs=4k", false);
    check("--readwrite=read --name=a", false);
    for arguments in [
        "--name=a --rw=randrw",
        "--name=a --rw={pattern}",
        "--name=a",
        "job.fio --rw=read",
        "--name=a --rw=read --name=b --rw=write",
        "--name=a --rw=trim",
        "",
    ] {
        check(arguments, true);
    }
}

#[test]
fn dd_is_worked_out_from_bytes_and_seconds() {
    let measured = read_fixture("dd", include_str!("fixtures/dd.txt"));
    assert!((measured.values["mb_per_s"] - 13_107_200.0 / 0.0143137 / 1e6).abs() < 1e-6);
    assert_eq!(measured.bytes, Some((0, 13_107_200)));
}

#[test]
fn sysbench_prints_events_or_mib() {
    let cpu = read_fixture("sysbench", include_str!("fixtures/sysbench-cpu.txt")).values;
    assert_eq!((cpu["events_per_s"], cpu["p95_ms"]), (1823.84, 8.43));
    let memory = read_fixture("sysbench", include_str!("fixtures/sysbench-memory.txt")).values;
    assert_eq!(memory["mib_per_s"], 3020.64);
}

#[test]
fn iperf3_counts_what_was_received() {
    let v = read_fixture("iperf3", include_str!("fixtures/iperf3.json")).values;
    assert!((v["gbit_per_s"] - 4.256_868_438).abs() < 1e-6, "{v:?}");
    assert_eq!(v["retransmits"], 17.0);
    let refused = r#"{"start": {}, "error": "unable to connect to server: Connection refused"}"#;
    let error = read("iperf3", &BTreeMap::new(), &printed(refused, ""), 1.0).unwrap_err();
    assert!(format!("{error:?}").contains("Connection refused"));
}

#[test]
fn pgbench_prints_tps_and_latency() {
    let measured = read_fixture("pgbench", include_str!("fixtures/pgbench.txt"));
    assert_eq!((measured.values["tps"], measured.values["latency_mean_ms"]), (293.237229, 6.82));
    assert_eq!(measured.errors, 0);
}

#[test]
fn a_command_is_read_by_patterns() {
    let patterns = BTreeMap::from([("rate_per_s".to_owned(), r"rate=(\d+)".to_owned())]);
    let measured = read("command", &patterns, &printed("rate=42\n", ""), 2.5).unwrap();
    assert_eq!((measured.values["rate_per_s"], measured.values["seconds"]), (42.0, 2.5));
    assert!(read("command", &patterns, &printed("nothing", ""), 2.5).is_err());
}

#[test]
fn arguments_are_filled_after_they_are_split() {
    let values = BTreeMap::from([("directory".to_owned(), "/with space".to_owned())]);
    let words = arguments("fio", "--rw=read  --directory={directory}", &values).unwrap();
    assert_eq!(words, ["--output-format=json", "--rw=read", "--directory=/with space"]);
}

#[test]
fn units_follow_from_names() {
    for (metric, expected) in [
        ("drained_mib_per_s", "MiB/s"),
        ("sync_p99_ms", "ms"),
        ("write_iops", "IOPS"),
        ("events_per_s", "1/s"),
    ] {
        assert_eq!(unit(metric), expected);
    }
}

proptest! {
    /// Whatever a tool prints, reading it is a value or an error; half of a real text too.
    #[test]
    fn no_text_panics(text in ".{0,200}", cut in 0_usize..4000) {
        let fio = include_str!("fixtures/fio-mix.json");
        let half = fio.get(..cut.min(fio.len())).unwrap_or_default();
        for tool in TOOLS {
            let _ = read(tool, &BTreeMap::new(), &printed(&text, &text), 1.0);
            prop_assert!(read(tool, &BTreeMap::from([("x".into(), "x(x)".into())]), &printed(half, half), 1.0).is_err());
        }
    }
}
