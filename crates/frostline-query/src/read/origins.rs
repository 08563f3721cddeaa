//! The `_id`s of rows, and where their documents first landed.

use std::collections::BTreeSet;
use std::fmt::Write;

use arrow::array::{AsArray, StringArray, StringBuilder};
use frostline_base::Share;
use frostline_split::{Block, ID_COLUMN, KeyRange, Origin, TextAs};
use roaring::RoaringBitmap;

use crate::read::fields;
use crate::read::view::View;
use crate::{Error, Result};

/// An origin as an `_id`, about.
const ORIGIN_BYTES: usize = 40;

impl View<'_> {
    /// The `_id`s of the documents of these rows, in row order: what clients called them, or else where they first landed.
    pub(crate) async fn ids(self, rows: &RoaringBitmap) -> Result<StringArray> {
        let given = self.given_ids(rows).await?;
        let numbered = rows.iter().zip(&given).filter(|(_, id)| id.is_none()).map(|(row, _)| row).collect();
        let mut origins = self.origins(&numbered).await?.into_iter();
        let fewer = || Error::internal("fewer origins were read than asked for");
        let mut ids = StringBuilder::with_capacity(given.len(), given.len() * ORIGIN_BYTES);
        // Documents of one split mostly follow one another.
        let (mut split, mut name) = (None, String::new());
        for id in given {
            if let Some(id) = id {
                ids.append_value(id);
                continue;
            }
            let origin = origins.next().ok_or_else(fewer)?;
            if split != Some(origin.split) {
                (split, name) = (Some(origin.split), origin.split.to_string());
            }
            // Texts take any characters.
            let _ = write!(ids, "{name}-{}", origin.row);
            ids.append_value("");
        }
        Ok(ids.finish())
    }

    /// What clients called the documents of these rows, in row order.
    pub(crate) async fn given_ids(self, rows: &RoaringBitmap) -> Result<Vec<Option<String>>> {
        if !self.split().has_identities() || rows.is_empty() {
            return Ok(vec![None; rows.len() as usize]);
        }
        let mut ids = Vec::with_capacity(rows.len() as usize);
        for batch in fields::read_columns(self, &[ID_COLUMN], Some(rows), TextAs::Plain).await? {
            let column = batch.column(0).as_string_opt::<i32>();
            let column =
                column.ok_or_else(|| Error::corrupt("the column of identities does not hold text"))?;
            ids.extend(column.iter().map(|id| id.map(str::to_owned)));
        }
        Ok(ids)
    }

    /// Where the documents of these rows first landed, in row order.
    async fn origins(self, rows: &RoaringBitmap) -> Result<Vec<Origin>> {
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
