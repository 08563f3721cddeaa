use serde_json::json;

use super::*;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

/// The objects at paths, each with where it is.
fn found(document: &str, paths: &[&str]) -> Vec<String> {
    let found = objects_at(json(document), paths).into_iter();
    found
        .map(|object| format!("{:?} {}", object.offsets, serde_json::to_string(&object.json).unwrap()))
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
fn a_name_with_dots_is_objects_in_objects() {
    assert_eq!(found(r#"{"a.k":"red"}"#, &["a"]), [r#"[0] {"k":"red"}"#]);
    assert_eq!(
        found(r#"{"a.x":1,"a":[{"x":2}],"a.y":3}"#, &["a"]),
        [r#"[0] {"x":1}"#, r#"[1] {"x":2}"#, r#"[2] {"y":3}"#]
    );
    assert_eq!(found(r#"{"a":[{"b.y":[1,2]},{"b":{"y":3}}]}"#, &["a.b"]).len(), 2);
    assert_eq!(
        found(r#"{"p.a.b.y":1,"p":{"a.b":{"y":2}}}"#, &["p.a"]),
        [r#"[0] {"b.y":1}"#, r#"[1] {"b":{"y":2}}"#]
    );
    assert!(found(r#"{"ab.c":1,"a.c":null}"#, &["a"]).is_empty());
    // Whether one goes through the objects between or not, the objects and their order are the same.
    let document = r#"{"a.b":[{"y":7}],"a":[{"k":"z","b":[{"y":8}]},{"b.y":9}],"a.b.y":10}"#;
    let expected = [r#"[0, 0] {"y":7}"#, r#"[1, 0] {"y":8}"#, r#"[2, 0] {"y":9}"#, r#"[3, 0] {"y":10}"#];
    assert_eq!(found(document, &["a", "a.b"]), expected);
    assert_eq!(
        found(document, &["a.b"]),
        [r#"[0] {"y":7}"#, r#"[1] {"y":8}"#, r#"[2] {"y":9}"#, r#"[3] {"y":10}"#]
    );
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
    let objects = Objects::new(documents.into_iter(), &["a"], &Mapping::dynamic()).unwrap();
    assert_eq!(objects.of_documents(), [0..2, 2..2, 2..3]);
    let mut of_rows = objects.documents_of_rows();
    of_rows.sort_unstable();
    assert_eq!(of_rows, [0, 0, 2]);
    let mut texts = objects.texts(&Permits::new(1 << 20)).await.unwrap();
    texts.sort();
    assert_eq!(texts, [1, 2, 3].map(|x| json!({"a": {"x": x}}).to_string()));
    let none = Objects::new(["{}"].into_iter(), &["a"], &Mapping::dynamic()).unwrap();
    assert!(none.view(&Permits::new(1 << 20)).is_none() && none.documents_of_rows().is_empty());
    let damaged = Objects::new(["{"].into_iter(), &["a"], &Mapping::dynamic()).unwrap_err();
    assert_eq!(damaged.kind(), frostline_base::ErrorKind::Corrupt);
}
