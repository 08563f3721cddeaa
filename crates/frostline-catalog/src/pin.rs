//! Pinned versions: what a point in time or a cursor reads stays complete until a stated time.
//!
//! A pin is one small object in `_pins/` of the index's folder. Its name says the version, the time and the pin's identity,
//! so a vacuum knows all of them from one LIST. A pin is extended by an object of a later time and the same identity.

use std::time::Duration;

use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt as _};
use serde::{Deserialize, Serialize};

use frostline_base::{Error, IndexName, Result};
use frostline_commits::objects;

use crate::index::Index;
use crate::log::Log;
use crate::snapshot::Kept;
use crate::split_entry::split_of_path;

const HOUR_MS: i64 = 3_600_000;
/// The longest that may pass until what is guarded is kept in another way: no index allows less.
const GUARD: Duration = Duration::from_secs(3_600);

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
    /// When it ends, microseconds since 1970 UTC, unless it was extended since.
    pub until_us: i64,
    id: String,
}

impl Pin {
    /// When the pin ends, as its object in `log` says. `NotFound` where it has expired or was ended. One LIST.
    pub(crate) async fn check(&self, log: &Log, now_us: i64) -> Result<i64> {
        let pins = Pins::list(log).await?;
        let until_us =
            pins.of(self).map(|pinned| pinned.until_us).max().filter(|until_us| *until_us > now_us);
        until_us.ok_or_else(|| {
            Error::not_found("the point in time has expired or was closed: open another one")
                .with("index", &self.index)
        })
    }

    /// Ends it. Whether it was there. One LIST, and one DELETE.
    pub(crate) async fn end(&self, log: &Log) -> Result<bool> {
        let pins = Pins::list(log).await?;
        let paths: Vec<Path> = pins.of(self).map(|pinned| pinned.object.location.clone()).collect();
        let was_there = !paths.is_empty();
        objects::delete(log.store().as_ref(), paths).await?;
        Ok(was_there)
    }
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
        let (is_whole, lives) = futures::join!(self.is_whole(), self.lives());
        let refusal = match (is_whole, lives) {
            (Ok(true), Ok(true)) => return Ok(pin),
            (_, Ok(false)) => Error::not_found(format!("the index {} was deleted", self.name())),
            (Ok(false), _) => moved_on(),
            (Err(e), _) | (_, Err(e)) => e,
        };
        objects::delete(self.log.store().as_ref(), vec![path(&self.log, &pin)]).await?;
        Err(refusal)
    }

    /// The same version pinned for at least `lifetime` from now on. `NotFound` where the pin has expired or was ended.
    /// One LIST; one PUT and one DELETE where it would have ended before.
    pub async fn extend_pin(&self, pin: &Pin, lifetime: Duration) -> Result<Pin> {
        let until_us = pin.check(&self.log, self.shared.clock.now_us()).await?;
        let longer = Pin { version: pin.version, id: pin.id.clone(), ..self.new_pin(lifetime)? };
        if longer.until_us <= until_us {
            return Ok(Pin { until_us, ..longer });
        }
        // It comes after the one before in a listing: a vacuum that misses the one sees the other.
        self.put_pin(&longer).await?;
        let before = Pin { until_us, ..longer.clone() };
        let expired = self.shared.clock.now_us() >= until_us;
        let over = if expired { &longer } else { &before };
        objects::delete(self.log.store().as_ref(), vec![path(&self.log, over)]).await?;
        match expired {
            true => Err(Error::not_found("the point in time has expired").with("index", &pin.index)),
            false => Ok(longer),
        }
    }

    /// Pins whatever is live in this version or a later one, while it is about to be kept in another way.
    pub(crate) async fn guard(&self) -> Result<Pin> {
        let pin = self.new_pin(GUARD)?;
        self.put_pin(&pin).await?;
        Ok(pin)
    }

    /// Ends it.
    pub(crate) async fn end_guard(&self, guard: &Pin) -> Result<()> {
        objects::delete(self.log.store().as_ref(), vec![path(&self.log, guard)]).await
    }

    fn new_pin(&self, lifetime: Duration) -> Result<Pin> {
        let lifetime_us = i64::try_from(lifetime.as_micros()).unwrap_or(i64::MAX);
        let max_ms = self.settings().log_retention_ms;
        if lifetime_us / 1_000 > max_ms {
            let hours = max_ms / HOUR_MS;
            let most = if hours % 24 == 0 { format!("{}d", hours / 24) } else { format!("{hours}h") };
            return Err(Error::invalid(format!("the log keeps a version for at most {most}")));
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
        if self.is_mounted() {
            return Ok(true);
        }
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

/// The object of a pin, and what its name says.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) object: ObjectMeta,
    pub(crate) version: u64,
    pub(crate) until_us: i64,
}

impl Pinned {
    fn of(object: ObjectMeta) -> Option<Pinned> {
        let (version, until_us) = of_name(object.location.filename()?)?;
        Some(Pinned { object, version, until_us })
    }
}

/// The version and the end that the name of a pin's object says.
pub(crate) fn of_name(name: &str) -> Option<(u64, i64)> {
    let mut fields = name.strip_suffix(".json")?.splitn(3, '-');
    let mut digits = || fields.next().filter(|f| f.len() == 20 && f.bytes().all(|b| b.is_ascii_digit()));
    Some((digits()?.parse().ok()?, digits()?.parse().ok()?))
}

/// The pins of an index, expired ones included, and what keeps versions for snapshots.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pub(crate) pins: Vec<Pinned>,
    pub(crate) kept: Vec<(ObjectMeta, Kept)>,
}

impl Pins {
    /// The pins that are there. One LIST.
    pub(crate) async fn list(log: &Log) -> Result<Pins> {
        let folder = folder(log);
        let mut found = log.store().list(Some(&folder)).map_err(|e| objects::failed(e, &folder));
        let mut pins = Pins::default();
        while let Some(object) = found.try_next().await? {
            let kept = object.location.filename().and_then(Kept::of_name);
            match kept {
                Some(kept) => pins.kept.push((object, kept)),
                None => pins.pins.extend(Pinned::of(object)),
            }
        }
        Ok(pins)
    }

    /// The objects of one pin: several where it is being extended at this moment.
    fn of(&self, pin: &Pin) -> impl Iterator<Item = &Pinned> {
        let (start, end) = (format!("{:020}-", pin.version), format!("-{}.json", pin.id));
        let is_of = move |name: &str| name.starts_with(&start) && name.ends_with(&end);
        self.pins.iter().filter(move |pinned| pinned.object.location.filename().is_some_and(&is_of))
    }
}

#[cfg(test)]
mod tests;
