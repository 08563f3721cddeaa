use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::mapping::{Field, Mode, ValueType};
use crate::{Document, Limits, SplitWriter, Value as Read, WriterOptions, parse_document};

fn read(json: serde_json::Value) -> Mapping {
    Mapping::from_elasticsearch_json(&json).unwrap()
}

#[track_caller]
fn check_refused(templates: serde_json::Value, reason: &str) {
    let error = Mapping::from_elasticsearch_json(&json!({ "dynamic_templates": templates }))
        .expect_err("it is refused");
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
    let all = frostline_base::chain(&error).to_string();
    assert!(all.contains(reason), "{all} does not say {reason:?}");
}

/// The values of a document as text, with their types.
fn values(mapping: &Mapping, document: &serde_json::Value) -> Vec<String> {
    let mut parsed = Document::new();
    parse_document(document.to_string().as_bytes(), mapping, &Limits::default(), &mut parsed).unwrap();
    let shown = |(path, value): (crate::PathId, Read<'_>)| format!("{} {value:?}", parsed.path(path));
    parsed.values().map(shown).collect()
}

/// What a mapping becomes with these documents.
fn learned(mapping: &Mapping, documents: &[serde_json::Value]) -> Mapping {
    let mut writer = SplitWriter::new(mapping.clone(), WriterOptions::default());
    documents.iter().for_each(|document| writer.add(document.to_string().as_bytes()).unwrap());
    writer.seal(frostline_base::SplitId::from_random(1), &mut Vec::new()).unwrap().mapping
}

fn ty(mapping: &Mapping, path: &str) -> Option<FieldType> {
    mapping.field(path).and_then(Field::ty)
}

#[test]
fn patterns_match_from_the_first_to_the_last_character() {
    for (pattern, text) in [
        ("*", ""),
        ("*", "a.b"),
        ("a*", "a"),
        ("*_ip", "host_ip"),
        ("*.geo.*", "source.geo.location"),
        ("a*b*c", "a1b2bc"),
        ("a", "a"),
        ("**a", "ba"),
    ] {
        assert!(wildcard_matches(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in
        [("a", "ab"), ("a*a", "a"), ("*.ip", "ip"), ("a*b*c", "acb"), ("", "a"), ("*b", "ba")]
    {
        assert!(!wildcard_matches(pattern, text), "{pattern} {text}");
    }
}

#[test]
fn the_first_template_that_fits_says_how_a_value_is_read() {
    let mapping = read(json!({ "dynamic_templates": [
        { "ports": { "match": ["*_port", "port"], "unmatch": "text_port", "mapping": { "type": "keyword" } } },
        { "counts": { "path_match": "counts.*", "path_unmatch": "*.raw", "match_mapping_type": ["string", "long"],
            "mapping": { "type": "double" } } },
        { "codes": { "match_pattern": "regex", "match": "^code_\\d+$", "mapping": { "type": "keyword" } } },
        { "addresses": { "match": "ip", "match_mapping_type": "string", "mapping": { "type": "ip" } } },
        { "rest": { "match_mapping_type": "string", "unmatch_mapping_type": "date",
            "mapping": { "type": "keyword", "ignore_above": 1024 } } },
    ] }));
    let document = json!({
        "port": 80, "src_port": 443, "text_port": 1, "counts": { "a": "1.5", "b": 2, "raw": "7" },
        "code_12": 5, "code_x": 5, "ip": "10.0.0.1", "name": "x", "at": "2024-01-01T00:00:00Z",
    });
    assert_eq!(
        values(&mapping, &document),
        [
            "port Text(\"80\")",
            "src_port Text(\"443\")",
            "text_port Long(1)",
            "counts.a Double(1.5)",
            "counts.b Double(2.0)",
            "counts.raw Text(\"7\")",
            "code_12 Text(\"5\")",
            "code_x Long(5)",
            "ip Ip(\"10.0.0.1\")",
            "name Text(\"x\")",
            "at Date(Moment { time_us: 1704067200000000, nanos: 0 })",
        ]
    );
    let learned = learned(&mapping, &[document]);
    let keyword = Some(FieldType::Keyword);
    assert_eq!(["port", "counts.raw", "name", "code_12"].map(|path| ty(&learned, path)), [keyword; 4]);
    assert_eq!(["text_port", "code_x", "at"].map(|path| ty(&learned, path)), [None; 3]);
    assert_eq!(ty(&learned, "counts.b"), Some(FieldType::Double));
    assert_eq!(learned.resolve("name").paths, [("name", true)]);
    assert!(learned.field("name").unwrap().declared.is_none() && learned.declarations() == mapping);
}

#[test]
fn names_and_types_are_filled_in() {
    let mapping = read(json!({ "dynamic_templates": [{ "all": {
        "match": "*", "unmatch_mapping_type": "object",
        "mapping": { "type": "{dynamic_type}", "index": false, "meta": { "of": "{name}" },
            "fields": { "{name}_words": { "type": "text" } } },
    } }] }));
    let learned = learned(&mapping, &[json!({ "a": { "b": "x" } })]);
    let field = learned.field("a.b").unwrap();
    assert_eq!((field.ty(), field.is_unindexed()), (Some(FieldType::Text), true));
    assert_eq!(learned.resolve("a.b.b_words").paths, [("a.b", false)]);
}

#[test]
fn a_value_is_read_alike_whatever_came_before() {
    let mapping = read(json!({ "dynamic_templates": [
        { "texts": { "match_mapping_type": "string", "mapping": { "type": "keyword" } } },
        { "numbers": { "match_mapping_type": "long", "mapping": { "type": "double" } } },
    ] }));
    let (text, number) = (json!({ "v": "1" }), json!({ "v": 1 }));
    let one = learned(&mapping, &[text.clone(), number.clone()]);
    let other = learned(&mapping, &[number.clone(), text.clone()]);
    assert_eq!(one, other);
    assert_eq!(values(&one, &number), values(&mapping, &number));
    let (mut apart, second) = (learned(&mapping, &[text]), learned(&mapping, &[number]));
    assert!(apart.merge(&second).unwrap());
    assert_eq!(apart, one, "writers that saw different values do not contradict each other");
}

#[test]
fn what_is_no_template_is_refused() {
    let template = |body: serde_json::Value| json!([{ "t": body }]);
    check_refused(json!({}), "is an array of objects");
    check_refused(json!([{ "a": {}, "b": {} }]), "is an array of objects");
    check_refused(template(json!({ "match": "a" })), "has no \"mapping\"");
    check_refused(template(json!({ "mapping": {} })), "needs \"match\"");
    check_refused(template(json!({ "matches": "a", "mapping": {} })), "the parameter \"matches\"");
    check_refused(template(json!({ "match": 1, "mapping": {} })), "neither a text nor");
    check_refused(
        template(json!({ "match_mapping_type": "strings", "mapping": {} })),
        "No field type matched on [strings]",
    );
    check_refused(
        template(json!({ "match": "[", "match_pattern": "regex", "mapping": {} })),
        "not a supported regular expression",
    );
    check_refused(
        template(json!({ "match": "a", "mapping": { "type": "join" } })),
        "\"join\" is not supported",
    );
    check_refused(
        template(json!({ "match": "a", "mapping": { "properties": { "b": { "type": "long" } } } })),
        "another field",
    );
    check_refused(
        template(json!({ "match_mapping_type": "string", "mapping": { "analyzer": "french" } })),
        "the dynamic template \"t\" is not valid",
    );
}

#[test]
fn templates_are_shown_as_they_were_written() {
    let written = json!({
        "dynamic": "true", "date_detection": false, "numeric_detection": true,
        "dynamic_templates": [{ "b": { "match": "b*", "mapping": { "type": "keyword", "ignore_above": 7 } } },
            { "a": { "match_mapping_type": "*", "mapping": {} } }],
        "properties": {
            "@timestamp": { "type": "date" },
            "hidden": { "type": "object", "enabled": false },
            "labels": { "type": "object", "dynamic": "strict" },
        },
    });
    let mapping = read(written.clone());
    assert_eq!(mapping.to_elasticsearch_json(), written);
    let kept: Mapping = serde_json::from_value(json!(mapping)).unwrap();
    assert_eq!((kept.to_elasticsearch_json(), &kept), (written, &mapping));
}

#[test]
fn text_is_looked_into_as_the_mapping_says() {
    let document = json!({ "at": "2024-01-01", "n": "12", "f": "1.5", "t": "x" });
    let plain = values(&Mapping::dynamic(), &document);
    assert_eq!(plain[1..], ["n Text(\"12\")", "f Text(\"1.5\")", "t Text(\"x\")"]);
    let without = read(json!({ "date_detection": false }));
    assert_eq!(values(&without, &document)[0], "at Text(\"2024-01-01\")");
    let numbers = read(json!({ "numeric_detection": true }));
    assert_eq!(values(&numbers, &document)[1..], ["n Long(12)", "f Double(1.5)", "t Text(\"x\")"]);
    let declared = json!({ "date_detection": false, "properties": { "at": { "type": "date" } } });
    assert!(values(&read(declared), &document)[0].starts_with("at Date"));
}

#[test]
fn what_is_not_mapped_is_ignored_where_the_mapping_says_so() {
    let mapping = read(json!({ "dynamic": false, "properties": {
        "a": { "type": "long" },
        "labels": { "type": "object", "dynamic": true },
        "off": { "type": "object", "enabled": false, "properties": { "x": { "type": "long" } } },
        "place": { "type": "geo_point" },
        "flat": { "type": "flattened" },
    } }));
    let document = json!({
        "a": 1, "b": 2, "labels": { "env": "prod" }, "off": { "x": 1, "y": { "z": 2 } }, "o": { "p": 3 },
        "place": { "lat": 1.5, "lon": 2.5 }, "flat": { "k": "v w" }, "@timestamp": "2024-01-01T00:00:00Z",
    });
    assert_eq!(
        values(&mapping, &document),
        [
            "a Long(1)",
            "labels.env Text(\"prod\")",
            "place.lat Double(1.5)",
            "place.lon Double(2.5)",
            "flat.k Text(\"v w\")"
        ]
    );
    let learned = learned(&mapping, &[document]);
    assert!(
        learned.field("b").is_none() && learned.field("off.x").is_some_and(|field| field.readings.is_empty())
    );
    assert_eq!(learned.resolve("flat.k").paths, [("flat.k", true)]);
    assert_eq!(learned.resolve("flat").paths, [("flat", false), ("flat.k", true)]);
    let strict = read(json!({ "properties": { "o": { "type": "object", "dynamic": "strict" } } }));
    let refused =
        parse_document(br#"{"a":1,"o":{"b":1}}"#, &strict, &Limits::default(), &mut Document::new());
    assert!(refused.unwrap_err().what().contains("\"o.b\": the mapping is strict"));
}

#[test]
fn objects_have_types_from_templates_too() {
    let mapping = read(json!({ "dynamic_templates": [
        { "points": { "path_match": "*.geo.location", "mapping": { "type": "geo_point" } } },
        { "flat": { "match": "*_data", "match_mapping_type": "object", "mapping": { "type": "flattened" } } },
        { "off": { "match": "secret", "match_mapping_type": "object", "mapping": { "enabled": false } } },
        { "rest": { "match_mapping_type": ["string", "double"], "mapping": { "type": "wildcard" } } },
    ] }));
    let document = json!({
        "source": { "geo": { "location": { "lat": 1.5, "lon": 2.5 } } }, "my_data": { "a": "2024-01-01", "n": 1 },
        "secret": { "key": "x" }, "v": 1.5,
    });
    let learned = learned(&mapping, std::slice::from_ref(&document));
    assert_eq!(
        values(&mapping, &document),
        [
            "source.geo.location.lat Double(1.5)",
            "source.geo.location.lon Double(2.5)",
            "my_data.a Text(\"2024-01-01\")",
            "my_data.n Long(1)",
            "v Text(\"1.5\")",
        ]
    );
    assert_eq!(ty(&learned, "source.geo.location"), Some(FieldType::GeoPoint));
    assert_eq!(ty(&learned, "my_data"), Some(FieldType::Flattened));
    assert_eq!(ty(&learned, "my_data.a"), Some(FieldType::Keyword));
    assert_eq!(learned.types_without_queries().into_iter().collect::<Vec<_>>(), <[&str; 0]>::default());
}

#[test]
fn a_name_may_mean_the_values_of_others() {
    let mapping = read(json!({ "properties": {
        "all": { "type": "text", "fields": { "raw": { "type": "keyword" } } },
        "first": { "type": "keyword", "copy_to": "all" },
        "last": { "type": "text", "copy_to": ["all", "names"] },
        "user": { "type": "alias", "path": "first" },
        "time": { "type": "alias", "path": "@timestamp" },
        "attributes": { "type": "passthrough", "priority": 10, "properties": { "host": { "type": "keyword" },
            "dyn": { "type": "text" } } },
        "resource": { "type": "passthrough", "priority": 20, "properties": { "dyn": { "type": "text" } } },
    } }));
    let paths = |name: &str| mapping.resolve(name).paths;
    assert_eq!(paths("all"), [("all", false), ("first", false), ("last", false)]);
    assert_eq!(paths("all.raw"), [("all", true), ("first", true), ("last", true)]);
    assert_eq!(paths("names"), [("last", false)]);
    assert_eq!(paths("user"), [("user", false), ("first", true)]);
    assert!(mapping.resolve("time").is_time);
    assert_eq!(paths("host"), [("attributes.host", true)]);
    assert_eq!(paths("attributes.host"), [("attributes.host", true)]);
    assert_eq!(paths("dyn"), [("resource.dyn", false)], "the higher priority counts");
    let shown = mapping.to_elasticsearch_json();
    assert_eq!(shown["properties"]["user"], json!({ "type": "alias", "path": "first" }));
    assert_eq!(shown["properties"]["last"]["copy_to"], json!(["all", "names"]));
    assert_eq!(read(shown.clone()).to_elasticsearch_json(), shown);
    // Whoever does not see a field does not find it by another name.
    let seen = mapping.seen(|path| path != "first");
    assert_eq!(seen.resolve("all").paths, [("all", false), ("last", false)]);
    assert!(seen.resolve("user").paths.is_empty());
    let mut merged = mapping.clone();
    assert!(
        merged
            .merge(&read(json!({ "properties": { "user": { "type": "alias", "path": "last" } } })))
            .is_err()
    );
}

#[test]
fn values_are_copied_to_fields_that_read_them_alike() {
    let body = |from: &str, to: &str| json!({ "properties": { "s": { "type": from, "copy_to": "to" }, "to": { "type": to } } });
    for (from, to) in
        [("keyword", "long"), ("keyword", "date"), ("double", "long"), ("long", "keyword"), ("text", "ip")]
    {
        let error = Mapping::from_elasticsearch_json(&body(from, to)).unwrap_err();
        assert!(
            error.what().contains(&format!("\"s\" of type {from} is copied to \"to\" of type {to}")),
            "{error}"
        );
        // The same where the one is declared after the other, in any order.
        let copied = read(json!({ "properties": { "s": { "type": from, "copy_to": "to" } } }));
        let target = read(json!({ "properties": { "to": { "type": to } } }));
        for (mut known, new) in [(copied.clone(), &target), (target.clone(), &copied)] {
            let before = known.clone();
            assert!(known.merge(new).is_err());
            assert_eq!(known, before);
        }
        // What was taken once does not stop what comes after.
        let mut known = copied;
        known.fields.extend(target.fields.clone());
        assert!(known.merge(&read(json!({ "properties": { "x": { "type": "long" } } }))).unwrap());
    }
    for (from, to) in
        [("keyword", "text"), ("long", "text"), ("integer", "long"), ("long", "double"), ("text", "keyword")]
    {
        read(body(from, to));
    }
}

#[test]
fn what_objects_have_is_read_as_whole_documents_are() {
    let body = |dynamic: Value| json!({ "dynamic": dynamic, "properties": { "a": { "type": "nested", "properties": { "k": { "type": "keyword" } } } } });
    let mut mapping = read(body(json!(true)));
    mapping.place("a.z", ValueType::Long, false);
    mapping.place("other", ValueType::Long, false);
    assert!(!mapping.may_ignore_below("a"));
    let fields = |mapping: &Mapping| mapping.declarations_below("a").fields.into_keys().collect::<Vec<_>>();
    assert_eq!(fields(&mapping), ["a", "a.k"]);
    let ignoring = mapping.amended(read(body(json!(false))), |key| key == "dynamic");
    mapping.merge(&ignoring.unwrap()).unwrap();
    assert!(mapping.may_ignore_below("a"));
    assert_eq!(fields(&mapping), ["a", "a.k", "a.z"]);
    // Whatever it says now, it once said otherwise.
    let dynamic = mapping.amended(read(body(json!(true))), |key| key == "dynamic");
    mapping.merge(&dynamic.unwrap()).unwrap();
    assert!(mapping.may_ignore_below("a"));
    // Objects that are strict have known fields alone, also where others are ignored.
    let strict =
        json!({ "dynamic": false, "properties": { "a": { "type": "nested", "dynamic": "strict" } } });
    assert_eq!(read(strict).declarations_below("a").mode_of("a.z"), Mode::Dynamic);
}

#[test]
fn what_the_author_says_last_stands() {
    let old = read(json!({ "dynamic": "strict", "date_detection": false, "dynamic_templates": [
        { "a": { "match": "a", "mapping": { "type": "keyword" } } } ] }));
    let wanted = read(json!({ "dynamic": true, "properties": { "x": { "type": "long" } } }));
    let says = |key: &str| ["dynamic", "properties"].contains(&key);
    let (mut one, change) = (old.clone(), old.amended(wanted, says).unwrap());
    assert!(one.merge(&change).unwrap());
    assert_eq!((one.mode(), one.detects_dates("a"), one.rules.templates.len()), (Mode::Dynamic, false, 1));
    // A writer that has not heard of it changes nothing back.
    let mut other = change.clone();
    other.merge(&old).unwrap();
    assert!(!one.merge(&old).unwrap() && other == one);
    let same = one.amended(Mapping::dynamic(), |key| key == "dynamic").unwrap();
    assert_eq!(same.rules, one.rules, "what changes nothing makes no version");
}

/// The mapping after its author changes it.
fn changed(known: &Mapping, change: serde_json::Value) -> Mapping {
    let change_of = known.amended(read(change.clone()), |key| change.get(key).is_some()).unwrap();
    let mut changed = known.clone();
    changed.merge(&change_of).unwrap();
    // As every server reads it.
    serde_json::from_value(json!(changed)).unwrap()
}

#[test]
fn a_change_of_the_rules_is_for_new_fields() {
    let rules = || {
        json!({ "date_detection": false, "numeric_detection": true, "dynamic_templates": [
            { "texts": { "match_mapping_type": "string", "mapping": { "type": "keyword" } } },
            { "numbers": { "match_mapping_type": "long", "mapping": { "type": "keyword" } } },
            { "off": { "match": "off", "match_mapping_type": "object", "mapping": { "enabled": false } } },
            { "flat": { "match": "flat*", "match_mapping_type": "object", "mapping": { "type": "flattened" } } },
        ] })
    };
    let old = json!({ "msg": "a b", "n": 5, "d": "2024-05-01", "digits": "x", "off": { "v": 1 }, "flat": { "v": "x" } });
    let new = json!({ "msg": "a c", "n": 50, "d": "2024-06-01", "digits": "12", "off": { "w": "y" }, "flat": { "w": "y" },
        "new": "a b", "m": 7, "e": "2024-06-01", "flat2": { "v": 1.5 } });
    let known = changed(&learned(&Mapping::dynamic(), std::slice::from_ref(&old)), rules());
    assert_eq!(values(&known, &old), values(&Mapping::dynamic(), &old));
    let after = learned(&known, std::slice::from_ref(&new));
    for mapping in [&known, &after] {
        let read = values(mapping, &new);
        let expected = [
            "msg Text(\"a c\")",
            "n Long(50)",
            "d Date(Moment { time_us: 1717200000000000, nanos: 0 })",
            "digits Text(\"12\")",
            "off.w Text(\"y\")",
            "flat.w Text(\"y\")",
            "new Text(\"a b\")",
            "m Text(\"7\")",
            "e Text(\"2024-06-01\")",
            "flat2.v Double(1.5)",
        ];
        assert_eq!(read, expected);
    }
    assert_eq!(
        ["msg", "n", "d", "digits", "off.v", "flat", "flat.v"].map(|path| ty(&after, path)),
        [None; 7]
    );
    assert_eq!(["new", "m", "e"].map(|path| ty(&after, path)), [Some(FieldType::Keyword); 3]);
    assert_eq!(ty(&after, "flat2"), Some(FieldType::Flattened));
    // A merge reads all documents again.
    assert_eq!(learned(&after, &[old.clone(), new.clone()]), after);
    // So does whoever looks for nested objects.
    let below = after.declarations_below("flat");
    assert_eq!(
        values(&below, &json!({ "flat": { "v": "1", "w": "2" } })),
        ["flat.v Text(\"1\")", "flat.w Text(\"2\")"]
    );
    let again = changed(&after, json!({ "dynamic": "runtime", "dynamic_templates": [] }));
    assert_eq!(values(&again, &old), values(&Mapping::dynamic(), &old));
    assert_eq!(values(&again, &json!({ "m": 8, "o": 8 })), ["m Text(\"8\")", "o Long(8)"]);
    let last = learned(&again, &[json!({ "msg": "a", "r": "a" })]);
    assert_eq!(["msg", "r"].map(|path| ty(&last, path)), [None, Some(FieldType::Keyword)]);
}

#[test]
fn a_writer_that_has_not_heard_of_a_change_makes_fields_by_what_it_knows() {
    let first = Mapping::dynamic();
    let rules = json!({ "dynamic_templates": [{ "t": { "match_mapping_type": "string", "mapping": { "type": "keyword" } } }] });
    let second = changed(&first, rules);
    let document = [json!({ "v": "a b" })];
    let (late, meanwhile) = (learned(&first, &document), learned(&second, &document));
    assert_eq!((ty(&late, "v"), ty(&meanwhile, "v")), (None, Some(FieldType::Keyword)));
    for order in [[&second, &late, &meanwhile], [&second, &meanwhile, &late], [&late, &meanwhile, &second]] {
        let mut all = order[0].clone();
        for other in &order[1..] {
            all.merge(other).unwrap();
        }
        assert_eq!(ty(&all, "v"), None);
        assert_eq!(ty(&learned(&all, &document), "v"), None);
        assert_eq!(ty(&learned(&all, &[json!({ "w": "a b" })]), "w"), Some(FieldType::Keyword));
    }
}

#[test]
fn rules_by_which_no_field_was_made_are_forgotten() {
    let mut mapping = learned(&Mapping::dynamic(), &[json!({ "v": "x" })]);
    for change in 0..20 {
        mapping = changed(&mapping, json!({ "numeric_detection": change % 2 == 0 }));
    }
    assert_eq!((mapping.rules.version(), mapping.rules.earlier.len()), (20, 2));
    assert_eq!(values(&mapping, &json!({ "v": "1" })), ["v Text(\"1\")"]);
}

#[test]
fn text_is_compared_whole_where_a_template_says_so_of_all_of_it() {
    let booleans = json!({ "b": { "match_mapping_type": "boolean", "mapping": { "type": "keyword" } } });
    let flat = json!({ "f": { "match": "flat*", "match_mapping_type": "object", "mapping": { "type": "flattened" } } });
    let mapping = read(json!({ "dynamic_templates": [booleans, flat] }));
    let learned = learned(
        &mapping,
        &[
            json!({ "q": "Red fox", "b": true, "n": 1, "flat": { "v": "x" } }),
            json!({ "q": true, "n": false, "flat": true }),
        ],
    );
    assert_eq!(learned.resolve("q").paths, [("q", false)]);
    assert_eq!(["b", "n"].map(|path| ty(&learned, path)), [Some(FieldType::Keyword); 2]);
    assert_eq!(ty(&learned, "flat"), Some(FieldType::Flattened));
    let shown = learned.to_elasticsearch_json();
    assert_eq!(
        shown["properties"]["q"],
        json!({ "type": "text", "fields": { "keyword": { "type": "keyword" } } })
    );
}

/// Templates that give fields different types by what their values are.
fn any_rules() -> impl Strategy<Value = serde_json::Value> {
    let all = [
        json!({ "s": { "match_mapping_type": "string", "match": "a", "mapping": { "type": "keyword" } } }),
        json!({ "t": { "match_mapping_type": "string", "match": "b",
            "mapping": { "type": "text", "fields": { "raw": { "type": "keyword" } } } } }),
        json!({ "d": { "match_mapping_type": "date", "mapping": { "type": "keyword" } } }),
        json!({ "b": { "match_mapping_type": "boolean", "mapping": { "type": "keyword" } } }),
        json!({ "l": { "match_mapping_type": "long", "match": "b", "mapping": { "type": "keyword", "index": false } } }),
        json!({ "f": { "match_mapping_type": "object", "match": "c", "mapping": { "type": "flattened" } } }),
        json!({ "n": { "match_mapping_type": "object", "match": "d", "mapping": { "type": "nested" } } }),
        json!({ "o": { "match_mapping_type": "object", "match": "b", "mapping": { "enabled": false } } }),
    ];
    let some = proptest::sample::subsequence(all.to_vec(), 0..=all.len()).prop_shuffle();
    (some, any::<bool>(), any::<bool>()).prop_map(|(templates, dates, numbers)| {
        json!({ "dynamic_templates": templates, "date_detection": dates, "numeric_detection": numbers })
    })
}

fn any_document() -> impl Strategy<Value = serde_json::Value> {
    let scalars = [
        json!("red fox"),
        json!("7"),
        json!("2024-05-01"),
        json!("10.0.0.1"),
        json!(true),
        json!(7),
        json!(1.5),
        json!(null),
    ];
    let scalar = proptest::sample::select(scalars.to_vec());
    let value = prop_oneof![
        4 => scalar.clone(),
        1 => proptest::collection::vec(scalar.clone(), 0..3).prop_map(|all| json!(all)),
        2 => scalar.prop_map(|inner| json!({ "a": inner })),
    ];
    proptest::collection::btree_map(proptest::sample::select(vec!["a", "b", "c", "d"]), value, 0..4)
        .prop_map(|document| json!(document))
}

proptest! {
    #[test]
    fn fields_are_the_same_however_documents_come_in_batches(
        before in proptest::option::of((any_rules(), proptest::collection::vec(any_document(), 1..4))),
        rules in any_rules(),
        batches in proptest::collection::vec(proptest::collection::vec(any_document(), 1..4), 1..5),
    ) {
        let mapping = match before {
            None => read(rules),
            Some((earlier, documents)) => changed(&learned(&read(earlier), &documents), rules),
        };
        let all = batches.concat();
        let at_once = learned(&mapping, &all);
        let in_turn = batches.iter().fold(mapping.clone(), |known, batch| learned(&known, batch));
        let mut by_many = mapping.clone();
        for batch in batches.iter().rev() {
            by_many.merge(&learned(&mapping, batch)).unwrap();
        }
        prop_assert_eq!(&in_turn, &at_once);
        prop_assert_eq!(&by_many, &at_once);
        prop_assert_eq!(&learned(&at_once, &all), &at_once, "a merge reads them again");
        for document in &all {
            prop_assert_eq!(values(&at_once, document), values(&mapping, document));
        }
    }
}
