//! Fields whose text is compared by an analyzer or a normalizer.

use std::collections::BTreeSet;

use frostline_split::{Analysis, DocumentForm, Mapping, WriterOptions};
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
            for field in ["simple", "whitespace"] {
                let analysis = Analysis::analyzer(field).unwrap();
                let words = |text: &str| -> Vec<String> {
                    analysis.words(text).into_iter().map(|word| word.text.into_owned()).collect()
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
            json!({ "match_phrase": { "host": by("a b", "simple") } }),
            "a phrase of several words is asked of a field of text",
        ),
        (json!({ "match": { "line": by("a", "lowercase") } }), "analyzer [lowercase] not found: there are"),
        (
            json!({ "multi_match": { "query": "a", "fields": ["line"], "type": "bool_prefix", "slop": 1 } }),
            "[slop] not allowed for type [bool_prefix]",
        ),
    ] {
        let error = place.search(&json!({ "query": query })).err().expect("it is refused").to_string();
        assert!(error.contains(reason), "{error} does not say {reason:?}");
    }
}

#[tokio::test]
async fn each_language_of_queries_takes_any_analyzer() {
    let texts = ["brown fox", "BROWN quick fox", "fox brown", "A-b c"];
    let hosts = ["Web 1", "web", "1", "x"];
    let documents = texts.iter().zip(hosts).zip(0..);
    let documents = documents
        .map(|((text, host), n)| json!({ "n": n, "line": text, "own": text, "host": host }))
        .collect();
    let mapping = json!({
        "settings": { "analysis": { "analyzer": {
            "gaps": { "type": "stop", "stopwords": ["quick"] },
            "cased": { "tokenizer": "whitespace" },
        } } },
        "mappings": { "properties": {
            "host": { "type": "keyword" },
            "own": { "type": "text", "analyzer": "cased" },
        } },
    });
    let place = Place::with_mapping(&[documents], Mapping::from_elasticsearch_json(&mapping).unwrap()).await;
    for (query, expected) in [
        (json!({ "match_phrase": { "line": { "query": "Brown_Fox", "analyzer": "simple" } } }), &[0][..]),
        (json!({ "match_phrase": { "line": { "query": "brown quick fox", "analyzer": "gaps" } } }), &[1]),
        (json!({ "match_phrase_prefix": { "line": { "query": "brown_fo", "analyzer": "simple" } } }), &[0]),
        (json!({ "match_phrase": { "line": { "query": "BROWN quick", "analyzer": "cased" } } }), &[]),
        // What a field names itself is not what its query is taken apart by.
        (json!({ "match": { "own": { "query": "BROWN_x", "analyzer": "simple" } } }), &[0, 2]),
        (json!({ "match": { "own": { "query": "BROWN", "analyzer": "standard" } } }), &[0, 2]),
        (json!({ "match": { "own": "BROWN" } }), &[1]),
        // Each word is a whole value.
        (json!({ "match": { "host": { "query": "Web 1", "analyzer": "standard" } } }), &[1, 2]),
        (json!({ "match": { "host": "Web 1" } }), &[0]),
        (
            json!({ "multi_match": { "query": "fox_BROWN", "fields": ["line"], "type": "cross_fields", "operator": "and",
            "analyzer": "simple" } }),
            &[0, 1, 2],
        ),
        (json!({ "query_string": { "query": "own:BROWN", "analyzer": "simple" } }), &[0, 2]),
        (json!({ "query_string": { "query": "line:BROWN", "analyzer": "cased" } }), &[]),
        (
            json!({ "query_string": { "query": "line:\"Brown_Fox\"", "analyzer": "cased", "quote_analyzer": "simple" } }),
            &[0],
        ),
        // The letters of a pattern match in either case there.
        (json!({ "query_string": { "query": "line:BRO*", "analyzer": "cased" } }), &[0, 1, 2]),
        (json!({ "query_string": { "query": "line:BRO*", "analyzer": "standard" } }), &[0, 1, 2]),
        (json!({ "query_string": { "query": "own:BRO*", "analyzer": "simple" } }), &[0, 2]),
        (json!({ "query_string": { "query": "host:WE*", "analyzer": "simple" } }), &[1]),
        (json!({ "query_string": { "query": "own:BRO*", "analyze_wildcard": true } }), &[1]),
        (json!({ "query_string": { "query": "line:a-b*", "analyze_wildcard": true } }), &[3]),
        (
            json!({ "simple_query_string": { "query": "BROWN", "fields": ["own"], "analyzer": "simple" } }),
            &[0, 2],
        ),
        (
            json!({ "simple_query_string": { "query": "BRO*", "fields": ["own"], "analyzer": "simple" } }),
            &[0, 2],
        ),
        (json!({ "simple_query_string": { "query": "BRO*", "fields": ["own"] } }), &[1]),
        (
            json!({ "intervals": { "line": { "match": { "query": "BROWN_fox", "analyzer": "simple", "ordered": true } } } }),
            &[0, 1],
        ),
        (
            json!({ "intervals": { "own": { "match": { "query": "BROWN fox", "analyzer": "simple", "ordered": true } } } }),
            &[0],
        ),
        (json!({ "intervals": { "own": { "prefix": { "prefix": "BRO", "analyzer": "simple" } } } }), &[0, 2]),
        (json!({ "intervals": { "line": { "wildcard": { "pattern": "BR*N", "analyzer": "cased" } } } }), &[]),
    ] {
        assert_eq!(found(&place, query.clone()).await, expected, "{query}");
    }
    for (query, reason) in [
        (
            json!({ "query_string": { "query": "own:a-b*", "analyzer": "simple", "analyze_wildcard": true } }),
            "[a-b] is not one word of [own]",
        ),
        (
            json!({ "simple_query_string": { "query": "a-b*", "fields": ["own"], "analyzer": "simple", "analyze_wildcard": true } }),
            "[a-b] is not one word of [own]",
        ),
        (
            json!({ "query_string": { "query": "a", "analyzer": "english" } }),
            "analyzer [english] not found: there are [cased], [gaps], [keyword]",
        ),
        (
            json!({ "intervals": { "line": { "match": { "query": "a", "analyzer": "english" } } } }),
            "analyzer [english] not found",
        ),
    ] {
        let error = place.search(&json!({ "query": query })).err().expect("it is refused");
        let said = frostline_base::chain(&error);
        assert!(said.contains(reason), "{said} does not say {reason:?}");
    }
}

#[tokio::test]
async fn text_that_names_no_analyzer_has_that_of_the_settings() {
    let documents = vec![
        json!({ "n": 0, "line": "a-b c", "host": "a-b c" }),
        json!({ "n": 1, "line": "A b", "host": "A" }),
    ];
    let mapping = json!({
        "settings": { "analysis": { "analyzer": {
            "default": { "tokenizer": "whitespace" }, "default_search": { "tokenizer": "whitespace", "filter": ["lowercase"] },
        } } },
        "mappings": { "properties": { "host": { "type": "keyword" } } },
    });
    let place = Place::with_mapping(&[documents], Mapping::from_elasticsearch_json(&mapping).unwrap()).await;
    for (query, expected) in [
        (json!({ "match": { "line": "A-B" } }), &[0][..]),
        (json!({ "match": { "line": "a" } }), &[]),
        (json!({ "match": { "line": { "query": "A", "analyzer": "default" } } }), &[1]),
        (json!({ "query_string": { "query": "line:C" } }), &[0]),
        (json!({ "match": { "host": "a-b c" } }), &[0]),
        (json!({ "match": { "line.keyword": "a-b c" } }), &[0]),
    ] {
        assert_eq!(found(&place, query.clone()).await, expected, "{query}");
    }
}

/// What settings may define, of parts drawn at random.
fn definitions() -> impl Strategy<Value = Value> {
    let one_of = |all: Value| prop::sample::select(all.as_array().unwrap().clone());
    let tokenizer = one_of(json!([
        { "type": "standard" }, { "type": "whitespace", "max_token_length": 3 }, { "type": "keyword" }, { "type": "letter" },
        { "type": "lowercase" }, { "type": "pattern", "pattern": "[ -]" }, { "type": "path_hierarchy", "delimiter": "-" },
        { "type": "path_hierarchy", "delimiter": " ", "reverse": true, "skip": 1 },
        { "type": "edge_ngram", "min_gram": 1, "max_gram": 3, "token_chars": ["letter"] },
        { "type": "ngram", "min_gram": 2, "max_gram": 3 },
        { "type": "char_group", "tokenize_on_chars": ["whitespace", "digit"] },
    ]));
    let filter = one_of(json!([
        { "type": "lowercase" }, { "type": "uppercase" }, { "type": "trim" }, { "type": "reverse" }, { "type": "unique" },
        { "type": "asciifolding", "preserve_original": true }, { "type": "stop", "stopwords": ["a", "B", "1"] },
        { "type": "length", "min": 2 }, { "type": "truncate", "length": 2 }, { "type": "limit", "max_token_count": 2 },
        { "type": "edge_ngram", "min_gram": 1, "max_gram": 2, "preserve_original": true },
        { "type": "unique", "only_on_same_position": true },
        { "type": "pattern_replace", "pattern": "([ab])b", "replacement": "$1" },
    ]));
    let characters = one_of(json!([
        { "type": "mapping", "mappings": ["a => b", "- => \\u0020", "é =>"] },
        { "type": "pattern_replace", "pattern": "1", "replacement": "<a>b" }, { "type": "html_strip" },
    ]));
    let search = prop::option::of(one_of(json!(["whitespace", "standard", "keyword", "simple"])));
    let parts = (tokenizer, prop::collection::vec(filter, 0..3), prop::option::of(characters), search);
    parts.prop_map(|(tokenizer, filters, characters, search)| {
        let named = |kind: &'static str, all: &[Value]| -> Value {
            all.iter().enumerate().map(|(n, one)| (format!("{kind}{n}"), one.clone())).collect::<serde_json::Map<_, _>>().into()
        };
        let names = |all: &Value| -> Value { all.as_object().unwrap().keys().cloned().collect() };
        let characters = named("c", characters.as_slice());
        let filters = named("f", &filters);
        let analyzer = json!({ "tokenizer": "t0", "filter": names(&filters), "char_filter": names(&characters) });
        let mut field = json!({ "type": "text", "analyzer": "mine" });
        if let Some(search) = search {
            field["search_analyzer"] = search;
        }
        json!({
            "settings": { "analysis": {
                "tokenizer": { "t0": tokenizer }, "filter": filters, "char_filter": characters, "analyzer": { "mine": analyzer },
            } },
            "mappings": { "properties": { "n": { "type": "long" }, "line": field, "also": field } },
        })
    })
}

/// The words of a value by their places.
type Placed = Vec<(usize, String)>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Whatever settings define, and however splits were written and joined, the documents are found whose values say so.
    #[test]
    fn what_is_found_is_what_an_analyzer_of_settings_makes_of_values(
        body in definitions(),
        texts in prop::collection::vec(prop::collection::vec(text(), 0..3), 2..9),
        asked in text(),
        minimum in 1usize..4,
        start in text(),
    ) {
        let mapping = Mapping::from_elasticsearch_json(&body).unwrap();
        let analysis = mapping.analysis_of("line").unwrap();
        let of = |texts: &Vec<String>| -> Vec<Placed> {
            texts.iter().map(|text| analysis.words(text).into_iter().map(|word| (word.at, word.text.into_owned())).collect()).collect()
        };
        let documents: Vec<Value> = texts.iter().enumerate().map(|(n, own)| {
            json!({ "n": n, "line": own, "also": texts[(n + 1) % texts.len()] })
        }).collect();
        let expected = |holds: &dyn Fn(&[Placed]) -> bool| -> Vec<i64> {
            (0i64..).zip(&texts).filter(|(_, texts)| holds(&of(texts))).map(|(n, _)| n).collect()
        };
        let wanted = analysis.asked(&asked);
        let each: BTreeSet<BTreeSet<String>> = wanted.iter().map(|asked| asked.words.clone()).collect();
        let has = |values: &[Placed], words: &BTreeSet<String>| values.iter().flatten().any(|(_, own)| words.contains(own));
        let at_least = |values: &[Placed], least: usize| each.iter().filter(|words| has(values, words)).count() >= least;
        let follows = |values: &[Placed], is_start: bool, gaps: bool| values.iter().any(|own| {
            let last = own.iter().map(|(at, _)| *at).max().unwrap_or(0);
            (0..=last).any(|first| !wanted.is_empty() && wanted.iter().enumerate().all(|(number, asked)| {
                let place = first + if gaps { asked.at - wanted[0].at } else { number };
                let is_last = is_start && number + 1 == wanted.len();
                own.iter().any(|(at, word)| *at == place && asked.words.iter().any(|asked| match is_last {
                    true => word.starts_with(asked),
                    false => word == asked,
                }))
            }))
        });
        let count = each.len();
        // One word is no list of clauses, so the rule does not apply to it.
        let least = if count <= 1 { 1 } else { minimum };
        let folded = analysis.fold(&start).into_owned();
        let across: Vec<i64> = (0i64..).zip(&documents).filter(|(n, _)| {
            let both: Vec<Placed> = [*n as usize, (*n as usize + 1) % texts.len()].iter().flat_map(|n| of(&texts[*n])).collect();
            count > 0 && at_least(&both, count)
        }).map(|(n, _)| n).collect();
        let either: Vec<i64> = (0i64..).zip(&documents).filter(|(n, _)| {
            let own = [*n as usize, (*n as usize + 1) % texts.len()];
            own.iter().any(|n| follows(&of(&texts[*n]), false, true))
        }).map(|(n, _)| n).collect();
        let questions = [
            (json!({ "match": { "line": { "query": asked, "operator": "and" } } }), expected(&|v| count > 0 && at_least(v, count))),
            (json!({ "match": { "line": { "query": asked, "minimum_should_match": minimum } } }), expected(&|v| count > 0 && least <= count && at_least(v, least))),
            (json!({ "match_phrase": { "line": asked } }), expected(&|v| follows(v, false, true))),
            (json!({ "match_phrase_prefix": { "line": asked } }), expected(&|v| follows(v, true, true))),
            (json!({ "multi_match": { "query": asked, "fields": ["line", "also"], "type": "phrase" } }), either),
            (json!({ "multi_match": { "query": asked, "fields": ["line", "also"], "type": "cross_fields", "operator": "and" } }), across),
            (json!({ "intervals": { "line": { "match": { "query": asked, "ordered": true, "max_gaps": 0 } } } }), expected(&|v| follows(v, false, false))),
            (json!({ "prefix": { "line": start } }), expected(&|v| v.iter().flatten().any(|(_, own)| own.starts_with(&folded)))),
            (json!({ "wildcard": { "line": format!("*{start}") } }), expected(&|v| v.iter().flatten().any(|(_, own)| own.ends_with(&folded)))),
            (json!({ "regexp": { "line": "[a-b]+" } }), expected(&|v| v.iter().flatten().any(|(_, own)| !own.is_empty() && own.chars().all(|c| "ab".contains(c))))),
            (json!({ "term": { "line": asked } }), (0i64..).zip(&texts).filter(|(_, own)| own.contains(&asked)).map(|(n, _)| n).collect()),
            (json!({ "simple_query_string": { "query": format!("\"{asked}\""), "fields": ["line"] } }), expected(&|v| follows(v, false, true))),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (first, second) = documents.split_at(documents.len() / 2);
            let groups = [first.to_vec(), second.to_vec()];
            let made = async || Place::with_mapping(&groups, mapping.clone()).await;
            let rendered = WriterOptions { documents: DocumentForm::Rendered, ..WriterOptions::default() };
            let places = [
                made().await,
                made().await.with_segments(&[vec![0, 1]]).await,
                made().await.merged(&[vec![0, 1]], rendered).await,
            ];
            for (query, expected) in &questions {
                for place in &places {
                    assert_eq!(found(place, query.clone()).await, *expected, "{query} with {body}");
                    let not = json!({ "bool": { "must_not": query } });
                    let others: Vec<i64> = (0..texts.len() as i64).filter(|n| !expected.contains(n)).collect();
                    assert_eq!(found(place, not).await, others, "not {query} with {body}");
                }
            }
        });
    }
}

#[tokio::test]
async fn words_are_marked_and_counted_as_settings_define_them() {
    let body = json!({
        "settings": { "analysis": {
            "filter": { "starts": { "type": "edge_ngram", "min_gram": 2, "max_gram": 10 } },
            "char_filter": { "amp": { "type": "mapping", "mappings": ["& => and"] } },
            "analyzer": { "starts": { "tokenizer": "standard", "filter": ["lowercase", "asciifolding", "starts"], "char_filter": ["amp"] } },
            "normalizer": { "plain": { "filter": ["lowercase", "asciifolding"] } },
        } },
        "mappings": { "properties": {
            "line": { "type": "text", "analyzer": "starts", "search_analyzer": "simple" },
            "city": { "type": "keyword", "normalizer": "plain" },
        } },
    });
    let mapping = Mapping::from_elasticsearch_json(&body).unwrap();
    let documents = [("Crème & Sugar", "Köln"), ("sugar andy", "KOLN"), ("Cream", "Bonn")];
    let documents =
        documents.iter().enumerate().map(|(n, (line, city))| json!({ "n": n, "line": line, "city": city }));
    let place = Place::with_mapping(&[documents.collect()], mapping).await;
    let marked = async |query: Value| -> Vec<Value> {
        let highlight = json!({ "fields": { "line": {}, "city": {} } });
        let body = json!({ "query": query, "highlight": highlight, "sort": "n" });
        let hits = place.answer(&body).await.hits.hits;
        hits.iter().map(|hit| hit.highlight.as_ref().map_or(Value::Null, |shown| shown.to_value())).collect()
    };
    let query = json!({ "match": { "line": "cr" } });
    let both = [json!({ "line": ["<em>Crème</em> & Sugar"] }), json!({ "line": ["<em>Cream</em>"] })];
    assert_eq!(marked(query).await, both);
    let query = json!({ "match_phrase": { "line": "and su" } });
    assert_eq!(marked(query).await, [json!({ "line": ["Crème <em>& Sugar</em>"] })]);
    let query = json!({ "prefix": { "line": "SUG" } });
    let starts = [json!({ "line": ["Crème & <em>Sugar</em>"] }), json!({ "line": ["<em>sugar</em> andy"] })];
    assert_eq!(marked(query).await, starts);
    let query = json!({ "term": { "city": "köln" } });
    assert_eq!(
        marked(query).await,
        [json!({ "city": ["<em>Köln</em>"] }), json!({ "city": ["<em>KOLN</em>"] })]
    );
    let aggs = json!({
        "cities": { "terms": { "field": "city" } },
        "words": { "significant_text": { "field": "line", "min_doc_count": 1 } },
    });
    let body = json!({ "size": 0, "query": { "term": { "city": "KÖLN" } }, "aggs": aggs });
    let answer = place.answer(&body).await.aggregations.expect("there are aggregations").to_value();
    assert_eq!(answer["cities"]["buckets"][0]["key"], "koln");
    let words: BTreeSet<&str> = answer["words"]["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|bucket| bucket["key"].as_str())
        .collect();
    assert!(words.contains("sug") && words.contains("an") && !words.contains("bonn"), "{words:?}");
}

#[tokio::test]
async fn a_query_may_ask_a_field_by_another_analyzer_of_its_index() {
    let body = json!({
        "settings": { "analysis": { "analyzer": { "commas": { "type": "pattern", "pattern": "," } } } },
        "mappings": { "properties": { "line": { "type": "text", "analyzer": "commas" }, "plain": { "type": "text" } } },
    });
    let mapping = Mapping::from_elasticsearch_json(&body).unwrap();
    let texts = ["a b,c", "a,b", "c d"];
    let documents = texts.iter().enumerate().map(|(n, text)| json!({ "n": n, "line": text, "plain": text }));
    let place = Place::with_mapping(&[documents.collect()], mapping).await;
    let by = |query: &str, analyzer: &str| json!({ "query": query, "analyzer": analyzer });
    assert_eq!(found(&place, json!({ "match": { "line": "a b" } })).await, [0]);
    assert_eq!(found(&place, json!({ "match": { "line": by("a b", "whitespace") } })).await, [1]);
    assert_eq!(found(&place, json!({ "match_phrase": { "line": by("a b", "whitespace") } })).await, [1]);
    assert_eq!(found(&place, json!({ "match": { "plain": by("d,x", "commas") } })).await, [2]);
}

#[tokio::test]
async fn an_analyzer_of_a_query_leaves_values_of_other_types_as_they_are() {
    let documents = vec![
        json!({ "n": -5, "g": -1.5, "ip": "10.1.2.3", "line": "-5" }),
        json!({ "n": 7, "g": 2, "ip": "11.0.0.1", "line": "x" }),
        json!({ "n": 8, "mixed": "-5" }),
        json!({ "n": 9, "mixed": -5 }),
    ];
    let place = Place::with_mapping(&[documents], mapping()).await;
    let string =
        |query: &str, analyzer: &str| json!({ "query_string": { "query": query, "analyzer": analyzer } });
    for analyzer in ["whitespace", "keyword"] {
        for (query, expected) in [
            ("n:\"-5\"", &[-5][..]),
            ("NOT n:\"-5\"", &[7, 8, 9]),
            ("g:\"-1.5\"", &[-5]),
            ("ip:\"10.0.0.0/8\"", &[-5]),
            // It is no word of a text.
            ("line:\"-5\"", &[]),
            ("mixed:\"-5\"", &[9]),
            ("*:\"-5\"", &[-5, 9]),
        ] {
            assert_eq!(found(&place, string(query, analyzer)).await, expected, "{query} by {analyzer}");
        }
    }
    let across = json!({ "multi_match": {
        "query": "-5 x", "fields": ["n", "line"], "type": "cross_fields", "analyzer": "whitespace",
    } });
    assert_eq!(found(&place, across).await, [-5, 7]);
}

#[tokio::test]
async fn a_clause_of_which_no_word_is_left_is_left_out() {
    let body = json!({
        "settings": { "analysis": { "analyzer": { "nothe": { "type": "stop", "stopwords": ["the"] } } } },
        "mappings": { "properties": { "own": { "type": "text", "analyzer": "nothe" }, "plain": { "type": "text" } } },
    });
    let texts = ["the quick fox", "slow fox", "dog"];
    let documents = texts.iter().enumerate().map(|(n, text)| json!({ "n": n, "own": text, "plain": text }));
    let mapping = Mapping::from_elasticsearch_json(&body).unwrap();
    let place = Place::with_mapping(&[documents.collect()], mapping).await;
    for (query, expected) in [
        ("the AND fox", &[0, 1][..]),
        ("+the +fox", &[0, 1]),
        ("fox AND NOT the", &[0, 1]),
        ("\"the\" AND fox", &[0, 1]),
        ("(the) AND fox", &[0, 1]),
        ("the", &[]),
        ("NOT the", &[]),
    ] {
        for options in [json!({ "fields": ["own"] }), json!({ "fields": ["plain"], "analyzer": "nothe" })] {
            let mut body = options.clone();
            body["query"] = json!(query);
            assert_eq!(found(&place, json!({ "query_string": body })).await, expected, "{query} {options}");
        }
    }
    for (query, expected) in [
        ("the fox", &[0, 1][..]),
        ("fox -the", &[0, 1]),
        ("-the fox", &[0, 1]),
        ("\"the\" fox", &[0, 1]),
        ("-the", &[]),
    ] {
        for options in [json!({ "fields": ["own"] }), json!({ "fields": ["plain"], "analyzer": "nothe" })] {
            let mut body = options.clone();
            (body["query"], body["default_operator"]) = (json!(query), json!("and"));
            let asked = json!({ "simple_query_string": body });
            assert_eq!(found(&place, asked).await, expected, "{query} {options}");
            let mut body = options.clone();
            (body["query"], body["default_operator"]) = (json!("the fox"), json!("and"));
            assert_eq!(found(&place, json!({ "query_string": body })).await, [0, 1], "{options}");
        }
    }
}

#[tokio::test]
async fn the_start_of_a_keyword_is_found_whatever_takes_the_text_apart() {
    let body = json!({ "properties": { "k": { "type": "keyword" }, "n": { "type": "long" } } });
    let hosts = ["fox trot", "fox", "Fo", "x fox"];
    let documents = hosts.iter().enumerate().map(|(n, host)| json!({ "n": n, "k": host }));
    let mapping = Mapping::from_elasticsearch_json(&body).unwrap();
    let place = Place::with_mapping(&[documents.collect()], mapping).await;
    let by = |analyzer: Value, query: &str| {
        let mut body = json!({ "query": query });
        if analyzer != Value::Null {
            body["analyzer"] = analyzer;
        }
        body
    };
    for analyzer in [Value::Null, json!("keyword"), json!("standard")] {
        for kind in ["match_phrase_prefix", "match_bool_prefix"] {
            let query = json!({ kind: { "k": by(analyzer.clone(), "fo") } });
            assert_eq!(found(&place, query.clone()).await, [0, 1], "{query}");
        }
        for kind in ["phrase_prefix", "bool_prefix"] {
            let mut body = by(analyzer.clone(), "fo");
            (body["type"], body["fields"]) = (json!(kind), json!(["k"]));
            assert_eq!(found(&place, json!({ "multi_match": body })).await, [0, 1], "{kind} {analyzer}");
        }
    }
    for analyzer in [Value::Null, json!("keyword")] {
        let query = json!({ "match_bool_prefix": { "k": by(analyzer, "fox t") } });
        assert_eq!(found(&place, query.clone()).await, [0], "{query}");
    }
}
