use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::analysis::{Analysis, Definitions};

fn read(json: serde_json::Value) -> Mapping {
    Mapping::from_elasticsearch_json(&json).unwrap()
}

#[track_caller]
fn check_refused(json: serde_json::Value, reason: &str) {
    let error = Mapping::from_elasticsearch_json(&json).expect_err("the mapping is refused");
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
    assert!(error.what().contains(reason), "{error} does not say {reason:?}");
}

#[test]
fn column_names_are_readable_and_unique_without_case() {
    let name = |path| Mapping::column_name(path, ValueType::Long, false);
    assert_eq!(name("status"), "status__long");
    assert_eq!(Mapping::column_name("status", ValueType::Text, true), "status__text_list");
    assert!(name("host.name").starts_with("host_name_"));
    assert_ne!(name("Message").to_lowercase(), name("message"));
    assert_ne!(name("host.name"), name("host_name"));
    let made = name("host.name");
    let plain_twin = made.strip_suffix("__long").unwrap();
    assert_ne!(name(plain_twin), made, "a path that looks like a made name gets another");
    assert!(name("").ends_with("__long") && name("1é ").starts_with("f1__"));
    assert!(name(&"x".repeat(5_000)).len() < 100);
}

#[test]
fn columns_end_with_the_budget_and_fields_do_not() {
    let mut mapping = Mapping::dynamic().with_column_budget(2);
    assert_eq!(mapping.place("a", ValueType::Long, false), Placement::Column);
    assert_eq!(mapping.place("b", ValueType::Text, true), Placement::Column);
    assert_eq!(mapping.place("c", ValueType::Text, false), Placement::Dynamic);
    assert_eq!(mapping.place("a", ValueType::Text, false), Placement::Dynamic);
    assert_eq!(mapping.place("a", ValueType::Long, true), Placement::Column, "its other column");
    assert_eq!(mapping.column_count(), 3);
    let mut mapping = mapping.with_column_budget(100);
    assert_eq!(mapping.place("c", ValueType::Text, false), Placement::Dynamic, "it stays where it is");
    assert_eq!(mapping.place("d", ValueType::Text, false), Placement::Column);
    assert_eq!(
        mapping.conflicts(),
        [Conflict { path: "a".into(), types: vec![ValueType::Long, ValueType::Text] }]
    );
}

#[test]
fn writers_that_grew_apart_exceed_the_budget_rather_than_lose() {
    let base = Mapping::dynamic().with_column_budget(1);
    let (mut one, mut other) = (base.clone(), base);
    one.place("a", ValueType::Long, false);
    other.place("b", ValueType::Long, false);
    other.place("a", ValueType::Long, false);
    let mut merged = one.clone();
    assert!(merged.merge(&other).unwrap());
    assert!(!merged.merge(&other).unwrap());
    assert_eq!(merged.column_count(), 2);
    assert_eq!(
        merged.field("a").unwrap().readings[&ValueType::Long],
        Reading { scalar: true, list: false, dynamic: true, dynamic_list: false, nanos: false }
    );
}

#[test]
fn the_schema_has_every_column_once() {
    let mut mapping = Mapping::dynamic().with_column_budget(3);
    for (path, ty, list) in
        [("b", ValueType::Ip, true), ("b", ValueType::Ip, false), ("a", ValueType::Date, false)]
    {
        mapping.place(path, ty, list);
    }
    mapping.place("z", ValueType::Text, false);
    let schema = mapping.arrow_schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["_timestamp", "_source", "_dynamic", "a__date", "b__ip", "b__ip_list"]);
    assert_eq!(schema.field(5).data_type(), &list_of(DataType::Utf8));
}

#[test]
fn elasticsearch_mappings_are_read() {
    let mapping = read(json!({"mappings": {"dynamic": "strict", "_meta": {"x": 1}, "properties": {
        "@timestamp": {"type": "date", "format": "strict_date_optional_time||epoch_millis"},
        "host": {"properties": {"name": {"type": "keyword", "ignore_above": 256}}},
        "labels": {"type": "object", "dynamic": "strict"},
        "message": {"type": "text", "norms": false, "fields": {"raw": {"type": "keyword"}}},
        "a.b": {"type": "half_float", "coerce": true},
    }}}));
    assert_eq!(mapping.mode(), Mode::Strict);
    let declared: Vec<_> =
        mapping.fields().iter().map(|(path, field)| (path.as_str(), field.declared)).collect();
    assert_eq!(
        declared,
        [
            ("@timestamp", Some(FieldType::Date)),
            ("a.b", Some(FieldType::HalfFloat)),
            ("host.name", Some(FieldType::Keyword)),
            ("labels", Some(FieldType::Object)),
            ("message", Some(FieldType::Text)),
        ]
    );
    assert_eq!(Mapping::from_elasticsearch_json(&mapping.to_elasticsearch_json()).unwrap().fields().len(), 5);
    assert_eq!(Mapping::from_elasticsearch_bytes(b"{}").unwrap(), Mapping::dynamic());
    assert!(Mapping::from_elasticsearch_bytes(b"{").is_err());
}

#[test]
fn dates_may_be_declared_with_nanoseconds_and_have_columns_of_them_once_some_do() {
    let declared =
        json!({"properties": {"@timestamp": {"type": "date_nanos"}, "at": {"type": "date_nanos"}}});
    let mut mapping = read(declared);
    for path in ["@timestamp", "at"] {
        assert_eq!(mapping.field(path).unwrap().declared, Some(FieldType::Date));
    }
    mapping.place("at", ValueType::Date, false);
    mapping.place("at", ValueType::Date, true);
    let types = |mapping: &Mapping| {
        let json = mapping.to_elasticsearch_json();
        ["@timestamp", "at"].map(|path| json["properties"][path]["type"].clone())
    };
    let names = |mapping: &Mapping| -> Vec<String> {
        mapping.arrow_schema().fields().iter().map(|field| field.name().clone()).collect()
    };
    assert_eq!(types(&mapping), ["date", "date"]);
    assert_eq!(names(&mapping), ["_timestamp", "_source", "_dynamic", "at__date", "at__date_list"]);
    // One index of two with nanoseconds makes them columns of both.
    let mut other = mapping.clone();
    other.note_nanos();
    other.note_nanos_of("at");
    assert!(mapping.merge(&other).unwrap());
    assert_eq!(types(&mapping), ["date_nanos", "date_nanos"]);
    let columns = ["_timestamp", NANOS_COLUMN, "_source", "_dynamic"];
    let of_field = ["at__date", "at__date_ns", "at__date_list", "at__date_list_ns"];
    assert_eq!(names(&mapping), [&columns[..], &of_field[..]].concat());
    assert_eq!(mapping.arrow_schema().field(7).data_type(), &list_of(DataType::Int16));
    assert_eq!(mapping.column_count(), 2);
    assert_eq!(read(mapping.to_elasticsearch_json()).field("at").unwrap().declared, Some(FieldType::Date));
}

#[test]
fn dates_are_read_in_every_format_that_a_mapping_may_declare() {
    use crate::document::Value;
    use crate::values::{parse_moment, parse_moment_field};
    for format in elasticsearch::DATE_FORMATS {
        let (text, is) = match format.trim_start_matches("strict_") {
            "epoch_millis" => ("1714557600123", "2024-05-01T10:00:00.123Z"),
            "epoch_second" => ("1714557600", "2024-05-01T10:00:00Z"),
            "date" | "yyyy-MM-dd" | "uuuu-MM-dd" => ("2024-05-01", "2024-05-01T00:00:00Z"),
            "date_optional_time" | "date_optional_time_nanos" | "iso8601" | "date_time" => {
                ("2024-05-01T12:00:00.123+02:00", "2024-05-01T10:00:00.123Z")
            }
            "yyyy-MM-dd'T'HH:mm:ss.SSSXXX" => ("2024-05-01T12:00:00.123+02:00", "2024-05-01T10:00:00.123Z"),
            "date_time_no_millis" | "yyyy-MM-dd'T'HH:mm:ssXXX" => {
                ("2024-05-01T12:00:00+02:00", "2024-05-01T10:00:00Z")
            }
            "date_hour_minute_second" | "yyyy-MM-dd'T'HH:mm:ss" => {
                ("2024-05-01T10:00:00", "2024-05-01T10:00:00Z")
            }
            "yyyy-MM-dd'T'HH:mm:ss.SSS" => ("2024-05-01T10:00:00.123", "2024-05-01T10:00:00.123Z"),
            "yyyy-MM-dd HH:mm:ss" | "uuuu-MM-dd HH:mm:ss" => ("2024-05-01 10:00:00", "2024-05-01T10:00:00Z"),
            "yyyy-MM-dd HH:mm:ss.SSS" | "uuuu-MM-dd HH:mm:ss.SSS" => {
                ("2024-05-01 10:00:00.123", "2024-05-01T10:00:00.123Z")
            }
            "yyyy-MM-dd HH:mm:ss.SSSSSS" => ("2024-05-01 10:00:00.123456", "2024-05-01T10:00:00.123456Z"),
            "yyyy-MM-dd HH:mm:ssXXX" => ("2024-05-01 12:00:00+02:00", "2024-05-01T10:00:00Z"),
            "yyyy-MM-dd HH:mm:ss Z" => ("2024-05-01 12:00:00 +0200", "2024-05-01T10:00:00Z"),
            "yyyy/MM/dd HH:mm:ss" | "uuuu/MM/dd HH:mm:ss" => ("2024/05/01 10:00:00", "2024-05-01T10:00:00Z"),
            "yyyy/MM/dd HH:mm:ss.SSS" => ("2024/05/01 10:00:00.123", "2024-05-01T10:00:00.123Z"),
            "yyyy/MM/dd HH:mm:ss Z" => ("2024/05/01 12:00:00 +0200", "2024-05-01T10:00:00Z"),
            "dd/MMM/yyyy:HH:mm:ss Z" => ("01/May/2024:12:00:00 +0200", "2024-05-01T10:00:00Z"),
            other => panic!("an example of {other} is missing"),
        };
        assert_eq!(parse_moment_field(&Value::Text(text)), parse_moment(is), "{format}");
        read(json!({"properties": {"at": {"type": "date", "format": format}}}));
    }
}

#[test]
fn how_values_are_shown_is_kept() {
    let written = json!({"properties": {
        "@timestamp": {"type": "date", "format": "epoch_second"},
        "millis": {"type": "date_nanos", "format": "epoch_millis||strict_date_optional_time"},
        "usual": {"type": "date", "format": "strict_date_optional_time||epoch_millis"},
        "scaled": {"type": "scaled_float", "scaling_factor": "100"},
        "day": {"type": "date", "format": "strict_date||yyyy-MM-dd'T'HH:mm:ss"},
        "labels": {"type": "flat_object"},
        "bytes": {"type": "binary"},
    }});
    let mapping = read(written);
    let shown = mapping.to_elasticsearch_json()["properties"].clone();
    let expected = json!({
        "@timestamp": {"type": "date", "format": "epoch_second"},
        "millis": {"type": "date", "format": "epoch_millis||strict_date_optional_time"},
        "usual": {"type": "date"},
        "scaled": {"type": "scaled_float", "scaling_factor": 100.0},
        "day": {"type": "date", "format": "strict_date||yyyy-MM-dd'T'HH:mm:ss"},
        "labels": {"type": "flat_object"},
        "bytes": {"type": "binary"},
    });
    assert_eq!(shown, expected);
    assert_eq!(mapping.field("scaled").and_then(Field::scaling_factor), Some(100.0));
    let again = read(json!({"properties": shown}));
    assert_eq!(again, mapping);
    assert_eq!(again.declarations(), mapping);
    // Writers that were told different things agree in any order.
    let mut other = read(json!({"properties": {"scaled": {"type": "scaled_float", "scaling_factor": 10}}}));
    let mut both = mapping.clone();
    both.merge(&other).unwrap();
    other.merge(&mapping).unwrap();
    assert_eq!(other.field("scaled"), both.field("scaled"));
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    let field = |body| json!({"properties": {"a": {"properties": {"b": body}}}});
    check_refused(field(json!({"type": "join"})), r#"field "a.b": the type "join" is not supported"#);
    check_refused(field(json!({"type": "completion"})), "completion");
    check_refused(field(json!({"type": 7})), "field \"a.b\": the type 7");
    check_refused(field(json!({"index": true})), "field \"a.b\" has no type");
    check_refused(field(json!({"type": "text", "analyzer": "french"})), "analyzer [french] has not been");
    check_refused(field(json!({"type": "date", "format": "yyyy"})), r#""format": "yyyy""#);
    for factor in [json!(0), json!("x"), json!(-1)] {
        let scaled = json!({"type": "scaled_float", "scaling_factor": factor});
        check_refused(field(scaled), "[scaling_factor] must be a positive number");
    }
    check_refused(field(json!({"type": "float", "scaling_factor": 10})), r#""scaling_factor": 10"#);
    check_refused(field(json!({"type": "keyword", "null_value": "x"})), "null_value");
    check_refused(field(json!({"type": "keyword", "fields": {"n": {"type": "long"}}})), "field \"a.b.n\"");
    check_refused(field(json!({"type": "object", "enabled": "no"})), "enabled");
    check_refused(json!({"dynamic": "maybe"}), "dynamic \"maybe\" is not supported");
    check_refused(field(json!({"type": "alias"})), "an alias has the \"path\"");
    check_refused(field(json!({"type": "keyword", "copy_to": 1})), "copy_to");
    check_refused(json!({"runtime": {"a": {"type": "long"}}}), "runtime");
    check_refused(json!({"properties": {"a..b": {"type": "long"}}}), "empty part");
    check_refused(
        json!({"properties": {"a.b": {"type": "long"}, "a": {"properties": {"b": {"type": "ip"}}}}}),
        "is declared as",
    );
    check_refused(json!([]), "not an object");
}

#[test]
fn a_key_given_twice_is_refused_where_it_stands() {
    for (json, reason) in [
        (
            r#"{"properties":{"f":{"type":"keyword"}},"properties":{"g":{"type":"long"}}}"#,
            "duplicate key [properties] at line 1 column 51",
        ),
        (
            r#"{"properties":{"f":{"type":"keyword"},"f":{"type":"long"}}}"#,
            "duplicate key [f] at line 1 column 41",
        ),
    ] {
        let error = Mapping::from_elasticsearch_bytes(json.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), reason);
    }
}

#[test]
fn what_a_field_does_without_stays_so_whoever_declares_it() {
    does_without("index", |field| field.unindexed);
    does_without("doc_values", |field| field.without_doc_values);
}

fn does_without(key: &str, is_without: fn(&Field) -> bool) {
    let read = |value: serde_json::Value| {
        let body = json!({"type": "text", key: value, "fields": {"raw": {"type": "keyword", key: false}}});
        Mapping::from_elasticsearch_json(&json!({"properties": {"a": body}}))
    };
    let is_without = |mapping: &Mapping| mapping.field("a").is_some_and(is_without);
    for (value, expected) in
        [(json!(false), true), (json!("false"), true), (json!(true), false), (json!("true"), false)]
    {
        let mapping = read(value).unwrap();
        assert_eq!(is_without(&mapping), expected);
        let shown = mapping.to_elasticsearch_json();
        assert_eq!(shown["properties"]["a"].get(key), expected.then_some(&json!(false)));
        assert_eq!(is_without(&Mapping::from_elasticsearch_json(&shown).unwrap()), expected);
        let kept: Mapping = serde_json::from_value(json!(mapping)).unwrap();
        assert_eq!(kept, mapping);
    }
    let (mut ours, theirs) = (read(json!(true)).unwrap(), read(json!(false)).unwrap());
    let mut other_way = theirs.clone();
    assert!(ours.merge(&theirs).unwrap() && !other_way.merge(&read(json!(true)).unwrap()).unwrap());
    assert!(is_without(&ours) && ours == other_way);
    for wrong in [json!(null), json!(0), json!("no")] {
        let error = read(wrong).unwrap_err();
        assert!(error.to_string().contains("not true or false"), "{error}");
    }
}

#[test]
fn a_deep_mapping_is_refused() {
    let deep = (0..100).fold(json!({"type": "long"}), |inner, _| json!({"properties": {"a": inner}}));
    check_refused(deep, "deeper than 64");
}

#[test]
fn a_field_is_shown_with_a_type_that_reads_all_its_values() {
    let mut mapping = Mapping::dynamic();
    for (path, ty) in
        [("n", ValueType::Long), ("n", ValueType::Double), ("m", ValueType::Long), ("m", ValueType::Text)]
    {
        mapping.place(path, ty, false);
    }
    mapping.place("m.below", ValueType::Ip, false);
    let shown = mapping.to_elasticsearch_json();
    assert_eq!(
        shown,
        json!({"dynamic": "true", "properties": {
            "@timestamp": {"type": "date"},
            "m": {"type": "text", "fields": {"keyword": {"type": "keyword"}}, "properties": {"below": {"type": "ip"}}},
            "n": {"type": "double"},
        }})
    );
    // It can be given to another index, as tools that copy indices do.
    assert_eq!(read(shown.clone()).to_elasticsearch_json(), shown);
    check_refused(
        json!({"properties": {"m": {"type": "text", "properties": 1}}}),
        "\"properties\" is not an object",
    );
}

#[test]
fn a_query_path_finds_fields_multi_fields_and_objects() {
    let mut mapping = read(json!({"properties": {
        "user": {"type": "keyword", "fields": {"words": {"type": "text"}}},
        "message": {"type": "text"},
    }}));
    for path in ["host.name", "host.os.kind", "hosts", "host"] {
        mapping.place(path, ValueType::Text, false);
    }
    mapping.place("count", ValueType::Long, false);
    let paths = |name: &str| mapping.resolve(name).paths;
    assert_eq!(paths("message"), [("message", false)]);
    assert_eq!(paths("message.keyword"), [("message", true)]);
    assert_eq!(paths("host.name.keyword"), [("host.name", true)]);
    assert_eq!(paths("user"), [("user", true)]);
    assert_eq!(paths("user.words"), [("user", false)]);
    assert_eq!(paths("count.keyword"), [("count", true)]);
    assert_eq!(paths("nobody"), []);
    assert_eq!(paths("message.other"), []);
    assert_eq!(paths("host"), [("host", false)]);
    assert_eq!(["host", "hosts", "host.os"].map(|path| mapping.has_children(path)), [true, false, true]);
}

#[test]
fn a_field_named_like_another_name_of_its_parent_stands_beside_it() {
    let mut mapping = Mapping::dynamic();
    mapping.place("s", ValueType::Text, false);
    mapping.place("s.keyword", ValueType::Text, false);
    assert_eq!(mapping.resolve("s.keyword").paths, [("s.keyword", false), ("s", true)]);
}

#[test]
fn the_time_is_known_by_its_own_name_and_as_timestamp_where_no_field_is() {
    let time = |mapping: &Mapping, name: &str| mapping.resolve(name).is_time;
    let mut mapping = Mapping::dynamic();
    assert!(time(&mapping, "@timestamp") && !time(&mapping, "event.at"));
    mapping = mapping.with_time_field("event.at");
    assert!(time(&mapping, "event.at") && time(&mapping, "@timestamp"));
    mapping.place("@timestamp", ValueType::Date, false);
    assert!(time(&mapping, "event.at") && !time(&mapping, "@timestamp"));
}

#[test]
fn a_mapping_is_found_inside_of_what_apis_answer() {
    let mapping = json!({"dynamic": "strict", "properties": {"a": {"type": "long"}}});
    let alone = read(mapping.clone());
    let settings = json!({"index": {"number_of_shards": 1}});
    for whole in [
        json!({"settings": settings, "mappings": mapping, "aliases": {}}),
        json!({"web": {"mappings": mapping}}),
        json!({"index_patterns": ["web-*"], "template": {"settings": settings, "mappings": mapping}, "priority": 1}),
    ] {
        assert_eq!(read(whole), alone);
    }
    let refused = Mapping::from_elasticsearch_json(&json!({"settings": settings, "properties": {}}));
    assert!(refused.unwrap_err().to_string().contains("\"settings\" is not supported"));
}

#[test]
fn mappings_that_contradict_are_not_merged() {
    let mut mapping = read(json!({"properties": {"a": {"type": "long"}, "b": {"type": "ip"}}}));
    let before = mapping.clone();
    let other = read(json!({"properties": {"c": {"type": "long"}, "b": {"type": "keyword"}}}));
    assert!(
        mapping.merge(&other).unwrap_err().what().contains("field \"b\" is declared as ip and as keyword")
    );
    assert!(mapping.merge(&Mapping::dynamic().with_time_field("at")).is_err());
    assert_eq!(mapping, before);
    assert!(mapping.declare("a", FieldType::Long).is_ok() && mapping.declare("a", FieldType::Ip).is_err());
}

fn any_type() -> impl Strategy<Value = ValueType> {
    prop::sample::select(ValueType::ALL.to_vec())
}

fn any_mapping() -> impl Strategy<Value = Mapping> {
    let placed = proptest::collection::vec(("[a-dA-D.]{1,2}", any_type(), any::<bool>()), 0..12);
    // Every mapping declares a path alike, as those of one index do.
    let declared = proptest::collection::btree_set(prop::sample::select(vec!["a", "b", "c"]), 0..3);
    (placed, declared, 0u32..6, any::<bool>()).prop_map(|(placed, declared, budget, strict)| {
        let mode = if strict { Mode::Strict } else { Mode::Dynamic };
        let mut mapping = Mapping::dynamic().with_column_budget(budget).with_mode(mode);
        declared.iter().for_each(|path| mapping.declare(path, FieldType::Keyword).unwrap());
        for (path, ty, list) in placed {
            mapping.place(&path, ty, list);
            if ty == ValueType::Date && path.len() == 1 {
                mapping.note_nanos_of(&path);
            }
        }
        mapping
    })
}

fn merged(one: &Mapping, other: &Mapping) -> Mapping {
    let mut merged = one.clone();
    let changed = merged.merge(other).unwrap();
    assert_eq!(changed, merged != *one);
    merged
}

proptest! {
    #[test]
    fn merging_has_no_order(a in any_mapping(), b in any_mapping(), c in any_mapping()) {
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        prop_assert_eq!(merged(&a, &a), a.clone());
    }

    #[test]
    fn merging_loses_nothing(a in any_mapping(), b in any_mapping()) {
        let both = merged(&a, &b);
        for (path, field) in a.fields().iter().chain(b.fields()) {
            for (ty, reading) in &field.readings {
                let kept = both.field(path).unwrap().readings[ty];
                prop_assert!(kept.scalar >= reading.scalar && kept.list >= reading.list && kept.dynamic >= reading.dynamic);
                prop_assert!(kept.nanos >= reading.nanos);
            }
        }
        let schema = both.arrow_schema();
        let names: std::collections::BTreeSet<String> = schema.fields().iter().map(|f| f.name().to_lowercase()).collect();
        let nanos = both.fields().values().filter_map(|field| field.readings.get(&ValueType::Date));
        let nanos = nanos.filter(|dates| dates.nanos).flat_map(Reading::columns).count();
        prop_assert_eq!(names.len(), both.column_count() + nanos + 3);
    }

    #[test]
    fn a_place_stays(mapping in any_mapping(), path in "[a-d]", ty in any_type(), list: bool) {
        let mut mapping = mapping;
        let first = mapping.place(&path, ty, list);
        let known = mapping.clone();
        prop_assert_eq!(mapping.place(&path, ty, list), first);
        prop_assert_eq!(&mapping, &known);
        prop_assert_eq!(mapping.place(&path, ty, !list), first);
    }

    #[test]
    fn mappings_survive_storage(mapping in any_mapping()) {
        let json = serde_json::to_string(&mapping).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Mapping>(&json).unwrap(), &mapping);
        let bytes = postcard::to_allocvec(&mapping).unwrap();
        prop_assert_eq!(&postcard::from_bytes::<Mapping>(&bytes).unwrap(), &mapping);
    }

    #[test]
    fn names_of_two_readings_differ(a in "[a-zA-Z0-9_.é]{0,12}", b in "[a-zA-Z0-9_.é]{0,12}", types in (any_type(), any_type()), lists: (bool, bool)) {
        let names = [Mapping::column_name(&a, types.0, lists.0), Mapping::column_name(&b, types.1, lists.1)];
        let same = a == b && types.0 == types.1 && lists.0 == lists.1;
        prop_assert_eq!(names[0].eq_ignore_ascii_case(&names[1]), same);
    }

    #[test]
    fn any_bytes_are_a_mapping_or_refused(bytes: Vec<u8>, text in "\\{\"properties\":\\{[\\[\\]{}\",:a-z]{0,40}") {
        let _ = (Mapping::from_elasticsearch_bytes(&bytes), Mapping::from_elasticsearch_bytes(text.as_bytes()));
    }
}

#[test]
fn what_only_says_how_elasticsearch_finds_text_is_taken() {
    let mapping = read(json!({"properties": {
        "message": {"type": "text", "analyzer": "standard", "search_analyzer": "default", "term_vector": "with_positions_offsets",
            "index_phrases": true, "index_prefixes": {"min_chars": 2}, "similarity": "boolean"},
        "count": {"type": "unsigned_long"},
    }}));
    assert_eq!(mapping.field("message").unwrap().declared, Some(FieldType::Text));
    let count = mapping.field("count").unwrap().declared.unwrap();
    assert_eq!((count.name(), count.value_type()), ("unsigned_long", Some(ValueType::Long)));
    let field = |body: serde_json::Value| json!({"properties": {"a.b": body}});
    check_refused(
        field(json!({"type": "text", "analyzer": "english"})),
        "analyzer [english] has not been configured in mappings (of field [a.b])",
    );
    check_refused(
        field(json!({"type": "keyword", "analyzer": "standard"})),
        r#"field "a.b": the parameter "analyzer""#,
    );
}

#[test]
fn who_sees_some_of_the_fields_knows_no_others() {
    let text = || json!({"type": "text"});
    let whole = read(
        json!({"properties": {"a": text(), "b": {"properties": {"c": text(), "d": text()}}, "b.cd": text()}}),
    );
    assert!(!whole.hides() && !whole.hides_below("b"));
    assert_eq!(whole.children("b").collect::<Vec<_>>(), ["b.c", "b.cd", "b.d"]);
    let seen = whole.seen(|path| path != "b.d");
    assert!(seen.hides() && seen.hides_below("b") && !seen.hides_below("b.d") && !seen.hides_below("a"));
    assert_eq!(seen.children("b").collect::<Vec<_>>(), ["b.c", "b.cd"]);
    assert!(seen.resolve("b.d").paths.is_empty() && seen.resolve("b.d.keyword").paths.is_empty());
    // What is hidden in one index is hidden in several.
    let mut joined = read(json!({"properties": {"e": text()}}));
    joined.join(&seen);
    assert!(joined.hides_below("b") && joined.field("e").is_some());
    assert!(!whole.seen(|_| true).hides());
}

#[test]
fn the_time_is_in_a_field_that_can_have_it() {
    let mapping = json!({"properties": {
        "at": {"type": "date"}, "nanos": {"type": "date_nanos"}, "word": {"type": "keyword"}, "n": {"type": "long"},
        "event": {"properties": {"created": {"type": "date"}, "any": {"type": "object"}}},
        "empty": {"type": "object"},
    }});
    let check = |path: &str| {
        let mapping = Mapping::from_elasticsearch_json(&mapping).unwrap().with_time_field(path);
        mapping.check_time_field().map_err(|e| e.to_string())
    };
    for path in [
        "@timestamp",
        "at",
        "nanos",
        "event.created",
        "event.any.time",
        "other",
        "a.b",
        "_SOURCE_REALTIME",
        "zeit µ",
    ] {
        assert_eq!(check(path), Ok(()), "{path}");
    }
    assert_eq!(check(&"x".repeat(255)), Ok(()));
    for (path, why) in [
        ("", "no name of a field"),
        ("a..b", "no name of a field"),
        ("a*", "no name of a field"),
        ("a\nb", "no name of a field"),
        ("_id", "_id is no field of a document"),
        ("_source.at", "_source is no field of a document"),
        ("word", "declares it as keyword: declare it as date"),
        ("n", "declares it as long"),
        ("empty", "declares it as object"),
        ("event", "an object with fields such as event.any"),
        ("word.time", "declares word as keyword"),
        ("word.a.b", "declares word as keyword"),
        (&"x".repeat(256), "more than 255 bytes"),
    ] {
        let error = check(path).unwrap_err();
        assert!(error.contains(why) && error.len() < 300, "{path}: {error}");
    }
}

#[test]
fn names_have_the_types_of_what_they_mean() {
    let properties = json!({
        "message": { "type": "text", "fields": { "raw": { "type": "keyword" } }, "copy_to": ["all", "said"] },
        "code": { "type": "long", "copy_to": ["all", "codes"] },
        "said": { "type": "text" },
        "whole": { "type": "alias", "path": "message.raw" },
        "number": { "type": "alias", "path": "code" },
        "when": { "type": "alias", "path": "@timestamp" },
        "copied": { "type": "alias", "path": "codes" },
        "pass": { "type": "passthrough", "priority": 2, "properties": { "zone": { "type": "ip" } } },
        "other": { "type": "passthrough", "priority": 1, "properties": { "zone": { "type": "long" }, "code": { "type": "ip" } } },
    });
    let mut mapping = Mapping::from_elasticsearch_json(&json!({ "properties": properties })).unwrap();
    mapping.place("text", ValueType::Text, false);
    let names: Vec<(String, Option<&str>)> =
        mapping.other_names().into_iter().map(|name| (name.clone(), mapping.type_name_of(&name))).collect();
    let expected = [
        ("all", "text"),
        ("codes", "long"),
        ("copied", "long"),
        ("message.raw", "keyword"),
        ("number", "long"),
        ("said", "text"),
        ("text.keyword", "keyword"),
        ("when", "date"),
        ("whole", "keyword"),
        ("zone", "ip"),
    ];
    let expected: Vec<(String, Option<&str>)> =
        expected.into_iter().map(|(name, ty)| (name.to_owned(), Some(ty))).collect();
    assert_eq!(names, expected);
    assert_eq!(mapping.field_of_alias("whole"), Some("message"));
    assert_eq!(mapping.type_name_of("gone"), None);
    // Nothing is told of a field that is not seen.
    let seen = mapping.seen(|path| path != "code" && path != "message");
    assert_eq!(seen.type_name_of("number"), None);
    assert_eq!(seen.type_name_of("whole"), None);
    assert!(seen.resolve("number").paths.is_empty());
    assert_eq!((seen.alias_of("number"), seen.alias_of("whole")), (None, None));
    assert!(seen.to_elasticsearch_json()["properties"]["number"].is_null());
    assert_eq!(mapping.seen(|path| path != "message.raw").alias_of("whole"), None);
    assert_eq!(mapping.seen(|path| path != "said").alias_of("number"), Some("code"));
}

/// A mapping as it is shown, without the time.
fn shown(properties: serde_json::Value) -> serde_json::Value {
    let mapping = Mapping::from_elasticsearch_json(&json!({ "properties": properties })).unwrap();
    let mut shown = mapping.to_elasticsearch_json()["properties"].clone();
    shown.as_object_mut().unwrap().remove("@timestamp");
    shown
}

#[test]
fn what_is_said_of_text_constants_and_nested_objects_is_shown() {
    let properties = json!({
        "host": { "type": "keyword", "normalizer": "lowercase" },
        "line": { "type": "text", "analyzer": "whitespace", "fields": {
            "raw": { "type": "wildcard", "normalizer": "lowercase" }, "letters": { "type": "text", "analyzer": "simple" },
        } },
        "kind": { "type": "constant_keyword", "value": "web" },
        "a": { "type": "nested", "include_in_parent": true },
        "b": { "type": "nested", "include_in_root": true },
        "at": { "type": "date", "fields": { "exact": { "type": "date" } } },
    });
    assert_eq!(shown(properties.clone()), properties);
    let others = json!({
        "n": { "type": "constant_keyword", "value": 7 }, "o": { "type": "nested", "include_in_root": false },
        "t": { "type": "text", "analyzer": "stop", "search_analyzer": "stop" },
        "d": { "type": "date", "fields": { "nanos": { "type": "date_nanos" } } },
    });
    let expected = json!({
        "n": { "type": "constant_keyword", "value": "7" }, "o": { "type": "nested" },
        "t": { "type": "text", "analyzer": "stop" },
        "d": { "type": "date", "fields": { "nanos": { "type": "date" } } },
    });
    assert_eq!(shown(others), expected);
    for (field, reason) in [
        (
            json!({ "type": "text", "analyzer": "french" }),
            "analyzer [french] has not been configured in mappings",
        ),
        (
            json!({ "type": "text", "normalizer": "lowercase" }),
            "\"normalizer\": \"lowercase\" is not supported",
        ),
        (json!({ "type": "keyword", "analyzer": "simple" }), "\"analyzer\": \"simple\" is not supported"),
        (json!({ "type": "keyword", "normalizer": "mine" }), "normalizer [mine] not found for field [f]"),
        (
            json!({ "type": "text", "search_analyzer": "simple" }),
            "analyzer on field [f] must be set when search_analyzer is set",
        ),
        (
            json!({ "type": "text", "analyzer": "stop", "search_quote_analyzer": "simple" }),
            "\"search_quote_analyzer\": \"simple\" is not supported",
        ),
        (json!({ "type": "constant_keyword", "value": [1] }), "\"value\": [1] is not supported"),
        (
            json!({ "type": "long", "fields": { "d": { "type": "date" } } }),
            "\"type\": \"date\" is not supported",
        ),
    ] {
        let error = Mapping::from_elasticsearch_json(&json!({ "properties": { "f": field } })).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn names_are_compared_as_their_fields_say() {
    let mapping = Mapping::from_elasticsearch_json(&json!({ "properties": {
        "host": { "type": "keyword", "normalizer": "lowercase" },
        "raw": { "type": "keyword", "fields": { "lower": { "type": "keyword", "normalizer": "lowercase" } } },
        "name": { "type": "alias", "path": "raw.lower" },
        "pass": { "type": "passthrough", "priority": 1, "properties": { "t": { "type": "text", "analyzer": "stop" } } },
    } }))
    .unwrap();
    for (name, expected) in [
        ("host", Analysis::normalizer("lowercase")),
        ("host.keyword", None),
        ("raw", None),
        ("raw.lower", Analysis::normalizer("lowercase")),
        ("name", Analysis::normalizer("lowercase")),
        ("t", Analysis::analyzer("stop")),
        ("pass.t", Analysis::analyzer("stop")),
        ("gone", None),
    ] {
        assert_eq!(mapping.analysis_of(name), expected, "{name}");
    }
    // What writers say apart is the same in whatever order it comes together.
    let other = json!({ "properties": { "raw": { "type": "keyword", "fields": {
        "other": { "type": "keyword", "normalizer": "lowercase" } } } } });
    let other = Mapping::from_elasticsearch_json(&other).unwrap();
    let (mut one, mut two) = (mapping.clone(), other.clone());
    one.merge(&other).unwrap();
    two.merge(&mapping).unwrap();
    assert_eq!(one, two);
    assert_eq!(one.analysis_of("raw.other"), Analysis::normalizer("lowercase"));
}

#[test]
fn what_is_below_a_flattened_field_is_whole_and_not_listed() {
    let json = json!({ "properties": { "o": { "type": "flat_object" }, "p": { "properties": {} } } });
    let mut mapping = Mapping::from_elasticsearch_json(&json).unwrap();
    mapping.place("o.a", ValueType::Text, false);
    mapping.place("p.a", ValueType::Text, false);
    assert_eq!(mapping.resolve("o.a").paths, [("o.a", true)]);
    assert_eq!(mapping.resolve("p.a").paths, [("p.a", false)]);
    let shown = mapping.to_elasticsearch_json();
    assert_eq!(shown["properties"]["o"], json!({ "type": "flat_object" }));
    assert!(shown["properties"]["p"]["properties"]["a"].is_object());
}

const SETTINGS: &str = r#"{ "analysis": {
    "normalizer": { "plain": { "type": "custom", "filter": ["lowercase", "asciifolding"] } },
    "analyzer": { "commas": { "type": "pattern", "pattern": "," }, "simple": { "tokenizer": "keyword" } }
} }"#;

fn with_settings(mapping: serde_json::Value) -> crate::Result<Mapping> {
    let settings: serde_json::Value = serde_json::from_str(SETTINGS).unwrap();
    Mapping::from_elasticsearch_json(&json!({ "settings": settings, "mappings": mapping }))
}

#[test]
fn fields_are_compared_by_what_settings_define() {
    let properties = json!({
        "line": { "type": "text", "analyzer": "commas", "search_analyzer": "whitespace", "fields": {
            "whole": { "type": "text", "analyzer": "simple" },
            "plain": { "type": "keyword", "normalizer": "plain" },
        } },
        "usual": { "type": "text", "analyzer": "standard", "search_analyzer": "default" },
        "asked": { "type": "text", "analyzer": "standard", "search_analyzer": "keyword" },
    });
    let mapping = with_settings(json!({ "properties": properties })).unwrap();
    let of = |name: &str| mapping.analysis_of(name).unwrap();
    let texts = |analysis: &Analysis| {
        analysis.words("A b,É").into_iter().map(|w| w.text.into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&of("line")), ["a b", "é"]);
    assert_eq!(of("line").asked("A b,É").len(), 2);
    assert_eq!(texts(&of("line.whole")), ["A b,É"], "settings count before what has the name anyway");
    assert_eq!(of("line.plain").fold("A b,É"), "a b,e");
    assert_eq!(mapping.analysis_of("usual"), None);
    assert_eq!(of("asked").asked("A b").len(), 1);
    // They go with the mapping, wherever it goes.
    let shown = &mapping.to_elasticsearch_json()["properties"];
    assert_eq!(shown["line"], properties["line"]);
    assert_eq!(shown["asked"], properties["asked"]);
    let again: Mapping = serde_json::from_value(serde_json::to_value(&mapping).unwrap()).unwrap();
    assert_eq!((again.analysis_of("line"), &again), (mapping.analysis_of("line"), &mapping));
    assert_eq!(mapping.declarations().analysis_of("line"), mapping.analysis_of("line"));
    let mut merged = Mapping::dynamic();
    assert!(merged.merge(&mapping).unwrap() && !merged.clone().merge(&mapping).unwrap());
    assert_eq!(merged.analysis_of("line.plain"), mapping.analysis_of("line.plain"));
    let change = |field: serde_json::Value| {
        let body = json!({ "properties": { "line": field } });
        let wanted = Mapping::from_elasticsearch_json_with(&body, mapping.definitions().clone())?;
        mapping.amended(wanted, |_| false).map(drop)
    };
    change(properties["line"].clone()).unwrap();
    let refused = |field: serde_json::Value, reason: &str| {
        let error = change(field).unwrap_err().to_string();
        assert!(error.contains(reason), "{error} does not say {reason:?}");
    };
    refused(
        json!({ "type": "text", "analyzer": "stop" }),
        "Cannot update parameter [analyzer] from [commas] to [stop]",
    );
    refused(
        json!({ "type": "text", "analyzer": "commas", "search_analyzer": "stop" }),
        "Cannot update parameter [search_analyzer] from [whitespace] to [stop]",
    );
    // What is left out is the default.
    refused(json!({ "type": "text" }), "Cannot update parameter [analyzer] from [commas] to [default]");
    refused(
        json!({ "type": "text", "analyzer": "commas" }),
        "Cannot update parameter [search_analyzer] from [whitespace] to [commas]",
    );
    let with = |fields: serde_json::Value| json!({ "type": "text", "analyzer": "commas", "search_analyzer": "whitespace", "fields": fields });
    change(with(json!({ "new": { "type": "text", "analyzer": "stop" } }))).unwrap();
    refused(
        with(json!({ "plain": { "type": "keyword" } })),
        "Mapper for [line.plain] conflicts with existing mapper: Cannot update parameter [normalizer] from [plain] to [null]",
    );
    refused(
        with(json!({ "whole": { "type": "text", "analyzer": "stop" } })),
        "Mapper for [line.whole] conflicts with existing mapper: Cannot update parameter [analyzer] from [simple] to [stop]",
    );
    refused(
        json!({ "type": "text", "analyzer": "gone" }),
        "analyzer [gone] has not been configured in mappings",
    );
}

#[test]
fn settings_give_an_analyzer_to_text_that_names_none() {
    let read = |analyzers: serde_json::Value, properties: serde_json::Value| {
        let settings = json!({ "analysis": { "analyzer": analyzers } });
        let body = json!({ "settings": settings, "mappings": { "properties": properties } });
        let mut mapping = Mapping::from_elasticsearch_json(&body).unwrap();
        for (path, ty) in
            [("found", ValueType::Text), ("count", ValueType::Long), ("@timestamp", ValueType::Text)]
        {
            mapping.place(path, ty, false);
        }
        mapping
    };
    let own = json!({ "tokenizer": "whitespace", "filter": ["lowercase"] });
    let properties = json!({
        "line": { "type": "text", "fields": { "words": { "type": "text" }, "raw": { "type": "keyword" } } },
        "plain": { "type": "text", "analyzer": "standard" },
        "said": { "type": "text", "analyzer": "default" },
        "other": { "type": "text", "analyzer": "keyword" },
        "flat": { "type": "flattened" },
    });
    let mut mapping =
        read(json!({ "default": own, "default_search": { "type": "simple" } }), properties.clone());
    mapping.place("flat.key", ValueType::Text, false);
    let names = |mapping: &Mapping, name: &str| {
        let analysis = mapping.analysis_of(name)?;
        let words = analysis.words("A 1").into_iter().map(|word| word.text.into_owned()).collect::<Vec<_>>();
        Some((words.join("+"), analysis.asked("A 1").len()))
    };
    let both = Some(("a+1".to_owned(), 1));
    for name in ["line", "line.words", "found"] {
        assert_eq!(names(&mapping, name), both, "{name}");
    }
    // An analyzer that a field names is also that of its queries.
    assert_eq!(names(&mapping, "said"), Some(("a+1".to_owned(), 2)));
    assert_eq!(names(&mapping, "other"), Some(("A 1".to_owned(), 1)));
    for name in ["line.raw", "found.keyword", "plain", "count", "flat.key", "@timestamp", "unknown"] {
        assert_eq!(mapping.analysis_of(name), None, "{name}");
    }
    let shown = mapping.to_elasticsearch_json();
    assert_eq!(shown["properties"]["plain"], properties["plain"]);
    assert_eq!(shown["properties"]["line"], properties["line"]);
    let only_queries =
        read(json!({ "default_search": { "type": "keyword" } }), json!({ "line": { "type": "text" } }));
    assert_eq!(names(&only_queries, "line"), Some(("a+1".to_owned(), 1)));
    // What says what all text has says nothing.
    let usual = read(json!({ "default": { "type": "standard" } }), properties);
    assert_eq!((usual.analysis_of("line"), usual.analysis_of("said")), (None, None));
}

#[test]
fn templates_give_fields_analyzers() {
    let template = |mapping: serde_json::Value| {
        with_settings(json!({ "dynamic_templates": [{ "t": { "match": "t*", "mapping": mapping } }] }))
    };
    let fields = json!({ "plain": { "type": "keyword", "normalizer": "plain" } });
    let mut mapping = template(json!({ "type": "text", "analyzer": "commas", "fields": fields })).unwrap();
    let templated = mapping.templated("t1", super::Kind::String);
    mapping.note_templated("t1", super::Kind::String, templated.as_ref());
    mapping.place("t1", ValueType::Text, false);
    mapping.place("u1", ValueType::Text, false);
    assert_eq!(mapping.analysis_of("t1").unwrap().name(), "commas");
    assert_eq!(mapping.analysis_of("t1.plain").unwrap().name(), "plain");
    assert_eq!(mapping.analysis_of("u1"), None);
    let shown = mapping.to_elasticsearch_json();
    assert_eq!(shown["properties"]["t1"], json!({ "type": "text", "analyzer": "commas", "fields": fields }));
    let change = |path: &str, body: serde_json::Value| {
        let body = json!({ "properties": { path: body } });
        let wanted = Mapping::from_elasticsearch_json_with(&body, mapping.definitions().clone()).unwrap();
        mapping.amended(wanted, |_| false).map(drop).map_err(|error| error.what().to_owned())
    };
    assert_eq!(change("t1", shown["properties"]["t1"].clone()), Ok(()));
    assert_eq!(change("u1", json!({ "type": "text" })), Ok(()));
    // Documents have been found by it.
    let refused = change("t1", json!({ "type": "text" })).unwrap_err();
    assert!(refused.ends_with("Cannot update parameter [analyzer] from [commas] to [default]"), "{refused}");
    let refused = change("u1", json!({ "type": "text", "analyzer": "commas" })).unwrap_err();
    assert!(refused.ends_with("Cannot update parameter [analyzer] from [default] to [commas]"), "{refused}");
    let again: Mapping = serde_json::from_value(serde_json::to_value(&mapping).unwrap()).unwrap();
    assert_eq!(again.analysis_of("t1"), mapping.analysis_of("t1"));
    let error = format!("{:?}", template(json!({ "type": "text", "analyzer": "gone" })).unwrap_err());
    assert!(error.contains("analyzer [gone] has not been configured"), "{error}");
}

#[test]
fn a_mapping_says_which_part_of_documents_is_shown() {
    let source = json!({ "includes": ["a", "b.*"], "excludes": ["b.c"] });
    let mapping = read(json!({ "_source": source, "properties": {} }));
    assert_eq!(mapping.source().includes(), ["a", "b.*"]);
    assert_eq!(mapping.source().excludes(), ["b.c"]);
    assert_eq!(mapping.to_elasticsearch_json()["_source"], source);
    assert!(read(json!({ "_source": { "mode": "disabled" } })).source().is_hidden());
    assert!(
        read(json!({ "_source": { "enabled": true, "mode": "synthetic", "includes": [] } }))
            .source()
            .is_whole()
    );
    let again: Mapping = serde_json::from_value(serde_json::to_value(&mapping).unwrap()).unwrap();
    assert_eq!((again.source(), &again), (mapping.source(), &mapping));
    let mut merged = Mapping::dynamic();
    merged.merge(&mapping).unwrap();
    assert_eq!(merged.source(), mapping.source());
    assert_eq!(mapping.declarations_below("b").source(), mapping.source());
    assert_eq!(mapping.seen(|path| path == "a").source(), mapping.source());
    let change = |source: serde_json::Value| {
        mapping.amended(read(json!({ "_source": source })), |key| key == "_source")
    };
    change(source).unwrap();
    let error = change(json!({ "enabled": false })).unwrap_err().to_string();
    assert!(error.contains("Cannot update parameter [enabled] from [true] to [false]"), "{error}");
    check_refused(json!({ "_source": { "enabled": "maybe" } }), "[_source.enabled]");
    check_refused(json!({ "_source": { "compress": true } }), "[_source.compress]");
}

#[test]
fn other_names_of_values_are_hidden_by_themselves() {
    let settings = json!({ "analysis": { "analyzer": {
        "own": { "tokenizer": "keyword" }, "asked": { "tokenizer": "whitespace" }, "shown": { "tokenizer": "letter" },
    } } });
    let definitions = Definitions::from_settings(&settings).unwrap();
    let fields = json!({
        "codes": { "type": "text", "analyzer": "own", "search_analyzer": "asked" },
        "words": { "type": "text", "analyzer": "shown" },
    });
    let json = json!({ "properties": { "line": { "type": "text", "fields": fields } } });
    let whole = Mapping::from_elasticsearch_json_with(&json, definitions).unwrap();
    let seen = whole.seen(|path| path != "line.codes");
    let shown = seen.to_elasticsearch_json()["properties"]["line"]["fields"].clone();
    assert_eq!(shown, json!({ "words": { "type": "text", "analyzer": "shown" } }));
    assert!(seen.analysis_of("line.codes").is_none() && seen.analysis_of("line.words").is_some());
    assert!(seen.resolve("line.codes").paths.is_empty() && !seen.resolve("line.words").paths.is_empty());
    let defines = |name: &str| seen.definitions().defines_analyzer(name);
    assert!(defines("shown") && !defines("own") && !defines("asked"));
}

/// `.keyword` is hidden by its own name, whether or not the mapping declares it, and its field is not.
#[test]
fn whole_values_are_hidden_by_the_name_that_asks_for_them() {
    let keyword = json!({ "keyword": { "type": "keyword" } });
    let json = json!({ "properties": {
        "declared": { "type": "text", "fields": keyword }, "alone": { "type": "text" },
        "other": { "type": "alias", "path": "alone" }, "whole": { "type": "alias", "path": "alone.keyword" },
    } });
    let mut whole = read(json);
    let text = Reading { scalar: true, ..Reading::default() };
    let found = Field { readings: BTreeMap::from([(ValueType::Text, text)]), ..Field::default() };
    whole.fields.insert("found".to_owned(), found);
    let seen = whole.seen(|path| !path.ends_with(".keyword"));
    for path in ["declared", "alone", "found", "other"] {
        let name = format!("{path}.keyword");
        assert!(!whole.resolve(&name).paths.is_empty() && !seen.resolve(path).paths.is_empty(), "{path}");
        assert!(seen.resolve(&name).paths.is_empty(), "{path}");
        assert_eq!((seen.type_name_of(&name), seen.analysis_of(&name)), (None, None), "{path}");
    }
    assert!(seen.alias_of("whole").is_none() && seen.resolve("whole").paths.is_empty());
    assert!(whole.other_names().contains("found.keyword"));
    assert!(!seen.other_names().iter().any(|name| name.ends_with(".keyword")));
    let shown = seen.to_elasticsearch_json()["properties"].clone();
    assert!(shown["found"]["fields"].is_null() && shown["declared"]["fields"].is_null(), "{shown}");
    // Answers that are kept for those who see the names are not for those who do not.
    assert_ne!(seen.digest(), whole.seen(|path| path != "declared.keyword" && path != "whole").digest());
    // Without its field it is not seen.
    assert!(whole.seen(|path| path != "found").resolve("found.keyword").paths.is_empty());
}
