//! A few rows with a column of every type, for aggregations to count.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, ListArray, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{Int32Type, Int64Type};
use frostline_query::Result;
use frostline_query::agg::{AggState, AggTree, Batch, Collector, FieldColumn, Scope};
use roaring::RoaringBitmap;

use crate::NOW_US;

/// What one state may hold.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;

const ROWS: u32 = 12;

/// Aggregations of every kind; a stored state is of one of them.
pub const AGGREGATIONS: [&str; 12] = [
    r#"{"t":{"terms":{"field":"host"},"aggs":{"s":{"stats":{"field":"status"}}}}}"#,
    r#"{"t":{"terms":{"field":"status","order":{"p.99":"desc"}},"aggs":{"p":{"percentiles":{"field":"took","percents":[50,99]}}}}}"#,
    r#"{"d":{"date_histogram":{"field":"@timestamp","fixed_interval":"1h","min_doc_count":0},"aggs":{"c":{"cardinality":{"field":"host"}}}}}"#,
    r#"{"d":{"date_histogram":{"field":"@timestamp","calendar_interval":"month","time_zone":"Europe/Berlin"}}}"#,
    r#"{"h":{"histogram":{"field":"took","interval":0.5,"min_doc_count":0}}}"#,
    r#"{"r":{"range":{"field":"status","ranges":[{"to":300},{"from":300,"to":500},{"from":500}]},"aggs":{"t":{"terms":{"field":"host"}}}}}"#,
    r#"{"f":{"filters":{"filters":{"a":{"term":{"ok":true}},"b":{"match_all":{}}},"other_bucket":true},"aggs":{"x":{"extended_stats":{"field":"took"}}}}}"#,
    r#"{"m":{"missing":{"field":"client.ip"}},"g":{"global":{},"aggs":{"n":{"value_count":{"field":"status"}}}}}"#,
    r#"{"c":{"composite":{"size":5,"sources":[{"h":{"terms":{"field":"host","missing_bucket":true}}},{"d":{"date_histogram":{"field":"@timestamp","fixed_interval":"1d"}}}]}}}"#,
    r#"{"h":{"top_hits":{"size":3,"sort":[{"took":"desc"},{"host":"asc"}]}}}"#,
    r#"{"r":{"percentile_ranks":{"field":"took","values":[0.5,1,2]}},"c":{"cardinality":{"field":"status","precision_threshold":2}}}"#,
    r#"{"a":{"avg":{"field":"took"}},"b":{"max":{"field":"@timestamp"}},"c":{"sum":{"field":"status"}},"e":{"min":{"field":"ok"}}}"#,
];

/// The state of the rows, as those of this split.
pub fn state(tree: &AggTree, split: u32) -> Result<AggState> {
    let numbers: Vec<u32> = (0..ROWS).collect();
    let columns: Vec<FieldColumn> =
        tree.fields().iter().map(|field| column(field.name())).collect::<Result<_>>()?;
    let even: RoaringBitmap = (0..ROWS).step_by(2).collect();
    let filters = vec![even; tree.filters().len()];
    let mut collector = Collector::new(tree, MEMORY_BYTES_MAX);
    for scope in [Scope::Matching, Scope::Everything] {
        if scope == Scope::Matching || tree.has_global() {
            collector.collect(&Batch {
                split,
                scope,
                rows: &numbers,
                columns: &columns,
                filters: &filters,
                levels: &[],
            })?;
        }
    }
    Ok(collector.finish())
}

fn column(path: &str) -> Result<FieldColumn> {
    let path = path.strip_suffix(".keyword").unwrap_or(path);
    // Every fourth row has no value.
    let rows = || (0..i64::from(ROWS)).map(|row| (row % 4 != 3).then_some(row));
    let hosts = || rows().map(|row| row.map(|row| ["web-1", "web-2", "db"][row as usize % 3]));
    let array: ArrayRef = match path {
        "status" => Arc::new(rows().map(|row| row.map(|row| 200 + row * 51)).collect::<Int64Array>()),
        "took" => {
            Arc::new(rows().map(|row| row.map(|row| row as f64 * 0.37 - 1.0)).collect::<Float64Array>())
        }
        "ok" => Arc::new(rows().map(|row| row.map(|row| row % 2 == 0)).collect::<BooleanArray>()),
        "host" => Arc::new(hosts().collect::<DictionaryArray<Int32Type>>()),
        "message" => Arc::new(hosts().collect::<StringArray>()),
        "@timestamp" => {
            let times: TimestampMicrosecondArray =
                rows().map(|row| row.map(|row| NOW_US - row * 5_000_000_000)).collect();
            Arc::new(times.with_timezone("UTC"))
        }
        "sizes" => {
            let lists = rows().map(|row| row.map(|row| vec![Some(row), Some(row * 1_000), None]));
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
        }
        _ => return Ok(FieldColumn::absent()),
    };
    FieldColumn::new(&[array])
}
