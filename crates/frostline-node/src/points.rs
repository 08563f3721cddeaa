//! Points in time: pinned versions of indices, opened, continued and closed.

use std::sync::Arc;
use std::time::Duration;

use frostline_base::{Error, ErrorKind, IndexName, Result};
use frostline_catalog::{Access, Catalog, Index, Pin};
use frostline_query::language::{Held, IndexVersion, PointInTime};
use futures::future::join_all;
use futures::stream::{self, StreamExt};
use tokio::task::JoinHandle;

use crate::node::{INDICES_IN_FLIGHT, Node};
use crate::outdated;

/// How often pinning is retried because the version was merged away in the meantime.
const TRIES: usize = 10;

impl Node {
    /// Pins the newest versions of some indices for `keep_alive`: all of them, or none where one fails. Opening each,
    /// and then what [`Index::pin`] costs.
    pub async fn open_point_in_time(
        &self,
        names: &[IndexName],
        keep_alive: Duration,
    ) -> Result<(PointInTime, Vec<Arc<Index>>)> {
        let (mut indices, mut pins, mut failed) = (Vec::new(), Vec::new(), None);
        for pinned in several(names.iter().map(|name| self.pin(name, keep_alive))).await {
            match pinned {
                Ok((index, pin)) => {
                    indices.push(index);
                    pins.push(pin);
                }
                Err(error) => failed = Some(error),
            }
        }
        let pit = PointInTime { pins };
        let Some(error) = failed else {
            for (index, pin) in indices.iter().zip(&pit.pins) {
                self.pinned().put(index, pin.until_us, self.clock().now_us());
            }
            return Ok((pit, indices));
        };
        self.close_point_in_time(&pit).await?;
        Err(error)
    }

    /// Ends the pins, and returns how many were still there.
    pub async fn close_point_in_time(&self, pit: &PointInTime) -> Result<usize> {
        pit.pins.iter().for_each(|pin| self.pinned().remove(pin));
        let ended = several(pit.pins.iter().map(|pin| self.catalog().unpin(pin))).await;
        let ended: Vec<bool> = ended.into_iter().collect::<Result<_>>()?;
        Ok(ended.into_iter().filter(|was_there| *was_there).count())
    }

    /// The versions that a search is held to, opened. A point in time is extended first where the search asks for that.
    /// `NotFound` where it has expired or was closed, or where a version is too old to be opened; `Invalid` where an index
    /// is closed or blocked meanwhile. Where the repository does not answer, the versions that this node has opened before,
    /// for whom they [will do](crate::seen_will_do); then nothing is extended.
    pub async fn held(&self, held: &Held) -> Result<Vec<Arc<Index>>> {
        let opened = self.opened_of(held).await?;
        if let Some(records) = self.catalog().seen_records() {
            opened.iter().try_for_each(|index| records.check_access(index.name(), Access::Read))?;
        }
        Ok(opened)
    }

    async fn opened_of(&self, held: &Held) -> Result<Vec<Arc<Index>>> {
        match held {
            Held::PointInTime(pit, keep_alive) => {
                let opened = pit.pins.iter().map(|pin| self.of_pin(pin, *keep_alive));
                several(opened).await.into_iter().collect()
            }
            Held::Versions(versions) => {
                let opened = several(versions.iter().map(|version| self.at(version)));
                opened.await.into_iter().collect()
            }
        }
    }

    /// The newest versions of some indices, kept as long as what is returned lives, however long that is.
    pub async fn keep(&self, names: &[IndexName]) -> Result<Kept> {
        let (pit, indices) = self.open_point_in_time(names, KEPT_FOR).await?;
        let renewed: Vec<(Arc<Index>, Pin)> = indices.iter().cloned().zip(pit.pins.clone()).collect();
        let renewal = tokio::spawn(async move {
            loop {
                // Three renewals may fail before vacuum no longer keeps the version.
                tokio::time::sleep(KEPT_FOR / 4).await;
                let extended = renewed.iter().map(|(index, pin)| index.extend_pin(pin, KEPT_FOR));
                for error in join_all(extended).await.into_iter().filter_map(Result::err) {
                    tracing::warn!(?error, "a version that is being read is not kept from vacuum any longer");
                }
            }
        });
        Ok(Kept { catalog: self.catalog().clone(), pit, indices, renewal: Renewal(renewal) })
    }

    /// The newest version of an index, pinned.
    async fn pin(&self, name: &IndexName, keep_alive: Duration) -> Result<(Arc<Index>, Pin)> {
        let mut tried = 0;
        loop {
            let index = self.index(name).await?;
            if let Some(records) = self.catalog().seen_records() {
                records.check_access(name, Access::Read)?;
            }
            match index.pin(keep_alive).await {
                Ok(pin) => return Ok((index, pin)),
                Err(e) if e.kind() == ErrorKind::Conflict && tried < TRIES => tried += 1,
                Err(e) => return Err(e.context(format!("cannot pin a version of {name}"))),
            }
        }
    }

    /// The version of a pin, which is extended first.
    async fn of_pin(&self, pin: &Pin, keep_alive: Option<Duration>) -> Result<Arc<Index>> {
        let opened = self.read(|| async {
            let index = self.catalog().open_pin(pin).await?;
            let mut until_us = pin.until_us;
            if let Some(keep_alive) = keep_alive {
                let extended = index.extend_pin(pin, keep_alive).await;
                let extended =
                    extended.map_err(|e| e.context("cannot keep the point in time alive for longer"))?;
                until_us = extended.until_us;
            }
            Ok((Arc::new(index), until_us))
        });
        let now_us = self.clock().now_us();
        match opened.await {
            Ok((index, until_us)) => {
                self.pinned().put(&index, until_us, now_us);
                Ok(index)
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let seen = self.pinned().get(pin, now_us);
                outdated::given(seen).ok_or(error)
            }
            Err(error) => {
                self.pinned().remove(pin);
                Err(error)
            }
        }
    }

    async fn at(&self, wanted: &IndexVersion) -> Result<Arc<Index>> {
        let IndexVersion { name, table_id, version } = wanted;
        let gone = || {
            Error::not_found(format!(
                "the version of the index {name} that this page is of is gone: search again"
            ))
        };
        match self.catalog().open_at(name, *version).await {
            Ok(index) if index.table_id() == table_id => Ok(Arc::new(index)),
            Ok(_) => Err(gone()),
            // What else there is helps nobody to continue.
            Err(e) if e.kind() == ErrorKind::NotFound => Err(gone()),
            Err(e) => Err(e.context(format!("cannot continue in version {version} of {name}"))),
        }
    }
}

/// Does several things at a time; what each came to, in their order. They are made at once, so that a task on any thread
/// can wait for them.
fn several<F: Future>(each: impl Iterator<Item = F>) -> impl Future<Output = Vec<F::Output>> {
    let each: Vec<F> = each.collect();
    stream::iter(each).buffered(INDICES_IN_FLIGHT).collect()
}

/// How long a version stays pinned that is not renewed because its process was killed.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// Versions of indices that vacuum leaves whole.
#[derive(Debug)]
pub struct Kept {
    catalog: Catalog,
    pit: PointInTime,
    indices: Vec<Arc<Index>>,
    renewal: Renewal,
}

impl Kept {
    /// The versions.
    pub fn indices(&self) -> &[Arc<Index>] {
        &self.indices
    }

    /// What a search that is held to them names.
    pub fn point_in_time(&self) -> &PointInTime {
        &self.pit
    }

    /// Ends the pins. Without this they end by themselves some minutes after the last renewal.
    pub async fn release(self) {
        let Kept { catalog, pit, indices: _, renewal } = self;
        drop(renewal);
        for error in
            join_all(pit.pins.iter().map(|pin| catalog.unpin(pin))).await.into_iter().filter_map(Result::err)
        {
            tracing::warn!(?error, "a version stays pinned for some minutes");
        }
    }
}

/// Ends the task with what it works for.
#[derive(Debug)]
struct Renewal(JoinHandle<()>);

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}
