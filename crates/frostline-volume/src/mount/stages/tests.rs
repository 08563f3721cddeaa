use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;

use super::*;
use crate::testing::{Bench, noise, snapshot};

/// A directory of a server: its table has 40 chunks, of which the last is equal to the first of another one.
async fn cluster_tree(bench: &Bench) -> (tempfile::TempDir, Arc<Tree>) {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, bytes: Vec<u8>| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let table = noise(1, 40 << 19);
    write("base/5/16400", table[39 << 19..].to_vec());
    write("base/5/16384", table);
    write("base/5/1259", noise(2, 700_000));
    write("global/pg_control", crate::control::tests::control(1, 0x2_0300_0028, 16 << 20));
    write("pg_wal/000000010000000200000002", noise(3, 600_000));
    write("pg_wal/000000010000000200000003", noise(4, 600_000));
    write("pg_xact/0000", noise(5, 8_192));
    write("PG_VERSION", b"15\n".to_vec());
    let taken = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    let tree = Arc::new(bench.volumes().tree(&taken).await.unwrap());
    (folder, tree)
}

fn all(tree: &Arc<Tree>, known: &Known) -> Vec<Batch> {
    let mut stages = Stages::new(tree);
    let first = stages.start();
    [first, stages.others(known)].concat()
}

/// The files of a stage, and how many chunks it has of each.
fn files(tree: &Tree, batches: &[Batch], stage: FillStage) -> BTreeMap<String, usize> {
    let mut files = BTreeMap::new();
    for chunk in batches.iter().filter(|batch| batch.stage == stage).flat_map(|batch| &batch.chunks) {
        let of = tree
            .entries
            .iter()
            .find(|entry| matches!(&entry.node, Node::File { chunks, .. } if chunks.contains(chunk)));
        *files.entry(of.unwrap().show()).or_default() += 1;
    }
    files
}

#[tokio::test]
async fn a_server_is_filled_in_the_order_in_which_it_needs_its_data() {
    let bench = Bench::new();
    let (_folder, tree) = cluster_tree(&bench).await;
    let file = |path: &str| Finder::new(&tree).file(path.as_bytes()).unwrap();
    let chunk = |path: &str, number| Finder::new(&tree).chunk(file(path), number).unwrap();
    let list = "<<70>>\n".to_owned()
        + &(64..128).map(|block| format!("5,1663,16384,0,{block}\n")).collect::<String>()
        + &[0, 640, 641, 642, 643, 39 * 64].map(|block| format!("5,1663,16384,0,{block}\n")).concat();
    let known = Known {
        control: Control::read(&crate::control::tests::control(1, 0x2_0300_0028, 16 << 20)),
        hot: Hot::of(list.as_bytes(), &tree, b"", Sizes::default()),
        trace: Arc::new(Trace::default().after(
            &tree,
            &[(file("base/5/16384"), 30), (file("base/5/16384"), 10)],
            |_| true,
        )),
    };
    let batches = all(&tree, &known);
    let named = |names: &[(&str, usize)]| {
        names.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<BTreeMap<_, _>>()
    };
    let of = |stage| files(&tree, &batches, stage);
    assert_eq!(
        of(FillStage::Start),
        named(&[
            ("PG_VERSION", 1),
            ("base/5/1259", 2),
            // Its start, and what is equal to the start of the other one.
            ("base/5/16384", 2),
            ("base/5/16400", 1),
            ("global/pg_control", 1),
            ("pg_wal/000000010000000200000003", 2),
            ("pg_xact/0000", 1),
        ])
    );
    assert_eq!(of(FillStage::Autoprewarm), named(&[("base/5/16384", 2)]), "two of the four are a start");
    assert_eq!(of(FillStage::Trace), named(&[("base/5/16384", 1)]), "the other one was hot");
    assert_eq!(of(FillStage::Rest), named(&[("base/5/16384", 35), ("pg_wal/000000010000000200000002", 2)]));
    let in_order: Vec<usize> = batches.iter().flat_map(|batch| batch.chunks.clone()).collect();
    let at = |path: &str, number| in_order.iter().position(|other| *other == chunk(path, number)).unwrap();
    let in_turn = [0, 1, 10, 30, 2].map(|number| at("base/5/16384", number));
    assert!(in_turn.is_sorted(), "{in_turn:?}");
    // What is equal to a root comes with it.
    let roots = Stages::new(&tree).roots(vec![chunk("base/5/16384", 20), chunk("base/5/16400", 0)]);
    assert_eq!(files(&tree, &roots, FillStage::Start), named(&[("base/5/16384", 2), ("base/5/16400", 1)]));
    assert!(
        in_order.ends_with(&[0, 1].map(|n| chunk("pg_wal/000000010000000200000002", n))),
        "nobody needs it"
    );
    assert!(at("global/pg_control", 0) < at("base/5/1259", 0));
    let parts = parts(&tree, &batches);
    let stages: Vec<FillStage> = parts.iter().map(|part| part.stage).collect();
    assert_eq!(stages, [FillStage::Start, FillStage::Autoprewarm, FillStage::Trace, FillStage::Rest]);
    assert_eq!(
        parts.iter().map(|part| part.bytes).sum::<u64>(),
        tree.chunks.iter().map(|c| u64::from(c.bytes)).sum::<u64>()
    );
}

#[tokio::test]
async fn a_directory_without_a_server_is_filled_by_its_trace_then_in_the_order_of_the_packs() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    for n in 0..4 {
        fs::write(folder.path().join(format!("f{n}")), noise(n, 900_000)).unwrap();
    }
    let taken = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    let tree = Arc::new(bench.volumes().tree(&taken).await.unwrap());
    let trace = Arc::new(Trace::default().after(&tree, &[(4, 1), (2, 0)], |_| true));
    let batches = all(&tree, &Known { trace, ..Known::default() });
    let stages: Vec<FillStage> = batches.iter().map(|batch| batch.stage).collect();
    assert_eq!(stages.first(), Some(&FillStage::Trace));
    assert!(stages[1..].iter().all(|stage| *stage == FillStage::Rest));
    assert_eq!(batches[0].chunks, [7, 2]);
    let without = all(&tree, &Known::default());
    let packs = crate::reader::batches(&tree, targets(&tree), BATCH_BYTES);
    let packs: Vec<Vec<usize>> =
        packs.into_iter().map(|b| b.into_iter().map(|t| t.chunk).collect()).collect();
    assert_eq!(without.into_iter().map(|batch| batch.chunks).collect::<Vec<_>>(), packs);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn each_chunk_is_filled_once_whatever_is_known(
        wanted in prop::collection::vec((0..9usize, 0..50u64), 0..30),
        blocks in prop::collection::vec(0..3_000u32, 0..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bench = Bench::new();
        let (_folder, tree) = runtime.block_on(cluster_tree(&bench));
        let list = format!("<<{}>>\n", blocks.len())
            + &blocks.iter().map(|block| format!("5,1663,16384,0,{block}\n")).collect::<String>();
        let known = Known {
            hot: Hot::of(list.as_bytes(), &tree, b"", Sizes::default()),
            trace: Arc::new(Trace::default().after(&tree, &wanted, |_| true)),
            ..Known::default()
        };
        let mut chunks: Vec<usize> = all(&tree, &known).into_iter().flat_map(|batch| batch.chunks).collect();
        chunks.sort_unstable();
        prop_assert_eq!(chunks, (0..tree.chunks.len()).collect::<Vec<_>>());
    }
}
