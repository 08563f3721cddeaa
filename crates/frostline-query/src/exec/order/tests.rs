use super::*;

#[test]
fn a_time_is_read_back_from_its_sort_value_exactly_in_every_format() {
    let formats = [
        "epoch_second",
        "epoch_millis",
        "yyyy-MM-dd",
        "strict_date_optional_time",
        "dd/MM/yyyy HH:mm:ss.SSSSSSSSS",
    ];
    let formats = formats.iter().map(|format| Some(Format::parse(format).unwrap())).chain([None]);
    for format in formats.clone() {
        for time in [0, 1_717_200_000_000_000, 1_717_200_000_123_000, 1_717_200_000_123_456, -1_500_001] {
            for nanos in [0, 1, 120, 999] {
                let moment = Moment { time_us: time, nanos };
                let value = time_value(moment, format.as_ref());
                assert_eq!(time_of(&value, format.as_ref()), Some(moment), "{value} in {format:?}");
            }
        }
    }
    let at = |text: &str| frostline_split::parse_moment(text).unwrap();
    for moment in [
        at("9999-12-31T23:59:59.000001001-01:00"),
        at("9999-12-31T23:59:59.999999999-23:59"),
        at("0000-01-01T00:00:00.000001001+01:00"),
        at("0000-01-01T00:00:00.000001+23:59"),
        Moment { time_us: -62_200_000_000_123_456, nanos: 0 },
        Moment { time_us: -370_000_000_000_123_456, nanos: 789 },
    ] {
        for format in formats.clone() {
            let value = time_value(moment, format.as_ref());
            assert_eq!(time_of(&value, format.as_ref()), Some(moment), "{value} in {format:?}");
        }
    }
    let seconds = Format::parse("epoch_second").unwrap();
    let whole = Moment { time_us: 1_717_200_000_000_000, nanos: 0 };
    assert_eq!(time_value(whole, Some(&seconds)), Value::from("1717200000"));
}

#[test]
fn a_position_that_is_text_is_a_date_and_a_number_is_milliseconds() {
    let read = |value: Value| time_of(&value, None).map(|moment| moment.time_us);
    assert_eq!(read(Value::from("2024")), read(Value::from("2024-01-01T00:00:00Z")));
    assert_eq!(read(Value::from("1704067200000")), Some(1_704_067_200_000_000));
    assert_eq!(read(Value::from(2024)), Some(2_024_000));
}
