use frostline_base::ErrorKind;
use frostline_split::ValueType;

use super::*;
use crate::testing::{field, name};

fn wide(fields: usize) -> Mapping {
    let mut mapping = Mapping::dynamic();
    for field in 0..fields {
        mapping.place(&format!("group{}.Field {field}", field % 7), ValueType::Long, field % 3 == 0);
    }
    mapping
}

#[test]
fn a_mapping_reads_back_plain_or_compressed() {
    for (mapping, compressed) in [(field("a.b"), false), (wide(3_000), true)] {
        let settings = Settings { checkpoint_commits: 9, ..Settings::default() };
        let metadata = metadata(&name("logs"), "id".to_owned(), 1, &mapping, &settings).unwrap();
        let stored = &metadata.configuration[KEY_MAPPING];
        assert_eq!(stored.starts_with("zstd:"), compressed);
        assert!(stored.len() < 60_000, "{} bytes", stored.len());
        let read = Described::read(&metadata, "object").unwrap();
        assert_eq!((read.mapping.mapping, read.settings), (mapping, settings));
    }
}

#[test]
fn the_schema_names_the_physical_columns() {
    let metadata = metadata(&name("logs"), "id".to_owned(), 1, &field("a.b"), &Settings::default()).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&metadata.schema_string).unwrap();
    let fields = schema["fields"].as_array().unwrap();
    let types: Vec<String> = fields.iter().map(|f| format!("{}: {}", f["name"], f["type"])).collect();
    assert!(types.contains(&"\"_timestamp\": \"timestamp\"".to_owned()), "{types:?}");
    assert!(types.contains(&"\"_source\": \"binary\"".to_owned()), "{types:?}");
    assert!(fields.iter().all(|f| f["nullable"] == true));
}

/// The text is what the Delta kernel makes of the same columns, which wrote it in earlier versions.
#[test]
fn every_column_has_a_delta_type() {
    let schema = delta_schema(&field("host.name").arrow_schema()).unwrap();
    let column =
        |name: &str, of: &str| format!(r#"{{"name":"{name}","type":{of},"nullable":true,"metadata":{{}}}}"#);
    let texts = r#"{"type":"array","elementType":"string","containsNull":true}"#;
    let columns = [
        column("_timestamp", r#""timestamp""#),
        column("_source", r#""binary""#),
        column("_dynamic", texts),
        column("host_name_cd7d439f__text", r#""string""#),
    ];
    assert_eq!(schema, format!(r#"{{"type":"struct","fields":[{}]}}"#, columns.join(",")));

    let mut with_nanos = Mapping::dynamic();
    with_nanos.note_nanos();
    let schema = delta_schema(&with_nanos.arrow_schema()).unwrap();
    assert!(schema.contains(&column("_timestamp_ns", r#""short""#)), "{schema}");

    for (of, wanted) in [
        (ValueType::Boolean, "boolean"),
        (ValueType::Long, "long"),
        (ValueType::Double, "double"),
        (ValueType::Date, "timestamp"),
        (ValueType::Big, "string"),
        (ValueType::Ip, "string"),
        (ValueType::Text, "string"),
    ] {
        assert_eq!(delta_type(&of.arrow_type()).unwrap(), wanted);
    }
    assert_eq!(delta_type(&DataType::Int8).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn metadata_that_is_not_ours_or_too_new_or_damaged_is_refused() {
    let sound = metadata(&name("logs"), "id".to_owned(), 1, &wide(900), &Settings::default()).unwrap();
    let check = |kind: ErrorKind, change: &dyn Fn(&mut MetaData)| {
        let mut metadata = sound.clone();
        change(&mut metadata);
        let refused = Described::read(&metadata, "the-object").unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused:?}");
        assert!(refused.to_string().contains("the-object"), "{refused:?}");
    };
    let set =
        |m: &mut MetaData, key: &str, value: &str| m.configuration.insert(key.to_owned(), value.to_owned());
    check(ErrorKind::Invalid, &|m| m.configuration.clear());
    check(ErrorKind::Invalid, &|m| drop(set(m, KEY_FORMAT, "2")));
    check(ErrorKind::Invalid, &|m| m.partition_columns.push("day".to_owned()));
    check(ErrorKind::Corrupt, &|m| drop(set(m, KEY_FORMAT, "one")));
    check(ErrorKind::Corrupt, &|m| drop(m.configuration.remove(KEY_MAPPING)));
    check(ErrorKind::Corrupt, &|m| drop(set(m, KEY_MAPPING, "{")));
    check(ErrorKind::Corrupt, &|m| drop(set(m, KEY_MAPPING, "zstd:!!")));
    check(ErrorKind::Corrupt, &|m| drop(set(m, KEY_MAPPING, "zstd:AAAA")));
    check(ErrorKind::Corrupt, &|m| drop(set(m, KEY_SETTINGS, "[1]")));
}

#[test]
fn settings_of_other_crates_are_kept() {
    let stored = r#"{"checkpoint_commits":5,"tier":"frozen"}"#;
    let settings: Settings = serde_json::from_str(stored).unwrap();
    assert_eq!(settings.others["tier"], "frozen");
    let again: Settings = serde_json::from_str(&serde_json::to_string(&settings).unwrap()).unwrap();
    assert_eq!(again, settings);
}
