//! The log of slow searches: what was asked, as a shape without values, and what it cost.

mod shape;

use bytes::Bytes;
use frostline_query::{OpeningCost, QueryCost, SplitCost};

use crate::body::Received;

/// The longest body that is logged.
const BODY_BYTES_MAX: usize = 10_000;
/// The longest name of indices that is logged.
const INDEX_BYTES_MAX: usize = 1_000;

/// What the searches of a request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Searched {
    pub(crate) searches: u64,
    pub(crate) gets: u64,
    pub(crate) bytes: u64,
    pub(crate) usd: f64,
    pub(crate) splits: u64,
    pub(crate) splits_opened: u64,
    pub(crate) splits_pruned: u64,
}

impl From<&QueryCost> for Searched {
    fn from(cost: &QueryCost) -> Searched {
        let QueryCost { gets, bytes, usd, opening, splits, .. } = cost;
        let OpeningCost { gets: gets_before, bytes: bytes_before, usd: usd_before, .. } = opening;
        let SplitCost { live, opened, .. } = splits;
        Searched {
            searches: 1,
            gets: gets + gets_before,
            bytes: bytes + bytes_before,
            usd: usd + usd_before,
            splits: *live,
            splits_opened: *opened,
            splits_pruned: splits.pruned(),
        }
    }
}

impl Searched {
    pub(crate) fn and(self, other: Searched) -> Searched {
        Searched {
            searches: self.searches + other.searches,
            gets: self.gets + other.gets,
            bytes: self.bytes + other.bytes,
            usd: self.usd + other.usd,
            splits: self.splits + other.splits,
            splits_opened: self.splits_opened + other.splits_opened,
            splits_pruned: self.splits_pruned + other.splits_pruned,
        }
    }
}

/// A search that is logged if it turns out to be slow.
pub(crate) struct Watched {
    pub(crate) api: &'static str,
    /// The indices, as the path names them.
    pub(crate) index: Option<String>,
    /// The query of the URL.
    pub(crate) query: Option<String>,
    /// The body keeps its share of the memory.
    pub(crate) body: Received,
}

/// A search as a line of the log shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) index: String,
    /// The names of fields and queries, without values.
    pub(crate) shape: String,
    /// All that was asked, where the log may have it.
    pub(crate) body: Option<String>,
}

impl Watched {
    pub(crate) fn show(&self, with_body: bool) -> Shown {
        let index = self.index.as_deref().unwrap_or_default();
        let mut shape = shape::of(self.api, &self.body.bytes);
        if self.query.is_some() {
            shape = format!("q=?{}{shape}", if shape.is_empty() { "" } else { " " });
        }
        let asked = || {
            let body = text(&self.body.bytes);
            match &self.query {
                Some(query) if body.is_empty() => format!("q={}", cut(query, BODY_BYTES_MAX)),
                Some(query) => format!("q={} {body}", cut(query, BODY_BYTES_MAX)),
                None => body,
            }
        };
        Shown { index: cut(index, INDEX_BYTES_MAX), shape, body: with_body.then(asked) }
    }
}

fn text(body: &Bytes) -> String {
    // A character that is cut in two is shown as such.
    String::from_utf8_lossy(&body[..body.len().min(BODY_BYTES_MAX)]).into_owned()
}

fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

#[cfg(test)]
mod tests;
