//! What aggregations mean: each bucket from its documents.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::oracle::{Answer, DATE, NUMBER, Oracle, named};
use super::values::{Doc, Number, Typed};

const HITS_MAX: usize = 100;

impl Oracle {
    /// The answer of `aggs` over these documents.
    pub(crate) fn aggregate(&self, docs: &[&Doc], aggs: &Value) -> Answer<Value> {
        let mut answer = Map::new();
        for (name, agg) in aggs.as_object().ok_or("aggregations are an object")? {
            answer.insert(name.clone(), self.one(docs, agg)?);
        }
        Ok(Value::Object(answer))
    }

    fn one(&self, docs: &[&Doc], agg: &Value) -> Answer<Value> {
        let kinds = agg.as_object().ok_or("an aggregation is an object")?;
        let mut own = kinds.iter().filter(|(kind, _)| *kind != "aggs");
        let (kind, body) = own.next().ok_or("an aggregation without a type")?;
        let below = agg.get("aggs");
        // What means nothing is refused even where there is no bucket.
        below.map(|below| self.aggregate(&[], below)).transpose()?;
        match kind.as_str() {
            "global" => self.bucket(&self.docs.iter().collect::<Vec<_>>(), json!({}), below),
            "filter" => self.bucket(&self.keep(docs, |doc| self.matches(doc, body))?, json!({}), below),
            "filters" => self.filters(docs, body, below),
            "missing" => {
                let field = named(body, "field")?;
                self.bucket(&self.keep(docs, |doc| Ok(self.values(doc, field).is_empty()))?, json!({}), below)
            }
            "terms" => self.terms(docs, body, below),
            "histogram" => self.histogram(docs, body, below),
            "date_histogram" => self.date_histogram(docs, body, below),
            "range" => self.ranges(docs, body, below),
            "top_hits" => self.top_hits(docs, body),
            metric => self.metric(docs, metric, named(body, "field")?),
        }
    }

    fn keep<'a>(&self, docs: &[&'a Doc], test: impl Fn(&Doc) -> Answer<bool>) -> Answer<Vec<&'a Doc>> {
        // What means nothing is refused even where there is nothing to keep.
        test(&Doc::new(&self.scene, &Value::Null))?;
        let mut kept = Vec::new();
        for doc in docs {
            if test(doc)? {
                kept.push(*doc);
            }
        }
        Ok(kept)
    }

    fn bucket(&self, docs: &[&Doc], mut head: Value, below: Option<&Value>) -> Answer<Value> {
        head["doc_count"] = json!(docs.len());
        if let Some(below) = below
            && let Value::Object(answers) = self.aggregate(docs, below)?
        {
            for (name, answer) in answers {
                head[name] = answer;
            }
        }
        Ok(head)
    }

    fn filters(&self, docs: &[&Doc], body: &Value, below: Option<&Value>) -> Answer<Value> {
        let mut buckets = Map::new();
        let filters = body["filters"].as_object().filter(|filters| !filters.is_empty());
        for (name, query) in filters.ok_or("filters are named")? {
            let docs = self.keep(docs, |doc| self.matches(doc, query))?;
            buckets.insert(name.clone(), self.bucket(&docs, json!({}), below)?);
        }
        Ok(json!({ "buckets": buckets }))
    }

    fn only_values(&self, doc: &Doc, field: &str) -> Vec<Typed> {
        self.values(doc, field).into_iter().map(|(value, _)| value).collect()
    }

    fn terms(&self, docs: &[&Doc], body: &Value, below: Option<&Value>) -> Answer<Value> {
        let field = named(body, "field")?;
        let of = |doc: &Doc| self.only_values(doc, field);
        // The keys of a field are of one kind in the whole index.
        let all: Vec<Typed> = self.docs.iter().flat_map(of).collect();
        let is_text = |value: &Typed| matches!(value, Typed::Text(_) | Typed::Address(_));
        let style = match body["missing"].is_string() && !all.iter().all(is_text) {
            true => Style::Texts,
            false => Style::of(&all),
        };
        let mut groups: Vec<(Key, Vec<&Doc>)> = Vec::new();
        for doc in docs {
            let mut keys: Vec<Key> = of(doc).iter().map(|value| style.key(value)).collect();
            if let (true, Some(missing)) = (keys.is_empty(), body["missing"].as_str()) {
                keys.push(Key::text(missing));
            }
            keys.sort_by(Key::order);
            keys.dedup_by(|a, b| a.order(b) == Ordering::Equal);
            for key in keys {
                match groups.iter_mut().find(|(known, _)| known.order(&key) == Ordering::Equal) {
                    Some((_, docs)) => docs.push(doc),
                    None => groups.push((key, vec![doc])),
                }
            }
        }
        groups.sort_by(|(a, _), (b, _)| a.order(b));
        match &body["order"] {
            Value::Null => groups.sort_by_key(|(_, docs)| std::cmp::Reverse(docs.len())),
            order if *order == json!({"_key": "asc"}) => {}
            order if *order == json!({"_key": "desc"}) => groups.reverse(),
            order if *order == json!({"_count": "asc"}) => groups.sort_by_key(|(_, docs)| docs.len()),
            other => return Err(format!("no such order: {other}")),
        }
        let size = body["size"].as_u64().unwrap_or(10) as usize;
        let rest: usize = groups.iter().skip(size).map(|(_, docs)| docs.len()).sum();
        groups.truncate(size);
        let buckets: Vec<Value> = groups
            .into_iter()
            .map(|(key, docs)| self.bucket(&docs, key.head, below))
            .collect::<Answer<_>>()?;
        Ok(json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": rest, "buckets": buckets}))
    }

    fn numbers(&self, doc: &Doc, field: &str) -> Vec<Number> {
        let values = self.only_values(doc, field).into_iter();
        values.filter_map(|value| if let Typed::Number(n) = value { Some(n) } else { None }).collect()
    }

    /// The numbers that a metric sees: those of a field that has any, else times as milliseconds, else booleans as 0
    /// and 1.
    fn measured(&self, doc: &Doc, field: &str) -> Vec<Number> {
        let (has_numbers, has_times) = (self.has(field, NUMBER), self.has(field, DATE));
        let is_time = self.is_time(field);
        let number = |value| match value {
            Typed::Number(n) if has_numbers => Some(n),
            Typed::Date(time_ns) if is_time || !has_numbers => {
                Some(Number::Whole(time_ns.div_euclid(1_000_000).into()))
            }
            Typed::Boolean(b) if !has_numbers && !has_times => Some(Number::Whole(b.into())),
            _ => None,
        };
        self.only_values(doc, field).into_iter().filter_map(number).collect()
    }

    fn times(&self, doc: &Doc, field: &str) -> Vec<i64> {
        let values = self.only_values(doc, field).into_iter();
        values
            .filter_map(
                |value| if let Typed::Date(time) = value { Some(time.div_euclid(1_000)) } else { None },
            )
            .collect()
    }

    fn histogram(&self, docs: &[&Doc], body: &Value, below: Option<&Value>) -> Answer<Value> {
        let field = named(body, "field")?;
        let interval = body["interval"].as_f64().filter(|i| *i > 0.0).ok_or("an interval")?;
        let cells = |doc: &Doc| -> Vec<i128> {
            self.measured(doc, field).iter().map(|n| (n.as_f64() / interval).floor() as i128).collect()
        };
        let head = |cell: i128| json!({"key": cell as f64 * interval});
        self.cells(docs, &cells, head, body, below)
    }

    fn date_histogram(&self, docs: &[&Doc], body: &Value, below: Option<&Value>) -> Answer<Value> {
        let field = named(body, "field")?;
        let minutes = match named(body, "fixed_interval")? {
            "1m" => 1,
            "10m" => 10,
            "1h" => 60,
            "1d" => 24 * 60,
            other => return Err(format!("no such interval: {other}")),
        };
        let width: i64 = minutes * 60_000_000;
        let cells = |doc: &Doc| -> Vec<i128> {
            self.times(doc, field).iter().map(|t| t.div_euclid(width).into()).collect()
        };
        let head = |cell: i128| time_head(cell as i64 * width);
        self.cells(docs, &cells, head, body, below)
    }

    /// Buckets of whole numbers, empty ones between them filled in.
    fn cells(
        &self,
        docs: &[&Doc],
        of: &dyn Fn(&Doc) -> Vec<i128>,
        head: impl Fn(i128) -> Value,
        body: &Value,
        below: Option<&Value>,
    ) -> Answer<Value> {
        let mut cells: Vec<i128> = docs.iter().flat_map(|doc| of(doc)).collect();
        cells.sort_unstable();
        cells.dedup();
        let minimum = body["min_doc_count"].as_u64().unwrap_or(0);
        if let (0, [first, .., last]) = (minimum, cells.as_slice()) {
            if last - first > 10_000 {
                return Err("too many buckets".to_owned());
            }
            cells = (*first..=*last).collect();
        }
        let mut buckets = Vec::new();
        for cell in cells {
            let inside: Vec<&Doc> = docs.iter().filter(|doc| of(doc).contains(&cell)).copied().collect();
            if inside.len() as u64 >= minimum {
                buckets.push(self.bucket(&inside, head(cell), below)?);
            }
        }
        Ok(json!({ "buckets": buckets }))
    }

    fn ranges(&self, docs: &[&Doc], body: &Value, below: Option<&Value>) -> Answer<Value> {
        let field = named(body, "field")?;
        let mut buckets = Map::new();
        for range in body["ranges"].as_array().ok_or("ranges are a list")? {
            let (from, to) = (range["from"].as_f64(), range["to"].as_f64());
            let inside = |n: &Number| {
                from.is_none_or(|from| n.as_f64() >= from) && to.is_none_or(|to| n.as_f64() < to)
            };
            let docs = self.keep(docs, |doc| Ok(self.numbers(doc, field).iter().any(inside)))?;
            let mut head = json!({});
            if let Some(from) = from {
                head["from"] = json!(from);
            }
            if let Some(to) = to {
                head["to"] = json!(to);
            }
            buckets.insert(named(range, "key")?.to_owned(), self.bucket(&docs, head, below)?);
        }
        Ok(json!({ "buckets": buckets }))
    }

    /// Of the hits only the numbers of their documents are compared.
    fn top_hits(&self, docs: &[&Doc], body: &Value) -> Answer<Value> {
        let mut docs = docs.to_vec();
        if body["sort"] != json!([{"n": "desc"}]) {
            return Err("top_hits by n".to_owned());
        }
        docs.sort_by_key(|doc| std::cmp::Reverse(doc.n));
        let size = body["size"].as_u64().unwrap_or(3) as usize;
        let hits: Vec<i64> = docs.iter().take(size.min(HITS_MAX)).map(|doc| doc.n).collect();
        Ok(json!({"total": docs.len(), "hits": hits}))
    }

    fn metric(&self, docs: &[&Doc], metric: &str, field: &str) -> Answer<Value> {
        let numbers: Vec<Number> = docs.iter().flat_map(|doc| self.measured(doc, field)).collect();
        let by = |a: &&Number, b: &&Number| a.compare(**b);
        let least = numbers.iter().min_by(by).map(|n| n.as_f64());
        let greatest = numbers.iter().max_by(by).map(|n| n.as_f64());
        let sum = sum(&numbers);
        let average = (!numbers.is_empty()).then(|| sum / numbers.len() as f64);
        let style = Style::of(&docs.iter().flat_map(|doc| self.only_values(doc, field)).collect::<Vec<_>>());
        // Equal texts of a document count once, numbers as often as they stand there.
        let counted = |doc: &Doc| -> usize {
            let (numbers, mut texts): (Vec<Typed>, Vec<Typed>) = self
                .only_values(doc, field)
                .into_iter()
                .partition(|v| !matches!(v, Typed::Text(_) | Typed::Address(_)));
            let mut distinct: Vec<Typed> = Vec::new();
            texts.retain(|text| {
                !distinct.contains(text) && {
                    distinct.push(text.clone());
                    true
                }
            });
            numbers.len() + texts.len()
        };
        Ok(match metric {
            "sum" => json!({ "value": sum }),
            "min" => json!({ "value": least }),
            "max" => json!({ "value": greatest }),
            "avg" => json!({ "value": average }),
            "stats" => {
                json!({"count": numbers.len(), "min": least, "max": greatest, "avg": average, "sum": sum})
            }
            "percentiles" => {
                let mut sorted: Vec<f64> = numbers.iter().map(|number| number.as_f64()).collect();
                sorted.sort_by(f64::total_cmp);
                // Exact while the values are few, interpolated between neighbours.
                let at = |percent: f64| {
                    let place = percent / 100.0 * sorted.len().checked_sub(1)? as f64;
                    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
                    Some(low + (high - low) * place.fract())
                };
                json!({"values": {"0.0": at(0.0), "50.0": at(50.0), "99.0": at(99.0)}})
            }
            "value_count" => json!({"value": docs.iter().map(|doc| counted(doc)).sum::<usize>()}),
            "cardinality" => {
                let mut keys: Vec<Key> =
                    docs.iter().flat_map(|doc| self.only_values(doc, field)).map(|v| style.key(&v)).collect();
                keys.sort_by(Key::order);
                keys.dedup_by(|a, b| a.order(b) == Ordering::Equal);
                json!({"value": keys.len()})
            }
            other => return Err(format!("no such aggregation: {other}")),
        })
    }
}

/// The sum without rounding of the whole numbers; of fractions in the order of their size.
pub(crate) fn sum(numbers: &[Number]) -> f64 {
    let whole: i128 = numbers.iter().map(|n| if let Number::Whole(n) = n { *n } else { 0 }).sum();
    let mut fractions: Vec<f64> =
        numbers.iter().filter_map(|n| if let Number::Fraction(n) = n { Some(*n) } else { None }).collect();
    fractions.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    whole as f64 + fractions.iter().sum::<f64>()
}

fn time_head(time_us: i64) -> Value {
    let time = jiff::Timestamp::from_microsecond(time_us).expect("a time");
    json!({"key": time_us.div_euclid(1_000), "key_as_string": format!("{time:.3}")})
}

/// How the keys of a field are written: one kind for all of its values.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Own,
    Doubles,
    Texts,
}

impl Style {
    fn of(values: &[Typed]) -> Style {
        let first = values.first().map(std::mem::discriminant);
        let fractions = |value: &&Typed| matches!(value, Typed::Number(Number::Fraction(_)));
        // Keys are numbers where 64 bits hold them all.
        let is_big =
            |value: &Typed| matches!(value, Typed::Number(Number::Whole(n)) if i64::try_from(*n).is_err());
        if values.iter().any(|value| Some(std::mem::discriminant(value)) != first || is_big(value)) {
            return Style::Texts;
        }
        if values.iter().any(|value| fractions(&value)) { Style::Doubles } else { Style::Own }
    }

    fn key(self, value: &Typed) -> Key {
        let text = match value {
            Typed::Boolean(b) => b.to_string(),
            Typed::Number(Number::Whole(n)) => n.to_string(),
            Typed::Number(Number::Fraction(n)) if n.fract() == 0.0 && n.abs() < 9e18 => {
                (*n as i64).to_string()
            }
            Typed::Number(Number::Fraction(n)) => format!("{n:?}"),
            Typed::Date(time_ns) => {
                time_head(time_ns.div_euclid(1_000))["key_as_string"].as_str().unwrap_or_default().to_owned()
            }
            Typed::Address(address) => super::values::address_text(*address),
            Typed::Text(text) => text.clone(),
        };
        match (self, value) {
            (Style::Own, Typed::Boolean(b)) => Key {
                number: Some(Number::Whole((*b).into())),
                text: text.clone(),
                head: json!({"key": u8::from(*b), "key_as_string": text}),
            },
            (Style::Own, Typed::Number(n @ Number::Whole(whole))) => {
                let key = i64::try_from(*whole).map_or_else(|_| json!(*whole as u64), |n| json!(n));
                Key { number: Some(*n), text, head: json!({ "key": key }) }
            }
            (Style::Doubles, Typed::Number(n)) => {
                Key { number: Some(*n), text, head: json!({"key": n.as_f64()}) }
            }
            (Style::Own, Typed::Date(time_ns)) => {
                // Keys of times are whole milliseconds.
                let ms = time_ns.div_euclid(1_000_000);
                let head = time_head(time_ns.div_euclid(1_000));
                Key { number: Some(Number::Whole(ms.into())), text: String::new(), head }
            }
            _ => Key::text(&text),
        }
    }
}

/// The key of a bucket and what the answer says of it.
#[derive(Clone, Debug)]
struct Key {
    number: Option<Number>,
    text: String,
    head: Value,
}

impl Key {
    fn text(text: &str) -> Key {
        Key { number: None, text: text.to_owned(), head: json!({ "key": text }) }
    }

    fn order(&self, other: &Key) -> Ordering {
        match (self.number, other.number) {
            (Some(a), Some(b)) => a.compare(b),
            (None, None) => self.text.cmp(&other.text),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

/// Leaves of an answer what the oracle computes: of hits their numbers, of ranges a map by key.
pub(crate) fn comparable(answer: &Value, aggs: &Value) -> Answer<Value> {
    let mut all = Map::new();
    for (name, agg) in aggs.as_object().ok_or("aggregations are an object")? {
        let mut own =
            agg.as_object().ok_or("an aggregation is an object")?.iter().filter(|(kind, _)| *kind != "aggs");
        let (kind, _) = own.next().ok_or("an aggregation without a type")?;
        let mut one = answer[name].clone();
        if kind == "top_hits" {
            let hits = one["hits"]["hits"].as_array().cloned().unwrap_or_default();
            let numbers: Vec<Value> = hits.iter().map(|hit| hit["_source"]["n"].clone()).collect();
            one = json!({"total": one["hits"]["total"]["value"], "hits": numbers});
        }
        if let Value::Object(metric) = &mut one
            && !metric.contains_key("buckets")
        {
            metric.retain(|key, _| !key.ends_with("_as_string"));
        }
        if kind == "range" {
            let buckets = one["buckets"].as_array().cloned().unwrap_or_default();
            let by_key = buckets.into_iter().map(|mut bucket| {
                let key = bucket.as_object_mut().and_then(|bucket| bucket.shift_remove("key"));
                (key.and_then(|key| key.as_str().map(str::to_owned)).unwrap_or_default(), bucket)
            });
            one["buckets"] = Value::Object(by_key.collect());
        }
        if let Some(below) = agg.get("aggs") {
            each_bucket(&mut one, &mut |bucket| {
                if let Value::Object(below) = comparable(&Value::Object(bucket.clone()), below)? {
                    bucket.extend(below);
                }
                Ok(())
            })?;
        }
        all.insert(name.clone(), one);
    }
    Ok(Value::Object(all))
}

fn each_bucket(one: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>) -> Answer<()>) -> Answer<()> {
    let buckets: Vec<&mut Value> = match one {
        Value::Object(object) if object.contains_key("buckets") => match &mut object["buckets"] {
            Value::Array(buckets) => buckets.iter_mut().collect(),
            Value::Object(buckets) => buckets.values_mut().collect(),
            _ => Vec::new(),
        },
        single => vec![single],
    };
    for bucket in buckets {
        if let Value::Object(bucket) = bucket {
            visit(bucket)?;
        }
    }
    Ok(())
}
