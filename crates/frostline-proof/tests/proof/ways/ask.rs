//! One question in every way.

use frostline_base::{Error, chain};
use serde_json::{Value, json};

use super::aggregations::comparable;
use super::oracle::{Answer, Oracle};
use super::places::{Place, Places};
use super::{questions, sql};

/// Pages that paging to the end may take.
const PAGES_MAX: usize = 2_000;

/// One way to an answer that is not what the oracle says.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    pub(crate) way: String,
    pub(crate) asked: String,
    pub(crate) expected: Value,
    pub(crate) got: Value,
}

impl Wrong {
    /// Why the engine refused the question: the message up to the first name or number in it.
    pub(crate) fn refusal(&self) -> Option<&str> {
        let message = self.got.get("error")?.as_str().unwrap_or_default();
        message.split(|c: char| c == '[' || c == '`' || c.is_ascii_digit()).next()
    }
}

/// The ways in which a question is answered wrongly; an `Err` where the oracle cannot answer it.
pub(crate) async fn disagreement(oracle: &Oracle, places: &Places, question: &Value) -> Answer<Vec<Wrong>> {
    let mut wrong = Vec::new();
    for place in &places.all {
        let asked = match question.get("search") {
            Some(body) => search(oracle, place, body).await?,
            None => sql_query(oracle, place, &question["sql"]).await?,
        };
        wrong.extend(asked);
    }
    Ok(wrong)
}

impl Place {
    /// Asks a question and forgets the answer.
    pub(crate) async fn ask(&self, question: &Value) -> Result<(), Error> {
        match question.get("search") {
            Some(body) => self.search(&engine_body(body)).await.map(drop),
            None => match sql::write(&question["sql"]) {
                Ok(query) => self.sql(&query).await.map(drop),
                Err(_) => Ok(()),
            },
        }
    }
}

/// The body as the engine takes it: what is to be written as a query string is.
pub(crate) fn engine_body(body: &Value) -> Value {
    match body {
        Value::Object(object) => match (object.len(), object.get("written")) {
            (1, Some(query)) => {
                // What lost its written form on the way to being small is asked as it is.
                questions::write(query)
                    .map_or_else(|| engine_body(query), |text| json!({"query_string": {"query": text}}))
            }
            _ => object.iter().map(|(key, value)| (key.clone(), engine_body(value))).collect(),
        },
        Value::Array(items) => items.iter().map(engine_body).collect(),
        other => other.clone(),
    }
}

async fn search(oracle: &Oracle, place: &Place, body: &Value) -> Answer<Vec<Wrong>> {
    let mut found = oracle.matching(&body["query"])?;
    let total = found.len();
    let sorted = body["sort"].as_array().is_some_and(|keys| !keys.is_empty());
    if sorted {
        // A key that cannot be compared fails for any two documents.
        let mut failed = None;
        found.sort_by(|a, b| {
            oracle.order(&body["sort"], a, b).unwrap_or_else(|error| {
                failed = Some(error);
                std::cmp::Ordering::Equal
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    let all: Vec<i64> = found.iter().map(|doc| doc.n).collect();
    let size = body["size"].as_u64().unwrap_or(10) as usize;
    let from = body["from"].as_u64().unwrap_or(0) as usize;
    if !sorted && size > 0 && (from > 0 || size < total) {
        return Err("without an order, only all hits can be compared".to_owned());
    }
    let mut expected = json!({"total": total, "hits": all.iter().skip(from).take(size).collect::<Vec<_>>()});
    let aggs = body.get("aggs");
    if let Some(aggs) = aggs {
        expected["aggregations"] = oracle.aggregate(&found, aggs)?;
    }
    let mut wrong = Vec::new();
    let body = engine_body(body);
    let mut check = |way: &str, asked: &Value, expected: &Value, got: Value| {
        if !same(expected, &got) {
            wrong.push(Wrong {
                way: format!("{}, {way}", place.name),
                asked: asked.to_string(),
                expected: expected.clone(),
                got,
            });
        }
    };
    let got = place.search(&body).await;
    check("as asked", &body, &expected, shown(got, aggs, sorted)?);
    let other_size = if size == 0 { 1_000 } else { 0 };
    if sorted || other_size == 0 {
        let mut other = body.clone();
        other["size"] = json!(other_size);
        expected["hits"] = all.iter().skip(from).take(other_size).copied().collect();
        let got = place.search(&other).await;
        check("another size", &other, &expected, shown(got, aggs, sorted)?);
    }
    // Positions in an order tell equal hits apart only by a last key that is unique.
    let last = body["sort"].as_array().and_then(|keys| keys.last());
    let is_unique = last.is_some_and(|key| key.get("n").is_some());
    if is_unique && aggs.is_none() && ["many splits", "merged", "needle segments"].contains(&place.name) {
        let size = 1 + total / 3;
        let got = page_through(place, &body, size).await;
        let got = got.map_or_else(|error| json!({"error": chain(&error)}), |hits| json!(hits));
        check(&format!("pages of {size}"), &body, &json!(all), got);
    }
    Ok(wrong)
}

/// What an answer says, as the oracle would put it.
fn shown(got: Result<Value, Error>, aggs: Option<&Value>, sorted: bool) -> Answer<Value> {
    let got = match got {
        Ok(got) => got,
        Err(error) => return Ok(json!({"error": chain(&error)})),
    };
    let mut hits = numbers(&got);
    if !sorted {
        hits.sort_unstable();
    }
    let mut shown = json!({"total": got["hits"]["total"]["value"], "hits": hits});
    if let Some(aggs) = aggs {
        shown["aggregations"] = comparable(&got["aggregations"], aggs)?;
    }
    Ok(shown)
}

pub(crate) fn numbers(answer: &Value) -> Vec<i64> {
    let hits = answer["hits"]["hits"].as_array().cloned().unwrap_or_default();
    hits.iter().map(|hit| hit["_source"]["n"].as_i64().unwrap_or(-1)).collect()
}

pub(crate) async fn page_through(place: &Place, body: &Value, size: usize) -> Result<Vec<i64>, Error> {
    let mut all = Vec::new();
    let mut body = body.clone();
    body["size"] = json!(size);
    if let Value::Object(body) = &mut body {
        body.remove("from");
    }
    for _ in 0..PAGES_MAX {
        let page = place.search(&body).await?;
        all.extend(numbers(&page));
        let hits = page["hits"]["hits"].as_array().cloned().unwrap_or_default();
        let Some(last) = hits.last() else { return Ok(all) };
        body["search_after"] = last["sort"].clone();
    }
    all.push(-1);
    Ok(all)
}

async fn sql_query(oracle: &Oracle, place: &Place, question: &Value) -> Answer<Vec<Wrong>> {
    let expected = json!(sql::answer(oracle, question)?);
    let query = sql::write(question)?;
    let mut wrong = Vec::new();
    let got = match place.sql(&query).await {
        Ok(answer) => json!(sql::rows(&answer)?),
        Err(error) => json!({"error": chain(&error)}),
    };
    if !same(&expected, &got) {
        wrong.push(Wrong { way: place.name.to_owned(), asked: query, expected: expected.clone(), got });
    }
    if question.get("group").is_none()
        && let Ok(query) = sql::as_search(&question["where"], true)
        && oracle.matching(&query).is_ok()
        && !sql::differs_in_search(oracle, &question["where"])?
    {
        let body = json!({"query": query, "sort": [{"n": "asc"}], "size": 1_000});
        let got = match place.search(&body).await {
            Ok(answer) => numbers(&answer).into_iter().map(|n| json!([n])).collect(),
            Err(error) => json!({"error": chain(&error)}),
        };
        if !same(&expected, &got) {
            let way = format!("{}, as a search", place.name);
            wrong.push(Wrong { way, asked: body.to_string(), expected, got });
        }
    }
    Ok(wrong)
}

/// Whether two answers are the same; numbers may differ in the last bits.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            let (x, y) = (x.as_f64().unwrap_or_default(), y.as_f64().unwrap_or_default());
            a == b || (x - y).abs() <= 1e-12 * x.abs().max(y.abs())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}
