//! A node under measurement: started, queried and metered.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use frostline_base::{
    ByteRange, Caches, Cost, Error, IndexName, Meter, ObjectRef, ReadRanges, Reading, Share, SystemClock,
};
use frostline_cache::RegionCache;
use frostline_catalog::Index;
use frostline_ingest::{Cancel, Ingest, IngestOptions, IngestReport, Input, Inputs, Progress};
use frostline_node::{Node, Settings};
use frostline_query::{Response, Search, Searcher};
use frostline_show::{byte_progress, note};
use futures::future::try_join_all;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Limits;
use crate::study::{INDEX, Row, Study};

/// What one measurement cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Sample {
    pub(crate) ms: f64,
    /// Requests to the store. A store that is the machine's own disk is not asked by requests.
    pub(crate) gets: u64,
    pub(crate) bytes_fetched: u64,
    /// Bytes that the answer was made of, wherever they came from. One that two charts of a dashboard
    /// read counts once.
    pub(crate) bytes_used: u64,
}

/// A process that serves one index: everything that a restart creates again.
pub(crate) struct Process {
    node: Node,
    index: Arc<Index>,
    cache: Option<Arc<RegionCache>>,
    searcher: Arc<Searcher>,
    reads: Arc<Recorded>,
}

/// A process that has started, and what that took.
pub(crate) struct Opened {
    pub(crate) process: Process,
    /// Reading the catalog.
    pub(crate) catalog: Sample,
    /// Reading the directories of needle segments.
    pub(crate) segments: Sample,
}

/// An answer without what it cost: the same whatever the tier.
pub(crate) type Answer = Value;

impl Sample {
    pub(crate) fn of(started: Instant, cost: &Cost, bytes_used: u64) -> Sample {
        let ms = started.elapsed().as_micros() as f64 / 1e3;
        Sample { ms, gets: cost.gets, bytes_fetched: cost.bytes_read, bytes_used }
    }

    /// One after the other.
    pub(crate) fn then(self, next: Sample) -> Sample {
        Sample {
            ms: self.ms + next.ms,
            gets: self.gets + next.gets,
            bytes_fetched: self.bytes_fetched + next.bytes_fetched,
            bytes_used: self.bytes_used + next.bytes_used,
        }
    }
}

impl Process {
    /// Opens repository, catalog, cache, searcher and needle segments. The sample is what that cost: reading the catalog and the
    /// segments' directories.
    pub(crate) async fn start(config: &Settings, index: &str) -> Result<(Process, Sample)> {
        let opened = Process::of(open(config)?, index).await?;
        Ok((opened.process, opened.catalog.then(opened.segments)))
    }

    /// The same on a node that is open.
    pub(crate) async fn of(node: Node, index: &str) -> Result<Opened> {
        let started = Instant::now();
        let index = node.index(&index.parse()?).await?;
        let cache = node.cache().await?;
        if cache.as_ref().is_some_and(|cache| cache.stats().locked_by_other) {
            bail!("the cache in {} is in use by another process", node.settings().data.display());
        }
        let reads = Arc::new(Recorded::new(node.reader().await?));
        let searcher = node.searcher_through(Arc::clone(&reads) as Arc<dyn ReadRanges>);
        let process = Process { node, index, cache, searcher, reads };
        let cost = process.node.repository().meter().cost();
        let catalog = process.sample(started, &cost, cost.bytes_read);
        let started = Instant::now();
        let cost = process.searcher.open_segments(&process.index).await;
        let segments = process.sample(started, &cost, cost.bytes_used);
        Ok(Opened { process, catalog, segments })
    }

    /// Asks all bodies at once and waits for the last answer.
    pub(crate) async fn ask(&self, bodies: &[String], results: bool) -> Result<(Sample, Vec<Response>)> {
        let meter = self.node.repository().meter();
        let before = meter.cost();
        self.reads.forget();
        let started = Instant::now();
        let options = self.node.search_options(results, true).await;
        let asked = bodies.iter().map(|body| async {
            Search::new(&self.searcher, std::slice::from_ref(&self.index), body.as_bytes(), &options)?
                .run()
                .await
        });
        let answers = try_join_all(asked).await?;
        let mut sample = self.sample(started, &Cost::default(), 0);
        // People wait between two looks; by then what was fetched has been written.
        if let Some(cache) = &self.cache {
            cache.flush().await;
        }
        let cost = meter.cost().since(&before);
        let bytes_used = self.reads.bytes_distinct();
        sample = Sample { ms: sample.ms, ..self.sample(started, &cost, bytes_used) };
        Ok((sample, answers))
    }

    /// What the last question read.
    pub(crate) fn reads(&self) -> &Recorded {
        &self.reads
    }

    /// Ends the process as a shutdown does, so that the next can have the cache.
    pub(crate) async fn end(self) {
        if let Some(cache) = &self.cache {
            cache.close().await;
        }
    }

    fn sample(&self, started: Instant, cost: &Cost, bytes_used: u64) -> Sample {
        let requested = if self.node.repository().is_simulated() { *cost } else { Cost::default() };
        Sample::of(started, &requested, bytes_used)
    }
}

/// What a process finds when it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a> {
    /// Nothing is cached.
    Dropped,
    /// Everything is cached below this directory, and nothing is in the page cache.
    Near(&'a Path),
}

/// All questions of the study, once.
pub(crate) struct Run {
    pub(crate) samples: Vec<(Row, Sample)>,
    /// First questions without reading the catalog: what the query itself was billed.
    pub(crate) first_searches: Vec<(Row, Sample)>,
    /// What was said, row by row.
    pub(crate) answers: Vec<(Row, Answer)>,
}

impl Run {
    /// Asks the needle first and again, then, after another restart, the dashboard first, again, for one
    /// country, and again from the result cache.
    pub(crate) async fn of(config: &Settings, study: &Study, start: Start<'_>) -> Result<Run> {
        let mut run = Run { samples: Vec::new(), first_searches: Vec::new(), answers: Vec::new() };
        if let Some(needle) = study.needle() {
            let question = Study::needle_question(&needle);
            let (process, catalog) = run.restart(config, start).await?;
            run.ask(&process, Row::NeedleFirst, &question, Some(catalog)).await?;
            run.ask(&process, Row::NeedleRepeat, &question, None).await?;
            run.check_needle(needle.hits)?;
            process.end().await;
        }
        let dashboard = study.dashboard();
        let (process, catalog) = run.restart(config, start).await?;
        run.ask(&process, Row::DashboardFirst, &dashboard, Some(catalog)).await?;
        run.ask(&process, Row::DashboardRepeat, &dashboard, None).await?;
        run.ask(&process, Row::DashboardCountry, &study.dashboard_of_country(), None).await?;
        process.ask(&dashboard, true).await?;
        let (sample, answers) = process.ask(&dashboard, true).await?;
        run.note(Row::DashboardResults, sample, &answers)?;
        process.end().await;
        Ok(run)
    }

    async fn restart(&self, config: &Settings, start: Start<'_>) -> Result<(Process, Sample)> {
        match start {
            Start::Dropped => forget_near(config)?,
            Start::Near(folder) => {
                remove(&config.data.join("results"))?;
                forget_os_pages(folder)?;
            }
        }
        Process::start(config, INDEX).await
    }

    /// Asks; a first question pays for the catalog that was read before it.
    async fn ask(
        &mut self,
        process: &Process,
        row: Row,
        question: &[String],
        catalog: Option<Sample>,
    ) -> Result<()> {
        let (sample, answers) = process.ask(question, false).await?;
        if catalog.is_some() {
            self.first_searches.push((row, sample));
        }
        self.note(row, catalog.unwrap_or_default().then(sample), &answers)
    }

    fn note(&mut self, row: Row, sample: Sample, answers: &[Response]) -> Result<()> {
        self.samples.push((row, sample));
        self.answers.push((row, said(answers)?));
        Ok(())
    }

    fn check_needle(&self, hits: u64) -> Result<()> {
        for (row, answer) in &self.answers {
            let found = answer.pointer("/0/total/value").and_then(Value::as_u64);
            if found != Some(hits) {
                bail!("{}: {found:?} documents were found and {hits} generated", row.name());
            }
        }
        Ok(())
    }
}

/// The node of these settings, by the machine's clock.
pub(crate) fn open(settings: &Settings) -> Result<Node> {
    Ok(Node::open(settings, Arc::new(SystemClock))?)
}

/// Ingests with a progress bar. Ctrl-C commits what is uploaded, and fails.
pub(crate) async fn take_in(
    node: &Node,
    inputs: Inputs,
    index: &str,
    limits: &Limits,
    rejects: Option<File>,
) -> Result<IngestReport> {
    let options = IngestOptions { memory_bytes_max: limits.memory_bytes_max, ..IngestOptions::default() };
    take_in_with(node, inputs, index, limits, rejects, options).await
}

/// The same with other options than the default.
pub(crate) async fn take_in_with(
    node: &Node,
    inputs: Inputs,
    index: &str,
    limits: &Limits,
    rejects: Option<File>,
    options: IngestOptions,
) -> Result<IngestReport> {
    let name: IndexName = index.parse()?;
    let cancel = Cancel::default();
    let bar = byte_progress(Some(inputs.bytes()), "read");
    let random = Arc::clone(&limits.random);
    let mut ingest = Ingest::new(node.repository(), node.catalog(), Arc::clone(node.clock()), random)
        .with_cancel(&cancel)
        .with_progress({
            let bar = bar.clone();
            move |progress: &Progress| bar.set_position(progress.bytes_taken)
        });
    if let Some(rejects) = rejects {
        ingest = ingest.with_rejects(rejects);
    }
    let running = ingest.run(inputs, &name, options);
    tokio::pin!(running);
    let report = tokio::select! {
        report = &mut running => report,
        _ = tokio::signal::ctrl_c() => {
            cancel.cancel();
            running.await
        }
    };
    bar.finish_and_clear();
    let report = report.with_context(|| format!("cannot ingest into {name}"))?;
    if report.cancelled {
        return Err(stopped());
    }
    Ok(report)
}

/// What `work` gives, unless Ctrl-C ends it before.
pub(crate) async fn unless_stopped<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        done = work => done,
        asked = tokio::signal::ctrl_c() => {
            asked?;
            Err(stopped())
        }
    }
}

fn stopped() -> anyhow::Error {
    Error::stopped("stopped").into()
}

/// Fails where the index holds other documents than these: a kept directory of another run.
pub(crate) async fn check_documents(node: &Node, input: &Input) -> Result<()> {
    if !node.catalog().list().await?.iter().any(|name| name.as_str() == INDEX) {
        return Ok(());
    }
    let index = node.index(&INDEX.parse()?).await?;
    let is_known = input.identity().is_some_and(|identity| index.progress(identity).is_some());
    if !is_known && !index.splits().is_empty() {
        bail!("{} holds the documents of another run: keep this one elsewhere", node.repository().url());
    }
    Ok(())
}

/// What the answers say, for comparing tiers.
pub(crate) fn said(answers: &[Response]) -> Result<Answer> {
    let said = answers.iter().map(|answer| {
        let sources: Vec<_> = answer.hits.hits.iter().map(|hit| &hit.source).collect();
        json!({ "total": answer.hits.total, "hits": sources, "aggregations": answer.aggregations })
    });
    Ok(said.collect())
}

/// Drops cached pages and partial answers. Mounts stay.
pub(crate) fn forget_near(config: &Settings) -> Result<()> {
    for part in ["cache", "results"] {
        remove(&config.data.join(part))?;
    }
    Ok(())
}

/// Removes a directory if it is there.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Asks the operating system to forget the pages of all files below a directory. Where it has no such
/// call nothing happens: see [`OS_CACHE_DROPPED`].
pub(crate) fn forget_os_pages(folder: &Path) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
        let kind = entry.file_type().with_context(|| format!("cannot read {}", entry.path().display()))?;
        if kind.is_dir() {
            forget_os_pages(&entry.path())?;
        } else if kind.is_file() {
            forget_file(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether [`forget_os_pages`] does anything here.
pub(crate) const OS_CACHE_DROPPED: bool = cfg!(target_os = "linux");

#[cfg(target_os = "linux")]
fn forget_file(path: &Path) -> Result<()> {
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    // Pages that are not on the disk yet would stay.
    file.sync_data().with_context(|| format!("cannot sync {}", path.display()))?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
        .with_context(|| format!("cannot forget the pages of {}", path.display()))
}

#[cfg(not(target_os = "linux"))]
fn forget_file(_: &Path) -> Result<()> {
    Ok(())
}

/// A directory for one run: the user's, or one that goes when the run ends.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    is_kept: bool,
}

impl Place {
    /// A directory of ours in `keep`, or a new one among the machine's temporary ones. What else is in `keep`
    /// stays as it is.
    pub(crate) fn new(keep: Option<&Path>, name: &str) -> Result<Place> {
        let folder = match keep {
            Some(folder) => folder.join(format!("frostline-{name}")),
            None => std::env::temp_dir().join(format!("frostline-{name}-{}", std::process::id())),
        };
        let made =
            if keep.is_some() { std::fs::create_dir_all(&folder) } else { std::fs::create_dir(&folder) };
        made.with_context(|| format!("cannot make {}", folder.display()))?;
        let folder =
            std::path::absolute(&folder).with_context(|| format!("cannot find {}", folder.display()))?;
        Ok(Place { folder, is_kept: keep.is_some() })
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = remove(&self.folder)
        {
            note!("frostline: {error:#}");
        }
    }
}

/// The most memory that this process had, where the system says.
pub(crate) fn memory_bytes_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1_024)
}

/// Remembers what was read: which bytes, and when those reads ran that a store had to answer.
#[derive(Debug)]
pub(crate) struct Recorded {
    inner: Arc<dyn ReadRanges>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    ranges: HashMap<String, Vec<ByteRange>>,
    requested: Vec<(Instant, Instant)>,
}

impl Recorded {
    fn new(inner: Arc<dyn ReadRanges>) -> Recorded {
        Recorded { inner, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }

    fn forget(&self) {
        *self.seen() = Seen::default();
    }

    fn bytes_distinct(&self) -> u64 {
        self.seen().ranges.values().map(|ranges| bytes_covered(ranges.clone())).sum()
    }

    /// How many objects were read whose keys end like this.
    pub(crate) fn objects(&self, ending: &str) -> u64 {
        self.seen().ranges.keys().filter(|key| key.ends_with(ending)).count() as u64
    }

    /// The most reads of which each began after the one before had ended: requests that waited for others, be it
    /// for what these said or for their place.
    pub(crate) fn rounds(&self) -> u64 {
        in_a_row(self.seen().requested.clone())
    }
}

impl ReadRanges for Recorded {
    fn read_by<'a>(
        &'a self,
        caches: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        self.seen().ranges.entry(object.key.clone()).or_default().extend_from_slice(ranges);
        Box::pin(async move {
            let (begun, own) = (Instant::now(), Meter::default());
            let read = self.inner.read_by(caches, object, ranges, share, &own).await;
            let cost = own.cost();
            meter.add_cost(&cost);
            if cost.gets > 0 {
                self.seen().requested.push((begun, Instant::now()));
            }
            read
        })
    }
}

/// The most of these spans of which each begins after the one before has ended.
fn in_a_row(mut spans: Vec<(Instant, Instant)>) -> u64 {
    spans.sort_by_key(|(_, end)| *end);
    let mut reached = None;
    let mut count = 0;
    for (start, end) in spans {
        if reached.is_none_or(|reached| start >= reached) {
            reached = Some(end);
            count += 1;
        }
    }
    count
}

/// How many bytes are in at least one of the ranges.
fn bytes_covered(mut ranges: Vec<ByteRange>) -> u64 {
    ranges.sort_by_key(|range| range.start);
    let (mut covered, mut reached) = (0, 0);
    for range in ranges {
        let start = range.start.max(reached);
        covered += range.end.saturating_sub(start);
        reached = reached.max(range.end);
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_twice_count_once() {
        assert_eq!(bytes_covered(vec![]), 0);
        assert_eq!(bytes_covered(vec![10..20, 0..5, 12..18, 15..30, 40..40]), 25);
    }

    #[test]
    fn reads_in_a_row_waited_for_each_other() {
        let now = Instant::now();
        let spans = |ms: &[(u64, u64)]| {
            let at = |ms| now + std::time::Duration::from_millis(ms);
            in_a_row(ms.iter().map(|(start, end)| (at(*start), at(*end))).collect())
        };
        assert_eq!(spans(&[]), 0);
        assert_eq!(spans(&[(0, 10), (1, 11), (2, 12)]), 1);
        // One long read beside three short ones, then one more.
        assert_eq!(spans(&[(0, 100), (0, 10), (10, 20), (25, 30), (90, 110)]), 4);
    }

    #[test]
    fn a_temporary_place_goes_and_a_kept_one_stays() {
        let place = Place::new(None, "test-place").unwrap();
        let folder = place.folder.clone();
        let kept = Place::new(Some(&folder.join("kept")), "unused").unwrap();
        let inner = kept.folder.clone();
        drop(kept);
        assert!(inner.is_dir());
        drop(place);
        assert!(!folder.exists());
    }
}
