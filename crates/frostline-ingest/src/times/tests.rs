use super::{leading_time, push_iso, whole_time};

fn iso(time_ns: i128) -> String {
    let mut out = Vec::new();
    push_iso(&mut out, time_ns);
    String::from_utf8(out).unwrap()
}

/// 2025-03-01T00:00:00Z
const NOW_US: i64 = 1_740_787_200_000_000;

#[test]
fn times_at_the_start_of_lines() {
    for (line, expected) in [
        ("2024-05-01T10:00:00Z x", Some("2024-05-01T10:00:00.000Z")),
        ("2024-05-01 10:00:00,123 x", Some("2024-05-01T10:00:00.123Z")),
        ("2024-05-01T10:00:00.123456+02:00 x", Some("2024-05-01T08:00:00.123456Z")),
        ("2024-05-01T10:00:00.123456789Z x", Some("2024-05-01T10:00:00.123456789Z")),
        ("2024-05-01T10:00:00.1234567890Z x", Some("2024-05-01T10:00:00.123456789Z")),
        ("2024/05/01 10:00:00 [error] x", Some("2024-05-01T10:00:00.000Z")),
        ("[Sat Oct 10 12:00:00.250 2020] [x]", Some("2020-10-10T12:00:00.250Z")),
        ("[17/May/2015:10:05:03 +0100] x", Some("2015-05-17T09:05:03.000Z")),
        ("1446249499.322 x", Some("2015-10-30T23:58:19.322Z")),
        ("Feb 28 23:59:59 x", Some("2025-02-28T23:59:59.000Z")),
        ("Mar  1 12:00:00 x", Some("2025-03-01T12:00:00.000Z")),
        ("Mar  3 12:00:00 x", Some("2024-03-03T12:00:00.000Z")),
        ("Feb 29 12:00:00 x", Some("2024-02-29T12:00:00.000Z")),
        ("E0228 23:59:59.123456    1234 main.go:7] x", Some("2025-02-28T23:59:59.123456Z")),
        ("E1328 23:59:59 x", None),
        ("2024-02-30T10:00:00Z", None),
        ("2024-13-01T10:00:00Z", None),
        ("2024-05-01T24:00:00Z", None),
        ("2024-05-01T10:00:00Zulu", None),
        ("[2024-05-01T10:00:00Z", None),
        ("9999-12-31T23:59:59.999999999Z x", Some("9999-12-31T23:59:59.999999999Z")),
        ("9999-12-31T23:59:59-00:01 x", None),
        ("0000-01-01T00:00:00 x", Some("0000-01-01T00:00:00.000Z")),
        ("0000-01-01T00:00:00+00:01 x", None),
        ("12345", None),
        ("", None),
    ] {
        let found = leading_time(line, NOW_US).map(|(time_ns, _)| iso(time_ns));
        assert_eq!(found.as_deref(), expected, "{line:?}");
    }
}

#[test]
fn epochs_by_their_size() {
    for text in ["1446249499", "1446249499000", "1446249499000000", "1446249499000000000", "1446249499.000"] {
        assert_eq!(whole_time(text, NOW_US).map(iso).as_deref(), Some("2015-10-30T23:58:19.000Z"), "{text}");
    }
    for (text, expected) in [
        ("253402300799999", "9999-12-31T23:59:59.999Z"),
        ("253402300800000", "1978-01-11T21:31:40.800Z"),
        ("1446249499.0625", "2015-10-30T23:58:19.062500Z"),
        ("1446249499000.5", "2015-10-30T23:58:19.000500Z"),
    ] {
        assert_eq!(whole_time(text, NOW_US).map(iso).as_deref(), Some(expected), "{text}");
    }
    for text in ["404", "-1446249499", "99999999999999999999", "1446249499x", "14e9"] {
        assert_eq!(whole_time(text, NOW_US), None, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn what_is_written_is_read_back(time_ns in -62_167_219_200_000_000_000_i128..253_402_300_800_000_000_000) {
        proptest::prop_assert_eq!(whole_time(&iso(time_ns), NOW_US), Some(time_ns));
    }

    #[test]
    fn no_text_panics(text in "\\PC*", digits in "[0-9:/ .,T+-]*") {
        let _ = whole_time(&text, NOW_US);
        let _ = leading_time(&digits, NOW_US);
    }
}
