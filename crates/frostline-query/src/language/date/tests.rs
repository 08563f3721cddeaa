use frostline_split::Moment;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

/// 2024-02-29T12:34:56.789012Z, a Thursday.
const NOW_US: i64 = 1_709_210_096_789_012;

fn iso(us: i64) -> String {
    Format::default().write(Moment::of_us(us), &TimeZone::UTC)
}

fn reader(format: &str, zone: &str) -> DateReader {
    DateReader {
        format: Format::parse(format).unwrap(),
        zone: parse_time_zone(zone).unwrap(),
        now_us: NOW_US,
    }
}

#[test]
fn default_formats() {
    let reader = DateReader::new(NOW_US);
    for (text, down, up) in [
        ("2024", "2024-01-01T00:00:00.000Z", "2024-01-01T23:59:59.999999Z"),
        ("2024-02", "2024-02-01T00:00:00.000Z", "2024-02-01T23:59:59.999999Z"),
        ("2024-02-03", "2024-02-03T00:00:00.000Z", "2024-02-03T23:59:59.999999Z"),
        ("2024-02-03T04", "2024-02-03T04:00:00.000Z", "2024-02-03T04:59:59.999999Z"),
        ("2024-02-03T04:05", "2024-02-03T04:05:00.000Z", "2024-02-03T04:05:59.999999Z"),
        ("2024-02-03T04:05:06", "2024-02-03T04:05:06.000Z", "2024-02-03T04:05:06.999999Z"),
        ("2024-02-03T04:05:06.7", "2024-02-03T04:05:06.700Z", "2024-02-03T04:05:06.700999Z"),
        ("2024-02-03T04:05:06.7890129Z", "2024-02-03T04:05:06.789012Z", "2024-02-03T04:05:06.789012Z"),
        ("2024-02-03T04:05:06+02:00", "2024-02-03T02:05:06.000Z", "2024-02-03T02:05:06.999999Z"),
        ("2024-02-03T04:05:06-0230", "2024-02-03T06:35:06.000Z", "2024-02-03T06:35:06.999999Z"),
        ("1706933106000", "2024-02-03T04:05:06.000Z", "2024-02-03T04:05:06.000999Z"),
        ("-1", "1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999999Z"),
        ("1.5", "1970-01-01T00:00:00.0015Z", "1970-01-01T00:00:00.0015Z"),
    ] {
        assert_eq!(iso(reader.read(text, false).unwrap()), down, "{text}");
        assert_eq!(iso(reader.read(text, true).unwrap()), up, "{text}, up");
    }
    for text in [
        "",
        "2024-1-1",
        "2024-13-01",
        "2023-02-29",
        "2024-02-03 04:05",
        "x",
        "2024-02-03T25",
        "99999999999999999999",
    ] {
        assert!(reader.read(text, false).is_err(), "{text}");
    }
}

#[test]
fn date_math() {
    let utc = DateReader::new(NOW_US);
    for (text, down, up) in [
        ("now", "2024-02-29T12:34:56.789012Z", "2024-02-29T12:34:56.789012Z"),
        ("now-1d", "2024-02-28T12:34:56.789012Z", "2024-02-28T12:34:56.789012Z"),
        ("now/d", "2024-02-29T00:00:00.000Z", "2024-02-29T23:59:59.999999Z"),
        ("now-1d/d", "2024-02-28T00:00:00.000Z", "2024-02-28T23:59:59.999999Z"),
        ("now/w", "2024-02-26T00:00:00.000Z", "2024-03-03T23:59:59.999999Z"),
        ("now/M", "2024-02-01T00:00:00.000Z", "2024-02-29T23:59:59.999999Z"),
        ("now/y", "2024-01-01T00:00:00.000Z", "2024-12-31T23:59:59.999999Z"),
        ("now/h", "2024-02-29T12:00:00.000Z", "2024-02-29T12:59:59.999999Z"),
        ("now+1y", "2025-02-28T12:34:56.789012Z", "2025-02-28T12:34:56.789012Z"),
        ("now-90m/m", "2024-02-29T11:04:00.000Z", "2024-02-29T11:04:59.999999Z"),
        ("2024-01-31||+1M", "2024-02-29T00:00:00.000Z", "2024-02-29T00:00:00.000Z"),
        ("2020-01-01||+1M/d", "2020-02-01T00:00:00.000Z", "2020-02-01T23:59:59.999999Z"),
        ("2024-01-01||", "2024-01-01T00:00:00.000Z", "2024-01-01T00:00:00.000Z"),
        ("9999-12-31||/s", "9999-12-31T00:00:00.000Z", "9999-12-31T00:00:00.999999Z"),
        ("9999-12-31T23||/h", "9999-12-31T23:00:00.000Z", "9999-12-31T23:59:59.999999Z"),
        ("9999-12-31||/d", "9999-12-31T00:00:00.000Z", "9999-12-31T23:59:59.999999Z"),
        ("9999-12-31||/w", "9999-12-27T00:00:00.000Z", "9999-12-31T23:59:59.999999Z"),
        ("9999-12-31||/M", "9999-12-01T00:00:00.000Z", "9999-12-31T23:59:59.999999Z"),
        ("9999-02-01||/y", "9999-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999999Z"),
        ("9999-12-31||-1d", "9999-12-30T00:00:00.000Z", "9999-12-30T00:00:00.000Z"),
        ("9999-12-30||+1d/d", "9999-12-31T00:00:00.000Z", "9999-12-31T23:59:59.999999Z"),
        ("9999-12-30T22||+25h", "9999-12-31T23:00:00.000Z", "9999-12-31T23:00:00.000Z"),
    ] {
        assert_eq!(iso(utc.read(text, false).unwrap()), down, "{text}");
        assert_eq!(iso(utc.read(text, true).unwrap()), up, "{text}, up");
    }
    for (text, expected) in [
        ("nowhere", "expected +, - or / at character 4"),
        ("now-", "a unit is missing at character 5"),
        ("now-1x", "the unit is one of"),
        ("now/2d", "at character 4"),
        ("now+99999999999y", "out of range"),
        ("now+7976y", "out of range at character 4"),
        ("now-12024y", "out of range at character 4"),
        ("9999-12-31||+1d", "out of range at character 13"),
        ("9999-12-31T23:59||+1m", "out of range at character 19"),
        ("9999-12-31||-1d+2d", "out of range at character 16"),
        ("now-99999999999999999999d", "too large"),
        ("x||+1d", "failed to parse the date [x]"),
    ] {
        let error = utc.read(text, false).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let berlin = reader("strict_date_optional_time", "Europe/Berlin");
    assert_eq!(iso(berlin.read("now/d", false).unwrap()), "2024-02-28T23:00:00.000Z");
    // The day on which summer begins has 23 hours.
    assert_eq!(iso(berlin.read("2024-03-31||/d", true).unwrap()), "2024-03-31T21:59:59.999999Z");
    assert_eq!(iso(berlin.read("2024-03-30T12:00||+1d", false).unwrap()), "2024-03-31T10:00:00.000Z");
}

#[test]
fn patterns_read_and_write() {
    for (format, text, expected) in [
        ("yyyy-MM-dd HH:mm:ss", "2024-02-03 04:05:06", "2024-02-03T04:05:06.000Z"),
        ("dd/MMM/yyyy:HH:mm:ss Z", "03/Feb/2024:04:05:06 +0100", "2024-02-03T03:05:06.000Z"),
        ("yyyyMMddHHmmss", "20240203040506", "2024-02-03T04:05:06.000Z"),
        ("basic_date_time_no_millis", "20240203T040506Z", "2024-02-03T04:05:06.000Z"),
        ("uuuu-MM-dd'T'HH:mm:ss.SSSSSS", "2024-02-03T04:05:06.123456", "2024-02-03T04:05:06.123456Z"),
        ("MM/dd/yy hh:mm a", "02/03/24 04:05 PM", "2024-02-03T16:05:00.000Z"),
        ("MM/dd/yy hh:mm a", "02/03/24 12:05 AM", "2024-02-03T00:05:00.000Z"),
        ("EEE, d MMMM yyyy", "Sat, 3 February 2024", "2024-02-03T00:00:00.000Z"),
        ("yyyy-DDD", "2024-366", "2024-12-31T00:00:00.000Z"),
        ("h 'o''clock' a", "3 o'clock PM", "1970-01-01T15:00:00.000Z"),
        ("yyyy[-MM[-dd]]", "2024-02", "2024-02-01T00:00:00.000Z"),
        ("yyyy-MM-dd VV", "2024-02-03 Europe/Berlin", "2024-02-02T23:00:00.000Z"),
        ("epoch_second", "1706933106", "2024-02-03T04:05:06.000Z"),
        ("dd.MM.yyyy||epoch_second", "60", "1970-01-01T00:01:00.000Z"),
        ("date_optional_time", "2024-2-3", "2024-02-03T00:00:00.000Z"),
        ("week_date", "2024-W05-6", "2024-02-03T00:00:00.000Z"),
        ("strict_week_date_time", "2020-W53-5T23:30:00.500-01:00", "2021-01-02T00:30:00.500Z"),
        ("basic_week_date", "2020W537", "2021-01-03T00:00:00.000Z"),
        ("weekyear_week", "2024-W05", "2024-01-29T00:00:00.000Z"),
        ("weekyear", "2021", "2021-01-04T00:00:00.000Z"),
        ("basic_t_time_no_millis", "T040506Z", "1970-01-01T04:05:06.000Z"),
        ("t_time", "T04:05:06.007+01:00", "1970-01-01T03:05:06.007Z"),
        ("basic_ordinal_date_time", "2024034T040506.007Z", "2024-02-03T04:05:06.007Z"),
    ] {
        let us = reader(format, "UTC").read(text, false).unwrap_or_else(|e| panic!("{format} {text}: {e}"));
        assert_eq!(iso(us), expected, "{format} {text}");
    }
    let us = 1_706_933_106_123_456;
    let berlin = parse_time_zone("Europe/Berlin").unwrap();
    for (format, expected) in [
        ("strict_date_optional_time", "2024-02-03T05:05:06.123456+01:00"),
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-02-03 05:05:06.123"),
        ("d MMM yy, h a", "3 Feb 24, 5 AM"),
        ("EEEE DDD", "Saturday 034"),
        ("xx XXX Z VV", "+0100 +01:00 +0100 Europe/Berlin"),
        ("epoch_millis||yyyy", "1706933106123"),
        ("epoch_second", "1706933106"),
        ("week_date_time_no_millis", "2024-W05-6T05:05:06+01:00"),
        ("basic_time", "050506.123+0100"),
    ] {
        assert_eq!(Format::parse(format).unwrap().write(Moment::of_us(us), &berlin), expected, "{format}");
    }
    for (format, expected) in [
        ("yyyy-QQ", "the letter Q is not supported at character 6"),
        ("yyyy 'x", "a quote is not closed at character 6"),
        ("yyyy[MM", "an optional section is not closed at character 5"),
        ("no_such_name", "[no_such_name] is not a date format"),
        // What the first week of a year is depends on the country.
        ("YYYY-ww", "the letter Y is not supported at character 1"),
        ("", "empty"),
    ] {
        let error = Format::parse(format).unwrap_err().to_string();
        assert!(error.contains(expected), "{format}: {error}");
    }
}

#[test]
fn time_zones_and_durations() {
    for (text, seconds) in [("UTC", 0), ("Z", 0), ("+01:00", 3_600), ("-0530", -19_800), ("+2", 7_200)] {
        let zone = parse_time_zone(text).unwrap();
        assert_eq!(zone.to_fixed_offset().unwrap().seconds(), seconds, "{text}");
    }
    for text in ["", "Mars/Olympus", "+99", "+1:x", "+"] {
        assert!(parse_time_zone(text).is_err(), "{text}");
    }
    assert_eq!(parse_duration_us("90m").unwrap(), 5_400_000_000);
    assert_eq!(parse_duration_us("5micros").unwrap(), 5);
    for text in ["", "5", "1M", "-5s", "99999999999999d"] {
        assert!(parse_duration_us(text).is_err(), "{text}");
    }
}

#[test]
fn calendar_units() {
    for (unit, floor, next) in [
        ("second", "2024-02-29T12:34:56.000Z", "2024-02-29T12:34:57.000Z"),
        ("1m", "2024-02-29T12:34:00.000Z", "2024-02-29T12:35:00.000Z"),
        ("hour", "2024-02-29T12:00:00.000Z", "2024-02-29T13:00:00.000Z"),
        ("day", "2024-02-29T00:00:00.000Z", "2024-03-01T00:00:00.000Z"),
        ("week", "2024-02-26T00:00:00.000Z", "2024-03-04T00:00:00.000Z"),
        ("month", "2024-02-01T00:00:00.000Z", "2024-03-01T00:00:00.000Z"),
        ("quarter", "2024-01-01T00:00:00.000Z", "2024-04-01T00:00:00.000Z"),
        ("1y", "2024-01-01T00:00:00.000Z", "2025-01-01T00:00:00.000Z"),
    ] {
        let rounding = Rounding::new(Unit::parse(unit).unwrap(), TimeZone::UTC);
        assert_eq!(
            (iso(rounding.floor(NOW_US)).as_str(), iso(rounding.next(NOW_US)).as_str()),
            (floor, next),
            "{unit}"
        );
    }
}

#[test]
fn clocks_that_change() {
    let day = Rounding::new(Unit::Day, parse_time_zone("Europe/Berlin").unwrap());
    let start = DateReader::new(0).read("2024-03-30T23:00:00Z", false).unwrap();
    assert_eq!(day.floor(start + 3_600_000_000), start);
    assert_eq!(day.next(start) - start, 23 * 3_600_000_000);
    // The hour from 02:00 comes twice in autumn.
    let hour = Rounding::new(Unit::Hour, parse_time_zone("Europe/Berlin").unwrap());
    let first = DateReader::new(0).read("2024-10-27T00:00:00Z", false).unwrap();
    assert_eq!(hour.floor(first + 1_800_000_000), first);
    assert_eq!(hour.floor(first + 5_400_000_000), first + 3_600_000_000);
    assert_eq!(hour.next(first), first + 3_600_000_000);
    // Midnight does not exist on the day on which summer begins in São Paulo in 2018.
    let day = Rounding::new(Unit::Day, parse_time_zone("America/Sao_Paulo").unwrap());
    let start = DateReader::new(0).read("2018-11-04T03:00:00Z", false).unwrap();
    assert_eq!(day.floor(start + 1), start);
    assert_eq!(day.next(start - 1), start);
    assert_eq!(day.floor(start), start);
}

fn unit() -> impl Strategy<Value = Unit> {
    prop::sample::select(vec![
        Unit::Second,
        Unit::Minute,
        Unit::Hour,
        Unit::Day,
        Unit::Week,
        Unit::Month,
        Unit::Quarter,
        Unit::Year,
    ])
}

fn zone() -> impl Strategy<Value = TimeZone> {
    let names = [
        "UTC",
        "Europe/Berlin",
        "America/Sao_Paulo",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "-03:30",
        "Pacific/Apia",
        "Africa/Casablanca",
    ];
    prop::sample::select(names.to_vec()).prop_map(|name| parse_time_zone(name).unwrap())
}

proptest! {
    #[test]
    fn rounding_is_a_partition(us in -2_000_000_000_000_000_i64..4_000_000_000_000_000, unit in unit(), zone in zone()) {
        let rounding = Rounding::new(unit, zone);
        let (start, next) = (rounding.floor(us), rounding.next(us));
        prop_assert!(start <= us && us < next, "{start} {us} {next}");
        prop_assert_eq!(rounding.floor(start), start);
        prop_assert_eq!(rounding.floor(next), next);
        prop_assert_eq!(rounding.floor(next - 1), start);
        prop_assert_eq!(rounding.next(start), next);
    }

    #[test]
    fn any_time_rounds(us in any::<i64>(), unit in unit(), zone in zone()) {
        let rounding = Rounding::new(unit, zone.clone());
        prop_assert!(rounding.floor(us) <= us);
        let _ = (rounding.next(us), Format::default().write(Moment::of_us(us), &zone));
    }

    #[test]
    fn what_is_written_is_read(us in -2_000_000_000_000_000_i64..4_000_000_000_000_000, zone in zone()) {
        // Offsets of long ago have seconds, which the format has not.
        prop_assume!(us > 0);
        let reader = DateReader { format: Format::default(), zone: zone.clone(), now_us: 0 };
        prop_assert_eq!(reader.read(&reader.format.write(Moment::of_us(us), &zone), false).unwrap(), us);
        let utc = DateReader::new(0);
        // What says no more than the millisecond stands, rounded up, for all of it.
        let last = if us % 1_000 == 0 { us + 999 } else { us };
        prop_assert_eq!(utc.read(&iso(us), true).unwrap(), last);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,24}", math in "now[-+/0-9yMwdhms|]{0,12}", format in "[yMdHms'\\[\\]a:XS -]{0,12}") {
        let mut reader = DateReader::new(NOW_US);
        let _ = (reader.read(&text, true), reader.read(&math, true), reader.read(&math, false));
        let _ = (parse_time_zone(&text), parse_duration_us(&text));
        if let Ok(format) = Format::parse(&format) {
            reader.format = format;
            let _ = reader.read(&text, true);
            let _ = reader.format.write(Moment::of_us(NOW_US), &TimeZone::UTC);
        }
    }
}

#[test]
fn a_year_before_0_has_as_many_digits_as_any() {
    assert_eq!(iso(-62_200_000_000_000_000), "-0002-12-17T14:13:20.000Z");
    assert_eq!(iso(-62_150_000_000_000_000), "0000-07-18T07:06:40.000Z");
    let pattern = Format::parse("yyyy yy").unwrap();
    assert_eq!(pattern.write(Moment::of_us(-62_200_000_000_000_000), &TimeZone::UTC), "-0002 02");
}

/// As of documents, whatever the number of digits.
#[test]
fn digits_after_the_nanosecond_are_cut() {
    let reader = DateReader::new(0);
    let nine = reader.read_exactly("2020-01-01T00:00:00.123456789Z", false).unwrap();
    for digits in ["1234567890", "12345678999", "1234567899999999999999"] {
        for up in [false, true] {
            let text = format!("2020-01-01T00:00:00.{digits}Z");
            assert_eq!(reader.read_exactly(&text, up).unwrap(), nine, "{text}");
        }
    }
}

#[test]
fn the_last_day_of_the_calendar_is_a_date() {
    let reader = DateReader::new(0);
    let day = 253_402_214_400_000_000;
    assert_eq!(frostline_split::parse_date("9999-12-31"), Some(day));
    assert_eq!(reader.read("9999-12-31", false).unwrap(), day);
    assert_eq!(reader.read("9999-12-31", true).unwrap(), day + 86_399_999_999);
    assert_eq!(reader.read("9999-12-31T00:00:00-05:00", false).unwrap(), day + 5 * 3_600_000_000);
    assert_eq!(reader.read("253402214400000", false).unwrap(), day);
    let berlin = DateReader { zone: TimeZone::fixed(jiff::tz::offset(1)), ..reader };
    assert_eq!(berlin.read("9999-12-31", false).unwrap(), day - 3_600_000_000);
    let last = day + 86_399_999_999;
    assert_eq!(iso(day), "9999-12-31T00:00:00.000Z");
    assert_eq!(iso(last), "9999-12-31T23:59:59.999999Z");
    let pattern = Format::parse("EEE d.M.yyyy HH:mm XXX").unwrap();
    let new_york = parse_time_zone("America/New_York").unwrap();
    assert_eq!(pattern.write(Moment::of_us(last), &new_york), "Fri 31.12.9999 18:59 -05:00");
    // There it is the year 10000.
    assert_eq!(pattern.write(Moment::of_us(last), &berlin.zone), "253402300799999");
}
