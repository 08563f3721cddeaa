use super::*;

fn pin() -> Pin {
    let version =
        |name: &str, version| IndexVersion { name: name.parse().unwrap(), table_id: "t".to_owned(), version };
    Pin { indices: vec![version("logs", 7), version("web-2024", 300)] }
}

#[test]
fn a_pin_is_one_word_that_reads_back() {
    let word = pin().to_string();
    assert!(word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'), "{word}");
    assert_eq!(word.parse::<Pin>().unwrap(), pin());
    assert!(word[1..].parse::<Pin>().is_err() || word[1..].parse::<Pin>().unwrap() != pin());
    assert!("".parse::<Pin>().is_err());
}

#[test]
fn a_body_names_its_versions_by_a_point_in_time_or_by_a_position() {
    let id = pin().to_string();
    let of = |body: Value| Pin::of_body(body.to_string().as_bytes()).unwrap();
    assert_eq!(of(serde_json::json!({"pit": {"id": id, "keep_alive": "1m"}})), Some(pin()));
    let position = format!("{}-17@{id}", SplitId::from_random(5));
    assert_eq!(of(serde_json::json!({"sort": ["_doc"], "search_after": [position]})), Some(pin()));
    assert_eq!(of(serde_json::json!({"sort": ["mail"], "search_after": ["a-b@example.org"]})), None);
    assert_eq!(Pin::of_body(b"").unwrap(), None);
    assert!(Pin::of_body(br#"{"pit": {"id": "!"}}"#).is_err());
}
