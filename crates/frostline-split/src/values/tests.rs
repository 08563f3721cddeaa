use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn us(text: &str) -> Option<i64> {
    Some(text.parse::<Timestamp>().unwrap().as_microsecond())
}

#[test]
fn dates_of_the_iso_subset_are_read() {
    let check = |text: &str, expected: &str| assert_eq!(parse_date(text), us(expected), "{text}");
    check("2020-06-10", "2020-06-10T00:00:00Z");
    check("2020-06-10T02:50", "2020-06-10T02:50:00Z");
    check("2020-06-10T02:50:56", "2020-06-10T02:50:56Z");
    check("2020-06-10T02:50:56Z", "2020-06-10T02:50:56Z");
    check("2020-06-10T02:50:56.537Z", "2020-06-10T02:50:56.537Z");
    check("2020-06-10T02:50:56.123456789Z", "2020-06-10T02:50:56.123456Z");
    check("2020-06-10T02:50:56.1234567891234Z", "2020-06-10T02:50:56.123456Z");
    check("2020-06-10T02:50:56+02:00", "2020-06-10T00:50:56Z");
    check("2020-06-10T02:50-0530", "2020-06-10T08:20:00Z");
    check("2020-02-29", "2020-02-29T00:00:00Z");
    check("0001-01-01", "0001-01-01T00:00:00Z");
    check("9999-12-30T21:59:59.999999Z", "9999-12-30T21:59:59.999999Z");
    check("1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z");
}

#[test]
fn the_end_of_the_calendar_is_a_time_and_what_follows_is_none() {
    let end = Some(253_402_300_799_999_999);
    let text = "9999-12-31T23:59:59.999999Z";
    assert_eq!((parse_date(text), parse_time_field(&Value::Text(text))), (end, end));
    assert_eq!(parse_time_field(&Value::Text("9999-12-31 23:59:59.999999")), end);
    assert_eq!(parse_time_field(&Value::Long(253_402_300_799_999_999)), end);
    assert_eq!(parse_time_field(&Value::Text("9999-12-31T23:59:59-00:01")), None);
    assert_eq!(parse_time_field(&Value::Date(Moment::of_us(253_402_300_800_000_000))), None);
}

/// A number counts the same on both sides of 1970, and as text.
#[test]
fn numbers_count_the_units_that_their_magnitude_says() {
    for (number, time_us) in [
        (99_999_999_999, 99_999_999_999_000_000),
        (100_000_000_000, 100_000_000_000_000),
        (100_000_000_000_000, 100_000_000_000_000_000),
        (253_402_300_799_999, 253_402_300_799_999_000),
        (253_402_300_800_000, 253_402_300_800_000),
        (253_402_300_799_999_999, 253_402_300_799_999_999),
        (253_402_300_800_000_000, 253_402_300_800_000),
    ] {
        for sign in [1, -1] {
            assert_eq!(parse_time_field(&Value::Long(sign * number)), Some(sign * time_us), "{number}");
            let double = (sign * number) as f64;
            if double as i64 == sign * number {
                assert_eq!(parse_time_field(&Value::Double(double)), Some(sign * time_us), "{number}");
            }
        }
        assert_eq!(parse_time_field(&Value::Text(&number.to_string())), Some(time_us), "{number}");
    }
}

#[test]
fn what_is_no_date_is_none() {
    let none = [
        "",
        "2020",
        "2020-06",
        "2020-6-10",
        "2020-06-10T",
        "2020-06-10T02",
        "2020-06-10 02:50:56",
        "2021-02-29",
        "2020-13-01",
        "2020-00-01",
        "2020-06-10T24:00",
        "2020-06-10T02:60",
        "2020-06-10T02:50:61Z",
        "2020-06-10Z",
        "2020-06-10T02:50:56.Z",
        "2020-06-10T02:50:56,5Z",
        "2020-06-10T02:50+0",
        "2020-06-10T02:50+24:00",
        "2020-06-10T02:50ZZ",
        "+2020-06-10",
        "20a0-06-10",
        "２０２０-06-10",
        "2020-06-10T02:50:56+99:99",
    ];
    for text in none {
        assert_eq!(parse_date(text), None, "{text}");
    }
}

#[test]
fn the_time_field_takes_what_logs_write() {
    let check =
        |value: Value<'_>, expected: &str| assert_eq!(parse_time_field(&value), us(expected), "{value:?}");
    check(Value::Text("2020-06-09 22:50:54"), "2020-06-09T22:50:54Z");
    check(Value::Text("2020-06-09 22:50:54.631"), "2020-06-09T22:50:54.631Z");
    check(Value::Text("2020-06-09 22:50:54.631 +0200"), "2020-06-09T20:50:54.631Z");
    check(Value::Text("2020/06/09 22:50:54"), "2020-06-09T22:50:54Z");
    check(Value::Text("10/Oct/2000:13:55:36 -0700"), "2000-10-10T20:55:36Z");
    check(Value::Text(" 2020-06-09T22:50:54Z "), "2020-06-09T22:50:54Z");
    check(Value::Text("1591742096537"), "2020-06-09T22:34:56.537Z");
    check(Value::Text("1591742096.537"), "2020-06-09T22:34:56.537Z");
    check(Value::Long(1_591_742_096), "2020-06-09T22:34:56Z");
    check(Value::Long(1_591_742_096_537), "2020-06-09T22:34:56.537Z");
    check(Value::Long(1_591_742_096_537_123), "2020-06-09T22:34:56.537123Z");
    check(Value::Long(1_591_742_096_537_123_999), "2020-06-09T22:34:56.537123Z");
    check(Value::Long(-1), "1969-12-31T23:59:59Z");
    check(Value::Double(1_591_742_096.537), "2020-06-09T22:34:56.537Z");
    check(Value::Double(1_591_742_096_537.25), "2020-06-09T22:34:56.537250Z");
}

/// No digit is lost to a double, and those after the nanosecond are cut: the time is never in the next minute.
#[test]
fn the_digits_of_a_number_since_1970_are_its_time() {
    let check = |value: Value<'_>, expected: &str| {
        assert_eq!(parse_moment_field(&value), parse_moment(expected), "{value:?}");
    };
    check(Value::Text("1700000039.9999999"), "2023-11-14T22:13:59.9999999Z");
    check(Value::Text("1700000039.99999999999"), "2023-11-14T22:13:59.999999999Z");
    check(Value::Text("+1700000039.123456789"), "2023-11-14T22:13:59.123456789Z");
    check(Value::Text("1700000039123.456789"), "2023-11-14T22:13:59.123456789Z");
    check(Value::Text("1700000039123456.789"), "2023-11-14T22:13:59.123456789Z");
    check(Value::Text("1700000039123456789.9"), "2023-11-14T22:13:59.123456789Z");
    check(Value::Text("10000000000000000001"), "2286-11-20T17:46:40.000000001Z");
    check(Value::Text("1700000039."), "2023-11-14T22:13:59Z");
    check(Value::Text("1700000039e0"), "2023-11-14T22:13:59Z");
    check(Value::Text("-1700000040.000000001"), "1916-02-18T01:45:59.999999999Z");
    check(Value::Text("-1700000040.0000000001"), "1916-02-18T01:45:59.999999999Z");
    check(Value::Text("-1700000039123456.7891"), "1916-02-18T01:46:00.876543210Z");
    check(Value::Double(1_700_000_039.999_999_5), "2023-11-14T22:13:59.999999Z");
    check(Value::Double(-1_700_000_039.537), "1916-02-18T01:46:00.463Z");
    check(Value::Double(0.5), "1970-01-01T00:00:00.5Z");
}

#[test]
fn what_is_no_time_is_none() {
    let texts = [
        "",
        "yesterday",
        "2020",
        "12:30",
        "2020-06-09 22:50",
        "10/Okt/2000:13:55:36 -0700",
        "99999999999999999999999",
    ];
    for text in texts {
        assert_eq!(parse_time_field(&Value::Text(text)), None, "{text}");
    }
    let others = [Value::Boolean(true), Value::Ip("10.0.0.1"), Value::Double(f64::MAX), Value::Double(1e300)];
    for value in others {
        assert_eq!(parse_time_field(&value), None, "{value:?}");
    }
}

#[test]
fn addresses_are_read_and_written_one_way() {
    let check = |text: &str, expected: &str| {
        assert_eq!(parse_ip(text).map(|address| ip_text(&address)).as_deref(), Some(expected), "{text}");
    };
    check("10.0.0.1", "10.0.0.1");
    check("::ffff:10.0.0.1", "10.0.0.1");
    check("FE80:0:0:0:0:0:0:1", "fe80::1");
    check("::", "::");
    check("2001:db8::0:1", "2001:db8::1");
    for text in [
        "",
        "1",
        "10.0.0",
        "10.0.0.256",
        "010.0.0.1",
        "10.0.0.1:80",
        "fe80::1%eth0",
        ":",
        "g::1",
        "1.2.3.4.5",
    ] {
        assert_eq!(parse_ip(text), None, "{text}");
    }
}

#[test]
fn blocks_are_ranges_with_both_ends_inside() {
    let check = |text: &str, first: &str, last: &str| {
        let range = parse_cidr(text).map(|(first, last)| (ip_text(&first), ip_text(&last)));
        assert_eq!(range, Some((first.to_owned(), last.to_owned())), "{text}");
    };
    check("10.0.0.0/8", "10.0.0.0", "10.255.255.255");
    check("10.1.2.3/8", "10.0.0.0", "10.255.255.255");
    check("10.1.2.3/32", "10.1.2.3", "10.1.2.3");
    check("0.0.0.0/0", "0.0.0.0", "255.255.255.255");
    check("fe80::/10", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    check("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    check("::1/128", "::1", "::1");
    for text in [
        "10.0.0.0",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "::/129",
        "/8",
        "10.0.0.0/999",
        "10.0.0.0/8/8",
    ] {
        assert_eq!(parse_cidr(text), None, "{text}");
    }
}

#[test]
fn values_have_one_text() {
    assert_eq!(number_text(&Value::Long(i64::MIN)).as_deref(), Some("-9223372036854775808"));
    assert_eq!(number_text(&Value::Double(0.1)).as_deref(), Some("0.1"));
    assert_eq!(number_text(&Value::Text("1")), None);
    assert_eq!(value_token(&Value::Boolean(true)).as_deref(), Some("true"));
    assert_eq!(value_token(&Value::Ip("FE80:0:0:0:0:0:0:1")).as_deref(), Some("fe80::1"));
    assert_eq!(value_token(&Value::Long(404)).as_deref(), Some("404"));
    assert_eq!(value_token(&Value::Double(1.0)), None);
}

proptest! {
    #[test]
    fn a_moment_has_the_nanoseconds_of_its_text(
        time_ns in -9_000_000_000_000_000_000i128..9_000_000_000_000_000_000,
    ) {
        let text = Timestamp::from_nanosecond(time_ns).unwrap().to_string();
        let expected = Moment { time_us: time_ns.div_euclid(1_000) as i64, nanos: time_ns.rem_euclid(1_000) as u16 };
        for text in [text.clone(), text.replace('T', " ")] {
            prop_assert_eq!(parse_moment_field(&Value::Text(&text)), Some(expected));
        }
        prop_assert_eq!(parse_moment(&text), Some(expected));
        if time_ns.unsigned_abs() >= 253_402_300_800_000_000 {
            prop_assert_eq!(parse_moment_field(&Value::Long(time_ns as i64)), Some(expected));
        }
    }

    #[test]
    fn a_written_date_reads_back(time_us in -62_135_596_800_000_000i64..253_402_200_000_000_000) {
        let text = Timestamp::from_microsecond(time_us).unwrap().to_string();
        prop_assert_eq!(parse_date(&text), Some(time_us));
        prop_assert_eq!(parse_time_field(&Value::Text(&text)), Some(time_us));
        prop_assert_eq!(parse_time_field(&Value::Text(&text.replace('T', " "))), Some(time_us));
    }

    #[test]
    fn a_block_holds_exactly_the_addresses_with_its_prefix(address: [u8; 16], other: [u8; 16], shared in 0u32..=128, prefix in 0u32..=128) {
        let bits = u128::from_be_bytes(address);
        let mask = u128::MAX.checked_shl(128 - shared).unwrap_or(0);
        let near = bits & mask | u128::from_be_bytes(other) & !mask;
        let text = format!("{}/{prefix}", Ipv6Addr::from(address));
        let (first, last) = parse_cidr(&text).unwrap();
        let inside = (bits ^ near).leading_zeros() >= prefix;
        prop_assert_eq!((first..=last).contains(&near.to_be_bytes()), inside);
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in ".{0,40}", number: i64, fraction: f64) {
        let _ = (parse_date(&text), parse_ip(&text), parse_cidr(&text), parse_time_field(&Value::Text(&text)));
        let _ = (parse_time_field(&Value::Long(number)), parse_time_field(&Value::Double(fraction)));
    }

    #[test]
    fn texts_near_a_date_are_read_without_a_panic(text in "[0-9]{2,4}[-/][0-9A-Za-z]{2,3}[-/:][0-9]{2,4}[T: ]?[0-9:]{0,8}[.]?[0-9]{0,12}[Z+ -]?[0-9:]{0,5}") {
        let _ = (parse_date(&text), parse_time_field(&Value::Text(&text)));
    }
}
