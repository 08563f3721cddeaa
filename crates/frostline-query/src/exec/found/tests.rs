use arrow::array::UInt32Array;
use frostline_base::ErrorKind;

use super::*;

fn hits(documents: &[Option<&str>]) -> RecordBatch {
    let texts: ArrayRef = Arc::new(documents.iter().copied().collect::<StringViewArray>());
    let rows: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..documents.len() as u32));
    RecordBatch::try_from_iter_with_nullable([("_row", rows, true), (SOURCE, texts, true)]).unwrap()
}

fn found(hits: Vec<RecordBatch>) -> Found {
    Found { hits, state: Some(Buffer::from(vec![1_u8, 2])), report: Report::default() }
}

#[test]
fn documents_are_handed_on_without_a_copy() {
    let long = "a text that is too long to be in a view";
    let batches = vec![hits(&[Some(long), None]), hits(&[]), hits(&[Some(""), Some("short")])];
    let written = found(batches.clone()).write().unwrap();
    let read = Found::read(&written).unwrap();
    assert_eq!(read.hits, batches);
    assert_eq!(read.state.unwrap().as_slice(), [1, 2]);
    let text = |batch: &RecordBatch| batch.column(1).as_string_view().value(0).as_ptr();
    assert_eq!(text(&read.hits[0]), text(&batches[0]));
}

#[test]
fn hits_without_documents_have_none_again() {
    let rows = hits(&[Some("{}"), Some("{}")]).project(&[0]).unwrap();
    for hits in [vec![], vec![rows.clone()], vec![rows.slice(0, 1), rows]] {
        assert_eq!(Found::read(&found(hits.clone()).write().unwrap()).unwrap().hits, hits);
    }
}

#[test]
fn an_answer_with_fewer_documents_or_more_is_corrupt() {
    let of = |documents: &[Option<&str>]| found(vec![hits(documents)]).write().unwrap();
    let (one, two) = (of(&[Some("{}")]), of(&[Some("{}"), Some("{}")]));
    for (hits, documents) in [(&one, &two), (&two, &one)] {
        let mut columns = hits.columns().to_vec();
        columns[1] = Arc::clone(documents.column(1));
        let mixed = RecordBatch::try_new(schema(), columns).unwrap();
        assert_eq!(Found::read(&mixed).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    assert_eq!(Found::read(&one.project(&[0, 2, 3]).unwrap()).unwrap_err().kind(), ErrorKind::Corrupt);
}
