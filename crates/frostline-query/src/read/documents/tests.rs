use std::sync::Arc;

use frostline_base::{Meter, Share};
use frostline_split::ValueType;
use serde_json::{Value, json};

use super::*;
use crate::read::fields::times;
use crate::testing::{NOW_US, Place, Recorded, numbers};
use crate::{Response, Search, SearchOptions, Searcher, Settings};

/// Numbers that look random.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }

    fn of<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        &values[self.below(values.len() as u64) as usize]
    }

    fn id(&mut self) -> String {
        format!("{:08x}", self.below(40).wrapping_mul(0x9e37_79b9))
    }

    /// A value of any type, or several, with ids among texts.
    fn value(&mut self) -> Value {
        match self.below(9) {
            0 => json!(self.id()),
            1 => json!(format!("say {} {}", self.id(), self.id())),
            2 => json!([self.id(), "10.0.0.7", format!("a\n\"{}\"", self.id().to_uppercase())]),
            3 => json!("10.0.0.7"),
            4 => json!("2024-05-01T10:00:00Z"),
            5 => json!(self.below(40)),
            6 => json!(format!("10.0.0.7-{}", self.id())),
            7 => json!({ "in": self.id() }),
            _ => Value::Null,
        }
    }

    fn time(&mut self) -> Value {
        let at = self.below(50);
        match self.below(6) {
            0 => json!(format!("2024-05-01T10:{at:02}:00.{:06}Z", self.below(1_000_000))),
            1 => json!(["no time", 1_714_557_600_000_u64 + at * 60_000, "2024-01-01"]),
            2 => json!(self.id()),
            3 => Value::Null,
            _ => json!(1_714_557_600_000_u64 + at * 60_000),
        }
    }
}

/// Splits of documents with texts, with values of all types and with times, in `time_field`.
fn splits(draw: &mut Draw, time_field: &str) -> Vec<Vec<Value>> {
    let mut document = |n: u64| {
        let mut document =
            json!({"n": n, "text": format!("{} {}", draw.id(), draw.id()), "mixed": draw.value()});
        // A second time, under the other name, is an ordinary value.
        document["@timestamp"] = draw.time();
        document[time_field] = draw.time();
        document
    };
    (0..6).map(|split| (split * 30..split * 30 + 30).map(&mut document).collect()).collect()
}

fn shown(answer: &Response) -> (Vec<i64>, Vec<Value>, u64) {
    let sorts = answer.hits.hits.iter().map(|hit| json!([hit.sort, hit.id])).collect();
    (numbers(answer), sorts, answer.hits.total.as_ref().unwrap().value)
}

/// A search whose splits are searched in groups reads its documents afterwards, and asks columns before.
#[tokio::test]
async fn documents_tell_what_columns_tell() {
    let mut draw = Draw(7);
    let (mut with_documents, mut with_columns) = (0, 0);
    for time_field in ["@timestamp", "ts"] {
        let mapping = Mapping::dynamic().with_time_field(time_field);
        let place = Place::with_mapping(&splits(&mut draw, time_field), mapping).await;
        for _ in 0..60 {
            let (id, field) =
                (draw.id(), *draw.of(&["text", "mixed", "@timestamp", "mixed.in", "text.keyword"]));
            let query = match draw.below(6) {
                0 => json!({"term": {field: id}}),
                1 => json!({"match_phrase": {field: format!("{id} {}", draw.id())}}),
                2 => json!({"query_string": {"query": format!("{id} AND {}", draw.id())}}),
                3 => json!({"terms": {field: [id, draw.id().to_uppercase(), "10.0.0.7"]}}),
                4 => {
                    json!({"bool": {"must": [{"match": {field: id}}], "must_not": [{"match": {"text": draw.id()}}]}})
                }
                _ => json!({"match": {field: id}}),
            };
            let order = *draw.of(&["asc", "desc"]);
            let mut body =
                json!({"query": query, "size": *draw.of(&[1, 4, 10, 200]), "track_total_hits": true});
            if draw.below(2) == 0 {
                body["sort"] = json!([{ time_field: order }, { "_doc": order }]);
            }
            let answer = place.answer(&body).await;
            place.searcher.forget();
            let in_groups = Settings { groups: 2, ..Settings::default() };
            let searcher = Searcher::new(&place.repository, Arc::new(place.repository.clone()), in_groups);
            let options = SearchOptions { now_us: NOW_US, ..SearchOptions::default() };
            let index = std::slice::from_ref(&place.index);
            let search = Search::new(&searcher, index, body.to_string().as_bytes(), &options).unwrap();
            let expected = search.run().await.unwrap();
            assert_eq!(shown(&answer), shown(&expected), "{body}");
            with_documents += answer.cost.gets;
            with_columns += expected.cost.gets;
        }
    }
    assert!(with_documents < with_columns, "{with_documents} {with_columns}");
}

/// Three round trips, each of one request: the hot footer, a block of the text dictionary, the document.
#[tokio::test]
async fn a_hit_takes_three_requests() {
    let id = |n: u64| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let document = |n: u64| json!({"n": n, "@timestamp": 1_700_000_000_000 + n, "id": id(n), "other": id(n + 7_000), "text": format!("see {}", id(n + 9_000))});
    let place = Place::with(&[(0..3_000).map(document).collect()]).await;
    let reads = Recorded::new(&place.repository);
    let place = place.through(reads.clone());
    let term = |field: &str, n: u64| json!({"term": {field: id(n)}});
    for (query, expected) in [
        (term("id", 5), vec![5]),
        (term("id.keyword", 6), vec![6]),
        (json!({"match": {"text": id(9_007)}}), vec![7]),
        (json!({"match_phrase": {"text": format!("see {}", id(9_008))}}), vec![8]),
        (json!({"query_string": {"query": id(7_009)}}), vec![9]),
        (json!({"bool": {"filter": [term("id", 10), term("other", 7_010)]}}), vec![10]),
        // Candidates that are none.
        (term("text", 9_011), vec![]),
    ] {
        place.searcher.forget();
        reads.take();
        let answer = place.answer(&json!({ "query": query })).await;
        assert_eq!(numbers(&answer), expected, "{query}");
        let read = reads.take();
        let (index, others): (Vec<_>, Vec<_>) = read.iter().partition(|(share, _)| *share == Share::Index);
        let others: Vec<Share> = others.iter().map(|(share, _)| *share).collect();
        assert_eq!(others, [Share::Footer, Share::Source], "{query}");
        let several = query.to_string().matches(':').count() > 3;
        assert!(index.len() == 1 || several && index.len() <= 3, "{query}: {index:?}");
    }
    // So many hits that their documents are read when the best are known: the times are read before.
    let all = json!({"query": {"match": {"text": "see"}}, "size": 2_000, "sort": [{"@timestamp": "asc"}, {"_doc": "asc"}]});
    assert!(numbers(&place.answer(&all).await).into_iter().eq(0..2_000));
    assert!(reads.take().iter().any(|(share, _)| *share == Share::Column));
}

#[tokio::test]
async fn a_document_that_cannot_tell_leaves_it_to_the_column() {
    let document = |n: i64| {
        json!({"n": n, "@timestamp": 1_700_000_000_000 + n, "other": 1_600_000_000_000_i64 + n, "text": format!("t{n}"),
               "mixed": if n % 2 == 0 { json!("t") } else { json!(n) }, "far": "x".repeat(40_000)})
    };
    let place = Place::with(&[(0..300).map(document).collect()]).await;
    let meter = Meter::default();
    let open = place.searcher.open(&place.index.splits()[0], std::future::ready(None), &meter).await.unwrap();
    let field = |name: &str| open.split.field(name, ValueType::Text).unwrap();
    let (some, scattered): (RoaringBitmap, RoaringBitmap) = ([4, 6].into(), [4, 250].into());
    let shown = |time_field| Shown::new(time_field, 2, 1);
    for (time_field, name, rows, expected) in [
        ("@timestamp", "text", &some, Some([6].into())),
        ("@timestamp", "mixed", &some, None),
        ("text", "text", &some, None),
        ("@timestamp", "text", &scattered, None),
        ("@timestamp", "text", &[1, 4, 6].into(), None),
    ] {
        let shown = shown(time_field);
        let view = View { shown: Some(&shown), ..place.view(&open, &meter) };
        let found = view.verify_on_documents(field(name), rows, &mut |text| text == "t6").await.unwrap();
        assert_eq!(found, expected, "{name} {rows:?}");
    }
    // The times of another field are not where the split has them, and so are none.
    for (time_field, is_known) in [("@timestamp", true), ("other", false), ("n", false), ("text", false)] {
        let shown = shown(time_field);
        let view = View { shown: Some(&shown), ..place.view(&open, &meter) };
        assert_eq!(view.times_in_documents(&some), None, "not read yet");
        view.learn_documents(&some).await.unwrap();
        let expected = times(view, &some).await.unwrap();
        let found = view.times_in_documents(&some);
        let found = found.map(|times| times.iter().map(|time| time.map(|time| time.time_us)).collect());
        assert_eq!(found, is_known.then_some(expected), "{time_field}");
    }
}

#[test]
fn as_many_candidates_are_verified_on_documents_as_may_be_shown() {
    let most = |shown, splits| Shown::new("@timestamp", shown, splits).candidates_max;
    assert_eq!([most(10, 1), most(10, 3), most(10, 80), most(500, 2), most(10, 0)], [10, 3, 1, 16, 10]);
}

#[test]
fn documents_of_other_splits_and_rows_are_kept() {
    let shown = Shown::new("@timestamp", 10, 2);
    let [one, other] = [1, 2].map(frostline_base::SplitId::from_random);
    let texts = |rows: &[u32]| rows.iter().map(|row| (*row, format!("text {row}"))).collect::<Vec<_>>();
    shown.extend(one, texts(&[1, 2, 3]).into_iter());
    shown.extend(other, texts(&[2]).into_iter());
    assert_eq!(shown.retain(one, |row| row != 2), 12);
    assert_eq!((shown.rows(one), shown.rows(other)), ([1, 3].into(), [2].into()));
    assert_eq!(
        (shown.of(one, &[1, 2].into()), shown.of(one, &[3].into())),
        (None, Some(vec!["text 3".to_owned()]))
    );
}
