//! Fields whose text is compared by an analyzer or a normalizer.

use frostline_split::{Analysis, Mapping};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::testing::Place;

fn mapping() -> Mapping {
    let of = |analyzer: &str| json!({ "type": "text", "analyzer": analyzer });
    let json = json!({ "properties": {
        "n": { "type": "long" },
        "host": { "type": "keyword", "normalizer": "lowercase" },
        "raw": { "type": "keyword", "fields": { "lower": { "type": "keyword", "normalizer": "lowercase" } } },
        "keyword": of("keyword"), "simple": of("simple"), "stop": of("stop"), "whitespace": of("whitespace"),
    } });
    Mapping::from_elasticsearch_json(&json).unwrap()
}

/// A document that has these texts in each of its fields.
fn document(n: usize, texts: &Value) -> Value {
    let mut document = json!({ "n": n });
    for field in ["host", "raw", "keyword", "simple", "stop", "whitespace"] {
        document[field] = texts.clone();
    }
    document
}

async fn place(texts: &[Value]) -> Place {
    let documents: Vec<Value> = texts.iter().enumerate().map(|(n, texts)| document(n, texts)).collect();
    let (first, second) = documents.split_at(documents.len() / 2);
    Place::with_mapping(&[first.to_vec(), second.to_vec()], mapping()).await
}

async fn found(place: &Place, query: Value) -> Vec<i64> {
    place.numbers(&json!({ "query": query, "sort": "n", "size": 1_000 })).await
}

#[tokio::test]
async fn patterns_of_query_strings_keep_the_case_that_the_field_keeps() {
    let texts = [json!("Foo"), json!("foo"), json!("FOO x"), json!("ΟΔΟΣΗΜΑ")];
    let place = place(&texts).await;
    let query = async |query: &str| found(&place, json!({ "query_string": { "query": query } })).await;
    assert_eq!(query("whitespace:Fo*").await, [0]);
    assert_eq!(query("whitespace:F?O").await, [2]);
    assert_eq!(query("keyword:FO*").await, [2]);
    assert_eq!(query("simple:Fo*").await, [0, 1, 2]);
    let simple = json!({ "simple_query_string": { "query": "Fo*", "fields": ["whitespace"] } });
    assert_eq!(found(&place, simple).await, [0]);
    // The end of a beginning is not the end of a word.
    for field in ["host", "simple", "stop"] {
        assert_eq!(found(&place, json!({ "prefix": { field: "ΟΔΟΣ" } })).await, [3], "{field}");
    }
}

/// A phrase is looked for from each word on: what was passed is not looked at again.
#[tokio::test]
async fn a_phrase_over_a_word_that_repeats_is_found_in_bounded_time() {
    let place = place(&[json!("a ".repeat(60_000) + "b"), json!("a b")]).await;
    let phrase = async |count: usize, last: &str| {
        let words = "a ".repeat(count) + last;
        found(&place, json!({ "match_phrase": { "whitespace": words } })).await
    };
    assert_eq!(phrase(300, "b").await, [0]);
    assert_eq!(phrase(300, "c").await, [] as [i64; 0]);
    assert_eq!(phrase(1, "b").await, [0, 1]);
}

#[tokio::test]
async fn a_normalized_keyword_is_found_counted_and_sorted_in_lower_case() {
    let texts =
        [json!("Web-1"), json!("WEB-1"), json!(["db 2", "DB 2"]), json!("ÄRGER"), Value::Null, json!("web")];
    let place = place(&texts).await;
    for field in ["host", "raw.lower"] {
        let of = async |kind: &str, body: Value| found(&place, json!({ kind: { field: body } })).await;
        assert_eq!(of("term", json!("wEb-1")).await, [0, 1]);
        assert_eq!(of("terms", json!(["DB 2", "ärger"])).await, [2, 3]);
        assert_eq!(of("match", json!("Db 2")).await, [2]);
        assert_eq!(of("match_phrase_prefix", json!("WE")).await, [0, 1, 5]);
        assert_eq!(of("prefix", json!("WEB")).await, [0, 1, 5]);
        assert_eq!(of("wildcard", json!("*B*-?")).await, [0, 1]);
        assert_eq!(of("regexp", json!("[a-z]+-[0-9]")).await, [0, 1]);
        // As Elasticsearch has it, the expression is text to its normalizer.
        assert_eq!(of("regexp", json!("[A-Z]+-[0-9]")).await, [0, 1]);
        assert_eq!(of("regexp", json!({ "value": "WEB.?1?" })).await, [0, 1, 5]);
        let regexp = json!({ "query_string": { "query": format!("{field}:/W[A-F]B-./") } });
        assert_eq!(found(&place, regexp).await, [0, 1]);
        assert_eq!(of("range", json!({ "gte": "WEB" })).await, [0, 1, 3, 5]);
        assert_eq!(of("range", json!({ "gt": "Web", "lt": "Z" })).await, [0, 1]);
        let terms = json!({ "size": 0, "aggs": { "t": { "terms": { "field": field, "order": { "_key": "asc" } } } } });
        let terms = place.answer(&terms).await.aggregations.unwrap().to_value();
        let bucket = |key: &str, count: u64| json!({ "key": key, "doc_count": count });
        let expected = json!([bucket("db 2", 1), bucket("web", 1), bucket("web-1", 2), bucket("ärger", 1)]);
        assert_eq!(terms["t"]["buckets"], expected, "{field}");
        let count = json!({ "size": 0, "aggs": { "c": { "cardinality": { "field": field } } } });
        assert_eq!(place.answer(&count).await.aggregations.unwrap().to_value()["c"]["value"], 4);
        let sorted = json!({ "sort": [{ field: "desc" }, { "n": "asc" }], "size": 10 });
        assert_eq!(place.numbers(&sorted).await, [3, 0, 1, 5, 2, 4]);
        let groups = json!({ "sort": "n", "size": 10, "collapse": { "field": field, "inner_hits": {} } });
        let groups = serde_json::to_value(place.answer(&groups).await).unwrap();
        let totals = groups["hits"]["hits"].as_array().unwrap().iter();
        let totals: Vec<u64> =
            totals.map(|hit| hit["inner_hits"][field]["hits"]["total"]["value"].as_u64().unwrap()).collect();
        assert_eq!(totals, [2, 1, 1, 1, 1], "{field}");
    }
    // The other name alone is normalized, and documents are shown as they are.
    assert_eq!(found(&place, json!({ "term": { "raw": "web-1" } })).await, [] as [i64; 0]);
    assert_eq!(found(&place, json!({ "term": { "raw": "WEB-1" } })).await, [1]);
    let hit = place.answer(&json!({ "query": { "term": { "host": "web-1" } }, "sort": "n" })).await;
    let source: Value = serde_json::from_str(hit.hits.hits[1].source.as_ref().unwrap().get()).unwrap();
    assert_eq!(source["host"], "WEB-1");
}

#[tokio::test]
async fn text_is_found_by_the_words_of_its_analyzer() {
    let texts = [
        json!("The quick-Brown fox"),
        json!(["quick fox", "a lazy dog's bone"]),
        json!("the Fox is not quick"),
        json!("fox42 jumps"),
    ];
    let place = place(&texts).await;
    let check = async |field: &str, kind: &str, body: Value, expected: &[i64]| {
        assert_eq!(
            found(&place, json!({ kind: { field: body } })).await,
            expected,
            "{kind} of {body} in {field}"
        );
    };
    check("whitespace", "match", json!("fox"), &[0, 1]).await;
    check("whitespace", "match", json!("Fox fox42"), &[2, 3]).await;
    check("whitespace", "match", json!({ "query": "quick dog's", "operator": "and" }), &[1]).await;
    check("whitespace", "match_phrase", json!("quick-Brown fox"), &[0]).await;
    check("whitespace", "match_phrase", json!("fox a"), &[]).await;
    check("whitespace", "match_phrase_prefix", json!("is not qu"), &[2]).await;
    check("whitespace", "wildcard", json!("quick-*"), &[0]).await;
    check("whitespace", "wildcard", json!("QUICK-*"), &[]).await;
    check("simple", "match", json!("FOX"), &[0, 1, 2, 3]).await;
    check("simple", "match_phrase", json!("QUICK brown"), &[0]).await;
    check("simple", "match_bool_prefix", json!("jum"), &[3]).await;
    check("simple", "prefix", json!("Bro"), &[0]).await;
    check("stop", "match", json!("the is a"), &[]).await;
    check("stop", "match_phrase", json!("fox is not quick"), &[2]).await;
    check("stop", "match_phrase", json!("fox quick"), &[]).await;
    check("keyword", "match", json!("fox42 jumps"), &[3]).await;
    check("keyword", "match", json!("fox42"), &[]).await;
    check("keyword", "match_phrase_prefix", json!("quick f"), &[1]).await;
    // Whole values are what they are by any analyzer.
    check("whitespace", "term", json!("fox42 jumps"), &[3]).await;
    check("whitespace.keyword", "match", json!("fox42 jumps"), &[3]).await;
}

fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[aAbBÉé \\-1]{0,8}").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is asked, the documents are those whose values, each taken apart, say so.
    #[test]
    fn what_is_found_is_what_the_values_say(
        texts in proptest::collection::vec(proptest::collection::vec(text(), 0..3), 2..8),
        asked in text(),
        and in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let documents: Vec<Value> = texts.iter().map(|texts| json!(texts)).collect();
            let place = place(&documents).await;
            let expected = |holds: &dyn Fn(&[String]) -> bool| -> Vec<i64> {
                (0i64..).zip(&texts).filter(|(_, texts)| holds(texts)).map(|(n, _)| n).collect()
            };
            let lower = |text: &str| text.to_lowercase();
            let equal = expected(&|texts| texts.iter().any(|text| lower(text) == lower(&asked)));
            assert_eq!(found(&place, json!({ "term": { "host": asked } })).await, equal, "{asked:?}");
            let not = json!({ "bool": { "must_not": { "term": { "raw.lower": asked } } } });
            let unequal: Vec<i64> = (0..texts.len() as i64).filter(|n| !equal.contains(n)).collect();
            assert_eq!(found(&place, not).await, unequal, "not {asked:?}");
            for (field, analysis) in [("simple", Analysis::Simple), ("whitespace", Analysis::Whitespace)] {
                let words = |text: &str| -> Vec<String> {
                    analysis.words(text).into_iter().map(|(_, word)| word.into_owned()).collect()
                };
                let wanted = words(&asked);
                let has = |texts: &[String], word: &String| texts.iter().any(|text| words(text).contains(word));
                let matching = expected(&|texts| match and {
                    true => !wanted.is_empty() && wanted.iter().all(|word| has(texts, word)),
                    false => wanted.iter().any(|word| has(texts, word)),
                });
                let operator = if and { "and" } else { "or" };
                let query = json!({ "match": { field: { "query": asked, "operator": operator } } });
                assert_eq!(found(&place, query).await, matching, "{asked:?} {operator} in {field}");
                let phrase = expected(&|texts| {
                    let is_in = |text: &String| words(text).windows(wanted.len().max(1)).any(|own| own == wanted);
                    !wanted.is_empty() && texts.iter().any(is_in)
                });
                let query = json!({ "match_phrase": { field: asked } });
                assert_eq!(found(&place, query).await, phrase, "{asked:?} as a phrase in {field}");
            }
        });
    }
}

#[tokio::test]
async fn a_query_may_take_its_text_apart_itself() {
    let texts = ["brown fox", "BROWN dog", "lazy fox42", "emu"];
    let documents = texts.iter().enumerate().map(|(n, text)| json!({ "n": n, "line": text })).collect();
    let place = Place::with_mapping(&[documents], mapping()).await;
    let check = async |body: Value, expected: &[i64]| {
        assert_eq!(found(&place, json!({ "match": { "line": body } })).await, expected, "{body}");
    };
    let by = |query: &str, analyzer: &str| json!({ "query": query, "analyzer": analyzer });
    check(by("BROWN dog", "whitespace"), &[1]).await;
    check(by("BROWN dog", "standard"), &[0, 1]).await;
    check(by("BROWN dog-42", "simple"), &[0, 1]).await;
    check(json!({ "query": "brown fox", "analyzer": "whitespace", "operator": "and" }), &[0]).await;
    check(json!({ "query": "BROWN fox", "analyzer": "whitespace", "operator": "and" }), &[]).await;
    check(json!({ "query": "brown fox emu", "analyzer": "simple", "minimum_should_match": 2 }), &[0]).await;
    // What the words of the index are made of is no word of it.
    check(by("brown fox", "keyword"), &[]).await;
    check(by("emu", "keyword"), &[3]).await;
    check(by("emu,", "whitespace"), &[]).await;
    check(by("lazy emu,", "whitespace"), &[2]).await;
    let prefix = json!({ "match_bool_prefix": { "line": by("X fox", "whitespace") } });
    assert_eq!(found(&place, prefix).await, [0, 2]);
    for (query, reason) in [
        (
            json!({ "match_phrase": { "line": by("brown fox", "simple") } }),
            "only match, match_bool_prefix and multi_match take [simple]",
        ),
        (json!({ "match": { "host": by("a", "simple") } }), "[analyzer] is not supported"),
        (json!({ "match": { "simple": by("a", "stop") } }), "[analyzer] is not supported"),
        (json!({ "match": { "line": by("a", "lowercase") } }), "[analyzer] is not supported"),
        (
            json!({ "multi_match": { "query": "a", "fields": ["line"], "type": "bool_prefix", "slop": 1 } }),
            "[slop] not allowed for type [bool_prefix]",
        ),
    ] {
        let error = place.search(&json!({ "query": query })).err().expect("it is refused").to_string();
        assert!(error.contains(reason), "{error} does not say {reason:?}");
    }
}
