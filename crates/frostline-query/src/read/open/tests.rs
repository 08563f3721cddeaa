use frostline_base::{ByteRange, ErrorKind, Meter, Share};
use frostline_split::{KeyRange, WriterOptions};
use serde_json::{Value, json};

use super::*;
use crate::testing::{Place, Recorded};

/// A split of so many fields, and what is read of it.
async fn wide(fields: usize, options: WriterOptions) -> (Place, Arc<Recorded>) {
    let document = |n: usize| {
        let values = (0..100).map(|at| {
            let field = (n * 100 + at) % fields;
            (
                format!("group{}.field-{field}", field % 9),
                json!(format!("word{} of {}", field * 7 + n % 40, n % 50)),
            )
        });
        let time = json!(1_700_000_000_000i64 + n as i64 * 1_000);
        values.chain([("n".to_owned(), json!(n)), ("@timestamp".to_owned(), time)]).collect::<Value>()
    };
    let documents: Vec<Value> = (0..fields * 3 / 10).map(document).collect();
    let place = Place::written(&documents, options).await;
    let reads = Recorded::new(&place.repository);
    let place = place.through(reads.clone());
    (place, reads)
}

fn bytes(reads: &[(Share, Vec<ByteRange>)]) -> u64 {
    reads.iter().flat_map(|(_, ranges)| ranges).map(|range| range.end - range.start).sum()
}

async fn digest_blocks(place: &Place) -> Vec<ByteRange> {
    let open = place
        .searcher
        .open(&place.index.splits()[0], std::future::ready(None), &Meter::default())
        .await
        .unwrap();
    let blocks = open.split.digest_table().blocks(&KeyRange::all()).unwrap();
    blocks.into_iter().map(|block| block.range).collect()
}

#[tokio::test]
async fn a_needle_opens_a_split_with_one_small_read_and_reads_no_digest() {
    let (place, reads) = wide(449, WriterOptions::default()).await;
    let digest = digest_blocks(&place).await;
    assert!(digest.len() > 3, "{} blocks", digest.len());
    let needle = json!({"query": {"match": {"group4.field-13": "word91"}}, "_source": false});
    let range = json!({"query": {"range": {"n": {"gte": 3, "lt": 7}}}, "_source": false});
    for (body, hits) in [(needle, 1..9), (range, 4..5)] {
        place.searcher.forget();
        reads.take();
        let answer = place.answer(&body).await;
        assert!(hits.contains(&answer.hits.total.unwrap().value), "{body}");
        let read = reads.take();
        let footers: Vec<_> = read.iter().filter(|(share, _)| *share == Share::Footer).cloned().collect();
        assert!(footers.len() == 1 && bytes(&footers) <= 32 << 10, "{footers:?}");
        let of_digest =
            |range: &ByteRange| digest.iter().any(|block| range.start < block.end && block.start < range.end);
        assert!(!read.iter().flat_map(|(_, ranges)| ranges).any(of_digest), "{read:?}");
    }
}

#[tokio::test]
async fn a_dashboard_reads_the_digest_of_its_fields_alone() {
    let (place, reads) = wide(449, WriterOptions::default()).await;
    let digest = digest_blocks(&place).await;
    place.searcher.forget();
    reads.take();
    let body = json!({"size": 0, "aggs": {
        "values": {"terms": {"field": "group4.field-13.keyword"}},
        "times": {"date_histogram": {"field": "@timestamp", "fixed_interval": "10m"}},
    }});
    let answer = place.answer(&body).await;
    assert_eq!(answer.cost.splits.answered_digest, 1);
    let read = reads.take();
    assert_eq!(read.len(), 2, "{read:?}");
    let (_, of_digest) = &read[1];
    assert!(of_digest.len() <= 2 && of_digest.iter().all(|range| digest.contains(range)), "{of_digest:?}");
    // What no digest answers does not read it.
    let body = json!({"size": 0, "aggs": {"c": {"cardinality": {"field": "n"}}}});
    place.answer(&body).await;
    let read = reads.take();
    assert!(!read.iter().flat_map(|(_, ranges)| ranges).any(|range| digest.contains(range)), "{read:?}");
}

#[tokio::test]
async fn fields_that_do_not_fit_into_the_hot_footer_are_read_together_once() {
    let small = WriterOptions { hot_footer_bytes_max: 4 << 10, ..WriterOptions::default() };
    let (place, reads) = wide(1_000, small).await;
    let body = json!({"query": {"bool": {"filter": [
        {"match": {"group4.field-13": "word91"}},
        {"exists": {"field": "group8.field-908"}},
        {"match_phrase": {"group1.field-1": "of 3"}},
    ]}}, "size": 0, "track_total_hits": true});
    reads.take();
    let first = place.answer(&body).await;
    let footers: Vec<_> = reads.take().into_iter().filter(|(share, _)| *share == Share::Footer).collect();
    let (opening, fields) = footers.split_first().unwrap();
    assert!(bytes(std::slice::from_ref(opening)) <= 4 << 10, "{opening:?}");
    // Some of the blocks that three fields are in, or at whose edges they may be.
    assert!(fields.len() == 1 && bytes(fields) <= 12 << 10, "{fields:?}");
    let again = place.answer(&body).await;
    assert_eq!(again.hits.total.map(|total| total.value), first.hits.total.map(|total| total.value));
    assert!(reads.take().iter().all(|(share, _)| *share != Share::Footer));
}

#[tokio::test]
async fn a_split_under_the_name_of_another_is_corrupt() {
    let documents = |n: i64| vec![json!({"n": n})];
    let place = Place::with(&[documents(1), documents(2)]).await;
    let [one, other] = [0, 1].map(|at| place.index.splits()[at].clone());
    let wrong = SplitEntry { id: other.id, ..SplitEntry::clone(&one) };
    let error =
        place.searcher.open(&Arc::new(wrong), std::future::ready(None), &Meter::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}
