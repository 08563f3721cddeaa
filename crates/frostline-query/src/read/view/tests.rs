use frostline_base::Share;
use frostline_split::{DocumentForm, SOURCE_COLUMN, TextAs, WriterOptions};
use serde_json::{Value, json};

use super::*;
use crate::Settings;
use crate::read::output::{Of, Output, bytes_of};
use crate::testing::Place;

/// Pages of documents that are much alike are sixty times smaller, and more.
#[tokio::test]
async fn memory_for_documents_is_reserved_as_they_are_unpacked() {
    let words = "an account was logged on with the same rights as the one before it ".repeat(12);
    let documents: Vec<Value> =
        (0..6_000).map(|n| json!({"n": n, "message": format!("{n} {words}")})).collect();
    let unpacked: usize = documents.iter().map(|document| document.to_string().len()).sum();
    let place = Place::with(&[documents]).await;
    let meter = Meter::default();
    let open = place.searcher.open(&place.index.splits()[0], std::future::ready(None), &meter).await.unwrap();
    let view = place.view(&open, &meter);
    let read = open.split.columns(&[SOURCE_COLUMN], None, TextAs::Plain).unwrap();
    let packed: u64 = read.ranges().iter().map(|range| range.end - range.start).sum();
    assert!(unpacked as u64 > 40 * packed, "{unpacked} {packed}");
    let bounds = unpacked..3 * unpacked;
    assert!(bounds.contains(&view.memory_of(read.ranges(), Share::Source)));
    let source = [Output::new("_source", arrow::datatypes::DataType::Binary, Of::Source)];
    let all = (0..open.split.rows()).collect();
    assert!(bounds.contains(&bytes_of(view, &source, &all).await.unwrap()));
}

/// What is read and decoded to make it again waits for memory of its own.
#[tokio::test]
async fn a_document_that_is_made_again_takes_the_memory_of_one() {
    let words = "an account was logged on with the same rights as the one before it ".repeat(12);
    let documents: Vec<Value> =
        (0..3_000).map(|n| json!({"n": n, "message": format!("{n} {words}")})).collect();
    let options = WriterOptions { documents: DocumentForm::Rendered, ..WriterOptions::default() };
    let place = Place::written(&documents, options).await;
    let place = place.set(Settings { query_bytes_max: 256 << 10, ..Settings::default() });
    let body = json!({"query": {"match": {"n": 777}}, "size": 1});
    assert_eq!(place.numbers(&body).await, [777]);
}
