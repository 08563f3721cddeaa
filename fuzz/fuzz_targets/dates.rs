//! Dates, date math, formats, time zones, durations and calendar rounding of requests. The lines are a
//! date, a format, a time zone, a time in microseconds.
#![no_main]

use frostline_fuzz::NOW_US;
use frostline_query::language::date::{
    DateReader, Format, Rounding, Unit, parse_duration_us, parse_time_zone,
};
use frostline_split::Moment;
use jiff::tz::TimeZone;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (date, format, zone, us) = (line(), line(), line(), line().parse().unwrap_or(NOW_US));
    let _ = parse_duration_us(date);
    let format = Format::parse(format).unwrap_or_default();
    let zone = parse_time_zone(zone).unwrap_or(TimeZone::UTC);
    format.write(Moment::of_us(us), &zone);
    let reader = DateReader { format, zone: zone.clone(), now_us: NOW_US };
    for up in [false, true] {
        if let Ok(time) = reader.read(date, up) {
            reader.format.write(Moment::of_us(time), &reader.zone);
        }
    }
    for unit in ["second", "minute", "hour", "day", "week", "month", "quarter", "year"] {
        let rounding = Rounding::new(Unit::parse(unit).expect("a unit"), zone.clone());
        let start = rounding.floor(us);
        assert!(start <= us && rounding.next(us) > us.min(i64::MAX - 1), "{unit} {us} {zone:?}");
        assert_eq!(rounding.floor(start), start, "{unit} {us} {zone:?}");
    }
});
