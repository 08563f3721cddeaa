use frostline_base::ErrorKind;
use proptest::prelude::*;
use serde_json::json;

use super::spelling::Spelling;
use super::*;
use crate::document::tests::any_document;

/// Takes documents apart one after the other and makes each again; the shapes, readable, and how many literals.
#[track_caller]
fn rendered(mapping: &Mapping, sources: &[&str]) -> (Vec<String>, usize) {
    let (mut document, mut shaper, mut parts) = (Document::new(), Shaper::default(), Parts::default());
    let (mut shapes, mut literals, mut out) = (Vec::new(), 0, Vec::new());
    for source in sources {
        parse_document(source.as_bytes(), mapping, &Limits::default(), &mut document).unwrap();
        shaper.take_apart(source.as_bytes(), &document, &mut parts);
        let shape = Shape::read(&parts.shape).unwrap();
        out.clear();
        shape.render(&mut DocumentRow::new(&document, &shape, &parts.literals), &mut out).unwrap();
        assert_eq!(String::from_utf8_lossy(&out), *source);
        let shown = String::from_utf8(parts.shape.clone()).unwrap();
        shapes.push(shown.replace('\u{1}', "$").replace('\u{2}', "@").replace('\u{3}', "#"));
        literals += parts.literals.len();
    }
    (shapes, literals)
}

#[track_caller]
fn check(source: &str, shape: &str, literals: usize) {
    assert_eq!(rendered(&Mapping::dynamic(), &[source]), (vec![shape.to_owned()], literals));
}

#[test]
fn a_document_keeps_its_form_and_leaves_its_values() {
    check(
        r#" {"a" : 1,"b":{ "c":[true, null ,{"d":"x"}],"e":{},"f":[]},"a.b":-2.5,"\u0061b":"y" } "#,
        r#" {"a" : $C,"b":{ "c":[$E, null ,{"d":"$`"}],"e":{},"f":[]},"a.b":$B,"\u0061b":"$`" } "#,
        0,
    );
    check("{}", "{}", 0);
}

#[test]
fn values_are_written_as_they_were() {
    check(r#"{"a":"q\"\\\b\f\n\r\t\u0001é😀"}"#, r#"{"a":"$`"}"#, 0);
    check(r#"{"a":"\/x"}"#, r#"{"a":"$a"}"#, 0);
    check(r#"{"a":"\u00e9\ud83d\ude00"}"#, r#"{"a":"$b"}"#, 0);
    check(r#"{"a":"\u003cb\u003e \u0026"}"#, r#"{"a":"$d"}"#, 0);
    check(r#"{"a":"it\u0027s \u00E9"}"#, r#"{"a":"$z"}"#, 0);
    check(r#"{"a":9223372036854775808,"b":0,"c":-9223372036854775808}"#, r#"{"a":$D,"b":$C,"c":$C}"#, 0);
    check(
        r#"{"a":1.0,"b":0.00001,"c":1e21,"d":1e-7,"e":123456.789}"#,
        r#"{"a":$B,"b":$B,"c":$B,"d":$B,"e":$B}"#,
        0,
    );
    check(r#"{"a":1.50,"b":100.000,"c":0.1000000000000000}"#, r#"{"a":$2,"b":$3,"c":$@}"#, 0);
    check(
        r#"{"a":"10.0.0.1","b":"2001:db8::1","c":"0:0:0:0:0:0:0:1","d":"::ffff:1.2.3.4","e":"FE80::A"}"#,
        r#"{"a":"$F","b":"$F","c":"$G","d":"$H","e":"$I"}"#,
        0,
    );
}

#[test]
fn what_no_spelling_gives_is_a_literal() {
    check(
        r#"{"a":-0.0,"b":1E5,"c":-0,"d":"\u0041","e":"2024-01-01T00:00:00.1234567890Z","f":"0:0::1","g":1.5}"#,
        r#"{"a":$R,"b":$R,"c":$Q,"d":$V,"e":$T,"f":$U,"g":$B}"#,
        6,
    );
    check(
        r#"{"@timestamp":1.7E9,"@timestamp.x":[1.50e1,1.5]}"#,
        "{\"@timestamp\":#z,\"@timestamp.x\":[$R,$B]}",
        2,
    );
}

#[test]
fn dates_keep_their_digits_and_their_zone() {
    check(
        r#"{"a":"2024-02-29T23:59:59Z","b":"2024-02-29T23:59:59.120+02:00","c":"1969-12-31T00:00:00.000001-0330"}"#,
        r#"{"a":"@0Z","b":"@3+02:00","c":"@6-0330"}"#,
        0,
    );
    check(
        r#"{"a":["2024-02-29T23:59:59.123456789Z","1969-12-31T23:59:59.9999999+02:00"]}"#,
        r#"{"a":["@9Z","@:+02:00"]}"#,
        0,
    );
    check(
        r#"{"a":"2024-02-29","b":"2024-02-29T01:02","c":"0000-01-01T00:00:00.000000000Z","d":"9999-12-31T23:59:59"}"#,
        r#"{"a":"@a","b":"@b","c":"@9Z","d":"@0"}"#,
        0,
    );
    for (time, shape) in [
        (r#""2024-02-29 01:02:03.500 +0100""#, "\"#C +0100\""),
        (r#""2024/02/29 01:02:03""#, "\"#P\""),
        (r#""29/Feb/2024:01:02:03 -0500""#, "\"#` -0500\""),
        ("1700000000", "#c"),
        ("1700000000123", "#d"),
        ("-1700000000000000", "#e"),
        ("1700000000000000000", "#f"),
        ("1700000000.123", "#g"),
        (r#""1700000000.123456""#, "\"#h\""),
        ("1700000000123456789", "#f"),
        (r#""2024-02-29T01:02:03.1234567Z""#, "\"#7Z\""),
        (r#""1969-12-31 23:59:59.999999999""#, "\"#I\""),
    ] {
        check(&format!(r#"{{"@timestamp":{time}}}"#), &format!(r#"{{"@timestamp":{shape}}}"#), 0);
    }
}

#[test]
fn a_field_keeps_to_its_spelling() {
    let (shapes, literals) = rendered(
        &Mapping::dynamic(),
        &[
            r#"{"a":1.25,"b":1.25,"t":"2024-01-01T00:00:00.5Z"}"#,
            r#"{"a":1.50,"b":1.5,"t":"2024-01-01T00:00:00.25Z"}"#,
            r#"{"a":1.75,"b":2.125,"t":"2024-01-01T00:00:00Z"}"#,
            r#"{"a":2.00,"b":3.0,"t":"2024-01-01T00:00:00.125Z"}"#,
        ],
    );
    assert_eq!(shapes[1], "{\"a\":$2,\"b\":$B,\"t\":\"@:Z\"}");
    assert!(shapes[2..].iter().all(|shape| *shape == shapes[1]), "{shapes:?}");
    assert_eq!(literals, 0);
}

#[test]
fn declared_fields_are_written_as_they_came() {
    let mapping = Mapping::from_elasticsearch_json(&json!({"properties": {
        "code": {"type": "long"}, "name": {"type": "keyword"}, "ok": {"type": "boolean"},
        "load": {"type": "double"}, "at": {"type": "date"},
    }}))
    .unwrap();
    let (shapes, literals) = rendered(
        &mapping,
        &[
            r#"{"code":"42","name":[7,true,1e400,"x"],"ok":"false","load":5,"at":1700000000}"#,
            r#"{"code":42.0,"load":"1.50","at":"then"}"#,
        ],
    );
    assert_eq!(
        shapes,
        [
            r#"{"code":"$C","name":[$`,$`,$`,"$`"],"ok":"$E","load":$0,"at":@c}"#,
            r#"{"code":$Q,"load":"$2","at":"$`"}"#,
        ]
    );
    assert_eq!(literals, 1);
}

/// What splits that are stored rely on: each line is the byte of a spelling, a value and what it writes.
#[test]
fn spellings_are_frozen() {
    let of_values: &[(u8, Value<'_>, &str)] = &[
        (0x30, Value::Double(2.5), "2"),
        (0x31, Value::Double(-0.0), "0.0"),
        (0x33, Value::Double(231.71), "231.710"),
        (0x41, Value::Double(0.1), "0.10000000000000001"),
        (0x42, Value::Double(5e-324), "5e-324"),
        (0x42, Value::Double(0.000_01), "0.00001"),
        (0x42, Value::Double(0.000_009_5), "9.5e-6"),
        (0x42, Value::Double(-1234.5), "-1234.5"),
        (0x42, Value::Double(9_007_199_254_740_993.0), "9007199254740992.0"),
        (0x42, Value::Double(1e16), "1e16"),
        (0x43, Value::Long(-7), "-7"),
        (0x44, Value::Big("18446744073709551616"), "18446744073709551616"),
        (0x45, Value::Boolean(false), "false"),
        (0x46, Value::Ip("fe80::1"), "fe80::1"),
        (0x47, Value::Ip("fe80::1"), "fe80:0:0:0:0:0:0:1"),
        (0x48, Value::Ip("1.2.3.4"), "::ffff:1.2.3.4"),
        (0x49, Value::Ip("fe80::a"), "FE80::A"),
        (0x60, Value::Text("/é<'\u{7f}\u{b}\""), "/é<'\u{7f}\\u000b\\\""),
        (0x61, Value::Text("/"), "\\/"),
        (0x62, Value::Text("é\u{2028}"), "\\u00e9\\u2028"),
        (0x64, Value::Text("<>&\u{2029}é'"), "\\u003c\\u003e\\u0026\\u2029é'"),
        (0x68, Value::Text("'<"), "\\u0027<"),
        (0x72, Value::Text("ÿ😀"), "\\u00FF\\uD83D\\uDE00"),
    ];
    let of_dates: &[(u8, i128, &str)] = &[
        (0x30, -62_167_219_200_000_000_000, "0000-01-01T00:00:00"),
        (0x33, 951_782_400_001_999_000, "2000-02-29T00:00:00.001"),
        (0x36, -1_000, "1969-12-31T23:59:59.999999"),
        (0x39, 1_000, "1970-01-01T00:00:00.000001000"),
        (0x3a, 1_500_000_000, "1970-01-01T00:00:01.5"),
        (0x3a, 0, "1970-01-01T00:00:00"),
        (0x40, 253_402_300_799_999_999_000, "9999-12-31 23:59:59"),
        (0x51, 4_107_542_400_900_000_000, "2100/03/01 00:00:00.9"),
        (0x60, 1_709_164_800_000_000_000, "29/Feb/2024:00:00:00"),
        (0x61, 1_709_164_800_000_000_000, "2024-02-29"),
        (0x62, 1_709_164_860_000_000_000, "2024-02-29T00:01"),
        (0x63, -5_000_000_000, "-5"),
        (0x64, 1_001_000_000, "1001"),
        (0x65, 1_000, "1"),
        (0x66, -1_000, "-1000"),
        (0x67, 1_001_000_000, "1.001"),
        (0x68, 1_000_001_000, "1.000001"),
        (0x37, 951_782_400_001_999_900, "2000-02-29T00:00:00.0019999"),
        (0x39, -1, "1969-12-31T23:59:59.999999999"),
        (0x3a, 1_500_000_010, "1970-01-01T00:00:01.50000001"),
        (0x66, -1, "-1"),
    ];
    let check = |spelling: Option<Spelling>, code: u8, value: &Value<'_>, expected: &str| {
        let (spelling, mut out) = (spelling.unwrap(), Vec::new());
        spelling.write(value, 0, &mut out).unwrap();
        assert_eq!((spelling.code(), std::str::from_utf8(&out).unwrap()), (code, expected));
        assert_eq!(spelling.ty(), value.ty());
    };
    for (code, value, expected) in of_values {
        check(Spelling::of_code(*code), *code, value, expected);
    }
    for (code, time_ns, expected) in of_dates {
        check(Spelling::of_date_code(*code), *code, &Value::Date(Moment::of_ns(*time_ns).unwrap()), expected);
    }
    let mut out = Vec::new();
    for time_us in [i64::MIN, i64::MAX, -62_167_219_200_000_001, 253_402_300_800_000_000] {
        let date = Value::Date(Moment::of_us(time_us));
        assert_eq!(Spelling::of_date_code(0x30).unwrap().write(&date, 0, &mut out), None);
    }
    assert_eq!(Spelling::of_code(0x43).unwrap().write(&Value::Text("7"), 0, &mut out), None);
}

#[test]
fn every_byte_is_at_most_one_spelling() {
    let of = [Spelling::of_code as fn(u8) -> Option<Spelling>, Spelling::of_date_code];
    for (read, count) in of.into_iter().zip([18 + 1 + 3 + 4 + 7 + 32, 3 * 11 + 3 + 6 + 1]) {
        let known: Vec<u8> = (0..=u8::MAX).filter(|code| read(*code).is_some()).collect();
        assert_eq!(known.len(), count);
        for code in known {
            assert_eq!(read(code).unwrap().code(), code);
            assert!(code.is_ascii_graphic() || code == 0x7f, "{code}");
            assert!(!matches!(code, b'"' | b'\\'), "{code}");
        }
    }
}

#[test]
fn forged_shapes_are_corrupt() {
    let refused = |shape: &[u8]| {
        let error = Shape::read(shape).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{shape:?}");
    };
    for shape in [
        &b"{\"a\":\x01"[..],
        b"{\"a\":\x01C5}",
        b"{\"a\":\x01\x01}",
        b"{\"a\":\x01~~}",
        b"{\"a\":\x02z}",
        b"{\"a\":\"\x01`x\"}",
        b"{\"a\":\"x\x01`\"}",
        b"{\"a\":\"\x01V\"}",
        b"{\"@timestamp\":\"\x03z\"}",
        b"{\"a\":\"\x020+25:00\"}",
        b"{\"\x01C\":\x01C}",
        b"{\"a\":1}",
        b"{\"a\":\"x\"}",
        b"{\"a\":\x01C,\"a\":\x01C}",
        b"[\x01C]",
        b"\xff",
        b"",
    ] {
        refused(shape);
    }
    // A field more than documents may have, and an object deeper.
    let fields: String = (0..5_001).map(|n| format!("\"{n}\":\u{1}C,")).collect();
    refused(format!("{{{}}}", fields.trim_end_matches(',')).as_bytes());
    refused(format!("{}\u{1}C{}", "{\"a\":".repeat(65), "}".repeat(65)).as_bytes());
}

/// A row with these values, no literal and no time.
struct Values<'v>(std::vec::IntoIter<Value<'v>>);

impl Row for Values<'_> {
    fn next_value(&mut self, _reading: usize) -> Option<Value<'_>> {
        self.0.next()
    }

    fn time(&mut self) -> Option<Moment> {
        None
    }

    fn next_literal(&mut self) -> Option<&str> {
        None
    }
}

fn render(shape: &str, values: Vec<Value<'_>>) -> Result<String, ErrorKind> {
    let (shape, mut out) = (Shape::read(shape.as_bytes()).unwrap(), Vec::new());
    let rendered = shape.render(&mut Values(values.into_iter()), &mut out);
    rendered.map(|()| String::from_utf8(out).unwrap()).map_err(|error| error.kind())
}

#[test]
fn values_that_would_be_other_json_are_corrupt() {
    let check = |shape: &str, value: Value<'_>, expected: &str| {
        let expected = Some(expected).filter(|expected| !expected.is_empty()).map(str::to_owned);
        assert_eq!(render(shape, vec![value]), expected.ok_or(ErrorKind::Corrupt), "{shape} {value:?}");
    };
    // By itself a text is as it was written, which is a number or a word.
    check("{\"a\":\u{1}`}", Value::Text("7.0"), r#"{"a":7.0}"#);
    check("{\"a\":\u{1}`}", Value::Text("true"), r#"{"a":true}"#);
    check("{\"a\":\u{1}`}", Value::Text("1,\"b\":2"), "");
    check("{\"a\":\u{1}`}", Value::Text("x"), "");
    check("{\"a\":\u{1}`}", Value::Text(""), "");
    check("{\"a\":\"\u{1}F\"}", Value::Ip("10.0.0.1"), r#"{"a":"10.0.0.1"}"#);
    check("{\"a\":\"\u{1}F\"}", Value::Ip("\",\"b\":\""), "");
    check("{\"a\":\u{1}F}", Value::Ip("10.0.0.1"), "");
    check("{\"a\":\u{1}D}", Value::Big("9223372036854775808"), r#"{"a":9223372036854775808}"#);
    check("{\"a\":\"\u{1}D\"}", Value::Big("9223372036854775808"), r#"{"a":"9223372036854775808"}"#);
    check("{\"a\":\u{1}D}", Value::Big("1e"), "");
    check("{\"a\":\"\u{1}D\"}", Value::Big("\n"), "");
    for spelling in ["B", "2"] {
        check(&format!("{{\"a\":\u{1}{spelling}}}"), Value::Double(1.25), r#"{"a":1.25}"#);
        check(&format!("{{\"a\":\u{1}{spelling}}}"), Value::Double(f64::NAN), "");
        check(&format!("{{\"a\":\u{1}{spelling}}}"), Value::Double(f64::NEG_INFINITY), "");
    }
    let day = Value::Date(Moment::of_us(0));
    check("{\"a\":\"\u{2}a\"}", day, r#"{"a":"1970-01-01"}"#);
    check("{\"a\":\u{2}a}", day, "");
    check("{\"a\":\u{2}c}", day, r#"{"a":0}"#);
}

#[test]
fn a_row_that_is_not_the_shapes_is_corrupt() {
    let render =
        |shape: &str, texts: &[&str]| render(shape, texts.iter().map(|text| Value::Text(text)).collect());
    assert_eq!(render("{\"a\":\"\u{1}`\"}", &["x"]).unwrap(), r#"{"a":"x"}"#);
    // Two texts of one row, a number that is a text, a time and a literal that are not there.
    assert_eq!(render("{\"a\":[\"\u{1}`\",\"\u{1}`\"]}", &["x"]), Err(ErrorKind::Corrupt));
    assert_eq!(render("{\"a\":\u{1}C}", &["x"]), Err(ErrorKind::Corrupt));
    assert_eq!(render("{\"a\":\u{3}c}", &["x"]), Err(ErrorKind::Corrupt));
    assert_eq!(render("{\"a\":\u{1}V}", &["x"]), Err(ErrorKind::Corrupt));
    // 16 MiB and no more.
    let long = "x".repeat((16 << 20) - 8);
    assert_eq!(render("{\"a\":\"\u{1}`\"}", &[&long]).unwrap().len(), 16 << 20);
    assert_eq!(render("{\"a\":\"\u{1}`\" }", &[&long]), Err(ErrorKind::Corrupt));
}

fn any_scalar() -> impl Strategy<Value = String> {
    let number = r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,19})?([eE][+-]?[0-9]{1,3})?";
    let time = r"[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,11})?)?(Z|[+-][01][0-9]:?[0-5][0-9])?";
    let quoted = |text: &'static str| text.prop_map(|text| format!("\"{text}\""));
    prop_oneof![
        number,
        any::<f64>().prop_filter_map("JSON has no infinity", |n| n.is_finite().then(|| format!("{n:?}"))),
        any::<i64>().prop_map(|n| n.to_string()),
        quoted(time),
        quoted(r#"([a-z/<>&'é😀]|\\["\\/bfnrt]|\\u00[0-9a-fA-F]{2}|\\ud83d\\uDE00){0,12}"#),
        quoted("[0-9a-fA-F]{0,4}(:[0-9a-f]{0,4}){2,7}|(::ffff:)?[0-9]{1,3}(\\.[0-9]{1,3}){3}"),
        prop_oneof![Just("true"), Just("false"), Just("null"), Just("[]"), Just("{}")]
            .prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn decimals_are_those_of_the_formatter(
        number in prop_oneof![any::<f64>(), (any::<i64>(), 0..16i32).prop_map(|(n, e)| n as f64 / 10f64.powi(e)),
            (-100_000..100_000i32, 0..6i32).prop_map(|(n, e)| f64::from(n) / 10f64.powi(e))],
        count in 0..=17u8,
    ) {
        let mut out = Vec::new();
        let written = Spelling::Decimals(count).write(&Value::Double(number), 0, &mut out);
        prop_assert_eq!(written.is_some(), number.is_finite());
        if number.is_finite() {
            prop_assert_eq!(String::from_utf8(out).unwrap(), format!("{:.*}", usize::from(count), number + 0.0));
        }
    }

    #[test]
    fn documents_are_made_again(source in any_document()) {
        rendered(&Mapping::dynamic(), &[&source.to_string()]);
    }

    #[test]
    fn spellings_are_made_again(
        documents in proptest::collection::vec(proptest::collection::vec((any_scalar(), "[ \n]{0,2}"), 1..6), 1..4)
    ) {
        let names = ["@timestamp", "at", "code", "name", "load", "ok", "from"];
        let sources: Vec<String> = documents.iter().map(|values| {
            let pairs: Vec<String> =
                values.iter().zip(names).map(|((value, space), name)| format!("\"{name}\":{space}[{value}{space}]")).collect();
            format!("{{{}}}", pairs.join(","))
        }).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        rendered(&Mapping::dynamic(), &sources);
        let declared = Mapping::from_elasticsearch_json(&json!({"properties": {
            "at": {"type": "date"}, "code": {"type": "long"}, "name": {"type": "keyword"},
            "load": {"type": "double"}, "ok": {"type": "boolean"}, "from": {"type": "ip"},
        }})).unwrap();
        rendered(&declared, &sources);
    }

    #[test]
    fn no_bytes_make_it_fail(bytes in proptest::collection::vec(prop_oneof![
        Just(1u8), Just(2), Just(3), Just(b'"'), Just(b'{'), Just(b'}'), Just(b':'), Just(b','), Just(b'['), Just(b']'), any::<u8>()
    ], 0..40)) {
        crate::fuzzing::render(&bytes);
    }
}
