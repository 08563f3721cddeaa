use frostline_base::{FixedClock, IndexName};
use frostline_catalog::{Catalog, Change, Restored};
use frostline_store::{OpenOptions, Repository};
use futures::TryStreamExt;
use serde_json::{Value, json};

use super::*;
use crate::Settings;
use crate::testing::{Failing, NOW_US, Place, Recorded};

fn documents() -> Vec<Vec<Value>> {
    (0..8).map(|split| vec![json!({"n": split, "id": format!("id-{split}")})]).collect()
}

async fn place(segments: &[Vec<usize>]) -> Place {
    Place::with(&documents()).await.with_segments(segments).await
}

/// Opens the segments of a place. How many splits each of those that are open covers, and how many requests it took.
async fn open(place: &Place) -> (Vec<usize>, u64) {
    let meter = Meter::default();
    let open = place.searcher.segments_of(std::slice::from_ref(&place.index), &meter).await;
    let splits = open.of_indices[0].segments.iter().map(|(_, segment)| segment.splits().len());
    (splits.collect(), meter.cost().gets)
}

fn files(place: &Place) -> usize {
    place.searcher.segments.state().files.len()
}

#[tokio::test]
async fn only_what_is_new_is_read_and_what_is_gone_is_forgotten() {
    let place = place(&[vec![0, 1, 2], vec![3, 4]]).await;
    assert_eq!(open(&place).await, (vec![3, 2], 2));
    assert_eq!(open(&place).await, (vec![3, 2], 0));
    let old = Index::clone(&place.index);
    let place = place.with_segments(&[vec![5, 6, 7, 0]]).await;
    assert_eq!(open(&place).await, (vec![4, 3, 2], 1));
    let gone = place.segments().iter().position(|file| file.about["splits"] == 3).unwrap();
    let place = place.without_segment(gone).await;
    assert_eq!((open(&place).await, files(&place)), ((vec![4, 2], 0), 2));
    // A version that is still searched has its own, and what both have is not forgotten.
    let held = place.at_version(old);
    assert_eq!(open(&held).await, (vec![3, 2], 1));
    held.searcher.forget();
    assert_eq!(open(&held).await, (vec![3, 2], 2));
}

#[tokio::test]
async fn which_segment_answers_for_which_split_is_found_once_a_version() {
    let place = place(&[vec![0, 1, 2], vec![3, 4]]).await;
    let needle = async |place: &Place| {
        let indices = std::slice::from_ref(&place.index);
        let open = place.searcher.segments_of(indices, &Meter::default()).await;
        Arc::clone(&open.of_indices[0].needle)
    };
    let live = |needle: &Arc<Needle>| -> Vec<usize> {
        needle.coverings().iter().map(|covering| covering.live().count()).collect()
    };
    let first = needle(&place).await;
    assert!(Arc::ptr_eq(&first, &needle(&place).await));
    assert_eq!(live(&first), [3, 2]);
    let place = place.with_segments(&[vec![5, 6, 7, 0]]).await;
    let second = needle(&place).await;
    assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &needle(&place).await));
    assert_eq!(live(&second), [4, 2, 2]);
    // The same version, of which one segment cannot be read at first.
    let failing =
        Failing::new(&place.repository, place.segments()[0].object.key.clone(), ErrorKind::Unavailable);
    let place = place.through(Arc::clone(&failing) as _);
    assert_eq!(live(&needle(&place).await).len(), 2);
    failing.mend();
    assert_eq!(live(&needle(&place).await), [4, 2, 2]);
}

#[tokio::test]
async fn a_segment_of_one_split_is_left_alone() {
    let place = place(&[vec![0], vec![1, 2], vec![3]]).await;
    assert_eq!(open(&place).await, (vec![2], 1));
}

#[tokio::test]
async fn all_directories_are_read_at_once_and_nothing_else() {
    let place = place(&[vec![0, 1], vec![2, 3], vec![4, 5]]).await;
    let reads = Recorded::new(&place.repository);
    let place = place.through(Arc::clone(&reads) as _);
    let cost = place.searcher.open_segments(&place.index).await;
    let directory = |file: FileEntry| {
        let about = About::of_splits(&file.kind, &file.about).unwrap();
        (Share::Footer, vec![about.directory(file.object.bytes).unwrap()])
    };
    let mut expected: Vec<_> = place.segments().into_iter().map(directory).collect();
    let mut read = reads.take();
    [&mut expected, &mut read].into_iter().for_each(|reads| reads.sort_by_key(|(_, ranges)| ranges[0].start));
    assert_eq!(read, expected);
    let bytes = expected.iter().map(|(_, ranges)| ranges[0].end - ranges[0].start).sum();
    assert_eq!((cost.gets, cost.bytes_read), (3, bytes));
}

#[tokio::test]
async fn two_that_open_at_the_same_time_read_once() {
    let place = place(&[vec![0, 1], vec![2, 3]]).await;
    let ((one, gets), (other, others)) = futures::join!(open(&place), open(&place));
    assert_eq!((one, other, gets + others), (vec![2, 2], vec![2, 2], 2));
}

#[tokio::test]
async fn memory_holds_the_largest_segments_of_the_index_asked_last() {
    let place = place(&[vec![0, 1], vec![2, 3, 4, 5], vec![5, 6, 7]]).await;
    let mut sizes: Vec<(u64, u64)> = Vec::new();
    for file in place.segments() {
        let about = About::of_splits(&file.kind, &file.about).unwrap();
        sizes.push((about.splits as u64, about.directory_bytes * DIRECTORY_PACKED));
    }
    sizes.sort_unstable();
    let [(2, _), (3, middle), (4, largest)] = sizes[..] else { panic!("{sizes:?}") };
    let bounded = |segment_bytes_max| Settings { segment_bytes_max, ..Settings::default() };
    let place = place.set(bounded(largest + middle));
    assert_eq!(open(&place).await, (vec![4, 3], 2));
    assert_eq!(open(&place).await, (vec![4, 3], 0));
    // Those of another index take the place of the one that was not asked for longest.
    let beside = place.beside("others", &documents()).await.with_segments(&[(0..8).collect()]).await;
    assert_eq!(open(&beside).await.0, [8]);
    let held: u64 = place.searcher.segments.state().files.values().map(|file| file.bytes).sum();
    assert!(held <= largest + middle, "{held}");
    let (again, gets) = open(&place).await;
    assert!(again == [4, 3] && gets > 0, "{gets}");
    let place = place.set(bounded(largest - 1));
    assert_eq!(open(&place).await, (vec![3], 1), "a smaller one fits");
    let place = place.set(bounded(0));
    assert_eq!(open(&place).await, (vec![], 0));
}

#[tokio::test]
async fn what_cannot_be_read_covers_nothing_and_is_tried_again_if_that_may_help() {
    for (kind, again) in [
        (ErrorKind::Unavailable, vec![2, 2]),
        (ErrorKind::Denied, vec![2, 2]),
        (ErrorKind::NotFound, vec![2]),
        (ErrorKind::Corrupt, vec![2]),
    ] {
        let place = place(&[vec![0, 1], vec![2, 3]]).await;
        let key = place.segments()[0].object.key.clone();
        let failing = Failing::new(&place.repository, key, kind);
        let place = place.through(Arc::clone(&failing) as _);
        assert_eq!(open(&place).await.0, [2], "{kind:?}");
        failing.mend();
        assert_eq!(open(&place).await.0, again, "{kind:?}");
    }
}

#[tokio::test]
async fn segments_that_are_damaged_or_of_something_else_are_not_opened() {
    let opened = async |change: &dyn Fn(&mut FileEntry)| {
        let place = place(&[vec![0, 1], vec![2, 3, 4]]).await;
        let mut file = place.segments().into_iter().find(|file| file.about["splits"] == 2).unwrap();
        let before = file.clone();
        change(&mut file);
        let operation = || "test".to_owned();
        let gone = Change { files_remove: vec![before], operation: operation(), ..Change::default() };
        let come = Change { files_add: vec![file], operation: operation(), ..Change::default() };
        let index = place.index.commit(gone).await.unwrap().commit(come).await.unwrap();
        let place = place.at_version(index).set(Settings::default());
        open(&place).await.0
    };
    assert_eq!(opened(&|_| {}).await, [3, 2]);
    assert_eq!(opened(&|file| file.about["format"] = json!(2)).await, [3]);
    assert_eq!(opened(&|file| file.about["analyser"] = json!(99)).await, [3]);
    assert_eq!(opened(&|file| file.about = json!("of another program")).await, [3]);
    assert_eq!(opened(&|file| file.about["directory_bytes"] = json!(u64::MAX)).await, [3]);
    for wrong in [0, 1, 40] {
        assert_eq!(opened(&|file| file.about["directory_bytes"] = json!(wrong)).await, [3]);
    }
    // Its splits are gone, so it is not worth a request.
    assert_eq!(opened(&|file| file.about["named"] = json!([SplitId::from_random(77)])).await, [3]);

    let place = place(&[vec![0, 1]]).await;
    let file = &place.segments()[0];
    let directory = About::of_splits(&file.kind, &file.about).unwrap().directory(file.object.bytes).unwrap();
    place.damage(&file.object, directory.start + 9..directory.start + 10).await;
    assert_eq!(open(&place).await.0, [0; 0]);
    assert_eq!(open(&place).await, (vec![], 0), "it was read already");
}

#[tokio::test]
async fn a_segment_of_another_table_is_not_opened() {
    let (one, other) = (place(&[vec![0, 1]]).await, place(&[vec![0, 1]]).await);
    let (own, foreign) = (&one.segments()[0].object, &other.segments()[0].object);
    assert_eq!(own, foreign);
    let bytes = other.repository.get(&foreign.key, &Meter::default()).await.unwrap();
    one.repository.put(&own.key, bytes).await.unwrap();
    assert_eq!(open(&one).await, (vec![], 1));
}

/// A repository that was copied without its log.
#[tokio::test]
async fn segments_without_a_key_are_not_opened() {
    let place = place(&[vec![0, 1]]).await;
    let keyless = Repository::open("memory:", &OpenOptions::default()).unwrap();
    let listed: Vec<_> = place.repository.list("logs/").try_collect().await.unwrap();
    for object in listed {
        let bytes = place.repository.get(&object.key, &Meter::default()).await.unwrap();
        keyless.put(&object.key, bytes).await.unwrap();
    }
    let catalog = Catalog::new(&keyless, Arc::new(FixedClock::at(NOW_US)));
    let index = catalog.open(place.index.name()).await.unwrap();
    let place = place.at_version(index);
    assert_eq!((place.segments().len(), open(&place).await), (1, (vec![], 0)));
}

/// A mounted and a restored version have the segments of their source under its identity, the latter as objects of its own.
#[tokio::test]
async fn segments_answer_for_copies_of_their_index_and_are_not_taken_for_theirs() {
    let place = place(&[vec![0, 1, 2], vec![3, 4]]).await;
    let catalog = Catalog::new(&place.repository, Arc::new(FixedClock::at(NOW_US)));
    let (logs, mount, copy) = ("logs".parse().unwrap(), "mount".parse().unwrap(), "copy".parse().unwrap());
    catalog.make_snapshot("first", std::slice::from_ref(&logs), &[], None).await.unwrap();
    let of = |name: &IndexName| Restored::named(logs.clone(), name.clone());
    catalog.mount_snapshot("first", &of(&mount)).await.unwrap();
    catalog.restore_snapshot("first", &[of(&copy)], None).await.unwrap();
    let source = Index::clone(&place.index);
    let (mount, copy) = (catalog.open(&mount).await.unwrap(), catalog.open(&copy).await.unwrap());
    let place = place.at_version(copy.clone());
    let lost = place.segments().into_iter().max_by_key(|file| file.about["splits"].as_u64()).unwrap();
    place.damage(&lost.object, lost.object.bytes - 60..lost.object.bytes - 50).await;
    assert_eq!(open(&place).await.0, [2], "what is damaged is the copy's");
    let place = place.at_version(mount);
    assert_eq!(open(&place).await, (vec![3, 2], 2));
    let place = place.at_version(source);
    assert_eq!(open(&place).await, (vec![3, 2], 0), "a mounted version has the same objects");
    assert_eq!(open(&place.at_version(copy)).await, (vec![2], 0));
}
