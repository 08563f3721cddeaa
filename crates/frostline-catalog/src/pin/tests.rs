use std::collections::BTreeSet;
use std::sync::Arc;

use frostline_base::{ErrorKind, FixedClock, SplitId};
use frostline_split::Mapping;

use super::*;
use crate::testing::{Faulty, adding_to, clock, entry_of, name, spent};
use crate::{Catalog, Change, Settings, Vacuum};

const HOUR_US: i64 = 3_600_000_000;
const HOUR: Duration = Duration::from_secs(3_600);

struct Bed {
    store: Faulty,
    clock: Arc<FixedClock>,
    catalog: Catalog,
    index: Index,
}

impl Bed {
    async fn new(interval: u64) -> Bed {
        let (store, clock) = (Faulty::sound(), clock());
        let catalog = Catalog::on(Arc::new(store.clone()), clock.clone());
        let settings = Settings { checkpoint_commits: interval, ..Settings::default() };
        let index = catalog.create(&name("logs"), Mapping::dynamic(), settings).await.unwrap();
        Bed { store, clock, catalog, index }
    }

    async fn add(&mut self, id: u128) {
        self.store.write(&entry_of(&self.index, id).object.key, "rows").await;
        self.index = self.index.commit(adding_to(&self.index, [id])).await.unwrap();
    }

    /// Exchanges all live splits for one.
    async fn merge(&mut self, id: u128) {
        self.store.write(&entry_of(&self.index, id).object.key, "rows").await;
        let remove = self.index.splits().iter().map(|split| split.id).collect();
        let change = Change { remove, rearranges: true, ..adding_to(&self.index, [id]) };
        self.index = self.index.commit(change).await.unwrap();
    }

    /// The harshest vacuum there is.
    async fn vacuum(&self) -> usize {
        let wanted = Vacuum { retain_ms: 0, orphan_grace_ms: 0, ..Vacuum::default() };
        self.index.vacuum(&wanted).await.unwrap().deleted.len()
    }

    /// Asserts that the pinned version opens in another process with all its splits there.
    async fn check(&self, pin: &Pin, splits: &BTreeSet<SplitId>) {
        let catalog = Catalog::on(Arc::new(self.store.clone()), self.clock.clone());
        let index = catalog.open_pin(pin).await.unwrap();
        assert_eq!(index.version(), pin.version);
        assert_eq!(&ids(&index), splits);
        let keys = self.store.keys().await;
        for split in index.splits().iter() {
            assert!(keys.contains(&split.object.key), "{pin:?} lacks {}", split.object.key);
        }
    }
}

fn ids(index: &Index) -> BTreeSet<SplitId> {
    index.splits().iter().map(|split| split.id).collect()
}

#[tokio::test]
async fn a_pinned_version_outlives_ingest_merge_and_vacuum() {
    for interval in [2, 3, 100] {
        let mut bed = Bed::new(interval).await;
        for id in 0..4 {
            bed.add(id).await;
        }
        let (pinned, splits) = (bed.index.clone(), ids(&bed.index));
        bed.add(4).await;
        let pin = pinned.pin(HOUR).await.unwrap();
        for round in 0..4 {
            bed.merge(100 + round).await;
            bed.add(10 + round).await;
            bed.clock.advance_us(HOUR_US / 5);
            bed.vacuum().await;
            bed.check(&pin, &splits).await;
        }
        // Whoever holds the pin as it was before finds it extended.
        let longer = bed.index.extend_pin(&pin, 24 * HOUR).await.unwrap();
        assert_eq!(bed.index.extend_pin(&pin, HOUR).await.unwrap(), longer, "it is long enough");
        bed.clock.advance_us(20 * HOUR_US);
        bed.vacuum().await;
        bed.check(&pin, &splits).await;
        bed.check(&longer, &splits).await;
        bed.clock.advance_us(5 * HOUR_US);
        let expired = bed.catalog.open_pin(&pin).await.unwrap_err();
        assert_eq!(expired.kind(), ErrorKind::NotFound, "{expired:?}");
        let expired = bed.index.extend_pin(&pin, HOUR).await.unwrap_err();
        assert_eq!(expired.kind(), ErrorKind::NotFound, "{expired:?}");
        assert!(bed.vacuum().await > splits.len(), "the splits and the pin");
        assert_eq!(bed.vacuum().await, 0);
        assert!(!bed.store.keys().await.iter().any(|key| key.contains("_pins/")));
    }
}

#[tokio::test]
async fn the_log_of_a_pinned_version_is_kept() {
    let mut bed = Bed::new(3).await;
    for id in 0..4 {
        bed.add(id).await;
    }
    let (splits, pin) = (ids(&bed.index), bed.index.pin(29 * 24 * HOUR).await.unwrap());
    for id in 4..12 {
        bed.merge(100 + id).await;
        bed.clock.advance_us(84 * HOUR_US);
        bed.index = bed.index.refresh().await.unwrap();
        bed.vacuum().await;
        bed.check(&pin, &splits).await;
    }
    bed.clock.advance_us(60 * 24 * HOUR_US);
    assert!(bed.vacuum().await > 4, "log files, splits and the pin");
    let gone = bed.catalog.open_at(bed.index.name(), pin.version).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone:?}");
}

#[tokio::test]
async fn only_a_version_that_is_whole_can_be_pinned() {
    let mut bed = Bed::new(100).await;
    for id in 0..3 {
        bed.add(id).await;
    }
    let old = bed.index.clone();
    bed.merge(50).await;
    let refused = old.pin(HOUR).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused:?}");
    assert!(!bed.store.keys().await.iter().any(|key| key.contains("_pins/")), "no pin is left");
    let (pin, cost) = spent(&bed.store, bed.index.pin(HOUR)).await;
    assert_eq!((cost.puts, cost.gets, cost.lists), (1, 2, 0));
    let pin = pin.unwrap();
    assert!(bed.catalog.unpin(&pin).await.unwrap());
    assert!(!bed.catalog.unpin(&pin).await.unwrap());
    assert_eq!(bed.catalog.open_pin(&pin).await.unwrap_err().kind(), ErrorKind::NotFound, "it was ended");
    let long = bed.index.pin(31 * 24 * HOUR).await.unwrap_err();
    assert_eq!((long.kind(), long.what()), (ErrorKind::Invalid, "the log keeps a version for at most 30d"));
    let pin = bed.index.pin(HOUR).await.unwrap();
    bed.catalog.delete(bed.index.name()).await.unwrap();
    assert_eq!(bed.catalog.open_pin(&pin).await.unwrap_err().kind(), ErrorKind::NotFound);
    let gone = bed.index.pin(HOUR).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone:?}");
    bed.index = bed.catalog.create(&name("logs"), Mapping::dynamic(), Settings::default()).await.unwrap();
    assert_eq!(bed.catalog.open_pin(&pin).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn names_of_pins_are_read_back() {
    let name = "00000000000000000007-01700000000000000000-3b-c.json";
    assert_eq!(of_name(name), Some((7, 1_700_000_000_000_000_000)));
    for other in ["", "x.json", "7-8-id.json", "00000000000000000007.json", &name[1..], &name[..20]] {
        assert_eq!(of_name(other), None, "{other}");
    }
}
