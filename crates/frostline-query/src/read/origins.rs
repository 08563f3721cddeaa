//! The `_id`s of rows, and the rows of `_id`s.

use std::collections::BTreeSet;

use frostline_base::Share;
use frostline_split::{Block, KeyRange, Origin};
use roaring::RoaringBitmap;

use crate::Result;
use crate::read::view::View;

impl View<'_> {
    /// Where the documents of these rows first landed, which is their `_id`, in row order.
    pub(crate) async fn origins(self, rows: &RoaringBitmap) -> Result<Vec<Origin>> {
        if !self.split().has_origins() {
            return Ok(rows.iter().map(|row| Origin { split: self.open.entry.id, row }).collect());
        }
        let blocks = self.blocks_of_origins(&self.split().origin_keys(rows)).await?;
        self.blocks(&blocks, Share::Index, |read| self.split().origins(rows, read)).await
    }

    /// The rows of the documents that first landed there.
    pub(crate) async fn with_origins(self, origins: &BTreeSet<Origin>) -> Result<RoaringBitmap> {
        if !self.split().has_origins() {
            let here = origins.iter().filter(|origin| origin.split == self.open.entry.id);
            return Ok(here.map(|origin| origin.row).filter(|row| *row < self.split().rows()).collect());
        }
        let splits: BTreeSet<_> = origins.iter().map(|origin| origin.split).collect();
        let blocks = self.blocks_of_origins(&self.split().origin_split_keys(splits)).await?;
        let near = |read: Vec<(&Block, &[u8])>| self.split().rows_near_origins(origins, read);
        let near = self.blocks(&blocks, Share::Index, near).await?;
        let found = near.iter().zip(self.origins(&near).await?);
        Ok(found.filter(|(_, origin)| origins.contains(origin)).map(|(row, _)| row).collect())
    }

    async fn blocks_of_origins(self, keys: &[KeyRange]) -> Result<Vec<Block>> {
        let mut blocks = self.blocks_of(&self.split().origins_table(), keys).await?.concat();
        blocks.sort_unstable_by_key(|block| block.range.start);
        blocks.dedup();
        Ok(blocks)
    }
}

#[cfg(test)]
mod tests;
