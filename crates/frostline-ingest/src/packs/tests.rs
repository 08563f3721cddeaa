use std::fmt::Write as _;

use frostline_store::{OpenOptions, RetryOptions};

use super::*;
use crate::inputs::Inputs;
use crate::merge::{Merge, MergePolicy};
use crate::pipeline::IngestOptions;
use crate::pipeline::tests::{Bench, name};
use frostline_commits::testing::Faulty;

/// Ingests so many documents, each of a split of its own.
async fn ingest(bench: &Bench, repository: &Repository, first: usize, count: usize) -> Result<()> {
    run(bench, repository, first, count, true).await
}

async fn run(bench: &Bench, repository: &Repository, first: usize, count: usize, needle: bool) -> Result<()> {
    let text = (first..first + count).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, r#"{{"@timestamp":"2025-01-01T{:02}:{:02}:00Z","n":{n}}}"#, n / 60, n % 60);
        text
    });
    let path = bench.write(&format!("{first}-{count}.ndjson"), text.as_bytes());
    let options = IngestOptions { threads: 1, split_rows_max: 1, needle, ..IngestOptions::default() };
    bench.ingest(repository).run(Inputs::from_arguments(&[path]).unwrap(), &name(), options).await.map(drop)
}

fn packs(bench: &Bench) -> Packs {
    packs_in(bench.repository(), bench)
}

fn packs_in(repository: Repository, bench: &Bench) -> Packs {
    let (cancel, held) = (Cancel::default(), HeldFooters::default());
    Packs { repository, random: bench.random(), cancel, splits_min: PACK_SPLITS_MIN, held }
}

/// How many splits each pack has, ascending. Each has what its splits have.
async fn sizes(bench: &Bench) -> Vec<usize> {
    let (packs, index, mut sizes) = (packs(bench), bench.index().await, Vec::new());
    for known in known(&index) {
        let pack = packs.open(&known).await.unwrap();
        sizes.push(pack.len());
        for split in pack.splits().filter_map(|id| index.split(id)) {
            let place = pack.place(split.id).unwrap().clone();
            let packed = packs.read(&known.file.object, place).await.unwrap();
            assert_eq!(packed, packs.read(&split.object, split.footer.clone()).await.unwrap());
        }
        assert_eq!(pack.len(), known.about.splits);
    }
    sizes.sort_unstable();
    sizes
}

fn path(bench: &Bench, file: &FileEntry) -> std::path::PathBuf {
    bench.folder.path().join("repository").join(&file.object.key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packs_are_written_for_many_splits_and_grow() {
    let bench = Bench::new();
    let repository = bench.repository();
    ingest(&bench, &repository, 0, 31).await.unwrap();
    assert_eq!(sizes(&bench).await, [0; 0]);
    ingest(&bench, &repository, 31, 5).await.unwrap();
    assert_eq!(sizes(&bench).await, [36]);
    ingest(&bench, &repository, 36, 31).await.unwrap();
    assert_eq!(sizes(&bench).await, [36]);
    ingest(&bench, &repository, 67, 1).await.unwrap();
    assert_eq!(sizes(&bench).await, [68]);
    ingest(&bench, &repository, 68, 33).await.unwrap();
    assert_eq!(sizes(&bench).await, [33, 68], "a pack of more than twice as many is left");
    let index = bench.index().await;
    assert_eq!(index.history(1).await.unwrap()[0].operation, "pack");
    assert_eq!(packs(&bench).write(index.clone()).await.unwrap().version(), index.version());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_footers_of_the_same_run_are_packed_without_reading_them() {
    let gets = async |splits, packed: &[usize]| {
        let bench = Bench::new();
        let repository = bench.repository();
        ingest(&bench, &repository, 0, splits).await.unwrap();
        assert_eq!(sizes(&bench).await, packed);
        repository.meter().cost().gets
    };
    // Merging needle segments takes some of each split.
    let (few, many) = (gets(31, &[]).await, gets(40, &[40]).await);
    assert!(many < few + 40, "{few} {many}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_goes_with_its_splits() {
    let bench = Bench::new();
    ingest(&bench, &bench.repository(), 0, 40).await.unwrap();
    assert_eq!(sizes(&bench).await, [40]);
    let merge = Merge::new(&bench.repository(), &Bench::catalog(&bench.repository()), bench.random());
    let policy = MergePolicy { rows_max: 4, ..MergePolicy::default() };
    merge.run(&name(), &policy).await.unwrap();
    assert_eq!(bench.index().await.splits().len(), 10);
    assert_eq!(sizes(&bench).await, [0; 0], "those of merged splits are gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_or_missing_pack_is_written_anew() {
    for damage in ["", "FROSTPK1 and nothing else", "cut", "footers"] {
        let bench = Bench::new();
        ingest(&bench, &bench.repository(), 0, 40).await.unwrap();
        let file = known(&bench.index().await).next().unwrap().file;
        match damage {
            "" => std::fs::remove_file(path(&bench, &file)).unwrap(),
            "cut" | "footers" => {
                let mut bytes = std::fs::read(path(&bench, &file)).unwrap();
                let half = bytes.len() / 2;
                if damage == "cut" {
                    bytes.truncate(half)
                } else {
                    bytes[half..].fill(7)
                }
                std::fs::write(path(&bench, &file), bytes).unwrap();
            }
            text => std::fs::write(path(&bench, &file), text).unwrap(),
        }
        ingest(&bench, &bench.repository(), 40, 32).await.unwrap();
        assert_eq!(sizes(&bench).await, [72], "{damage:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_whose_footer_is_damaged_is_in_no_pack() {
    let bench = Bench::new();
    ingest(&bench, &bench.repository(), 0, 31).await.unwrap();
    let split = bench.index().await.splits()[3].clone();
    let object = bench.folder.path().join("repository").join(&split.object.key);
    let mut bytes = std::fs::read(&object).unwrap();
    bytes[split.footer.start as usize + 30] ^= 1;
    std::fs::write(&object, bytes).unwrap();
    ingest(&bench, &bench.repository(), 31, 5).await.unwrap();
    assert_eq!(sizes(&bench).await, [35]);
}

/// Killed at any write, applied or not, packing has lost nothing, and another run packs what is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_write_packing_loses_nothing() {
    let bench = Bench::new();
    let (store, mut died) = (Faulty::sound(), 0);
    let retry = RetryOptions { attempts_max: 1, ..RetryOptions::default() };
    let options = OpenOptions { retry, ..OpenOptions::default() };
    let repository = || Repository::with_store("memory:", Arc::new(store.clone()), &options);
    let catalog = || Bench::catalog(&repository());
    let open = async || catalog().open(&name()).await.unwrap();
    let live = |index: &Index| index.splits().iter().map(|split| split.id).collect::<BTreeSet<_>>();
    ingest(&bench, &repository(), 0, 1).await.unwrap();
    for round in 0..8 {
        // A run without needle segments packs nothing either.
        run(&bench, &repository(), 1 + round * 33, 33, false).await.unwrap();
        let before = open().await;
        let packs_before = known(&before).count();
        store.die_after(round as i64 / 2, round % 2 == 0);
        let packs = |repository| packs_in(repository, &bench);
        died += usize::from(packs(repository()).write(before.clone()).await.is_err());
        store.revive();
        let after = open().await;
        assert_eq!(live(&before), live(&after));
        let packed = packs(repository()).write(after).await.unwrap();
        assert!(
            known(&packed).map(|one| one.about.splits).sum::<usize>() >= 33 * (round + 1),
            "{packs_before}"
        );
        for known in known(&packed) {
            packs(repository()).open(&known).await.unwrap();
        }
    }
    assert!(died > 0, "no write was stopped");
}
