use super::*;

#[test]
fn appending_is_limited_and_0_would_be_no_limit() {
    let rate = |iops: f64| {
        let words = Load::Log.step(64, 1, 5.0, Some(iops)).unwrap();
        words.into_iter().find(|word| word.starts_with("--rate_iops")).unwrap()
    };
    assert_eq!(rate(100.4), "--rate_iops=100");
    assert_eq!(rate(0.2), "--rate_iops=1");
}

#[test]
fn only_the_layout_makes_the_file() {
    for load in [Load::Postgres, Load::Elasticsearch, Load::FrostlineCache, Load::Log] {
        for words in [load.step(64, 1, 5.0, None).unwrap(), load.watch(64, 1, 5.0).unwrap()] {
            assert!(words.contains(&"--allow_file_create=0".to_owned()), "{words:?}");
            assert!(words.contains(&"--direct=1".to_owned()) && words.contains(&"--size=64m".to_owned()));
            assert!(!words.iter().any(|word| word.starts_with("--rate_iops")));
        }
        assert!(!load.layout(64).unwrap().contains(&"--allow_file_create=0".to_owned()));
    }
}
