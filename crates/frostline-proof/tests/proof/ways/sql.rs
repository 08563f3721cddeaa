//! Questions in SQL, with what they mean.
//!
//! A question is `{"where": condition}` with, for groups, `"group": column` and `"of": column`. Conditions are
//! of one key: `cmp`, `in`, `null`, `like`, `and`, `or`, `not`. They have three values, as in SQL. A condition can also be
//! asked as a search.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::aggregations::sum;
use super::documents::NOW_US;
use super::faults::provoked;
use super::oracle::{ADDRESS, Answer, NUMBER, Oracle, TEXT, named, only};
use super::text::is_like;
use super::values::{Doc, Number, Typed, address_text, date};
use crate::dice::Dice;

/// A question about columns of one type; none where no document has any.
pub(crate) fn random(dice: &mut Dice, oracle: &Oracle) -> Option<Value> {
    let columns = columns(oracle);
    let mut question = json!({"where": condition(dice, oracle, &columns, 3)?});
    let groups: Vec<&String> = columns.iter().filter(|path| oracle.kinds(path) == [TEXT]).collect();
    let numbers: Vec<&String> = columns.iter().filter(|path| oracle.kinds(path) == [NUMBER]).collect();
    if !groups.is_empty() && dice.chance(0.4) {
        question["group"] = json!(dice.one(&groups));
        question["of"] = json!(dice.one(&numbers));
    }
    Some(question)
}

/// Columns whose values are of one type, one a document.
fn columns(oracle: &Oracle) -> Vec<String> {
    let plain = |path: &&str| {
        let is_object = oracle.paths().iter().any(|other| other.starts_with(&format!("{path}.")));
        let fractions = |doc: &Doc| doc.at(path).any(|v| matches!(v, Typed::Number(Number::Fraction(_))));
        let wholes = |doc: &Doc| doc.at(path).any(|v| matches!(v, Typed::Number(Number::Whole(_))));
        let both = oracle.docs.iter().any(fractions) && oracle.docs.iter().any(wholes);
        (provoked("W17") || (oracle.kinds(path).len() == 1 && !both))
            && !oracle.has_lists(path)
            && (provoked("W6") || !is_object)
            && (provoked("W13") || !path.starts_with('_'))
            && *path != "@timestamp"
    };
    let mut columns: Vec<String> = oracle.paths().into_iter().filter(plain).map(str::to_owned).collect();
    columns.retain(|path| oracle.kinds(path).len() == 1);
    columns
}

fn condition(dice: &mut Dice, oracle: &Oracle, columns: &[String], depth: usize) -> Option<Value> {
    if depth > 0 && dice.chance(0.5) {
        let mut part = || condition(dice, oracle, columns, depth - 1);
        let (a, b) = (part()?, part()?);
        return Some(match dice.below(3) {
            0 => json!({"and": [a, b]}),
            1 => json!({"or": [a, b]}),
            _ => json!({ "not": a }),
        });
    }
    if dice.chance(0.15) && provoked("W1") | (oracle.scene.time_field == "@timestamp") {
        let at = jiff::Timestamp::from_microsecond(NOW_US - dice.between(0, 90) * 60_000_000).ok()?;
        return Some(json!({"cmp": [oracle.scene.time_field, *dice.one(&[">=", "<"]), format!("{at:.3}")]}));
    }
    let column = dice.one(columns);
    let values: Vec<Value> = oracle.docs.iter().flat_map(|doc| doc.at(column)).map(literal).collect();
    let mut value = || dice.one(&values).clone();
    let (one, other) = (value(), value());
    let is_text = oracle.kinds(column) == [TEXT];
    Some(match dice.below(7) {
        0 => json!({"null": [column, dice.chance(0.5)]}),
        1 | 2 if one.is_boolean() && !provoked("N2") => json!({"cmp": [column, "=", one]}),
        1 | 2 => json!({"in": [column, [one, other], provoked("W7") && dice.chance(0.5)]}),
        3 if is_text => {
            let text = one.as_str()?.replace(['%', '_', '\\'], "");
            let start: String = text.chars().take(1 + dice.below(4)).collect();
            json!({"like": [column, format!("{start}%")]})
        }
        // An address is a text in SQL, and has another order.
        _ if one.is_boolean() || oracle.kinds(column) == [ADDRESS] => {
            json!({"cmp": [column, *dice.one(&["=", "<>"]), one]})
        }
        _ => json!({"cmp": [column, *dice.one(&["=", "=", "<>", "<", "<=", ">", ">="]), one]}),
    })
}

fn literal(value: &Typed) -> Value {
    match value {
        Typed::Boolean(b) => json!(b),
        Typed::Number(Number::Whole(n)) => i64::try_from(*n).map_or_else(|_| json!(*n as u64), |n| json!(n)),
        Typed::Number(Number::Fraction(n)) => json!(n),
        Typed::Date(time_us) => {
            json!(format!("{:.3}", jiff::Timestamp::from_microsecond(*time_us).expect("a time")))
        }
        Typed::Address(address) => json!(address_text(*address)),
        Typed::Text(text) => json!(text),
    }
}

/// The question as SQL.
pub(crate) fn write(question: &Value) -> Answer<String> {
    let condition = written(&question["where"])?;
    let Some(group) = question["group"].as_str() else {
        return Ok(format!("select n from logs where {condition} order by n"));
    };
    let (group, of) = (quoted(group), quoted(named(question, "of")?));
    Ok(format!(
        "select {group}, count(*), count({of}), sum({of}), min({of}), max({of}) from logs where {condition} \
         group by {group} order by {group} nulls last"
    ))
}

fn quoted(column: &str) -> String {
    format!("\"{column}\"")
}

fn written(condition: &Value) -> Answer<String> {
    let (kind, body) = only(condition)?;
    let column = || body[0].as_str().map(quoted).ok_or("a column");
    Ok(match kind {
        "cmp" => format!("{} {} {}", column()?, body[1].as_str().ok_or("an operator")?, constant(&body[2])?),
        "in" => {
            let values = body[1].as_array().filter(|values| !values.is_empty()).ok_or("values")?;
            let values: Vec<String> = values.iter().map(constant).collect::<Answer<_>>()?;
            let not = if body[2] == true { "not " } else { "" };
            format!("{} {not}in ({})", column()?, values.join(", "))
        }
        "null" => format!("{} is {}null", column()?, if body[1] == true { "not " } else { "" }),
        "like" => format!("{} like {}", column()?, constant(&body[1])?),
        "and" | "or" => format!("({} {kind} {})", written(&body[0])?, written(&body[1])?),
        "not" => format!("(not {})", written(body)?),
        other => return Err(format!("no such condition: {other}")),
    })
}

fn constant(value: &Value) -> Answer<String> {
    match value {
        Value::String(text) => Ok(format!("'{}'", text.replace('\'', "''"))),
        Value::Number(n) if n.is_f64() && n.as_f64().is_some_and(|n| n.abs() > 1e15) => {
            Ok(format!("{:e}", n.as_f64().unwrap_or_default()))
        }
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err("a constant".to_owned()),
    }
}

/// The condition as a search that finds the same documents: where it is true, or where it is false.
pub(crate) fn as_search(condition: &Value, wanted: bool) -> Answer<Value> {
    let (kind, body) = only(condition)?;
    let column = || body[0].as_str().ok_or_else(|| "a column".to_owned());
    let unless = |column: &str, query: Value| match wanted {
        true => query,
        false => json!({"bool": {"filter": [{"exists": {"field": column}}], "must_not": [query]}}),
    };
    Ok(match kind {
        "cmp" => {
            let column = column()?;
            let value = &body[2];
            match body[1].as_str().ok_or("an operator")? {
                "=" => unless(column, json!({"term": {column: value}})),
                "<>" => match wanted {
                    true => {
                        json!({"bool": {"filter": [{"exists": {"field": column}}], "must_not": [{"term": {column: value}}]}})
                    }
                    false => json!({"term": {column: value}}),
                },
                operator => {
                    let bound = match operator {
                        "<" => "lt",
                        "<=" => "lte",
                        ">" => "gt",
                        _ => "gte",
                    };
                    unless(column, json!({"range": {column: {bound: value}}}))
                }
            }
        }
        "in" => {
            let column = column()?;
            let query = json!({"terms": {column: body[1]}});
            match (body[2] == true) == wanted {
                false => query,
                true => json!({"bool": {"filter": [{"exists": {"field": column}}], "must_not": [query]}}),
            }
        }
        "null" => {
            let query = json!({"exists": {"field": column()?}});
            if (body[1] == true) == wanted { query } else { json!({"bool": {"must_not": [query]}}) }
        }
        "and" | "or" => {
            let clauses = [as_search(&body[0], wanted)?, as_search(&body[1], wanted)?];
            match (kind == "and") == wanted {
                true => json!({"bool": {"filter": clauses}}),
                false => json!({"bool": {"should": clauses}}),
            }
        }
        "not" => as_search(body, !wanted)?,
        other => return Err(format!("not asked as a search: {other}")),
    })
}

/// The rows of the answer.
pub(crate) fn answer(oracle: &Oracle, question: &Value) -> Answer<Vec<Value>> {
    let mut columns = Vec::new();
    each_column(&question["where"], &mut columns)?;
    columns.extend(["group", "of"].iter().filter_map(|key| question[*key].as_str()));
    if let Some(unknown) = columns.into_iter().find(|column| oracle.resolve(column).is_empty()) {
        return Err(format!("no such column: {unknown}"));
    }
    let mut docs = Vec::new();
    for doc in &oracle.docs {
        if truth(oracle, doc, &question["where"])? == Some(true) {
            docs.push(doc);
        }
    }
    let Some(group) = question["group"].as_str() else {
        return Ok(docs.iter().map(|doc| json!([doc.n])).collect());
    };
    let of = named(question, "of")?;
    let mut groups: Vec<(Option<String>, Vec<&Doc>)> = Vec::new();
    for doc in docs {
        let key = doc.at(group).next().map(|value| literal(value).as_str().unwrap_or_default().to_owned());
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, docs)) => docs.push(doc),
            None => groups.push((key, vec![doc])),
        }
    }
    groups.sort_by(|(a, _), (b, _)| a.is_none().cmp(&b.is_none()).then(a.cmp(b)));
    let rows = groups.into_iter().map(|(key, docs)| {
        let numbers: Vec<Number> = docs
            .iter()
            .flat_map(|doc| doc.at(of))
            .filter_map(|value| if let Typed::Number(n) = value { Some(*n) } else { None })
            .collect();
        let by = |a: &&Number, b: &&Number| a.compare(**b);
        let shown = |n: Option<&Number>| n.map(|n| literal(&Typed::Number(*n)));
        let total = (!numbers.is_empty()).then(|| sum(&numbers));
        json!([
            key,
            docs.len(),
            numbers.len(),
            total,
            shown(numbers.iter().min_by(by)),
            shown(numbers.iter().max_by(by))
        ])
    });
    Ok(rows.collect())
}

/// Whether a column is an object as well, which exists in a search where any of its fields does.
pub(crate) fn names_object(oracle: &Oracle, condition: &Value) -> Answer<bool> {
    let mut columns = Vec::new();
    each_column(condition, &mut columns)?;
    Ok(columns.into_iter().any(|column| oracle.is_object(column)))
}

fn each_column<'a>(condition: &'a Value, columns: &mut Vec<&'a str>) -> Answer<()> {
    let (kind, body) = only(condition)?;
    match kind {
        "and" | "or" => (0..2).try_for_each(|at| each_column(&body[at], columns)),
        "not" => each_column(body, columns),
        _ => {
            columns.push(body[0].as_str().ok_or("a column")?);
            Ok(())
        }
    }
}

/// Whether a condition holds of a document; nothing where SQL does not know.
fn truth(oracle: &Oracle, doc: &Doc, condition: &Value) -> Answer<Option<bool>> {
    let (kind, body) = only(condition)?;
    let value = || -> Answer<Option<Typed>> {
        let name = body[0].as_str().ok_or("a column")?;
        Ok(oracle.values(doc, name).into_iter().map(|(value, _)| value).next())
    };
    Ok(match kind {
        "cmp" => value()?.and_then(|value| compare(&value, &body[2])).map(|ordering| {
            match body[1].as_str().unwrap_or_default() {
                "=" => ordering == Ordering::Equal,
                "<>" => ordering != Ordering::Equal,
                "<" => ordering == Ordering::Less,
                "<=" => ordering != Ordering::Greater,
                ">" => ordering == Ordering::Greater,
                _ => ordering != Ordering::Less,
            }
        }),
        "in" => {
            let wanted = body[1].as_array().ok_or("values")?;
            value()?.map(|value| {
                wanted.iter().any(|one| compare(&value, one) == Some(Ordering::Equal)) != (body[2] == true)
            })
        }
        "null" => Some(value()?.is_some() == (body[1] == true)),
        "like" => {
            let pattern = body[1].as_str().ok_or("a pattern")?;
            value()?.map(|value| match value {
                Typed::Text(text) => is_like(&text, pattern, '%', '_'),
                _ => false,
            })
        }
        "and" | "or" => {
            let (a, b) = (truth(oracle, doc, &body[0])?, truth(oracle, doc, &body[1])?);
            let decisive = kind == "or";
            match (a, b) {
                (Some(one), _) | (_, Some(one)) if one == decisive => Some(decisive),
                (Some(_), Some(_)) => Some(!decisive),
                _ => None,
            }
        }
        "not" => truth(oracle, doc, body)?.map(|holds| !holds),
        other => return Err(format!("no such condition: {other}")),
    })
}

fn compare(value: &Typed, constant: &Value) -> Option<Ordering> {
    match value {
        Typed::Boolean(own) => constant.as_bool().map(|other| own.cmp(&other)),
        Typed::Number(own) => {
            constant.is_number().then(|| Number::of(constant)).flatten().map(|n| own.compare(n))
        }
        Typed::Date(own) => constant.as_str().and_then(date).map(|other| own.cmp(&other)),
        Typed::Address(own) => constant.as_str().map(|text| address_text(*own).as_str().cmp(text)),
        Typed::Text(own) => constant.as_str().map(|text| own.as_str().cmp(text)),
    }
}

/// A row of an answer as JSON.
pub(crate) type Row = Vec<Value>;

/// The rows of an engine's answer.
pub(crate) fn rows(answer: &frostline_query::SqlAnswer) -> Answer<Vec<Row>> {
    let mut rows = Vec::new();
    for batch in &answer.batches {
        for at in 0..batch.num_rows() {
            let row = batch.columns().iter().map(|column| {
                frostline_query::json_value(column, at)
                    .map_err(|e| format!("a value that cannot be shown: {e}"))
            });
            rows.push(row.collect::<Answer<Row>>()?);
        }
    }
    Ok(rows)
}
