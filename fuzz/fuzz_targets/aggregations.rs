//! The `aggs` of a request, and the answer for a few rows and for none.
#![no_main]

use frostline_fuzz::questions::aggregations;
use frostline_fuzz::rows;
use frostline_query::agg::{AggState, FinalizeOptions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(aggs) = serde_json::from_slice(bytes) else { return };
    let Ok(tree) = aggregations(&aggs) else { return };
    let options = FinalizeOptions { buckets_max: 10_000, typed_keys: bytes.len().is_multiple_of(2) };
    let _ = AggState::empty(&tree).finalize(&tree, options, &());
    let Ok(state) = rows::state(&tree, 0) else { return };
    let alone = state.clone().finalize(&tree, options, &());
    let mut merged = AggState::empty(&tree);
    merged.merge(state, &tree, rows::MEMORY_BYTES_MAX).expect("a state fits its tree");
    let merged = merged.finalize(&tree, options, &());
    // An empty state adds nothing.
    let text = |json| serde_json::to_string(&json).expect("an answer is JSON");
    match (alone.map(text), merged.map(text)) {
        (Ok(alone), Ok(merged)) => assert_eq!(alone, merged),
        (alone, merged) => assert_eq!(alone.is_err(), merged.is_err()),
    }
});
