//! What the tests share: entries to commit, and a clock.

use std::sync::Arc;

use object_store::path::Path;

use frostline_base::{Clock, FixedClock, IndexName, ObjectRef, SplitId, SystemClock};
use frostline_split::{Mapping, ValueType};

use crate::split_entry::split_key;
use crate::{Catalog, Change, Index, SplitEntry};

pub(crate) use frostline_commits::testing::{Faulty, Requests};

pub(crate) fn name(text: &str) -> IndexName {
    text.parse().unwrap()
}

/// A clock that is at the machine's time: object ages come from the store's own clock.
pub(crate) fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::at(SystemClock.now_us()))
}

pub(crate) fn catalog(store: &Faulty) -> Catalog {
    Catalog::on(Arc::new(store.clone()), clock())
}

pub(crate) fn entry(index: &IndexName, id: u128) -> SplitEntry {
    let id = SplitId::from_random(id.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
    let object = ObjectRef { key: split_key(&Path::from(index.as_str()), id), bytes: 1_000 };
    let times = Some((1_700_000_000_123_456, 1_700_000_060_654_321));
    let unpacked_bytes = Some(40_000);
    SplitEntry {
        id,
        object,
        footer: 800..990,
        rows: 100,
        times,
        rows_without_time: 3,
        unpacked_bytes,
        is_merged: false,
    }
}

/// An entry as [`entry`] makes it, in the folder of `index`.
pub(crate) fn entry_of(index: &Index, id: u128) -> SplitEntry {
    let mut entry = entry(index.name(), id);
    entry.object.key = index.split_key(entry.id);
    entry
}

pub(crate) fn adding_to(index: &Index, ids: impl IntoIterator<Item = u128>) -> Change {
    let add = ids.into_iter().map(|id| entry_of(index, id)).collect();
    Change { add, operation: "ingest".to_owned(), ..Change::default() }
}

/// What lies in the store besides the repository log.
pub(crate) async fn table_keys(store: &Faulty) -> Vec<String> {
    store.keys().await.into_iter().filter(|key| !key.starts_with("_frostline/")).collect()
}

/// The requests that `work` makes.
pub(crate) async fn spent<T>(store: &Faulty, work: impl Future<Output = T>) -> (T, Requests) {
    let before = store.requests();
    let done = work.await;
    let after = store.requests();
    let requests = Requests {
        gets: after.gets - before.gets,
        puts: after.puts - before.puts,
        lists: after.lists - before.lists,
        deletes: after.deletes - before.deletes,
    };
    (done, requests)
}

pub(crate) fn adding(index: &IndexName, ids: impl IntoIterator<Item = u128>) -> Change {
    let add = ids.into_iter().map(|id| entry(index, id)).collect();
    Change { add, operation: "ingest".to_owned(), ..Change::default() }
}

/// A mapping that knows one more field.
pub(crate) fn field(path: &str) -> Mapping {
    let mut mapping = Mapping::dynamic();
    mapping.place(path, ValueType::Text, false);
    mapping
}
