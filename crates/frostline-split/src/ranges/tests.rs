use proptest::prelude::*;

use super::*;
use crate::document::tests::parse;
use crate::mapping::Mapping;

fn span(ty: RangeType, ends: &[(RangeEnd, Value<'_>)]) -> Result<Option<Span>, String> {
    let mut all = RangeEnds::default();
    for (end, value) in ends {
        all.put(ty, *end, value)?;
    }
    all.span(ty)
}

#[test]
fn excluded_ends_are_the_next_places() {
    use RangeEnd::{Above, AtLeast, AtMost, Below};
    let whole = |first, last| Ok(Some(Span { first, last }));
    let both = |ty, above, below| span(ty, &[(Above, above), (Below, below)]);
    assert_eq!(both(RangeType::Integer, Value::Long(1), Value::Text("5")), whole(2, 4));
    assert_eq!(both(RangeType::Long, Value::Double(1.9), Value::Double(-0.5)).unwrap_err(), {
        "min value (2) is greater than max value (-1)"
    });
    let double = span(RangeType::Double, &[(Above, Value::Long(1))]).unwrap().unwrap();
    assert_eq!(RangeType::Double.number(double.first), Some(1.0_f64.next_up()));
    assert_eq!(RangeType::Double.number(double.last), Some(f64::INFINITY));
    let float = span(RangeType::Float, &[(AtMost, Value::Double(0.1))]).unwrap().unwrap();
    assert_eq!(RangeType::Float.number(float.last), Some(f64::from(0.1_f32)));
    let date = span(RangeType::Date, &[(Below, Value::Text("1970-01-01T00:00:00.001Z"))]).unwrap().unwrap();
    assert_eq!(date.last, 999_999);
    let address = span(RangeType::Ip, &[(AtLeast, Value::Ip("::")), (Below, Value::Text("::2"))]);
    assert_eq!(address, Ok(Some(RangeType::Ip.block("::/127").unwrap())));
    assert_eq!(span(RangeType::Long, &[]), Ok(None));
}

#[test]
fn what_is_no_range_is_told() {
    use RangeEnd::{Above, AtLeast, AtMost};
    let wrong = |ty, ends: &[(RangeEnd, Value<'_>)]| span(ty, ends).unwrap_err();
    let five = || Value::Long(5);
    assert_eq!(
        wrong(RangeType::Integer, &[(AtLeast, five()), (AtMost, Value::Long(4))]),
        "min value (5) is greater than max value (4)"
    );
    assert!(wrong(RangeType::Integer, &[(AtLeast, five()), (Above, five())]).contains("[gte] and [gt]"));
    assert!(wrong(RangeType::Integer, &[(AtLeast, Value::Long(1 << 40))]).contains("out of range"));
    assert!(wrong(RangeType::Long, &[(AtLeast, Value::Text("five"))]).contains("For input string"));
    assert!(wrong(RangeType::Float, &[(AtLeast, Value::Double(1e300))]).contains("finite"));
    assert!(wrong(RangeType::Date, &[(AtLeast, Value::Text("soon"))]).contains("soon"));
    assert!(wrong(RangeType::Ip, &[(AtLeast, five())]).contains("not an IP"));
}

#[test]
fn queries_ask_exactly() {
    assert_eq!(RangeType::Integer.asked("3"), Some(Span::at(3)));
    // Between two whole numbers there is none.
    assert_eq!(RangeType::Long.asked("3.5"), Some(Span { first: 4, last: 3 }));
    assert_eq!(RangeEnd::AtLeast.inside(RangeType::Long.asked("3.5").unwrap()), 4);
    assert_eq!(RangeEnd::Above.inside(RangeType::Long.asked("3.5").unwrap()), 4);
    assert_eq!(RangeEnd::AtMost.inside(RangeType::Long.asked("3.5").unwrap()), 3);
    assert_eq!(RangeEnd::Below.inside(RangeType::Long.asked("3.5").unwrap()), 3);
    assert_eq!(RangeType::Long.asked("five"), None);
    assert!(RangeType::Integer.asked("99999999999").is_some());
}

fn fault(mapping: &Mapping, source: &str) -> Option<String> {
    parse(source, mapping).unwrap().fault().map(str::to_owned)
}

#[test]
fn documents_with_no_ranges_in_such_fields_have_a_fault() {
    let mapping = Mapping::from_elasticsearch_json(&serde_json::json!({ "properties": {
        "n": { "type": "long_range" }, "from": { "type": "ip_range" },
        "o": { "properties": { "r": { "type": "date_range" } } },
    } }))
    .unwrap();
    for good in [
        r#"{"n":{"gte":1,"lt":2}}"#,
        r#"{"n":[{"gte":1},{"lt":2}]}"#,
        r#"{"n":null,"from":"10.0.0.0/8"}"#,
        r#"{"n":{"gte":null,"lte":"7"}}"#,
        r#"{"from":["10.0.0.0/8",{"gt":"10.0.0.1"}],"o":[{"r":{"gte":"2020-01-01"}}]}"#,
    ] {
        assert_eq!(fault(&mapping, good), None, "{good}");
    }
    for (wrong, why) in [
        (r#"{"n":{"gte":3,"lt":3}}"#, "min value (3) is greater than max value (2)"),
        (r#"{"n":7}"#, "expected an object but got [n]"),
        (r#"{"n":{"gte":1,"step":2}}"#, "error parsing field [n], with unknown parameter [step]"),
        (r#"{"n":{"gte":{"x":1}}}"#, "unknown parameter [gte.x]"),
        (r#"{"n":{"gte":[1,2]}}"#, "only one of"),
        (r#"{"n.gte":1}"#, "expected an object but got [n.gte]"),
        (r#"{"from":"10.0.0.1"}"#, "Expected [ip/prefix] but was [10.0.0.1]"),
        (r#"{"o":[{"r":{"gte":"soon"}}]}"#, "soon"),
    ] {
        let fault = fault(&mapping, wrong);
        assert!(fault.as_ref().is_some_and(|fault| fault.contains(why)), "{wrong}: {fault:?}");
    }
}

#[test]
fn documents_with_several_ranges_in_a_field_are_told() {
    let mapping = Mapping::from_elasticsearch_json(&serde_json::json!({ "properties": {
        "n": { "type": "long_range" }, "o": { "properties": { "r": { "type": "long_range" } } },
    } }))
    .unwrap();
    let several = |source: &str| {
        let document = parse(source, &mapping).unwrap();
        document.several_ranges().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(several(r#"{"n":{"gte":1,"lt":2},"o":{"r":{"gte":1}}}"#).is_empty());
    assert_eq!(several(r#"{"n":[{"gte":1},{"lt":2},{"gt":4}]}"#), ["n", "n"]);
    assert_eq!(several(r#"{"o":[{"r":{"gte":1}},{"r":{"lt":2}}]}"#), ["o.r"]);
}

proptest! {
    #[test]
    fn places_are_in_the_order_of_their_values(a in any::<f64>(), b in any::<f64>()) {
        prop_assume!(a.is_finite() && b.is_finite());
        let place = |number| RangeType::Double.place(&Value::Double(number)).unwrap();
        prop_assert_eq!(a.partial_cmp(&b), Some(place(a).cmp(&place(b))));
        prop_assert_eq!(RangeType::Double.number(place(a)), Some(a));
        let (a, b) = (a as f32, b as f32);
        prop_assume!(a.is_finite() && b.is_finite());
        let place = |number: f32| RangeType::Float.place(&Value::Double(number.into())).unwrap();
        prop_assert_eq!(a.partial_cmp(&b), Some(place(a).cmp(&place(b))));
        prop_assert_eq!(RangeType::Float.number(place(a)), Some(a.into()));
    }
}
