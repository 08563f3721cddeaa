use frostline_catalog::{Change, FileEntry};
use frostline_split::PackedFooter;
use serde_json::{Value, json};

use super::*;
use crate::exec::scan::{Local, Scan};
use crate::exec::splits::Splits;
use crate::filter::Filter;
use crate::testing::{Failing, Place, Recorded};
use crate::{ErrorKind, Settings};

const SPLITS: usize = 40;

/// Splits of an hour each, from the last to the first.
async fn place() -> Place {
    let hour = |split: usize| format!("2026-01-{:02}T{:02}:00:00Z", 1 + split / 24, split % 24);
    let documents = |split| vec![json!({"@timestamp": hour(split), "n": split})];
    let groups: Vec<Vec<Value>> = (0..SPLITS).rev().map(documents).collect();
    Place::with(&groups).await
}

/// The same with packs of so many splits each.
async fn with_packs(mut place: Place, sizes: &[usize]) -> Place {
    let splits = place.index.splits().to_vec();
    let mut splits = splits.iter();
    for (number, size) in sizes.iter().enumerate() {
        let mut footers = Vec::new();
        for entry in splits.by_ref().take(*size) {
            let object = place.repository.get(&entry.object.key, &Meter::default()).await.unwrap();
            let footer = object[entry.footer.start as usize..entry.footer.end as usize].to_vec();
            footers.push(PackedFooter { split: entry.id, times: entry.times, footer });
        }
        let (file, about) = Pack::write(footers).unwrap();
        let id = SplitId::from_random(77_000 + number as u128);
        let object = ObjectRef { key: place.index.file_key(id, Pack::KIND), bytes: file.len() as u64 };
        place.repository.put(&object.key, file.into()).await.unwrap();
        let file = FileEntry { id, kind: Pack::KIND.to_owned(), object, about: about.to_json() };
        let change = Change { files_add: vec![file], operation: "test".to_owned(), ..Change::default() };
        place.index = Arc::new(place.index.commit(change).await.unwrap());
    }
    place
}

/// Opens all splits of a place with these files. The splits that were opened, and the cost.
async fn open_all(place: &Place) -> (usize, frostline_base::Cost) {
    let meter = Arc::new(Meter::default());
    place.searcher.read_footers(&place.index, &meter).await.unwrap();
    let open = place.index.splits().iter().filter(|split| place.searcher.is_open(split)).count();
    (open, meter.cost())
}

fn key(place: &Place) -> String {
    place.index.files().find(|file| file.kind == Pack::KIND).unwrap().object.key.clone()
}

#[tokio::test]
async fn many_splits_are_opened_with_two_requests() {
    let place = place().await;
    assert_eq!(open_all(&place).await.1.gets, SPLITS as u64);
    let place = with_packs(place, &[SPLITS]).await;
    place.searcher.forget();
    let (open, cost) = open_all(&place).await;
    let files: u64 = place.index.files().map(|file| file.object.bytes).sum();
    assert_eq!((open, cost.gets, cost.bytes_read), (SPLITS, 2, files));
    assert_eq!(open_all(&place).await.1.gets, 0, "they are open");
}

#[tokio::test]
async fn what_no_pack_has_is_opened_by_itself() {
    let place = with_packs(place().await, &[16, 16]).await;
    assert_eq!((open_all(&place).await.0, open_all(&place).await.1.gets), (SPLITS, 0));
    place.searcher.forget();
    assert_eq!(open_all(&place).await.1.gets, 4 + 8);
}

#[tokio::test]
async fn a_pack_is_not_asked_for_few_splits() {
    let place = with_packs(place().await, &[10, 15]).await;
    assert_eq!(open_all(&place).await.1.gets, SPLITS as u64);
}

#[tokio::test]
async fn a_pack_that_cannot_be_read_costs_requests_and_no_answer() {
    for kind in [ErrorKind::Unavailable, ErrorKind::Denied, ErrorKind::NotFound, ErrorKind::Corrupt] {
        let place = with_packs(place().await, &[SPLITS]).await;
        let failing = Failing::new(&place.repository, key(&place), kind);
        let place = place.through(Arc::clone(&failing) as _);
        assert_eq!(open_all(&place).await.0, SPLITS, "{kind:?}");
        failing.mend();
        place.searcher.forget();
        assert_eq!(open_all(&place).await.1.gets, 2);
    }
}

#[tokio::test]
async fn a_damaged_footer_of_a_pack_is_read_from_its_split() {
    let place = with_packs(place().await, &[SPLITS]).await;
    let object = place.index.files().next().unwrap().object.clone();
    place.damage(&object, object.bytes - 10..object.bytes - 9).await;
    let (open, cost) = open_all(&place).await;
    assert_eq!((open, cost.gets), (SPLITS, 3));
    // One that is of another split is noticed too.
    let place = with_packs(self::place().await, &[SPLITS]).await;
    let object = place.index.files().next().unwrap().object.clone();
    let mut file = place.repository.get(&object.key, &Meter::default()).await.unwrap().to_vec();
    let about = PackAbout::read(&place.index.files().next().unwrap().about).unwrap();
    let directory = Pack::directory(about.splits).end as usize;
    let checked = directory - 8;
    let (first, second) = (file[16..32].to_vec(), file[36..52].to_vec());
    file[16..32].copy_from_slice(&second);
    file[36..52].copy_from_slice(&first);
    let sum = xxhash_rust::xxh3::xxh3_64(&file[..checked]);
    file[checked..directory].copy_from_slice(&sum.to_le_bytes());
    place.repository.put(&object.key, file.into()).await.unwrap();
    let (open, cost) = open_all(&place).await;
    assert!(open == SPLITS && (2..=4).contains(&cost.gets), "{}", cost.gets);
}

#[tokio::test]
async fn a_scan_of_one_time_reads_that_part_of_a_pack() {
    let place = with_packs(place().await, &[SPLITS]).await;
    let reads = Recorded::new(&place.repository);
    let place = place.through(Arc::clone(&reads) as _);
    let local = Arc::new(Local::new(&place.searcher, None));
    let splits = Splits::of(&place.searcher, std::slice::from_ref(&place.index));
    let scan = Scan::new(local, &splits, &Filter::All, Arc::default(), false);
    let times: Vec<_> = scan.targets.iter().map(|target| target.entry.times).collect();
    assert!(times.is_sorted(), "splits are searched in the order of packs");
    scan.expect(4..24).await;
    for target in &scan.targets[4..24] {
        scan.open(target).await.unwrap();
    }
    let read: Vec<_> = reads.take().into_iter().flat_map(|(_, ranges)| ranges).collect();
    let wanted: u64 = scan.targets[4..24].iter().map(|t| t.entry.footer.end - t.entry.footer.start).sum();
    assert_eq!((read.len(), read[1].end - read[1].start), (2, wanted));
}

#[tokio::test]
async fn little_memory_makes_many_reads_and_no_error() {
    let longest =
        place().await.index.splits().iter().map(|split| split.footer.end - split.footer.start).max();
    // For eight reads of three footers each, or for none: those who come when it is full read their own.
    for (query_bytes_max, gets) in [(64 * 3 * longest.unwrap() as usize, 10..=30), (64, 41..=41)] {
        let place = with_packs(place().await, &[SPLITS]).await;
        let place = place.set(Settings { query_bytes_max, ..Settings::default() });
        let (open, cost) = open_all(&place).await;
        assert!(open == SPLITS && gets.contains(&cost.gets), "{} {gets:?}", cost.gets);
    }
}

#[tokio::test]
async fn what_is_read_is_given_up_once_it_was_taken() {
    let place = with_packs(place().await, &[SPLITS]).await;
    let context = Context {
        reader: Arc::clone(&place.searcher.reader),
        meter: Arc::default(),
        memory: place.searcher.budget(),
        bytes_max: 1 << 30,
        splits_min: 16,
    };
    let memory = Arc::clone(&context.memory);
    let files = PackFile::of_all(std::slice::from_ref(&place.index));
    let entries: Vec<&SplitEntry> = place.index.splits().iter().map(Arc::as_ref).collect();
    // Restored copies of the splits are searched, too.
    let both: Vec<&SplitEntry> = entries.iter().chain(&entries).copied().collect();
    let expected = Expected::of(&place.searcher.packs, &files, &both, context).await;
    assert_eq!(memory.reserved(), 0, "nothing is read before it is asked for");
    for (number, split) in entries.iter().enumerate() {
        assert!(expected.take(split.id).await.is_some(), "{number}");
        assert_eq!(memory.reserved() > 0, number + 1 < SPLITS, "{number}");
        assert!(expected.take(split.id).await.is_none(), "taken");
    }
}
