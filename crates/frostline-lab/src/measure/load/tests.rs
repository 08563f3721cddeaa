use super::*;

#[test]
fn reads_and_writes_are_limited_apart() {
    let rate = |load: Load, iops: f64| {
        let words = load.step(64, 1, 5.0, Some(iops)).unwrap();
        words.into_iter().find(|word| word.starts_with("--rate_iops")).unwrap()
    };
    assert_eq!(rate(Load::Postgres, 3000.0), "--rate_iops=2100,900");
    assert_eq!(rate(Load::Log, 100.4), "--rate_iops=100");
    // 0 would be no limit.
    assert_eq!(rate(Load::FrostlineCache, 2.0), "--rate_iops=2,1");
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
