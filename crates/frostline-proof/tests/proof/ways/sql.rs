//! Questions in SQL, with what they mean.
//!
//! A question is `{"where": condition}` with, for groups, `"group": column`, `"of": column` and `"values"`, a list of
//! aggregates. Conditions are of one key: `cmp`, `in`, `between`, `null`, `like`, `and`, `or`, `not`. They have three
//! values, as in SQL. A condition can also be asked as a search.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::aggregations::sum;
use super::documents::NOW_US;
use super::oracle::{ADDRESS, Answer, DATE, NUMBER, Oracle, TEXT, named, only};
use super::questions::is_metadata;
use super::text::is_like;
use super::values::{Doc, Number, Typed, date, literal, text_of, whole_value};
use crate::dice::Dice;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Type {
    Boolean,
    Long,
    Big,
    Double,
    Time,
    Text,
}

/// The narrowest type that holds all values of a path, and the type that it is declared as.
fn column_type(oracle: &Oracle, path: &str) -> Type {
    let own = oracle.docs.iter().flat_map(|doc| doc.at(path)).map(|value| match value {
        Typed::Boolean(_) => Type::Boolean,
        Typed::Number(Number::Whole(n)) if i64::try_from(*n).is_err() => Type::Big,
        Typed::Number(Number::Whole(_)) => Type::Long,
        Typed::Number(Number::Fraction(_)) => Type::Double,
        Typed::Date(_) => Type::Time,
        Typed::Address(_) | Typed::Text(_) => Type::Text,
    });
    let declared = oracle.scene.declared(path).map(|declared| match declared {
        "boolean" => Type::Boolean,
        "long" | "integer" => Type::Long,
        "double" => Type::Double,
        "date" => Type::Time,
        _ => Type::Text,
    });
    let types: BTreeSet<Type> = own.chain(declared).collect();
    match types.into_iter().collect::<Vec<_>>().as_slice() {
        [one] => *one,
        [Type::Long, Type::Big] => Type::Big,
        [Type::Long, Type::Double] => Type::Double,
        _ => Type::Text,
    }
}

/// A random question; none where no document has any field.
pub(crate) fn random(dice: &mut Dice, oracle: &Oracle) -> Option<Value> {
    let columns = columns(oracle);
    let mut question = json!({"where": condition(dice, oracle, &columns, 3)?});
    // The text of a fraction or a time is SQL's own.
    let has_text = |path: &&String| {
        let plain = |value: &Typed| {
            matches!(
                value,
                Typed::Text(_) | Typed::Address(_) | Typed::Boolean(_) | Typed::Number(Number::Whole(_))
            )
        };
        column_type(oracle, path) == Type::Text
            && !oracle.has_lists(path)
            && oracle.docs.iter().flat_map(|doc| doc.at(path)).all(plain)
    };
    let groups: Vec<&String> = columns.iter().filter(has_text).collect();
    let numbers: Vec<&String> = columns.iter().filter(|path| oracle.kinds(path).contains(&NUMBER)).collect();
    if !groups.is_empty() && !numbers.is_empty() && dice.chance(0.4) {
        let of = *dice.one(&numbers);
        let ty = column_type(oracle, of);
        let mut values = vec!["count", "sum"];
        match oracle.has_lists(of) || ty == Type::Text {
            true => values.push("avg"),
            false => values.extend(["min", "max"]),
        }
        if matches!(ty, Type::Long | Type::Double) && dice.chance(0.5) {
            values.push("avg");
        }
        values.dedup();
        question["group"] = json!(dice.one(&groups));
        question["of"] = json!(of);
        question["values"] = json!(values);
    }
    Some(question)
}

/// The columns that questions are about.
fn columns(oracle: &Oracle) -> Vec<String> {
    let asked = |path: &&str| {
        // How a time is written as text, where it is one value of several types, is SQL's own.
        let kinds = oracle.kinds(path);
        !is_metadata(path)
            && *path != "@timestamp"
            && *path != oracle.scene.time_field
            && (kinds == [DATE] || !kinds.contains(&DATE))
    };
    oracle.paths().into_iter().filter(asked).map(str::to_owned).collect()
}

/// A value as statements have it, and as a search for the same.
fn asked(value: &Typed) -> Value {
    match value {
        // Times have microseconds.
        Typed::Date(time_ns) => {
            let time = jiff::Timestamp::from_microsecond(time_ns.div_euclid(1_000)).expect("a time");
            json!(format!("{time:.6}"))
        }
        other => literal(other),
    }
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
    if dice.chance(0.15) {
        let at = jiff::Timestamp::from_microsecond(NOW_US - dice.between(0, 90) * 60_000_000).ok()?;
        return Some(json!({"cmp": [oracle.scene.time_field, *dice.one(&[">=", "<"]), format!("{at:.3}")]}));
    }
    let column = dice.one(columns);
    let ty = column_type(oracle, column);
    let values: Vec<Value> = oracle.docs.iter().flat_map(|doc| doc.at(column)).map(asked).collect();
    let mut value = || match dice.one(&values) {
        // A column of text is compared with text and with numbers.
        Value::Bool(b) if ty == Type::Text => json!(b.to_string()),
        Value::String(text) if ty == Type::Text && dice.chance(0.2) => {
            Number::of(&json!(text)).map_or_else(|| json!(text), |number| literal(&Typed::Number(number)))
        }
        other => other.clone(),
    };
    let (one, other) = (value(), value());
    let (is_list, kinds) = (oracle.has_lists(column), oracle.kinds(column));
    // An address is a text in SQL, and has another order.
    let unordered = one.is_boolean() || kinds.contains(&ADDRESS);
    Some(match dice.below(9) {
        0 => json!({"null": [column, dice.chance(0.5)]}),
        1 | 2 => json!({"in": [column, [one, other], dice.chance(0.5)]}),
        3 if ty == Type::Text && !is_list && kinds == [TEXT] => {
            let text = one.as_str()?.replace(['%', '_', '\\'], "");
            let start: String = text.chars().take(1 + dice.below(4)).collect();
            json!({"like": [column, format!("{start}%")]})
        }
        4 | 5 if !unordered && one.is_number() == other.is_number() => {
            json!({"between": [column, one, other, dice.chance(0.3)]})
        }
        _ if unordered => json!({"cmp": [column, *dice.one(&["=", "<>"]), one]}),
        _ => json!({"cmp": [column, *dice.one(&["=", "=", "<>", "<", "<=", ">", ">="]), one]}),
    })
}

/// The question as SQL.
pub(crate) fn write(question: &Value) -> Answer<String> {
    let condition = written(&question["where"])?;
    let Some(group) = question["group"].as_str() else {
        return Ok(format!("select n from logs where {condition} order by n"));
    };
    let (group, of) = (quoted(group), quoted(named(question, "of")?));
    let values = values(question)?.map(|value| format!(", {value}({of})"));
    Ok(format!(
        "select {group}, count(*){} from logs where {condition} group by {group} order by {group} nulls last",
        values.collect::<String>()
    ))
}

/// The aggregates that a question asks of its groups.
fn values(question: &Value) -> Answer<impl Iterator<Item = &str>> {
    let values = question["values"].as_array().ok_or("values are a list")?;
    Ok(values.iter().filter_map(Value::as_str))
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
        "between" => {
            let not = if body[3] == true { "not " } else { "" };
            format!("{} {not}between {} and {}", column()?, constant(&body[1])?, constant(&body[2])?)
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
    let unless_not = |column: &str, query: Value| json!({"bool": {"filter": [{"exists": {"field": column}}], "must_not": [query]}});
    let unless = |column: &str, query: Value| if wanted { query } else { unless_not(column, query) };
    Ok(match kind {
        "cmp" => {
            let column = column()?;
            let value = &body[2];
            match body[1].as_str().ok_or("an operator")? {
                "=" => unless(column, json!({"term": {column: value}})),
                "<>" => match wanted {
                    true => unless_not(column, json!({"term": {column: value}})),
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
                true => unless_not(column, query),
            }
        }
        "between" => {
            let column = column()?;
            let query = json!({"range": {column: {"gte": body[1], "lte": body[2]}}});
            match (body[3] == true) == wanted {
                false => query,
                true => unless_not(column, query),
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
        let key = doc.at(group).next().map(text_of);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, docs)) => docs.push(doc),
            None => groups.push((key, vec![doc])),
        }
    }
    groups.sort_by(|(a, _), (b, _)| a.is_none().cmp(&b.is_none()).then(a.cmp(b)));
    let mut rows = Vec::new();
    for (key, docs) in groups {
        let mut row = vec![json!(key), json!(docs.len())];
        for value in values(question)? {
            row.push(aggregate(oracle, &docs, value, of)?);
        }
        rows.push(Value::Array(row));
    }
    Ok(rows)
}

/// One aggregate of a column.
fn aggregate(oracle: &Oracle, docs: &[&Doc], value: &str, of: &str) -> Answer<Value> {
    let ty = column_type(oracle, of);
    let numbers: Vec<Number> = docs.iter().flat_map(|doc| doc.at(of)).filter_map(number_of).collect();
    let by = |a: &&Number, b: &&Number| a.compare(**b);
    let shown = |n: Option<&Number>| n.map_or(Value::Null, |n| literal(&Typed::Number(*n)));
    let one_number = !oracle.has_lists(of) && ty != Type::Text;
    Ok(match value {
        "count" => json!(docs.iter().filter(|doc| doc.at(of).next().is_some()).count()),
        "sum" | "avg" if numbers.is_empty() => Value::Null,
        "sum" => match exact_sum(&numbers) {
            sum if ty == Type::Long && !sum.is_i64() => return Err("a sum beyond 64 bits".to_owned()),
            // Of text the sum is a double.
            _ if ty == Type::Text => json!(sum(&numbers)),
            sum => sum,
        },
        "avg" => json!(sum(&numbers) / numbers.len() as f64),
        "min" if one_number => shown(numbers.iter().min_by(by)),
        "max" if one_number => shown(numbers.iter().max_by(by)),
        other => return Err(format!("no such aggregate: {other}")),
    })
}

/// The sum, which is whole where all numbers are.
fn exact_sum(numbers: &[Number]) -> Value {
    let wholes = numbers.iter().map(|n| if let Number::Whole(n) = n { Some(*n) } else { None });
    match wholes.sum::<Option<i128>>() {
        Some(whole) => whole_value(whole),
        None => json!(sum(numbers)),
    }
}

/// Whether a column means something else in a search: an object exists there where any of its fields does, and of
/// values of several types each is asked in its own way.
pub(crate) fn differs_in_search(oracle: &Oracle, condition: &Value) -> Answer<bool> {
    let mut columns = Vec::new();
    each_column(condition, &mut columns)?;
    let differs = |column: &str| {
        let kinds = oracle.kinds(column);
        let as_text = column_type(oracle, column) == Type::Text && kinds != [TEXT] && kinds != [ADDRESS];
        oracle.is_object(column)
            || oracle.resolve(column).len() > 1
            || as_text
            || compares_text_with_number(oracle, condition)
    };
    Ok(columns.into_iter().any(differs))
}

fn compares_text_with_number(oracle: &Oracle, condition: &Value) -> bool {
    let Ok((kind, body)) = only(condition) else { return false };
    match kind {
        "and" | "or" => (0..2).any(|at| compares_text_with_number(oracle, &body[at])),
        "not" => compares_text_with_number(oracle, body),
        _ => {
            let column = body[0].as_str().unwrap_or_default();
            let constants = body.as_array().into_iter().flatten().flat_map(|one| match one {
                Value::Array(all) => all.iter().collect(),
                one => vec![one],
            });
            oracle.kinds(column) == [TEXT] && constants.into_iter().any(Value::is_number)
        }
    }
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
    let name = || body[0].as_str().ok_or("a column");
    let values = || -> Answer<Vec<Typed>> {
        let name = name()?;
        // The column of the time holds the documents' times and nothing else.
        if oracle.is_time(name) {
            return Ok(doc.time_ns.map(Typed::Date).into_iter().collect());
        }
        Ok(doc.at(name).cloned().collect())
    };
    let orders = |constant: &Value| -> Answer<Vec<Ordering>> {
        let is_text = column_type(oracle, name()?) == Type::Text;
        Ok(values()?.iter().filter_map(|value| compare(value, constant, is_text)).collect())
    };
    let compared = |operator: &str, constant: &Value| -> Answer<Option<bool>> {
        let orders = orders(constant)?;
        let any = |test: fn(Ordering) -> bool| orders.iter().any(|order| test(*order));
        Ok((!orders.is_empty()).then(|| match operator {
            "=" => any(Ordering::is_eq),
            "<>" => !any(Ordering::is_eq),
            "<" => any(Ordering::is_lt),
            "<=" => any(Ordering::is_le),
            ">" => any(Ordering::is_gt),
            _ => any(Ordering::is_ge),
        }))
    };
    Ok(match kind {
        "cmp" => compared(body[1].as_str().unwrap_or_default(), &body[2])?,
        "in" => {
            let mut found = Some(false);
            for constant in body[1].as_array().ok_or("values")? {
                found = match (found, compared("=", constant)?) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (None, _) | (_, None) => None,
                    _ => Some(false),
                };
            }
            found.map(|found| found != (body[2] == true))
        }
        "between" => {
            let (low, high) = (orders(&body[1])?, orders(&body[2])?);
            let inside = low.iter().zip(&high).any(|(low, high)| low.is_ge() && high.is_le());
            (!low.is_empty()).then_some(inside != (body[3] == true))
        }
        "null" => Some(values()?.is_empty() != (body[1] == true)),
        "like" => {
            let pattern = body[1].as_str().ok_or("a pattern")?;
            values()?.first().map(|value| is_like(&text_of(value), pattern, '%', '_'))
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

/// How a value compares with a constant, where it does. In a column of text a number is asked of what can be read as one.
fn compare(value: &Typed, constant: &Value, is_text: bool) -> Option<Ordering> {
    if is_text {
        return match constant {
            Value::String(text) => Some(text_of(value).as_str().cmp(text)),
            number => Some(number_of(value)?.compare(Number::of(number).filter(|_| number.is_number())?)),
        };
    }
    match value {
        Typed::Boolean(own) => constant.as_bool().map(|other| own.cmp(&other)),
        Typed::Number(own) => {
            constant.is_number().then(|| Number::of(constant)).flatten().map(|n| own.compare(n))
        }
        // Times have microseconds, in columns and in statements.
        Typed::Date(own) => {
            let other = constant.as_str().and_then(date)?;
            Some(own.div_euclid(1_000).cmp(&other.div_euclid(1_000)))
        }
        Typed::Address(_) | Typed::Text(_) => None,
    }
}

/// The number that a value is or can be read as.
fn number_of(value: &Typed) -> Option<Number> {
    match value {
        Typed::Number(number) => Some(*number),
        Typed::Text(text) => Number::of(&json!(text)),
        _ => None,
    }
}

/// A row of an answer as JSON.
pub(crate) type Row = Vec<Value>;

/// The rows of an engine's answer.
pub(crate) fn rows(answer: &frostline_query::SqlAnswer) -> Answer<Vec<Row>> {
    answer.rows().map(|row| row.map_err(|e| format!("a value that cannot be shown: {e}"))).collect()
}
