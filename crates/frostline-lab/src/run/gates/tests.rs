use super::*;

const MIB: u64 = 1 << 20;

fn strict() -> Gates {
    Gates {
        device_bytes: Some((0.98, 1.05)),
        cpu_pressure_max: Some(15.0),
        steal_percent_max: Some(5.0),
        overrun_percent_max: Some(5.0),
        resident_max: Some(0.05),
    }
}

fn good() -> Reading {
    Reading {
        application: Some((75 * MIB, 25 * MIB)),
        device: Some(DeviceBytes { read: 75 * MIB, written: 26 * MIB, flushes: 0 }),
        cpu_pressure: Some(3.0),
        steal_percent: 0.0,
        resident: Some(0.0),
        loop_direct: Some(true),
        balance: Some((1.0, 1.0)),
        ..Reading::default()
    }
}

#[track_caller]
fn check(reading: Reading, voided_by: &[&str]) {
    let judged = judge(&strict(), &reading);
    let failed: Vec<&str> = judged.iter().filter(|g| !g.passed).map(|g| g.name.as_str()).collect();
    assert_eq!(failed, voided_by, "{judged:?}");
}

#[test]
fn a_sample_that_measured_the_device_stands() {
    check(good(), &[]);
}

#[test]
fn what_a_cache_served_is_voided() {
    let cached = Some(DeviceBytes { read: 10 * MIB, written: 25 * MIB, flushes: 0 });
    check(Reading { device: cached, ..good() }, &["device_bytes"]);
}

#[test]
fn direct_io_that_fell_back_is_voided() {
    check(Reading { resident: Some(0.9), ..good() }, &["direct_io"]);
    check(Reading { loop_direct: Some(false), ..good() }, &["loop_direct_io"]);
}

#[test]
fn a_disturbed_machine_voids() {
    check(Reading { cpu_pressure: Some(40.0), ..good() }, &["cpu_pressure"]);
    check(Reading { steal_percent: 20.0, ..good() }, &["steal"]);
    check(Reading { overrun_percent: Some(20.0), ..good() }, &["host_disk"]);
}

#[test]
fn a_bucket_in_another_state_and_errors_void() {
    check(Reading { balance: Some((0.0, 0.4)), ..good() }, &["bucket"]);
    check(Reading { errors: 1, ..good() }, &["errors"]);
}

#[test]
fn what_cannot_be_read_is_not_judged() {
    let names: Vec<String> =
        judge(&strict(), &Reading::default()).into_iter().map(|gate| gate.name).collect();
    assert_eq!(names, ["errors", "steal"]);
}
