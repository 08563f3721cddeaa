//! Versions of indices that a search is held to, so that pages of one answer fit together whatever is ingested or
//! merged between them.
//!
//! A [`PointInTime`] holds versions that vacuum keeps. A position in the order of `_doc` outside of one names the
//! [`Versions`] that it is a position in, which vacuum keeps as it keeps any.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use frostline_base::{IndexName, SplitId};
use frostline_catalog::{Index, Pin};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json::{self, At, Object};
use super::parts::milliseconds;
use crate::{Error, Result};

/// One version of an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IndexVersion {
    /// The index's name.
    pub name: IndexName,
    /// Its table: another one after an index of the same name was deleted and made again.
    pub table_id: String,
    /// The version.
    pub version: u64,
}

impl IndexVersion {
    /// The version that `index` is.
    pub fn of(index: &Index) -> IndexVersion {
        let (name, table_id) = (index.name().clone(), index.table_id().to_owned());
        IndexVersion { name, table_id, version: index.version() }
    }
}

/// Pinned versions of indices. As text, which is one word, it is the `id` of Elasticsearch's `pit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointInTime {
    /// A pin of each index.
    pub pins: Vec<Pin>,
}

impl PointInTime {
    /// The versions that are pinned.
    pub fn versions(&self) -> Vec<IndexVersion> {
        let versions = self.pins.iter().map(|pin| IndexVersion {
            name: pin.index.clone(),
            table_id: pin.table_id.clone(),
            version: pin.version,
        });
        versions.collect()
    }
}

impl fmt::Display for PointInTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_word(self, f)
    }
}

impl FromStr for PointInTime {
    type Err = Error;

    fn from_str(text: &str) -> Result<PointInTime> {
        let changed =
            || Error::invalid("this is not the id of a point in time: pass the id of the answer, unchanged");
        read_word(text).ok_or_else(changed)
    }
}

/// Versions of indices as a part of a position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Versions(pub(crate) Vec<IndexVersion>);

impl Versions {
    /// Those in a position of `_doc`, `split-row@versions`; none in any other text, nor in a position in a point in time.
    fn of_position(value: &str) -> Option<Result<Versions>> {
        let (row, versions) = value.split_once('@')?;
        let (split, row) = row.split_once('-')?;
        let is_position = split.parse::<SplitId>().is_ok() && row.parse::<u32>().is_ok();
        let changed =
            || Error::invalid("this is not a sort value of _doc: pass the value of the hit, unchanged");
        is_position.then(|| read_word(versions).ok_or_else(changed))
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_word(self, f)
    }
}

fn write_word(value: &impl Serialize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let bytes = postcard::to_allocvec(value).map_err(|_| fmt::Error)?;
    f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
}

fn read_word<T: DeserializeOwned>(text: &str) -> Option<T> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (value, rest) = postcard::take_from_bytes(&bytes).ok()?;
    rest.is_empty().then_some(value)
}

/// What a search body is held to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Held {
    /// Its `pit`, and for how much longer that is to be kept.
    PointInTime(PointInTime, Option<Duration>),
    /// The versions that the position to begin after is of.
    Versions(Vec<IndexVersion>),
}

impl Held {
    /// What `body` is held to, before it is read in full: that needs the fields of the indices.
    pub fn of_body(body: &[u8]) -> Result<Option<Held>> {
        if body.trim_ascii().is_empty() {
            return Ok(None);
        }
        let (body, at) = (json::parse(body)?, At::root(""));
        // What is no object is refused when it is read in full.
        Object::new(&body, &at).map_or(Ok(None), |mut body| Held::read(&mut body, &at))
    }

    /// What `pit` and `search_after` say, which must fit together.
    pub(super) fn read(body: &mut Object<'_>, at: &At<'_>) -> Result<Option<Held>> {
        let position = body.take("search_after").and_then(Value::as_array).into_iter().flatten();
        let position = position.filter_map(Value::as_str).find_map(Versions::of_position).transpose()?;
        let Some(pit) = body.take("pit") else {
            return Ok(position.map(|Versions(versions)| Held::Versions(versions)));
        };
        let at_pit = at.key("pit");
        let mut object = Object::new(pit, &at_pit)?;
        let id = object.string("id")?.ok_or_else(|| at_pit.invalid("[id] is missing"))?;
        let pit: PointInTime = id.parse().map_err(|error| at_pit.key("id").invalid(error))?;
        let keep_alive = object.string("keep_alive")?;
        let keep_alive = keep_alive.map(|text| milliseconds(text, &at_pit.key("keep_alive"))).transpose()?;
        object.finish()?;
        if position.is_some_and(|Versions(versions)| versions != pit.versions()) {
            return Err(at.key("search_after").invalid("the position is of another point in time"));
        }
        Ok(Some(Held::PointInTime(pit, keep_alive.map(Duration::from_millis))))
    }

    /// The versions.
    pub fn versions(&self) -> Vec<IndexVersion> {
        match self {
            Held::PointInTime(pit, _) => pit.versions(),
            Held::Versions(versions) => versions.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
