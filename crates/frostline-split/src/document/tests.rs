use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

pub(crate) fn parse(source: &str, mapping: &Mapping) -> Result<Document> {
    let mut document = Document::new();
    parse_document(source.as_bytes(), mapping, &Limits::default(), &mut document)?;
    Ok(document)
}

fn shown(document: &Document) -> Vec<String> {
    document.values().map(|(path, value)| format!("{}={value:?}", document.path(path))).collect()
}

#[track_caller]
fn check(source: &str, expected: &[&str]) {
    assert_eq!(shown(&parse(source, &Mapping::dynamic()).unwrap()), expected, "{source}");
}

#[track_caller]
fn check_refused(source: &[u8], mapping: &Mapping, reason: &str) {
    let outcome = parse_document(source, mapping, &Limits::default(), &mut Document::new());
    let error = outcome.expect_err("the document is refused");
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
    assert!(error.to_string().contains(reason), "{error} does not say {reason:?}");
}

fn strict() -> Mapping {
    Mapping::from_elasticsearch_json(&json!({"dynamic": "strict", "properties": {
        "code": {"type": "byte"}, "ok": {"type": "boolean"}, "at": {"type": "date"}, "load": {"type": "float"},
        "from": {"type": "ip"}, "name": {"type": "keyword"}, "host": {"properties": {"os": {"type": "keyword"}}},
    }}))
    .unwrap()
}

#[test]
fn values_have_their_own_types() {
    check(
        r#"{"a":true,"b":1,"c":1.5,"d":"x","e":null,"f":[],"g":{}}"#,
        &["a=Boolean(true)", "b=Long(1)", "c=Double(1.5)", "d=Text(\"x\")"],
    );
    check(
        r#"{"a":"2020-06-10","b":"10.0.0.1","c":"fe80::1","d":"10.0.0"}"#,
        &[
            "a=Date(Moment { time_us: 1591747200000000, nanos: 0 })",
            "b=Ip(\"10.0.0.1\")",
            "c=Ip(\"fe80::1\")",
            "d=Text(\"10.0.0\")",
        ],
    );
}

#[test]
fn numbers_keep_what_they_say() {
    check(
        r#"{"a":9223372036854775807,"b":9223372036854775808,"c":-9223372036854775808,"d":-0,"e":1e3}"#,
        &[
            "a=Long(9223372036854775807)",
            "b=Big(\"9223372036854775808\")",
            "c=Long(-9223372036854775808)",
            "d=Long(0)",
            "e=Double(1000.0)",
        ],
    );
    check(r#"{"a":1e400,"b":1e-400}"#, &["a=Text(\"1e400\")", "b=Double(0.0)"]);
}

#[test]
fn objects_and_arrays_are_flattened() {
    check(
        r#"{"a":[{"b":1},{"b":2}],"a.b":3,"c":{"d":{"e":[[4],5,null]}}}"#,
        &["a.b=Long(1)", "a.b=Long(2)", "a.b=Long(3)", "c.d.e=Long(4)", "c.d.e=Long(5)"],
    );
    check(r#" { "" : { "" : 1 } , "x y" : "z" } "#, &[".=Long(1)", "x y=Text(\"z\")"]);
}

#[test]
fn escapes_are_read() {
    check(
        r#"{"\u0061\n":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é"}"#,
        &["a\n=Text(\"\\\"\\\\/\\u{8}\\u{c}\\n\\r\\té😀é\")"],
    );
    check(
        r#"{"a":"1\u0030.0.0.1","b":"2020\u002d06-10"}"#,
        &["a=Ip(\"10.0.0.1\")", "b=Date(Moment { time_us: 1591747200000000, nanos: 0 })"],
    );
}

#[test]
fn the_time_is_taken_out() {
    let document = parse(r#"{"@timestamp":"2020-06-10T00:00:00Z","a":1}"#, &Mapping::dynamic()).unwrap();
    assert_eq!(
        (document.time.map(|time| time.time_us), shown(&document)),
        (Some(1_591_747_200_000_000), vec!["a=Long(1)".to_owned()])
    );

    let document = parse(r#"{"@timestamp":"soon"}"#, &Mapping::dynamic()).unwrap();
    assert_eq!(
        (document.time.map(|time| time.time_us), shown(&document)),
        (None, vec!["@timestamp=Text(\"soon\")".to_owned()])
    );

    let by_event = Mapping::dynamic().with_time_field("event.at");
    let document =
        parse(r#"{"event":{"at":[1591747200,1591747201]},"@timestamp":"2020-06-10"}"#, &by_event).unwrap();
    assert_eq!(document.time.map(|time| time.time_us), Some(1_591_747_200_000_000));
    assert_eq!(
        shown(&document),
        ["event.at=Long(1591747201)", "@timestamp=Date(Moment { time_us: 1591747200000000, nanos: 0 })"]
    );
}

#[test]
fn declared_types_win_where_they_can() {
    let source = r#"{"code":"42","ok":"true","at":1591747200000,"load":3,"from":"10.0.0.1","name":12.50,"host":{"os":true}}"#;
    assert_eq!(
        shown(&parse(source, &strict()).unwrap()),
        [
            "code=Long(42)",
            "ok=Boolean(true)",
            "at=Date(Moment { time_us: 1591747200000000, nanos: 0 })",
            "load=Double(3.0)",
            "from=Ip(\"10.0.0.1\")",
            "name=Text(\"12.50\")",
            "host.os=Text(\"true\")",
        ]
    );
    let names = parse(r#"{"name":["2020-06-10","10.0.0.1",1e400],"code":42.0}"#, &strict()).unwrap();
    let expected =
        ["name=Text(\"2020-06-10\")", "name=Text(\"10.0.0.1\")", "name=Text(\"1e400\")", "code=Long(42)"];
    assert_eq!(shown(&names), expected);
}

#[test]
fn a_strict_mapping_refuses_by_name() {
    let refused = |source: &str, reason: &str| check_refused(source.as_bytes(), &strict(), reason);
    refused(r#"{"kode":1}"#, "field \"kode\": the mapping is strict");
    refused(r#"{"host":{"ip":1}}"#, "field \"host.ip\": the mapping is strict");
    refused(r#"{"code":300}"#, "field \"code\": \"300\" is not a valid byte");
    refused(r#"{"code":"many"}"#, "field \"code\": \"many\" is not a valid byte");
    refused(r#"{"from":"here"}"#, "field \"from\": \"here\" is not a valid ip");
    refused(r#"{"load":"NaN"}"#, "is not a valid float");
    assert!(parse(r#"{"kode":null,"@timestamp":"2020-06-10"}"#, &strict()).is_ok());
}

/// What Elasticsearch takes is not lost.
#[test]
fn a_strict_mapping_takes_points_however_they_are_written_unsigned_numbers_and_fractions() {
    let mapping = Mapping::from_elasticsearch_json(&json!({"dynamic": "strict", "properties": {
        "at": {"type": "geo_point"}, "area": {"type": "geo_shape"}, "id": {"type": "unsigned_long"},
        "code": {"type": "byte"}, "ok": {"type": "boolean"},
    }}))
    .unwrap();
    let source = r#"{"at":["1.5,2.5",[2.5,1],"u281z7"],"area":"POINT (1 2)","code":[1.7,"1.7"],"ok":"",
        "id":[18446744073709551615,"9223372036854775808",7,"8"]}"#;
    assert_eq!(
        shown(&parse(source, &mapping).unwrap()),
        [
            "at=Text(\"1.5,2.5\")",
            "at=Double(2.5)",
            "at=Long(1)",
            "at=Text(\"u281z7\")",
            "area=Text(\"POINT (1 2)\")",
            "code=Double(1.7)",
            "code=Text(\"1.7\")",
            "ok=Text(\"\")",
            "id=Big(\"18446744073709551615\")",
            "id=Big(\"9223372036854775808\")",
            "id=Long(7)",
            "id=Long(8)",
        ]
    );
    for (source, reason) in [
        (r#"{"id":18446744073709551616}"#, "is not a valid unsigned_long"),
        (r#"{"id":"many"}"#, "is not a valid unsigned_long"),
        (r#"{"code":300.5}"#, "is not a valid byte"),
        (r#"{"code":"1.7 "}"#, "is not a valid byte"),
        (r#"{"ok":"yes"}"#, "is not a valid boolean"),
    ] {
        check_refused(source.as_bytes(), &mapping, reason);
    }
}

#[test]
fn a_dynamic_mapping_keeps_what_does_not_fit() {
    let mapping = strict().with_mode(Mode::Dynamic);
    let document = parse(r#"{"code":["many",7],"from":1,"host":"x"}"#, &mapping).unwrap();
    assert_eq!(shown(&document), ["code=Text(\"many\")", "code=Long(7)", "from=Long(1)", "host=Text(\"x\")"]);
}

#[test]
fn a_document_notices_that_the_mapping_changed() {
    let (mut document, mut mapping) = (Document::new(), Mapping::dynamic());
    let limits = Limits::default();
    parse_document(br#"{"a":1}"#, &mapping, &limits, &mut document).unwrap();
    assert_eq!(shown(&document), ["a=Long(1)"]);
    mapping.declare("a", FieldType::Keyword).unwrap();
    parse_document(br#"{"a":1}"#, &mapping, &limits, &mut document).unwrap();
    assert_eq!(shown(&document), ["a=Text(\"1\")"]);
    parse_document(br#"{"a":1}"#, &Mapping::dynamic(), &limits, &mut document).unwrap();
    assert_eq!(shown(&document), ["a=Long(1)"]);
}

#[test]
fn path_numbers_are_stable_and_without_gaps() {
    let (mut document, mapping, limits) = (Document::new(), Mapping::dynamic(), Limits::default());
    parse_document(br#"{"a":1,"b":{"c":2}}"#, &mapping, &limits, &mut document).unwrap();
    let before: Vec<PathId> = document.values().map(|(path, _)| path).collect();
    assert!(parse_document(br#"{"x":1,"x":2}"#, &mapping, &limits, &mut document).is_err());
    parse_document(br#"{"b.c":3,"d":4,"a":5}"#, &mapping, &limits, &mut document).unwrap();
    let after: Vec<PathId> = document.values().map(|(path, _)| path).collect();
    assert_eq!((after[0], after[2]), (before[1], before[0]));
    assert!(after.iter().all(|path| (path.0 as usize) < document.path_count()));
    assert_eq!(document.path(after[1]), "d");
}

#[test]
fn what_is_no_document_is_refused() {
    let refused = |source: &[u8], reason: &str| check_refused(source, &Mapping::dynamic(), reason);
    refused(b"", "a document is a JSON object");
    refused(b"[1]", "a document is a JSON object");
    refused(b"{} x", "something follows the document [byte=3]");
    refused(b"{}{}", "something follows");
    refused(br#"{"a":1"#, "no ',' or '}'");
    refused(br#"{"a":1,}"#, "no key");
    refused(br#"{"a":[1,]}"#, "no JSON value");
    refused(br#"{"a" 1}"#, "no ':'");
    refused(br#"{"a":"x"#, "inside a string");
    refused(br#"{"a":"\"#, "inside a string");
    refused(b"{\"a\":\"x\ny\"}", "a control character");
    refused(b"{\"a\":\"\xff\"}", "not UTF-8 [byte=6]");
    refused(br#"{"a":"\x"}"#, "an unknown escape");
    refused(br#"{"a":"\u12"}"#, "four hexadecimal digits");
    refused(br#"{"a":"\ud800"}"#, "surrogate");
    refused(br#"{"a":"\udc00\ud800"}"#, "surrogate");
    refused(br#"{"a":"\ud800\u0041"}"#, "surrogate");
    for number in ["01", "-", "1.", ".5", "1e", "+1", "1e+", "- 1", "0x10", "NaN"] {
        refused(format!("{{\"a\":{number}}}").as_bytes(), "");
    }
    refused(br#"{"a":1,"b":2,"a":3}"#, "field \"a\": the key appears twice");
    refused(br#"{"o":[{"a":1},{"a":1,"\u0061":2}]}"#, "field \"o.a\": the key appears twice");
}

#[test]
fn limits_are_limits() {
    let refused =
        |source: String, reason: &str| check_refused(source.as_bytes(), &Mapping::dynamic(), reason);
    refused(format!("{{\"a\":{}", "[".repeat(1_000)), "field \"a\": deeper than 64");
    refused("{\"a\":".repeat(1_000), "deeper than 64 objects and arrays");
    refused("[".repeat(1_000), "a document is a JSON object");
    let fields: Vec<String> = (0..10_000).map(|n| format!("\"f{n}\":1")).collect();
    refused(format!("{{{}}}", fields.join(",")), "more than 5000 fields");
    refused(format!("{{\"{}\":1}}", "k".repeat(1_025)), "longer than 1024 bytes");
    refused(format!("{{\"a\":\"{}\"}}", "x".repeat(16 << 20)), "is larger than 16777216");
    refused(format!("{{\"a\":[{}1]}}", "1,".repeat(1_000_000)), "more than 1000000 values");

    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(63), "]".repeat(63));
    check(&deep, &["a=Long(1)"]);
    let line = format!("{{\"a\":\"{}\"}}", "x".repeat(40_000));
    assert_eq!(parse(&line, &Mapping::dynamic()).unwrap().values().len(), 1);
    let fields = format!("{{{}}}", fields[..5_000].join(","));
    assert_eq!(parse(&fields, &Mapping::dynamic()).unwrap().values().len(), 5_000);
}

/// The model: a document read into a tree first.
fn flatten(path: &str, json: &Json, out: &mut Vec<String>) {
    match json {
        Json::Null => {}
        Json::Array(items) => items.iter().for_each(|item| flatten(path, item, out)),
        Json::Object(fields) => {
            for (key, value) in fields {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&below, value, out);
            }
        }
        Json::Bool(truth) => out.push(format!("{path}={:?}", Value::Boolean(*truth))),
        Json::Number(number) => {
            let digits = number.to_string();
            let value = match number.as_i64() {
                Some(number) => Value::Long(number),
                None if number.is_u64() => Value::Big(&digits),
                None => Value::Double(number.as_f64().unwrap()),
            };
            out.push(format!("{path}={value:?}"));
        }
        Json::String(text) => {
            let value = match (parse_moment(text), parse_ip(text)) {
                (Some(moment), _) => Value::Date(moment),
                (None, Some(_)) => Value::Ip(text),
                (None, None) => Value::Text(text),
            };
            out.push(format!("{path}={value:?}"));
        }
    }
}

pub(crate) fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        ".{0,12}".prop_map(Json::from),
        "2020-0[1-9]-1[0-9](T10:00:00(\\.[0-9]{1,10})?Z)?".prop_map(Json::from),
        any::<[u8; 4]>().prop_map(|octets| Json::from(std::net::Ipv4Addr::from(octets).to_string())),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            proptest::collection::btree_map("([a-c]|\\PC{0,3})", inner, 0..5)
                .prop_map(|fields| Json::Object(fields.into_iter().collect())),
        ]
    })
}

pub(crate) fn any_document() -> impl Strategy<Value = Json> {
    proptest::collection::btree_map("[a-z.\"\\\\é]{1,3}", any_json(), 0..6)
        .prop_map(|fields| Json::Object(fields.into_iter().collect()))
}

proptest! {
    #[test]
    fn a_document_is_what_its_tree_says(first in any_document(), second in any_document(), pretty: bool) {
        let mut document = Document::new();
        for json in [first, second] {
            let source = if pretty { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) };
            let source = source.unwrap();
            parse_document(source.as_bytes(), &Mapping::dynamic(), &Limits::default(), &mut document).unwrap();
            let mut expected = Vec::new();
            flatten("", &json, &mut expected);
            prop_assert_eq!(shown(&document), expected);
        }
    }

    #[test]
    fn bytes_that_changed_are_json_or_refused(json in any_document(), at: prop::sample::Index, byte: u8, cut: bool) {
        let mut source = serde_json::to_vec(&json).unwrap();
        let at = at.index(source.len());
        source[at] = byte;
        if cut {
            source.truncate(at);
        }
        let outcome = parse_document(&source, &Mapping::dynamic(), &Limits::default(), &mut Document::new());
        let read = serde_json::from_slice::<serde_json::Map<String, Json>>(&source);
        let beyond_us = outcome.as_ref().is_err_and(|error| error.what().contains("the key appears twice"));
        let beyond_them = read.as_ref().is_err_and(|error| error.to_string().contains("number out of range"));
        prop_assert!(outcome.is_ok() == read.is_ok() || beyond_us || beyond_them, "{:?} {:?}", outcome, String::from_utf8_lossy(&source));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(source: Vec<u8>, text in "\\{[\\[\\]{}\",:0-9a-eu\\\\ .+-]{0,60}") {
        for source in [&source[..], text.as_bytes()] {
            let _ = parse_document(source, &strict(), &Limits::default(), &mut Document::new());
        }
    }

    #[test]
    fn plain_lengths_are_what_a_loop_finds(bytes in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), Just(0x1f), Just(0x20), Just(0x21), Just(0x5d), Just(0xdc), Just(0xa2), Just(0x80), any::<u8>()], 0..40)) {
        let expected = bytes.iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20)).unwrap_or(bytes.len());
        prop_assert_eq!(plain_length(&bytes), expected);
    }
}

#[test]
fn a_document_with_another_constant_or_without_an_object_has_a_fault() {
    let mapping = Mapping::from_elasticsearch_json(&serde_json::json!({ "properties": {
        "kind": { "type": "constant_keyword", "value": "1" }, "any": { "type": "constant_keyword" },
        "o": { "type": "flat_object" }, "f": { "type": "flattened" },
    } }))
    .unwrap();
    let fault = |source: &str| parse(source, &mapping).unwrap().fault().map(str::to_owned);
    for good in [
        r#"{"kind":"1","any":"x"}"#,
        r#"{"kind":1}"#,
        r#"{"kind":["1",1],"o":{"a":1},"f":[{"a":"x"},{}]}"#,
        r#"{"kind":null,"o":null}"#,
    ] {
        assert_eq!(fault(good), None, "{good}");
    }
    for (bad, expected) in [
        (
            r#"{"kind":"2"}"#,
            "only accepts values that are equal to the value defined in the mappings [1], but got [2]",
        ),
        (r#"{"kind":["1",true]}"#, "but got [true]"),
        (r#"{"o":"text"}"#, "error parsing field [o], of type [flat_object]: expected an object"),
        (r#"{"f":[{"a":1},2]}"#, "of type [flattened]"),
    ] {
        let fault = fault(bad).expect(bad);
        assert!(fault.contains(expected), "{fault}");
    }
}
