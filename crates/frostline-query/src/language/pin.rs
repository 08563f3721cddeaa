//! Versions of indices that a search is held to, so that pages of one answer fit together whatever is ingested or
//! merged between them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use frostline_base::{IndexName, SplitId};
use frostline_catalog::Index;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json;
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

/// Versions of indices, as the `id` of a point in time or as a part of a position. Written as text it is one word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pin {
    /// The versions.
    pub indices: Vec<IndexVersion>,
}

impl Pin {
    /// A pin of these versions.
    pub fn new(indices: &[IndexVersion]) -> Pin {
        Pin { indices: indices.to_vec() }
    }

    /// The versions that a search body is held to, by its `pit` or by the position to begin after; none where it asks
    /// the newest.
    pub fn of_body(body: &[u8]) -> Result<Option<Pin>> {
        if body.trim_ascii().is_empty() {
            return Ok(None);
        }
        let body = json::parse(body)?;
        if let Some(id) = body.pointer("/pit/id").and_then(Value::as_str) {
            return id.parse().map(Some);
        }
        let position = body.get("search_after").and_then(Value::as_array).into_iter().flatten();
        position.filter_map(Value::as_str).find_map(of_position).transpose()
    }
}

/// The pin in a position of `_doc`: `split-row@pin`.
fn of_position(value: &str) -> Option<Result<Pin>> {
    let (row, pin) = value.split_once('@')?;
    let (split, row) = row.split_once('-')?;
    let named = split.parse::<SplitId>().is_ok() && row.parse::<u32>().is_ok();
    named.then(|| pin.parse())
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = postcard::to_allocvec(self).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Pin {
    type Err = Error;

    fn from_str(text: &str) -> Result<Pin> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let pin = bytes.and_then(|bytes| postcard::from_bytes(&bytes).ok());
        pin.ok_or_else(|| Error::invalid("the id of a point in time is one that was given out, unchanged"))
    }
}

#[cfg(test)]
mod tests;
