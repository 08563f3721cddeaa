//! What this server has done to each index since it started, or since the index was made if that is later.
//!
//! Counts are of this server alone, and end with it. An index that is deleted and made anew begins again. Whatever is counted
//! is counted once it is done; only the counts of what is being done go down again, however it ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use frostline_base::IndexName;
use frostline_catalog::{Index, Records};
use frostline_query::{FieldUse, Response};
use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};

/// The counts of the indices, by the id of their tables.
#[derive(Debug, Default)]
pub(crate) struct IndexCounts(Mutex<HashMap<String, Arc<OfIndex>>>);

/// What is counted. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Queries,
    QueryUs,
    QueriesNow,
    /// Searches that showed documents of the index.
    Fetches,
    ScrollsBegun,
    PitsOpened,
    Found,
    FoundUs,
    Missing,
    MissingUs,
    GetsNow,
    Indexed,
    IndexUs,
    IndexingNow,
    IndexFailed,
    Deleted,
    DeleteUs,
    DeletingNow,
    Unchanged,
    /// Requests to write, and the bytes of their documents.
    Writes,
    WriteUs,
    WriteBytes,
    Refreshes,
    Flushes,
    /// What was written, by the class of the status that answered it.
    Answered2xx,
    Answered4xx,
    Answered5xx,
}

const COUNTS: usize = Count::Answered5xx as usize + 1;
/// Groups of searches that are counted in an index: clients who name each search otherwise fill no memory.
const GROUPS_MAX: usize = 1_000;
/// Fields of an index of which searches are counted.
const FIELDS_MAX: usize = 10_000;
/// The longest name of a group that is counted.
const GROUP_BYTES_MAX: usize = 256;

/// The counts of one index.
#[derive(Debug, Default)]
struct OfIndex {
    whole: Arc<Counts>,
    /// Those of its searches that name a group.
    groups: Mutex<BTreeMap<String, Arc<Counts>>>,
    /// How often searches used its fields.
    fields: Mutex<BTreeMap<String, FieldCounts>>,
}

/// How many searches used a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldCounts {
    pub(crate) any: u64,
    /// In conditions.
    pub(crate) asked: u64,
    /// Its column.
    pub(crate) valued: u64,
}

#[derive(Debug)]
struct Counts([AtomicU64; COUNTS]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([const { AtomicU64::new(0) }; COUNTS])
    }
}

impl Counts {
    fn add(&self, all: &[(Count, u64)]) {
        for (count, by) in all {
            self.0[*count as usize].fetch_add(*by, Ordering::Relaxed);
        }
    }

    fn take(&self, all: &[(Count, u64)]) {
        for (count, by) in all {
            self.0[*count as usize].fetch_sub(*by, Ordering::Relaxed);
        }
    }

    fn read(&self) -> Tally {
        Tally(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed)))
    }
}

/// Counts as they were when they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally([u64; COUNTS]);

impl Default for Tally {
    fn default() -> Tally {
        Tally([0; COUNTS])
    }
}

impl Tally {
    pub(crate) fn of(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }
}

impl OfIndex {
    fn use_fields(&self, used: &BTreeMap<String, FieldUse>) {
        let mut fields = self.fields.lock();
        for (path, FieldUse { is_asked, is_valued }) in used {
            if fields.len() == FIELDS_MAX && !fields.contains_key(path) {
                continue;
            }
            let counts = fields.entry(path.clone()).or_default();
            counts.any += 1;
            counts.asked += u64::from(*is_asked);
            counts.valued += u64::from(*is_valued);
        }
    }

    /// The counts of a group; none where there are too many groups.
    fn group(&self, name: &str) -> Option<Arc<Counts>> {
        let mut groups = self.groups.lock();
        match groups.get(name) {
            Some(known) => Some(Arc::clone(known)),
            None if groups.len() == GROUPS_MAX || name.len() > GROUP_BYTES_MAX => None,
            None => Some(Arc::clone(groups.entry(name.to_owned()).or_default())),
        }
    }
}

impl IndexCounts {
    /// Where the table of an index is counted. Of `records`, those of tables that are not there any more make room.
    fn of(&self, records: Option<&Records>, table: &str) -> Arc<OfIndex> {
        let mut all = self.all();
        if let Some(known) = all.get(table) {
            return Arc::clone(known);
        }
        if let Some(records) = records.filter(|_| all.len().is_power_of_two()) {
            let there: BTreeSet<&str> = records.indices().filter_map(|name| records.table_id(name)).collect();
            all.retain(|table, _| there.contains(table.as_str()));
        }
        Arc::clone(all.entry(table.to_owned()).or_default())
    }

    /// What is counted of the table of an index, and of the groups of its searches.
    pub(crate) fn read(&self, table: &str) -> (Tally, BTreeMap<String, Tally>) {
        let Some(counted) = self.all().get(table).map(Arc::clone) else { return Default::default() };
        let groups = counted.groups.lock();
        let groups = groups.iter().map(|(name, counts)| (name.clone(), counts.read())).collect();
        (counted.whole.read(), groups)
    }

    /// How often searches used the fields of the table of an index.
    pub(crate) fn fields(&self, table: &str) -> BTreeMap<String, FieldCounts> {
        let counted = self.all().get(table).map(Arc::clone);
        counted.map(|counted| counted.fields.lock().clone()).unwrap_or_default()
    }

    /// Begins something with an index. Nothing is counted of one that is not known yet.
    pub(crate) fn begin(&self, records: Option<&Records>, name: &IndexName, now: &[(Count, u64)]) -> Doing {
        Doing::begin(self.whole(records, name).into_iter().collect(), now)
    }

    /// Counts what was done with an index.
    pub(crate) fn add(&self, records: Option<&Records>, name: &IndexName, done: &[(Count, u64)]) {
        if let Some(counts) = self.whole(records, name) {
            counts.add(done);
        }
    }

    fn whole(&self, records: Option<&Records>, name: &IndexName) -> Option<Arc<Counts>> {
        let table = records?.table_id(name)?;
        Some(Arc::clone(&self.of(records, table).whole))
    }

    /// Begins a search of indices, which belongs to these groups.
    pub(crate) fn begin_search(
        &self,
        records: Option<&Records>,
        indices: &[Arc<Index>],
        groups: &[String],
    ) -> Searching {
        let each = indices.iter().map(|index| {
            let counted = self.of(records, index.table_id());
            let groups = groups.iter().filter_map(|group| counted.group(group));
            let places = groups.chain([Arc::clone(&counted.whole)]).collect();
            let doing = Doing::begin(places, &[(Count::QueriesNow, 1)]);
            (index.name().clone(), (counted, doing))
        });
        Searching(each.collect())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<OfIndex>>> {
        // The map is whole even if a thread died while it held the lock.
        self.0.lock()
    }
}

/// Something that is being done, and counts as such until it ends.
pub(crate) struct Doing {
    places: Vec<Arc<Counts>>,
    now: Vec<(Count, u64)>,
    since: Instant,
}

impl Doing {
    fn begin(places: Vec<Arc<Counts>>, now: &[(Count, u64)]) -> Doing {
        places.iter().for_each(|counts| counts.add(now));
        Doing { places, now: now.to_vec(), since: Instant::now() }
    }

    /// How long it takes by now.
    pub(crate) fn took_us(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        self.places.iter().for_each(|counts| counts.take(&self.now));
    }
}

/// A search that runs. One that fails is not counted.
pub(crate) struct Searching(BTreeMap<IndexName, (Arc<OfIndex>, Doing)>);

impl Searching {
    /// It ended with an answer, for which it used these fields. Its time counts for each of the indices.
    pub(crate) fn answered(self, response: &Response, used: &[(IndexName, BTreeMap<String, FieldUse>)]) {
        for (name, used) in used {
            if let Some((counted, _)) = self.0.get(name) {
                counted.use_fields(used);
            }
        }
        self.ended(&response.hits.hits.iter().map(|hit| hit.index.as_str()).collect());
    }

    /// The same, and documents of these indices were shown.
    pub(crate) fn ended(self, shown: &BTreeSet<&str>) {
        for (name, (_, doing)) in &self.0 {
            let fetches = u64::from(shown.contains(name.as_str()));
            let done = [(Count::Queries, 1), (Count::QueryUs, doing.took_us()), (Count::Fetches, fetches)];
            doing.places.iter().for_each(|counts| counts.add(&done));
        }
    }
}

/// As what an answer with that status is counted.
pub(crate) fn of_status(status: StatusCode) -> Count {
    match status.as_u16() {
        ..400 => Count::Answered2xx,
        400..500 => Count::Answered4xx,
        500.. => Count::Answered5xx,
    }
}

#[cfg(test)]
mod tests;
