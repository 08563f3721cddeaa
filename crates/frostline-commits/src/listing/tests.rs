use super::*;

fn listing(names: &[&str]) -> Listing {
    let mut listing = Listing::default();
    for name in names {
        let object = ObjectMeta {
            location: Path::from(format!("log/{name}")),
            last_modified: Default::default(),
            size: 1,
            e_tag: None,
            version: None,
        };
        listing.push(object, "parquet");
    }
    listing
}

#[test]
fn names_in_a_log_are_told_apart() {
    let found = listing(&[
        "00000000000000000003.json",
        "00000000000000000003.checkpoint.parquet",
        "00000000000000000004.checkpoint.0000000001.0000000002.parquet",
        "00000000000000000005.checkpoint.0000000001.0000000002.parquet",
        "00000000000000000005.checkpoint.0000000002.0000000002.parquet",
        "00000000000000000006.checkpoint.0000000003.0000000002.parquet",
        "00000000000000000006.checkpoint.json",
        "00000000000000000008.checkpoint.0000000001.0000000001.json",
        "00000000000000000007.crc",
        "0000000000000000000x.json",
        "99999999999999999999.json",
        "3.json",
        "_last_checkpoint",
        "_sidecars",
    ]);
    assert_eq!(found.entries.keys().copied().collect::<Vec<_>>(), [3]);
    assert_eq!(found.checkpoint().map(|(version, parts)| (version, parts.len())), Some((5, 2)));
    let whole = found.checkpoint_at_most(4).map(|(version, _)| version);
    assert_eq!(whole, Some(3), "half a checkpoint is none");
    assert_eq!(found.others.len(), 9);
}

#[test]
fn a_hole_in_the_log_is_corrupt() {
    let folder = Path::from("log");
    let found =
        listing(&["00000000000000000003.json", "00000000000000000004.json", "00000000000000000006.json"]);
    let hole = found.entries_after(Some(4), &folder).unwrap_err();
    assert!(hole.to_string().contains("log/00000000000000000005.json"), "{hole:?}");
    assert_eq!(found.entries_after(Some(5), &folder).unwrap(), [6]);
    assert_eq!(found.entries_after(Some(6), &folder).unwrap(), Vec::<u64>::new());
}
