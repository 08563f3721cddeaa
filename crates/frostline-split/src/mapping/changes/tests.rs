use serde_json::{Value, json};

use super::*;
use crate::mapping::ValueType;
use crate::{SplitWriter, WriterOptions};

fn read(json: &Value) -> Mapping {
    Mapping::from_elasticsearch_json(json).unwrap()
}

/// The mapping of documents like `{"x":1,"y":2,"s":"a","o":{"p":1}}`, of which `k` is declared.
fn known() -> Mapping {
    let mut known = read(&json!({ "properties": {
        "k": { "type": "keyword" },
        "old": { "type": "alias", "path": "k" },
        "off": { "type": "object", "enabled": false },
        "pass": { "type": "passthrough", "priority": 3 },
        "empty": { "type": "object" },
        "scaled": { "type": "scaled_float", "scaling_factor": 10 },
        "date": { "type": "date" },
        "millis": { "type": "date", "format": "epoch_millis" },
    } }));
    for (path, ty) in
        [("x", ValueType::Long), ("y", ValueType::Long), ("s", ValueType::Text), ("o.p", ValueType::Long)]
    {
        known.place(path, ty, false);
    }
    known
}

fn change(properties: Value) -> Result<Mapping> {
    let known = known();
    let change = known.amended(read(&json!({ "properties": properties })), |key| key == "properties")?;
    let mut changed = known;
    changed.merge(&change)?;
    Ok(changed)
}

#[track_caller]
fn check_refused(properties: Value, reason: &str) {
    let error = change(properties).expect_err(reason);
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
    assert!(error.what().contains(reason), "{error}");
}

#[test]
fn parameters_of_a_declared_field_stay() {
    let scaled = |factor: i64| json!({ "scaled": { "type": "scaled_float", "scaling_factor": factor } });
    change(scaled(10)).unwrap();
    change(json!({ "date": { "type": "date" }, "millis": { "type": "date", "format": "epoch_millis" } }))
        .unwrap();
    check_refused(scaled(100), "Cannot update parameter [scaling_factor] from [10.0] to [100.0]");
    let date = |name: &str, format: &str| json!({ name: { "type": "date", "format": format } });
    check_refused(
        date("date", "epoch_second"),
        "Cannot update parameter [format] from [strict_date_optional_time||epoch_millis] to [epoch_second]",
    );
    // What is left out is the default.
    check_refused(
        json!({ "millis": { "type": "date" } }),
        "Cannot update parameter [format] from [epoch_millis] to [strict_date_optional_time||epoch_millis]",
    );
    for parameter in ["index", "doc_values"] {
        let reason = format!(
            "Mapper for [k] conflicts with existing mapper: Cannot update parameter [{parameter}] from [true]"
        );
        check_refused(json!({ "k": { "type": "keyword", parameter: false } }), &reason);
        let mut known = read(&json!({ "properties": { "k": { "type": "keyword", parameter: false } } }));
        let wanted = read(&json!({ "properties": { "k": { "type": "keyword" } } }));
        let error = known.amended(wanted, |_| false).unwrap_err();
        assert!(error.what().ends_with(&format!("[{parameter}] from [false] to [true]")), "{error}");
        assert!(!known.merge(&known.clone()).unwrap());
    }
}

#[test]
fn a_constant_is_said_once() {
    let mut known = read(&json!({ "properties": { "c": { "type": "constant_keyword" } } }));
    let say = |known: &Mapping, body: Value| {
        known.amended(read(&json!({ "properties": { "c": body } })), |_| false)
    };
    let said = say(&known, json!({ "type": "constant_keyword", "value": "x" })).unwrap();
    known.merge(&said).unwrap();
    assert_eq!(known.field("c").and_then(Field::constant), Some("x"));
    for (other, new) in [
        (json!({ "type": "constant_keyword", "value": "y" }), "y"),
        (json!({ "type": "constant_keyword" }), "null"),
    ] {
        let error = say(&known, other).unwrap_err();
        assert!(
            error.what().ends_with(&format!("Cannot update parameter [value] from [x] to [{new}]")),
            "{error}"
        );
    }
}

#[test]
fn what_documents_have_keeps_its_type() {
    check_refused(
        json!({ "x": { "type": "keyword" } }),
        "[x] cannot be changed from type [long] to [keyword]: doc",
    );
    check_refused(
        json!({ "x": { "type": "alias", "path": "y" } }),
        "[x] cannot be changed from type [long] to [alias]",
    );
    check_refused(
        json!({ "k": { "type": "alias", "path": "y" } }),
        "[k] cannot be changed from type [keyword] to [alias]",
    );
    check_refused(json!({ "o": { "type": "alias", "path": "y" } }), "from type [object] to [alias]");
    check_refused(json!({ "o": { "type": "flattened" } }), "from type [object] to [flattened]");
    for ty in ["nested", "flattened"] {
        check_refused(
            json!({ "x": { "type": ty } }),
            &format!("[x] cannot be changed from type [long] to [{ty}]"),
        );
        check_refused(json!({ "o.p": { "type": ty } }), &format!("from type [long] to [{ty}]"));
        assert!(change(json!({ "new": { "type": ty } })).is_ok());
    }
    check_refused(
        json!({ "o": { "type": "object", "enabled": false } }),
        "can't be updated for the object mapping [o]",
    );
    check_refused(
        json!({ "s": { "type": "keyword" } }),
        "[s] cannot be changed from type [text] to [keyword]",
    );
    check_refused(json!({ "x": { "type": "object" } }), "[x] cannot be changed from type [long] to [object]");
    check_refused(
        json!({ "o": { "type": "nested" } }),
        "[o] cannot be changed from type [object] to [nested]",
    );
    let changed = change(json!({ "o": { "type": "object", "dynamic": false }, "x": { "type": "integer" },
        "s": { "type": "match_only_text" }, "new": { "type": "object", "enabled": false } }));
    assert_eq!(
        ["o.q", "new.q"].map(|path| changed.as_ref().unwrap().mode_of(path)),
        [Mode::Ignoring, Mode::Disabled]
    );
}

#[test]
fn what_a_template_said_of_documents_stays() {
    let by_template = |name: &str, ty: &str| {
        let kind = if ty == "keyword" { "string" } else { "object" };
        json!({ name: { "match_mapping_type": kind, "match": name, "mapping": { "type": ty } } })
    };
    let templates = [("k", "keyword"), ("n", "nested"), ("f", "flattened")];
    let known = read(&json!({
        "dynamic_templates": templates.map(|(name, ty)| by_template(name, ty)),
        "properties": { "said": { "properties": { "p": { "type": "long" } } } },
    }));
    let mut writer = SplitWriter::new(known, WriterOptions::default());
    writer.add(br#"{"k":"z w","n":[{"p":1}],"f":{"p":"q r"}}"#).unwrap();
    let known = writer.seal(frostline_base::SplitId::from_random(1), &mut Vec::new()).unwrap().mapping;
    let change = |properties: Value| {
        let change = known.amended(read(&json!({ "properties": properties })), |key| key == "properties")?;
        known.clone().merge(&change)
    };
    for (path, old, others) in [
        ("k", "keyword", ["text", "long", "object"]),
        ("n", "nested", ["object", "flattened", "keyword"]),
        ("f", "flattened", ["nested", "object", "text"]),
        ("said", "object", ["nested", "flattened", "geo_point"]),
        ("said", "object", ["long_range", "ip_range", "date_range"]),
    ] {
        for new in others {
            let error = change(json!({ path: { "type": new } })).expect_err(new);
            let reason = format!("mapper [{path}] cannot be changed from type [{old}] to [{new}]");
            assert!(error.what().starts_with(&reason), "{error}");
        }
        assert!(change(json!({ path: { "type": old } })).is_ok(), "{path}");
    }
    let below = |key: &str| json!({ "f": { "properties": { key: { "type": "text" } } } });
    assert!(change(below("p")).is_err());
    let error = change(below("new")).unwrap_err();
    assert!(error.what().starts_with("can't merge a non object mapping [f]"), "{error}");
    // What is shown is nothing new.
    assert!(change(known.to_elasticsearch_json()["properties"].clone()).is_ok());
    assert!(
        change(json!({ "k": { "type": "wildcard" }, "n": { "properties": { "q": { "type": "ip" } } } }))
            .is_ok()
    );
}

#[test]
fn what_is_not_enabled_stays_so() {
    let changed = change(json!({ "off": { "type": "object", "dynamic": true } })).unwrap();
    assert_eq!(changed.mode_of("off.v"), Mode::Disabled);
}

#[test]
fn an_alias_is_of_a_field() {
    let alias = |path: &str| json!({ "type": "alias", "path": path });
    check_refused(json!({ "z": alias("gone") }), "field alias [z]: an alias must refer to an existing field");
    check_refused(json!({ "z": alias("z") }), "cannot refer to itself");
    check_refused(json!({ "z": alias("old") }), "cannot refer to another alias");
    check_refused(json!({ "z": alias("z2"), "z2": alias("z") }), "cannot refer to another alias");
    for object in ["o", "pass", "empty"] {
        check_refused(json!({ "z": alias(object) }), "cannot refer to an object");
    }
    for field in ["x", "k", "o.p", "n", "@timestamp"] {
        let changed = change(json!({ "z": alias(field), "n": { "type": "long" } })).unwrap();
        assert_eq!(changed.alias_of("z"), Some(field));
    }
    // Of another name of its values, also of one that it has undeclared.
    let raw = json!({ "type": "text", "fields": { "raw": { "type": "keyword" } } });
    for name in ["m.raw", "m.keyword", "s.keyword", "flat.key"] {
        let of = json!({ "z": alias(name), "m": raw.clone(), "flat": { "type": "flattened" } });
        assert_eq!(change(of).unwrap().alias_of("z"), Some(name));
    }
    for name in ["m.other", "gone.keyword", "o.keyword", "old.keyword", "x.key"] {
        let of = json!({ "z": alias(name), "m": raw.clone() });
        check_refused(of, "an alias must refer to an existing field");
    }
    assert!(read(&json!({ "properties": { "z": alias("gone") } })).check_aliases().is_err());
    assert!(known().check_aliases().is_ok());
}

#[test]
fn the_priority_of_a_passthrough_object_stays() {
    check_refused(
        json!({ "pass": { "type": "passthrough", "priority": 4 } }),
        "[priority] of the passthrough object [pass]",
    );
    assert!(change(json!({ "pass": { "type": "passthrough", "priority": 3 } })).is_ok());
}
