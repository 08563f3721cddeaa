use frostline_base::Share;
use frostline_split::{DocumentForm, WriterOptions};
use serde_json::{Value, json};

use crate::testing::{Place, Recorded, numbers};

/// Two splits of so many documents, rendered from row groups of 200.
async fn rendered(rows: usize) -> Place {
    let options =
        WriterOptions { documents: DocumentForm::Rendered, group_rows_max: 200, ..WriterOptions::default() };
    let line = |n| json!({"n": n, "text": format!("some text of {n}")}).to_string();
    Place::with_lines_written(&[(0..rows).map(line).collect(), (rows..2 * rows).map(line).collect()], options)
        .await
}

fn all(size: usize) -> Value {
    json!({"size": size, "sort": ["n"]})
}

/// Few documents of a split are one read, many are one for each row group, and none is read twice.
#[tokio::test]
async fn many_documents_are_read_by_row_group() {
    let place = rendered(1_500).await;
    let reads = Recorded::new(&place.repository);
    let place = place.through(reads.clone());
    for (size, are_apart) in [(900, false), (1_100, true), (1_500, true)] {
        reads.take();
        assert!(place.numbers(&all(size)).await.into_iter().eq(0..size as i64));
        let read: Vec<_> = reads.take().into_iter().filter(|(share, _)| *share == Share::Source).collect();
        let mut ranges: Vec<_> =
            read.iter().flat_map(|(_, ranges)| ranges).map(|range| range.start).collect();
        let count = ranges.len();
        assert!(count >= size / 200);
        assert_eq!(read.len(), if are_apart { count } else { 1 }, "{size}");
        ranges.sort_unstable();
        ranges.dedup();
        assert_eq!(ranges.len(), count);
    }
}

/// Of a split of which a row group is damaged nothing is shown, though others of its row groups were read.
#[tokio::test]
async fn a_split_that_fails_in_part_is_not_shown_in_part() {
    let place = rendered(1_500).await;
    let split = place.index.splits().iter().min_by_key(|split| split.rows).unwrap();
    let open = place.searcher.open(split, std::future::ready(None), &Default::default()).await.unwrap();
    let group = open.split.documents(Some(&[700].into_iter().collect())).unwrap().ranges()[0].clone();
    place.damage(&split.object, group.start + 10..group.start + 20).await;
    place.searcher.forget();
    let answer = place.answer(&all(3_000)).await;
    assert!(answer.is_partial());
    let shown = numbers(&answer);
    assert_eq!(shown.len(), 1_500);
    assert!(shown.iter().is_sorted_by_key(|n| *n) && (shown[0] == 0 || shown[0] == 1_500), "{}", shown[0]);
}
