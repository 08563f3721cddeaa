use proptest::prelude::*;

use super::*;

/// The last two hours and the last day of the calendar are in no `Timestamp`, but in a bucket of every unit.
#[test]
fn the_last_bucket_of_the_calendar_has_a_key() {
    let at = |text: &str| frostline_split::parse_date(text).unwrap();
    for (unit, first) in [
        (Unit::Day, "9999-12-31"),
        (Unit::Week, "9999-12-27"),
        (Unit::Month, "9999-12-01"),
        (Unit::Quarter, "9999-10-01"),
        (Unit::Year, "9999-01-01"),
    ] {
        let rounding = Rounding { unit, zone: TimeZone::UTC, offset_us: 0 };
        for us in [at("9999-12-31"), at("9999-12-31T23:59:59.999999Z"), at(first)] {
            assert_eq!(rounding.key(us), at(first), "{unit:?}");
        }
        assert!(rounding.next(at(first)) > at(first), "{unit:?}");
    }
    // The day before goes on to its end, and no further.
    let day = Rounding { unit: Unit::Day, zone: TimeZone::UTC, offset_us: 0 };
    let span = day.span(at("9999-12-30T10:00:00Z"));
    assert_eq!((span.key, span.end), (at("9999-12-30"), at("9999-12-31")));
    assert_eq!(day.next(span.key), at("9999-12-31"));
    for unit in [Unit::Day, Unit::Fixed(DAY_US)] {
        for (zone, midnight) in [("+09:00", "9999-12-30T15:00:00Z"), ("-09:00", "9999-12-31T09:00:00Z")] {
            let zone = crate::language::date::parse_time_zone(zone).unwrap();
            let rounding = Rounding { unit, zone, offset_us: 0 };
            let midnight = at(midnight);
            for after in [0, HOUR_US, 7 * HOUR_US, 9 * HOUR_US, 14 * HOUR_US] {
                assert_eq!(rounding.key(midnight + after), midnight, "{unit:?} {after}");
                assert_eq!(rounding.key(midnight - 1 - after), midnight - DAY_US, "{unit:?} {after}");
            }
        }
    }
    let rounding =
        Rounding { unit: Unit::Year, zone: TimeZone::get("Asia/Seoul").unwrap(), offset_us: HOUR_US };
    assert_eq!(rounding.key(at("9999-12-31T23:00:00Z")), at("9998-12-31T16:00:00Z"));
}

proptest! {
    /// Whatever was asked before, every time that a span covers has its key.
    #[test]
    fn the_times_of_a_span_have_its_key(
        from_end_us in 0_i64..5 * DAY_US,
        of_span in 0.0..1.0,
        unit in prop::sample::select(vec![Unit::Day, Unit::Week, Unit::Month, Unit::Year, Unit::Fixed(DAY_US), Unit::Fixed(HOUR_US)]),
        zone in prop::sample::select(vec!["UTC", "+09:00", "-09:00", "America/Sao_Paulo", "Asia/Seoul", "-18:00", "+18:00"]),
    ) {
        let last = frostline_split::parse_date("9999-12-31T23:59:59.999999Z").unwrap();
        let rounding = Rounding { unit, zone: crate::language::date::parse_time_zone(zone).unwrap(), offset_us: 0 };
        let us = last - from_end_us;
        let span = rounding.span(us);
        prop_assert!(span.key <= us && span.start <= us && us < span.end, "{span:?}");
        let other = span.start + (of_span * (span.end.min(last) - span.start) as f64) as i64;
        prop_assert_eq!(rounding.key(other), span.key);
    }
}
