use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use frostline_base::{FixedClock, Meter, ReadRanges as _, Share, SplitId};
use frostline_catalog::{Change, Vacuum};
use frostline_commits::testing::Faulty;
use frostline_needle::{KIND, Kinds, Lookup};
use frostline_split::{TakeTerms as _, Term, Value, ValueType};
use frostline_store::{OpenOptions, Repository, RetryOptions};

use super::*;
use crate::inputs::Inputs;
use crate::merge::{Merge, MergePolicy};
use crate::pipeline::tests::{Bench, name};
use crate::pipeline::{IngestOptions, IngestReport};

/// Documents from `first` on, each of a split of its own.
fn documents(first: usize, count: usize) -> String {
    (first..first + count).fold(String::new(), |mut text, n| {
        let _ = writeln!(
            text,
            r#"{{"@timestamp":"2025-01-01T00:{:02}:{:02}Z","n":{n},"id":"user-{n:04}","took":{}.5}}"#,
            n / 60 % 60,
            n % 60,
            n % 7
        );
        text
    })
}

fn options(rows: u32) -> IngestOptions {
    IngestOptions { threads: 1, split_rows_max: rows, ..IngestOptions::default() }
}

async fn ingest(
    bench: &Bench,
    repository: &Repository,
    text: &str,
    options: IngestOptions,
) -> Result<IngestReport> {
    // Another file for another text, and the same for the same.
    let path =
        bench.write(&format!("{:x}.ndjson", xxhash_rust::xxh3::xxh3_64(text.as_bytes())), text.as_bytes());
    let inputs = Inputs::from_arguments(&[path]).unwrap();
    bench.ingest(repository).run(inputs, &name(), options).await
}

fn needles(bench: &Bench) -> Needles {
    let repository = bench.repository();
    Needles::new(&repository, &Bench::catalog(&repository), bench.random(), 1 << 30)
}

async fn status(bench: &Bench) -> Status {
    needles(bench).status(&name()).await.unwrap()
}

/// Every split is covered, and its segments are right.
async fn assert_whole(bench: &Bench) {
    let status = status(bench).await;
    assert_eq!(status.covered, status.splits, "{status:?}");
    let verified = needles(bench).verify(&name(), |_, _| {}).await.unwrap();
    assert!(verified.faults.is_empty(), "{:?}", verified.faults);
    assert_eq!((verified.uncovered, verified.splits), (0, status.splits as u64));
}

/// The term of a whole text.
fn user(text: &str) -> Term<'_> {
    Term::of_value(&Value::Text(text)).unwrap()
}

/// Which live splits may have the term, by the segments alone.
async fn ask(bench: &Bench, term: Term<'_>, field: &str) -> Vec<SplitId> {
    let (repository, index) = (bench.repository(), bench.index().await);
    let key = Bench::catalog(&repository).term_key().await.unwrap().unwrap();
    let terms = Terms::new(&index, key);
    let hash = terms.key.of_split(&term);
    let mut found = Vec::new();
    for (known, opened) in segments_of(bench, &terms).open_all(segments::known(&index).collect()).await {
        let segment = opened.unwrap();
        let lookup = Lookup { term: hash, field: Some(field), kinds: Kinds::default() };
        let page = match segment.page(hash) {
            None => Default::default(),
            Some(page) => {
                let (object, meter) = (&known.file.object, Meter::default());
                repository.read_ranges(object, &[page], Share::Index, &meter).await.unwrap().remove(0)
            }
        };
        let splits = segment.answer(&lookup, &page).unwrap();
        found.extend(splits.iter().map(|at| segment.splits()[usize::from(at)]));
    }
    found.retain(|id| index.split(*id).is_some());
    found
}

fn segments_of(bench: &Bench, terms: &Terms) -> Segments {
    Segments {
        repository: bench.repository(),
        random: bench.random(),
        terms: terms.clone(),
        cancel: Default::default(),
    }
}

/// How many splits each segment covers, ascending.
fn covers(index: &Index) -> Vec<usize> {
    let mut splits: Vec<usize> = segments::known(index).map(|one| one.about.splits).collect();
    splits.sort_unstable();
    splits
}

/// An index of so many splits with a run each, and who reads and merges these.
async fn with_runs(bench: &Bench, splits: usize) -> (Index, Segments) {
    let without = IngestOptions { needle: false, ..options(1) };
    ingest(bench, &bench.repository(), &documents(0, splits), without).await.unwrap();
    let index = bench.index().await;
    let key = Bench::catalog(&bench.repository()).term_key_or([1; 16]).await.unwrap();
    let segments = segments_of(bench, &Terms::new(&index, key));
    let mut files_add = Vec::new();
    for split in index.splits() {
        files_add.push(segments.run_again(&index, Arc::clone(split)).await.unwrap());
    }
    (index.commit(Change { files_add, ..Change::default() }).await.unwrap(), segments)
}

/// The objects of segments, live or not.
fn objects(bench: &Bench) -> Vec<std::path::PathBuf> {
    let files = bench.folder.path().join("repository/logs/_files");
    let mut found: Vec<_> = std::fs::read_dir(files)
        .into_iter()
        .flatten()
        .flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_is_committed_with_the_run_of_its_terms() {
    let bench = Bench::new();
    let report = ingest(&bench, &bench.repository(), &documents(0, 10), options(10)).await.unwrap();
    let index = bench.index().await;
    assert_eq!((index.version(), index.splits().len(), covers(&index)), (1, 1, vec![1]));
    assert_eq!(report.needle_bytes, index.files().map(|file| file.object.bytes).sum::<u64>());
    ingest(&bench, &bench.repository(), &documents(10, 20), options(10)).await.unwrap();
    let index = bench.index().await;
    assert_eq!((index.splits().len(), covers(&index)), (3, vec![3]));
    assert_eq!(index.history(1).await.unwrap()[0].operation, "needle");
    assert_whole(&bench).await;
    for (term, field) in
        [(Term::Token("17".into()), "n"), (user("user-0017"), "id"), (Term::Token("0017".into()), "id")]
    {
        let found = ask(&bench, term.clone(), field).await;
        assert_eq!(found.len(), 1, "{term:?}");
    }
    assert!(ask(&bench, user("user-0030"), "id").await.is_empty());
    assert!(ask(&bench, Term::Token("17".into()), "id").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_or_a_run_can_do_without_segments() {
    let bench = Bench::new();
    let without = IngestOptions { needle: false, ..options(10) };
    let report = ingest(&bench, &bench.repository(), &documents(0, 30), without).await.unwrap();
    assert_eq!((report.needle_bytes, bench.index().await.files().count()), (0, 0));
    assert_eq!(Bench::catalog(&bench.repository()).term_key().await.unwrap(), None);
    assert_eq!(status(&bench).await.covered, 0);
    let rebuilt = needles(&bench).rebuild(&name(), false, |_, _| {}).await.unwrap();
    assert_eq!((rebuilt.splits, rebuilt.removed, rebuilt.failed.len()), (3, 0, 0));
    assert_whole(&bench).await;
    assert_eq!(needles(&bench).drop(&name()).await.unwrap(), 1);
    let report = ingest(&bench, &bench.repository(), &documents(30, 10), options(10)).await.unwrap();
    assert_eq!(report.needle_bytes, 0);
    let none = status(&bench).await;
    assert_eq!((none.enabled, none.splits, none.segments.len()), (false, 4, 0));
    needles(&bench).rebuild(&name(), false, |_, _| {}).await.unwrap();
    assert!(status(&bench).await.enabled);
    assert_whole(&bench).await;
}

/// A run is the same, whether the split was just written or its documents are read again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_a_split_again_gives_the_same_run() {
    let bench = Bench::new();
    ingest(&bench, &bench.repository(), &documents(0, 20), options(20)).await.unwrap();
    let written = std::fs::read(&objects(&bench)[0]).unwrap();
    needles(&bench).rebuild(&name(), true, |_, _| {}).await.unwrap();
    let index = bench.index().await;
    let file = index.files().next().unwrap();
    let path = bench.folder.path().join("repository").join(&file.object.key);
    assert_eq!((index.files().count(), std::fs::read(path).unwrap()), (1, written));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_merged_at_the_end_of_a_run() {
    let bench = Bench::new();
    ingest(&bench, &bench.repository(), &documents(0, 70), options(1)).await.unwrap();
    let index = bench.index().await;
    // The first 64 while the run went on.
    assert_eq!(covers(&index), [6, 64]);
    assert_whole(&bench).await;
    assert_eq!(ask(&bench, user("user-0033"), "id").await.len(), 1);
    // Merging again has nothing to do.
    let (repository, version) = (bench.repository(), index.version());
    let key = Bench::catalog(&repository).term_key().await.unwrap().unwrap();
    let segments = segments_of(&bench, &Terms::new(&index, key));
    let (index, joined) = segments.merge(index, Extent::All).await.unwrap();
    assert_eq!((index.version(), joined.before, joined.after), (version, 0, 0));
}

/// The splits are merged to one: its run is new, and of the others nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merged_split_has_a_run_of_its_own() {
    let bench = Bench::new();
    ingest(&bench, &bench.repository(), &documents(0, 40), options(1)).await.unwrap();
    let before = bench.index().await;
    assert_eq!(covers(&before), [40]);
    let repository = bench.repository();
    let merge = Merge::new(&repository, &Bench::catalog(&repository), bench.random());
    let policy = MergePolicy { splits_max: 100, ..MergePolicy::default() };
    let report = merge.run(&name(), &policy).await.unwrap();
    assert_eq!((report.merges, report.splits_after), (1, 1));
    let index = bench.index().await;
    assert_eq!((index.splits().len(), index.files().count()), (1, 1));
    assert_eq!(index.version(), before.version() + 1, "one commit exchanges the splits and their segments");
    assert_whole(&bench).await;
    assert_eq!(ask(&bench, user("user-0033"), "id").await, [index.splits()[0].id]);
}

/// A segment that covers dead and live splits stays until it is merged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_splits_are_left_out_of_the_next_merge() {
    let bench = Bench::new();
    let (index, segments) = with_runs(&bench, 32).await;
    let (index, _) = segments.merge(index, Extent::All).await.unwrap();
    assert_eq!(covers(&index), [32]);
    let kept: BTreeSet<SplitId> = index.splits().iter().take(3).map(|split| split.id).collect();
    let remove = index.splits().iter().map(|split| split.id).filter(|id| !kept.contains(id)).collect();
    let index = index.commit(Change { remove, ..Change::default() }).await.unwrap();
    // By itself it is not written anew.
    let (index, joined) = segments.merge(index, Extent::All).await.unwrap();
    assert_eq!((covers(&index), joined.before), (vec![32], 0));
    ingest(&bench, &bench.repository(), &documents(100, 2), options(1)).await.unwrap();
    let index = bench.index().await;
    assert_eq!((index.splits().len(), covers(&index)), (5, vec![5]));
    assert_whole(&bench).await;
    let remove = index.splits().iter().map(|split| split.id).collect();
    let index = index.commit(Change { remove, ..Change::default() }).await.unwrap();
    let (index, joined) = segments.merge(index, Extent::Small).await.unwrap();
    assert_eq!((index.files().count(), joined.before, joined.after), (0, 1, 0));
}

/// Of 10 runs one is missing, one has a damaged page, and one a damaged directory. The next ingest merges the others, and
/// `rebuild` makes all of it whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_passes_over_what_it_cannot_read() {
    let bench = Bench::new();
    with_runs(&bench, 10).await;
    let runs = objects(&bench);
    assert_eq!(runs.len(), 10);
    std::fs::remove_file(&runs[3]).unwrap();
    let change = |path: &std::path::Path, at: fn(usize) -> usize| {
        let mut bytes = std::fs::read(path).unwrap();
        let at = at(bytes.len());
        bytes[at] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    change(&runs[5], |_| 20);
    change(&runs[7], |length| length - 30);
    let report = ingest(&bench, &bench.repository(), &documents(10, 4), options(1)).await.unwrap();
    assert_eq!((report.documents, report.failed.len()), (4, 0));
    let index = bench.index().await;
    assert_eq!((index.splits().len(), covers(&index)), (14, vec![1, 1, 1, 11]));
    let after = status(&bench).await;
    // A damaged page is known to who reads it.
    assert_eq!((after.covered, after.splits), (12, 14));
    let damaged = after.segments.iter().filter(|one| one.state == SegmentState::Damaged);
    assert_eq!(damaged.filter(|one| one.error.is_some()).count(), 2);
    let verified = needles(&bench).verify(&name(), |_, _| {}).await.unwrap();
    assert_eq!((verified.faults.len(), verified.uncovered), (3, 2), "{:?}", verified.faults);
    for run in [3, 5, 7] {
        let file = runs[run].file_name().unwrap().to_str().unwrap();
        assert!(verified.faults.iter().any(|fault| fault.object.ends_with(file)), "{file}");
    }
    let rebuilt = needles(&bench).rebuild(&name(), false, |_, _| {}).await.unwrap();
    assert_eq!((rebuilt.splits, rebuilt.removed, rebuilt.failed.len()), (3, 3, 0));
    assert_whole(&bench).await;
}

/// A segment that does not say all terms of a split: it claims to be of another split than its terms are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_finds_terms_that_a_segment_does_not_have() {
    let bench = Bench::new();
    let (index, segments) = with_runs(&bench, 2).await;
    let repository = bench.repository();
    let mut forged = segments.terms.run(index.splits()[0].id);
    forged.reading("n", ValueType::Long);
    forged.term(Some(Term::Token("0".into())));
    forged.term(Some(Term::Token("1".into())));
    let (run, about) = sealed(forged).unwrap();
    let id = SplitId::from_random(77);
    let length = run.len() as u64;
    repository.put(&index.file_key(id, KIND), run.into()).await.unwrap();
    let files_add = vec![crate::seal::file_entry(&index, id, KIND, length, about.to_json())];
    index.commit(Change { files_add, ..Change::default() }).await.unwrap();
    let verified = needles(&bench).verify(&name(), |_, _| {}).await.unwrap();
    let [fault] = &verified.faults[..] else { panic!("{:?}", verified.faults) };
    // Two words and the whole of `id`, and the fraction.
    let split = &index.splits()[0].object.key;
    assert!(fault.what.contains(&format!("lacks 3 terms of the split {split}, and 1 of")), "{fault:?}");
    assert!(fault.object.ends_with(&format!("{id}.needle")), "{fault:?}");
    let rebuilt = needles(&bench).rebuild(&name(), true, |_, _| {}).await.unwrap();
    assert_eq!((rebuilt.splits, rebuilt.removed), (2, 3));
    assert_whole(&bench).await;
}

/// The process dies at every write of an ingest that merges runs. The next one finds everything as it was, and ends what
/// was begun. Vacuum then leaves what the index names, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_write_of_a_merge_nothing_is_lost() {
    let (mut died, mut merged) = (0, 0);
    for (write, applied) in (0..).flat_map(|write| [(write, false), (write, true)]) {
        let (bench, store) = (Bench::new(), Faulty::sound());
        let retry = RetryOptions { attempts_max: 1, ..RetryOptions::default() };
        let without_retries = OpenOptions { retry, ..OpenOptions::default() };
        let repository = || Repository::with_store("memory:", Arc::new(store.clone()), &without_retries);
        ingest(&bench, &repository(), &documents(0, 1), options(1)).await.unwrap();
        let text = documents(1, 1);
        store.die_after(write, applied);
        let first = ingest(&bench, &repository(), &text, options(1)).await;
        let is_dead = store.is_dead();
        store.revive();
        died += usize::from(first.is_err());
        merged += usize::from(first.is_ok());
        ingest(&bench, &repository(), &text, options(1)).await.unwrap();
        let index = Bench::catalog(&repository()).open(&name()).await.unwrap();
        assert_eq!(index.splits().iter().map(|split| split.rows).sum::<u64>(), 2, "write {write}");
        assert_eq!(covers(&index), [2], "write {write}");
        let vacuum = Vacuum { retain_ms: 0, orphan_grace_ms: 0, ..Vacuum::default() };
        let clock = Arc::new(FixedClock::at(4_000_000_000_000_000));
        let catalog = Catalog::on(repository().object_store(), clock);
        catalog.open(&name()).await.unwrap().vacuum(&vacuum).await.unwrap();
        let named: Vec<String> = index.files().map(|file| file.object.key.clone()).collect();
        let keys = store.keys().await;
        let kept: Vec<&String> = keys.iter().filter(|key| key.contains("/_files/")).collect();
        assert_eq!(kept, named.iter().collect::<Vec<_>>(), "write {write}");
        let (repository, random) = (repository(), bench.random());
        let needles = Needles::new(&repository, &Bench::catalog(&repository), random, 1 << 30);
        let verified = needles.verify(&name(), |_, _| {}).await.unwrap();
        assert_eq!((verified.faults.len(), verified.uncovered, verified.splits), (0, 0, 2));
        if !is_dead {
            break;
        }
    }
    assert!(died > 4 && merged > 4, "{died} died before their split was in, {merged} later or never");
}

/// Two writers merge the same runs: one of them is first, and the other one leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_merges_at_once_one_is_dropped() {
    let bench = Bench::new();
    let (index, segments) = with_runs(&bench, 80).await;
    let (first, second) = futures::join!(
        segments.merge(index.clone(), Extent::All),
        segments.merge(index.clone(), Extent::All)
    );
    let (first, second) = (first.unwrap().1, second.unwrap().1);
    assert_eq!(first.after + second.after, 2);
    assert_eq!(covers(&bench.index().await), [16, 64]);
    assert_whole(&bench).await;
    assert_eq!(objects(&bench).len(), 80 + 2, "the lost ones are deleted");
}
