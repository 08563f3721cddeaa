use serde_json::json;

use super::*;

fn pit() -> PointInTime {
    let pin = |name: &str, version: u64| {
        let pin = json!({"index": name, "table_id": "t", "version": version, "until_us": 9, "id": "p"});
        serde_json::from_value(pin).unwrap()
    };
    PointInTime { pins: vec![pin("logs", 7), pin("web-2024", 300)] }
}

fn held(body: Value) -> Result<Option<Held>> {
    Held::of_body(body.to_string().as_bytes())
}

#[test]
fn a_point_in_time_is_one_word_that_reads_back() {
    let word = pit().to_string();
    assert!(word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'), "{word}");
    assert_eq!(word.parse::<PointInTime>().unwrap(), pit());
    for changed in [&word[1..], &word[..word.len() - 4], &format!("{word}AAAA"), ""] {
        assert!(changed.parse::<PointInTime>().is_err(), "{changed}");
    }
}

#[test]
fn a_body_names_its_versions_by_a_point_in_time_or_by_a_position() {
    let pit = pit();
    let (id, versions) = (pit.to_string(), pit.versions());
    let minute = Some(Duration::from_secs(60));
    let in_pit = Held::PointInTime(pit.clone(), minute);
    assert_eq!(held(json!({"pit": {"id": id, "keep_alive": "1m"}})).unwrap(), Some(in_pit.clone()));
    let row = format!("{}-17", SplitId::from_random(5));
    let position = format!("{row}@{}", Versions(versions.clone()));
    let next = json!({"sort": ["_doc"], "search_after": [position]});
    assert_eq!(held(next.clone()).unwrap(), Some(Held::Versions(versions.clone())));
    assert_eq!(held(json!({"sort": ["mail"], "search_after": ["a-b@example.org"]})).unwrap(), None);
    assert_eq!(Held::of_body(b"").unwrap(), None);
    assert!(held(json!({"pit": {"id": "!"}})).is_err());
    assert!(held(json!({"pit": {}})).is_err());
    for (position, fits) in [
        (row.clone(), true),
        (position, true),
        (format!("{row}@{}", Versions(versions[1..].to_vec())), false),
    ] {
        let both =
            json!({"pit": {"id": id, "keep_alive": "1m"}, "sort": ["_doc"], "search_after": [position]});
        assert_eq!(held(both).ok(), fits.then(|| Some(in_pit.clone())), "{position}");
    }
}
