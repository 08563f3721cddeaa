use frostline_base::Share;
use frostline_split::WriterOptions;
use serde_json::json;

use super::*;
use crate::testing::{Failing, Place, Recorded};
use crate::{Searcher, Settings};

/// Splits of three documents each, with `_id`s `0-0`, `0-1`, ... of their splits and rows but for the last, which has none;
/// each of so many bytes.
async fn place(splits: usize, bytes: usize) -> Place {
    let document = |split: usize, row: usize| {
        let text = format!(r#"{{"n":{},"text":"{}"}}"#, split * 3 + row, noise(split * 3 + row, bytes));
        (text, (row < 2).then(|| format!("{split}-{row}")))
    };
    let groups: Vec<Vec<_>> =
        (0..splits).map(|split| (0..3).map(|row| document(split, row)).collect()).collect();
    Place::with_ids(&groups, WriterOptions::default()).await
}

/// Text that does not pack.
fn noise(seed: usize, bytes: usize) -> String {
    let words = (0..bytes / 16)
        .map(|at| format!("{:016x}", xxhash_rust::xxh3::xxh3_64_with_seed(&at.to_le_bytes(), seed as u64)));
    words.collect()
}

fn ids<const N: usize>(ids: [&str; N]) -> Vec<String> {
    ids.map(str::to_owned).to_vec()
}

/// The same, of which an object cannot be read.
fn failing(place: Place, key: &str, kind: ErrorKind) -> Place {
    let failing = Failing::new(&place.repository, key.to_owned(), kind);
    place.through(failing)
}

type Short<'a> = (&'a str, i64, i64);

/// The `_id`s of what was found, with versions and sequence numbers, and of what is unknown, with the kinds of error.
fn short(found: &LookedUp) -> (Vec<Short<'_>>, Vec<(&str, ErrorKind)>) {
    let documents =
        found.documents.iter().map(|found| (found.id.as_str(), found.numbers.version, found.numbers.seq_no));
    let unknown = found.unknown.iter().map(|unknown| (unknown.id.as_str(), unknown.error.kind()));
    let (mut documents, mut unknown): (Vec<_>, Vec<_>) = (documents.collect(), unknown.collect());
    documents.sort_unstable();
    unknown.sort_unstable_by_key(|(id, _)| *id);
    (documents, unknown)
}

#[tokio::test]
async fn documents_are_found_where_they_are() {
    let place = place(3, 16).await;
    let landed = format!("{}-2", place.index.splits()[1].id);
    let wanted = [ids(["0-1", "2-0", "gone"]), vec![landed.clone()]].concat();
    let found = place.searcher.by_id(&place.index, &wanted, false).await.unwrap();
    let mut expected = vec![("0-1", 1, 1), ("2-0", 1, 1), (landed.as_str(), 1, 0)];
    expected.sort_unstable();
    assert_eq!(short(&found), (expected, Vec::new()));
    for document in &found.documents {
        let (split, row) = if document.id == landed {
            (1, 2)
        } else {
            let (split, row) = document.id.split_once('-').unwrap();
            (split.parse().unwrap(), row.parse().unwrap())
        };
        assert_eq!((document.split, document.row), (place.index.splits()[split].id, row));
        assert!(document.text.is_none());
    }
    let found = place.searcher.by_id(&place.index, &ids(["0-1"]), true).await.unwrap();
    let text = format!(r#"{{"n":1,"text":"{}"}}"#, noise(1, 16));
    assert_eq!(found.documents[0].text.as_deref(), Some(text.as_bytes()));
}

#[tokio::test]
async fn documents_are_read_only_where_their_texts_are_wanted() {
    let place = place(3, 16).await;
    let recorded = Recorded::new(&place.repository);
    let place = place.through(Arc::clone(&recorded) as _);
    let sources = |reads: Vec<(Share, _)>| reads.iter().filter(|(share, _)| *share == Share::Source).count();
    place.searcher.by_id(&place.index, &ids(["0-1", "2-0"]), false).await.unwrap();
    assert_eq!(sources(recorded.take()), 0);
    place.searcher.by_id(&place.index, &ids(["0-1", "2-0"]), true).await.unwrap();
    assert_eq!(sources(recorded.take()), 2);
    // The same of a search that shows none.
    for sort in [json!(["_doc"]), json!([{"@timestamp": "desc"}])] {
        let body =
            json!({"query": {"ids": {"values": ["0-1"]}}, "_source": false, "version": true, "sort": sort});
        let hits = place.answer(&body).await.hits.hits;
        assert_eq!((hits[0].id.as_str(), hits[0].version, hits[0].seq_no), ("0-1", Some(1), None));
        assert_eq!(sources(recorded.take()), 0);
    }
}

#[tokio::test]
async fn only_what_a_damaged_split_may_have_is_unknown() {
    for kind in [ErrorKind::Corrupt, ErrorKind::NotFound] {
        // A segment of this split alone, and one of several.
        for (segments, known) in [
            (vec![vec![1]], true),
            (vec![vec![0, 1, 2]], true),
            (Vec::new(), false),
            (vec![vec![0, 2]], false),
        ] {
            let place = place(3, 16).await.with_segments(&segments).await;
            let key = place.index.splits()[1].object.key.clone();
            let place = failing(place, &key, kind);
            let landed = format!("{}-2", place.index.splits()[1].id);
            let wanted = [ids(["0-0", "1-1", "gone"]), vec![landed.clone()]].concat();
            let found = place.searcher.by_id(&place.index, &wanted, false).await.unwrap();
            let mut unknown = vec!["1-1", &landed];
            if !known {
                unknown.extend(["0-0", "gone"]);
            }
            unknown.sort_unstable();
            let expected = unknown.into_iter().map(|id| (id, ErrorKind::Corrupt)).collect::<Vec<_>>();
            let found_there = if known { vec![("0-0", 1, 1)] } else { Vec::new() };
            assert_eq!(short(&found), (found_there, expected), "{kind:?} {segments:?}");
            let unknown = &found.unknown[0];
            assert_eq!(unknown.split, Some(place.index.splits()[1].id));
            assert_eq!(unknown.error.fact("object"), Some(key.as_str()));
        }
    }
    let place = place(3, 16).await;
    let key = place.index.splits()[1].object.key.clone();
    let place = failing(place, &key, ErrorKind::Unavailable);
    let failed = place.searcher.by_id(&place.index, &ids(["0-0"]), false).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn texts_take_memory_until_they_are_dropped() {
    const BYTES: usize = 256 << 10;
    let query_bytes_max = 9 * BYTES;
    let settings = Settings { memory_bytes_max: 12 * BYTES, query_bytes_max, ..Settings::default() };
    let place = place(20, BYTES).await.set(settings);
    let all: Vec<String> = (0..20).flat_map(|split| [format!("{split}-0"), format!("{split}-1")]).collect();
    let without = place.searcher.by_id(&place.index, &all, false).await.unwrap();
    assert_eq!((without.documents.len(), without.unknown.len()), (40, 0));
    let held = |searcher: &Searcher| searcher.memory.reserved();
    assert_eq!(held(&place.searcher), 0);
    let found = place.searcher.by_id(&place.index, &all, true).await.unwrap();
    let texts: usize = found.documents.iter().map(|found| found.text.as_ref().unwrap().len()).sum();
    assert!(texts > BYTES && held(&place.searcher) >= texts * COPIES, "{texts}");
    assert!(held(&place.searcher) <= query_bytes_max);
    assert_eq!(found.documents.len() + found.unknown.len(), 40);
    assert!(found.unknown.iter().all(|unknown| unknown.error.kind() == ErrorKind::Exhausted));
    assert!(place.searcher.hold(query_bytes_max).is_err());
    drop(found);
    assert_eq!(held(&place.searcher), 0);
    drop(place.searcher.hold(query_bytes_max).unwrap());
    // Each alone fits.
    for id in all.chunks(1).take(4) {
        assert_eq!(place.searcher.by_id(&place.index, id, true).await.unwrap().documents.len(), 1);
    }
}
