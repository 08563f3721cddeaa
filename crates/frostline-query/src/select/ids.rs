//! Documents by `_id`: what a client called them, else where they first landed.

use std::collections::BTreeSet;

use frostline_split::{Entry, KeyRange, Origin, is_hashed};
use futures::future::try_join;
use roaring::RoaringBitmap;

use crate::Result;
use crate::read::view::View;
use crate::select::origins_of;

impl View<'_> {
    /// The rows of the documents with these `_id`s.
    pub(super) async fn with_ids(self, ids: &[String]) -> Result<RoaringBitmap> {
        let (landed, given) = try_join(self.with_origin_ids(ids), self.with_given_ids(ids)).await?;
        Ok(landed | given)
    }

    /// Those that have no other `_id`s than where they first landed.
    async fn with_origin_ids(self, ids: &[String]) -> Result<RoaringBitmap> {
        let origins: BTreeSet<Origin> = origins_of(ids).collect();
        if origins.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        let landed = self.with_origins(&origins).await?;
        let given = self.given_ids(&landed).await?;
        Ok(landed.iter().zip(given).filter(|(_, given)| given.is_none()).map(|(row, _)| row).collect())
    }

    /// Those that clients called so.
    async fn with_given_ids(self, ids: &[String]) -> Result<RoaringBitmap> {
        if !self.split().has_identities() {
            return Ok(RoaringBitmap::new());
        }
        let keys: Vec<KeyRange> = ids.iter().map(|id| self.split().id_key(id)).collect();
        let has_hashes = ids.iter().any(|id| is_hashed(id));
        let take = |entry: Entry<'_>| Some((entry.is_short || has_hashes, entry.postings));
        let found = self.scan(self.split().exact(), &keys, &take).await?;
        let (are_candidates, postings): (Vec<bool>, Vec<_>) = found.into_iter().unzip();
        let (mut sure, mut candidates) = (RoaringBitmap::new(), RoaringBitmap::new());
        for (is_candidate, rows) in are_candidates.into_iter().zip(self.each(postings).await?) {
            *(if is_candidate { &mut candidates } else { &mut sure }) |= rows;
        }
        let given = self.given_ids(&candidates).await?;
        let is_wanted = |given: &Option<String>| given.as_ref().is_some_and(|id| ids.contains(id));
        sure.extend(candidates.iter().zip(&given).filter(|(_, given)| is_wanted(given)).map(|(row, _)| row));
        Ok(sure)
    }
}
