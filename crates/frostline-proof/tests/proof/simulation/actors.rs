//! What an actor does in one round.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use frostline_base::{Clock, Error, ErrorKind, IndexName, ReadRanges, Result};
use frostline_catalog::{Catalog, Index, Pin, Resolve, Vacuum};
use frostline_ingest::{Format, Ingest, IngestOptions, Inputs, Merge, MergePolicy};
use frostline_query::{Search, SearchOptions, Searcher, Settings};
use frostline_store::Repository;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::{Follow, Ledger, Serve, World};

const HOUR_MS: i64 = 3_600_000;
const PAGE: usize = 20;
/// Pages that a reader reads in a round.
const PAGES: usize = 2;

/// One thing to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// Ingests a file that holds these lines, perhaps merging beside it.
    Ingest(Arc<Log>, Option<MergePolicy>),
    /// Follows files while this happens to them.
    Follow(Follow, Option<MergePolicy>),
    /// Takes what clients send.
    Serve(Serve),
    /// Merges splits of at most so many bytes.
    Merge(MergePolicy, u64),
    Vacuum,
    Delete,
    List,
    /// Reads every line at once.
    Search,
    /// Reads the next pages of a pinned version.
    Page(Arc<Mutex<Reader>>),
}

/// A file of lines.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) file: PathBuf,
    pub(crate) lines: Vec<i64>,
    /// Whether a run ended well.
    pub(crate) is_done: Mutex<bool>,
}

/// A reader that pages, from round to round.
#[derive(Default)]
pub(crate) struct Reader {
    at: Option<Position>,
    /// How many came to the last page.
    pub(crate) ended: u64,
}

/// Without ids, which are drawn by threads whose order the seed does not decide.
impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.at.as_ref().map(|at| &at.seen);
        write!(f, "seen {seen:?}, ended {}", self.ended)
    }
}

#[derive(Debug)]
struct Position {
    pin: Pin,
    moment: super::ledger::Moment,
    total: Option<u64>,
    after: Option<Value>,
    seen: Vec<i64>,
}

/// Who does it, and with what.
#[derive(Clone)]
pub(crate) struct Actor {
    pub(crate) world: Arc<World>,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    pub(crate) names: Arc<AtomicU64>,
    pub(crate) number: usize,
}

pub(crate) fn index() -> IndexName {
    "logs".parse().expect("a name")
}

impl Actor {
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    pub(super) fn repository(&self) -> Repository {
        self.world.repository(self.number)
    }

    pub(super) fn catalog(&self, repository: &Repository) -> Catalog {
        Catalog::new(repository, Arc::clone(&self.world.clock) as Arc<dyn Clock>)
    }

    pub(super) fn random(&self) -> Arc<dyn Fn() -> u128 + Send + Sync> {
        let names = Arc::clone(&self.names);
        Arc::new(move || {
            let next = names.fetch_add(1, Ordering::Relaxed) + 1;
            u128::from(next).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
        })
    }

    /// Does a job; says what is wrong, if anything. That the store failed is not.
    pub(crate) async fn work(&self, job: &Job) -> Vec<String> {
        let outcome = match job {
            Job::Ingest(log, merge) => self.ingest(log, merge).await.map(|()| Vec::new()),
            Job::Follow(follow, merge) => self.follow(follow, merge).await.map(|()| Vec::new()),
            Job::Serve(serve) => self.serve(serve).await.map(|()| Vec::new()),
            Job::Merge(policy, budget) => self.merge(policy, *budget).await.map(|()| Vec::new()),
            Job::Vacuum => self.vacuum().await.map(|()| Vec::new()),
            Job::Delete => self.delete().await.map(|()| Vec::new()),
            Job::List => self.list().await.map(|()| Vec::new()),
            Job::Search => self.search().await,
            Job::Page(reader) => self.pages(reader).await,
        };
        outcome.unwrap_or_else(|error| match error.kind() {
            ErrorKind::Unavailable
            | ErrorKind::Conflict
            | ErrorKind::NotFound
            | ErrorKind::Denied
            | ErrorKind::Refused => Vec::new(),
            _ => vec![format!("{job:?} ended with {error:?}")],
        })
    }

    async fn ingest(&self, log: &Log, merge: &Option<MergePolicy>) -> Result<()> {
        let began = self.ledger().begin(&log.lines);
        let inputs = Inputs::from_arguments(std::slice::from_ref(&log.file))?;
        let report = self.writer().run(inputs, &index(), self.options(merge)).await?;
        if report.rejected_total() > 0 || !report.failed.is_empty() {
            return Err(Error::internal(format!("good lines were refused: {report:?}")));
        }
        self.ledger().acknowledge(&log.lines, began);
        *log.is_done.lock() = true;
        Ok(())
    }

    pub(super) fn options(&self, merge: &Option<MergePolicy>) -> IngestOptions {
        IngestOptions {
            format: Format::NdJson,
            split_rows_max: self.world.split_rows_max,
            threads: 1,
            memory_bytes_max: 256 << 20,
            merge: merge.clone(),
            ..IngestOptions::default()
        }
    }

    pub(super) fn writer(&self) -> Ingest {
        let repository = self.repository();
        let clock = Arc::clone(&self.world.clock) as Arc<dyn Clock>;
        Ingest::new(&repository, &self.catalog(&repository), clock, self.random())
    }

    async fn merge(&self, policy: &MergePolicy, budget: u64) -> Result<()> {
        let repository = self.repository();
        let merge = Merge::new(&repository, &self.catalog(&repository), self.random()).with_budget(budget);
        merge.run(&index(), policy).await?;
        Ok(())
    }

    async fn vacuum(&self) -> Result<()> {
        let catalog = self.catalog(&self.repository());
        let wanted =
            Vacuum { retain_ms: HOUR_MS, versions_keep: 1, orphan_grace_ms: 6 * HOUR_MS, dry_run: false };
        catalog.vacuum_deleted(&wanted).await?;
        catalog.open(&index()).await?.vacuum(&wanted).await?;
        Ok(())
    }

    async fn delete(&self) -> Result<()> {
        self.ledger().begin_deletion();
        let deleted = self.catalog(&self.repository()).delete(&index()).await;
        self.ledger().end_deletion();
        deleted
    }

    async fn list(&self) -> Result<()> {
        let catalog = self.catalog(&self.repository());
        catalog.list().await?;
        for (_, opened) in catalog.open_all("*", Resolve::default(), |_| None).await? {
            opened?;
        }
        Ok(())
    }

    async fn search(&self) -> Result<Vec<String>> {
        let moment = self.ledger().moment();
        let repository = self.repository();
        let index = self.catalog(&repository).open(&index()).await?;
        let body = json!({"size": 5_000, "query": {"exists": {"field": "n"}}});
        let answer = search(&repository, index, &body).await?;
        Ok(self.ledger().faults(&moment, &numbers(&answer)))
    }

    async fn pages(&self, reader: &Mutex<Reader>) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for _ in 0..PAGES {
            faults.extend(self.page(reader).await?);
        }
        Ok(faults)
    }

    async fn page(&self, reader: &Mutex<Reader>) -> Result<Vec<String>> {
        let at = reader.lock().at.take();
        let (repository, mut faults) = (self.repository(), Vec::new());
        let catalog = self.catalog(&repository);
        let mut at = match at {
            Some(at) => at,
            None => {
                let moment = self.ledger().moment();
                let pin = catalog.open(&index()).await?.pin(Duration::from_secs(20 * 86_400)).await?;
                Position { pin, moment, total: None, after: None, seen: Vec::new() }
            }
        };
        let mut body = json!({"size": PAGE, "sort": [{"n": "asc"}]});
        if let Some(after) = &at.after {
            body["search_after"] = after.clone();
        }
        let answer = async { search(&repository, catalog.open_pin(&at.pin).await?, &body).await };
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(error) => {
                let is_ours = error.kind() == ErrorKind::NotFound && at.moment_is_now(&self.ledger());
                let expired = self.world.clock.now_us() >= at.pin.until_us;
                // What was deleted or has expired is begun anew; after any other failure the same page is asked again.
                if is_ours && !expired {
                    faults.push(format!("a pinned version is gone: {error:?}"));
                } else if error.kind() != ErrorKind::NotFound {
                    reader.lock().at = Some(at);
                }
                return if faults.is_empty() { Err(error) } else { Ok(faults) };
            }
        };
        let total = answer["hits"]["total"]["value"].as_u64();
        if at.total.is_some() && at.total != total {
            faults.push(format!("a pinned version had {:?} documents and has {total:?}", at.total));
        }
        at.total = total;
        at.seen.extend(numbers(&answer));
        at.after =
            answer["hits"]["hits"].as_array().and_then(|hits| hits.last()).map(|hit| hit["sort"].clone());
        let mut reader = reader.lock();
        if at.after.is_some() {
            reader.at = Some(at);
            return Ok(faults);
        }
        reader.ended += 1;
        if at.total != Some(at.seen.len() as u64) {
            faults.push(format!("{:?} documents were promised and {} came", at.total, at.seen.len()));
        }
        faults.extend(self.ledger().faults_of_pages(&at.moment, &at.seen));
        Ok(faults)
    }

    /// Every line that is there with its `_id`, without turns and mishaps; none where there is no index.
    pub(crate) async fn everything(&self) -> Result<Option<Vec<(i64, String)>>> {
        self.plainly(&json!({"size": 5_000})).await
    }

    /// The same of the lines with these `_id`s.
    pub(crate) async fn with_ids(&self, ids: &[String]) -> Result<Option<Vec<(i64, String)>>> {
        self.plainly(&json!({"size": 5_000, "query": {"ids": {"values": ids}}})).await
    }

    async fn plainly(&self, body: &Value) -> Result<Option<Vec<(i64, String)>>> {
        let repository = self.world.plain();
        let index = match self.catalog(&repository).open(&index()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let answer = search(&repository, index, body).await?;
        let hits = answer["hits"]["hits"].as_array().cloned().unwrap_or_default();
        let ids = hits.iter().map(|hit| hit["_id"].as_str().unwrap_or_default().to_owned());
        Ok(Some(numbers(&answer).into_iter().zip(ids).collect()))
    }
}

impl Position {
    fn moment_is_now(&self, ledger: &Ledger) -> bool {
        ledger.is_same_index(&self.moment)
    }
}

async fn search(repository: &Repository, index: Index, body: &Value) -> Result<Value> {
    let reader: Arc<dyn ReadRanges> = Arc::new(repository.clone());
    let searcher = Searcher::new(repository, reader, Settings::default());
    let options = SearchOptions { strict: true, ..SearchOptions::default() };
    let search = Search::new(&searcher, &[Arc::new(index)], body.to_string().as_bytes(), &options)?;
    Ok(json!(search.run().await?))
}

fn numbers(answer: &Value) -> Vec<i64> {
    let hits = answer["hits"]["hits"].as_array().cloned().unwrap_or_default();
    hits.iter().map(|hit| hit["_source"]["n"].as_i64().unwrap_or(-1)).collect()
}
