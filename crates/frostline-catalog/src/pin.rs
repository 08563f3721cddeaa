//! Pinned versions: what a point in time or a cursor reads stays complete until a stated time.
//!
//! A pin is one small object in `_pins/` of the index's folder. Its name contains the version and the time, so a
//! vacuum learns
//! all pins from one LIST.

use std::time::Duration;

use futures::StreamExt as _;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt as _};
use serde::{Deserialize, Serialize};

use frostline_base::{Error, IndexName, Result};
use frostline_commits::objects;

use crate::index::Index;
use crate::log::Log;
use crate::split_entry::split_of_path;

/// A version of an index that vacuum keeps complete until `until_us`, by the clock of the vacuuming machine. Plain
/// data: another
/// process can open the version with [`crate::Catalog::open_pin`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The index's name.
    pub index: IndexName,
    /// The table's identity, which changes if the index is re-created under this name.
    pub table_id: String,
    /// The version.
    pub version: u64,
    /// When it ends, microseconds since 1970 UTC.
    pub until_us: i64,
    id: String,
}

impl Index {
    /// Pins this version for `lifetime` (at most the log's retention): until then no vacuum deletes a split of it, or
    /// anything
    /// needed to open it.
    ///
    /// `Conflict` if a later version has removed splits of this one, as a merge does: then call [`Index::refresh`] and
    /// pin the
    /// result. Versions that only add splits, as an ingest does, do not matter. So to page through a stable view, pin
    /// first
    /// and search afterwards. Cost: one PUT and two GETs (one of the repository
    /// log), and one more GET for each version that came after this one.
    pub async fn pin(&self, lifetime: Duration) -> Result<Pin> {
        let pin = self.new_pin(lifetime)?;
        if self.is_stale() {
            return Err(moved_on());
        }
        self.put_pin(&pin).await?;
        let (is_whole, lives) = futures::join!(self.is_whole(), self.shared.lives(&self.log));
        let refusal = match (is_whole, lives) {
            (Ok(true), Ok(true)) => return Ok(pin),
            (_, Ok(false)) => Error::not_found(format!("the index {} was deleted", self.name())),
            (Ok(false), _) => moved_on(),
            (Err(e), _) | (_, Err(e)) => e,
        };
        self.unpin(&pin).await?;
        Err(refusal)
    }

    /// Pins the same version for `lifetime` from now on, and ends `pin`. `NotFound` if it has expired.
    /// Cost: one PUT and one DELETE.
    pub async fn extend_pin(&self, pin: &Pin, lifetime: Duration) -> Result<Pin> {
        let expired = || Error::not_found("the point in time has expired").with("index", &pin.index);
        let longer = Pin { version: pin.version, ..self.new_pin(lifetime)? };
        // The new one comes after the old one in a listing: a vacuum that misses the one sees the other.
        let longer = Pin { until_us: longer.until_us.max(pin.until_us.saturating_add(1)), ..longer };
        self.put_pin(&longer).await?;
        if self.shared.clock.now_us() >= pin.until_us {
            self.unpin(&longer).await?;
            return Err(expired());
        }
        self.unpin(pin).await?;
        Ok(longer)
    }

    /// Ends a pin early. It is not an error if it is already gone. Cost: one DELETE.
    pub async fn unpin(&self, pin: &Pin) -> Result<()> {
        objects::delete(self.log.store().as_ref(), vec![path(&self.log, pin)]).await
    }

    fn new_pin(&self, lifetime: Duration) -> Result<Pin> {
        let lifetime_us = i64::try_from(lifetime.as_micros()).unwrap_or(i64::MAX);
        let max_ms = self.settings().log_retention_ms;
        if lifetime_us / 1_000 > max_ms {
            return Err(Error::invalid("the log does not keep a version for so long")
                .with("lifetime_ms", lifetime_us / 1_000)
                .with("log_retention_ms", max_ms));
        }
        Ok(Pin {
            index: self.name().clone(),
            table_id: self.table_id().to_owned(),
            version: self.version(),
            until_us: self.shared.clock.now_us().max(0).saturating_add(lifetime_us),
            id: self.shared.new_id(),
        })
    }

    async fn put_pin(&self, pin: &Pin) -> Result<()> {
        let body = serde_json::to_vec(pin)
            .map_err(|e| Error::internal("a pin cannot be written as JSON").with_source(e))?;
        let path = path(&self.log, pin);
        self.log.store().put(&path, body.into()).await.map(drop).map_err(|e| objects::failed(e, &path))
    }

    /// Whether every split of this version is live in the newest. A vacuum that did not see a pin read the newest version
    /// before the pin was written, so it deletes nothing of this one either.
    async fn is_whole(&self) -> Result<bool> {
        let later = self.log.commits.newer(self.version() + 1).await?;
        let removed = later.iter().flat_map(|commit| &commit.removes);
        Ok(removed.filter_map(|remove| split_of_path(&remove.path)).all(|id| self.split(id).is_none()))
    }
}

fn moved_on() -> Error {
    Error::conflict("a later version has removed splits of this one; refresh and pin that")
}

fn folder(log: &Log) -> Path {
    Path::from(format!("{}/_pins", log.folder))
}

fn path(log: &Log, pin: &Pin) -> Path {
    Path::from(format!("{}/{:020}-{:020}-{}.json", folder(log), pin.version, pin.until_us, pin.id))
}

/// The version and the end that the name of a pin's object says.
pub(crate) fn of_name(name: &str) -> Option<(u64, i64)> {
    let mut fields = name.strip_suffix(".json")?.splitn(3, '-');
    let mut digits = || fields.next().filter(|f| f.len() == 20 && f.bytes().all(|b| b.is_ascii_digit()));
    Some((digits()?.parse().ok()?, digits()?.parse().ok()?))
}

/// The pins of an index.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// The oldest version that is pinned.
    pub(crate) oldest: Option<u64>,
    pub(crate) expired: Vec<ObjectMeta>,
}

impl Pins {
    /// The pins that are there, told apart by the time `now_us`. One LIST.
    pub(crate) async fn list(log: &Log, now_us: i64) -> Result<Pins> {
        let folder = folder(log);
        let mut pins = Pins::default();
        let mut found = log.store().list(Some(&folder));
        while let Some(object) = found.next().await {
            let object = object.map_err(|e| objects::failed(e, &folder))?;
            match of_name(object.location.filename().unwrap_or_default()) {
                Some((_, until_us)) if until_us <= now_us => pins.expired.push(object),
                Some((version, _)) => {
                    pins.oldest = Some(pins.oldest.map_or(version, |oldest| oldest.min(version)));
                }
                None => {}
            }
        }
        Ok(pins)
    }
}

#[cfg(test)]
mod tests;
