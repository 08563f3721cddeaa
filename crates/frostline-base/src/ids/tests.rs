use super::*;

#[test]
fn index_names() {
    for good in ["logs", "0", "nginx-2026.11_a"] {
        assert_eq!(good.parse::<IndexName>().map(|n| n.to_string()).ok().as_deref(), Some(good));
    }
    for bad in ["", "-a", "Logs", "a/b", "..", "a b", "é"] {
        assert!(bad.parse::<IndexName>().is_err(), "{bad:?}");
    }
}

#[test]
fn split_ids_round_trip() {
    let id = SplitId::from_random(0xabc);
    assert_eq!(id.to_string().parse::<SplitId>().ok(), Some(id));
    assert!("abc".parse::<SplitId>().is_err());
    assert!("+0000000000000000000000000000abc".parse::<SplitId>().is_err());
}
