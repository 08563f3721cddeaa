//! `_sql`.

use std::collections::BTreeSet;

use arrow_schema::DataType;
use frostline_base::IndexName;
use frostline_query::{QueryCost, Sql, SqlAnswer, SqlRows};
use frostline_show::{Table, printable};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, Content};
use crate::api::indices;
use crate::api::info::NAME;
use crate::error::{ApiError, Result};
use crate::slow::Searched;
use crate::state::{Call, only};

/// Members of a body that say how the answer is cut into pages and what old clients want: it is one page.
const IGNORED: [&str; 9] = [
    "binary_format",
    "client_id",
    "fetch_size",
    "field_multi_value_leniency",
    "index_using_frozen",
    "mode",
    "page_timeout",
    "request_timeout",
    "version",
];

/// `POST /_sql`.
pub(crate) async fn sql(call: Call) -> Result<Answer> {
    let body = call.object()?;
    check(&body)?;
    let query = body.get("query").and_then(Value::as_str);
    let query = query
        .ok_or_else(|| ApiError::invalid("Validation Failed: 1: one of [query] or [cursor] is required;"))?;
    let columnar = body.get("columnar").and_then(Value::as_bool).unwrap_or(false);
    let node = &call.state.node;
    let (mut tables, mut filtered, mut searched) = (Vec::new(), Vec::new(), Vec::new());
    for name in Sql::tables(query).map_err(read)? {
        let how = frostline_catalog::Resolve { allow_no_indices: false, ..Default::default() };
        let (indices, filters) = indices::open_filtered(&call.state, &call.client.scope, &name, how).await?;
        searched.extend(indices.iter().cloned());
        let mut own = indices.iter().map(|index| filters.get(index.name()));
        match own.next().flatten() {
            None if own.all(|filter| filter.is_none()) => tables.push((name, indices)),
            Some(filter) if own.all(|other| other == Some(filter)) => {
                let filter = filter.clone();
                filtered.push((name, indices, filter));
            }
            _ => {
                return Err(ApiError::unsupported(format!(
                    "[{name}] reads indices through different filters of aliases, and a table has one"
                )));
            }
        }
    }
    let options = node.search_options(true, true).await;
    let mut sql = Sql::over(&node.searcher().await?, tables, options.results.clone())?;
    for (name, indices, filter) in &filtered {
        sql = sql.with_filtered(name, indices, filter, &options)?;
    }
    let answer = match Sql::shows_tables(query) {
        true => tables_of(&call, &sql).await?,
        false => {
            let records = node.catalog().seen_records();
            let searching = call.state.counts.begin_search(records.as_ref(), &searched, &[]);
            let answer = sql.run(query).await.map_err(read)?;
            searching.ended(&BTreeSet::new());
            answer
        }
    };
    let ignored = body.keys().filter(|name| IGNORED.contains(&name.as_str()));
    let warnings: Vec<String> =
        ignored.map(|name| format!("[{name}] has no effect: the answer is whole")).collect();
    let shown = match call.params.get("format").unwrap_or("json") {
        "json" if columnar => {
            Answer::json(&json!({ "columns": columns(&answer), "values": values(&answer)? }))
        }
        "json" => {
            Answer::json(&Rows { columns: columns(&answer), rows: answer.json_rows(), cost: &answer.cost })
        }
        "csv" => separated(&answer, b',', "text/csv; charset=utf-8; header=present"),
        "tsv" => separated(&answer, b'\t', "text/tab-separated-values; charset=utf-8"),
        "txt" => text(&answer),
        other => Err(ApiError::invalid(format!("invalid format [{other}]: json, csv, tsv or txt"))),
    };
    Ok(shown?.that_searched(Searched::from(&answer.cost)).with_warnings(warnings))
}

/// The indices and aliases, as Elasticsearch lists them.
async fn tables_of(call: &Call, sql: &Sql) -> Result<SqlAnswer> {
    let (state, scope) = (&call.state, &call.client.scope);
    let records = state.node.records().await?;
    let indices = indices::names(state, scope, "*", frostline_catalog::Resolve::default()).await?;
    let aliases = records.aliases().keys().filter(|name| scope.allows(name));
    let row = |name: &IndexName, ty: &str, kind: &str| [NAME, name.as_str(), ty, kind].map(str::to_owned);
    let indices = indices.iter().map(|name| row(name, "TABLE", "INDEX"));
    // To Elasticsearch a data stream is an alias.
    let streams = records.data_streams().keys().filter(|name| scope.allows(name));
    let others = aliases.chain(streams).map(|name| row(name, "VIEW", "ALIAS"));
    let mut rows: Vec<_> = indices.chain(others).collect();
    rows.sort_unstable();
    Ok(sql.texts(["catalog", "name", "type", "kind"], &rows)?)
}

fn check(body: &Map<String, Value>) -> Result<()> {
    let mut known = vec!["columnar", "cursor", "filter", "params", "query", "runtime_mappings", "time_zone"];
    known.extend(IGNORED);
    only(body, &known)?;
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let has = |name: &str| body.get(name).is_some_and(|value| !is_empty(value));
    if has("cursor") {
        return Err(ApiError::invalid("there are no cursors: the first answer is whole"));
    }
    for (name, instead) in [
        ("filter", "write the condition into WHERE"),
        ("params", "write the values into the query"),
        ("runtime_mappings", "write the expression into the query"),
    ] {
        if has(name) {
            return Err(ApiError::unsupported(format!("[{name}] is not supported: {instead}")));
        }
    }
    match body.get("time_zone").and_then(Value::as_str) {
        None | Some("Z" | "UTC") => Ok(()),
        Some(zone) => Err(ApiError::unsupported(format!("times are UTC, and [time_zone] is [{zone}]"))),
    }
}

fn read(error: frostline_base::Error) -> ApiError {
    ApiError::from(error).named("verification_exception")
}

fn columns(answer: &SqlAnswer) -> Vec<Value> {
    let columns = answer.schema.fields().iter();
    columns.map(|field| json!({ "name": field.name(), "type": type_name(field.data_type()) })).collect()
}

/// A type by the name that Elasticsearch has for it.
fn type_name(ty: &DataType) -> String {
    let name = match ty {
        DataType::Null => "null",
        DataType::Boolean => "boolean",
        DataType::Int8 => "byte",
        DataType::Int16 | DataType::UInt8 => "short",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 | DataType::UInt32 | DataType::Decimal128(_, 0) => "long",
        DataType::UInt64 => "unsigned_long",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Timestamp(..) => "datetime",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::List(item) => return type_name(item.data_type()),
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}

#[derive(Serialize)]
struct Rows<'a> {
    columns: Vec<Value>,
    rows: SqlRows<'a>,
    cost: &'a QueryCost,
}

/// The values of each column.
fn values(answer: &SqlAnswer) -> Result<Vec<Vec<Value>>> {
    let mut columns = vec![Vec::new(); answer.schema.fields().len()];
    for row in answer.rows() {
        for (column, value) in columns.iter_mut().zip(row?) {
            column.push(value);
        }
    }
    Ok(columns)
}

fn separated(answer: &SqlAnswer, by: u8, media: &'static str) -> Result<Answer> {
    let unwritten = |e| frostline_base::Error::internal("an answer cannot be written as CSV").with_source(e);
    let mut out = csv::WriterBuilder::new().delimiter(by).from_writer(Vec::new());
    out.write_record(answer.schema.fields().iter().map(|field| field.name())).map_err(unwritten)?;
    for row in answer.rows() {
        out.write_record(row?.iter().map(cell)).map_err(unwritten)?;
    }
    let bytes = out.into_inner().map_err(|_| frostline_base::Error::internal("an answer was not written"))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Answer { content: Content::Text { media, text }, ..Answer::text(String::new()) })
}

fn text(answer: &SqlAnswer) -> Result<Answer> {
    let names: Vec<&str> = answer.schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut table = Table::new(&names);
    for row in answer.rows() {
        table.row(row?.iter().map(|value| printable(&cell(value)).to_string()).collect());
    }
    Ok(Answer::text(format!("{table}\n")))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
