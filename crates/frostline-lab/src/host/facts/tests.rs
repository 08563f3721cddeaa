use super::*;

#[test]
fn pressure_is_the_some_line() {
    let text =
        "some avg10=12.34 avg60=5.00 avg300=1.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    assert_eq!(parse_pressure(text), Some(12.34));
    assert_eq!(parse_pressure(""), None);
    assert_eq!(parse_pressure("some avg10=x"), None);
}

#[test]
fn waiting_is_the_second_number() {
    assert_eq!(parse_waited("250 1500000 7\n"), Some(Duration::from_micros(1500)));
    assert_eq!(parse_waited(""), None);
    assert_eq!(parse_waited("1 x 2"), None);
}

#[test]
fn steal_is_a_part_of_all_time_between_two_readings() {
    let before = parse_cpu_time("cpu  100 0 100 700 0 0 0 100 50 0\ncpu0 1 2\n").unwrap();
    let after = parse_cpu_time("cpu  150 0 100 740 0 0 0 110 60 0\n").unwrap();
    assert_eq!(before, CpuTime { total: 1000, steal: 100 });
    assert_eq!(after.steal_percent_since(before), 10.0);
    assert_eq!(after.steal_percent_since(after), 0.0);
    assert_eq!(parse_cpu_time("cpu  1 2 3"), None);
}

#[test]
fn device_bytes_are_sectors_of_512() {
    let text = "  10 0 8 0  20 0 16 0  0 0 0  0 0 0 0  3 0";
    assert_eq!(DeviceBytes::parse(text), Some(DeviceBytes { read: 4096, written: 8192, flushes: 3 }));
    assert_eq!(DeviceBytes::parse("1 2 3"), None);
    assert!(DeviceBytes::of(Path::new("/dev/frostline-none")).is_err());
}

#[test]
fn values_are_found_after_their_names() {
    assert_eq!(value_after("PRETTY_NAME=\"Debian 12\"\n", "PRETTY_NAME").as_deref(), Some("Debian 12"));
    assert_eq!(number_after("MemTotal:       24 kB\n", "MemTotal:"), Some(24));
}

#[test]
fn this_machine_has_a_kernel_and_memory() {
    let machine = machine();
    assert!(!machine.kernel.is_empty());
    assert!(machine.memory_bytes > 0 && machine.cpus > 0);
}
