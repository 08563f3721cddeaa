use std::sync::Arc;

use frostline_base::Share;
use frostline_split::WriterOptions;
use serde_json::{Value, json};

use crate::read::open::Settings;
use crate::testing::{Place, Recorded};

async fn words() -> (Place, Arc<Recorded>) {
    let document = |n: usize| json!({"@timestamp": n, "message": format!("word{n} of all"), "n": n % 7});
    let documents: Vec<Value> = (0..20_000).map(document).collect();
    let place = Place::written(&documents, WriterOptions::default()).await;
    let reads = Recorded::new(&place.repository);
    let place = place.through(reads.clone());
    (place, reads)
}

/// How many documents have the word, and how many ranges of the index are read for it.
async fn asked(place: &Place, reads: &Recorded, word: usize) -> (u64, usize) {
    reads.take();
    let body = json!({"size": 0, "query": {"match": {"message": format!("word{word}")}}});
    let count = place.answer(&body).await.hits.total.unwrap().value;
    let of_index = reads.take().into_iter().filter(|(share, _)| *share == Share::Index);
    (count, of_index.map(|(_, ranges)| ranges.len()).sum())
}

#[tokio::test]
async fn a_block_is_read_for_the_first_of_its_terms() {
    let (place, reads) = words().await;
    let first = asked(&place, &reads, 12_345).await;
    assert!(first.0 == 1 && first.1 > 0, "{first:?}");
    assert_eq!(asked(&place, &reads, 12_345).await, (1, 0), "the same again");
    assert_eq!(asked(&place, &reads, 12_346).await, (1, 0), "its neighbour");
    assert!(asked(&place, &reads, 9_999).await.1 > 0, "of another block");
    place.searcher.forget();
    assert_eq!(asked(&place, &reads, 12_345).await, first);
}

#[tokio::test]
async fn what_is_kept_has_a_bound() {
    let (place, _) = words().await;
    let body = |word| json!({"size": 0, "query": {"match": {"message": format!("word{word}")}}});
    let bytes_max = 256 << 10;
    let place = place.set(Settings { unpacked_bytes_max: bytes_max, ..Settings::default() });
    for word in (0..20_000).step_by(40) {
        assert_eq!(place.answer(&body(word)).await.hits.total.unwrap().value, 1);
        assert!(place.searcher.memory_kept().1 <= bytes_max);
    }
    assert!(place.searcher.memory_kept().1 > 0);
    let place = place.set(Settings { unpacked_bytes_max: 0, ..Settings::default() });
    let first = place.answer(&body(7)).await.cost;
    let again = place.answer(&body(7)).await.cost;
    assert!(first.gets > again.gets && again.gets > 0, "{first:?} {again:?}");
}
