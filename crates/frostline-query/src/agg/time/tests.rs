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
    let rounding =
        Rounding { unit: Unit::Year, zone: TimeZone::get("Asia/Seoul").unwrap(), offset_us: HOUR_US };
    assert_eq!(rounding.key(at("9999-12-31T23:00:00Z")), at("9998-12-31T16:00:00Z"));
}
