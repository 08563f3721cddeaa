//! `frostline sql`.

use std::collections::BTreeSet;

use anyhow::Result;
use frostline_base::IndexName;
use frostline_query::{QueryCost, Sql, SqlRows};
use frostline_show::{Table, note, printable, say, say_json, show_count};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::args::{self, Format};
use crate::commands::search::{Waited, opening_cost, show_cost};
use crate::config::Config;

pub(crate) async fn run(config: &Config, given: &args::Sql) -> Result<Outcome> {
    let query = given.query.as_str();
    let node = config.node()?;
    let format = given.format.unwrap_or(if config.json { Format::Json } else { Format::Table });
    if Sql::shows_tables(query) {
        return show_tables(&node, format).await;
    }
    let mut names = Sql::tables(query)?;
    if query.to_lowercase().contains("information_schema") {
        names = node.catalog().list().await?.iter().map(ToString::to_string).collect();
    }
    let mut tables = Vec::new();
    for name in names {
        let indices = super::indices_of(&node, &name).await?;
        tables.push((name, indices));
    }
    let results = node.results().await;
    let searcher = node.searcher().await?;
    let (opening, opening_cost) = (config.started.elapsed(), opening_cost(&node));
    let mut answer = Sql::over(&searcher, tables, results)?.run(query).await?;
    answer.cost.opening.add(&opening_cost);
    node.close().await;
    let waited = Waited { opening, whole: config.started.elapsed() };
    if format == Format::Json {
        let columns: Vec<Value> = answer
            .schema
            .fields()
            .iter()
            .map(|field| json!({ "name": field.name(), "type": field.data_type().to_string() }))
            .collect();
        let columns = json!(columns);
        say_json(&Document { columns: &columns, rows: answer.json_rows(), cost: &answer.cost })?;
        return Ok(Outcome::Done);
    }
    let columns = answer
        .schema
        .fields()
        .iter()
        .map(|field| Column { name: field.name().clone(), is_number: field.data_type().is_numeric() });
    print(&columns.collect::<Vec<Column>>(), answer.rows().map(|row| Ok(row?)), format)?;
    if format != Format::Csv && format != Format::Lines {
        let rows = answer.batches.iter().map(|batch| batch.num_rows() as u64).sum();
        note!("{}; {}", show_count(rows, "row"), show_cost(&answer.cost, &waited));
    }
    Ok(Outcome::Done)
}

struct Column {
    name: String,
    is_number: bool,
}

async fn show_tables(node: &frostline_node::Node, format: Format) -> Result<Outcome> {
    let records = node.catalog().records().await?;
    let others = records.aliases().keys().chain(records.data_streams().keys());
    let names: BTreeSet<&IndexName> = records.indices().chain(others).collect();
    let rows = names.iter().map(|name| vec![json!(name.as_str())]);
    if format == Format::Json {
        let columns = json!([{ "name": "table_name", "type": "Utf8" }]);
        say_json(&json!({ "columns": columns, "rows": rows.collect::<Vec<_>>() }))?;
    } else {
        print(&[Column { name: "table_name".to_owned(), is_number: false }], rows.map(Ok), format)?;
    }
    Ok(Outcome::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    columns: &'a Value,
    rows: SqlRows<'a>,
    cost: &'a QueryCost,
}

fn print(columns: &[Column], rows: impl Iterator<Item = Result<Vec<Value>>>, format: Format) -> Result<()> {
    match format {
        Format::Csv => {
            let mut out = csv::Writer::from_writer(std::io::stdout().lock());
            out.write_record(columns.iter().map(|column| &column.name))?;
            for row in rows {
                out.write_record(row?.iter().map(cell))?;
            }
            out.flush()?;
        }
        Format::Lines => {
            for row in rows {
                let names = columns.iter().map(|column| column.name.clone());
                say!("{}", Value::Object(names.zip(row?).collect::<Map<String, Value>>()))?;
            }
        }
        Format::Table | Format::Json => {
            let names = columns.iter().map(|column| {
                if column.is_number { format!("{}>", column.name) } else { column.name.clone() }
            });
            let names: Vec<String> = names.collect();
            let mut table = Table::new(&names.iter().map(String::as_str).collect::<Vec<&str>>());
            for row in rows {
                table.row(row?.iter().map(|value| printable(&cell(value))).collect());
            }
            say!("{table}")?;
        }
    }
    Ok(())
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
