//! Dates, times, addresses and blocks of addresses, as documents write them.
#![no_main]

use frostline_split::{Value, ip_text, parse_cidr, parse_date, parse_ip, parse_time_field, value_token};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let time = parse_date(text);
    let forgiving = parse_time_field(&Value::Text(text));
    // The forgiving reader only refuses years that no clock has.
    if let (Some(time), Some(forgiving)) = (time, forgiving) {
        assert_eq!(time, forgiving);
    }
    if let Some(address) = parse_ip(text) {
        assert_eq!(parse_ip(&ip_text(&address)), Some(address));
        assert_eq!(value_token(&Value::Ip(text)), Some(ip_text(&address)));
    }
    if let Some((first, last)) = parse_cidr(text) {
        assert!(first <= last);
    }
    for number in [text.parse().map(Value::Long).ok(), text.parse().map(Value::Double).ok()] {
        number.and_then(|number| parse_time_field(&number));
    }
});
