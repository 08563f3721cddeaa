//! A stored state of an aggregation, read, merged and finalized. The first byte names the aggregation.
//!
//! `FROSTLINE_BLESS=1 scripts/fuzz.sh 1 agg_state` writes its seeds.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use frostline_fuzz::questions::aggregations;
use frostline_fuzz::rows;
use frostline_query::agg::{AggState, AggTree, FinalizeOptions};

static TREES: LazyLock<Vec<AggTree>> = LazyLock::new(|| {
    let parse =
        |aggs: &&str| aggregations(&serde_json::from_str(aggs).expect("JSON")).expect("an aggregation");
    rows::AGGREGATIONS.iter().map(parse).collect()
});

libfuzzer_sys::fuzz_target!(init: write_seeds(), |bytes: &[u8]| {
    let Some((first, stored)) = bytes.split_first() else { return };
    let tree = &TREES[usize::from(*first) % TREES.len()];
    let Ok(mut stored) = postcard::from_bytes::<AggState>(stored) else { return };
    stored.relabel_split(3);
    let options = FinalizeOptions { buckets_max: 10_000, typed_keys: false };
    let _ = stored.clone().finalize(tree, options, &());
    let mut merged = rows::state(tree, 1).expect("a state of the rows");
    if merged.merge(stored.clone(), tree, rows::MEMORY_BYTES_MAX).is_ok() {
        merged.merge(stored, tree, rows::MEMORY_BYTES_MAX).ok();
        let _ = merged.hits_wanted(tree, options);
        let _ = merged.finalize(tree, options, &());
    }
});

/// A stored state of each aggregation.
fn write_seeds() {
    if std::env::var_os("FROSTLINE_BLESS").is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds/agg_state");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    for (number, tree) in TREES.iter().enumerate() {
        let mut seed = vec![number as u8];
        let state = rows::state(tree, 0).expect("a state of the rows");
        seed.extend(postcard::to_allocvec(&state).expect("a state can be stored"));
        std::fs::write(folder.join(format!("kind-{:02}", number + 1)), seed)
            .expect("the seed can be written");
    }
}
