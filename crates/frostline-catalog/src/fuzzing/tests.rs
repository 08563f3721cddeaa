use frostline_split::Mapping;
use proptest::prelude::*;

use super::*;
use crate::testing::{Faulty, adding, catalog, entry, name};
use crate::{Change, Settings};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_bytes_pass_every_door(bytes: Vec<u8>) {
        commits(&bytes);
        checkpoint(&bytes);
    }
}

const LOG: &[u8] = include_bytes!("../../../../fuzz/seeds/catalog_commit/three-versions");
const CHECKPOINT: &[u8] = include_bytes!("../../../../fuzz/seeds/catalog_checkpoint/three-versions");

/// The seeds are what they claim to be; a fuzzer that starts from damage finds little.
#[test]
fn the_seeds_of_the_repository_log_are_sound() {
    let entry = include_bytes!("../../../../fuzz/seeds/repository_log/entry");
    let checkpoint = include_bytes!("../../../../fuzz/seeds/repository_log/checkpoint");
    let text = include_str!("../../../../fuzz/seeds/index_expression/everything");
    let read = LogEntry::decode(0, "entry", entry).unwrap();
    assert!(Registry::default().apply(&read).is_ok());
    let objects = [(Path::from("checkpoint"), Bytes::from_static(checkpoint))];
    assert_eq!(crate::repository_log::read_checkpoint(1, &objects).unwrap().indices.len(), 1);
    for bytes in [&entry[..], &checkpoint[..]] {
        repository_log(bytes);
    }
    expression(text, 1_711_110_645_123_456);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_damaged_log_passes_every_door(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        for (seed, door) in [(LOG, commits as fn(&[u8])), (CHECKPOINT, super::checkpoint)] {
            let mut bytes = seed.to_vec();
            for (at, byte) in &edits {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            door(&bytes);
        }
    }
}

/// A log of three commits, and its checkpoint. What the fuzz targets start from; `FROSTLINE_BLESS=1` writes
/// them to `fuzz/seeds`.
#[tokio::test]
async fn seeds_are_a_log() {
    let store = Faulty::sound();
    let settings = Settings { checkpoint_commits: 2, ..Settings::default() };
    let index = catalog(&store).create(&name("logs"), Mapping::dynamic(), settings).await.unwrap();
    let index = index.commit(adding(index.name(), [1, 2])).await.unwrap();
    let remove = vec![entry(index.name(), 2).id];
    index.commit(Change { remove, progress: vec![("s".to_owned(), 5)], ..Change::default() }).await.unwrap();
    let mut log = Vec::new();
    for version in 0..3 {
        log.extend_from_slice(&store.read(&format!("logs/_delta_log/{version:020}.json")).await);
        log.push(b'\n');
    }
    let checkpoint = store.read("logs/_delta_log/00000000000000000002.checkpoint.parquet").await;
    commits(log.trim_ascii_end());
    super::checkpoint(&checkpoint);
    if std::env::var_os("FROSTLINE_BLESS").is_some() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
        for (target, seed) in [("catalog_commit", log.trim_ascii_end()), ("catalog_checkpoint", &checkpoint)]
        {
            std::fs::create_dir_all(folder.join(target)).unwrap();
            std::fs::write(folder.join(target).join("three-versions"), seed).unwrap();
        }
    }
}
