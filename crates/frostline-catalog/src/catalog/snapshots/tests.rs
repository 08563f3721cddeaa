use std::collections::{BTreeMap, BTreeSet};

use frostline_base::{Clock as _, FixedClock, SplitId};
use frostline_split::Mapping;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;
use crate::testing::{Faulty, clock, entry_of, name, spent};
use crate::{Access, Change, Routing, Settings, Vacuum};

const HOUR_US: i64 = 3_600_000_000;

#[derive(Clone)]
struct Bed {
    store: Faulty,
    clock: Arc<FixedClock>,
    catalog: Catalog,
}

/// What an index had in it: the bytes of each split.
type Contents = BTreeMap<SplitId, String>;

impl Bed {
    fn new() -> Bed {
        let (store, clock) = (Faulty::sound(), clock());
        let catalog = Catalog::on(Arc::new(store.clone()), clock.clone());
        Bed { store, clock, catalog }
    }

    /// The same repository as another process sees it.
    fn other(&self) -> Bed {
        let catalog = Catalog::on(Arc::new(self.store.clone()), self.clock.clone());
        Bed { catalog, ..self.clone() }
    }

    async fn create(&self, index: &str) -> Index {
        let settings = Settings { checkpoint_commits: 4, ..Settings::default() };
        self.catalog.create(&name(index), Mapping::dynamic(), settings).await.unwrap()
    }

    async fn add(&self, index: &str, id: u128) {
        let index = self.catalog.open(&name(index)).await.unwrap();
        self.exchange(&index, id, Vec::new()).await;
    }

    /// Exchanges all live splits for one.
    async fn merge(&self, index: &str, id: u128) {
        let index = self.catalog.open(&name(index)).await.unwrap();
        self.exchange(&index, id, index.splits().iter().map(|split| split.id).collect()).await;
    }

    async fn exchange(&self, index: &Index, id: u128, remove: Vec<SplitId>) {
        let split = entry_of(index, id);
        self.store.write(&split.object.key, format!("rows of {id}")).await;
        index.commit(Change { add: vec![split], remove, ..Change::default() }).await.unwrap();
    }

    /// All that vacuum may delete, in every folder.
    async fn vacuum(&self, grace_hours: i64) -> usize {
        let wanted = Vacuum { retain_ms: 0, orphan_grace_ms: grace_hours * 3_600_000, ..Vacuum::default() };
        let mut deleted = self.catalog.vacuum_deleted(&wanted).await.unwrap().deleted.len();
        for index in self.catalog.list().await.unwrap() {
            deleted += self.catalog.open(&index).await.unwrap().vacuum(&wanted).await.unwrap().deleted.len();
        }
        deleted
    }

    async fn contents(&self, index: &Index) -> Contents {
        let mut contents = Contents::new();
        for split in index.splits() {
            let bytes = self.store.read(&split.object.key).await;
            contents.insert(split.id, String::from_utf8(bytes.to_vec()).unwrap());
        }
        contents
    }

    async fn live(&self, index: &str) -> Contents {
        self.contents(&self.catalog.open(&name(index)).await.unwrap()).await
    }

    async fn kept(&self, snapshot: &str, index: &str) -> Contents {
        let records = self.catalog.records().await.unwrap();
        let snapshot = &records.snapshots()[snapshot];
        self.contents(&self.catalog.open_in_snapshot(snapshot, &name(index)).await.unwrap()).await
    }

    async fn snapshot(&self, snapshot: &str, indices: &[&str]) -> Arc<Snapshot> {
        let indices: Vec<_> = indices.iter().map(|index| name(index)).collect();
        self.catalog.make_snapshot(snapshot, &indices, &[], None).await.unwrap()
    }

    async fn forget(&self, snapshot: &str) {
        let records = self.catalog.records().await.unwrap();
        let id = &records.snapshots()[snapshot].id;
        assert!(self.catalog.delete_snapshot(snapshot, id).await.unwrap());
    }

    async fn mount(&self, snapshot: &str, index: &str, as_name: &str) -> Index {
        let wanted = Restored::named(name(index), name(as_name));
        self.catalog.mount_snapshot(snapshot, &wanted).await.unwrap()
    }

    async fn restore(&self, snapshot: &str, index: &str, as_name: &str) -> Index {
        let wanted = Restored::named(name(index), name(as_name));
        self.catalog.restore_snapshot(snapshot, &[wanted], None).await.unwrap();
        self.catalog.open(&name(as_name)).await.unwrap()
    }

    /// The keys of splits and of what keeps versions.
    async fn files(&self) -> BTreeSet<String> {
        let is_file = |key: &String| !key.contains("_delta_log/") && !key.starts_with("_frostline/");
        self.store.keys().await.into_iter().filter(is_file).collect()
    }
}

#[tokio::test]
async fn a_snapshot_outlives_merges_and_its_index() {
    let bed = Bed::new();
    bed.create("logs").await;
    for id in 0..6 {
        bed.add("logs", id).await;
    }
    let then = bed.live("logs").await;
    let made = bed.snapshot("first", &["logs"]).await;
    let about = &made.indices[&name("logs")];
    assert_eq!((about.splits, about.documents, about.bytes, about.version), (6, 600, 6_000, 6));
    bed.merge("logs", 6).await;
    bed.add("logs", 7).await;
    let mounted = bed.mount("first", "logs", "old").await;
    assert!(mounted.is_mounted() && mounted.table_id() != about.table);
    let restored = bed.restore("first", "logs", "again").await;
    assert!(!restored.is_mounted() && restored.splits().len() == 6);
    // The log of the index no longer reaches back to the snapshot.
    bed.clock.advance_us(100 * 24 * HOUR_US);
    bed.merge("logs", 8).await;
    assert!(bed.vacuum(24).await > 0, "what no version or snapshot names goes");
    bed.catalog.delete(&name("logs")).await.unwrap();
    bed.vacuum(0).await;

    let bed = bed.other();
    for index in ["old", "again"] {
        assert_eq!(bed.live(index).await, then, "{index}");
    }
    assert_eq!(bed.kept("first", "logs").await, then);
    bed.create("logs").await;
    bed.forget("first").await;
    bed.vacuum(0).await;
    assert_eq!(bed.live("old").await, then, "the mount keeps it");
    bed.catalog.delete(&name("old")).await.unwrap();
    bed.vacuum(0).await;
    assert_eq!(bed.live("again").await, then);
    let left = bed.files().await;
    assert!(left.len() == 6 && left.iter().all(|key| key.starts_with("again@")), "{left:?}");
    bed.add("again", 9).await;
    assert_eq!(bed.live("again").await.len(), 7, "it is an index as any other");
}

#[tokio::test]
async fn nothing_is_written_to_a_mounted_index() {
    let bed = Bed::new();
    bed.create("logs").await;
    bed.add("logs", 0).await;
    bed.snapshot("first", &["logs"]).await;
    let mounted = bed.mount("first", "logs", "old").await;
    let change = Change { add: vec![entry_of(&mounted, 1)], ..Change::default() };
    let refused = mounted.commit(change).await.unwrap_err();
    assert_eq!((refused.kind(), refused.fact("block")), (ErrorKind::Invalid, Some("write")));
    assert_eq!(bed.catalog.open_to_write(&name("old")).await.unwrap_err().kind(), ErrorKind::Invalid);
    let records = bed.catalog.records().await.unwrap();
    assert!(records.check_access(&name("old"), Access::Read).is_ok());
    assert!(records.check_access(&name("old"), Access::Write).is_err());
    assert_eq!(mounted.checkpoint().await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(mounted.vacuum(&Vacuum::default()).await.unwrap().deleted, []);
    // A point in time of it, while the table goes on.
    let pin = mounted.pin(std::time::Duration::from_secs(60)).await.unwrap();
    bed.merge("logs", 1).await;
    assert_eq!(bed.catalog.open_pin(&pin).await.unwrap().splits().len(), 1);
    assert_eq!(bed.catalog.refresh(&mounted).await.unwrap().version(), mounted.version());
    bed.catalog.delete(&name("old")).await.unwrap();
    assert_eq!(mounted.refresh().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(bed.catalog.open(&name("old")).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(bed.catalog.delete(&name("old")).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(bed.live("logs").await.len(), 1, "its table is another index's");
}

#[tokio::test]
async fn a_point_in_time_of_a_mounted_index_outlives_the_source() {
    let bed = Bed::new();
    bed.create("logs").await;
    bed.add("logs", 0).await;
    bed.snapshot("first", &["logs"]).await;
    let mounted = bed.mount("first", "logs", "old").await;
    let hours = |hours: u64| std::time::Duration::from_secs(hours * 3_600);
    let (pin, short) = (mounted.pin(hours(48)).await.unwrap(), mounted.pin(hours(1)).await.unwrap());
    bed.catalog.delete(&name("logs")).await.unwrap();
    for pin in [&pin, &short] {
        assert_eq!(bed.catalog.open_pin(pin).await.unwrap().splits().len(), 1);
    }
    bed.clock.advance_us(25 * HOUR_US);
    bed.vacuum(24).await;
    let longer = bed.catalog.open_pin(&pin).await.unwrap().extend_pin(&pin, hours(48)).await.unwrap();
    assert_eq!(bed.catalog.open_pin(&short).await.unwrap_err().kind(), ErrorKind::NotFound);
    bed.clock.advance_us(47 * HOUR_US);
    bed.vacuum(24).await;
    assert_eq!(bed.catalog.open_pin(&longer).await.unwrap().splits().len(), 1);
    bed.clock.advance_us(2 * HOUR_US);
    bed.vacuum(24).await;
    assert_eq!(bed.catalog.open_pin(&longer).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(bed.files().await.len(), 3, "a split, and what keeps it for the snapshot and the mount");
    let pin = mounted.pin(hours(48)).await.unwrap();
    bed.catalog.delete(&name("old")).await.unwrap();
    bed.forget("first").await;
    assert_eq!(bed.catalog.open_pin(&pin).await.unwrap_err().kind(), ErrorKind::NotFound);
    bed.clock.advance_us(25 * HOUR_US);
    bed.vacuum(24).await;
    assert_eq!(bed.files().await, [].into());
}

#[tokio::test]
async fn a_mount_under_the_name_of_its_deleted_index_takes_no_late_commit() {
    let bed = Bed::new();
    let slow = bed.create("logs").await;
    bed.add("logs", 0).await;
    bed.snapshot("first", &["logs"]).await;
    bed.catalog.delete(&name("logs")).await.unwrap();
    let mounted = bed.mount("first", "logs", "logs").await;
    let change = Change { add: vec![entry_of(&slow, 9)], ..Change::default() };
    assert!(slow.commit(change).await.is_err());
    assert_eq!(bed.other().live("logs").await, bed.contents(&mounted).await);
}

#[tokio::test]
async fn aliases_and_settings_come_back() {
    let bed = Bed::new();
    bed.create("logs").await;
    let mut alias = Alias::new([name("logs")].into(), Some(name("logs")));
    let routing = Routing { index: Some("7".to_owned()), search: None };
    alias.routing.insert(name("logs"), routing.clone());
    let settings = json!({ "closed": true, "default_pipeline": "p" });
    let change = |_: &crate::Records| {
        let value = Some(settings.clone());
        let settings = RecordChange::Other { kind: INDEX_SETTINGS, name: "logs".to_owned(), value };
        Ok(vec![RecordChange::Alias(name("all"), Some(alias.clone())), settings])
    };
    bed.catalog.change_records("test", change).await.unwrap();
    let made = bed.snapshot("first", &["logs"]).await;
    let about = &made.indices[&name("logs")];
    let wanted = Restored {
        aliases: about.aliases.clone(),
        settings: about.settings.clone(),
        ..Restored::named(name("logs"), name("again"))
    };
    bed.catalog.restore_snapshot("first", std::slice::from_ref(&wanted), None).await.unwrap();
    let records = bed.catalog.records().await.unwrap();
    let all = &records.aliases()[&name("all")];
    assert_eq!(all.indices, [name("again"), name("logs")].into());
    assert_eq!(all.write, Some(name("logs")), "the one that had it keeps it");
    assert_eq!(all.routing, [(name("again"), routing.clone()), (name("logs"), routing)].into());
    assert_eq!(records.other(INDEX_SETTINGS, "again"), Some(&json!({ "default_pipeline": "p" })));
    let taken = bed.catalog.restore_snapshot("first", std::slice::from_ref(&wanted), None).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Conflict);
    let taken = bed.catalog.make_snapshot("first", &[], &[], None).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Conflict);
    let none = bed.catalog.mount_snapshot("second", &wanted).await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
}

/// Exchanges all splits just before each put beside the pins, and vacuums.
fn merges(bed: Bed, id: u128) -> BoxFuture<'static, ()> {
    let work = async move {
        bed.merge("logs", id).await;
        bed.vacuum(1).await;
        bed.store.before_put("_pins/", merges(bed.other(), id + 1));
    };
    work.boxed()
}

#[tokio::test]
async fn a_snapshot_is_made_however_busy_an_index_is() {
    let bed = Bed::new();
    bed.create("logs").await;
    bed.add("logs", 0).await;
    bed.store.before_put("_pins/", merges(bed.other(), 1));
    let made = bed.snapshot("first", &["logs"]).await;
    let about = &made.indices[&name("logs")];
    let live = bed.catalog.open(&name("logs")).await.unwrap().version();
    assert!(about.version < live, "{} is not before {live}", about.version);
    bed.vacuum(1).await;
    assert_eq!(bed.kept("first", "logs").await.len(), 1);
    bed.forget("first").await;
    bed.clock.advance_us(2 * HOUR_US);
    bed.vacuum(1).await;
    assert_eq!(bed.files().await.len(), 1, "nothing stays pinned");
}

/// A data stream of `app`, of which each index has a split.
async fn with_stream(bed: &Bed, indices: &[&str]) {
    for (id, index) in indices.iter().enumerate() {
        bed.create(index).await;
        bed.add(index, id as u128).await;
    }
    let mut stream = crate::DataStream::new(name(indices[0]), "template".to_owned());
    stream.indices = indices.iter().map(|index| name(index)).collect();
    stream.generation = 7;
    stream.lifecycle = Some(crate::Lifecycle::new(true, Some(1_000)));
    let change = |_: &crate::Records| Ok(vec![RecordChange::DataStream(name("app"), Some(stream.clone()))]);
    bed.catalog.change_records("test", change).await.unwrap();
}

#[tokio::test]
async fn a_data_stream_comes_back_with_its_indices() {
    let bed = Bed::new();
    with_stream(&bed, &["ds-app-000002", "ds-app-000007"]).await;
    bed.create("other").await;
    let stream = |bed: &Bed, of: &'static str| {
        let catalog = bed.catalog.clone();
        async move { catalog.records().await.unwrap().data_streams().get(&name(of)).cloned() }
    };
    let was = stream(&bed, "app").await.unwrap();
    let indices = ["ds-app-000002", "ds-app-000007", "other"].map(name);
    let made =
        bed.catalog.make_snapshot("first", &indices, &[name("app"), name("none")], None).await.unwrap();
    assert_eq!(made.data_streams, [(name("app"), crate::DataStream::clone(&was))].into());
    let (app, copy) = (name("app"), name("copy"));
    let part = ["ds-app-000007", "ds-app-000002"];
    let wanted = |to: &str| part.map(|of| Restored::named(name(of), name(&of.replace("app", to)))).to_vec();
    let taken = bed.catalog.restore_snapshot("first", &wanted("copy"), Some((&app, &app))).await.unwrap_err();
    assert_eq!((taken.kind(), taken.fact(TAKEN)), (ErrorKind::Conflict, Some("app")));
    bed.catalog.restore_snapshot("first", &wanted("copy"), Some((&app, &copy))).await.unwrap();
    let bed = bed.other();
    let copied = stream(&bed, "copy").await.unwrap();
    assert_eq!(copied.indices, ["ds-copy-000002", "ds-copy-000007"].map(name));
    assert_eq!((copied.generation, &copied.lifecycle), (7, &was.lifecycle));
    assert_eq!(bed.live("ds-copy-000007").await.len(), 1);
    let records = bed.catalog.records().await.unwrap();
    assert_eq!(records.restored_ms(&name("ds-copy-000007")), Some(bed.clock.now_us() / 1_000));
    assert_eq!(records.restored_ms(&name("ds-app-000007")), None);
    // Of one of its indices alone a stream has only that, and a name that is restored without it is of an index.
    let one = [Restored::named(name("ds-app-000007"), name("last"))];
    bed.catalog.restore_snapshot("first", &one, Some((&app, &name("short")))).await.unwrap();
    assert_eq!(stream(&bed, "short").await.unwrap().indices, [name("last")]);
    bed.restore("first", "ds-app-000002", "plain").await;
    assert!(bed.catalog.records().await.unwrap().stream_of(&name("plain")).is_none());
    let none = bed.catalog.restore_snapshot("first", &one, Some((&name("other"), &name("x")))).await;
    assert_eq!(none.unwrap_err().kind(), ErrorKind::NotFound);
}

/// Dies at each write of the restoring of a stream, with that write applied or not.
#[tokio::test]
async fn a_data_stream_comes_back_whole_or_not_at_all() {
    let (app, copy) = (name("app"), name("copy"));
    for writes in 0..50 {
        for applied in [false, true] {
            let bed = Bed::new();
            with_stream(&bed, &["ds-app-000001", "ds-app-000002"]).await;
            let indices = ["ds-app-000001", "ds-app-000002"].map(name);
            bed.catalog.make_snapshot("first", &indices, std::slice::from_ref(&app), None).await.unwrap();
            bed.store.die_after(writes, applied);
            let wanted = indices
                .clone()
                .map(|of| Restored::named(of.clone(), name(&of.as_str().replace("app", "copy"))));
            let catalog = bed.other().catalog;
            let done = catalog.restore_snapshot("first", &wanted, Some((&app, &copy))).await;
            let died = bed.store.is_dead();
            bed.store.revive();
            let bed = bed.other();
            bed.clock.advance_us(25 * HOUR_US);
            bed.vacuum(24).await;
            let records = bed.catalog.records().await.unwrap();
            match records.data_streams().get(&copy) {
                Some(stream) => {
                    for index in &stream.indices {
                        assert_eq!(bed.live(index.as_str()).await.len(), 1, "{writes} {applied} {index}");
                    }
                }
                None => {
                    let left = bed.files().await.into_iter().find(|key| key.starts_with("ds-copy"));
                    assert!(done.is_err() && left.is_none(), "{writes} {applied}: {left:?}");
                    assert!(!records.indices().any(|index| index.as_str().starts_with("ds-copy")));
                }
            }
            if !died {
                assert!(done.is_ok() && writes > 5, "{writes}");
                return;
            }
        }
    }
    panic!("it takes more writes than were tried");
}

/// Just before the record is put, the index is deleted, or merged and vacuumed.
#[tokio::test]
async fn a_snapshot_is_whole_or_refused_beside_a_deletion_and_a_vacuum() {
    for part in ["_pins/", "_frostline/log/"] {
        let bed = Bed::new();
        bed.create("logs").await;
        bed.add("logs", 0).await;
        let other = bed.other();
        let deletes = async move { other.catalog.delete(&name("logs")).await.unwrap() };
        bed.store.before_put(part, deletes);
        let gone = bed.catalog.make_snapshot("first", &[name("logs")], &[], None).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound, "{part}");
        bed.clock.advance_us(2 * HOUR_US);
        bed.vacuum(1).await;
        assert_eq!(bed.files().await, [].into(), "{part}");

        let bed = Bed::new();
        bed.create("logs").await;
        bed.add("logs", 0).await;
        let other = bed.other();
        let merges = async move {
            other.merge("logs", 1).await;
            other.vacuum(1).await;
        };
        bed.store.before_put(part, merges);
        bed.snapshot("first", &["logs"]).await;
        let kept = bed.kept("first", "logs").await;
        assert_eq!(kept.len(), 1, "{part}");
    }
}

#[tokio::test]
async fn a_mount_is_whole_or_refused_beside_the_deletion_of_its_snapshot() {
    for part in ["_pins/", "_frostline/log/"] {
        let bed = Bed::new();
        bed.create("logs").await;
        bed.add("logs", 0).await;
        bed.snapshot("first", &["logs"]).await;
        bed.catalog.delete(&name("logs")).await.unwrap();
        let other = bed.other();
        let deletes = async move {
            other.forget("first").await;
            other.vacuum(1).await;
        };
        bed.store.before_put(part, deletes);
        let wanted = Restored::named(name("logs"), name("old"));
        let gone = bed.catalog.mount_snapshot("first", &wanted).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound, "{part}");
        bed.clock.advance_us(2 * HOUR_US);
        bed.vacuum(1).await;
        assert_eq!(bed.files().await, [].into(), "{part}");
    }
}

/// A process dies at each write of all that is done with a snapshot, with that write applied or not.
#[tokio::test]
async fn a_crash_loses_nothing_and_leaves_nothing() {
    for writes in 0..150 {
        for applied in [false, true] {
            let bed = Bed::new();
            bed.create("logs").await;
            bed.add("logs", 0).await;
            bed.add("logs", 1).await;
            let then = bed.live("logs").await;
            bed.store.die_after(writes, applied);
            let work = async {
                let catalog = bed.other().catalog;
                let made = catalog.make_snapshot("first", &[name("logs")], &[], None).await?;
                catalog.mount_snapshot("first", &Restored::named(name("logs"), name("old"))).await?;
                catalog
                    .restore_snapshot("first", &[Restored::named(name("logs"), name("again"))], None)
                    .await?;
                catalog.delete(&name("logs")).await?;
                catalog.delete_snapshot("first", &made.id).await?;
                catalog.delete(&name("old")).await
            };
            let done = work.await;
            let died = bed.store.is_dead();
            assert_eq!(done.is_err(), died, "{writes} {applied}: {done:?}");
            bed.store.revive();
            let bed = bed.other();
            bed.clock.advance_us(25 * HOUR_US);
            bed.vacuum(24).await;
            let records = bed.catalog.records().await.unwrap();
            for index in bed.catalog.list().await.unwrap() {
                assert_eq!(bed.live(index.as_str()).await, then, "{writes} {applied} {index}");
            }
            for snapshot in records.snapshots().keys().cloned().collect::<Vec<_>>() {
                assert_eq!(bed.kept(&snapshot, "logs").await, then, "{writes} {applied}");
                bed.forget(&snapshot).await;
            }
            for index in bed.catalog.list().await.unwrap() {
                bed.catalog.delete(&index).await.unwrap();
            }
            bed.vacuum(24).await;
            assert_eq!(bed.files().await, [].into(), "{writes} {applied}");
            if !died {
                assert!(writes > 20, "{writes}: every write was the last of one");
                return;
            }
        }
    }
    panic!("the work takes more writes than were tried");
}

/// What there should be.
#[derive(Default)]
struct Model {
    /// Of indices, mounted or not.
    indices: BTreeMap<String, Contents>,
    mounted: BTreeSet<String>,
    snapshots: BTreeMap<String, BTreeMap<String, Contents>>,
}

impl Model {
    async fn check(&self, bed: &Bed, told: &str) {
        let bed = bed.other();
        for (index, contents) in &self.indices {
            assert_eq!(&bed.live(index).await, contents, "{told} {index}");
        }
        for (snapshot, indices) in &self.snapshots {
            for (index, contents) in indices {
                assert_eq!(&bed.kept(snapshot, index).await, contents, "{told} {snapshot} {index}");
            }
        }
    }
}

#[tokio::test]
async fn snapshots_and_mounts_have_what_they_were_made_of() {
    for seed in 0..12_u64 {
        let bed = Bed::new();
        let (mut model, mut random, mut next) = (Model::default(), SmallRng::seed_from_u64(seed), 0_u128);
        let names = ["a", "b", "c"];
        for step in 0..60 {
            next += 1;
            let index = names[random.random_range(0..names.len())];
            let snapshot = format!("s{}", random.random_range(0..3));
            let told = format!("seed {seed} step {step}");
            match random.random_range(0..10) {
                0 if !model.indices.contains_key(index) => {
                    bed.create(index).await;
                    model.indices.insert(index.to_owned(), Contents::new());
                }
                1..=3 if model.indices.contains_key(index) && !model.mounted.contains(index) => {
                    match random.random_bool(0.5) {
                        true => bed.add(index, next).await,
                        false => bed.merge(index, next).await,
                    }
                    model.indices.insert(index.to_owned(), bed.live(index).await);
                }
                4 if !model.snapshots.contains_key(&snapshot) => {
                    let of: Vec<&str> = model.indices.keys().map(String::as_str).collect();
                    bed.snapshot(&snapshot, &of).await;
                    model.snapshots.insert(snapshot, model.indices.clone());
                }
                5 if model.snapshots.contains_key(&snapshot) && random.random_bool(0.5) => {
                    bed.forget(&snapshot).await;
                    model.snapshots.remove(&snapshot);
                }
                6 if model.indices.contains_key(index) => {
                    bed.catalog.delete(&name(index)).await.unwrap();
                    model.indices.remove(index);
                    model.mounted.remove(index);
                }
                7 | 8 if !model.indices.contains_key(index) => {
                    let of = model.snapshots.get(&snapshot).and_then(|of| of.iter().next());
                    let Some((source, contents)) = of else { continue };
                    match random.random_bool(0.5) {
                        true => {
                            bed.mount(&snapshot, source, index).await;
                            model.mounted.insert(index.to_owned());
                        }
                        false => drop(bed.restore(&snapshot, source, index).await),
                    }
                    model.indices.insert(index.to_owned(), contents.clone());
                }
                9 => {
                    bed.clock.advance_us(random.random_range(0..60) * HOUR_US);
                    bed.vacuum(random.random_range(1..24)).await;
                }
                _ => continue,
            }
            model.check(&bed, &told).await;
        }
        for snapshot in model.snapshots.keys() {
            bed.forget(snapshot).await;
        }
        for index in model.indices.keys() {
            bed.catalog.delete(&name(index)).await.unwrap();
        }
        bed.clock.advance_us(25 * HOUR_US);
        bed.vacuum(24).await;
        assert_eq!(bed.files().await, [].into(), "seed {seed}");
    }
}

#[tokio::test]
async fn damage_to_what_keeps_a_version_stops_the_vacuum() {
    let bed = Bed::new();
    bed.create("logs").await;
    bed.add("logs", 0).await;
    bed.snapshot("first", &["logs"]).await;
    bed.merge("logs", 1).await;
    let before = bed.files().await;
    let kept = before.iter().find(|key| key.contains("_pins/")).unwrap().clone();
    let bytes = bed.store.read(&kept).await;
    let harsh = Vacuum { retain_ms: 0, orphan_grace_ms: 0, ..Vacuum::default() };
    for damage in [None, Some(bytes.slice(..bytes.len() / 2))] {
        bed.store.remove(&kept).await;
        if let Some(bytes) = damage {
            bed.store.write(&kept, bytes).await;
        }
        let index = bed.catalog.open(&name("logs")).await.unwrap();
        assert_eq!(index.vacuum(&harsh).await.unwrap_err().kind(), ErrorKind::Corrupt);
    }
    bed.store.write(&kept, bytes).await;
    assert_eq!(bed.files().await, before);
    bed.vacuum(0).await;
    assert_eq!(bed.kept("first", "logs").await.len(), 1);
}

#[tokio::test]
async fn what_snapshots_cost() {
    let bed = Bed::new();
    bed.create("logs").await;
    bed.add("logs", 0).await;
    bed.catalog.records().await.unwrap();
    let logs = [name("logs")];
    let (made, cost) = spent(&bed.store, bed.catalog.make_snapshot("first", &logs, &[], None)).await;
    // What keeps the version, and pins it before, the record, and the checkpoint of the repository log with its hint.
    assert_eq!((made.unwrap().indices.len(), cost.puts, cost.deletes), (1, 5, 1), "{cost:?}");
    let wanted = Restored::named(name("logs"), name("old"));
    let (_, cost) = spent(&bed.store, bed.catalog.mount_snapshot("first", &wanted)).await;
    assert_eq!((cost.puts, cost.lists, cost.deletes), (4, 0, 0), "{cost:?}");
}
