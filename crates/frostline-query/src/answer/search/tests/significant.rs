//! `significant_terms` against counts over the documents.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Buckets as key, documents and documents of the background, and the scores.
type Significant = Vec<(String, u64, u64, f64)>;

fn shown(answer: &Value) -> Significant {
    let buckets = answer["buckets"].as_array().unwrap().iter();
    let row = |bucket: &Value| {
        let count = |name: &str| bucket[name].as_u64().unwrap();
        let key = bucket["key"].as_str().unwrap().to_owned();
        (key, count("doc_count"), count("bg_count"), bucket["score"].as_f64().unwrap())
    };
    buckets.map(row).collect()
}

/// The terms of `front` with their scores among `back`, by JLH.
fn expected(front: &[&Value], back: &[&Value], min: u64) -> Significant {
    let counts = |documents: &[&Value]| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for document in documents {
            let mut words: Vec<&str> = document["word"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|word| word.as_str().unwrap())
                .collect();
            words.sort_unstable();
            words.dedup();
            words.into_iter().for_each(|word| *counts.entry(word.to_owned()).or_default() += 1);
        }
        counts
    };
    let (in_front, in_back) = (counts(front), counts(back));
    let score = |(word, count): (String, u64)| {
        let with = in_back.get(&word).copied().unwrap_or(0);
        let share = |with: u64, all: usize| if all == 0 { 0.0 } else { with as f64 / all as f64 };
        let (a, b) = (share(count, front.len()), share(with.max(1), back.len()));
        (word, count, with, if b > 0.0 && a > b { (a - b) * (a / b) } else { 0.0 })
    };
    let mut all: Significant = in_front.into_iter().filter(|(_, count)| *count >= min).map(score).collect();
    all.retain(|(.., score)| *score > 0.0);
    all.sort_by(|a, b| b.3.total_cmp(&a.3).then_with(|| a.0.cmp(&b.0)));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Below a query, below buckets, and against a part of the documents.
    #[test]
    fn counts_are_those_of_the_documents(
        words in prop::collection::vec((prop::collection::vec("[a-e]", 0..4), 0..4_i64), 1..40),
        splits in 1..4_usize,
        min in 1..4_u64,
        to in 0..5_i64,
    ) {
        let documents: Vec<Value> =
            words.iter().enumerate().map(|(n, (word, of))| json!({"n": n, "of": of, "word": word})).collect();
        let groups: Vec<Vec<Value>> =
            documents.chunks(documents.len().div_ceil(splits)).map(<[Value]>::to_vec).collect();
        let of = |range: std::ops::Range<i64>| -> Vec<&Value> {
            documents.iter().filter(|document| range.contains(&document["of"].as_i64().unwrap())).collect()
        };
        let terms = json!({"field": "word.keyword", "min_doc_count": min, "size": 100});
        let mut part = terms.clone();
        part["background_filter"] = json!({"range": {"of": {"gte": 2}}});
        let body = json!({"size": 0, "query": {"range": {"of": {"lt": to}}}, "aggs": {
            "whole": {"significant_terms": terms},
            "part": {"significant_terms": part},
            "each": {"histogram": {"field": "of", "interval": 1}, "aggs": {"below": {"significant_terms": terms}}},
        }});
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (response, hits) = runtime.block_on(async {
            let place = Place::with(&groups).await;
            (place.answer(&body).await, place.answer(&json!({"query": {"range": {"of": {"lt": to}}}})).await)
        });
        let (front, all) = (of(0..to), of(0..9));
        prop_assert_eq!(response.hits.total.as_ref().unwrap().value, hits.hits.total.unwrap().value);
        let answer = response.aggregations.unwrap().to_value();
        prop_assert_eq!(answer.as_object().unwrap().len(), 3);
        prop_assert_eq!(&answer["whole"]["doc_count"], front.len());
        prop_assert_eq!(&answer["whole"]["bg_count"], all.len());
        prop_assert_eq!(shown(&answer["whole"]), expected(&front, &all, min));
        prop_assert_eq!(&answer["part"]["bg_count"], of(2..9).len());
        prop_assert_eq!(shown(&answer["part"]), expected(&front, &of(2..9), min));
        for bucket in answer["each"]["buckets"].as_array().unwrap() {
            let key = bucket["key"].as_f64().unwrap() as i64;
            prop_assert_eq!(&bucket["below"]["doc_count"], &bucket["doc_count"]);
            prop_assert_eq!(shown(&bucket["below"]), expected(&of(key..key + 1), &all, min));
        }
    }
}

#[tokio::test]
async fn the_most_significant_terms_come_first_with_what_is_below_them() {
    let documents: Vec<Value> = (0..60)
        .map(|n| json!({"n": n, "host": format!("h{}", n % 4), "status": if n % 4 == 1 || n == 2 { 500 } else { 200 }}))
        .collect();
    let place = Place::with(&[documents]).await;
    let significant = |own: Value| {
        let mut of = json!({"field": "host", "min_doc_count": 1, "size": 1});
        own.as_object().unwrap().iter().for_each(|(name, value)| of[name] = value.clone());
        json!({"size": 0, "query": {"term": {"status": 500}}, "aggs": {"hosts": {
            "significant_terms": of, "aggs": {"last": {"max": {"field": "n"}}}}}})
    };
    for heuristic in ["jlh", "mutual_information", "chi_square", "gnd", "percentage"] {
        let answer =
            place.answer(&significant(json!({heuristic: {}}))).await.aggregations.unwrap().to_value();
        let bucket = &answer["hosts"]["buckets"][0];
        assert_eq!(
            (&bucket["key"], &bucket["doc_count"], &bucket["bg_count"]),
            (&json!("h1"), &json!(15), &json!(15))
        );
        assert_eq!(bucket["last"]["value"], 57.0, "{heuristic}");
        assert_eq!(answer["hosts"]["buckets"].as_array().unwrap().len(), 1);
    }
    let numbers = json!({"size": 0, "query": {"term": {"host.keyword": "h1"}}, "aggs": {"a": {
        "significant_terms": {"field": "status", "exclude": ["200"]}}}});
    let answer = place.answer(&numbers).await.aggregations.unwrap().to_value();
    assert_eq!(answer["a"]["buckets"][0]["key"], 500);
    for (own, words) in [
        (json!({"jlh": {}, "gnd": {}}), "[gnd] is a second heuristic"),
        (json!({"jlp": {}}), "[significant_terms] unknown field [jlp] did you mean [jlh]?"),
        (json!({"p_value": {}}), "[p_value] is not supported: use one of jlh"),
        (json!({"script_heuristic": {}}), "[script_heuristic] is not supported"),
        (json!({"chi_square": {"negatives": true}}), "negatives"),
        (json!({"gnd": {"background_is_superset": 1}}), "must be true or false, found 1"),
        (json!({"jlh": 1}), "[jlh] must be an object"),
        (json!({"size": 0}), "[size] must be greater than 0"),
        (json!({"order": {"_count": "asc"}}), "order"),
        (json!({"background_filter": {"trem": {}}}), "trem"),
    ] {
        let error = place.search(&significant(own)).err().unwrap();
        assert!(error.to_string().contains(words) || error.what().contains(words), "{error:?}");
    }
}
