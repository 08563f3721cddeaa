use frostline_base::{ByteRange, ErrorKind, Meter, Share};
use frostline_split::{DocumentForm, KeyRange, WriterOptions};
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

async fn open(place: &Place) -> Arc<OpenSplit> {
    let split = &place.index.splits()[0];
    place.searcher.open(split, std::future::ready(None), &Meter::default()).await.unwrap()
}

async fn digest_blocks(place: &Place) -> Vec<ByteRange> {
    let open = open(place).await;
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

/// Reading documents that are made again takes as many requests as reading stored ones, each of one row group.
#[tokio::test]
async fn a_hit_of_rendered_documents_is_one_read_of_its_row_group() {
    // Random digits, of which row groups have about 200 KiB.
    let part =
        |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let id = |n: u64| (1..7).map(|of| format!("{:016x}", part(n * 7 + of))).collect::<String>();
    let document = |n: u64| {
        let (time, took) = (1_700_000_000_000 + n * 10, n * 7_919 % 9_973);
        json!({"@timestamp": time, "n": n, "id": id(n), "host": format!("web-{}", n % 9), "took": took, "tags": ["a", n % 3]})
    };
    let documents: Vec<Value> = (0..13_000).map(document).collect();
    // One, the last, two of two row groups, and ten of all of them.
    let ten = [5, 600, 3_000, 3_001, 4_500, 5_000, 9_000, 9_500, 12_500, 12_999];
    let asked: [&[u64]; 4] = [&[0], &[12_999], &[4_095, 4_096], &ten];
    let mut taken = Vec::new();
    for form in [DocumentForm::Stored, DocumentForm::Rendered] {
        let options = WriterOptions { documents: form, ..WriterOptions::default() };
        let place = Place::written(&documents, options).await;
        let reads = Recorded::new(&place.repository);
        let place = place.through(reads.clone());
        let open = open(&place).await;
        assert_eq!(open.split.renders_documents(), form == DocumentForm::Rendered);
        let mut requests = Vec::new();
        for rows in asked {
            place.searcher.forget();
            reads.take();
            let ids: Vec<String> = rows.iter().map(|n| id(*n)).collect();
            let body = json!({"query": {"terms": {"id": ids}}, "sort": ["n"]});
            let before = place.repository.meter().cost();
            let answer = place.answer(&body).await;
            let hits: Vec<Value> = answer.hits.hits.iter().map(|hit| json!(hit)["_source"].clone()).collect();
            assert_eq!(hits, rows.iter().map(|n| document(*n)).collect::<Vec<_>>());
            let read = reads.take();
            let documents: Vec<_> =
                read.iter().filter(|(share, _)| *share == Share::Source).cloned().collect();
            let [(_, ranges)] = &documents[..] else { panic!("{documents:?}") };
            let wanted = rows.iter().map(|n| *n as u32).collect();
            assert_eq!(ranges, open.split.documents(Some(&wanted)).unwrap().ranges());
            assert!(bytes(&documents) <= 256 << 10 || rows.len() > 1, "{ranges:?}");
            let gets = place.repository.meter().cost().since(&before).gets;
            requests.push((read.len(), gets));
        }
        // All documents of two row groups, and some of a third.
        let some =
            json!({"query": {"range": {"n": {"gte": 4_090, "lt": 12_300}}}, "size": 10_000, "sort": ["n"]});
        assert!(place.numbers(&some).await.into_iter().eq(4_090..12_300));
        taken.push(requests);
    }
    // Pages of stored documents are further apart.
    assert_eq!(taken[0], [(5, 5), (5, 5), (5, 5), (5, 6)]);
    assert_eq!(taken[1], [(5, 5); 4]);
}

/// The table that a snapshot is restored into has splits of the same identity.
#[tokio::test]
async fn an_open_split_is_not_taken_for_its_copy() {
    let place = Place::written(&[json!({ "n": 1 })], WriterOptions::default()).await;
    let here = open(&place).await;
    let mut copy = SplitEntry::clone(&here.entry);
    copy.object.key = format!("copy/{}", copy.object.key);
    let (copy, meter) = (Arc::new(copy), Meter::default());
    let read = place.searcher.open(&copy, std::future::ready(None), &meter).await;
    assert!(read.unwrap_err().to_string().contains("copy/"), "it was not read where it is");
    let bytes = place.repository.get(&here.entry.object.key, &meter).await.unwrap();
    place.repository.put(&copy.object.key, bytes).await.unwrap();
    place.searcher.open(&copy, std::future::ready(None), &meter).await.unwrap();
    // Who searches both has both open.
    assert!(place.searcher.is_open(&copy) && place.searcher.is_open(&here.entry));
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
