use serde_json::json;

use super::*;
use crate::testing::{Fields, Stored, id, key, merged, run, scope};
use crate::{MergeOptions, Segment, merge};

fn runs(count: usize) -> Vec<Stored> {
    (0..count).map(|number| run(number, &Fields::default())).collect()
}

fn about(inputs: &[Stored]) -> (About, Stored) {
    let mut bytes = Vec::new();
    let options = MergeOptions::default();
    let written = merge(inputs.iter().map(Stored::input).collect(), |_| true, options, &mut bytes).unwrap();
    (written.about.clone(), Stored::of(&written, bytes))
}

#[test]
fn what_is_written_reads_back_and_finds_the_directory() {
    for splits in [1, 64, 65] {
        let (written, stored) = about(&runs(splits));
        let read = About::read(&written.to_json(), scope().analyser).unwrap();
        assert_eq!((read.splits, &read), (splits, &written));
        let directory = read.directory(stored.0.len() as u64).unwrap();
        assert_eq!(directory, stored.directory_range());
        let opened = Segment::open(&stored.read(&directory), &scope(), &key()).unwrap();
        let named = if splits <= 64 { opened.splits().to_vec() } else { Vec::new() };
        assert_eq!(read.named, named);
    }
}

#[test]
fn a_file_of_which_the_catalog_says_something_else_is_no_segment() {
    let (about, stored) = about(&runs(2));
    let said = about.to_json();
    let with = |name: &str, value: Value| {
        let mut said = said.clone();
        said[name] = value;
        About::read(&said, scope().analyser)
    };
    assert!(with("newer", json!([1])).is_some());
    for (name, value) in [
        ("format", json!(2)),
        ("analyser", json!(4)),
        ("directory_bytes", json!(-1)),
        ("splits", json!("two")),
        ("named", json!(["x"])),
    ] {
        assert_eq!(with(name, value.clone()), None, "{name} {value}");
    }
    for foreign in [json!(null), json!([]), json!({}), json!("splits")] {
        assert_eq!(About::read(&foreign, scope().analyser), None);
    }
    let bytes = stored.0.len() as u64;
    for directory_bytes in [u64::MAX, bytes, bytes - 16, bytes - 23] {
        let about = About { directory_bytes, ..about.clone() };
        assert_eq!(about.directory(bytes), None, "{directory_bytes}");
    }
    assert_eq!(about.directory(3), None);
}

#[test]
fn a_segment_is_dead_with_the_last_of_its_splits() {
    let (two, _) = about(&runs(2));
    assert!(!two.is_dead(|split| split == id(1)));
    assert!(two.is_dead(|split| split == id(2)));
    // Which splits a large one has, only its directory says.
    assert!(!about(&[merged(&runs(65), 65)]).0.is_dead(|_| false));
}
