//! Lands a group: its documents become splits, and one commit makes them live.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use frostline_base::{Error, ErrorKind, Result, STAGE};
use frostline_catalog::{Change, Index, Settings};
use frostline_split::{Mapping, Origin, SplitWriter, WriterOptions};
use tracing::info_span;

use super::figures::add;
use super::group::Writer;
use super::{Appended, Outcome, Request, begin};
use crate::lines::Refusal;
use crate::needle::Terms;
use crate::seal::{NewSplit, Offer, Output, WrittenSplit, mapping_of, offer};

/// Commits of a group that others, or a lost answer, may come in the way of.
const COMMITS_MAX: u32 = 8;
/// Times that a group is written: again where the index was re-created, or another process took one of its requests.
const WRITES_MAX: u32 = 4;

/// What becomes of documents before they are live.
struct Written {
    splits: Vec<WrittenSplit>,
    /// For each request, of its documents.
    outcomes: Vec<Vec<Outcome>>,
}

/// How a commit ended.
enum Committed {
    /// The index of this version has the group.
    Landed(u64),
    /// Nothing was committed. The group is to be written again, to the index as it is now.
    Outdated,
}

impl Writer {
    /// Answers every request of a group.
    pub(super) async fn land(self: &Arc<Self>, mut requests: Vec<Request>) {
        for _ in 0..WRITES_MAX {
            match self.try_land(&mut requests).await {
                Ok(()) if requests.is_empty() => return,
                Ok(()) => {}
                Err(error) => {
                    add(&self.live.counts.failures, 1);
                    requests.into_iter().for_each(|request| self.answer(request, Err(error.clone())));
                    return;
                }
            }
        }
        add(&self.live.counts.failures, 1);
        let error = Error::unavailable("other writers keep changing the index: try again");
        requests.into_iter().for_each(|request| self.answer(request, Err(error.clone())));
    }

    /// Answers the requests that it can, and takes them out. Those that stay are to be tried again.
    async fn try_land(self: &Arc<Self>, requests: &mut Vec<Request>) -> Result<()> {
        begin(requests, |of| info_span!(target: STAGE, parent: of, "open index"));
        let index = self.open(requests).await?;
        self.answer_known(&index, requests).await?;
        if requests.is_empty() {
            return Ok(());
        }
        let terms = Terms::of(&self.live.catalog, &index, &self.live.random).await?;
        let output = Output {
            index: index.clone(),
            repository: self.live.repository.clone(),
            random: Arc::clone(&self.live.random),
            runtime: tokio::runtime::Handle::current(),
            terms,
        };
        begin(requests, |of| info_span!(target: STAGE, parent: of, "seal"));
        let Written { splits, outcomes } = self.write(&output, requests).await?;
        begin(requests, |of| info_span!(target: STAGE, parent: of, "put"));
        let is_any = !splits.is_empty();
        let uploads = futures::future::try_join_all(splits.into_iter().map(|split| output.upload(split)));
        // Another process may have closed or blocked the index since it was opened here.
        let (splits, writable) = futures::join!(uploads, self.check_writable(is_any));
        let splits = splits?;
        if let Err(error) = writable {
            self.delete(&splits).await;
            return Err(error);
        }
        begin(requests, |of| info_span!(target: STAGE, parent: of, "commit"));
        let version = match splits.is_empty() {
            true => None,
            false => match self.commit(&index, requests, &outcomes, &splits).await? {
                Committed::Landed(version) => Some(version),
                Committed::Outdated => {
                    self.delete(&splits).await;
                    return Ok(());
                }
            },
        };
        if version.is_some() {
            add(&self.live.counts.groups, 1);
            add(&self.live.counts.commits, 1);
        }
        for (request, documents) in requests.drain(..).zip(outcomes) {
            self.count(&request, &documents);
            let version = version.filter(|_| lands(&documents));
            self.answer(request, Ok(Appended { version, documents }));
        }
        Ok(())
    }

    /// `Invalid` where the index takes no documents by now, if there are any.
    async fn check_writable(&self, is_any: bool) -> Result<()> {
        if is_any { self.live.catalog.check_writable(&self.name).await } else { Ok(()) }
    }

    /// Counts the documents of a request that is about to be answered.
    fn count(&self, request: &Request, outcomes: &[Outcome]) {
        let counts = &self.live.counts;
        for (document, outcome) in request.append.documents.iter().zip(outcomes) {
            match outcome {
                Outcome::Landed(_) => {
                    add(&counts.documents, 1);
                    add(&counts.bytes, document.len() as u64);
                }
                Outcome::LandedBefore => {}
                Outcome::Refused(_) => add(&counts.documents_refused, 1),
            }
        }
    }

    /// Deletes splits that were not committed and will not be.
    async fn delete(&self, splits: &[NewSplit]) {
        let keys = splits.iter().flat_map(NewSplit::keys);
        if let Err(error) = self.live.repository.delete(keys).await {
            tracing::debug!(index = %self.name, ?error, "splits that are not needed stay for vacuum");
        }
    }

    /// The index, opened or created where it is not known.
    async fn open(&self, requests: &[Request]) -> Result<Index> {
        if let Some(index) = self.known() {
            return Ok(index);
        }
        let catalog = &self.live.catalog;
        let index = match requests.iter().find_map(|request| request.append.create.as_ref()) {
            Some(mapping) => catalog.open_or_create(&self.name, mapping.clone(), Settings::default()).await?,
            None => catalog.open(&self.name).await?,
        };
        self.note(Some(index.clone()));
        Ok(index)
    }

    /// Answers those requests that the index has already, and takes them out.
    async fn answer_known(self: &Arc<Self>, index: &Index, requests: &mut Vec<Request>) -> Result<()> {
        let is_known = |request: &mut Request| taken(index, request).is_some();
        let known: Vec<Request> = requests.extract_if(.., is_known).collect();
        for request in known {
            let answer = match taken(index, &request) == Some(request.fingerprint) {
                true => self
                    .judge(index.mapping().clone(), request.append.documents.clone())
                    .await
                    .map(|documents| Appended { version: None, documents }),
                false => Err(Error::conflict("the key was used for a request with other documents")),
            };
            self.answer(request, answer);
        }
        Ok(())
    }

    /// What became of documents that have landed before: some may have been refused.
    async fn judge(&self, mapping: Mapping, documents: Vec<Bytes>) -> Result<Vec<Outcome>> {
        let judge = move || {
            let mut writer = SplitWriter::new(mapping, WriterOptions::default());
            let outcome = |document: &Bytes| {
                Ok(match offer(&mut writer, document, None)? {
                    Offer::Refused(refusal) => Outcome::Refused(refusal),
                    Offer::Taken | Offer::Full => Outcome::LandedBefore,
                })
            };
            documents.iter().map(outcome).collect()
        };
        self.compute(judge).await
    }

    /// Writes the documents of a group to splits in memory.
    async fn write(&self, output: &Output, requests: &[Request]) -> Result<Written> {
        let documents: Vec<_> = requests.iter().map(|request| request.append.documents.clone()).collect();
        let output = output.clone();
        self.compute(move || write(&output, &documents)).await
    }

    /// Computes on a thread that may block, and no more at the same time than there are cores.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // The semaphore is never closed.
        let _place = self.live.sealing.acquire().await;
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| Error::internal("writing a split was cut short").with_source(error))?
    }

    /// Makes the splits of a group live, in the index that they were written for.
    async fn commit(
        &self,
        of: &Index,
        requests: &[Request],
        outcomes: &[Vec<Outcome>],
        splits: &[NewSplit],
    ) -> Result<Committed> {
        let _turn = self.turn.lock().await;
        let Some(mut index) = self.known().filter(|index| index.table_id() == of.table_id()) else {
            return Ok(Committed::Outdated);
        };
        let landing = requests.iter().zip(outcomes).filter(|(_, outcomes)| lands(outcomes));
        let keys = landing.filter_map(|(request, _)| Some((source(request)?, request.fingerprint)));
        let moved = self.live.moved.fetch_add(1, Ordering::Relaxed) + 1;
        let change = Change {
            add: splits.iter().map(|split| split.entry.clone()).collect(),
            mapping: mapping_of(splits.iter())?,
            progress: vec![(self.live.source.clone(), moved)],
            passing: keys.collect(),
            passing_ms: i64::try_from(self.live.options.key_retention.as_millis()).unwrap_or(i64::MAX),
            files_add: splits.iter().filter_map(|split| split.run.clone()).collect(),
            operation: "live".to_owned(),
            ..Change::default()
        };
        let mut tries_left = COMMITS_MAX;
        loop {
            if requests.iter().any(|request| taken(&index, request).is_some()) {
                return Ok(Committed::Outdated);
            }
            tries_left -= 1;
            let failure = match index.commit(change.clone()).await {
                Ok(index) => {
                    let version = index.version();
                    self.note(Some(index));
                    return Ok(Committed::Landed(version));
                }
                Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable) => error,
                Err(error) => return self.unless_deleted(error),
            };
            index = match index.refresh().await {
                Ok(index) => index,
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(failure),
                Err(error) => return self.unless_deleted(error),
            };
            self.note(Some(index.clone()));
            // Nobody else moves the position, and to this number it is moved once.
            if index.progress(&self.live.source) == Some(moved) {
                return Ok(Committed::Landed(index.version()));
            }
            if tries_left == 0 {
                return Err(failure);
            }
        }
    }

    /// An index that was deleted is opened again, or created.
    fn unless_deleted(&self, error: Error) -> Result<Committed> {
        self.note(None);
        if error.kind() == ErrorKind::NotFound { Ok(Committed::Outdated) } else { Err(error) }
    }
}

/// What the catalog calls a request that has a key.
fn source(request: &Request) -> Option<String> {
    request.append.key.as_ref().map(|key| format!("request-{key}"))
}

/// The fingerprint of the request with this key that the index has.
fn taken(index: &Index, request: &Request) -> Option<i64> {
    index.progress(&source(request)?)
}

fn lands(outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|outcome| matches!(outcome, Outcome::Landed(_)))
}

/// Where a document is while splits are written.
enum Place {
    /// In the split of this number, as its document of that number.
    In(usize, u32),
    Refused(Refusal),
}

fn write(output: &Output, requests: &[Vec<Bytes>]) -> Result<Written> {
    let options = WriterOptions::live();
    let mut writer = SplitWriter::new(output.index.mapping().clone(), options.clone());
    let (mut splits, mut places) = (Vec::new(), Vec::new());
    for document in requests.iter().flatten() {
        let mut offered = offer(&mut writer, document, None)?;
        if matches!(offered, Offer::Full) {
            writer = seal(output, writer, &mut splits, &options)?;
            offered = offer(&mut writer, document, None)?;
        }
        places.push(match offered {
            Offer::Taken => Place::In(splits.len(), writer.rows() - 1),
            Offer::Refused(refusal) => Place::Refused(refusal),
            Offer::Full => return Err(Error::exhausted("a document does not fit into a split")),
        });
        if writer.is_full() {
            writer = seal(output, writer, &mut splits, &options)?;
        }
    }
    if writer.rows() > 0 {
        seal(output, writer, &mut splits, &options)?;
    }
    let rows: Vec<Vec<u32>> = splits.iter().map(|split| rows(split.order())).collect();
    let mut all = places.into_iter().map(|place| match place {
        Place::In(split, number) => {
            Outcome::Landed(Origin { split: splits[split].id(), row: rows[split][number as usize] })
        }
        Place::Refused(refusal) => Outcome::Refused(refusal),
    });
    let outcomes = requests.iter().map(|documents| all.by_ref().take(documents.len()).collect());
    let outcomes = outcomes.collect();
    drop(all);
    Ok(Written { splits, outcomes })
}

/// Writes a split, and says with which writer to go on.
fn seal(
    output: &Output,
    writer: SplitWriter,
    splits: &mut Vec<WrittenSplit>,
    options: &WriterOptions,
) -> Result<SplitWriter> {
    let split = output.write(writer)?;
    let next = SplitWriter::new(split.mapping().clone(), options.clone());
    splits.push(split);
    Ok(next)
}

/// The row of each document.
fn rows(order: &[u32]) -> Vec<u32> {
    let mut rows = vec![0; order.len()];
    for (row, document) in (0..).zip(order) {
        rows[*document as usize] = row;
    }
    rows
}
