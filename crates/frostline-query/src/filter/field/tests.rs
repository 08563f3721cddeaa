use super::*;

fn mapping() -> Mapping {
    let mut mapping = Mapping::dynamic().with_time_field("eventTime");
    for (path, ty, list) in [
        ("s", ValueType::Text, false),
        ("s.keyword", ValueType::Long, true),
        ("status", ValueType::Long, false),
        ("host", ValueType::Text, false),
        ("host.name", ValueType::Text, false),
    ] {
        mapping.place(path, ty, list);
    }
    mapping.declare("level", FieldType::Keyword).unwrap();
    mapping
}

#[test]
fn a_name_stands_for_all_paths_that_it_can_mean() {
    let mapping = mapping();
    let field = FieldRef::resolve(&mapping, "s.keyword");
    let path = |path: &str, exact| FieldPath { path: path.to_owned(), exact };
    assert_eq!(field.paths(), [path("s.keyword", false), path("s", true)]);
    let reading = |ty, list| TypedReading { ty, list, column: true };
    assert_eq!(field.readings(), [reading(ValueType::Long, true), reading(ValueType::Text, false)]);
    assert!(field.is_exact() && field.is_known());
    assert_eq!(FieldRef::column(&mapping, "s.keyword").paths(), [path("s.keyword", true)]);
    assert_eq!(FieldRef::resolve(&mapping, "status.keyword").paths(), [path("status", true)]);
    assert_eq!(FieldRef::resolve(&mapping, "status").whole().name(), "status.keyword");
    assert_eq!(FieldRef::resolve(&mapping, "level").whole().name(), "level");
    assert!(!FieldRef::resolve(&mapping, "nobody").is_known());
}

#[test]
fn the_time_has_the_type_of_dates_by_every_name() {
    let mapping = mapping();
    for name in ["eventTime", "@timestamp"] {
        let field = FieldRef::resolve(&mapping, name);
        assert!(field.is_time() && field.is_known(), "{name}");
        assert_eq!(field.types().collect::<Vec<_>>(), [ValueType::Date], "{name}");
    }
}

#[test]
fn an_object_exists_by_its_fields_and_a_column_by_its_own_values() {
    let mapping = mapping();
    let (field, column) = (FieldRef::resolve(&mapping, "host"), FieldRef::column(&mapping, "host"));
    assert_eq!(field.exists_by().collect::<Vec<_>>(), [Wanted::Path("host"), Wanted::Below("host")]);
    assert_eq!(column.exists_by().collect::<Vec<_>>(), [Wanted::Path("host")]);
}

#[test]
fn a_reference_means_the_same_where_it_is_read_back() {
    let field = FieldRef::resolve(&mapping(), "s.keyword");
    let bytes = postcard::to_allocvec(&field).unwrap();
    assert_eq!(postcard::from_bytes::<FieldRef>(&bytes).unwrap(), field);
}
