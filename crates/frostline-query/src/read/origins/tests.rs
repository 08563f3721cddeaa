use std::collections::BTreeMap;

use frostline_split::{DocumentForm, WriterOptions};
use serde_json::{Value, json};

use crate::testing::{Place, Recorded, numbers};

/// Documents of splits whose times interleave, two in each of the same time, one without.
fn documents(splits: usize, rows: usize) -> Vec<Vec<Value>> {
    let document = |split: usize, row: usize| match row {
        0 => json!({"n": split * rows, "word": format!("word{split}")}),
        _ => json!({
            "n": split * rows + row, "word": format!("word{split}"),
            "@timestamp": 1_700_000_000_000_u64 + (row / 2 * splits + split) as u64 * 1_000,
        }),
    };
    (0..splits).map(|split| (0..rows).map(|row| document(split, row)).collect()).collect()
}

/// The `_id` of each document, as hits have it.
async fn ids(place: &Place) -> BTreeMap<i64, String> {
    let mut ids = BTreeMap::new();
    for body in [json!({"size": 1_000}), json!({"size": 1_000, "sort": [{"n": "asc"}]})] {
        let answer = place.answer(&body).await;
        let found: BTreeMap<i64, String> =
            numbers(&answer).into_iter().zip(answer.hits.hits.iter().map(|hit| hit.id.clone())).collect();
        assert!(ids.is_empty() || ids == found);
        ids = found;
    }
    ids
}

/// Every way to an `_id` and from one.
async fn check(place: &Place, known: &BTreeMap<i64, String>) {
    assert_eq!(&ids(place).await, known);
    for (n, id) in known.iter().step_by(7) {
        for query in [
            json!({"ids": {"values": [id, "nothing-1", id.to_uppercase()]}}),
            json!({"bool": {"filter": [{"term": {"_id": id}}, {"range": {"n": {"gte": 0}}}]}}),
            json!({"query_string": {"query": format!("_id:\"{id}\"")}}),
        ] {
            assert_eq!(place.numbers(&json!({ "query": query })).await, [*n], "{query}");
        }
        let not = json!({"bool": {"must_not": [{"ids": {"values": [id]}}]}});
        let left = place.answer(&json!({"query": not, "size": 0})).await;
        assert_eq!(left.hits.total.unwrap().value, known.len() as u64 - 1);
        let of_sql = place.sql(&format!("select n from logs where _id = '{id}'")).await.unwrap();
        assert_eq!(of_sql, [json!(n)]);
        let top = json!({"query": {"term": {"n": n}}, "size": 0, "aggs": {"top": {"top_hits": {"size": 1}}}});
        let top = place.answer(&top).await.aggregations.unwrap().to_value();
        assert_eq!(json!(top)["top"]["hits"]["hits"][0]["_id"], json!(id));
    }
    // Where documents of no split are, and a row that the first split does not have.
    let (first, row) = known[&0].split_once('-').unwrap();
    let absent = ["0123456789abcdef0123456789abcdef-0".to_owned(), format!("{first}-{row}0000")];
    assert!(place.numbers(&json!({"query": {"ids": {"values": absent}}})).await.is_empty());
}

#[tokio::test]
async fn ids_stay_through_merges_of_splits_of_any_version() {
    for (version, hot_footer_bytes_max) in [(2, 32 << 10), (3, 32 << 10), (3, 0)] {
        let options = WriterOptions { version, hot_footer_bytes_max: 32 << 10, ..WriterOptions::default() };
        let lines = |group: &Vec<Value>| group.iter().map(Value::to_string).collect();
        let groups: Vec<Vec<String>> = documents(6, 9).iter().map(lines).collect();
        let place = Place::with_lines_written(&groups, options).await;
        let known = ids(&place).await;
        assert_eq!(known.len(), 54);
        check(&place, &known).await;
        let options = WriterOptions { hot_footer_bytes_max, ..WriterOptions::default() };
        let place = place.merged(&[vec![0, 1], vec![2, 3]], options.clone()).await;
        assert_eq!(place.index.splits().len(), 4);
        check(&place, &known).await;
        // What was merged, what was not, and then all of it, also alone: a split that is only written again.
        let all: Vec<usize> = (0..3).collect();
        let place = place.merged(&[all, vec![3]], options.clone()).await;
        check(&place, &known).await;
        let place = place.merged(&[vec![0, 1]], options).await;
        assert_eq!(place.index.splits().len(), 1);
        check(&place, &known).await;
    }
}

/// What a client calls the document of this number: texts that share their beginnings, that are keyed by their hash, that
/// look like where documents land, and none.
fn given(n: usize) -> Option<String> {
    match n % 6 {
        1 => Some(format!("Client {n}/é")),
        2 => Some(format!("{n}{}", "-long".repeat(60))),
        4 => Some(format!("0123456789abcdef0123456789abcdee-{n}")),
        5 => Some(format!("{:x}", (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        _ => None,
    }
}

fn identified(groups: Vec<Vec<Value>>) -> Vec<Vec<(String, Option<String>)>> {
    let document = |mut document: Value| {
        let given = document["n"].as_u64().and_then(|n| given(n as usize));
        // A field of that name is another thing.
        document["_id"] = json!("Client 1/é");
        (document.to_string(), given)
    };
    groups.into_iter().map(|group| group.into_iter().map(document).collect()).collect()
}

#[tokio::test]
async fn ids_from_clients_stay_through_merges_beside_others() {
    for (documents_form, hot_footer_bytes_max) in
        [(DocumentForm::Stored, 32 << 10), (DocumentForm::Rendered, 32 << 10), (DocumentForm::Rendered, 0)]
    {
        let options =
            WriterOptions { documents: documents_form, hot_footer_bytes_max, ..WriterOptions::default() };
        let mut groups = identified(documents(5, 13));
        // A split without any.
        groups.push(vec![(json!({"n": 65, "word": "word5"}).to_string(), None)]);
        let place = Place::with_ids(&groups, WriterOptions::default()).await;
        let known = ids(&place).await;
        assert_eq!(known.len(), 66);
        for (n, id) in &known {
            assert!(given(*n as usize).is_none_or(|given| given == *id) || *n == 65, "{n}: {id}");
        }
        check(&place, &known).await;
        // Where a document landed that has another _id now.
        let landed = known[&0].replace("-0", "-1");
        let absent = json!({"query": {"ids": {"values": [landed, "client 1/é", "Client 1/", "1"]}}});
        let numbers = place.numbers(&absent).await;
        assert!(numbers.iter().all(|n| known[n] == landed), "{numbers:?}");
        let place = place.merged(&[vec![0, 1], vec![2, 5]], options.clone()).await;
        assert_eq!(place.index.splits().len(), 4);
        check(&place, &known).await;
        let place = place.merged(&[vec![0, 1, 2, 3]], options).await;
        assert_eq!(place.index.splits().len(), 1);
        check(&place, &known).await;
    }
}

#[tokio::test]
async fn needle_segments_lead_ids_from_clients_to_their_splits() {
    let place = Place::with_ids(&identified(documents(12, 5)), WriterOptions::default()).await;
    let known = ids(&place).await;
    let place = place.merged(&[vec![0, 1, 2], vec![3, 4, 5]], WriterOptions::default()).await;
    let splits = place.index.splits().len();
    let place = place.with_segments(&[(0..splits).collect()]).await;
    check(&place, &known).await;
    for n in [7, 20, 28, 53] {
        place.searcher.forget();
        let answer = place.answer(&json!({"query": {"ids": {"values": [known[&n]]}}})).await;
        assert_eq!(numbers(&answer), [n]);
        assert_eq!((answer.cost.splits.opened, answer.cost.splits.opened_empty), (1, 0), "{n}");
    }
    let absent = json!({"query": {"ids": {"values": ["Client 2/é"]}}});
    assert_eq!(place.answer(&absent).await.cost.splits.opened, 0);
}

#[tokio::test]
async fn needle_segments_lead_ids_to_the_splits_that_have_them() {
    let place = Place::with(&documents(12, 5)).await;
    let known = ids(&place).await;
    let place = place.merged(&[vec![0, 1, 2], vec![3, 4, 5]], WriterOptions::default()).await;
    let splits = place.index.splits().len();
    assert_eq!(splits, 8);
    let place = place.with_segments(&[(0..splits).collect()]).await;
    check(&place, &known).await;
    for (n, opened) in [(7, 1), (22, 1), (40, 1)] {
        place.searcher.forget();
        let answer = place.answer(&json!({"query": {"ids": {"values": [known[&n]]}}})).await;
        assert_eq!(numbers(&answer), [n]);
        assert_eq!((answer.cost.splits.opened, answer.cost.splits.opened_empty), (opened, 0), "{n}");
    }
    let two = json!({"query": {"ids": {"values": [known[&7], known[&40]]}}, "sort": ["n"]});
    let answer = place.answer(&two).await;
    assert_eq!((numbers(&answer), answer.cost.splits.opened), (vec![7, 40], 2));
    let absent = json!({"query": {"ids": {"values": ["0123456789abcdef0123456789abcdef-0"]}}});
    assert_eq!(place.answer(&absent).await.cost.splits.opened, 0);
}

/// What a hit's `_id` costs: nothing where the hot footer has the origins, else one read beside that of the document.
#[tokio::test]
async fn an_id_is_read_with_the_document_where_the_hot_footer_does_not_have_it() {
    let groups = [documents(3, 4_000).concat()];
    for (hot_footer_bytes_max, more) in [(32 << 10, 0), (0, 1)] {
        let options = WriterOptions { hot_footer_bytes_max, ..WriterOptions::default() };
        let lines =
            groups.iter().map(|group| group.iter().map(Value::to_string).collect()).collect::<Vec<_>>();
        let mut reads = Vec::new();
        for is_merged in [false, true] {
            let mut place = Place::with_lines_written(&lines, options.clone()).await;
            if is_merged {
                place = place.merged(&[vec![0]], options.clone()).await;
            }
            let recorded = Recorded::new(&place.repository);
            let place = place.through(recorded.clone());
            let answer = place.answer(&json!({"query": {"term": {"n": 9_001}}})).await;
            assert_eq!(numbers(&answer), [9_001]);
            reads.push(recorded.take());
        }
        assert_eq!(reads[1].len(), reads[0].len() + more, "{reads:?}");
        let bytes = |reads: &[(frostline_base::Share, Vec<std::ops::Range<u64>>)]| -> u64 {
            reads.iter().flat_map(|(_, ranges)| ranges).map(|range| range.end - range.start).sum()
        };
        assert!(bytes(&reads[1]) < bytes(&reads[0]) + 2_000, "{reads:?}");
    }
}
