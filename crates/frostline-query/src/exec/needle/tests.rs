use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::read::segments::OpenSegments;
use crate::testing::{NOW_US, Place, numbers};
use crate::{Search, SearchOptions, Searcher, Settings, SplitCost, Sql, run_plan};

const SPLITS: usize = 12;

/// Documents with an id each, a host that two neighbouring splits share, and a word that all have.
fn documents() -> Vec<Vec<Value>> {
    let document = |split: usize, row: usize| {
        json!({
            "n": split * 5 + row, "id": format!("id{split}x{row}"), "host": format!("h{}", split / 2),
            "msg": format!("request {row} done"), "load": row as f64 / 4.0,
            "@timestamp": 1_700_000_000_000_u64 + (split * 100 + row) as u64 * 1_000,
        })
    };
    (0..SPLITS).map(|split| (0..5).map(|row| document(split, row)).collect()).collect()
}

/// One segment of all splits.
async fn covered() -> Place {
    Place::with(&documents()).await.with_segments(&[(0..SPLITS).collect()]).await
}

fn term(field: &str, value: &str) -> Value {
    json!({ "term": { field: value } })
}

/// What became of the splits: ruled out by time, by needle, opened, opened in vain.
fn fates(splits: &SplitCost) -> [u64; 4] {
    let fates = [splits.pruned_time, splits.pruned_needle, splits.opened, splits.opened_empty];
    assert_eq!(splits.live, splits.pruned() + splits.opened + splits.answered_digest, "{splits:?}");
    fates
}

async fn sql(place: &Place, query: &str) -> (Vec<Value>, crate::QueryCost) {
    let sql = Sql::new(&place.searcher, std::slice::from_ref(&place.index)).unwrap();
    let answer = sql.run(query).await.unwrap();
    (answer.rows().map(|row| row.unwrap().swap_remove(0)).collect(), answer.cost)
}

#[tokio::test]
async fn what_is_nowhere_costs_a_page_and_opens_no_split() {
    let place = covered().await;
    let absent = term("id.keyword", "id99x0");
    for body in [
        json!({"query": absent}),
        json!({"query": absent, "size": 0, "track_total_hits": true}),
        json!({"query": absent, "sort": [{"n": "asc"}], "track_total_hits": false}),
        json!({"query": absent, "aggs": {"hosts": {"terms": {"field": "host.keyword"}}}}),
        json!({"query": {"query_string": {"query": "msg:absent AND host:h1"}}}),
        json!({"query": {"match_phrase": {"msg": "request missing"}}}),
        json!({"query": {"bool": {"filter": [absent, {"range": {"n": {"gte": 3}}}]}}}),
        json!({"query": {"query_string": {"query": "nothing"}}}),
    ] {
        place.searcher.left_by_needle.forget();
        let answer = place.answer(&body).await;
        assert!(answer.hits.hits.is_empty() && answer.hits.total.is_none_or(|total| total.value == 0));
        assert_eq!((answer.cost.gets, fates(&answer.cost.splits)), (1, [0, 12, 0, 0]), "{body}");
        assert_eq!((answer.shards.total, answer.shards.successful, answer.shards.skipped), (12, 12, 12));
    }
    for query in [
        "select n from logs where id = 'id99x0'",
        "select count(*) from logs where match(msg, 'absent') and n > 3",
        "select host, count(*) from logs where id in ('a', 'b') group by host",
        "select n from logs where match(_source, 'nothing') order by \"@timestamp\" desc limit 3",
    ] {
        place.searcher.left_by_needle.forget();
        let cost = sql(&place, query).await.1;
        assert_eq!((cost.gets, fates(&cost.splits)), (1, [0, 12, 0, 0]), "{query}");
    }
}

#[tokio::test]
async fn what_segments_leave_is_remembered_of_whole_answers() {
    let place = Place::with(&documents()).await.with_segments(&[(0..6).collect(), (6..12).collect()]).await;
    let absent = |field: &str| json!({"query": term(field, "id99x0"), "track_total_hits": false});
    let asked = async |place: &Place, field: &str| {
        let cost = place.answer(&absent(field)).await.cost;
        (cost.gets, fates(&cost.splits))
    };
    assert_eq!(asked(&place, "id.keyword").await, (2, [0, 12, 0, 0]));
    assert_eq!(asked(&place, "id.keyword").await, (0, [0, 12, 0, 0]), "the same filter");
    assert_eq!(asked(&place, "msg").await, (2, [0, 12, 0, 0]), "another one");
    place.damage(&place.segments()[0].object, 20..40).await;
    for _ in 0..2 {
        let (gets, fates) = asked(&place, "host").await;
        assert!(
            gets > 2 && fates[1] == 6,
            "a page that cannot be read is asked for each time: {gets} {fates:?}"
        );
    }
    let fewer = place.without_segment(0).await;
    assert_eq!(asked(&fewer, "id.keyword").await.1, [0, 6, 6, 6], "another version of the index");
}

#[tokio::test]
async fn only_the_splits_that_have_it_are_opened() {
    let place = covered().await;
    let alone = Place::with(&documents()[6..8]).await;
    for body in [
        json!({"query": term("host.keyword", "h3")}),
        json!({"query": term("host", "h3"), "size": 0, "aggs": {"load": {"avg": {"field": "load"}}}}),
        json!({"query": {"terms": {"id.keyword": ["id6x1", "id7x0", "id99x9"]}}}),
        json!({"query": {"bool": {"should": [term("id", "id6x4"), term("id", "id7x4")]}}}),
    ] {
        let (answer, expected) = (place.answer(&body).await, alone.answer(&body).await);
        assert_eq!(numbers(&answer), numbers(&expected), "{body}");
        assert_eq!(json!(answer.aggregations), json!(expected.aggregations));
        assert_eq!(fates(&answer.cost.splits), [0, 10, 2, 0], "{body}");
        assert_eq!(answer.cost.gets, 1 + expected.cost.gets, "{body}");
        place.searcher.forget();
        alone.searcher.forget();
    }
    for query in [
        "select n from logs where id in ('id6x1', 'id7x0') order by n",
        "select sum(n) from logs where match(host, 'h3') and msg like '%done'",
    ] {
        let ((found, cost), (expected, cost_alone)) = (sql(&place, query).await, sql(&alone, query).await);
        assert_eq!(found, expected, "{query}");
        assert_eq!((fates(&cost.splits), cost.gets), ([0, 10, 2, 0], 1 + cost_alone.gets), "{query}");
        place.searcher.forget();
        alone.searcher.forget();
    }
}

#[tokio::test]
async fn a_word_of_every_split_rules_nothing_out_and_a_false_split_is_told() {
    let place = covered().await;
    let answer = place.answer(&json!({"query": {"match": {"msg": "done"}}, "size": 0})).await;
    assert_eq!((answer.hits.total.unwrap().value, fates(&answer.cost.splits)), (60, [0, 0, 12, 0]));
    // Both are in the same splits, never in one document.
    let both = json!({"query": {"bool": {"filter": [term("id", "id3x1"), term("id", "id3x2")]}}});
    let answer = place.answer(&both).await;
    assert!(answer.hits.hits.is_empty());
    assert_eq!(fates(&answer.cost.splits), [0, 11, 1, 1]);
}

#[tokio::test]
async fn time_rules_out_first_and_no_segment_of_other_splits_is_asked() {
    let place = Place::with(&documents()).await.with_segments(&[(0..6).collect(), (6..12).collect()]).await;
    let since = |split: usize| 1_700_000_000_000_u64 + (split * 100) as u64 * 1_000;
    let within = json!({"range": {"@timestamp": {"gte": since(1), "lt": since(4)}}});
    let body = json!({"query": {"bool": {"filter": [within, term("host.keyword", "h1")]}}, "size": 0});
    let answer = place.answer(&body).await;
    // A page of the first segment alone. Of the two splits that are left the digests count.
    assert_eq!(answer.hits.total.unwrap().value, 10);
    let splits = answer.cost.splits;
    assert_eq!((splits.pruned_time, splits.pruned_needle, splits.live), (9, 1, 12));
}

#[tokio::test]
async fn splits_that_a_field_rules_out_are_not_said_to_be_ruled_out_by_time() {
    let place = Place::with(&documents()).await;
    let since = json!({"range": {"@timestamp": {"gte": 1_700_000_100_000_u64}}});
    for filter in [vec![term("hots", "h1")], vec![term("hots", "h1"), since.clone()]] {
        let body = json!({"query": {"bool": {"filter": filter}}});
        let answer = place.answer(&body).await;
        let splits = answer.cost.splits;
        assert_eq!((splits.pruned_query, splits.pruned_time, splits.live), (12, 0, 12), "{body}");
        assert_eq!(answer.shards.skipped, 12);
        let explained = place.search(&body).unwrap().explain().await.unwrap();
        assert_eq!((explained.pruned_query, explained.splits_opened_max), (12, 0));
        assert_eq!(explained.warnings, answer.warnings);
    }
    let body = json!({"query": {"bool": {"filter": [term("host.keyword", "h1"), since]}}});
    let splits = place.answer(&body).await.cost.splits;
    assert_eq!((splits.pruned_query, splits.pruned_time), (0, 1));
}

#[tokio::test]
async fn what_names_no_term_reads_no_page() {
    let (place, bare) = (covered().await, Place::with(&documents()).await);
    for query in [
        json!({"match_all": {}}),
        json!({"range": {"n": {"gte": 30}}}),
        json!({"prefix": {"id.keyword": "id-3"}}),
        json!({"bool": {"must_not": [term("id", "id3x1")]}}),
        json!({"bool": {"should": [term("id", "id3x1"), {"exists": {"field": "load"}}]}}),
    ] {
        let body = json!({"query": query, "size": 0, "track_total_hits": true});
        let (answer, expected) = (place.answer(&body).await, bare.answer(&body).await);
        assert_eq!(answer.hits.total.unwrap().value, expected.hits.total.unwrap().value);
        assert_eq!(answer.cost.gets, expected.cost.gets, "{query}");
        assert_eq!(answer.cost.splits.pruned_needle, 0);
        place.searcher.forget();
        bare.searcher.forget();
    }
    // All documents are wanted.
    let body = json!({"size": 0, "query": term("id", "id3x1"), "aggs": {"all": {"global": {}, "aggs": {"n": {"max": {"field": "n"}}}}}});
    let answer = place.answer(&body).await;
    assert_eq!(answer.aggregations.unwrap().to_value()["all"]["n"]["value"], 59.0);
    assert_eq!(answer.cost.splits.pruned_needle, 0);
}

#[tokio::test]
async fn asking_has_to_pay() {
    let absent = json!({"query": term("id.keyword", "id99x0")});
    let asked = async |splits: usize, segments: &[Vec<usize>]| {
        let bare = Place::with(&documents()[..splits]).await;
        let gets_of_a_split = bare.answer(&absent).await.cost.gets / splits as u64;
        let place = bare.with_segments(segments).await.set(Settings::default());
        let explained = place.search(&absent).unwrap().explain().await.unwrap();
        let cost = place.answer(&absent).await.cost;
        assert_eq!(cost.gets, explained.needle_pages + gets_of_a_split * cost.splits.opened);
        assert!(gets_of_a_split >= OPENING_REQUESTS as u64);
        assert_eq!(explained.needle_splits, cost.splits.pruned_needle);
        assert_eq!((explained.splits_live, explained.splits_opened_max), (splits as u64, splits as u64));
        (explained.needle_pages, explained.needle_splits)
    };
    // A segment of one split is as dear as opening it, and so is asking for a split that is likely to have it.
    assert_eq!(asked(1, &[vec![0]]).await, (0, 0));
    assert_eq!(asked(9, &[vec![0], vec![1], vec![2]]).await, (0, 0));
    assert_eq!(asked(2, &[vec![0, 1]]).await, (1, 2));
    assert_eq!(asked(12, &[vec![4], vec![0, 1], (5..12).collect()]).await, (2, 9));
}

/// Time leaves one split of a segment, or one of each of two.
#[tokio::test]
async fn asking_has_to_pay_for_the_splits_that_time_leaves() {
    let place = Place::with(&documents()).await.with_segments(&[(0..6).collect(), (6..12).collect()]).await;
    let since = |split: usize| 1_700_000_000_000_u64 + (split * 100) as u64 * 1_000;
    for (first, end, expected) in [(2, 3, (0, 0)), (2, 4, (1, 2)), (5, 7, (0, 0)), (5, 8, (2, 3))] {
        let within = json!({"range": {"@timestamp": {"gte": since(first), "lt": since(end)}}});
        let body = json!({"query": {"bool": {"filter": [within, term("id.keyword", "id99x0")]}}});
        let explained = place.search(&body).unwrap().explain().await.unwrap();
        assert_eq!((explained.needle_pages, explained.needle_splits), expected, "{first}..{end}");
        assert_eq!(place.answer(&body).await.cost.splits.pruned_needle, expected.1);
    }
}

/// Splits of so many words that a segment of two of them has several pages.
#[tokio::test]
async fn a_segment_is_not_asked_whose_pages_outnumber_the_requests_of_its_splits() {
    let words = |split: usize, row: usize| -> String {
        (0..100).map(|word| format!("w{split}x{row}x{word} ")).collect()
    };
    let split = |split| (0..400).map(|row| json!({"n": row, "msg": words(split, row)})).collect();
    let groups: Vec<Vec<Value>> = (0..5).map(split).collect();
    let place = Place::with(&groups).await.with_segments(&[vec![0, 1], vec![2, 3, 4]]).await;
    let indices = std::slice::from_ref(&place.index);
    let (open, meter) = (place.searcher.segments_of(indices, &Meter::default()).await, Meter::default());
    let apart = apart(&open);
    let asked = async |words: usize| {
        let filter = Filter::And(apart[..words].iter().map(|word| match_word(word)).collect());
        let question = Question::of(
            &place.searcher,
            indices,
            &Splits::of(&place.searcher, indices),
            Terms::of(&filter),
            &meter,
        )
        .await;
        question.map(|question| (question.pages(), question.splits()))
    };
    assert_eq!(asked(1).await, Some((2, 5)));
    assert_eq!(asked(3).await, Some((6, 5)));
    // Four pages of the first segment would save the four requests of its splits at best.
    assert_eq!(asked(4).await, None);
    assert_eq!(meter.cost().gets, 0, "the segments were open");
}

fn match_word(word: &str) -> Filter {
    let (text, minimum) = (word.to_owned(), crate::filter::Minimum::All);
    Filter::Match { field: None, text, minimum, prefix_last: false }
}

/// Words whose pages differ in every segment.
fn apart(open: &OpenSegments) -> Vec<String> {
    let (mut words, mut seen) = (Vec::new(), BTreeSet::new());
    for word in (0..1_000).map(|n| format!("absent{n}")) {
        let term = open.key.hash(frostline_needle::Term::Token(&word));
        let segments = open.of_indices.iter().flat_map(|of| &of.segments);
        let pages: Vec<(usize, u64)> =
            (0..).zip(segments).map(|(at, (_, segment))| (at, segment.page(term).unwrap().start)).collect();
        if pages.iter().all(|page| !seen.contains(page)) {
            seen.extend(pages);
            words.push(word);
        }
    }
    words
}

#[tokio::test]
async fn a_damaged_or_missing_page_keeps_the_splits_of_its_segment() {
    let segments: [Vec<usize>; 2] = [(0..6).collect(), (6..12).collect()];
    let body = json!({"query": term("host.keyword", "h3")});
    let damaged = Place::with(&documents()).await.with_segments(&segments).await;
    damaged.damage(&damaged.segments()[0].object, 20..40).await;
    let missing = Place::with(&documents()).await.with_segments(&segments).await;
    missing.repository.delete([&missing.segments()[0].object.key]).await.unwrap();
    for (what, place) in [("damaged", damaged), ("missing", missing)] {
        let answer = place.answer(&body).await;
        assert_eq!(numbers(&answer), [39, 38, 37, 36, 35, 34, 33, 32, 31, 30], "{what}");
        assert!(!answer.is_partial());
        let [_, needle, opened, empty] = fates(&answer.cost.splits);
        // All of one segment, and two of the other where they are not of the same.
        assert!(
            needle == 4 && opened == 8 && empty == 6 || needle == 6 && opened == 6 && empty == 4,
            "{what}"
        );
        let (found, cost) = sql(&place, "select count(*) from logs where match(host, 'h3')").await;
        assert_eq!(found, [json!(10)], "{what}");
        assert_eq!(cost.splits.pruned_needle, needle);
    }
}

#[tokio::test]
async fn plans_carry_the_splits_that_are_left_and_what_that_cost() {
    let queries = [
        "select count(*) from logs where id = 'id6x1'",
        "select n from logs where match(host, 'h3') order by n",
    ];
    let bodies =
        [json!({"query": term("host.keyword", "h3")}), json!({"query": term("id", "id6x1"), "size": 0})];
    let (mut fates_of, mut gets) = (Vec::new(), Vec::new());
    for (groups, through_bytes) in [(1, false), (1, true), (3, false), (3, true)] {
        let place = covered().await.set(Settings { groups, through_bytes, ..Settings::default() });
        let mut costs = Vec::new();
        for body in &bodies {
            costs.push(place.answer(body).await.cost);
        }
        for query in queries {
            costs.push(sql(&place, query).await.1);
        }
        fates_of.push(costs.iter().map(|cost| fates(&cost.splits)).collect::<Vec<_>>());
        gets.push(costs.iter().map(|cost| cost.gets).collect::<Vec<_>>());
    }
    assert_eq!(fates_of[0].iter().map(|[_, needle, ..]| *needle).collect::<Vec<_>>(), [10, 11, 11, 10]);
    assert!(fates_of.iter().all(|fates| *fates == fates_of[0]), "{fates_of:?}");
    assert!(gets[0] == gets[1] && gets[2] == gets[3], "{gets:?}");

    // A process that has opened no segment runs them, and opens no other split.
    let place = covered().await;
    let elsewhere = Searcher::new(&place.repository, Arc::new(place.repository.clone()), Settings::default());
    let plan = place.search(&bodies[0]).unwrap().plan_bytes().await.unwrap();
    let found = crate::exec::found::Found::read(&run_plan(&elsewhere, &plan).await.unwrap()).unwrap();
    assert_eq!((found.report.counts.opened, found.report.counts.empty, found.report.matched), (2, 0, 10));
}

#[tokio::test]
async fn several_indices_are_asked_at_once() {
    let place = covered().await;
    let other = |document: &Value| {
        let mut other = document.clone();
        other["n"] = json!(document["n"].as_u64().unwrap() + 1_000);
        // Another type, and a host that the first index has not.
        other["load"] = json!("much");
        other["host"] = json!(format!("x{}", document["host"].as_str().unwrap()));
        other
    };
    let others: Vec<Vec<Value>> = documents().iter().map(|split| split.iter().map(other).collect()).collect();
    let beside = place.beside("others", &others[..8]).await.with_segments(&[(0..8).collect()]).await;
    let uncovered = place.beside("more", &[vec![json!({"n": 7, "id": "id99x0"})]]).await;
    let indices = [&place, &beside, &uncovered].map(|place| Arc::clone(&place.index));
    let options = SearchOptions { now_us: NOW_US, ..SearchOptions::default() };
    let search = |query: Value| {
        let body = json!({"query": query, "sort": [{"n": "asc"}]}).to_string();
        Search::new(&place.searcher, &indices, body.as_bytes(), &options).unwrap()
    };
    for (query, expected, needle) in [
        (term("id.keyword", "id3x1"), vec![16, 1_016], 11 + 7),
        (term("id.keyword", "id99x0"), vec![7], 12 + 8),
        (json!({"query_string": {"query": "xh2"}}), (1_020..1_030).collect(), 12 + 6),
        (json!({"query_string": {"query": "load:much AND id:\"id1x1\""}}), vec![1_006], 12 + 7),
    ] {
        let answer = search(query.clone()).run().await.unwrap();
        assert_eq!(numbers(&answer), expected, "{query}");
        let splits = answer.cost.splits;
        assert_eq!((splits.live, splits.pruned_needle), (21, needle), "{query}");
    }
    let explained = search(term("id", "id3x1")).explain().await.unwrap();
    assert_eq!((explained.needle_pages, explained.needle_splits, explained.splits_opened_max), (2, 20, 21));
}

#[tokio::test]
async fn pages_of_a_version_are_found_by_the_segments_of_that_version() {
    let place = covered().await;
    let sort = json!([{"@timestamp": "desc"}, {"_doc": "asc"}]);
    let mut body = json!({"query": {"terms": {"host.keyword": ["h1", "h4"]}}, "size": 6, "sort": sort});
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let answer = place.answer(&body).await;
        assert_eq!(answer.cost.splits.pruned_needle, 8);
        let Some(last) = answer.hits.hits.last() else { break };
        body["search_after"] = json!(last.sort);
        found.extend(numbers(&answer));
        pages += 1;
    }
    assert_eq!((pages, found), (4, (40..50).rev().chain((10..20).rev()).collect()));
}

/// Segments that cover some splits, splits that are gone, and splits twice.
#[tokio::test]
async fn segments_that_fit_the_index_badly_change_no_answer() {
    let body = |n: usize| json!({"query": term("id", &format!("id{}x{}", n / 5, n % 5))});
    let cover: [&[Vec<usize>]; 5] = [
        &[],
        &[vec![3, 4, 5]],
        &[(0..12).collect(), (6..12).collect()],
        &[vec![0, 2, 4, 6, 8, 10], vec![1, 3]],
        &[(0..12).rev().collect()],
    ];
    for segments in cover {
        let place = Place::with(&documents()).await.with_segments(segments).await;
        let covered: BTreeSet<usize> = segments.iter().flatten().copied().collect();
        for n in [0, 17, 31, 59] {
            let answer = place.answer(&body(n)).await;
            assert_eq!(numbers(&answer), [n as i64]);
            let others = covered.iter().filter(|split| **split != n / 5).count() as u64;
            assert_eq!(answer.cost.splits.pruned_needle, others, "{segments:?} {n}");
        }
    }
}

#[tokio::test]
async fn what_segments_leave_is_kept_with_the_partial_answers() {
    let place = Place::with(&documents()).await.with_segments(&[(0..6).collect(), (6..12).collect()]).await;
    let folder = tempfile::tempdir().unwrap();
    let results = Arc::new(Results::open(folder.path(), 1 << 20).unwrap());
    let (query, other) = (term("host", "h3"), term("host", "h4"));
    // As a process that begins.
    let asked = async |place: &Place, body: Value| {
        place.searcher.forget();
        let options =
            SearchOptions { now_us: NOW_US, results: Some(Arc::clone(&results)), ..SearchOptions::default() };
        let indices = std::slice::from_ref(&place.index);
        let search = Search::new(&place.searcher, indices, body.to_string().as_bytes(), &options).unwrap();
        let answer = search.run().await.unwrap();
        let cost = &answer.cost;
        ((cost.gets, cost.opening.gets), answer.hits.total.unwrap().value, cost.splits.pruned_needle)
    };
    let load = |query: &Value| json!({"size": 0, "query": query, "aggs": {"load": {"percentiles": {"field": "load"}}}});
    let (first, total, needle) = asked(&place, load(&query)).await;
    assert!(first.0 > 2 && first.1 == 2, "{first:?}");
    assert_eq!((total, needle), (10, 10));
    assert_eq!(asked(&place, load(&query)).await, ((0, 0), 10, 10));
    assert!(asked(&place, load(&other)).await.0.0 > 2);
    // Hits alone are not kept, nor what segments leave of other splits.
    for _ in 0..2 {
        let hits = asked(&place, json!({"query": query, "track_total_hits": true})).await;
        assert!(hits.0.1 == 2 && hits.2 == 10, "{hits:?}");
    }
    let fewer = place.without_segment(0).await;
    let (gets, total, needle) = asked(&fewer, load(&query)).await;
    assert!(gets.1 == 1 && total == 10 && (needle == 4 || needle == 6), "{gets:?} {needle}");
    // The answer of a damaged segment is not kept.
    fewer.damage(&fewer.segments()[0].object, 20..40).await;
    for _ in 0..2 {
        let damaged = asked(&fewer, load(&other)).await;
        assert_eq!((damaged.0.1, damaged.1, damaged.2), (1, 10, 0));
    }
}
