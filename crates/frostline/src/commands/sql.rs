//! `frostline sql`.

use anyhow::Result;
use frostline_query::{Sql, SqlAnswer, json_value};
use frostline_show::{Table, note, printable, say, say_json, show_count};
use serde_json::{Value, json};

use crate::Outcome;
use crate::commands::search::{Waited, show_cost};
use crate::config::Config;

pub(crate) async fn run(config: &Config, query: &str) -> Result<Outcome> {
    let node = config.node()?;
    let mut indices = Vec::new();
    for name in Sql::tables(query)? {
        indices.push(node.index(&name.parse()?).await?);
    }
    let searcher = node.searcher().await?;
    let opening = config.started.elapsed();
    let answer = Sql::new(&searcher, &indices)?.run(query).await?;
    node.close().await;
    let rows = rows(&answer)?;
    if config.json {
        let columns: Vec<Value> = answer
            .schema
            .fields()
            .iter()
            .map(|field| json!({ "name": field.name(), "type": field.data_type().to_string() }))
            .collect();
        say_json(&json!({ "columns": columns, "rows": rows, "cost": answer.cost }))?;
    } else {
        print(&answer, &rows, &Waited { opening, whole: config.started.elapsed() })?;
    }
    Ok(Outcome::Done)
}

fn rows(answer: &SqlAnswer) -> Result<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    for batch in &answer.batches {
        for at in 0..batch.num_rows() {
            let row = batch.columns().iter().map(|column| json_value(column, at));
            rows.push(row.collect::<frostline_query::Result<Vec<Value>>>()?);
        }
    }
    Ok(rows)
}

fn print(answer: &SqlAnswer, rows: &[Vec<Value>], waited: &Waited) -> Result<()> {
    let names: Vec<String> =
        answer
            .schema
            .fields()
            .iter()
            .map(|field| {
                if field.data_type().is_numeric() {
                    format!("{}>", field.name())
                } else {
                    field.name().clone()
                }
            })
            .collect();
    let mut table = Table::new(&names.iter().map(String::as_str).collect::<Vec<&str>>());
    for row in rows {
        let cells = row.iter().map(|value| match value {
            Value::Null => String::new(),
            Value::String(text) => printable(text),
            other => other.to_string(),
        });
        table.row(cells.collect());
    }
    say!("{table}")?;
    note!("{}; {}", show_count(rows.len() as u64, "row"), show_cost(&answer.cost, waited));
    Ok(())
}
