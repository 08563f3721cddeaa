use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use frostline_base::{Meter, Share};
use frostline_split::{EXACT_PREFIX_BYTES, Mapping, ValueType, WriterOptions, contains_phrase, exact_key};
use serde_json::{Value, json};

use super::pages::LongSpan;
use super::verify::{exact_prefix, exact_text};
use super::*;
use crate::filter::{Bound, Edge, Number};
use crate::testing::{Gate, Place, Recorded, numbers};

fn rows(numbers: &[u32]) -> Rows {
    Rows::Some(numbers.iter().copied().collect())
}

#[test]
fn at_least_counts_sets() {
    let sets = || vec![rows(&[1, 2, 3]), rows(&[2, 3]), rows(&[3, 4]), Rows::none()];
    for (minimum, expected) in
        [(1, rows(&[1, 2, 3, 4])), (2, rows(&[2, 3])), (3, rows(&[3])), (4, Rows::none()), (5, Rows::none())]
    {
        assert_eq!(at_least(minimum, sets(), 5), expected, "{minimum}");
    }
    assert_eq!(at_least(0, sets(), 5), Rows::All);
    assert_eq!(at_least(2, vec![Rows::All, rows(&[1]), rows(&[2])], 3), rows(&[1, 2]));
}

#[test]
fn spans_of_whole_numbers() {
    let edge = |n: f64| Edge { number: Some(Number::Double(n)), ..Edge::default() };
    let span = |lower, upper| LongSpan::new(&lower, &upper).map(|span| (span.first, span.last));
    assert_eq!(span(Bound::Included(edge(1.5)), Bound::Included(edge(3.5))), Some((2, 3)));
    assert_eq!(span(Bound::Excluded(edge(2.0)), Bound::Excluded(edge(4.0))), Some((3, 3)));
    assert_eq!(span(Bound::Excluded(edge(1.5)), Bound::Excluded(edge(1.9))), None);
    assert_eq!(span(Bound::Open, Bound::Included(edge(-1e300))), None);
    assert_eq!(span(Bound::Included(edge(-1e300)), Bound::Included(edge(0.0))), Some((i64::MIN, 0)));
    assert_eq!(span(Bound::Included(Edge::default()), Bound::Open), None);
}

#[test]
fn keys_of_long_values_keep_their_start() {
    let prefix = "p".repeat(100);
    assert_eq!(exact_prefix(1, &prefix).len(), 2 + EXACT_PREFIX_BYTES);
    assert!(exact_key(&"p".repeat(200), 1).starts_with(&exact_prefix(1, &prefix)));
    assert_eq!(exact_text(&exact_key("value", 1)), Some("value"));
    assert_eq!(exact_text(&exact_key(&"p".repeat(200), 1)), None);
}

/// Values of which several are spellings of one token, and some are no token.
const SPELLINGS: [&str; 24] = [
    "alice",
    "Alice",
    "ALICE",
    "(alice)",
    "alice.",
    "\"alice\"",
    "alice bob",
    "alic",
    "a.B",
    "A.b",
    "a",
    "b.a",
    "σας",
    "ΣΑΣ",
    "σασ",
    "İstanbul",
    "i\u{307}stanbul",
    "istanbul",
    "東京",
    "東",
    "-",
    "",
    " ",
    "zoe",
];

/// Documents with one to three of some values each.
fn spelled(values: &[String], rows: usize) -> Vec<Vec<String>> {
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    (0..rows)
        .map(|_| {
            let count = [1, 1, 2, 3][next() % 4];
            (0..count).map(|_| values[next() % values.len()].clone()).collect()
        })
        .collect()
}

/// A question, and what holds of the values that it finds.
type Question = (Value, Box<dyn Fn(&str) -> bool>);

/// Every way to ask for whole values.
fn questions(values: &[String]) -> Vec<Question> {
    let mut questions: Vec<Question> = Vec::new();
    for value in values.iter().map(String::as_str).chain(["alicE", "(a.b)", "σ", "None"]) {
        let (own, start) = (value.to_owned(), value.to_owned());
        questions.push((json!({"term": {"v.keyword": value}}), Box::new(move |v| v == own)));
        questions.push((json!({"prefix": {"v.keyword": value}}), Box::new(move |v| v.starts_with(&start))));
        let end: String = value.chars().skip(1).collect();
        let wildcard = json!({"wildcard": {"v.keyword": format!("*{end}")}});
        questions.push((wildcard, Box::new(move |v| v.ends_with(&end))));
        let (low, above) = (value.to_owned(), value.to_owned());
        questions
            .push((json!({"range": {"v.keyword": {"gte": value}}}), Box::new(move |v| v >= low.as_str())));
        questions
            .push((json!({"range": {"v.keyword": {"lt": value}}}), Box::new(move |v| v < above.as_str())));
    }
    let some = ["Alice", "(alice)", "zoe"];
    questions.push((json!({"terms": {"v.keyword": some}}), Box::new(move |v| some.contains(&v))));
    questions
}

async fn check_spellings(values: &[String], rows: usize, options: WriterOptions) {
    let spelled = spelled(values, rows);
    let documents: Vec<Value> = spelled.iter().enumerate().map(|(n, v)| json!({"n": n, "v": v})).collect();
    let place = Place::written(&documents, options).await;
    for (query, holds) in questions(&values[values.len().saturating_sub(SPELLINGS.len())..]) {
        let expected =
            spelled.iter().enumerate().filter(|(_, values)| values.iter().any(|value| holds(value)));
        let expected: Vec<i64> = expected.map(|(n, _)| n as i64).collect();
        let body = json!({"query": query, "size": 100, "sort": ["n"], "track_total_hits": true});
        let answer = place.answer(&body).await;
        assert_eq!(answer.hits.total.as_ref().unwrap().value, expected.len() as u64, "{query}");
        assert_eq!(numbers(&answer), expected[..expected.len().min(100)], "{query}");
    }
    let terms = json!({"size": 0, "aggs": {"v": {"terms": {"field": "v.keyword", "size": 10_000}}}});
    let buckets = place.answer(&terms).await.aggregations.unwrap().to_value();
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    for values in &spelled {
        let once: BTreeSet<&str> = values.iter().map(String::as_str).collect();
        once.into_iter().for_each(|value| *expected.entry(value).or_default() += 1);
    }
    let buckets = buckets["v"]["buckets"].as_array().unwrap().iter();
    let found = buckets.map(|b| (b["key"].as_str().unwrap(), b["doc_count"].as_u64().unwrap()));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
}

#[tokio::test]
async fn whole_values_are_found_as_written_wherever_they_are_held() {
    let spellings: Vec<String> = SPELLINGS.map(str::to_owned).to_vec();
    for version in [2, 3] {
        let options = WriterOptions { version, ..WriterOptions::default() };
        for rows in [3, 60] {
            check_spellings(&spellings, rows, options.clone()).await;
        }
        // So many others that the column is larger than the part of the dictionaries that is asked.
        let others = (0..1_500u64).map(|n| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let values: Vec<String> = others.chain(spellings.clone()).collect();
        check_spellings(&values, 1_500, options).await;
    }
}

#[tokio::test]
async fn both_dictionaries_are_asked_at_once() {
    let document = |n: usize| json!({"n": n, "v": format!("Value{n}"), "w": format!("two words {n}")});
    let values = ["Value7", "two values"];
    let place = Place::with(&[(0..200).map(document).collect()]).await;
    let gate = Gate::new(&place.repository, 1);
    let place = place.through(Arc::clone(&gate) as _);
    let body = json!({"query": {"terms": {"v.keyword": values}}});
    let search = place.search(&body).unwrap();
    let mut answer = Box::pin(search.run());
    for _ in 0..1_000 {
        let poll =
            std::future::poll_fn(|cx| std::task::Poll::Ready(answer.as_mut().poll(cx).is_ready())).await;
        assert!(!poll, "only opening was answered");
        tokio::task::yield_now().await;
    }
    assert_eq!(gate.begun(), 3, "opening, then a block of each dictionary");
    gate.open();
    assert_eq!(numbers(&answer.await.unwrap()), [7]);
}

/// Documents of which each has an id, and a text with its own id and that of another.
fn with_ids(rows: usize) -> Vec<(String, String)> {
    // Some differ in their last byte alone, the others early.
    let id = |n: usize| match n % 3 {
        0 => format!("0123456789abcde{:04}", n % rows),
        _ => format!("{:016x}", (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    };
    let text = |n: usize| format!("took {} after /a/{}.html?x={}", id(n), id((n * 7 + 3) % rows), n % 5);
    (0..rows).map(|n| (id(n), text(n))).collect()
}

async fn check_ids(
    place: &Place,
    documents: &[(String, String)],
    query: &Value,
    holds: impl Fn(&str, &str) -> bool,
) {
    let rows = documents.iter().enumerate().filter(|(_, (id, text))| holds(id, text));
    let expected: Vec<i64> = rows.map(|(n, _)| n as i64).collect();
    let not = json!({"bool": {"must_not": [query]}});
    let aggs = json!({"ids": {"terms": {"field": "id.keyword", "size": 3}}, "not": {"filter": not}});
    let body = json!({"query": query, "size": 50, "sort": ["n"], "track_total_hits": true, "aggs": aggs});
    let answer = place.answer(&body).await;
    assert_eq!(numbers(&answer), expected[..expected.len().min(50)], "{query}");
    assert_eq!(answer.hits.total.unwrap().value, expected.len() as u64, "{query}");
    let aggregations = answer.aggregations.unwrap().to_value();
    assert_eq!(aggregations["not"]["doc_count"], 0, "{query}");
    let ids: BTreeSet<&str> = expected.iter().map(|n| documents[*n as usize].0.as_str()).collect();
    let buckets = aggregations["ids"]["buckets"].as_array().unwrap();
    assert_eq!(buckets.len(), ids.len().min(3), "{query}");
    let others = place.answer(&json!({"query": not, "size": 0, "track_total_hits": true})).await;
    assert_eq!(others.hits.total.unwrap().value, (documents.len() - expected.len()) as u64, "not {query}");
}

#[tokio::test]
async fn tokens_with_short_keys_are_found_counted_and_excluded_by_their_texts() {
    let documents = with_ids(400);
    let values = documents.iter().enumerate().map(|(n, (id, text))| json!({"n": n, "id": id, "text": text}));
    let place = Place::with(&[values.collect()]).await;
    for n in [0, 1, 2, 299, 398] {
        let id = documents[n].0.clone();
        let (shorter, start) = (id[..id.len() - 1].to_owned(), id[..5].to_owned());
        for wanted in
            [id.clone(), format!("{shorter}z"), format!("{id}0"), shorter, start, format!("/a/{id}.html")]
        {
            let has_token = |text: &str, token: &str| {
                let mut found = false;
                frostline_split::tokenize(text, |own| found |= own == token);
                found
            };
            let ask = |query: Value| (query, wanted.clone());
            let (query, id) = ask(json!({"match": {"id": wanted}}));
            check_ids(&place, &documents, &query, |own, _| own == id).await;
            let (query, token) = ask(json!({"term": {"id.keyword": wanted}}));
            check_ids(&place, &documents, &query, |own, _| own == token).await;
            let is_path = wanted.starts_with('/');
            let inside = wanted.trim_start_matches('/');
            let has = |text: &str| match is_path {
                true => text.contains(inside),
                false => has_token(text, inside),
            };
            check_ids(&place, &documents, &json!({"match": {"text": wanted}}), |_, text| has(text)).await;
            let everywhere = json!({"query_string": {"query": format!("\"{wanted}\"")}});
            check_ids(&place, &documents, &everywhere, |own, text| own == wanted || has(text)).await;
            let phrase = json!({"match_phrase": {"text": format!("took {wanted}")}});
            check_ids(&place, &documents, &phrase, |own, _| own == wanted).await;
            if is_path {
                continue;
            }
            let starts = |text: &str| {
                let mut found = false;
                frostline_split::tokenize(text, |own| found |= own.starts_with(&wanted));
                found
            };
            check_ids(&place, &documents, &json!({"prefix": {"text": wanted}}), |_, text| starts(text)).await;
            check_ids(&place, &documents, &json!({"prefix": {"id.keyword": wanted}}), |own, _| {
                own.starts_with(&wanted)
            })
            .await;
            for (pattern, field) in [("wildcard", "id"), ("wildcard", "id.keyword"), ("regexp", "id")] {
                let (any, one) = if pattern == "wildcard" { ("*", "?") } else { (".*", ".") };
                let query = json!({pattern: {field: format!("{one}{}{any}", &wanted[1..])}});
                let matches = |own: &str| own.len() >= wanted.len() && own[1..].starts_with(&wanted[1..]);
                check_ids(&place, &documents, &query, |own, _| matches(own)).await;
            }
        }
    }
}

#[tokio::test]
async fn an_id_that_is_absent_costs_a_page_at_most_and_nearly_always_none() {
    let id = |n: u64| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let document = |n| json!({"n": n, "id": id(n), "text": format!("{} is {}", n % 7, id(n + 1_000_000))});
    let place = Place::with(&[(1..3_000).map(document).collect()]).await;
    let reads = Recorded::new(&place.repository);
    let place = place.through(reads.clone());
    let ask = async |query: Value| {
        reads.take();
        let answer = place.answer(&json!({"query": query, "size": 0, "track_total_hits": true})).await;
        assert_eq!(answer.hits.total.unwrap().value, 0, "{query}");
        let pages = reads.take().into_iter().filter(|(share, _)| *share == Share::Column);
        let pages: Vec<_> = pages.flat_map(|(_, ranges)| ranges).collect();
        assert!(pages.len() <= 1, "{query} reads {pages:?}");
        pages.len()
    };
    let mut read_pages = 0;
    for absent in (5_000..5_150).map(id) {
        for query in [
            json!({"match": {"id": absent}}),
            json!({"term": {"id.keyword": absent}}),
            json!({"match": {"text": absent}}),
        ] {
            read_pages += ask(query).await;
        }
    }
    // Two hexadecimal digits more than what tells them apart: one in 256 of those that share so much.
    assert!(read_pages <= 3, "{read_pages} of 450");
    let nearly =
        id(77).chars().rev().skip(1).collect::<String>().chars().rev().chain(['z']).collect::<String>();
    assert_eq!(ask(json!({"match": {"id": nearly}})).await, 1);
}

/// Texts of words of which some are in nearly all rows, some in one of a hundred or a few less, some in one row.
fn wordy(rows: usize) -> Vec<Vec<String>> {
    let mut state = 11u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let words = ["a", "a", "a", "b", "B", "c", "value", "set", "東京", "a.b"];
    let joints = [" ", " ", ", ", ":\r\n", "-", "/"];
    let mut text = |n: usize| {
        let mut text = format!("{n:x}");
        for _ in 0..next(9) {
            text = format!("{text}{}{}", joints[next(joints.len())], words[next(words.len())]);
        }
        // One row in a hundred and one more, and one less.
        let hundredth = rows / 100;
        for (word, count) in [("often", hundredth + 1), ("seldom", hundredth - 1)] {
            if n % 97 < 2 && n / 97 * 2 + n % 97 < count {
                text = format!("{text} a {word} a");
            }
        }
        text
    };
    (0..rows).map(|n| if n % 7 == 0 { vec![text(n), text(n)] } else { vec![text(n)] }).collect()
}

const PHRASES: [&str; 22] = [
    "a a",
    "a b",
    "b a",
    "a a a",
    "a b a",
    "a b c",
    "c b a",
    "value set",
    "Value: SET",
    "value set a",
    "set value",
    "a.b",
    "a.b a.b",
    "b.a",
    "東京",
    "京東",
    "often a",
    "a often a",
    "seldom a",
    "a seldom",
    "a never",
    "a a a a a",
];

#[tokio::test]
async fn phrases_of_frequent_words_are_those_of_the_texts() {
    for lists in [false, true] {
        let texts: Vec<Vec<String>> =
            wordy(4_000).into_iter().map(|texts| if lists { texts } else { texts[..1].to_vec() }).collect();
        let value = |texts: &Vec<String>| if texts.len() > 1 { json!(texts) } else { json!(texts[0]) };
        let documents: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(n, texts)| json!({"n": n, "m": value(texts), "other": "a a"}))
            .collect();
        let with = WriterOptions { pairs_column_bytes_min: 0, ..WriterOptions::default() };
        for options in [with.clone(), WriterOptions::default(), WriterOptions { version: 2, ..with }] {
            let place = Place::written(&documents, options).await;
            for phrase in PHRASES {
                let in_text = |texts: &Vec<String>| texts.iter().any(|text| contains_phrase(text, phrase));
                let rows = texts.iter().enumerate().filter(|(_, texts)| in_text(texts));
                let expected: Vec<i64> = rows.map(|(n, _)| n as i64).collect();
                let quoted = json!({"query_string": {"query": format!("m:\"{phrase}\"")}});
                for query in [json!({"match_phrase": {"m": phrase}}), quoted] {
                    let body = json!({"query": query, "size": 30, "sort": ["n"], "track_total_hits": true});
                    let answer = place.answer(&body).await;
                    assert_eq!(numbers(&answer), expected[..expected.len().min(30)], "{query}");
                    assert_eq!(answer.hits.total.unwrap().value, expected.len() as u64, "{query}");
                    let not = json!({"bool": {"must_not": [query]}});
                    let answer =
                        place.answer(&json!({"query": not, "size": 0, "track_total_hits": true})).await;
                    assert_eq!(answer.hits.total.unwrap().value as usize, texts.len() - expected.len());
                }
            }
        }
    }
}

#[tokio::test]
async fn a_phrase_of_frequent_words_reads_no_text() {
    let document = |n: usize| {
        let twice = if n.is_multiple_of(50) { "value of value" } else { "value" };
        json!({"n": n, "m": format!("Registry {twice} set: {n:x}\r\nDetails: {}", n % 3), "k": if n.is_multiple_of(2) { "x y" } else { "x z" }})
    };
    let options = WriterOptions { pairs_column_bytes_min: 0, ..WriterOptions::default() };
    let place = Place::written(&(0..5_000).map(document).collect::<Vec<_>>(), options).await;
    let reads = Recorded::new(&place.repository);
    let place = place.through(reads.clone());
    let ask = async |phrase: &str, field: &str| {
        place.searcher.forget();
        reads.take();
        let query = json!({"match_phrase": {field: phrase}});
        let answer = place.answer(&json!({"query": query, "size": 0, "track_total_hits": true})).await;
        let taken = reads.take();
        let bytes = |share: Share| -> u64 {
            let of_share = taken.iter().filter(|(of, _)| *of == share).flat_map(|(_, ranges)| ranges);
            of_share.map(|range| range.end - range.start).sum()
        };
        (answer.hits.total.unwrap().value, bytes(Share::Column), bytes(Share::Index))
    };
    let (found, texts, _) = ask("registry value", "m").await;
    assert_eq!((found, texts), (5_000, 0));
    let (found, texts, _) = ask("set value", "m").await;
    assert_eq!((found, texts), (0, 0));
    // Where a word inside stands twice, the text tells.
    let (found, some_texts, index) = ask("Registry value set", "m").await;
    assert_eq!(found, 4_900);
    assert!(some_texts > 0 && index > 0);
    let (found, texts, _) = ask("of value set", "m").await;
    assert_eq!(found, 100);
    assert!(texts > 0);
    // Pairs are not asked of a field whose texts are in a dictionary page.
    let (found, texts, _) = ask("x y", "k").await;
    assert_eq!(found, 2_500);
    assert!(texts > 0);
}

/// Every kind of query, of fields of every type.
fn queries_of_every_kind() -> Vec<Value> {
    let fields = ["m", "k", "long", "big", "ip", "double", "at", "ok", "mixed", "list"];
    let mut queries = vec![
        json!({"range": {"long": {"gte": 5, "lt": 9}}}),
        json!({"range": {"long": {"gte": -1_000_000}}}),
        json!({"range": {"big": {"gt": "100000000000000000000003"}}}),
        json!({"range": {"ip": {"gte": "10.0.0.3", "lt": "10.0.0.9"}}}),
        json!({"range": {"k.keyword": {"gte": "host-3"}}}),
        json!({"range": {"at": {"gte": "2024-01-05"}}}),
        json!({"term": {"ip": "10.0.0.0/30"}}),
        json!({"terms": {"long": [3, 4, 77]}}),
        json!({"prefix": {"ip": "10.0.0.1"}}),
        json!({"prefix": {"long": "1"}}),
        json!({"prefix": {"m": "/api/v"}}),
        json!({"wildcard": {"m": "*ser?"}}),
        json!({"wildcard": {"long": "1*"}}),
        json!({"wildcard": {"k.keyword": "*-1*"}}),
        json!({"regexp": {"ip": "10\\..*7"}}),
        json!({"match_phrase": {"m": "for user"}}),
        json!({"match_phrase_prefix": {"m": "for us"}}),
        json!({"match_bool_prefix": {"m": "took ro"}}),
        json!({"match": {"m": {"query": "user root 7", "minimum_should_match": 2}}}),
        json!({"multi_match": {"query": "7"}}),
        json!({"query_string": {"query": "root OR 10.0.0.5 OR host-2"}}),
        json!({"query_string": {"query": "\"user root\""}}),
        json!({"query_string": {"query": "us*"}}),
    ];
    for field in fields {
        queries.push(json!({"exists": {"field": field}}));
        for value in
            ["7", "true", "root", "host-3", "10.0.0.5", "2024-01-07", "100000000000000000000007", "7.5"]
        {
            // What is no date is refused in a field of dates.
            for kind in ["term", "match"].iter().filter(|_| field != "at" || value.starts_with("2024")) {
                queries.push(json!({*kind: {field: value}}));
            }
        }
    }
    let not: Vec<Value> = queries
        .iter()
        .step_by(3)
        .map(|query| json!({"bool": {"must_not": [query], "filter": [{"match": {"m": "took"}}]}}))
        .collect();
    queries.extend(not);
    queries
}

/// A document with values of every type, most of which many documents have.
fn document_of_every_type(n: usize) -> String {
    let user = ["root", "alice", "Root user"][n % 3];
    let mixed = if n.is_multiple_of(2) { json!(n % 9) } else { json!(format!("text {}", n % 9)) };
    let document = json!({
        "n": n, "m": format!("took {n} for user {user} at /api/v1/users?id={}", n % 8), "k": format!("host-{}", n % 5),
        "long": n as i64 % 20 - 2, "big": n % 10, "ip": format!("10.0.0.{}", n % 12),
        "double": n as f64 % 11.0 + 0.5, "at": format!("2024-01-{:02}", 1 + n % 9), "ok": n.is_multiple_of(4), "mixed": mixed,
        "list": [format!("a{}", n % 7), "root"],
    });
    // More than 64 bits hold.
    document.to_string().replace("\"big\":", "\"big\":10000000000000000000000")
}

#[tokio::test]
async fn fields_without_an_index_are_searched_by_their_values() {
    let documents: Vec<String> = (0..200).map(document_of_every_type).collect();
    let names = ["m", "k", "long", "big", "ip", "double", "at", "ok", "mixed", "list"];
    // A field of no declared type, so that its values have all types.
    let field = json!({"declared": null, "multi_fields": {}, "readings": {}, "unindexed": true});
    let mut mapping = json!(Mapping::dynamic());
    names.iter().for_each(|name| mapping["fields"][*name] = field.clone());
    let mapping: Mapping = serde_json::from_value(mapping).unwrap();
    let options = WriterOptions::default;
    let place = async |mapping: Mapping, options: WriterOptions| {
        Place::lines_at("memory:", std::slice::from_ref(&documents), mapping, options).await
    };
    let indexed = place(Mapping::dynamic(), options()).await;
    let unindexed = place(mapping.clone(), options()).await;
    // Without columns of their own.
    let dynamic = place(mapping.with_column_budget(3), options()).await;
    let (split, meter) = (&unindexed.index.splits()[0], Meter::default());
    let open = unindexed.searcher.open(split, std::future::ready(None), &meter).await.unwrap();
    let types: BTreeSet<ValueType> =
        open.split.fields().filter(|field| !field.is_indexed).map(|field| field.ty).collect();
    // Booleans are always indexed.
    assert_eq!(types.len(), ValueType::ALL.len() - 1);
    for query in queries_of_every_kind() {
        let aggs = json!({"k": {"terms": {"field": "k.keyword"}}, "long": {"stats": {"field": "long"}}});
        let body =
            json!({"query": query, "size": 250, "sort": ["n"], "track_total_hits": true, "aggs": aggs});
        let expected = indexed.answer(&body).await;
        for place in [&unindexed, &dynamic] {
            let answer = place.answer(&body).await;
            assert_eq!(numbers(&answer), numbers(&expected), "{query}");
            assert_eq!(json!(answer.aggregations), json!(expected.aggregations), "{query}");
        }
    }
}

/// A split of these documents whose lists are all stored.
async fn with_stored_lists(documents: &[String]) -> Place {
    let options = WriterOptions { list_column_bytes_max: 0, list_column_part: 0, ..WriterOptions::default() };
    Place::with_lines_written(&[documents.to_vec()], options).await
}

/// Whether lists of the split are left to its columns.
async fn leaves_lists(place: &Place) -> bool {
    let (split, meter) = (&place.index.splits()[0], Meter::default());
    place.searcher.open(split, std::future::ready(None), &meter).await.unwrap().split.leaves_lists()
}

#[tokio::test]
async fn lists_in_columns_answer_as_stored_lists() {
    let documents: Vec<String> = (0..1_300)
        .map(|n| {
            let agent = ["Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "Mozilla/5.0 (Windows NT 10.0)"];
            let tag = ["new", "old one"][n % 2];
            let rest = json!({"agent": agent[n * n % 3], "tags": [tag, "one old"]});
            let document = document_of_every_type(n);
            format!("{},{}", document.trim_end_matches('}'), rest.to_string().trim_start_matches('{'))
        })
        .collect();
    let stored = with_stored_lists(&documents).await;
    assert!(!leaves_lists(&stored).await);
    let form = frostline_split::DocumentForm::Rendered;
    let rendered = WriterOptions { documents: form, group_rows_max: 200, ..WriterOptions::default() };
    let mut places = Vec::new();
    for options in [WriterOptions::default(), rendered] {
        let place = Place::with_lines_written(std::slice::from_ref(&documents), options).await;
        assert!(leaves_lists(&place).await);
        places.push(place);
    }
    let mut queries = queries_of_every_kind();
    for (field, text) in [
        ("agent", "mozilla/5.0 (x11"),
        ("agent", "linux x86_64"),
        ("agent", "curl never"),
        ("tags", "old one"),
    ] {
        queries.push(json!({"match_phrase": {field: text}}));
        queries.push(json!({"match_phrase_prefix": {field: text}}));
        queries.push(json!({"match": {field: text}}));
        queries.push(json!({"query_string": {"query": format!("\"{text}\"")}}));
    }
    queries.extend([
        json!({"terms": {"agent.keyword": ["curl/8.5.0", "never"]}}),
        json!({"prefix": {"agent.keyword": "Moz"}}),
        json!({"prefix": {"agent": "cur"}}),
        json!({"wildcard": {"agent.keyword": "*x86*"}}),
        json!({"wildcard": {"agent": "*(x1*"}}),
        json!({"regexp": {"tags": "o.*"}}),
        json!({"range": {"agent.keyword": {"lt": "N"}}}),
        json!({"bool": {"filter": [{"match": {"agent": "x11"}}, {"term": {"tags.keyword": "old one"}}],
            "must_not": [{"range": {"long": {"gte": 3, "lte": 9}}}]}}),
    ]);
    for query in queries {
        let aggs = json!({"k": {"terms": {"field": "k.keyword"}}, "long": {"stats": {"field": "long"}}});
        let body = json!({"query": query, "size": 9, "sort": ["n"], "track_total_hits": true, "aggs": aggs});
        let expected = stored.answer(&body).await;
        for place in &places {
            let answer = place.answer(&body).await;
            assert_eq!(numbers(&answer), numbers(&expected), "{query}");
            assert_eq!(
                answer.hits.total.unwrap().value,
                expected.hits.total.as_ref().unwrap().value,
                "{query}"
            );
            assert_eq!(json!(answer.aggregations), json!(expected.aggregations), "{query}");
        }
    }
}

#[tokio::test]
async fn a_list_in_a_column_takes_no_more_reads_than_a_stored_one() {
    let documents: Vec<String> = (0..1_300).map(document_of_every_type).collect();
    let stored = with_stored_lists(&documents).await;
    let left = Place::with_lines_written(&[documents], WriterOptions::default()).await;
    let of_stored = Recorded::new(&stored.repository);
    let of_left = Recorded::new(&left.repository);
    let (stored, left) = (stored.through(of_stored.clone()), left.through(of_left.clone()));
    let all = |reads: &[(Share, Vec<frostline_base::ByteRange>)], share: Share| {
        reads.iter().filter(|(of, _)| *of == share).map(|(_, ranges)| ranges.len()).sum::<usize>()
    };
    // What is asked, and from how many fields.
    for (query, fields) in [
        (json!({"term": {"k.keyword": "host-3"}}), 1),
        (json!({"terms": {"k.keyword": ["host-3", "host-4", "never"]}}), 1),
        (json!({"match": {"k": "host 3"}}), 1),
        (json!({"match_phrase": {"k": "host 3"}}), 1),
        (json!({"term": {"big": "100000000000000000000007"}}), 1),
        (json!({"prefix": {"list": "a"}}), 1),
        (json!({"query_string": {"query": "k:3 AND list:a3 AND big:100000000000000000000003"}}), 3),
    ] {
        // The digest does not answer both at once.
        let both = json!({"bool": {"filter": [query, {"match": {"m": "took"}}]}});
        let body = json!({"query": both, "size": 0, "track_total_hits": true});
        of_stored.take();
        of_left.take();
        let expected = stored.answer(&body).await.hits.total.unwrap().value;
        assert_eq!(left.answer(&body).await.hits.total.unwrap().value, expected, "{query}");
        let (of_stored, of_left) = (of_stored.take(), of_left.take());
        assert!(of_left.len() <= of_stored.len(), "{query}: {of_left:?}, {of_stored:?}");
        assert_eq!(all(&of_left, Share::Column), fields, "{query}: {of_left:?}");
        // Only blocks of dictionaries.
        assert!(all(&of_left, Share::Index) < all(&of_stored, Share::Index), "{query}");
    }
}
