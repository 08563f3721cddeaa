use serde_json::json;

use super::*;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

/// The objects at paths, each with where it is.
fn found(document: &str, paths: &[&str]) -> Vec<String> {
    let document = json(document);
    let found = objects_at(&document, paths).into_iter();
    found
        .map(|object| format!("{:?} {}", object.offsets, serde_json::to_string(object.json).unwrap()))
        .collect()
}

#[test]
fn objects_are_found_wherever_their_path_leads() {
    assert_eq!(found(r#"{"a":[{"x":1},{"x":2}]}"#, &["a"]), [r#"[0] {"x":1}"#, r#"[1] {"x":2}"#]);
    assert_eq!(found(r#"{"a":{"x":1.50}}"#, &["a"]), [r#"[0] {"x":1.50}"#]);
    assert_eq!(
        found(r#"{"a":{"b":[{"x":1}]},"a.b":{"x":2}}"#, &["a.b"]),
        [r#"[0] {"x":1}"#, r#"[1] {"x":2}"#]
    );
    assert_eq!(found(r#"{"a":[{"b":{"x":1}},{"b":[{"x":2},[{"x":3}]]}]}"#, &["a.b"]).len(), 3);
    for without in [r#"{"a":1}"#, r#"{"b":{"x":1}}"#, r#"{"a":[]}"#, r#"{"ab":{"x":1}}"#] {
        assert!(found(without, &["a"]).is_empty(), "{without}");
    }
}

#[test]
fn an_object_without_a_value_is_none_and_has_its_place() {
    let document = r#"{"a":[{},{"x":null},{"x":[]},{"x":{"y":[{}]}},{"x":0},null,{"x":""}]}"#;
    assert_eq!(found(document, &["a"]), [r#"[4] {"x":0}"#, r#"[5] {"x":""}"#]);
}

#[test]
fn objects_in_objects_have_a_place_in_each() {
    let document = r#"{"a":[{"b":[{"x":1}]},{"b":[{},{"x":2},{"x":3}]}]}"#;
    assert_eq!(
        found(document, &["a", "a.b"]),
        [r#"[0, 0] {"x":1}"#, r#"[1, 1] {"x":2}"#, r#"[1, 2] {"x":3}"#]
    );
}

#[tokio::test]
async fn objects_are_rows_of_a_split() {
    let documents = [r#"{"a":[{"x":1},{"x":2}],"n":1}"#, r#"{"n":2}"#, r#"{"a":{"x":3}}"#];
    let objects = Objects::new(documents.into_iter(), "a", &Mapping::dynamic()).unwrap();
    assert_eq!(objects.of_documents(), [0..2, 2..2, 2..3]);
    let mut of_rows = objects.documents_of_rows();
    of_rows.sort_unstable();
    assert_eq!(of_rows, [0, 0, 2]);
    let mut texts = objects.texts(&Permits::new(1 << 20)).await.unwrap();
    texts.sort();
    assert_eq!(texts, [1, 2, 3].map(|x| json!({"a": {"x": x}}).to_string()));
    let none = Objects::new(["{}"].into_iter(), "a", &Mapping::dynamic()).unwrap();
    assert!(none.view(&Permits::new(1 << 20)).is_none() && none.documents_of_rows().is_empty());
    let damaged = Objects::new(["{"].into_iter(), "a", &Mapping::dynamic()).unwrap_err();
    assert_eq!(damaged.kind(), frostline_base::ErrorKind::Corrupt);
}
